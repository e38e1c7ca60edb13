"""Verification of an attached model: three tests on a batch, before anything is measured.

Every site fires. With every head kept, the logits are those of the plain pass, bit for bit. With one head of every site
set to zero at the handle, they are those of a model whose output projections have zeros in that head's place.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.func import functional_call

from headway.attachment.finding import inner_module, is_transposed
from headway.attachment.masks import call
from headway.attachment.multihead import without_fast_path
from headway.attachment.sites import AttachedSite
from headway.errors import InstrumentError

if TYPE_CHECKING:
    from headway.attachment.attached import Attached

ROUNDING = 200
"""Largest allowed difference of logits, in rounding units of the largest: zeroed weights only change the rounding."""


@dataclass(frozen=True)
class Verification:
    """`weights_apart` is the largest difference between zeroed handles and zeroed weights, in logits."""

    sites: int
    heads: int
    weights_apart: float


@torch.no_grad()
def verify(attached: "Attached", batch: Any) -> Verification:
    """Raise `InstrumentError` if edits of head outputs would not affect exactly the named heads."""
    attached.check_mode()
    plain = _library_pass(attached, batch)
    kept = _all_kept(attached, batch)
    if by := distance(plain, kept):
        if chance := distance(plain, _library_pass(attached, batch)):
            what = "dropout, or another source of randomness, is on"
            raise InstrumentError(f"two passes on the same batch differ by {chance:.3g} in their logits: {what}")
        raise InstrumentError(f"the logits with every head kept differ from the model's own by {by:.3g}")
    chosen = {site.name: index % site.n_heads for index, site in enumerate(attached.sites)}
    apart = _apart(attached, batch, attached.sites, chosen, plain)
    if apart is None:
        wrong = [site for site in attached.sites if _apart(attached, batch, [site], chosen, plain) is None]
        names = ", ".join(f"{site.name} ({site.path})" for site in wrong or attached.sites)
        raise InstrumentError(f"zero at the handle is not zero in the weights of {names}: that is no output projection")
    if all(torch.equal(plain, _zeroed(attached, batch, [site], {site.name: None})) for site in attached.sites):
        raise InstrumentError("no logit changes when every head of a site is set to zero: the heads are not in use")
    return Verification(len(attached.sites), len(attached.heads), apart)


def _library_pass(attached: "Attached", batch: Any) -> Tensor:
    """The logits of the model without any change by headway."""
    with without_fast_path(), attached.uncompiled():
        return attached.read(call(attached.model, batch))


def distance(one: Tensor, other: Tensor) -> float:
    """The largest difference; equal infinities, and two NaN, are no difference."""
    same = (one == other) | (one.isnan() & other.isnan())
    return float((one - other).abs().nan_to_num(torch.inf).masked_fill(same, 0).max())


def _all_kept(attached: "Attached", batch: Any) -> Tensor:
    """The logits with every head kept; a site that is silent is named with its module."""
    fired: set[str] = set()

    def edit_at(name: str) -> Any:
        def edit(heads: Tensor) -> Tensor:
            fired.add(name)
            return heads

        return edit

    try:
        with attached.intervene({site.name: edit_at(site.name) for site in attached.sites}):
            return attached.run(batch)
    except InstrumentError:
        silent = ", ".join(f"{site.name} ({site.path})" for site in attached.sites if site.name not in fired)
        why = "fused attention uses its weight as a function, and such heads cannot be reached"
        raise InstrumentError(f"the model never calls the output projection of {silent}: {why}") from None


def _apart(
    attached: "Attached", batch: Any, sites: list[AttachedSite], chosen: dict[str, int], plain: Tensor
) -> float | None:
    """The distance between zeroed handles and zeroed weights, None if it is more than rounding."""
    handle = _zeroed(attached, batch, sites, {site.name: chosen[site.name] for site in sites})
    weights = {}
    for site in sites:
        path, projection = inner_module(attached.module.get_submodule(site.path), site.path)
        columns = slice(chosen[site.name] * site.d_head, (chosen[site.name] + 1) * site.d_head)
        weight: Any = projection.weight.detach().clone()  # type: ignore[operator]
        weight[columns if is_transposed(projection) else (slice(None), columns)] = 0
        weights[f"{path}.weight"] = weight
    with attached.plain_pass():
        cut = attached.read(functional_call_batch(attached.module, weights, batch))
    apart = distance(handle, cut)
    scale = float(plain.nan_to_num(0, 0, 0).abs().max()) or 1.0
    return apart if apart <= ROUNDING * torch.finfo(plain.dtype).eps * scale else None


def functional_call_batch(module: Any, weights: dict[str, Tensor], batch: Any) -> Any:
    """The output of a module on a batch with some of its weights replaced."""
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        return functional_call(module, weights, (), dict(batch))
    return functional_call(module, weights, tuple(batch) if isinstance(batch, tuple) else (batch,))


def _zeroed(attached: "Attached", batch: Any, sites: list[AttachedSite], chosen: dict[str, Any]) -> Tensor:
    """The logits with one head of each site, or with all of them (None), set to zero at the handle."""

    def edit_at(index: int | None) -> Any:
        def edit(heads: Tensor) -> Tensor:
            heads = heads.clone()
            heads[:, :, slice(None) if index is None else index] = 0
            return heads

        return edit

    with attached.intervene({site.name: edit_at(chosen[site.name]) for site in sites}):
        return attached.run(batch)
