"""The page's numbers are PyTorch's: every encoding, every pooling, every shape, with and without heads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.api import read_recipe
from headway.batches import make_batch
from headway.evaluation import Trained, decode
from headway.explorer.packing import Pack
from headway.explorer.writing import shipped
from headway.head_analysis.attribution import attribute
from headway.head_analysis.handles import intervene
from headway.model.encodings import ENCODINGS
from headway.model.poolings import POOLINGS
from headway.results.schema import write
from headway.tasks import Examples, make_task
from headway.tasks.files import make_splits
from tests.explorer.parity import (
    COUNTED,
    TOLERANCE,
    as_json,
    draw,
    expected,
    export,
    largest_gap,
    random_off,
    unpack,
    untrained,
    write_harness,
)

DIGIT_PLACES = ("abacus", "coupled")
AMOUNTS: dict[str, tuple[int, list[int] | None]] = {
    "sortedness": (1, [2, 3, 6, 11, 29]),
    "addition": (5, None),
    "addition-text": (2, [8, 12, 20]),
}
"""How many examples, of which lengths: some shorter and some longer than in training."""


def sortedness_models() -> dict[str, dict[str, Any]]:
    """Every encoding with one pooling, every pooling with one encoding, and what else a model may have."""
    plain = [name for name in ENCODINGS.names() if name not in DIGIT_PLACES]
    found: dict[str, dict[str, Any]] = {name: {"encoding": {"name": name}} for name in plain}
    found |= {f"pooling {name}": {"encoding": "none", "pooling": name} for name in POOLINGS.names()}
    return found | {
        "directional alibi": {"encoding": {"name": "alibi", "direction": "directional"}},
        "clamped": {"encoding": {"name": "learned", "table_size": 4}},
        "randomized fire": {"encoding": {"name": "randomized", "over": "fire", "max_position": 97}},
        "randomized rotary": {"encoding": {"name": "randomized", "over": "rotary", "max_position": 300}},
        "window": {"encoding": "clipped", "window": 2, "causal_encoder": True},
        "log length": {"encoding": "t5", "log_length_scale": True, "norm": "post", "activation": "relu"},
        "pruned": {"encoding": "alibi", "kept_heads": ("enc1.self.h0", "enc1.self.h2")},
    }


def sum_models() -> dict[str, tuple[str, dict[str, Any]]]:
    tried = [name for name in ENCODINGS.names() if name not in ("sinusoidal", "none", "one-hot")]
    found: dict[str, tuple[str, dict[str, Any]]] = {name: ("addition", {"encoding": {"name": name}}) for name in tried}
    decoder = {"shape": "decoder"}
    return found | {
        "decoder": ("addition", {**decoder, "encoding": "sinusoidal"}),
        "decoder randomized": ("addition", {**decoder, "encoding": {"name": "randomized", "over": "t5"}}),
        "decoder coupled": ("addition", {**decoder, "encoding": "coupled", "log_length_scale": True}),
        "window of digits": ("addition", {"encoding": {"name": "clipped", "positions": "coupled"}, "window": 1}),
        "post": ("addition", {"encoding": "rotary", "norm": "post", "activation": "relu", "causal_encoder": True}),
        "pruned": ("addition", {"encoding": "t5", "kept_heads": ("dec0.cross.h1", "dec1.self.h2", "enc0.self.h0")}),
        "text": ("addition-text", {"encoding": "rotary"}),
        "text coupled": ("addition-text", {"encoding": "coupled"}),
        "text decoder": ("addition-text", {**decoder, "encoding": "rotary"}),
        "text abacus decoder": ("addition-text", {**decoder, "encoding": "abacus"}),
        "units first coupled": ("addition-text-units-first", {"encoding": "coupled"}),
        "units first abacus": ("addition-text-units-first", {"encoding": "abacus"}),
        "text randomized": ("addition-text", {"encoding": "randomized"}),
        "window by kind": (
            "addition",
            {"encoding": {"name": "clipped", "positions": "coupled"}, "encoder_window": 0, "cross_window": 1},
        ),
        "text window": ("addition-text", {"encoding": {"name": "clipped", "positions": "abacus"}, "window": 3}),
    }


MODELS = {f"sortedness {name}": ("sortedness", model) for name, model in sortedness_models().items()} | sum_models()


@pytest.fixture(scope="module")
def runs() -> dict[str, Any]:
    """Each model with its document."""
    made = {name: untrained(task, seed, name, **model) for seed, (name, (task, model)) in enumerate(MODELS.items())}
    return {name: (trained, export(trained)) for name, trained in made.items()}


@pytest.fixture(scope="module")
def tab(browser: Any, runs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One page with the engine and all models."""
    documents = [document for _, document in runs.values()]
    path = write_harness(documents, tmp_path_factory.mktemp("engine") / "engine.html")
    opened = browser.new_page()
    opened.goto(path.as_uri())
    return opened


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_pytorch(tab: Any, runs: dict[str, Any], name: str) -> None:
    trained, document = runs[name]
    random = np.random.default_rng(7)
    examples = draw(trained, random, *AMOUNTS[trained.task.name])
    offs: list[dict[str, str]] = [{}, random_off(trained, random), random_off(trained, random)]
    assert largest_gap(tab, list(MODELS).index(name), trained, document, examples, offs) < TOLERANCE


