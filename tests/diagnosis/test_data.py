"""Every fault of the data is found in a subject that has just that one, and in none that has not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headway.diagnosis.examine import examine
from headway.diagnosis.findings import Finding
from headway.diagnosis.subject import Subject, subject_of
from headway.tasks import Examples
from headway.tasks.examples import Vocabulary
from tests.head_analysis.small import ADDITION, SORTEDNESS, TEXT, untrained


def subject(base: dict[str, Any], **tables: dict[str, Any]) -> Subject:
    """The data of a small experiment, without its model."""
    whole = subject_of(untrained(base, **tables))
    return Subject(
        name="small",
        task=whole.task,
        vocabulary=whole.vocabulary,
        splits=whole.splits,
        score=whole.score,
        oracle=whole.oracle,
    )


def found(examined: Subject, check: str) -> Finding:
    return next(finding for finding in examine(examined).findings if finding.check == check)


@pytest.mark.parametrize("base", [ADDITION, TEXT, SORTEDNESS], ids=["addition", "text", "sortedness"])
def test_headways_own_data_has_no_error(base: dict[str, Any]) -> None:
    diagnosis = examine(subject(base))
    assert diagnosis.errors == []
    assert {finding.about for finding in diagnosis.findings} == {"data", "harness"}  # scoring needs no model


def test_a_padding_id_that_is_a_digit_is_named_with_the_rows_that_hold_it() -> None:
    healthy = subject(ADDITION)
    wrong = replace(healthy, vocabulary=replace(healthy.vocabulary, pad=0))
    finding = found(wrong, "special-token-is-symbol")
    assert finding.level == "error"
    assert "padding id 0 is also the symbol '0'" in finding.evidence
    assert finding.numbers["rows"] == (healthy.splits["test"].target == 0).any(1).sum()


def test_two_special_tokens_of_one_id_are_an_error() -> None:
    healthy = subject(ADDITION)
    tokens, eos = healthy.vocabulary.tokens, healthy.vocabulary.eos
    assert eos is not None
    wrong = replace(healthy, vocabulary=Vocabulary(tokens, pad=eos, bos=healthy.vocabulary.bos, eos=eos))
    assert "padding and end share the id" in found(wrong, "special-token-is-symbol").evidence


def test_shared_problems_are_counted_in_either_order_of_the_operands() -> None:
    healthy = subject(ADDITION)
    train, test = healthy.splits["train"], healthy.splits["test"]
    turned = np.concatenate([train.source[:3, 3:], train.source[:3, 2:3], train.source[:3, :2]], axis=1)
    mixed = Examples(np.concatenate([turned, test.source]), np.concatenate([train.target[:3], test.target]))
    finding = found(replace(healthy, splits={**healthy.splits, "test": mixed}), "split-overlap")
    assert (finding.level, finding.numbers) == ("error", {"train and test": 3})
    assert "train and test: 3 of 43" in finding.evidence


def test_targets_of_the_next_row_are_called_shifted() -> None:
    healthy = subject(ADDITION)
    splits = {name: Examples(some.source, np.roll(some.target, 1, axis=0)) for name, some in healthy.splits.items()}
    finding = found(replace(healthy, splits=splits), "oracle-contradicts-targets")
    assert finding.level == "error"
    assert "shifted by one" in finding.evidence
    assert finding.fix == "Shift the targets back."


def test_one_wrong_target_is_shown() -> None:
    healthy = subject(SORTEDNESS)
    target = healthy.splits["test"].target.copy()
    target[2] = 1 - target[2]
    splits = {**healthy.splits, "test": Examples(healthy.splits["test"].source, target)}
    finding = found(replace(healthy, splits=splits), "oracle-contradicts-targets")
    assert (finding.level, finding.numbers["wrong"], finding.numbers["shifted_by_one"]) == ("error", 1, 0)
    assert "test[2]" in finding.evidence


@pytest.mark.parametrize(("copies", "level"), [(0, "fine"), (1, "warning"), (30, "error")])
def test_repeats_are_a_warning_when_few_and_an_error_when_many(copies: int, level: str) -> None:
    healthy = subject(ADDITION)
    train = healthy.splits["train"]
    repeated = train.take([*range(len(train)), *([0] * copies)])
    finding = found(replace(healthy, splits={**healthy.splits, "train": repeated}), "duplicate-examples")
    assert (finding.level, finding.numbers["train"]) == (level, copies)


def test_a_class_that_the_length_gives_away_is_an_error() -> None:
    healthy = subject(SORTEDNESS, data={"train": 400})
    train = healthy.splits["train"]
    length = (train.source != healthy.vocabulary.pad).sum(1)
    told = train.take((length <= 4) == (train.target == 1))
    finding = found(replace(healthy, splits={**healthy.splits, "train": told}), "label-imbalance")
    assert finding.level == "error"
    assert finding.numbers["by_length"] == 1.0


def test_a_commoner_class_is_a_warning() -> None:
    healthy = subject(SORTEDNESS)
    splits = {name: some.take(np.flatnonzero(some.target == 1)) for name, some in healthy.splits.items()}
    finding = found(replace(healthy, splits=splits), "label-imbalance")
    assert (finding.level, finding.numbers["majority"]) == ("warning", 1.0)


def test_tokens_and_positions_that_training_lacks_are_a_warning() -> None:
    healthy = subject(SORTEDNESS)
    train = healthy.splits["train"]
    short = train.take((train.source[:, :4] != 11).all(1) & ((train.source != healthy.vocabulary.pad).sum(1) <= 4))
    finding = found(replace(healthy, splits={**healthy.splits, "train": short}), "unseen-in-training")
    assert finding.level == "warning"
    assert "1 tokens (11) and positions 5 to 6" in finding.evidence
    shown = [row[row != healthy.vocabulary.pad].tolist() for row in healthy.splits["test"].source]
    assert finding.numbers["rows"] == sum(len(row) > 4 or 11 in row for row in shown) < len(shown)


def test_padding_is_no_token_that_training_lacks() -> None:
    """All training sequences have six elements, those of test three to six."""
    healthy = subject(SORTEDNESS, data={"train": 400})
    train, pad = healthy.splits["train"], healthy.vocabulary.pad
    longest = train.take((train.source != pad).all(1))
    finding = found(replace(healthy, splits={**healthy.splits, "train": longest}), "unseen-in-training")
    assert pad in healthy.splits["test"].source and pad not in longest.source
    assert (finding.level, finding.numbers["tokens"]) == ("fine", [])


def test_a_split_in_order_of_length_is_sorted() -> None:
    healthy = subject(SORTEDNESS, data={"train": 400})
    train, pad = healthy.splits["train"], healthy.vocabulary.pad
    keys = [((row != pad).sum(), *row[row != pad]) for row in train.source]
    by_length = train.take(sorted(range(len(keys)), key=keys.__getitem__))
    finding = found(replace(healthy, splits={**healthy.splits, "train": by_length}), "sorted-sample")
    assert (finding.level, finding.numbers["train_in_order"]) == ("warning", 1.0)


def test_repeats_in_a_small_split_are_not_hidden_by_a_large_one() -> None:
    """Four repeats of 44 are 9 %; of all examples they are 3 %."""
    healthy = subject(ADDITION)
    test = healthy.splits["test"]
    repeated = test.take([*range(len(test)), 0, 1, 2, 3])
    finding = found(replace(healthy, splits={**healthy.splits, "test": repeated}), "duplicate-examples")
    assert sum(len(some) for some in healthy.splits.values()) > 4 / 0.05
    assert (finding.level, finding.numbers["test"]) == ("error", 4)
