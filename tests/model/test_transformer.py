"""The whole model: against PyTorch's with copied weights, and the laws every shape obeys."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from headway.config import Choice, ModelConfig
from headway.errors import InputError
from headway.model.blocks import Block
from headway.model.encodings import ENCODINGS
from headway.model.transformer import Inputs, Transformer, check_size, count_parameters, decode_greedily
from tests.model.test_attention import TOLERANCE, copy_attention


def copy_block(ours: Block, theirs: nn.Module) -> None:
    copy_attention(ours.own, theirs.self_attn)
    ours.own_norm.load_state_dict(theirs.norm1.state_dict())
    last = theirs.norm2
    if ours.cross is not None:
        copy_attention(ours.cross, theirs.multihead_attn)
        ours.cross_norm.load_state_dict(theirs.norm2.state_dict())
        last = theirs.norm3
    ours.feed_forward_norm.load_state_dict(last.state_dict())
    ours.feed_forward.expand.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.contract.load_state_dict(theirs.linear2.state_dict())


def unsettle(module: nn.Module) -> nn.Module:
    """Give every parameter a random value, so that no zero bias hides a mistake."""
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            nn.init.normal_(parameter, mean=1.0 if isinstance(part, nn.LayerNorm) else 0.0, std=0.3)
    return module


CASES = list(product(["pre", "post"], ["relu", "gelu"], [torch.float64, torch.float32]))


@pytest.mark.parametrize(("norm", "activation", "dtype"), CASES)
@pytest.mark.parametrize("causal", [False, True])
def test_with_copied_weights_it_is_torch_transformer_encoder(norm, activation, dtype, causal) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, activation, batch_first=True, norm_first=norm == "pre", dtype=dtype
    )
    final = nn.LayerNorm(12, dtype=dtype) if norm == "pre" else None
    theirs = unsettle(nn.TransformerEncoder(layer, 2, norm=final, enable_nested_tensor=False))
    config = ModelConfig(
        shape="encoder", d_model=12, n_heads=3, d_ff=20, encoder_layers=2, norm=norm, activation=activation,
        causal_encoder=causal, encoding=Choice(name="none"),
    )  # fmt: skip
    ours = Transformer(config, n_tokens=9, n_classes=2).to(dtype)
    for block, other in zip(ours.encoder, theirs.layers, strict=True):
        copy_block(block, other)
    if final is not None:
        ours.encoder_norm.load_state_dict(theirs.norm.state_dict())
    source = torch.randint(0, 9, (3, 6))
    visible = torch.arange(6) < torch.tensor([[6], [4], [1]])
    found = ours.encode(Inputs(source, torch.arange(6)[None], visible))
    future = ~torch.ones(6, 6, dtype=torch.bool).tril() if causal else None
    expected = theirs(ours.embedding(source), mask=future, src_key_padding_mask=~visible)
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(found[visible], expected[visible], **close)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # said by PyTorch while it builds its model
@pytest.mark.parametrize(("norm", "activation", "dtype"), CASES)
def test_with_copied_weights_it_is_torch_transformer(norm, activation, dtype) -> None:
    torch.manual_seed(0)
    theirs = unsettle(
        nn.Transformer(12, 3, 2, 1, 20, 0.0, activation, batch_first=True, norm_first=norm == "pre", dtype=dtype)
    )
    if norm == "post":  # headway has a last norm only where the residual stream is not normed already
        theirs.encoder.norm = theirs.decoder.norm = None
    config = ModelConfig(
        d_model=12, n_heads=3, d_ff=20, encoder_layers=2, decoder_layers=1, norm=norm, activation=activation,
        encoding=Choice(name="none"),
    )  # fmt: skip
    ours = Transformer(config, n_tokens=9).to(dtype)
    for blocks, others in ((ours.encoder, theirs.encoder.layers), (ours.decoder, theirs.decoder.layers)):
        for block, other in zip(blocks, others, strict=True):
            copy_block(block, other)
    if norm == "pre":
        ours.encoder_norm.load_state_dict(theirs.encoder.norm.state_dict())
        ours.decoder_norm.load_state_dict(theirs.decoder.norm.state_dict())
    source, prefix = torch.randint(0, 9, (3, 6)), torch.randint(0, 9, (3, 4))
    visible = torch.arange(6) < torch.tensor([[6], [4], [1]])
    inputs = Inputs(source, torch.arange(6)[None], visible, prefix, torch.arange(4)[None])
    expected = theirs(
        ours.embedding(source),
        ours.embedding(prefix),
        tgt_mask=~torch.ones(4, 4, dtype=torch.bool).tril(),
        src_key_padding_mask=~visible,
        memory_key_padding_mask=~visible,
    )
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(ours(inputs), ours.readout(expected), **close)


def tiny(shape: str, encoding: str = "sinusoidal", **options: object) -> Transformer:
    torch.manual_seed(3)
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 10, **options}
    config = ModelConfig(shape=shape, encoding=Choice(name=encoding), **sizes)
    model = Transformer(config, n_tokens=9, n_classes=2 if shape == "encoder" else 0)
    unsettle(model)
    with torch.no_grad():
        model.embedding.weight.mul_(5)  # so that answers depend on the question
    return model.double().eval()


def inputs_of(source: Tensor, prefix: Tensor | None, visible: Tensor | None = None) -> Inputs:
    where = None if prefix is None else torch.arange(prefix.shape[1])[None]
    return Inputs(source, torch.arange(source.shape[1])[None], visible, prefix, where)


SHAPES = ["encoder-decoder", "decoder"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("encoding", ENCODINGS.names())
@pytest.mark.parametrize("log_length_scale", [False, True])
def test_a_future_token_never_changes_a_past_output(shape, encoding, log_length_scale) -> None:
    model = tiny(shape, encoding, log_length_scale=log_length_scale)
    source, prefix = torch.randint(0, 9, (2, 5)), torch.randint(0, 9, (2, 6))
    before = model(inputs_of(source, prefix))
    for place in range(1, 6):
        changed = prefix.clone()
        changed[:, place:] = (changed[:, place:] + 1) % 9
        after = model(inputs_of(source, changed))
        assert torch.equal(before[:, :place], after[:, :place])
        assert not torch.equal(before[:, place:], after[:, place:])


@pytest.mark.parametrize("encoding", ENCODINGS.names())
def test_a_causal_encoder_never_sees_what_comes_later(encoding) -> None:
    model = tiny("encoder", encoding, causal_encoder=True)
    source = torch.randint(0, 9, (2, 7))
    changed = source.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 9
    before, after = (model.encode(model.placed(inputs_of(tokens, None))) for tokens in (source, changed))
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("shape", [*SHAPES, "encoder"])
@pytest.mark.parametrize("encoding", ENCODINGS.names())
@pytest.mark.parametrize("log_length_scale", [False, True])
def test_padding_never_changes_anything(shape, encoding, log_length_scale) -> None:
    model = tiny(shape, encoding, log_length_scale=log_length_scale)
    source = torch.randint(0, 8, (2, 5))
    prefix = None if shape == "encoder" else torch.randint(0, 8, (2, 4))
    alone = model(inputs_of(source, prefix))
    padded = torch.cat([source, torch.full((2, 6), 8)], dim=1)
    visible = torch.arange(11) < torch.tensor([[5], [5]])
    # 1e-12: the padded sums have the same terms plus exact zeros, in blocks of another size.
    torch.testing.assert_close(model(inputs_of(padded, prefix, visible)), alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("encoding", ENCODINGS.names())
def test_decoding_with_and_without_kept_keys_agrees_with_the_parallel_pass(shape, encoding) -> None:
    model = tiny(shape, encoding, encoder_layers=2 if shape == "encoder-decoder" else None, decoder_layers=2)
    source = torch.randint(0, 7, (4, 6))
    visible = torch.arange(6) < torch.tensor([[6], [4], [1], [5]])
    source = source.masked_fill(~visible, 8)

    def positions_of(tokens: Tensor, prefix: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return torch.arange(tokens.shape[1])[None], None if prefix is None else torch.arange(prefix.shape[1])[None]

    start = Inputs(source, torch.arange(6)[None], visible)
    answers = [
        decode_greedily(model, start, positions_of, bos=7, eos=0, longest=8, cache=cache) for cache in (True, False)
    ]
    assert torch.equal(*answers)
    prefix = torch.cat([torch.full((4, 1), 7), answers[0][:, :-1]], dim=1)
    predicted = model(inputs_of(source, prefix, visible)).argmax(-1)
    ended = (answers[0] == 0).cumsum(1) - (answers[0] == 0).long() > 0
    assert torch.equal(predicted[~ended], answers[0][~ended])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("encoding", ENCODINGS.names())
@pytest.mark.parametrize("log_length_scale", [False, True])
def test_step_by_step_with_kept_keys_gives_the_logits_of_the_parallel_pass(shape, encoding, log_length_scale) -> None:
    model = tiny(shape, encoding, decoder_layers=2, log_length_scale=log_length_scale)
    source, prefix = torch.randint(0, 8, (3, 6)), torch.randint(0, 8, (3, 5))
    visible = torch.arange(6) < torch.tensor([[6], [4], [1]])
    whole = model(inputs_of(source, prefix, visible))
    memory = model.begin(model.placed(inputs_of(source, prefix[:, :1], visible)))
    for step in range(5):
        so_far = model.placed(inputs_of(source, prefix[:, : step + 1], visible))
        logits = model.decode(memory, so_far, done=step, keep=True)
        torch.testing.assert_close(logits[:, 0], whole[:, step], rtol=1e-12, atol=1e-12)
    assert whole.std(0).min() > 1e-3  # the answers do depend on the question


def test_recording_stores_the_weights_of_every_site_and_changes_nothing() -> None:
    model = tiny("encoder-decoder", "t5", encoder_layers=2, decoder_layers=1)
    inputs = inputs_of(torch.randint(0, 9, (2, 5)), torch.randint(0, 9, (2, 4)))
    record: dict[str, Tensor] = {}
    torch.testing.assert_close(model(inputs, record), model(inputs), rtol=1e-12, atol=1e-12)
    shapes = {name: tuple(weights.shape) for name, weights in record.items()}
    assert shapes == {
        "encoder.0.self": (2, 3, 5, 5),
        "encoder.1.self": (2, 3, 5, 5),
        "decoder.0.self": (2, 3, 4, 4),
        "decoder.0.cross": (2, 3, 4, 5),
    }


def test_the_width_of_a_head_is_free() -> None:
    model = tiny("encoder-decoder", d_head=5)
    assert model.decoder[0].cross.query.weight.shape == (15, 12)
    assert model(inputs_of(torch.zeros(1, 3).long(), torch.zeros(1, 2).long())).shape == (1, 2, 9)


def test_counting_parameters_fills_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Normal numbers for a tensor without memory would import PyTorch's compiler, which takes longer than a command."""

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("a table was filled")

    monkeypatch.setattr(torch.Tensor, "normal_", refuse)
    assert check_size(ModelConfig(encoding=Choice(name="learned")), 14) > 0


