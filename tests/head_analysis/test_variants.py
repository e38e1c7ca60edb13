"""What is put in a head's place: against slow loops over examples without padding, whatever the batch."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from headway import evaluation
from headway.batches import make_batch
from headway.evaluation import Trained
from headway.head_analysis import head_runs, variants
from headway.head_analysis.ablation import ablate
from headway.head_analysis.head_runs import KINDS, TrainedRuns, make_replacements
from headway.head_analysis.variants import heads_of, pick_patch_sources, run_variants
from headway.model import dot_products
from headway.model.transformer import Transformer
from headway.randomness import generator
from headway.tasks import Examples, make_task
from tests.head_analysis.small import SHAPES, TEXT_ACROSS, untrained
from tests.model.test_transformer import unsettle
from tests.tiny import config

CPU = torch.device("cpu")


def randomised(base: dict[str, Any], *, dtype: torch.dtype = torch.float32, **model: Any) -> Trained:
    """A model with a random number in every weight, so that no zero hides a mistake."""
    trained = untrained(base, model=model)
    unsettle(trained.model).to(dtype)
    with torch.no_grad():
        trained.model.embedding.weight.mul_(5)  # so that answers depend on the question
    return trained


def one_at_a_time(heads: int, replacements: int = 1) -> np.ndarray:
    """A plan: nothing, then each head alone with the first replacement, then with the second, ..."""
    alone = np.eye(heads, dtype=np.int64)
    return np.concatenate([0 * alone[:1], *(alone * (code + 1) for code in range(replacements))])


def projections(model: Transformer) -> dict[str, nn.Linear]:
    """Every site's output projection, found without asking the model for its sites."""
    found = {}
    for stack in ("encoder", "decoder"):
        for layer, block in enumerate(getattr(model, stack)):
            found[f"{stack}.{layer}.self"] = block.own.output
            if block.cross is not None:
                found[f"{stack}.{layer}.cross"] = block.cross.output
    return found


# Bits


@pytest.mark.parametrize("name", SHAPES)
def test_a_head_whose_output_weights_are_zero_is_not_missed_by_a_single_bit(name: str) -> None:
    trained = randomised(SHAPES[name])
    heads = heads_of(trained)
    for site, module in projections(trained.model).items():
        with torch.no_grad():
            module.weight[:, 5:10] = 0
        assert any(head.site == site and head.index == 1 for head in heads)
    examples = trained.examples("test")
    replacements, _ = make_replacements(trained, examples)
    plan = one_at_a_time(len(heads), len(KINDS))
    found = run_variants(trained, examples, plan, replacements, keep_predicted=True)
    silent = [row for row in range(1, len(plan)) if heads[(row - 1) % len(heads)].index == 1]
    assert len(silent) == len(KINDS) * len(trained.model.sites)
    for row in silent:
        assert (found.loss[row] == found.loss[0]).all()
        assert (found.predicted[row] == found.predicted[0]).all()
    loud = [row for row in range(1, len(plan)) if row not in silent]
    assert all((found.loss[row] != found.loss[0]).any() for row in loud)


# Means and patch_sources, example by example


