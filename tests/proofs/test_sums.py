"""Proofs of sums: contexts, tables and the check, against brute force and with planted faults."""

import dataclasses
import math
import shutil
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from headway.batches import make_model
from headway.config import RunConfig, build
from headway.errors import InputError
from headway.evaluation import Trained, load
from headway.proofs import prove as proving
from headway.proofs import sum_rounding, sums
from headway.proofs.claims import other_subject
from headway.proofs.prove import check, prove
from headway.proofs.sum_check import _objections, run
from headway.proofs.sum_contexts import Contexts, Reach, contexts_of, groups, places
from headway.proofs.sum_covering import Sums, covering
from headway.proofs.sum_cutouts import CutOuts
from headway.proofs.sum_tables import Tables
from headway.proofs.sums import Margins, _judged, margin_at, margins_of, reach_of, sums_of, teacher_forced
from headway.results.proof import Counterexample, Proof, Rounding
from headway.results.schema import blank
from headway.runs import RunDirectory
from headway.storage import write_json
from headway.tasks import make_task
from tests.head_analysis.small import SHAPES, untrained

CERTIFIED = Path(__file__).parents[2] / "docs/results/proofs/local-addition-seed0"
LOCAL = Reach(encoder=0, decoder=0, cross=1, clip=2)


ONE_GONE = ("enc0.self.h1", "dec0.self.h0", "dec0.self.h1", "dec0.cross.h1")
"""Heads of a pruned model."""
REACHES = [
    Reach(encoder=0, decoder=0, cross=0, clip=1),
    Reach(encoder=0, decoder=0, cross=1, clip=1),
    Reach(encoder=1, decoder=0, cross=0, clip=1),
    Reach(encoder=0, decoder=1, cross=0, clip=1),
    Reach(encoder=1, decoder=0, cross=0, clip=3),
    LOCAL,
]


@pytest.fixture(scope="module")
def certified() -> Trained:
    return load(CERTIFIED, device="cpu")


def digits(number: int) -> list[int]:
    return [int(digit) for digit in reversed(str(number))]


def listed(reach: Reach) -> Iterator[tuple[object, ...]]:
    for place in places(reach):
        for group in groups(place):
            for contexts in group.contexts(torch.device("cpu"), 1 << 14):
                for states, carry in zip(contexts.states.tolist(), contexts.carry.tolist(), strict=True):
                    yield (place.column, place.carry, tuple(states), carry, group.written)


def test_the_list_has_every_context_of_real_sums_and_no_other() -> None:
    every = set(listed(LOCAL))
    assert len(every) == 619_391 == sum(group.size for place in places(LOCAL) for group in groups(place))
    met = set()
    for a, b in product(range(0, 1_000, 7), range(0, 1_000, 3)):
        for context, written in contexts_of(LOCAL, digits(a), digits(b)):
            met.add((context.place.column, context.place.carry, context.states, context.carry, written[-1:]))
    assert len(met) > 20_000
    assert met <= every


@pytest.mark.parametrize("reach", [*REACHES, Reach(encoder=0, decoder=2, cross=0, clip=2)], ids=str)
def test_contexts_are_counted_without_listing_them(reach: Reach) -> None:
    for place in places(reach):
        assert place.size == sum(group.size for group in groups(place))


def test_a_proof_that_is_too_large_is_refused_at_once(certified: Trained) -> None:
    config = dataclasses.replace(certified.config.model, cross_window=4)
    wide = dataclasses.replace(certified, config=dataclasses.replace(certified.config, model=config))
    with pytest.raises(InputError, match=r"17,195,589,351,469,696 contexts of 9 columns are too many"):
        prove(wide)


def test_a_context_is_met_by_the_numbers_that_it_is_made_into() -> None:
    random = np.random.default_rng(0)
    for place in places(LOCAL):
        for group in groups(place)[::3]:
            for contexts in group.contexts(torch.device("cpu"), 1 << 12):
                for index in random.integers(len(contexts.carry), size=3):
                    one = contexts.one(int(index))
                    found = [context for context, _ in contexts_of(LOCAL, *one.numbers())]
                    assert one in found


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_the_checks_own_list_is_as_long(certified: Trained, reach: Reach) -> None:
    """For every reach: also where the last column that counts sees the units."""
    cut_outs = CutOuts(certified, reach)
    found: dict[str, int] = {}
    for some in covering(reach, certified.device):
        assert some.valid().all()
        found[some.kind] = found.get(some.kind, 0) + len(cut_outs._answers(some)[2])
    expected: dict[str, int] = {}
    for place in places(reach):
        size = sum(group.size for group in groups(place))
        expected[place.describe()] = expected.get(place.describe(), 0) + size
    assert found == expected


