"""Small random edits of token rows. The task decides which results are valid inputs."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Int

Rows = Int[np.ndarray, "batch width"]
Places = Int[np.ndarray, "batch 1"]
SECOND_EDIT, THIRD_EDIT = 0.4, 0.15
"""Shares of rows that get a second and a third edit."""


def mutate(random: np.random.Generator, rows: Rows, mates: Rows, tokens: Int[np.ndarray, " token"], pad: int) -> Rows:
    """Each row after one to three edits; `mates` are rows to cross with, `tokens` the tokens that an edit may write.

    No edit changes how many tokens a row has.
    """
    edits = 1 + (random.random(len(rows)) < SECOND_EDIT) + (random.random(len(rows)) < THIRD_EDIT)
    for edit in range(int(edits.max(initial=0))):
        rows = np.where((edits > edit)[:, None], _edited(random, rows, mates, tokens, pad), rows)
    return rows


def _edited(random: np.random.Generator, rows: Rows, mates: Rows, tokens: np.ndarray, pad: int) -> Rows:
    """One random kind of edit in each row."""
    length = (rows != pad).sum(1, keepdims=True)
    i, j = ((random.random((len(rows), 1)) * length).astype(np.int64) for _ in range(2))
    span = np.minimum(length, i + 1 + (random.random((len(rows), 1)) ** 3 * length).astype(np.int64))
    column = np.arange(rows.shape[1])[None]
    inside = (column >= i) & (column < span)
    kind = random.integers(0, len(MOVES) + 4, size=(len(rows), 1))
    edited = np.where((column == i) & (kind == 0), random.choice(tokens, size=(len(rows), 1)), rows)
    step = random.choice([-1, 1], size=(len(rows), 1))
    edited = np.where((column == i) & (kind == 1), _shifted(rows, step, tokens), edited)
    far = random.integers(-3, 4, size=(len(rows), 1))
    edited = np.where(inside & (kind == 2), _shifted(rows, far, tokens), edited)
    same_length = (mates != pad).sum(1, keepdims=True) == length
    edited = np.where(inside & same_length & (kind == 3), mates, edited)
    for number, move in enumerate(MOVES, start=4):
        moved = np.take_along_axis(rows, np.broadcast_to(move(column, i, j, inside, length), rows.shape), axis=1)
        edited = np.where(kind == number, moved, edited)
    return edited


def _shifted(rows: Rows, step: Places, tokens: np.ndarray) -> Rows:
    """Replace each token by the one `step` further in the sorted list of tokens, clipped at its ends."""
    place = np.searchsorted(tokens, rows).clip(0, len(tokens) - 1)
    known = tokens[place] == rows
    return np.where(known, tokens[(place + step).clip(0, len(tokens) - 1)], rows)


# Edits that only move tokens: for each position, the position whose token stands there afterwards

Move = Callable[[np.ndarray, Places, Places, np.ndarray, Places], np.ndarray]


def _copy(column: np.ndarray, i: Places, j: Places, inside: np.ndarray, length: Places) -> np.ndarray:
    return np.where(column == i, j, column)


def _exchange(column: np.ndarray, i: Places, j: Places, inside: np.ndarray, length: Places) -> np.ndarray:
    return np.where(column == i, j, np.where(column == j, i, column))


def _exchange_neighbours(column: np.ndarray, i: Places, j: Places, inside: np.ndarray, length: Places) -> np.ndarray:
    return _exchange(column, i, np.minimum(i + 1, length - 1), inside, length)


def _fill(column: np.ndarray, i: Places, j: Places, inside: np.ndarray, length: Places) -> np.ndarray:
    """Overwrite a span with the token at i."""
    return np.where(inside, i, column)


def _move(column: np.ndarray, i: Places, j: Places, inside: np.ndarray, length: Places) -> np.ndarray:
    """Move the token at i to j and shift the tokens between."""
    forwards = np.where((column >= i) & (column < j), column + 1, column)
    backwards = np.where((column > j) & (column <= i), column - 1, column)
    return np.where(column == j, i, np.where(i < j, forwards, backwards))


def _repeat_neighbour(column: np.ndarray, i: Places, j: Places, inside: np.ndarray, length: Places) -> np.ndarray:
    return np.where(column == i, np.maximum(i - 1, 0), column)


MOVES: tuple[Move, ...] = (_copy, _exchange, _exchange_neighbours, _fill, _move, _repeat_neighbour)
