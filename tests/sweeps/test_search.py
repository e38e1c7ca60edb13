"""A search's settings: inside their ranges, the same every time, known beforehand, not chosen on the test split."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import kstest

import headway as hw
from headway.cli.main import run
from headway.errors import InputError
from headway.runs import SweepDirectory
from headway.sweeps.driver import run_sweep
from headway.sweeps.plan import SweepPlan, plan_grid, read_vary
from headway.sweeps.ranges import Range, parse_range
from headway.sweeps.search import draw, plan_search
from tests.sweeps.driving import HERE
from tests.tiny_recipes import write_recipe

pytest.importorskip("optuna", reason="the extra `search` is not installed")

RATE = "train.lr=1e-4..1e-2:log"


def search(folder: Path, *vary: str, **how: Any) -> SweepPlan:
    return plan_search(write_recipe(folder), [], vary, [100, 101], **how)


NUMBERS = st.integers(-(2**40), 2**40) | st.floats(-1e12, 1e12)


@given(ends=st.tuples(NUMBERS, NUMBERS), log=st.booleans(), seed=st.integers(0, 2**62))
def test_draws_are_inside_their_range_and_the_same_every_time(ends: tuple[Any, Any], log: bool, seed: int) -> None:
    low, high = sorted(ends)
    assume(low < high and (low > 0 or not log))
    found = parse_range("a.b", f"{low}..{high}{':log' * log}")
    assert found == Range(low, high, log)
    varied = {"a.b": found, "a.c": ["x", {"name": "y"}]}
    drawn = draw(varied, 12, seed)
    kind = int if isinstance(low, int) and isinstance(high, int) else float
    for settings in drawn:
        assert low <= settings["a.b"] <= high
        assert type(settings["a.b"]) is kind or settings["a.b"] in (low, high)
        assert settings["a.c"] in ("x", {"name": "y"})
    assert draw(varied, 12, seed) == drawn
    assert draw(varied, 7, seed) == drawn[: len(draw(varied, 7, seed))], "more trials draw the same ones first"


def drawn_values(text: str, count: int = 400) -> list[float]:
    return [settings["a.b"] for settings in draw(read_vary([f"a.b={text}"]), count, 5)]


def test_a_logarithmic_range_is_uniform_in_the_logarithm_and_in_nothing_else() -> None:
    # 400 draws with a fixed seed, few of them twice; p is uniform where the claim is true and vanishes where it is not.
    log = [math.log10(value) for value in drawn_values("1e-4..1e-2:log")]
    assert kstest(log, "uniform", (-4, 2)).pvalue > 0.05
    assert kstest([10**value for value in log], "uniform", (1e-4, 1e-2)).pvalue < 1e-9
    assert kstest(drawn_values("-0.5..1.5"), "uniform", (-0.5, 2)).pvalue > 0.05


def test_whole_ends_give_whole_numbers_up_to_both_ends() -> None:
    assert sorted(drawn_values("2..5")) == [2, 3, 4, 5]
    assert sorted(drawn_values("2..5:log")) == [2, 3, 4, 5]
    assert all(type(value) is int for value in drawn_values("64..512:log"))
    assert all(type(value) is float for value in drawn_values("0..1.0", 50))


def test_numbers_are_short_but_a_narrow_range_is_still_a_range() -> None:
    assert all(
        len(f"{value:.4g}") >= len(str(value)) or value == float(f"{value:.4g}") for value in drawn_values("1..9.5")
    )
    narrow = drawn_values("0.99990..0.99995")
    assert len(narrow) > 300
    assert all(0.9999 <= value <= 0.99995 for value in narrow)
    assert Range(-1.0, 1.0).rounded(0.0) == 0.0


def test_a_search_is_a_plan_that_lists_its_trials(tmp_path: Path) -> None:
    plan = search(tmp_path, RATE, "model.encoding.name=rotary,alibi", trials=6)
    assert plan == search(tmp_path, RATE, "model.encoding.name=rotary,alibi", trials=6)
    assert len({trial.name for trial in plan.trials}) == 12
    assert [trial.seed for trial in plan.trials] == [100, 101] * 6
    assert all(trial.config.train.lr == trial.settings["train.lr"] for trial in plan.trials)
    document = json.loads(json.dumps(plan.to_json()))
    assert document["search"] == {"drawn": 6, "rungs": []}
    assert document["vary"] == {"train.lr": "0.0001..0.01:log", "model.encoding.name": ["rotary", "alibi"]}
    assert [trial["settings"] for trial in document["trials"]] == [trial.settings for trial in plan.trials]
    from_python = plan_search(
        tmp_path / "tiny.toml",
        [],
        {"train.lr": "1e-4..1e-2:log", "model.encoding.name": ["rotary", "alibi"]},
        [100, 101],
        trials=6,
    )
    assert from_python == plan
    other = plan_search(tmp_path / "tiny.toml", ["data.seed=1"], [RATE], [0], trials=6)
    assert other.trials[0].settings["train.lr"] != plan.trials[0].settings["train.lr"]


def test_the_plan_of_a_grid_does_not_know_of_searches(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    plan = plan_grid(recipe, [], ["train.lr=0.01,0.02", "model.encoding.name=rotary"], [0])
    assert list(plan.to_json()) == ["form", "recipe_name", "recipe", "vary", "seeds", "split", "trials"]
    assert plan.to_json()["vary"] == {"train.lr": [0.01, 0.02], "model.encoding.name": ["rotary"]}


def test_values_that_only_look_like_ranges_are_values() -> None:
    assert parse_range("a.b", "../x") is None
    assert parse_range("a.b", "a/../b") is None
    assert parse_range("a.b", '"1..2"') is None
    assert read_vary(["a.b=../x,1"]) == {"a.b": ["../x", 1]}


def test_the_best_setting_has_the_lowest_mean_validation_loss_and_nothing_is_tested(tmp_path: Path) -> None:
    plan = search(tmp_path, "train.lr=1e-4..1e-1:log", trials=4)
    directory = SweepDirectory(tmp_path / "sweep")
    result = run_sweep(plan, directory, HERE)
    losses: dict[float, list[float]] = {}
    for trial in plan.trials:
        recorded = directory.trial(trial.name).metrics()
        best = min(record["validation"]["loss"] for record in recorded if "validation" in record)
        losses.setdefault(trial.settings["train.lr"], []).append(best)
    rate = min(losses, key=lambda rate: sum(losses[rate]))
    assert result.search is not None
    assert result.search.best is not None
    assert result.search.best.settings == {"train.lr": rate}
    assert result.search.best.validation_loss == pytest.approx(sum(losses[rate]) / 2, rel=1e-12)  # two doubles added
    assert result.search.best.seeds == 2
    assert (result.finished, result.search.stopped) == (8, 0)
    assert result.to_json()["search"]["best"]["settings"] == {"train.lr": rate}
    found = hw.compare(directory)
    assert found.metric == "validation_loss"
    assert found.top(1)[0].settings == {"train.lr": rate}


# The command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    return tmp_path


def test_repeated_draws_are_trained_once_and_the_command_says_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "tiny.toml", "--vary", "train.lr=0.01,0.02", "--trials", "30", "--seeds", "100", "--dry-run"]
    assert run([*command, "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[:2]) == ["lr=0.01,seed=100: 4 steps", "lr=0.02,seed=100: 4 steps"]
    assert lines[2] == "2 distinct settings in 30 draws; each is trained once"
    assert lines[3] == "sweeps/tiny: 2 trials to run, 0 already finished"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--vary", RATE],
            "--vary train.lr=0.0001..0.01:log is a range; give the number of settings to draw with --trials",
        ),
        (["--search", "halving"], "--search halving needs --trials: how many settings to draw"),
        (["--budget", "50"], "--budget 50 needs --trials: how many settings to draw"),
        (["--vary", RATE, "--trials", "0"], "--trials 0; at least 1 needed"),
        (["--trials", "3"], "--trials 3: nothing is varied; name the settings to draw with --vary"),
        (["--vary", RATE, "--trials", "3", "--search", "halfing"], "--search 'halfing'; did you mean halving? known: "),
        (["--vary", RATE, "--trials", "3", "--budget", "9"], "--budget is for --search halving; a random search takes"),
        (
            ["--vary", RATE, "--trials", "60000", "--seeds", "0-1"],
            "the sweep would have 120,000 trials; at most 100,000 are allowed",
        ),
        (["--vary", "train.lr=0.1..0.1", "--trials", "3"], "--vary train.lr=0.1..0.1: LOW must be below HIGH"),
        (
            ["--vary", "train.lr=0..0.1:log", "--trials", "3"],
            "--vary train.lr=0..0.1:log: with :log, LOW must be above 0",
        ),
        (
            ["--vary", "train.lr=0.1..inf", "--trials", "3"],
            "--vary train.lr=0.1..inf: the ends of a range, and their difference",
        ),
        (["--vary", f"train.steps=1..{'9' * 400}", "--trials", "3"], "must be finite and below 1.8e308"),
        (["--vary", f"train.lr=0x{'9' * 400}..0x{'9' * 401}", "--trials", "3"], "must be finite and below 1.8e308"),
        (["--vary", f"train.steps=1..0x{'9' * 5000}", "--trials", "3"], "write a range as LOW..HIGH"),
        (["--vary", "train.lr=nan..1", "--trials", "3"], "--vary train.lr=nan..1: the ends of a range"),
        (["--vary", "train.lr=-1e308..1e308", "--trials", "3"], "their difference, must be finite"),
        (
            ["--vary", "train.lr=0.1..x", "--trials", "3"],
            "--vary train.lr=0.1..x: write a range as LOW..HIGH or LOW..HIGH:log, for example 1e-4..1e-2:log",
        ),
        (["--vary", "train.lr=0.1..0.2:lin", "--trials", "3"], "train.lr=0.1..0.2:lin: write a range as LOW..HIGH"),
        (
            ["--vary", "train.lr=0.1..0.2,3"],
            "--vary train.lr=0.1..0.2,3: a range cannot be part of a list",
        ),
        (["--vary", "train.rate=0.1..0.2", "--trials", "3"], "tiny.toml: unknown key 'train.rate'"),
        (["--vary", "train.lr=11.0..12.0", "--trials", "3"], "; more than 0 and at most 10 needed"),
        (
            ["--vary", RATE, "--trials", "3", "--split", "test"],
            "--split test with a search: the choice of a setting must not use the test set; omit --split, and "
            "test the best setting afterwards on new seeds",
        ),
        (["--vary", RATE, "--trials", "3", "--split", "all"], "--split all with a search: the choice of a setting"),
        (
            ["--vary", "train.steps=2..90", "--trials", "3", "--search", "halving"],
            "--search halving compares settings at the same step, so all need the same number of steps; these have",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused_in_one_line(
    arguments: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", "tiny.toml", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert not Path("sweeps").exists()


def test_a_search_without_seeds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^--seeds: at least one seed needed$"):
        plan_search(write_recipe(tmp_path), [], [RATE], [], trials=2)


def test_without_the_extra_a_grid_works_and_a_search_says_how_to_get_it(here: Path) -> None:
    """In a process that cannot find the package, as on a machine without it."""
    code = (
        "import sys; sys.modules['optuna'] = None; from headway.cli.main import run; import headway.api; "
        "assert len(headway.api.plan_sweep('tiny.toml', vary=['train.lr=0.1,0.2']).trials) == 2; "
        "sys.exit(run(['sweep', 'tiny.toml', '--vary', 'train.lr=0.1..0.2', '--trials', '2']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=here)
    assert done.returncode == 2, done.stderr
    assert done.stderr == "headway: a search needs the extra: pip install 'headway[search]'\n"


def test_from_python_a_search_is_three_arguments(here: Path) -> None:
    how: dict[str, Any] = {"trials": 1, "search": "halving", "budget": 4, "device": "cpu", "workers": 1}
    found = hw.sweep("tiny.toml", vary={"train.lr": "1e-3..1e-1:log"}, seeds=[100], **how)
    assert found.search is not None
    assert (found.planned, found.finished, found.search.stopped) == (1, 1, 0)
    trial = SweepDirectory("sweeps/tiny").plan()["trials"][0]["name"]
    assert SweepDirectory("sweeps/tiny").trial(trial).read_analysis("evaluation") is None, "nothing is tested"
    with pytest.raises(InputError, match="--split test with a search"):
        hw.sweep("tiny.toml", vary={"train.lr": "1e-3..1e-1:log"}, trials=4, split="test")


def test_halving_that_would_halve_nothing_is_refused(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    with pytest.raises(InputError, match="no rung ends before step 4, the last, with a validation every 100"):
        plan_search(recipe, ["train.validate_every=100"], [RATE], [0], trials=9, search="halving")
