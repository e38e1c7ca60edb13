"""A visit of a file of predictions: where its examples come from, how they were scored, and what the answers are.

The file is a subject without a model, so every check that needs only examples and answers examines it too.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error, run_checks
from headway.diagnosis.foreign import ForeignData, Predictions, read_data, read_predictions, same_answers
from headway.diagnosis.material import diagnosis_of, not_examined
from headway.diagnosis.subject import Subject, score_of
from headway.diagnosis.visit import CHECKS
from headway.results.doctor import Diagnosis, Finding
from headway.statistics import above_share
from headway.tasks import Examples
from headway.tasks.base import Task
from headway.tasks.columns import operands

SHIFTED = 0.5
"""Share of answers that must fit the next or the previous example before they count as shifted."""
FEW_WRONG = 10
"""Fewer wrong answers than this show no pattern."""
FEWEST_AT_A_LENGTH = 20
"""Answers at one length below which a single class may be chance."""
MENDED, MENDED_BY = 0.5, 0.2
"""Share of right answers once digits are put back, and by how much that must be more than before."""
IMPROBABLE = 1e-4
"""Chance of so many wrong classes, below which it is no accident."""
MOSTLY = 0.5
"""Share of right answers below which most are wrong, and something should explain that."""
FEW_EXAMPLES = 0.05
"""Share of wrong targets below which what the answers are matters more."""
REST_RIGHT = 0.5
"""Share of answers that must be right after the first digit; where fewer are, something else is wrong first."""


def examine_predictions(predictions: Path, data: Path) -> Diagnosis:
    """The diagnosis of another program's answers to examples of a data directory."""
    found = read_data(data)
    given = read_predictions(predictions, found)
    subject = subject_of_predictions(predictions.name, found, given)
    checks = (*SCORING, *(check for check in CHECKS if check.name != "special-token-is-symbol"))
    findings = [*not_examined(found), *_origins(found, given), *_one_answer_at_lengths(found, given)]
    told = {finding.check for finding in findings if finding.level == "error"}
    more = sorted(run_checks(checks, Examination(subject, len(given))), key=_is_small)
    findings += [finding for finding in more if not (finding.level == "fine" and finding.check in told)]
    findings += _mostly_wrong(found, given, findings)
    return diagnosis_of(predictions, found, findings)


def _is_small(finding: Finding) -> bool:
    """Whether a fault of the data touches so few examples that it explains no accuracy; it then stands last."""
    if finding.check == "oracle-contradicts-targets":
        return bool(finding.numbers.get("wrong", 0) < FEW_EXAMPLES * finding.numbers["n"])
    return finding.check in ("split-overlap", "duplicate-examples")


def subject_of_predictions(name: str, data: ForeignData, given: Predictions) -> Subject:
    """A subject whose test split is what was predicted, with the targets of the predictions' file."""
    known = set(_keys(data.task, given.examples))
    others = {split: some for split, some in data.splits.items() if not known & set(_keys(data.task, some))}
    kept = {split: some for split, some in data.splits.items() if data.role(split) != "test"}
    return Subject(
        name=name,
        task=data.task,
        vocabulary=data.task.vocabulary,
        splits={**kept, **others, "test": given.examples},
        score=score_of(data.task),
        oracle=data.task.answer,
        predictions={"test": given.answers},
    )


def _keys(task: Task, examples: Examples) -> list[bytes]:
    return [row[row != task.vocabulary.pad].tobytes() for row in examples.source]


def _origins(data: ForeignData, given: Predictions) -> Iterable[Finding]:
    """Where the predicted examples stand in the data, and whether the targets are the data's."""
    task, keys = data.task, _keys(data.task, given.examples)
    files = {split: set(_keys(task, some)) for split, some in data.splits.items()}
    nowhere = [row for row, key in enumerate(keys) if not any(key in found for found in files.values())]
    if nowhere:
        shown = task.show(given.examples.source[nowhere[0]])
        yield Finding(
            "predictions-not-in-data",
            "error",
            "data",
            f"{len(nowhere):,} of {len(given):,} predictions are for examples that no file of the data holds "
            f"(first: {shown:.80}).",
            {"not_in_data": len(nowhere), "n": len(given)},
            "Give the directory that the predictions were made on.",
        )
    yield from _empty(data, given)
    yield from _of_training(data, keys, files)
    yield from _other_targets(data, given, keys)
    yield from _shifted(data, given)
    yield from _left_out(data, keys)


