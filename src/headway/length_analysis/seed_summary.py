"""Lengths held and accuracies over several seeds. The seed is the unit: examples are not pooled."""

from collections.abc import Sequence

import numpy as np

from headway.errors import InputError
from headway.results.lengths import HeldOverSeeds, Lengths, Reach, RowOverSeeds, SeedSummary, SetOverSeeds
from headway.statistics import ENOUGH_SEEDS, clopper_pearson, median_interval

REACHES = (4, 16, 64)
"""Multiples of the longest training length at which seeds are counted."""


def together(runs: Sequence[Lengths]) -> SeedSummary:
    """Lengths held and accuracies of several seeds of one recipe; fewer than six seeds are labelled descriptive.

    All seeds must be measured on the same sets and lengths with the same n.
    """
    if not runs:
        raise InputError("no lengths were measured: there is nothing to summarise")
    first = runs[0]
    for other in runs[1:]:
        if _tested(other) != _tested(first):
            raise InputError(
                f"{first.run} and {other.run} were measured at different lengths or with another n; "
                "measure both with the same --at and --n"
            )
    return SeedSummary(
        n_seeds=len(runs),
        seeds=tuple(run.seed for run in runs),
        descriptive=len(runs) < ENOUGH_SEEDS,
        constant_seeds=sum(run.constant is not None for run in runs),
        length_held=held_over_seeds([run.length_held for run in runs]),
        sets={name: _of_set(runs, name) for name in first.held},
        rows=tuple(_of_row(runs, index) for index in range(len(first.rows))),
    )


def _tested(run: Lengths) -> tuple[object, ...]:
    return run.task, run.n, run.threshold, [(row.set_name, row.length) for row in run.rows]


def held_over_seeds(values: Sequence[int]) -> HeldOverSeeds:
    """Each seed's length held, the median, and its interval from order statistics (none below six seeds)."""
    return HeldOverSeeds(held=tuple(values), median=float(np.median(values)), interval=median_interval(values))


def _of_set(runs: Sequence[Lengths], name: str) -> SetOverSeeds:
    values = [run.held[name] for run in runs]
    longest, tested = runs[0].training.longest, max(row.length for row in runs[0].rows)
    reach = tuple(reached(values, times, longest) for times in REACHES if times * longest <= tested)
    return SetOverSeeds(**vars(held_over_seeds(values)), reach=reach)


def reached(values: Sequence[int], times: int, longest: int) -> Reach:
    """The number of seeds that hold a multiple of the longest training length, with a Clopper-Pearson interval."""
    seeds = sum(value >= times * longest for value in values)
    interval = clopper_pearson(seeds, len(values))
    return Reach(times=times, length=times * longest, seeds=seeds, share=seeds / len(values), interval=interval)


def _of_row(runs: Sequence[Lengths], index: int) -> RowOverSeeds:
    """One set at one length: each seed's accuracy, mean, median, and the median's interval (from six seeds on).

    The interval includes both errors: between seeds, and of the examples, which all seeds share.
    """
    rows = [run.rows[index] for run in runs]
    values = [row.accuracy for row in rows]
    return RowOverSeeds(
        length=rows[0].length,
        set_name=rows[0].set_name,
        trained=rows[0].trained,
        accuracies=tuple(values),
        mean=float(np.mean(values)),
        median=float(np.median(values)),
        interval=median_interval(values, own=[row.interval for row in rows]),
    )
