"""A run as a document and as a page: what is in it, what is refused, and that text stays text."""

import binascii
import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import headway as hw
from headway.batches import Batch, make_batch
from headway.errors import InputError
from headway.evaluation import Trained, load
from headway.explorer import encoding_tables, export, packing, writing
from headway.explorer.encoding_tables import Span, find_rows
from headway.explorer.export import export_run, reach
from headway.explorer.findings import failing_inputs, head_findings, length_findings, training_findings
from headway.explorer.packing import Pack
from headway.explorer.writing import explore
from headway.head_analysis.handles import Edit, intervene
from headway.model.encodings.base import Encoding, Heads, Positions
from headway.model.poolings import POOLINGS
from headway.model.poolings.simple import Mean
from headway.results.lengths import Checkpoint, TrainingRange
from headway.results.schema import write
from headway.runs import ReportDirectory, RunDirectory
from headway.self_contained_html import digest, policy
from headway.training import train
from tests.explorer.parity import unpack, untrained
from tests.reports.made_up_runs import attack_document
from tests.reports.made_up_runs import heads_document as made_up_heads
from tests.results.made_up import length_row, lengths_of
from tests.results.made_up_values import typed
from tests.results.over_training import made_up as made_up_training
from tests.tiny import ADDITION, config

NASTY = 'a<img src=x onerror="alert(1)">&b</script>\u2028'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run whose name tries to be HTML, without the slash that no file name can have."""
    place = tmp_path_factory.mktemp("explored") / NASTY.replace("/", "")
    train(config(ADDITION), place, device="cpu")
    return place


@pytest.fixture(scope="module")
def document(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = export_run(load(run)).to_json()
    return found


# The document


def test_the_document_is_json_and_holds_the_models_weights(run: Path, document: dict[str, Any]) -> None:
    again = json.loads(json.dumps(document, allow_nan=False))
    model = load(run).model
    for name, values in model.state_dict().items():
        if not name.startswith("encoding."):
            # Half precision keeps 11 bits.
            np.testing.assert_allclose(unpack(again["weights"], name), values.numpy(), rtol=2**-11, atol=1e-7)


def test_vectors_and_biases_by_distance_are_kept_in_full(document: dict[str, Any]) -> None:
    types = {name: entry["type"] for name, entry in document["weights"]["index"].items()}
    assert types["readout.weight"] == "fp16"
    assert types["readout.bias"] == types["mean.encoder.0.self"] == "fp32"
    wide = export_run(untrained("sortedness", encoding="t5")).to_json()["weights"]["index"]
    assert wide["bias.encoder"] == {"type": "fp32", "shape": [3, 511], "at": wide["bias.encoder"]["at"]}


def test_examples_are_the_test_splits_and_accuracy_is_that_on_them(run: Path, document: dict[str, Any]) -> None:
    trained = load(run)
    test = trained.examples("test")
    sources = {tuple(row) for row in test.source.tolist()}
    assert {tuple(example["source"]) for example in document["examples"]} == sources
    assert document["accuracy"]["n"] == len(document["examples"]) == 6
    assert document["accuracy"]["right"] == 6 - hw.evaluate(trained, "test").wrong


def test_means_of_the_page_are_those_of_head_analysis_not_of_the_examples_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 24 test examples the first 15 give the means, and five random ones are shown."""
    monkeypatch.setattr(export, "ANALYSED", 15)
    monkeypatch.setattr(export, "EXAMPLES", 5)
    trained = untrained("sortedness")
    document = export_run(trained).to_json()
    assert len(document["examples"]) == 5
    pad, sums, count = trained.task.vocabulary.pad, dict[str, Tensor](), 0
    for row in range(15):
        example = trained.examples("test").take([row])
        example = replace(example, source=example.source[:, example.source[0] != pad])
        batch = make_batch(trained.task, trained.model, example, trained.device)
        with torch.inference_mode():
            for site, heads in outputs_of(trained, batch).items():
                sums[site] = sums.get(site, 0) + heads[0].sum(0)
        count += example.source.shape[1]
    assert set(sums) == {"encoder.0.self", "encoder.1.self"}
    for site, total in sums.items():
        # 1e-5: sums of float32 in another order.
        np.testing.assert_allclose(unpack(document["weights"], f"mean.{site}"), total / count, rtol=1e-4, atol=1e-5)


