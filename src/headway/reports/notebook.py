"""How results display in a notebook: sentences, tables with intervals and coloured verdicts, figures and maps.

A result's `_repr_html_` finds this module by name, because results may not import reports. Everything is one piece of
HTML without scripts or outside files.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch

from markupsafe import Markup, escape
from matplotlib.figure import Figure

from headway.narration import accuracy, attack, heads, lengths, proof
from headway.narration.doctor import tally
from headway.narration.tables import Table
from headway.narration.text import Text, Words
from headway.reports.front import of_one
from headway.reports.inline_svg import inline_svg
from headway.reports.length_groups import groups_of
from headway.reports.length_overview import overview_of_lengths
from headway.reports.overview import overview
from headway.reports.page import Drawn
from headway.reports.style import VERDICTS, svg_of
from headway.reports.weights import head_sheet
from headway.reports.writing import Written
from headway.results.attack import Attack
from headway.results.doctor import Diagnoses, Diagnosis, Finding
from headway.results.evaluation import ClassEvaluation, SequenceEvaluation, SplitEvaluation
from headway.results.heads import HeadAnalysis
from headway.results.lengths import Lengths
from headway.results.proof import Proof

MOST_WRONG = 5
LEVELS = {"error": "#c45200", "warning": "#9a6f00", "fine": "#00805f"}
FACES = {verdict: face for verdict, (face, _) in VERDICTS.items()}
SHEET = (
    "background:#fdfdfb;color:#222;padding:6px;border-radius:6px;display:inline-block;max-width:100%;overflow-x:auto"
)


@singledispatch
def display(found: object) -> str | None:
    """The HTML of a result; None if it has none, and the notebook then shows its repr."""
    return None


@display.register
def _(found: HeadAnalysis) -> str:
    if not found.heads:
        return whole([said([heads.tally(found)])])
    parts = [said([of_one(found), accuracy.of_baseline(found)]), table_of(heads.ablation_table(found))]
    if any(head.ablation for head in found.heads):
        parts.insert(1, picture(overview(found), "Heads removed alone and together"))
    if found.capture.mean or found.capture.examples:
        maps = picture(head_sheet(found, None if found.capture.mean else 0), "Attention of every head")
        parts.append(folded("What each head attends to", maps))
    return whole([*doubted(found.doubts()), *parts])


@display.register
def _(found: Lengths) -> str:
    figure = picture(overview_of_lengths(groups_of([found])), "Accuracy against length")
    return whole([said([lengths.in_short(found)]), figure, table_of(lengths.table_of_sets(found))])


@display.register
def _(found: Diagnosis) -> str:
    return whole(findings(found.run, found.findings))


@display.register
def _(found: Diagnoses) -> str:
    parts = [part for one in found.runs for part in findings(one.run, one.findings)]
    return whole([*parts, *(findings("the runs together", found.together) if found.together else [])])


@display.register(SequenceEvaluation)
@display.register(ClassEvaluation)
def _(found: SplitEvaluation) -> str:
    wrong = [accuracy.wrong_answer(one) for one in found.wrong_examples[:MOST_WRONG]]
    return whole([said(accuracy.evaluated(found)), listing(wrong)])


@display.register
def _(found: Attack) -> str:
    return whole(
        [said(attack.story(found, found.run)), listing([attack.failing(one) for one in found.counterexamples])]
    )


@display.register
def _(found: Proof) -> str:
    return whole([said(proof.proved(found))])


@display.register
def _(found: Written) -> str:
    tiles = Markup("").join(map(tile, found.tiles))
    link = Markup('<p><a href="{0}">{0}</a></p>').format(found.page)
    return whole(
        [
            said([found.headline]),
            Markup('<div style="display:flex;flex-wrap:wrap;gap:8px">{}</div>').format(tiles),
            link,
        ]
    )


# Parts


def whole(parts: Iterable[Markup]) -> str:
    return str(Markup('<div class="headway" style="line-height:1.45">{}</div>').format(Markup("").join(parts)))


def said(sentences: Iterable[Words | None]) -> Markup:
    return Markup("<p>{}</p>").format(Markup(" ").join(escape(one) for one in sentences if one))


def listing(items: Sequence[Text]) -> Markup:
    lines = Markup("").join(Markup("<li>{}</li>").format(one) for one in items)
    return Markup("<ul>{}</ul>").format(lines) if items else Markup("")


def doubted(reasons: Sequence[str]) -> Iterator[Markup]:
    for reason in reasons:
        yield Markup('<p style="color:{}"><b>Not to be believed:</b> {}</p>').format(LEVELS["error"], reason)


def picture(figure: Figure, alt: str) -> Markup:
    """A drawing on a light sheet, whatever the notebook's colours; its ids are its own by its content."""
    drawn = Drawn.of(figure, svg_of(figure))
    prefix = f"h{abs(hash(drawn.svg)) % 10**8:x}-"
    return Markup('<div style="{}">{}</div>').format(SHEET, inline_svg(drawn.svg, alt, prefix, drawn.pixels))


