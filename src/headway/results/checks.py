"""Self-checks of the instruments, part of heads.json; an analysis that fails one must not be trusted."""

from dataclasses import dataclass

from headway.results.analyses import Finding
from headway.results.schema import count, fact

IDENTITY = 1e-4
"""Largest difference of logits between two computations of the same operations, far above fp32 rounding."""
OFF_ONE = 1e-4
"""Largest difference of the sum of fp32 attention weights from 1, over thousands of keys."""
NEAR_TIES = 1e-3
"""Largest share of answers that near-ties may change; ties up to rounding are a thousand times rarer."""
FEW_NEAR_TIES = 3
"""Number of near-ties that is always allowed, however few answers were decoded."""


@dataclass(frozen=True, kw_only=True)
class Checks(Finding):
    """Checks of the instruments by greedy decoding and by an independent computation of every head."""

    identity: float = fact(
        "largest difference between the sweep with all heads kept and the model's forward pass", unit="logits"
    )
    decoded: int = count("ablated answers that were decoded token by token with a hook at the head")
    disagreements: int = count("decoded answers that differ from the sweep's")
    real_disagreements: int = count("disagreements that rounding cannot explain")
    weights_off_one: float = fact("largest difference from 1 of the sum of a query's attention weights")
    misplaced: tuple[str, ...] = fact(
        "instruments and heads that an independent computation contradicts, such as `sweep enc0.self.h1`", default=()
    )

    def doubts(self) -> list[str]:
        """The failed checks in words; empty if all passed.

        >>> from dataclasses import replace
        >>> well = Checks(identity=0.0, decoded=800, disagreements=0, real_disagreements=0, weights_off_one=0.0)
        >>> well.doubts(), replace(well, disagreements=198, real_disagreements=150).doubts()[0]  # doctest: +ELLIPSIS
        ([], '198 of 800 ablated answers decoded with a hook differ from the sweep, 150 of ...')
        """
        found = self._disagreements()
        if not self.identity <= IDENTITY:
            found.append(f"with every head kept, the sweep differs from the model by {self.identity!s:.8}")
        if not self.weights_off_one <= OFF_ONE:
            found.append(f"attention weights sum to 1 only within {self.weights_off_one!s:.8}")
        if self.misplaced:
            found.append(f"instruments affect another head than they name: {', '.join(self.misplaced[:4])}")
        return found

    def _disagreements(self) -> list[str]:
        """How many answers differ, if they are more than near-ties can explain; otherwise empty."""
        apart, real = self.disagreements, self.real_disagreements
        if not real and apart <= max(FEW_NEAR_TIES, NEAR_TIES * self.decoded):
            return []
        words = f"{max(apart, real):,} of {self.decoded:,} ablated answers decoded with a hook differ from the sweep"
        return [f"{words}, {real:,} of them by more than a near-tie" if real else f"{words}, too many to be near-ties"]
