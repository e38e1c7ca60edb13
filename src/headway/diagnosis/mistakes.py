"""Mistakes that students make, as lines of their programs, with the check of the doctor that finds each.

A mistake of the data is made by running the program that has it. A mistake of training shows in the answers: those of
a model that learned everything else, with a few errors, changed as the mistake changes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Digits = list[int]
Answer = Callable[[Digits, np.random.Generator], Digits]
Score = Callable[[Digits, Digits], bool]
RIGHT_LINES = {
    "column": "        total = x + y + carry\n        digits.append(total % 10)\n        carry = total // 10",
    "split": "    random.shuffle(pairs)\n    splits, start = {}, 0\n    for name, size in SIZES.items():\n"
    "        splits[name] = pairs[start : start + size]\n        start += size",
    "constants": "START = 11\nVOCABULARY = 12",
    "shifted": "    start = torch.full((len(target), 1), START)\n"
    "    return torch.cat([start, target[:, :-1]], 1), target",
    "decode": "    written = torch.full((len(source), 1), START)\n    for _ in range(LENGTH):\n"
    "        logits = model(source, written)[:, -1]\n"
    "        written = torch.cat([written, logits.argmax(-1, keepdim=True)], 1)\n    return written[:, 1:]",
    "accuracy": "    return (predicted == target).all(1).float().mean().item()",
    "criterion": "nn.CrossEntropyLoss()",
}
"""The lines of a program without a mistake."""


def unchanged(answer: Digits, random: np.random.Generator) -> Digits:
    return answer


def exact(predicted: Digits, target: Digits) -> bool:
    return predicted == target


@dataclass(frozen=True)
class Mistake:
    """A planted mistake: the lines that have it, the check that finds it, and what the answer key says."""

    name: str
    file: str
    lines: Mapping[str, str]
    check: str
    about: str
    """`data` or `training`."""
    what: str
    why: str
    fix: str
    follows: tuple[str, ...] = ()
    """Checks that may find what follows from it."""
    answer: Answer = unchanged
    score: Score = exact


def without_first(answer: Digits, random: np.random.Generator) -> Digits:
    return [0, *answer[1:]]


def never_zero(answer: Digits, random: np.random.Generator) -> Digits:
    return [int(random.integers(1, 10)) if digit == 0 else digit for digit in answer]


def backwards(answer: Digits, random: np.random.Generator) -> Digits:
    return answer[::-1]


def one_further(answer: Digits, random: np.random.Generator) -> Digits:
    return [*answer[1:], answer[-1]]


MISTAKES = (
    Mistake(
        "splits-drawn-apart",
        "generate_data.py",
        {"split": "    splits = {name: random.sample(pairs, size) for name, size in SIZES.items()}"},
        "split-overlap",
        "data",
        "Every split is drawn from all pairs by itself, so test sums are also training sums.",
        "The test accuracy measures memory, not addition.",
        "Shuffle the pairs once and cut them into three parts.",
    ),
    Mistake(
        "drawn-with-replacement",
        "generate_data.py",
        {
            "split": "    random.shuffle(pairs)\n    splits = {'test': pairs[:600], 'val': pairs[600:900]}\n"
            "    splits['train'] = random.choices(pairs[900:], k=SIZES['train'])"
        },
        "duplicate-examples",
        "data",
        "Training sums are drawn with replacement: many occur twice or more, and others never.",
        "The training set is smaller than it says.",
        "Draw without replacement (random.sample).",
    ),
    Mistake(
        "carry-forgotten",
        "generate_data.py",
        {
            "column": "        carry = 0\n        total = x + y + carry\n        digits.append(total % 10)\n"
            "        carry = total // 10"
        },
        "oracle-contradicts-targets",
        "data",
        "The carry is set to 0 in every column, so most targets are wrong.",
        "The model is taught, and scored by, wrong sums.",
        "Set the carry to 0 once, before the loop.",
    ),
    Mistake(
        "no-start-token",
        "train.py",
        {
            "constants": "VOCABULARY = 11",
            "shifted": "    return target[:, :-1], target[:, 1:]",
            "decode": "    written = torch.zeros((len(source), 1), dtype=torch.long)\n    for _ in range(LENGTH - 1):\n"
            "        logits = model(source, written)[:, -1]\n"
            "        written = torch.cat([written, logits.argmax(-1, keepdim=True)], 1)\n    return written",
        },
        "first-digit-never-predicted",
        "training",
        "The decoder reads target[:-1] and says target[1:], and decoding starts from token 0: nothing predicts the "
        "first digit.",
        "Every sum of 100 or more is wrong by construction, whatever the model learned.",
        "Give the decoder a start token of its own and let it predict every digit.",
        answer=without_first,
    ),
    Mistake(
        "padding-is-zero",
        "train.py",
        {
            "constants": "PAD = 0\nSTART = 11\nVOCABULARY = 12",
            "criterion": "nn.CrossEntropyLoss(ignore_index=PAD)",
            "accuracy": "    return ((predicted == target) | (target == PAD)).all(1).float().mean().item()",
        },
        "zeros-not-scored",
        "training",
        "The padding id is 0, which is also the digit 0: the loss ignores zeros and the accuracy counts any digit as "
        "right there.",
        "The model never learns to write a 0, and the reported accuracy hides it.",
        "Give the padding an id that no digit has.",
        ("never-emits",),
        answer=never_zero,
        score=lambda predicted, target: all(p == t or t == 0 for p, t in zip(predicted, target, strict=True)),
    ),
    Mistake(
        "never-turned-back",
        "train.py",
        {
            "shifted": "    target = target.flip(1)  # units first, which is easier to learn\n"
            "    start = torch.full((len(target), 1), START)\n    return torch.cat([start, target[:, :-1]], 1), target"
        },
        "answers-reversed",
        "training",
        "The model is trained to write the units first, and its answers are compared without being turned back.",
        "Only palindromes count as right.",
        "Flip the answers before they are compared.",
        ("trivial-rule", "no-better-than-guessing"),
        answer=backwards,
    ),
    Mistake(
        "one-position-off",
        "train.py",
        {
            "decode": "    written = torch.full((len(source), 1), START)\n    for _ in range(LENGTH + 1):\n"
            "        logits = model(source, written)[:, -1]\n"
            "        written = torch.cat([written, logits.argmax(-1, keepdim=True)], 1)\n    return written[:, 2:]"
        },
        "answers-shifted",
        "training",
        "The answer is cut out one position too late: its first digit is lost, and what follows the end is its last.",
        "Nearly every answer is wrong although the model adds.",
        "Cut from position 1, behind the start token.",
        ("trivial-rule", "no-better-than-guessing", "mostly-wrong"),
        answer=one_further,
    ),
)
