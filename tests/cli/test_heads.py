"""`headway heads` and `headway prune` on runs so small that they learn nothing."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.cli import head_lines
from headway.cli import heads as heads_command
from headway.cli.main import run
from headway.head_analysis import analysis, capture, checks, joint_ablation, verdicts
from headway.narration import head_sets, heads_study
from headway.narration import heads as narrated
from headway.narration.text import Missing
from headway.origin import without_origins
from headway.reports import figures
from headway.results.checks import Checks
from headway.results.error_analysis import Answered
from headway.results.heads import Baseline, Drop, HeadAnalysis
from headway.results.heads_study import ContrastOverSeeds, ControlOverSeeds, ControlsOverSeeds, RatesOverSeeds
from headway.results.patching import Contrast
from headway.results.schema import blank, read
from headway.runs import RunDirectory
from headway.storage import read_json, write_json
from tests.results.made_up_values import filled
from tests.tiny_recipes import write_recipe

SIZES = "--set data.validation=24 --set data.test=30"
QUICK: list[tuple[Any, str, Any]] = [
    (analysis, "PERMUTATIONS", 4),
    (analysis, "CHECKED", 4),
    (analysis, "ADDITION_COST", 0),
    (verdicts, "LARGEST_N", 50),
]
"""As little work for every part as it can do with."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one recipe, other runs that do not go with them, one of another task, and broken ones."""
    folder = tmp_path_factory.mktemp("heads")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for task in ("addition", "sortedness"):
            write_recipe(folder, task, task)
        for name, recipe, options in (
            ("zero", "sortedness", "--seed 0"),
            ("one", "sortedness", "--seed 1"),
            ("wider", "sortedness", "--seed 2 --set model.d_ff=24"),
            ("few", "sortedness", "--set data.test=12"),
            ("fresh", "sortedness", "--set data.fresh=true"),
            ("sum", "addition", ""),
        ):
            sizes = SIZES if name != "few" else "--set data.validation=24"
            assert run(shlex.split(f"train {recipe}.toml --out {name} --quiet {sizes} {options}")) == 0
        shutil.copytree("zero", "copy")
        shutil.copytree("zero", "no-checkpoint")
        shutil.rmtree("no-checkpoint/checkpoints")
        (folder / "a-file").write_text("text")
    return folder


