"""Renders a report as Markdown, with figures in files."""

from collections.abc import Iterator

from headway.narration.tables import Table
from headway.narration.text import code, disarmed, quote
from headway.narration.text import markdown as words
from headway.reports.blocks import (
    Block,
    Command,
    Figure,
    Findings,
    HeatMaps,
    Listing,
    Paragraph,
    Report,
    Section,
    Terms,
)
from headway.results.doctor import Finding

DEEPEST = 4
"""The deepest heading level."""


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
            return [f"*{words(block.caption)}*", "", *block.markdown()]
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


def findings(block: Findings) -> list[str]:
    return [f"**{words(block.title)}.**", "", *(finding(one) for one in (*block.open, *block.fine))]


def finding(one: Finding) -> str:
    fix = f" *What to do:* {words(quote(one.fix))}" if one.fix else ""
    return f"- **{one.level}** {words(code(one.check))}: {words(quote(one.evidence))}{fix}"
