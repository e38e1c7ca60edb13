"""`hw.attach`: headway's handle on the heads of any model."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.attachment import masks, weights
from headway.attachment.finding import Found, describe, find_attentions, name_sites, width_of
from headway.attachment.multihead import written_out
from headway.attachment.sites import AttachedSite, parse_site
from headway.attachment.verification import Verification, verify
from headway.errors import InputError, InstrumentError
from headway.model.sites import Head, find_heads
from headway.model.transformer import Inputs

Edit = Callable[[Tensor], Tensor]
"""Changes the head outputs of one site, `batch query head d_head`."""

Patterns = str | Sequence[str] | Mapping[str, str]
KINDS = ("encoder", "decoder", "cross")


class Attached:
    """A model with named heads; `headway.attachment` lists what can be asked of it."""

    def __init__(
        self,
        model: nn.Module,
        found: list[Found],
        logits_of: Callable[[Any], Tensor] | None = None,
        real_tokens: Callable[[Any], Any] | None = None,
    ):
        self.model = model
        self.module: nn.Module = getattr(model, "_orig_mod", model)
        self.sites, self.blocks = name_sites(found, dict(self.module.named_modules()))
        self.heads: list[Head] = [head for site in self.sites for head in site.heads]
        self.verified: Verification | None = None
        self.found, self.logits_of, self.real_tokens = found, logits_of, real_tokens
        self._multihead = [module for module in self.module.modules() if isinstance(module, nn.MultiheadAttention)]

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def site(self, name: str) -> AttachedSite:
        return parse_site(name, self.sites)

    def find(self, heads: Iterable[str | Head]) -> dict[str, list[int]]:
        """Heads by name: for each site the places of its heads among those that it kept."""
        names = [heads] if isinstance(heads, str) else [str(head) for head in heads]
        found: dict[str, list[int]] = {}
        for head in find_heads(names, self.heads):
            found.setdefault(head.site_name, []).append(self.site(head.site_name).kept.index(head.index))
        return found

    def logits(self, batch: Any) -> Tensor:
        """The model's logits, without gradient; the first call verifies the sites on its batch."""
        if self.verified is None:
            self.verify(batch)
        return self.run(batch)

    @torch.no_grad()
    def run(self, batch: Any) -> Tensor:
        """The logits without the verification."""
        self.check_mode()
        with self.plain_pass():
            return self.read(masks.call(self.model, batch))

    @contextmanager
    def plain_pass(self) -> Iterator[None]:
        """Modules that headway replaces compute as in `intervene`, so that passes are equal bit for bit."""
        with written_out(self._multihead), self.uncompiled():
            yield

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """Run a compiled model eagerly, because code compiled before a hook was added ignores it."""
        if "torch._dynamo" not in sys.modules:
            yield
            return
        with torch.compiler.set_stance("force_eager"):
            yield

    def read(self, output: Any) -> Tensor:
        """The logits in what the model returned."""
        return logits_in(output if self.logits_of is None else self.logits_of(output))

    def check_mode(self) -> None:
        """Raise for a model in training mode, because its dropout would be measured."""
        if self.module.training:
            raise InputError("the model is in training mode, where dropout changes every pass; call model.eval() first")
        for path, module in self.module.named_modules():
            if module.training and getattr(module, "p", 0) and "Dropout" in type(module).__name__:
                raise InputError(f"{path} is in training mode and drops at random; call model.eval() first")

    @contextmanager
    def intervene(self, edits: Mapping[str, Edit]) -> Iterator[None]:
        """Apply edits to every pass of the model while the context is open; an edit that never ran is an error."""
        self.check_mode()
        fired = dict.fromkeys(edits, 0)
        with ExitStack() as stack:
            stack.enter_context(self.plain_pass())
            for name, edit in edits.items():
                site = self.site(name)
                projection = self.module.get_submodule(site.path)
                stack.callback(projection.register_forward_pre_hook(_hook(site, edit, fired)).remove)
            yield
        silent = [f"{name} ({self.site(name).path})" for name, count in fired.items() if count == 0]
        if silent:
            raise InstrumentError(f"the hook at {', '.join(silent)} did not fire: nothing was measured there")

    def head_outputs(self, batch: Any) -> dict[str, Tensor]:
        """The head outputs of every site, `batch query head d_head`."""
        found: dict[str, Tensor] = {}

        def keep(name: str) -> Edit:
            def edit(heads: Tensor) -> Tensor:
                _keep_once(found, name, heads.detach().clone())
                return heads

            return edit

        with self.intervene({site.name: keep(site.name) for site in self.sites}):
            self.run(batch)
        return found

    @torch.no_grad()
    def attention(self, batch: Any) -> dict[str, Tensor]:
        """The attention weights of every site, `batch head query key`."""
        found: dict[str, Tensor] = {}
        with weights.recorded_weights(self.module, self.sites, partial(_keep_once, found)):
            self.run(batch)
        missing = [site.name for site in self.sites if site.name not in found]
        if missing:
            raise InputError(
                f"no attention weights came out of {', '.join(missing)}: neither a softmax nor fused attention"
            )
        return {site.name: found[site.name] for site in self.sites}

    def query_mask(self, batch: Any) -> dict[str, Tensor]:
        """Real tokens among the queries of every site, `batch query`."""
        return self._masks(batch, keys=False)

    def key_mask(self, batch: Any) -> dict[str, Tensor]:
        """Real tokens among the keys of every site, `batch key`; causality is not in it."""
        return self._masks(batch, keys=True)

    def _masks(self, batch: Any, keys: bool) -> dict[str, Tensor]:
        sides = {site.name: masks.side_of(site, keys, self.sites) for site in self.sites}
        by_side = {side: self._side_mask(batch, side) for side in set(sides.values())}
        if any(mask is None for mask in by_side.values()):
            tensors, axis = (self.attention(batch), 3) if keys else (self.head_outputs(batch), 1)
            for name, found in tensors.items():
                if by_side[sides[name]] is None:
                    shape = (len(found), found.shape[axis])
                    by_side[sides[name]] = torch.ones(shape, dtype=torch.bool, device=found.device)
        return {name: by_side[side] for name, side in sides.items()}  # type: ignore[misc]

    def _side_mask(self, batch: Any, side: str) -> Tensor | None:
        if self.real_tokens is not None:
            real = self.real_tokens(batch)
            return real[side == "decoder"] if isinstance(real, tuple) else real
        if isinstance(batch, Inputs):
            return masks.own_mask(batch, side, joined=not any(site.side == "encoder" for site in self.sites))
        return masks.side_mask(self.module, batch, side)

    def verify(self, batch: Any) -> Verification:
        """Check on a batch that every site fires and that its handle is its heads."""
        self.verified = verify(self, batch)
        return self.verified

    def table(self) -> str:
        """What was found, a line for each site."""
        rows = [("site", "kind", "heads", "d_head", "key-value heads", "output projection")]
        for site in self.sites:
            counts = (str(site.n_heads), str(site.d_head), str(site.n_kv_heads))
            rows.append((site.name, site.kind, *counts, site.path))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
        return "\n".join(lines)

    def __repr__(self) -> str:
        state = "not verified yet" if self.verified is None else "verified"
        return (
            f"{type(self.module).__name__}: {len(self.heads)} heads in {len(self.sites)} sites, {state}\n{self.table()}"
        )


