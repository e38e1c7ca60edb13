"""The files of the course, held to its keys and types by a checker that shares no code with what writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.cli.main import run as cli
from headway.errors import InputError
from headway.reports.course import course
from tests.reports.made_up_runs import make_run

NUMBER = (int, float)
KEYS: dict[str, dict[str, Any]] = {
    "training_log.json": {
        "runs": [
            {
                "run": str,
                "seed": int,
                "log": [
                    {"step": int, "epoch": NUMBER, "train_loss": NUMBER, "val_loss": NUMBER, "val_accuracy": NUMBER}
                ],
                "jump_between": list,
            }
        ]
    },
    "ablation_results.json": {
        "runs": [
            {
                "run": str,
                "n": int,
                "ablation": str,
                "baseline_accuracy": NUMBER,
                "heads": [
                    {
                        "head": str,
                        "attention": str,
                        "layer": int,
                        "index": int,
                        "accuracy": NUMBER,
                        "accuracy_drop": NUMBER,
                        "interval": list,
                        "loss_change_percent": NUMBER,
                        "verdict": str,
                    }
                ],
                "together": [{"limit": NUMBER, "heads": list, "accuracy_drop": NUMBER, "alone_together_drop": NUMBER}],
            }
        ]
    },
    "head_specialization.json": {
        "definitions": dict,
        "runs": [{"run": str, "heads": [{"head": str, "role": str, "scores": dict}]}],
    },
    "extrapolation_results.json": {
        "unit": str,
        "results": [{"run": str, "encoding": str, "set": str, "trained_on": list, "accuracy": dict, "interval": dict}],
    },
}


def wrong(found: Any, wanted: Any, where: str) -> list[str]:
    """Every key that is missing and every value of another type."""
    if isinstance(wanted, dict):
        missing = [f"{where}.{key} is missing" for key in wanted if key not in found]
        inside = [wrong(found[key], kind, f"{where}.{key}") for key, kind in wanted.items() if key in found]
        return missing + [line for lines in inside for line in lines]
    if isinstance(wanted, list):
        if not isinstance(found, list) or not found:
            return [f"{where} is no list with something in it"]
        return [line for place, one in enumerate(found) for line in wrong(one, wanted[0], f"{where}[{place}]")]
    allowed = (*wanted, type(None)) if isinstance(wanted, tuple) else (wanted, type(None))
    return [] if isinstance(found, allowed) else [f"{where} is {found!r}"]


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("course")
    made = make_run(folder / "run", analyses=("heads", "lengths"))
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
    del document["runs"][0]["heads"][1]["verdict"]
    document["runs"][0]["heads"][0]["accuracy"] = "high"
    assert wrong(document, KEYS["ablation_results.json"], "a") == [
        "a.runs[0].heads[0].accuracy is 'high'",
        "a.runs[0].heads[1].verdict is missing",
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
