"""The section on provenance, with the command that reproduces the runs."""

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from headway.narration.numbers import NONE, setting
from headway.narration.places import place_of
from headway.narration.tables import Table, words
from headway.narration.text import Code, Words, code
from headway.reports.blocks import Block, Command, Paragraph, Section
from headway.reports.documents import Documents, RunDocuments, StudyDocuments
from headway.results.attack import Attack
from headway.results.heads import Settings
from headway.results.lengths import Lengths

FIELDS = ("time", "commit", "device", "gpu", "machine", "cores", "threads", "command")
EXAMPLES = 2_000
"""Default of `heads --n` and `lengths --n`."""
SECONDS = 120.0
"""Default of `attack --seconds`."""
WHOLE = 200_000
"""Default of `lengths --whole`."""


def section(documents: Documents) -> Section:
    parts = [
        Section("reproduce", "Run it again", reproduce(documents)),
        Section("circumstances", "How it was made", [circumstances(documents)]),
    ]
    return Section("provenance", "Provenance", [], parts)


def circumstances(documents: Documents) -> Table:
    """One row per run; for a single run one row per fact."""
    records = [{**run.provenance, **run.provenance.get("versions", {})} for run in documents.runs]
    names = [name for name in FIELDS if any(record.get(name) is not None for record in records)]
    names += list(documents.runs[0].provenance.get("versions", {}))
    if len(records) == 1:
        rows = [[name, fact(records[0].get(name))] for name in names]
        return Table("How the run was made", words("fact", "value"), rows)
    named = zip(documents.runs, records, strict=True)
    rows = [[code(run.name), *(fact(record.get(name)) for name in names)] for run, record in named]
    return Table("How the runs were made", words("run", *names), rows)


def fact(value: Any) -> Words:
    """One fact, as in provenance.json."""
    if value is None:
        return NONE
    return Code(shlex.join(value) if isinstance(value, list) else setting(value), place_of(value))


def reproduce(documents: Documents) -> list[Block]:
    """The command line of the study, or one with every step of every run."""
    if documents.study is not None:
        return [Command(study_command(documents, documents.study))]
    # Seeds that one command trained all have that command.
    lines = list(dict.fromkeys(line for run in documents.runs for line in run_commands(run)))
    report = f"headway report {' '.join(shlex.quote(run.path) for run in documents.runs)}"
    command = Command(" && ".join([*(line for line in lines if line is not None), report]))
    if None in lines:
        word = "The training was started from Python; the settings above determine it. The next steps:"
        if documents.runs[0].model is not None:
            word = "It was analysed from Python. The next step:"
        return [Paragraph([word]), command]
    return [command]


def study_command(documents: Documents, study: StudyDocuments) -> str:
    preset = f" --preset {shlex.quote(str(study.plan['preset']))}" if "preset" in study.plan else ""
    options = preset + seeds_option(documents, study) + arms_option(documents, study)
    return (
        f"headway study {shlex.quote(str(study.plan.get('experiment', '')))}{options} --out {shlex.quote(study.path)}"
    )


def seeds_option(documents: Documents, study: StudyDocuments) -> str:
    """The seeds, unless the training command left them to the preset; an arm's own seeds belong to the preset."""
    seeds = {tuple(arm.get("seeds", ())) for arm in study.plan.get("arms", [])}
    commands = [run.provenance.get("command") or [] for run in documents.runs]
    known = [command for command in commands if started(command) and "study" in command]
    given = any(str(word).split("=")[0] == "--seeds" for command in known for word in command)
    if len(seeds) != 1 or (known and not given):
        return ""
    (alike,) = seeds
    return f" --seeds {in_short(alike)}" if alike else ""


def in_short(seeds: Sequence[int]) -> str:
    """Seeds in the form of `--seeds`.

    >>> in_short([0, 1, 2]), in_short([3]), in_short([0, 2])
    ('0-2', '3', '0,2')
    """
    if len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ",".join(map(str, seeds))


def arms_option(documents: Documents, study: StudyDocuments) -> str:
    """The arms that have runs, if others have none; a run's name starts with its arm's."""
    arms = [str(arm["name"]) for arm in study.plan.get("arms", []) if "name" in arm]
    names = [str(run.name) for run in documents.runs]
    # `long-without-bands-seed0` belongs to the arm `long-without-bands`, not to `long`.
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


def run_commands(run: RunDocuments) -> list[str | None]:
    """The training command (None if it was not a command line), then the commands of the analyses in order."""
    place = shlex.quote(run.path)
    command = [str(word) for word in run.provenance.get("command") or []]
    trained = shlex.join(["headway", *command[1:]]) if started(command) else None
    if run.model is not None:
        return [trained]
    splits = [] if run.evaluation is None else run.evaluation.splits
    found = [f"evaluate {place}{split_option(split)}" for split in splits]
    if run.heads is not None:
        found.append(f"heads {place}{heads_options(run.heads.settings)}")
    if run.lengths is not None:
        found.append(f"lengths {place}{lengths_options(run.lengths)}")
    if run.attack is not None:
        found.append(f"attack {place}{attack_options(run.attack)}")
    if run.proof is not None:
        found.append(f"prove {place}")
    if run.doctor is not None:
        found.append(f"doctor {place}")
    return [trained, *(f"headway {one}" for one in found)]


def split_option(split: str) -> str:
    return "" if split == "test" else f" --split {shlex.quote(split)}"


def heads_options(settings: Settings | None) -> str:
    """The options that differ from the defaults."""
    if settings is None:
        return ""
    chosen = split_option(settings.split)
    chosen += f" --n {settings.examples}" if settings.examples != EXAMPLES else ""
    chosen += f" --examples {settings.maps}" if settings.maps else ""
    return chosen + (" --thorough" if settings.thorough else "")


def attack_options(found: Attack) -> str:
    """The same for an attack; all its lengths are named, because the default depends on lengths.json."""
    chosen = f" --at {','.join(map(str, found.lengths))}" if found.lengths else ""
    chosen += f" --seconds {found.seconds:g}" if found.seconds != SECONDS else ""
    chosen += f" --tries {found.most_tries}" if found.most_tries is not None else ""
    return chosen + (f" --seed {found.attack_seed}" if found.attack_seed else "")


def lengths_options(found: Lengths) -> str:
    """The same for lengths."""
    chosen = f" --at {','.join(map(str, found.asked))}" if found.asked else ""
    chosen += f" --n {found.n}" if found.n != EXAMPLES else ""
    chosen += f" --whole {found.whole}" if found.whole not in (None, WHOLE) else ""
    return chosen + (" --mechanism" if found.mechanism is not None else "")
