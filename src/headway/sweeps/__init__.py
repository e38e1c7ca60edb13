"""Many runs: a grid or a search over a recipe's settings, on this machine or on a Ray cluster."""
