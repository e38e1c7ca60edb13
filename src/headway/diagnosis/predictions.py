"""Diagnosis of a file of predictions: the source of its examples, the scoring, and the answers.

The file is a subject without a model, so every check that needs only examples and answers also applies.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.examine import CHECKS
from headway.diagnosis.findings import run_checks
from headway.diagnosis.foreign import ForeignData, read_data
from headway.diagnosis.material import diagnosis_of, not_examined, subject_of_data
from headway.diagnosis.predicted import Predictions, read_predictions
from headway.diagnosis.records import same_answers
from headway.diagnosis.scoring import SCORING, SHIFTED
from headway.diagnosis.subject import Subject, bare_rows
from headway.narration.numbers import percent
from headway.results.doctor import Diagnosis, Finding
from headway.tasks import Examples
from headway.tasks.base import Task

FEWEST_AT_A_LENGTH = 20
"""Smallest number of answers at one length for which a single class is not chance."""
MOSTLY = 0.5
"""Accuracy below which most answers are wrong, which needs an explanation."""
FEW_EXAMPLES = 0.05
"""Share of wrong targets below which findings about answers come first."""


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
    """Whether a fault of the data affects too few examples to explain the accuracy; such findings come last."""
    if finding.check == "oracle-contradicts-targets":
        wrong, n = finding.numbers.get("wrong", 0), finding.numbers["n"]
        return isinstance(wrong, int) and isinstance(n, int) and wrong < FEW_EXAMPLES * n
    return finding.check in ("split-overlap", "duplicate-examples")


def subject_of_predictions(name: str, data: ForeignData, given: Predictions) -> Subject:
    """A subject whose test split is the predicted examples, with the targets of the predictions file."""
    known = set(bare_rows(data.task, given.examples.source))
    others = {split: some for split, some in data.splits.items() if not known & set(bare_rows(data.task, some.source))}
    kept = {split: some for split, some in data.splits.items() if data.role(split) != "test"}
    splits = {**kept, **others, "test": given.examples}
    return replace(subject_of_data(name, data), splits=splits, predictions={"test": given.answers})


def _origins(data: ForeignData, given: Predictions) -> Iterable[Finding]:
    """Where the predicted examples occur in the data, and whether their targets are the data's."""
    task, keys = data.task, bare_rows(data.task, given.examples.source)
    files = {split: set(bare_rows(task, some.source)) for split, some in data.splits.items()}
    nowhere = [row for row, key in enumerate(keys) if not any(key in found for found in files.values())]
    if nowhere:
        shown = task.show(given.examples.source[nowhere[0]])
        yield Finding(
            "predictions-not-in-data",
            "error",
            "data",
            f"{len(nowhere):,} of {len(given):,} predictions are for examples that are in no data file "
            f"(first: {shown:.80}).",
            {"not_in_data": len(nowhere), "n": len(given)},
            "Name the data directory for which the predictions were made.",
        )
    yield from _empty(data, given)
    yield from _of_training(data, keys, files)
    yield from _other_targets(data, given, keys)
    yield from _shifted(data, given)
    yield from _left_out(data, keys)


def _empty(data: ForeignData, given: Predictions) -> Iterable[Finding]:
    """Predictions without an answer."""
    if data.task.kind == "class":
        return
    empty = int((given.answers[:, 0] == data.task.vocabulary.eos).sum())
    if empty:
        yield Finding(
            "predictions-empty",
            "error" if empty > len(given) / 2 else "warning",
            "harness",
            f"{empty:,} of {len(given):,} predictions are empty, or start with a token that no answer contains.",
            {"empty": empty, "n": len(given)},
            "Write only the answer, without a start token.",
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
            "Measure on the test files; accuracy on training examples is memorisation.",
        )


