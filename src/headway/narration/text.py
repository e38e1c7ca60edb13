"""Sentences as values: inline nodes that are rendered for a terminal, a page or Markdown.

    text("{} of {} answers are wrong", number(found.wrong), number(found.n))

`str(sentence)` is the plain text of a terminal, `html(sentence)` and `markdown(sentence)` the two forms of a report. A
number or a quotation keeps its place in the document, which a page shows.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from markupsafe import Markup, escape

from headway.narration.places import place_of


class Missing(Exception):
    """The documents lack a value that a sentence needs; the message names it."""


Linked = Callable[[str, str], str | None]
"""Where a name leads, from the name and its place in the documents; None where it leads nowhere."""


def no_link(name: str, place: str) -> str | None:
    """Names lead nowhere."""
    return None


_linked: ContextVar[Linked] = ContextVar("linked", default=no_link)


@contextmanager
def linking(linked: Linked) -> Iterator[None]:
    """Inside, HTML shows a name as a link where `linked` has an address for it."""
    token = _linked.set(linked)
    try:
        yield
    finally:
        _linked.reset(token)


@dataclass(frozen=True)
class Number:
    """A number: its exact value, its text, and its place in the documents."""

    value: float
    written: str
    place: str = ""

    def __str__(self) -> str:
        return self.written

    def __html__(self) -> Markup:
        if not self.place:
            return escape(self.written)
        exact = repr(int(self.value)) if isinstance(self.value, int) else repr(float(self.value))
        return Markup('<data value="{}" data-at="{}">{}</data>').format(exact, self.place, self.written)

    def markdown(self) -> str:
        return disarmed(self.written)


@dataclass(frozen=True)
class Code:
    """A name of a head, a run, a check or a setting."""

    words: str
    place: str = ""

    def __str__(self) -> str:
        return self.words

    def __html__(self) -> Markup:
        shown = element("code", self.words, self.place)
        address = _linked.get()(self.words, self.place) if self.place else None
        return shown if address is None else Markup('<a class="head" href="{}">{}</a>').format(address, shown)

    def markdown(self) -> str:
        return as_code(self.words)


@dataclass(frozen=True)
class Quotation:
    """Text of a document, verbatim."""

    words: str
    place: str = ""

    def __str__(self) -> str:
        return self.words

    def __html__(self) -> Markup:
        return element("q", self.words, self.place)

    def markdown(self) -> str:
        return disarmed(self.words)


@dataclass(frozen=True)
class Strong:
    """Emphasised words."""

    words: str

    def __str__(self) -> str:
        return self.words

    def __html__(self) -> Markup:
        return element("strong", self.words)

    def markdown(self) -> str:
        return f"**{disarmed(self.words)}**"


@dataclass(frozen=True)
class Aside:
    """Text in parentheses beside a number, in smaller type."""

    inside: "Text"

    def __str__(self) -> str:
        return f"({self.inside})"

    def __html__(self) -> Markup:
        return Markup('<span class="aside">({})</span>').format(self.inside)

    def markdown(self) -> str:
        return f"({markdown(self.inside)})"


Node = str | Number | Code | Quotation | Strong | Aside


@dataclass(frozen=True)
class Text:
    """A sequence of nodes."""

    nodes: tuple[Node, ...] = ()

    def __str__(self) -> str:
        return "".join(map(str, self.nodes))

    def __html__(self) -> Markup:
        return Markup("").join(map(escape, self.nodes))

    def __add__(self, other: "Words") -> "Text":
        return Text(self.nodes + as_text(other).nodes)

    def __bool__(self) -> bool:
        return bool(self.nodes)

    @property
    def number(self) -> float | None:
        """The first number of the text, by which a table is sorted."""
        return next((float(node.value) for node in self.nodes if isinstance(node, Number)), None)


Words = Text | Node


def as_text(words: Words) -> Text:
    if isinstance(words, Text):
        return words
    return Text((words,)) if words != "" else Text()


def text(template: str, *parts: Words) -> Text:
    """Replace every pair of braces in the template by a part.

    >>> str(text("{} of {}", "one", text("{} more", "two")))
    'one of two more'
    """
    between = template.split("{}")
    if len(between) != len(parts) + 1:
        raise ValueError(f"{template!r} has {len(between) - 1} places for {len(parts)} parts")
    nodes = as_text(between[0]).nodes
    for part, after in zip(parts, between[1:], strict=True):
        nodes += as_text(part).nodes + as_text(after).nodes
    return Text(nodes)


def join(separator: str, parts: Iterable[Words]) -> Text:
    """Join the parts with a separator."""
    found = list(parts)
    return text(separator.join(["{}"] * len(found)), *found)


def listed(parts: Sequence[Words]) -> Text:
    """Join parts with commas and `and`.

    >>> str(listed(["a", "b", "c"]))
    'a, b and c'
    """
    if len(parts) < 2:
        return join("", parts)
    return text("{} and {}", join(", ", parts[:-1]), parts[-1])


def code(name: str) -> Code:
    """A name with its place."""
    return Code(name, place_of(name))


def quote(words: str) -> Quotation:
    """A quotation with its place."""
    return Quotation(words, place_of(words))


def told(*sentences: Callable[[], Words | None]) -> list[Text]:
    """The sentences whose evidence exists, in order; documents of earlier versions lack some."""
    found = []
    for sentence in sentences:
        try:
            words = sentence()
        except (Missing, LookupError):
            continue
        if words:
            found.append(as_text(words))
    return found


# Rendered


def html(words: Words) -> Markup:
    return escape(words)


def markdown(words: Words) -> str:
    """One line of Markdown that displays the words literally."""
    nodes = as_text(words).nodes
    return " ".join("".join(disarmed(node) if isinstance(node, str) else node.markdown() for node in nodes).split())


def element(tag: str, words: str, place: str = "") -> Markup:
    where = Markup(' data-at="{}"').format(place) if place else ""
    return Markup("<{}{}>{}</{}>").format(Markup(tag), where, words, Markup(tag))


def as_code(words: str) -> str:
    """A code span, for any number of backticks in the words.

    >>> as_code("enc0.self.h1"), as_code("a`b")
    ('`enc0.self.h1`', '`` a`b ``')
    """
    longest = max((len(run) for run in re.findall("`+", words)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{' '.join(words.split())}{space}{fence}"


def disarmed(words: str) -> str:
    """Escape characters that Markdown would interpret.

    >>> disarmed("a*b <i> [x]")
    'a\\\\*b &lt;i&gt; \\\\[x\\\\]'
    """
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", words).replace("<", "&lt;").replace(">", "&gt;")
