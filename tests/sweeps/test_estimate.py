"""The estimated time of a sweep, from hand-counted parts."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headway.cli.dry_run import _seconds_left
from headway.sweeps.driver import Stage
from headway.sweeps.estimate import Pace, _evaluated, _pace
from headway.sweeps.plan import Rung, Trial
from tests.tiny import ADDITION, config


def trial(**data: int) -> Trial:
    """100 steps with a validation before the first and after 30, 60 and 90."""
    settings = config(ADDITION, data=data, train={"steps": 100, "validate_every": 30})
    return Trial(name="trial", config=settings, settings={})


def test_a_trial_takes_its_start_its_steps_and_its_validations() -> None:
    pace = Pace(start=2.0, step=0.5, validation=3.0)
    assert pace.seconds(trial(), evaluated=0.0) == 2 + 100 * 0.5 + 4 * 3
    assert pace.seconds(trial(), evaluated=2.5) == 2 + 100 * 0.5 + (4 + 2.5) * 3


def test_the_last_evaluation_is_counted_in_validations() -> None:
    one = trial(train=40, validation=8, test=20)
    assert [_evaluated(one, split) for split in (None, "train", "validation", "test")] == [0, 5, 1, 2.5]


def test_a_pace_is_read_from_the_moments_of_a_short_training() -> None:
    """A start of 4 s, steps of 1 s, and validations of 2 s: one before the first step, one at the end."""
    moments = [("validation", 6.0), ("step", 9.0), ("step", 10.0), ("step", 11.0), ("validation", 13.0)]
    assert _pace(0.0, 13.0, moments) == Pace(start=4.0, step=1.0, validation=2.0)
    assert _pace(0.0, 9.0, moments[:2]) == Pace(start=6.0, step=3.0, validation=0.0)


@pytest.mark.parametrize(("until", "left", "steps"), [(2, 18, 84), (2, 5, 58), (6, 4, 40), (18, 1, 12)])
def test_a_search_takes_what_is_left_of_its_rung_and_all_later_rungs(until: int, left: int, steps: int) -> None:
    """Nine settings of two seeds, a second for each step: 18 trials make 2 steps, 6 make 4 more, and 2 make 12 more."""
    every = [replace(trial(), name=f"trial-{number}") for number in range(18)]
    rungs = (Rung(9, 2), Rung(3, 6), Rung(1, 18))
    plan: Any = SimpleNamespace(seeds=[0, 1], search=SimpleNamespace(rungs=rungs))
    stage = Stage(every, every[:left], until)
    assert _seconds_left(plan, stage, {one.name: 18.0 for one in every}) == pytest.approx(steps)
