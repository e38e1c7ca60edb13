"""The three hooks of a positional encoding as tables, so that the page needs no code for single encodings.

Every token has a *row*. Most encodings use the task's positions, and row r is position r. For an encoding that moves
positions by the length of the source, the rows of every length are stored (`placement`). The tables over rows are

    added     the vector that `embed` adds to the token at each row
    turned    cosine and sine of each plane that `rotate` rotates
    bias      the number that `bias` adds to a score: for every distance between two positions, or for every two rows

Each table is made by calling the hook and checked against it. An encoding that has no such tables is rejected by name.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.errors import InputError
from headway.explorer.document import BiasTable, Tables
from headway.explorer.packing import Pack
from headway.model.encodings.base import Encoding
from headway.model.transformer import Inputs, Transformer
from headway.tasks import Task
from headway.tasks.descriptions import PositionRule
from headway.tasks.examples import PositionKind

MOST_CELLS = 1 << 20
"""Largest number of cells in one table: 2 MB in half precision."""
MOST_OFFSETS = 1 << 15
CHECKED_EXAMPLES = 64
"""Examples whose positions are compared with those that the page computes."""
CHECKED_ROWS = 96
"""Query rows at which a bias by distance is compared with the bias itself."""


class TooLarge(Exception):
    """A table has too many cells at this length; a shorter length may fit."""


@dataclass(frozen=True)
class Span:
    """The sizes that the page supports: the shortest and longest source, and the longest answer, in tokens."""

    shortest: int
    longest: int
    answer: int


@dataclass(frozen=True)
class Rows:
    """The position of every row, and for encodings that move positions the rows of each length.

    `placement[L - shortest]` holds the rows of a source of L tokens, and from `span.longest` on those of the answer.
    """

    positions: Int[np.ndarray, " row"]
    placement: Int[np.ndarray, "length place"] | None
    shift: bool
    """Whether the answer's positions continue those of the source."""


def add_tables(pack: Pack, task: Task, model: Transformer, span: Span) -> Tables:
    """Add all tables to the pack; returns their description."""
    rows = find_rows(task, model, span)
    position = torch.from_numpy(rows.positions)[None]
    _check_rows_alone(model, position)
    pack.add("rows", rows.positions.astype(np.float32))
    if rows.placement is not None:
        pack.add("placement", rows.placement, "u16")
    added = _added(model, position)
    if added is not None:
        pack.add("added", added)
    turned = _turned(model, position)
    if turned is not None:
        pack.add("turned", turned)
    kinds = [kind for kind in model.kinds if any(site.kind == kind for site in model.sites)]
    return Tables(
        positions=position_rule(task, model, span),
        moved=rows.placement is not None,
        shift=rows.shift,
        bias={kind: found for kind in kinds if (found := _add_bias(pack, model, kind, position))},
    )


def position_rule(task: Task, model: Transformer, span: Span) -> PositionRule:
    """How the task assigns positions: by index, from a fixed list, or by the digits of each number."""
    kind = model.encoding.position_kind
    rule = task.position_rule(kind)
    if rule["by"] == "digits":
        return rule
    rows = _fixed_rows(task, kind, span) if rule["by"] == "place" else [range(span.longest), range(span.answer)]
    fixed = [np.array(row, dtype=np.int64) for row in rows]
    if not _are_fixed(task, kind, fixed):
        raise InputError(
            f"the page cannot compute the {kind} positions of task {task.name!r}: they depend on more than the index"
        )
    return {**rule, "source": fixed[0].tolist(), "prefix": fixed[1].tolist()} if rule["by"] == "place" else rule


def _fixed_rows(task: Task, kind: PositionKind, span: Span) -> list[list[int]]:
    """The positions of the longest source and answer, if they do not depend on tokens."""
    source, prefix = (torch.zeros(1, width, dtype=torch.long) for width in (span.longest, span.answer))
    found = task.positions(kind, source, prefix if task.kind == "sequence" else None)
    return [[] if row is None else row[0].tolist() for row in found]


def _are_fixed(task: Task, kind: PositionKind, fixed: list[Int[np.ndarray, " place"]]) -> bool:
    """Whether the positions of random examples are prefixes of these lists."""
    some = task.draw(np.random.default_rng(0), CHECKED_EXAMPLES)
    source = torch.from_numpy(some.source[:, : len(fixed[0])])
    prefix = torch.from_numpy(some.target[:, : len(fixed[1])]) if task.kind == "sequence" else None
    pairs = zip(task.positions(kind, source, prefix), fixed, strict=True)
    return all(row is None or bool((row.numpy() == own[: row.shape[1]]).all()) for row, own in pairs)


def find_rows(task: Task, model: Transformer, span: Span) -> Rows:
    """Every position that a token of the page can have."""
    if model.encoding.position_kind != "index":
        return Rows(np.arange(span.longest + span.answer + 2), None, shift=False)
    if type(model.encoding).place is Encoding.place:
        furthest = int(_placed(model, span.longest, span).max())
        return Rows(np.arange(furthest + 1), None, shift=model.config.shape == "decoder")
    placed = [_placed(model, length, span) for length in range(span.shortest, span.longest + 1)]
    positions, row = np.unique(np.concatenate(placed), return_inverse=True)
    if len(positions) >= 1 << 16:
        raise TooLarge
    placement = np.zeros((len(placed), span.longest + span.answer), dtype=np.int64)
    done = 0
    for index, one in enumerate(placed):
        length, rows = span.shortest + index, row[done : done + len(one)]
        placement[index, :length], placement[index, span.longest :] = rows[:length], rows[length:]
        done += len(one)
    return Rows(positions, placement, shift=False)


