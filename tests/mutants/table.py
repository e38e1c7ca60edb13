"""The page and the file about planted bugs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from headway.narration.numbers import percent
from tests.mutants.catalogue import Mutant
from tests.mutants.judging import TIME_LIMIT, Verdict

Judged = tuple[Mutant, Verdict]
BEGIN = """# Planted bugs

Do the tests notice a bug? `make mutants` plants realistic bugs, one at a time, in a copy of the sources, and runs
tests: first those that mirror the changed file, then, if they all pass, those of the room and its neighbours. Each bug
is what a tired engineer writes: off by one, a wrong axis, a wrong denominator, a missing mask, the wrong split, a
forgotten correction. It changes what some user sees; none is a crash on import. They are listed in
`tests/mutants/planted/`, each with the exact text before and after and what a user would see. A test of the default
suite checks that every bug still fits the sources, so that the list cannot rot.

A bug is noticed when a test fails, or when the tests do not end within six times their usual time plus two minutes.
Test files that fail without any bug are left out, and a bug whose mirrored tests fail without it is not judged.
"""


def share_noticed(judged: Sequence[Judged]) -> tuple[int, int]:
    """How many were noticed, of how many."""
    return sum(verdict.seen for _, verdict in judged), len(judged)


def write_page(judged: Sequence[Judged], planted: int, at_first: Sequence[str], docs: Path) -> None:
    """docs/results/mutants.json, and docs/mutants.md from it; `at_first` are bugs that survived at first."""
    known = {mutant.id for mutant, _ in judged}
    survived = sorted(known & {*at_first, *_committed(docs).get("survived_at_first", ())})
    document = as_document(judged, planted, survived)
    (docs / "results" / "mutants.json").write_text(json.dumps(document, indent=1) + "\n")
    (docs / "mutants.md").write_text(as_page(judged, planted, survived))


def _committed(docs: Path) -> dict[str, Any]:
    path = docs / "results" / "mutants.json"
    return json.loads(path.read_text()) if path.exists() else {}


def read_committed(docs: Path) -> dict[tuple[str, str], Verdict]:
    """The verdicts of docs/results/mutants.json, by name and digest of the bug."""
    rows = _committed(docs).get("bugs", ())
    names = [one.name for one in fields(Verdict)]
    found = [Verdict(**{name: row[name] for name in names}) for row in rows]
    return {(verdict.id, verdict.digest): verdict for verdict in found}


def as_document(judged: Sequence[Judged], planted: int, at_first: Sequence[str]) -> dict[str, object]:
    noticed, total = share_noticed(judged)
    return {
        "generator": "headway",
        "planted": planted,
        "judged": total,
        "noticed": noticed,
        "noticed_by_mirrored_tests": len(by_mirrored(judged)),
        "survived_at_first": list(at_first),
        "bugs": [
            {"room": mutant.room, "file": mutant.file, "a_user_sees": mutant.seen, **asdict(verdict)}
            for mutant, verdict in judged
        ],
    }


def by_mirrored(judged: Sequence[Judged]) -> list[Judged]:
    return [one for one in judged if one[1].seen and one[1].ring == "mirrored"]


def as_page(judged: Sequence[Judged], planted: int, at_first: Sequence[str]) -> str:
    noticed, total = share_noticed(judged)
    direct = len(by_mirrored(judged))
    slow = sum(verdict.verdict == TIME_LIMIT for _, verdict in judged)
    late = f" {slow} of them only by the time limit." if slow else ""
    left = f" {planted - total} more are planted and not judged yet: `python -m tests.mutants --missing` judges them."
    shares = f"{noticed} of {total} bugs are noticed ({percent(noticed / total)}), {direct} ({percent(direct / total)})"
    parts = [
        BEGIN,
        f"{shares} by the tests that mirror the changed file.{late} The verdicts are in `docs/results/mutants.json`."
        f"{left if planted > total else ''}\n",
        f"When they were planted first, the mirrored tests noticed {share_at_first(judged, at_first)}. Tests were then "
        "written for the others: such a share, not the one above, says what to expect of a new bug.\n",
        *round_lines(judged, at_first),
        "## By room\n\n" + rooms_table(judged, at_first),
        "## Earlier survivors\n\n" + earlier_lines(judged),
        "## Survivors\n\n" + survivor_lines(judged),
    ]
    return "\n".join(parts)


def share_at_first(judged: Sequence[Judged], at_first: Sequence[str]) -> str:
    noticed, total = sum(mutant.id not in at_first for mutant, _ in judged), len(judged)
    return f"{noticed} of {total} ({percent(noticed / total)})"


def round_lines(judged: Sequence[Judged], at_first: Sequence[str]) -> list[str]:
    """What each round says by itself, where there are several."""
    rounds = {number: [one for one in judged if one[0].round == number] for number in {one[0].round for one in judged}}
    if len(rounds) < 2 or 1 not in rounds:
        return []
    first = rounds.pop(1)
    told = [
        f"Of the first {len(first)} the mirrored tests noticed {share_at_first(first, at_first)}; that is a little too "
        "high, because ten tests were written from reading the code before their bug was planted. The others were "
        "planted from the sources alone, without a look at the tests, after those for the round before were written:"
    ]
    told += [
        f"- round {number}, {len(own)} bugs: the mirrored tests noticed {share_at_first(own, at_first)} at first."
        for number, own in sorted(rounds.items())
    ]
    return ["\n".join([told[0], "", *told[1:]]) + "\n"]


def rooms_table(judged: Sequence[Judged], at_first: Sequence[str]) -> str:
    lines = ["| room | judged | noticed | by mirrored tests | when planted first |", "|---|---|---|---|---|"]
    for room in sorted({mutant.room for mutant, _ in judged}):
        own = [one for one in judged if one[0].room == room]
        first = sum(mutant.id not in at_first for mutant, _ in own)
        lines.append(f"| `{room}` | {len(own)} | {share_noticed(own)[0]} | {len(by_mirrored(own))} | {first} |")
    return "\n".join(lines) + "\n"


def earlier_lines(judged: Sequence[Judged]) -> str:
    """The twelve bugs that no test noticed when 66 were planted by hand, and the test that notices each now."""
    intro = "Twelve bugs that no test noticed in an earlier round of 66, and the test that notices each now:\n"
    own = [(mutant, verdict) for mutant, verdict in judged if mutant.earlier]
    lines = [f"- `{mutant.file}`: {mutant.seen} {_by(verdict)}" for mutant, verdict in own]
    return "\n".join([intro, *lines]) + "\n"


def _by(verdict: Verdict) -> str:
    return f"`{verdict.test}`" if verdict.seen else "**Not noticed.**"


def survivor_lines(judged: Sequence[Judged]) -> str:
    own = [mutant for mutant, verdict in judged if not verdict.seen]
    if not own:
        return "None.\n"
    return "\n".join(f"- `{mutant.id}` in `{mutant.file}`: {mutant.seen} {mutant.judged}" for mutant in own) + "\n"
