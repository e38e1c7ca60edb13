"""The answer, first: what was asked, and at most three sentences with numbers, hedged by what was measured."""

from markupsafe import Markup

from headway.report.evidence import Evidence, listed, percent, points, written
from headway.report.length_groups import set_name
from headway.report.sections.accuracy import SPLITS, accuracy_path, best_split
from headway.report.sections.doctor import tally as findings_tally
from headway.report.sections.heads import tally as verdict_tally
from headway.report.sections.setup import differing

STRICTEST = "adjacent"
"""The set that leaves a model least room to be right for a wrong reason."""


def asked(evidence: Evidence) -> Markup:
    """The questions that the documents can answer, in words."""
    task = evidence.text(f"{evidence.runs[0]}/config/task/name", "code")
    questions = []
    if evidence.those_with("heads"):
        questions.append("which attention heads does it need, and what do they do")
    if evidence.those_with("lengths"):
        questions.append("how far past its training lengths does it hold")
    if not questions:
        questions.append("how often is it right")
    subject = "A transformer" if len(evidence.runs) == 1 else "Several transformers"
    verb = "was" if len(evidence.runs) == 1 else "were"
    return Markup("{} {} trained on {}. Asked: {}?").format(subject, verb, task, listed(questions))


def answer(evidence: Evidence) -> list[Markup]:
    """What was found about accuracy or lengths, about heads, and how sure it is."""
    found = main_sentences(evidence) or [Markup("Nothing was measured yet.")]
    return [*found[:2], sureness(evidence)]


def main_sentences(evidence: Evidence) -> list[Markup]:
    spoken = range(len(evidence.find("study/lengths/answer", [])))
    if spoken:
        return [evidence.text(f"study/lengths/answer/{index}") for index in spoken]
    with_heads, with_lengths = evidence.those_with("heads/heads"), evidence.those_with("lengths")
    if len(evidence.runs) == 1:
        run = evidence.runs[0]
        first = (
            [lambda: of_lengths(evidence, run)] if with_heads and with_lengths else [lambda: of_accuracy(evidence, run)]
        )
        return written(*first, lambda: of_heads(evidence, run), lambda: of_lengths(evidence, run))
    return written(
        lambda: all_accuracies(evidence),
        lambda: all_heads(evidence, with_heads) if with_heads else None,
        lambda: all_lengths(evidence, with_lengths) if with_lengths else None,
    )


# One run


def of_accuracy(evidence: Evidence, run: str) -> Markup | None:
    split = best_split(evidence, run)
    if split is None and evidence.has(f"{run}/heads/baseline/n"):
        return of_baseline(evidence, run)
    if split is None:
        return None if evidence.has(f"{run}/lengths") else trained_only(evidence, run)
    place = f"{run}/evaluation/{split}"
    return Markup("It answers {} of {} right: {} of {} are wrong ({}).").format(
        evidence.number(accuracy_path(evidence, run, split), percent),
        SPLITS[split],
        evidence.number(f"{place}/wrong"),
        evidence.number(f"{place}/n"),
        evidence.interval(f"{place}/interval"),
    )


def of_baseline(evidence: Evidence, run: str) -> Markup:
    place = f"{run}/heads/baseline"
    return Markup("It answers {} of {} examples of {} right ({}).").format(
        evidence.number(f"{place}/exact_match", percent),
        evidence.number(f"{place}/n"),
        SPLITS[evidence.get(f"{run}/heads/split")],
        evidence.interval(f"{place}/interval"),
    )


def trained_only(evidence: Evidence, run: str) -> Markup:
    return Markup(
        "At its best step, {}, it answers {} of validation right; nothing larger was asked of it yet."
    ).format(evidence.number(f"{run}/training/best/step"), evidence.number(f"{run}/training/best/accuracy", percent))


def of_heads(evidence: Evidence, run: str) -> Markup:
    """Verdicts one at a time, and against them how many can go together."""
    start = Markup("One at a time, of {} heads {}").format(
        evidence.size(f"{run}/heads/heads"), verdict_tally(evidence, run)
    )
    row = f"{run}/heads/joint/removable/0"
    if not evidence.has(f"{row}/alone_under_limit/drop"):
        return Markup("{}.").format(start)
    fewer = len(evidence.get(f"{row}/heads")) < len(evidence.get(f"{row}/alone_under_limit/heads"))
    return Markup(
        "{}; {}{} can go together for less than {} point, {} the {} that cost less alone cost {} points together."
    ).format(
        start,
        "only " if fewer else "",
        evidence.size(f"{row}/heads"),
        evidence.number(f"{row}/limit"),
        "while" if fewer else "and",
        evidence.size(f"{row}/alone_under_limit/heads"),
        evidence.number(f"{row}/alone_under_limit/drop", points),
    )


