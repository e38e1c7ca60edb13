"""`hw.attach` on PyTorch's modules, on hand-written ones and on headway's own model; wrong uses."""

import math
import re
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headway as hw
from headway.attachment.multihead import written_out
from headway.attachment.verification import distance
from headway.attachment.weights import fused_weights
from headway.batches import make_batch
from headway.errors import InputError, InstrumentError
from headway.head_analysis.handles import intervene
from headway.head_analysis.variants import heads_of
from tests.head_analysis.small import SHAPES, untrained

WIDTH, HEADS, BATCH, LENGTH, ANSWER = 24, 4, 3, 7, 5


class Attention(nn.Module):
    """As a course's solution writes it."""

    def __init__(self, n_heads: int = HEADS) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for one in (self.W_q, self.W_k, self.W_v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


class Course(nn.Module):
    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, WIDTH)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"attn": Attention(), "mlp": nn.Linear(WIDTH, WIDTH)}) for _ in range(layers)
        )
        self.readout = nn.Linear(WIDTH, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer["attn"](x)
            x = x + torch.relu(layer["mlp"](x))
        return self.readout(x)


def seeded(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index)) * 0.1)
    return model.eval()


def transformer(batch_first: bool) -> nn.Transformer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about nested tensors, at every model whose layers are not batch first
        return nn.Transformer(WIDTH, HEADS, 2, 2, 31, batch_first=batch_first, norm_first=True)


def hidden(length: int, seed: int = 0) -> Tensor:
    return torch.randn(BATCH, length, WIDTH, generator=torch.Generator().manual_seed(seed))


TOKENS = torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % 11
PADDING = torch.arange(LENGTH) >= torch.tensor([LENGTH, LENGTH - 2, LENGTH - 1])[:, None]


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_written_out_multihead_attention_is_pytorch_s_bit_for_bit(batch_first: bool) -> None:
    torch.manual_seed(0)
    model = seeded(transformer(batch_first=batch_first))
    source, answer = hidden(LENGTH), hidden(ANSWER, 1)
    if not batch_first:
        source, answer = source.transpose(0, 1), answer.transpose(0, 1)
    causal = nn.Transformer.generate_square_subsequent_mask(ANSWER)
    batch = {"src": source, "tgt": answer, "tgt_mask": causal}
    batch |= {"src_key_padding_mask": PADDING, "memory_key_padding_mask": PADDING}
    attached = hw.attach(model, example=batch)
    torch.backends.mha.set_fastpath_enabled(False)
    wanted = model(**batch)
    torch.backends.mha.set_fastpath_enabled(True)
    assert torch.equal(attached.logits(batch), wanted)
    assert [site.name for site in attached.sites][:4] == ["enc0.self", "enc1.self", "dec0.self", "dec0.cross"]
    outputs = attached.head_outputs(batch)
    assert outputs["dec0.cross"].shape == (BATCH, ANSWER, HEADS, WIDTH // HEADS)
    assert torch.equal(attached.key_mask(batch)["dec0.cross"], ~PADDING)
    assert attached.query_mask(batch)["dec0.cross"].shape == (BATCH, ANSWER)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("kind", ["truth values", "numbers"])
@pytest.mark.parametrize("masked", ["padding", "mask", "mask for each head", "mask and padding", "both for each head"])
def test_masks_and_padding_of_the_written_out_attention_add_up_as_pytorch_s_do(
    masked: str, kind: str, asked: bool
) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    query, key = hidden(ANSWER), hidden(LENGTH, 1)
    hides: dict[str, Tensor] = {}
    if "padding" in masked or "both" in masked:
        hides["key_padding_mask"] = PADDING
    if "mask" in masked or "both" in masked:
        later = torch.arange(LENGTH) > torch.arange(ANSWER)[:, None] + 1
        heads = torch.stack([later.roll(-head, 1) & (torch.arange(LENGTH) > 0) for head in range(BATCH * HEADS)])
        hides["attn_mask"] = heads if "each head" in masked else later
    if kind == "numbers":
        hides = {name: torch.zeros(one.shape).masked_fill(one, -math.inf) for name, one in hides.items()}
    wanted, weights = module(query, key, key, need_weights=asked, average_attn_weights=False, **hides)
    with written_out([module]):
        found, again = module(query, key, key, need_weights=asked, average_attn_weights=False, **hides)
    assert torch.equal(found, wanted)
    assert (again is None) == (weights is None) == (not asked)
    if weights is not None:
        assert torch.equal(again, weights)
        assert bool((weights[1, :, :, -2:] == 0).all()) == ("key_padding_mask" in hides)


def test_weights_of_multihead_attention_are_those_that_it_returns_itself() -> None:
    layer = seeded(nn.TransformerEncoderLayer(WIDTH, HEADS, 31, batch_first=True))
    x = hidden(LENGTH)
    batch = {"src": x, "src_key_padding_mask": PADDING}
    found = hw.attach(layer).attention(batch)["enc0.self"]
    wanted = layer.self_attn(x, x, x, key_padding_mask=PADDING, average_attn_weights=False)[1]
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)  # two products of float32 in another order


