"""Column arithmetic on rows of digits, least significant column first; all addition tasks use it."""

import numpy as np
from jaxtyping import Bool, Int

Digits = Int[np.ndarray, "batch column"]
Carries = Bool[np.ndarray, "batch column"]


def add(a: Digits, b: Digits, base: int) -> tuple[Int[np.ndarray, "batch column+1"], Carries]:
    """Digits of a + b (one column more) and whether each column carries out.

    >>> digits, carries = add(np.array([[4, 7, 3]]), np.array([[4, 1, 8]]), 10)   # 374 + 814
    >>> digits.tolist(), carries.tolist()
    ([[8, 8, 1, 1]], [[False, False, True]])
    """
    n, width = a.shape
    total = np.zeros((n, width + 1), dtype=np.int64)
    carries = np.zeros((n, width), dtype=bool)
    carry = np.zeros(n, dtype=np.int64)
    for column in range(width):
        value = a[:, column] + b[:, column] + carry
        carries[:, column] = value >= base
        carry = carries[:, column].astype(np.int64)
        total[:, column] = value - base * carry
    total[:, width] = carry
    return total, carries


def longest_chain(carries: Carries) -> Int[np.ndarray, " batch"]:
    """The largest number of neighbouring columns that all carry out: 555 + 555 has 3, 505 + 505 has 1.

    Each of those columns may carry by itself, so a long chain need not be hard; see `longest_ripple`.
    """
    run = np.zeros(len(carries), dtype=np.int64)
    longest = run.copy()
    for column in carries.T:
        run = np.where(column, run + 1, 0)
        longest = np.maximum(longest, run)
    return longest


def propagates(a: Digits, b: Digits, base: int) -> Carries:
    """Whether each column's digits sum to base - 1; such a column carries out exactly if a carry comes in.

    >>> propagates(np.array([[4, 6, 3]]), np.array([[9, 3, 8]]), 10).tolist()   # 364 + 839
    [[False, True, False]]
    """
    return a + b == base - 1


def longest_ripple(a: Digits, b: Digits, base: int) -> Int[np.ndarray, " batch"]:
    """The length of the longest ripple: neighbouring columns that sum to base - 1 and receive a carry.

    364 + 839 has 1 (4 + 9 starts a carry, 6 + 3 passes it on). 555 + 555 has 0: every column carries by itself.

    >>> longest_ripple(np.array([[4, 6, 3], [5, 5, 5], [1, 9, 9]]), np.array([[9, 3, 8], [5, 5, 5], [9, 0, 0]]), 10)
    array([1, 0, 2])
    """
    return longest_chain(propagates(a, b, base) & add(a, b, base)[1])


def longest_unstarted_ripple(a: Digits, b: Digits, base: int) -> Int[np.ndarray, " batch"]:
    """The most neighbouring columns that sum to base - 1 without a carry coming in: 361 + 832 has 1, 364 + 839 has
    0.
    """
    return longest_chain(propagates(a, b, base) & ~add(a, b, base)[1])


def lowest_origins(a: Digits, b: Digits, base: int) -> Int[np.ndarray, "batch column+1"]:
    """For each column of the sum, the lowest column from which a carry can reach it; 0 for the units.

    >>> lowest_origins(np.array([[4, 6, 3]]), np.array([[9, 3, 8]]), 10).tolist()   # 364 + 839: the tens sum to 9
    [[0, 0, 0, 2]]
    """
    stops = np.where(propagates(a, b, base), 0, np.arange(a.shape[1]))
    return np.pad(np.maximum.accumulate(stops, axis=1), ((0, 0), (1, 0)))


def carry_into(a: Digits, b: Digits, base: int, column: int) -> Int[np.ndarray, " batch"]:
    """Whether the columns below carry into the given one, as 0 or 1: for 364 + 839 it is 1 in columns 1, 2 and 3."""
    return add(a[:, :column], b[:, :column], base)[0][:, -1]


def order(a: Digits, b: Digits) -> tuple[Digits, Digits]:
    """The smaller and the larger of each pair, so that a + b and b + a become one problem."""
    apart = a[:, ::-1] != b[:, ::-1]
    first = a.shape[1] - 1 - apart.argmax(1)
    rows = np.arange(len(a))
    swap = (a[rows, first] > b[rows, first])[:, None]
    return np.where(swap, b, a), np.where(swap, a, b)


def digit_columns(
    source: Int[np.ndarray, "batch width"], base: int, falling: bool = True
) -> Int[np.ndarray, "batch width"]:
    """The column of each digit in its number, 0 for the units; -1 for tokens that are not digits.

    Numbers are `falling` where they are written most significant digit first.

    >>> digit_columns(np.array([[3, 7, 4, 10, 8, 1, 4]]), 10).tolist()   # 374 + 814
    [[2, 1, 0, -1, 2, 1, 0]]
    >>> digit_columns(np.array([[4, 7, 3, 10, 4, 1, 8]]), 10, falling=False).tolist()   # the same, units first
    [[0, 1, 2, -1, 0, 1, 2]]
    """
    width = source.shape[1]
    digit, index = source < base, np.arange(width)
    if not falling:
        last = np.maximum.accumulate(np.where(digit, -1, index), axis=1)
        return np.where(digit, index - last - 1, -1)
    end = np.minimum.accumulate(np.where(digit, width, index)[:, ::-1], axis=1)[:, ::-1]
    return np.where(digit, end - index - 1, -1)


