"""headway's own model, written as somebody else would, has the heads table that headway gives it."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from headway.attached_analysis.attached_runs import AttachedRuns
from headway.attached_analysis.examples import IGNORED, ModelExamples, read_data
from headway.attached_analysis.metrics import find_metric
from headway.attached_analysis.token_scores import score_heads
from headway.attachment.attached import attach
from headway.batches import make_batch
from headway.evaluation import Trained, load
from headway.head_analysis import scores
from headway.head_analysis.ablation import ablate
from headway.head_analysis.head_runs import TrainedRuns
from headway.head_analysis.instrument import Clock
from headway.head_analysis.joint import ablate_jointly
from headway.results.schema import write
from headway.training import train
from tests.attached_analysis.ported import Course, Ported, bridged
from tests.head_analysis.small import HALF_TRAINED
from tests.tiny import config

N = 90
SIZES = {"elimination": 40, "shapley": 30, "all_heads": 20, "pairs": 30, "permutations": 4}
PORTS = {"nn.Transformer": Ported, "course": Course}
REALS = 1e-5
"""Attention is summed in another order there."""


@cache
def trained_model(shape: str = "encoder-decoder") -> Trained:
    base, tables = HALF_TRAINED["addition"]
    model = {**tables["model"], "d_head": 16}  # nn.Transformer has heads of d_model / n_heads only
    if shape == "decoder":
        model |= {"shape": "decoder", "encoder_layers": 0, "decoder_layers": 2}
    with TemporaryDirectory() as folder:
        train(config(base, **{**tables, "model": model}), Path(folder) / "run", device="cpu")
        return load(Path(folder) / "run", device="cpu")


def examples_of(trained: Trained) -> ModelExamples:
    examples = trained.examples("test").take(slice(0, N))
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    assert batch.inputs.prefix is not None
    return read_data((batch.inputs.source, batch.inputs.prefix, batch.target))


def joined_examples_of(trained: Trained) -> ModelExamples:
    """For a decoder-only model: source and prefix are one text, and only the answer is scored."""
    examples = trained.examples("test").take(slice(0, N))
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    assert batch.inputs.prefix is not None
    source = torch.full_like(batch.inputs.source, IGNORED)
    return read_data((torch.cat([batch.inputs.source, batch.inputs.prefix], 1), torch.cat([source, batch.target], 1)))


def assert_alike(found: Any, expected: Any, path: str = "") -> None:
    """Equal, but for numbers with a fraction, which may differ by rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for key in expected:
            assert_alike(found[key], expected[key], f"{path}/{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), path
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_alike(one, other, f"{path}/{place}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=REALS, abs=REALS), path
    else:
        assert found == expected, path


@pytest.mark.parametrize("name", PORTS)
def test_a_port_has_the_native_table(name: str) -> None:
    trained = trained_model()
    runs = AttachedRuns(
        attach(PORTS[name](trained).eval()), examples_of(trained), find_metric("accuracy"), trained.config.data.seed
    )
    native = TrainedRuns(trained, trained.examples("test").take(slice(0, N)))
    assert [str(head) for site in runs.sites for head in site.heads] == [
        str(head) for site in native.sites for head in site.heads
    ]
    runs.answer_names = native.answer_names  # type: ignore[method-assign]
    assert_same_table(runs, native)


def assert_same_table(runs: AttachedRuns, native: TrainedRuns) -> None:
    found, expected = ablate(runs), ablate(native)
    assert 0.1 < expected.baseline.accuracy < 1 and len({*expected.verdicts.values()}) > 1
    assert found.verdicts == expected.verdicts
    for kind, drops in expected.drops.items():
        for head, drop in drops.items():
            assert_alike(write(found.drops[kind][head]), write(drop), f"{kind} {head}")
    assert_alike(write(found.baseline), write(expected.baseline))


def test_sets_pairs_and_shapley_values_of_a_port_are_the_native_ones() -> None:
    trained = trained_model()
    runs = AttachedRuns(
        attach(Ported(trained).eval()), examples_of(trained), find_metric("accuracy"), trained.config.data.seed
    )
    native = TrainedRuns(trained, trained.examples("test").take(slice(0, N)))
    silent = Clock(lambda part, done, total: None)
    assert_alike(write(ablate_jointly(runs, SIZES, silent)), write(ablate_jointly(native, SIZES, silent)))


@pytest.mark.parametrize("name", PORTS)
def test_scores_of_a_port_are_the_native_ones(name: str) -> None:
    trained = trained_model()
    found = score_heads(attach(PORTS[name](trained).eval()), examples_of(trained)).means
    expected = scores.score_heads(trained, trained.examples("test").take(slice(0, N))).means
    assert found.keys() == expected.keys()
    shared = ("entropy", "entropy_share", "sparsity", "self_token", "previous_token", "distance")
    for head in expected:
        assert_alike({one: found[head][one] for one in shared}, {one: expected[head][one] for one in shared}, head)


def test_the_ports_compute_what_headway_computes() -> None:
    trained = trained_model()
    examples = trained.examples("test").take(slice(0, 20))
    inputs = make_batch(trained.task, trained.model, examples, trained.device).inputs
    assert inputs.prefix is not None
    with torch.no_grad():
        expected = trained.model(inputs)
        for port in PORTS.values():
            assert port(trained).eval()(inputs.source, inputs.prefix).numpy() == pytest.approx(
                expected.numpy(), abs=1e-4
            )
    assert np.isfinite(expected.numpy()).all()


def test_a_transformer_bridge_has_the_native_table() -> None:
    """headway's decoder-only form; the bridge scores the positions of the answer, among others that do not count."""
    trained = trained_model("decoder")
    attached, examples = attach(bridged(trained)), joined_examples_of(trained)
    runs = AttachedRuns(attached, examples, find_metric("accuracy"), trained.config.data.seed)
    native = TrainedRuns(trained, trained.examples("test").take(slice(0, N)))
    assert type(attached.model).__name__ == "TransformerBridge"
    assert [str(head) for site in runs.sites for head in site.heads] == [
        str(head) for site in native.sites for head in site.heads
    ]
    question = trained.examples("test").source.shape[1]  # its tokens come before those of the answer
    runs.answer_names = lambda width: [  # type: ignore[method-assign]
        *map(str, range(question)),
        *native.answer_names(width - question),
    ]
    assert_same_table(runs, native)
    silent = Clock(lambda part, done, total: None)
    assert_alike(write(ablate_jointly(runs, SIZES, silent)), write(ablate_jointly(native, SIZES, silent)))
