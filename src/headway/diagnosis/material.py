"""Diagnosis of data files without a model, including the files that could not be read."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from headway.diagnosis.data import DATA
from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, errors_first, fine, run_checks, warning
from headway.diagnosis.foreign import ForeignData, read_data
from headway.diagnosis.subject import Subject, bare_rows, score_of
from headway.narration.numbers import percent
from headway.results.doctor import UNEXAMINED, Diagnosis, Finding
from headway.tasks import Examples, Task
from headway.tasks.splits import problem_keys

MUCH = 0.05
"""Share of test examples that are also training examples, from which accuracy is partly memorisation."""
NEAR = 0.01
"""Largest share of test sequences that reorder a training sequence; random draws of eight values share none."""


def diagnosis_of(path: Path, data: ForeignData, findings: Iterable[Finding]) -> Diagnosis:
    """The diagnosis of foreign files: what could not be examined, then errors, warnings and passed checks."""
    found = sorted(errors_first(findings), key=lambda one: one.check not in UNEXAMINED)
    return Diagnosis(run=str(path), task=data.task.name, step=None, findings=tuple(found))


def examine_data(data: Path) -> Diagnosis:
    """The diagnosis of a directory of examples."""
    found = read_data(data)
    findings = [*not_examined(found), *run_checks(FILES, Examination(subject_of_data(str(data), found)))]
    return diagnosis_of(data, found, findings)


def subject_of_data(name: str, data: ForeignData) -> Subject:
    """A subject that has only splits."""
    return Subject(
        name=name,
        task=data.task,
        vocabulary=data.task.vocabulary,
        splits=data.splits,
        score=score_of(data.task),
        oracle=data.task.answer,
    )


def not_examined(data: ForeignData) -> Iterable[Finding]:
    """Files that look like data and could not be read."""
    if data.left_out:
        evidence = f"{len(data.left_out)} files that look like data could not be read: {'; '.join(data.left_out[:3])}."
        fix = "Repair them, or move them out of the directory."
        yield Finding("not-examined", "warning", "data", evidence, {"files": list(data.left_out)}, fix)


def overlap_of_measured(data: ForeignData) -> Iterable[Finding]:
    """Test examples that are also training examples, so that accuracy on them is partly memorisation."""
    known = [some.source for some in data.of_role("train")]
    if not known:
        return
    given = {row for some in known for row in bare_rows(data.task, some)}
    either = {row for some in known for row in problem_keys(data.task, some)}
    counts = {}
    for name, examples in data.tests().items():
        shared = sum(key in either for key in problem_keys(data.task, examples.source))
        if shared:
            counts[name] = (shared, sum(key in given for key in bare_rows(data.task, examples.source)), len(examples))
    if not counts:
        return
    share = max(shared / n for shared, _, n in counts.values())
    words = "; ".join(
        f"{shared:,} of {n:,} in {name}" + f" ({same:,} as given)" * (same < shared)
        for name, (shared, same, n) in counts.items()
    )
    yield Finding(
        "split-overlap",
        "error" if share >= MUCH else "warning",
        "data",
        f"Test examples that are also in training: {words}. Up to {percent(share)} of an accuracy there can be "
        "memorisation.",
        {name: shared for name, (shared, _, _) in counts.items()},
        "Remove the test problems from training (a + b and b + a are one problem), and train again.",
    )


def near_duplicates(seen: Examination) -> Verdict | None:
    """No test sequence is a reordered training sequence."""
    train = seen.subject.splits.get("train")
    if not seen.is_class or train is None:
        return None
    known, same = set(_values(seen.task, train)), set(bare_rows(seen.task, train.source))
    counts = {}
    for name, examples in seen.subject.splits.items():
        if name != "train":
            pairs = zip(_values(seen.task, examples), bare_rows(seen.task, examples.source), strict=True)
            counts[name] = sum(values in known and row not in same for values, row in pairs)
    if not counts:
        return None
    sizes = {name: len(seen.subject.splits[name]) for name in counts}
    words = ", ".join(f"{counts[name]:,} of {sizes[name]:,} in {name}" for name in counts if counts[name])
    if any(counts[name] > NEAR * sizes[name] for name in counts):
        return warning(
            f"Sequences that are a training sequence in another order: {words}.",
            "Draw new values for every split; keep a sequence and its reordered copy in one split.",
            **counts,
        )
    return fine(f"No sequence is a training sequence in another order, but for {sum(counts.values())}.", **counts)


def _values(task: Task, examples: Examples) -> list[bytes]:
    """The sorted values of each sequence."""
    return bare_rows(task, np.sort(examples.source, axis=1))


def lengths_and_classes(seen: Examination) -> Verdict | None:
    """Every split has both classes at each of its lengths."""
    if not seen.is_class:
        return None
    parts, numbers, one_class = [], {}, []
    for name, examples in seen.subject.splits.items():
        length = (examples.source != seen.task.vocabulary.pad).sum(1)
        share = float(examples.target.mean())
        numbers[name] = {
            "n": len(examples),
            "shortest": int(length.min()),
            "longest": int(length.max()),
            "class_1": share,
        }
        span = f"{length.min()}" if length.min() == length.max() else f"{length.min()} to {length.max()}"
        parts.append(f"{name} ({len(examples):,} of length {span}, {percent(share)} of class 1)")
        one_class += [name] * (len(examples) >= 20 and share in (0.0, 1.0))
    if one_class:
        return warning(
            f"{', '.join(one_class)}: all examples are of one class, so a constant answer is right. "
            f"{'; '.join(parts)}.",
            "Draw both classes at every length.",
            **numbers,
        )
    return fine("; ".join(parts) + ".", **numbers)


FILES = (
    *(check for check in DATA if check.name != "special-token-is-symbol"),
    Check("near-duplicates", "data", near_duplicates, unless=("split-overlap",)),
    Check("classes-by-length", "data", lengths_and_classes),
)
"""Checks that need no model. Files do not name the padding id, so special tokens are not checked."""
