"""Checks of a published table of heads: a baseline without accuracy to lose, and drops inside the noise."""

from collections.abc import Iterable

import numpy as np

from headway.diagnosis.explanations import CLASS, share_of
from headway.diagnosis.foreign import ForeignData
from headway.diagnosis.published_results import Claim, Point, Series
from headway.narration.numbers import percent
from headway.results.doctor import Finding
from headway.statistics import above_share, holm, mcnemar

HOPELESS = 0.02
"""Accuracy of whole answers below which a head has nothing to lose."""


def _baseline_of(one: Series, series: Iterable[Series], claims: list[Claim]) -> Point | None:
    """The baseline accuracy of a table of heads: given, or drop plus accuracy, or the only accuracy."""
    baselines = {other.label: other.points[0] for other in series if other.kind == "baseline"}
    found = baselines.get(f"{one.label} baseline".strip())
    if found is not None or len(baselines) == 1:
        return found or next(iter(baselines.values()))
    drops = {point.place: point for other in series if other.kind == "drop" for point in other.points}
    heads = {point.place: point for other in series if other.kind == "head" for point in other.points}
    sums = {round(heads[place].value + drops[place].value, 9) for place in heads if place in drops}
    if len(sums) == 1:
        point = next(iter(heads.values()))
        value = sums.pop()
        return Point(None, f"{value:g}", value, point.half)
    alone = [claim.points[0] for claim in claims if claim.kind == "single" and len(claim.points) == 1]
    return alone[0] if len(alone) == 1 else None


def nothing_to_lose(series: Iterable[Series], claims: list[Claim], data: ForeignData) -> Iterable[Finding]:
    """Tables of heads of a model with too few right answers, or too close to guessing, for a drop."""
    for one in series:
        base = _baseline_of(one, series, claims) if one.kind in ("head", "drop") else None
        base = one.points[0] if one.kind == "baseline" and one.points[0].value < HOPELESS else base
        if base is None:
            continue
        n = len(data.measured[0])
        right = round(base.value * n)
        if data.task.kind == "class":
            share = share_of(CLASS[0], data, data.measured[0])
            majority = max(share.right, share.n - share.right) / share.n
            if above_share(right, n, majority) <= 0.05:
                continue
            why = f"the more frequent class alone makes up {percent(majority)}"
        else:
            least = _least(len(one.points), n)
            if base.value >= HOPELESS and right >= least:
                continue
            why = f"{right:,} right answers of {n:,} are all there is"
        evidence = (
            f"The accuracy before any head is removed is {base.text}, and {why}: there is no accuracy to lose, so "
            "the drops of heads mean nothing."
        )
        numbers = {"baseline": base.value, "n": n, "heads": len(one.points), "claims": [base.text]}
        fix = "Train the model until it is far better than guessing; then ablate."
        yield Finding("nothing-to-lose", "error", "claims", evidence, numbers, fix)
        return


def _least(heads: int, n: int) -> int:
    """The smallest number of lost answers that is significant for this many heads."""
    return next((k for k in range(1, n + 1) if heads * float(mcnemar(k, 0)) <= 0.05), n + 1)


def drops_inside_noise(series: Iterable[Series], claims: list[Claim], data: ForeignData) -> Iterable[Finding]:
    """Drops of ablated heads that are not significant on a test set of this size, even in the best case.

    In the best case, removing the head turned no wrong answer into a right one.
    """
    told = {one.label for one in series if one.kind == "drop"}
    n = len(data.measured[0])
    for one in series:
        drops = [] if one.kind == "head" and one.label in told else _drops_of(one, series, claims)
        if not drops:
            continue
        lost = np.array([round(abs(drop) * n) for _, drop in drops])
        p = holm(mcnemar(lost, 0))
        weak = [
            f"{name} ({percent(drop)})"
            for (name, drop), value in zip(drops, p, strict=True)
            if round(abs(drop) * n) and value > 0.05
        ]
        least = _least(len(drops), n)
        if weak:
            evidence = (
                f"{len(weak)} of {len(drops)} heads have a drop that is not significant on {n:,} examples, even if "
                f"nothing was gained: {', '.join(weak[:5])}. For {len(drops)} heads it takes {percent(least / n)} "
                f"({least} examples)."
            )
            numbers = {"weak": len(weak), "heads": len(drops), "n": n, "smallest": least / n}
            fix = "Report these as undecided; measure on more examples or several seeds."
            yield Finding("drop-inside-noise", "warning", "claims", evidence, numbers, fix)


def _drops_of(one: Series, series: Iterable[Series], claims: list[Claim]) -> list[tuple[str, float]]:
    if one.kind == "drop":
        return [(str(point.place), point.value) for point in one.points]
    baseline = _baseline_of(one, series, claims) if one.kind == "head" else None
    return [(str(point.place), baseline.value - point.value) for point in one.points] if baseline else []
