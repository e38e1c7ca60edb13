"""The heads of every run that was analysed: what each looks at, what it is worth alone, and what they do together."""

from functools import partial

from markupsafe import Markup

from headway.checked import failed_checks
from headway.reports.blocks import Block, Cell, Column, Figure, Section, Table, paragraph
from headway.reports.evidence import Evidence, listed, percent, points, written
from headway.reports.importance import importance
from headway.reports.loss import has_losses, loss_changes
from headway.reports.sections.accuracy import SPLITS, figure_name, percent_short
from headway.reports.sections.head_maps import looks
from headway.reports.sections.head_sets import brings, together, unlearned
from headway.reports.style import VERDICTS

SIMPLE = ("critical", "important", "redundant", "harmful", "undecided")
"""Verdicts that a head can be said to be."""
OVERLAP = ", which the intervals of other heads overlap: no head is shown to matter most"


def section(evidence: Evidence) -> Section | None:
    runs = evidence.those_with("heads/heads")
    if not runs:
        return None
    blocks: list[Block] = []
    if len(runs) > 1:
        blocks = [*paragraph(of_seeds(evidence, runs)), verdict_table(evidence, runs), *over_seeds(evidence)]
    parts = [part_of(evidence, run, folded=index > 0) for index, run in enumerate(runs)]
    failed = [f"{evidence.get(f'{run}/name')}: {words}" for run in runs for words in failures(evidence, run)]
    blocks = [*paragraph([failed_sentence(failed)] if failed else []), *blocks]
    if len(runs) == 1:
        title = "Heads" if len(evidence.runs) == 1 else parts[0].title
        return Section("heads", title, [*blocks, *parts[0].blocks], parts[0].parts, problem="; ".join(failed))
    return Section("heads", "Heads", blocks, parts, problem="; ".join(failed))


def failures(evidence: Evidence, run: str) -> list[str]:
    """What failed of the instruments' own checks, in words."""
    return failed_checks(evidence.heads(run).checks)


def failed_sentence(failed: list[str]) -> Markup:
    return Markup(
        "<strong>The instruments failed their own checks</strong>: <q>{}</q>. Nothing below that comes from them can "
        "be believed."
    ).format("; ".join(failed))


def part_of(evidence: Evidence, run: str, *, folded: bool) -> Section:
    """One run's heads."""
    found = evidence.heads(run)
    title = Markup("Heads of {}").format(evidence.text(f"{run}/name", "code"))
    kinds = dict.fromkeys(kind for head in found.heads for kind in head.ablation)
    blocks = paragraph(verdicts(evidence, run), caveats(evidence, run))
    if kinds:
        kind = next(iter(kinds))
        alt = f"Bars of the accuracy lost without each head ({kind} ablation), with intervals, by kind of attention."
        blocks.append(Figure(figure_name(evidence, run, f"importance-{kind}"), alt, partial(importance, found, kind)))
        blocks += losses(evidence, run, kind)
        blocks.append(ablation_table(evidence, run, list(kinds)))
    parts = [
        Section(f"{anchor}-{run.replace('/', '-')}", title, own)
        for anchor, title, own in (
            ("look", "What each head looks at", looks(evidence, run)),
            ("together", "Heads together", together(evidence, run)),
            ("brings", "What heads bring", brings(evidence, run)),
        )
        if own
    ]
    return Section(f"heads-{run.replace('/', '-')}", title, blocks, parts, folded=folded)


# Verdicts


def tally(evidence: Evidence, run: str) -> Markup:
    """`5 are critical, 12 are redundant and 7 are undecided`."""
    path = f"{run}/heads/heads"
    names = [*VERDICTS, *set(evidence.heads(run).verdicts.values()) - set(VERDICTS)]
    return listed(
        [
            Markup("{} {}").format(
                evidence.count(path, "verdict", name), in_words(name, evidence.how_many(path, "verdict", name))
            )
            for name in names
            if evidence.how_many(path, "verdict", name)
        ]
    )


def in_words(verdict: str, heads: int) -> str:
    """`are redundant`; what depends on the ablation has no verdict of its own."""
    if verdict == "depends on the ablation":
        return "depends on the ablation" if heads == 1 else "depend on the ablation"
    return f"{'is' if heads == 1 else 'are'} {verdict}"


