"""Checks of what the model answers: whether it answers at all, and whether a rule too simple explains it."""

from collections import Counter

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error, fine, warning
from headway.diagnosis.subject import widened
from headway.statistics import wilson_interval
from headway.tasks import Examples
from headway.tasks.addition import Addition
from headway.tasks.addition_text import AdditionText
from headway.tasks.columns import add, digit_columns, operands
from headway.tasks.sortedness import Sortedness

FEWEST = 20
"""Examples below which a share says too little for any of these checks."""
NEARLY = 0.98
"""A share of one answer from which on it is nearly the only one."""
RARE = 0.05
"""Share of right answers below which nobody takes a constant answer for a skill."""
EXPLAINS = 0.9
"""Share of the answers that contradict the truth and agree with a rule, from which on the rule is the explanation."""
HARDLY_READ = 0.5
"""Share of answers that stay the same, above which an operand does not count as read."""
RIGHT_ELSEWHERE = 0.5
"""Accuracy of all else, from which on never writing a token is a fault, not a lack of training."""
MEMORISED = 0.3
"""Points (of 1) that training is surely above validation: more than half-trained small models show."""
OVERFITTED = 0.05


def constant_answer(seen: Examination) -> Verdict | None:
    """Answers depend on the question."""
    if seen.answers is None or len(seen.sample) < FEWEST:
        return None
    given, wanted = (Counter(_keys(rows)) for rows in (seen.answers, seen.target))
    if len(wanted) < 2:
        return None
    answer, count = given.most_common(1)[0]
    n, share = len(seen.sample), wanted[answer] / len(seen.sample)
    assert seen.right is not None
    accuracy = float(seen.right.mean())
    row = _keys(seen.answers).index(answer)
    shown = _answer(seen, row)
    numbers = {"answer": shown, "share": count / n, "accuracy": accuracy, "target_share": share, "n": n}
    if len(given) == 1 and share < RARE:
        return warning(
            f"The answer is {shown} to all {n} {seen.measured} examples, and right in {share:.1%}: nothing is learned.",
            "Train longer or with another learning rate, or find what hides the input.",
            **numbers,
        )
    if len(given) == 1:
        return error(
            f"The answer is {shown} to all {n} {seen.measured} examples; the accuracy {accuracy:.1%} is the share of "
            f"examples with that target ({share:.1%}), nothing else.",
            "Do not report this accuracy; train longer, with another learning rate, or find what hides the input.",
            **numbers,
        )
    if count >= NEARLY * n and share < count / n - 0.1:
        return warning(
            f"The answer is {shown} in {count / n:.1%} of {n} {seen.measured} examples, and right in {share:.1%}.",
            "Look at balanced accuracy; the model hardly uses its input.",
            **numbers,
        )
    return fine(f"{len(given)} different answers to {n} examples, the commonest in {count / n:.1%}.", **numbers)


def _keys(rows: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in rows]


def _answer(seen: Examination, row: int) -> str:
    assert seen.answers is not None
    return str(int(seen.answers[row])) if seen.is_class else seen.shown(row, seen.answers[row]).rpartition("-> ")[2]


def no_better_than_guessing(seen: Examination) -> Verdict | None:
    """Accuracy is above the share of the commonest target."""
    if seen.right is None or len(seen.sample) < FEWEST:
        return None
    n, right = len(seen.sample), int(seen.right.sum())
    majority = Counter(_keys(seen.target)).most_common(1)[0][1] / n
    low, high = wilson_interval(right, n)
    numbers = {"accuracy": right / n, "interval": [low, high], "majority": majority, "n": n}
    words = f"Accuracy {right / n:.1%} ({low:.1%} to {high:.1%}, {n} {seen.measured} examples)"
    if low > majority:
        return fine(f"{words}; the commonest target makes up {majority:.1%}.", **numbers)
    return warning(
        f"{words} is not above the share of the commonest target, {majority:.1%}.",
        "Train longer or change the recipe; of this model no head or length says anything.",
        **numbers,
    )


def never_emits(seen: Examination) -> Verdict | None:
    """Every token that targets need is written by some answer."""
    if seen.answers is None or seen.is_class or len(seen.sample) < FEWEST:
        return None
    wanted = Counter(seen.target[seen.target != seen.task.vocabulary.pad].tolist())
    never = [
        token for token in sorted(wanted) if not (seen.answers == token).any() and token != seen.subject.vocabulary.eos
    ]
    needed = {token: (seen.target == token).any(1) for token in never}
    never = [token for token in never if needed[token].sum() >= FEWEST]
    if not never:
        return fine(
            f"Every token that {FEWEST} targets or more need is written somewhere ({len(seen.sample)} answers)."
        )
    needs = np.any([needed[token] for token in never], axis=0)
    right = _truly_right(seen)
    elsewhere = float(right[~needs].mean()) if (~needs).any() else 0.0
    names = ", ".join(seen.task.vocabulary.tokens[token] for token in never[:8])
    return (error if elsewhere >= RIGHT_ELSEWHERE else warning)(
        f"{names} is never written, though {int(needs.sum())} of {len(needs)} targets need it: "
        f"{right[needs].mean():.1%} of those are right, {elsewhere:.1%} of the others.",
        "Find out why the loss never asked for it (padding of the same id?), or train longer.",
        tokens=[seen.task.vocabulary.tokens[token] for token in never],
        needed=int(needs.sum()),
        right_elsewhere=elsewhere,
        n=len(needs),
    )


