"""The commands do what their help says, on models so small that they learn nothing."""

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway import evaluation
from headway.cli.main import run
from headway.cli.runs import ListedRun
from headway.results.evaluation import SequenceEvaluation
from headway.runs import RunDirectory
from tests.tiny_recipes import RECIPES, write_recipe

COMMANDS = ["study", "train", "evaluate", "data", "runs"]
TASKS = list(RECIPES)
SIZES = "--set data.train=40 --set data.validation=8 --set data.test=8"
OPTIONS = {
    "addition": "--set task.digits=2",
    "addition-text": "--set task.max_characters=12 --set task.test_lengths=[16]",
    "sortedness": "--set task.min_length=3 --set task.max_length=5 --set task.test_lengths=[7]",
}


class Shell:
    """Runs command lines in this process and keeps what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]):
        self.capsys = capsys
        self.stdout = self.stderr = ""

    def __call__(self, command: str) -> str:
        """Run a command that must succeed; what it wrote to stdout."""
        code = run(shlex.split(command))
        self.stdout, self.stderr = self.capsys.readouterr()
        assert code == 0, self.stderr
        return self.stdout

    def json(self, command: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(f"{command} --json"))
        return found


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in an empty directory with the tiny recipe of each task."""
    for task in TASKS:
        write_recipe(tmp_path, task, task)
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("task", TASKS)
def test_train_then_evaluate_then_runs(shell: Shell, task: str) -> None:
    trained = shell.json(f"train {task}.toml --seed 3")
    assert trained["run"] == f"runs/{task}-seed3"
    assert trained["steps"] == 4
    assert trained["seconds"] > 0
    assert {"validation_loss", "validation_accuracy", "best_step"} <= trained["metrics"].keys()

    found = shell.json(f"evaluate {task}-seed3")
    assert found["n"] == 16
    assert 0 <= found["wrong"] <= 16
    if task == "sortedness":
        assert found["accuracy"] == 1 - found["wrong"] / 16
        assert 0 <= found["balanced_accuracy"] <= 1
        assert found["answer_shares"].keys() == {"0", "1"}
        assert sum(found["answer_shares"].values()) == pytest.approx(1)
    else:
        assert found["exact_match"] == 1 - found["wrong"] / 16
        assert found["decoded_n"] == 16
        assert found["decoded_wrong"] == found["wrong"]
        assert found["disagreements"] == 0
    stored = RunDirectory(f"runs/{task}-seed3").read_analysis("evaluation")
    assert stored == {"test": found}

    (row,) = shell.json("runs")["runs"]
    assert (row["run"], row["task"], row["state"], row["steps"]) == (f"{task}-seed3", task, "finished", 4)


def test_runs_lists_the_accuracy_of_the_last_validation(shell: Shell) -> None:
    shell("train addition.toml --out runs/mine")
    made = RunDirectory("runs/mine")
    rows = made.metrics()
    first, last = rows[0], rows[-1]
    assert "validation" in first and "validation" in last
    first["validation"]["accuracy"], last["validation"]["accuracy"] = 0.125, 0.75
    (made.path / "metrics.jsonl").unlink()
    made.append_metrics(*rows)
    assert shell.json("runs")["runs"][0]["accuracy"] == 0.75


@pytest.mark.parametrize("split", ["train", "validation", "test", "all"])
def test_evaluate_measures_the_split_that_was_asked_for(shell: Shell, split: str) -> None:
    few = "--set data.train=30 --set data.validation=4 --set data.test=4"
    shell(f"train addition.toml --out run --set task.digits=1 {few}")
    sizes = {"train": 30, "validation": 4, "test": 4, "all": 81}
    found = shell.json(f"evaluate run --split {split}")
    assert (found["split"], found["n"], found["decoded_n"]) == (split, sizes[split], sizes[split])


def test_evaluate_reads_the_checkpoint_that_was_asked_for(shell: Shell) -> None:
    shell("train addition.toml --out run")
    assert shell.json("evaluate run --checkpoint 0")["step"] == 0
    assert shell.json("evaluate run --checkpoint step-2")["step"] == 2
    assert shell.json("evaluate run --checkpoint last")["step"] == 4