def compare_cut_outs(trained: Trained) -> int:
    """Compare margins of cut-outs and of whole sums, up to single precision; returns how many."""
    reach, random = reach_of(trained)[1], torch.Generator().manual_seed(0)
    cut_outs, compared = CutOuts(trained, reach), 0
    for number, some in enumerate(islice(covering(reach, trained.device), 40)):
        if number < 3 or number % 13 == 0:
            few = some.take(torch.randperm(len(some.first), generator=random)[:60])
            torch.testing.assert_close(cut_outs.margins(few), run(trained, few), rtol=0, atol=1e-4)
            compared += len(few.first)
    return compared


def test_a_cut_out_has_the_margin_of_the_whole_sum(certified: Trained, tmp_path: Path) -> None:
    assert compare_cut_outs(certified) > 150
    assert compare_cut_outs(pruned(ONE_GONE, tmp_path, decoder_window=1)) > 150


@pytest.mark.long
def test_a_cut_out_has_the_margin_of_the_whole_sum_where_the_encoder_sees_neighbours(tmp_path: Path) -> None:
    assert compare_cut_outs(pruned(ONE_GONE, tmp_path, encoder_window=1, decoder_window=1)) > 150


def test_margins_of_the_tables_are_those_of_the_model_on_every_sum_of_small_numbers(certified: Trained) -> None:
    tables = Tables(certified.model, reach_of(certified)[1], bos=certified.task.vocabulary.bos or 0)
    pairs = [(digits(a), digits(b)) for a, b in ((0, 0), (9, 1), (5, 95), (999, 1), (120, 7), (18, 82), (4, 3333))]
    logits, target = teacher_forced(certified, sums_of(certified, pairs))
    for row, (a, b) in enumerate(pairs):
        for at, (context, written) in enumerate(contexts_of(tables.reach, a, b)):
            own = float(margins_of(logits[row, at][None].double(), target[row, at][None]))
            assert margin_at(tables, context, written, target[row, at]) == pytest.approx(own, abs=1e-3)


def test_a_margin_is_the_lead_over_the_best_other_token() -> None:
    logits = torch.tensor([[3.0, 5.0, 1.0], [3.0, 5.0, 1.0], [-4.0, -4.0, 9.0]])
    assert margins_of(logits, torch.tensor([0, 1, 2])).tolist() == [-2, 2, 13]


def test_the_check_runs_every_sum_that_has_a_token_at_its_column(certified: Trained) -> None:
    """7 and 1 have no token at the third column; 10 and 50 end there, and 111 has its last digit."""
    first = torch.tensor([[3, -1], [9, -1], [5, 4], [0, -1], [2, 1]])
    second = torch.tensor([[4, -1], [1, -1], [5, -1], [1, -1], [9, 9]])
    margins = run(certified, Sums(first, second, column=3))
    expected = []
    for a, b in zip(first.numpy(), second.numpy(), strict=True):
        logits, target = teacher_forced(certified, sums_of(certified, [(a[a >= 0].tolist(), b[b >= 0].tolist())]))
        if target.shape[1] >= 3:
            expected.append(float(margins_of(logits[0, 2][None], target[0, 2][None])))
    assert len(expected) == 3
    assert margins.tolist() == pytest.approx(expected, abs=1e-4)  # single precision, in another batch


def test_a_margin_within_the_rounding_allowance_proves_nothing_however_little_was_measured(
    certified: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "MEASURED", 4)
    margins = Margins(certified, *reach_of(certified))
    margins.smallest, margins.low = 1.0, [torch.tensor([1.0, 3.0])]
    for allowance, answer, left in ((0.5, "proved", 0), (1.5, "undecided", 1), (3.5, "undecided", 2)):
        margins.allowance = allowance
        claimed = blank(Proof, answer="undecided", contexts=2)
        found = _judged(certified, margins, claimed, [], lambda done: None)
        assert found.rounding is not None and found.rounding.measured < 0.5
        assert (found.answer, found.open_contexts or 0) == (answer, left)


