"""Where the runs come from, and the one command that makes them again."""

import shlex
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from headway.report.blocks import Block, Cell, Column, Command, Paragraph, Section, Table
from headway.report.evidence import Evidence, switch

FIELDS = ("time", "commit", "device", "gpu", "machine", "cores", "threads", "command")
AFTER = {"evaluation": "evaluate", "heads": "heads", "lengths": "lengths", "doctor": "doctor"}
"""The command that makes each document."""


def section(evidence: Evidence) -> Section:
    parts = [
        Section("reproduce", "Run it again", reproduce(evidence)),
        Section("circumstances", "Circumstances", [circumstances(evidence)]),
    ]
    return Section("provenance", "Provenance", [], parts)


def circumstances(evidence: Evidence) -> Table:
    """One row a run; with a single run one row a fact."""
    fields = [field for field in FIELDS if any(evidence.has(f"{run}/provenance/{field}") for run in evidence.runs)]
    versions = list(evidence.find(f"{evidence.runs[0]}/provenance/versions", {}))
    paths = {field: f"provenance/{field}" for field in fields} | {
        name: f"provenance/versions/{name}" for name in versions
    }
    if len(evidence.runs) == 1:
        rows = [[Cell(Markup.escape(name)), Cell(fact(evidence, f"runs/0/{path}"))] for name, path in paths.items()]
        return Table("How the run was made", [Column("fact", numeric=False), Column("value", numeric=False)], rows)
    columns = [Column("run", numeric=False), *(Column(name, numeric=False) for name in paths)]
    rows = [
        [
            Cell(evidence.text(f"{run}/name", "code")),
            *(Cell(fact(evidence, f"{run}/{path}")) for path in paths.values()),
        ]
        for run in evidence.runs
    ]
    return Table("How the runs were made", columns, rows)


def fact(evidence: Evidence, path: str) -> Markup:
    """One fact, as it stands in provenance.json."""
    value: Any = evidence.find(path)
    if value is None:
        return Markup("–")
    shown = shlex.join(value) if isinstance(value, list) else switch(value)
    return Markup('<code data-at="{}">{}</code>').format(path, shown)


def reproduce(evidence: Evidence) -> list[Block]:
    """One command line for the study, or one that goes through every step of every run."""
    if evidence.has("study"):
        return [Command(study_command(evidence))]
    lines = [line for run in evidence.runs for line in run_commands(evidence, run)]
    named = [shlex.quote(evidence.get(f"{run}/path")) for run in evidence.runs]
    if any(line is None for line in lines):
        word = Markup(
            "The training was started from Python; the settings above are all that decides it. What follows it:"
        )
        rest = [line for line in lines if line is not None]
        return [Paragraph([word]), Command(" && ".join([*rest, f"headway report {' '.join(named)}"]))]
    known = [line for line in lines if line is not None]
    return [Command(" && ".join([*known, f"headway report {' '.join(named)}"]))]


def study_command(evidence: Evidence) -> str:
    plan = evidence.get("study/plan")
    place = shlex.quote(evidence.get("study/path"))
    preset = f" --preset {shlex.quote(str(plan['preset']))}" if "preset" in plan else ""
    return f"headway study {shlex.quote(str(plan.get('experiment', '')))}{preset} --out {place}"


def run_commands(evidence: Evidence, run: str) -> list[str | None]:
    """Training as it was started (None where it was no command line), then what was found, in order."""
    place = shlex.quote(evidence.get(f"{run}/path"))
    command = [str(word) for word in evidence.find(f"{run}/provenance/command", [])]
    started = bool(command) and PurePath(command[0]).name.startswith("headway")
    found: list[str | None] = [shlex.join(["headway", *command[1:]]) if started else None]
    for name, verb in AFTER.items():
        if evidence.has(f"{run}/{name}"):
            split = " --split all" if name == "evaluation" and evidence.has(f"{run}/evaluation/all") else ""
            found.append(f"headway {verb} {place}{split}")
    return found
