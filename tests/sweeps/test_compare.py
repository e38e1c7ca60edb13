"""What a sweep says: rows, intervals, failures, filters, sorting, one key with everything else equal."""

import json
import math
import re
from pathlib import Path

import pytest

from headway.errors import InputError
from headway.results.comparison import Comparison, Outcome
from headway.runs import SweepDirectory
from headway.statistics import clopper_pearson, newcombe_interval, wilson_interval
from headway.storage import write_json
from headway.sweeps.compare import compare
from headway.sweeps.plan import Trial
from headway.sweeps.tables import effect_table, shown, table_of
from tests.sweeps.made_up import ENCODINGS, RATES, add_line, by_settings, make_sweep, record

MEANS = {"sinusoidal": 0.8, "rotary": 0.99, "learned": 0.9}


@pytest.fixture
def sweep(tmp_path: Path) -> SweepDirectory:
    """Three encodings, six seeds, all finished."""
    return make_sweep(tmp_path / "encodings", [ENCODINGS], 6, by_settings(MEANS))


def encodings(found: Comparison) -> list[str]:
    return [row.settings["model.encoding.name"] for row in found.rows]


def test_a_row_holds_the_numbers_of_its_seeds(sweep: SweepDirectory) -> None:
    found = compare(sweep)
    best = found.rows[0]
    values = [0.99 + seed / 1000 for seed in range(6)]
    assert encodings(found) == ["rotary", "learned", "sinusoidal"]
    assert (best.n, best.failed, best.planned) == (6, 0, 6)
    assert best.seeds == tuple(range(6))
    assert best.values == pytest.approx(values)
    assert best.mean == pytest.approx(0.9925)
    assert best.median == pytest.approx(0.9925)
    both = wilson_interval(990, 1_000)[0], wilson_interval(995, 1_000)[1]
    assert best.interval == pytest.approx(both), "of the median seed, with the error of the examples"
    assert (best.min, best.max) == pytest.approx((0.99, 0.995))
    assert (best.successes, best.success, best.success_interval) == (6, 1.0, clopper_pearson(6, 6))
    assert found.rows[1].success == 0.0
    assert (found.trials_planned, found.trials_finished, found.trials_failed) == (18, 18, 0)
    assert not found.descriptive
    assert found.notes == ()


def test_a_failed_seed_is_shown_and_is_no_success(tmp_path: Path) -> None:
    one = make_sweep(tmp_path, [], 4, lambda trial: "the loss is not finite" if trial.seed == 2 else 1.0)
    found = compare(one)
    (row,) = found.rows
    assert (row.n, row.failed, row.mean) == (3, 1, 1.0)
    assert row.values == (1.0, 1.0, None, 1.0)
    assert row.errors == (None, None, "the loss is not finite", None)
    assert (row.successes, row.success, row.success_interval) == (3, 0.75, clopper_pearson(3, 4))
    assert (found.trials_finished, found.trials_failed) == (3, 1)


def test_all_failed_has_no_mean_and_comes_last(tmp_path: Path) -> None:
    found = compare(make_sweep(tmp_path, [RATES], 2, lambda t: "no" if t.settings["train.lr"] == 0.001 else 0.1))
    assert [row.settings["train.lr"] for row in found.rows] == [0.01, 0.001]
    last = found.rows[1]
    assert (last.n, last.failed, last.mean, last.interval, last.min, last.success) == (0, 2, None, None, None, 0.0)


def test_an_unfinished_sweep_is_compared_with_what_is_there(tmp_path: Path) -> None:
    found = compare(make_sweep(tmp_path, [RATES], 3, lambda trial: 0.5 if trial.seed == 0 else None))
    assert (found.trials_planned, found.trials_finished) == (6, 2)
    assert [(row.planned, row.n, row.mean, row.interval) for row in found.rows] == [(3, 1, 0.5, None)] * 2
    assert found.descriptive


def test_nothing_finished_yet_is_no_error(tmp_path: Path) -> None:
    found = compare(make_sweep(tmp_path, [RATES], 2, lambda trial: None))
    assert [(row.n, row.mean, row.success) for row in found.rows] == [(0, None, None)] * 2
    assert found.metric == "accuracy"


