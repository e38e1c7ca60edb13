"""Scores against loops over lists, and on models built by hand so that the score is known."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway import evaluation
from headway.batches import make_batch
from headway.config import Choice
from headway.evaluation import Trained
from headway.head_analysis.scores import (
    EVERYWHERE,
    SELF_ONLY,
    HeadScores,
    _over_queries,
    definitions,
    distance,
    entropy,
    entropy_share,
    part_share,
    previous_token,
    score_heads,
    self_token,
    sparsity,
)
from headway.model.attention import MultiHeadAttention
from headway.tasks import TASKS, Examples, make_task
from tests.head_analysis.small import ADDITION, SHAPES, TEXT, untrained

ROUNDING = 1e-6
"""Counts of keys have logarithms and roots in fp32, which are off by 1e-7."""
OWN_SCORES = [score.__name__ for score in (*EVERYWHERE, *SELF_ONLY)]
Row = Sequence[float]


# The definitions once more, a query at a time: its weights, the keys it may see, itself, and all tokens in order.


def plain_entropy(row: Row, keys: list[int], query: int, tokens: list[int]) -> float:
    return -sum(row[k] * math.log2(row[k]) for k in keys if row[k] > 0)


def plain_entropy_share(row: Row, keys: list[int], query: int, tokens: list[int]) -> float | None:
    return plain_entropy(row, keys, query, tokens) / math.log2(len(keys)) if len(keys) > 1 else None


def plain_sparsity(row: Row, keys: list[int], query: int, tokens: list[int]) -> float | None:
    if len(keys) < 2:
        return None
    length = math.sqrt(sum(row[k] ** 2 for k in keys))
    return (math.sqrt(len(keys)) - 1 / length) / (math.sqrt(len(keys)) - 1)


def plain_self_token(row: Row, keys: list[int], query: int, tokens: list[int]) -> float:
    return row[query]


def plain_previous_token(row: Row, keys: list[int], query: int, tokens: list[int]) -> float | None:
    place = tokens.index(query)
    return row[tokens[place - 1]] if place else None


def plain_distance(row: Row, keys: list[int], query: int, tokens: list[int]) -> float:
    return sum(row[k] * abs(tokens.index(query) - tokens.index(k)) for k in keys)


PLAIN: dict[str, Callable[[Row, list[int], int, list[int]], float | None]] = {
    "entropy": plain_entropy,
    "entropy_share": plain_entropy_share,
    "sparsity": plain_sparsity,
    "self_token": plain_self_token,
    "previous_token": plain_previous_token,
    "distance": plain_distance,
}


def plain_score(name: str, table: Sequence[Row], tokens: list[int], keys: list[int], *, causal: bool) -> float | None:
    """The mean of a score over the queries of one head; `tokens` are those that are not padding."""
    values = [PLAIN[name](table[q], [k for k in keys if k <= q or not causal], q, tokens) for q in tokens]
    return mean_of(values)


def mean_of(values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


@st.composite
def attentions(draw: st.DrawFn) -> tuple[Tensor, Tensor, list[list[int]], bool]:
    """Weights of several heads on rows with padding anywhere, as in a source before a prefix; what is seen; causal."""
    batch, heads, tokens = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 6))
    causal = draw(st.booleans())
    real = torch.tensor([draw(st.lists(st.booleans(), min_size=tokens, max_size=tokens)) for _ in range(batch)])
    seen = real[:, :, None] & real[:, None, :]
    if causal:
        seen &= torch.ones(tokens, tokens, dtype=torch.bool).tril()
    sharp = draw(st.sampled_from([0.0, 1.0, 5.0, 200.0]))
    torch.manual_seed(draw(st.integers(0, 10_000)))
    score = sharp * torch.randn(batch, heads, tokens, tokens, dtype=torch.float64)
    weights = score.masked_fill(~seen[:, None], -torch.inf).softmax(-1).nan_to_num(0.0)
    # A query that is padding may have any weights: they must not matter.
    weights = torch.where(real[:, None, :, None], weights, torch.rand_like(weights))
    return weights, seen, [row.nonzero().flatten().tolist() for row in real], causal


@given(attentions())
def test_every_score_agrees_with_loops_over_lists(case: Any) -> None:
    weights, seen, real, causal = case
    for score in (*EVERYWHERE, *SELF_ONLY):
        found = _over_queries(*score(weights, seen))
        for row, tokens in enumerate(real):
            for head, table in enumerate(weights[row].tolist()):
                expected = plain_score(score.__name__, table, tokens, tokens, causal=causal)
                near = pytest.approx(math.nan if expected is None else expected, abs=ROUNDING, nan_ok=True)
                assert found[row, head].item() == near, score.__name__


@given(attentions())
def test_scores_stay_inside_their_limits(case: Any) -> None:
    weights, seen, _, _ = case
    keys = seen.sum(-1).clamp(min=1)[:, None]
    bits, applies = entropy(weights, seen)
    assert torch.equal(applies, seen.any(-1))
    inside = (bits >= 0) & (bits <= keys.log2() + ROUNDING)
    assert inside.transpose(1, 2)[applies].all()
    for score in (entropy_share, sparsity, self_token, previous_token):
        values, applies = score(weights, seen)
        kept = values.transpose(1, 2)[applies]
        assert ((kept >= 0) & (kept <= 1 + ROUNDING)).all()


@given(attentions(), st.integers(2, 4), st.integers(0, 1_000))
def test_shares_of_parts_that_cover_everything_add_up_to_1(case: Any, count: int, seed: int) -> None:
    weights, seen, _, _ = case
    which = torch.from_numpy(np.random.default_rng(seed).integers(count, size=seen.shape))
    shares = [part_share(weights, seen & (which == part)) for part in range(count)]
    total = torch.stack([values for values, _ in shares]).sum(0).transpose(1, 2)[seen.any(-1)]
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-12)
    for part, (_, applies) in enumerate(shares):
        assert torch.equal(applies, (seen & (which == part)).any(-1))


@given(st.integers(2, 9), st.integers(0, 8), st.integers(0, 3))
def test_even_attention_has_all_the_entropy_and_one_hot_attention_none(keys: int, chosen: int, hidden: int) -> None:
    seen = torch.arange(keys + hidden)[None, None] < keys
    even = seen[:, None] / torch.tensor(float(keys), dtype=torch.float64)
    one = torch.zeros_like(even)
    one[..., chosen % keys] = 1
    for weights, share, sparse in ((even, 1.0, 0.0), (one, 0.0, 1.0)):
        assert entropy_share(weights, seen)[0].item() == pytest.approx(share, abs=ROUNDING)
        assert sparsity(weights, seen)[0].item() == pytest.approx(sparse, abs=ROUNDING)
    assert entropy(even, seen)[0].item() == pytest.approx(math.log2(keys))


def test_a_query_that_sees_one_key_has_no_share_of_entropy_and_no_sparsity() -> None:
    weights, seen = torch.eye(1).reshape(1, 1, 1, 1), torch.ones(1, 1, 1, dtype=torch.bool)
    assert entropy(weights, seen)[0].item() == 0
    for score in (entropy_share, sparsity, previous_token):
        assert _over_queries(*score(weights, seen)).isnan().all()


# The numbers that the docstrings give.


def over(*weights: float) -> tuple[Tensor, Tensor]:
    return torch.tensor([[[weights]]]), torch.ones(1, 1, len(weights), dtype=torch.bool)


def test_the_worked_examples_of_the_docstrings_are_true() -> None:
    assert entropy(*over(1 / 2, 1 / 4, 1 / 4, 0))[0].item() == 1.5
    assert round(entropy(*over(*[1 / 7] * 7))[0].item(), 2) == 2.81
    assert entropy_share(*over(1 / 2, 1 / 4, 1 / 4, 0))[0].item() == 0.75
    assert round(sparsity(*over(1 / 2, 1 / 2, 0, 0))[0].item(), 3) == 0.586
    weights = torch.zeros(1, 1, 4, 4)
    weights[0, 0, 1, [0, 1]] = 0.5  # the second token looks half at itself and half at its left neighbour
    weights[0, 0, 3, [0, 3]] = 0.5  # the fourth half at itself and half at the first
    seen = torch.ones(1, 4, 4, dtype=torch.bool).tril()
    assert self_token(weights, seen)[0][0, 0, 1].item() == 0.5
    assert previous_token(weights, seen)[0][0, 0, 1].item() == 0.5
    assert distance(weights, seen)[0][0, 0, 3].item() == 1.5
    for number, score in (("1.5", entropy), ("2.81", entropy), ("0.75", entropy_share), ("0.586", sparsity)):
        assert number in (score.__doc__ or "")
    for number, score in (("0.5", self_token), ("0.5", previous_token), ("1.5", distance)):
        assert number in (score.__doc__ or "")


@pytest.mark.parametrize("name", TASKS.names())
def test_every_score_of_every_task_is_defined_with_a_worked_example(name: str) -> None:
    task = make_task(Choice(name=name))
    texts = definitions(task)
    assert texts.keys() == {*task.PARTS, *OWN_SCORES}
    for score, text in texts.items():
        assert any(character.isdigit() for character in text) or "half" in text, score
        assert "\n  " not in text  # no indentation of the source code is left


# Whole models.


def plain_scores(trained: Trained, examples: Examples, *, even: bool = False) -> dict[tuple[str, str], list[Any]]:
    """(head, score) -> each example's score, one example at a time and so without padding, by loops."""
    found: dict[tuple[str, str], list[Any]] = {}
    for index in range(len(examples)):
        batch = make_batch(trained.task, trained.model, examples.take([index]), torch.device("cpu"))
        record: dict[str, Tensor] = {}
        with torch.inference_mode():
            trained.model(batch.inputs, record)
        source = batch.inputs.source.numpy()
        prefix = None if batch.inputs.prefix is None else batch.inputs.prefix.numpy()
        parts = trained.task.parts(source, prefix)
        for site in trained.model.sites:
            offset_query, offset_key = offsets(trained, site.name, source.shape[1])
            causal = site.name.startswith("decoder") and not site.across
            for place, head in enumerate(site.heads):
                table = record[site.name][0, place].double().tolist()
                for name, part in parts.items():
                    inside = part[0, offset_query:, offset_key:]
                    values = [plain_part(row, inside[q], q, causal, even) for q, row in enumerate(table)]
                    found.setdefault((str(head), name), []).append(mean_of(values))
                for name in () if even else OWN_SCORES:
                    tokens, keys = list(range(len(table))), list(range(len(table[0])))
                    applies = not site.across or name in ("entropy", "entropy_share", "sparsity")
                    value = plain_score(name, table, tokens, keys, causal=causal) if applies else None
                    found.setdefault((str(head), name), []).append(value)
    return found


