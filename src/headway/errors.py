"""Errors that are printed as one line, and the nearest known name for a typo."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Wrong input of the user; the message names the input, its place, the allowed values and the nearest match."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """List the known words, with the nearest one to `word` first.

    >>> suggestion("rotry", ["rotary", "learned"])
    'did you mean rotary? known: learned, rotary'
    """
    names = sorted(known)
    listing = f"known: {', '.join(names)}" if names else "none are known"
    nearest = get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {nearest[0]}? {listing}" if nearest else listing


class RunStopped(RuntimeError):
    """Training had to stop, for example at a non-finite loss; one line on the terminal and exit code 1."""


class InstrumentError(RuntimeError):
    """An instrument failed its self-check, so its results are invalid; one line and exit code 1."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM, after the work was saved; exit code 130 or 143."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an error of Python or PyTorch means that memory ran out."""
    phrases = ("out of memory", "allocate memory", "enough memory")
    return isinstance(problem, MemoryError) or any(phrase in str(problem) for phrase in phrases)
