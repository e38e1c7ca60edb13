"""Mechanism against length: a planted fault is found, at its head and length; where nothing is wrong, nothing is."""

import json
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
import torch

from headway.batches import make_batch
from headway.errors import InputError
from headway.evaluation import Trained
from headway.head_analysis.partial_forward import PartialForward, State
from headway.head_analysis.variants import heads_of
from headway.length_analysis import behaviour
from headway.length_analysis.behaviour import Behaviour, Sample, attention_scores, captured_at, sample_of
from headway.length_analysis.changes import Observed, _change, find_changes, has_changed, in_order, size_of
from headway.length_analysis.mechanism import examples_at, first_failing, mechanism
from headway.length_analysis.repair import (
    Nearby,
    Scattered,
    at_random,
    by_offset,
    claim_of,
    equivalence_row,
    profiles_of,
    repaired,
    repairs_and_shams,
    repairs_for,
    rise_row,
    shifted,
    within_reach,
)
from headway.length_analysis.sets import length_set
from headway.model.sites import Head
from headway.narration.mechanism import also, tell
from headway.results.mechanism import Change, Equivalence, HeadAcrossLengths, Mechanism, ModelAtLength, Repair, Sham
from headway.results.schema import blank, read
from headway.statistics import holm, newcombe_interval
from tests.head_analysis.small import SORTEDNESS, TEXT, TEXT_ACROSS, untrained
from tests.length_analysis.planted import CULPRIT, LAST, Fault, plant
from tests.results.made_up import mechanism_of, rise_of

LENGTHS = [8, 32, 64]
N = 80
ENOUGH = 300
"""Examples with which a perfect repair is shown to be within 2 points of a perfect reference, for all of 4 repairs."""


def found_in(fault: Fault, n: int = N) -> Mechanism:
    return mechanism(plant(fault), LENGTHS, n=n)


@pytest.fixture(scope="module")
def even() -> Mechanism:
    return found_in("even", ENOUGH)


@pytest.fixture(scope="module")
def sound() -> Mechanism:
    return found_in("none")


def row_of(found: Mechanism, head: Head) -> HeadAcrossLengths:
    return found.head(str(head))


# Planted faults


def test_the_planted_head_that_fails_is_named_with_its_length_and_numbers(even: Mechanism) -> None:
    first = even.first
    assert first is not None
    assert (first.head, first.about, first.what, first.length) == (str(CULPRIT), "attention", "previous_element", 64)
    assert first.before == pytest.approx(1, abs=1e-9) and first.after == pytest.approx(0, abs=1e-6)
    assert first.interval[0] <= first.change <= first.interval[1] < -0.9
    assert even.fails_at == 64 > LAST
    assert {change.head for change in even.changes} == {str(CULPRIT)}, "the others do as before"
    assert f"{CULPRIT} changes first, at 64: it puts 0.02 of its attention on the previous element" in even.words[2]


def test_pieces_of_the_same_sequences_tell_length_from_what_stands_in_them(even: Mechanism) -> None:
    rows = even.lengths
    assert [row.crops is None for row in rows] == [True, True, False, False]
    assert rows[3].crops is not None
    assert rows[3].crops.accuracy == 1 and rows[3].crops.rise == pytest.approx(50)
    assert "On crops of 16 from the same sequences it is 100 %" in even.words[1]
    assert "of 50.0 points lost, length alone costs 50.0" in even.words[1]
    fallen = row_of(even, CULPRIT).scores["previous_element"][3]
    assert fallen is not None
    assert fallen.share_before == pytest.approx(1) and fallen.even_before == pytest.approx(1 / 16)


def test_what_the_culprit_brought_is_gone_too(even: Mechanism) -> None:
    zero = row_of(even, CULPRIT).effects["zero"]
    assert [row.length for row in even.lengths] == [8, 16, 32, 64]
    assert [round(row.value, 2) for row in zero[:3]] == [pytest.approx(1, abs=0.2)] * 3
    assert zero[1].drop == pytest.approx(50), "without it every sequence looks sorted"
    assert zero[3].changed and abs(zero[3].value) < 0.2
    for head in (Head(CULPRIT.site, 0), Head(CULPRIT.site, 2)):
        assert {row.value for row in row_of(even, head).effects["zero"]} == {0.0}


