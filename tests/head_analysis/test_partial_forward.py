"""The forward is the model's forward pass, and a tree of variants is each of them alone."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.head_analysis import partial_forward
from headway.head_analysis.handles import Edit, intervene
from headway.head_analysis.partial_forward import PartialForward, Replacement, head_outputs, run_tree
from headway.model.attention import MultiHeadAttention
from headway.model.encodings import ENCODINGS
from headway.model.transformer import Inputs, Transformer
from tests.model.test_transformer import inputs_of, tiny

SHAPES = ["encoder-decoder", "encoder", "decoder"]
LAYERS = {
    "encoder-decoder": {"encoder_layers": 2, "decoder_layers": 2},
    "encoder": {"encoder_layers": 3},
    "decoder": {"decoder_layers": 3},
}


def batch_of(shape: str, *, padded: bool = True) -> Inputs:
    """Two rows; six source tokens, of which the second row lacks two, and five of the answer."""
    torch.manual_seed(8)
    visible = torch.arange(6) < torch.tensor([[6], [4]]) if padded else None
    source = torch.randint(0, 8, (2, 6))
    if visible is not None:
        source = source.masked_fill(~visible, 8)
    return inputs_of(source, None if shape == "encoder" else torch.randint(0, 8, (2, 5)), visible)


def walked(model: Transformer, inputs: Inputs) -> Tensor:
    forward = PartialForward(model, inputs)
    state = forward.start()
    for site in forward.sites:
        state = forward.continue_from(state, site, forward.head_outputs_at(state, site))
    return forward.logits(state)


# The forward


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_walk_is_the_forward_pass_to_the_last_bit(shape, norm, padded, dtype) -> None:
    model = tiny(shape, **LAYERS[shape], norm=norm, activation="relu" if norm == "post" else "gelu").to(dtype)
    inputs = batch_of(shape, padded=padded)
    assert torch.equal(walked(model, inputs), model(inputs))


@pytest.mark.parametrize("encoding", ENCODINGS.names())
@pytest.mark.parametrize("log_length_scale", [False, True])
def test_it_is_so_with_every_encoding(encoding, log_length_scale) -> None:
    model = tiny("encoder-decoder", encoding, log_length_scale=log_length_scale, causal_encoder=log_length_scale)
    inputs = batch_of("encoder-decoder")
    assert torch.equal(walked(model, inputs), model(inputs))


@pytest.mark.parametrize("shape", ["encoder", "decoder"])
@pytest.mark.parametrize("encoding", ["rotary", "t5", "randomized"])
def test_it_is_so_with_scaled_scores_and_moved_positions_in_the_other_shapes(shape, encoding) -> None:
    model = tiny(shape, encoding, log_length_scale=True, causal_encoder=shape == "encoder")
    inputs = batch_of(shape)
    assert torch.equal(walked(model, inputs), model(inputs))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_walk_can_be_taken_again(shape) -> None:
    model, inputs = tiny(shape), batch_of(shape)
    forward = PartialForward(model, inputs)
    for _ in range(2):
        state = forward.start()
        for site in forward.sites:
            state = forward.continue_from(state, site, forward.head_outputs_at(state, site))
        assert torch.equal(forward.logits(state), model(inputs))


@pytest.mark.parametrize("shape", SHAPES)
def test_what_heads_bring_is_what_goes_into_the_output_projections(shape) -> None:
    model, inputs = tiny(shape, **LAYERS[shape]), batch_of(shape)
    seen: dict[str, Tensor] = {}
    handles = [
        part.output.register_forward_pre_hook(lambda _, given, name=name: seen.update({name: given[0]}))
        for name, part in model.named_modules()
        if isinstance(part, MultiHeadAttention)
    ]
    with torch.inference_mode():
        model(inputs)
    for handle in handles:
        handle.remove()
    found = head_outputs(PartialForward(model, inputs))
    assert list(found) == [site.name for site in model.sites]
    for site in model.sites:
        module = f"{site.side}.{site.layer}.{'cross' if site.across else 'own'}"
        queries = {"encoder-decoder": 6 if site.side == "encoder" else 5, "encoder": 6, "decoder": 11}[shape]
        assert found[site.name].shape == (2, queries, 3, 4)
        assert torch.equal(found[site.name].flatten(2), seen[module])


# The tree

HEADS = {"encoder-decoder": 18, "encoder": 9, "decoder": 9, "pruned": 6}


@cache
def model_and_batch(name: str) -> tuple[Transformer, Inputs]:
    """A model of each shape, and one that has lost some heads, at one site all."""
    if name == "pruned":
        kept = ("enc0.self.h1", "enc1.self.h0", "enc1.self.h2", "dec1.self.h2", "dec0.cross.h0", "dec1.cross.h1")
        return tiny("encoder-decoder", "t5", **LAYERS["encoder-decoder"], kept_heads=kept), batch_of("encoder-decoder")
    return tiny(name, **LAYERS[name]), batch_of(name)


def fillings_for(model: Transformer, inputs: Inputs, seed: int) -> list[Replacement]:
    """One number, a vector for each head, one for each head and place, and one for each row too."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    shapes = {name: tuple(heads.shape) for name, heads in head_outputs(PartialForward(model, inputs)).items()}
    return [{name: normal(*shape[cut:]) for name, shape in shapes.items()} for cut in (4, 2, 1, 0)]


