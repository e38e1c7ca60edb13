"""A stack of models computes what each model computes alone."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from headway.config import Choice
from headway.errors import InputError
from headway.model.dot_products import _attend_unrolled, attend
from headway.model.encodings import ENCODINGS
from headway.model.poolings import POOLINGS
from headway.model.stack import ALIGNED, SMALL_TABLE, StackedEmbedding, stack_models
from tests.model.stacking import SEEDS, alone, double_precision, inputs_of, joined, models_of, together

CPU = torch.device("cpu")
SHAPES = ["encoder-decoder", "encoder", "decoder"]
EXACT = {"rtol": 1e-10, "atol": 1e-10}
"""Float64 sums of a few hundred numbers around 1 agree to 1e-13 in any order; a wrong row is off by 1e-2."""


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double_precision():
        yield


def check(models, parts, *, training: bool) -> None:  # type: ignore[no-untyped-def]
    for model in models:
        model.train(training)
    logits, gradients = alone(models, parts, step=5)
    _, stacked, found = together(models, parts, step=5)
    torch.testing.assert_close(stacked, logits, **EXACT)
    assert not torch.allclose(logits[: len(logits) // 3], logits[-(len(logits) // 3) :], atol=1e-3)
    torch.testing.assert_close(found, gradients, **EXACT)


@pytest.mark.parametrize("encoding", ENCODINGS.names())
@pytest.mark.parametrize("shape", SHAPES)
def test_every_encoding_computes_the_same_in_a_stack(encoding: str, shape: str) -> None:
    models = models_of(shape, encoding, dropout=0.2)
    check(models, inputs_of(shape, padded=True), training=True)
    check(models, inputs_of(shape, padded=False), training=False)


@pytest.mark.parametrize("pooling", POOLINGS.names())
def test_every_pooling_computes_the_same_in_a_stack(pooling: str) -> None:
    models = models_of("encoder", pooling=Choice(name=pooling))
    check(models, inputs_of("encoder", padded=True), training=True)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("causal_encoder", [True, False])
def test_every_build_computes_the_same_in_a_stack(norm: str, causal_encoder: bool) -> None:
    more = {"norm": norm, "causal_encoder": causal_encoder, "log_length_scale": True, "activation": "relu"}
    check(models_of("encoder-decoder", **more), inputs_of("encoder-decoder", padded=True), training=True)


@pytest.mark.parametrize("encoding", ["t5", "rotary", "fire"])
@pytest.mark.parametrize("training", [True, False])
def test_pruned_models_compute_the_same_in_a_stack(encoding: str, training: bool) -> None:
    kept = ("enc0.self.h1", "dec0.cross.h0")
    models = models_of("encoder-decoder", encoding, kept_heads=kept, dropout=0.2)
    assert models[0].get_parameter("decoder.0.own.query.weight").numel() == 0
    check(models, inputs_of("encoder-decoder", padded=True), training=training)


def test_one_model_is_a_stack_too() -> None:
    model, part = models_of("decoder", "learned")[0], inputs_of("decoder", padded=True)[0]
    stack = stack_models([model], CPU)
    assert len(stack) == 1
    torch.testing.assert_close(stack.model(joined([part])), model(part), **EXACT)


def test_a_large_table_is_read_like_a_small_one() -> None:
    index = torch.randint(0, 7, (6, 5))
    small = torch.randn(3, 7, 4)
    large = torch.cat([small, torch.randn(3, SMALL_TABLE, 4)], dim=1)
    found = []
    for weight in (small, large):
        table = StackedEmbedding(weight)
        out = table(index)
        gradient = torch.autograd.grad((out * torch.linspace(1, 2, out.numel()).view_as(out)).sum(), table.weight)[0]
        found.append((out, gradient[:, :7]))
    assert found[0][0].shape == (6, 5, 4)
    assert torch.equal(found[0][0][3], small[1][index[3]])
    torch.testing.assert_close(found[0], found[1], **EXACT)


def parameters(models):  # type: ignore[no-untyped-def]
    return [{name: p.detach() for name, p in model.named_parameters()} for model in models]


def test_what_is_written_is_read_back() -> None:
    models = models_of("encoder-decoder", "fire")
    stack = stack_models(models, CPU)
    for own, found in zip(parameters(models), stack.layout.read(stack.weights), strict=True):
        assert own.keys() == found.keys()
        for name in own:
            assert found[name].shape == own[name].shape
            assert found[name].is_contiguous()
            assert torch.equal(found[name], own[name])


def test_every_parameter_is_aligned_and_apart_from_the_others() -> None:
    stack = stack_models(models_of("encoder-decoder", "fire"), CPU)
    taken = torch.zeros(stack.layout.size, dtype=torch.int64)
    for name, block in stack.layout.blocks(taken).items():
        assert stack.layout.places[name][0] % ALIGNED == 0
        block += 1
    assert taken.max() == 1
    assert taken.sum() == 3 * sum(p.numel() for p in models_of("encoder-decoder", "fire")[0].parameters())


def test_layers_hold_views_of_the_vector() -> None:
    models = models_of("encoder")
    stack, part = stack_models(models, CPU), joined(inputs_of("encoder", padded=False))
    before = stack.model(part)
    stack.layout.write(stack.weights, parameters(models[::-1]))
    torch.testing.assert_close(stack.model(part), stack_models(models[::-1], CPU).model(part), **EXACT)
    assert not torch.allclose(stack.model(part), before)


@pytest.mark.parametrize("kept", [None, ()])
def test_norms_are_those_of_each_models_own_gradient(kept) -> None:
    stack = stack_models(models_of("encoder", "fire", kept_heads=kept), CPU)
    vector = torch.zeros_like(stack.weights)
    for block in stack.layout.blocks(vector).values():
        block.normal_()
    plain = [torch.cat([x.flatten() for x in one.values()]).norm() for one in stack.layout.read(vector)]
    torch.testing.assert_close(stack.layout.norms(vector), torch.stack(plain), **EXACT)


def test_a_number_that_is_not_finite_stays_in_its_own_norm() -> None:
    stack = stack_models(models_of("encoder"), CPU)
    vector = torch.ones_like(stack.weights)
    stack.layout.blocks(vector)["encoder.0.own.query.weight"][1, 2, 3] = torch.nan
    assert stack.layout.norms(vector).isfinite().tolist() == [True, False, True]


def test_owners_name_the_seed_and_the_matrices() -> None:
    models = models_of("encoder-decoder", "fire")
    stack = stack_models(models, CPU)
    owner = stack.layout.owners(CPU)
    matrices = {f"{path}.weight" for path, module in models[0].named_modules() if isinstance(module, nn.Linear)}
    for name, block in stack.layout.blocks(owner).items():
        for seed in range(len(SEEDS)):
            assert block[seed].unique().tolist() == [seed + len(SEEDS) * (name in matrices)], name


def test_an_unknown_layer_is_refused_by_name() -> None:
    models = models_of("encoder")

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = nn.Parameter(torch.ones(12))

    class Odd(type(models[0])):  # type: ignore[misc]
        def __init__(self, *arguments) -> None:  # type: ignore[no-untyped-def]
            super().__init__(*arguments)
            self.scale = Scale()

    with pytest.raises(
        InputError, match=r"scale of class Scale holds weights of its own, and several seeds at once need"
    ):
        stack_models([Odd(models[0].config, 9, 3)], CPU)


@pytest.mark.parametrize("masked", ["nothing", "some", "one row"])
@pytest.mark.parametrize("biased", [True, False])
def test_unrolled_attention_is_attention(masked: str, biased: bool) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, n, d, requires_grad=True) for n, d in ((4, 5), (6, 5), (6, 7)))
    bias = torch.randn(2, 3, 4, 6, requires_grad=True) if biased else None
    mask = {"nothing": None, "some": torch.rand(2, 1, 4, 6) < 0.6, "one row": torch.ones(2, 1, 1, 6).bool()}[masked]
    if mask is not None:
        mask[..., 2] = True  # a query that sees nothing is opened by the caller
        mask[:, :, :, 0] = False
    leaves = [x for x in (query, key, value, bias) if x is not None]
    expected, _ = attend(query, key, value, mask, bias)
    both = mask if bias is None else bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    found = _attend_unrolled(query, key, value, both)
    torch.testing.assert_close(found, expected, **EXACT)
    weight = torch.linspace(0, 1, expected.numel()).view_as(expected)
    gradients = [torch.autograd.grad((out * weight).sum(), leaves) for out in (found, expected)]
    torch.testing.assert_close(*gradients, **EXACT)
