"""Charts of what was found: the numbers of the document, and nothing computed anew."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from headway.errors import InputError
from headway.narration.numbers import points
from headway.reports.style import VERDICTS
from tests.reports.documents import make_document
from tests.reports.drawing import anatomy, elimination, importance, interventions, shapley

FOUND = make_document(n_layers=1, n_heads=3)
DROPS = {head["head"]: head["ablation"]["zero"] for head in FOUND["heads"]}


@cache
def shown(draw: Callable[..., Figure], *arguments: str) -> Figure:
    """A figure of the common document, drawn once for all tests."""
    return draw(FOUND, *arguments)


def names(axes: Axes) -> list[str]:
    """The heads of a panel, row by row, whether it shows their names or leaves that to the panel on its left."""
    axes.tick_params(labelleft=True)
    return [label.get_text() for label in axes.get_yticklabels()]


def segments(axes: Axes) -> np.ndarray:
    """Both ends of every whisker, as x and y; they are the last lines that were drawn."""
    return np.array([found for found in axes.collections if isinstance(found, LineCollection)][-1].get_segments())


def words(figure: Figure) -> str:
    return " ".join(text.get_text().replace("\n", " ") for text in figure.texts)


# Importance


def test_bars_are_the_drops_largest_first_within_each_kind() -> None:
    panels = shown(importance).axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        "Encoder self-attention",
        "Decoder self-attention",
        "Cross-attention",
    ]
    for axes in panels:
        widths = [bar.get_width() for bar in axes.patches]
        assert widths == [DROPS[name]["drop"] for name in names(axes)]
        assert widths == sorted(widths, reverse=True)
    assert sorted(name for axes in panels for name in names(axes)) == sorted(DROPS)


@pytest.mark.parametrize("kind", ["zero", "mean"])
def test_whiskers_are_the_intervals_of_the_document(kind: str) -> None:
    intervals = {head["head"]: head["ablation"][kind]["interval"] for head in FOUND["heads"]}
    for axes in shown(importance, kind).axes:
        assert segments(axes)[:, :, 0].tolist() == [intervals[name] for name in names(axes)]
        assert segments(axes)[:, 0, 1].tolist() == list(range(len(names(axes))))


def test_a_verdict_has_a_colour_and_a_hatch_of_its_own() -> None:
    assert len(set(VERDICTS.values())) == len(VERDICTS)
    hatches = [hatch for _, hatch in VERDICTS.values() if hatch]
    assert len(set(hatches)) == len(hatches) == len(VERDICTS) - 2, "two are plain: one dark, one almost white"
    overall = {head["head"]: head["verdict"] for head in FOUND["heads"]}
    for axes in shown(importance).axes:
        for name, bar in zip(names(axes), axes.patches, strict=True):
            colour, hatch = VERDICTS[overall[name]]
            assert to_hex(bar.get_facecolor()) == colour
            assert (bar.get_hatch() or "") == hatch


def test_the_legend_counts_each_verdict_and_keeps_one_it_does_not_know() -> None:
    found = make_document(n_layers=1, n_heads=2)
    for head, verdict in zip(found["heads"], ["critical"] * 4 + ["harmful", "new"], strict=True):
        head |= {"verdict": verdict}
        head["ablation"]["zero"]["verdict"] = "undecided"
    (legend,) = importance(found).legends
    assert sorted(text.get_text() for text in legend.get_texts()) == ["critical (4)", "harmful (1)", "new (1)"]
    assert legend.get_title().get_text().startswith("verdicts over zero, mean")


@pytest.mark.parametrize("scale", [0.001, 1.0])
def test_lines_at_1_and_10_points_are_in_view_whatever_the_drops(scale: float) -> None:
    found = make_document(n_layers=1)
    for head in found["heads"]:
        drop = head["ablation"]["zero"]
        drop |= {"drop": drop["drop"] * scale, "interval": [end * scale for end in drop["interval"]]}
    for axes in importance(found).axes:
        low, high = axes.get_xlim()
        assert [line.get_xdata()[0] for line in axes.lines] == [0, 1, 10]
        assert low < min(0, segments(axes)[:, :, 0].min())
        assert high > max(10, segments(axes)[:, :, 0].max())


def beside(axes: Axes, row: int) -> list[str]:
    """What is written right of a row, from left to right."""
    there = [text for text in axes.texts if text.get_va() == "center"]
    return [text.get_text() for text in there if text.xy == (1, row)]  # type: ignore[attr-defined]


def ends(interval: list[float]) -> str:
    return f"[{', '.join(map(points, interval))}]"


def test_each_drop_with_its_margin_and_its_verdict_is_written_beside_the_bar() -> None:
    figure = shown(importance)
    axes = figure.axes[0]
    for row, name in enumerate(names(axes)):
        drop = DROPS[name]
        written = [points(drop["drop"]), ends(drop["interval"]), points(drop["margin_change"])]
        assert beside(axes, row)[:5] == [*written, ends(drop["margin_change_interval"]), drop["verdict"]]
    assert {"drop", "margin"} <= {text.get_text() for text in axes.texts}
    assert "the right answer leads by 12.0 in logits" in words(figure)


def test_a_document_without_margins_has_drops_and_verdicts_alone() -> None:
    old = make_document(n_layers=1, n_heads=2)
    old["baseline"].pop("margin")
    for head in old["heads"]:
        for drop in head["ablation"].values():
            drop.pop("margin_change")
    figure = importance(old)
    assert "leads by" not in words(figure)
    drops = {head["head"]: head["ablation"]["zero"] for head in old["heads"]}
    first = drops[names(figure.axes[0])[0]]
    assert beside(figure.axes[0], 0) == [points(first["drop"]), ends(first["interval"]), first["verdict"]]


def test_an_ablation_that_was_not_done_is_named() -> None:
    with pytest.raises(InputError, match=r"^no ablation 'zeros' in the findings; did you mean zero\?"):
        importance(FOUND, "zeros")


# Elimination


def curve(axes: Axes, label: str) -> list[float]:
    return next(list(line.get_ydata()) for line in axes.lines if str(line.get_label()).startswith(label))


def test_the_curves_are_those_of_the_document() -> None:
    steps = FOUND["joint"]["elimination"]["steps"]
    for axes in shown(elimination).axes:
        assert curve(axes, "other half") == [step["exact_match"] for step in steps]
        assert curve(axes, "half used for the order") == [step["chosen_on"] for step in steps]
        start = steps[0]["exact_match"]
        assert curve(axes, "single drops") == [start - step["promised"] / 100 for step in steps]
        band = axes.collections[0].get_paths()[0].vertices
        assert {end for step in steps for end in step["interval"]} <= set(band[:, 1])
        levels = [line.get_ydata()[0] for line in axes.lines[3:]]
        assert levels == [start - 0.01, start - 0.05]


def test_each_step_has_the_heads_left_and_the_head_removed() -> None:
    full = shown(elimination).axes[1]
    steps = FOUND["joint"]["elimination"]["steps"]
    assert [label.get_text() for label in full.get_xticklabels()] == [str(left) for left in range(9, -1, -1)]
    (below,) = full.child_axes
    assert [label.get_text() for label in below.get_xticklabels()] == [step["removed"] or "" for step in steps]


def test_names_are_left_out_where_they_do_not_fit() -> None:
    full = elimination(make_document(n_layers=4, n_heads=6)).axes[1]
    assert full.child_axes == []
    assert [label.get_text() for label in full.get_xticklabels()][:3] == ["72", "70", "68"]


def test_the_limits_say_how_many_heads_were_chosen_to_go_if_the_findings_do() -> None:
    close = shown(elimination).axes[0]
    assert [text.get_text() for text in close.texts] == ["−1 point\n7 chosen", "−5 points\n9 chosen"]
    silent = {**FOUND, "joint": {**FOUND["joint"], "removable": []}}
    assert [text.get_text() for text in elimination(silent).axes[0].texts] == ["−1 point", "−5 points"]


# Shapley


def test_values_stand_with_their_errors_in_the_same_row_of_both_columns() -> None:
    games = FOUND["joint"]["shapley"]
    panels = shown(shapley).axes
    assert len(panels) == 6
    for own, among_all, kind in zip(panels[::2], panels[1::2], ("encoder", "decoder", "cross"), strict=True):
        for axes, game in ((own, games[kind]), (among_all, games["all"])):
            values = {value["head"]: value for value in game["values"]}
            rows = [values[name] for name in names(axes)]
            assert list(axes.lines[-1].get_xdata()) == [row["value"] for row in rows]
            ends = [[row["value"] - row["error"], row["value"] + row["error"]] for row in rows]
            assert segments(axes)[:, :, 0].tolist() == ends
        assert names(own) == names(among_all)


def test_how_values_were_counted_is_said_once_a_game() -> None:
    said = [axes.get_title(loc="right") for axes in shown(shapley).axes]
    assert said[::2] == ["exact: 256 subsets, 300 examples"] * 3
    assert said[1::2] == ["20 permutations, 200 examples", "", ""]


@pytest.mark.parametrize(("kept", "n_panels"), [(("all",), 3), (("encoder", "cross"), 2), (("cross", "all"), 6)])
def test_games_that_were_not_played_are_left_out(kept: tuple[str, ...], n_panels: int) -> None:
    games = {kind: FOUND["joint"]["shapley"][kind] for kind in kept}
    figure = shapley({**FOUND, "joint": {"shapley": games}})
    assert len(figure.axes) == n_panels
    assert figure.axes[-1].get_xlabel() == f"points, among {'all heads' if 'all' in kept else 'its own kind'}"


# Interventions


def heat(axes: Axes) -> QuadMesh:
    return next(found for found in axes.collections if isinstance(found, QuadMesh))


def sites(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_ylabel() != "flip rate"]


def test_rates_stand_in_the_row_of_the_head_and_the_column_of_the_contrast() -> None:
    contrasts = [contrast for contrast in FOUND["interventions"]["contrasts"] if contrast["about"] == "carry"]
    for axes in sites(shown(interventions, "carry")):
        for row, label in enumerate(names(axes)):
            who = label.removeprefix("all of ")
            rates = [next(r["rate"] for r in contrast["rows"] if r["who"] == who) for contrast in contrasts]
            assert np.ma.masked_array(heat(axes).get_array())[row].tolist() == rates


def test_rows_are_grouped_by_site_and_larger_groups_come_last() -> None:
    groups = [names(axes) for axes in sites(shown(interventions, "digits"))]
    assert groups[0] == [*(f"enc0.self.h{index}" for index in range(3)), "all of encoder.0.self"]
    assert len(groups) == 4
    assert groups[-1] == ["all encoder", "all decoder", "all cross"]


def test_every_cell_has_its_rate_and_interval_while_there_is_room() -> None:
    axes = sites(shown(interventions, "carry"))[0]
    first = FOUND["interventions"]["contrasts"][0]["rows"][0]
    low, high = first["interval"]
    there = [text.get_text() for text in axes.texts if text.get_text() not in "●○×?"]
    assert there[:2] == [f"{first['rate']:.2f}", f"{low:.2f}–{high:.2f}"]
    bare = {key: value for key, value in FOUND["interventions"]["contrasts"][0].items() if key != "control"}
    contrasts = [{**bare, "name": f"contrast {index}"} for index in range(12)]
    many = sites(interventions({**FOUND, "interventions": {"contrasts": contrasts}}, "carry"))[0]
    assert len(many.texts) == 12 * len(names(many))


def test_a_sign_says_what_a_patch_is_shown_to_move_and_the_foot_what_the_sign_means() -> None:
    figure = shown(interventions, "carry")
    contrasts = [contrast for contrast in FOUND["interventions"]["contrasts"] if contrast["about"] == "carry"]
    signs = {"carry alone": "●", "carry and digits": "○", "unspecific": "×", "undecided": "?", "not moved": ""}
    expected = Counter(signs[row["reading"]] for contrast in contrasts for row in contrast["control"]["rows"])
    expected.pop("")
    written = Counter(text.get_text() for axes in sites(figure) for text in axes.texts)
    assert {sign: written[sign] for sign in expected} == expected
    assert all(sign in words(figure).partition("same carry")[2] for sign in expected)


def test_contrasts_without_controls_have_no_signs() -> None:
    bare = [{k: v for k, v in one.items() if k != "control"} for one in FOUND["interventions"]["contrasts"]]
    for found, about in (({**FOUND, "interventions": {"contrasts": bare}}, "carry"), (FOUND, "digits")):
        figure = interventions(found, about)
        assert not any("same" in text.get_text() for text in figure.texts)
        assert not {text.get_text() for axes in sites(figure) for text in axes.texts} & set("●○×?")


def test_one_scale_from_0_to_1_holds_for_all_sites() -> None:
    norms = {
        id(heat(axes).norm): (heat(axes).norm.vmin, heat(axes).norm.vmax)
        for axes in sites(shown(interventions, "carry"))
    }
    assert list(norms.values()) == [(0, 1)]


def test_a_contrast_without_usable_pairs_is_blank() -> None:
    contrasts = [dict(contrast) for contrast in FOUND["interventions"]["contrasts"][:2]]
    contrasts[1] |= {"usable": 0, "rows": [{**row, "rate": 0.0} for row in contrasts[1]["rows"]]}
    axes = sites(interventions({**FOUND, "interventions": {"contrasts": contrasts}}, "carry"))[0]
    assert np.ma.getmaskarray(np.ma.masked_array(heat(axes).get_array())).tolist() == [[False, True]] * 4
    assert "–" in [text.get_text() for text in axes.texts]


def test_an_unknown_subject_is_named() -> None:
    with pytest.raises(
        InputError, match=r"^no intervention is about 'cary'; did you mean carry\? known: carry, digits$"
    ):
        interventions(FOUND, "cary")


# Anatomy


def test_every_feature_has_a_panel_with_the_intervals_of_the_document() -> None:
    record = FOUND["anatomy"]
    panels = shown(anatomy).axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        "carries",
        "longest chain",
        "carry out",
        "token of the answer",
    ]
    for axes, entries in zip(panels, [*record["by"].values(), record["by_token"]], strict=True):
        assert segments(axes)[:, :, 1].tolist() == [entry["interval"] for entry in entries]
        assert list(axes.lines[-1].get_ydata()) == [entry["accuracy"] for entry in entries]
    assert len({axes.get_ylim() for axes in panels}) == 1, "one scale"


def test_a_model_without_errors_still_has_its_intervals() -> None:
    figure = anatomy(make_document(wrong=0))
    assert "0 wrong of 2,000" in words(figure)
    low, high = figure.axes[0].get_ylim()
    assert 0.98 < low < 1 < high
    assert not any(text.get_text() == "wrong" for text in figure.axes[0].texts)


def test_values_without_examples_are_left_out_and_few_examples_do_not_set_the_scale() -> None:
    nothing: dict[str, Any] = {"value": 9, "n": 0, "wrong": 0, "accuracy": None, "interval": [0.0, 1.0]}
    single: dict[str, Any] = {"value": 8, "n": 1, "wrong": 0, "accuracy": 1.0, "interval": [0.2, 1.0]}
    record = make_document(wrong=0)["anatomy"]
    record["by"]["carries"] += [single, nothing]
    axes = anatomy({"anatomy": record}).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2", "3", "8"]
    assert axes.get_ylim()[0] > 0.9
