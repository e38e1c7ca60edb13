"""Sentences and tables about single heads: verdicts, drops, margins and losses."""

from collections.abc import Iterator, Mapping

from headway.narration.accuracy import SPLITS, metric_name, verb
from headway.narration.method import METHOD
from headway.narration.numbers import (
    NONE,
    Form,
    count,
    decimal,
    highest,
    interval,
    number,
    percent,
    points,
    signed,
    size,
    thousandths,
    whole,
    with_interval,
)
from headway.narration.tables import Column, Table, words
from headway.narration.text import Aside, Missing, Number, Strong, Text, Words, code, listed, quote, text
from headway.results.heads import Drop, Head, HeadAnalysis
from headway.results.heads_study import OverSeeds
from headway.results.schema import Interval

VERDICTS = ("critical", "important", "harmful", "depends on the ablation", "undecided", "redundant")
OVERLAP = ", but the intervals of other heads overlap: no head is shown to matter most"


def of_verdict(verdict: str, heads: float) -> str:
    """`are redundant`; a head whose verdict depends on the ablation has its own verb."""
    if verdict == "depends on the ablation":
        return "depends on the ablation" if heads == 1 else "depend on the ablation"
    return f"{verb(heads)} {verdict}"


def tally(found: HeadAnalysis) -> Text:
    """`5 are critical, 12 are redundant and 7 are undecided`."""
    names = [*VERDICTS, *sorted(set(found.verdicts.values()) - set(VERDICTS))]
    return tally_of({name: count(found.heads, "verdict", name) for name in names})


def tally_of(counts: Mapping[str, Number]) -> Text:
    """The same from the number of heads of each verdict."""
    return listed([text("{} {}", one, of_verdict(name, one.value)) for name, one in counts.items() if one.value])


def one_at_a_time(found: HeadAnalysis) -> Iterator[Text]:
    """The number of heads of each verdict, the head with the largest drop, and the examples."""
    yield text("Of {} heads, one at a time, {}.", size(found.heads), tally(found))
    if most := costliest(found):
        yield most
    if found.metric is not None:
        yield text(
            "All drops are in points on {} examples of {}; 100 points are {} {}, {}.",
            number(found.n),
            SPLITS[found.split],
            number(found.metric.scale, decimal),
            quote(found.metric.unit),
            "a fixed scale" if found.metric.scale_of == "fixed" else quote(found.metric.scale_of),
        )
        return
    yield text(
        "All drops are in points of accuracy on {} examples of {}, where the whole model has {}.",
        number(found.n),
        SPLITS[found.split],
        number(found.baseline.accuracy, percent),
    )


def says_nothing(check: str) -> Text:
    return text("The doctor finds {}: drops of heads mean nothing for this model.", code(check))


def ranked(found: HeadAnalysis) -> tuple[Head, str, bool] | None:
    """The head with the largest drop, the kind of ablation, and whether its interval is above all others."""
    kind = next(iter(found.heads[0].ablation), None)
    if kind is None:
        return None
    best = max(found.heads, key=lambda head: head.ablation[kind].drop)
    others = [head.ablation[kind].interval[1] for head in found.heads if head is not best]
    return best, kind, best.ablation[kind].interval[0] > max(others, default=-100.0)


def ranked_heads(found: HeadAnalysis) -> tuple[list[Head], str]:
    """Every head, the largest drop by the first kind of ablation first, and that kind."""
    kind = next(iter(found.heads[0].ablation))
    return sorted(found.heads, key=lambda head: -head.ablation[kind].drop), kind


def costliest(found: HeadAnalysis) -> Text | None:
    """The head with the largest drop, if it is significant."""
    if (first := ranked(found)) is None:
        return None
    head, kind, ahead = first
    drop = head.ablation[kind]
    if drop.interval[0] <= 0:
        return text("No single head has a drop that differs significantly from 0 ({} ablation).", kind)
    return text(
        "Without {} {} {}by {} points ({} interval {}; {} ablation){}.",
        code(head.name),
        gets_worse(found),
        "most, " if ahead else "",
        number(drop.drop, points),
        number(METHOD.confidence, percent),
        interval(drop.interval, points),
        kind,
        "" if ahead else OVERLAP,
    )


