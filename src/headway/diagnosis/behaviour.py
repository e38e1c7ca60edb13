"""Checks of what the model answers: whether it answers at all, and whether a rule too simple explains it."""

from collections import Counter

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error, fine, warning
from headway.diagnosis.subject import widened
from headway.narration.numbers import percent
from headway.statistics import wilson_interval
from headway.tasks import Examples, SimpleRule

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
    """Answers depend on the input."""
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
            f"The answer is {shown} to all {n} {seen.measured} examples, and right in {percent(share)}: "
            "nothing is learned.",
            "Train longer or with another learning rate, or find what hides the input.",
            **numbers,
        )
    if len(given) == 1:
        return error(
            f"The answer is {shown} to all {n} {seen.measured} examples; the accuracy {percent(accuracy)} is the share "
            f"of examples with that target ({percent(share)}), nothing else.",
            "Do not report this accuracy; train longer, with another learning rate, or find what hides the input.",
            **numbers,
        )
    if count >= NEARLY * n and share < count / n - 0.1:
        return warning(
            f"The answer is {shown} in {percent(count / n)} of {n} {seen.measured} examples, "
            f"and right in {percent(share)}.",
            "Look at balanced accuracy; the model hardly uses its input.",
            **numbers,
        )
    return fine(f"{len(given)} different answers to {n} examples, the commonest in {percent(count / n)}.", **numbers)


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
    words = f"Accuracy {percent(right / n)} ({percent(low)} to {percent(high)}, {n} {seen.measured} examples)"
    if low > majority:
        return fine(f"{words}; the commonest target makes up {percent(majority)}.", **numbers)
    return warning(
        f"{words} is not above the share of the commonest target, {percent(majority)}.",
        "Train longer or change the recipe; of this model no head or length says anything.",
        **numbers,
    )


def never_emits(seen: Examination) -> Verdict | None:
    """Every token that targets need occurs in some answer."""
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
        f"{percent(right[needs].mean())} of those are right, {percent(elsewhere)} of the others.",
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
    """Every answer ends."""
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
        f"{endless} of {n} answers have no end: they stop only because decoding stops them; {percent(good)} of the "
        "tokens before the end are right.",
        "Let the loss see the end token in every target, and stop decoding at that very id; or train longer.",
        right_before_the_end=good,
        **numbers,
    )


def trivial_rule(seen: Examination) -> Verdict | None:
    """No rule simpler than the task explains the wrong answers."""
    rules = seen.task.simple_rules()
    if seen.answers is None or len(seen.sample) < FEWEST or not rules:
        return None
    verdicts = [_followed(seen, rule) for rule in rules]
    found = [verdict for verdict in verdicts if verdict is not None and verdict.level != "fine"]
    n = len(seen.sample)
    names = ", ".join(rule.does for rule in rules if rule.part is None)
    fallback = fine(f"{names}: explains none of {n} answers.", n=n)
    return found[0] if found else verdicts[0] or fallback


def _followed(seen: Examination, rule: SimpleRule) -> Verdict | None:
    if seen.is_class:
        return _follows_classes(seen, rule)
    return _follows_tokens(seen, rule) if rule.part is None else _only_a_part(seen, rule)


def _follows_tokens(seen: Examination, rule: SimpleRule) -> Verdict | None:
    """An error where the rule gives nearly all answers in which it contradicts the truth."""
    assert seen.answers is not None
    answer, eos = rule.answer(seen.sample.source), seen.task.vocabulary.eos
    pad, width = seen.task.vocabulary.pad, answer.shape[1]
    differs = (answer != widened(seen.target, width, pad)[:, :width]).any(1)
    alike = (widened(seen.answers, width, pad)[:, :width] == answer) | (answer == pad) | (answer == eos)
    count, agree = int(differs.sum()), int((alike.all(1) & differs).sum())
    if count < FEWEST or agree < EXPLAINS * count:
        return None
    return error(
        f"The model {rule.does}: that rule gives {agree} of the {count} answers where it contradicts the truth.",
        rule.fix,
        rule=rule.does,
        agree=agree,
        contradicted=count,
        n=len(seen.sample),
    )