def test_a_head_of_the_fast_path_is_reached() -> None:
    """On the fast path no module is called, so a plain hook on `out_proj` is silent; an edit is not."""
    model = seeded(nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, 31, batch_first=True), 2))
    x = hidden(LENGTH)
    with torch.no_grad():
        whole = model(x)
    attached = hw.attach(model, example=x)
    with attached.intervene({"enc1.self": lambda heads: heads * 0}), torch.no_grad():
        cut = model(x)
    weight = model.layers[1].self_attn.out_proj.weight
    with torch.no_grad():
        weight.zero_()
        wanted = model(x)
    torch.testing.assert_close(cut, wanted, rtol=1e-5, atol=1e-5)  # fast and slow path round differently
    assert float((cut - whole).abs().max()) > 1e-2
    assert "forward" not in vars(model.layers[1].self_attn)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("how", [{}, {"sites": "layers.*.attn.W_o", "n_heads": HEADS}])
def test_a_hand_written_module_is_attached_by_its_names_or_by_a_pattern(how: dict[str, object]) -> None:
    attached = hw.attach(seeded(Course()), example=TOKENS, **how)
    assert [(site.name, site.path) for site in attached.sites] == [
        ("enc0.self", "layers.0.attn.W_o"),
        ("enc1.self", "layers.1.attn.W_o"),
    ]
    weights = attached.attention(TOKENS)["enc1.self"]
    assert weights.shape == (BATCH, HEADS, LENGTH, LENGTH)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, HEADS, LENGTH))
    assert hw.attach(seeded(Course()), kind="decoder").sites[0].name == "dec0.self"


@pytest.mark.parametrize("how", [{}, {"scale": 0.3}, {"is_causal": True}])
def test_weights_inside_fused_attention_are_those_of_the_softmax(how: dict[str, Any]) -> None:
    class Plain(Attention):
        def heads(self, x: Tensor) -> list[Tensor]:
            parts = (self.W_q, self.W_k, self.W_v)
            return [one(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for one in parts]

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.heads(x)
            scores = q @ k.transpose(-2, -1) * how.get("scale", 1 / math.sqrt(q.shape[-1]))
            if "is_causal" in how:
                scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).triu(1) > 0, -math.inf)
            return self.W_o((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))

    class Fused(Plain):
        def forward(self, x: Tensor) -> Tensor:
            mixed = nn.functional.scaled_dot_product_attention(*self.heads(x), **how)
            return self.W_o(mixed.transpose(1, 2).flatten(2))

    model, fused = seeded(Course()), seeded(Course())
    fused.load_state_dict(model.state_dict())
    for plain_layer, layer in zip(model.layers, fused.layers, strict=True):
        plain_layer["attn"].__class__, layer["attn"].__class__ = Plain, Fused
    wanted, found = (hw.attach(one).attention(TOKENS) for one in (model, fused))
    for name, weights in wanted.items():
        torch.testing.assert_close(found[name], weights, rtol=1e-5, atol=1e-6)  # the same numbers in another order


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_weights_of_grouped_queries_are_those_that_mix_the_values(groups: int) -> None:
    """With values that are unit vectors, fused attention gives out its weights themselves."""
    draws = torch.Generator().manual_seed(0)
    query = torch.randn(BATCH, 4, ANSWER, 6, generator=draws)
    key = torch.randn(BATCH, groups, LENGTH, 6, generator=draws)
    value = torch.eye(LENGTH).expand(BATCH, groups, -1, -1)
    wanted = nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    found = fused_weights(query, key, value, enable_gqa=True)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)  # the same numbers in another order


