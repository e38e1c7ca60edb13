"""The section on the doctor's findings, or a note that the doctor was not run."""

from collections.abc import Sequence

from headway.narration.doctor import tally
from headway.narration.tables import Table, words
from headway.narration.text import Words, code, listed, text
from headway.reports.blocks import Block, Findings, Paragraph, Section
from headway.reports.documents import Documents, RunDocuments
from headway.results.doctor import LEVELS, Finding

MOST_IN_FULL = 3
"""Largest number of runs for which all findings are shown at once."""
MOST_NAMED = 24
"""Runs that are named beside one finding."""
TITLE = "Findings of the doctor"


def section(documents: Documents) -> Section:
    """Findings in full; with many runs only those with errors, a table of the rest, and all others folded."""
    examined = documents.examined
    many = len(examined) > MOST_IN_FULL
    shown = [run for run in examined if not many or run.errors]
    alone = len(documents.runs) == 1
    blocks: list[Block] = [of_run(run, alone=alone) for run in shown]
    left = [run for run in documents.runs if run not in examined and "doctor" not in run.damaged]
    if left:
        blocks.append(Paragraph([not_asked(left, all_of_them=not examined)]))
    study = [findings(text("All runs together: {}", tally(documents.together)), documents.together)]
    together: list[Block] = [*study] if documents.together else []
    if not many:
        return Section("doctor", TITLE, [*blocks, *together])
    rest = [*(of_run(run, alone=alone) for run in examined if run not in shown), *together]
    folded = Section("doctor-runs", "Every finding, run by run", rest, folded=True)
    return Section("doctor", TITLE, [*blocks, overview(documents)], parts=[folded])


def overview(documents: Documents) -> Table | Paragraph:
    """Each error and warning once, with its runs."""
    said: dict[tuple[str, str], dict[Words, None]] = {}
    checks: dict[tuple[str, str], Words] = {}
    named: list[tuple[Words, Sequence[Finding]]] = [(code(run.name), run.findings) for run in documents.examined]
    for name, found in [*named, ("the study", documents.together)]:
        for one in (one for one in found if one.level != "fine"):
            said.setdefault((one.level, one.check), {})[name] = None
            checks.setdefault((one.level, one.check), code(one.check))
    if not said:
        return Paragraph(["Neither an error nor a warning in any of them."])
    order = sorted(said, key=lambda key: ([str(level) for level in LEVELS].index(key[0]), key[1]))
    rows = [[key[0], checks[key], listed(few(list(said[key])))] for key in order]
    return Table("Errors and warnings, each once", words("level", "check", "said of"), rows)


def few(names: list[Words]) -> list[Words]:
    """The names, or the first of them if there are many."""
    return names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], "others"]


def not_asked(runs: list[RunDocuments], *, all_of_them: bool) -> Words:
    """A note that the doctor was not run."""
    if all_of_them:
        return "The doctor was not run: data, harness and model were not checked."
    return text("The doctor was not run on {}.", listed([code(run.name) for run in runs]))


def of_run(run: RunDocuments, *, alone: bool) -> Findings:
    named = "" if alone else text("{}: ", code(run.name))
    return findings(text("{}{}", named, tally(run.findings)), run.findings)


def findings(title: Words, found: Sequence[Finding]) -> Findings:
    """Errors and warnings, and passed checks."""
    by_level = {level: [one for one in found if one.level == level] for level in LEVELS}
    return Findings(title, [*by_level["error"], *by_level["warning"]], by_level["fine"])
