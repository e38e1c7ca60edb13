"""The page of a model of another program: what was stored is shown, and what a head's removal changes is marked."""

from pathlib import Path
from typing import Any

import pytest

from headway.explorer.stored import stored_document
from headway.explorer.writing import explore
from headway.results.analysed_model import AnalysedModel, StoredExample
from headway.results.heads import HeadAnalysis
from headway.results.schema import blank
from headway.runs import ModelDirectory
from tests.results.made_up_values import typed

SHOWN = [(["1", "+", "1"], ["2"], ["2"], [["2"], ["3"]]), (["2", "+", "2"], ["4"], ["5"], [["5"], ["4"]])]
"""Source, right answer, answer, and the answers without head 0 and head 1. The second answer is wrong."""
NAMES = ("enc0.self.h0", "enc0.self.h1")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelDirectory:
    weights = {name: [[0.5, 0.25, 0.25]] * 3 for name in NAMES}
    attention = [{"source": source, "prefix": [], "target": right, "weights": weights} for source, right, _, _ in SHOWN]
    found: HeadAnalysis = typed(
        {
            "heads": [
                {"head": name, "verdict": said} for name, said in zip(NAMES, ("redundant", "critical"), strict=True)
            ],
            "capture": {"examples": attention},
        }
    )
    examples = [
        StoredExample(answer=(*answer,), without={name: (*one,) for name, one in zip(NAMES, without, strict=True)})
        for _, _, answer, without in SHOWN
    ]
    made = ModelDirectory(tmp_path_factory.mktemp("stored") / "model")
    made.write(blank(AnalysedModel, model="adder.py:build", examples=tuple(examples)), heads=found)
    return made


def test_the_document_holds_the_answers_with_and_without_each_head(model: ModelDirectory) -> None:
    document: Any = stored_document(model)
    assert document["verdicts"] == {"enc0.self.h0": "redundant", "enc0.self.h1": "critical"}
    told = [
        (one["source"], one["target"], one["answer"], list(one["without"].values())) for one in document["examples"]
    ]
    assert told == SHOWN


def test_maps_of_an_encoder_decoder_are_named_by_the_tokens_on_their_sides(browser: Any, tmp_path: Path) -> None:
    """The source has five tokens, the prefix three; a query of cross-attention is a token of the prefix."""
    source, prefix = ["9", "+", "8", "=", "?"], ["start", "1", "7"]
    axes = {
        "enc0.self.h0": (source, source),
        "enc1.self.h2": (source, source),
        "dec0.self.h0": (prefix, prefix),
        "dec0.cross.h0": (prefix, source),
    }
    weights = {head: [[1 / len(keys)] * len(keys)] * len(queries) for head, (queries, keys) in axes.items()}
    attention = {"source": source, "prefix": prefix, "target": ["1", "7", "end"], "weights": weights}
    heads = [{"head": head, "verdict": "important"} for head in axes]
    found: HeadAnalysis = typed({"heads": heads, "capture": {"examples": [attention]}})
    example = StoredExample(answer=("1", "7", "end"), without=dict.fromkeys(axes, ("1", "7", "end")))
    made = ModelDirectory(tmp_path / "model")
    made.write(blank(AnalysedModel, model="adder.py:build", examples=(example,)), heads=found)
    tab = browser.new_page()
    tab.goto(Path(str(explore(made.path, out=tmp_path / "page.html").page)).as_uri())
    shown = {}
    for head in axes:
        tab.click(f"#heads button[aria-label^='{head},']")
        keys = tab.locator("#map thead th.token").all_text_contents()
        shown[head] = (tab.locator("#map tbody th").all_text_contents(), keys)
    assert shown == axes
    tab.close()


def test_a_head_is_marked_where_its_removal_changes_the_answer(
    model: ModelDirectory, browser: Any, tmp_path: Path
) -> None:
    tab = browser.new_page()
    tab.goto(Path(str(explore(model.path, out=tmp_path / "page.html").page)).as_uri())
    marks = []
    for example in (1, 2):
        tab.click(f"#examples >> text='{example}'")
        marks.append(tab.locator("#heads button").evaluate_all("all => all.map(one => one.className)"))
    assert marks == [["head", "head changes"]] * 2
    tab.click("#heads button >> nth=1")
    assert tab.text_content("#effect") == "Without it, the answer is 4, with all heads 5."
    tab.close()
