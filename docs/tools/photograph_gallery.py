"""Take the pictures of docs/gallery.md that show pages: a report, and the explorer at an earlier step of training.

headway study addition --preset quick
headway train quick-addition --keep-every 100 --set train.steps=1500 --out runs/grown
headway heads runs/grown
headway heads runs/grown --over-training
python docs/tools/photograph_gallery.py studies/addition-quick runs/grown
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import headway as hw

CHROMIUM = "/usr/bin/chromium"
FIGURES = Path(__file__).parents[1] / "figures"
STEP = 600


def main() -> None:
    study, run = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        report = open_page(browser, study / "report" / "index.html", (1280, 720))
        report.screenshot(path=FIGURES / "report.png")
        explorer = open_page(browser, Path(str(hw.explore(run, out=Path(folder) / "page.html").page)), (1366, 940))
        explorer.evaluate("step => explorerPage.go({ at: step })", STEP)
        explorer.wait_for_timeout(500)  # until the picture of the whole computation is painted
        explorer.screenshot(path=FIGURES / "explorer-training.png")
        browser.close()


def open_page(browser: Any, page: Path, size: tuple[int, int]) -> Any:
    tab = browser.new_page(viewport=dict(zip(("width", "height"), size, strict=True)), reduced_motion="reduce")
    tab.goto(page.resolve().as_uri())
    return tab


if __name__ == "__main__":
    main()
