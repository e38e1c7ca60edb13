"""Sentences about the doctor's findings."""

from collections import Counter
from collections.abc import Sequence

from headway.narration.numbers import count, counted
from headway.narration.text import Text, code, listed, text
from headway.results.doctor import LEVELS, Finding, StudyHealth, at_level

SHOWN_ERRORS = 5
"""Errors of a study that are printed; the report has all."""


def tally(findings: Sequence[Finding]) -> Text:
    """`1 error (split-overlap) and 2 warnings; 21 checks find nothing wrong`."""
    counts = {level: count(findings, "level", level) for level in LEVELS}
    said = []
    for level in LEVELS[:2]:
        if n := counts[level].value:
            first = text(" ({})", code(at_level(findings, level)[0].check)) if level == "error" else ""
            said.append(text("{} {}{}", counts[level], level if n == 1 else f"{level}s", first))
    fine = text("{} {} nothing wrong", counts["fine"], "check finds" if counts["fine"].value == 1 else "checks find")
    if not said:
        return text("no error and no warning; {}", fine)
    return text("{}; {}", listed(said), fine) if counts["fine"].value else listed(said)


def of_study(health: StudyHealth) -> list[str]:
    """The numbers of errors and warnings, the first errors in full, and the names of the warnings."""
    errors, warned = health.at("error"), Counter(one.check for _, one in health.at("warning"))
    examined = counted(len(health.runs), "run")
    lines = [f"the doctor examined {examined}: {counted(len(errors), 'error')}, {counted(warned.total(), 'warning')}"]
    lines += [f"  error in {run}, {one.check}: {one.evidence}" for run, one in errors[:SHOWN_ERRORS]]
    if len(errors) > SHOWN_ERRORS:
        lines.append(f"  and {len(errors) - SHOWN_ERRORS:,} more errors; the report has all of them")
    if warned:
        names = ", ".join(f"{check} ({times})" if times > 1 else check for check, times in warned.items())
        lines.append(f"  warnings: {names}")
    return lines
