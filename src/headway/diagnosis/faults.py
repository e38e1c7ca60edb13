"""Small healthy runs, and ways to plant faults in them: other weights, another loss, another mask.

A fault is planted where it would be in a real program. The rest of the subject stays consistent with it: a model with
other weights is measured again, so that its metrics are its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.batches import Batch, make_batch
from headway.callbacks import MetricsRow, Validation
from headway.config import RunConfig, build
from headway.diagnosis.subject import Subject, subject_of
from headway.evaluation import Trained, load
from headway.head_analysis.variants import heads_of
from headway.model.attention import Visibility
from headway.model.transformer import Inputs, Memory, Transformer
from headway.results.doctor import Finding, SpecimenDiagnosis
from headway.results.heads import Drop, Head, HeadAnalysis
from headway.results.schema import blank
from headway.tasks import Examples
from headway.training import train

SUMS: dict[str, Any] = {
    "task": {"name": "addition", "digits": 2},
    "data": {"train": 600, "validation": 60, "test": 120},
    "model": {"d_model": 24, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0},
    "train": {"steps": 48, "batch_size": 32, "validate_every": 24, "lr": 0.01},
}
SEQUENCES: dict[str, Any] = {
    "task": {"name": "sortedness", "min_length": 4, "max_length": 7, "values": 20},
    "data": {"train": 600, "validation": 60, "test": 120},
    "model": {
        "shape": "encoder",
        "d_model": 20,
        "n_heads": 2,
        "d_ff": 24,
        "encoder_layers": 1,
        "dropout": 0.1,
        "encoding": {"name": "learned", "table_size": 7},
    },
    "train": {"steps": 60, "batch_size": 32, "validate_every": 30, "lr": 0.01},
}
DEEP: dict[str, Any] = {**SEQUENCES, "model": {**SEQUENCES["model"], "encoder_layers": 2}}
SHORT: dict[str, Any] = {
    "task": {"name": "sortedness", "min_length": 2, "max_length": 3, "values": 20},
    "data": {"train": 1_500, "validation": 100, "test": 200},
    "model": {**SEQUENCES["model"], "d_model": 24, "dropout": 0.0},
    "train": {"steps": 150, "batch_size": 64, "validate_every": 75, "lr": 0.02},
}
RECIPES = {"sums": SUMS, "sequences": SEQUENCES, "deep": DEEP, "short": SHORT}

LossOf = Callable[[Transformer, Batch], Tensor]


@dataclass(frozen=True)
class Healthy:
    """Trained runs without faults."""

    sums: Trained
    sequences: Trained
    deep: Trained
    """Two layers, so that layers can be exchanged."""
    short: Trained
    """So easy that it is learned: 98 % right."""


@dataclass(frozen=True)
class Specimen:
    """A planted fault: its description, the check that must be its first error, and errors that may follow from it."""

    name: str
    wrong: str
    expected: str
    build: Callable[[Healthy], Subject]
    follows: tuple[str, ...]

    def diagnosed(self, findings: tuple[Finding, ...]) -> SpecimenDiagnosis:
        """The specimen with the doctor's findings."""
        return SpecimenDiagnosis(
            name=self.name, wrong=self.wrong, expected=self.expected, follows=self.follows, findings=findings
        )


def specimen(expected: str, *follows: str) -> Callable[[Callable[[Healthy], Subject]], Specimen]:
    """A decorator that turns a function into a specimen. The first paragraph of its docstring describes the fault."""

    def enter(build: Callable[[Healthy], Subject]) -> Specimen:
        wrong = " ".join((build.__doc__ or "").split("\n\n")[0].split())
        return Specimen(build.__name__.replace("_", "-"), wrong, expected, build, follows)

    return enter


@contextmanager
def healthy_runs() -> Iterator[Healthy]:
    """Train the runs in a temporary directory; they have learned a little and have no fault."""
    with TemporaryDirectory() as folder:
        opened = []
        for name, recipe in RECIPES.items():
            path = Path(folder) / name
            train(build(RunConfig, {**recipe, "seed": 0}, ""), path, device="cpu")
            opened.append(load(path, device="cpu"))
        yield Healthy(*opened)


def changed(trained: Trained, change: Callable[[Transformer], object]) -> Trained:
    """The run with a changed copy of its model."""
    model = deepcopy(trained.model)
    with torch.no_grad():
        change(model)
    return replace(trained, model=model)


