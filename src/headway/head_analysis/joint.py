"""Joint ablation of the heads of one run: removable sets, sets that must stay, Shapley values and pairs."""

from math import comb

from headway.evaluation import Trained
from headway.head_analysis.instrument import Analysis, Clock, Cost, Subject
from headway.head_analysis.joint_ablation import (
    EXACT_HEADS,
    AblationContext,
    eliminate,
    measure_pairs,
    shapley,
    single_drops,
    which_pairs,
)
from headway.head_analysis.variants import heads_of
from headway.model.sites import Head
from headway.randomness import generator
from headway.results.joint_ablation import JointAblation


def by_kind(trained: Trained) -> dict[str, list[Head]]:
    """The heads of each kind of attention."""
    sites = [site for site in trained.model.sites if site.kept]
    kinds = dict.fromkeys(site.kind for site in sites)
    return {kind: [head for site in sites if site.kind == kind for head in site.heads] for kind in kinds}


def _all_passes(trained: Trained, permutations: int) -> int:
    heads = len(heads_of(trained))
    return 2**heads if heads <= EXACT_HEADS else permutations * (heads + 1)


class JointSets(Analysis[JointAblation]):
    """Heads together: elimination, Shapley values by kind and over all heads, pairs."""

    name, result = "joint", JointAblation
    steps = ("elimination", "shapley", "shapley of all", "pairs")

    def costs(self) -> dict[str, Cost]:
        return {
            "elimination": Cost(300_000, lambda run, _: comb(len(heads_of(run)) + 1, 2), most=lambda n: n // 2),
            "shapley": Cost(130_000, lambda run, _: 2 ** min(EXACT_HEADS, max(map(len, by_kind(run).values())))),
            "all_heads": Cost(160_000, _all_passes),
            "pairs": Cost(240_000, lambda run, _: len(which_pairs(heads_of(run))) + len(heads_of(run)) + 1),
        }

    def run(self, subject: Subject, clock: Clock) -> JointAblation:
        trained, sizes = subject.trained, subject.sizes
        random = generator(trained.config.data.seed, "together")
        order = random.permutation(len(subject.examples))
        half = sizes["elimination"]

        def context(rows: slice) -> AblationContext:
            return AblationContext(trained, subject.examples.take(order[rows]))

        with clock("elimination") as progress:
            chosen_on, reported_on = context(slice(half)), context(slice(-half, None))
            found = eliminate(chosen_on, reported_on, single_drops(chosen_on), progress)
        values = {}
        with clock("shapley") as progress:
            some = context(slice(sizes["shapley"]))
            for kind, players in by_kind(trained).items():
                values[kind] = shapley(some, players, sizes["permutations"], random, progress)
        with clock("shapley of all") as progress:
            some = context(slice(sizes["all_heads"]))
            values["all"] = shapley(some, heads_of(trained), sizes["permutations"], random, progress)
        with clock("pairs") as progress:
            pairs = measure_pairs(context(slice(sizes["pairs"])), progress)
        return JointAblation(**found._asdict(), shapley=values, pairs=pairs)