def gets_worse(found: HeadAnalysis) -> Words:
    """`accuracy falls`, `next token loss rises`."""
    if found.metric is None:
        return "accuracy falls"
    return text("{} {}", metric_name(found.metric), "falls" if found.metric.higher_is_better else "rises")


def drops_in_words(found: HeadAnalysis) -> str:
    """What the numbers of a table of drops are."""
    return "points of accuracy lost" if found.metric is None else f"the drop in {found.unit_of_drops}"


def leading(found: HeadAnalysis) -> Text | None:
    """The head with the largest drop and its interval; None if other intervals overlap."""
    first = ranked(found)
    if first is None or not first[2] or first[0].ablation[first[1]].interval[0] <= 0:
        return None
    head, kind, _ = first
    drop = head.ablation[kind]
    cost, ends = number(drop.drop, points), interval(drop.interval, points)
    return text("{} costs most, {} points ({}; {} ablation)", code(head.name), cost, ends, kind)


def by_loss(found: HeadAnalysis, kind: str) -> Text:
    """The share of heads that the model hardly needs by the loss."""
    if kind not in found.prunable:
        raise Missing(f"prunable/{kind}")
    return text(
        "By the loss, which is {} per token, {} of the heads raise it by less than one per cent when ablated.",
        number(found.baseline.loss, decimal),
        number(found.prunable[kind].under_1_percent_of_loss, percent),
    )


def under_limits(found: HeadAnalysis, kind: str = "zero") -> Text:
    """Shares of heads that cost little, one at a time."""
    shares, n = found.prunable[kind], len(found.heads)
    return text(
        "One at a time ({} ablation), {} of the heads cost under 1 point{} and {} under 5{}.",
        kind,
        number(shares.under_1_point, percent),
        surely(shares.under_1_point_interval, n),
        number(shares.under_5_points, percent),
        surely(shares.under_5_points_interval, n),
    )


def surely(ends: Interval | None, n_heads: int) -> str:
    """How many heads are certainly under a limit, and how many may be; empty for earlier documents."""
    if ends is None:
        return ""
    low, high = (round(share * n_heads) for share in ends)
    return f" (surely {low} of {n_heads}, at most {high})"


def margin(found: HeadAnalysis) -> Text:
    """The mean margin of the unchanged model; raises `Missing` for earlier documents."""
    baseline = found.baseline
    if baseline.margin is None or baseline.margin_interval is None:
        raise Missing("baseline/margin")
    ends = interval(baseline.margin_interval, decimal)
    return text("The right answer leads by {} logits ({}).", number(baseline.margin, decimal), ends)


def failed_instruments(failed: list[str]) -> Text:
    return text(
        "{}: {}. Results below that use them are invalid.",
        Strong("The instruments failed their own checks"),
        quote("; ".join(failed)),
    )


def checked(found: HeadAnalysis) -> Text:
    """The results of the instruments' self-checks."""
    checks = found.checks
    return text(
        "Checked: {} ablated answers were decoded greedily with a hook, with {} disagreements; with all heads kept the "
        "sweep differs from the model by {}.",
        number(checks.decoded),
        number(checks.disagreements),
        number(checks.identity, decimal),
    )


# Tables


