"""Nothing is overwritten: outputs leave alone what headway did not write, and what a run is made of.

The commands are found in the app itself, so that a new one with an output has no test only until this fails.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch
from matplotlib.figure import Figure

from headway.cli.main import app, run
from headway.cli.prune import summary
from headway.head_analysis.pruning import Finetuned, PruneResult
from headway.reports.style import save
from headway.runs import RunDirectory, StudyDirectory, SweepDirectory, check_outputs, owner_of
from headway.storage import is_written_by_headway
from headway.training import train
from tests.tiny import SORTEDNESS, config
from tests.tiny_recipes import write_recipe

MINE = "written by hand\n"
INPUTS = {"check", "data", "predictions", "results", "folder", "weights"}
"""Options that are paths and are read."""

FILES = {"explore": ["page.html"]}
"""What each command writes below --out; a file where --out is the file itself."""
FOLDERS = {
    "report": ["index.html", "report.md"],
    "lengths": ["analysis/lengths.json", "report/figures/lengths-curves.png"],
}
ARGUMENTS = {
    "explore": ["run"],
    "report": ["run"],
    "lengths": ["run", "--at", "7", "--n", "20"],
    "data": ["sortedness", "--set", "data.train=20", "--set", "data.validation=20", "--set", "data.test=20"],
    "prune": ["run", "--keep", "enc0.self.h0"],
    "convert": ["weights.pth"],
    "heads": ["model.py:build", "--weights", "weights.safetensors", "--data", "data"],
    "study": ["sortedness", "--preset", "quick"],
    "sweep": ["tiny.toml"],
    "train": ["tiny.toml"],
}
ONLY_NEW = ("convert", "data", "heads", "prune", "study", "sweep", "train")
"""Commands whose output is a new directory or file of its own: refused without a way to force it."""


def commands_with_an_output() -> dict[str, set[str]]:
    """Every command that has a path which it does not read, with the names of all its options."""
    found = {}
    for command in app.registered_commands:
        assert command.callback is not None
        hints = get_type_hints(command.callback, localns={"Path": Path})
        paths = {name for name, kind in hints.items() if Path in (kind, *get_args(kind))}
        if paths - INPUTS:
            found[command.callback.__name__] = set(hints)
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs")
    train(config(SORTEDNESS, train={"steps": 2}), folder / "run", device="cpu")
    write_recipe(folder)
    torch.save({"weight": torch.zeros(2, 3)}, folder / "weights.pth")
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of one's own, with a run and a recipe."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


QUICK = {"lengths": ["--no-figures"]}
"""Where figures take seconds, what is written is written without."""


def call(command: str, out: Path | str, *more: str) -> int:
    return run([command, *ARGUMENTS[command], "--out", str(out), "--quiet", *more])


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks, which hold nothing."""
    return {
        str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"
    }


def occupied(command: str) -> tuple[str, list[Path]]:
    """An output of the command, and files by hand that stand where it would write."""
    paths = [Path("there.html")] if command in FILES else [Path("there") / name for name in FOLDERS.get(command, ["a"])]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MINE)
    return "there.html" if command in FILES else "there", paths


def test_every_command_with_an_output_is_tested_here() -> None:
    found = commands_with_an_output()
    for name in ("new", "exercise"):  # their directory is an argument, which tests of their own hold
        found.pop(name)
    assert set(found) == set(ARGUMENTS) == {*FILES, *FOLDERS, *ONLY_NEW}
    assert {name for name, options in found.items() if "force" in options} == {*FILES, *FOLDERS}
    assert all("out" in options for options in found.values())


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_file_that_headway_did_not_write_stays(command: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = occupied(command)
    before = contents(here)
    assert call(command, out) == 2
    assert contents(here) == before
    told = capsys.readouterr().err
    assert told.startswith("headway: ") and told.count("\n") == 1 and out in told
    assert ("add --force" in told) == (command not in ONLY_NEW)


@pytest.mark.parametrize("command", [*FILES, *FOLDERS])
def test_each_of_its_files_is_looked_at_and_force_replaces_them(command: str, here: Path) -> None:
    out, paths = occupied(command)
    for path in paths:
        for other in paths:
            other.unlink(missing_ok=True)
        path.write_text(MINE)
        assert call(command, out) == 2, path
        assert path.read_text() == MINE
    paths[0].write_text(MINE)
    assert call(command, out, "--force", *QUICK.get(command, [])) == 0
    assert is_written_by_headway(paths[0])


@pytest.mark.parametrize("command", [*FILES, *FOLDERS])
def test_what_headway_wrote_is_replaced_without_a_word(command: str, here: Path) -> None:
    out = "there.html" if command in FILES else "there"
    assert call(command, out, *QUICK.get(command, [])) == 0
    written = [path for path in Path(out).rglob("*") if path.is_file()] or [Path(out)]
    assert [path for path in written if not is_written_by_headway(path)] == []
    assert call(command, out, *QUICK.get(command, [])) == 0


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["plain", "forced"])
@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("explore", "run/config.json"),
        ("explore", "run/metrics.jsonl"),
        ("explore", "run/checkpoints/step-000002/model.safetensors"),
        ("explore", "run/kept/step-000002/model.safetensors"),
        ("explore", "run/analysis/heads.json"),
        ("explore", "link.html"),
        ("report", "run/analysis"),
        ("report", "run/checkpoints/step-000002"),
        ("report", "run/kept"),
        ("lengths", "run/data"),
        ("lengths", "run"),
    ],
)
def test_a_runs_own_files_are_never_an_output(
    command: str, out: str, force: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("link.html").symlink_to(here / "run" / "config.json")
    before = contents(here)
    assert call(command, out, *force) == 2
    assert contents(here) == before
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and out in told and ("is part of the run" in told or "is a run" in told)


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["plain", "forced"])
@pytest.mark.parametrize("file", ["run/config.json", "run/metrics.jsonl", "run/kept/notes.tex", "run/checkpoints"])
def test_latex_replaces_none_of_a_runs_own_files(
    file: str, force: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(here)
    assert run(["report", "run", "--methods", file, "--quiet", *force]) == 2
    assert contents(here) == before
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"--methods {file} is part of the run" in told


def test_latex_is_replaced_where_headway_wrote_it_and_never_a_directory(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "run", "--methods", "there.tex", "--quiet"]) == 0
    assert is_written_by_headway(Path("there.tex"))
    assert run(["report", "run", "--methods", "there.tex", "--quiet"]) == 0
    Path("folder").mkdir()
    capsys.readouterr()
    assert run(["report", "run", "--methods", "folder", "--quiet", "--force"]) == 2
    assert capsys.readouterr().err == "headway: --methods folder is a directory; a file needed\n"


