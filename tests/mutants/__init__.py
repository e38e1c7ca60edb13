"""Planted bugs: each changes a few characters of headway, and the tests must notice it."""
