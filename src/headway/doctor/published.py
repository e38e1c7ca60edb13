"""What the data alone explains of a published table.

Each candidate is a simple thing a broken or trivial model does, with the accuracy that it has on the files. A published
number that equals a candidate's, to the last digit printed, needs no other explanation. How surprising that would be
for another model is stated: the chance that one of all the candidates tried lands as near.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.doctor.findings import Diagnosis, Finding, errors_first
from headway.doctor.foreign import ForeignData, read_data
from headway.doctor.tables import Point, Series, read_results
from headway.statistics import above_share, binomial_between, holm, mcnemar
from headway.tasks import Examples, Task
from headway.tasks.splits import problem_keys

SURPRISING = 0.05
"""A coincidence less likely than this is taken for none, over all candidates and series that were tried."""
ROUNDING = 1e-9
"""Room for the last bit of a share that was printed in full."""

Holds = Callable[[ForeignData, Examples], np.ndarray]
"""Of each example, whether the candidate answers it rightly."""


@dataclass(frozen=True)
class Candidate:
    """Something simple that a model may do; `holds` are the examples that it then gets right."""

    check: str
    words: str
    fix: str
    holds: Holds


@dataclass(frozen=True)
class Share:
    """How many of n examples a candidate gets right."""

    right: int
    n: int


def examine_results(results: Path, data: Path) -> Diagnosis:
    """The diagnosis of a table of results, from the data that it was measured on."""
    found = read_data(data)
    findings = explain(read_results(results), found)
    return Diagnosis(str(results), found.task.name, None, errors_first(findings))


def explain(series: list[Series], data: ForeignData) -> list[Finding]:
    """What the data explains of each series; one fine finding where it explains nothing."""
    candidates = _candidates(data.task)
    tried = len(candidates) * len(series)
    measured = [one for one in series if one.kind in ("length", "single", "head")]
    findings = [*_coincidences(measured, candidates, data, tried)]
    findings += [*_drops(series, data), *_no_better(measured, data, findings), *_impossible(measured, data)]
    findings += _unknown_lengths(series, data)
    if not findings:
        words = f"None of the {tried} comparisons with what a trivial model would get matches the numbers."
        if any(point.text.endswith("%") for one in series for point in one.points):
            words += " They were read as per cent."
        numbers = {"candidates": len(candidates), "series": len(series)}
        findings = [Finding("explained-by-data", "fine", "claims", words, numbers, "")]
    return findings


def _candidates(task: Task) -> list[Candidate]:
    if task.kind == "class":
        return CLASS
    return SUMS if task.name == "addition" else SUMS_AS_TEXT


def _same_class(label: int) -> Holds:
    return lambda data, examples: np.asarray(examples.target == label)


def _digits(data: ForeignData, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """The right answers' digits, most significant first, -1 where there is none; and which places hold one."""
    rows = data.task.answer(examples.source)
    inside = rows < 10
    return np.where(inside, rows, -1), inside


def _first_digit_zero(data: ForeignData, examples: Examples) -> np.ndarray:
    return np.asarray(data.task.features(examples.source)["carry_out"] == 0)


def _no_zero(data: ForeignData, examples: Examples) -> np.ndarray:
    return np.asarray((_digits(data, examples)[0] != 0).all(1))


def _below_without_zero(data: ForeignData, examples: Examples) -> np.ndarray:
    digits, inside = _digits(data, examples)
    zeros = ((digits == 0) & inside).sum(1)
    return np.asarray(_first_digit_zero(data, examples) & (zeros == 1))


def _no_carry(data: ForeignData, examples: Examples) -> np.ndarray:
    return np.asarray(data.task.features(examples.source)["carries"] == 0)


def _in_training(data: ForeignData, examples: Examples) -> np.ndarray:
    if "train" not in data.splits:
        return np.zeros(len(examples), dtype=bool)
    known = set(problem_keys(data.task, data.splits["train"].source))
    return np.array([key in known for key in problem_keys(data.task, examples.source)])


def _ends_rise(data: ForeignData, examples: Examples) -> np.ndarray:
    length = (examples.source != data.task.vocabulary.pad).sum(1)
    last = examples.source[np.arange(len(examples)), length - 1]
    return np.asarray((last >= examples.source[:, 0]) == (examples.target == 1))


