"""The parts of a section as values: paragraphs, tables, figures, findings, heat maps and commands."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure as Drawing

from headway.narration.tables import Table
from headway.narration.text import Text, Words, join
from headway.results.doctor import Finding


@dataclass(frozen=True)
class Paragraph:
    """Sentences that belong together."""

    sentences: Sequence[Words]
    kind: str = "paragraph"

    @property
    def text(self) -> Text:
        return join(" ", self.sentences)


@dataclass(frozen=True)
class Listing:
    """A list with one item per line."""

    items: Sequence[Words]
    kind: str = "listing"


@dataclass(frozen=True)
class Terms:
    """Terms and their definitions."""

    pairs: Sequence[tuple[Words, Words]]
    kind: str = "terms"


@dataclass(frozen=True)
class Figure:
    """A drawing, its description for readers who cannot see it, and its file name without a suffix.

    `colours` marks a figure whose colours are values (a heat map), so that a dark page must not invert them.
    """

    name: str
    alt: str
    draw: Callable[[], Drawing]
    colours: bool = False
    kind: str = "figure"


@dataclass(frozen=True)
class Findings:
    """The doctor's findings on one run: errors and warnings, and passed checks."""

    title: Words
    open: Sequence[Finding]
    fine: Sequence[Finding]
    kind: str = "findings"


@dataclass(frozen=True)
class HeatMap:
    """One head on one example, with the tokens of its rows and columns; None for masked cells."""

    head: str
    queries: Sequence[str]
    keys: Sequence[str]
    cells: Sequence[Sequence[float | None]]
    kind: str
    remark: str


@dataclass(frozen=True)
class HeatMaps:
    """Every head of a run on some examples, drawn by the page's script; `still` shows them in Markdown."""

    run: str
    examples: Sequence[tuple[str, Sequence[HeatMap]]]
    still: Sequence[Figure] = ()
    kind: str = "heatmaps"


@dataclass(frozen=True)
class Command:
    """A command line that a reader can copy."""

    line: str
    kind: str = "command"


Block = Paragraph | Listing | Terms | Table | Figure | Findings | HeatMaps | Command


@dataclass(frozen=True)
class Section:
    """A part of the report; `folded` parts are closed until a reader opens them.

    `problem` is the reason if it could not be written.
    """

    name: str
    title: Words
    blocks: Sequence[Block]
    parts: "Sequence[Section]" = field(default_factory=tuple)
    folded: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report: the question, the answer, and its sections."""

    title: Words
    name: str
    asked: Words
    answer: Sequence[Text]
    sections: Sequence[Section]


def paragraph(*sentences: Iterable[Words | None]) -> list[Block]:
    """A paragraph of the non-empty sentences; empty if there are none."""
    found = [sentence for group in sentences for sentence in group if sentence]
    return [Paragraph(found)] if found else []