def test_evaluate_names_a_damaged_checkpoint_and_uses_the_one_before(shell: Shell) -> None:
    shell("train addition.toml --out run")
    Path("run/checkpoints/step-000004/model.safetensors").write_bytes(b"")
    assert shell.json("evaluate run --checkpoint last")["step"] == 2
    assert "headway: warning: step-000004 is damaged" in shell.stderr


def test_evaluate_says_where_it_put_a_file_that_cannot_be_read(shell: Shell) -> None:
    shell("train addition.toml --out run")
    Path("run/analysis").mkdir(exist_ok=True)
    Path("run/analysis/evaluation.json").write_text("{")
    assert shell.json("evaluate run")["n"] == 16
    assert "renamed to run/analysis/evaluation.json.damaged" in shell.stderr
    assert shell.json("evaluate run")["n"] == 16
    assert "aside" not in shell.stderr


@pytest.mark.parametrize(("differing", "real", "code"), [(0, 0, 0), (3, 0, 0), (3, 1, 1), (2, 2, 1)])
def test_evaluate_ends_with_1_where_decoding_differs_by_more_than_a_near_tie(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, differing: int, real: int, code: int
) -> None:
    shell("train addition.toml --seed 3 --quiet")
    found = evaluation.evaluate("runs/addition-seed3")
    assert isinstance(found, SequenceEvaluation)
    differs = replace(found, disagreements=differing, real_disagreements=real)
    monkeypatch.setattr(evaluation, "evaluate", lambda *arguments, **options: differs)
    assert run(["evaluate", "addition-seed3", "--quiet"]) == code


def test_people_get_a_few_lines_instead_of_json(shell: Shell) -> None:
    assert "4 steps" in shell("train addition.toml --out runs/mine")
    assert " of 16 answers " in shell("evaluate mine")
    assert "mine" in shell("runs")
    assert "train.json: 40 examples" in shell(f"data addition --out data {OPTIONS['addition']} {SIZES}")
    assert shell("runs data") == "no runs in data\n"


@pytest.mark.parametrize(
    "command",
    [
        "train addition.toml --out new",
        "train addition.toml --out run --resume",
        "evaluate run",
        "runs",
        f"data addition --out data {OPTIONS['addition']} {SIZES}",
    ],
)
def test_quiet_prints_nothing_on_stderr(shell: Shell, command: str) -> None:
    shell("train addition.toml --out run")
    shell(f"{command} --quiet")
    assert shell.stderr == ""


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(shell: Shell, tmp_path: Path) -> None:
    before = files(tmp_path)
    text = shell("train addition.toml --dry-run")
    assert "runs/addition-seed0: addition, seed 0, on" in text
    assert "4 steps of 8 examples" in text
    found = shell.json("train addition.toml --dry-run --set train.epochs=2")
    assert found["steps"] == 16
    assert found["parameters"] > 0
    assert found["config"]["model"]["d_head"] == 4
    assert files(tmp_path) == before


def test_seeds_make_one_run_each(shell: Shell) -> None:
    found = shell.json("train addition.toml --seeds 0-1 --out both")
    assert [result["run"] for result in found["runs"]] == ["both/addition-seed0", "both/addition-seed1"]
    weights = [Path(result["run"], "checkpoints/step-000004/model.safetensors") for result in found["runs"]]
    assert weights[0].read_bytes() != weights[1].read_bytes()
    assert [row["run"] for row in shell.json("runs both")["runs"]] == ["addition-seed0", "addition-seed1"]


