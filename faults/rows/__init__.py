"""One module for each attack; its `ROW` says what is tried and what must hold."""
