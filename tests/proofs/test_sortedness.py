"""Proofs of sortedness: planted truths, brute force, and a check that accepts nothing stronger than it finds."""

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.errors import InputError
from headway.evaluation import Trained
from headway.proofs.prove import check as check_file
from headway.proofs.rounding import Bounded
from headway.proofs.sortedness import Evidence, _conclude, _is_closed, check, contexts_of, margins, prove
from headway.proofs.sortedness_bounds import close_chains, close_descents, open_triples, sorted_triples
from headway.proofs.sortedness_search import Found
from headway.proofs.sortedness_table import TripleTable, _read, tabulate
from headway.proofs.triple_pass import de_bruijn
from headway.results.proof import Counterexample, Proof
from headway.results.schema import blank, read, write
from headway.storage import read_json
from tests.proofs.planted import VALUES, empty, perturb, planted

LONGEST = 6
"""Sequences up to this length are enumerated."""


def errors(trained: Trained) -> int:
    """Wrong answers of the model itself on every sequence of one to six elements."""
    wrong = 0
    for length in range(1, LONGEST + 1):
        rows = np.array(list(product(range(VALUES), repeat=length)))
        wrong += int(((margins(trained, rows) > 0) != (trained.task.answer(rows) == 1)).sum())
    return wrong


def test_a_model_that_is_right_everywhere_is_proved_and_its_proof_holds(tmp_path: Path) -> None:
    trained = planted(tmp_path)
    found = prove(trained)
    assert errors(trained) == 0
    assert found.answer == "proved"
    assert found.margin is not None and found.rounding is not None
    assert found.margin > found.rounding.allowance > found.rounding.measured
    assert found.contexts == 25 * 6 + 20 + 20 + 4
    checked = check(trained, found)
    assert checked.holds and checked.contexts == found.contexts


def test_one_number_for_all_detectors_is_proved_without_a_search(tmp_path: Path) -> None:
    trained = planted(tmp_path, pooling={"name": "detector", "detectors": 3, "readout": "sum"})
    found = prove(trained)
    assert found.answer == "proved" and "search" not in found.method
    assert errors(trained) == 0
    assert check(trained, found).holds


def test_one_bad_triple_is_the_counterexample(tmp_path: Path) -> None:
    trained = planted(tmp_path, bad=(0, 2, 1))
    found = prove(trained)
    assert found.answer == "counterexample"
    assert found.counterexample is not None and found.counterexample.tokens == (0, 2, 1)
    assert (found.counterexample.expected, found.counterexample.answered) == ("not sorted", "sorted")
    assert {one.tokens[at : at + 3] for one in found.counterexamples for at in range(one.length)} >= {(0, 2, 1)}


STRONGER = {
    "contexts": lambda proof: replace(proof, contexts=proof.contexts - 1),
    "margin": lambda proof: replace(proof, margin=proof.margin + 0.01),
    "scope": lambda proof: replace(proof, scope=proof.scope.replace("0 to 3", "0 to 4")),
    "kinds": lambda proof: replace(proof, contexts_by_kind={**proof.contexts_by_kind, "descents": 1}),
    "task": lambda proof: replace(proof, task="sorting"),
    "seed": lambda proof: replace(proof, seed=proof.seed + 1),
    "renamed kinds": lambda proof: replace(proof, contexts_by_kind={"all": proof.contexts}),
    "allowance above the margin": lambda proof: replace(proof, rounding=replace(proof.rounding, allowance=1e6)),
    "measured": lambda proof: replace(proof, rounding=replace(proof.rounding, measured=-1.0)),
    "no rounding": lambda proof: replace(proof, rounding=None),
    "rounding": lambda proof: replace(proof, rounding=replace(proof.rounding, allowance=1e-9)),
    "a counterexample further down": lambda proof: replace(proof, further_counterexamples=(blank(Counterexample),)),
}


def test_no_counterexample_is_lost_between_old_and_new_names() -> None:
    old, new, further = ({**write(blank(Counterexample)), "input": name} for name in ("old", "new", "further"))
    every = {"counterexamples": [old], "counterexample": new, "further_counterexamples": [further]}
    document = {**write(blank(Proof, answer="proved")), **every}
    assert {one.input for one in read(Proof, document, "proof.json").counterexamples} == {"old", "new", "further"}


def test_more_values_than_a_table_can_hold_are_refused(tmp_path: Path) -> None:
    trained = planted(tmp_path)
    options = replace(trained.task.options, values=1_500)
    trained.task.options = options
    with pytest.raises(InputError, match=r"task\.values = 1,500: .* features of triples are too many"):
        prove(trained)


