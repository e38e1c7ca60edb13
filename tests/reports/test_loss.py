"""The change of the loss without each head: the numbers of the document, with the limit of 1 %."""

from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from headway.errors import InputError
from headway.reports.loss import class_of
from headway.results.heads import Drop
from headway.results.schema import blank
from tests.reports.documents import make_document
from tests.reports.drawing import head_figures, loss_changes

FOUND = make_document(n_layers=1, n_heads=3)
CHANGES = {head["head"]: head["ablation"]["zero"] for head in FOUND["heads"]}


def with_changes(*changes: tuple[float, tuple[float, float] | None]) -> dict[str, Any]:
    """Findings on as many heads as changes are given."""
    found = make_document(("decoder",), 1, len(changes))
    for head, (change, interval) in zip(found["heads"], changes, strict=True):
        head["ablation"] = {"zero": {**head["ablation"]["zero"], "loss_change": change}}
        head["ablation"]["zero"]["loss_change_interval"] = interval
    return found


def words(figure: Figure) -> str:
    return " ".join(text.get_text().replace("\n", " ") for text in figure.texts)


def test_bars_are_the_changes_largest_first_over_all_kinds() -> None:
    (axes,) = loss_changes(FOUND).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == [CHANGES[name]["loss_change"] for name in names]
    assert widths == sorted(widths, reverse=True)
    assert sorted(names) == sorted(CHANGES)
    whiskers = [found.get_segments()[0] for found in axes.collections if isinstance(found, LineCollection)]
    assert np.array(whiskers)[:, :, 0].tolist() == [CHANGES[name]["loss_change_interval"] for name in names]


@pytest.mark.parametrize(
    ("interval", "where"),
    [
        ((-5.0, 0.9), "under 1 %"),
        ((0.5, 1.5), "not decided"),
        ((1.1, 900.0), "over 1 %"),
        (None, "under 1 %"),
    ],
)
def test_a_head_is_under_or_over_a_hundredth_where_the_whole_interval_is(interval: Any, where: str) -> None:
    assert class_of(blank(Drop, loss_change=0.7, loss_change_interval=interval)) == where


def test_it_is_counted_how_many_heads_are_under_a_hundredth_and_how_many_surely() -> None:
    found = with_changes((0.2, (0.1, 0.3)), (0.9, (0.5, 1.4)), (-3.0, (-4.0, -2.0)), (70.0, (60.0, 80.0)))
    figure = loss_changes(found)
    assert "3 of 4 heads raise it by under 1 %, 2 of them with the whole interval" in words(figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["over 1 % (1)", "not decided (1)", "under 1 % (2)"]


def test_changes_over_decades_have_a_logarithmic_scale_and_small_ones_do_not() -> None:
    wide, narrow = (loss_changes(with_changes((change, None), (0.1, None))).axes[0] for change in (6.6e6, 4.0))
    assert (wide.get_xscale(), narrow.get_xscale()) == ("symlog", "linear")
    for axes in (wide, narrow):
        assert axes.get_xlim()[0] <= 0 < 1 < axes.get_xlim()[1], "the limit is always in view"
    labels = [wide.xaxis.get_major_formatter()(tick) for tick in wide.xaxis.get_major_locator()()]
    assert labels == ["0", "1", "10", "100", "1,000", "10⁴", "10⁵", "10⁶"]


def test_of_a_model_with_few_errors_it_is_said_that_the_intervals_are_too_narrow() -> None:
    for wrong, said in ((0, True), (9, True), (10, False)):
        found = {**FOUND, "baseline": {**FOUND["baseline"], "wrong": wrong}}
        assert ("these intervals are too narrow" in words(loss_changes(found))) == said


def test_findings_without_a_loss_have_no_such_figure() -> None:
    found = with_changes((0.2, None))
    found["heads"][0]["ablation"]["zero"]["loss_change"] = None
    assert [name for name, _ in head_figures(found) if name.startswith("loss")] == []
    with pytest.raises(InputError, match=r"^no change of the loss by zero ablation in the findings$"):
        loss_changes(found)