def logits_in(output: Any) -> Tensor:
    """What a model returned if that is a tensor, else its `logits`, else the first part of a tuple."""
    for name in ("logits", "last_hidden_state"):
        part = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(part, Tensor):
            return part
    first = output[0] if isinstance(output, tuple | list) and output else output
    if isinstance(first, Tensor) and first.ndim:
        return first
    what = "a single number first" if isinstance(first, Tensor) else type(output).__name__
    raise InputError(
        f"the model returned {what}, in which no logits were found; give logits_of=, or define logits(model, batch) "
        "in the model's file"
    )


def _keep_once(found: dict[str, Tensor], name: str, value: Tensor) -> None:
    """Store the value of a site; layers that share their weights compute a site several times in a pass."""
    if name in found:
        raise InputError(
            f"{name} is computed more than once in a pass: its layers share weights, and have no one value"
        )
    found[name] = value


def _hook(site: AttachedSite, edit: Edit, fired: dict[str, int]) -> Callable[[nn.Module, Any], Any]:
    def hook(module: nn.Module, arguments: Any) -> Any:
        fired[site.name] += 1
        if not arguments:
            raise InstrumentError(f"{site.path} is called with keyword arguments alone, which hooks cannot edit")
        heads = site.split(arguments[0])
        edited = edit(heads)
        if not isinstance(edited, Tensor) or edited.shape != heads.shape:
            shape = tuple(edited.shape) if isinstance(edited, Tensor) else type(edited).__name__
            raise InputError(f"the edit at {site.name} returned {shape}; {tuple(heads.shape)} needed")
        return (site.join(edited), *arguments[1:])

    return hook


