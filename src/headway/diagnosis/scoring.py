"""Checks of given answers against their targets: shifted, reversed, exchanged, cut, or independent of the input."""

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error
from headway.narration.numbers import percent
from headway.statistics import above_share
from headway.tasks.columns import operands

SHIFTED = 0.5
"""Share of answers that must match a shifted target before they count as shifted."""
FEW_WRONG = 10
"""Fewer wrong answers than this show no pattern."""
MENDED, MENDED_BY = 0.5, 0.2
"""Smallest accuracy with digits exchanged back, and smallest gain over the accuracy before."""
IMPROBABLE = 1e-4
"""Probability of so many wrong classes below which it is not chance."""
REST_RIGHT = 0.5
"""Share of answers that must be right after the first digit; otherwise another fault comes first."""


def answers_shifted(seen: Examination) -> Verdict | None:
    """Answers are not shifted by one token, as those of a decoder without a start token are."""
    if seen.is_class or seen.answers is None:
        return None
    written, wanted = _without_ends(seen)
    pairs = [(one, other) for one, other in zip(written, wanted, strict=True) if len(other) > 1]
    early = [len(one) >= len(other) - 1 and (one[: len(other) - 1] == other[1:]).all() for one, other in pairs]
    own = [len(one) >= len(other) and (one[: len(other)] == other).all() for one, other in pairs]
    n = len(pairs)
    if n < FEW_WRONG or np.mean(early) < SHIFTED or np.mean(early) < np.mean(own) + SHIFTED:
        return None
    short = sum(len(one) == len(other) - 1 for one, other in pairs)
    return error(
        f"{sum(early):,} of {n:,} answers equal their target from its second token on, {sum(own):,} the whole target; "
        f"{short:,} have one token less. That is the output of a decoder trained on target[:-1] -> target[1:]: the "
        "first token is given to it, not predicted.",
        "Put a start token before the target, train on [start, *target[:-1]] -> target, and decode from that token.",
        early=int(sum(early)),
        own=int(sum(own)),
        shorter=short,
        n=n,
    )