def _placed(model: Transformer, length: int, span: Span) -> Int[np.ndarray, " place"]:
    """The positions of the tokens of a source of this length, then of its answer, after `place`."""
    source, answer = torch.zeros(1, length, dtype=torch.long), torch.zeros(1, span.answer, dtype=torch.long)
    places = torch.arange(length)[None], torch.arange(span.answer)[None]
    prefix = (answer, places[1]) if span.answer else (None, None)
    moved = model.placed(Inputs(source, places[0], None, *prefix))
    found = [moved.source_positions[0], *([] if moved.prefix_positions is None else [moved.prefix_positions[0]])]
    return torch.cat(found).numpy()


@torch.inference_mode()
def _check_rows_alone(model: Transformer, position: Int[Tensor, "1 row"]) -> None:
    """Raise if a hook's value at a row depends on the number of rows, which no table can represent."""
    few, d_head = position[:, : min(CHECKED_ROWS, position.shape[1])], model.config.d_head
    half = few[:, : -(-few.shape[1] // 2)]
    n = half.shape[1]
    probe = torch.ones(1, 1, few.shape[1], d_head or 1)
    hooks = [
        (model.encoding.embed(few), model.encoding.embed(half), (slice(None), slice(n))),
        (model.encoding.rotate(probe, few), model.encoding.rotate(probe[:, :, :n], half), (..., slice(n), slice(None))),
        *(
            (model.encoding.bias(few, few, kind), model.encoding.bias(half, half, kind), (..., slice(n), slice(n)))
            for kind in model.kinds
        ),
    ]
    for of_all, of_half, place in hooks:
        # The same operations on fewer numbers differ by at most a few units in the last place.
        if of_all is not None and (of_half is None or not torch.allclose(of_all[place], of_half, atol=1e-5)):
            name = model.config.encoding.name
            raise InputError(
                f"encoding {name!r} depends on more than two positions at a time; no table can represent it"
            )


@torch.inference_mode()
def _added(model: Transformer, position: Int[Tensor, "1 row"]) -> Float[np.ndarray, "row d_model"] | None:
    if position.shape[1] * model.config.d_model > MOST_CELLS:
        _refuse_if_needed(model.encoding.embed(position[:, :1]))
        return None
    found = model.encoding.embed(position)
    return None if found is None else found[0].float().numpy()


def _refuse_if_needed(hook: Tensor | None) -> None:
    if hook is not None:
        raise TooLarge


@torch.inference_mode()
def _turned(model: Transformer, position: Int[Tensor, "1 row"]) -> Float[np.ndarray, "row d_head"] | None:
    """Cosine and sine of each plane at each row: the rotated vector 1 0 1 0 ..."""
    d_head = model.config.d_head
    assert d_head is not None
    shape = (1, 1, position.shape[1], d_head)
    probe = torch.linspace(-1, 1, shape[2] * d_head, dtype=torch.float32).reshape(shape)
    expected = model.encoding.rotate(probe, position)
    if torch.equal(expected, probe):
        return None
    if position.shape[1] * d_head > MOST_CELLS:
        raise TooLarge
    base = torch.zeros(shape)
    base[..., ::2] = 1
    table = model.encoding.rotate(base, position)[0, 0]
    first, second, cos, sin = probe[..., ::2], probe[..., 1::2], table[:, ::2], table[:, 1::2]
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)
    # Two float32 products and a sum: the tolerance is a few units in the last place of 1.
    if d_head % 2 or not torch.allclose(turned, expected, atol=1e-6):
        raise InputError(
            f"encoding {model.config.encoding.name!r} does not rotate pairs of coordinates; no table can represent it"
        )
    return table.numpy()


@torch.inference_mode()
def _add_bias(pack: Pack, model: Transformer, kind: str, position: Int[Tensor, "1 row"]) -> BiasTable | None:
    """Add the bias of one kind of attention to the pack; by distance if it depends on nothing else."""
    first = model.encoding.bias(position[:, :1], position[:, :1], kind)
    if first is None:
        return None
    by_offset = _by_offset(model, kind, position)
    if by_offset is not None:
        pack.add(f"bias.{kind}", by_offset, "fp32")
        return BiasTable(by="offset", least=-(by_offset.shape[1] // 2))
    if first.shape[1] * position.shape[1] ** 2 > MOST_CELLS:
        raise TooLarge
    found = model.encoding.bias(position, position, kind)
    assert found is not None
    pack.add(f"bias.{kind}", found[0].numpy())
    return BiasTable(by="rows")


def _by_offset(
    model: Transformer, kind: str, position: Int[Tensor, "1 row"]
) -> Float[np.ndarray, "head offset"] | None:
    """The bias at every distance key - query, if it depends on nothing else; else None."""
    furthest = int(position.max())
    if furthest > MOST_OFFSETS:
        return None
    start, line = torch.zeros(1, 1, dtype=torch.long), torch.arange(furthest + 1)[None]
    ahead, behind = model.encoding.bias(start, line, kind), model.encoding.bias(line, start, kind)
    assert ahead is not None and behind is not None
    table = torch.cat([behind[0, :, 1:, 0].flip(1), ahead[0, :, 0]], dim=1)
    count = min(CHECKED_ROWS, position.shape[1])
    queries = position[:, torch.linspace(0, position.shape[1] - 1, count).long()]
    expected = model.encoding.bias(queries, position, kind)
    assert expected is not None
    offset = position[:, None, :] - queries[:, :, None] + furthest
    return table.numpy() if torch.equal(table[:, offset[0]], expected[0]) else None
