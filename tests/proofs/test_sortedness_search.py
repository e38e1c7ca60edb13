"""The exhaustive search agrees with enumeration on random tables, which the bounds alone do not close."""

from itertools import product

import numpy as np
import pytest
import torch

from headway.proofs.sortedness_bounds import close_descents
from headway.proofs.sortedness_search import Search, about_chains, about_descents
from headway.proofs.sortedness_table import TripleTable

VALUES, LONGEST = 3, 7


def random_table(seed: int) -> TripleTable:
    random = torch.Generator().manual_seed(seed)
    features = torch.randn(VALUES + 1, VALUES, VALUES + 1, 4, generator=random, dtype=torch.float64)
    features[VALUES, :, VALUES] = -torch.inf
    weight = torch.tensor([1.0, 0.7, -1.0, -0.5], dtype=torch.float64)
    alone = torch.full((VALUES, 4), -torch.inf, dtype=torch.float64)
    return TripleTable(features, weight, float(torch.randn(1, generator=random)), 1e-6, alone)


def enumerate_margins(table: TripleTable, *, ascending: bool) -> float:
    """The highest advantage of a wrong answer over all sequences of two to seven elements."""
    best = -np.inf
    for length in range(2, LONGEST + 1):
        rows = np.array(list(product(range(VALUES), repeat=length)))
        rows = rows[(np.diff(rows, axis=1) >= 0).all(1) == ascending]
        margin = table.of_sequences(torch.from_numpy(rows))
        best = max(best, float((-margin if ascending else margin).max()))
    return best


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("ascending", [True, False])
def test_search_finds_at_least_what_enumeration_finds(seed: int, ascending: bool) -> None:
    table = random_table(seed)
    best = enumerate_margins(table, ascending=ascending)
    for limit, is_there in ((best - 1e-9, True), (best + 3.0, None)):
        descents = close_descents(table, limit)
        if not ascending and not descents.n_open:
            assert best < limit
            continue
        question = about_chains(table, limit) if ascending else about_descents(table, limit, descents)
        found = Search(question).run()
        if is_there:
            assert found.advantage >= best - 1e-6
        if found.advantage >= limit:
            row = torch.tensor([found.sequence])
            own = float(table.of_sequences(row)[0]) * (-1 if ascending else 1)
            assert own == pytest.approx(found.advantage)
            assert (list(found.sequence) == sorted(found.sequence)) == ascending
        else:
            assert found.ended and best < limit