def _truly_right(seen: Examination) -> np.ndarray:
    """Whole answers compared token by token, whatever the subject's own scoring says."""
    assert seen.answers is not None
    if seen.is_class:
        return np.asarray(seen.answers == seen.target)
    return np.asarray(((seen.answers == seen.target) | (seen.target == seen.task.vocabulary.pad)).all(1))


def never_ends(seen: Examination) -> Verdict | None:
    """Every answer comes to an end."""
    eos = seen.task.vocabulary.eos
    if seen.answers is None or seen.is_class or eos is None or not (seen.target == eos).any():
        return None
    endless, n = int((~(seen.answers == eos).any(1)).sum()), len(seen.sample)
    numbers = {"endless": endless, "n": n}
    if not endless:
        return fine(f"All {n} answers end.", **numbers)
    inside = (seen.target != eos) & (seen.target != seen.task.vocabulary.pad)
    good = float((seen.answers == seen.target)[inside].mean())
    return (error if endless >= EXPLAINS * n and n >= FEWEST and good >= RIGHT_ELSEWHERE else warning)(
        f"{endless} of {n} answers have no end: they stop only because decoding stops them; {good:.1%} of the tokens "
        "before the end are right.",
        "Let the loss see the end token in every target, and stop decoding at that very id; or train longer.",
        right_before_the_end=good,
        **numbers,
    )


def trivial_rule(seen: Examination) -> Verdict | None:
    """No rule simpler than the task explains the wrong answers."""
    if seen.answers is None or len(seen.sample) < FEWEST:
        return None
    if isinstance(seen.task, Sortedness):
        return _ends_only(seen)
    if not isinstance(seen.task, Addition | AdditionText):
        return None
    rules = {"adds without carrying": _without_carries(seen)}
    right, n, eos = _truly_right(seen), len(seen.sample), seen.task.vocabulary.eos
    for rule, answer in rules.items():
        differs = (answer != seen.target).any(1)
        alike = (seen.answers[:, : answer.shape[1]] == answer) | (answer == seen.task.vocabulary.pad) | (answer == eos)
        count, agree = int(differs.sum()), int((alike.all(1) & differs).sum())
        if count >= FEWEST and agree >= EXPLAINS * count:
            return error(
                f"The model {rule}: that rule gives {agree} of the {count} answers where it contradicts the truth.",
                "Train longer, or on more sums with carries; the accuracy is that of the rule.",
                rule=rule,
                agree=agree,
                contradicted=count,
                n=n,
            )
    return _last_digit_only(seen, right) or fine(f"{', '.join(rules)}: explains none of {n} answers.", n=n)


def _ends_only(seen: Examination) -> Verdict:
    """A warning where comparing the first and the last element explains a classifier's answers of both classes."""
    answers, source, n = np.asarray(seen.answers), seen.sample.source, len(seen.sample)
    last = source[np.arange(n), (source != seen.pad).sum(1) - 1]
    rule = (last >= source[:, 0]).astype(np.int64)
    agree = [float((answers == label)[rule == label].mean()) if (rule == label).any() else 0.0 for label in (0, 1)]
    contradicted = int((rule != seen.target).sum())
    numbers = {"agree_unsorted": agree[0], "agree_sorted": agree[1], "contradicted": contradicted, "n": n}
    words = f"comparing the first and the last element gives {agree[0]:.1%} and {agree[1]:.1%} of the answers 0 and 1"
    if min(agree) < EXPLAINS or contradicted < FEWEST:
        return fine(f"No simpler rule explains {n} answers: {words} that it foretells.", **numbers)
    return warning(
        f"In {n} answers {words} that it foretells, though {contradicted} of them are wrong.",
        "Train longer, or on negatives whose ends are in order.",
        **numbers,
    )


def _without_carries(seen: Examination) -> np.ndarray:
    """The sums column by column with every carry dropped, written as the task writes its targets."""
    base = getattr(seen.task, "base", 10)
    a, b = operands(seen.sample.source, base, seen.operands_falling)
    dropped = (a + b) % base
    total, _ = add(a, b, base)
    columns = _columns_of_target(seen, total)
    digits = np.take_along_axis(np.pad(dropped, ((0, 0), (0, 1))), np.maximum(columns, 0), axis=1)
    return np.where(columns >= 0, digits, seen.target)


