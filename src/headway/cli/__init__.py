"""The command line, with one command per file; slow imports are inside the functions."""
