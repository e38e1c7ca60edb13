"""`hw.attach` on Hugging Face models of thirteen architectures, against what the library itself computes."""

import copy
import json
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import headway as hw
from headway.attachment.attached import Attached
from headway.errors import InputError, InstrumentError
from tests.attachment.small_models import ANSWER, ARCHITECTURES, BATCH, LENGTH, LLAMA, PADDED, decoder_only, made

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


def count_hooks(model: nn.Module) -> int:
    """Hooks on all modules; the library leaves some of its own behind when it is asked for weights."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)


GENERATORS = ["gpt2", "gpt_neox", "llama", "mistral", "qwen3", "gemma2", "t5", "bart"]


def generated(model: nn.Module, batch: dict[str, Tensor], **how: object) -> tuple[Tensor, Tensor]:
    """Greedy tokens and the logits of every step."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    found = model.generate(**inputs, **settings, return_dict_in_generate=True, output_logits=True, **how)
    return found.sequences, torch.stack(found.logits)


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("kind", ["zero", "mean", "resample", "patched"])
def test_generation_under_ablation_is_the_same_with_and_without_cache(name: str, kind: str) -> None:
    """Logits are equal up to the rounding of float32, as those of the whole model are."""
    model, batch = made(name)
    attached = hw.attach(model, example=batch)
    hooks = count_hooks(model)
    heads = [str(attached.sites[-1].heads[1]), str(attached.sites[0].heads[0])]
    other = {name: part.roll(1, 0) for name, part in batch.items()}
    context = hw.patched(attached, heads, source=other)
    if kind != "patched":
        context = hw.ablated(attached, heads, kind=kind, over=None if kind == "zero" else [other, batch])
    with context:
        with_cache, without = (generated(model, batch, use_cache=cache) for cache in (True, False))
    torch.testing.assert_close(with_cache[1], without[1], rtol=1e-4, atol=1e-4)
    assert torch.equal(with_cache[0], without[0])
    assert float((generated(model, batch, use_cache=True)[1] - with_cache[1]).abs().max()) > 1e-3
    assert count_hooks(model) == hooks


@pytest.mark.parametrize("name", ["bert", "llama", "bart"])
@torch.no_grad()
def test_mean_ablation_is_a_mean_over_real_tokens(name: str) -> None:
    """By hand: the projection's input is captured, averaged over tokens that are not padding, and written in again."""
    model, batch = made(name)
    attached = hw.attach(model, example=batch)
    site = attached.sites[-1]
    part = slice(site.d_head, 2 * site.d_head)
    projection = model.get_submodule(site.path)
    inputs: list[Tensor] = []
    removable = projection.register_forward_pre_hook(lambda module, arguments: inputs.append(arguments[0][..., part]))
    model(**batch)
    removable.remove()
    real = torch.ones(inputs[0].shape[:2], dtype=torch.bool)
    if "decoder_input_ids" not in batch:
        real = batch["attention_mask"].bool()
    mean = inputs[0][real].sum(0) / int(real.sum())

    def write(module: nn.Module, arguments: tuple[Tensor]) -> tuple[Tensor]:
        x = arguments[0].clone()
        x[..., part] = mean
        return (x,)

    removable = projection.register_forward_pre_hook(write)
    wanted = model(**batch).logits
    removable.remove()
    with hw.ablated(model, [str(site.heads[1])], kind="mean", over=[batch]):
        found = model(**batch).logits
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)  # a mean of float32 in another order
    assert float((found - model(**batch).logits).abs().max()) > 1e-3


def test_a_patched_head_has_the_source_s_output_and_the_others_their_own() -> None:
    model, batch = made("gpt2")
    attached = hw.attach(model, example=batch)
    source = {
        **batch,
        "input_ids": batch["input_ids"].flip(0),
        "attention_mask": torch.ones_like(batch["attention_mask"]),
    }
    own, others = attached.head_outputs(batch), attached.head_outputs(source)
    with hw.patched(model, ["dec1.self.h2"], source=source):
        inside = attached.head_outputs(batch)
    assert torch.equal(inside["dec1.self"][:, :, 2], others["dec1.self"][:, :, 2])
    assert torch.equal(inside["dec1.self"][:, :, :2], own["dec1.self"][:, :, :2])
    with pytest.raises(InputError, match="the source has 2 rows and the batch 3"):
        with hw.patched(model, ["dec1.self.h2"], source=batch["input_ids"][:2]):
            model(**batch)


