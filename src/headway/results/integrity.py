"""`headway verify RUN --json`: which files of a run are whole, damaged, or of another checkpoint."""

from dataclasses import dataclass
from typing import Literal

from headway.results.schema import Document, fact

State = Literal["whole", "damaged", "other-origin"]


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """A file of a run, or a checkpoint with its files."""

    file: str = fact("path inside the run")
    state: State = fact("whole, damaged, or other-origin: made from another checkpoint, config or data")
    step: int | None = fact("step of the checkpoint (for an analysis, of its source); null if there is none")
    detail: str = fact("why it is not whole, or that it has no checksum; else empty")


@dataclass(frozen=True, kw_only=True)
class Integrity(Document):
    """Every file of a run that headway can check."""

    run: str = fact("run directory")
    files: tuple[CheckedFile, ...] = fact("one record for each file and checkpoint")
    usable_step: int | None = fact("step of the newest checkpoint that is whole; null without one")

    @property
    def faults(self) -> list[CheckedFile]:
        """The files that are not whole."""
        return [one for one in self.files if one.state != "whole"]