def test_a_padding_mask_of_numbers_hides_what_one_of_truth_values_hides() -> None:
    """PyTorch adds such a mask to the scores: 0 at real tokens, minus infinity at padding."""
    attached = hw.attach(seeded(transformer(batch_first=True)))
    batch = {"src": hidden(LENGTH), "tgt": hidden(ANSWER, 1)}
    added = torch.zeros(PADDING.shape).masked_fill(PADDING, -math.inf)
    found = attached.key_mask({**batch, "src_key_padding_mask": added})
    assert torch.equal(found["enc0.self"], ~PADDING)
    assert torch.equal(found["dec1.cross"], ~PADDING)
    assert torch.equal(found["dec0.self"], torch.ones(BATCH, ANSWER, dtype=torch.bool))


def test_an_edit_in_a_place_that_is_no_output_projection_is_refused() -> None:
    with pytest.raises(InstrumentError, match=r"never calls the output projection of enc0.self \(layers.0.attn.W_o\)"):
        hw.attach(seeded(Silent()), sites="layers.*.attn.W_o", n_heads=HEADS, example=TOKENS)


def test_heads_that_are_not_what_they_seem_are_refused() -> None:
    with pytest.raises(
        InstrumentError, match=r"not zero in the weights of .*enc0.self \(layers.0.attn.W_o\).*: that is no"
    ):
        hw.attach(seeded(Tied()), example=TOKENS)
    with pytest.raises(InstrumentError, match="no logit changes when every head of a site is set to zero"):
        hw.attach(seeded(Unused()), example=TOKENS)


def test_one_attention_without_effect_does_not_refuse_the_others() -> None:
    verified = hw.attach(seeded(HalfUsed()), example=TOKENS).verified
    assert verified is not None and (verified.sites, verified.heads) == (2, 2 * HEADS)


class Tied(Course):
    """Its output projection is the query projection, too: zero in the weights is more than zero at the handle."""

    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer["attn"].W_q.weight = layer["attn"].W_o.weight


class Unused(Course):
    """Computes its attention and leaves it out."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + 0 * layer["attn"](x)
        return self.readout(x)


class HalfUsed(Course):
    """Computes the attention of its last layer and leaves it out."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        first, last = self.layers
        x = x + first["attn"](x)
        return self.readout(x + 0 * last["attn"](x))


class Silent(Course):
    """Calls its projections as functions, so that hooks on them are silent."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + nn.functional.linear(x, layer["attn"].W_o.weight)
        return self.readout(x)


class Chance(Course):
    """Drops at random in evaluation mode too, by a call that no mode turns off."""

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(tokens), 0.5, training=True)


class Shared(Course):
    """Computes its first layer twice."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.readout(self.layers[0]["attn"](x + self.layers[0]["attn"](x)))


