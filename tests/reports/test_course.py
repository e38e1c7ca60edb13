"""The files of the course, held to its keys and types by a checker that shares no code with what writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.cli.main import run as cli
from headway.errors import InputError
from headway.reports.course import course, training_of
from headway.reports.documents import Curves, RunDocuments
from tests.reports.made_up_runs import make_run

NUMBER = (int, float)
PERHAPS = (int, float, type(None))
"""A number, or null where there is none: no loss was measured, or a score does not apply."""
SHARE = "a number from 0 to 1"
VERDICTS = ("critical", "important", "redundant", "harmful", "undecided", "depends on the ablation")
KEYS: dict[str, dict[str, Any]] = {
    "training_log.json": {
        "runs": [
            {
                "run": str,
                "seed": int,
                "log": [
                    {"step": int, "epoch": PERHAPS, "train_loss": PERHAPS, "val_loss": NUMBER, "val_accuracy": SHARE}
                ],
                "jump_between": [int],
            }
        ]
    },
    "ablation_results.json": {
        "runs": [
            {
                "run": str,
                "seed": int,
                "n": int,
                "ablation": str,
                "baseline_accuracy": SHARE,
                "heads": [
                    {
                        "head": str,
                        "attention": ("encoder", "decoder", "cross"),
                        "layer": int,
                        "index": int,
                        "accuracy": SHARE,
                        "accuracy_drop": NUMBER,
                        "interval": [NUMBER],
                        "loss_change_percent": PERHAPS,
                        "verdict": VERDICTS,
                    }
                ],
                "prunable_under_1_point": SHARE,
                "prunable_under_5_points": SHARE,
                "prunable_under_1_percent_of_loss": SHARE,
                "together": [
                    {
                        "limit": NUMBER,
                        "heads": list,
                        "accuracy_drop": NUMBER,
                        "interval": [NUMBER],
                        "alone_under_limit": int,
                        "alone_together_drop": NUMBER,
                    }
                ],
            }
        ]
    },
    "head_specialization.json": {
        "definitions": {"entropy": str, "diagonal": str},
        "runs": [{"run": str, "seed": int, "heads": [{"head": str, "role": str, "scores": {"entropy": PERHAPS}}]}],
    },
    "extrapolation_results.json": {
        "unit": str,
        "results": [
            {
                "run": str,
                "seed": int,
                "encoding": str,
                "pooling": (str, type(None)),
                "set": str,
                "trained_on": [int],
                "accuracy": {"8": SHARE, "16": SHARE, "32": SHARE, "64": SHARE},
                "interval": {"8": [SHARE], "64": [SHARE]},
                "constant_from": PERHAPS,
            }
        ],
    },
}
"""What the assignment asks for, file by file. A list has one form for all of its items, and at least one item."""


def wrong(found: Any, wanted: Any, where: str) -> list[str]:
    """Every key that is missing, every value of another type, and every share or word that cannot be."""
    if isinstance(wanted, dict):
        missing = [f"{where}.{key} is missing" for key in wanted if key not in found]
        inside = [wrong(found[key], kind, f"{where}.{key}") for key, kind in wanted.items() if key in found]
        return missing + [line for lines in inside for line in lines]
    if isinstance(wanted, list):
        if not isinstance(found, list) or not found:
            return [f"{where} is no list with something in it"]
        return [line for place, one in enumerate(found) for line in wrong(one, wanted[0], f"{where}[{place}]")]
    if wanted == SHARE:
        right = isinstance(found, NUMBER) and 0 <= found <= 1
    elif isinstance(wanted, tuple) and isinstance(wanted[0], str):
        right = found in wanted
    else:
        right = isinstance(found, wanted) and not isinstance(found, bool)
    return [] if right else [f"{where} is {found!r}"]


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("course")
    made = make_run(folder / "run", analyses=("heads", "lengths"))
    heads = made.read_analysis("heads")
    assert heads
    heads["definitions"]["entropy"] = "mean entropy of a query's weights"
    for head in heads["heads"]:
        head["scores"]["entropy"] = 1.5
    made.replace_analysis("heads", heads)
    found = course(made, out=folder / "hand-in")
    assert found.missing == {}
    return made.path, folder / "hand-in"


def test_every_file_has_the_keys_and_types_that_the_course_asks_for(handed_in: tuple[Path, Path]) -> None:
    _, folder = handed_in
    for name, wanted in KEYS.items():
        document = json.loads((folder / name).read_text())
        assert wrong(document, wanted, name) == []
        assert next(iter(document)) == "generator", "headway may replace what it wrote"


def test_the_checker_sees_a_missing_key_and_a_wrong_type(handed_in: tuple[Path, Path]) -> None:
    _, folder = handed_in
    document = json.loads((folder / "ablation_results.json").read_text())
    first, second, third = document["runs"][0]["heads"][:3]
    del second["verdict"]
    first["accuracy"], first["verdict"], third["accuracy"], third["interval"] = "high", "vital", 93.5, []
    document["runs"][0]["n"] = None
    assert wrong(document, KEYS["ablation_results.json"], "a") == [
        "a.runs[0].n is None",
        "a.runs[0].heads[0].accuracy is 'high'",
        "a.runs[0].heads[0].verdict is 'vital'",
        "a.runs[0].heads[1].verdict is missing",
        "a.runs[0].heads[2].accuracy is 93.5",
        "a.runs[0].heads[2].interval is no list with something in it",
    ]


def test_numbers_are_those_of_the_documents(handed_in: tuple[Path, Path]) -> None:
    run, folder = handed_in
    heads = json.loads((run / "analysis" / "heads.json").read_text())
    drops = {head["head"]: head["ablation"]["zero"]["drop"] for head in heads["heads"]}
    (one,) = json.loads((folder / "ablation_results.json").read_text())["runs"]
    assert {row["head"]: row["accuracy_drop"] for row in one["heads"]} == drops
    assert [row["accuracy_drop"] for row in one["heads"]] == sorted(drops.values(), reverse=True)
    lengths = json.loads((run / "analysis" / "lengths.json").read_text())
    results = json.loads((folder / "extrapolation_results.json").read_text())["results"]
    found = {(row["set"], int(length)): share for row in results for length, share in row["accuracy"].items()}
    assert found == {(row["negatives"], row["length"]): row["accuracy"] for row in lengths["lengths"]}
    (training,) = json.loads((folder / "training_log.json").read_text())["runs"]
    steps = [row["step"] for row in training["log"]]
    assert steps == [0, 8, 16, 24]
    assert training["jump_between"] == [0, 8]
    assert training["log"][1]["train_loss"] == pytest.approx(sum(3.5 / step for step in range(1, 9)) / 8)
    assert training["log"][2]["train_loss"] == pytest.approx(sum(3.5 / step for step in range(9, 17)) / 8)
    together = [(row["limit"], row["accuracy_drop"]) for row in one["together"]]
    assert together == [(row["limit"], row["drop"]) for row in heads["joint"]["removable"]]
    assert together != [(row["limit"], row["sum_of_single_drops"]) for row in heads["joint"]["removable"]]


def test_the_last_batch_of_an_epoch_may_be_smaller() -> None:
    """60 examples in batches of 16 are four steps; fresh examples have no epochs."""
    curves = Curves(validation=[{"step": step, "loss": 1.0, "accuracy": 0.5} for step in (0, 4, 10)])
    config = {"data": {"train": 60}, "train": {"batch_size": 16}}
    found = training_of(RunDocuments("run", "run", config=config, metrics=curves))
    assert [row.epoch for row in found.log] == [0, 1, 2.5]
    fresh = RunDocuments("run", "run", config={**config, "data": {"train": 60, "fresh": True}}, metrics=curves)
    assert [row.epoch for row in training_of(fresh).log] == [None] * 3


def test_figures_have_the_names_of_the_reports(handed_in: tuple[Path, Path]) -> None:
    names = {path.stem for path in (handed_in[1] / "figures").glob("*.png")}
    assert {"training_curves", "head_importance", "head_pruning", "attention_example_0"} <= names
    assert any(name.startswith("extrapolation_curves") for name in names)


def test_what_was_not_measured_is_named_and_a_file_of_someone_else_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_run(tmp_path / "bare", analyses=())
    out = tmp_path / "out"
    assert cli(["report", str(made.path), "--course", str(out), "--quiet", "--out", str(tmp_path / "page")]) == 0
    printed = capsys.readouterr()
    assert "headway: no ablation_results.json: headway heads makes what it needs" in printed.err
    assert f"the course's files are in {out}: training_log.json" in printed.out
    (out / "training_log.json").write_text("{}")
    with pytest.raises(InputError, match=r"training_log.json"):
        course(made, out=out)
    with pytest.raises(InputError, match="is a file; a directory needed"):
        course(made, out=out / "training_log.json")
