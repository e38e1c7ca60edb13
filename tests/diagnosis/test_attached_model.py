"""The doctor on models of other programs: each planted fault is the first error, and healthy models have none."""

import copy
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headway as hw
from headway.attached_analysis.examples import read_data
from headway.attached_analysis.metrics import find_metric
from headway.attachment.attached import attach
from headway.diagnosis.attached_model import AttachedExamination, _right_at
from headway.errors import InputError
from headway.results.doctor import Diagnosis
from tests.attachment.small_models import ARCHITECTURES, VOCABULARY, decoder_only, made

ROWS, WIDTH = 24, 9
SEPARATOR = 28


def first_error(model: Any, data: Any, metric: str = "accuracy") -> str:
    found = hw.doctor(model, data=data, metric=metric)
    assert isinstance(found, Diagnosis)
    assert found.errors, [finding.evidence for finding in found.findings]
    assert found.errors[0].fix
    return found.errors[0].check


def errors_of(model: Any, data: Any, metric: str) -> list[str]:
    found = hw.doctor(model, data=data, metric=metric)
    assert isinstance(found, Diagnosis)
    return [finding.evidence for finding in found.errors]


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randint(3, SEPARATOR, shape, generator=torch.Generator().manual_seed(seed))


def counting(seed: int, rows: int = ROWS) -> Tensor:
    """Rows in which each token is the one before plus 1."""
    return 3 + (drawn(seed, rows, 1) + torch.arange(WIDTH)) % 25


def small_llama() -> nn.Module:
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "num_key_value_heads": 3}
    return decoder_only("llama", **sizes, intermediate_size=31, max_position_embeddings=32)[0]


