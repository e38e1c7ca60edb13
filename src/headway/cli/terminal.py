"""What a person at a terminal sees: tables that fit, coloured verdicts, small bars, one panel; plain text elsewhere."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.narration.tables import Table
from headway.narration.text import Words

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 100
"""Columns of a line, at most: longer lines are hard to read."""
BAR = 8
"""Columns of the longest bar."""
EIGHTHS = " ▏▎▍▌▋▊▉█"
STYLES = {
    "critical": "bold red",
    "important": "yellow",
    "harmful": "magenta",
    "depends on the ablation": "cyan",
    "undecided": "dim",
    "redundant": "green",
    "error": "bold red",
    "warning": "yellow",
    "fine": "green",
}
"""Colours of verdicts and of the doctor's levels, which are always written out too."""


@dataclass(frozen=True)
class Panel:
    """A few lines in a frame: a sentence, then facts with their titles and states."""

    title: str
    sentence: str
    facts: Sequence[tuple[str, str, str, str]]
    """Title, value, remark and state of each."""
    paths: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Item:
    """One sentence among several."""

    words: Words


@dataclass(frozen=True)
class Entry:
    """A finding of the doctor."""

    level: str
    check: str
    evidence: str
    fix: str


Piece = str | Table | Panel | Item | Entry


def is_terminal() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout is not None and sys.stdout.isatty()


def show_pieces(pieces: Sequence[Piece], console: "Console | None" = None) -> None:
    """Print for a person at a terminal."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    screen = console or Console(highlight=False, width=min(WIDEST, shutil.get_terminal_size().columns))
    for piece in pieces:
        match piece:
            case Table():
                screen.print(rich_table(piece))
                if piece.others:
                    screen.print(Text(str(piece.others), style="dim"))
            case Panel():
                print_panel(screen, piece)
            case Item():
                screen.print(hanging(Text("•", style="dim"), Text(str(piece.words))))
            case Entry():
                screen.print(
                    Padding(Text.assemble((piece.level, STYLES[piece.level]), "  ", (piece.check, "bold")), (0, 1))
                )
                screen.print(Padding(Text(piece.evidence), (0, 1, 0, 3)))
                screen.print(Padding(Text(f"→ {piece.fix}", style="dim"), (0, 1, 0, 3)))
            case str():
                screen.print(Text(piece))


def hanging(mark: Any, words: Any) -> Any:
    """Words beside a mark, their further lines below the first."""
    from rich.table import Table as RichTable

    grid = RichTable.grid(padding=(0, 1))
    grid.add_row("", mark, words)
    return grid


def rich_table(found: Table) -> Any:
    """The table: numbers are never broken, words fold, bars stand beside the numbers of columns that have them."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    largest = {place: largest_in(found, place) for place, column in enumerate(found.columns) if column.bar}
    for place, column in enumerate(found.columns):
        how: dict[str, Any] = {
            "justify": "right" if column.numeric else "left",
            "no_wrap": column.numeric or place == 0,
        }
        grid.add_column(Text(str(column.title)), overflow="fold", **how)
        if place in largest:
            grid.add_column("", no_wrap=True, min_width=BAR)
    for row in found.cells:
        cells = []
        for place, cell in enumerate(row):
            words = str(cell)
            cells.append(Text(words, style=STYLES.get(words, "")))
            if place in largest:
                cells.append(Text(bar(cell.number or 0.0, largest[place]), style=bar_style(row)))
        grid.add_row(*cells)
    return grid


def bar_style(row: Sequence[Any]) -> str:
    """The colour of the verdict that stands in the row."""
    return next((STYLES[str(cell)] for cell in row if str(cell) in STYLES), "blue")


def largest_in(found: Table, place: int) -> float:
    return max((row[place].number or 0.0 for row in found.cells), default=0.0)


def bar(value: float, largest: float) -> str:
    """A bar of block letters, `BAR` columns for the largest value.

    >>> bar(50, 100), bar(0, 100), bar(100, 100)
    ('████', '', '████████')
    """
    eighths = round(8 * BAR * value / largest) if largest > 0 and value > 0 else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def print_panel(screen: "Console", found: Panel) -> None:
    """The sentence and the facts in a frame, and below it the paths, which can be copied whole."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel as RichPanel
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for title, value, remark, state in found.facts:
        grid.add_row(Text(title), Text(value, style=STYLES.get(state, "")), Text(remark, style="dim"))
    content = Group(Text(found.sentence, style="bold"), Text(""), grid)
    screen.print(RichPanel(content, title=Text(found.title), title_align="left", box=box.ROUNDED, padding=(0, 1)))
    for name, path in found.paths:
        screen.print(Text.assemble((f"{name:<9}", "dim"), path), soft_wrap=True)