def folded(title: str, inside: Markup) -> Markup:
    return Markup("<details><summary>{}</summary>{}</details>").format(title, inside)


def table_of(found: Table) -> Markup:
    """The rows that say something; the others, and all further columns, unfold."""
    first = Markup("").join(row_of(found, row, detail=False) for row in found.cells[: found.n_first])
    short = Markup("<table>{}{}</table>").format(head_of(found, detail=False), first)
    if found.is_whole:
        return short
    every = Markup("").join(row_of(found, row, detail=True) for row in found.cells)
    rest = folded("All rows and columns", Markup("<table>{}{}</table>").format(head_of(found, detail=True), every))
    note = Markup("<p>{}</p>").format(found.others) if found.others else Markup("")
    return short + note + rest


def head_of(found: Table, *, detail: bool) -> Markup:
    shown = [column for column in found.columns if detail or not column.detail]
    return Markup("<tr>{}</tr>").format(Markup("").join(Markup("<th>{}</th>").format(one.title) for one in shown))


def row_of(found: Table, row: Sequence[Text], *, detail: bool) -> Markup:
    cells = [cell for cell, column in zip(row, found.columns, strict=True) if detail or not column.detail]
    return Markup("<tr>{}</tr>").format(Markup("").join(map(cell_of, cells)))


def cell_of(cell: Text) -> Markup:
    """A cell; a verdict stands on its colour, which figures use too."""
    face = FACES.get(str(cell))
    if face is None:
        return Markup("<td>{}</td>").format(cell)
    chip = '<td><span style="background:{};color:#1c1c1c;border-radius:3px;padding:1px 6px">{}</span></td>'
    return Markup(chip).format(face, cell)


def findings(name: str, found: Sequence[Finding]) -> list[Markup]:
    """Errors and warnings in full; what is fine is counted, and unfolds."""
    parts = [Markup("<p><b>{}</b>: {}</p>").format(name, tally(found))]
    entry = (
        '<p style="border-left:4px solid {0};padding-left:10px"><b style="color:{0}">{1}</b> <code>{2}</code><br>{3}'
    )
    for one in (one for one in found if one.level != "fine"):
        fix = Markup("<br><i>{}</i>").format(one.fix) if one.fix else Markup("")
        parts.append(Markup(entry).format(LEVELS[one.level], one.level, one.check, one.evidence) + fix + Markup("</p>"))
    fine = [one for one in found if one.level == "fine"]
    lines = Markup("").join(Markup("<li><code>{}</code> {}</li>").format(one.check, one.evidence) for one in fine)
    return [*parts, *([folded("Checks that find nothing wrong", Markup("<ul>{}</ul>").format(lines))] if fine else [])]


def tile(fact: Sequence[str]) -> Markup:
    title, value, remark, state = fact
    box = (
        '<div style="border:1px solid #8885;border-top:3px solid {};border-radius:6px;padding:6px 12px">'
        '<small>{}</small><br><b style="font-size:1.3em">{}</b><br><small>{}</small></div>'
    )
    return Markup(box).format(LEVELS.get(state, "#8885"), title, value, remark)
