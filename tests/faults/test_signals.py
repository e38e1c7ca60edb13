"""The row of signals: a short version, and a violation that it counts."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from faults.campaign import run
from faults.rows.signals import COMMANDS, ROW, Signals
from faults.victims import Stage

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
