"""What commands print and write on committed runs, recorded: a number or word that changes is noticed, whatever it is.

`python -m tests.recorded --write` records anew. A change of a recorded value belongs into the commit that explains it.
"""
