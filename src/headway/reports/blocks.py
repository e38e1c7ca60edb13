"""The parts of a section as values: paragraphs, tables, figures, findings, heat maps and commands."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure as Drawing

from headway.narration.tables import Table
from headway.narration.text import Linked, Text, Words, join, no_link
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

    `narrow` draws the same for a page as narrow as a telephone. `run` is the place of the run whose heads it names,
    such as `runs/0`. A `folded` drawing is closed until a reader opens it.
    """

    name: str
    alt: str
    draw: Callable[[], Drawing]
    narrow: Callable[[], Drawing] | None = None
    run: str = ""
    folded: bool = False
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
class Tile:
    """One fact of the first screen: a few letters, what they are, a remark, and the section that says more.

    `state` is fine, warning, error, or empty for a fact that is neither good nor bad.
    """

    title: str
    value: Words
    remark: Words
    section: str
    state: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report: what was asked, one sentence, four tiles and a figure; then the answer in full and the sections.

    `explorer` is the address of the interactive page of the same runs, where there is one, and `linked` says where a
    name leads in it.
    """

    title: Words
    name: str
    asked: Words
    headline: Words
    tiles: Sequence[Tile]
    figure: Figure | None
    answer: Sequence[Text]
    sections: Sequence[Section]
    explorer: str | None = None
    linked: Linked = no_link


def paragraph(*sentences: Iterable[Words | None]) -> list[Block]:
    """A paragraph of the non-empty sentences; empty if there are none."""
    found = [sentence for group in sentences for sentence in group if sentence]
    return [Paragraph(found)] if found else []
