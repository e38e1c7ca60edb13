"""Sets of heads: exact games against brute force, elimination and pairs on games whose outcome is known."""

from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.batches import make_batch
from headway.head_analysis import joint_ablation
from headway.head_analysis.handles import intervene
from headway.head_analysis.head_runs import TrainedRuns, heads_in
from headway.head_analysis.joint_ablation import (
    LIMITS,
    _smallest,
    all_subsets,
    eliminate,
    largest_removable,
    measure_pairs,
    shapley,
    shapley_exact,
    shapley_sampled,
    shapley_values,
    which_pairs,
)
from headway.head_analysis.variants import Outcomes
from headway.model.sites import Head, HeadSite
from headway.results.joint_ablation import Pairs
from headway.statistics import holm, mcnemar, wilson_interval
from headway.tasks import Examples
from tests.head_analysis.small import ADDITION, SORTEDNESS, half_trained, untrained

Rule = Callable[[np.ndarray], np.ndarray]
"""Which heads are there -> which examples are right."""


def named(count: int, site: str = "encoder.0.self") -> list[Head]:
    return [Head(site, index) for index in range(count)]


class Game:
    """Runs whose outcomes follow a rule; it counts the variants it was asked for."""

    seed, largest_change = 0, None

    def __init__(self, rule: Rule, heads: Sequence[Head], n: int, loss: Rule | None = None):
        self.rule, self.heads, self.n, self.loss = rule, list(heads), n, loss
        names = dict.fromkeys(head.site for head in heads)
        self.sites = [HeadSite(name, tuple(h.index for h in heads if h.site == name)) for name in names]
        self.asked = 0

    def __len__(self) -> int:
        return self.n

    def take(self, rows: Any) -> "Game":
        raise AssertionError("no part of a game is played")

    def without_source(self) -> int:
        return 0

    def answer_names(self, width: int) -> list[str]:
        return [str(place) for place in range(width)]

    def run(
        self, plan: np.ndarray, kinds: Any = ("zero",), progress: Any = None, *, keep_margin: bool = False
    ) -> Outcomes:
        assert set(np.unique(plan)) <= {0, 1} and tuple(kinds) == ("zero",)
        self.asked += len(plan)
        right = np.stack([self.rule(row == 0) for row in plan])
        lost = (~right).astype(np.float32) if self.loss is None else np.stack([self.loss(row == 0) for row in plan])
        return Outcomes(right, right[:, :, None], lost.astype(np.float32), np.ones((right.shape[1], 1), dtype=bool))


def additive(costs: Sequence[int], n: int = 100) -> Game:
    """Each head is needed for examples of its own, as many as it costs."""
    owner = np.repeat(np.arange(len(costs)), costs)

    def rule(there: np.ndarray) -> np.ndarray:
        right = np.ones(n, dtype=bool)
        right[: len(owner)] = there[owner]
        return right

    return Game(rule, named(len(costs)), n)


def backed_up(n: int = 100, *, blocking: int = 20) -> Game:
    """Heads 0 and 1 do the same 30 examples, head 2 has 10 of its own, head 3 none; heads 4 and 5 each block others."""

    def rule(there: np.ndarray) -> np.ndarray:
        right = np.ones(n, dtype=bool)
        right[:30] = there[0] | there[1]
        right[30:40] = there[2]
        right[40 : 40 + blocking] = ~(there[4] | there[5])
        return right

    return Game(rule, named(6), n)


def drops_of(game: Game) -> dict[str, float]:
    """What each head costs alone, in points."""
    eye = np.eye(len(game.heads), dtype=bool)
    before = game.rule(np.ones(len(game.heads), dtype=bool)).sum()
    n = len(game)
    return {str(head): 100 * float(before - game.rule(~eye[i]).sum()) / n for i, head in enumerate(game.heads)}


# Shapley values