def test_a_model_whose_margins_are_others_than_those_of_the_proof_is_not_proved(
    certified: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    margins = Margins(certified, *reach_of(certified))
    margins.smallest, margins.allowance = 12.0, 0.7
    for measured, answer, left in ((0.69, "proved", 0), (0.71, "undecided", 5), (math.nan, "undecided", 5)):
        monkeypatch.setattr(sums, "measured_difference", lambda *_, measured=measured: (measured, 4))
        found = _judged(certified, margins, blank(Proof, answer="undecided", contexts=5), [], lambda done: None)
        assert (found.answer, found.open_contexts or 0) == (answer, left)


@pytest.mark.parametrize(("allowance", "answer"), [(6.0, "proved"), (16.5, "undecided"), (19.0, "undecided")])
def test_an_allowance_above_the_margins_that_are_kept_is_compared_with_all(
    certified: Trained, allowance: float, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large logits have large allowances, and margins that are larger still. The units have 15.4 to 20.3."""
    monkeypatch.setattr(sums, "MEASURED", 4)
    margins, every = Margins(certified, *reach_of(certified)), groups(places(LOCAL)[0])
    margins.add(every[0], lambda done: None)
    margins.allowance = allowance
    found = _judged(certified, margins, blank(Proof, answer="undecided"), every, lambda done: None)
    computed = torch.cat([margin for _, margin in margins._of(every[0])])
    assert found.answer == answer
    assert found.open_contexts == int((computed <= allowance).sum())
    assert (found.open_contexts > 0) is (answer == "undecided")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The certified model with one hidden unit that fires in one context alone and writes a wrong digit there."""
    trained = load(CERTIFIED, device="cpu")
    _, reach = reach_of(trained)
    tables = Tables(trained.model, reach, bos=trained.task.vocabulary.bos or 0)
    context, written = contexts_of(reach, [7, 5, 1], [8, 4, 2])[1]  # 157 + 248: 5 + 4 and a carry
    with torch.inference_mode():
        states, carry = torch.tensor([context.states]), torch.tensor([context.carry])
        passed = tables.writer(context.place, written).passed(
            dataclasses.replace(
                next(groups(context.place)[0].contexts(torch.device("cpu"), 1)), states=states, carry=carry
            )
        )
        read = passed.branch.read.value[0].float()
        block = trained.model.decoder[0].feed_forward  # type: ignore[union-attr]
        block.expand.weight[0] = read
        block.expand.bias[0] = -float(read @ read) * 0.999
        wrong = trained.model.readout.weight[3] - trained.model.readout.weight[0]
        block.contract.weight[:, 0] = wrong * 1_000
    return trained


def test_a_wrong_digit_behind_a_carry_is_found(broken: Trained) -> None:
    found = prove(broken)
    assert found.answer == "counterexample"
    assert found.counterexamples[0].margin <= 0
    for one in found.counterexamples:
        a, b = (int(number) for number in one.input.replace(" ", "").removesuffix("=").split("+"))
        assert one.expected == str(a + b)[::-1] != one.answered
        assert any(
            context.states[context.place.n_below] == contexts_of(LOCAL, [5], [4])[0][0].states[0] and context.carry == 1
            for context, _ in contexts_of(LOCAL, digits(a), digits(b))
        ), "5 + 4 with a carry coming in"


@pytest.mark.long
def test_the_committed_certificate_is_accepted() -> None:
    found = check(CERTIFIED / "analysis/proof.json")
    assert found.holds, found.reasons
    assert found.contexts == 619_391
    assert found.margin == pytest.approx(12.0266, abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"contexts": 619_390}, "it counts 619,390 contexts"),
        ({"contexts_by_kind": {"all": 619_391}}, "contexts of the kind 'column 1'"),
        ({"rounding": {"allowance": 1.0, "measured": 2.0, "inputs": 1}}, "which its rounding allowance excludes"),
        ({"rounding": {"allowance": 1.0, "measured": -5.0, "inputs": 1}}, "which its rounding allowance excludes"),
        ({"rounding": None}, "no allowance for rounding"),
        ({"margin": 12.1}, "it claims a smallest margin of 12.1"),
        ({"rounding": {"allowance": 13.0, "measured": 0.0, "inputs": 1}}, "not above its rounding allowance"),
    ],
)
def test_a_stronger_claim_is_rejected(changes: dict[str, object], reason: str) -> None:
    from headway.proofs.sum_check import _objections
    from headway.results.schema import read
    from headway.storage import read_document

    document = read_document(CERTIFIED / "analysis/proof.json")
    assert document is not None
    document.pop("made_from")
    claimed = read(Proof, {**document, **changes}, "proof.json")
    right = read(Proof, document, "proof.json")
    assert any(reason in one for one in _objections(claimed, right.contexts_by_kind, 12.0266))
    assert list(_objections(right, right.contexts_by_kind, 12.0266)) == []


