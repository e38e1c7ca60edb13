"""Figures and table of lengths: they show the documents' numbers, and no text is cut off or written over another."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headway.errors import InputError
from headway.reports.length_bars import bar_lengths, bars, draw_held, lengths_held, spread
from headway.reports.length_curves import answers, curves, plan_panels
from headway.reports.length_gaps import count, maps
from headway.reports.length_groups import Group, constant_words, default_name, groups_of, points, seeds_remark
from headway.reports.length_map import length_map
from headway.reports.length_overview import overview_of_lengths
from headway.reports.lengths import length_figures, length_table, markdown, write_encodings, write_figures
from headway.reports.positions import biases, encodings, identities, learned_table
from headway.reports.style import style
from headway.results.lengths import DifficultyBin, Lengths
from headway.results.positions import Patterns, Positions
from headway.results.schema import read
from headway.results.study import Mastery, MeasuredRun
from tests.reports.length_documents import LONG, TRAINED, holds, make_lengths, make_sums, perfect
from tests.reports.test_figures import boxes_of, overlapping

ENCODINGS = ("sinusoidal", "learned", "none", "one-hot", "rotary", "alibi", "t5", "clipped", "fire", "randomized")
POOLINGS = ("mean", "max", "multi-feature")


def grid(encodings: tuple[str, ...], poolings: tuple[str, ...], seeds: int, **more: Any) -> list[Lengths]:
    """Cells that fail at different lengths; learned positions with mean pooling answer 1 from 32 on."""
    found = []
    for place, (encoding, pooling) in enumerate((one, other) for one in encodings for other in poolings):
        constant = ("1", 32) if (encoding, pooling) == ("learned", "mean") else None
        for seed in range(seeds):
            curve = holds(20 * 2 ** (place % 6 + seed / 3))
            found.append(make_lengths(encoding, pooling, seed, curve, constant=constant, **more))
    return found


def holes() -> list[Lengths]:
    """One run without a set, one with a length that is not there, one with other lengths, and one without findings."""
    missing = make_lengths("rotary", "max", sets=("swaps", "adjacent"))
    unknown = make_lengths("none", "max", curve=holds(60))
    unknown = replace(unknown, rows=(*unknown.rows[:11], *unknown.rows[12:]))
    other = make_lengths("fire", "mean", lengths=(16, 48, 100), curve=holds(60))
    return [missing, unknown, other, make_lengths("t5", "last", sets=("swaps",), lengths=(64,))]


def gated() -> list[MeasuredRun]:
    """Sums of which some runs did not master their training lengths."""
    found = []
    for place, encoding in enumerate(("coupled", "abacus", "rotary", "none")):
        for seed in range(2):
            mastery = Mastery(mastered=place + seed < 3, accuracy=0.4, step=None, gate=0.999, stops=True)
            found.append(MeasuredRun.of(make_sums(encoding, seed), mastery))
    return found


SHAPES: dict[str, Any] = {
    "gated": gated,
    "one run": lambda: [make_lengths(curve=holds(100))],
    "one length": lambda: [make_lengths(lengths=(64,), sets=("adjacent",))],
    "two seeds": lambda: grid(("none",), ("mean", "max"), 2),
    "six groups": lambda: grid(
        ("sinusoidal", "learned", "none"), ("mean", "multi-feature"), 6, lengths=(8, 12, 16, *LONG)
    ),
    "holes": holes,
    "constant everywhere": lambda: [make_lengths(seed=seed, constant=("0", 8), sets=("swaps",)) for seed in range(3)],
    "sums": lambda: [make_sums(one, seed) for one in ("coupled", "abacus", "rotary") for seed in range(3)],
}


def check(figure: Figure, name: str) -> None:
    across, down = figure.get_size_inches() * figure.dpi
    boxes = boxes_of(figure)
    assert [box for box in boxes if box[1] < 0 or box[2] < 0 or box[3] > across or box[4] > down] == [], name
    assert overlapping(boxes) == [], name


@pytest.mark.parametrize("shape", SHAPES)
def test_no_text_is_cut_off_or_written_over_another(shape: str) -> None:
    for name, draw in length_figures(groups_of(SHAPES[shape]())):
        if name not in ("lengths-gap-swaps", "lengths-gap-matched"):  # drawn as the map of adjacent inversions is
            check(draw(), f"{shape}: {name}")


@cache
def thirty_groups() -> list[Lengths]:
    return grid(ENCODINGS, POOLINGS, 2, sets=("swaps", "adjacent"), lengths=(8, 12, 16, *LONG))


@pytest.mark.parametrize("kind", ["curves", "answers", "bars", "held", "gap"])
def test_thirty_groups_have_a_figure_a_set_that_can_be_read(kind: str) -> None:
    plans = dict(length_figures(groups_of(thirty_groups())))
    assert {name for name in plans if kind in name} == {f"lengths-{kind}-{one}" for one in ("swaps", "adjacent")}
    figure = plans[f"lengths-{kind}-adjacent"]()
    check(figure, kind)
    assert figure.get_size_inches()[0] < 7, "wider ones cannot be read on a phone"


def test_many_groups_share_panels_by_the_first_part_of_their_name() -> None:
    _, panels = plan_panels(groups_of(thirty_groups()))[1]
    assert [panel.title for panel in panels] == list(ENCODINGS)
    assert {tuple(panel.labels) for panel in panels} == {POOLINGS}
    figure = curves(panels)
    colours = [[line.get_color() for line in named_lines(axes)] for axes in figure.axes]
    assert all(one == colours[0] for one in colours), "a pooling looks alike in every panel"
    assert len(set(colours[0])) == 3


def test_more_lines_than_styles_have_a_panel_each() -> None:
    documents = [make_lengths(sets=("swaps",), lengths=(16, 32)) for _ in range(9)]
    ((_, panels),) = plan_panels(groups_of(documents, [f"arm {place}" for place in range(9)]))
    assert [len(panel.groups) for panel in panels] == [1] * 9


def named_lines(axes: Axes) -> list[Any]:
    """The median of each group; other lines have no name."""
    return [line for line in axes.lines if not str(line.get_label()).startswith("_")]


def test_curves_show_the_numbers_of_the_document() -> None:
    documents = [make_lengths(seed=seed, curve=holds(60)) for seed in range(3)]
    groups = groups_of(documents)
    ((_, panels),) = plan_panels(groups)
    figure = curves(panels)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "random swaps",
        "one adjacent inversion",
        "one adjacent inversion, gaps as in training",
    ]
    axes = figure.axes[1]
    rows = [[row.accuracy for row in one.of_set("adjacent").values()] for one in documents]
    (middle,) = named_lines(axes)
    assert middle.get_ydata() == pytest.approx(np.median(rows, axis=0))
    assert 2 ** np.asarray(middle.get_xdata()) == pytest.approx([*TRAINED, *LONG]), "8 to 16 each shown"
    seeds = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 0.5]
    assert np.asarray(seeds) == pytest.approx(np.asarray(rows))
    texts = [text.get_text() for text in axes.texts]
    assert {"trained", "99 %", "chance"} <= set(texts)


def test_a_single_seed_has_the_interval_of_its_examples_and_six_that_of_the_median() -> None:
    (group,) = groups_of([make_lengths(curve=holds(60))])
    assert points(group, "swaps")[-1].interval == group.runs[0].rows[14].interval
    several = [make_lengths("rotary", "mean", curve=holds(100 * seed)) for seed in range(1, 7)]
    assert {one.interval for one in points(groups_of(several[:5])[0], "swaps")} == {None}, "five seeds are only shown"
    last = points(groups_of(several)[0], "swaps")[-1]
    own = [document.rows[14].interval for document in several]
    assert last.interval == (min(low for low, _ in own), max(high for _, high in own))
    assert last.median == pytest.approx(np.median(last.values))
    assert seeds_remark([group]) == "rotary, mean; one seed"
    assert seeds_remark(groups_of([*group.runs] * 6)) == "rotary, mean; 6 seeds"
    assert seeds_remark(groups_of([*group.runs] * 5)) == "rotary, mean; 5 seeds (fewer than 6: descriptive)"


@pytest.mark.parametrize(
    ("sizes", "remark"),
    [
        ((2, 6), "2 to 6 seeds (fewer than 6: descriptive)"),
        ((7, 5, 6), "5 to 7 seeds (fewer than 6: descriptive)"),
        ((6, 1), "1 to 6 seeds (fewer than 6: descriptive)"),
        ((5, 5), "5 seeds (fewer than 6: descriptive)"),
        ((6, 6), "6 seeds"),
        ((8, 6), "6 to 8 seeds"),
        ((1, 1), "one seed each"),
    ],
)
def test_groups_are_descriptive_if_any_of_them_has_fewer_than_six_seeds(sizes: tuple[int, ...], remark: str) -> None:
    document = make_lengths(lengths=(64,), sets=("swaps",))
    groups = [Group(f"group {place}", (document,) * n) for place, n in enumerate(sizes)]
    assert seeds_remark(groups) == remark


@pytest.mark.parametrize(("constant", "hollow"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_point_is_one_answer_to_everything_only_if_it_is_in_every_seed(constant: int, hollow: bool) -> None:
    runs = [make_lengths(seed=seed, constant=("1", 32) if seed < constant else None) for seed in range(3)]
    (group,) = groups_of(runs)
    found = {one.length: one.constant for one in points(group, "swaps")}
    assert found[64] is hollow and not found[16]


def test_a_constant_answer_is_seen_and_said() -> None:
    documents = grid(("learned", "none"), ("mean",), 3)
    documents[0] = replace(documents[0], constant=None)
    groups = groups_of(documents)
    assert constant_words(groups) == ["learned, mean: 2 of 3 seeds answer 1 from 32 on"]
    ((_, panels),) = plan_panels(groups)
    figure = answers(panels)
    shares = named_lines(figure.axes[0])[0].get_ydata()
    assert list(shares[-6:]) == [1.0] * 6
    hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert [list(line.get_ydata()) for line in hollow] == [[1.0] * 6]
    assert any("2 of 3 seeds answer 1" in text.get_text() for text in figure.texts)
    alone = groups_of([make_lengths(constant=("0", 8))])
    assert constant_words(alone) == ["rotary, mean: always answers 0 from 8 on"]


def test_bars_stand_at_the_lengths_of_the_brief_or_the_first_past_training() -> None:
    assert bar_lengths(groups_of([make_lengths()]), "swaps") == [32, 64, 128, 256]
    assert bar_lengths(groups_of([make_lengths(lengths=(8, 16, 48, 100))]), "swaps") == [48, 100]
    assert bar_lengths(groups_of([make_lengths(lengths=(8, 12, 16))]), "swaps") == [8, 12, 16]
    document = make_lengths(curve=holds(60), sets=("swaps",))
    figure = bars(groups_of([document]), ["swaps"])
    widths = [patch.get_width() for axes in figure.axes for patch in axes.patches]
    expected = [row.accuracy for row in document.rows if row.length in (32, 64, 128, 256)]
    assert widths == pytest.approx(expected)


def test_every_seed_has_a_dot_at_its_length_held() -> None:
    documents = [
        replace(make_lengths(seed=seed, sets=("swaps",)), held={"swaps": held})
        for seed, held in enumerate((0, 16, 64, 64, 256, 1024))
    ]
    figure = lengths_held(groups_of(documents), ["swaps"])
    axes = figure.axes[0]
    dots = np.asarray(axes.collections[-1].get_offsets())
    assert list(2 ** dots[1:, 0]) == pytest.approx([16, 64, 64, 256, 1024])
    assert dots[0, 0] == 2, "0 stands an octave before the first length, 8"
    assert len(set(dots[2:4, 1])) == 2, "seeds of one length do not hide each other"
    (box,) = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_width() == 0.32]
    assert box.get_x() + 0.16 == pytest.approx(6), "the median of 64"
    assert [text.get_text() for text in axes.get_xticklabels()][:3] == ["0", "8", "16"]


def test_dots_of_one_place_are_spread_about_their_line() -> None:
    assert spread([1.0, 2.0, 2.0], 5) == pytest.approx([5, 4.915, 5.085])


@style()
def test_a_group_that_was_not_measured_on_a_set_is_named_so() -> None:
    axes = Figure().add_subplot()
    draw_held(axes, groups_of([make_lengths(sets=("swaps",))]), "matched", [8, 16])
    assert "not measured" in [text.get_text() for text in axes.texts]


def test_a_cell_adds_counts_within_a_seed_and_then_gives_each_seed_a_vote() -> None:
    documents = []
    for seed, wrong in enumerate((0, 30)):
        found = make_lengths(seed=seed, sets=("swaps",), lengths=(8, 16, 32))
        gap = DifficultyBin(low=5, high=8, n=60, wrong=wrong, accuracy=1 - wrong / 60, interval=(0.0, 1.0))
        documents.append(replace(found, rows=tuple(replace(row, by={"gap": (gap,)}) for row in found.rows)))
    (group,) = groups_of(documents)
    cells = count(group, "gap", "swaps", [[8, 16], [32]])
    assert cells[(5, 8), 8] == pytest.approx(((1 + 0.5) / 2, 120))
    assert cells[(5, 8), 32] == pytest.approx((0.75, 60))
    texts = [text.get_text() for text in maps([group], "gap", "swaps").axes[0].texts]
    assert texts == ["75", "75", "n 60"], "fewer than 100 examples are said"


def test_the_table_has_a_row_for_each_set_and_group() -> None:
    documents = [*grid(("learned",), ("mean",), 2), make_lengths("none", "max", sets=("swaps",), lengths=(16, 32))]
    for place, held in enumerate((12, 16)):
        documents[place] = replace(documents[place], held={**documents[place].held, "swaps": held})
    rows = length_table(documents)
    assert [(row.set, row.group, row.seeds) for row in rows[:3]] == [
        ("swaps", "learned, mean", 2),
        ("swaps", "none, max", 1),
        ("adjacent", "learned, mean", 2),
    ]
    assert list(rows[0].at) == [16, 32, 64, 128, 256, 512, 1024]
    assert rows[1].at[64] is None
    assert rows[1].held == [32]
    lines = markdown(rows).splitlines()
    assert lines[0] == "**random swaps**"
    assert lines[2] == "| group | seeds | 16 | 32 | 64 | 128 | 256 | 512 | 1,024 | length held | median |"
    assert lines[4].endswith("| .500* | .500* | .500* | .500* | .500* | .500* | 12 16 | 14 |"), lines[4]
    assert lines[5] == "| none, max | 1 | 1 | 1 | – | – | – | – | – | 32 | 32 |"
    assert lines[-1] == "\\* every answer there is the same"


def test_the_table_follows_the_lengths_that_were_asked_for() -> None:
    assert list(length_table([make_lengths(lengths=(8, 16, 48, 100))])[0].at) == [16, 48, 100]
    assert list(length_table([make_sums()])[0].at) == [32, 64, 128, 256], "of the trained ones the longest"
    assert list(length_table([make_lengths(lengths=(8, 10))])[0].at) == [8, 10]


def test_groups_may_be_named_by_the_caller() -> None:
    documents = [make_lengths(seed=seed) for seed in range(3)]
    assert [group.seeds for group in groups_of(documents, ["fresh", "course", "fresh"])] == [2, 1]
    assert default_name(make_sums("coupled")) == "coupled"


def test_nothing_measured_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no lengths were measured: there is nothing to draw"):
        write_figures([], tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


def test_figures_are_written_twice_and_are_the_same_every_time(tmp_path: Path) -> None:
    document = make_lengths(sets=("adjacent",), lengths=(8, 16, 32), positions=DOCUMENT)
    paths = [*write_figures([document], tmp_path / "one"), *write_encodings(PATTERNS, tmp_path / "one")]
    expected = [
        "lengths-curves",
        "lengths-answers",
        "lengths-bars",
        "lengths-held",
        "lengths-gap-adjacent",
        "positions-table",
        "positions-bias",
        "positions-identities",
        "encodings",
    ]
    assert [path.name for path in paths] == [f"{name}.{ending}" for name in expected for ending in ("png", "svg")]
    with matplotlib.rc_context({"font.size": 30, "figure.facecolor": "black"}):
        again = [*write_figures([document], tmp_path / "two"), *write_encodings(PATTERNS, tmp_path / "two")]
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


def test_positions_are_drawn_once_for_each_encoding() -> None:
    documents = [
        make_lengths(encoding=e, pooling=p, positions=DOCUMENT) for e in ("learned", "t5") for p in ("max", "mean")
    ]
    names = [name for name, _ in length_figures(groups_of(documents))]
    assert [name for name in names if name.startswith("positions-table")] == [
        "positions-table-learned-max",
        "positions-table-t5-max",
    ]


# Positions


def measured(rows: int, low: float) -> dict[str, Any]:
    distances = list(range(1, rows))
    falling = [10 - one / 4 for one in distances]
    return {
        "rows": rows,
        "coordinates": 12,
        "rotations": [{"shift": shift, "pairs": rows - shift, "residual_share": low * shift} for shift in (1, 2, 4)],
        "products": {
            "pairs": rows * (rows - 1) // 2,
            "within_share": low,
            "unrelated": 0.9,
            "distances": distances,
            "mean": falling,
            "low": [one - low for one in falling],
            "high": [one + low for one in falling],
        },
    }


DOCUMENT: dict[str, Any] = {
    "encoding": "learned",
    "step": 2400,
    "words": ["24 of 40 rows are as they were at step 0", "a position past row 39 takes that row"],
    "table": {
        "rows": 40,
        "coordinates": 12,
        "past": "a position past row 39 takes that row",
        "moved": [0.2 + 0.01 * row for row in range(16)] + [0.0] * 24,
        "untrained_rows": 24,
        "values": [[math.sin(row * column) for column in range(12)] for row in range(40)],
    },
    "biases": [
        {
            "kind": kind,
            "head": head,
            "distances": list(range(-8, 9)),
            "values": [-abs(one) * (head + 1) / 8 for one in range(-8, 9)],
        }
        for kind in ("encoder", "cross")
        for head in range(3)
    ],
    "identities": {"sinusoidal": measured(16, 1e-30), "learned": measured(16, 0.9), "start": measured(16, 0.8)},
    "rotation_error": 4.2e-14,
}
POSITIONS = read(Positions, DOCUMENT, "lengths.json")
PICTURES: dict[str, Any] = {
    "sizes": {"positions": 6, "d_model": 8, "n_heads": 2, "d_head": 4},
    "patterns": [
        {
            "encoding": f"name {place}",
            "hook": hook,
            "columns": "coordinate" if hook != "bias" else "key",
            "words": "added to the token; random at first" if hook != "none" else "no positions at all",
            "values": [] if hook == "none" else [[(row - column) / 4 for column in range(8)] for row in range(6)],
        }
        for place, hook in enumerate(["embed", "none", "rotate", "bias"])
    ],
}
PATTERNS = read(Patterns, PICTURES, "lengths.json")
assert POSITIONS.table is not None
TABLE = POSITIONS.table


def test_pictures_of_positions_have_no_text_over_another() -> None:
    check(learned_table(POSITIONS, TABLE), "table")
    check(biases(POSITIONS, 5), "biases")
    check(identities(POSITIONS), "identities")
    check(identities(replace(POSITIONS, identities={"sinusoidal": POSITIONS.identities["learned"]})), "one alone")
    check(encodings(PATTERNS), "encodings")


def test_rows_that_were_never_trained_are_marked_and_named() -> None:
    figure = learned_table(POSITIONS, TABLE)
    strip, _, beside, _ = figure.axes
    (mark,) = strip.patches
    assert isinstance(mark, Rectangle)
    assert (mark.get_y(), mark.get_height()) == (15.5, 24)
    assert [patch.get_width() for patch in beside.patches] == list(TABLE.moved or ())
    assert [text.get_text() for text in beside.texts] == ["rows 16 to 39\nuntrained"]
    unknown = learned_table(POSITIONS, replace(TABLE, moved=None))
    assert [text.get_text() for text in unknown.axes[2].texts] == ["step 0 is\nnot known"]


def test_identities_are_drawn_as_they_were_measured() -> None:
    above, *below = identities(POSITIONS).axes
    learned = named_lines(above)[1]
    assert list(learned.get_ydata()) == [0.9, 1.8, 3.6]
    assert list(below[1].lines[0].get_ydata()) == list(POSITIONS.identities["learned"].products.mean)
    assert [axes.get_title(loc="left").split("\n")[-1] for axes in below] == [
        "0 % not from distance",
        "90 % not from distance",
        "80 % not from distance",
    ]


def test_positions_of_several_groups_are_told_apart_by_name() -> None:
    documents = [make_lengths(one, "mean", positions=DOCUMENT, curve=perfect) for one in ("learned", "rotary")]
    names = [name for name, _ in length_figures(groups_of([*documents, documents[0]])) if "table" in name]
    assert names == ["positions-table-learned-mean", "positions-table-rotary-mean"], "one run of each group"


def test_a_map_has_its_line_after_the_last_trained_length() -> None:
    groups = groups_of([make_lengths(encoding, sets=("swaps",)) for encoding in ("rotary", "alibi", "none")])
    line = length_map(groups).axes[0].get_lines()[0]
    assert list(line.get_xdata()) == [len(TRAINED)] * 2


def test_combinations_that_are_right_most_often_past_training_are_the_first_of_the_map() -> None:
    """The better a combination is past training, the worse it is at 16 elements."""
    runs = [
        make_lengths(f"encoding{place}", None, curve=lambda length, name, p=place: 0.9 - 0.05 * p if length <= 16
                     else 0.5 + 0.05 * p, sets=("swaps",))
        for place in range(8)
    ]  # fmt: skip
    axes = overview_of_lengths(groups_of(runs)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"encoding{place}" for place in range(7, -1, -1)]