def brute_force(value: dict[frozenset[int], np.ndarray], size: int) -> np.ndarray:
    """The mean over all orders of what each player adds when it comes."""
    total = np.zeros((size, len(next(iter(value.values())))))
    orders = list(permutations(range(size)))
    for order in orders:
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            total[player] += value[before | {player}] - value[before]
    return total / len(orders)


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 10_000))
def test_shapley_values_are_the_mean_over_all_orders(size: int, examples: int, seed: int) -> None:
    subsets = all_subsets(size)
    values = np.random.default_rng(seed).normal(size=(len(subsets), examples))
    game = {frozenset(np.flatnonzero(row).tolist()): values[index] for index, row in enumerate(subsets)}
    found = shapley_values(subsets, values)
    np.testing.assert_allclose(found, brute_force(game, size), rtol=0, atol=1e-12)
    # Efficiency: they share out what everyone together brings.
    np.testing.assert_allclose(found.sum(0), values[-1] - values[0], rtol=0, atol=1e-12)


@given(st.integers(2, 5), st.integers(0, 10_000))
def test_equal_players_get_the_same_and_one_that_does_nothing_gets_nothing(size: int, seed: int) -> None:
    subsets = all_subsets(size)
    by_count = np.random.default_rng(seed).normal(size=size)
    value = by_count[subsets[:, : size - 1].sum(1)][:, None]  # the last player changes nothing, the others are alike
    found = shapley_values(subsets, value)[:, 0]
    np.testing.assert_allclose(found[:-1], (by_count[-1] - by_count[0]) / (size - 1), rtol=0, atol=1e-12)
    assert found[-1] == pytest.approx(0, abs=1e-12)


@given(st.integers(0, 6))
def test_all_subsets_are_there_once_and_row_i_holds_the_bits_of_i(size: int) -> None:
    subsets = all_subsets(size)
    assert subsets.shape == (2**size, size)
    assert subsets.dtype == bool
    numbers = [sum(1 << place for place, inside in enumerate(row) if inside) for row in subsets.tolist()]
    assert numbers == list(range(2**size))


def test_exact_values_of_an_additive_game_are_what_each_head_costs() -> None:
    game = additive([0, 1, 3, 20])
    found = shapley_exact(game, game.heads)
    assert (found.exact, found.subsets, found.n) == (True, 16, 100)
    assert [row.head for row in found.values] == [str(head) for head in game.heads]
    assert [row.value for row in found.values] == pytest.approx([0, 1, 3, 20])
    # A share of 20 in 100 has a standard error of 4.02 points (divisor n - 1).
    assert found.values[3].error == pytest.approx(100 * (0.2 * 0.8 / 99) ** 0.5)
    assert found.values[0].error == 0
    # The example that needs head 1 is among those that choose; the drop is measured on the other fifty.
    smallest = found.smallest_sufficient
    assert smallest.heads == ("enc0.self.h1", "enc0.self.h2", "enc0.self.h3")
    assert (smallest.accuracy, smallest.drop) == (1.0, 0.0)
    assert smallest.interval == wilson_interval(50, 50)


def test_the_smallest_sufficient_set_is_chosen_on_other_examples_than_it_is_reported_on() -> None:
    """Heads 0 and 1 serve the even examples alone, which choose; the odd ones, which are reported, need head 2."""
    players = additive([0, 0, 0]).heads
    subsets = all_subsets(3)
    right = np.ones((8, 100), dtype=bool)
    right[:, ::2] = subsets[:, :1]
    right[:, 1::2] = subsets[:, 2:]
    outcomes = Outcomes(right, right[:, :, None], np.zeros((8, 100), dtype=np.float32), np.ones((100, 1), dtype=bool))
    found = _smallest(players, subsets, outcomes, None)
    assert found.heads == (str(players[0]),)
    assert (found.accuracy, found.drop) == (0.0, 100.0)


def test_players_that_are_some_of_the_heads_leave_the_others_in_place() -> None:
    game = backed_up()
    found = shapley_exact(game, [game.heads[1], game.heads[4]])
    # Head 0 still backs up head 1; head 4 alone blocks nothing that head 5 does not block.
    assert [row.value for row in found.values] == [0, 0]
    assert found.smallest_sufficient.heads == ()
    pair = shapley_exact(game, [game.heads[0], game.heads[1]])
    assert [row.value for row in pair.values] == pytest.approx([15, 15])
    assert len(pair.smallest_sufficient.heads) == 1


