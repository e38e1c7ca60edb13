"""Heat maps of attention: the right tokens on the right axes, one scale, and blanks where nothing can be seen."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from headway.errors import InputError
from headway.report.figures import head_grid, head_over_examples
from headway.report.style import where_from
from tests.report.documents import make_document

FOUND = make_document(n_heads=3)
DECODER_ONLY = make_document(("decoder",), n_layers=1, n_heads=2)


@cache
def grid(kind: str, example: int | None) -> Figure:
    """A grid of the common document, drawn once for all tests."""
    return head_grid(FOUND, kind, example)


def panels(figure: Figure) -> list[Axes]:
    """The heat maps; the colour bar has no title."""
    return [axes for axes in figure.axes if axes.get_title(loc="left")]


def mesh(axes: Axes) -> QuadMesh:
    return next(found for found in axes.collections if isinstance(found, QuadMesh))


def keys(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def queries(axes: Axes) -> list[str]:
    """The names of the queries, which only the first panel of a row shows."""
    axes.tick_params(labelleft=True)
    return [label.get_text() for label in axes.get_yticklabels()]


def drawn(axes: Axes) -> np.ma.MaskedArray:
    return np.ma.masked_array(mesh(axes).get_array())


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize(
    ("kind", "on_y", "on_x"),
    [
        ("encoder", "3 7 4 + 8 1 4", "3 7 4 + 8 1 4"),
        ("decoder", "BOS→1 1→1 1→8 8→8 8→EOS", "BOS 1 1 8 8"),
        ("cross", "BOS→1 1→1 1→8 8→8 8→EOS", "3 7 4 + 8 1 4"),
    ],
)
def test_queries_stand_on_y_and_keys_on_x(kind: str, on_y: str, on_x: str) -> None:
    for axes in panels(grid(kind, 0)):
        assert queries(axes) == on_y.split()
        assert keys(axes) == on_x.split()


def test_every_cell_shows_the_weight_of_its_query_and_key() -> None:
    axes = panels(grid("cross", 1))[4]
    weights = FOUND["capture"]["examples"][1]["weights"]["dec1.cross.h1"]
    assert axes.get_title(loc="left") == "dec1.cross.h1"
    assert drawn(axes).tolist() == weights
    assert axes.get_ylim() == (5, 0), "the first query is on top"


def test_a_row_is_a_layer_and_a_column_a_head_with_its_verdict_below_the_name() -> None:
    shown = panels(grid("cross", 0))
    heads = [head for head in FOUND["heads"] if head["kind"] == "cross"]
    assert [axes.get_title(loc="left") for axes in shown] == [head["head"] for head in heads]
    assert [axes.texts[0].get_text() for axes in shown] == [head["verdict"] for head in heads]
    left, top = (
        np.array([getattr(axes.get_position(), side) for axes in shown]).reshape(2, 3) for side in ("x0", "y1")
    )
    assert np.allclose(left[0], left[1])
    assert np.allclose(top, top[:, :1])
    assert top[0, 0] > top[1, 0]
    assert (np.diff(left) > 0).all()


def test_all_panels_share_one_scale_from_0_to_1_with_one_bar() -> None:
    figure = grid("encoder", 0)
    norms = {id(mesh(axes).norm) for axes in panels(figure)}
    assert len(norms) == 1
    assert (mesh(figure.axes[0]).norm.vmin, mesh(figure.axes[0]).norm.vmax) == (0, 1)
    assert len(figure.axes) == 6 + 1


def test_what_a_decoder_cannot_see_is_blank_and_not_0() -> None:
    future = np.triu(np.ones((5, 5), dtype=bool), 1)
    for axes in panels(grid("decoder", 0)):
        assert (np.ma.getmaskarray(drawn(axes)) == future).all()
        assert mesh(axes).cmap(np.ma.masked_all(1))[0].tolist() == [1, 1, 1, 1], "blank is white"
    for axes in panels(grid("cross", 0)):
        assert not np.ma.getmaskarray(drawn(axes)).any()


def test_a_decoder_alone_reads_source_and_answer_in_one_row() -> None:
    axes = panels(head_grid(DECODER_ONLY, "decoder", 0))[0]
    assert queries(axes) == [*"374+814", "BOS→1", "1→1", "1→8", "8→8", "8→EOS"]
    assert keys(axes) == [*"374+814", "BOS", "1", "1", "8", "8"]
    assert (np.ma.getmaskarray(drawn(axes)) == np.triu(np.ones((12, 12), dtype=bool), 1)).all()
    assert [line.get_xdata()[0] for line in axes.lines][:1] == [7], "a line where the answer begins"


def test_an_encoder_that_is_causal_by_the_findings_has_blanks_too() -> None:
    heads = [{**head, "causal": True} for head in make_document(("encoder",), 1, 1)["heads"]]
    figure = head_grid({**make_document(("encoder",), 1, 1), "heads": heads}, "encoder", 0)
    assert np.ma.getmaskarray(drawn(panels(figure)[0])).sum() == 21
    assert "key: source (blank: not there yet for the query)" in words(figure)


def test_the_mean_has_the_names_of_places_for_tokens() -> None:
    figure = grid("cross", None)
    axes = panels(figure)[0]
    assert keys(axes) == ["a2", "a1", "a0", "+", "b2", "b1", "b0"]
    assert queries(axes)[:2] == ["BOS→column 3", "column 3→column 2"]
    assert queries(axes)[-1] == "column 0→end"
    assert "mean over 2,000 examples of the test split" in words(figure)
    assert where_from({"split": "all"}) == "the whole domain"


def test_the_first_wrong_step_says_what_would_be_right() -> None:
    axes = panels(grid("cross", 2))[0]
    assert queries(axes) == ["BOS→1 (not 0)", "1→0", "0→9", "9→9", "9→EOS"]


@pytest.mark.parametrize("written", ["1 1 EOS", "1 1 8 8 8 8 8"])
def test_an_answer_of_another_length_is_drawn_as_it_was_written(written: str) -> None:
    found = make_document(n_layers=1, n_heads=1, examples=[("3 7 4 + 8 1 4", "1 1 8 8 EOS", written)])
    shown = queries(panels(head_grid(found, "decoder", 0))[0])
    assert len(shown) == len(written.split())
    assert sum("not" in label for label in shown) == 1


def test_spaces_and_dollar_signs_are_tokens_like_others() -> None:
    found = make_document(("encoder",), 1, 1)
    found["capture"]["examples"][0]["source"] = ["3", "$", "4", "+", " ", "1", "$"]
    figure = head_grid(found, "encoder", 0)
    figure.canvas.draw()
    assert keys(panels(figure)[0]) == ["3", "$", "4", "+", "␣", "1", "$"]
    assert "example 0:  3$4+ 1$ → 1188EOS" in words(figure)


def test_one_head_is_shown_on_every_example_with_its_own_tokens() -> None:
    figure = head_over_examples(FOUND, "dec0.cross.h2")
    shown = panels(figure)
    assert [keys(axes) for axes in shown] == [example["source"] for example in FOUND["capture"]["examples"]]
    assert [axes.get_title(loc="left") for axes in shown] == ["3 7 4 + 8 1 4", "9 0 5 + 2 6 7", "4 9 6 + 5 0 3"]
    assert shown[2].texts[0].get_text() == "→ 1 0 9 9 EOS (wrong)"
    assert len({id(mesh(axes).norm) for axes in shown}) == 1
    assert words(figure)[0] == "dec0.cross.h2"


def test_examples_may_differ_in_length() -> None:
    found = make_document(("encoder",), 1, 1, examples=[("2 7 31 90", "1", "1"), ("5 4 3 2 1 0", "0", "1")])
    sizes = [mesh(axes).get_array().shape for axes in panels(head_over_examples(found, "enc0.self.h0"))]
    assert sizes == [(4, 4), (6, 6)]


def test_heads_that_were_taken_away_leave_a_gap() -> None:
    found = make_document(n_heads=4)
    found["heads"] = [head for head in found["heads"] if head["layer"] == 1 and head["index"] in (1, 3)]
    shown = panels(head_grid(found, "encoder", 0))
    assert [axes.get_title(loc="left") for axes in shown] == ["enc1.self.h1", "enc1.self.h3"]
    named = [axes.yaxis.get_tick_params()["labelleft"] for axes in shown]
    assert named == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("crss", 0), "the model has no attention of kind 'crss'; did you mean cross? known: cross, decoder, encoder"),
        (("cross", 3), "example 3 was not captured; there are 3, counted from 0"),
    ],
)
def test_what_is_not_there_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        head_grid(FOUND, *arguments)
    assert str(caught.value) == message


def test_no_mean_and_no_weights_and_no_such_head_are_named() -> None:
    empty = {**FOUND, "capture": {"examples": [{"source": ["1"], "weights": {}}], "mean": None}}
    with pytest.raises(InputError, match=r"^no mean over the split was captured$"):
        head_grid(empty, "cross", None)
    with pytest.raises(InputError, match=r"^no weights of cross-attention were captured$"):
        head_grid(empty, "cross", 0)
    with pytest.raises(InputError, match=r"^no weights of dec0\.cross\.h0 were captured$"):
        head_over_examples(empty, "dec0.cross.h0")
    with pytest.raises(InputError, match=r"^no head 'dec0\.cros\.h0'; did you mean dec0\.cross\.h0\?"):
        head_over_examples(FOUND, "dec0.cros.h0")
