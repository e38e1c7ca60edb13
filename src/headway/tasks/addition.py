"""Addition of two n-digit numbers at fixed width.

374 + 814  ->  source 3 7 4 + 8 1 4, target 1 1 8 8 EOS   (most significant digit first)
507 + 159  ->  source 5 0 7 + 1 5 9, target 0 6 6 6 EOS   (the sum is padded to n + 1 digits)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
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
    ChainSampler,
    add,
    longest_chain,
    longest_ripple,
    order,
    propagates,
    written_columns,
)
from headway.tasks.contrasts import SumPairs, sum_contrasts
from headway.tasks.descriptions import PageDescription, whole_numbers
from headway.tasks.examples import (
    Answer,
    Contrast,
    Examples,
    Keys,
    Part,
    PositionKind,
    Prefix,
    Rows,
    SimpleRule,
    Vocabulary,
)
from headway.tasks.parts import SUM_PARTS, sum_parts
from headway.tasks.sum_families import SumFamilies
from headway.tasks.sum_rules import other_operands, sum_rules

LARGEST_DOMAIN = 20_000_000
SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, kw_only=True)
class AdditionOptions:
    digits: int = setting(3, "digits of each operand", low=1, high=128)
    base: int = setting(10, "base of the numbers", low=2, high=256)
    order: Literal["most-significant-first", "least-significant-first"] = setting(
        "most-significant-first", "order in which the answer is written"
    )
    sampling: Literal["uniform", "carry-chains", "ripples"] = setting(
        "uniform",
        "uniform pairs, equally many of each longest carry chain, or a third of the columns sum to base - 1",
        formerly={"balanced": "carry-chains", "propagating": "ripples"},
    )
    swap: bool = setting(False, "augmentation: half of the training sums a + b become b + a")
    leading_zeros: bool = setting(False, "operands may begin with 0 (0-999 instead of 100-999)")


class Addition(Task):
    """Two numbers of equal width; the vocabulary is the digits, +, BOS, EOS and PAD."""

    name = "addition"
    Options = AdditionOptions
    kind = "sequence"
    PARTS = SUM_PARTS

    def __init__(self, options: AdditionOptions):
        super().__init__(options)
        self.base, self.digits = options.base, options.digits
        self.falling = options.order == "most-significant-first"
        digits = tuple(SYMBOLS[: self.base]) if self.base <= len(SYMBOLS) else tuple(map(str, range(self.base)))
        self.plus = self.base
        tokens = (*digits, "+", "BOS", "EOS", "PAD")
        self.vocabulary = Vocabulary(tokens, pad=self.base + 3, bos=self.base + 1, eos=self.base + 2)

    @cached_property
    def _chains(self) -> ChainSampler:
        return ChainSampler(self.digits, self.base, self.options.leading_zeros)

    def draw(self, random: np.random.Generator, n: int) -> Examples:
        if self.options.sampling == "carry-chains":
            return self._encode(*self._chains.draw(random, random.choice(self.groups(), size=n)))
        a, b = random.integers(0, self.base, size=(2, n, self.digits))
        if not self.options.leading_zeros:
            a[:, -1], b[:, -1] = random.integers(1, self.base, size=(2, n))
        if self.options.sampling == "ripples":
            a, b = self._propagate(random, a, b)
        return self._encode(a, b)

    def _propagate(self, random: np.random.Generator, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Make a third of the columns sum to base - 1, the columns through which a carry travels."""
        low = (
            np.zeros(self.digits, dtype=np.int64) if self.options.leading_zeros else np.eye(self.digits)[-1].astype(int)
        )
        possible = self.base - 1 - low >= low  # in base 2 two leading ones sum to 2
        chosen = (random.random(a.shape) < 1 / 3) & possible
        first = random.integers(low, np.where(possible, self.base - low, low + 1), size=a.shape)
        return np.where(chosen, first, a), np.where(chosen, self.base - 1 - first, b)

    def _encode(self, a: np.ndarray, b: np.ndarray) -> Examples:
        plus = np.full((len(a), 1), self.plus)
        source = np.concatenate([a[:, ::-1], plus, b[:, ::-1]], axis=1)
        return Examples(source, self.answer(source))

    def _operands(self, source: Rows) -> tuple[np.ndarray, np.ndarray]:
        return source[:, : self.digits][:, ::-1], source[:, self.digits + 1 :][:, ::-1]

    def answer(self, source: Rows) -> Int[np.ndarray, "batch answer"]:
        total, _ = add(*self._operands(source), self.base)
        if self.falling:
            total = total[:, ::-1]
        return np.concatenate([total, np.full((len(source), 1), self.vocabulary.eos)], axis=1)

    def canonical(self, source: Rows) -> Keys:
        return np.concatenate(order(*self._operands(source)), axis=1)

    def augmentations(self) -> Int[np.ndarray, "writing width"]:
        first, plus, second = np.split(np.arange(2 * self.digits + 1), [self.digits, self.digits + 1])
        swapped = [np.concatenate([second, plus, first])] if self.options.swap else []
        return np.stack([np.concatenate([first, plus, second]), *swapped])

    def features(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        a, b = self._operands(source)
        _, carries = add(a, b, self.base)
        return {
            "carries": carries.sum(1),
            "longest_chain": longest_chain(carries),
            "longest_ripple": longest_ripple(a, b, self.base),
            "carry_out": carries[:, -1].astype(np.int64),
            "propagating_columns": propagates(a, b, self.base).sum(1),
        }

    def strata(self, source: Rows) -> Int[np.ndarray, " batch"]:
        return (
            self.features(source)["longest_chain"]
            if self.options.sampling == "carry-chains"
            else super().strata(source)
        )

    def groups(self) -> tuple[int, ...]:
        return self._chains.lengths() if self.options.sampling == "carry-chains" else super().groups()

    def _operand_range(self) -> range:
        low = 0 if self.options.leading_zeros else self.base ** (self.digits - 1)
        return range(low, self.base**self.digits)

    def domain_size(self) -> int | None:
        operands = self._operand_range()
        size = (operands.stop - operands.start) ** 2  # len() cannot count past a machine word
        return size if size <= LARGEST_DOMAIN else None

    def domain(self, chunk: int = 8_192) -> Iterator[Examples]:
        size = self.domain_size()
        if size is None:
            yield from super().domain(chunk)
            return
        operands = self._operand_range()
        powers = self.base ** np.arange(self.digits)
        for start in range(0, size, chunk):
            a, b = np.divmod(np.arange(start, min(start + chunk, size)), len(operands))
            yield self._encode(*((x + operands.start)[:, None] // powers % self.base for x in (a, b)))

    def attack_families(self, length: int | None) -> Families:
        """Sums of the families in `sum_families`; operands of fewer digits only if leading zeros are allowed."""
        if length is not None:
            self.at_length(length)  # refuses any
        families = SumFamilies(
            self.digits, self.base, self.options.leading_zeros, lambda a, b, *_: self._encode(a, b).source
        )
        return families.all(sources_of(self))

    def is_valid(self, source: Rows) -> Bool[np.ndarray, " batch"]:
        if source.shape[1] < 2 * self.digits + 1:
            return np.zeros(len(source), dtype=bool)
        plus = np.arange(source.shape[1]) == self.digits
        after = np.arange(source.shape[1]) > 2 * self.digits
        fits = np.where(after, source == self.vocabulary.pad, np.where(plus, source == self.plus, source < self.base))
        leading = source[:, [0, self.digits + 1]]
        return np.asarray(fits.all(1) & ((leading > 0).all(1) | self.options.leading_zeros))

    def longest_answer(self, source_width: int) -> int:
        return self.digits + 2

    def position_kinds(self) -> tuple[PositionKind, ...]:
        return ("index", "coupled", "abacus")

    def positions(
        self, kind: PositionKind, source: Int[Tensor, "batch position"], prefix: Int[Tensor, "batch prefix"] | None
    ) -> tuple[Int[Tensor, "#batch position"], Int[Tensor, "#batch prefix"] | None]:
        """Coupled positions: the significance of a digit, from 1; a prefix token has that of the digit to be generated
        next.

        Abacus: a digit's place in its number as written, from 1. Everything else is at 0.
        """
        if kind == "index":
            return super().positions(kind, source, prefix)
        written = torch.arange(self.digits + 1, device=source.device)
        step = torch.arange(0 if prefix is None else prefix.shape[1], device=source.device)
        within = torch.where(written < self.digits, written + 1, 0)
        if kind == "coupled":
            within = torch.where(written < self.digits, self.digits - written, 0)
            step = (self.digits + 1 - step).clamp(min=0) if self.falling else step + 1
        return torch.cat([within, within[:-1]])[None], None if prefix is None else step[None]

    def parts(self, source: Rows, prefix: Prefix | None) -> dict[str, Part]:
        """Columns, operands, + and carries; `sum_parts` shows them for 3 7 4 + 8 1 4."""
        count = np.full(len(source), self.digits + 1)
        written = written_columns(count, 0 if prefix is None else prefix.shape[1], self.falling)
        return super().parts(source, prefix) | sum_parts(source, prefix, written, self.vocabulary, self.base)

    def _written(self) -> list[int]:
        """The columns of the sum in the order in which they are written."""
        return written_columns(np.array([self.digits + 1]), self.digits + 1, self.falling)[0].tolist()

    def answer_names(self, width: int) -> list[str]:
        """`column 3`, `column 2`, `column 1`, `column 0`, `end` for three digits, most significant first."""
        names = [*(f"column {column}" for column in self._written()), "end"]
        return names[:width] + super().answer_names(width)[len(names) :]

    def token_names(self, width: int) -> list[str]:
        """`a2`, `a1`, `a0`, `+`, `b2`, `b1`, `b0` for three digits."""
        first, second = ([f"{name}{column}" for column in reversed(range(self.digits))] for name in "ab")
        names = [*first, "+", *second]
        return names[:width] + super().token_names(width)[len(names) :]

    def contrasts(self, random: np.random.Generator, n: int) -> list[Contrast]:
        """Contrasts: a carry into each column from each column below it, and the digits of each column.

        126 + 137 and 121 + 137: carry into column 1 from column 0, seen in the answers 0263 and 0258.
        There are digits * (digits + 3) / 2 of them, so ask for fewer pairs of long numbers.
        """
        pairs = SumPairs(self.digits, self.base, lowest_top=0 if self.options.leading_zeros else 1, overflow=True)
        return sum_contrasts(random, n, pairs, self._encode, self._written())

    def simple_rules(self) -> tuple[SimpleRule, ...]:
        return sum_rules(self, self.base, falling=self.falling, operands_falling=True)

    def with_other_parts(self, source: Rows) -> dict[str, Rows]:
        return other_operands(source, self.base)

    def page(self) -> PageDescription:
        return {
            "view": "sum",
            "base": self.base,
            "digits": self.digits,
            "falling": self.falling,
            "operands_falling": True,
            "leading_zeros": self.options.leading_zeros,
        }

    def show(self, source: np.ndarray, target: Answer | None = None) -> str:
        text = " ".join(self.vocabulary.tokens[token] for token in source)
        if target is None:
            return text
        return f"{text} -> {' '.join(self.written(target))}"

    def to_record(self, source: np.ndarray, target: Answer) -> JsonObject:
        return {"input": source.tolist(), "target": target[:-1].tolist()}

    def from_record(self, record: JsonObject) -> tuple[list[int], list[int] | int]:
        source, target = (whole_numbers(record[key], key) for key in ("input", "target"))
        self.check_source(source)
        if source[self.digits] != self.plus:
            raise InputError(f"input[{self.digits}] is {source[self.digits]}; {self.plus} (+) needed")
        self._check_digits("input", source[: self.digits] + source[self.digits + 1 :])
        self._check_digits("target", target)
        if not self.options.leading_zeros and 0 in (source[0], source[self.digits + 1]):
            raise InputError("an operand begins with 0; set task.leading_zeros=true if that is meant")
        answer = self.answer(np.array([source]))[0].tolist()
        if target != answer[:-1]:
            raise InputError(f"target {target} is not the sum, which is {answer[:-1]}")
        return source, answer

    def check_source(self, source: list[int]) -> None:
        if len(source) != 2 * self.digits + 1:
            raise InputError(f"input has {len(source)} tokens; {2 * self.digits + 1} needed for digits = {self.digits}")

    def completed(self, answer: list[int]) -> list[int]:
        zeros = [0] * (self.digits + 1 - len(answer) if answer else 0)
        return zeros + answer if self.falling else answer + zeros

    def _check_digits(self, key: str, digits: list[int]) -> None:
        for digit in digits:
            if not 0 <= digit < self.base:
                raise InputError(f"{key} holds {digit}; digits lie in 0..{self.base - 1}")
