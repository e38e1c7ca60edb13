"""Direct logit attribution: how much of the right answer's logit margin each decoder head and MLP writes.

In a pre-norm decoder the last residual stream is a sum: the embedding, what every head writes through its slice of the
output projection, what every MLP writes, and biases. The final layer norm subtracts the stream's mean and divides by
its deviation. With that deviation held at its value, logits are linear in the stream, so the margin of the right token
over the best other one splits into these parts exactly:

    margin = sum over parts p of  (W[right] - W[other]) . gamma (p - mean p) / deviation   +   constant

It is what a part writes *directly*: a head whose output is read by a later layer has more effect than this says. Heads
of the encoder write into another stream, which reaches the logits only through cross-attention; for them it is not
defined, and neither is it for post-norm models, whose stream is not a sum, nor for classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from headway.callbacks import OnProgress
from headway.head_analysis.instrument import OneStep, Subject
from headway.narration.numbers import fixed, number, signed, with_interval
from headway.narration.text import Text, code, join, text
from headway.results.analyses import Bar, Bars, Finding
from headway.results.schema import Interval, count, fact

if TYPE_CHECKING:  # a report reads what was found without torch
    import numpy as np
    from jaxtyping import Float, Int
    from torch import Tensor, nn

    from headway.evaluation import Trained
    from headway.model.sites import HeadSite
    from headway.model.transformer import Transformer
    from headway.tasks import Examples

    Written = Float[Tensor, "batch prefix d_model"]
    Note = Callable[[Tensor, Tensor], None]

EMBEDDING, CONSTANT, STREAM, BIAS = "embedding", "constant", "stream", ".bias"
ROUNDING = 1e-3
"""By how many logits the parts may fail to sum to the margin; rounding errors in fp32 are ten times smaller."""
NAMED = 3
"""How many heads and MLPs the sentences name."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one part of the model writes into the margin."""

    part: str = fact("a head such as dec1.cross.h2, an MLP such as dec1.mlp, the embedding, or the constant")
    value: float = fact("mean contribution to the margin", unit="logits")
    interval: Interval = fact("95 % interval of the mean over examples", unit="logits")


@dataclass(frozen=True, kw_only=True)
class Attribution(Finding):
    """The margin of the right answer, at the token where it is smallest, split into the parts that write it."""

    title: ClassVar[str] = "What heads write directly"
    n: int = count("examples")
    margin: float = fact("mean margin of the right token over the best other one", unit="logits")
    parts: tuple[Part, ...] = fact("the parts, in the order of computation; they sum to the margin")
    largest_error: float = fact(
        "largest difference between an example's margin and the sum of its parts", unit="logits"
    )
    not_defined: tuple[str, ...] = fact("heads for which it is not defined: those of the encoder")

    def largest(self, count: int) -> list[Part]:
        """The heads and MLPs that write most, for or against the right answer."""
        parts = [part for part in self.parts if part.part.startswith("dec")]
        return sorted(parts, key=lambda part: -abs(part.value))[:count]

    def sentences(self) -> list[Text]:
        """Which parts write the margin of the right answer, as sentences."""
        form = signed(partial(fixed, decimals=2))
        written = [
            text("{} {}", code(one.part), with_interval(one.value, one.interval, form)) for one in self.largest(NAMED)
        ]
        margin = number(self.margin, partial(fixed, decimals=2))
        return [
            text(
                "Heads and MLPs that write most of the margin of {} logits directly (n = {}): {}.",
                margin,
                number(self.n),
                join(", ", written),
            )
        ]

    def figure(self) -> Bars:
        return Bars(
            title="What each part of the decoder writes into the margin of the right answer",
            subtitle=f"they sum to {self.margin:.2f}, the mean over {self.n:,} examples; whiskers are 95 % intervals",
            unit="logits",
            bars=tuple(Bar(part.part, part.value, part.interval) for part in self.parts),
        )

    def doubts(self) -> list[str]:
        """The parts must sum to the margin, or one of them is missing."""
        if self.largest_error <= ROUNDING:
            return []
        return [f"the parts of the margin miss it by up to {self.largest_error:.2g} logits"]


class DirectLogitAttribution(OneStep["Attribution | None"]):
    """The part of the margin that each decoder head and MLP writes."""

    name, result = "attribution", Attribution

    def make(self, subject: Subject, progress: OnProgress) -> Attribution | None:
        return attribute(subject.trained, subject.examples)


def why_not_defined(trained: Trained) -> str:
    """Why a model's margin cannot be split into parts; empty if it can."""
    if trained.model.config.shape == "encoder":
        return "a classifier pools its encoder's output, and has no decoder that writes an answer"
    if trained.model.config.norm != "pre":
        return (
            "in a post-norm model the residual stream is normalised in every layer, and is no sum of what heads write"
        )
    return ""


