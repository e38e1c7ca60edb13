"""An analysis of heads as lines for a person: one run, its definitions, or several seeds."""

from typing import TYPE_CHECKING

from headway.cli.evaluate import percent, split_in_words

if TYPE_CHECKING:
    from headway.results.error_analysis import ErrorAnalysis
    from headway.results.heads import Baseline, Drop, Head, HeadAnalysis
    from headway.results.heads_study import ContrastOverSeeds, HeadsTogether, OverSeeds, RatesOverSeeds
    from headway.results.joint_ablation import JointAblation, Pairs
    from headway.results.patching import Contrast, Control, Patching, Rate, Strongest
    from headway.results.schema import Interval

MOVES = 0.05
"""A head is named where the interval of how often it moves something lies above this share."""


def summary(found: "HeadAnalysis") -> list[str]:
    """An analysis for a person: the table of heads, then what is said of them together."""
    baseline, sizes = found.baseline, found.sizes
    low, high = baseline.interval
    lines = [
        f"{found.run} (step {found.step:,}), {found.n:,} examples of {split_in_words(found.split)}: "
        f"{baseline.wrong:,} wrong, accuracy {percent(baseline.accuracy)} ({percent(low)} to {percent(high)})",
        *(f"warning: {text}" for text in found.warnings),
        *_margin_line(baseline),
        "",
        f"{'head':16} {'verdict':24} {'drop without it, in points (zero; 95 %)':52} "
        f"{'margin (zero; 95 %)':27} {'loss, %':>9} {'mean':>7} {'pos.mean':>8} {'resample':>8}  role",
    ]
    lines += [_row(row) for row in found.heads]
    lines += ["", _prunable(found), *_together(found.joint, len(found.heads)), *_pairs(found.joint.pairs)]
    lines += _interventions(found.interventions) + _further(found) + _errors(found.error_analysis)
    checks = found.checks
    lines.append(
        f"checked: {checks.decoded:,} ablated answers decoded for real with a hook, "
        f"{checks.disagreements:,} disagreements; all heads kept differs by {checks.identity:.1g}"
    )
    used = (
        f"elimination {sizes.elimination:,}, shapley {sizes.shapley:,}, all {sizes.all_heads:,}, "
        f"pairs {sizes.pairs:,}, interventions {sizes.interventions:,}"
    )
    more = "" if found.settings and found.settings.thorough else "; --thorough takes more"
    lines.append(f"examples of each part: {used}; {sum(found.seconds.values()):.0f} s{more}")
    return lines


def _prunable(found: "HeadAnalysis") -> str:
    shares, n_heads = found.prunable["zero"], len(found.heads)
    return (
        f"one at a time (zero): {shares.under_1_point:.0%} of the heads cost under 1 point"
        f"{_sure(shares.under_1_point_interval, n_heads)}, {shares.under_5_points:.0%} under 5"
        f"{_sure(shares.under_5_points_interval, n_heads)}, {shares.under_1_percent_of_loss:.0%} under 1 % of the loss "
        f"({found.baseline.loss:.2g} a token)"
    )


def _sure(interval: "Interval | None", n_heads: int) -> str:
    """How many heads surely are under a limit, and how many may be; earlier analyses did not say."""
    if interval is None:
        return ""
    low, high = (round(share * n_heads) for share in interval)
    return f" (surely {low} of {n_heads}, at most {high})"


def _row(row: "Head") -> str:
    zero = row.ablation["zero"]
    low, high = zero.interval
    others = [row.ablation[kind].drop for kind in ("mean", "position-mean", "resample")]
    loss = "-" if zero.loss_change is None else f"{zero.loss_change:+.2g}"
    drop = f"{zero.drop:6.2f}  ({low:.2f} to {high:.2f})"
    if zero.n_to_decide:
        drop += f", {zero.n_to_decide:,} would decide"
    return (
        f"{row.name:16} {row.verdict:24} {drop:52} {_margin(zero):27} {loss:>9} "
        f"{others[0]:7.2f} {others[1]:8.2f} {others[2]:8.2f}  {row.role}"
    )


def _margin_line(baseline: "Baseline") -> list[str]:
    """By how much the right answer leads in the model as it is; documents of earlier versions do not say."""
    if baseline.margin is None or baseline.margin_interval is None:
        return []
    low, high = baseline.margin_interval
    return [f"the right answer leads by {baseline.margin:.2f} ({low:.2f} to {high:.2f}) in logits"]


