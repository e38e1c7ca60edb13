"""A finding, a diagnosis, and the list of checks: each check is a function that looks at one thing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal, get_args

from headway.errors import InputError

FORM = 1
Level = Literal["error", "warning", "fine"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""From bad to good."""
About = Literal["data", "harness", "model", "instruments", "claims"]


@dataclass(frozen=True)
class Finding:
    """What one check saw: the evidence in words and in numbers, and what to do about it."""

    check: str
    level: Level
    about: About
    evidence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "numbers": dict(self.numbers)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Finding":
        if document.get("level") not in LEVELS:
            raise InputError(f"a finding has level {document.get('level')!r}; known: {', '.join(LEVELS)}")
        return cls(**document)


@dataclass(frozen=True)
class Diagnosis:
    """All findings about one subject, errors first; among equals the most specific cause first."""

    run: str
    task: str
    step: int | None
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> list[Finding]:
        return self.at("error")

    @property
    def warnings(self) -> list[Finding]:
        return self.at("warning")

    def at(self, level: Level) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == level]

    def to_json(self) -> dict[str, Any]:
        findings = [finding.to_json() for finding in self.findings]
        about = {"run": self.run, "task": self.task, "step": self.step}
        return {"form": FORM, **about, "findings": findings, "checked": len(findings)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Diagnosis":
        if document.get("form") != FORM:
            raise InputError(f"doctor.json has form {document.get('form')!r}; this version reads {FORM}")
        findings = tuple(Finding.from_json(finding) for finding in document["findings"])
        return cls(document["run"], document["task"], document["step"], findings)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(one.level)}</td><td>{escape(one.check)}</td><td>{escape(one.evidence)}</td>"
            f"<td>{escape(one.fix)}</td></tr>"
            for one in self.findings
        )
        return f"<table><tr><th>level</th><th>check</th><th>evidence</th><th>fix</th></tr>{rows}</table>"


def errors_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors, then warnings, then what is fine; within a level the order stays."""
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


@dataclass(frozen=True)
class Verdict:
    """What a check returns: a finding without the check's own name."""

    level: Level
    evidence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""


def fine(evidence: str, **numbers: Any) -> Verdict:
    return Verdict("fine", evidence, numbers)


def error(evidence: str, fix: str, **numbers: Any) -> Verdict:
    return Verdict("error", evidence, numbers, fix)


def warning(evidence: str, fix: str, **numbers: Any) -> Verdict:
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
