"""One trained run of each task, examined by many tests; each test plants its own fault in a copy."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.diagnosis.examination import Examination
from headway.diagnosis.examine import CHECKS, examine
from headway.diagnosis.findings import Finding, run_checks
from headway.diagnosis.subject import Subject, subject_of
from headway.evaluation import Trained, load
from headway.training import train
from tests.head_analysis.small import ADDITION, SORTEDNESS
from tests.tiny import config

FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "addition": (
        ADDITION,
        {
            "data": {"train": 600, "validation": 40, "test": 60},
            "model": {"d_model": 24, "d_head": 7, "d_ff": 32, "decoder_layers": 1, "dropout": 0.1},
            "train": {"steps": 80, "batch_size": 48, "validate_every": 40, "lr": 0.01},
        },
    ),
    "sortedness": (
        SORTEDNESS,
        {
            "task": {"negatives": "mixed", "values": 20},
            "data": {"train": 600, "validation": 40, "test": 60},
            "model": {"encoder_layers": 1, "encoding": {"name": "learned", "table_size": 9}, "dropout": 0.1},
            "train": {"steps": 80, "batch_size": 48, "validate_every": 40, "lr": 0.01},
        },
    ),
}


@cache
def run(task: str) -> tuple[Trained, Subject]:
    """A run that has learned something, and the subject that it is."""
    base, tables = FORMS[task]
    with TemporaryDirectory() as folder:
        train(config(base, **tables), Path(folder) / "run", device="cpu")
        trained = load(Path(folder) / "run", device="cpu")
        return trained, subject_of(trained)


def subject(task: str, **faults: Any) -> Subject:
    """The healthy run, with some of its parts replaced."""
    return replace(run(task)[1], **faults)


def found(examined: Subject, check: str) -> Finding:
    """What a check says of a subject."""
    chosen = [one for one in CHECKS if one.name == check]
    return run_checks(chosen, Examination(examined))[0]


def first_error(examined: Subject) -> Finding:
    return examine(examined).findings[0]
