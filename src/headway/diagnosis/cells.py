"""The meaning of the names around a number: length, head, epoch, split or measure; other names are models.

{"learned": {"test_len_32": {"accuracy": 0.546}}}      learned, at length 32, an accuracy of the test split
{"layer_0": {"head_1": {"drop": -0.0005}}}             a drop, of layer_0 head_1
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from headway.diagnosis.frames import rows_of_frame
from headway.diagnosis.name_words import (
    ABOUT_HEADS,
    ACCURACY,
    BASELINE,
    BOUNDS,
    DROP,
    LENGTH,
    MEASURED,
    NOBODY,
    OTHER,
    SETTINGS,
    SILENT,
    STACK,
)
from headway.diagnosis.printed import SPELLED, as_number, is_unreadable
from headway.diagnosis.rows import split_named, words_of
from headway.errors import InputError
from headway.json_values import JsonValue

NOT_A_NUMBER = Decimal("NaN")
PAIR = re.compile(r"[\s(\[]*[0-9]{1,2}\s*[,.:/_-]\s*[0-9]{1,2}[\s)\]]*")
"""A layer and a head as a pair of indices: (0, 1), 0-1, 0,1."""


@dataclass(frozen=True)
class Cell:
    """A number, and the meaning of the names on the path to it."""

    names: tuple[str, ...] = ()
    measure: str = ""  # accuracy, drop, baseline, other, doubtful; empty if unknown
    split: str | None = None
    length: int | None = None
    head: tuple[str, ...] = ()
    about_heads: bool = False
    epoch: int | None = None
    percent: bool = False
    path: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    text: str = ""
    number: Decimal = Decimal(0)


def cells_of(cell: Cell, content: Any, lengths: tuple[int, ...]) -> Iterator[Cell]:
    """Every number below a name, with the meaning of the names on its path."""
    content = rows_of_frame(content, lengths=lengths if cell.length is None else ())
    if isinstance(content, dict):
        yield from _cells_of_object(cell, content, lengths)
    elif isinstance(content, list):
        yield from _cells_of_list(cell, content, lengths)
    elif content is None or isinstance(content, float):  # NaN or infinite: other numbers are decimals.
        yield replace(cell, text="NaN", number=NOT_A_NUMBER)
    elif (number := as_number(content)) is not None:
        text = str(content).strip()
        yield replace(cell, text=text, number=number, percent=cell.percent or text.endswith("%"))
    elif is_unreadable(content):
        yield replace(cell, text=content, number=NOT_A_NUMBER)


def _cells_of_list(cell: Cell, items: list[Any], lengths: tuple[int, ...]) -> Iterator[Cell]:
    """A list of numbers: by length if there are as many lengths, by head in tables of heads, otherwise by epoch."""
    if cell.measure == "other":
        return
    numbers = [item is None or isinstance(item, float) or as_number(item) is not None for item in items]
    if not items or not all(numbers):
        for index, item in enumerate(items):
            below = cell
            if isinstance(item, list) and _is_of_heads(cell):
                below = replace(cell, head=(*cell.head, f"layer {index}"))
            yield from cells_of(below, item, lengths)
        return
    named = cell.lengths or (lengths if cell.split in (None, "test") else ())
    for index, item in enumerate(items):
        if _is_of_heads(cell):
            below = replace(cell, head=(*cell.head, f"head {index}"))
        elif len(items) == len(named) and len(items) > 1 and cell.length is None:
            below = replace(cell, length=named[index])
        else:
            below = replace(cell, epoch=index + 1)
        yield from cells_of(below, item, lengths)


def _is_of_heads(cell: Cell) -> bool:
    return cell.about_heads or bool(cell.head) or cell.measure == "drop"


def _cells_of_object(cell: Cell, table: dict[str, JsonValue], lengths: tuple[int, ...]) -> Iterator[Cell]:
    """The numbers of an object; its length, head or epoch applies to all of them."""
    table = _counted(_metric_row(table))
    if any(set(words_of(str(key))) & BASELINE for key in table) and any(PAIR.fullmatch(str(key)) for key in table):
        cell = replace(cell, about_heads=True)
    cell, rest = _placed(cell, table)
    numbered = _numbers_mean(cell, rest, lengths)
    for key, value in rest.items():
        if isinstance(value, list) and cell.lengths and _column_is_lengths(str(key), value):
            continue
        if cell.lengths and isinstance(value, list) and _is_plain(value) and len(value) != len(cell.lengths):
            below = _named(cell, str(key), numbered)
            if below.measure != "other" and below.split in (None, "test"):
                size = f"{len(value)} and {len(cell.lengths)}"
                raise InputError(f"{str(key)!r} and 'lengths' have different sizes: {size}")
        below = _named(cell, str(key), numbered)
        if cell.measure != "other" and _is_model(cell, below, str(key), value, lengths):
            below = replace(cell, names=(*cell.names, str(key)), path=below.path)
        if below.measure == "other" and cell.measure != "other" and not _is_measure(cell, str(key), rest):
            yield from _doubtful(cell, below, value, lengths)
        if below.split is None and f"val_{key}" in rest and (isinstance(value, list) or cell.epoch is not None):
            below = replace(below, split="train")  # Keras calls the training accuracy of an epoch `accuracy`.
        yield from cells_of(below, value, lengths)


def _is_model(cell: Cell, below: Cell, key: str, value: Any, lengths: tuple[int, ...]) -> bool:
    """Whether an ambiguous name (setting, measure or head) is a model's name, because accuracies by length are below
    it.
    """
    words = words_of(key)
    by_length = _is_by_length(value, lengths) or (
        cell.length is not None and re.search(r"[.%/]", str(value)) is not None
    )
    if not by_length or set(words) & MEASURED:
        return False
    if below.measure == "other":
        known = OTHER | ACCURACY | SILENT | BASELINE
        strange = any(word not in known and not word.isdigit() for word in words)
        return strange or (len(words) > 1 and set(words) & OTHER <= SETTINGS and not set(words) & ACCURACY)
    numbers = sum(word.isdigit() for word in words)
    return not _is_of_heads(cell) and numbers < 2 and (bool(below.head) or (below.about_heads and numbers == 1))


def _is_measure(cell: Cell, key: str, table: dict[str, JsonValue]) -> bool:
    """Whether a name is certainly a measure: by itself, as a bound of an interval, or beside an accuracy."""
    words, names = set(words_of(key)), {str(other).strip().lower() for other in table}
    if words <= MEASURED or any(words <= pair <= names for pair in BOUNDS):
        return True
    return cell.measure != "accuracy" and any(_named(cell, str(other), "").measure == "accuracy" for other in table)


def _doubtful(cell: Cell, below: Cell, value: Any, lengths: tuple[int, ...]) -> Iterator[Cell]:
    """Numbers by length under a name that could be a measure or a model, such as f or upper."""
    pairs: list[tuple[int | None, Any]] = [(cell.length, value)] if cell.length is not None else []
    if isinstance(value, list):
        pairs = list(zip(lengths, value, strict=True)) if len(value) == len(lengths) else []
    elif isinstance(value, dict):
        named = [(words_of(str(name)), one) for name, one in value.items()]
        pairs = [(int(words[-1]), _accuracy_in(one)) for words, one in named if words and words[-1].isdigit()]
    for length, one in pairs:
        if length in lengths and (number := as_number(one)) is not None:
            yield replace(below, measure="doubtful", length=length, text=str(one), number=number)


def _accuracy_in(value: Any) -> Any:
    """The value itself if it is a number, or the entry of an object that is called an accuracy."""
    if not isinstance(value, dict):
        return value
    return next((one for name, one in value.items() if set(words_of(str(name))) & ACCURACY), None)


def _is_by_length(value: Any, lengths: tuple[int, ...]) -> bool:
    """Whether an object or a list holds a share for each of several lengths of the data."""
    if isinstance(value, list):
        return 1 < len(value) == len(lengths) and all(
            (number := as_number(one)) is not None and 0 <= number <= 1 for one in value
        )
    names = [words_of(str(name)) for name in value] if isinstance(value, dict) else []
    return len({int(one[-1]) for one in names if one and one[-1].isdigit()} & set(lengths)) > 1


def _metric_row(table: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A row such as {"metric": "test_acc", "value": 0.41} as {"test_acc": 0.41}."""
    lowered = {str(key).strip().lower(): key for key in table}
    name = next((lowered[one] for one in ("metric", "name", "measure") if one in lowered), None)
    measure = None if name is None else table[name]
    if "value" not in lowered or not isinstance(measure, str):
        return table
    rest = {key: value for key, value in table.items() if key not in (lowered["value"], name)}
    return {**rest, measure: table[lowered["value"]]}