def test_fewer_than_six_seeds_are_descriptive(tmp_path: Path) -> None:
    assert compare(make_sweep(tmp_path / "five", [], 5, lambda trial: 1.0)).descriptive
    assert not compare(make_sweep(tmp_path / "six", [], 6, lambda trial: 1.0)).descriptive


@pytest.mark.parametrize(
    ("planned", "failed", "pending", "descriptive"),
    [(6, 1, 0, True), (7, 1, 0, False), (7, 2, 0, True), (8, 0, 2, False), (8, 1, 2, True), (6, 6, 0, True)],
)
def test_only_seeds_that_finished_count_towards_six(
    tmp_path: Path, planned: int, failed: int, pending: int, descriptive: bool
) -> None:
    def measure(trial: Trial) -> float | str | None:
        if trial.seed < failed:
            return "the loss is not finite"
        return None if trial.seed >= planned - pending else 0.9

    found = compare(make_sweep(tmp_path, [], planned, measure))
    (row,) = found.rows
    assert (row.planned, row.n, row.failed) == (planned, planned - failed - pending, failed)
    assert (row.descriptive, found.descriptive) == (descriptive, descriptive)
    assert (row.interval is None) is descriptive


def test_one_setting_with_too_few_seeds_makes_the_comparison_descriptive(tmp_path: Path) -> None:
    def measure(trial: Trial) -> float | str:
        return "no" if trial.settings["train.lr"] == 0.001 and trial.seed == 4 else 0.5

    found = compare(make_sweep(tmp_path, [RATES], 6, measure))
    assert {row.settings["train.lr"]: row.descriptive for row in found.rows} == {0.001: True, 0.01: False}
    assert found.descriptive


def test_an_interval_of_a_share_does_not_leave_it(tmp_path: Path) -> None:
    (row,) = compare(make_sweep(tmp_path, [], 6, lambda trial: [0.9, 1.0, 1.0, 1.0, 1.0, 1.0][trial.seed])).rows
    assert row.interval == (wilson_interval(900, 1_000)[0], 1.0)


def test_fewer_than_six_seeds_have_no_interval(tmp_path: Path) -> None:
    (row,) = compare(make_sweep(tmp_path, [], 5, lambda trial: 1.0)).rows
    assert (row.mean, row.median, row.interval) == (1.0, 1.0, None)


def test_without_the_number_of_examples_an_accuracy_has_no_interval(tmp_path: Path) -> None:
    """Six equal seeds would look certain; of a number that is no share the seeds are all there is."""
    directory = make_sweep(tmp_path, [], 6, lambda trial: None)
    for trial in directory.plan()["trials"]:
        metrics = {"accuracy": 1.0, "validation_accuracy": 1.0, "loss": 0.25}
        line = {"name": trial["name"], "settings": {}, "seed": trial["seed"], "state": "finished", "error": None}
        add_line(directory, {**line, "metrics": metrics, "seconds": 2.0})
    assert [compare(directory, metric=one).rows[0].interval for one in ("accuracy", "validation_accuracy")] == [
        None
    ] * 2
    assert compare(directory, metric="loss").rows[0].interval == (0.25, 0.25)


def test_equal_seeds_have_exactly_their_value_as_mean(tmp_path: Path) -> None:
    (row,) = compare(make_sweep(tmp_path, [], 6, lambda trial: 0.1)).rows
    assert (row.mean, row.interval) == (0.1, wilson_interval(100, 1_000))


# Metrics and order


def test_lower_is_better_turns_order_and_success_around(sweep: SweepDirectory) -> None:
    found = compare(sweep, metric="loss", success=0.1)
    assert encodings(found) == ["rotary", "learned", "sinusoidal"]
    assert found.lower_is_better
    assert [row.successes for row in found.rows] == [6, 6, 0]
    assert compare(sweep, metric="loss").rows[0].success is None, "0.99 is a limit for accuracies alone"


def test_accuracy_is_the_default_or_else_validation_accuracy(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, [], 1, lambda trial: None)
    trial = directory.plan()["trials"][0]
    line = {**trial, "state": "finished", "metrics": {"steps": 4, "validation_accuracy": 0.5}, "seconds": 1.0}
    add_line(directory, line)
    assert compare(directory).metric == "validation_accuracy"


