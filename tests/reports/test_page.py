"""The report of a run: every number stands in the files, text stays text, and a real browser shows it."""

import doctest
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from headway import self_contained_html
from headway.cli.main import run as cli
from headway.errors import InputError
from headway.length_analysis.seed_summary import together
from headway.narration import method
from headway.narration.tables import Table
from headway.reports import page, writing
from headway.reports.documents import Documents, RunDocuments, gather
from headway.reports.page import blocks_of
from headway.reports.sections import seeds
from headway.reports.sections.methods import everywhere
from headway.results.analysed_model import AnalysedModel
from headway.results.heads_study import HeadsStudy
from headway.results.lengths import RowOverSeeds, SetOverSeeds
from headway.results.schema import read, write
from headway.results.study import MeasuredRun
from headway.runs import RunDirectory
from headway.storage import write_json
from tests.reports.length_documents import lengths_document
from tests.reports.made_up_runs import FINDINGS, doctor_document, make_run
from tests.reports.mechanism_documents import mechanism_document
from tests.reports.reading import Files, Page, complaints
from tests.results.made_up import length_study, study_cell
from tests.results.made_up_values import filled
from tests.tiny import ADDITION, config

NASTY = 'a<img src=x onerror="alert(1)">&b'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """A run with every kind of finding, whose name and tokens try to be HTML."""
    made = make_run(folder / NASTY)
    heads = made.read_analysis("heads")
    assert heads
    heads["capture"]["examples"][0]["source"][3] = "</script>"
    made.replace_analysis("heads", heads)
    return made.path


@pytest.fixture(scope="module")
def report(run: Path) -> writing.Written:
    return writing.report(run)


@pytest.fixture(scope="module")
def html(report: writing.Written) -> str:
    return Path(report.page).read_text()


# Numbers


def test_every_number_of_the_page_stands_in_the_files(run: Path, html: str) -> None:
    assert complaints(html, Files(run)) == []
    numbers = [piece for piece in Page(html).pieces if piece[0] == "data"]
    assert len(numbers) > 200


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ("Findings of the doctor</h2>", "Findings of 42 doctors</h2>", "without a place"),
        (">8,100</data>", ">8,200</data>", "stands for runs/0/evaluation/all/n, which is 8100"),
        ('data-at="runs/0/evaluation/all/n"', 'data-at="runs/0/evaluation/all/m"', "is not in the files"),
        ("Train longer.", "Train for longer.", "is quoted from"),
        ("quick-addition --seed 0", "quick-addition --seed 77", "'77' of the command is in no file"),
    ],
)
def test_a_number_that_is_not_in_the_files_would_be_seen(
    run: Path, html: str, before: str, after: str, word: str
) -> None:
    assert before in html
    assert word in " ".join(complaints(html.replace(before, after), Files(run)))


def test_the_markdown_has_no_number_that_the_page_has_not(report: writing.Written, html: str) -> None:
    text = re.sub(r"!\[.*?\]\(.*?\)|`+[^`]*`+|```sh.*?```", "", Path(report.markdown).read_text(), flags=re.DOTALL)
    shown = set(re.findall(r"\d[\d.,]*\d|\d", Page(html).text))
    assert set(re.findall(r"\d[\d.,]*\d|\d", text)) - shown == set()


def test_the_fixed_numbers_of_the_methods_are_those_of_the_analysis() -> None:
    from headway.head_analysis.verdicts import CRITICAL, IMPORTANT
    from headway.statistics import ENOUGH_SEEDS

    fixed = method.METHOD
    assert fixed.enough_seeds == ENOUGH_SEEDS
    assert (fixed.critical_above, fixed.important_above) == (CRITICAL, IMPORTANT)
    assert fixed.enough_seeds == ENOUGH_SEEDS


def test_the_methods_explain_a_checkpoint_only_where_headway_trained() -> None:
    other = AnalysedModel(
        model="m.py:build",
        data="data",
        split="test",
        metric="accuracy",
        parameters=9,
        sites=("enc0.self",),
        command=("headway",),
        time="2026-01-01T00:00:00Z",
        versions={},
    )
    trained, elsewhere = RunDocuments("a", "runs/a"), RunDocuments("b", "b", model=other)
    told = {
        name: [term for term, _ in everywhere(Documents((run,)))] for name, run in (("a", trained), ("b", elsewhere))
    }
    assert "checkpoint" in told["a"]
    assert [term for term in told["a"] if term != "checkpoint"] == told["b"]