def outputs_of(trained: Trained, batch: Batch) -> dict[str, Tensor]:
    """The outputs of all heads, `example position head d_head`, as the projections read them."""
    seen: dict[str, Tensor] = {}

    def keep(site: str) -> Edit:
        return lambda heads: seen.setdefault(site, heads)

    with intervene(trained.model, {site.name: keep(site.name) for site in trained.model.sites}):
        trained.model(batch.inputs)
    return seen


def test_the_page_is_told_how_long_sources_and_answers_may_be() -> None:
    task = export_run(untrained("addition-text")).to_json()["task"]
    assert (task["shortest"], task["longest"], task["trained"]) == (8, 256, [8, 12])
    assert task["longest_answers"][12 - 8] == 12 - 4
    task = export_run(untrained("addition")).to_json()["task"]
    assert (task["shortest"], task["longest"], task["trained"]) == (5, 5, [5, 5])
    task = export_run(untrained("sortedness")).to_json()["task"]
    assert (task["shortest"], task["longest"], task["trained"]) == (2, 256, [3, 6])


def test_every_pooling_can_be_said() -> None:
    said = [vars(POOLINGS.get(name))["PAGE"] for name in POOLINGS.names()]
    assert {feature for one in said for feature in one["features"]} == set(export.FEATURES)


# Findings


def heads_document(names: list[str], step: int) -> dict[str, Any]:
    """The parts of heads.json that the page shows."""
    drop = {"drop": 1.5, "interval": [0.5, 2.5], "n": 20, "verdict": "important", "exact_match": 0.9, "p": 0.01}
    row = {"verdict": "important", "role": "encoder: carry", "scores": {"carry": 0.7}, "ablation": {"zero": drop}}
    found = {
        "step": step,
        "n": 20,
        "split": "test",
        "baseline": {"n": 20, "wrong": 1, "exact_match": 0.95, "interval": [0.8, 1.0], "loss": 0.1},
        "definitions": {"carry": "share of attention on carries"},
        "heads": [{"head": name, **row} for name in names],
        "joint": {"sufficient": {"heads": names[:1], "exact_match": 0.9}, "pairs": {"pairs": []}},
        "interventions": {"contrasts": []},
    }
    return typed(found).to_json()


def test_findings_are_taken_over_where_they_are_of_this_checkpoint(tmp_path: Path) -> None:
    names, run = ["enc0.self.h0", "enc0.self.h1"], RunDirectory(tmp_path)
    assert head_findings(run, 4, names) is None
    run.replace_analysis("heads", heads_document(names, step=4))
    found: Any = write(head_findings(run, 4, names))
    assert list(found["heads"]) == names
    told = found["heads"]["enc0.self.h1"]
    assert (told["verdict"], told["role"], told["scores"]) == ("important", "encoder: carry", {"carry": 0.7})
    assert told["drops"] == {
        "zero": {"drop": 1.5, "interval": [0.5, 2.5], "n": 20, "verdict": "important", "exact_match": 0.9}
    }
    assert found["sufficient"]["heads"] == ["enc0.self.h0"]
    warnings: list[str] = []
    assert head_findings(run, 5, names, warnings.append) is None, "of another checkpoint"
    assert head_findings(run, 4, names[:1], warnings.append) is None, "of a model with other heads"
    assert warnings == [
        f"{tmp_path}: analysis/heads.json is of {what}, and is left out; run headway heads again"
        for what in ("step 4, not of step 5", "a model with other heads")
    ]


def test_each_kind_of_ablation_has_its_own_drop(tmp_path: Path) -> None:
    names, run = ["enc0.self.h0"], RunDirectory(tmp_path)
    document = heads_document(names, step=4)
    ablation = document["heads"][0]["ablation"]
    ablation["mean"] = {**ablation["zero"], "drop": 0.25, "interval": [-0.5, 1.0], "verdict": "redundant"}
    run.replace_analysis("heads", document)
    found: Any = write(head_findings(run, 4, names))
    drops = found["heads"]["enc0.self.h0"]["drops"]
    assert {kind: (one["drop"], one["interval"], one["verdict"]) for kind, one in drops.items()} == {
        "zero": (1.5, [0.5, 2.5], "important"),
        "mean": (0.25, [-0.5, 1.0], "redundant"),
    }


