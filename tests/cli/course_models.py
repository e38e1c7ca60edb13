"""Models as a student writes them for a course, with files of the course's data: no line of headway."""

import json
import random
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

PARTS = """
import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        batch = query.size(0)
        q, k, v = (
            layer(x).view(batch, -1, self.num_heads, self.d_k).transpose(1, 2)
            for layer, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        x = scores.softmax(-1) @ v
        return self.W_o(x.transpose(1, 2).reshape(batch, -1, self.num_heads * self.d_k))


class Sinusoidal(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        table, place = torch.zeros(max_len, d_model), torch.arange(max_len)[:, None]
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return x + self.table[: x.size(1)]


def feed_forward(d_model, d_ff):
    return nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
"""
CLASSIFIER = (
    PARTS
    + '''

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.self_attn, self.ff = MultiHeadAttention(d_model, num_heads), feed_forward(d_model, 10)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.norm1(x + self.self_attn(x, x, x, mask))
        return self.norm2(x + self.ff(x))


class Classifier(nn.Module):
    """Is the sequence sorted? Mean pooling over the encoder's outputs; 0 is padding."""

    def __init__(self, values=20, d_model=12, num_heads=3, layers=2, max_len=64):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(values, d_model), Sinusoidal(d_model, max_len)
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads) for _ in range(layers))
        self.classifier = nn.Linear(d_model, 2)

    def forward(self, tokens):
        real = tokens != 0
        x = self.positions(self.embedding(tokens))
        for layer in self.layers:
            x = layer(x, real[:, None, None, :])
        real = real[..., None].float()
        return self.classifier((x * real).sum(1) / real.sum(1))


class Constant(Classifier):
    def forward(self, tokens):
        return super().forward(tokens) * 0 + torch.tensor([0.0, 1.0])


class WithWeights(Classifier):
    def forward(self, tokens):
        return super().forward(tokens), self.embedding(tokens)


class Named(Classifier):
    def forward(self, tokens):
        return {"answer": super().forward(tokens)}


PAD = 0


def build():
    return Classifier()


def constant():
    return Constant()


def returns_a_tuple():
    return WithWeights()


def returns_a_dictionary():
    return Named()
'''
)
ADDER = (
    PARTS
    + '''

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.self_attn, self.ff = MultiHeadAttention(d_model, num_heads), feed_forward(d_model, 10)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.self_attn(x, x, x))
        return self.norm2(x + self.ff(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.self_attn, self.cross_attn = (MultiHeadAttention(d_model, num_heads) for _ in range(2))
        self.ff = feed_forward(d_model, 10)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, mask):
        x = self.norm1(x + self.self_attn(x, x, x, mask))
        x = self.norm2(x + self.cross_attn(x, memory, memory))
        return self.norm3(x + self.ff(x))


class Adder(nn.Module):
    """Digits 0 to 9, + is 10, the start token is 11."""

    def __init__(self, d_model=16, num_heads=2, max_len=16):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(12, d_model), Sinusoidal(d_model, max_len)
        self.encoder, self.decoder = EncoderLayer(d_model, num_heads), DecoderLayer(d_model, num_heads)
        self.output = nn.Linear(d_model, 12)

    def forward(self, src, tgt):
        memory = self.encoder(self.positions(self.embedding(src)))
        mask = torch.tril(torch.ones(tgt.size(1), tgt.size(1), device=tgt.device))
        return self.output(self.decoder(self.positions(self.embedding(tgt)), memory, mask))


def build():
    return Adder()
'''
)
SHORT = CLASSIFIER.replace("max_len=64", "max_len=12")
"""The same classifier with 12 positions."""


def orders(rng: random.Random, n: int, lengths: range, values: int = 20) -> list[dict[str, Any]]:
    """Half sorted, half with two random elements exchanged; no value is 0, which pads."""
    rows: list[dict[str, Any]] = []
    while len(rows) < n:
        sequence = sorted(rng.randrange(1, values) for _ in range(rng.choice(lengths)))
        if len(rows) % 2:
            i, j = rng.sample(range(len(sequence)), 2)
            sequence[i], sequence[j] = sequence[j], sequence[i]
        is_sorted = int(sequence == sorted(sequence))
        if is_sorted != len(rows) % 2:
            rows.append({"sequence": sequence, "is_sorted": is_sorted, "length": len(sequence)})
    return rows


def sums(rng: random.Random, n: int, digits: int = 3) -> list[dict[str, Any]]:
    rows = []
    for _ in range(n):
        a, b = (rng.randrange(10 ** (digits - 1), 10**digits) for _ in range(2))
        first, second, total = ([int(x) for x in text] for text in (str(a), str(b), f"{a + b:0{digits + 1}d}"))
        rows.append({"input": [*first, 10, *second], "target": total})
    return rows


def write_course(folder: Path, *, n: int = 40) -> None:
    """`orders` and `sums` with three splits and longer test files, the models, and their untrained weights."""
    rng = random.Random(5)
    for name, draw in (("orders", lambda k: orders(rng, k, range(4, 8))), ("sums", lambda k: sums(rng, k))):
        (folder / name).mkdir(parents=True)
        for split in ("train", "val", "test"):
            (folder / name / f"{split}.json").write_text(json.dumps(draw(n)))
    (folder / "orders" / "test_9.json").write_text(json.dumps(orders(rng, n, range(9, 10))))
    (folder / "sums" / "test_4.json").write_text(json.dumps(sums(rng, n, digits=4)))
    torch.manual_seed(1)
    for name, code in (("classifier", CLASSIFIER), ("adder", ADDER), ("short", SHORT)):
        (folder / f"{name}.py").write_text(code)
        save_file(built(code).state_dict(), folder / f"{name}.safetensors")


def built(code: str, function: str = "build") -> Any:
    scope: dict[str, Any] = {"__name__": "course"}
    exec(code, scope)
    return scope[function]().eval()
