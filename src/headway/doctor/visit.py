"""A visit to the doctor: every check over one run, or over several seeds."""

from pathlib import Path

from headway.doctor.behaviour import BEHAVIOUR
from headway.doctor.claims import CLAIMS
from headway.doctor.data import DATA
from headway.doctor.examination import Examination
from headway.doctor.findings import Check, Diagnosis, run_checks
from headway.doctor.harness import HARNESS
from headway.doctor.instruments import INSTRUMENTS
from headway.doctor.learning import LEARNING
from headway.doctor.subject import Subject, subject_of
from headway.evaluation import Trained, load

CHECKS: tuple[Check, ...] = (*DATA, *HARNESS, *INSTRUMENTS, *LEARNING, *BEHAVIOUR, *CLAIMS)
"""Causes before what they cause: the first error of a diagnosis is the one to mend first."""


def doctor(run: Trained | str | Path) -> Diagnosis:
    """Examine a run: every check that has something to see; nothing is written.

    >>> hw.doctor("addition-seed0").errors   # doctest: +SKIP
    []
    """
    return examine(subject_of(run if isinstance(run, Trained) else load(run)))


def examine(subject: Subject) -> Diagnosis:
    """The findings of every check on a subject, errors first."""
    findings = run_checks(CHECKS, Examination(subject))
    return Diagnosis(subject.name, subject.task.name, subject.step, findings)
