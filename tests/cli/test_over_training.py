"""headway heads --over-training."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import headway as hw
from headway.cli.main import app
from headway.errors import InputError
from headway.head_analysis.over_training import _Patched, steps_of
from headway.narration.over_training import over_training, rows
from headway.reports.over_training_figure import over_training as draw
from headway.results.over_training import ContrastAtStep
from headway.runs import RunDirectory
from headway.tasks import Examples
from headway.tasks.examples import Contrast
from headway.training import train
from tests.head_analysis.small import ADDITION as SMALL
from tests.head_analysis.small import untrained
from tests.results.over_training import made_up
from tests.tiny import ADDITION, config


def test_the_command_measures_stores_and_draws_every_kept_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    tables: dict[str, dict[str, Any]] = {
        "task": {"digits": 2, "leading_zeros": False},
        "data": {"train": 60, "test": 30},
    }
    train(config(ADDITION, 0, train={"keep_every": 8, "steps": 16}, **tables), run, device="cpu")
    found = CliRunner().invoke(app, ["heads", str(run), "--over-training", "--device", "cpu", "--json", "--quiet"])
    assert found.exit_code == 0, found.output
    printed = json.loads(found.stdout)
    stored = json.loads((run / "analysis" / "over_training.json").read_text())
    assert [one["step"] for one in printed["steps"]] == [0, 8, 16]
    assert {key: value for key, value in stored.items() if key not in ("made_from", "sha256")} == printed
    assert (run / "report" / "figures" / "over-training.png").exists()
    assert "Heads over training" in Path(hw.report(run, out=tmp_path / "report").page).read_text()
    assert "over_training.json" in str(hw.verify(run).files)
    assert hw.verify(run).faults == []


def test_a_step_is_measured_on_the_pairs_that_do_not_choose_the_head() -> None:
    """Pairs 0, 1, 4 and 5 choose; of the others pair 3 is not usable. Head 0 flips those, head 1 these."""
    rows = Examples(np.zeros((8, 5), dtype=np.int64), np.zeros((8, 4), dtype=np.int64))
    chooses = np.array([True, True, False, False] * 2)
    patched = _Patched(
        contrast=Contrast("carry", "the carry", 1, rows, rows),
        usable=np.arange(8) != 3,
        flipped=np.stack([chooses, ~chooses]),
        moved=np.stack([np.where(chooses, 4.0, 1.0), np.where(chooses, 1.0, 6.0)]).astype(np.float32),
        whole=np.where(chooses, 10.0, 8.0).astype(np.float32),
    )
    chosen = patched.choosing_rates()
    assert chosen is not None and chosen.tolist() == [1.0, 0.0]
    found = patched.at_step()
    assert (found.n, found.usable, found.flips) == (4, 3, (0, 3))
    assert (found.moved, found.difference) == ((1.0, 6.0), 8.0)


@pytest.mark.parametrize(
    ("kept", "last", "wanted"),
    [
        ([0, 8, 16], 16, [0, 8, 16]),
        ([0, 8, 16], 20, [0, 8, 16, 20]),
        ([0, 8, 16], 12, [0, 8, 12]),
        ([5], 20, [5, 20]),
        ([0, 8], 0, [0]),
    ],
)
def test_the_steps_are_those_kept_up_to_the_model_and_the_model_itself(
    tmp_path: Path, kept: list[int], last: int, wanted: list[int]
) -> None:
    directory = RunDirectory(tmp_path)
    for step in kept:
        directory.kept_path(step).mkdir(parents=True)
    assert steps_of(replace(untrained(SMALL), directory=directory, step=last)) == wanted


@pytest.mark.parametrize("kept", [[], [8]])
def test_a_run_that_kept_nothing_up_to_the_model_says_how_to_keep_it(tmp_path: Path, kept: list[int]) -> None:
    directory = RunDirectory(tmp_path)
    for step in kept:
        directory.kept_path(step).mkdir(parents=True)
    with pytest.raises(InputError, match="kept no weights of its training; headway train RECIPE --keep-every N"):
        steps_of(replace(untrained(SMALL), directory=directory, step=4))


def test_sentences_and_rows_tell_the_steps() -> None:
    found = made_up(accuracies=[0.0, 0.2, 0.9, 1.0], drops=[0, 5, 40, 80], steps=[0, 100, 200, 300])
    told = " ".join(map(str, over_training(found)))
    assert "The accuracy stays above 50 % from step 200." in told
    assert "Its drop in accuracy stays above half of its final value from step 300." in told
    assert "Its share of the logit difference stays above half of its final value from step 300." in told
    assert [line.split()[0] for line in rows(found)] == ["step", "0", "100", "200", "300"]
    first, second = found.heads
    largest = [line.split("%", 1)[1].split()[:2] for line in list(rows(found))[1:]]
    assert largest == [[first, "0.50"], [second, "5.0"], [second, "40.0"], [second, "80.0"]]


@pytest.mark.parametrize(
    ("values", "formed"),
    [
        ([0.0, 41.0, 80.0, 80.0], 100),
        ([0.0, 40.0, 80.0, 80.0], 250),
        ([0.0, 70.0, 30.0, 80.0], 300),
        ([0.0, 70.0, 40.0, 80.0], 300),
        ([60.0, 0.0, 60.0, 80.0], 250),
        ([None, 70.0, None, 80.0], 300),
        ([60.0, None, 60.0, 80.0], 250),
        ([90.0, 70.0, 60.0, 80.0], 0),
        ([10.0, 10.0, 10.0, 0.0], None),
        ([10.0, 10.0, 10.0, -1.0], None),
        ([10.0, 10.0, 10.0, None], None),
    ],
)
def test_a_head_has_formed_where_it_stays_above_half_of_its_final_value(
    values: list[float | None], formed: int | None
) -> None:
    found = made_up(accuracies=[0.5] * 4, drops=[0] * 4, steps=[0, 100, 250, 300])
    assert found.formed(values) == formed


@pytest.mark.parametrize(
    ("accuracies", "jump"),
    [
        ([0.0, 0.6, 0.4, 0.9], 300),
        ([0.0, 0.6, 0.7, 0.9], 100),
        ([0.0, 0.5, 0.51, 0.9], 250),
        ([0.6, 0.7, 0.8, 0.5], None),
    ],
)
def test_the_jump_is_where_the_accuracy_stays_above_one_half(accuracies: list[float], jump: int | None) -> None:
    assert made_up(accuracies=accuracies, drops=[0] * 4, steps=[0, 100, 250, 300]).jump == jump


def contrast(name: str, difference: float, moved: float, about: str = "carry") -> ContrastAtStep:
    return ContrastAtStep(
        name=name, about=about, n=9, usable=9, difference=difference, flips=(0, 0), moved=(0.0, moved)
    )


@pytest.mark.parametrize(
    ("contrasts", "share"),
    [
        ([contrast("tens", 0.04, 0.2)], None),
        ([contrast("tens", 0.49, 0.49)], None),
        ([contrast("tens", 0.5, 0.25)], 0.5),
        ([contrast("tens", -8.0, 4.0)], None),
        ([contrast("tens", 0.9, 0.3), contrast("hundreds", 0.05, 0.3)], None),
        ([contrast("tens", 0.9, 0.3), contrast("hundreds", 0.3, 0.3)], 0.5),
        ([contrast("tens", 2.0, 0.5), contrast("digit", 0.1, 7.0, about="digits")], 0.25),
        ([contrast("digit", 8.0, 4.0, about="digits")], None),
        ([], None),
    ],
)
def test_a_share_is_taken_of_half_a_logit_for_each_contrast_or_more(
    contrasts: list[ContrastAtStep], share: float | None
) -> None:
    early = made_up(accuracies=[1.0, 1.0], drops=[0, 20], steps=[0, 100])
    found = replace(early, steps=(replace(early.steps[0], contrasts=tuple(contrasts)), early.steps[1]))
    assert found.effects_of("dec0.cross.h0") == pytest.approx([share, 0.2])


@pytest.mark.parametrize("narrow", [False, True])
def test_the_figure_has_a_row_for_each_head_and_a_column_for_each_step(narrow: bool) -> None:
    found = made_up(accuracies=[0.0, 0.2, 0.9, 1.0], drops=[0, 5, 40, 80], steps=[0, 100, 200, 300])
    above, below = draw(found, narrow=narrow).axes[:2]
    values = below.collections[0].get_array()
    assert values is not None
    assert values.ravel().tolist() == [0.5] * 4 + [0, 5, 40, 80]
    assert [text.get_text() for text in below.get_yticklabels()] == list(found.heads)
    assert np.asarray(above.get_lines()[0].get_ydata()).tolist() == found.accuracies()


def test_several_runs_are_refused() -> None:
    found = CliRunner().invoke(app, ["heads", "a", "b", "--over-training"])
    assert found.exit_code != 0
    assert "--over-training takes one run; 2 given" in str(found.exception) + found.output
