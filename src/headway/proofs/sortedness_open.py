"""Contexts that a proof of sortedness would leave open, as short sequences to train on."""

import numpy as np
import torch
from jaxtyping import Int

from headway.evaluation import Trained
from headway.proofs.open_contexts import OpenContexts
from headway.proofs.sortedness_bounds import bounds_of_descents, close_chains, least_maxima, sorted_triples
from headway.proofs.sortedness_table import TripleTable, check_size
from headway.proofs.triple_pass import see
from headway.tasks import Examples

MOST = 5_000
"""Sequences of each class that are made, at most."""
EACH = 8
"""Open contexts of one descent that are made into sequences: the worst one, and others at random."""
LONGEST_RUN = 3
"""How often the first and the last element of a context are repeated, at most."""
WIDTH = 2 * LONGEST_RUN + 2


def open_contexts(trained: Trained, margin: float, random: np.random.Generator) -> OpenContexts:
    """Contexts with a margin of at most `margin` in the model's own fp32 pass, without an allowance for rounding."""
    check_size(trained.model, trained.task.options.values)
    seen = see(trained, trained.task.options.values)
    n = seen.features.shape[1]
    alone = torch.from_numpy(seen.features[n, :, n].copy())
    features = torch.from_numpy(seen.features)
    features[n, :, n] = -torch.inf
    table = TripleTable(features, torch.from_numpy(seen.weight).float(), seen.bias, 0.0, alone)
    n_unsorted, unsorted = open_descents(table, margin, random)
    n_sorted, ordered = open_chains(table, margin, random)
    contexts = [*ordered.tolist(), *unsorted.tolist()]
    rows = np.full((len(contexts), WIDTH), trained.task.vocabulary.pad)
    for row, context, runs in zip(rows, contexts, random.integers(1, LONGEST_RUN + 1, (len(contexts), 2)), strict=True):
        sequence = repeated(context, runs.tolist(), none=n)
        row[: len(sequence)] = sequence
    return OpenContexts(n_unsorted + n_sorted, Examples(rows, trained.task.answer(rows)))


def repeated(context: list[int], runs: list[int], *, none: int) -> list[int]:
    """A context with its first and last element repeated: 7 31 7 90 with 2 and 1 is 7 7 31 7 90."""
    first, *middle, last = context
    return [first] * (runs[0] * (first != none)) + middle + [last] * (runs[1] * (last != none))


def open_descents(
    table: TripleTable, margin: float, random: np.random.Generator
) -> tuple[int, Int[np.ndarray, "context 4"]]:
    """How many contexts a x y b of descents are open, and some of each descent."""
    count, kept = 0, [np.zeros((0, 4), dtype=np.int64)]
    for x, y, left, right, bound in bounds_of_descents(table, lambda: -margin):
        above = np.argwhere(bound >= -margin)
        if not len(above):
            continue
        count += len(above)
        worst = np.array(np.unravel_index(int(bound.argmax()), bound.shape))
        chosen = np.vstack([worst, above[random.integers(len(above), size=EACH - 1)]])
        kept.append(np.stack([left[chosen[:, 0]], *np.full((2, EACH), [[x], [y]]), right[chosen[:, 1]]], axis=1))
    found = np.unique(np.concatenate(kept), axis=0)
    return count, found[random.permutation(len(found))[:MOST]]


def open_chains(
    table: TripleTable, margin: float, random: np.random.Generator
) -> tuple[int, Int[np.ndarray, "context 3"]]:
    """How many triples of sorted sequences, and elements alone, are open by themselves; the worst and others at random.

    Several detectors may be raised by several triples: if only their bound together is open, it counts as one.
    """
    possible, n = sorted_triples(table.values), table.values
    rows = table.features[possible].clone()
    rows[:, table.favours] = torch.maximum(rows, least_maxima(table))[:, table.favours]
    element = torch.arange(n)
    edge = torch.full_like(element, n)
    places = torch.cat([possible.nonzero(), torch.stack([edge, element, edge], dim=1)]).numpy()
    margins = torch.cat([table.margin(rows), table.margin(table.alone)]).numpy()
    found = np.flatnonzero(margins <= margin)
    found = found[np.argsort(margins[found], kind="stable")]
    chosen = np.concatenate([found[: MOST // 2], random.permutation(found[MOST // 2 :])[: MOST // 2]])
    count = len(found) or int(close_chains(table).lowest <= margin)
    return count, places[chosen]