@st.composite
def plans(draw: st.DrawFn) -> tuple[str, int, np.ndarray]:
    """A model's name, a seed for its replacements, and what up to seven variants do to each head."""
    name = draw(st.sampled_from(list(HEADS)))
    heads = HEADS[name]
    # Mostly 0, so that variants share long beginnings; copies of one another among them.
    row = st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3, 4]), min_size=heads, max_size=heads)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    return name, draw(st.integers(0, 99)), np.array([*rows, rows[0]], dtype=np.int64)


def alone(model: Transformer, inputs: Inputs, row: np.ndarray, replacements: list[Replacement]) -> Tensor:
    """One variant by hooks, head by head."""

    def edit_for(site: str, codes: list[int]) -> Edit:
        def edit(heads: Tensor) -> Tensor:
            heads = heads.clone()
            for place, code in enumerate(codes):
                if code:
                    heads[:, :, place] = replacements[code - 1][site].expand(heads.shape)[:, :, place]
            return heads

        return edit

    edits, column = {}, 0
    for site in model.sites:
        edits[site.name] = edit_for(site.name, row[column : column + len(site.kept)].tolist())
        column += len(site.kept)
    with intervene(model, edits), torch.inference_mode():
        return model(inputs)


def tree(
    forward: PartialForward, plan: np.ndarray, replacements: list[Replacement], together: int = 1
) -> dict[int, Tensor]:
    """The logits of each variant; every one is told once."""
    found: dict[int, Tensor] = {}

    def note(alike: np.ndarray, logits: Tensor) -> None:
        assert not found.keys() & set(alike.tolist())
        found.update(dict.fromkeys(alike.tolist(), logits))

    run_tree(forward, plan, replacements, note, together)
    assert sorted(found) == list(range(len(plan)))
    return found


@given(plans(), st.sampled_from([1, 2, 5]))
@settings(max_examples=40)
def test_a_tree_of_variants_is_each_of_them_alone(case: tuple[str, int, np.ndarray], together: int) -> None:
    name, seed, plan = case
    model, inputs = model_and_batch(name)
    replacements = fillings_for(model, inputs, seed)
    found = tree(PartialForward(model, inputs), plan, replacements, together)
    for variant, row in enumerate(plan):
        expected = alone(model, inputs, row, replacements)
        # fp64, and sums of a few terms in another order where branches are computed together.
        torch.testing.assert_close(found[variant], expected, rtol=1e-12, atol=1e-12)
        if row.any():
            assert not torch.equal(expected, model(inputs))


class Counting(PartialForward):
    """Counts how often each site is computed."""

    def __init__(self, model: Transformer, inputs: Inputs):
        super().__init__(model, inputs)
        self.looks: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def head_outputs_at(self, state, site):  # type: ignore[no-untyped-def]
        self.looks[site.name] += 1
        return super().head_outputs_at(state, site)

    def continue_from(self, state, site, heads):  # type: ignore[no-untyped-def]
        self.steps[site.name] += 1
        return super().continue_from(state, site, heads)


def beginnings(plan: np.ndarray, columns: int) -> int:
    """How many different things the variants do to the first heads."""
    return len({tuple(row[:columns]) for row in plan.tolist()})


@given(plans())
@settings(max_examples=40)
def test_what_variants_share_is_computed_once(case: tuple[str, int, np.ndarray]) -> None:
    name, seed, plan = case
    model, inputs = model_and_batch(name)
    forward = Counting(model, inputs)
    tree(forward, plan, fillings_for(model, inputs, seed))
    column = 0
    for site in model.sites:
        first, column = column, column + len(site.kept)
        if site.name == "decoder.0.self" and model.config.shape == "encoder-decoder":
            # It sees nothing of the encoder, so what is done there does not part it.
            assert (forward.looks[site.name], forward.steps[site.name]) == (
                1,
                beginnings(plan[:, first:], len(site.kept)),
            )
        else:
            assert (forward.looks[site.name], forward.steps[site.name]) == (
                beginnings(plan, first),
                beginnings(plan, column),
            )


