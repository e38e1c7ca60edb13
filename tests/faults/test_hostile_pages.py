"""Pages with hostile texts are inert; a text that runs, asks or complains is counted."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.rows.hostile_pages import (
    EVIL,
    PREPARE,
    TEXTS,
    explorer_of_a_run,
    folder_name,
    look,
    page_of_another_model,
    poisoned,
    prepare,
    report_of_a_run,
)

from headway.cli.options import escaped


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "whole"
    prepare(folder, ("evaluate run", *PREPARE[-2:]))
    return folder


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (explorer_of_a_run, TEXTS[1]),
        (page_of_another_model, TEXTS[3]),
        pytest.param(report_of_a_run, TEXTS[0], marks=pytest.mark.long),
    ],
)
def test_pages_with_hostile_texts_are_inert(
    make: Any, text: str, whole: Path, tab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(whole)
    pages = make(text, random.Random(3))
    assert pages
    assert [look(tab, page) for page in pages] == [[] for _ in pages]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<script>window.sprung=1</script>", "a text was run as code"),
        (f"<img src={EVIL}/x.png>", "request: http://evil.invalid"),
        ("<script>console.error('oops')</script>", "console: oops"),
        ("<script>nothing()</script>", "error: nothing is not defined"),
        ("<script>alert(1)</script>", "dialog: 1"),
    ],
)
def test_a_page_that_is_not_inert_is_counted(tab: Any, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "page.html").write_text(f"<!doctype html><title>a</title>{text}")
    assert problem in " ".join(look(tab, tmp_path / "page.html"))


def test_texts_are_put_everywhere_but_into_origins() -> None:
    document = {"run": "a", "rows": [{"set": "b", "n": 3}], "made_from": {"config": "c"}}
    assert poisoned(document, "x", random.Random(1), 1.1) != document
    assert poisoned(document, "x", random.Random(1), 1.1)["made_from"] == {"config": "c"}
    assert poisoned(document, "x", random.Random(1), 0) == document
    assert all(folder_name(text) not in ("", ".", "..") and "/" not in folder_name(text) for text in TEXTS)
    assert PREPARE and json.dumps(TEXTS)


def test_control_characters_are_written_out() -> None:
    assert escaped("a\x1b[31m\nb\t\u202ec") == "a\\x1b[31m\nb\t\\u202ec"
    assert escaped("größe 😀") == "größe 😀"
