"""A visit of a file of predictions: where its examples come from, how they were scored, and what the answers are.

The file is a subject without a model, so every check that needs only examples and answers examines it too.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from headway.doctor.examination import Examination
from headway.doctor.findings import Check, Diagnosis, Finding, Verdict, error, errors_first, run_checks
from headway.doctor.foreign import ForeignData, Predictions, read_data, read_predictions, same_answers
from headway.doctor.subject import Subject, score_of
from headway.doctor.visit import CHECKS
from headway.tasks import Examples
from headway.tasks.base import Task
from headway.tasks.columns import operands

SHIFTED = 0.5
"""Share of answers that must fit the next or the previous example before they count as shifted."""
FEW_WRONG = 10
"""Fewer wrong answers than this show no pattern."""
REST_RIGHT = 0.5
"""Share of answers that must be right after the first digit; where fewer are, something else is wrong first."""


def examine_predictions(predictions: Path, data: Path) -> Diagnosis:
    """The diagnosis of another program's answers to examples of a data directory."""
    found = read_data(data)
    given = read_predictions(predictions, found)
    subject = subject_of_predictions(predictions.name, found, given)
    findings = [*_origins(found, given), *run_checks((*SCORING, *CHECKS), Examination(subject, len(given)))]
    return Diagnosis(str(predictions), found.task.name, None, errors_first(findings))


def subject_of_predictions(name: str, data: ForeignData, given: Predictions) -> Subject:
    """A subject whose test split is what was predicted, with the targets of the predictions' file."""
    known = set(_keys(data.task, given.examples))
    others = {split: some for split, some in data.splits.items() if not known & set(_keys(data.task, some))}
    kept = {split: some for split, some in data.splits.items() if split in ("train", "validation")}
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
    trained = sum(key in files["train"] and key not in tests for key in keys) if "train" in files else 0
    if trained and tests != files.get("train"):
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
    Check("zeros-not-scored", "harness", zeros_not_scored),
    Check("first-digit-never-predicted", "harness", first_digit_never_predicted),
    Check("operand-not-read", "model", ignores_an_operand),
)
