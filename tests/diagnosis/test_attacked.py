"""What the doctor says of a run that was attacked, against what its lengths.json says is held."""

from dataclasses import replace
from functools import cache

import pytest

from headway.attacks.attack import attack
from headway.diagnosis.planted import measured_at
from headway.length_analysis.measure import ON_VALIDATION
from headway.results.attack import Attack
from headway.results.lengths import Lengths
from tests.diagnosis.small import found, run, subject

CHECK = "held-but-broken"


@cache
def attacked(task: str) -> Attack:
    trained, _ = run(task)
    return attack(trained, at=[6] if task == "sortedness" else None, seconds=600, tries=500)


def held_to(length: int) -> Lengths:
    measured = measured_at(run("sortedness")[1], max(length, 2), ON_VALIDATION)
    return replace(measured, held={"swaps": length}, length_held=length)


@pytest.mark.parametrize(("held", "level"), [(6, "error"), (64, "error"), (5, "warning"), (0, "warning")])
def test_a_failing_input_at_a_length_that_is_held_is_an_error(held: int, level: str) -> None:
    finding = found(subject("sortedness", attack=attacked("sortedness"), lengths=held_to(held)), CHECK)
    first = attacked("sortedness").counterexamples[0]
    assert finding.level == level
    assert f"{first.input} is answered {first.answered} ({first.expected} is right)" in finding.evidence
    assert (f"is {held} elements, but an attack" in finding.evidence) == (level == "error")


@pytest.mark.parametrize("task", ["addition", "sortedness"])
def test_a_failing_input_without_a_length_held_is_a_warning(task: str) -> None:
    assert found(subject(task, attack=attacked(task)), CHECK).level == "warning"


def test_an_attack_that_found_nothing_proves_nothing() -> None:
    empty = replace(attacked("sortedness"), counterexamples=(), found=0)
    finding = found(subject("sortedness", attack=empty, lengths=held_to(64)), CHECK)
    assert finding.level == "fine"
    assert finding.evidence == f"An attack tried {empty.tried:,} inputs and found none wrong, which proves nothing."


def test_an_input_that_is_right_when_the_doctor_asks_accuses_nobody() -> None:
    healthy = subject("sortedness")
    rights = healthy.splits["train"]
    assert healthy.forward is not None
    row = int((healthy.forward(rights).argmax(-1).numpy() == rights.target).argmax())
    record = healthy.task.to_record(rights.source[row], rights.target[row])
    wrong = replace(attacked("sortedness").counterexamples[0], record=record)
    said = replace(attacked("sortedness"), counterexamples=(wrong,))
    assert found(subject("sortedness", attack=said, lengths=held_to(64)), CHECK).level == "fine"


def test_an_attack_on_another_seed_is_named() -> None:
    other = replace(attacked("sortedness"), seed=99)
    finding = found(subject("sortedness", attack=other), "analysis-of-another-run")
    assert finding.level == "error"
    assert "attack.json is of seed 99" in finding.evidence