def _columns_of_target(seen: Examination, total: np.ndarray) -> np.ndarray:
    """The column of the sum that each target token stands for; -1 for the end and padding."""
    specials = (seen.task.vocabulary.pad, seen.task.vocabulary.eos)
    is_digit = ~np.isin(seen.target, [token for token in specials if token is not None])
    place = np.cumsum(is_digit, axis=1) - 1
    count = is_digit.sum(1, keepdims=True)
    columns = count - 1 - place if getattr(seen.task, "falling", True) else place
    return np.where(is_digit, np.minimum(columns, total.shape[1] - 1), -1)


def _last_digit_only(seen: Examination, right: np.ndarray) -> Verdict | None:
    """A warning where the units are right and every other digit is near chance."""
    assert seen.answers is not None
    base = getattr(seen.task, "base", 10)
    columns = _columns_of_target(seen, add(*operands(seen.sample.source, base, seen.operands_falling), base)[0])
    good = seen.answers == seen.target
    units, others = float(good[columns == 0].mean()), float(good[columns > 0].mean()) if (columns > 0).any() else 1.0
    if units < EXPLAINS or others > 0.5 or len(seen.sample) < FEWEST:
        return None
    return warning(
        f"The last digit is right in {units:.1%} of {len(seen.sample)} answers, all other digits in {others:.1%}: "
        "the rule that adds the units alone explains it.",
        "Train longer; the rest has not been learned yet.",
        units=units,
        others=others,
        right=float(right.mean()),
        n=len(seen.sample),
    )


def ignores_an_operand(seen: Examination) -> Verdict | None:
    """Another number in place of either operand changes the answer."""
    decode = seen.subject.decode
    if decode is None or not isinstance(seen.task, Addition | AdditionText) or len(seen.sample) < FEWEST:
        return None
    before, n, same = decode(seen.few, True), len(seen.few), {}
    for name, place in (("first", 0), ("second", 1)):
        after = decode(_other_digits(seen, place), True)
        width = max(before.shape[1], after.shape[1])
        alike = widened(after, width, seen.pad) == widened(before, width, seen.pad)
        same[name] = float(alike.all(1).mean())
    worst, other = sorted(same, key=lambda name: -same[name])
    if same[worst] < EXPLAINS:
        words = f"With other digits in either operand at least {1 - same[worst]:.1%} of {n} answers change."
        return fine(words, same=same[worst], n=n)
    if same[other] > HARDLY_READ:
        return None  # neither operand is read much: it has not learned, which is another check's finding
    return error(
        f"{same[worst]:.1%} of {n} answers stay the same with other digits in the {worst} operand: it is not read.",
        "Check that the source reaches the model whole: truncation, masks, positions.",
        operand=worst,
        same=same[worst],
        n=n,
    )


def _other_digits(seen: Examination, place: int) -> Examples:
    """The few examples with every digit of one operand moved up by one; a 9 becomes a 1, so that no zero leads."""
    source, base = seen.few.source, getattr(seen.task, "base", 10)
    second = np.cumsum(source == base, axis=1) > 0
    digit = (digit_columns(source, base) >= 0) & (second == bool(place))
    moved = np.where(source == base - 1, 1, source + 1)
    changed = np.where(digit, moved, source)
    return Examples(changed, seen.task.answer(changed))


def memorised(seen: Examination) -> Verdict | None:
    """Training examples are not answered far better than new ones."""
    train, held_out = (seen.accuracy_on(split) for split in ("train", "validation"))
    if train is None or held_out is None or min(train[1], held_out[1]) < FEWEST:
        return None
    (low, _), (_, high) = wilson_interval(*train), wilson_interval(*held_out)
    shares = train[0] / train[1], held_out[0] / held_out[1]
    numbers = {"train": shares[0], "validation": shares[1], "n_train": train[1], "n_validation": held_out[1]}
    words = f"{shares[0]:.1%} of {train[1]} training and {shares[1]:.1%} of {held_out[1]} validation examples are right"
    if low - high > MEMORISED:
        return warning(
            f"{words}: the training set is memorised.",
            "Report no accuracy on training examples. Train on more or on fresh examples; add dropout or decay.",
            **numbers,
        )
    if low - high > OVERFITTED:
        return warning(f"{words}: it fits training better.", "More or fresh training examples would help.", **numbers)
    return fine(f"{words}.", **numbers)


BEHAVIOUR = (
    Check("constant-answer", "model", constant_answer),
    Check("never-ends", "model", never_ends, ("constant-answer",)),
    Check("never-emits", "model", never_emits, ("constant-answer",)),
    Check("ignores-an-operand", "model", ignores_an_operand, ("constant-answer", "dropout-on")),
    Check("trivial-rule", "model", trivial_rule, ("constant-answer",)),
    Check("memorised", "model", memorised, ("split-overlap", "dropout-on")),
    Check("no-better-than-guessing", "model", no_better_than_guessing, ("constant-answer",)),
)
