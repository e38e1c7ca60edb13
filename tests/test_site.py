"""The documentation site: every page has its place, every public function is on the API page, tutorials run."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

import headway
import headway as hw
from tests.site_accessibility import complaints

DOCS = Path(headway.__file__).parents[2] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text()
    listed = {
        line.strip() for block in re.findall(r"```\{toctree\}(.*?)```", index, re.DOTALL) for line in block.split()
    }
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md") if "results" not in path.parts}
    assert {page for page in pages if not page.startswith("commands/")} - {"index"} <= listed


def test_every_public_function_is_on_the_api_page() -> None:
    named = re.findall(r"^\.\. autofunction:: headway\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(set(headway.__all__) - {"__version__"})


def tutorials_tool() -> Any:
    spec = importlib.util.spec_from_file_location("run_tutorials", DOCS / "tools/run_tutorials.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def carry_head(names: dict[str, Any]) -> None:
    assert names["accuracy"].wrong < 81 and names["accuracy"].disagreements == 0
    left = {step.left: step.accuracy for step in names["found"].joint.elimination.steps}
    assert len(names["cheap"]) > 12 and left[4] < 0.6
    assert max(row.rate for row in names["single"]) > 0.1


def your_own_model(names: dict[str, Any]) -> None:
    found = names["found"]
    assert found.baseline.accuracy > 0.99 and names["largest"] < 20 and names["right"] < 0.5
    rates = {row.who: row.rate for row in names["pairs"].rows}
    assert rates["encoder.0.self"] > 0.9 and rates["encoder.1.self"] > 0.9
    assert max(rates[head.name] for head in names["layer"]) < 0.3
    assert names["pruned"].parameters_after < names["pruned"].parameters_before


def break_and_prove(names: dict[str, Any]) -> None:
    assert names["test"].wrong < 20 and names["checks"][0][1]["open_contexts"] > 100
    assert names["proof"].answer == "proved" and names["proof"].margin > names["proof"].rounding.allowance


CLAIMS = {"carry-head": carry_head, "your-own-model": your_own_model, "break-and-prove": break_and_prove}
"""What the prose of a tutorial says of its results, as wide as another machine's rounding makes it."""


@pytest.mark.long
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_code_of_a_tutorial_runs_and_its_prose_holds(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block in order, in an empty folder; a block prints if the page shows something below it."""
    monkeypatch.chdir(tmp_path)
    tool = tutorials_tool()
    names, printed = tool.run(page)
    assert [bool(said) for said in printed] == [bool(said) for said in tool.shown(page)]
    CLAIMS[page.stem](names)
    assert all(f"figures/tutorials/{page.stem}-{name}" in page.read_text() for name in tool.DRAWN[page.stem])


def test_the_text_below_a_block_is_replaced_and_nothing_else() -> None:
    tool = tutorials_tool()
    for page in TUTORIALS:
        assert tool.rewritten(page, tool.shown(page)) == page.read_text()
    one = TUTORIALS[0]
    changed = tool.rewritten(one, ["new\n" if said else "" for said in tool.shown(one)])
    kept = [line for line in changed.splitlines() if line != "    new"]
    assert len(kept) < len(one.read_text().splitlines())
    assert [line for line in kept if line.startswith("#")] == re.findall(r"^#.*$", one.read_text(), re.MULTILINE)


def test_the_notebook_prunes_a_checkpoint_and_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every code cell in order, in one namespace, in an empty folder."""
    cells = json.loads((DOCS / "tutorials" / "any-model.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == 10
    assert not any(cell.get("outputs") for cell in cells)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for place, cell in enumerate(code):
        exec(compile(cell, f"cell {place}", "exec"), names)
    assert names["diagnosis"].errors == []
    assert len(names["chosen"]) >= 3
    assert names["pruned"].parameters_after < names["pruned"].parameters_before
    assert not {str(head) for head in hw.attach(names["smaller"]).heads} & set(names["chosen"])
    before, after = (names["accuracy"](names[model]) for model in ("model", "smaller"))
    assert before > 0.98 and after > before - 0.02
    page = (tmp_path / "report.html").read_text()
    assert all(str(head.name) in page for head in names["heads"].heads)


PLANTED = """<!doctype html><html lang="en"><title>a page</title>
<style>p { color: #999 } div { overflow: auto; width: 9em }
@media (prefers-color-scheme: dark) { body { background: #222; color: #333 } p { color: #eee } }</style>
<main><h1>Words</h1><p>too pale</p><img src="data:,">
<div><pre>a line that is wider than its frame, and scrolls</pre></div>
<label for="box">Toggle</label><input type="checkbox" id="box" hidden></main>"""


def test_planted_faults_of_a_page_are_named(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PLANTED)
    found = [one.removeprefix(f"{page}: ") for one in complaints(browser, [page])]
    kinds = {one.split(": ")[0] + ": " + one.split(": ")[1] for one in found}
    assert {"light: image-alt", "light: color-contrast", "light: scrollable-region-focusable"} <= kinds
    assert any(one.startswith("dark: color-contrast: <h1>") for one in found)
    assert any(one.startswith('not reached by Tab: <label for="box">') for one in found)
