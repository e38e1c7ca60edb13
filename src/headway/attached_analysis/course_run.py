"""A user's model as a run of the task that the course's files hold, for `headway lengths` and `headway attack`.

`CourseModel` answers in the tokens of headway's task: it calls the user's model on rows of one length, without padding,
and adds the end token that answers of fixed width do not need. `CourseRun` is that model with the files' examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.attached_analysis.checking import BESIDE, check_examples_apart
from headway.attached_analysis.course_examples import CourseFile, attach_to_course, number_in
from headway.attached_analysis.examples import IGNORED, ModelExamples, read_data
from headway.attached_analysis.module_files import UserModel, in_one_line
from headway.attachment.attached import Attached
from headway.attachment.masks import call
from headway.config import Choice, DataConfig, RunConfig, TrainConfig
from headway.errors import InputError
from headway.evaluation import Trained
from headway.json_values import JsonObject
from headway.model.encodings import Sizes, make_encoding
from headway.model.transformer import Inputs, Memory, Transformer
from headway.runs import RunDirectory
from headway.tasks import Examples, Task
from headway.tasks.addition import Addition, AdditionOptions
from headway.tasks.examples import Answer
from headway.tasks.files import FILE_NAMES, files_of_lengths, read_list
from headway.tasks.sortedness import Sortedness, SortednessOptions
from headway.tasks.splits import Split

NEVER = -1e4
"""Logit of a token that is not the answer: it leaves no probability and no loss."""
PLUS = 10
FEW = 1 + max(map(max, BESIDE))
"""Examples that tell whether the model mixes the examples of a batch."""


class CourseSortedness(Sortedness):
    """Sortedness whose smallest element is not 0; examples are printed and written with the elements of the files."""

    def __init__(self, options: SortednessOptions, lowest: int = 0):
        super().__init__(options)
        self.lowest = lowest

    def at_length(self, length: int) -> "CourseSortedness":
        return CourseSortedness(super().at_length(length).options, self.lowest)

    def show(self, source: np.ndarray, target: Answer | None = None) -> str:
        text = " ".join(str(value + self.lowest) for value in source if value != self.vocabulary.pad)
        return text if target is None else f"{text} -> {int(target)}"

    def to_record(self, source: np.ndarray, target: Answer) -> JsonObject:
        record = super().to_record(source, target)
        sequence = source[source != self.vocabulary.pad] + self.lowest
        return {**record, "sequence": sequence.tolist()}


class CourseModel(Transformer):
    """A user's model that is asked as headway's own is; it has no sites, so heads are analysed through `attached`."""

    def __init__(self, user: UserModel, attached: Attached, task: Task):
        nn.Module.__init__(self)
        self.user, self.attached, self.task = user, attached, task
        self.lowest: int = getattr(task, "lowest", 0)
        self.encoding = make_encoding(Choice(name="none"), Sizes(1, 1, 1, {}))
        start = number_in(user.code, "START")
        self.start = PLUS + 1 if start is None else start
        self.embedding = self._find_embedding()  # type: ignore[assignment]

    def forward(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Tensor:
        """The logits of headway's tokens or classes; rows of different lengths are separate calls."""
        lengths = (inputs.source != self.task.vocabulary.pad).sum(1)
        found: list[Tensor] = []
        order: list[Tensor] = []
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero().flatten()
            prefix = None if inputs.prefix is None else inputs.prefix[rows]
            found.append(self._of_one_length(inputs.source[rows, :length], prefix))
            order.append(rows)
        return torch.cat(found)[torch.cat(order).argsort()]

    def placed(self, inputs: Inputs) -> Inputs:
        return inputs

    def begin(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Memory:
        return Memory(None, [])

    def decode(
        self,
        memory: Memory,
        inputs: Inputs,
        *,
        done: int = 0,
        keep: bool = False,
        record: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """All logits; a user's model has no cache."""
        return self(inputs)

    def _of_one_length(self, source: Tensor, prefix: Tensor | None) -> Tensor:
        if prefix is None:
            return self._classes(source)
        width = self.task.longest_answer(source.shape[1]) - 1
        known = prefix[:, 1 : 1 + width]
        answer = torch.zeros(len(source), width, dtype=torch.long, device=source.device)
        answer[:, : known.shape[1]] = known.clamp(max=PLUS)
        given = self._answers(source, answer)
        logits = given.new_full((len(source), prefix.shape[1], len(self.task.vocabulary)), NEVER)
        own = min(width, prefix.shape[1])
        logits[:, :own, : PLUS + 1] = given[:, :own, : PLUS + 1]
        if given.shape[2] > PLUS + 1:  # any other token is a wrong answer
            logits[:, :own, PLUS + 1] = given[:, :own, PLUS + 1 :].amax(-1)
        if prefix.shape[1] > own:
            logits[:, own:, self.task.vocabulary.eos] = 0.0
        return logits

    def _classes(self, source: Tensor) -> Tensor:
        labels = torch.zeros(len(source), dtype=torch.long, device=source.device)
        logits = self.ask(source, labels)
        if logits.shape != (len(source), 2):
            raise InputError(f"{self.user.name} returned logits of shape {tuple(logits.shape)}; batch 2 needed")
        return logits

    def _answers(self, source: Tensor, answer: Tensor) -> Tensor:
        logits = self.ask(source, answer)
        if logits.ndim != 3 or logits.shape[:2] != answer.shape or logits.shape[2] < PLUS:
            wanted = f"({len(answer)}, {answer.shape[1]}, tokens)"
            raise InputError(f"{self.user.name} returned logits of shape {tuple(logits.shape)}; {wanted} needed")
        return logits

    def ask(self, source: Tensor, answer: Tensor) -> Tensor:
        """The logits where answers are scored; an error of the user's code is one line."""
        examples = self._examples(source, answer)
        try:
            with self.attached.plain_pass():
                logits = self.attached.read(call(self.attached.model, examples.arguments()))
        except InputError:
            raise
        except Exception as problem:
            raise CannotRead(
                f"{self.user.name} fails on inputs of {source.shape[1]} tokens: {in_one_line(problem)}; a table of "
                "positions may be too short"
            ) from None
        return self._scored(logits, examples.columns["labels"], answer)

    def _scored(self, logits: Tensor, labels: Tensor, answer: Tensor) -> Tensor:
        """The logits at the tokens of the answer, where a user's batch has more positions."""
        if answer.ndim == 1 or labels.shape == answer.shape:
            return logits
        scored = labels != IGNORED
        if logits.shape[:2] != labels.shape or not bool((scored.sum(1) == answer.shape[1]).all()):
            raise InputError(
                f"batch(examples) of {self.user.name} scores other tokens than the target's; lengths and "
                "attack need labels that are the target, -100 elsewhere"
            )
        return logits[scored].unflatten(0, answer.shape)

    def _examples(self, source: Tensor, answer: Tensor) -> ModelExamples:
        if callable(getattr(self.user.code, "batch", None)):
            return self._own_batch(source, answer)
        columns = {"argument 0": source + self.lowest}
        if answer.ndim == 2:
            columns["argument 1"] = torch.cat([torch.full_like(answer[:, :1], self.start), answer[:, :-1]], dim=1)
        return ModelExamples({**columns, "labels": answer}, tuple(columns))

    def _own_batch(self, source: Tensor, answer: Tensor) -> ModelExamples:
        rows = zip((source + self.lowest).tolist(), answer.tolist(), strict=True)
        if answer.ndim == 1:
            records = [{"sequence": row, "is_sorted": label, "length": len(row)} for row, label in rows]
        else:
            records = [{"input": row, "target": target} for row, target in rows]
        try:
            return read_data(self.user.code.batch(records)).to(source.device)
        except Exception as problem:
            raise InputError(f"batch(examples) of {self.user.name} fails: {in_one_line(problem)}") from None

    @torch.no_grad()
    def _find_embedding(self) -> nn.Embedding | None:
        """The embedding that reads the source itself, for gradients; None if no module does."""
        width = self.task.widths()[0]
        source = torch.zeros(2, width, dtype=torch.long, device=self.attached.device)
        if isinstance(self.task, Addition):
            source[:, self.task.digits] = PLUS
        found: list[nn.Embedding] = []

        def look(module: nn.Module, given: tuple[Any, ...], out: Any) -> None:
            if isinstance(module, nn.Embedding) and len(given) == 1 and torch.equal(given[0], source + self.lowest):
                found.append(module)

        hooks = [module.register_forward_hook(look) for module in self.attached.module.modules()]
        try:
            size = (2,) if self.task.kind == "class" else (2, self.task.longest_answer(width) - 1)
            self.ask(source, source.new_zeros(size))
        finally:
            for hook in hooks:
                hook.remove()
        return found[0] if found else None


class CannotRead(InputError):
    """The user's model raised an error on inputs of some length."""


@dataclass(frozen=True, repr=False)
class CourseRun(Trained):
    """A user's model, and the examples of the course's files by split and by length."""

    files: Mapping[str, Examples] = field(default_factory=dict)
    tests: Mapping[int, Examples] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        assert isinstance(self.model, CourseModel)
        return self.model.attached.device

    def examples(self, split: Split) -> Examples:
        return self.files[split]

    def with_task(self, task: Task) -> "CourseRun":
        """The same model on another length of the task."""
        assert isinstance(self.model, CourseModel)
        model = CourseModel(self.model.user, self.model.attached, task).eval()
        return replace(self, task=task, model=model)


def open_course_run(user: UserModel, data: Path, device: torch.device, most: int) -> CourseRun:
    """The model with the task of the files; train.json gives the training range, test*.json the test examples."""
    if not data.is_dir():
        raise InputError(f"--data {data}: a directory with {', '.join(FILE_NAMES.values())} needed")
    records = {str(split): read_list(data / name) for split, name in FILE_NAMES.items()}
    tests = [record for path in files_of_lengths(data) for record in read_list(path)]
    kind = _kind_of(records["train"][0])
    every = [record for some in (*records.values(), tests) for record in some]
    task: Task = _sortedness(every, records["train"]) if kind == "sortedness" else _addition(records["train"])
    files = {split: _read(task, some, FILE_NAMES[split]) for split, some in records.items()}  # type: ignore[index]
    measured = [*records["test"], *tests]
    attached = _attached(user, data, records["test"], device)
    settings = Choice(name=task.name)
    config = RunConfig(task=settings, data=DataConfig(files=True), train=TrainConfig(steps=1))
    model = CourseModel(user, attached, task).eval()
    return CourseRun(
        directory=RunDirectory(Path(user.name)),
        config=config,
        task=task,
        model=model,
        step=0,
        files=files,
        tests=_by_length(task, measured, most),
    )


def _attached(user: UserModel, data: Path, records: list[Any], device: torch.device) -> Attached:
    """The model with named heads; a few test examples of one length have been computed."""
    alike = [record for record in records if _size(record) == _size(records[0])][:FEW]
    attached, examples = attach_to_course(user, CourseFile(data / "test.json", "test", alike), device)
    if len(alike) == FEW:
        check_examples_apart(attached, examples)
    return attached


def _size(record: Any) -> int:
    own = record.get("input", record.get("sequence")) if isinstance(record, dict) else None
    return len(own) if isinstance(own, list) else 0


def _kind_of(record: Any) -> str:
    keys = set(record) if isinstance(record, dict) else set()
    if keys >= {"sequence", "is_sorted"}:
        return "sortedness"
    if keys >= {"input", "target"}:
        return "addition"
    raise InputError(
        "train.json[0] is no example of a task that headway knows; input and target, or sequence and is_sorted needed"
    )


def _sortedness(every: list[Any], trained: list[Any]) -> CourseSortedness:
    lists = [record.get("sequence") for record in every if isinstance(record, dict)]
    values = [value for one in lists if isinstance(one, list) for value in one if type(value) is int]
    lengths = [len(record["sequence"]) for record in trained if isinstance(record.get("sequence"), list)]
    options = SortednessOptions(
        min_length=max(2, min(lengths)), max_length=max(2, *lengths), values=max(2, max(values) - min(values) + 1)
    )
    return CourseSortedness(options, min(values))


def _addition(trained: list[Any]) -> Addition:
    first = trained[0]["input"]
    digits = first.index(PLUS) if isinstance(first, list) and PLUS in first else 0
    if digits < 1:
        raise InputError(f"train.json[0]: input {first!r:.60} has no + ({PLUS}) behind a digit")
    for order in ("most-significant-first", "least-significant-first"):
        task = Addition(AdditionOptions(digits=digits, order=order, leading_zeros=True))
        try:
            for record in trained[:50]:
                task.from_record(record)
            break
        except (InputError, KeyError):
            continue
    leading = any(0 in (record["input"][0], record["input"][digits + 1]) for record in trained)
    return Addition(replace(task.options, leading_zeros=leading))


def _read(task: Task, records: list[Any], name: str) -> Examples:
    """Checked examples of a file, in headway's tokens."""
    lowest = getattr(task, "lowest", 0)
    rows = []
    for index, record in enumerate(records):
        try:
            rows.append(task.from_record(_shifted(record, lowest)))
        except (InputError, KeyError, TypeError) as problem:
            raise InputError(f"{name}[{index}]: {problem}; headway doctor --data DIR examines the data") from None
    pad = task.vocabulary.pad
    parts = [Examples(np.array([source]), np.array([target])) for source, target in rows]
    return Examples.join(parts, pad)


def _shifted(record: Any, lowest: int) -> Any:
    if not isinstance(record, dict) or not isinstance(record.get("sequence"), list):
        return record
    sequence = [value - lowest if type(value) is int else value for value in record["sequence"]]
    return {"length": len(sequence), **record, "sequence": sequence}


def _by_length(task: Task, records: list[Any], most: int) -> dict[int, Examples]:
    """The first examples of the test files of each length: elements of a sequence, or digits of an operand."""
    groups: dict[int, list[Any]] = {}
    for record in records:
        size = _size(record)
        groups.setdefault(size // 2 if isinstance(task, Addition) else size, []).append(record)
    return {
        length: _read(task_of_length(task, length), some[:most], "a test file")
        for length, some in sorted(groups.items())
    }


def task_of_length(task: Task, length: int) -> Task:
    """The task at one length; of addition, with that many digits."""
    if isinstance(task, Addition):
        return Addition(replace(task.options, digits=length))
    return task
