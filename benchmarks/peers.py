"""What one would write instead: the same experiment in plain PyTorch, and with Hugging Face's transformers."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from headway.config import Choice
from headway.tasks import Examples, make_task
from headway.tasks.splits import fixed_split

PLUS, START, PADDING, VOCABULARY = 10, 11, 12, 13
BATCH = 64


class Peer(Protocol):
    """An experiment that can be taken step by step and asked for its answers."""

    steps_a_pass: int

    def step(self) -> None: ...

    def end_of_pass(self) -> None: ...

    def right(self, examples: Examples) -> np.ndarray: ...


def course_data(train: int, device: torch.device, digits: int = 3) -> dict[str, tuple[Tensor, Tensor]]:
    """Sums drawn evenly, the numbers as tokens and the four digits of the answer; splits share no problem."""
    task = make_task(Choice(name="addition", options={"digits": digits}))
    sizes = {"train": train, "validation": max(train // 5, 10)}
    drawn = {name: fixed_split(task, name, size, 641) for name, size in sizes.items()}  # type: ignore[arg-type]
    return {name: as_tensors(examples, device) for name, examples in drawn.items()}


def as_tensors(examples: Examples, device: torch.device) -> tuple[Tensor, Tensor]:
    """Source and answer without headway's end token: the answer's width is fixed, so nobody needs one."""
    source, target = (
        torch.from_numpy(np.ascontiguousarray(side)).to(device) for side in (examples.source, examples.target)
    )
    return source, target[:, :-1]


def shifted(target: Tensor) -> Tensor:
    """The answer as the decoder reads it: a start token, then all digits but the last."""
    return torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1)


class PlainModel(nn.Module):
    """torch.nn.Transformer with its defaults (post-norm, ReLU), at the course's size, dropout 0.1."""

    def __init__(self, d_model: int = 128, n_heads: int = 4, d_ff: int = 512, layers: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, d_model, padding_idx=PADDING)
        self.positions = nn.Embedding(32, d_model)
        self.transformer = nn.Transformer(d_model, n_heads, layers, layers, d_ff, dropout=0.1, batch_first=True)
        self.readout = nn.Linear(d_model, VOCABULARY)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))

    def forward(self, source: Tensor, prefix: Tensor) -> Tensor:
        future = nn.Transformer.generate_square_subsequent_mask(prefix.shape[1], device=prefix.device)
        mixed = self.transformer(self.embed(source), self.embed(prefix), tgt_mask=future, tgt_is_causal=True)
        return self.readout(mixed)


class Loop:
    """A training loop over batches of 64 in an order drawn anew each pass."""

    def __init__(self, seed: int, device: torch.device, train: int, digits: int, batch: int = BATCH):
        torch.manual_seed(seed)
        self.device = device
        self.data = course_data(train, device, digits)
        self.loader = DataLoader(TensorDataset(*self.data["train"]), batch_size=batch, shuffle=True)
        self.steps_a_pass = len(self.loader)
        self.waiting: Iterator[Any] = iter(())

    def next_batch(self) -> tuple[Tensor, Tensor]:
        batch = next(self.waiting, None)
        if batch is None:
            self.waiting = iter(self.loader)
            batch = next(self.waiting)
        return batch[0], batch[1]


class PlainLoop(Loop):
    """(a) The course's way: Adam at 1e-3, batches of 64, the rate halved when validation stands still.

    It has a start token and a padding id of its own, so it learns what it is asked.
    """

    def __init__(self, seed: int, device: torch.device, train: int, *, digits: int = 3, patience: int = 5, **size: int):
        super().__init__(seed, device, train, digits)
        self.model = PlainModel(**size).to(device)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimiser, factor=0.5, patience=patience)

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        logits = self.model(source, shifted(target))
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PADDING)

    def step(self) -> None:
        self.model.train()
        loss = self.loss(*self.next_batch())
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    @torch.no_grad()
    def end_of_pass(self) -> None:
        self.model.eval()
        self.schedule.step(float(self.loss(*self.data["validation"])))

    @torch.no_grad()
    def right(self, examples: Examples) -> np.ndarray:
        """Which whole answers are right; read in parallel, which is the same as greedy decoding."""
        self.model.eval()
        source, target = as_tensors(examples, self.device)
        found: np.ndarray = (self.model(source, shifted(target)).argmax(-1) == target).all(1).cpu().numpy()
        return found


class HuggingFaceLoop(Loop):
    """(b) The same size as a BART of transformers, by the loop of its course: AdamW, loss from the model."""

    def __init__(self, seed: int, device: torch.device, train: int, *, digits: int = 3, **size: int):
        super().__init__(seed, device, train, digits)
        from transformers import BartConfig, BartForConditionalGeneration

        d_model, n_heads, d_ff, layers = (
            size.get(k, v) for k, v in (("d_model", 128), ("n_heads", 4), ("d_ff", 512), ("layers", 2))
        )
        config = BartConfig(
            vocab_size=VOCABULARY,
            max_position_embeddings=32,
            d_model=d_model,
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=n_heads,
            decoder_attention_heads=n_heads,
            encoder_ffn_dim=d_ff,
            decoder_ffn_dim=d_ff,
            activation_function="relu",
            dropout=0.1,
            pad_token_id=PADDING,
            bos_token_id=START,
            eos_token_id=None,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
        )
        self.model = BartForConditionalGeneration(config).to(device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def step(self) -> None:
        self.model.train()
        source, target = self.next_batch()
        loss = self.model(input_ids=source, labels=target).loss
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()

    def end_of_pass(self) -> None:
        pass

    @torch.no_grad()
    def right(self, examples: Examples) -> np.ndarray:
        self.model.eval()
        source, target = as_tensors(examples, self.device)
        logits = self.model(input_ids=source, decoder_input_ids=shifted(target)).logits
        found: np.ndarray = (logits.argmax(-1) == target).all(1).cpu().numpy()
        return found


def hugging_face_is_here() -> bool:
    return find_spec("transformers") is not None
