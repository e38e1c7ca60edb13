"""The report shows a sample, an attack and a proof as three strengths of evidence, and says what was not asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.narration.tables import Table
from headway.reports.blocks import Section
from headway.reports.documents import gather
from headway.reports.front import evidence
from headway.reports.sections.evidence import section
from headway.reports.writing import compose
from headway.results.proof import Proof, Rounding
from headway.results.schema import blank
from tests.reports.made_up_runs import attack_document, make_run


def told(*paths: Any) -> Section:
    found = section(gather(list(paths)).documents)
    assert found is not None
    return found


def rows(found: Section) -> list[list[str]]:
    table = next(block for block in found.blocks if isinstance(block, Table))
    return [[str(cell) for cell in row] for row in table.rows]


def test_each_strength_has_its_row_and_what_was_not_asked_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    found = told(run)
    assert rows(found) == [
        ["every input", "8,100 inputs of the whole domain", "3 wrong, 99.963 % right"],
        ["sample", "2,000 examples of each set at each length", rows(found)[1][2]],
        ["attack", "8,028 inputs tried at 8 and 32 elements", "wrong answers: 2 of them fail"],
        ["proof", "not asked", ""],
    ]
    assert rows(found)[1][2].startswith("held to ")
    assert "9 1 1 1 1 1 1 1 -> 0, answered 1" in str(found.parts[0].blocks[1].items[0])  # type: ignore[union-attr]
    assert not found.parts[0].folded


def test_an_attack_that_found_nothing_proves_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.replace_analysis("attack", attack_document(run.path, found=0).to_json())
    found = told(run)
    assert rows(found)[2] == [
        "attack",
        "8,028 inputs tried at 8 and 32 elements",
        "no failing input, which proves nothing",
    ]
    assert found.parts[0].folded


@pytest.mark.parametrize(
    ("broken", "shown", "remark", "state"),
    [
        (True, "2", "of 8,028 inputs tried", "error"),
        (False, "none", "of 8,028 inputs tried; 2 only in a batch, by ties", ""),
    ],
)
def test_ties_that_only_a_batch_breaks_are_no_failing_inputs(
    broken: bool, shown: str, remark: str, state: str, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run")
    attack = attack_document(run.path)
    attack = attack if broken else replace(attack, counterexamples=(), unconfirmed=2)
    run.replace_analysis("attack", attack.to_json())
    tile = evidence(gather([run.path]).documents.runs[0])
    assert tile is not None
    assert (str(tile.value), str(tile.remark), tile.state) == (shown, remark, state)


def test_a_proof_is_a_row_of_its_own(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analyses=("lengths",))
    proof = blank(Proof, answer="proved", scope="sequences of every length", seed=0)
    run.replace_analysis("proof", proof.to_json())
    assert rows(told(run))[1:] == [
        ["attack", "not asked", ""],
        ["proof", "every input: sequences of every length", "proved"],
    ]
    allowed = blank(Rounding, strength="first-order")
    run.replace_analysis("proof", replace(proof, rounding=allowed).to_json())
    assert rows(told(run))[2][2] == "proved, with a first-order bound of rounding"


def test_runs_side_by_side_are_named_and_of_many_only_those_that_were_attacked(tmp_path: Path) -> None:
    few = [make_run(tmp_path / f"few{seed}", seed=seed, analyses=("evaluation",)) for seed in range(2)]
    assert [row[0] for row in rows(told(*few))] == ["few0"] * 3 + ["few1"] * 3
    many = [make_run(tmp_path / f"many{seed}", seed=seed, analyses=("evaluation",)) for seed in range(13)]
    assert section(gather(many).documents) is None
    many[4].replace_analysis("attack", attack_document(many[4].path, 4).to_json())
    assert {row[0] for row in rows(told(*many))} == {"many4"}


def test_a_damaged_attack_is_named_in_its_place(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.analysis("attack").write_text("{")
    documents = gather([run])
    evidence = next(one for one in compose(documents.documents, documents.name).sections if one.name == "evidence")
    assert "attack.json" in evidence.problem


@pytest.mark.parametrize("found", [0, 2])
def test_the_command_that_does_it_again_names_the_attack(tmp_path: Path, found: int) -> None:
    run = make_run(tmp_path / "run")
    run.replace_analysis("attack", attack_document(run.path, found=found).to_json())
    documents = gather([run])
    report = compose(documents.documents, documents.name)
    assert f"headway attack {run.path} --at 8,32 --seconds 30" in str(report.sections[-1])
