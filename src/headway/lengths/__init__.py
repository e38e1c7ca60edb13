"""How far past its training lengths a model holds, and what decides it; `hw.lengths(run)` measures it."""

from headway.lazy import make_callable

make_callable(__name__, "headway.lengths.measure:measure_lengths")
