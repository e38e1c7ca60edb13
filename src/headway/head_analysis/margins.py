"""The margin of the right answer, beside accuracy: how far a head's removal moves the model towards a mistake.

Accuracy is 0 or 1 for an example. A head without which the right token leads by 2 instead of 12 costs nothing in
accuracy, and a head without which every answer is wrong costs no more than one without which every answer is just
wrong. The margin (the right token's logit less the best other one's, the smallest over the tokens of an answer; see
`Outcomes.margin`) tells these apart. It is above 0 where the whole answer is right and
below where it is not; 0 is a tie.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from headway.results.heads import Baseline, Drop
from headway.statistics import mean_interval

Margins = Float[np.ndarray, "variant example"]


def with_margin(baseline: Baseline, margins: Margins) -> Baseline:
    """Add the mean margin of the unchanged model and its 95 % interval over examples."""
    own = margins[0].astype(np.float64)
    return replace(baseline, margin=float(own.mean()), margin_interval=mean_interval(own))


def with_margins(drops: Sequence[Drop], margins: Margins) -> list[Drop]:
    """Add the mean margin of every other variant, and its difference from the unchanged model on the same examples.

    Below 0 the right answer leads by less. The 95 % interval is Student's, of the mean of paired differences.
    """
    own, *others = margins.astype(np.float64)
    return [
        replace(
            drop,
            margin=float(one.mean()),
            margin_change=float((one - own).mean()),
            margin_change_interval=mean_interval(one - own),
        )
        for drop, one in zip(drops, others, strict=True)
    ]
