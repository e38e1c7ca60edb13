"""A run is whole as it was written; a changed bit in any of its files is found."""

import json
import random
import shutil
from pathlib import Path

import pytest

import headway as hw
from headway.cli.main import run as headway
from headway.runs import RunDirectory
from headway.storage import write_json
from headway.training import train
from tests.tiny import ADDITION, config


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("verify") / "run"
    train(config(ADDITION, train={"keep_every": 8}), place, device="cpu")
    assert headway(["evaluate", str(place), "--quiet", "--json"]) == 0
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def test_a_run_as_it_was_written_is_whole(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = hw.verify(place)
    steps = RunDirectory(place).checkpoint_steps()
    assert found.faults == []
    assert found.usable_step == max(steps)
    assert [one.step for one in found.files if one.file.startswith("checkpoints/")] == steps
    assert {one.file for one in found.files} >= {"config.json", "metrics.jsonl", "analysis/evaluation.json"}
    assert headway(["verify", str(place)]) == 0
    assert f"{len(found.files)} of {len(found.files)} files are whole" in capsys.readouterr().out


def test_every_changed_bit_of_a_checkpoint_is_found(place: Path) -> None:
    *_, before, step = RunDirectory(place).checkpoint_steps()
    for path in sorted((place / "checkpoints" / f"step-{step:06d}").iterdir()):
        content = path.read_bytes()
        chance = random.Random(path.name)
        for _ in range(5):
            where, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
            path.write_bytes(content[:where] + bytes([content[where] ^ bit]) + content[where + 1 :])
            found = hw.verify(place)
            assert found.usable_step == before, "the newest one that is whole"
            fault = found.faults[0]  # analyses of this checkpoint may follow
            assert (fault.state, fault.step) == ("damaged", step), f"bit {bit} of byte {where} of {path.name}"
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "content", "state"),
    [
        ("config.json", '{"task": 3}', "damaged"),
        ("provenance.json", "{", "damaged"),
        ("metrics.jsonl", 'nonsense\n{"step": 1}\n', "damaged"),
        ("metrics.jsonl", '{"step": 1, "loss": "low"}\n', "damaged"),
        ("analysis/evaluation.json", '{"test": {"n": -5}}', "damaged"),
    ],
)
def test_a_damaged_file_is_named_with_the_reason(
    place: Path, file: str, content: str, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / file).write_text(content)
    assert headway(["verify", str(place), "--json"]) == 1
    files = {one["file"]: one for one in json.loads(capsys.readouterr().out)["files"]}
    assert files[file]["state"] == state
    assert files[file]["detail"]


def test_an_analysis_of_another_checkpoint_is_told_apart_from_a_damaged_one(place: Path) -> None:
    path = place / "analysis" / "evaluation.json"
    document = json.loads(path.read_text())
    document["test"]["made_from"]["weights"] = "0" * 64
    write_json(path, document)
    (fault,) = hw.verify(place).faults
    assert (fault.file, fault.state) == ("analysis/evaluation.json", "other-origin")
    assert "another checkpoint" in fault.detail


def test_a_line_that_a_kill_cut_off_is_no_damage(place: Path) -> None:
    with (place / "metrics.jsonl").open("a") as handle:
        handle.write('{"step": 9, "lo')
    assert hw.verify(place).faults == []


def faults_of(place: Path) -> dict[str, str]:
    return {one.file: one.detail for one in hw.verify(place).faults}


def test_lost_metrics_are_a_fault(place: Path) -> None:
    (place / "metrics.jsonl").unlink()
    assert faults_of(place) == {"metrics.jsonl": f"no file at {place / 'metrics.jsonl'}"}


def test_lost_checkpoints_are_a_fault(place: Path) -> None:
    shutil.rmtree(place / "checkpoints")
    assert faults_of(place)["checkpoints"] == "none is left, and metrics.jsonl goes to step 24"


@pytest.mark.parametrize("lost", [[0], [8, 16], [0, 8, 16]])
def test_lost_kept_weights_are_a_fault(place: Path, lost: list[int]) -> None:
    for step in lost:
        shutil.rmtree(RunDirectory(place).kept_path(step))
    found = faults_of(place)
    assert list(found) == [f"kept/step-{step:06d}" for step in lost]
    assert all("it is missing: train.keep_every = 8" in detail for detail in found.values())


def test_a_run_that_was_stopped_or_is_new_lacks_nothing(tmp_path: Path) -> None:
    settings = config(ADDITION, train={"keep_every": 8})
    train(settings, tmp_path / "stopped", device="cpu", until=12)
    assert faults_of(tmp_path / "stopped") == {}
    RunDirectory(tmp_path / "new").create(settings, {"seed": 0})
    assert faults_of(tmp_path / "new") == {}


@pytest.mark.parametrize("file", ["metrics.jsonl", "provenance.json"])
def test_a_file_of_another_run_is_a_fault(place: Path, file: str, tmp_path: Path) -> None:
    train(config(ADDITION, seed=1, train={"keep_every": 8}), tmp_path / "other", device="cpu")
    shutil.copy(tmp_path / "other" / file, place / file)
    assert "that of " in faults_of(place)[file] and "run" in faults_of(place)[file]


def test_a_checkpoint_under_the_name_of_another_step_is_damaged(place: Path) -> None:
    directory = RunDirectory(place)
    shutil.rmtree(directory.checkpoint_path(24))
    directory.checkpoint_path(16).rename(directory.checkpoint_path(24))
    expected = "step-000024 is damaged: its state.json is that of step 16"
    assert faults_of(place)["checkpoints/step-000024"] == expected
    assert directory.damaged_state() == expected


NO_CHECKSUM = "no checksum, as earlier versions wrote it: a changed digit would not be noticed"


@pytest.mark.parametrize(
    ("earlier", "continued", "ending", "detail"),
    [
        (2, 3, "", ""),
        (2, 1, "", ""),
        (0, 2, "", ""),
        (3, 0, "", NO_CHECKSUM),
        (1, 0, "", NO_CHECKSUM),
        (1, 2, "\n", ""),
    ],
)
def test_a_log_that_this_version_continued_has_checksums(
    tmp_path: Path, earlier: int, continued: int, ending: str, detail: str
) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create(config(ADDITION), {})
    log = run.path / "metrics.jsonl"
    log.write_text("".join(json.dumps({"step": step, "loss": 2.0}) + "\n" for step in range(earlier)))
    run.append_metrics(*({"step": earlier + step, "loss": 1.0} for step in range(continued)))
    log.write_text(log.read_text() + ending)
    found = {one.file: one for one in hw.verify(run).files}
    assert (found["metrics.jsonl"].state, found["metrics.jsonl"].detail) == ("whole", detail)
    assert found["config.json"].detail == ""
