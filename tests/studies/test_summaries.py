"""The last lines of a study say how many heads there are of each kind, and every error until there are too many."""

import json
from dataclasses import replace
from typing import Any

from headway.head_analysis.head_runs import KINDS
from headway.narration import doctor, heads_study
from headway.narration.heads_study import carry_text, going_text
from headway.results.doctor import About, Diagnosis, Finding, Level, RunHealth, StudyHealth
from headway.results.heads import HeadAnalysis
from headway.results.heads_study import HeadsStudy, MovedCarry, Mover, Removed
from headway.results.patching import Contrast
from headway.results.schema import blank, read, write
from headway.studies.summaries import doctor_record, heads_record, is_unsound, moved_by
from tests.reports.made_up_runs import heads_document
from tests.results.made_up_values import filled


def made(contrast: dict[str, Any]) -> Contrast:
    return read(Contrast, filled(Contrast, contrast), "heads.json")


def diagnosis(name: str, *levels: Level, about: About = "model") -> Diagnosis:
    findings = tuple(Finding(f"check-{level}", level, about, f"{level} seen.") for level in levels)
    return Diagnosis(run=f"studies/one/runs/{name}", task="addition", step=1, findings=findings)


def test_errors_are_told_in_full_and_warnings_by_name() -> None:
    pairs = [(diagnosis(f"seed{seed}", "error", "warning", "fine"), None) for seed in range(7)]
    record = doctor_record({"one": pairs})
    assert is_unsound(record, comparing=False)
    assert doctor.of_study(record) == [
        "the doctor examined 7 runs: 7 errors, 7 warnings",
        *(f"  error in seed{seed}, check-error: error seen." for seed in range(5)),
        "  and 2 more errors; the report has all of them",
        "  warnings: check-warning (7)",
    ]
    assert [one.level for one in record.together] == ["fine"]  # seven seeds are enough


def test_a_bad_model_is_a_result_where_models_are_compared_and_a_bad_harness_never_is() -> None:
    cases: list[tuple[About, bool]] = [("model", False), ("harness", True), ("data", True), ("instruments", True)]
    for about, spoils in cases:
        record = doctor_record({"one": [(diagnosis("a", "error", about=about), None)]})
        assert is_unsound(record, comparing=True) == spoils
        assert is_unsound(record, comparing=False)


def test_a_healthy_run_has_no_error_and_cells_are_named_where_there_are_several() -> None:
    cells: Any = {"one": [(diagnosis("a", "fine"), None)], "two": [(diagnosis("b", "fine"), None)]}
    record = doctor_record(cells)
    assert not is_unsound(record, comparing=False)
    assert [one.evidence.partition(" was")[0] for one in record.together] == ["one: 1 seed", "two: 1 seed"]
    assert doctor.of_study(record)[0] == "the doctor examined 2 runs: 0 errors, 2 warnings"


def test_seeds_of_one_recipe_are_put_together_and_those_of_several_are_not() -> None:
    documents = [complete(seed) for seed in range(2)]
    record = heads_record([documents])
    assert record.together is not None and record.together.seeds == 2
    said = heads_study.of_study(record)[-1]
    assert said.startswith("heads of 2 seeds, fewer than 6: descriptive only: 1 1 (median 1) heads were chosen ")
    assert said.endswith("less than 1 point; on other examples they cost 0.25 0.25 (median 0.25) points")
    apart = heads_record([[documents[0]], [], [documents[1]]])
    assert "together" not in write(apart)
    assert len(apart.runs) == 2
    first = apart.runs[0]
    assert sum(first.verdicts.values()) == first.heads == len(documents[0].heads)
    assert read(HeadsStudy, json.loads(json.dumps(write(record))), "heads.json") == record
    assert heads_study.of_study(apart)[0].startswith(
        f"Of {first.heads} heads of made-up, one at a time (n = {first.n:,}), "
    )