def test_keys_and_values_of_the_source_are_computed_once_for_each_encoding_of_it(monkeypatch) -> None:
    model, inputs = model_and_batch("encoder-decoder")
    calls: Counter[int] = Counter()
    right = MultiHeadAttention.keys_and_values

    def counted(self, x, rotate):  # type: ignore[no-untyped-def]
        calls[id(self)] += 1
        return right(self, x, rotate)

    monkeypatch.setattr(MultiHeadAttention, "keys_and_values", counted)
    plan = np.concatenate([np.zeros((1, 18), dtype=np.int64), np.eye(18, dtype=np.int64)])
    tree(PartialForward(model, inputs), plan, [{site.name: torch.zeros(()) for site in model.sites}])
    # Six variants change the encoder, the others leave it as it is.
    assert [calls[id(block.cross)] for block in model.decoder] == [7, 7]
    # The first decoder layer's own are the same for all; before the second the six heads of the first have parted too.
    assert [calls[id(block.own)] for block in model.decoder] == [1, 13]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("encoding", ["alibi", "rotary", "t5", "randomized"])
def test_branches_computed_together_stand_where_they_stood(encoding: str, padded: bool, shape: str) -> None:
    model = tiny(shape, encoding, **LAYERS[shape], log_length_scale=True)
    inputs = batch_of(shape, padded=padded)
    n_heads = sum(len(site.kept) for site in model.sites)
    plan = np.concatenate([np.zeros((1, n_heads), dtype=np.int64), np.eye(n_heads, dtype=np.int64)])
    nothing = [{site.name: torch.zeros(()) for site in model.sites}]
    apart, together = (tree(PartialForward(model, inputs), plan, nothing, count) for count in (1, 7))
    for variant in range(len(plan)):
        torch.testing.assert_close(apart[variant], together[variant], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("together", [1, 4])
def test_what_the_decoder_begins_with_may_be_forgotten(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = model_and_batch("encoder-decoder")
    plan = np.random.default_rng(0).integers(0, 2, size=(12, 18))
    nothing = [{site.name: torch.zeros(()) for site in model.sites}]
    kept = tree(PartialForward(model, inputs), plan, nothing, together)
    monkeypatch.setattr(partial_forward, "KEPT_NUMBERS", 1)
    forgotten = tree(PartialForward(model, inputs), plan, nothing, together)
    for variant in range(len(plan)):
        torch.testing.assert_close(kept[variant], forgotten[variant], rtol=1e-12, atol=1e-12)


def test_what_is_alike_for_every_row_is_not_repeated() -> None:
    forward = PartialForward(
        tiny("encoder-decoder", **LAYERS["encoder-decoder"]), batch_of("encoder-decoder", padded=False)
    )
    assert forward.wide(3) is forward


def test_many_widths_are_not_all_kept() -> None:
    model, inputs = model_and_batch("encoder-decoder")
    forward = PartialForward(model, inputs)
    assert forward.wide(1) is forward
    assert forward.wide(3) is forward.wide(3)
    for copies in range(2, 30):
        assert len(forward.wide(copies).inputs.source) == 2 * copies
        assert len(forward.copies) <= 8


@pytest.mark.parametrize(
    "plan",
    [np.zeros((2, 17)), np.zeros((2, 19)), np.zeros((1, 0)), np.full((1, 18), 2), np.full((1, 18), -1)],
    ids=["too narrow", "too wide", "empty", "no such filling", "negative"],
)
def test_a_plan_for_another_model_is_refused(plan: np.ndarray) -> None:
    model, inputs = model_and_batch("encoder-decoder")
    zero = {site.name: torch.zeros(()) for site in model.sites}
    with pytest.raises(ValueError, match=r"a plan for 18 heads and 1 replacements needed, got \("):
        run_tree(PartialForward(model, inputs), plan.astype(np.int64), [zero], lambda alike, logits: None)


def test_no_variants_are_no_work() -> None:
    model, inputs = model_and_batch("encoder")
    forward = Counting(model, inputs)
    assert tree(forward, np.zeros((0, 9), dtype=np.int64), []) == {}
    assert forward.looks.total() == 0
