"""Attention weights as heat maps: what each query looks at, with the tokens written beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from headway.errors import InputError
from headway.reports.style import (
    EDGE,
    GREY,
    INK,
    KINDS,
    LABEL,
    SMALL,
    axes_at,
    colour_bar,
    head_line,
    heat_map,
    kinds_of,
    note,
    number,
    sentence,
    share_scale,
    style,
    text_width,
    where_from,
    write,
)
from headway.results.attention import ExampleAttention, MeanAttention
from headway.results.heads import Head, HeadAnalysis

Seen = ExampleAttention | MeanAttention

TOP, TITLES, GAP, HEADING = 0.64, 0.36, 0.24, 0.2
"""Inches for the heading, for a panel's two lines of title, between panels, and for the name of a kind of attention."""
NAME = LABEL * 1.2
"""Points of the name of a kind of attention."""
PAGE = (12.0, 22.0)
"""Inches that a sheet should not exceed while its cells can be made smaller."""
READABLE = 4.4
"""Points below which nobody can read a token: then only landmarks are named."""


@dataclass(frozen=True)
class Panel:
    """One heat map and its place in its block; cells that a query cannot see are masked."""

    title: str
    remark: str
    weights: np.ma.MaskedArray
    queries: list[str]
    keys: list[str]
    row: int
    column: int
    answer_starts: int | None = None
    """In a decoder-only model, where the answer begins in what is read."""


@dataclass(frozen=True)
class Block:
    """Panels under a common name; `axes` says in words what queries and keys are."""

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
        """Most queries and most keys of a panel."""
        queries, keys = (max(panel.weights.shape[axis] for panel in self.panels) for axis in (0, 1))
        return queries, keys


@style()
def head_sheet(found: HeadAnalysis, example: int | None = None) -> Figure:
    """Every head of every kind on one captured example (None: the mean over the split); a row is a layer.

    Below a head's name stand its verdict and what is lost without it.
    """
    seen = captured(found, example)
    blocks = [block_of(found, kind, seen) for kind in kinds_of(found)]
    blocks = [block for block in blocks if block.panels]
    if not blocks:
        raise InputError("no weights of any head were captured")
    shown = f" on {example_line(found, seen)}" if isinstance(seen, ExampleAttention) else ", on average"
    return draw(blocks, f"Every head{shown}", remark_of(found, example))


def block_of(found: HeadAnalysis, kind: str, seen: Seen) -> Block:
    """The heads of one kind, a layer a row; heads that were taken away leave a gap."""
    heads = [head for head in found.heads if head.kind == kind]
    layers = sorted({head.layer for head in heads})
    panels = [
        make_panel(found, head, seen, head.name, worth(head), layers.index(head.layer), head.index)
        for head in heads
        if head.name in seen.weights
    ]
    return Block(sentence(KINDS[kind]), axes_in_words(found, heads[0]), panels)


def worth(head: Head) -> str:
    """`critical, 57.8`: the verdict, and the drop of the first ablation that was done."""
    drop = first_drop(head)
    return head.verdict if drop is None else f"{head.verdict}, {number(drop)}"


def first_drop(head: Head) -> float | None:
    return next((drop.drop for drop in head.ablation.values()), None)


@style()
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
    """A decoder without cross-attention reads source and answer as one sequence."""
    return kind == "decoder" and "cross" not in kinds_of(found)


def visible(weights: Sequence[Sequence[float]], causal: bool) -> np.ma.MaskedArray:
    """The weights, with what lies in a causal query's future masked: unseen is not the same as 0."""
    cells = np.array(weights, dtype=float)
    n_queries, n_keys = cells.shape
    # The last query stands at the last key.
    future = np.triu(np.ones(cells.shape, dtype=bool), k=1 + n_keys - n_queries)
    return np.ma.masked_array(cells, mask=(future & causal) | np.isnan(cells))


def readable(tokens: Sequence[str]) -> list[str]:
    return ["␣" if token == " " else token for token in tokens]


def steps(prefix: list[str], seen: Seen) -> list[str]:
    """Each query of a decoder as `read→written`; the first wrong one with the right token behind it."""
    written = readable(seen.generated)
    right = readable(seen.target) if isinstance(seen, ExampleAttention) else written
    labels = [f"{read}→{token}" for read, token in zip_longest(prefix, written[: len(prefix)], fillvalue="nothing")]
    wrong = next((place for place, (one, other) in enumerate(zip(written, right, strict=False)) if one != other), None)
    if wrong is not None and wrong < len(labels):
        labels[wrong] += f" (not {right[wrong]})"
    return labels


