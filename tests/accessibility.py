"""What axe-core finds wrong with a page in a browser, by the success criteria of WCAG at levels A and AA."""

from functools import cache
from importlib.resources import files
from typing import Any

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@cache
def axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def violations(tab: Any) -> list[str]:
    """Each violation with the element it is about; `tab` shows the page in a context that bypasses its policy."""
    tab.evaluate(axe())
    return named(tab.evaluate("only => axe.run(document, {runOnly: only, resultTypes: ['violations']})", LEVELS))


def named(found: Any) -> list[str]:
    return [f"{one['id']}: {node['html'][:160]}" for one in found["violations"] for node in one["nodes"]]
