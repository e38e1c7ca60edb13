"""Captured weights and outputs are those of greedy decoding, step by step and without a KV cache."""

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway import evaluation
from headway.batches import make_batch
from headway.evaluation import Trained
from headway.head_analysis import capture as room
from headway.head_analysis.capture import Capture, capture, commonest_layout, mean_weights
from headway.model.transformer import Inputs
from headway.results.schema import write
from headway.tasks import Examples
from tests.head_analysis.small import ADDITION, SHAPES, SORTEDNESS, TEXT, TEXT_ACROSS, favour, untrained

NEAR = {"rtol": 0, "atol": 2e-5}
"""The same sums of fp32 numbers of size ten in another order; a head or a step too far is off by more than 1e-2."""
WRITERS = {name: base for name, base in SHAPES.items() if name != "sortedness"}


class Steps:
    """Greedy decoding without a KV cache: what every head saw and brought at each step, noted by plain hooks."""

    def __init__(self, trained: Trained, source: np.ndarray):
        self.trained = trained
        self.weights: list[dict[str, Tensor]] = []
        self.outputs: list[dict[str, Tensor]] = []
        self.prefix = [trained.task.vocabulary.bos]
        tokens = torch.from_numpy(source[source != trained.task.vocabulary.pad])[None]
        for _ in range(trained.task.longest_answer(tokens.shape[1])):
            self.prefix.append(int(self.step(tokens).argmax()))
            if self.prefix[-1] == trained.task.vocabulary.eos:
                break

    @torch.inference_mode()
    def step(self, source: Tensor) -> Tensor:
        model, task = self.trained.model, self.trained.task
        prefix = torch.tensor([self.prefix])
        places = task.positions(model.encoding.position_kind, source, prefix)
        inputs = model.placed(Inputs(source, places[0], None, prefix, places[1]))
        weights: dict[str, Tensor] = {}
        outputs: dict[str, Tensor] = {}
        handles = [self.listen(site.name, outputs) for site in model.sites]
        logits = model.decode(model.begin(inputs, weights), inputs, record=weights)
        for handle in handles:
            handle.remove()
        self.weights.append(weights)
        self.outputs.append(outputs)
        return logits[0, -1]

    def listen(self, site: str, outputs: dict[str, Tensor]) -> Any:
        stack, layer, looks = site.split(".")
        block = getattr(self.trained.model, stack)[int(layer)]
        attention = block.cross if looks == "cross" else block.own

        def note(module: Any, arguments: tuple[Tensor]) -> None:
            outputs[site] = arguments[0].reshape(1, -1, len(attention.kept), attention.d_head)

        return attention.output.register_forward_pre_hook(note)


def check_against_steps(trained: Trained, example: Examples, found: Capture) -> Steps:
    """Every step's weights and outputs are the captured ones, cut to the tokens that were there."""
    steps = Steps(trained, example.source[0])
    names = [trained.task.vocabulary.tokens[token] for token in steps.prefix]
    assert (found.prefix, found.written) == (names[:-1], names[1:])
    compared = defaultdict(int)
    for weights, outputs in zip(steps.weights, steps.outputs, strict=True):
        for site in trained.model.sites:
            for place, head in enumerate(site.heads):
                table, brought = weights[site.name][0, place], outputs[site.name][0, :, place]
                captured = torch.from_numpy(found.weights[str(head)])
                torch.testing.assert_close(captured[: table.shape[0], : table.shape[1]], table, **NEAR)
                cut = torch.from_numpy(found.outputs[str(head)])[: len(brought)]
                torch.testing.assert_close(cut, brought, **NEAR)
                compared[site.name, table.shape] += 1
    for site in trained.model.sites:  # the last step had all tokens there are
        assert found.weights[str(site.heads[0])].shape == steps.weights[-1][site.name].shape[2:]
    assert len(compared) >= len(trained.model.sites)
    return steps


