"""Attacks on headway, counted: each row of docs/faults.md is a module of `faults.rows`."""
