"""The margin of the right answer beside accuracy: against plain passes with hooks, and where accuracy is blind."""

import numpy as np
import pytest
import torch
from scipy import stats

from headway.batches import make_batch
from headway.evaluation import Trained
from headway.head_analysis.ablation import ablate
from headway.head_analysis.error_analysis import zeroing
from headway.head_analysis.handles import intervene
from headway.head_analysis.head_runs import KINDS, TrainedRuns
from headway.head_analysis.margins import with_margin, with_margins
from headway.head_analysis.variants import heads_of
from headway.model.sites import Head
from headway.results.heads import Baseline, Drop
from headway.results.schema import blank
from headway.tasks import Examples
from tests.head_analysis.planted import BACKUP_HEAD, CARRY_HEAD, DECOY_HEAD, DIGITS_HEAD, plant
from tests.head_analysis.small import half_trained


def plain_margins(trained: Trained, examples: Examples, without: list[Head]) -> np.ndarray:
    """The smallest lead of a right token, example by example and token by token."""
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    with torch.inference_mode(), intervene(trained.model, zeroing(trained, without)):
        logits = trained.model(batch.inputs).double().numpy()
    if trained.task.kind == "class":
        logits = logits[:, None]
    found = []
    for row, target in zip(logits, examples.target.reshape(len(examples), -1), strict=True):
        leads = [
            scores[token] - max(score for other, score in enumerate(scores) if other != token)
            for scores, token in zip(row, target, strict=False)
            if trained.task.kind == "class" or token != trained.task.vocabulary.pad
        ]
        found.append(min(leads))
    return np.array(found)


@pytest.mark.parametrize("task", ["addition", "sortedness"])
def test_margins_are_those_of_plain_passes_with_hooks(task: str) -> None:
    trained = half_trained(task)
    examples = trained.examples("test").take(slice(0, 60))
    found = ablate(TrainedRuns(trained, examples), kinds=["zero"])
    own = plain_margins(trained, examples, [])
    assert found.baseline.margin == pytest.approx(own.mean(), abs=1e-4)  # fp32 logits of a few units
    for head in heads_of(trained):
        after = plain_margins(trained, examples, [head])
        change = found.drops["zero"][str(head)]
        assert change.margin == pytest.approx(after.mean(), abs=1e-4)
        assert change.margin_change == pytest.approx((after - own).mean(), abs=1e-4)
        low, high = stats.ttest_rel(after, own).confidence_interval()
        assert change.margin_change_interval == pytest.approx((low, high), abs=1e-4)


def test_an_answer_is_right_exactly_where_its_margin_is_above_0() -> None:
    trained = half_trained("addition")
    examples = trained.examples("test").take(slice(0, 200))
    right = ablate(TrainedRuns(trained, examples), kinds=["zero"]).baseline
    assert (plain_margins(trained, examples, []) > 0).sum() == right.n - right.wrong


def test_the_margin_sees_what_accuracy_does_not() -> None:
    """Without the stronger of two heads that bring the digits every answer is right still, by less."""
    found = ablate(TrainedRuns(plant(), plant().examples("test").take(slice(0, 300))), kinds=["zero"])
    assert found.baseline.margin is not None
    drops = margins = found.drops["zero"]
    assert drops[str(DIGITS_HEAD)].drop == drops[str(BACKUP_HEAD)].drop == 0
    assert margins[str(DIGITS_HEAD)].margin_change_interval[1] < margins[str(BACKUP_HEAD)].margin_change_interval[0]
    assert margins[str(DIGITS_HEAD)].margin_change_interval[1] < 0
    assert margins[str(CARRY_HEAD)].margin_change < -found.baseline.margin, "most answers are wrong now"
    assert margins["enc0.self.h0"].margin_change == 0
    assert str(DECOY_HEAD) in margins


def test_every_kind_of_ablation_has_margins_in_the_analysis() -> None:
    trained = half_trained("sortedness")
    found = ablate(TrainedRuns(trained, trained.examples("test").take(slice(0, 40))))
    assert found.drops.keys() == set(KINDS)
    assert all(drop.margin_change is not None for rows in found.drops.values() for drop in rows.values())


def test_equal_margins_change_by_exactly_nothing() -> None:
    margins = np.array([[1.5, 2.5, 3.0], [1.5, 2.5, 3.0], [0.5, 1.5, 2.0]], dtype=np.float32)
    same, less = with_margins([blank(Drop), blank(Drop)], margins)
    assert (same.margin_change, same.margin_change_interval) == (0.0, (0.0, 0.0))
    assert (less.margin_change, less.margin_change_interval) == (-1.0, (-1.0, -1.0))
    assert with_margin(blank(Baseline), margins).margin == pytest.approx(7 / 3)
