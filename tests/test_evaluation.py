"""Accuracy that can be trusted: decoding equals the teacher-forced pass, and a planted fault is seen."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headway import evaluation
from headway.batches import make_batch, make_model
from headway.cli.main import run as run_command
from headway.errors import InputError
from headway.evaluation import (
    Trained,
    are_seeds_of_one_recipe,
    decode,
    disagreeing,
    evaluate,
    evaluate_examples,
    load,
    teacher_forced_pass,
    why_not_seeds,
)
from headway.model import transformer
from headway.model.attention import KeyValueCache, Visibility
from headway.runs import RunDirectory
from headway.tasks import make_task
from headway.training import train
from tests.tiny import ADDITION, SORTEDNESS, config

TEXT = {
    **ADDITION,
    "task": {"name": "addition-text", "max_characters": 12, "order": "least-significant-first"},
    "data": {"train": 400, "validation": 20, "test": 120},
}
TWO_DIGITS = {
    **ADDITION,
    "task": {"name": "addition", "digits": 2},
    "data": {"train": 800, "validation": 20, "test": 300},
}


def untrained(base: dict, tmp_path: Path, **tables: dict) -> Trained:
    settings = config(base, **tables)
    task = make_task(settings.task)
    torch.manual_seed(5)
    return Trained(RunDirectory(tmp_path), settings, task, make_model(task, settings.model).eval(), 0)


def check_equality(trained: Trained) -> tuple[int, int]:
    """Every test example decoded greedily, with and without a KV cache, against the teacher-forced pass."""
    found = evaluate(trained, "test")
    assert found.decoded_n == found.n
    assert found.decoded_wrong == found.wrong
    assert found.disagreements == 0
    batch = make_batch(trained.task, trained.model, trained.examples("test"), torch.device("cpu"))
    with_cache, without = (decode(trained.model, trained.task, batch, cache=cache) for cache in (True, False))
    assert torch.equal(with_cache, without)
    return found.wrong, found.n


@pytest.mark.parametrize(
    ("base", "shape"),
    [
        pytest.param(TEXT, "decoder", id="text, decoder"),
        pytest.param(TEXT, "encoder-decoder", id="text, encoder-decoder", marks=pytest.mark.long),
        pytest.param(TWO_DIGITS, "decoder", id="fixed width, decoder", marks=pytest.mark.long),
    ],
)
def test_greedy_equals_teacher_forced_for_trained_and_untrained_models(base, shape, tmp_path: Path) -> None:
    encoding = {"name": "coupled", "max_offset": 0} if base is TEXT else {"name": "learned"}
    model = {"encoding": encoding, "shape": shape, "d_model": 24, "d_ff": 48, "dropout": 0.0}
    if shape == "decoder":
        model["encoder_layers"] = None
    changed = {"model": model, "train": {"steps": 260, "batch_size": 64, "validate_every": 260}}
    check_equality(untrained(base, tmp_path, **changed))
    train(config(base, **changed), tmp_path / "run", device="cpu")
    wrong, n = check_equality(load(tmp_path / "run", device="cpu"))
    assert 0 < wrong < n  # answers of both kinds were compared


@pytest.fixture(scope="module")
def half_trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose answers are partly right: only after a right token can two ways to go on differ."""
    out = tmp_path_factory.mktemp("half") / "run"
    model = {"encoding": "learned", "d_model": 24, "d_ff": 48, "dropout": 0.0}
    schedule = {"steps": 260, "batch_size": 64, "validate_every": 260}
    train(config(TWO_DIGITS, model=model, train=schedule), out, device="cpu")
    return out


def test_greedy_equals_teacher_forced_for_a_half_trained_model_and_its_beginning(half_trained: Path) -> None:
    check_equality(load(half_trained, checkpoint=0, device="cpu"))
    wrong, n = check_equality(load(half_trained, device="cpu"))
    assert 0 < wrong < n


def see_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Visibility, "mask", lambda self, queries, n_queries, n_keys, device: None)


def keep_stale_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def extend(self, key, value):  # type: ignore[no-untyped-def]
        if self.key is None:
            self.key, self.value = key, value
        repeats = [1, 1, key.shape[2], 1]
        self.key = torch.cat([self.key, self.key[:, :, :1].repeat(repeats)], dim=2)
        self.value = torch.cat([self.value, self.value[:, :, :1].repeat(repeats)], dim=2)
        return self.key[:, :, 1:], self.value[:, :, 1:]

    monkeypatch.setattr(KeyValueCache, "extend", extend)


