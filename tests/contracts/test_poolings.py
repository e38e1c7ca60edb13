"""What every registered pooling must do."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config import Choice
from headway.errors import InputError
from headway.model.poolings import POOLINGS, make_pooling
from headway.model.poolings.detector import FAVOUR


def make(name: str):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    return make_pooling(Choice(name=name), 5).double()


@pytest.mark.parametrize("name", POOLINGS.names())
@given(length=st.integers(1, 7), padding=st.integers(0, 6), seed=st.integers(0, 1_000))
def test_padding_is_never_seen(name: str, length: int, padding: int, seed: int) -> None:
    pooling = make(name)
    hidden = torch.randn(2, length, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    visible = torch.ones(2, length, dtype=torch.bool)
    alone = pooling(hidden, visible)
    for filling in (1e6, -1e6):
        more = torch.cat([hidden, torch.full((2, padding, 5), filling, dtype=torch.float64)], dim=1)
        seen = torch.cat([visible, torch.zeros(2, padding, dtype=torch.bool)], dim=1)
        # 1e-12: the same sums with exact zeros added, in blocks of another size.
        torch.testing.assert_close(pooling(more, seen), alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", POOLINGS.names())
def test_rows_do_not_see_each_other(name: str) -> None:
    pooling = make(name)
    hidden = torch.randn(3, 6, 5, dtype=torch.float64)
    visible = torch.arange(6) < torch.tensor([[6], [1], [4]])
    together = pooling(hidden, visible)
    for row, length in enumerate((6, 1, 4)):
        alone = pooling(hidden[row : row + 1, :length], visible[row : row + 1, :length])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-12, atol=1e-12)


def by_hand(name: str, rows: torch.Tensor, pooling: torch.nn.Module) -> torch.Tensor:
    """The pooling of one unpadded sequence, by its definition."""
    steps = rows[1:] - rows[:-1] if len(rows) > 1 else torch.zeros(1, rows.shape[1], dtype=rows.dtype)
    if name == "attention":
        return (pooling.score(rows).softmax(0) * rows).sum(0)
    if name == "multi-feature":
        parts = [rows.min(0).values, steps.min(0).values, steps.mean(0), rows[0], rows[-1]]
        return pooling.project(torch.cat(parts))
    if name == "detector":
        return pooling.project(pooling.detect(rows).max(0).values)
    simple = {"mean": rows.mean(0), "max": rows.max(0).values, "min": rows.min(0).values}
    return {**simple, "first": rows[0], "last": rows[-1]}[name]


@pytest.mark.parametrize("name", POOLINGS.names())
@pytest.mark.parametrize("length", [1, 2, 6])
def test_it_is_what_its_name_says(name: str, length: int) -> None:
    pooling = make(name)
    hidden = torch.randn(2, 6, 5, dtype=torch.float64)
    visible = torch.arange(6) < torch.tensor([[length], [length]])
    expected = torch.stack([by_hand(name, row[:length], pooling) for row in hidden])
    torch.testing.assert_close(pooling(hidden, visible), expected, rtol=1e-12, atol=1e-12)


def test_a_summed_detector_adds_positive_detectors_at_one_position() -> None:
    """A negative detector does not take from a positive one: 2 and -5 are 2, and 1 and 0.5 are 1.5."""
    pooling = make_pooling(Choice(name="detector", options={"detectors": 2, "readout": "sum"}), 2)
    with torch.no_grad():
        pooling.detect.weight.copy_(torch.eye(2))
        pooling.detect.bias.zero_()
    hidden = torch.tensor([[[2.0, -5.0], [1.0, 0.5]]])
    assert pooling.read(hidden)[0, :, 0].tolist() == [2.0, 1.5]


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("readout", ["linear", "sum"])
def test_a_detector_raises_the_margin_of_its_favoured_class_by_what_was_promised(count: int, readout: str) -> None:
    """One unit more of a detector's response moves that class by `FAVOUR` logits against the mean of the others."""
    torch.manual_seed(0)
    favoured = count - 1
    options = {"detectors": 4, "readout": readout, "favours": favoured}
    pooling = make_pooling(Choice(name="detector", options=options), 7)
    final = torch.nn.Linear(7, count)
    pooling.initialise(final)
    for detector in range(1 if readout == "sum" else 4):
        moved = (final.weight @ pooling.project.weight[:, detector]).detach()
        others = [float(moved[label]) for label in range(count) if label != favoured]
        # 1e-5: products of float32.
        assert float(moved[favoured]) - sum(others) / len(others) == pytest.approx(FAVOUR, rel=1e-5)


def test_a_detector_refuses_a_class_that_the_task_does_not_have() -> None:
    pooling = make_pooling(Choice(name="detector", options={"detectors": 4, "favours": 3}), 7)
    with pytest.raises(InputError, match="favours = 3: the task has classes 0 to 2"):
        pooling.initialise(torch.nn.Linear(7, 3))
