"""`hw.load_pruned`: a pruned Hugging Face model from the directory that its `save_pretrained` wrote.

transformers builds a model from sizes that are the same for all layers, so it refuses such a directory. headway lets it
build the whole model from config.json, cuts the heads that config.json names, and has it read the weights, safetensors
alone.
"""

import json
from pathlib import Path
from typing import Any

from torch import nn

from headway.attachment.attached import Attached
from headway.attachment.finding import find_attentions
from headway.attachment.pruning import cut
from headway.errors import InputError


def load_pruned(path: str | Path) -> nn.Module:
    """A pruned model that was saved with `save_pretrained`, in evaluation mode.

    >>> hw.prune(model, ["dec0.self.h3"]).model.save_pretrained("smaller")   # doctest: +SKIP
    >>> model = hw.load_pruned("smaller")   # doctest: +SKIP
    """
    folder = Path(path)
    config = _config(folder)
    whole = _architecture(folder, config)
    smaller: Any = type(whole.__name__, (whole,), {"__init__": _initialiser(whole, config["headway_pruned"])})
    try:
        how = {"local_files_only": True, "use_safetensors": True, "output_loading_info": True}
        model, told = smaller.from_pretrained(folder, **how)
    except (OSError, RuntimeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"{folder} cannot be read: {str(problem).splitlines()[0]}") from None
    wrong = [*told.get("missing_keys", ()), *told.get("unexpected_keys", ()), *told.get("mismatched_keys", ())]
    if wrong:
        raise InputError(f"{folder}: the weights do not fit config.json: {', '.join(map(str, wrong[:3]))}")
    found: nn.Module = model.eval()
    return found


def _initialiser(whole: type, removed: list[str]) -> Any:
    """Makes a model as its class does, then cuts its heads; transformers fills in the weights afterwards."""

    def initialise(self: Any, config: Any, *arguments: Any, **named: Any) -> None:
        config.headway_pruned = []
        whole.__init__(self, config, *arguments, **named)  # type: ignore[misc]
        attached = Attached(self, find_attentions(self))
        attached.find(removed)
        cut(self, removed, attached)
        self.__class__ = whole  # names of weights are translated for the library's own classes alone

    return initialise


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder} has no config.json; a directory that save_pretrained wrote needed")
    try:
        config = json.loads(path.read_text())
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON") from None
    if not isinstance(config, dict) or not isinstance(config.get("headway_pruned"), list):
        raise InputError(f"{path} names no pruned heads; load it with transformers' from_pretrained")
    return config


def _architecture(folder: Path, config: dict[str, Any]) -> Any:
    """The class of transformers that config.json names."""
    try:
        import transformers
    except ImportError:
        raise InputError("hw.load_pruned needs transformers; pip install 'headway[hf]'") from None
    name = (config.get("architectures") or ["none"])[0]
    found = getattr(transformers, name, None)
    if found is None or not hasattr(found, "from_pretrained"):
        raise InputError(f"{folder / 'config.json'} names the architecture {name!r}, which transformers does not have")
    return found
