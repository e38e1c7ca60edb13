"""The first part of a report: the question, and an answer of at most three sentences with numbers."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from headway.narration import accuracy, lengths
from headway.narration.accuracy import SPLITS
from headway.narration.doctor import tally as findings_tally
from headway.narration.head_sets import gone
from headway.narration.heads import leading, ranked
from headway.narration.heads import tally as verdict_tally
from headway.narration.lengths import STRICTEST
from headway.narration.method import METHOD
from headway.narration.numbers import highest, lowest, number, percent, points, size, spread, whole
from headway.narration.text import Number, Text, Words, code, join, listed, quote, text, told
from headway.reports.documents import Documents, RunDocuments
from headway.reports.failed import failures
from headway.reports.sections.accuracy import trained_on
from headway.reports.sections.setup import differing
from headway.results.doctor import Finding
from headway.results.heads import HeadAnalysis
from headway.results.lengths import Lengths
from headway.results.study import LengthStudy

MOST_NAMED = 3
"""Runs that the answer names, including failed ones; the section of every run has all."""


def asked(documents: Documents) -> Text:
    """The questions that the documents answer, in words."""
    several = len(documents.runs) > 1
    which = "each" if several else "it"
    questions = []
    if any(run.heads for run in documents.runs):
        questions.append(f"which attention heads does {which} need, and what do they do")
    if documents.with_lengths:
        questions.append(f"how far past {'the' if several else 'its'} training lengths does {which} hold")
    if not questions:
        questions.append(f"how often is {which} right")
    subject = "Several transformers were" if several else "A transformer was"
    if (model := documents.runs[0].model) is not None:
        measured = text("{} is a model of another program, measured on {}", code(model.model), code(model.data))
        return text("{}. Asked: {}?", measured, "; and ".join(questions))
    task = code(documents.runs[0].config["task"]["name"])
    return text("{} trained on {}. Asked: {}?", subject, task, "; and ".join(questions))


def answer(documents: Documents) -> list[Text]:
    """The findings about accuracy or lengths, about heads, and their certainty."""
    found = main_sentences(documents) or [text("Nothing was measured yet.")]
    return [*found[:2], *attempted(lambda: [sureness(documents)])]


def attempted(*findings: Callable[[], Iterable[Text]]) -> list[Text]:
    """The sentences of each finding; a note replaces a finding whose documents are damaged."""
    found: list[Text] = []
    for finding in findings:
        try:
            found += finding()
        except Exception as problem:
            why = f"{type(problem).__name__}: {problem}"
            found.append(text("A finding cannot be read from the files: {}.", quote(why)))
    return found


def main_sentences(documents: Documents) -> list[Text]:
    study = None if documents.study is None else documents.study.lengths
    if study is not None and study.answer:
        return attempted(lambda: of_study(study))
    tell: Sequence[Callable[[], Words | None]]
    if len(documents.runs) == 1:
        run = documents.runs[0]
        of_both = documents.with_heads and documents.with_lengths
        first = of_lengths if of_both else of_accuracy
        tell = [partial(one, run) for one in (first, of_heads, of_lengths)]
    else:
        tell = [
            lambda: all_accuracies(documents) or all_trained(documents),
            lambda: all_heads(documents.with_heads),
            lambda: all_lengths(documents),
        ]
    return attempted(*(partial(told, one) for one in tell))


def of_study(study: LengthStudy) -> list[Text]:
    """A study's own sentences: the length held on the strictest set, what decides it, and the rest."""
    first = next((one for one in study.answer if (one.kind, one.set_name) == ("furthest", STRICTEST)), study.answer[0])
    deciding = [one for one in study.answer if one.kind in ("decision", "nothing decides")]
    deciding.sort(key=lambda one: (one.kind == "nothing decides", one.set_name != first.set_name))
    rest = [one for one in study.answer if one.kind != "descriptive"]  # shown at the end
    return [text("{}", quote(one.text)) for one in dict.fromkeys([first, *deciding, *rest])]


