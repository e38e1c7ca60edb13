"""The check's fixed point over the ends of sequences agrees with enumeration, and needs few ends with one feature."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from headway.proofs import sortedness_check
from headway.proofs.sortedness_check import Ends, Margins
from headway.proofs.sortedness_recount import Recount, size
from headway.proofs.triple_pass import Seen

SORTED, UNSORTED = (3, 9), (2, 11)
"""Values, and the length at which a sequence can hold every triple that its side has."""
WEIGHT = (1.0, 0.7, -1.0, -0.5)


def random_margins(seed: int, values: int, weight: tuple[float, ...] = WEIGHT) -> Margins:
    random = np.random.default_rng(seed)
    features = random.standard_normal((values + 1, values, values + 1, len(weight))).astype(np.float32)
    return Margins(Seen(features, np.array(weight), float(random.standard_normal())))


def smallest(margins: Margins, *, is_sorted: bool) -> float:
    """The smallest margin of the right answer over all sequences of two elements and more of one side."""
    (values, longest), found = SORTED if is_sorted else UNSORTED, np.inf
    for length in range(2, longest + 1):
        every = combinations_with_replacement(range(values), length)
        rows = np.array(list(every if is_sorted else product(range(values), repeat=length)))
        rows = rows[(np.diff(rows, axis=1) >= 0).all(1) == is_sorted]
        edge = np.full((len(rows), 1), values)
        padded = np.hstack([edge, rows, edge])
        read = margins.seen.features[padded[:, :-2], padded[:, 1:-1], padded[:, 2:]].max(1)
        found = min(found, float((margins.of(read) if is_sorted else -margins.of(read)).min()))
    return found


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_margin_is_confirmed_up_to_the_smallest_of_all_sequences(seed: int, is_sorted: bool) -> None:
    margins = random_margins(seed, SORTED[0] if is_sorted else UNSORTED[0])
    lowest = smallest(margins, is_sorted=is_sorted)
    assert Ends(margins, lowest - 1e-6, is_sorted).below() is None
    said = Ends(margins, lowest + 1e-6, is_sorted).below()
    assert said is not None
    assert f"{'a sorted' if is_sorted else 'an unsorted'} sequence" in said
    assert said.endswith(f"has a margin of {lowest:.6g}")


def test_with_one_feature_every_pair_is_grown_once() -> None:
    margins = random_margins(0, 20, (-1.0,))
    lowest = margins.descents()[0]
    ends = Ends(margins, lowest + 0.5, is_sorted=False)
    said = ends.below()
    assert said is None or "has a margin of" in said
    assert ends.held <= 2 * 20**2


def test_a_check_with_too_many_ends_confirms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sortedness_check, "MOST_ENDS", 3)
    margins = random_margins(1, UNSORTED[0])
    said = Ends(margins, smallest(margins, is_sorted=False) - 1e-6, is_sorted=False).below()
    assert said == "more than 3 ends of sequences would have to be checked"


@pytest.mark.parametrize("alike", [(0, 1), (0, 2), (1, 2)])
def test_an_error_of_the_query_moves_what_a_head_mixes_by_no_more_than_its_bound(alike: tuple[int, int]) -> None:
    """Also where two of the three values are the same, so that only the third moves the mean."""
    random, nothing, error = np.random.default_rng(0), np.zeros(3), 0.05
    query, key, value = random.standard_normal((3, 3, 4))
    value[alike[1]] = value[alike[0]]
    recount = object.__new__(Recount)
    recount.n, recount.bias = 3, np.zeros((1, 3))
    largest = 0.0
    for _ in range(40):
        moved = random.standard_normal((3, 4))
        moved *= error / size(moved)[:, None]
        for left in range(4):
            recount.heads = [((query, np.full(3, error)), (key, nothing), (value, nothing))]
            exact, bound = recount._attend(left, 0)
            recount.heads = [((query + moved, nothing), (key, nothing), (value, nothing))]
            apart = size(recount._attend(left, 0)[0] - exact)
            assert (apart <= bound).all()
            largest = max(largest, float((apart / bound).max()))
    assert largest > 0.1, "the bound is of the size of what it bounds"
