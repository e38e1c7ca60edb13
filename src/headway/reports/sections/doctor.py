"""The doctor's findings, before anything else is read; or the plain word that the doctor was not asked."""

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Finding, Findings, Paragraph, Section, Table
from headway.reports.evidence import Evidence, listed

LEVELS = ("error", "warning", "fine")
MOST_IN_FULL = 3
"""Runs up to which everything that is found is shown at once."""
MOST_NAMED = 24
"""Runs that are named beside one finding."""


def section(evidence: Evidence) -> Section:
    """Findings in full; of many runs those with errors, a table of the rest, and everything else to be unfolded."""
    examined = evidence.those_with("doctor")
    many = len(examined) > MOST_IN_FULL
    shown = [run for run in examined if not many or evidence.how_many(f"{run}/doctor/findings", "level", "error")]
    blocks: list[Block] = [findings_of(evidence, run) for run in shown]
    left = [run for run in evidence.runs if run not in examined and not evidence.has(f"{run}/damaged/doctor")]
    if left:
        blocks.append(Paragraph([not_asked(evidence, left, all_of_them=not examined)]))
    if not many:
        return Section("doctor", "What the doctor says", [*blocks, *together(evidence)])
    rest = [*(findings_of(evidence, run) for run in examined if run not in shown), *together(evidence)]
    folded = Section("doctor-runs", "Every finding, run by run", rest, folded=True)
    return Section("doctor", "What the doctor says", [*blocks, overview(evidence, examined)], parts=[folded])


def overview(evidence: Evidence, runs: list[str]) -> Table | Paragraph:
    """Each error and warning once, with the runs it is said of."""
    said: dict[tuple[str, str], dict[Markup, None]] = {}
    checks: dict[tuple[str, str], Markup] = {}
    places = [(f"{run}/doctor/findings", evidence.text(f"{run}/name", "code")) for run in runs]
    for path, name in [*places, ("study/doctor/together", Markup("the study"))]:
        for index, one in enumerate(evidence.find(path, [])):
            key = (one["level"], one["check"])
            if one["level"] != "fine":
                said.setdefault(key, {})[name] = None
                checks.setdefault(key, evidence.text(f"{path}/{index}/check", "code"))
    if not said:
        return Paragraph([Markup("Neither an error nor a warning in any of them.")])
    rows = [
        [Cell(Markup("{}").format(key[0])), Cell(checks[key]), Cell(listed(few(list(said[key]))))]
        for key in sorted(said, key=lambda key: (LEVELS.index(key[0]), key[1]))
    ]
    columns = [Column(title, numeric=False) for title in ("level", "check", "said of")]
    return Table("Errors and warnings, each once", columns, rows)


def few(names: list[Markup]) -> list[Markup]:
    """The names, or the first of them where they are very many."""
    return names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], Markup("others")]


def not_asked(evidence: Evidence, runs: list[str], *, all_of_them: bool) -> Markup:
    """That nobody looked for what could be wrong; with `headway doctor` somebody does."""
    if all_of_them:
        return Markup("The doctor was not asked: whether data, harness and model are sound was not checked here.")
    names = listed([evidence.text(f"{run}/name", "code") for run in runs])
    return Markup("The doctor was not asked about {}.").format(names)


def findings_of(evidence: Evidence, run: str) -> Findings:
    """Errors and warnings to be read, and what was found in order."""
    paths = [f"{run}/doctor/findings/{index}" for index in range(len(evidence.find(f"{run}/doctor/findings", [])))]
    by_level = {level: [path for path in paths if evidence.get(f"{path}/level") == level] for level in LEVELS}
    named = Markup("") if len(evidence.runs) == 1 else Markup("{}: ").format(evidence.text(f"{run}/name", "code"))
    return Findings(
        title=named + tally(evidence, f"{run}/doctor/findings"),
        open=[finding(evidence, path) for level in LEVELS[:2] for path in by_level[level]],
        fine=[finding(evidence, path) for path in by_level["fine"]],
    )


def tally(evidence: Evidence, path: str) -> Markup:
    """`1 error (split-overlap) and 2 warnings; 21 checks find nothing wrong`, if any check does."""
    counts = {level: evidence.how_many(path, "level", level) for level in LEVELS}
    words = [
        Markup("{} {}{}{}").format(
            evidence.count(path, "level", level), level, "s" if counts[level] != 1 else "", first(evidence, path, level)
        )
        for level in LEVELS[:2]
        if counts[level]
    ]
    fine = Markup("{} {} nothing wrong").format(
        evidence.count(path, "level", "fine"), "check finds" if counts["fine"] == 1 else "checks find"
    )
    if not words:
        return Markup("no error and no warning; {}").format(fine)
    return Markup("{}; {}").format(listed(words), fine) if counts["fine"] else listed(words)


def first(evidence: Evidence, path: str, level: str) -> Markup:
    """The first error's name; warnings are only counted."""
    place = next(index for index, one in enumerate(evidence.get(path)) if one["level"] == level)
    return Markup(" ({})").format(evidence.text(f"{path}/{place}/check", "code")) if level == "error" else Markup("")


def finding(evidence: Evidence, path: str) -> Finding:
    return Finding(
        level=str(evidence.get(f"{path}/level")),
        check=evidence.text(f"{path}/check", "code"),
        evidence=evidence.text(f"{path}/evidence"),
        fix=evidence.text(f"{path}/fix") if evidence.find(f"{path}/fix") else Markup(""),
        about=evidence.text(f"{path}/about") if evidence.has(f"{path}/about") else Markup(""),
    )


def together(evidence: Evidence) -> list[Block]:
    """What the doctor says of all runs of a study together."""
    paths = [f"study/doctor/together/{index}" for index in range(len(evidence.find("study/doctor/together", [])))]
    found = [finding(evidence, path) for path in paths]
    if not found:
        return []
    opened = [one for one in found if one.level != "fine"]
    title = Markup("All runs together: {}").format(tally(evidence, "study/doctor/together"))
    return [Findings(title, opened, [one for one in found if one.level == "fine"])]
