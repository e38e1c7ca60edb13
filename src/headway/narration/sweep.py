"""Sentences about the progress of a sweep."""


def trials(finished: int, planned: int, stopped: int = 0, failed: int = 0) -> str:
    """How many trials have finished, were stopped and failed.

    >>> trials(2, 18, stopped=16), trials(1, 4, failed=3)
    ('2 of 18 trials finished, 16 stopped at a rung', '1 of 4 trials finished, 3 failed')
    """
    rest = f", {stopped:,} stopped at a rung" * bool(stopped) + f", {failed:,} failed" * bool(failed)
    return f"{finished:,} of {planned:,} trials finished{rest}"
