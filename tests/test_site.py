"""The documentation site: every page has its place, every public function is on the API page, tutorials run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import headway
import headway as hw

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


@pytest.mark.long
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_code_of_a_tutorial_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, page.name, "exec"), namespace)


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
