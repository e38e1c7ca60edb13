"""The whole analysis of small trained runs: its form, that it repeats, and how much work it takes."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway as hw
from headway.errors import InputError
from headway.evaluation import Trained, load
from headway.head_analysis import analysis, capture, joint, joint_ablation, verdicts
from headway.head_analysis.analysis import analyse, choose_examples, choose_sizes
from headway.head_analysis.head_runs import KINDS
from headway.head_analysis.instrument import Subject
from headway.head_analysis.scores import definitions, role_of
from headway.head_analysis.variants import heads_of
from headway.head_analysis.verdicts import overall
from headway.results.heads import HeadAnalysis, Sizes
from headway.results.schema import blank
from headway.statistics import wilson_interval
from headway.training import train
from tests.head_analysis.small import ADDITION, SORTEDNESS, TEXT, untrained
from tests.tiny import config

ONE_LAYER = {**ADDITION, "model": {**ADDITION["model"], "decoder_layers": 1}}
TASKS = {"addition": ONE_LAYER, "addition-text": TEXT, "sortedness": SORTEDNESS}


@contextmanager
def little_work() -> Iterator[None]:
    """As few examples for every part as it can do with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "ADDITION_COST", 0)
        patch.setattr(analysis, "PERMUTATIONS", 4)
        patch.setattr(analysis, "CHECKED", 5)
        patch.setattr(verdicts, "LARGEST_N", 50)
        yield


@pytest.fixture
def quick() -> Iterator[None]:
    with little_work():
        yield


