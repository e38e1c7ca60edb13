"""docs/result-files.md is what the types say."""

from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from headway.results.page import FILES, page
from headway.results.schema import described

DOCS = Path(__file__).parents[2] / "docs" / "result-files.md"


def test_the_page_is_made_from_the_types() -> None:
    assert DOCS.read_text() == page(), "run: python -m headway.results.page > docs/result-files.md"


@pytest.mark.parametrize("kind", FILES.values())
def test_every_field_says_what_it_means(kind: type) -> None:
    assert is_dataclass(kind) and fields(kind)
    silent = [path for path, _, _, meaning in described(kind) if not meaning.strip()]
    assert silent == []