def attach(
    model: object,
    *,
    sites: Patterns | None = None,
    n_heads: int | None = None,
    kind: str | None = None,
    example: Any = None,
    logits_of: Callable[[Any], Tensor] | None = None,
    real_tokens: Callable[[Any], Any] | None = None,
) -> Attached:
    """Find the heads of a model, so that headway's instruments can be used on it.

    `sites` are patterns of output projections (`"layers.*.attn.W_o"`), with kinds if it is a mapping, for a model whose
    attentions headway does not find. With an `example` batch the sites are verified here, otherwise on first use.
    `logits_of` takes the logits from what the model returns; `real_tokens` says which tokens of a batch are no padding:
    one mask, or a tuple of the encoder's and the decoder's.

    >>> hw.attach(model, sites="layers.*.attn.W_o", n_heads=4)   # doctest: +SKIP
    """
    model = check_model(model)
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind = {kind!r}; one of {', '.join(KINDS)} needed")
    if n_heads is not None and (type(n_heads) is not int or n_heads < 1):
        raise InputError(f"n_heads = {n_heads!r}; a whole number of at least 1 needed")
    module: nn.Module = getattr(model, "_orig_mod", model)
    found = find_attentions(module, n_heads, kind) if sites is None else named_sites(module, sites, n_heads, kind)
    if not found:
        considered = f"{_considered(module)}; name the output projections with sites="
        raise InputError(f"no attention found in {type(module).__name__}; {considered}")
    attached = Attached(model, found, logits_of, real_tokens)
    if example is not None:
        attached.verify(example)
    return attached


def check_model(model: object) -> nn.Module:
    """Raise unless the object is a module with weights; of nn.DataParallel, the module inside."""
    if not isinstance(model, nn.Module):
        raise InputError(f"hw.attach needs a torch.nn.Module, not {type(model).__name__} {str(model)[:60]!r}")
    if isinstance(model, nn.DataParallel):
        return check_model(model.module)
    devices = {parameter.device.type for parameter in model.parameters()}
    if "meta" in devices:
        raise InputError("the model is on the meta device and has no weights; load them first")
    if not devices:
        raise InputError(f"{type(model).__name__} has no parameters; a model with attention needed")
    return model


def named_sites(module: nn.Module, sites: Patterns, n_heads: int | None, kind: str | None) -> list[Found]:
    """The output projections that patterns name, in the module's order."""
    patterns = {sites: kind} if isinstance(sites, str) else dict.fromkeys(sites, kind)
    if isinstance(sites, Mapping):
        patterns = dict(sites)
    modules = dict(module.named_modules())
    found: dict[str, Found] = {}
    for pattern, one_kind in patterns.items():
        paths = [path for path in modules if fnmatchcase(path, pattern)]
        if not paths:
            raise InputError(f"no module of {type(module).__name__} matches {pattern!r}; {_considered(module)}")
        for path in paths:
            if one_kind is not None and one_kind not in KINDS:
                raise InputError(f"kind = {one_kind!r} of {pattern!r}; one of {', '.join(KINDS)} needed")
            found[path] = describe(path, path.rpartition(".")[0], modules, n_heads, one_kind)
    return [found[path] for path in modules if path in found]


def _considered(module: nn.Module) -> str:
    """The linear modules of a model, as patterns."""
    linear = [path for path, one in module.named_modules() if path and width_of(one) is not None]
    patterns = dict.fromkeys(".".join("*" if part.isdigit() else part for part in path.split(".")) for path in linear)
    shown = list(patterns)[:12]
    more = f" and {len(patterns) - len(shown)} more" if len(patterns) > len(shown) else ""
    return f"linear modules: {', '.join(shown)}{more}" if shown else "it has no linear modules"
