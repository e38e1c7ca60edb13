"""The results of commands about a run, in its analysis folder."""

import fcntl
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from headway.config import RunConfig
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.origin import KEY as MADE_FROM
from headway.origin import (
    Origin,
    check_origin,
    check_seed,
    digest_of_files,
    origins_in,
    weights_digest,
    without_origins,
)
from headway.results.schema import Document, read, write
from headway.runs.checkpoints import Checkpoints
from headway.seals import digest
from headway.storage import can_be_opened, read_document, read_json, write_json

R = TypeVar("R")
AGAIN = {"evaluation": "evaluate", "over_training": "heads --over-training"}
"""The command that makes a document, if it has another name."""


class Analyses(Checkpoints):
    """The analyses of a run, each with the checkpoint, config and data from which it was made."""

    def config(self) -> RunConfig:
        path = self.path / "config.json"
        return RunConfig.from_json(read_json(path), str(path))

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def best_step(self) -> int | None:
        """The step of the chosen checkpoint; None if there is none."""
        return self.newest_state().get("best", {}).get("step")

    def made_from(self, step: int | None) -> JsonObject:
        """The origin of a result at a step (default: the chosen one); empty if there is no checkpoint."""
        step = self.best_step if step is None else step
        return {} if step is None else {MADE_FROM: write(self.origin(step))}

    def origin(self, step: int) -> Origin:
        """The origin of a result of this run's checkpoint at a step: weights, config and data, by digest."""
        config = read_json(self.path / "config.json")
        drawn = {key: config.get(key) for key in ("task", "data")}
        data = digest_of_files(self.data) if self.config().data.files else digest(drawn)
        weights = weights_digest(self.checkpoint_path(step))
        return Origin(step=step, weights=weights, config=digest(config), data=data)

    def add_to_analysis(
        self, name: str, content: Mapping[str, Document] | JsonObject, step: int | None = None
    ) -> Path | None:
        """Merge a command's result at a step into its file; concurrent commands wait for each other.

        An unreadable file is renamed to `NAME.json.damaged`, which is returned, so that the new result is not lost.
        """
        aside = None
        path = self.analysis(name)
        path.parent.mkdir(exist_ok=True)
        with (path.parent / "lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                before = read_document(path) or {}
            except InputError:
                if not can_be_opened(path):
                    raise
                before = {}
                aside = path.replace(path.with_name(f"{path.name}.damaged"))
            stamp = self.made_from(step)
            parts = {key: write(part) for key, part in content.items()}
            stamped = {key: {**part, **stamp} if isinstance(part, Mapping) else part for key, part in parts.items()}
            write_json(path, {**before, **stamped})
        return aside

    def replace_analysis(self, name: str, content: Document | JsonObject, step: int | None = None) -> None:
        """Write a command's result at a step, replacing the earlier one."""
        path = self.analysis(name)
        path.parent.mkdir(exist_ok=True)
        document = content.to_json() if isinstance(content, Document) else content
        write_json(path, {**document, **self.made_from(step)})

    def read_analysis(self, name: str, step: int | None = None) -> JsonObject | None:
        """The result of an earlier command, or None; raises `OtherOrigin` if it is of another checkpoint.

        The default checkpoint is the chosen one.
        """
        found = read_document(self.analysis(name))
        if found is None:
            return None
        step, origins = self.best_step if step is None else step, origins_in(found)
        told = f"{self.path}: {name}.json", f"headway {AGAIN.get(name, name)}"
        if origins and step is not None:
            check_origin(origins, self.origin(step), *told)
        elif self.exists():
            check_seed(found, self.config().seed, *told)
        return without_origins(found)

    def read_result(self, kind: type[R], name: str, step: int | None = None) -> R | None:
        """The same as a type of `results/`; a document of another form raises `InputError` with its path."""
        found = self.read_analysis(name, step)
        result: R | None = _typed(cast(Any, kind), json.dumps(found), str(self.analysis(name))) if found else None
        return result


@lru_cache(maxsize=8)
def _typed(kind: type[Any], content: str, file: str) -> Any:
    """A document as its type; the same content is parsed once, however many commands of a study read it."""
    return read(kind, json.loads(content), file)
