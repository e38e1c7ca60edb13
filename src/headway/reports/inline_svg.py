"""A drawing as part of a page: SVG without styles of its own, whose colours the page can turn to light or dark.

The policy of a page allows no `style` attribute, so every declaration becomes an attribute; page.css then sets the
colours of `style.py` by attribute (`[fill="#222222"]`), and leaves those of heat maps as they are.
"""

import re
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from markupsafe import Markup, escape

SVG = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
LEFT_OUT = ("metadata", "style", "title")
"""Elements of a file that a page does not need."""
ROUNDED = re.compile(r"-?\d+\.\d{3,}")

Link = Callable[[str], str | None]
"""Where the text of a drawing leads; None for most."""


def inline_svg(file: str, alt: str, prefix: str, pixels: tuple[int, int], link: Link | None = None) -> Markup:
    """The drawing of a file as an element of a page; `prefix` keeps its ids apart from those of other drawings.

    Text for which `link` has an address becomes a link.
    """
    root = ElementTree.fromstring(file)
    content = Markup("").join(rendered(child, prefix, link) for child in root)
    role = "group" if "<a " in content else "img"
    return Markup(
        '<svg role="{}" aria-label="{}" width="{}" height="{}" viewBox="{}" stroke-linejoin="round">{}</svg>'
    ).format(role, alt, *pixels, root.get("viewBox", ""), content)


def rendered(element: ElementTree.Element, prefix: str, link: Link | None) -> Markup:
    """An element and what is in it, as a page writes it."""
    tag = element.tag.removeprefix(f"{{{SVG}}}")
    if tag in LEFT_OUT or "}" in tag:
        return Markup("")
    inside = Markup("").join(rendered(child, prefix, link) for child in element)
    words = (element.text or "").strip()
    if tag in ("g", "defs") and not inside and not words:
        return Markup("")
    named = Markup("").join(Markup(' {}="{}"').format(name, value) for name, value in attributes(element, prefix))
    if tag == "g" and not named:
        return inside
    made = Markup("<{0}{1}>{2}{3}</{0}>").format(Markup(tag), named, escape(words), inside)
    address = link(words) if link is not None and tag == "text" else None
    return Markup('<a href="{}" tabindex="-1">{}</a>').format(address, made) if address else made


def attributes(element: ElementTree.Element, prefix: str) -> Iterator[tuple[str, str]]:
    """The element's attributes; ids, which only clip paths, patterns and markers need, are made the page's own."""
    tag = element.tag.rpartition("}")[2]
    for name, value in element.attrib.items():
        if name == "style":
            yield from declarations(value, prefix)
        elif name == "id":
            if tag not in ("g", "svg"):
                yield "id", prefix + value
        elif name == LINK:
            yield "href", f"#{prefix}{value[1:]}" if value.startswith("#") else value
        elif name == "d":
            yield "d", shortened(value)
        elif "}" not in name:
            yield name, own_ids(value, prefix)


def declarations(style: str, prefix: str) -> Iterator[tuple[str, str]]:
    """The declarations of a `style` as attributes; the page has a font family of its own.

    >>> list(declarations("stroke: #222222; font-family: 'DejaVu Sans', sans-serif; clip-path: url(#a)", "f1-"))
    [('stroke', '#222222'), ('clip-path', 'url(#f1-a)')]
    """
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if value and name != "font-family":
            yield name, own_ids(value, prefix)


def own_ids(value: str, prefix: str) -> str:
    return value.replace("url(#", f"url(#{prefix}")


def shortened(path: str) -> str:
    """A path in one line, its coordinates to a hundredth of a point.

    >>> shortened("M 0.123456 421.344 \\nL 7 0 \\nz\\n")
    'M 0.12 421.34 L 7 0 z'
    """
    return " ".join(ROUNDED.sub(lambda match: f"{float(match[0]):.2f}", path).split())