def _margin(drop: "Drop") -> str:
    if drop.margin_change is None or drop.margin_change_interval is None:
        return "-"
    low, high = drop.margin_change_interval
    return f"{drop.margin_change:+6.2f} ({low:+.2f} to {high:+.2f})"


def _together(joint: "JointAblation", n_heads: int) -> list[str]:
    lines = []
    for row in joint.removable:
        low, high = row.drop_interval
        alone, adding = row.alone_under_limit, row.adding_up
        shown = "can go together" if high < row.limit else "were chosen to go, not shown to cost so little"
        lines += [
            f"for less than {_points(row.limit)}: {len(row.heads)} of {n_heads} heads {shown}, "
            f"drop {row.drop:.2f} ({low:.2f} to {high:.2f}) on examples not used to choose them",
            f"  one at a time {len(alone.heads)} (on the examples used to choose), "
            f"which together cost {alone.drop:.2f}. "
            f"Adding up single drops promises {len(adding.heads)}, which cost {adding.drop:.2f}",
        ]
    enough = joint.sufficient
    low, high = enough.drop_interval
    shown = "enough for all but 1 point" if high < 1 else "chosen as enough for all but 1 point, which is not shown"
    kept = ", ".join(enough.heads) or "no head at all"
    lines.append(f"{shown}: {kept}; without the others drop {enough.drop:.2f} ({low:.2f} to {high:.2f})")
    for kind, values in joint.shapley.items():
        best = sorted(values.values, key=lambda value: -value.value)[:3]
        how = f"{values.subsets:,} subsets" if values.exact else f"{values.permutations} orders"
        shown = ", ".join(f"{value.head} {value.value:.1f} ± {value.error:.1f}" for value in best)
        lines.append(f"Shapley values, {kind} ({how}, n = {values.n:,}): {shown}")
    return lines


def _points(limit: float) -> str:
    return "1 point" if limit == 1 else f"{limit:g} points"


def _pairs(pairs: "Pairs") -> list[str]:
    shown = "; ".join(
        f"{' and '.join(pair.heads)}: {pair.alone[0]:.1f} and {pair.alone[1]:.1f} alone, {pair.together:.1f} together"
        for pair in pairs.redundant()[:3]
    )
    return [f"backing each other up ({pairs.tested:,} pairs, n = {pairs.n:,}): {shown or 'no pair found'}"]


def _interventions(found: "Patching") -> list[str]:
    """The heads that surely move each contrast, on pairs that they were not chosen on; and the controls."""
    lines = []
    for contrast in found.contrasts:
        if not contrast.usable:
            lines.append(f"{contrast.name}: no pair of {contrast.n:,} is right on both sides, nothing to see")
            continue
        ranked = contrast.ranked()
        if not ranked:  # written by an earlier version, or too few pairs for two halves
            shown = ", ".join(f"{row.who} {row.rate:.0%} ({_interval(row)})" for row in contrast.best_single(2))
            lines.append(f"{contrast.name} (n = {contrast.usable:,}) is moved by {shown}")
            continue
        moving = [one for one in ranked if one.interval[0] > MOVES]
        shown = ", ".join(f"{one.head} {one.rate:.0%} ({_interval(one)}){_controlled(one)}" for one in moving)
        if not moving:
            most = max(ranked, key=lambda one: one.rate)
            shown = f"no single head surely (at most {most.rate:.0%}, {_interval(most)})"
        sizes = f"n = {ranked[0].n:,}, chosen on {ranked[0].chosen_on_n:,} others"
        lines += [f"{contrast.name} ({sizes}) is moved by {shown}", *_kinds_patched(contrast)]
    return lines


def _further(found: "HeadAnalysis") -> list[str]:
    """What the other analyses say."""
    return [line for part in found.parts.values() for line in map(str, part.sentences())]


def _controlled(row: "Strongest") -> str:
    """The control of a strongest head, where the contrast has one."""
    control = row.control
    return "" if control is None else f" [control {control.rate:.0%} ({_interval(control)}): {control.reading}]"


def _kinds_patched(contrast: "Contrast") -> list[str]:
    """All heads of a kind at once: how often the carry moves, the control changes it anyway, and the digits move."""
    control = contrast.control
    if not control or not control.usable:
        return []
    rates = {row.who: row for row in contrast.rows}
    shown = [
        f"{row.who} {rates[row.who].rate:.0%} ({_interval(rates[row.who])}), control {row.rate:.0%} "
        f"({_interval(row)}), digits {row.digits.rate:.0%} ({_interval(row.digits)}): {row.reading}"
        if row.reading != "not moved"
        else f"{row.who} {rates[row.who].rate:.0%}: not moved"
        for row in control.rows
        if row.who.startswith("all ") and row.who in rates
    ]
    return [f"  (n = {contrast.usable:,}, control {control.usable:,}) {'; '.join(shown)}"] if shown else []


