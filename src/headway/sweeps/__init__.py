"""Sweeps: many runs in a grid or search over a recipe's settings, on this machine or on a Ray cluster."""
