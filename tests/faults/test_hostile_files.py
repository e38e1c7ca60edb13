"""Hostile files are refused with bounded memory; code that runs, memory without bound and a hang are counted."""

import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from faults.campaign import Attempt, BarBroken
from faults.laboratory import Answer
from faults.rows import hostile_files
from faults.rows.hostile_files import ROW, TRAP, judge, tensor_bomb, torch_pickle_with_code, zip_bomb

from headway import conversion
from headway.bounded_files import check_unpacked, memory_of, read_bytes
from headway.cli import main
from headway.conversion import convert
from headway.diagnosis.rows import read_text
from headway.errors import InputError
from headway.runs import check_links

CHANCE = random.Random(0)


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempt]:
    with ROW.attempts(0, tmp_path_factory.mktemp("hostile")) as found:
        yield found


@pytest.mark.parametrize("number", [0, 1, 3, 4, 8, 9, 10, 11, 13])
def test_hostile_files_are_refused(attempt: Attempt, number: int) -> None:
    assert attempt(number).partition(": ")[2] in ("refused", "reported, exit code 1", "read as data")


def test_a_pickle_whose_code_runs_is_counted(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(path: Path) -> Any:
        with path.open("rb") as handle:
            return pickle.load(handle)

    monkeypatch.setattr(conversion, "_read", trusting)
    at = ("weights.pth", ("convert", "weights.pth", "--out", "new.safetensors"))
    monkeypatch.setattr(hostile_files, "PLACES", (at,))
    with pytest.raises(BarBroken, match="the pickle's code ran"):
        attempt(0)
    assert not Path(TRAP).exists()


def test_a_command_that_hangs_is_counted(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_files, "SECONDS", 1)
    monkeypatch.setattr(main, "run", lambda words: os.read(os.pipe()[0], 1))
    with pytest.raises(BarBroken, match="ended by signal 14"):
        attempt(13)


@pytest.mark.parametrize(
    ("answer", "grown", "fault"),
    [
        (Answer(2, "", "headway: refused\n"), 600_000_000, "600 MB for a file of 0.0 MB"),
        (Answer(None, "", "", MemoryError("x")), 0, "MemoryError"),
        (Answer(1, "", ""), 0, "without a word"),
        (Answer(2, "", "headway: \x1b\n"), 0, "unprintable"),
    ],
)
def test_a_wrong_answer_breaks_the_bar(answer: Answer, grown: int, fault: str) -> None:
    with pytest.raises(BarBroken, match=fault):
        judge("a file", answer, grown, 1)


def test_archives_and_tensors_that_grow_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "weights.pth"
    zip_bomb(path, CHANCE)
    with pytest.raises(InputError, match="would unpack to 1,920 MB, more than 5 times its size"):
        check_unpacked(path)
    tensor_bomb(path, CHANCE)
    with pytest.raises(InputError, match="holds tensors of 40,000 MB, more than 5 times its size"):
        convert(path)
    torch_pickle_with_code(path, CHANCE)
    with pytest.raises(InputError, match="whose code is not run"):
        convert(path)
    torch.save({"weight": torch.zeros(300_000)}, path)
    assert convert(path).parameters == 300_000
    assert not Path(TRAP).exists()


def test_pipes_and_links_out_of_a_run_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is not a file, but a pipe or a device"):
        read_bytes(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is a pipe or a device"):
        check_links(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "inside").write_text("x")
    (run / "link").symlink_to("inside")
    check_links(run)
    (run / "out").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match=r"out is a link that leads out of .*run; a copy in its place needed"):
        check_links(run)


def test_the_memory_of_json_is_estimated_from_above() -> None:
    assert memory_of("[" + "[]," * 1_000_000) > 72_000_000
    assert memory_of("[" + "0.5," * 1_000_000) >= 32_000_000
    assert memory_of("[" + "0.5," * 1_000_000, decimals=True) >= 112_000_000


def test_a_text_with_too_many_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n" * 500_001)
    with pytest.raises(InputError, match=r"a.csv has 500,001 lines; at most 500,000 are read"):
        read_text(tmp_path / "a.csv")
    (tmp_path / "a.txt").write_text("1 " * 2_000_001)
    with pytest.raises(InputError, match=r"a.txt has 2,000,001 spaces; at most 2,000,000 are read"):
        read_text(tmp_path / "a.txt")
