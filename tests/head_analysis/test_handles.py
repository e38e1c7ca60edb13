"""Hooks at the handles: they fire or complain, they see every axis in its place, and they go away again."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.batches import make_batch
from headway.cli.main import run
from headway.errors import InputError, InstrumentError
from headway.evaluation import decode
from headway.head_analysis.handles import attention_at, edits_of, intervene
from headway.head_analysis.partial_forward import PartialForward, head_outputs
from headway.head_analysis.variants import heads_of
from headway.model.blocks import Block
from headway.model.transformer import Transformer
from headway.training import train
from tests.head_analysis.small import ADDITION, SHAPES, SORTEDNESS, untrained
from tests.head_analysis.test_partial_forward import batch_of
from tests.model.test_transformer import tiny
from tests.tiny import config


def same(heads: Tensor) -> Tensor:
    return heads


def hooks_left(model: Transformer) -> int:
    return sum(len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules())


# They fire


def test_a_hook_that_did_not_fire_is_an_error_and_is_named() -> None:
    model, inputs = tiny("encoder-decoder"), batch_of("encoder-decoder")
    edits = {"encoder.0.self": same, "decoder.0.cross": same, "decoder.1.self": same}
    message = r"the hook at decoder\.0\.cross, decoder\.1\.self did not fire: nothing was measured there"
    with pytest.raises(InstrumentError, match=message), intervene(model, edits):
        model.encode(inputs)
    assert hooks_left(model) == 0
    with intervene(model, edits):
        model(inputs)


def test_no_edits_are_no_complaint() -> None:
    model = tiny("encoder")
    with intervene(model, {}):
        assert hooks_left(model) == 0


def own_output_without_its_module(self: Block, x: Tensor, heads: Tensor) -> Tensor:
    """As a faster block might do it: the same numbers, but no hook can see them."""
    weight, bias = self.own.output.weight, self.own.output.bias
    return self._add(x, self.own_norm, F.linear(heads.flatten(2), weight, bias))


def test_on_the_command_line_it_is_one_line_and_exit_code_1(tmp_path: Path, monkeypatch, capsys) -> None:
    train(config(SORTEDNESS), tmp_path / "run", device="cpu")
    monkeypatch.setattr(Block, "add_own", own_output_without_its_module)
    assert run(["heads", str(tmp_path / "run"), "--no-figures", "--quiet"]) == 1
    stderr = capsys.readouterr().err
    assert "the hook at encoder.0.self, encoder.1.self did not fire: nothing was measured there" in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run" / "analysis" / "heads.json").exists()


def test_they_fire_at_every_step_of_decoding() -> None:
    trained = untrained(ADDITION)
    batch = make_batch(trained.task, trained.model, trained.examples("test").take(slice(0, 2)), torch.device("cpu"))
    seen: dict[str, list[tuple[int, ...]]] = {site.name: [] for site in trained.model.sites}
    for cache in (True, False):
        for calls in seen.values():
            calls.clear()
        edits = {name: lambda heads, name=name: seen[name].append(tuple(heads.shape)) or heads for name in seen}
        with intervene(trained.model, edits):
            steps = decode(trained.model, trained.task, batch, cache=cache).shape[1]
        queries = [1] * steps if cache else list(range(1, steps + 1))
        assert seen["decoder.0.cross"] == [(2, n, 3, 5) for n in queries]
        assert seen["encoder.0.self"] == [(2, 5, 3, 5)] * (1 if cache else steps)


# They see every axis in its place


@pytest.mark.parametrize("name", SHAPES)
def test_an_edit_is_given_batch_query_head_and_width_of_a_head(name: str) -> None:
    trained = untrained(SHAPES[name], model={"d_head": 7})
    batch = make_batch(trained.task, trained.model, trained.examples("test").take(slice(0, 2)), torch.device("cpu"))
    source = batch.inputs.source.shape[1]
    answer = 0 if batch.inputs.prefix is None else batch.inputs.prefix.shape[1]
    assert len({2, source, answer, 3, 7}) == 5
    queries = {"encoder": source, "decoder": answer if trained.model.config.shape != "decoder" else source + answer}
    expected = head_outputs(PartialForward(trained.model, batch.inputs))
    seen: dict[str, Tensor] = {}
    edits = {site.name: lambda heads, at=site.name: seen.update({at: heads}) or heads for site in trained.model.sites}
    with intervene(trained.model, edits), torch.inference_mode():
        trained.model(batch.inputs)
    for site in trained.model.sites:
        assert seen[site.name].shape == (2, queries[site.side], 3, 7)
        assert torch.equal(seen[site.name], expected[site.name])


def test_switching_one_head_off_is_zeroing_its_columns_of_the_output() -> None:
    model, inputs = tiny("encoder-decoder", d_head=5), batch_of("encoder-decoder")

    def off(heads: Tensor) -> Tensor:
        return heads.index_fill(2, torch.tensor([1]), 0.0)

    with intervene(model, {"decoder.1.cross": off}):
        found = model(inputs)
    with torch.no_grad():
        model.decoder[1].cross.output.weight[:, 5:10] = 0
    torch.testing.assert_close(found, model(inputs), rtol=1e-12, atol=1e-12)


def test_a_pruned_site_shows_the_heads_it_has() -> None:
    kept = ("enc0.self.h2", "dec0.cross.h0", "dec0.cross.h1")
    model = tiny("encoder-decoder", encoder_layers=1, decoder_layers=1, kept_heads=kept)
    seen: dict[str, tuple[int, ...]] = {}
    edits = {at.name: lambda heads, at=at: seen.update({at.name: heads.shape}) or heads for at in model.sites}
    with intervene(model, edits):
        model(batch_of("encoder-decoder"))
    assert seen == {"encoder.0.self": (2, 6, 1, 4), "decoder.0.self": (2, 5, 0, 4), "decoder.0.cross": (2, 5, 2, 4)}


# Sites


@pytest.mark.parametrize(("wrong", "nearest"), [("decoder.0.crss", "decoder.0.cross"), ("encoder.2.self", "encoder.")])
def test_an_unknown_site_is_refused_with_the_nearest(wrong: str, nearest: str) -> None:
    model = tiny("encoder-decoder", encoder_layers=1, decoder_layers=1)
    message = rf"the model has no site '{wrong}'; did you mean {nearest}.*known: decoder\.0\.cross, decoder\.0\.self, e"
    for edits in ({wrong: same}, {"encoder.0.self": same, wrong: same}):
        with pytest.raises(InputError, match=message), intervene(model, edits):
            raise AssertionError("never entered")
        assert hooks_left(model) == 0


def test_every_site_leads_to_its_own_attention() -> None:
    model = tiny("encoder-decoder")
    found = [attention_at(model, site.name) for site in model.sites]
    blocks = list(model.decoder)
    assert found[:2] == [block.own for block in model.encoder]
    assert found[2:] == [blocks[0].own, blocks[0].cross, blocks[1].own, blocks[1].cross]


# They go away


def test_nothing_is_left_behind() -> None:
    model, inputs = tiny("encoder-decoder"), batch_of("encoder-decoder")
    before = model(inputs)
    with intervene(model, {site.name: torch.zeros_like for site in model.sites}):
        assert hooks_left(model) == 6
        assert not torch.equal(model(inputs), before)
    assert hooks_left(model) == 0
    assert torch.equal(model(inputs), before)


def test_nothing_is_left_behind_after_an_error_and_the_error_is_the_one_raised() -> None:
    model, inputs = tiny("encoder-decoder"), batch_of("encoder-decoder")

    def fail(heads: Tensor) -> Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), intervene(model, {"decoder.0.self": fail, "decoder.1.self": same}):
        model(inputs)
    assert hooks_left(model) == 0
    with pytest.raises(KeyError), intervene(model, {"decoder.0.self": same}):
        raise KeyError  # and not that the hook did not fire
    assert hooks_left(model) == 0


def test_two_at_once_each_undo_their_own() -> None:
    model, inputs = tiny("decoder"), batch_of("decoder")
    with intervene(model, {"decoder.0.self": torch.zeros_like}):
        outer = model(inputs)
        with intervene(model, {"decoder.1.self": torch.zeros_like}):
            assert not torch.equal(model(inputs), outer)
        assert torch.equal(model(inputs), outer)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_edit_is_at_the_site_of_the_masked_head(shape: str) -> None:
    """Whichever head is masked, its own output is replaced and no other."""
    trained = untrained(SHAPES[shape])
    batch = make_batch(trained.task, trained.model, trained.examples("test").take(slice(0, 3)), trained.device)
    nothing = {site.name: torch.zeros(()) for site in trained.model.sites}
    heads = heads_of(trained)
    for row, head in zip(np.eye(len(heads), dtype=np.int64), heads, strict=True):
        edits = edits_of(trained.model, row, [nothing])
        assert list(edits) == [head.site]
        own = head_outputs(PartialForward(trained.model, batch.inputs))[head.site]
        zeroed = (edits[head.site](own) == 0).flatten(3).all(-1).all(1).all(0)
        beside = [one for one in heads if one.site == head.site]
        assert zeroed.nonzero().flatten().tolist() == [beside.index(head)]