def _only_a_part(seen: Examination, rule: SimpleRule) -> Verdict | None:
    """A warning where the part that the rule settles is right and the rest is near chance."""
    assert seen.answers is not None
    pad, eos, n = seen.task.vocabulary.pad, seen.task.vocabulary.eos, len(seen.sample)
    answer = widened(rule.answer(seen.sample.source), seen.target.shape[1], pad)[:, : seen.target.shape[1]]
    settled = (answer != pad) & (answer != eos)
    rest = ~settled & (seen.target != pad) & (seen.target != eos)
    good = seen.answers == seen.target
    part, others = float(good[settled].mean()), float(good[rest].mean()) if rest.any() else 1.0
    if part < EXPLAINS or others > 0.5:
        return None
    return warning(
        f"The {rule.part} is right in {percent(part)} of {n} answers, all else in {percent(others)}: "
        f"the rule that {rule.does} explains it.",
        rule.fix,
        **dict(zip(rule.keys or ("part", "others"), (part, others), strict=True)),
        right=float(_truly_right(seen).mean()),
        n=n,
    )


def _follows_classes(seen: Examination, rule: SimpleRule) -> Verdict:
    """A warning where the rule explains a classifier's answers of every class."""
    answers, said, n = np.asarray(seen.answers), rule.answer(seen.sample.source), len(seen.sample)
    classes = range(seen.task.n_classes)
    agree = [float((answers == label)[said == label].mean()) if (said == label).any() else 0.0 for label in classes]
    contradicted = int((said != seen.target).sum())
    keys = rule.keys or tuple(f"agree_{label}" for label in classes)
    numbers = {**dict(zip(keys, agree, strict=True)), "contradicted": contradicted, "n": n}
    shares, labels = (" and ".join(map(str, some)) for some in (map(percent, agree), classes))
    words = f"the rule that {rule.does} gives {shares} of the answers {labels}"
    if min(agree) < EXPLAINS or contradicted < FEWEST:
        return fine(f"No simpler rule explains {n} answers: {words} that it foretells.", **numbers)
    return warning(
        f"In {n} answers {words} that it foretells, though {contradicted} of them are wrong.", rule.fix, **numbers
    )


def ignores_an_operand(seen: Examination) -> Verdict | None:
    """Replacing either operand changes the answer."""
    decode, others = seen.subject.decode, seen.task.with_other_parts(seen.few.source)
    if decode is None or not others or len(seen.sample) < FEWEST:
        return None
    before, n, same = decode(seen.few, True), len(seen.few), {}
    for name, source in others.items():
        after = decode(Examples(source, seen.task.answer(source)), True)
        width = max(before.shape[1], after.shape[1])
        alike = widened(after, width, seen.pad) == widened(before, width, seen.pad)
        same[name] = float(alike.all(1).mean())
    worst, *rest = sorted(same, key=lambda name: -same[name])
    if same[worst] < EXPLAINS:
        words = f"With another {' or '.join(others)} at least {percent(1 - same[worst])} of {n} answers change."
        return fine(words, same=same[worst], n=n)
    if any(same[other] > HARDLY_READ for other in rest):
        return None  # no part is read much: it has not learned, which is another check's finding
    return error(
        f"{percent(same[worst])} of {n} answers stay the same with another {worst}: it is not read.",
        "Check that the source reaches the model whole: truncation, masks, positions.",
        operand=worst.removesuffix(" operand"),
        same=same[worst],
        n=n,
    )


def memorised(seen: Examination) -> Verdict | None:
    """Training examples are not answered far better than new ones."""
    train, held_out = (seen.accuracy_on(split) for split in ("train", "validation"))
    if train is None or held_out is None or min(train[1], held_out[1]) < FEWEST:
        return None
    (low, _), (_, high) = wilson_interval(*train), wilson_interval(*held_out)
    shares = train[0] / train[1], held_out[0] / held_out[1]
    numbers = {"train": shares[0], "validation": shares[1], "n_train": train[1], "n_validation": held_out[1]}
    first, second = map(percent, shares)
    words = f"{first} of {train[1]} training and {second} of {held_out[1]} validation examples are right"
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
