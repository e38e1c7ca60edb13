"""Joint ablation of the heads of one run: removable sets, sets that must stay, Shapley values and pairs."""

from collections.abc import Mapping, Sequence
from math import comb

from headway.head_analysis.head_runs import HeadRuns, heads_in
from headway.head_analysis.instrument import Analysis, Clock, Cost, Subject
from headway.head_analysis.joint_ablation import (
    EXACT_HEADS,
    eliminate,
    measure_pairs,
    shapley,
    single_drops,
    which_pairs,
)
from headway.model.sites import Head, HeadSite
from headway.randomness import generator
from headway.results.joint_ablation import JointAblation


def by_kind(sites: Sequence[HeadSite]) -> dict[str, list[Head]]:
    """The heads of each kind of attention."""
    sites = [site for site in sites if site.kept]
    kinds = dict.fromkeys(site.kind for site in sites)
    return {kind: [head for site in sites if site.kind == kind for head in site.heads] for kind in kinds}


def _all_passes(sites: Sequence[HeadSite], permutations: int) -> int:
    heads = len(heads_in(sites))
    return 2**heads if heads <= EXACT_HEADS else permutations * (heads + 1)


class JointSets(Analysis[JointAblation]):
    """Heads together: elimination, Shapley values by kind and over all heads, pairs."""

    name, result = "joint", JointAblation
    steps = ("elimination", "shapley", "shapley of all", "pairs")

    def costs(self) -> dict[str, Cost]:
        return {
            "elimination": Cost(300_000, lambda sites, _: comb(len(heads_in(sites)) + 1, 2), most=lambda n: n // 2),
            "shapley": Cost(130_000, lambda sites, _: 2 ** min(EXACT_HEADS, max(map(len, by_kind(sites).values())))),
            "all_heads": Cost(160_000, _all_passes),
            "pairs": Cost(240_000, lambda sites, _: len(which_pairs(heads_in(sites))) + len(heads_in(sites)) + 1),
        }

    def run(self, subject: Subject, clock: Clock) -> JointAblation:
        return ablate_jointly(subject.runs, subject.sizes, clock)


def ablate_jointly(runs: HeadRuns, sizes: Mapping[str, int], clock: Clock) -> JointAblation:
    """Elimination, Shapley values and pairs, each on as many of the examples as `sizes` says."""
    random = generator(runs.seed, "together")
    order = random.permutation(len(runs))
    half = sizes["elimination"]

    def some_of(rows: slice) -> HeadRuns:
        return runs.take(order[rows])

    with clock("elimination") as progress:
        chosen_on, reported_on = some_of(slice(half)), some_of(slice(-half, None))
        found = eliminate(chosen_on, reported_on, single_drops(chosen_on), progress)
    values = {}
    with clock("shapley") as progress:
        some = some_of(slice(sizes["shapley"]))
        for kind, players in by_kind(runs.sites).items():
            values[kind] = shapley(some, players, sizes["permutations"], random, progress)
    with clock("shapley of all") as progress:
        some = some_of(slice(sizes["all_heads"]))
        values["all"] = shapley(some, heads_in(runs.sites), sizes["permutations"], random, progress)
    with clock("pairs") as progress:
        pairs = measure_pairs(some_of(slice(sizes["pairs"])), progress)
    return JointAblation(**found._asdict(), shapley=values, pairs=pairs)
