"""Every fault of the harness is found where it was planted, named as the first error, and nowhere else."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.batches import make_batch
from headway.diagnosis.examine import examine
from headway.tasks import Examples
from tests.diagnosis.small import first_error, found, run, subject

TASKS = ["addition", "sortedness"]


@pytest.mark.parametrize("task", TASKS)
def test_a_healthy_run_has_no_error_and_every_part_of_it_is_looked_at(task: str) -> None:
    diagnosis = examine(subject(task))
    assert diagnosis.errors == []
    assert {finding.about for finding in diagnosis.findings} == {"data", "harness", "instruments", "model"}


def test_a_position_that_the_loss_never_sees_is_named_with_what_it_costs() -> None:
    healthy = subject("addition")
    not_first = replace(healthy, loss_positions=lambda target: np.broadcast_to(np.arange(4) > 0, target.shape))
    finding = first_error(not_first)
    assert finding.check == "position-never-trained"
    assert "loss ignores column 2" in finding.evidence
    first = healthy.splits["test"].target[:, 0]
    assert finding.numbers["share_wrong"] == pytest.approx(min((first == 0).mean(), (first == 1).mean()))


def test_a_token_that_the_loss_skips_is_named() -> None:
    finding = first_error(subject("addition", loss_positions=lambda target: target != 0))
    assert (finding.check, finding.numbers["symbols"]) == ("position-never-trained", ["0"])


@pytest.mark.parametrize(
    ("column", "token", "where"),
    [(2, None, "any answer is right at column 0"), (None, 0, "where the right token is 0")],
)
def test_scoring_that_overlooks_a_place_or_a_token_is_caught(column: int | None, token: int | None, where: str) -> None:
    def score(predicted: np.ndarray, target: np.ndarray) -> np.ndarray:
        ignored = np.zeros(target.shape, dtype=bool) if column is None else np.arange(target.shape[1]) == column
        return np.asarray(((predicted == target) | ignored | (target == token)).all(1))

    finding = first_error(subject("addition", score=score))
    assert finding.check == "position-never-scored"
    assert where in finding.evidence


def test_scoring_that_accepts_a_wrong_class_is_caught() -> None:
    finding = first_error(subject("sortedness", score=lambda predicted, target: np.ones(len(target), dtype=bool)))
    assert (finding.check, finding.numbers["accepted"]) == ("position-never-scored", 60)


@pytest.mark.parametrize("task", TASKS)
def test_a_model_left_in_training_mode_is_called_so_first(task: str) -> None:
    trained, healthy = run(task)
    trained.model.train()
    try:
        finding = first_error(replace(healthy, training=trained.model.training))
    finally:
        trained.model.eval()
    assert finding.check == "dropout-on"
    assert "training mode" in finding.evidence


@pytest.mark.parametrize("task", TASKS)
def test_logits_that_are_no_numbers_are_the_first_error_and_the_diagnosis_is_still_json(task: str) -> None:
    healthy = subject(task)

    def forward(examples: Examples) -> Tensor:
        assert healthy.forward is not None
        return healthy.forward(examples).log()

    diagnosis = examine(replace(healthy, forward=forward))
    assert diagnosis.findings[0].check == "not-finite"
    assert json.loads(json.dumps(diagnosis.to_json(), allow_nan=False)) == diagnosis.to_json()


def test_noise_shows_even_where_nothing_says_training() -> None:
    healthy = subject("sortedness")
    calls = iter(range(1_000))

    def forward(examples: Examples) -> Tensor:
        assert healthy.forward is not None
        return healthy.forward(examples) + 0.1 * (next(calls) % 3)

    assert first_error(replace(healthy, forward=forward)).check == "dropout-on"


def test_a_decoder_that_reads_the_token_to_be_written_is_caught() -> None:
    healthy = subject("addition")

    def forward(examples: Examples) -> Tensor:
        assert healthy.forward is not None
        return healthy.forward(examples) + torch.nn.functional.one_hot(torch.from_numpy(examples.target), 14)

    finding = first_error(replace(healthy, forward=forward))
    assert finding.check == "sees-the-future"
    assert "Changing column 2 and what follows" in finding.evidence


def test_padding_that_is_seen_is_caught() -> None:
    trained, healthy = run("sortedness")

    @torch.inference_mode()
    def forward(examples: Examples) -> Tensor:
        inputs = make_batch(trained.task, trained.model, examples, trained.device).inputs
        return trained.model(replace(inputs, source_visible=None))

    finding = first_error(replace(healthy, forward=forward))
    assert finding.check == "padding-changes-output"
    assert finding.numbers["moved"] > 0.01


def test_a_wrong_cache_is_told_from_a_wrong_decoder() -> None:
    healthy = subject("addition")

    def decode(examples: Examples, cache: bool) -> np.ndarray:
        assert healthy.decode is not None
        written = healthy.decode(examples, cache)
        return np.roll(written, 1, axis=0) if cache else written

    wrong = examine(replace(healthy, decode=decode))
    assert wrong.findings[0].check == "cache-disagrees"
    assert "greedy-differs" not in [finding.check for finding in wrong.findings]


def test_decoding_that_parts_from_the_parallel_pass_is_located() -> None:
    healthy = subject("addition")

    def decode(examples: Examples, cache: bool) -> np.ndarray:
        assert healthy.decode is not None
        written = healthy.decode(examples, cache).copy()
        written[:, 0] = 0
        return written

    finding = first_error(replace(healthy, decode=decode))
    assert (finding.check, finding.numbers["position"]) == ("greedy-differs", "column 2")
    assert finding.numbers["greedy"] < finding.numbers["parallel"]


def test_answers_of_the_place_before_are_called_shifted() -> None:
    healthy = subject("addition")

    def forward(examples: Examples) -> Tensor:
        before = np.pad(examples.target[:, :-1], ((0, 0), (1, 0)))
        return 9.0 * torch.nn.functional.one_hot(torch.from_numpy(before), 14)

    finding = found(replace(healthy, forward=forward), "answers-shifted")
    assert (finding.level, finding.numbers["which"], finding.numbers["neighbour"]) == ("error", "before", 1.0)


@pytest.mark.parametrize("task", TASKS)
def test_a_checkpoint_that_the_metrics_do_not_speak_of_is_caught(task: str) -> None:
    healthy = subject(task)
    told = [
        {**row, "validation": {"loss": 0.9, "accuracy": 0.1}} if "validation" in row else row for row in healthy.metrics
    ]
    finding = first_error(replace(healthy, metrics=told))
    assert finding.check == "checkpoint-mismatch"
    assert "say 0.9 and 10 %" in finding.evidence


@pytest.mark.parametrize(("examples", "level"), [(2, "fine"), (3, "error")])
def test_two_near_ties_may_fall_otherwise_on_another_device(examples: int, level: str) -> None:
    healthy = subject("addition")
    assert len(healthy.splits["validation"]) == 40
    told = [
        {**row, "validation": {**row["validation"], "accuracy": row["validation"]["accuracy"] + examples / 40}}
        if "validation" in row
        else row
        for row in healthy.metrics
    ]
    assert found(replace(healthy, metrics=told), "checkpoint-mismatch").level == level


def test_a_step_without_a_validation_is_a_warning() -> None:
    finding = found(subject("addition", step=7), "checkpoint-mismatch")
    assert (finding.level, finding.numbers) == ("warning", {"step": 7})


def test_what_a_check_needs_and_is_not_there_leaves_it_out() -> None:
    healthy = subject(
        "addition", forward=None, decode=None, attention=None, fired=None, partial_forward=None, masked=None
    )
    names = {finding.check for finding in examine(healthy).findings}
    assert "split-overlap" in names
    assert not names & {
        "greedy-differs",
        "cache-disagrees",
        "dropout-on",
        "hook-silent",
        "constant-answer",
        "memorised",
    }
