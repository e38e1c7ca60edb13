"""The margin of the right answer, beside accuracy: how far a head's removal moves the model towards a mistake.

Accuracy is 0 or 1 for an example. A head without which the right token leads by 2 instead of 12 costs nothing in
accuracy, and a head without which every answer is wrong costs no more than one without which every answer is just
wrong. The margin (the right token's logit less the best other one's, the smallest over the tokens of an answer; see
`Outcomes.margin`) tells these apart. It is above 0 where the whole answer is right and
below where it is not; 0 is a tie.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headway.statistics import mean_interval

Margins = Float[np.ndarray, "variant example"]


@dataclass(frozen=True)
class BaselineMargin:
    """The mean margin of the model as it is, with its 95 % interval over examples."""

    margin: float
    margin_interval: tuple[float, float]


@dataclass(frozen=True)
class MarginChange:
    """The mean margin under one change, and how it differs from the model's own on the same examples.

    Below 0 the right answer leads by less. The 95 % interval is Student's, of the mean of paired differences.
    """

    margin: float
    margin_change: float
    margin_change_interval: tuple[float, float]


def baseline_margin(margins: Margins) -> BaselineMargin:
    """That of the first variant, which changes nothing."""
    own = margins[0].astype(np.float64)
    return BaselineMargin(float(own.mean()), mean_interval(own))


def margin_changes(margins: Margins) -> list[MarginChange]:
    """Every other variant against the first."""
    own, *others = margins.astype(np.float64)
    return [MarginChange(float(one.mean()), float((one - own).mean()), mean_interval(one - own)) for one in others]
