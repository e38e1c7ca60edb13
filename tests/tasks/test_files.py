"""Files: what is written is read back, and each kind of damage gets one line with the file and the index."""

import json
import re
import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from headway.config import Choice, DataConfig
from headway.errors import InputError
from headway.tasks import TASKS, files, make_task
from headway.tasks.files import FILE_NAMES, make_splits, read_file, read_splits, write_files
from headway.tasks.splits import SPLITS, problem_keys

SIZES = DataConfig(seed=5, train=20, validation=7, test=9)
SMALL = {"addition": {"digits": 2}, "addition-text": {"test_lengths": [16]}, "sortedness": {"test_lengths": [20]}}
"""Options that keep the files small."""

GOOD = {
    "addition": {"input": [3, 7, 10, 8, 1], "target": [1, 1, 8]},
    "addition-text": {"input": "95 + 7 = ", "target": "102"},
    "sortedness": {"sequence": [2, 7, 31, 7, 90], "is_sorted": 0, "length": 5},
    "copy": {"input": [5, 3, 3, 5], "target": [5, 3, 3, 5]},
    "sorting": {"input": [5, 3, 3, 9], "target": [3, 3, 5, 9]},
    "parity": {"input": [1, 0, 1, 1], "target": 1},
}
ELEMENTS = [
    ("input", "53", "input is '53'; a list of whole numbers needed"),
    ("input", [], "input is []; a list of whole numbers needed"),
    ("input", [1, True], "input is [1, True]; a list of whole numbers needed"),
]

BAD_VALUES = {
    "copy": [
        *ELEMENTS,
        ("input", [5, 10], "input holds 10; values lie in 0..9"),
        ("target", [5, 3, 3], "target is [5, 3, 3]; [5, 3, 3, 5] is right"),
    ],
    "sorting": [
        *ELEMENTS,
        ("input", [-1], "input holds -1; values lie in 0..9"),
        ("target", [5, 3, 3, 9], "target is [5, 3, 3, 9]; [3, 3, 5, 9] is right"),
    ],
    "parity": [
        *ELEMENTS,
        ("input", [1, 2], "input holds 2; values lie in 0..1"),
        ("target", 0, "target is 0; 1 is right"),
        ("target", True, "target is True; 1 is right"),
    ],
    "addition": [
        ("input", "37+81", "input is '37+81'; a list of whole numbers needed"),
        ("input", None, "input is None; a list of whole numbers needed"),
        ("input", [3, 7, 10, 8, 1.0], "input is [3, 7, 10, 8, 1.0]; a list of whole numbers needed"),
        ("input", [3, 7, 10, 8, True], "input is [3, 7, 10, 8, True]; a list of whole numbers needed"),
        ("input", [3, 7, 10, 8, "1\n"], "input is [3, 7, 10, 8, '1\\n']; a list of whole numbers needed"),
        ("target", 118, "target is 118; a list of whole numbers needed"),
        ("target", {"1": 1}, "target is {'1': 1}; a list of whole numbers needed"),
        ("input", [3, 7, 10, 8, 10], "input holds 10; digits lie in 0..9"),
        ("input", [3, -1, 10, 8, 1], "input holds -1; digits lie in 0..9"),
        ("input", [3, 10**30, 10, 8, 1], f"input holds {10**30}; digits lie in 0..9"),
        ("target", [1, 1, 12], "target holds 12; digits lie in 0..9"),
        ("target", [1, 1, 9], "target [1, 1, 9] is not the sum, which is [1, 1, 8]"),
        ("target", [1, 8], "target [1, 8] is not the sum, which is [1, 1, 8]"),
        ("target", [], "target [] is not the sum, which is [1, 1, 8]"),
        ("input", [3, 10, 8, 1], "input has 4 tokens; 5 needed for digits = 2"),
        ("input", [3, 7, 10, 8, 1, 1], "input has 6 tokens; 5 needed for digits = 2"),
        ("input", [], "input has 0 tokens; 5 needed for digits = 2"),
        ("input", [3, 7, 1, 8, 1], "input[2] is 1; 10 (+) needed"),
        ("input", [0, 7, 10, 8, 1], "an operand begins with 0; set task.leading_zeros=true if that is meant"),
    ],
    "addition-text": [
        ("input", 957, "input is 957; a text needed"),
        ("input", [9, 5], "input is [9, 5]; a text needed"),
        ("target", 102, "target is 102; a text needed"),
        ("target", None, "target is None; a text needed"),
        ("input", "9f + 7 = ", "input is '9f + 7 = '; it must read like '123 + 456 = '"),
        ("input", "95 + 7\n= ", "input is '95 + 7\\n= '; it must read like '123 + 456 = '"),
        ("input", "", "input is ''; it must read like '123 + 456 = '"),
        ("input", "95 + = ", "input is '95 + = '; it must read like '123 + 456 = '"),
        ("input", "095 + 7 = ", "operand 095 begins with 0"),
        ("target", "103", "target '103' is not the sum, which is '102'"),
        ("target", "201", "target '201' is not the sum, which is '102'"),
        ("target", "0102", "target '0102' is not the sum, which is '102'"),
        ("target", "", "target '' is not the sum, which is '102'"),
    ],
    "sortedness": [
        ("sequence", "27", "sequence is '27'; a list of whole numbers needed"),
        ("sequence", [2, "7"], "sequence is [2, '7']; a list of whole numbers needed"),
        ("sequence", [2, 7.5], "sequence is [2, 7.5]; a list of whole numbers needed"),
        ("sequence", [2, False], "sequence is [2, False]; a list of whole numbers needed"),
        ("sequence", [], "sequence is empty"),
        ("sequence", [2, 7, 100, 7, 90], "sequence holds 100; values lie in 0..99"),
        ("sequence", [2, 7, -1, 7, 90], "sequence holds -1; values lie in 0..99"),
        ("length", 6, "length is 6, and the sequence has 5 elements"),
        ("length", "5", "length is '5', and the sequence has 5 elements"),
        ("length", 5.0, "length is 5.0, and the sequence has 5 elements"),
        ("is_sorted", 1, "is_sorted is 1; 0 is right"),
        ("is_sorted", False, "is_sorted is False; 0 is right"),
        ("is_sorted", "no", "is_sorted is 'no'; 0 is right"),
        ("is_sorted", None, "is_sorted is None; 0 is right"),
    ],
}

