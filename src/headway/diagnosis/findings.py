"""Checks, what one returns, and the findings of all of them: each check is a function that looks at one thing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.results.doctor import LEVELS, About, Finding, Level


def errors_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors, then warnings, then what is fine; within a level the order stays."""
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


@dataclass(frozen=True)
class Verdict:
    """What a check returns: a finding without the check's own name."""

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
    """One check: a name, what it is about, and a function that returns a verdict, or None where it has nothing to see.

    `unless` names checks whose error explains whatever this one would see; it is then left out.
    """

    name: str
    about: About
    look: Callable[[Any], Verdict | None]
    unless: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        return (self.look.__doc__ or "").strip().splitlines()[0]


def run_checks(checks: Sequence[Check], seen: Any) -> tuple[Finding, ...]:
    """Every check that has something to see, in order; causes stand before what they cause."""
    found: dict[str, Finding] = {}
    for check in checks:
        if any(name in found and found[name].level == "error" for name in check.unless):
            continue
        verdict = check.look(seen)
        if verdict is not None:
            found[check.name] = Finding(
                check.name, verdict.level, check.about, verdict.evidence, verdict.numbers, verdict.fix
            )
    return errors_first(found.values())
