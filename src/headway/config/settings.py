"""All settings: `RunConfig` and its parts. docs/recipes.md lists them, which a test checks."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headway.config.building import Choice, build, join, setting, to_table
from headway.errors import InputError
from headway.json_values import JsonObject, JsonValue

FORM = 1
"""Version of the form of config.json."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The examples; `data.seed` determines the splits, independently of the run's seed."""

    seed: int = setting(641, "fixes the three splits", low=0)
    train: int = setting(10_000, "training examples", low=1, high=50_000_000)
    validation: int = setting(2_000, "validation examples", low=1, high=50_000_000)
    test: int = setting(2_000, "test examples", low=1, high=50_000_000)
    fresh: bool = setting(False, "draw new training examples at every step instead of a fixed set")
    files: bool = setting(False, "examples come from the files in the run's data/ (set by --data)")
    allow_overlap: bool = setting(False, "accept files whose splits overlap (set by --allow-overlap)")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """One transformer: encoder-decoder, encoder with pooling, or decoder-only."""

    shape: Literal["encoder-decoder", "encoder", "decoder"] = setting(
        "encoder-decoder", "encoder and decoder, or only one of them"
    )
    d_model: int = setting(128, "width of the residual stream", low=1, high=16_384)
    n_heads: int = setting(4, "heads of each attention module", low=1, high=1_024)
    d_head: int | None = setting(None, "width of one head; d_model / n_heads when left out", low=1, high=16_384)
    d_ff: int = setting(512, "width of the feed-forward layer", low=1, high=131_072)
    encoder_layers: int | None = setting(None, "layers of the encoder; 2 when left out", low=0, high=256)
    decoder_layers: int | None = setting(None, "layers of the decoder; 2 when left out", low=0, high=256)
    dropout: float = setting(
        0.0, "dropout on embeddings, attention weights, hidden units and sublayer outputs", low=0, high=0.95
    )
    norm: Literal["pre", "post"] = setting("pre", "layer norm before or after each sublayer")
    activation: Literal["relu", "gelu"] = setting("gelu", "non-linearity of the feed-forward layer")
    causal_encoder: bool = setting(False, "causal mask in the encoder")
    log_length_scale: bool = setting(False, "multiply attention logits by the log of the number of visible keys")
    window: int | None = setting(
        None, "attention reaches positions at most this far away, and tokens that are not digits", low=0
    )
    encoder_window: int | None = setting(None, "the encoder's own window, in place of model.window", low=0)
    decoder_window: int | None = setting(None, "the decoder self-attention's own window", low=0)
    cross_window: int | None = setting(None, "the cross-attention's own window", low=0)
    encoding: Choice = field(
        default_factory=lambda: Choice(name="sinusoidal"),
        metadata={"help": "positional encoding: name and its options"},
    )
    pooling: Choice | None = setting(None, "pooling of an encoder: name and its options; mean when left out")
    kept_heads: tuple[str, ...] | None = setting(
        None, "heads that pruning kept, such as dec1.cross.h2; all when left out"
    )

    def __post_init__(self) -> None:
        if self.d_head is None:
            if self.d_model % self.n_heads:
                raise InputError(
                    f"model.n_heads = {self.n_heads} does not divide model.d_model = {self.d_model}; "
                    "choose a divisor or set model.d_head"
                )
            object.__setattr__(self, "d_head", self.d_model // self.n_heads)
        for stack in ("encoder", "decoder"):
            self._settle_layers(stack, used=stack in self.shape)
        if self.shape == "encoder":
            object.__setattr__(self, "pooling", self.pooling or Choice(name="mean"))
        elif self.pooling is not None:
            raise InputError(f"model.pooling needs model.shape = 'encoder', and the shape is {self.shape!r}")
        if self.causal_encoder and self.shape == "decoder":
            raise InputError("model.causal_encoder needs an encoder, and model.shape is 'decoder'")
        self._check_windows()

    def window_of(self, kind: str) -> int | None:
        """The window of a kind of attention (encoder, decoder or cross): its own, or `model.window`."""
        own: int | None = getattr(self, f"{kind}_window")
        return self.window if own is None else own

    def _check_windows(self) -> None:
        missing = {
            "encoder": self.shape == "decoder",
            "decoder": self.shape == "encoder",
            "cross": self.shape != "encoder-decoder",
        }
        for kind, is_missing in missing.items():
            key = f"{kind}_window"
            own = getattr(self, key)
            if own is not None and is_missing:
                raise InputError(f"model.{key} = {own}, and model.shape = {self.shape!r} has no {kind} attention")
        if all(self.window_of(kind) is None for kind in missing):
            return
        if self.log_length_scale:
            raise InputError("model.window and model.log_length_scale exclude each other: a window has one length")

    def _settle_layers(self, stack: str, *, used: bool) -> None:
        key = f"{stack}_layers"
        value = getattr(self, key)
        if used and value == 0:
            raise InputError(f"model.{key} = 0, and model.shape = {self.shape!r} needs at least 1")
        if not used and value:
            raise InputError(f"model.{key} = {value}, and model.shape = {self.shape!r} has no {stack}")
        object.__setattr__(self, key, (2 if value is None else value) if used else 0)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Optimisation; give `epochs` or `steps`, not both."""

    epochs: float | None = setting(None, "passes over the training set", above=0, high=1e6)
    steps: int | None = setting(None, "optimiser steps", low=1, high=100_000_000)
    batch_size: int = setting(128, "examples a step", low=1, high=1_000_000)
    lr: float = setting(1e-3, "highest learning rate", above=0, high=10)
    schedule: Literal["cosine", "linear", "constant"] = setting("cosine", "decay after the warm-up, to lr_end x lr")
    warmup: float = setting(0.1, "share of the steps with a linear warm-up from 0", low=0, high=1)
    lr_end: float = setting(0.0, "final learning rate, as a share of lr", low=0, high=1)
    beta1: float = setting(0.9, "AdamW: decay rate of the first moment", low=0, high=0.9999)
    beta2: float = setting(0.999, "AdamW: decay rate of the second moment", low=0, high=0.99999)
    weight_decay: float = setting(0.0, "AdamW: decay of matrices (not of norms, biases, embeddings)", low=0, high=10)
    clip: float = setting(1.0, "gradients are clipped to this norm", above=0)
    stack_precision: Literal["tf32", "bf16"] = setting(
        "tf32", "precision of a stack on a GPU: matrix products in TF32, or all but AdamW's state in bf16"
    )
    label_smoothing: float = setting(0.0, "share of the target spread over all tokens", low=0, high=0.9)
    validate_every: int = setting(200, "steps between validations, each with a checkpoint", low=1)
    keep_every: int | None = setting(
        None, "steps between weights that are kept for headway heads --over-training; none: none are", low=1
    )
    stop_below: float | None = setting(None, "stop early once the validation loss stays below this", above=0)
    stop_accuracy: float | None = setting(
        None,
        "stop early once the validation accuracy stays at least this: the training lengths are mastered",
        above=0,
        high=1,
    )
    guided: float = setting(
        0.0, "share of each batch that holds contexts which headway prove leaves open (sortedness)", low=0, high=0.9
    )
    guided_margin: float = setting(
        4.0, "guided training: a context is open while its margin is at most this, in logits", low=0
    )
    stop_for: int = setting(3, "validations in a row that stop_below or stop_accuracy needs", low=1)

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            given = "neither" if self.epochs is None else "both"
            raise InputError(f"[train] needs exactly one of epochs and steps; {given} given")

    def total_steps(self, data: DataConfig) -> int:
        """Optimiser steps of the whole run; an epoch is one pass over the fixed training set."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return max(1, math.ceil(self.epochs * data.train / self.batch_size))


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run: the resolved recipe and the seed."""

    task: Choice
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig
    seed: int = setting(0, "fixes initialisation, order and dropout", low=0)

    def __post_init__(self) -> None:
        if self.data.fresh and self.train.steps is None:
            raise InputError("data.fresh = true has no epochs; set train.steps")
        if self.data.fresh and self.data.files:
            raise InputError("data.fresh = true draws examples, and --data reads them; use one")

    def to_json(self) -> JsonObject:
        return {"form": FORM, **to_table(self)}

    @classmethod
    def from_json(cls, table: Any, where: str = "config") -> "RunConfig":
        if not isinstance(table, Mapping) or table.get("form") != FORM:
            found = table.get("form") if isinstance(table, Mapping) else table
            raise InputError(f"{where}: form {found!r} is not one this version reads ({FORM})")
        try:
            return build(cls, {key: value for key, value in table.items() if key != "form"}, "")
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def stackable(config: RunConfig) -> RunConfig:
    """The config without seed and learning rate; runs with equal results can be trained as one stack."""
    return replace(config, seed=0, train=replace(config.train, lr=1.0))


def differences(one: RunConfig, other: RunConfig) -> list[str]:
    """The settings in which two configs differ, as `train.lr: 0.001 and 0.002`."""
    first, second = _flatten(one.to_json()), _flatten(other.to_json())
    keys = sorted(first.keys() | second.keys())
    return [f"{key}: {first.get(key)} and {second.get(key)}" for key in keys if first.get(key) != second.get(key)]


def _flatten(table: JsonObject, where: str = "") -> dict[str, JsonValue]:
    flat: dict[str, JsonValue] = {}
    for key, value in table.items():
        flat |= _flatten(value, join(where, key)) if isinstance(value, Mapping) else {join(where, key): value}
    return flat
