"""Checks of the data: faults of the examples, independent of any model."""

from collections import Counter
from itertools import pairwise

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error, fine, warning
from headway.diagnosis.subject import bare_rows, widened
from headway.narration.numbers import percent
from headway.tasks import Examples
from headway.tasks.splits import overlaps

REPEATED = 0.05
"""Share of repeats that is allowed: 10,000 random sums out of 810,000 repeat 0.6 %, so 5 % has another cause."""
LENGTH_TELLS = 0.1
"""Accuracy gained by guessing the class from the length alone: 10 points can pass for a trained model."""
LOPSIDED = 0.75
"""Share of one class from which plain accuracy misleads."""
ORDINARY_LUCK = 3.9
"""Standard errors that chance exceeds once in 10,000 data sets."""

FEWEST_SORTED = 20
"""Smallest number of examples for the check of order; chance sorts them with probability 1 / 20!."""
IN_ORDER = 0.95
"""Share of ordered neighbours that random order never reaches; its expectation is one half."""
NARROW = 0.3
"""Total variation between first tokens from which a split counts as unrepresentative; samples of 100 differ by 0.15."""


def special_token_is_symbol(seen: Examination) -> Verdict | None:
    """No special token (padding, start, end) is also a symbol of the task or another special token."""
    vocabulary, own = seen.subject.vocabulary, seen.task.vocabulary
    specials = {"padding": vocabulary.pad, "start": vocabulary.bos, "end": vocabulary.eos}
    there = {name: token for name, token in specials.items() if token is not None}
    symbols = set(range(len(own))) - {own.pad, own.bos, own.eos}
    taken = {name: token for name, token in there.items() if token in symbols}
    doubled = [name for name, token in there.items() if list(there.values()).count(token) > 1]
    if taken:
        name, token = next(iter(taken.items()))
        count, n = _rows_with(seen.sample, token)
        return error(
            f"The {name} id {token} is also the symbol {own.tokens[token]!r}, which occurs in {count:,} of {n:,} "
            f"{seen.measured} targets or sources; code that ignores one ignores the other.",
            f"Give {name} its own id, above all symbols.",
            token=token,
            symbol=own.tokens[token],
            rows=count,
            n=n,
        )
    if doubled:
        return error(
            f"{' and '.join(doubled)} share the id {there[doubled[0]]}.",
            "Give each special token its own id.",
            token=there[doubled[0]],
        )
    return fine(f"{len(there)} special tokens, each with its own id.", **there)


def _rows_with(examples: Examples, token: int) -> tuple[int, int]:
    """The number of rows with a token in the target or, for class targets, in the source; and the number of rows."""
    rows = examples.target if examples.target.ndim == 2 else examples.source
    return int((rows == token).any(1).sum()), len(examples)


def split_overlap(seen: Examination) -> Verdict | None:
    """No problem occurs in two splits."""
    splits = seen.subject.splits
    if len(splits) < 2:
        return None
    shared = overlaps(seen.task, splits)
    sizes = {name: len(examples) for name, examples in splits.items()}
    if not shared:
        return fine(f"No problem is in two of {', '.join(f'{name} ({n:,})' for name, n in sizes.items())}.", **sizes)
    counts = "; ".join(f"{pair}: {count:,} of {sizes[pair.split(' and ')[1]]:,}" for pair, count in shared.items())
    given = {name: set(bare_rows(seen.task, examples.source)) for name, examples in splits.items()}
    same = sum(len(given[one] & given[other]) for one, other in (pair.split(" and ") for pair in shared))
    words = f" ({same:,} as given, the rest up to a + b = b + a)" * (same < sum(shared.values()) and not seen.is_class)
    return error(
        f"Examples of the second split that are also in the first: {counts}{words}. Accuracy there is partly "
        "memorisation.",
        "Remove the shared problems from training (a + b and b + a are one problem), and train again.",
        **shared,
    )


