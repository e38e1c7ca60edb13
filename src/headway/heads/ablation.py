"""What a model loses without each head, in four ways of taking it away, and how sure that is.

    zero            the head brings nothing
    mean            its mean output over the examples
    position-mean   its mean output at each place
    resample        its output on another example of the split, drawn once and for all

The drop of whole-answer accuracy is in points (100 = everything). Every example is its own control: `lost`
counts those right before and wrong after, `gained` those wrong before and right after.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from headway.errors import InputError, suggestion
from headway.evaluation import Trained
from headway.heads.margins import BaselineMargin, MarginChange, baseline_margin, margin_changes
from headway.heads.variants import (
    FillingOf,
    Outcomes,
    Report,
    donor,
    heads_of,
    means,
    pick_donors,
    run_variants,
    zero,
)
from headway.model.sites import Head
from headway.randomness import generator
from headway.statistics import equivalence, holm, mcnemar, paired_interval, wilson_interval
from headway.tasks import Examples

KINDS = ("zero", "mean", "position-mean", "resample")
CRITICAL, IMPORTANT = 10.0, 1.0
"""Points of drop above which a head is critical or important; within IMPORTANT either way it is redundant."""
ALPHA = 0.05
LARGEST_N = 10_000_000
"""More examples than this would not be a plan."""


@dataclass(frozen=True)
class Drop:
    """What one change costs: the paired drop in points with its interval and tests, and the loss."""

    n: int
    lost: int
    gained: int
    drop: float
    interval: tuple[float, float]
    interval_90: tuple[float, float]
    p: float
    p_holm: float
    p_equivalence: float
    p_equivalence_holm: float
    verdict: str
    n_to_decide: int | None
    exact_match: float
    token_accuracy: float
    by_token: list[dict[str, Any]]
    loss: float
    loss_change: float | None


@dataclass(frozen=True)
class Baseline:
    """The model as it is, on the same examples."""

    n: int
    wrong: int
    exact_match: float
    interval: tuple[float, float]
    token_accuracy: float
    by_token: list[dict[str, Any]]
    loss: float


@dataclass(frozen=True)
class Ablation:
    """Every head taken away alone, in every kind; `drops[kind][head]`."""

    baseline: Baseline
    heads: list[str]
    drops: dict[str, dict[str, Drop]]
    verdicts: dict[str, str]
    without_donor: int = 0
    family: int = field(default=0)
    own_margin: BaselineMargin | None = None
    margins: dict[str, dict[str, MarginChange]] = field(default_factory=dict)
    """`margins[kind][head]`: the margin of the right answer, where accuracy is too coarse."""

    def prunable(self) -> dict[str, dict[str, float]]:
        """The share of heads that can go, one at a time, by three measures."""
        return {
            kind: {
                "under_1_point": _share(drop.drop < 1 for drop in drops.values()),
                "under_5_points": _share(drop.drop < 5 for drop in drops.values()),
                "under_1_percent_of_loss": _share(
                    drop.loss_change is not None and drop.loss_change < 1 for drop in drops.values()
                ),
            }
            for kind, drops in self.drops.items()
        }

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _share(flags: Any) -> float:
    flags = list(flags)
    return sum(flags) / len(flags) if flags else 0.0


def make_fillings(trained: Trained, examples: Examples, kinds: Sequence[str] = KINDS) -> tuple[list[FillingOf], int]:
    """What to put in a head's place for each kind, and how many examples had no other to take from."""
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"unknown kind of ablation {kind!r}; {suggestion(kind, KINDS)}")
    fillings: dict[str, FillingOf] = {"zero": zero}
    without = 0
    if "mean" in kinds or "position-mean" in kinds:
        fillings["mean"], fillings["position-mean"] = means(trained, examples)
    if "resample" in kinds:
        donors = pick_donors(trained, examples, generator(trained.config.data.seed, "donors"))
        without = int((donors == np.arange(len(examples))).sum())
        fillings["resample"] = donor(trained, examples.take(donors))
    return [fillings[kind] for kind in kinds], without


