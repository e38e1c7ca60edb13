"""Attention against PyTorch's own functions, and against what it must never do."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from headway.config import ModelConfig
from headway.model import dot_products
from headway.model.attention import MultiHeadAttention, Place, Visibility
from headway.model.dot_products import (
    attend,
    attend_fast,
    attend_in_chunks,
    attend_side_by_side,
    rows_side_by_side,
)
from headway.model.encodings.base import NoEncoding, NoOptions, Sizes

# fp64 has 53 bits and the sums here have at most a few hundred terms of size one: 1e-12 leaves four digits
# of room. fp32 has 24 bits; 1e-5 leaves room for the same sums in another order.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Tensor | None]:
    """Queries, keys and values of unequal sizes; masks with padding, causality and rows that see nothing."""
    batch, head, query, key = (draw(st.integers(1, most)) for most in (3, 3, 7, 6))
    d_head, d_value = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    mask = None
    kind = draw(st.sampled_from(["none", "padding", "causal", "blind", "random"]))
    if kind == "padding":
        lengths = torch.randint(1, key + 1, (batch,), generator=generator)
        mask = (torch.arange(key) < lengths[:, None])[:, None, None, :]
    if kind == "causal":
        mask = (torch.arange(key) <= torch.arange(query)[:, None])[None, None]
    if kind in ("blind", "random"):
        mask = torch.rand((batch, 1, query, key), generator=generator) < 0.5
    if kind == "blind":
        mask[:, :, draw(st.integers(0, query - 1))] = False
    return {
        "query": normal(batch, head, query, d_head),
        "key": normal(batch, head, key, d_head),
        "value": normal(batch, head, key, d_value),
        "mask": mask,
        "bias": normal(1, head, query, key) if draw(st.booleans()) else None,
    }


def reference(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """PyTorch's attention; rows that see nothing are 0 by definition, whatever the kernel gives."""
    added = (
        torch.zeros(query.shape[:3] + key.shape[2:3], dtype=query.dtype)
        if bias is None
        else bias.expand(*query.shape[:2], -1, -1)
    )
    if mask is not None:
        added = added.masked_fill(~mask, -math.inf)
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=added)
    return mixed.masked_fill((added == -math.inf).all(-1, keepdim=True), 0.0)


