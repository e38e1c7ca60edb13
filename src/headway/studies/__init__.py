"""Whole experiments: arms of a recipe with its settings varied, trained, measured and told as one answer."""
