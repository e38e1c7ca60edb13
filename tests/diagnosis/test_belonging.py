"""Weights, steps and analyses that are not this run's; and faults that only a second look shows: one planted each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.diagnosis.examine import examine
from headway.diagnosis.findings import Finding
from headway.diagnosis.subject import subject_of
from headway.evaluation import load
from headway.length_analysis.measure import ON_VALIDATION
from headway.results.heads import HeadAnalysis
from headway.results.lengths import Checkpoint
from headway.tasks import Examples
from headway.training import train
from tests.diagnosis.small import first_error, found, run, subject
from tests.results.made_up import length_row, lengths_of
from tests.results.made_up_values import typed
from tests.tiny import SORTEDNESS, config

NEW = (
    "another-seed",
    "another-step",
    "weights-of-another-run",
    "heads-alike",
    "loss-not-explained",
    "tokens-exchanged",
)
NEW += ("measured-on-training", "sorted-sample", "hook-misplaced", "sweep-misplaced", "map-misplaced")


@pytest.mark.parametrize("task", ["addition", "sortedness"])
def test_they_look_at_a_healthy_run_and_find_nothing(task: str) -> None:
    levels = {finding.check: finding.level for finding in examine(run(task)[1]).findings}
    assert {check: levels.get(check) for check in NEW} == dict.fromkeys(NEW, "fine")


def test_initial_weights_of_another_seed_are_named_with_it() -> None:
    healthy = subject("addition")
    assert healthy.initialised is not None
    finding = first_error(replace(healthy, initial=healthy.initialised(7)))
    assert (finding.check, finding.numbers["weights_of"]) == ("another-seed", 7)
    assert found(replace(healthy, initial=healthy.initialised(4_321)), "another-seed").level == "warning"
    assert found(replace(healthy, provenance_seed=9), "another-seed").level == "error"


def test_a_checkpoint_under_another_step_is_named() -> None:
    finding = first_error(subject("addition", recorded_step=12))
    assert (finding.check, finding.numbers["recorded"]) == ("another-step", 12)


def test_weights_that_did_not_grow_out_of_the_initial_ones_are_named() -> None:
    healthy = subject("addition")
    assert healthy.initialised is not None and healthy.weights is not None
    other = healthy.initialised(3)
    finding = found(replace(healthy, weights={name: other[name] for name in healthy.weights}), "weights-of-another-run")
    assert finding.level == "error"
    assert abs(finding.numbers["correlation"]) < 0.05


def document(**changes: Any) -> HeadAnalysis:
    healthy = subject("addition")
    rows = [{"head": str(head), "kind": "decoder"} for site in healthy.sites for head in site.heads]
    about = {"seed": healthy.seed, "task": "addition", "step": healthy.step, "n": 60, "heads": rows}
    form = changes.pop("form", 1)
    return replace(typed(about | changes), form=form)


def of_analysis(**documents: Any) -> Finding:
    return found(subject("addition", **documents), "analysis-of-another-run")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 77}, "heads.json is of seed 77"),
        ({"task": "sortedness"}, "heads.json is of task 'sortedness'"),
        ({"form": 9}, "has form 9, and this version reads 1"),
        ({"step": 81}, "is of step 81, which this run never validated"),
        ({"heads": [{"head": "enc7.self.h0"}]}, "have different heads"),
        ({"split": "test", "baseline": {"exact_match": 1.0}, "n": 5_000}, "a baseline accuracy of 100 %"),
    ],
)
def test_an_analysis_of_another_run_is_an_error(changes: dict[str, Any], words: str) -> None:
    assert of_analysis(heads=document()).level == "fine"
    finding = of_analysis(heads=document(**changes))
    assert finding.level == "error"
    assert words in finding.evidence


def test_an_analysis_of_another_checkpoint_of_the_run_is_a_warning() -> None:
    healthy = subject("addition")
    other = next(row["step"] for row in healthy.metrics if "validation" in row and row["step"] != healthy.best)
    assert of_analysis(heads=document(step=other)).level == "warning"
    assert healthy.seed is not None
    curve = lengths_of([length_row(32)], task="addition", seed=healthy.seed)
    chosen, asked = (Checkpoint(step=other, chosen_on=why) for why in (ON_VALIDATION, "asked for"))
    assert "validation chose step" in of_analysis(lengths=replace(curve, checkpoint=chosen)).evidence
    assert of_analysis(lengths=replace(curve, checkpoint=asked)).level == "fine"
    assert "lengths.json is of seed 77" in of_analysis(lengths=replace(curve, checkpoint=asked, seed=77)).evidence


def test_a_baseline_on_few_examples_may_be_far_from_validation_by_chance() -> None:
    """40 points: five standard errors of 40 fair coins, 40 points, are added to the 15 that are allowed."""
    healthy = subject("addition")
    rows = [row for row in healthy.metrics if "validation" in row and row["step"] == healthy.step]
    told = rows[-1]["validation"]["accuracy"]
    share = told + 0.4 if told < 0.5 else told - 0.4
    levels = [
        of_analysis(heads=document(split="test", baseline={"exact_match": share}, n=n)).level for n in (40, 5_000)
    ]
    assert levels == ["fine", "error"]


def test_one_table_of_large_numbers_does_not_decide_where_weights_come_from() -> None:
    """All weights are of another seed, except for one table of at most a twentieth of the numbers, times 1,000."""
    healthy = subject("addition")
    assert healthy.initialised is not None and healthy.initial is not None and healthy.weights is not None
    name, other = "readout.weight", healthy.initialised(3)
    sizes = {key: table.numel() for key, table in healthy.weights.items() if table.ndim > 1}
    assert sizes[name] < 0.05 * sum(sizes.values())
    large = 1_000 * healthy.initial[name]
    weights = {**{key: other[key] for key in healthy.weights}, name: large}
    initial = {**healthy.initial, name: large}
    assert found(replace(healthy, weights=weights, initial=initial), "weights-of-another-run").level == "error"


def test_metrics_that_fit_training_are_not_doubted_where_training_is_no_better() -> None:
    """No answer is right anywhere; on known examples the model is only surer of the wrong one."""
    healthy = subject("addition")
    train = healthy.splits["train"]
    known = {row.tobytes() for row in train.source}

    def forward(examples: Examples) -> torch.Tensor:
        sure = torch.tensor([20.0 if row.tobytes() in known else 10.0 for row in examples.source])
        return sure[:, None, None] * torch.nn.functional.one_hot(torch.full(examples.target.shape, 10), 14)

    loss = torch.nn.functional.cross_entropy(forward(train).flatten(0, -2), torch.from_numpy(train.target).flatten())
    told = {"loss": float(loss), "accuracy": 0.0}
    rows = [{**row, "validation": told} if "validation" in row else row for row in healthy.metrics]
    finding = found(replace(healthy, forward=forward, metrics=rows), "measured-on-training")
    assert finding.numbers["train_loss"] == pytest.approx(told["loss"])
    assert finding.numbers["validation_loss"] < 0.6 * told["loss"]
    assert finding.level == "fine"


def test_heads_with_the_same_weights_are_named_within_a_site_and_across() -> None:
    healthy = subject("addition")
    assert healthy.weights is not None
    width = healthy.weights["encoder.0.own.query.weight"].shape[0] // len(healthy.sites[0].kept)
    weights = {name: tensor.clone() for name, tensor in healthy.weights.items()}
    for part in ("query", "key", "value"):
        rows = weights[f"encoder.0.own.{part}.weight"]
        rows[width : 2 * width] = rows[:width]
        weights[f"decoder.0.own.{part}.weight"][:width] = rows[:width]
    finding = found(replace(healthy, weights=weights), "heads-alike")
    pairs = [["enc0.self.h0", "enc0.self.h1"], ["enc0.self.h0", "dec0.self.h0"], ["enc0.self.h1", "dec0.self.h0"]]
    assert (finding.level, finding.numbers["twins"]) == ("error", pairs)


def test_a_training_loss_that_the_weights_do_not_give_is_an_error() -> None:
    healthy = subject("sortedness")
    own = found(healthy, "loss-not-explained")
    assert own.numbers["recorded"] == pytest.approx(own.numbers["expected"], rel=0.1)
    raised = [{**row, "loss": 1.6 * row["loss"]} if "loss" in row else row for row in healthy.metrics]
    assert first_error(replace(healthy, metrics=raised)).check == "loss-not-explained"
    only_late = [
        {**row, "loss": 1.6 * row["loss"]} if row["step"] > 1 and "loss" in row else row for row in healthy.metrics
    ]
    stopped_while_learning = found(replace(healthy, metrics=only_late), "loss-not-explained")
    assert (stopped_while_learning.level, stopped_while_learning.numbers["first_agrees"]) == ("fine", True)


@pytest.mark.parametrize(("before", "after", "level"), [(5.0, 1.0, "fine"), (1.0, 2.0, "error")])
def test_recorded_losses_after_the_checkpoint_are_compared_where_there_are_some(
    before: float, after: float, level: str
) -> None:
    """These weights give a loss of 1; the loss that is recorded at step 21 is the first one of the weights of 20."""
    metrics = [{"step": step, "loss": before if step <= 20 else after} for step in range(1, 41)]
    seen = subject("sortedness", metrics=metrics, step=20, training_loss=lambda t: 1.0, first_loss=None)
    finding = found(seen, "loss-not-explained")
    assert (finding.level, finding.numbers["recorded"]) == (level, after)


def test_the_recorded_loss_is_computed_again_number_for_number(tmp_path: Path) -> None:
    """Step 1's loss is of the initial weights, on the batch and with the noise of the first step."""
    train(config(SORTEDNESS, model={"dropout": 0.3}, train={"steps": 2}), tmp_path / "run", device="cpu")
    first = subject_of(load(tmp_path / "run", checkpoint=0, device="cpu"))
    recorded = next(row["loss"] for row in first.metrics if row["step"] == 1 and "loss" in row)
    assert first.training_loss is not None
    assert first.training_loss(0) == pytest.approx(recorded, rel=1e-5)
    assert examine(first).errors == []


