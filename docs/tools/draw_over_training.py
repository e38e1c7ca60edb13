"""Summarises files of heads_over_training.py as docs/results/heads-over-training.json, and draws it.

    PYTHONPATH=src python docs/tools/draw_over_training.py [addition.json addition-course.json]

Without files, only the figure is drawn again from the committed summary.
"""

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from headway.reports.panels import drawing, new_figure, percent_axis
from headway.reports.style import BLUE, GREY, RED, save
from headway.results.over_training import OverTraining
from headway.statistics import median_interval

DOCS = Path(__file__).parents[1]
SUMMARY = DOCS / "results" / "heads-over-training.json"


def summarise(path: Path) -> dict[str, object]:
    """The accuracy and the followed head of every seed at every step, and the steps of jump and formation."""
    document = json.loads(path.read_text())
    rows = [seed_row(OverTraining.from_json(one)) for one in document["runs"]]
    late = [row["formed"]["effect"] - row["jump"] for row in rows if row["jump"] is not None]
    interval = median_interval(late)
    keep_every = document["config"]["train"]["keep_every"]
    return {"recipe": document["recipe"], "keep_every": keep_every, "late": late, "interval": interval, "seeds": rows}


def seed_row(found: OverTraining) -> dict[str, Any]:
    head = found.followed
    assert head is not None
    curves = {"drop": found.drops_of(head), "flip_rate": found.rates_of(head), "effect": found.effects_of(head)}
    return {
        "seed": found.seed,
        "head": head,
        "jump": found.jump,
        "formed": {name: found.formed(values) for name, values in curves.items()},
        "steps": [one.step for one in found.steps],
        "accuracy": found.accuracies(),
        **{name: [None if x is None else round(x, 4) for x in values] for name, values in curves.items()},
    }


@drawing
def figure_of(recipes: list[dict[str, Any]]) -> Figure:
    """Each seed's accuracy (blue) and the logit share of the head that ends as its carry head (red)."""
    figure = new_figure(
        "When does the carry head form?",
        "blue: right answers · red: share of the carry's logit difference that the patched head moves · a line a seed",
    )
    panels = figure.subplots(1, 2, width_ratios=[3.1, 3.1], height_ratios=[2.0])
    for axes, recipe in zip(panels, recipes, strict=True):
        for row in recipe["seeds"]:
            axes.plot(row["steps"], row["accuracy"], color=BLUE, linewidth=0.9)
            shown = [float("nan") if x is None else x for x in row["effect"]]
            axes.plot(row["steps"], shown, color=RED, linewidth=0.7)
        axes.axhline(0.5, color=GREY, linewidth=0.5)
        axes.set(title=recipe["recipe"], xlabel="training step", ylim=(-0.05, 1.05))
        percent_axis(axes.yaxis)
    return figure


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SUMMARY.write_text(json.dumps([summarise(Path(one)) for one in sys.argv[1:]], separators=(",", ":")) + "\n")
    recipes = json.loads(SUMMARY.read_text())
    save(figure_of(recipes), DOCS / "results" / "figures", "heads-over-training")
    for recipe in recipes:
        print(
            recipe["recipe"],
            "formed after the jump by",
            recipe["late"],
            "steps, 95 % of the median",
            recipe["interval"],
        )
