"""The table of lengths: the accuracy of every group at each length, and the length held."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from headway.reports.length_groups import (
    Group,
    groups_of,
    lengths_held_by,
    lengths_of,
    point,
    set_name,
    sets_of,
    trained_range,
)
from headway.results.lengths import Lengths


@dataclass(frozen=True)
class Cell:
    """The median over seeds with its 95 % interval, and whether every seed gives a constant answer."""

    median: float
    interval: tuple[float, float] | None
    constant: bool


@dataclass(frozen=True)
class TableRow:
    """One group on one set; `at` maps each length of the table to a cell, or to None if it was not measured."""

    set: str
    group: str
    seeds: int
    at: dict[int, Cell | None]
    held: list[int]

    @property
    def median(self) -> float | None:
        return median(self.held) if self.held else None


def length_table(runs: Sequence[Lengths], groups: Sequence[str] | None = None) -> list[TableRow]:
    """A row for each set and group, all with the same lengths."""
    found = groups_of(runs, groups)
    columns = table_lengths(found)
    return [table_row(group, name, columns) for name in sets_of(found) for group in found]


def table_lengths(groups: Sequence[Group]) -> list[int]:
    """The longest trained length and all longer ones; all lengths if none of those was measured."""
    there = sorted({length for name in sets_of(groups) for length in lengths_of(groups, name)})
    return [length for length in there if length >= trained_range(groups)[1]] or there


def table_row(group: Group, name: str, columns: Sequence[int]) -> TableRow:
    at: dict[int, Cell | None] = {}
    for length in columns:
        one = point(group, name, length)
        at[length] = None if one is None else Cell(one.median, one.interval, one.constant)
    return TableRow(name, group.name, group.seeds, at, lengths_held_by(group, name))


def cell_text(cell: Cell | None) -> str:
    """Three decimals, 1 only without errors; a star marks a constant answer.

    >>> [cell_text(cell) for cell in (Cell(1.0, None, False), Cell(0.99996, None, False), Cell(0.5, None, True), None)]
    ['1', '>.999', '.500*', '–']
    """
    if cell is None:
        return "–"
    text = "1" if cell.median == 1 else ">.999" if cell.median >= 0.9995 else f"{cell.median:.3f}".removeprefix("0")
    return text + "*" * cell.constant


def markdown(rows: Sequence[TableRow]) -> str:
    """The rows as Markdown tables, one for each set; lengths held are those of every seed, smallest first."""
    blocks = []
    for name in dict.fromkeys(row.set for row in rows):
        own = [row for row in rows if row.set == name]
        heads = ["group", "seeds", *(f"{length:,}" for length in own[0].at), "length held", "median"]
        lines = [f"**{set_name(name)}**", "", _line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
        for row in own:
            held = " ".join(f"{value:,}" for value in row.held) or "–"
            middle = "–" if row.median is None else f"{row.median:,g}"
            lines.append(_line([row.group, str(row.seeds), *map(cell_text, row.at.values()), held, middle]))
        blocks.append("\n".join(lines))
    stars = any(cell and cell.constant for row in rows for cell in row.at.values())
    return "\n\n".join(blocks) + ("\n\n\\* every answer there is the same" if stars else "") + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