@given(cases())
def test_both_paths_agree_with_torch(case: dict[str, Tensor]) -> None:
    tolerance = TOLERANCE[case["query"].dtype]
    expected = reference(**case)
    written_out, weights = attend(**case)
    torch.testing.assert_close(written_out, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(attend_fast(**case), expected, rtol=tolerance, atol=tolerance)
    seen = torch.ones_like(weights, dtype=torch.bool) if case["mask"] is None else case["mask"].expand(weights.shape)
    torch.testing.assert_close(weights.sum(-1), seen.any(-1).to(weights.dtype), rtol=tolerance, atol=tolerance)
    assert (weights[~seen] == 0).all()


@given(cases())
def test_torch_gives_zero_to_rows_that_see_nothing_as_we_do(case: dict[str, Tensor]) -> None:
    if case["mask"] is None or case["bias"] is not None:
        return
    plain = F.scaled_dot_product_attention(case["query"], case["key"], case["value"], attn_mask=case["mask"])
    tolerance = TOLERANCE[case["query"].dtype]
    torch.testing.assert_close(attend(**case)[0], plain, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("path", [lambda *a: attend(*a)[0], attend_fast], ids=["written out", "fast"])
def test_gradients_are_right(path) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    sizes = ((2, 2, 3, 2), (2, 2, 4, 2), (2, 2, 4, 3), (1, 2, 3, 4))
    query, key, value, bias = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes)
    mask = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()[None, None]
    assert torch.autograd.gradcheck(lambda q, k, v, b: path(q, k, v, mask, b), (query, key, value, bias))


@given(cases(), st.integers(2, 4))
def test_rows_side_by_side_do_not_see_each_other(case: dict[str, Tensor], rows: int) -> None:
    """The batch several times over, every copy with other values, against each copy alone; one mask for all."""
    mask, bias = case["mask"], case["bias"]
    mask = mask if mask is None else mask[:1] | ~mask[:1].any(-1, keepdim=True)
    allowed = mask if bias is None else bias if mask is None else bias.masked_fill(~mask, -math.inf)
    copies = [{name: case[name] * scale for name in ("query", "key", "value")} for scale in range(1, rows + 1)]
    wide = {name: torch.cat([copy[name] for copy in copies]) for name in copies[0]}
    expected = torch.cat([reference(**copy, mask=mask, bias=bias) for copy in copies])
    tolerance = 30 * TOLERANCE[expected.dtype]  # scores grow to sixteen times their size
    found = attend_side_by_side(**wide, mask=allowed, rows=rows)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("part", ["query", "key", "value"])
@pytest.mark.parametrize("fault", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_keeps_it_from_its_neighbours(part: str, fault: float) -> None:
    torch.manual_seed(0)
    whole = dict(zip(("query", "key", "value"), torch.randn(3, 6, 2, 5, 4, dtype=torch.float64), strict=True))
    expected = attend_fast(**whole)
    broken = {name: tensor.clone() for name, tensor in whole.items()}
    broken[part][2, 1, 3, 0] = fault
    found = attend_side_by_side(**broken, mask=None, rows=3)
    others = [0, 1, 3, 4, 5]
    torch.testing.assert_close(found[others], expected[others], rtol=1e-12, atol=1e-12)
    assert not found[2].isfinite().all()
    if part != "query":
        assert found[2].isnan().all()


def test_a_gpu_takes_many_short_rows_side_by_side() -> None:
    """Counted on the device without memory, which is no CPU either."""

    def rows(batch: int, length: int = 7, masks: int = 0) -> int:
        query, key = (torch.empty(batch, 4, some, 32, device="meta") for some in (length - 2, length))
        mask = torch.empty(masks, 1, length - 2, length, dtype=torch.bool, device="meta") if masks else None
        return rows_side_by_side(query, key, mask)

    with torch.no_grad():
        assert rows(12_500) == 5  # nine would fit, six to nine do not divide
        assert rows(12_600) == 9
        assert rows(12_600, masks=1) == 9
        assert rows(12_600, masks=12_600) == 1  # each row has padding of its own
        assert rows(12_600, length=32) == 2
        assert rows(12_600, length=33) == rows(12_600, length=200) == 1
        assert rows(12_503) == 1  # a prime
        assert rows(500) == 1  # too few to fill the device
        assert rows_side_by_side(torch.empty(12_600, 4, 5, 1), torch.empty(12_600, 4, 5, 1), None) == 1  # a CPU
    assert rows(12_600) == 1  # training


def test_pieces_of_the_queries_give_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, length, 4, dtype=torch.float64) for length in (9, 11, 11))
    bias = torch.randn(1, 3, 9, 11, dtype=torch.float64)
    keys = torch.arange(11) < torch.tensor([[11], [6]])

    def mask_of(rows: range) -> Tensor | None:
        return Visibility(keys, causal=True).mask(rows, 9, 11, query.device)

    def bias_of(rows: range, dtype: torch.dtype) -> Tensor:
        return bias[:, :, rows.start : rows.stop].to(dtype)

    whole = attend_in_chunks(query, key, value, mask_of, bias_of)
    monkeypatch.setitem(dot_products.CHUNK_ELEMENTS, "cpu", 2 * 3 * 11 * 2)  # two queries at a time
    pieces = attend_in_chunks(query, key, value, mask_of, bias_of)
    torch.testing.assert_close(pieces, whole, rtol=1e-12, atol=1e-12)


