"""The directory of a report."""

from pathlib import Path

from headway.results.schema import Document
from headway.storage import MARKDOWN_MARK, replace_file, write_json


class ReportDirectory:
    """A report: index.html, report.md and the figures of the latter."""

    def __init__(self, path: Path | str):
        self.path = Path(path)

    @property
    def page(self) -> Path:
        return self.path / "index.html"

    @property
    def markdown(self) -> Path:
        return self.path / "report.md"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    def is_own(self) -> bool:
        """Whether this is the report directory of a run or study, to which only headway writes."""
        return any((self.path.parent / mark).is_file() for mark in ("config.json", "study.json", "model.json"))

    def write(self, page: str, markdown: str) -> None:
        """Write both files, each atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.page, page.encode())
        replace_file(self.markdown, f"{MARKDOWN_MARK}\n\n{markdown}".encode())

    def write_document(self, name: str, document: Document) -> None:
        """Write a result beside the page, atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / name, document.to_json(), seal=False)