def verdicts(evidence: Evidence, run: str) -> list[Markup]:
    """What the heads are worth one at a time; or that this says nothing, of a model that learned nothing."""
    finding = unlearned(evidence, run)
    if finding is not None:
        check = evidence.text(f"{finding}/check", "code")
        return [Markup("The doctor finds {}: what is lost without a head says nothing here.").format(check)]
    return written(
        lambda: Markup("Of {} heads, one at a time, {}.").format(
            evidence.size(f"{run}/heads/heads"), tally(evidence, run)
        ),
        lambda: costliest(evidence, run),
        lambda: Markup(
            "All drops are in points of accuracy on {} examples of {}, where the whole model has {}."
        ).format(
            evidence.number(f"{run}/heads/n"),
            SPLITS[evidence.get(f"{run}/heads/split")],
            evidence.number(f"{run}/heads/baseline/exact_match", percent),
        ),
    )


def costliest(evidence: Evidence, run: str) -> Markup | None:
    """The head that costs most, if it costs anything that is certain; the first only if its interval is by itself."""
    found = ranked(evidence, run)
    if found is None:
        return None
    place, kind, ahead = found
    drop = f"{place}/ablation/{kind}"
    if evidence.get(f"{drop}/interval/0") <= 0:
        return Markup("No single head costs anything that could be told from nothing ({} ablation).").format(kind)
    return Markup("Without {} accuracy falls {}by {} points ({} interval {}; {} ablation){}.").format(
        evidence.text(f"{place}/head", "code"),
        "most, " if ahead else "",
        evidence.number(f"{drop}/drop", points),
        evidence.number("method/confidence", percent_short),
        evidence.interval(f"{drop}/interval", points),
        kind,
        "" if ahead else OVERLAP,
    )


def ranked(evidence: Evidence, run: str) -> tuple[str, str, bool] | None:
    """Where the head with the largest drop stands, by which ablation, and whether it is surely ahead of all others."""
    heads = evidence.heads(run).heads
    kind = next(iter(heads[0].ablation), None)
    if kind is None:
        return None
    drops = [head.ablation[kind] for head in heads]
    best = max(range(len(heads)), key=lambda index: drops[index].drop)
    others = [drop.interval[1] for index, drop in enumerate(drops) if index != best]
    return f"{run}/heads/heads/{best}", kind, drops[best].interval[0] > max(others, default=-100.0)


def losses(evidence: Evidence, run: str, kind: str) -> list[Block]:
    """What the loss becomes without each head, and how many heads it hardly needs by that measure."""
    found = evidence.heads(run)
    if not has_losses(found, kind):
        return []
    share = f"{run}/heads/prunable/{kind}/under_1_percent_of_loss"
    alt = f"Bars of the change of the mean loss in per cent without each head ({kind} ablation), largest first."
    told = Markup("Judged by the loss, which is {} a token, {} of the heads raise it by less than a hundredth.")
    blocks: list[Block] = []
    if unlearned(evidence, run) is None:
        loss = evidence.number(f"{run}/heads/baseline/loss", two_figures)
        blocks = paragraph([told.format(loss, evidence.number(share, percent))])
    name = figure_name(evidence, run, f"loss-{kind}")
    return [*blocks, Figure(name, alt, partial(loss_changes, found, kind))]


def two_figures(value: float) -> str:
    """`0.052`, `3.4e-06`."""
    return f"{value:.2g}"


def caveats(evidence: Evidence, run: str) -> list[Markup]:
    path = f"{run}/heads/warnings"
    return [evidence.text(f"{path}/{index}") for index in range(len(evidence.heads(run).warnings))]


def ablation_table(evidence: Evidence, run: str, kinds: list[str]) -> Table:
    """A row a head: verdict, the drop of each kind of ablation with its interval, the margin of the first, the role."""
    columns = [Column("head", numeric=False), Column("verdict", numeric=False), Column("looks at", numeric=False)]
    columns += [Column(f"drop, {kind}") for kind in kinds]
    found = evidence.heads(run).heads
    with_margin = [kind for kind in kinds[:1] if any(head.ablation[kind].margin_change is not None for head in found)]
    columns += [Column(f"change of the margin, {kind}") for kind in with_margin]
    rows = []
    for index in range(len(found)):
        place = f"{run}/heads/heads/{index}"
        told = (("head", "code"), ("verdict", "q"), ("role", "q"))
        cells = [Cell(evidence.text(f"{place}/{key}", tag)) for key, tag in told]
        cells += [drop_cell(evidence, f"{place}/ablation/{kind}") for kind in kinds]
        cells += [drop_cell(evidence, f"{place}/ablation/{kind}", "margin_change") for kind in with_margin]
        rows.append(cells)
    return Table("Every head by itself: points of accuracy lost without it, and the interval", columns, rows)