def offsets(trained: Trained, site: str, source: int) -> tuple[int, int]:
    """Where the queries and the keys of a site begin among the tokens of source and prefix."""
    if trained.model.config.shape != "encoder-decoder" or site.startswith("encoder"):
        return 0, 0
    return source, 0 if site.endswith("cross") else source


def plain_part(row: Row, part: np.ndarray, query: int, causal: bool, even: bool) -> float | None:
    keys = [k for k in range(len(row)) if k <= query or not causal]
    inside = [k for k in keys if part[k]]
    if not inside:
        return None
    return len(inside) / len(keys) if even else sum(row[k] for k in inside)


def assert_alike(found: dict[str, dict[str, float | None]], expected: dict[tuple[str, str], float | None]) -> None:
    for (head, name), value in expected.items():
        # 2e-5: weights are fp32, and padding changes the order of their sums.
        assert found[head][name] == pytest.approx(value, abs=2e-5), (head, name)


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_of_a_model_agree_with_loops_over_one_example_at_a_time(shape: str) -> None:
    trained = untrained(SHAPES[shape])
    examples = trained.examples("test").take(slice(0, 9))
    found = score_heads(trained, examples)
    assert found.n == 9
    expected = plain_scores(trained, examples)
    assert set(expected) == {(head, name) for head, scores in found.means.items() for name in scores}
    assert {name for _, name in expected} == set(definitions(trained.task))
    known = {key: [value for value in values if value is not None] for key, values in expected.items()}
    assert any(len(values) < 9 for values in known.values()) or trained.task.name != "sortedness"
    assert_alike(found.means, {key: float(np.mean(values)) if values else None for key, values in known.items()})
    assert_alike(found.deviations, {key: float(np.std(values)) if values else None for key, values in known.items()})
    even = plain_scores(trained, examples, even=True)
    assert_alike(found.uniform, {key: mean_of(values) for key, values in even.items()})
    for scores in found.uniform.values():
        assert all(scores[name] is None for name in OWN_SCORES)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tokens", [1, 37])
