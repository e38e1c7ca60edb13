"""Sentences of the report claim what their numbers carry and no more, for odd results too."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.length_analysis.seed_summary import together
from headway.narration.head_sets import control_table, going, moves, shapley
from headway.narration.heads import ablation_table, costliest, says_little, surely
from headway.narration.tables import Table
from headway.reports import page, writing
from headway.reports.answer import answer, asked
from headway.reports.blocks import Listing, Paragraph, Report, Terms
from headway.reports.documents import Documents, RunDocuments, StudyDocuments, documents_of, gather
from headway.reports.page import blocks_of
from headway.reports.sections import setup
from headway.reports.sections.methods import errors_allowed
from headway.results.joint_ablation import Shapley
from headway.results.patching import Contrast
from headway.results.schema import read
from headway.results.study import Sentence
from tests.reports.made_up_runs import FINDINGS, doctor_document, evaluation_document, make_run
from tests.reports.reading import Files, Page, complaints
from tests.results.made_up import length_row, length_study, lengths_of, study_cell
from tests.results.made_up_values import filled, typed

GUESSING = {**FINDINGS[1], "check": "no-better-than-guessing"}


def made(contrast: dict[str, Any]) -> Contrast:
    return read(Contrast, filled(Contrast, contrast), "heads.json")


def told(*runs: Any) -> Report:
    found = gather(list(runs))
    return writing.compose(found.documents, found.name)


def text_of(report: Report) -> str:
    figures = page.without_drawings(report)
    return page.render(report, figures)


def lines(report: Report) -> list[str]:
    return [str(line) for line in report.answer]


# Several runs


def test_the_worst_run_has_the_most_wrong_and_the_best_the_fewest(tmp_path: Path) -> None:
    runs = []
    for wrong in (81, 810, 0, 162):
        runs.append(make_run(tmp_path / f"wrong{wrong}", seed=wrong, analyses=()))
        runs[-1].replace_analysis("evaluation", evaluation_document(wrong))
    first = lines(told(*runs))[0]
    assert first.startswith("4 runs answer 90 % to 100 % of ")
    assert first.endswith(" right; the worst has 810 wrong, the best 0.")


# Heads


@pytest.mark.parametrize(
    ("heads", "high", "said"),
    [
        (
            ["a", "b"],
            0.75,
            "2 can be removed together for less than 1 point: on other examples the cost is 0.25 points ",
        ),
        (
            ["a", "b"],
            1.0,
            "2 chosen for removal together: on other examples the cost is 0.25 points (−0.50 to 1.0), not ",
        ),
        ([], 0.75, "no head can be removed for less than 1 point"),
    ],
)
def test_heads_can_go_only_where_the_interval_shows_it(heads: list[str], high: float, said: str) -> None:
    assert str(going(1.0, heads, 0.25, (-0.5, high))).startswith(said)


def test_of_a_model_that_guesses_no_head_is_said_to_be_needless(tmp_path: Path) -> None:
    run = make_run(tmp_path / "guesses", analyses=("heads",))
    for level, guesses in (("fine", False), ("warning", True)):
        run.replace_analysis("doctor", doctor_document(run.path, [{**GUESSING, "level": level}]))
        report = told(run)
        heads = next(section for section in report.sections if section.name == "heads")
        assert ("chosen for removal together" in str(heads)) != guesses
        assert (lines(report)[1] == "Its heads cannot be analysed: the doctor finds no-better-than-guessing.") == (
            guesses
        )
    other = make_run(tmp_path / "too", analyses=("heads",))
    other.replace_analysis("doctor", doctor_document(other.path, [GUESSING]))
    assert lines(told(run, other))[1].startswith("Their heads cannot be analysed")


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ([0.06, 0.2], "Among single heads, a flips the carry most often: in 10 % of 90 pairs (6 % to 20 %)."),
        ([0.05, 0.2], "No single head is shown to flip the carry in more than 5 % of 90 pairs."),
    ],
)
def test_a_head_moves_something_only_above_the_floor(interval: list[float], said: str) -> None:
    rows = [{"who": "a", "heads": ["a"], "rate": 0.1, "interval": interval}, {"who": "all", "heads": ["a"], "rate": 1}]
    one = made({"name": "carry", "usable": 90, "rows": rows})
    assert str(moves(one)) == said


STRONGEST = {"head": "b", "rate": 0.9, "n": 40, "flips": 36, "interval": [0.8, 0.95], "chosen_on_n": 50}
CARRY = {
    "name": "carry",
    "usable": 90,
    "rows": [{"who": "all cross", "heads": ["b", "c"], "rate": 1, "interval": [0.9, 1]}],
}


def test_the_head_that_is_named_was_chosen_on_other_pairs_and_has_its_control() -> None:
    strongest = {
        "encoder": {**STRONGEST, "head": "a", "rate": 1.0, "chosen_on_rate": 0.5},
        "cross": {**STRONGEST, "chosen_on_rate": 0.8, "control": {"rate": 0.25, "interval": [0.125, 0.5]}},
    }
    one = made({**CARRY, "strongest": strongest})
    assert str(moves(one)) == (
        "Among single heads, b flips the carry most often: in 90 % of 40 pairs not used for the choice (80 % to 95 %); "
        "patched from a sum with another digit and the same carry, that digit changes in 25 % (12.5 % to 50 %); "
        "a in 100 % (80 % to 95 %)."
    )


def test_heads_of_a_kind_have_a_row_with_their_control_and_old_documents_have_none() -> None:
    rate = {"rate": 0.25, "interval": [0.125, 0.5]}
    rows = [{"who": who, **rate, "digits": rate, "reading": "unspecific"} for who in ("b", "all cross")]
    one = made({**CARRY, "control": {"usable": 80, "rows": rows}})
    table = control_table([one])
    assert table is not None
    between = "25 % (12.5 % to 50 %)"
    assert [[str(cell) for cell in row] for row in table.rows] == [
        ["carry", "all cross", "100 % (90 % to 100 %)", between, between, "unspecific"]
    ]
    assert control_table([made(CARRY)]) is None


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ([1, 3.9], "Without a accuracy falls most, by 5.0 points (95 % interval 4.0 to 6.0; zero ablation)."),
        ([1, 4.1], "Without a accuracy falls by 5.0 points (95 % interval 4.0 to 6.0; zero ablation), but the "),
    ],
)
def test_no_head_matters_most_where_intervals_overlap(second: list[float], said: str) -> None:
    drops = {"a": (5.0, [4.0, 6.0]), "b": (2.0, second)}
    heads = [
        {"head": name, "ablation": {"zero": {"drop": drop, "interval": interval}}}
        for name, (drop, interval) in drops.items()
    ]
    assert str(costliest(typed({"heads": heads}))).startswith(said)


def test_a_drop_that_may_be_0_is_no_finding_and_its_head_fills_no_row() -> None:
    """Heads with half a point to three points: more than nothing may be lost, and nothing is certain."""

    def head(low: float) -> dict[str, Any]:
        drop = {"drop": 1.5, "interval": [low, 3.0]}
        return {"head": "a", "verdict": "undecided", "ablation": {"zero": drop}}

    nothing = typed({"heads": [head(-0.5)]})
    assert str(costliest(nothing)) == "No single head has a drop that differs significantly from 0 (zero ablation)."
    assert [says_little(typed({"heads": [head(low)]}).heads[0]) for low in (0.5, 1.25)] == [True, False]


def test_how_many_heads_are_surely_under_a_limit_is_the_lower_end_of_the_share() -> None:
    assert surely((0.25, 0.5), 24) == " (surely 6 of 24, at most 12)"
    assert surely(None, 24) == ""


def test_the_largest_drop_of_a_head_is_told_with_the_ablation_that_costs_it() -> None:
    drops = {"zero": 2.0, "mean": 5.0, "resample": 3.0}
    ablation = {kind: {"drop": drop, "interval": [drop - 1, drop + 1]} for kind, drop in drops.items()}
    table = ablation_table(typed({"heads": [{"head": "a", "verdict": "important", "ablation": ablation}]}))
    place = [column.title for column in table.columns].index("largest drop")
    assert str(table.rows[0][place]).split() == ["5.0", "(mean)"]


def test_the_heads_with_the_largest_shapley_values_are_named() -> None:
    values = [{"head": name, "value": value, "error": 0.25} for name, value in zip("abcd", (1, 7, -2, 3), strict=True)]
    found = read(Shapley, filled(Shapley, {"values": values, "permutations": 50, "n": 400}), "heads.json")
    assert str(shapley("zero", found)).endswith(": b 7.0 ± 0.25, d 3.0 ± 0.25, a 1.0 ± 0.25.")


def test_the_answer_names_the_head_that_surely_costs_most(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", analyses=("heads",))
    heads = run.read_analysis("heads") or {}
    heads["heads"][2]["ablation"]["zero"] |= {"drop": 99.5, "interval": [99.25, 99.75]}
    run.replace_analysis("heads", heads)
    name = heads["heads"][2]["head"]
    assert f"; {name} costs most, 99.5 points (99.2 to 99.8; zero ablation); " in lines(told(run))[1]
    bare = make_run(tmp_path / "bare", analyses=())
    report = told(run, bare)
    assert f"in one {name} costs most, 99.5 points" in lines(report)[1]
    title = next(section.title for section in report.sections if section.name == "heads")
    assert str(title) == "Heads of one"


# Accuracy


def test_over_the_whole_domain_there_is_no_sampling_interval(tmp_path: Path) -> None:
    report = told(make_run(tmp_path / "run", wrong=1, analyses=("evaluation",)))
    assert "were tested, the 40 of training among them: 1 is answered wrong, 99.988 % right." in lines(report)[0]
    accuracy = next(section for section in report.sections if section.name == "accuracy")
    (table,) = (block for block in accuracy.blocks if isinstance(block, Table))
    assert "none: all were tested" in table.rows[0]
    assert isinstance(accuracy.blocks[0], Paragraph)
    assert "interval" not in str(accuracy.blocks[0].text)


def test_validation_is_told_where_runs_were_only_trained(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, analyses=()) for name in "ab"]
    assert lines(told(*runs))[0] == "At their best steps the runs answer 83.3 % of validation right."


def test_a_flawless_analysis_of_one_of_several_runs_names_it(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "clean", wrong=0, analyses=("heads",)), make_run(tmp_path / "other", analyses=())]
    assert "examples of the head analysis of clean is wrong" in " ".join(Page(text_of(told(*runs))).text.split())


# Studies


def make_study(path: Path, document: dict[str, Any], name: str) -> Path:
    (path / "study.json").write_text(json.dumps({"experiment": "addition", "preset": "quick", "arms": []}))
    (path / "analysis").mkdir()
    (path / "analysis" / f"{name}.json").write_text(json.dumps(document))
    return path


def test_a_failed_seed_is_told_and_costs_no_sentence(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "runs" / f"seed{seed}", seed=seed, analyses=("evaluation",)) for seed in range(2)]
    failed = make_run(tmp_path / "runs" / "seed2", seed=2, analyses=())
    training = {"steps": 24, "seconds": 78.56}
    rows: list[dict[str, Any]] = [
        {"training": {"run": str(run.path), **training}, "evaluation": evaluation_document(3)["all"]} for run in runs
    ]
    rows.append({"training": {"run": "runs/seed2", "error": "the loss is not a number"}, "evaluation": None})
    study = make_study(tmp_path, {"form": 1, "experiment": "addition", "preset": "quick", "runs": rows}, "summary")
    report = told(study)
    assert lines(report)[0].startswith("2 of 3 runs answer 99.963 % to 99.963 % of the whole domain right")
    assert "; seed2 failed: the loss is not a number, and the doctor" in lines(report)[-1]
    seeds = next(section for section in report.sections if section.name == "seeds")
    assert isinstance(seeds.blocks[-1], Listing)
    assert [str(item) for item in seeds.blocks[-1].items] == ["seed2 failed: the loss is not a number"]
    assert complaints(text_of(report), Files(*(run.path for run in [*runs, failed]), study=study)) == []


def test_a_comparison_answers_how_far_what_decides_and_how_sure() -> None:
    swaps, adjacent, none, pooling = (
        Sentence(kind="furthest", set_name="swaps", text="random swaps are held to 64"),
        Sentence(kind="furthest", set_name="adjacent", text="inversions are held to 32"),
        Sentence(kind="decision", set_name="swaps", text="on swaps: none"),
        Sentence(kind="decision", set_name="adjacent", text="on adjacent: pooling"),
    )
    few = Sentence(kind="descriptive", text="two seeds only describe")
    measured = lengths_of([length_row(16)])
    cells = [
        study_cell("a", together=together([measured] * 3)),
        study_cell("b", together=together([measured] * 2), failed={"b-seed9": "out of memory"}),
    ]
    runs = [
        RunDocuments(name, name, config={"task": {"name": "t"}, "model": {"x": name}}, lengths=measured)
        for name in "ab"
    ]

    def told_of(*sentences: Sentence | str) -> Documents:
        study = length_study(cells=cells, answer=sentences)
        return documents_of(runs, StudyDocuments("s", "s", lengths=study))

    documents = told_of(swaps, adjacent, none, pooling)
    assert [str(line) for line in answer(documents)] == [
        "inversions are held to 32",
        "on adjacent: pooling",
        "These are 2 runs, as few as 2 seeds of a combination: a description, not a test; b-seed9 failed: out of "
        "memory, and the doctor was not run.",
    ]
    assert str(asked(documents)).endswith("Asked: how far past the training lengths does each hold?")
    alike = Sentence(kind="nothing decides", set_name="adjacent", text="on adjacent: all alike")
    for sentences, said in (
        ((swaps, adjacent, none, alike), [adjacent.text, none.text]),
        ((swaps, none, few), [swaps.text, none.text]),
        ((swaps, few), [swaps.text]),
        (("sums: held to 64", "of an earlier version"), ["sums: held to 64", "of an earlier version"]),
    ):
        assert [str(line) for line in answer(told_of(*sentences))][:-1] == said


def test_settings_that_a_study_varies_come_first() -> None:
    keys = [f"k{index}" for index in range(9)]
    runs = [
        RunDocuments(name, name, config={"model": dict.fromkeys(keys, name), "train": {"lr": name}}) for name in "ab"
    ]
    plan = {"arms": [{"vary": {"train.lr": [1, 2]}}, {"vary": {}}]}
    documents = documents_of(runs, StudyDocuments("s", "s", plan=plan))
    (table,) = setup.differences(documents, setup.differing(documents))
    assert isinstance(table, Table)
    assert [column.title for column in table.columns[:3]] == ["run", "train.lr", "model.k0"]


@pytest.mark.parametrize(("n", "said"), [(500, 0), (380, -1), (381, 0), (1_000, 3)])
def test_few_examples_allow_few_errors(n: int, said: int) -> None:
    assert errors_allowed(n, 0.99) == said
    assert Holding({"n": n, "least": 0.99}).value("allowed(n, least)") == said


class Holding(Files):
    def __init__(self, documents: dict[str, Any]):
        self.documents = documents


def test_the_definition_of_the_length_held_says_how_strict_it_is(tmp_path: Path) -> None:
    report = told(make_run(tmp_path / "run", analyses=("lengths",)))
    methods = next(section for section in report.sections if section.name == "methods")
    (terms,) = blocks_of([methods])
    assert isinstance(terms, Terms)
    assert "examples a length that allows at most" in " ".join(str(meaning) for _, meaning in terms.pairs)
