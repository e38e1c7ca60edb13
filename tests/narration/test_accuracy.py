"""Which examples fail, in words."""

from headway.narration.accuracy import evaluated, hardest
from headway.results.error_analysis import ByValue, ErrorAnalysis
from headway.results.evaluation import SequenceEvaluation
from headway.results.schema import blank
from headway.statistics import wilson_interval


def group(value: int, wrong: int) -> ByValue:
    right = 100 - wrong
    return ByValue(value=value, n=100, wrong=wrong, accuracy=right / 100, interval=wilson_interval(right, 100))


def test_the_group_with_the_lowest_accuracy_is_named_before_the_one_with_the_highest() -> None:
    found = blank(ErrorAnalysis, n=300, wrong=65, by_feature={"carries": (group(0, 5), group(1, 20), group(2, 40))})
    sentences = [str(sentence) for sentence in hardest(found, "run")]
    assert sentences[1] == ("By carries the lowest accuracy is 60 % (at 2, 100 examples), the highest 95 % (at 0).")


def test_of_decoded_answers_as_many_are_wrong_as_were_decoded_wrong() -> None:
    """300 of all 9,000 are wrong, one of the 40 that were decoded."""
    found = blank(SequenceEvaluation, split="test", n=9_000, wrong=300, accuracy=29 / 30, decoded_n=40, decoded_wrong=1)
    first, second = (str(sentence) for sentence in evaluated(found))
    assert "300 of 9,000 answers are wrong" in first
    assert "40 answers were also decoded greedily, token by token: 1 is wrong, and 0 disagree" in second
