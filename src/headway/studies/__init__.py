"""Whole experiments: recipes with varied settings, trained, measured and summarised in one answer."""
