"""Atomic writes, a lock for one writer, and the mark of a file that headway wrote."""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.json_values import JsonObject

WRITER = "headway"
"""The name under which headway signs pages, Markdown, figures and documents outside of runs."""
MARKDOWN_MARK = f"<!-- generator: {WRITER} -->"
"""The first line of Markdown that headway writes; it is not shown."""
MARKS = tuple(
    re.compile(pattern, re.DOTALL | re.IGNORECASE)
    for pattern in (
        rb"\s*<!doctype html>.{0,4000}<meta name=\"generator\" content=\"headway\">",
        rb"<!-- generator: headway -->",
        rb"\x89PNG\r\n\x1a\n.{0,400}tEXtSoftware\x00headway",
        rb"<\?xml.{0,2000}<dc:creator>\s*<cc:Agent>\s*<dc:title>headway</dc:title>",
        rb"\{\s*\"generator\": \"headway\"",
    )
)
"""Where the signature stands in HTML, Markdown, PNG, SVG and JSON: at the beginning, so that a file which merely quotes
it is not taken for one of headway's."""


@contextmanager
def held_for_writing(folder: Path) -> Iterator[None]:
    """Hold the folder's lock file; it is let go when the block or the process ends."""
    with (folder / "lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being written by another process") from None
        yield


def read_lines(path: Path) -> Iterator[JsonObject]:
    """The objects of a file with one a line; a line that a kill cut off is passed over (its work is done again)."""
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def is_cut_off(line: bytes) -> bool:
    """Whether a line begins as an object does and is no JSON: what a kill leaves of it."""
    try:
        parse_json(line, "")
    except InputError:
        return line.startswith(b'{"')
    return False


def end_last_line(path: Path) -> None:
    if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        with path.open("ab") as handle:
            handle.write(b"\n")


def read_json(path: Path) -> Any:
    try:
        return parse_json(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"no file at {path}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def parse_json(content: bytes, where: str) -> Any:
    """The value that some bytes hold; what is no JSON is refused, `where` names it."""
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} cannot be read: {error}") from None


def can_be_opened(path: Path) -> bool:
    """Whether there are contents to be read, whatever they are."""
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def read_document(path: Path) -> JsonObject | None:
    """The object that a file holds, or None where there is no file; anything else raises `InputError`."""
    found = read_json(path) if path.exists() else None
    if found is not None and not isinstance(found, dict):
        raise InputError(f"{path} cannot be read: {found!r:.20} is no document")
    return found


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Replace the file by these contents in one go."""
    replace_file(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def is_written_by_headway(path: Path) -> bool:
    """Whether a file bears headway's signature; one that cannot be read does not."""
    try:
        with path.open("rb") as handle:
            start = handle.read(8_000)
    except OSError:
        return False
    return any(mark.match(start) for mark in MARKS)


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file in one go; where that fails (no room), it stays as it was and nothing is left beside it."""
    beside = path.with_name(f"{path.name}.writing-{os.getpid()}")
    try:
        write_synced(beside, content)
        os.replace(beside, path)
        sync_directory(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