@contextmanager
def replacing(
    model: Transformer, seen: dict[str, np.ndarray], site: str = "", head: int = 0, by: Any = None
) -> Iterator[None]:
    """Hooks written for these tests alone: note what each site's heads bring, and put something in one's place."""

    def hook_at(name: str) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor]]:
        def hook(module: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
            brought = given[0].reshape(*given[0].shape[:2], 3, 5).clone()
            seen[name] = brought[0].numpy().copy()
            if name == site:
                brought[:, :, head] = torch.as_tensor(by, dtype=brought.dtype)
            return (brought.reshape(given[0].shape),)

        return hook

    handles = [module.register_forward_pre_hook(hook_at(name)) for name, module in projections(model).items()]
    yield
    for handle in handles:
        handle.remove()


class Slowly:
    """Every example in a batch of its own, without padding; every head looked at one by one."""

    def __init__(self, trained: Trained, examples: Examples):
        self.trained, self.examples = trained, examples
        self.outputs = [self.run(row)[2] for row in range(len(examples))]

    def run(self, row: int, site: str = "", head: int = 0, by: Any = None) -> tuple[list[int], float, dict]:
        """What one example's answer is, its loss, and what each head brought."""
        trained, brought = self.trained, {}
        batch = make_batch(trained.task, trained.model, self.examples.take([row]), CPU)
        assert batch.inputs.source_visible is None
        with replacing(trained.model, brought, site, head, by), torch.inference_mode():
            logits = trained.model(batch.inputs)
        logits, target = logits.reshape(-1, logits.shape[-1]), batch.target.reshape(-1)
        return logits.argmax(-1).tolist(), float(F.cross_entropy(logits, target, reduction="sum")), brought

    def place(self, row: int, site: str, query: int) -> tuple[str, int]:
        """Whether a query is a token of the source or of the answer, and the how manieth."""
        length = int((self.examples.source[row] != self.trained.task.vocabulary.pad).sum())
        shape = self.trained.model.config.shape
        if site.startswith("encoder") or (shape == "decoder" and query < length):
            return "source", query
        return "answer", query - length if shape == "decoder" else query

    def mean(self, row: int, site: str, head: int) -> np.ndarray:
        return np.mean([vector for brought in self.outputs for vector in brought[site][:, head]], axis=0)

    def position_mean(self, row: int, site: str, head: int) -> np.ndarray:
        at = defaultdict(list)
        for other, brought in enumerate(self.outputs):
            for query, vector in enumerate(brought[site][:, head]):
                at[self.place(other, site, query)].append(vector)
        queries = range(len(self.outputs[row][site]))
        return np.stack([np.mean(at[self.place(row, site, query)], axis=0) for query in queries])

    def resample(self, row: int, site: str, head: int) -> np.ndarray:
        random = generator(self.trained.config.data.seed, head_runs.RANDOM_PURPOSE)
        return self.outputs[pick_patch_sources(self.trained, self.examples, random)[row]][site][:, head]


@pytest.mark.parametrize("kind", ["mean", "position-mean", "resample"])
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_put_in_a_heads_place_is_what_slow_loops_find(name: str, kind: str) -> None:
    trained = randomised(SHAPES[name], dtype=torch.float64)
    examples = trained.examples("test").take(slice(0, 6))
    slowly = Slowly(trained, examples)
    heads = heads_of(trained)
    plan = one_at_a_time(len(heads))
    found = run_variants(trained, examples, plan, make_replacements(trained, examples, [kind])[0], keep_predicted=True)
    value_of = getattr(slowly, kind.replace("-", "_"))
    for row in range(len(examples)):
        there = found.counted[row]
        for variant in range(len(plan)):
            where = () if variant == 0 else (heads[variant - 1].site, heads[variant - 1].index)
            answer, loss, _ = slowly.run(row, *where, *([value_of(row, *where)] if where else []))
            assert found.predicted[variant, row, there].tolist() == answer
            # Fillings and losses are kept in fp32: 24 bits, and a loss is a sum of a few.
            assert found.loss[variant, row] == pytest.approx(loss, rel=1e-5, abs=1e-5)
            right = examples.target.reshape(len(examples), -1)[row][there].tolist()
            hits = [token == wanted for token, wanted in zip(answer, right, strict=True)]
            assert found.token_right[variant, row, there].tolist() == hits
            assert found.right[variant, row] == (answer == right)
    assert len({tuple(row) for row in (examples.source != trained.task.vocabulary.pad)}) > 1 or name == "addition"


@pytest.mark.parametrize("name", SHAPES)
def test_outcomes_do_not_depend_on_the_size_of_a_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = randomised(SHAPES[name])
    examples = trained.examples("test").take(slice(0, 11))
    plan = one_at_a_time(len(heads_of(trained)), len(KINDS))
    outcomes, done = [], []
    for tokens in (1_000_000, 60):  # all at once, three to ten together
        monkeypatch.setattr(evaluation, "TOKENS_A_BATCH", {"cpu": tokens})
        steps: list[tuple[int, int]] = []
        replacements, _ = make_replacements(trained, examples)
        outcomes.append(
            run_variants(
                trained, examples, plan, replacements, lambda *now, s=steps: s.append(now), keep_predicted=True
            )
        )
        done.append(steps)
    assert done[0] == [(11, 11)]
    assert len(done[1]) > 1
    assert done[1] == sorted(set(done[1]))
    assert done[1][-1] == (11, 11)
    one, other = outcomes
    assert (one.counted == other.counted).all()
    assert (one.right == other.right).all()
    assert (one.token_right == other.token_right).all()
    assert (one.predicted == other.predicted)[:, one.counted].all()
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-4, atol=1e-4)  # fp32, other blocks of sums


@pytest.mark.parametrize("name", SHAPES)
def test_outcomes_do_not_depend_on_how_many_branches_are_computed_together(name: str, monkeypatch) -> None:
    trained = randomised(SHAPES[name])
    examples = trained.examples("test").take(slice(0, 7))
    plan = one_at_a_time(len(heads_of(trained)), len(KINDS))
    plan = np.concatenate([plan, plan[3:6]])
    replacements, _ = make_replacements(trained, examples)
    outcomes = []
    for together, rows in ((1, 1), (7, 1), (7, 7)):
        monkeypatch.setattr(variants, "branches_at_once", lambda batch, count=together: count)
        monkeypatch.setattr(dot_products, "rows_side_by_side", side_by_side(rows))
        outcomes.append(run_variants(trained, examples, plan, replacements, keep_predicted=True, keep_margin=True))
    one = outcomes[0]
    for other in outcomes[1:]:
        assert (one.right == other.right).all()
        assert (one.predicted == other.predicted).all()
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-4, atol=1e-4)  # fp32, other blocks of sums
        np.testing.assert_allclose(one.margin, other.margin, rtol=1e-3, atol=1e-4)
        assert (other.loss[-3:] == other.loss[3:6]).all()