@pytest.fixture(scope="module", params=TASKS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    place = tmp_path_factory.mktemp("runs") / f"{request.param}-seed3"
    train(config(TASKS[request.param], seed=3), place, device="cpu")
    return load(place, device="cpu")


@pytest.fixture(scope="module")
def found(trained: Trained) -> HeadAnalysis:
    with little_work():
        return hw.heads(trained.directory.path, examples=30)


def test_the_document_is_json_without_infinities(found: HeadAnalysis) -> None:
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["form"] == 1


def test_the_document_says_what_was_analysed(found: HeadAnalysis, trained: Trained) -> None:
    assert found.run == str(trained.directory.path)
    assert (found.step, found.seed, found.split) == (trained.step, 3, "test")
    assert (found.task, found.device) == (trained.task.name, "cpu")
    assert found.n == found.sizes.examples == found.baseline.n == 30
    assert found.seconds.keys() == {
        "capture",
        "scores",
        "ablation",
        "elimination",
        "shapley",
        "shapley of all",
        "pairs",
        "interventions",
        "anatomy",
        "attribution",
        "checks",
    }
    assert found.definitions == definitions(trained.task)
    assert found.family == 2 * len(KINDS) * len(found.heads)


def test_the_baseline_agrees_with_evaluation(found: HeadAnalysis, trained: Trained) -> None:
    baseline = found.baseline
    assert baseline.accuracy == pytest.approx(1 - baseline.wrong / 30)
    assert tuple(baseline.interval) == wilson_interval(30 - baseline.wrong, 30)
    assert found.error_analysis.wrong == baseline.wrong
    assert found.error_analysis.n == 30
    assert [row.token for row in baseline.by_token] == [row.token for row in found.error_analysis.by_token]
    assert found.joint.elimination.steps[0].left == len(found.heads)


def test_every_head_has_a_verdict_a_role_scores_and_ablations(found: HeadAnalysis, trained: Trained) -> None:
    rows = found.heads
    assert [row.name for row in rows] == [str(head) for head in heads_of(trained)]
    for row, head in zip(rows, heads_of(trained), strict=True):
        assert (row.site, row.index) == (head.site, head.index)
        assert row.kind in ("encoder", "decoder", "cross")
        assert row.role.startswith(f"{row.kind}: ")
        assert row.scores.keys() == row.deviations.keys() == row.uniform.keys() == found.definitions.keys()
        assert {"diagonal", "boundary", "entropy", "sparsity"} <= row.scores.keys()
        if trained.task.name != "sortedness":
            assert {"operator", "carry"} <= row.scores.keys()
        assert list(row.ablation) == list(KINDS)
        verdicts = []
        for drop in row.ablation.values():
            assert drop.n == 30
            assert drop.drop == pytest.approx(100 * (found.baseline.accuracy - drop.accuracy))
            assert drop.interval[0] <= drop.drop <= drop.interval[1]
            assert drop.p <= drop.p_holm
            verdicts.append(drop.verdict)
        assert row.verdict == overall(verdicts)


def test_the_joint_part_is_whole(found: HeadAnalysis, trained: Trained) -> None:
    joint, heads = found.joint, [row.name for row in found.heads]
    steps = joint.elimination.steps
    assert [step.left for step in steps] == list(range(len(heads), -1, -1))
    assert sorted(step.removed for step in steps[1:]) == sorted(heads)
    assert joint.elimination.n_chosen_on == joint.elimination.n_reported_on == 15
    promised = {step.left: step.sum_of_single_drops for step in steps}
    assert promised[len(heads)] == 0
    for row in joint.removable:
        assert row.sum_of_single_drops == promised[len(heads) - len(row.heads)]
    assert [row.limit for row in joint.removable] == [1, 5]
    assert sorted([*joint.sufficient.heads, *joint.removable[0].heads]) == sorted(heads)
    kinds = list(dict.fromkeys(row.kind for row in found.heads))
    assert list(joint.shapley) == [*kinds, "all"]
    for kind, values in joint.shapley.items():
        players = [row.name for row in found.heads if kind in ("all", row.kind)]
        assert [value.head for value in values.values] == players
        assert values.exact
    assert joint.pairs.tested == math.comb(len(heads), 2)


def test_the_other_parts_are_there(found: HeadAnalysis, trained: Trained) -> None:
    heads = [row.name for row in found.heads]
    capture = found.capture
    assert [list(example.weights) for example in capture.examples] == [heads] * 3
    assert list(capture.mean.weights) == heads
    assert found.prunable.keys() == set(KINDS)
    names = [contrast.name for contrast in trained.task.contrasts(np.random.default_rng(0), 2)]
    assert [contrast.name for contrast in found.interventions.contrasts] == names
    assert found.interventions.n == 15
    checks = found.checks
    assert checks.decoded == 5 * (1 + len(KINDS) * len(heads))
    assert checks.real_disagreements == 0
    assert checks.identity < 1e-4
    assert checks.weights_off_one < 1e-5


def test_it_comes_out_the_same_twice(found: HeadAnalysis, trained: Trained, quick: None) -> None:
    again = analyse(trained, examples=30)
    assert replace(again, seconds=found.seconds) == found


def test_a_run_and_its_path_are_the_same(found: HeadAnalysis, trained: Trained) -> None:
    assert found.run == str(trained.directory.path)
    with pytest.raises(InputError, match="no run at nowhere"):
        hw.heads("nowhere")


# The result object


def test_a_result_goes_to_json_and_back(found: HeadAnalysis) -> None:
    text = json.dumps(found.to_json(), allow_nan=False)
    back = HeadAnalysis.from_json(json.loads(text))
    assert json.dumps(back.to_json()) == text
    assert back.verdicts == found.verdicts
    assert back.top(3) == found.top(3)


@pytest.mark.parametrize("form", [0, 2, None])
def test_another_form_is_refused(form: int | None) -> None:
    with pytest.raises(InputError, match=f"heads.json: form is {form}; this version reads 1"):
        HeadAnalysis.from_json({"form": form}, "heads.json")


def test_the_top_heads_are_those_with_the_largest_drops(found: HeadAnalysis) -> None:
    for kind in KINDS:
        drops = {row.name: row.ablation[kind].drop for row in found.heads}
        top = found.top(4, kind)
        assert [drop for _, drop in top] == sorted(drops.values(), reverse=True)[:4]
        assert all(drops[head] == drop for head, drop in top)
    assert len(found.top()) == 5
    assert len(found.top(1_000)) == len(found.heads)


def test_one_head_is_found_by_name(found: HeadAnalysis) -> None:
    name = found.heads[1].name
    assert found.head(name).name == name
    assert found.verdicts[name] == found.head(name).verdict
    with pytest.raises(InputError, match=rf"no head 'nonsense.h99' here; (did you mean .*)?known: .*{name}"):
        found.head("nonsense.h99")
    with pytest.raises(InputError, match=f"did you mean {name}"):
        found.head(name + "x")


def test_a_notebook_shows_a_table_of_all_heads(found: HeadAnalysis) -> None:
    html = found._repr_html_() or ""
    for row in found.heads:
        assert f"<code>{row.name}</code>" in html
    for kind in KINDS:
        assert f"<th>drop, {kind}</th>" in html
    assert len(repr(found)) < 200  # a whole heads.json on the terminal helps nobody


# Which examples, and how many


@pytest.fixture(scope="module")
def many() -> Trained:
    return untrained(SORTEDNESS, data={"test": 90})


def test_a_split_that_is_small_enough_is_taken_whole_and_in_order(many: Trained) -> None:
    for n in (90, 91, 10_000):
        assert np.array_equal(choose_examples(many, "test", n).source, many.examples("test").source)


def test_the_split_is_the_one_that_was_asked_for(many: Trained) -> None:
    assert np.array_equal(choose_examples(many, "validation", 50).source, many.examples("validation").source)


def test_of_a_larger_split_a_fixed_sample_is_taken_in_order(many: Trained) -> None:
    whole = many.examples("test")
    some, again = (choose_examples(many, "test", 40) for _ in range(2))
    assert np.array_equal(some.source, again.source)
    assert len(some) == 40
    rows = [row for row in range(90) if any((whole.source[row] == one).all() for one in some.source)]
    places = [next(row for row in rows if (whole.source[row] == one).all()) for one in some.source]
    assert places == sorted(places)
    assert places != list(range(40))
    assert np.array_equal(whole.target[places], some.target)
    # A larger sample has the smaller one inside.
    larger = choose_examples(many, "test", 60)
    assert {tuple(row) for row in some.source} <= {tuple(row) for row in larger.source}


def test_examples_that_cannot_be_had_are_refused(many: Trained) -> None:
    with pytest.raises(InputError, match="--split 'tset'; did you mean test"):
        choose_examples(many, "tset", 50)
    with pytest.raises(InputError, match="19 examples of the test split; at least 20 needed"):
        choose_examples(many, "test", 19)
    few = untrained(SORTEDNESS, data={"validation": 10})
    with pytest.raises(InputError, match="10 examples of the validation split; at least 20 needed"):
        choose_examples(few, "validation", 2_000)
    fresh = untrained(SORTEDNESS, data={"fresh": True})
    with pytest.raises(InputError, match="drew fresh examples at every step and has no training set"):
        choose_examples(fresh, "train", 50)
    assert len(choose_examples(fresh, "test", 50)) == 40


def test_a_model_without_heads_is_refused() -> None:
    with pytest.raises(InputError, match="nowhere has no heads left; there is nothing to analyse"):
        analyse(untrained(ADDITION, model={"kept_heads": []}))


STEPS = ("elimination", "shapley", "all_heads", "pairs", "interventions")
"""Those that take fewer examples where a pass costs more."""
THREE_DIGITS = {**ONE_LAYER, "task": {"name": "addition", "digits": 3}, "data": {**ADDITION["data"], "test": 2_000}}


def wide(width: int) -> Trained:
    return untrained(THREE_DIGITS, model={"d_model": width, "d_head": 8, "d_ff": 4 * width})


def test_sizes_are_fixed_by_the_model_the_device_and_thoroughness(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = wide(320)
    examples = trained.examples("test")
    monkeypatch.setattr(joint, "EXACT_HEADS", 4)  # as if it had too many heads for all their subsets
    sizes, again = (choose_sizes(trained, examples, thorough=False) for _ in range(2))
    assert again == sizes
    thorough = choose_sizes(trained, examples, thorough=True)
    monkeypatch.setattr(Trained, "device", torch.device("cuda"))
    faster = choose_sizes(trained, examples, thorough=False)
    for step in STEPS:
        assert 100 <= sizes[step] <= thorough[step] <= faster[step] or step == "all_heads"
    # Ten times the budget for five times the orders; both sizes are between the least and the most.
    assert thorough["permutations"] == 5 * sizes["permutations"]
    assert 100 < sizes["all_heads"] < thorough["all_heads"] < 2_000
    assert thorough["all_heads"] == pytest.approx(2 * sizes["all_heads"], abs=2)
    assert 100 < sizes["interventions"] < thorough["interventions"] < 10_000
    assert thorough["interventions"] == pytest.approx(10 * sizes["interventions"], abs=10)
    assert faster["elimination"] == 1_000  # half of the examples: the other half reports


def test_a_larger_model_gets_fewer_examples_but_never_too_few() -> None:
    small, large = wide(320), wide(640)
    examples = small.examples("test")
    one, other = (choose_sizes(model, examples, thorough=False) for model in (small, large))
    assert all(one[step] >= other[step] >= 100 for step in STEPS)
    assert any(one[step] > other[step] for step in STEPS)
    few = choose_sizes(large, examples.take(slice(0, 31)), thorough=True)
    assert all(few[step] >= 15 for step in STEPS)
    assert (few["elimination"], few["decoded"]) == (15, 31)


def test_choosing_and_reporting_never_share_an_example(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    seen: list[set[bytes]] = []

    def spy(chosen_on: Any, reported_on: Any, *rest: Any) -> Any:
        seen.extend({row.tobytes() for row in context.examples.source} for context in (chosen_on, reported_on))
        raise KeyboardInterrupt

    monkeypatch.setattr(joint, "eliminate", spy)
    for n in (20, 33):
        with pytest.raises(KeyboardInterrupt):
            analyse(untrained(ADDITION), examples=n)
        assert not seen[-1] & seen[-2]
        assert len(seen[-1]) == len(seen[-2]) == n // 2


def test_every_part_takes_the_size_that_was_chosen_for_it(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    sizes = blank(
        Sizes, elimination=11, shapley=12, all_heads=13, pairs=14, interventions=16, permutations=6, decoded=5
    )
    monkeypatch.setattr(analysis, "choose_sizes", lambda *rest, thorough: vars(sizes))
    monkeypatch.setattr(joint_ablation, "EXACT_HEADS", 1)
    found = analyse(untrained(SORTEDNESS), examples=30)
    joint = found.joint
    assert (joint.elimination.n_chosen_on, joint.elimination.n_reported_on) == (11, 11)
    assert (joint.shapley["encoder"].n, joint.shapley["all"].n, joint.pairs.n) == (12, 13, 14)
    assert joint.shapley["all"].permutations == 6
    assert found.interventions.contrasts[0].n == found.interventions.n == 16
    assert found.sizes == sizes


def test_progress_is_told_for_every_part(quick: None) -> None:
    told: list[tuple[str, int, int]] = []
    analyse(untrained(SORTEDNESS), examples=20, progress=lambda *note: told.append(note))
    parts = list(dict.fromkeys(part for part, _, _ in told))
    assert parts[:3] == ["capture", "scores", "ablation"]
    assert parts[-2:] == ["attribution", "checks"]
    for part in parts:
        assert (part, 0, 1) in told
    assert parts == analysis.steps()
    assert told.index(("ablation", 20, 20)) > told.index(("ablation", 0, 1))


def test_long_examples_are_not_stored(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    monkeypatch.setattr(capture, "LONGEST_SHOWN", 4)
    trained = untrained(SORTEDNESS)
    found = capture.capture_examples(trained, trained.examples("test"), 6)
    lengths = (trained.examples("test").source[:6] != trained.task.vocabulary.pad).sum(1)
    assert [len(one.source) for one in found] == [length for length in lengths if length <= 4]


@pytest.mark.parametrize("maps", [0, 21])
def test_too_few_or_too_many_maps_are_refused(maps: int) -> None:
    trained = untrained(SORTEDNESS)
    with pytest.raises(InputError, match=rf"^attention maps of {maps} examples; 1 to 16 can be kept$"):
        capture.capture_examples(trained, trained.examples("test"), maps)


def test_where_lengths_differ_the_mean_is_over_the_whole_split() -> None:
    trained = untrained(SORTEDNESS)
    everything = trained.examples("test")
    subject = Subject(trained, everything.take(slice(0, 20)), "test", 1, {})
    found = capture.Capturing().make(subject, lambda done, total: None).mean
    lengths = (everything.source != trained.task.vocabulary.pad).sum(1)
    assert found.n == np.bincount(lengths).max()
    assert found.alike == f"{np.bincount(lengths).argmax()} tokens"


# Roles


@pytest.mark.parametrize(
    ("means", "even", "role"),
    [
        ({"carry": 0.7, "diagonal": 0.5}, {"carry": 0.3, "diagonal": 0.3}, "cross: carry"),
        ({"carry": 0.39, "diagonal": 0.2}, {"carry": 0.3, "diagonal": 0.3}, "cross: spread"),
        ({"carry": 0.9, "diagonal": 0.5}, {"carry": 0.85, "diagonal": 0.1}, "cross: diagonal"),
        ({"carry": None, "diagonal": 0.5}, {"carry": None, "diagonal": 0.1}, "cross: diagonal"),
        ({"entropy": 2.0, "carry": None}, {"entropy": None, "carry": None}, "cross: spread"),
        ({}, {}, "cross: spread"),
    ],
)
def test_a_role_is_the_part_that_is_favoured_most(means: Any, even: Any, role: str) -> None:
    assert role_of("cross", means, even) == role


def test_a_path_may_be_a_text_or_a_path(tmp_path: Path) -> None:
    for run in ("nowhere", Path("nowhere")):
        with pytest.raises(InputError, match="no run at nowhere"):
            analyse(run)


def test_the_whole_domain_can_be_drawn_from() -> None:
    trained = untrained(ADDITION)
    size = trained.task.domain_size()
    assert size is not None
    everything = choose_examples(trained, "all", size + 5)
    rows = {row.tobytes() for row in everything.source}
    assert len(rows) == len(everything) == size
    some = choose_examples(trained, "all", 30)
    assert len(some) == 30
    assert {row.tobytes() for row in some.source} < rows
    np.testing.assert_array_equal(some.source, choose_examples(trained, "all", 30).source)
    np.testing.assert_array_equal(some.target, trained.task.answer(some.source))
    with pytest.raises(InputError, match="19 examples of the whole domain; at least 20 needed"):
        choose_examples(trained, "all", 19)
    with pytest.raises(InputError, match="the domain of sortedness is too large to list"):
        choose_examples(untrained(SORTEDNESS), "all", 100)
