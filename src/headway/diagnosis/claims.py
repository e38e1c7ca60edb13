"""Checks of claims: what heads.json, lengths.json and attack.json support, for one run and over seeds."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error, errors_first, fine, warning
from headway.diagnosis.subject import widened
from headway.length_analysis.measure import ON_VALIDATION
from headway.results.attack import FailingInput
from headway.results.doctor import Finding
from headway.results.heads import HeadAnalysis
from headway.statistics import ENOUGH_SEEDS
from headway.tasks import Examples

KIND = "zero"
"""The ablation by which heads are ranked."""


def drop_inside_noise(seen: Examination) -> Verdict | None:
    """Every head has a verdict: its drop is certainly large or certainly small."""
    document = seen.subject.heads
    if document is None:
        return None
    rows = document.heads
    undecided = [row.name for row in rows if row.verdict == "undecided"]
    noise = [row.name for row in rows if _holds_nothing(row.ablation[KIND].interval)]
    numbers = {"undecided": undecided, "inside_noise": noise, "heads": len(rows), "n": document.n}
    inside = f"{len(noise)} of {len(rows)} drops have an interval that holds 0 ({document.n:,} examples)"
    if not undecided:
        return fine(f"Every head has a verdict. {inside}.", **numbers)
    return warning(
        f"{len(undecided)} of {len(rows)} heads are undecided ({', '.join(undecided[:4])}); {inside}.",
        "Do not report drops of these heads as findings; measure on more examples.",
        **numbers,
    )


def _holds_nothing(interval: Sequence[float]) -> bool:
    return bool(interval[0] <= 0 <= interval[1])


def ranking_unsupported(seen: Examination) -> Verdict | None:
    """The interval of the most important head's drop is above that of the second."""
    document = seen.subject.heads
    if document is None or len(document.heads) < 2:
        return None
    first, second = sorted(document.heads, key=lambda row: -row.ablation[KIND].drop)[:2]
    low, high = first.ablation[KIND].interval[0], second.ablation[KIND].interval[1]
    drops = [row.ablation[KIND].drop for row in (first, second)]
    words = f"{first.name} costs {drops[0]:.1f} points and {second.name} {drops[1]:.1f}"
    numbers = {"first": first.name, "second": second.name, "drops": drops, "n": document.n}
    if low > high:
        return fine(f"{words}; their intervals do not overlap.", **numbers)
    return warning(
        f"{words}, and their intervals overlap: this run does not show which matters more.",
        "Report both together, or measure on more examples.",
        **numbers,
    )


def curve_chosen_on_test(seen: Examination) -> Verdict | None:
    """The checkpoint behind a length curve was chosen on training lengths alone."""
    found = seen.subject.lengths
    if found is None:
        return None
    step, chosen = found.checkpoint.step, found.checkpoint.chosen_on
    if chosen == ON_VALIDATION:
        return fine(f"The curve over lengths is of step {step:,}, chosen on {chosen}.", step=step, chosen_on=chosen)
    told = (error, "was chosen on") if "test" in chosen else (warning, "was")
    return told[0](
        f"The curve over lengths is of step {step:,}, which {told[1]} {chosen}: the best of several results at "
        "longer lengths is biased upwards.",
        "Measure the checkpoint that validation chose.",
        step=step,
        chosen_on=chosen,
    )


def one_answer_at_lengths(seen: Examination) -> Verdict | None:
    """At every length the answers depend on the input."""
    found = seen.subject.lengths
    if found is None or not found.is_class:
        return None
    rows = [row for row in found.rows if row.constant is not None]
    if not rows:
        return fine(f"No length has one answer only ({len(found.rows)} sets).", lengths=[])
    shown = ", ".join(f"{row.accuracy:.3f} at {row.length}" for row in rows[:6])
    return warning(
        f"In {len(rows)} of {len(found.rows)} sets every answer is the same class, from length "
        f"{min(row.length for row in rows)} on; accuracies there ({shown}) are shares of that class.",
        "Report that the model gives a constant answer; do not plot these points as accuracy.",
        lengths=sorted({row.length for row in rows}),
        sets=len(rows),
    )


