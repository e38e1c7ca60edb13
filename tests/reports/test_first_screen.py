"""The first screen of a report and its look: what was wrong with it once, in a real browser."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headway.reports import page, writing
from headway.reports.documents import documents_of, gather
from headway.reports.explorer_links import find_links
from headway.reports.importance import importance
from headway.reports.overview import overview
from headway.runs import ReportDirectory, RunDirectory
from tests.accessibility import violations
from tests.reports.documents import make_document
from tests.reports.made_up_runs import FINDINGS, make_run
from tests.reports.reading import Files, Page, complaints
from tests.results.made_up_values import typed

SIZES = [(1366, 768), (1280, 800), (390, 844)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose heads were analysed, in which two verdicts of a single ablation are not those of the head."""
    made = make_run(tmp_path_factory.mktemp("first") / "one", analyses=("evaluation", "heads", "doctor"))
    heads = made.read_analysis("heads") or {}
    for head, verdict in zip(heads["heads"], ["critical", "critical", "important"], strict=False):
        head["verdict"] = verdict
        head["ablation"]["zero"]["verdict"] = "undecided"
    made.replace_analysis("heads", heads)
    beside = ReportDirectory(made.path / "report")
    beside.path.mkdir(exist_ok=True)
    (beside.path / "explorer.html").write_text(explorer([{"name": "another", "step": 24}, {"name": "one", "step": 24}]))
    return made.path


def explorer(runs: list[dict[str, Any]]) -> str:
    """The part of an explorer's page that says which runs it holds."""
    data = json.dumps({"form": 1, "runs": runs})
    return f'<!doctype html><script type="application/json" id="data">{data}</script>'


@pytest.fixture(scope="module")
def report(run: Path) -> writing.Written:
    return writing.report(run)


@pytest.fixture(scope="module")
def html(report: writing.Written) -> str:
    return Path(report.page).read_text()


def opened(browser: Any, report: writing.Written, size: tuple[int, int], scheme: str = "light") -> Any:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce"
    )
    tab = context.new_page()
    tab.goto(Path(report.page).resolve().as_uri())
    return tab


# The answer


@pytest.mark.parametrize("size", SIZES[:2])
def test_the_first_screen_has_a_sentence_four_tiles_the_figure_and_the_live_model(
    browser: Any, report: writing.Written, size: tuple[int, int]
) -> None:
    tab = opened(browser, report, size)
    parts = [".headline", ".tiles li:nth-child(4)", "#answer figure.drawing .wide svg", "a.live"]
    bottoms = [tab.locator(part).bounding_box() for part in parts]
    assert all(box["y"] + box["height"] <= size[1] for box in bottoms)
    assert tab.locator(".tiles li").count() == 4
    tab.context.close()


def test_a_telephone_shows_the_sentence_and_the_tiles_first(browser: Any, report: writing.Written) -> None:
    tab = opened(browser, report, SIZES[2])
    box = tab.locator(".tiles li:nth-child(4)").bounding_box()
    assert box["y"] + box["height"] <= SIZES[2][1]
    tab.context.close()


def test_the_headline_is_one_short_sentence(html: str, run: Path) -> None:
    headline = re.sub(r"<.*?>", "", re.findall(r'<p class="headline">(.*?)</p>', html)[0])
    assert headline.count(". ") == 0
    assert len(re.findall(r"\d+(?:\.\d+)?", headline)) <= 5, "a paragraph of numbers stood here"
    assert headline.startswith("2 of 6 heads are critical; the 3 that cost under 1 point alone cost ")
    assert complaints(html, Files(run)) == []


def test_figures_count_the_verdicts_of_the_text(run: Path) -> None:
    found = typed(json.loads((run / "analysis" / "heads.json").read_text()))
    counts = {name: list(found.verdicts.values()).count(name) for name in found.verdicts.values()}
    assert counts["critical"] == 2
    for draw in (overview, importance):
        (legend,) = draw(found).legends
        shown = dict(re.fullmatch(r"(.*) \((\d+)\)", text.get_text()).groups() for text in legend.get_texts())  # type: ignore[union-attr, misc]
        assert {name: int(n) for name, n in shown.items()} == counts


@pytest.mark.parametrize(("n_layers", "n_heads", "more"), [(9, 3, 3), (5, 5, 1), (4, 6, 0)])
def test_the_heads_that_cost_most_are_on_the_first_screen(n_layers: int, n_heads: int, more: int) -> None:
    """Of 27 heads 24, and how many are left out."""
    found = typed(make_document(("encoder",), n_layers, n_heads))
    axes = next(axes for axes in overview(found).axes if axes.get_title(loc="left") == "One head removed")
    falling = sorted(found.heads, key=lambda head: -head.ablation["zero"].drop)
    assert [label.get_text() for label in axes.get_yticklabels()] == [head.name for head in falling[:24]]
    assert [bar.get_width() for bar in axes.patches] == [head.ablation["zero"].drop for head in falling[:24]]
    notes = [text.get_text() for text in axes.texts if text.get_text().endswith("more")]
    assert notes == [f"and {more} more"] * (more > 0)