def _empty(data: ForeignData, given: Predictions) -> Iterable[Finding]:
    """Predictions that hold no answer at all."""
    if data.task.kind == "class":
        return
    empty = int((given.answers[:, 0] == data.task.vocabulary.eos).sum())
    if empty:
        yield Finding(
            "predictions-empty",
            "error" if empty > len(given) / 2 else "warning",
            "harness",
            f"{empty:,} of {len(given):,} predictions are empty, or begin with what is no symbol of an answer.",
            {"empty": empty, "n": len(given)},
            "Write the answer alone, without a start token before it.",
        )


def _of_training(data: ForeignData, keys: list[bytes], files: dict[str, set[bytes]]) -> Iterable[Finding]:
    tests = set().union(*(files[split] for split in data.tests()))
    training = set().union(*(found for split, found in files.items() if data.role(split) == "train"))
    trained = sum(key in training and key not in tests for key in keys)
    if trained and tests != training:
        yield Finding(
            "predictions-of-training-examples",
            "error",
            "data",
            f"{trained:,} of {len(keys):,} predictions are for examples of train.json that are in no test file.",
            {"in_training": trained, "n": len(keys)},
            "Measure on the test files; accuracy on training examples is memory.",
        )


def _other_targets(data: ForeignData, given: Predictions, keys: list[bytes]) -> Iterable[Finding]:
    task = data.task
    everything = Examples.join(list(data.splits.values()), task.vocabulary.pad)
    row_of = {key: row for row, key in enumerate(_keys(task, everything))}
    rows = np.array([row for row, key in enumerate(keys) if key in row_of], dtype=np.int64)
    theirs = everything.target[[row_of[keys[row]] for row in rows]]
    wrong = int((~same_answers(task, given.examples.target[rows], theirs)).sum()) if len(rows) else 0
    if wrong:
        yield Finding(
            "targets-differ-from-data",
            "error",
            "data",
            f"{wrong:,} of {len(rows):,} targets are not those that the data gives for the same example.",
            {"different": wrong, "n": len(rows)},
            "Write the data's own targets beside the predictions.",
        )


def _shifted(data: ForeignData, given: Predictions) -> Iterable[Finding]:
    """Answers that fit the next or the previous row far better than their own."""
    own = same_answers(data.task, given.answers, given.examples.target).mean()
    for by, where in ((-1, "previous"), (1, "next")):
        fits = same_answers(data.task, given.answers, np.roll(given.examples.target, -by, axis=0)).mean()
        if data.task.kind == "sequence" and fits > own + SHIFTED:
            yield Finding(
                "predictions-shifted",
                "error",
                "harness",
                f"{fits:.1%} of the predictions are the answer of the {where} line, and {own:.1%} of their own.",
                {"shifted": float(fits), "own": float(own), "n": len(given)},
                "Write each prediction beside the example that it answers.",
            )


def _left_out(data: ForeignData, keys: list[bytes]) -> Iterable[Finding]:
    predicted = set(keys)
    for split, examples in data.tests().items():
        there = sum(key in predicted for key in _keys(data.task, examples))
        if 0 < there < len(examples):
            yield Finding(
                "examples-left-out",
                "warning",
                "data",
                f"{there:,} of the {len(examples):,} examples of {split} have a prediction.",
                {"predicted": there, "n": len(examples), "split": split},
                "Predict all of them, or say how these were chosen.",
            )