class Overflow(Course):
    """Rules tokens out by a logit of minus infinity."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).index_fill(-1, torch.tensor([2]), -math.inf)


def test_randomness_shared_layers_and_infinite_logits_are_seen_for_what_they_are() -> None:
    with pytest.raises(InstrumentError, match=r"two passes on the same batch differ by .*: dropout, or another source"):
        hw.attach(seeded(Chance()), example=TOKENS)
    shared = hw.attach(seeded(Shared(1)), example=TOKENS)
    for ask in (shared.head_outputs, shared.attention):
        with pytest.raises(
            InputError, match=r"enc0.self is computed more than once in a pass: its layers share weights"
        ):
            ask(TOKENS)
    assert hw.attach(seeded(Overflow()), example=TOKENS).verified is not None


class Spoiled(Course):
    """Gives NaN where a hook is on its first output projection."""

    def forward(self, tokens: Tensor) -> Tensor:
        logits = super().forward(tokens)
        return logits * math.nan if self.layers[0]["attn"].W_o._forward_pre_hooks else logits


def test_a_model_that_gives_nan_once_it_is_hooked_is_refused() -> None:
    with pytest.raises(InstrumentError, match="the logits with every head kept differ from the model's own by"):
        hw.attach(seeded(Spoiled()), example=TOKENS)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ([1.0, 2.0, -3.0], [1.5, 2.0, -5.0], 2.0),
        ([math.nan, 2.0], [math.nan, 2.25], 0.25),
        ([math.inf, -math.inf, 1.0], [math.inf, -math.inf, 1.0], 0.0),
        ([math.nan, 2.0], [1.0, 2.0], None),
        ([1.0, 2.0], [math.nan, 2.0], None),
        ([math.inf, 2.0], [-math.inf, 2.0], None),
        ([math.inf, 2.0], [math.nan, 2.0], None),
    ],
)
def test_nan_and_infinity_are_as_far_as_can_be_from_all_but_themselves(
    one: list[float], other: list[float], apart: float | None
) -> None:
    found = distance(torch.tensor(one), torch.tensor(other))
    assert found > 1e38 if apart is None else found == apart


def test_no_module_of_headway_imports_transformers_when_it_is_imported() -> None:
    """Functions import it when a user's model needs it."""
    root = Path(hw.__file__).parent
    foreign = re.compile(r"^(import|from) (transformers|transformer_lens)\b", re.MULTILINE)
    assert [path for path in root.rglob("*.py") if foreign.search(path.read_text())] == []


