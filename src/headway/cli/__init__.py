"""The command line: one command a file; what is slow to import is imported inside the functions."""