def _mostly_wrong(data: ForeignData, given: Predictions, findings: list[Finding]) -> Iterable[Finding]:
    """Whole answers of which fewer than half are right, where nothing found explains it: nobody should read `fine`."""
    task, right = data.task, same_answers(data.task, given.answers, given.examples.target)
    if task.kind == "class" or right.mean() >= MOSTLY or any(finding.level == "error" for finding in findings):
        return
    rows = [(given.examples.source[row], given.answers[row]) for row in np.flatnonzero(~right)[:3]]
    shown = "; ".join(f"{task.show(source)} is answered {_spelled(task, answer)}" for source, answer in rows)
    yield Finding(
        "not-explained",
        "warning",
        "model",
        f"{int(right.sum()):,} of {len(given):,} answers are right ({right.mean():.1%}), and no known defect explains "
        f"the others, such as {shown}.",
        {"right": int(right.sum()), "n": len(given)},
        "Read some wrong answers beside their targets; if they follow no rule, train longer.",
    )


def _spelled(task: Task, answer: np.ndarray) -> str:
    kept = [token for token in answer.tolist() if token not in (task.vocabulary.pad, task.vocabulary.eos)]
    return "".join(task.vocabulary.tokens[token] for token in kept)


def _one_answer_at_lengths(data: ForeignData, given: Predictions) -> Iterable[Finding]:
    """Classifiers that answer one class to everything at some lengths, and not at all of them."""
    if data.task.kind != "class" or len(np.unique(given.answers)) < 2:
        return
    length = np.asarray(data.task.features(given.examples.source)["length"])
    constant = []
    for one in np.unique(length).tolist():
        answers, targets = given.answers[length == one], given.examples.target[length == one]
        if len(answers) >= FEWEST_AT_A_LENGTH and len(np.unique(targets)) > 1 and len(np.unique(answers)) == 1:
            constant.append((one, int(answers[0]), float((answers == targets).mean()), len(answers)))
    if constant:
        places = ", ".join(str(one) for one, *_ in constant)
        rights = ", ".join(f"{right:.1%} of {n:,}" for _, _, right, n in constant)
        said = " or ".join(sorted({str(answer) for _, answer, *_ in constant}))
        yield Finding(
            "constant-answer",
            "error",
            "model",
            f"At length {places} every answer is {said}, whatever the sequence: the accuracies there ({rights}) are "
            "that class's share and nothing else.",
            {"lengths": [one for one, *_ in constant], "accuracy": [right for *_, right, _ in constant]},
            "Do not report an accuracy for these lengths; say that the model answers one class there.",
        )


def answers_shifted(seen: Examination) -> Verdict | None:
    """Answers stand in their own place: not one token early, as those of a decoder without a start token."""
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
        f"{sum(early):,} of {n:,} answers are their target from its second token on, and {sum(own):,} are the target; "
        f"{short:,} have one token less. That is the output of a decoder trained on target[:-1] -> target[1:]: the "
        "first token is given to it and never predicted.",
        "Put a start token before the target, train on [start, *target[:-1]] -> target, and decode from that token.",
        early=int(sum(early)),
        own=int(sum(own)),
        shorter=short,
        n=n,
    )


