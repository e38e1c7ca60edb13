"""Heat maps of attention weights, with the tokens of queries and keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from headway.errors import InputError
from headway.narration.numbers import points
from headway.reports.panels import (
    colour_bar,
    drawing,
    heat_map,
    letters_width,
    name_cells,
    new_figure,
    note,
    share_scale,
)
from headway.reports.style import INK, KINDS, LABEL, SMALL, kinds_of, sentence, where_from
from headway.results.attention import ExampleAttention, MeanAttention
from headway.results.heads import Head, HeadAnalysis

Seen = ExampleAttention | MeanAttention

NAME = LABEL * 1.1
"""Font size of a panel's name in points."""
PAGE = (10.5, 20.0)
"""Preferred largest size of a sheet in inches."""
READABLE = 4.4
"""Smallest readable font size in points; below it only landmark tokens are named."""


@dataclass(frozen=True)
class Panel:
    """One heat map and its row and column in its block; cells that a query cannot see are masked."""

    title: str
    remark: str
    weights: np.ma.MaskedArray
    queries: list[str]
    keys: list[str]
    row: int
    column: int
    answer_starts: int | None = None
    """In a decoder-only model, the index at which the answer starts."""


@dataclass(frozen=True)
class Block:
    """Panels under a common name; `axes` describes queries and keys in words."""

    title: str
    axes: str
    panels: list[Panel]

    @property
    def rows(self) -> int:
        return 1 + max(panel.row for panel in self.panels)

    @property
    def columns(self) -> int:
        return 1 + max(panel.column for panel in self.panels)

    @property
    def tokens(self) -> tuple[int, int]:
        """The largest numbers of queries and keys of a panel."""
        queries, keys = (max(panel.weights.shape[axis] for panel in self.panels) for axis in (0, 1))
        return queries, keys


@drawing
def head_sheet(found: HeadAnalysis, example: int | None = None) -> Figure:
    """Every head of every kind on one captured example (None: the mean over the split); a row is a layer.

    Below a head's name are its verdict and its drop.
    """
    seen = captured(found, example)
    blocks = [block_of(found, kind, seen) for kind in kinds_of(found)]
    blocks = [block for block in blocks if block.panels]
    if not blocks:
        raise InputError("no weights of any head were captured")
    shown = f" on {example_line(found, seen)}" if isinstance(seen, ExampleAttention) else ", on average"
    return draw(blocks, f"Every head{shown}", remark_of(found, example))


def block_of(found: HeadAnalysis, kind: str, seen: Seen) -> Block:
    """The heads of one kind, one layer per row; pruned heads leave a gap."""
    heads = [head for head in found.heads if head.kind == kind]
    layers = sorted({head.layer for head in heads})
    panels = [
        make_panel(found, head, seen, head.name, worth(head), layers.index(head.layer), head.index)
        for head in heads
        if head.name in seen.weights
    ]
    return Block(sentence(KINDS[kind]), axes_in_words(found, heads[0]), panels)


def worth(head: Head) -> str:
    """`critical, 57.8`: the verdict, and the drop of the first ablation."""
    drop = first_drop(head)
    return head.verdict if drop is None else f"{head.verdict}, {points(drop)}"


def first_drop(head: Head) -> float | None:
    return next((drop.drop for drop in head.ablation.values()), None)


