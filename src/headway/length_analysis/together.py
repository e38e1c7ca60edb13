"""What several seeds say together about lengths. The seed is the unit: nothing is pooled over examples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.statistics import ENOUGH_SEEDS, clopper_pearson, median_interval

REACHES = (4, 16, 64)
"""Multiples of the longest training length that seeds are counted at."""

Document = Mapping[str, Any]


def together(documents: Sequence[Document]) -> dict[str, Any]:
    """Lengths held and accuracies of several seeds of one recipe; fewer than six are labelled descriptive.

    Only what every seed was tested on counts: the same sets at the same lengths, with as many examples.
    """
    if not documents:
        raise InputError("no lengths were measured: nothing can be put together")
    first = documents[0]
    for other in documents[1:]:
        if _tested(other) != _tested(first):
            raise InputError(
                f"{first['run']} and {other['run']} were measured at different lengths or with another n; "
                "measure both with the same --at and --n"
            )
    constant = [document["constant"] for document in documents if document["constant"]]
    return {
        "n_seeds": len(documents),
        "seeds": [document["seed"] for document in documents],
        "descriptive": len(documents) < ENOUGH_SEEDS,
        "constant_seeds": len(constant),
        "length_held": held_over_seeds([document["length_held"] for document in documents]),
        "sets": {name: _of_set(documents, name) for name in first["held"]},
        "lengths": [_of_row(documents, index) for index in range(len(first["lengths"]))],
    }


def _tested(document: Document) -> tuple[Any, ...]:
    rows = [(row["negatives"], row["length"]) for row in document["lengths"]]
    return document["task"], document["n"], document["threshold"], rows


def held_over_seeds(values: Sequence[int]) -> dict[str, Any]:
    """Every seed's length held, their median, and its interval from order statistics (none under six seeds)."""
    interval = median_interval(values)
    return {
        "held": [int(value) for value in values],
        "median": float(np.median(values)),
        "interval": None if interval is None else list(interval),
    }


def _of_set(documents: Sequence[Document], name: str) -> dict[str, Any]:
    values = [document["held"][name] for document in documents]
    longest = documents[0]["training"]["longest"]
    tested = max(row["length"] for row in documents[0]["lengths"])
    reach = [reached(values, times, longest) for times in REACHES if times * longest <= tested]
    return {**held_over_seeds(values), "reach": reach}


def reached(values: Sequence[int], times: int, longest: int) -> dict[str, Any]:
    """How many seeds hold to a multiple of the longest training length, with a Clopper-Pearson interval."""
    seeds = sum(value >= times * longest for value in values)
    return {
        "times": times,
        "length": times * longest,
        "seeds": seeds,
        "share": seeds / len(values),
        "interval": list(clopper_pearson(seeds, len(values))),
    }


def _of_row(documents: Sequence[Document], index: int) -> dict[str, Any]:
    """One set at one length: every seed's accuracy, mean and median, and the median's interval (from six seeds on).

    The interval keeps both errors, that of the seeds and that of the examples, which all seeds share.
    """
    rows = [document["lengths"][index] for document in documents]
    row, values = rows[0], [row["accuracy"] for row in rows]
    interval = median_interval(values, own=[row["interval"] for row in rows])
    return {
        "length": row["length"],
        "negatives": row["negatives"],
        "trained": row["trained"],
        "accuracies": values,
        "mean": float(np.mean(values)),
        "median": float(np.median(values)),
        "interval": None if interval is None else list(interval),
    }
