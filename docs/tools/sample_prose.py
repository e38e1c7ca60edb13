"""Print random docstrings of the package and random sentences of docs and pages, to be judged by a reader.

    python docs/tools/sample_prose.py --seed 1 --n 60

A docstring or sentence passes if a student who knows transformers understands it on the first reading. The same seed
and the same files give the same sample.
"""

import argparse
import ast
import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPED = {"log.md"}  # a log keeps the words of its day
FEWEST_WORDS = 5


def docstrings() -> Iterator[tuple[str, str]]:
    """Every text that stands alone as a statement: of modules, classes, functions and constants."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value.value


def sentences() -> Iterator[tuple[str, str]]:
    """Sentences of the Markdown files, of the pages' HTML and of the texts in their scripts."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.name not in SKIPPED:
            text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
            yield from _split(path, "\n\n".join(_paragraphs(text)))
    for path in sorted((ROOT / "src").rglob("*.html")):
        reader = _Texts()
        reader.feed(path.read_text())
        yield from _split(path, "\n\n".join(reader.texts))
    for path in sorted((ROOT / "src").rglob("*.js")):
        yield from _split(path, "\n\n".join(a or b for a, b in TEXT_IN_SCRIPT.findall(path.read_text())))


TEXT_IN_SCRIPT = re.compile(r'"([A-Z][^"\n]{30,})"|`([A-Z][^`\n]{30,})`')


def _paragraphs(text: str) -> Iterator[str]:
    """Prose, list items and table cells; no headings, code or pictures."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if not line.startswith(("#", "    ", "!["))]
        if lines and lines[0].lstrip().startswith("|"):
            for line in lines:
                yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line))
        else:
            yield from re.split(r"\n(?=\s*[-*0-9]+[.]? )", "\n".join(lines))


def _split(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for paragraph in text.split("\n\n"):
        for sentence in re.split(r"(?<=[.?!:;])\s+(?=[A-Z`*\[])", " ".join(paragraph.split())):
            if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= FEWEST_WORDS:
                yield str(path.relative_to(ROOT)), sentence


class _Texts(HTMLParser):
    """The texts between tags, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.texts.append(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=60, help="docstrings, and sentences")
    options = parser.parse_args()
    for kind, found in (("docstrings", list(docstrings())), ("sentences", list(sentences()))):
        chosen = random.Random(options.seed).sample(found, options.n)
        print(f"# {options.n} of {len(found):,} {kind}, seed {options.seed}\n")
        for number, (place, text) in enumerate(chosen, 1):
            print(f"{number}. {place}\n   {text.strip()}\n")


if __name__ == "__main__":
    main()
