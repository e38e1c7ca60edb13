"""Made-up results of lengths, with as little said as a test needs."""

from collections.abc import Sequence
from typing import Any

from headway.results.lengths import Checkpoint, LengthRow, Lengths, TrainingRange
from headway.results.mechanism import Check, Limits, Mechanism, Repair, Rise
from headway.results.schema import read
from headway.results.study import LengthStudy, MeasuredRun, Sentence, StudyCell
from headway.statistics import wilson_interval

N = 1_000


def length_row(length: int, accuracy: float = 1.0, set_name: str = "swaps", n: int = N, **changes: Any) -> LengthRow:
    """A set at a length; up to 16 it is trained."""
    right = round(accuracy * n)
    row: dict[str, Any] = {
        "length": length,
        "set_name": set_name,
        "trained": 8 <= length <= 16,
        "n": n,
        "wrong": n - right,
        "accuracy": right / n,
        "interval": wilson_interval(right, n),
    }
    return LengthRow(**{**row, **changes})


def lengths_of(rows: Sequence[LengthRow], held: dict[str, int] | None = None, **changes: Any) -> Lengths:
    """A run of sortedness that was trained on lengths 8 to 16."""
    held = dict.fromkeys((row.set_name for row in rows), 0) if held is None else held
    found: dict[str, Any] = {
        "task": "sortedness",
        "run": "runs/made-up",
        "seed": 0,
        "encoding": "rotary",
        "checkpoint": Checkpoint(step=80, chosen_on="validation loss at training lengths"),
        "unit": "elements",
        "training": TrainingRange(shortest=8, longest=16),
        "n": N,
        "threshold": 0.99,
        "rows": tuple(rows),
        "held": held,
        "length_held": min(held.values(), default=0),
    }
    return Lengths(**{**found, **changes})


def mechanism_of(fails_at: int | None = None, *words: str, repairs: Sequence[Repair] = ()) -> Mechanism:
    """A mechanism that names no head."""
    return Mechanism(
        set_name="swaps",
        unit="elements",
        reference=16,
        large=Limits(attention=0.1, effect=0.25),
        family=0,
        definitions={},
        lengths=(),
        heads=(),
        changes=(),
        first=None,
        fails_at=fails_at,
        check=None if fails_at is None else Check(length=fails_at, repairs=tuple(repairs)),
        words=words,
    )


def rise_of(rise: float = 0.0, low: float = 0.0, high: float = 9.0, **changes: Any) -> Rise:
    """An accuracy after a repair."""
    return Rise(n=100, wrong=0, accuracy=1.0, interval=(0.9, 1.0), rise=rise, rise_interval=(low, high), **changes)


def study_cell(name: str, *runs: MeasuredRun, **changes: Any) -> StudyCell:
    """A combination of a study, with its runs."""
    found: dict[str, Any] = {"cell": name, "arm": "arm", "settings": {}, "training": (), "together": None}
    return StudyCell(**{**found, "runs": runs, **changes})


def length_study(cells: Sequence[StudyCell], answer: Sequence[Sentence | str]) -> LengthStudy:
    """A study of lengths; a sentence of earlier versions is a text alone."""
    said = tuple(one if isinstance(one, Sentence) else read(Sentence, one, "lengths.json") for one in answer)
    return LengthStudy(experiment="sortedness", preset="quick", arms=(), n=N, cells=tuple(cells), answer=said)