def test_heads_whose_instruments_failed_their_checks_are_left_out_with_the_reason(tmp_path: Path) -> None:
    names, run, warnings = ["enc0.self.h0", "enc0.self.h1"], RunDirectory(tmp_path), list[str]()
    document = heads_document(names, step=4)
    document["checks"]["misplaced"] = ["sweep enc0.self.h1"]
    run.replace_analysis("heads", document)
    assert head_findings(run, 4, names, warnings.append) is None
    assert len(warnings) == 1
    assert "its self-checks failed: instruments affect another head than they name: sweep enc0.self.h1" in warnings[0]


@pytest.mark.parametrize("content", [{"step": 4}, {"step": 4, "heads": 7}, {"form": 1}])
def test_findings_that_no_command_wrote_are_refused(tmp_path: Path, content: Any) -> None:
    run = RunDirectory(tmp_path)
    run.replace_analysis("heads", content)
    with pytest.raises(InputError, match=r"analysis/heads\.json: (run is missing|form is None)"):
        head_findings(run, 4, ["enc0.self.h0"])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("heads", 0, "role"), 5),
        (("heads", 0, "ablation", "zero", "drop"), float("nan")),
        (("heads", 0, "ablation", "zero", "interval"), "abc"),
        (("heads", 0, "scores", "carry"), "x"),
        (("interventions", "contrasts", 0, "rows", 0, "rate"), "x"),
        (("joint", "sufficient", "heads"), "abc"),
        (("joint", "pairs", "pairs"), "abc"),
        (("baseline", "n"), True),
        (("baseline", "interval"), [0.5]),
        (("definitions", "carry"), None),
    ],
)
def test_findings_with_a_wrong_value_are_refused(tmp_path: Path, place: tuple[Any, ...], value: Any) -> None:
    names, run = ["enc0.self.h0"], RunDirectory(tmp_path)
    found = heads_document(names, step=4)
    rows = [{"who": "enc0.self.h0", "heads": names, "rate": 0.5, "interval": [0.1, 0.9]}]
    found["interventions"]["contrasts"] = [{"name": "carry", "about": "carry", "usable": 4, "rows": rows}]
    found = typed(found).to_json()
    write_anyhow(run, "heads", found)
    assert head_findings(run, 4, names) is not None
    damage(found, place, value)
    write_anyhow(run, "heads", found)
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
    with pytest.raises(InputError, match=rf"analysis/heads\.json: {re.escape(path)} is .*; .* needed"):
        head_findings(run, 4, names)


