"""Each encoding against its formula, computed another way."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config import Choice, ModelConfig
from headway.errors import InputError
from headway.model.encodings import Sizes, make_encoding
from headway.model.transformer import Inputs, Transformer

SIZES = Sizes(d_model=12, n_heads=4, d_head=6, kinds={"encoder": False, "decoder": True, "cross": False})


def make(name: str, **options: object):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    return make_encoding(Choice(name=name, options=options), SIZES).eval()


@given(st.integers(0, 4_000), st.integers(0, 90))
def test_a_sinusoid_moved_by_k_is_turned_by_k(position: int, k: int) -> None:
    here, there = make("sinusoidal").embed(torch.tensor([[position, position + k]]))[0]
    for plane in range(6):
        angle = k * 10_000 ** (-2 * plane / 12)
        sin, cos = here[2 * plane : 2 * plane + 2].tolist()
        assert there[2 * plane].item() == pytest.approx(sin * math.cos(angle) + cos * math.sin(angle), abs=1e-9)
        assert there[2 * plane + 1].item() == pytest.approx(cos * math.cos(angle) - sin * math.sin(angle), abs=1e-9)


@given(st.integers(0, 4_000), st.integers(0, 4_000), st.integers(0, 90))
def test_the_product_of_two_sinusoids_depends_on_their_distance_alone(one: int, other: int, k: int) -> None:
    a, b, c, d = make("sinusoidal").embed(torch.tensor([[one, one + k, other, other + k]]))[0]
    assert float(a @ b) == pytest.approx(float(c @ d), abs=1e-9)


@given(st.integers(0, 3_000), st.integers(-50, 50))
def test_a_rotary_score_depends_on_the_distance_alone(shift: int, distance: int) -> None:
    rotary = make("rotary")
    query, key = torch.randn(2, 1, 1, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(distance + 50))

    def score(start: int) -> float:
        turned = [rotary.rotate(x, torch.tensor([[p]])) for x, p in ((query, start), (key, start + distance))]
        return float((turned[0] * turned[1]).sum())

    assert score(60) == pytest.approx(score(60 + shift), abs=1e-9)
    assert rotary.rotate(query, torch.tensor([[7]])).norm() == pytest.approx(float(query.norm()))


def test_rotary_needs_pairs_of_coordinates() -> None:
    with pytest.raises(InputError, match=r"rotary turns pairs of coordinates; model.d_head = 5 must be even"):
        make_encoding(Choice(name="rotary"), Sizes(10, 2, 5, {"encoder": False}))


def test_learned_positions_past_the_table_take_its_last_row() -> None:
    table = make("learned", table_size=5)
    rows = table.embed(torch.tensor([[3, 4, 5, 900]]))[0]
    assert torch.equal(rows[1], rows[2])
    assert torch.equal(rows[1], rows[3])
    assert not torch.equal(rows[0], rows[1])


def test_past_a_clamped_table_a_model_without_a_mask_cannot_see_the_order() -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        shape="encoder",
        d_model=12,
        n_heads=4,
        d_ff=20,
        encoder_layers=2,
        decoder_layers=0,
        encoding=Choice(name="learned", options={"table_size": 16, "past": "clamp"}),
        pooling=Choice(name="mean"),
    )
    model = Transformer(config, n_tokens=40, n_classes=2).double().eval()
    source = torch.arange(32)[None]

    def swapped(one: int, other: int) -> torch.Tensor:
        other_order = source.clone()
        other_order[0, [one, other]] = source[0, [other, one]]
        return model(Inputs(other_order, torch.arange(32)[None], None))

    plain = model(Inputs(source, torch.arange(32)[None], None))
    assert torch.allclose(swapped(15, 31), plain, atol=1e-12, rtol=0)  # rounding of float64 in another order of sums
    assert not torch.allclose(swapped(14, 15), plain, atol=1e-6)


def test_untrained_positions_have_rows_of_their_own_up_to_4096() -> None:
    table = make("learned", table_size=5, past="untrained")
    rows = table.embed(torch.tensor([[4, 5, 4_095]]))[0]
    assert len({tuple(row.tolist()) for row in rows}) == 3
    with pytest.raises(InputError, match="the learned table has 4,096 rows and the sequence 4,097 positions"):
        table.embed(torch.arange(4_097)[None])


def test_one_hot_positions_are_rows_of_the_identity_and_clamp_at_d_model() -> None:
    rows = make("one-hot").embed(torch.arange(14)[None])[0]
    assert torch.equal(rows[:12], torch.eye(12))
    assert torch.equal(rows[12:], torch.eye(12)[[11, 11]])


def test_alibi_falls_off_with_the_papers_slopes() -> None:
    bias = make("alibi").bias(torch.tensor([[2, 9]]), torch.tensor([[0, 5, 9]]), "encoder")
    for head, slope in enumerate((1 / 4, 1 / 16, 1 / 64, 1 / 256)):
        assert bias[0, head].tolist() == [[-2 * slope, -3 * slope, -7 * slope], [-9 * slope, -4 * slope, 0]]


def test_directional_alibi_gives_each_side_half_of_the_heads() -> None:
    alibi = make("alibi", direction="directional")
    where = (torch.tensor([[5]]), torch.tensor([[3, 5, 7]]))
    bias = alibi.bias(*where, "encoder")[0, :, 0]
    assert bias[0].tolist() == [-2 / 4, 0, -2 / 4 - 2]
    assert bias[1].tolist() == [-2 / 16 - 2, 0, -2 / 16]
    symmetric = make("alibi").bias(*where, "decoder")
    assert torch.equal(alibi.bias(*where, "decoder"), symmetric)


def t5_bucket(ahead: int, buckets: int, max_distance: int, causal: bool) -> int:
    """The bucket by the paper's words: exact below half, logarithmic from there to max_distance."""
    offset = 0
    if causal:
        distance = max(-ahead, 0)
    else:
        buckets //= 2
        offset, distance = (buckets if ahead > 0 else 0), abs(ahead)
    exact = buckets // 2
    if distance < exact:
        return offset + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    return offset + min(exact + math.floor(share * (buckets - exact) + 1e-9), buckets - 1)