@drawing
def head_over_examples(found: HeadAnalysis, head: str) -> Figure:
    """One head on every captured example, side by side."""
    entry = found.head(head)
    chosen = [seen for seen in found.capture.examples if head in seen.weights]
    if not chosen:
        raise InputError(f"no weights of {head} were captured")
    columns = 4 if max(len(seen.source) for seen in chosen) <= 20 else 2
    panels = [
        make_panel(found, entry, seen, *example_text(found, seen), index // columns, index % columns)
        for index, seen in enumerate(chosen)
    ]
    remark = " · ".join(filter(None, [entry.verdict, entry.role]))
    return draw([Block("", axes_in_words(found, entry), panels)], head, remark, same_tokens=False)


def mean_of(found: HeadAnalysis) -> MeanAttention:
    if found.capture.mean is None:
        raise InputError("no mean over the split was captured")
    return found.capture.mean


def captured(found: HeadAnalysis, example: int | None) -> Seen:
    """One captured example, or the mean."""
    if example is None:
        return mean_of(found)
    examples = found.capture.examples
    if not 0 <= example < len(examples):
        raise InputError(f"example {example} was not captured; there are {len(examples)}, counted from 0")
    return examples[example]


def make_panel(
    found: HeadAnalysis,
    head: Head,
    seen: Seen,
    title: str,
    remark: str,
    row: int,
    column: int,
) -> Panel:
    kind = head.kind
    weights = visible(seen.weights[head.name], head.causal)
    joined = is_joined(found, kind)
    source, prefix = readable(seen.source), readable(seen.prefix)
    answers = steps(prefix, seen)
    queries = {"encoder": source, "cross": answers, "decoder": source + answers if joined else answers}[kind]
    keys = {"encoder": source, "cross": source, "decoder": source + prefix if joined else prefix}[kind]
    return Panel(title, remark, weights, queries, keys, row, column, len(source) if joined else None)


def is_joined(found: HeadAnalysis, kind: str) -> bool:
    """Whether source and answer form one sequence, as in a decoder without cross-attention."""
    return kind == "decoder" and "cross" not in kinds_of(found)


def visible(weights: Sequence[Sequence[float]], causal: bool) -> np.ma.MaskedArray:
    """The weights with a causal query's future masked, since unseen is not the same as 0."""
    cells = np.array(weights, dtype=float)
    n_queries, n_keys = cells.shape
    # The last query is at the last key.
    future = np.triu(np.ones(cells.shape, dtype=bool), k=1 + n_keys - n_queries)
    return np.ma.masked_array(cells, mask=(future & causal) | np.isnan(cells))


def readable(tokens: Sequence[str]) -> list[str]:
    return ["␣" if token == " " else token for token in tokens]


def steps(prefix: list[str], seen: Seen) -> list[str]:
    """Each query of a decoder as `read→written`; the first wrong one is followed by the right token."""
    written = readable(seen.generated)
    right = readable(seen.target) if isinstance(seen, ExampleAttention) else written
    labels = [f"{read}→{token}" for read, token in zip_longest(prefix, written[: len(prefix)], fillvalue="nothing")]
    wrong = next((place for place, (one, other) in enumerate(zip(written, right, strict=False)) if one != other), None)
    if wrong is not None and wrong < len(labels):
        labels[wrong] += f" (not {right[wrong]})"
    return labels


def example_text(found: HeadAnalysis, seen: ExampleAttention) -> tuple[str, str]:
    """The source and the written answer as text: `374 + 814` and `→ 1188`."""
    written, right = as_answer(found, seen.generated), as_answer(found, seen.target)
    wrong = f" (wrong: {right})" if written and right and written != right else ""
    return as_written(seen.source), f"→ {written or right}{wrong}" if written or right else ""


def example_line(found: HeadAnalysis, seen: ExampleAttention) -> str:
    """The same as one line; without an arrow after an equals sign: `12 + 7 = 19`."""
    source, answer = example_text(found, seen)
    return f"{source} {answer.removeprefix('→ ') if source.endswith('=') else answer}".strip()


def as_written(tokens: Sequence[str]) -> str:
    """Digits of a number joined, all other tokens separated.

    >>> [as_written(text) for text in ("374+814", "12 + 7 = ", ["2", "7", "31"])]
    ['374 + 814', '12 + 7 =', '2 7 31']
    """
    texts = list(tokens)
    if " " in texts:
        return "".join(texts).strip()
    if "+" in texts and all(len(text) == 1 for text in texts):
        return "".join(texts).replace("+", " + ")
    return " ".join(texts)


def as_answer(found: HeadAnalysis, tokens: Sequence[str]) -> str:
    """An answer without its end token: digits joined, and the name of a class if it has one."""
    texts = list(tokens)
    if (names := found.capture.class_names) and texts:
        return names[int(texts[0])]
    texts = texts[:-1] if texts[-1:] == ["EOS"] else texts
    return ("" if all(len(text) == 1 for text in texts) else " ").join(texts) or ("nothing" if tokens else "")


def remark_of(found: HeadAnalysis, example: int | None) -> str:
    """The examples, and the meaning of the text below each name."""
    ablation = next((kind for head in found.heads for kind in head.ablation), None)
    below = f"; below each name: verdict, and points lost without the head ({ablation} ablation)" if ablation else ""
    if example is not None:
        return f"example {example} of {where_from(found)}, as it was decoded{below}"
    mean = mean_of(found)
    alike = f" ({mean.alike})" if mean.alike else ""
    return f"mean over {mean.n:,} examples of {where_from(found)}{alike}{below}"


def axes_in_words(found: HeadAnalysis, head: Head) -> str:
    """The meaning of queries and keys, in words."""
    kind = head.kind
    own = "source, then answer so far" if is_joined(found, kind) else "answer so far"
    key = {"encoder": "source", "cross": "source", "decoder": own}[kind]
    query = "source" if kind == "encoder" else "token read → token written"
    unseen = " (blank: not there yet for the query)" if head.causal else ""
    return f"down: query, {query}; across: key, {key}{unseen}"


def draw(blocks: list[Block], title: str, remark: str, same_tokens: bool = True) -> Figure:
    """The blocks one below the other, with square cells of one size and one colour scale.

    If all panels of a block have the same tokens, queries are labelled once per row and keys once per column.
    """
    columns = max(block.columns for block in blocks)
    cell = cell_size(blocks, columns)
    panels = [panel for block in blocks for panel in block.panels]
    names = letters_width((panel.title for panel in panels), NAME) if same_tokens else 0.0
    width = max(cell * max(block.tokens[1] for block in blocks), names)
    heights = [height for block in blocks for height in (0.24, *[cell * block.tokens[0]] * block.rows)]
    figure = new_figure(title, remark)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights, width_ratios=[width] * columns)
    scale, top, drawn = share_scale(), 0, []
    for block in blocks:
        caption(figure.add_subplot(grid[top, :]), block)
        for panel in block.panels:
            axes = figure.add_subplot(grid[top + 1 + panel.row, panel.column])
            first = panel.column == min(other.column for other in block.panels if other.row == panel.row)
            last = panel.row == max(other.row for other in block.panels if other.column == panel.column)
            fill(axes, panel, scale, cell)
            axes.set(xlim=(0, width / cell), ylim=(block.tokens[0], 0))
            axes.tick_params(labelleft=first or not same_tokens, labelbottom=last or not same_tokens)
            drawn.append(axes)
        top += 1 + block.rows
    colour_bar(drawn, scale, "weight", height=1.0)
    return figure


