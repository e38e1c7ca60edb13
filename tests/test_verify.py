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
    train(config(ADDITION), place, device="cpu")
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
