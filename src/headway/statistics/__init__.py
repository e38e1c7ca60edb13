"""All intervals and tests of headway."""

from headway.statistics.counts import normal_quantile
from headway.statistics.families import holm, holm_at_once
from headway.statistics.means import (
    difference_interval,
    differs_by_more,
    flip_test,
    mean_interval,
    mean_is_zero,
    ratio_interval,
    welch_interval,
)
from headway.statistics.paired import drop_above, equivalence, mcnemar, paired_interval
from headway.statistics.paired_values import Moments, mean_above, mean_differs, moments_of, values_interval
from headway.statistics.proportions import (
    above_share,
    binomial_between,
    clopper_pearson,
    newcombe_interval,
    wilson_interval,
)
from headway.statistics.seeds import ENOUGH_SEEDS, median_interval, two_way_shares
