"""Which examples fail: every table against plain counting, and the worst examples decoded once more."""

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway.batches import make_batch
from headway.evaluation import Trained, decode
from headway.head_analysis.ablation import ablate
from headway.head_analysis.error_analysis import MOST_GROUPS, _worst, analyse_errors, answer_without, by_value
from headway.head_analysis.handles import attention_at
from headway.head_analysis.head_runs import TrainedRuns
from headway.head_analysis.variants import Outcomes, heads_of
from headway.model.sites import Head
from headway.results.schema import write
from headway.statistics import wilson_interval
from headway.tasks import Examples
from tests.head_analysis.small import ADDITION, SORTEDNESS, TEXT, favour, half_trained, untrained


class Plain:
    """A pass with some heads zeroed by hooks of its own: tokens answered, which are right, and each example's loss."""

    def __init__(self, trained: Trained, examples: Examples, gone: tuple[Head, ...] = ()):
        pad = trained.task.vocabulary.pad
        batch = make_batch(trained.task, trained.model, examples, trained.device)
        handles = [self.silence(trained, head) for head in gone]
        with torch.inference_mode():
            logits = trained.model(batch.inputs)
            self.decoded = None
            if trained.task.kind == "sequence":
                self.decoded = decode(trained.model, trained.task, batch, cache=False).numpy()
        for handle in handles:
            handle.remove()
        self.answered = logits.argmax(-1).numpy()
        self.right = trained.task.correct(logits.argmax(-1), batch.target).numpy()
        flat = batch.target.reshape(len(examples), -1)
        lost = F.cross_entropy(
            logits.reshape(*flat.shape, -1).transpose(1, 2), flat, ignore_index=pad, reduction="none"
        )
        self.loss = lost.sum(1).numpy()

    def silence(self, trained: Trained, head: Head) -> Any:
        attention = attention_at(trained.model, head.site)
        place = attention.kept.index(head.index) * attention.d_head

        def hook(module: Any, arguments: tuple[Tensor]) -> tuple[Tensor]:
            mixed = arguments[0].clone()
            mixed[..., place : place + attention.d_head] = 0
            return (mixed,)

        return attention.output.register_forward_pre_hook(hook)


CASES = {
    "addition": ("addition", ()),
    "addition without two heads": ("addition", (Head("encoder.0.self", 1), Head("decoder.0.cross", 2))),
    "sortedness": ("sortedness", ()),
    "sortedness without a head": ("sortedness", (Head("encoder.1.self", 0),)),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Trained, Examples, dict[str, Any], Plain]:
    task, gone = CASES[request.param]
    trained = half_trained(task)
    examples = trained.examples("test").take(slice(0, 120))
    return trained, examples, analyse_errors(trained, examples, gone), Plain(trained, examples, gone)


def test_the_numbers_are_those_of_a_pass_with_hooks(case: Any) -> None:
    trained, _, found, plain = case
    assert found.n == 120
    assert found.wrong == int((~plain.right).sum())
    assert 0 < found.wrong < 120
    assert set(found.ablated) <= {str(head) for head in heads_of(trained)}
    json.dumps(write(found), allow_nan=False)


def test_accuracy_by_feature_agrees_with_counting(case: Any) -> None:
    trained, examples, found, plain = case
    features = trained.task.features(examples.source)
    assert found.by_feature.keys() == features.keys()
    for name, values in features.items():
        counts, wrong = Counter(values.tolist()), Counter(values[~plain.right].tolist())
        assert [row.value for row in found.by_feature[name]] == sorted(counts)
        for row in found.by_feature[name]:
            assert (row.n, row.wrong) == (counts[row.value], wrong[row.value])
            assert row.accuracy == pytest.approx(1 - row.wrong / row.n)
            assert row.interval == wilson_interval(row.n - row.wrong, row.n)


