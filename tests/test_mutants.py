"""Every planted bug still fits the sources, and the script that plants them sees which are noticed."""

import json
import marshal
import shutil
import subprocess
from argparse import Namespace
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.mutants import __main__ as campaign
from tests.mutants.catalogue import PACKAGE, ROOT, Mutant, read_catalogue, read_file
from tests.mutants.copies import Copy, Outcome
from tests.mutants.judging import (
    NOT_JUDGED,
    NOTICED,
    SURVIVED,
    TIME_LIMIT,
    Baselines,
    Verdict,
    append,
    judge,
    read_verdicts,
    survived_at_first,
    verdict_of,
)
from tests.mutants.rings import NEIGHBOURS, ring_of, whole_suite
from tests.mutants.table import as_document, as_page, read_committed, write_page

CATALOGUE = read_catalogue()
MEAN = '''"""A package to plant bugs in."""


def mean(values):
    return sum(values) / len(values)


def countdown(n):
    while n > 0:
        n -= 1
    return n
'''
TEST = """from headway.small import countdown, mean


def test_a_mean_of_two():
    assert mean([1, 3]) == 2
    assert countdown(3) == 0
"""
WRONG = Mutant(
    id="one-too-few",
    file="small.py",
    old="/ len(values)",
    new="/ (len(values) - 1)",
    seen="Means are too large.",
    tests=("tests/test_small.py",),
)


def planted_texts(mutant: Mutant) -> tuple[str, str]:
    text = (ROOT / PACKAGE / mutant.file).read_text()
    return text, mutant.plant(text)


def test_every_planted_bug_fits_the_sources_and_changes_the_program() -> None:
    same = []
    for mutant in CATALOGUE:
        before, after = planted_texts(mutant)
        if mutant.file.endswith(".py") and parsed(before) == parsed(after):
            same.append(mutant.id)
    assert same == []


@cache
def parsed(text: str) -> bytes:
    """The program without its comments and form."""
    return marshal.dumps(compile(text, "module", "exec"))


