"""Bounds rounding on a sample of contexts of a model whose certificate has a first-order allowance. Not a proof.

    PYTHONPATH=src python docs/tools/sample_rounding.py RUN [RUN ...] --out FILE.json

The sample: the contexts of random sums, and of sums that differ in up to three digits from one with the certificate's
worst context.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from headway.evaluation import Trained, load
from headway.proofs.sum_contexts import STATES, TOTAL, Context, Contexts, Place, Reach, contexts_of
from headway.proofs.sum_tables import Tables, codes_of
from headway.proofs.sums import margins_of, reach_of
from headway.storage import replace_file

LONGEST = 12
"""Digits of the longest number in a random sum."""
Numbers = tuple[list[int], list[int]]
Sample = dict[tuple[Place, tuple[int, ...]], set[Context]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--sums", type=int, default=300, help="random sums, and as many around the worst context")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = [sampled(run, options.sums) for run in options.runs]
    replace_file(options.out, (json.dumps(found, indent=1) + "\n").encode())
    print(json.dumps(found, indent=1))


@torch.inference_mode()
def sampled(run: Path, sums: int) -> dict[str, object]:
    """The largest bound and the smallest margin over a sample of contexts of one run."""
    trained, certificate = load(run, device="cpu"), json.loads((run / "analysis/proof.json").read_text())
    _, reach = reach_of(trained)
    random = np.random.default_rng(0)
    worst = worst_contexts(reach, certificate["worst_context"])
    bounds: dict[str, list[float]] = {"margins": [], "errors": []}
    sizes = {}
    for name, numbers in (("random", random_sums(random, sums)), ("near the worst", near(random, worst, sums))):
        sample: Sample = defaultdict(set)
        for a, b in numbers:
            for context, written in contexts_of(reach, a, b):
                sample[context.place, written].add(context)
        sizes[name] = sum(map(len, sample.values()))
        for (place, written), contexts in sample.items():
            margins, errors = bounded(trained, reach, place, written, contexts)
            bounds["margins"] += margins
            bounds["errors"] += errors
    margin, error = (np.array(bounds[name]) for name in ("margins", "errors"))
    return {
        "run": run.name,
        "contexts": sizes,
        "largest_bound": float(error.max()),
        "median_bound": float(np.median(error)),
        "smallest_margin": float(margin.min()),
        "smallest_margin_less_bound": float((margin - error).min()),
        "certificate": {key: certificate["rounding"][key] for key in ("allowance", "strength")},
        "certificate_smallest_margin": certificate["smallest_margin"],
    }


def bounded(
    trained: Trained, reach: Reach, place: Place, written: tuple[int, ...], contexts: set[Context]
) -> tuple[list[float], list[float]]:
    """Margins and rigorous bounds of contexts after the same digits, with tables of their own neighbourhoods."""
    states, carry = zip(*((one.states, one.carry) for one in sorted(contexts, key=repr)), strict=True)
    batch = Contexts(place, torch.tensor(states), torch.tensor(carry), written)
    offsets = [ahead for ahead in range(-reach.cross, reach.cross + 1) if place.column + ahead >= 1]
    codes = torch.cat([codes_of(batch, ahead, reach.encoder) for ahead in offsets]).unique()
    vocabulary = trained.task.vocabulary
    assert vocabulary.bos is not None and vocabulary.eos is not None
    write = Tables(trained.model, reach, vocabulary.bos, codes).writer(place, written)
    right = batch.right(vocabulary.eos)
    errors = write.passed(batch).difference_errors(right).amax(1)
    return margins_of(write.logits(batch), right).tolist(), errors.tolist()


def worst_contexts(reach: Reach, described: str) -> list[Numbers]:
    """Two numbers in which a described context occurs, for each carry into its lowest column that leads to it."""
    codes = {tuple(digits): code for code, digits in enumerate(STATES.tolist())}
    match = re.fullmatch(r"column (\d+).*: columns (.*) with carry (\d) into the one in brackets", described)
    assert match is not None
    columns = [re.findall(r"\d", column) for column in reversed(match[2].split())]
    states = tuple(codes[tuple(map(int, (*column, "-1", "-1")[:2]))] for column in columns)
    found = []
    for carry in (0, 1):
        place = Place(reach, int(match[1]), carry)
        into = carry
        for state in states[: place.n_below]:
            into = int(TOTAL[state] + into) // 10
        if into == int(match[3]):
            found.append(Context(place, states, into).numbers())
    return found


def random_sums(random: np.random.Generator, sums: int) -> Iterator[Numbers]:
    for a, b in random.integers(1, LONGEST + 1, size=(sums, 2)).tolist():
        first, second = random.integers(0, 10, size=a), random.integers(0, 10, size=b)
        yield proper(first), proper(second)


def near(random: np.random.Generator, worst: list[Numbers], sums: int) -> Iterator[Numbers]:
    """The worst sums, and others with up to three digits changed."""
    yield from worst
    for row in range(sums - len(worst)):
        changed = [np.array(number) for number in worst[row % len(worst)]]
        for _ in range(random.integers(1, 4)):
            number = changed[random.integers(2)]
            number[random.integers(len(number))] = random.integers(10)
        yield proper(changed[0]), proper(changed[1])


def proper(digits: np.ndarray) -> list[int]:
    """Digits, units first, without a leading 0 unless there is one digit."""
    found = [int(digit) for digit in digits]
    found[-1] = found[-1] or int(len(found) > 1)
    return found


if __name__ == "__main__":
    main()
