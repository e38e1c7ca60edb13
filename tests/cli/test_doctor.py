"""`headway doctor`: exit codes, the table, the document, and what is written into the run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from headway.cli.doctor import specimen_lines
from headway.cli.main import run as headway
from headway.diagnosis import specimens
from headway.results.doctor import Diagnoses, Diagnosis, Exhibit, Finding, SpecimenDiagnosis
from headway.runs import Checkpoint, RunDirectory
from headway.training import train
from tests.diagnosis.files import predict, rows_of, write_data
from tests.tiny import SORTEDNESS, config

SOUND = {"data": {"train": 300, "validation": 30, "test": 30}, "train": {"steps": 40, "batch_size": 32}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two seeds that have learned a little."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        train(config(SORTEDNESS, seed=seed, **SOUND), folder / f"seed{seed}", device="cpu")
    return [str(folder / f"seed{seed}") for seed in (0, 1)]


def test_a_healthy_run_ends_with_0_and_its_diagnosis_is_kept(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert headway(["doctor", runs[0], "--quiet", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert " nothing wrong" in shown and "  error " not in shown
    assert "  fine     special-token-is-symbol, " in shown
    kept = RunDirectory(runs[0]).read_analysis("doctor")
    assert kept is not None
    assert kept["checked"] == len(kept["findings"]) >= 15
    assert Diagnosis.from_json(kept).to_json() == kept


def test_all_shows_what_is_fine_with_its_evidence(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert headway(["doctor", runs[0], "--quiet", "--device", "cpu", "--all"]) == 0
    assert "split-overlap: No problem is in two of train (300)" in capsys.readouterr().out


def test_several_seeds_are_one_document_with_what_they_say_together(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert headway(["doctor", *runs, "--json", "--device", "cpu"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["run"] for one in document["runs"]] == runs
    assert [(one["check"], one["level"]) for one in document["together"]] == [("too-few-seeds", "warning")]
    assert Diagnoses.from_json(document).to_json() == document
    assert headway(["doctor", *runs, "--quiet", "--device", "cpu"]) == 0
    assert "2 seeds together" in capsys.readouterr().out


def test_an_error_ends_with_1(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(config(SORTEDNESS, seed=3, train={"steps": 4, "validate_every": 4}), tmp_path / "run", device="cpu")
    directory = RunDirectory(tmp_path / "run")
    last = directory.read_checkpoint(4)
    last.model["readout.bias"][1] += 50
    state = {**last.state, "best": {"step": 4, **directory.metrics()[-1]["validation"]}}
    directory.write_checkpoint(Checkpoint(4, last.model, last.trainer, state))
    assert headway(["doctor", str(tmp_path / "run"), "--quiet", "--device", "cpu"]) == 1
    shown = capsys.readouterr().out
    assert "  error    checkpoint-mismatch: This checkpoint has validation loss" in shown
    assert "-> Find the checkpoint of these metrics" in shown
    assert headway(["doctor", runs[0], str(tmp_path / "run"), "--quiet", "--device", "cpu"]) == 1
    assert "the runs are not seeds of one recipe" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RUN is missing: give a run directory, or the name of one under ./runs"),
        (["nowhere"], "no run at nowhere or runs/nowhere"),
        (["--predictions", "a.jsonl"], "--predictions needs --data DIR, the data on which it was made"),
        (["--results", "a.csv"], "--results needs --data DIR, the data on which it was made"),
        (
            ["--specimens", "--data", "a"],
            "--data belongs to --predictions, --results and other models, not to --specimens",
        ),
        (["a", "--specimens"], "RUN and --specimens exclude each other; give one of them"),
        (["--results", "a", "--predictions", "b"], "--predictions and --results exclude each other; give one"),
        (["--results", "a.csv", "--data", "nowhere"], "--data nowhere: no such directory"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headway(["doctor", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("heads", "{", "heads.json cannot be read"),
        ("heads", '{"form": 1}', "heads.json: run is missing; a text needed"),
        ("heads", '{"form": 1000000}', "heads.json: form is 1000000; this version reads 1"),
        ("lengths", '{"run": "a", "rows": [{}]}', "lengths.json"),
        ("lengths", '{"run": "a", "rows": [NaN]}', "lengths.json"),
    ],
)
def test_damaged_findings_are_left_out_with_a_warning(
    name: str, content: str, said: str, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(runs[1]) / "analysis" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    assert headway(["doctor", runs[1], "--quiet", "--device", "cpu"]) == 0
    path.unlink()
    printed = capsys.readouterr()
    assert printed.err.startswith("headway: warning: ")
    assert said in printed.err
    assert "it is left out" in printed.err
    assert printed.err.count("\n") == 1
    assert " nothing wrong" in printed.out and "  error " not in printed.out


@pytest.mark.parametrize(
    ("line", "said", "checksums"),
    [
        *[(line, "line 47", True) for line in ('{"step": 41, "loss": NaN}', '{"step": "forty"}', "a text")],
        ('{"step": 41, "loss": NaN}', "loss at step 41 is nan; a number needed", False),
        ('{"step": "forty"}', "step is 'forty'; a number needed", False),
        ('{"step": 41, "loss": "a"}', "loss at step 41 is 'a'; a number needed", False),
    ],
)
def test_metrics_that_are_no_numbers_are_refused_in_one_line(
    line: str, said: str, checksums: bool, runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs[0], tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    rows = [json.loads(row) for row in metrics.read_text().splitlines()]
    whole = [json.dumps({key: value for key, value in row.items() if checksums or key != "sha256"}) for row in rows]
    metrics.write_text("\n".join([*whole, line, whole[-1], ""]))
    assert headway(["doctor", str(tmp_path / "run"), "--quiet", "--device", "cpu"]) == 2
    printed = capsys.readouterr()
    assert f"metrics.jsonl: {said}" in printed.err
    assert printed.err.count("\n") == 1


def test_runs_inside_a_directory_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in range(5):
        RunDirectory(f"studies/mine/runs/seed{seed}").create(config(SORTEDNESS, seed), {})
    for text in ("studies/mine", "mine", "studies/mine/runs"):
        assert headway(["doctor", text]) == 2
        said = capsys.readouterr().err
        assert " is not a run; runs in it: studies/mine/runs/seed0, " in said
        assert said.endswith("studies/mine/runs/seed3 and more\n")


def test_a_run_named_twice_is_refused(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert headway(["doctor", runs[0], runs[0], "--quiet", "--device", "cpu"]) == 2
    assert "a run is named twice; every seed counts once" in capsys.readouterr().err


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("sums"), "addition")


def test_predictions_are_examined_with_their_data(
    sums: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = predict(tmp_path / "answers.jsonl", rows_of(sums), lambda row: row["target"])
    assert headway(["doctor", "--predictions", str(path), "--data", str(sums)]) == 0
    assert "no error and no warning; " in capsys.readouterr().out
    predict(path, rows_of(sums), lambda row: [0, *row["target"][1:]])
    assert headway(["doctor", "--predictions", str(path), "--data", str(sums), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["step"], document["task"], document["run"]) == (None, "addition", str(path))
    assert document["findings"][0]["check"] == "first-digit-never-predicted"
    assert Diagnosis.from_json(document).to_json() == document


NOT_READ = Finding("not-examined", "warning", "data", "test.pkl is not read.")
UNKNOWN_LENGTH = Finding("length-without-data", "warning", "claims", "No file has length 64.")
OVERLAP = Finding("split-overlap", "error", "data", "25 are shared.")
FEW_SEEDS = Finding("too-few-seeds", "warning", "claims", "1 seed.")
SOUND_DATA = Finding("duplicates", "fine", "data", "No problem is there twice.")


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([SOUND_DATA, FEW_SEEDS], 0),
        ([SOUND_DATA, NOT_READ], 1),
        ([UNKNOWN_LENGTH], 1),
        ([OVERLAP], 1),
        ([OVERLAP, NOT_READ], 1),
    ],
)
def test_an_error_or_an_input_that_is_not_examined_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, findings: list[Finding], code: int
) -> None:
    found = Diagnosis(run="data", task="addition", step=None, findings=tuple(findings))
    monkeypatch.setattr("headway.diagnosis.material.examine_data", lambda data: found)
    assert headway(["doctor", "--data", str(tmp_path)]) == code


def test_results_are_examined_with_their_data(sums: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    below = sum(row["target"][0] == 0 for row in rows_of(sums))
    path = tmp_path / "table.csv"
    path.write_text(f"model,accuracy\nours,{below / 4:.2f} %\n")
    assert headway(["doctor", "--results", str(path), "--data", str(sums)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert f"error first-digit-never-predicted: {below / 4:.2f} % is the share of sums below 1000" in shown
    assert "-> Give the decoder a start token" in shown


def test_a_specimen_that_is_not_diagnosed_is_called_out() -> None:
    finding = Finding("split-overlap", "error", "data", "25 are shared.", {}, "Remove them.")
    shown = SpecimenDiagnosis(name="a", wrong="Overlap.", expected="split-overlap", follows=(), findings=(finding,))
    missed = replace(shown, name="b", expected="memorised")
    healthy = Diagnosis(run="healthy", task="addition", step=1, findings=())
    found = Exhibit(controls=(healthy,), specimens=(shown, missed))
    assert (shown.right, missed.right, found.right) == (True, False, False)
    lines = specimen_lines(found)
    assert lines[:2] == ["a: Overlap.", "  error    split-overlap: 25 are shared."]
    assert "  NOT AS EXPECTED: memorised should be the first error, followed only by its consequences" in lines
    assert lines[-1].startswith("1 of 2 specimens")
    assert lines[-1].endswith("1 of 1 healthy runs have no error")


@pytest.mark.parametrize("expected", ["split-overlap", "memorised"])
def test_a_specimen_that_is_not_diagnosed_ends_with_1(expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding("split-overlap", "error", "data", "25 are shared.", {}, "Remove them.")
    one = SpecimenDiagnosis(name="a", wrong="Overlap.", expected=expected, follows=(), findings=(finding,))
    monkeypatch.setattr(specimens, "exhibit", lambda meter: Exhibit(controls=(), specimens=(one,)))
    assert headway(["doctor", "--specimens", "--quiet"]) == int(expected != "split-overlap")
