"""Encoder-decoder, encoder with pooling, and decoder-only, from one set of blocks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.config import ModelConfig
from headway.errors import InputError
from headway.model.attention import Place, Visibility
from headway.model.blocks import Block, Hidden, LayerCache, View
from headway.model.encodings import Sizes, make_encoding
from headway.model.encodings.base import Encoding, for_rows
from headway.model.noise import Dropout, share_noise
from headway.model.poolings import make_pooling
from headway.model.sites import sites_of

Tokens = Int[Tensor, "batch position"]
Positions = Int[Tensor, "#row position"]
PositionsOf = Callable[[Tokens, Tokens | None], tuple[Tensor, Tensor | None]]
"""(source, prefix) -> positions of both, from those tokens alone."""

LARGEST_MODEL = 2_000_000_000


@dataclass(frozen=True)
class Inputs:
    """Tokens and their positions; `source_visible` is None if no source token is padding.

    There is one row of positions for each of tokens, one for all, or in a stack one for each model.
    """

    source: Tokens
    source_positions: Positions
    source_visible: Bool[Tensor, "batch position"] | None = None
    prefix: Int[Tensor, "batch prefix"] | None = None
    prefix_positions: Int[Tensor, "#other prefix"] | None = None


@dataclass
class Memory:
    """The state that decoding keeps of the source: the encoder's output, and the KV cache of each decoder layer."""

    encoded: Float[Tensor, "batch position d_model"] | None
    layers: list[LayerCache]