def random_game(seed: int, size: int, n: int) -> Game:
    """Every example needs one of two random sets of heads."""
    random = np.random.default_rng(seed)
    needs = random.random((n, 2, size)) < 0.4

    def rule(there: np.ndarray) -> np.ndarray:
        return (~needs | there).all(2).any(1)

    return Game(rule, named(size), n)


@pytest.mark.parametrize("seed", range(4))
def test_sampled_values_lie_within_their_errors_of_the_exact_ones(seed: int) -> None:
    game = random_game(seed, 6, 300)
    exact = np.array([row.value for row in shapley_exact(game, game.heads).values])
    apart, errors = [], []
    for draw in range(12):
        found = shapley_sampled(game, game.heads, 20, np.random.default_rng([seed, draw]))
        assert (found.exact, found.permutations, found.n) == (False, 20, 300)
        values = np.array([row.value for row in found.values])
        # Every order shares out the same total.
        assert values.sum() == pytest.approx(exact.sum())
        errors.append([row.error for row in found.values])
        apart.append((values - exact) / errors[-1])
    # The errors also allow for other examples, and these are the same: so less than one error apart on average.
    assert np.sqrt(np.mean(np.square(apart))) < 1
    assert np.abs(apart).max() < 4
    assert 0 < np.min(errors) <= np.max(errors) < 8


def test_more_orders_bring_sampled_values_closer() -> None:
    game = random_game(9, 6, 200)
    exact = np.array([row.value for row in shapley_exact(game, game.heads).values])

    def off(orders: int) -> float:
        found = shapley_sampled(game, game.heads, orders, np.random.default_rng(0))
        return float(np.abs([row.value for row in found.values] - exact).max())

    assert off(2_000) < 0.5 < off(4)


def test_sampling_an_additive_game_is_exact_and_its_error_is_that_of_the_examples() -> None:
    game = additive([0, 2, 5, 11])
    exact, sampled = (
        shapley_exact(game, game.heads),
        shapley_sampled(game, game.heads, 6, np.random.default_rng(1)),
    )
    for one, other in zip(exact.values, sampled.values, strict=True):
        assert (one.value, one.error) == pytest.approx((other.value, other.error), abs=1e-9)


def test_a_set_of_heads_is_run_once_however_many_orders_pass_through_it() -> None:
    game = additive([1, 2, 3])
    found = shapley_sampled(game, game.heads, 50, np.random.default_rng(0))
    assert found.subsets == game.asked == 8


def test_the_errors_of_sampled_values_cover_other_examples_too() -> None:
    """Over many samples of examples the spread of the values is what the errors say, within a third."""
    values, errors = [], []
    for draw in range(60):
        game = random_game(100 + draw, 5, 150)
        found = shapley_sampled(game, game.heads, 10, np.random.default_rng(draw))
        values.append([row.value for row in found.values])
        errors.append([row.error for row in found.values])
    spread = np.std(values, axis=0, ddof=1).mean()
    assert spread == pytest.approx(float(np.sqrt(np.mean(np.square(errors)))), rel=0.33)


