"""The directories of runs, studies and sweeps: the only code that names files inside them.

    runs/<name>/
      config.json       the resolved recipe
      provenance.json   commit, versions, device, threads, command line
      metrics.jsonl     one object a line, append only
      data/             the files a run was trained on, if it was given any
      checkpoints/      step-000400/{model.safetensors, trainer.safetensors, state.json, MANIFEST}
      analysis/         what later commands found
      report/           index.html, report.md, and figures/ drawn from it
      tensorboard/      a mirror of metrics.jsonl, if one was asked for
    studies/<name>/
      study.json        the plan: arms, seeds, how runs are measured
      runs/<name>/      ordinary runs
      analysis/         what they say together
      report/           index.html, report.md, and figures/ drawn from it
    sweeps/<name>/
      sweep.json        the plan: recipe, varied settings, seeds, every trial's name
      trials/<name>/    ordinary runs
      results.jsonl     one line a trial that ended
      report/figures/   figures drawn from them

A checkpoint is written beside its place, synced, its SHA-256 manifest last, then renamed into place. So it is
there whole or not at all, whatever kills the process. Only safetensors and JSON are ever read.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headway.config import RunConfig
from headway.errors import InputError
from headway.origin import KEY as MADE_FROM
from headway.origin import (
    Origin,
    check_origin,
    check_seed,
    digest,
    digest_of_files,
    origins_in,
    weights_digest,
    without_origins,
)
from headway.results.comparison import Outcome
from headway.results.schema import read
from headway.storage import (
    MARKDOWN_MARK,
    end_last_line,
    held_for_writing,
    is_cut_off,
    is_written_by_headway,
    parse_json,
    read_json,
    read_lines,
    replace_file,
    sync_directory,
    write_json,
    write_synced,
)

if TYPE_CHECKING:
    from torch import Tensor

R = TypeVar("R")
STEP_NAME = re.compile(r"step-(\d{6,})")
BEFORE_PLAN = ("lock", "trials")
"""What a sweep directory may hold before its plan is in place, beside the plan that a kill left half written."""
FILES = ("model.safetensors", "trainer.safetensors", "state.json")
OWN_FILES = {
    "config.json": (
        "run",
        ("provenance.json", "metrics.jsonl", "data", "checkpoints", "analysis", "tensorboard", "lock"),
    ),
    "study.json": ("study", ("analysis", "lock")),
    "sweep.json": ("sweep", ("results.jsonl", "lock")),
}
"""The file that makes a directory a run, a study or a sweep, and what else in it no output may touch."""


class DamagedCheckpoint(Exception):
    """A checkpoint whose files do not match its manifest; the message names it and the file."""


@contextmanager
def panics_as_memory_errors(name: str) -> Iterator[None]:
    """Without memory for the bytes of a file safetensors panics, which is no `Exception`; it becomes `MemoryError`."""
    try:
        yield
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":  # its class is in no module that could be imported
            raise
        raise MemoryError(f"no room for the tensors of {name}: {problem}") from None


@dataclass(frozen=True)
class Checkpoint:
    """Weights, optimiser state and the loop's own numbers after `step` updates."""

    step: int
    model: "dict[str, Tensor]"
    trainer: "dict[str, Tensor]"
    state: dict[str, Any]


