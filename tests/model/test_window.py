"""A window: attention reaches positions at most so far away, so nothing depends on how long the rest is."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.batches import collate, make_model
from headway.config import Choice, ModelConfig, build
from headway.errors import InputError
from headway.model import dot_products
from headway.model.attention import Place
from headway.model.encodings import ENCODINGS, Sizes, make_encoding
from headway.model.transformer import Inputs, Transformer
from headway.tasks import make_task
from tests.model.test_transformer import inputs_of, tiny

WINDOWED = [name for name in ENCODINGS.names() if name not in ("randomized", "abacus", "coupled")]
"""The others move places apart, or count digits, which has a test of its own."""


def encoded(model: Transformer, source: Tensor) -> Tensor:
    return model.encode(model.placed(inputs_of(source, None)))


@pytest.mark.parametrize("encoding", WINDOWED)
@pytest.mark.parametrize("chunk", [1 << 22, 2 * 3 * 12 * 5])
def test_a_token_reaches_as_far_as_the_windows_of_all_layers(
    encoding: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(dot_products.CHUNK_ELEMENTS, "cpu", chunk)  # the small one: five queries at a time
    model = tiny("encoder", encoding, encoder_layers=2, window=2)
    source = torch.randint(0, 9, (2, 12))
    changed = source.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 9
    moved = (encoded(model, source) != encoded(model, changed)).any(-1).any(0)
    assert moved.tolist() == [abs(place - 5) <= 4 for place in range(12)]


@given(st.integers(0, 4), st.integers(5, 9), st.integers(0, 6))
@settings(max_examples=20, deadline=None)
def test_inside_a_longer_sequence_the_same_neighbours_give_the_same(window: int, length: int, more: int) -> None:
    model = tiny("encoder", "clipped", encoder_layers=1, window=window)
    source = torch.randint(0, 9, (1, length + 2 * more))
    inside = slice(more + window, more + length - window)
    if inside.start >= inside.stop:
        return
    part, whole = encoded(model, source[:, more : more + length]), encoded(model, source)
    torch.testing.assert_close(part[:, window : length - window], whole[:, inside], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("encoding", ["none", "clipped", "rotary"])
@pytest.mark.parametrize("shape", ["encoder-decoder", "decoder"])
def test_recorded_weights_stay_inside_and_change_nothing(shape: str, encoding: str) -> None:
    """A prefix further out than the source sees none of it; both ways of attention agree on such blind queries."""
    model = tiny(shape, encoding, decoder_layers=2, window=1)
    inputs = inputs_of(torch.randint(0, 9, (2, 4)), torch.randint(0, 9, (2, 7)))
    record: dict[str, Tensor] = {}
    torch.testing.assert_close(model(inputs, record), model(inputs), rtol=1e-12, atol=1e-12)
    for name, weights in record.items():
        query, key = (torch.arange(n)[:, None] for n in weights.shape[2:])
        far = (query - key.T).abs() > 1
        assert (weights[:, :, far] == 0).all(), name
        assert (weights[:, :, ~far] > 0).any(), name


@pytest.mark.parametrize("shape", ["encoder-decoder", "decoder"])
def test_step_by_step_with_kept_keys_is_the_parallel_pass(shape: str) -> None:
    model = tiny(shape, "clipped", decoder_layers=2, window=1)
    source, prefix = torch.randint(0, 8, (3, 6)), torch.randint(0, 8, (3, 5))
    visible = torch.arange(6) < torch.tensor([[6], [4], [1]])
    whole = model(inputs_of(source, prefix, visible))
    memory = model.begin(model.placed(inputs_of(source, prefix[:, :1], visible)))
    for step in range(5):
        so_far = model.placed(inputs_of(source, prefix[:, : step + 1], visible))
        logits = model.decode(memory, so_far, done=step, keep=True)
        torch.testing.assert_close(logits[:, 0], whole[:, step], rtol=1e-12, atol=1e-12)


def test_what_is_not_a_digit_is_seen_by_all_and_sees_its_like() -> None:
    choice = Choice(name="clipped", options={"positions": "coupled"})
    sizes = Sizes(d_model=4, n_heads=2, d_head=2, kinds={"cross": False})
    places = torch.tensor([[0, 1, 2, 3, 4]])
    encoding = make_encoding(choice, sizes)
    near = Place(encoding, "cross", places, places, window=1).near(range(5))
    assert near is not None
    assert near[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 0, 1, 1, 1],
        [1, 0, 0, 1, 1],
    ]


@pytest.mark.parametrize("shape", ["encoder-decoder", "decoder"])
def test_columns_far_above_do_not_change_a_sum_below(shape: str) -> None:
    """With one layer each, what is written in column 0 depends on columns 0 to 2, and on nothing above."""
    task = make_task(Choice(name="addition-text", options={"order": "least-significant-first"}))
    table = {"shape": shape, "d_model": 12, "n_heads": 2, "d_ff": 10, "window": 1, "decoder_layers": 1,
             "encoding": {"name": "clipped", "clip": 2, "positions": "coupled"}}  # fmt: skip
    if shape == "encoder-decoder":
        table["encoder_layers"] = 1
    torch.manual_seed(0)
    model = make_model(task, build(ModelConfig, table, "model")).double().eval()

    def first_logits(a: str, b: str) -> Tensor:
        source, _ = task.from_record({"input": f"{a} + {b} = ", "target": str(int(a) + int(b))[::-1]})
        rows = np.array([source])
        batch = collate(task, model, *(torch.from_numpy(x) for x in (rows, task.answer(rows))), padded=False)
        return model(batch.inputs)[0, 0]

    base = first_logits("9123", "4456")
    torch.testing.assert_close(first_logits("77779123", "1114456"), base, rtol=1e-12, atol=1e-12)
    if shape == "encoder-decoder":  # one decoder layer alone reaches column 1
        assert (first_logits("9923", "4456") - base).abs().max() > 1e-4
    assert (first_logits("9133", "4456") - base).abs().max() > 1e-4


def test_windows_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match=r"model\.window and model\.log_length_scale exclude each other"):
        ModelConfig(window=3, log_length_scale=True)
    with pytest.raises(InputError, match=r"model\.window = -1"):
        build(ModelConfig, {"window": -1}, "model")


def test_counting_columns_needs_a_task_that_has_them() -> None:
    task = make_task(Choice(name="sortedness"))
    table = {"shape": "encoder", "encoding": {"name": "clipped", "positions": "coupled"}}
    with pytest.raises(InputError, match="task 'sortedness' has no coupled positions"):
        make_model(task, build(ModelConfig, table, "model"))


def test_a_window_of_nothing_leaves_a_bag_of_tokens() -> None:
    """With a window of 0 and no encoding, every token is alone, so the order cannot matter."""
    model = tiny("encoder", "none", window=0)
    source = torch.randint(0, 9, (2, 6))
    turned = source.flip(1)
    one, other = (model(Inputs(rows, torch.arange(6)[None])) for rows in (source, turned))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    with pytest.raises(
        InputError, match=r"model\.cross_window = 2, and model\.shape = 'decoder' has no cross attention"
    ):
        ModelConfig(shape="decoder", cross_window=2)
    with pytest.raises(InputError, match=r"exclude each other"):
        ModelConfig(cross_window=2, log_length_scale=True)


def test_each_kind_of_attention_may_have_its_own_window() -> None:
    model = tiny("encoder-decoder", "none", decoder_layers=2, window=3, encoder_window=0, cross_window=1)
    record: dict[str, Tensor] = {}
    model(inputs_of(torch.randint(0, 9, (2, 8)), torch.randint(0, 9, (2, 7))), record)
    for name, weights in record.items():
        query, key = (torch.arange(n)[:, None] for n in weights.shape[2:])
        seen = (weights > 0).any(0).any(0)
        reach = 0 if name.startswith("encoder") else 1 if "cross" in name else 3
        assert int((query - key.T).abs()[seen].max()) == reach, name


def test_without_a_window_for_all_the_other_kinds_see_everything() -> None:
    model = tiny("encoder-decoder", "none", decoder_layers=2, decoder_window=0)
    record: dict[str, Tensor] = {}
    model(inputs_of(torch.randint(0, 9, (2, 8)), torch.randint(0, 9, (2, 7))), record)
    assert all((weights > 0).all() for name, weights in record.items() if "cross" in name or "encoder" in name)
    own = next(weights for name, weights in record.items() if name == "decoder.0.self")
    assert torch.equal((own > 0)[0, 0], torch.eye(7, dtype=torch.bool))


def test_a_window_and_an_encoding_that_moves_neighbours_apart_exclude_each_other() -> None:
    config = ModelConfig(shape="encoder", window=2, encoding=Choice(name="randomized"), pooling=Choice(name="mean"))
    with pytest.raises(
        InputError, match=r"model.window counts positions, and model.encoding = 'randomized' moves them"
    ):
        Transformer(config, 9, 2)