def operands(source: Int[np.ndarray, "batch width"], base: int, falling: bool = True) -> tuple[Digits, Digits]:
    """Both operands of rows in which + is the token `base`, least significant digit first, padded with zeros.

    >>> [number.tolist() for number in operands(np.array([[9, 5, 10, 7]]), 10)]   # 95 + 7
    [[[5, 9]], [[7, 0]]]
    >>> [number.tolist() for number in operands(np.array([[5, 9, 10, 7]]), 10, falling=False)]   # 95 + 7, units first
    [[[5, 9]], [[7, 0]]]
    """
    column = digit_columns(source, base, falling)
    numbers = np.zeros((2, len(source), int(column.max(initial=0)) + 1), dtype=np.int64)
    rows, places = np.nonzero(column >= 0)
    second = (np.cumsum(source == base, axis=1) > 0).astype(np.int64)
    numbers[second[rows, places], rows, column[rows, places]] = source[rows, places]
    return numbers[0], numbers[1]


def digit_counts(number: Digits) -> Int[np.ndarray, " batch"]:
    """The number of digits without leading zeros; 0 has one: 1188 has four, 0012 two, 0000 one."""
    return (np.arange(1, number.shape[1] + 1) * (number != 0)).max(axis=1, initial=1)


def written_columns(count: Int[np.ndarray, " batch"], width: int, falling: bool) -> Int[np.ndarray, "batch {width}"]:
    """The column of each of the first `width` tokens of an answer with `count` digits; -1 after its last digit.

    >>> written_columns(np.array([4, 2]), 5, falling=True).tolist()
    [[3, 2, 1, 0, -1], [1, 0, -1, -1, -1]]
    >>> written_columns(np.array([4, 2]), 5, falling=False).tolist()
    [[0, 1, 2, 3, -1], [0, 1, -1, -1, -1]]
    """
    step = np.arange(width)[None]
    column = count[:, None] - 1 - step if falling else step
    return np.where(step < count[:, None], column, -1)


class ChainSampler:
    """Draws pairs of numbers with a given longest carry chain, uniformly among all such pairs.

    Digits are chosen column by column. `_odds[k][column, run, reached]` is the chance that columns drawn
    freely from here on end with a longest chain of exactly k, when the last `run` columns carried and
    `reached` says whether a chain of k was seen; choosing carry or no carry by these odds is exact.
    """

    def __init__(self, width: int, base: int, leading_zeros: bool):
        self.width, self.base = width, base
        self._pairs = [self._column_pairs(leading_zeros or column < width - 1) for column in range(width)]
        self._shares = np.array(
            [[[self._share(column, c, o) for o in (0, 1)] for c in (0, 1)] for column in range(width)]
        )
        self._odds = [self._chain_odds(k) for k in range(width + 1)]

    def lengths(self) -> tuple[int, ...]:
        """The possible lengths of the longest chain."""
        return tuple(k for k in range(self.width + 1) if self._odds[k][0, 0, int(k == 0)] > 0)

    def draw(self, random: np.random.Generator, chains: Int[np.ndarray, " batch"]) -> tuple[Digits, Digits]:
        """One pair per row, whose longest chain is given in `chains`."""
        a, b = np.zeros((2, len(chains), self.width), dtype=np.int64)
        for k in np.unique(chains):
            rows = np.flatnonzero(chains == k)
            a[rows], b[rows] = self._draw_one_length(random, int(k), len(rows))
        return a, b

    def _column_pairs(self, zero_allowed: bool) -> list[list[np.ndarray]]:
        """`[carry in][carry out]` -> the digit pairs of a column that turn the first into the second."""
        low = 0 if zero_allowed else 1
        digits = np.arange(low, self.base)
        a, b = (grid.ravel() for grid in np.meshgrid(digits, digits, indexing="ij"))
        pairs = np.stack([a, b], axis=1)
        return [[pairs[(a + b + carry >= self.base) == out] for out in (False, True)] for carry in (0, 1)]

    def _share(self, column: int, carry: int, out: int) -> float:
        pairs = self._pairs[column][carry]
        return len(pairs[out]) / (len(pairs[0]) + len(pairs[1]))

    def _chain_odds(self, k: int) -> np.ndarray:
        odds = np.zeros((self.width + 1, k + 2, 2))
        odds[self.width, : k + 1, 1] = 1
        for column in reversed(range(self.width)):
            for run in range(k + 1):
                for reached in (0, 1):
                    share = self._shares[column, int(run > 0)]
                    stop = share[0] * odds[column + 1, 0, reached]
                    continue_from = int(reached or run + 1 == k)
                    go = share[1] * odds[column + 1, run + 1, continue_from]
                    odds[column, run, reached] = stop + go
        return odds

    def _draw_one_length(self, random: np.random.Generator, k: int, n: int) -> tuple[Digits, Digits]:
        a, b = np.zeros((2, n, self.width), dtype=np.int64)
        run = np.zeros(n, dtype=np.int64)
        reached = np.full(n, int(k == 0))
        for column in range(self.width):
            odds = self._odds[k][column + 1]
            share = self._shares[column]
            carry = (run > 0).astype(np.int64)
            reached_on = np.maximum(reached, (run + 1 == k).astype(np.int64))
            stop = share[carry, 0] * odds[0, reached]
            go = share[carry, 1] * odds[run + 1, reached_on]
            out = (random.random(n) * (stop + go) >= stop).astype(np.int64)
            for c in (0, 1):
                for o in (0, 1):
                    rows = np.flatnonzero((carry == c) & (out == o))
                    pairs = self._pairs[column][c][o]
                    if len(rows):
                        a[rows, column], b[rows, column] = pairs[random.integers(len(pairs), size=len(rows))].T
            reached = np.where(out == 1, reached_on, reached)
            run = np.where(out == 1, run + 1, 0)
        return a, b
