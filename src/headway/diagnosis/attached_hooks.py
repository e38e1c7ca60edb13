"""Whether the hooks on a model of another program stand on the output projections of its attention."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headway.attachment.attached import Attached
from headway.attachment.masks import call
from headway.attachment.sites import AttachedSite
from headway.attachment.weights import SoftmaxMode

PRODUCTS = ("AddmmBackward", "MmBackward", "LinearBackward")
"""Names of autograd nodes of a linear layer; products inside attention are BmmBackward."""


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Every module in evaluation mode; afterwards in its own again."""
    before = [(one, one.training) for one in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for one, training in before:
            one.training = training


def described(site: AttachedSite) -> str:
    return f"{site.name} ({site.path})"


def never_called(attached: Attached, arguments: Any) -> list[str]:
    """Sites whose projection the forward pass does not call."""
    called: set[str] = set()

    def note(site: AttachedSite) -> Any:
        def hook(module: nn.Module, inputs: Any) -> None:
            called.add(site.name)

        return hook

    with ExitStack() as stack:
        stack.enter_context(evaluation_mode(attached.module))
        for site in attached.sites:
            hook = attached.module.get_submodule(site.path).register_forward_pre_hook(note(site))
            stack.callback(hook.remove)
        attached.run(arguments)
    return [described(site) for site in attached.sites if site.name not in called]


def not_after_attention(attached: Attached, arguments: Any) -> list[str]:
    """Sites to whose projection no attention leads but through another linear layer.

    The autograd graph says what the projection's input was computed from. Nothing is found in a model that computes
    neither a softmax nor PyTorch's fused attention, or that keeps no graph.
    """
    direct: dict[str, bool] = {}

    def look(site: AttachedSite) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            if inputs and inputs[0].grad_fn is not None:
                direct[site.name] = direct.get(site.name, True) and _leads_to_attention(inputs[0].grad_fn)

        return hook

    with ExitStack() as stack:
        stack.enter_context(evaluation_mode(attached.module))
        stack.enter_context(_with_graph(attached.module))
        for site in attached.sites:
            hook = attached.module.get_submodule(site.path).register_forward_pre_hook(look(site))
            stack.callback(hook.remove)
        stack.enter_context(attached.plain_pass())
        mode = stack.enter_context(SoftmaxMode())
        call(attached.model, arguments)
    if mode.last is None:
        return []
    return [described(site) for site in attached.sites if not direct.get(site.name, True)]


@contextmanager
def _with_graph(module: nn.Module) -> Iterator[None]:
    """Every parameter takes part in the autograd graph."""
    frozen = [one for one in module.parameters() if not one.requires_grad and one.is_floating_point()]
    for one in frozen:
        one.requires_grad_(True)
    try:
        with torch.enable_grad():
            yield
    finally:
        for one in frozen:
            one.requires_grad_(False)


def _leads_to_attention(node: Any) -> bool:
    waiting, seen = [node], {node}
    while waiting:
        node = waiting.pop()
        name = type(node).__name__
        if "softmax" in name.lower() or "att" in name.lower():
            return True
        if name.startswith(PRODUCTS):
            continue
        new = {before for before, _ in node.next_functions if before is not None} - seen
        seen |= new
        waiting.extend(new)
    return False


def without_effect(attached: Attached, arguments: Any) -> list[str]:
    """Sites whose heads change no logit, although their projection's weights are not all zero."""
    found = []
    with evaluation_mode(attached.module):
        plain = attached.run(arguments)
        for site in attached.sites:
            with attached.intervene({site.name: torch.zeros_like}):
                same = torch.equal(plain, attached.run(arguments))
            weight = getattr(attached.module.get_submodule(site.path), "weight", None)
            if same and isinstance(weight, Tensor) and bool(weight.any()):
                found.append(described(site))
    return found
