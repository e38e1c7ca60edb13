"""Counter-based random numbers: each is a function of (seed, purpose, counters).

A seed that is trained alone, trained in a stack, or resumed gets the same numbers, because no number depends on how
many were drawn before.
"""

import hashlib

import numpy as np


def derive(seed: int, purpose: str, *counters: int) -> int:
    """A 63-bit integer that depends only on the seed, the purpose and the counters."""
    text = "/".join([str(seed), purpose, *map(str, counters)])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """A NumPy generator seeded with `derive(seed, purpose, *counters)`."""
    return np.random.Generator(np.random.PCG64(derive(seed, purpose, *counters)))
