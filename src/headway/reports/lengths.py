"""All figures of lengths.json, of one run or of many."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from headway.reports.length_bars import bars, lengths_held, plan_sets
from headway.reports.length_curves import answers, curves, plan_panels
from headway.reports.length_gaps import maps, sets_by
from headway.reports.length_groups import Group, groups_of, is_class
from headway.reports.length_map import is_mapped, length_map
from headway.reports.length_table import length_table, markdown
from headway.reports.mechanism import draw_mechanism
from headway.reports.positions import biases, encodings, identities, learned_table
from headway.reports.style import NamedFigures, save
from headway.results.lengths import Lengths
from headway.results.positions import Patterns

__all__ = ["length_figures", "length_table", "markdown", "write_encodings", "write_figures"]


def write_figures(
    runs: Sequence[Lengths],
    folder: Path,
    *,
    groups: Sequence[str] | None = None,
) -> list[Path]:
    """Write every figure for which the runs have data, as PNG and SVG; returns their paths.

    `groups` has a name for each run; runs with the same name differ in their seed. The default name is encoding and
    pooling.
    """
    figures = length_figures(groups_of(runs, groups))
    folder.mkdir(parents=True, exist_ok=True)
    return [path for name, draw in figures for path in save(draw(), folder, name)]


def write_encodings(patterns: Patterns, folder: Path) -> list[Path]:
    """Write the figure of all encodings side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    return save(encodings(patterns), folder, "encodings")


def length_figures(groups: Sequence[Group]) -> NamedFigures:
    """The figures for which there are measurements: map, curves, answers, bars, lengths held, difficulty, positions,
    heads.
    """
    if is_mapped(groups):
        yield "lengths-map", partial(length_map, groups)
    for name, panels in plan_panels(groups):
        yield file_name("lengths-curves", name), partial(curves, panels)
        if is_class(groups):
            yield file_name("lengths-answers", name), partial(answers, panels)
    for name, sets in plan_sets(groups):
        yield file_name("lengths-bars", name), partial(bars, groups, sets)
        yield file_name("lengths-held", name), partial(lengths_held, groups, sets)
    for by, name in sets_by(groups):
        yield file_name(f"lengths-{by}", name), partial(maps, groups, by, name)
    shown = set()
    for group in groups:
        encoding = group.runs[0].encoding
        if encoding not in shown:  # one group per encoding; its poolings do not change the picture
            yield from position_figures(group.runs[0], group.name if len(groups) > 1 else "")
        shown.add(encoding)
        yield from mechanism_figures(group, group.name if len(groups) > 1 else "")


def position_figures(run: Lengths, name: str) -> NamedFigures:
    """The learned encoding of a group's first run, as an example; seeds learn different tables."""
    found = run.positions
    if found is None:
        return
    if found.table is not None:
        yield file_name("positions-table", name), partial(learned_table, found, found.table)
    if found.biases:
        yield file_name("positions-bias", name), partial(biases, found, run.training.longest)
    if found.identities:
        yield file_name("positions-identities", name), partial(identities, found)


def mechanism_figures(group: Group, name: str) -> NamedFigures:
    """Heads against length of every run that has them; heads of different seeds do not correspond."""
    for run in group.runs:
        if run.mechanism is not None:
            seed = f"seed {run.seed}" if group.seeds > 1 else ""
            yield file_name("mechanism", name, seed), partial(draw_mechanism, run.mechanism)


def file_name(*parts: str) -> str:
    """Lower-case words joined by hyphens.

    >>> file_name("positions-table", "Rotary, mean"), file_name("lengths-longest_chain", "")
    ('positions-table-rotary-mean', 'lengths-longest-chain')
    """
    return "-".join(re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-") for part in parts if part)
