"""Atomic writes, a lock for a single writer, and the signature of files that headway wrote."""

import fcntl
import hashlib
import json
import math
import os
import platform
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
        rb"% generator: headway\s",
    )
)
"""Patterns of the signature at the beginning of HTML, Markdown, PNG, SVG, JSON and LaTeX. A file that merely quotes it
does not match.
"""

WRITING = ".writing-"
"""Separates a file's name from the process that writes it, in the name of the file that will take its place."""

NAMED_WITHIN = 1.0
"""Seconds to wait for the name of the process that holds a lock."""


@contextmanager
def held_for_writing(folder: Path) -> Iterator[None]:
    """Hold the folder's lock file until the block or the process ends; it names this process to others."""
    with (folder / "lock").open("ab", buffering=0) as handle:  # a buffer would meet a full disk again at its end
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is being written by {_holder(folder)}") from None
        except OSError as error:
            told = f"{folder} cannot be locked ({error.strerror}); a file system that supports flock is needed"
            raise InputError(told) from None
        with suppress(OSError):  # without room for the name, the lock still holds
            handle.truncate(0)
            handle.write(f"{os.getpid()} {platform.node()}".encode())
        try:
            yield
        finally:
            with suppress(OSError):
                handle.truncate(0)


def check_not_held(folder: Path) -> None:
    """Raise if another process holds the folder's lock."""
    lock = folder / "lock"
    if not lock.is_file() or not lock.read_bytes():
        return  # nobody is asked to wait: even a moment of locking could turn another process away
    with lock.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{folder} is being written by {_holder(folder)}") from None


def _holder(folder: Path) -> str:
    """The process that holds a lock, in words; it writes its name a moment after it has the lock."""
    end = time.monotonic() + NAMED_WITHIN
    while time.monotonic() < end:
        pid, _, host = (folder / "lock").read_text(errors="replace").partition(" ")
        if pid and (host != platform.node() or _is_alive(pid)):
            return f"process {pid}" + (f" on {host}" if host != platform.node() else "")
        time.sleep(0.01)
    return "another process"


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
    append(path, text.encode())


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


def named_twice(content: bytes) -> str | None:
    """A key that an object of a JSON document has twice, of which readers take the first or the last; None if none."""
    found: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        seen = Counter(name for name, _ in pairs)
        found.extend(name for name, count in seen.items() if count > 1)

    json.loads(content, object_pairs_hook=note)
    return found[0] if found else None


def can_be_opened(path: Path) -> bool:
    """Whether a file can be read, whatever its content."""
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def read_document(path: Path) -> JsonObject | None:
    """The object in a JSON file, or None if there is no file; other content raises `InputError`."""
    if not path.exists():
        return None
    found = read_json(path)
    if not isinstance(found, dict):
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
    beside = _beside(path)
    try:
        with naming(path):
            write_synced(beside, content)
            os.replace(beside, path)
            sync(path.parent)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    _remove_leftovers(path)


def _beside(path: Path) -> Path:
    """The name under which this process writes what will take a path's place."""
    return path.with_name(f"{path.name}{WRITING}{_host()}-{os.getpid()}")


def _host() -> str:
    """Four characters that tell machines apart, as some share a disk."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:4]


def _remove_leftovers(path: Path) -> None:
    """Remove what killed processes of this machine left of a file or folder."""
    start = f"{path.name}{WRITING}{_host()}-"
    for beside in path.parent.iterdir():
        if beside.name.startswith(start) and not _is_alive(beside.name.removeprefix(start)):
            shutil.rmtree(beside, ignore_errors=True)
            with suppress(OSError):
                beside.unlink()


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make an `OSError` name the file that was to be written; that of a full disk names none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def append(path: Path, content: bytes, *, synced: bool = False) -> None:
    """Append to a file; a part that was written before an error is removed, so that earlier lines stay intact."""
    with naming(path), path.open("ab", buffering=0) as handle:
        end, left = handle.tell(), memoryview(content)
        try:
            while left:
                left = left[handle.write(left) :]
        except OSError:
            os.ftruncate(handle.fileno(), end)
            raise
        if synced:
            os.fsync(handle.fileno())


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """An empty folder to fill, which becomes `place` (new or empty) when the block ends; an error leaves nothing."""
    beside = _beside(place.absolute())
    try:
        with naming(place):
            beside.mkdir(parents=True)
        yield beside
        with naming(place):
            for folder, _, names in os.walk(beside, topdown=False):
                for name in names:
                    sync(Path(folder) / name)
                sync(Path(folder))
            _move(beside, place)
            sync(beside.parent)
        _remove_leftovers(place.absolute())
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _move(beside: Path, place: Path) -> None:
    """Rename a folder; into an empty one, which may be the current directory or a mount point, its entries move."""
    if not place.exists():
        os.rename(beside, place)
        return
    for entry in beside.iterdir():
        os.rename(entry, place / entry.name)


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def sync(path: Path) -> None:
    """Wait until a file or the names in a directory are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
