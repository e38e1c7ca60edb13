"""One description of a table for the terminal, Markdown and pages."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from headway.narration.text import Text, Words, as_text, markdown


@dataclass(frozen=True)
class Column:
    """A column; `numeric` ones are set to the right, and a terminal can draw a `bar` beside their numbers.

    A page shows a column of `detail` only when asked to.
    """

    title: Words
    numeric: bool = True
    detail: bool = False
    bar: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under a caption. In a page a reader can sort it by any column.

    `first` is how many rows tell something; a page shows the others only when asked to, and says with `others` what
    they are.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Words]]
    first: int | None = None
    others: Words = ""
    kind: str = "table"

    @property
    def n_first(self) -> int:
        return len(self.rows) if self.first is None else self.first

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out at first."""
        return self.n_first >= len(self.rows) and not any(column.detail for column in self.columns)

    @property
    def cells(self) -> list[list[Text]]:
        return [[as_text(cell) for cell in row] for row in self.rows]

    def lines(self) -> list[str]:
        """Columns of equal width, for a terminal or a text file.

        >>> Table("", [Column("encoding", numeric=False), Column("n")], [["rotary", "8"]]).lines()
        ['encoding  n', 'rotary    8']
        """
        shown = [[str(column.title) for column in self.columns], *([str(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        return [
            "  ".join(
                cell.rjust(width) if column.numeric else cell.ljust(width)
                for cell, width, column in zip(line, widths, self.columns, strict=True)
            ).rstrip()
            for line in shown
        ]

    def markdown(self) -> list[str]:
        """The lines of a Markdown table.

        >>> Table("", [Column("encoding", numeric=False), Column("n")], [["a|b", "8"]]).markdown()
        ['| encoding | n |', '| --- | ---: |', '| a\\\\|b | 8 |']
        """
        heads = [markdown(column.title) for column in self.columns]
        rules = ["---:" if column.numeric else "---" for column in self.columns]
        rows = [[in_cell(markdown(cell)) for cell in row] for row in self.rows]
        return [f"| {' | '.join(line)} |" for line in (heads, rules, *rows)]

    def print(self) -> None:
        """Print with rules on a terminal, as aligned plain text elsewhere."""
        if sys.stdout.isatty():
            self._print_rich()
        else:
            print("\n".join(self.lines()))

    def _print_rich(self) -> None:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text as RichText

        grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in self.columns:
            grid.add_column(RichText(str(column.title)), justify="right" if column.numeric else "left", overflow="fold")
        for row in self.rows:
            grid.add_row(*(RichText(str(cell)) for cell in row))
        Console().print(grid)


def table(lines: Sequence[Sequence[Words]], words: int = 1, caption: str = "") -> Table:
    """A table from lines of cells, titles first; the first `words` columns are text, the others numbers."""
    columns = [Column(title, numeric=place >= words) for place, title in enumerate(lines[0])]
    return Table(caption, columns, lines[1:])


def words(*titles: Words) -> list[Column]:
    """Text columns."""
    return [Column(title, numeric=False) for title in titles]


def in_cell(line: str) -> str:
    """Escape pipes, which would end a Markdown cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", line)
