"""Commands on a model of another program: FILE.py:FUNCTION, package.module:FUNCTION or hf:PATH."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.options import progress
from headway.errors import InputError, suggestion

if TYPE_CHECKING:
    from headway.attached_analysis.course_run import CourseRun
    from headway.attached_analysis.examples import ModelExamples
    from headway.attachment.attached import Attached
    from headway.results.analysed_model import AnalysedModel
    from headway.results.doctor import Diagnosis
    from headway.results.heads import HeadAnalysis
    from headway.runs import ModelDirectory

Weights = Annotated[Path | None, typer.Option(help="FILE.py:FUNCTION: its weights, a safetensors file.")]
CourseDirectory = Annotated[
    Path | None, typer.Option(help="FILE.py:FUNCTION: a directory of the course's JSON files, train.json among them.")
]
TextColumn = Annotated[str | None, typer.Option(help="hf:PATH: the column of texts; default: text.")]
LabelColumn = Annotated[
    str | None, typer.Option(help="hf:PATH: the column of classes; without it, next tokens are measured.")
]
MetricName = Annotated[
    str | None, typer.Option(help="Another model: accuracy, next_token_loss, next_token_accuracy or kl.")
]
METRICS_OF_LABELS = ("accuracy", "kl")
METRICS_OF_TEXT = ("next_token_loss", "next_token_accuracy", "kl")


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options that only a model of another program has."""

    weights: Path | None = None
    data: Path | None = None
    text: str | None = None
    label: str | None = None
    metric: str | None = None

    def given(self) -> list[str]:
        return [f"--{name}" for name, value in vars(self).items() if value is not None]


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How much is analysed, where, and on what."""

    split: str
    n: int
    maps: int
    thorough: bool
    device: str


def is_other_model(name: str) -> bool:
    """Whether an argument names a model of another program; a run directory may have a colon in its name."""
    from headway.attached_analysis.hf_checkpoints import PREFIX
    from headway.attached_analysis.module_files import is_function

    return not Path(name).is_dir() and (name.startswith(PREFIX) or is_function(name))


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A model of another program with its heads found, its examples and its metric."""

    name: str
    attached: "Attached"
    examples: "ModelExamples"
    metric: str
    split: str
    tokenizer: Any = None


def open_other_model(names: list[str], options: ModelOptions, *, split: str, n: int, device: str) -> OpenedModel:
    """The one model that is named, with the first `n` examples of its data."""
    from headway.attached_analysis.hf_checkpoints import PREFIX

    if len(names) > 1:
        raise InputError(f"{len(names)} arguments with a model of another program among them; one at a time")
    name = names[0]
    if options.data is None:
        what = "FILE.jsonl or FILE.txt" if name.startswith(PREFIX) else "DIR with the course's JSON files"
        raise InputError(f"{name}: --data {what} needed")
    if name.startswith(PREFIX):
        return _open_checkpoint(Path(name.removeprefix(PREFIX)), options.data, options, n, device)
    return _open_function(name, options.data, options, split, n, device)


def _open_function(name: str, data: Path, options: ModelOptions, split: str, n: int, device: str) -> OpenedModel:
    from headway.attached_analysis.course_examples import attach_to_course, read_course_file
    from headway.attached_analysis.module_files import load_user_model
    from headway.batches import pick_device

    _refuse(options, ("text", "label"), "hf:PATH")
    metric = _metric(options.metric, METRICS_OF_LABELS)
    user = load_user_model(name, options.weights)
    course = read_course_file(data, split, n)
    attached, examples = attach_to_course(user, course, pick_device(device))
    return OpenedModel(name=name, attached=attached, examples=examples, metric=metric, split=course.split)


def _open_checkpoint(folder: Path, data: Path, options: ModelOptions, n: int, device: str) -> OpenedModel:
    from headway.attached_analysis.analyse import SPLIT
    from headway.attached_analysis.hf_checkpoints import PREFIX, attach_to_texts, load_checkpoint, read_texts
    from headway.batches import pick_device

    _refuse(options, ("weights",), "FILE.py:FUNCTION")
    metric = _metric(options.metric, METRICS_OF_TEXT if options.label is None else METRICS_OF_LABELS)
    rows = read_texts(data, options.text, options.label, n)
    checkpoint = load_checkpoint(folder, classes=options.label is not None)
    attached, examples = attach_to_texts(checkpoint, rows, pick_device(device))
    return OpenedModel(
        name=f"{PREFIX}{folder}",
        attached=attached,
        examples=examples,
        metric=metric,
        split=SPLIT,
        tokenizer=checkpoint.tokenizer,
    )


