"""Properties of the numerics hold on drawn cases; a wrong kernel, interval and bound are counted."""

import random
from typing import Any

import numpy as np
import pytest
from faults.campaign import BarBroken, run
from faults.rows import numerics
from faults.rows.numerics import ROW

from headway import statistics
from headway.proofs import rounding


def test_the_properties_hold() -> None:
    found = run(ROW, 90, seed=0)
    assert found.failures == ()
    assert len(found.outcomes) == len(numerics.PROPERTIES)


def first_failure(check: Any) -> bool:
    for number in range(40):
        try:
            check(random.Random(number))
        except BarBroken:
            return True
    return False


def test_planted_errors_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    attend = numerics.attend_fast
    monkeypatch.setattr(numerics, "attend_fast", lambda *given: attend(*given) * 1.01)
    assert first_failure(numerics.attention_is_its_definition)
    wilson = statistics.wilson_interval
    monkeypatch.setattr(statistics, "wilson_interval", lambda k, n, confidence=0.95: wilson(k, n, 0.9))
    assert first_failure(numerics.proportions_agree_with_scipy)
    monkeypatch.setattr(statistics, "holm", lambda p: np.minimum(1, len(p) * np.asarray(p)))
    assert first_failure(numerics.families_are_monotone)
    monkeypatch.setattr(rounding, "UNIT", rounding.UNIT / 1_000)
    assert first_failure(numerics.rounding_bounds_hold)
