"""`hf:PATH`: a local checkpoint of Hugging Face with its tokenizer, and text as its examples."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.attached_analysis.examples import ModelExamples
from headway.attached_analysis.module_files import in_one_line
from headway.attachment.attached import Attached, attach
from headway.bounded_files import lines_of, parse_json, read_bytes
from headway.errors import InputError, suggestion

PREFIX = "hf:"
TEXT = "text"
"""The column of the texts where none is named."""
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")
"""Files of tokenizers; where none is there, transformers makes one that knows no word."""
LONGEST = 512
"""Tokens of a text; the rest is cut off."""


MISMATCH = "ignore_mismatched_sizes"
"""In transformers' message about weights that do not fit."""


@dataclass(frozen=True)
class TextRow:
    """A text with the line it is from, and its label."""

    line: int
    text: str
    label: Any = None


@dataclass(frozen=True)
class Checkpoint:
    """A model and its tokenizer."""

    folder: Path
    model: Any
    tokenizer: Any


def read_texts(path: Path, text: str | None, label: str | None, most: int) -> list[TextRow]:
    """The rows of a .jsonl file, or the lines of a plain text, without empty ones."""
    if not path.is_file():
        raise InputError(f"--data: no file at {path}")
    try:
        content = lines_of(read_bytes(path).decode())
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text") from None
    lines = [(number, line) for number, line in enumerate(content, 1) if line.strip()][:most]
    if not lines:
        raise InputError(f"{path} has no text")
    if path.suffix == ".jsonl":
        column = text or TEXT
        return [_record(f"{path.name}, line {number}", number, line, column, label) for number, line in lines]
    if label is not None:
        raise InputError(f"--label {label}: {path.name} is plain text; a .jsonl file has labels")
    if text is not None:
        raise InputError(f"--text {text}: {path.name} is plain text; a .jsonl file has columns")
    return [TextRow(number, line) for number, line in lines]


def _record(where: str, number: int, line: str, text: str, label: str | None) -> TextRow:
    try:
        record = parse_json(line)
    except ValueError as problem:
        raise InputError(f"{where} is not JSON: {problem}") from None
    if not isinstance(record, dict):
        raise InputError(f"{where}: an object needed, got {record!r:.60}")
    for option, column in (("--text", text), ("--label", label)):
        if column is not None and column not in record:
            raise InputError(f"{where}: {option} {column}: no such column; {suggestion(column, record)}")
    if not isinstance(record[text], str):
        raise InputError(f"{where}: {text} is {record[text]!r:.60}; a text needed")
    if label is not None and record[label] is None:
        raise InputError(f"{where}: {label} is null; a whole number or a name in config.json needed")
    return TextRow(number, record[text], None if label is None else record[label])


def load_checkpoint(folder: Path, *, classes: bool) -> Checkpoint:
    """A sequence classifier or a causal language model from a local directory, safetensors alone."""
    from safetensors import SafetensorError

    try:
        import transformers
    except ImportError:
        raise InputError("hf: needs transformers; pip install 'headway[hf]'") from None
    if not (folder / "config.json").is_file():
        raise InputError(f"hf:{folder}: no config.json there; a directory that save_pretrained wrote needed")
    kind: Any = transformers.AutoModelForSequenceClassification if classes else transformers.AutoModelForCausalLM
    what = "a sequence classifier" if classes else "a causal language model"
    how: Any = {"local_files_only": True}
    try:
        with quiet(transformers.logging):
            model, told = kind.from_pretrained(folder, use_safetensors=True, output_loading_info=True, **how)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **how)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, SafetensorError) as problem:
        told = "weights have other shapes than config.json says" if MISMATCH in str(problem) else in_one_line(problem)
        raise InputError(f"hf:{folder} cannot be read as {what}: {told}") from None
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise InputError(
            f"hf:{folder}: no tokenizer there ({', '.join(TOKENIZERS)}); tokenizer.save_pretrained writes it"
        )
    lacking = sorted(told.get("missing_keys", ()))
    if lacking:
        without = "" if classes else "; --label LABEL is for classifiers"
        raise InputError(f"hf:{folder} is not {what}: it has no weights for {', '.join(lacking[:3])}{without}")
    return Checkpoint(folder, model.eval(), tokenizer)


