"""The page of the trained models that come with headway, as a newcomer opens it."""

from pathlib import Path
from typing import Any

import pytest

from headway.explorer.writing import explore
from tests.explorer.test_page import show, watch


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = explore(out=tmp_path_factory.mktemp("shipped") / "page.html")
    assert made.page
    assert made.bytes < 3_500_000
    return Path(made.page).resolve().as_uri()


def test_every_shipped_model_opens_with_its_pairs(browser: Any, address: str) -> None:
    problems: list[str] = []
    tab = browser.new_page(viewport={"width": 1366, "height": 768}, reduced_motion="reduce")
    watch(tab, problems)
    show(tab, address)
    for run in range(tab.evaluate("explorerPage.runs.length")):
        tab.evaluate("run => explorerPage.choose(run)", run)
        assert "✓ right" in tab.text_content("#said")
        assert tab.locator(".stack h3").first.text_content() == "Encoder"
        tab.select_option("#patch-pair", index=1)
        tab.wait_for_selector("#patch-result .told")
    assert problems == []
    tab.close()
