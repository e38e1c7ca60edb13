"""What a model loses without each head, in four ways of taking it away, and how sure that is.

    zero            the head brings nothing
    mean            its mean output over the examples
    position-mean   its mean output at each place
    resample        its output on another example of the split, drawn once and for all

The drop of whole-answer accuracy is in points (100 = everything). Every example is its own control: `lost`
counts those right before and wrong after, `gained` those wrong before and right after.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
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
from headway.statistics import (
    drop_above,
    holm,
    holm_at_once,
    mcnemar,
    paired_interval,
    ratio_interval,
    wilson_interval,
)
from headway.tasks import Examples

KINDS = ("zero", "mean", "position-mean", "resample")
CRITICAL, IMPORTANT = 10.0, 1.0
"""Points of drop above which a head is critical or important; within IMPORTANT either way it is redundant."""
ALPHA = 0.05
TAILS = 2
"""Claims of one drop that can be false at once."""
DEPENDS = "depends on the ablation"
LIMITS = {1.0: "under_1_point", 5.0: "under_5_points"}
"""Points of drop under which heads are counted that can go one at a time."""
LARGEST_N = 10_000_000
"""More examples than this would not be a plan."""


@dataclass(frozen=True)
class Drop:
    """What one change costs: the paired drop in points with its interval and tests, and the loss.

    `p` and `p_holm` are of "it differs from 0", which no verdict rests on. The verdict is decided by the p-values of
    its own claim, corrected over the sweep: above 10 points, above 1, below -1, and within 1 either way, which is
    `p_equivalence_holm`.
    """

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
    p_critical_holm: float
    p_important_holm: float
    p_harmful_holm: float
    verdict: str
    n_to_decide: int | None
    exact_match: float
    token_accuracy: float
    by_token: list[dict[str, Any]]
    loss: float
    loss_change: float | None
    loss_change_interval: tuple[float, float] | None = None
    """95 %, in per cent like the change; of a model without errors it covers too little (docs/heads.md)."""


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

    def prunable(self) -> dict[str, dict[str, Any]]:
        """The share of heads that can go, one at a time, by three measures; the first two with a 95 % interval."""
        return {
            kind: {
                **{
                    name: value
                    for limit, words in LIMITS.items()
                    for name, value in (
                        (words, _share(drop.drop < limit for drop in drops.values())),
                        (f"{words}_interval", share_under(*_counts(drops.values()), limit)),
                    )
                },
                "under_1_percent_of_loss": _share(
                    drop.loss_change is not None and drop.loss_change < 1 for drop in drops.values()
                ),
            }
            for kind, drops in self.drops.items()
        }

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def share_under(lost: np.ndarray, gained: np.ndarray, n: int | np.ndarray, limit: float) -> tuple[float, float]:
    """Between which shares the share of drops that are truly under a limit lies, with 95 %.

    The ends are those that are shown to be under it, and all but those that are shown not to be. Of each drop one of
    the two is false, so as many can be as there are drops: p-values are multiplied by their number.
    """
    if not len(lost):
        return (0.0, 0.0)
    above, under = drop_above(lost, gained, n, limit / 100), drop_above(gained, lost, n, -limit / 100)
    return _share(len(lost) * under < ALPHA), 1 - _share(len(lost) * above < ALPHA)


def _counts(drops: Iterable[Drop]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = [(drop.lost, drop.gained, drop.n) for drop in drops]
    lost, gained, n = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return lost, gained, n


def _share(flags: Any) -> float:
    flags = list(flags)
    return float(sum(flags) / len(flags)) if flags else 0.0


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
        TAILS * len(drops),
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
    """Every variant against the first, as one family of claims."""
    before, after = outcomes.right[0], outcomes.right[1:]
    lost, gained = count_changes(before, after)
    n, judged = len(before), judge(lost, gained, len(before))
    losses, baseline = outcomes.mean_loss[1:], float(outcomes.mean_loss[0])
    needed = [
        n_to_decide(int(lost[i]), int(gained[i]), n, TAILS * len(after)) if verdict == "undecided" else None
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
            p_critical_holm=float(judged.p_critical_holm[i]),
            p_important_holm=float(judged.p_important_holm[i]),
            p_harmful_holm=float(judged.p_harmful_holm[i]),
            verdict=str(judged.verdict[i]),
            n_to_decide=needed[i],
            exact_match=float(outcomes.accuracy[i + 1]),
            token_accuracy=float(outcomes.token_accuracy[i + 1]),
            by_token=_by_token(outcomes, i + 1, names),
            loss=float(losses[i]),
            loss_change=100 * (float(losses[i]) / baseline - 1) if baseline > 0 else None,
            loss_change_interval=_loss_change_interval(outcomes, i + 1),
        )
        for i in range(len(after))
    ]


def _loss_change_interval(outcomes: Outcomes, variant: int) -> tuple[float, float] | None:
    """Of the change of the mean loss, in per cent; examples are the same before and after, so token counts cancel."""
    if outcomes.loss.shape[1] < 2:
        return None
    found = ratio_interval(outcomes.loss[0], outcomes.loss[variant])
    return None if found is None else (100 * (found[0] - 1), 100 * (found[1] - 1))


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
class Claims:
    """P-values of what verdicts claim of paired drops, uncorrected; arrays of any one shape."""

    critical: np.ndarray
    important: np.ndarray
    harmful: np.ndarray
    redundant: np.ndarray


def claims_of(lost: Any, gained: Any, n: Any) -> Claims:
    """Test "above 10 points", "above 1", "below -1" and "within 1 either way".

    Who is above 10 is above 1, and who is below -1 is below 1: no p-value is smaller than that of what follows from it.
    """
    above, below = drop_above(lost, gained, n, IMPORTANT / 100), drop_above(gained, lost, n, -IMPORTANT / 100)
    return Claims(
        critical=np.maximum(drop_above(lost, gained, n, CRITICAL / 100), above),
        important=above,
        harmful=np.maximum(drop_above(gained, lost, n, IMPORTANT / 100), below),
        redundant=np.maximum(drop_above(lost, gained, n, -IMPORTANT / 100), below),
    )


def correct(claims: Claims) -> Claims:
    """The claims of a sweep as one family, one axis: if those below ALPHA are made, P(any of them is false) ≤ ALPHA.

    Whatever a true drop is, what is false of it comes from at most two tails (at a drop of 1 point: "above 1" from the
    upper, "below -1" and "within 1" both from the lower), and from one if it is above 10 or below -1. So two claims a
    drop can be false at once, one fewer for each that is shown to be critical or harmful: Holm's steps with it.
    """
    p = np.concatenate([claims.critical, claims.important, claims.harmful, claims.redundant])
    tests = len(claims.critical)
    frees = np.repeat([True, False, True, False], tests)
    return Claims(*holm_at_once(p, TAILS * tests, frees).reshape(4, -1))


@dataclass(frozen=True)
class Judged:
    """A family of paired drops: intervals in points, tests with and without correction, verdicts."""

    low: np.ndarray
    high: np.ndarray
    low_90: np.ndarray
    high_90: np.ndarray
    p: np.ndarray
    p_holm: np.ndarray
    p_equivalence: np.ndarray
    p_equivalence_holm: np.ndarray
    p_critical_holm: np.ndarray
    p_important_holm: np.ndarray
    p_harmful_holm: np.ndarray
    verdict: np.ndarray

    def ends(self, index: int) -> tuple[float, float]:
        return float(self.low[index]), float(self.high[index])

    def ends_90(self, index: int) -> tuple[float, float]:
        return float(self.low_90[index]), float(self.high_90[index])


def judge(lost: Int[np.ndarray, " test"], gained: Int[np.ndarray, " test"], n: int) -> Judged:
    """Judge drops as one family: a verdict is made where its own claim survives the correction."""
    p = mcnemar(lost, gained)
    claims = claims_of(lost, gained, n)
    corrected = correct(claims)
    low, high = (100 * end for end in paired_interval(lost, gained, n))
    low_90, high_90 = (100 * end for end in paired_interval(lost, gained, n, confidence=0.90))
    return Judged(
        low=low,
        high=high,
        low_90=low_90,
        high_90=high_90,
        p=p,
        p_holm=holm(p),
        p_equivalence=claims.redundant,
        p_equivalence_holm=corrected.redundant,
        p_critical_holm=corrected.critical,
        p_important_holm=corrected.important,
        p_harmful_holm=corrected.harmful,
        verdict=decide(corrected),
    )


def decide(corrected: Claims) -> np.ndarray:
    """The verdict of each drop: the strongest claim whose corrected p-value is below ALPHA, else `undecided`."""
    made = [p < ALPHA for p in (corrected.critical, corrected.important, corrected.harmful, corrected.redundant)]
    return np.select(made, ["critical", "important", "harmful", "redundant"], "undecided")


def overall(verdicts: Sequence[str]) -> str:
    """A head's verdict over the kinds of ablation; their order does not matter.

    Kinds that contradict each other (redundant beside important, critical or harmful; harmful beside important or
    critical) make it depend on the ablation. `redundant` and `critical` must be shown by every kind. `important` and
    `harmful` must be shown by some kind, and the others may be undecided; critical counts as important.
    """
    found = set(verdicts)
    sides = [found & {"critical", "important"}, found & {"redundant"}, found & {"harmful"}]
    if sum(map(bool, sides)) > 1:
        return DEPENDS
    if len(found) == 1:
        return verdicts[0]
    if sides[0]:
        return "important"
    return "harmful" if sides[2] else "undecided"


def n_to_decide(lost: int, gained: int, n: int, family: int = TAILS) -> int | None:
    """How many examples would decide, if the rates stayed as they are; None if no number within reason would.

    Its p-value must then stay below ALPHA when multiplied by all that can be false at once in the family, which is the
    most that the correction can ask.
    """
    sizes = [n]
    while (larger := int(sizes[-1] * 1.2) + 1) <= LARGEST_N:
        sizes.append(larger)
    size = np.array(sizes[1:], dtype=np.int64)
    scaled_lost = np.rint(lost * size / n)
    claims = claims_of(scaled_lost, np.minimum(np.rint(gained * size / n), size - scaled_lost), size)
    corrected = Claims(*(family * getattr(claims, one.name) for one in fields(Claims)))
    decided = np.flatnonzero(decide(corrected) != "undecided")
    return int(size[decided[0]]) if len(decided) else None
