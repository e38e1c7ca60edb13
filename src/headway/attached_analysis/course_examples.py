"""The course's JSON files as examples of a user's model.

    {"input": [5, 0, 7, 10, 1, 5, 9], "target": [0, 6, 6, 6]}     model(source, target_in), logits of every token
    {"sequence": [1, 4, 9], "is_sorted": 1}                       model(source), logits of the class

`target_in` is the target behind a start token, without its last token: `START` of the user's file, else the token after
the largest one of the data (11 for addition, whose `+` is 10).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from headway.attached_analysis.examples import IGNORED, ModelExamples, read_data
from headway.attached_analysis.module_files import CalledBy, UserModel, in_one_line, two_classes
from headway.attachment.attached import Attached, attach
from headway.errors import InputError, suggestion
from headway.tasks.descriptions import whole_numbers
from headway.tasks.files import FILE_NAMES, read_list

FORMS = "input and target, or sequence and is_sorted"


@dataclass(frozen=True)
class CourseFile:
    """The first examples of a file."""

    path: Path
    split: str
    records: list[Any]


def read_course_file(data: Path, split: str, most: int) -> CourseFile:
    """The examples of a split of a directory, or of one file."""
    if data.is_file():
        return CourseFile(data, "given", read_list(data)[:most])
    if not data.is_dir():
        raise InputError(f"--data: no directory at {data}")
    names = {str(known): name for known, name in FILE_NAMES.items()}
    if split not in names:
        raise InputError(f"--split {split!r}; {suggestion(split, names)}")
    path = data / names[split]
    return CourseFile(path, split, read_list(path)[:most])


def attach_to_course(user: UserModel, course: CourseFile, device: torch.device) -> tuple[Attached, ModelExamples]:
    """The model with named heads and its examples; one batch has been computed."""
    code = user.code
    examples = _own_batch(user, course) if callable(getattr(code, "batch", None)) else default_examples(course, code)
    logits, sites = getattr(code, "logits", None), getattr(code, "SITES", None)
    if sites is not None and not isinstance(sites, str | list | tuple | Mapping):
        raise InputError(f"SITES = {sites!r:.60} in the model's file; patterns of output projections needed")
    model = user.model.to(device)
    if callable(logits):
        model = CalledBy(model, logits).eval()
        sites = _inside("model", sites)
    labels = examples.columns.get("labels")
    attached = attach(
        model,
        sites=sites,
        n_heads=number_in(code, "N_HEADS"),
        logits_of=two_classes if labels is not None and labels.ndim == 1 else None,
        real_tokens=_real_tokens(examples, number_in(code, "PAD")),
    )
    try:
        for _, part in examples.parts(device):
            attached.run(part.arguments())
    except InputError:
        raise
    except Exception as problem:
        told = f"{user.name} fails on a batch: {in_one_line(problem)}"
        if isinstance(problem, IndexError):
            told += f"; a table of the model may be too short for {_extent(examples)}"
        raise InputError(f"{told}; define START, batch(examples) or logits(model, batch) there") from None
    return attached, examples


def number_in(code: ModuleType, name: str) -> int | None:
    """A whole number that the model's file may define."""
    value = getattr(code, name, None)
    if value is not None and type(value) is not int:
        raise InputError(f"{name} = {value!r:.60} in the model's file; a whole number needed")
    return value


def _extent(examples: ModelExamples) -> str:
    """The tokens and lengths that the model is given."""
    tokens = [x for name, x in examples.columns.items() if name != "labels" and x.ndim == 2]
    if not tokens:
        return "its inputs"
    lowest, highest = min(int(x.min()) for x in tokens), max(int(x.max()) for x in tokens)
    return f"tokens {lowest} to {highest} in rows of up to {max(x.shape[1] for x in tokens)}"


def _inside(name: str, sites: Any) -> Any:
    """Patterns of output projections, where the model is a part of another module."""
    if isinstance(sites, str):
        return f"{name}.{sites}"
    if isinstance(sites, Mapping):
        return {f"{name}.{pattern}": kind for pattern, kind in sites.items()}
    return None if sites is None else [f"{name}.{pattern}" for pattern in sites]


