"""Attention weights and head outputs, example by example during greedy decoding, and their mean over a split."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.evaluation import Trained, decode, parts_of
from headway.head_analysis.handles import intervene
from headway.head_analysis.instrument import OneStep, Subject
from headway.head_analysis.variants import lengths_of
from headway.model.sites import Head, HeadSite
from headway.model.transformer import Inputs
from headway.results import attention
from headway.results.attention import ExampleAttention, MeanAttention, Weights
from headway.tasks import Examples
from headway.tasks.splits import Split

DECIMALS = 4
LONGEST_SHOWN = 64
"""Longest example, in tokens, whose weights are stored with the analysis; longer ones can be captured from Python."""
MOST_MAPS = 16
"""The most examples whose attention can be stored with an analysis."""


class Capturing(OneStep[attention.Capture]):
    """Every head's weights on some examples, and their mean over those of one layout."""

    name, result = "capture", attention.Capture

    def make(self, subject: Subject, progress: OnProgress) -> attention.Capture:
        """Where the layouts of examples differ, the mean is taken over the whole split."""
        trained, examples = subject.trained, subject.examples
        captured = capture_examples(trained, examples, subject.maps)
        if len(commonest_layout(trained, examples)) < len(examples) and subject.split != "all":
            examples = trained.examples(cast(Split, subject.split))
        return attention.Capture(
            decimals=DECIMALS,
            class_names=trained.task.class_names() or None,
            examples=captured,
            mean=mean_weights(trained, examples),
        )


def capture_examples(trained: Trained, examples: Examples, maps: int) -> tuple[ExampleAttention, ...]:
    """Attention on the first `maps` examples while they are decoded; examples that are too long to show are left
    out.
    """
    if not 1 <= maps <= MOST_MAPS:
        raise InputError(f"attention maps of {maps} examples; 1 to {MOST_MAPS} can be kept")
    shown = [found.result() for found in capture(trained, examples.take(slice(0, maps)))]
    return tuple(one for one in shown if max(len(one.source), len(one.prefix)) <= LONGEST_SHOWN)


@dataclass(frozen=True)
class Capture:
    """One example: its tokens, the model's answer, and every head's weights and outputs during decoding.

    Queries of a decoder are the prefix tokens: BOS writes the first answer token. In a decoder-only model the
    source stands before the prefix in one row.
    """

    source: list[str]
    target: list[str]
    written: list[str]
    prefix: list[str]
    weights: dict[str, Float[np.ndarray, "query key"]]
    outputs: dict[str, Float[np.ndarray, "query d_head"]]

    def result(self) -> ExampleAttention:
        """The part for heads.json: rounded, without outputs."""
        return ExampleAttention(
            source=tuple(self.source),
            target=tuple(self.target),
            generated=tuple(self.written),
            prefix=tuple(self.prefix),
            weights={head: rounded(table) for head, table in self.weights.items()},
        )


def rounded(table: np.ndarray) -> Weights:
    return tuple(tuple(round(float(cell), DECIMALS) for cell in row) for row in table)


def capture(trained: Trained, examples: Examples) -> list[Capture]:
    """Decode each example greedily, and record every head on exactly what the model read and wrote.

    A decoder's step sees only the tokens before it, so one recorded pass over the written answer holds the weights
    of every step; `tests/head_analysis/test_capture.py` compares it with recording step by step.
    """
    return [_capture_one(trained, examples.take([row])) for row in range(len(examples))]


@torch.inference_mode()
def _capture_one(trained: Trained, example: Examples) -> Capture:
    task = trained.task
    batch = _batch(trained, example)
    inputs = batch.inputs
    if task.kind == "class":
        answer = [str(int(trained.model(inputs).argmax(-1)))]
        target, prefix = [str(int(example.target[0]))], []
    else:
        written = decode(trained.model, task, batch)[0].tolist()
        read = [task.vocabulary.bos, *written[:-1]]
        # A wrong answer may hold any token, padding and BOS too.
        answer, prefix = ([task.vocabulary.tokens[token] for token in row] for row in (written, read))
        target, inputs = _names(trained, example.target[0]), _with_prefix(trained, inputs, read)
    weights, outputs = record_heads(trained, inputs)
    return Capture(_names(trained, example.source[0]), target, answer, prefix, weights, outputs)


def _with_prefix(trained: Trained, inputs: Inputs, prefix: list[Any]) -> Inputs:
    """The same source, followed by the part of its own answer that the model had read."""
    tokens = inputs.source.new_tensor([prefix])
    places, prefix_places = trained.task.positions(trained.model.encoding.position_kind, inputs.source, tokens)
    return Inputs(inputs.source, places, inputs.source_visible, tokens, prefix_places)


def _batch(trained: Trained, examples: Examples) -> Any:
    return make_batch(trained.task, trained.model, examples, trained.device)


