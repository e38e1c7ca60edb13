"""What a model loses without each head, by four kinds of ablation, and how certain that is.

    zero            the head brings nothing
    mean            its mean output over the examples
    position-mean   its mean output at each place
    resample        its output on another example of the split, drawn once and for all

The drop of whole-answer accuracy is in points (100 = everything). Every example is its own control: `lost`
counts those right before and wrong after, `gained` those wrong before and right after.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int

from headway.callbacks import OnProgress
from headway.errors import InputError, suggestion
from headway.evaluation import Trained
from headway.head_analysis.instrument import OneStep, Subject
from headway.head_analysis.margins import with_margin, with_margins
from headway.head_analysis.variants import (
    Outcomes,
    ReplacementOf,
    heads_of,
    means,
    patch_source,
    pick_patch_sources,
    run_variants,
    zero,
)
from headway.head_analysis.verdicts import TAILS, judge, n_to_decide, overall, share_under
from headway.model.sites import Head
from headway.narration.numbers import percent
from headway.randomness import generator
from headway.results.heads import Baseline, Drop, Prunable, TokenAccuracy
from headway.statistics import paired_interval, ratio_interval, wilson_interval
from headway.tasks import Examples

KINDS = ("zero", "mean", "position-mean", "resample")
RANDOM_PURPOSE = "donors"
"""Names the random numbers that choose the other example; another name would change the results of every seed."""
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
        """What a reader must know before believing a verdict."""
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
    """What is lost without each head."""

    name, result = "ablation", Ablation

    def make(self, subject: Subject, progress: OnProgress) -> Ablation:
        return ablate(subject.trained, subject.examples, progress=progress)


def prunable(drops: Sequence[Drop]) -> Prunable:
    changes = [drop.loss_change for drop in drops]
    return Prunable(
        under_1_point=_share(drop.drop < 1 for drop in drops),
        under_1_point_interval=share_under(*_counts(drops), 1),
        under_5_points=_share(drop.drop < 5 for drop in drops),
        under_5_points_interval=share_under(*_counts(drops), 5),
        under_1_percent_of_loss=_share(change is not None and change < 1 for change in changes),
    )


def _counts(drops: Iterable[Drop]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = [(drop.lost, drop.gained, drop.n) for drop in drops]
    lost, gained, n = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return lost, gained, n


def _share(flags: Iterable[bool]) -> float:
    found = list(flags)
    return sum(found) / len(found) if found else 0.0


def make_replacements(
    trained: Trained, examples: Examples, kinds: Sequence[str] = KINDS
) -> tuple[list[ReplacementOf], int]:
    """The replacement of a head's output for each kind, and how many examples had no other example to take it from."""
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"unknown kind of ablation {kind!r}; {suggestion(kind, KINDS)}")
    replacements: dict[str, ReplacementOf] = {"zero": zero}
    without = 0
    if "mean" in kinds or "position-mean" in kinds:
        replacements["mean"], replacements["position-mean"] = means(trained, examples)
    if "resample" in kinds:
        patch_sources = pick_patch_sources(trained, examples, generator(trained.config.data.seed, RANDOM_PURPOSE))
        without = int((patch_sources == np.arange(len(examples))).sum())
        replacements["resample"] = patch_source(trained, examples.take(patch_sources))
    return [replacements[kind] for kind in kinds], without


def ablate(
    trained: Trained,
    examples: Examples,
    *,
    kinds: Sequence[str] = KINDS,
    progress: OnProgress = lambda done, total: None,
) -> Ablation:
    """Ablate every head alone, by every kind of ablation, in one sweep."""
    heads = heads_of(trained)
    replacements, without = make_replacements(trained, examples, kinds)
    alone = np.eye(len(heads), dtype=np.int64)
    plan = np.concatenate([np.zeros((1, len(heads)), dtype=np.int64), *(alone * (k + 1) for k in range(len(kinds)))])
    outcomes = run_variants(trained, examples, plan, replacements, progress, keep_margin=True)
    assert outcomes.margin is not None
    names = trained.task.answer_names(outcomes.counted.shape[1])
    drops = with_margins(measure_drops(outcomes, names), outcomes.margin)
    table = {
        kind: {str(head): drops[k * len(heads) + h] for h, head in enumerate(heads)} for k, kind in enumerate(kinds)
    }
    verdicts = {str(head): overall([table[kind][str(head)].verdict for kind in kinds]) for head in heads}
    baseline = with_margin(baseline_of(outcomes, names), outcomes.margin)
    return Ablation(baseline, [str(h) for h in heads], table, verdicts, without, TAILS * len(drops))


def ablate_together(
    trained: Trained, examples: Examples, sets: Sequence[Sequence[Head]], kind: str = "zero"
) -> list[Drop]:
    """Ablate sets of heads, each set as a whole."""
    heads = heads_of(trained)
    replacements, _ = make_replacements(trained, examples, [kind])
    plan = np.stack([np.zeros(len(heads), dtype=np.int64), *(as_row(heads, chosen) for chosen in sets)])
    outcomes = run_variants(trained, examples, plan, replacements)
    return measure_drops(outcomes, trained.task.answer_names(outcomes.counted.shape[1]))


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


def measure_drops(outcomes: Outcomes, names: list[str]) -> list[Drop]:
    """Test every variant against the first; all tests are one family."""
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
            accuracy=float(outcomes.accuracy[i + 1]),
            token_accuracy=float(outcomes.token_accuracy[i + 1]),
            by_token=_by_token(outcomes, i + 1, names),
            loss=float(losses[i]),
            loss_change=100 * (float(losses[i]) / baseline - 1) if baseline > 0 else None,
            loss_change_interval=_loss_change_interval(outcomes, i + 1),
        )
        for i in range(len(after))
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


def paired_drop(
    before: Bool[np.ndarray, " example"], after: Bool[np.ndarray, " example"]
) -> tuple[float, tuple[float, float]]:
    """The drop between two variants on the same examples, in points, and its 95 % interval."""
    lost, gained = (int(count[0]) for count in count_changes(before, after[None]))
    low, high = paired_interval(lost, gained, len(before))
    return 100 * (lost - gained) / len(before), (100 * float(low), 100 * float(high))
