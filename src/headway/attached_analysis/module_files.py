"""`FILE.py:FUNCTION` or `package.module:FUNCTION`: a model of the user's own code, with weights from safetensors.

The file may also define what `course_examples` and `attach` need where the defaults do not fit: `batch(examples)`,
`logits(model, batch)`, `START`, `PAD`, `SITES` and `N_HEADS`.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from headway.attachment.attached import logits_in
from headway.errors import InputError, suggestion

NAMED = re.compile(r"(?P<code>.+):(?P<function>[A-Za-z_]\w*)")
MOST_NAMES = 3
"""Names of weights in a message."""


@dataclass(frozen=True)
class UserModel:
    """A model, and the code that made it."""

    name: str
    model: nn.Module
    code: ModuleType


def is_function(name: str) -> bool:
    """Whether a name is `FILE.py:FUNCTION` or `package.module:FUNCTION`."""
    return NAMED.fullmatch(name) is not None


def load_user_model(name: str, weights: Path | None) -> UserModel:
    """The model that the function makes, with the weights of a safetensors file, in evaluation mode."""
    if weights is None:
        raise InputError(f"{name}: --weights FILE.safetensors needed; without it the model has random weights")
    match = NAMED.fullmatch(name)
    assert match is not None
    path = Path(match["code"])
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise InputError(f"no file at {path}")
    with importable(path.parent if is_file else Path()):
        code = _import_file(path) if is_file else _import_module(match["code"])
        model = _build(code, match["function"], name)
    load_weights(model, weights)
    return UserModel(name, model.eval(), code)


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Modules of the folder can be imported inside the context."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))


def in_one_line(problem: BaseException) -> str:
    """The type of an error and the first line of its message."""
    first = next(iter(str(problem).splitlines()), "")
    return f"{type(problem).__name__}: {first[:200]}" if first else type(problem).__name__


def _import_file(path: Path) -> ModuleType:
    name = f"headway_model_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    sys.modules[name] = code  # dataclasses look their module up there
    try:
        spec.loader.exec_module(code)
    except (Exception, SystemExit) as problem:
        del sys.modules[name]
        raise InputError(f"{path} cannot be imported: {in_one_line(problem)}") from None
    return code


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name and (name == problem.name or name.startswith(f"{problem.name}.")):
            raise InputError(f"no module {name}; a file is written with its ending, {name}.py:FUNCTION") from None
        raise InputError(f"{name} cannot be imported: {in_one_line(problem)}") from None
    except (Exception, SystemExit) as problem:
        raise InputError(f"{name} cannot be imported: {in_one_line(problem)}") from None


def _build(code: ModuleType, function: str, name: str) -> nn.Module:
    build = getattr(code, function, None)
    if not callable(build):
        known = [key for key, value in vars(code).items() if callable(value) and not key.startswith("_")]
        raise InputError(f"{name}: no function {function!r} there; {suggestion(function, known)}")
    try:
        model = build()
    except (Exception, SystemExit) as problem:
        raise InputError(f"{name} fails, called without arguments: {in_one_line(problem)}") from None
    if not isinstance(model, nn.Module):
        raise InputError(f"{name} returned {type(model).__name__}; a torch.nn.Module needed")
    return model


def load_weights(model: nn.Module, path: Path) -> None:
    """Load a safetensors file into a model; every name and shape must fit."""
    own = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    found = _under_own_names(_read_weights(path), own)
    present = {own[name].data_ptr() for name in found if name in own}
    # safetensors stores weights that share memory once.
    missing = [name for name, value in own.items() if name not in found and value.data_ptr() not in present]
    unknown = [name for name in found if name not in own]
    told = [f"missing {_some(missing)}"] if missing else []
    told += [f"not in the model {_some(unknown)}"] if unknown else []
    if told:
        raise InputError(f"{path.name} does not fit the model: {'; '.join(told)}")
    for name, value in found.items():
        if value.shape != own[name].shape:
            raise InputError(
                f"{path.name}: {name} has shape {tuple(value.shape)}; the model needs {tuple(own[name].shape)}"
            )
    model.load_state_dict(found, strict=False)


def _under_own_names(found: dict[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights under the model's names, where one prefix of all names is too much on either side.

    `module.` is of nn.DataParallel, `_orig_mod.` of torch.compile, `model.` of a module that trains another one.
    """
    if not found or any(name in own for name in found):
        return found
    for prefix in _prefixes(next(iter(found))):
        if all(name.startswith(prefix) and name.removeprefix(prefix) in own for name in found):
            return {name.removeprefix(prefix): value for name, value in found.items()}
    for prefix in _prefixes(next(iter(own), "")):
        if all(prefix + name in own for name in found):
            return {prefix + name: value for name, value in found.items()}
    return found


def _prefixes(name: str) -> list[str]:
    """`a.b.c` begins with `a.` and `a.b.`."""
    parts = name.split(".")
    return [".".join(parts[:count]) + "." for count in range(1, len(parts))]


def _read_weights(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise InputError(f"--weights: no file at {path}")
    if path.suffix != ".safetensors":
        raise InputError(f"--weights {path.name}: a .safetensors file needed; headway convert {path} writes one")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as problem:
        raise InputError(f"{path} is no safetensors file: {in_one_line(problem)}") from None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


class CalledBy(nn.Module):
    """A model whose logits a function of the user computes."""

    def __init__(self, model: nn.Module, logits: Callable[[nn.Module, Any], Any]):
        super().__init__()
        self.model, self.logits = model, logits

    def forward(self, *arguments: Tensor, **named: Tensor) -> Any:
        return self.logits(self.model, named or arguments)


def two_classes(output: Any) -> Any:
    """Logits of two classes, from one logit of the second; any other logits unchanged."""
    logits = logits_in(output)
    if logits.ndim == 1 or (logits.ndim == 2 and logits.shape[1] == 1):
        one = logits.reshape(-1, 1)
        return torch.cat([torch.zeros_like(one), one], dim=1)
    return logits
