"""A study trains, measures, analyses heads, asks the doctor and reports; and it goes on where it stopped."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import headway as hw
from headway.cli.main import run
from headway.diagnosis.subject import Subject, subject_of
from headway.evaluation import Trained
from headway.reports.writing import Written
from headway.runs import list_runs
from headway.studies import pool
from headway.studies.plan import ENCODING, POOLING, Arm, HeadsOf, Study, plan_study
from headway.studies.presets import PRESETS
from tests.tiny import poison
from tests.tiny_recipes import write_recipe

GRID = Study(
    arms=(
        Arm(
            name="grid",
            recipe="sortedness.toml",
            vary={ENCODING: ("none", "learned"), POOLING: ("mean", "max")},
        ),
        Arm(name="hard", recipe="sortedness.toml", set={"task.negatives": "adjacent", "data.test": 24}, seeds=(3,)),
    ),
    seeds=(0,),
    at=(8,),
    n=12,
    heads=HeadsOf(arms=("hard",), examples=20),
)
STUDIES = {
    "addition": Study(
        arms=(Arm(name="addition", recipe="addition.toml", set={"data.test": 24}),),
        seeds=(0, 1),
        measured="accuracy",
    ),
    "sortedness": GRID,
    "long-addition": Study(
        arms=(Arm(name="text", recipe="addition-text.toml", set={"task.max_characters": 20, "data.test": 24}),),
        seeds=(0,),
        at=(24,),
        n=12,
    ),
    "text-encodings": Study(
        arms=(
            Arm(
                name="text",
                recipe="addition-text.toml",
                set={"task.max_characters": 20, "data.test": 24, "task.order": "least-significant-first"},
                vary={
                    "encoding": {
                        "rotary": {"model.encoding.name": "rotary", "train.lr": 0.002},
                        "abacus": {"model.encoding.name": "abacus", "task.operand_order": "least-significant-first"},
                        "coupled": {"model.encoding.name": "coupled"},
                    }
                },
            ),
        ),
        seeds=(0,),
        at=(24,),
        n=12,
        heads=HeadsOf(arms=()),
        stop_at_gate=True,
    ),
}


@pytest.fixture(autouse=True)
def _tiny_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more preset of each experiment, small enough for a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "FEWEST_TOKENS", 10**12)  # processes take longer to start than all of this
    monkeypatch.setattr("headway.sweeps.seeds.available_cores", lambda: 1)
    for task in ("addition", "sortedness", "addition-text"):
        write_recipe(tmp_path, task, task)
    for experiment, study in STUDIES.items():
        monkeypatch.setitem(PRESETS[experiment], "tiny", study)


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def stamps(folder: str | Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in Path(folder).rglob("*.*")}


HARD = ["study", "sortedness", "--preset", "tiny", "--quiet", "--arms", "hard", "--no-figures"]


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report takes longer than all else here, and other tests read it."""
    written = Written(page="page", markdown="text", figures=[], bytes=0, sections=[], answer=[], left_out=[])
    monkeypatch.setattr("headway.reports.writing.report", lambda study, progress: written)


