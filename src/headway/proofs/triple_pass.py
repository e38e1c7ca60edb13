"""The model's own fp32 pass over real sequences that hold every triple of values.

A de Bruijn sequence holds every triple exactly once. It goes through the encoder in pieces, as ordinary inputs;
sequences of two elements give the triples with one neighbour, and those of one element the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.model.poolings.detector import Detector
from headway.tasks import Examples

PIECE = 34
"""Elements of the de Bruijn sequence that one input holds."""
ELEMENTS = 1 << 14
"""Elements a batch."""


@dataclass(frozen=True)
class Seen:
    """What the pooling read of every element between its neighbours (index `values`: none), and the readout."""

    features: Float[np.ndarray, "left itself right feature"]
    weight: Float[np.ndarray, " feature"]
    bias: float


@torch.inference_mode()
def see(trained: Trained, values: int, progress: OnProgress = lambda done, total: None) -> Seen:
    """Run sequences that hold every triple through the model and note what the pooling reads."""
    model, n = trained.model, values
    width = model.pooling.project.in_features if isinstance(model.pooling, Detector) else model.config.d_model
    features = np.full((n + 1, n, n + 1, width), -np.inf, dtype=np.float32)
    batches = list(pieces(n))
    for done, rows in enumerate(batches):
        edge = np.full((len(rows), 1), n)
        left, right = np.hstack([edge, rows[:, :-1]]), np.hstack([rows[:, 1:], edge])
        features[left, rows, right] = read(trained, rows)
        progress(done + 1, len(batches))
    weight, bias = readout_of(trained)
    return Seen(features, weight, bias)


def pieces(values: int) -> Iterator[Int[np.ndarray, "row element"]]:
    """Batches of sequences in which every triple stands, every first and last pair, and every element alone."""
    whole = de_bruijn(values)
    starts = range(0, max(1, len(whole) - 2), PIECE - 2)  # two elements are shared, so that no triple is cut
    found = [whole[start : start + PIECE] for start in starts]
    full = [piece for piece in found if len(piece) == PIECE]
    rows = ELEMENTS // PIECE
    for at in range(0, len(full), rows):
        yield np.stack(full[at : at + rows])
    yield from (piece[None] for piece in found if len(piece) < PIECE)
    pairs = np.indices((values, values)).reshape(2, -1).T
    yield from np.array_split(pairs, max(1, pairs.size // ELEMENTS))
    yield np.arange(values)[:, None]


def de_bruijn(values: int) -> Int[np.ndarray, " element"]:
    """Every triple of values stands in it exactly once; the last two elements are the first ones again.

    It is all Lyndon words of one and of three letters in order (Fredricksen and Maiorana): with two values
    0 001 011 1, and then 0 0.
    """
    words: list[np.ndarray] = []
    for a in range(values):
        words.append(np.array([a]))
        rest = np.arange(a + 1, values)
        for b in range(a, values):
            words.append(np.stack([np.full_like(rest, a), np.full_like(rest, b), rest], axis=1).ravel())
    whole = np.concatenate(words)
    return np.concatenate([whole, whole[:2]])


def read(trained: Trained, rows: Int[np.ndarray, "row element"]) -> Float[np.ndarray, "row element feature"]:
    """What the pooling takes maxima of."""
    model = trained.model
    batch = make_batch(trained.task, model, Examples(rows, trained.task.answer(rows)), trained.device)
    hidden = model.encode(model.placed(batch.inputs))
    if isinstance(model.pooling, Detector):
        hidden = model.pooling.read(hidden)
    found: np.ndarray = hidden.cpu().numpy()
    return found


def readout_of(trained: Trained) -> tuple[Float[np.ndarray, " feature"], float]:
    """Weight and bias of the margin of "sorted", by what the readout makes of zeros and of each feature alone."""
    model = trained.model
    layers = [model.pooling.project] if isinstance(model.pooling, Detector) else []
    layers.append(model.readout)
    probe = torch.cat([torch.zeros(1, layers[0].in_features), torch.eye(layers[0].in_features)]).double()
    for layer in layers:
        probe = probe @ layer.weight.cpu().double().T + layer.bias.cpu().double()
    margin = (probe[:, 1] - probe[:, 0]).numpy()
    return margin[1:] - margin[0], float(margin[0])
