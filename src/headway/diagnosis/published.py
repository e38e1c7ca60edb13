"""Explains a published table by the data alone.

Each candidate is a simple behaviour of a broken or trivial model, with its accuracy on the files. A published number
that equals a candidate's to the last printed digit needs no other explanation. The finding states how likely that would
be for another model: the probability that any claim of the table is that close by chance. Numbers without an
explanation are listed, with everything they were compared with.
"""

from collections.abc import Iterable, Sequence
from math import comb
from pathlib import Path

import numpy as np

from headway.diagnosis.explanations import CLASS, Candidate, Share, candidates_of, sets_of, share_of
from headway.diagnosis.foreign import ForeignData, read_data
from headway.diagnosis.material import diagnosis_of, not_examined, overlap_of_measured
from headway.diagnosis.published_heads import drops_inside_noise, nothing_to_lose
from headway.diagnosis.published_results import Claim, Point, PublishedResults, Series, claims_of, read_results
from headway.narration.numbers import percent
from headway.results.doctor import Diagnosis, Finding
from headway.statistics import above_share, binomial_between, holm
from headway.tasks import Task

SURPRISING = 0.01
"""Probability of a coincidence, over all claims and candidates, below which a match is an error."""
PERHAPS = 0.05
"""Probability of a coincidence below which a match is a warning."""
ROUNDING = 1e-7
"""Tolerance for a share printed in full in single precision: 0.4975000023841858."""
REGIONS = (0.05, 0.9)
"""Accuracies of whole answers below the first limit mean that nothing was learned, those above the second that the task
was learned; no defect here gives the latter. Inside a region all counts are equally likely.
"""
IMPROBABLE = 1e-4
"""Probability below which a classifier worse than the rarer class is not an accident."""


NOTHING_SAID = Finding(
    "not-examined",
    "warning",
    "claims",
    "No accuracy of a whole model is given, so its head results have no baseline to compare with.",
    {},
    'Give the accuracy before any head is removed, such as {"baseline": 0.99}.',
)


Match = tuple[Claim, list[tuple[Point, Share]], float]


def examine_results(results: Path, data: Path) -> Diagnosis:
    """The diagnosis of a table of results, from the data on which it was measured."""
    found = read_data(data)
    table = read_results(results, found.set_lengths)
    findings = [*not_examined(found), *explain(table, found), *overlap_of_measured(found)]
    return diagnosis_of(results, found, findings)


def explain(table: PublishedResults, data: ForeignData) -> list[Finding]:
    """The claims that the data explains, and those that it does not."""
    claims = claims_of(table.series)
    explained = list(_coincidences(claims, data))
    told = {claim for _, matches in explained for claim, _, _ in matches}
    findings = [finding for finding, _ in explained]
    findings += nothing_to_lose(table.series, claims, data)
    findings += _exchanged(claims, data)
    findings += _no_better([claim for claim in claims if claim not in told], data)
    findings += drops_inside_noise(table.series, claims, data)
    findings += _impossible(table.series, claims, data)
    findings += _unread(table, claims, data)
    named = {text for one in findings for text in named_claims(one)}
    findings += _not_explained([one for one in claims if one not in told and one.shown not in named], data, table.aside)
    return findings or [NOTHING_SAID]


def named_claims(finding: Finding) -> list[object]:
    """The claims that a finding names among its numbers."""
    named = finding.numbers.get("claims")
    return list(named) if isinstance(named, (list, tuple)) else []


def _equals(point: Point, share: Share) -> bool:
    return abs(share.right / share.n - point.value) <= point.half + ROUNDING


def _coincidences(claims: list[Claim], data: ForeignData) -> Iterable[tuple[Finding, list[Match]]]:
    """Claims whose numbers equal a candidate's, grouped by candidate."""
    candidates = candidates_of(data.task)
    counted = [claim for claim in claims if _low(claim)]
    explained: set[Claim] = set()
    for candidate in candidates:
        alike = []
        for claim in counted:
            match = None if claim in explained else _matched(candidate, claim, data)
            if match is not None and (chance := min(1.0, len(counted) * match[1] / candidate.weight)) < PERHAPS:
                alike.append((claim, match[0], chance))
        explained |= {claim for claim, _, chance in alike if chance < SURPRISING}
        for sure in (True, False):
            some = [one for one in alike if (one[2] < SURPRISING) == sure]
            for same in _alike(some):
                yield _coincidence(candidate, same, data, len(counted)), same


