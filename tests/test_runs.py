"""The run directory: whole checkpoints or none, one writer, metrics that survive a kill."""

import hashlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import safetensors.torch
import torch

from headway.cli import main
from headway.config import Choice, RunConfig, TrainConfig
from headway.errors import InputError
from headway.results.comparison import Outcome
from headway.runs import Checkpoint, DamagedCheckpoint, RunDirectory, SweepDirectory, list_runs
from headway.storage import read_document, write_json
from tests.tiny_recipes import write_recipe

CONFIG = RunConfig(task=Choice(name="addition"), train=TrainConfig(steps=4))
FILES = ["model.safetensors", "trainer.safetensors", "state.json"]


def checkpoint(step: int) -> Checkpoint:
    weights = {"weight": torch.arange(6.0).reshape(2, 3) + step, "table": torch.tensor([step])}
    return Checkpoint(
        step, weights, {"0.exp_avg": torch.full((2, 3), 1 / 3)}, {"step": step, "best": {"step": step, "loss": 0.1}}
    )


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run with checkpoints of steps 2 and 4."""
    directory = RunDirectory(tmp_path / "run")
    directory.create(CONFIG, {"seed": 0})
    for step in (2, 4):
        directory.write_checkpoint(checkpoint(step))
    return directory


def same(one: Checkpoint, other: Checkpoint) -> bool:
    tensors = [(one.model, other.model), (one.trainer, other.trainer)]
    equal = all(a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in tensors)
    return equal and (one.step, one.state) == (other.step, other.state)


def test_a_checkpoint_comes_back_as_it_was_written(run: RunDirectory) -> None:
    assert same(run.read_checkpoint(4), checkpoint(4))
    found, damages = run.newest_checkpoint()
    assert found is not None
    assert (found.step, damages) == (4, [])
    assert run.checkpoint_steps() == [2, 4]


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is synced to disk and what is renamed, in order, by the file's name."""
    seen: list[tuple[str, str]] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def record(kind: str, path: str, *arguments: object) -> None:
        seen.append((kind, Path(path).name))
        {"rename": rename, "replace": replace}[kind](path, *arguments)

    def synced(handle: int) -> None:
        seen.append(("fsync", Path(f"/proc/self/fd/{handle}").readlink().name))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", lambda *paths: record("rename", *paths))
    monkeypatch.setattr(os, "replace", lambda *paths: record("replace", *paths))
    return seen


def test_a_checkpoint_is_on_disk_with_its_manifest_before_it_is_renamed(
    run: RunDirectory, operations: list[tuple[str, str]]
) -> None:
    run.write_checkpoint(checkpoint(6))
    files = [("fsync", name) for name in (*FILES, "MANIFEST")]
    beside = "writing-step-000006"
    assert operations == [*files, ("fsync", beside), ("rename", beside), ("fsync", "checkpoints")]


def test_a_document_is_on_disk_before_it_takes_its_place(tmp_path: Path, operations: list[tuple[str, str]]) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    beside = next(name for kind, name in operations if kind == "replace")
    assert beside.startswith("a.json.writing-")
    assert operations == [("fsync", beside), ("replace", beside), ("fsync", tmp_path.name)]


def test_a_checkpoint_replaces_one_of_the_same_step(run: RunDirectory) -> None:
    (run.checkpoint_path(4) / "MANIFEST").unlink()
    run.write_checkpoint(checkpoint(4))
    assert same(run.read_checkpoint(4), checkpoint(4))


class PanicException(BaseException):
    """Like the one of pyo3, whose class cannot be imported."""


def panic(tensors: object) -> bytes:
    raise PanicException("PyObject pointer is null")


