"""Predictions from any program: each fault of data, scoring and answers is diagnosed, and a right file has none."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.config import Choice
from headway.diagnosis.foreign import read_data
from headway.diagnosis.predicted import read_predictions
from headway.diagnosis.predictions import examine_predictions
from headway.diagnosis.rows import read_rows, split_named
from headway.errors import InputError
from headway.results.doctor import Diagnosis
from headway.tasks import make_task
from tests.diagnosis.files import Row, predict, rewrite, rows_of, write_data

TASKS = ("addition", "addition-text", "sortedness")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {task: write_data(tmp_path_factory.mktemp(task), task) for task in TASKS}


def right(row: Row) -> Any:
    return row["is_sorted"] if "is_sorted" in row else row["target"]


def diagnose(tmp_path: Path, directory: Path, answer: Callable[[Row], Any], name: str = "test.json") -> Diagnosis:
    return examine_predictions(predict(tmp_path / "p.jsonl", rows_of(directory, name), answer), directory)


def first_error(diagnosis: Diagnosis) -> str:
    return diagnosis.errors[0].check if diagnosis.errors else "none"


@pytest.mark.parametrize("task", TASKS)
def test_right_predictions_have_no_error_in_any_form(tmp_path: Path, data: dict[str, Path], task: str) -> None:
    found = diagnose(tmp_path, data[task], right)
    assert found.errors == []
    assert {"split-overlap", "oracle-contradicts-targets", "constant-answer"} <= {one.check for one in found.findings}


def drop_carries(row: Row) -> list[int]:
    return [0, *((a + b) % 10 for a, b in zip(row["input"][:3], row["input"][4:], strict=True))]


SUMS: dict[str, Callable[[Row], Any]] = {
    "first-digit-never-predicted": lambda row: [0, *row["target"][1:]],
    "zeros-not-scored": lambda row: [0, *(token or 7 for token in row["target"][1:])],
    "trivial-rule": drop_carries,
    "operand-not-read": lambda row: [0, *row["input"][:3]],
    "answers-reversed": lambda row: row["target"][::-1],
    "never-ends": lambda row: [*row["target"], 4, 4, 4],
    "never-emits": lambda row: [8 if token == 5 else token for token in row["target"]],
}


@pytest.mark.parametrize("check", SUMS)
def test_each_fault_of_sums_is_the_first_error(tmp_path: Path, data: dict[str, Path], check: str) -> None:
    assert first_error(diagnose(tmp_path, data["addition"], SUMS[check])) == check


def test_the_evidence_counts_the_whole_file(tmp_path: Path, data: dict[str, Path]) -> None:
    above = sum(row["target"][0] == 1 for row in rows_of(data["addition"]))
    found = diagnose(tmp_path, data["addition"], SUMS["first-digit-never-predicted"]).errors[0]
    assert f"All 400 answers begin with 0; {above} ({above / 4:.1f} %) should not" in found.evidence
    assert found.numbers["accuracy"] == pytest.approx(1 - above / 400)
    most = re.search(r"can be at most ([0-9.]+) %", found.evidence)
    assert most is not None and float(most[1]) == pytest.approx(100 * (1 - above / 400), abs=0.05)


def sums_to(totals: list[int]) -> list[Row]:
    """Sums of three digits with these totals, no two the same."""
    rows = []
    for place, total in enumerate(totals):
        second = total // 2 + place % 3
        digits = [[int(digit) for digit in f"{number:03d}"] for number in (total - second, second)]
        rows.append({"input": [*digits[0], 10, *digits[1]], "target": [int(digit) for digit in f"{total:04d}"]})
    return rows


PALINDROMES = [110, 220, 330, 440, 550, 660, 770, 880, 990, 1001, 1111, 1221, 1331, 1441, 1551, 1661, 1771, 1881, 1991]
PALINDROMES += [1221]
OTHERS = [*range(1020, 1040)]


@pytest.mark.parametrize(
    ("palindromes", "turned", "right", "reversed_", "named"),
    [
        (20, 0, 0, 20, False),
        (0, 20, 0, 20, True),
        (0, 10, 0, 10, True),
        (0, 9, 0, 9, False),
        (10, 10, 0, 20, True),
        (11, 9, 0, 20, False),
        (0, 10, 10, 10, False),
    ],
)
def test_answers_count_as_reversed_where_turning_them_makes_half_of_all_right(
    tmp_path: Path, data: dict[str, Path], palindromes: int, turned: int, right: int, reversed_: int, named: bool
) -> None:
    """Of 20 sums; a palindrome is its own reverse, so its right answer is no sign of anything."""
    rows = sums_to([*PALINDROMES[:palindromes], *OTHERS[: 20 - palindromes]])
    answers = [row["target"] for row in rows[:palindromes]]
    answers += [row["target"][::-1] for row in rows[palindromes : palindromes + turned]]
    answers += [row["target"] for row in rows[palindromes + turned :][:right]]
    answers += [[7, 7, 7, 7]] * (20 - len(answers))
    directory = shutil.copytree(data["addition"], tmp_path / "data")
    rewrite(directory, "test.json", rows)
    said = iter(answers)
    found = examine_predictions(predict(tmp_path / "p.jsonl", rows, lambda row: next(said)), directory)
    errors = {one.check: one for one in found.findings if one.level == "error"}
    assert ("answers-reversed" in errors) == named
    if named:
        numbers = errors["answers-reversed"].numbers
        assert (numbers["reversed"], numbers["n"]) == (reversed_, 20)


def test_a_constant_class_has_the_share_of_that_class(tmp_path: Path, data: dict[str, Path]) -> None:
    found = diagnose(tmp_path, data["sortedness"], lambda row: 0, "test_20.json").errors[0]
    assert (found.check, found.numbers["n"]) == ("constant-answer", 500)
    assert found.numbers["accuracy"] == found.numbers["target_share"] == 0.5


def test_another_programs_end_and_padding_are_cut(tmp_path: Path, data: dict[str, Path]) -> None:
    padded = diagnose(tmp_path, data["addition"], lambda row: [*row["target"], 12, 13, 13])
    text = diagnose(tmp_path, data["addition-text"], lambda row: row["target"] + "</s>")
    assert padded.errors == text.errors == []


def test_an_example_may_be_the_whole_record_or_written_as_a_sum(tmp_path: Path, data: dict[str, Path]) -> None:
    rows = rows_of(data["addition"])[:30]
    sums = ["{}{}{} + {}{}{}".format(*row["input"][:3], *row["input"][4:]) for row in rows]
    texts = ["".join(map(str, row["target"])) for row in rows]
    whole = [{"example": row, "prediction": row["target"]} for row in rows]
    written = [{"example": a, "target": b, "prediction": b} for a, b in zip(sums, texts, strict=True)]
    found = read_data(data["addition"])
    for lines in (whole, written):
        (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
        given = read_predictions(tmp_path / "p.jsonl", found)
        assert given.examples.source.tolist() == [row["input"] for row in rows]
        assert given.answers.tolist() == given.examples.target.tolist()


@pytest.mark.parametrize("as_number", [False, True])
def test_texts_without_leading_zeros_are_the_same_answers(
    tmp_path: Path, data: dict[str, Path], as_number: bool
) -> None:
    def lines(answer: Callable[[int], int]) -> Path:
        written = []
        for row in rows_of(data["addition"]):
            digits = "".join(map(str, row["input"]))  # the + is 10
            total = int(digits[:3]) + int(digits[5:])
            said = [total, answer(total)] if as_number else [str(total), str(answer(total))]
            written.append({"input": f"{digits[:3]} + {digits[5:]} = ", "target": said[0], "prediction": said[1]})
        (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, written)))
        return tmp_path / "p.jsonl"

    assert examine_predictions(lines(lambda total: total), data["addition"]).errors == []
    assert first_error(examine_predictions(lines(lambda total: total % 1000), data["addition"])) == (
        "first-digit-never-predicted"
    )


def test_operands_of_unequal_length_are_read_with_their_zeros(tmp_path: Path) -> None:
    rewrite(tmp_path, "test.json", [{"input": [0, 7, 10, 1, 5], "target": [0, 2, 2]}])
    (tmp_path / "p.jsonl").write_text('{"input": "7 + 15 = ", "target": "22", "prediction": "22"}')
    given = read_predictions(tmp_path / "p.jsonl", read_data(tmp_path))
    assert given.examples.source.tolist() == [[0, 7, 10, 1, 5]]
    assert given.answers[0, :3].tolist() == given.examples.target[0, :3].tolist() == [0, 2, 2]


def test_guesses_about_unbalanced_classes_are_not_exchanged_classes(tmp_path: Path, data: dict[str, Path]) -> None:
    """Four in five are sorted, and half of all answers are wrong; exchanged answers are all wrong."""
    rows = rows_of(data["sortedness"])
    by_class = [[row for row in rows if row["is_sorted"] == label] for label in (0, 1)]
    rewrite(tmp_path, "test.json", by_class[0][:40] + by_class[1][:160])
    number = {json.dumps(row): index for index, row in enumerate(rows_of(tmp_path))}
    guessed = diagnose(tmp_path, tmp_path, lambda row: number[json.dumps(row)] % 2)
    assert "answers-permuted" not in {one.check for one in guessed.findings}
    assert first_error(diagnose(tmp_path, tmp_path, lambda row: 1 - row["is_sorted"])) == "answers-permuted"


@pytest.mark.parametrize(
    "words", [("unsorted", "sorted"), ("Not sorted", "Sorted"), ("false", "true"), ("no", "yes"), ("0.0", "1.0")]
)
def test_a_class_may_be_written_as_a_word(tmp_path: Path, data: dict[str, Path], words: tuple[str, str]) -> None:
    found = diagnose(tmp_path, data["sortedness"], lambda row: words[row["is_sorted"]], "test_20.json")
    assert found.errors == []


def test_a_split_is_named_by_whole_words() -> None:
    named = {"my_train_data.json": "train", "dev.json": "validation", "extrap/tests_32.json": "test"}
    others = dict.fromkeys(("transcripts.json", "devices.json", "testimony.json"))
    assert {name: split_named(name) for name in (*named, *others)} == {**named, **others}


@pytest.mark.parametrize(
    ("name", "split"),
    [("v2/test_len_20.json", "test_20"), ("3 runs/train_2.json", "train_2"), ("seed1/test.json", "test_1")],
)
def test_the_length_of_a_file_is_the_last_number_of_its_name(tmp_path: Path, name: str, split: str) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text(json.dumps([{"sequence": [1, 2, 3], "is_sorted": True}]))
    assert [part.name for part in read_rows(path, tmp_path)] == [split]


@pytest.mark.parametrize("task", ["addition", "addition-text"])
def test_empty_predictions_are_said_to_be_empty(tmp_path: Path, data: dict[str, Path], task: str) -> None:
    found = diagnose(tmp_path, data[task], lambda row: [] if task == "addition" else "")
    assert first_error(found) == "predictions-empty"
    assert "400 of 400 predictions are empty" in found.errors[0].evidence
    first = rows_of(data[task])[0]
    some = diagnose(tmp_path, data[task], lambda row: "" if row == first else row["target"])
    assert [one.numbers for one in some.warnings if one.check == "predictions-empty"] == [{"empty": 1, "n": 400}]


def test_answers_of_the_next_line_are_recognised(tmp_path: Path, data: dict[str, Path]) -> None:
    rows = rows_of(data["addition"])
    following = {json.dumps(row): after["target"] for row, after in zip(rows, rows[1:] + rows[:1], strict=True)}
    found = diagnose(tmp_path, data["addition"], lambda row: following[json.dumps(row)]).errors[0]
    assert found.check == "predictions-shifted"
    assert "of the next line" in found.evidence


def changed(data: Path, directory: Path, name: str, change: Callable[[list[Row]], list[Row]]) -> Path:
    """A copy of the data with one file changed."""
    directory.mkdir()
    for path in data.glob("*.json"):
        (directory / path.name).write_text(path.read_text())
    rewrite(directory, name, change(rows_of(directory, name)))
    return directory


def test_an_overlap_of_the_files_is_reported_and_not_refused(tmp_path: Path, data: dict[str, Path]) -> None:
    tested = rows_of(data["addition"])[:25]
    shared = changed(data["addition"], tmp_path / "shared", "train.json", lambda rows: rows + tested)
    found = diagnose(tmp_path, shared, right).errors[0]
    assert found.check == "split-overlap"
    assert "25 of 400" in found.evidence


def test_targets_that_the_oracle_contradicts_are_reported_and_not_refused(
    tmp_path: Path, data: dict[str, Path]
) -> None:
    def lie(rows: list[Row]) -> list[Row]:
        return [{**row, "target": [0, 1, 2, 3]} if index < 30 else row for index, row in enumerate(rows)]

    found = diagnose(tmp_path, changed(data["addition"], tmp_path / "lies", "test.json", lie), right).errors[0]
    assert found.check == "oracle-contradicts-targets"
    assert found.numbers["wrong"] == 30


def test_sums_written_with_the_units_first_are_read_as_such(tmp_path: Path, data: dict[str, Path]) -> None:
    directory = tmp_path / "reversed"
    directory.mkdir()
    rewrite(directory, "test.json", [{**row, "target": row["target"][::-1]} for row in rows_of(data["addition"])])
    assert read_data(directory).task.options.order == "least-significant-first"
    assert diagnose(tmp_path, directory, right).errors == []


@pytest.mark.parametrize("operand_order", ["most-significant-first", "least-significant-first"])
def test_the_order_of_the_operands_of_a_text_is_found(tmp_path: Path, operand_order: str) -> None:
    options = {"order": "least-significant-first", "operand_order": operand_order}
    task = make_task(Choice(name="addition-text", options=options))
    drawn = task.draw(np.random.default_rng(1), 200)
    rows = [task.to_record(s, t) for s, t in zip(drawn.source, drawn.target, strict=True)]
    rewrite(tmp_path, "test.json", rows)
    found = read_data(tmp_path).task.options
    assert (found.order, found.operand_order) == (options["order"], operand_order)
    assert diagnose(tmp_path, tmp_path, right).errors == []


def test_examples_that_are_nowhere_in_the_data_are_counted(tmp_path: Path, data: dict[str, Path]) -> None:
    rows = rows_of(data["addition"])[:50]
    rows[3] = {"input": [1, 0, 0, 10, 1, 0, 0], "target": [0, 2, 0, 0]}
    found = examine_predictions(predict(tmp_path / "p.jsonl", rows, right), data["addition"])
    assert first_error(found) == "predictions-not-in-data"
    assert "1 of 50 predictions" in found.errors[0].evidence
    assert "1 0 0 + 1 0 0" in found.errors[0].evidence
    assert any("49 of the 400 examples of test" in one.evidence for one in found.warnings)


def test_predictions_of_training_examples_are_named(tmp_path: Path, data: dict[str, Path]) -> None:
    found = diagnose(tmp_path, data["addition"], right, "train.json")
    assert first_error(found) == "predictions-of-training-examples"
    assert "300 of 300" in found.errors[0].evidence


def test_targets_beside_the_predictions_must_be_the_datas(tmp_path: Path, data: dict[str, Path]) -> None:
    rows = [{**row, "is_sorted": 1} for row in rows_of(data["sortedness"])]
    found = examine_predictions(predict(tmp_path / "p.jsonl", rows, right), data["sortedness"])
    assert first_error(found) == "targets-differ-from-data"
    assert found.errors[0].numbers == {"different": 200, "n": 400}


@pytest.mark.parametrize(
    ("task", "line", "message"),
    [
        ("addition", "nonsense", "p.jsonl line 2 cannot be read as JSON"),
        ("addition", "[1]", r"p.jsonl line 2: needs an object, got \[1\]"),
        ("addition", '{"target": [1], "prediction": [1]}', "line 2: key 'input' or 'sequence' or 'example' is missing"),
        (
            "addition",
            '{"input": [1, 0, 0, 10, 1, 0, 0], "target": [0, 2, 0, 0]}',
            "line 2: key 'prediction' is missing",
        ),
        ("addition", '{"input": [1, 2, 3], "target": [1], "prediction": [1]}', "10 for . in the middle, digits needed"),
        (
            "addition",
            '{"input": [1, 10, 3], "target": [1], "prediction": [1]}',
            "has 3 tokens; 7 needed for digits = 3, as in the data",
        ),
        ("addition", '{"input": [1, 0, 0, 10, 1, 0, 0], "target": [1], "prediction": {}}', "prediction is {}; a list"),
        ("addition-text", '{"input": "one + 1", "target": "2", "prediction": "2"}', "it must read like '123 . 456 = '"),
        ("sortedness", '{"sequence": "1 b", "target": 1, "prediction": 1}', "'1 b'; a list of whole numbers needed"),
        ("sortedness", '{"sequence": [1, 2], "target": 1, "prediction": 0.7}', "prediction is 0.7; 0 or 1 needed"),
        (
            "sortedness",
            '{"sequence": [1, 200], "target": 1, "prediction": 1}',
            r"holds 200; values lie in 0..99, as in the data",
        ),
    ],
)
def test_a_line_without_the_form_of_an_example_is_refused_with_its_place(
    tmp_path: Path, data: dict[str, Path], task: str, line: str, message: str
) -> None:
    path = predict(tmp_path / "p.jsonl", rows_of(data[task])[:1], right)
    path.write_text(path.read_text() + "\n" + line)
    with pytest.raises(InputError, match=message):
        read_predictions(path, read_data(data[task]))


def test_files_that_are_not_there_are_named(tmp_path: Path, data: dict[str, Path]) -> None:
    with pytest.raises(InputError, match=r"--data .*nowhere: no such directory"):
        read_data(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"holds none of train.json, val.json, test.json, test_<length>.json"):
        read_data(tmp_path)
    with pytest.raises(InputError, match=r"--predictions .*nowhere.jsonl cannot be read"):
        read_predictions(tmp_path / "nowhere.jsonl", read_data(data["addition"]))
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="no row is there; each needs an example, a target and a prediction"):
        read_predictions(tmp_path / "empty.jsonl", read_data(data["addition"]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "test.json cannot be read as JSON"),
        ("[]", r"test.json: needs a list with at least one example, got \[\]"),
        (
            '[{"input": [1, 10, 2], "target": [3]}, {"input": [1, 2, 10, 3, 4], "target": [4, 6]}]',
            "5 tokens; the first",
        ),
    ],
)
def test_data_without_the_form_of_examples_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "test.json").write_text(content)
    with pytest.raises(InputError, match=message):
        read_data(tmp_path)


def test_zeros_that_were_removed_with_the_padding_are_named(tmp_path: Path, data: dict[str, Path]) -> None:
    found = diagnose(tmp_path, data["addition"], lambda row: [token for token in row["target"] if token])
    assert first_error(found) == "zeros-not-scored"
    assert "except for its zeros" in found.errors[0].evidence


def test_answers_that_are_mostly_wrong_are_not_called_fine(tmp_path: Path, data: dict[str, Path]) -> None:
    found = diagnose(tmp_path, data["addition"], lambda row: [(token * 7 + 3) % 10 for token in row["input"][1:5]])
    assert first_error(found) == "none"
    (warned,) = [one for one in found.warnings if one.check == "not-explained"]
    assert "no known defect explains the others" in warned.evidence


def of_classes(directory: Path, name: str = "test.json") -> tuple[list[int], list[int]]:
    rows = rows_of(directory, name)
    return [row["is_sorted"] for row in rows], [len(row["sequence"]) for row in rows]


def test_answers_without_examples_are_those_of_the_file_with_their_number(
    tmp_path: Path, data: dict[str, Path]
) -> None:
    classes, lengths = of_classes(data["sortedness"])
    rows = [f"{length},{one},0" for one, length in zip(classes, lengths, strict=True)]
    (tmp_path / "p.csv").write_text("length,y_true,y_pred\n" + "\n".join(rows))
    (tmp_path / "p.json").write_text(json.dumps([0] * len(classes)))
    (tmp_path / "p.txt").write_text("0\n" * len(classes))
    np.save(tmp_path / "p.npy", np.zeros(len(classes)))
    np.savez(tmp_path / "p.npz", y_true=np.array(classes), y_pred=np.zeros(len(classes)))
    for name in ("p.csv", "p.json", "p.txt", "p.npy", "p.npz"):
        assert first_error(examine_predictions(tmp_path / name, data["sortedness"])) == "constant-answer", name


def test_targets_of_another_order_are_refused(tmp_path: Path, data: dict[str, Path]) -> None:
    classes, _ = of_classes(data["sortedness"])
    turned = classes[::-1]
    assert turned != classes
    (tmp_path / "p.json").write_text(json.dumps({"y_true": turned, "y_pred": turned}))
    with pytest.raises(InputError, match="targets differ from those of test in the same order"):
        examine_predictions(tmp_path / "p.json", data["sortedness"])


def test_start_tokens_that_are_spelled_are_no_part_of_an_answer(tmp_path: Path, data: dict[str, Path]) -> None:
    found = diagnose(tmp_path, data["addition"], lambda row: "<s> " + " ".join(map(str, row["target"])) + " </s>")
    assert found.errors == []


def csv_of(rows: list[Row], *, end: str = "\n", header: str = "example,target,prediction") -> str:
    """Right predictions as a spreadsheet writes them."""
    lines = [header] if header else []
    for row in rows:
        (first, second), target = (row["input"][:3], row["input"][4:]), "".join(map(str, row["target"]))
        lines.append(f"{''.join(map(str, first))}+{''.join(map(str, second))},{target},{target}")
    return end.join([*lines, ""])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_ends_of_any_spreadsheet_are_read(tmp_path: Path, data: dict[str, Path], end: str) -> None:
    (tmp_path / "p.csv").write_bytes(csv_of(rows_of(data["addition"]), end=end).encode())
    assert examine_predictions(tmp_path / "p.csv", data["addition"]).errors == []


@pytest.mark.parametrize(
    ("header", "encoding", "message"),
    [
        ("", "utf-8", "key 'prediction' is missing; it has"),
        ("example,prediction,prediction", "utf-8", "p.csv has two columns 'prediction'; a name of its own needed"),
        ("example,prediction, Prediction", "utf-8", "p.csv has two columns 'prediction'; a name of its own needed"),
        ("example,target,prediction", "utf-32", "p.csv is not a text file; save it as CSV or JSON"),
    ],
)
def test_a_table_that_could_be_misread_is_refused(
    tmp_path: Path, data: dict[str, Path], header: str, encoding: str, message: str
) -> None:
    (tmp_path / "p.csv").write_bytes(csv_of(rows_of(data["addition"]), header=header).encode(encoding))
    with pytest.raises(InputError, match=message):
        read_predictions(tmp_path / "p.csv", read_data(data["addition"]))


def test_a_notebook_is_refused(tmp_path: Path, data: dict[str, Path]) -> None:
    (tmp_path / "p.json").write_text('{"cells": [], "nbformat": 4}')
    with pytest.raises(InputError, match=r"p\.json is a notebook; save its table as CSV or JSON"):
        read_predictions(tmp_path / "p.json", read_data(data["addition"]))


def test_whole_numbers_that_pandas_wrote_with_a_point_are_read_and_others_refused(
    tmp_path: Path, data: dict[str, Path]
) -> None:
    def number(row: Row) -> int:
        return int("".join(map(str, row["target"])))

    rows = [
        {"example": row["input"], "target": number(row), "prediction": float(number(row))}
        for row in rows_of(data["addition"])
    ]
    (tmp_path / "p.json").write_text(json.dumps(rows))
    assert examine_predictions(tmp_path / "p.json", data["addition"]).errors == []
    for wrong in (rows[0]["target"] + 0.4, f"{rows[0]['target']}.4"):
        (tmp_path / "p.json").write_text(json.dumps([{**rows[0], "prediction": wrong}, *rows[1:]]))
        with pytest.raises(InputError, match=r"p.json\[0\]: prediction is .*\.4.*; a whole number needed"):
            read_predictions(tmp_path / "p.json", read_data(data["addition"]))