def _alike(matches: list[Match]) -> Iterable[list[Match]]:
    """Groups of matches with the same numbers at the same lengths."""
    groups: dict[tuple[tuple[object, str], ...], list[Match]] = {}
    for match in matches:
        groups.setdefault(tuple((point.place, point.text) for point, _ in match[1]), []).append(match)
    return groups.values()


def _low(claim: Claim) -> list[Point]:
    """The points that a candidate could explain: those below the accuracy of a trained model."""
    return [point for point in claim.points if point.value < REGIONS[1]]


def _matched(candidate: Candidate, claim: Claim, data: ForeignData) -> tuple[list[tuple[Point, Share]], float] | None:
    """The points that equal the candidate's accuracy, and the probability of so many matches for another model."""
    known = [point for point in _low(claim) if sets_of(data, point)]
    found = {}
    for point in known:
        sets = sets_of(data, point)
        for examples in sets:
            share = share_of(candidate, data, examples)
            both = (share, Share(share.n - share.right, share.n)) if candidate.either else (share,)
            fits = [one for one in both if _equals(point, one) and 0 < one.right < one.n]
            if fits:
                chance = len(sets) * sum(_chance(data.task, point, one) for one in both)
                found[point] = (fits[0], min(1.0, chance))
                break
    past = [
        point
        for point in known
        if data.longest_trained and isinstance(point.place, int) and point.place > data.longest_trained
    ]
    if not found or (candidate.either and len(found) < 2):
        return None
    if len(found) == len(known):
        ways = 1 if len(known) == len(claim.points) or data.task.kind != "class" else 2
    elif len(found) < 2 and data.task.kind == "class":
        return None
    else:
        ways = 2 if set(found) == set(past) else 2 * comb(len(known), len(found))
    rows = [(point, share) for point, (share, _) in found.items()]
    return rows, ways * float(np.prod([chance for _, chance in found.values()]))


def _chance(task: Task, point: Point, share: Share) -> float:
    """The probability that a model with another behaviour would print this number.

    A classifier that is not constant can have the same accuracy: its count is binomial around the share. For whole
    answers, all counts of the same region are equally likely.
    """
    low = int(np.ceil((point.value - point.half - ROUNDING) * share.n))
    high = int(np.floor((point.value + point.half + ROUNDING) * share.n))
    if task.kind == "class":
        return binomial_between(low, high, share.n, share.right / share.n)
    edges = (0.0, *REGIONS)
    region = max(index for index, edge in enumerate(edges) if point.value >= edge)
    width = (*edges, 1.0)[region + 1] - edges[region]
    return min(1.0, (high - low + 1) / (width * share.n + 1))


def _coincidence(candidate: Candidate, alike: list[Match], data: ForeignData, tried: int) -> Finding:
    claim, known, _ = alike[0]
    chance = max(chance for _, _, chance in alike)
    labels = ", ".join(one.label for one, _, _ in alike if one.label)
    verb, files = ("are", "your test files") if len(known) > 1 else ("is", "your test file")
    if any(point.split in ("train", "validation") for point, _ in known):
        files = " and ".join(dict.fromkeys(point.split or "test" for point, _ in known))
        files = f"your {files} data"
    words = candidate.words if len(known) > 1 else candidate.words.replace("shares", "share")
    counts = ", ".join(f"{share.right:,} of {share.n:,}" for _, share in known)
    sure = chance < SURPRISING
    verb = verb if sure else f"{verb} also"
    where = ""
    if len(known) < len(claim.points) and claim.kind == "length":
        where = f" at {'length' if len(known) == 1 else 'lengths'} {', '.join(str(point.place) for point, _ in known)}"
    evidence = (
        f"{_shown(known)}{where} {verb} {words} in {files} ({counts}){f': {labels}' if labels else ''}. "
        f"Another model would print the same in {_in_percent(chance)} of cases, over {tried} "
        f"{'claim' if tried == 1 else 'claims'} and {len(candidates_of(data.task))} explanations."
    )
    numbers = {
        "published": [point.value for point, _ in known],
        "right": [share.right for _, share in known],
        "n": [share.n for _, share in known],
        "places": [point.place for point, _ in known],
        "comparisons": tried * len(candidates_of(data.task)),
        "claims": [one.shown for one, _, _ in alike],
        "chance": chance,
    }
    fix = (
        candidate.fix
        if sure
        else f"Examine the predictions to decide (--predictions). If they confirm it: {candidate.fix}"
    )
    return Finding(candidate.check, "error" if sure else "warning", "claims", evidence, numbers, fix)


