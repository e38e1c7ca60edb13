"""Ratios against what people would use instead, each measured side by side in one run. `make bench` runs them all."""
