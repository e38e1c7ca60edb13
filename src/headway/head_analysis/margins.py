"""The margin of the right answer: how far a head's ablation moves the model towards an error.

Accuracy is 0 or 1 for an example. An ablation that reduces the lead of the right token from 12 to 2 costs no accuracy,
and an ablation that makes every answer clearly wrong costs no more than one that makes it just wrong. The margin (the
right token's logit less the best other one's, the smallest over the tokens of an answer; see `Outcomes.margin`)
distinguishes these cases. It is above 0 where the whole answer is right and below where it is not; 0 is a tie.
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
