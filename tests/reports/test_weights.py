"""Heat maps of attention: the right tokens on the right axes, one scale, and blanks where nothing can be seen."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from headway.errors import InputError
from headway.narration.numbers import points
from headway.reports.style import where_from
from headway.reports.weights import example_line, shown
from headway.results.attention import Capture, ExampleAttention
from headway.results.heads import HeadAnalysis
from headway.results.schema import blank
from tests.reports.documents import make_document
from tests.reports.drawing import head_over_examples, head_sheet

FOUND = make_document(n_heads=3)
DECODER_ONLY = make_document(("decoder",), n_layers=1, n_heads=2)


@cache
def sheet(example: int | None) -> Figure:
    """A sheet of the common document, drawn once for all tests."""
    return head_sheet(FOUND, example)


def panels(figure: Figure, kind: str | None = None) -> list[Axes]:
    """The heat maps, of one kind of attention or of all; the colour bar has no title."""
    found = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}
    kinds = {head["head"]: head["kind"] for head in make_document(n_heads=4)["heads"]}
    return [axes for name, axes in found.items() if kind is None or kinds[name] == kind]


def mesh(axes: Axes) -> QuadMesh:
    return next(found for found in axes.collections if isinstance(found, QuadMesh))


def keys(axes: Axes) -> list[str]:
    """The names of the keys, which only the last panel of a column shows."""
    axes.tick_params(labelbottom=True)
    return [label.get_text() for label in axes.get_xticklabels()]


def queries(axes: Axes) -> list[str]:
    """The names of the queries, which only the first panel of a row shows."""
    axes.tick_params(labelleft=True)
    return [label.get_text() for label in axes.get_yticklabels()]


def drawn(axes: Axes) -> np.ma.MaskedArray:
    return np.ma.masked_array(mesh(axes).get_array())


def words(figure: Figure) -> list[str]:
    """The heading, and what stands over each kind of attention."""
    captions = [text for axes in figure.axes if not axes.axison for text in axes.texts]
    return [text.get_text().replace("\n", " ") for text in (*figure.texts, *captions)]


@pytest.mark.parametrize(
    ("kind", "on_y", "on_x"),
    [
        ("encoder", "3 7 4 + 8 1 4", "3 7 4 + 8 1 4"),
        ("decoder", "BOS→1 1→1 1→8 8→8 8→EOS", "BOS 1 1 8 8"),
        ("cross", "BOS→1 1→1 1→8 8→8 8→EOS", "3 7 4 + 8 1 4"),
    ],
)
def test_queries_stand_on_y_and_keys_on_x(kind: str, on_y: str, on_x: str) -> None:
    for axes in panels(sheet(0), kind):
        assert queries(axes) == on_y.split()
        assert keys(axes) == on_x.split()


def test_every_cell_shows_the_weight_of_its_query_and_key() -> None:
    axes = panels(sheet(1), "cross")[4]
    weights = FOUND["capture"]["examples"][1]["weights"]["dec1.cross.h1"]
    assert axes.get_title(loc="left") == "dec1.cross.h1"
    assert drawn(axes).tolist() == weights
    assert axes.get_ylim() == (5, 0), "the first query is on top"


def test_a_sheet_has_every_head_of_every_kind_below_the_name_of_its_kind() -> None:
    for example in (None, 0):
        figure = head_sheet(FOUND, example)
        assert [axes.get_title(loc="left") for axes in panels(figure)] == [
            head["head"] for kind in ("encoder", "decoder", "cross") for head in FOUND["heads"] if head["kind"] == kind
        ]
        for kind, name in (("encoder", "Encoder self-"), ("decoder", "Decoder self-"), ("cross", "Cross-")):
            (caption,) = [axes for axes in figure.axes if f"{name}attention" in [one.get_text() for one in axes.texts]]
            assert caption.get_position().y0 > max(axes.get_position().y1 for axes in panels(figure, kind))


def test_a_row_is_a_layer_and_a_column_a_head_with_verdict_and_drop_below_the_name() -> None:
    shown = panels(sheet(0), "cross")
    heads = [head for head in FOUND["heads"] if head["kind"] == "cross"]
    assert [axes.get_title(loc="left") for axes in shown] == [head["head"] for head in heads]
    remarks = [f"{head['verdict']}, {points(head['ablation']['zero']['drop'])}" for head in heads]
    assert [axes.texts[0].get_text() for axes in shown] == remarks
    left, top = (
        np.array([getattr(axes.get_position(), side) for axes in shown]).reshape(2, 3) for side in ("x0", "y1")
    )
    assert np.allclose(left[0], left[1])
    assert np.allclose(top, top[:, :1])
    assert top[0, 0] > top[1, 0]
    assert (np.diff(left) > 0).all()


def test_queries_are_named_once_a_row_and_keys_once_a_column() -> None:
    shown = panels(head_sheet(FOUND, 0), "encoder")
    assert [axes.yaxis.get_tick_params()["labelleft"] for axes in shown] == [True, False, False] * 2
    assert [axes.xaxis.get_tick_params()["labelbottom"] for axes in shown] == [False] * 3 + [True] * 3


def test_all_panels_share_one_scale_from_0_to_1_with_one_bar() -> None:
    figure = sheet(0)
    norms = {id(mesh(axes).norm) for axes in panels(figure)}
    assert len(norms) == 1
    assert {(mesh(axes).norm.vmin, mesh(axes).norm.vmax) for axes in panels(figure)} == {(0, 1)}
    assert len(figure.axes) == 18 + 3 + 1, "heads, the names of their kinds, and the bar"


def test_what_a_decoder_cannot_see_is_blank_and_not_0() -> None:
    future = np.triu(np.ones((5, 5), dtype=bool), 1)
    for axes in panels(sheet(0), "decoder"):
        assert (np.ma.getmaskarray(drawn(axes)) == future).all()
        assert mesh(axes).cmap(np.ma.masked_all(1))[0, 3] == 0, "blank is the paper, whatever its colour"
    for axes in panels(sheet(0), "cross"):
        assert not np.ma.getmaskarray(drawn(axes)).any()


def test_a_decoder_alone_reads_source_and_answer_in_one_row() -> None:
    axes = panels(head_sheet(DECODER_ONLY, 0))[0]
    assert queries(axes) == [*"374+814", "BOS→1", "1→1", "1→8", "8→8", "8→EOS"]
    assert keys(axes) == [*"374+814", "BOS", "1", "1", "8", "8"]
    assert (np.ma.getmaskarray(drawn(axes)) == np.triu(np.ones((12, 12), dtype=bool), 1)).all()
    assert [line.get_xdata()[0] for line in axes.lines][:1] == [7], "a line where the answer begins"


def test_an_encoder_that_is_causal_by_the_findings_has_blanks_too() -> None:
    heads = [{**head, "causal": True} for head in make_document(("encoder",), 1, 1)["heads"]]
    figure = head_sheet({**make_document(("encoder",), 1, 1), "heads": heads}, 0)
    assert np.ma.getmaskarray(drawn(panels(figure)[0])).sum() == 21
    assert "down: query, source; across: key, source (blank: not there yet for the query)" in words(figure)


def test_the_mean_has_the_names_of_places_for_tokens() -> None:
    figure = sheet(None)
    axes = panels(figure, "cross")[-1]
    assert keys(axes) == ["a2", "a1", "a0", "+", "b2", "b1", "b0"]
    assert queries(axes)[:2] == ["BOS→column 3", "column 3→column 2"]
    assert queries(axes)[-1] == "column 0→end"
    below = "; below each name: verdict, and points lost without the head (zero ablation)"
    assert words(figure)[:2] == [
        "Every head, on average",
        f"mean over 2,000 examples of the test split{below}",
    ]
    assert where_from(blank(HeadAnalysis, split="all")) == "the whole domain"


def test_a_mean_over_examples_that_are_written_alike_says_so() -> None:
    found = make_document(("encoder",), 1, 1)
    found["capture"]["mean"] |= {"n": 71, "alike": "9 + 4 digits, sum of 10"}
    assert words(head_sheet(found))[1].startswith("mean over 71 examples of the test split (9 + 4 digits, sum of 10);")


@pytest.mark.parametrize(
    ("task", "source", "written", "target", "line"),
    [
        ("addition", "3 7 4 + 8 1 4", "1 1 8 8 EOS", "1 1 8 8 EOS", "374 + 814 → 1188"),
        ("addition", "4 9 6 + 5 0 3", "1 0 9 9 EOS", "0 9 9 9 EOS", "496 + 503 → 1099 (wrong: 0999)"),
        ("addition", "4 11 + 5 9", "0 10 8 EOS", "0 10 8 EOS", "4 11 + 5 9 → 0 10 8"),
        ("addition-text", [*"95 + 7 = "], [*"102", "EOS"], [*"102", "EOS"], "95 + 7 = 102"),
        ("addition-text", [*"95 + 7 = "], ["EOS"], [*"102", "EOS"], "95 + 7 = nothing (wrong: 102)"),
        ("sortedness", "2 7 31", "1", "1", "2 7 31 → sorted"),
        ("sortedness", "2 7 3", "1", "0", "2 7 3 → sorted (wrong: not sorted)"),
    ],
)
def test_an_example_is_named_as_a_person_writes_it(
    task: str, source: Any, written: Any, target: Any, line: str
) -> None:
    source, written, target = (
        tuple(text.split() if isinstance(text, str) else text) for text in (source, written, target)
    )
    seen = blank(ExampleAttention, source=source, generated=written, target=target)
    names = ("not sorted", "sorted") if task == "sortedness" else ()
    document = blank(HeadAnalysis, task=task, capture=blank(Capture, class_names=names))
    assert example_line(document, seen) == line


def test_a_sheet_of_an_example_is_titled_with_it_and_its_answer() -> None:
    assert words(sheet(0))[0] == "Every head on 374 + 814 → 1188"
    assert words(sheet(2))[0] == "Every head on 496 + 503 → 1099 (wrong: 0999)"
    assert words(sheet(2))[1].startswith("example 2 of the test split, as it was decoded; below each name: verdict")


@pytest.mark.parametrize("kinds", [("encoder",), ("decoder",), ("encoder", "decoder", "cross")])
def test_a_map_is_never_under_an_inch_and_a_small_sheet_is_a_page(kinds: tuple[str, ...]) -> None:
    large, small = (head_sheet(make_document(kinds, *size), None) for size in ((6, 8), (2, 4)))
    for axes in panels(large)[:1]:
        width, height = axes.get_position().size * large.get_size_inches()
        assert max(width, height) > 1.0
    assert (small.get_size_inches() <= (12, 17)).all()


def test_where_tokens_are_too_small_to_read_only_landmarks_are_named() -> None:
    text = [*"123456789012 + 123456789012 = "]
    assert shown(text, 0.06) == ["+" if token == "+" else "=" if token == "=" else "" for token in text]
    assert shown(text, 0.1) == text
    assert shown(list(map(str, range(40))), 0.03)[:9] == ["0", "", "", "", "4", "", "", "", "8"]


def test_the_first_wrong_step_says_what_would_be_right() -> None:
    axes = panels(sheet(2), "cross")[0]
    assert queries(axes) == ["BOS→1 (not 0)", "1→0", "0→9", "9→9", "9→EOS"]


@pytest.mark.parametrize("written", ["1 1 EOS", "1 1 8 8 8 8 8"])
def test_an_answer_of_another_length_is_drawn_as_it_was_written(written: str) -> None:
    found = make_document(n_layers=1, n_heads=1, examples=[("3 7 4 + 8 1 4", "1 1 8 8 EOS", written)])
    shown = queries(panels(head_sheet(found, 0), "decoder")[0])
    assert len(shown) == len(written.split())
    assert sum("not" in label for label in shown) == 1


def test_spaces_and_dollar_signs_are_tokens_like_others() -> None:
    found = make_document(("encoder",), 1, 1)
    found["capture"]["examples"][0]["source"] = ["3", "$", "4", "+", " ", "1", "$"]
    figure = head_sheet(found, 0)
    figure.canvas.draw()
    assert keys(panels(figure)[0]) == ["3", "$", "4", "+", "␣", "1", "$"]
    assert words(figure)[0] == "Every head on 3$4+ 1$ → 1188"


def test_one_head_is_shown_on_every_example_with_its_own_tokens() -> None:
    figure = head_over_examples(FOUND, "dec0.cross.h2")
    shown = panels(figure)
    assert [keys(axes) for axes in shown] == [example["source"] for example in FOUND["capture"]["examples"]]
    assert [axes.get_title(loc="left") for axes in shown] == ["374 + 814", "905 + 267", "496 + 503"]
    assert shown[2].texts[0].get_text() == "→ 1099 (wrong: 0999)"
    assert len({id(mesh(axes).norm) for axes in shown}) == 1
    assert words(figure)[0] == "dec0.cross.h2"


def test_examples_may_differ_in_length() -> None:
    found = make_document(("encoder",), 1, 1, examples=[("2 7 31 90", "1", "1"), ("5 4 3 2 1 0", "0", "1")])
    sizes = [mesh(axes).get_array().shape for axes in panels(head_over_examples(found, "enc0.self.h0"))]
    assert sizes == [(4, 4), (6, 6)]


def test_heads_that_were_taken_away_leave_a_gap() -> None:
    found = make_document(n_heads=4)
    found["heads"] = [head for head in found["heads"] if head["layer"] == 1 and head["index"] in (1, 3)]
    shown = panels(head_sheet(found, 0), "encoder")
    assert [axes.get_title(loc="left") for axes in shown] == ["enc1.self.h1", "enc1.self.h3"]
    named = [axes.yaxis.get_tick_params()["labelleft"] for axes in shown]
    assert named == [True, False]


def test_an_example_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"^example 3 was not captured; there are 3, counted from 0$"):
        head_sheet(FOUND, 3)


def test_no_mean_and_no_weights_and_no_such_head_are_named() -> None:
    empty = {**FOUND, "capture": {"examples": [{"source": ["1"], "weights": {}}], "mean": None}}
    with pytest.raises(InputError, match=r"^no mean over the split was captured$"):
        head_sheet(empty)
    with pytest.raises(InputError, match=r"^no weights of any head were captured$"):
        head_sheet(empty, 0)
    with pytest.raises(InputError, match=r"^no weights of dec0\.cross\.h0 were captured$"):
        head_over_examples(empty, "dec0.cross.h0")
    with pytest.raises(InputError, match=r"^no head 'dec0\.cros\.h0' here; did you mean dec0\.cross\.h0\?"):
        head_over_examples(FOUND, "dec0.cros.h0")
