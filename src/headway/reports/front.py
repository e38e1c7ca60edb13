"""The first screen of a report: one sentence, four tiles, and the figure that decides."""

from collections.abc import Callable, Sequence
from functools import partial

from headway.narration import lengths
from headway.narration.accuracy import SPLITS, WHOLE
from headway.narration.heads import ranked
from headway.narration.lengths import set_name
from headway.narration.numbers import (
    count,
    counted,
    decimal,
    duration,
    highest,
    number,
    percent,
    points,
    size,
    spread,
)
from headway.narration.text import Text, Words, code, listed, quote, text
from headway.reports.blocks import Figure, Tile
from headway.reports.documents import Documents, RunDocuments
from headway.reports.overview import overview, overview_of_seeds
from headway.reports.sections.lengths import leading_figure
from headway.reports.training_curves import training_curves
from headway.results.doctor import Finding
from headway.results.heads import HeadAnalysis

TILES = 4
MOST_NAMED = 2
"""Findings of the doctor that a tile names."""
ALT = "Bars of the accuracy lost without each head, and the accuracy as heads are removed one after another."
ALT_OF_SEEDS = "Accuracy as heads are removed one after another, a curve for each run."
ALT_OF_TRAINING = "Loss and validation accuracy against the training step."

MakeTile = Callable[[], Tile | None]


def attempted(write: MakeTile) -> Tile | None:
    """A tile, or none where its documents are not as headway writes them: their section says why."""
    try:
        return write()
    except Exception:
        return None


def tiles(documents: Documents) -> list[Tile]:
    """Four facts, the most telling first; the doctor's is the last."""
    if len(documents.runs) == 1:
        run = documents.runs[0]
        makers: Sequence[MakeTile] = [
            partial(one, run) for one in (accuracy, critical, length_held, together, past_training, evidence, cost)
        ]
    else:
        makers = [
            partial(one, documents) for one in (accuracies, drops, costs_together, lengths_held, furthest, n_runs)
        ]
    found = [tile for make in makers if (tile := attempted(make)) is not None]
    last = attempted(partial(doctor, documents))
    return [*found[: TILES - 1], *([last] if last is not None else [])]


# One run


def accuracy(run: RunDocuments) -> Tile | None:
    found, best = run.best_evaluation, run.training.get("best")
    if found is not None:
        asked = "every input asked" if found.split == WHOLE else SPLITS[found.split]
        remark = text("{} of {} wrong, {}", number(found.wrong), number(found.n), asked)
        return Tile("Accuracy", number(found.accuracy, percent), remark, "accuracy")
    if run.heads is not None and run.heads.metric is not None:
        metric = run.heads.metric
        return Tile(metric.name.replace("_", " ").capitalize(), number(metric.mean, decimal), metric.unit, "heads")
    if run.heads is not None:
        base = run.heads.baseline
        remark = text(
            "{} of {} wrong, {}", number(base.wrong), number(base.n), SPLITS.get(run.heads.split, "given data")
        )
        return Tile("Accuracy", number(base.accuracy, percent), remark, "heads")
    if best:
        remark = text("validation, at step {}", number(best["step"]))
        return Tile("Accuracy", number(best["accuracy"], percent), remark, "training")
    return None


def critical(run: RunDocuments) -> Tile | None:
    found = run.heads
    if found is None or not found.heads:
        return None
    if why := nothing_said(run, found):
        return Tile("Critical heads", "not known", why, "heads", "error")
    value = text("{} of {}", count(found.heads, "verdict", "critical"), size(found.heads))
    others = [one for one in ("important", "harmful", "undecided", "redundant") if one in found.verdicts.values()]
    remark = listed([text("{} {}", count(found.heads, "verdict", one), one) for one in others[:2]])
    return Tile("Critical heads", value, remark, "heads")


def nothing_said(run: RunDocuments, found: HeadAnalysis) -> Words:
    """Why heads say nothing here; empty where they do."""
    if found.doubts():
        return "the instruments failed their own checks"
    return text("the doctor finds {}", code(run.unlearned.check)) if run.unlearned is not None else ""


def together(run: RunDocuments) -> Tile | None:
    found = run.heads
    if found is None or not found.joint.removable or nothing_said(run, found):
        return None
    row = found.joint.removable[0]
    shown = "" if not row.heads or row.drop_interval[1] < row.limit else ", not sure"
    cost = text("{} points on other examples{}", number(row.drop, points), shown)
    return Tile("Removable together", size(row.heads), cost if row.heads else "none was found", "heads")


