"""doctor.json: the findings of every check on a run, several runs, a study, foreign files or the specimens."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, get_args

from headway.results.schema import Document, fact

Level = Literal["error", "warning", "fine"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""From worst to best."""
About = Literal["data", "harness", "model", "instruments", "claims"]
UNEXAMINED = ("not-examined", "length-without-data")
"""Findings that report that an input could not be examined."""
UNLEARNED = ("no-better-than-guessing", "constant-answer")
"""Findings on a model that has not learned, so that its heads mean nothing."""


@dataclass(frozen=True)
class Finding:
    """The result of one check: the evidence in words and numbers, and what to do about it."""

    check: str = fact("name of the check")
    level: Level = fact("error, warning or fine")
    about: About = fact("subject: data, harness, model, instruments or claims")
    evidence: str = fact("evidence, in words")
    numbers: Mapping[str, object] = fact("the numbers in the evidence, by name", default={})
    fix: str = fact("what to do; empty if nothing is wrong", default="")


def at_level(findings: Iterable[Finding], level: Level) -> list[Finding]:
    return [finding for finding in findings if finding.level == level]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The documents that a diagnosis used besides the run; with the same documents it is not made again."""

    checks: tuple[str, ...] = fact("names of all checks")
    heads: str | None = fact("digest of heads.json; null without one")
    lengths: str | None = fact("digest of lengths.json; null without one")
    attack: str | None = fact("digest of attack.json, if there is one", optional=True)


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Document):
    """All findings about one run, or about foreign files: errors first, causes before consequences."""

    form: Literal[1] = fact("version of this document", default=1)
    run: str = fact("run directory, or path of the files that were examined")
    task: str = fact("name of the task")
    step: int | None = fact("step of the checkpoint; null without a model")
    findings: tuple[Finding, ...] = fact("one record per check that applied")
    checked: int = fact("number of findings", default=0)
    seen: Seen | None = fact("documents that it used, in a study", optional=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "checked", len(self.findings))

    @property
    def errors(self) -> list[Finding]:
        return at_level(self.findings, "error")

    @property
    def warnings(self) -> list[Finding]:
        return at_level(self.findings, "warning")

    @property
    def unexamined(self) -> list[Finding]:
        """The findings that report that an input could not be examined."""
        return [finding for finding in self.findings if finding.check in UNEXAMINED]


@dataclass(frozen=True, kw_only=True)
class Diagnoses(Document):
    """Several runs, each examined by itself, and the findings over all of them."""

    runs: tuple[Diagnosis, ...] = fact("one diagnosis per run")
    together: tuple[Finding, ...] = fact("findings on all runs together; empty unless they are seeds of one recipe")

    @property
    def errors(self) -> list[Finding]:
        return [*(finding for one in self.runs for finding in one.errors), *at_level(self.together, "error")]

    @property
    def unexamined(self) -> list[Finding]:
        return [finding for one in self.runs for finding in one.unexamined]


@dataclass(frozen=True, kw_only=True)
class RunHealth:
    """A run of a study in short: the number of findings of each level, and those that are not fine."""

    run: str = fact("name of the run")
    error: int = fact("errors")
    warning: int = fact("warnings")
    fine: int = fact("checks that found nothing wrong")
    findings: tuple[Finding, ...] = fact("errors and warnings")

    @classmethod
    def of(cls, found: Diagnosis) -> "RunHealth":
        counts = Counter(finding.level for finding in found.findings)
        return cls(
            run=PurePath(found.run).name,
            error=counts["error"],
            warning=counts["warning"],
            fine=counts["fine"],
            findings=tuple(finding for finding in found.findings if finding.level != "fine"),
        )


@dataclass(frozen=True, kw_only=True)
class StudyHealth(Document):
    """The findings on every run of a study that are not fine, and the findings over the seeds of each cell."""

    form: Literal[1] = fact("version of this document", default=1)
    runs: tuple[RunHealth, ...] = fact("one record per run")
    together: tuple[Finding, ...] = fact("findings on the seeds of each cell together")

    def at(self, level: Level) -> list[tuple[str, Finding]]:
        """The findings of a level, each with the name of its run."""
        found = [(run.run, finding) for run in self.runs for finding in at_level(run.findings, level)]
        return [*found, *(("all runs together", finding) for finding in at_level(self.together, level))]

    @property
    def unlearned(self) -> dict[str, str]:
        """The runs that learned nothing, each with the check that found it."""
        return {run.run: one.check for run in self.runs for one in run.findings if one.check in UNLEARNED}


@dataclass(frozen=True, kw_only=True)
class SpecimenDiagnosis:
    """A planted fault and the doctor's findings on it.

    It is right if the expected check is the first error, and every other error is one that may follow from it.
    """

    name: str = fact("name of the specimen")
    wrong: str = fact("what is wrong with it")
    expected: str = fact("check that must be its first error")
    follows: tuple[str, ...] = fact("checks whose errors may follow from the defect")
    right: bool = fact("whether it was diagnosed as it should be", default=False)
    findings: tuple[Finding, ...] = fact("one record per check that applied")

    def __post_init__(self) -> None:
        errors = [finding.check for finding in at_level(self.findings, "error")]
        right = errors[:1] == [self.expected] and set(errors) <= {self.expected, *self.follows}
        object.__setattr__(self, "right", right)


@dataclass(frozen=True, kw_only=True)
class Exhibit(Document):
    """All specimens, and the healthy runs from which they were made."""

    controls: tuple[Diagnosis, ...] = fact("diagnoses of the healthy runs")
    specimens: tuple[SpecimenDiagnosis, ...] = fact("one record per specimen")
    right: bool = fact("whether every specimen is right and no healthy run has an error", default=False)

    def __post_init__(self) -> None:
        healthy = not any(control.errors for control in self.controls)
        object.__setattr__(self, "right", healthy and all(one.right for one in self.specimens))