BAD_FILES = [
    ("[\n{", r"^val\.json cannot be read as JSON: .*line 2"),
    ("", r"^val\.json cannot be read as JSON: "),
    ("[1, 2", r"^val\.json cannot be read as JSON: "),
    ("[" * 100_000, r"^val\.json cannot be read as JSON: "),
    ("9" * 5_000, r"^val\.json cannot be read as JSON: "),
    ("{}", r"^val\.json: a list of examples needed, got dict$"),
    ('"text"', r"^val\.json: a list of examples needed, got str$"),
    ("null", r"^val\.json: a list of examples needed, got NoneType$"),
    ("[]", r"^val\.json: the list is empty$"),
]

every_task = pytest.mark.parametrize("name", TASKS.names())


@cache
def task_of(name):
    return make_task(Choice(name=name, options=SMALL.get(name, {})))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """For each task, a directory as written by `write_files`."""
    directories = {name: tmp_path_factory.mktemp(name) for name in TASKS.names()}
    for name, directory in directories.items():
        write_files(task_of(name), SIZES, directory)
    return directories


@pytest.fixture
def directory(request, originals, tmp_path):
    """A copy of the three files of the test's task, to be damaged."""
    (tmp_path / "data").mkdir()
    for file_name in FILE_NAMES.values():
        shutil.copy(originals[request.node.callspec.params["name"]] / file_name, tmp_path / "data")
    return tmp_path / "data"


def refuse(name, directory, allow_overlap=False):
    """The message with which the directory is refused; it is one line."""
    with pytest.raises(InputError) as caught:
        read_splits(task_of(name), directory, allow_overlap=allow_overlap)
    message = str(caught.value)
    assert "\n" not in message
    return message


