"""Looks at every page of the built documentation with axe-core, in light and dark, and at what the keyboard reaches.

    python -m tests.site_accessibility build/docs

`make docs` runs it where there is a Chromium; with the variable CI set, it must be there.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.accessibility import LEVELS, axe, named
from tests.conftest import CHROMIUM

CONTRAST = """only => { const seen = new Map(), clear = "rgba(0, 0, 0, 0)";
    const says = one => [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    const style = one => getComputedStyle(one);
    for (const one of [...document.querySelectorAll("body *")].filter(one => says(one) && one.checkVisibility())) {
      let ground = one;
      while (ground.parentElement && style(ground).backgroundColor === clear) ground = ground.parentElement;
      const { color, fontSize, fontWeight, opacity } = style(one);
      const look = [color, style(ground).backgroundColor, fontSize, fontWeight, opacity, one.tagName].join();
      if (!seen.has(look)) seen.set(look, one);
    }
    return axe.run({ include: [...seen.values()] }, { runOnly: only, resultTypes: ["violations"] }); }"""
"""The contrast of one element for every look: its colours, its size and its tag."""
OTHERS = """only => axe.run(document, { runOnly: only, resultTypes: ["violations"],
    rules: { "color-contrast": { enabled: false } } })"""
"""All other rules; they do not depend on light and dark."""
NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
OURS = ("models.html",)
"""Pages with tests of their own: the explorer."""
SHORTER = "document.querySelectorAll('tbody tr:nth-child(n + 31)').forEach(row => row.remove())"
"""Rows past the thirtieth of a table, which are made as the first ones are: the page of result files has 1,200."""
UNREACHED = """() => [...document.querySelectorAll("a[href], button, input, select, summary, label[for], [onclick]")]
    .filter(one => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex < 0)
    .filter(one => !(one.matches("label") && one.control?.checkVisibility() && one.control.tabIndex >= 0))
    .filter(one => !one.closest("[aria-hidden=true]") && !one.matches("label.overlay"))
    .map(one => one.outerHTML.slice(0, 160))"""
"""Controls that a pointer can use and the Tab key cannot reach. A click beside a drawer does what Escape does."""


def complaints(browser: Any, pages: Sequence[Path]) -> Iterator[str]:
    """Every violation with its page."""
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce", color_scheme="light")
    tab = context.new_page()
    for page in pages:
        tab.set_viewport_size(WIDE)
        tab.goto(page.resolve().as_uri())
        tab.evaluate(SHORTER)
        tab.evaluate(axe())
        yield from (f"{page}: light: {one}" for one in named(tab.evaluate(OTHERS, LEVELS)))
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            yield from (f"{page}: {scheme}: {one}" for one in named(tab.evaluate(CONTRAST, ["color-contrast"])))
        yield from (f"{page}: not reached by Tab: {one}" for one in tab.evaluate(UNREACHED))
        tab.set_viewport_size(NARROW)
        yield from (f"{page}: narrow, not reached by Tab: {one}" for one in tab.evaluate(UNREACHED))
    context.close()


def shut_drawers(browser: Any, page: Path) -> Iterator[str]:
    """What is wrong with the theme's drawers on a narrow page, by keyboard alone."""
    tab = browser.new_page(viewport=NARROW, reduced_motion="reduce")
    tab.goto(page.resolve().as_uri())
    inside = tab.locator(".sidebar-drawer a").first
    if inside.is_visible():
        yield f"{page}: links of the closed drawer are reached by Tab"
    tab.focus("label.nav-overlay-icon")
    tab.keyboard.press("Enter")
    if not inside.is_visible():
        yield f"{page}: Enter does not open the drawer"
    tab.keyboard.press("Escape")
    if tab.locator("#__navigation").is_checked():
        yield f"{page}: Escape does not close the drawer"
    tab.close()


def main(folder: Path) -> int:
    if not CHROMIUM.exists() and not os.environ.get("CI"):
        print(f"no {CHROMIUM}: the pages were not looked at in a browser")
        return 0
    from playwright.sync_api import sync_playwright

    pages = [page for page in sorted(folder.rglob("*.html")) if page.name not in OURS and "_static" not in page.parts]
    assert len(pages) > 40, f"{folder} has {len(pages)} pages; the whole documentation needed"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        found = [*complaints(browser, pages), *shut_drawers(browser, folder / "index.html")]
        browser.close()
    print("\n".join(found) or f"{len(pages)} pages, light and dark: no violation of WCAG A or AA")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