@pytest.mark.parametrize("module", [self_contained_html])
def test_examples_in_docstrings_are_right(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


# What is told


def test_the_answer_comes_first_in_three_sentences(report: writing.Written) -> None:
    assert len(report.answer) == 3
    assert report.answer[0].startswith("Trained on 8 to 16 elements, it holds to ")
    assert report.answer[1].endswith(
        "; 1 chosen for removal together: on other examples the cost is 0.25 points (−0.25 to 1.5), not shown to "
        "be under "
        "1 point, while the 3 that cost less alone cost 5.0 points together."
    )
    assert report.answer[2] == (
        "This is one run: another seed may differ; the doctor finds 1 error (first-token-never-predicted) and "
        "1 warning; 1 check finds nothing wrong."
    )


def test_sections_stand_in_the_order_of_the_page(report: writing.Written, html: str) -> None:
    names = ["heads", "lengths", "accuracy", "evidence", "doctor", "setup", "training", "methods", "provenance"]
    assert report.sections == names
    places = [html.index(f'<section id="{name}"') for name in ["answer", *names]]
    assert places == sorted(places)


def test_the_doctor_is_quoted_with_what_to_do(html: str) -> None:
    text = Page(html).text
    for finding in FINDINGS:
        assert str(finding["evidence"]) in text
        assert str(finding["fix"]) in text
    assert text.index(str(FINDINGS[0]["evidence"])) < text.index(str(FINDINGS[1]["evidence"]))


def test_a_section_without_evidence_is_left_out(tmp_path: Path) -> None:
    bare = make_run(tmp_path / "bare", analyses=())
    found = gather([bare])
    told = writing.compose(found.documents, found.name)
    assert [section.name for section in told.sections] == ["doctor", "setup", "training", "methods", "provenance"]
    assert "The doctor was not run" in str(told.sections[0].blocks)
    assert [str(line) for line in told.answer] == [
        "At its best step, 24, it answers 83.3 % of validation right; it was not evaluated further.",
        "This is one run: another seed may differ, and the doctor was not run.",
    ]
    assert "holds to" not in str(told.sections)


@pytest.mark.parametrize(
    ("analyses", "first"),
    [
        (("heads",), "It answers 99.85 % of 2,000 examples of the test split right (99.6 % to 99.950 %)."),
        (
            ("lengths",),
            "Trained on 8 to 16 elements, it holds to 64 on random swaps and 64 on one adjacent inversion",
        ),
        (
            ("evaluation", "lengths"),
            "All 8,100 inputs of the domain were tested, the 40 of training among them: 3 are answered wrong, ",
        ),
    ],
)
def test_the_answer_uses_the_best_evidence_there_is(tmp_path: Path, analyses: tuple[str, ...], first: str) -> None:
    found = gather([make_run(tmp_path / "some", analyses=analyses)])
    assert str(writing.compose(found.documents, found.name).answer[0]).startswith(first)


def test_a_run_without_errors_is_not_taken_apart(tmp_path: Path) -> None:
    clean = make_run(tmp_path / "clean", wrong=0, analyses=("evaluation", "heads"))
    found = gather([clean])
    told = writing.compose(found.documents, found.name)
    accuracy = next(section for section in told.sections if section.name == "accuracy")
    assert [block.kind for block in accuracy.blocks] == ["paragraph", "table"]


def test_the_command_runs_everything_again(html: str, run: Path) -> None:
    (command,) = [text for tag, _, _, text in Page(html).pieces if tag == "command"]
    steps = [step.split()[1] for step in command.split(" && ")]
    assert steps == ["train", "evaluate", "heads", "lengths", "attack", "doctor", "report"]
    assert command.startswith("headway train quick-addition --seed 0 && headway evaluate '")


def test_a_run_that_was_only_begun_has_a_report(tmp_path: Path) -> None:
    begun = RunDirectory(tmp_path / "begun")
    begun.create(config(ADDITION), {"seed": 0})
    assert writing.report(begun).answer[0] == "Nothing was measured yet."


def test_a_run_made_from_python_says_so(tmp_path: Path) -> None:
    made = make_run(tmp_path / "made", analyses=())
    record = {**made.provenance(), "command": ["hw.train"]}
    write_json(made.path / "provenance.json", record)
    found = gather([made])
    last = writing.compose(found.documents, found.name).sections[-1].parts[0].blocks
    assert "started from Python" in str(last[0])
    assert "headway report" in str(last[1])


# Several runs, and studies


def test_runs_side_by_side_have_a_row_each_and_no_pooled_number(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"seed{seed}", seed=seed, wrong=seed) for seed in range(3)]
    found = gather(runs)
    told = writing.compose(found.documents, found.name)
    table = next(
        block for block in blocks_of(told.sections) if isinstance(block, Table) and block.caption == "Every run"
    )
    titles = [str(column.title) for column in table.columns]
    wrong = [row[titles.index("wrong")].number for row in table.cells]
    assert wrong == [0, 1, 2]
    assert "3 seeds: a description, not a test" in str(told.answer[-1])
    text = page.render(told, page.without_drawings(told))
    assert complaints(text, Files(*(run.path for run in runs))) == []
    assert str(found.place.path) == "reports/seed0-and-2-more"
    names = [figure.name for figure in (*page.figures_of(told), *page.stills_of(told))]
    assert len(set(names)) == len(names), "no figure overwrites another"