@pytest.mark.parametrize(("margin", "smallest", "accepted"), [
    (2e-3, 2e-3, True), (2e-3, 1.95e-3, True), (9e-3, 2e-3, False), (2e-3, math.nan, False), (math.nan, 2e-3, False),
    (1.05e-3, 0.95e-3, False),
])  # fmt: skip
def test_a_claim_about_small_logits_is_held_to_its_allowance(margin: float, smallest: float, accepted: bool) -> None:
    rounding = Rounding(allowance=1e-3, measured=0.0, inputs=1, strength="rigorous")
    claimed = blank(Proof, answer="proved", contexts=2, contexts_by_kind={"column 1": 2}, rounding=rounding)
    claimed = dataclasses.replace(claimed, margin=margin)
    assert (not list(_objections(claimed, {"column 1": 2}, smallest))) == accepted


@pytest.mark.parametrize(
    "kept",
    [
        ONE_GONE,
        ("dec0.cross.h0", "dec0.cross.h1"),
    ],
)
def test_margins_of_a_pruned_model_are_those_of_the_model(kept: tuple[str, ...], tmp_path: Path) -> None:
    trained = pruned(kept, tmp_path)
    tables = Tables(trained.model, reach_of(trained)[1], bos=trained.task.vocabulary.bos or 0)
    pairs = [(digits(a), digits(b)) for a, b in ((0, 0), (9, 1), (5, 95), (120, 7), (4, 3333))]
    logits, target = teacher_forced(trained, sums_of(trained, pairs))
    for row, (a, b) in enumerate(pairs):
        for at, context in enumerate(contexts_of(tables.reach, a, b)):
            own = margins_of(logits[row, at][None].double(), target[row, at][None])
            assert margin_at(tables, *context, target[row, at]) == pytest.approx(float(own), abs=1e-5)


@pytest.mark.parametrize("factor", [8.0, math.inf, math.nan])
def test_numbers_beyond_float64_are_no_proof_and_can_be_written(factor: float, tmp_path: Path) -> None:
    """Scores of weights times 8 are far above what exponentials can hold; the model itself is wrong there."""
    trained = load(CERTIFIED, device="cpu")
    with torch.no_grad():
        for weights in trained.model.parameters():
            weights.mul_(factor)
    found = prove(trained)
    assert found.answer == "counterexample"
    write_json(tmp_path / "proof.json", found.to_json())


def test_without_heads_of_cross_attention_nothing_is_proved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model\.kept_heads: a proof of sums needs at least one head of cross"):
        prove(pruned(("enc0.self.h1",), tmp_path))