def put_record(directory, file_name, index, record):
    records = json.loads((directory / file_name).read_text())
    records.insert(index, record)
    (directory / file_name).write_text(json.dumps(records))


def test_every_task_has_its_malformed_files_here():
    assert set(BAD_VALUES) == set(GOOD) == set(TASKS.names())


@every_task
def test_what_is_written_is_read_back(name, directory):
    task = task_of(name)
    read, shared = read_splits(task, directory, allow_overlap=False)
    assert shared == {}
    for split, made in make_splits(task, SIZES).items():
        assert [task.show(row) for row in read[split].source] == [task.show(row) for row in made.source]
        assert task.answer(read[split].source).tolist() == read[split].target.tolist()  # both as wide as needed
        assert problem_keys(task, read[split].source) == problem_keys(task, made.source)


@every_task
def test_write_files_counts_what_it_wrote(name, tmp_path):
    task = task_of(name)
    written = write_files(task, SIZES, tmp_path / "new" / "data")
    lengths = {f"test_{length}.json": 500 for length in task.test_lengths()}
    assert written == {"train.json": 20, "val.json": 7, "test.json": 9} | lengths
    assert {path.name for path in (tmp_path / "new" / "data").iterdir()} == set(written)
    for file_name, count in written.items():
        assert len(read_file(task, tmp_path / "new" / "data" / file_name)) == count


@every_task
def test_the_same_seed_writes_the_same_bytes(name, tmp_path):
    for place in ("one", "two"):
        write_files(task_of(name), SIZES, tmp_path / place)
    for file_name in FILE_NAMES.values():
        assert (tmp_path / "one" / file_name).read_bytes() == (tmp_path / "two" / file_name).read_bytes()


def test_a_recipe_with_fresh_examples_has_no_train_split():
    splits = make_splits(task_of("addition"), DataConfig(train=20, validation=7, test=9, fresh=True))
    assert {split: len(examples) for split, examples in splits.items()} == {"validation": 7, "test": 9}


@every_task
def test_a_good_record_is_accepted(name, directory):
    put_record(directory, "train.json", 2, GOOD[name])
    read, _ = read_splits(task_of(name), directory, allow_overlap=True)
    assert len(read["train"]) == 21


@pytest.mark.parametrize(
    ("name", "key", "value", "words"), [(name, *case) for name, cases in BAD_VALUES.items() for case in cases]
)
def test_a_wrong_value_is_named_with_file_and_index(name, key, value, words, directory):
    put_record(directory, "train.json", 2, GOOD[name] | {key: value})
    assert refuse(name, directory) == f"train.json[2]: {words}"


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, record in GOOD.items() for key in record])
def test_a_missing_key_is_named_with_file_and_index(name, key, directory):
    rest = {other: value for other, value in GOOD[name].items() if other != key}
    put_record(directory, "test.json", 4, rest)
    assert refuse(name, directory) == f"test.json[4]: key '{key}' is missing; it has {', '.join(map(repr, rest))}"


@every_task
def test_an_empty_object_has_no_keys(name, directory):
    put_record(directory, "val.json", 0, {})
    assert re.fullmatch(r"val\.json\[0\]: key '\w+' is missing; it has none", refuse(name, directory))


@every_task
@pytest.mark.parametrize("record", [3, None, "text\nmore", [1, 2], True])
def test_an_example_that_is_not_an_object_is_named_with_file_and_index(name, record, directory):
    put_record(directory, "val.json", 1, record)
    assert refuse(name, directory) == f"val.json[1]: an object needed, got {record!r}"


@every_task
@pytest.mark.parametrize(("content", "words"), BAD_FILES, ids=lambda value: value[:20])
def test_a_file_that_is_no_list_of_examples_is_named(name, content, words, directory):
    (directory / "val.json").write_text(content)
    assert re.search(words, refuse(name, directory))


