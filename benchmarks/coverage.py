"""How often intervals over seeds hold the truth, and how often verdicts are false, by simulation.

    python benchmarks/coverage.py [--out FILE] [--repeats 2000] [--sweeps 1000]

Two things are simulated, from models whose truth is known:

- intervals over 3 to 10 seeds. Seeds differ (each has a true rate of its own), and all answer the same examples, some
  of which are harder for all. The truth is the median of the true rates. Rates of .5, .9, .99 and 1, seeds that do not
  differ, and seeds of which some learn and some do not;
- sweeps of 24 heads in 4 kinds at the borders of the verdicts: every drop is exactly 0, 1, 10 or -1 points, and how
  often any verdict of a whole sweep is false. Also how often drops that lie clear of a border are given their verdict,
  the share of heads under a limit, and the test of pairs.

It takes about five minutes on one core. `tests/test_benchmarks.py` runs it small, with faults planted.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, norm
from scipy.stats import t as student

from headway.head_analysis.verdicts import CRITICAL, IMPORTANT, Claims, claims_of, correct, decide, share_under
from headway.randomness import generator
from headway.statistics import (
    clopper_pearson,
    holm,
    mean_is_zero,
    median_interval,
    newcombe_interval,
    paired_interval,
    wilson_interval,
)

SEEDS = range(3, 11)
EXAMPLES = 2_000
LEAST, MOST, MOST_FALSE = 0.93, 0.97, 0.064
"""What coverage must reach, above what it must be explained, and how many sweeps may hold a false verdict."""
HEADS, KINDS = 24, 4
SKEWED = (1, 1, 0.89, 0.99, 0.02, 1, 0, 1)
"""Flip rates of eight seeds as they were found."""

Draw = Callable[[np.random.Generator, int, int], np.ndarray]


# Seeds


def around(rate: float, spread: float) -> Draw:
    """Seeds whose log odds are normal around those of the rate, which so is their median."""
    centre = np.log(rate / (1 - rate))
    return lambda random, repeats, seeds: 1 / (1 + np.exp(-(centre + spread * random.normal(size=(repeats, seeds)))))


def among(values: Iterable[float], weights: Iterable[float] | None = None) -> Draw:
    """Seeds whose rate is one of some values."""
    choices, chances = np.array([*values], dtype=float), None if weights is None else np.array([*weights])
    return lambda random, repeats, seeds: random.choice(choices, p=chances, size=(repeats, seeds))


def populations() -> dict[str, tuple[str, Draw, tuple[float, float]]]:
    """Name -> which rate it is of, how true rates of seeds are drawn, and the least and greatest median of them."""
    found: dict[str, tuple[str, Draw, tuple[float, float]]] = {}
    for rate in (0.5, 0.9, 0.99):
        found[f"{rate:g}, seeds alike"] = (f"{rate:g}", among([rate]), (rate, rate))
        for spread in (0.1, 0.5, 1.5):
            found[f"{rate:g}, spread {spread:g}"] = (f"{rate:g}", around(rate, spread), (rate, rate))
    found["1, seeds alike"] = ("1", among([1]), (1, 1))
    found["1, three of ten at .97"] = ("1", among([1, 0.97], [0.7, 0.3]), (1, 1))
    for weight in (0.55, 0.7, 0.9):
        found[f"bimodal, {weight:.0%} learn"] = ("bimodal", among([1, 0], [weight, 1 - weight]), (1, 1))
        found[f"bimodal, {weight:.0%} at .95, the rest at .02"] = (
            "bimodal",
            among([0.95, 0.02], [weight, 1 - weight]),
            (0.95, 0.95),
        )
    found["bimodal, half learn"] = ("bimodal", among([1, 0]), (0, 1))
    found["bimodal, as eight seeds were"] = ("bimodal", among(SKEWED), (0.99, 1))
    return found


def right_answers(true: np.ndarray, shared: float, n: int, random: np.random.Generator) -> np.ndarray:
    """How many of n examples each seed gets right; `shared` is how alike the seeds find them hard (0 to 1).

    An example has a hardness e, normal, the same for all seeds; a seed is right if √shared e + √(1 - shared) noise is
    below the quantile of its rate. So over examples a seed's share is its rate, whatever is shared.
    """
    repeats, seeds = true.shape
    if shared == 0:
        return random.binomial(n, true)
    limits, found = norm.ppf(true), np.empty((repeats, seeds), dtype=np.int64)
    for one in range(repeats):
        hardness = random.standard_normal(n, dtype=np.float32)[:, None]
        if shared < 1:
            noise = random.standard_normal((n, seeds), dtype=np.float32)
            hardness = np.float32(shared**0.5) * hardness + np.float32((1 - shared) ** 0.5) * noise
        found[one] = (hardness <= limits[one]).sum(0)
    return found


def order_ends(lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """`median_interval` along the last axis; one row is held against the function itself."""
    seeds = lows.shape[-1]
    k = next(k for k in range(seeds + 2) if 2 * binom.cdf(k, seeds, 0.5) > 0.05)
    own = np.stack([lows[0], highs[0]], axis=1)
    expected = median_interval(lows[0], own=own)
    if k == 0:
        assert expected is None
        return None
    low, high = np.sort(lows, axis=-1)[..., k - 1], np.sort(highs, axis=-1)[..., seeds - k]
    assert expected == (low[0], high[0])
    return low, high


def wilson_ends(right: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    table = np.array([wilson_interval(count, n) for count in range(n + 1)])
    return table[right, 0], table[right, 1]


def share_covered(ends: tuple[np.ndarray, np.ndarray] | None, truth: tuple[float, float]) -> dict[str, Any] | None:
    """How often the interval holds a median, and how wide it is; None where there is no interval."""
    if ends is None:
        return None
    low, high = ends
    # A mean that is rounded may miss the truth by a rounding.
    covered = (low <= truth[1] + 1e-12) & (high >= truth[0] - 1e-12)
    return {"coverage": float(covered.mean()), "width": float(np.median(high - low))}


def t_ends(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Student's interval of the mean, which was used before."""
    seeds = values.shape[-1]
    half = student.ppf(0.975, seeds - 1) * values.std(-1, ddof=1) / seeds**0.5
    return values.mean(-1) - half, values.mean(-1) + half


