"""Runs every check on one run, or on several seeds: `headway doctor` and `hw.doctor`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from headway.attached_analysis.metrics import Metric
from headway.attachment.attached import Attached
from headway.callbacks import OnProgress
from headway.diagnosis.attached_model import examine_model
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


def doctor(
    *runs: Trained | str | Path | nn.Module | Attached, data: Any = None, metric: str | Metric = "accuracy"
) -> Diagnosis | Diagnoses:
    """Examine a run, or several, or any model on given data, with every check that applies; writes nothing.

    A model of another program needs `data`, a batch or a list of them, and the `metric` that is measured on them.

    >>> hw.doctor("addition-seed0").errors                              # doctest: +SKIP
    []
    >>> hw.doctor(model, data=batches, metric="next_token_loss").errors   # doctest: +SKIP
    []
    """
    models = [run for run in runs if isinstance(run, nn.Module | Attached)]
    if models:
        if len(runs) > 1:
            raise InputError(f"{len(runs)} models or runs; hw.doctor examines one model of another program at a time")
        return examine_model(models[0], data, metric)
    if data is not None:
        raise InputError("hw.doctor of a run takes no data; it examines the run's own splits")
    return _of_runs([run for run in runs if not isinstance(run, nn.Module | Attached)])


def _of_runs(runs: Sequence[Trained | str | Path]) -> Diagnosis | Diagnoses:
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