def test_accuracy_by_token_and_the_confusion_add_up(case: Any) -> None:
    trained, examples, found, plain = case
    target = examples.target.reshape(120, -1)
    answered = plain.answered.reshape(120, -1)
    is_class = trained.task.kind == "class"
    names = ["class"] if is_class else ["column 2", "column 1", "column 0", "end"]
    assert [row.token for row in found.by_token] == names == list(found.confusion)
    for place, row in enumerate(found.by_token):
        wrong = sum(int(t) != int(a) for t, a in zip(target[:, place], answered[:, place], strict=True))
        assert (row.n, row.wrong) == (120, wrong)
        table = found.confusion[row.token]
        counts = np.array(table.counts)
        assert counts.sum() == 120
        assert counts.sum() - counts.trace() == wrong
        tokens = ["0", "1"] if is_class else list(trained.task.vocabulary.tokens)
        pairs = Counter(
            (tokens[t], tokens[a]) for t, a in zip(target[:, place].tolist(), answered[:, place].tolist(), strict=True)
        )
        for i, right in enumerate(table.labels):
            for j, given_answer in enumerate(table.labels):
                assert counts[i, j] == pairs[right, given_answer]  # rows are right, columns answered


def test_accuracy_by_symbol_agrees_with_counting(case: Any) -> None:
    trained, examples, found, plain = case
    tokens, pad = trained.task.vocabulary.tokens, trained.task.vocabulary.pad
    assert list(found.by_symbol) == trained.task.token_names(examples.source.shape[1])
    for place, rows in enumerate(found.by_symbol.values()):
        column = examples.source[:, place]
        counts = Counter(tokens[token] for token in column if token != pad)
        wrong = Counter(tokens[token] for token in column[~plain.right])
        assert {row.symbol: (row.n, row.wrong) for row in rows} == {
            symbol: (count, wrong[symbol]) for symbol, count in counts.items()
        }


def test_the_worst_are_wrong_first_then_by_loss_and_decoded_for_real(case: Any) -> None:
    trained, examples, found, plain = case
    worst = found.worst
    assert len(worst) == 20
    keys = [(row.right, -row.loss) for row in worst]
    assert keys == sorted(keys)
    expected = sorted(range(120), key=lambda row: (plain.right[row], -plain.loss[row]))[:20]
    # 1e-4: the sweep and the hook sum fp32 losses of size ten in another order.
    assert [row.loss for row in worst] == pytest.approx(plain.loss[expected].tolist(), rel=1e-4)
    answers = plain.answered if plain.decoded is None else plain.decoded
    lines = {
        trained.task.show(source, target): trained.task.show(source, answer)
        for source, target, answer in zip(examples.source, examples.target, answers, strict=True)
    }
    for row in worst:
        assert lines[row.example].endswith(f"-> {row.answered}")
        assert row.right == row.example.endswith(f"-> {row.answered}")


def test_a_wrong_answer_comes_before_a_right_one_with_a_larger_loss() -> None:
    trained = untrained(SORTEDNESS)
    examples = trained.examples("test").take(slice(0, 5))
    right = np.array([[True, False, True, False, False]])
    loss = np.array([[0.9, 0.7, 3.0, 0.8, 2.0]], dtype=np.float32)
    found = _worst(trained, examples, Outcomes(right, right[:, :, None], loss, np.ones((5, 1), dtype=bool)), ())
    expected = [(False, 2.0), (False, 0.8), (False, 0.7), (True, 3.0), (True, 0.9)]
    assert [(row.right, round(row.loss, 3)) for row in found] == expected


def test_taking_heads_away_by_the_hook_and_in_the_sweep_is_the_same() -> None:
    trained = half_trained("addition")
    examples = trained.examples("test").take(slice(0, 80))
    drops = ablate(TrainedRuns(trained, examples), kinds=["zero"]).drops["zero"]
    for head in heads_of(trained)[:4]:
        assert analyse_errors(trained, examples, [head]).wrong == round(80 * (1 - drops[str(head)].accuracy))


def test_answers_without_heads_are_written_token_by_token() -> None:
    """Without its cross-attention a model knows nothing of the question: it answers all alike."""
    trained = half_trained("addition")
    examples = trained.examples("test").take(slice(0, 30))
    across = [head for head in heads_of(trained) if head.site.endswith("cross")]
    assert len(np.unique(answer_without(trained, examples, across), axis=0)) == 1
    assert len(np.unique(answer_without(trained, examples, []), axis=0)) > 20