def test_the_answer_does_not_say_no_warning_and_a_warning(tmp_path: Path) -> None:
    study = tmp_path / "one"
    made = make_run(study / "runs" / "seed0", analyses=("doctor",))
    fine = [one for one in FINDINGS if one["level"] == "fine"]
    made.replace_analysis("doctor", {**(made.read_analysis("doctor") or {}), "findings": fine})
    (study / "study.json").write_text(json.dumps({"experiment": "addition", "preset": "quick"}))
    (study / "analysis").mkdir()
    (study / "analysis" / "doctor.json").write_text(json.dumps({"runs": [], "together": [FINDINGS[1]]}))
    found = gather([study])
    told = writing.compose(found.documents, found.name)
    assert str(told.answer[-1]).endswith("the doctor finds no error; of the study as a whole, 1 warning.")
    assert (str(told.tiles[-1].value), told.tiles[-1].state) == ("no error", "warning")
    assert "not-yet-converged" in str(told.tiles[-1].remark)


def test_the_headline_of_lengths_is_short_and_names_what_an_attack_broke(tmp_path: Path) -> None:
    made = make_run(tmp_path / "one", analyses=("lengths", "attack"))
    found = gather([made])
    told = writing.compose(found.documents, found.name)
    assert str(told.headline) == (
        "Trained on 8 to 16 elements, it holds to 64 on every set; an attack found inputs that it gets wrong."
    )
    text = page.render(told, page.without_drawings(told))
    assert complaints(text, Files(made.path)) == []


def test_too_few_examples_are_no_finding_about_lengths(tmp_path: Path) -> None:
    """50 examples without an error begin at 92.9 %; a length is held from 99 % on."""
    for place in ("one", "two"):
        made = make_run(tmp_path / place, analyses=("lengths",))
        document = made.read_analysis("lengths") or {}
        made.replace_analysis(
            "lengths", document | {"n": 50, "length_held": 0, "held": dict.fromkeys(document["held"], 0)}
        )
    few = "shown to hold at any length, for which 50 examples are too few"
    for runs in (["one"], ["one", "two"]):
        found = gather([RunDirectory(tmp_path / place) for place in runs])
        told = writing.compose(found.documents, found.name)
        text = re.sub("<[^>]*>", "", page.render(told, page.without_drawings(told)))
        assert few in text
        assert "50 examples of a length are too few" in text


# Links


def test_names_of_heads_lead_into_the_explorer_with_the_head_removed(html: str, run: Path) -> None:
    found = typed(json.loads((run / "analysis" / "heads.json").read_text()))
    name = found.heads[0].name
    links = set(re.findall(r'<a class="head" href="([^"]*)"', html))
    assert f"explorer.html#run=1&amp;off={name}&amp;head={name}" in links, "the page has this run second"
    assert 'class="live" href="explorer.html"' in html
    assert f'<a href="explorer.html#run=1&amp;off={name}&amp;head={name}" tabindex="-1">' in html, "in the figure too"


def test_what_was_removed_together_is_removed_together_in_the_explorer(run: Path) -> None:
    found = gather([run])
    links = find_links(found.documents, found.place)
    assert links is not None
    row = found.documents.runs[0].heads.joint.removable[1]  # type: ignore[union-attr]
    name = row.heads[0]
    address = links(name, "runs/0/heads/joint/removable/1/heads/0")
    assert address == f"explorer.html#run=1&off={','.join(row.heads)}&head={name}"
    assert links(name, "runs/0/heads/interventions/contrasts/0/rows/2/who") == f"explorer.html#run=1&head={name}"
    assert links("no-head", "runs/0/heads/heads/0/head") is None
    assert links(name, "study/heads/runs/0/carry/0/heads/0/head") is None


@pytest.mark.parametrize(
    "content",
    ["nothing", explorer([{"name": "other", "step": 24}]), explorer([{"name": "one", "step": 9}]), explorer([])],
)
def test_a_page_of_another_run_or_checkpoint_is_not_linked(tmp_path: Path, content: str) -> None:
    made = make_run(tmp_path / "one", analyses=("heads",))
    place = ReportDirectory(made.path / "report")
    place.path.mkdir(exist_ok=True)
    (place.path / "explorer.html").write_text(content)
    assert find_links(gather([made]).documents, place) is None


