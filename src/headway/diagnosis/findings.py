"""The types of checks and verdicts, and the function that runs all checks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.results.doctor import LEVELS, About, Finding, Level


def errors_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors, then warnings, then fine; stable within a level."""
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


@dataclass(frozen=True)
class Verdict:
    """The result of a check: a finding without the check's name."""

    level: Level
    evidence: str
    numbers: Mapping[str, object] = field(default_factory=dict)
    fix: str = ""


def fine(evidence: str, **numbers: object) -> Verdict:
    return Verdict("fine", evidence, numbers)


def error(evidence: str, fix: str, **numbers: object) -> Verdict:
    return Verdict("error", evidence, numbers, fix)


def warning(evidence: str, fix: str, **numbers: object) -> Verdict:
    return Verdict("warning", evidence, numbers, fix)


@dataclass(frozen=True)
class Check:
    """One check: its name, its subject, and a function that returns a verdict, or None if it does not apply.

    `unless` names checks whose error explains this one; the check is skipped after such an error.
    """

    name: str
    about: About
    function: Callable[[Any], Verdict | None]
    unless: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        return (self.function.__doc__ or "").strip().splitlines()[0]


def run_checks(checks: Sequence[Check], seen: Any) -> tuple[Finding, ...]:
    """Run every check that applies, in order; causes are checked before consequences."""
    found: dict[str, Finding] = {}
    for check in checks:
        if any(name in found and found[name].level == "error" for name in check.unless):
            continue
        verdict = check.function(seen)
        if verdict is not None:
            found[check.name] = Finding(
                check.name, verdict.level, check.about, verdict.evidence, verdict.numbers, verdict.fix
            )
    return errors_first(found.values())
