"""Features of every element in its context: one row for each triple (left or none, itself, right or none).

With one layer and window 1, an element sees only itself and its two neighbours, and the pooling takes the maximum of
each detector over the sequence. No norm follows the pooling, so the margin of "sorted" over "not sorted" is linear in
those maxima:

margin = weight . (maxima over the triples of the sequence) + bias
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.callbacks import OnProgress
from headway.config import ModelConfig
from headway.errors import InputError
from headway.evaluation import Trained
from headway.model.poolings.detector import Detector
from headway.model.transformer import Transformer
from headway.proofs import rounding
from headway.proofs.rounding import Bounded, exact

ENCODINGS = ("none", "clipped", "t5", "alibi")
"""Encodings whose bias depends on the distance alone, also in fp32."""
POOLINGS = ("detector", "max")
MOST_NUMBERS = 200_000_000
"""Largest number of features of triples: 1.6 GB, and minutes to compute."""

Rows = Float[Tensor, "left itself right feature"]


@dataclass(frozen=True)
class TripleTable:
    """Features of every triple in float64; index `values` on the left or right means no neighbour.

    `features[l, c, r]` is what the pooling reads of c between l and r. `alone[c]` is what it reads of a sequence of one
    element; no longer one holds such a triple, so that `features` is -inf there. `allowance` bounds how far the margin
    of the model's own fp32
    pass, for any sequence, can be from that of the table.
    """

    features: Rows
    weight: Float[Tensor, " feature"]
    bias: float
    allowance: float
    alone: Float[Tensor, "value feature"]

    @property
    def values(self) -> int:
        return self.features.shape[1]

    @property
    def favours(self) -> Int[Tensor, " favours"]:
        """The features with a positive weight for "sorted"."""
        return (self.weight > 0).nonzero().flatten()

    @property
    def opposes(self) -> Int[Tensor, " opposes"]:
        return (self.weight < 0).nonzero().flatten()

    def margin(self, maxima: Float[Tensor, "*any feature"]) -> Float[Tensor, "*any"]:
        return maxima @ self.weight + self.bias

    def of_sequences(self, rows: Tensor) -> Float[Tensor, " row"]:
        """Margins of whole sequences of one length, without padding."""
        if rows.shape[1] == 1:
            return self.margin(self.alone[rows[:, 0]])
        edge = rows.new_full((len(rows), 1), self.values)
        left, right = torch.cat([edge, rows[:, :-1]], dim=1), torch.cat([rows[:, 1:], edge], dim=1)
        return self.margin(self.features[left, rows, right].amax(1))


def check_model(trained: Trained) -> None:
    """Raise, with the setting and what is needed, unless every element's features depend on its triple alone."""
    check_config(trained.config.model)
    if trained.model.encoding.position_kind != "index":
        raise InputError("model.encoding.positions: a proof of sortedness needs 'index'")
    if not any(site.kept for site in trained.model.sites):
        raise InputError("model.kept_heads: a proof of sortedness needs at least one head")
    check_size(trained.model, trained.task.options.values)


def check_size(model: Transformer, values: int) -> None:
    """Raise if the table would have too many numbers."""
    pooling = model.pooling
    features = pooling.detect.out_features if isinstance(pooling, Detector) else model.config.d_model
    numbers = (values + 1) ** 2 * values * features
    if numbers > MOST_NUMBERS:
        raise InputError(
            f"task.values = {values:,}: {numbers:,} features of triples are too many for a proof "
            f"(at most {MOST_NUMBERS:,})"
        )