def damage(found: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        found = found[key]
    found[place[-1]] = value


def write_anyhow(run: RunDirectory, name: str, content: dict[str, Any]) -> None:
    """Write what no command would: numbers that are not finite, too."""
    place = run.path / "analysis" / f"{name}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(content))


def test_carriers_are_single_heads_best_first() -> None:
    rows = [
        {"who": "dec0.cross.h0", "heads": ["dec0.cross.h0"], "rate": 0.2, "interval": [0.1, 0.3]},
        {"who": "dec0.cross.h1", "heads": ["dec0.cross.h1"], "rate": 0.9, "interval": [0.8, 1.0]},
        {"who": "all cross", "heads": ["dec0.cross.h0", "dec0.cross.h1"], "rate": 1.0, "interval": [0.9, 1.0]},
    ]
    one = {"name": "carry into column 1", "about": "carry", "usable": 40, "rows": rows}
    found = typed({"interventions": {"contrasts": [one]}}).interventions.view().carries
    assert [(row.head, row.rate, row.usable) for row in found] == [
        ("dec0.cross.h1", 0.9, 40),
        ("dec0.cross.h0", 0.2, 40),
    ]


def test_pairs_are_those_that_surely_back_each_other_up() -> None:
    costs = {"alone": [0.5, 1.0], "together": 20.0}
    rows: list[Any] = [
        {"heads": ["a", "b"], "interaction": 3.0, "p_holm": 0.01, **costs},
        {"heads": ["a", "c"], "interaction": 9.0, "p_holm": 0.20, **costs},
        {"heads": ["b", "c"], "interaction": -9.0, "p_holm": 0.01, **costs},
        {"heads": ["c", "d"], "interaction": 5.0, "p_holm": 0.01, **costs},
    ]
    found = typed({"joint": {"pairs": {"pairs": rows}}}).joint.view().pairs
    assert [pair.heads for pair in found] == [("c", "d"), ("a", "b")]
    assert write(found[0]) == rows[3]


def test_lengths_are_taken_over_where_they_are_of_this_checkpoint(tmp_path: Path) -> None:
    found = lengths_of(
        [length_row(8, n=9, interval=(0.7, 1.0))],
        {"swaps": 8},
        training=TrainingRange(shortest=3, longest=6),
        checkpoint=Checkpoint(step=4, chosen_on="validation"),
    )
    run = RunDirectory(tmp_path)
    assert length_findings(run, 4) is None
    content = found.to_json()
    run.replace_analysis("lengths", content)
    told: Any = write(length_findings(run, 4))
    assert told["rows"] == [{"set": "swaps", "length": 8, "n": 9, "accuracy": 1.0, "interval": [0.7, 1.0]}]
    assert (told["held"], told["trained"]) == (8, [3, 6])
    warnings: list[str] = []
    assert length_findings(run, 5, warnings.append) is None, "of another checkpoint"
    what = "of step 4, not of step 5, and is left out; run headway lengths again"
    assert warnings == [f"{tmp_path}: analysis/lengths.json is {what}"]
    for place, value, why in (
        (("lengths", 0, "accuracy"), float("nan"), r"lengths\[0\].accuracy is NaN; a number needed"),
        (("unit",), 3, "unit is 3; a text needed"),
        (("lengths",), {"a": 1}, r"lengths is .*; a list needed"),
    ):
        content = found.to_json()
        damage(content, place, value)
        write_anyhow(run, "lengths", content)
        with pytest.raises(InputError, match=rf"analysis/lengths.json: {why}; run headway lengths again"):
            length_findings(run, 4)


def test_failing_inputs_of_an_attack_are_taken_over_as_a_person_types_them(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert failing_inputs(run, 24) == []
    found = attack_document(tmp_path)
    run.replace_analysis("attack", found.to_json())
    assert write(failing_inputs(run, 24)[0]) == {"input": "9 1 1 1 1 1 1 1", "family": "ends", "tried": 321}
    warnings: list[str] = []
    assert failing_inputs(run, 25, warnings.append) == []
    what = "of step 24, not of step 25, and is left out; run headway attack again"
    assert warnings == [f"{tmp_path}: analysis/attack.json is {what}"]
    run.replace_analysis("attack", {**found.to_json(), "tried": "many"})
    with pytest.raises(InputError, match=r"attack\.json: tried is \"many\".*; run headway attack again"):
        failing_inputs(run, 24)


def test_the_order_of_elimination_is_taken_over() -> None:
    shown = typed(made_up_heads()).joint.view().elimination
    steps = made_up_heads()["joint"]["elimination"]["steps"]
    assert [(one.removed, one.exact_match) for one in shown] == [
        (step["removed"], step["exact_match"]) for step in steps if step["removed"]
    ]
    assert len(shown) == len(steps) - 1


def test_a_page_links_to_the_report_that_there_is(run: Path, tmp_path: Path) -> None:
    page = '<!doctype html><meta name="generator" content="headway"><title>a report</title>'
    assert 'id="report"' not in explore(run, out=tmp_path / "without.html").text
    own = RunDirectory(run).report
    own.write(page, "")
    address = quote(os.path.relpath(own.page, tmp_path))
    assert f'href="{address}"' in explore(run, out=tmp_path / "own.html").text
    beside = ReportDirectory(tmp_path)
    beside.page.write_text("<!doctype html><title>of somebody else</title>")
    assert f'href="{address}"' in explore(run, out=tmp_path / "other.html").text
    beside.write(page, "")
    assert 'href="index.html"' in explore(run, out=tmp_path / "beside.html").text
    assert 'href="there.html"' in explore(run, out=tmp_path / "told.html", report="there.html").text
    own.page.unlink()


# What is refused


class Swap(Encoding):
    """Turns queries in a way that is no turn of planes."""

    def rotate(self, x: Heads, positions: Positions) -> Heads:
        return x.flip(-1)


class Everywhere(Encoding):
    """A bias that hangs on both places, over far more places than a table can hold."""

    def bias(self, query: Positions, key: Positions, kind: str) -> Float[Tensor, "#batch head query key"]:
        wave = torch.sin(query[:, None, :, None] * key[:, None, None, :] * 1.0)
        return wave.expand(-1, self.sizes.n_heads, -1, -1)


def with_encoding(trained: Trained, cls: type[Encoding]) -> Trained:
    old = trained.model.encoding
    trained.model.encoding = cls(old.options, old.sizes)
    return trained


def test_a_turn_that_no_table_can_say_is_refused_by_name() -> None:
    with pytest.raises(
        InputError, match=r"encoding 'none' does not rotate pairs of coordinates; no table can represent it"
    ):
        export_run(with_encoding(untrained("addition", encoding="none"), Swap))


def test_a_page_shows_shorter_sequences_when_tables_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = with_encoding(untrained("sortedness", encoding="none"), Everywhere)
    assert export_run(trained).to_json()["task"]["longest"] == 256
    monkeypatch.setattr(encoding_tables, "MOST_CELLS", 3 * 130**2)
    assert export_run(trained).to_json()["task"]["longest"] == 128
    monkeypatch.setattr(encoding_tables, "MOST_CELLS", 10)
    with pytest.raises(
        InputError, match=r"encoding 'none' needs tables over the 6 tokens of its training that are too"
    ):
        export_run(trained)


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = untrained("addition")
    monkeypatch.setattr(export, "MOST_PARAMETERS", 100)
    with pytest.raises(InputError, match=r"the model has [\d,]+ parameters; a page can compute with at most 100"):
        export_run(trained)
    long = untrained("sortedness").task.__class__
    options = {"min_length": 3, "max_length": 2_000}
    with pytest.raises(InputError, match=r"trained on 2,000 elements; a page shows at most 1,024"):
        reach(long(long.Options(**options)))


class Doubled(Mean):
    """Computes something else than the class that it derives from."""

    def forward(self, hidden: Any, visible: Any) -> Any:
        return 2 * super().forward(hidden, visible)


class Odd(Mean):
    PAGE: ClassVar[dict[str, Any]] = {"features": ["median"]}


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (Doubled, r"the page cannot compute pooling 'mean': class Doubled defines no PAGE"),
        (Odd, r"PAGE of Odd has the feature 'median'; known features: mean, max, min"),
    ],
)
def test_a_pooling_that_the_page_cannot_compute_is_refused_by_name(cls: type[Mean], words: str) -> None:
    trained = untrained("sortedness")
    assert trained.model.pooling is not None
    trained.model.pooling = cls(trained.model.pooling.options, trained.model.config.d_model)
    with pytest.raises(InputError, match=words):
        export_run(trained)


