"""Progress bars in a notebook: public functions show one while they work, unless a callback is given."""

from collections.abc import Callable
from functools import wraps
from html import escape
from inspect import signature
from time import monotonic
from typing import Any, cast

from headway.callbacks import Event

EVERY = 0.2
"""Seconds between two drawings of a bar."""


def with_bars(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a bar for each of its callbacks `progress` and `on_event` that the caller leaves out."""
    known = signature(function).parameters
    callbacks = [name for name in ("progress", "on_event") if name in known]
    if not callbacks:
        return function

    @wraps(function)
    def shown(*given: Any, **named: Any) -> Any:
        bars = {name: Bar(function.__name__) for name in callbacks if name not in named}
        try:
            return function(*given, **named, **bars)
        finally:
            for bar in bars.values():
                bar.close()

    return shown


class Bar:
    """One bar, drawn when something is first reported and removed at the end."""

    def __init__(self, title: str):
        self.title, self.handle, self.drawn = title, None, 0.0

    def __call__(self, *told: Any) -> None:
        """Take what a progress callback or an event reports: numbers done and total, and a note."""
        done, total, note = of_event(cast(Event, told[0])) if isinstance(told[0], dict) else of_numbers(told)
        if total and (monotonic() - self.drawn >= EVERY or done == total):
            self.drawn = monotonic()
            self.show(bar_html(self.title, done, total, note))

    def show(self, html: str) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        if self.handle is None:
            self.handle = display(HTML(html), display_id=True)
        else:
            self.handle.update(HTML(html))

    def close(self) -> None:
        if self.handle is not None:
            self.show("")


def of_numbers(told: tuple[Any, ...]) -> tuple[float, float, str]:
    """Done, total and note of `progress(done, total)` or `progress(step, done, total)`."""
    note = " ".join(part for part in told if isinstance(part, str))
    done, total = [part for part in told if not isinstance(part, str)][:2]
    return done, total, note


def of_event(event: Event) -> tuple[float, float, str]:
    """The same of an event of a training, a sweep or a study; nothing of events that report no number."""
    told = event.get("told", event)
    note = str(event.get("run") or event.get("stage") or told.get("note") or told.get("trial") or "")
    return told.get("step", told.get("done", 0)), told.get("total", told.get("of", 0)), note


def bar_html(title: str, done: float, total: float, note: str) -> str:
    """The bar with its numbers.

    >>> bar_html("heads", 1, 4, "")
    '<label>heads <progress value="1" max="4"></progress> 1 of 4 </label>'
    """
    bar = f'<progress value="{done:g}" max="{total:g}"></progress>'
    return f"<label>{escape(title)} {bar} {done:,.0f} of {total:,.0f} {escape(note)}</label>"