def test_rows_can_be_in_the_order_of_a_setting_of_another_metric_or_of_success(tmp_path: Path) -> None:
    rates = "train.lr=0.01,0.001,1"
    directory = make_sweep(tmp_path, [rates], 2, lambda trial: 0.5)
    assert [row.settings["train.lr"] for row in compare(directory).rows] == [0.01, 0.001, 1], "ties: the plan's order"
    assert [row.settings["train.lr"] for row in compare(directory, sort="train.lr").rows] == [0.001, 0.01, 1]
    assert [row.settings["train.lr"] for row in compare(directory, sort="lr").rows] == [0.001, 0.01, 1]


def test_sorting_by_a_metric_puts_its_best_mean_first(sweep: SweepDirectory) -> None:
    assert encodings(compare(sweep, metric="seconds", sort="loss")) == ["rotary", "learned", "sinusoidal"]
    assert encodings(compare(sweep, sort="success"))[0] == "rotary"
    assert encodings(compare(sweep, sort="encoding")) == ["learned", "rotary", "sinusoidal"]
    assert [row.settings["model.encoding.name"] for row in compare(sweep, sort="encoding").top(1)] == ["rotary"]


# Filters


@pytest.mark.parametrize(
    "where", ["model.encoding.name=rotary", "encoding=rotary", 'encoding="rotary"', "encoding= rotary"]
)
def test_where_takes_full_and_short_keys_and_quoted_values(sweep: SweepDirectory, where: str) -> None:
    found = compare(sweep, where=[where])
    assert encodings(found) == ["rotary"]
    assert found.trials_planned == 6


def test_filters_add_up_and_values_of_one_are_alternatives(sweep: SweepDirectory) -> None:
    found = compare(sweep, where=["encoding=rotary,learned", "seed=0,3"])
    assert encodings(found) == ["rotary", "learned"]
    assert found.rows[0].seeds == (0, 3)


def test_numbers_are_compared_as_numbers(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, [RATES], 1, lambda trial: 0.5)
    assert [row.settings["train.lr"] for row in compare(directory, where=["lr=1e-3"]).rows] == [0.001]