def test_looking_as_in_training_again_repairs_the_culprit(even: Mechanism) -> None:
    check = even.check
    assert check is not None
    rises = {(row.repair, row.who): row.at.rise for row in check.repairs}
    assert rises["profile", str(CULPRIT)] == pytest.approx(50)
    assert rises["reach", str(CULPRIT)] == 0, "it looks evenly near by as well"
    assert check.looking_elsewhere == (str(CULPRIT),)
    assert f"With {CULPRIT} attending by offset as on average at 16, accuracy at 64 is 100 %" in even.words[-1]
    assert even.words[-1].endswith("So where this head looks is why it fails at 64.")


def test_nothing_is_named_in_a_model_that_does_the_same_at_every_length(sound: Mechanism) -> None:
    assert sound.first is None and sound.fails_at is None
    assert sound.changes == () and sound.check is None
    assert all(row.accuracy == 1 for row in sound.lengths)
    assert "no tested length up to 64 is significantly worse" in sound.words[0]
    assert sound.words[1].startswith("No single head is shown to change by more than 0.1")
    assert len(sound.words) == 2


def words_of(found: Mechanism) -> list[str]:
    return list(map(str, tell(found)))


def with_repairs(found: Mechanism, *repairs: Repair) -> Mechanism:
    assert found.check is not None
    return replace(found, check=replace(found.check, repairs=repairs))


def repair_of(found: Mechanism, repair: str) -> Repair:
    """The repair of the culprit, or of the fewest heads that were repaired."""
    assert found.check is not None
    return min((row for row in found.check.repairs if row.repair == repair), key=lambda row: len(row.heads))


def test_a_head_distracted_by_far_keys_is_repaired_by_its_old_reach() -> None:
    found = mechanism(plant("far"), [64], n=ENOUGH)
    assert found.first is not None and found.first.head == str(CULPRIT)
    row = repair_of(found, "reach")
    assert row.sham is not None and row.sham.rise_interval[1] < 5, "as many keys at random leave far ones among them"
    assert row.equivalence is not None and row.equivalence.equivalent and row.claim == "why"
    said = found.words[-1]
    assert "seeing no further than at 16, accuracy at 64 is 100 %" in said
    assert "a sham repair of the same heads (with as many keys hidden at random) gains 0." in said
    assert said.endswith(
        "Accuracy is within 2 points of that at 16 (difference 0.00, −1.6 to +1.6). "
        "So what this head sees further away is why it fails at 64."
    )


def test_too_few_examples_show_a_part_and_not_all_of_it() -> None:
    found = found_in("far")
    assert repair_of(found, "reach").claim == "a part of why"
    assert "Accuracy is not shown to be within 2 points of that at 16 (difference 0.00, " in found.words[-1]
    assert found.words[-1].endswith("So what this head sees further away is a part of why it fails at 64.")


def test_where_fewer_keys_are_enough_the_reach_is_not_blamed() -> None:
    """In a crowd it does not matter which keys are hidden: the sham helps as much."""
    found = found_in("crowd", 200)
    assert found.fails_at == 64
    row = repair_of(found, "reach")
    assert row.sham is not None and row.at.accuracy == row.sham.accuracy == 1
    assert row.sham.repair_above == 0 and row.claim == "not shown"
    assert not any("further away is" in said for said in found.words)
    assert found.check is not None
    said = words_of(with_repairs(found, *(row for row in found.check.repairs if row.repair == "reach")))[-1]
    assert "(with as many keys hidden at random) gains +50.0" in said
    assert said.endswith("so what these heads see further away is not shown to be why it fails.")