def test_a_study_is_told_in_its_own_words(tmp_path: Path) -> None:
    study = tmp_path / "studies" / "small"
    made = make_run(study / "runs" / "arm-seed0", analyses=("lengths",))
    made.add_to_analysis("lengths", {"mechanism": mechanism_document()})
    (study / "study.json").write_text(json.dumps({"experiment": "sortedness", "preset": "quick", "arms": []}))
    (study / "analysis").mkdir()
    row = RowOverSeeds(
        length=64, set_name="swaps", trained=False, accuracies=(), mean=0.75, median=0.8, interval=(0.25, 0.95)
    )
    measured = read(MeasuredRun, lengths_document(run=str(made.path)), "lengths.json")
    held = SetOverSeeds(held=(48,), median=48.0, reach=())
    whole = replace(together([measured]), n_seeds=6, sets={"swaps": held}, rows=(row,))
    document = length_study(cells=[study_cell("arm: rotary", measured, together=whole)], answer=["swaps: held to 64"])
    (study / "analysis" / "lengths.json").write_text(json.dumps(write(document)))
    found = gather([study])
    told = writing.compose(found.documents, found.name)
    assert [str(line) for line in told.answer[:1]] == ["swaps: held to 64"]
    captions = [block.caption for block in blocks_of(told.sections) if isinstance(block, Table)]
    assert "Medians over seeds: random swaps" in captions
    assert f"headway study sortedness --preset quick --out {study}" in str(told.sections[-1])
    assert found.place.path == study / "report"
    text = page.render(told, page.without_drawings(told))
    assert complaints(text, Files(made.path, study=study)) == []
    assert mechanism_document()["words"][0] in Page(text).text
    assert all(number in text for number in ("80 %", "25 %", "95 %")), "the median and its interval"
    assert "75.0 %" not in text, "which is not of the mean"


def test_seeds_of_a_study_are_put_together_as_the_analysis_did(tmp_path: Path) -> None:
    study = tmp_path / "seeds"
    runs = [make_run(study / "runs" / f"seed{seed}", seed=seed, analyses=("heads", "doctor")) for seed in range(2)]
    (study / "study.json").write_text(json.dumps({"experiment": "addition", "preset": "quick"}))
    (study / "analysis").mkdir()
    heads = [run.read_analysis("heads") for run in runs]
    together = put_together_small(heads)
    whole = filled(HeadsStudy, {"runs": [], "together": together})
    (study / "analysis" / "heads.json").write_text(json.dumps(whole))
    (study / "analysis" / "doctor.json").write_text(json.dumps({"runs": [], "together": [FINDINGS[1]]}))
    found = gather([study])
    told = writing.compose(found.documents, found.name)
    text = page.render(told, page.without_drawings(told))
    assert complaints(text, Files(*(run.path for run in runs), study=study)) == []
    words = " ".join(Page(text).text.split())
    assert "heads that are redundant" in words
    assert "All runs together: 1 warning" in words
    assert "0 checks" not in words