def test_true_is_not_one(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, ["model.log_length_scale=true,false"], 1, lambda trial: 0.5)
    assert len(compare(directory, where=["log_length_scale=true"]).rows) == 1
    with pytest.raises(InputError, match=r"log_length_scale=1: no trial has it; known: false, true"):
        compare(directory, where=["model.log_length_scale=1"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "acuracy"}, r"--metric 'acuracy': no finished trial has it; did you mean accuracy\? known: accu"),
        ({"where": ["rotary"]}, r"--where 'rotary': write it as key.key=value"),
        ({"where": ["encoding="]}, r"--where 'encoding=': write it as key.key=value"),
        (
            {"where": ["encodin=rotary"]},
            r"--where 'encodin' was not varied in this sweep; .*known: model.encoding.name",
        ),
        ({"where": ["encoding=rotry"]}, r"--where model.encoding.name=rotry: no trial has it; did you mean rotary\?"),
        ({"where": ["seed=9"]}, r"--where seed=9: no trial has it; known: 0, 1, 2, 3, 4, 5"),
        (
            {"where": ["encoding=rotary", "encoding=learned"]},
            r"--where: no trial has all of encoding=rotary and encoding=lea",
        ),
        ({"sort": "encodin"}, r"--sort 'encodin' is neither a metric nor a varied setting; .*known: accuracy"),
        ({"sort": "success", "metric": "loss"}, r"--sort success needs --success, the value from which"),
        ({"by": ["train.lr"]}, r"--by 'train.lr' was not varied in this sweep; known: model.encoding.name"),
        ({"by": ["encoding"], "where": ["encoding=rotary"]}, r"--by model.encoding.name: all these trials have rotary"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(sweep: SweepDirectory, options: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(InputError, match=message):
        compare(sweep, **options)


def test_many_known_values_are_not_all_listed(tmp_path: Path) -> None:
    values = ",".join(str(size) for size in range(1, 51))
    directory = make_sweep(tmp_path, [f"train.batch_size={values}"], 1, lambda trial: 0.5)
    with pytest.raises(InputError, match=r"known: 1, 2, .*, 30 and 20 more$"):
        compare(directory, where=["batch_size=99"])


# One key, everything else equal


def measure_two(trial) -> float:  # type: ignore[no-untyped-def]
    """Rotary is 0.1 better; the rate and the seed add noise that pairing takes away, but for one part in a thousand."""
    rate = 0.3 * (trial.settings["train.lr"] == 0.01)
    better = 0.1 if trial.settings["model.encoding.name"] == "rotary" else trial.seed % 2 / 1000
    return 0.2 + rate + better + [0.0, 0.17, 0.05, 0.11, 0.02, 0.2][trial.seed]


def test_pairs_take_away_what_the_values_share(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, ["model.encoding.name=learned,rotary", RATES], 6, measure_two)
    (effect,) = compare(directory, by=["encoding"]).by
    best, other = effect.levels
    assert (effect.key, effect.n, effect.pairs, effect.left_out) == ("model.encoding.name", 6, 12, 0)
    assert (best.value, other.value) == ("rotary", "learned")
    assert (best.difference, best.difference_interval) == (0.0, (0.0, 0.0))
    per_seed = [seed % 2 / 1000 - 0.1 for seed in range(6)]
    assert other.difference == pytest.approx(-0.0995)
    assert other.difference_median == pytest.approx(-0.0995)
    means = [0.2 + 0.15 + [0.0, 0.17, 0.05, 0.11, 0.02, 0.2][seed] for seed in range(6)]
    counts = [
        (round(1_000 * (mean + 0.1 + one)), round(1_000 * (mean + 0.1)))
        for mean, one in zip(means, per_seed, strict=True)
    ]
    own = [newcombe_interval(one, 1_000, other, 1_000) for one, other in counts]
    expected = min(low for low, _ in own), max(high for _, high in own)
    assert other.difference_interval == pytest.approx(expected), "over six seeds, not over twelve pairs"
    assert best.mean == pytest.approx(0.2 + 0.15 + 0.1 + sum([0.0, 0.17, 0.05, 0.11, 0.02, 0.2]) / 6)
    assert effect_table(effect, "accuracy")[1][4:] == ["best", ""]


def test_a_pair_of_which_one_failed_is_left_out_for_both(tmp_path: Path) -> None:
    def measure(trial):  # type: ignore[no-untyped-def]
        return "no" if (trial.name == "encoding=rotary,lr=0.01,seed=0") else measure_two(trial)

    directory = make_sweep(tmp_path, ["model.encoding.name=learned,rotary", RATES], 2, measure)
    (effect,) = compare(directory, by=["encoding"]).by
    assert (effect.n, effect.pairs, effect.left_out) == (2, 3, 1)
    three = make_sweep(tmp_path / "three", ["model.encoding.name=learned,rotary,sinusoidal", RATES], 2, measure)
    (effect,) = compare(three, by=["encoding"]).by
    assert (effect.n, effect.pairs, effect.left_out) == (2, 3, 1), "two of three values are not enough"
    assert effect.levels[1].difference == pytest.approx((-0.1 + (0.001 - 0.1)) / 2), "the mean of the two seeds"
    assert effect.descriptive


def test_without_any_pair_there_is_nothing_to_say(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, [RATES], 2, lambda t: "no" if t.settings["train.lr"] == 0.01 else 0.5)
    with pytest.raises(InputError, match=r"--by train.lr: no finished trials differ in nothing but train.lr"):
        compare(directory, by=["lr"])


# The value


def test_a_comparison_survives_json(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, ["task.digits=1,2", RATES], 2, lambda t: "no" if t.seed else 0.25)
    found = compare(directory, by=[], where=["lr=0.01"])
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert Comparison.from_json(document) == found
    assert document["descriptive"] is True
    assert document["rows"][0]["settings"] == {"task.digits": 1, "train.lr": 0.01}
    with_effect = compare(make_sweep(tmp_path / "other", [RATES], 3, lambda trial: 0.5), by=["lr"])
    assert Comparison.from_json(json.loads(json.dumps(with_effect.to_json()))) == with_effect


def test_lists_as_values_stay_lists(tmp_path: Path) -> None:
    vary = ["task.test_lengths=[16],[16, 20]"]
    folder = tmp_path / "lists"
    folder.mkdir()
    directory = SweepDirectory(folder)
    trials = [
        {"name": f"{lengths}{seed}", "settings": {"task.test_lengths": lengths}, "seed": seed}
        for lengths in ([16], [16, 20])
        for seed in (0, 1)
    ]
    directory.begin({"form": 1, "trials": trials, "vary": vary})
    for trial in trials:
        add_line(directory, {**trial, "state": "finished", "metrics": {"accuracy": 0.5}, "seconds": 1.0})
    found = compare(directory, where=["task.test_lengths=[16, 20],[16]"], by=["task.test_lengths"])
    assert len(found.rows) == 2
    assert Comparison.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_in_a_notebook_it_is_a_table_and_names_cannot_break_it(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, [RATES], 2, lambda trial: 0.5)
    plan = directory.plan()
    for trial in plan["trials"]:
        trial["settings"] = {"<b>": trial["settings"]["train.lr"]}
    write_json(directory.path / "sweep.json", plan)
    text = compare(directory)._repr_html_()
    assert "<th>&lt;b&gt;</th>" in text
    assert text.count("<tr>") == 3
    assert "<b>" not in text


def test_the_table_says_how_many_of_how_many(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, [RATES], 3, lambda t: {0: 1.0, 1: "no"}.get(t.seed))
    header, first, _ = table_of(compare(directory))
    numbers = ["seeds", "failed", "mean", "median", "95 % interval of it", "min", "max"]
    assert header == ["lr", *numbers, "≥ 99 %", "95 % interval"]
    assert first == ["0.001", "1 of 3", "1", "100 %", "100 %", "-", "100 %", "100 %", "1 of 2", "1.3 % to 98.7 %"]


def test_numbers_keep_the_digits_that_matter() -> None:
    assert [shown(value, "accuracy") for value in (0.5, 0.99996, 1, None)] == ["50 %", "99.9960 %", "100 %", "-"]
    assert [shown(value, "loss") for value in (0.012345, 12345.6, 0)] == ["0.01235", "12,346", "0"]


# Files that are not as they should be


def test_a_broken_last_line_counts_as_not_ended(sweep: SweepDirectory) -> None:
    text = sweep.results_path.read_bytes()
    sweep.results_path.write_bytes(text[:-20] + b"\xff")
    assert compare(sweep).trials_finished == 17


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "the document is [1]; an object needed"),
        ("null", "the document is null; an object needed"),
        ('{"name": 3}', "name is 3; a text needed"),
        ("[" * 100_000, "cannot be read"),
        ("\x00\x01\x02", "cannot be read"),
    ],
)
def test_lines_that_are_no_results_are_refused_by_their_number(sweep: SweepDirectory, line: str, said: str) -> None:
    sweep.results_path.write_text(f"{sweep.results_path.read_text()}{line}\n")
    with pytest.raises(InputError, match=f"^{re.escape(str(sweep.results_path))}: line 19.* {re.escape(said)}"):
        compare(sweep)


