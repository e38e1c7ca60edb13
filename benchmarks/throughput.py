"""Ratios that matter to a newcomer, each measured side by side in one process, alternating, median of repeats.

    python benchmarks/throughput.py [--seconds 2] [--repeats 5]

- training steps of headway's model against torch.nn.Transformer of the same size (batch 128)
- scoring whole answers by one parallel pass against decoding them token by token, with and without kept keys
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from headway.batches import Batch, make_batch, make_model
from headway.config import Choice, ModelConfig
from headway.evaluation import decode, parallel_pass
from headway.tasks import make_task
from headway.tasks.splits import fixed_split

BATCH = 128
CPU = torch.device("cpu")


class Plain(nn.Module):
    """The model as one would write it with torch.nn.Transformer."""

    def __init__(self, n_tokens: int, config: ModelConfig):
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, config.d_model)
        self.positions = nn.Embedding(16, config.d_model)
        self.transformer = nn.Transformer(
            config.d_model, config.n_heads, 2, 2, config.d_ff, dropout=0.0, batch_first=True, norm_first=True
        )
        self.readout = nn.Linear(config.d_model, n_tokens)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))

    def forward(self, batch: Batch) -> torch.Tensor:
        assert batch.inputs.prefix is not None
        source, prefix = self.embed(batch.inputs.source), self.embed(batch.inputs.prefix)
        future = nn.Transformer.generate_square_subsequent_mask(prefix.shape[1])
        return self.readout(self.transformer(source, prefix, tgt_mask=future, tgt_is_causal=True))


def training_step(forward: Callable[[Batch], torch.Tensor], model: nn.Module, batch: Batch) -> Callable[[], None]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        loss = nn.functional.cross_entropy(forward(batch).flatten(0, 1), batch.target.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def rate(work: Callable[[], object], seconds: float) -> float:
    """Calls a second."""
    work()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        work()
        count += 1
    return count / (time.perf_counter() - start)


def compare(name: str, ours: Callable[[], object], theirs: Callable[[], object], seconds: float, repeats: int) -> None:
    ratios = sorted(rate(ours, seconds) / rate(theirs, seconds) for _ in range(repeats))
    print(f"{name:64} {statistics.median(ratios):5.2f}   ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    task = make_task(Choice(name="addition"))
    config = ModelConfig(activation="relu", encoding=Choice(name="learned", options={"table_size": 16}))
    model, plain = make_model(task, config), Plain(len(task.vocabulary), config)
    examples = fixed_split(task, "train", 1_024, 641)
    small = make_batch(task, model, examples.take(slice(0, BATCH)), CPU)
    large = make_batch(task, model, examples, CPU)
    print(f"{'ratio of speeds, first over second':64} median  (spread)   on {torch.get_num_threads()} threads")
    ours = training_step(lambda batch: model(batch.inputs), model, small)
    theirs = training_step(plain, plain, small)
    compare("training: headway / torch.nn.Transformer", ours, theirs, options.seconds, options.repeats)
    model.eval()
    parallel = lambda: parallel_pass(model, large, task.vocabulary.pad)  # noqa: E731
    for cache, words in ((True, "with kept keys"), (False, "without")):
        written = lambda cache=cache: decode(model, task, large, cache=cache)  # noqa: E731
        compare(f"scoring: parallel pass / decoding {words}", parallel, written, options.seconds, options.repeats)


if __name__ == "__main__":
    main()
