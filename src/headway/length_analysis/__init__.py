"""How far past its training lengths a model holds, and what decides it; `hw.lengths(run)` measures it."""