def length_held(run: RunDocuments) -> Tile | None:
    found = run.lengths
    if found is None:
        return None
    ends = number(found.training.shortest), number(found.training.longest)
    held = found.length_held
    state = "error" if held < found.training.longest else "fine" if held > found.training.longest else ""
    remark = text("{}; trained on {} to {}", found.unit, *ends)
    if not held and lengths.too_few(found):
        few = text("{} examples of a length are too few", number(found.n))
        return Tile("Length held", "not known", few, "lengths", "warning")
    return Tile("Length held", number(held), remark, "lengths", state)


def past_training(run: RunDocuments) -> Tile | None:
    """Accuracy at the longest tested length, on the set with the smallest length held."""
    found = run.lengths
    if found is None:
        return None
    name = lengths.weakest_set(found)
    last = list(found.of_set(name).values())[-1]
    if last.trained:
        return None
    title = text("At {} {}", number(last.length), found.unit)
    return Tile("At the longest", number(last.accuracy, percent), text("{}: {}", title, set_name(name)), "lengths")


def evidence(run: RunDocuments) -> Tile | None:
    """A proof, else an attack."""
    if run.proof is not None:
        state = {"proved": "fine", "counterexample": "error"}.get(run.proof.answer, "")
        return Tile("Proof", quote(run.proof.answer), text("{}", run.proof.scope), "evidence", state)
    if run.attack is not None:
        found = run.attack
        remark = text("of {} inputs tried", number(found.tried))
        if found.found and not found.broken:
            remark = text("{}; {} only in a batch, by ties", remark, number(found.found))
            return Tile("Failing inputs found", text("none"), remark, "evidence", "")
        return Tile("Failing inputs found", number(found.found), remark, "evidence", "error" if found.broken else "")
    return None


def cost(run: RunDocuments) -> Tile | None:
    if "seconds" not in run.training:
        return None
    steps = counted(run.training["step"], "step")
    return Tile("Training", number(run.training["seconds"], duration), steps, "training")


# Several runs


def accuracies(documents: Documents) -> Tile | None:
    found = [one for run in documents.runs if (one := run.best_evaluation) is not None]
    if not found or len({one.split for one in found}) != 1:
        return None
    value = spread([one.accuracy for one in found], percent)
    return Tile("Accuracy", value, text("{}, every run", SPLITS[found[0].split]), "accuracy")


def learned(documents: Documents) -> list[tuple[RunDocuments, HeadAnalysis]]:
    return [(run, found) for run, found in documents.with_heads if not nothing_said(run, found)]


def drops(documents: Documents) -> Tile | None:
    first = [one for _, found in learned(documents) if (one := ranked(found)) is not None]
    if not first or documents.with_lengths:
        return None
    value = spread([head.ablation[kind].drop for head, kind, _ in first], points)
    return Tile("Largest drop of one head", value, "points of accuracy", "heads")


def costs_together(documents: Documents) -> Tile | None:
    rows = [found.joint.removable[0] for _, found in learned(documents) if found.joint.removable]
    if not rows or documents.with_lengths:
        return None
    value = spread([row.alone_under_limit.drop for row in rows], points)
    return Tile("Harmless heads, all removed", value, "points of accuracy lost", "heads")


def lengths_held(documents: Documents) -> Tile | None:
    found = [one for _, one in documents.with_lengths]
    if not found:
        return None
    longest = highest(one.training.longest for one in found)
    remark = text("{}; trained on up to {}", found[0].unit, longest)
    if all(not one.length_held and lengths.too_few(one) for one in found):
        few = text("{} examples of a length are too few", number(found[0].n))
        return Tile("Length held", "not known", few, "lengths", "warning")
    return Tile("Length held", spread([one.length_held for one in found], lambda one: f"{one:,.0f}"), remark, "lengths")


def furthest(documents: Documents) -> Tile | None:
    """The run that holds furthest, where one is alone at that."""
    found = documents.with_lengths
    best = max((one.length_held for _, one in found), default=0)
    ahead = [run for run, one in found if one.length_held == best]
    if len(ahead) != 1:
        return None
    return Tile(
        "Holds furthest", code(ahead[0].name), text("to {}", highest(one.length_held for _, one in found)), "lengths"
    )


def n_runs(documents: Documents) -> Tile:
    return Tile("Runs", documents.n_runs, "each in one row below", "seeds")


# The doctor


def doctor(documents: Documents) -> Tile:
    """The worst level that any finding has, and the checks that found it."""
    found = [one for run in documents.examined for one in run.findings] + list(documents.together)
    if not documents.examined:
        return Tile("Doctor", "not asked", "nothing was checked", "doctor", "warning")
    for level in ("error", "warning"):
        if checks := named([one for one in found if one.level == level]):
            return Tile("Doctor", value_of(documents, level), checks, "doctor", level)
    return Tile("Doctor", "no error", "and no warning", "doctor", "fine")


