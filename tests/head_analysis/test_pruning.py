"""Heads that are gone for good: the same numbers as with those heads zeroed, in a run that stands alone."""

import json
import shutil
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples_tried
from hypothesis import strategies as st
from torch import Tensor

import headway as hw
from headway.batches import make_batch
from headway.cli.main import run
from headway.errors import InputError, InstrumentError
from headway.evaluation import Trained, evaluate, load
from headway.head_analysis import analysis, pruning
from headway.head_analysis.ablation import as_row
from headway.head_analysis.pruning import TOLERANCE, cut_model, logits_apart
from headway.head_analysis.variants import heads_of
from headway.model.sites import Head
from headway.model.transformer import Transformer, count_parameters
from headway.runs import RunDirectory
from headway.tasks import Examples, make_task
from headway.tasks.files import write_files
from headway.training import train
from tests.head_analysis.small import ADDITION, SHAPES, SORTEDNESS
from tests.head_analysis.test_variants import CPU, projections, randomised
from tests.model.test_attention import TOLERANCE as CLOSE
from tests.tiny import config, weights_hash

# Masked and pruned

ENCODINGS = ["sinusoidal", "rotary", "alibi", "t5", "clipped", "fire"]
"""Of every kind of hook, and all that have a bias for each head."""


@cache
def whole(name: str, encoding: str, dtype: torch.dtype) -> Trained:
    return randomised(SHAPES[name], dtype=dtype, d_head=6, encoding={"name": encoding}, log_length_scale=True)


@cache
def examples_of(name: str) -> Examples:
    return whole(name, "t5", torch.float32).examples("test").take(slice(0, 5))


def masked(trained: Trained, kept: Iterable[Head]) -> Transformer:
    """The same model with zeros where what the other heads bring is read."""
    model, width = deepcopy(trained.model), trained.model.config.d_head
    with torch.no_grad():
        for head in heads_of(trained):
            if head not in kept:
                projections(model)[head.site].weight[:, width * head.index : width * (head.index + 1)] = 0
    return model


def logits_of(trained: Trained, model: Transformer, examples: Examples) -> Tensor:
    with torch.inference_mode():
        return model(make_batch(trained.task, model, examples, CPU).inputs)


def subsets(heads: list[Head]) -> list[list[Head]]:
    """No head at all, a random half, and another one at a site less."""
    random = np.random.default_rng(len(heads))
    first, second = ([head for head in heads if random.random() < 0.5] for _ in range(2))
    return [[], first, [head for head in second if head.site != heads[-1].site]]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    ("encoding", "dtype"), [*((encoding, torch.float64) for encoding in ENCODINGS), ("t5", torch.float32)]
)
def test_a_pruned_model_is_the_masked_model(name, encoding, dtype) -> None:
    trained, examples = whole(name, encoding, dtype), examples_of(name)
    heads = heads_of(trained)
    for kept in subsets(heads):
        smaller = cut_model(trained, kept)
        assert [head for site in smaller.sites for head in site.heads] == kept
        assert next(smaller.parameters()).dtype == dtype
        assert not smaller.training
        expected = logits_of(trained, masked(trained, kept), examples)
        close = {"rtol": CLOSE[dtype], "atol": CLOSE[dtype] * float(expected.abs().max())}
        torch.testing.assert_close(logits_of(trained, smaller, examples), expected, **close)
        gone = [head for head in heads if head not in kept]
        assert count_parameters(trained.model) - count_parameters(smaller) == len(gone) * (3 * (12 * 6 + 6) + 6 * 12)
        apart = logits_apart(trained, replace(trained, model=smaller), as_row(heads, gone)[None], examples)
        assert apart <= close["atol"]


@examples_tried(max_examples=30)
@given(st.sampled_from(list(SHAPES)), st.sets(st.integers(0, 14)), st.sets(st.integers(0, 14)))
def test_a_pruned_model_that_is_pruned_again_keeps_the_names(name: str, first: set[int], second: set[int]) -> None:
    trained = whole(name, "t5", torch.float64)
    some = [head for place, head in enumerate(heads_of(trained)) if place in first]
    fewer = [head for place, head in enumerate(heads_of(trained)) if place in first & second]
    once = cut_model(trained, some)
    middle = replace(trained, model=once, config=replace(trained.config, model=once.config))
    twice, direct = cut_model(middle, fewer), cut_model(trained, fewer)
    assert twice.config == direct.config
    assert [str(head) for site in twice.sites for head in site.heads] == [str(head) for head in fewer]
    state = direct.state_dict()
    assert all(torch.equal(tensor, state[key]) for key, tensor in twice.state_dict().items())


