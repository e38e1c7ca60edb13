"""Where the reports' round numbers come from: the course's data, made again, and counted.

    python benchmarks/course_files.py --out docs/results/course-files.json

The course's public starter code draws both data sets with Python's `random`; this makes the same examples from a
description of it.

Addition: seeds 641, 642 and 643 for train, validation and test. A sum is two calls of randint(100, 999); an ordered
pair that the split already has is drawn again. Splits are not compared with each other.

Sortedness: 500 sequences for each length, seed 1641 + length. A row is a length, a coin for its class and its values,
sorted; an unsorted one then has max(2, length // 3) swaps of two places, and its ends are exchanged if it is still in
order (which is left out here: only classes are counted, and no draw follows).
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

SPLITS = {"train": (641, 10_000), "validation": (642, 2_000), "test": (643, 2_000)}
LENGTHS = (32, 64, 128, 256)
ROWS = 500


def sums(seed: int, n: int) -> list[tuple[int, int]]:
    """The pairs of one split, in the order in which they are drawn."""
    draw, found = random.Random(seed), dict[tuple[int, int], None]()
    while len(found) < n:
        found.setdefault((draw.randint(100, 999), draw.randint(100, 999)))
    return list(found)


def is_sorted_drawn(draw: random.Random, length: int) -> bool:
    """Draw one sequence, and say its class."""
    length = draw.randint(length, length)
    ordered = draw.random() < 0.5
    values = sorted(draw.randint(0, 99) for _ in range(length))
    if ordered:
        return True
    for _ in range(max(2, length // 3)):
        i, j = draw.sample(range(length), 2)
        values[i], values[j] = values[j], values[i]
    return False


def count(sums_of: list[tuple[int, int]]) -> dict[str, Any]:
    """What an otherwise perfect model would be credited with, by the mistake of its harness."""
    answers = [f"{a + b:04d}" for a, b in sums_of]
    n = len(answers)
    rules = {
        "below_1000": lambda answer: answer[0] == "0",
        "below_1000_no_other_zero": lambda answer: answer[0] == "0" and "0" not in answer[1:],
        "no_zero_in_last_three": lambda answer: "0" not in answer[1:],
        "no_zero": lambda answer: "0" not in answer,
    }
    return {"n": n} | {name: {"count": (k := sum(map(rule, answers))), "share": k / n} for name, rule in rules.items()}


def course_files() -> dict[str, Any]:
    splits = {name: sums(*how) for name, how in SPLITS.items()}
    train = set(splits["train"])
    either = train | {(b, a) for a, b in train}
    everything = [(a, b) for a in range(100, 1_000) for b in range(100, 1_000)]
    sorted_shares = {}
    for length in LENGTHS:
        draw = random.Random(1_641 + length)
        sorted_shares[str(length)] = sum(is_sorted_drawn(draw, length) for _ in range(ROWS)) / ROWS
    return {
        "what": "the course's data made again from its description; python benchmarks/course_files.py",
        "addition": {name: count(rows) for name, rows in splits.items()} | {"all pairs": count(everything)},
        "test_also_in_train": {
            "as_written": sum(pair in train for pair in splits["test"]),
            "either_way_round": sum(pair in either for pair in splits["test"]),
        },
        "sorted_share": sorted_shares,
        "unsorted_share": {length: 1 - share for length, share in sorted_shares.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    found = json.dumps(course_files(), indent=1)
    if out := parser.parse_args().out:
        out.write_text(found + "\n")
    print(found)