def test_a_repair_that_helps_in_part_is_a_part_of_why() -> None:
    """The head is put right, but half of the sequences have something else wrong with them."""
    found = mechanism(plant("partly"), [64], n=ENOUGH)
    row = repair_of(found, "reach")
    assert 0.6 < row.at.accuracy < 0.9
    assert row.equivalence is not None
    assert row.equivalence.interval[1] < -2 and not row.equivalence.equivalent
    assert row.claim == "a part of why"
    assert found.words[-1].endswith("is a part of why it fails at 64.")
    assert not any(said.endswith("is why it fails at 64.") for said in found.words)


def test_a_fault_that_is_in_no_head_is_not_put_on_one() -> None:
    found = found_in("quiet")
    assert found.fails_at == 64 and found.first is None
    assert "their attention is not shown to be why it fails" in found.words[-1]


@pytest.mark.parametrize("length", [16, 32, 64])
def test_scores_of_attention_that_stays_do_not_move_with_length(sound: Mechanism, length: int) -> None:
    place = sound.place(length)
    own, culprit, even = (row_of(sound, Head(CULPRIT.site, index)).scores for index in range(3))
    assert own["diagonal"][place].value == pytest.approx(1)
    assert culprit["previous_element"][place].value == pytest.approx(1)
    for score in ("diagonal", "boundary", "next_element", "previous_element", "inversion"):
        assert even[score][place].value == pytest.approx(0, abs=1e-6)
        assert even[score][place].share == pytest.approx(even[score][place].even)
    assert even["entropy"][place].value == pytest.approx(1)
    assert own["entropy"][place].value == pytest.approx(0, abs=1e-6)


# What counts as a change


def changed(before: float, after: float, *, length: int = 64, error: float = 0.0, entropy: bool = False) -> Any:
    wider = log(length) / log(16) if entropy else 1.0
    return _change("h", "attention", "x", length, Sample(before, error, 30), Sample(after, error, 40), wider)


def test_entropy_may_stay_in_bits_or_as_a_share() -> None:
    local = log(3) / log(16), log(3) / log(64)  # three keys, at both lengths
    assert changed(*local, entropy=True).change == pytest.approx(0)
    assert changed(0.9, 0.9, entropy=True).change == 0
    assert changed(0.9, 0.7, entropy=True).change == 0, "between the two"
    assert changed(0.9, 0.5, entropy=True).change == pytest.approx(0.5 - 0.9 / 1.5), "sharper than either"
    assert changed(0.5, 0.8, entropy=True).change == pytest.approx(0.3), "more spread than either"
    assert changed(0.9, 0.7).change == pytest.approx(-0.2), "a part has no such freedom"


def test_a_change_counts_by_how_surely_it_is_larger_than_a_tenth() -> None:
    assert changed(0.8, 0.65).p == 0 and changed(0.8, 0.75).p == 1, "nothing varies, so there is no doubt"
    assert changed(0.8, 0.65, error=0.04).p > 0.1, "larger than 0 for sure, but than 0.1?"
    assert changed(0.8, 0.4, error=0.04).p < 0.001