@pytest.mark.parametrize("shape", WRITERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_wrong_answer_is_captured_as_the_model_wrote_it(shape: str, seed: int) -> None:
    trained = untrained(WRITERS[shape], seed)
    examples = trained.examples("test").take(slice(0, 3))
    for row, found in enumerate(capture(trained, examples)):
        check_against_steps(trained, examples.take([row]), found)


@pytest.mark.parametrize("shape", WRITERS)
def test_an_answer_that_never_ends_is_captured_to_the_longest_length(shape: str) -> None:
    trained = untrained(WRITERS[shape])
    favour(trained, trained.task.vocabulary.eos, -1e4)
    examples = trained.examples("test").take(slice(0, 2))
    for row, found in enumerate(capture(trained, examples)):
        check_against_steps(trained, examples.take([row]), found)
        length = int((examples.source[row] != trained.task.vocabulary.pad).sum())
        assert len(found.written) == len(found.prefix) == trained.task.longest_answer(length)
        assert "EOS" not in found.written


@pytest.mark.parametrize("shape", WRITERS)
def test_an_answer_that_ends_at_once_has_one_query(shape: str) -> None:
    trained = untrained(WRITERS[shape])
    favour(trained, trained.task.vocabulary.eos, 1e4)
    example = trained.examples("test").take([0])
    (found,) = capture(trained, example)
    assert (found.prefix, found.written) == (["BOS"], ["EOS"])
    assert found.target[-1] == "EOS"
    check_against_steps(trained, example, found)


@pytest.mark.parametrize("shape", WRITERS)
@pytest.mark.parametrize("written", ["PAD", "BOS"])
def test_an_answer_of_padding_or_of_starts_is_captured_like_any_other(shape: str, written: str) -> None:
    trained = untrained(WRITERS[shape])
    favour(trained, trained.task.vocabulary.tokens.index(written), 1e4)
    example = trained.examples("test").take([1])
    (found,) = capture(trained, example)
    assert set(found.written) == {written}
    check_against_steps(trained, example, found)


def test_the_tokens_are_named_without_padding() -> None:
    trained = untrained(TEXT)
    examples = trained.examples("test")
    short = int(np.argmax((examples.source == trained.task.vocabulary.pad).sum(1)))
    (found,) = capture(trained, examples.take([short]))
    assert "".join(found.source) == trained.task.show(examples.source[short])
    right = trained.task.show(examples.source[short], examples.target[short])
    assert "".join(found.target) == right.rpartition("-> ")[2] + "EOS"
    tokens = len(found.source) + len(found.prefix)
    assert found.weights["dec1.self.h2"].shape == (tokens, tokens)
    assert found.outputs["dec1.self.h2"].shape == (tokens, 5)


def test_causal_cells_are_exactly_0_and_every_row_adds_up_to_1() -> None:
    for base in SHAPES.values():
        trained = untrained(base)
        for found in capture(trained, trained.examples("test").take(slice(0, 3))):
            for site in trained.model.sites:
                for head in site.heads:
                    table = found.weights[str(head)]
                    np.testing.assert_allclose(table.sum(1), 1, rtol=0, atol=1e-6)
                    if site.kind == "decoder":
                        assert (table[np.triu_indices(len(table), 1)] == 0).all()
                    else:
                        assert (table > 0).all()


def test_a_causal_encoder_is_captured_as_one() -> None:
    trained = untrained(SORTEDNESS, model={"causal_encoder": True})
    (found,) = capture(trained, trained.examples("test").take([0]))
    table = found.weights["enc1.self.h1"]
    assert (table[np.triu_indices(len(table), 1)] == 0).all()


def test_a_class_is_captured_with_its_answer() -> None:
    trained = untrained(SORTEDNESS)
    examples = trained.examples("test").take(slice(0, 8))
    found = capture(trained, examples)
    assert {one.target[0] for one in found} == {"0", "1"}
    for row, one in enumerate(found):
        batch = make_batch(trained.task, trained.model, examples.take([row]), torch.device("cpu"))
        record: dict[str, Tensor] = {}
        with torch.inference_mode():
            answer = int(trained.model(batch.inputs, record).argmax())
        assert (one.written, one.target, one.prefix) == ([str(answer)], [str(examples.target[row])], [])
        for site in trained.model.sites:
            for place, head in enumerate(site.heads):
                np.testing.assert_allclose(one.weights[str(head)], record[site.name][0, place], rtol=0, atol=1e-6)


def test_heads_of_a_pruned_model_keep_their_names() -> None:
    kept = ["enc0.self.h2", "dec0.self.h0", "dec0.self.h1", "dec1.cross.h1"]
    trained = untrained(ADDITION, model={"kept_heads": kept})
    (found,) = capture(trained, trained.examples("test").take([0]))
    assert list(found.weights) == list(found.outputs) == kept


def test_the_json_form_has_rounded_weights_and_no_outputs() -> None:
    trained = untrained(ADDITION)
    (found,) = capture(trained, trained.examples("test").take([0]))
    document = json.loads(json.dumps(write(found.result()), allow_nan=False))
    assert document.keys() == {"source", "target", "written", "prefix", "weights"}
    assert len(document["source"]) == 5
    assert document["target"][-1] == "EOS"
    for head, table in document["weights"].items():
        np.testing.assert_allclose(table, found.weights[head], rtol=0, atol=0.5e-4 + 1e-9)
        assert all(round(cell, 4) == cell for row in table for cell in row)


# The mean over a split.


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tokens", [8_192, 40])
def test_the_mean_is_the_plain_mean_over_the_commonest_layout(
    shape: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(evaluation.TOKENS_A_BATCH, "cpu", tokens)
    trained = untrained(SHAPES[shape])
    examples = trained.examples("test")
    rows = commonest_layout(trained, examples)
    sums: dict[str, Any] = defaultdict(float)
    for row in rows:
        batch = make_batch(trained.task, trained.model, examples.take([row]), torch.device("cpu"))
        record: dict[str, Tensor] = {}
        with torch.inference_mode():
            trained.model(batch.inputs, record)
        for site in trained.model.sites:
            for place, head in enumerate(site.heads):
                sums[str(head)] += record[site.name][0, place].double().numpy()
    found = mean_weights(trained, examples)
    assert found is not None
    json.dumps(write(found), allow_nan=False)
    assert found.n == len(rows)
    assert found.weights.keys() == sums.keys()
    for head, total in sums.items():
        np.testing.assert_allclose(found.weights[head], total / len(rows), rtol=0, atol=0.5e-4 + 1e-6)
    width, answer = len(found.source), len(found.prefix)
    assert width == int((examples.source[rows[0]] != trained.task.vocabulary.pad).sum())
    if trained.task.kind == "class":
        assert (found.prefix, found.generated) == ((), ())
    else:
        assert answer == len(found.generated) == int((examples.target[rows[0]] != trained.task.vocabulary.pad).sum())
        assert found.prefix == ("BOS", *found.generated[:-1])


def test_the_names_of_the_mean_are_the_places_of_a_sum() -> None:
    trained = untrained(ADDITION)
    found = mean_weights(trained, trained.examples("test"))
    assert found is not None
    assert found.source == ("a1", "a0", "+", "b1", "b0")
    assert found.prefix == ("BOS", "column 2", "column 1", "column 0")
    assert found.generated == ("column 2", "column 1", "column 0", "end")


def sums(trained: Trained, *texts: str) -> Examples:
    task = trained.task
    pieces = []
    for text in texts:
        source = np.array([[task.vocabulary.tokens.index(character) for character in text]])
        pieces.append(Examples(source, task.answer(source)))
    return Examples.join(pieces, task.vocabulary.pad)


def test_the_commonest_layout_counts_source_answer_and_where_the_signs_stand() -> None:
    trained = untrained(TEXT_ACROSS)
    # 9 characters: 2 + 1 digits with two answers of three and three of two digits, 1 + 2 digits twice; 8 characters.
    texts = ["95 + 7 = ", "12 + 3 = ", "1 + 2 = ", "12 + 7 = ", "3 + 4 = ", "91 + 9 = ", "5 + 52 = ", "5 + 12 = "]
    assert commonest_layout(trained, sums(trained, *texts, "43 + 5 = ")).tolist() == [1, 3, 8]


def test_the_mean_of_sums_of_any_length_is_over_sums_written_alike_and_says_so() -> None:
    trained = untrained(TEXT_ACROSS)
    found = mean_weights(trained, sums(trained, "12 + 3 = ", "12 + 7 = ", "5 + 52 = ", "43 + 5 = "))
    assert found is not None
    assert (found.n, found.alike) == (3, "2 + 1 digits, sum of 2")
    assert found.source == ("a1", "a0", " ", "+", " ", "b0", " ", "=", " ")
    assert found.generated[-1] == "end"
    alone = mean_weights(trained, sums(trained, "12 + 3 = ", "12 + 7 = "))
    assert alone is not None
    assert alone.alike is None


def test_the_commonest_layout_of_classes_is_that_of_the_source() -> None:
    trained = untrained(SORTEDNESS)
    pad = trained.task.vocabulary.pad
    source = np.array([[1, 2, 3, pad], [1, 2, 3, 4], [5, 4, 3, pad], [1, 2, pad, pad]])
    assert commonest_layout(trained, Examples(source, np.array([1, 1, 0, 1]))).tolist() == [0, 2]


@pytest.mark.parametrize(("longest", "shown"), [(3, False), (4, False), (5, True)])
def test_a_mean_that_is_too_long_to_show_is_left_out(
    longest: int, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LONGEST_SHOWN", longest)
    trained = untrained(ADDITION)
    assert (mean_weights(trained, trained.examples("test")) is not None) == shown