def altered(trained: Trained, change: Callable[[Transformer], object]) -> Subject:
    """The run with a changed copy of its model, measured again."""
    return measured_again(subject_of(changed(trained, change)))


def measured_again(subject: Subject) -> Subject:
    """The subject with metrics recomputed at its step from its own pass and scoring."""
    assert subject.forward is not None
    examples = subject.splits["validation"]
    logits, target = subject.forward(examples), torch.from_numpy(examples.target)
    loss = F.cross_entropy(logits.flatten(0, -2), target.flatten(), ignore_index=subject.task.vocabulary.pad)
    accuracy = subject.score(logits.argmax(-1).numpy(), examples.target).mean()
    told: Validation = {"loss": float(loss), "accuracy": float(accuracy)}
    rows: list[MetricsRow] = [
        {**row, "validation": told} if row.get("step") == subject.step and "validation" in row else row
        for row in subject.metrics
    ]
    return replace(subject, metrics=rows)


def without_instruments(subject: Subject) -> Subject:
    """The subject without any instruments: only its forward pass."""
    return replace(subject, attention=None, fired=None, partial_forward=None, silenced=None, mixing=None)


def analysed(trained: Trained) -> HeadAnalysis:
    """A heads.json of this model and step without any remarkable result."""
    heads = []
    for place, head in enumerate(heads_of(trained)):
        drop = 10.0 * (place + 1)
        ablation = {"zero": blank(Drop, drop=drop, interval=(drop - 2, drop + 2))}
        kind = next(site.kind for site in trained.model.sites if site.name == head.site)
        heads.append(blank(Head, name=str(head), kind=kind, verdict="important", ablation=ablation))
    return blank(
        HeadAnalysis,
        run=str(trained.directory.path),
        step=trained.step,
        task=trained.task.name,
        seed=trained.config.seed,
        n=120,
        heads=tuple(heads),
    )


def taught(
    trained: Trained, loss_of: LossOf, steps: int, examples: Examples | None = None, lr: float = 0.02
) -> Trained:
    """The run trained further with a custom loss, on its training split or on other examples."""
    shown = trained.examples("train") if examples is None else examples
    return changed(trained, lambda model: _teach(trained, model, loss_of, shown, steps, lr))


def _teach(trained: Trained, model: Transformer, loss_of: LossOf, examples: Examples, steps: int, lr: float) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr)
    random = np.random.default_rng(0)
    with torch.enable_grad():
        for _ in range(steps):
            some = examples.take(random.choice(len(examples), min(32, len(examples)), replace=False))
            loss = loss_of(model, make_batch(trained.task, model, some, trained.device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def plain_loss(model: Transformer, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch.inputs).flatten(0, -2), batch.target.flatten())


def batch_of(trained: Trained, examples: Examples) -> Batch:
    return make_batch(trained.task, trained.model, examples, trained.device, cut=False)


def without_start(inputs: Inputs) -> Inputs:
    """The same inputs with the answer's first token in place of the start token."""
    assert inputs.prefix is not None and inputs.prefix_positions is not None
    return replace(inputs, prefix=inputs.prefix[:, 1:], prefix_positions=inputs.prefix_positions[:, :-1])


class SeesOneMore(Visibility):
    """A causal mask that is off by one: a query sees the key after it."""

    def mask(self, queries: range, n_queries: int, n_keys: int, device: torch.device) -> Tensor | None:
        return super().mask(range(queries.start + 1, queries.stop + 1), n_queries, n_keys, device)


@torch.inference_mode()
def pass_with_future(trained: Trained, examples: Examples) -> Tensor:
    """The model's forward pass with the decoder's causal mask off by one."""
    model, inputs = trained.model, batch_of(trained, examples).inputs
    inputs = model.placed(inputs)
    memory = Memory(model.encode(inputs), [])
    x, own, across = model.decoder_start(inputs)
    own = replace(own, visibility=SeesOneMore(own.visibility.keys, causal=True))
    for index, block in enumerate(model.decoder):
        x = block(x, own, across, memory.encoded, None, None, f"decoder.{index}")
    return model.read_out(x)


@torch.inference_mode()
def pass_with_padding(trained: Trained, examples: Examples) -> Tensor:
    """The model's forward pass with padding visible."""
    logits: Tensor = trained.model(replace(batch_of(trained, examples).inputs, source_visible=None))
    return logits