@pytest.mark.parametrize("claim", STRONGER)
def test_the_check_rejects_a_stronger_claim(tmp_path: Path, claim: str) -> None:
    trained = planted(tmp_path)
    proof: Proof = STRONGER[claim](prove(trained))
    assert not check(trained, proof).holds


def test_the_check_rejects_the_proof_of_other_weights(tmp_path: Path) -> None:
    proof = prove(planted(tmp_path))
    assert not check(planted(tmp_path, bad=(0, 2, 1)), proof).holds


@torch.no_grad()
def scaled(trained: Trained, factor: float) -> Trained:
    """The same answers, with logits of another size."""
    readout: Any = trained.model.readout
    readout.weight *= factor
    readout.bias *= factor
    return trained


@pytest.mark.parametrize("factor", [1e-2, 1e-4])
def test_the_check_rejects_a_stronger_claim_about_small_logits(tmp_path: Path, factor: float) -> None:
    trained = scaled(planted(tmp_path), factor)
    proof = prove(trained)
    assert proof.answer == "proved" and check(trained, proof).holds
    assert proof.margin is not None
    assert not check(trained, replace(proof, margin=1.5 * proof.margin)).holds
    assert not check(scaled(planted(tmp_path, bad=(0, 2, 1)), factor), proof).holds


def test_logits_that_underflow_are_not_proved(tmp_path: Path) -> None:
    trained = scaled(planted(tmp_path), 1e-45)
    with torch.no_grad():  # the smallest positive number: half of it is 0
        model: Any = trained.model
        model.readout.weight.mul_(0)
        model.readout.weight[0, 0], model.pooling.project.weight[0, 0] = 1.4e-45, 0.25
    assert errors(trained) > 0
    assert prove(trained).answer != "proved"


@pytest.mark.parametrize("size", [float("nan"), float("inf"), 3e38, 257.0])
@pytest.mark.parametrize("name", ["embedding.weight", "pooling.project.weight", "readout.bias"])
def test_numbers_that_could_leave_the_range_of_fp32_prove_nothing(tmp_path: Path, name: str, size: float) -> None:
    trained = planted(tmp_path)
    dict(trained.model.named_parameters())[name].detach().view(-1)[0] = size
    found = prove(trained)
    assert (found.answer, found.open_contexts) == ("undecided", found.contexts)
    assert found.missing is not None and found.missing.startswith(f"{name} has a weight")


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_a_model_of_lower_precision_is_not_proved(kind: torch.dtype, tmp_path: Path) -> None:
    trained = planted(tmp_path)
    trained.model.to(kind)
    found = prove(trained)
    assert found.answer == "undecided"
    assert (found.missing or "").endswith(f"of type {str(kind)[6:]}: a proof needs fp32 or better.")


def test_a_model_that_computes_something_else_is_not_proved(tmp_path: Path) -> None:
    """With dropout on, its margins are 41 logits from those of its weights."""
    trained = planted(tmp_path, dropout=0.5)
    assert prove(trained).answer == "proved"
    trained.model.train()
    found = prove(trained)
    assert (found.answer, found.open_contexts) == ("undecided", found.contexts)
    assert found.missing is not None and found.missing.startswith("The model's own margins are up to ")


def test_a_deviation_that_is_lost_in_rounding_proves_nothing(tmp_path: Path) -> None:
    trained: Any = planted(tmp_path, norm="post")
    with torch.no_grad():
        for weights in trained.model.encoder[0].feed_forward.contract.parameters():
            weights.fill_(250.0)
    found = prove(trained)
    assert found.answer == "undecided" and found.missing is not None and "layer norm" in found.missing