def observed(length: int, look: float, effect: float, rows: int = 60) -> Behaviour:
    """Two heads: the second as always, the first with one score and one effect as told."""
    noise = np.tile([-0.01, 0.01], rows // 2)
    attention = {
        head: {"diagonal": behaviour.AttentionScore(sample_of(value + noise), value, 0.1)}
        for head, value in (("a", look), ("b", 0.5))
    }
    margin = np.stack([np.ones(rows) + noise] + [np.ones(rows) - brought for brought in (effect, 0.2) * 2])
    right = np.ones((5, rows), dtype=bool)
    return Behaviour(length, ["a", "b"], attention, right, margin.astype(np.float32), np.arange(rows) % 2)


def in_a_row(*seen: Behaviour, **pieces: Behaviour) -> Observed:
    """Lengths of which the first is the reference."""
    return Observed(seen[0].length, {one.length: one for one in seen}, {int(at[1:]): one for at, one in pieces.items()})


def test_what_pieces_do_as_well_is_not_a_change() -> None:
    seen = observed(16, 0.9, 1.0), observed(32, 0.2, 0.1)
    assert {change.head for change in find_changes(in_a_row(*seen)) if has_changed(change)} == {"a"}
    assert not any(has_changed(change) for change in find_changes(in_a_row(*seen, L32=observed(16, 0.2, 0.1))))


@pytest.mark.parametrize("name", ["adjacent", "matched"])
def test_nothing_is_named_in_a_model_that_cannot_see_the_length(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights, a window, and relative bias: ties multiply with length, but pieces have them too."""
    model = {"window": 2, "encoding": "clipped", "pooling": "max"}
    trained = untrained(SORTEDNESS, seed=0, model=model, task={"values": 60, "min_length": 5, "max_length": 9})
    assert mechanism(trained, [18, 72], n=60, sets=name).changes == ()
    if name == "matched":
        monkeypatch.setattr(type(trained.task), "pieces", lambda *_: None)
        assert mechanism(trained, [18, 72], n=60, sets=name).changes, "ties would be taken for length"


def test_the_earliest_change_comes_first_and_attention_before_effects() -> None:
    seen = [observed(16, 0.9, 1.0), observed(32, 0.9, 0.3), observed(64, 0.2, 0.3)]
    changes = find_changes(in_a_row(*seen))
    assert len(changes) == 2 * (2 + 4), "two lengths, two heads with one score, and two kinds of effect"
    named = {(change.head, change.about, change.length) for change in changes if has_changed(change)}
    assert named == {("a", "effect", 32), ("a", "effect", 64), ("a", "attention", 64)}
    both = find_changes(in_a_row(seen[0], observed(32, 0.6, 0.0)))
    ordered = sorted((change for change in both if has_changed(change)), key=lambda change: -size_of(change))
    assert ordered[0].about == "effect", "the larger of the two"
    assert [change.about for change in in_order(both)] == ["attention", "effect", "effect"]


def test_the_changes_of_all_lengths_are_one_family() -> None:
    """Corrected within a length, each p-value would count half as many tests."""
    random = np.random.default_rng(0)

    def noisy(length: int, diagonal: float) -> Behaviour:
        seen = observed(length, 0.5, 0.2)
        score = behaviour.AttentionScore(sample_of(diagonal + random.normal(0, 0.05, 60)), diagonal, 0.1)
        return replace(seen, attention={**seen.attention, "a": {"diagonal": score}})

    changes = find_changes(in_a_row(noisy(16, 0.5), noisy(32, 0.63), noisy(64, 0.63)))
    expected = holm([change.p for change in changes])
    smallest = min(changes, key=lambda change: change.p)
    assert 0 < smallest.p < 0.05
    assert smallest.p_holm == pytest.approx(min(1.0, smallest.p * len(changes)))
    assert [change.p_holm for change in changes] == pytest.approx(expected)


def test_only_a_length_that_is_worse_than_training_fails() -> None:
    def row(length: int, low: float, high: float) -> ModelAtLength:
        return ModelAtLength(
            length=length,
            trained=length <= 16,
            n=100,
            wrong=0,
            accuracy=1.0,
            interval=(low, high),
            margin=1.0,
            margin_interval=(0.0, 2.0),
            n_attention=0,
        )

    assert first_failing([row(8, 0.1, 0.2), row(16, 0.97, 1.0), row(32, 0.95, 0.98), row(64, 0.9, 0.96)], 16) == 64
    assert first_failing([row(16, 0.995, 1.0), row(32, 0.99, 0.994), row(64, 0.98, 0.989)], 16) == 64, "below 99 %"
    assert first_failing([row(16, 0.995, 1.0), row(32, 0.99, 0.999)], 16) is None


def test_what_sets_classes_apart_is_not_chance() -> None:
    values, groups = np.array([5.0, -5.0, 5.5, -5.5]), np.array([0, 1, 0, 1])
    apart = sample_of(values, groups)
    assert (apart.mean, apart.n) == (0, 4)
    assert apart.error == pytest.approx(np.hypot(0.25, 0.25) / 2)
    assert sample_of(values).error > 2
    unequal = sample_of(np.array([0.0, 0.0, 0.0, 0.0, 6.0, 8.0]), np.array([0, 0, 0, 0, 1, 1]))
    assert (unequal.mean, unequal.error) == (3.5, pytest.approx(0.5)), "each group counts alike, however large it is"
    assert sample_of(np.full(3, 0.1)).error == 0


# Repairs


def batch_and_walk(trained: Trained, length: int) -> tuple[PartialForward, State]:
    examples = length_set(trained, trained.task.length_plan().sets[0], length, 6)
    forward = PartialForward(trained.model, make_batch(trained.task, trained.model, examples, trained.device).inputs)
    return forward, forward.start()


def test_the_reach_of_training_changes_nothing_at_that_length_and_something_past_it() -> None:
    trained = untrained(SORTEDNESS, task={"values": 40})
    with torch.inference_mode():
        for length, alike in ((6, True), (12, False)):
            forward, state = batch_and_walk(trained, length)
            site = forward.sites[0]
            assert torch.equal(within_reach(5, forward, state, site), forward.head_outputs_at(state, site)) == alike


def test_the_repair_and_its_sham_have_the_reach_of_the_training_length() -> None:
    """Trained at 6 tokens, a query sees 5 to each side: of 8 in a row, token 7 first from place 2."""
    trained = untrained(SORTEDNESS, task={"values": 40})
    fitted = length_set(trained, trained.task.length_plan().sets[0], 6, 4)
    with torch.inference_mode():
        forward, state = batch_and_walk(trained, 8)
        site, hidden = forward.sites[0], state.hidden.clone()
        hidden[:, 7] += 1.0
        repair, sham = repairs_and_shams(trained, fitted)["reach"]
        moved = (repair(forward, State(hidden), site) - repair(forward, state, site)).abs().amax((0, 2, 3)) > 0
        assert moved.tolist() == [False] * 2 + [True] * 6
        assert torch.equal(sham(forward, state, site), at_random(5, forward, state, site))
        assert not torch.equal(sham(forward, state, site), at_random(6, forward, state, site))


def test_reach_hides_what_is_further_away() -> None:
    trained = untrained(SORTEDNESS, task={"values": 40})
    with torch.inference_mode():
        forward, state = batch_and_walk(trained, 12)
        site, hidden = forward.sites[0], state.hidden.clone()
        hidden[:, 9:] += 1.0
        seen = within_reach(3, forward, State(hidden), site) - within_reach(3, forward, state, site)
    moved = seen.abs().amax((0, 2, 3)) > 0
    assert moved.tolist() == [False] * 6 + [True] * 6


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_profile_is_the_mean_weight_at_each_offset_and_is_looked_by(norm: str) -> None:
    trained = untrained(SORTEDNESS, model={"norm": norm}, task={"values": 40})
    examples = length_set(trained, "adjacent", 6, 10)
    profiles = profiles_of(trained, examples)
    record: dict[str, torch.Tensor] = {}
    trained.model(make_batch(trained.task, trained.model, examples, trained.device).inputs, record)
    head = Head("encoder.0.self", 1)
    weights = record[head.site][:, head.index].detach().double()
    expected = [
        sum(float(weights[:, q, q + d].mean()) for q in range(6) if 0 <= q + d < 6) / (6 - abs(d)) for d in range(-5, 6)
    ]
    profile = profiles[head].double()
    torch.testing.assert_close(profile, torch.tensor(expected, dtype=torch.float64) / sum(expected), atol=1e-6, rtol=0)

    with torch.inference_mode():
        forward, state = batch_and_walk(trained, 9)
        site, block = forward.sites[0], forward.block(forward.sites[0])
        brought = by_offset(profiles, forward, state, site)[:, :, head.index]
        read = block.own_norm(state.hidden) if norm == "pre" else state.hidden
        value = block.own.split(block.own.value(read))[:, head.index]
    for q in range(9):
        there = [k for k in range(9) if abs(k - q) <= 5]
        weight = profile[[k - q + 5 for k in there]]
        mixed = torch.einsum("k,bkd->bd", weight.float() / weight.float().sum(), value[:, there])
        torch.testing.assert_close(brought[:, q], mixed, atol=1e-5, rtol=0)  # sums of 11 numbers in fp32


# Shams


@pytest.mark.parametrize("causal", [False, True])
def test_a_sham_hides_as_many_keys_as_the_reach_and_keeps_the_nearest(causal: bool) -> None:
    trained = untrained(SORTEDNESS, task={"values": 40})
    forward, _ = batch_and_walk(trained, 40)
    assert forward.encoder_view is not None
    place = forward.encoder_view.place
    everything = range(40)
    q, k = np.indices((40, 40))
    visible = k <= q if causal else np.ones((40, 40), dtype=bool)
    near = Nearby(**vars(place), reach=15).near(everything)[0, 0].numpy() & visible
    scattered = Scattered(**vars(place), reach=15, causal=causal)
    kept = scattered.near(everything)[0, 0].numpy()
    assert (kept.sum(1) == near.sum(1)).all()
    assert (kept <= visible).all()
    assert kept[visible & (abs(q - k) <= 15 // 4)].all()
    far = visible & (abs(q - k) > 15)
    share = (kept & far)[20:].sum() / far[20:].sum()
    assert 0.2 < share < 0.9, "some of the far keys stay"
    assert np.array_equal(scattered.near(range(10, 30))[0, 0].numpy(), kept[10:30]), "whatever the chunk"
    assert np.array_equal(kept, Scattered(**vars(place), reach=15, causal=causal).near(everything)[0, 0].numpy())


def test_a_sham_of_the_reach_changes_nothing_at_the_training_length() -> None:
    trained = untrained(SORTEDNESS, task={"values": 40})
    with torch.inference_mode():
        for length, alike in ((6, True), (12, False)):
            forward, state = batch_and_walk(trained, length)
            site = forward.sites[0]
            assert torch.equal(at_random(5, forward, state, site), forward.head_outputs_at(state, site)) == alike


def test_a_sham_of_the_profile_has_the_same_weights_elsewhere() -> None:
    for base in (SORTEDNESS, TEXT):
        trained = untrained(base)
        plan = trained.task.length_plan()
        profiles = profiles_of(trained, length_set(trained, plan.sets[0], plan.longest, 8))
        moved = shifted(trained, profiles)
        assert moved.keys() == profiles.keys()
        for head, profile in profiles.items():
            assert moved[head].sort().values.tolist() == profile.sort().values.tolist()
            assert not torch.equal(moved[head], profile)
            if base is TEXT:
                assert moved[head][len(profile) // 2 + 1 :].sum() == 0, "nothing ahead of a causal query"


def row_with(rise_low: float, above_low: float, equivalent: bool, sham_low: float) -> Repair:
    above = (above_low, above_low + 1.0)
    return Repair(
        repair="reach",
        who="all heads",
        heads=(),
        at=rise_of(low=rise_low),
        control=rise_of(),
        sham=Sham(**vars(rise_of(low=sham_low)), repair_above=above_low, repair_above_interval=above),
        equivalence=Equivalence(difference=0.0, interval=(-1.0, 1.0), n=(100, 100), equivalent=equivalent),
    )


def test_why_needs_both_the_sham_and_the_equivalence() -> None:
    assert claim_of(row_with(5, 5, True, 0)) == "why"
    assert claim_of(row_with(5, 5, False, 0)) == "a part of why"
    assert claim_of(row_with(5, 5, True, 2)) == "a part of why", "fewer keys explain some of it"
    assert claim_of(row_with(5, 1, True, 0)) == "not shown", "not surely better than the sham"
    assert claim_of(row_with(1, 5, True, 0)) == "not shown"
    assert claim_of(replace(row_with(5, 5, True, 0), sham=None)) == "not shown"


def test_equivalence_counts_the_errors_of_both_samples_and_all_repairs() -> None:
    def right(count: int, n: int) -> np.ndarray:
        return np.arange(n) < count

    assert equivalence_row(right(500, 500), right(500, 500), 14).equivalent
    assert not equivalence_row(right(500, 500), right(60, 60), 14).equivalent, "a small reference shows little"
    assert not equivalence_row(right(300, 300), right(300, 300), 40).equivalent
    found = equivalence_row(right(470, 500), right(490, 500))
    assert found.difference == pytest.approx(-4) and not found.equivalent
    assert found.interval == pytest.approx(tuple(100 * e for e in newcombe_interval(470, 500, 490, 500, 0.9)))
    assert found.n == (500, 500)


def test_only_the_chosen_heads_are_repaired() -> None:
    trained = plant("far")
    repair = repairs_for(trained, length_set(trained, "adjacent", 16, 20))["reach"]
    examples = length_set(trained, "adjacent", 64, 20)
    assert repaired(trained, examples, [CULPRIT], repair).all()
    others = [head for head in heads_of(trained) if head != CULPRIT]
    assert repaired(trained, examples, others, repair).sum() == 10


# Sizes, forms and what is refused


def test_results_pass_through_json(even: Mechanism, sound: Mechanism) -> None:
    for found in (even, sound):
        text = json.dumps(found.to_json(), allow_nan=False)
        assert read(Mechanism, json.loads(text), "lengths.json") == found
    assert even._repr_html_().startswith("<p>Accuracy at 16")


def test_another_form_is_refused() -> None:
    with pytest.raises(InputError, match=r"lengths\.json: form is 7; 1 needed"):
        read(Mechanism, {"form": 7}, "lengths.json")


def test_too_few_examples_an_unknown_set_and_no_heads_are_refused() -> None:
    with pytest.raises(InputError, match="n = 19 examples at each length; at least 20 needed"):
        mechanism(plant(), LENGTHS, n=19)
    with pytest.raises(InputError, match="sortedness has no set 'adjecent' of a length; did you mean adjacent"):
        mechanism(plant(), LENGTHS, n=20, sets="adjecent")
    with pytest.raises(InputError, match="has no heads left; there is nothing to compare"):
        mechanism(untrained(SORTEDNESS, model={"kept_heads": []}), LENGTHS, n=20)


def test_longer_sequences_get_fewer_examples() -> None:
    assert [examples_at(500, length) for length in (16, 128, 256, 1_024)] == [500, 500, 250, 64]
    assert [examples_at(40, length) for length in (16, 1_024)] == [40, 40]
    assert [captured_at(length) for length in (16, 256, 512, 1_024, 4_096)] == [64, 64, 32, 16, 16]


def test_weights_of_long_sequences_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behaviour, "LONGEST_CAPTURED", 40)
    found = mechanism(plant("even"), [64], n=40)
    assert row_of(found, CULPRIT).scores["diagonal"][1] is None
    assert [row.n_attention for row in found.lengths] == [40, 0]
    assert found.first is not None and found.first.about == "effect"
    assert "The attention of no head changes up to 64, but the effect of enc0.self.h1 does" in found.words[2]


def test_scores_do_not_depend_on_how_many_weights_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = untrained(SORTEDNESS)
    examples = length_set(trained, "swaps", 6, 20)
    before = attention_scores(trained, examples)
    monkeypatch.setattr(behaviour, "CELLS", 1)
    after = attention_scores(trained, examples)
    for head, attention in before.items():
        for score, found in attention.items():
            assert after[head][score].value.mean == pytest.approx(found.value.mean, abs=1e-6)  # fp32 in other batches


@pytest.mark.parametrize("base", [TEXT, TEXT_ACROSS], ids=["decoder", "encoder-decoder"])
def test_models_that_write_an_answer_are_compared_too(base: dict[str, Any]) -> None:
    trained = untrained(base, model={"kept_heads": _some_heads(base)})
    done: list[tuple[int, int]] = []
    found = mechanism(trained, [16], n=20, progress=lambda *progress: done.append(progress))
    assert [row.head for row in found.heads] == [str(head) for head in heads_of(trained)]
    assert found.set_name == "sums" and found.reference == 12
    assert set(found.heads[0].scores) <= {*trained.task.PARTS, "entropy"}
    assert done[-1] == (20 * (12 + 16), 20 * (12 + 16)), "in tokens"
    json.dumps(found.to_json(), allow_nan=False)


def _some_heads(base: dict[str, Any]) -> list[str]:
    heads = [str(head) for head in heads_of(untrained(base))]
    return [heads[1], *heads[3:]]


@pytest.mark.parametrize("base", [TEXT, TEXT_ACROSS, SORTEDNESS], ids=["decoder", "encoder-decoder", "encoder"])
def test_heads_of_every_shape_can_be_repaired(base: dict[str, Any]) -> None:
    trained = untrained(base)
    plan = trained.task.length_plan()
    short, long = (length_set(trained, plan.sets[0], length, 12) for length in (plan.longest, 2 * plan.longest))
    heads = [head for site in trained.model.sites if not site.across for head in site.heads]
    for name, repair in repairs_for(trained, short).items():
        assert len(repaired(trained, long, heads, repair)) == 12
        if name == "reach":
            assert np.array_equal(repaired(trained, short, heads, repair), repaired(trained, short, [], repair))


def test_a_change_past_the_failing_length_is_not_blamed(even: Mechanism) -> None:
    assert even.first is not None
    later = replace(even, first=replace(even.first, length=64), fails_at=32)
    assert "That is beyond 32, so it is not why the model fails there." in words_of(later)


def test_a_repair_of_fewer_heads_is_told_where_it_is_as_good(even: Mechanism) -> None:
    assert even.check is not None
    best = next(row for row in even.check.repairs if row.repair == "profile")
    rises = replace(best.at, rise=10.0, rise_interval=(5.0, 15.0)), replace(best.at, rise=best.at.rise + 0.5)
    worse = replace(best, who="a worse one", heads=(), at=rises[0])
    better = replace(best, who="everyone", heads=("x", "y"), at=rises[1])
    assert words_of(with_repairs(even, worse, better, best))[-1].startswith(f"With {CULPRIT} attending by offset")
    assert best.equivalence is not None
    same, other = (replace(best.equivalence, equivalent=one) for one in (True, False))
    parts = [replace(row, claim="a part of why", equivalence=other) for row in (better, best)]
    said = words_of(with_repairs(even, worse, *parts))[-1]
    assert said.endswith("So where this head looks is a part of why it fails at 64.")
    better, best = (replace(row, equivalence=same) for row in parts)
    said = words_of(with_repairs(even, worse, better, best))[-1]
    assert ", but the sham helps significantly too. So where this head looks is a part of why" in said
    said = words_of(with_repairs(even, worse, replace(better, claim="why"), best))[-1]
    assert said.startswith("With everyone attending by offset"), "what shows more goes before fewer heads"


def test_a_frozen_change_knows_its_size() -> None:
    change = changed(0.8, 0.4)
    assert size_of(change) == pytest.approx(4)
    assert size_of(replace(change, about="effect")) == pytest.approx(1.6)


def test_the_share_of_failures_that_a_repair_puts_right_counts_failures_alone() -> None:
    before = np.array([True] * 6 + [False] * 4)
    after = np.array([True] * 4 + [False] * 2 + [True] * 3 + [False])
    found = rise_row(before, after)
    assert (found.failures, found.failures_repaired, found.share_repaired) == (4, 3, 0.75)
    assert found.rise == pytest.approx(10)  # three gained, two lost, of ten
    assert found.share_repaired_interval is not None
    low, high = found.share_repaired_interval
    assert low < 0.75 < high
    nothing_failed = rise_row(np.array([True, True]), np.array([True, False]))
    assert nothing_failed.share_repaired is None and nothing_failed.failures == 0


def test_other_heads_count_where_their_attention_changes_at_the_same_length() -> None:
    first, same, later, effect = (
        blank(Change, head=head, about=about, what="entropy", length=length)
        for head, about, length in (("a", "attention", 32), ("b", "attention", 32), ("c", "attention", 64),
                                    ("d", "effect", 32))
    )  # fmt: skip
    heads = tuple(blank(HeadAcrossLengths, head=name) for name in "abcd")
    found = replace(mechanism_of(64), first=first, heads=heads, changes=(first, same, later, effect))
    assert str(also(found, first)) == " So does 1 more of 4 heads at that length."
    assert also(replace(found, changes=(first, later, effect)), first) == ""
