"""The documentation site: every page has its place, every public function is on the API page, tutorials run."""

import re
from pathlib import Path

import pytest

import headway

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