def check_accuracies(repeats: int, random: np.random.Generator, n: int = EXAMPLES, narrow: float = 0.0) -> list[Any]:
    """Every population and way of sharing examples: coverage and width by the number of seeds.

    `narrow` shrinks every seed's own interval, which is a fault that must be seen.
    """
    rows = []
    for name, (rate, draw, truth) in populations().items():
        for shared in (0.0, 0.5, 1.0):
            true = draw(random, repeats, max(SEEDS))
            right = right_answers(true, shared, n, random)
            lows, highs = wilson_ends(right, n)
            values = right / n
            lows, highs = lows + narrow * (values - lows), highs - narrow * (highs - values)
            mean = float(draw(random, 200_000, 1).mean())
            for seeds in SEEDS:
                found = share_covered(order_ends(lows[:, :seeds], highs[:, :seeds]), truth)
                before = share_covered(t_ends(values[:, :seeds]), (mean, mean))
                row = {"interval": "accuracy", "rate": rate, "population": name, "examples_shared": shared}
                rows.append({**row, "seeds": seeds, "found": found, "t_before": before})
    return rows


def check_drops(repeats: int, random: np.random.Generator, n: int = EXAMPLES) -> list[Any]:
    """Paired drops over seeds, in points: some examples are lost by all seeds, some by each alone, some gained."""
    rows = []
    for name, median, spread, gained in (
        ("0 points, seeds alike", 0.0, 0.0, 0.0),
        ("1 point, nothing gained", 0.01, 0.3, 0.0),
        ("5 points, 2 % gained", 0.05, 0.5, 0.02),
        ("20 points, seeds far apart", 0.2, 1.5, 0.01),
        ("20 points, seeds alike", 0.2, 0.0, 0.1),
    ):
        for shared in (0.0, 0.9):
            scale = np.exp(spread * random.normal(size=(repeats, max(SEEDS))))
            true = np.minimum(median * scale, 0.8)
            lost, back = counts_of(true, gained, n, shared, random)
            low, high = (100 * end for end in paired_interval(lost, back, n))
            for seeds in SEEDS:
                found = share_covered(order_ends(low[:, :seeds], high[:, :seeds]), (100 * median, 100 * median))
                row = {"interval": "drop", "rate": "drop", "population": name, "examples_shared": shared}
                rows.append({**row, "seeds": seeds, "found": found})
    return rows


