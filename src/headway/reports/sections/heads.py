"""The section on heads: what each attends to, its drop alone, and joint effects."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from headway.narration.heads import (
    VERDICTS,
    ablation_table,
    by_loss,
    failed_instruments,
    of_verdict,
    one_at_a_time,
    says_nothing,
)
from headway.narration.method import METHOD
from headway.narration.numbers import NONE, count, interval, number, points, size
from headway.narration.tables import Column, Table, words
from headway.narration.text import Words, code, join, quote, text, told
from headway.reports.bars import bars
from headway.reports.blocks import Block, Figure, Section, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.reports.importance import importance
from headway.reports.loss import has_losses, loss_changes
from headway.reports.sections.accuracy import figure_name
from headway.reports.sections.head_maps import looks
from headway.reports.sections.head_sets import brings, together
from headway.results.analyses import Finding
from headway.results.heads import HeadAnalysis
from headway.results.heads_study import OverSeeds

Analysed = Sequence[tuple[RunDocuments, HeadAnalysis]]


def section(documents: Documents) -> Section | None:
    analysed = documents.with_heads
    if not analysed:
        return None
    blocks: list[Block] = []
    if len(analysed) > 1:
        blocks = [*paragraph(of_seeds(len(analysed))), verdict_table(analysed), *over_seeds(documents)]
    parts = [part_of(documents, run, found, folded=place > 0) for place, (run, found) in enumerate(analysed)]
    failed = [f"{run.name}: {words}" for run, found in analysed for words in found.doubts()]
    blocks = [*paragraph([failed_instruments(failed)] if failed else []), *blocks]
    if len(analysed) == 1:
        title = "Heads" if len(documents.runs) == 1 else parts[0].title
        return Section("heads", title, [*blocks, *parts[0].blocks], parts[0].parts, problem="; ".join(failed))
    return Section("heads", "Heads", blocks, parts, problem="; ".join(failed))


def part_of(documents: Documents, run: RunDocuments, found: HeadAnalysis, *, folded: bool) -> Section:
    """The heads of one run."""
    kind = next((kind for head in found.heads for kind in head.ablation), None)
    finding = run.unlearned
    verdicts = one_at_a_time(found) if finding is None else [says_nothing(finding.check)]
    blocks = paragraph(verdicts, [text("Warning: {}.", quote(warning)) for warning in found.warnings])
    if kind is not None:
        alt = f"Bars of the drop without each head ({kind} ablation), with intervals, by kind of attention."
        name = figure_name(documents, run, f"importance-{kind}")
        draw = partial(importance, found, kind)
        blocks.append(Figure(name, alt, draw, narrow=partial(draw, narrow=True), run=run.place))
        blocks += losses(documents, run, found, kind)
        blocks.append(ablation_table(found))
    parts = [
        Section(f"{anchor}-{run.anchor}", title, own)
        for anchor, title, own in (
            ("look", "What each head looks at", looks(documents, run, found)),
            ("together", "Heads together", together(documents, run, found)),
            ("brings", "What heads carry", brings(documents, run, found)),
            *((name, part.title, further(documents, run, name, part)) for name, part in found.parts.items()),
        )
        if own
    ]
    return Section(f"heads-{run.anchor}", text("Heads of {}", code(run.name)), blocks, parts, folded=folded)


def further(documents: Documents, run: RunDocuments, name: str, part: Finding) -> list[Block]:
    """The sentences and the figure of a further analysis."""
    blocks = paragraph(cast(list[Words], list(part.sentences())))
    if shown := part.figure():
        alt = f"Bars with intervals, in {shown.unit}: {shown.title}."
        drawn = Figure(figure_name(documents, run, name), alt, partial(bars, shown), run=run.place, folded=True)
        blocks.append(drawn)
    return blocks


def losses(documents: Documents, run: RunDocuments, found: HeadAnalysis, kind: str) -> list[Block]:
    """The change of the loss without each head, and the share of heads that it hardly needs."""
    if not has_losses(found, kind):
        return []
    alt = f"Bars of the change of the mean loss in per cent without each head ({kind} ablation), largest first."
    name = figure_name(documents, run, f"loss-{kind}")
    figure = Figure(name, alt, partial(loss_changes, found, kind), run=run.place, folded=True)
    return [*paragraph(told(lambda: by_loss(found, kind)) if run.unlearned is None else []), figure]


# Several runs


def of_seeds(runs: int) -> list[Words]:
    """That heads of different seeds do not correspond, and what few seeds allow."""
    lines: list[Words] = [
        "A head of one run has no counterpart in another: runs are compared by how many heads of a kind they have."
    ]
    if runs < METHOD.enough_seeds:
        few = number(METHOD.enough_seeds)
        lines.append(text("With fewer than {} seeds this describes these runs and no others.", few))
    return lines


def verdict_table(analysed: Analysed) -> Table:
    """Every run: the number of heads of each verdict, and of those chosen for removal."""
    rows = []
    for run, found in analysed:
        removable = found.joint.removable if run.unlearned is None else ()
        counts = [count(found.heads, "verdict", name) for name in VERDICTS]
        rows.append([code(run.name), size(found.heads), *counts, size(removable[0].heads) if removable else NONE])
    columns = [*words("run"), Column("heads"), *map(Column, VERDICTS), Column("chosen for removal")]
    return Table("Heads of every run, by verdict", columns, rows)


def over_seeds(documents: Documents) -> list[Block]:
    """A study's heads over seeds: every seed, the median, and its interval."""
    found = documents.study.heads if documents.study is not None else None
    if found is None or found.together is None:
        return []
    verdicts = found.together.verdicts.get("overall", {})
    wanted: list[tuple[Words, OverSeeds]] = [
        (f"heads that {of_verdict(name, 0)}", verdicts[name]) for name in VERDICTS if name in verdicts
    ]
    for row in found.together.removable:
        name = text("heads chosen for removal together for less than {} points", number(row.limit))
        wanted.append((name, row.heads))
    rows = [[name, *seed_cells(one)] for name, one in wanted if one.values]
    columns = [*words("over seeds"), Column("every seed"), Column("median"), Column("its interval")]
    return [Table("Heads over seeds: every seed counts once", columns, rows)] if rows else []


def seed_cells(found: OverSeeds) -> list[Words]:
    """Every seed, the median and its interval; intervals of the mean of earlier versions are not shown."""
    every = join(" ", [number(value) for value in found.values])
    if found.median is None:
        return [every, NONE, NONE]
    return [every, number(found.median), NONE if found.interval is None else interval(found.interval, points)]
