"""One progress display for all trials of a sweep."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headway.callbacks import Event, OnEvent
from headway.cli.options import PLAIN_EVERY, say
from headway.narration.numbers import duration

Show = OnEvent


@dataclass
class Standing:
    """The progress of a sweep, updated by its events."""

    total: int = 0
    skipped: int = 0
    finished: int = 0
    failed: int = 0
    stage: str = ""
    running: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Current step and last step of each running trial."""
    began: float = field(default_factory=time.monotonic)

    def take(self, event: Event) -> None:
        kind, trial = event["event"], event.get("trial", "")
        if kind == "planned":
            self.total, self.skipped, self.stage = event["total"], event["finished"], event.get("stage", "")
            self.finished, self.failed, self.began = 0, 0, time.monotonic()
        elif kind == "started":
            self.running[trial] = (0, event.get("total", 0))
        elif kind == "ended":
            self.running.pop(trial, None)
            self.finished += event["state"] != "failed"
            self.failed += event["state"] == "failed"
        elif "step" in event and trial in self.running:
            self.running[trial] = (event["step"], event.get("total", self.running[trial][1]))

    @property
    def done(self) -> float:
        """The number of trials that ended, with running trials as fractions."""
        parts = [step / last for step, last in self.running.values() if last]
        return self.finished + self.failed + sum(parts)

    @property
    def seconds_left(self) -> float | None:
        left = self.total - self.skipped - self.done
        return (time.monotonic() - self.began) * left / self.done if self.done > 0 else None

    def __str__(self) -> str:
        text = f"{self.stage}: " if self.stage else ""
        text += f"{self.skipped + self.finished + self.failed:,} of {self.total:,} trials"
        text += f", {self.failed:,} failed" if self.failed else ""
        left = self.seconds_left
        return f"{text}, about {duration(left)} left" if left else text


@contextmanager
def grid_progress(title: str, *, quiet: bool) -> Iterator[Show]:
    """A bar and a line per running trial on a terminal, occasional lines elsewhere; warnings always."""
    standing = Standing()
    if quiet:
        yield _warning
    elif sys.stderr.isatty():
        with _live(title, standing) as show:
            yield show
    else:
        yield _plain(title, standing)


def _warning(event: Event) -> None:
    if event["event"] == "warning":
        trial = f"{event['trial']}: " if "trial" in event else ""
        say(f"headway: warning: {trial}{event['text']}")


def _plain(title: str, standing: Standing) -> Show:
    last = time.monotonic()

    def show(event: Event) -> None:
        nonlocal last
        _warning(event)
        standing.take(event)
        if event["event"] == "planned" and standing.skipped:
            stage = f"{standing.stage}: " if standing.stage else ""
            say(f"{title}: {stage}{standing.skipped:,} of {standing.total:,} trials are finished already")
        if time.monotonic() - last >= PLAIN_EVERY:
            last = time.monotonic()
            say(f"{title}: {standing}")

    return show


@contextmanager
def _live(title: str, standing: Standing) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        whole = bar.add_task(title, note="", total=None)
        rows: dict[str, Any] = {}

        def show(event: Event) -> None:
            if event["event"] == "warning":
                trial = f"{event['trial']}: " if "trial" in event else ""
                bar.console.print(f"headway: warning: {trial}{event['text']}", markup=False, highlight=False)
            standing.take(event)
            bar.update(whole, total=standing.total, completed=standing.skipped + standing.done, note=str(standing))
            for name in rows.keys() - standing.running.keys():
                bar.remove_task(rows.pop(name))
            for name, (step, last) in standing.running.items():
                if name not in rows:
                    rows[name] = bar.add_task(f"  {name}", note="")
                bar.update(rows[name], completed=step, total=last or None, note=f"step {step:,} of {last:,}")

        yield show
