"""Which tokens of a batch are real, from the masks that the model itself is given."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headway.attachment.sites import AttachedSite
from headway.errors import InputError
from headway.model.transformer import Inputs

REAL = {"encoder": ("attention_mask",), "decoder": ("decoder_attention_mask",)}
"""Arguments that are 1 at real tokens."""

PADDED = {
    "encoder": ("src_key_padding_mask", "memory_key_padding_mask", "key_padding_mask"),
    "decoder": ("tgt_key_padding_mask",),
}
"""Arguments that are True at padding."""

TOKENS = {
    "encoder": ("input_ids", "inputs_embeds"),
    "decoder": ("decoder_input_ids", "decoder_inputs_embeds", "labels"),
}


DECODER_ALONE = {
    "encoder": (("encoder_attention_mask",), ("encoder_hidden_states",)),
    "decoder": (("attention_mask",), ("input_ids", "inputs_embeds")),
}
"""Masks and tokens in the arguments of a decoder that is given the encoder's output."""


def call(model: nn.Module, batch: Any) -> Any:
    """Call the model: a mapping is keywords, a tuple is positional, anything else is the one argument."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, tuple) else model(batch)


def arguments_of(model: nn.Module, batch: Any) -> dict[str, Any]:
    """The arguments of a batch by name."""
    if isinstance(batch, Mapping):
        return dict(batch)
    positional = batch if isinstance(batch, tuple) else (batch,)
    try:
        return dict(inspect.signature(model.forward).bind_partial(*positional).arguments)
    except TypeError as problem:
        raise InputError(f"the batch does not fit the model: {problem}") from None


def side_mask(model: nn.Module, batch: Any, side: str) -> Tensor | None:
    """Real tokens of the encoder's or the decoder's sequence; all of them if only token ids are there; None if the
    batch does not say how many there are.
    """
    arguments = arguments_of(model, batch)
    alone = "encoder_hidden_states" in arguments
    real_names, token_names = DECODER_ALONE[side] if alone else (REAL[side], TOKENS[side])
    for names, turned in ((real_names, False), (PADDED[side], True)):
        for name in names:
            mask = arguments.get(name)
            if isinstance(mask, Tensor) and mask.ndim == 2:
                real = mask == 0 if mask.is_floating_point() and turned else mask.bool() ^ turned
                return real
    for name in token_names:
        tokens = arguments.get(name)
        if isinstance(tokens, Tensor) and tokens.ndim >= 2:
            return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    return None


def own_mask(inputs: Inputs, side: str, joined: bool) -> Tensor:
    """Real tokens of headway's own inputs; `joined` if source and prefix are one sequence."""
    visible = inputs.source_visible
    source = torch.ones_like(inputs.source, dtype=torch.bool) if visible is None else visible
    prefix = None if inputs.prefix is None else torch.ones_like(inputs.prefix, dtype=torch.bool)
    if prefix is None or (side == "encoder" and not joined):
        return source
    return torch.cat([source, prefix], dim=1) if joined else prefix


def side_of(site: AttachedSite, keys: bool, sites: list[AttachedSite]) -> str:
    """Whose tokens are the queries, or the keys, of a site; a model with one stack has its tokens as an encoder has."""
    both = any(other.kind == "cross" for other in sites)
    if not both or site.kind == "encoder":
        return "encoder"
    return "encoder" if keys and site.kind == "cross" else "decoder"
