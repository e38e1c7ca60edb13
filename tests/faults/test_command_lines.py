"""Wrong command lines are refused in one line; a traceback, a long line and an accepted error are counted."""

from pathlib import Path

import pytest
from faults import laboratory, wrong_lines
from faults.campaign import run
from faults.laboratory import Answer
from faults.rows import command_lines
from faults.rows.command_lines import ROW, WorkBegan, fault_of, stopped_at_work
from faults.wrong_lines import Line

from headway.cli import main, options

LINE = Line(("train", "x"), "a kind", names=("train.lr",))


def test_wrong_lines_are_refused_in_one_line() -> None:
    found = run(ROW, 80, seed=0)
    assert found.failures == ()
    assert sum(count for outcome, count in found.outcomes.items() if outcome.startswith("refused: ")) > 40


def test_a_long_message_and_one_with_control_characters_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "one_line", str)
    monkeypatch.setattr(options, "escaped", str)
    seen = " ".join(failure.seen for failure in run(ROW, 60, seed=0).failures)
    assert "characters: headway: " in seen
    assert "unprintable: " in seen


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer(2, "", "headway: train.lr = x; a number needed\n"), None),
        (Answer(None, "", "", ValueError("oops")), "raised ValueError: oops"),
        (Answer(None, "", "", WorkBegan("os.mkdir new")), "accepted: os.mkdir new"),
        (Answer(0, "", ""), "exit code 0"),
        (Answer(2, "half", "headway: train.lr = x; a number needed\n"), "on stdout: half"),
        (Answer(2, "", "headway: a\nheadway: b\n"), "2 lines"),
        (Answer(2, "", f"headway: train.lr = {'x' * 300}; a number needed\n"), "characters: headway: train.lr"),
        (Answer(2, "", "headway: train.lr = \x1b; a number needed\n"), "unprintable"),
        (Answer(2, "", "headway: that is wrong; a number needed\n"), "does not name ['train.lr']"),
        (Answer(2, "", "headway: train.lr\n"), "does not say what is allowed"),
    ],
)
def test_every_wrong_answer_is_a_fault(answer: Answer, fault: str | None) -> None:
    found = fault_of(LINE, answer)
    assert found is None if fault is None else fault in str(found)


def test_the_watch_stops_a_line_before_it_writes(tmp_path: Path) -> None:
    with stopped_at_work(), pytest.raises(WorkBegan):
        (tmp_path / "new").mkdir()
    with stopped_at_work(), pytest.raises(WorkBegan):
        (tmp_path / "a-file").write_text("text")
    assert not [*tmp_path.iterdir()]


def test_the_grammar_covers_every_command_and_setting() -> None:
    bases = {name: wrong_lines.base_of(command) for name, command in wrong_lines.parser().commands.items()}
    assert bases["train"] == ["train", "tiny.toml"]
    assert bases["data"] == ["data", "addition", "--out", "new"]
    paths = {setting.path for setting in wrong_lines.settings()}
    assert {"train.lr", "model.d_model", "task.digits", "model.encoding.table_size", "seed"} <= paths
    assert command_lines.ROW.count == 5_000
    assert laboratory.LINES
