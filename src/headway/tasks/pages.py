"""The views and rules that a task's page can name (`Task.page`)."""

from collections.abc import Callable, Mapping

from headway.errors import InputError
from headway.tasks.base import Task
from headway.tasks.descriptions import PageDescription

VIEWS = ("tokens", "bars", "sum")
RULES: Mapping[str, Callable[[list[int]], list[int]]] = {
    "same": list,
    "ascending": sorted,
    "is ascending": lambda source: [int(source == sorted(source))],
    "odd ones": lambda source: [source.count(1) % 2],
}
"""The answer to a source, without EOS, by each rule; explorer/page/app-tasks.js has the same functions."""


def checked_page(task: Task) -> PageDescription:
    """The task's page; raises for unknown views and rules."""
    page = task.page()
    if page.get("view") not in VIEWS:
        raise InputError(f"task {task.name!r} names the view {page.get('view')!r}; the page has: {', '.join(VIEWS)}")
    numbers = tuple(map(str, range(page.get("values", 0))))
    if task.vocabulary.tokens[: len(numbers)] != numbers:
        raise InputError(
            f"task {task.name!r} lets 0 to {len(numbers) - 1} be typed, and its first tokens are no such numbers"
        )
    if page.get("rule") not in (None, *RULES):
        raise InputError(f"task {task.name!r} names the rule {page['rule']!r}; the page knows: {', '.join(RULES)}")
    return page