@pytest.mark.parametrize("which", ["save", "load"])
def test_a_panic_for_want_of_memory_is_a_memory_error(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setattr(safetensors.torch, which, panic)
    number = {"save": 6, "load": 4}[which]
    message = f"^no room for the tensors of step-00000{number}: PyObject pointer is null$"
    with pytest.raises(MemoryError, match=message):
        run.write_checkpoint(checkpoint(6)) if which == "save" else run.newest_checkpoint()
    monkeypatch.undo()
    assert run.checkpoint_steps() == [2, 4]
    assert same(run.read_checkpoint(4), checkpoint(4))


def test_no_other_exception_is_taken_for_a_panic(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(tensors: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.torch, "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.write_checkpoint(checkpoint(6))


def test_want_of_memory_for_a_checkpoint_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(safetensors.torch, "save", panic)
    out = str(tmp_path / "new")
    assert main.run(["train", str(write_recipe(tmp_path)), "--device", "cpu", "--quiet", "--out", out]) == 2
    line = "headway: out of memory (no room for the tensors of step-000000: PyObject pointer is null); a smaller"
    printed = capsys.readouterr().err
    assert printed.startswith(line)
    assert printed.count("\n") == 1


@contextmanager
def no_room() -> Iterator[None]:
    """No file may be longer than 8 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_could_not_be_replaced_stays_as_it_was_with_nothing_beside_it(tmp_path: Path) -> None:
    sweep = SweepDirectory(tmp_path)
    sweep.append_result(Outcome("a", {}, 0, "finished"))
    write_json(tmp_path / "sweep.json", {"form": 1})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with no_room(), pytest.raises(OSError, match="File too large"):
        write_json(tmp_path / "sweep.json", {"form": 2})
    with no_room(), pytest.raises(OSError, match="File too large"):
        sweep.tidy_results(["a"])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, empty, flip_a_bit, Path.unlink])
@pytest.mark.parametrize("name", [*FILES, "MANIFEST"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    run: RunDirectory, name: str, damage: Callable[[Path], None]
) -> None:
    damage(run.checkpoint_path(4) / name)
    with pytest.raises(DamagedCheckpoint, match="step-000004 is damaged"):
        run.read_checkpoint(4)
    found, damages = run.newest_checkpoint()
    assert found is not None
    assert same(found, checkpoint(2))
    assert len(damages) == 1
    assert "step-000004" in damages[0]


@pytest.mark.parametrize("name", FILES)
def test_a_damage_names_the_file(run: RunDirectory, name: str) -> None:
    flip_a_bit(run.checkpoint_path(4) / name)
    with pytest.raises(DamagedCheckpoint, match=name):
        run.read_checkpoint(4)


def test_every_changed_bit_of_a_manifest_is_noticed(run: RunDirectory) -> None:
    path = run.checkpoint_path(4) / "MANIFEST"
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(DamagedCheckpoint, match="step-000004 is damaged"):
            run.read_checkpoint(4)


@pytest.mark.parametrize("line", ["{}  model.safetensors", "{}   model.safetensors", "{}\v  state.json", "{}", ""])
def test_a_manifest_with_a_line_too_many_is_damaged(run: RunDirectory, line: str) -> None:
    """With two lines about the weights, a result could name other weights than those that were read."""
    path = run.checkpoint_path(4) / "MANIFEST"
    path.write_text(line.format("0" * 64) + "\n" + path.read_text())
    with pytest.raises(DamagedCheckpoint, match="step-000004 is damaged: its manifest"):
        run.read_checkpoint(4)
    assert run.origin(4).weights is None


def test_no_checkpoint_is_found_where_all_are_damaged(run: RunDirectory) -> None:
    for step in (2, 4):
        truncate(run.checkpoint_path(step) / "model.safetensors")
    found, damages = run.newest_checkpoint()
    assert found is None
    assert [line.split()[0] for line in damages] == ["step-000004", "step-000002"]


class Trap:
    """A pickle of this writes a file when it is loaded."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.open, (str(self.path), os.O_CREAT)


@pytest.mark.parametrize("name", FILES)
def test_a_pickle_in_place_of_a_file_is_refused_and_never_run(run: RunDirectory, name: str, tmp_path: Path) -> None:
    content = pickle.dumps(Trap(tmp_path / "sprung"))
    place = run.checkpoint_path(4)
    (place / name).write_bytes(content)
    # Even a manifest that vouches for it does not help.
    contents = {file: (place / file).read_bytes() for file in FILES}
    lines = [f"{hashlib.sha256(found).hexdigest()}  {file}\n" for file, found in contents.items()]
    (place / "MANIFEST").write_text("".join(lines))
    with pytest.raises(DamagedCheckpoint, match="step-000004 is damaged"):
        run.read_checkpoint(4)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "recursion"),
        ("[]", "state.json is \\[\\]; an object needed"),
        ('{"step": "4"}', 'state.json: step is "4"; a whole number needed'),
        ('{"step": 4, "best": {"step": null}}', "state.json: best: step is null; a whole number needed"),
        ('{"step": 4}', "state.json: step and best.step needed"),
        ('{"step": 4, "best": {"step": 4}, "phase": 1}', "state.json: phase is unknown; step, seconds, best"),
    ],
)
def test_a_state_that_training_cannot_have_written_is_damage(run: RunDirectory, content: str, said: str) -> None:
    place = run.checkpoint_path(4)
    (place / "state.json").write_text(content)
    lines = [f"{hashlib.sha256((place / file).read_bytes()).hexdigest()}  {file}\n" for file in FILES]
    (place / "MANIFEST").write_text("".join(lines))
    with pytest.raises(DamagedCheckpoint, match=f"step-000004 is damaged: .*{said}"):
        run.read_checkpoint(4)
    assert run.newest_state() == checkpoint(2).state
    assert "step-000004 is damaged" in run.damaged_state()