def caption(axes: Axes, block: Block) -> None:
    """The name of a block and, beside it, the meaning of its queries and keys."""
    axes.set_axis_off()
    name = axes.text(0, 0.4, block.title, weight="bold", size=LABEL * 1.2, va="center", in_layout=False)
    beside = ((1, 0.5), (8, 0), name) if block.title else ((0, 0.4), (0, 0), "axes fraction")
    note(axes, block.axes, *beside, va="center", in_layout=False)


def cell_size(blocks: list[Block], columns: int) -> float:
    """Size of a cell in inches: tokens are readable if the sheet then fits a page; a map is at least an inch wide."""
    n_queries, n_keys = (max(block.tokens[axis] for block in blocks) for axis in (0, 1))
    rows = sum(block.rows for block in blocks)
    down = sum(block.rows * block.tokens[0] for block in blocks)
    least = max(1.05, min(1.5, 5.6 / columns)) / max(n_queries, n_keys)
    page = min((PAGE[0] / columns - 0.24) / n_keys, (PAGE[1] - 0.6 * rows) / down)
    return min(0.26, max(least, min(0.125, page)))


def type_size(cell: float) -> float:
    """Font size of the tokens in points, by the size of a cell; landmark tokens have more room."""
    size = min(LABEL, cell * 72 * 0.78)
    return size if size >= READABLE else SMALL


def shown(names: list[str], cell: float) -> list[str]:
    """The labels of an axis; if cells are too small, only landmarks: signs, or else every n-th token."""
    if cell * 72 * 0.78 >= READABLE:
        return names
    signs = [name if name in ("+", "=", "BOS") or name.startswith("BOS→") else "" for name in names]
    if any(signs):
        return signs
    apart = next(step for step in (2, 4, 5, 8, 10, 16, 20, 32, 64) if step * cell >= 0.11)
    return [name if place % apart == 0 else "" for place, name in enumerate(names)]


def fill(axes: Axes, panel: Panel, scale: ScalarMappable, cell: float) -> None:
    """Draw one heat map: queries downwards, keys across; a key wider than its cell is written vertically."""
    heat_map(axes, panel.weights, scale, gap=2.2 * cell if cell > 0.11 else 0)
    name_cells(axes, shown(panel.queries, cell), shown(panel.keys, cell))
    axes.tick_params(labelsize=type_size(cell))
    for label in axes.get_xticklabels():
        name = label.get_text()
        label.set_rotation(90 if len(name) > 1 and letters_width([name], type_size(cell)) > 0.9 * cell else 0)
    if panel.answer_starts is not None:
        axes.axvline(panel.answer_starts, color=INK, linewidth=0.7)
        axes.axhline(panel.answer_starts, color=INK, linewidth=0.7)
    axes.set_title(panel.title, size=NAME, pad=12)
    note(axes, panel.remark, (0, 1), (0, 3), "axes fraction")
