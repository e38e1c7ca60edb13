"""Ablation against independent routes to the same numbers: other code, slow counts, greedy decoding."""

import json
from copy import deepcopy
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from torch import Tensor, nn

from headway.batches import make_batch
from headway.evaluation import decode, evaluate
from headway.head_analysis import verdicts
from headway.head_analysis.ablation import ablate, ablate_together, measure_drops, prunable
from headway.head_analysis.handles import intervene
from headway.head_analysis.head_runs import KINDS, TrainedRuns, make_replacements
from headway.head_analysis.partial_forward import PartialForward, run_tree
from headway.head_analysis.variants import Outcomes, heads_of, run_variants, zero
from headway.head_analysis.verdicts import Claims, claims_of, decide, judge, n_to_decide, overall, share_under
from headway.results.heads import Drop
from headway.results.schema import blank, write
from headway.statistics import drop_above, equivalence, paired_interval, ratio_interval, wilson_interval
from tests.head_analysis.numpy_transformer import NumpyTransformer
from tests.head_analysis.small import SHAPES, TEXT_ACROSS, half_trained
from tests.head_analysis.test_variants import CPU, one_at_a_time, projections, randomised

# Three routes to a zero ablation

CASES = list(product(["pre", "post"], ["gelu", "relu"], ["sinusoidal", "learned"]))


@pytest.mark.parametrize(("norm", "activation", "encoding"), CASES)
def test_a_zero_ablation_is_the_same_by_sweep_by_weights_and_in_numpy(norm, activation, encoding) -> None:
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "n_heads": 3, "d_head": 5}
    trained = randomised(
        TEXT_ACROSS, dtype=torch.float64, norm=norm, activation=activation, encoding={"name": encoding}, **sizes
    )
    model = trained.model
    examples = trained.examples("test").take(slice(0, 4))
    inputs = make_batch(trained.task, model, examples, CPU).inputs
    lengths = (examples.source != trained.task.vocabulary.pad).sum(1)
    assert len(set(lengths)) > 1  # there is padding
    numbers = NumpyTransformer(
        {name: tensor.numpy() for name, tensor in model.state_dict().items()},
        n_heads=3,
        pre=norm == "pre",
        gelu=activation == "gelu",
        learned=encoding == "learned",
    )
    arrays = inputs.source.numpy(), lengths, inputs.prefix.numpy()
    swept: dict[int, Tensor] = {}
    forward = PartialForward(model, inputs)
    run_tree(
        forward, one_at_a_time(18), [zero(forward, slice(None))], lambda alike, found: swept.update({alike[0]: found})
    )
    whole = numbers.logits(*arrays)
    close = {"rtol": 1e-12, "atol": 1e-12}  # fp64 sums of a few dozen terms, six layers deep
    np.testing.assert_allclose(swept[0].numpy(), whole, **close)
    heads = [(site, head) for site in projections(model) for head in range(3)]
    for variant, (site, head) in enumerate(heads, start=1):

        def switch_off(brought: Tensor, head: int = head) -> Tensor:
            return brought * (torch.arange(3) != head)[:, None]

        with intervene(model, {site: switch_off}), torch.inference_mode():
            by_handle = model(inputs)
        changed = deepcopy(model)
        with torch.inference_mode():
            projections(changed)[site].weight[:, head * 5 : head * 5 + 5] = 0
            by_weights = changed(inputs)
        stack, layer, looks = site.split(".")
        left_out = (stack, int(layer), "cross" if looks == "cross" else "own", head)
        in_numpy = replace(numbers, without=left_out).logits(*arrays)
        assert np.abs(in_numpy - whole).max() > 1e-3  # the head does something
        for found in (swept[variant], by_handle, by_weights):
            np.testing.assert_allclose(found.numpy(), in_numpy, **close)


# Drops


