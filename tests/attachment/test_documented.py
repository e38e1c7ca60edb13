"""The code of docs/attach.md runs, in its order, and prints what the page shows."""

import re
from pathlib import Path

import pytest

import headway

PAGE = Path(headway.__file__).parents[2] / "docs" / "attach.md"


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, namespace = PAGE.read_text(), {}  # type: ignore[var-annotated]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), namespace)
    for line in capsys.readouterr().out.splitlines():
        assert f"    {line}\n" in text
    assert str(namespace["hw"].attach(namespace["smaller"]).heads[0]) == "dec0.self.h0"
    assert len(namespace["found"].heads) == 8
