"""Failed checks of instruments are told in words."""

import doctest
from dataclasses import replace
from typing import Any

import pytest

from headway.results import checks
from headway.results.checks import Checks

PASSED = Checks(identity=1e-6, decoded=4_000, disagreements=3, real_disagreements=0, weights_off_one=1e-7)


def test_nothing_failed() -> None:
    assert PASSED.doubts() == []
    assert doctest.testmod(checks).failed == 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"disagreements": 198, "real_disagreements": 198}, "198 of 4,000 ablated answers decoded with a hook differ"),
        ({"disagreements": 198}, "too many to be near-ties"),
        ({"real_disagreements": 1}, "1 of them by more than a near-tie"),
        ({"identity": 0.5}, "with every head kept, the sweep differs from the model by 0.5"),
        ({"identity": float("nan")}, "differs from the model by nan"),
        ({"weights_off_one": 0.25}, "sum to 1 only within 0.25"),
        ({"misplaced": ("hook enc0.self.h1",)}, "instruments affect another head than they name: hook enc0.self.h1"),
    ],
)
def test_each_failure_is_told(changed: dict[str, Any], words: str) -> None:
    (told,) = replace(PASSED, **changed).doubts()
    assert words in told
