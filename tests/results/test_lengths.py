"""Documents of lengths: written and read again they are equal, earlier forms are read, and a wrong value is named."""

import json
from typing import Any

import pytest

from headway.errors import InputError
from headway.length_analysis.measure import measure_lengths
from headway.length_analysis.seed_summary import together
from headway.results.lengths import Decoding, Lengths, SeedSummary
from headway.results.mechanism import Mechanism
from headway.results.schema import described, read, write
from headway.results.study import LengthStudy, MeasuredRun, Sentence
from tests.length_analysis.small_runs import small_sortedness, small_text
from tests.reports.length_documents import lengths_document
from tests.reports.mechanism_documents import mechanism_document
from tests.results.made_up import length_row, length_study, lengths_of, study_cell


def again(kind: type, found: Any) -> Any:
    return read(kind, json.loads(json.dumps(write(found), allow_nan=False)), "lengths.json")


@pytest.mark.parametrize("trained", [small_sortedness, small_text])
def test_what_is_measured_is_the_same_after_writing_and_reading(trained: Any) -> None:
    found = measure_lengths(trained(), at=[20], n=24, mechanism=True)
    assert again(Lengths, found) == found
    assert again(SeedSummary, together([found] * 6)) == together([found] * 6)


def test_a_study_is_the_same_after_writing_and_reading() -> None:
    run = MeasuredRun.of(lengths_of([length_row(16), length_row(32, 0.5)]), None)
    sentence = Sentence(kind="furthest", set_name="swaps", text="swaps: held to 16")
    found = length_study([study_cell("a", run, together=together([run]))], [sentence])
    assert again(LengthStudy, found) == found


def test_names_of_the_json_stay_while_python_has_better_ones() -> None:
    document = lengths_of([length_row(16)], asked=(16,)).to_json()
    assert (document["at"], document["lengths"][0]["negatives"]) == ([16], "swaps")
    assert "set_name" not in document["lengths"][0]


def test_a_document_of_before_the_length_held_had_its_name_is_read() -> None:
    """Certified lengths, no sets measured whole, no gate, and neither positions nor a mechanism."""
    today = lengths_document(lengths=(8, 16, 32))
    before = {key: value for key, value in today.items() if key not in ("held", "length_held", "positions")}
    before |= {"certified": today["held"], "certified_length": today["length_held"]}
    found = read(MeasuredRun, before, "lengths.json")
    assert (found.held, found.length_held) == (today["held"], today["length_held"])
    assert (found.whole, found.positions, found.mechanism, found.passed) == (None, None, None, True)
    assert [row.accuracy for row in found.rows] == [row["accuracy"] for row in today["lengths"]]


def test_seeds_put_together_by_an_earlier_version_are_read() -> None:
    held = {"certified": [16, 64], "median": 40.0, "interval": None}
    row = {"length": 32, "negatives": "swaps", "trained": False, "accuracies": [0.5, 1.0], "mean": 0.75}
    before = {"n_seeds": 2, "seeds": [0, 1], "descriptive": True, "constant_seeds": 0, "certified_length": held}
    found = read(SeedSummary, {**before, "sets": {"swaps": {**held, "reach": []}}, "lengths": [row]}, "lengths.json")
    assert found.sets["swaps"].held == found.length_held.held == (16, 64)
    assert (found.rows[0].mean, found.rows[0].median) == (0.75, None)


def test_a_repair_from_before_shams_is_read() -> None:
    rise = {"n": 9, "wrong": 0, "accuracy": 1.0, "interval": [0.7, 1.0], "rise": 50.0, "rise_interval": [40.0, 60.0]}
    repair = {"repair": "reach", "who": "all heads", "heads": ["enc0.self.h0"], "at": rise, "control": rise}
    found = read(Mechanism, {**mechanism_document(), "check": {"length": 64, "repairs": [repair]}}, "lengths.json")
    assert found.check is not None
    assert (found.check.repairs[0].at.rise, found.check.repairs[0].claim) == (50.0, "not shown")
    assert (found.check.repairs[0].sham, found.check.repairs[0].at.failures) == (None, None)


