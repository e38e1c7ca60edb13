"""Reads published tables: accuracy by length, by ablated head, by epoch, or a single number.

    {"sinusoidal": {"32": 0.546, "64": 0.486}, "learned": {"32": 0.546, "64": 0.486}}
    [{"encoding": "learned", "length": 32, "accuracy": 0.546}]
    {"lengths": [32, 64], "learned": [0.546, 0.486]}
    {"baseline": 0.9985, "heads": {"layer_0": {"head_1": {"accuracy": 0.998, "drop": 0.0005}}}}
    {"accuracy": "41.2 %"}
    Epoch 3/30 | train_acc: 0.5093 | val_acc: 0.4935

JSON, JSON lines, CSV (with commas or semicolons, points or decimal commas), Markdown tables and printed text. The names
on the path to a number are interpreted by `cells`; the remaining names are the model's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from headway.diagnosis.cells import Cell, cells_of
from headway.diagnosis.name_words import CONSTANTS
from headway.diagnosis.printed import as_number, content_of
from headway.diagnosis.rows import read_text, words_of
from headway.errors import InputError

BY_PROGRAM = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".yaml", ".yml"}
"""Suffixes of files written by programs, which omit trailing zeros."""
ONE = Decimal("1.000001")
"""Largest value that a sum of single-precision shares may give for 1."""
MOST_NUMBERS = 100_000
"""Numbers of a table; a file of predictions may hold more."""
HUNDREDTH = Decimal("0.005")
"""Half of the last unit of a share with two digits."""


@dataclass(frozen=True)
class Point:
    """One published number: its length or head, its split, its text, its value as a share, and half of its
    last unit.
    """

    place: int | str | None
    text: str
    value: float
    half: float
    split: str | None = None
    epoch: int | None = None


@dataclass(frozen=True)
class Series:
    """The numbers of one model.

    `kind` is `length`, `head`, `drop` (of a head), `baseline` (of heads), `epochs` or `single`.
    """

    label: str
    kind: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Claim:
    """The numbers claimed for one model: by length, a single accuracy, or a baseline of heads."""

    label: str
    points: tuple[Point, ...]
    kind: str

    @property
    def shown(self) -> str:
        return " ".join(point.text for point in self.points)


@dataclass(frozen=True)
class PublishedResults:
    """Every series of a file, and the names of numbers that could not be read as accuracies.

    `missing` names accuracies without a number, `aside` names numbers of other measures, and `doubtful` names numbers
    that may be a measure's or a model's.
    """

    series: tuple[Series, ...]
    unread: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()


def read_results(path: Path, lengths: Sequence[int] = ()) -> PublishedResults:
    """Every series of numbers in the file; `lengths` are those of the data's test files, for lists without lengths."""
    try:
        text = read_text(path)
    except InputError as problem:
        raise InputError(f"--results {problem}") from None
    try:
        content = content_of(path, text)
        if as_number(content) is not None:
            raise InputError(f'a single number; name it, such as {{"accuracy": {content}}}')
        cells = list(islice(cells_of(Cell(known=tuple(lengths)), content, tuple(lengths)), MOST_NUMBERS + 1))
        if len(cells) > MOST_NUMBERS:
            raise InputError(f"more than {MOST_NUMBERS:,} numbers; give a table of accuracies")
        return _table(cells, by_program=path.suffix.lower() in BY_PROGRAM)
    except InputError as problem:
        said = str(problem)
        raise InputError(f"--results {said if said.startswith(path.name) else f'{path.name}: {said}'}") from None


def _table(cells: list[Cell], *, by_program: bool) -> PublishedResults:
    groups: dict[tuple[Any, ...], list[tuple[int | str | None, Cell]]] = {}
    known = [cell for cell in cells if cell.measure not in ("other", "doubtful")]
    nothing_said = not any(_kind(cell) for cell in known)
    unread: dict[str, Decimal] = {}
    missing: dict[str, None] = {}
    for cell in known:
        kind = _kind(cell)
        if cell.number.is_nan():
            if kind is not None:
                missing[" ".join(cell.path)] = None
            continue
        if kind is None and nothing_said and (0 <= cell.number <= 1 or cell.percent or len(known) == 1):
            kind = "single"
        if kind is None:
            if 0 < abs(cell.number) < 1 or cell.percent:
                unread[" ".join(cell.path) or cell.text] = cell.number
            continue
        place: int | str | None = cell.length if kind == "length" else None
        if kind in ("head", "drop"):
            place = " ".join(cell.head)
        label = " ".join(cell.names) if kind != "baseline" else " ".join([*cell.names, "baseline"])
        groups.setdefault((kind, label, cell.split if kind == "length" and cell.split != "test" else None), []).append(
            (place, cell)
        )
    groups = {key: _last(rows) if key[0] == "length" else rows for key, rows in groups.items()}
    read = {cell.number for rows in groups.values() for _, cell in rows}
    if not groups and missing:
        raise InputError(f"accuracies without a number: {', '.join(missing)}")
    if not groups:
        raise InputError(
            "no accuracy found; lengths such as 32, heads such as enc0.h1, or a key such as 'accuracy' are needed"
        )
    accuracies = [cell for (kind, *_), rows in groups.items() if kind != "drop" for _, cell in rows]
    _check_one_unit(accuracies)
    percent = any(cell.number > ONE for cell in accuracies)
    drops = [cell for (kind, *_), rows in groups.items() if kind == "drop" for _, cell in rows]
    points = percent or (not accuracies and any(abs(cell.number) > 1 for cell in drops))
    series = [
        Series(label, kind, found)
        for (kind, label, _), rows in groups.items()
        for found in _apart(
            _points(
                rows,
                points if kind == "drop" else percent,
                accuracies if kind == "baseline" or (by_program and kind != "drop" and _tenths(rows)) else (),
                least=HUNDREDTH if by_program and kind != "drop" else None,
            )
        )
    ]
    _check(series)
    left = [
        name for name, number in unread.items() if number not in read
    ]  # Numbers that were read elsewhere are repeats.
    doubtful = _doubtful(cells)
    others = [" ".join(one.path[:2]) for one in cells if one.measure == "other" and 0 < one.number < 1]
    aside = dict.fromkeys(name for name in others if name not in doubtful)
    return PublishedResults(tuple(series), tuple(left), tuple(missing), tuple(aside), tuple(doubtful))


