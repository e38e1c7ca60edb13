"""`headway heads` on a model of another program: FILE.py:FUNCTION, package.module:FUNCTION or hf:PATH."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.options import progress
from headway.errors import InputError, suggestion

if TYPE_CHECKING:
    from headway.results.heads import HeadAnalysis

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


def analyse_other_model(names: list[str], options: ModelOptions, amount: Amount, *, quiet: bool) -> "HeadAnalysis":
    """The head analysis of one model; nothing is written."""
    from headway.attached_analysis.hf_checkpoints import PREFIX

    if len(names) > 1:
        raise InputError(f"{len(names)} arguments with a model of another program among them; one at a time")
    name = names[0]
    if options.data is None:
        what = "FILE.jsonl or FILE.txt" if name.startswith(PREFIX) else "DIR with the course's JSON files"
        raise InputError(f"{name}: --data {what} needed")
    if name.startswith(PREFIX):
        return _of_checkpoint(Path(name.removeprefix(PREFIX)), options.data, options, amount, quiet=quiet)
    return _of_function(name, options.data, options, amount, quiet=quiet)


def _of_function(name: str, data: Path, options: ModelOptions, amount: Amount, *, quiet: bool) -> "HeadAnalysis":
    from headway.attached_analysis.analyse import heads_of_model
    from headway.attached_analysis.course_examples import attach_to_course, read_course_file
    from headway.attached_analysis.module_files import load_user_model
    from headway.batches import pick_device

    _refuse(options, ("text", "label"), "hf:PATH")
    metric = _metric(options.metric, METRICS_OF_LABELS)
    user = load_user_model(name, options.weights)
    course = read_course_file(data, amount.split, amount.n)
    attached, examples = attach_to_course(user, course, pick_device(amount.device))
    with progress(f"heads of {name}", quiet=quiet) as meter:
        found = heads_of_model(
            attached,
            examples,
            metric,
            thorough=amount.thorough,
            maps=amount.maps,
            name=name,
            progress=lambda step, done, total: meter(done, total, step),
        )
    return replace(found, split=course.split)


def _of_checkpoint(folder: Path, data: Path, options: ModelOptions, amount: Amount, *, quiet: bool) -> "HeadAnalysis":
    from headway.attached_analysis.analyse import heads_of_model
    from headway.attached_analysis.hf_checkpoints import PREFIX, attach_to_texts, load_checkpoint, read_texts
    from headway.batches import pick_device

    _refuse(options, ("weights",), "FILE.py:FUNCTION")
    metric = _metric(options.metric, METRICS_OF_TEXT if options.label is None else METRICS_OF_LABELS)
    rows = read_texts(data, options.text or "text", options.label, amount.n)
    checkpoint = load_checkpoint(folder, classes=options.label is not None)
    attached, examples = attach_to_texts(checkpoint, rows, pick_device(amount.device))
    with progress(f"heads of {folder}", quiet=quiet) as meter:
        return heads_of_model(
            attached,
            examples,
            metric,
            tokenizer=checkpoint.tokenizer,
            thorough=amount.thorough,
            maps=amount.maps,
            name=f"{PREFIX}{folder}",
            progress=lambda step, done, total: meter(done, total, step),
        )


def _refuse(options: ModelOptions, names: tuple[str, ...], owner: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise InputError(f"--{name} is for {owner}")


def _metric(name: str | None, known: tuple[str, ...]) -> str:
    """The metric; the first one that fits the data by default."""
    if name is not None and name not in known:
        raise InputError(f"--metric {name!r} does not fit the data; {suggestion(name, known)}")
    return name or known[0]
