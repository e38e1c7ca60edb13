"""Reads the results of earlier commands; unreadable files are reported instead of raised."""

from typing import TypeVar

from headway.errors import InputError
from headway.origin import OtherOrigin
from headway.results.heads import HeadAnalysis, read_heads
from headway.results.lengths import Lengths
from headway.runs import RunDirectory

R = TypeVar("R")


def of_another(directory: RunDirectory, name: str, step: int) -> str:
    """Why a document was not made from the run's checkpoint; empty if it was, or if there is none."""
    try:
        directory.read_analysis(name, step)
    except OtherOrigin as problem:
        return str(problem).removeprefix(f"{directory.path}: ")
    except InputError:
        pass
    return ""


def head_findings(directory: RunDirectory, step: int | None = None) -> tuple[HeadAnalysis | None, str]:
    """The head analysis and an empty text; or None and the reason, if the file is damaged or of another run."""
    try:
        found = read_heads(directory, step)
    except InputError as problem:
        return None, str(problem)
    return (None, f"heads.json of {directory.path} has no heads") if found and not found.heads else (found, "")


def read_lengths(directory: RunDirectory, step: int | None = None) -> tuple[Lengths | None, str]:
    """The length results and an empty text; or None and the reason, if the file cannot be read."""
    found, why = read_finding(directory, Lengths, "lengths", step)
    return (None, f"lengths.json of {directory.path} has no lengths") if found and not found.rows else (found, why)


def read_finding(directory: RunDirectory, kind: type[R], name: str, step: int | None = None) -> tuple[R | None, str]:
    """A document of a run and an empty text; or None and the reason, if the file cannot be read."""
    try:
        return directory.read_result(kind, name, step), ""
    except InputError as problem:
        return None, str(problem)
