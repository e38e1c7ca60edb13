"""Which heads a model needs, alone and together, and what they do; `hw.heads(run)` does it all."""

from headway.lazy import make_callable

make_callable(__name__, "headway.heads.analysis:analyse")
