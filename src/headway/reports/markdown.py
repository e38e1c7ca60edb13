"""A report as Markdown, with its figures beside it."""

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

from markupsafe import Markup

from headway.reports.blocks import (
    Block,
    Command,
    Figure,
    Finding,
    Findings,
    HeatMaps,
    Listing,
    Paragraph,
    Report,
    Section,
    Table,
    Terms,
)

DEEPEST = 4
"""The smallest heading."""


class _Text(HTMLParser):
    """The words of a piece of markup: names in backticks, everything else with Markdown's signs disarmed."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.code = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.code = self.code or tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self.code = self.code and tag != "code"

    def handle_data(self, data: str) -> None:
        self.parts.append(as_code(data) if self.code else disarmed(data))


def as_code(text: str) -> str:
    """A code span, whatever backticks the text has.

    >>> as_code("enc0.self.h1"), as_code("a`b")
    ('`enc0.self.h1`', '`` a`b ``')
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{' '.join(text.split())}{space}{fence}"


def disarmed(text: str) -> str:
    """Words that Markdown shows as they are.

    >>> disarmed("a*b <i> [x]")
    'a\\\\*b &lt;i&gt; \\\\[x\\\\]'
    """
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text).replace("<", "&lt;").replace(">", "&gt;")


def words(text: Markup | str) -> str:
    """Markup as Markdown; plain strings as they are, disarmed."""
    parser = _Text()
    parser.feed(str(Markup.escape(text)))
    parser.close()
    return " ".join("".join(parser.parts).split())


def render_markdown(report: Report) -> str:
    """The report's text; its figures are files in figures/."""
    lines = [f"# {words(report.title)}", "", words(report.asked), ""]
    lines += [f"> {words(sentence)}\n>" for sentence in report.answer]
    for section in report.sections:
        lines += ["", *chapter(section, 2)]
    return "\n".join(lines).replace("\n>\n\n", "\n\n") + "\n"


def chapter(section: Section, depth: int) -> Iterator[str]:
    yield f"{'#' * min(depth, DEEPEST)} {words(section.title)}"
    yield ""
    for block in section.blocks:
        yield from render(block)
        yield ""
    for part in section.parts:
        yield from chapter(part, depth + 1)


def render(block: Block) -> list[str]:
    """The lines of one block."""
    match block:
        case Paragraph():
            return [words(block.text)]
        case Listing():
            return [f"- {words(item)}" for item in block.items]
        case Terms():
            return [f"- **{words(name)}**: {words(meaning)}" for name, meaning in block.pairs]
        case Table():
            return table(block)
        case Figure():
            return [picture(block)]
        case HeatMaps():
            return [line for still in block.still for line in (picture(still), "")]
        case Findings():
            return findings(block)
        case Command():
            return ["```sh", block.line, "```"]


def picture(block: Figure) -> str:
    return f"![{disarmed(block.alt)}](figures/{block.name}.png)"


def table(block: Table) -> list[str]:
    heads = [words(column.title) for column in block.columns]
    rules = ["---:" if column.numeric else "---" for column in block.columns]
    rows = [[in_cell(words(cell.text)) for cell in row] for row in block.rows]
    return [f"*{words(block.caption)}*", "", line(heads), line(rules), *map(line, rows)]


def in_cell(text: str) -> str:
    """A pipe inside a code span would end the cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def findings(block: Findings) -> list[str]:
    return [f"**{words(block.title)}.**", "", *(finding(one) for one in (*block.open, *block.fine))]


def finding(one: Finding) -> str:
    fix = f" *What to do:* {words(one.fix)}" if one.fix else ""
    return f"- **{one.level}** {words(one.check)}: {words(one.evidence)}{fix}"
