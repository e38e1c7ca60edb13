"""An independent computation of every head, which shares only the model with hooks, sweeps and recorded maps.

A head is ablated by setting its columns of the output projection to zero, in a copy of the model, followed by an
ordinary forward pass. A head's values and output are read at the projections of its own site, which are found by name
among the model's modules. The instruments must agree with this computation head by head, because ablating several heads
at once would hide two exchanged heads.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy

import torch
from torch import Tensor

from headway.model.sites import Head, HeadSite
from headway.model.transformer import Inputs, Transformer


def module_name(site: HeadSite) -> str:
    """The name of a site's attention among the model's modules: `decoder.1.cross`, `encoder.0.own`."""
    stack, layer, looks = site.name.split(".")
    return f"{stack}.{layer}.{'cross' if looks == 'cross' else 'own'}"


@torch.inference_mode()
def silenced(model: Transformer, inputs: Inputs) -> dict[str, Tensor]:
    """The logits without each head, by name: its columns of the output projection are zero."""
    with torch.inference_mode(False), torch.no_grad():
        copy = deepcopy(model)
    weights, found = dict(copy.named_parameters()), {}
    for site in model.sites:
        weight = weights[f"{module_name(site)}.output.weight"]
        width = weight.shape[1] // max(1, len(site.kept))
        for place, index in enumerate(site.kept):
            columns = slice(place * width, (place + 1) * width)
            before = weight[:, columns].clone()
            weight[:, columns] = 0
            found[str(Head(site.name, index))] = copy(inputs)
            weight[:, columns] = before
    return found


@torch.inference_mode()
def values_and_outputs(model: Transformer, inputs: Inputs) -> dict[str, tuple[Tensor, Tensor]]:
    """For each head, by name: its values and its output, both `batch position d_head`."""
    seen: dict[str, Tensor] = {}
    handles = []
    sites = [site for site in model.sites if site.kept]
    for site in sites:
        name = module_name(site)
        value, output = model.get_submodule(f"{name}.value"), model.get_submodule(f"{name}.output")
        handles.append(value.register_forward_hook(_keep_result(seen, f"{name}.value")))
        handles.append(output.register_forward_pre_hook(_keep_input(seen, f"{name}.output")))
    try:
        model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    found = {}
    for site in sites:
        values, outputs = (
            seen[f"{module_name(site)}.{part}"].chunk(len(site.kept), -1) for part in ("value", "output")
        )
        for place, index in enumerate(site.kept):
            found[str(Head(site.name, index))] = values[place], outputs[place]
    return found


def _keep_result(seen: dict[str, Tensor], name: str) -> Callable[[object, object, Tensor], None]:
    def hook(module: object, arguments: object, result: Tensor) -> None:
        seen[name] = result

    return hook


def _keep_input(seen: dict[str, Tensor], name: str) -> Callable[[object, tuple[Tensor, ...]], None]:
    def hook(module: object, arguments: tuple[Tensor, ...]) -> None:
        seen[name] = arguments[0]

    return hook


SMALLEST = 0.1
"""Below this size differences are not divided by the size, since the rounding of numbers around 1 would dominate."""


def differing(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float) -> dict[str, float]:
    """Heads whose numbers differ from the expected ones, and the relative difference; infinity where one is missing."""
    apart = {}
    for name in {**expected, **found}:
        if name not in found or name not in expected or found[name].shape != expected[name].shape:
            apart[name] = float("inf")
            continue
        one, other = found[name].float(), expected[name].float()
        size = max(SMALLEST, float(other.abs().max())) if other.numel() else 1.0
        moved = float((one - other).abs().max()) / size if other.numel() else 0.0
        if not moved <= tolerance:
            apart[name] = moved
    return apart


def mixed(weights: Mapping[str, Tensor], parts: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """The output of each head if it mixed its own values with these weights; only where the shapes fit."""
    return {
        name: table @ parts[name][0]
        for name, table in weights.items()
        if name in parts and table.shape[-1] == parts[name][0].shape[1] and table.shape[1] == parts[name][1].shape[1]
    }