def test_positions_that_depend_on_the_tokens_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = untrained("addition", encoding="learned")
    monkeypatch.setattr(type(trained.task), "positions", lambda self, kind, source, prefix: (source, prefix))
    with pytest.raises(InputError, match=r"the page cannot compute the index positions of task 'addition'"):
        export_run(trained)


class ByLength(Encoding):
    """Distances as a share of the length: more than two positions."""

    def bias(self, query: Positions, key: Positions, kind: str) -> Float[Tensor, "#batch head query key"]:
        share = (key[:, None, None, :] - query[:, None, :, None]) / (1 + key.max())
        return share.expand(-1, self.sizes.n_heads, -1, -1)


def test_an_encoding_that_depends_on_the_length_is_refused_by_name() -> None:
    words = r"encoding 'none' depends on more than two positions at a time; no table can represent it"
    with pytest.raises(InputError, match=words):
        export_run(with_encoding(untrained("sortedness", encoding="none"), ByLength))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"view": "tokens", "rule": "longest"},
            r"task 'sortedness' names the rule 'longest'; the page knows: same, asc",
        ),
        ({"view": "circles"}, r"task 'sortedness' names the view 'circles'; the page has: tokens, bars, sum"),
        ({"view": "tokens", "values": 1_000}, r"lets 0 to 999 be typed, and its first tokens are no such numbers"),
    ],
)
def test_what_a_task_asks_of_the_page_must_be_there(
    said: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = untrained("sortedness")
    monkeypatch.setattr(type(trained.task), "page", lambda self: said)
    with pytest.raises(InputError, match=words):
        export_run(trained)


def test_weights_that_are_not_finite_are_refused() -> None:
    trained = untrained("addition")
    with torch.no_grad():
        trained.model.readout.weight[0, 0] = torch.nan
    with pytest.raises(InputError, match=r"the weights readout.weight contain a non-finite number"):
        export_run(trained)


def test_a_wrong_precision_is_refused(run: Path) -> None:
    with pytest.raises(InputError, match=r"--precision 'fp8'; known: fp16, fp32"):
        hw.explore(run, precision="fp8")


# Tables


def test_numbers_past_half_precision_are_kept_in_full() -> None:
    pack = Pack("fp16")
    pack.add("small", np.array([[1.5, -2.0]], dtype=np.float32))
    pack.add("large", np.array([[1.5, 70_000.0]], dtype=np.float32))
    pack.add("low", np.array([[1.5, -70_000.0]], dtype=np.float32))
    packed = write(pack.packed())
    assert [packed["index"][name]["type"] for name in ("small", "large", "low")] == ["fp16", "fp32", "fp32"]
    assert unpack(packed, "large").tolist() == [[1.5, 70_000.0]]
    assert unpack(packed, "small").tolist() == [[1.5, -2.0]]


def test_an_encoding_that_moves_positions_has_its_rows_for_every_length() -> None:
    trained = untrained("sortedness", encoding={"name": "randomized", "max_position": 97})
    rows = find_rows(trained.task, trained.model, Span(2, 9, 0))
    assert rows.placement is not None
    for length in range(2, 10):
        placed = rows.positions[rows.placement[length - 2, :length]]
        assert placed.tolist() == [(2 * place + 1) * 97 // (2 * length) for place in range(length)]


# The page


def test_the_page_is_one_file_and_text_stays_text(run: Path, tmp_path: Path) -> None:
    made = hw.explore(run, out=tmp_path / "deep" / "page.html")
    text = (tmp_path / "deep" / "page.html").read_text()
    assert made.page == str(tmp_path / "deep" / "page.html")
    assert made.bytes == len(text.encode())
    assert "<img src=x" not in text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data
    assert "\u2028" not in data[1]
    assert json.loads(data[1])["runs"][0]["name"] == run.name
    assert not re.search(r'(src|href)="https?:', text)


def test_the_policy_lets_in_nothing_but_what_stands_in_the_file(run: Path) -> None:
    text = hw.explore(run).text
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found
    allowed = dict(part.strip().split(" ", 1) for part in found[1].replace("&#39;", "'").split(";"))
    assert allowed["default-src"] == allowed["connect-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    assert allowed["worker-src"] == "blob:"
    scripts = re.findall(r"<script(?! type)[^>]*>(.*?)</script>", text, re.DOTALL)
    assert scripts
    for script in scripts:
        assert f"'sha256-{digest(script)}'" in allowed["script-src"]
    assert "unsafe-inline" not in found[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
        ("abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
        ("é", None),
        ("✓ right", None),
    ],
)
def test_a_hash_of_the_policy_is_sha_256_in_plain_base64(text: str, expected: str | None) -> None:
    """The first two are test vectors of SHA-256. Other texts are hashed as UTF-8, as the page is written."""
    hashed = hashlib.sha256(text.encode("utf-8")).digest()
    code = binascii.b2a_base64(hashed, newline=False).decode()
    assert expected in (None, code)
    assert digest(text) == code
    assert f"script-src 'sha256-{code}' 'sha256-{digest('x')}';" in policy("y", [text, "x"])
    assert f"style-src 'sha256-{code}';" in policy(text, ["x"])


def test_without_a_run_there_are_the_trained_models_that_come_with_headway(run: Path, tmp_path: Path) -> None:
    made = hw.explore()
    assert made.runs == ("addition-seed0", "sortedness-long-seed0", "sortedness-learned-seed0")
    assert made.bytes < 3_500_000
    folder = Path(writing.__file__).parent / "model"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4_000_000
    assert "recipe" in (folder / "README.md").read_text()
    size = writing.ship(run, tmp_path / "shipped.json.gz")
    assert (tmp_path / "shipped.json.gz").stat().st_size == size


def test_several_runs_share_a_page_and_a_notebook_shows_it(run: Path) -> None:
    made = load(run).explore()
    assert made.runs == (run.name,)
    shown = made._repr_html_()
    assert shown.startswith('<iframe srcdoc="')
    assert 'sandbox="allow-scripts"' in shown
    assert "<img" not in shown
    both = hw.explore(run, load(run))
    assert both.runs == (run.name, run.name)
    assert both.to_json() == {"runs": list(both.runs), "page": None, "bytes": both.bytes, "warnings": []}


def test_a_directory_is_no_place_for_a_page(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--out .* is a directory; a file needed, such as .*explorer.html"):
        hw.explore(run, out=tmp_path)


def test_numbers_of_four_bytes_are_aligned() -> None:
    assert packing.ALIGNMENT % 4 == 0


def test_heads_over_training_are_taken_over_where_they_are_of_this_model(tmp_path: Path) -> None:
    found, run = made_up_training([0.0, 0.2, 0.9], [0, 5, 40], [0, 100, 200]), RunDirectory(tmp_path)
    names = list(found.heads)
    assert training_findings(run, 200, names) is None
    run.replace_analysis("over_training", found)
    told: Any = write(training_findings(run, 200, names))
    assert (told["subject"], told["followed"], told["jump"], told["formed"]) == ("carry", names[1], 200, 200)
    contrast = found.steps[2].contrasts[0]
    assert told["steps"][2] == {
        "step": 200,
        "accuracy": 0.9,
        "interval": [0.8, 1.0],
        "drops": [0.5, 40.0],
        "drop_intervals": [[0.0, 1.0], [38.0, 42.0]],
        "usable": contrast.usable,
        "flips": list(contrast.flips),
    }
    both = tuple(replace(one, contrasts=one.contrasts * 2) for one in found.steps)  # into tens and into hundreds
    run.replace_analysis("over_training", replace(found, steps=both))
    told = write(training_findings(run, 200, names))
    assert told["steps"][2]["usable"] == 2 * contrast.usable
    assert told["steps"][2]["flips"] == [2 * flips for flips in contrast.flips]
    warnings: list[str] = []
    assert training_findings(run, 200, names[:1], warnings.append) is None
    assert warnings == [f"{tmp_path}: analysis/over_training.json is of a model with other heads, and is left out"]
    run.replace_analysis("over_training", {**found.to_json(), "pairs": "many"})
    with pytest.raises(InputError, match=r"pairs is \"many\".*; run headway heads --over-training again"):
        training_findings(run, 200, names)


def test_flips_of_the_page_are_those_of_the_followed_subject_alone(tmp_path: Path) -> None:
    """Pairs of a carry count, into tens and into hundreds; pairs that differ in a digit do not."""
    made, run = made_up_training([0.0, 0.9], [0, 40], [0, 100]), RunDirectory(tmp_path)
    (first,) = made.steps[1].contrasts
    tens, hundreds = replace(first, usable=18, flips=(2, 7)), replace(first, usable=11, flips=(0, 5))
    digit = replace(first, name="another digit", about="digit", usable=16, flips=(13, 1))
    steps = tuple(replace(one, contrasts=(tens, digit, hundreds)) for one in made.steps)
    shown = {}
    for subject in ("carry", "digit", "sign"):
        run.replace_analysis("over_training", replace(made, steps=steps, subject=subject))
        told = write(training_findings(run, 100, list(made.heads)))["steps"][1]
        shown[subject] = (told["usable"], told["flips"])
    assert shown == {"carry": (29, [2, 12]), "digit": (16, [13, 1]), "sign": (0, [0, 0])}
