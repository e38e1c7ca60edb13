"""The row of signals: a short version, and a violation that it counts."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from faults.campaign import run
from faults.rows.signals import COMMANDS, ROW, Signals
from faults.victims import VICTIMS, Stage

ENDED = "the command had ended"
SIGTERM_OF_TRAIN = 84
"""A case that sends SIGTERM to a training, after a sixth of its time."""


def test_a_signal_ends_a_command_with_its_exit_code(stage: Stage, tmp_path: Path) -> None:
    signals = Signals(stage, 0, tmp_path)
    for number in (0, len(COMMANDS), 2):  # train, train in a terminal, heads
        kind, _, outcome = signals.attempt(number).partition(": ")
        assert outcome in (ENDED, f"exit {130 if 'INT' in kind else 143}, and the next one leaves what it should")
        assert kind.endswith(" in a terminal") == (number == len(COMMANDS))


def test_a_process_that_no_signal_reaches_is_counted(stage: Stage, tmp_path: Path) -> None:
    signals = Signals(stage.broken_by("tests.faults.planted:deaf_processes"), 0, tmp_path)
    found = run(replace(ROW, attempts=lambda seed, folder: nullcontext(signals.attempt)), 1, 0, only=SIGTERM_OF_TRAIN)
    assert found.outcomes == {"FAILED": 1}
    assert "exit -15" in found.failures[0].seen


def test_work_that_is_said_to_be_done_and_is_not_is_counted(stage: Stage, tmp_path: Path) -> None:
    signals = Signals(stage.broken_by("tests.faults.planted:done_too_early"), 0, tmp_path)
    found = run(replace(ROW, attempts=lambda seed, folder: nullcontext(signals.attempt)), 1, 0, only=SIGTERM_OF_TRAIN)
    assert found.outcomes == {"FAILED": 1}
    assert "; but " in found.failures[0].seen


def test_a_bar_that_was_interrupted_as_it_began_leaves_the_cursor_visible(stage: Stage, tmp_path: Path) -> None:
    broken, train = stage.broken_by("tests.faults.planted:interrupted_bar"), VICTIMS["train"]
    ended = broken.do(train, stage.place(train, tmp_path / "case"), terminal=True)
    assert ended.code == 130
    assert ended.restored