# Features with many values


@given(
    st.lists(st.tuples(st.integers(-3, 60), st.booleans()), min_size=1, max_size=120),
)
def test_values_are_grouped_in_order_and_each_example_counts_once(pairs: list[tuple[int, bool]]) -> None:
    value, right = (np.array(column) for column in zip(*pairs, strict=True))
    rows = by_value(value, right)
    distinct = np.unique(value)
    assert len(rows) == len(distinct) if len(distinct) <= MOST_GROUPS else 1 < len(rows) <= MOST_GROUPS
    ranges = [ends(row.value) for row in rows]
    assert all(low <= high for low, high in ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    for row, (low, high) in zip(rows, ranges, strict=True):
        inside = [good for number, good in pairs if low <= number <= high]
        assert low in value
        assert high in value
        assert (row.n, row.wrong) == (len(inside), inside.count(False))
        assert row.n > 0
    assert sum(row.n for row in rows) == len(pairs)


def ends(value: int | str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    low, high = value.split(" to ")
    return int(low), int(high)


def test_ranges_hold_about_equally_many() -> None:
    value = np.random.default_rng(0).integers(0, 1_000, size=2_400)
    rows = by_value(value, value < 500)
    assert len(rows) == MOST_GROUPS
    assert all(180 <= row.n <= 220 for row in rows)
    assert [row.wrong for row in rows[:5]] == [0] * 5


@pytest.mark.parametrize("common", [0, 40, 100])
def test_a_value_that_most_examples_have_stands_alone(common: int) -> None:
    value = np.concatenate([np.full(300, common), np.arange(101)])
    rows = {row.value: row for row in by_value(value, value != common)}
    assert (rows[common].n, rows[common].wrong) == (301, 301)
    assert len(rows) <= MOST_GROUPS
    assert all(row.wrong == 0 for name, row in rows.items() if name != common)


# Answers of unequal length


def test_padding_is_no_token_and_no_symbol() -> None:
    trained = untrained(TEXT)
    examples = trained.examples("test")
    pad = trained.task.vocabulary.pad
    found = analyse_errors(trained, examples)
    for place, row in enumerate(found.by_token):
        there = int((examples.target[:, place] != pad).sum())
        assert row.n == there == np.sum(found.confusion[row.token].counts)
    assert found.by_token[0].n == 40 > found.by_token[-1].n
    assert found.by_symbol
    assert "PAD" not in {row.symbol for rows in found.by_symbol.values() for row in rows}


def test_places_that_no_answer_reaches_are_left_out() -> None:
    trained = untrained(TEXT)
    examples = trained.examples("test")
    lengths = (examples.target != trained.task.vocabulary.pad).sum(1)
    short = examples.take(np.flatnonzero(lengths < lengths.max()))
    assert 0 < len(short) < len(examples)
    assert (short.target[:, -1] == trained.task.vocabulary.pad).all()
    found, ablation = analyse_errors(trained, short), ablate(TrainedRuns(trained, short))
    longest = int(lengths[lengths < lengths.max()].max())
    names = trained.task.answer_names(longest)
    assert [row.token for row in found.by_token] == list(found.confusion) == names
    assert [row.token for row in ablation.baseline.by_token] == names
    json.dumps(write([found, ablation]), allow_nan=False)


def test_long_sources_have_no_table_of_symbols() -> None:
    trained = untrained(SORTEDNESS, task={"values": 40})
    assert analyse_errors(trained, trained.examples("test")).by_symbol == {}
    trained = untrained(ADDITION, task={"digits": 9})
    assert analyse_errors(trained, trained.examples("test")).by_symbol == {}


def test_a_model_that_never_ends_is_shown_so() -> None:
    trained = untrained(ADDITION)
    favour(trained, trained.task.vocabulary.eos, -1e4)
    found = analyse_errors(trained, trained.examples("test"))
    assert found.wrong == 40
    assert all(row.answered.endswith("(no end)") for row in found.worst)
    assert not any(row.right for row in found.worst)
