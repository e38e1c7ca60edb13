"""Attention weights as heat maps: what each query looks at, with the tokens written beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from headway.errors import InputError, suggestion
from headway.report.style import (
    EDGE,
    INK,
    KINDS,
    LABEL,
    SMALL,
    Document,
    axes_at,
    colour_bar,
    head_line,
    heat_map,
    kinds_of,
    note,
    part,
    sentence,
    share_scale,
    style,
    text_width,
    where_from,
    write,
)

TOP, TITLES, GAP = 0.58, 0.36, 0.24
"""Inches for the heading, for a panel's two lines of title, and between panels."""


@dataclass(frozen=True)
class Panel:
    """One heat map and its place in the grid; cells that a query cannot see are masked."""

    title: str
    remark: str
    weights: np.ma.MaskedArray
    queries: list[str]
    keys: list[str]
    row: int
    column: int
    answer_starts: int | None = None
    """In a decoder-only model, where the answer begins in what is read."""


@style()
def head_grid(found: Document, kind: str, example: int | None) -> Figure:
    """Every head of one kind on one captured example (None: the mean over the split); a row is a layer."""
    heads = heads_of(found, kind)
    seen = captured(found, example)
    layers = sorted({head["layer"] for head in heads})
    panels = [
        make_panel(found, head, seen, head["head"], head["verdict"], layers.index(head["layer"]), head["index"])
        for head in heads
        if head["head"] in seen["weights"]
    ]
    if not panels:
        raise InputError(f"no weights of {KINDS[kind]} were captured")
    return draw(panels, sentence(KINDS[kind]), what_was_read(found, example), axis_labels(found, heads[0]))


