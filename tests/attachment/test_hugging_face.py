"""`hw.attach` on Hugging Face models of thirteen architectures, against what the library itself computes."""

import pytest
import torch
from torch import Tensor, nn

import headway as hw
from headway.attachment.attached import Attached
from tests.attachment.small_models import ANSWER, ARCHITECTURES, BATCH, LENGTH, PADDED, made

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers", "ignore::DeprecationWarning")


def library_weights(model: nn.Module, batch: dict[str, Tensor], attached: Attached) -> dict[str, Tensor]:
    """The attention weights that the library returns when a model is set to eager attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**batch, output_attentions=True)
    model.set_attn_implementation(before)
    alone = attached.sites[0].name[:3]
    tables = {"attentions": (alone, "self"), "encoder_attentions": ("enc", "self")}
    tables |= {"decoder_attentions": ("dec", "self"), "cross_attentions": ("dec", "cross")}
    return {
        f"{side}{layer}.{looks}": weights
        for field, (side, looks) in tables.items()
        for layer, weights in enumerate(getattr(output, field, None) or ())
    }


@pytest.fixture(scope="module", params=ARCHITECTURES)
def case(request: pytest.FixtureRequest) -> tuple[Attached, dict[str, Tensor]]:
    model, batch = made(request.param)
    return hw.attach(model, example=batch), batch


def test_every_site_is_found_and_verified(case: tuple[Attached, dict[str, Tensor]]) -> None:
    attached, batch = case
    layers = 2
    across = "decoder_input_ids" in batch
    wanted = [f"{side}{layer}.self" for side in ("enc", "dec") for layer in range(layers)]
    if across:
        wanted += [f"dec{layer}.cross" for layer in range(layers)]
    elif "Sequence" in type(attached.model).__name__:
        wanted = wanted[:layers]
    else:
        wanted = wanted[layers:]
    assert sorted(site.name for site in attached.sites) == sorted(wanted)
    assert attached.verified is not None and attached.verified.weights_apart < 1e-5
    assert attached.blocks is not None and len(attached.blocks) == layers * (2 if across else 1)
    assert [str(head) for head in attached.heads][:2] == [f"{attached.sites[0].name}.h{i}" for i in (0, 1)]


def test_weights_are_those_of_the_library_s_eager_attention(case: tuple[Attached, dict[str, Tensor]]) -> None:
    attached, batch = case
    before = attached.model.config._attn_implementation
    wanted, found = library_weights(attached.model, batch, attached), attached.attention(batch)
    assert set(wanted) == set(found)
    for name, weights in wanted.items():
        torch.testing.assert_close(found[name], weights, rtol=0, atol=0)  # the same code on the same numbers
    assert attached.model.config._attn_implementation == before


def test_zero_ablation_of_each_head_is_the_zeroed_weight_slice(case: tuple[Attached, dict[str, Tensor]]) -> None:
    """Written out again here: the weights themselves are changed. Equal up to the rounding of float32."""
    attached, batch = case
    whole = attached.logits(batch)
    for site in attached.sites:
        index = site.n_heads - 1

        def zero(heads: Tensor, index: int = index) -> Tensor:
            heads = heads.clone()
            heads[:, :, index] = 0
            return heads

        with attached.intervene({site.name: zero}):
            found = attached.logits(batch)
        weight = attached.model.get_submodule(site.path).weight
        rows = slice(index * site.d_head, (index + 1) * site.d_head)
        before = weight.detach().clone()
        with torch.no_grad():
            (weight if "Conv1D" in type(attached.model.get_submodule(site.path)).__name__ else weight.T)[rows] = 0
            wanted = attached.run(batch)
            weight.copy_(before)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        assert not torch.equal(found, whole), site.name


def test_masks_say_which_tokens_are_real(case: tuple[Attached, dict[str, Tensor]]) -> None:
    attached, batch = case
    queries, keys = attached.query_mask(batch), attached.key_mask(batch)
    for site in attached.sites:
        n_queries, n_keys = attached.attention(batch)[site.name].shape[2:]
        assert queries[site.name].shape == (BATCH, n_queries)
        assert keys[site.name].shape == (BATCH, n_keys)
        assert n_queries == (ANSWER if "decoder_input_ids" in batch and site.side == "decoder" else LENGTH)
        assert int((~keys[site.name]).sum()) == (PADDED if n_keys == LENGTH else 0)


def test_head_outputs_are_what_the_projection_reads(case: tuple[Attached, dict[str, Tensor]]) -> None:
    attached, batch = case
    seen: dict[str, Tensor] = {}
    for site in attached.sites:
        attached.model.get_submodule(site.path).register_forward_pre_hook(
            lambda module, arguments, name=site.name: seen.__setitem__(name, arguments[0])
        )
    found = attached.head_outputs(batch)
    for site in attached.sites:
        attached.model.get_submodule(site.path)._forward_pre_hooks.clear()
        assert found[site.name].shape[2:] == (site.n_heads, site.d_head)
        assert torch.equal(found[site.name].flatten(2), seen[site.name])
