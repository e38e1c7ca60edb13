"""Files of other programs are read within limits; beyond them one line says what is wrong."""

import json
import random
import zipfile
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import bounded_files
from headway.bounded_files import DEEPEST, LONGEST_KEY, check_unpacked, lines_of, parse_json, read_bytes
from headway.diagnosis import published_results
from headway.diagnosis.published_results import read_results
from headway.errors import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(VALUES)
def test_json_within_the_limits_is_what_the_standard_library_reads(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "decimals", "message"),
    [
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), False, "more than 64 levels"),
        ("[" * 100_000, False, "more than 64 levels"),
        (json.dumps({"k" * (LONGEST_KEY + 1): 1}), False, "a key of 1,001 characters"),
        ("1e999999999", True, "the number 1e999999999 is beyond 1e300"),
        ("1e-999999999", True, "the number 1e-999999999 is beyond 1e300"),
        ("9" * 5_000, False, "Exceeds the limit"),
    ],
)
def test_json_beyond_a_limit_is_refused(text: str, decimals: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text, decimals=decimals)


def test_the_deepest_json_is_read_and_decimals_keep_their_digits() -> None:
    assert parse_json("[" * DEEPEST + "1" + "]" * DEEPEST)
    assert parse_json("[0.10, 1e300]", decimals=True) == [Decimal("0.10"), Decimal("1e300")]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_files, "LARGEST", 2_000_000)
    (tmp_path / "large.json").write_bytes(b" " * 3_000_000)
    with pytest.raises(InputError, match=r"large\.json has 3.0 MB; at most 2 MB are read"):
        read_bytes(tmp_path / "large.json")


@pytest.mark.parametrize(
    ("plain", "packed", "refused"),
    [
        pytest.param(0, 990_000, False, id="below a megabyte, packed to a thousandth"),
        pytest.param(0, 1_010_000, True, id="above a megabyte, packed to a thousandth"),
        pytest.param(3_000_000, 0, False, id="three megabytes as they are"),
        pytest.param(300_000, 1_100_000, False, id="four and two thirds times its size"),
        pytest.param(300_000, 1_300_000, True, id="five and a third times its size"),
        pytest.param(100_000, 800_000, False, id="nine times its size, below a megabyte"),
    ],
)
def test_an_archive_may_unpack_to_a_megabyte_or_to_five_times_its_size(
    tmp_path: Path, plain: int, packed: int, refused: bool
) -> None:
    path = tmp_path / "weights.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("plain", random.Random(0).randbytes(plain))
        archive.writestr("packed", bytes(packed), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < plain + 3_000
    with pytest.raises(InputError, match="more than 5 times its size") if refused else nullcontext():
        check_unpacked(path)


def test_only_line_feeds_end_a_line() -> None:
    assert lines_of('{"a": "\u2028"}\r\n\n{"b": "\x85"}\n') == ['{"a": "\u2028"}', "", '{"b": "\x85"}']
    assert lines_of("") == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"32": 1e-999999999, "64": 0.5}', "is beyond 1e300"),
        ("a.json", json.dumps({"9" * 5_000: 0.5}), "a number of 5,000 digits"),
        ("a.json", '{"a":' * 900 + "1" + "}" * 900, "more than 64 levels"),
        ("a.csv", f"length,accuracy\n32,{'x' * 200_000}\n", "field larger than field limit"),
        ("a.txt", f"accuracy at length {'9' * 5_000}: 0.5\n", "a number of 5,000 digits"),
    ],
)
def test_results_beyond_a_limit_are_refused_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_results(tmp_path / name, (32, 64))
    assert len(str(caught.value)) < 300


def test_results_with_more_numbers_than_a_table_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_results, "MOST_NUMBERS", 3)
    (tmp_path / "a.json").write_text('{"accuracy": {"32": 0.5, "64": 0.25, "128": 0.125}}')
    assert len(read_results(tmp_path / "a.json").series[0].points) == 3
    (tmp_path / "a.json").write_text('{"accuracy": {"32": 0.5, "64": 0.25, "128": 0.125, "256": 0.1}}')
    with pytest.raises(InputError, match=r"--results a\.json: more than 3 numbers; give a table of accuracies"):
        read_results(tmp_path / "a.json")