def _interval(row: "Rate | Control") -> str:
    low, high = row.interval
    return f"{low:.0%} to {high:.0%}"


def _errors(found: "ErrorAnalysis") -> list[str]:
    """How many are wrong; if any, the accuracy by every feature and a few of them."""
    lines = [f"{found.wrong:,} of {found.n:,} wrong"]
    if not found.wrong:
        return lines
    for name, rows in found.groups.items():
        shares = ", ".join(f"{row.label}: {row.accuracy:.1%}" for row in rows)
        lines.append(f"  accuracy by {name.replace('_', ' ')}: {shares}")
    wrong = [row for row in found.worst if not row.right][:3]
    return lines + [f"  wrong: {row.example}, answered {row.answered}" for row in wrong]


def definitions_of(found: "HeadAnalysis") -> list[str]:
    """Every score of every head, and what each means."""
    names = list(found.definitions)
    lines = [f"{'head':16} " + " ".join(f"{name:>15}" for name in names)]
    for row in found.heads:
        cells = ("-" if (score := row.scores[name]) is None else f"{score:.3f}" for name in names)
        lines.append(f"{row.name:16} " + " ".join(f"{cell:>15}" for cell in cells))
    return [*lines, "", *(f"{name}: {' '.join(text.split())}" for name, text in found.definitions.items()), ""]


def summary_of_seeds(together: "HeadsTogether") -> list[str]:
    """What several seeds say together: every seed, then the median and its interval; flip rates seed by seed."""
    few = ", fewer than 6: descriptive only" if together.descriptive else ""
    told = "every seed (median)" if together.descriptive else "every seed (median and its 95 % interval)"
    lines = [f"{together.seeds} seeds together{few}; {told}"]
    for verdict, counts in together.verdicts["overall"].items():
        lines.append(f"  heads whose verdict is {verdict}: {over_seeds_text(counts)}")
    if shares := together.prunable.get("zero"):
        lines.append(f"  share of heads that cost under 1 point alone (zero): {over_seeds_text(shares.under_1_point)}")
    for row in together.removable:
        alone = row.alone_under_limit
        lines.append(
            f"  removable together for less than {_points(row.limit)}: {over_seeds_text(row.heads)}; "
            f"under it one at a time: {over_seeds_text(alone.heads)}, "
            f"which together cost {over_seeds_text(alone.drop_together)} points"
        )
    for contrast in together.interventions:
        rates = "; ".join(f"{kind} {_rates(value)}" for kind, value in contrast.strongest.items())
        some = f" ({contrast.seeds} seeds)" if contrast.seeds < together.seeds else ""
        lines.append(f"  {contrast.name}, flips by the strongest head{some}: {rates or 'no pair is right'}")
        lines += _readings(contrast)
    return lines


def over_seeds_text(found: "OverSeeds") -> str:
    """`2 1 2 3 (median 2)`, with the interval of the median where there is one."""
    every = " ".join(map(_short, found.values))
    if found.median is None or (found.interval is None and len(found.values) < 2):
        return every
    interval = "" if found.interval is None else f", {_short(found.interval[0])} to {_short(found.interval[1])}"
    return f"{every} (median {_short(found.median)}{interval})"


def _short(value: float) -> str:
    """At most two decimals, and none that say nothing."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _rates(found: "RatesOverSeeds") -> str:
    """Every seed's rate and how many are high, low and between."""
    low, high = found.limits
    shown = " ".join(f"{rate:.2f}" for rate in found.values)
    return f"{shown} ({found.above} above {high:g}, {found.between} between, {found.below} below {low:g})"


def _readings(contrast: "ContrastOverSeeds") -> list[str]:
    """How many seeds have each reading, of all heads of a kind patched at once."""
    control = contrast.control
    if control is None:
        return []
    kinds = {who: found.readings for who, found in control.together.items() if who.startswith("all ")}
    shown = "; ".join(
        f"{who} " + ", ".join(f"{reading} in {count}" for reading, count in readings.items())
        for who, readings in kinds.items()
    )
    return [f"    against controls with the same carry ({control.seeds} seeds): {shown}"]
