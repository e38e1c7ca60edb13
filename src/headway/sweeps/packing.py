"""Packs run directories into bytes, for machines without a shared disk."""

import io
import tarfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from headway.errors import RunStopped
from headway.runs import RunDirectory
from headway.storage import write_synced


def pack(places: Sequence[Path]) -> bytes:
    """The files of run directories as one archive; a missing directory adds nothing."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for number, place in enumerate(places):
            for path in sorted(place.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    archive.add(path, f"{number}/{path.relative_to(place).as_posix()}", recursive=False)
    return content.getvalue()


def unpack(content: bytes, places: Sequence[Path]) -> None:
    """Unpack runs into their directories, each atomically; anything but plain files inside is rejected."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive, ExitStack() as stack:
        members = [(member, *_where(member, len(places))) for member in archive]
        numbers = sorted({number for _, number, _ in members})
        folders = {number: stack.enter_context(RunDirectory(places[number]).arriving()) for number in numbers}
        for member, number, inside in members:
            target = folders[number] / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            source = archive.extractfile(member)
            assert source is not None
            write_synced(target, source.read())


def _where(member: tarfile.TarInfo, count: int) -> tuple[int, PurePosixPath]:
    """The run to which a file belongs, and its path inside."""
    first, *rest = PurePosixPath(member.name).parts or ("",)
    number = int(first) if first.isdecimal() and first.isascii() else count
    if not member.isreg() or not rest or ".." in rest or number >= count:
        raise RunStopped(f"a received run contains {member.name!r}, which is not a plain file inside it")
    return number, PurePosixPath(*rest)
