"""The statistics of head ablation against the truth: the whole domain is the population.

    python benchmarks/population.py RUN [--out FILE] [--samples 1000] [--size 2000] [--device cuda]

Every head is ablated in all four kinds over every example of the domain (810,000 three-digit sums), which gives the
true drops. Then `samples` samples of `size` examples are drawn from it, each judged exactly as `headway heads` judges:

- coverage: how often the 95 % interval holds the true drop;
- contradicted: the share of decided verdicts that the true drop contradicts, and the share of samples in which any is,
  which the correction holds at 5 %;
- power: how often a true drop of exactly 1 point is found (Holm-corrected McNemar below 0.05); such a population is
  made from each ablation that drops more, by giving back some of what it lost, at random;
- null: sweeps in which before and after are exchanged at random example by example, so that no head has an effect;
  how often any difference is found in a whole sweep.

Means and patch sources are fixed beforehand (means of the test split, one patch source for each sum), so that each
ablation is one definite change of the model.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from headway.evaluation import Trained, load
from headway.head_analysis.head_runs import KINDS
from headway.head_analysis.variants import heads_of, means, patch_source, run_variants, zero
from headway.head_analysis.verdicts import CRITICAL, IMPORTANT, judge
from headway.randomness import generator
from headway.statistics import holm, mcnemar
from headway.tasks import Examples

ALPHA = 0.05


def ablate_population(trained: Trained) -> tuple[list[str], np.ndarray]:
    """Names of all ablations, and which sums are right: as the model is (row 0), then under each ablation."""
    examples = Examples.join(list(trained.task.domain()), trained.task.vocabulary.pad)
    mean, position_mean = means(trained, trained.examples("test"))
    patch_sources = generator(trained.config.data.seed, "population patch_sources").permutation(len(examples))
    replacements = [zero, mean, position_mean, patch_source(trained, examples.take(patch_sources))]
    heads = heads_of(trained)
    alone = np.eye(len(heads), dtype=np.int64)
    plan = np.concatenate([0 * alone[:1], *(alone * (kind + 1) for kind in range(len(KINDS)))])
    right = run_variants(trained, examples, plan, replacements).right
    return [f"{head} {kind}" for kind in KINDS for head in heads], right


def verdict_contradicted(verdict: np.ndarray, drop: np.ndarray) -> np.ndarray:
    """Where the true drop, in points, is not what a decided verdict claims."""
    claims = {
        "critical": drop > CRITICAL,
        "important": drop > IMPORTANT,
        "harmful": drop < -IMPORTANT,
        "redundant": np.abs(drop) < IMPORTANT,
    }
    contradicted = np.zeros(np.broadcast_shapes(verdict.shape, drop.shape), dtype=bool)
    for name, true in claims.items():
        contradicted |= (verdict == name) & ~true
    return contradicted


def check_statistics(right: np.ndarray, samples: int, size: int, random: np.random.Generator) -> dict[str, Any]:
    """Samples of a population judged as an analysis judges, against the truth."""
    before, after = right[0], right[1:]
    lost, gained = before & ~after, ~before & after
    drop = 100 * (lost.mean(1) - gained.mean(1))
    thinned = {test: thin(lost[test], gained[test], random) for test in np.flatnonzero(drop >= 1.0).tolist()}
    tests, population = lost.shape
    rows = [random.choice(population, size, replace=False, shuffle=False) for _ in range(samples)]
    l, g = (np.stack([changed[:, chosen].sum(1) for chosen in rows]) for changed in (lost, gained))  # noqa: E741
    judged = [judge(l[i], g[i], size) for i in range(samples)]
    covered = sum(((one.low <= drop) & (drop <= one.high)).astype(float) for one in judged)
    decided = sum((one.verdict != "undecided").astype(float) for one in judged)
    wrong = np.stack([verdict_contradicted(one.verdict, drop) for one in judged])
    contradicted = wrong.sum(0)
    found = {
        test: sum(finds(l[i], g[i], test, kept[rows[i]].sum()) for i in range(samples))
        for test, kept in thinned.items()
    }
    swapped = random.binomial(l + g, 0.5)
    false_sweeps = sum(bool((differences_holm(swapped[i], (l + g - swapped)[i]) < ALPHA).any()) for i in range(samples))
    powers = np.array(list(found.values())) / samples
    return {
        "population": population,
        "samples": samples,
        "size": size,
        "tests": tests,
        "baseline_accuracy": float(before.mean()),
        "true_drops": drop.round(5).tolist(),
        "coverage": (covered / samples).round(4).tolist(),
        "mean_coverage": float(covered.mean() / samples),
        "tests_with_an_effect": int((lost.any(1) | gained.any(1)).sum()),
        "mean_coverage_with_an_effect": float((covered / samples)[lost.any(1) | gained.any(1)].mean()),
        "mean_coverage_where_5_or_more_change": _mean_where(covered / samples, (lost | gained).mean(1) * size >= 5),
        "decided": float(decided.sum() / (tests * samples)),
        "contradicted_of_decided": float(contradicted.sum() / max(decided.sum(), 1)),
        "samples_with_any_contradicted": float(wrong.any(1).mean()),
        "worst_contradicted_of_a_test": float((contradicted / samples).max()),
        "power_at_1_point": {"tests": len(powers), "mean": _mean(powers), "least": _least(powers)},
        "null_sweeps_with_a_false_positive": false_sweeps / samples,
    }


def differences_holm(lost: np.ndarray, gained: np.ndarray) -> np.ndarray:
    """The corrected p-values of the differences, as `judge` has them."""
    return holm(mcnemar(lost, gained))


def finds(lost: np.ndarray, gained: np.ndarray, test: int, instead: int) -> bool:
    """Is the difference of one test found when it loses `instead` many examples?"""
    lost = lost.copy()
    lost[test] = instead
    return bool(differences_holm(lost, gained)[test] < ALPHA)


def thin(lost: np.ndarray, gained: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Some of the lost examples, at random, so many that the drop is exactly 1 point."""
    wanted = round(0.01 * len(lost)) + int(gained.sum())
    kept = np.zeros_like(lost)
    kept[random.choice(np.flatnonzero(lost), wanted, replace=False)] = True
    return kept


def _mean_where(values: np.ndarray, where: np.ndarray) -> dict[str, float | int | None]:
    return {"tests": int(where.sum()), "mean": _mean(values[where]), "least": _least(values[where])}


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _least(values: np.ndarray) -> float | None:
    return float(values.min()) if len(values) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--size", type=int, default=2_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    trained = load(options.run, device=options.device)
    start = time.perf_counter()
    names, right = ablate_population(trained)
    seconds = time.perf_counter() - start
    found = check_statistics(right, options.samples, options.size, generator(0, "population samples"))
    document = {
        "run": trained.directory.name,
        "step": trained.step,
        "device": trained.device.type,
        "tests_named": names,
    }
    document |= {"seconds_to_ablate": round(seconds, 1), **found}
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    shown = {key: value for key, value in document.items() if not isinstance(value, list)}
    print(json.dumps(shown, indent=1))


if __name__ == "__main__":
    main()
