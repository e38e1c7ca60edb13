"""The answer, first: what was asked, and at most three sentences with numbers, hedged by what was measured."""

from collections.abc import Callable
from functools import partial

from markupsafe import Markup

from headway.reports.evidence import Evidence, listed, percent, points, written
from headway.reports.failed import failures
from headway.reports.length_groups import set_name
from headway.reports.sections.accuracy import SPLITS, WHOLE, accuracy_path, best_split, verb, whole_domain
from headway.reports.sections.doctor import tally as findings_tally
from headway.reports.sections.head_sets import going, unlearned
from headway.reports.sections.heads import failures as instrument_failures
from headway.reports.sections.heads import ranked
from headway.reports.sections.heads import tally as verdict_tally
from headway.reports.sections.setup import differing
from headway.results.study import LengthStudy

STRICTEST = "adjacent"
"""The set that leaves a model least room to be right for a wrong reason."""
MOST_NAMED = 3
"""Runs that the answer names, failed ones too; the section of every run has all."""


def asked(evidence: Evidence) -> Markup:
    """The questions that the documents can answer, in words."""
    task = evidence.text(f"{evidence.runs[0]}/config/task/name", "code")
    several = len(evidence.runs) > 1
    which = "each" if several else "it"
    questions = []
    if evidence.those_with("heads"):
        questions.append(f"which attention heads does {which} need, and what do they do")
    if evidence.those_with("lengths"):
        questions.append(f"how far past {'the' if several else 'its'} training lengths does {which} hold")
    if not questions:
        questions.append(f"how often is {which} right")
    subject, was = ("Several transformers", "were") if several else ("A transformer", "was")
    return Markup("{} {} trained on {}. Asked: {}?").format(subject, was, task, "; and ".join(questions))


def answer(evidence: Evidence) -> list[Markup]:
    """What was found about accuracy or lengths, about heads, and how sure it is."""
    found = main_sentences(evidence) or [Markup("Nothing was measured yet.")]
    return [*found[:2], *told(lambda: [sureness(evidence)])]


def told(*findings: Callable[[], list[Markup]]) -> list[Markup]:
    """What each has to say; a word in place of one whose documents are not as headway writes them."""
    found = []
    for finding in findings:
        try:
            found += finding()
        except Exception as problem:
            why = f"{type(problem).__name__}: {problem}"
            found.append(Markup("A finding cannot be told from the files that are there: <q>{}</q>.").format(why))
    return found


def main_sentences(evidence: Evidence) -> list[Markup]:
    study = evidence.length_study
    if study is not None and study.answer:
        return told(lambda: of_study(evidence, study))
    with_heads, with_lengths = evidence.those_with("heads/heads"), evidence.those_with("lengths")
    if len(evidence.runs) == 1:
        run = evidence.runs[0]
        first = of_lengths if with_heads and with_lengths else of_accuracy
        return told(*(partial(written, partial(tell, evidence, run)) for tell in (first, of_heads, of_lengths)))
    sentences = (
        lambda: all_accuracies(evidence) or all_trained(evidence),
        lambda: all_heads(evidence, with_heads) if with_heads else None,
        lambda: all_lengths(evidence, with_lengths) if with_lengths else None,
    )
    return told(*(partial(written, sentence) for sentence in sentences))


def of_study(evidence: Evidence, study: LengthStudy) -> list[Markup]:
    """A study's own words: how far it holds on the strictest set, what decides there or elsewhere, and the rest."""
    sentences = dict(enumerate(study.answer))
    about = {index: (one.kind, one.set_name) for index, one in sentences.items()}
    strictest = next((index for index in about if about[index] == ("furthest", STRICTEST)), 0)
    deciding = [index for index, one in sentences.items() if one.kind in ("decision", "nothing decides")]
    deciding.sort(
        key=lambda index: (
            sentences[index].kind == "nothing decides",
            sentences[index].set_name != sentences[strictest].set_name,
        )
    )
    rest = [index for index, one in sentences.items() if one.kind != "descriptive"]  # which is said at the end
    order = dict.fromkeys([strictest, *deciding, *rest])
    return [evidence.text(f"study/lengths/answer/{index}/text") for index in order]


