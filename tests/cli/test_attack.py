"""`headway attack` on runs so small that they learn nothing, so that nearly everything fails."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.attacks import search as searching
from headway.cli.attack import summary
from headway.cli.main import run
from headway.narration.attack import PROVES_NOTHING, attacked, family_table, outcome, trace
from headway.origin import OtherOrigin
from headway.results.attack import Attack, Ended, FailingInput, FamilyRow, MarginFall
from headway.results.schema import blank
from headway.runs import RunDirectory
from headway.storage import read_json, write_json
from tests.attacks.planted import ADDITION, SORTEDNESS, nothing, right_but
from tests.tiny_recipes import RECIPES, write_recipe

LONG = "--set model.encoding.name=learned --set model.encoding.past=untrained"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for task in RECIPES:
            write_recipe(folder, task, task)
            assert run(shlex.split(f"train {task}.toml --out {task} --quiet")) == 0
        assert run(shlex.split(f"train sortedness.toml --out table --quiet {LONG}")) == 0
    return folder


@pytest.fixture
def here(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Shell:
    def __init__(self, capsys: pytest.CaptureFixture[str]):
        self.capsys = capsys

    def __call__(self, command: str) -> tuple[int, str, str]:
        code = run(shlex.split(command))
        return code, *self.capsys.readouterr()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.mark.parametrize("task", RECIPES)
def test_a_model_that_learned_nothing_is_broken_and_the_exit_code_says_so(here: Path, shell: Shell, task: str) -> None:
    code, told, said = shell(f"attack {task} --tries 400 --seconds 600 --quiet")
    assert (code, said) == (1, "")
    assert "It gives wrong answers." in told
    found = RunDirectory(here / task).read_result(Attack, "attack")
    assert found is not None and found.broken
    assert "\n".join(summary(found)) == told.rstrip("\n")
    for one in found.counterexamples:
        assert f"{one.input} -> {one.expected}, answered {one.answered}" in told


def test_json_is_the_document_that_the_run_keeps(here: Path, shell: Shell) -> None:
    code, told, _ = shell("attack sortedness --at 5,9 --tries 300 --seed 4 --json")
    document: dict[str, Any] = json.loads(told)
    kept = read_json(here / "sortedness" / "analysis" / "attack.json")
    assert code == 1
    assert kept.pop("made_from")["step"] == document["step"]
    assert kept == document
    assert document["lengths"] == [5, 9]
    assert {"found", "tried", "smallest_margin", "counterexamples"} <= set(document)
    assert {"input", "expected", "answered"} <= set(document["counterexamples"][0])


def test_lengths_that_lengths_json_says_are_held_are_attacked(here: Path, shell: Shell) -> None:
    shell("lengths sortedness --at 7,9,12 --n 20 --no-figures --quiet")
    path = here / "sortedness" / "analysis" / "lengths.json"
    document = json.loads(path.read_text())
    write_json(path, {**document, "length_held": 9})
    _, told, _ = shell("attack sortedness --tries 100 --json")
    assert json.loads(told)["lengths"] == [3, 4, 5, 7, 9]


def test_an_attack_on_other_weights_does_not_count(here: Path, shell: Shell) -> None:
    shell("attack addition --tries 50 --quiet")
    path = here / "addition" / "analysis" / "attack.json"
    document = json.loads(path.read_text())
    document["made_from"]["weights"] = "0" * 64
    write_json(path, document)
    with pytest.raises(OtherOrigin, match=r"attack\.json was made from another checkpoint; run headway attack again"):
        RunDirectory(here / "addition").read_result(Attack, "attack")


def test_ctrl_c_keeps_and_shows_what_was_found(here: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    margins, asked = searching.margins, 0

    def interrupted(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 4:
            raise KeyboardInterrupt
        return margins(*given)

    monkeypatch.setattr(searching, "margins", interrupted)
    code, told, said = shell("attack sortedness --quiet")
    assert code == 130
    assert "It ended because it was interrupted" in told
    assert "the results so far are in sortedness/analysis/attack.json" in said
    found = RunDirectory(here / "sortedness").read_result(Attack, "attack")
    assert found is not None and found.ended == "interrupted" and found.tried > 0


def test_progress_says_how_it_stands(here: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.cli.options.PLAIN_EVERY", 0.0)
    _, _, said = shell("attack addition --tries 200")
    assert "attack on addition: 0 of 120 seconds: " in said
    assert "tried, " in said and "smallest margin" in said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("attack nowhere", "no run at nowhere"),
        ("attack addition --at 12", "addition has one length; it cannot be set to 12"),
        ("attack sortedness --at 1", "at least 2 needed"),
        ("attack sortedness --at x", "--at 'x': write lengths as 32,64,128"),
        ("attack sortedness --at 70000", "a length from 2 to 65,536 needed"),
        ("attack addition-text --at 17", "no inputs of exactly 17 characters"),
        ("attack sortedness --seconds -1", "--seconds -1; above 0"),
        ("attack sortedness --seconds nan", "--seconds nan; above 0"),
        ("attack sortedness --tries 0", "--tries 0; at least 1 needed"),
        ("attack sortedness --device tpu", "--device 'tpu'"),
        ("attack table --at 5000", "the learned table has 4,096 rows and the sequence 5,000 positions"),
    ],
)
def test_a_wrong_input_is_one_line_and_changes_nothing(here: Path, shell: Shell, command: str, words: str) -> None:
    code, told, said = shell(f"{command} --quiet")
    assert (code, told) == (2, "")
    assert words in said
    assert said.count("\n") == 1
    assert not list(here.rglob("attack.json"))


def test_finding_nothing_is_said_to_prove_nothing() -> None:
    from headway.attacks.attack import attack

    for settings, lengths in ((SORTEDNESS, [8]), (ADDITION, None)):
        found = attack(right_but(settings, nothing), at=lengths, seconds=3_600, tries=500)
        told = "\n".join(summary(found))
        assert f"No failing input was found. {PROVES_NOTHING}" in told
        assert f"{found.tried:,} different inputs tried" in told


@pytest.mark.parametrize(("unconfirmed", "told"), [(0, False), (3, True)])
def test_failures_by_ties_in_a_batch_are_told_where_there_were_some(unconfirmed: int, told: bool) -> None:
    found = blank(Attack, unconfirmed=unconfirmed, ended="tries")
    assert ("3 failed only in a batch with other inputs" in str(outcome(found))) is told
    assert ("only in a batch" in str(outcome(found))) is told


@pytest.mark.parametrize(("found", "told"), [(3, "."), (4, "; 1 more was not asked alone."), (90, "; 87 more were")])
def test_failures_that_were_not_asked_alone_are_told(found: int, told: str) -> None:
    said = str(outcome(blank(Attack, found=found, unconfirmed=3, ended="tries")))
    assert f"by ties of logits{told}" in said


@pytest.mark.parametrize(
    ("found", "broken", "told"),
    [
        (0, False, "none of them fails"),
        (1, True, "1 of them fails;"),
        (5, True, "5 of them fail;"),
        (5, False, "5 of them fail in a batch with others;"),
    ],
)
def test_ties_that_only_a_batch_breaks_do_not_count_as_failures(found: int, broken: bool, told: str) -> None:
    shown = (blank(FailingInput),) * broken
    assert told in str(attacked(blank(Attack, found=found, counterexamples=shown, ended="tries"), "run"))


@pytest.mark.parametrize(
    ("ended", "took", "told"),
    [
        ("tries", 5.0, "simplified as far as possible, fails when"),
        ("time", 9.0, "simplified as far as the time allowed, fails when"),
        ("interrupted", 5.0, "not simplified, fails when"),
    ],
)
def test_it_is_told_how_far_failing_inputs_are_simplified(ended: Ended, took: float, told: str) -> None:
    one = blank(FailingInput)
    found = blank(Attack, found=2, counterexamples=(one,), ended=ended, took=took, seconds=9.0)
    assert f"The 1 shown below, {told} asked alone." in str(outcome(found))
    assert f"The 2 shown below, {told.replace('fails', 'fail')}" in str(
        outcome(replace(found, counterexamples=(one, one)))
    )


@pytest.mark.parametrize("falls", [1, 2, 8, 9, 40])
def test_the_fall_of_the_margin_is_told_from_its_first_to_its_last_value(falls: int) -> None:
    every = tuple(blank(MarginFall, tried=10 * place + 1, margin=100.0 - place) for place in range(falls))
    said = (
        str(trace(blank(Attack, trace=every, ended="tries")))
        .removeprefix("The smallest margin fell: ")
        .removesuffix(".")
        .split(", ")
    )
    assert said[0] == "100.00 after 1"
    assert said[-1] == f"{101 - falls}.00 after {10 * falls - 9}"  # one less each time, ten inputs later
    assert len(said) == min(falls, 8)


def test_a_family_was_tried_as_a_whole_only_if_it_was_at_every_length() -> None:
    def cell(*whole: bool) -> str:
        rows = tuple(blank(FamilyRow, family="ties", drawn=50, whole=one, length=8 + i) for i, one in enumerate(whole))
        return str(family_table(blank(Attack, families=rows, ended="tries")).rows[0][2])

    assert [cell(True, True), cell(True, False), cell(False, False)] == ["all 100", "100", "100"]
