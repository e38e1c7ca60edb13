"""Which heads a model needs, alone and together, and what they do; `hw.heads(run)` does it all."""
