"""A process that kills itself at its n-th file operation, before or after it, or with a file half written.

It needs nothing but the standard library: `faults/planted/sitecustomize.py` plants it in worker processes, too.
"""

import builtins
import io
import os
import signal
from collections.abc import Callable
from typing import Any

OPERATIONS = ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "ftruncate")


class Fuse:
    """Burns down by two at each file operation, one before it and one after it, while `depth` is above 0."""

    def __init__(self, length: int, depth: int = 1, once: str | None = None):
        self.left, self.depth, self.once, self.burned = length, depth, once, 0

    def burn(self) -> None:
        if self.depth:
            self.burned += 1
            self.left -= 1
            if self.left == 0 and self._is_first():
                os.kill(os.getpid(), signal.SIGKILL)

    def _is_first(self) -> bool:
        """Whether no other process that shares the `once` file has died of its fuse."""
        try:
            return self.once is None or os.open(self.once, os.O_CREAT | os.O_EXCL) >= 0
        except FileExistsError:
            return False

    def around(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def burning(*arguments: Any, **options: Any) -> Any:
            self.burn()
            result = operation(*arguments, **options)
            self.burn()
            return result

        return burning

    def inside(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, in which the fuse burns."""

        def counted(*arguments: Any, **options: Any) -> Any:
            self.depth += 1
            try:
                return method(*arguments, **options)
            finally:
                self.depth -= 1

        return counted

    def opening(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            handle = plain(path, mode, *arguments, **options)
            return SlowFile(handle, self) if self.depth and any(letter in mode for letter in "wax+") else handle

        return opened


class SlowFile:
    """A file whose first part is written in two halves, so that a kill can fall between them."""

    def __init__(self, handle: Any, fuse: Fuse):
        self.handle, self.fuse, self.begun = handle, fuse, False

    def write(self, content: Any) -> int:
        if self.begun:
            return self.handle.write(content)
        self.begun = True
        middle, written = len(content) // 2, 0
        for part in (content[:middle], content[middle:]):
            self.fuse.burn()
            written += self.handle.write(part)
            self.handle.flush()
        return written

    def __enter__(self) -> "SlowFile":
        return self

    def __exit__(self, *problem: Any) -> None:
        self.handle.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)


def plant(length: int, depth: int = 1, once: str | None = None) -> Fuse:
    """Make this process kill itself at its `length`-th point; with depth 0, only inside methods given to `inside`."""
    fuse = Fuse(length, depth, once)
    for name in OPERATIONS:
        setattr(os, name, fuse.around(getattr(os, name)))
    opened = fuse.opening(io.open)
    builtins.open = io.open = opened
    return fuse
