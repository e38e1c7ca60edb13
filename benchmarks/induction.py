"""A known truth: do scores, ablation and patching find the induction and previous-token heads of trained models?

    python -m benchmarks.induction [--seeds 0-9] [--steps 1500] [--out docs/results/induction.json] [--report DIR]

A two-layer attention-only model learns to continue random tokens that are repeated. The length of the repeated piece
varies, so that positions alone do not tell where to look, and the model needs an induction circuit (Elhage et al.
2021): previous-token heads in layer 0, and induction heads in layer 1. A seed counts as found if the head with the
highest previous-token score is in layer 0 and the one with the highest induction score in layer 1, zero ablation
calls both critical or important by the logit difference, and the single head whose patching moves the logit difference
most is an induction head (a score above 0.3). `--report` also writes `headway report` of the first seed.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headway as hw
from benchmarks.machine import circumstances
from headway.attached_analysis.examples import read_data
from headway.attachment.attached import Attached
from headway.cli.any_model import ModelOptions, OpenedModel, write_analysis
from headway.cli.options import parse_seeds
from headway.head_analysis.analysis import MAPS
from headway.reports.writing import report
from headway.results.heads import HeadAnalysis
from headway.runs import ModelDirectory

VOCABULARY, HALF, WIDTH, HEADS, LAYERS = 32, 16, 64, 4, 2
SHORTEST, CUT, IGNORED = 5, 26, -100
EXAMPLES, BATCH = 400, 128
METRIC = "logit_difference"
GOOD = 0.95
"""Accuracy of the repeated tokens at which training may stop."""


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n_heads = HEADS
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.W_q, self.W_k, self.W_v)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.W_o(mixed.transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(WIDTH), Attention()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.attn(self.norm(x))
        return out


class AttentionOnly(nn.Module):
    """Token and position embeddings, two layers of attention, no MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2 * HALF, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.readout = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1], device=input_ids.device))
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.readout(self.norm(x))
        return logits


def draw(rows: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random tokens, repeated after a length that varies by row; and that length."""
    piece = torch.rand(rows, VOCABULARY, generator=random).argsort(1)[:, :HALF]
    lengths = torch.randint(SHORTEST, HALF + 1, (rows, 1), generator=random)
    return piece.gather(1, torch.arange(2 * HALF).expand(rows, -1) % lengths), lengths


def train(seed: int, steps: int) -> tuple[AttentionOnly, float, int]:
    """The model, the accuracy on the repeated tokens of its last batch, and the steps that it took."""
    torch.manual_seed(seed)
    model, random = AttentionOnly(), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for step in range(1, steps + 1):
        ids, lengths = draw(BATCH, random)
        logits = model(ids)[:, :-1]
        target = ids[:, 1:].masked_fill(torch.arange(2 * HALF - 1) < lengths, IGNORED)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=IGNORED)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        accuracy = float((logits.argmax(-1) == target)[target != IGNORED].float().mean())
        if accuracy >= 1 - (1 - GOOD) / 10 and step >= steps // 4:
            break
    return model.eval(), accuracy, step


def pairs(seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Sequences that end inside the repetition, and sources in which the token that follows is another one."""
    random = torch.Generator().manual_seed(10_000 + seed)
    piece = torch.rand(EXAMPLES, VOCABULARY, generator=random).argsort(1)[:, : HALF + 1]
    piece, unused = piece[:, :HALF], piece[:, HALF]
    lengths = torch.randint(SHORTEST, HALF + 1, (EXAMPLES, 1), generator=random)
    place = (CUT - 1) % lengths  # of the last token in the piece; the answer stands one further on
    after = (place + 1) % lengths
    other = piece.scatter(1, after, unused[:, None])
    answers, index = piece.gather(1, after)[:, 0], torch.arange(CUT).expand(EXAMPLES, -1) % lengths
    return (
        {"input_ids": piece.gather(1, index), "answer": answers, "other": unused},
        {"input_ids": other.gather(1, index), "answer": unused, "other": answers},
    )


def judge(found: HeadAnalysis) -> dict[str, Any]:
    """What the instruments say, and whether it is the circuit."""
    previous = max(found.heads, key=lambda head: head.scores["previous_token"] or 0)
    induction = max(found.heads, key=lambda head: head.scores["induction"] or 0)
    needed = {head.name: head.ablation["zero"].verdict for head in (previous, induction)}
    rows = [row for row in found.interventions.contrasts[0].rows if row.is_single and row.effect is not None]
    moved = max(rows, key=lambda row: row.effect or 0, default=None)
    checks = {
        "previous_token_in_layer_0": previous.layer == 0,
        "induction_in_layer_1": induction.layer == 1,
        "both_needed": all(verdict in ("critical", "important") for verdict in needed.values()),
        "patching_names_an_induction_head": moved is not None
        and (found.head(moved.who).scores["induction"] or 0) > 0.3,
    }
    return {
        "previous_token": {"head": previous.name, "score": previous.scores["previous_token"]},
        "induction": {"head": induction.name, "score": induction.scores["induction"]},
        "verdicts": needed,
        "drops": {head.name: head.ablation["zero"].drop for head in found.heads},
        "patched": None
        if moved is None
        else {"head": moved.who, "effect": moved.effect, "interval": moved.effect_interval},
        "doubts": found.doubts(),
        "checks": checks,
        "found": all(checks.values()) and not found.doubts(),
    }


def write_report(attached: Attached, examples: dict[str, Tensor], found: HeadAnalysis, place: Path) -> None:
    """`headway report` of an analysis, with the doctor's findings."""
    opened = OpenedModel(
        name="AttentionOnly", attached=attached, examples=read_data(examples), metric=METRIC, split="given"
    )
    options, place = ModelOptions(data=Path("repeated random tokens"), metric=METRIC), place.absolute()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_analysis(ModelDirectory("analysed"), opened, options, MAPS, found)
        report("analysed", out=place, force=True)


def one_seed(seed: int, steps: int, place: Path | None = None) -> dict[str, Any]:
    start = time.perf_counter()
    model, accuracy, taken = train(seed, steps)
    trained = time.perf_counter() - start
    base, source = pairs(seed)
    attached = hw.attach(model, kind="decoder")
    found = hw.heads(attached, base, METRIC, source=source)
    if place is not None:
        write_report(attached, base, found, place)
    analysed = time.perf_counter() - start - trained
    told = {"seed": seed, "accuracy": accuracy, "steps": taken, "train_seconds": trained, "heads_seconds": analysed}
    return {**told, **judge(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=Path("docs/results/induction.json"))
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    command = ["python", "-m", "benchmarks.induction", "--seeds", options.seeds, "--steps", str(options.steps)]
    sys.argv = command  # what the report says, without the places of this machine
    rows = []
    for seed in parse_seeds(options.seeds):
        rows.append(one_seed(seed, options.steps, None if rows else options.report))
        row = rows[-1]
        print(seed, f"{row['accuracy']:.3f}", row["found"], row["checks"], f"{row['train_seconds']:.0f} s", flush=True)
        told = {"found": sum(row["found"] for row in rows), "of": len(rows), "rows": rows}
        about = circumstances(torch.device("cpu"), command, None)
        options.out.write_text(json.dumps({**about, **told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