def ablation_table(found: HeadAnalysis) -> Table:
    """A row a head, the largest drop first: verdict, role, the drop of each ablation, changes of margin and loss.

    Redundant heads, and those whose interval holds no point either way, are told in a sentence.
    """
    kinds = list(dict.fromkeys(kind for head in found.heads for kind in head.ablation))
    first = kinds[0]
    with_margin = any(head.ablation[first].margin_change is not None for head in found.heads)
    to_decide = any(head.ablation[first].n_to_decide for head in found.heads)
    rows: list[list[Words]] = []
    heads = sorted(ranked_heads(found)[0], key=says_little)
    for head in heads:
        drop = head.ablation[first]
        most = max(kinds, key=lambda kind: head.ablation[kind].drop)
        largest = text("{} {}", number(head.ablation[most].drop, points), Aside(text("{}", most)))
        cells: list[Words] = [code(head.name), quote(head.verdict), quote(head.role)]
        cells += [with_interval(drop.drop, drop.interval, points), largest]
        cells += [with_interval(head.ablation[kind].drop, head.ablation[kind].interval, points) for kind in kinds[1:]]
        cells += [margin_change(drop)] * with_margin
        cells.append(NONE if drop.loss_change is None else number(drop.loss_change, signed(decimal)))
        cells += [number(drop.n_to_decide) if drop.n_to_decide else NONE] * to_decide
        rows.append(cells)
    columns = [*words("head", "verdict", "looks at")]
    columns += [Column(f"drop, {first}"), Column("largest drop")]
    columns += [Column(f"drop, {kind}", detail=True) for kind in kinds[1:]]
    columns += [Column(f"change of the margin, {first}", detail=True)] * with_margin
    columns.append(Column(f"change of the loss, {first} (%)", detail=True))
    columns += [Column("examples that would decide", detail=True)] * to_decide
    title = f"Every head by itself: {drops_in_words(found)} without it, and the interval"
    quiet = [head for head in heads if says_little(head)]
    return Table(title, columns, rows, len(rows) - len(quiet), quiet_heads(quiet, first))


def short_table(found: HeadAnalysis) -> Table:
    """The heads that cost something certain, the largest drop first, in as few columns as say it."""
    heads, kind = ranked_heads(found)
    telling = [head for head in heads if not says_little(head)]
    rows: list[list[Words]] = []
    for head in telling:
        drop = head.ablation[kind]
        ends = interval(drop.interval, points)
        looks_at = head.role.rpartition(": ")[2]  # its name says the kind of attention
        rows.append([code(head.name), head.verdict, number(drop.drop, points), ends, looks_at])
    columns = [*words("head", "verdict"), Column("drop", bar=True), Column("95 % interval"), *words("looks at")]
    others = quiet_heads([head for head in heads if says_little(head)], kind)
    lost = drops_in_words(found)
    return Table(f"{lost[0].upper()}{lost[1:]} without a head ({kind} ablation)", columns, rows, others=others)


def says_little(head: Head) -> bool:
    """Whether a head has no verdict but redundant or undecided, and no ablation of it costs a point that is certain."""
    certain = any(drop.interval[0] > METHOD.important_above for drop in head.ablation.values())
    return head.verdict in ("redundant", "undecided") and not certain


def quiet_heads(heads: list[Head], kind: str) -> Words:
    """What is said in place of the rows of heads that cost nothing certain."""
    if not heads:
        return ""
    most = highest([head.ablation[kind].drop for head in heads], points)
    return text("The other heads cost at most {} points each ({} ablation), which decides nothing.", most, kind)


def margin_change(drop: Drop) -> Words:
    if drop.margin_change is None:
        return NONE
    return with_interval(drop.margin_change, drop.margin_change_interval, points)


def score_table(found: HeadAnalysis) -> Table:
    rows = [
        [
            code(head.name),
            *(NONE if (score := head.scores.get(name)) is None else number(score, thousandths) for name in names),
        ]
        for names in [list(found.definitions)]
        for head in found.heads
    ]
    columns = [*words("head"), *(Column(name.replace("_", " ")) for name in found.definitions)]
    return Table("Scores of every head; the methods below say what each means", columns, rows, first=0)


def definitions(found: Mapping[str, str]) -> list[tuple[Text, Text]]:
    """The definition of every score."""
    return [(text("{}", name.replace("_", " ")), text("{}", quote(meaning))) for name, meaning in found.items()]


def over_seeds(found: OverSeeds, form: Form = whole) -> str:
    """`2 1 2.25 (median 2)`: every seed, and the median with its interval if there is one."""
    every = " ".join(map(form, found.values))
    if found.median is None or len(found.values) == 1:
        return every
    ends = "" if found.interval is None else ", {} to {}".format(*map(form, found.interval))
    return f"{every} (median {form(found.median)}{ends})"
