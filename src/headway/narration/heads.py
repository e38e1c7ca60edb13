"""Sentences and tables about single heads: verdicts, drops, margins and losses."""

from collections.abc import Iterator, Mapping

from headway.narration.accuracy import SPLITS, verb
from headway.narration.method import METHOD
from headway.narration.numbers import (
    NONE,
    Form,
    count,
    decimal,
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
from headway.narration.text import Missing, Strong, Text, Words, code, listed, quote, text
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
    counts = {name: count(found.heads, "verdict", name) for name in names}
    return listed([text("{} {}", one, of_verdict(name, one.value)) for name, one in counts.items() if one.value])


def one_at_a_time(found: HeadAnalysis) -> Iterator[Text]:
    """The number of heads of each verdict, the head with the largest drop, and the examples."""
    yield text("Of {} heads, one at a time, {}.", size(found.heads), tally(found))
    if most := costliest(found):
        yield most
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


def costliest(found: HeadAnalysis) -> Text | None:
    """The head with the largest drop, if it is significant."""
    if (first := ranked(found)) is None:
        return None
    head, kind, ahead = first
    drop = head.ablation[kind]
    if drop.interval[0] <= 0:
        return text("No single head has a drop that differs significantly from 0 ({} ablation).", kind)
    return text(
        "Without {} accuracy falls {}by {} points ({} interval {}; {} ablation){}.",
        code(head.name),
        "most, " if ahead else "",
        number(drop.drop, points),
        number(METHOD.confidence, percent),
        interval(drop.interval, points),
        kind,
        "" if ahead else OVERLAP,
    )


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
    """One row per head: verdict, role, the drop by each kind of ablation, and the change of margin and loss."""
    kinds = list(dict.fromkeys(kind for head in found.heads for kind in head.ablation))
    first = kinds[0]
    with_margin = any(head.ablation[first].margin_change is not None for head in found.heads)
    to_decide = any(head.ablation[first].n_to_decide for head in found.heads)
    rows: list[list[Words]] = []
    for head in found.heads:
        drop = head.ablation[first]
        cells: list[Words] = [code(head.name), quote(head.verdict), quote(head.role)]
        cells += [with_interval(head.ablation[kind].drop, head.ablation[kind].interval, points) for kind in kinds]
        cells += [margin_change(drop)] * with_margin
        cells.append(NONE if drop.loss_change is None else number(drop.loss_change, signed(decimal)))
        cells += [number(drop.n_to_decide) if drop.n_to_decide else NONE] * to_decide
        rows.append(cells)
    columns = [*words("head", "verdict", "looks at"), *(Column(f"drop, {kind}") for kind in kinds)]
    columns += [Column(f"change of the margin, {first}")] * with_margin + [Column(f"change of the loss, {first} (%)")]
    columns += [Column("examples that would decide")] * to_decide
    return Table("Every head by itself: points of accuracy lost without it, and the interval", columns, rows)


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
    return Table("Scores of every head; the methods below say what each means", columns, rows)


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
