"""A registry finds classes by name and helps with a name it does not know."""

import pytest

from headway.config import Choice
from headway.errors import InputError, suggestion
from headway.registry import Registry
from headway.tasks import TASKS, make_task
from headway.tasks.addition import Addition


def test_a_name_gives_its_class_and_names_keep_their_order():
    registry = Registry("shape", {"text": "headway.errors:InputError", "addition": "headway.tasks.addition:Addition"})
    assert registry.names() == ("text", "addition")
    assert registry.get("addition") is Addition


def test_a_module_is_imported_only_when_its_name_is_asked_for():
    registry = Registry("shape", {"absent": "headway.no_such_module:Nothing"})
    assert registry.names() == ("absent",)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.get("absent")


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known_ones():
    words = r"^unknown task 'sortednes'; did you mean sortedness\? known: addition, addition-text, sortedness$"
    with pytest.raises(InputError, match=words):
        TASKS.get("sortednes")


def test_a_suggestion_lists_known_words_even_if_none_is_near():
    assert suggestion("rotry", ["rotary", "learned"]) == "did you mean rotary? known: learned, rotary"
    assert suggestion("zzz", ["rotary", "learned"]) == "known: learned, rotary"
    assert suggestion("zzz", []) == "none are known"


@pytest.mark.parametrize("name", TASKS.names())
def test_every_registered_task_bears_the_name_it_is_registered_under(name):
    assert TASKS.get(name).name == name
    assert isinstance(make_task(Choice(name=name)), TASKS.get(name))
