"""`hw.ablated`, `hw.patched` and `hw.captured`: a model with some heads changed, or captured, inside a `with` block.

Inside the block the model is called as always: `model(...)`, `model.generate(...)`, under autocast, with a KV cache.
The contexts can be nested in any order; edits of an inner one see what an outer one made. After the block, also after
an exception, no hook is left. A compiled model runs eagerly inside the block.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.attachment.attached import Attached, Edit, attach
from headway.attachment.weights import recorded_weights
from headway.errors import InputError, suggestion
from headway.model.sites import Head
from headway.randomness import generator

KINDS = ("zero", "mean", "resample")
CACHES = ("past_key_values", "past_key_value", "layer_past")
"""Arguments in which Hugging Face's attentions receive the KV cache."""

Heads = str | Iterable[str | Head]


def as_attached(model: object) -> Attached:
    return model if isinstance(model, Attached) else attach(model)


@contextmanager
def ablated(model: object, heads: Heads, *, kind: str = "zero", over: Any = None, seed: int = 0) -> Iterator[Attached]:
    """Ablate heads in every pass of the model while the context is open.

    `kind`: "zero"; "mean", the head's mean output over all real tokens of the batches `over`; "resample", its output
    at the same position of another example, drawn from `over` for each row. `over` is one batch, or a list of them.

    >>> with hw.ablated(model, ["dec1.cross.h2"], kind="mean", over=batches):   # doctest: +SKIP
    ...     model.generate(**batch)
    """
    if kind not in KINDS:
        raise InputError(f"ablation {kind!r}; {suggestion(kind, KINDS)}")
    attached = as_attached(model)
    found = attached.find(heads)
    if kind == "zero":
        edits: dict[str, Edit] = {name: _constant(places, torch.zeros(())) for name, places in found.items()}
        with attached.intervene(edits):
            yield attached
        return
    if over is None:
        raise InputError(f"ablation {kind!r} needs over=: the batches from which the replacement comes")
    banks = _banks(attached, found, over)
    if kind == "mean":
        edits = {name: _constant(places, banks[name].mean()[places]) for name, places in found.items()}
        with attached.intervene(edits):
            yield attached
        return
    with _positions(attached, found) as starts:
        edits = {n: _resampled(n, places, banks[n], starts, seed) for n, places in found.items()}
        with attached.intervene(edits):
            yield attached


@contextmanager
def patched(model: object, heads: Heads, *, source: Any) -> Iterator[Attached]:
    """Replace the outputs of heads by those that they have on the batch `source`, position by position.

    Rows correspond: `source` has as many rows as the batch, or one for all. Positions where the source is padding, or
    past its end, keep their own outputs.

    >>> with hw.patched(model, ["dec0.self.h1"], source=corrupted):   # doctest: +SKIP
    ...     model(**clean)
    """
    attached = as_attached(model)
    found = attached.find(heads)
    banks = _banks(attached, found, source)
    with _positions(attached, found) as starts:
        edits = {name: _patched(name, places, banks[name], starts) for name, places in found.items()}
        with attached.intervene(edits):
            yield attached


class Captured(Mapping[str, Tensor]):
    """Attention weights of the passes in a block; `attention["dec0.self"]`, `batch head query key`, is the last one."""

    def __init__(self, sites: Iterable[str]) -> None:
        self.passes: dict[str, list[Tensor]] = {name: [] for name in sites}
        """Site -> the weights of every pass, in order: one for each new token of `generate` with a KV cache."""

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.passes:
            raise InputError(f"the model has no site {name!r}; {suggestion(name, self.passes)}")
        if not self.passes[name]:
            raise InputError(f"nothing was captured at {name}: call the model inside the block")
        return self.passes[name][-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)


@contextmanager
def captured(model: object) -> Iterator[Captured]:
    """Capture the attention weights of every pass of the model while the context is open.

    >>> with hw.captured(model) as attention:   # doctest: +SKIP
    ...     model(**batch)
    >>> attention["dec0.self"].shape   # doctest: +SKIP
    """
    attached = as_attached(model)
    attached.check_mode()
    found = Captured(site.name for site in attached.sites)

    def keep(name: str, weights: Tensor) -> None:
        if not _OWN_PASS.get():
            found.passes[name].append(weights.detach())

    with attached.uncompiled(), recorded_weights(attached.module, attached.sites, keep):
        yield found


_OWN_PASS: ContextVar[bool] = ContextVar("own_pass", default=False)
"""Whether headway itself runs the model, to compute a replacement; such passes are not captured."""


@contextmanager
def _unrecorded() -> Iterator[None]:
    token = _OWN_PASS.set(True)
    try:
        yield
    finally:
        _OWN_PASS.reset(token)