def oracle_contradicts_targets(seen: Examination) -> Verdict | None:
    """Every target is the oracle's answer."""
    if seen.subject.oracle is None:
        return None
    wrong, n, shifted, first = 0, 0, 0, ""
    for name, examples in seen.subject.splits.items():
        right = _alike(seen.subject.oracle(examples.source), examples.target, seen.pad)
        bad = np.flatnonzero(~right[0])
        shifted += max(int((np.roll(right[1], by, axis=0) == right[2]).all(1).sum()) for by in (-1, 1))
        if len(bad) and not first:
            row = int(bad[0])
            first = f"{name}[{row}]: {seen.task.show(examples.source[row], examples.target[row])}"
        wrong, n = wrong + len(bad), n + len(examples)
    if not wrong:
        return fine(f"All {n:,} targets are the oracle's answers.", wrong=0, n=n)
    moved = shifted > n - wrong and shifted > n / 2
    why = f" {shifted:,} are the right answer of a neighbouring row: the targets are shifted by one." * moved
    return error(
        f"{wrong:,} of {n:,} targets contradict the oracle, first {first}.{why}",
        "Shift the targets back." if moved else "Correct the targets, or the program that wrote them.",
        wrong=wrong,
        n=n,
        shifted_by_one=shifted if moved else 0,
    )


