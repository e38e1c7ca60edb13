"""A run's metrics mirrored to other programs; metrics.jsonl stays the original."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headway.callbacks import Event, MetricsRow, OnEvent
from headway.errors import InputError, suggestion
from headway.runs import RunDirectory

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

MIRRORS = ("tensorboard",)


def check_log(log: str | None) -> None:
    """Raise for an unknown mirror, or one whose package is not installed."""
    if log is not None and log not in MIRRORS:
        raise InputError(f"--log {log!r}; {suggestion(log, MIRRORS)}")
    if log is not None and find_spec("tensorboard") is None:
        raise InputError("--log tensorboard needs the extra: pip install 'headway[track]'")


@contextmanager
def mirrored(log: str | None, run: Path | str, on_event: OnEvent) -> Iterator[OnEvent]:
    """A callback that passes every event on to `on_event` and, with `log`, writes it to event files in the run.

    The files are written anew from metrics.jsonl first, so a run that was stopped and continued has every step once.
    """
    check_log(log)
    if log is None:
        yield on_event
        return
    mirror = _Mirror(RunDirectory(run))

    def tell(event: Event) -> None:
        mirror.note(event)
        on_event(event)

    try:
        yield tell
        mirror.catch_up()
    finally:
        mirror.close()


class _Mirror:
    def __init__(self, run: RunDirectory):
        self.run = run
        self.writer: SummaryWriter | None = None
        self.newest: dict[str, int] = {}

    def note(self, event: Event) -> None:
        """Write an event. The first one also writes the metrics recorded before it."""
        # A warning can come before it is known from which step on the run continues.
        if event["event"] not in ("resumed", "step", "validation"):
            return
        if self.writer is None:
            self.catch_up(event["step"])
        self._write(event)

    def catch_up(self, until: int | None = None) -> None:
        """Start new files with the metrics so far, once, even if nothing is left to train."""
        if self.writer is not None:
            return
        from torch.utils.tensorboard import SummaryWriter

        for old in self.run.tensorboard.glob("events.*"):
            old.unlink()
        self.writer = SummaryWriter(str(self.run.tensorboard))
        for record in self.run.metrics():
            if until is None or record.get("step", 0) <= until:
                self._write(record)

    def _write(self, record: MetricsRow | Event) -> None:
        """Write the numbers that are missing: metrics are on disk before an event is sent."""
        assert self.writer is not None
        for tag, value in scalars(record).items():
            if record["step"] > self.newest.get(tag, -1):
                self.writer.add_scalar(tag, value, record["step"])
                self.newest[tag] = record["step"]

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def scalars(record: MetricsRow | Event) -> dict[str, float]:
    """The numbers of a line of metrics.jsonl, or of its event, under the names that are displayed."""
    if "validation" in record:
        return {
            f"validation/{name}": value for name, value in cast("Mapping[str, float]", record["validation"]).items()
        }
    return {f"train/{name}": record[name] for name in ("loss", "lr", "gradient") if name in record}
