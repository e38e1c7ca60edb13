"""What is measured of one example, token by token, and what becomes of it over batches and halves."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.attached_analysis import examples as batches
from headway.attached_analysis.attached_runs import AttachedRuns
from headway.attached_analysis.examples import IGNORED, ModelExamples, read_data
from headway.attached_analysis.metrics import METRICS, find_metric
from headway.attached_analysis.pair_patching import _effect, patch_pairs
from headway.attachment.attached import Attached, attach
from headway.head_analysis.ablation import ablate
from tests.attachment.small_models import VOCABULARY, made

RIGHT_PADDED = ModelExamples(
    {
        "input_ids": torch.tensor([[5, 6, 7, 0, 0], [5, 6, 7, 8, 9]]),
        "attention_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    }
)
"""A sequence of three tokens beside one of five."""


def sequences(rows: int = 24) -> tuple[Attached, dict[str, Tensor]]:
    """A small GPT-2 with sequences of unequal lengths, padded on the right."""
    model, batch = made("gpt2")
    ids = torch.randint(3, VOCABULARY, (rows, 7), generator=torch.Generator().manual_seed(8))
    mask = (torch.arange(7) < torch.tensor([[7], [5]]).repeat(rows // 2, 1)).long()
    return attach(model, example=batch), {"input_ids": ids, "attention_mask": mask}


def test_next_tokens_are_those_after_the_own_and_padding_is_no_next_token() -> None:
    metric = find_metric("next_token_loss")
    assert metric.scored is not None
    _, target = metric.scored(torch.zeros(2, 4, 10), RIGHT_PADDED, torch.zeros(2, 4, 10))
    assert target.tolist() == [[6, 7, IGNORED, IGNORED], [6, 7, 8, 9]]


def test_the_last_token_is_the_last_that_is_no_padding() -> None:
    metric = find_metric("logit_difference")
    assert metric.positions is not None
    assert metric.positions(RIGHT_PADDED).tolist() == [[2], [4]]


def test_the_divergence_is_that_of_the_whole_model_from_the_ablated() -> None:
    """From 1/2, 1/2 to 1/4, 3/4: log 2 / 2 + log (2/3) / 2 = 0.144; the other way round it would be 0.131."""
    value = find_metric("kl").value
    assert value is not None
    whole, after = torch.tensor([[[0.5, 0.5]]]).log(), torch.tensor([[[0.25, 0.75]]]).log()
    found = float(value(after, torch.tensor([[1]]), whole)[0])
    assert found == pytest.approx(math.log(2) / 2 + math.log(2 / 3) / 2, abs=1e-6)


def test_of_a_loss_less_is_better() -> None:
    """A head that the model needs has a positive drop, of accuracy as of a loss."""
    signs = {name: metric.sign for name, metric in METRICS.items()}
    assert {name for name, sign in signs.items() if sign < 0} == {"next_token_loss", "kl"}
    attached, columns = sequences()
    runs = AttachedRuns(attached, read_data(columns), find_metric("kl"))
    assert all(drop.drop > 0 for drop in ablate(runs, kinds=["zero"]).drops["zero"].values())


@pytest.mark.parametrize("left", [True, False])
def test_batches_of_unequal_widths_are_padded_on_the_side_of_their_own_padding(left: bool) -> None:
    short = {
        "input_ids": torch.tensor([[0, 4, 5], [6, 7, 8]] if left else [[4, 5, 0], [6, 7, 8]]),
        "attention_mask": torch.tensor([[0, 1, 1], [1, 1, 1]] if left else [[1, 1, 0], [1, 1, 1]]),
    }
    long = {"input_ids": torch.full((1, 5), 9), "attention_mask": torch.ones(1, 5, dtype=torch.long)}
    short["labels"], long["labels"] = short["input_ids"].clone(), long["input_ids"]
    found = read_data([short, long])
    last = metric_places(found)
    assert [row[there].tolist() for row, there in zip(found.inputs, found.real(), strict=True)] == [
        [4, 5],
        [6, 7, 8],
        [9] * 5,
    ]
    assert last == ([4, 4, 4] if left else [1, 2, 4])
    assert (found.columns["labels"] == IGNORED).sum(1).tolist() == [2, 2, 0]


def metric_places(found: ModelExamples) -> list[int]:
    """The places after which a logit difference is read."""
    positions = find_metric("logit_difference").positions
    assert positions is not None
    return [int(place) for place in positions(found)[:, 0]]


def test_means_are_over_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    attached, columns = sequences()
    rows = np.eye(len(attached.heads), dtype=np.int64)
    one_batch = AttachedRuns(attached, read_data(columns), find_metric("next_token_loss")).run(rows, ["mean"])
    monkeypatch.setitem(batches.TOKENS_A_BATCH, "cpu", 35)  # five rows at a time
    several = AttachedRuns(attached, read_data(columns), find_metric("next_token_loss")).run(rows, ["mean"])
    assert several.values == pytest.approx(one_batch.values, abs=1e-5)


def test_a_mean_at_a_position_is_over_the_examples_that_reach_it() -> None:
    """Every third example alone has seven tokens; the others have five."""
    attached, columns = sequences()
    columns["attention_mask"][::3] = 1
    columns["attention_mask"][1::3, 5:] = columns["attention_mask"][2::3, 5:] = 0
    real, site = columns["attention_mask"].bool(), attached.sites[0]
    outputs = attached.head_outputs(columns)[site.name][:, :, 1].double()
    means = torch.stack([outputs[real[:, place], place].mean(0) for place in range(7)]).float()

    def edit(heads: Tensor) -> Tensor:
        heads = heads.clone()
        heads[:, :, 1] = means
        return heads

    with attached.intervene({site.name: edit}):
        logits = attached.run(columns)
    lost = F.cross_entropy(logits[:, :-1].flatten(0, 1), columns["input_ids"][:, 1:].flatten(), reduction="none")
    lost, scored = lost.view(-1, 6), real[:, 1:]
    wanted = [float(one[there].mean()) for one, there in zip(lost, scored, strict=True)]
    mask = np.eye(len(attached.heads), dtype=np.int64)[1:2]
    runs = AttachedRuns(attached, read_data(columns), find_metric("next_token_loss"), scale=1.0)
    assert -runs.run(mask, ["position-mean"]).values[0] == pytest.approx(wanted, abs=1e-4)


def test_parts_of_the_examples_are_measured_on_the_scale_of_all_and_a_share_changes_by_1_at_most() -> None:
    attached, columns = sequences()
    loss = AttachedRuns(attached, read_data(columns), find_metric("next_token_loss"))
    assert loss.take(slice(0, 6)).scale == loss.scale
    assert loss.largest_change is None
    share = AttachedRuns(attached, read_data(columns), find_metric("next_token_accuracy"), scale=0.5)
    assert share.largest_change == 2.0


def test_a_pair_counts_where_base_and_source_are_right_and_their_answers_differ() -> None:
    model, batch = made("bert")
    attached = attach(model, example=batch)
    ids = torch.randint(3, VOCABULARY, (24, 7), generator=torch.Generator().manual_seed(2))
    columns = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    said = attached.logits(columns).argmax(-1)
    base, source = ({**columns, "input_ids": part, "labels": own.clone()} for part, own in
                    ((ids, said), (ids.flip(0), said.flip(0))))  # fmt: skip
    differ = (said != said.flip(0)).nonzero().flatten()
    base["labels"][differ[0]] = 1 - base["labels"][differ[0]]
    source["labels"][differ[1]] = 1 - source["labels"][differ[1]]
    assert len(differ) > 2
    found = patch_pairs(AttachedRuns(attached, read_data(base), find_metric("accuracy")), read_data(source))
    assert found.contrasts[0].usable == len(differ) - 2


def test_the_effect_of_a_patch_is_that_on_usable_pairs() -> None:
    before, after, source = np.array([0.0, 0.0, 5.0]), np.array([1.0, 2.0, 99.0]), np.array([4.0, 4.0, 5.0])
    effect, _ = _effect(before, after, source, np.array([True, True, False]))
    assert effect == pytest.approx((1 / 4 + 2 / 4) / 2)