def _names(trained: Trained, tokens: np.ndarray) -> list[str]:
    vocabulary = trained.task.vocabulary
    return [vocabulary.tokens[token] for token in tokens if token != vocabulary.pad]


def record_heads(trained: Trained, inputs: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Weights and outputs of every head in one pass over one example."""
    record: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    edits = {site.name: _note(outputs, site.name) for site in trained.model.sites if site.kept}
    with intervene(trained.model, edits):
        trained.model(inputs, record)
    weights_by_head = _by_head(trained.model.sites, {name: table[0] for name, table in record.items()})
    outputs_by_head = _by_head(trained.model.sites, {name: table[0].transpose(0, 1) for name, table in outputs.items()})
    return weights_by_head, outputs_by_head


def _note(outputs: dict[str, Tensor], name: str) -> Any:
    def edit(heads: Tensor) -> Tensor:
        outputs[name] = heads
        return heads

    return edit


def _by_head(sites: list[HeadSite], tables: dict[str, Tensor]) -> dict[str, np.ndarray]:
    return {
        str(Head(site.name, index)): tables[site.name][place].cpu().numpy()
        for site in sites
        for place, index in enumerate(site.kept)
    }


@torch.inference_mode()
def mean_weights(trained: Trained, examples: Examples) -> MeanAttention | None:
    """The mean weights of every head over the examples of the commonest layout; None if those are too long to show.

    They come from the teacher-forced pass over the right answers. `alike` describes the common layout, if not all
    examples have it.
    """
    rows = commonest_layout(trained, examples)
    chosen = examples.take(rows)
    sums: dict[str, Tensor] = {}
    for piece in parts_of(chosen, trained):
        record: dict[str, Tensor] = {}
        inputs = _batch(trained, piece).inputs
        trained.model(inputs, record)
        for name, table in record.items():
            sums[name] = sums.get(name, torch.zeros(())).to(table.device) + table.double().sum(0)
    width = inputs.source.shape[1]
    answer = 0 if inputs.prefix is None else inputs.prefix.shape[1]
    if max(width, answer) > LONGEST_SHOWN:
        return None
    tables = _by_head(trained.model.sites, {name: table / len(chosen) for name, table in sums.items()})
    source, names = place_names(trained, chosen.source[0, :width]), answer_names(trained, answer)
    bos = trained.task.vocabulary.tokens[trained.task.vocabulary.bos or 0]
    return MeanAttention(
        n=len(chosen),
        alike=None if len(rows) == len(examples) else in_common(source, names),
        source=tuple(source),
        prefix=(bos, *names[:-1]) if answer else (),
        generated=tuple(names),
        weights={head: rounded(table) for head, table in tables.items()},
    )


def commonest_layout(trained: Trained, examples: Examples) -> np.ndarray:
    """The rows with the most frequent layout: the same lengths, and signs at the same positions."""
    layout = np.concatenate([lengths_of(trained, examples), is_sign(trained)[examples.source]], axis=1)
    _, group, counts = np.unique(layout, axis=0, return_inverse=True, return_counts=True)
    return np.flatnonzero(group.reshape(-1) == counts.argmax())


def is_sign(trained: Trained) -> np.ndarray:
    """For each token whether it is a sign such as + or a space, and not a digit, an element or a special token."""
    return np.array([not token.isalnum() for token in trained.task.vocabulary.tokens])


def place_names(trained: Trained, source: np.ndarray) -> list[str]:
    """`a2`, `a1`, `a0`, `+`, `b1`, `b0` where signs separate numbers; otherwise the task's own names of positions."""
    signs = is_sign(trained)[source]
    if not signs.any():
        return trained.task.token_names(len(source))
    names, letter = [], 0
    for place, token in enumerate(source):
        if signs[place]:
            names.append(trained.task.vocabulary.tokens[token])
            letter += bool(place and not signs[place - 1])
        else:
            rest = signs[place:]
            names.append(f"{'abcdefgh'[letter % 8]}{(int(rest.argmax()) if rest.any() else len(rest)) - 1}")
    return names


def answer_names(trained: Trained, width: int) -> list[str]:
    """The task's names of answer tokens. If all answers have the same length, the last one is named `end`."""
    names = trained.task.answer_names(width) if width else []
    return [*names[:-1], "end"] if names and trained.task.vocabulary.eos is not None else names


def in_common(source: list[str], answer: list[str]) -> str:
    """`9 + 4 digits, sum of 10`, or `12 tokens`."""
    numbers = [name for name in source if name[0].isalpha()]
    counts = [sum(name.startswith(letter) for name in numbers) for letter in sorted({name[0] for name in numbers})]
    return f"{' + '.join(map(str, counts))} digits, sum of {len(answer) - 1}" if counts else f"{len(source)} tokens"
