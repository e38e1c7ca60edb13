"""Addition as text, one token per character, with operands of any length.

    "123 + 456 = "  ->  "579" EOS       (most significant digit first)
    "123 + 456 = "  ->  "975" EOS       (least significant digit first)
    "95 + 7 = "     ->  "102" EOS       (the sum is not padded)
    "321 + 654 = "  ->  "975" EOS       (123 + 456 with operands, too, least significant digit first)

Two n-digit numbers make 2n + 6 characters: 13 digits at 32, 29 at 64, 61 at 128, 125 at 256.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.config import setting
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.tasks.attack_families import Families, sources_of
from headway.tasks.base import Task
from headway.tasks.columns import (
    Digits,
    add,
    digit_counts,
    longest_chain,
    longest_ripple,
    longest_unstarted_ripple,
    operands,
    order,
    propagates,
    written_columns,
)
from headway.tasks.contrasts import SumPairs, sum_contrasts
from headway.tasks.descriptions import PageDescription, PositionRule
from headway.tasks.examples import (
    Answer,
    Contrast,
    Examples,
    Keys,
    LengthPlan,
    Part,
    PositionKind,
    Prefix,
    Rows,
    SimpleRule,
    Vocabulary,
    check_set,
)
from headway.tasks.parts import SUM_PARTS, sum_parts
from headway.tasks.ripples import FAMILIES
from headway.tasks.sum_families import SumFamilies
from headway.tasks.sum_rules import other_operands, sum_rules

CHARACTERS = "0123456789+= "
EOS = len(CHARACTERS) + 1
AROUND = len(" +  = ")
"""Characters of an input that are not digits."""
SHORTEST = AROUND + 2
SHORTEST_TESTED = AROUND + 6
"""With fewer than three digits the test split has too few sums to measure on."""
CONTRAST_DIGITS = 3
"""Digits of both operands in contrasts, unless the task's numbers are shorter."""
NUMBER = re.compile(r"0|[1-9][0-9]*")
INPUT = re.compile(r"([0-9]+) \+ ([0-9]+) = ")


@dataclass(frozen=True, kw_only=True)
class AdditionTextOptions:
    max_characters: int = setting(32, "longest training input in characters", low=8, high=8_192)
    order: Literal["most-significant-first", "least-significant-first"] = setting(
        "most-significant-first", "order in which the answer is written"
    )
    operand_order: Literal["most-significant-first", "least-significant-first"] = setting(
        "most-significant-first", "order in which both operands are written"
    )
    test_lengths: tuple[int, ...] = setting((64, 128, 256), "inputs of exactly these many characters", low=8, high=8192)
    exact: int | None = setting(None, "every input has exactly this many characters", low=8, high=8_192)