def test_a_sentence_of_an_earlier_version_is_a_text() -> None:
    assert read(Sentence, "swaps: held to 64", "lengths.json") == Sentence(kind="other", text="swaps: held to 64")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("lengths", 1, "accuracy"), "x", 'lengths[1].accuracy is "x"; a number needed'),
        (("lengths", 1, "accuracy"), float("nan"), "lengths[1].accuracy is NaN; a number needed"),
        (("lengths", 0, "interval"), [0.5], "lengths[0].interval is [0.5]; a list of 2 needed"),
        (("lengths", 0, "by", "gap", 0, "from"), None, "lengths[0].by.gap[0].from is null; a whole number needed"),
        (("held", "swaps"), 1.5, "held.swaps is 1.5; a whole number needed"),
        (("form",), 2, "form is 2; 1 needed"),
        (("checkpoint",), {}, "checkpoint.step is missing; a whole number needed"),
        (("mechanism", "heads", 0, "effects", "zero", 0, "drop"), True, "mechanism.heads[0].effects.zero[0].drop"),
    ],
)
def test_a_wrong_value_is_named_by_file_and_path(place: tuple[Any, ...], value: Any, message: str) -> None:
    document = json.loads(json.dumps(lengths_document(lengths=(8, 16), mechanism=mechanism_document())))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(InputError) as problem:
        read(Lengths, document, "runs/a/analysis/lengths.json")
    assert str(problem.value).startswith(f"runs/a/analysis/lengths.json: {message}")


def test_every_field_says_what_it_means() -> None:
    rows = list(described(LengthStudy))
    assert [path for path, _, _, meaning in rows if not meaning] == []
    paths = {path for path, *_ in rows}
    assert {"cells[].runs[].lengths[].negatives", "cells[].together.sets.NAME.held[]", "answer[].set"} <= paths


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({"swaps": 32, "adjacent": 64}, {16, 24, 32}),
        ({"swaps": 64, "adjacent": 64}, {16, 24, 32, 64}),
        ({"swaps": 64, "adjacent": 16}, {16}),
        ({"swaps": 64, "adjacent": 0}, set()),
        ({"swaps": 31, "adjacent": 64}, {16, 24}),
    ],
)
def test_lengths_held_are_those_up_to_the_length_held_itself(held: dict[str, int], expected: set[int]) -> None:
    rows = [length_row(length, set_name=name) for name in held for length in (16, 24, 32, 64)]
    assert lengths_of(rows, held).held_lengths == expected


def decoding(disagreements: int, real: int) -> Decoding:
    return Decoding(n=40, wrong=3, disagreements=disagreements, real_disagreements=real)


@pytest.mark.parametrize(
    ("decoded", "disagrees"),
    [
        ([None, None], False),
        ([decoding(0, 0), None], False),
        ([decoding(5, 0), decoding(1, 0)], False),
        ([decoding(5, 0), decoding(1, 1)], True),
        ([decoding(5, 2), decoding(0, 0)], True),
        ([None, decoding(3, 3)], True),
    ],
)
def test_accuracies_are_invalid_by_disagreements_that_are_no_near_ties(
    decoded: list[Decoding | None], disagrees: bool
) -> None:
    rows = [length_row(length, decoded=one) for length, one in zip((16, 32), decoded, strict=True)]
    assert lengths_of(rows).disagrees is disagrees


@pytest.mark.parametrize(("key", "empty", "shown"), [("lengths", [], "[]"), ("held", {}, "{}")])
def test_a_document_that_measured_nothing_is_refused(key: str, empty: Any, shown: str) -> None:
    document = {**lengths_document(lengths=(8, 16)), key: empty}
    with pytest.raises(InputError) as refused:
        read(Lengths, document, "lengths.json")
    assert str(refused.value) == f"lengths.json: {key} is {shown}; at least one entry needed"
