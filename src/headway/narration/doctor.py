"""The doctor's findings, counted in words."""

from collections.abc import Sequence

from headway.narration.numbers import count
from headway.narration.text import Text, code, listed, text
from headway.results.doctor import LEVELS, Finding, at_level


def tally(findings: Sequence[Finding]) -> Text:
    """`1 error (split-overlap) and 2 warnings; 21 checks find nothing wrong`, if any check does."""
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
