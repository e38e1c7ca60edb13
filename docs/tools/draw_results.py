"""Draw the figures of docs/results.md that need no training, from the committed files in docs/results.

    python docs/tools/draw_results.py [FOLDER]

It writes PNG files into FOLDER (docs/results/figures by default). The other figures of that page show single models
and are drawn by `headway heads` and `headway lengths` after training; the page names the commands.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from headway.length_analysis.patterns import encoding_patterns
from headway.reports.length_curves import answers, curves, plan_panels
from headway.reports.length_gaps import maps
from headway.reports.length_groups import Group, groups_of
from headway.reports.length_map import length_map
from headway.reports.panels import drawing, new_figure
from headway.reports.positions import encodings
from headway.reports.style import COLOURS, save
from headway.results.lengths import Checkpoint, DifficultyBin, LengthRow, TrainingRange
from headway.results.study import Mastery, MeasuredRun
from headway.statistics.proportions import wilson_interval

RESULTS = Path(__file__).parents[1] / "results"
ELEMENTS = {"task": "sortedness", "unit": "elements", "training": TrainingRange(shortest=8, longest=16)}
CHARACTERS = {"task": "addition-text", "unit": "characters", "training": TrainingRange(shortest=8, longest=32)}


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def run_of(cell: Mapping[str, Any], about: Mapping[str, Any], seed: int, rows: Sequence[LengthRow]) -> MeasuredRun:
    """A run's measurement with what the figures read; lengths held are not drawn."""
    gate = cell.get("mastered")
    mastery = (
        None
        if gate is None
        else Mastery(
            gate=0.999, stops=True, mastered=gate, step=cell["mastered_at"], accuracy=cell["validation_accuracy"]
        )
    )
    return MeasuredRun(
        **about,
        run=f"seed{seed}",
        seed=seed,
        encoding=cell.get("encoding", ""),
        pooling=cell.get("pooling"),
        checkpoint=Checkpoint(step=0, chosen_on="validation"),
        n=max(row.n for row in rows),
        threshold=0.99,
        rows=tuple(rows),
        held=dict.fromkeys((row.set_name for row in rows), 0),
        length_held=0,
        mastery=mastery,
    )


def row_of(name: str, length: int, n: int, wrong: int, longest: int, **more: Any) -> LengthRow:
    return LengthRow(
        length=length,
        set_name=name,
        trained=length <= longest,
        n=n,
        wrong=wrong,
        accuracy=1 - wrong / n,
        interval=wilson_interval(n - wrong, n),
        **more,
    )


def sortedness(cells: Sequence[Mapping[str, Any]], n: int) -> list[Group]:
    """Encodings and poolings of a sortedness grid; `answers_1` is the share of "sorted" among the answers."""
    runs = []
    for cell in cells:
        for seed in range(len(cell["checkpoint"])):
            rows = []
            for name, wrong in cell["wrong"].items():
                for length, count, ones in zip(
                    cell["lengths"], wrong[seed], cell["answers_1"][name][seed], strict=True
                ):
                    shares = {"0": 1 - ones, "1": ones}
                    one = "1" if ones == 1 else "0" if ones == 0 else None
                    given = {"answer_shares": shares, "target_shares": {"0": 0.5, "1": 0.5}, "constant": one}
                    rows.append(row_of(name, length, n, count, 16, **given))
            runs.append(run_of(cell, ELEMENTS, seed, rows))
    return groups_of(runs)


def long_addition(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Group]:
    runs, own = [], []
    for cell, group in zip(cells, names, strict=True):
        for number, seed in enumerate(cell["seeds"]):
            rows = [
                row_of(name, length, cell["n"], wrong[number][at], 32, by=ripples(cell, name, length, number))
                for name, wrong in cell["wrong"].items()
                for at, length in enumerate(cell["lengths"])
            ]
            runs.append(run_of(cell, CHARACTERS, seed, rows))
            own.append(group)
    return groups_of(runs, own)


