"""Damaged files are noticed; without the checksums the row counts what is not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.campaign import Attempt, BarBroken
from faults.laboratory import Answer
from faults.rows.damage import ROW, judge, means_the_same

from headway import seals, storage

COMMAND = ("evaluate", "damaged")
WHOLE = Answer(0, '{\n "accuracy": 0.5,\n "seconds": 3\n}\n', "")


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempt]:
    folder = tmp_path_factory.mktemp("damage")
    with ROW.attempts(0, folder) as found:
        yield found


def outcomes(attempt: Attempt, numbers: range) -> list[str]:
    found = []
    for number in numbers:
        try:
            found.append(attempt(number))
        except BarBroken as broken:
            found.append(f"FAILED {broken}")
    return found


def test_damaged_files_are_noticed(attempt: Attempt) -> None:
    found = outcomes(attempt, range(24))
    assert not [one for one in found if one.startswith("FAILED")]
    assert len({one.partition(": ")[2] for one in found}) >= 3


def test_damage_that_is_read_without_checksums_is_counted(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(content: Any, *_: object) -> Any:
        return (
            {key: value for key, value in content.items() if key != seals.KEY} if isinstance(content, dict) else content
        )

    monkeypatch.setattr(storage, "unsealed", without)
    monkeypatch.setattr(storage, "unsealed_line", without)
    assert [one for one in outcomes(attempt, range(40)) if one.startswith("FAILED")]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer(0, WHOLE.out.replace("0.5", "0.7"), ""), "another result without a word"),
        (Answer(None, "", "", KeyError("n")), "KeyError"),
        (Answer(2, "", "headway: a\n  more\n"), "not one line for each thing"),
        (Answer(2, WHOLE.out, "headway: damaged\n"), "no clear line"),
    ],
)
def test_a_wrong_answer_breaks_the_bar(answer: Answer, fault: str) -> None:
    with pytest.raises(BarBroken, match=fault):
        judge(COMMAND, WHOLE, answer, same=False)


def test_a_damage_is_noticed_or_harmless() -> None:
    other = Answer(0, WHOLE.out.replace("0.5", "0.7"), "headway: warning: step-000004 is damaged: x\n")
    assert judge(COMMAND, WHOLE, other, same=False) == "noticed, the checkpoint before it is used"
    slower = Answer(0, WHOLE.out.replace("3", "4"), "")
    assert judge(COMMAND, WHOLE, slower, same=False) == "harmless: what is printed is the same"
    with pytest.raises(BarBroken, match="verify noticed nothing"):
        judge(("verify", "damaged"), WHOLE, WHOLE, same=False)


@pytest.mark.parametrize(
    ("name", "after", "same"),
    [("a.json", b'{ "a":1}', True), ("a.json", b'{"a": 2}', False), ("a.bin", b'{ "a": 1}', False)],
)
def test_equal_json_says_the_same(name: str, after: bytes, same: bool) -> None:
    assert means_the_same(name, b'{"a": 1}', after) is same


def flip(content: bytes) -> bytes:
    return content.replace(b"0.25", b"0.35")


def drop(content: bytes) -> bytes:
    return b"".join(content.splitlines(keepends=True)[1:])


@pytest.mark.parametrize("change", [flip, drop])
def test_a_changed_or_missing_line_of_a_log_is_noticed(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "log.jsonl"
    for step in range(3):
        storage.append_lines(path, [{"step": step, "loss": 0.25}])
    assert [record["step"] for record in storage.read_lines(path)] == [0, 1, 2]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(storage.InputError, match=r"log.jsonl: line 1 is damaged or was edited"):
        list(storage.read_lines(path))


def test_a_cut_off_last_line_is_left_out_and_removed_when_the_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    storage.append_lines(path, [{"step": 0}, {"step": 1}])
    path.write_bytes(path.read_bytes()[:-9])
    assert [record["step"] for record in storage.read_lines(path)] == [0]
    storage.end_last_line(path)
    storage.append_lines(path, [{"step": 1}])
    assert [record["step"] for record in storage.read_lines(path)] == [0, 1]


def test_logs_of_earlier_versions_are_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 0}\n{"step": 1, "lo\n{"step": 1}\n')
    storage.append_lines(path, [{"step": 2}])
    assert [record["step"] for record in storage.read_lines(path)] == [0, 1, 2]
    path.write_text(path.read_text() + '{"step": 3}\n')
    with pytest.raises(storage.InputError, match="line 5 is damaged or was edited: it has no checksum"):
        list(storage.read_lines(path))


def test_an_edited_document_is_refused_until_its_checksum_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    storage.write_json(path, {"rate": (1, 2.5), "by": {3: "x"}})
    assert storage.read_json(path) == {"rate": [1, 2.5], "by": {"3": "x"}}
    edited = path.read_text().replace("2.5", "2.6")
    path.write_text(edited)
    with pytest.raises(storage.InputError, match='to accept an edit, remove the entry "sha256" from it'):
        storage.read_json(path)
    path.write_text(edited.rpartition(",")[0] + "}")
    assert storage.read_json(path)["rate"] == [1, 2.6]