ONE_ANSWER = "Count how often each class is answered; a model that gives one answer has learned nothing here."
SHARED = "Remove from training what is in the test files, and train again."
CLASS = [
    Candidate("constant-answer", "the shares of unsorted sequences", ONE_ANSWER, _same_class(0)),
    Candidate("constant-answer", "the shares of sorted sequences", ONE_ANSWER, _same_class(1)),
    Candidate(
        "trivial-rule",
        "what comparing the first element with the last gets right",
        "Test on sequences with one adjacent inversion, which this rule cannot see.",
        _ends_rise,
    ),
    Candidate("split-overlap", "the shares of test sequences that are also in training", SHARED, _in_training),
]
BELOW = "without a carry out of the top column"
SUMS = [
    Candidate(
        "first-digit-never-predicted",
        f"the share of sums {BELOW}",
        "Give the decoder a start token of its own and train it to write the first digit.",
        _first_digit_zero,
    ),
    Candidate(
        "zeros-not-scored",
        f"the share of sums {BELOW} with no other zero in them",
        "Use a padding id that is no digit; the loss must not ignore the digit 0. Give the decoder a start token.",
        _below_without_zero,
    ),
    Candidate(
        "zeros-not-scored",
        "the share of sums with no zero in them",
        "Use a padding id that is no digit; the loss must not ignore the digit 0.",
        _no_zero,
    ),
    Candidate("trivial-rule", "the share of sums without a carry", "Look at the sums with carries alone.", _no_carry),
    Candidate("split-overlap", "the share of test sums that are also in training", SHARED, _in_training),
]
SUMS_AS_TEXT = SUMS[2:]
"""A sum that is not padded has no first digit that is mostly 0."""


def _at(data: ForeignData, place: int | str | None) -> Examples | None:
    """The test examples that a number was measured on: those of a length, or the test file's."""
    if isinstance(place, int):
        return data.by_length.get(place)
    tests = data.tests()
    return tests.get("test", next(iter(tests.values())))


def _share(candidate: Candidate, data: ForeignData, place: int | str | None) -> Share | None:
    examples = _at(data, place)
    return None if examples is None else Share(int(candidate.holds(data, examples).sum()), len(examples))


def _equals(point: Point, share: Share) -> bool:
    return abs(share.right / share.n - point.value) <= point.half + ROUNDING


def _coincidences(
    series: list[Series], candidates: list[Candidate], data: ForeignData, tried: int
) -> Iterable[Finding]:
    """Series whose every number is a candidate's, those of one candidate together."""
    explained: set[Series] = set()
    for candidate in candidates:
        alike = []
        for one in series:
            points = one.points if one.kind != "head" else ()
            shares = [_share(candidate, data, point.place) for point in points]
            known = [(point, share) for point, share in zip(points, shares, strict=True) if share is not None]
            if one in explained or not known or not all(_equals(point, share) for point, share in known):
                continue
            chance = min(1.0, tried * float(np.prod([_chance(data.task, *pair) for pair in known])))
            if chance < SURPRISING and any(0 < share.right < share.n for _, share in known):
                alike.append((one, known, chance))
        explained |= {one for one, _, _ in alike}
        if alike:
            yield _coincidence(candidate, alike, data, tried)


def _chance(task: Task, point: Point, share: Share) -> float:
    """How often a model that does something else would print this number.

    A classifier might guess, and then its count is binomial around a half; any count is alike for a whole answer.
    """
    low = int(np.ceil((point.value - point.half - ROUNDING) * share.n))
    high = int(np.floor((point.value + point.half + ROUNDING) * share.n))
    if task.kind == "class":
        return binomial_between(low, high, share.n, 0.5)
    return (high - low + 1) / (share.n + 1)


Match = tuple[Series, list[tuple[Point, Share]], float]


def _coincidence(candidate: Candidate, alike: list[Match], data: ForeignData, tried: int) -> Finding:
    _, known, _ = alike[0]
    chance = max(chance for _, _, chance in alike)
    labels = ", ".join(one.label for one, _, _ in alike if one.label)
    verb, files = ("are", "your test files") if len(known) > 1 else ("is", "your test file")
    words = candidate.words if len(known) > 1 else candidate.words.replace("shares", "share")
    if data.task.name == "addition":
        words = words.replace(BELOW, f"below {data.task.options.base**data.task.options.digits}")
    counts = ", ".join(f"{share.right:,} of {share.n:,}" for _, share in known)
    evidence = (
        f"{_shown(known)} {verb} {words} in {files} ({counts}){f': {labels}' if labels else ''}. "
        f"Another model would print the same in {_percent(chance)} of cases, with {tried} comparisons tried."
    )
    numbers = {
        "published": [point.value for point, _ in known],
        "right": [share.right for _, share in known],
        "n": [share.n for _, share in known],
        "comparisons": tried,
        "chance": chance,
    }
    return Finding(candidate.check, "error", "claims", evidence, numbers, candidate.fix)