def test_symbols_given_for_each_other_are_named() -> None:
    healthy = subject("addition")

    def forward(examples: Examples) -> torch.Tensor:
        """A perfect model that takes every 3 for a 7."""
        read = np.where(examples.source == 3, 7, np.where(examples.source == 7, 3, examples.source))
        return torch.nn.functional.one_hot(torch.from_numpy(healthy.task.answer(read)), 14).float()

    finding = found(replace(healthy, forward=forward), "tokens-exchanged")
    assert finding.level == "error"
    assert sorted(finding.numbers["symbols"]) == ["3", "7"]
    assert finding.numbers["lost"] == 0
    # None worse: one half to the power of those that are better, for each of the 10 * 9 / 2 pairs.
    assert finding.numbers["by_chance"] == pytest.approx(45 * 0.5 ** finding.numbers["gained"], rel=1e-9)


def test_validation_that_was_measured_on_training_examples_is_an_error() -> None:
    healthy = subject("addition")
    known = {row.tobytes() for row in healthy.splits["train"].source}

    def forward(examples: Examples) -> torch.Tensor:
        told = np.array([row.tobytes() in known for row in examples.source])
        answer = np.where(told[:, None], examples.target, 3)
        return 20 * torch.nn.functional.one_hot(torch.from_numpy(answer), 14).float()

    told = {"loss": 0.0, "accuracy": 1.0}
    rows = [{**row, "validation": told} if "validation" in row else row for row in healthy.metrics]
    finding = found(replace(healthy, forward=forward, metrics=rows), "measured-on-training")
    assert (finding.level, finding.numbers["train"], finding.numbers["validation"]) == ("error", 1.0, 0.0)


def test_a_sorted_corner_of_the_data_is_an_error_and_a_sorted_sample_a_warning() -> None:
    healthy = subject("addition")
    everything = healthy.splits["train"]
    order = sorted(range(len(everything)), key=lambda row: everything.source[row].tolist())
    corner = {**healthy.splits, "test": everything.take(order[:100])}
    assert found(replace(healthy, splits=corner), "sorted-sample").level == "error"
    spread = {**healthy.splits, "test": everything.take(order[::4])}
    assert found(replace(healthy, splits=spread), "sorted-sample").level == "warning"


def test_training_mode_without_noise_is_no_error() -> None:
    assert found(subject("addition", training=True), "dropout-on").level == "fine"
