"""lengths.json of a run: accuracy against length; and its summary over several seeds of one recipe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway.errors import InputError
from headway.results.evaluation import WrongExample
from headway.results.mechanism import Mechanism
from headway.results.positions import Positions
from headway.results.schema import Document, Interval, count, fact, fraction

GIVEN = "given weights"
"""`chosen_on` of a model of another program."""


@dataclass(frozen=True, kw_only=True)
class DifficultyBin:
    """Examples with a difficulty in one range."""

    low: int = fact("smallest value of the range", key="from")
    high: int = fact("largest value of the range", key="value")
    accuracy: float = fraction("share of right answers")
    n: int = count("examples in the range")
    wrong: int = count("wrong answers")
    interval: Interval = fraction("95 % Wilson interval of the accuracy")


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """The agreement of greedy decoding with the teacher-forced pass, on a sample."""

    n: int = count("answers decoded")
    wrong: int = count("decoded answers that are wrong")
    disagreements: int = count("decoded answers that differ from the teacher-forced pass")
    real_disagreements: int = count("disagreements larger than a near-tie of logits")


@dataclass(frozen=True, kw_only=True)
class LengthRow:
    """One set at one length."""

    length: int = fact("length of the examples", unit="the document's unit")
    set_name: str = fact("set of examples; for sortedness named after its negatives", key="negatives")
    trained: bool = fact("whether the length is within the training range")
    n: int = count("examples measured")
    whole: bool = fact("whether the whole set was measured", default=False)
    exhausted: bool = fact("whether the set had fewer unseen examples than requested", default=False)
    wrong: int = count("wrong answers")
    accuracy: float = fraction("share of right answers (for sequences: exact match)")
    interval: Interval = fraction("95 % Wilson interval of the accuracy")
    loss: float | None = fact("mean cross-entropy", unit="nats", default=None)
    balanced_accuracy: float | None = fraction("mean of the classes' accuracies; null for sequences", default=None)
    answer_shares: Mapping[str, float] | None = fraction("share of each answer given; null for sequences", default=None)
    target_shares: Mapping[str, float] | None = fraction("share of each right answer; null for sequences", default=None)
    one_class: bool = fact("whether one class is right for every example", default=False)
    constant: str | None = fact("the only answer given, if several are right", default=None)
    decoded: Decoding | None = fact("check by decoding; null for classifiers", default=None)
    wrong_examples: tuple[WrongExample, ...] = fact("the first wrong answers", default=())
    by: Mapping[str, tuple[DifficultyBin, ...]] = fact("accuracy by feature of difficulty", default={})


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The measured checkpoint."""

    step: int = count("training step", unit="steps")
    chosen_on: str = fact("reason for this checkpoint")


@dataclass(frozen=True, kw_only=True)
class TrainingRange:
    """Lengths of the training examples."""

    shortest: int = fact("shortest training length", unit="the document's unit")
    longest: int = fact("longest training length", unit="the document's unit")


@dataclass(frozen=True, kw_only=True)
class ConstantAnswer:
    """A constant answer."""

    answer: str = fact("the answer")
    start: int = fact("tested length from which it is the only answer", key="from")