@style()
def head_over_examples(found: Document, head: str) -> Figure:
    """One head on every captured example, side by side."""
    known = {entry["head"]: entry for entry in found["heads"]}
    if head not in known:
        raise InputError(f"no head {head!r}; {suggestion(head, known)}")
    entry = known[head]
    chosen = [seen for seen in part(found, "capture", "examples") or [] if head in seen["weights"]]
    if not chosen:
        raise InputError(f"no weights of {head} were captured")
    columns = 4 if max(len(seen["source"]) for seen in chosen) <= 20 else 2
    panels = [
        make_panel(found, entry, seen, *example_text(seen), index // columns, index % columns)
        for index, seen in enumerate(chosen)
    ]
    remark = " · ".join(filter(None, [entry["verdict"], entry.get("role")]))
    return draw(panels, head, remark, axis_labels(found, entry), same_tokens=False)


def heads_of(found: Document, kind: str) -> list[Mapping[str, Any]]:
    if kind not in kinds_of(found):
        raise InputError(f"the model has no attention of kind {kind!r}; {suggestion(kind, kinds_of(found))}")
    return [head for head in found["heads"] if head["kind"] == kind]


def captured(found: Document, example: int | None) -> Mapping[str, Any]:
    """One captured example, or the mean."""
    if example is None:
        mean: Mapping[str, Any] | None = part(found, "capture", "mean")
        if mean is None:
            raise InputError("no mean over the split was captured")
        return mean
    examples = part(found, "capture", "examples") or []
    if not 0 <= example < len(examples):
        raise InputError(f"example {example} was not captured; there are {len(examples)}, counted from 0")
    one: Mapping[str, Any] = examples[example]
    return one


def make_panel(
    found: Document,
    head: Mapping[str, Any],
    seen: Mapping[str, Any],
    title: str,
    remark: str,
    row: int,
    column: int,
) -> Panel:
    kind = head["kind"]
    weights = visible(seen["weights"][head["head"]], is_causal(head))
    joined = is_joined(found, kind)
    source, prefix = readable(seen["source"]), readable(seen.get("prefix") or [])
    answers = steps(prefix, seen)
    queries = {"encoder": source, "cross": answers, "decoder": source + answers if joined else answers}[kind]
    keys = {"encoder": source, "cross": source, "decoder": source + prefix if joined else prefix}[kind]
    return Panel(title, remark, weights, queries, keys, row, column, len(source) if joined else None)


def is_causal(head: Mapping[str, Any]) -> bool:
    """Decoders are; an encoder is where the findings say so."""
    causal: bool = head.get("causal", head["kind"] == "decoder")
    return causal


def is_joined(found: Document, kind: str) -> bool:
    """A decoder without cross-attention reads source and answer as one sequence."""
    return kind == "decoder" and "cross" not in kinds_of(found)


def visible(weights: Sequence[Sequence[float]], causal: bool) -> np.ma.MaskedArray:
    """The weights, with what lies in a causal query's future masked: unseen is not the same as 0."""
    cells = np.array(weights, dtype=float)
    n_queries, n_keys = cells.shape
    # The last query stands at the last key.
    future = np.triu(np.ones(cells.shape, dtype=bool), k=1 + n_keys - n_queries)
    return np.ma.masked_array(cells, mask=(future & causal) | np.isnan(cells))


def readable(tokens: Sequence[Any]) -> list[str]:
    return ["␣" if token == " " else str(token) for token in tokens]


def steps(prefix: list[str], seen: Mapping[str, Any]) -> list[str]:
    """Each query of a decoder as `read→written`; the first wrong one with the right token behind it."""
    written = readable(seen.get("written") or seen.get("target") or [*prefix[1:], "EOS"])
    right = readable(seen.get("target") or written)
    labels = [f"{read}→{token}" for read, token in zip_longest(prefix, written[: len(prefix)], fillvalue="nothing")]
    wrong = next((place for place, (one, other) in enumerate(zip(written, right, strict=False)) if one != other), None)
    if wrong is not None and wrong < len(labels):
        labels[wrong] += f" (not {right[wrong]})"
    return labels


def example_text(seen: Mapping[str, Any]) -> tuple[str, str]:
    """The source and the answer that was written, as one line each."""
    between = "" if " " in seen["source"] else " "  # a task with spaces of its own needs no more
    answer = between.join(map(str, seen.get("written") or seen.get("target") or []))
    wrong = "written" in seen and "target" in seen and seen["written"] != seen["target"]
    return between.join(map(str, seen["source"])), f"→ {answer}{' (wrong)' if wrong else ''}" if answer else ""


def what_was_read(found: Document, example: int | None) -> str:
    if example is None:
        mean = captured(found, None)
        return f"mean over {mean['n']:,} examples of {where_from(found)}"
    return f"example {example}:  " + " ".join(example_text(captured(found, example)))


def axis_labels(found: Document, head: Mapping[str, Any]) -> tuple[str, str]:
    """What queries and keys are, in words."""
    kind = head["kind"]
    own = "source, then answer so far" if is_joined(found, kind) else "answer so far"
    key = {"encoder": "source", "cross": "source", "decoder": own}[kind]
    unseen = " (blank: not there yet for the query)" if is_causal(head) else ""
    return "query" if kind == "encoder" else "query: token read → token written", f"key: {key}{unseen}"


def draw(panels: list[Panel], title: str, remark: str, labels: tuple[str, str], same_tokens: bool = True) -> Figure:
    """Lay the panels out in a grid under one colour scale; with the same tokens, queries are named once a row."""
    grid = Grid.around(panels, same_tokens)
    scale = share_scale()
    wide = 2 * EDGE + max(text_width([title], 11), text_width([remark]))
    figure = Figure((max(grid.right + 0.85, wide), grid.bottom + 0.1))
    head_line(figure, title, remark)
    for panel in panels:
        axes = axes_at(figure, *grid.place(panel))
        first = panel.column == min(other.column for other in panels if other.row == panel.row)
        fill(axes, panel, scale, grid.cell, name_queries=first or not same_tokens)
    write(figure, EDGE, (TOP + grid.bottom) / 2, labels[0], rotation=90, va="center", size=LABEL)
    write(figure, (grid.left + grid.right) / 2, grid.bottom - 0.04, labels[1], ha="center", va="bottom", size=LABEL)
    colour_bar(figure, scale, "weight", grid.right + 0.22, TOP + TITLES, min(1.3, grid.height))
    return figure


@dataclass(frozen=True)
class Grid:
    """Where panels stand, in inches: cells are squares of one size in all of them."""

    cell: float
    left: float
    width: float
    height: float
    step: tuple[float, float]
    size: tuple[int, int]

    @classmethod
    def around(cls, panels: list[Panel], same_tokens: bool) -> "Grid":
        n_queries, n_keys = (max(panel.weights.shape[axis] for panel in panels) for axis in (0, 1))
        size = (1 + max(panel.row for panel in panels), 1 + max(panel.column for panel in panels))
        cell = cell_size(max(n_queries, n_keys), size[1])
        named = text_width((text for panel in panels for text in panel.queries), type_size(cell)) + 0.1
        below = 0.1 + max(key_height(panel.keys, cell) for panel in panels)
        width, height = n_keys * cell, n_queries * cell
        titles = max(text_width([panel.title], LABEL * 1.1) for panel in panels)
        titles = max(titles, text_width((panel.remark for panel in panels), SMALL))
        across = max(width, titles) + GAP + (0 if same_tokens else named)
        return cls(cell, EDGE + 0.2 + named, width, height, (across, height + TITLES + below + 0.08), size)

    @property
    def right(self) -> float:
        return self.left + self.step[0] * (self.size[1] - 1) + self.width

    @property
    def bottom(self) -> float:
        return TOP + self.step[1] * self.size[0] + 0.12

    def place(self, panel: Panel) -> tuple[float, float, float, float]:
        n_queries, n_keys = panel.weights.shape
        left = self.left + self.step[0] * panel.column
        return left, TOP + TITLES + self.step[1] * panel.row, n_keys * self.cell, n_queries * self.cell


def cell_size(n_tokens: int, columns: int) -> float:
    """Inches of one cell: panels about as wide as a page allows, type that can be read, and a bound on the whole."""
    wanted = max(1.15, min(1.7, 6.4 / columns)) / n_tokens
    return min(0.26, max(0.125, wanted), min(6.0, 26.0 / columns) / n_tokens)


def type_size(cell: float) -> float:
    return min(LABEL, cell * 72 * 0.78)


def is_upright(key: str, cell: float) -> bool:
    """A token that is wider than its cell is written upwards."""
    return text_width([key], type_size(cell)) < cell * 0.95


def key_height(keys: list[str], cell: float) -> float:
    size = type_size(cell)
    return max(size * 1.2 / 72, text_width((key for key in keys if not is_upright(key, cell)), size))


def fill(axes: Axes, panel: Panel, scale: ScalarMappable, cell: float, name_queries: bool) -> None:
    """Draw one heat map: queries downwards, keys across."""
    n_queries, n_keys = panel.weights.shape
    heat_map(axes, panel.weights, scale, gap=2.2 * cell if cell > 0.11 else 0)
    axes.tick_params(length=0, pad=2, labelsize=type_size(cell), labelleft=name_queries)
    axes.set_xticks(np.arange(n_keys) + 0.5, panel.keys)
    for label in axes.get_xticklabels():
        label.set_rotation(0 if is_upright(label.get_text(), cell) else 90)
    axes.set_yticks(np.arange(n_queries) + 0.5, panel.queries)
    if panel.answer_starts is not None:
        axes.axvline(panel.answer_starts, color=INK, linewidth=0.7)
        axes.axhline(panel.answer_starts, color=INK, linewidth=0.7)
    axes.set_title(panel.title, loc="left", y=1, size=LABEL * 1.1, pad=12)
    note(axes, panel.remark, (0, 1), (0, 3), "axes fraction")