def _shown(rows: list[tuple[Point, Share]]) -> str:
    """The printed numbers for which there is data."""
    return " ".join(point.text for point, _ in rows)


def _in_percent(share: float) -> str:
    return percent(share) if share >= 1e-6 else "less than one in a million"


def _class_rows(points: Iterable[Point], data: ForeignData) -> list[tuple[Point, Share]]:
    """The numbers for which there is data, each with the share of the more frequent class."""
    rows = []
    for point in points:
        for examples in sets_of(data, point)[:1]:
            share = share_of(CLASS[0], data, examples)
            rows.append((point, Share(max(share.right, share.n - share.right), share.n)))
    return rows


def _no_better(claims: list[Claim], data: ForeignData) -> Iterable[Finding]:
    """Classifiers no better than the more frequent class: at all lengths, beyond training, or from some length on."""
    if data.task.kind != "class":
        return
    for claim in claims:
        everywhere = _class_rows(claim.points, data)
        trained = data.longest_trained
        past = [row for row in everywhere if trained and isinstance(row[0].place, int) and row[0].place > trained]
        for rows, where in (
            (everywhere, "is nowhere"),
            (past if len(past) > 1 else [], f"is past length {trained} nowhere"),
            _tail_at_chance(everywhere),
        ):
            p = [above_share(round(point.value * share.n), share.n, share.right / share.n) for point, share in rows]
            if not rows or min(holm(p)) <= 0.05:
                continue
            evidence = (
                f"{claim.label or 'the model'}: {_shown(rows)} {where} better than always giving the more frequent "
                f"answer (smallest p {min(holm(p)):.2g} after Holm, {rows[0][1].n:,} examples each)."
            )
            numbers = {"published": [point.value for point, _ in rows], "p": p, "n": [share.n for _, share in rows]}
            fix = "Report that it is at chance there; do not compare such numbers with each other."
            numbers["claims"] = [claim.shown]
            yield Finding("no-better-than-majority", "warning", "claims", evidence, numbers, fix)
            break


def _tail_at_chance(rows: list[tuple[Point, Share]]) -> tuple[list[tuple[Point, Share]], str]:
    """The longest lengths (two or more) from which no number is better than the more frequent class."""
    tail: list[tuple[Point, Share]] = []
    for point, share in sorted(
        (row for row in rows if isinstance(row[0].place, int)), key=lambda row: -int(str(row[0].place))
    ):
        if above_share(round(point.value * share.n), share.n, share.right / share.n) <= 0.05:
            break
        tail.insert(0, (point, share))
    return (tail, f"is from length {tail[0][0].place} on nowhere") if len(tail) > 1 else ([], "")


def _exchanged(claims: list[Claim], data: ForeignData) -> Iterable[Finding]:
    """Classifiers that are worse than always giving the rarer class: their classes are exchanged."""
    if data.task.kind != "class":
        return
    for claim in claims:
        rows = _class_rows(claim.points, data)
        p = [
            above_share(share.n - round(point.value * share.n), share.n, share.right / share.n) for point, share in rows
        ]
        if rows and max(holm(p)) < IMPROBABLE:
            evidence = (
                f"{claim.label or 'the model'}: {_shown(rows)} is everywhere below the accuracy of always giving "
                "the rarer class. The answers depend on the input, but the classes are exchanged."
            )
            numbers = {"published": [point.value for point, _ in rows], "p": p, "n": [share.n for _, share in rows]}
            numbers["claims"] = [claim.shown]
            fix = "Compare predictions and targets: 0 and 1 mean the opposite in one of them."
            yield Finding("answers-permuted", "error", "claims", evidence, numbers, fix)


