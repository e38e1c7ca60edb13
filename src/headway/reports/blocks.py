"""What a section is made of: paragraphs, tables, figures, findings, heat maps and commands, as values."""

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
    """One item a line."""

    items: Sequence[Words]
    kind: str = "listing"


@dataclass(frozen=True)
class Terms:
    """Words and what they mean."""

    pairs: Sequence[tuple[Words, Words]]
    kind: str = "terms"


@dataclass(frozen=True)
class Figure:
    """A drawing, what it shows in words for those who cannot see it, and the file's name without its ending.

    `colours` says that its colours carry values (a heat map), so that a dark page must not turn them around.
    """

    name: str
    alt: str
    draw: Callable[[], Drawing]
    colours: bool = False
    kind: str = "figure"


@dataclass(frozen=True)
class Findings:
    """The doctor's findings on one run: what needs reading, and what was looked at and found in order."""

    title: Words
    open: Sequence[Finding]
    fine: Sequence[Finding]
    kind: str = "findings"


@dataclass(frozen=True)
class HeatMap:
    """One head on one example: the tokens beside its cells, and None where a query cannot look."""

    head: str
    queries: Sequence[str]
    keys: Sequence[str]
    cells: Sequence[Sequence[float | None]]
    kind: str
    remark: str


@dataclass(frozen=True)
class HeatMaps:
    """Every head of a run on some examples, for the script of the page; `still` shows the same in Markdown."""

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
    """A part of the report; `folded` ones are closed until a reader opens them.

    `problem` says why it could not be written, where it could not.
    """

    name: str
    title: Words
    blocks: Sequence[Block]
    parts: "Sequence[Section]" = field(default_factory=tuple)
    folded: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report: what was asked, the answer, and its sections."""

    title: Words
    name: str
    asked: Words
    answer: Sequence[Text]
    sections: Sequence[Section]


def paragraph(*sentences: Iterable[Words | None]) -> list[Block]:
    """A paragraph of all sentences that were written; nothing where none was."""
    found = [sentence for group in sentences for sentence in group if sentence]
    return [Paragraph(found)] if found else []
