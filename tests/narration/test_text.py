"""Sentences of nodes: the same words on a terminal, in a page and in Markdown; every number keeps its place."""

from dataclasses import dataclass

import pytest

from headway.narration.numbers import count, highest, interval, number, percent, ratio, size, with_interval
from headway.narration.places import place_of, placed
from headway.narration.tables import Column, Table
from headway.narration.text import Missing, Strong, code, html, join, listed, markdown, quote, text, told
from headway.results.schema import fact


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str = fact("its name", key="head")
    verdict: str = fact("what it is")
    rate: float = fact("a share")
    ends: tuple[float, float] = fact("its interval", key="interval")


@dataclass(frozen=True, kw_only=True)
class Found:
    n: int = fact("examples")
    rows: tuple[Row, ...] = fact("rows", key="heads")
    settled: bool = fact("a switch", default=True)


ROWS = tuple(
    Row(name=f"enc0.h{i}", verdict="redundant" if i else "critical", rate=i / 3, ends=(0.25, 0.5)) for i in range(3)
)
FOUND = placed(Found(n=1200, rows=ROWS), "runs/0/heads")


def test_one_sentence_has_three_forms() -> None:
    sentence = text("{}: {} of {} <ok> {}", code(ROWS[0].name), number(1200), quote("a*b"), Strong("no"))
    assert str(sentence) == "enc0.h0: 1,200 of a*b <ok> no"
    assert html(sentence) == "<code>enc0.h0</code>: 1,200 of <q>a*b</q> &lt;ok&gt; <strong>no</strong>"
    assert markdown(sentence) == "`enc0.h0`: 1,200 of a\\*b &lt;ok&gt; **no**"


def test_what_stands_in_a_document_shows_its_place() -> None:
    row = FOUND.rows[2]
    assert html(number(row.rate, percent)) == (
        '<data value="0.6666666666666666" data-at="runs/0/heads/heads/2/rate">66.7 %</data>'
    )
    assert html(code(row.name)) == '<code data-at="runs/0/heads/heads/2/head">enc0.h2</code>'
    assert [node.place for node in interval(row.ends).nodes if not isinstance(node, str)] == [
        "runs/0/heads/heads/2/interval/0",
        "runs/0/heads/heads/2/interval/1",
    ]
    assert str(with_interval(row.rate, row.ends)) == "66.7 % (25 % to 50 %)"
    assert place_of(row.rate * 2) == "", "what is computed stands nowhere"


def test_what_is_counted_says_how() -> None:
    assert size(FOUND.rows).place == "size(runs/0/heads/heads)"
    assert count(FOUND.rows, "verdict", "redundant").place == "count(runs/0/heads/heads, verdict=redundant)"
    rates = [row.rate for row in FOUND.rows]
    assert highest(rates).place == f"highest({', '.join(f'runs/0/heads/heads/{i}/rate' for i in range(3))})"
    assert ratio(FOUND.n, FOUND.n).place == "ratio(runs/0/heads/n, runs/0/heads/n)"
    assert highest([*rates, 2.0]).place == "", "one of them stands nowhere"


def test_a_placed_document_is_the_same_document() -> None:
    assert Found(n=1200, rows=ROWS) == FOUND
    assert (type(FOUND.settled), isinstance(FOUND.n, int), isinstance(FOUND.rows, tuple)) == (bool, True, True)


def test_a_sentence_without_its_evidence_is_not_written() -> None:
    def missing() -> str:
        raise Missing("heads")

    assert [str(one) for one in told(lambda: "first", missing, lambda: {}["key"], lambda: None, lambda: "last")] == [
        "first",
        "last",
    ]


def test_a_template_wants_all_its_parts() -> None:
    with pytest.raises(ValueError, match="has 2 places for 1 parts"):
        text("{} and {}", "one")
    assert str(join("; ", ["a", text("{}", "{}")])) == "a; {}"
    assert (str(listed([])), str(listed(["a"]))) == ("", "a")


def test_a_table_is_described_once() -> None:
    rows = [[code(row.name), number(row.rate, percent)] for row in FOUND.rows[:2]]
    table = Table("Rates", [Column("head", numeric=False), Column("rate")], rows)
    assert table.lines() == ["head       rate", "enc0.h0     0 %", "enc0.h1  33.3 %"]
    assert table.markdown()[2] == "| `enc0.h0` | 0 % |"
    assert [cell.number for cell in table.cells[1]] == [None, FOUND.rows[1].rate]