@every_task
def test_a_file_that_is_no_text_is_named(name, directory):
    (directory / "val.json").write_bytes(b"\xff\xfe[]")
    assert refuse(name, directory).startswith("val.json cannot be read as JSON: ")


@every_task
@pytest.mark.parametrize("split", SPLITS)
def test_a_missing_file_is_named_with_those_that_are_needed(name, split, directory):
    missing = FILE_NAMES[split]
    (directory / missing).unlink()
    assert refuse(name, directory) == f"{missing}: no such file in {directory}; train.json, val.json, test.json needed"


@every_task
def test_a_missing_directory_is_named(name, tmp_path):
    assert refuse(name, tmp_path / "absent") == f"no data directory at {tmp_path / 'absent'}"


def swapped(name, record):
    """The same problem with its operands the other way round, where it has two."""
    if name == "addition":
        digits = record["input"]
        return record | {"input": [*digits[3:], digits[2], *digits[:2]]}
    if name == "addition-text":
        a, plus, b, *rest = record["input"].split(" ")
        return record | {"input": " ".join([b, plus, a, *rest])}
    return record


@every_task
def test_a_planted_leak_is_refused_with_the_count_and_the_flag(name, directory):
    leaked = json.loads((directory / "train.json").read_text())[5:7]
    for record in leaked:
        put_record(directory, "test.json", 3, swapped(name, record))
    words = "splits overlap (train and test share 2 examples); --allow-overlap accepts it"
    assert refuse(name, directory) == f"{directory}: {words}"


@every_task
def test_an_accepted_leak_is_reported_and_nothing_is_dropped(name, directory):
    leaked = json.loads((directory / "train.json").read_text())[5]
    put_record(directory, "val.json", 0, swapped(name, leaked))
    put_record(directory, "test.json", 0, swapped(name, leaked))
    read, shared = read_splits(task_of(name), directory, allow_overlap=True)
    assert shared == {"train and validation": 1, "train and test": 1, "validation and test": 1}
    assert [len(read[split]) for split in SPLITS] == [20, 8, 10]


@every_task
def test_reading_changes_nothing_in_the_directory(name, directory):
    put_record(directory, "test.json", 1, None)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    refuse(name, directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_rows_of_different_length_are_padded_on_the_right(tmp_path):
    task = task_of("sortedness")
    rows = [[3, 1, 2], [5]]
    records = [{"sequence": row, "is_sorted": int(row == sorted(row)), "length": len(row)} for row in rows]
    (tmp_path / "train.json").write_text(json.dumps(records))
    examples = read_file(task, tmp_path / "train.json")
    assert np.array_equal(examples.source, [[3, 1, 2], [5, 100, 100]])
    assert examples.target.tolist() == [0, 1]


def test_splits_are_drawn_once_for_the_same_options_and_again_for_others(monkeypatch) -> None:
    monkeypatch.setattr(files, "_remembered", {})
    data = DataConfig(train=20, validation=5, test=5)
    tasks = [make_task(Choice(name="addition", options={"digits": digits})) for digits in (2, 2, 3)]
    first, again, other = (make_splits(task, data)["train"] for task in tasks)
    assert again is first
    assert other.source.shape != first.source.shape
    assert make_splits(tasks[0], replace(data, seed=1))["train"].source.tolist() != first.source.tolist()
    for seed in range(files.MOST_REMEMBERED):
        make_splits(tasks[2], replace(data, seed=seed))
    assert len(files._remembered) == files.MOST_REMEMBERED
    drawn_again = make_splits(tasks[0], data)["train"]
    assert drawn_again is not first
    assert drawn_again.source.tolist() == first.source.tolist()


def test_large_splits_are_not_kept_in_memory(monkeypatch) -> None:
    monkeypatch.setattr(files, "_remembered", {})
    monkeypatch.setattr(files, "LARGEST_REMEMBERED", 29)
    make_splits(make_task(Choice(name="addition", options={"digits": 2})), DataConfig(train=20, validation=5, test=5))
    assert files._remembered == {}