def test_the_explorer_of_a_run_is_found_where_the_command_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = make_run(tmp_path / "runs" / "one", analyses=("heads",))
    Path("one-explorer.html").write_text(explorer([{"name": "one", "step": 24}]))
    links = find_links(gather([made]).documents, made.report)
    assert links is not None
    assert links.address == "../../../one-explorer.html"


# The look


def test_no_drawing_stays_white_in_the_dark(browser: Any, report: writing.Written) -> None:
    tab = opened(browser, report, SIZES[1], "dark")
    tab.evaluate("document.querySelectorAll('details').forEach(one => (one.open = true))")
    papers = tab.evaluate(
        """[...document.querySelectorAll('.drawing svg path:first-of-type')]
        .filter(path => path === path.closest('svg').querySelector('path')).map(path => getComputedStyle(path).fill)"""
    )
    assert len(papers) > 6
    assert set(papers) == {"rgb(22, 24, 27)"}
    assert tab.locator(".drawing img").count() == 0
    inks = tab.evaluate(
        "[...document.querySelectorAll('.drawing .wide text')].map(text => getComputedStyle(text).fill)"
    )
    assert "rgb(34, 34, 34)" not in inks, "ink of the light page"
    assert {"rgb(28, 28, 28)", "rgb(252, 252, 252)"} & set(inks), "on cells letters stay as they are"
    tab.context.close()


def test_a_telephone_sees_the_whole_cliff_and_is_told_where_there_is_more(
    browser: Any, report: writing.Written
) -> None:
    tab = opened(browser, report, SIZES[2])
    tab.evaluate("document.querySelectorAll('details').forEach(one => (one.open = true))")
    tab.wait_for_timeout(50)
    narrow = [one.bounding_box() for one in tab.locator(".drawing .narrow svg").all()]
    assert len(narrow) >= 4, "first screen, heads alone, heads together, training"
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in narrow)
    assert tab.locator(".drawing.two .wide >> visible=true").count() == 0
    cut = tab.evaluate(
        """[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)
        .map(one => one.dataset.more === 'right' && one.nextElementSibling.textContent)"""
    )
    assert cut
    assert set(cut) == {"Scroll sideways for the rest →"}
    tab.context.close()


def test_tables_fit_and_leave_rows_that_say_nothing_until_asked_for(browser: Any, report: writing.Written) -> None:
    tab = opened(browser, report, SIZES[1])
    table = tab.locator("#heads figure.table").first
    rows = table.locator("tbody tr >> visible=true")
    first = rows.count()
    assert 0 < first < 6, "redundant heads wait"
    assert tab.evaluate(
        "[...document.querySelectorAll('.scroll')].every(one => one.scrollWidth <= one.clientWidth + 1)"
    )
    assert table.locator("thead th >> visible=true").count() <= 6
    table.locator("button.whole").click()
    assert rows.count() == 6
    assert table.locator("thead th >> visible=true").count() > 6
    table.locator("button.whole").click()
    assert rows.count() == first
    tab.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_violates_no_criterion_of_wcag(browser: Any, report: writing.Written, scheme: str) -> None:
    tab = opened(browser, report, SIZES[1], scheme)
    tab.evaluate("document.querySelectorAll('details').forEach(one => (one.open = true))")
    assert violations(tab) == []
    tab.context.close()


def test_a_violation_would_be_seen(browser: Any, report: writing.Written) -> None:
    tab = opened(browser, report, SIZES[1])
    tab.evaluate("document.querySelector('.headline').style.color = '#eee'")
    assert any(one.startswith("color-contrast") for one in violations(tab))
    tab.context.close()


def test_text_of_a_drawing_stays_text(tmp_path: Path) -> None:
    from headway.reports.inline_svg import inline_svg

    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><text style="fill: #222222">&lt;b&gt;</text></svg>'
    made = inline_svg(svg, 'a "name"', "f0-", (1, 1))
    assert "<b>" not in made
    assert 'aria-label="a &#34;name&#34;"' in made
    assert '<text fill="#222222">&lt;b&gt;</text>' in made
    assert "style" not in made


def test_every_run_has_a_first_screen(tmp_path: Path) -> None:
    for name, analyses in {"bare": (), "long": ("lengths",), "both": ("heads", "lengths", "doctor")}.items():
        made = make_run(tmp_path / name, analyses=analyses)
        found = gather([made])
        told = writing.compose(found.documents, found.name)
        assert told.figure is not None
        assert 3 <= len(told.tiles) <= 4, name
        text = page.render(told, page.without_drawings(told))
        assert complaints(text, Files(made.path)) == []
        told.figure.draw()
    assert "Length held" in Page(text).text


def test_documents_without_runs_have_no_links() -> None:
    assert find_links(documents_of([]), ReportDirectory("nowhere")) is None