def test_the_same_seed_gives_the_same_weights(shell: Shell) -> None:
    for name in ("one", "two"):
        shell(f"train addition.toml --seed 5 --out {name}")
    one, two = (Path(name, "checkpoints/step-000004/model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_resuming_a_finished_run_changes_no_weights(shell: Shell) -> None:
    shell("train addition.toml --out run")
    weights = Path("run/checkpoints/step-000004/model.safetensors").read_bytes()
    assert shell.json("train addition.toml --out run --resume")["steps"] == 4
    assert Path("run/checkpoints/step-000004/model.safetensors").read_bytes() == weights


@pytest.mark.parametrize("task", TASKS)
def test_a_run_trained_on_files_keeps_its_own_copy(shell: Shell, task: str) -> None:
    written = shell.json(f"data {task} --out data {OPTIONS[task]} {SIZES}")
    assert written["files"].items() >= {"train.json": 40, "val.json": 8, "test.json": 8}.items()
    train = f"train {task}.toml --out run --data data"
    assert shell.json(train)["steps"] == 4
    assert shell.json("evaluate run --split train")["n"] == 40
    before = shell.json("evaluate run")
    assert RunDirectory("run").provenance()["data_sha256"].keys() == written["files"].keys()

    shutil.rmtree("data")
    assert shell.json("evaluate run") == before
    assert shell.json(f"train {task}.toml --out run --resume")["steps"] == 4


def test_an_accepted_overlap_stays_on_record(shell: Shell) -> None:
    shell(f"data addition --out data {OPTIONS['addition']} {SIZES}")
    shutil.copyfile("data/val.json", "data/test.json")
    shell("train addition.toml --out run --data data --allow-overlap")
    assert RunDirectory("run").provenance()["overlap"] == {"validation and test": 8}
    assert RunDirectory("run").config().data.allow_overlap
    assert shell.json("evaluate run")["n"] == 8


def test_a_run_says_how_it_was_made(shell: Shell) -> None:
    shell("train addition.toml --out run --seed 2")
    record = RunDirectory("run").provenance()
    assert record["seed"] == 2
    assert record["threads"] == 1
    assert record["versions"].keys() == {"python", "headway", "torch", "numpy", "scipy", "safetensors"}
    assert {"commit", "device", "command", "time"} <= record.keys()


def test_an_unfinished_or_unreadable_run_does_not_hide_the_others(shell: Shell) -> None:
    shell("train addition.toml --out runs/good")
    shutil.copytree("runs/good", "runs/bad")
    Path("runs/bad/config.json").write_text("{")
    states = {row["run"]: row["state"] for row in shell.json("runs")["runs"]}
    assert states == {"bad": "unreadable", "good": "finished"}


@pytest.mark.parametrize("line", ['{"step": 1}', '{"step": 1, "train_loss": NaN}', "{}", "[]", "a text"])
def test_a_run_whose_metrics_lack_a_number_does_not_hide_the_others(shell: Shell, line: str) -> None:
    shell("train addition.toml --out runs/good")
    shutil.copytree("runs/good", "runs/bad")
    Path("runs/bad/metrics.jsonl").write_text(f"{line}\n")
    rows = {row["run"]: row for row in shell.json("runs")["runs"]}
    assert rows["good"]["state"] == "finished"
    assert rows.keys() == {"bad", "good"}


NOT_FINITE = ListedRun(run="mine", task="addition", state="unfinished", steps=5, accuracy=float("nan"))


def test_a_number_that_json_does_not_have_is_an_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("train addition.toml --out runs/mine")
    monkeypatch.setattr("headway.cli.runs.describe", lambda run: NOT_FINITE)
    assert run(["runs", "--json"]) == 1
    line = "headway: --json: the result contains a non-finite number, which JSON cannot represent\n"
    assert shell.capsys.readouterr() == ("", line)


def test_help_names_every_command(shell: Shell) -> None:
    text = shell("--help")
    assert all(f"  {command} " in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_an_example_and_its_options(shell: Shell, command: str) -> None:
    text = shell(f"{command} --help")
    assert f"Example: headway {command}" in text
    assert all(option in text for option in ("--json", "--quiet"))


def test_version_is_printed(shell: Shell) -> None:
    assert shell("--version").startswith("headway 0.")


PEEK = """
import sys
from headway.cli.main import run
assert run(["--help"]) == 0
assert run(["train", "--help"]) == 0
print(sorted({"torch", "numpy", "scipy"} & sys.modules.keys()))
"""


def test_help_does_not_wait_for_slow_imports() -> None:
    process = subprocess.run([sys.executable, "-c", PEEK], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "[]"
