"""The stages of a study and their interruption. The events of a study are:

stage      stage, number, of: a stage begins
progress   done, total, note: how far it is
training   run (where there is only one), and the training's own event under `told`
failed     run, error
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headway.callbacks import OnEvent
from headway.errors import Interrupted


@dataclass
class Stages:
    """The stages in order, with the seconds of each."""

    path: Path
    names: Sequence[str]
    tell: OnEvent
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def at(self, name: str, standing: Callable[[], str] = lambda: "") -> Iterator[None]:
        """Run a stage. Ctrl-C ends it with a message of what is done and how to continue; `standing` adds details."""
        began = time.perf_counter()
        self.tell({"event": "stage", "stage": name, "number": self.names.index(name) + 1, "of": len(self.names)})
        try:
            yield
        except (Interrupted, KeyboardInterrupt):
            raise Interrupted(f"{self.path}: {self.stopped(name, standing())}; the same command continues") from None
        self.seconds[name] = round(time.perf_counter() - began, 3)

    def stopped(self, name: str, standing: str) -> str:
        """`stopped in stage 2 of 5, heads (1 of 3 done); done before it: train`."""
        place = self.names.index(name)
        more = f" ({standing})" if standing else ""
        before = f"; done before it: {', '.join(self.names[:place])}" if place else ""
        return f"stopped in stage {place + 1} of {len(self.names)}, {name}{more}{before}"
