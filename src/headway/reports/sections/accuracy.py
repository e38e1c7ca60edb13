"""The section on accuracy, its certainty, and the errors."""

from functools import partial

from headway.narration.accuracy import SPLITS, accuracy_table, evaluated, hardest, wrong_answer
from headway.narration.text import code, text
from headway.reports.blocks import Block, Figure, Listing, Section, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.reports.error_figure import anatomy

MOST_WRONG = 8
"""Wrong answers that are shown."""
ALT = "Accuracy with its interval, by each property that makes an example hard and by each token of the answer."


def section(documents: Documents) -> Section | None:
    found = [(run, one) for run in documents.runs for split in SPLITS if (one := run.evaluated(split)) is not None]
    blocks: list[Block] = []
    if found:
        if len(documents.runs) == 1:
            run, first = found[0]
            blocks += paragraph(evaluated(first, trained_on(run)))
        blocks.append(accuracy_table([(run.name, one) for run, one in found]))
    blocks += [block for run in documents.runs for block in failures(documents, run)]
    return Section("accuracy", "Accuracy, and what goes wrong", blocks) if blocks else None


def trained_on(run: RunDocuments) -> int | None:
    """The number of training examples of the domain; None for online data or files."""
    data = run.config.get("data", {})
    fixed = "train" in data and not data.get("fresh") and not data.get("files")
    return data["train"] if fixed else None


def failures(documents: Documents, run: RunDocuments) -> list[Block]:
    """Errors of a run: by difficulty, and some wrong answers."""
    blocks: list[Block] = []
    errors = None if run.heads is None else run.heads.error_analysis
    measured = run.best_evaluation
    if errors is not None and (errors.wrong or measured is None):
        blocks += paragraph(hardest(errors, run.name))
    if run.heads is not None and errors is not None and errors.wrong and any(errors.groups.values()):
        blocks.append(Figure(figure_name(documents, run, "anatomy"), ALT, partial(anatomy, run.heads)))
    if measured is not None and measured.wrong_examples:
        blocks += paragraph([text("Some of the wrong answers of {}:", code(run.name))])
        blocks.append(Listing([wrong_answer(one) for one in measured.wrong_examples[:MOST_WRONG]]))
    return blocks


def figure_name(documents: Documents, run: RunDocuments, name: str) -> str:
    """A figure's file name without a suffix; in a folder of the run if there are several."""
    return name if len(documents.runs) == 1 else f"{folder_name(run.name)}/{name}"


def folder_name(name: str) -> str:
    """A run's name without characters that are unsafe in paths."""
    return "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in name).lstrip(".") or "run"
