"""A registry finds classes by name and helps with a name it does not know."""

import sys
from pathlib import Path

import pytest

from headway.config import Choice
from headway.errors import InputError, suggestion
from headway.registry import Registry
from headway.tasks import TASKS, make_task
from headway.tasks.addition import Addition


def test_a_name_gives_its_class_and_names_keep_their_order():
    registry = Registry(
        "shape", "builtins:object", {"text": "headway.errors:InputError", "addition": "headway.tasks.addition:Addition"}
    )
    assert registry.names() == ("text", "addition")
    assert registry.get("addition") is Addition


def test_a_module_is_imported_only_when_its_name_is_asked_for():
    registry = Registry("shape", "builtins:object", {"absent": "headway.no_such_module:Nothing"})
    assert registry.names() == ("absent",)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.get("absent")


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known_ones():
    words = (
        r"^unknown task 'sortednes'; did you mean sortedness\? "
        r"known: addition, addition-text, copy, parity, sortedness, sorting, or package.module:Class$"
    )
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


OUTSIDE = """
from headway.tasks.copy import Copy

class Twice(Copy):
    name = "twice"

not_a_class = 3
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the current folder, which is not on the path."""
    (tmp_path / "outside_tasks.py").write_text(OUTSIDE)
    (tmp_path / "broken_tasks.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    for module in ("outside_tasks", "broken_tasks"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


@pytest.mark.usefixtures("outside")
def test_a_class_from_outside_is_found_by_its_module_and_name():
    found = TASKS.get("outside_tasks:Twice")
    assert found.name == "twice"
    assert isinstance(make_task(Choice(name="outside_tasks:Twice", options={"values": 3})), found)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_package.tasks:Copy", "task 'no_such_package.tasks:Copy': no module named 'no_such_package'; install"),
        ("outside_tasks:Thrice", "task 'outside_tasks:Thrice': module outside_tasks has no Thrice"),
        (
            "outside_tasks:not_a_class",
            "task 'outside_tasks:not_a_class' is not a task; a class that derives from headway",
        ),
        (
            "headway.model.encodings.base:Encoding",
            "is not a task; a class that derives from headway.tasks.base.Task needed",
        ),
        ("broken_tasks:Copy", r"its module cannot be imported \(ZeroDivisionError: division by zero\)"),
        ("outside tasks:Copy", "is not the name of a class; package.module:Class needed"),
        (":", "is not the name of a class; package.module:Class needed"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(name: str, words: str):
    with pytest.raises(InputError, match=words) as refused:
        TASKS.get(name)
    assert "\n" not in str(refused.value)


def test_an_installed_package_gives_its_names_by_entry_points(outside: Path, monkeypatch: pytest.MonkeyPatch):
    place = outside / "outside-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text("[headway.tasks]\ntwice = outside_tasks:Twice\n")
    monkeypatch.syspath_prepend(str(outside))
    assert TASKS.get("twice").name == "twice"
    with pytest.raises(InputError, match="did you mean twice"):
        TASKS.get("twise")