def value_of(documents: Documents, level: str) -> Words:
    """How many findings of a level there are, of one run; of several only that there are some."""
    if len(documents.runs) == 1 and not any(one.level == level for one in documents.together):
        n = count(documents.runs[0].findings, "level", level)
        return text("{} {}", n, level if n.value == 1 else f"{level}s")
    return "errors" if level == "error" else "no error"


def named(findings: Sequence[Finding]) -> Words:
    """The checks, each once."""
    names: list[Words] = list({one.check: code(one.check) for one in findings}.values())
    more = [*names[:MOST_NAMED], "more"] if len(names) > MOST_NAMED else names
    level = findings[0].level if findings else ""
    return text("{}{}", "warned of: " if level == "warning" else "", listed(more)) if names else ""


# The sentence


def headline(documents: Documents, answer: Sequence[Text]) -> Text:
    """The finding in one short sentence; the answer's first where there is no shorter one."""
    try:
        short = of_heads(documents) or of_lengths(documents)
    except Exception:
        short = None
    return short or answer[0]


def of_heads(documents: Documents) -> Text | None:
    if documents.with_lengths:
        return None
    found = learned(documents)
    if len(documents.runs) == 1 and found:
        return of_one(found[0][1])
    first = [one for _, analysed in found if (one := ranked(analysed)) is not None]
    rows = [analysed.joint.removable[0] for _, analysed in found if analysed.joint.removable]
    if not first or len(rows) < 2:
        return None
    return text(
        "Removing one head costs up to {} points; removing all heads that cost under {} alone costs {} points.",
        highest([head.ablation[kind].drop for head, kind, _ in first], points),
        counted(rows[0].limit, "point"),
        spread([row.alone_under_limit.drop for row in rows], points),
    )


def of_lengths(documents: Documents) -> Text | None:
    """How far one run holds, on the set where it holds least, and whether an attack broke it."""
    if len(documents.runs) != 1 or documents.runs[0].lengths is None:
        return None
    run, found = documents.runs[0], documents.runs[0].lengths
    ends = number(found.training.shortest), number(found.training.longest)
    everywhere = len(set(found.held.values())) == 1
    where = "on every set" if everywhere else text("on {}, its weakest set", set_name(lengths.weakest_set(found)))
    held = text("holds to {} {}", number(found.length_held), where) if found.length_held else lengths.no_length(found)
    broken = "; an attack found inputs that it gets wrong" if run.attack is not None and run.attack.broken else ""
    return text("Trained on {} to {} {}, it {}{}.", *ends, found.unit, held, broken)


def of_one(found: HeadAnalysis) -> Text:
    """Who is needed alone, and what the others cost together."""
    n = size(found.heads)
    level = next((one for one in ("critical", "important") if one in found.verdicts.values()), None)
    if level is None:
        start = text("Of {} heads none is shown to be needed by itself", n)
    else:
        needed = count(found.heads, "verdict", level)
        start = text("{} of {} heads {} {}", needed, n, "is" if needed.value == 1 else "are", level)
    if not found.joint.removable or not found.joint.removable[0].alone_under_limit.heads:
        return text("{}.", start)
    row = found.joint.removable[0]
    return text(
        "{}; the {} that cost under {} alone cost {} points together.",
        start,
        size(row.alone_under_limit.heads),
        counted(row.limit, "point"),
        number(row.alone_under_limit.drop, points),
    )


# The figure


def figure(documents: Documents) -> Figure | None:
    """What the answer rests on: lengths where they were measured, else heads, else training."""
    if documents.with_lengths:
        return leading_figure(documents)
    analysed = [(run, found) for run, found in documents.with_heads if any(head.ablation for head in found.heads)]
    if len(analysed) == 1:
        run, found = analysed[0]
        draw = partial(overview, found)
        return Figure("overview", ALT, draw, narrow=partial(draw, narrow=True), run=run.place)
    curves = [found for _, found in analysed if found.joint.elimination.steps]
    if curves:
        of_seeds = partial(overview_of_seeds, curves)
        return Figure("overview", ALT_OF_SEEDS, of_seeds, narrow=partial(of_seeds, narrow=True))
    trained = [run for run in documents.runs if run.metrics.validation]
    if not trained:
        return None
    in_training = partial(training_curves, [run.name for run in trained], [run.metrics for run in trained])
    return Figure("overview", ALT_OF_TRAINING, in_training, narrow=partial(in_training, narrow=True))