def test_a_study_of_accuracy_goes_through_every_stage_although_a_run_fails(capsys: pytest.CaptureFixture[str]) -> None:
    poison(plan_study(STUDIES["addition"]).cells[0].trials[0].config, Path("studies/addition-tiny/runs/addition-seed0"))
    assert run(["study", "addition", "--preset", "tiny"]) == 1
    printed = capsys.readouterr()
    assert "addition-seed0: failed, the loss is not finite at step 3" in printed.out
    assert "sums of two numbers of 2 digits, 8,100 in all\n" in printed.out
    assert "seed 1: trained 4 steps in " in printed.out
    for title in ("2 of 5 evaluate and heads: 2 of 2", "3 of 5 doctor: 1 of 1", "5 of 5 report: "):
        assert title in printed.err
    assert "heads of addition-seed1 (n = 24) are not analysed further: the doctor finds " in printed.out
    assert "the doctor examined 1 run: 0 errors, " in printed.out
    place = "studies/addition-tiny"
    assert f"the report is {place}/report/index.html, also {place}/report/report.md" in printed.out
    assert f"the models compute in {place}/report/explorer.html" in printed.out
    assert "addition-seed1" in Path(f"{place}/report/explorer.html").read_text()
    assert '<a id="report" class="button" href="index.html">' in Path(f"{place}/report/explorer.html").read_text()
    report = Path(f"{place}/report/index.html").read_text()
    assert 'class="live" href="explorer.html"' in report
    assert 'class="head" href="explorer.html#run=' in report
    assert f"the study is in {place}, its summary in {place}/analysis/summary.json" in printed.out
    runs = list_runs(Path(place) / "runs")
    assert [found.name for found in runs] == ["addition-seed0", "addition-seed1"]
    failed, other = read(f"{place}/analysis/summary.json")["runs"]
    assert failed["evaluation"] is None
    assert other["evaluation"]["n"] == 8_100
    assert runs[1].read_analysis("evaluation") == {"all": other["evaluation"]}
    (short,) = read(f"{place}/analysis/heads.json")["runs"]
    assert (short["run"], short["verdicts"]) == ("addition-seed1", {"undecided": 6})
    page = Path(f"{place}/report/index.html").read_text()
    for section in ('id="doctor"', 'id="accuracy"', 'id="heads"', 'id="training"'):
        assert section in page
    assert "addition-seed0</code> failed: " in page


@pytest.mark.usefixtures("no_report")
def test_only_what_is_missing_is_done_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(HARD) == 0
    folder = Path("studies/sortedness-tiny/runs/hard-seed3")
    for gone in ("heads", "lengths", "doctor"):
        before = stamps(folder)
        (folder / "analysis" / f"{gone}.json").unlink()
        capsys.readouterr()
        assert run([*HARD, "--json"]) == 0
        changed = {path.stem for path, when in stamps(folder).items() if before.get(path) != when}
        # The doctor reads what was found of heads, with the seconds it took; lengths are the same again.
        assert changed == ({"heads", "doctor"} if gone == "heads" else {gone})
        found = json.loads(capsys.readouterr().out)
        assert (found["failed"], found["report"]["page"]) == ({}, "page")
        assert [one["run"] for one in found["doctor"]["runs"]] == ["hard-seed3"]
        assert list(found["seconds"]) == ["train", "lengths and heads", "doctor", "explorer", "report"]


@pytest.mark.usefixtures("no_report")
def test_an_error_of_the_doctor_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def deaf(trained: Trained) -> Subject:
        subject = subject_of(trained)
        return replace(subject, forward=lambda examples: torch.tensor([[2.0, 1.0]]).expand(len(examples), 2))

    monkeypatch.setattr("headway.diagnosis.subject.subject_of", deaf)
    assert run(HARD) == 1
    printed = capsys.readouterr().out
    assert "the doctor examined 1 run: " in printed
    assert "  error in hard-seed3, constant-answer: " in printed


