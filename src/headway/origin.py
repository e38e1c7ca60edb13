"""The origin of a result: SHA-256 of weights, config and data, and a check that the run still has them.

A document of a run has its origin under `made_from`. Documents of earlier versions have none.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.json_values import JsonObject

KEY = "made_from"
MANIFEST_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


class OtherOrigin(InputError):
    """A document was made from another checkpoint, config or data than the run has now."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A checkpoint's step, and the SHA-256 of its weights, of config.json, and of the data (or of its settings)."""

    step: int
    weights: str | None
    config: str
    data: str


def digest_of_files(folder: Path) -> str:
    """The SHA-256 of all files of a folder, including their names."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(folder)}\n{path.stat().st_size}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def digests_in(manifest: str) -> dict[str, str]:
    """The SHA-256 of each file that a checkpoint's manifest names; `ValueError` unless it is as headway writes it.

    A name that is repeated there has no digest: one reader would take the first, another the last.
    """
    *lines, rest = manifest.split("\n")
    if rest:
        raise ValueError("its manifest does not end with a line break")
    found: dict[str, str] = {}
    for line in lines:
        match = MANIFEST_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"its manifest has the line {line!r:.80}")
        digest, name = match.groups()
        if name in found:
            raise ValueError(f"its manifest names {name} twice")
        found[name] = digest
    return found


def weights_digest(checkpoint: Path) -> str | None:
    """The SHA-256 of a checkpoint's weights from its manifest; None if it cannot be read."""
    try:
        return digests_in((checkpoint / "MANIFEST").read_bytes().decode()).get("model.safetensors")
    except (OSError, ValueError):
        return None


def origins_in(document: JsonObject) -> list[JsonObject]:
    """The origins in a document and its parts; an origin that is not an object matches no run."""
    parts = (document, *(value for value in document.values() if isinstance(value, Mapping)))
    named = (part[KEY] for part in parts if KEY in part)
    return [origin if isinstance(origin, Mapping) else {} for origin in named]


def without_origins(document: Any) -> Any:
    """A document without its origins."""
    if not isinstance(document, dict):
        return document
    parts = ((key, value) for key, value in document.items() if key != KEY)
    return {key: {k: v for k, v in x.items() if k != KEY} if isinstance(x, dict) else x for key, x in parts}


def check_seed(document: JsonObject, own: int, file: str, again: str) -> None:
    """Raise if a document without an origin, as earlier versions wrote it, has another seed."""
    seed = document.get("seed", own)
    if seed != own:
        raise OtherOrigin(f"{file} is of seed {seed}, and this run has seed {own}; run {again} again")


def check_origin(origins: Iterable[JsonObject], own: Origin, file: str, again: str) -> None:
    """Raise unless every origin is the run's own: weights of the chosen checkpoint, config and data."""
    for found in origins:
        if all(found.get(name) == value for name, value in asdict(own).items()):
            continue
        step = found.get("step")
        if not isinstance(step, int):
            which = f"something that its {KEY} does not name"
        elif step != own.step:
            which = f"another checkpoint (step {step}; this run's is step {own.step})"
        elif found.get("config") != own.config:
            which = "a run with another config"
        else:
            which = "another checkpoint" if found.get("weights") != own.weights else "other data"
        raise OtherOrigin(f"{file} was made from {which}; run {again} again")