def check_config(config: ModelConfig) -> None:
    """The part of `check_model` that the settings alone decide."""
    pooling = config.pooling
    wanted: list[tuple[str, Any, str, bool]] = [
        ("model.shape", config.shape, "'encoder'", config.shape == "encoder"),
        ("model.encoder_layers", config.encoder_layers, "1", config.encoder_layers == 1),
        ("model.causal_encoder", config.causal_encoder, "false", not config.causal_encoder),
        ("model.window", config.window_of("encoder"), "1", config.window_of("encoder") == 1),
        ("model.encoding", config.encoding.name, " or ".join(map(repr, ENCODINGS)), config.encoding.name in ENCODINGS),
        ("model.pooling", getattr(pooling, "name", None), "'detector' or 'max'", _pools_maxima(pooling)),
        ("model.log_length_scale", config.log_length_scale, "false", not config.log_length_scale),
    ]
    for key, value, needed, fits in wanted:
        if not fits:
            raise InputError(
                f"{key} = {value!r}: a proof of sortedness needs {needed}, so that the number of contexts is finite"
            )


def _pools_maxima(pooling: Any) -> bool:
    return pooling is not None and pooling.name in POOLINGS


class Layer:
    """The single layer in float64 with its rounding bounds: from values to features of triples."""

    def __init__(self, model: Transformer, values: int):
        self.model, self.values = model, values
        self.block = _block(model)
        attention = self.block.own
        own = exact(model.embedding.weight[:values])
        read = rounding.layer_norm(own, self.block.own_norm) if self.block.pre_norm else own
        self.own = own
        self.query, self.key, self.value = (
            rounding.linear(read, layer, len(attention.kept))
            for layer in (attention.query, attention.key, attention.value)
        )
        self.bias = self._bias(attention.kept)
        self.apart = rounding.length(self.value.value[:, None] - self.value.value)

    def _bias(self, kept: tuple[int, ...]) -> Float[Tensor, "head 3"]:
        """The encoding's bias on the scores of the left neighbour, the element itself and the right neighbour."""
        device = self.model.embedding.weight.device
        query, keys = torch.ones(1, 1, dtype=torch.int64, device=device), torch.arange(3, device=device)[None]
        found = self.model.encoding.bias(query, keys, "encoder")
        if found is None:
            return torch.zeros(len(kept), 3, device=device)
        found = found.detach()[0, :, 0]
        return found[list(kept)] if len(found) > 1 else found.expand(len(kept), 3)

    def features(self, itself: int) -> Bounded:
        """Features `left right d_model` of one element between all pairs of neighbours; the last index means none."""
        own = (self.query.value[itself] * self.key.value).sum(-1) / math.sqrt(self.query.value.shape[-1])
        score = self._around(itself, own, -torch.inf) + self.bias.double()
        weight = score.softmax(-1)[..., None]
        sides = _with_none(self.value.value, 0.0)
        mixed = weight[..., 1, :] * self.value.value[itself] + weight[..., 2, :] * sides
        mixed = mixed + weight[..., 0, :] * sides[:, None]
        heads = Bounded(mixed, self._attention_error(itself, score)).joined()
        branch = rounding.linear(heads, self.block.own.output)
        return self._feed_forward(self._add(branch, self.own[itself], self.block.own_norm))

    def _around(self, itself: int, x: Float[Tensor, "value head"], none: float) -> Float[Tensor, "left right head 3"]:
        """Stack the entries of the left neighbour, the element itself and the right neighbour, for all neighbours."""
        sides = _with_none(x, none)
        left, right = sides[:, None].expand(-1, len(sides), -1), sides.expand(len(sides), -1, -1)
        return torch.stack([left, x[itself].expand_as(left), right], dim=-1)

    def _attention_error(self, itself: int, score: Tensor) -> Float[Tensor, "left right head"]:
        error = rounding.score_error(self.query[itself], self.key, self.bias.abs().amax(-1))
        apart = _with_none(self.apart[itself], 0.0)
        both = _with_none(_with_none(self.apart, 0.0).transpose(0, 1), 0.0)
        farthest = torch.maximum(torch.maximum(apart[:, None], apart), both)
        errors, sizes, carried = (self._around(itself, x, 0.0) for x in (error, self.value.lengths(), self.value.error))
        return rounding.attention(score, errors, sizes, carried, farthest)

    def _feed_forward(self, x: Bounded) -> Bounded:
        layer: Any = self.block.feed_forward
        norm: Any = self.block.feed_forward_norm
        read = rounding.layer_norm(x, norm) if self.block.pre_norm else x
        activate = rounding.relu if self.model.config.activation == "relu" else rounding.gelu
        x = self._add(rounding.linear(activate(rounding.linear(read, layer.expand)), layer.contract), x, norm)
        last: Any = self.model.encoder_norm
        return rounding.layer_norm(x, last) if isinstance(last, nn.LayerNorm) else x

    def _add(self, branch: Bounded, x: Bounded, norm: Any) -> Bounded:
        summed = rounding.add(x, branch)
        return summed if self.block.pre_norm else rounding.layer_norm(summed, norm)