@pytest.fixture(scope="module")
def analysed(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder after `headway heads zero one`, for tests of what comes later."""
    folder = tmp_path_factory.mktemp("analysed")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for change in QUICK:
            patch.setattr(*change)
        assert run(shlex.split("heads zero one --no-figures --quiet")) == 0
    return folder


@pytest.fixture
def here(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for change in QUICK:
        monkeypatch.setattr(*change)
    return tmp_path


class Shell:
    def __init__(self, capsys: pytest.CaptureFixture[str]):
        self.capsys = capsys
        self.code, self.out, self.err = 0, "", ""

    def __call__(self, command: str, code: int = 0) -> str:
        self.capsys.readouterr()
        self.code = run(shlex.split(command))
        self.out, self.err = self.capsys.readouterr()
        assert self.code == code, self.err
        return self.out

    def json(self, command: str, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(f"{command} --json", code))
        return found


@pytest.fixture
def shell(here: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def after(shell: Shell, here: Path, analysed: Path) -> Shell:
    """A shell where zero and one were analysed before."""
    for name in ("zero", "one"):
        shutil.copytree(analysed / name / "analysis", here / name / "analysis")
    return shell


def stored(name: str) -> dict[str, Any]:
    return without_origins(read_json(Path(name, "analysis", "heads.json")))


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where figures were drawn, without the seconds that drawing takes: empty files instead."""
    places: list[Path] = []

    def draw(found: Any, folder: Path) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        places.append(folder)
        names = [f"{name}.png" for name, _ in figures.head_figures(found)]
        for name in names:
            (folder / name).write_bytes(b"")
        return [folder / name for name in names]

    monkeypatch.setattr(figures, "draw_all", draw)
    return places


# One run


def test_the_document_of_one_run_is_on_stdout_and_in_the_run(shell: Shell) -> None:
    found = shell.json("heads zero --no-figures")
    assert found == stored("zero")
    assert (found["form"], found["run"], found["split"], found["n"]) == (1, "zero", "test", 30)
    assert found["settings"] == {"split": "test", "examples": 2_000, "thorough": False, "step": found["step"]} | {
        "device": found["device"],
        "rules": 2,
    }
    assert "{" not in shell.err  # progress, and nothing of the document
    assert not Path("zero/report").exists()


def test_nothing_but_the_analysis_is_written(shell: Shell, here: Path) -> None:
    before = contents(here)
    shell("heads zero --no-figures --quiet")
    after = contents(here)
    new = {str(Path(path).relative_to(here)) for path in after if path not in before}
    assert new == {"zero/analysis", "zero/analysis/heads.json"}
    assert {path: after[path] for path in before} == before


def test_people_get_a_table_and_what_it_means(shell: Shell) -> None:
    text = shell("heads sum --no-figures")
    found = stored("sum")
    assert text.startswith(f"sum (step {found['step']:,}): It answers ")
    assert " of 30 examples of the test split right (" in text
    lines = text.splitlines()
    (header,) = [line for line in lines if line.startswith("head ")]
    for row in found["heads"]:
        (line,) = [line for line in lines if line.startswith(f"{row['head']} ")]
        assert row["verdict"] in line
        assert line.index(f"  {row['role']}") == header.index("  looks at")  # columns stand under their names
    assert "warning: the model gets" in lines[1]  # and what it cannot do, no head can spoil
    for contrast in found["interventions"]["contrasts"]:
        assert contrast["usable"] == 0  # it has learned nothing
        assert (
            f"{contrast['name']}: none of {contrast['n']} pairs is right on both sides, so nothing is measured."
            in lines
        )
    assert (
        f"Checked: {found['checks']['decoded']:,} ablated answers were decoded greedily with a hook, with 0 dis" in text
    )
    assert all(f"Shapley values, {kind}" in text for kind in ("encoder", "decoder", "cross", "all"))
    assert "{" not in text
    for row in found["joint"]["removable"]:  # 15 other examples show nothing within a point, and may within five
        shown = row["drop_interval"][1] < row["limit"]
        assert not row["heads"] or ("can be removed together" if shown else "not shown to be under") in text
    assert "not shown to be under 1 point" in text


def patching(contrast: dict[str, Any]) -> Contrast:
    return read(Contrast, filled(Contrast, contrast), "heads.json")


def test_heads_that_surely_move_a_carry_are_named_with_their_controls() -> None:
    half = {"n": 40, "chosen_on_n": 50, "control": {"rate": 0.0, "interval": (0.0, 0.04), "reading": "carry alone"}}
    strongest = {
        "encoder": {"head": "enc0.self.h0", "rate": 0.1, "interval": (0.04, 0.2), "chosen_on_rate": 0.2, **half},
        "cross": {"head": "dec0.cross.h1", "rate": 0.9, "interval": (0.8, 0.95), "chosen_on_rate": 0.8, **half},
    }
    contrast = {"name": "carry", "usable": 90, "n": 100, "strongest": strongest}
    assert str(head_sets.moves(patching(contrast))) == (
        "Among single heads, dec0.cross.h1 flips the carry most often: in 90 % of 40 pairs not used for the choice "
        "(80 % to 95 %); patched from a sum with another digit and the same carry, that digit changes in 0 % "
        "(0 % to 4 %)."
    )
    strongest.pop("cross")
    assert str(head_sets.moves(patching(contrast))) == (
        "No single head is shown to flip the carry in more than 5 % of 40 pairs not used for the choice."
    )


def test_margins_stand_in_the_table_and_documents_without_them_are_shown() -> None:
    drop = blank(Drop, margin_change=-1.25, margin_change_interval=(-1.5, -1.0))
    assert str(narrated.margin_change(drop)) == "−1.2 (−1.5 to −1.0)"
    assert narrated.margin_change(blank(Drop)) == "–"
    found = blank(HeadAnalysis, baseline=blank(Baseline, margin=4.5, margin_interval=(4.25, 4.75)))
    assert str(narrated.margin(found)) == "The right answer leads by 4.5 logits (4.25 to 4.75)."
    with pytest.raises(Missing):
        narrated.margin(blank(HeadAnalysis))


def test_rates_over_seeds_are_listed_and_counted() -> None:
    rates = RatesOverSeeds(values=(0.97, 0.02, 0.5), above=1, between=1, below=1, limits=(0.1, 0.9))
    assert heads_study.rates_text(rates) == "97 %, 2 %, 50 % (1 above 90 %, 1 between, 1 below 10 %)"
    read_as = blank(ControlOverSeeds, readings={"carry alone": 2, "undecided": 1})
    controls = ControlsOverSeeds(seeds=3, together={"all cross": read_as, "decoder.0.cross": blank(ControlOverSeeds)})
    _, line = heads_study.flips(blank(ContrastOverSeeds, control=controls), 3)
    assert line == "    against controls with the same carry (3 seeds): all cross carry alone in 2, undecided in 1"
    assert len(list(heads_study.flips(blank(ContrastOverSeeds), 3))) == 1


@pytest.mark.parametrize("command", ["heads wider", "heads zero", "prune zero --keep enc0.self.h0"])
def test_quiet_prints_nothing_on_stderr(command: str, after: Shell) -> None:
    after(f"{command} --quiet{' --no-figures' if 'heads' in command else ''}")
    assert after.err == ""


def test_a_split_and_a_checkpoint_can_be_chosen(shell: Shell) -> None:
    found = shell.json("heads zero --no-figures --split train --examples 25 --checkpoint 2 --thorough")
    assert (found["split"], found["n"], found["step"]) == ("train", 25, 2)
    assert found["settings"]["thorough"]
    assert found["sizes"]["permutations"] == 5 * 4


def test_a_damaged_checkpoint_is_named(shell: Shell) -> None:
    Path("zero/checkpoints/step-000004/model.safetensors").write_bytes(b"")
    assert shell.json("heads zero --no-figures --checkpoint last")["step"] == 2
    assert "headway: warning: step-000004 is damaged" in shell.err


# Analysed before


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def analyse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("analysed again")

    monkeypatch.setattr(analysis, "analyse", analyse)


def test_a_run_that_was_analysed_the_same_way_is_read(after: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch)
    assert after.json("heads zero --no-figures") == stored("zero")
    assert after.err == "zero: already analysed; --again repeats it\n"
    assert after("heads zero --no-figures").startswith("zero (step ")


@pytest.mark.parametrize(
    "options", ["--again", "--examples 20", "--split validation", "--thorough", "--checkpoint OTHER"]
)
def test_anything_else_is_done_anew(options: str, after: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {0, 2, 4} - {stored("zero")["step"]}
    forbid(monkeypatch)
    with pytest.raises(AssertionError, match="analysed again"):
        after(f"heads zero --no-figures {options.replace('OTHER', str(max(steps)))}")


def test_an_analysis_of_another_checkpoint_says_what_it_replaces(
    after: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    best = stored("zero")["step"]
    other = max({0, 2, 4} - {best})
    forbid(monkeypatch)
    with pytest.raises(AssertionError, match="analysed again"):
        after(f"heads zero --no-figures --checkpoint {other}")
    told = f"zero: the analysis of step {other} replaces the stored one; reports and studies use step {best}"
    assert told in capsys.readouterr().err


def test_a_damaged_document_is_refused_with_what_to_do(after: Shell) -> None:
    place = Path("zero/analysis/heads.json")
    document = json.loads(place.read_text())
    document["baseline"]["exact_match"] = 7.5
    write_json(place, document)
    after("heads zero --no-figures", code=2)
    assert "baseline.exact_match is 7.5; a number from 0 to 1 needed; --again repeats the analysis" in after.err


def test_again_replaces_the_document(after: Shell) -> None:
    first = stored("zero")
    again = after.json("heads zero --no-figures --again")
    assert {**again, "seconds": 0} == {**first, "seconds": 0}
    assert again["seconds"] != first["seconds"]
    assert stored("zero") == again


def test_a_document_of_another_form_is_done_anew(after: Shell) -> None:
    old = {"form": 0, "settings": stored("zero")["settings"]}
    write_json(Path("zero/analysis/heads.json"), old)
    assert after.json("heads zero --no-figures")["form"] == 1


def test_an_unreadable_document_is_named_and_again_replaces_it(shell: Shell) -> None:
    Path("zero/analysis").mkdir()
    Path("zero/analysis/heads.json").write_text('{"form": 1,')
    shell("heads zero --no-figures", code=2)
    assert "zero/analysis/heads.json cannot be read" in shell.err
    assert shell.json("heads zero --no-figures --again") == stored("zero")


# Figures


def test_figures_are_drawn_into_the_run(shell: Shell) -> None:
    shell("heads zero --quiet")
    names = {path.name for path in Path("zero/report/figures").iterdir()}
    planned = {name for name, _ in figures.head_figures(HeadAnalysis.from_json(stored("zero")))}
    assert names == {f"{name}.{ending}" for name in planned for ending in ("png", "svg")}
    assert {"elimination", "shapley", "anatomy", "importance-zero", "interventions-inversion"} <= planned
    assert all(path.stat().st_size > 1_000 for path in Path("zero/report/figures").iterdir())


def test_figures_that_are_missing_are_drawn_without_a_new_analysis(
    after: Shell, drawn: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch)
    after("heads zero --no-figures")
    assert drawn == []
    after("heads zero")
    assert drawn == [Path("zero/report/figures")]
    after("heads zero")
    assert len(drawn) == 1
    next(Path("zero/report/figures").iterdir()).unlink()
    after("heads zero")
    assert len(drawn) == 2


@pytest.mark.parametrize("option", ["--again", "--examples 20"])
def test_a_new_analysis_has_new_figures(option: str, after: Shell, drawn: list[Path]) -> None:
    after("heads zero")
    after(f"heads zero {option}")
    assert len(drawn) == 2


def test_as_many_examples_are_drawn_as_asked_for(shell: Shell, drawn: list[Path]) -> None:
    assert heads_command.analysed_and_drawn(2_000, 4) == (2_000, 4)
    assert heads_command.analysed_and_drawn(2_000, 500) == (500, 3), "as earlier versions meant it"
    found = shell.json("heads zero --examples 5")
    assert len(found["capture"]["examples"]) == found["settings"]["maps"] == 5
    names = {path.stem for path in drawn[0].iterdir()}
    assert {f"heads-example-{index}" for index in range(5)} | {"heads-mean"} <= names
    assert not {"heads-example-5", "heads-encoder-mean"} & names


def test_another_number_of_maps_needs_no_new_analysis(
    after: Shell, drawn: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored("zero")
    forbid(monkeypatch)
    more, less, same = (after.json(f"heads zero --examples {maps}") for maps in (4, 2, 3))
    assert [len(found["capture"]["examples"]) for found in (more, less, same)] == [4, 2, 3]
    assert same == before == stored("zero")
    assert len(drawn) == 3
    assert {path.stem for path in drawn[0].glob("heads-example-*")} == {f"heads-example-{index}" for index in range(3)}


# Several runs


def test_several_seeds_are_put_together(shell: Shell) -> None:
    found = shell.json("heads zero one --no-figures")
    assert found.keys() == {"runs", "together"}
    assert [document["run"] for document in found["runs"]] == found["together"]["runs"] == ["zero", "one"]
    assert found["runs"] == [stored("zero"), stored("one")]
    assert (found["together"]["seeds"], found["together"]["descriptive"]) == (2, True)
    accuracies = [document["baseline"]["exact_match"] for document in found["runs"]]
    assert found["together"]["exact_match"]["values"] == accuracies
    text = shell("heads zero one --no-figures")
    assert "2 seeds together, fewer than 6: descriptive only" in text
    assert text.index("zero (step") < text.index("one (step") < text.index("2 seeds together")
    assert "heads were chosen for removal together for less than 1 point; on other examples they cost " in text


def test_runs_that_were_analysed_alone_are_not_done_again_together(
    after: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch)
    assert len(after.json("heads one zero --no-figures")["runs"]) == 2
    assert after.err.count("already analysed") == 2


def test_only_wrong_answers_are_listed_as_wrong(analysed: Path) -> None:
    found = HeadAnalysis.from_json(read_json(analysed / "zero" / "analysis" / "heads.json"))
    worst = [Answered(example=f"[{one}] -> 1", answered="0", right=one % 2 == 0, loss=9.0 - one) for one in range(9)]
    changed = replace(found, error_analysis=replace(found.error_analysis, worst=tuple(worst)))
    told = [str(line) for line in head_lines.findings(changed) if "answered" in str(line)]
    assert told == [f"  wrong: [{one}] -> 1, answered 0" for one in (1, 3, 5)]


# What goes wrong


WRONG = {
    "runs of different recipes": ("heads zero wider", "not two seeds of one recipe: model.d_ff: 16 and 24"),
    "runs of different tasks": ("heads zero sum", "zero and sum are not two seeds of one recipe"),
    "runs of different data": ("heads zero few", "data.test: 30 and 12"),
    "the same run twice": ("heads zero one zero", "a run is named twice; every seed counts once"),
    "the same run by another path": ("heads zero ./one/../zero", "a run is named twice"),
    "a copy of a run": ("heads one zero copy", "zero and copy both have seed 0; each counts once"),
    "too few examples asked for": ("heads zero --n 19", "19 examples of the test split; at least 20 needed"),
    "too few examples there": ("heads few", "12 examples of the test split; at least 20 needed"),
    "no examples": ("heads zero --examples 0", "--examples"),
    "too many maps": ("heads zero --examples 17", "--examples 17: the attention of 1 to 16 examples can be drawn"),
    "examples that are no number": ("heads zero --examples many", "--examples"),
    "unknown split": ("heads zero --split tset", "--split 'tset'; did you mean test?"),
    "the whole domain": ("heads zero --split all", "--split all: the domain of sortedness is too large to list"),
    "training set of fresh examples": ("heads fresh --split train", "no training set"),
    "missing run": ("heads nowhere", "no run at nowhere or runs/nowhere"),
    "a missing run among others": ("heads zero nowhere", "no run at nowhere"),
    "file for a run": ("heads a-file", "a-file is a file, not a run directory"),
    "run without a checkpoint": ("heads no-checkpoint", "it has none"),
    "unknown checkpoint": ("heads zero --checkpoint 3", "no checkpoint '3'"),
    "unknown device": ("heads zero --device tpu", "auto, cpu, cuda"),
    "no run": ("heads", "RUN"),
    "unknown option": ("heads zero --figure", "--figure"),
    # prune
    "nothing to prune by": ("prune zero", "give one of --keep (heads that stay) and --max-drop"),
    "two ways to prune": ("prune zero --keep enc0.self.h0 --max-drop 1", "give one of --keep"),
    "no drop at all": ("prune zero --max-drop 0", "--max-drop 0; more than 0 and at most 100 points needed"),
    "negative drop": ("prune zero --max-drop -1", "--max-drop"),
    "drop of more than everything": ("prune zero --max-drop 101", "at most 100 points needed"),
    "drop that is no number": ("prune zero --max-drop nan", "more than 0 and at most 100"),
    "drop that is a word": ("prune zero --max-drop little", "--max-drop"),
    "no head's name": ("prune zero --keep nonsense", "'nonsense' is not a head; write it like enc0.self.h1"),
    "head that is not there": ("prune zero --keep enc0.self.h7", "the model has no head enc0.self.h7; did you mean"),
    "layer that is not there": ("prune zero --keep dec5.cross.h0", "the model has no head dec5.cross.h0"),
    "head named twice": ("prune zero --keep enc0.self.h0,enc0.self.h0", "head enc0.self.h0 is named twice"),
    "pruning a missing run": ("prune nowhere --max-drop 1", "no run at nowhere"),
    "pruning a run without a checkpoint": ("prune no-checkpoint --max-drop 1", "it has none"),
    "pruning into another run": ("prune zero --max-drop 1 --out one", "one holds a run already"),
    "pruning into a file": ("prune zero --max-drop 1 --out a-file", "a-file is a file"),
    "negative fine-tuning": ("prune zero --max-drop 1 --finetune -1", "--finetune"),
    "pruning on an unknown device": ("prune zero --max-drop 1 --device tpu", "auto, cpu, cuda"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_gets_one_line_and_changes_nothing(name: str, shell: Shell, here: Path) -> None:
    command, word = WRONG[name]
    before = contents(here)
    shell(command, code=2)
    assert shell.out == ""
    assert shell.err.startswith("headway: ")
    assert shell.err.count("\n") == 1
    assert word in shell.err
    assert contents(here) == before


def interrupt(*arguments: Any, **options: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "part",
    [
        "capture.capture",
        "ablation.ablate",
        "joint.eliminate",
        "joint.measure_pairs",
        "error_analysis.analyse_errors",
        "checks.check_instruments",
    ],
)
def test_an_interrupt_leaves_nothing_behind(
    part: str, shell: Shell, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(here)
    monkeypatch.setattr(f"headway.head_analysis.{part}", interrupt)
    shell("heads zero --quiet", code=130)
    assert (shell.out, shell.err.strip()) == ("", "headway: interrupted")
    assert contents(here) == before


def test_an_interrupt_leaves_an_earlier_analysis_as_it_was(after: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    first = stored("zero")
    monkeypatch.setattr(capture, "capture", interrupt)
    after("heads zero --no-figures --again", code=130)
    assert stored("zero") == first
    assert [path.name for path in Path("zero/analysis").iterdir()] == ["heads.json"]


def test_an_interrupt_in_the_second_run_keeps_the_first(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    right = capture.capture
    monkeypatch.setattr(
        capture, "capture", lambda trained, *rest: interrupt() if trained.config.seed else right(trained, *rest)
    )
    shell("heads zero one --no-figures", code=130)
    assert stored("zero")["run"] == "zero"
    assert not Path("one/analysis").exists()


def test_an_interrupt_while_drawing_leaves_the_document(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(figures, "draw_all", interrupt)
        shell("heads zero", code=130)
    assert stored("zero")["run"] == "zero"
    places: list[Path] = []
    monkeypatch.setattr(figures, "draw_all", lambda found, folder: places.append(folder))
    shell("heads zero")
    assert places == [Path("zero/report/figures")]


def test_a_disagreement_with_real_decoding_is_an_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the answers that are written are not those of the model."""
    right = checks.decode
    monkeypatch.setattr(checks, "decode", lambda *a, **options: torch.roll(right(*a, **options), 1, dims=-1) + 1)
    found = shell.json("heads sum --no-figures", code=1)
    assert found["checks"]["real_disagreements"] > 0
    assert "of them by more than a near-tie; these drops are invalid" in shell.err
    shell("heads sum --no-figures", code=1)  # and a second look does not make it better


def test_a_near_tie_is_counted_and_is_no_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    rounding = Checks(identity=1e-6, decoded=100, disagreements=2, real_disagreements=0, weights_off_one=1e-7)
    monkeypatch.setattr(checks, "check_instruments", lambda *rest: rounding)
    assert "2 disagreements" in shell("heads zero --no-figures")


def test_one_of_several_runs_that_disagrees_is_an_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    right = checks.check_instruments
    wrong = Checks(identity=0.0, decoded=9, disagreements=1, real_disagreements=1, weights_off_one=0.0)
    monkeypatch.setattr(
        checks,
        "check_instruments",
        lambda trained, *rest: wrong if trained.config.seed == 1 else right(trained, *rest),
    )
    found = shell.json("heads zero one --no-figures", code=1)
    assert [document["checks"]["real_disagreements"] for document in found["runs"]] == [0, 1]


def test_an_instrument_that_fails_is_one_line_and_leaves_nothing(
    shell: Shell, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(here)
    monkeypatch.setattr(checks, "IDENTITY_TOLERANCE", -1.0)
    shell("heads zero --quiet", code=1)
    assert shell.err.startswith("headway: with every head kept, the partial forward pass differs from the model by ")
    assert (shell.out, shell.err.count("\n")) == ("", 1)
    assert contents(here) == before


# prune


def test_named_heads_are_all_that_is_left(shell: Shell) -> None:
    found = shell.json("prune sum --keep dec0.cross.h1,enc0.self.h0")
    assert (found["run"], found["pruned_from"]) == ("sum-pruned", "sum")
    assert found["kept"] == ["enc0.self.h0", "dec0.cross.h1"]  # in the order of computation
    assert found["removed"] == ["enc0.self.h1", "dec0.self.h0", "dec0.self.h1", "dec0.cross.h0"]
    assert found["parameters_after"] < found["parameters_before"]
    assert found["logits_apart"] < 1e-3
    assert found["speed"] > 0
    assert found["n"] == 30
    assert found["drop"] == pytest.approx(100 * (found["exact_match_before"] - found["exact_match_after"]))
    assert found["finetuned"] is None
    assert RunDirectory("sum-pruned").config().model.kept_heads == ("enc0.self.h0", "dec0.cross.h1")
    assert shell.json("evaluate sum-pruned")["exact_match"] == found["exact_match_after"]
    rows = shell.json("heads sum-pruned --no-figures")["heads"]
    assert [row["head"] for row in rows] == found["kept"]


def test_people_are_told_what_pruning_brought(shell: Shell) -> None:
    text = shell("prune sum --keep enc0.self.h0 --out small")
    assert text.startswith("small: heads kept 1, removed 5 (named)\nkept: enc0.self.h0\nparameters ")
    assert "x as fast" in text
    assert "accuracy on 30 test examples" in text
    assert "after" not in text


def test_heads_go_until_the_drop_is_reached(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shell.json("prune sum --max-drop 100 --out none")
    assert found["chosen"] == "elimination on 24 validation examples"
    # A model that learned nothing has nothing to lose.
    assert found["kept"] == []
    assert "kept: none" in shell("prune sum --max-drop 100 --out none-again")
    shell("heads none", code=2)
    assert shell.err == "headway: none has no heads left; there is nothing to analyse\n"
    monkeypatch.setattr(joint_ablation, "_points", lambda before, after: 50.0 * (np.arange(len(after)) > 0))
    assert len(shell.json("prune sum --max-drop 20 --out whole")["kept"]) == 6


def test_a_pruned_model_can_be_trained_on(shell: Shell) -> None:
    found = shell.json("prune sum --keep enc0.self.h0,dec0.cross.h1 --finetune 3 --out tuned")
    assert found["finetuned"]["steps"] == 3
    assert shell.json("evaluate tuned")["exact_match"] == found["finetuned"]["exact_match_after"]
    assert RunDirectory("tuned").provenance()["made_from"] == "sum"
    assert "after 3 steps of training (best at " in shell("prune sum --keep enc0.self.h0 --finetune 3 --out tuned-more")


def test_scores_are_printed_with_what_they_mean(after: Shell) -> None:
    text = after("heads zero --scores --no-figures")
    found = stored("zero")
    for name, meaning in found["definitions"].items():
        assert f"{name}: {' '.join(meaning.split())}" in text
    row = found["heads"][0]
    (line,) = [line for line in text.splitlines() if line.startswith(row["head"]) and "0." in line.split()[1]]
    assert line.split()[1:] == [
        "–" if v is None else f"{v:.3f}".replace("-", "−") for v in (row["scores"][n] for n in found["definitions"])
    ]


def test_keeping_nothing_by_a_slip_is_refused(shell: Shell) -> None:
    shell("prune sum --keep ' , '", code=2)
    assert "names no head" in shell.err


def test_pruning_twice_into_the_same_place_is_refused(shell: Shell, here: Path) -> None:
    shell("prune zero --keep enc0.self.h0")
    before = contents(here)
    shell("prune zero --keep enc0.self.h1", code=2)
    assert "zero-pruned holds a run already" in shell.err
    assert contents(here) == before


def test_pruning_that_is_interrupted_leaves_nothing(shell: Shell, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(here)
    monkeypatch.setattr("headway.head_analysis.pruning.largest_removable", interrupt)
    shell("prune zero --max-drop 1 --quiet", code=130)
    assert shell.err.strip() == "headway: interrupted"
    assert contents(here) == before


# Help


@pytest.mark.parametrize("command", ["heads", "prune"])
def test_the_help_has_an_example_and_the_options(command: str, shell: Shell) -> None:
    assert f"  {command} " in shell("--help")
    text = shell(f"{command} --help")
    assert f"Example: headway {command}" in text
    assert all(option in text for option in ("--json", "--quiet", "--device"))