@pytest.mark.usefixtures("no_report")
def test_a_study_of_lengths_goes_on_when_a_run_fails_and_does_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "sortedness", "--preset", "tiny", "--quiet", "--no-figures"]
    broken = plan_study(GRID).cells[1].trials[0]
    place = Path("studies/sortedness-tiny/runs") / broken.name
    poison(broken.config, place)
    assert run([*command, "--arms", "grid"]) == 1
    printed = capsys.readouterr()
    assert "grid-none-max-seed0: failed, the loss is not finite at step 3" in printed.out
    assert "hard" not in printed.out
    assert "the doctor examined 3 runs: " in printed.out
    part = read("studies/sortedness-tiny/analysis/lengths.json")["cells"]
    assert [len(cell["runs"]) for cell in part] == [1, 0, 1, 1, 0]
    assert [list(cell["failed"]) for cell in part] == [[], [broken.name], [], [], []]
    first = stamps("studies/sortedness-tiny/runs")
    assert run([*command, "--arms", "hard", "--json"]) == 0
    again = stamps("studies/sortedness-tiny/runs")
    assert all(again[path] == when for path, when in first.items())  # what was trained and measured is left alone
    found = json.loads(capsys.readouterr().out)
    written = read("studies/sortedness-tiny/analysis/lengths.json")
    del written["sha256"]
    assert written.items() <= {**found, "form": 1, "experiment": "sortedness", "preset": "tiny"}.items()
    assert [one["run"] for one in found["heads"]["runs"]] == ["hard-seed3"]
    assert len(found["doctor"]["runs"]) == 4
    cells = {cell["cell"]: cell for cell in found["cells"]}
    names = ["grid: none, mean", "grid: none, max", "grid: learned, mean", "grid: learned, max", "hard"]
    assert list(cells) == names
    assert [len(cell["runs"]) for cell in cells.values()] == [1, 0, 1, 1, 1]
    (hard,) = cells["hard"]["runs"]
    assert (hard["seed"], hard["negatives_trained"], hard["n"]) == (3, "adjacent", 12)
    assert {row["length"] for row in hard["lengths"]} == {3, 4, 5, 8}
    assert cells["grid: none, mean"]["together"]["n_seeds"] == 1
    assert [cost["runs"] for cost in found["costs"]] == [3, 1]
    assert found["answer"][-1] == {
        "kind": "descriptive",
        "set": None,
        "text": "with 1 seed per combination, all of this is descriptive",
    }


def test_long_addition_is_told_by_run_and_by_carries(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "long-addition", "--preset", "tiny"]) == 0
    printed = capsys.readouterr()
    assert "2 of 5 lengths and heads: 2 of 2" in printed.err
    assert "exact match, by the characters of the question:" in printed.out
    assert "by ripple (set ripple), mean over seeds:" in printed.out
    assert "text: 1 run, 4 steps of training in " in printed.out
    assert "the doctor examined 1 run: 0 errors, " in printed.out
    assert 'id="lengths"' in Path("studies/long-addition-tiny/report/index.html").read_text()
    assert list(Path("studies/long-addition-tiny/report/figures").glob("*.png"))
    assert run(["study", "long-addition", "--preset", "tiny", "--seeds", "0-1"]) == 2
    refused = "headway: studies/long-addition-tiny holds another study; choose another --out\n"
    assert capsys.readouterr().err == refused


def test_runs_that_did_not_master_are_shown_with_what_they_reached(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "text-encodings", "--preset", "tiny", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "who mastered the training lengths:" in printed
    assert ["text:", "abacus", "0", "of", "1", "–", "0.000"] in [line.split() for line in printed.splitlines()]
    for name in ("sums", "ripple", "full", "nines"):
        assert f"every run, on {name}:" in printed
    assert (
        "0 of 3 runs mastered their training lengths (at least 99.9 % of validation); the others are left out"
        in printed
    )
    assert "sums: no run mastered its training lengths, so there is no result on length" in printed
    document = read("studies/text-encodings-tiny/analysis/lengths.json")
    judged = [one["mastery"] for cell in document["cells"] for one in cell["runs"]]
    assert [(one["mastered"], one["step"], one["gate"], one["stops"]) for one in judged] == [
        (False, None, 0.999, True)
    ] * 3
    page = Path("studies/text-encodings-tiny/report/index.html").read_text()
    assert "Mastery of the training lengths" in page
    assert Path("studies/text-encodings-tiny/report/figures/lengths-map.png").is_file()


@pytest.mark.usefixtures("no_report")
def test_a_run_that_cannot_be_measured_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "sortedness", "--preset", "tiny", "--quiet", "--arms", "hard", "--no-figures"]
    assert run(command) == 0
    place = Path("studies/sortedness-tiny/runs/hard-seed3")
    (place / "analysis" / "lengths.json").unlink()
    for path in place.glob("checkpoints/*/model.safetensors"):
        path.write_bytes(b"")
    capsys.readouterr()
    assert run(command) == 1
    assert f"hard-seed3: failed, {place} has no checkpoint to read" in capsys.readouterr().out


