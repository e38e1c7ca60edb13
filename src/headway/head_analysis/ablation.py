"""The accuracy that a model loses without each head, by four kinds of ablation, with intervals and tests.

    zero            the output is 0
    mean            its mean output over the examples
    position-mean   its mean output at each position
    resample        its output on another example of the split, drawn once

The drop of whole-answer accuracy is in points (100 = everything). Every example is its own control: `lost`
counts those right before and wrong after, `gained` those wrong before and right after.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.callbacks import OnProgress
from headway.head_analysis.head_runs import KINDS, HeadRuns, heads_in
from headway.head_analysis.instrument import OneStep, Subject
from headway.head_analysis.margins import with_margin, with_margins
from headway.head_analysis.variants import Outcomes
from headway.head_analysis.verdicts import (
    TAILS,
    CountedDrops,
    Drops,
    MeasuredDrops,
    examples_to_decide,
    judge_drops,
    overall,
    share_of_drops_under,
)
from headway.model.sites import Head
from headway.narration.numbers import percent
from headway.results.heads import Baseline, Drop, Prunable, Spread, TokenAccuracy
from headway.statistics import Moments, moments_of, ratio_interval, wilson_interval

ENOUGH_RIGHT = 0.9
"""Below this accuracy a warning says that the model has little accuracy to lose."""


@dataclass(frozen=True)
class Ablation:
    """The result of ablating every head alone, for every kind of ablation: `drops[kind][head]`."""

    baseline: Baseline
    heads: list[str]
    drops: dict[str, dict[str, Drop]]
    verdicts: dict[str, str]
    without_source: int = 0
    family: int = field(default=0)

    def prunable(self) -> dict[str, Prunable]:
        """The share of heads that can be removed one at a time, by three measures; the first two have a 95 %
        interval.
        """
        return {kind: prunable(list(drops.values())) for kind, drops in self.drops.items()}

    def warnings(self) -> list[str]:
        """Warnings about the verdicts."""
        share, found = self.baseline.accuracy, []
        if share < ENOUGH_RIGHT:
            found.append(
                f"the model gets {percent(share)} right as it is: no head can cost more than that, "
                "and small drops hide among answers that are wrong anyway"
            )
        if self.without_source:
            found.append(
                f"{self.without_source:,} examples have no other of their lengths: resample leaves them as they are"
            )
        return found


class SingleAblation(OneStep[Ablation]):
    """The drop of each head alone."""

    name, result = "ablation", Ablation

    def make(self, subject: Subject, progress: OnProgress) -> Ablation:
        return ablate(subject.runs, progress=progress)


def prunable(drops: Sequence[Drop]) -> Prunable:
    changes, told = [drop.loss_change for drop in drops], drops_of(drops)
    return Prunable(
        under_1_point=_share(drop.drop < 1 for drop in drops),
        under_1_point_interval=share_of_drops_under(told, len(drops), 1),
        under_5_points=_share(drop.drop < 5 for drop in drops),
        under_5_points_interval=share_of_drops_under(told, len(drops), 5),
        under_1_percent_of_loss=_share(change is not None and change < 1 for change in changes),
    )


def drops_of(drops: Sequence[Drop]) -> Drops:
    """The drops of a document, so that more can be claimed of them."""
    spreads = [drop.spread for drop in drops if drop.spread is not None]
    if len(spreads) == len(drops) and drops:
        rows_of = zip(drops, spreads, strict=True)
        parts = [(drop.drop / 100 * drop.n / one.n, one.deviation, one.skewness, one.n) for drop, one in rows_of]
        return MeasuredDrops(Moments(*np.array(parts, dtype=np.float64).T))
    rows = [(drop.lost, drop.gained, drop.n) for drop in drops]
    return CountedDrops(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


def _share(flags: Iterable[bool]) -> float:
    found = list(flags)
    return sum(found) / len(found) if found else 0.0


def ablate(
    runs: HeadRuns, *, kinds: Sequence[str] = KINDS, progress: OnProgress = lambda done, total: None
) -> Ablation:
    """Ablate every head alone, by every kind of ablation, in one sweep."""
    heads = heads_in(runs.sites)
    alone = np.eye(len(heads), dtype=np.int64)
    plan = np.concatenate([np.zeros((1, len(heads)), dtype=np.int64), *(alone * (k + 1) for k in range(len(kinds)))])
    outcomes = runs.run(plan, kinds, progress, keep_margin=True)
    names = runs.answer_names(outcomes.counted.shape[1])
    drops, baseline = measure_drops(outcomes, names, runs.largest_change), baseline_of(outcomes, names)
    if outcomes.margin is not None:
        drops, baseline = with_margins(drops, outcomes.margin), with_margin(baseline, outcomes.margin)
    table = {
        kind: {str(head): drops[k * len(heads) + h] for h, head in enumerate(heads)} for k, kind in enumerate(kinds)
    }
    verdicts = {str(head): overall([table[kind][str(head)].verdict for kind in kinds]) for head in heads}
    without = runs.without_source() if "resample" in kinds else 0
    return Ablation(baseline, [str(h) for h in heads], table, verdicts, without, TAILS * len(drops))


def ablate_together(runs: HeadRuns, sets: Sequence[Sequence[Head]], kind: str = "zero") -> list[Drop]:
    """Ablate sets of heads, each set as a whole."""
    heads = heads_in(runs.sites)
    plan = np.stack([np.zeros(len(heads), dtype=np.int64), *(as_row(heads, chosen) for chosen in sets)])
    outcomes = runs.run(plan, [kind])
    return measure_drops(outcomes, runs.answer_names(outcomes.counted.shape[1]), runs.largest_change)


def as_row(heads: Sequence[Head], chosen: Sequence[Head]) -> Int[np.ndarray, " head"]:
    """A row of head masks that ablates the chosen heads."""
    row = np.zeros(len(heads), dtype=np.int64)
    row[[heads.index(head) for head in chosen]] = 1
    return row


def baseline_of(outcomes: Outcomes, names: list[str]) -> Baseline:
    """The first variant, which changes nothing."""
    n = outcomes.right.shape[1]
    right = int(outcomes.right[0].sum())
    return Baseline(
        n=n,
        wrong=n - right,
        accuracy=right / n,
        interval=wilson_interval(right, n),
        token_accuracy=float(outcomes.token_accuracy[0]),
        by_token=_by_token(outcomes, 0, names),
        loss=float(outcomes.mean_loss[0]),
    )


def _by_token(outcomes: Outcomes, variant: int, names: list[str]) -> tuple[TokenAccuracy, ...]:
    """Accuracy at each answer position where any answer has a token; a small sample may have no answer of full
    length.
    """
    there = np.asarray(outcomes.counted.any(0))
    shares = outcomes.accuracy_by_token[variant]
    rows = zip(names, shares, there, strict=True)
    return tuple(TokenAccuracy(token=name, accuracy=float(share)) for name, share, counted in rows if counted)


def measure_drops(outcomes: Outcomes, names: list[str], largest: float | None = None) -> list[Drop]:
    """Test every variant against the first; all tests are one family."""
    n, after = outcomes.right.shape[1], len(outcomes) - 1
    lost, gained = count_changes(outcomes.right[0], outcomes.right[1:])
    found = paired_drops(outcomes.values[:1], outcomes.values[1:], largest)
    judged, points = judge_drops(found), drops_in_points(outcomes)
    losses, baseline = outcomes.mean_loss[1:], float(outcomes.mean_loss[0])
    needed = [
        examples_to_decide(found, i, n, TAILS * after) if verdict == "undecided" else None
        for i, verdict in enumerate(judged.verdict)
    ]
    return [
        Drop(
            n=n,
            lost=int(lost[i]),
            gained=int(gained[i]),
            drop=float(points[i]),
            interval=judged.ends(i),
            interval_90=judged.ends_90(i),
            p=float(judged.p[i]),
            p_holm=float(judged.p_holm[i]),
            p_equivalence=float(judged.p_equivalence[i]),
            p_equivalence_holm=float(judged.p_equivalence_holm[i]),
            p_critical_holm=float(judged.p_critical_holm[i]),
            p_important_holm=float(judged.p_important_holm[i]),
            p_harmful_holm=float(judged.p_harmful_holm[i]),
            verdict=str(judged.verdict[i]),
            n_to_decide=needed[i],
            accuracy=float(outcomes.accuracy[i + 1]),
            token_accuracy=float(outcomes.token_accuracy[i + 1]),
            by_token=_by_token(outcomes, i + 1, names),
            loss=float(losses[i]),
            loss_change=100 * (float(losses[i]) / baseline - 1) if baseline > 0 else None,
            loss_change_interval=_loss_change_interval(outcomes, i + 1),
            spread=_spread(found, i),
        )
        for i in range(after)
    ]


def _loss_change_interval(outcomes: Outcomes, variant: int) -> tuple[float, float] | None:
    """The interval of the change of the mean loss, in per cent.

    Examples are the same before and after, so token counts cancel.
    """
    if outcomes.loss.shape[1] < 2:
        return None
    found = ratio_interval(outcomes.loss[0], outcomes.loss[variant])
    return None if found is None else (100 * (found[0] - 1), 100 * (found[1] - 1))


def count_changes(
    before: Bool[np.ndarray, " example"], after: Bool[np.ndarray, "variant example"]
) -> tuple[Int[np.ndarray, " variant"], Int[np.ndarray, " variant"]]:
    """How many examples each variant lost, and how many it gained."""
    return (before & ~after).sum(1), (~before & after).sum(1)


def paired_drops(before: np.ndarray, after: np.ndarray, largest: float | None = None) -> Drops:
    """The paired drops between values of the same examples, along the last axis: right or wrong, or of any size."""
    if before.dtype == bool:
        lost, gained = (before & ~after).sum(-1), (~before & after).sum(-1)
        return CountedDrops(lost, gained, before.shape[-1])
    return MeasuredDrops(moments_of(before.astype(np.float64) - after, largest))


def drops_in_points(outcomes: Outcomes) -> Float[np.ndarray, " variant"]:
    """The drop of every variant but the first, in points."""
    if outcomes.value is None:
        lost, gained = count_changes(outcomes.right[0], outcomes.right[1:])
        return np.asarray(100 * (lost - gained).astype(np.float64) / outcomes.right.shape[1])
    return np.asarray(100 * (outcomes.value[:1].astype(np.float64) - outcomes.value[1:]).mean(1))


def _spread(found: Drops, one: int) -> Spread | None:
    if not isinstance(found, MeasuredDrops):
        return None
    deviation, skewness, n = (x[one] for x in (found.found.deviation, found.found.skewness, found.found.n))
    return Spread(n=int(n), deviation=float(deviation), skewness=float(skewness))


def paired_drop(
    before: np.ndarray, after: np.ndarray, largest: float | None = None
) -> tuple[float, tuple[float, float]]:
    """The drop between two variants on the same examples, in points, and its 95 % interval."""
    low, high = paired_drops(before, after, largest).interval(0.95)
    if before.dtype == bool:
        lost, gained = (int(count[0]) for count in count_changes(before, after[None]))
        mean = 100 * (lost - gained) / len(before)
    else:
        mean = 100 * float((before.astype(np.float64) - after).mean())
    return mean, (100 * float(low), 100 * float(high))
