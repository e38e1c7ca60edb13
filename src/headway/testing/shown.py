"""Checks of a task's information for the explorer and the doctor: its page and its simple rules."""

import json

import numpy as np

from headway.tasks.base import Task
from headway.tasks.pages import RULES, checked_page
from headway.testing.material import drawn, task_check


@task_check
def the_page_has_the_view_and_the_rule_that_the_task_names(task: Task) -> None:
    page = checked_page(task)
    assert json.loads(json.dumps(page)) == page, "a page is told plain values"
    assert len(task.class_names()) == task.n_classes
    assert len(set(task.class_names())) == task.n_classes


@task_check
def the_rule_of_the_page_gives_the_answers_of_the_task(task: Task) -> None:
    page = checked_page(task)
    if "rule" not in page:
        return
    examples, ends = drawn(task, 200), (task.vocabulary.pad, task.vocabulary.eos)
    for source, target in zip(examples.source.tolist(), examples.target.tolist(), strict=True):
        elements = [token for token in source if token not in ends]
        answer = [target] if task.kind == "class" else [token for token in target if token not in ends]
        assert RULES[page["rule"]](elements) == answer, f"{page['rule']!r} of {elements} is not {answer}"


@task_check
def a_simple_rule_answers_in_the_form_of_the_task_and_is_not_the_task(task: Task) -> None:
    examples = drawn(task, 1_000)
    for rule in task.simple_rules():
        answer = np.asarray(rule.answer(examples.source))
        assert rule.does, "a finding reads: The model ..."
        assert rule.fix, f"{rule.does}: what to do about it"
        assert answer.shape == examples.target.shape, f"{rule.does}: {answer.shape} answers"
        known = task.n_classes if task.kind == "class" else len(task.vocabulary)
        assert ((answer >= 0) & (answer < known)).all(), f"{rule.does}: some answers are not valid"
        assert (answer != examples.target).any(), f"{rule.does}: it is always right, so it is not a simpler rule"
        assert task.kind == "sequence" or rule.part is None, "a class has no parts"
        assert len(rule.keys) in (0, 2 if task.kind == "sequence" else task.n_classes), f"{rule.does}: {rule.keys}"