@dataclass(frozen=True, kw_only=True)
class Lengths(Document):
    """Accuracy of one run against length; `hw.lengths(run)` returns it."""

    form: Literal[1] = fact("version of this document", default=1)
    task: str = fact("task of the run")
    run: str = fact("directory of the run")
    seed: int = fact("seed of the run")
    encoding: str = fact("positional encoding")
    pooling: str | None = fact("pooling of a classifier", default=None)
    negatives_trained: str | None = fact("set with the negatives of training", default=None)
    checkpoint: Checkpoint = fact("measured checkpoint")
    unit: str = fact("unit of lengths")
    training: TrainingRange = fact("training lengths")
    asked: tuple[int, ...] | None = fact("requested lengths; null for the task's default", key="at", default=None)
    n: int = count("requested examples of each set at each length")
    whole: int | None = fact("sets of at most this many examples are measured completely", default=None)
    threshold: float = fraction("lower bound of the accuracy from which a length is held")
    confidence: float = fraction("confidence of the intervals", default=0.95)
    rows: tuple[LengthRow, ...] = fact("accuracy of each set at each length", key="lengths", some=True)
    held: Mapping[str, int] = fact("length held on each set", formerly=("certified",), some=True)
    not_held: Mapping[str, tuple[int, ...]] = fact("shorter tested lengths that are not held, by set", default={})
    length_held: int = count("smallest length held over the sets", formerly=("certified_length",))
    certified: Mapping[str, int] = fact("largest length up to which every tested length is held, by set", default={})
    certified_length: int | None = fact("smallest of these", default=None)
    unreadable: tuple[int, ...] = fact("lengths at which a model of another program fails with an error", default=())
    constant: ConstantAnswer | None = fact("the answer of a model with a constant answer", default=None)
    positions: Positions | None = fact("analysis of the positional encoding", default=None)
    mechanism: Mechanism | None = fact("heads compared across lengths, if requested", default=None)

    @property
    def sets(self) -> list[str]:
        """The measured sets, in the document's order."""
        return list(dict.fromkeys(row.set_name for row in self.rows))

    def of_set(self, name: str) -> dict[int, LengthRow]:
        """Length -> row of a set."""
        return {row.length: row for row in self.rows if row.set_name == name}

    def at(self, length: int, set_name: str | None = None) -> LengthRow:
        """The row of a set (default: the first) at a length."""
        name = set_name or self.rows[0].set_name
        rows = {(row.set_name, row.length): row for row in self.rows}
        if (name, length) not in rows:
            known = ", ".join(f"{known} at {tested}" for known, tested in rows)
            raise InputError(f"{name!r} was not measured at {length}; measured: {known}")
        return rows[name, length]

    @property
    def held_lengths(self) -> set[int]:
        """The tested lengths up to the length held."""
        return {row.length for row in self.rows if row.length <= self.length_held}

    @property
    def is_class(self) -> bool:
        """Whether answers are classes."""
        return any(row.answer_shares for row in self.rows)

    @property
    def disagrees(self) -> bool:
        """Whether decoding differs from the teacher-forced pass by more than rounding, so that no accuracy is valid."""
        return any(row.decoded is not None and row.decoded.real_disagreements > 0 for row in self.rows)


# Several seeds of one recipe


@dataclass(frozen=True, kw_only=True)
class HeldOverSeeds:
    """Lengths held by several seeds."""

    held: tuple[int, ...] = fact("length held of each seed", formerly=("certified",))
    median: float = fact("median over seeds")
    interval: Interval | None = fact("95 % interval of the median; null under six seeds", default=None)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The number of seeds that hold a multiple of the longest training length."""

    times: int = fact("the multiple")
    length: int = fact("that length", unit="the document's unit")
    seeds: int = fact("seeds that hold it")
    share: float = fraction("their share")
    interval: Interval = fraction("95 % Clopper-Pearson interval of the share")


@dataclass(frozen=True, kw_only=True)
class SetOverSeeds(HeldOverSeeds):
    """The lengths held on one set, with the tested multiples."""

    reach: tuple[Reach, ...] = fact("seeds that hold multiples of the training length")


@dataclass(frozen=True, kw_only=True)
class RowOverSeeds:
    """One set at one length, over seeds."""

    length: int = fact("length of the examples", unit="the document's unit")
    set_name: str = fact("set of examples", key="negatives")
    trained: bool = fact("whether the length is within the training range")
    accuracies: tuple[float, ...] = fraction("accuracy of each seed")
    mean: float = fraction("mean over seeds")
    median: float | None = fact("median over seeds; null in documents of earlier versions", default=None)
    interval: Interval | None = fact("95 % interval of the median; null under six seeds", default=None)


@dataclass(frozen=True, kw_only=True)
class SeedSummary:
    """Accuracy against length over several seeds of one recipe; the seed is the unit."""

    n_seeds: int = count("number of seeds")
    seeds: tuple[int, ...] = fact("the seeds")
    descriptive: bool = fact("whether there are too few seeds for an interval")
    constant_seeds: int = count("seeds with a constant answer")
    length_held: HeldOverSeeds = fact("smallest length held over the sets", formerly=("certified_length",))
    sets: Mapping[str, SetOverSeeds] = fact("length held on each set")
    rows: tuple[RowOverSeeds, ...] = fact("accuracy of each set at each length", key="lengths")


@dataclass(frozen=True, kw_only=True)
class SeveralLengths(Document):
    """lengths.json of several runs that one command measured."""

    runs: tuple[Lengths, ...] = fact("each run's document")
    together: SeedSummary | None = fact("summary over seeds; null unless they are seeds of one recipe")