def _impossible(series: Iterable[Series], claims: list[Claim], data: ForeignData) -> Iterable[Finding]:
    """Numbers that no count of right answers on the files gives; logs of training batches are excluded."""
    heads = [Claim(one.label, one.points, one.kind) for one in series if one.kind == "head"]
    for claim in (*claims, *heads):
        rows = [
            (point, sets_of(data, point))
            for point in claim.points
            if not (claim.kind == "epochs" and point.split == "train")
        ]
        bad = [
            (point, len(sets[0]))
            for point, sets in rows
            if sets and not any(_possible(point, len(examples)) for examples in sets)
        ]
        if bad:
            shown = ", ".join(f"{point.text} of {n:,}" for point, n in bad[:5])
            evidence = f"{shown}: no number of right answers gives that accuracy on your files."
            numbers = {"values": [point.value for point, _ in bad], "n": [n for _, n in bad]}
            fix = "Find out which examples it was measured on, or whether it is an average."
            yield Finding("impossible-accuracy", "warning", "claims", evidence, numbers, fix)


def _possible(point: Point, n: int) -> bool:
    return abs(round(point.value * n) / n - point.value) <= point.half + ROUNDING


def _unread(table: PublishedResults, claims: list[Claim], data: ForeignData) -> Iterable[Finding]:
    """Numbers that could not be examined: lengths and splits without data, and uninformative names."""
    points = [point for claim in claims for point in claim.points if not sets_of(data, point)]
    lengths = sorted({point.place for point in points if isinstance(point.place, int)})
    if lengths:
        shown = ", ".join(map(str, lengths))
        evidence = f"The data has no test examples of length {shown}, so these numbers could not be examined."
        fix = "Name the directory on which they were measured."
        yield Finding("length-without-data", "warning", "claims", evidence, {"lengths": lengths}, fix)
    splits = sorted({str(point.split) for point in points if not isinstance(point.place, int)})
    if splits:
        evidence = f"The data has no {' and no '.join(splits)} examples, so accuracies of them could not be examined."
        fix = "Name the directory with all splits."
        yield Finding("not-examined", "warning", "claims", evidence, {"splits": splits}, fix)
    if table.missing:
        names = ", ".join(table.missing[:5]) + (" and more" if len(table.missing) > 5 else "")
        evidence = f"The accuracy is missing: {names}."
        fix = "Find out why it is not a number, and measure again."
        yield Finding("not-examined", "warning", "claims", evidence, {"names": list(table.missing)}, fix)
    if table.unread:
        names = ", ".join(table.unread[:5]) + (" and more" if len(table.unread) > 5 else "")
        evidence = f"These numbers have no name that shows their meaning, so they were not examined: {names}."
        fix = "Name them: accuracy, drop, a length such as 32, a head such as enc0.h1."
        yield Finding("not-examined", "warning", "claims", evidence, {"names": list(table.unread)}, fix)
    if table.doubtful:
        names = ", ".join(table.doubtful[:5]) + (" and more" if len(table.doubtful) > 5 else "")
        evidence = (
            f"{names}: numbers between 0 and 1 over the tested lengths, under a name that reads as a measure or a "
            "setting, so they were not examined."
        )
        fix = "If it is a model, give it another name; if it is a measure, leave it out or name the others accuracy."
        yield Finding("not-examined", "warning", "claims", evidence, {"names": list(table.doubtful)}, fix)


def _not_explained(claims: list[Claim], data: ForeignData, aside: Sequence[str]) -> Iterable[Finding]:
    """Claims that no candidate explains, and the candidates that they were compared with."""
    known = [claim for claim in claims if any(sets_of(data, point) for point in claim.points)]
    if not known:
        return
    candidates = candidates_of(data.task)
    shown = "; ".join(f"{claim.label}: {claim.shown}" if claim.label else claim.shown for claim in known[:4])
    compared = "; ".join(candidate.words.strip(",") for candidate in candidates)
    shown += " and more" * (len(known) > 4)
    evidence = f"{shown}: not explained by any of {len(candidates)} known defects ({compared})."
    if any(point.text.endswith("%") for claim in known for point in claim.points):
        evidence += " They were read as per cent."
    if aside:
        evidence += (
            f" Ignored, as another measure or a setting: {', '.join(aside[:5])}{' and more' * (len(aside) > 5)}."
        )
    numbers = {"candidates": len(candidates), "series": len(known), "claims": [claim.shown for claim in known]}
    fix = "A table cannot show that a model works; its answers can: headway doctor --predictions."
    yield Finding("not-explained", "warning", "claims", evidence, numbers, fix)
