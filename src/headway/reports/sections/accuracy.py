"""How often the model is right, how sure that is, and where it fails."""

from functools import partial

from markupsafe import Markup

from headway.reports.anatomy import anatomy
from headway.reports.blocks import Block, Cell, Column, Figure, Listing, Section, Table, paragraph
from headway.reports.evidence import Evidence, percent, written
from headway.results.evaluation import SequenceEvaluation

SPLITS = {"all": "the whole domain", "test": "the test split", "validation": "validation", "train": "training"}
WHOLE = "all"
MOST_WRONG = 8
"""Wrong answers that are shown."""


def section(evidence: Evidence) -> Section | None:
    found = [(run, split) for run in evidence.those_with("evaluation") for split in SPLITS if has(evidence, run, split)]
    blocks: list[Block] = []
    if found:
        if len(evidence.runs) == 1:
            blocks += paragraph(sentences(evidence, *found[0]))
        blocks.append(table(evidence, found))
    blocks += [block for run in evidence.runs for block in failures(evidence, run)]
    return Section("accuracy", "Accuracy, and what goes wrong", blocks) if blocks else None


def has(evidence: Evidence, run: str, split: str) -> bool:
    return evidence.evaluations(run).of(split) is not None


def best_split(evidence: Evidence, run: str) -> str | None:
    """The largest honest question that was asked of a run: the whole domain, else the test split."""
    return next((split for split in ("all", "test", "validation") if has(evidence, run, split)), None)


def accuracy_path(evidence: Evidence, run: str, split: str) -> str:
    """Where the accuracy stands: whole answers have `exact_match`, classes have `accuracy`."""
    sequences = isinstance(evidence.evaluations(run).of(split), SequenceEvaluation)
    return f"{run}/evaluation/{split}/{'exact_match' if sequences else 'accuracy'}"


def sentences(evidence: Evidence, run: str, split: str) -> list[Markup]:
    place = f"{run}/evaluation/{split}"
    return written(
        lambda: whole_domain(evidence, run) if split == WHOLE else of_sample(evidence, run, split),
        lambda: Markup(
            "That is one parallel pass; {} answers were also decoded for real, token by token, and {} disagreed."
        ).format(evidence.number(f"{place}/decoded_n"), evidence.number(f"{place}/disagreements")),
        lambda: Markup("Balanced over the classes it is {}.").format(
            evidence.number(f"{place}/balanced_accuracy", percent)
        ),
    )


def of_sample(evidence: Evidence, run: str, split: str) -> Markup:
    place = f"{run}/evaluation/{split}"
    return Markup("On {} {} of {} answers {} wrong: {} are right ({} interval {}).").format(
        SPLITS[split],
        evidence.number(f"{place}/wrong"),
        evidence.number(f"{place}/n"),
        verb(evidence, f"{place}/wrong"),
        evidence.number(accuracy_path(evidence, run, split), percent),
        evidence.number("method/confidence", percent_short),
        evidence.interval(f"{place}/interval"),
    )


def whole_domain(evidence: Evidence, run: str) -> Markup:
    """What came of asking everything there is: a count, which no sampling interval belongs to."""
    place, data = f"{run}/evaluation/{WHOLE}", f"{run}/config/data"
    drawn = evidence.has(f"{data}/train") and not evidence.find(f"{data}/fresh") and not evidence.find(f"{data}/files")
    return Markup("All {} questions of the domain were asked{}: {} {} answered wrong, {} right.").format(
        evidence.number(f"{place}/n"),
        Markup(", the {} of training among them").format(evidence.number(f"{data}/train")) if drawn else "",
        evidence.number(f"{place}/wrong"),
        verb(evidence, f"{place}/wrong"),
        evidence.number(accuracy_path(evidence, run, WHOLE), percent),
    )


def verb(evidence: Evidence, path: str) -> str:
    return "is" if evidence.get(path) == 1 else "are"


def percent_short(share: float) -> str:
    """A round share: 95 %."""
    return f"{100 * share:g} %"