def test_what_was_found_is_a_table() -> None:
    attached = hw.attach(seeded(Course()), example=TOKENS)
    assert repr(attached).splitlines() == [
        "Course: 8 heads in 2 sites, verified",
        "site       kind     heads  d_head  key-value heads  output projection",
        "enc0.self  encoder  4      6       4                layers.0.attn.W_o",
        "enc1.self  encoder  4      6       4                layers.1.attn.W_o",
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_headway_s_own_model_has_its_own_names_weights_and_handles(shape: str) -> None:
    trained = untrained(SHAPES[shape])
    batch = make_batch(trained.task, trained.model, trained.examples("test").take(slice(0, 5)), trained.device).inputs
    attached = hw.attach(trained.model, example=batch)
    assert [str(head) for head in attached.heads] == [str(head) for head in heads_of(trained)]
    record: dict[str, Tensor] = {}
    with torch.no_grad():
        trained.model(batch, record)
    found = attached.attention(batch)
    assert list(found) == [f"{name[:3]}{name.split('.', 1)[1]}" for name in record]
    assert all(torch.equal(a, b) for a, b in zip(found.values(), record.values(), strict=True))
    site = trained.model.sites[-1].name
    with intervene(trained.model, {site: lambda heads: heads * 0}), torch.no_grad():
        wanted = trained.model(batch)
    with hw.ablated(attached, [str(head) for head in trained.model.sites[-1].heads]):
        torch.testing.assert_close(attached.logits(batch), wanted, rtol=0, atol=0)
    masks = attached.key_mask(batch)
    assert all(masks[name].shape == (5, weights.shape[3]) for name, weights in found.items())
    assert all(
        float(weights[~masks[name][:, None, None].expand_as(weights)].sum()) == 0 for name, weights in found.items()
    )


def dropping() -> nn.Module:
    """A model in evaluation mode of which one dropout was forgotten."""
    model = nn.Sequential(nn.Dropout(0.1), nn.TransformerEncoderLayer(WIDTH, HEADS, 31, batch_first=True)).eval()
    model[0].train()
    return model


WRONG = {
    "needs a torch.nn.Module, not str 'x'": lambda: hw.attach("x"),  # type: ignore[arg-type]
    r"no attention found in Sequential; linear modules: \*; name the": lambda: hw.attach(
        nn.Sequential(nn.Linear(2, 3))
    ),
    r"no module of Course matches 'layer.\*.W_o'; linear modules: layers": lambda: hw.attach(
        Course(), sites="layer.*.W_o"
    ),
    "has 24 numbers, which 5 heads cannot share": lambda: hw.attach(Course(), n_heads=5),
    "on the meta device and has no weights": lambda: hw.attach(nn.Linear(2, 3, device="meta")),
    "is in training mode": lambda: hw.attach(Course().train(), example=TOKENS),
    "0 is in training mode and drops at random; call model.eval": lambda: hw.attach(dropping(), example=hidden(LENGTH)),
    "has no parameters": lambda: hw.attach(nn.ReLU()),
    "kind = 'middle'; one of encoder": lambda: hw.attach(Course(), kind="middle"),
    "n_heads = 0; a whole number of at least 1": lambda: hw.attach(Course(), n_heads=0),
    "no site 'enc2.self'; did you mean enc": lambda: hw.attach(Course()).site("enc2.self"),
    "the number of heads of readout is not known": lambda: hw.attach(
        nn.ModuleDict({"readout": nn.Linear(4, 4)}), sites="readout"
    ),
    "add_bias_kv or add_zero_attn": lambda: hw.attach(nn.MultiheadAttention(WIDTH, HEADS, add_zero_attn=True)),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_use_gets_one_line(message: str) -> None:
    with pytest.raises(InputError, match=message) as problem:
        WRONG[message]()
    assert "\n" not in str(problem.value)


@torch.no_grad()
@pytest.mark.parametrize("made", ["nn.Transformer", "course"])
def test_pruned_modules_of_pytorch_and_of_a_course_equal_the_masked_ones(made: str) -> None:
    model, batch, heads = seeded(Course()), TOKENS, ["enc0.self.h1", "enc1.self.h0", "enc1.self.h3"]
    if made == "nn.Transformer":
        model = seeded(transformer(batch_first=True))
        batch = {"src": hidden(LENGTH), "tgt": hidden(ANSWER, 1), "src_key_padding_mask": PADDING}
        heads = ["enc0.self.h1", "enc1.self.h0", "enc1.self.h3", "dec0.self.h2", "dec1.cross.h0"]
    attached = hw.attach(model, example=batch)
    with hw.ablated(attached, heads):
        masked = attached.logits(batch)
    result = hw.prune(model, heads, example=batch)
    found = result.model(**batch) if isinstance(batch, dict) else result.model(batch)
    torch.testing.assert_close(found, masked, rtol=1e-4, atol=1e-5)  # sums over fewer columns
    again = hw.attach(result.model, example=batch)
    assert tuple(map(str, again.heads)) == result.kept
    with hw.ablated(result.model, [result.kept[0]]):
        both = again.logits(batch)
    with hw.ablated(attached, [*heads, result.kept[0]]):
        torch.testing.assert_close(both, attached.logits(batch), rtol=1e-4, atol=1e-5)


class Slow(Attention):
    """Takes a few milliseconds for every head."""

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0.004 * self.n_heads)
        return super().forward(x)


def test_a_pruned_model_that_takes_a_third_of_the_time_is_faster() -> None:
    model = seeded(Course(1))
    model.layers[0]["attn"].__class__ = Slow
    assert hw.prune(model, keep=["enc0.self.h2"], example=TOKENS).speed > 1.5


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_the_memory_of_a_pruned_model_is_that_of_its_parameters(kind: torch.dtype) -> None:
    model = seeded(Course()).to(kind)
    result = hw.prune(model, ["enc0.self.h1"], example=TOKENS)
    before, after = (
        sum(one.contiguous().view(torch.uint8).numel() for one in some.parameters()) for some in (model, result.model)
    )
    assert (result.bytes_before, result.bytes_after) == (before, after)


def test_a_model_that_cannot_be_compared_is_not_pruned() -> None:
    with pytest.raises(InputError, match="give example="):
        hw.prune(seeded(Course()), ["enc0.self.h1"])
    trained = untrained(SHAPES["addition"])
    batch = make_batch(trained.task, trained.model, trained.examples("test").take(slice(0, 5)), trained.device).inputs
    with pytest.raises(InputError, match="this is headway's own model; prune its run"):
        hw.prune(trained.model, ["enc0.self.h1"], example=batch)
