"""Figures of a sweep: which are drawn, what is written in them, nothing cut off or on top of something else."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from headway.errors import InputError
from headway.reports.grid import cell_lines, grid
from headway.reports.settings import short_value, success_text, text_of, varying
from headway.reports.sweep import _row_remark, draw_seeds, draw_sweep, learning, read_curves, search, sweep_figures
from headway.results.comparison import Comparison, Row
from headway.results.schema import blank
from headway.runs import SweepDirectory
from headway.sweeps.compare import compare
from tests.reports.test_figures import boxes_of, overlapping
from tests.sweeps.made_up import ENCODINGS, RATES, Measure, make_sweep

SIZES = "train.batch_size=" + ",".join(str(size) for size in range(1, 41))
MANY_RATES = "train.lr=" + ",".join(str(rate / 1000) for rate in range(1, 51))
LONG = 'model.encoding={name="learned", table_size=64},{name="learned", table_size=128},rotary'


def mixed(trial: Any) -> float | str | None:
    """Some fail, some have not ended, one is perfect, one nearly so."""
    place = sum(map(ord, trial.name)) % 9
    return "no" if place == 0 else None if place == 1 else {2: 1.0, 3: 0.99999}.get(place, place / 9)


SWEEPS: dict[str, tuple[list[str], int, Measure]] = {
    "seeds alone": ([], 8, lambda trial: 0.5 + trial.seed / 20),
    "one setting": ([ENCODINGS], 8, mixed),
    "one long setting": ([LONG], 3, mixed),
    "a hundred values": ([MANY_RATES], 2, mixed),
    "a grid": ([ENCODINGS, RATES], 8, mixed),
    "a grid of long names": ([LONG, RATES], 2, mixed),
    "a grid of four": ([ENCODINGS, RATES, "model.norm=pre,post", "train.clip=1.0,2.0"], 2, mixed),
    "two thousand cells": ([SIZES, MANY_RATES], 1, mixed),
    "a tall grid": ([MANY_RATES, ENCODINGS], 3, mixed),
    "all failed": ([ENCODINGS, RATES], 2, lambda trial: "no"),
    "nothing ended": ([ENCODINGS, RATES], 2, lambda trial: None),
    "one value each": (["model.norm=pre", "train.lr=0.01"], 1, mixed),
}


def document(folder: Path, name: str, **how: Any) -> tuple[Comparison, SweepDirectory]:
    vary, seeds, measure = SWEEPS[name]
    directory = make_sweep(folder, vary, seeds, measure)
    return compare(directory, **how), directory


def searched(folder: Path) -> Comparison:
    """A search: settings that lie on no grid, on a scale that needs powers of ten."""
    found, _ = document(folder, "a hundred values")
    encodings = ["rotary", "learned", "sinusoidal"]
    rows = tuple(
        replace(
            row,
            settings={
                "train.lr": 10 ** (-4 + place / 20),
                "train.clip": place / 7,
                "model.encoding.name": encodings[place % 3],
            },
        )
        for place, row in enumerate(found.rows)
    )
    vary = {key: tuple(dict.fromkeys(row.settings[key] for row in rows)) for key in rows[0].settings}
    return replace(found, rows=rows, vary=vary)


def write_curves(rows: Sequence[Row], directory: SweepDirectory) -> None:
    for row in rows:
        for name in row.trials:
            run = directory.trial(name)
            run.path.mkdir(parents=True)
            for step in range(0, 1000 + 100 * len(name), 100):
                accuracy = 1 / (1 + math.exp(3 - step / 200))
                run.append_metrics({"step": step, "validation": {"loss": 1.0, "accuracy": accuracy}})
            run.append_metrics({"step": step, "loss": 0.1})


def check(figure: Figure, name: str) -> None:
    across, down = figure.get_size_inches() * figure.dpi
    boxes = boxes_of(figure)
    assert [box for box in boxes if box[1] < 0 or box[2] < 0 or box[3] > across or box[4] > down] == [], name
    assert overlapping(boxes) == [], name


@pytest.mark.parametrize("name", SWEEPS)
def test_no_text_is_cut_off_or_written_over_another(tmp_path: Path, name: str) -> None:
    found, directory = document(tmp_path, name)
    write_curves(found.rows[:12], directory)
    curves = [read_curves(row, directory) for row in found.rows[:12]]
    for figure_name, draw in sweep_figures(found, curves):
        check(draw(), f"{name}: {figure_name}")


@pytest.mark.parametrize("metric", ["loss", "seconds"])
def test_other_metrics_have_their_own_scale(tmp_path: Path, metric: str) -> None:
    found, _ = document(tmp_path, "a grid", metric=metric, success=0.5)
    check(grid(found), metric)
    found, _ = document(tmp_path / "dots", "one setting", metric=metric, success=0.5)
    ((_, draw),) = sweep_figures(found, [])
    check(draw(), metric)


def test_a_search_has_a_panel_a_setting(tmp_path: Path) -> None:
    found = searched(tmp_path)
    ((name, draw),) = sweep_figures(found, [])
    figure = draw()
    check(figure, name)
    assert name == "search-accuracy"
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "linear", "linear"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["train.lr", "train.clip", "model.encoding.name"]


def test_what_a_search_stopped_is_drawn_apart_and_said(tmp_path: Path) -> None:
    found = searched(tmp_path)
    gone: dict[str, Any] = {"n": 0, "failed": 0, "mean": None, "interval": None, "values": ()}
    gone |= {"stopped": 1, "stopped_at": 125, "stopped_mean": 0.25}
    rows = (*found.rows[:2], *(replace(row, **gone) for row in found.rows[2:]))
    stopped = len(rows) - 2
    finished = found.trials_planned - stopped
    found = replace(found, rows=rows, trials_stopped=stopped, trials_failed=0, trials_finished=finished)
    figure = search(found)
    check(figure, "search")
    means, rings, _ = figure.axes[0].collections
    assert (len(means.get_offsets()), len(rings.get_offsets())) == (2, stopped)
    assert set(rings.get_offsets()[:, 1]) == {0.25}
    words = " ".join(text.get_text() for text in figure.texts)
    assert f"{stopped} of {found.trials_planned} stopped at a rung" in words
    assert "a grey ring is a setting that stopped at a rung" in words
    assert "not finished" not in words
    curves = learning(found, [[[] for _ in row.values] for row in found.rows[:4]])
    check(curves, "curves")
    assert [text.get_text() for text in curves.axes[3].texts] == ["stopped at step 125"]


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("seeds alone", ["settings-accuracy", "curves"]),
        ("one setting", ["settings-accuracy", "curves"]),
        ("a grid", ["grid-accuracy", "curves"]),
    ],
)
def test_every_figure_is_written_twice(tmp_path: Path, name: str, figures: list[str]) -> None:
    found, directory = document(tmp_path, name)
    write_curves(found.rows, directory)
    paths = draw_sweep(found, directory)
    assert [path.name for path in paths] == [f"{one}.{ending}" for one in figures for ending in ("png", "svg")]
    assert all(path.parent == directory.figures for path in paths)


def test_the_same_comparison_gives_the_same_bytes(tmp_path: Path) -> None:
    found, directory = document(tmp_path, "a grid")
    first = {path.name: path.read_bytes() for path in draw_sweep(found, directory)}
    with matplotlib.rc_context({"font.size": 30, "figure.facecolor": "black"}):
        again = {path.name: path.read_bytes() for path in draw_sweep(found, directory)}
    assert first == again


def test_without_curves_there_is_no_figure_of_them(tmp_path: Path) -> None:
    found, directory = document(tmp_path, "a grid")
    assert [path.name for path in draw_sweep(found, directory)] == ["grid-accuracy.png", "grid-accuracy.svg"]


def test_curves_that_were_done_again_are_drawn_once(tmp_path: Path) -> None:
    found, directory = document(tmp_path, "seeds alone")
    write_curves(found.rows, directory)
    run = directory.trial(found.rows[0].trials[0])
    run.append_metrics({"resumed_at": 200})
    run.append_metrics({"step": 300, "validation": {"loss": 1.0, "accuracy": 0.25}})
    assert [step for step, _ in read_curves(found.rows[0], directory)[0]] == [0, 100, 200, 300]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"validation": 3}, "validation is 3; an object needed"),
        ({"step": 4, "validation": {"loss": 1, "accuracy": "x"}}, "validation.accuracy at step 4 is 'x'"),
    ],
)
def test_metrics_of_another_form_are_no_curve(tmp_path: Path, record, message: str) -> None:
    found, directory = document(tmp_path, "seeds alone")
    run = directory.trial(found.rows[0].trials[0])
    run.path.mkdir(parents=True)
    run.append_metrics({"step": 5, "validation": {"loss": 1.0, "accuracy": 0.5}})
    assert read_curves(found.rows[0], directory)[0] == [(5, 0.5)]
    run.append_metrics(record)
    with pytest.raises(InputError, match=message):
        read_curves(found.rows[0], directory)


def test_colour_alone_still_says_what_hatching_means(tmp_path: Path) -> None:
    found, _ = document(tmp_path, "two thousand cells")
    texts = [text for text, *_ in boxes_of(grid(found))]
    assert any("hatched: all failed" in text for text in texts)
    assert "90.0" not in texts


def test_a_cell_says_mean_interval_and_failures(tmp_path: Path) -> None:
    found, _ = document(tmp_path, "a grid")
    row = replace(found.rows[0], mean=0.98765, interval=(0.9, 1.0), failed=2)
    assert cell_lines(row, found) == ["98.8", "90.0 to 100", "2 failed"]
    assert cell_lines(replace(row, interval=None, failed=0), found) == ["98.8"]
    assert cell_lines(replace(row, mean=None), found) == ["failed"]
    assert cell_lines(replace(row, mean=None, failed=0), found) == ["–"]


def test_a_failed_seed_is_no_success(tmp_path: Path) -> None:
    found = replace(document(tmp_path, "seeds alone")[0], success_at=0.9)
    row = replace(found.rows[0], n=4, failed=1, successes=4)
    assert _row_remark(row, found) == f"4 of 5 {success_text(found)}, 1 failed"


def test_what_is_not_drawn_is_said(tmp_path: Path) -> None:
    found, _ = document(tmp_path, "a grid of four")
    more = replace(found, vary={**found.vary, "train.warmup": (0, 0.1), "model.d_ff": (8, 16)})
    texts = [text for text, *_ in boxes_of(grid(more))]
    assert any("the first 12 of 16 maps" in text for text in texts)
    ((_, draw),) = sweep_figures(document(tmp_path / "rows", "a hundred values")[0], [])
    assert not any("the first" in text for text, *_ in boxes_of(draw())), "fifty rows have room"


def test_the_settings_with_the_most_values_make_the_map(tmp_path: Path) -> None:
    found, _ = document(tmp_path, "a grid of four")
    assert varying(found)[0] == "model.encoding.name"
    held, _ = document(tmp_path / "held", "a grid of four", where=["encoding=rotary"])
    assert varying(held) == ["train.lr", "model.norm", "train.clip"]
    assert any("model.encoding.name = rotary" in text for text, *_ in boxes_of(grid(held)))


def test_numbers_and_names_are_kept_short() -> None:
    assert [short_value(value, "accuracy") for value in (0.98765, 0.99999, 1)] == ["98.8", ">99.9", "100"]
    assert short_value(0.000123456, "loss") == "0.000123"
    assert text_of({"name": "learned", "table_size": 64}) == '{"name": "lea…le_size": 64}'
    assert text_of({"name": "learned", "table_size": 64}) != text_of({"name": "learned", "table_size": 128})
    assert text_of(True) == "true"


def test_the_bar_of_a_setting_is_at_its_median_seed() -> None:
    axes = Figure().subplots()
    draw_seeds(axes, 0, blank(Row, values=(0.25, None, 1.0, 0.5)))
    (bar,) = (one for one in axes.collections if isinstance(one, LineCollection))
    assert {float(x) for x, _ in bar.get_segments()[0]} == {0.5}