def test_a_planted_bug_of_the_page_can_be_parsed(tmp_path: Path) -> None:
    """All scripts in one process: a page with a syntax error proves nothing."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: the planted bugs of the page were not parsed")
    paths = []
    for mutant in CATALOGUE:
        if mutant.file.endswith(".js"):
            path = tmp_path / f"{mutant.id}.js"
            path.write_text(planted_texts(mutant)[1])
            paths.append(str(path))
    parse = "new (require('vm').Script)(require('fs').readFileSync(path, 'utf8'), path)"
    script = f"for (const path of process.argv.slice(1)) {parse}"
    found = subprocess.run([node, "-e", script, *paths], capture_output=True, text=True)
    assert len(paths) > 30
    assert found.stderr == ""


def test_every_bug_names_tests_that_there_are_and_says_what_a_user_sees() -> None:
    for mutant in CATALOGUE:
        assert all((ROOT / name.split("::")[0]).exists() for name in mutant.tests), mutant.id
        assert mutant.seen.endswith(".") and len(mutant.seen) > 20, mutant.id
        assert ring_of(mutant), mutant.id
    whole = whole_suite(CATALOGUE[0])
    assert len(whole) > 150
    assert "tests/test_mutants.py" not in whole, "it would notice every bug, because the old text is gone"
    assert sum(mutant.earlier for mutant in CATALOGUE) == 12
    assert len(CATALOGUE) >= 150 + 12
    assert {mutant.room for mutant in CATALOGUE} == set(NEIGHBOURS)


def test_a_bug_that_does_not_fit_any_more_is_told_by_name() -> None:
    with pytest.raises(ValueError, match=r"one-too-few: the old text occurs 0 times in small.py, not once: '/ len"):
        WRONG.plant("def mean(values): ...")
    with pytest.raises(ValueError, match="occurs 2 times"):
        WRONG.plant("/ len(values) / len(values)")


def test_a_record_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rooms.toml"
    path.write_text('[[mutant]]\nid = "a"\nfile = "b"\nold = "c"\nnew = "d"\nseen = "e"\ntest = ["f"]\n')
    with pytest.raises(ValueError, match=r"rooms.toml: a: unknown key test"):
        list(read_file(path))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one module and one test."""
    root = tmp_path_factory.mktemp("small")
    for name, text in {
        "src/headway/__init__.py": "",
        "src/headway/small.py": MEAN,
        "tests/test_small.py": TEST,
        "tests/test_nothing.py": "def test_nothing():\n    pass\n",
        "tests/test_broken.py": "def test_broken():\n    assert False\n",
        "pytest.ini": "[pytest]\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def test_bugs_are_planted_one_at_a_time_and_what_the_tests_say_is_kept(small: Path) -> None:
    """A bug that is noticed at once, one only by the wider ring, one that no test sees, and one that hangs."""
    copy = Copy(small, ("pytest",))
    baselines = Baselines(small / "build" / "baselines.json", small)
    unseen = Mutant(**{**vars(WRONG), "id": "unseen", "tests": ("tests/test_nothing.py",)})
    hangs = Mutant(**{**vars(WRONG), "id": "hangs", "old": "n -= 1", "new": "n -= 0"})
    unknown = Mutant(**{**vars(WRONG), "id": "unknown", "tests": ("tests/test_broken.py",)})
    try:
        first = judge(WRONG, copy, baselines)
        wider = judge(unseen, copy, baselines, ("tests/test_broken.py", "tests/test_small.py"))
        survived = judge(unseen, copy, baselines, ("tests/test_nothing.py",))
        not_judged = judge(unknown, copy, baselines)
        with copy.planted(hangs):
            limited = verdict_of(copy.run(hangs.tests, 1.5))
        after = copy.run(WRONG.tests, 60).status
    finally:
        copy.close()
    assert (first.verdict, first.ring, first.test) == (NOTICED, "mirrored", "tests/test_small.py::test_a_mean_of_two")
    assert (wider.verdict, wider.ring) == (NOTICED, "wider")
    assert (survived.verdict, not_judged.verdict, limited, after) == (SURVIVED, NOT_JUDGED, TIME_LIMIT, 0)
    assert (small / "src" / "headway" / "small.py").read_text() == MEAN
    assert set(Baselines(small / "build" / "baselines.json", small).known) == set(baselines.known)


def test_a_file_that_cannot_be_imported_proves_nothing() -> None:
    assert verdict_of(Outcome(2, 1.0, "ERROR tests/test_small.py - NameError")) not in (NOTICED, TIME_LIMIT, SURVIVED)


def test_the_page_counts_what_was_noticed_and_lists_the_rest(tmp_path: Path) -> None:
    other = Mutant(**{**vars(WRONG), "id": "other", "file": "tasks/base.py", "judged": "It cannot happen."})
    judged = [
        (WRONG, Verdict("one-too-few", WRONG.digest, NOTICED, "wider", "tests/test_small.py::test_a", 1.0)),
        (other, Verdict("other", other.digest, SURVIVED, "", "", 1.0)),
    ]
    document, page = as_document(judged, 3, ["other"]), as_page(judged, 3, ["other"])
    assert [document[key] for key in ("planted", "judged", "noticed", "noticed_by_mirrored_tests")] == [3, 2, 1, 0]
    assert "1 more are planted and not judged yet" in page
    assert "1 of 2 bugs are noticed (50 %), 0 (0 %) by the tests" in page
    assert "- `other` in `tasks/base.py`: Means are too large. It cannot happen." in page
    assert "planted first, the mirrored tests noticed 1 of 2 (50 %)" in page
    assert "by someone who had not read the tests" not in page, "there was one round only"
    again = [judged[0], (replace(other, round=2), judged[1][1])]
    assert "Of the first 1 the mirrored tests noticed 1 of 1 (100 %); " in as_page(again, 2, ["other"])
    assert "- round 2, 1 bugs: the mirrored tests noticed 0 of 1 (0 %) at first." in as_page(again, 2, ["other"])
    assert "| `small` | 1 | 1 | 0 | 1 |" in page and "| `tasks` | 1 | 0 | 0 | 0 |" in page
    (tmp_path / "results").mkdir()
    for at_first in (["other", "gone"], ["one-too-few"]):
        write_page(judged, 3, at_first, tmp_path)
    assert list(read_committed(tmp_path).values()) == [verdict for _, verdict in judged]
    kept = json.loads((tmp_path / "results" / "mutants.json").read_text())["survived_at_first"]
    assert kept == ["one-too-few", "other"], "what survived in earlier runs stays known"


def test_a_page_written_anew_keeps_the_verdicts_of_bugs_that_were_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three are committed; one of them was run again, and one was planted otherwise since."""
    monkeypatch.setattr(campaign, "ROOT", tmp_path)
    monkeypatch.setattr(campaign, "RESULTS", tmp_path / "build")
    (tmp_path / "docs" / "results").mkdir(parents=True)
    judged = [(replace(WRONG, id=name), Verdict(name, "old", NOTICED, "mirrored", "", 1.0)) for name in "abc"]
    write_page(judged, 3, [], tmp_path / "docs")
    append(tmp_path / "build" / "verdicts.jsonl", Verdict("b", "old", SURVIVED, "", "", 2.0))
    append(tmp_path / "build" / "verdicts.jsonl", Verdict("c", "new", SURVIVED, "", "", 2.0))
    seen = {("a", "old"): True, ("b", "old"): False, ("c", "old"): True, ("c", "new"): False}
    for missing, write in ((False, True), (True, False)):
        known = campaign.verdicts(Namespace(missing=missing, write=write))
        assert {key: verdict.seen for key, verdict in known.items()} == seen
    own = campaign.verdicts(Namespace(missing=False, write=False))
    assert own.keys() == {("b", "old"), ("c", "new")}


def test_what_survived_at_first_is_known_after_it_was_noticed(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    for name, verdict, ring in [
        ("late", SURVIVED, ""),
        ("soon", NOT_JUDGED, ""),
        ("soon", NOTICED, "mirrored"),
        ("late", NOTICED, "mirrored"),
        ("far", NOTICED, "wider"),
    ]:
        append(path, Verdict(name, "0", verdict, ring, "", 1.0))
    assert sorted(survived_at_first(path)) == ["far", "late"]
    assert read_verdicts(path)["late", "0"].seen
