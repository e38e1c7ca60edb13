"""Length generalization: the length that a model holds and which heads change with length; see `hw.lengths(run)`."""
