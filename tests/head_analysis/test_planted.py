"""Every analysis finds what was planted: the one head that brings the carries, and a pair that only counts together.

Which heads do what, and the proof that no other can, stands in `tests/head_analysis/planted.py`.
"""

import numpy as np
import pytest
import torch

import headway as hw
from headway.batches import make_batch
from headway.evaluation import SequenceEvaluation, Trained, evaluate
from headway.head_analysis import analysis
from headway.head_analysis.ablation import Ablation, ablate, ablate_together
from headway.head_analysis.analysis import HeadAnalysis
from headway.head_analysis.error_analysis import analyse_errors, zeroing
from headway.head_analysis.handles import intervene
from headway.head_analysis.head_runs import KINDS, TrainedRuns
from headway.head_analysis.interventions import intervene_on_contrasts
from headway.head_analysis.joint_ablation import eliminate, measure_pairs, shapley_exact
from headway.tasks import Examples
from tests.head_analysis.planted import BACKUP_HEAD, BASE, CARRY_HEAD, DECOY_HEAD, DIGITS, DIGITS_HEAD, plant

CROSS = (DIGITS_HEAD, CARRY_HEAD, BACKUP_HEAD, DECOY_HEAD)
PAIR = (CARRY_HEAD, DECOY_HEAD)
"""In the model where both are carriers."""
CARRIES = DIGITS * (DIGITS + 1) // 2
"""Contrasts of a carry: into each column, from each column below it."""


@pytest.fixture(scope="module")
def planted() -> Trained:
    return plant()


@pytest.fixture(scope="module")
def paired() -> Trained:
    return plant(carriers=PAIR)


@pytest.fixture(scope="module")
def examples(planted: Trained) -> Examples:
    return planted.examples("test")


@pytest.fixture(scope="module")
def found(planted: Trained) -> HeadAnalysis:
    """Everything on the whole split, but not as many passes of each part as so small a model would get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "ADDITION_COST", analysis.ADDITION_COST // 150)
        patch.setattr(analysis, "PERMUTATIONS", 8)
        made: HeadAnalysis = hw.heads(planted)
    return made


@pytest.fixture(scope="module")
def ablated_pair(paired: Trained, examples: Examples) -> Ablation:
    return ablate(TrainedRuns(paired, examples))


def has_carry(trained: Trained, examples: Examples) -> np.ndarray:
    return trained.task.features(examples.source)["carries"] > 0


def flips(found: HeadAnalysis, about: str) -> list[dict[str, tuple[float, float]]]:
    """For each contrast of a sort: group -> interval of how often it carries the difference over."""
    chosen = [contrast for contrast in found.interventions.contrasts if contrast.about == about]
    return [{row.who: row.interval for row in contrast.rows} for contrast in chosen]


def shapley_of(found: HeadAnalysis, players: str) -> dict[str, tuple[float, float]]:
    values = found.joint.shapley[players].values
    return {row.head: (row.value, row.error) for row in values}


# The models are what they are said to be


@pytest.mark.parametrize("carriers", [(CARRY_HEAD,), PAIR])
def test_planted_models_get_every_sum_of_the_domain_right(carriers: tuple) -> None:
    result = evaluate(plant(carriers), "all", decoded=100)
    assert isinstance(result, SequenceEvaluation)
    assert (result.n, result.wrong, result.real_disagreements) == (BASE ** (2 * DIGITS), 0, 0)


def logits_when(planted: Trained, examples: Examples, without: list) -> torch.Tensor:
    """Logits of each column of the sum, units first; the end is left out."""
    batch = make_batch(planted.task, planted.model, examples, planted.device)
    with torch.inference_mode(), intervene(planted.model, zeroing(planted, without)):
        return planted.model(batch.inputs)[:, :-1].flip(1)


@pytest.mark.parametrize("column", range(DIGITS))
def test_without_the_head_a_column_feels_no_digit_below_it(planted: Trained, column: int) -> None:
    before = planted.examples("test").take(slice(0, 200))
    source = before.source.copy()
    source[:, [DIGITS - 1 - column, 2 * DIGITS - column]] = 0, BASE - 1
    after = Examples(source, planted.task.answer(source))
    above = slice(column + 1, None)
    whole, changed = (logits_when(planted, rows, [])[:, above] for rows in (before, after))
    assert not torch.equal(whole.argmax(-1), changed.argmax(-1))
    without, unchanged = (logits_when(planted, rows, [CARRY_HEAD])[:, above] for rows in (before, after))
    # What the decoy writes has the same size for all digits, up to the rounding of a softmax.
    torch.testing.assert_close(without, unchanged, rtol=0, atol=1e-5)
    blind, still_blind = (logits_when(planted, rows, list(PAIR))[:, above] for rows in (before, after))
    assert torch.equal(blind, still_blind)


# One head that brings the carries


def test_interventions_find_the_head_in_every_carry_and_no_other_head(found: HeadAnalysis) -> None:
    carries = flips(found, "carry")
    assert len(carries) == CARRIES
    groups_with_it = {str(CARRY_HEAD), "decoder.0.cross", "all cross"}
    for rows in carries:
        assert all((low > 0.98) if who in groups_with_it else (high < 0.02) for who, (low, high) in rows.items())


def test_controls_say_that_the_head_moves_the_carry_and_nothing_else(found: HeadAnalysis) -> None:
    contrasts = [one for one in found.interventions.contrasts if one.about == "carry"]
    everything = {"decoder.0.cross", "all cross"}
    for contrast in contrasts:
        control = contrast.control
        assert control.usable == control.n > 100
        readings = {row.who: row.reading for row in control.rows}
        assert readings == dict.fromkeys(readings, "not moved") | {str(CARRY_HEAD): "carry alone"} | dict.fromkeys(
            everything, "carry and digits"
        )
        rows = {row.who: row for row in control.rows}
        assert rows[str(CARRY_HEAD)].changed == rows["all cross"].changed == 0
        assert rows[str(DIGITS_HEAD)].digits.rate == 1, "it brings the digits, and never the carry"
        assert rows[str(CARRY_HEAD)].difference.interval[0] > 0.95
        assert contrast.strongest["cross"].head == str(CARRY_HEAD)
        assert contrast.strongest["cross"].control.reading == "carry alone"


def test_interventions_find_the_stronger_of_two_heads_behind_the_digits(found: HeadAnalysis) -> None:
    for rows in flips(found, "digits"):
        assert rows[str(DIGITS_HEAD)][0] > 0.98
        assert max(rows[str(head)][1] for head in (CARRY_HEAD, BACKUP_HEAD, DECOY_HEAD)) < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_the_head_is_critical_in_every_kind_of_ablation(found: HeadAnalysis, kind: str) -> None:
    drop = found.head(str(CARRY_HEAD)).ablation[kind]
    assert drop.verdict == "critical"
    assert drop.interval[0] > 70


def test_every_other_head_is_redundant_except_that_wrong_digits_outvote_the_backup(found: HeadAnalysis) -> None:
    """Another sum's digits from the stronger head win against the backup, which stands in only for silence."""
    others = {name: verdict for name, verdict in found.verdicts.items() if verdict != "redundant"}
    assert others == {str(CARRY_HEAD): "critical", str(DIGITS_HEAD): "depends on the ablation"}
    kinds = {kind: drop.verdict for kind, drop in found.head(str(DIGITS_HEAD)).ablation.items()}
    assert kinds == {"zero": "redundant", "mean": "redundant", "position-mean": "redundant", "resample": "critical"}