def drop_cell(evidence: Evidence, place: str, what: str = "drop") -> Cell:
    """The drop or the change of the margin, with its interval."""
    if not evidence.has(f"{place}/{what}"):
        return Cell(Markup("–"))
    interval = "interval" if what == "drop" else f"{what}_interval"
    text = Markup('{} <span class="aside">({})</span>').format(
        evidence.number(f"{place}/{what}", points), evidence.interval(f"{place}/{interval}", points)
    )
    return Cell(text, evidence.get(f"{place}/{what}"))


def of_seeds(evidence: Evidence, runs: list[str]) -> list[Markup]:
    """What all seeds show, and that head indices do not correspond across them."""
    few = len(runs) < evidence.get("method/enough_seeds")
    return written(
        lambda: Markup(
            "A head of one run has no counterpart in another: runs are compared by how many heads of a kind they have."
        ),
        lambda: (
            Markup("With fewer than {} seeds this describes these runs and no others.").format(
                evidence.number("method/enough_seeds")
            )
            if few
            else None
        ),
    )


def verdict_table(evidence: Evidence, runs: list[str]) -> Table:
    """Every run: how many heads of each verdict, and how many were chosen to go together."""
    columns = [
        Column("run", numeric=False),
        Column("heads"),
        *(Column(name) for name in VERDICTS),
        Column("chosen to go together"),
    ]
    rows = []
    for run in runs:
        path = f"{run}/heads/heads"
        cells = [Cell(evidence.text(f"{run}/name", "code")), Cell(evidence.size(path), len(evidence.get(path)))]
        cells += [
            Cell(evidence.count(path, "verdict", name), evidence.how_many(path, "verdict", name)) for name in VERDICTS
        ]
        removable = f"{run}/heads/joint/removable/0/heads"
        there = evidence.has(removable) and unlearned(evidence, run) is None
        cells.append(Cell(evidence.size(removable), len(evidence.get(removable))) if there else Cell(Markup("–")))
        rows.append(cells)
    return Table("Heads of every run, by verdict", columns, rows)


def over_seeds(evidence: Evidence) -> list[Block]:
    """What a study says of all its seeds: every seed, the median, and its interval."""
    place = "study/heads/together"
    wanted = {f"heads that are {name}": f"{place}/verdicts/overall/{name}" for name in VERDICTS if name in SIMPLE}
    wanted["heads that depend on the ablation"] = f"{place}/verdicts/overall/depends on the ablation"
    for index in range(len(evidence.find(f"{place}/removable", []))):
        row = f"{place}/removable/{index}"
        limit = evidence.number(f"{row}/limit")
        wanted[Markup("heads chosen to go together for less than {} points").format(limit)] = f"{row}/heads"
    rows = [
        [
            Cell(Markup.escape(name)),
            Cell(every_seed(evidence, path)),
            middle(evidence, path),
            spread(evidence, path),
        ]
        for name, path in wanted.items()
        if evidence.find(f"{path}/values", [])
    ]
    columns = [Column("over seeds", numeric=False), Column("every seed"), Column("median"), Column("its interval")]
    return [Table("Heads over seeds: every seed counts once", columns, rows)] if rows else []


def every_seed(evidence: Evidence, path: str) -> Markup:
    values = evidence.get(f"{path}/values")
    return Markup(" ").join(evidence.number(f"{path}/values/{index}") for index in range(len(values)))


def middle(evidence: Evidence, path: str) -> Cell:
    there = evidence.has(f"{path}/median")
    return Cell(evidence.number(f"{path}/median"), evidence.get(f"{path}/median")) if there else Cell(Markup("–"))


def spread(evidence: Evidence, path: str) -> Cell:
    """The interval of the median; earlier versions wrote one of the mean, which is not shown."""
    there = evidence.has(f"{path}/median") and evidence.has(f"{path}/interval")
    return Cell(evidence.interval(f"{path}/interval", points)) if there else Cell(Markup("–"))