@contextmanager
def quiet(logging: Any) -> Iterator[None]:
    """No warnings and progress bars of transformers; what matters of them is an error here."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def attach_to_texts(
    checkpoint: Checkpoint, rows: Sequence[TextRow], device: torch.device
) -> tuple[Attached, ModelExamples]:
    """The model with named heads, and its examples: token ids, mask, and labels if the rows have them."""
    config, model, labelled = checkpoint.model.config, checkpoint.model, any(row.label is not None for row in rows)
    attached = attach(model.to(device))
    ids = [_tokens(checkpoint, row, fewest=1 if labelled else 2) for row in rows]
    if not labelled and not _is_causal(attached, ids[0]):
        raise InputError(
            f"hf:{checkpoint.folder} is no causal language model: its logits depend on later tokens; --label names a "
            "column of classes"
        )
    pad = next((one for one in _pad_ids(checkpoint) if one is not None), 0)
    if config.pad_token_id is None:
        config.pad_token_id = pad  # decoders that classify find their last token by it
    known = model.get_input_embeddings().num_embeddings
    for row, own in zip(rows, ids, strict=True):
        if max(own) >= known:
            raise InputError(
                f"line {row.line} has token {max(own)}, and the model embeds {known}: the tokenizer is of another model"
            )
    width = max(map(len, ids))
    columns = {
        "input_ids": torch.tensor([row + [pad] * (width - len(row)) for row in ids]),
        "attention_mask": torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids]),
    }
    if labelled:
        columns["labels"] = torch.tensor([_class_of(row, config) for row in rows])
    return attached, ModelExamples(columns)


def _is_causal(attached: Attached, ids: list[int]) -> bool:
    """Whether the first logits do not depend on the last token, up to rounding."""
    other = [*ids[:-1], ids[-1] - 1 if ids[-1] else 1]
    before, after = (
        attached.run({"input_ids": torch.tensor([row], device=attached.device)})[0, 0] for row in (ids, other)
    )
    return float((before - after).abs().max()) <= 1e-6 * float(before.abs().max())


def _pad_ids(checkpoint: Checkpoint) -> list[int | None]:
    tokenizer = checkpoint.tokenizer
    return [checkpoint.model.config.pad_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id]


def _tokens(checkpoint: Checkpoint, row: TextRow, *, fewest: int) -> list[int]:
    config = checkpoint.model.config
    longest = min(LONGEST, getattr(config, "max_position_embeddings", None) or LONGEST)
    longest = min(longest, checkpoint.tokenizer.model_max_length)
    found: list[int] = checkpoint.tokenizer(row.text, truncation=True, max_length=longest)["input_ids"]
    if len(found) < fewest:
        raise InputError(f"line {row.line} has {len(found)} tokens; at least {fewest} needed")
    return found


def _class_of(row: TextRow, config: Any) -> int:
    """The class of a label: its number, or its name in config.json."""
    names = {str(name): int(index) for index, name in (config.id2label or {}).items()}
    if isinstance(row.label, str) and row.label in names:
        return names[row.label]
    if isinstance(row.label, str):
        raise InputError(
            f"line {row.line}: label {row.label!r:.60} is not in config.json; {suggestion(row.label, names)}"
        )
    if type(row.label) is not int:
        raise InputError(f"line {row.line}: label is {row.label!r:.60}; a whole number or a name in config.json needed")
    if not 0 <= row.label < config.num_labels:
        raise InputError(f"line {row.line}: label {row.label}; the model has the classes 0 to {config.num_labels - 1}")
    return row.label
