"""The search: what it depends on, when it ends, what it counts, and how a failing input becomes simpler."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.attacks import attack as attacks
from headway.attacks.attack import ASKED, OF_A_LENGTH, attack, chosen_lengths
from headway.attacks.gradients import steepest
from headway.attacks.mutations import mutate
from headway.attacks.scoring import ask, margins
from headway.attacks.search import ELITE, PATIENCE, Budget, Failure, Island, Search, _coprime
from headway.attacks.shrinking import shrink, simplicity
from headway.batches import make_batch
from headway.errors import InputError
from headway.evaluation import Trained
from headway.model.transformer import Inputs, Transformer
from headway.results.attack import Attack, FailingInput
from headway.results.schema import blank, read, write
from headway.tasks import TASKS, Examples
from headway.tasks.attack_families import ListedFamily
from headway.tasks.columns import longest_ripple, operands
from headway.tasks.links import explorer_link
from tests.attacks.planted import ADDITION, COPY, PARITY, SORTEDNESS, TEXT, TEXT_DECODER, RightBut, nothing, right_but
from tests.attacks.test_planted import FOREVER, follow
from tests.head_analysis.small import SHAPES, untrained


def told(found: Attack) -> dict:
    """All of a document but the time that it took."""
    return {key: value for key, value in write(found).items() if key != "took"}


@pytest.mark.parametrize("shape", SHAPES)
def test_seed_and_tries_decide_everything(shape: str) -> None:
    trained = untrained(SHAPES[shape])
    one, again, other = (attack(trained, seconds=FOREVER, tries=700, seed=seed) for seed in (3, 3, 4))
    assert told(one) == told(again)
    assert told(one)["trace"] != told(other)["trace"]


def test_what_was_tried_does_not_depend_on_how_long_the_search_goes_on() -> None:
    trained = right_but(SORTEDNESS, nothing)
    searches = [
        Search(trained, [8], 5, Budget(FOREVER, tries), lambda passed, search: None) for tries in (2_000, 6_000)
    ]
    seen = []
    for search in searches:
        search.run()
        seen.append(search.seen)
    assert seen[0] < seen[1]


def test_no_input_is_tried_twice_and_a_whole_domain_ends_the_search() -> None:
    trained = right_but(ADDITION, nothing, digits=1, leading_zeros=True)
    found = attack(trained, seconds=FOREVER)
    assert (found.tried, found.ended) == (100, "inputs")


def test_a_failing_input_counts_once_when_no_more_inputs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.attacks.search.REMEMBERED", 50)
    found = attack(right_but(SORTEDNESS, lambda source: (source == 99).all(1)), at=[2], seconds=FOREVER, tries=30_000)
    assert (found.found, found.ended) == (1, "tries")


@pytest.mark.parametrize("tries", [1, 700])
def test_no_more_inputs_are_tried_than_asked(tries: int) -> None:
    assert attack(right_but(SORTEDNESS, nothing), at=[8], seconds=FOREVER, tries=tries).tried == tries


def test_a_search_ends_with_its_time() -> None:
    found = attack(right_but(SORTEDNESS, nothing), at=[8], seconds=0.5)
    assert found.ended == "time"
    assert found.took < 5


class SurerOf99(RightBut):
    """Wrong answers to inputs with 99 have ten times the margin of the others."""

    def forward(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Tensor:
        return super().forward(inputs) * torch.where((inputs.source == 99).any(1), 10.0, 1.0)[:, None]


class SameLogits(Transformer):
    """Every class has the same logit, so it answers class 0 to everything."""

    def forward(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Tensor:
        return torch.ones(len(inputs.source), self.readout.out_features)


def test_a_tie_that_is_answered_wrongly_is_a_failure() -> None:
    trained = untrained(SORTEDNESS)
    trained.model.__class__ = SameLogits
    found = margins(trained, np.array([[3, 5, 4], [3, 4, 5]]))
    assert found[0] == 0 and -1e-30 < found[1] < 0  # class 0 is unsorted


def test_a_length_that_failed_often_enough_is_left_alone() -> None:
    found = attack(right_but(SORTEDNESS, lambda source: source[:, 0] < 50), at=[8, 12], seconds=FOREVER)
    assert found.ended == "failures"
    assert found.found >= 200
    assert {one.length for one in found.counterexamples} <= {8, 12}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_margin_is_below_0_exactly_where_the_answer_is_wrong(shape: str) -> None:
    trained = untrained(SHAPES[shape])
    source = trained.task.draw(np.random.default_rng(1), 60).source
    found = margins(trained, source)
    assert [bool(margin > 0) for margin in found] == [ask(trained, row).right for row in source]


def test_logits_that_are_not_finite_fail() -> None:
    trained = untrained(SHAPES["sortedness"])
    with torch.no_grad():
        trained.model.readout.bias[0] = torch.nan
    source = trained.task.draw(np.random.default_rng(1), 4).source
    assert np.isfinite(margins(trained, source)).all()
    assert (margins(trained, source) < 0).all()


def test_a_tie_that_only_a_batch_breaks_is_no_counterexample() -> None:
    trained = right_but(SORTEDNESS, lambda source: np.full(len(source), len(source) > 1))
    found = attack(trained, at=[8], seconds=FOREVER, tries=600)
    assert found.found > 0
    assert (found.broken, found.unconfirmed) == (False, ASKED)


def test_a_failure_is_found_among_ties_that_are_simpler() -> None:
    """Alone, 99 at the end fails; in a batch everything does. The simplest inputs have low values."""
    trained = right_but(SORTEDNESS, lambda source: (len(source) > 1) | (source == 99).any(1))
    trained.model.__class__ = SurerOf99
    found = attack(trained, at=[8], seconds=FOREVER, tries=600)
    assert found.broken
    assert all("99" in one.input.split() for one in found.counterexamples)
    assert found.unconfirmed >= OF_A_LENGTH


def test_an_input_that_is_right_alone_is_not_shown_in_place_of_the_one_it_came_from() -> None:
    """Alone, only 12 elements or more fail; in a batch everything does, so that simpler inputs seem to fail too."""
    trained = right_but(SORTEDNESS, lambda source: (len(source) > 1) | ((source < 100).sum(1) >= 12))
    found = attack(trained, at=[16], seconds=FOREVER, tries=600).counterexamples
    assert found
    assert all(one.size >= 12 and one.answered != one.expected for one in found)


def test_the_first_input_that_is_tried_is_number_1() -> None:
    found = attack(right_but(SORTEDNESS, lambda source: np.ones(len(source), dtype=bool)), at=[8], seconds=FOREVER)
    assert found.trace[0].tried == 1
    assert min(one.tried for one in found.counterexamples) >= 1


def test_climbing_without_a_smaller_margin_begins_again_from_the_newest_inputs() -> None:
    trained = right_but(SORTEDNESS, nothing)
    family = trained.task.attack_families(8)["random"]
    island = Island(trained.task, 8, "random", family, 0)
    first, newest, same = (island.draw(ELITE) for _ in range(3))
    order = np.arange(float(ELITE))
    island.keep(first, order, False)
    island.keep(newest, order + 100, False)
    for _ in range(PATIENCE - 1):
        island.keep(same, order, True)
    island.climb(8, np.arange(100), trained)
    assert np.array_equal(island.elite[0], first[0])
    island.keep(same, order, True)
    island.climb(8, np.arange(100), trained)
    assert np.array_equal(island.elite, newest)


# Where the margin tells something


NEEDLE = torch.tensor([13, 2, 77, 31, 64, 8, 90, 41])


class Slope(RightBut):
    """Right but near one input, towards which margins fall."""

    def forward(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Tensor:
        far = (inputs.source - NEEDLE).abs().sum(1, keepdim=True) / 100
        return super().forward(inputs) * (far - 0.05)


def test_climbing_follows_the_margin_to_a_failure_outside_every_family() -> None:
    trained = right_but(SORTEDNESS, nothing)
    model = Slope(trained.model.config, len(trained.task.vocabulary), 2)
    model.task, model.bad = trained.task, nothing
    found = attack(replace(trained, model=model.eval()), at=[8], seconds=FOREVER, tries=30_000)
    assert found.broken
    assert all(one.climbed for one in found.counterexamples)
    assert [fall.margin for fall in found.trace] == sorted((fall.margin for fall in found.trace), reverse=True)
    assert [fall.tried for fall in found.trace] == sorted(fall.tried for fall in found.trace)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_suggests_the_tokens_towards_which_the_margin_falls_fastest(shape: str) -> None:
    trained = untrained(SHAPES[shape])
    trained.model.double()  # the differences below are small
    examples = trained.task.draw(np.random.default_rng(2), 9)
    tokens = np.unique(examples.source[examples.source != trained.task.vocabulary.pad])
    found = steepest(trained, examples.source, tokens)
    assert found is not None
    places, others = found
    assert (np.take_along_axis(examples.source, places, axis=1) != trained.task.vocabulary.pad).all()
    fastest, slower = (fall_towards(trained, examples, places[:, at], others[:, at]) for at in (0, 7))
    assert (fastest < slower).all()


def fall_towards(
    trained: Trained, examples: Examples, place: np.ndarray, token: np.ndarray, step: float = 1e-6
) -> np.ndarray:
    """How the margin changes when the embedding in one place goes a small step towards that of another token."""
    table, rows = trained.model.embedding.weight.detach(), np.arange(len(examples))
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    towards = table[torch.from_numpy(token)] - table[torch.from_numpy(examples.source[rows, place])]
    calls: list[int] = []

    def move(module: torch.nn.Module, given: object, out: Tensor) -> Tensor:
        calls.append(1)
        moved = out.clone()
        if len(calls) == 1:
            moved[rows, place] += step * towards
        return moved

    found = []
    for moving in (False, True):
        hook = trained.model.embedding.register_forward_hook(move) if moving else None
        with torch.inference_mode():
            logits = trained.model(batch.inputs)
        if hook is not None:
            hook.remove()
        target = batch.target.reshape(len(examples), -1)
        pad = trained.task.vocabulary.pad if trained.task.kind == "sequence" else -1
        right = logits.reshape(*target.shape, -1)
        lead = right.gather(-1, target.clamp(min=0)[..., None])[..., 0]
        best = right.scatter(-1, target[..., None], -torch.inf).amax(-1)
        found.append((lead - best).masked_fill(target == pad, torch.inf).amin(1).numpy())
    return found[1] - found[0]


# Families and edits


def test_a_listed_family_gives_every_member_and_plateaus_every_neighbourhood_in_order() -> None:
    task = right_but(SORTEDNESS, nothing).task
    family = task.attack_families(8)["plateaus"]
    assert isinstance(family, ListedFamily)
    island = Island(task, 8, "plateaus", family, 0)
    rows = np.concatenate([island.draw(40_000) for _ in range(5)])
    assert island.exhausted
    assert len(rows) == family.size == 171_700
    triples = np.concatenate([rows[:, place : place + 3] for place in range(6)])
    assert len(np.unique(triples, axis=0)) == 171_700
    assert task.answer(rows).all()


@pytest.mark.parametrize("lengths", [[8], [5, 8, 11], [11, 8, 6]])
def test_listed_families_are_swept_at_the_shortest_length(lengths: list[int]) -> None:
    search = Search(right_but(SORTEDNESS, nothing), [*lengths], 0, Budget(FOREVER), lambda passed, search: None)
    listed = {island.name for island in search.islands if isinstance(island.family, ListedFamily)}
    swept = list(search._sweep(7))
    assert len(swept) == 7
    assert {(island.length, climbing) for island, climbing in swept} == {(min(lengths), False)}
    assert {island.name for island, _ in swept} == listed


def test_a_listed_family_of_a_task_with_one_length_is_swept_too() -> None:
    search = Search(right_but(ADDITION, nothing), [None], 0, Budget(FOREVER), lambda passed, search: None)
    whole = right_but(SORTEDNESS, nothing).task.attack_families(8)["plateaus"]
    search.islands[1].family = whole
    assert [island for island, _ in search._sweep(3)] == [search.islands[1]] * 3


def test_an_exhausted_family_is_swept_no_more() -> None:
    search = Search(right_but(SORTEDNESS, nothing), [6, 9], 0, Budget(FOREVER), lambda passed, search: None)
    first, *others = (one for one in search.islands if one.length == 6 and isinstance(one.family, ListedFamily))
    first.taken = first.family.size
    assert others
    assert {id(island) for island, _ in search._sweep(8)} == set(map(id, others))


def failures(length: int | None, **sizes_of: list[int]) -> list[Failure]:
    """Failing inputs of two tokens for each family; the larger the number, the less simple."""
    return [
        Failure(np.array([size, size]), -1.0, length, family, False, 1)
        for family, sizes in sizes_of.items()
        for size in sizes
    ]


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ({"swaps": [7, 1, 4]}, ["swaps 1", "swaps 4", "swaps 7"]),
        ({"swaps": [1, 2, 3, 4], "ends": [9]}, ["swaps 1", "ends 9", "swaps 2"]),
        ({"swaps": [1, 2, 3], "ends": [6, 5], "plateaus": [8]}, ["swaps 1", "ends 5", "plateaus 8"]),
        ({"swaps": [1, 9], "ends": [2], "plateaus": [3], "descents": [4]}, ["swaps 1", "ends 2", "plateaus 3"]),
        ({"swaps": [5], "ends": [2]}, ["ends 2", "swaps 5"]),
    ],
)
def test_failing_inputs_of_a_length_are_the_simplest_of_each_family_first(
    found: dict[str, list[int]], shown: list[str]
) -> None:
    others = failures(12, swaps=[3, 2])
    taken = attacks._some_of_each_length([*failures(9, **found), *others], pad=-1)
    told = {length: [f"{one.family} {one.source[0]}" for one in taken if one.length == length] for length in (9, 12)}
    assert told[9][: attacks.OF_A_LENGTH] == shown
    assert len(told[9]) == sum(map(len, found.values())), "the others are asked if those do not fail alone"
    assert told[12] == ["swaps 2", "swaps 3"]


def test_listed_descents_hold_every_neighbourhood_of_three() -> None:
    task = right_but(SORTEDNESS, nothing, values=12).task
    family = task.attack_families(9)["descents"]
    assert isinstance(family, ListedFamily)
    rows = family.pick(np.arange(family.size))
    triples = {tuple(row[place : place + 3].tolist()) for row in rows for place in range(7)}
    assert {(a, b, c) for a in range(12) for b in range(12) for c in range(12) if b > c or a > b} <= triples
    assert not task.answer(rows).any()


def test_the_first_or_the_last_pair_descends_wherever_it_can() -> None:
    family = right_but(SORTEDNESS, nothing, values=6).task.attack_families(7)["ends"]
    rows = family.draw(np.random.default_rng(0), 4_000)
    at_the_start, at_the_end = rows[::2], rows[1::2]
    assert (at_the_start[:, 0] > at_the_start[:, 1])[at_the_start[:, 1] < 5].all()
    assert (at_the_end[:, -1] < at_the_end[:, -2])[at_the_end[:, -2] > 0].all()
    assert (np.diff(at_the_start[:, 1:]) >= 0).all() and (np.diff(at_the_end[:, :-1]) >= 0).all()


@pytest.mark.parametrize(("values", "kinds"), [(2, {2}), (3, {2, 3}), (4, {2, 3, 4}), (5, {2, 3, 4}), (9, {2, 3, 4})])
def test_ties_have_two_to_four_neighbouring_values_anywhere(values: int, kinds: set[int]) -> None:
    """Of 40 places each of four values fills at least one in all but one row of 25,000."""
    family = right_but(SORTEDNESS, nothing, values=values).task.attack_families(40)["ties"]
    rows = family.draw(np.random.default_rng(0), 600)
    found = [np.unique(row) for row in rows]
    assert {len(one) for one in found} == kinds
    assert all((np.diff(one) == 1).all() for one in found)
    for kind in kinds:
        lowest = {int(one[0]) for one in found if len(one) == kind}
        assert lowest == set(range(values - kind + 1))
    assert {int((np.diff(row) < 0).sum()) for row in rows} == {0, 1}


def test_failing_inputs_up_to_a_length_are_those_at_it_too() -> None:
    inputs = tuple(blank(FailingInput, length=length) for length in (9, 8, None, 7))
    found = blank(Attack, counterexamples=inputs, ended="tries")
    assert [one.length for one in found.breaks_at(8)] == [8, 7]


def test_an_edit_keeps_the_number_of_tokens_and_writes_known_tokens_only() -> None:
    random = np.random.default_rng(0)
    tokens, pad = np.array([0, 2, 4, 6, 8]), 9
    lengths = random.integers(1, 12, size=3_000)
    rows = np.where(np.arange(12) < lengths[:, None], random.choice(tokens, size=(3_000, 12)), pad)
    edited = mutate(random, rows, rows[::-1], tokens, pad)
    assert np.array_equal(edited == pad, rows == pad)
    assert set(np.unique(edited)) == {0, 2, 4, 6, 8, pad}
    assert 0.5 < (edited != rows).any(1).mean() < 1


def test_tokens_of_an_edit_are_those_that_the_families_have() -> None:
    trained = right_but(ADDITION, nothing)
    search = Search(trained, [None], 0, Budget(FOREVER, 5_000), lambda passed, search: None)
    search.run()
    assert search.tokens[None].tolist() == list(range(11))
    assert sum(island.climbed for island in search.islands) > 500


# Simpler


def test_a_failing_input_becomes_as_short_and_simple_as_it_can() -> None:
    trained = right_but(SORTEDNESS, follow(57, 12))
    row = np.array([3, 9, 22, 40, 57, 12, 60, 71, 71, 80, 90, 95])
    found = shrink(trained, trained.task, row, 8, "length", lambda: False)
    assert found.tolist() == [57, 12, 12, 12, 12, 12, 12, 12]
    assert simplicity(found) < simplicity(row)


def test_nothing_becomes_shorter_than_the_shortest_training_length() -> None:
    trained = right_but(SORTEDNESS, lambda source: source[:, 0] == 5)
    found = attack(trained, at=[16], seconds=FOREVER)
    assert {one.size for one in found.counterexamples} == {8}


def test_columns_of_a_sum_go_together() -> None:
    trained = right_but(TEXT, lambda source: longest_ripple(*operands(source, 10), 10) > 20)
    found = attack(trained, at=[128], seconds=FOREVER, tries=2_000)
    assert min(one.size for one in found.counterexamples) <= 2 * 23 + 6
    assert found.counterexamples[0].found_as is not None


def test_the_shortest_failing_input_comes_first() -> None:
    """Nothing but 9 and 16 elements fails, and no single step leads from 16 to 9."""
    trained = right_but(SORTEDNESS, lambda source: np.isin((source < 100).sum(1), [9, 16]))
    sizes = [one.size for one in attack(trained, at=[9, 16], seconds=FOREVER, tries=20_000).counterexamples]
    assert set(sizes) == {9, 16}
    assert sizes == sorted(sizes)


def test_a_failing_input_can_be_put_into_a_data_file() -> None:
    trained = right_but(TEXT_DECODER, lambda source: source[:, 0] == 7)
    for one in attack(trained, at=[16], seconds=FOREVER, tries=2_000).counterexamples:
        source, target = trained.task.from_record(dict(one.record))
        assert not ask(trained, np.array(source)).right
        assert trained.task.show(np.array(source), np.array(target)) == f"{one.input}-> {one.expected}"


def test_the_document_is_read_as_it_was_written() -> None:
    found = attack(right_but(PARITY, lambda source: source[:, 0] == 1), seconds=FOREVER, tries=500)
    assert read(Attack, write(found), "attack.json") == found
    assert [one.length for one in found.breaks_at(8)] == [
        one.length for one in found.counterexamples if one.length <= 8
    ]


# Lengths


def test_without_a_word_training_lengths_are_attacked() -> None:
    trained = right_but(SORTEDNESS, nothing)
    plan = trained.task.length_plan()
    assert chosen_lengths(trained, plan, None) == [8, 9, 10, 11, 12, 13, 14, 15, 16]
    assert chosen_lengths(trained, plan, [64, 8, 64]) == [8, 64]


def test_lengths_that_are_held_follow_those_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = right_but(SORTEDNESS, nothing)
    monkeypatch.setattr(attacks, "held_lengths", lambda trained: [12, 16, 32, 64])
    found = chosen_lengths(trained, trained.task.length_plan(), None)
    assert found == [8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64]


def test_a_task_with_one_length_refuses_another() -> None:
    with pytest.raises(InputError, match="addition has one length; it cannot be set to 12"):
        attack(right_but(ADDITION, nothing), at=[12])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seconds": 0}, "--seconds 0; above 0, at most 1,000,000"),
        ({"seconds": float("nan")}, "--seconds nan; above 0"),
        ({"tries": 0}, "--tries 0; at least 1 needed"),
        ({"at": [1]}, "length 1"),
        ({"at": [100_000]}, "--at 100000; a length from 2 to 65,536 needed"),
    ],
)
def test_a_budget_or_length_that_cannot_be_is_refused(options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        attack(right_but(SORTEDNESS, nothing), **options)


# Links


@pytest.mark.parametrize(
    ("settings", "task", "row", "link"),
    [
        (SORTEDNESS, {}, [2, 7, 31], "#input=2+7+31"),
        (ADDITION, {}, [3, 7, 4, 10, 8, 1, 4], "#input=374+%2B+814"),
        (TEXT, {}, [9, 5, 12, 10, 12, 7, 12, 11, 12], "#input=95+%2B+7"),
        (TEXT, {"operand_order": "least-significant-first"}, [5, 9, 12, 10, 12, 7, 12, 11, 12], "#input=95+%2B+7"),
        (COPY, {}, [5, 3, 3], "#input=5+3+3"),
    ],
)
def test_a_link_names_the_input_as_the_explorer_reads_it(settings: dict, task: dict, row: list[int], link: str) -> None:
    assert explorer_link(right_but(settings, nothing, **task).task, np.array(row)) == link


def test_every_task_that_comes_with_headway_is_attacked() -> None:
    assert {settings["task"]["name"] for settings in (SORTEDNESS, ADDITION, TEXT, COPY, PARITY)} | {"sorting"} == set(
        TASKS.names()
    )


def test_steps_through_a_family_reach_every_member_of_it() -> None:
    for size in range(1, 300):
        step = _coprime(int(size * 0.6180339887), size)
        assert len(np.unique(step * np.arange(size) % size)) == size
