"""What the checks that stand in documents say: an analysis whose instruments failed must not be believed anywhere."""

from headway.results.heads import Checks

IDENTITY = 1e-4
"""Logits may differ so much between two ways of the same operations: far above what fp32 rounds."""
OFF_ONE = 1e-4
"""How far weights in fp32 may be from adding up to 1, over thousands of keys."""
NEAR_TIES = 1e-3
"""Share of answers that near-ties may decide otherwise: equal logits up to rounding are a thousand times rarer."""
FEW_NEAR_TIES = 3
"""As many may always be near-ties, however few answers were decoded."""


def failed_checks(checks: Checks) -> list[str]:
    """What failed of the instruments' checks in a heads.json, each in words; empty where all is well.

    >>> from dataclasses import replace
    >>> well = Checks(identity=0.0, decoded=800, disagreements=0, real_disagreements=0, weights_off_one=0.0)
    >>> failed_checks(well), failed_checks(replace(well, disagreements=198, real_disagreements=150))[0]
    ([], '198 of 800 ablated answers decoded with a hook differ from the sweep, 150 of them by more than a near-tie')
    """
    found = _disagreements(checks)
    if not checks.identity <= IDENTITY:
        found.append(f"with every head kept, the sweep differs from the model by {checks.identity!s:.8}")
    if not checks.weights_off_one <= OFF_ONE:
        found.append(f"attention weights add up to 1 only within {checks.weights_off_one!s:.8}")
    if checks.misplaced:
        found.append(f"instruments reach another head than they name: {', '.join(checks.misplaced[:4])}")
    return found


def _disagreements(checks: Checks) -> list[str]:
    """Nothing, or how many answers differ, where more do than near-ties can explain."""
    apart, real = checks.disagreements, checks.real_disagreements
    if not real and apart <= max(FEW_NEAR_TIES, NEAR_TIES * checks.decoded):
        return []
    words = f"{max(apart, real):,} of {checks.decoded:,} ablated answers decoded with a hook differ from the sweep"
    return [f"{words}, {real:,} of them by more than a near-tie" if real else f"{words}, too many to be near-ties"]
