"""Several small models, inputs of unequal sizes for each, and the two ways to compute with them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headway.config import Choice, ModelConfig
from headway.model.stack import Stack, stack_models
from headway.model.transformer import Inputs, Transformer
from headway.training.loop import noise_keys
from headway.training.step import positions_of_each

TOKENS = 9
SEEDS = [3, 4, 11]


@contextmanager
def double_precision() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def models_of(shape: str, encoding: str = "sinusoidal", **more: Any) -> list[Transformer]:
    """Three models whose weights are all different, biases and tables too."""
    config = ModelConfig(
        shape=shape,
        d_model=12,
        n_heads=2,
        d_ff=10,
        encoder_layers=1 if "encoder" in shape else None,
        decoder_layers=1 if "decoder" in shape else None,
        encoding=Choice(name=encoding),
        **more,
    )
    models = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = Transformer(config, n_tokens=TOKENS, n_classes=3 if shape == "encoder" else 0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        models.append(model)
    return models


def inputs_of(shape: str, *, padded: bool, rows: int = 4, source: int = 6, prefix: int = 5) -> list[Inputs]:
    """Other rows for each model."""
    torch.manual_seed(1)
    found = []
    for _ in SEEDS:
        visible = torch.arange(source) < torch.randint(1, source + 1, (rows, 1)) if padded else None
        one = Inputs(torch.randint(0, TOKENS, (rows, source)), torch.arange(source)[None], visible)
        if shape != "encoder":
            tokens = torch.randint(0, TOKENS, (rows, prefix))
            one = replace(one, prefix=tokens, prefix_positions=torch.arange(prefix)[None])
        found.append(one)
    return found


def joined(parts: Sequence[Inputs]) -> Inputs:
    """The rows of all models under one another; positions, which are alike for all rows, once for each model."""

    def under(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else torch.cat(values)

    rows = {name: under(name) for name in ("source", "source_visible", "prefix")}
    return positions_of_each(replace(parts[0], **rows), len(parts))


def loss_of(logits: Tensor) -> Tensor:
    """A number that every logit moves in its own way."""
    return (logits.sin() * torch.linspace(0.5, 2, logits[0].numel()).view(logits[0].shape)).sum()


def alone(models: Sequence[Transformer], parts: Sequence[Inputs], step: int) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Logits and gradients of each model by itself."""
    logits, gradients = [], []
    for seed, model, part in zip(SEEDS, models, parts, strict=True):
        model.noise.begin(noise_keys([seed], step))
        logits.append(model(part))
        names, leaves = zip(*model.named_parameters(), strict=True)
        gradients.append(dict(zip(names, torch.autograd.grad(loss_of(logits[-1]), leaves), strict=True)))
    return torch.cat(logits), gradients


def together(
    models: Sequence[Transformer], parts: Sequence[Inputs], step: int
) -> tuple[Stack, Tensor, list[dict[str, Tensor]]]:
    """The stack, and the logits and gradients it gives to each model."""
    stack = stack_models(models, torch.device("cpu"))
    stack.model.train(models[0].training)
    stack.model.noise.begin(noise_keys(SEEDS, step))
    logits = stack.model(joined(parts))
    found = torch.autograd.grad(sum(loss_of(part) for part in logits.chunk(len(SEEDS))), stack.leaves)
    vector = torch.zeros_like(stack.weights)
    for slot, gradient in zip(stack.layout.blocks(vector).values(), found, strict=True):
        slot.copy_(gradient)
    return stack, logits, stack.layout.read(vector)
