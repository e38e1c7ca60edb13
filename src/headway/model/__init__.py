"""The transformer: attention written out, encodings and poolings; independent of tasks and runs."""