def test_the_number_of_visible_keys_is_counted() -> None:
    keys = torch.tensor([[True, True, False, True], [True, False, False, False]])
    device = torch.device("cpu")
    assert Visibility(keys).count(2, 4, device).tolist() == [[3, 3], [1, 1]]
    assert Visibility(keys, causal=True).count(4, 4, device).tolist() == [[1, 2, 2, 3], [1, 1, 1, 1]]
    assert Visibility(None, causal=True).count(2, 5, device).tolist() == [[4, 5]]
    mask = Visibility(keys, causal=True).mask(range(4), 4, 4, device)
    assert mask is not None
    assert mask.sum(-1).squeeze(1).tolist() == [[1, 2, 2, 3], [1, 1, 1, 1]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("causal", [False, True])
def test_with_copied_weights_it_is_torch_multihead_attention(dtype: torch.dtype, causal: bool) -> None:
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=dtype)
    nn.init.normal_(theirs.in_proj_bias)
    ours = copy_attention(three_heads(log_length_scale=False).to(dtype), theirs)
    x, memory = torch.randn(2, 5, 12, dtype=dtype), torch.randn(2, 5 if causal else 7, 12, dtype=dtype)
    visible = torch.arange(memory.shape[1]) < torch.tensor([[memory.shape[1]], [3]])
    hidden_future = ~torch.ones(5, 5, dtype=torch.bool).tril() if causal else None
    expected, weights = theirs(
        x, memory, memory, key_padding_mask=~visible, attn_mask=hidden_future, average_attn_weights=False
    )
    place = nowhere(5, memory.shape[1])
    for record in (None, {}):
        key, value = ours.keys_and_values(memory, place.rotate_key)
        heads = ours.head_outputs_at(x, key, value, place, Visibility(visible, causal), record, "site")
        found = ours.output(heads.flatten(2))
        torch.testing.assert_close(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        if record is not None:
            torch.testing.assert_close(record["site"], weights, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def three_heads(*, log_length_scale: bool) -> MultiHeadAttention:
    config = ModelConfig(d_model=12, n_heads=3, dropout=0.0, log_length_scale=log_length_scale)
    return MultiHeadAttention(config, (0, 1, 2))


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    with torch.no_grad():
        for part, weight, bias in zip(
            (ours.query, ours.key, ours.value),
            theirs.in_proj_weight.chunk(3),
            theirs.in_proj_bias.chunk(3),
            strict=True,
        ):
            part.weight.copy_(weight)
            part.bias.copy_(bias)
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    return ours


def nowhere(n_queries: int, n_keys: int) -> Place:
    encoding = NoEncoding(NoOptions(), Sizes(12, 3, 4, {"encoder": False}))
    return Place(encoding, "encoder", torch.arange(n_queries)[None], torch.arange(n_keys)[None])


def test_logits_are_scaled_by_the_log_of_the_visible_keys() -> None:
    torch.manual_seed(2)
    plain = three_heads(log_length_scale=False).double()
    scaled = three_heads(log_length_scale=True).double()
    scaled.load_state_dict(plain.state_dict())
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    visible = torch.arange(5) < torch.tensor([[5], [3]])
    place = nowhere(5, 5)
    records: list[dict[str, Tensor]] = [{}, {}]
    for module, record in zip((plain, scaled), records, strict=True):
        key, value = module.keys_and_values(x, place.rotate_key)
        module.head_outputs_at(x, key, value, place, Visibility(visible), record, "site")
    before, after = (record["site"].log() for record in records)
    factor = torch.tensor([5.0, 3.0], dtype=torch.float64).log()[:, None, None]
    difference = (before[..., 0] - before[..., 1]) * factor
    torch.testing.assert_close(after[..., 0] - after[..., 1], difference, rtol=1e-9, atol=1e-9)


def test_queries_after_a_cache_see_all_of_it_and_the_past_among_themselves() -> None:
    mask = Visibility(causal=True).mask(range(2), 2, 5, torch.device("cpu"))
    assert mask is not None
    assert mask[0, 0].int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
