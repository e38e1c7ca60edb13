"""Counted noise: a place's number is fixed by key, call and place, and the numbers look random."""

import pytest
import torch
from scipy import stats
from torch import nn

from headway.model.noise import Dropout, Noise, share_noise
from headway.training.loop import noise_keys

CPU = torch.device("cpu")


def bits(keys: torch.Tensor | None, *shape: int, call: int = 1) -> torch.Tensor:
    """The numbers of a call of a new pass."""
    noise = Noise()
    noise.begin(keys)
    noise.start_pass()
    for _ in range(call - 1):
        noise.bits((2,), CPU)
    return noise.bits(shape, CPU)


def test_a_wider_tensor_keeps_the_numbers_of_the_narrow_one() -> None:
    keys = noise_keys([3], 7)
    narrow, wide = bits(keys, 2, 3, 4, 5), bits(keys, 4, 5, 6, 7)
    assert torch.equal(narrow, wide[:2, :3, :4, :5])
    assert torch.equal(bits(keys, 5), bits(keys, 9)[:5])


def test_a_model_in_a_stack_has_the_numbers_it_has_alone() -> None:
    keys = noise_keys([3, 4, 11], 7)
    together = bits(keys, 3 * 2, 5, 4).view(3, 2, 5, 4)
    for row in range(3):
        assert torch.equal(together[row], bits(keys[row : row + 1], 2, 5, 4))


def test_earlier_passes_and_earlier_shapes_change_nothing() -> None:
    noise = Noise()
    noise.begin(noise_keys([0], 1))
    for shape in ((2, 3), (7,)):
        noise.start_pass()
        noise.bits(shape, CPU)
        second = noise.bits((4, 5), CPU)
        assert torch.equal(second, bits(noise_keys([0], 1), 4, 5, call=2))


def test_other_keys_calls_and_axes_have_other_numbers() -> None:
    keys = noise_keys([0], 1)
    here = bits(keys, 6, 6, 6)
    others = [
        bits(noise_keys([1], 1), 6, 6, 6),
        bits(noise_keys([0], 2), 6, 6, 6),
        bits(keys, 6, 6, 6, call=2),
        here.transpose(0, 1),
        here.transpose(0, 2),
        here.transpose(1, 2),
    ]
    off_diagonal = torch.ones(6, 6, 6, dtype=torch.bool)
    for i in range(6):
        off_diagonal[i, i, :] = off_diagonal[i, :, i] = off_diagonal[:, i, i] = False
    for other in others:
        assert (here != other)[off_diagonal].all()
    half = keys.clone()
    half[0, 1] += 1  # each of the two words counts
    assert (bits(half, 6, 6, 6) != here).all()


def test_no_number_of_a_tensor_is_repeated_more_often_than_chance_has_it() -> None:
    found = bits(noise_keys([2], 5), 64, 4, 30, 30)
    # n (n - 1) / 2^33 equal pairs are expected, here 6; 30 would be ten standard deviations.
    assert len(found.flatten()) - len(found.unique()) < 30


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("step", [0, 1, 999])
def test_the_numbers_are_uniform(seed: int, step: int) -> None:
    noise = Noise()
    noise.begin(noise_keys([seed], step))
    found = noise.uniform((32, 40, 30), CPU).flatten()
    assert found.min() >= 0
    assert found.max() < 1
    counts = torch.histc(found, bins=64, min=0, max=1)
    # The keys are fixed, so this is one number: it would be below 1e-4 for one honest generator in ten thousand.
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4
    low = noise.bits((32, 40, 30), CPU).flatten() & 63
    assert stats.chisquare(torch.bincount(low, minlength=64).numpy()).pvalue > 1e-4


def dropped(seed: int, step: int, call: int = 1) -> torch.Tensor:
    return bits(noise_keys([seed], step), 32, 40, 32, call=call) < round(0.1 * 2**32) - 2**31


