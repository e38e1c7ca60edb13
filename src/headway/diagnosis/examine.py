"""Runs every check on one run, or on several seeds: `headway doctor` and `hw.doctor`."""

from collections.abc import Sequence
from pathlib import Path

from headway.callbacks import OnProgress
from headway.diagnosis.behaviour import BEHAVIOUR
from headway.diagnosis.belonging import BELONGING
from headway.diagnosis.claims import CLAIMS, over_seeds
from headway.diagnosis.data import DATA
from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, run_checks
from headway.diagnosis.harness import HARNESS
from headway.diagnosis.instruments import INSTRUMENTS
from headway.diagnosis.learning import LEARNING
from headway.diagnosis.run_documents import head_findings
from headway.diagnosis.subject import Subject, subject_of
from headway.errors import InputError
from headway.evaluation import Trained, are_seeds_of_one_recipe, load
from headway.results.doctor import Diagnoses, Diagnosis

CHECKS: tuple[Check, ...] = (*DATA, *BELONGING, *HARNESS, *LEARNING, *BEHAVIOUR, *INSTRUMENTS, *CLAIMS)
"""Causes before consequences: the first error of a diagnosis is the one to fix first."""


def doctor(*runs: Trained | str | Path) -> Diagnosis | Diagnoses:
    """Examine a run, or several, with every check that applies; writes nothing.

    >>> hw.doctor("addition-seed0").errors   # doctest: +SKIP
    []
    """
    opened = [run if isinstance(run, Trained) else load(run) for run in runs]
    if not opened:
        raise InputError("no run was given; name at least one")
    if len(opened) == 1:
        return examine(subject_of(opened[0]))
    return examine_together(opened)


def examine(subject: Subject, checks: Sequence[Check] = CHECKS) -> Diagnosis:
    """The findings of every check on a subject, errors first."""
    findings = run_checks(checks, Examination(subject))
    return Diagnosis(run=subject.name, task=subject.task.name, step=subject.step, findings=findings)


def examine_together(opened: Sequence[Trained], progress: OnProgress = lambda done, total: None) -> Diagnoses:
    """Examine each run, and for seeds of one recipe also the claims over all seeds."""
    seeds = are_seeds_of_one_recipe(opened)
    checks = [check for check in CHECKS if not (seeds and check.name == "too-few-seeds")]
    found = []
    for done, trained in enumerate(opened):
        progress(done, len(opened))
        found.append(examine(subject_of(trained), checks))
    heads = [head_findings(trained.directory)[0] for trained in opened]
    return Diagnoses(runs=tuple(found), together=over_seeds(heads, len(opened)) if seeds else ())