def test_a_file_that_is_not_text_is_refused(sweep: SweepDirectory) -> None:
    sweep.results_path.write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match=r"results.jsonl: line 1 cannot be read"):
        compare(sweep)


def test_results_of_trials_outside_the_plan_are_ignored_with_a_word(sweep: SweepDirectory) -> None:
    sweep.append_result(Outcome("elsewhere", {}, 0, "finished", {"accuracy": 1.0}))
    found = compare(sweep)
    assert found.trials_finished == 18
    assert found.notes == ("1 results of trials that are not in the plan are ignored",)


@pytest.mark.parametrize("value", [None, "0.5", True, [1], math.nan, math.inf], ids=str)
def test_a_metric_that_is_no_number_is_refused(tmp_path: Path, value: object) -> None:
    directory = make_sweep(tmp_path, [], 2, lambda trial: 0.5)
    line = {**directory.plan()["trials"][0], "state": "finished", "metrics": {"accuracy": value}, "future": 1}
    add_line(directory, line)
    with pytest.raises(InputError, match=r"results.jsonl: line 3: metrics.accuracy is .*; a number needed"):
        compare(directory)
    assert len(directory.results()) == 2, "a sweep that goes on takes such a line for none"


def test_a_number_that_nothing_can_have_is_refused(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, [], 2, lambda trial: 0.5)
    add_line(directory, {**directory.plan()["trials"][0], "state": "finished", "metrics": {"accuracy": 10**400}})
    with pytest.raises(InputError, match=r"results.jsonl: the accuracy of seed=0 is beyond 1e\+100"):
        compare(directory)