# One run


def of_accuracy(evidence: Evidence, run: str) -> Markup | None:
    split = best_split(evidence, run)
    if split is None and evidence.has(f"{run}/heads/baseline/n"):
        return of_baseline(evidence, run)
    if split is None:
        return None if evidence.has(f"{run}/lengths") else trained_only(evidence, run)
    if split == WHOLE:
        return whole_domain(evidence, run)
    place = f"{run}/evaluation/{split}"
    return Markup("It answers {} of {} right: {} of {} {} wrong ({}).").format(
        evidence.number(accuracy_path(evidence, run, split), percent),
        SPLITS[split],
        evidence.number(f"{place}/wrong"),
        evidence.number(f"{place}/n"),
        verb(evidence, f"{place}/wrong"),
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
    """Verdicts one at a time, the head that costs most, and against them how many can go together."""
    if instrument_failures(evidence, run):
        return Markup("Of its heads nothing can be said: the instruments failed their own checks.")
    finding = unlearned(evidence, run)
    if finding is not None:
        return Markup("Of its heads nothing can be said: the doctor finds {}.").format(
            evidence.text(f"{finding}/check", "code")
        )
    start = Markup("One at a time, of {} heads {}").format(
        evidence.size(f"{run}/heads/heads"), verdict_tally(evidence, run)
    )
    rest = written(lambda: leading(evidence, run), lambda: gone(evidence, f"{run}/heads/joint/removable/0"))
    return Markup("{}.").format(Markup("; ").join([start, *rest]))


def leading(evidence: Evidence, run: str) -> Markup | None:
    """The head that surely costs most, with its interval; nothing where others' intervals overlap."""
    found = ranked(evidence, run)
    if found is None or not found[2]:
        return None
    place, kind, _ = found
    drop = f"{place}/ablation/{kind}"
    if evidence.get(f"{drop}/interval/0") <= 0:
        return None
    return Markup("{} costs most, {} points ({}; {} ablation)").format(
        evidence.text(f"{place}/head", "code"),
        evidence.number(f"{drop}/drop", points),
        evidence.interval(f"{drop}/interval", points),
        kind,
    )


def gone(evidence: Evidence, row: str) -> Markup:
    """What the heads chosen to go cost, against those that cost little alone."""
    found = going(evidence, row)
    if not evidence.find(f"{row}/alone_under_limit/heads"):
        return found
    return Markup("{}, while the {} that cost less alone cost {} points together").format(
        found,
        evidence.size(f"{row}/alone_under_limit/heads"),
        evidence.number(f"{row}/alone_under_limit/drop", points),
    )


def of_lengths(evidence: Evidence, run: str) -> Markup:
    place = f"{run}/lengths"
    held = [name for name, length in evidence.lengths(run).held.items() if length]
    reached = [Markup("{} on {}").format(evidence.number(f"{place}/held/{name}"), set_name(name)) for name in held]
    how_far = Markup("holds to {}").format(listed(reached)) if reached else Markup("holds at no length")
    if evidence.has(f"{place}/constant"):
        beyond = Markup("; from {} on it answers {} whatever it sees").format(
            evidence.number(f"{place}/constant/from"), evidence.setting(f"{place}/constant/answer")
        )
    else:
        beyond = decline(evidence, run)
    return Markup("Trained on {} to {} {}, it {}{}.").format(
        evidence.number(f"{place}/training/shortest"),
        evidence.number(f"{place}/training/longest"),
        evidence.get(f"{place}/unit"),
        how_far,
        beyond,
    )


def decline(evidence: Evidence, run: str) -> Markup:
    """Accuracy at the longest training length and the longest tested one, on the set with the smallest length held."""
    found = evidence.lengths(run)
    name = min(found.held, key=lambda one: (found.held[one], one != STRICTEST))
    rows = [(index, row) for index, row in enumerate(found.rows) if row.set_name == name]
    trained = [index for index, row in rows if row.trained]
    if not trained or trained[-1] == rows[-1][0]:
        return Markup("")
    first, last = f"{run}/lengths/lengths/{trained[-1]}", f"{run}/lengths/lengths/{rows[-1][0]}"
    return Markup("; on {} its accuracy is {} at {} and {} at {}").format(
        set_name(name),
        evidence.number(f"{first}/accuracy", percent),
        evidence.number(f"{first}/length"),
        evidence.number(f"{last}/accuracy", percent),
        evidence.number(f"{last}/length"),
    )


# Several runs


def all_accuracies(evidence: Evidence) -> Markup | None:
    """From the worst to the best run, on the largest question that all were asked who were asked any."""
    asked_at = {run: split for run in evidence.runs if (split := best_split(evidence, run)) is not None}
    if len(set(asked_at.values())) != 1:
        return None
    split = next(iter(asked_at.values()))
    paths = [accuracy_path(evidence, run, split) for run in asked_at]
    runs = planned_runs(evidence)
    some = Markup("{} of ").format(evidence.having(f"evaluation/{split}")) if len(asked_at) < runs[1] else ""
    return Markup("{}{} runs answer {} to {} of {} right; the worst has {} wrong, the best {}.").format(
        some,
        runs[0],
        evidence.lowest(paths, percent),
        evidence.highest(paths, percent),
        SPLITS[split],
        evidence.highest(f"{run}/evaluation/{split}/wrong" for run in asked_at),
        evidence.lowest(f"{run}/evaluation/{split}/wrong" for run in asked_at),
    )


def planned_runs(evidence: Evidence) -> tuple[Markup, int]:
    """How many runs there should be: those that a study was to make, else those that are there."""
    path = "study/summary/runs" if evidence.has("study/summary/runs") else "runs"
    return evidence.size(path), len(evidence.get(path))


def all_trained(evidence: Evidence) -> Markup | None:
    """What validation saw at the best steps, where no run was evaluated or measured against length."""
    paths = [f"{run}/training/best/accuracy" for run in evidence.those_with("training/best/accuracy")]
    if not paths or evidence.those_with("evaluation") or evidence.those_with("lengths"):
        return None
    return Markup("At their best steps the runs answer {} to {} of validation right.").format(
        evidence.lowest(paths, percent), evidence.highest(paths, percent)
    )


def all_heads(evidence: Evidence, runs: list[str]) -> Markup:
    """Which head each run needs most, or how much those cost, and what heads cost together that cost little alone."""
    runs = [run for run in runs if unlearned(evidence, run) is None]
    if not runs:
        return Markup(
            "Of their heads nothing can be said: by the doctor's findings none of the models learned its task."
        )
    drops = [f"{run}/heads/joint/removable/0/alone_under_limit/drop" for run in runs]
    return Markup(
        "Heads were analysed in {}: {}all those that cost less than {} point alone cost {} to {} points together."
    ).format(
        listed([evidence.text(f"{run}/name", "code") for run in runs])
        if len(runs) <= MOST_NAMED
        else "several of them",
        costliest_of_each(evidence, runs),
        evidence.number(f"{runs[0]}/heads/joint/removable/0/limit"),
        evidence.lowest(drops, points),
        evidence.highest(drops, points),
    )


def costliest_of_each(evidence: Evidence, runs: list[str]) -> Markup:
    """The head that costs each run most, where runs are few and all have one; else from how much to how much."""
    surely = {run: one for run in runs if (one := leading(evidence, run)) is not None}
    if len(surely) == len(runs) <= MOST_NAMED:
        named = [Markup("in {} {}").format(evidence.text(f"{run}/name", "code"), one) for run, one in surely.items()]
        return Markup("{}; ").format(listed(named))
    found = [first for run in runs if (first := ranked(evidence, run)) is not None]
    paths = [f"{place}/ablation/{kind}/drop" for place, kind, _ in found]
    if not paths:
        return Markup("")
    return Markup("the largest drop of a single head is {} to {} points; ").format(
        evidence.lowest(paths, points), evidence.highest(paths, points)
    )


def all_lengths(evidence: Evidence, runs: list[str]) -> Markup:
    """How far the runs hold over all their sets, those of each unit by themselves."""
    units = {run: evidence.lengths(run).unit for run in runs}
    of_unit = [[run for run in runs if units[run] == unit] for unit in dict.fromkeys(units.values())]
    return Markup(" ").join(lengths_of_unit(evidence, some) for some in of_unit)


def lengths_of_unit(evidence: Evidence, runs: list[str]) -> Markup:
    paths = [f"{run}/lengths/length_held" for run in runs]
    reached = {evidence.lengths(run).length_held for run in runs}
    how_far = Markup("hold to {} at worst and {} at best").format(evidence.lowest(paths), evidence.highest(paths))
    if len(reached) == 1:
        how_far = Markup("hold to {}").format(evidence.lowest(paths)) if reached != {0} else Markup("hold at no length")
    return Markup("Trained on up to {} {}, {} {} on all sets together.").format(
        evidence.highest(f"{run}/lengths/training/longest" for run in runs),
        evidence.get(f"{runs[0]}/lengths/unit"),
        "all" if len(runs) == len(evidence.runs) else "those measured against length",
        how_far,
    )


# How sure


def basis(evidence: Evidence) -> Markup:
    """How many runs or seeds there are, and that few of them only describe."""
    enough = evidence.get("method/enough_seeds")
    if len(evidence.runs) == 1:
        return Markup("This is one run: another seed may differ")
    if not differing(evidence):
        few = ": a description, not a test" if len(evidence.runs) < enough else ""
        return Markup("These are {} {}{}").format(evidence.size("runs"), "seeds" if few else "runs", few)
    study = evidence.length_study
    cells = () if study is None else study.cells
    counts = {index: cell.together.n_seeds for index, cell in enumerate(cells) if cell.together is not None}
    fewest = min(counts.values(), default=enough)
    if fewest < enough:
        seeds = evidence.lowest(f"study/lengths/cells/{index}/together/n_seeds" for index in counts)
        return Markup("These are {} runs, as few as {} {} of a combination: a description, not a test").format(
            evidence.size("runs"), seeds, "seed" if fewest == 1 else "seeds"
        )
    return Markup("These are {} runs").format(evidence.size("runs"))


def of_the_study(evidence: Evidence) -> Markup:
    """What the doctor says of a study beside its runs, so that nobody reads of no warning where there is one."""
    if not evidence.find("study/doctor/together", []):
        return Markup("")
    return Markup("; of the study: {}").format(findings_tally(evidence, "study/doctor/together"))


def sureness(evidence: Evidence) -> Markup:
    """How many runs stand behind it, which failed, and what the doctor says."""
    failed = failures(evidence)
    base = Markup("; ").join([basis(evidence), *failed[:MOST_NAMED]])
    base += Markup("; more runs failed") if len(failed) > MOST_NAMED else Markup("")
    examined = evidence.those_with("doctor")
    if not examined:
        damaged = evidence.those_with("damaged/doctor")
        told = "what the doctor said cannot be read" if damaged else "the doctor was not asked"
        return Markup("{}, and {}.").format(base, told)
    if len(evidence.runs) == 1:
        alone = findings_tally(evidence, f"{examined[0]}/doctor/findings")
        return Markup("{}; the doctor: {}{}.").format(base, alone, of_the_study(evidence))
    ill = [run for run in examined if evidence.how_many(f"{run}/doctor/findings", "level", "error")]
    if not ill:
        healthy = Markup("{}; the doctor finds no error in those it was asked about{}.")
        return healthy.format(base, of_the_study(evidence))
    names = listed([evidence.text(f"{run}/name", "code") for run in ill[:MOST_NAMED]])
    more = " and others" if len(ill) > MOST_NAMED else ""
    return Markup("{}; the doctor finds errors in {}{}{}.").format(base, names, more, of_the_study(evidence))
