"""Names of heads, and models in which only some heads are there."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway.config import Choice, ModelConfig, RunConfig, build, to_table
from headway.errors import InputError
from headway.model.attention import MultiHeadAttention, Place, Visibility
from headway.model.encodings import Sizes, make_encoding
from headway.model.sites import Head, HeadSite, parse_heads, sites_of
from headway.model.transformer import Inputs, Transformer, check_size, count_parameters, decode_greedily
from tests.model.test_transformer import inputs_of, tiny, unsettle

SHAPES = ["encoder-decoder", "encoder", "decoder"]
PER_HEAD = ["alibi", "t5", "clipped", "fire"]
"""Encodings with a bias of its own for each head."""


def config_of(shape: str, **options: object) -> ModelConfig:
    """Three heads; two layers in the encoder and, beside it, one in the decoder."""
    layers = {
        "encoder-decoder": {"encoder_layers": 2, "decoder_layers": 1},
        "encoder": {"encoder_layers": 2},
        "decoder": {"decoder_layers": 2},
    }[shape]
    return ModelConfig(shape=shape, d_model=12, n_heads=3, d_ff=10, **{**layers, **options})


def model_of(config: ModelConfig) -> Transformer:
    return Transformer(config, n_tokens=9, n_classes=2 if config.shape == "encoder" else 0)


# Names


@given(st.sampled_from(["encoder.self", "decoder.self", "decoder.cross"]), st.integers(0, 300), st.integers(0, 1_023))
def test_a_name_that_is_printed_is_read_back(where: str, layer: int, index: int) -> None:
    stack, looks = where.split(".")
    head = Head(f"{stack}.{layer}.{looks}", index)
    assert str(head) == f"{stack[:3]}{layer}.{looks}.h{index}"
    assert Head.parse(str(head)) == head
    assert Head.parse(f" {head}\n") == head


@pytest.mark.parametrize(
    "text",
    ["", "enc0", "enc0.self", "enc0.self.h", "enc0.self.1", "encoder.0.self", "enc-1.self.h0", "enc0.self.h1.5"],
)
def test_a_part_of_a_name_is_refused_with_an_example_of_a_whole_one(text: str) -> None:
    is_no_head(text)


@pytest.mark.parametrize("text", ["enc 0.self.h1", "ENC0.self.h1", "enc0.own.h1", "enc0.self.h1,dec0.self.h1", "1"])
def test_a_name_written_another_way_is_refused(text: str) -> None:
    is_no_head(text)


def is_no_head(text: str) -> None:
    with pytest.raises(InputError) as error:
        Head.parse(text)
    assert str(error.value) == f"{text!r} is not a head; write it like enc0.self.h1 or dec1.cross.h2"


@pytest.mark.parametrize("unknown", ["enc0.self.h7", "enc3.self.h0", "enc0.cross.h1", "dec2.cross.h1"])
def test_a_head_that_is_not_there_is_named_with_the_nearest_that_is(unknown: str) -> None:
    sites = sites_of(config_of("encoder-decoder"))
    nearest = {"enc0.self.h7": "enc0.self.h", "enc3.self.h0": "enc", "enc0.cross.h1": "", "dec2.cross.h1": "dec0.cross"}
    with pytest.raises(InputError) as error:
        parse_heads(["enc0.self.h1", unknown], sites)
    message = str(error.value)
    assert message.startswith(f"the model has no head {unknown}; did you mean {nearest[unknown]}")
    assert message.endswith(
        "? known: dec0.cross.h0, dec0.cross.h1, dec0.cross.h2, dec0.self.h0, dec0.self.h1, dec0.self.h2, "
        "enc0.self.h0, enc0.self.h1, enc0.self.h2, enc1.self.h0, enc1.self.h1, enc1.self.h2"
    )


@pytest.mark.parametrize("again", ["enc1.self.h2", " enc1.self.h2", "enc01.self.h02"])
def test_a_head_named_twice_is_refused_however_it_is_written(again: str) -> None:
    with pytest.raises(InputError, match=f"head {again.strip()} is named twice"):
        parse_heads(["enc1.self.h2", "dec0.self.h0", again], sites_of(config_of("encoder-decoder")))


# Sites


def test_sites_stand_in_the_order_of_computation() -> None:
    config = config_of("encoder-decoder", decoder_layers=2)
    names = ["encoder.0.self", "encoder.1.self"]
    names += ["decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
    assert sites_of(config) == [HeadSite(name, (0, 1, 2)) for name in names]
    assert [site.kind for site in sites_of(config)] == ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]
    assert [site.side for site in sites_of(config)] == ["encoder"] * 2 + ["decoder"] * 4
    assert [site.layer for site in sites_of(config)] == [0, 1, 0, 0, 1, 1]
    assert [site.across for site in sites_of(config)] == [False, False, False, True, False, True]
    assert [site.name for site in sites_of(config_of("encoder"))] == ["encoder.0.self", "encoder.1.self"]
    assert [site.name for site in sites_of(config_of("decoder"))] == ["decoder.0.self", "decoder.1.self"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_sites_are_those_that_a_pass_goes_through(shape: str) -> None:
    model = tiny(shape, decoder_layers=None if shape == "encoder" else 3)
    record: dict[str, Tensor] = {}
    prefix = None if shape == "encoder" else torch.randint(0, 9, (2, 4))
    model(inputs_of(torch.randint(0, 9, (2, 5)), prefix), record)
    assert list(record) == [site.name for site in model.sites]


def all_heads(config: ModelConfig) -> list[str]:
    return [str(head) for site in sites_of(config) for head in site.heads]


@given(st.data())
def test_kept_heads_may_be_named_in_any_order(data: st.DataObject) -> None:
    config = config_of(data.draw(st.sampled_from(SHAPES)))
    kept = data.draw(st.lists(st.sampled_from(all_heads(config)), unique=True))
    sites = sites_of(replace(config, kept_heads=tuple(kept)))
    assert [site.name for site in sites] == [site.name for site in sites_of(config)]
    assert [str(head) for site in sites for head in site.heads] == [name for name in all_heads(config) if name in kept]


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (("enc0.self.h0", "enc0.self.h3"), r"the model has no head enc0\.self\.h3; did you mean enc0\.self\.h"),
        (("dec0.cross.h0",), r"the model has no head dec0\.cross\.h0; .*known: enc0\.self\.h0, "),
        (("enc0.self.h1", "enc0.self.h1"), r"head enc0\.self\.h1 is named twice"),
        (("h1",), r"'h1' is not a head; write it like enc0\.self\.h1"),
    ],
)
def test_a_model_with_impossible_kept_heads_is_refused(kept: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model_of(config_of("encoder", kept_heads=kept))


@pytest.mark.parametrize("wrong", ["enc0.self.h1", 3, ["enc0.self.h1", 2], {"enc0": 1}])
def test_kept_heads_of_a_recipe_are_a_list_of_names(wrong: object) -> None:
    with pytest.raises(InputError, match=r"model.kept_heads = .*; a (list of names|text in quotes) needed"):
        build(RunConfig, {"task": "addition", "train": {"steps": 1}, "model": {"kept_heads": wrong}}, "")


def test_kept_heads_are_written_to_config_json_and_read_back() -> None:
    for kept in (None, (), ("dec1.cross.h2", "enc0.self.h0")):
        table = {"task": "addition", "train": {"steps": 1}, "model": {"kept_heads": kept}}
        config = build(RunConfig, table, "")
        assert config.model.kept_heads == kept
        assert RunConfig.from_json(to_table(config.to_json())) == config
    older = config.to_json()
    del older["model"]["kept_heads"]  # as config.json was before there were any
    assert RunConfig.from_json(older).model.kept_heads is None


# Models


@pytest.mark.parametrize("shape", SHAPES)
def test_naming_every_head_is_the_same_as_naming_none(shape: str) -> None:
    config = config_of(shape)
    torch.manual_seed(1)
    whole = model_of(config).state_dict()
    torch.manual_seed(1)
    named = model_of(replace(config, kept_heads=tuple(reversed(all_heads(config))))).state_dict()
    assert list(whole) == list(named)
    assert all(torch.equal(whole[name], named[name]) for name in whole)


def test_the_state_of_a_model_with_all_its_heads_has_the_names_and_sizes_it_always_had() -> None:
    """Checkpoints from before heads could be taken out are still read."""
    model = model_of(config_of("encoder-decoder", encoder_layers=1, d_head=5, encoding=Choice(name="clipped")))
    attention = {
        **{f"{part}.weight": (15, 12) for part in ("query", "key", "value")},
        **{f"{part}.bias": (15,) for part in ("query", "key", "value")},
        **{"output.weight": (12, 15), "output.bias": (12,)},
    }
    norm = {"weight": (12,), "bias": (12,)}
    forward = {"expand.weight": (10, 12), "expand.bias": (10,), "contract.weight": (12, 10), "contract.bias": (12,)}
    block = {"own": attention, "own_norm": norm, "feed_forward": forward, "feed_forward_norm": norm}
    parts = {
        "embedding": {"weight": (9, 12)},
        **{f"encoding.tables.{kind}": {"weight": (33, 3)} for kind in ("encoder", "decoder", "cross")},
        **{f"encoder.0.{name}": sizes for name, sizes in block.items()},
        **{f"decoder.0.{name}": sizes for name, sizes in {**block, "cross": attention, "cross_norm": norm}.items()},
        **{"encoder_norm": norm, "decoder_norm": norm, "readout": {"weight": (9, 12), "bias": (9,)}},
    }
    expected = {f"{part}.{name}": size for part, sizes in parts.items() for name, size in sizes.items()}
    assert {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()} == expected


KEPT = {
    "encoder-decoder": ("enc0.self.h2", "dec0.self.h0", "dec0.self.h2", "dec0.cross.h1"),
    "encoder": ("enc0.self.h0", "enc0.self.h1"),
    "decoder": ("dec1.self.h2",),
}
"""Of each shape one site keeps no head."""


def random_inputs(shape: str) -> Inputs:
    visible = torch.arange(5) < torch.tensor([[5], [3]])
    source = torch.randint(0, 8, (2, 5)).masked_fill(~visible, 8)
    return inputs_of(source, None if shape == "encoder" else torch.randint(0, 8, (2, 4)), visible)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kept", ["some", "none"])
def test_a_model_without_some_heads_is_smaller_runs_and_trains(shape: str, kept: str) -> None:
    config = config_of(shape, kept_heads=KEPT[shape] if kept == "some" else (), dropout=0.1)
    model = unsettle(model_of(config))
    gone = len(all_heads(config_of(shape))) - len(config.kept_heads or ())
    a_head = 3 * (12 * 4 + 4) + 4 * 12
    assert count_parameters(model_of(config_of(shape))) - count_parameters(model) == gone * a_head
    assert check_size(config, 9, 2 if shape == "encoder" else 0) == count_parameters(model)
    inputs = random_inputs(shape)
    record: dict[str, Tensor] = {}
    with torch.inference_mode():
        torch.testing.assert_close(model.eval()(inputs, record), model(inputs), rtol=1e-5, atol=1e-5)
    for site in model.sites:
        assert record[site.name].shape[:2] == (2, len(site.kept))
    logits = model.train()(inputs)
    assert logits.isfinite().all()
    logits.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_attention_without_heads_adds_the_bias_of_its_output_alone(dtype: torch.dtype) -> None:
    model = unsettle(model_of(config_of("decoder", kept_heads=KEPT["decoder"]))).to(dtype).eval()
    assert [len(site.kept) for site in model.sites] == [0, 1]
    x = torch.randn(2, 5, 12, dtype=dtype)
    _, view, _ = model.decoder_start(random_inputs("decoder"))
    with torch.inference_mode():
        block = model.decoder[0]
        short = replace(view, visibility=Visibility(None, causal=True))
        place = replace(view.place, query_positions=torch.arange(5)[None], key_positions=torch.arange(5)[None])
        heads = block.self_attention_outputs(x, replace(short, place=place))
        assert heads.shape == (2, 5, 0, 4)
        assert torch.equal(block.add_own(x, heads), x + block.own.output.bias)


@pytest.mark.parametrize("shape", ["encoder-decoder", "decoder"])
@pytest.mark.parametrize("kept", ["some", "none"])
@pytest.mark.parametrize("encoding", ["sinusoidal", "rotary", *PER_HEAD])
def test_decoding_without_some_heads_agrees_with_the_parallel_pass(shape: str, kept: str, encoding: str) -> None:
    names = KEPT[shape] if kept == "some" else ()
    model = tiny(shape, encoding, **layers_of(shape), kept_heads=names)
    inputs = random_inputs(shape)

    def positions_of(tokens: Tensor, prefix: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return torch.arange(tokens.shape[1])[None], None if prefix is None else torch.arange(prefix.shape[1])[None]

    answers = [decode_greedily(model, inputs, positions_of, bos=7, eos=0, longest=6, cache=c) for c in (True, False)]
    assert torch.equal(*answers)
    prefix = torch.cat([torch.full((2, 1), 7), answers[0][:, :-1]], dim=1)
    predicted = model(inputs_of(inputs.source, prefix, inputs.source_visible)).argmax(-1)
    ended = (answers[0] == 0).cumsum(1) - (answers[0] == 0).long() > 0
    assert torch.equal(predicted[~ended], answers[0][~ended])


def layers_of(shape: str) -> dict[str, int | None]:
    config = config_of(shape)
    return {f"{stack}_layers": getattr(config, f"{stack}_layers") or None for stack in ("encoder", "decoder")}


# Biases that each head has for itself


@given(
    st.sampled_from(PER_HEAD),
    st.sampled_from(["encoder", "decoder", "cross"]),
    st.sets(st.integers(0, 3)),
    st.booleans(),
)
def test_a_kept_head_keeps_its_own_bias(encoding: str, kind: str, kept: set[int], recorded: bool) -> None:
    torch.manual_seed(4)
    some = tuple(sorted(kept))
    config = ModelConfig(d_model=20, n_heads=4, encoding=Choice(name=encoding))
    where = unsettle(make_encoding(config.encoding, Sizes(20, 4, 5, {kind: kind == "decoder"})))
    place = Place(where.double(), kind, torch.arange(6)[None] + 2, torch.arange(7)[None])
    whole, fewer = (unsettle(MultiHeadAttention(config, heads)).double() for heads in ((0, 1, 2, 3), some))
    with torch.no_grad():
        rows = [head * 5 + column for head in some for column in range(5)]
        for part in ("query", "key", "value"):
            getattr(fewer, part).weight.copy_(getattr(whole, part).weight[rows])
            getattr(fewer, part).bias.copy_(getattr(whole, part).bias[rows])
    x, memory = torch.randn(2, 6, 20).double(), torch.randn(2, 7, 20).double()
    visibility = Visibility(torch.arange(7) < torch.tensor([[7], [4]]))
    found = []
    for attention in (whole, fewer):
        key, value = attention.keys_and_values(memory, place.rotate_key)
        record: dict[str, Tensor] | None = {} if recorded else None
        found.append(attention.head_outputs_at(x, key, value, place, visibility, record, "here"))
    assert found[1].shape == (2, 6, len(some), 5)
    torch.testing.assert_close(found[1], found[0][:, :, list(some)], rtol=1e-12, atol=1e-12)
    bias = place.bias(range(6), torch.float64)
    assert bias is not None
    assert len({tuple(one.flatten().tolist()) for one in bias[0]}) == 4  # a bias of the wrong head would have shown
