"""The results of earlier commands about a run, reduced to those that the page shows."""

from collections.abc import Callable
from urllib.parse import parse_qs

from headway.errors import InputError
from headway.explorer.document import (
    BaselineOfPage,
    DropOfPage,
    FailingOfPage,
    HeadFindings,
    HeadOfPage,
    LengthFindings,
    LengthPoint,
    StepOfPage,
    TrainingFindings,
)
from headway.origin import OtherOrigin
from headway.results.attack import Attack
from headway.results.heads import Drop, Head, HeadAnalysis, read_heads
from headway.results.lengths import Lengths
from headway.results.over_training import HeadsAtStep, OverTraining
from headway.runs import RunDirectory

Warn = Callable[[str], None]

SHOWN_FAILING = 8
"""Failing inputs that the page offers."""


def ignore(warning: str) -> None:
    """Ignore warnings."""


def head_findings(directory: RunDirectory, step: int, heads: list[str], warn: Warn = ignore) -> HeadFindings | None:
    """Verdicts, roles and scores from heads.json; None without one, or with a warning if it is of another model."""
    try:
        found = read_heads(directory, step)
    except OtherOrigin as problem:
        warn(str(problem))
        return None
    except InputError as problem:
        raise InputError(f"{problem}; run headway heads with --again") from None
    if found is None:
        return None
    if [head.name for head in found.heads] != heads:
        warn(_left_out(directory, "heads", "a model with other heads"))
    elif found.step != step:
        warn(_left_out(directory, "heads", f"step {found.step}, not of step {step}"))
    elif failed := found.doubts():
        warn(f"{directory.path}: analysis/heads.json is left out; its self-checks failed: {'; '.join(failed)}")
    else:
        return _heads(found)
    return None


def length_findings(directory: RunDirectory, step: int, warn: Warn = ignore) -> LengthFindings | None:
    """Accuracy against length from lengths.json; None without one, or with a warning if it is of another step."""
    try:
        found = directory.read_result(Lengths, "lengths", step)
    except OtherOrigin as problem:
        warn(str(problem))
        return None
    except InputError as problem:
        raise InputError(f"{problem}; run headway lengths again") from None
    if found is None:
        return None
    if found.checkpoint.step != step:
        warn(_left_out(directory, "lengths", f"step {found.checkpoint.step}, not of step {step}"))
        return None
    return LengthFindings(
        unit=found.unit,
        trained=(found.training.shortest, found.training.longest),
        threshold=found.threshold,
        held=found.length_held,
        rows=[
            LengthPoint(set_name=row.set_name, length=row.length, n=row.n, accuracy=row.accuracy, interval=row.interval)
            for row in found.rows
        ],
    )


def training_findings(
    directory: RunDirectory, step: int, heads: list[str], warn: Warn = ignore
) -> TrainingFindings | None:
    """Importance and flip rates at each kept step from over_training.json; None without one, or with a warning."""
    again = "headway heads --over-training"
    try:
        found = directory.read_result(OverTraining, "over_training", step)
    except OtherOrigin as problem:
        warn(str(problem))
        return None
    except InputError as problem:
        raise InputError(f"{problem}; run {again} again") from None
    if found is None:
        return None
    if list(found.heads) != heads:
        warn(f"{directory.path}: analysis/over_training.json is of a model with other heads, and is left out")
        return None
    return TrainingFindings(
        n=found.n,
        heads=heads,
        subject=found.subject,
        followed=found.followed,
        jump=found.jump,
        formed=None if found.followed is None else found.formed(found.rates_of(found.followed)),
        steps=[_step(found, one) for one in found.steps],
    )


def _step(found: OverTraining, one: HeadsAtStep) -> StepOfPage:
    contrasts = [contrast for contrast in one.contrasts if contrast.about == found.subject]
    places = [found.groups.index(head) for head in found.heads]
    return StepOfPage(
        step=one.step,
        accuracy=one.accuracy,
        interval=one.interval,
        drops=list(one.drops),
        drop_intervals=list(one.intervals),
        usable=sum(contrast.usable for contrast in contrasts),
        flips=[sum(contrast.flips[place] for contrast in contrasts) for place in places],
    )


def failing_inputs(directory: RunDirectory, step: int, warn: Warn = ignore) -> list[FailingOfPage]:
    """Inputs of attack.json that the model gets wrong and that the page can be asked; none without an attack."""
    try:
        found = directory.read_result(Attack, "attack", step)
    except OtherOrigin as problem:
        warn(str(problem))
        return []
    except InputError as problem:
        raise InputError(f"{problem}; run headway attack again") from None
    if found is None:
        return []
    if found.step != step:
        warn(_left_out(directory, "attack", f"step {found.step}, not of step {step}"))
        return []
    typed = [(one, _typed(one.link)) for one in found.counterexamples]
    shown = [FailingOfPage(input=text, family=one.family, tried=one.tried) for one, text in typed if text]
    return shown[:SHOWN_FAILING]


def _typed(link: str | None) -> str | None:
    """The question of a link into the page, as a person would type it."""
    return None if link is None else parse_qs(link.removeprefix("#")).get("input", [None])[0]


def _left_out(directory: RunDirectory, name: str, of: str) -> str:
    return f"{directory.path}: analysis/{name}.json is of {of}, and is left out; run headway {name} again"


# Heads


def _heads(found: HeadAnalysis) -> HeadFindings:
    baseline, views = found.baseline, [finding.view() for finding in found.findings]
    return HeadFindings(
        n=found.n,
        split=found.split,
        baseline=BaselineOfPage(
            n=baseline.n, wrong=baseline.wrong, exact_match=baseline.accuracy, interval=baseline.interval
        ),
        definitions=found.definitions,
        heads={head.name: _head(head) for head in found.heads},
        views={name: shown for view in views if view is not None for name, shown in view.to_json().items()},
    )


def _head(head: Head) -> HeadOfPage:
    drops = {kind: _drop(drop) for kind, drop in head.ablation.items()}
    return HeadOfPage(verdict=head.verdict, role=head.role, scores=head.scores, drops=drops)


def _drop(drop: Drop) -> DropOfPage:
    return DropOfPage(drop=drop.drop, interval=drop.interval, n=drop.n, verdict=drop.verdict, exact_match=drop.accuracy)