def _without_ends(seen: Examination) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Answers and targets, each up to its end token."""
    assert seen.answers is not None
    eos = seen.task.vocabulary.eos
    written = [
        row[: np.flatnonzero(row == eos)[0]] if (row == eos).any() else row[row != seen.pad] for row in seen.answers
    ]
    return written, [row[(row != eos) & (row != seen.pad)] for row in seen.target]


def answers_reversed(seen: Examination) -> Verdict | None:
    """Answers are not reversed against their targets."""
    if seen.is_class or seen.answers is None or seen.right is None or len(seen.sample) < FEW_WRONG:
        return None
    pairs = zip(*_without_ends(seen), strict=True)
    turned = np.array([np.array_equal(one[::-1], other) for one, other in pairs])
    if turned.mean() < SHIFTED or turned.mean() < seen.right.mean() + SHIFTED:
        return None
    return error(
        f"{int(turned.sum()):,} of {len(turned):,} answers are their target reversed, and "
        f"{int(seen.right.sum()):,} are the target itself.",
        "Write answers and targets in the same order before comparing them.",
        reversed=int(turned.sum()),
        accuracy=float(seen.right.mean()),
        n=len(turned),
    )


def answers_permuted(seen: Examination) -> Verdict | None:
    """Symbols mean the same in answers and targets: no two are exchanged."""
    if seen.answers is None or seen.right is None or len(seen.sample) < FEW_WRONG:
        return None
    if seen.is_class:
        return _classes_exchanged(seen)
    width = min(seen.answers.shape[1], seen.target.shape[1])
    answers, target = seen.answers[:, :width], seen.target[:, :width]
    counts = np.zeros((10, 10), dtype=np.int64)
    inside = (answers < 10) & (target < 10)
    np.add.at(counts, (target[inside], answers[inside]), 1)
    needed = counts.sum(1) >= FEW_WRONG
    best = np.where(needed, counts.argmax(1), np.arange(10))
    changed = np.flatnonzero(best != np.arange(10))
    sure = counts[np.arange(10), best] >= 0.8 * np.maximum(counts.sum(1), 1)
    if not len(changed) or len(set(best.tolist())) < 10 or not sure[changed].all():
        return None
    back = np.arange(max(int(seen.answers.max()), 10) + 1)
    back[best] = np.arange(10)
    mended = ((back[answers] == target) | (target == seen.pad)).all(1)
    if mended.mean() < MENDED or mended.mean() < seen.right.mean() + MENDED_BY:
        return None
    names = ", ".join(f"{one} for {best[one]}" for one in changed[:5])
    return error(
        f"Digits are exchanged in the answers (read {names}): {percent(seen.right.mean())} are right as given, and "
        f"{percent(mended.mean())} of {len(mended):,} with the digits exchanged back.",
        "Compare the vocabulary that decodes the answers with the one that encodes the targets.",
        exchanged={str(one): int(best[one]) for one in changed},
        accuracy=float(seen.right.mean()),
        mended=float(mended.mean()),
        n=len(mended),
    )


def _classes_exchanged(seen: Examination) -> Verdict | None:
    assert seen.right is not None
    wrong, n = int((~seen.right).sum()), len(seen.right)
    majority = float(max(seen.target.mean(), 1 - seen.target.mean()))
    if len(np.unique(np.asarray(seen.answers))) < 2 or above_share(wrong, n, majority) > IMPROBABLE:
        return None
    return error(
        f"{wrong:,} of {n:,} answers are wrong, far more than by guessing: the classes 0 and 1 are exchanged. "
        f"Exchanged back, the accuracy is {percent(wrong / n)}.",
        "Find out what 0 and 1 mean in the targets and in the answers.",
        accuracy=1 - wrong / n,
        mended=wrong / n,
        n=n,
    )


def first_digit_never_predicted(seen: Examination) -> Verdict | None:
    """The first digit of the answers varies if that of the targets varies."""
    if seen.is_class or seen.answers is None or seen.right is None:
        return None
    written, right = seen.answers[:, 0], seen.target[:, 0]
    other = right != written[0]
    if len(np.unique(written)) > 1 or other.sum() < FEW_WRONG:
        return None
    rest = ((seen.answers == seen.target) | (seen.target == seen.pad))[other, 1:].all(1)
    if rest.mean() < REST_RIGHT:
        return None
    token = seen.task.vocabulary.tokens[written[0]]
    return error(
        f"All {len(written):,} answers begin with {token}; {int(other.sum()):,} ({percent(other.mean())}) should "
        f"not, and those are all wrong. Accuracy is {percent(seen.right.mean())} and can be at most "
        f"{percent(1 - other.mean())}.",
        "Give the decoder a start token, so that the first digit is predicted and not given.",
        first=token,
        should_differ=int(other.sum()),
        n=len(written),
        accuracy=float(seen.right.mean()),
    )


def zeros_not_scored(seen: Examination) -> Verdict | None:
    """Zeros are written where they belong, so that answers are not wrong only at zeros."""
    if seen.is_class or seen.answers is None or seen.right is None or seen.task.vocabulary.tokens[0] != "0":
        return None
    if (left_out := _zeros_left_out(seen)) is not None:
        return left_out
    zero = (seen.target == 0) & (np.arange(seen.target.shape[1]) > 0)
    hit = int((zero & (seen.answers == 0)).sum())
    wrong = (seen.answers != seen.target) & (seen.target != seen.pad)
    only_there = (wrong & zero).any(1) & ~(wrong & ~zero).any(1)
    if zero.sum() < FEW_WRONG or hit > zero.sum() / 10 or only_there.sum() < FEW_WRONG:
        return None
    elsewhere = ~(wrong & ~zero).any(1)
    return error(
        f"A 0 is written at {hit:,} of the {int(zero.sum()):,} positions after the first digit that need one, and "
        f"{int(only_there.sum()):,} answers are wrong only there. Without scoring zeros, accuracy is "
        f"{percent(elsewhere.mean())}; with every digit scored it is {percent(seen.right.mean())}.",
        "Use a padding id that is not a digit, so that loss and score include the digit 0.",
        zeros=int(zero.sum()),
        written=hit,
        without_zeros=float(elsewhere.mean()),
        accuracy=float(seen.right.mean()),
        n=len(seen.target),
    )


def _zeros_left_out(seen: Examination) -> Verdict | None:
    """Answers from which every 0 was removed as if it were padding."""
    assert seen.right is not None
    pairs = zip(*_without_ends(seen), strict=True)
    bare = np.array([np.array_equal(one[one != 0], other[other != 0]) for one, other in pairs])
    wrong, only = ~seen.right, ~seen.right & bare
    if only.sum() < FEW_WRONG or only.sum() < wrong.sum() / 2:
        return None
    return error(
        f"{int(only.sum()):,} of {int(wrong.sum()):,} wrong answers equal their target except for its zeros, which "
        f"are missing or elsewhere. Accuracy is {percent(seen.right.mean())}, and {percent(bare.mean())} "
        "if zeros are ignored.",
        "Use a padding id that is not a digit, so that removing padding keeps zeros.",
        zeros_only=int(only.sum()),
        wrong=int(wrong.sum()),
        accuracy=float(seen.right.mean()),
        without_zeros=float(bare.mean()),
        n=len(bare),
    )


def ignores_an_operand(seen: Examination) -> Verdict | None:
    """Sums that share one operand do not all have the same answer."""
    if seen.is_class or seen.answers is None or (seen.answers == seen.answers[0]).all():
        return None
    first, second = operands(seen.sample.source, 10, seen.operands_falling)
    for name, kept in (("second", first), ("first", second)):
        pairs, alike = _alike_pairs(kept, seen.answers), _alike_pairs(kept, seen.target)
        if pairs[1] >= FEW_WRONG and pairs[0] == pairs[1] and alike[0] < alike[1] / 2:
            other = "first" if name == "second" else "second"
            return error(
                f"All {pairs[1]:,} neighbouring pairs of sums with the same {other} operand get the same answer; "
                f"{alike[0]:,} should. The {name} operand is not read.",
                "Check that the whole source reaches the model: truncation, masks, positions.",
                operand=name,
                pairs=pairs[1],
                should_agree=alike[0],
            )
    return None


def _alike_pairs(kept: np.ndarray, answers: np.ndarray) -> tuple[int, int]:
    """The number of pairs of rows that share an operand and the answer, and that share an operand."""
    order = np.lexsort(kept.T)
    same = (np.diff(kept[order], axis=0) == 0).all(1)
    equal = (np.diff(answers[order], axis=0) == 0).all(1)
    return int((same & equal).sum()), int(same.sum())


SCORING = (
    Check("answers-shifted", "harness", answers_shifted),
    Check("answers-reversed", "harness", answers_reversed),
    Check("answers-permuted", "harness", answers_permuted, unless=("answers-reversed",)),
    Check("zeros-not-scored", "harness", zeros_not_scored, unless=("answers-shifted",)),
    Check("first-digit-never-predicted", "harness", first_digit_never_predicted, unless=("answers-shifted",)),
    Check("operand-not-read", "model", ignores_an_operand),
)