class ReportDirectory:
    """A report: index.html, report.md, and the figures that the second one shows."""

    def __init__(self, path: Path | str):
        self.path = Path(path)

    @property
    def page(self) -> Path:
        return self.path / "index.html"

    @property
    def markdown(self) -> Path:
        return self.path / "report.md"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    def is_own(self) -> bool:
        """Whether this is the report of the run or study that it stands in, where headway alone writes."""
        return any(kind(self.path.parent).exists() for kind in (RunDirectory, StudyDirectory))

    def write(self, page: str, markdown: str) -> None:
        """Put both in place, each whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.page, page.encode())
        replace_file(self.markdown, f"{MARKDOWN_MARK}\n\n{markdown}".encode())


class RunDirectory:
    """One model: how it was made, how training went, its weights, and what was found about it."""

    def __init__(self, path: Path | str):
        self.path = Path(path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def report(self) -> ReportDirectory:
        return ReportDirectory(self.path / "report")

    @property
    def figures(self) -> Path:
        return self.report.figures

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    def exists(self) -> bool:
        return (self.path / "config.json").is_file()

    @classmethod
    def find(cls, text: str) -> "RunDirectory":
        """The run at a path, or of that name under ./runs; anything else raises `InputError`."""
        for path in (Path(text), Path("runs") / text):
            if cls(path).exists():
                return cls(path)
        path = Path(text)
        if path.is_file():
            raise InputError(f"{text} is a file, not a run directory; only safetensors and JSON in a run are read")
        for place in (path, Path("studies") / text):
            if inside := list_runs(place) or StudyDirectory(place).runs():
                shown = ", ".join(str(run.path) for run in inside[:4]) + (" and more" if len(inside) > 4 else "")
                raise InputError(f"{place} is not a run; runs in it: {shown}")
        if path.is_dir():
            raise InputError(f"{text} is not a run: it has no config.json")
        known = [run.name for run in list_runs(Path("runs"))]
        raise InputError(f"no run at {text} or runs/{text}; known under ./runs: {', '.join(known) or 'none'}")

    def create(self, config: RunConfig, provenance: Mapping[str, Any], files: Iterable[Path] = ()) -> None:
        """Lay out an empty run with its own copy of the data; config.json comes last, so that it is complete."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "provenance.json", provenance)
        for path in files:
            self.data.mkdir(exist_ok=True)
            shutil.copyfile(path, self.data / path.name)
        write_json(self.path / "config.json", config.to_json())

    def config(self) -> RunConfig:
        path = self.path / "config.json"
        return RunConfig.from_json(read_json(path), str(path))

    def provenance(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.path / "provenance.json")
        return found

    def note_resume(self, circumstances: Mapping[str, Any]) -> None:
        """Add the circumstances of a continuation to provenance.json."""
        record = self.provenance()
        write_json(self.path / "provenance.json", {**record, "resumed": [*record.get("resumed", []), circumstances]})

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run for writing; a second writer is refused. A killed process lets go by itself."""
        self.path.mkdir(parents=True, exist_ok=True)
        with held_for_writing(self.path):
            yield

    @contextmanager
    def arriving(self) -> Iterator[Path]:
        """An empty folder to fill; when the block ends well it takes this run's place, whole or not at all."""
        beside = self.path.parent / f".arriving-{self.name}"  # holds no config.json itself, so it is listed nowhere
        shutil.rmtree(beside, ignore_errors=True)
        (beside / "new").mkdir(parents=True)
        try:
            yield beside / "new"
            if self.path.exists():
                os.rename(self.path, beside / "old")
            os.rename(beside / "new", self.path)
            sync_directory(self.path.parent)
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    # Metrics

    def append_metrics(self, *records: Mapping[str, Any]) -> None:
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as handle:
            handle.write("".join(json.dumps(record, allow_nan=False) + "\n" for record in records))

    def mend_metrics(self) -> None:
        """End a line that a killed process left half written, so that the next one stands alone."""
        end_last_line(self.path / "metrics.jsonl")

    def metrics(self) -> list[dict[str, Any]]:
        """What was recorded, in order; what a continuation did again replaces the first try."""
        records: list[dict[str, Any]] = []
        for record in read_lines(self.path / "metrics.jsonl"):
            if "resumed_at" in record:
                records = [old for old in records if old.get("step", 0) <= record["resumed_at"]]
            records.append(record)
        return records

    # Checkpoints

    def checkpoint_path(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step:06d}"

    def checkpoint_steps(self) -> list[int]:
        """Steps that have a checkpoint in place, oldest first."""
        folder = self.path / "checkpoints"
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(match[1]) for name in names if (match := STEP_NAME.fullmatch(name)))

    def newest_state(self) -> dict[str, Any]:
        """The loop's numbers of the newest checkpoint; empty when there is none that can be read."""
        for step in reversed(self.checkpoint_steps()):
            try:
                found = read_json(self.checkpoint_path(step) / "state.json")
            except InputError:
                continue
            if isinstance(found, dict):
                return found
        return {}

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Put a checkpoint in place, whole or not at all."""
        from safetensors.torch import save

        place = self.checkpoint_path(checkpoint.step)
        beside = place.with_name(f"writing-{place.name}")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        state = json.dumps(checkpoint.state, indent=1, allow_nan=False).encode()
        with panics_as_memory_errors(place.name):
            contents = dict(zip(FILES, (save(checkpoint.model), save(checkpoint.trainer), state), strict=True))
        for name, content in contents.items():
            write_synced(beside / name, content)
        manifest = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())
        write_synced(beside / "MANIFEST", manifest.encode())
        sync_directory(beside)
        shutil.rmtree(place, ignore_errors=True)  # only a damaged one can stand here
        os.rename(beside, place)
        sync_directory(place.parent)

    def read_checkpoint(self, step: int) -> Checkpoint:
        """The checkpoint of a step, checked against its manifest; raises `DamagedCheckpoint`."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        place = self.checkpoint_path(step)
        contents = {}
        try:
            lines = (place / "MANIFEST").read_text().splitlines()
            expected = {name: digest for digest, name in (line.split("  ") for line in lines)}
            for name in FILES:
                contents[name] = (place / name).read_bytes()
                if hashlib.sha256(contents[name]).hexdigest() != expected[name]:
                    raise DamagedCheckpoint(f"{place.name} is damaged: {name} does not match its manifest")
            model, trainer, state = (contents[name] for name in FILES)
            with panics_as_memory_errors(place.name):
                return Checkpoint(step, load(model), load(trainer), json.loads(state))
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise DamagedCheckpoint(f"{place.name} is damaged: {error}") from None

    def newest_checkpoint(self, steps: list[int] | None = None) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, and a line for each newer one that is not."""
        damages: list[str] = []
        for step in reversed(self.checkpoint_steps() if steps is None else steps):
            try:
                return self.read_checkpoint(step), damages
            except DamagedCheckpoint as damage:
                damages.append(str(damage))
        return None, damages

    def keep_checkpoints(self, steps: set[int]) -> None:
        """Remove every other checkpoint, and what a killed process left beside them."""
        for step in self.checkpoint_steps():
            if step not in steps:
                shutil.rmtree(self.checkpoint_path(step))
        for left_over in self.path.glob("checkpoints/writing-*"):
            shutil.rmtree(left_over)

    # Analysis

    @property
    def best_step(self) -> int | None:
        """The step of the checkpoint that counts, if there is one."""
        step: int | None = self.newest_state().get("best", {}).get("step")
        return step

    def made_from(self, step: int | None) -> dict[str, Any]:
        """The origin of a result at a step, the one that counts unless told; nothing where there is no checkpoint."""
        step = self.best_step if step is None else step
        return {} if step is None else {MADE_FROM: self.origin(step).to_json()}

    def origin(self, step: int) -> Origin:
        """What a result of this run's checkpoint of a step is made from."""
        config = read_json(self.path / "config.json")
        drawn = {key: config.get(key) for key in ("task", "data")}
        data = digest_of_files(self.data) if self.config().data.files else digest(drawn)
        weights = weights_digest(self.checkpoint_path(step))
        return Origin(step=step, weights=weights, config=digest(config), data=data)

    def add_to_analysis(self, name: str, content: Mapping[str, Any], step: int | None = None) -> Path | None:
        """Merge what a command found at a step into its file; several commands at once wait for each other.

        A file that holds no document is put aside as `NAME.json.damaged`, and that is returned: what was just found
        must not be lost for it.
        """
        aside = None
        path = self.path / "analysis" / f"{name}.json"
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
            stamped = {key: {**part, **stamp} if isinstance(part, Mapping) else part for key, part in content.items()}
            write_json(path, {**before, **stamped})
        return aside

    def replace_analysis(self, name: str, content: Mapping[str, Any], step: int | None = None) -> None:
        """Write what a command found at a step, in place of what it found before."""
        path = self.path / "analysis" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        write_json(path, {**content, **self.made_from(step)})

    def read_analysis(self, name: str, step: int | None = None) -> dict[str, Any] | None:
        """What an earlier command found, or None. What was made from another checkpoint raises `OtherOrigin`.

        The checkpoint is that of a step, or the one that counts.
        """
        found = read_document(self.path / "analysis" / f"{name}.json")
        if not isinstance(found, dict):
            return found
        step, origins = self.best_step if step is None else step, origins_in(found)
        told = f"{self.path}: {name}.json", f"headway { {'evaluation': 'evaluate'}.get(name, name) }"
        if origins and step is not None:
            check_origin(origins, self.origin(step), *told)
        elif self.exists():
            check_seed(found, self.config().seed, *told)
        return without_origins(found)

    def read_result(self, kind: type[R], name: str, step: int | None = None) -> R | None:
        """The same as a type of `results/`; a document of another form raises `InputError`, which names its path."""
        found = self.read_analysis(name, step)
        return read(kind, found, str(self.path / "analysis" / f"{name}.json")) if found else None


