"""`headway convert`: the weights of a PyTorch pickle as safetensors, read without running the pickle's code."""

import pickle
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.bounded_files import LARGEST_UNPACKED, check_unpacked
from headway.errors import InputError
from headway.results.conversion import Conversion
from headway.storage import replace_file

if TYPE_CHECKING:
    from torch import Tensor

INSIDE = ("state_dict", "model_state_dict", "model", "weights", "net")
"""Entries of a checkpoint under which training scripts keep the weights."""
PREFIXES = ("module.", "_orig_mod.", "model.module.")
"""Put before every name by DataParallel, torch.compile and Lightning around DataParallel."""


def convert(file: str | Path, *, out: str | Path | None = None) -> Conversion:
    """Read a pickle with `weights_only=True` and write its tensors as safetensors, by default beside it.

    >>> hw.convert("model.pth").tensors   # doctest: +SKIP
    """
    from safetensors.torch import save

    path = Path(file)
    place = Path(out) if out is not None else path.with_suffix(".safetensors")
    if place.exists():
        raise InputError(f"--out {place} exists already; choose a new file")
    content = _read(path)
    entry, found = _state(path, content)
    prefix, tensors = _without_prefix(found)
    _check_memory(path, tensors.values())
    left_out = [str(name) for name, value in found.items() if not _is_tensor(value)]
    if entry is not None:
        left_out += [str(name) for name in content if name != entry]
    if not place.parent.is_dir():
        raise InputError(f"--out {place}: no directory {place.parent}")
    # A copy each, because safetensors refuses tensors that share memory.
    replace_file(place, save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}))
    return Conversion(
        file=str(path),
        out=str(place),
        entry=entry,
        prefix=prefix,
        tensors={name: tuple(tensor.shape) for name, tensor in tensors.items()},
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        dtypes=tuple(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values()})),
        left_out=tuple(left_out),
    )


def _check_memory(path: Path, tensors: "Iterable[Tensor]") -> None:
    """Raise for tensors that are far larger than the file, as views of one number can be."""
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if needed > max(1_000_000, LARGEST_UNPACKED * path.stat().st_size):
        raise InputError(
            f"{path} holds tensors of {needed / 1e6:,.0f} MB, more than {LARGEST_UNPACKED} times its size; "
            "tensors with their numbers needed"
        )


def _read(path: Path) -> Any:
    import torch

    if not path.is_file():
        raise InputError(f"no file at {path}")
    check_unpacked(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the protocol of a pickle, which is read or refused below
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        named = re.search(r"GLOBAL (\S+)", str(problem))
        what = f"a {named[1]}" if named else "objects other than tensors"
        raise InputError(f"{path} holds {what}, whose code is not run; save model.state_dict() instead") from None
    except (RuntimeError, EOFError, ValueError, OSError, IndexError, KeyError, AttributeError) as problem:
        raise InputError(
            f"{path} is no file that torch.save wrote: {str(problem).split(chr(10))[0][:120] or type(problem).__name__}"
        ) from None


def _state(path: Path, content: Any) -> tuple[str | None, Mapping[Any, Any]]:
    """The weights in what was read, and the entry that held them."""
    if isinstance(content, Mapping):
        for entry in INSIDE:
            inside = content.get(entry)
            if isinstance(inside, Mapping) and any(_is_tensor(value) for value in inside.values()):
                return entry, inside
        if any(_is_tensor(value) for value in content.values()):
            return None, content
    kind = (
        f"entries {', '.join(map(str, list(content)[:8]))}" if isinstance(content, Mapping) else type(content).__name__
    )
    raise InputError(f"{path} holds {kind}, and no weights by name; save model.state_dict()")


def _is_tensor(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _without_prefix(found: Mapping[Any, Any]) -> tuple[str | None, "dict[str, Tensor]"]:
    """The tensors by name, without a prefix that a wrapper put before all of them."""
    tensors = {str(name): value for name, value in found.items() if _is_tensor(value)}
    prefix = next((one for one in PREFIXES if all(name.startswith(one) for name in tensors)), None)
    return prefix, tensors if prefix is None else {name.removeprefix(prefix): value for name, value in tensors.items()}