# One run


def of_accuracy(run: RunDocuments) -> Text | None:
    found = run.best_evaluation
    if found is not None:
        whole_domain = found.split == accuracy.WHOLE
        return accuracy.asked_all(found, trained_on(run)) if whole_domain else accuracy.in_short(found)
    if run.heads is not None:
        return accuracy.of_baseline(run.heads)
    if run.lengths is not None:
        return None
    best = run.training["best"]
    return text(
        "At its best step, {}, it answers {} of validation right; it was not evaluated further.",
        number(best["step"]),
        number(best["accuracy"], percent),
    )


def of_heads(run: RunDocuments) -> Text | None:
    """Verdicts of single heads, the head with the largest drop, and how many can be removed together."""
    found = run.heads
    if found is None:
        return None
    if found.doubts():
        return text("Its heads cannot be analysed: the instruments failed their self-checks.")
    if run.unlearned is not None:
        return text("Its heads cannot be analysed: the doctor finds {}.", code(run.unlearned.check))
    start = text("One at a time, of {} heads {}", size(found.heads), verdict_tally(found))
    return text("{}.", join("; ", [start, *told(lambda: leading(found), lambda: gone(found.joint.removable[0]))]))


def of_lengths(run: RunDocuments) -> Text | None:
    return None if run.lengths is None else lengths.in_short(run.lengths)


# Several runs


def all_accuracies(documents: Documents) -> Text | None:
    """The range from the worst to the best run, on the largest split that all evaluated runs share."""
    found = [one for run in documents.runs if (one := run.best_evaluation) is not None]
    if len({one.split for one in found}) != 1:
        return None
    split = str(found[0].split)
    planned = planned_runs(documents)
    having = Number(len(found), whole(len(found)), f"having(runs, evaluation/{split})")
    return text(
        "{}{} runs answer {} to {} of {} right; the worst has {} wrong, the best {}.",
        text("{} of ", having) if len(found) < planned.value else "",
        planned,
        lowest([one.accuracy for one in found], percent),
        highest([one.accuracy for one in found], percent),
        SPLITS[split],
        highest(one.wrong for one in found),
        lowest(one.wrong for one in found),
    )


def planned_runs(documents: Documents) -> Number:
    """The number of planned runs of a study, or else of existing runs."""
    summary = None if documents.study is None else documents.study.summary
    return documents.n_runs if summary is None else size(summary.runs)


def all_trained(documents: Documents) -> Text | None:
    """Validation accuracy at the best steps, if no run was evaluated or measured against length."""
    best = [run.training["best"]["accuracy"] for run in documents.runs if run.training.get("best")]
    if not best or any(run.evaluation or run.lengths for run in documents.runs):
        return None
    return text("At their best steps the runs answer {} of validation right.", spread(best, percent))


def all_heads(analysed: Sequence[tuple[RunDocuments, HeadAnalysis]]) -> Text | None:
    """The most important head of each run or its range of drops, and the joint cost of heads that cost little alone."""
    if not analysed:
        return None
    learned = [(run, found) for run, found in analysed if run.unlearned is None]
    if not learned:
        return text("Their heads cannot be analysed: by the doctor's findings none of the models learned its task.")
    rows = [found.joint.removable[0] for _, found in learned]
    drops = [row.alone_under_limit.drop for row in rows]
    return text(
        "Heads were analysed in {}: {}all those that cost less than {} point alone cost {} points together.",
        listed([code(run.name) for run, _ in learned]) if len(learned) <= MOST_NAMED else "several of them",
        costliest_of_each(learned),
        number(rows[0].limit),
        spread(drops, points),
    )


