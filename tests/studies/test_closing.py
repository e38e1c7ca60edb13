"""The last lines of a study say how many heads there are of each kind, and every error until there are too many."""

import doctest
from typing import Any

from headway.heads.ablation import KINDS
from headway.studies import closing
from headway.studies.closing import doctor_lines, doctor_record, heads_lines, heads_record, is_unsound
from tests.report.made_up_runs import heads_document


def diagnosis(name: str, *levels: str, about: str = "model") -> dict[str, Any]:
    findings = [
        {"check": f"check-{level}", "level": level, "about": about, "evidence": f"{level} seen.", "fix": ""}
        for level in levels
    ]
    return {"run": f"studies/one/runs/{name}", "findings": findings}


def test_the_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(closing).failed == 0


def test_errors_are_told_in_full_and_warnings_by_name() -> None:
    pairs = [(diagnosis(f"seed{seed}", "error", "warning", "fine"), None) for seed in range(7)]
    record = doctor_record({"one": pairs})
    assert is_unsound(record, comparing=False)
    assert doctor_lines(record) == [
        "the doctor examined 7 runs: 7 errors, 7 warnings",
        *(f"  error in seed{seed}, check-error: error seen." for seed in range(5)),
        "  and 2 more errors; the report has all of them",
        "  warnings: check-warning (7)",
    ]
    assert [one["level"] for one in record["together"]] == ["fine"]  # seven seeds are enough


def test_a_bad_model_is_a_result_where_models_are_compared_and_a_bad_harness_never_is() -> None:
    for about, spoils in (("model", False), ("harness", True), ("data", True), ("instruments", True)):
        record = doctor_record({"one": [(diagnosis("a", "error", about=about), None)]})
        assert is_unsound(record, comparing=True) == spoils
        assert is_unsound(record, comparing=False)


def test_a_healthy_run_has_no_error_and_cells_are_named_where_there_are_several() -> None:
    cells: Any = {"one": [(diagnosis("a", "fine"), None)], "two": [(diagnosis("b", "fine"), None)]}
    record = doctor_record(cells)
    assert not is_unsound(record, comparing=False)
    assert [one["evidence"].partition(" was")[0] for one in record["together"]] == ["one: 1 seed", "two: 1 seed"]
    assert doctor_lines(record)[0] == "the doctor examined 2 runs: 0 errors, 2 warnings"


def test_seeds_of_one_recipe_are_put_together_and_those_of_several_are_not() -> None:
    documents = [complete(seed) for seed in range(2)]
    record = heads_record([documents])
    assert record["together"]["seeds"] == 2
    assert "heads of 2 seeds, fewer than 6: descriptive: 1.0 (95 % t interval " in heads_lines(record)[-1]
    apart = heads_record([[documents[0]], [], [documents[1]]])
    assert "together" not in apart
    assert len(apart["runs"]) == 2
    first = apart["runs"][0]
    assert sum(first["verdicts"].values()) == first["heads"] == len(documents[0]["heads"])
    assert heads_lines(apart)[0].startswith(
        f"heads of made-up, one at a time (n = {first['n']:,}): of {first['heads']} "
    )


def complete(seed: int) -> dict[str, Any]:
    """The made-up document with what only a study reads."""
    found = heads_document(seed)
    found["checks"] = {"real_disagreements": 0}
    for row in found["heads"]:
        row["ablation"] = dict.fromkeys(KINDS, row["ablation"]["zero"])
    for row in found["joint"]["removable"]:
        row.update(sum_of_single_drops=0.5, adding_up=row["alone_under_limit"])
    found["prunable"] = {kind: {} for kind in KINDS}
    return found
