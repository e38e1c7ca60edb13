"""Draws the seconds of all single-head ablations against layers x heads, from a file of benchmarks.any_model.

PYTHONPATH=src python docs/tools/draw_any_model.py benchmarks/results/any-model-amd-epyc-2-cores.json
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from headway.reports.panels import drawing, grid_lines, new_figure
from headway.reports.style import BLUE, GREY, RED, save

FIGURES = Path(__file__).parents[1] / "results" / "figures"
SIDES = (
    ("bridge_seconds", "TransformerBridge", RED),
    ("hook_seconds", "a hook each", GREY),
    ("seconds", "headway", BLUE),
)


@drawing
def figure_of(rows: list[dict[str, Any]]) -> Figure:
    """Median seconds of each side; the dashes are what operations give headway from the hook's seconds."""
    sequences = rows[0]["sequences"]
    figure = new_figure(
        "All single-head ablations of a GPT-2",
        f"{sequences} sequences of 64 tokens, d_model {rows[0]['n_embd']}, one thread; seconds of the process, medians",
    )
    axes = figure.subplots(width_ratios=[4.2], height_ratios=[2.6])
    rows = sorted(rows, key=lambda row: row["heads"])
    heads = [row["heads"] for row in rows]
    for key, name, colour in SIDES:
        seconds = [float(np.median(row[key])) for row in rows]
        axes.plot(heads, seconds, color=colour, marker="o", markersize=3, linewidth=1, label=name)
    least = [float(np.median(row["hook_seconds"])) / row["by_operations"] for row in rows]
    axes.plot(heads, least, color=BLUE, linestyle="--", linewidth=0.7, label="by operations")
    axes.set_xticks(heads, [f"{row['n_layer']} x {row['n_head']}" for row in rows])
    axes.set(xlabel="layers x heads", ylabel="seconds", ylim=(0, None))
    axes.legend(frameon=False)
    grid_lines(axes)
    return figure


if __name__ == "__main__":
    document = json.loads(Path(sys.argv[1]).read_text())
    save(figure_of(document["rows"]), FIGURES, "any-model-speed")
    for row in document["rows"]:
        print(
            row["size"], f"{row['ratio']:.2f} {row.get('bridge_ratio', 0):.2f} by operations {row['by_operations']:.2f}"
        )
