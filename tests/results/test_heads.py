"""The document of head analyses: read, written and read again, and refused by the path of what does not fit."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from types import NoneType
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import InputError
from headway.results.heads import HeadAnalysis, read_heads
from headway.results.schema import described, types_of
from headway.runs import RunDirectory

FILE = Path(__file__).with_name("heads.json")
"""Written by an earlier version, with fewer heads, scores and rows."""


@pytest.fixture
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def test_earlier_document_reads_with_same_numbers(document: dict[str, Any]) -> None:
    found = HeadAnalysis.from_json(document)
    assert found.to_json() == document
    assert found.baseline.accuracy == document["baseline"]["exact_match"]
    assert found.heads[2].ablation["zero"].drop == document["heads"][2]["ablation"]["zero"]["drop"]
    assert found.joint.elimination.steps[1].removed == document["joint"]["elimination"]["steps"][1]["removed"]
    assert found.top(1) == [(found.heads[0].name, 7.75)]


def test_accuracy_may_be_called_so(document: dict[str, Any]) -> None:
    baseline = document["baseline"]
    baseline["accuracy"] = baseline.pop("exact_match")
    assert HeadAnalysis.from_json(document).baseline.accuracy == baseline["accuracy"]
    assert HeadAnalysis.from_json(document).to_json()["baseline"]["exact_match"] == baseline["accuracy"]


def test_what_earlier_versions_did_not_write_may_be_missing(document: dict[str, Any]) -> None:
    for drop in document["heads"][0]["ablation"].values():
        for key in ("margin", "margin_change", "margin_change_interval", "loss_change_interval", "p_critical_holm"):
            del drop[key]
    del (
        document["settings"]["rules"],
        document["checks"]["misplaced"],
        document["interventions"]["contrasts"][0]["strongest"],
    )
    found = HeadAnalysis.from_json(document)
    assert found.heads[0].ablation["zero"].margin is None
    assert found.interventions.contrasts[0].strongest is None
    assert found.checks.misplaced == ()
    assert found.settings is not None and found.settings.rules == 1


WRONG: dict[str, Callable[[Any], None]] = {
    'heads[3].ablation.zero.drop is "x"; a number needed': lambda d: d["heads"][3]["ablation"]["zero"].update(drop="x"),
    "baseline.interval is [0.5]; a list of 2 needed": lambda d: d["baseline"].update(interval=[0.5]),
    "joint.pairs.tested is missing; a whole number needed": lambda d: d["joint"]["pairs"].pop("tested"),
    "capture.examples[0].source is null; a list needed": lambda d: d["capture"]["examples"][0].update(source=None),
    "checks is []; an object needed": lambda d: d.update(checks=[]),
    "attribution is 3; an object needed": lambda d: d.update(attribution=3),
    "baseline.exact_match is 7.5; a number from 0 to 1 needed": lambda d: d["baseline"].update(exact_match=7.5),
    "baseline.n is -5; a number of at least 0 needed": lambda d: d["baseline"].update(n=-5),
    "baseline.n is true; a whole number needed": lambda d: d["baseline"].update(n=True),
    "heads[1].ablation.zero.p_holm is -0.1; a number from 0 to 1 needed": lambda d: d["heads"][1]["ablation"][
        "zero"
    ].update(p_holm=-0.1),
    "interventions.contrasts[0].rows[0].interval[1] is 1.5; a number from 0 to 1 needed": lambda d: d["interventions"][
        "contrasts"
    ][0]["rows"][0].update(interval=[0.5, 1.5]),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_value_is_named_by_file_and_path(document: dict[str, Any], words: str) -> None:
    WRONG[words](document)
    with pytest.raises(InputError) as refused:
        HeadAnalysis.from_json(document, "heads.json")
    assert str(refused.value) == f"heads.json: {words}"


def test_other_form_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"form is 9; this version reads 1"):
        HeadAnalysis.from_json({**document, "form": 9})


def test_reader_of_a_run_names_its_file(document: dict[str, Any], tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert read_heads(run) is None
    run.replace_analysis("heads", document)
    assert read_heads(run) == HeadAnalysis.from_json(document)
    run.replace_analysis("heads", {**document, "n": None})
    with pytest.raises(InputError, match=r"analysis/heads\.json: n is null; a whole number needed"):
        read_heads(run)


def of_field(cls: type, f: Any, random: Random) -> Any:
    """Some value of a field, within its limits."""
    if f.metadata["further"]:
        return {name: made(kind, random) for name, kind in f.metadata["further"]().items() if random.random() < 0.5}
    return within(made(types_of(cls)[f.name], random), f.metadata["low"], f.metadata["high"])


def within(value: Any, low: float, high: float) -> Any:
    if isinstance(value, tuple):
        return tuple(within(item, low, high) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return type(value)(min(max(value, low), high))


def made(kind: Any, random: Random) -> Any:
    """Some value of a type, as instruments make them; optional ones are there or not."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return kind(**{f.name: of_field(kind, f, random) for f in fields(kind) if f.name != "form"})
    if origin is tuple and inner[-1] is Ellipsis:
        return tuple(made(inner[0], random) for _ in range(random.randrange(3)))
    if origin is tuple:
        return tuple(made(one, random) for one in inner)
    if origin is Mapping:
        return {made(str, random): made(inner[1], random) for _ in range(random.randrange(3))}
    if inner:
        return made(random.choice(inner), random)
    plain = {
        NoneType: None,
        bool: random.random() < 0.5,
        int: random.randrange(-3, 10**9),
        str: "".join(random.choices("aé .→", k=3)),
    }
    return plain.get(kind, random.gauss(0, 10 ** random.uniform(-9, 9)))


@settings(max_examples=20, deadline=None)
@given(st.integers())
def test_written_and_read_again_is_equal(seed: int) -> None:
    found = made(HeadAnalysis, Random(seed))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert HeadAnalysis.from_json(document) == found


def test_every_field_has_a_meaning() -> None:
    rows = list(described(HeadAnalysis))
    assert len(rows) > 150
    assert [path for path, _, _, meaning in rows if not meaning] == []
    assert ("heads[].ablation.NAME.drop", "number", "points", "accuracy lost, or what is lost of the metric") in rows


def test_document_is_not_changed_by_reading(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    HeadAnalysis.from_json(document)
    assert document == before
