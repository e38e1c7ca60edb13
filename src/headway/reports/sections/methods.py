"""The section of definitions for everything that was measured."""

from headway.narration.heads import definitions
from headway.narration.method import METHOD
from headway.narration.numbers import computed, number, percent
from headway.narration.text import Text, Words, text
from headway.reports.blocks import Section, Terms
from headway.reports.documents import Documents
from headway.results.lengths import Lengths
from headway.statistics import wilson_interval

Pair = tuple[Words, Words]


def section(documents: Documents) -> Section:
    terms = Terms([*everywhere(documents), *of_heads(documents), *of_lengths(documents)])
    scored = [run.heads.definitions for run in documents.runs if run.heads is not None and run.heads.definitions]
    parts = [Section("scores", "Scores of heads", [Terms(definitions(one))], folded=True) for one in scored[:1]]
    return Section("methods", "Methods", [terms], parts)


def term(name: str, meaning: str, *values: Words) -> Pair:
    return name, text(meaning, *values)


def everywhere(documents: Documents) -> list[Pair]:
    sure = number(METHOD.confidence, percent)
    seeds = number(METHOD.enough_seeds)
    return [
        term("accuracy", "The share of whole answers that are right, every token of them."),
        term("interval", "Covers the true share {} of the time: Wilson's for a share, Tango's for a drop.", sure),
        term(
            "teacher-forced pass",
            "All tokens of an answer are predicted at once, each from the right ones before it. A whole answer is "
            "right exactly when greedy decoding gets it right; a sample is decoded greedily to check it.",
        ),
        *(
            [term("checkpoint", "The one with the lowest validation loss. Nothing is chosen on the test split.")]
            * any(run.model is None for run in documents.runs)
        ),
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
            * (len(documents.runs) > 1)
        ),
        term(
            "seed", "The unit when runs are compared: examples are never pooled. Fewer than {} are descriptive.", seeds
        ),
    ]


def of_heads(documents: Documents) -> list[Pair]:
    found = [run.heads for run in documents.runs if run.heads is not None]
    if not found:
        return []
    critical, important = number(METHOD.critical_above), number(METHOD.important_above)
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
            * any(one.baseline.margin is not None for one in found)
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
            "Heads are chosen on one half of the examples and measured on the other. They can be removed for less "
            "than a limit if the whole interval of their cost there is below it.",
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
            number(METHOD.moves_above, percent),
        ),
        *(controls() if any(contrast.control for one in found for contrast in one.interventions.contrasts) else ()),
    ]


def controls() -> list[Pair]:
    floor = number(METHOD.moves_above, percent)
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


def of_lengths(documents: Documents) -> list[Pair]:
    if not documents.with_lengths:
        return []
    _, found = documents.with_lengths[0]
    return [
        term(
            "length held",
            "The largest tested length with an interval of accuracy above {} there and at every shorter tested length "
            "past training; where none past training has it, the same inside. It is measured on samples, not proved.{}",
            number(found.threshold, percent),
            strictness(found),
        ),
        term("sets", "Made for one length each, the same for every seed, and trained on by none."),
    ]


def strictness(found: Lengths) -> Text:
    """How many wrong answers the examples of one length allow."""
    wrong = errors_allowed(found.n, found.threshold)
    if wrong < 0:
        return text(" With {} examples a length none can be held.", number(found.n))
    allowed = computed(wrong, "allowed", [found.n, found.threshold])
    return text(" With {} examples a length that allows at most {} wrong.", number(found.n), allowed)


def errors_allowed(n: int, threshold: float) -> int:
    """How many of n examples may be wrong for the interval to stay above the threshold; -1 if n is too small."""
    wrong = 0
    while wrong <= n and wilson_interval(n - wrong, n)[0] >= threshold:
        wrong += 1
    return wrong - 1
