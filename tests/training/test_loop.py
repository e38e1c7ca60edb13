"""The loop: same seed same weights, stopped and continued to the same weights, and stopped before harm is done."""

import copy
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

from headway.batches import make_model
from headway.config import TrainConfig
from headway.errors import InputError, RunStopped
from headway.evaluation import evaluate, load
from headway.runs import RunDirectory
from headway.storage import write_json
from headway.tasks import make_task
from headway.tasks.files import FILE_NAMES, make_splits, write_files
from headway.training import train
from headway.training.adamw import AdamW, Group
from headway.training.data import TrainingData
from headway.training.loop import learning_rate, make_optimiser
from headway.training.seed_run import SeedRun
from tests.tiny import ADDITION, SORTEDNESS, config, weights_hash


class Stop(Exception):
    pass


def stop_at(step: int):  # type: ignore[no-untyped-def]
    def report(event: dict) -> None:
        if event["event"] == "step" and event["step"] == step:
            raise Stop

    return report


FRESH = {**SORTEDNESS, "data": {**SORTEDNESS["data"], "fresh": True}}
RANDOM_POSITIONS = {**ADDITION, "model": {**ADDITION["model"], "encoding": "randomized"}}


@pytest.mark.parametrize(
    "base", [ADDITION, SORTEDNESS, FRESH, RANDOM_POSITIONS], ids=["addition", "sort", "fresh", "random"]
)
def test_a_run_stopped_anywhere_continues_to_the_same_weights(base, tmp_path: Path) -> None:
    settings = config(base, train={"steps": 12, "validate_every": 4})
    train(settings, tmp_path / "whole", device="cpu")
    whole = RunDirectory(tmp_path / "whole")
    for moment in (3, 4, 7):
        parts = RunDirectory(tmp_path / f"parts{moment}")
        with pytest.raises(Stop):
            train(settings, parts.path, device="cpu", on_event=stop_at(moment))
        result = train(settings, parts.path, device="cpu", resume=True)
        assert result.steps == 12
        assert weights_hash(whole.path, 12) == weights_hash(parts.path, 12)
        assert whole.checkpoint_steps() == parts.checkpoint_steps()
        assert [r for r in whole.metrics() if "step" in r] == [r for r in parts.metrics() if "step" in r]


@pytest.mark.parametrize(
    ("until", "validated"), [(0, [0]), (3, [0, 3]), (4, [0, 4]), (9, [0, 4, 8, 9]), (11, [0, 4, 8, 11])]
)
def test_a_run_that_is_trained_up_to_a_step_is_validated_and_saved_there(
    tmp_path: Path, until: int, validated: list[int]
) -> None:
    """Whether or not a validation is due there; and it goes on from there to the same weights."""
    settings = config(ADDITION, train={"steps": 11, "validate_every": 4})
    run = RunDirectory(tmp_path / "parts")
    found = train(settings, run.path, device="cpu", until=until)
    assert (found.steps, run.checkpoint_steps()[-1]) == (until, until)
    assert [row["step"] for row in run.metrics() if "validation" in row] == validated
    assert run.newest_state()["finished"] is (until == 11)
    moments: list[int] = []
    train(settings, run.path, device="cpu", resume=True, on_event=lambda event: moments.append(event["step"]))
    assert min([step for step in moments if step > until], default=11) == min(until + 1, 11)
    train(settings, tmp_path / "whole", device="cpu")
    assert weights_hash(run.path, 11) == weights_hash(tmp_path / "whole", 11)


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    first = train(config(ADDITION), tmp_path / "run", device="cpu")
    before = weights_hash(tmp_path / "run", 24)
    again = train(config(ADDITION), tmp_path / "run", device="cpu", resume=True)
    assert (again.steps, again.metrics) == (first.steps, first.metrics)
    assert weights_hash(tmp_path / "run", 24) == before


