"""Attention weights of every site, also where the library's kernel returns none.

headway's own model records them; Hugging Face models are switched to their eager attention for one pass;
`nn.MultiheadAttention` is written out. In any other module the softmax, or the call of
`scaled_dot_product_attention`, that came last before a site's output projection is the site's attention.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.attachment.multihead import written_out
from headway.attachment.sites import AttachedSite
from headway.model.attention import MultiHeadAttention

Weights = dict[str, Tensor]
"""Site -> weights, `batch head query key`."""


@contextmanager
def recorded_weights(
    model: nn.Module, sites: list[AttachedSite], on_weights: Callable[[str, Tensor], None]
) -> Iterator[None]:
    """Call back with the weights of every site at every pass while the context is open."""
    with ExitStack() as stack:
        stack.enter_context(eager_attention(model))
        by_hand = []
        multihead = {}
        for site in sites:
            module = None if site.attention is None else model.get_submodule(site.attention)
            if isinstance(module, nn.MultiheadAttention):
                multihead[module] = site.name
            elif isinstance(module, MultiHeadAttention):
                stack.enter_context(_recorded(module, site.name, on_weights))
            elif module is not None and _is_switchable(module) and not _is_bridged(site):
                stack.callback(module.register_forward_hook(_hook(site, on_weights)).remove)
            else:
                by_hand.append(site)
        stack.enter_context(written_out(list(multihead), lambda module, found: on_weights(multihead[module], found)))
        if by_hand:
            mode = stack.enter_context(SoftmaxMode())
            for site in by_hand:
                projection = model.get_submodule(site.path)
                stack.callback(projection.register_forward_pre_hook(_take(mode, site, on_weights)).remove)
        yield


def _hook(site: AttachedSite, on_weights: Callable[[str, Tensor], None]) -> Callable[[nn.Module, Any, Any], None]:
    def hook(module: nn.Module, arguments: Any, output: Any) -> None:
        found = [part for part in output if isinstance(part, Tensor) and part.ndim == 4]
        if found:
            on_weights(site.name, found[-1])

    return hook


def _take(
    mode: "SoftmaxMode", site: AttachedSite, on_weights: Callable[[str, Tensor], None]
) -> Callable[[nn.Module, Any], None]:
    def hook(module: nn.Module, arguments: Any) -> None:
        found = mode.taken(site.n_heads)
        if found is not None:
            on_weights(site.name, found)

    return hook


def _is_bridged(site: AttachedSite) -> bool:
    """Whether TransformerBridge computes the attention in place of the module that it wraps."""
    return "_original_component" in site.path


@contextmanager
def _recorded(module: MultiHeadAttention, name: str, on_weights: Callable[[str, Tensor], None]) -> Iterator[None]:
    """headway's own attention takes its written-out path and tells its weights, as for `record`."""
    before = vars(module).get("head_outputs_at")
    inner = module.head_outputs_at

    def head_outputs_at(x: Tensor, key: Tensor, value: Tensor, place: Any, visibility: Any, *rest: Any) -> Tensor:
        own: dict[str, Tensor] = {}
        outputs = inner(x, key, value, place, visibility, own, "here")
        on_weights(name, own["here"])
        if rest and rest[0] is not None:
            rest[0][rest[1]] = own["here"]
        return outputs

    vars(module)["head_outputs_at"] = head_outputs_at
    try:
        yield
    finally:
        vars(module).pop("head_outputs_at")
        if before is not None:
            vars(module)["head_outputs_at"] = before


def _is_switchable(module: nn.Module) -> bool:
    return getattr(getattr(module, "config", None), "_attn_implementation", None) is not None


@contextmanager
def eager_attention(model: nn.Module) -> Iterator[None]:
    """Hugging Face models compute attention by their own eager code while the context is open."""
    configs: dict[int, Any] = {}
    for module in model.modules():
        if _is_switchable(module):
            configs[id(module.config)] = module.config
    before = [(config, config._attn_implementation_internal) for config in configs.values()]
    try:
        for config, _ in before:
            config._attn_implementation_internal = "eager"
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


class SoftmaxMode(TorchFunctionMode):
    """Keeps the weights of the last attention that was computed by a softmax or by PyTorch's fused attention."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Tensor | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        result = func(*args, **named)
        name = getattr(func, "__name__", "")
        if name == "softmax" and isinstance(result, Tensor) and result.ndim >= 3:
            self.last = result
        elif name == "scaled_dot_product_attention":
            self.last = fused_weights(*args, **named)
        return result

    def taken(self, n_heads: int) -> Tensor | None:
        """The last weights as `batch head query key`; None if they are not weights of so many heads."""
        found, self.last = self.last, None
        if found is not None and found.ndim == 3 and len(found) % n_heads == 0:
            found = found.unflatten(0, (-1, n_heads))
        return found if found is not None and found.ndim == 4 and found.shape[1] == n_heads else None


def fused_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The weights inside a call of `scaled_dot_product_attention`, as its documentation writes them."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1)
