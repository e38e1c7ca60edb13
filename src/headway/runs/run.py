"""The directory of one run."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from headway.callbacks import MetricsRow
from headway.config import RunConfig
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.results.schema import is_number
from headway.runs.analysis import Analyses
from headway.runs.directory import check_links
from headway.runs.records import Environment, Provenance
from headway.storage import (
    append_lines,
    end_last_line,
    new_folder,
    read_json,
    read_lines,
    replace_file,
    sync,
    write_json,
)


class RunDirectory(Analyses):
    """One model: its config, its training metrics, its checkpoints and its analyses."""

    kind, mark = "run", "config.json"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @classmethod
    def find(cls, text: str) -> "RunDirectory":
        """The run at a path, or with that name under ./runs; raises `InputError` otherwise."""
        if not text.strip():
            raise InputError(f"RUN {text!r} is empty; a run directory or the name of a run under ./runs needed")
        for path in (Path(text), Path("runs") / text):
            if cls(path).exists():
                check_links(path)
                return cls(path)
        path = Path(text)
        if path.is_file():
            raise InputError(f"{text} is a file, not a run directory; only safetensors and JSON in a run are read")
        for place in (path, Path("studies") / text):
            if inside := list_runs(place) or list_runs(place / "runs"):
                shown = ", ".join(str(run.path) for run in inside[:4]) + (" and more" if len(inside) > 4 else "")
                raise InputError(f"{place} is not a run; runs in it: {shown}")
        if path.is_dir():
            raise InputError(f"{text} is not a run: it has no config.json")
        known = [run.name for run in list_runs(Path("runs"))]
        raise InputError(f"no run at {text} or runs/{text}; known under ./runs: {', '.join(known) or 'none'}")

    def create(self, config: RunConfig, provenance: Provenance, files: Iterable[Path] = ()) -> None:
        """Create an empty run with its own copy of the data files; config.json is written last and marks it as
        complete.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "provenance.json", provenance)
        for path in files:
            self.data.mkdir(exist_ok=True)
            replace_file(self.data / path.name, path.read_bytes())
        write_json(self.path / "config.json", config.to_json())

    def provenance(self) -> Provenance:
        return cast(Provenance, read_json(self.path / "provenance.json"))

    def note_resume(self, circumstances: Environment) -> None:
        """Add the provenance of a resumed training to provenance.json."""
        record = self.provenance()
        write_json(self.path / "provenance.json", {**record, "resumed": [*record.get("resumed", []), circumstances]})

    @contextmanager
    def arriving(self) -> Iterator[Path]:
        """An empty folder to fill; it replaces this run when the block ends without an error.

        A kill between the two renames leaves no run in its place, until `mend_arrival` puts the old one back.
        """
        self.mend_arrival()
        beside = self._arrival
        (beside / "new").mkdir(parents=True)
        try:
            yield beside / "new"
            if self.path.exists():
                os.rename(self.path, beside / "old")
            os.rename(beside / "new", self.path)
            sync(self.path.parent)
        finally:
            self.mend_arrival()

    @property
    def _arrival(self) -> Path:
        return self.path.parent / f".arriving-{self.name}"  # has no config.json, so it is not listed as a run

    def mend_arrival(self) -> None:
        """Put this run back if it was being replaced when a process was killed, and remove what the kill left."""
        if (self._arrival / "old").is_dir() and not self.path.exists():
            os.rename(self._arrival / "old", self.path)
        shutil.rmtree(self._arrival, ignore_errors=True)

    def check_data(self) -> None:
        """Raise if a file of the run's own data is not as it was when the run was made."""
        for name, expected in self.provenance().get("data_sha256", {}).items():
            path = self.data / name
            try:
                found = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError as error:
                raise InputError(f"{path} cannot be read: {error}") from None
            if found != expected:
                raise InputError(f"{path} is damaged or was edited: its SHA-256 is not the one in provenance.json")

    @contextmanager
    def appearing(self) -> Iterator["RunDirectory"]:
        """A run to fill, which appears here when the block ends; on an error nothing is left."""
        with new_folder(self.path) as folder:
            yield RunDirectory(folder)

    # Metrics

    def append_metrics(self, *records: MetricsRow) -> None:
        append_lines(self.path / "metrics.jsonl", cast(Iterable[JsonObject], records))

    def sync_metrics(self) -> None:
        """Wait until the metrics are on disk, as they must be before a checkpoint that continues them."""
        if (self.path / "metrics.jsonl").exists():
            sync(self.path / "metrics.jsonl")

    def mend_metrics(self) -> None:
        """Complete a partial last line of a killed process, so that the next line is separate."""
        end_last_line(self.path / "metrics.jsonl")

    def metrics(self) -> list[MetricsRow]:
        """The recorded rows in order; rows after a resume replace those of the first try."""
        records: list[MetricsRow] = []
        for line in read_lines(self.path / "metrics.jsonl"):
            record = _checked_metrics(line, self.path / "metrics.jsonl")
            if "resumed_at" in record:
                records = [old for old in records if old.get("step", 0) <= record["resumed_at"]]
            records.append(record)
        self._check_reach(records)
        return records

    def _check_reach(self, records: Iterable[MetricsRow]) -> None:
        """Raise if the rows lack the validation of the newest checkpoint, which is written after it, or if its best
        validation is another one there.
        """
        state, path = self.newest_state(), self.path / "metrics.jsonl"
        losses = {one["step"]: one["validation"]["loss"] for one in records if "validation" in one and "step" in one}
        validated, best = state.get("validated", -1), state.get("best", {})
        if validated >= 0 and validated not in losses:
            raise InputError(
                f"{path} is damaged: it has no validation at step {validated}, and the newest checkpoint has; the end "
                "of the file may be missing"
            )
        found, expected = losses.get(best.get("step", -1)), best.get("loss")
        if validated >= 0 and None not in (found, expected) and found != expected:
            raise InputError(
                f"{path} is that of another run: its loss at step {best['step']} is {found:.9g}, and the newest "
                f"checkpoint has {expected:.9g}"
            )


def _checked_metrics(record: JsonObject, path: Path) -> MetricsRow:
    """Refuse a line of metrics.jsonl in which a number is missing, text or not finite; headway writes none such."""
    validation = record.get("validation")
    if "validation" in record and not isinstance(validation, Mapping):
        raise InputError(f"{path}: validation is {validation!r:.40}; an object needed")
    measured = {}
    if isinstance(validation, Mapping) and validation:
        measured = {f"validation.{key}": validation.get(key) for key in ("loss", "accuracy")}
    numbers = {key: record[key] for key in ("step", "loss", "lr", "gradient", "resumed_at") if key in record}
    for key, value in {**numbers, **measured}.items():
        if not is_number(value):
            at = f" at step {record['step']}" if key != "step" and "step" in record else ""
            raise InputError(f"{path}: {key}{at} is {value!r:.40}; a number needed")
    return cast(MetricsRow, record)


def list_runs(folder: Path) -> list[RunDirectory]:
    """The runs directly inside a folder, by name."""
    found = [RunDirectory(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []
    return [run for run in found if run.exists()]