def attribute(trained: Trained, examples: Examples) -> Attribution | None:
    """Split the margin of every example; None where that is not defined."""
    import numpy as np
    import torch

    from headway.evaluation import parts_of
    from headway.statistics import mean_interval

    if why_not_defined(trained):
        return None
    names: list[str] = []
    found = []
    with torch.inference_mode():
        for part in parts_of(examples, trained):
            names, values = _split(trained, part)
            found.append(values)
    margins, *columns = np.concatenate(found, axis=1)
    encoder = [str(head) for site in trained.model.sites if site.side == "encoder" for head in site.heads]
    return Attribution(
        n=len(examples),
        margin=float(margins.mean()),
        parts=tuple(
            Part(part=name, value=float(values.mean()), interval=mean_interval(values))
            for name, values in zip(names, columns, strict=True)
        ),
        largest_error=float(np.abs(margins - np.sum(columns, axis=0)).max()),
        not_defined=tuple(encoder),
    )


def _split(trained: Trained, examples: Examples) -> tuple[list[str], Float[np.ndarray, "part example"]]:
    """The margin of each example, and the contribution of each part, by name."""
    import torch
    from torch import nn

    from headway.batches import make_batch

    model = trained.model
    batch = make_batch(trained.task, model, examples, trained.device)
    answer = batch.target.shape[1]
    with _watched(model) as written:
        logits = model(batch.inputs)
    right, other, at, margins = _smallest_margin(logits, batch.target, trained.task.vocabulary.pad)
    rows = torch.arange(len(at), device=at.device)
    norm, readout = model.decoder_norm, model.readout
    assert isinstance(norm, nn.LayerNorm)
    deviation = (written.pop(STREAM)[:, -answer:][rows, at].var(-1, correction=0) + norm.eps).sqrt()
    direction = readout.weight[right] - readout.weight[other]
    reads = direction * norm.weight / deviation[:, None]

    def contribution(x: Written) -> Float[Tensor, " batch"]:
        here = x[:, -answer:][rows, at]  # the answer comes last, also where it follows its question
        return (reads * (here - here.mean(-1, keepdim=True))).sum(-1)

    values = {name: contribution(x) for name, x in written.items()}
    values[CONSTANT] = (direction * norm.bias).sum(-1) + readout.bias[right] - readout.bias[other]
    for name in [name for name in values if name.endswith(BIAS)]:
        values[CONSTANT] = values[CONSTANT] + values.pop(name)
    table = torch.stack([margins, *values.values()])
    return list(values), table.double().cpu().numpy()


def _smallest_margin(
    logits: Float[Tensor, "batch answer out"], target: Int[Tensor, "batch answer"], pad: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """At the token with the smallest margin: the right token, the best other one, the position and the margin."""
    import torch

    right = target.where(target != pad, 0)
    own = logits.gather(-1, right[..., None])[..., 0]
    best, other = logits.scatter(-1, right[..., None], -torch.inf).max(-1)
    margin = (own - best).where(target != pad, torch.inf)
    smallest, at = margin.min(-1)
    rows = torch.arange(len(logits), device=logits.device)
    return right[rows, at], other[rows, at], at, smallest


@contextmanager
def _watched(model: Transformer) -> Iterator[dict[str, Written]]:
    """The outputs of the embedding and of every decoder head, attention bias and MLP in one pass, and the
    final stream.
    """
    from headway.model.blocks import Block

    written: dict[str, Written] = {}
    with ExitStack() as hooks:

        def watch(module: nn.Module, note: Note) -> None:
            handle = module.register_forward_hook(lambda _, given, made: note(given[0], made))
            hooks.callback(handle.remove)

        # The decoder's embedding is the last; an encoder's comes before it.
        watch(model.dropout, lambda given, made: written.update({EMBEDDING: made}))
        for site in model.sites:
            if site.side == "decoder":
                block = model.decoder[site.layer]
                assert isinstance(block, Block)
                output = (block.cross if site.across else block.own).output  # type: ignore[union-attr]
                watch(output, partial(_note_heads, written, site, output))
        for layer, block in enumerate(model.decoder):
            assert isinstance(block, Block)
            watch(block.feed_forward, partial(_note_mlp, written, f"dec{layer}.mlp"))
        watch(model.decoder_norm, lambda given, made: written.update({STREAM: given}))
        yield written


def _note_mlp(written: dict[str, Written], name: str, given: Tensor, made: Tensor) -> None:
    written[name] = made


def _note_heads(written: dict[str, Written], site: HeadSite, output: nn.Linear, given: Tensor, made: Tensor) -> None:
    """Each head's output through its own slice of the output projection, and the projection's bias."""
    written[f"{site.name}{BIAS}"] = output.bias.expand_as(made)
    if site.kept:
        heads, slices = (x.unflatten(-1, (len(site.kept), -1)) for x in (given, output.weight))
        for place, head in enumerate(site.heads):
            written[str(head)] = heads[..., place, :] @ slices[:, place].T