def test_what_a_kill_left_beside_the_checkpoints_is_not_one_and_goes(run: RunDirectory) -> None:
    beside = run.path / "checkpoints" / "writing-step-000006"
    beside.mkdir()
    assert run.checkpoint_steps() == [2, 4]
    run.keep_checkpoints({4})
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-000004"]


def test_a_second_writer_is_refused(run: RunDirectory) -> None:
    with run.lock():
        with pytest.raises(InputError, match=f"is being written by process {os.getpid()}$"):
            with RunDirectory(run.path).lock():
                pass
    with run.lock():
        pass


def test_a_lock_left_by_a_killed_process_is_taken_over_and_names_nobody(run: RunDirectory) -> None:
    (run.path / "lock").write_text("1 elsewhere")
    run.check_not_locked()
    with run.lock():
        with pytest.raises(InputError, match=f"is being written by process {os.getpid()}$"):
            run.check_not_locked()
    run.check_not_locked()
    assert (run.path / "lock").read_text() == ""


def test_a_lock_on_a_full_disk_holds_without_a_name(run: RunDirectory) -> None:
    (run.path / "lock").unlink(missing_ok=True)
    (run.path / "lock").symlink_to("/dev/full")
    with run.lock():
        pass


HOLDER = """
import sys, time
from headway.runs import RunDirectory
with RunDirectory(sys.argv[1]).lock():
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_is_free_after_its_holder_was_killed(run: RunDirectory) -> None:
    line = [sys.executable, "-c", HOLDER, str(run.path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"is being written by process {holder.pid}$"):
            with run.lock():
                pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with run.lock():
        pass


def test_a_half_written_line_of_metrics_is_left_out_and_spoils_no_other(run: RunDirectory) -> None:
    run.append_metrics({"step": 1, "loss": 2.0})
    with (run.path / "metrics.jsonl").open("a") as handle:
        handle.write('{"step": 2, "lo')
    assert run.metrics() == [{"step": 1, "loss": 2.0}]
    run.mend_metrics()
    run.append_metrics({"step": 2, "loss": 1.5})
    assert run.metrics() == [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5}]


def test_metrics_after_a_resume_replace_what_was_done_twice(run: RunDirectory) -> None:
    for step in (1, 2, 3):
        run.append_metrics({"step": step, "loss": 9.0})
    run.append_metrics({"resumed_at": 1})
    for step in (2, 3):
        run.append_metrics({"step": step, "loss": 1.0})
    found = [(record["step"], record["loss"]) for record in run.metrics() if "step" in record]
    assert found == [(1, 9.0), (2, 1.0), (3, 1.0)]


def test_metrics_that_are_not_finite_are_never_written(run: RunDirectory) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.append_metrics({"step": 1, "loss": float("nan")})
    assert run.metrics() == []


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_checksum_of_a_line_covers_that_of_the_line_before(run: RunDirectory) -> None:
    """Computed by hand: each covers [checksum before, content], with keys in alphabetical order."""
    run.append_metrics({"step": 1, "loss": 2.0})
    run.append_metrics({"step": 2, "loss": 1.5}, {"step": 3, "loss": 1.0})
    previous, expected = "", []
    for content in ('{"loss": 2.0, "step": 1}', '{"loss": 1.5, "step": 2}', '{"loss": 1.0, "step": 3}'):
        previous = sha256_of(f'["{previous}", {content}]')[:16]
        expected.append(previous)
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["sha256"] for line in lines] == expected


@pytest.mark.parametrize(
    ("kept", "number", "reason"),
    [
        ((1, 2, 3, 4), 1, ""),
        ((0, 2, 3, 4), 2, ", or lines before it are missing"),
        ((0, 1, 4), 3, ", or lines before it are missing"),
        ((0, 2, 1, 3, 4), 2, ", or lines before it are missing"),
        ((0, 1, 1, 2, 3, 4), 3, ", or lines before it are missing"),
    ],
)
def test_a_line_of_metrics_that_is_missing_or_elsewhere_is_noticed(
    run: RunDirectory, kept: tuple[int, ...], number: int, reason: str
) -> None:
    run.append_metrics(*({"step": step, "loss": 1.0} for step in range(1, 6)))
    path = run.path / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[place] for place in kept))
    with pytest.raises(InputError) as refused:
        run.metrics()
    told = "is damaged or was edited: its content does not match its sha256"
    assert str(refused.value) == f"{path}: line {number} {told}{reason}"


def backwards(value: object) -> object:
    """The same JSON with the keys of every object in the opposite order."""
    if isinstance(value, list):
        return [backwards(one) for one in value]
    return {key: backwards(value[key]) for key in reversed(value)} if isinstance(value, dict) else value


def test_a_document_with_its_keys_in_another_order_is_whole(tmp_path: Path) -> None:
    content = {"step": 3, "heads": [{"name": "enc0.self.h1", "drop": 2.5}, {}], "about": {"task": "addition", "a": 1}}
    path = tmp_path / "found.json"
    write_json(path, content)
    stored = json.loads(path.read_text())
    assert stored["sha256"] == sha256_of(json.dumps(content, sort_keys=True))
    path.write_text(json.dumps(backwards(stored)))
    assert path.read_text().startswith('{"sha256": "'), "the order is another one"
    assert read_document(path) == content
    path.write_text(path.read_text().replace("2.5", "2.6"))
    with pytest.raises(InputError, match=r"found\.json is damaged or was edited"):
        read_document(path)


def test_a_line_with_its_keys_in_another_order_is_whole(run: RunDirectory) -> None:
    rows = [{"step": step, "loss": 1.0, "lr": 0.5} for step in (1, 2)]
    run.append_metrics(*rows)
    path = run.path / "metrics.jsonl"
    path.write_text("".join(json.dumps(backwards(json.loads(line))) + "\n" for line in path.read_text().splitlines()))
    assert run.metrics() == rows


@pytest.mark.parametrize("damage", ["", "{", "[1]", "\x00"])
def test_what_was_found_is_kept_where_the_file_before_cannot_be_read(run: RunDirectory, damage: str) -> None:
    path = run.path / "analysis" / "evaluation.json"
    path.parent.mkdir()
    path.write_text(damage)
    aside = run.add_to_analysis("evaluation", {"test": {"n": 3}})
    assert run.read_analysis("evaluation") == {"test": {"n": 3}}
    assert aside == path.with_name("evaluation.json.damaged")
    assert aside.read_text() == damage
    assert run.add_to_analysis("evaluation", {"all": {"n": 5}}) is None
    assert run.read_analysis("evaluation") == {"test": {"n": 3}, "all": {"n": 5}}, "one split beside the other"


def test_a_file_that_cannot_be_opened_is_not_taken_for_damaged(run: RunDirectory) -> None:
    path = run.path / "analysis" / "evaluation.json"
    path.mkdir(parents=True)
    with pytest.raises(InputError, match=r"evaluation.json cannot be read: .*Is a directory"):
        run.add_to_analysis("evaluation", {"test": {"n": 3}})
    assert path.is_dir()


def test_a_run_without_metrics_or_analysis_has_none(run: RunDirectory) -> None:
    assert run.metrics() == []
    assert run.read_analysis("evaluation") is None
    run.add_to_analysis("evaluation", {"test": {"n": 3}})
    assert run.read_analysis("evaluation") == {"test": {"n": 3}}


def test_config_and_provenance_come_back_as_they_were_written(run: RunDirectory) -> None:
    assert run.config() == CONFIG
    assert run.provenance() == {"seed": 0}
    run.note_resume({"threads": 1})
    run.note_resume({"threads": 2})
    assert run.provenance() == {"seed": 0, "resumed": [{"threads": 1}, {"threads": 2}]}


def test_list_runs_finds_runs_by_name_and_nothing_else(tmp_path: Path) -> None:
    for name in ("b", "a"):
        RunDirectory(tmp_path / name).create(CONFIG, {})
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    assert [found.name for found in list_runs(tmp_path)] == ["a", "b"]
    assert list_runs(tmp_path / "nowhere") == []


def test_a_run_is_found_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RunDirectory("runs/mine").create(CONFIG, {})
    assert RunDirectory.find("mine").path == Path("runs/mine")
    assert RunDirectory.find("runs/mine").path == Path("runs/mine")
    with pytest.raises(InputError, match=r"known under \./runs: mine"):
        RunDirectory.find("yours")


def test_everything_in_a_run_is_safetensors_or_json(run: RunDirectory) -> None:
    for path in run.path.rglob("*.json"):
        json.loads(path.read_text())
    suffixes = {path.suffix for path in run.path.rglob("*") if path.is_file() and path.name != "MANIFEST"}
    assert suffixes == {".json", ".safetensors"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"step": 2, "loss": "text"}', "loss at step 2 is 'text'; a number needed"),
        ('{"step": 2, "loss": NaN}', "loss at step 2 is nan; a number needed"),
        ('{"step": [2]}', r"step is \[2\]; a number needed"),
        ('{"step": 2, "validation": {"loss": 1}}', "validation.accuracy at step 2 is None; a number needed"),
        ('{"step": 2, "validation": 3}', "validation is 3; an object needed"),
        ('{"resumed_at": null}', "resumed_at is None; a number needed"),
    ],
)
def test_metrics_that_headway_never_writes_are_refused(run: RunDirectory, line: str, message: str) -> None:
    with (run.path / "metrics.jsonl").open("a") as handle:
        handle.write(line + "\n")
    with pytest.raises(InputError, match=f"metrics.jsonl: {message}"):
        run.metrics()


def test_steps_are_ordered_as_numbers(run: RunDirectory) -> None:
    for step in (1_000_000, 999_999):
        run.checkpoint_path(step).mkdir(parents=True)
    assert run.checkpoint_steps() == [2, 4, 999_999, 1_000_000]
