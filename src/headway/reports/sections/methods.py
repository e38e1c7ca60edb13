"""What the words of the report mean: definitions of everything that was measured, and of nothing else."""

from markupsafe import Markup

from headway.reports.blocks import Section, Terms
from headway.reports.evidence import Evidence
from headway.reports.sections.accuracy import percent_short

Pair = tuple[Markup, Markup]


def section(evidence: Evidence) -> Section:
    terms = Terms([*everywhere(evidence), *of_heads(evidence), *of_lengths(evidence)])
    found = scores(evidence)
    parts = [Section("scores", "Scores of heads", [Terms(found)], folded=True)] if found else []
    return Section("methods", "Methods", [terms], parts)


def term(name: str, text: str, *values: Markup | str) -> Pair:
    return Markup.escape(name), Markup(text).format(*values)


def everywhere(evidence: Evidence) -> list[Pair]:
    sure = evidence.number("method/confidence", percent_short)
    seeds = evidence.number("method/enough_seeds")
    return [
        term("accuracy", "The share of whole answers that are right, every token of them."),
        term("interval", "Covers the true share {} of the time: Wilson's for a share, Tango's for a drop.", sure),
        term(
            "parallel pass",
            "All tokens of an answer are predicted at once, each from the right ones before it. A whole answer is "
            "right exactly when greedy decoding gets it right; a sample is decoded for real to check it.",
        ),
        term("checkpoint", "The one with the lowest validation loss. Nothing is chosen on the test split."),
        *(
            [
                term(
                    "interval over seeds",
                    "Of the median seed, from order statistics: covers it at least {} of the time, whatever the "
                    "distribution of seeds, from {} seeds on. Where every value has an interval of its own over "
                    "examples, those widen it. With fewer seeds only the seeds are shown.",
                    sure,
                    seeds,
                )
            ]
            * (len(evidence.runs) > 1)
        ),
        term(
            "seed", "The unit when runs are compared: examples are never pooled. Fewer than {} are descriptive.", seeds
        ),
    ]


def of_heads(evidence: Evidence) -> list[Pair]:
    if not evidence.those_with("heads"):
        return []
    critical, important = (evidence.number(f"method/{key}") for key in ("critical_above", "important_above"))
    return [
        term(
            "drop",
            "Points of accuracy lost when a head's output is replaced: by zero, by its mean, or by another example's.",
        ),
        *(
            [
                term(
                    "margin",
                    "The right token's logit less the best other one's, the smallest over the tokens of an answer: "
                    "positive where the answer is right, negative where it is wrong. It moves where accuracy cannot.",
                )
            ]
            * any(evidence.has(f"{run}/heads/baseline/margin") for run in evidence.runs)
        ),
        term("critical", "The drop is shown to be above {} points.", critical),
        term("important", "The drop is shown to be above {} point.", important),
        term("redundant", "The drop is shown to be smaller than {} point either way, alone.", important),
        term("harmful", "Without it accuracy is shown to rise by more than {} point.", important),
        term("undecided", "The examples do not tell; the analysis says how many would."),
        term(
            "depends on the ablation",
            "Ways of taking the head out contradict each other: redundant by one, not by another.",
        ),
        term("family", "What verdicts claim of all heads and kinds is corrected as one family (Holm, Shaffer)."),
        term(
            "together",
            "Heads are chosen on one half of the examples and measured on the other. They can go for less than a limit "
            "if the whole interval of their cost there is below it.",
        ),
        term(
            "Shapley value", "A head's share of the accuracy, averaged over the orders in which heads can be taken out."
        ),
        term(
            "moved by",
            "Activation patching: a head's output on one example (the source) is put into another (the base) that "
            "differs in one thing; the answer becomes the source's. A head is named where the interval of how often it "
            "does (interchange intervention accuracy) is above {}. It is chosen on half of the pairs and measured on "
            "the rest.",
            evidence.number("method/moves_above", percent_short),
        ),
        *(controls(evidence) if has_controls(evidence) else ()),
    ]


def has_controls(evidence: Evidence) -> bool:
    found = [evidence.heads(run).interventions for run in evidence.those_with("heads")]
    return any(contrast.control for one in found for contrast in one.contrasts)


def controls(evidence: Evidence) -> list[Pair]:
    floor = evidence.number("method/moves_above", percent_short)
    return [
        term(
            "control",
            "A source with another digit in the same place and the same carry: the answer's digit must stay as it is.",
        ),
        term(
            "reading",
            "Carry alone: the carry is moved and the control changes nothing, nor do the column's own digits move. "
            "Carry and digits: these move too, so the heads may bring the whole column. Unspecific: the control "
            "changes the digit as well. Moved is an interval above {}, not moved one below it; else undecided.",
            floor,
        ),
    ]


def of_lengths(evidence: Evidence) -> list[Pair]:
    runs = evidence.those_with("lengths/threshold")
    if not runs:
        return []
    threshold = evidence.number(f"{runs[0]}/lengths/threshold", percent_short)
    return [
        term(
            "length held",
            "The largest tested length with an interval of accuracy above {} there and at every shorter tested length "
            "past training; where none past training has it, the same inside. It is measured on samples, not proved.{}",
            threshold,
            strictness(evidence, f"{runs[0]}/lengths"),
        ),
        term("sets", "Made for one length each, the same for every seed, and trained on by none."),
    ]


def strictness(evidence: Evidence, place: str) -> Markup:
    """How many wrong answers the examples of one length allow."""
    n, threshold = f"{place}/n", f"{place}/threshold"
    if not evidence.has(n):
        return Markup("")
    if evidence.allowed(n, threshold) < 0:
        return Markup(" With {} examples a length none can be held.").format(evidence.number(n))
    return Markup(" With {} examples a length that allows at most {} wrong.").format(
        evidence.number(n), evidence.errors_allowed(n, threshold)
    )


def scores(evidence: Evidence) -> list[Pair]:
    """Every score in the words of the analysis."""
    runs = evidence.those_with("heads/definitions")
    if not runs:
        return []
    names = evidence.get(f"{runs[0]}/heads/definitions")
    return [
        (Markup.escape(name.replace("_", " ")), evidence.text(f"{runs[0]}/heads/definitions/{name}")) for name in names
    ]
