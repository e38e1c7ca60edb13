"""What `headway.tasks.base` asks of a task, held for every registered one."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import Choice, options_of
from headway.tasks import TASKS, SimpleRule, Task, make_task
from headway.tasks.copy import Copy
from headway.tasks.parity import Parity
from headway.testing import TASK_CHECKS, shown
from headway.testing.examples import (
    a_fresh_batch_never_leaves_the_train_split,
    splits_are_disjoint_on_problems_for_every_data_seed,
)
from headway.testing.material import drawn, records

VARIANTS = {
    "addition": (
        {},
        {"digits": 5, "sampling": "carry-chains", "order": "least-significant-first"},
        {"digits": 2, "base": 16, "leading_zeros": True},
    ),
    "addition-text": (
        {},
        {"order": "least-significant-first", "max_characters": 15},
        {"order": "least-significant-first", "operand_order": "least-significant-first", "max_characters": 16},
        {"operand_order": "least-significant-first", "max_characters": 12},
    ),
    "sortedness": ({}, {"min_length": 2, "max_length": 11, "negatives": "adjacent"}, {"negatives": "mixed"}),
    "copy": ({}, {"min_length": 3, "max_length": 7, "values": 4}),
    "sorting": ({}, {"min_length": 5, "max_length": 9, "values": 100}),
    "parity": ({"min_length": 8, "max_length": 14},),
}
"""Options under which a task is tested; a task that is not listed is tested with its defaults."""

CASES = [(name, options) for name in TASKS.names() for options in VARIANTS.get(name, ({},))]
every_task = pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)]
)


def right_addition(options, record):
    """The target of an addition record, by Python's own integers."""
    value, places = sum(to_integer(part, options.base) for part in halves(record["input"])), []
    for _ in range(options.digits + 1):
        value, digit = divmod(value, options.base)
        places.append(digit)
    return record | {"target": places if options.order.startswith("least") else places[::-1]}


def right_addition_text(options, record):
    turn = -1 if options.operand_order.startswith("least") else 1
    a, b = (number[::turn] for number in record["input"].removesuffix(" = ").split(" + "))
    total = str(int(a) + int(b))
    return record | {"target": total[::-1] if options.order.startswith("least") else total}


def right_sortedness(options, record):
    sequence = record["sequence"]
    return {"sequence": sequence, "is_sorted": int(sequence == sorted(sequence)), "length": len(sequence)}


def right_copy(options, record):
    return record | {"target": list(record["input"])}


def right_sorting(options, record):
    return record | {"target": sorted(record["input"])}


def right_parity(options, record):
    return record | {"target": record["input"].count(1) % 2}


def halves(tokens):
    middle = len(tokens) // 2
    return tokens[:middle], tokens[middle + 1 :]


def to_integer(digits, base):
    value = 0
    for digit in digits:
        value = value * base + digit
    return value


REFERENCES = {
    "addition": right_addition,
    "addition-text": right_addition_text,
    "sortedness": right_sortedness,
    "copy": right_copy,
    "parity": right_parity,
    "sorting": right_sorting,
}
"""For each task, the right record to an input, found without the code of the task."""


@cache
def _task(name, options):
    return make_task(Choice(name=name, options=json.loads(options)))


def task_of(name, options):
    return _task(name, json.dumps(options))


def test_every_registered_task_has_a_reference_here():
    assert set(REFERENCES) == set(TASKS.names())


@every_task
@pytest.mark.parametrize("check", TASK_CHECKS, ids=lambda check: check.__name__)
def test_the_contract(name, options, check):
    check(task_of(name, options))


class WrongRule(Parity):
    """Says that the page can judge it by a rule that is another task's."""

    def page(self):
        return {"view": "bars", "values": 2, "rule": "is ascending"}


class NoSimplerRule(Parity):
    """Names the task itself as a rule simpler than the task."""

    def simple_rules(self):
        return (SimpleRule("counts the ones", self.answer, "Nothing to do."),)


@pytest.mark.parametrize(
    ("cls", "check"),
    [
        (WrongRule, shown.the_rule_of_the_page_gives_the_answers_of_the_task),
        (NoSimplerRule, shown.a_simple_rule_answers_in_the_form_of_the_task_and_is_not_the_task),
    ],
)
def test_a_page_or_a_simple_rule_that_is_wrong_is_seen(cls, check):
    check(Parity(Parity.Options()))
    with pytest.raises(AssertionError):
        check(cls(cls.Options()))


@every_task
def test_the_oracle_agrees_with_the_reference(name, options):
    task = task_of(name, options)
    parsed = options_of(type(task).Options, Choice(name=name, options=options), "task")
    sides = [side for one in task.contrasts(np.random.default_rng(3), 12) for side in (one.base, one.patch_source)]
    for examples in (drawn(task, 200), *sides):
        for record in records(task, examples):
            assert record == REFERENCES[name](parsed, record)


@every_task
@settings(max_examples=8)
@given(data_seed=st.integers(0, 2**40), seed=st.integers(0, 99), step=st.integers(0, 10**6))
def test_splits_are_disjoint_for_every_data_seed(name, options, data_seed, seed, step):
    splits_are_disjoint_on_problems_for_every_data_seed(task_of(name, options), (data_seed,))
    a_fresh_batch_never_leaves_the_train_split(task_of(name, options), ((data_seed, seed, step),))


class Broken(Copy):
    """A task with one fault, which its contract must find."""

    def __init__(self, fault):
        self.fault = fault
        super().__init__(Copy.Options(min_length=3, max_length=6, values=5))

    def _with(self, length, family):
        return Copy(replace(self.options, min_length=length, max_length=length), family)

    def answer(self, source):
        found = super().answer(source)
        return np.where(found == 3, 4, found) if self.fault == "answer" and len(source) > 1 else found

    def canonical(self, source):
        found = super().canonical(source)
        return np.pad(found, ((0, 0), (0, 1)), constant_values=len(source)) if self.fault == "problem" else found

    def positions(self, kind, source, prefix):
        across, before = super().positions(kind, source, prefix)
        return (across, before.flip(1)) if self.fault == "future" and before is not None else (across, before)

    def parts(self, source, prefix):
        found = super().parts(source, prefix)
        return {name: np.ones_like(part) for name, part in found.items()} if self.fault == "padding" else found

    def to_record(self, source, target):
        found = super().to_record(source, target)
        return found | {"input": found["input"][::-1]} if self.fault == "record" else found

    def widths(self):
        return (6, 6) if self.fault == "widths" else super().widths()


def failing(task: Task) -> set[str]:
    names = set()
    for check in TASK_CHECKS:
        try:
            check(task)
        except Exception:
            names.add(check.__name__)
    return names


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("answer", "an_answer_does_not_depend_on_the_rows_beside_it"),
        ("problem", "a_problem_and_its_split_do_not_depend_on_the_rows_beside_it"),
        ("future", "a_longer_prefix_keeps_the_earlier_positions"),
        ("padding", "padding_belongs_to_no_part_and_some_query_sees_something_of_each"),
        ("record", "a_record_survives_json"),
        ("widths", "nothing_is_drawn_wider_than_the_task_says_and_something_is_as_wide"),
    ],
)
def test_a_planted_fault_is_found_by_the_contract(fault, expected):
    assert expected in failing(Broken(fault))


def test_a_sound_task_from_outside_fails_no_check():
    assert failing(Broken("none")) == set()
