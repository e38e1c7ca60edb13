"""The explorer: one HTML file in which a run's model computes and its heads can be ablated."""