def doctor_of_many(tmp_path: Path, findings: list[dict[str, Any]]) -> str:
    """What the section says of five runs with the same findings."""
    study = tmp_path / "many"
    for seed in range(5):
        run = make_run(study / "runs" / f"seed{seed}", seed=seed, analyses=("doctor",))
        run.replace_analysis("doctor", {**(run.read_analysis("doctor") or {}), "findings": findings})
    (study / "study.json").write_text(json.dumps({"experiment": "addition", "preset": "quick"}))
    told = writing.compose(gather([study]).documents, "many")
    return page.render(told, page.without_drawings(told))


def test_errors_and_warnings_of_each_run_have_a_column_of_their_own(tmp_path: Path) -> None:
    levels = [["error", "error", "warning", "fine"], ["warning"] * 3, ["fine"] * 4]
    runs = []
    for seed, own in enumerate(levels):
        run = make_run(tmp_path / f"seed{seed}", seed=seed, analyses=("doctor",))
        findings = [{**FINDINGS[0], "level": level, "check": f"check {place}"} for place, level in enumerate(own)]
        run.replace_analysis("doctor", doctor_document(run.path, findings))
        runs.append(run)
    made = seeds.table(gather(runs).documents)
    titles = [str(column.title) for column in made.columns]
    counts = {
        kind: [row[titles.index(f"doctor: {kind}")].number for row in made.cells] for kind in ("errors", "warnings")
    }
    assert counts == {"errors": [2, 0, 0], "warnings": [1, 3, 0]}


def test_the_findings_of_many_runs_are_told_once_and_can_be_unfolded(tmp_path: Path) -> None:
    text = doctor_of_many(tmp_path, [one for one in FINDINGS if one["level"] != "error"])
    said = text[text.index("Errors and warnings, each once") : text.index("Every finding, run by run")]
    warnings = [one for one in FINDINGS if one["level"] == "warning"]
    assert [said.count(one["check"]) for one in warnings] == [1] * len(warnings)
    assert all(f"seed{seed}" in said for seed in range(5))
    assert all(one["check"] not in said for one in FINDINGS if one["level"] == "fine")
    folded = text[text.index("Every finding, run by run") : text.index('id="setup"')]
    assert [folded.count(one["check"]) for one in warnings] == [5] * len(warnings)


def test_an_error_of_one_of_many_runs_is_shown_in_full(tmp_path: Path) -> None:
    text = doctor_of_many(tmp_path, FINDINGS)
    first = next(one for one in FINDINGS if one["level"] == "error")
    before = text[text.index("Findings of the doctor") : text.index("Errors and warnings, each once")]
    assert before.count(first["check"]) >= 5


def test_many_runs_without_a_warning_are_told_in_a_sentence(tmp_path: Path) -> None:
    text = doctor_of_many(tmp_path, [one for one in FINDINGS if one["level"] == "fine"])
    assert "Neither an error nor a warning in any of them." in text


def test_a_warning_of_the_study_stands_beside_the_findings_of_its_one_run(tmp_path: Path) -> None:
    study = tmp_path / "one"
    make_run(study / "runs" / "seed0", analyses=("doctor",))
    (study / "study.json").write_text(json.dumps({"experiment": "addition", "preset": "quick"}))
    (study / "analysis").mkdir()
    (study / "analysis" / "doctor.json").write_text(json.dumps({"runs": [], "together": [FINDINGS[1]]}))
    found = gather([study])
    told = writing.compose(found.documents, found.name)
    answer = " ".join(str(line) for line in told.answer)
    assert "; of the study as a whole, 1 warning." in answer


def put_together_small(heads: list[Any]) -> dict[str, Any]:
    """The form of `headway.head_analysis.seeds.summarise_seeds`, of what the report reads."""
    counts = [sum(head["verdict"] == "redundant" for head in one["heads"]) for one in heads]
    redundant = {"values": counts, "mean": sum(counts) / len(counts), "median": 3.5, "interval": [1.25, 7.5]}
    removable = [{"limit": 1.0, "heads": {"values": [1, 1], "mean": 1.0, "interval": None}}]
    return {"verdicts": {"overall": {"redundant": redundant}}, "removable": removable}


