"""Explorer and report in Debian's Firefox: they open from disk without a complaint, and a head is switched off."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.explorer.writing import explore
from headway.reports.writing import report
from tests.firefox import FIREFOX, Firefox, firefox
from tests.reports.made_up_runs import make_run


@pytest.fixture(scope="module")
def window() -> Iterator[Firefox]:
    if not FIREFOX.exists() and not os.environ.get("CI"):
        pytest.skip(f"no {FIREFOX}: the pages were not looked at in Firefox")
    with firefox() as opened:
        yield opened


@pytest.fixture
def tab(window: Firefox) -> Firefox:
    window.problems.clear()
    return window


def test_a_head_is_switched_off_and_the_accuracy_changes(tab: Firefox, tmp_path: Path) -> None:
    page = explore(out=tmp_path / "page.html").page
    tab.open(Path(str(page)).resolve().as_uri())
    tab.wait_for("document.body.dataset.ready && document.body.dataset.counted === 'yes'")
    words = "document.getElementById('accuracy-words').textContent"
    said = "document.getElementById('said').textContent"
    before = tab.evaluate(said)
    assert tab.evaluate(words) == "200 of 200" and before.endswith("✓ right")
    tab.click("#show-head")
    tab.wait_for("explorerPage.state.off.length === 1 && document.body.dataset.counted === 'yes'")
    assert tab.evaluate(words).endswith("of 200, was 200") and int(tab.evaluate(words).split()[0]) < 150
    assert tab.evaluate(said) != before
    head = tab.evaluate("explorerPage.state.off[0]")
    tab.click(f'[data-head="{head}"] + .switch')
    tab.wait_for("explorerPage.state.off.length === 0")
    assert tab.evaluate(words) == "200 of 200" and tab.evaluate(said) == before
    assert tab.problems == []


def test_a_report_shows_its_answer_and_opens_its_tables(tab: Firefox, tmp_path: Path) -> None:
    made = report(make_run(tmp_path / "sums", analyses=("evaluation",)).path)
    tab.open(Path(made.page).resolve().as_uri())
    assert tab.evaluate("document.querySelector('svg').getBoundingClientRect().width") > 200
    assert tab.evaluate("document.querySelectorAll('details').length") > 0
    tab.click("details > summary")
    assert tab.evaluate("document.querySelector('details').open")
    assert tab.problems == []


def test_a_planted_complaint_is_seen(tab: Firefox, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>a page</title><script>console.error('one'); missing();</script>")
    tab.open(page.as_uri())
    tab.evaluate("1")
    assert [one.split(":")[0] for one in tab.problems] == ["error", "error"]
    assert "missing is not defined" in tab.problems[1]