def held_but_broken(seen: Examination) -> Verdict | None:
    """No attack found a failing input up to the length held in lengths.json."""
    attack, lengths = seen.subject.attack, seen.subject.lengths
    if attack is None:
        return None
    numbers = {"tried": attack.tried, "found": attack.found}
    failing = [one for one in attack.counterexamples if fails(seen, one)]
    if not failing:
        return fine(f"An attack tried {attack.tried:,} inputs and found none wrong, which proves nothing.", **numbers)
    first = failing[0]
    shown = f"{first.input:.120} is answered {first.answered:.60} ({first.expected:.60} is right)"
    held = 0 if lengths is None else lengths.length_held
    if not [one for one in failing if one.length is not None and one.length <= held]:
        return warning(
            f"An attack found inputs that fail: {shown}.",
            "Report the failing inputs beside the accuracy; random samples did not contain them.",
            **numbers,
        )
    return error(
        f"The length held in lengths.json is {held:,} {attack.unit}, but an attack found failing inputs there: "
        f"{shown}.",
        "Report the length held together with the attack; train on inputs similar to the failing ones.",
        **numbers,
        held=held,
        input=first.input,
    )


def fails(seen: Examination, one: FailingInput) -> bool:
    """Whether the model gets the input wrong when it is asked again; True if there is no model to ask."""
    subject = seen.subject
    if subject.forward is None:
        return True
    source, _ = seen.task.from_record(dict(one.record))
    example = Examples(np.array([source]), seen.task.answer(np.array([source])))
    if subject.decode is None or seen.is_class:
        return not subject.score(subject.forward(example).argmax(-1).numpy(), example.target)[0]
    answer = subject.decode(example, True)
    return not subject.score(answer, widened(example.target, answer.shape[1], seen.pad))[0]


def one_seed(seen: Examination) -> Verdict | None:
    """Claims about a recipe are based on six or more seeds."""
    if seen.subject.heads is None and seen.subject.lengths is None:
        return None
    return warning(
        f"Heads and lengths were measured on 1 seed; claims about a recipe need {ENOUGH_SEEDS}.",
        f"Limit claims to this model, or train {ENOUGH_SEEDS} seeds and examine them together.",
        seeds=1,
        needed=ENOUGH_SEEDS,
    )


CLAIMS = (
    Check("curve-chosen-on-test", "claims", curve_chosen_on_test),
    Check("one-answer-at-lengths", "claims", one_answer_at_lengths),
    Check("held-but-broken", "model", held_but_broken, ("analysis-of-another-run",)),
    Check("drop-inside-noise", "claims", drop_inside_noise),
    Check("ranking-unsupported", "claims", ranking_unsupported),
    Check("too-few-seeds", "claims", one_seed),
)


def over_seeds(heads: Sequence[HeadAnalysis | None], runs: int) -> tuple[Finding, ...]:
    """Claims over several seeds of one recipe: whether there are enough, and whether they agree on the most important
    head.
    """
    found = [_enough(runs)]
    measured = [document for document in heads if document is not None]
    if len(measured) > 1:
        found.append(_agreement(measured))
    return errors_first(found)


def _enough(seeds: int) -> Finding:
    numbers = {"seeds": seeds, "needed": ENOUGH_SEEDS}
    if seeds >= ENOUGH_SEEDS:
        return Finding("too-few-seeds", "fine", "claims", f"{seeds} seeds were examined.", numbers)
    return Finding(
        "too-few-seeds",
        "warning",
        "claims",
        f"{seeds} seed{'s were' if seeds > 1 else ' was'} examined; an interval over seeds needs {ENOUGH_SEEDS}, "
        "so the numbers are descriptive.",
        numbers,
        f"Train {ENOUGH_SEEDS} seeds, or call the numbers descriptive.",
    )


def _agreement(documents: Sequence[HeadAnalysis]) -> Finding:
    """Whether seeds agree on the kind of the most important head; heads of different seeds do not
    correspond by name.
    """
    top = [max(document.heads, key=lambda row: row.ablation[KIND].drop).kind for document in documents]
    kind, count = Counter(top).most_common(1)[0]
    numbers = {"kinds": top, "seeds": len(top)}
    words = f"The most important head is of kind {kind} in {count} of {len(top)} seeds"
    if count == len(top):
        return Finding("ranking-unsupported", "fine", "claims", f"{words}.", numbers)
    others = ", ".join(f"{other} in {times}" for other, times in Counter(top).items() if other != kind)
    return Finding(
        "ranking-unsupported",
        "warning",
        "claims",
        f"{words}, {others}: seeds do not agree on what matters most.",
        numbers,
        "Report every seed; a ranking of one seed does not hold for others.",
    )
