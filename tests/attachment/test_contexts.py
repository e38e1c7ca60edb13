"""Means, other examples' outputs and patches come from real tokens alone."""

import pytest
import torch
from torch import Tensor

import headway as hw
from headway.attachment.attached import Attached
from headway.attachment.contexts import Bank, Starts
from headway.errors import InputError
from tests.attachment.test_attach import LENGTH, TOKENS, Course, seeded

PAD = 10
HEAD, SITE, PLACE = "enc0.self.h1", "enc0.self", 1
PADDED = TOKENS.masked_fill(TOKENS == PAD, 0).masked_fill(torch.arange(LENGTH) >= torch.tensor([[7], [4], [5]]), PAD)
"""Three rows of seven, four and five real tokens."""
REAL = PADDED != PAD


def attached() -> Attached:
    return hw.attach(seeded(Course()), example=PADDED, real_tokens=lambda tokens: tokens != PAD)


def outputs_of(model: Attached, tokens: Tensor = PADDED) -> Tensor:
    """The outputs of the head, `row query d_head`, as they are with whatever is changed now."""
    return model.head_outputs(tokens)[SITE][:, :, PLACE]


def test_a_mean_is_over_real_tokens() -> None:
    model = attached()
    wanted = outputs_of(model)[REAL].mean(0)
    with hw.ablated(model, [HEAD], kind="mean", over=PADDED):
        found = outputs_of(model)
    torch.testing.assert_close(found, wanted.expand_as(found), rtol=1e-5, atol=1e-6)  # a mean in another order


def test_a_resampled_output_is_that_of_a_real_token() -> None:
    model = attached()
    own = outputs_of(model)
    real = {tuple(vector) for vector in own[REAL].tolist()}
    for seed in range(5):
        with hw.ablated(model, [HEAD], kind="resample", over=PADDED, seed=seed):
            found = outputs_of(model)
        assert {tuple(vector) for vector in found.flatten(0, 1).tolist()} <= real


def test_a_seed_chooses_the_examples_that_resampled_outputs_come_from() -> None:
    model, found = attached(), []
    for seed in (0, 0, 1, 2, 3, 4, 5):
        with hw.ablated(model, [HEAD], kind="resample", over=PADDED, seed=seed):
            found.append(outputs_of(model))
    assert torch.equal(found[0], found[1])
    assert any(not torch.equal(found[0], other) for other in found[2:])


def test_a_patch_leaves_positions_alone_at_which_its_source_is_padding() -> None:
    model, base = attached(), (PADDED + 3) % PAD
    own, source = outputs_of(model, base), outputs_of(model)
    with hw.patched(model, [HEAD], source=PADDED):
        found = outputs_of(model, base)
    assert torch.equal(found[REAL], source[REAL])
    assert torch.equal(found[~REAL], own[~REAL])


@pytest.mark.parametrize(
    ("site", "cached", "queries", "first"),
    [
        ("dec1.self", 0, 3, 0),
        ("dec1.self", 4, 1, 4),
        ("dec1.self", 4, 2, 4),
        ("dec1.cross", 3, 3, 0),
        ("dec1.cross", 5, 1, 4),
        ("dec1.cross", 6, 2, 4),
        ("dec1.cross", 0, 3, 0),
        ("dec1.cross", None, 3, 0),
        ("dec1.self", None, 3, 0),
    ],
)
def test_the_first_query_of_a_pass_stands_after_the_cached_tokens(
    site: str, cached: int | None, queries: int, first: int
) -> None:
    """Cross-attention sees the cache when self-attention has added the pass's own tokens to it."""
    bank = Bank(torch.zeros(2, 7, 3, 4), torch.ones(2, 7, dtype=torch.bool))
    assert Starts({site: cached}).of(site, queries, bank) == first


def test_the_place_of_one_query_without_a_known_cache_is_refused() -> None:
    bank = Bank(torch.zeros(2, 7, 3, 4), torch.ones(2, 7, dtype=torch.bool))
    with pytest.raises(InputError, match=r"the position of the one query at dec1\.cross is not known"):
        Starts({"dec1.cross": None}).of("dec1.cross", 1, bank)
    assert Starts({}).of("dec1.cross", 1, Bank(torch.zeros(2, 1, 3, 4), torch.ones(2, 1, dtype=torch.bool))) == 0
