"""Sentences and tables about accuracy: on a split, over a whole domain, and by difficulty."""

from collections.abc import Iterator

from headway.narration.method import METHOD
from headway.narration.numbers import NONE, decimal, interval, number, percent
from headway.narration.places import place_of
from headway.narration.tables import Column, Table, words
from headway.narration.text import Code, Text, Words, code, join, quote, text
from headway.results.error_analysis import ByValue, ErrorAnalysis
from headway.results.evaluation import ClassEvaluation, SequenceEvaluation, SplitEvaluation, WrongExample
from headway.results.heads import HeadAnalysis, Metric

SPLITS = {
    "all": "the whole domain",
    "test": "the test split",
    "validation": "validation",
    "train": "training",
    "given": "the given data",
}
WHOLE = "all"


def verb(count: float) -> str:
    return "is" if count == 1 else "are"


def evaluated(found: SplitEvaluation, trained_on: int | None = None) -> Iterator[Text]:
    """The number of right answers, the agreement with greedy decoding, and the accuracy of classes."""
    yield asked_all(found, trained_on) if found.split == WHOLE else on_sample(found)
    if isinstance(found, SequenceEvaluation):
        yield text(
            "That is one teacher-forced pass; {} answers were also decoded greedily, token by token: {} {} wrong, and "
            "{} disagree with that pass.",
            number(found.decoded_n),
            number(found.decoded_wrong),
            verb(found.decoded_wrong),
            number(found.disagreements),
        )
    if isinstance(found, ClassEvaluation):
        yield text("Balanced over the classes it is {}.", number(found.balanced_accuracy, percent))


def on_sample(found: SplitEvaluation) -> Text:
    return text(
        "On {} {} of {} answers {} wrong: {} are right ({} interval {}).",
        SPLITS[found.split],
        number(found.wrong),
        number(found.n),
        verb(found.wrong),
        number(found.accuracy, percent),
        number(METHOD.confidence, percent),
        interval(found.interval),
    )


def asked_all(found: SplitEvaluation, trained_on: int | None = None) -> Text:
    """The result on the whole domain: a count, without a sampling interval."""
    among = text(", the {} of training among them", number(trained_on)) if trained_on is not None else ""
    return text(
        "All {} inputs of the domain were tested{}: {} {} answered wrong, {} right.",
        number(found.n),
        among,
        number(found.wrong),
        verb(found.wrong),
        number(found.accuracy, percent),
    )


def answers_given(found: ClassEvaluation) -> Text:
    shares = [text("{}: {}", label, number(share, percent)) for label, share in found.answer_shares.items()]
    return text("Answers given: {}.", join(", ", shares))


def wrong_answer(found: WrongExample) -> Text:
    return text("{}, answered {}", code(found.example), code(found.answered))


def in_short(found: SplitEvaluation) -> Text:
    """One sentence for the answer of a report."""
    return text(
        "It answers {} of {} right: {} of {} {} wrong ({}).",
        number(found.accuracy, percent),
        SPLITS[found.split],
        number(found.wrong),
        number(found.n),
        verb(found.wrong),
        interval(found.interval),
    )


def metric_name(metric: Metric) -> Text:
    return text("{}", quote("KL divergence" if metric.name == "kl" else metric.name.replace("_", " ")))


def of_baseline(found: HeadAnalysis) -> Text:
    """The accuracy on the examples of the head analysis, for a model that was not evaluated otherwise.

    Where drops are of a real-valued metric, its mean.
    """
    if (metric := found.metric) is not None:
        return text(
            "Its mean {} on {} examples of {} is {} {} ({}).",
            metric_name(metric),
            number(found.n),
            SPLITS[found.split],
            number(metric.mean, decimal),
            quote(metric.unit),
            interval(metric.interval, decimal),
        )
    return text(
        "It answers {} of {} examples of {} right ({}).",
        number(found.baseline.accuracy, percent),
        number(found.baseline.n),
        SPLITS[found.split],
        interval(found.baseline.interval),
    )


def accuracy_table(found: list[tuple[str, SplitEvaluation]]) -> Table:
    """One row per run and split; runs are named if there are several."""
    several = len({name for name, _ in found}) > 1
    rows = []
    for name, one in found:
        rows.append(
            [
                *([code(name)] * several),
                SPLITS[one.split],
                number(one.n),
                number(one.wrong),
                number(one.accuracy, percent),
                "none: all were tested" if one.split == WHOLE else interval(one.interval),
                number(one.decoded_n) if isinstance(one, SequenceEvaluation) else NONE,
                number(one.disagreements) if isinstance(one, SequenceEvaluation) else NONE,
            ]
        )
    columns = [Column(name) for name in ("n", "wrong", "accuracy", "interval", "decoded", "disagreements")]
    named = words(*["run"] * several, "examples")
    return Table("Accuracy of whole answers", [*named, *columns], rows)


# Which examples fail


def hardest(found: ErrorAnalysis, run: str) -> Iterator[Text]:
    """The number of wrong answers; for each property, the value with the lowest accuracy if it differs
    from the best.
    """
    if not found.wrong:
        yield text(
            "None of the {} examples of the head analysis of {} is wrong, so there are no errors to analyse.",
            number(found.n),
            code(run),
        )
        return
    yield text(
        "Of the {} examples of the head analysis of {}, {} {} wrong.",
        number(found.n),
        code(run),
        number(found.wrong),
        verb(found.wrong),
    )
    for name, groups in found.by_feature.items():
        worst, best = (choose(groups, key=lambda group: group.accuracy or 0.0) for choose in (min, max))
        if worst.interval[1] < best.interval[0]:
            yield text(
                "By {} the lowest accuracy is {} (at {}, {} examples), the highest {} (at {}).",
                name.replace("_", " "),
                number(worst.accuracy or 0.0, percent),
                value_of(worst),
                number(worst.n),
                number(best.accuracy or 0.0, percent),
                value_of(best),
            )


def value_of(group: ByValue) -> Words:
    return number(group.value) if isinstance(group.value, int) else Code(group.value, place_of(group.value))
