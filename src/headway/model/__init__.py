"""The transformer: attention written out, encodings and poolings; knows nothing of tasks or runs."""