@pytest.mark.parametrize("causal", [False, True])
def test_t5_buckets_are_the_papers(causal: bool) -> None:
    encoding = make("t5", buckets=32, max_distance=128)
    ahead = torch.arange(-300, 301)
    found = encoding.bucket(ahead, causal=causal).tolist()
    expected = [t5_bucket(value, 32, 128, causal) for value in ahead.tolist()]
    # A distance that falls on an edge may round to the bucket below.
    assert sum(abs(a - b) for a, b in zip(found, expected, strict=True)) <= 4
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) <= 1
    assert sorted(set(found)) == sorted(set(expected))


def test_t5_and_clipped_biases_start_at_zero_and_are_looked_up_by_distance() -> None:
    for name, far in (("t5", 127), ("clipped", 16)):
        encoding = make(name)
        torch.nn.init.normal_(encoding.tables["cross"].weight)
        query, key = torch.tensor([[200, 400]]), torch.tensor([[200, 198, 402, 200 + far, 200 + far + 60, 4_000]])
        bias = encoding.bias(query, key, "cross")
        assert bias.shape == (1, 4, 2, 6)
        assert torch.equal(bias[0, :, 0, 4], bias[0, :, 0, 5])  # far distances share
        assert not torch.equal(bias[0, :, 0, 0], bias[0, :, 0, 1])


def test_fire_is_the_papers_formula_where_attention_is_causal() -> None:
    encoding = make("fire")
    curve = encoding.curves["decoder"]
    with torch.no_grad():
        curve.threshold.value.fill_(4.0)
        curve.steepness.value.fill_(0.7)
    bias = encoding.bias(torch.tensor([[3, 50]]), torch.tensor([[0, 3, 50]]), "decoder")
    for row, (query, keys) in enumerate(((3, (0, 3)), (50, (0, 3, 50)))):
        for column, key in enumerate(keys):
            share = math.log(0.7 * (query - key) + 1) / math.log(0.7 * max(query, 4.0) + 1)
            expected = curve.network(torch.tensor([share]))
            torch.testing.assert_close(bias[0, :, row, column], expected, rtol=1e-5, atol=1e-6)