def test_an_unknown_arm_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "sortedness", "--preset", "tiny", "--arms", "hart"]) == 2
    assert capsys.readouterr().err == "headway: --arms 'hart'; did you mean hard? known: grid, hard\n"
    assert not Path("studies").exists()


STOPS = {
    "headway.training.train": "stopped in stage 1 of 5, train (0 of 1 runs are trained)",
    "headway.studies.jobs.Lengths.do": "stopped in stage 2 of 5, lengths and heads (0 of 2 analyses are done); "
    "done before it: train",
    "headway.studies.jobs.Heads.do": "stopped in stage 2 of 5, lengths and heads (1 of 2 analyses are done); "
    "done before it: train",
    "headway.studies.jobs.Diagnosis.do": "stopped in stage 3 of 5, doctor (0 of 1 analyses are done); "
    "done before it: train, lengths and heads",
    "headway.explorer.writing.explore": "stopped in stage 4 of 5, explorer; "
    "done before it: train, lengths and heads, doctor",
    "headway.reports.writing.report": "stopped in stage 5 of 5, report; "
    "done before it: train, lengths and heads, doctor, explorer",
}


@pytest.mark.usefixtures("no_report")
def test_ctrl_c_at_any_stage_says_what_is_done_and_the_same_command_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    for where, said in STOPS.items():
        with monkeypatch.context() as patched:
            patched.setattr(where, interrupt)
            assert run(HARD) == 130
        assert capsys.readouterr().err == f"headway: studies/sortedness-tiny: {said}; the same command continues\n"
    assert run(HARD) == 0


@pytest.mark.usefixtures("no_report")
def test_heads_or_a_report_that_fail_cost_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ValueError("it rained")

    monkeypatch.setattr("headway.studies.jobs.Heads.do", fail)
    monkeypatch.setattr("headway.reports.writing.report", fail)
    assert run([*HARD, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == {"hard-seed3": "its heads: ValueError: it rained", "the report": "ValueError: it rained"}
    assert found["explorer"] is None
    assert found["report"] is None
    assert len(found["cells"][-1]["runs"]) == 1


@pytest.mark.usefixtures("no_report")
def test_python_does_what_the_command_does_and_is_told_every_stage(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[Mapping[str, Any]] = []
    found = hw.study("sortedness", preset="tiny", arms=["hard"], figures=False, on_event=events.append)
    assert capsys.readouterr() == ("", ""), "only the command line shows anything"
    stages = [(event["number"], event["stage"]) for event in events if event["event"] == "stage"]
    names = ["train", "lengths and heads", "doctor", "explorer", "report"]
    assert stages == list(enumerate(names, start=1))
    assert {event["event"] for event in events} >= {"stage", "training", "progress"}
    assert found.lengths is not None and found.accuracy is None and not found.unsound
    assert {cell.arm for cell in found.lengths.cells if cell.runs} == {"hard"}
    assert run([*HARD, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    python = json.loads(json.dumps(found.to_json()))
    for document in (printed, python):
        document.pop("seconds")
    assert printed == python


def test_a_study_attacks_the_runs_that_hold_past_training(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_report: None
) -> None:
    monkeypatch.setitem(PRESETS["sortedness"], "tiny", replace(GRID, attack=0.3))
    monkeypatch.setattr("headway.studies.runner.worth_attacking", lambda measured: ["hard-seed3"])
    assert run(["study", "sortedness", "--preset", "tiny", "--arms", "hard", "--no-figures", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert list(found["seconds"]) == ["train", "lengths and heads", "attack", "doctor", "explorer", "report"]
    kept = read("studies/sortedness-tiny/runs/hard-seed3/analysis/attack.json")
    assert found["attacks"]["hard-seed3"]["tried"] == kept["tried"] > 0
    before = stamps("studies/sortedness-tiny/runs/hard-seed3/analysis")
    assert run(["study", "sortedness", "--preset", "tiny", "--quiet", "--arms", "hard", "--no-figures"]) == 0
    told = capsys.readouterr().out
    assert "attack on hard-seed3 (step " in told
    assert "It gives wrong answers." in told
    assert stamps("studies/sortedness-tiny/runs/hard-seed3/analysis") == before