@pytest.mark.parametrize(("alone", "answer"), [(1e-7, "undecided"), (-1e-7, "counterexample")])
def test_a_counterexample_is_wrong_by_itself(
    alone: float, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted sequences are ties of logits here, and a batch turns them all."""
    trained = planted(tmp_path)
    with torch.no_grad():
        trained.model.readout.bias[1] -= float(margins(trained, np.array([[0, 1, 2]]))[0])

    def turned(trained: Trained, rows: np.ndarray) -> np.ndarray:
        tie = -1e-7 if len(rows) > 1 else alone
        return np.where(trained.task.answer(rows) == 1, tie, -30.0)

    monkeypatch.setattr("headway.proofs.sortedness.margins", turned)
    found = prove(trained)
    assert found.answer == answer
    assert {one.margin for one in found.counterexamples} <= {alone}


@pytest.mark.parametrize("models", [30, pytest.param(200, marks=pytest.mark.long)])
def test_brute_force_agrees(models: int, tmp_path: Path) -> None:
    """Proved means that no sequence of up to six elements is wrong; a counterexample is one; few stay undecided."""
    answers: dict[tuple[str, bool], int] = {}
    for seed in range(models):
        trained = planted(tmp_path) if seed % 10 else empty(tmp_path)
        perturb(trained, [0.0, 0.01, 0.02, 0.03, 0.05, 0.08][seed % 6], seed)
        found = prove(trained)
        key = found.answer, errors(trained) == 0
        answers[key] = answers.get(key, 0) + 1
        if found.answer == "proved":
            assert check(trained, found).holds, seed
        for one in found.counterexamples:
            assert (margins(trained, np.array([one.tokens]))[0] > 0) != (list(one.tokens) == sorted(one.tokens))
    print(answers)
    assert answers.get(("proved", False), 0) == 0
    assert answers[("proved", True)] >= 0.4 * models
    assert answers.get(("undecided", True), 0) + answers.get(("undecided", False), 0) <= 0.05 * models


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encoder_layers": 2}, "model.encoder_layers = 2"),
        ({"window": None}, "model.window = None"),
        ({"encoding": {"name": "sinusoidal"}}, "model.encoding = 'sinusoidal'"),
        ({"pooling": {"name": "mean"}}, "model.pooling = 'mean'"),
        ({"causal_encoder": True}, "model.causal_encoder = True"),
    ],
)
def test_what_cannot_be_proved_is_refused_by_name(tmp_path: Path, settings: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        prove(empty(tmp_path, **settings))


@pytest.mark.parametrize("values", [2, 3, 6])
def test_every_triple_stands_in_the_sequence_once(values: int) -> None:
    whole = de_bruijn(values)
    triples = list(zip(whole, whole[1:], whole[2:], strict=False))
    assert len(triples) == len(set(triples)) == values**3


COMMITTED = Path(headway.__file__).parents[2] / "docs" / "results" / "proofs"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 10))])
def test_the_committed_certificates_are_accepted(seed: int) -> None:
    found = check_file(COMMITTED / f"proved-sortedness-seed{seed}" / "analysis" / "proof.json")
    assert found.holds, found.reasons
    assert found.contexts == 50_676_850


def test_a_context_is_open_unless_its_margin_is_beyond_what_is_needed(tmp_path: Path) -> None:
    table = tabulate(planted(tmp_path).model, VALUES)
    sure, unsure = (close_descents(table, -need) for need in (0.0, 1e6))
    assert sure.n_open == 0
    assert unsure.n_open == unsure.contexts == sure.contexts


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_descents_is_above_every_sequence_with_one(seed: int, tmp_path: Path) -> None:
    """Random weights, where both neighbours of a pair show something: no margin of `sorted` exceeds the bound."""
    trained = planted(tmp_path)
    perturb(trained, 0.3, seed)
    table = tabulate(trained.model, VALUES)
    rows = np.array([row for row in product(range(VALUES), repeat=4) if row[1] > row[2]])
    bound = close_descents(table, np.inf).highest
    assert bound >= float(table.of_sequences(torch.from_numpy(rows)).max()) - 1e-9  # float64 sums of 14 numbers


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_sorted_sequences_is_below_every_one(seed: int, tmp_path: Path) -> None:
    trained = planted(tmp_path, pooling={"name": "detector", "detectors": 3, "readout": "sum"})
    perturb(trained, 0.1 * seed, seed)
    table = tabulate(trained.model, VALUES)
    bound = close_chains(table).lowest
    for length in range(1, 5):
        rows = np.array([row for row in product(range(VALUES), repeat=length) if list(row) == sorted(row)])
        assert bound <= float(table.of_sequences(torch.from_numpy(rows)).min()) + 1e-9  # float64 sums of 14 numbers


def test_one_element_that_is_called_unsorted_is_below_all_sorted_sequences(tmp_path: Path) -> None:
    """Element 2 alone gets half the margin of the others, or none."""
    trained = planted(tmp_path, pooling={"name": "detector", "detectors": 3, "readout": "sum"})
    table = tabulate(trained.model, VALUES)
    lowest, opposes = close_chains(table).lowest, int(table.opposes[0])
    assert lowest > 0
    for wanted in (lowest / 2, -lowest / 2, -2 * lowest):
        alone = table.alone.clone()
        alone[2, opposes] += (wanted - table.margin(alone)[2]) / table.weight[opposes]
        found = close_chains(replace(table, alone=alone))
        assert (found.lowest, found.worst) == (pytest.approx(wanted), ((VALUES, 2, VALUES),))


def bounds_by_hand(table: TripleTable) -> list[float]:
    """For each sorted triple the smallest margin of a sorted sequence with it, feature by feature."""
    n = table.values
    some = [*range(n), n]
    triples = [
        (a, b, c)
        for a, b, c in product(some, range(n), some)
        if a in (n, *range(b + 1)) and (c == n or b <= c) and (a, c) != (n, n)
    ]
    found = []
    for triple in triples:
        margin = table.bias
        for feature, weight in enumerate(table.weight.tolist()):
            every = {one: float(table.features[one][feature]) for one in triples}
            first, last = (min(value for one, value in every.items() if one[side] == n) for side in (0, 2))
            margin += weight * (max(every.values()) if weight < 0 else max(every[triple], first, last))
        found.append(margin)
    return found


@pytest.mark.parametrize("seed", range(2))
def test_sorted_triples_are_open_unless_their_bound_exceeds_what_is_needed(seed: int, tmp_path: Path) -> None:
    trained = planted(tmp_path)
    perturb(trained, 0.3, seed)
    table = tabulate(trained.model, VALUES)
    bounds = sorted(bounds_by_hand(table))
    assert len(bounds) == 20 + 20
    counts = []
    for middle in (0.0, bounds[0], bounds[7], bounds[-1]):
        # Within 1e-6 of a bound nothing is asked: float64 sums of a few numbers below 100.
        for need in (middle - 1e-6, middle + 1e-6):
            counts.append(open_triples(table, need))
            assert counts[-1] == sum(one <= need for one in bounds)
    assert counts[2] == 0 < counts[3] < counts[-1] == 40


@pytest.mark.parametrize(
    ("share", "closed"), [(-1.0, False), (0.0, False), (0.5, False), (0.99, False), (1.01, True), (3.0, True)]
)
def test_a_single_element_is_closed_only_beyond_what_rounding_allows(
    share: float, closed: bool, tmp_path: Path
) -> None:
    """Longer sequences have margins of 50 logits; element 2 by itself has this share of what is needed."""
    start = evidence_of(tmp_path)
    alone, opposes = start.table.alone.clone(), int(start.table.opposes[0])
    wanted = share * start.need
    alone[2, opposes] += (wanted - float(start.table.margin(alone)[2])) / start.table.weight[opposes]
    searches = {side: Found(ended=True, highest=-50.0, labels=9) for side in ("unsorted", "sorted")}
    evidence = replace(start, table=replace(start.table, alone=alone), searches=searches)
    assert (_is_closed(evidence, "sorted"), _is_closed(evidence, "unsorted")) == (closed, True)


def evidence_of(place: Path, **facts: Any) -> Evidence:
    """A right model of whose contexts the bounds close none, unless `facts` say more."""
    trained = planted(place)
    table = tabulate(trained.model, VALUES)
    return replace(Evidence(trained, table, close_descents(table, -1e6), close_chains(table)), **facts)


def test_a_side_is_open_until_its_margins_exceed_the_rounding_allowance(tmp_path: Path) -> None:
    start = evidence_of(tmp_path)
    closed = close_descents(start.table, 0.0)
    for share, is_open in ((-1.0, True), (0.5, True), (1.0, True), (1.01, False)):
        evidence = replace(start, descents=closed, chains=replace(start.chains, lowest=share * start.need))
        assert evidence.open_sides() == {"unsorted": False, "sorted": is_open}


def test_a_search_that_stopped_at_its_limit_proves_nothing(tmp_path: Path) -> None:
    ended = {side: Found(ended=True, highest=-50.0, labels=9) for side in ("unsorted", "sorted")}
    chains = replace(evidence_of(tmp_path).chains, lowest=-1.0)
    assert _conclude(evidence_of(tmp_path, chains=chains, searches=ended)).answer == "proved"
    for side in ended:
        searches = {**ended, side: replace(ended[side], ended=False, labels=20_001)}
        found = _conclude(evidence_of(tmp_path, chains=chains, searches=searches))
        assert found.answer == "undecided"
        assert found.missing == f"The search of {side} sequences stopped at its limit after 20,001 prefixes."


def test_a_single_element_within_the_allowance_is_what_is_missing(tmp_path: Path) -> None:
    """The search of longer sequences found nothing below 50 logits."""
    evidence = evidence_of(tmp_path)
    table, need = evidence.table, evidence.need
    alone, opposes = table.alone.clone(), int(table.opposes[0])
    alone[2, opposes] += (0.8 * need - float(table.margin(alone)[2])) / table.weight[opposes]
    found = _conclude(
        replace(
            evidence,
            table=replace(table, alone=alone),
            descents=close_descents(table, 0.0),
            chains=replace(evidence.chains, lowest=0.8 * need),
            searches={"sorted": Found(ended=True, highest=-50.0, labels=9)},
        )
    )
    assert (found.answer, found.open_contexts) == ("undecided", 1)
    said = f"A margin of sorted sequences is {0.8 * need:.3g} logits, not above {need:.3g}, 1.25 times the rounding"
    assert found.missing == f"{said} allowance."


def test_something_is_open_where_a_search_did_not_end(tmp_path: Path) -> None:
    """Sorted triples have enough margin one by one, but not all of them together."""
    evidence = evidence_of(tmp_path)
    searches = {"sorted": Found(ended=False, highest=-50.0, labels=9)}
    chains, descents = replace(evidence.chains, lowest=-1.0), close_descents(evidence.table, 0.0)
    found = _conclude(replace(evidence, chains=chains, descents=descents, searches=searches))
    assert (found.answer, found.open_contexts) == ("undecided", 1)


def test_a_certificate_of_other_weights_is_rejected_before_anything_is_computed(tmp_path: Path) -> None:
    shutil.copytree(COMMITTED / "proved-sortedness-seed0", tmp_path / "run")
    shutil.copy(COMMITTED / "proved-sortedness-seed1/analysis/proof.json", tmp_path / "run/analysis/proof.json")
    found = check_file(tmp_path / "run" / "analysis" / "proof.json")
    assert (found.holds, found.contexts, found.method) == (False, 0, "none")
    assert "weights than this run's" in found.reasons[0]


SAID_BESIDE = {
    "the old name too": (
        '"margin": ',
        '"smallest_margin": 1e6, "margin": ',
        "margin and smallest_margin, which are the same",
    ),
    "a key twice": ("{", '{"answer": "counterexample", ', "it says answer twice"),
    "a part's key twice": ('"allowance": ', '"allowance": 0.0, "allowance": ', "it says allowance twice"),
    "an unknown fact": ("{", '{"precision": "any", ', "it says precision, which nothing here checks"),
    "an unknown fact of a part": ('"allowance": ', '"holds_in": "bf16", "allowance": ', "it says holds_in"),
}


@pytest.mark.parametrize("said", SAID_BESIDE)
def test_a_certificate_that_says_more_than_is_checked_is_rejected(said: str, tmp_path: Path) -> None:
    """Another reader would take the first of two numbers, or a field that this version does not know."""
    shutil.copytree(COMMITTED / "proved-sortedness-seed0", tmp_path / "run")
    path = tmp_path / "run" / "analysis" / "proof.json"
    text = json.dumps({key: value for key, value in read_json(path).items() if key != "sha256"})
    old, new, reason = SAID_BESIDE[said]
    path.write_text(text.replace('"smallest_margin"', '"margin"').replace(old, new, 1))
    found = check_file(path)
    assert not found.holds
    assert reason in found.reasons[0]


def test_errors_of_all_detectors_add_in_their_sum(tmp_path: Path) -> None:
    """Three detectors with the same weights of length 5: an input that moves by 0.1 moves their sum by 1.5."""
    trained = planted(tmp_path, pooling={"name": "detector", "detectors": 3, "readout": "sum"})
    detect: Any = trained.model.pooling.detect  # type: ignore[union-attr]
    with torch.no_grad():
        detect.weight.zero_()
        detect.weight[:, :2] = torch.tensor([3.0, 4.0])
    hidden = Bounded(torch.zeros(1, 1, detect.in_features).double(), torch.full((1, 1), 0.1).double())
    _, error = _read(trained.model, hidden)
    assert 1.5 <= float(error) < 1.501  # and the roundings of fp32


def test_triples_of_sorted_sequences_may_have_ties() -> None:
    """As many as `contexts_of` counts: inside a sequence, first and last; index 4 is no neighbour."""
    found = {tuple(one) for one in sorted_triples(VALUES).nonzero().tolist()}
    counted = contexts_of(VALUES)
    assert len(found) == counted["sorted triples"] + counted["first or last"]
    assert {(1, 1, 1), (0, 2, 2), (VALUES, 3, 3), (2, 2, VALUES)} <= found
    assert not {(2, 1, 3), (1, 3, 2), (VALUES, 2, VALUES)} & found