def example_text(found: HeadAnalysis, seen: ExampleAttention) -> tuple[str, str]:
    """The source and the answer that was written, as a person writes them: `374 + 814` and `→ 1188`."""
    written, right = as_answer(found, seen.generated), as_answer(found, seen.target)
    wrong = f" (wrong: {right})" if written and right and written != right else ""
    return as_written(seen.source), f"→ {written or right}{wrong}" if written or right else ""


def example_line(found: HeadAnalysis, seen: ExampleAttention) -> str:
    """The same as one line; an equals sign needs no arrow behind it: `12 + 7 = 19`."""
    source, answer = example_text(found, seen)
    return f"{source} {answer.removeprefix('→ ') if source.endswith('=') else answer}".strip()


def as_written(tokens: Sequence[str]) -> str:
    """Digits of a number stand together, everything else apart.

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
    """An answer without its end: digits together, and a class in words where the task has some."""
    texts = list(tokens)
    if found.task == "sortedness" and texts in (["0"], ["1"]):
        return "sorted" if texts == ["1"] else "not sorted"
    texts = texts[:-1] if texts[-1:] == ["EOS"] else texts
    return ("" if all(len(text) == 1 for text in texts) else " ").join(texts) or ("nothing" if tokens else "")


def remark_of(found: HeadAnalysis, example: int | None) -> str:
    """Which examples, and what stands below each name."""
    ablation = next((kind for head in found.heads for kind in head.ablation), None)
    below = f"; below each name: verdict, and points lost without the head ({ablation} ablation)" if ablation else ""
    if example is not None:
        return f"example {example} of {where_from(found)}, as it was decoded{below}"
    mean = mean_of(found)
    alike = f" ({mean.alike})" if mean.alike else ""
    return f"mean over {mean.n:,} examples of {where_from(found)}{alike}{below}"


def axes_in_words(found: HeadAnalysis, head: Head) -> str:
    """What queries and keys are."""
    kind = head.kind
    own = "source, then answer so far" if is_joined(found, kind) else "answer so far"
    key = {"encoder": "source", "cross": "source", "decoder": own}[kind]
    query = "source" if kind == "encoder" else "token read → token written"
    unseen = " (blank: not there yet for the query)" if head.causal else ""
    return f"down: query, {query}; across: key, {key}{unseen}"


def draw(blocks: list[Block], title: str, remark: str, same_tokens: bool = True) -> Figure:
    """Lay the blocks out one below the other under one colour scale.

    With the same tokens in all panels of a block, queries are named once a row and keys once a column.
    """
    sheet = Sheet.around(blocks, same_tokens)
    scale = share_scale()
    beside = max(sheet.indent(block) + text_width([block.axes]) for block in blocks)
    wide = 2 * EDGE + max(text_width([title], 11), text_width([remark]), beside)
    figure = Figure((max(sheet.right + 0.85, wide), sheet.end))
    head_line(figure, title, remark)
    for block, top in zip(blocks, sheet.tops, strict=True):
        write(figure, EDGE, top, block.title, weight="bold", size=NAME)
        write(figure, EDGE + sheet.indent(block), top + 0.02, block.axes, size=LABEL, color=GREY)
        for panel in block.panels:
            axes = axes_at(figure, *sheet.place(block, top, panel))
            first = panel.column == min(other.column for other in block.panels if other.row == panel.row)
            last = panel.row == max(other.row for other in block.panels if other.column == panel.column)
            fill(axes, panel, scale, sheet.cell, first or not same_tokens, last or not same_tokens)
    colour_bar(figure, scale, "weight", sheet.right + 0.22, TOP + HEADING + TITLES, 1.0)
    return figure


@dataclass(frozen=True)
class Sheet:
    """Where panels stand, in inches: cells are squares of one size in all of them, columns stand below each other."""

    cell: float
    left: float
    across: float
    columns: int
    width: float
    between: float
    """Below a panel, when no keys are named there."""
    keys: dict[str, float]
    """Below a panel of each block, when keys are named there."""
    every_row: bool
    tops: list[float]
    end: float

    @classmethod
    def around(cls, blocks: list[Block], same_tokens: bool) -> "Sheet":
        columns = max(block.columns for block in blocks)
        panels = [panel for block in blocks for panel in block.panels]
        cell = cell_size(blocks, columns)
        named = text_width((text for panel in panels for text in shown(panel.queries, cell)), type_size(cell))
        titles = max(
            text_width((panel.title for panel in panels), LABEL * 1.1), text_width((p.remark for p in panels), SMALL)
        )
        width = max(block.tokens[1] for block in blocks) * cell
        across = max(width, titles) + GAP + (0 if same_tokens else named + 0.1)
        keys = {block.title: 0.08 + max(key_height(panel.keys, cell) for panel in block.panels) for block in blocks}
        left = EDGE + named + 0.1
        empty = cls(cell, left, across, columns, max(width, titles), 0.1, keys, not same_tokens, [], 0.0)
        *tops, end = accumulate(map(empty.height, blocks), initial=TOP)
        return replace(empty, tops=tops, end=end)

    @property
    def right(self) -> float:
        return self.left + self.across * (self.columns - 1) + self.width

    @property
    def bottom(self) -> float:
        return self.end

    @staticmethod
    def indent(block: Block) -> float:
        """Where the words beside a block's name begin; bold type is about a tenth wider."""
        return 1.12 * text_width([block.title], NAME) + 0.15 if block.title else 0.0

    def step(self, block: Block) -> float:
        """From one row of panels to the next."""
        below = self.keys[block.title] if self.every_row else self.between
        return TITLES + block.tokens[0] * self.cell + below

    def height(self, block: Block) -> float:
        last = 0.0 if self.every_row else self.keys[block.title] - self.between
        return HEADING + block.rows * self.step(block) + last + 0.2

    def place(self, block: Block, top: float, panel: Panel) -> tuple[float, float, float, float]:
        n_queries, n_keys = panel.weights.shape
        left = self.left + self.across * panel.column
        down = top + HEADING + TITLES + self.step(block) * panel.row
        return left, down, n_keys * self.cell, n_queries * self.cell


