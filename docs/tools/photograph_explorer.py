"""Take the picture of the explorer in README.md: the addition model that comes with headway, one head switched off.

python docs/tools/photograph_explorer.py [FILE]
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import headway as hw

CHROMIUM = "/usr/bin/chromium"
STATE = "#input=576+%2B+828&off=dec0.cross.h2&head=dec0.cross.h2"


def main() -> None:
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "figures" / "explorer.png"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "explorer.html"
        hw.explore(out=page_file)
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(f"{page_file.as_uri()}{STATE}")
        page.get_by_text("of 200, was 200").wait_for(timeout=60_000)
        page.screenshot(path=picture)
        browser.close()
    print(picture)


if __name__ == "__main__":
    main()
