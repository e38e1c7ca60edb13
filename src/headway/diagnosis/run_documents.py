"""What earlier commands found about a run, as the doctor reads it: a file that cannot be read is named, not raised."""

from typing import TypeVar

from headway.errors import InputError
from headway.origin import OtherOrigin
from headway.results.heads import HeadAnalysis, read_heads
from headway.results.lengths import Lengths
from headway.runs import RunDirectory

R = TypeVar("R")


def of_another(directory: RunDirectory, name: str, step: int) -> str:
    """Why a document of a run was not made from its checkpoint; empty where it was, or is not there."""
    try:
        directory.read_analysis(name, step)
    except OtherOrigin as problem:
        return str(problem).removeprefix(f"{directory.path}: ")
    except InputError:
        pass
    return ""


def head_findings(directory: RunDirectory, step: int | None = None) -> tuple[HeadAnalysis | None, str]:
    """What was found of heads, and an empty text; None, and why, where the file is damaged or another's."""
    try:
        found = read_heads(directory, step)
    except InputError as problem:
        return None, str(problem)
    return (None, f"heads.json of {directory.path} has no heads") if found and not found.heads else (found, "")


def read_lengths(directory: RunDirectory, step: int | None = None) -> tuple[Lengths | None, str]:
    """What was measured against length, and an empty text; None, and why, where the file cannot be read."""
    found, why = read_finding(directory, Lengths, "lengths", step)
    return (None, f"lengths.json of {directory.path} has no lengths") if found and not found.rows else (found, why)


def read_finding(directory: RunDirectory, kind: type[R], name: str, step: int | None = None) -> tuple[R | None, str]:
    """A document of a run, and an empty text; None, and why, where the file cannot be read."""
    try:
        return directory.read_result(kind, name, step), ""
    except InputError as problem:
        return None, str(problem)