@pytest.mark.parametrize("name", ["sortedness rotary", "sortedness t5", "sortedness fire", "sortedness randomized"])
def test_the_longest_sequences_of_the_page_are_right_too(tab: Any, runs: dict[str, Any], name: str) -> None:
    trained, document = runs[name]
    examples = draw(trained, np.random.default_rng(5), 1, [document["task"]["longest"]])
    assert examples.source.shape[1] == 256
    assert largest_gap(tab, list(MODELS).index(name), trained, document, examples, [{}]) < TOLERANCE


@pytest.mark.parametrize("name", ["sortedness pooling multi-feature", "rotary", "text coupled"])
def test_without_webassembly_the_numbers_are_the_same(tab: Any, runs: dict[str, Any], name: str) -> None:
    trained, document = runs[name]
    examples = draw(trained, np.random.default_rng(8), 3)
    offs = [random_off(trained, np.random.default_rng(9))]
    index = list(MODELS).index(name)
    assert tab.evaluate("Headway.kernel !== null"), "the fast way is there in this browser"
    assert largest_gap(tab, index, trained, document, examples, offs, plain=True) < TOLERANCE


# Planted faults


def planted(document: dict[str, Any], name: str, change: Any) -> dict[str, Any]:
    """The document with one tensor changed."""
    pack = Pack("fp32")
    for one, entry in document["weights"]["index"].items():
        values = unpack(document["weights"], one)
        pack.add(one, change(values) if one == name else values, entry["type"])
    return {**document, "weights": write(pack.packed())}


def shifted(values: np.ndarray) -> np.ndarray:
    """Every number at its neighbour's place."""
    return np.roll(values, 1, axis=-1)


FAULTS: list[tuple[str, str, Any]] = [
    ("sortedness t5", "bias.encoder", shifted),
    ("sortedness fire", "bias.encoder", shifted),
    ("sortedness rotary", "turned", np.abs),
    ("sortedness learned", "added", lambda values: np.roll(values, 1, axis=0)),
    ("sortedness randomized", "placement", lambda values: np.maximum(values, 1) - 1),
    ("pruned", "mean.encoder.0.self", lambda values: values + np.float32(0.01)),
    ("clipped", "bias.cross", shifted),
]