def _own_batch(user: UserModel, course: CourseFile) -> ModelExamples:
    try:
        batch = user.code.batch(course.records)
    except Exception as problem:
        raise InputError(f"batch(examples) of {user.name} fails: {in_one_line(problem)}") from None
    return read_data(batch)


def _real_tokens(examples: ModelExamples, pad: int | None) -> Any:
    """Which tokens of a default batch are no padding; None if none is padded."""
    if "attention_mask" not in examples.columns or examples.positional is None:
        return None

    def real(batch: tuple[Tensor, ...]) -> Any:
        masks = tuple(tokens != pad for tokens in batch)
        return masks[0] if len(masks) == 1 else masks

    return real


def default_examples(course: CourseFile, code: ModuleType) -> ModelExamples:
    """Examples of the course's two forms, without functions of the user."""
    rows = [_row(record, index, course.path.name) for index, record in enumerate(course.records)]
    kinds = {type(target) for _, target in rows}
    if len(kinds) > 1:
        raise InputError(f"{course.path.name} holds both forms, {FORMS}; one needed")
    pad = number_in(code, "PAD")
    sources = _padded([source for source, _ in rows], pad, course.path.name)
    if kinds == {int}:
        columns = {"argument 0": sources, "labels": torch.tensor([target for _, target in rows])}
    else:
        targets = _padded([target for _, target in rows if isinstance(target, list)], pad, course.path.name)
        start = number_in(code, "START")
        if start is None:
            start = int(max(sources.max(), targets.max())) + 1
        shifted = torch.cat([torch.full_like(targets[:, :1], start), targets[:, :-1]], dim=1)
        labels = targets if pad is None else targets.masked_fill(targets == pad, IGNORED)
        columns = {"argument 0": sources, "argument 1": shifted, "labels": labels}
    positional = tuple(name for name in columns if name != "labels")
    if pad is not None and bool((sources == pad).any()):
        columns["attention_mask"] = (sources != pad).long()
    return ModelExamples(columns, positional)


def _row(record: Any, index: int, name: str) -> tuple[list[int], list[int] | int]:
    keys = set(record) if isinstance(record, dict) else set()
    try:
        if keys >= {"input", "target"}:
            source, target = (whole_numbers(record[key], key) for key in ("input", "target"))
            if not source or not target:
                raise InputError("input or target is empty")
            return source, target
        if keys >= {"sequence", "is_sorted"}:
            label = record["is_sorted"]
            if type(label) not in (int, bool) or label not in (0, 1):
                raise InputError(f"is_sorted is {label!r:.60}; 0 or 1 needed")
            source = whole_numbers(record["sequence"], "sequence")
            if not source:
                raise InputError("sequence is empty")
            return source, int(label)
    except InputError as problem:
        raise InputError(f"{name}[{index}]: {problem}") from None
    held = f"keys {', '.join(sorted(map(str, keys))) or 'none'}" if isinstance(record, dict) else f"{record!r:.60}"
    raise InputError(f"{name}[{index}] has {held}; {FORMS} needed, or batch(examples) in the model's file")


def _padded(rows: Sequence[list[int]], pad: int | None, name: str) -> Tensor:
    """Rows of tokens, padded at the end to the longest."""
    lengths = [len(row) for row in rows]
    if min(lengths) < max(lengths) and pad is None:
        raise InputError(
            f"{name} has rows of {min(lengths)} to {max(lengths)} tokens; define PAD = TOKEN or batch(examples) in the "
            "model's file"
        )
    found = next((index for index, row in enumerate(rows) if pad in row), None)
    if found is not None:
        raise InputError(
            f"PAD = {pad} is also a token of {name}[{found}]; choose another, or define batch(examples) in the "
            "model's file"
        )
    return torch.tensor([[*row, *[pad or 0] * (max(lengths) - len(row))] for row in rows])
