"""How results display in a notebook."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headway as hw
from headway import notebook_progress
from headway.notebook_progress import bar_html, with_bars
from headway.reports import writing
from headway.reports.notebook import display
from headway.reports.writing import Written
from headway.results.doctor import Diagnosis
from headway.results.evaluation import SequenceEvaluation
from headway.results.lengths import Lengths
from headway.results.schema import read
from tests.reports.documents import make_document
from tests.reports.length_documents import lengths_document
from tests.reports.made_up_runs import FINDINGS, attack_document, doctor_document, evaluation_document
from tests.results.made_up_values import typed

VOID = {"br", "img", "meta"}


class Balanced(HTMLParser):
    """Raises where an element is closed that was not opened."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown(found: Any) -> str:
    text = found._repr_html_()
    assert isinstance(text, str)
    Balanced(text)
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="(?!#|studies|data:)', text), "nothing outside the notebook"
    return text


def test_heads_have_intervals_colours_the_cliff_and_maps() -> None:
    found = typed(make_document(n_layers=1, n_heads=2, wrong=3))
    text = shown(found)
    assert re.search(r'<span class="aside">\(.* to .*\)</span>', text), "intervals"
    assert 'style="background:#d55e00' in text or 'style="background:#e69f00' in text, "a verdict on its colour"
    assert text.count("<svg") == 2, "the overview and the maps"
    assert "What each head attends to" in text
    assert all(head.name in text for head in found.heads)


def test_lengths_have_their_curve_and_their_table() -> None:
    found = read(Lengths, lengths_document(sets=("swaps", "adjacent"), lengths=(8, 16, 32, 64)), "lengths.json")
    text = shown(found)
    assert "holds to" in text
    assert text.count("<svg") == 1
    assert "<th>64</th>" in text


def test_the_doctor_shows_what_is_wrong_and_folds_what_is_fine() -> None:
    text = shown(read(Diagnosis, doctor_document(Path("run"), FINDINGS), "doctor.json"))
    before, folded = text.split("<details>")
    assert "first-token-never-predicted" in before and "not-yet-converged" in before
    assert "splits-overlap" not in before, "31 rows of fine stood here"
    assert "splits-overlap" in folded
    assert text.index("#c45200") < text.index("#9a6f00"), "errors before warnings, each in its colour"


def test_evaluations_attacks_and_reports_have_a_display() -> None:
    evaluation = read(SequenceEvaluation, evaluation_document(3)["all"], "evaluation.json")
    assert "5 8 + 5 3" in shown(evaluation)
    assert "9 1 1 1 1 1 1 1" in shown(attack_document(Path("run")))
    written = Written(
        page="studies/a/index.html",
        markdown="",
        figures=[],
        bytes=0,
        sections=[],
        answer=[],
        left_out=[],
        headline="2 of 24 heads are <critical>.",
        tiles=[["Doctor", "no error", "", "fine"]],
    )
    text = shown(written)
    assert "&lt;critical&gt;" in text and "no error" in text


def test_what_has_no_display_is_left_to_its_repr() -> None:
    assert display(3) is None


def test_a_census_has_no_interval() -> None:
    evaluation = read(SequenceEvaluation, evaluation_document(3)["all"], "evaluation.json")
    text = shown(evaluation)
    assert "All 8,100" in text
    assert "interval" not in text, "all were asked"
    assert "99.81 % to" not in text


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A notebook's kernel, as far as a bar needs it; what it shows."""
    seen: list[str] = []
    handle = SimpleNamespace(update=lambda html: seen.append(html))
    fake = SimpleNamespace(HTML=lambda text: text, display=lambda html, display_id: (seen.append(html), handle)[1])
    for name, module in (("ipykernel", SimpleNamespace()), ("IPython", SimpleNamespace()), ("IPython.display", fake)):
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    monkeypatch.setattr(notebook_progress, "EVERY", 0.0)
    return seen


def test_a_bar_follows_the_work_and_disappears(kernel: list[str]) -> None:
    def work(n: int, *, progress: Any = None, on_event: Any = None) -> int:
        for done in range(1, n + 1):
            progress("maps", done, n)
        on_event({"event": "training", "run": "seed0", "told": {"event": "step", "step": 7, "total": 9}})
        return n

    assert with_bars(work)(3) == 3
    assert [re.findall(r'value="(\d+)" max="(\d+)"', one) for one in kernel[:4]] == [
        [("1", "3")],
        [("2", "3")],
        [("3", "3")],
        [("7", "9")],
    ]
    assert kernel[-2:] == ["", ""], "both bars are removed"
    assert "maps" in kernel[0] and "seed0" in kernel[3]
    quiet: list[Any] = []
    with_bars(work)(1, progress=lambda *told: quiet.append(told), on_event=quiet.append)
    assert len(kernel) == 6 and len(quiet) == 2, "a callback that is given is used"


def test_public_functions_have_bars_in_a_notebook_alone(kernel: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with_bar = hw.report
    assert with_bar.__name__ == "report"
    monkeypatch.delitem(sys.modules, "ipykernel")
    assert hw.report is not with_bar
    assert hw.report is hw.report and hw.report.__wrapped__ is writing.report


def test_a_note_stays_text() -> None:
    assert "<b>" not in bar_html("heads", 1, 2, "<b>")