def _without_ends(seen: Examination) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Answers and targets, each up to its end."""
    assert seen.answers is not None
    eos = seen.task.vocabulary.eos
    written = [
        row[: np.flatnonzero(row == eos)[0]] if (row == eos).any() else row[row != seen.pad] for row in seen.answers
    ]
    return written, [row[(row != eos) & (row != seen.pad)] for row in seen.target]


def answers_reversed(seen: Examination) -> Verdict | None:
    """Answers are written in the order of their targets, not from the other end."""
    if seen.is_class or seen.answers is None or seen.right is None or len(seen.sample) < FEW_WRONG:
        return None
    pairs = zip(*_without_ends(seen), strict=True)
    turned = np.array([np.array_equal(one[::-1], other) for one, other in pairs])
    if turned.mean() < SHIFTED or turned.mean() < seen.right.mean() + SHIFTED:
        return None
    return error(
        f"{int(turned.sum()):,} of {len(turned):,} answers are their target from the last digit to the first, and "
        f"{int(seen.right.sum()):,} as it stands.",
        "Turn answers and targets to the same order before they are compared.",
        reversed=int(turned.sum()),
        accuracy=float(seen.right.mean()),
        n=len(turned),
    )


def answers_permuted(seen: Examination) -> Verdict | None:
    """Symbols mean the same in answers and targets: no two of them are exchanged."""
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
        f"Digits are exchanged in the answers (read {names}): {seen.right.mean():.1%} are right as they stand, and "
        f"{mended.mean():.1%} of {len(mended):,} with the digits put back.",
        "Compare the table of tokens that decodes the answers with the one that encodes the targets.",
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
        f"{wrong:,} of {n:,} answers are wrong, far more than guessing gets wrong: the classes 0 and 1 are exchanged, "
        f"and turned round the accuracy is {wrong / n:.1%}.",
        "Find out what 0 and 1 mean in the targets and in the answers.",
        accuracy=1 - wrong / n,
        mended=wrong / n,
        n=n,
    )


def first_digit_never_predicted(seen: Examination) -> Verdict | None:
    """The first digit of an answer is not always the same one while the right ones differ."""
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
        f"All {len(written):,} answers begin with {token}; {int(other.sum()):,} ({other.mean():.1%}) should not, and "
        f"those are all wrong. Accuracy is {seen.right.mean():.1%} and can be no more than {1 - other.mean():.1%}.",
        "Give the decoder a start token of its own, so that the first digit is predicted and not given.",
        first=token,
        should_differ=int(other.sum()),
        n=len(written),
        accuracy=float(seen.right.mean()),
    )


def zeros_not_scored(seen: Examination) -> Verdict | None:
    """A 0 is written where one belongs, so that answers are not right everywhere but there."""
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
        f"A 0 is written in {hit:,} of the {int(zero.sum()):,} places after the first digit where one belongs, and "
        f"{int(only_there.sum()):,} answers are wrong there only. Where 0 is not scored accuracy is "
        f"{elsewhere.mean():.1%}; with every digit scored it is {seen.right.mean():.1%}.",
        "Use a padding id that is no digit, so that neither the loss nor the score leaves out the digit 0.",
        zeros=int(zero.sum()),
        written=hit,
        without_zeros=float(elsewhere.mean()),
        accuracy=float(seen.right.mean()),
        n=len(seen.target),
    )


def _zeros_left_out(seen: Examination) -> Verdict | None:
    """Answers from which every 0 was removed, as padding is."""
    assert seen.right is not None
    pairs = zip(*_without_ends(seen), strict=True)
    bare = np.array([np.array_equal(one[one != 0], other[other != 0]) for one, other in pairs])
    wrong, only = ~seen.right, ~seen.right & bare
    if only.sum() < FEW_WRONG or only.sum() < wrong.sum() / 2:
        return None
    return error(
        f"{int(only.sum()):,} of {int(wrong.sum()):,} wrong answers are their target but for its zeros, which are left "
        f"out or stand elsewhere. Accuracy is {seen.right.mean():.1%}, and {bare.mean():.1%} where zeros do not count.",
        "Use a padding id that is no digit, so that removing padding from an answer leaves its zeros.",
        zeros_only=int(only.sum()),
        wrong=int(wrong.sum()),
        accuracy=float(seen.right.mean()),
        without_zeros=float(bare.mean()),
        n=len(bare),
    )


def ignores_an_operand(seen: Examination) -> Verdict | None:
    """Sums that share one operand do not all get the same answer."""
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
                "Check that the source reaches the model whole: truncation, masks, positions.",
                operand=name,
                pairs=pairs[1],
                should_agree=alike[0],
            )
    return None


def _alike_pairs(kept: np.ndarray, answers: np.ndarray) -> tuple[int, int]:
    """Of the pairs of rows that share an operand (next to each other, once sorted), how many share the answer too."""
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