PROGRAM = """
import sys, torch
torch.set_num_threads(1)
from pathlib import Path
from headway.config import RunConfig
from headway.training import train
import json
train(RunConfig.from_json(json.loads(sys.argv[1])), Path(sys.argv[2]), device="cpu")
"""


def test_the_same_seed_gives_the_same_weights_in_two_fresh_processes(tmp_path: Path) -> None:
    settings = json.dumps(config(ADDITION, seed=3).to_json())
    for hash_seed in ("3", "4"):
        command = [sys.executable, "-c", PROGRAM, settings, str(tmp_path / hash_seed)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})
    train(config(ADDITION, seed=4), tmp_path / "c", device="cpu")
    hashes = [[weights_hash(tmp_path / name, step) for step in (0, 24)] for name in ("3", "4", "c")]
    assert hashes[0] == hashes[1]
    assert hashes[0][0] != hashes[2][0]
    assert hashes[0][1] != hashes[2][1]


def test_seeds_share_the_data_and_differ_in_order() -> None:
    task = make_task(config(ADDITION).task)
    splits = make_splits(task, config(ADDITION).data)
    one, other = (TrainingData(config(ADDITION, seed=seed), task, splits) for seed in (0, 1))
    assert (one.splits["train"].source == other.splits["train"].source).all()
    assert (one.batch(0).source != other.batch(0).source).any()


def test_every_example_is_seen_once_a_pass() -> None:
    settings = config(ADDITION)  # 40 examples in batches of 16: a pass ends inside a batch
    task = make_task(settings.task)
    data = TrainingData(settings, task, make_splits(task, settings.data))
    rows = [tuple(row) for step in range(5) for row in data.batch(step).source.tolist()]
    passes = [sorted(rows[:40]), sorted(rows[40:80])]
    assert passes[0] == passes[1] == sorted(map(tuple, data.splits["train"].source.tolist()))
    assert rows[:40] != rows[40:80]


