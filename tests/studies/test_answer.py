"""The plain answer says what made-up documents hold: who is furthest, what decides, who gives one answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headway.length_analysis.held import by_set, constant_answer, held_from_shortest
from headway.length_analysis.seed_summary import together
from headway.narration.study import furthest
from headway.narration.study_tables import (
    held_table,
    mastery_table,
    reach_table,
    repair_table,
    ripple_table,
    seed_table,
)
from headway.narration.tables import Table
from headway.results.lengths import DifficultyBin, LengthRow
from headway.results.mechanism import Repair
from headway.results.study import Mastery, MeasuredRun, StudyCell, Training
from headway.statistics import two_way_shares
from headway.studies.answer import answer, costs, decisions
from headway.studies.plan import ENCODING, POOLING
from headway.studies.runner import asked_why, loss_of, main_set
from tests.results.made_up import length_row, lengths_of, mechanism_of, rise_of


def row(name: str, length: int, accuracy: float, constant: str | None = None) -> LengthRow:
    plain = length_row(length, accuracy, name, trained=length <= 16, constant=constant)
    if name != "ripple":
        return plain
    ripples = DifficultyBin(
        low=5, high=8, n=plain.n, wrong=plain.wrong, accuracy=plain.accuracy, interval=plain.interval
    )
    return replace(plain, by={"longest_ripple": (ripples,)})


def run(seed: int, rows: Sequence[LengthRow], mastery: Mastery | None = None, **more: Any) -> MeasuredRun:
    held = {name: held_from_shortest(own) for name, own in by_set(rows).items()}
    said = {"negatives_trained": "swaps", "constant": constant_answer(rows), **more}
    return MeasuredRun.of(lengths_of(rows, held, run=f"studies/x/runs/some-seed{seed}", seed=seed, **said), mastery)


def cell(name: str, runs: list[MeasuredRun], settings: Mapping[str, str] | None = None) -> StudyCell:
    return StudyCell(
        cell=name,
        arm=name.partition(":")[0],
        settings=dict(settings or {}),
        training=tuple(Training(run=one.run, steps=50, seconds=2.0, device="cpu") for one in runs),
        runs=tuple(runs),
        together=together(runs) if runs else None,
    )


def with_runs(found: StudyCell, *runs: MeasuredRun) -> StudyCell:
    return replace(found, runs=runs)


def texts(cells: Sequence[StudyCell]) -> list[str]:
    return [sentence.text for sentence in answer(cells)]


def shown(found: Table) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in found.rows]


def held_to(length: int, name: str = "adjacent") -> list[LengthRow]:
    return [row(name, one, 1.0 if one <= length else 0.6) for one in (16, 32, 64)]


def grid(accuracy: Mapping[tuple[str, str], float]) -> list[StudyCell]:
    return [
        cell(
            f"grid: {one}, {other}",
            [run(seed, [row("swaps", 16, 1), row("swaps", 32, value)]) for seed in (0, 1)],
            {ENCODING: one, POOLING: other},
        )
        for (one, other), value in accuracy.items()
    ]


def test_the_furthest_cell_is_named_with_every_seed() -> None:
    cells = [
        cell("good", [run(0, held_to(64)), run(1, held_to(32)), run(2, held_to(64))]),
        cell("bad", [run(0, held_to(16))]),
    ]
    text = "adjacent: held to 64, the longest that was tested, 4 times the training length, in the median: "
    assert str(furthest(cells, "adjacent")) == f"{text}good (seeds: 64, 32, 64)"


def test_one_seed_that_holds_far_does_not_make_its_cell_the_furthest() -> None:
    cells = [
        cell("lucky", [run(0, held_to(64)), run(1, held_to(16)), run(2, held_to(16))]),
        cell("steady", [run(seed, held_to(32)) for seed in range(3)]),
    ]
    assert str(furthest(cells, "adjacent")).endswith("in the median: steady (32 in each of 3 seeds)")


def test_where_nothing_holds_the_best_mean_past_training_is_named() -> None:
    worse = [row("adjacent", 16, 1), row("adjacent", 32, 0.5), row("adjacent", 64, 0.52)]
    better = [row("adjacent", 16, 0.9), row("adjacent", 32, 0.7), row("adjacent", 64, 0.6)]
    said = str(furthest([cell("worse", [run(0, worse)]), cell("better", [run(0, better)])], "adjacent"))
    assert said == (
        "adjacent: in the median no combination holds beyond 16, the longest training length; "
        "best in the mean of the longer lengths is better with 0.650"
    )
    seeds = [run(0, held_to(64)), run(1, held_to(16)), run(2, held_to(16))]
    assert "the longest training length (1 of 3 seeds do); best in the mean" in str(
        furthest([cell("mixed", seeds)], "adjacent")
    )


def test_a_cell_that_was_not_measured_on_a_set_is_left_out_of_it() -> None:
    cells = [cell("other", [run(0, held_to(64, "swaps"))]), cell("own", [run(0, held_to(32)), run(1, held_to(32))])]
    assert str(furthest(cells, "adjacent")).endswith("in the median: own (32 in each of 2 seeds)")
    short = [cell("short", [run(0, [row("adjacent", 16, 1)])])]
    assert texts([*cells[:1], *short])[1].endswith("the longest training length; no longer length was tested")
    everywhere = grid({("a", "mean"): 0.5, ("a", "max"): 0.9, ("b", "mean"): 0.5, ("b", "max"): 0.9})
    everywhere[0] = with_runs(everywhere[0], run(0, held_to(32)), everywhere[0].runs[1])
    assert [(one.set_name, one.seeds) for one in decisions(everywhere)] == [("adjacent", ()), ("swaps", (1,))]


def test_pooling_decides_where_only_pooling_differs() -> None:
    cells = grid({("a", "mean"): 0.5, ("a", "max"): 0.9, ("b", "mean"): 0.5, ("b", "max"): 0.9})
    (found,) = decisions(cells)
    assert (found.arm, found.set_name, found.seeds) == ("grid", "swaps", (0, 1))
    assert found.pooling == pytest.approx({"mean": 0.5, "max": 0.9})
    assert found.shares is not None and found.shares.pooling == pytest.approx((1, 1))
    assert texts(cells)[1] == (
        "grid, on swaps: the pooling explains more than the encoding in each of 2 seeds; "
        "of the differences beyond training the pooling 100 %, the encoding 0 %, their interaction 0 %; "
        "8 of 8 runs mastered the training lengths; "
        "mean accuracy of those beyond training (runs): max 0.900 (4), mean 0.500 (4); a 0.700 (4), b 0.700 (4)"
    )
    turned = grid({("mean", "a"): 0.5, ("max", "a"): 0.9, ("mean", "b"): 0.5, ("max", "b"): 0.9})
    assert "the encoding explains more than the pooling in each of 2 seeds" in texts(turned)[1]
    for place, one in enumerate(cells):  # in the second seed the encoding decides
        value = 0.9 if one.settings[ENCODING] == "b" else 0.5
        cells[place] = with_runs(one, one.runs[0], run(1, [row("swaps", 16, 1), row("swaps", 32, value)]))
    assert "neither pooling nor encoding explains more in every seed" in texts(cells)[1]


def test_a_grid_with_a_hole_or_without_differences_is_not_explained() -> None:
    everywhere = {("a", "mean"): 0.5, ("a", "max"): 0.52, ("b", "mean"): 0.5, ("b", "max"): 0.51}
    said = "nothing decides; 8 of 8 runs mastered the training lengths, and those have 0.500 to 0.520 beyond training"
    assert said in texts(grid(everywhere))[1]
    holes = grid(everywhere)
    holes[2] = with_runs(holes[2])
    assert [(one.shares, one.runs) for one in decisions(holes)] == [(None, 6)]
    assert decisions(grid({("a", "mean"): 0.5, ("a", "max"): 0.9})) == []


def test_what_was_never_learned_says_nothing_of_length() -> None:
    """Two cells at chance inside and past training: without the gate, the pooling would explain all of it."""
    cells = grid({("a", "mean"): 0.5, ("a", "max"): 1.0, ("b", "mean"): 0.5, ("b", "max"): 1.0})
    chance = [run(seed, [row("swaps", 16, 0.52), row("swaps", 32, 0.5)]) for seed in (0, 1)]
    cells = [with_runs(one, *chance) if one.settings[POOLING] == "mean" else one for one in cells]
    (found,) = decisions(cells)
    assert (found.mastered, found.runs, found.shares) == (4, 8, None)
    assert found.pooling == {"max": 1.0}
    assert texts(cells)[1] == (
        "grid, on swaps: nothing decides; 4 of 8 runs mastered the training lengths, and those have 1.000 to 1.000 "
        "beyond training; did not master them: grid: a, mean (0.520), grid: b, mean (0.520)"
    )
    low = [run(seed, [row("swaps", 16, 0.97), row("swaps", 32, 1)]) for seed in (0, 1)]
    cells = [with_runs(one, *low) for one in cells]
    assert texts(cells)[1] == (
        "grid, on swaps: none of 8 runs mastered the training lengths (at least 99 % there; the best has 0.970), "
        "so what decides the length is unknown"
    )


def test_shares_of_a_table_add_up() -> None:
    # Around the mean of .45: 3 x 2 x .05^2 for rows, 2 x (.3^2 + 2 x .15^2) for columns, .535 in all.
    shares = two_way_shares([[0.2, 0.4, 0.9], [0.1, 0.8, 0.3]])
    assert shares == pytest.approx((0.015 / 0.535, 0.27 / 0.535, 0.25 / 0.535))
    assert two_way_shares([[1, 1], [0, 0]]) == (1, 0, 0)
    assert two_way_shares([[0.3, 0.3], [0.3, 0.3]]) == (0, 0, 0)
    with pytest.raises(ValueError, match="needs a table with two axes"):
        two_way_shares([])


def test_one_answer_and_a_mechanism_are_told() -> None:
    rows = [row("swaps", 16, 1), row("swaps", 32, 0.5, "1"), row("swaps", 64, 0.5, "1")]
    asked = run(4, held_to(16, "swaps"), mechanism=mechanism_of(32, "enc1.self.h2 looks away.", "So it fails."))
    later = [row("swaps", 16, 1), row("swaps", 32, 0.9), row("swaps", 64, 0.5, "1")]
    sound = run(5, held_to(64, "swaps"), mechanism=mechanism_of(None, "No length is worse."))
    cells = [cell("flat", [run(0, rows), run(1, held_to(64, "swaps"))]), cell("told", [asked, sound])]
    lines = texts([*cells, cell("apart", [run(0, rows), run(1, later)])])
    assert any(
        line.endswith("that class: flat (1, from 32 on, 1 of 2 seeds); apart (1, from 32 to 64 on, 2 of 2 seeds)")
        for line in lines
    )
    assert "some-seed5: No length is worse." in lines
    assert "why some-seed4 fails: enc1.self.h2 looks away. So it fails." in lines
    assert texts([cell("empty", [])]) == ["nothing was measured"]


def test_the_run_that_loses_most_is_asked_why() -> None:
    fine, falls = run(0, held_to(64, "swaps")), run(1, held_to(16, "swaps"))
    unlearned = run(2, [row("swaps", 16, 0.5), row("swaps", 32, 0.2)])
    short = run(6, [row("swaps", 8, 0.8), row("swaps", 16, 1), row("swaps", 32, 1)])
    assert loss_of(short) == 0, "only lengths past training can be lost"
    assert [round(loss_of(one), 2) for one in (fine, falls, unlearned)] == [0, 0.4, 0]
    known = {
        "fine": fine,
        "falls": falls,
        "unlearned": unlearned,
        "deeper": run(3, [row("swaps", 16, 1), row("swaps", 32, 0.3)]),
    }
    cells = [["fine", "falls"], ["unlearned"], ["deeper"], []]
    assert asked_why(cells, known, "failing") == ["falls", "deeper"]
    assert asked_why(cells, known, "worst") == ["deeper"]
    assert asked_why(cells, known, "none") == []
    assert asked_why([["fine"]], known, "worst") == []


def test_what_a_run_loses_is_counted_at_the_worst_length_past_training() -> None:
    """One recovers after 40 % at length 64; the other stays at half."""
    dips = run(0, [row("swaps", length, share) for length, share in ((16, 1), (32, 0.9), (64, 0.4), (128, 0.95))])
    stays = run(1, [row("swaps", length, share) for length, share in ((16, 1), (32, 0.5), (64, 0.5))])
    assert (loss_of(dips), loss_of(stays)) == (pytest.approx(0.6), pytest.approx(0.5))
    assert asked_why([["stays", "dips"]], {"stays": stays, "dips": dips}, "failing") == ["dips"]


@pytest.mark.parametrize(
    ("trained", "sets", "expected"),
    [("swaps", "swaps adjacent", "swaps"), ("mixed", "swaps adjacent", "adjacent"), (None, "sums", "sums")],
)
def test_the_set_that_counts_is_the_one_trained_on(trained: str | None, sets: str, expected: str) -> None:
    assert main_set(run(0, [row(name, 16, 1) for name in sets.split()], negatives_trained=trained)) == expected


def test_the_accuracy_of_runs_that_did_not_master_their_lengths_is_in_the_table() -> None:
    judged = [
        Mastery(gate=0.999, mastered=step is not None, step=step, accuracy=accuracy)
        for step, accuracy in ((50, 1.0), (None, 0.75), (80, 0.9995))
    ]
    cells = [cell("a", [run(seed, held_to(32), one) for seed, one in enumerate(judged)])]
    assert shown(mastery_table(cells)) == [["a", "2 of 3", "50 – 80", "0.750"]]


@pytest.mark.parametrize(
    ("sizes", "fewest"),
    [
        ((6, 1), "1 seed"),
        ((2, 7), "2 seeds"),
        ((7, 5, 6), "5 seeds"),
        ((3, 0), "3 seeds"),
        ((6, 7), None),
        ((6, 0), None),
    ],
)
def test_an_answer_is_descriptive_if_any_measured_combination_has_fewer_than_six_seeds(
    sizes: tuple[int, ...], fewest: str | None
) -> None:
    cells = [cell(str(place), [run(seed, held_to(32)) for seed in range(n)]) for place, n in enumerate(sizes)]
    expected = [] if fewest is None else [f"with {fewest} per combination, all of this is descriptive"]
    assert [sentence.text for sentence in answer(cells) if sentence.kind == "descriptive"] == expected


def test_tables_hold_the_documents_numbers() -> None:
    cells = [cell("a", [run(0, held_to(64)), run(1, held_to(32))]), cell("b", []), cell("c", [run(0, held_to(16))])]
    measured = [cells[0], cells[2]]
    assert shown(held_table(measured, ["adjacent"])) == [["a", "64 32 (median 48)"], ["c", "16"]]
    assert shown(reach_table(cells)) == [["a", "adjacent", "4x", "64", "1 of 2", "0.01 to 0.99"]]
    assert [(one.arm, one.runs, one.steps, one.seconds) for one in costs(cells)] == [
        ("a", 2, 100, 4.0),
        ("c", 1, 50, 2.0),
    ]
    stacked = tuple(replace(one, device="NVIDIA H200") for one in cells[0].training)
    assert costs([replace(cells[0], training=stacked)])[0].seconds == 2.0  # two seeds in one stack
    shares = ((16, 1), (32, 0.25), (64, 0))
    sums = [cell("sums", [run(0, [row(name, *share) for name in ("sums", "ripple") for share in shares])])]
    assert shown(ripple_table(sums)) == [
        ["sums at 16", "1.000"],
        ["sums at 32", "0.250"],
    ]
    assert not repair_table(cells).rows
    at = rise_of(failures=40, share_repaired=0.25, share_repaired_interval=(0.14, 0.4))
    reach = Repair(repair="reach", who="all heads", heads=(), at=at, control=at)
    found = mechanism_of(32, repairs=[replace(reach, repair="profile"), replace(reach, who="one head"), reach])
    cells[0] = with_runs(cells[0], cells[0].runs[0], replace(cells[0].runs[1], mechanism=found))
    assert shown(repair_table(cells)) == [["a", "1", "32", "40", "0.250", "0.140 to 0.400", "not tried", "not shown"]]
    assert shown(seed_table(sums, "ripple"))[0] == ["some-seed0", "–", "–", "1.000", "0.250", "0.000", "50", "2", "cpu"]