def test_zeroing_the_head_costs_exactly_the_sums_with_a_carry(
    planted: Trained, examples: Examples, found: HeadAnalysis
) -> None:
    drop = found.head(str(CARRY_HEAD)).ablation["zero"]
    assert (drop.lost, drop.gained) == (int(has_carry(planted, examples).sum()), 0)


def test_the_error_anatomy_without_the_head_has_all_failures_in_sums_with_carries(
    planted: Trained, examples: Examples
) -> None:
    by_carries = analyse_errors(planted, examples, without=[CARRY_HEAD]).by_feature["carries"]
    assert [row.value for row in by_carries] == list(range(DIGITS + 1))
    assert [row.accuracy for row in by_carries] == [1.0, *[0.0] * DIGITS]
    assert analyse_errors(planted, examples, without=[DECOY_HEAD]).wrong == 0


def test_exact_shapley_values_are_those_worked_out_by_hand(planted: Trained, examples: Examples) -> None:
    """A sum with a carry needs h1 and one of h0 and h2: of the 6 orders h1 decides 4, the others 1 each.

    A sum without one needs h0 or h2, whichever comes first.
    """
    values = {row.head: row for row in shapley_exact(TrainedRuns(planted, examples), CROSS).values}
    share = has_carry(planted, examples).mean()
    digits = share / 6 + (1 - share) / 2
    expected = [100 * value for value in (digits, share * 4 / 6, digits, 0.0)]
    assert [values[str(head)].value for head in CROSS] == pytest.approx(expected, abs=1e-9)
    # A value is 2/3 on a share of the examples and 0 on the others.
    spread = 100 * (2 / 3) * (share * (1 - share) / (len(examples) - 1)) ** 0.5
    assert values[str(CARRY_HEAD)].error == pytest.approx(spread)


def test_shapley_values_rank_the_head_first_by_far(found: HeadAnalysis) -> None:
    values = shapley_of(found, "cross")
    value, error = values.pop(str(CARRY_HEAD))
    assert value - 3 * error > 2 * max(other + 3 * its_error for other, its_error in values.values())


