"""`headway report --methods FILE`: a paragraph and tables in LaTeX for a paper, every number from the documents."""

from collections.abc import Iterator
from pathlib import Path

from headway.narration.accuracy import accuracy_table, evaluated
from headway.narration.head_sets import removable
from headway.narration.heads import ablation_table, one_at_a_time
from headway.narration.lengths import measured, table_of_sets
from headway.narration.tables import Table
from headway.reports.documents import Documents, gather
from headway.reports.sections.setup import sentences
from headway.runs import RunDirectory

SPECIAL = {
    "\\": r"\textbackslash{}",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "–": "--",
}


def methods(*runs: str | Path | RunDirectory) -> str:
    """The text of the runs' methods and results."""
    documents = gather(runs).documents
    return "\n\n".join(["% generator: headway", *paragraphs(documents), *map(latex_table, tables(documents))]) + "\n"


def paragraphs(documents: Documents) -> Iterator[str]:
    """One paragraph for each run: setup, accuracy, heads and lengths."""
    for run in documents.runs:
        told = list(sentences(run))
        told += [] if run.best_evaluation is None else evaluated(run.best_evaluation)
        if run.heads is not None and run.heads.heads and run.unlearned is None:
            told += one_at_a_time(run.heads)
            told += [sentence for row in run.heads.joint.removable for sentence in removable(row)]
        told += [] if run.lengths is None else [measured(run.lengths, run.name)]
        yield rf"\paragraph{{{latex(run.name)}}} " + " ".join(latex(str(one)) for one in told)


def tables(documents: Documents) -> Iterator[Table]:
    found = [(run.name, one) for run in documents.runs if (one := run.best_evaluation) is not None]
    if found:
        yield accuracy_table(found)
    for _, heads in documents.with_heads:
        yield ablation_table(heads)
    for _, lengths in documents.with_lengths:
        yield table_of_sets(lengths)


def latex_table(found: Table) -> str:
    """The columns that are not details, in a `table` with booktabs' rules."""
    kept = [place for place, column in enumerate(found.columns) if not column.detail]
    columns = "".join("r" if found.columns[place].numeric else "l" for place in kept)
    head = " & ".join(latex(str(found.columns[place].title)) for place in kept)
    rows = [" & ".join(latex(str(row[place])) for place in kept) + r" \\" for row in found.cells]
    lines = [r"\begin{table}", rf"\caption{{{latex(found.caption)}}}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    return "\n".join([*lines, rf"{head} \\", r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def latex(words: str) -> str:
    r"""Words that LaTeX prints as they are.

    >>> latex("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(SPECIAL.get(letter, letter) for letter in words)