def trained(model: nn.Module, batch_of: Any, steps: int) -> nn.Module:
    """The model after a few steps on `(input_ids, labels)`, where -100 is not scored."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        ids, labels = batch_of(step)
        loss = F.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), labels.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def next_tokens(ids: Tensor) -> Tensor:
    return F.pad(ids[:, 1:], (0, 1), value=-100)


@cache
def counter() -> nn.Module:
    def batch_of(step: int) -> tuple[Tensor, Tensor]:
        ids = counting(step, 64)
        return ids, next_tokens(ids)

    return trained(small_llama(), batch_of, 60)


def labelled(seed: int) -> tuple[Tensor, Tensor]:
    """Prompts that end with a separator; a label, 3 or 4, stands somewhere in each."""
    ids = drawn(seed, 64, WIDTH).clamp(min=6)
    label = drawn(seed + 1000, 64) % 2 + 3
    ids[torch.arange(64), drawn(seed + 2000, 64) % (WIDTH - 1)] = label
    ids[:, -1] = SEPARATOR
    return ids, label


@cache
def label_reader() -> nn.Module:
    def batch_of(step: int) -> tuple[Tensor, Tensor]:
        ids, label = labelled(step)
        labels = torch.full_like(ids, -100)
        labels[:, -1] = label
        return ids, labels

    return trained(small_llama(), batch_of, 60)


class Attention(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.qkv, self.out, self.beside = nn.Linear(12, 36), nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (3, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        if self.how == "unused":
            self.beside(mixed)
        if self.how == "noisy":
            mixed = F.dropout(mixed, 0.2)
        return x + F.linear(mixed, self.out.weight, self.out.bias) if self.how == "function" else x + self.out(mixed)


def own_module(how: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(VOCABULARY, 12), Attention(how), Attention(how), nn.Linear(12, 5)).eval()


def own_data() -> tuple[Tensor, Tensor]:
    return drawn(5, ROWS, WIDTH), drawn(6, ROWS, WIDTH) % 5


def test_dropout_left_on_is_named_and_the_mode_is_kept() -> None:
    model, batch = ARCHITECTURES["bert"]()
    model.train()
    assert first_error(model, batch, "kl") == "dropout-on"
    assert all(module.training for module in model.modules())
    model.eval()
    next(one for one in model.modules() if isinstance(one, nn.Dropout)).train()
    assert first_error(model, batch, "kl") == "dropout-on"


def test_dropout_in_the_models_own_code_is_named() -> None:
    found = hw.doctor(attach(own_module("noisy"), sites="*.out", n_heads=3), data=own_data())
    assert isinstance(found, Diagnosis)
    assert found.errors[0].check == "dropout-on"
    assert "no module is in training mode" in found.errors[0].evidence


def test_a_hook_on_the_feed_forward_layer_is_named() -> None:
    model, batch = made("llama")
    wrong = attach(model, sites="model.layers.*.mlp.gate_proj", n_heads=4, kind="decoder")
    assert first_error(wrong, batch, "kl") == "hook-misplaced"
    mixed = attach(model, sites=["*.0.self_attn.o_proj", "*.1.mlp.gate_proj"], n_heads=4, kind="decoder")
    found = hw.doctor(mixed, data=batch, metric="kl")
    assert isinstance(found, Diagnosis)
    assert found.errors[0].numbers["sites"] == ["dec1.self (model.layers.1.mlp.gate_proj)"]


@pytest.mark.parametrize(("how", "sites", "check"), [
    ("unused", "*.beside", "hook-misplaced"),
    ("plain", "*.qkv", "hook-misplaced"),
    ("function", "*.out", "hook-silent"),
])  # fmt: skip
def test_a_hook_that_reaches_no_head_is_named(how: str, sites: str, check: str) -> None:
    model = own_module(how)
    assert first_error(attach(model, sites=sites, n_heads=3), own_data()) == check
    assert how == "function" or not errors_of(attach(model, sites="*.out", n_heads=3), own_data(), "accuracy")


def test_padding_on_the_wrong_side_of_a_decoder_is_named() -> None:
    model, left = made("gpt2")  # its positions count from the first column
    assert first_error(model, left, "next_token_loss") == "padding-side"
    right = {**left, "attention_mask": left["attention_mask"].flip(1)}
    assert not errors_of(model, right, "next_token_loss")
    positions = (left["attention_mask"].cumsum(1) - 1).clamp(min=0)
    assert not errors_of(model, {**left, "position_ids": positions}, "next_token_loss")
    prompts = {**right, "labels": drawn(1, 3, 2)}
    assert first_error(model, prompts, "generated") == "padding-side"
    assert not errors_of(model, {**prompts, "attention_mask": left["attention_mask"]}, "generated")


def test_a_scored_padding_token_is_named() -> None:
    model, batch = made("llama")
    mask = batch["attention_mask"].flip(1)
    ids = batch["input_ids"] * mask  # padding is token 0
    answers = {"answer": drawn(1, 3), "other": drawn(2, 3)}
    assert first_error(model, {"input_ids": ids, **answers}, "logit_difference") == "padding-side"
    assert not errors_of(model, {"input_ids": ids, "attention_mask": mask, **answers}, "logit_difference")
    assert first_error(model, {"input_ids": ids, "attention_mask": mask, "labels": ids}) == "padding-side"


@pytest.mark.parametrize(
    ("pad", "end", "tail", "named"),
    [(0, 2, [0], True), (0, 2, [2], False), (2, 2, [2], False), (2, 2, [2, 2], True), (0, 0, [5, 0], False)],
)
def test_one_end_token_that_is_also_the_padding_is_text(pad: int, end: int, tail: list[int], named: bool) -> None:
    model = copy.deepcopy(made("llama")[0])
    model.config.pad_token_id, model.config.eos_token_id = pad, end
    ids = drawn(3, ROWS, WIDTH)
    ids[:5, -len(tail) :] = torch.tensor(tail)
    errors = errors_of(model, {"input_ids": ids}, "next_token_loss")
    assert any("end with padding" in evidence for evidence in errors) is named


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_the_share_right_beside_a_place_is_over_the_places_that_have_a_neighbour(shift: int) -> None:
    said, target = drawn(1, 40, 4) % 3, drawn(2, 40, 4) % 3
    target[::5, 1] = -100
    pairs = [
        (int(said[row, place + shift]), int(target[row, place]))
        for row in range(40)
        for place in range(4)
        if 0 <= place + shift < 4 and target[row, place] != -100
    ]
    wanted = sum(one == other for one, other in pairs) / len(pairs)
    assert _right_at(F.one_hot(said, 3).float(), target, shift) == pytest.approx(wanted)


def test_scoring_shifted_by_one_token_is_named() -> None:
    ids = counting(999)
    assert not errors_of(counter(), {"input_ids": ids}, "next_token_accuracy")
    assert not errors_of(counter(), {"input_ids": ids, "labels": next_tokens(ids)}, "accuracy")
    assert first_error(counter(), {"input_ids": ids, "labels": ids}) == "answers-shifted"
    late = F.pad(ids[:, 2:], (0, 2), value=-100)
    assert first_error(counter(), {"input_ids": ids, "labels": late}) == "answers-shifted"


def test_no_padding_token_is_a_next_token() -> None:
    """Rows of 9, 5 and 2 real tokens, padded on the right and on the left, have 8, 4 and 1 next tokens."""
    ids, mask = counting(999, 3), (torch.arange(WIDTH) < torch.tensor([[9], [5], [2]])).long()
    for real in (mask, mask.flip(1)):
        examples = read_data({"input_ids": ids, "attention_mask": real})
        target = AttachedExamination(attach(counter()), examples, find_metric("next_token_accuracy")).targets
        assert target is not None
        rows = zip(ids, real.bool(), strict=True)
        assert [row[row != -100].tolist() for row in target] == [row[shown][1:].tolist() for row, shown in rows]


def test_a_language_model_trained_on_labels_that_are_not_shifted_is_named() -> None:
    copier = trained(small_llama(), lambda step: (drawn(step, 64, WIDTH),) * 2, 40)
    assert first_error(copier, {"input_ids": drawn(999, ROWS, WIDTH)}, "next_token_accuracy") == "answers-shifted"
    ids = drawn(998, ROWS, WIDTH)
    assert first_error(copier, {"input_ids": ids, "labels": ids}) == "labels-in-prompt"


def test_labels_in_the_prompt_are_named() -> None:
    ids, label = labelled(999)
    leaking = {"input_ids": ids, "answer": label, "other": 7 - label}
    assert first_error(label_reader(), leaking, "logit_difference") == "labels-in-prompt"
    assert first_error(label_reader(), {"input_ids": ids, "labels": label[:, None]}, "generated") == "labels-in-prompt"
    clean = {**leaking, "input_ids": ids.clamp(min=6)}
    assert not errors_of(label_reader(), clean, "logit_difference")


def test_both_answers_in_the_prompt_are_no_leak() -> None:
    """As in indirect object identification, where both names are in every prompt."""
    ids, label = labelled(999)
    ids[:, 0], ids[:, 1] = label, 7 - label
    assert not errors_of(label_reader(), {"input_ids": ids, "answer": label, "other": 7 - label}, "logit_difference")


def test_a_task_that_copies_from_its_prompt_gets_a_warning() -> None:
    ids = drawn(4, ROWS, WIDTH)
    data = {"input_ids": ids, "answer": ids[:, 2], "other": torch.full((ROWS,), 2)}
    found = hw.doctor(small_llama(), data=data, metric="logit_difference")
    assert isinstance(found, Diagnosis)
    assert not found.errors
    assert [finding.check for finding in found.warnings] == ["labels-in-prompt"]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_healthy_model_has_no_error(name: str) -> None:
    model, batch = made(name)
    columns = {key: column.repeat(ROWS // len(column), 1) for key, column in batch.items()}
    if name == "gpt2":
        columns["attention_mask"] = columns["attention_mask"].flip(1)
    columns["input_ids"] = drawn(3, *columns["input_ids"].shape)
    columns |= {"answer": drawn(7, ROWS), "other": drawn(8, ROWS)}
    for metric in ("kl", "next_token_loss", "logit_difference"):
        assert not errors_of(model, columns, metric)


def test_wrong_uses_are_refused_in_one_line() -> None:
    model, batch = made("llama")
    with pytest.raises(InputError, match=r"^hw\.doctor of a model needs data: a batch, or a list of batches$"):
        hw.doctor(model)
    with pytest.raises(InputError, match=r"^2 models or runs; hw\.doctor examines one model of another program at"):
        hw.doctor(model, model, data=batch)
    with pytest.raises(InputError, match=r"^hw\.doctor of a run takes no data; it examines the run's own splits$"):
        hw.doctor("addition-seed0", data=batch)
    with pytest.raises(InputError, match=r"^metric 'logit_difference' needs 'other' in the data"):
        hw.doctor(model, data=batch, metric="logit_difference")


class Encoder(nn.Module):
    """PyTorch's encoder with mean pooling; `masks_pooling` leaves padding out of the mean."""

    def __init__(self, masks_pooling: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(12, 3, 16, batch_first=True)
        self.embedding, self.output = nn.Embedding(VOCABULARY, 12), nn.Linear(12, 2)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.masks_pooling = masks_pooling

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        found = self.encoder(self.embedding(input_ids), src_key_padding_mask=attention_mask == 0)
        counted = attention_mask if self.masks_pooling else torch.ones_like(attention_mask)
        pooled: Tensor = self.output((found * counted[..., None]).sum(1) / counted.sum(1, keepdim=True))
        return pooled


def test_padding_in_the_mean_of_an_encoder_is_named() -> None:
    batch = {**made("bert")[1], "labels": torch.tensor([0, 1, 1])}
    assert first_error(Encoder(masks_pooling=False).eval(), batch) == "padding-changes-output"
    assert not errors_of(Encoder(masks_pooling=True).eval(), batch, "accuracy")


def test_a_frozen_model_is_examined_and_stays_frozen() -> None:
    model = small_llama().requires_grad_(False)
    wrong = attach(model, sites="model.layers.*.mlp.gate_proj", n_heads=4, kind="decoder")
    assert first_error(wrong, {"input_ids": drawn(1, ROWS, WIDTH)}, "kl") == "hook-misplaced"
    assert not errors_of(model, {"input_ids": drawn(1, ROWS, WIDTH)}, "kl")
    assert not any(parameter.requires_grad for parameter in model.parameters())
