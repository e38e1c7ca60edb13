"""Tasks: each draws examples, has an exact oracle, and scores answers."""

from headway.config import Choice, options_of
from headway.registry import Registry
from headway.tasks.base import Task
from headway.tasks.examples import Contrast, Examples, SimpleRule, Vocabulary

TASKS: Registry[Task] = Registry(
    "task",
    "headway.tasks.base:Task",
    {
        "addition": "headway.tasks.addition:Addition",
        "addition-text": "headway.tasks.addition_text:AdditionText",
        "sortedness": "headway.tasks.sortedness:Sortedness",
        "copy": "headway.tasks.copy:Copy",
        "parity": "headway.tasks.parity:Parity",
        "sorting": "headway.tasks.sorting:Sorting",
    },
)


def make_task(choice: Choice) -> Task:
    """The task of a recipe's [task] table."""
    cls = TASKS.get(choice.name)
    return cls(options_of(cls.Options, choice, "task"))


__all__ = ["TASKS", "Contrast", "Examples", "SimpleRule", "Task", "Vocabulary", "make_task"]