def outcomes_of(right: np.ndarray, random: np.random.Generator) -> Outcomes:
    """Outcomes with three answer tokens, the last of which some answers lack."""
    variants, n = right.shape
    counted = np.ones((n, 3), dtype=bool)
    counted[::3, 2] = False
    token_right = random.random((variants, n, 3)) < 0.7
    token_right |= right[:, :, None] | ~counted
    first = token_right[:, :, 0]
    first &= right | ~token_right.all(2)
    loss = random.exponential(1.0, (variants, n)).astype(np.float32)
    return Outcomes(right, token_right, loss, counted)


def slow_holm(values: list[float]) -> list[float]:
    """Each p-value times the number of those not smaller than it in the order, never below an earlier one."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, values[index] * (len(values) - rank)))
        found[index] = highest
    return found


def slow_claims(lost: int, gained: int, n: int) -> list[float]:
    """Above 10 points, above 1, below -1, within 1."""
    above = {limit: float(drop_above(lost, gained, n, limit)) for limit in (-0.01, 0.01, 0.1)}
    below = {limit: float(drop_above(gained, lost, n, -limit)) for limit in (-0.01, 0.01)}
    return [
        max(above[0.1], above[0.01]),
        above[0.01],
        max(below[-0.01], below[0.01]),
        float(equivalence(lost, gained, n, 0.01)),
    ]


def slow_correction(claims: list[list[float]]) -> list[list[float]]:
    """One claim after the other, the smallest first, times how many can be false of those that are left."""
    found = [[1.0] * 4 for _ in claims]
    left, highest = 2 * len(claims), 0.0
    for p, index, claim in sorted((p, i, c) for i, row in enumerate(claims) for c, p in enumerate(row)):
        highest = max(highest, min(1.0, p * max(left, 1)))
        found[index][claim] = highest
        left -= claim in (0, 2)  # above 10 or below -1: only one tail is left in which something is false
    return found


def slow_verdict(corrected: list[float]) -> str:
    names = ("critical", "important", "harmful", "redundant")
    return next((name for name, p in zip(names, corrected, strict=True) if p < 0.05), "undecided")


def test_every_number_of_a_drop_is_what_a_slow_count_finds() -> None:
    random = np.random.default_rng(3)
    n = 2_000
    changes = [(0, 0), (400, 5), (90, 10), (10, 120), (26, 4), (3, 2), (60, 60)]
    right = np.tile(random.random(n) < 0.6, (len(changes) + 1, 1))
    for variant, (lost, gained) in enumerate(changes, start=1):
        right[variant, random.permutation(np.flatnonzero(right[0]))[:lost]] = False
        right[variant, random.permutation(np.flatnonzero(~right[0]))[:gained]] = True
    outcomes = outcomes_of(right, random)
    drops = measure_drops(outcomes, ["a", "b", "c"])
    same = [float(equivalence(lost, gained, n, 0.01)) for lost, gained in changes]
    differ = [binomtest(min(pair), sum(pair)).pvalue if sum(pair) else 1.0 for pair in changes]
    adjusted = slow_holm(differ)
    corrected = slow_correction([slow_claims(*pair, n) for pair in changes])
    for index, (drop, (lost, gained)) in enumerate(zip(drops, changes, strict=True)):
        assert (drop.n, drop.lost, drop.gained) == (n, lost, gained)
        assert drop.drop == pytest.approx(100 * (lost - gained) / n)
        assert drop.drop == pytest.approx(100 * (right[0].mean() - right[index + 1].mean()))
        for interval, confidence in ((drop.interval, 0.95), (drop.interval_90, 0.90)):
            assert interval == pytest.approx([100 * float(end) for end in paired_interval(lost, gained, n, confidence)])
        assert drop.p == pytest.approx(differ[index])
        assert drop.p_equivalence == pytest.approx(same[index])
        assert drop.p_holm == pytest.approx(adjusted[index])
        claims = [drop.p_critical_holm, drop.p_important_holm, drop.p_harmful_holm, drop.p_equivalence_holm]
        assert claims == pytest.approx(corrected[index])
        assert drop.verdict == slow_verdict(claims)
        tokens, there = outcomes.token_right[index + 1], outcomes.counted
        assert drop.accuracy == pytest.approx(right[index + 1].mean())
        assert drop.token_accuracy == pytest.approx(tokens[there].mean())
        assert [row.token for row in drop.by_token] == list("abc")
        by_token = [tokens[there[:, place], place].mean() for place in range(3)]
        assert [row.accuracy for row in drop.by_token] == pytest.approx(by_token)
        losses = [float(outcomes.loss[row].sum()) / there.sum() for row in (0, index + 1)]
        assert drop.loss == pytest.approx(losses[1], rel=1e-5)
        assert drop.loss_change == pytest.approx(100 * (losses[1] / losses[0] - 1), abs=1e-3)
        around = ratio_interval(outcomes.loss[0], outcomes.loss[index + 1])
        assert around is not None
        assert drop.loss_change_interval == pytest.approx([100 * (end - 1) for end in around])
        assert around[0] <= 1 + drop.loss_change / 100 + 1e-6 <= around[1] + 2e-6
        needed = n_to_decide(lost, gained, n, 2 * len(changes)) if drop.verdict == "undecided" else None
        assert drop.n_to_decide == needed
    found = [drop.verdict for drop in drops]
    assert found == ["redundant", "critical", "important", "harmful", "undecided", "redundant", "undecided"]
    alone = n_to_decide(*changes[-1], n)
    assert alone is not None
    assert drops[-1].n_to_decide > alone  # a family of tests needs more examples than one test


def test_claims_of_one_family_are_corrected_together() -> None:
    for others, verdict in ((0, "important"), (9, "important"), (95, "undecided")):
        lost = np.array([36] + [20] * others)
        found = judge(lost, np.array([0] + [0] * others), 2_000)
        above = float(binom.sf(35, 2_000, 0.01))
        # Two claims of each variant can be false at once, and no other p-value is smaller.
        assert found.p_important_holm[0] == pytest.approx(2 * (others + 1) * above)
        assert found.verdict[0] == verdict
        assert found.low[0] > 1, "the interval is of one drop, and not corrected"
        assert found.p_holm[0] < 0.05, "that there is a difference is never in doubt"


def test_a_verdict_is_the_strongest_claim_that_survives() -> None:
    claims = {"critical": 1.0, "important": 1.0, "harmful": 1.0, "redundant": 1.0}

    def verdict(**changed: float) -> str:
        return str(decide(Claims(**{name: np.array([p]) for name, p in {**claims, **changed}.items()}))[0])

    assert verdict() == "undecided"
    assert verdict(critical=0.049, important=0.001) == "critical"
    assert verdict(critical=0.05, important=0.049) == "important"
    assert verdict(important=0.05) == verdict(harmful=0.05) == verdict(redundant=0.05) == "undecided"
    assert verdict(harmful=0.049) == "harmful"
    assert verdict(redundant=0.049) == "redundant"


@settings(max_examples=60, deadline=None)
@given(st.integers(20, 3_000), st.floats(0, 1), st.floats(0, 1))
def test_no_drop_has_two_verdicts_that_exclude_each_other(n: int, share: float, lost_of_it: float) -> None:
    lost = round(lost_of_it * round(share**3 * n))
    found = claims_of(np.array([lost]), np.array([round(share**3 * n) - lost]), n)
    made = [p[0] < 0.05 for p in (found.important, found.harmful, found.redundant)]
    assert sum(made) <= 1
    assert found.critical[0] >= found.important[0]


VERDICTS = ("critical", "important", "redundant", "harmful", "undecided")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["redundant"] * 4, "redundant"),
        (["critical"], "critical"),
        (["critical", "important"], "important"),
        (["critical", "undecided"], "important"),
        (["important", "undecided"], "important"),
        (["critical", "important", "undecided"], "important"),
        (["redundant", "redundant", "undecided"], "undecided"),
        (["harmful", "undecided"], "harmful"),
        (["redundant", "important"], "depends on the ablation"),
        (["redundant", "critical", "undecided"], "depends on the ablation"),
        (["redundant", "harmful"], "depends on the ablation"),
        (["harmful", "important"], "depends on the ablation"),
    ],
)
def test_the_overall_verdict_is_what_the_kinds_support(verdicts: list[str], expected: str) -> None:
    assert overall(verdicts) == overall(verdicts[::-1]) == expected


@given(st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_overall_verdict_conflicts_only_where_kinds_contradict_each_other(verdicts: list[str], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(verdicts, len(verdicts))
    found = overall(verdicts)
    assert found == overall(shuffled) == overall([*verdicts, *shuffled])
    needed, free, harm = (
        ("important" in verdicts or "critical" in verdicts),
        "redundant" in verdicts,
        "harmful" in verdicts,
    )
    assert (found == "depends on the ablation") == (needed + free + harm > 1)
    if found in ("redundant", "critical"):
        assert set(verdicts) == {found}, "these must be shown by every kind"
    if found == "important":
        assert needed
    if found == "harmful":
        assert harm


@given(st.integers(1, 3_000), st.floats(0, 1), st.floats(0, 1), st.integers(1, 200))
def test_the_number_that_would_decide_does_decide(n: int, share: float, lost_of_it: float, family: int) -> None:
    changed = round(share**3 * n)
    lost = round(lost_of_it * changed)
    gained = changed - lost
    needed = n_to_decide(lost, gained, n, 2 * family)
    if needed is None:
        return
    assert needed > n
    more = round(lost * needed / n)
    counts = more, min(round(gained * needed / n), needed - more)
    # Whatever the others of the family are: here they are as undecided as can be.
    others = [needed // 4] * (family - 1)
    found = judge(np.array([counts[0], *others]), np.array([counts[1], *others]), needed)
    assert found.verdict[0] != "undecided"


@pytest.mark.parametrize(
    ("lost", "gained", "n", "least", "most"),
    [
        (0, 0, 100, 367, 441),  # 0.99 ** n < 0.05 / 2 at n > 367
        (40, 0, 2_000, None, None),  # exactly 2 points: decided at once
        (30, 10, 2_000, None, None),  # exactly 1 point: never
        (20, 0, 2_000, None, None),
        (32, 16, 2_000, 23_000, 28_000),  # 0.8 points: 1.96 √(0.024 / n) < 0.002 at n > 23,050
    ],
)
def test_how_many_would_decide_in_plain_cases(lost, gained, n, least, most) -> None:
    found = n_to_decide(lost, gained, n)
    if (lost - gained) * 100 == n:
        assert found is None
    elif least is None:
        assert found == int(n * 1.2) + 1
    else:
        assert found is not None
        assert least <= found <= most


def test_more_than_a_reasonable_number_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert n_to_decide(18, 0, 2_000) is not None
    monkeypatch.setattr(verdicts, "LARGEST_N", 3_000)
    assert n_to_decide(18, 0, 2_000) is None
    assert n_to_decide(0, 0, 3_000) is None


def test_rates_that_add_up_to_everything_can_be_scaled() -> None:
    """Two halves that are both rounded up would be more examples than there are."""
    for n in range(1, 13):
        for lost in range(n + 1):
            found = n_to_decide(lost, n - lost, n)
            assert found is None or found > n


# A whole ablation


@pytest.mark.parametrize("task", ["addition", "sortedness"])
def test_the_baseline_is_what_evaluation_finds(task: str) -> None:
    trained = half_trained(task)
    examples = trained.examples("test")
    found, expected = ablate(TrainedRuns(trained, examples), kinds=["zero"]).baseline, evaluate(trained, "test")
    assert 0 < found.wrong < found.n
    assert (found.n, found.wrong) == (expected.n, expected.wrong)
    assert found.accuracy == expected.accuracy
    assert found.interval == wilson_interval(expected.n - expected.wrong, expected.n)
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)  # fp32 sums in another order
    batch = make_batch(trained.task, trained.model, examples, CPU)
    with torch.inference_mode():
        hits = trained.model(batch.inputs).argmax(-1) == batch.target
    assert found.token_accuracy == pytest.approx(float(hits.double().mean()))
    by_token = hits.double().reshape(len(examples), -1).mean(0).tolist()
    assert [row.accuracy for row in found.by_token] == pytest.approx(by_token)
    names = ["class"] if task == "sortedness" else trained.task.answer_names(4)
    assert [row.token for row in found.by_token] == names


def test_accuracies_are_those_of_real_decoding_with_a_hook() -> None:
    trained = half_trained("addition")
    model, examples = trained.model, trained.examples("test")
    batch = make_batch(trained.task, model, examples, CPU)
    found = ablate(TrainedRuns(trained, examples), kinds=["zero", "mean"])
    d_head = model.config.d_head
    averages: dict[str, Tensor] = {}
    for site, module in projections(model).items():

        def note(_: nn.Module, given: tuple[Tensor], site: str = site) -> None:
            averages[site] = given[0].double().mean((0, 1))

        handle = module.register_forward_pre_hook(note)
        with torch.inference_mode():
            model(batch.inputs)
        handle.remove()
    exact = set()
    for site, module in projections(model).items():
        for head, kind in product(range(3), ("zero", "mean")):

            def hook(_, given, columns=slice(head * d_head, (head + 1) * d_head), site=site, kind=kind):  # type: ignore[no-untyped-def]
                changed = given[0].clone()
                changed[..., columns] = 0 if kind == "zero" else averages[site][columns].float()
                return (changed,)

            handle = module.register_forward_pre_hook(hook)
            written = decode(model, trained.task, batch)
            handle.remove()
            width = batch.target.shape[1]
            written = F.pad(written, (0, width - written.shape[1]), value=trained.task.vocabulary.pad)
            right = (written == batch.target).all(1)
            stack, layer, looks = site.split(".")
            drop = found.drops[kind][f"{stack[:3]}{layer}.{looks}.h{head}"]
            assert drop.accuracy == pytest.approx(float(right.double().mean()))
            exact.add(drop.accuracy)
    assert len(exact) > 4  # the heads differ in what they are worth


def test_an_ablation_names_every_head_in_every_kind() -> None:
    trained = randomised(SHAPES["text, encoder-decoder"])
    examples = trained.examples("test")
    found = ablate(TrainedRuns(trained, examples))
    heads = [f"{site}.h{head}" for site in ("enc0.self", "dec0.self", "dec0.cross") for head in range(3)]
    assert found.heads == heads == list(found.verdicts)
    assert list(found.drops) == list(KINDS)
    assert all(list(drops) == heads for drops in found.drops.values())
    assert found.family == 2 * 4 * 9
    for head, verdict in found.verdicts.items():
        assert verdict == overall([found.drops[kind][head].verdict for kind in KINDS])
    outcomes = run_variants(trained, examples, one_at_a_time(9, 4), make_replacements(trained, examples)[0])
    for kind, row in zip(KINDS, outcomes.accuracy[1:].reshape(4, 9), strict=True):
        assert [found.drops[kind][head].accuracy for head in heads] == row.tolist()


def test_a_place_that_no_answer_reaches_is_left_out() -> None:
    """A few examples of unequal lengths may all be shorter than the widest of the split."""
    trained = randomised(SHAPES["text, encoder-decoder"])
    examples = trained.examples("test")
    lengths = (examples.target != trained.task.vocabulary.pad).sum(1)
    assert lengths.max() == examples.target.shape[1]
    found = ablate(TrainedRuns(trained, examples.take(np.flatnonzero(lengths < lengths.max()))))
    assert len(found.baseline.by_token) == lengths.max() - 1
    json.dumps(write(found), allow_nan=False)


def test_the_share_of_heads_that_can_go_is_counted_in_three_ways() -> None:
    trained = half_trained("addition")
    found = ablate(TrainedRuns(trained, trained.examples("test")))
    shares = found.prunable()
    assert list(shares) == list(KINDS)
    for kind, row in shares.items():
        drops = list(found.drops[kind].values())
        assert row.under_1_point == sum(drop.drop < 1 for drop in drops) / 9
        assert row.under_5_points == sum(drop.drop < 5 for drop in drops) / 9
        for share, interval in (
            (row.under_1_point, row.under_1_point_interval),
            (row.under_5_points, row.under_5_points_interval),
        ):
            assert interval is not None
            assert 0 <= interval[0] <= share <= interval[1] <= 1
        assert row.under_1_percent_of_loss == sum(drop.loss < 1.01 * found.baseline.loss for drop in drops) / 9


def test_the_share_of_heads_under_a_limit_has_an_interval() -> None:
    """Two hundred models of ten heads whose true drops are known: the true share is inside as often as it says."""
    random, n = np.random.default_rng(4), 2_000
    true = np.array([0.0, 0.0, 0.002, 0.009, 0.009, 0.011, 0.011, 0.02, 0.05, 0.5])
    inside, widths = [], []
    for _ in range(200):
        low, high = share_under(random.binomial(n, true), np.zeros(10), n, 1.0)
        inside.append(low <= (true < 0.01).mean() <= high)
        widths.append(high - low)
    assert np.mean(inside) >= 0.95 - 0.03
    assert 0.3 < np.mean(widths) < 0.6, "four of ten are too near to the limit to be told"
    assert share_under(np.array([0, 0, 900]), np.zeros(3), n, 1.0) == pytest.approx((2 / 3, 2 / 3))
    assert share_under(np.zeros(0), np.zeros(0), n, 1.0) == (0.0, 0.0)


def test_heads_that_are_told_alone_are_not_all_told_among_three() -> None:
    """12 of 2,000 lost is under a point with P(12 or fewer) = 3.8 %, 29 is above with P(29 or more) = 3.4 %."""
    for lost, alone in ((12, (1.0, 1.0)), (29, (0.0, 0.0))):
        assert share_under(np.array([lost]), np.zeros(1), 2_000, 1.0) == alone
        assert share_under(np.array([lost] * 3), np.zeros(3), 2_000, 1.0) == (0.0, 1.0)


def test_sets_of_heads_are_taken_away_as_a_whole() -> None:
    trained = half_trained("addition")
    examples, heads = trained.examples("test"), heads_of(trained)
    nothing, one, two, everything = ablate_together(
        TrainedRuns(trained, examples), [[], heads[4:5], [heads[7], heads[0]], heads], kind="zero"
    )
    assert (nothing.lost, nothing.gained, nothing.p) == (0, 0, 1.0)
    single = ablate(TrainedRuns(trained, examples), kinds=["zero"]).drops["zero"][str(heads[4])]
    assert (one.lost, one.gained, one.loss) == (single.lost, single.gained, single.loss)
    changed = replace(trained, model=deepcopy(trained.model))
    for drop, chosen in ((two, [heads[7], heads[0]]), (everything, heads)):
        with torch.no_grad():
            for head in chosen:
                width = trained.model.config.d_head
                projections(changed.model)[head.site].weight[:, head.index * width : (head.index + 1) * width] = 0
        expected = evaluate(changed, "test", decoded=0)
        assert drop.accuracy == expected.accuracy
        assert drop.loss == pytest.approx(expected.loss, rel=1e-5)


def test_a_model_without_heads_has_a_baseline_and_nothing_else() -> None:
    trained = randomised(SHAPES["sortedness"], kept_heads=[])
    found = ablate(TrainedRuns(trained, trained.examples("test")))
    assert (found.heads, found.verdicts, found.family) == ([], {}, 0)
    assert found.baseline.accuracy == evaluate(trained, "test").accuracy
    assert found.prunable()["zero"].under_1_point == 0.0


def test_a_head_that_costs_exactly_a_point_is_not_under_one() -> None:
    drops = [blank(Drop, n=100, lost=lost, drop=float(lost)) for lost in (1, 0, 5)]
    assert prunable(drops).under_1_point == 1 / 3
    assert prunable(drops).under_5_points == 2 / 3
