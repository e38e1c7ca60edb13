"""Runs the code of the tutorials, writes what it prints below each block, and draws their figures.

    PYTHONPATH=src python docs/tools/run_tutorials.py                     # all of them
    PYTHONPATH=src python docs/tools/run_tutorials.py your-own-model

A block of Python is followed by what it prints, indented by four spaces; a block that prints nothing is followed by
nothing. The figures are drawn from the names that the blocks define.
"""

import argparse
import io
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from headway.reports.interventions import interventions
from headway.reports.overview import overview
from headway.reports.panels import drawing, new_figure
from headway.reports.style import BLUE, RED, style, svg_of
from headway.reports.weights import head_sheet

DOCS = Path(__file__).resolve().parents[1]
TUTORIALS = DOCS / "tutorials"
FIGURES = DOCS / "figures" / "tutorials"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n(?P<shown>(?: {4}[^\n]*\n)+))?", re.MULTILINE | re.DOTALL)
Names = dict[str, Any]


def run(page: Path) -> tuple[Names, list[str]]:
    """The names that the page's blocks define, run in order in one namespace, and what each block prints."""
    names: Names = {"__name__": page.stem}
    printed = []
    for block in BLOCK.finditer(page.read_text()):
        with redirect_stdout(io.StringIO()) as said:
            exec(compile(block["code"], page.name, "exec"), names)
        printed.append(said.getvalue())
    return names, printed


def shown(page: Path) -> list[str]:
    """What the page says that each block prints."""
    return [_dedented(block["shown"] or "") for block in BLOCK.finditer(page.read_text())]


def rewritten(page: Path, printed: list[str]) -> str:
    """The page with the printed text below each block."""
    waiting = iter(printed)

    def replaced(block: re.Match[str]) -> str:
        said = next(waiting)
        below = "".join(f"    {line}\n" for line in said.splitlines())
        return f"```python\n{block['code']}```\n" + (f"\n{below}" if below else "")

    return BLOCK.sub(replaced, page.read_text())


def _dedented(text: str) -> str:
    return "".join(line[4:] for line in text.splitlines(keepends=True))


# Figures


@drawing
def open_contexts(names: Names, *, narrow: bool = False) -> Figure:
    """Contexts that a proof leaves open, and wrong validation examples, at each validation of the guided run."""
    steps = [step for step, _ in names["checks"]]
    left = [check["open_contexts"] for _, check in names["checks"]]
    wrong = [round((1 - check["accuracy"]) * names["small"]["data.validation"]) for _, check in names["checks"]]
    figure = new_figure("", narrow=narrow)
    axes = figure.subplots(1, 1, squeeze=False, width_ratios=[4.6], height_ratios=[2.0])[0, 0]
    axes.plot(steps, left, color=BLUE, marker="o", label="contexts that a proof leaves open")
    axes.plot(steps, wrong, color=RED, marker="s", linestyle="--", label="wrong validation examples, of 500")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=-0.2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel("training step")
    axes.set_ylabel("number")
    axes.legend(frameon=False)
    return figure


DRAWN: Mapping[str, Mapping[str, Callable[[Names], Figure]]] = {
    "carry-head": {
        "heads.svg": lambda names: overview(names["found"]),
        "patching.svg": lambda names: interventions(names["found"], "carry"),
    },
    "your-own-model": {
        "heads.svg": lambda names: overview(names["found"]),
        "maps.png": lambda names: head_sheet(names["found"], 0),
    },
    "break-and-prove": {"open.svg": open_contexts},
}
"""The figures of each tutorial."""


def draw(page: str, names: Names) -> list[Path]:
    FIGURES.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in DRAWN[page].items():
        paths.append(FIGURES / f"{page}-{name}")
        if name.endswith(".svg"):
            paths[-1].write_text(svg_of(figure(names)))
        else:  # of many cells, for which a drawing would be larger
            with style():
                figure(names).savefig(paths[-1], dpi=110, metadata={"Software": None})
    return paths


@contextmanager
def empty_folder() -> Any:
    """A working directory of its own: tutorials write runs and pages beside themselves."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "pages", nargs="*", metavar="PAGE", help=f"some of {', '.join(sorted(DRAWN))}; without one, all"
    )
    for name in parser.parse_args().pages or sorted(DRAWN):
        page = TUTORIALS / f"{name}.md"
        with empty_folder():
            names, printed = run(page)
        page.write_text(rewritten(page, printed))
        print(page, *draw(name, names))


if __name__ == "__main__":
    main()