def _doubtful(cells: list[Cell]) -> list[str]:
    """Names that look like a measure or a setting, of numbers that could be accuracies at several lengths."""
    columns: dict[str, dict[int | None, Decimal]] = {}
    for cell in (cell for cell in cells if cell.measure == "doubtful"):
        name = " ".join([*cell.names, *(part for part in cell.path if not part.strip().isdigit())])
        columns.setdefault(name, {})[cell.length] = cell.number / (100 if cell.text.endswith("%") else 1)
    return [
        name
        for name, column in columns.items()
        if len(column) > 1
        and all(0 <= number <= 1 for number in column.values())
        and not (set(words_of(name)) & CONSTANTS and len(set(column.values())) == 1)
    ]


def _last(rows: list[tuple[int | str | None, Cell]]) -> list[tuple[int | str | None, Cell]]:
    """The accuracies by length of the last epoch."""
    last = max((cell.epoch for _, cell in rows if cell.epoch is not None), default=None)
    return [(place, cell) for place, cell in rows if cell.epoch == last]


def _kind(cell: Cell) -> str | None:
    """The kind of a number; None if nothing marks it as an accuracy."""
    numbered = any(map(str.isdigit, "".join(cell.head)))
    if cell.measure == "baseline" and cell.length is None:
        return "baseline"
    if cell.measure == "drop":
        return "drop" if numbered or cell.head else None
    if numbered or (cell.head and cell.about_heads):
        return "head"
    if cell.length is not None:
        return "length"
    if cell.epoch is not None:
        return "epochs" if cell.measure == "accuracy" else None
    return "single" if cell.measure == "accuracy" else None


def _apart(points: tuple[Point, ...]) -> Iterable[tuple[Point, ...]]:
    """Split points with repeated coordinates into several series, in the order of the file."""
    series: list[dict[Any, Point]] = []
    for point in points:
        key = (point.place, point.split, point.epoch)
        home = next((one for one in series if key not in one), None)
        if home is None:
            series.append({key: point})
        else:
            home[key] = point
    return [tuple(one.values()) for one in series]


def _check_one_unit(accuracies: list[Cell]) -> None:
    """Raise if one accuracy must be per cent and another looks like a share."""
    above = [cell.text for cell in accuracies if cell.number > 20]
    below = [cell.text for cell in accuracies if 0 < cell.number <= 1 and not cell.percent]
    if above and below:
        raise InputError(f"{above[0]} is above 1 and {below[0]} is not; write shares, or all as per cent, with a %")


def _tenths(rows: list[tuple[int | str | None, Cell]]) -> bool:
    """Whether no number has a second decimal digit: a program that writes 0.5 everywhere means 0.5000."""
    return all(_half(cell.number) >= Decimal("0.05") and not cell.percent for _, cell in rows)


def _points(
    rows: list[tuple[int | str | None, Cell]], percent: bool, beside: Sequence[Cell], least: Decimal | None
) -> tuple[Point, ...]:
    """The values as shares, all with the precision of the most precise one, since programs print .5 for .500.

    Values read as per cent are shown as per cent. A baseline has the precision of its heads. Values with one decimal in
    a file written by a program get the precision of all its accuracies, at least two decimals.
    """
    scales = [Decimal(100) if percent or cell.percent else Decimal(1) for _, cell in rows]
    halves = [_half(cell.number) / scale for (_, cell), scale in zip(rows, scales, strict=True)]
    halves += [_half(cell.number) / (100 if percent or cell.percent else 1) for cell in beside]
    half = min([*halves, least] if least is not None else halves)
    return tuple(
        Point(
            place,
            cell.text if scale == 1 else f"{cell.text.removesuffix('%').strip()} %",
            float(cell.number / scale),
            float(half),
            cell.split,
            cell.epoch,
        )
        for (place, cell), scale in zip(rows, scales, strict=True)
    )


def _half(number: Decimal) -> Decimal:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(5).scaleb(min(0, exponent) - 1)


def _check(series: list[Series]) -> None:
    for found in series:
        for point in found.points:
            if not -ONE <= point.value <= ONE or (found.kind != "drop" and point.value < 0):
                raise InputError(f"{point.text} is not an accuracy; needs a share or per cent")


def claims_of(series: Iterable[Series]) -> list[Claim]:
    """The claims of a table, each once; heads are not claims, and a log claims its last epoch."""
    claims: dict[tuple[tuple[object, ...], ...], Claim] = {}
    for one in series:
        points = _last_epoch(one) if one.kind == "epochs" else one.points
        if one.kind in ("length", "single", "baseline", "epochs"):
            key = tuple((point.place, point.split or "test", point.text) for point in points)
            before = claims.get(key)
            label = one.label if before is None else ", ".join(filter(None, (before.label, one.label)))
            claims[key] = Claim(label, points, one.kind)
    return list(claims.values())


def _last_epoch(one: Series) -> tuple[Point, ...]:
    last = {point.split: point for point in sorted(one.points, key=lambda point: point.epoch or 0)}
    return tuple(last.values())