def check_differences(repeats: int, random: np.random.Generator, n: int = EXAMPLES) -> list[Any]:
    """Two settings in pairs of one seed, as `headway compare --by` has them."""
    rows = []
    for name, first, second, spread in (
        ("both perfect", 1.0, 1.0, 0.0),
        ("both .9, seeds alike", 0.9, 0.9, 0.0),
        (".95 and .9", 0.95, 0.9, 0.5),
        (".7 and .5, far apart", 0.7, 0.5, 1.0),
    ):
        for shared in (0.0, 0.5):
            noise = spread * random.normal(size=(2, repeats, max(SEEDS)))
            shift = noise[0] + noise[1] / 3  # what a seed does to both settings is mostly the same
            true = [
                np.ones(shift.shape) if one == 1 else odds(one, own)
                for one, own in ((first, noise[0]), (second, shift))
            ]
            truth = first - second if spread == 0 else median_difference(first, second, spread, random)
            right = [right_answers(one, shared, n, random) for one in true]
            lows, highs = np.moveaxis(np.vectorize(lambda a, b: newcombe_interval(int(a), n, int(b), n))(*right), 0, 0)
            for seeds in SEEDS:
                found = share_covered(order_ends(lows[:, :seeds], highs[:, :seeds]), (truth, truth))
                row = {"interval": "difference", "rate": "difference", "population": name, "examples_shared": shared}
                rows.append({**row, "seeds": seeds, "found": found})
    return rows


def odds(rate: float, shift: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(np.log(rate / (1 - rate)) + shift)))


def median_difference(first: float, second: float, spread: float, random: np.random.Generator) -> float:
    noise = spread * random.normal(size=(2, 2_000_000))
    return float(np.median(odds(first, noise[0]) - odds(second, noise[0] + noise[1] / 3)))


def check_counts(repeats: int, random: np.random.Generator) -> list[Any]:
    """Counts of heads and certified lengths, which have the seeds' error alone; and shares of seeds, exactly."""
    rows = []
    lengths = np.array([0, 16, 32, 64, 256, 1024])
    draws: dict[str, tuple[Draw, tuple[float, float]]] = {
        "heads, Binomial(24, .5)": (lambda r, a, b: r.binomial(24, 0.5, (a, b)).astype(float), (12, 12)),
        "heads, always 2": (among([2]), (2, 2)),
        "certified lengths": (among(lengths, [0.1, 0.1, 0.15, 0.3, 0.25, 0.1]), (64, 64)),
        "correlations, uniform": (lambda r, a, b: r.random((a, b)), (0.5, 0.5)),
    }
    for name, (draw, truth) in draws.items():
        values = draw(random, repeats, max(SEEDS))
        for seeds in SEEDS:
            found = share_covered(order_ends(values[:, :seeds], values[:, :seeds]), truth)
            rows.append({"interval": "count", "rate": "count", "population": name, "seeds": seeds, "found": found})
    for rate in (0.5, 0.9, 0.99, 1.0):
        for seeds in SEEDS:
            low, high = np.array([clopper_pearson(count, seeds) for count in range(seeds + 1)]).T
            chances = binom.pmf(np.arange(seeds + 1), seeds, rate)
            found = {
                "coverage": float(chances[(low <= rate) & (rate <= high)].sum()),
                "width": float(chances @ (high - low)),
            }
            row = {"interval": "share of seeds", "rate": f"{rate:g}", "population": "exact sums"}
            rows.append({**row, "seeds": seeds, "found": found})
    return rows


# Verdicts