def table(evidence: Evidence, found: list[tuple[str, str]]) -> Table:
    several = len({run for run, _ in found}) > 1
    columns = [Column(name) for name in ("n", "wrong", "accuracy", "interval", "decoded", "disagreements")]
    rows = []
    for run, split in found:
        place, accuracy = f"{run}/evaluation/{split}", accuracy_path(evidence, run, split)
        cells = [Cell(evidence.text(f"{run}/name", "code"))] * several + [Cell(Markup.escape(SPLITS[split]))]
        cells += [Cell(evidence.number(f"{place}/{key}"), evidence.get(f"{place}/{key}")) for key in ("n", "wrong")]
        cells.append(Cell(evidence.number(accuracy, percent), evidence.get(accuracy)))
        cells.append(
            Cell(Markup("none: all were asked"))
            if split == WHOLE
            else Cell(evidence.interval(f"{place}/interval"), evidence.get(f"{place}/interval/0"))
        )
        cells += [
            Cell(evidence.number(f"{place}/{key}"), evidence.get(f"{place}/{key}"))
            if evidence.has(f"{place}/{key}")
            else Cell(Markup("–"))
            for key in ("decoded_n", "disagreements")
        ]
        rows.append(cells)
    named = [Column("run", numeric=False)] * several + [Column("examples", numeric=False)]
    return Table("Accuracy of whole answers", [*named, *columns], rows)


# Error anatomy


def failures(evidence: Evidence, run: str) -> list[Block]:
    """Where a run fails: by what makes an example hard, and some of the wrong answers."""
    blocks: list[Block] = []
    if evidence.find(f"{run}/heads/anatomy/wrong"):
        blocks += paragraph(hardest(evidence, run))
        alt = "Accuracy with its interval, by each property that makes an example hard and by each token of the answer."
        blocks.append(Figure(figure_name(evidence, run, "anatomy"), alt, partial(anatomy, evidence.heads(run))))
    split = best_split(evidence, run)
    measured = None if split is None else evidence.evaluations(run).of(split)
    if measured is not None:
        shown = range(min(MOST_WRONG, len(measured.wrong_examples)))
        paths = [f"{run}/evaluation/{split}/wrong_examples/{index}" for index in shown]
        if paths:
            words = Markup("Some of the wrong answers of {}:").format(evidence.text(f"{run}/name", "code"))
            blocks += paragraph([words])
            blocks.append(Listing([wrong_answer(evidence, path) for path in paths]))
    elif evidence.find(f"{run}/heads/anatomy/wrong") == 0:
        blocks += paragraph(flawless(evidence, run))
    return blocks


def hardest(evidence: Evidence, run: str) -> list[Markup]:
    """For each property the group with the lowest accuracy, where it differs from the best one."""
    lines = written(
        lambda: Markup("Of {} examples that the heads of {} were analysed on, {} {} wrong.").format(
            evidence.number(f"{run}/heads/anatomy/n"),
            evidence.text(f"{run}/name", "code"),
            evidence.number(f"{run}/heads/anatomy/wrong"),
            verb(evidence, f"{run}/heads/anatomy/wrong"),
        )
    )
    for name, groups in evidence.heads(run).error_analysis.by_feature.items():
        shares = [group.accuracy or 0.0 for group in groups]
        worst, best = shares.index(min(shares)), shares.index(max(shares))
        places = [f"{run}/heads/anatomy/by/{name}/{index}" for index in (worst, best)]
        if groups[worst].interval[1] < groups[best].interval[0]:
            lines.append(
                Markup("By {} the lowest accuracy is {} (at {}, {} examples), the highest {} (at {}).").format(
                    name.replace("_", " "),
                    evidence.number(f"{places[0]}/accuracy", percent),
                    evidence.setting(f"{places[0]}/value"),
                    evidence.number(f"{places[0]}/n"),
                    evidence.number(f"{places[1]}/accuracy", percent),
                    evidence.setting(f"{places[1]}/value"),
                )
            )
    return lines


def flawless(evidence: Evidence, run: str) -> list[Markup]:
    return written(
        lambda: Markup(
            "None of {} examples that the heads of {} were analysed on is wrong, so there is no error to take apart."
        ).format(evidence.number(f"{run}/heads/anatomy/n"), evidence.text(f"{run}/name", "code"))
    )


def wrong_answer(evidence: Evidence, path: str) -> Markup:
    return Markup("{}, answered {}").format(
        evidence.text(f"{path}/example", "code"), evidence.text(f"{path}/answered", "code")
    )


def figure_name(evidence: Evidence, run: str, name: str) -> str:
    """A file's name without its ending; in a folder of the run where there are several."""
    return name if len(evidence.runs) == 1 else f"{folder_name(evidence.get(f'{run}/name'))}/{name}"


def folder_name(name: str) -> str:
    """A run's name with nothing in it that a path could stumble over."""
    return "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in name).lstrip(".") or "run"