def open_course(names: list[str], options: ModelOptions, *, n: int, device: str) -> "CourseRun":
    """The one model that is named, as a run of the task in its data."""
    from headway.attached_analysis.course_run import open_course_run
    from headway.attached_analysis.hf_checkpoints import PREFIX
    from headway.attached_analysis.module_files import load_user_model
    from headway.batches import pick_device

    if len(names) > 1:
        raise InputError(f"{len(names)} arguments with a model of another program among them; one at a time")
    name = names[0]
    if name.startswith(PREFIX):
        raise InputError(f"{name}: only FILE.py:FUNCTION on the course's tasks; texts have no task with right answers")
    if options.data is None:
        raise InputError(f"{name}: --data DIR with the course's JSON files needed")
    return open_course_run(load_user_model(name, options.weights), options.data, pick_device(device), n)


def analyse_other_model(
    names: list[str], options: ModelOptions, amount: Amount, *, out: Path | None = None, quiet: bool
) -> "HeadAnalysis":
    """The head analysis of one model; with `out` it is written there, with the doctor's findings."""
    from headway.attached_analysis.analyse import heads_of_model
    from headway.runs import ModelDirectory

    directory = None if out is None else ModelDirectory(out)
    if directory is not None:
        directory.check_free(names[0])
    opened = open_other_model(names, options, split=amount.split, n=amount.n, device=amount.device)
    with progress(f"heads of {opened.name.removeprefix('hf:')}", quiet=quiet) as meter:
        found = heads_of_model(
            opened.attached,
            opened.examples,
            opened.metric,
            tokenizer=opened.tokenizer,
            thorough=amount.thorough,
            maps=amount.maps,
            name=opened.name,
            progress=lambda step, done, total: meter(done, total, step),
        )
    found = replace(found, split=opened.split)
    if directory is not None:
        write_analysis(directory, opened, options, amount.maps, found)
    return found


def write_analysis(
    directory: "ModelDirectory", opened: OpenedModel, options: ModelOptions, maps: int, found: "HeadAnalysis"
) -> None:
    """Write an analysis with the doctor's findings, as `headway report` and `headway explore` read them."""
    directory.write(record_of(opened, options, maps), heads=found, doctor=_diagnosis(opened))


def record_of(opened: OpenedModel, options: ModelOptions, maps: int) -> "AnalysedModel":
    """What was analysed, with the model's answers without each head on the examples whose attention is stored."""
    import hashlib

    from headway.attached_analysis.analyse import names_of
    from headway.attached_analysis.stored_answers import stored_examples
    from headway.results.analysed_model import AnalysedModel
    from headway.training.preparation import describe_environment

    attached = opened.attached
    around = describe_environment(attached.device, 0, list(sys.argv))
    return AnalysedModel(
        model=opened.name,
        weights=None if options.weights is None else hashlib.sha256(options.weights.read_bytes()).hexdigest(),
        data=str(options.data),
        split=opened.split,
        metric=opened.metric,
        parameters=sum(parameter.numel() for parameter in attached.module.parameters()),
        sites=tuple(site.name for site in attached.sites),
        command=tuple(around["command"]),
        time=around["time"],
        versions={name: str(value) for name, value in around["versions"].items() if value is not None},
        examples=stored_examples(attached, opened.examples, maps, names_of(opened.tokenizer)),
    )


def _diagnosis(opened: OpenedModel) -> "Diagnosis":
    from headway.diagnosis.attached_model import examine_model

    return replace(examine_model(opened.attached, opened.examples, opened.metric), run=opened.name)


def examine_other_model(names: list[str], options: ModelOptions, *, split: str, device: str) -> "Diagnosis":
    """The doctor's findings on one model; nothing is written."""
    from headway.diagnosis.examination import FEW

    return _diagnosis(open_other_model(names, options, split=split, n=FEW, device=device))


def _refuse(options: ModelOptions, names: tuple[str, ...], owner: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise InputError(f"--{name} is for {owner}")


def _metric(name: str | None, known: tuple[str, ...]) -> str:
    """The metric; the first one that fits the data by default."""
    if name is not None and name not in known:
        raise InputError(f"--metric {name!r} does not fit the data; {suggestion(name, known)}")
    return name or known[0]