def test_what_cannot_be_reported_is_refused_in_words(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no run at nowhere or runs/nowhere; known under \./runs: none"):
        writing.report("nowhere")
    with pytest.raises(InputError, match="a run is named twice"):
        writing.report(run, run)
    with pytest.raises(InputError, match="no run was named"):
        writing.report()
    study = tmp_path / "study"
    study.mkdir()
    (study / "study.json").write_text("{}")
    with pytest.raises(InputError, match="study has no runs yet; headway study makes them"):
        writing.report(study)
    with pytest.raises(InputError, match="is a study and has a report of its own; name it alone"):
        writing.report(study, run)
    (study / "study.json").write_text("[]")
    make_run(study / "runs" / "one", analyses=())
    with pytest.raises(InputError, match="is not the plan of a study"):
        writing.report(study)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--out file is a file; a directory needed"):
        writing.report(run, out="file")


# The files


def test_text_from_the_files_stays_text(html: str, report: writing.Written) -> None:
    assert "<img src=x" not in html
    assert html.count("</script>") == 2
    assert NASTY in Page(html).text
    outside = re.sub(r"`[^`]*`|```sh.*?```", "", Path(report.markdown).read_text(), flags=re.DOTALL)
    assert "<img" not in outside


def test_nothing_outside_the_page_is_named_in_it(html: str) -> None:
    assert re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*", html) == []
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    parts = dict(part.split(" ", 1) for part in unescape(policy[1]).split("; "))
    assert (parts["default-src"], parts["connect-src"], parts["img-src"]) == ("'none'", "'none'", "data:")
    assert all(re.fullmatch(r"'sha256-[\w+/=]+'", parts[name]) for name in ("script-src", "style-src"))
    assert "unsafe" not in policy[1]


def test_every_figure_of_the_markdown_is_beside_it(report: writing.Written) -> None:
    place = Path(report.markdown)
    shown = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", place.read_text())
    assert len(shown) > 10
    for alt, target in shown:
        assert len(alt) > 20
        assert (place.parent / target).stat().st_size > 0
    assert Path(report.page).stat().st_size == report.bytes < page.LARGEST
    assert report == writing.Written.from_json(json.loads(json.dumps(report.to_json())))


def test_what_does_not_fit_is_left_beside_the_page(
    report: writing.Written, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gather([run])
    told = writing.compose(found.documents, found.name)
    files = {figure.name: found.place.figures / f"{figure.name}.svg" for figure in page.figures_of(told)}
    svgs = {name: page.Drawn(path.read_text(), (400, 200)) for name, path in files.items()}
    whole = page.render(told, page.without_drawings(told))
    monkeypatch.setattr(page, "LARGEST", len(whole.encode()) + 60_000)
    drawn = page.pictures(told, svgs, {}, found.place.figures)
    left = [name for name, picture in drawn.items() if not picture.drawing]
    text = page.render(told, drawn)
    assert 0 < len(left) < len(drawn)
    assert len(text.encode()) <= page.LARGEST
    assert f"the file is <code>figures/{left[0]}.png</code>" in text
    monkeypatch.setattr(page, "FOR_MAPS", 4_000)
    shown = json.loads(re.findall(r'id="maps">(.*?)</script>', page.render(told, drawn))[0])["runs"][0]["examples"]
    assert len(shown) == 1
    monkeypatch.setattr(page, "FOR_MAPS", 0)
    assert "The heat maps of this run are too large for this page" in page.render(told, drawn)


# A real browser


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_works_in_a_browser(browser: Any, report: writing.Written, width: int) -> None:
    problems: list[str] = []
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="light")
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on(
        "request", lambda request: problems.append(request.url) if request.url[:5] not in ("file:", "data:") else None
    )
    address = Path(report.page).resolve().as_uri()
    tab.goto(address)
    assert tab.evaluate("document.documentElement.scrollWidth") == width, "nothing is wider than the window"
    assert tab.evaluate("[...document.querySelectorAll('figure.drawing svg')].length") > 5
    check_heat_maps(tab)
    check_sorting(tab)
    check_colours(tab)
    tab.hover("#answer data >> nth=0")
    assert tab.get_attribute("#answer data >> nth=0", "title").startswith("runs/0/")
    assert problems == []
    tab.close()


def check_heat_maps(tab: Any) -> None:
    """Pointing at a cell says its weight; example and head can be chosen, by pointer and by keyboard."""
    data = json.loads(tab.text_content("#maps"))["runs"][0]["examples"]
    canvas = tab.locator(".chosen canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 6, box["y"] + box["height"] - 6)
    said = tab.text_content(".readout")
    first = data[0]["maps"][0]
    assert said.endswith(f"weight {first['cells'][-1][-1]:.3f}"), said
    assert f"query {first['queries'][-1]}" in said
    tab.select_option("select.example", "1")
    tab.click(f'.all button[data-head="{data[1]["maps"][3]["head"]}"]')
    assert tab.input_value("select.head") == data[1]["maps"][3]["head"]
    canvas.focus()
    tab.keyboard.press("ArrowDown")
    assert tab.text_content(".readout").endswith(f"weight {data[1]['maps'][3]['cells'][0][0]:.3f}")
    tab.select_option("select.head", data[1]["maps"][0]["head"])
    assert tab.text_content(".readout").startswith(data[1]["maps"][0]["head"])
    assert "</script>" in data[1]["maps"][0]["keys"], "a token that looks like HTML is a token"


def check_sorting(tab: Any) -> None:
    """A click sorts by value, largest first; a second one turns it around."""
    table = tab.locator("#heads table").first
    button = table.locator("thead button").nth(3)
    column = "cells => cells.map(cell => Number(cell.dataset.key))"
    button.click()
    falling = table.locator("tbody td:nth-child(4)").evaluate_all(column)
    assert falling == sorted(falling, reverse=True)
    assert len(set(falling)) > 2
    button.focus()
    tab.keyboard.press("Enter")
    assert table.locator("tbody td:nth-child(4)").evaluate_all(column) == falling[::-1]
    assert table.locator("thead th").nth(3).get_attribute("aria-sort") == "ascending"


def sortable(rows: Sequence[tuple[str, str]]) -> str:
    """A page with the report's script and one table: words, and numbers whose exact value stands in the cell."""
    script = files("headway").joinpath("reports/templates/page.js").read_text(encoding="utf-8")
    cells = [
        f"<tr><td>{word}</td><td{'' if value == '–' else f' data-key={value}'}> {value} </td></tr>"
        for word, value in rows
    ]
    head = "<tr><th><button>word</button></th><th class=numeric><button>value</button></th></tr>"
    maps = '<script type="application/json" id="maps">{"scale": [], "runs": []}</script>'
    table = f"<table><thead>{head}</thead><tbody>{''.join(cells)}</tbody></table>"
    return f"<!doctype html><button id=theme></button>{table}{maps}<script>{script}</script>"


@pytest.mark.parametrize(
    ("column", "clicks", "expected"),
    [
        ("value", 1, "b d a – c"),
        ("value", 2, "a d b – c"),
        ("value", 3, "b d a – c"),
        ("word", 1, "a b c d –"),
        ("word", 2, "d c b a –"),
    ],
)
def test_what_is_missing_comes_last_however_a_table_is_sorted(
    browser: Any, column: str, clicks: int, expected: str
) -> None:
    """By value: -3, 5, 12; c and the row without a word have none, and keep their order."""
    tab = browser.new_page()
    tab.set_content(sortable([("d", "5"), ("–", "–"), ("a", "-3"), ("b", "12"), ("c", "–")]))
    for _ in range(clicks):
        tab.click(f"button:text('{column}')")
    assert " ".join(tab.locator("td:first-child").all_text_contents()) == expected
    tab.close()


def check_colours(tab: Any) -> None:
    """Dark as the system has it, and by the switch; paper is light."""
    colour = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(colour)
    tab.emulate_media(color_scheme="dark")
    dark = tab.evaluate(colour)
    assert dark != light
    tab.click("#theme")
    assert tab.evaluate(colour) == light
    tab.click("#theme")
    assert tab.evaluate(colour) == dark
    tab.emulate_media(media="print")
    assert tab.evaluate(colour) == "rgb(255, 255, 255)"


def test_a_section_or_figure_that_fails_costs_no_other(tmp_path: Path) -> None:
    made = make_run(tmp_path / "half")
    heads = made.read_analysis("heads") or {}
    del heads["heads"][0]["verdict"]
    made.replace_analysis("heads", heads)
    found = writing.report(made.path)
    assert [problem.partition(":")[0] for problem in found.problems] == ["heads"]
    assert {"doctor", "training", "heads", "lengths"} <= set(found.sections)
    assert "heads[0].verdict is missing; a text needed" in Path(found.page).read_text()
    assert cli(["report", str(made.path), "--quiet"]) == 1


def test_a_figure_that_cannot_be_drawn_is_named() -> None:
    def fail() -> Any:
        raise ValueError("no such axis")

    drawing, problem = writing.drawn_or_named("curve", fail)
    assert problem == "ValueError: no such axis"
    assert drawing.texts[0].get_text() == "curve could not be drawn"
