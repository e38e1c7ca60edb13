"""Random numbers that are counted, not consumed: each comes from (seed, purpose, counters).

A seed trained alone, trained in a stack, or resumed halfway sees the same numbers,
because nothing depends on how many were drawn before.
"""

import hashlib

import numpy as np


def derive(seed: int, purpose: str, *counters: int) -> int:
    """A 63-bit integer fixed by the seed, the purpose and the counters, and by nothing else."""
    text = "/".join([str(seed), purpose, *map(str, counters)])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """A NumPy generator that starts at `derive(seed, purpose, *counters)`."""
    return np.random.Generator(np.random.PCG64(derive(seed, purpose, *counters)))