class Transformer(nn.Module):
    """The transformer; `forward` gives the logits of the next token after each prefix token, or of the classes.

    `n_classes` is 0 for models that write an answer. In a decoder-only model the prefix follows the source.
    """

    def __init__(self, config: ModelConfig, n_tokens: int, n_classes: int = 0):
        super().__init__()
        if (config.shape == "encoder") != (n_classes > 0):
            wants = "classifies" if n_classes else "writes an answer"
            fits = "'encoder'" if n_classes else "'encoder-decoder' or 'decoder'"
            raise InputError(f"model.shape = {config.shape!r}, and the task {wants}; {fits} needed")
        assert config.d_head is not None and config.encoder_layers is not None and config.decoder_layers is not None
        self.config = config
        self.kinds = attention_kinds(config)
        self.embedding = nn.Embedding(n_tokens, config.d_model)
        sizes = Sizes(config.d_model, config.n_heads, config.d_head, self.kinds)
        self.encoding = make_encoding(config.encoding, sizes)
        if self.encoding.spreads and any(config.window_of(kind) is not None for kind in self.kinds):
            name = config.encoding.name
            raise InputError(f"model.window counts positions, and model.encoding = {name!r} moves them apart")
        self.dropout = Dropout(config.dropout)
        self.sites = sites_of(config)
        at = {site.name: site for site in self.sites}
        self.encoder = nn.ModuleList(Block(config, at[f"encoder.{i}.self"]) for i in range(config.encoder_layers))
        self.decoder = nn.ModuleList(
            Block(config, at[f"decoder.{i}.self"], at.get(f"decoder.{i}.cross")) for i in range(config.decoder_layers)
        )
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre and config.encoder_layers else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre and config.decoder_layers else nn.Identity()
        self.pooling = make_pooling(config.pooling, config.d_model) if config.pooling else None
        self.readout = nn.Linear(config.d_model, n_classes or n_tokens)
        self.noise = share_noise(self)
        initialise(self)
        if self.pooling is not None:
            self.pooling.initialise(self.readout)

    def forward(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Float[Tensor, "batch *prefix out"]:
        """Logits for a whole batch at once; with `record`, the attention weights of every site are stored in it."""
        self.noise.start_pass()
        inputs = self.placed(inputs)
        if self.config.shape == "encoder":
            return self.classify(self.encode(inputs, record), inputs)
        encoded = self.encode(inputs, record) if self.config.shape == "encoder-decoder" else None
        return self.decode(Memory(encoded, []), inputs, record=record)

    def placed(self, inputs: Inputs) -> Inputs:
        """The same tokens with positions moved by the encoding's `place`, once per pass for source and prefix together.

        `forward` calls it; callers of `encode`, `begin` and `decode` must call it first.
        """
        length = _source_lengths(inputs)
        source, prefix = inputs.source_positions, inputs.prefix_positions
        if self.config.shape == "encoder-decoder":
            length = length + 1
        if self.config.shape == "decoder" and prefix is not None:
            prefix = for_rows(prefix, len(length)) + length if self.encoding.position_kind == "index" else prefix
            length = 2 * length + 2
        source, prefix = self.encoding.place(source, prefix, length)
        return replace(inputs, source_positions=source, prefix_positions=prefix)

    def classify(self, hidden: Hidden, inputs: Inputs) -> Float[Tensor, "batch out"]:
        """Logits of the classes from the encoder's output."""
        assert self.pooling is not None
        visible = inputs.source_visible
        everything = torch.ones_like(inputs.source, dtype=torch.bool)
        logits: Tensor = self.readout(self.pooling(hidden, everything if visible is None else visible))
        return logits

    def encode(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Hidden:
        view = self.encoder_view(inputs)
        x = self.embed_source(inputs)
        for index, block in enumerate(self.encoder):
            x = block(x, view, record=record, name=f"encoder.{index}")
        normed: Tensor = self.encoder_norm(x)
        return normed

    def embed_source(self, inputs: Inputs) -> Hidden:
        return self._embed(inputs.source, inputs.source_positions)

    def encoder_view(self, inputs: Inputs) -> View:
        place = self._place("encoder", inputs.source_positions, inputs.source_positions)
        return View(place, Visibility(inputs.source_visible, self.kinds["encoder"]))

    def _place(self, kind: str, query: Positions, key: Int[Tensor, "#row key"]) -> Place:
        return Place(self.encoding, kind, query, key, self.config.window_of(kind))

    def begin(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Memory:
        """Encode the source once, before the answer is generated."""
        encoded = self.encode(inputs, record) if self.config.shape == "encoder-decoder" else None
        return Memory(encoded, [LayerCache() for _ in self.decoder])

    def decode(
        self,
        memory: Memory,
        inputs: Inputs,
        *,
        done: int = 0,
        keep: bool = False,
        record: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "batch prefix out"]:
        """Logits after each prefix token from index `done` on; with `keep`, keys and values are added to the cache."""
        assert inputs.prefix is not None
        start = inputs.source.shape[1] + done if memory.encoded is None and done else done
        x, own, across = self.decoder_start(inputs, start)
        for index, block in enumerate(self.decoder):
            cache = memory.layers[index] if keep else None
            x = block(x, own, across, memory.encoded, cache, record, f"decoder.{index}")
        return self.read_out(x[:, -(inputs.prefix.shape[1] - done) :])

    def decoder_start(self, inputs: Inputs, start: int = 0) -> tuple[Hidden, View, View | None]:
        """The decoder's input from token `start` on, and its masks for itself and for the source."""
        assert inputs.prefix is not None and inputs.prefix_positions is not None
        visible, across = None, None
        tokens, positions = inputs.prefix, inputs.prefix_positions
        if self.config.shape == "decoder":
            tokens, positions, visible = self._joined(inputs)
        else:
            place = self._place("cross", positions[:, start:], inputs.source_positions)
            across = View(place, Visibility(inputs.source_visible))
        place = self._place("decoder", positions[:, start:], positions)
        x = self._embed(tokens[:, start:], positions[:, start:])
        return x, View(place, Visibility(visible, causal=True)), across

    def read_out(self, x: Hidden) -> Float[Tensor, "batch position out"]:
        """Logits of the next token from the decoder's last layer."""
        logits: Tensor = self.readout(self.decoder_norm(x))
        return logits

    def _embed(self, tokens: Tokens, positions: Positions) -> Float[Tensor, "batch position d_model"]:
        x = self.embedding(tokens)
        added = self.encoding.embed(positions)
        dropped: Tensor = self.dropout(x if added is None else x + for_rows(added.to(x.dtype), len(x)))
        return dropped

    def _joined(self, inputs: Inputs) -> tuple[Tokens, Positions, Bool[Tensor, "batch position"] | None]:
        """Source and prefix concatenated; padding between them stays masked."""
        assert inputs.prefix is not None and inputs.prefix_positions is not None
        tokens = torch.cat([inputs.source, inputs.prefix], dim=1)
        positions = (inputs.source_positions, inputs.prefix_positions)
        rows = max(map(len, positions))
        both = [for_rows(p, rows).expand(rows, -1) for p in positions]
        visible = inputs.source_visible
        if visible is not None:
            visible = torch.cat([visible, torch.ones_like(inputs.prefix, dtype=torch.bool)], dim=1)
        return tokens, torch.cat(both, dim=1), visible


def _source_lengths(inputs: Inputs) -> Int[Tensor, "#batch 1"]:
    """Source tokens that are not padding; a single row if nothing is padded and all rows have the same positions."""
    if inputs.source_visible is not None:
        return inputs.source_visible.sum(1, keepdim=True)
    return inputs.source.new_full((len(inputs.source), 1), inputs.source.shape[1])


def attention_kinds(config: ModelConfig) -> dict[str, bool]:
    """The kinds of attention of a model, and whether each is causal."""
    kinds = {"encoder": config.causal_encoder, "decoder": True, "cross": False}
    if config.shape == "encoder-decoder":
        return kinds
    return {config.shape: kinds[config.shape]}


def initialise(model: nn.Module) -> None:
    """Xavier weights, zero biases; embeddings of unit size; relative biases start at 0, so attention starts flat."""
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.weight.numel():  # an attention may have lost all its heads
            nn.init.xavier_uniform_(module.weight)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
    for module in model.modules():
        if isinstance(module, Encoding):
            module.initialise()


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def check_size(config: ModelConfig, n_tokens: int, n_classes: int = 0) -> int:
    """The number of parameters, computed without allocating them; raises for a model that is too large."""
    with torch.device("meta"), _WithoutNormal():
        parameters = count_parameters(Transformer(config, n_tokens, n_classes))
    if parameters > LARGEST_MODEL:
        raise InputError(f"the model would have {parameters:,} parameters; at most {LARGEST_MODEL:,} are allowed")
    return parameters


class _WithoutNormal(TorchFunctionMode):
    """Inside the context no tensor is filled with normal numbers, which on the meta device would import PyTorch's
    compiler.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        return named["tensor"] if func is nn.init.normal_ else func(*args, **named)


@torch.inference_mode()
def decode_greedily(
    model: Transformer,
    inputs: Inputs,
    positions_of: PositionsOf,
    *,
    bos: int,
    eos: int,
    longest: int,
    cache: bool = True,
) -> Int[Tensor, "batch answer"]:
    """Greedy decoding: append the most likely token (the lowest id of equals) until EOS or `longest` tokens.

    Tokens after EOS are EOS. `inputs` needs only the source; positions are recomputed at each step.
    """
    prefix = inputs.source.new_full((len(inputs.source), 1), bos)
    ended = torch.zeros(len(prefix), dtype=torch.bool, device=prefix.device)
    memory: Memory | None = None
    for step in range(longest):
        source_positions, prefix_positions = positions_of(inputs.source, prefix)
        current = model.placed(Inputs(inputs.source, source_positions, inputs.source_visible, prefix, prefix_positions))
        if memory is None or not cache:
            memory = model.begin(current)
        logits = model.decode(memory, current, done=step if cache else 0, keep=cache)
        token = logits[:, -1].argmax(-1).masked_fill(ended, eos)
        prefix = torch.cat([prefix, token[:, None]], dim=1)
        ended |= token == eos
        if bool(ended.all()):
            break
    return prefix[:, 1:]
