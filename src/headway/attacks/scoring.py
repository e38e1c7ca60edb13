"""Margins of the right answer for batches of inputs, and the model's answer to a single input."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from headway.batches import make_batch
from headway.evaluation import Trained, decode, parts_of
from headway.head_analysis.variants import answer_margin
from headway.tasks import Examples

Rows = Int[np.ndarray, "batch width"]


NO_MARGIN = float(torch.finfo(torch.float32).min)
"""The margin of an input with logits that are not finite, below every other."""
WRONG_TIE = -float(torch.finfo(torch.float32).tiny)
"""The margin of a wrong answer whose logit is that of the right one."""


@torch.inference_mode()
def margins(trained: Trained, source: Rows) -> Float[np.ndarray, " batch"]:
    """The smallest lead of the right token over the others, in one teacher-forced pass over the right answers.

    A margin below 0 means a wrong answer; a tie that is answered wrongly gets the largest of them. Non-finite logits
    get the smallest float.
    """
    found = [np.zeros(0, dtype=np.float32)]
    for part in parts_of(Examples(source, trained.task.answer(source)), trained):
        batch = make_batch(trained.task, trained.model, part, trained.device)
        pad = trained.task.vocabulary.pad if trained.task.kind == "sequence" else -1
        logits, target = trained.model(batch.inputs), batch.target.reshape(len(part), -1)
        lead = answer_margin(logits, target, pad)
        answer = logits.argmax(-1).reshape(target.shape)
        wrong = ((answer != target) & (target != pad)).any(1)
        lead = torch.where((lead == 0) & wrong, WRONG_TIE, lead)
        found.append(lead.nan_to_num(nan=NO_MARGIN, neginf=NO_MARGIN).cpu().numpy())
    return np.concatenate(found)


@dataclass(frozen=True)
class Answered:
    """The right answer and the model's answer to one input without padding, as text."""

    shown: str
    expected: str
    answered: str
    right: bool


def ask(trained: Trained, row: Int[np.ndarray, " width"]) -> Answered:
    """The model's answer to a single input without padding; a sequence is decoded greedily."""
    task = trained.task
    source = row[row != task.vocabulary.pad][None]
    example = Examples(source, task.answer(source))
    batch = make_batch(task, trained.model, example, trained.device)
    if task.kind == "sequence":
        answer = decode(trained.model, task, batch)
    else:
        with torch.inference_mode():
            answer = trained.model(batch.inputs).argmax(-1)
    width = example.target.shape[1] if task.kind == "sequence" else 0
    fits = answer if task.kind == "class" else _widened(answer, width, task.vocabulary.pad)
    right = bool(task.correct(fits, batch.target)[0])
    expected, answered = (
        task.show(source[0], one).rpartition("-> ")[2] for one in (example.target[0], answer[0].cpu().numpy())
    )
    return Answered(task.show(source[0]), expected, answered, right)


def _widened(answer: torch.Tensor, width: int, pad: int) -> torch.Tensor:
    """Pad or cut an answer to the width of the right one."""
    return torch.nn.functional.pad(answer, (0, max(0, width - answer.shape[1])), value=pad)[:, :width]
