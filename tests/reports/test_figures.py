"""All figures of a run: which files, the same bytes every time, nothing cut off or on top of something else."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure

from headway.narration.method import METHOD
from headway.reports.elimination import curves
from headway.reports.error_figure import scale_limits
from headway.reports.figures import patching_figure
from headway.reports.interventions import rows_that_move
from headway.reports.style import DOTTED, style
from headway.results.error_analysis import ByValue
from headway.results.joint_ablation import Step
from headway.results.patching import Contrast
from headway.results.schema import blank, read
from tests.reports.documents import make_document
from tests.reports.drawing import as_answer, draw_all, head_figures, head_sheet, importance, shapley
from tests.results.made_up_values import filled

EXAMPLE = ("3 7 4 + 8 1 4", "1 1 8 8 EOS", "1 1 8 8 EOS")
SMALL = make_document(n_layers=1, n_heads=1, examples=[EXAMPLE])
TEXT = (
    "1 2 3 4 5 6 7 8 9 0 1 2 3 _ + _ 1 2 3 4 5 6 7 8 9 0 1 2 3 _ = _",
    "2 4 6 9 1 3 5 7 8 0 2 4 6 EOS",
    "2 4 6 9 1 3 5 7 8 0 2 4 6 EOS",
)
SENTENCE = "2 7 7 31 90 91 92 93 94 95 96 97 98 98 99 99"


def sortedness() -> dict[str, Any]:
    """An encoder alone: no answer is written, lengths differ, and nothing is known to intervene on."""
    found = make_document(("encoder",), examples=[(SENTENCE, "1", "1"), ("2 7 31 7 90 12 13 15", "0", "1")])
    for example in found["capture"]["examples"]:
        example["prefix"] = []
    found["capture"] |= {"mean": None, "class_names": ["not sorted", "sorted"]}
    return {**found, "interventions": {"n": 100, "contrasts": []}}


def pruned() -> dict[str, Any]:
    found = make_document(n_heads=3)
    return {**found, "heads": [head for head in found["heads"] if head["index"] or head["layer"]]}


SHAPES: dict[str, Callable[[], dict[str, Any]]] = {
    "addition": make_document,
    "one layer of each": lambda: make_document(n_layers=1),
    "encoder alone": sortedness,
    "decoder alone": lambda: make_document(("decoder",), n_layers=1),
    "one head": lambda: make_document(("encoder",), 1, 1),
    "forty heads": lambda: make_document(("encoder",), 5, 8),
    "144 heads": lambda: make_document(n_layers=6, n_heads=8, examples=[EXAMPLE]),
    "text": lambda: make_document(n_layers=1, examples=[TEXT]),
    "text alone": lambda: make_document(("decoder",), n_layers=1, examples=[TEXT]),
    "pruned": pruned,
}


def names_of(found: dict[str, Any]) -> list[str]:
    return [name for name, _ in head_figures(found)]


def one_head() -> dict[str, Any]:
    """A decoder with one head, ablated in one way, with one intervention."""
    found = make_document(("decoder",), 1, 1, [EXAMPLE])
    found["heads"][0]["ablation"].popitem()
    found["heads"][0]["ablation"].popitem()
    return {**found, "interventions": {"contrasts": found["interventions"]["contrasts"][:1]}}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return draw_all(one_head(), tmp_path_factory.mktemp("reports") / "figures")


def test_a_panel_is_measured_once_and_each_file_needs_one_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: Counter[Axes] = Counter()
    measure = Axes.get_tightbbox

    def counted(axes: Axes, *given: Any, **named: Any) -> Any:
        measured[axes] += 1
        return measure(axes, *given, **named)

    monkeypatch.setattr(Axes, "get_tightbbox", counted)
    figure = head_sheet(SMALL, 0)
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    assert [measured[axes] for axes in panels] == [1] * len(panels)
    assert figure.get_layout_engine() is None, "with one, matplotlib draws twice to write once"


def test_every_figure_is_written_twice_under_a_name_that_can_be_guessed(written: list[Path]) -> None:
    assert sorted(written) == sorted(written[0].parent.iterdir())
    expected = [
        "heads-mean",
        "heads-example-0",
        "head-dec0.self.h0-examples",
        "importance-zero",
        "loss-zero",
        "elimination",
        "shapley",
        "interventions-carry",
        "anatomy",
    ]
    assert [path.name for path in written] == [f"{name}.{ending}" for name in expected for ending in ("png", "svg")]
    for path in written[::2]:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_name_of_a_patching_figure_has_no_spaces() -> None:
    assert patching_figure("the source's answer") == "interventions-the-source-s-answer"
    assert patching_figure("carry") == "interventions-carry"


def test_the_head_that_costs_most_is_at_the_top_of_its_kind() -> None:
    found = make_document()
    figure = importance(found)
    rows = 0
    for axes in figure.axes:
        bars = sorted(axes.patches, key=lambda bar: -axes.transData.transform((0, bar.get_y()))[1])
        drops = [bar.get_width() for bar in bars]
        assert drops == sorted(drops, reverse=True) and drops[0] > drops[-1]
        rows += len(drops)
    assert rows == len(found["heads"])


def test_whiskers_of_shapley_values_reach_one_standard_error_to_either_side() -> None:
    found = make_document(("encoder",), 1, 4)
    (axes, *_) = shapley(found).axes
    drawn = [line for line in axes.collections if line.get_linewidth()[0] == 1.1]
    ends = [tuple(segment[:, 0].tolist()) for line in drawn for segment in line.get_segments()]
    values = next(iter(found["joint"]["shapley"].values()))["values"]
    assert sorted(ends) == sorted((one["value"] - one["error"], one["value"] + one["error"]) for one in values)
    assert all(low < high for low, high in ends)


def test_accuracies_near_one_are_drawn_on_a_scale_of_their_own() -> None:
    """The lowest interval of at least 20 examples begins at 98.5 %, and a twelfth of the rest is left below it."""
    rows = [(500, 0.995, (0.985, 0.999)), (500, 0.999, (0.99, 1.0)), (3, 1.0, (0.3, 1.0))]
    entries = [
        blank(ByValue, value=one, n=n, accuracy=accuracy, interval=interval)
        for one, (n, accuracy, interval) in enumerate(rows)
    ]
    assert scale_limits({"feature": entries}) == pytest.approx((0.985 - 0.08 * 0.015, 1 + 0.08 * 0.015))


def test_text_is_text_in_an_svg_and_carries_no_date(written: list[Path]) -> None:
    text = written[3].read_text()
    assert "BOS→1" in [element.text for element in ElementTree.fromstring(text).iter() if element.tag.endswith("}text")]
    assert "date" not in text


def test_the_same_findings_give_the_same_bytes_whatever_the_user_has_set(written: list[Path], tmp_path: Path) -> None:
    mine = {"figure.facecolor": "black", "font.size": 30, "svg.fonttype": "path", "savefig.dpi": 30}
    with matplotlib.rc_context(mine):  # type: ignore[arg-type]
        again = draw_all(one_head(), tmp_path)
        assert matplotlib.rcParams["figure.facecolor"] == "black", "theirs is back afterwards"
    for one, other in zip(written, again, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_only_the_most_important_head_of_each_kind_is_shown_by_itself() -> None:
    found = make_document()
    found["heads"][5]["ablation"]["zero"]["drop"] = 100.0
    alone = [name for name in names_of(found) if name.startswith("head-")]
    assert alone[0] == f"head-{found['heads'][5]['head']}-examples"
    assert len(alone) == 3


@pytest.mark.parametrize(
    ("without", "gone"),
    [
        ({"interventions": {}}, "interventions"),
        ({"anatomy": {}}, "anatomy"),
        ({"joint": {}}, "elimination"),
        ({"joint": {}}, "shapley"),
        ({"capture": {}}, "head"),
        ({"capture": {"examples": SMALL["capture"]["examples"], "mean": None}}, "heads-mean"),
        ({"heads": [{**head, "ablation": {}} for head in SMALL["heads"]]}, "importance"),
    ],
)
def test_parts_that_are_empty_are_left_out(without: dict[str, Any], gone: str) -> None:
    found = {**SMALL, **without}
    assert [name for name in names_of(found) if name.startswith(gone)] == []
    assert len(names_of(found)) < len(names_of(SMALL))


def test_a_kind_that_the_model_does_not_have_is_left_out() -> None:
    headings = {text.get_text() for axes in head_sheet(sortedness(), 0).axes for text in axes.texts}
    assert {heading for heading in headings if heading.endswith("attention")} == {"Encoder self-attention"}


def test_a_class_is_called_as_the_task_calls_it() -> None:
    assert [as_answer(sortedness(), texts) for texts in (["1"], ["0"], [])] == ["sorted", "not sorted", ""]
    assert as_answer(make_document(), ["1", "1", "8", "8", "EOS"]) == "1188"


class Typesetter(RendererAgg):
    """Notes the box of every line of text in pixels, from the top left."""

    def __init__(self, figure: Figure):
        super().__init__(*(figure.get_size_inches() * figure.dpi), figure.dpi)
        self.boxes: list[tuple[str, float, float, float, float]] = []

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None) -> None:  # type: ignore[no-untyped-def]
        width, height, below = self.get_text_width_height_descent(s, prop, ismath)
        above = height - below
        if angle == 90:
            self.boxes.append((s, x - above, y - width, x + below, y))
        else:
            self.boxes.append((s, x, y - above, x + width, y + below))


def boxes_of(figure: Figure) -> list[tuple[str, float, float, float, float]]:
    with style():
        renderer = Typesetter(figure)
        figure.draw(renderer)
    return [box for box in renderer.boxes if box[0].strip()]


def overlapping(boxes: list[tuple[str, float, float, float, float]]) -> list[tuple[str, str]]:
    """Texts that share more than a pixel each way: hinting may move a glyph by one."""
    edges = np.array([box[1:] for box in boxes])
    low = np.maximum(edges[:, None, :2], edges[None, :, :2])
    high = np.minimum(edges[:, None, 2:], edges[None, :, 2:])
    shared = ((high - low) > 1).all(-1)
    return [(boxes[i][0], boxes[j][0]) for i, j in combinations(range(len(boxes)), 2) if shared[i, j]]


ALIKE = ("example-0", "example-1", "position-mean", "importance-mean", "loss-mean", "carry")
"""Figures that are drawn like others of their kind; the long version of the test looks at them too."""


@pytest.mark.parametrize(
    ("shape", "skipped"),
    [
        ("one layer of each", ALIKE),
        ("encoder alone", ("example-1", *ALIKE[2:])),
        ("one head", ALIKE),
        ("text", ALIKE[1:]),
        ("text alone", ALIKE[1:]),
        *(pytest.param(shape, ("nothing",), marks=pytest.mark.long) for shape in SHAPES),
    ],
)
def test_no_text_is_cut_off_or_written_over_another(shape: str, skipped: tuple[str, ...]) -> None:
    for name, draw in head_figures(SHAPES[shape]()):
        if name.endswith(skipped):
            continue
        figure = draw()
        across, down = figure.get_size_inches() * figure.dpi
        boxes = boxes_of(figure)
        assert [box for box in boxes if box[1] < 0 or box[2] < 0 or box[3] > across or box[4] > down] == [], name
        assert overlapping(boxes) == [], name


def test_the_typesetter_sees_texts_that_overlap() -> None:
    figure = Figure((2, 2))
    for x, text in ((0.1, "first words"), (0.2, "second words"), (0.95, "too far")):
        figure.text(x, 0.5, text)
    boxes = boxes_of(figure)
    assert overlapping(boxes) == [("first words", "second words")]
    assert boxes[2][3] > 2 * figure.dpi


def test_neither_torch_nor_a_window_is_needed() -> None:
    rooms = "headway.reports.figures, headway.reports.lengths"
    code = f"import sys, {rooms}; print({{'torch', 'matplotlib.pyplot'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_single_drops_added_up_fall_by_as_many_points_as_they_add_up_to() -> None:
    steps = [blank(Step, accuracy=0.9, sum_of_single_drops=points) for points in (0.0, 5.0, 30.0)]
    axes = Figure().subplots()
    curves(axes, steps)
    line = next(line for line in axes.get_lines() if line.get_label() == "single drops added up")
    assert list(line.get_ydata()) == pytest.approx([0.9, 0.85, 0.6])


@pytest.mark.parametrize(("start", "limits"), [(0.9, [0.85, 0.89]), (1.0, [0.95, 0.99]), (0.04, [-0.01, 0.03])])
def test_limits_of_one_and_five_points_lie_below_the_accuracy_of_all_heads(start: float, limits: list[float]) -> None:
    steps = [blank(Step, accuracy=one, sum_of_single_drops=0.0) for one in (start, start - 0.02, 0.0)]
    axes = Figure().subplots()
    curves(axes, steps)
    level = [line for line in axes.get_lines() if line.get_linestyle() == DOTTED or list(line.get_xdata()) == [0, 1]]
    assert all(len(set(line.get_ydata())) == 1 for line in level)
    assert sorted(line.get_ydata()[0] for line in level) == pytest.approx(limits)


def test_only_rows_that_surely_move_nothing_are_left_out() -> None:
    limit = METHOD.moves_above
    ends = {"surely": [limit + 0.1, 1], "perhaps": [limit - 0.01, limit + 0.01], "not": [0, limit - 0.01]}
    rows = [{"who": who, "interval": interval} for who, interval in ends.items()]
    contrast = read(Contrast, filled(Contrast, {"name": "carry", "usable": 100, "rows": rows}), "heads.json")
    assert rows_that_move([["surely", "not"], ["perhaps"]], [contrast]) == [["surely"], ["perhaps"]]
    assert rows_that_move([["not"]], [contrast]) == [["not"]]
