"""What a run's positional encoding has learned, and which rows training never reached."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from headway.errors import InputError
from headway.evaluation import Trained
from headway.length_analysis.identities import CHECKED, FEWEST_PAIRS, measure_identities, rotation_error, short
from headway.model.encodings.base import NoOptions, Sizes
from headway.model.encodings.sinusoidal import Sinusoidal
from headway.results.positions import Bias, Identities, LearnedTable, Positions
from headway.runs import DamagedCheckpoint

MOST_ROWS, MOST_COORDINATES = 256, 64
"""Size of the part of a larger table that is stored for its picture."""
MOST_COMPARED = 128
"""Largest number of rows on which the identities are measured."""
REACH = 32
"""Largest distance for which a bias is stored, in both directions."""


def positions(trained: Trained) -> Positions:
    """The encoding of a run at its chosen checkpoint; writes nothing.

    The identities are measured on the sinusoidal encoding with the same numbers of rows and coordinates, and on the
    trained rows, at the checkpoint and at step 0.
    """
    encoding = trained.model.encoding
    name = trained.config.model.encoding.name
    weights = {key: value for key, value in encoding.state_dict().items() if key.endswith("table.weight")}
    key, rows = next(iter(weights.items()), ("", None))
    learned = None if rows is None else _rows(rows)
    start = None if learned is None else start_rows(trained, f"encoding.{key}")
    identities: dict[str, Identities] = {}
    error = None
    if learned is not None or isinstance(encoding, Sinusoidal):
        identities, error = compare_identities(learned, start, trained.config.model.d_model)
    table = None if learned is None else describe_table(learned, start, past_words(trained, len(learned)))
    biases = read_biases(trained)
    return Positions(
        encoding=name,
        step=trained.step,
        words=say(table, biases, identities),
        table=table,
        biases=biases,
        identities=identities,
        rotation_error=error,
    )


def start_rows(trained: Trained, key: str) -> np.ndarray | None:
    """The table at step 0; None if it cannot be read or if step 0 belongs to another run."""
    try:
        if "made_from" in trained.directory.provenance():
            return None
        return _rows(trained.directory.read_checkpoint(0).model[key])
    except (DamagedCheckpoint, InputError, KeyError):
        return None


def describe_table(rows: np.ndarray, start: np.ndarray | None, past: str) -> LearnedTable:
    moved = None if start is None else np.sqrt(((rows - start) ** 2).mean(1))
    return LearnedTable(
        rows=len(rows),
        coordinates=rows.shape[1],
        past=past,
        moved=None if moved is None else tuple(short(value) for value in moved),
        untrained_rows=None if moved is None else int((moved == 0).sum()),
        values=tuple(tuple(round(value, 3) for value in row) for row in rows[:MOST_ROWS, :MOST_COORDINATES].tolist()),
    )


def past_words(trained: Trained, rows: int) -> str:
    """The row that a position beyond the table gets, in words."""
    options = trained.model.encoding.options
    if getattr(options, "past", "clamp") == "untrained":
        return f"a position past row {rows - 1:,} is refused"
    if hasattr(options, "max_position"):
        return f"positions are spread over the {rows:,} rows"
    return f"a position past row {rows - 1:,} takes that row"


def compare_identities(
    learned: np.ndarray | None, start: np.ndarray | None, d_model: int
) -> tuple[dict[str, Identities], float]:
    """The identities of the sinusoidal encoding, and of the learned rows if enough of them are trained."""
    block = slice(0, MOST_COMPARED) if learned is None else trained_block(learned, start)
    count = block.stop - block.start
    found = {}
    if count > FEWEST_PAIRS:
        found["sinusoidal"] = measure_identities(sinusoid(count, d_model))
        if learned is not None:
            found["learned"] = measure_identities(learned[block])
        if start is not None:
            found["start"] = measure_identities(start[block])
    return found, short(rotation_error(sinusoid(2 * CHECKED, d_model), d_model))


def trained_block(rows: np.ndarray, start: np.ndarray | None) -> slice:
    """The longest run of trained rows, up to `MOST_COMPARED`; all rows count as trained if step 0 is unknown."""
    moved = np.ones(len(rows), bool) if start is None else (rows != start).any(1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], moved.astype(int), [0]])))
    begins, ends = edges[::2], edges[1::2]
    if not len(begins):
        return slice(0, 0)
    longest = int((ends - begins).argmax())
    first = int(begins[longest])
    return slice(first, min(int(ends[longest]), first + MOST_COMPARED))


def sinusoid(rows: int, d_model: int) -> np.ndarray:
    """The sinusoidal vectors of the first positions, in float64."""
    sizes = Sizes(d_model, n_heads=1, d_head=d_model, kinds={})
    return _rows(Sinusoidal(NoOptions(), sizes).embed(torch.arange(rows)[None])[0])


@torch.inference_mode()
def read_biases(trained: Trained) -> tuple[Bias, ...]:
    """The bias of every head and kind of attention, by distance."""
    encoding, device = trained.model.encoding, trained.device
    places = 2 * REACH + 1
    place, _ = encoding.place(torch.arange(places, device=device)[None], None, torch.tensor([[places]], device=device))
    distances = tuple(range(-REACH, REACH + 1))
    found = []
    for kind in trained.model.kinds:
        bias = encoding.bias(place[:, REACH : REACH + 1], place, kind)
        for head, row in enumerate([] if bias is None else bias[0, :, 0].double().tolist()):
            found.append(Bias(kind=kind, head=head, distances=distances, values=tuple(map(short, row))))
    return tuple(found)


def say(table: LearnedTable | None, biases: Sequence[Bias], identities: Mapping[str, Identities]) -> tuple[str, ...]:
    """The findings as sentences."""
    words = []
    if table is not None and table.untrained_rows is not None:
        words.append(f"{table.untrained_rows:,} of {table.rows:,} rows are as they were at step 0")
    if table is not None:
        words.append(table.past)
        if table.rows > MOST_ROWS:
            words.append(f"the first {MOST_ROWS} rows are shown")
        if table.coordinates > MOST_COORDINATES:
            words.append(f"the first {MOST_COORDINATES} of {table.coordinates} coordinates are shown")
        if "learned" not in identities:
            words.append(f"the identities need {FEWEST_PAIRS + 1} consecutive trained rows; there are fewer")
    if biases and not any(any(bias.values) for bias in biases):
        words.append("every bias is 0: attention is as flat as before training")
    return tuple(words)


def _rows(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
