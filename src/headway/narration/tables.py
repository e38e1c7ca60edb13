"""One description of a table, shown on a terminal, in Markdown and in a page (whose template renders it)."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from headway.narration.text import Text, Words, as_text, markdown


@dataclass(frozen=True)
class Column:
    """A column; `numeric` ones are set to the right."""

    title: Words
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of cells under a caption. In a page a reader can sort it by any column."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Words]]
    kind: str = "table"

    @property
    def cells(self) -> list[list[Text]]:
        return [[as_text(cell) for cell in row] for row in self.rows]

    def lines(self) -> list[str]:
        """Columns of equal width, as a terminal or a file shows them.

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
        """The lines of a table of Markdown.

        >>> Table("", [Column("encoding", numeric=False), Column("n")], [["a|b", "8"]]).markdown()
        ['| encoding | n |', '| --- | ---: |', '| a\\\\|b | 8 |']
        """
        heads = [markdown(column.title) for column in self.columns]
        rules = ["---:" if column.numeric else "---" for column in self.columns]
        rows = [[in_cell(markdown(cell)) for cell in row] for row in self.rows]
        return [f"| {' | '.join(line)} |" for line in (heads, rules, *rows)]

    def print(self) -> None:
        """With lines on a terminal, as plain aligned text elsewhere."""
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
    """A table from lines of cells, the titles first; its first `words` columns are words, the others numbers."""
    columns = [Column(title, numeric=place >= words) for place, title in enumerate(lines[0])]
    return Table(caption, columns, lines[1:])


def words(*titles: Words) -> list[Column]:
    """Columns of words."""
    return [Column(title, numeric=False) for title in titles]


def in_cell(line: str) -> str:
    """A pipe inside a code span would end the cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", line)