def test_contexts_nest_survive_exceptions_and_leave_nothing_behind() -> None:
    model, batch = made("gpt2")
    hooks = count_hooks(model)
    zero_both = ["dec0.self.h0", "dec1.self.h2"]
    with hw.ablated(model, zero_both):
        wanted = model(**batch).logits
    with hw.ablated(model, zero_both[:1]), hw.captured(model) as attention, hw.ablated(model, zero_both[1:]):
        nested = model(**batch).logits
    with hw.captured(model) as more, hw.ablated(model, zero_both, kind="mean", over=[batch, batch]):
        model(**batch)
    assert len(more.passes["dec0.self"]) == 1, "passes that compute the means are not captured"
    # captured switches to eager attention, which rounds otherwise than the fused kernel, and differs on padding
    real = batch["attention_mask"].bool()
    torch.testing.assert_close(nested[real], wanted[real], rtol=1e-4, atol=1e-4)
    assert len(attention.passes["dec0.self"]) == 1
    with pytest.raises(RuntimeError, match="stop here"), hw.captured(model), hw.ablated(model, zero_both):
        raise RuntimeError("stop here")
    assert count_hooks(model) == hooks
    assert model.config._attn_implementation == "sdpa"


def test_captured_weights_of_generation_are_those_of_each_step() -> None:
    model, batch = made("llama")
    with hw.captured(model) as attention:
        generated(model, batch, use_cache=True)
    shapes = [tuple(weights.shape[2:]) for weights in attention.passes["dec1.self"]]
    assert shapes == [(LENGTH, LENGTH), *((1, LENGTH + step) for step in range(1, 6))]


def test_an_edit_holds_under_autocast_and_in_a_compiled_model() -> None:
    model, batch = made("gpt2")
    attached = hw.attach(model, example=batch)
    with hw.ablated(model, ["dec1.self.h1"]), torch.no_grad():
        wanted = model(**batch).logits
        with torch.autocast("cpu", torch.bfloat16):
            rounded = model(**batch).logits
    apart = float((rounded.float() - wanted).abs().max())
    assert apart < 0.05 * float(wanted.abs().max())  # bfloat16 keeps 8 bits
    compiled = torch.compile(model, backend="eager")
    whole = compiled(**batch).logits
    with hw.ablated(compiled, ["dec1.self.h1"]):
        found = compiled(**batch).logits
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert torch.equal(compiled(**batch).logits, whole)
    assert [site.path for site in hw.attach(compiled).sites] == [site.path for site in attached.sites]


