"""Bounds of rounding hold for the model's own fp32 layers, and are not so wide that nothing can be proved."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from headway.model.dot_products import attend, attend_fast
from headway.proofs import rounding
from headway.proofs.rounding import Bounded, exact

SEEDS = range(8)
WIDEST = 1_000
"""Worst-case bounds are so many times what rounding really does, at most: errors of one sign hardly ever happen."""


def disturbed(seed: int, *shape: int) -> tuple[Bounded, Tensor]:
    """Exact rows with a bound, and fp32 rows that lie just inside of it."""
    random = torch.Generator().manual_seed(seed)
    value = 3 * torch.randn(*shape, generator=random, dtype=torch.float64)
    moved = torch.randn(*shape, generator=random, dtype=torch.float64)
    error = 1e-4 * torch.rand(shape[:-1], generator=random, dtype=torch.float64) + 1e-5
    model = (value + 0.9 * moved * (error / rounding.length(moved))[..., None]).float()
    assert bool((rounding.length(model.double() - value) <= error).all())
    return Bounded(value, error), model


def holds(found: Bounded, model: Tensor) -> None:
    apart = rounding.length(model.detach().double() - found.value)
    assert bool((apart <= found.error).all()), (apart - found.error).max()
    assert float(found.error.max()) <= WIDEST * float(apart.max())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [3, 64, 500])
def test_linear_layer(seed: int, width: int) -> None:
    torch.manual_seed(seed)
    layer = nn.Linear(width, 7)
    x, model = disturbed(seed, 50, width)
    holds(rounding.linear(x, layer), layer(model))
    apart = (layer(model).detach().double() - rounding.linear(x, layer).value).abs()
    assert bool((apart <= rounding.each_output(x, layer)).all())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_layer_norm_also_far_from_zero(seed: int, offset: float) -> None:
    torch.manual_seed(seed)
    norm = nn.LayerNorm(64)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x, model = disturbed(seed, 200, 64)
    moved = rounding.add(x, exact(torch.full((1, 64), offset)))
    found = rounding.layer_norm(moved, norm)
    holds(found, norm(model + offset))


@pytest.mark.parametrize("activation", [(rounding.relu, F.relu), (rounding.gelu, F.gelu)])
def test_activations(activation: tuple[Callable[[Bounded], Bounded], Callable[[Tensor], Tensor]]) -> None:
    bound, function = activation
    x, model = disturbed(0, 100, 30)
    holds(bound(x), function(model))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_attention_by_both_ways_with_unseen_keys(seed: int, size: float) -> None:
    (query, q), (key, k), (value, v) = (disturbed(seed * 3 + i, 20, 4, 9, 16) for i in range(3))
    query, q = Bounded(query.value * size, query.error * size), q * size  # flat attention, or sharp
    near = (torch.arange(9)[:, None] - torch.arange(9)).abs() <= 1
    bias = torch.randn(1, 4, 9, 9, generator=torch.Generator().manual_seed(seed))
    score = (query.value @ key.value.mT / 4 + bias).masked_fill(~near, -torch.inf)
    error = rounding.score_error(query[:, :, :, None], key[:, :, None], bias)
    apart = rounding.length(value.value[:, :, None] - value.value[:, :, :, None])
    farthest = torch.stack(
        [apart[..., max(0, i - 1) : i + 2, max(0, i - 1) : i + 2].flatten(2).amax(-1) for i in range(9)], -1
    )
    sizes, carried = value.lengths()[:, :, None], value.error[:, :, None]
    found = rounding.attention(score, error, sizes, carried, farthest)
    for way in (attend(q, k, v, near[None, None], bias)[0], attend_fast(q, k, v, near[None, None], bias)):
        holds(Bounded(score.softmax(-1) @ value.value, found), way)


def test_layer_norm_of_equal_values_has_no_bound() -> None:
    x, _ = disturbed(0, 3, 8)
    with pytest.raises(ValueError, match="lost in rounding"):
        rounding.layer_norm(Bounded(torch.ones_like(x.value), x.error + 1), nn.LayerNorm(8))


def numbers(size: int, largest: float = 3.0) -> st.SearchStrategy[Tensor]:
    some = st.floats(-largest, largest, width=32)
    return st.lists(some, min_size=size, max_size=size).map(lambda row: torch.tensor(row, dtype=torch.float64))


LARGE = st.sampled_from([1e-6, 0.01, 0.3, 1.0])
"""Errors far above those of fp32, so that higher orders matter."""


@settings(max_examples=60, deadline=None)
@given(score=numbers(3), shift=numbers(3, 1.0), value=numbers(6), moved=numbers(6, 1.0), size=LARGE)
def test_attention_with_large_errors_stays_within_its_bound(
    score: Tensor, shift: Tensor, value: Tensor, moved: Tensor, size: float
) -> None:
    values, moves = value.view(3, 2), size * moved.view(3, 2)
    carried = rounding.length(moves)
    farthest = rounding.length(values[:, None] - values).max()
    bound = rounding.attention(score, size * shift.abs(), rounding.length(values) + carried, carried, farthest)
    apart = (score + size * shift).softmax(0) @ (values + moves) - score.softmax(0) @ values
    assert float(rounding.length(apart)) <= float(bound)


@settings(max_examples=60, deadline=None)
@given(x=numbers(6), moved=numbers(6, 1.0), size=LARGE)
def test_a_layer_norm_with_large_errors_stays_within_its_bound(x: Tensor, moved: Tensor, size: float) -> None:
    norm = nn.LayerNorm(6).double()
    nn.init.constant_(norm.weight, 1.5)
    try:
        found = rounding.layer_norm(Bounded(x[None], rounding.length(size * moved)[None]), norm)
    except ValueError:  # the variance is lost, and no bound is given
        assume(False)
    apart = norm(x + size * moved) - found.value[0]
    assert float(rounding.length(apart.detach())) <= float(found.error)


def test_errors_of_the_same_direction_add_up() -> None:
    """Random errors nearly cancel; these do not, and the bound must hold for them."""
    one = Bounded(torch.tensor([[3.0, 4.0]]).double(), torch.tensor([0.25]).double())
    other = Bounded(torch.tensor([[3.0, 4.0]]).double(), torch.tensor([0.5]).double())
    found = rounding.add(one, other)
    furthest = torch.tensor([[3.0, 4.0]]).double() * (1 + 0.25 / 5) + torch.tensor([[3.0, 4.0]]).double() * (
        1 + 0.5 / 5
    )
    assert float(found.error) >= float(rounding.length(furthest - found.value)) - 1e-12  # float64 sums of two numbers


@pytest.mark.parametrize("wrong", ["query", "key"])
def test_a_score_is_off_by_the_error_of_its_query_and_of_its_key(wrong: str) -> None:
    """One of the two is too long by a tenth; 3 . 3 / sqrt 1 is then 0.9 larger."""
    right = exact(torch.tensor([[3.0]]))
    off = Bounded(right.value, torch.tensor([0.3]).double())
    query, key = (off, right) if wrong == "query" else (right, off)
    found = float(rounding.score_error(query, key, torch.zeros(1)))
    assert 0.9 <= found < 0.9001


@pytest.mark.parametrize("n", [1, 2, 64, 1_000])
def test_gamma_counts_every_rounding(n: int) -> None:
    """(1 + u)^n - 1, which as many roundings in the same direction make, is at most gamma_n and nearly it."""
    most = (1 + rounding.UNIT) ** n - 1
    assert most <= rounding.gamma(n) * (1 + 1e-12)
    assert rounding.gamma(n) <= most * (1 + 1e-3)
