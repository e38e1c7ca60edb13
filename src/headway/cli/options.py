"""Options that several commands share, and the printing of results."""

import codecs
import io
import json
import os
import re
import select
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Protocol, TextIO, runtime_checkable

import typer

from headway.cli.terminal import Piece, is_terminal, show_pieces
from headway.config import LARGEST_WHOLE
from headway.errors import InputError, RunStopped
from headway.json_values import JsonObject
from headway.results.schema import Document

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, everything else on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress.")]
Wide = Annotated[bool, typer.Option("--wide", help="Print everything at a terminal too, as into a pipe.")]
Force = Annotated[
    bool, typer.Option("--force", help="Also replace files that headway did not write; never a run's own.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. train.lr=0.002.")
]

IN_ASCII = {"−": "-", "–": "-", "≥": ">=", "≤": "<=", "±": "+-", "→": "->", "×": "x", "·": ".", "…": "..."}
"""Signs of results, and how they are printed where the encoding has none."""
PLAIN_EVERY = 10.0
"""Seconds between progress lines without a terminal."""


def parse_seeds(text: str) -> list[int]:
    """Parse `0-4` or `0,3,7` or `5` as seeds.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise InputError(f"--seeds {text!r}: write them as 0-4 or 0,3,7")
        if any(_is_too_large(digits) for digits in match.groups(default="0")):
            raise InputError(f"--seeds {text!r:.80}: a seed is at most {LARGEST_WHOLE:,}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > 10_000:
            raise InputError(f"--seeds {text!r}: {part.strip()} is not a range of at most 10,000 seeds")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds {text!r}: a seed is repeated")
    return seeds


def _is_too_large(digits: str) -> bool:
    # Thousands of digits cannot be parsed as a number.
    return len(digits.lstrip("0")) > len(str(LARGEST_WHOLE)) or int(digits) > LARGEST_WHOLE


def show(
    result: Document | JsonObject, lines: Sequence[str], *, as_json: bool, at_terminal: Sequence[Piece] = ()
) -> None:
    """A result on stdout: the whole document, or lines of text; at a terminal what was made for one, if anything."""
    if at_terminal and not as_json and is_terminal():
        show_pieces(at_terminal)
        return
    document = result.to_json() if isinstance(result, Document) else result
    try:
        text = json.dumps(document, indent=1, allow_nan=False) if as_json else escaped("\n".join(lines))
    except ValueError:
        raise RunStopped("--json: the result contains a non-finite number, which JSON cannot represent") from None
    print(text)


def say(text: str) -> None:
    """Print a line on stderr; a stderr that is closed, or a file on a full disk, is ignored."""
    try:
        print(escaped(text), file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def escaped(text: str) -> str:
    """A text whose control characters are written out, so that a name from a file cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)


def replace_what_cannot_be_encoded(stream: TextIO | None) -> None:
    """Print signs that the stream's encoding lacks in ASCII, as a pipe on Windows or an old locale needs."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    try:
        "".join(IN_ASCII).encode(stream.encoding)
    except UnicodeEncodeError:
        codecs.register_error("headway-ascii", _in_ascii)
        stream.reconfigure(errors="headway-ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """A codec's error handler: a minus sign stays one, and what has no likeness in ASCII is written as its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(IN_ASCII.get(one, one.encode("ascii", "backslashreplace").decode()) for one in lost), error.end


def discard(stream: TextIO) -> None:
    """Redirect a stream, including its buffer, to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_read_by_nobody(stream: TextIO) -> bool:
    """Whether the stream is a pipe whose other end was closed."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


@runtime_checkable
class Meter(Protocol):
    def __call__(self, done: float, total: int, note: str = "") -> None: ...


@contextmanager
def progress(title: str, *, quiet: bool) -> Iterator[Meter]:
    """A bar on a terminal, occasional lines elsewhere, nothing if quiet."""
    if quiet:
        yield lambda done, total, note="": None
    elif sys.stderr.isatty():
        with _bar(title) as meter:
            yield meter
    else:
        yield _plain(title)


@contextmanager
def _bar(title: str) -> Iterator[Meter]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    note = TextColumn("{task.fields[note]}")
    with Progress(*columns, note, console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task(title, note="", total=None)

        def update(done: float, total: int, note: str = "") -> None:
            bar.update(row, completed=done, total=total)
            if note:
                bar.update(row, note=note)

        yield update


def _plain(title: str) -> Meter:
    last = time.monotonic()

    def update(done: float, total: int, note: str = "") -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_EVERY or done == total:
            last = time.monotonic()
            say(f"{title}: {int(done):,} of {total:,} {note}".rstrip())

    return update