def test_fire_divides_by_the_larger_of_query_and_key_where_attention_sees_both_sides() -> None:
    encoding = make("fire")
    curve = encoding.curves["encoder"]
    with torch.no_grad():
        curve.threshold.value.fill_(4.0)
        curve.steepness.value.fill_(0.7)
    bias = encoding.bias(torch.tensor([[3]]), torch.tensor([[50]]), "encoder")
    share = -math.log(0.7 * 47 + 1) / math.log(0.7 * 50 + 1)
    torch.testing.assert_close(bias[0, :, 0, 0], curve.network(torch.tensor([share])), rtol=1e-5, atol=1e-6)


def test_randomized_positions_are_ordered_different_and_inside_the_range() -> None:
    encoding = make("randomized", max_position=40).train()
    lengths = torch.tensor([[9], [5], [40]])
    source, target = encoding.place(torch.arange(9)[None], torch.arange(4)[None], lengths)
    assert target is not None
    for row, length in enumerate((9, 5, 9)):
        used = source[row, :length].tolist()
        assert used == sorted(set(used))
        assert 0 <= used[0] <= used[-1] < 40
    assert torch.equal(source[:, :4], target)  # the same places stand for source and answer
    assert not torch.equal(source[0, :5], source[1, :5])


def test_randomized_positions_are_spread_evenly_in_evaluation() -> None:
    encoding = make("randomized", max_position=40)
    source, _ = encoding.place(torch.arange(6)[None], None, torch.tensor([[4], [5]]))
    assert source[0, :4].tolist() == [5, 15, 25, 35]
    assert source[1, :5].tolist() == [4, 12, 20, 28, 36]


def test_randomized_over_another_encoding_uses_its_hooks() -> None:
    encoding = make("randomized", over="rotary")
    assert encoding.embed(torch.arange(3)[None]) is None
    x = torch.randn(1, 2, 3, 6)
    assert not torch.equal(encoding.rotate(x, torch.arange(3)[None]), x)
    with pytest.raises(InputError, match=r"model.encoding.over = 'coupled'; an encoding of plain positions needed"):
        make("randomized", over="coupled")


@pytest.mark.parametrize("name", ["abacus", "coupled"])
def test_offsets_move_all_digits_of_an_example_alike_and_only_in_training(name: str) -> None:
    encoding = make(name, max_offset=50).train()
    source, target = torch.tensor([[3, 2, 1, 0, 3, 2, 1]]), torch.tensor([[1, 2, 3]])
    length = torch.full((6, 1), 7)
    moved, moved_target = encoding.place(source, target, length)
    offset = moved[:, 0] - 3
    assert len(set(offset.tolist())) > 1
    assert offset.min() >= 0
    assert offset.max() <= 50
    assert torch.equal(moved - source, offset[:, None] * (source > 0))
    assert torch.equal(moved_target - target, offset[:, None].expand(-1, 3))
    assert encoding.eval().place(source, target, length) == (source, target)


@pytest.mark.parametrize("position", [1, 37])
def test_rotary_turns_each_plane_at_the_papers_speed(position: int) -> None:
    """Plane i of 6 coordinates turns by 10,000^(-2i / 6) for each position."""
    ones = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)[None, None, None]
    turned = make("rotary").rotate(ones, torch.tensor([[position]]))[0, 0, 0]
    angles = [position * 10_000 ** (-2 * plane / 6) for plane in range(3)]
    expected = [part for angle in angles for part in (math.cos(angle), math.sin(angle))]
    assert turned.tolist() == pytest.approx(expected, abs=1e-12)


def test_a_clipped_bias_has_its_row_for_each_distance_from_query_to_key() -> None:
    encoding = make("clipped", clip=2)
    with torch.no_grad():
        encoding.tables["encoder"].weight.copy_(torch.arange(5.0)[:, None].expand(5, 4))
    bias = encoding.bias(torch.tensor([[10]]), torch.tensor([[7, 8, 9, 10, 11, 12, 30]]), "encoder")
    assert bias[0, 0, 0].tolist() == [0, 0, 1, 2, 3, 4, 4], "keys before the query come first"