def test_sampled_shapley_values_of_all_heads_agree_within_their_errors(found: HeadAnalysis) -> None:
    """A head that writes nothing changes no other's value, so they are those of the cross-attention alone."""
    exact, sampled = shapley_of(found, "cross"), shapley_of(found, "all")
    assert max(sampled, key=lambda head: sampled[head][0]) == str(CARRY_HEAD)
    for head, (value, error) in sampled.items():
        assert abs(value - exact.get(head, (0.0, 0.0))[0]) <= 3 * error


def test_a_decoy_that_looks_like_the_head_is_told_apart_by_what_it_does(found: HeadAnalysis) -> None:
    carrier, decoy = (found.head(str(head)) for head in PAIR)
    assert carrier.role == decoy.role == "cross: carry"
    assert carrier.scores == pytest.approx(decoy.scores)
    assert decoy.verdict == "redundant"
    assert shapley_of(found, "cross")[str(DECOY_HEAD)] == (0.0, 0.0)


def test_the_analysis_names_the_head(found: HeadAnalysis) -> None:
    (first, drop), (_, next_drop) = found.top(2)
    assert (first, next_drop) == (str(CARRY_HEAD), 0.0)
    assert drop > 70
    enough = found.joint.sufficient
    assert enough.drop == 0
    assert len(enough.heads) == 2
    assert str(CARRY_HEAD) in enough.heads
    assert found.checks.real_disagreements == 0


# A pair that brings them together


def test_each_of_the_pair_is_redundant_alone(ablated_pair: Ablation) -> None:
    """Zeros and means leave the other to decide; another sum's carry speaks as loud as the right one."""
    for head in PAIR:
        kinds = {kind: drops[str(head)].verdict for kind, drops in ablated_pair.drops.items()}
        assert kinds == {"zero": "redundant", "mean": "redundant", "position-mean": "redundant", "resample": "critical"}


def test_the_pair_is_critical_together(paired: Trained, examples: Examples) -> None:
    *alone, together = ablate_together(TrainedRuns(paired, examples), [[CARRY_HEAD], [DECOY_HEAD], PAIR])
    assert [drop.verdict for drop in alone] == ["redundant", "redundant"]
    assert together.verdict == "critical"
    assert (together.lost, together.gained) == (int(has_carry(paired, examples).sum()), 0)


def test_planted_pairs_are_the_only_ones_with_an_interaction(paired: Trained, examples: Examples) -> None:
    digits, carries, *others = measure_pairs(TrainedRuns(paired, examples)).pairs
    assert digits.heads == (str(DIGITS_HEAD), str(BACKUP_HEAD))
    assert carries.heads == tuple(map(str, PAIR))
    assert carries.alone == (0.0, 0.0)
    assert carries.verdict_together == "critical"
    assert carries.interval[0] > 70
    assert carries.p_holm < 1e-6
    assert {pair.interaction for pair in others} == {0.0}


def test_elimination_keeps_one_of_each_pair_where_single_drops_promise_to_spare_all(
    paired: Trained, examples: Examples, ablated_pair: Ablation
) -> None:
    single = {head: drop.drop for head, drop in ablated_pair.drops["zero"].items()}
    halves = (TrainedRuns(paired, examples.take(slice(start, None, 2))) for start in (0, 1))
    found = eliminate(*halves, single)
    kept = set(found.sufficient.heads)
    assert [len(kept & set(map(str, pair))) for pair in (PAIR, (DIGITS_HEAD, BACKUP_HEAD))] == [1, 1]
    assert len(kept) == 2
    assert found.sufficient.drop == 0
    promised = found.removable[0].alone_under_limit
    assert promised.heads == tuple(ablated_pair.heads)
    assert promised.drop == 100


def test_one_of_the_pair_can_take_a_carry_away_but_not_bring_it(paired: Trained) -> None:
    """Against each other they add up to 0, which means no carry: half of the pairs, those whose source has none."""
    groups = {"first": [CARRY_HEAD], "second": [DECOY_HEAD], "both": list(PAIR), "digits": [DIGITS_HEAD]}
    contrasts = intervene_on_contrasts(paired, 200, groups).contrasts[:CARRIES]
    for contrast in contrasts:
        rates = {row.who: row.rate for row in contrast.rows}
        assert rates == {"first": 0.5, "second": 0.5, "both": 1.0, "digits": 0.0}


def test_shapley_values_share_the_carries_between_the_pair(paired: Trained, examples: Examples) -> None:
    """A sum with a carry needs one of each pair, and each of the four heads decides a quarter of the orders."""
    values = {row.head: row.value for row in shapley_exact(TrainedRuns(paired, examples), CROSS).values}
    share = has_carry(paired, examples).mean()
    assert [values[str(head)] for head in PAIR] == pytest.approx([25 * share] * 2, abs=1e-9)
    assert [values[str(head)] for head in (DIGITS_HEAD, BACKUP_HEAD)] == pytest.approx([50 - 25 * share] * 2, abs=1e-9)