def test_the_callers_random_numbers_are_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(config(ADDITION), tmp_path / "run", device="cpu")
    assert torch.equal(torch.rand(3), expected)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_the_rate_rises_to_lr_and_falls_to_its_end(schedule: str) -> None:
    settings = TrainConfig(steps=100, lr=0.5, warmup=0.1, schedule=schedule, lr_end=0.2)
    rates = [learning_rate(settings, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([0.5 * (step + 1) / 11 for step in range(10)])
    assert max(rates) == rates[10] == 0.5
    assert all(before >= after for before, after in pairwise(rates[10:]))
    halfway = {"cosine": 0.3, "linear": 0.3, "constant": 0.5}[schedule]
    assert rates[55] == pytest.approx(halfway, abs=0.01)
    assert rates[-1] == pytest.approx(0.5 if schedule == "constant" else 0.1, abs=0.01)


def test_a_step_is_that_of_pytorchs_adamw_and_its_memory_is_restored() -> None:
    torch.manual_seed(0)
    mine = nn.Linear(5, 3)
    theirs = copy.deepcopy(mine)
    groups = [Group([mine.weight], 0.1), Group([mine.bias], 0.0)]
    optimiser = AdamW(groups, (0.8, 0.95))
    named = [{"params": [theirs.weight], "weight_decay": 0.1}, {"params": [theirs.bias], "weight_decay": 0.0}]
    reference = torch.optim.AdamW(named, lr=0.01, betas=(0.8, 0.95), fused=True)
    assert optimiser.tensors() == {}
    for step in range(4):
        if step == 2:  # as a run that is continued
            memory, optimiser = optimiser.tensors(), AdamW(groups, (0.8, 0.95))
            optimiser.restore(memory)
        for model, one in ((mine, optimiser), (theirs, reference)):
            one.zero_grad()
            model(torch.arange(10.0).reshape(2, 5) - step).square().sum().backward()
        optimiser.step(0.01)
        reference.step()
    assert torch.equal(mine.weight, theirs.weight)
    assert torch.equal(mine.bias, theirs.bias)
    assert optimiser.tensors().keys() == {f"{i}.{name}" for i in (0, 1) for name in ("step", "exp_avg", "exp_avg_sq")}


def test_training_does_not_import_the_compiler(tmp_path: Path) -> None:
    """It takes longer than everything else that a process imports to train."""
    code = (
        "import sys; from pathlib import Path; from headway.training import train; "
        "from tests.tiny import ADDITION, config; train(config(ADDITION), Path(sys.argv[1]), device='cpu'); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False).returncode == 0


def test_weight_decay_acts_on_matrices_of_linear_layers_alone(tmp_path: Path) -> None:
    train(config(ADDITION), tmp_path / "run", device="cpu")
    model = load(tmp_path / "run", device="cpu").model
    decayed, spared = (
        {id(p) for p in group.parameters} for group in make_optimiser(model, TrainConfig(steps=1)).groups
    )
    names = {name for name, p in model.named_parameters() if id(p) in decayed}
    assert len(decayed) + len(spared) == len(list(model.parameters()))
    assert "encoder.0.own.query.weight" in names
    assert not [name for name in names if "norm" in name or "bias" in name or "embedding" in name]


def test_without_a_gradient_a_step_only_makes_matrices_of_linear_layers_smaller() -> None:
    """By the rate times the decay, 0.1 x 0.5; embeddings, norms, biases and tables stay."""
    settings = config(ADDITION, model={"encoding": {"name": "learned", "table_size": 16}})
    model = make_model(make_task(settings.task), settings.model)
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    make_optimiser(model, TrainConfig(steps=1, weight_decay=0.5)).step(0.1)
    assert 0 < len(linear) < len(before)
    for name, parameter in model.named_parameters():
        expected = before[name] * (0.95 if name in linear else 1.0)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-6, atol=0)  # one rounding of fp32


def poison(run: Path, step: int) -> None:
    """Put a weight that is not finite into a checkpoint."""
    directory = RunDirectory(run)
    found = directory.read_checkpoint(step)
    found.model["decoder.0.own.query.weight"][0, 0] = math.nan
    directory.write_checkpoint(found)


def test_a_loss_that_is_not_finite_stops_before_the_update(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train(config(ADDITION), tmp_path / "run", device="cpu", on_event=stop_at(10))
    poison(tmp_path / "run", 8)
    before = RunDirectory(tmp_path / "run").checkpoint_steps()
    with pytest.raises(RunStopped, match=r"the loss is not finite at step 9; nothing was updated, .* step 8 of"):
        train(config(ADDITION), tmp_path / "run", device="cpu", resume=True)
    assert RunDirectory(tmp_path / "run").checkpoint_steps() == before


def test_a_gradient_that_is_not_finite_stops_before_the_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is finite: only its gradient overflows."""
    right = nn.utils.clip_grad_norm_
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda parameters, most: right(parameters, most) * math.inf)
    with pytest.raises(RunStopped, match=r"the gradient is not finite at step 1; nothing was updated"):
        train(config(ADDITION), tmp_path / "run", device="cpu")


def test_validation_is_without_dropout_and_seconds_add_up_over_resumes(tmp_path: Path) -> None:
    settings = config(ADDITION, model={"dropout": 0.3}, train={"steps": 8, "validate_every": 4})
    place = tmp_path / "run"
    train(settings, place, device="cpu", until=4)
    run = RunDirectory(place)
    found = run.read_checkpoint(4)
    run.write_checkpoint(replace(found, state={**found.state, "seconds": 1_000.0}))
    assert train(settings, place, device="cpu", resume=True).seconds > 1_000
    told = {row["step"]: row["validation"]["loss"] for row in run.metrics() if "validation" in row}
    for step in (0, 8):
        # The same weights and examples on the same machine: fp32 sums in the same order.
        assert evaluate(load(place, checkpoint=step, device="cpu"), "validation").loss == pytest.approx(told[step])


def test_training_stops_early_once_the_loss_has_stayed_low(tmp_path: Path) -> None:
    early = {"stop_below": 1_000.0, "stop_for": 2, "validate_every": 4}
    result = train(config(ADDITION, train=early), tmp_path / "run", device="cpu")
    assert (result.steps, result.stopped_early) == (4, True)
    again = train(config(ADDITION, train=early), tmp_path / "run", device="cpu", resume=True)
    assert (again.steps, again.stopped_early) == (4, True)


def validations(place: Path) -> list[tuple[int, float]]:
    rows = RunDirectory(place).metrics()
    return [(row["step"], row["validation"]["accuracy"]) for row in rows if "validation" in row]


GATED = config(
    SORTEDNESS,
    seed=2,
    data={"train": 400, "validation": 60},
    train={"steps": 80, "validate_every": 5, "stop_accuracy": 0.56, "stop_for": 3},
)
"""Reaches the gate twice in a row at step 25, and three times from step 40 on."""


def test_training_stops_once_the_gate_was_reached_so_many_times_in_a_row(tmp_path: Path) -> None:
    result = train(GATED, tmp_path / "run", device="cpu")
    curve = validations(tmp_path / "run")
    assert result.stopped_early
    reached = [accuracy >= 0.56 for _, accuracy in curve]
    assert reached[-3:] == [True] * 3
    assert any(reached[:-3]), "an earlier row was broken"
    assert not any(all(reached[i : i + 3]) for i in range(len(curve) - 3))
    assert (result.mastered_at, result.steps) == (curve[-3][0], curve[-1][0])
    assert RunDirectory(tmp_path / "run").newest_state()["mastered_at"] == result.mastered_at
    again = train(GATED, tmp_path / "run", device="cpu", resume=True)
    assert (again.steps, again.mastered_at) == (result.steps, result.mastered_at)


def test_a_run_that_is_stopped_while_it_counts_validations_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole = train(GATED, tmp_path / "whole", device="cpu")
    assert whole.mastered_at is not None
    train(GATED, tmp_path / "parts", device="cpu", until=whole.mastered_at)  # one validation of the row is noted
    parts = train(GATED, tmp_path / "parts", device="cpu", resume=True)
    assert (parts.steps, parts.mastered_at) == (whole.steps, whole.mastered_at)
    one, other = (RunDirectory(tmp_path / name).read_checkpoint(whole.steps) for name in ("whole", "parts"))
    assert all(torch.equal(one.model[key], other.model[key]) for key in one.model)


def test_a_gate_that_is_not_reached_lets_training_go_on_to_its_end(tmp_path: Path) -> None:
    settings = {"steps": 12, "validate_every": 4, "stop_accuracy": 1.0}
    result = train(config(ADDITION, train=settings), tmp_path / "run", device="cpu")
    assert (result.steps, result.stopped_early, result.mastered_at) == (12, False, None)


def test_the_checkpoint_that_counts_after_mastery_has_reached_the_gate(tmp_path: Path) -> None:
    settings = config(ADDITION, train={"stop_accuracy": 0.9, "stop_for": 2})
    with RunDirectory(tmp_path / "run").lock():
        seed_run = SeedRun(settings, RunDirectory(tmp_path / "run"), torch.device("cpu"), lambda event: None)
        for step, loss, accuracy in ((4, 0.1, 0.89), (8, 0.3, 0.95), (12, 0.2, 0.8), (16, 0.3, 0.95), (20, 0.4, 0.96)):
            seed_run.state.step = step
            seed_run.note_validation(loss, accuracy)
    assert seed_run.state.mastered_at == 16
    assert seed_run.state.best == {"step": 20, "loss": 0.4, "accuracy": 0.96}


def test_low_losses_must_be_in_a_row_to_stop_a_run(tmp_path: Path) -> None:
    settings = config(ADDITION, train={"stop_below": 0.5, "stop_for": 2})
    with RunDirectory(tmp_path / "run").lock():
        seed_run = SeedRun(settings, RunDirectory(tmp_path / "run"), torch.device("cpu"), lambda event: None)
        stopped = []
        for step, loss in ((4, 0.4), (8, 0.6), (12, 0.4), (16, 0.3)):
            seed_run.state.step = step
            seed_run.note_validation(loss, 0.5)
            stopped.append(seed_run.state.stopped_early)
    assert stopped == [False, False, False, True]


def test_the_first_the_best_and_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    settings = config(ADDITION, train={"steps": 40, "validate_every": 4})
    result = train(settings, tmp_path / "run", device="cpu")
    kept = RunDirectory(tmp_path / "run").checkpoint_steps()
    assert set(kept) == {0, int(result.metrics["best_step"]), 36, 40}
    losses = {r["step"]: r["validation"]["loss"] for r in RunDirectory(tmp_path / "run").metrics() if "validation" in r}
    assert min(losses, key=losses.__getitem__) == result.metrics["best_step"]


def test_the_best_checkpoint_is_kept_however_long_ago_it_was(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    every_four = config(ADDITION, train={"validate_every": 4})
    seed_run = SeedRun(every_four, run, torch.device("cpu"), lambda event: None)
    kept = []
    for step, loss in ((0, 0.9), (4, 0.5), (8, 0.2), (12, 0.6), (16, 0.7), (20, 0.1), (24, 0.3), (28, 0.4)):
        seed_run.state.step = step
        seed_run.note_validation(loss, 0.5)
        seed_run.save({"weight": torch.tensor([float(step)])}, {})
        kept.append(run.checkpoint_steps())
    assert kept[3:] == [[0, 8, 12], [0, 8, 12, 16], [0, 16, 20], [0, 20, 24], [0, 20, 24, 28]]
    assert float(run.read_checkpoint(20).model["weight"]) == 20


def test_another_number_of_threads_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train(config(ADDITION), tmp_path / "run", device="cpu", on_event=stop_at(10))
    directory = RunDirectory(tmp_path / "run")
    found = directory.read_checkpoint(8)
    directory.write_checkpoint(replace(found, state={**found.state, "threads": 7}))
    result = train(config(ADDITION), tmp_path / "run", device="cpu", resume=True)
    assert result.warnings == [
        "this run had threads 7 and now has 1; the weights will differ in the last bits from an uninterrupted run"
    ]


def test_a_run_records_where_it_comes_from(tmp_path: Path) -> None:
    train(config(ADDITION, seed=5), tmp_path / "run", device="cpu", command=["headway", "train", "x"])
    record = RunDirectory(tmp_path / "run").provenance()
    assert record["command"] == ["headway", "train", "x"]
    assert (record["seed"], record["threads"], record["device"]) == (5, 1, "cpu")
    assert record["versions"]["torch"] == torch.__version__
    settings = RunDirectory(tmp_path / "run").config()
    assert settings.task.options["sampling"] == "uniform"  # every option is spelled out
    train(config(ADDITION, seed=5), tmp_path / "run", device="cpu", resume=True)
    assert "resumed" not in RunDirectory(tmp_path / "run").provenance()  # it was finished
    with pytest.raises(Stop):
        train(config(ADDITION, seed=6), tmp_path / "part", device="cpu", on_event=stop_at(10))
    train(config(ADDITION, seed=6), tmp_path / "part", device="cpu", resume=True)
    assert len(RunDirectory(tmp_path / "part").provenance()["resumed"]) == 1


def test_another_recipe_does_not_continue_a_run(tmp_path: Path) -> None:
    train(config(ADDITION), tmp_path / "run", device="cpu")
    with pytest.raises(InputError, match=r"begun with other settings \(train.lr: 0.01 and 0.02\); use another --out"):
        train(config(ADDITION, train={"lr": 0.02}), tmp_path / "run", device="cpu", resume=True)


@pytest.mark.parametrize("changed", FILE_NAMES.values())
def test_another_file_of_the_data_does_not_continue_a_run(tmp_path: Path, changed: str) -> None:
    settings, data, run = config(ADDITION), tmp_path / "data", tmp_path / "run"
    write_files(make_task(settings.task), settings.data, data)
    train(settings, run, device="cpu", data=data, until=0)
    train(settings, run, device="cpu", data=data, until=1, resume=True)
    first, *rest = json.loads((data / changed).read_text())
    (data / changed).write_text(json.dumps([*rest, first]))
    with pytest.raises(InputError, match=r"run was begun with other data than .*data now holds; use another --out"):
        train(settings, run, device="cpu", data=data, resume=True)


def test_a_run_of_an_earlier_version_continues_under_todays_names(tmp_path: Path) -> None:
    chains = config(ADDITION, task={"name": "addition", "digits": 2, "sampling": "carry-chains"})
    train(chains, tmp_path / "run", device="cpu")
    written = tmp_path / "run" / "config.json"
    write_json(written, json.loads(written.read_text().replace('"carry-chains"', '"balanced"')))
    train(chains, tmp_path / "run", device="cpu", resume=True)
    assert '"balanced"' in written.read_text()


def test_swapped_operands_are_the_same_problems_with_the_same_answers() -> None:
    settings = config(ADDITION, task={"name": "addition", "digits": 2, "swap": True}, data={"train": 400})
    task = make_task(settings.task)
    data = TrainingData(settings, task, make_splits(task, settings.data))
    shown, plain = data.batch(3), data.splits["train"].take(data.rows(3))
    assert (shown.source != plain.source).any()
    assert (task.canonical(shown.source) == task.canonical(plain.source)).all()
    assert (shown.target == task.answer(shown.source)).all()
    assert (shown.source == data.batch(3).source).all()
    rows = [(data.batch(step).source, data.splits["train"].take(data.rows(step)).source) for step in range(25)]
    swapped = [bool((one != other).any()) for pair in rows for one, other in zip(*pair, strict=True)]
    assert len(swapped) == 400
    # 20 of 400 is two standard deviations of fair draws; a sum of a number with itself counts as not swapped.
    assert abs(sum(swapped) - 200) < 20


def test_a_damaged_checkpoint_is_named_put_away_and_the_one_before_it_used(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train(config(ADDITION), tmp_path / "run", device="cpu", on_event=stop_at(20))
    train(config(ADDITION), tmp_path / "whole", device="cpu")
    path = tmp_path / "run" / "checkpoints" / "step-000016" / "trainer.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    seen = []

    def report(event: dict) -> None:
        if event["event"] == "step" and event["step"] == 9:
            seen.extend(RunDirectory(tmp_path / "run").checkpoint_steps())

    result = train(config(ADDITION), tmp_path / "run", device="cpu", resume=True, on_event=report)
    assert result.warnings == [
        "step-000016 is damaged: trainer.safetensors does not match its manifest; the one before it is used"
    ]
    assert seen == [0, 8]
    assert weights_hash(tmp_path / "run", 24) == weights_hash(tmp_path / "whole", 24)


@pytest.mark.parametrize("stops", [(19,), (5, 21), (16, 22, 23), (24,)])
def test_an_interrupted_training_ends_with_the_checkpoints_of_an_undisturbed_one(
    tmp_path: Path, stops: tuple[int, ...]
) -> None:
    train(config(ADDITION), tmp_path / "whole", device="cpu")
    for stop in stops:
        train(config(ADDITION), tmp_path / "stopped", device="cpu", until=stop, resume=stop != stops[0])
        assert RunDirectory(tmp_path / "stopped").checkpoint_steps()[-1] == stop
    train(config(ADDITION), tmp_path / "stopped", device="cpu", resume=True)
    whole, stopped = (RunDirectory(tmp_path / name).checkpoint_steps() for name in ("whole", "stopped"))
    assert stopped == whole