@dataclass
class Bank:
    """Head outputs of one site on examples, `example query head d_head`, and which queries are real tokens."""

    outputs: Tensor
    real: Tensor
    first: Tensor = field(init=False)
    last: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.real.int().argmax(1)
        self.last = self.real.shape[1] - 1 - self.real.flip(1).int().argmax(1)

    def mean(self) -> Tensor:
        """The mean output over real queries, `head d_head`."""
        return self.outputs[self.real].double().mean(0).to(self.outputs.dtype)


def _banks(attached: Attached, found: Mapping[str, Sequence[int]], over: Any) -> dict[str, Bank]:
    """The outputs on all examples of some batches, whose lengths may differ."""
    batches = over if isinstance(over, list) else [over]
    if not batches:
        raise InputError("no batches to take replacements from; give at least one")
    outputs: dict[str, list[Tensor]] = {name: [] for name in found}
    reals: dict[str, list[Tensor]] = {name: [] for name in found}
    for batch in batches:
        with _unrecorded():
            heads, masks = attached.head_outputs(batch), attached.query_mask(batch)
        for name in found:
            outputs[name].append(heads[name])
            reals[name].append(masks[name].to(heads[name].device))
    return {name: Bank(_stacked(outputs[name]), _stacked(reals[name])) for name in found}


def _stacked(parts: list[Tensor]) -> Tensor:
    """Concatenate batches of different lengths; missing positions at the end are zero and not real tokens."""
    longest = max(part.shape[1] for part in parts)
    wide = [part.new_zeros(len(part), longest, *part.shape[2:]) for part in parts]
    for whole, part in zip(wide, parts, strict=True):
        whole[:, : part.shape[1]] = part
    return torch.cat(wide)


def _constant(places: list[int], value: Tensor) -> Edit:
    def edit(heads: Tensor) -> Tensor:
        heads = heads.clone()
        heads[:, :, places] = value.to(heads)
        return heads

    return edit


def _patched(name: str, places: list[int], bank: Bank, starts: "Starts") -> Edit:
    def edit(heads: Tensor) -> Tensor:
        rows, count = heads.shape[:2]
        if rows % len(bank.outputs):
            raise InputError(f"the source has {len(bank.outputs)} rows and the batch {rows}; as many needed, or one")
        columns = torch.arange(count, device=heads.device) + starts.of(name, count, bank)
        there = columns < bank.real.shape[1]
        columns = columns.clamp(max=bank.real.shape[1] - 1)
        wide = torch.arange(rows, device=heads.device) // (rows // len(bank.outputs))
        real = (bank.real[wide][:, columns] & there)[:, :, None, None]
        heads = heads.clone()
        heads[:, :, places] = torch.where(
            real, bank.outputs[wide][:, columns][:, :, places].to(heads), heads[:, :, places]
        )
        return heads

    return edit


def _resampled(name: str, places: list[int], bank: Bank, starts: "Starts", seed: int) -> Edit:
    def edit(heads: Tensor) -> Tensor:
        rows, count = heads.shape[:2]
        drawn = generator(seed, "attachment resample").integers(0, len(bank.outputs), size=rows)
        example = torch.as_tensor(drawn, device=heads.device)
        columns = torch.arange(count, device=heads.device) + starts.of(name, count, bank)
        columns = columns[None].clamp(min=bank.first[example][:, None], max=bank.last[example][:, None])
        heads = heads.clone()
        heads[:, :, places] = bank.outputs[example[:, None], columns][:, :, places].to(heads)
        return heads

    return edit


@dataclass
class Starts:
    """The position of the first query of a pass at each site: the number of tokens in the KV cache before it."""

    cached: dict[str, int | None] = field(default_factory=dict)

    def of(self, name: str, count: int, bank: Bank) -> int:
        start = self.cached.get(name)
        if start is None and count == 1 and bank.real.shape[1] > 1:
            raise InputError(
                f"the position of the one query at {name} is not known; run without a KV cache, or use zero or mean"
            )
        own = count if name.endswith(".cross") and start else 0  # self-attention came first and cached them
        return (start or 0) - own


@contextmanager
def _positions(attached: Attached, found: Iterable[str]) -> Iterator[Starts]:
    """Read, before each attention runs, how many tokens its KV cache holds."""
    starts = Starts()

    def hook_for(name: str) -> Any:
        def hook(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            caches = [one for one in (*arguments, *named.values()) if hasattr(one, "get_seq_length")]
            layer = getattr(module, "layer_idx", None)
            known = any(one in named for one in CACHES)  # given as None: there is no cache
            starts.cached[name] = int(caches[0].get_seq_length(layer or 0)) if caches else 0 if known else None

        return hook

    with ExitStack() as stack:
        for name in found:
            path = attached.site(name).attention
            if path is not None:
                module = attached.module.get_submodule(path)
                stack.callback(module.register_forward_pre_hook(hook_for(name), with_kwargs=True).remove)
        yield starts