def _alike(one: np.ndarray, other: np.ndarray, pad: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which rows are equal, and both arrays padded to one width."""
    if one.ndim == 1:
        return one == other, one[:, None], other[:, None]
    width = max(one.shape[1], other.shape[1])
    one, other = widened(one, width, pad), widened(other, width, pad)
    return (one == other).all(1), one, other


def duplicates(seen: Examination) -> Verdict | None:
    """No source occurs twice in a split."""
    repeats = {}
    for name, examples in seen.subject.splits.items():
        keys = Counter(bare_rows(seen.task, examples.source))
        repeats[name] = len(examples) - len(keys)
    sizes = {name: len(examples) for name, examples in seen.subject.splits.items()}
    if not any(repeats.values()):
        return fine(f"No source occurs twice in its split ({sum(sizes.values()):,} examples).", **repeats)
    counts = ", ".join(f"{repeats[name]:,} of {sizes[name]:,} in {name}" for name in sizes if repeats[name])
    many = any(repeats[name] >= REPEATED * sizes[name] for name in sizes)
    return (error if many else warning)(
        f"Examples that repeat an earlier one of their split: {counts}. They are counted as new examples in every n.",
        "Remove the repeats; intervals assume independent examples.",
        **repeats,
    )


def label_imbalance(seen: Examination) -> Verdict | None:
    """The class cannot be guessed from its frequency or from the sequence length."""
    if not seen.is_class:
        return None
    found = {name: _guessing(seen, examples) for name, examples in seen.subject.splits.items()}
    worst = max(found, key=lambda name: found[name][1] - found[name][0])
    majority, by_length, n = found[worst]
    gain, luck = by_length - majority, ORDINARY_LUCK * 0.5 / np.sqrt(n)
    numbers = {"split": worst, "majority": majority, "by_length": by_length, "n": n}
    if gain > LENGTH_TELLS + luck:
        return error(
            f"In {worst} the length alone gives the class in {percent(by_length)} of {n:,} examples (the commoner "
            "class: "
            f"{percent(majority)}).",
            "Draw as many examples of each class at every length.",
            **numbers,
        )
    lopsided = {name: share for name, (share, _, _) in found.items() if share > LOPSIDED}
    if lopsided:
        words = ", ".join(f"{percent(share)} in {name}" for name, share in lopsided.items())
        return warning(
            f"One class makes up {words}: a constant answer has that accuracy.",
            "Balance the classes, or report balanced accuracy.",
            **numbers,
        )
    return fine(
        f"The commoner class makes up at most {percent(max(share for share, _, _ in found.values()))} of a split, and "
        f"length alone gives {percent(by_length)} at most.",
        **numbers,
    )


def _guessing(seen: Examination, examples: Examples) -> tuple[float, float, int]:
    """The share of the most common class, and the accuracy of guessing the most common class of each length."""
    length = (examples.source != seen.pad).sum(1)
    best = [np.bincount(examples.target[length == one]).max() for one in np.unique(length)]
    return float(np.bincount(examples.target).max() / len(examples)), float(sum(best) / len(examples)), len(examples)


def sorted_sample(seen: Examination) -> Verdict | None:
    """No split is in sorted order."""
    found = {name: _in_order(seen, some) for name, some in seen.subject.splits.items() if len(some) >= FEWEST_SORTED}
    if not found:
        return None
    numbers = {f"{name}_in_order": share for name, share in found.items()}
    ordered = [name for name, share in found.items() if share >= IN_ORDER]
    if not ordered:
        return fine("No split is in sorted order.", **numbers)
    narrow = {name: _narrower(seen, name) for name in ordered}
    worst = max(ordered, key=lambda name: narrow[name])
    words = f"The {len(seen.subject.splits[worst]):,} examples of {worst} are in sorted order"
    if narrow[worst] <= NARROW:
        return warning(f"{words}.", "Shuffle them, so that a part of them is a random sample.", **numbers)
    return error(
        f"{words}, and their first tokens differ from those of the other splits by {percent(narrow[worst])} (total "
        "variation): they are not a random sample.",
        "Shuffle before splitting; results on this split do not hold for the other data.",
        split=worst,
        narrower=narrow[worst],
        **numbers,
    )


def _in_order(seen: Examination, examples: Examples) -> float:
    """The share of neighbours in sorted order, by tokens or by length and then tokens, whichever is larger."""
    rows = [row[row != seen.pad].tolist() for row in examples.source]
    orders = (rows, [[len(row), *row] for row in rows])
    return max(sum(one <= other for one, other in pairwise(keys)) / (len(keys) - 1) for keys in orders)


def _narrower(seen: Examination, split: str) -> float:
    """The total variation between first tokens (and lengths) of a split and of all other splits."""
    rest = [some for name, some in seen.subject.splits.items() if name != split]
    if not rest:
        return 1.0
    own, others = seen.subject.splits[split], Examples.join(rest, seen.task.vocabulary.pad)

    def shares(values: np.ndarray) -> dict[int, float]:
        return {value: count / len(values) for value, count in Counter(values.tolist()).items()}

    sides = [(some.source[:, 0], (some.source != seen.pad).sum(1)) for some in (own, others)]
    apart = []
    for one, other in zip(*sides, strict=True):
        mine, theirs = shares(one), shares(other)
        apart.append(sum(abs(mine.get(key, 0) - theirs.get(key, 0)) for key in {*mine, *theirs}) / 2)
    return max(apart)


def unseen_in_training(seen: Examination) -> Verdict | None:
    """Every token and position of the measured split occurs in training."""
    train, tested = seen.subject.splits.get("train"), seen.subject.splits[seen.measured]
    if train is None or seen.measured == "train":
        return None
    new = np.setdiff1d(tested.source, [*np.unique(train.source), seen.pad])
    longest = {name: int((some.source != seen.pad).sum(1).max()) for name, some in (("train", train), ("test", tested))}
    beyond = (tested.source != seen.pad) & (np.arange(tested.source.shape[1]) >= longest["train"])
    rows = int((np.isin(tested.source, new) | beyond).any(1).sum())
    names = [seen.task.vocabulary.tokens[token] for token in new if token < len(seen.task.vocabulary)]
    numbers = {"tokens": names, "longest_train": longest["train"], "longest_test": longest["test"], "n": len(tested)}
    if not len(new) and longest["test"] <= longest["train"]:
        return fine(f"Every token and position of {len(tested):,} {seen.measured} examples is in training.", **numbers)
    parts = [f"{len(new)} tokens ({', '.join(names[:8])})"] * bool(len(new))
    parts += [f"positions {longest['train'] + 1} to {longest['test']}"] * (longest["test"] > longest["train"])
    return warning(
        f"{' and '.join(parts)} of {seen.measured} never occur in {len(train):,} training examples.",
        "Train on more examples, or report that this part of the test was never seen in training.",
        rows=rows,
        **numbers,
    )


DATA = (
    Check("special-token-is-symbol", "data", special_token_is_symbol),
    Check("oracle-contradicts-targets", "data", oracle_contradicts_targets),
    Check("split-overlap", "data", split_overlap),
    Check("duplicate-examples", "data", duplicates),
    Check("sorted-sample", "data", sorted_sample),
    Check("label-imbalance", "data", label_imbalance),
    Check("unseen-in-training", "data", unseen_in_training),
)
