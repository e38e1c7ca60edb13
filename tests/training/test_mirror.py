"""--log tensorboard: event files say what metrics.jsonl says, whatever stopped and continued the run."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import headway as hw
from headway.cli.main import run as command
from headway.errors import InputError, Interrupted, RunStopped
from headway.runs import RunDirectory
from headway.sweeps.plan import plan_grid
from headway.sweeps.trial import JobOptions, run_job
from headway.training import train
from headway.training.mirror import mirrored, scalars
from tests.tiny import ADDITION, config
from tests.tiny_recipes import write_recipe

pytest.importorskip("tensorboard", reason="the extra `track` is not installed")

Told = list[Mapping[str, Any]]


def read_events(run: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of every tag in the run's event files, as a viewer would load them."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(RunDirectory(run).tensorboard.glob("events.*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    return found


def recorded(run: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for record in RunDirectory(run).metrics():
        for tag, value in scalars(record).items():
            found.setdefault(tag, []).append((record["step"], value))
    return found


def assert_mirrored(run: Path) -> None:
    """Every number once; event files hold single precision, so 1e-6 of each is allowed."""
    shown, source = read_events(run), recorded(run)
    assert shown.keys() == source.keys()
    for tag in source:
        assert [step for step, _ in shown[tag]] == [step for step, _ in source[tag]], tag
        assert [value for _, value in shown[tag]] == pytest.approx([value for _, value in source[tag]], rel=1e-6)


def test_every_number_of_a_run_is_there_once(tmp_path: Path) -> None:
    told: Told = []
    with mirrored("tensorboard", tmp_path / "run", told.append) as report:
        train(config(ADDITION), tmp_path / "run", device="cpu", on_event=report)
    assert_mirrored(tmp_path / "run")
    tags = {"train/loss", "train/lr", "train/gradient", "validation/loss", "validation/accuracy"}
    assert read_events(tmp_path / "run").keys() == tags
    assert len([event for event in told if event["event"] == "step"]) == 24, "the other report is told as before"


def test_the_weights_are_those_of_a_run_without_a_mirror(tmp_path: Path) -> None:
    with mirrored("tensorboard", tmp_path / "a", lambda event: None) as report:
        train(config(ADDITION), tmp_path / "a", device="cpu", on_event=report)
    train(config(ADDITION), tmp_path / "b", device="cpu")
    assert recorded(tmp_path / "a") == recorded(tmp_path / "b")


def stop_at(step: int) -> Any:
    """A report that ends the run the hard way at a step: as a kill does, without a checkpoint of it."""

    def report(event: Mapping[str, Any]) -> None:
        if event["event"] == "step" and event["step"] == step:
            raise RuntimeError("pulled the plug")

    return report


def test_what_a_continuation_did_again_is_there_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(RuntimeError, match="plug"), mirrored("tensorboard", run, stop_at(13)) as report:
        train(config(ADDITION), run, device="cpu", on_event=report)
    assert read_events(run)["train/loss"][-1][0] == 13, "the writer was closed, though the run broke off"
    with mirrored("tensorboard", run, lambda event: None) as report:
        train(config(ADDITION), run, device="cpu", resume=True, on_event=report)
    assert_mirrored(run)
    assert [step for step, _ in read_events(run)["train/loss"]] == list(range(1, 25))


def test_a_mirror_that_comes_late_shows_the_run_from_its_beginning(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(config(ADDITION), run, device="cpu", until=8)
    with mirrored("tensorboard", run, lambda event: None) as report:
        train(config(ADDITION), run, device="cpu", resume=True, on_event=report)
    assert_mirrored(run)
    with mirrored("tensorboard", run, lambda event: None) as report:
        train(config(ADDITION), run, device="cpu", resume=True, on_event=report)
    assert_mirrored(run)
    assert len(list(RunDirectory(run).tensorboard.iterdir())) == 1


def test_without_a_log_nothing_is_written(tmp_path: Path) -> None:
    with mirrored(None, tmp_path / "run", lambda event: None) as report:
        train(config(ADDITION, train={"steps": 2}), tmp_path / "run", device="cpu", on_event=report)
    assert not RunDirectory(tmp_path / "run").tensorboard.exists()


@pytest.mark.parametrize("error", [Interrupted, RunStopped, KeyboardInterrupt])
def test_the_writer_is_closed_whatever_happens(tmp_path: Path, error: type[BaseException]) -> None:
    def broken_off() -> None:
        with mirrored("tensorboard", tmp_path, lambda event: None) as report:
            report({"event": "warning", "text": "before anything is known"})
            report({"event": "step", "step": 1, "loss": 0.5, "lr": 0.1, "gradient": 2.0})
            raise error("stop")

    with pytest.raises(error):
        broken_off()
    assert read_events(tmp_path)["train/loss"] == [(1, 0.5)]


# Where it is asked for


def test_train_and_hw_train_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    assert command(["train", "tiny.toml", "--log", "tensorboard", "--quiet", "--device", "cpu"]) == 0
    assert_mirrored(tmp_path / "runs" / "tiny-seed0")
    hw.train("tiny.toml", seed=1, log="tensorboard", device="cpu")
    assert_mirrored(tmp_path / "runs" / "tiny-seed1")


def test_trials_of_a_sweep_take_it(tmp_path: Path) -> None:
    (trial,) = plan_grid(write_recipe(tmp_path), [], [], [0]).trials
    (outcome,) = run_job([trial], [tmp_path / "trial"], JobOptions(device="cpu", log="tensorboard"))
    assert outcome.state == "finished", outcome.error
    assert_mirrored(tmp_path / "trial")


def test_an_unknown_mirror_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    assert command(["train", "tiny.toml", "--log", "tensorbord"]) == 2
    assert "--log 'tensorbord'; did you mean tensorboard? known: tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    with pytest.raises(InputError, match="did you mean tensorboard"), mirrored("tensorbord", tmp_path, print):
        pass


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    """In a process that cannot find the package, as on a machine without it."""
    write_recipe(tmp_path)
    code = (
        "import sys; sys.modules['tensorboard'] = None; from headway.cli.main import run; "
        "sys.exit(run(['train', 'tiny.toml', '--log', 'tensorboard']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "headway: --log tensorboard needs the extra: pip install 'headway[track]'\n"
    assert not (tmp_path / "runs").exists()
