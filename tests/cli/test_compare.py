"""headway compare: formats, remarks, figures, errors; without torch, and quickly."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.main import run
from headway.runs import SweepDirectory
from headway.storage import write_json
from tests.sweeps.made_up import ENCODINGS, RATES, make_sweep


def measure(trial) -> float | str | None:  # type: ignore[no-untyped-def]
    if trial.seed == 2:
        return "the loss is not finite, at step 3" if trial.settings["model.encoding.name"] == "learned" else None
    return 0.5 + trial.seed / 4


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepDirectory:
    """sweeps/mine: three encodings at two rates; learned fails with seed 2, the others have not ended it."""
    monkeypatch.chdir(tmp_path)
    made = make_sweep(tmp_path, [ENCODINGS, RATES], 3, measure)
    (tmp_path / "sweeps").mkdir()
    return SweepDirectory(made.path.rename(tmp_path / "sweeps" / "mine"))


def show(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    code = run(["compare", "mine", *arguments])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err


@pytest.mark.usefixtures("sweep")
def test_the_table_is_aligned_and_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = show(capsys)
    lines = out.splitlines()
    assert lines[0] == "sweeps/mine: accuracy, 12 of 18 trials finished, 2 failed"
    assert lines[1].split("  ")[0] == "encoding"
    assert len({len(line) for line in lines[1:8]}) == 1, "all lines of the table are as long"
    assert lines[2].startswith("sinusoidal  0.001  2 of 3       0  62.5 %  62.5 %                    -  50 %  75 %")
    assert "settings with fewer than 6 finished seeds are descriptive, and have no interval" in lines
    assert "means are over finished trials; a failed trial is not a success" in lines
    assert "failed: encoding=learned,lr=0.01,seed=2: the loss is not finite, at step 3" in lines
    assert err == ""


@pytest.mark.usefixtures("sweep")
def test_markdown_has_a_rule_below_the_headings(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = show(capsys, "--format", "markdown", "--by", "lr")
    lines = out.splitlines()
    assert lines[2].startswith("| encoding | lr | seeds | failed | mean |")
    assert lines[3].startswith("| --- | --- | ---: | ---: |")
    assert (
        "by train.lr, everything else equal: 2 seeds, 6 combinations of everything else with a seed, 3 left out" in out
    )
    assert "| 0.01 | 62.5 % | 62.5 % | - | 0.00 | - |" in lines


def test_csv_is_read_back_with_its_numbers_in_full(sweep: SweepDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    plan = sweep.plan()
    for trial in plan["trials"]:
        trial["settings"]["model.encoding.name"] += ', "quoted"'
    write_json(sweep.path / "sweep.json", plan)
    out, err = show(capsys, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 6
    assert rows[0]["model.encoding.name"] == 'sinusoidal, "quoted"'
    assert [rows[0][key] for key in ("train.lr", "planned", "n", "failed", "mean")] == ["0.001", "3", "2", "0", "0.625"]
    assert rows[0]["descriptive"] == "true"
    assert float(rows[4]["success_interval_high"]) == pytest.approx(0.7076, abs=1e-4)
    assert "descriptive" in err
    assert show(capsys, "--format", "csv", "--quiet")[1] == ""


@pytest.mark.usefixtures("sweep")
def test_a_number_that_is_not_there_is_an_empty_cell(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = show(capsys, "--format", "csv", "--where", "seed=2")
    row = next(csv.DictReader(io.StringIO(out)))
    assert [row[key] for key in ("n", "mean", "interval_low", "interval_high", "success")] == ["0", "", "", "", ""]


@pytest.mark.usefixtures("sweep")
def test_json_has_every_seed_and_every_failure(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = show(capsys, "--json", "--by", "encoding", "--metric", "loss", "--where", "lr=0.01")
    found = json.loads(out)
    counts = [found[key] for key in ("trials_planned", "trials_finished", "trials_failed")]
    assert (found["metric"], counts, found["descriptive"], err) == ("loss", [9, 6, 1], True, "")
    assert found["rows"][2]["values"] == [0.5, 0.25, None]
    assert found["rows"][2]["errors"][2] == "the loss is not finite, at step 3"
    assert found["by"][0]["key"] == "model.encoding.name"
    assert found["figures"] == []


def test_more_than_five_failures_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_sweep(tmp_path, [RATES], 4, lambda trial: "no").path
    assert run(["compare", str(path), "--metric", "steps"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("failed: lr=") for line in lines) == 5
    assert lines[-1] == "and 3 more failed; --json lists them all"
    assert "means are over finished trials" in lines, "without a limit nothing is said of success"


def test_figures_are_written_into_the_sweep(sweep: SweepDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = show(capsys, "--figure")
    assert sorted(path.name for path in sweep.figures.iterdir()) == ["grid-accuracy.png", "grid-accuracy.svg"]
    assert err == "figures are in sweeps/mine/report/figures: grid-accuracy.png, grid-accuracy.svg\n"
    found = json.loads(show(capsys, "--figure", "--json")[0])
    assert found["figures"] == [f"sweeps/mine/report/figures/grid-accuracy.{ending}" for ending in ("png", "svg")]


@pytest.mark.usefixtures("sweep")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine", "--format", "latex"], "headway: --format 'latex'; known: csv, markdown, table"),
        (["mine", "--format", "csv", "--by", "lr"], "headway: --by with --format csv: a CSV file holds one table"),
        (["mine", "--metric", "los"], "headway: --metric 'los': no finished trial has it; did you mean loss?"),
        (["mine", "--where", "lr=3"], "headway: --where train.lr=3: no trial has it; known: 0.001, 0.01"),
        (["yours"], "headway: no sweep at yours or sweeps/yours; known under ./sweeps: mine"),
        (["mine", "--success", "often"], "headway: "),
        (["mine", "--success", "nan"], "headway: --success nan; a finite number needed\n"),
        (["mine", "--success", "99"], "headway: --success 99; accuracy is a share: 0 to 1 needed, such as 0.99\n"),
        (["mine", "--success", "-0.5"], "headway: --success -0.5; accuracy is a share: 0 to 1 needed, such as 0.99\n"),
        (["mine", "--success", "inf"], "headway: --success inf; a finite number needed\n"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["compare", *arguments]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(message)
    assert (err.count("\n"), out) == (1, "")


def test_on_a_terminal_it_has_lines_and_leaves_brackets_alone(
    sweep: SweepDirectory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (sweep.path / "sweep.json").read_text()
    edited = text.replace('"model.encoding.name": "learned"', '"[b]": "[red]"')
    write_json(sweep.path / "sweep.json", json.loads(edited))
    plain, _ = show(capsys)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    drawn, _ = show(capsys)
    assert "─" in drawn
    assert "─" not in plain
    assert "[red]" in drawn
    assert "[b]" in drawn


def test_two_thousand_trials_need_no_torch(tmp_path: Path) -> None:
    sizes = ",".join(str(size) for size in range(1, 51))
    rates = ",".join(f"{rate / 1000}" for rate in range(1, 11))
    varied = [f"train.batch_size={sizes}", f"train.lr={rates}"]
    path = make_sweep(tmp_path, varied, 4, lambda trial: 0.5 + trial.seed / 10).path
    code = (
        "import sys, headway.cli.main as main; code = main.run(sys.argv[1:]); "
        "print(sorted({'torch', 'matplotlib'} & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, "compare", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
    assert "2,000 of 2,000 trials finished" in done.stdout
    assert len(done.stdout.splitlines()) > 500


@pytest.mark.parametrize(
    "content", [bytes(range(256)) * 4, b'{"name": "a", "settings": {}, "seed": 0, "state": "x"}\n']
)
def test_a_damaged_file_of_results_is_refused_in_one_line(
    sweep: SweepDirectory, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.results_path.write_bytes(content)
    assert run(["compare", "mine"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headway: sweeps/mine/results.jsonl: line 1") and err.count("\n") == 1