def test_a_page_without_out_does_not_replace_a_file_either(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("run-explorer.html").write_text(MINE)
    assert run(["explore", "run", "--quiet"]) == 2
    assert Path("run-explorer.html").read_text() == MINE
    assert (
        "run-explorer.html was not written by headway; choose another path, or add --force" in capsys.readouterr().err
    )


def test_a_stranger_s_provenance_is_not_taken_for_a_run_that_was_killed(here: Path) -> None:
    Path("new").mkdir()
    Path("new/provenance.json").write_text('{"from": "elsewhere"}')
    assert call("train", "new") == 2
    assert Path("new/provenance.json").read_text() == '{"from": "elsewhere"}'


def test_figures_bear_the_mark(tmp_path: Path) -> None:
    paths = save(Figure((1, 1)), tmp_path, "figure")
    assert [path.suffix for path in paths if is_written_by_headway(path)] == [".png", ".svg"]


MARKED: dict[str, tuple[bytes, bool]] = {
    "empty": (b"", False),
    "plain text that names headway": (b"this was written by headway\n", False),
    "markdown that quotes the mark": (b"# Notes\n\n<!-- generator: headway -->\n", False),
    "a page of another program": (b'<!doctype html><meta name="generator" content="Hugo 0.1">', False),
    "a page": (b'<!doctype html>\n<html>\n<meta name="generator" content="headway">', True),
    "markdown": (b"<!-- generator: headway -->\n\n# Report", True),
    "a document": (b'{\n "generator": "headway",\n "runs": []}', True),
    "a document of another program": (b'{"runs": [], "generator": "headway"}', False),
    "bytes": (bytes(range(256)), False),
}


@pytest.mark.parametrize("name", MARKED)
def test_the_mark_stands_where_headway_puts_it(name: str, tmp_path: Path) -> None:
    content, ours = MARKED[name]
    (tmp_path / "file").write_bytes(content)
    assert is_written_by_headway(tmp_path / "file") is ours
    assert not is_written_by_headway(tmp_path / "none")
    assert not is_written_by_headway(tmp_path)


@pytest.mark.parametrize(
    ("kind", "mark", "name"),
    [
        (RunDirectory, "config.json", "checkpoints"),
        (StudyDirectory, "study.json", "analysis"),
        (SweepDirectory, "sweep.json", "results.jsonl"),
    ],
)
def test_runs_studies_and_sweeps_own_what_they_are_made_of(
    kind: Callable[[Path], object], mark: str, name: str, tmp_path: Path
) -> None:
    assert owner_of(tmp_path / name) is None
    (tmp_path / mark).write_text("{}")
    assert kind(tmp_path).exists()  # type: ignore[attr-defined]
    for path in (tmp_path / mark, tmp_path / name, tmp_path / name / "deep" / "er", tmp_path / "x" / ".." / name):
        found = owner_of(path)
        assert found is not None and found[1] == tmp_path.resolve()
    assert owner_of(tmp_path / "report" / "index.html") is None
    check_outputs([tmp_path / "report" / "index.html", tmp_path / "new.html"], force=False)


def test_prune_prints_the_drop_with_its_own_interval_before_and_after_training_on() -> None:
    before = {"n": 400, "exact_match_before": 0.95, "exact_match_after": 0.80, "drop": 15.0}
    after = Finetuned(
        n=400,
        exact_match_before=0.95,
        exact_match_after=0.925,
        drop=2.5,
        drop_interval=(0.5, 4.5),
        steps=1_200,
        best_step=900,
    )
    result = PruneResult(
        **before,
        drop_interval=(11.0, 19.0),
        run="runs/a-pruned",
        pruned_from="runs/a",
        kept=["enc0.self.h1", "enc1.self.h0"],
        removed=["enc0.self.h0"],
        chosen="named",
        parameters_before=1_500,
        parameters_after=1_300,
        speed=1.25,
        logits_apart=2e-6,
    )
    assert summary(result)[-1] == "accuracy on 400 test examples 95 % -> 80 %, drop 15.0 points (11.0 to 19.0)"
    lines = summary(replace(result, finetuned=after))
    assert lines[:-1] == summary(result)
    assert lines[-1] == "after 1,200 steps of training (best at 900): 92.5 %, drop 2.5 points (0.50 to 4.5)"