def _counted(table: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Turn a count of right answers and a total into an accuracy, if none is given; a count without a
    total is dropped.
    """
    lowered = {str(key).strip().lower(): key for key in table}
    name = next((lowered[one] for one in ("correct", "num_correct", "n_correct", "right") if one in lowered), None)
    right = None if name is None else table[name]
    if not isinstance(right, int) or right <= 1:
        return table
    rest = {key: value for key, value in table.items() if key != name}
    wrong = next((table[lowered[one]] for one in ("incorrect", "wrong") if one in lowered), None)
    total = next((table[lowered[one]] for one in ("total", "n", "count", "n_samples") if one in lowered), None)
    total = right + wrong if isinstance(wrong, int) and not isinstance(wrong, bool) else total
    if (
        not isinstance(total, int)
        or total is True
        or total < right
        or any(set(words_of(str(key))) & ACCURACY for key in rest)
    ):
        return rest
    return {**{key: value for key, value in rest.items() if value != wrong}, "accuracy": f"{right}/{total}"}


def _is_plain(value: list[Any]) -> bool:
    return all(as_number(item) is not None for item in value)


def _column_is_lengths(key: str, value: Any) -> bool:
    words = set(words_of(key))
    named = bool(words & {"length", "lengths", "len", "lens", "seqlen", "seqlens"}) or key.lower() in ("x", "n", "l")
    whole = isinstance(value, list) and len(value) > 0 and all(re.fullmatch("[1-9][0-9]*", str(one)) for one in value)
    return named and whole and len(set(value)) == len(value) and not words & ACCURACY


def _placed(cell: Cell, table: dict[str, JsonValue]) -> tuple[Cell, dict[str, JsonValue]]:
    """The length, head, epoch or split that an object's own values give, and the remaining values."""
    rest: dict[str, JsonValue] = {}
    row = False
    for key, value in table.items():
        words, name = words_of(str(key)), str(key).strip().lower()
        number = as_number(value)
        named = any(word.isdigit() for word in words)  # head_0 is a head; its value 0.0 is an accuracy, not a head
        whole = (
            int(number) if number is not None and not named and re.fullmatch(r"[0-9]+", str(value).strip()) else None
        )
        if isinstance(value, list) and _column_is_lengths(str(key), value):
            cell = replace(cell, lengths=tuple(int(one) for one in value))
        elif (
            whole is not None
            and name != "n"
            and (set(words) & LENGTH or name == "l")
            and not set(words) & (ACCURACY | OTHER | {"max", "min"})
        ):
            if any(word.isdigit() for word in words):
                rest[key] = value
            else:
                cell, row = replace(cell, length=whole), True
        elif words[:1] in (["epoch"], ["step"]) and whole is not None and len(words) == 1:
            cell, row = replace(cell, epoch=whole), True
        elif (
            whole is not None and set(words) & {"head", "layer", "block"} and not set(words) & (ACCURACY | DROP | OTHER)
        ):
            part = f"{'head' if 'head' in words else 'layer'} {whole}"
            cell, row = replace(cell, head=(*cell.head, part), about_heads=True), True
        elif isinstance(value, str) and PAIR.fullmatch(value) and set(words) & {"head", "ablated", "component", "site"}:
            if set(words) & (ACCURACY | DROP | OTHER):
                rest[key] = value
            else:
                cell, row = replace(cell, head=(*cell.head, value.strip()), about_heads=True), True
        elif isinstance(value, str) and value.strip().lower() in SPELLED and not set(words) & (STACK | {"ablated"}):
            rest[key] = None
        elif number is None and is_unreadable(value) and (set(words) & (ACCURACY | DROP) or "".join(words).isdigit()):
            rest[key] = value
        elif isinstance(value, str) and number is None:
            cell, row = _said(cell, words, value), True
        else:
            rest[key] = value
    if not row:
        return cell, rest
    # In a table row only columns called accuracy or drop count; a number of epochs beside a length does not.
    plain = cell.length is not None or cell.epoch is not None or any(map(str.isdigit, "".join(cell.head)))
    kept = {k: v for k, v in rest.items() if as_number(v) is None or not plain or _says(cell, str(k))}
    if cell.length is not None and not any(_named(cell, str(k), "").measure == "accuracy" for k in kept):
        # A row for each length with a column for each model.
        kept |= {k: v for k, v in rest.items() if re.search(r"[.%/]", str(v)) and as_number(v) is not None}
    return cell, kept


def _says(cell: Cell, key: str) -> bool:
    """Whether a column's name gives its meaning: a measure, or an accuracy at a length."""
    below = _named(cell, key, "")
    return bool(below.measure) or (cell.length is None and below.length is not None)


def _said(cell: Cell, words: list[str], value: str) -> Cell:
    """The meaning of a text in a row: a head, a split, no head, or the model's name."""
    text = value.strip()
    if set(words) & {"head", "layer", "ablated", "attention", "component", "site", "module"} and text.lower() in NOBODY:
        return replace(cell, measure="baseline", head=()) if cell.measure != "other" else cell
    if set(words) & {"split", "subset", "set", "dataset"} and split_named(text):
        return replace(cell, split=split_named(text))
    if set(words_of(text)) & BASELINE and len(words_of(text)) <= 3:
        return replace(cell, measure="baseline")
    found = _head_part(text) or PAIR.fullmatch(text)
    if found and (
        "head" in words
        or "layer" in words
        or set(words) & {"type", "attention", "kind", "component", "site", "module", "block", "stack"}
    ):
        return replace(cell, head=(*cell.head, text), about_heads=True)
    return replace(cell, names=(*cell.names, text)) if len(text) < 60 and text.lower() not in ("-", "") else cell


def _head_part(name: str) -> bool:
    """Whether a name is a head, a layer or a stack of layers: enc0.h1, L1H3, layer_0, decoder_cross."""
    words = words_of(name)
    known = [word for word in words if word in STACK]
    others = [word for word in words if not word.isdigit() and word not in STACK]
    return (
        bool(known) and len(others) <= 1 and not set(others) & (ACCURACY | OTHER | DROP | BASELINE) and known != ["l"]
    )


def _numbers_mean(cell: Cell, table: dict[str, JsonValue], lengths: tuple[int, ...]) -> str:
    """The meaning of integer keys: lengths, heads (or layers), or epochs."""
    keys = [str(key).strip() for key in table if str(key).strip().isdigit()]
    numbers = sorted(int(key) for key in keys)
    if not numbers:
        return ""
    if _is_of_heads(cell) and (cell.about_heads or cell.head or len(set(numbers) & set(lengths)) < 2):
        return "head"
    if cell.length is not None or cell.epoch is not None:
        return "name"
    if lengths and set(numbers) & set(lengths):
        return "length"
    in_a_row = numbers in (list(range(len(numbers))), list(range(1, len(numbers) + 1)))
    if not in_a_row:
        return "length"
    return "epoch" if cell.split or cell.measure == "accuracy" else "head"


def _named(cell: Cell, name: str, numbered: str) -> Cell:
    """The cell below a name."""
    words = words_of(name)
    cell = replace(cell, path=(*cell.path, name))
    if cell.measure == "other":
        return cell
    if name.strip().isdigit():
        number = int(name)
        if numbered == "length":
            return replace(cell, length=number)
        if numbered == "epoch":
            return replace(cell, epoch=number)
        if numbered == "head":
            return replace(cell, head=(*cell.head, name.strip()), about_heads=True)
        return replace(cell, names=(*cell.names, name))
    if PAIR.fullmatch(name) and _is_of_heads(cell):
        return replace(cell, head=(*cell.head, name.strip()))
    measured = set(words)
    if name.strip().lower() == "n" and (cell.length is not None or cell.lengths or cell.measure):
        return replace(cell, measure="other")
    if measured & OTHER and not (words[:1] == ["seed"] and len(words) == 2):
        return replace(cell, measure="other")
    if words[:1] in (["max"], ["min"], ["d"], ["num"]) and not measured & ACCURACY:
        return replace(cell, measure="other")
    if "%" in name or measured & {"percent", "pct", "percentage"}:
        cell = replace(cell, percent=True)
    if measured & DROP:
        cell = replace(cell, measure="drop")
    elif measured & BASELINE and not measured & {"positional"}:
        cell = replace(cell, measure="baseline")
    elif measured & ACCURACY and cell.measure not in ("drop", "baseline"):
        cell = replace(cell, measure="accuracy")
    split = split_named(" ".join(word for word in words if word not in ("extrapolation", "generalization")))
    if split and not _head_part(name):
        cell = replace(cell, split=split)
        if cell.measure == "" and set(words) <= SILENT | {"test"}:
            cell = replace(cell, measure="accuracy")
    if measured & ABOUT_HEADS:
        cell = replace(cell, about_heads=True)
    if words[:1] == ["epoch"] and len(words) == 2 and words[1].isdigit():
        return replace(cell, epoch=int(words[1]))
    of_stack = any(w.isdigit() for w in words) or measured & {"encoder", "decoder", "cross", "self", "enc", "dec"}
    if of_stack and (_head_part(name) or (measured & STACK and measured & DROP)):
        part = " ".join(w for w in words if w not in DROP | ACCURACY) if measured & (DROP | ACCURACY) else name
        return replace(cell, head=(*cell.head, part))
    length = _length_in(words, cell.known)
    if length is not None and cell.length is None and not _is_of_heads(cell):
        cell = replace(cell, length=length)
        words = [word for word in words if word != str(length)]
    kept = [word for word in re.split(r"[\s_]+", name) if not set(words_of(word)) <= SILENT | BASELINE | {str(length)}]
    if kept:
        cell = replace(cell, names=(*cell.names, " ".join(kept)))
    return cell


def _length_in(words: list[str], known: tuple[int, ...]) -> int | None:
    """The length in a name: test_len_32, length 32, L=32, test_32, acc_32; or sinusoidal_32 if the data
    has length 32.
    """
    numbers = [index for index, word in enumerate(words) if word.isdigit()]
    if len(numbers) != 1 or numbers[0] == 0:
        return None
    before = words[numbers[0] - 1]
    number = int(words[numbers[0]])
    return (
        number
        if number in known or (before in LENGTH | ACCURACY | {"test", "at", "digits", "to"} and number > 1)
        else None
    )