class AdditionText(Task):
    """Numbers without leading zeros, each operand's length drawn uniformly from 1 to (max_characters - 6) / 2."""

    name = "addition-text"
    Options = AdditionTextOptions
    kind = "sequence"
    PARTS = SUM_PARTS
    vocabulary = Vocabulary((*CHARACTERS, "BOS", "EOS", "PAD"), bos=13, eos=EOS, pad=15)

    def __init__(self, options: AdditionTextOptions):
        super().__init__(options)
        self.falling = options.order == "most-significant-first"
        self.operands_falling = options.operand_order == "most-significant-first"
        self.longest = ((options.exact or options.max_characters) - AROUND) // 2
        for length in (*options.test_lengths, *([options.exact] if options.exact else [])):
            if length % 2:
                raise InputError(f"addition-text has no inputs of exactly {length} characters; an even number needed")

    def draw(self, random: np.random.Generator, n: int) -> Examples:
        if self.options.exact:
            lengths = np.full((2, n), self.longest)
        else:
            lengths = random.integers(1, self.longest + 1, size=(2, n))
        a, b = (self._draw_numbers(random, row, int(lengths.max())) for row in lengths)
        return self.encode(a, b, *lengths)

    def _draw_numbers(self, random: np.random.Generator, lengths: np.ndarray, width: int) -> np.ndarray:
        """Digits, least significant first, zero past each length; only a one-digit number may be 0."""
        digits = random.integers(0, 10, size=(len(lengths), width))
        leading = random.integers(1, 10, size=len(lengths))
        rows = np.arange(len(lengths))
        top = np.where(lengths > 1, leading, digits[:, 0])
        digits[rows, lengths - 1] = top
        return digits * (np.arange(width) < lengths[:, None])

    def encode(self, a: np.ndarray, b: np.ndarray, a_length: np.ndarray, b_length: np.ndarray) -> Examples:
        """Encode `a + b = ` with the lengths of each row, padded on the right; `a` and `b` are given units first."""
        n, width = a.shape
        column = np.arange(2 * width + AROUND)[None]
        a_end, b_start = a_length[:, None], a_length[:, None] + 3
        b_end = b_start + b_length[:, None]
        rows = np.arange(n)[:, None]
        source = np.full((n, column.shape[1]), self.vocabulary.pad)
        in_a, in_b = column < a_end, (column >= b_start) & (column < b_end)
        in_first, in_second = (
            (a_end - 1 - column, b_end - 1 - column) if self.operands_falling else (column, column - b_start)
        )
        source = np.where(in_a, a[rows, np.clip(in_first, 0, width - 1)], source)
        source = np.where(in_b, b[rows, np.clip(in_second, 0, width - 1)], source)
        for start, text in ((a_end, " + "), (b_end, " = ")):
            for offset, character in enumerate(text):
                source = np.where(column == start + offset, CHARACTERS.index(character), source)
        source = source[:, : int((a_length + b_length).max()) + AROUND]
        return Examples(source, self.answer(source))

    def numbers(self, source: Rows) -> tuple[Digits, Digits]:
        """Both operands, least significant digit first, in whichever order they are written."""
        return operands(source, 10, self.operands_falling)

    def answer(self, source: Rows) -> Int[np.ndarray, "batch answer"]:
        total, _ = add(*self.numbers(source), 10)
        count = digit_counts(total)
        width = int(count.max(initial=1)) + 1
        column = written_columns(count, width, self.falling)
        digits = np.take_along_axis(total, np.maximum(column, 0), axis=1)
        target = np.where(column >= 0, digits, self.vocabulary.pad)
        return np.where(np.arange(width) == count[:, None], EOS, target)

    def canonical(self, source: Rows) -> Keys:
        smaller, larger = (_without_leading_zeros(digits) for digits in order(*self.numbers(source)))
        between = np.full((len(source), 1), CHARACTERS.index("+"))
        return np.concatenate([smaller, between, larger], axis=1)

    def features(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        a, b = self.numbers(source)
        _, carries = add(a, b, 10)
        return {
            "characters": (source != self.vocabulary.pad).sum(1),
            "carries": carries.sum(1),
            "longest_chain": longest_chain(carries),
            "longest_ripple": longest_ripple(a, b, 10),
            "propagating_columns": propagates(a, b, 10).sum(1),
        }

    def at_length(self, length: int) -> "AdditionText":
        if length % 2 or length < SHORTEST:
            raise InputError(f"addition-text has no inputs of exactly {length} characters; an even number from 8 up")
        return AdditionText(replace(self.options, exact=length))

    def length_plan(self) -> LengthPlan:
        """Half, three quarters and all of the longest training input, then 2, 4 and 8 times it: 16 ... 256."""
        longest = 2 * self.longest + AROUND
        inside = {min(longest, max(SHORTEST_TESTED, longest * quarters // 8 * 2)) for quarters in (2, 3, 4)}
        longer = tuple(longest * times for times in (2, 4, 8))
        sets = ("sums", *FAMILIES)
        return LengthPlan("characters", "characters", sets, SHORTEST, longest, tuple(sorted(inside)), longer)

    def for_lengths(self, name: str, length: int) -> "AdditionText":
        """Random sums of exactly this length, or sums of a family of ripples with as many digits."""
        check_set(self.name, name, self.length_plan())
        exact = self.at_length(length)
        return exact if name not in FAMILIES else RippleSums(exact.options, name)

    def attack_families(self, length: int | None) -> Families:
        """Sums whose longer operand has as many digits as random sums of this length."""
        at = self if length is None else self.at_length(length)
        families = SumFamilies(at.longest, 10, True, lambda *numbers: at.encode(*numbers).source)
        return families.all(sources_of(at))

    def is_valid(self, source: Rows) -> Bool[np.ndarray, " batch"]:
        """Whether a row is `a + b = ` with numbers of at most `longest` digits and without leading zeros."""
        column, pad = np.arange(source.shape[1]), self.vocabulary.pad
        count = (source != pad).sum(1, keepdims=True)
        plus = np.argmax(source == CHARACTERS.index("+"), axis=1)[:, None]
        expected = np.where(column >= count, pad, -1)
        for place, character in zip((plus - 1, plus, plus + 1, count - 3, count - 2, count - 1), " +  = ", strict=True):
            expected = np.where(column == place, CHARACTERS.index(character), expected)
        fits = np.where(expected < 0, (source >= 0) & (source < 10), source == expected).all(1)
        for length, start in ((plus - 1, 0), (count - plus - 5, plus + 2)):
            top = start if self.operands_falling else start + length - 1
            leading = np.take_along_axis(source, np.clip(top, 0, len(column) - 1) + np.zeros_like(count), axis=1)
            fits = fits & ((length == 1) | ((length > 1) & (length <= self.longest) & (leading > 0)))[:, 0]
        return np.asarray(fits)

    def difficulty(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        """The length of the longest ripple, and of the longest one that no carry starts; -1 for the
        shorter of the two.
        """
        a, b = self.numbers(source)
        ripple, unstarted = longest_ripple(a, b, 10), longest_unstarted_ripple(a, b, 10)
        return {
            "longest_ripple": np.where(ripple >= unstarted, ripple, -1),
            "longest_unstarted_ripple": np.where(unstarted > ripple, unstarted, -1),
        }

    def test_lengths(self) -> tuple[int, ...]:
        return tuple(self.options.test_lengths)

    def widths(self) -> tuple[int, ...]:
        return 2 * self.longest + AROUND, self.longest + 2

    def longest_answer(self, source_width: int) -> int:
        return source_width - AROUND + 2

    def position_kinds(self) -> tuple[PositionKind, ...]:
        return ("index", "abacus") if self.falling else ("index", "coupled", "abacus")

    def no_positions_because(self, kind: PositionKind) -> str:
        return " while the answer is most-significant-first: its first digit's significance is not known in advance"

    def positions(
        self, kind: PositionKind, source: Int[Tensor, "batch position"], prefix: Int[Tensor, "batch prefix"] | None
    ) -> tuple[Int[Tensor, "#batch position"], Int[Tensor, "#batch prefix"] | None]:
        """Coupled positions: the significance of a digit, from 1; a prefix token has that of the digit to be generated
        next.

        Abacus: a digit's place in its number as written, from 1: its significance, as in the paper, where operands
        and answer have their least significant digit first. Everything else is at 0.
        """
        self.check_positions(kind)
        if kind == "index":
            return super().positions(kind, source, prefix)
        digit = source < 10
        step = None if prefix is None else torch.arange(prefix.shape[1], device=source.device)[None]
        from_left = kind == "abacus" or not self.operands_falling
        place = _count_from_last(digit) if from_left else _count_from_last(digit.flip(1)).flip(1)
        return place, step if step is None or kind == "abacus" else step + 1

    def parts(self, source: Rows, prefix: Prefix | None) -> dict[str, Part]:
        """Columns, operands, + and carries; the column of the first answer digit follows from the right answer's
        length.

        "95 + 7 = " makes 102: most significant first, BOS as a query stands for column 2.
        """
        count = digit_counts(add(*self.numbers(source), 10)[0])
        written = written_columns(count, 0 if prefix is None else prefix.shape[1], self.falling)
        return super().parts(source, prefix) | sum_parts(
            source, prefix, written, self.vocabulary, 10, self.operands_falling
        )

    def answer_names(self, width: int) -> list[str]:
        """`digit 0`, `digit 1`, ... from the left; `column 0`, `column 1`, ... where the units come first."""
        return [f"{'digit' if self.falling else 'column'} {index}" for index in range(width)]

    def contrasts(self, random: np.random.Generator, n: int) -> list[Contrast]:
        """Contrasts: a carry into each column from each column below, and the digits of each column, in sums without
        overflow.

        "126 + 137 = " and "121 + 137 = ": carry into column 1 from column 0, seen in the answers 263 and 258.
        """
        digits = min(CONTRAST_DIGITS, self.longest)
        lengths = np.full(n, digits)
        written = written_columns(lengths[:1], digits, self.falling)[0].tolist()
        pairs = SumPairs(digits, 10, lowest_top=int(digits > 1), overflow=False)
        return sum_contrasts(random, n, pairs, lambda a, b: self.encode(a, b, lengths, lengths), written)

    def simple_rules(self) -> tuple[SimpleRule, ...]:
        return sum_rules(self, 10, falling=self.falling, operands_falling=self.operands_falling)

    def with_other_parts(self, source: Rows) -> dict[str, Rows]:
        return other_operands(source, 10)

    def page(self) -> PageDescription:
        """Numbers vary in length, so there is no fixed number of digits."""
        return {
            "view": "sum",
            "base": 10,
            "digits": None,
            "falling": self.falling,
            "operands_falling": self.operands_falling,
            "leading_zeros": False,
        }

    def position_rule(self, kind: PositionKind) -> PositionRule:
        if kind == "index":
            return super().position_rule(kind)
        from_left = kind == "abacus" or not self.operands_falling
        return {"by": "digits", "from": "left" if from_left else "right", "answer": int(kind == "coupled")}

    def show(self, source: np.ndarray, target: Answer | None = None) -> str:
        text = self._text(source)
        return text if target is None else f"{text}-> {''.join(self.written(target))}"

    def _text(self, tokens: np.ndarray) -> str:
        return "".join(CHARACTERS[token] for token in tokens if token < len(CHARACTERS))

    def to_record(self, source: np.ndarray, target: Answer) -> JsonObject:
        return {"input": self._text(source), "target": self._text(target)}

    def from_record(self, record: JsonObject) -> tuple[list[int], list[int] | int]:
        text, target = record["input"], record["target"]
        if not isinstance(text, str):
            raise InputError(f"input is {text!r:.60}; a text needed")
        if not isinstance(target, str):
            raise InputError(f"target is {target!r:.60}; a text needed")
        match = INPUT.fullmatch(text)
        if match is None:
            raise InputError(f"input is {text!r:.60}; it must read like '123 + 456 = '")
        for number in match.groups():
            if not NUMBER.fullmatch(number if self.operands_falling else number[::-1]):
                end = "begins" if self.operands_falling else "is written least significant digit first and ends"
                raise InputError(f"operand {number:.60} {end} with 0")
        source = [CHARACTERS.index(character) for character in text]
        answer = self.answer(np.array([source]))[0].tolist()
        right = self._text(np.array(answer))
        if target != right:
            raise InputError(f"target {target!r:.60} is not the sum, which is {right!r:.60}")
        return source, answer


class RippleSums(AdditionText):
    """A family of `ripples` at a length: the longer operand has (length - 6) / 2 digits, as in random sums of that
    length.
    """

    def __init__(self, options: AdditionTextOptions, family: str):
        super().__init__(options)
        self.family = family

    def draw(self, random: np.random.Generator, n: int) -> Examples:
        return self.encode(*FAMILIES[self.family](random, n, self.longest, 10))


def _without_leading_zeros(digits: np.ndarray) -> np.ndarray:
    """Digits, least significant first, with -1 above each number's top digit."""
    below_top = np.maximum.accumulate((digits != 0)[:, ::-1], axis=1)[:, ::-1]
    return np.where(below_top, digits, -1)


def _count_from_last(digit: Tensor) -> Tensor:
    """For each digit, its index after the last non-digit, from 1; 0 for other tokens."""
    index = torch.arange(digit.shape[1], device=digit.device)[None]
    last = torch.where(digit, -1, index).cummax(dim=1).values
    return torch.where(digit, index - last, 0)