class StudyDirectory:
    """Several runs and what they say together: study.json, runs/, analysis/, report/."""

    def __init__(self, path: Path | str):
        self.path = Path(path)

    @property
    def report(self) -> ReportDirectory:
        return ReportDirectory(self.path / "report")

    @property
    def explorer(self) -> Path:
        """The interactive page, beside the report's."""
        return self.path / "report" / "explorer.html"

    def exists(self) -> bool:
        return (self.path / "study.json").is_file()

    def run(self, name: str) -> RunDirectory:
        return RunDirectory(self.path / "runs" / name)

    def runs(self) -> list[RunDirectory]:
        """The runs that are there, by name."""
        return list_runs(self.path / "runs")

    def plan(self) -> dict[str, Any]:
        """The plan as it was written down."""
        found = read_json(self.path / "study.json")
        if not isinstance(found, dict):
            raise InputError(f"{self.path / 'study.json'} holds no plan of a study")
        return found

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Write down what is to be done; a study that was begun with another plan is refused."""
        path = self.path / "study.json"
        if path.exists() and read_json(path) != plan:
            raise InputError(f"{self.path} holds another study; choose another --out")
        if not path.exists() and self.path.is_dir() and self._holds_other_files():
            raise InputError(f"--out {self.path} holds other files; an empty or new directory needed")
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(path, plan)

    def _holds_other_files(self) -> bool:
        # Runs protect themselves: each is a directory that training refuses to share.
        return any(not path.name.startswith(("study.json.writing-", "runs")) for path in self.path.iterdir())

    @property
    def figures(self) -> Path:
        return self.report.figures

    def read_analysis(self, name: str) -> dict[str, Any] | None:
        """What the runs were found to say together, or None."""
        return read_document(self.path / "analysis" / f"{name}.json")

    def read_result(self, kind: type[R], name: str) -> R | None:
        """The same as a type of `results/`; a document of another form raises `InputError`, which names its path."""
        found = self.read_analysis(name)
        return read(kind, found, str(self.analysis(name))) if found else None

    def analysis(self, name: str) -> Path:
        """The file of what the runs say together."""
        return self.path / "analysis" / f"{name}.json"

    def write_analysis(self, name: str, content: Mapping[str, Any]) -> Path:
        """Write what the runs say together, in place of what was written before."""
        path = self.analysis(name)
        path.parent.mkdir(exist_ok=True)
        write_json(path, content)
        return path


class SweepDirectory:
    """A grid or a search: sweep.json (the plan), trials/ (ordinary runs), results.jsonl (how each trial ended)."""

    def __init__(self, path: Path | str):
        self.path = Path(path)

    @property
    def results_path(self) -> Path:
        return self.path / "results.jsonl"

    @property
    def figures(self) -> Path:
        return self.path / "report" / "figures"

    def exists(self) -> bool:
        return (self.path / "sweep.json").is_file()

    @classmethod
    def find(cls, text: str) -> "SweepDirectory":
        """The sweep at a path, or of that name under ./sweeps; anything else raises `InputError`."""
        for path in (Path(text), Path("sweeps") / text):
            if cls(path).exists():
                return cls(path)
        if Path(text).is_file():
            raise InputError(f"{text} is a file, not a sweep directory")
        if Path(text).is_dir():
            raise InputError(f"{text} is not a sweep: it has no sweep.json")
        folder = Path("sweeps")
        known = [path.name for path in sorted(folder.iterdir()) if cls(path).exists()] if folder.is_dir() else []
        raise InputError(f"no sweep at {text} or sweeps/{text}; known under ./sweeps: {', '.join(known) or 'none'}")

    def trial(self, name: str) -> RunDirectory:
        return RunDirectory(self.path / "trials" / name)

    def plan(self) -> dict[str, Any]:
        """The plan as it was written down."""
        found = read_json(self.path / "sweep.json")
        if not isinstance(found, dict):
            raise InputError(f"{self.path / 'sweep.json'} holds no plan of a sweep")
        return found

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Write down what is to be done; a sweep that was begun with another plan is refused."""
        self.check_same(plan)
        if not self.exists():
            (self.path / "trials").mkdir(parents=True, exist_ok=True)
            write_json(self.path / "sweep.json", plan)

    def check_same(self, plan: Mapping[str, Any]) -> None:
        """Refuse a place that holds something else than this plan; writes nothing."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"--out {self.path} is a file; a directory needed")
        if self.exists() and self.plan() != json.loads(json.dumps(plan)):
            raise InputError(f"{self.path} holds another sweep; choose another --out")
        if not self.exists() and self.path.is_dir() and self._holds_other_files():
            raise InputError(f"--out {self.path} holds other files; an empty or new directory needed")

    def _holds_other_files(self) -> bool:
        names = [path.name for path in self.path.iterdir()]
        return any(name not in BEFORE_PLAN and not name.startswith("sweep.json.writing-") for name in names)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the sweep for writing; a second driver is refused. A killed process lets go by itself."""
        self.path.mkdir(parents=True, exist_ok=True)
        with held_for_writing(self.path):
            yield

    def append_result(self, outcome: Outcome) -> None:
        """Add a line; one that could not be written whole is taken back, so that the lines before it stay whole."""
        with self.results_path.open("ab", buffering=0) as handle:
            end = handle.tell()
            left = memoryview((json.dumps(outcome.to_json(), allow_nan=False) + "\n").encode())
            try:
                while left:
                    left = left[handle.write(left) :]
            except OSError as problem:
                os.ftruncate(handle.fileno(), end)
                raise OSError(problem.errno, problem.strerror, str(self.results_path)) from None

    def mend_results(self) -> None:
        """End a line that a killed driver left half written, so that the next one stands alone."""
        end_last_line(self.results_path)

    def results(self, *, strict: bool = False) -> dict[str, Outcome]:
        """How each trial ended, by name; the last word of a trial counts.

        A line that cannot be read counts as none, so that its trial is done again. If `strict`, it is refused, unless
        it is only cut off, as a kill leaves it.
        """
        found: dict[str, Outcome] = {}
        lines = self.results_path.read_bytes().split(b"\n") if self.results_path.exists() else []
        for number, line in enumerate(lines, 1):
            where = f"{self.results_path}: line {number}"
            try:
                if line.strip():
                    outcome = read(Outcome, parse_json(line, where), where)
                    found[outcome.name] = outcome
            except InputError:
                if strict and not is_cut_off(line):
                    raise
        return found

    def tidy_results(self, names: Iterable[str]) -> None:
        """Rewrite results.jsonl with one line a trial, in the order of `names`."""
        found = self.results()
        lines = [json.dumps(found[name].to_json(), allow_nan=False) + "\n" for name in names if name in found]
        replace_file(self.results_path, "".join(lines).encode())


