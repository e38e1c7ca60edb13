"""The doctor on work as students leave it: no defect is called fine, nearly all are named, sound work has no error."""

import random
from collections import Counter
from pathlib import Path

import pytest

from headway.doctor import explanations, material, predictions, published
from headway.doctor.findings import Diagnosis
from headway.doctor.foreign import ForeignData, read_data
from headway.doctor.tables import read_results
from headway.statistics import wilson_interval
from tests.doctor import foreign_work
from tests.doctor.foreign_work import Case, Student, draw_random_table, make_cases


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that many cases share is read once."""
    known: dict[Path, ForeignData] = {}

    def read(directory: Path) -> ForeignData:
        if directory not in known:
            known[directory] = read_data(directory)
        return known[directory]

    for module in (material, predictions, published):
        monkeypatch.setattr(module, "read_data", read)


def diagnose(case: Case) -> Diagnosis:
    if case.file is None:
        return material.examine_data(case.data)
    if case.kind == "predictions":
        return predictions.examine_predictions(case.file, case.data)
    return published.examine_results(case.file, case.data)


def judge(case: Case) -> str:
    """`named`, `misnamed` or `fine` for work with a defect; `sound`, `alarmed` or `not read` for healthy work.

    Named: the first error is the planted one, or where there is no error a warning is. Fine: nothing was said, but
    that the numbers are not explained.
    """
    found = diagnose(case)
    errors, said = [one.check for one in found.errors], [one.check for one in found.warnings]
    if not case.named:
        return "alarmed" if errors else "not read" if set(said) & set(material.UNEXAMINED) else "sound"
    if not errors and not set(said) - {"not-explained"}:
        return "fine"
    return "named" if (errors[0] in case.named if errors else case.named & set(said)) else "misnamed"


def measured(cases: list[Case]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in cases:
        verdict = judge(case)
        counts[verdict] += 1
        counts[f"{case.truth}: {verdict}"] += 1
        if verdict in ("fine", "misnamed", "alarmed", "not read"):
            print(verdict, case)
    return counts


def check_bars(counts: Counter[str]) -> None:
    assert counts["fine"] == 0
    assert counts["named"] >= 0.95 * (counts["named"] + counts["misnamed"])
    healthy = counts["sound"] + counts["alarmed"] + counts["not read"]
    assert counts["alarmed"] <= 0.01 * healthy
    assert counts["not read"] <= 0.01 * healthy


def explained_by_chance(folder: Path, tables: int, seed: int) -> tuple[int, int]:
    """Of so many tables that no defect produced, how many a defect explains: as an error, and as a warning."""
    student = Student(folder, seed)
    worlds = [student.world("sums", "flat"), student.world("sequences", "flat")]
    data = [read_data(world.folder) for world in worlds]
    rng = random.Random(seed)
    defects = {candidate.check for candidate in (*explanations.SUMS, *explanations.CLASS)}
    found = Counter[str]()
    for index in range(tables):
        suffix, text = draw_random_table(rng, worlds[index % 2])
        path = folder / f"random.{suffix}"
        path.write_text(text, encoding="utf-8", newline="")
        findings = published.explain(read_results(path, data[index % 2].set_lengths), data[index % 2])
        found[min((one.level for one in findings if one.check in defects), default="none")] += 1
    return found["error"], found["warning"]


def test_there_are_enough_styles() -> None:
    assert len(foreign_work.RESULT_STYLES) >= 12
    assert min(len(foreign_work.LAYOUTS), len(foreign_work.PREDICTIONS)) >= 6


def test_a_few_of_every_kind_are_named_and_healthy_ones_are_not(tmp_path: Path, read_once: None) -> None:
    counts = measured(make_cases(tmp_path, 3, 40, 20, layouts=("extrapolation",)))
    check_bars(counts)
    assert counts["misnamed"] == counts["alarmed"] == 0


def test_few_random_tables_are_explained_by_a_defect(tmp_path: Path) -> None:
    assert explained_by_chance(tmp_path, 400, 1)[0] <= 8  # 1 % or less is expected; more than 2 % is another rate


@pytest.mark.long
def test_hundreds_of_cases_are_named_and_healthy_ones_are_not(tmp_path: Path, read_once: None) -> None:
    counts = measured(make_cases(tmp_path, 11, 640, 420, worlds=2))
    print(dict(sorted(counts.items())))
    print("false errors, 95 % interval:", wilson_interval(counts["alarmed"], 420))
    check_bars(counts)


@pytest.mark.long
def test_at_most_one_in_a_hundred_random_tables_is_explained(tmp_path: Path) -> None:
    errors, warnings = explained_by_chance(tmp_path, 10_000, 5)
    print(f"explained: {errors} of 10,000, interval {wilson_interval(errors, 10_000)}; warnings {warnings}")
    assert errors <= 100
