"""The page and the file about planted bugs."""

from pathlib import Path

from tests.mutants.catalogue import Mutant
from tests.mutants.judging import Verdict


def share_noticed(judged: list[tuple[Mutant, Verdict]]) -> tuple[int, int]:
    return sum(verdict.seen for _, verdict in judged), len(judged)


def write_page(judged: list[tuple[Mutant, Verdict]], docs: Path) -> None: ...