def test_heads_can_go_only_where_the_interval_shows_it() -> None:
    found = blank(Removed, limit=1.0, n=500, heads=("a", "b"), drop=0.25, drop_interval=(-0.5, 0.75))
    cost = "on 500 other examples the cost is 0.25 points"
    assert going_text(found) == f"2 can be removed together for less than 1 point: {cost} (−0.50 to 0.75)"
    unsure = replace(found, drop_interval=(-0.5, 1.0), alone=3, alone_drop=9.5)
    assert going_text(unsure) == (
        f"2 chosen for removal together: {cost} (−0.50 to 1.0), not shown to be under 1 point; "
        "the 3 that cost less alone cost 9.5 points together"
    )
    assert going_text(replace(found, heads=())) == "no head can be removed for less than 1 point"


def test_a_carry_is_moved_by_heads_that_surely_move_it() -> None:
    heads = (Mover(head="a", rate=0.4, interval=(0.3, 0.5)), Mover(head="b", rate=0.1, interval=(0.04, 0.2)))
    carry = MovedCarry(name="carry", n=90, heads=heads)
    assert (
        carry_text(carry) == "  Among single heads, a flips the carry most often: in 40 % of 90 pairs (30 % to 50 %)."
    )
    assert (
        carry_text(replace(carry, heads=heads[1:]))
        == "  No single head is shown to flip the carry in more than 5 % of 90 pairs."
    )


def test_movers_are_those_chosen_on_other_pairs_with_their_controls() -> None:
    control = {"rate": 0.0, "interval": [0.0, 0.02]}
    half = {"n": 40, "chosen_on_n": 50}
    strongest = {
        "encoder": {"head": "a", "rate": 0.99, "interval": [0.9, 1.0], "chosen_on_rate": 0.2, **half},
        "decoder": {"head": "b", "rate": 0.0, "interval": [0.0, 0.1], "chosen_on_rate": 0.1, **half},
        "cross": {"head": "c", "rate": 0.8, "interval": [0.7, 0.9], "chosen_on_rate": 0.9, "control": control, **half},
    }
    rows = [{"who": "d", "heads": ["d"], "rate": 1.0, "interval": [0.9, 1.0]}]
    carry = {"name": "carry", "about": "carry", "usable": 90, "rows": rows, "strongest": strongest}
    assert carry_text(moved_by(made(carry))) == (
        "  Among single heads, c flips the carry most often: in 80 % of 40 pairs (70 % to 90 %); patched from a "
        "sum with "
        "another digit and the same carry, that digit changes in 0 % (0 % to 2 %); a in 99 % (90 % to 100 %)."
    )
    old = {key: value for key, value in carry.items() if key != "strongest"}
    assert carry_text(moved_by(made(old))) == (
        "  Among single heads, d flips the carry most often: in 100 % of 90 pairs (90 % to 100 %)."
    )


def test_of_a_model_that_learned_nothing_no_head_is_told() -> None:
    record = heads_record([[complete(seed) for seed in range(2)]])
    finding = Finding("constant-answer", "error", "model", "One answer.")
    made_up = Diagnosis(run="made-up", task="addition", step=1, findings=(finding,))
    said = heads_study.of_study(record, StudyHealth(runs=(RunHealth.of(made_up),), together=()))
    assert said == ["heads of made-up (n = 2,000) are not analysed further: the doctor finds constant-answer"] * 2


def test_errors_of_all_runs_together_are_counted_and_told() -> None:
    record = doctor_record({"one": [(diagnosis("a", "fine"), None)]})
    alike = Finding("seeds", "error", "claims", "All alike.")
    assert doctor.of_study(replace(record, together=(alike,))) == [
        "the doctor examined 1 run: 1 error, 0 warnings",
        "  error in all runs together, seeds: All alike.",
    ]


def complete(seed: int) -> HeadAnalysis:
    """The made-up document with what only a study reads."""
    found = heads_document(seed)
    for row in found["heads"]:
        row["ablation"] = dict.fromkeys(KINDS, row["ablation"]["zero"])
    for row in found["joint"]["removable"]:
        row.update(sum_of_single_drops=0.5, adding_up=row["alone_under_limit"])
    return HeadAnalysis.from_json(found)
