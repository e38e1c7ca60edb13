"""The figure of heads against length shows the document's numbers, and no text is cut off or over another."""

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import same_color, to_rgba
from matplotlib.figure import Figure

from headway.length_analysis.mechanism import mechanism
from headway.reports.lengths import groups_of, length_figures
from headway.reports.mechanism import columns, draw_mechanism, sparse
from headway.reports.style import RED
from headway.results.lengths import Lengths
from headway.results.mechanism import Mechanism
from headway.results.schema import read
from tests.length_analysis.planted import plant
from tests.reports.length_documents import make_lengths
from tests.reports.mechanism_documents import make_mechanism, mechanism_document
from tests.reports.test_figures import boxes_of, overlapping

ADDITION = (
    "diagonal",
    "boundary",
    "previous_column",
    "first_operand",
    "second_operand",
    "operator",
    "carry",
    "entropy",
)

SHAPES: dict[str, dict[str, Any]] = {
    "two layers": {},
    "one head, one length past training": {"layers": 1, "heads": 1, "lengths": (16, 64), "culprit": "enc0.self.h0"},
    "nothing changes": {"culprit": None, "fails_at": None},
    "eight heads a layer": {"layers": 1, "heads": 8, "scores": ADDITION, "culprit": "enc0.self.h6"},
    "long, not looked at": {"layers": 1, "lengths": (16, 32, 64, 1_024, 4_096), "culprit": "enc0.self.h2"},
}


def cells(figure: Figure) -> dict[str, tuple[Axes, Axes]]:
    """The two panels of each head."""
    axes = figure.axes[1:]
    return {upper.get_title(loc="left"): (upper, lower) for upper, lower in zip(axes[::2], axes[1::2], strict=True)}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_text_is_cut_off_or_written_over_another(shape: str) -> None:
    figure = draw_mechanism(make_mechanism(**SHAPES[shape]))
    across, down = figure.get_size_inches() * figure.dpi
    boxes = boxes_of(figure)
    assert [box for box in boxes if box[1] < 0 or box[2] < 0 or box[3] > across or box[4] > down] == []
    assert overlapping(boxes) == []


def test_lines_are_the_numbers_of_the_document() -> None:
    found = make_mechanism(1, 3, captured=128, culprit="enc0.self.h1")
    figure = draw_mechanism(found)
    for head in found.heads:
        upper, lower = cells(figure)[head.head]
        lines = [line for line in upper.get_lines() if len(line.get_xdata()) > 2]
        assert len(lines) == len(head.scores)
        for line, along in zip(lines, head.scores.values(), strict=True):
            assert list(line.get_xdata()) == [8, 16, 32, 64, 128], "at 256 nothing was looked at"
            assert list(line.get_ydata()) == [row.value for row in along if row is not None]
        drawn = [list(line.get_ydata()) for line in lower.get_lines() if len(line.get_xdata()) > 2]
        assert drawn == [[row.value for row in along] for along in head.effects.values()]
    accuracy, pieces, *_ = figure.axes[0].get_lines()
    assert list(accuracy.get_ydata()) == [row.accuracy for row in found.lengths]
    assert list(pieces.get_xdata()) == [32, 64, 128, 256] and set(pieces.get_ydata()) == {0.97}


def test_the_head_that_changes_first_is_framed_and_named() -> None:
    figure = draw_mechanism(make_mechanism(2, 2))
    framed = {
        name for name, (upper, _) in cells(figure).items() if same_color(upper.spines["top"].get_edgecolor(), RED)
    }
    assert framed == {"enc1.self.h1"}
    texts = [text for text, *_ in boxes_of(figure)]
    assert "Heads against length: enc1.self.h1 changes first, at 64" in texts
    assert any(text.startswith("inversion: 0.80 on crops of 16, 0.40 there") for text in texts)
    assert " fails at 64" in texts


def test_full_markers_are_changes() -> None:
    upper, _ = cells(draw_mechanism(make_mechanism(2, 2)))["enc1.self.h1"]
    full = [
        float(line.get_xdata()[0])
        for line in upper.get_lines()
        if line.get_marker() != "None" and to_rgba(line.get_markerfacecolor()) != to_rgba("white")
    ]
    assert full == [64, 128, 256]


def test_where_nothing_changes_it_says_so_and_frames_nothing() -> None:
    figure = draw_mechanism(make_mechanism(1, 2, culprit=None, fails_at=None))
    assert "Heads against length: none changes" in [text for text, *_ in boxes_of(figure)]
    assert not any(upper.spines["top"].get_visible() for upper, _ in cells(figure).values())


def test_an_effect_that_changes_first_is_told_as_one() -> None:
    found = make_mechanism(1, 1, pieces=False)
    assert found.first is not None
    found = replace(found, first=replace(found.first, about="effect", what="zero", before=1.0, after=0.1))
    texts = [text for text, *_ in boxes_of(draw_mechanism(found))]
    assert any(text.startswith("without it (zero): 1.0 at 16, 0.10 there") for text in texts)


def test_made_up_documents_are_like_real_ones() -> None:
    found = mechanism(plant("even"), [64], n=20)
    real, made = found.to_json(), make_mechanism(1, 3, (16, 64)).to_json()
    assert set(real["heads"][0]["scores"]) == set(made["heads"][0]["scores"]), "all other names are the type's"
    assert isinstance(draw_mechanism(found), Figure)


def test_it_is_drawn_for_every_run_that_has_it() -> None:
    def names(*documents: Lengths) -> list[str]:
        return [name for name, _ in length_figures(groups_of(documents)) if name.startswith("mechanism")]

    without, one, two = (make_lengths("rotary", "max", seed, lengths=(16, 64)) for seed in range(3))
    found = make_mechanism(1, 1, (16, 64), culprit=None)
    one, two = replace(one, mechanism=found), replace(two, mechanism=found)
    assert names(without) == []
    assert names(one) == ["mechanism"]
    assert names(without, one, two) == ["mechanism-seed-1", "mechanism-seed-2"]
    assert names(one, make_lengths("none", "max", lengths=(16, 64))) == ["mechanism-rotary-max"]


def test_a_row_of_cells_is_a_layer_or_an_even_part_of_one() -> None:
    def across(heads: int) -> int:
        return columns(make_mechanism(2, heads, (16, 64)).heads)

    assert [across(heads) for heads in (1, 4, 6, 8, 16)] == [1, 4, 6, 4, 6]


def test_labels_along_the_lengths_keep_apart() -> None:
    assert sparse([8, 9, 16, 32, 64, 128], 16) == [16, 64]
    assert sparse([16], 16) == [16]


def test_a_document_from_before_pieces_were_measured_is_drawn_without_them() -> None:
    document = mechanism_document(1, 2, culprit="enc0.self.h1")
    rows = [{key: value for key, value in row.items() if key != "pieces"} for row in document["lengths"]]
    found, without = (read(Mechanism, one, "lengths.json") for one in (document, {**document, "lengths": rows}))
    assert len(draw_mechanism(found).axes[0].get_lines()) == len(draw_mechanism(without).axes[0].get_lines()) + 1
