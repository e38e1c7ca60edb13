"""The instruments' checks of themselves, part of heads.json: an analysis that failed one is believed nowhere."""

from dataclasses import dataclass

from headway.results.analyses import Finding
from headway.results.schema import count, fact

IDENTITY = 1e-4
"""Logits may differ so much between two ways of the same operations: far above what fp32 rounds."""
OFF_ONE = 1e-4
"""How far weights in fp32 may be from adding up to 1, over thousands of keys."""
NEAR_TIES = 1e-3
"""Share of answers that near-ties may decide otherwise: equal logits up to rounding are a thousand times rarer."""
FEW_NEAR_TIES = 3
"""As many may always be near-ties, however few answers were decoded."""


@dataclass(frozen=True, kw_only=True)
class Checks(Finding):
    """The instruments checked by greedy decoding and by an independent route to every head."""

    identity: float = fact(
        "largest difference between the sweep with all heads kept and the model's own forward pass", unit="logits"
    )
    decoded: int = count("ablated answers that were decoded token by token with a hook at the head")
    disagreements: int = count("decoded answers that differ from the sweep's prediction")
    real_disagreements: int = count("disagreements that rounding cannot explain")
    weights_off_one: float = fact("largest deviation of a query's attention weights from a sum of 1")
    misplaced: tuple[str, ...] = fact(
        "instruments and heads that an independent route contradicts, such as `sweep enc0.self.h1`", default=()
    )

    def doubts(self) -> list[str]:
        """What failed, each in words; empty where all is well.

        >>> from dataclasses import replace
        >>> well = Checks(identity=0.0, decoded=800, disagreements=0, real_disagreements=0, weights_off_one=0.0)
        >>> well.doubts(), replace(well, disagreements=198, real_disagreements=150).doubts()[0]  # doctest: +ELLIPSIS
        ([], '198 of 800 ablated answers decoded with a hook differ from the sweep, 150 of ...')
        """
        found = self._disagreements()
        if not self.identity <= IDENTITY:
            found.append(f"with every head kept, the sweep differs from the model by {self.identity!s:.8}")
        if not self.weights_off_one <= OFF_ONE:
            found.append(f"attention weights add up to 1 only within {self.weights_off_one!s:.8}")
        if self.misplaced:
            found.append(f"instruments reach another head than they name: {', '.join(self.misplaced[:4])}")
        return found

    def _disagreements(self) -> list[str]:
        """Nothing, or how many answers differ, where more do than near-ties can explain."""
        apart, real = self.disagreements, self.real_disagreements
        if not real and apart <= max(FEW_NEAR_TIES, NEAR_TIES * self.decoded):
            return []
        words = f"{max(apart, real):,} of {self.decoded:,} ablated answers decoded with a hook differ from the sweep"
        return [f"{words}, {real:,} of them by more than a near-tie" if real else f"{words}, too many to be near-ties"]