WRONG = {
    "no head dec0.self.h7; did you mean dec0.self.h": lambda model: hw.ablated(model, ["dec0.self.h7"]),
    "'first' is not a head; write it like": lambda model: hw.ablated(model, "first"),
    "ablation 'men'; did you mean mean": lambda model: hw.ablated(model, [], kind="men"),
    "ablation 'mean' needs over=": lambda model: hw.ablated(model, ["dec0.self.h0"], kind="mean"),
    "no batches to take replacements from": lambda model: hw.ablated(model, ["dec0.self.h0"], kind="mean", over=[]),
    "needs a torch.nn.Module, not int": lambda model: hw.captured(7),
    "head dec0.self.h1 is named twice": lambda model: hw.ablated(model, ["dec0.self.h1", "dec0.self.h1"]),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_context_gets_one_line(message: str) -> None:
    model, _ = made("gpt2")
    hooks = count_hooks(model)
    with pytest.raises(InputError, match=message), WRONG[message](model):
        pass
    assert count_hooks(model) == hooks


def test_a_context_in_which_the_model_was_not_called_is_an_error() -> None:
    model, _ = made("gpt2")
    with pytest.raises(InstrumentError, match=r"dec0.self \(transformer.h.0.attn.c_proj\) did not fire"):
        with hw.ablated(model, ["dec0.self.h0"]):
            pass
    with hw.captured(model) as attention:
        pass
    with pytest.raises(InputError, match=r"nothing was captured at dec0\.self"):
        attention["dec0.self"]


def bridges() -> dict[str, nn.Module]:
    """TransformerLens' bridges of two models of this page, and of one of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports uses names that other packages retired
        from transformer_lens.model_bridge import TransformerBridge
        from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

        native = {"n_layers": 2, "d_model": 24, "n_heads": 3, "d_head": 8, "d_mlp": 31, "n_ctx": 16, "d_vocab": 29}
        found = {"native": TransformerBridge.boot_native({**native, "act_fn": "gelu", "seed": 0}).eval()}
        for name, architecture in {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}.items():
            model = copy.deepcopy(made(name)[0])
            found[name] = build_bridge_from_module(model, architecture, hf_config=model.config).eval()
    return found


def test_a_transformer_bridge_has_the_same_heads_weights_and_ablations() -> None:
    """Weights are compared with its own cache, ablations with its own hooks; both compute on the same numbers."""
    ids = made("gpt2")[1]["input_ids"]
    for name, bridge in bridges().items():
        attached = hw.attach(bridge, example=ids)
        assert [site.name for site in attached.sites] == ["dec0.self", "dec1.self"], name
        with torch.no_grad():
            _, cache = bridge.run_with_cache(ids)
        for layer, weights in enumerate(attached.attention(ids).values()):
            assert torch.equal(weights, cache[f"blocks.{layer}.attn.hook_pattern"]), name

        def zero(z: Tensor, hook: object, n_heads: int = attached.sites[0].n_heads) -> Tensor:
            heads = z.clone().unflatten(-1, (n_heads, -1)) if z.ndim == 3 else z.clone()
            heads[:, :, 1] = 0
            return heads.flatten(2) if z.ndim == 3 else heads

        with torch.no_grad():
            wanted = bridge.run_with_hooks(ids, fwd_hooks=[("blocks.0.attn.hook_z", zero)])
        with hw.ablated(bridge, ["dec0.self.h1"]):
            found = attached.logits(ids)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        assert not torch.equal(found, attached.logits(ids))
        with pytest.raises(InputError, match="a TransformerBridge is not pruned; prune the model that it wraps"):
            hw.prune(bridge, ["dec0.self.h1"], example=ids)


def some_heads(attached: Attached) -> list[str]:
    """Heads that can go: the first group of every second site, the last of the last; one where all share a key."""
    found = []
    for index, site in enumerate(attached.sites):
        size = 1 if site.n_kv_heads == 1 else site.n_heads // site.n_kv_heads
        if index % 2 == 0:
            found += site.heads[:size]
        elif site is attached.sites[-1]:
            found += site.heads[-size:]
    return [str(head) for head in found]


@torch.no_grad()
def test_a_pruned_model_equals_the_masked_one_saves_and_loads(
    case: tuple[Attached, dict[str, Tensor]], tmp_path: Path
) -> None:
    """Within the rounding of float32; the loaded model is the saved one, bit for bit, also in generation."""
    attached, batch = case
    heads = some_heads(attached)
    with hw.ablated(attached, heads):
        masked = attached.logits(batch)
    result = hw.prune(attached, heads, example=batch)
    assert result.removed == tuple(heads) and result.parameters_after < result.parameters_before
    assert result.bytes_after == 4 * result.parameters_after
    torch.testing.assert_close(result.model(**batch).logits, masked, rtol=1e-4, atol=1e-4)
    again = hw.attach(result.model, example=batch)
    assert tuple(map(str, again.heads)) == result.kept
    assert len(result.kept) + len(heads) == len(attached.heads)
    result.model.save_pretrained(tmp_path)
    loaded = hw.load_pruned(tmp_path)
    assert torch.equal(loaded(**batch).logits, result.model(**batch).logits)
    assert tuple(map(str, hw.attach(loaded).heads)) == result.kept
    if hasattr(loaded, "generate") and "Sequence" not in type(loaded).__name__:
        with hw.ablated(attached, heads):
            wanted = generated(attached.model, batch, use_cache=True)
        for cache in (True, False):
            torch.testing.assert_close(generated(loaded, batch, use_cache=cache)[1], wanted[1], rtol=1e-3, atol=1e-3)


def test_pruned_twice_is_pruned_at_once_and_the_source_stays_whole() -> None:
    model, batch = made("gpt2")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    once = hw.prune(model, ["dec0.self.h0"]).model
    twice = hw.prune(once, ["dec0.self.h2", "dec1.self.h1"]).model
    direct = hw.prune(model, keep=["dec0.self.h1", "dec1.self.h0", "dec1.self.h2"])
    assert direct.kept == ("dec0.self.h1", "dec1.self.h0", "dec1.self.h2")
    assert torch.equal(twice(**batch).logits, direct.model(**batch).logits)
    assert twice.config.headway_pruned == direct.model.config.headway_pruned
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    with pytest.raises(InputError, match=r"the model has no head dec0.self.h0"):
        hw.prune(once, ["dec0.self.h0"])


def test_what_cannot_be_pruned_is_refused_by_name(tmp_path: Path) -> None:
    llama, gpt2 = made("llama")[0], made("gpt2")[0]
    with pytest.raises(
        InputError, match=r"dec0.self.h3 cannot go alone: dec0.self.h2, dec0.self.h3 share one key-value"
    ):
        hw.prune(llama, ["dec0.self.h3"])
    assert hw.attach(hw.prune(llama, ["dec0.self.h1", "dec0.self.h3"]).model).sites[0].n_kv_heads == 2
    with pytest.raises(InputError, match=r"every head of dec0.self would go"):
        hw.prune(gpt2, [f"dec0.self.h{index}" for index in range(3)])
    with pytest.raises(InputError, match="either the heads to remove or keep="):
        hw.prune(gpt2)
    with pytest.raises(InputError, match=r"hw.prune\(model, max_drop=...\) is for runs"):
        hw.prune(gpt2, max_drop=1)
    with pytest.raises(InputError, match="is for models; a run takes keep= or max_drop="):
        hw.prune("addition-seed0", ["dec0.self.h0"])
    with pytest.raises(InputError, match=r"has no config.json"):
        hw.load_pruned(tmp_path)
    gpt2.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"names no pruned heads; load it with transformers' from_pretrained"):
        hw.load_pruned(tmp_path)
    hw.prune(gpt2, ["dec0.self.h0"]).model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "headway_pruned": ["dec1.self.h1"]}))
    with pytest.raises(InputError, match=r"cannot be read: |the weights do not fit config.json: "):
        hw.load_pruned(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["Nothing"]}))
    with pytest.raises(InputError, match="names the architecture 'Nothing', which transformers does not have"):
        hw.load_pruned(tmp_path)
    for text in ("{", "[" * 100_000):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(InputError, match="is not JSON"):
            hw.load_pruned(tmp_path)


def test_fused_grouped_query_heads_and_biases_for_a_fixed_number_of_heads_are_found_and_not_pruned() -> None:
    phi3, batch = decoder_only("phi3", **LLAMA)
    attached = hw.attach(phi3, example=batch)
    assert [(site.n_heads, site.n_kv_heads) for site in attached.sites] == [(4, 2), (4, 2)]
    with pytest.raises(InputError, match="qkv_proj fuses grouped-query heads, whose layout headway does not know"):
        hw.prune(attached, ["dec0.self.h0", "dec0.self.h1"], example=batch)
    bloom, batch = decoder_only("bloom", hidden_size=24, n_layer=2, n_head=3)
    attached = hw.attach(bloom, example=batch)
    assert [site.name for site in attached.sites] == ["dec0.self", "dec1.self"]
    with pytest.raises(InputError, match="BloomForCausalLM does not run with fewer heads, so it is not pruned"):
        hw.prune(attached, ["dec0.self.h0"], example=batch)


def test_a_decoder_with_cross_attention_alone_has_masks_and_is_pruned() -> None:
    """GPT-2 with a fused projection of keys and values, and queries apart."""
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32, "add_cross_attention": True}
    model, batch = decoder_only("gpt2", **sizes)
    encoded = torch.randn(BATCH, ANSWER, 24, generator=torch.Generator().manual_seed(3))
    seen = torch.ones(BATCH, ANSWER, dtype=torch.long)
    seen[2, 3:] = 0
    batch = {**batch, "encoder_hidden_states": encoded, "encoder_attention_mask": seen}
    attached = hw.attach(model, example=batch)
    assert [site.name for site in attached.sites] == ["dec0.self", "dec0.cross", "dec1.self", "dec1.cross"]
    assert torch.equal(attached.key_mask(batch)["dec0.cross"], seen.bool())
    assert torch.equal(attached.key_mask(batch)["dec0.self"], batch["attention_mask"].bool())
    assert torch.equal(attached.query_mask(batch)["dec1.cross"], batch["attention_mask"].bool())
    assert attached.attention(batch)["dec1.cross"].shape == (BATCH, 3, LENGTH, ANSWER)
    result = hw.prune(attached, ["dec0.cross.h0", "dec1.cross.h2", "dec1.self.h1"], example=batch)
    assert result.logits_apart < 1e-4 and len(result.kept) == 9