def test_keeping_every_head_changes_nothing() -> None:
    trained = whole("addition", "fire", torch.float32)
    smaller = cut_model(trained, heads_of(trained))
    state = trained.model.state_dict()
    assert all(torch.equal(tensor, state[key]) for key, tensor in smaller.state_dict().items())
    examples = examples_of("addition")
    assert torch.equal(logits_of(trained, smaller, examples), logits_of(trained, trained.model, examples))


@pytest.mark.parametrize("off", [0.1, float("nan")])
def test_a_pruned_model_that_is_not_the_masked_one_is_refused(off: float) -> None:
    trained = whole("text, encoder-decoder", "alibi", torch.float32)
    heads = heads_of(trained)
    smaller = cut_model(trained, heads[:-1])
    with torch.no_grad():
        smaller.encoder[0].own.value.weight.add_(off)
    gone = as_row(heads, heads[-1:])[None]
    with pytest.raises(InstrumentError, match=r"the pruned model differs from the masked one by \S+ in its logits"):
        logits_apart(trained, replace(trained, model=smaller), gone, examples_of("text, encoder-decoder"))


# A run, end to end


def settings_of(base: dict[str, Any], **tables: dict[str, Any]) -> Any:
    return config(base, train={"steps": 6, "batch_size": 8, "validate_every": 3, **tables.pop("train", {})}, **tables)


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("addition") / "run"
    train(settings_of(ADDITION), place, device="cpu")
    return place