def ablate(
    trained: Trained,
    examples: Examples,
    *,
    kinds: Sequence[str] = KINDS,
    report: Report = lambda done, total: None,
) -> Ablation:
    """Every head alone in every kind, in one sweep."""
    heads = heads_of(trained)
    fillings, without = make_fillings(trained, examples, kinds)
    alone = np.eye(len(heads), dtype=np.int64)
    plan = np.concatenate([np.zeros((1, len(heads)), dtype=np.int64), *(alone * (k + 1) for k in range(len(kinds)))])
    outcomes = run_variants(trained, examples, plan, fillings, report, keep_margin=True)
    assert outcomes.margin is not None
    names = trained.task.answer_names(outcomes.counted.shape[1])
    drops, changes = measure_drops(outcomes, names), margin_changes(outcomes.margin)
    table = {
        kind: {str(head): drops[k * len(heads) + h] for h, head in enumerate(heads)} for k, kind in enumerate(kinds)
    }
    margins = {
        kind: {str(head): changes[k * len(heads) + h] for h, head in enumerate(heads)} for k, kind in enumerate(kinds)
    }
    verdicts = {str(head): overall([table[kind][str(head)].verdict for kind in kinds]) for head in heads}
    return Ablation(
        baseline_of(outcomes, names),
        [str(h) for h in heads],
        table,
        verdicts,
        without,
        2 * len(drops),
        baseline_margin(outcomes.margin),
        margins,
    )


def ablate_together(
    trained: Trained, examples: Examples, sets: Sequence[Sequence[Head]], kind: str = "zero"
) -> list[Drop]:
    """Any sets of heads, each taken away as a whole."""
    heads = heads_of(trained)
    fillings, _ = make_fillings(trained, examples, [kind])
    plan = np.stack([np.zeros(len(heads), dtype=np.int64), *(as_row(heads, chosen) for chosen in sets)])
    outcomes = run_variants(trained, examples, plan, fillings)
    return measure_drops(outcomes, trained.task.answer_names(outcomes.counted.shape[1]))


def as_row(heads: Sequence[Head], chosen: Sequence[Head]) -> Int[np.ndarray, " head"]:
    """A plan's row that takes away the chosen heads."""
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
        exact_match=right / n,
        interval=wilson_interval(right, n),
        token_accuracy=float(outcomes.token_accuracy[0]),
        by_token=_by_token(outcomes, 0, names),
        loss=float(outcomes.mean_loss[0]),
    )


def _by_token(outcomes: Outcomes, variant: int, names: list[str]) -> list[dict[str, Any]]:
    """Accuracy at each place where any answer has a token; few examples may all be shorter than the longest."""
    there = np.asarray(outcomes.counted.any(0))
    shares = outcomes.accuracy_by_token[variant]
    rows = zip(names, shares, there, strict=True)
    return [{"token": name, "accuracy": float(share)} for name, share, counted in rows if counted]


def measure_drops(outcomes: Outcomes, names: list[str]) -> list[Drop]:
    """Every variant against the first, one family of tests: each difference and each equivalence is in it."""
    before, after = outcomes.right[0], outcomes.right[1:]
    lost, gained = count_changes(before, after)
    n, judged = len(before), judge(lost, gained, len(before))
    losses, baseline = outcomes.mean_loss[1:], float(outcomes.mean_loss[0])
    needed = [
        n_to_decide(int(lost[i]), int(gained[i]), n, 2 * len(after)) if verdict == "undecided" else None
        for i, verdict in enumerate(judged.verdict)
    ]
    return [
        Drop(
            n=n,
            lost=int(lost[i]),
            gained=int(gained[i]),
            drop=100 * float(lost[i] - gained[i]) / n,
            interval=judged.ends(i),
            interval_90=judged.ends_90(i),
            p=float(judged.p[i]),
            p_holm=float(judged.p_holm[i]),
            p_equivalence=float(judged.p_equivalence[i]),
            p_equivalence_holm=float(judged.p_equivalence_holm[i]),
            verdict=str(judged.verdict[i]),
            n_to_decide=needed[i],
            exact_match=float(outcomes.accuracy[i + 1]),
            token_accuracy=float(outcomes.token_accuracy[i + 1]),
            by_token=_by_token(outcomes, i + 1, names),
            loss=float(losses[i]),
            loss_change=100 * (float(losses[i]) / baseline - 1) if baseline > 0 else None,
        )
        for i in range(len(after))
    ]


