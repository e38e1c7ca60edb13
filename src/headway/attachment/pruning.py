"""`hw.prune` of a model: heads are removed for good; the logits equal those of the model with these heads zeroed."""

import copy
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from headway.attachment.attached import Attached
from headway.attachment.contexts import ablated, as_attached
from headway.attachment.cutting import cut_site
from headway.attachment.finding import Found, kept_of, key_value_heads
from headway.attachment.verification import distance
from headway.errors import InputError, InstrumentError
from headway.model.sites import Head

ROUNDING = 2000
"""How far the logits of the pruned and of the masked model may be apart, in rounding units of the largest logit:
products over fewer columns are summed in another order."""
REPEATS = 5


@dataclass(frozen=True)
class PrunedModel:
    """A model without some heads, against the one it came from.

    `logits_apart` is the largest difference between its logits and those of the masked model on the example, `speed`
    how many times faster its forward pass is there (median of alternating runs), `bytes` the memory of parameters.
    """

    model: nn.Module = field(repr=False)
    kept: tuple[str, ...]
    removed: tuple[str, ...]
    parameters_before: int
    parameters_after: int
    bytes_before: int
    bytes_after: int
    logits_apart: float
    speed: float


def prune_model(
    model: object, heads: str | Iterable[str | Head], *, keep: bool = False, example: Any = None
) -> PrunedModel:
    """A copy of a model without some heads (with `keep`, without the others), compared on an example batch with the
    masked model.
    """
    attached = as_attached(model)
    named = {str(head) for head in _named(attached, heads)}
    removed = [head for head in attached.heads if (str(head) in named) != keep]
    batch = _example(attached, example)
    smaller = copy.deepcopy(attached.module)
    cut(smaller, [str(head) for head in removed], attached)
    after = Attached(smaller, _found_after(attached, smaller), attached.logits_of, attached.real_tokens)
    apart = _compare(attached, after, removed, batch)
    sizes = [_sizes(one) for one in (attached.module, smaller)]
    return PrunedModel(
        model=smaller,
        kept=tuple(str(head) for head in after.heads),
        removed=tuple(str(head) for head in removed),
        parameters_before=sizes[0][0],
        parameters_after=sizes[1][0],
        bytes_before=sizes[0][1],
        bytes_after=sizes[1][1],
        logits_apart=apart,
        speed=median(_seconds(attached, batch) / _seconds(after, batch) for _ in range(REPEATS)),
    )


def _named(attached: Attached, heads: str | Iterable[str | Head]) -> list[Head]:
    places = attached.find(heads)
    return [attached.site(name).heads[place] for name, indices in places.items() for place in indices]


def cut(model: nn.Module, removed: Iterable[str], attached: Attached) -> None:
    """Remove heads from a module in place, and write into a Hugging Face configuration which ones stayed."""
    gone = set(removed)
    for site in attached.sites:
        if "_original_component" in site.path:
            raise InputError("a TransformerBridge is not pruned; prune the model that it wraps")
        if site.attention is None:
            raise InputError(f"the attention around {site.path} is not known; it cannot be pruned")
        places = [place for place, head in enumerate(site.heads) if str(head) not in gone]
        if len(places) < site.n_heads:
            cut_site(model, site, places)
    config = getattr(model, "config", None)
    if hasattr(config, "to_dict"):
        before = set(getattr(config, "headway_pruned", ()))
        config.headway_pruned = sorted(before | gone)  # type: ignore[union-attr]


def _found_after(attached: Attached, smaller: nn.Module) -> list[Found]:
    """The attentions of the pruned copy, with the heads that they kept."""
    found = []
    for one in attached.found:
        attention = smaller.get_submodule(one.attention) if one.attention else None
        kept = kept_of(attention, len(one.kept))
        groups = key_value_heads(attention, len(kept), one.d_head)
        found.append(replace(one, kept=kept, n_kv_heads=groups))
    return found


def _example(attached: Attached, example: Any) -> Any:
    """The batch on which the pruned model is compared; Hugging Face models bring one."""
    found = getattr(attached.module, "dummy_inputs", None) if example is None else example
    if found is None:
        raise InputError("hw.prune compares the pruned model with the masked one on a batch; give example=")
    return found


def _compare(attached: Attached, after: Attached, removed: list[Head], batch: Any) -> float:
    """The largest difference between the logits of the masked and of the pruned model; more than rounding raises."""
    if removed:
        with ablated(attached, removed):
            masked = attached.logits(batch)
    else:
        masked = attached.logits(batch)
    try:
        pruned = after.run(batch)
    except RuntimeError as problem:
        name, why = type(after.module).__name__, str(problem).splitlines()[0]
        raise InputError(f"{name} does not run with fewer heads, so it is not pruned: {why}") from None
    apart = distance(pruned, masked)
    if not apart <= ROUNDING * torch.finfo(masked.dtype).eps * max(1.0, float(masked.nan_to_num(0, 0, 0).abs().max())):
        raise InstrumentError(f"the pruned model differs from the masked one by {apart:.3g} in its logits")
    return apart


def _sizes(model: nn.Module) -> tuple[int, int]:
    """The number of parameters, and the bytes they take."""
    parameters = list(model.parameters())
    return sum(one.numel() for one in parameters), sum(one.numel() * one.element_size() for one in parameters)


def _seconds(attached: Attached, batch: Any) -> float:
    start = time.perf_counter()
    logits: Tensor = attached.run(batch)
    if logits.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start