def cell_size(blocks: list[Block], columns: int) -> float:
    """Inches of one cell: tokens can be read where the whole then stays a page, and a map is never under an inch."""
    n_queries, n_keys = (max(block.tokens[axis] for block in blocks) for axis in (0, 1))
    least = max(1.05, min(1.5, 5.6 / columns)) / max(n_queries, n_keys)
    down = sum(block.rows * block.tokens[0] for block in blocks)
    beside = sum(block.rows for block in blocks) * (TITLES + 0.1) + len(blocks) * (HEADING + 0.5) + TOP
    page = min(((PAGE[0] - 1.5) / columns - GAP) / n_keys, (PAGE[1] - beside) / down)
    return min(0.26, max(least, min(0.125, page)))


def type_size(cell: float) -> float:
    """Points of the tokens' type: as the cell allows; landmarks, with room around them, need not care."""
    size = min(LABEL, cell * 72 * 0.78)
    return size if size >= READABLE else SMALL


def shown(names: list[str], cell: float) -> list[str]:
    """The names of an axis; where cells are too small to read them, landmarks alone: signs, or else every so many."""
    if cell * 72 * 0.78 >= READABLE:
        return names
    signs = [name if name in ("+", "=", "BOS") or name.startswith("BOS→") else "" for name in names]
    if any(signs):
        return signs
    apart = next(step for step in (2, 4, 5, 8, 10, 16, 20, 32, 64) if step * cell >= 0.11)
    return [name if place % apart == 0 else "" for place, name in enumerate(names)]


def is_upright(key: str, keys: list[str], cell: float) -> bool:
    """A token that is wider than its cell is written upwards, and so are all as long; one character always stands."""
    alike = (other for other in keys if len(other) == len(key))
    return len(key) < 2 or text_width(alike, type_size(cell)) < cell * 0.9


def key_height(keys: list[str], cell: float) -> float:
    size, named = type_size(cell), shown(keys, cell)
    return max(size * 1.2 / 72, text_width((key for key in named if not is_upright(key, named, cell)), size))


def fill(axes: Axes, panel: Panel, scale: ScalarMappable, cell: float, name_queries: bool, name_keys: bool) -> None:
    """Draw one heat map: queries downwards, keys across."""
    n_queries, n_keys = panel.weights.shape
    heat_map(axes, panel.weights, scale, gap=2.2 * cell if cell > 0.11 else 0)
    axes.tick_params(length=0, pad=2, labelsize=type_size(cell), labelleft=name_queries, labelbottom=name_keys)
    keys = shown(panel.keys, cell)
    axes.set_xticks(np.arange(n_keys) + 0.5, keys)
    for label in axes.get_xticklabels():
        label.set_rotation(0 if is_upright(label.get_text(), keys, cell) else 90)
    axes.set_yticks(np.arange(n_queries) + 0.5, shown(panel.queries, cell))
    if panel.answer_starts is not None:
        axes.axvline(panel.answer_starts, color=INK, linewidth=0.7)
        axes.axhline(panel.answer_starts, color=INK, linewidth=0.7)
    axes.set_title(panel.title, loc="left", y=1, size=LABEL * 1.1, pad=12)
    note(axes, panel.remark, (0, 1), (0, 3), "axes fraction")