def _block(model: Transformer) -> Any:
    return model.encoder[0]


def _with_none(x: Tensor, none: float) -> Tensor:
    """Append a row for the missing neighbour."""
    return torch.cat([x, torch.full_like(x[:1], none)])


@torch.no_grad()
def tabulate(model: Transformer, values: int, progress: OnProgress = lambda done, total: None) -> TripleTable:
    """The table of a model, with a rounding bound for the whole table; raises `NoBound` if there is none."""
    if reason := rounding.out_of_range(model):
        raise rounding.NoBound(reason)
    layer, rows, errors = Layer(model, values), [], []
    for itself in range(values):
        value, error = _read(model, layer.features(itself))
        rows.append(value)
        errors.append(error)
        progress(itself + 1, values)
    features, error = torch.stack(rows, dim=1), torch.stack(errors).amax(0)
    weight, bias = _margin_weights(model)
    size = features.abs().flatten(0, 2).amax(0)
    allowance = rounding.OWN * _readout_error(model, weight, size, error)
    if not math.isfinite(allowance):
        raise rounding.NoBound("The bound of rounding errors is not finite.")
    alone = features[-1, :, -1].clone()
    features[-1, :, -1] = -torch.inf
    return TripleTable(features.cpu(), weight.cpu(), bias, allowance, alone.cpu())


def _read(model: Transformer, hidden: Bounded) -> tuple[Tensor, Float[Tensor, " feature"]]:
    """The values whose maxima the pooling takes (detectors or residual stream), and the largest error of each."""
    pooling = model.pooling
    if not isinstance(pooling, Detector):
        return hidden.value, hidden.error.max().expand(hidden.value.shape[-1])
    found = rounding.linear(hidden, pooling.detect).value
    error = rounding.each_output(hidden, pooling.detect).flatten(0, -2).amax(0)
    if pooling.options.readout == "linear":
        return found, error
    summed = found.relu().sum(-1, keepdim=True)
    rounded = rounding.gamma(len(error)) * (float(summed.max()) + error.sum())
    return summed, (error.sum() + rounded)[None]


def _margin_weights(model: Transformer) -> tuple[Tensor, float]:
    """Weight and bias of the margin of "sorted", in float64."""
    readout = model.readout.weight.double(), model.readout.bias.double()
    weight, bias = readout[0][1] - readout[0][0], float(readout[1][1] - readout[1][0])
    if not isinstance(model.pooling, Detector):
        return weight, bias
    project = model.pooling.project
    bias += float(project.bias.double() @ weight)
    return weight @ project.weight.double(), bias


def _readout_error(model: Transformer, weight: Tensor, size: Tensor, error: Tensor) -> float:
    """Error of the margin: the error of the maxima, and the roundings of projection and readout."""
    found, pooled = float(weight.abs() @ error), exact((size + error)[None])
    if isinstance(model.pooling, Detector):
        project = model.pooling.project
        added = rounding.each_output(pooled, project)[0]
        found += float((model.readout.weight[1] - model.readout.weight[0]).double().abs() @ added)
        largest = pooled.value @ project.weight.double().abs().T + project.bias.double().abs()
        pooled = exact(largest + added)
    return found + float(rounding.each_output(pooled, model.readout).sum())