def ripples(cell: Mapping[str, Any], name: str, length: int, number: int) -> dict[str, tuple[DifficultyBin, ...]]:
    """Errors of one seed by how many columns the carry must pass; they were counted on the set `ripple`."""
    if name != "ripple":
        return {}
    bins = []
    for found in cell["by_ripple"]["longest_ripple"].get(str(length), []):
        (low, high), n, wrong = found["columns"], found["n"], found["wrong"][number]
        bins.append(
            DifficultyBin(
                low=low, high=high, n=n, wrong=wrong, accuracy=1 - wrong / n, interval=wilson_interval(n - wrong, n)
            )
        )
    return {"longest_ripple": tuple(bins)}


def text_encodings(runs: Sequence[Mapping[str, Any]]) -> list[Group]:
    return groups_of(
        [
            run_of(
                run,
                CHARACTERS,
                run["seed"],
                [
                    row_of(name, length, run["n"], wrong, 32)
                    for name, counts in run["wrong"].items()
                    for length, wrong in zip(run["lengths"], counts, strict=True)
                ],
            )
            for run in runs
            if run["arm"] == "least-significant-first"
        ]
    )


def draw(groups: Sequence[Group], kind: Callable[..., Figure], name: str | None) -> Figure:
    """The figure of one set (of all where name is None)."""
    return kind(next(panels for own, panels in plan_panels(groups) if name is None or own == name))


@drawing
def open_contexts() -> Figure:
    """What the proof leaves open after each round of guided training, one line a seed."""
    figure = new_figure("Contexts that the proof leaves open", "proved-sortedness, seeds 0 to 9 · 0 is proved")
    axes = figure.subplots(1, 1, width_ratios=[5.0], height_ratios=[2.2])
    for seed in range(10):
        lines = (RESULTS / "proofs" / f"proved-sortedness-seed{seed}" / "metrics.jsonl").read_text().splitlines()
        rows = [row for row in map(json.loads, lines) if "open_contexts" in row.get("validation", {})]
        counts = [row["validation"]["open_contexts"] for row in rows]
        axes.plot([row["step"] for row in rows], counts, color=COLOURS[0], alpha=0.6, linewidth=0.9)
        axes.plot(rows[-1]["step"], counts[-1], "o", color=COLOURS[1], markersize=3)
    axes.set_yscale("symlog", linthresh=1)
    axes.set(xlabel="step", ylabel="open contexts", ylim=(-0.5, 2e8))
    marks = [0, 100, 10_000, 1_000_000, 100_000_000]
    axes.set_yticks(marks, [f"{mark:,}" for mark in marks])
    return figure


def figures() -> Iterator[tuple[str, Figure]]:
    grid = sortedness(read("sortedness-grid")["cells"], 1000)
    yield "lengths-curves-swaps", draw(grid, curves, "swaps")
    yield "lengths-answers-swaps", draw(grid, answers, "swaps")
    fresh = [cell for cell in read("sortedness-fresh")["cells"] if cell["arm"] == "fresh"]
    yield "fresh-curves-adjacent", draw(sortedness(fresh, fresh[0]["n"]), curves, "adjacent")
    arms = {cell["arm"]: cell for cell in read("long-addition")["cells"]}
    names = {"encoder-decoder": "window 1", "window: 2": "window 2", "window: 4": "window 4", "window: 8": "window 8"}
    names["without-window"] = "no window"
    windows = long_addition([arms[arm] for arm in names], list(names.values()))
    yield "long-addition-curves", draw(windows, curves, None)
    yield "long-addition-ripples", maps(windows[:1], "longest_ripple", "ripple")
    yield "text-encodings-map", length_map(text_encodings(read("text-encodings")["runs"]))
    yield "encodings", encodings(encoding_patterns())
    yield "guided-open-contexts", open_contexts()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures():
        for path in save(figure, folder, name):
            if path.suffix == ".svg":
                path.unlink()  # a PNG is enough for a page of Markdown
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
