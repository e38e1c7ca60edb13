"""The directory of a sweep."""

from collections.abc import Iterable
from pathlib import Path

from headway.bounded_files import read_bytes
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.results.comparison import Outcome
from headway.results.schema import read
from headway.runs.directory import PlannedDirectory, check_links
from headway.runs.run import RunDirectory
from headway.seals import sealed_line, unsealed_line
from headway.storage import LARGEST_DOCUMENT, append, end_last_line, has_checksum, is_cut_off, parse_json, replace_file


class SweepDirectory(PlannedDirectory):
    """A grid or a search: sweep.json (the plan), trials/ (ordinary runs), results.jsonl (the outcome of each trial)."""

    kind, mark = "sweep", "sweep.json"
    before_plan = ("lock", "trials")

    @property
    def results_path(self) -> Path:
        return self.path / "results.jsonl"

    @classmethod
    def find(cls, text: str) -> "SweepDirectory":
        """The sweep at a path, or with that name under ./sweeps; raises `InputError` otherwise."""
        if not text.strip():
            raise InputError(f"SWEEP {text!r} is empty; a sweep directory or the name of one in ./sweeps needed")
        for path in (Path(text), Path("sweeps") / text):
            if cls(path).exists():
                check_links(path)
                return cls(path)
        if Path(text).is_file():
            raise InputError(f"{text} is a file, not a sweep directory")
        if Path(text).is_dir():
            raise InputError(f"{text} is not a sweep: it has no sweep.json")
        folder = Path("sweeps")
        known = [path.name for path in sorted(folder.iterdir()) if cls(path).exists()] if folder.is_dir() else []
        raise InputError(f"no sweep at {text} or sweeps/{text}; known under ./sweeps: {', '.join(known) or 'none'}")

    def begin(self, plan: JsonObject) -> None:
        super().begin(plan)
        (self.path / "trials").mkdir(exist_ok=True)

    def trial(self, name: str) -> RunDirectory:
        return RunDirectory(self.path / "trials" / name)

    def append_result(self, outcome: Outcome) -> None:
        """Append a line, on disk when this returns."""
        append(self.results_path, sealed_line(outcome.to_json()).encode(), synced=True)

    def mend_results(self) -> None:
        """Complete a partial last line of a killed driver, so that the next line is separate."""
        end_last_line(self.results_path)

    def results(self, *, strict: bool = False) -> dict[str, Outcome]:
        """The outcome of each trial, by name; the last line of a trial counts.

        An unreadable line is ignored, so that its trial is run again. With `strict` it raises, unless it is only cut
        off, as by a kill; in a file with checksums that can be the last line alone.
        """
        found: dict[str, Outcome] = {}
        lines = read_bytes(self.results_path, LARGEST_DOCUMENT).split(b"\n") if self.results_path.exists() else []
        for number, line in enumerate(lines, 1):
            where = f"{self.results_path}: line {number}"
            try:
                if line.strip():
                    outcome = read(Outcome, unsealed_line(parse_json(line, where), where), where)
                    found[outcome.name] = outcome
            except InputError:
                may_be_cut = is_cut_off(line) and (number == len(lines) or not any(has_checksum(one) for one in lines))
                if strict and not may_be_cut:
                    raise
        return found

    def tidy_results(self, names: Iterable[str]) -> None:
        """Rewrite results.jsonl with one line per trial, in the order of `names`."""
        found = self.results()
        lines = [sealed_line(found[name].to_json()) for name in names if name in found]
        replace_file(self.results_path, "".join(lines).encode())