def test_the_course_model_has_about_930_000_parameters() -> None:
    assert check_size(ModelConfig(), 14) == count_parameters(Transformer(ModelConfig(), 14)) == 929_806


def test_a_model_far_too_large_is_refused_without_being_built() -> None:
    with pytest.raises(InputError, match=r"the model would have .* parameters; at most 2,000,000,000"):
        check_size(ModelConfig(d_model=16_384, n_heads=1, d_ff=131_072, encoder_layers=256), 14)


@pytest.mark.parametrize(("shape", "n_classes"), [("encoder", 0), ("encoder-decoder", 2), ("decoder", 2)])
def test_a_shape_that_does_not_fit_the_task_is_refused(shape: str, n_classes: int) -> None:
    with pytest.raises(InputError, match=f"model.shape = '{shape}', and the task"):
        Transformer(ModelConfig(shape=shape), 9, n_classes)


@pytest.mark.parametrize("encoding", ["coupled", "abacus", "randomized"])
def test_source_and_prefix_are_moved_together_once_a_pass(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("encoder-decoder", encoding).train()
    calls, right = [], model.encoding.place

    def counted(*where: Tensor) -> tuple[Tensor, Tensor | None]:
        calls.append(right(*where))
        return calls[-1]

    monkeypatch.setattr(model.encoding, "place", counted)
    seen = []
    embed = model.encoding.embed
    monkeypatch.setattr(model.encoding, "embed", lambda positions: seen.append(positions) or embed(positions))
    model(inputs_of(torch.randint(0, 9, (2, 5)), torch.randint(0, 9, (2, 4))))
    assert len(calls) == 1
    assert [torch.equal(used, drawn) for used, drawn in zip(seen, calls[0], strict=True)] == [True, True]


def test_tokens_after_the_end_are_the_end() -> None:
    """A model that writes 3, the end and then 5 for ever, beside one that never ends."""

    def decode(memory: object, inputs: Inputs, *, done: int, keep: bool) -> Tensor:
        tokens = torch.tensor([[3, 0, 5, 5][done], 4])
        return nn.functional.one_hot(tokens, 6).float()[:, None]

    shape = {"shape": "decoder", "d_model": 4, "n_heads": 1, "d_ff": 4, "decoder_layers": 1}
    model = Transformer(ModelConfig(**shape), 6).eval()
    model.decode = decode  # type: ignore[assignment,method-assign]
    start = Inputs(torch.zeros(2, 3, dtype=torch.long), torch.arange(3)[None], None)

    def places(source: Tensor, prefix: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(source.shape[1])[None], torch.arange(prefix.shape[1])[None]

    written = decode_greedily(model, start, places, bos=1, eos=0, longest=4)
    assert written.tolist() == [[3, 0, 0, 0], [4, 4, 4, 4]]