def start_from_token_0(monkeypatch: pytest.MonkeyPatch) -> None:
    right = transformer.decode_greedily
    monkeypatch.setattr(evaluation, "decode_greedily", lambda *a, **options: right(*a, **{**options, "bos": 0}))


@pytest.mark.parametrize("fault", [see_the_future, keep_stale_keys, start_from_token_0])
def test_a_planted_fault_is_seen_as_a_disagreement(fault, half_trained: Path, monkeypatch) -> None:
    trained = load(half_trained, device="cpu")
    assert evaluate(trained, "test").disagreements == 0
    fault(monkeypatch)
    found = evaluate(trained, "test")
    assert found.disagreements > 0
    assert found.real_disagreements > 0
    assert len(found.disagreement_examples) == min(found.disagreements, 20)


def test_a_disagreement_counts_only_after_a_right_prefix() -> None:
    pad = 9
    target = torch.tensor([[1, 2, 3, 0], [1, 2, 3, 0], [1, 2, 0, pad], [1, 2, 3, 0]])
    predicted = torch.tensor([[1, 5, 4, 0], [1, 2, 3, 0], [1, 2, 0, 7], [1, 2, 3, 0]])
    written = torch.tensor([[1, 5, 8, 8], [1, 4, 4, 0], [1, 2, 0, 0], [1, 2, 3, 0]])
    apart = disagreeing(written, predicted, target, pad)
    assert apart.tolist() == [[False] * 4, [False, True, True, False], [False] * 4, [False] * 4]


def test_the_first_wrong_token_is_still_compared() -> None:
    """Both passes have read a right prefix there; only what follows a wrong token may differ."""
    target, predicted, written = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 7, 3]]), torch.tensor([[1, 8, 8]])
    assert disagreeing(written, predicted, target, 9).tolist() == [[False, True, False]]