def side_by_side(rows: int) -> Callable[..., int]:
    """So many rows in one block wherever one mask is for all, as on a GPU."""
    return lambda query, key, mask: rows if mask is None or len(mask) == 1 else 1


@pytest.mark.parametrize("name", SHAPES)
def test_a_margin_is_the_right_tokens_smallest_lead(name: str) -> None:
    trained = randomised(SHAPES[name])
    examples = trained.examples("test").take(slice(0, 12))
    plan = one_at_a_time(len(heads_of(trained)))
    found = run_variants(trained, examples, plan, make_replacements(trained, examples, ["zero"])[0], keep_margin=True)
    assert found.margin is not None
    assert ((found.margin > 0) == found.right).all()
    with torch.inference_mode():
        logits = trained.model(make_batch(trained.task, trained.model, examples, CPU).inputs)
    logits = logits.reshape(len(examples), -1, logits.shape[-1])
    for row, target in enumerate(examples.target.reshape(len(examples), -1)):
        leads = []
        for place in np.flatnonzero(found.counted[row]):
            others = [x for token, x in enumerate(logits[row, place].tolist()) if token != target[place]]
            leads.append(float(logits[row, place, target[place]]) - max(others))
        assert found.margin[0, row] == pytest.approx(min(leads), abs=1e-4)  # fp32, other blocks of sums
    assert run_variants(trained, examples, plan[:1], []).margin is None


# Donors


def sums_as_text(pairs: list[tuple[int, int]]) -> Examples:
    task = make_task(config(TEXT_ACROSS).task)
    rows = [task.from_record({"input": f"{a} + {b} = ", "target": str(a + b)}) for a, b in pairs]
    return Examples.join([Examples(np.array([source]), np.array([target])) for source, target in rows], 15)


NUMBERS = st.one_of(st.integers(0, 9), st.integers(10, 99))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=12), st.integers(0, 1_000))
def test_a_donor_is_another_example_of_the_same_lengths_where_there_is_one(pairs, seed) -> None:
    trained, examples = untrained(TEXT_ACROSS), sums_as_text(pairs)
    pad = trained.task.vocabulary.pad
    patch_sources = pick_patch_sources(trained, examples, np.random.default_rng(seed))
    rows = zip(examples.source, examples.target, strict=True)
    lengths = [(int((source != pad).sum()), int((target != pad).sum())) for source, target in rows]
    for row, other in enumerate(patch_sources):
        assert lengths[other] == lengths[row]
        assert (other == row) == (lengths.count(lengths[row]) == 1)
    assert (patch_sources == pick_patch_sources(trained, examples, np.random.default_rng(seed))).all()


@pytest.mark.parametrize("name", SHAPES)
def test_every_other_example_of_its_lengths_can_be_the_donor(name: str) -> None:
    trained = untrained(SHAPES[name])
    examples = trained.examples("test")
    pad = trained.task.vocabulary.pad
    tokens = np.concatenate([examples.source, examples.target.reshape(len(examples), -1)], axis=1)
    lengths = [tuple(row) for row in (tokens != pad).tolist()]
    common = Counter(lengths).most_common(1)[0][0]
    three = examples.take([row for row, length in enumerate(lengths) if length == common][:3])
    found = {tuple(pick_patch_sources(trained, three, np.random.default_rng(seed)).tolist()) for seed in range(200)}
    assert found == set(product((1, 2), (0, 2), (0, 1)))


def test_donors_are_fixed_by_the_data_seed_and_by_nothing_else() -> None:
    trained = untrained(TEXT_ACROSS)
    examples = trained.examples("test")
    plan = one_at_a_time(len(heads_of(trained)))

    def losses(one: Trained) -> np.ndarray:
        return run_variants(one, examples, plan, make_replacements(one, examples, ["resample"])[0]).loss

    other_seed = replace(trained, config=replace(trained.config, seed=trained.config.seed + 1))
    other_data = replace(trained, config=replace(trained.config, data=replace(trained.config.data, seed=1)))
    torch.manual_seed(77)
    assert (losses(trained) == losses(other_seed)).all()
    assert (losses(trained)[1:] != losses(other_data)[1:]).any()


def test_examples_without_a_donor_are_counted_and_left_as_they_are() -> None:
    trained = randomised(TEXT_ACROSS)
    examples = sums_as_text([(1, 2), (45, 32)])
    replacements, without = make_replacements(trained, examples, ["resample"])
    assert without == 2
    found = run_variants(trained, examples, one_at_a_time(len(heads_of(trained))), replacements)
    np.testing.assert_allclose(found.loss[1:], np.broadcast_to(found.loss[0], found.loss[1:].shape), rtol=1e-6)
    assert ablate(TrainedRuns(trained, examples)).without_source == 2
    assert make_replacements(trained, examples, ["zero", "mean"])[1] == 0
