"""Types and checks of counts and shares."""

from functools import cache

import numpy as np
from scipy.stats import norm

Counts = int | np.integer | np.ndarray
Shares = float | np.floating | np.ndarray


def as_counts(**counts: Counts) -> tuple[np.ndarray, ...]:
    """Counts as arrays of one shape, in floating point so that products of counts do not overflow."""
    arrays = np.broadcast_arrays(*(np.asarray(count, dtype=float) for count in counts.values()))
    for name, array in zip(counts, arrays, strict=True):
        if (array < 0).any():
            raise ValueError(f"{name} must be at least 0, got {int(array.min())}")
    return tuple(arrays)


def check_successes(successes: int, n: int) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie in 0..{n}, got {successes}")


def check_share(name: str, share: Shares, lowest: int) -> None:
    array = np.asarray(share)
    bad = ~((lowest <= array) & (array <= 1))
    if bad.any():
        raise ValueError(f"{name} must lie in {lowest}..1, got {array[bad][0]:g}")


@cache
def normal_quantile(confidence: float) -> float:
    """How many standard deviations an interval of this confidence reaches to either side.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    return float(norm.ppf(0.5 + confidence / 2))