def test_every_decoded_part_is_compared_with_its_own_predictions(
    half_trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small batches the sample is decoded in several parts, each of which answers other sums."""
    trained = load(half_trained, device="cpu")
    examples = trained.examples("test")
    monkeypatch.setitem(evaluation.TOKENS_A_BATCH, "cpu", 40 * (examples.source.shape[1] + examples.target.shape[1]))
    found = evaluate(trained, "test")
    assert (found.decoded_n, found.decoded_wrong, found.disagreements) == (found.n, found.wrong, 0)


def test_the_whole_domain_is_counted_once(tmp_path: Path) -> None:
    trained = untrained(ADDITION, tmp_path)
    found = evaluate(trained, "all", decoded=30)
    assert (found.n, found.decoded_n) == (100, 30)
    right = 0
    for examples in trained.task.domain(7):
        batch = make_batch(trained.task, trained.model, examples, torch.device("cpu"))
        answer = decode(trained.model, trained.task, batch)
        width = batch.target.shape[1]
        answer = torch.nn.functional.pad(answer, (0, width - answer.shape[1]), value=trained.task.vocabulary.eos)
        right += int((answer[:, :width] == batch.target).all(1).sum())
    assert found.n - found.wrong == right
    assert 0 <= found.interval[0] <= found.accuracy <= found.interval[1] <= 1


@pytest.mark.parametrize(("rows", "sizes"), [(7_000, [6_720, 1_380]), (6_000, [6_000, 2_100])])
def test_batches_of_the_domain_fill_the_device_and_large_ones_have_many_divisors(
    rows: int, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = untrained(TWO_DIGITS, tmp_path)
    one = next(trained.task.domain(1))
    monkeypatch.setitem(evaluation.TOKENS_A_BATCH, "cpu", rows * (one.source.shape[1] + one.target.shape[1]))
    done = [0]
    assert evaluate(trained, "all", decoded=0, progress=lambda count, total: done.append(count)).n == 8_100
    assert np.diff(done).tolist() == sizes


def test_the_loss_of_a_split_is_the_mean_over_its_tokens(tmp_path: Path) -> None:
    trained = untrained(TEXT, tmp_path, model={"encoding": "coupled"})
    examples = trained.examples("test")
    total = count = 0.0
    for row in range(len(examples)):
        batch = make_batch(trained.task, trained.model, examples.take([row]), torch.device("cpu"))
        answer = teacher_forced_pass(trained.model, batch, trained.task.vocabulary.pad)
        total, count = total + float(answer.loss), count + answer.counted
    # 1e-5: fp32 sums over batches of one and over large ones differ in the last digits.
    assert evaluate(trained, "test").loss == pytest.approx(total / count, rel=1e-5)


def test_a_constant_answer_shows_in_the_shares_and_the_balanced_accuracy(tmp_path: Path) -> None:
    trained = untrained(SORTEDNESS, tmp_path)
    with torch.no_grad():
        trained.model.readout.weight.zero_()
        trained.model.readout.bias.copy_(torch.tensor([0.0, 1.0]))
    found = evaluate(trained, "test")
    assert found.answer_shares == {"0": 0.0, "1": 1.0}
    assert found.balanced_accuracy == 0.5
    assert found.accuracy == 0.5


def test_a_run_opens_at_its_best_its_last_or_a_named_checkpoint(tmp_path: Path) -> None:
    result = train(config(ADDITION), tmp_path / "run", device="cpu")
    assert load(tmp_path / "run", device="cpu").step == result.metrics["best_step"]
    assert load(tmp_path / "run", checkpoint="last", device="cpu").step == 24
    assert load(tmp_path / "run", checkpoint="step-000000", device="cpu").step == 0
    with pytest.raises(InputError, match=r"no checkpoint '7' in .*; there are: best, last, \[0, "):
        load(tmp_path / "run", checkpoint="7", device="cpu")


def test_a_damaged_best_checkpoint_is_named_and_another_used(tmp_path: Path) -> None:
    result = train(config(ADDITION, train={"lr": 1e-9}), tmp_path / "run", device="cpu")
    best = int(result.metrics["best_step"])
    path = tmp_path / "run" / "checkpoints" / f"step-{best:06d}" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    trained = load(tmp_path / "run", device="cpu")
    assert trained.step != best
    assert any(f"step-{best:06d} is damaged: model.safetensors" in warning for warning in trained.warnings)


def test_splits_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    fresh = untrained(TEXT, tmp_path, data={"fresh": True}, model={"encoding": "coupled"})
    with pytest.raises(InputError, match="drew fresh examples at every step and has no training set"):
        evaluate(fresh, "train")
    with pytest.raises(InputError, match="the domain of addition-text is too large to list"):
        evaluate(fresh, "all")


def test_evaluation_runs_without_dropout(tmp_path: Path) -> None:
    settings = config(ADDITION, model={"dropout": 0.9})
    train(replace(settings), tmp_path / "run", device="cpu")
    losses = {evaluate(load(tmp_path / "run", device="cpu"), "test").loss for _ in range(3)}
    assert len(losses) == 1


def test_a_wrong_answer_is_shown_as_the_model_writes_it(half_trained: Path) -> None:
    trained = load(half_trained, device="cpu")
    found = evaluate(trained, "test")
    examples = trained.examples("test")
    batch = make_batch(trained.task, trained.model, examples, torch.device("cpu"))
    written = decode(trained.model, trained.task, batch).numpy()
    rows = zip(examples.source, examples.target, written, strict=True)
    lines = {trained.task.show(source, target): trained.task.show(source, answer) for source, target, answer in rows}
    assert len(found.wrong_examples) == 20
    for wrong in found.wrong_examples:
        assert lines[wrong.example].endswith(f"-> {wrong.answered}")
        assert not wrong.example.endswith(f"-> {wrong.answered}")


@pytest.mark.parametrize("shown", [0, 3, 20, 1_000])
@pytest.mark.parametrize("base", [TWO_DIGITS, SORTEDNESS])
def test_the_first_wrong_answers_of_all_batches_are_shown_up_to_a_number(
    base: dict, shown: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "TOKENS_A_BATCH", {"cpu": 80})  # at most 16 of its 70 examples
    trained = untrained(base, tmp_path, data={"train": 80, "test": 70})
    examples, seen = trained.examples("test"), []
    found = evaluate_examples(
        trained,
        "test",
        iter([examples.take(slice(0, 40)), examples.take(slice(40, 70))]),
        70,
        decoded=0,
        shown=shown,
        observe=lambda part, right: seen.append(right),
    )
    wrong = np.flatnonzero(~np.concatenate(seen))
    assert len(seen) > 4 and len(wrong) == found.wrong > 25
    rows = wrong[:shown]
    wanted = [trained.task.show(examples.source[row], examples.target[row]) for row in rows]
    assert [one.example for one in found.wrong_examples] == wanted
    assert len(wanted) == min(shown, found.wrong)


def test_an_answer_without_an_end_says_so() -> None:
    task = make_task(config(ADDITION).task)
    assert task.written([1, 2, task.vocabulary.eos, 7]) == ["1", "2"]
    assert task.written([1, task.vocabulary.bos, task.vocabulary.pad]) == ["1", "BOS", "(no end)"]


def test_evaluate_takes_a_path_and_refuses_an_unknown_split(half_trained: Path) -> None:
    assert evaluate(half_trained, "validation").n == 20
    with pytest.raises(InputError, match="split 'tset'; did you mean test"):
        evaluate(half_trained, "tset")


def test_the_decoded_sample_is_drawn_from_all_examples(tmp_path: Path) -> None:
    """A domain is listed in order: its first examples have the smallest first operand alone."""
    trained = untrained(ADDITION, tmp_path)
    count = evaluation.SequenceCount(trained, 0, 10_000, 200)
    rows = np.flatnonzero(count.chosen)
    assert len(rows) == 200
    # The mean of 200 of 10,000 numbers is 5,000 with a standard error of 204.
    assert abs(rows.mean() - 5_000) < 4 * 204


def test_the_best_checkpoint_is_opened_unless_another_is_asked_for(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    train(config(ADDITION, train={"steps": 12, "validate_every": 4}), run.path, device="cpu")
    last = run.read_checkpoint(12)
    run.write_checkpoint(replace(last, state={**last.state, "best": {**last.state["best"], "step": 8}}))
    assert [load(run, checkpoint=asked, device="cpu").step for asked in ("best", "last", 0)] == [8, 12, 0]


def test_without_its_best_checkpoint_a_run_opens_at_its_last_and_says_so(tmp_path: Path) -> None:
    """An earlier one, which could be read, is neither."""
    run = RunDirectory(tmp_path / "run")
    train(config(ADDITION, train={"steps": 12, "validate_every": 4}), run.path, device="cpu")
    last = run.read_checkpoint(12)
    run.write_checkpoint(replace(last, state={**last.state, "best": {**last.state["best"], "step": 8}}))
    weights = run.checkpoint_path(8) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    trained = load(run, device="cpu")
    assert (trained.step, run.checkpoint_steps()[0]) == (12, 0)
    assert trained.warnings[-1] == "the best checkpoint cannot be read; using 12 instead"


def test_a_disagreement_at_a_near_tie_is_not_a_real_one(half_trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_stale_keys(monkeypatch)
    trained = load(half_trained, device="cpu")
    assert evaluate(trained, "test").real_disagreements > 0
    monkeypatch.setattr(evaluation, "NEAR_TIE", 1e9)
    found = evaluate(trained, "test")
    assert found.disagreements > 0
    assert found.real_disagreements == 0


def test_the_command_ends_with_1_where_decoding_disagrees(half_trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["evaluate", str(half_trained), "--split", "validation", "--quiet"]
    assert run_command(command) == 0
    keep_stale_keys(monkeypatch)
    assert run_command(command) == 1


@pytest.mark.parametrize(
    ("seeds", "why"),
    [
        ([4], None),
        ([4, 2, 7], None),
        ([4, 2, 4], "run0 and .*run2 both have seed 4"),
        ([4, 2, 2], "run1 and .*run2 both have seed 2"),
        ([4, 2, 7, 7, 2], "run2 and .*run3 both have seed 7"),
    ],
)
def test_a_seed_counts_once_whichever_of_the_runs_has_it_first(
    seeds: list[int], why: str | None, tmp_path: Path
) -> None:
    trained = untrained(ADDITION, tmp_path)
    runs = [
        replace(trained, directory=RunDirectory(tmp_path / f"run{place}"), config=replace(trained.config, seed=seed))
        for place, seed in enumerate(seeds)
    ]
    found = why_not_seeds(runs)
    assert are_seeds_of_one_recipe(runs) == (why is None)
    assert found is None if why is None else re.search(f"{why}; each counts once$", found or "")


def test_runs_of_several_recipes_are_not_seeds_and_a_run_is_named_once(tmp_path: Path) -> None:
    trained = untrained(ADDITION, tmp_path / "run0")
    other = untrained(ADDITION, tmp_path / "run1", train={"lr": 0.5})
    found = why_not_seeds([trained, replace(other, config=replace(other.config, seed=3))])
    assert found is not None and found.endswith("are not two seeds of one recipe: train.lr: 0.01 and 0.5")
    with pytest.raises(InputError, match="a run is named twice; every seed counts once"):
        why_not_seeds([trained, other, trained])
