"""Checks of the model's answers: whether they depend on the input, and whether a simpler rule explains them."""

from collections import Counter

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error, fine, warning
from headway.diagnosis.subject import widened
from headway.narration.numbers import percent
from headway.statistics import wilson_interval
from headway.tasks import Examples, SimpleRule

FEWEST = 20
"""Smallest number of examples for these checks."""
NEARLY = 0.98
"""Share of one answer from which it counts as nearly the only one."""
RARE = 0.05
"""Share of right answers below which a constant answer cannot pass for a skill."""
EXPLAINS = 0.9
"""A rule explains the answers if it gives at least this share of those where it contradicts the truth."""
HARDLY_READ = 0.5
"""An operand counts as unread if more than this share of answers stay the same when it changes."""
RIGHT_ELSEWHERE = 0.5
"""Accuracy on all other examples from which a token that is never written is a fault, not a lack of training."""
MEMORISED = 0.3
"""Lower bound of training accuracy less validation accuracy that counts as memorised; half-trained models have less."""
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
        "Train longer or change the recipe; do not analyse heads or lengths of this model.",
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
        "Find out why the loss ignores it (padding of the same id?), or train longer.",
        tokens=[seen.task.vocabulary.tokens[token] for token in never],
        needed=int(needs.sum()),
        right_elsewhere=elsewhere,
        n=len(needs),
    )


def _truly_right(seen: Examination) -> np.ndarray:
    """Exact match of whole answers, independent of the subject's own scoring."""
    assert seen.answers is not None
    if seen.is_class:
        return np.asarray(seen.answers == seen.target)
    return np.asarray(((seen.answers == seen.target) | (seen.target == seen.task.vocabulary.pad)).all(1))


def never_ends(seen: Examination) -> Verdict | None:
    """Every answer has an end token."""
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
        f"{endless} of {n} answers never end: decoding cuts them off at its limit; {percent(good)} of the "
        "tokens before the end are right.",
        "Include the end token of every target in the loss, and stop decoding at that id; or train longer.",
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
    """An error if the rule gives nearly all answers for which it contradicts the truth."""
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
    """A warning if the part of the answer that the rule determines is right and the rest is near chance."""
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
        f"The {rule.part} is right in {percent(part)} of {n} answers, the rest in {percent(others)}: "
        f"the rule that {rule.does} explains it.",
        rule.fix,
        **dict(zip(rule.keys or ("part", "others"), (part, others), strict=True)),
        right=float(_truly_right(seen).mean()),
        n=n,
    )


def _follows_classes(seen: Examination, rule: SimpleRule) -> Verdict:
    """A warning if the rule explains a classifier's answers of every class."""
    answers, said, n = np.asarray(seen.answers), rule.answer(seen.sample.source), len(seen.sample)
    classes = range(seen.task.n_classes)
    agree = [float((answers == label)[said == label].mean()) if (said == label).any() else 0.0 for label in classes]
    contradicted = int((said != seen.target).sum())
    keys = rule.keys or tuple(f"agree_{label}" for label in classes)
    numbers = {**dict(zip(keys, agree, strict=True)), "contradicted": contradicted, "n": n}
    shares, labels = (" and ".join(map(str, some)) for some in (map(percent, agree), classes))
    words = f"the rule that {rule.does} gives {shares} of the answers {labels}"
    if min(agree) < EXPLAINS or contradicted < FEWEST:
        return fine(f"No simpler rule explains {n} answers: {words} that it predicts.", **numbers)
    return warning(
        f"In {n} answers {words} that it predicts, though {contradicted} of them are wrong.", rule.fix, **numbers
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
        return None  # no part is read: another check reports a model that has not learned
    return error(
        f"{percent(same[worst])} of {n} answers stay the same with another {worst}: the model does not read it.",
        "Check that the whole source reaches the model: truncation, masks, positions.",
        operand=worst.removesuffix(" operand"),
        same=same[worst],
        n=n,
    )


def memorised(seen: Examination) -> Verdict | None:
    """Accuracy on training examples is not far above that on new ones."""
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
        return warning(
            f"{words}: it fits the training set better.", "More or fresh training examples would help.", **numbers
        )
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
