"""The page of the trained models that come with headway, as a newcomer opens it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.explorer.writing import explore
from tests.explorer.test_page import counted, show, state, watch

SIZE = {"width": 1366, "height": 768}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = explore(out=tmp_path_factory.mktemp("shipped") / "page.html")
    assert made.page
    assert made.bytes < 3_500_000
    return Path(made.page).resolve().as_uri()


@pytest.fixture(scope="module")
def problems() -> list[str]:
    return []


@pytest.fixture(scope="module")
def window(browser: Any, problems: list[str]) -> Iterator[Any]:
    opened = browser.new_page(viewport=SIZE, reduced_motion="reduce")
    watch(opened, problems)
    yield opened
    opened.close()


@pytest.fixture
def tab(window: Any, address: str, problems: list[str]) -> Iterator[Any]:
    show(window, address)
    yield window
    assert problems == []


def outside(tab: Any, selectors: list[str]) -> list[str]:
    """What is not wholly on the first screen."""
    found: list[str] = tab.evaluate(
        """selectors => selectors.flatMap(one => [...document.querySelectorAll(one)].filter(element => {
          const { top, bottom, left, right } = element.getBoundingClientRect();
          return top < 0 || left < 0 || bottom > innerHeight || right > innerWidth;
        }).map(element => element.dataset.head || one))""",
        selectors,
    )
    return found


def test_every_shipped_model_opens_with_its_pairs(tab: Any) -> None:
    for run in range(tab.evaluate("explorerPage.runs.length")):
        tab.evaluate("run => explorerPage.choose(run)", run)
        assert "✓ right" in tab.text_content("#said")
        assert tab.locator(".layer-line b").first.text_content() == "Encoder layer 0"
        tab.select_option("#patch-pair", index=1)
        tab.wait_for_selector("#patch-result .told")


def test_a_newcomer_sees_the_accuracy_fall_in_one_action(tab: Any) -> None:
    assert tab.locator("#grid .open").count() == 24
    assert outside(tab, ["#grid .tile", "#paper", "#accuracy", "#show-head", "#show-cliff"]) == []
    assert "1" in tab.locator("#paper .carry").all_text_contents(), "a sum with carries"
    before = (tab.text_content("#said"), tab.locator("#paper .answer").all_text_contents())
    assert counted(tab) == "200 of 200"
    assert tab.locator("#arcs.lit").count() == 0
    tab.click("#show-head")
    head = state(tab)["off"]
    carries = tab.evaluate("explorerPage.run.analysis.carries.filter(one => one.rate > 0.5).map(one => one.head)")
    assert len(head) == 1 and head[0] in carries, "the head that the analysis found to carry the carry"
    assert tab.locator("#paper .answer").all_text_contents() != before[1]
    assert "✗ wrong, was " in tab.text_content("#said")
    assert tab.locator("#arcs.lit path").count() > 2 and tab.locator("#large-lines.lit path").count() > 2
    assert counted(tab).endswith("of 200, was 200")
    right = int(counted(tab).split()[0])
    assert right < 150
    filled, whole = tab.evaluate(
        "['accuracy-fill', 'accuracy-meter'].map(one => document.getElementById(one).clientWidth)"
    )
    assert filled / whole == pytest.approx(right / 200, abs=0.01)
    share = tab.text_content("#accuracy-share")
    tab.locator("#show-said", has_text="Accuracy falls").wait_for()
    assert tab.text_content("#show-said").endswith(f"from 100.0\u00a0% to {share}.")
    assert tab.text_content("#show-head") == f"Put {head[0]} back"
    tab.click("#show-head")
    assert state(tab)["off"] == [] and tab.text_content("#said") == before[0]


@pytest.mark.parametrize("width", [390, 1280, 1366])
def test_no_number_of_a_head_is_cut_off(tab: Any, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 800})
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
    assert "−50" in tab.locator("#grid .found").all_text_contents()
    assert tab.locator("#grid .found").evaluate_all(cut) == []
    tab.set_viewport_size(SIZE)


def test_harmless_heads_are_removed_until_the_accuracy_breaks(tab: Any) -> None:
    order = tab.evaluate("explorerPage.run.analysis.elimination")
    cliff = next(index for index, step in enumerate(order) if step["drop"] >= 10)
    assert cliff > 8
    tab.click("#show-cliff")
    assert tab.text_content("#show-cliff") == "Stop"
    tab.locator("#show-said", has_text="one too many").wait_for()
    points = tab.evaluate("explorerPage.show_.points.map(point => point.share)")
    assert state(tab)["off"] == [step["removed"] for step in order[: cliff + 1]]
    assert len(points) == cliff + 2
    for share, step in zip(points[1:], order, strict=False):  # 200 stored examples, 1,000 others in the analysis
        assert share == pytest.approx(step["exact_match"], abs=0.1)
    assert points[-1] < 0.9 < points[-4]
    tab.click("#undo")
    assert state(tab)["off"] == [], "one change to undo"
    tab.click("#show-cliff")
    tab.locator("#show-chart circle").nth(2).wait_for()
    tab.click("#show-cliff")
    tab.locator("#show-cliff", has_text="Remove").wait_for()
    assert len(state(tab)["off"]) < cliff


def test_no_column_of_the_first_screen_is_left_empty(tab: Any) -> None:
    heights = tab.locator("#grid .stack").evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    assert len(heights) == 2
    own = tab.evaluate(
        "[...document.querySelectorAll('#grid .stack')].map(one => one.lastElementChild.getBoundingClientRect().bottom)"
    )
    assert min(own) / max(own) > 0.8


def test_a_sortedness_model_stands_beside_its_twin_and_a_counterexample(tab: Any) -> None:
    tab.evaluate("explorerPage.choose(1)")
    tab.wait_for_selector("#chart .other")
    own, [other] = tab.evaluate("""[explorerPage.sequence.chart.points,
        explorerPage.sequence.chart.others().map(([run, points]) => [run.name, points])]""")
    assert other[0] == "sortedness-learned-seed0"
    past = [point for point in other[1] if point["length"] > 16]
    assert all(point["share"] > 0.5 for point in own) and all(point["share"] < 0.5 for point in past)
    assert all(point["share"] > 0.5 for point in other[1] if 8 <= point["length"] <= 16)
    for _ in range(tab.evaluate("explorerPage.run.failing.length")):
        tab.click("#failing")
        assert "✗ wrong" in tab.text_content("#said")
        assert state(tab)["off"] == []
    assert tab.locator("#grid .tile").count() == 4 and outside(tab, ["#elements", "#accuracy", "#class-verdict"]) == []


def test_every_control_is_reached_by_the_keyboard(tab: Any) -> None:
    """By Tab, or by arrows inside a group that Tab reaches; the switches of the tiles by X."""
    stuck = """() => [...document.querySelectorAll("button, input, select, a[href], summary, [role=switch]")]
        .filter(one => one.checkVisibility() && !one.disabled && one.tabIndex < 0 && !one.matches(".switch"))
        .filter(one => !one.closest("#grid, #tokens, #elements")?.querySelector("[tabindex='0']"))
        .map(one => one.outerHTML)"""
    assert tab.evaluate(stuck) == []
    tab.focus("#input")
    order = []
    for _ in range(80):
        tab.keyboard.press("Tab")
        order.append(tab.evaluate("document.activeElement.id || document.activeElement.dataset.head || ''"))
        if order[-1] == "patch-pair":
            break
    for control in ("another", "first-step", "keep", "large-switch", "large-map", "patch-head", "patch-from"):
        assert control in order, control
    tab.focus("#show-head")
    tab.keyboard.press("Enter")
    assert len(state(tab)["off"]) == 1
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "show-cliff"
