"""The numbers of one encoder layer over all triples again, in NumPy and by left neighbours, with bounds of rounding.

docs/proofs.md derives the bounds; no bound here is from `rounding.py` or `sortedness_table.py`. Each function returns
float64 rows and, for each row, the largest Euclidean norm of its difference from the model's fp32 row.
"""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import erf

from headway.callbacks import OnProgress
from headway.model.poolings.detector import Detector
from headway.model.transformer import Transformer
from headway.proofs.rounding import NoBound

U = 2.0**-24
TINY = 2.0**-100
"""What numbers below the normal range can amount to in one row; so no bound is 0."""
Row = tuple[np.ndarray, np.ndarray]
"""Rows, and the norms of their largest errors."""


def share(n: int) -> float:
    """What n roundings in a row can amount to."""
    return n * U / (1 - n * U)


def size(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", x, x)))


def matrix(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    return layer.weight.detach().cpu().double().numpy(), layer.bias.detach().cpu().double().numpy()


def norm_of(weight: np.ndarray) -> float:
    """The largest singular value, from the eigenvalues of W W^T."""
    small = weight @ weight.T if weight.shape[0] < weight.shape[1] else weight.T @ weight
    return math.sqrt(max(0.0, float(np.linalg.eigvalsh(small)[-1]))) * (1 + 1e-9)


def linear(row: Row, weight: np.ndarray, bias: np.ndarray) -> Row:
    x, e = row
    added = share(weight.shape[1] + 1) * (norm_of(np.abs(weight)) * (size(x) + e) + size(bias)) + TINY
    return x @ weight.T + bias, e * norm_of(weight) + added


def layer_norm(row: Row, norm: Any) -> Row:
    (x, e), (weight, bias) = row, matrix(norm)
    n = x.shape[-1]
    root = math.sqrt(n)
    mean = x.mean(-1)
    apart = x - mean[..., None]
    deviation = np.sqrt((apart**2).mean(-1) + norm.eps)
    least, rms, middle = deviation - e / root, (size(x) + e) / root, np.abs(mean) + e / root
    variance = share(n + 3) * (1 + (middle**2 + 3 * middle * rms) / least**2)
    if not (least > 0).all() or not (variance < 0.1).all():
        raise NoBound("The deviation of what a layer norm reads is lost in rounding.")
    off = share(n) * rms
    own = root * (0.6 * variance + 12 * U + (1.1 * off + 8 * U * (middle + off)) / least)
    largest = np.abs(weight).max()
    last = 2 * U * (largest * (root + e / least + own) + size(bias)) + TINY
    return apart / deviation[..., None] * weight + bias, largest * (e / least + own) + last


def add(one: Row, other: Row) -> Row:
    x, e = one[0] + other[0], one[1] + other[1]
    return x, e + U * (size(x) + e) + TINY


class Recount:
    """The layer's numbers for every triple, left neighbour by left neighbour."""

    def __init__(self, model: Transformer, values: int):
        self.model, self.n = model, values
        self.block = _block(model)
        own = self.block.own
        embedded = model.embedding.weight[:values].detach().cpu().double().numpy()
        self.stream: Row = embedded, np.zeros(values)
        read = layer_norm(self.stream, self.block.own_norm) if self.block.pre_norm else self.stream
        self.heads = [
            [_part(read, layer, head, len(own.kept)) for layer in (own.query, own.key, own.value)]
            for head in range(len(own.kept))
        ]
        self.bias = self._bias(own.kept)

    def _bias(self, kept: tuple[int, ...]) -> Float[np.ndarray, "head 3"]:
        """Biases of the left neighbour, the element itself and the right one, as the model has them at position 1."""
        device = self.model.embedding.weight.device
        at = torch.ones(1, 1, dtype=torch.int64, device=device)
        found = self.model.encoding.bias(at, torch.arange(3, device=device)[None], "encoder")
        if found is None:
            return np.zeros((len(kept), 3))
        rows = found.detach().cpu().double().numpy()[0, :, 0]
        return rows[list(kept)] if len(rows) > 1 else np.repeat(rows, len(kept), axis=0)

    def run(
        self, features: Float[np.ndarray, "left itself right feature"], progress: OnProgress
    ) -> tuple[float, float]:
        """The allowance for rounding, and the largest distance of the model's own features in units of their bound."""
        errors, sizes, farthest = [], [], 0.0
        for left in range(self.n + 1):
            value, error = self._read(self._layer(left))
            apart = np.abs(features[left] - value)
            farthest = max(farthest, float((apart / error).max()))
            errors.append(error.reshape(-1, error.shape[-1]).max(0))
            sizes.append(np.abs(value).reshape(-1, value.shape[-1]).max(0))
            progress(left + 1, self.n + 1)
        return 1.001 * self._margin_error(np.max(sizes, axis=0), np.max(errors, axis=0)), farthest

    def _layer(self, left: int) -> Row:
        """What the encoder makes of every element (`itself right`) behind one left neighbour, or none."""
        mixed = [self._attend(left, head) for head in range(len(self.heads))]
        values = np.concatenate([value for value, _ in mixed], axis=-1)
        branch = linear(
            (values, size(np.stack([error for _, error in mixed], axis=-1))), *matrix(self.block.own.output)
        )
        stream, error = self.stream
        x = self._joined((stream[:, None], error[:, None]), branch, self.block.own_norm)
        read = layer_norm(x, self.block.feed_forward_norm) if self.block.pre_norm else x
        hidden = self._activated(linear(read, *matrix(self.block.feed_forward.expand)))
        x = self._joined(x, linear(hidden, *matrix(self.block.feed_forward.contract)), self.block.feed_forward_norm)
        final: Any = self.model.encoder_norm
        return layer_norm(x, final) if isinstance(final, torch.nn.LayerNorm) else x

    def _joined(self, x: Row, branch: Row, norm: Any) -> Row:
        return add(x, branch) if self.block.pre_norm else layer_norm(add(x, branch), norm)

    def _activated(self, row: Row) -> Row:
        x, e = row
        if self.model.config.activation == "relu":
            return np.maximum(x, 0), e
        return x * 0.5 * (1 + erf(x / math.sqrt(2))), 1.13 * e + share(8) * (size(x) + e) + TINY

    def _attend(self, left: int, head: int) -> Row:
        """One head's output for every element and right neighbour; the three keys are left, itself and right."""
        (q, qe), (k, ke), (v, ve) = self.heads[head]
        n, d, bias = self.n, q.shape[-1], self.bias[head]
        index = np.empty((n, n + 1, 3), dtype=np.int64)
        index[..., 0], index[..., 1], index[..., 2] = left, np.arange(n)[:, None], np.arange(n + 1)
        present = index < n
        index = np.where(present, index, 0)
        scores = (q @ k.T / math.sqrt(d))[np.arange(n)[:, None, None], index] + bias
        visible = np.where(present, scores, -np.inf)
        exponential = np.exp(visible - visible.max(-1, keepdims=True))
        weights = exponential / exponential.sum(-1, keepdims=True)
        output = np.einsum("crk,crkd->crd", weights, v[index])
        lengths = (size(q) + qe)[:, None] * (size(k) + ke)
        product = qe[:, None] * (size(k) + ke) + (size(q) + qe)[:, None] * ke + share(d + 3) * lengths
        off = product / math.sqrt(d) + U * (2 * lengths / math.sqrt(d) + np.abs(bias).max()) + TINY
        distances = size(v[:, None] - v)
        between = [np.where(present[..., i] & present[..., j], distances[index[..., i], index[..., j]], 0)
                   for i, j in ((0, 1), (0, 2), (1, 2))]  # fmt: skip
        worst = np.where(present, off[np.arange(n)[:, None, None], index], 0).max(-1)
        highest = np.where(present, np.abs(scores), 0).max(-1)
        sizes, carried = (np.where(present, one[index], 0).max(-1) for one in (size(v) + ve, ve))
        shift = worst + 16 * U * (highest + worst) + 64 * U
        rest = np.exp(2 * shift) - 1 - 2 * shift
        moved = carried * (1 + 2 * shift + rest) + shift * np.max(between, axis=0) / 2 + rest * sizes
        return output, moved + share(4 * int(present.sum(-1).max()) + 16) * (sizes + moved) + TINY * (1 + sizes)

    def _read(self, hidden: Row) -> Row:
        """What the pooling takes maxima of, and the error of each number."""
        pooling, (x, e) = self.model.pooling, hidden
        if not isinstance(pooling, Detector):
            return x, np.broadcast_to(e[..., None], x.shape)
        weight, bias = matrix(pooling.detect)
        value, error = x @ weight.T + bias, _each(x, e, weight, bias)
        if pooling.options.readout == "linear":
            return value, error
        summed = np.maximum(value, 0).sum(-1, keepdims=True)
        total = error.sum(-1, keepdims=True)
        return summed, total + share(len(weight)) * (summed + total)

    def _margin_error(self, sizes: np.ndarray, errors: np.ndarray) -> float:
        """The error of the margin: that of the maxima, and the roundings behind the pooling."""
        weight, bias = matrix(self.model.readout)
        margin = weight[1] - weight[0]
        pooled = sizes + errors
        if not isinstance(self.model.pooling, Detector):
            return float(np.abs(margin) @ errors + _each(pooled, np.zeros(()), weight, bias).sum())
        project, shift = matrix(self.model.pooling.project)
        added = _each(pooled, np.zeros(()), project, shift)
        vector = pooled @ np.abs(project).T + np.abs(shift) + added
        found = np.abs(margin @ project) @ errors + np.abs(margin) @ added
        return float(found + _each(vector, np.zeros(()), weight, bias).sum())


def _block(model: Transformer) -> Any:
    return model.encoder[0]


def _part(read: Row, layer: Any, head: int, heads: int) -> Row:
    """One head's queries, keys or values."""
    weight, bias = matrix(layer)
    width = len(weight) // heads
    rows = slice(head * width, (head + 1) * width)
    return linear(read, weight[rows], bias[rows])


def _each(x: np.ndarray, e: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Errors of the numbers of a linear layer one by one."""
    part = share(weight.shape[1] + 1)
    found: np.ndarray = (e + part * (size(x) + e))[..., None] * size(weight) + part * np.abs(bias) + TINY
    return found
