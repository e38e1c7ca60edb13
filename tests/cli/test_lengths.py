"""`headway lengths` on runs so small that they learn nothing."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from headway import evaluation
from headway.cli.lengths import summary
from headway.cli.main import run
from headway.narration.lengths import set_name
from headway.reports import lengths as figures
from headway.results.lengths import Lengths
from headway.results.schema import read
from headway.runs import Checkpoint, RunDirectory
from tests.tiny_recipes import write_recipe

SIZES = "--set data.validation=8 --set data.test=8 --set task.values=40"
FEW = "--at 7,9 --n 20 --no-figures"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one recipe, one of another, a model that answers one class, and runs of other tasks."""
    folder = tmp_path_factory.mktemp("lengths")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for task in ("addition", "addition-text", "sortedness"):
            write_recipe(folder, task, task)
        for name, recipe, options in (
            ("zero", "sortedness", f"{SIZES} --seed 0"),
            ("one", "sortedness", f"{SIZES} --seed 1"),
            ("alibi", "sortedness", f"{SIZES} --set model.encoding.name=alibi"),
            ("sum", "addition", ""),
            ("text", "addition-text", ""),
        ):
            assert run(shlex.split(f"train {recipe}.toml --out {name} --quiet {options}")) == 0
    shutil.copytree(folder / "zero", folder / "constant")
    directory = RunDirectory(folder / "constant")
    for step in directory.checkpoint_steps():
        found = directory.read_checkpoint(step)
        weights = {name: torch.zeros_like(weight) for name, weight in found.model.items()}
        weights["readout.bias"][1] = 1.0
        directory.write_checkpoint(Checkpoint(step, weights, found.trainer, found.state))
    return folder


