"""What is said of results that a small run seldom has: documents with numbers, verdicts and parts changed at random.

The words are recorded, each once: every branch of a sentence that such a document can reach is noticed when it changes.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.cli import attack as attack_command
from headway.cli import doctor as doctor_command
from headway.cli import head_lines
from headway.cli import lengths as lengths_command
from headway.errors import InputError
from headway.narration import proof as proof_words
from headway.reports.course import course_documents
from headway.reports.documents import TYPES, Documents, gather
from headway.reports.markdown import render_markdown
from headway.reports.methods_tex import paragraphs, tables
from headway.reports.writing import compose
from headway.results.schema import read
from tests.recorded.normal_form import masked, normal

VARIANTS = 15
"""Changed versions of each document."""
Value = Any
UNTOUCHED = ("form", "head", "run", "task", "weights", "sha256", "origin", "made_from", "tokens", "queries", "keys")
"""Fields in which any change only makes the document unreadable, or arrays that no sentence reads."""


def vocabulary(value: Value, key: str = "", found: dict[str, set[str]] | None = None) -> dict[str, set[str]]:
    """Field -> the words that stand there anywhere in the document."""
    found = {} if found is None else found
    if isinstance(value, Mapping):
        for name, one in value.items():
            vocabulary(one, name, found)
    elif isinstance(value, list):
        for one in value:
            vocabulary(one, key, found)
    elif isinstance(value, str):
        found.setdefault(key, set()).add(value)
    return found


def changed(value: Value, draw: random.Random, words: Mapping[str, set[str]], share: float, key: str = "") -> Value:
    """The document with about this share of its values changed."""
    if key in UNTOUCHED:
        return value
    if isinstance(value, Mapping):
        return {name: changed(one, draw, words, share, name) for name, one in value.items()}
    if isinstance(value, list):
        kept = [changed(one, draw, words, share, key) for one in value]
        if len(value) == 2 and all(isinstance(one, (int, float)) for one in value):
            return sorted(kept)  # an interval
        shorter = len(value) > 2 and draw.random() < share / 4
        return kept[: draw.randrange(len(kept) + 1)] if shorter else kept
    if draw.random() >= share:
        return value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice([0, 1, 2, 2 * value, value + 1, max(0, value - 1)])
    if isinstance(value, float):
        within = [0.0, 1.0, value / 2, 1 - value, 0.004, 1e-9]  # shares stay shares
        return draw.choice(within if 0 <= value <= 1 else [0.0, value / 2, -value, 30 * value])
    return draw.choice(sorted(words[key])) if isinstance(value, str) else value


def variants(name: str, document: Value) -> Iterator[Any]:
    """The typed document, and readable versions of it with more and more changed."""
    kind, words = TYPES[name], vocabulary(document)
    yield read(kind, document, name)
    for index in range(VARIANTS):
        for share in (0.3, 0.1, 0.03, 0.01)[index % 3 :]:  # fewer changes where the document cannot be read
            draw = random.Random(f"{name} {index} {share}")
            try:
                yield read(kind, changed(document, draw, words, share), name)
                break
            except InputError as refused:
                yield str(refused)


def told(place: Path) -> dict[str, list[str]]:
    """Every line that reports, LaTeX and terminal say of the documents of a run and of changed versions, once each."""
    found = gather([str(place)])
    run = found.documents.runs[0]
    lines: dict[str, list[str]] = {}
    for name in TYPES:
        path = place / "analysis" / f"{name}.json"
        if not path.exists():
            continue
        said: dict[str, None] = {}
        for one in variants(name, json.loads(path.read_text())):
            if isinstance(one, str):
                said[one] = None
            else:
                documents = replace(found.documents, runs=(replace(run, **{name: one}),))
                for line in lines_of(name, one, documents):
                    said[masked(line.rstrip())] = None
        lines[name] = list(said)
    return lines


def lines_of(name: str, document: Any, documents: Documents) -> Iterator[str]:
    for about in (_markdown, _methods, _course):
        yield from _attempt(lambda about=about: list(about(documents)))  # type: ignore[misc]
    if name in TERMINAL:
        yield from _attempt(lambda: [str(line) for line in TERMINAL[name](document)])


def _attempt(lines: Callable[[], list[str]]) -> list[str]:
    """Changed documents need not make sense; how a sentence fails is recorded, too."""
    try:
        return lines()
    except Exception as failed:
        return [f"{type(failed).__name__}: {failed}"]


def _markdown(documents: Documents) -> list[str]:
    return render_markdown(compose(documents, "changed")).splitlines()


def _methods(documents: Documents) -> Iterator[str]:
    yield from paragraphs(documents)
    for table in tables(documents):
        yield from table.lines()


def _course(documents: Documents) -> Iterator[str]:
    for name, document in course_documents(documents):
        yield f"{name} {json.dumps(_rounded(normal(document.to_json())))}"


def _rounded(value: Value) -> Value:
    """Four digits: a text is compared digit by digit."""
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return f"{value:.4g}" if isinstance(value, float) else value


TERMINAL: dict[str, Callable[[Any], Any]] = {
    "heads": head_lines.summary,
    "lengths": lengths_command.summary,
    "attack": attack_command.summary,
    "proof": proof_words.proved,
    "doctor": doctor_command.summary,
}
