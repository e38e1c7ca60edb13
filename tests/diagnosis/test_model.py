"""What a model answers, what training did to it, and what instruments and claims say of it: one planted fault each."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway as hw
from headway.config import Choice, options_of
from headway.diagnosis.examine import examine
from headway.diagnosis.subject import Subject, subject_of
from headway.errors import InputError
from headway.evaluation import load
from headway.length_analysis.measure import ON_VALIDATION
from headway.model.encodings import ENCODINGS
from headway.narration.numbers import percent
from headway.results.doctor import Diagnosis
from headway.results.lengths import Checkpoint, Lengths
from headway.tasks import Examples
from headway.tasks.columns import operands
from headway.training import train
from tests.diagnosis.small import first_error, found, run, subject
from tests.results.made_up import length_row, lengths_of
from tests.results.made_up_values import typed
from tests.tiny import config


def writing(rows: Callable[[Examples], np.ndarray]) -> Callable[[Examples, bool], np.ndarray]:
    return lambda examples, cache: rows(examples)


def test_one_answer_to_everything_is_told_from_an_accuracy() -> None:
    healthy = subject("sortedness")
    finding = first_error(
        replace(healthy, forward=lambda examples: torch.tensor([[2.0, 1.0]]).expand(len(examples), 2), metrics=())
    )
    share = (healthy.splits["test"].target == 0).mean()
    assert (finding.check, finding.numbers["accuracy"]) == ("constant-answer", share)
    assert f"{percent(share)} is the share of examples with that target ({percent(share)})" in finding.evidence


def test_nearly_one_answer_is_a_warning() -> None:
    def forward(examples: Examples) -> torch.Tensor:
        logits = torch.tensor([[2.0, 1.0]]).repeat(len(examples), 1)
        logits[0] = torch.tensor([0.0, 1.0])
        return logits

    assert found(subject("sortedness", forward=forward), "constant-answer").level == "warning"


def test_answers_at_chance_are_a_warning_never_an_error() -> None:
    def forward(examples: Examples) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.arange(len(examples)) % 2, 2).float()

    finding = found(subject("sortedness", forward=forward), "no-better-than-guessing")
    assert finding.level == "warning"


def test_a_little_above_the_commonest_class_is_not_yet_better_than_guessing() -> None:
    """Six in ten of 60 answers are right: more than the half by guessing, and the interval reaches down to it."""

    def forward(examples: Examples) -> torch.Tensor:
        right = torch.from_numpy(examples.target)
        said = torch.where(torch.arange(len(right)) < 0.6 * len(right), right, 1 - right)
        return torch.nn.functional.one_hot(said, 2).float()

    finding = found(subject("sortedness", forward=forward), "no-better-than-guessing")
    assert finding.numbers["accuracy"] > finding.numbers["majority"] > finding.numbers["interval"][0]
    assert finding.level == "warning"
    assert "is not above the share of the commonest target" in finding.evidence


def test_answers_without_an_end_are_an_error() -> None:
    finding = found(
        subject("addition", decode=writing(lambda examples: np.where(examples.target == 12, 3, examples.target))),
        "never-ends",
    )
    assert (finding.level, finding.numbers) == (
        "error",
        {"endless": 60, "n": 60, "right_before_the_end": 1.0},
    )
    unlearned = found(
        subject("addition", decode=writing(lambda examples: np.full_like(examples.target, 3))), "never-ends"
    )
    assert unlearned.level == "warning"


@pytest.mark.parametrize(("right", "level"), [(2, "warning"), (4, "error")])
def test_tokens_before_the_end_are_neither_the_end_nor_padding(right: int, level: str) -> None:
    """Five tokens, the end and three of padding; with the padding more than half would be right in both cases."""
    healthy = subject("addition")
    test = healthy.splits["test"]
    digits = test.target[:, [0, 1, 2, 2, 1]]
    rest = np.array([healthy.vocabulary.eos, *[healthy.vocabulary.pad] * 3])
    target = np.concatenate([digits, np.tile(rest, (len(digits), 1))], axis=1)
    splits = {**healthy.splits, "test": replace(test, target=target)}

    def decode(examples: Examples) -> np.ndarray:
        said = examples.target.copy()
        said[:, right:5] = (said[:, right:5] + 1) % 10
        said[:, 5] = 3
        return said

    finding = found(replace(healthy, splits=splits, decode=writing(decode)), "never-ends")
    assert (finding.level, finding.numbers["right_before_the_end"]) == (level, right / 5)


def test_one_sum_to_everything_is_a_warning() -> None:
    finding = found(subject("addition", decode=writing(lambda e: np.full_like(e.target, 3))), "constant-answer")
    assert (finding.level, finding.numbers["target_share"]) == ("warning", 0.0)


def test_a_token_never_written_is_an_error_where_the_rest_is_right() -> None:
    def decode(examples: Examples) -> np.ndarray:
        return np.where(examples.target == 1, 2, examples.target)

    finding = found(subject("addition", decode=writing(decode)), "never-emits")
    assert (finding.level, finding.numbers["tokens"], finding.numbers["right_elsewhere"]) == ("error", ["1"], 1.0)
    never_right = found(subject("addition", decode=writing(lambda e: np.full_like(e.target, 3))), "never-emits")
    assert never_right.level == "warning"


def test_what_stands_after_the_end_of_an_answer_does_not_make_it_wrong() -> None:
    """Targets are padded by a column, in which the decoder goes on writing."""
    healthy = subject("addition")
    test = healthy.splits["test"]
    padded = np.pad(test.target, ((0, 0), (0, 1)), constant_values=healthy.vocabulary.pad)
    splits = {**healthy.splits, "test": replace(test, target=padded)}

    def decode(examples: Examples) -> np.ndarray:
        written = np.where(examples.target == 1, 2, examples.target)
        return np.concatenate([written[:, :4], np.full((len(written), 1), 7)], axis=1)

    finding = found(replace(healthy, splits=splits, decode=writing(decode)), "never-emits")
    assert (finding.level, finding.numbers["right_elsewhere"]) == ("error", 1.0)


def test_sums_without_carries_are_recognised() -> None:
    def decode(examples: Examples) -> np.ndarray:
        a, b = operands(examples.source, 10)
        columns = (a + b) % 10
        zero, end = np.zeros((len(a), 1), dtype=int), np.full((len(a), 1), 12)
        return np.concatenate([zero, columns[:, ::-1], end], axis=1)

    finding = found(subject("addition", decode=writing(decode)), "trivial-rule")
    assert (finding.level, finding.numbers["rule"]) == ("error", "adds without carrying")
    assert finding.numbers["agree"] == finding.numbers["contradicted"] >= 20


def test_the_last_digit_alone_is_recognised() -> None:
    def decode(examples: Examples) -> np.ndarray:
        return np.where(np.arange(4) < 2, (examples.target + 1) % 10, examples.target)

    finding = found(subject("addition", decode=writing(decode)), "trivial-rule")
    assert (finding.level, finding.numbers["units"], finding.numbers["others"]) == ("warning", 1.0, 0.0)


def test_a_classifier_that_compares_the_ends_only_is_recognised() -> None:
    healthy = subject("sortedness")

    def forward(examples: Examples) -> torch.Tensor:
        last = examples.source[np.arange(len(examples)), (examples.source != healthy.vocabulary.pad).sum(1) - 1]
        return torch.nn.functional.one_hot(torch.from_numpy((last >= examples.source[:, 0]).astype(int)), 2).float()

    finding = found(replace(healthy, forward=forward), "trivial-rule")
    assert (finding.level, finding.numbers["agree_unsorted"], finding.numbers["agree_sorted"]) == ("warning", 1.0, 1.0)
    right = replace(healthy, forward=lambda e: torch.nn.functional.one_hot(torch.from_numpy(e.target), 2).float())
    assert found(right, "trivial-rule").level == "fine"


def test_an_operand_that_is_not_read_is_named() -> None:
    def decode(examples: Examples) -> np.ndarray:
        return examples.source[:, [0, 1, 0, 1]]

    finding = found(subject("addition", decode=writing(decode)), "ignores-an-operand")
    assert (finding.level, finding.numbers["operand"]) == ("error", "second")


@pytest.mark.parametrize(("share", "level"), [(0.0, "warning"), (0.7, "warning"), (1.0, "fine")])
def test_a_training_set_known_by_heart_is_a_warning(share: float, level: str) -> None:
    healthy = subject("addition")
    known = {row.tobytes() for row in healthy.splits["train"].source}

    def forward(examples: Examples) -> torch.Tensor:
        told = np.array([row.tobytes() in known for row in examples.source]) | (
            np.arange(len(examples)) % 40 < 40 * share
        )
        answer = np.where(told[:, None], examples.target, 3)
        return torch.nn.functional.one_hot(torch.from_numpy(answer), 14).float()

    assert found(replace(healthy, forward=forward), "memorised").level == level


def test_a_difference_that_20_examples_give_by_chance_is_not_memorised() -> None:
    """14 of 20 against 7 of 20: the intervals reach from 48 to 85 % and from 18 to 57 %."""
    healthy = subject("addition")
    splits = {**healthy.splits, **{name: healthy.splits[name].take(slice(0, 20)) for name in ("train", "validation")}}

    def forward(examples: Examples) -> torch.Tensor:
        right = 14 if examples.source.tolist() == splits["train"].source.tolist() else 7
        answer = np.where(np.arange(len(examples))[:, None] < right, examples.target, 3)
        return torch.nn.functional.one_hot(torch.from_numpy(answer), 14).float()

    finding = found(replace(healthy, splits=splits, forward=forward), "memorised")
    assert (finding.numbers["train"], finding.numbers["validation"]) == (0.7, 0.35)
    assert finding.level == "fine"


def test_weights_that_did_not_move_are_named() -> None:
    healthy = subject("sortedness")
    assert healthy.weights is not None and healthy.initial is not None
    still = {"readout.bias": healthy.initial["readout.bias"]}
    finding = first_error(replace(healthy, weights={**healthy.weights, **still}))
    assert (finding.check, finding.numbers["unmoved"]) == ("weights-unmoved", ["readout.bias"])
    everything = {name: healthy.initial[name] for name in healthy.weights}
    untrained = found(replace(healthy, weights=everything, step=0, best=0), "weights-unmoved")
    assert (untrained.level, "never better than untrained" in untrained.evidence) == ("warning", True)
    asked_for = found(replace(healthy, weights=everything, step=0, best=80), "weights-unmoved")
    assert (asked_for.level, "before training; validation's best is step 80" in asked_for.evidence) == ("warning", True)
    assert "although training reached step 80" in first_error(replace(healthy, weights=everything)).evidence


def test_a_position_table_that_was_never_trained_is_an_error_of_its_own() -> None:
    healthy = subject("sortedness")
    assert healthy.weights is not None and healthy.initial is not None
    name = "encoding.table.weight"
    finding = first_error(replace(healthy, weights={**healthy.weights, name: healthy.initial[name]}))
    assert (finding.check, finding.numbers) == ("positions-unmoved", {"unmoved": [name], "rows": 9})


def test_untrained_rows_that_the_tasks_test_lengths_would_read_are_a_warning() -> None:
    finding = found(subject("sortedness"), "rows-untrained")
    assert finding.level == "warning"
    expected = {"rows": 9, "untrained": 3, "first_untrained": 6, "rows_trained": 6, "rows_needed": 256}
    assert {key: finding.numbers[key] for key in expected} == expected
    assert (finding.numbers["first_length"], finding.numbers["untrained_read"]["32"]) == (32, 3)


@pytest.mark.parametrize(("length", "level"), [(6, "fine"), (7, "error"), (9, "error")])
def test_untrained_rows_that_were_read_where_lengths_were_measured_are_an_error(length: int, level: str) -> None:
    finding = found(subject("sortedness", lengths=lengths(ON_VALIDATION, length=length)), "rows-untrained")
    assert (finding.level, finding.numbers["rows_needed"]) == (level, length)
    if level == "error":
        assert f"inputs of length {length} use {length - 6} untrained ones" in finding.evidence
        assert finding.numbers["first_length"] == length


def test_positions_past_a_table_whose_rows_were_all_trained_are_a_warning() -> None:
    healthy = subject("sortedness", lengths=lengths(ON_VALIDATION))
    assert healthy.weights is not None and healthy.initial is not None
    name = "encoding.table.weight"
    finding = found(replace(healthy, initial={**healthy.initial, name: healthy.initial[name] + 1}), "rows-untrained")
    assert (finding.level, finding.numbers["untrained"]) == ("warning", 0)
    assert "has 9 rows and inputs of length 32 need 32" in finding.evidence
    trained = {**healthy.initial, name: healthy.initial[name] + 1}
    for length, level in ((9, "fine"), (10, "warning")):
        one = subject("sortedness", lengths=lengths(ON_VALIDATION, length=length), initial=trained)
        assert found(one, "rows-untrained").level == level


@pytest.mark.parametrize(("max_offset", "level"), [(0, "error"), (24, "error"), (26, "fine")])
@pytest.mark.parametrize("encoding", ["coupled", "abacus"])
def test_offsets_that_do_not_train_the_rows_of_the_tested_numbers_are_an_error(
    tmp_path: Path, encoding: str, max_offset: int, level: str
) -> None:
    """Sums of up to 3 digits, measured at 29: their 30 digits and the end read rows 1 to 31 (abacus: to 30)."""
    tables = {
        "task": {"name": "addition-text", "max_characters": 12, "order": "least-significant-first"},
        "data": {"train": 400, "validation": 20, "test": 20},
        "model": {"d_model": 8, "n_heads": 1, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1},
        "train": {"steps": 40, "batch_size": 64, "validate_every": 20},
    }
    tables["model"]["encoding"] = {"name": encoding, "max_offset": max_offset, "table_size": 64}
    train(config(tables), tmp_path / "run", device="cpu")
    measured = lengths(ON_VALIDATION, length=64)
    finding = found(replace(subject_of(load(tmp_path / "run", device="cpu")), lengths=measured), "rows-untrained")
    assert finding.numbers["rows_needed"] == (32 if encoding == "coupled" else 31)
    # Coupled training reaches row 5 + max_offset: four digits, and the end after them.
    expected = "fine" if encoding == "abacus" and max_offset == 26 else level
    assert finding.level == expected
    if max_offset == 0:
        assert finding.numbers["first_untrained"] == (6 if encoding == "coupled" else 5)


def test_the_default_offsets_train_every_row_that_125_digits_read_from_13() -> None:
    for name in ("coupled", "abacus"):
        options = options_of(ENCODINGS.get(name).Options, Choice(name=name), "model.encoding")
        assert options.max_offset + 1 >= 125 + 2
        assert options.table_size > options.max_offset + 13 + 2


def losses(values: list[float]) -> list[dict[str, Any]]:
    return [{"step": step + 1, "loss": value} for step, value in enumerate(values)]


def validations(values: list[float]) -> list[dict[str, Any]]:
    return [{"step": 10 * step, "validation": {"loss": value, "accuracy": 0.5}} for step, value in enumerate(values)]


@pytest.mark.parametrize(
    ("curve", "level"),
    [([2.0] * 30 + [0.5] * 40 + [1.9] * 10 + [0.4] * 20, "warning"), (list(np.linspace(2, 0.001, 100)), "fine")],
)
def test_a_loss_that_exploded_and_recovered_is_a_warning(curve: list[float], level: str) -> None:
    assert found(subject("addition", metrics=losses(curve)), "loss-exploded").level == level


@pytest.mark.parametrize(
    ("curve", "level"), [([2.0, 1.5, 1.0, 0.8, 0.6, 0.4], "warning"), ([2.0, 1.0, 0.5, 0.5, 0.5, 0.49], "fine")]
)
def test_a_loss_that_still_falls_is_a_warning(curve: list[float], level: str) -> None:
    assert found(subject("addition", metrics=validations(curve)), "not-converged").level == level


def test_heads_that_look_at_all_or_at_one_place_are_a_warning() -> None:
    flat, fixed = torch.full((5, 4, 4), 0.25), torch.zeros(5, 4, 4)
    fixed[..., 2] = 1
    finding = found(
        subject("addition", attention=lambda examples: {"enc0.self.h0": flat, "enc0.self.h1": fixed}), "idle-heads"
    )
    assert finding.level == "warning"
    assert (finding.numbers["uniform"], finding.numbers["fixed"]) == (["enc0.self.h0"], ["enc0.self.h1"])


def test_a_causal_head_that_attends_evenly_to_what_it_sees_is_found() -> None:
    """Four queries see 1, 2, 3 and 4 keys."""
    seen = torch.ones(4, 4).tril()
    even, drawn = (table.expand(5, 4, 4) for table in (seen / seen.sum(1, keepdim=True), torch.eye(4)))
    heads = {"dec0.self.h0": even, "dec0.self.h1": drawn}
    finding = found(subject("addition", attention=lambda examples: heads), "idle-heads")
    assert (finding.level, finding.numbers["uniform"]) == ("warning", ["dec0.self.h0"])


INSTRUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("hook-silent", {"fired": lambda examples: {"encoder.0.self": 1, "decoder.0.self": 0}}),
    ("weights-off-one", {"attention": lambda examples: {"dec0.self.h1": torch.full((2, 4, 5), 0.3)}}),
    ("partial-forward-differs", {"partial_forward": lambda examples: torch.zeros(len(examples), 4, 14)}),
    ("pruned-differs", {"pruned": lambda examples: {"enc0.self.h0": torch.zeros(len(examples), 4, 14)}}),
    ("hook-misplaced", {"hooked": lambda examples: {}}),
    ("sweep-misplaced", {"masked": lambda examples: {}}),
    ("map-misplaced", {"mixing": lambda examples: {"dec0.self.h0": (torch.ones(12, 4, 7), torch.zeros(12, 4, 7))}}),
]


@pytest.mark.parametrize(("check", "fault"), INSTRUMENTS, ids=[name for name, _ in INSTRUMENTS])
def test_an_instrument_that_errs_is_the_first_error(check: str, fault: dict[str, Any]) -> None:
    assert first_error(subject("addition", **fault)).check == check


def head(name: str, drop: float, spread: float, verdict: str = "important") -> dict[str, Any]:
    ablation = {"zero": {"drop": drop, "interval": [drop - spread, drop + spread]}}
    return {"head": name, "kind": name[:3], "verdict": verdict, "ablation": ablation}


def test_drops_and_rankings_inside_their_noise_are_warnings() -> None:
    sure = typed({"n": 500, "heads": [head("enc0.self.h0", 40, 3), head("dec0.self.h1", 20, 3)]})
    unsure = typed({"n": 50, "heads": [head("enc0.self.h0", 4, 3), head("dec0.self.h1", 2, 3, "undecided")]})
    levels = {
        name: [
            found(subject("addition", heads=document), check).level
            for check in ("drop-inside-noise", "ranking-unsupported")
        ]
        for name, document in (("sure", sure), ("unsure", unsure))
    }
    assert levels == {"sure": ["fine", "fine"], "unsure": ["warning", "warning"]}
    assert found(subject("addition", heads=sure), "too-few-seeds").level == "warning"


def lengths(chosen: str, constant: str | None = None, length: int = 32) -> Lengths:
    row = length_row(length, 0.546, constant=constant, answer_shares={"0": 1.0})
    return lengths_of([row], checkpoint=Checkpoint(step=80, chosen_on=chosen))


@pytest.mark.parametrize(
    ("chosen", "level"),
    [(ON_VALIDATION, "fine"), ("asked for by step", "warning"), ("accuracy at test lengths", "error")],
)
def test_a_curve_chosen_on_test_lengths_is_an_error(chosen: str, level: str) -> None:
    assert found(subject("sortedness", lengths=lengths(chosen)), "curve-chosen-on-test").level == level


def test_lengths_with_one_answer_are_named() -> None:
    finding = found(subject("sortedness", lengths=lengths(ON_VALIDATION, "0")), "one-answer-at-lengths")
    assert finding.level == "warning"
    assert "0.546 at 32" in finding.evidence


def test_one_answer_is_told_from_the_shortest_length_that_has_it_in_any_set() -> None:
    """Sets may fail in any order; a length whose answers differ is no part of it."""
    rows = [
        length_row(48, 0.5, "matched", constant="0", answer_shares={"0": 1.0}),
        length_row(24, 0.75, "adjacent", constant="1", answer_shares={"1": 1.0}),
        length_row(96, 0.25, "adjacent", constant="1", answer_shares={"1": 1.0}),
        length_row(12, 0.9, answer_shares={"0": 0.5, "1": 0.5}),
        length_row(48, 0.625, "adjacent", constant="1", answer_shares={"1": 1.0}),
    ]
    finding = found(subject("sortedness", lengths=lengths_of(rows)), "one-answer-at-lengths")
    assert finding.evidence == (
        "In 4 of 5 sets every answer is the same class, from length 24 on; accuracies there "
        "(0.500 at 48, 0.750 at 24, 0.250 at 96, 0.625 at 48) are shares of that class."
    )
    assert (finding.numbers["lengths"], finding.numbers["sets"]) == ([24, 48, 96], 4)
    differ = found(subject("sortedness", lengths=lengths_of(rows[3:4])), "one-answer-at-lengths")
    assert (differ.level, differ.numbers["lengths"]) == ("fine", [])


def test_seeds_that_disagree_on_the_kind_of_the_top_head_support_no_ranking() -> None:
    from headway.diagnosis.claims import over_seeds

    one, other = (typed({"n": 9, "heads": [head(name, 9, 1)]}) for name in ("enc0.self.h0", "dec0.self.h1"))
    apart = over_seeds([one, one, other], 3)
    assert [(finding.check, finding.level) for finding in apart] == [
        ("too-few-seeds", "warning"),
        ("ranking-unsupported", "warning"),
    ]
    assert [finding.level for finding in over_seeds([one] * 6, 6)] == ["fine", "fine"]


def test_findings_and_diagnoses_survive_json_and_show_in_a_notebook() -> None:
    diagnosis = hw.doctor(run("addition")[0])
    assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis
    assert "<code>split-overlap</code>" in (diagnosis._repr_html_() or "")
    with pytest.raises(InputError, match=r"form is 9; 1 needed"):
        Diagnosis.from_json({**diagnosis.to_json(), "form": 9})
    bad = {"check": "x", "level": "bad", "about": "data", "evidence": ""}
    with pytest.raises(InputError, match=r'findings\[0\].level is "bad"; "error" or "warning" or "fine" needed'):
        Diagnosis.from_json({**diagnosis.to_json(), "findings": [bad]})
    with pytest.raises(InputError, match="no run was given; name at least one"):
        hw.doctor()


def test_every_check_has_a_name_of_its_own_and_says_what_it_holds() -> None:
    from headway.diagnosis.examine import CHECKS

    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(check.meaning.endswith(".") for check in CHECKS)
    assert {name for check in CHECKS for name in check.unless} <= set(names)
    assert isinstance(subject("addition"), Subject) and examine(subject("addition")).step is not None