def can_be_opened(path: Path) -> bool:
    """Whether there are contents to be read, whatever they are."""
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def read_document(path: Path) -> dict[str, Any] | None:
    """The object that a file holds, or None where there is no file; anything else raises `InputError`."""
    found = read_json(path) if path.exists() else None
    if found is not None and not isinstance(found, dict):
        raise InputError(f"{path} cannot be read: {found!r:.20} is no document")
    return found


def check_outputs(paths: Iterable[Path], *, force: bool, option: str = "--out") -> None:
    """Raise if writing these files would replace one that headway did not write, unless it is forced.

    A file of a run, a study or a sweep itself (its settings, metrics, weights, data, analyses) is refused even then.
    Nothing is written.
    """
    for path in paths:
        if (own := owner_of(path)) is not None:
            kind, directory = own
            raise InputError(f"{option} {path} is part of the {kind} {directory} itself; choose a path outside of it")
        if path.is_dir():
            raise InputError(f"{option} {path} is a directory; a file needed")
        if not force and os.path.lexists(path) and not is_written_by_headway(path):
            raise InputError(f"{option}: {path} was not written by headway; choose another path, or add --force")


def owner_of(path: Path) -> tuple[str, Path] | None:
    """Run, study or sweep, and its directory, if the path is or would be one of that directory's own files."""
    place = path.resolve()
    for folder in place.parents:
        inside = place.relative_to(folder).parts[0]
        for mark, (kind, names) in OWN_FILES.items():
            if (inside == mark or inside in names) and (folder / mark).is_file():
                return kind, folder
    return None


def list_runs(folder: Path) -> list[RunDirectory]:
    """The runs directly inside a folder, by name."""
    found = [RunDirectory(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []
    return [run for run in found if run.exists()]