def costliest_of_each(analysed: Sequence[tuple[RunDocuments, HeadAnalysis]]) -> Text:
    """The head with the largest drop of each run, if runs are few; otherwise the range of the largest drops."""
    named = [
        text("in {} {}", code(run.name), words) for run, found in analysed if (words := leading(found)) is not None
    ]
    if len(named) == len(analysed) <= MOST_NAMED:
        return text("{}; ", listed(named))
    first = [one for _, found in analysed if (one := ranked(found)) is not None]
    drops = [head.ablation[kind].drop for head, kind, _ in first]
    if not drops:
        return Text()
    return text("the largest drop of a single head is {} points; ", spread(drops, points))


def all_lengths(documents: Documents) -> Text:
    """The lengths that the runs hold over all their sets, separately for each unit."""
    found = [one for _, one in documents.with_lengths]
    units = dict.fromkeys(str(one.unit) for one in found)
    everyone = len(found) == len(documents.runs)
    return join(" ", [of_unit([one for one in found if one.unit == unit], unit, everyone) for unit in units])


def of_unit(found: Sequence[Lengths], unit: str, everyone: bool) -> Text:
    reached = [one.length_held for one in found]
    how_far = text("hold to {} at worst and {} at best", lowest(reached), highest(reached))
    if len(set(reached)) == 1:
        how_far = text("hold to {}", lowest(reached)) if reached[0] else text("hold at no length")
    longest = highest(one.training.longest for one in found)
    if not any(reached) and all(map(lengths.too_few, found)):
        none = "Trained on up to {} {}, none is shown to hold at any length, for which {} examples are too few."
        return text(none, longest, unit, number(found[0].n))
    who = "all" if everyone else "those measured against length"
    return text("Trained on up to {} {}, {} {} on all sets together.", longest, unit, who, how_far)


# How sure


def basis(documents: Documents) -> Text:
    """The number of runs or seeds, and whether they are only descriptive."""
    n = documents.n_runs
    if n.value == 1:
        return text("This is one run: another seed may differ")
    if not differing(documents):
        few = ": a description, not a test" if n.value < METHOD.enough_seeds else ""
        return text("These are {} {}{}", n, "seeds" if few else "runs", few)
    seeds = [cell.together.n_seeds for cell in documents.cells if cell.together is not None]
    if seeds and min(seeds) < METHOD.enough_seeds:
        word = "seed" if min(seeds) == 1 else "seeds"
        few = "These are {} runs, as few as {} {} of a combination: a description, not a test"
        return text(few, n, lowest(seeds), word)
    return text("These are {} runs", n)


def sureness(documents: Documents) -> Text:
    """The number of runs, the failed ones, and the doctor's findings."""
    failed = failures(documents)
    base = join("; ", [basis(documents), *failed[:MOST_NAMED]])
    base += "; more runs failed" if len(failed) > MOST_NAMED else ""
    examined = documents.examined
    if not examined:
        damaged = any("doctor" in run.damaged for run in documents.runs)
        heard = "the doctor's findings cannot be read" if damaged else "the doctor was not run"
        return text("{}, and {}.", base, heard)
    if len(documents.runs) == 1:
        return text("{}; the doctor finds {}.", base, with_study(examined[0].findings, documents.together))
    ill = [run for run in examined if run.errors]
    more = " and others" if len(ill) > MOST_NAMED else ""
    names = text("errors in {}{}", listed([code(run.name) for run in ill[:MOST_NAMED]]), more)
    found = [names if ill else text("no error in the runs it examined"), *of_together(documents.together)]
    return text("{}; the doctor finds {}.", base, join("; ", found))


def with_study(findings: Sequence[Finding], together: Sequence[Finding]) -> Text:
    """What the doctor finds in the one run of a study, and of the study as such: each level is spoken of once."""
    of_study = of_together(together)
    first = text("no error") if of_study and not not_fine(findings) else findings_tally(findings)
    return join("; ", [first, *of_study])


def of_together(together: Sequence[Finding]) -> list[Text]:
    """Errors and warnings that are about the study and not about a run."""
    return [text("of the study as a whole, {}", findings_tally(together))] if not_fine(together) else []


def not_fine(findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.level != "fine"]