@pytest.fixture
def here(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Shell:
    def __init__(self, capsys: pytest.CaptureFixture[str]):
        self.capsys = capsys

    def __call__(self, command: str, code: int = 0) -> str:
        """What a command writes to stdout, or to stderr if it must fail."""
        found = run(shlex.split(command))
        out, err = self.capsys.readouterr()
        assert found == code, err
        return out if code == 0 else err

    def json(self, command: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(f"{command} --json --quiet"))
        return found


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def told(document: dict[str, Any]) -> list[str]:
    return summary(read(Lengths, document, "lengths.json"))


def test_one_run_is_measured_written_down_and_told(here: Path, shell: Shell) -> None:
    found = shell.json(f"lengths zero {FEW}")
    assert found == RunDirectory("zero").read_analysis("lengths")
    assert [row["length"] for row in found["lengths"]] == [3, 4, 5, 7, 9] * 5
    assert read(Lengths, found, "lengths.json").length_held == 0
    text = shell(f"lengths zero {FEW}")
    assert text.splitlines() == told(found)
    assert "trained on 3 to 5 elements" in text
    assert re.search(r"set +worst trained", text)
    assert "length held: 0, the smallest over the sets\n  On random swaps it holds at no length.\n" in text
    assert "every member) wrong at 3; for example" in text
    assert "--n 20 is too few to show that any length is held: even without errors it takes 381" in text
    assert not (here / "zero" / "report").exists()


def test_figures_are_drawn_into_the_run_and_those_of_an_earlier_measurement_go(here: Path, shell: Shell) -> None:
    (here / "zero/report/figures").mkdir(parents=True)
    for name in ("lengths-old.png", "mechanism.png", "importance.png"):
        (here / "zero/report/figures" / name).write_text("")
    shell("lengths zero --at 7 --n 20 --quiet")
    names = {path.name for path in (here / "zero/report/figures").iterdir()}
    assert {"lengths-curves.png", "lengths-curves.svg", "importance.png"} <= names
    assert not {"lengths-old.png", "mechanism.png"} & names


def test_a_constant_model_is_told_in_words(here: Path, shell: Shell) -> None:
    text = shell(f"lengths constant {FEW} --quiet")
    assert "From length 3 on it answers 1 to every input: its accuracy there is the share of such examples." in text
    assert "50 %*" in text
    assert shell.json(f"lengths constant {FEW}")["constant"] == {"answer": "1", "from": 3}


def test_a_model_that_answers_nearly_always_the_same_is_told_with_its_lengths(here: Path, shell: Shell) -> None:
    found = shell.json(f"lengths zero {FEW}")
    for row in found["lengths"]:
        row["answer_shares"] = {"0": 0.02, "1": 0.98} if row["length"] >= 7 else {"0": 0.03, "1": 0.97}
    lines = [line for line in told(found) if "nearly everything" in line]
    assert lines == [
        f"It answers 1 to nearly everything: {set_name(name)} at 7, 9." for name in ("swaps", "adjacent", "matched")
    ]


def test_two_seeds_are_measured_each_and_put_together(here: Path, shell: Shell) -> None:
    found = shell.json(f"lengths zero constant {FEW}")
    assert found["together"] is None, "two runs of one seed are no two seeds"
    found = shell.json(f"lengths zero one {FEW}")
    assert [document["seed"] for document in found["runs"]] == [0, 1]
    assert found["together"]["n_seeds"] == 2
    for name in ("zero", "one"):
        assert RunDirectory(name).read_analysis("lengths") in found["runs"]
    text = shell(f"lengths zero one {FEW} --quiet")
    assert "2 seeds together; fewer than 6: descriptive" in text
    assert "  adjacent: held 0, 0; median 0; no multiple of the training length was tested" in text
    assert re.search(r"  median over seeds +5 ", text)
    assert "  adjacent: held 0, 0; median 0; 0 of 2 reach 4x (0 % to 84.2 %)" in shell(
        "lengths zero one --at 7,20 --n 20 --no-figures --quiet"
    )


def test_runs_of_different_recipes_are_shown_side_by_side_and_not_put_together(here: Path, shell: Shell) -> None:
    text = shell(f"lengths zero alibi {FEW} --quiet")
    assert text.splitlines()[-1] == "the runs are not seeds of one recipe, so there is no summary over them"


def test_out_holds_the_document_and_the_figures_of_all_runs(
    here: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[list[int], Path]] = []
    monkeypatch.setattr(
        figures, "write_figures", lambda documents, folder: drawn.append(([one.seed for one in documents], folder))
    )
    text = shell("lengths zero one --at 7 --n 20 --out deep/er --quiet")
    assert text.splitlines()[-1] == "written to deep/er/analysis/lengths.json"
    assert len(json.loads((here / "deep/er/analysis/lengths.json").read_text())["runs"]) == 2
    assert drawn == [
        ([0], Path("zero/report/figures")),
        ([1], Path("one/report/figures")),
        ([0, 1], Path("deep/er/report/figures")),
    ]


def test_written_answers_have_their_own_set_and_are_decoded(here: Path, shell: Shell) -> None:
    text = shell("lengths text --at 16 --n 20 --no-figures --quiet")
    assert "trained on 8 to 12 characters" in text
    assert "accuracy, 20 examples of each set" in text
    assert "160 answers were decoded greedily; 0 disagree with the teacher-forced pass." in text


def test_heads_are_compared_when_asked(here: Path, shell: Shell) -> None:
    found = shell.json("lengths zero --at 7 --n 40 --mechanism --no-figures")
    assert found["mechanism"]["words"][-1] in told(found)
    assert found["mechanism"]["set"] == "swaps", "the negatives that were trained on"


def test_a_decoder_that_disagrees_gives_exit_code_1(here: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = evaluation.decode
    monkeypatch.setattr(evaluation, "decode", lambda *given, **how: (decode(*given, **how) + 1) % 10)
    text = shell("lengths text --at 16 --n 20 --no-figures --quiet", code=1)
    assert "decoding and the teacher-forced pass disagree; these accuracies are invalid" in text


def test_progress_goes_to_stderr(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(f"lengths zero {FEW} --json")) == 0
    out, err = capsys.readouterr()
    assert "lengths of zero: 37,180 of 37,180" in err  # 5 sets of 20 at 3, 4, 5, 7 and 9; every plateau at 3
    json.loads(out)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("lengths sum", "headway: task 'addition' has one length; there is nothing to measure against it"),
        ("lengths zero --at 7,x", "headway: --at '7,x': write lengths as 32,64,128"),
        ("lengths zero --at ''", "headway: --at '': write lengths as 32,64,128"),
        ("lengths zero --at 7,1", "headway: --at 1; a length from 2 to 65,536 needed"),
        ("lengths zero --at 99999999999", "headway: --at 99999999999; a length from 2 to 65,536 needed"),
        (
            "lengths text --at 17",
            "headway: addition-text has no inputs of exactly 17 characters; an even number from 8",
        ),
        ("lengths zero --n 1", "headway: --n 1; 2 to 1,000,000 examples of a set needed"),
        ("lengths zero --n 1000001", "headway: --n 1000001; 2 to 1,000,000 examples of a set needed"),
        ("lengths zero ./zero", "headway: a run is named twice; every seed counts once"),
        ("lengths nowhere", "headway: no run at nowhere or runs/nowhere"),
        ("lengths zero --device tpu", "headway: --device 'tpu'; known: auto, cpu, cuda"),
        ("lengths", "Missing argument"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(here: Path, shell: Shell, command: str, message: str) -> None:
    text = shell(command, code=2)
    assert message in text
    assert len(text.strip().splitlines()) == 1


def test_a_run_that_cannot_be_measured_is_refused_before_any_is(here: Path, shell: Shell) -> None:
    told = shell(f"lengths zero sum {FEW} --quiet", code=2)
    assert told == "headway: task 'addition' has one length; there is nothing to measure against it\n"
    assert RunDirectory("zero").read_analysis("lengths") is None


def test_out_on_a_file_is_refused_before_anything_is_measured(here: Path, shell: Shell) -> None:
    (here / "taken").write_text("")
    assert "headway: --out taken: taken is a file; a directory needed" in shell(
        f"lengths zero {FEW} --out taken", code=2
    )
    deeper = shell(f"lengths zero {FEW} --out taken/deeper", code=2)
    assert "headway: --out taken/deeper: taken is a file; a directory needed" in deeper
    assert "headway: --out zero is a run; a separate directory needed" in shell(
        f"lengths zero {FEW} --out zero", code=2
    )
    assert RunDirectory("zero").read_analysis("lengths") is None


def test_a_length_inside_training_that_was_asked_for_is_shown(here: Path, shell: Shell) -> None:
    table = shell("lengths zero --at 3,9 --n 20 --no-figures --quiet")
    assert any(line.split()[:6] == ["set", "worst", "trained", "3", "5", "9"] for line in table.splitlines())


def test_a_run_that_is_not_trained_to_its_end_is_measured_with_a_word(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory("zero")
    for step in directory.checkpoint_steps():
        found = directory.read_checkpoint(step)
        directory.write_checkpoint(Checkpoint(step, found.model, found.trainer, {**found.state, "finished": False}))
    assert run(shlex.split(f"lengths zero {FEW} --quiet")) == 0
    assert "zero is not fully trained; the measurement is of its current state" in capsys.readouterr().err
