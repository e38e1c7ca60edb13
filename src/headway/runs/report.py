"""The directory of a report."""

from pathlib import Path

from headway.storage import MARKDOWN_MARK, replace_file


class ReportDirectory:
    """A report: index.html, report.md, and the figures that the second one shows."""

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
        """Whether this is the report of the run or study that it stands in, where headway alone writes."""
        return any((self.path.parent / mark).is_file() for mark in ("config.json", "study.json"))

    def write(self, page: str, markdown: str) -> None:
        """Put both in place, each atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.page, page.encode())
        replace_file(self.markdown, f"{MARKDOWN_MARK}\n\n{markdown}".encode())