@pytest.fixture(scope="module")
def sorting_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that has learned something, so that heads can be missed."""
    place = tmp_path_factory.mktemp("sortedness") / "run"
    data = {"train": 400, "validation": 60, "test": 60}
    train(config(SORTEDNESS, data=data, train={"steps": 60, "batch_size": 32, "lr": 0.01}), place, device="cpu")
    return place


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


KEEP = ["dec1.cross.h2", "enc0.self.h0", "dec0.self.h1", "dec1.cross.h0"]
IN_ORDER = ["enc0.self.h0", "dec0.self.h1", "dec1.cross.h0", "dec1.cross.h2"]


def test_a_pruned_run_stands_alone(trained_run: Path, tmp_path: Path, capsys) -> None:
    before = contents(trained_run)
    result = hw.prune(trained_run, keep=KEEP, out=tmp_path / "pruned", device="cpu")
    assert contents(trained_run) == before
    origin = load(trained_run, device="cpu")
    assert (result.run, result.pruned_from) == (str(tmp_path / "pruned"), str(trained_run))
    assert (result.kept, result.chosen, result.finetuned) == (IN_ORDER, "named", None)
    assert result.removed == [str(head) for head in heads_of(origin) if str(head) not in KEEP]
    assert result.parameters_before == count_parameters(origin.model)
    assert result.parameters_before - result.parameters_after == 11 * (3 * (12 * 5 + 5) + 5 * 12)
    assert result.logits_apart <= TOLERANCE
    assert result.speed > 0

    pruned = load(tmp_path / "pruned", device="cpu")
    assert (pruned.step, pruned.warnings) == (0, ())
    assert [str(head) for head in heads_of(pruned)] == IN_ORDER
    assert count_parameters(pruned.model) == result.parameters_after
    test, kept = origin.examples("test"), [Head.parse(name) for name in KEEP]
    expected = logits_of(origin, masked(origin, kept), test)
    torch.testing.assert_close(logits_of(pruned, pruned.model, test), expected, rtol=1e-5, atol=1e-5)

    found, whole_run = evaluate(tmp_path / "pruned", "test"), evaluate(trained_run, "test")
    assert (found.accuracy, whole_run.accuracy) == (result.exact_match_after, result.exact_match_before)
    assert (found.n, found.disagreements) == (result.n, 0)
    assert result.drop == pytest.approx(100 * (whole_run.accuracy - found.accuracy))
    assert result.drop_interval[0] <= result.drop <= result.drop_interval[1]

    assert run(["runs", str(tmp_path), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["runs"]
    accuracy = evaluate(tmp_path / "pruned", "validation").accuracy
    assert listed == {"run": "pruned", "task": "addition", "state": "finished", "steps": 0, "accuracy": accuracy}
    provenance = RunDirectory(tmp_path / "pruned").provenance()
    assert (provenance["made_from"], provenance["made_from_step"]) == (str(trained_run), origin.step)
    assert provenance["command"] == ["hw.prune"]


def test_a_pruned_run_can_be_analysed_and_pruned_again(trained_run: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(analysis, "ADDITION_COST", 0)  # as few examples as there can be
    hw.prune(trained_run, keep=KEEP, out=tmp_path / "once", device="cpu")
    found = hw.heads(load(tmp_path / "once", device="cpu"))
    assert list(found.verdicts) == IN_ORDER
    assert found.checks.disagreements == 0
    json.dumps(found.to_json(), allow_nan=False)
    result = hw.prune(tmp_path / "once", keep=["dec1.cross.h2"], out=tmp_path / "twice", device="cpu")
    assert (result.kept, result.removed) == (["dec1.cross.h2"], IN_ORDER[:-1])
    direct = hw.prune(trained_run, keep=["dec1.cross.h2"], out=tmp_path / "direct", device="cpu")
    assert weights_hash(tmp_path / "twice", 0) == weights_hash(tmp_path / "direct", 0)
    assert direct.parameters_after == result.parameters_after
    with pytest.raises(InputError, match=r"the model has no head dec1\.cross\.h1; did you mean dec1\.cross\.h"):
        hw.prune(tmp_path / "once", keep=["dec1.cross.h1"], out=tmp_path / "thrice", device="cpu")


def test_a_finished_pruned_run_is_continued_without_effect(trained_run: Path, tmp_path: Path) -> None:
    hw.prune(trained_run, keep=KEEP, out=tmp_path / "pruned", device="cpu")
    before = contents(tmp_path / "pruned")
    result = train(load(tmp_path / "pruned").config, tmp_path / "pruned", device="cpu", resume=True)
    assert (result.steps, result.warnings) == (0, [])
    assert contents(tmp_path / "pruned") == before


def test_the_name_of_a_pruned_run_says_so_when_none_is_given(trained_run: Path) -> None:
    result = hw.prune(trained_run, keep=KEEP, device="cpu")
    assert Path(result.run) == trained_run.with_name("run-pruned")
    assert load(result.run, device="cpu").directory.name == "run-pruned"


def accuracy_without(trained: Trained, heads: list[str]) -> float:
    kept = [head for head in heads_of(trained) if str(head) not in heads]
    return evaluate(replace(trained, model=masked(trained, kept)), "validation").accuracy


@pytest.mark.parametrize("max_drop", [0.5, 12.0])
def test_by_max_drop_all_go_that_can_go_on_the_validation_split(sorting_run: Path, tmp_path: Path, max_drop) -> None:
    told: list[tuple[int, int]] = []
    result = hw.prune(
        sorting_run, max_drop=max_drop, out=tmp_path / "pruned", device="cpu", progress=lambda *now: told.append(now)
    )
    trained = load(sorting_run, device="cpu")
    assert result.chosen == "elimination on 60 validation examples"
    assert sorted([*result.kept, *result.removed]) == sorted(str(head) for head in heads_of(trained))
    before = evaluate(trained, "validation").accuracy
    after = evaluate(tmp_path / "pruned", "validation").accuracy
    assert after == accuracy_without(trained, result.removed)
    assert 100 * (before - after) < max_drop
    for head in result.kept:
        assert 100 * (before - accuracy_without(trained, [*result.removed, head])) >= max_drop
    assert told == [(count, 6) for count in range(1, len(result.removed) + 1)]


def test_more_may_go_for_more(sorting_run: Path, tmp_path: Path) -> None:
    removed = [
        len(hw.prune(sorting_run, max_drop=points, out=tmp_path / str(points), device="cpu").removed)
        for points in (0.5, 8.0, 100)
    ]
    assert removed == sorted(removed)
    assert removed[2] == 6


def test_a_set_that_costs_more_on_the_test_split_is_warned_of(
    trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr("headway.head_analysis.pruning.paired_drop", lambda *_: (9.0, (7.0, 11.0)))
    hw.prune(trained_run, max_drop=5, out=tmp_path / "pruned", device="cpu", on_event=told.append)
    text = "chosen for a drop under 5 points on validation; on the test split it is 9.00"
    assert told == [{"event": "warning", "text": text}]


@pytest.mark.parametrize("finetune", [0, 2])
def test_a_run_without_any_head_is_a_run(trained_run: Path, tmp_path: Path, finetune: int) -> None:
    result = hw.prune(trained_run, keep=[], finetune=finetune, out=tmp_path / "pruned", device="cpu")
    assert (result.kept, len(result.removed)) == ([], 15)
    found = evaluate(tmp_path / "pruned", "test")
    assert (found.n, found.disagreements) == (40, 0)
    with pytest.raises(InputError, match="has no heads left; there is nothing to analyse"):
        hw.heads(tmp_path / "pruned")


def test_finetuning_trains_the_smaller_model_at_a_tenth_of_the_rate(trained_run: Path, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    place = tmp_path / "pruned"
    result = hw.prune(trained_run, keep=KEEP, finetune=5, out=place, device="cpu", on_event=events.append)
    settings, origin = load(place, device="cpu").config, load(trained_run, device="cpu").config
    assert (settings.train.steps, settings.train.epochs) == (5, None)
    assert settings.train.lr == pytest.approx(origin.train.lr / 10)
    assert settings.model == replace(origin.model, kept_heads=tuple(IN_ORDER))
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5]
    assert not [event for event in events if event["event"] == "warning"]
    assert RunDirectory(place).newest_state()["finished"]
    assert weights_hash(place, 5) != weights_hash(place, 0)
    hw.prune(trained_run, keep=KEEP, out=tmp_path / "as it is", device="cpu")
    assert weights_hash(place, 0) == weights_hash(tmp_path / "as it is", 0)
    assert result.finetuned is not None
    found = evaluate(place, "test")
    assert result.finetuned.steps == 5
    assert result.finetuned.exact_match_after == found.accuracy
    assert result.finetuned.exact_match_before == result.exact_match_before
    steps = [record["step"] for record in RunDirectory(place).metrics() if "validation" in record]
    assert steps == [0, 3, 5]
    first = next(record for record in RunDirectory(place).metrics() if "validation" in record)["validation"]
    assert first["loss"] == pytest.approx(evaluate(load(place, checkpoint=0, device="cpu"), "validation").loss)


def test_finetuning_twice_gives_the_same_weights(trained_run: Path, tmp_path: Path) -> None:
    for name in "ab":
        torch.manual_seed(ord(name))
        hw.prune(trained_run, keep=KEEP, finetune=3, out=tmp_path / name, device="cpu")
    assert weights_hash(tmp_path / "a", 3) == weights_hash(tmp_path / "b", 3)


def test_a_run_counted_in_epochs_or_with_fresh_examples_can_be_finetuned(tmp_path: Path) -> None:
    epochs = settings_of(ADDITION, train={"steps": None, "epochs": 0.1})
    fresh = settings_of(SHAPES["text, decoder-only"], data={"fresh": True})
    for name, settings in (("epochs", epochs), ("fresh", fresh)):
        train(settings, tmp_path / name, device="cpu")
        result = hw.prune(tmp_path / name, keep=["dec0.self.h1"], finetune=2, out=tmp_path / f"{name}-2", device="cpu")
        assert result.finetuned is not None
        assert result.finetuned.steps == 2
        assert load(tmp_path / f"{name}-2", device="cpu").config.data == load(tmp_path / name).config.data


@pytest.mark.parametrize("finetune", [0, 2])
def test_a_run_from_files_takes_its_data_along(tmp_path: Path, finetune: int) -> None:
    settings = settings_of(SORTEDNESS, task={"test_lengths": [8]})
    write_files(make_task(settings.task), settings.data, tmp_path / "data")
    train(settings, tmp_path / "run", device="cpu", data=tmp_path / "data")
    before = {split: load(tmp_path / "run").examples(split) for split in ("train", "validation", "test")}
    result = hw.prune(tmp_path / "run", keep=["enc1.self.h0"], finetune=finetune, out=tmp_path / "new", device="cpu")
    files = contents(tmp_path / "data")
    assert set(files) == {"train.json", "val.json", "test.json", "test_8.json"}
    assert contents(tmp_path / "new" / "data") == files
    shutil.rmtree(tmp_path / "run")
    shutil.rmtree(tmp_path / "data")
    pruned = load(tmp_path / "new", device="cpu")
    for split, examples in before.items():
        assert (pruned.examples(split).source == examples.source).all()
        assert (pruned.examples(split).target == examples.target).all()
    after = result.exact_match_after if result.finetuned is None else result.finetuned.exact_match_after
    assert evaluate(pruned, "test").accuracy == after
    train(pruned.config, tmp_path / "new", device="cpu", resume=True)


# What is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"give one of --keep \(heads that stay\) and --max-drop"),
        ({"keep": KEEP, "max_drop": 1}, r"give one of --keep \(heads that stay\) and --max-drop"),
        ({"max_drop": 0}, r"--max-drop 0; more than 0 and at most 100 points needed"),
        ({"max_drop": -3}, r"--max-drop -3; more than 0"),
        ({"max_drop": 101}, r"--max-drop 101; more than 0"),
        ({"max_drop": float("nan")}, r"--max-drop nan; more than 0"),
        ({"keep": ["enc0.self.h9"]}, r"the model has no head enc0\.self\.h9; did you mean enc0\.self\.h"),
        ({"keep": ["enc0.self.h1", "enc0.self.h1"]}, r"head enc0\.self\.h1 is named twice"),
        ({"keep": ["h1"]}, r"'h1' is not a head; write it like"),
        ({"keep": KEEP, "finetune": -1}, r"--finetune -1; at least 0 steps needed"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_written(trained_run: Path, tmp_path: Path, given, message) -> None:
    with pytest.raises(InputError, match=message):
        hw.prune(trained_run, **given, out=tmp_path / "pruned", device="cpu")
    assert not (tmp_path / "pruned").exists()


def test_a_place_that_is_taken_is_refused_before_any_work(trained_run: Path, tmp_path: Path, monkeypatch) -> None:
    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr(pruning, "choose_kept", never)
    with pytest.raises(InputError, match="holds a run already"):
        hw.prune(trained_run, max_drop=1, out=trained_run, device="cpu")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files; an empty or new directory needed"):
        hw.prune(trained_run, max_drop=1, out=tmp_path / "other", device="cpu")
    with pytest.raises(InputError, match="is a file; a directory needed"):
        hw.prune(trained_run, max_drop=1, out=tmp_path / "other" / "letter.txt", device="cpu")
    assert contents(tmp_path / "other") == {"letter.txt": b"mine"}


def test_a_fault_of_the_pruning_is_seen_and_nothing_is_written(trained_run: Path, tmp_path: Path, monkeypatch) -> None:
    right = pruning._keep

    def another_head(tensor: Tensor, axis: int, places: list[int], heads: int) -> Tensor:
        return right(tensor, axis, [(place + 1) % heads for place in places], heads)

    monkeypatch.setattr(pruning, "_keep", another_head)
    code = run(["prune", str(trained_run), "--keep", ",".join(KEEP), "--out", str(tmp_path / "pruned"), "--quiet"])
    assert code == 1
    assert not (tmp_path / "pruned").exists()


def test_drops_are_paired(trained_run: Path, tmp_path: Path, monkeypatch) -> None:
    """As many lost as gained is no drop, but not as sure as none of either."""
    monkeypatch.setattr(pruning, "run_variants", lambda one, *rest: OutcomesOf(one))
    kept = load(trained_run, device="cpu")
    fewer = replace(kept, model=cut_model(kept, []))
    found = pruning.compare_accuracy(kept, fewer, kept.examples("test"))
    assert (found.n, found.drop) == (100, 0.0)
    assert (found.exact_match_before, found.exact_match_after) == (0.5, 0.5)
    assert found.drop_interval[1] > 15


class OutcomesOf:
    """Right on the first half with heads, on the second half without."""

    def __init__(self, trained: Trained):
        first = np.arange(100) < 50
        self.right = (first if heads_of(trained) else ~first)[None]