def counts_of(
    drop: float | np.ndarray, gained: float, n: int, shared: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Lost and gained of each test of each sweep (`drop` has their shape), with P(lost) = drop + gained.

    A `shared` part of the examples does the same in every test of a sweep, as if all heads lost the same ones; that
    needs one drop for all tests.
    """
    true = np.asarray(drop)
    chances = np.stack(np.broadcast_arrays(true + gained, gained + 0 * true, 1 - true - 2 * gained), axis=-1)
    if shared == 0:
        drawn = random.multinomial(n, chances)
        return drawn[..., 0], drawn[..., 1]
    # The common examples of a test are those whose uniform number is in its range; ranges of unlike drops are nested.
    common = round(shared * n)
    uniform = random.random((len(true), common), dtype=np.float32)
    ordered = np.sort(uniform, axis=1)
    lost = np.stack([np.searchsorted(row, p) for row, p in zip(ordered, chances[..., 0], strict=True)])
    to = chances[..., 0] + chances[..., 1]
    back = np.stack([np.searchsorted(row, p) for row, p in zip(ordered, to, strict=True)]) - lost
    own = random.multinomial(n - common, chances)
    return lost + own[..., 0], back + own[..., 1]


def judge_sweeps(
    lost: np.ndarray, gained: np.ndarray, n: int, correction: Callable[[Claims], Claims] = correct
) -> np.ndarray:
    """The verdicts of many sweeps, as `judge` has them; each sweep is a family."""
    claims = claims_of(lost, gained, n)
    parts = (claims.critical, claims.important, claims.harmful, claims.redundant)
    return np.stack([decide(correction(Claims(*(part[one] for part in parts)))) for one in range(len(lost))])


def is_false(verdict: np.ndarray, drop: np.ndarray) -> dict[str, np.ndarray]:
    """Where each verdict is given and not true; `drop` in points. At the border of a claim it is not true."""
    true = {
        "critical": drop > CRITICAL,
        "important": drop > IMPORTANT,
        "harmful": drop < -IMPORTANT,
        "redundant": np.abs(drop) < IMPORTANT,
    }
    return {name: (verdict == name) & ~holds for name, holds in true.items()}


def check_borders(
    sweeps: int,
    random: np.random.Generator,
    sizes: Iterable[int] = (500, 2_000, 5_000),
    correction: Callable[[Claims], Claims] = correct,
) -> list[Any]:
    """How many sweeps hold a false verdict when all drops are exactly at a border, or half of them are."""
    rows = []
    tests = HEADS * KINDS
    for n in sizes:
        for model, gained in (("perfect", 0.0), ("60 % right", 0.1)):
            for border in (0.0, 1.0, 10.0, -1.0):
                if border < 0 and not gained:
                    continue  # a perfect model cannot gain
                for what in ("all", "half, the others 20 points"):
                    for shared in (0.0, 0.9):
                        drop = np.full((sweeps, tests), border)
                        if what != "all":
                            drop[:, ::2] = 20.0
                        lost, back = counts_of(drop / 100, gained if border >= 0 else gained + 0.01, n, shared, random)
                        verdict = judge_sweeps(lost, back, n, correction)
                        wrong = is_false(verdict, drop)
                        rows.append(
                            {
                                "n": n,
                                "model": model,
                                "border": border,
                                "at_the_border": what,
                                "examples_shared": shared,
                                "false": float(np.any([*wrong.values()], axis=0).any(1).mean()),
                                **{f"false_{name}": float(one.any(1).mean()) for name, one in wrong.items()},
                            }
                        )
    return rows


def check_power(sweeps: int, random: np.random.Generator, sizes: Iterable[int] = (500, 2_000, 5_000)) -> list[Any]:
    """How often drops clear of every border are given their verdict, in sweeps of 96 like drops."""
    rows = []
    for n in sizes:
        for model, gained in (("perfect", 0.0), ("60 % right", 0.1)):
            for drop, verdict in ((0.0, "redundant"), (3.0, "important"), (15.0, "critical")):
                lost, back = counts_of(np.full((sweeps, HEADS * KINDS), drop / 100), gained, n, 0.0, random)
                found = judge_sweeps(lost, back, n)
                share = float((found == verdict).mean())
                rows.append({"n": n, "model": model, "drop": drop, "verdict": verdict, "given": share})
    return rows


def check_prunable(sweeps: int, random: np.random.Generator, n: int = EXAMPLES) -> list[Any]:
    """How often the interval of the share of 24 heads under 1 point holds the true share, and how wide it is."""
    rows = []
    for name, drops in (
        ("most at 0, some large", [0.0] * 18 + [3.0] * 3 + [30.0] * 3),
        ("many near 1 point", [0.0] * 6 + [0.9] * 6 + [1.1] * 6 + [5.0] * 6),
        ("all just under 1 point", [0.99] * 24),
        ("all exactly 1 point", [1.0] * 24),
    ):
        for gained in (0.0, 0.1):
            true = np.array(drops)
            lost, back = counts_of(np.tile(true / 100, (sweeps, 1)), gained, n, 0.0, random)
            ends = np.array([share_under(lost[one], back[one], n, 1.0) for one in range(sweeps)])
            share = float((true < 1).mean())
            held = (ends[:, 0] <= share + 1e-9) & (share - 1e-9 <= ends[:, 1])
            width = float((ends[:, 1] - ends[:, 0]).mean())
            rows.append({"heads": name, "gained": gained, "coverage": float(held.mean()), "width": width})
    return rows


def check_pairs(
    sweeps: int, random: np.random.Generator, sizes: Iterable[int] = (500, 2_000), pairs: int = 276
) -> list[Any]:
    """How often any of 276 pairs without an interaction is found to have one."""
    rows = []
    for name, chances in (
        ("as many +1 as -1", (0.0, 0.01, 0.01, 0.0)),
        ("+2 and -2 among them", (0.003, 0.01, 0.01, 0.003)),
        ("more -1, balanced by some +2", (0.005, 0.06, 0.05, 0.01)),
        ("+2 half as often as -1, nothing else", (0.0, 0.02, 0.0, 0.01)),
    ):
        every = [*chances[:2], 1 - sum(chances), *chances[2:]]
        for n in sizes:
            drawn = random.multinomial(n, every, size=(sweeps, pairs))
            cases, where = np.unique(drawn.reshape(-1, 5), axis=0, return_inverse=True)
            p = mean_is_zero(cases)[where.ravel()].reshape(sweeps, pairs)
            false = float(np.mean([holm(family).min() < 0.05 for family in p]))
            rows.append({"interactions": name, "n": n, "false": false})
    return rows


# Together


def worst(rows: list[Any]) -> list[Any]:
    """For each interval, rate and number of seeds: least and most coverage of any setting, and the median width."""
    found = []
    for interval, rate in dict.fromkeys((row["interval"], row["rate"]) for row in rows):
        for seeds in SEEDS:
            own = [
                row["found"] for row in rows if (row["interval"], row["rate"], row["seeds"]) == (interval, rate, seeds)
            ]
            shown = [one for one in own if one is not None]
            if shown:
                numbers = {
                    "least": min(one["coverage"] for one in shown),
                    "most": max(one["coverage"] for one in shown),
                    "median_width": float(np.median([one["width"] for one in shown])),
                }
                found.append({"interval": interval, "rate": rate, "seeds": seeds, "settings": len(shown), **numbers})
    return found


def check(repeats: int, sweeps: int) -> dict[str, Any]:
    """Everything, from fixed random numbers."""
    seeds = [
        *check_accuracies(repeats, generator(0, "coverage accuracies")),
        *check_drops(repeats, generator(0, "coverage drops")),
        *check_differences(repeats, generator(0, "coverage differences")),
        *check_counts(repeats, generator(0, "coverage counts")),
    ]
    summary = worst(seeds)
    borders = check_borders(sweeps, generator(0, "coverage borders"))
    before = [row["t_before"]["coverage"] for row in seeds if row.get("t_before")]
    return {
        "repeats": repeats,
        "sweeps": sweeps,
        "examples": EXAMPLES,
        "least_coverage": min(row["least"] for row in summary),
        "least_coverage_of_t_before": min(before),
        "most_false_sweeps": max(row["false"] for row in borders),
        "over_seeds": summary,
        "borders": borders,
        "power": check_power(max(1, sweeps // 10), generator(0, "coverage power")),
        "prunable": check_prunable(sweeps, generator(0, "coverage prunable")),
        "pairs": check_pairs(sweeps, generator(0, "coverage pairs")),
        "settings": seeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2_000)
    parser.add_argument("--sweeps", type=int, default=1_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    start = time.perf_counter()
    document = check(options.repeats, options.sweeps)
    document = {"seconds": round(time.perf_counter() - start, 1), **document}
    if options.out:
        options.out.write_text(json.dumps(rounded(document), indent=1) + "\n")
    shown = {key: value for key, value in document.items() if not isinstance(value, list)}
    print(json.dumps(shown, indent=1))


def rounded(value: Any) -> Any:
    """Numbers with four decimals, as more would only look exact."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
