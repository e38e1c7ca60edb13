"""Atomic writes, a lock for a single writer, and the signature of files that headway wrote."""

import fcntl
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.bounded_files import LARGEST_MEMORY, check_size, memory_of, read_bytes
from headway.errors import InputError, RunStopped
from headway.json_values import JsonObject
from headway.seals import KEY, seal_of, sealed, sealed_line, unsealed, unsealed_line

WRITER = "headway"
"""The generator name in pages, Markdown, figures and documents outside of runs."""
LONGEST_LINE = 100_000
"""Bytes of a log's last line that are read to continue it."""
LARGEST_DOCUMENT = 100_000_000
"""Bytes of a document or a log that is read; the largest of the studies in docs/results has 0.8 MB."""
MARKDOWN_MARK = f"<!-- generator: {WRITER} -->"
"""The first line of Markdown that headway writes; it is not displayed."""
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
"""Patterns of the signature at the beginning of HTML, Markdown, PNG, SVG and JSON. A file that merely quotes it does
not match.
"""


@contextmanager
def held_for_writing(folder: Path) -> Iterator[None]:
    """Hold the folder's lock file until the block or the process ends."""
    with (folder / "lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being written by another process") from None
        yield


def read_lines(path: Path) -> Iterator[JsonObject]:
    """The objects of a file with one per line; a last line cut off by a kill is skipped, since its work is repeated.

    A damaged line raises `InputError` with its number. In files of earlier versions, whose lines have no checksum, a
    line that is not JSON is taken for one that a kill cut off.
    """
    try:
        lines = read_bytes(path, LARGEST_DOCUMENT).split(b"\n") if path.exists() else []
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    has_checksums, previous = next((has_checksum(line) for line in lines if is_json(line)), False), ""
    for number, line in enumerate(lines, 1):
        where = f"{path}: line {number}"
        if not is_json(line):
            if has_checksums and line.strip() and number < len(lines):
                raise InputError(f"{where} is damaged: it is not JSON")
            continue
        if has_checksums and not has_checksum(line):
            raise InputError(f"{where} is damaged or was edited: it has no checksum")
        has_checksums = has_checksums or has_checksum(line)
        record = parse_json(line, where)
        content, previous = unsealed_line(record, where, previous), seal_of(record)
        if isinstance(content, dict):
            yield content


def is_json(line: bytes) -> bool:
    try:
        parse_json(line, "")
    except InputError:
        return False
    return True


def is_cut_off(line: bytes) -> bool:
    """Whether a line starts like an object but is not JSON, as after a kill."""
    try:
        parse_json(line, "")
    except InputError:
        return line.startswith(b'{"')
    return False


def has_checksum(content: bytes) -> bool:
    """Whether a document or a line is an object with a checksum; False for what is not JSON."""
    try:
        record = parse_json(content, "")
    except InputError:
        return False
    return isinstance(record, dict) and KEY in record


def append_lines(path: Path, records: Iterable[JsonObject]) -> None:
    """Append records to a log, each with a checksum that covers the line before it."""
    previous = last_seal(path)
    text = ""
    for record in records:
        line = sealed_line(record, previous)
        previous = seal_of(json.loads(line))
        text += line
    with path.open("a", encoding="utf-8") as handle:
        handle.write(text)


def last_seal(path: Path) -> str:
    """The checksum of a log's last line; empty if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as handle:
        handle.seek(max(0, path.stat().st_size - LONGEST_LINE))
        line = handle.read().rstrip(b"\n").rpartition(b"\n")[2]
    return seal_of(parse_json(line, str(path))) if is_json(line) else ""


def end_last_line(path: Path) -> None:
    """Complete the last line of a file that a killed process wrote; a line that was cut off is removed."""
    content = path.read_bytes() if path.exists() else b""
    if not content or content.endswith(b"\n"):
        return
    start = content.rfind(b"\n") + 1
    if is_json(content[start:]):
        with path.open("ab") as handle:
            handle.write(b"\n")
    else:
        os.truncate(path, start)


def read_json(path: Path) -> Any:
    """The value in a JSON file; a document that does not match its checksum raises `InputError`."""
    try:
        check_size(path, LARGEST_DOCUMENT)
        return unsealed(parse_json(path.read_bytes(), str(path)), str(path))
    except FileNotFoundError:
        raise InputError(f"no file at {path}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def parse_json(content: bytes, where: str) -> Any:
    """Parse JSON; raises `InputError` with `where` if it is not JSON."""
    try:
        text = content.decode()
        if (needed := memory_of(text)) > LARGEST_MEMORY:
            raise ValueError(f"it could take {needed / 1e6:,.0f} MB of memory")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} cannot be read: {error}") from None


def can_be_opened(path: Path) -> bool:
    """Whether a file can be read, whatever its content."""
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def read_document(path: Path) -> JsonObject | None:
    """The object in a JSON file, or None if there is no file; other content raises `InputError`."""
    found = read_json(path) if path.exists() else None
    if found is not None and not isinstance(found, dict):
        raise InputError(f"{path} cannot be read: {found!r:.20} is not a document")
    return found


def write_json(path: Path, content: Mapping[str, object], *, seal: bool = True) -> None:
    """Replace a JSON file atomically; with `seal` it ends with its checksum."""
    try:
        text = json.dumps(sealed(content) if seal else content, indent=1, allow_nan=False)
    except ValueError:
        raise RunStopped(
            f"{path} is not written: {non_finite(content)} is not a finite number, as with weights or logits that are "
            "not; headway doctor says where"
        ) from None
    replace_file(path, f"{text}\n".encode())


def non_finite(value: object, where: str = "") -> str | None:
    """The place of the first number in a JSON value that is not finite; None if all are."""
    if isinstance(value, float):
        return None if math.isfinite(value) else where
    if isinstance(value, Mapping):
        parts = ((f"{where}.{key}" if where else str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"{where}[{index}]", part) for index, part in enumerate(value))
    else:
        return None
    return next((found for place, part in parts if (found := non_finite(part, place)) is not None), None)


def is_written_by_headway(path: Path) -> bool:
    """Whether a file has headway's signature; False if it cannot be read."""
    try:
        with path.open("rb") as handle:
            start = handle.read(8_000)
    except OSError:
        return False
    return any(mark.match(start) for mark in MARKS)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically; on an error, such as a full disk, the old file stays and no other is left."""
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
