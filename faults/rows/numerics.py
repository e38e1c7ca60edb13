"""Properties of the numerics on drawn cases: attention, encodings, poolings, statistics, and rounding bounds of proofs.

Each case draws sizes and values, from ordinary to extreme, and compares a result with a definition that was written
again here, with SciPy, or with what a symmetry demands. Every tolerance stands beside the reason for its size.
"""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from faults.campaign import Attempt, Row, chance, must
from headway import statistics
from headway.config import Choice
from headway.model.dot_products import attend, attend_fast
from headway.model.encodings import ENCODINGS, Sizes, make_encoding
from headway.model.poolings import POOLINGS, make_pooling
from headway.proofs import rounding
from headway.statistics.means import difference_interval
from headway.statistics.paired import mcnemar, paired_interval

SINGLE, DOUBLE = torch.finfo(torch.float32).eps, torch.finfo(torch.float64).eps


def normal(draw: random.Random, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers whose scale is drawn between 1e-3 and 1e3."""
    generator = torch.Generator().manual_seed(draw.randrange(2**62))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).mul(10 ** draw.uniform(-3, 3)).to(dtype)


def near(one: Tensor, other: Tensor, bound: Tensor | float, what: str) -> None:
    """Raise unless two tensors differ by at most a bound."""
    apart = (one.double() - other.double()).abs()
    must(
        bool((apart <= bound).all()),
        f"{what}: {float(apart.max()):.3g} apart, {float(torch.as_tensor(bound).max()):.3g} allowed",
    )


def attention_is_its_definition(draw: random.Random) -> str:
    """Both implementations in fp32 against softmax in fp64; queries that see nothing give zeros."""
    queries, keys, d_head = draw.randrange(1, 9), draw.randrange(1, 9), draw.choice([1, 2, 8, 16])
    query, key, value = (normal(draw, 2, 2, n, d_head) for n in (queries, keys, keys))
    query, key = (x / x.abs().max().clamp(min=1.0) * draw.choice([1, 4]) for x in (query, key))
    mask = torch.rand(2, 1, queries, keys, generator=torch.Generator().manual_seed(draw.randrange(2**31))) < 0.7
    score = (query.double() @ key.double().transpose(-2, -1) / math.sqrt(d_head)).masked_fill(~mask, -math.inf)
    right = score.softmax(-1).nan_to_num(0.0) @ value.double()
    # A score has an error of d_head + 2 roundings of its size, which moves a weight by that much; a sum of `keys`
    # products adds keys roundings. The factor 4 is for the exponential and the normalisation (measured: below 1).
    size = float(score[score.isfinite()].abs().max()) if bool(mask.any()) else 0.0
    bound = 4 * SINGLE * ((d_head + 2) * max(1.0, size) + keys) * max(1.0, d_head**0.5) * float(value.abs().max())
    near(attend(query, key, value, mask)[0], right, bound, "attend")
    near(attend_fast(query, key, value, mask), right, bound, "attend_fast")
    weights = attend(query, key, value, mask)[1]
    near(weights.sum(-1), mask.any(-1).expand(2, 2, queries).float(), (keys + 4) * SINGLE, "weights sum to one")
    return "attention"


def encodings_depend_on_distance(draw: random.Random) -> str:
    """Rotation keeps lengths; scores and biases stay where all positions move by the same amount."""
    name = draw.choice(["rotary", "alibi", "t5", "clipped"])
    torch.manual_seed(draw.randrange(2**31))
    sizes = Sizes(d_model=16, n_heads=2, d_head=8, kinds={"encoder": False, "decoder": True, "cross": False})
    encoding = make_encoding(Choice(name=name), sizes).double()
    start, n, moved = draw.randrange(50), draw.randrange(1, 9), draw.choice([1, 7, 1_000])
    here = torch.arange(start, start + n)[None]
    kind = draw.choice(["encoder", "decoder"])
    bias, moved_bias = encoding.bias(here, here, kind), encoding.bias(here + moved, here + moved, kind)
    if bias is not None and moved_bias is not None:
        near(bias, moved_bias, 0.0, f"bias of {name}")
    if name == "rotary":
        x, y = normal(draw, 2, 2, n, 8, dtype=torch.float64), normal(draw, 2, 2, n, 8, dtype=torch.float64)
        # fp32 angles of up to 1,060 radians have an error of 1,060 eps / 2; a turned number has it times its size.
        sizes_of = x.norm(dim=-1)[..., None] * y.norm(dim=-1)[..., None, :]
        near(
            encoding.rotate(x, here).norm(dim=-1), x.norm(dim=-1), 8 * SINGLE * x.norm(dim=-1), "length after rotation"
        )
        one, other = (encoding.rotate(x, at) @ encoding.rotate(y, at).transpose(-2, -1) for at in (here, here + moved))
        near(one, other, 4 * (start + n + moved) * SINGLE * sizes_of.amax((-2, -1), keepdim=True), "rotary scores")
    return "encodings"


def poolings_see_what_is_visible(draw: random.Random) -> str:
    """Padding changes nothing; mean, max and min do not depend on the order."""
    name = draw.choice(POOLINGS.names())
    torch.manual_seed(draw.randrange(2**31))
    pooling = make_pooling(Choice(name=name), 5).double()
    length, padding = draw.randrange(1, 9), draw.randrange(0, 7)
    hidden = normal(draw, 2, length, 5, dtype=torch.float64)
    alone = pooling(hidden, torch.ones(2, length, dtype=torch.bool))
    more = torch.cat([hidden, torch.full((2, padding, 5), draw.choice([1e30, -1e30, 0.0]), dtype=torch.float64)], dim=1)
    seen = torch.arange(length + padding).expand(2, -1) < length
    # The same sums with exact zeros added, in another order: `length` roundings of the largest number, through at most
    # two linear layers of five features each.
    bound = 64 * (length + 10) * DOUBLE * float(hidden.abs().max()) * 10
    near(pooling(more, seen), alone, bound, f"padding under {name}")
    if name in ("mean", "max", "min"):
        order = torch.randperm(length)
        near(pooling(hidden[:, order], torch.ones(2, length, dtype=torch.bool)), alone, bound, f"order under {name}")
    return "poolings"


def proportions_agree_with_scipy(draw: random.Random) -> str:
    n = draw.choice([1, 2, 7, 50, 2_000, 10**6])
    successes = draw.choice([0, n, draw.randrange(n + 1)])
    confidence = draw.choice([0.5, 0.9, 0.95, 0.999])
    for method, ours in (("wilson", statistics.wilson_interval), ("exact", statistics.clopper_pearson)):
        low, high = ours(successes, n, confidence)
        right = stats.binomtest(successes, n).proportion_ci(confidence, method=method)
        # Beta quantiles are found to about 1e-12 by both; Wilson's ends cancel in p - p^2 at n = 1e6.
        must(
            abs(low - right.low) < 1e-9 and abs(high - right.high) < 1e-9, f"{method} of {successes}/{n}: {low}, {high}"
        )
        must(0 <= low <= successes / n <= high <= 1, f"{method} of {successes}/{n}: {low}, {high}")
        turned = ours(n - successes, n, confidence)
        must(abs(turned[0] - (1 - high)) < 1e-9, f"{method} of {successes}/{n} is not symmetric")
    return "proportions"


def paired_differences_are_antisymmetric(draw: random.Random) -> str:
    n = draw.choice([1, 3, 50, 2_000, 10**6])
    lost = draw.randrange(n + 1)
    gained = draw.randrange(n - lost + 1)
    (low, high), (other_low, other_high) = (
        [float(end) for end in paired_interval(*pair, n)] for pair in ((lost, gained), (gained, lost))
    )
    drop = (lost - gained) / n
    # The ends are searched for to 1e-12 of the width of (-1, 1).
    must(abs(low + other_high) < 1e-9 and abs(high + other_low) < 1e-9, f"{lost}, {gained} of {n}: {low}, {high}")
    must(-1 <= low <= drop + 1e-9 and drop - 1e-9 <= high <= 1, f"{lost}, {gained} of {n}: {low}, {drop}, {high}")
    if lost + gained:
        right = stats.binomtest(lost, lost + gained).pvalue
        # Two sums of the same binomial terms.
        must(abs(float(mcnemar(lost, gained)) - right) < 1e-9, f"mcnemar of {lost}, {gained}")
    return "paired counts"


def families_are_monotone(draw: random.Random) -> str:
    p = np.array(
        [draw.choice([0.0, 1.0, draw.random(), 10 ** draw.uniform(-12, 0)]) for _ in range(draw.randrange(1, 12))]
    )
    adjusted = statistics.holm(p)
    ordered = sorted(range(len(p)), key=lambda i: p[i])
    right, largest = np.empty(len(p)), 0.0
    for k, place in enumerate(ordered):
        largest = max(largest, (len(p) - k) * p[place])
        right[place] = min(1.0, largest)
    must(bool((np.abs(adjusted - right) <= 4 * DOUBLE).all()), f"holm of {p}: {adjusted}")  # the same two products
    must(bool((adjusted >= p).all()), f"holm of {p} lowers a p-value: {adjusted}")
    return "families"


def means_agree_with_scipy(draw: random.Random) -> str:
    values = normal(draw, draw.randrange(2, 40), dtype=torch.float64).numpy() + draw.choice([0.0, 5.0, -1e3])
    low, high = statistics.mean_interval(values)
    right = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    size = float(np.abs(values).max())
    # The variance of n numbers of this size has an error of n roundings of it, before the square root.
    bound = 1e-9 * size
    must(
        abs(low - right[0]) <= bound and abs(high - right[1]) <= bound, f"mean of {values[:4]}: {low}, {high}, {right}"
    )
    one, other = difference_interval(values[None]), difference_interval(-values[None])
    must(abs(float(one[0][0]) + float(other[1][0])) <= bound, f"difference of {values[:4]} is not antisymmetric")
    return "means"


def medians_are_order_statistics(draw: random.Random) -> str:
    values = [draw.choice([0.0, 1.0, draw.gauss(0, 10), 1e12]) for _ in range(draw.randrange(0, 40))]
    found = statistics.median_interval(values)
    shuffled = draw.sample(values, len(values))
    must(found == statistics.median_interval(shuffled), f"the median's interval depends on the order of {values}")
    must((found is None) == (len(values) < 6), f"{len(values)} values have {found}")
    if found is not None:
        inside = sum(value < found[0] for value in values)
        # P(the interval misses the median) = 2 P(Binomial(m, 1/2) < k), where k - 1 values lie below its lower end.
        must(found[0] <= float(np.median(values)) <= found[1], f"the median of {values} is outside {found}")
        must(2 * stats.binom.cdf(inside - 1, len(values), 0.5) <= 0.05 + 1e-12, f"{values}: {found} covers too little")
    return "medians"


def rounding_bounds_hold(draw: random.Random) -> str:
    """The fp32 result of a layer lies within the proof's bound of the exact one."""
    width, out = draw.choice([2, 8, 16]), draw.choice([2, 8])
    torch.manual_seed(draw.randrange(2**31))
    x = normal(draw, 3, width)
    layer, norm = nn.Linear(width, out), nn.LayerNorm(width)
    with torch.no_grad():
        layer.weight.mul_(10 ** draw.uniform(-2, 2))
        norm.weight.mul_(draw.uniform(0.1, 4))
        exact = rounding.exact(x)
        try:
            normed = rounding.layer_norm(exact, norm)
        except ValueError:  # rows of nearly equal numbers: the proof claims no bound
            return "rounding bounds: none claimed, the variance is lost in rounding"
        pairs = (
            ("linear", layer(x), rounding.linear(exact, layer)),
            ("layer_norm", norm(x), normed),
            ("gelu", nn.functional.gelu(x), rounding.gelu(exact)),
            ("relu of linear", layer(x).relu(), rounding.relu(rounding.linear(exact, layer))),
            ("add", x + x.flip(0), rounding.add(exact, rounding.exact(x.flip(0)))),
        )
        for name, found, bounded in pairs:
            apart = (found.double() - bounded.value).norm(dim=-1)
            # No tolerance of its own: the bound is the claim; OWN is the proof's factor for its own fp64.
            must(bool((apart <= bounded.error * rounding.OWN).all()), f"{name}: {apart} above {bounded.error}")
    return "rounding bounds"


PROPERTIES: tuple[Callable[[random.Random], str], ...] = (
    attention_is_its_definition,
    encodings_depend_on_distance,
    poolings_see_what_is_visible,
    proportions_agree_with_scipy,
    paired_differences_are_antisymmetric,
    families_are_monotone,
    means_agree_with_scipy,
    medians_are_order_statistics,
    rounding_bounds_hold,
)


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    must({"rotary", "alibi", "t5", "clipped"} <= set(ENCODINGS.names()), "an encoding is gone")

    def attempt(number: int) -> str:
        with torch.no_grad():
            return PROPERTIES[number % len(PROPERTIES)](chance(seed, ROW.name, number))

    yield attempt


ROW = Row(
    name="numerics",
    position=11,
    attack="Properties on drawn cases of the numerics: attention, encodings, poolings, statistics, rounding bounds of "
    "proofs",
    bar="no failure; each tolerance explained (in faults/rows/numerics.py)",
    count=20_000,
    attempts=attempts,
    limits=("Cases are drawn from the seed and are not shrunk; the tests use Hypothesis for that.",),
)