def pruned(kept: tuple[str, ...], place: Path, **windows: int) -> Trained:
    """A model with random weights and biases that differ from head to head."""
    model = {
        **{"shape": "encoder-decoder", "encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "n_heads": 2},
        **{"d_ff": 12, "activation": "relu", "encoder_window": 0, "decoder_window": 0, "cross_window": 1, **windows},
        "encoding": {"name": "clipped", "clip": 1, "positions": "coupled"},
        "kept_heads": kept,
    }
    settings = {"task": {"name": "addition-text", "order": "least-significant-first"}, "model": model}
    config = build(RunConfig, {**settings, "train": {"steps": 1}}, "")
    task = make_task(config.task)
    torch.manual_seed(0)
    built = make_model(task, config.model).eval()
    with torch.no_grad():
        for weights in built.encoding.parameters():
            weights.normal_()
    return Trained(RunDirectory(place), config, task, built, 0)


def test_a_smaller_allowance_than_the_bound_is_rejected(certified: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    first = places(LOCAL)[0]  # the bound of every context takes half a minute
    monkeypatch.setattr(sums, "places", lambda reach: [first])
    margins = sums.Margins(certified, *reach_of(certified))
    for group in groups(first):
        margins.bound(group, lambda done: None)
    needed = margins.allowance
    assert 0.1 < needed < 1
    claimed = Proof(
        task="addition",
        run="run",
        seed=0,
        answer="proved",
        scope="",
        method="",
        contexts=1,
        seconds=0.0,
        margin=9.5,
    )
    for allowed, rejected in ((needed, False), (9.0, False), (0.9999 * needed, True), (0.0, True), (math.nan, True)):
        rounding = Rounding(allowance=allowed, measured=0.0, inputs=1, strength="rigorous")
        reason = sums.allowance_too_small(certified, dataclasses.replace(claimed, rounding=rounding), lambda done: None)
        assert (reason is not None) == rejected
        assert reason is None or reason.endswith(f"logits for rounding; at least {needed:.6g} are needed")
    assert sums.allowance_too_small(certified, claimed, lambda done: None) is not None


def test_a_first_order_allowance_is_called_that() -> None:
    from headway.narration.proof import proved
    from headway.results.schema import read
    from headway.storage import read_document

    document = read_document(CERTIFIED / "analysis/proof.json")
    assert document is not None
    certificate = read(Proof, {key: value for key, value in document.items() if key != "made_from"}, "proof.json")
    assert certificate.rounding is not None and certificate.rounding.strength == "rigorous"
    for strength in ("first-order", "rigorous"):
        rounding = dataclasses.replace(certificate.rounding, strength=strength)
        found = dataclasses.replace(certificate, rounding=rounding)
        assert ("not a rigorous bound" in " ".join(map(str, proved(found)))) == (strength == "first-order")


def test_a_certificate_about_weights_out_of_range_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "out_of_range", lambda model: "A weight is above the range.")
    found = check(CERTIFIED / "analysis/proof.json")
    assert (found.holds, found.reasons, found.contexts) == (False, ("A weight is above the range.",), 0)


@pytest.mark.parametrize(("still_open", "wrong"), [(0, False), (3, False), (0, True), (3, True)])
def test_a_certificate_with_something_open_or_wrong_is_no_proof(still_open: int, wrong: bool) -> None:
    trained = untrained(SHAPES["sortedness"])
    named = {"task": trained.task.name, "seed": trained.config.seed, "scope": "all", "answer": "proved"}
    one = blank(Counterexample) if wrong else None
    found = blank(Proof, **named, open_contexts=still_open, counterexample=one)
    reasons = list(other_subject(found, trained, "all"))
    assert reasons == ["it lists open contexts or counterexamples"] * bool(still_open or wrong)


def test_contexts_within_an_allowance_are_counted_with_their_positive_margins() -> None:
    margins = object.__new__(Margins)
    margins.smallest, margins.worst, margins.low, margins.failing = math.inf, None, [], []
    states = torch.zeros(3, LOCAL.above + 1, dtype=torch.long)
    contexts = Contexts(places(LOCAL)[0], states, torch.zeros(3, dtype=torch.long), ())
    for some in ([0.5, 3.0, 5.0], [-1.0, 0.75, 9.0]):
        margins._note(torch.tensor(some), contexts)
    assert [margins.at_most(level) for level in (-2.0, 0.0, 0.6, 1.0, 3.5)] == [0, 1, 2, 3, 4]


def test_a_certificate_of_other_weights_is_rejected(tmp_path: Path) -> None:
    shutil.copytree(CERTIFIED.with_name("local-addition-seed1"), tmp_path / "run")
    shutil.copy(CERTIFIED / "analysis/proof.json", tmp_path / "run/analysis/proof.json")
    found = check(tmp_path / "run/analysis/proof.json")
    assert not found.holds
    assert "weights than this run's" in found.reasons[0]
    write_json(tmp_path / "run/analysis/proof.json", {"form": 1})
    with pytest.raises(InputError, match=r"proof\.json"):
        check(tmp_path / "run/analysis/proof.json")


def test_models_that_are_not_local_are_refused_by_name(certified: Trained) -> None:
    for change, words in (
        ({"encoder_layers": 2}, "2 \\+ 1 layers"),
        ({"cross_window": None}, "cross_window"),
        ({"norm": "post"}, "model.norm = 'post'"),
        ({"causal_encoder": True}, "causal_encoder"),
    ):
        model = dataclasses.replace(certified.config.model, **change)  # type: ignore[arg-type]
        other = dataclasses.replace(certified, config=dataclasses.replace(certified.config, model=model))
        with pytest.raises(InputError, match=words):
            reach_of(other)


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3))])
def test_brute_force_over_small_numbers_finds_no_error_where_there_is_a_proof(seed: int) -> None:
    """Weights are disturbed more and more: some models stay right, others fail."""
    trained = load(CERTIFIED, device="cpu")
    noise = torch.Generator().manual_seed(seed)
    with torch.inference_mode():
        for weight in trained.model.parameters():
            weight += 0.02 * (seed % 4) * torch.randn(weight.shape, generator=noise)
    pairs = [(digits(a), digits(b)) for a in range(100) for b in range(a, 100)]
    logits, target = teacher_forced(trained, sums_of(trained, pairs))
    right = (logits.argmax(-1) == target) | (target == trained.task.vocabulary.pad)
    found = prove(trained).answer
    assert found != "undecided"
    assert found == "counterexample" or bool(right.all())