NEIGHBOURS = {
    "seed": lambda seed, step: (dropped(seed, step), dropped(seed + 1, step)),
    "step": lambda seed, step: (dropped(seed, step), dropped(seed, step + 1)),
    "call": lambda seed, step: (dropped(seed, step), dropped(seed, step, call=2)),
    "first axis": lambda seed, step: (dropped(seed, step)[1:], dropped(seed, step)[:-1]),
    "second axis": lambda seed, step: (dropped(seed, step)[:, 1:], dropped(seed, step)[:, :-1]),
    "third axis": lambda seed, step: (dropped(seed, step)[:, :, 1:], dropped(seed, step)[:, :, :-1]),
    "diagonal": lambda seed, step: (dropped(seed, step)[1:, 1:], dropped(seed, step)[:-1, :-1]),
}


@pytest.mark.parametrize("where", NEIGHBOURS)
def test_neighbours_are_dropped_independently(where: str) -> None:
    scores = []
    for seed in range(3):
        for step in range(5):
            a, b = (x.double() - 0.1 for x in NEIGHBOURS[where](seed, step))
            scores.append(float((a * b).mean() / 0.09) * a.numel() ** 0.5)
    # Each score is a standard normal number if the two are independent, and so is their sum over sqrt(15).
    assert abs(sum(scores)) / 15**0.5 < 4
    assert stats.kstest(scores, "norm").pvalue > 1e-4


def test_joint_counts_of_two_calls_are_those_of_independent_ones() -> None:
    keys = noise_keys([5], 3)
    a, b = (((bits(keys, 64, 40, 32, call=call) >> 28) & 15).flatten() for call in (1, 2))
    counts = torch.bincount(a * 16 + b, minlength=256)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5, 0.95])
def test_dropout_drops_its_share_and_keeps_the_mean(share: float) -> None:
    noise = Noise()
    noise.begin(noise_keys([0], 0))
    x = torch.full((100, 40, 25), 3.0)
    found = noise.drop(x, share)
    deviation = (share * (1 - share) / x.numel()) ** 0.5
    assert float((found == 0).double().mean()) == pytest.approx(share, abs=4 * deviation)
    assert found[found != 0].unique().tolist() == pytest.approx([3 / (1 - share)])
    assert float(found.double().mean()) == pytest.approx(3.0, abs=4 * 3 * deviation / (1 - share))


def test_a_number_dropped_passes_no_gradient() -> None:
    noise = Noise()
    noise.begin(noise_keys([0], 0))
    x = torch.ones(6, 7, requires_grad=True)
    found = noise.drop(x, 0.5)
    found.sum().backward()
    assert torch.equal(x.grad, found.detach())


def test_outside_training_nothing_is_drawn() -> None:
    dropout, before = Dropout(0.5).eval(), torch.get_rng_state()
    x = torch.ones(4, 5)
    assert dropout(x) is x
    assert dropout.noise.calls == 0
    assert torch.equal(torch.get_rng_state(), before)
    assert Dropout(0.0).train()(x) is x


def test_with_keys_the_global_generator_is_left_alone() -> None:
    dropout, before = Dropout(0.5), torch.get_rng_state()
    dropout.noise.begin(noise_keys([0], 0))
    assert (dropout(torch.ones(4, 5)) == 0).any()
    assert torch.equal(torch.get_rng_state(), before)


def test_without_keys_the_global_seed_fixes_each_pass() -> None:
    dropout, found = Dropout(0.5), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        for _ in range(2):
            dropout.noise.start_pass()
            found.append(dropout(torch.ones(9, 10)))
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])
    assert not torch.equal(found[0], found[1])  # each pass draws anew
    assert not torch.equal(found[0], found[4])


def test_every_part_of_a_model_shares_one_noise() -> None:
    model = nn.Sequential(Dropout(0.5), nn.Sequential(Dropout(0.5)))
    noise = share_noise(model)
    noise.begin(noise_keys([0], 0))
    model(torch.ones(3, 4))
    assert noise.calls == 2


def test_keys_are_fixed_by_seed_and_step() -> None:
    keys = torch.stack([noise_keys(range(20), step) for step in range(30)])
    assert keys.shape == (30, 20, 2)
    assert len(keys.view(-1, 2).unique(dim=0)) == 600
    assert torch.equal(keys[7, 3], noise_keys([3], 7)[0])