def test_the_size_of_a_batch_does_not_matter(shape: str, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = untrained(SHAPES[shape])
    examples = trained.examples("test").take(slice(0, 11))
    whole = score_heads(trained, examples)
    monkeypatch.setitem(evaluation.TOKENS_A_BATCH, "cpu", tokens)
    pieces = score_heads(trained, examples)
    for name in ("means", "deviations", "uniform"):
        flat = {(head, key): x for head, scores in getattr(whole, name).items() for key, x in scores.items()}
        assert_alike(getattr(pieces, name), flat)


def flatten_attention(trained: Trained) -> None:
    """Every query scores every key alike."""
    with torch.no_grad():
        for module in trained.model.modules():
            if isinstance(module, MultiHeadAttention):
                module.query.weight.zero_()
                module.query.bias.zero_()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_head_that_scores_all_keys_alike_gets_the_even_share_of_every_part(shape: str) -> None:
    trained = untrained(SHAPES[shape])
    flatten_attention(trained)
    found = score_heads(trained, trained.examples("test").take(slice(0, 12)))
    for head, scores in found.means.items():
        assert scores["entropy_share"] == pytest.approx(1, abs=ROUNDING)
        # The root of fp32's 1e-7.
        assert scores["sparsity"] == pytest.approx(0, abs=1e-3)
        for part in trained.task.PARTS:
            assert scores[part] == pytest.approx(found.uniform[head][part], abs=ROUNDING)


def test_the_operands_and_the_operator_take_all_the_attention_on_a_source() -> None:
    trained = untrained(ADDITION)
    found = score_heads(trained, trained.examples("test"))
    checked = 0
    for head, scores in found.means.items():
        shares = [scores[part] for part in ("first_operand", "second_operand", "operator")]
        if head.startswith("enc") or ".cross." in head:
            assert sum(share for share in shares if share is not None) == pytest.approx(1, abs=ROUNDING)
            checked += 1
        else:
            assert shares == [None, None, None]  # the answer's self-attention sees nothing of the source
    assert checked == 3 + 2 * 3


def test_a_site_without_heads_is_left_out() -> None:
    kept = ["enc0.self.h2", "dec0.cross.h0", "dec1.self.h1"]
    trained = untrained(ADDITION, model={"kept_heads": kept})
    found = score_heads(trained, trained.examples("test").take(slice(0, 5)))
    assert list(found.means) == list(found.deviations) == list(found.uniform) == kept


# Models built by hand: embeddings tell positions apart and nothing else, and each head looks where it is told.

WIDTH = 16


def pointing(base: dict[str, Any], **tables: dict[str, Any]) -> Trained:
    """A model in which every token is the unit vector of its position at every site."""
    sizes = {"d_model": WIDTH, "d_head": WIDTH, "n_heads": 2, "encoding": {"name": "learned", "table_size": WIDTH}}
    trained = untrained(base, **{**tables, "model": {**sizes, **tables.get("model", {})}})
    with torch.no_grad():
        trained.model.embedding.weight.zero_()
        trained.model.encoding.table.weight.copy_(torch.eye(WIDTH))
        for name, weight in trained.model.named_parameters():
            if name.endswith((".output.weight", ".output.bias", "contract.weight", "contract.bias")):
                weight.zero_()
    return trained


def point(trained: Trained, site: str, head: int, target: dict[int, int]) -> None:
    """Make a head look from each position at another."""
    stack, layer, looks = site.split(".")
    block = getattr(trained.model, stack)[int(layer)]
    attention = block.cross if looks == "cross" else block.own
    rows = slice(head * WIDTH, (head + 1) * WIDTH)
    with torch.no_grad():
        attention.key.weight[rows] = torch.eye(WIDTH)
        attention.key.bias[rows] = 0
        attention.query.weight[rows] = 0
        attention.query.bias[rows] = 0
        for query, key in target.items():
            attention.query.weight[head * WIDTH + key, query] = 300.0


def scores_of(trained: Trained, head: str) -> dict[str, float | None]:
    found: HeadScores = score_heads(trained, trained.examples("test"))
    return found.means[head]


def test_an_encoder_head_that_looks_at_its_own_column_scores_1_on_the_diagonal() -> None:
    trained = pointing(ADDITION, model={"decoder_layers": 1})
    # a1 a0 + b1 b0: each digit looks at the other digit of its column, the + at itself.
    point(trained, "encoder.0.self", 0, {0: 3, 1: 4, 2: 2, 3: 0, 4: 1})
    point(trained, "encoder.0.self", 1, {0: 1, 1: 2, 2: 0, 3: 3, 4: 4})
    looks, other = (scores_of(trained, f"enc0.self.h{head}") for head in (0, 1))
    assert looks["diagonal"] == pytest.approx(1, abs=ROUNDING)
    assert looks["self_token"] == looks["operator"] == pytest.approx(1 / 5, abs=ROUNDING)
    assert looks["previous_column"] == pytest.approx(0, abs=ROUNDING)
    assert other["self_token"] == pytest.approx(2 / 5, abs=ROUNDING)
    assert other["diagonal"] == pytest.approx(2 / 4, abs=ROUNDING)  # b1 and b0; the + has no column
    assert other["previous_column"] == pytest.approx(1 / 2, abs=ROUNDING)  # a1 looks at a0, b1 does not look at b0
    assert other["operator"] == pytest.approx(1 / 5, abs=ROUNDING)


def test_a_cross_head_that_looks_at_its_own_column_or_the_one_below_is_told_apart() -> None:
    trained = pointing(ADDITION, model={"decoder_layers": 1})
    # Columns 2, 1, 0 and the end are written from prefix places 0, 1, 2, 3. In the source a1 stands at 0, b1 at 3.
    point(trained, "decoder.0.cross", 0, {0: 2, 1: 0, 2: 1, 3: 2})
    point(trained, "decoder.0.cross", 1, {0: 3, 1: 4, 2: 2, 3: 2})
    own, below = (scores_of(trained, f"dec0.cross.h{head}") for head in (0, 1))
    assert own["diagonal"] == pytest.approx(1, abs=ROUNDING)
    assert own["previous_column"] == own["carry"] == pytest.approx(0, abs=ROUNDING)
    assert own["operator"] == below["operator"] == pytest.approx(2 / 4, abs=ROUNDING)
    assert below["diagonal"] == pytest.approx(0, abs=ROUNDING)
    assert below["previous_column"] == below["carry"] == pytest.approx(1, abs=ROUNDING)
    assert own["first_operand"] == below["second_operand"] == pytest.approx(2 / 4, abs=ROUNDING)
    assert own["self_token"] is own["previous_token"] is own["distance"] is None


def test_a_head_that_looks_at_the_previous_token_scores_1_over_padded_texts() -> None:
    trained = pointing(TEXT, task={"max_characters": 10}, model={"decoder_layers": 1})
    examples = trained.examples("test")
    assert (examples.source == trained.task.vocabulary.pad).any()
    # In a decoder-only model the prefix stands right after the source, whatever padding is between them.
    point(trained, "decoder.0.self", 0, {query: query - 1 for query in range(1, WIDTH)})
    point(trained, "decoder.0.self", 1, {query: query for query in range(WIDTH)})
    before, itself = (scores_of(trained, f"dec0.self.h{head}") for head in (0, 1))
    assert before["previous_token"] == pytest.approx(1, abs=ROUNDING)
    assert before["entropy"] == pytest.approx(0, abs=1e-4)
    assert before["sparsity"] == pytest.approx(1, abs=1e-4)
    assert itself["self_token"] == pytest.approx(1, abs=ROUNDING)
    assert itself["distance"] == pytest.approx(0, abs=1e-4)
    found = score_heads(trained, examples)
    lengths = (examples.source != trained.task.vocabulary.pad).sum(1) + (
        examples.target != trained.task.vocabulary.pad
    ).sum(1)
    # Every token but the first looks one token back.
    assert found.means["dec0.self.h0"]["distance"] == pytest.approx(np.mean((lengths - 1) / lengths), abs=1e-5)