@pytest.fixture(scope="module")
def faulty(browser: Any, runs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A page whose models have a fault each."""
    documents = [planted(runs[model][1], tensor, change) for model, tensor, change in FAULTS]
    opened = browser.new_page()
    opened.goto(write_harness(documents, tmp_path_factory.mktemp("faulty") / "engine.html").as_uri())
    return opened


@pytest.mark.parametrize("index", range(len(FAULTS)), ids=[f"{model}, {tensor}" for model, tensor, _ in FAULTS])
def test_a_planted_fault_is_seen(faulty: Any, runs: dict[str, Any], index: int) -> None:
    trained, document = runs[FAULTS[index][0]]
    examples = draw(trained, np.random.default_rng(7), *AMOUNTS[trained.task.name])
    off = {str(trained.model.sites[0].heads[0]): "mean"}
    assert largest_gap(faulty, index, trained, document, examples, [off]) > 10 * TOLERANCE


# Answers with everything that is shown

ANSWER = """({ index, source }) => {
  const engine = Headway.open(runsOf()[index]), found = engine.answer(source);
  const listed = (table) => Object.fromEntries(Object.entries(table).map(([key, value]) => [key, Array.from(value)]));
  return { tokens: found.tokens, probabilities: found.steps.map((step) => Array.from(step.probabilities)),
           weights: listed(found.weights), outputs: listed(found.outputs), shapes: found.shapes };
}"""


@pytest.mark.parametrize("name", ["rotary", "decoder", "text abacus decoder", "text randomized", "pruned"])
def test_decoding_writes_what_pytorch_writes_and_shows_its_weights(tab: Any, runs: dict[str, Any], name: str) -> None:
    trained, _ = runs[name]
    example = draw(trained, np.random.default_rng(3), 1)
    source = as_json(trained, example)[0]["source"]
    found = tab.evaluate(ANSWER, {"index": list(MODELS).index(name), "source": source})
    batch = make_batch(trained.task, trained.model, example, torch.device("cpu"))
    written = decode(trained.model, trained.task, batch, cache=False)[0]
    assert found["tokens"] == written.tolist()
    # The pass that read what was written, weights and all.
    record: dict[str, torch.Tensor] = {}
    answered = Examples(example.source, written.numpy()[None])
    with torch.inference_mode():
        again = make_batch(trained.task, trained.model, answered, torch.device("cpu"), cut=False)
        logits = trained.model(again.inputs, record)[0]
    # Probabilities and weights are at most 1; rounding differs in the sixth place.
    np.testing.assert_allclose(found["probabilities"], logits.softmax(-1), atol=1e-5)
    for site in trained.model.sites:
        for place, head in enumerate(site.heads):
            shape = found["shapes"][site.name]
            shown = np.array(found["weights"][str(head)]).reshape(shape)
            np.testing.assert_allclose(shown, record[site.name][0, place], atol=1e-5)
            assert len(found["outputs"][str(head)]) == shape[0] * trained.model.config.d_head


PATCH = """({ index, base, patch_source, head, at }) => {
  const engine = Headway.open(runsOf()[index]);
  const prefix = (example) => [engine.run.vocabulary.bos, ...example.target.slice(0, -1)];
  const taken = engine.read(patch_source.source, prefix(patch_source)).outputs[head];
  const found = engine.read(base.source, prefix(base), { patch: { [head]: taken }, at });
  return found.steps.map((step) => Array.from(step.logits));
}"""


@pytest.mark.parametrize("at", [None, 3])
def test_a_patch_puts_one_examples_output_into_another(tab: Any, runs: dict[str, Any], at: int | None) -> None:
    """At every position, or at one of them alone."""
    trained, _ = runs["decoder"]
    base, patch_source = (draw(trained, np.random.default_rng(seed), 1) for seed in (4, 5))
    site = trained.model.sites[0]
    outputs: list[torch.Tensor] = []
    patch_sources, bases = (
        make_batch(trained.task, trained.model, one, torch.device("cpu")) for one in (patch_source, base)
    )

    def keep(heads: torch.Tensor) -> torch.Tensor:
        outputs.append(heads.clone())
        return heads

    def put(heads: torch.Tensor) -> torch.Tensor:
        changed = heads.clone()
        where = slice(None) if at is None else slice(at, at + 1)
        changed[:, where, 1] = outputs[0][:, where, 1]
        return changed

    with torch.inference_mode():
        with intervene(trained.model, {site.name: keep}):
            trained.model(patch_sources.inputs)
        with intervene(trained.model, {site.name: put}):
            wanted = trained.model(bases.inputs)[0].numpy()
    pair = {"base": as_json(trained, base)[0], "patch_source": as_json(trained, patch_source)[0]}
    found = tab.evaluate(PATCH, {"index": list(MODELS).index("decoder"), "head": str(site.heads[1]), "at": at, **pair})
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE)


SPLIT = """({ index, example, shift }) => {
  const engine = Headway.open(runsOf()[index]), { bos } = engine.run.vocabulary;
  const result = engine.read(example.source, [bos, ...example.target.slice(0, -1)]);
  const margins = result.steps.map((step, at) => {
    const own = example.target[at], others = Array.from(step.logits, (logit, id) => (id === own ? -Infinity : logit));
    const other = others.indexOf(Math.max(...others));
    return { at, own, other, value: step.logits[own] - step.logits[other] };
  });
  const { at, own, other, value } = margins.reduce((one, next) => (next.value < one.value ? next : one));
  const row = (shift ? example.source.length : 0) + at;
  return { margin: value, ...Headway.attribution.split(engine, result, row, own, other) };
}"""


@pytest.mark.parametrize("name", ["rotary", "decoder coupled", "pruned"])
def test_direct_logit_attribution_is_that_of_the_analysis(tab: Any, runs: dict[str, Any], name: str) -> None:
    trained, _ = runs[name]
    example = draw(trained, np.random.default_rng(6), 1)
    wanted = attribute(trained, example)
    assert wanted is not None
    shift = trained.model.config.shape == "decoder"
    argument = {"index": list(MODELS).index(name), "example": as_json(trained, example)[0], "shift": shift}
    found = tab.evaluate(SPLIT, argument)
    values = {part["part"]: part["value"] for part in found["parts"]}
    assert values == pytest.approx({part.part: part.value for part in wanted.parts}, abs=TOLERANCE)
    assert found["total"] == pytest.approx(found["margin"], abs=TOLERANCE)
    assert len({round(value, 3) for value in values.values()}) > 3, "parts that differ, so that a mix-up shows"


@pytest.mark.parametrize(
    ("name", "call", "word"),
    [
        ("sortedness none", "answer([1])", "the source has 1 tokens; 2 to 256 can be shown"),
        ("sortedness none", "answer([1, 99])", "the source holds 99, which is no token"),
        ("sortedness none", "answer([1, 2.5])", "the source holds 2.5, which is no token"),
        ("sortedness none", "read([1, 2], [1])", "this model answers with a class; it reads no prefix"),
        ("t5", "answer([1, 2])", "the source has 2 tokens; 5 can be shown"),
        ("t5", "read([1, 2, 10, 3, 4], [])", "the prefix has 0 tokens; 1 to 4 can be shown"),
        ("t5", 'answer([1, 2, 10, 3, 4], {off: {"enc9.self.h0": "zero"}})', "the model has no head enc9.self.h0"),
        (
            "t5",
            'answer([1, 2, 10, 3, 4], {off: {"enc0.self.h0": "none"}})',
            "enc0.self.h0 is off by none; zero or mean",
        ),
    ],
)
def test_what_the_engine_refuses_it_refuses_in_words(tab: Any, name: str, call: str, word: str) -> None:
    code = f"""(index) => {{
      const engine = Headway.open(runsOf()[index]);
      try {{ engine.{call}; return null; }} catch (error) {{ return [error.name, error.message]; }}
    }}"""
    assert tab.evaluate(code, list(MODELS).index(name)) == ["RangeError", word]


KEPT_GAP = """({ index, examples, options }) => {
  const engine = Headway.open(runsOf()[index]), { teach } = Headway.passes, memo = { streams: [] };
  let gap = 0, change = 0;
  const whole = teach(engine, examples, {});
  for (const option of options) {
    const kept = teach(engine, examples, option, memo), fresh = teach(engine, examples, option);
    fresh.forEach((rows, i) => rows.forEach((logits, t) => logits.forEach((logit, k) => {
      gap = Math.max(gap, Math.abs(logit - kept[i][t][k]));
      change = Math.max(change, Math.abs(logit - whole[i][t][k]));
    })));
  }
  return [gap, change];
}"""


@pytest.mark.parametrize("name", ["text", "decoder", "sortedness t5"])
def test_a_pass_uses_of_the_one_before_only_what_no_change_touches(tab: Any, runs: dict[str, Any], name: str) -> None:
    """Each head goes off after the whole model and after every other head, with the same memory of streams."""
    trained, _ = runs[name]
    heads = [str(head) for site in trained.model.sites for head in site.heads]
    options = [{"off": off} for head in heads for off in ({}, {head: "zero"})]
    lengths = [5] if name.startswith("sortedness") else [12] if name == "text" else None
    examples = as_json(trained, draw(trained, np.random.default_rng(3), 2, lengths))
    gap, change = tab.evaluate(KEPT_GAP, {"index": list(MODELS).index(name), "examples": examples, "options": options})
    assert gap < TOLERANCE < change


@pytest.mark.parametrize("name", ["text", "decoder", "sortedness t5"])
def test_a_pass_uses_nothing_that_a_head_that_was_off_left(tab: Any, runs: dict[str, Any], name: str) -> None:
    """One head after another goes off and no pass of the whole model stands between, forwards and backwards."""
    trained, _ = runs[name]
    heads = [str(head) for site in trained.model.sites for head in site.heads]
    orders: list[list[dict[str, str]]] = [
        [{head: "zero"} for head in [*heads, *reversed(heads)]],
        [{heads[0]: "zero"}, {}, {heads[-1]: "zero"}],
        [{heads[0]: "zero", heads[-1]: "mean"}, {heads[-1]: "zero"}],
    ]
    lengths = [5] if name.startswith("sortedness") else [12] if name == "text" else None
    examples = as_json(trained, draw(trained, np.random.default_rng(3), 2, lengths))
    for order in orders:
        options = [{"off": off} for off in order]
        argument = {"index": list(MODELS).index(name), "examples": examples, "options": options}
        gap, change = tab.evaluate(KEPT_GAP, argument)
        assert gap < TOLERANCE < change, order


# Workers

COUNT = """async ({ index, offs, size }) => {
  const engine = Headway.open(runsOf()[index]), pool = Headway.pool(size), found = [];
  for (const off of offs) {
    const seen = [], job = pool.accuracy(engine, { off }, (state) => seen.push(state.done));
    found.push({ ...(await job.promise), seen });
  }
  return found;
}"""


@pytest.mark.parametrize(("name", "size"), [("text", 2), ("text", 0), ("sortedness learned", 2), ("decoder", 2)])
def test_accuracy_is_counted_up_in_workers(tab: Any, runs: dict[str, Any], name: str, size: int) -> None:
    """What was computed before is used again, so heads go off and on in an order that would show a stale stream.

    Without workers the page's own thread counts.
    """
    trained, document = runs[name]
    heads = [str(head) for site in trained.model.sites for head in site.heads]
    offs: list[dict[str, str]] = [{heads[-1]: "zero"}, {heads[0]: "mean"}, {heads[-1]: "mean", heads[-2]: "zero"}, {}]
    found = tab.evaluate(COUNT, {"index": list(MODELS).index(name), "offs": offs, "size": size})
    for off, counted in zip(offs, found, strict=True):
        wanted = right_in_pytorch(trained, document, off)
        assert counted["verdicts"] == wanted
        assert (counted["right"], counted["done"], counted["total"]) == (sum(wanted), COUNTED, COUNTED)
        assert counted["seen"] == sorted(counted["seen"])
        assert counted["seen"][-1] == COUNTED


def right_in_pytorch(trained: Trained, document: dict[str, Any], off: dict[str, str]) -> list[bool]:
    """Which of the page's examples PyTorch gets right with these heads off."""
    rows = [Examples(np.array([one["source"]]), np.array([one["target"]])) for one in document["examples"]]
    together = Examples.join(rows, trained.task.vocabulary.pad)
    predicted = torch.from_numpy(expected(trained, document, together, off).argmax(-1))
    target = torch.from_numpy(together.target)
    return trained.task.correct(predicted.reshape(target.shape), target).tolist()


def test_a_cancelled_count_ends_at_once_and_the_next_one_is_right(tab: Any, runs: dict[str, Any]) -> None:
    code = """async (index) => {
      const engine = Headway.open(runsOf()[index]), sources = engine.run.examples.map((example) => example.source);
      const pool = Headway.pool(1), job = pool.accuracy(engine, {}, () => job.cancel());
      const first = await job.promise, second = await pool.accuracy(engine, {}).promise;
      const many = pool.answers(engine, sources.slice(0, 2));
      const one = await pool.answer(engine, sources[0]).promise, both = await many.promise;
      const wrong = await pool.answer(engine, []).promise.catch((error) => error.message);
      return { first, second, alike: [one.tokens, both[0].tokens, engine.answer(sources[0]).tokens],
               count: both.length, shown: Object.keys(one.weights).length, wrong };
    }"""
    found = tab.evaluate(code, list(MODELS).index("text"))
    assert found["first"]["cancelled"] is True
    assert found["first"]["done"] < COUNTED
    assert found["second"]["done"] == found["second"]["total"] == COUNTED
    assert found["alike"][0] == found["alike"][1] == found["alike"][2]
    assert (found["count"], found["shown"]) == (2, 15)
    assert found["wrong"] == "the source has 0 tokens; 8 to 256 can be shown"


def test_where_workers_and_webassembly_are_forbidden_the_page_counts_the_same(
    browser: Any, runs: dict[str, Any], tmp_path: Path
) -> None:
    trained, document = runs["text"]
    opened = browser.new_page()
    policy = "default-src 'none'; script-src 'unsafe-inline'; worker-src 'none'"
    opened.goto(write_harness([document], tmp_path / "engine.html", policy).as_uri())
    assert opened.evaluate("Headway.kernel") is None
    found = opened.evaluate(COUNT, {"index": 0, "offs": [{}, {"dec0.cross.h1": "zero"}], "size": 2})
    assert [one["verdicts"] for one in found] == [
        right_in_pytorch(trained, document, off) for off in ({}, {"dec0.cross.h1": "zero"})
    ]
    opened.close()


def test_in_a_notebook_the_page_works_in_a_frame_that_is_cut_off(
    browser: Any, runs: dict[str, Any], tmp_path: Path
) -> None:
    trained, document = runs["learned"]
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{trained.explore()._repr_html_()}")
    opened, problems = browser.new_page(), []
    opened.on("console", lambda message: problems.append(message.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto((tmp_path / "notebook.html").as_uri())
    code = """async () => {
      const run = JSON.parse(document.getElementById("data").textContent).runs[0], pool = Headway.pool(2);
      const found = await pool.accuracy(Headway.open(run), {}).promise;
      return [found.right, found.total, pool.text !== null, Headway.kernel !== null, self.origin];
    }"""
    right = sum(right_in_pytorch(trained, document, {}))
    assert opened.frames[1].evaluate(code) == [right, COUNTED, True, True, "null"]
    assert problems == []
    opened.close()


# The trained models that come with headway


@pytest.fixture(scope="module")
def shipped_tab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    opened = browser.new_page()
    opened.goto(write_harness(shipped(), tmp_path_factory.mktemp("shipped") / "engine.html").as_uri())
    return opened


@pytest.mark.parametrize("n", [100, pytest.param(2_000, marks=pytest.mark.long)])
def test_the_shipped_model_adds_as_it_did_in_full_precision(shipped_tab: Any, n: int) -> None:
    """In PyTorch it is right on the whole domain; so every answer of the page must be the sum."""
    _, config = read_recipe("addition")
    test = make_splits(make_task(config.task), config.data)["test"].take(slice(0, n))
    code = (
        "(sources) => { const engine = Headway.open(runsOf()[0]); return sources.map((s) => engine.answer(s).tokens); }"
    )
    assert shipped_tab.evaluate(code, test.source.tolist()) == test.target.tolist()


def test_the_shipped_models_are_as_right_in_the_page_as_in_pytorch(shipped_tab: Any) -> None:
    code = """async () => {
      const pool = Headway.pool(2), found = [];
      for (const run of runsOf()) found.push((await pool.accuracy(Headway.open(run), {}).promise).right);
      return found;
    }"""
    assert shipped_tab.evaluate(code) == [document["accuracy"]["right"] for document in shipped()] == [200, 200, 200]


# The long version: every encoding with every pooling, 200 inputs each


@pytest.mark.long
@pytest.mark.parametrize("encoding", ENCODINGS.names())
def test_two_hundred_inputs_of_every_encoding_and_pooling(browser: Any, tmp_path: Path, encoding: str) -> None:
    models = [("addition", {"encoding": encoding})]
    if encoding not in DIGIT_PLACES:
        models += [("sortedness", {"encoding": encoding, "pooling": pooling}) for pooling in POOLINGS.names()]
    made = [untrained(task, seed, f"{task} {seed}", **model) for seed, (task, model) in enumerate(models)]
    documents = [export(trained) for trained in made]
    opened, random = browser.new_page(), np.random.default_rng(11)
    opened.goto(write_harness(documents, tmp_path / "engine.html").as_uri())
    for index, (trained, document) in enumerate(zip(made, documents, strict=True)):
        lengths = [2, 3, 4, 5, 6, 8, 11, 17, 29, 60] if trained.task.kind == "class" else None
        examples = draw(trained, random, 20 if lengths else 200, lengths)
        offs: list[dict[str, str]] = [{}, *(random_off(trained, random) for _ in range(3))]
        assert largest_gap(opened, index, trained, document, examples, offs) < TOLERANCE
    opened.close()


def test_weights_in_half_precision_are_read_to_the_last_bit(browser: Any, tmp_path: Path) -> None:
    """Numbers below 2^-14 have fewer bits in half precision, and are no zeros."""
    trained = untrained("sortedness")
    numbers = [2.0**-24, -3 * 2.0**-24, 2.0**-15, 1.5 * 2.0**-14, 0.0, 1.0, -65_504.0, 0.333251953125]
    with torch.no_grad():
        trained.model.embedding.weight[0, :8] = torch.tensor(numbers)
    tab = browser.new_page()
    tab.goto(write_harness([export(trained, precision="fp16")], tmp_path / "half.html").as_uri())
    read = "Array.from(Headway.open(runsOf()[0]).tensors['embedding.weight'].values.slice(0, 8))"
    assert tab.evaluate(read) == numbers
    tab.close()


def test_of_equal_logits_the_first_is_chosen_as_in_pytorch(tab: Any) -> None:
    assert tab.evaluate("[[1, 3, 3], [2, 2], [0, -1]].map(Headway.arithmetic.largest)") == [1, 0, 0]