def test_the_error_of_a_stream_covers_every_disturbance_of_its_head_outputs_and_is_tighter_than_coordinate_bounds():
    torch.manual_seed(3)
    norm, layer, output = nn.LayerNorm(6).double(), nn.Linear(6, 5).double(), nn.Linear(4, 6).double()
    x = sum_rounding.exact(torch.randn(2, 6, dtype=torch.float64))
    heads = sum_rounding.Bounded(torch.randn(2, 4, dtype=torch.float64), 1e-5 * torch.rand(2, 4, dtype=torch.float64))
    stream = sum_rounding.after_attention(x, heads, output)
    bound = sum_rounding.normed_linear(stream, norm, layer)
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=4)), dtype=torch.float64)
    disturbed = layer(norm(x.value + output(heads.value + signs[:, None] * heads.error)))
    largest = (disturbed - layer(norm(stream.value))).abs().amax(0)
    assert bool((largest <= bound.error).all())
    assert bool((largest > 0.2 * bound.error).any()), "the bound is of the size of what it bounds"
    assert bool((bound.error < sum_rounding.normed_linear(stream.bounded(), norm, layer).error).all())


@pytest.mark.parametrize(
    ("above", "allowance", "held"),
    [(0.0005, 0.01, True), (0.005, 0.01, False), (0.005, 0.5, True), (0.02, 0.5, False), (-0.4, 0.5, True)],
)
def test_a_claimed_margin_is_above_the_real_one_by_a_hundredth_and_a_tenth_of_the_allowance_at_most(
    above: float, allowance: float, held: bool
) -> None:
    rounding = Rounding(allowance=allowance, measured=0.0, inputs=1, strength="rigorous")
    proof = blank(
        Proof, answer="proved", contexts=3, contexts_by_kind={"column 1": 3}, margin=1 + above, rounding=rounding
    )
    reasons = list(_objections(proof, {"column 1": 3}, 1.0))
    assert [reason.partition(" of ")[0] for reason in reasons] == ([] if held else ["it claims a smallest margin"])


def test_a_certificate_that_names_a_kind_of_context_that_there_is_not_is_rejected() -> None:
    rounding = Rounding(allowance=0.1, measured=0.0, inputs=1, strength="rigorous")
    kinds = {"column 1": 3, "column 9": 0}
    proof = blank(Proof, answer="proved", contexts=3, contexts_by_kind=kinds, margin=1.0, rounding=rounding)
    assert list(_objections(proof, {"column 1": 3}, 1.0)) == [
        "it counts contexts of the kind 'column 9', which there is not"
    ]