def test_a_trial_without_the_metric_is_left_out_with_a_word(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, [], 2, lambda trial: 0.5)
    add_line(directory, {**directory.plan()["trials"][0], "state": "finished", "metrics": {"loss": 0.25}})
    found = compare(directory)
    assert found.rows[0].values == (0.5,)
    assert found.notes == ("1 finished trials have no accuracy and are left out",)


def test_another_state_is_refused_and_a_failure_without_a_reason_is_unknown(tmp_path: Path) -> None:
    directory = make_sweep(tmp_path, [], 2, lambda trial: 0.5)
    first, second = directory.plan()["trials"]
    add_line(directory, {**second, "state": "failed", "metrics": {}, "error": None})
    found = compare(directory)
    assert (found.trials_finished, found.trials_failed) == (1, 1)
    assert found.rows[0].errors == (None, "unknown")
    add_line(directory, {**first, "state": "exploded", "metrics": {}})
    with pytest.raises(InputError, match=r'line 4: state is "exploded"; "finished" or "stopped" or "failed" needed'):
        compare(directory)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("{", r"sweep.json cannot be read"),
        ("[]", r"sweep.json is not the plan of a sweep"),
        ("{}", r"sweep.json: form is missing; 1 needed"),
        ('{"form": 2}', r"sweep.json: form is 2; 1 needed"),
        ('{"form": 1}', r"sweep.json: trials is missing; a list needed"),
        ('{"form": 1, "trials": []}', r"sweep.json lists no trials"),
        ('{"form": 1, "trials": [{"name": "a", "seed": 0}]}', r"trials\[0\].settings is missing"),
        ('{"form": 1, "trials": [7]}', r"trials\[0\] is 7; an object needed"),
    ],
)
def test_a_plan_of_another_form_is_refused(sweep: SweepDirectory, plan: str, message: str) -> None:
    (sweep.path / "sweep.json").write_text(plan)
    with pytest.raises(InputError, match=message):
        compare(sweep)


def test_a_sweep_is_found_by_path_or_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweep: SweepDirectory
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no sweep at lost or sweeps/lost; known under ./sweeps: none"):
        compare("lost")
    (tmp_path / "sweeps").mkdir()
    sweep.path.rename(tmp_path / "sweeps" / "mine")
    assert compare("mine") == compare("sweeps/mine")
    with pytest.raises(InputError, match=r"no sweep at lost or sweeps/lost; known under ./sweeps: mine"):
        compare("lost")
    with pytest.raises(InputError, match=r"sweeps is not a sweep: it has no sweep.json"):
        compare("sweeps")
    with pytest.raises(InputError, match=r"sweeps/mine/sweep.json is a file, not a sweep directory"):
        compare("sweeps/mine/sweep.json")


def test_what_a_real_trial_leaves_can_be_compared(tmp_path: Path) -> None:
    from headway.sweeps.plan import plan_grid
    from headway.sweeps.trial import JobOptions, run_job
    from tests.tiny_recipes import write_recipe

    plan = plan_grid(write_recipe(tmp_path), [], [], [0])
    directory = SweepDirectory(tmp_path / "real")
    directory.begin(plan.to_json())
    (trial,) = plan.trials
    (outcome,) = run_job([trial], [directory.trial(trial.name).path], JobOptions(device="cpu"))
    directory.append_result(outcome)
    (row,) = compare(directory).rows
    assert row.values == (outcome.metrics["accuracy"],)
    assert compare(directory, metric="steps").rows[0].mean == 4
    assert record(trial, 0.5).metrics.keys() <= outcome.metrics.keys(), "made-up results have the form of real ones"