def of_lengths(evidence: Evidence, run: str) -> Markup:
    place = f"{run}/lengths"
    held = {name: length for name, length in evidence.get(f"{place}/certified").items() if length}
    reached = [Markup("{} on {}").format(evidence.number(f"{place}/certified/{name}"), set_name(name)) for name in held]
    how_far = Markup("certified to {}").format(listed(reached)) if reached else Markup("certified at no length")
    if evidence.has(f"{place}/constant"):
        beyond = Markup("; from {} on it answers {} whatever it sees").format(
            evidence.number(f"{place}/constant/from"), evidence.setting(f"{place}/constant/answer")
        )
    else:
        beyond = decline(evidence, run)
    return Markup("Trained on {} to {} {}, it is {}{}.").format(
        evidence.number(f"{place}/training/shortest"),
        evidence.number(f"{place}/training/longest"),
        evidence.get(f"{place}/unit"),
        how_far,
        beyond,
    )


def decline(evidence: Evidence, run: str) -> Markup:
    """Accuracy at the longest training length and at the longest tested one, on the set that certifies least."""
    place = f"{run}/lengths"
    certified = evidence.get(f"{place}/certified")
    name = min(certified, key=lambda one: (certified[one], one != STRICTEST))
    rows = [row for row in enumerate(evidence.get(f"{place}/lengths")) if row[1]["negatives"] == name]
    trained = [index for index, row in rows if row["trained"]]
    if not trained or trained[-1] == rows[-1][0]:
        return Markup("")
    first, last = f"{place}/lengths/{trained[-1]}", f"{place}/lengths/{rows[-1][0]}"
    return Markup("; on {} its accuracy is {} at {} and {} at {}").format(
        set_name(name),
        evidence.number(f"{first}/accuracy", percent),
        evidence.number(f"{first}/length"),
        evidence.number(f"{last}/accuracy", percent),
        evidence.number(f"{last}/length"),
    )


# Several runs


def all_accuracies(evidence: Evidence) -> Markup | None:
    """From the worst to the best run, on the largest question that all were asked."""
    splits = {best_split(evidence, run) for run in evidence.runs}
    if len(splits) != 1 or None in splits:
        return None
    split = str(splits.pop())
    paths = [accuracy_path(evidence, run, split) for run in evidence.runs]
    return Markup("{} runs answer {} to {} of {} right; the worst has {} wrong, the best {}.").format(
        evidence.size("runs"),
        evidence.lowest(paths, percent),
        evidence.highest(paths, percent),
        SPLITS[split],
        evidence.highest(f"{run}/evaluation/{split}/wrong" for run in evidence.runs),
        evidence.lowest(f"{run}/evaluation/{split}/wrong" for run in evidence.runs),
    )


def all_heads(evidence: Evidence, runs: list[str]) -> Markup:
    drops = [f"{run}/heads/joint/removable/0/alone_under_limit/drop" for run in runs]
    return Markup(
        "Heads were analysed in {}: all those that cost less than {} point alone cost {} to {} points together."
    ).format(
        listed([evidence.text(f"{run}/name", "code") for run in runs]) if len(runs) <= 3 else "several of them",
        evidence.number(f"{runs[0]}/heads/joint/removable/0/limit"),
        evidence.lowest(drops, points),
        evidence.highest(drops, points),
    )


def all_lengths(evidence: Evidence, runs: list[str]) -> Markup:
    paths = [f"{run}/lengths/certified_length" for run in runs]
    reached = {evidence.get(path) for path in paths}
    how_far = Markup("certified to {} at worst and {} at best").format(evidence.lowest(paths), evidence.highest(paths))
    if len(reached) == 1:
        how_far = (
            Markup("certified to {}").format(evidence.lowest(paths))
            if reached != {0}
            else Markup("certified at no length")
        )
    return Markup("Trained on up to {} {}, {} {}.").format(
        evidence.highest(f"{run}/lengths/training/longest" for run in runs),
        evidence.get(f"{runs[0]}/lengths/unit"),
        "all are" if len(runs) == len(evidence.runs) else "those measured against length are",
        how_far,
    )


# How sure


def sureness(evidence: Evidence) -> Markup:
    """How many runs stand behind it, and what the doctor says."""
    if len(evidence.runs) == 1:
        base = Markup("This is one run: another seed may differ")
    elif not differing(evidence) and len(evidence.runs) < evidence.get("method/enough_seeds"):
        base = Markup("These are {} seeds: a description, not a test").format(evidence.size("runs"))
    else:
        base = Markup("These are {} runs").format(evidence.size("runs"))
    examined = evidence.those_with("doctor")
    if not examined:
        return Markup("{}, and the doctor was not asked.").format(base)
    if len(evidence.runs) == 1:
        return Markup("{}; the doctor: {}.").format(base, findings_tally(evidence, f"{examined[0]}/doctor/findings"))
    ill = [run for run in examined if evidence.how_many(f"{run}/doctor/findings", "level", "error")]
    if not ill:
        return Markup("{}; the doctor finds no error in those it was asked about.").format(base)
    names = listed([evidence.text(f"{run}/name", "code") for run in ill[:3]])
    more = " and others" if len(ill) > 3 else ""
    return Markup("{}; the doctor finds errors in {}{}.").format(base, names, more)