def _shown(rows: list[tuple[Point, Share]]) -> str:
    """The numbers that there is data for, as printed."""
    return " ".join(point.text for point, _ in rows)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= 1e-6 else "less than one in a million"


def _drops(series: list[Series], data: ForeignData) -> Iterable[Finding]:
    """Drops of ablated heads that one test set of this size cannot tell from none, in the best case.

    The best case is that the head's removal turned no wrong answer into a right one.
    """
    baselines = {one.label: one.points[0] for one in series if one.label.endswith("baseline")}
    told = {one.label for one in series if one.kind == "drop"}
    n = len(_at(data, None) or [])
    for one in series:
        drops = [] if one.kind == "head" and one.label in told else _drops_of(one, baselines)
        if not drops:
            continue
        lost = np.array([round(abs(drop) * n) for _, drop in drops])
        p = holm(mcnemar(lost, 0))
        weak = [f"{name} ({drop:.2%})" for (name, drop), value in zip(drops, p, strict=True) if drop and value > 0.05]
        least = next(k for k in range(1, n + 1) if len(drops) * float(mcnemar(k, 0)) <= 0.05)
        if weak:
            evidence = (
                f"{len(weak)} of {len(drops)} heads have a drop that {n:,} examples cannot tell from none even if "
                f"nothing was gained: {', '.join(weak[:5])}. For {len(drops)} heads it takes {least / n:.2%} "
                f"({least} examples)."
            )
            numbers = {"weak": len(weak), "heads": len(drops), "n": n, "smallest": least / n}
            fix = "Call these undecided; measure on more examples, or on several seeds."
            yield Finding("drop-inside-noise", "warning", "claims", evidence, numbers, fix)


def _drops_of(one: Series, baselines: dict[str, Point]) -> list[tuple[str, float]]:
    if one.kind == "drop":
        return [(str(point.place), point.value) for point in one.points]
    baseline = baselines.get(f"{one.label} baseline".strip())
    if one.kind != "head" or baseline is None:
        return []
    return [(str(point.place), baseline.value - point.value) for point in one.points]


def _no_better(series: list[Series], data: ForeignData, explained: list[Finding]) -> Iterable[Finding]:
    """Classifiers whose numbers are no better than the more frequent class, at no length."""
    if data.task.kind != "class":
        return
    told = {tuple(finding.numbers["published"]) for finding in explained}
    for one in series:
        known = [(point, _share(CLASS[0], data, point.place)) for point in one.points]
        rows = [(point, share) for point, share in known if share is not None]
        if not rows or tuple(point.value for point, _ in rows) in told:
            continue
        p = [
            above_share(round(point.value * share.n), share.n, max(share.right, share.n - share.right) / share.n)
            for point, share in rows
        ]
        if min(holm(p)) > 0.05:
            evidence = (
                f"{one.label or 'the model'}: {_shown(rows)} is nowhere better than always giving the more frequent "
                f"answer (smallest p {min(holm(p)):.2g} after Holm, {rows[0][1].n:,} examples each)."
            )
            numbers = {"published": [point.value for point, _ in rows], "p": p, "n": [share.n for _, share in rows]}
            fix = "Say that it is at chance there; do not compare such numbers with each other."
            yield Finding("no-better-than-majority", "warning", "claims", evidence, numbers, fix)


def _impossible(series: list[Series], data: ForeignData) -> Iterable[Finding]:
    """Numbers that no count of right answers out of the file's examples gives."""
    for one in series:
        rows = [(point, _at(data, point.place if one.kind == "length" else None)) for point in one.points]
        bad = [(point, len(found)) for point, found in rows if found is not None and not _possible(point, len(found))]
        if bad:
            shown = ", ".join(f"{point.text} of {n:,}" for point, n in bad[:5])
            evidence = f"{shown}: no whole number of right answers gives that accuracy on your files."
            numbers = {"values": [point.value for point, _ in bad], "n": [n for _, n in bad]}
            fix = "Find out which examples it was measured on, or whether it is an average."
            yield Finding("impossible-accuracy", "warning", "claims", evidence, numbers, fix)


def _possible(point: Point, n: int) -> bool:
    return abs(round(point.value * n) / n - point.value) <= point.half + ROUNDING


def _unknown_lengths(series: list[Series], data: ForeignData) -> Iterable[Finding]:
    places = {point.place for one in series if one.kind == "length" for point in one.points}
    lengths = sorted(place for place in places if isinstance(place, int) and _at(data, place) is None)
    if lengths:
        shown = ", ".join(map(str, lengths))
        evidence = f"There is no test example of length {shown} in the data, so these numbers could not be examined."
        fix = "Give the directory that they were measured on."
        yield Finding("length-without-data", "warning", "claims", evidence, {"lengths": lengths}, fix)
