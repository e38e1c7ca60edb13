"""What the checks that stand in documents say: an analysis whose instruments failed must not be believed anywhere."""

from collections.abc import Mapping
from typing import Any

IDENTITY = 1e-4
"""Logits may differ so much between two ways of the same operations: far above what fp32 rounds."""
OFF_ONE = 1e-4
"""How far weights in fp32 may be from adding up to 1, over thousands of keys."""
NEAR_TIES = 1e-3
"""Share of answers that near-ties may decide otherwise: equal logits up to rounding are a thousand times rarer."""
FEW_NEAR_TIES = 3
"""As many may always be near-ties, however few answers were decoded."""


def failed_checks(document: Mapping[str, Any] | None) -> list[str]:
    """What failed of the instruments' checks in a heads.json, each in words; empty where all is well or none are there.

    >>> failed_checks({"checks": {"decoded": 800, "disagreements": 198, "real_disagreements": 150}})
    ['198 of 800 ablated answers decoded with a hook differ from the sweep, 150 of them by more than a near-tie']
    """
    checks = (document or {}).get("checks")
    if not isinstance(checks, Mapping):
        return []
    found = _disagreements(checks)
    if not _at_most(checks.get("identity"), IDENTITY):
        found.append(f"with every head kept, the sweep differs from the model by {checks['identity']!s:.8}")
    if not _at_most(checks.get("weights_off_one"), OFF_ONE):
        found.append(f"attention weights add up to 1 only within {checks['weights_off_one']!s:.8}")
    misplaced = checks.get("misplaced")
    if isinstance(misplaced, list) and misplaced:
        found.append(f"instruments reach another head than they name: {', '.join(map(str, misplaced[:4]))}")
    return found


def _disagreements(checks: Mapping[str, Any]) -> list[str]:
    """Nothing, or how many answers differ, where more do than near-ties can explain."""
    decoded, apart, real = (_count(checks, key) for key in ("decoded", "disagreements", "real_disagreements"))
    if not real and apart <= max(FEW_NEAR_TIES, NEAR_TIES * decoded):
        return []
    words = f"{max(apart, real):,} of {decoded:,} ablated answers decoded with a hook differ from the sweep"
    return [f"{words}, {real:,} of them by more than a near-tie" if real else f"{words}, too many to be near-ties"]


def _count(checks: Mapping[str, Any], key: str) -> int:
    value = checks.get(key)
    return int(value) if isinstance(value, int | float) and value == value else 0


def _at_most(value: Any, limit: float) -> bool:
    """Whether a number that is there is small enough; one that is not a number is not."""
    return value is None or (isinstance(value, int | float) and value <= limit)