def _other_targets(data: ForeignData, given: Predictions, keys: list[bytes]) -> Iterable[Finding]:
    task = data.task
    everything = Examples.join(list(data.splits.values()), task.vocabulary.pad)
    row_of = {key: row for row, key in enumerate(bare_rows(task, everything.source))}
    rows = np.array([row for row, key in enumerate(keys) if key in row_of], dtype=np.int64)
    theirs = everything.target[[row_of[keys[row]] for row in rows]]
    wrong = int((~same_answers(task, given.examples.target[rows], theirs)).sum()) if len(rows) else 0
    if wrong:
        yield Finding(
            "targets-differ-from-data",
            "error",
            "data",
            f"{wrong:,} of {len(rows):,} targets differ from the data's target for the same example.",
            {"different": wrong, "n": len(rows)},
            "Write the data's targets beside the predictions.",
        )


def _shifted(data: ForeignData, given: Predictions) -> Iterable[Finding]:
    """Answers that match the next or the previous row far better than their own."""
    own = same_answers(data.task, given.answers, given.examples.target).mean()
    for by, where in ((-1, "previous"), (1, "next")):
        fits = same_answers(data.task, given.answers, np.roll(given.examples.target, -by, axis=0)).mean()
        if data.task.kind == "sequence" and fits > own + SHIFTED:
            yield Finding(
                "predictions-shifted",
                "error",
                "harness",
                f"{percent(fits)} of the predictions are the answer of the {where} line, and {percent(own)} of "
                "their own.",
                {"shifted": float(fits), "own": float(own), "n": len(given)},
                "Write each prediction beside the example that it answers.",
            )


def _left_out(data: ForeignData, keys: list[bytes]) -> Iterable[Finding]:
    predicted = set(keys)
    for split, examples in data.tests().items():
        there = sum(key in predicted for key in bare_rows(data.task, examples.source))
        if 0 < there < len(examples):
            yield Finding(
                "examples-left-out",
                "warning",
                "data",
                f"{there:,} of the {len(examples):,} examples of {split} have a prediction.",
                {"predicted": there, "n": len(examples), "split": split},
                "Predict all of them, or report how these were chosen.",
            )


def _mostly_wrong(data: ForeignData, given: Predictions, findings: list[Finding]) -> Iterable[Finding]:
    """A warning if fewer than half of the answers are right and no other finding explains it."""
    task, right = data.task, same_answers(data.task, given.answers, given.examples.target)
    if task.kind == "class" or right.mean() >= MOSTLY or any(finding.level == "error" for finding in findings):
        return
    rows = [(given.examples.source[row], given.answers[row]) for row in np.flatnonzero(~right)[:3]]
    shown = "; ".join(f"{task.show(source)} is answered {_spelled(task, answer)}" for source, answer in rows)
    yield Finding(
        "not-explained",
        "warning",
        "model",
        f"{int(right.sum()):,} of {len(given):,} answers are right ({percent(right.mean())}), and no known defect "
        "explains "
        f"the others, such as {shown}.",
        {"right": int(right.sum()), "n": len(given)},
        "Compare some wrong answers with their targets; if they follow no rule, train longer.",
    )


def _spelled(task: Task, answer: np.ndarray) -> str:
    kept = [token for token in answer.tolist() if token not in (task.vocabulary.pad, task.vocabulary.eos)]
    return "".join(task.vocabulary.tokens[token] for token in kept)


def _one_answer_at_lengths(data: ForeignData, given: Predictions) -> Iterable[Finding]:
    """Classifiers that give a constant answer at some lengths but not at all of them."""
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
        rights = ", ".join(f"{percent(right)} of {n:,}" for _, _, right, n in constant)
        said = " or ".join(sorted({str(answer) for _, answer, *_ in constant}))
        yield Finding(
            "constant-answer",
            "error",
            "model",
            f"At length {places} every answer is {said}, whatever the sequence: the accuracies there ({rights}) "
            "are only that class's share.",
            {"lengths": [one for one, *_ in constant], "accuracy": [right for *_, right, _ in constant]},
            "Do not report accuracies at these lengths; report that the answer is constant there.",
        )