@pytest.mark.parametrize("asked", [4, 7, 10])
def test_the_error_of_sampled_values_counts_an_order_and_its_reverse_once(asked: int) -> None:
    """By hand: the variance of the means of two orders over their number, and that of examples over theirs."""
    game, size, n = random_game(5, 4, 90), 4, 90
    found = shapley_sampled(game, game.heads, asked, np.random.default_rng(2))
    draws = np.random.default_rng(2)
    pairs = []
    for _ in range(asked // 2):
        order = draws.permutation(size).tolist()
        gains = np.zeros((2, size, n))
        for way, players in enumerate((order, order[::-1])):
            for place, player in enumerate(players):
                without, there = (np.isin(np.arange(size), players[:count]) for count in (place, place + 1))
                gains[way, player] = game.rule(there) * 1.0 - game.rule(without)
        pairs.append(gains.mean(0))
    by_pair, by_example = np.array(pairs).mean(2), np.mean(pairs, axis=0)
    wanted = by_pair.var(0, ddof=1) / (asked // 2) + by_example.var(1, ddof=1) / n
    assert found.permutations == 2 * (asked // 2)
    assert [row.value for row in found.values] == pytest.approx(100 * by_pair.mean(0))
    assert [row.error for row in found.values] == pytest.approx(100 * np.sqrt(wanted))


def test_few_heads_are_exact_and_many_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    game = additive([1, 2, 3])
    monkeypatch.setattr(joint_ablation, "EXACT_HEADS", 3)
    random = np.random.default_rng(0)
    assert shapley(game, game.heads, 4, random, lambda done, total: None).exact
    monkeypatch.setattr(joint_ablation, "EXACT_HEADS", 2)
    assert not shapley(game, game.heads, 4, random, lambda done, total: None).exact


# Elimination


def test_elimination_of_an_additive_game_takes_the_cheapest_first_and_keeps_its_promise() -> None:
    costs = [8, 0, 3, 1, 20]
    game = additive(costs)
    found = eliminate(game, game, drops_of(game))
    steps = found.elimination.steps
    assert [step.left for step in steps] == [5, 4, 3, 2, 1, 0]
    assert [step.removed for step in steps] == [None, *(f"enc0.self.h{index}" for index in (1, 3, 2, 0, 4))]
    assert [step.drop for step in steps] == pytest.approx([0, 0, 1, 4, 12, 32])
    assert [step.sum_of_single_drops for step in steps] == pytest.approx([0, 0, 1, 4, 12, 32])
    assert [step.accuracy_when_chosen for step in steps] == [step.accuracy for step in steps]
    assert [step.accuracy for step in steps] == pytest.approx([1, 1, 0.99, 0.96, 0.88, 0.68])
    for step in steps:
        assert step.interval[0] <= step.accuracy <= step.interval[1]
        assert step.drop_interval[0] <= step.drop <= step.drop_interval[1]
    one, five = found.removable
    assert [one.limit, five.limit] == list(LIMITS) == [1, 5]
    assert one.heads == ("enc0.self.h1",)  # the next costs exactly a point, which is not under it
    assert one.alone_under_limit.heads == one.adding_up.heads == one.heads
    assert five.heads == ("enc0.self.h1", "enc0.self.h3", "enc0.self.h2")
    assert (five.drop, five.sum_of_single_drops) == pytest.approx((4, 4))
    # One at a time 0, 1 and 3 are under five points, and they cost together what they cost apart.
    assert set(five.alone_under_limit.heads) == {f"enc0.self.h{index}" for index in (1, 2, 3)}
    assert five.alone_under_limit.drop == pytest.approx(4)
    assert set(five.adding_up.heads) == set(five.heads)
    assert found.sufficient.heads == ("enc0.self.h0", "enc0.self.h2", "enc0.self.h3", "enc0.self.h4")
    assert found.sufficient.accuracy == 1


def test_a_redundant_pair_looks_removable_one_at_a_time_and_is_not_together() -> None:
    game = backed_up(blocking=0)
    found = eliminate(game, game, drops_of(game))
    one = found.removable[0]
    pair, free = {"enc0.self.h0", "enc0.self.h1"}, {"enc0.self.h3", "enc0.self.h4", "enc0.self.h5"}
    assert len(pair & set(one.heads)) == 1
    assert set(one.heads) - pair == free
    assert one.drop == 0
    alone = one.alone_under_limit
    assert set(alone.heads) == pair | free
    assert alone.drop == pytest.approx(30)
    # Their single drops add up to nothing, and so adding up promises the same set.
    assert set(one.adding_up.heads) == pair | free
    assert one.adding_up.drop == pytest.approx(30)
    assert set(found.sufficient.heads) == {"enc0.self.h2"} | pair - set(one.heads)
    last = found.elimination.steps[-1]
    assert (last.drop, last.sum_of_single_drops) == pytest.approx((40, 10))


def test_the_largest_set_under_the_limit_counts_even_after_a_dip() -> None:
    """Either head alone costs 8 points, both together none: each spoils what the other does."""

    def rule(there: np.ndarray) -> np.ndarray:
        return np.arange(100) >= (8 if there[0] != there[1] else 0)

    game = Game(rule, named(2), 100)
    found = eliminate(game, game, drops_of(game))
    assert [step.drop for step in found.elimination.steps] == pytest.approx([0, 8, 0])
    assert [len(row.heads) for row in found.removable] == [2, 2]
    assert found.removable[0].sum_of_single_drops == pytest.approx(16)
    assert found.removable[0].adding_up.heads == ()
    assert found.sufficient.heads == ()


def test_equal_accuracies_are_told_apart_by_the_loss() -> None:
    costs = np.array([3.0, 1.0, 2.0])
    game = Game(
        lambda there: np.ones(10, dtype=bool), named(3), 10, loss=lambda there: np.full(10, (costs * ~there).sum())
    )
    found = eliminate(game, game, dict.fromkeys(map(str, game.heads), 0.0))
    removed = [step.removed for step in found.elimination.steps[1:]]
    assert removed == ["enc0.self.h1", "enc0.self.h2", "enc0.self.h0"]


def test_accuracy_comes_before_the_loss_in_the_order_of_removal() -> None:
    """Head 0 costs an example and no loss, head 1 three examples and little loss, head 2 no example and most loss."""
    costs, losses = np.array([1, 3, 0]), np.array([0.0, 0.5, 9.0])
    owner = np.repeat(np.arange(3), costs)

    def rule(there: np.ndarray) -> np.ndarray:
        return np.append(there[owner], np.ones(6, dtype=bool))

    game = Game(rule, named(3), 10, loss=lambda there: np.full(10, (losses * ~there).sum()))
    found = eliminate(game, game, drops_of(game))
    assert [step.removed for step in found.elimination.steps[1:]] == ["enc0.self.h2", "enc0.self.h0", "enc0.self.h1"]


def test_the_order_is_found_on_some_examples_and_the_curve_reported_on_others() -> None:
    chosen_on, reported_on = additive([1, 2, 3], n=100), additive([9, 0, 5], n=50)
    found = eliminate(chosen_on, reported_on, {"enc0.self.h0": 7.0, "enc0.self.h1": 0.5, "enc0.self.h2": 0.1})
    steps = found.elimination.steps
    assert (found.elimination.n_chosen_on, found.elimination.n_reported_on) == (100, 50)
    assert [step.removed for step in steps[1:]] == ["enc0.self.h0", "enc0.self.h1", "enc0.self.h2"]
    assert [step.accuracy_when_chosen for step in steps] == pytest.approx([1, 0.99, 0.97, 0.94])
    assert [step.accuracy for step in steps] == pytest.approx([1, 0.82, 0.82, 0.72])
    assert [step.drop for step in steps] == pytest.approx([0, 18, 18, 28])
    assert [step.sum_of_single_drops for step in steps] == pytest.approx([0, 7, 7.5, 7.6])
    five = found.removable[1]
    assert (five.heads, five.drop) == (("enc0.self.h0", "enc0.self.h1"), pytest.approx(18))
    assert five.alone_under_limit.heads == ("enc0.self.h1", "enc0.self.h2")
    assert five.alone_under_limit.drop == pytest.approx(10)
    assert five.adding_up.heads == ("enc0.self.h2", "enc0.self.h1")


@given(st.integers(2, 100), st.integers(2, 100))
def test_a_drop_of_exactly_the_limit_is_not_under_it(right: int, points: int) -> None:
    """29 of 100 to 28 of 100 is a point, though 0.29 - 0.28 is less than 0.01 to a computer."""
    points = min(points, right)

    def rule(there: np.ndarray) -> np.ndarray:
        return np.arange(100) < right - (0 if there.all() else points)

    game = Game(rule, named(1), 100)
    assert largest_removable(game, float(points)) == []
    assert largest_removable(game, points + 0.5) == game.heads
    one, five = eliminate(game, game, drops_of(game)).removable
    assert (len(one.heads), len(five.heads)) == (points < 1, points < 5)


def test_the_largest_removable_set_stays_under_its_limit() -> None:
    game = additive([8, 0, 3, 1, 20])
    for limit, count in ((0.5, 1), (1, 1), (1.5, 2), (4, 2), (4.5, 3), (12.5, 4), (32, 4), (33, 5)):
        told: list[tuple[int, int]] = []
        gone = largest_removable(game, limit, lambda done, total, told=told: told.append((done, total)))
        assert [head.index for head in gone] == [1, 3, 2, 0, 4][:count]
        assert told == [(done, 5) for done in range(1, 6)]


def test_elimination_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    game = additive([1, 2, 3])
    eliminate(game, game, drops_of(game), lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


# Pairs


def test_a_pair_that_backs_each_other_up_and_one_that_blocks_are_found() -> None:
    game = backed_up()
    found = measure_pairs(game)
    assert (found.n, found.tested, len(found.pairs)) == (100, 15, 15)
    backup, blocking = found.pairs[:2]
    assert backup.heads == ("enc0.self.h0", "enc0.self.h1")
    assert (backup.alone, backup.together) == ((0, 0), pytest.approx(30))
    assert backup.interaction == pytest.approx(30)
    assert backup.interval[0] > 0
    assert backup.verdict_together == "critical"
    assert blocking.heads == ("enc0.self.h4", "enc0.self.h5")
    assert (blocking.interaction, blocking.together) == pytest.approx((-20, -20))
    assert blocking.interval[1] < 0
    assert blocking.verdict_together == "harmful"
    for pair in found.pairs[2:]:
        assert pair.interaction == 0
        assert pair.p_holm == 1
    p = holm([*mcnemar(np.array([30, 0]), np.array([0, 20])), *[1.0] * 13])
    assert (backup.p_holm, blocking.p_holm) == pytest.approx((p[0], p[1]))


def test_single_drops_that_overlap_interact_negatively() -> None:
    """Two heads that are both needed for the same 12 examples cost no more together than one alone."""

    def rule(there: np.ndarray) -> np.ndarray:
        return (np.arange(60) >= 12) | (there[0] & there[1])

    (pair,) = measure_pairs(Game(rule, named(2), 60)).pairs
    assert (pair.alone, pair.together) == (pytest.approx((20, 20)), pytest.approx(20))
    assert pair.interaction == pytest.approx(-20)
    assert pair.p_holm == pytest.approx(2 * 0.5**12)


def test_what_is_tested_is_the_mean_that_is_reported() -> None:
    """Eight interactions of +2 and sixteen of -1: the mean is 0, though twice as many speak against as for."""

    def rule(there: np.ndarray) -> np.ndarray:
        which = np.arange(100)
        mended_by_either = ~(there[0] & there[1]) & (there[0] | there[1])
        needs_both = there[0] & there[1]
        return np.where(which < 8, mended_by_either, np.where(which < 24, needs_both, True))

    (pair,) = measure_pairs(Game(rule, named(2), 100)).pairs
    assert pair.interaction == pytest.approx(0)
    assert pair.interval[0] < 0 < pair.interval[1]
    assert pair.p_holm == 1
    assert mcnemar(8, 16) < 0.16, "the sign test would have asked another question"


@given(st.integers(0, 1_000), st.integers(2, 4))
def test_pairs_agree_with_counting(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    table = random.random((2**size, 40)) < 0.6
    game = Game(lambda there: table[int((there * 2 ** np.arange(size)).sum())], named(size), 40)
    found = {pair.heads: pair for pair in measure_pairs(game).pairs}
    everything = 2**size - 1
    for i, j in combinations(range(size), 2):
        whole, one, other, neither = (table[everything - gone] for gone in (0, 2**i, 2**j, 2**i + 2**j))
        pair = found[f"enc0.self.h{i}", f"enc0.self.h{j}"]
        extra = [int(a) + int(b) - int(w) - int(n) for w, a, b, n in zip(whole, one, other, neither, strict=True)]
        assert pair.together == pytest.approx(100 * (whole.mean() - neither.mean()))
        assert pair.alone == pytest.approx((100 * (whole.mean() - one.mean()), 100 * (whole.mean() - other.mean())))
        assert pair.interaction == pytest.approx(100 * sum(extra) / 40)
        assert pair.interval[0] <= pair.interaction <= pair.interval[1]
    strengths = [abs(pair.interaction) for pair in measure_pairs(game).pairs]
    assert strengths == sorted(strengths, reverse=True)


def test_of_very_many_heads_only_those_of_one_site_are_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [*named(3), *named(4, "decoder.0.cross")]
    assert len(which_pairs(heads)) == 21
    monkeypatch.setattr(joint_ablation, "MOST_PAIRS", 20)
    assert which_pairs(heads) == [(0, 1), (0, 2), (1, 2), *combinations(range(3, 7), 2)]


def test_no_more_pairs_are_shown_than_anyone_reads() -> None:
    found = measure_pairs(additive([1] * 10))
    assert (found.tested, len(found.pairs)) == (45, 40)


# The ends of the range


def test_one_head_alone() -> None:
    game = additive([7])
    assert measure_pairs(game) == Pairs(n=100, tested=0, pairs=())
    assert shapley_exact(game, game.heads).values[0].value == pytest.approx(7)
    assert shapley_sampled(game, game.heads, 2, np.random.default_rng(0)).values[0].value == pytest.approx(7)
    found = eliminate(game, game, drops_of(game))
    assert [len(row.heads) for row in found.removable] == [0, 0]
    assert found.sufficient.heads == ("enc0.self.h0",)


def test_nothing_to_take_away() -> None:
    game = Game(lambda there: np.ones(30, dtype=bool), [], 30)
    assert measure_pairs(game) == Pairs(n=30, tested=0, pairs=())
    assert largest_removable(game, 1.0) == []
    found = eliminate(game, game, {})
    assert [step.left for step in found.elimination.steps] == [0]
    assert found.sufficient.heads == ()
    assert shapley_exact(game, []).values == ()
    assert shapley_sampled(game, [], 4, np.random.default_rng(0)).values == ()


def test_a_model_with_no_heads_at_one_site_is_worked_through() -> None:
    kept = ["enc0.self.h0", "enc0.self.h2", "dec1.self.h1", "dec1.cross.h0"]
    trained = untrained(ADDITION, model={"kept_heads": kept})
    runs = TrainedRuns(trained, trained.examples("test"))
    assert [str(head) for head in heads_in(runs.sites)] == kept
    drops = dict.fromkeys(kept, 0.0)
    found = eliminate(runs, runs, drops)
    assert sorted(step.removed for step in found.elimination.steps[1:]) == sorted(kept)
    assert [row.head for row in shapley_exact(runs, heads_in(runs.sites)[2:]).values] == kept[2:]
    assert measure_pairs(runs).tested == 6


@pytest.mark.parametrize("task", ["addition", "sortedness"])
def test_a_real_model_agrees_with_hooks_that_zero_the_same_heads(task: str) -> None:
    trained = half_trained(task)
    examples = trained.examples("test").take(slice(0, 60))
    runs = TrainedRuns(trained, examples)
    plan = np.random.default_rng(3).integers(0, 2, size=(6, len(heads_in(runs.sites))))
    found = runs.run(plan)
    assert 0 < found.right.mean() < 1
    for row, right in zip(plan, found.right, strict=True):
        gone = {str(head) for head, away in zip(heads_in(runs.sites), row, strict=True) if away}
        assert right.tolist() == right_by_hooks(trained, examples, gone)


def right_by_hooks(trained: Any, examples: Examples, gone: set[str]) -> list[bool]:
    def edit_for(site: Any) -> Any:
        def edit(heads: Any) -> Any:
            heads = heads.clone()
            for place, head in enumerate(site.heads):
                if str(head) in gone:
                    heads[:, :, place] = 0
            return heads

        return edit

    batch = make_batch(trained.task, trained.model, examples, trained.device)
    with intervene(trained.model, {site.name: edit_for(site) for site in trained.model.sites}):
        answer = trained.model(batch.inputs).argmax(-1)
    right: list[bool] = trained.task.correct(answer, batch.target).tolist()
    return right


def test_a_class_task_has_one_kind_of_heads() -> None:
    trained = untrained(SORTEDNESS)
    runs = TrainedRuns(trained, trained.examples("test"))
    assert {head.site for head in heads_in(runs.sites)} == {"encoder.0.self", "encoder.1.self"}
    found = shapley_exact(runs, heads_in(runs.sites))
    total = sum(row.value for row in found.values)
    everything, nothing = runs.run(np.array([[0] * 6, [1] * 6])).accuracy
    assert total == pytest.approx(100 * (everything - nothing))
