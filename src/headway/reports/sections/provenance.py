"""Where the runs come from, and the one command that makes them again."""

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Command, Paragraph, Section, Table
from headway.reports.evidence import Evidence, switch
from headway.results.heads import Settings
from headway.results.lengths import Lengths

FIELDS = ("time", "commit", "device", "gpu", "machine", "cores", "threads", "command")
EXAMPLES = 2_000
"""What `heads --n` and `lengths --n` are by default."""
WHOLE = 200_000
"""What `lengths --whole` is by default."""


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
    # Seeds that one command trained all name it.
    lines = list(dict.fromkeys(line for run in evidence.runs for line in run_commands(evidence, run)))
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
    options = preset + seeds_option(evidence) + arms_option(evidence)
    return f"headway study {shlex.quote(str(plan.get('experiment', '')))}{options} --out {place}"


def seeds_option(evidence: Evidence) -> str:
    """The seeds, unless the command that trained the runs left them to the preset; arms' own seeds are a preset's."""
    seeds = {tuple(arm.get("seeds", ())) for arm in evidence.find("study/plan/arms", [])}
    commands = [evidence.find(f"{run}/provenance/command", []) for run in evidence.runs]
    known = [command for command in commands if started(command) and "study" in command]
    given = any(str(word).split("=")[0] == "--seeds" for command in known for word in command)
    if len(seeds) != 1 or (known and not given):
        return ""
    (alike,) = seeds
    return f" --seeds {in_short(alike)}" if alike else ""


def in_short(seeds: Sequence[int]) -> str:
    """Seeds as `--seeds` takes them.

    >>> in_short([0, 1, 2]), in_short([3]), in_short([0, 2])
    ('0-2', '3', '0,2')
    """
    if len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ",".join(map(str, seeds))


def arms_option(evidence: Evidence) -> str:
    """The arms that have runs, where others have none; a run's name begins with its arm's."""
    arms = [str(arm["name"]) for arm in evidence.find("study/plan/arms", []) if "name" in arm]
    names = [str(evidence.get(f"{run}/name")) for run in evidence.runs]
    # `long-without-bands-seed0` is of the arm `long-without-bands`, not of `long`.
    done = {max((arm for arm in arms if name.startswith(f"{arm}-")), key=len, default="") for name in names}
    if done >= set(arms) or not done & set(arms):
        return ""
    return f" --arms {shlex.quote(','.join(arm for arm in arms if arm in done))}"


def started(command: Sequence[Any]) -> bool:
    """Whether a command line is headway's: the program, or `python -m headway`."""
    if not command:
        return False
    program = PurePath(str(command[0]))
    return program.name.startswith("headway") or program.parts[-2:] == ("headway", "__main__.py")


def run_commands(evidence: Evidence, run: str) -> list[str | None]:
    """Training as it was started (None where it was no command line), then what was found, in order."""
    place = shlex.quote(evidence.get(f"{run}/path"))
    command = [str(word) for word in evidence.find(f"{run}/provenance/command", [])]
    trained = shlex.join(["headway", *command[1:]]) if started(command) else None
    evaluations = [f"evaluate {place}{split_option(split)}" for split in evidence.evaluations(run).splits]
    found = [*evaluations]
    if evidence.has(f"{run}/heads"):
        found.append(f"heads {place}{heads_options(evidence.heads(run).settings)}")
    if evidence.has(f"{run}/lengths"):
        found.append(f"lengths {place}{lengths_options(evidence.lengths(run))}")
    if evidence.has(f"{run}/doctor"):
        found.append(f"doctor {place}")
    return [trained, *(f"headway {one}" for one in found)]


def split_option(split: str) -> str:
    return "" if split == "test" else f" --split {shlex.quote(split)}"


def heads_options(settings: Settings | None) -> str:
    """What was asked for and is not the default."""
    if settings is None:
        return ""
    chosen = split_option(settings.split)
    chosen += f" --n {settings.examples}" if settings.examples != EXAMPLES else ""
    chosen += f" --examples {settings.maps}" if settings.maps else ""
    return chosen + (" --thorough" if settings.thorough else "")


def lengths_options(found: Lengths) -> str:
    """The same for lengths."""
    chosen = f" --at {','.join(map(str, found.asked))}" if found.asked else ""
    chosen += f" --n {found.n}" if found.n != EXAMPLES else ""
    chosen += f" --whole {found.whole}" if found.whole not in (None, WHOLE) else ""
    return chosen + (" --mechanism" if found.mechanism is not None else "")