def count_changes(
    before: Bool[np.ndarray, " example"], after: Bool[np.ndarray, "variant example"]
) -> tuple[Int[np.ndarray, " variant"], Int[np.ndarray, " variant"]]:
    """How many examples each variant lost, and how many it gained."""
    return (before & ~after).sum(1), (~before & after).sum(1)


def paired_drop(before: Bool[np.ndarray, " example"], after: Bool[np.ndarray, " example"]) -> dict[str, Any]:
    """The drop from one way of answering to another on the same examples, in points, with its 95 % interval."""
    lost, gained = (int(count[0]) for count in count_changes(before, after[None]))
    low, high = paired_interval(lost, gained, len(before))
    return {"drop": 100 * (lost - gained) / len(before), "drop_interval": (100 * float(low), 100 * float(high))}


@dataclass(frozen=True)
class Judged:
    """A family of paired drops: intervals in points, tests with and without Holm's correction, verdicts."""

    low: np.ndarray
    high: np.ndarray
    low_90: np.ndarray
    high_90: np.ndarray
    p: np.ndarray
    p_holm: np.ndarray
    p_equivalence: np.ndarray
    p_equivalence_holm: np.ndarray
    verdict: np.ndarray

    def ends(self, index: int) -> tuple[float, float]:
        return float(self.low[index]), float(self.high[index])

    def ends_90(self, index: int) -> tuple[float, float]:
        return float(self.low_90[index]), float(self.high_90[index])


def judge(lost: Int[np.ndarray, " test"], gained: Int[np.ndarray, " test"], n: int) -> Judged:
    """Judge drops as one family: every difference and every equivalence counts in Holm's correction."""
    p, p_same = mcnemar(lost, gained), equivalence(lost, gained, n, IMPORTANT / 100)
    p_holm, p_same_holm = holm(np.concatenate([p, p_same])).reshape(2, -1)
    low, high = (100 * end for end in paired_interval(lost, gained, n))
    low_90, high_90 = (100 * end for end in paired_interval(lost, gained, n, confidence=0.90))
    verdict = decide(low, high, low_90, high_90, p_holm, p_same_holm)
    return Judged(low, high, low_90, high_90, p, p_holm, p_same, p_same_holm, verdict)


def decide(
    low: np.ndarray,
    high: np.ndarray,
    low_90: np.ndarray,
    high_90: np.ndarray,
    p_holm: np.ndarray,
    p_same_holm: np.ndarray,
) -> np.ndarray:
    """The verdicts from the intervals of the drops, in points.

    `critical` all above 10, `important` all above 1, `harmful` all below -1, each with a difference that survives
    Holm's correction; `redundant` the 90 % interval inside -1 to 1, with an equivalence that survives it; else
    `undecided`.
    """
    differs, same = p_holm < ALPHA, p_same_holm < ALPHA
    return np.select(
        [
            (low > CRITICAL) & differs,
            (low > IMPORTANT) & differs,
            (high < -IMPORTANT) & differs,
            (low_90 > -IMPORTANT) & (high_90 < IMPORTANT) & same,
        ],
        ["critical", "important", "harmful", "redundant"],
        "undecided",
    )


def overall(verdicts: Sequence[str]) -> str:
    """The verdict that all kinds share, or that it depends on the kind."""
    return verdicts[0] if len(set(verdicts)) == 1 else "depends on the ablation"


def n_to_decide(lost: int, gained: int, n: int, family: int = 1) -> int | None:
    """How many examples would decide, if the rates stayed as they are; None if no number within reason would.

    Its p-value must then stay below ALPHA when multiplied by all tests of the family, which is the most Holm can ask.
    """
    sizes = [n]
    while (larger := int(sizes[-1] * 1.2) + 1) <= LARGEST_N:
        sizes.append(larger)
    size = np.array(sizes[1:], dtype=np.int64)
    scaled_lost = np.rint(lost * size / n)
    scaled = scaled_lost, np.minimum(np.rint(gained * size / n), size - scaled_lost)
    low, high = (100 * end for end in paired_interval(*scaled, size))
    low_90, high_90 = (100 * end for end in paired_interval(*scaled, size, confidence=0.90))
    p, p_same = family * mcnemar(*scaled), family * equivalence(*scaled, size, IMPORTANT / 100)
    decided = np.flatnonzero(decide(low, high, low_90, high_90, p, p_same) != "undecided")
    return int(size[decided[0]]) if len(decided) else None
