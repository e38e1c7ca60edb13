"""The benchmarks at toy size: they run, agree with the plain way, and their checks can fail."""

import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import __main__ as program
from benchmarks import (
    any_model,
    course_files,
    coverage,
    heads,
    interface_texts,
    machine,
    measuring,
    population,
    text_classifier,
    training,
)

from headway.errors import InputError
from headway.evaluation import evaluate, load
from headway.head_analysis import verdicts
from headway.head_analysis.variants import heads_of
from headway.tasks import Examples
from headway.training import train
from tests.tiny import ADDITION, config

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("benchmarks") / "run"
    train(config(ADDITION, train={"steps": 60}), path)
    return path


# All of them


@pytest.mark.long
def test_every_part_runs_and_writes_one_file(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(program, "RESULTS", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    program.main(["--toy"])
    printed = capsys.readouterr().out
    name = machine.machine_name(CPU)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")] == [f"results/{name}-toy.json"]
    document = json.loads((tmp_path / "results" / f"{name}-toy.json").read_text())
    assert list(document["parts"]) == list(program.PARTS)
    for part, found in document["parts"].items():
        assert found["rows"], part
        assert found["command"] == ["python", "-m", "benchmarks", "--toy"]
        assert found["versions"]["torch"] == version("torch")
        for row in found["rows"]:
            assert row["part"] == part
            assert row["low"] <= row["value"] <= row["high"]
            assert all(math.isfinite(row[key]) for key in ("value", "low", "high"))
            assert row["what"] in printed
            assert row["unit"] == ("exponent" if part == "growth" else "times")
            assert row["value"] > 0 or part == "growth"
    assert [row["what"] for row in document["parts"]["growth"]["rows"]] == [
        f"time against {size}" for size in ("heads", "examples", "seeds", "length")
    ]


def test_parts_that_are_not_asked_for_stay_in_the_file(tmp_path: Path, capsys) -> None:
    place = tmp_path / "found.json"
    place.write_text(json.dumps({"parts": {"memory": {"rows": []}}}))
    program.main(["--toy", "--parts", "heads", "--out", str(place)])
    program.main(["--toy", "--parts", "time-to-accuracy", "--whole", "--out", str(place)])
    assert list(json.loads(place.read_text())["parts"]) == ["memory", "heads", "time-to-accuracy --whole"]
    assert f"written to {place}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--parts haeds", "no part 'haeds'; known: throughput, time-to-accuracy, stack, heads"),
        ("--seeds 4-", "--seeds '4-': write them as 0-4 or 0,3,7"),
        ("--device tpu", "--device 'tpu'; known: auto, cpu, cuda"),
        ("--repeats 0", "'0'; a whole number of at least 1 needed"),
        ("--repeats two", "'two'; a whole number of at least 1 needed"),
        ("--out .", ". is a folder; a file needed"),
    ],
)
def test_wrong_words_are_refused(words: str, message: str, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(words.split())
    assert message in capsys.readouterr().err


# Measuring


def test_both_sides_take_turns_and_the_first_changes() -> None:
    order: list[str] = []
    pairs = measuring.alternate(lambda: order.append("ours"), lambda: order.append("theirs"), 3, CPU)
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert len(pairs) == 3


def test_a_ratio_is_theirs_over_ours_and_operations_are_counted() -> None:
    one, two = torch.randn(40, 50), torch.randn(50, 60)

    def theirs() -> None:
        for _ in range(3):
            one @ two

    row = measuring.measure_ratio(measuring.Settings(CPU), "p", "w", "a", lambda: one @ two, theirs, rescale=2.0)
    assert row.details["ours_operations"] == 2 * 40 * 50 * 60
    assert row.by_operations == 6.0
    pairs = zip(row.details["ours_seconds"], row.details["theirs_seconds"], strict=True)
    assert [row.low, row.value, row.high] == sorted(2.0 * other / own for own, other in pairs)


def test_the_exponent_of_a_power_is_found_with_its_interval() -> None:
    sizes = [10, 20, 40, 80]
    assert measuring.fit_exponent(sizes, [3 * size**2 for size in sizes]) == pytest.approx((2, 2, 2))
    slope, low, high = measuring.fit_exponent(sizes, [1.1 * 10, 0.9 * 20, 1.1 * 40, 0.9 * 80])
    assert low < slope < high
    assert low < 1 < high


def test_a_machine_is_a_file_name() -> None:
    assert machine.as_file_name("AMD EPYC(tm) 9R14  2 cores") == "amd-epyc-tm-9r14-2-cores"


# Heads


def test_the_sweep_finds_what_hooks_find_by_decoding_and_in_one_pass(run: Path) -> None:
    trained = load(run)
    examples = Examples.join(list(trained.task.domain()), trained.task.vocabulary.pad)
    plan = heads.plan_without(len(heads_of(trained)), 3)
    found = heads.sweep(trained, examples, plan)
    assert len(set(found)) > 1, "some sets matter"
    for way in (heads.by_decoding, heads.by_one_pass):
        heads.check_equal("a hook", found, heads.plain(trained, examples, plan, way, 4))


def test_other_accuracies_are_refused() -> None:
    with pytest.raises(SystemExit, match=r"a hook finds other accuracies than the sweep: \[0.5\] and \[0.25\]"):
        heads.check_equal("a hook", [0.25], [0.5])


# Time to an accuracy


class Learner:
    """Right on the first sums only, more of them after every pass."""

    steps_a_pass = 4

    def __init__(self) -> None:
        self.steps = self.ended = 0

    def step(self) -> None:
        self.steps += 1

    def end_of_pass(self) -> None:
        self.ended += 1

    def right(self, examples: Examples) -> np.ndarray:
        return examples.target[:, 0] < 3_000 * self.ended


def numbered(count: int) -> Examples:
    return Examples(np.zeros((count, 1), dtype=np.int64), np.arange(count)[:, None])


def test_steps_are_counted_until_almost_all_sums_are_right() -> None:
    found = training.count_steps(training.passes_of_peer(Learner(), 9), numbered(8_999), 1_000)
    assert (found.reached, found.steps) == (True, 3 * 4)
    assert found.shares == pytest.approx([3 / 4, 6 / 7, 1.0]), "a thousand wrong ones are enough to know"
    in_vain = training.count_steps(training.passes_of_peer(Learner(), 2), numbered(8_999), 1_000)
    assert (in_vain.reached, in_vain.steps) == (False, 2 * 4)


def test_a_wrong_sum_in_a_thousand_is_allowed_and_one_more_is_not() -> None:
    def without(wrong: int) -> float:
        return training.share_right(lambda some: some.target[:, 0] >= wrong, numbered(8_000), 500)

    assert without(8) == 1 - 8 / 8_000
    assert without(9) < training.WANTED


# The course's data


def test_the_reports_round_numbers_are_counts_of_the_courses_own_files() -> None:
    """41.2, 34.9 and 73.0 % of the test sums, 25 known ones, and the class shares at four lengths."""
    found = course_files.course_files()
    test = found["addition"]["test"]
    names = ("below_1000", "below_1000_no_other_zero", "no_zero_in_last_three")
    assert [test[name]["count"] for name in names] == [824, 698, 1_460] and test["n"] == 2_000
    assert found["test_also_in_train"]["as_written"] == 25
    assert list(found["sorted_share"].values()) == [0.454, 0.514, 0.518, 0.512]
    assert found["addition"]["all pairs"]["below_1000"]["count"] == 320_400
    committed = json.loads(Path("docs/results/course-files.json").read_text())
    assert committed == json.loads(json.dumps(found))


# The population


def test_the_population_is_the_whole_domain_under_every_ablation(run: Path) -> None:
    trained = load(run)
    names, right = population.ablate_population(trained)
    assert right.shape == (1 + 4 * 6, 100)
    assert names[:1] == ["enc0.self.h0 zero"]
    assert names[-1:] == ["dec0.cross.h1 resample"]
    assert (~right[0]).sum() == evaluate(trained, "all").wrong


def made_up_population() -> np.ndarray:
    """Drops from none to most, some with gains as well, of a model that is not perfect."""
    random = np.random.default_rng(5)
    before = random.random(40_000) < 0.995
    rows = [before]
    for lost, gained in ((0.002, 0.0), (0.005, 0.1), (0.02, 0.2), (0.03, 0.0), (0.06, 0.2), (0.15, 0.1), (0.5, 0.0)):
        change = random.random(len(before))
        rows.append(np.where(before, change >= lost, change < gained))
    return np.stack(rows)


@pytest.fixture(scope="module")
def checked() -> dict[str, Any]:
    found: dict[str, Any] = population.check_statistics(
        made_up_population(), samples=250, size=2_000, random=np.random.default_rng(1)
    )
    return found


def test_intervals_cover_the_true_drop(checked: dict[str, Any]) -> None:
    # 250 samples of 7 tests: the standard error of the mean coverage is about half a point.
    assert 0.93 <= checked["mean_coverage"] <= 0.97
    assert min(checked["coverage"]) >= 0.90


def test_decided_verdicts_are_hardly_ever_contradicted(checked: dict[str, Any]) -> None:
    assert checked["decided"] > 0.3
    assert checked["contradicted_of_decided"] <= 0.05


def test_a_drop_of_one_point_is_found(checked: dict[str, Any]) -> None:
    assert checked["power_at_1_point"]["tests"] >= 4
    assert checked["power_at_1_point"]["mean"] >= 0.80


def test_sweeps_without_an_effect_hardly_ever_show_one(checked: dict[str, Any]) -> None:
    # 5 % and two standard errors of a share of 250.
    assert checked["null_sweeps_with_a_false_positive"] <= 0.078


def test_an_interval_that_is_too_narrow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = verdicts.paired_interval
    monkeypatch.setattr(verdicts, "paired_interval", lambda lost, gained, n, confidence: honest(lost, gained, n, 0.80))
    random = np.random.default_rng(1)
    found = population.check_statistics(made_up_population(), samples=100, size=2_000, random=random)
    assert found["mean_coverage"] < 0.9


# Coverage


def test_intervals_over_seeds_hold_the_truth_at_toy_size() -> None:
    rows = coverage.check_accuracies(150, np.random.default_rng(0), n=300)
    rows += coverage.check_drops(150, np.random.default_rng(1), n=300)
    rows += coverage.check_differences(100, np.random.default_rng(2), n=300)
    rows += coverage.check_counts(300, np.random.default_rng(3))
    summary = coverage.worst(rows)
    # Three standard errors of a share of 0.95 of 150 are 0.053.
    assert min(row["least"] for row in summary) >= 0.95 - 0.053
    assert {row["seeds"] for row in summary if row["interval"] != "share of seeds"} == set(range(6, 11))
    assert {row["seeds"] for row in summary if row["interval"] == "share of seeds"} == set(range(3, 11))
    assert min(row["t_before"]["coverage"] for row in rows if row.get("t_before")) < 0.3, "what was used before is not"


def test_an_interval_over_seeds_that_forgets_the_examples_is_seen() -> None:
    rows = coverage.check_accuracies(100, np.random.default_rng(0), n=300, narrow=1.0)
    assert coverage.worst(rows)[0]["least"] < 0.3


def test_few_sweeps_hold_a_false_verdict_and_without_correction_most_do() -> None:
    corrected = coverage.check_borders(60, np.random.default_rng(0), sizes=[2_000])
    # 5 % and three standard errors of 60 sweeps.
    assert max(row["false"] for row in corrected) <= 0.05 + 0.084
    bare = coverage.check_borders(20, np.random.default_rng(0), sizes=[2_000], correction=lambda claims: claims)
    at_1 = [row for row in bare if row["border"] == 1.0 and row["examples_shared"] == 0.0]
    assert min(row["false"] for row in at_1) > 0.8


def test_sweeps_are_judged_as_an_analysis_judges() -> None:
    random = np.random.default_rng(0)
    lost, gained = coverage.counts_of(np.tile([0.0, 0.02, 0.05, 0.3], (5, 6)), 0.01, 2_000, 0.0, random)
    found = coverage.judge_sweeps(lost, gained, 2_000)
    for sweep in range(5):
        assert (found[sweep] == verdicts.judge(lost[sweep], gained[sweep], 2_000).verdict).all()
    assert {*found[:, 3::4].ravel()} == {"critical"}


@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_counts_have_the_drop_that_they_are_given(shared: float) -> None:
    lost, gained = coverage.counts_of(np.full((400, 5), 0.03), 0.1, 2_000, shared, np.random.default_rng(2))
    assert float((lost - gained).mean() / 2_000) == pytest.approx(0.03, abs=0.003)
    assert float(gained.mean() / 2_000) == pytest.approx(0.1, abs=0.003)
    alike = np.corrcoef((lost - gained).T)[0, 1]
    assert (alike > 0.8) == (shared > 0)


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_seeds_have_the_rate_that_they_are_given(shared: float) -> None:
    right = coverage.right_answers(np.tile([0.5, 0.9, 1.0], (300, 1)), shared, 400, np.random.default_rng(3)) / 400
    assert right.mean(0) == pytest.approx([0.5, 0.9, 1.0], abs=0.01)


def test_what_the_docs_say_of_coverage_meets_its_bars() -> None:
    found = json.loads((Path(__file__).parents[1] / "docs" / "results" / "statistics-coverage.json").read_text())
    assert (found["repeats"], found["sweeps"]) == (2_000, 1_000)
    assert found["least_coverage"] == min(row["least"] for row in found["over_seeds"]) >= coverage.LEAST
    assert found["most_false_sweeps"] == max(row["false"] for row in found["borders"]) <= coverage.MOST_FALSE
    rates = {row["rate"] for row in found["over_seeds"] if row["interval"] == "accuracy"}
    assert rates == {"0.5", "0.9", "0.99", "1", "bimodal"}
    assert {(row["model"], row["border"]) for row in found["borders"]} >= {
        ("perfect", 0),
        ("perfect", 1),
        ("perfect", 10),
    }
    page = (Path(__file__).parents[1] / "docs" / "statistics.md").read_text()
    assert f"The most is {100 * found['most_false_sweeps']:.1f} %" in page


def test_a_commit_that_is_told_counts_more_than_what_git_finds() -> None:
    assert machine.circumstances(torch.device("cpu"), ["x"], "0123abc")["commit"] == "0123abc, as told"
    assert "as told" not in str(machine.circumstances(torch.device("cpu"), ["x"], None)["commit"])


# Models of other programs


def test_a_gpt2_has_the_same_ablations_from_shared_layers_and_from_full_passes() -> None:
    pytest.importorskip("transformers")
    examples = any_model.data(5, CPU)
    shared = any_model.shared_of("2x2x8", CPU, examples)()
    full = any_model.loops_of("2x2x8", CPU, examples, bridge=False)["hook"](2, None)
    assert shared.shape == (4,) and np.abs(shared - full).max() < 1e-6 < np.ptp(full)
    with pytest.raises(InputError, match="no size '12x4'; small, half, tiny, shallow, or layers x heads x d_model"):
        any_model.numbers_of("12x4")


def test_shared_layers_save_half_of_many_layers() -> None:
    assert any_model.by_operations("1x4x64") == 1
    assert any_model.by_operations("12x12x768") == pytest.approx(1.8, abs=0.05)
    assert any_model.by_operations("4x8x128") < 1.6 < any_model.by_operations("400x4x64") < 2


def test_every_work_is_measured_in_every_turn_and_another_begins() -> None:
    order: list[int] = []
    works = [lambda number=number: order.append(number) for number in range(3)]
    rounds = measuring.in_turns(works, 3, CPU)
    assert order == [0, 1, 2, 1, 2, 0, 2, 0, 1] and [len(one) for one in rounds] == [3, 3, 3]


def test_texts_for_training_are_not_those_held_out() -> None:
    text = interface_texts.Text
    held_out = [text("m", "geben sie eine gültige adresse ein", 0)]
    alike, same_in_another, other = (
        text("n", "geben sie eine gültige zahl ein", 0),
        text("n", "geben sie eine gültige adresse ein", 1),
        text("n", "dieses feld ist erforderlich", 0),
    )
    assert list(interface_texts.unlike([alike, same_in_another, other], [*held_out, text("m", "x" * 9, 1)])) == [
        same_in_another,
        other,
    ]
    assert interface_texts.clean("Enter <b>%(count)d</b>  {name} values&nbsp;or 12%%.") == "enter values or ."
    pieces = interface_texts.cut([text("m", "abcdefghij" * 9, 0), text("m", "short", 0)], np.random.default_rng(0))
    assert len(pieces[0]) == interface_texts.LETTERS and pieces[0] in "abcdefghij" * 9 and pieces[1] == "short"
    shares = np.mean([interface_texts.is_held_out(f"message {number}") for number in range(2_000)])
    assert shares == pytest.approx(0.3, abs=0.04)  # four standard errors of 2,000 draws; 256 values give 0.3047


def test_a_classifier_of_word_pieces_and_its_controls() -> None:
    """Planted: two languages that only the order of their pieces tells apart look alike when pieces are shuffled."""
    pytest.importorskip("transformers")
    texts = [interface_texts.Text(str(n), f"{'aa bb' if n % 2 else 'bb aa'} cc dd ee ff", n % 2) for n in range(40)]
    classifier = text_classifier.Classifier(texts, 0)
    batch = classifier.batch([text.text for text in texts])
    shuffled = text_classifier.with_pieces_shuffled(batch, 0)
    assert not torch.equal(batch["input_ids"], shuffled["input_ids"])
    assert torch.equal(batch["input_ids"].sort(1).values, shuffled["input_ids"].sort(1).values)
    assert torch.equal(batch["input_ids"][:, [0, -1]], shuffled["input_ids"][:, [0, -1]])
    some = interface_texts.Texts(texts, texts, {})
    assert text_classifier.by_counts(classifier, some, [text.text for text in texts]) == 0.5
    apart = [interface_texts.Text(str(n), "aa bb cc" if n % 2 else "dd ee ff", n % 2) for n in range(40)]
    some = interface_texts.Texts(apart, apart, {})
    assert text_classifier.by_counts(classifier, some, [text.text for text in apart]) == 1
    answers = classifier.answers(batch)
    assert classifier.right(batch, answers) == 1 and classifier.right(batch, answers + 1) == 0
