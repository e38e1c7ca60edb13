"""The benchmarks at toy size: they run, agree with the plain way, and their checks can fail."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import headway
from headway.evaluation import evaluate, load
from headway.heads import ablation
from headway.training import train
from tests.tiny import ADDITION, config

ROOT = Path(headway.__file__).parents[2]


def script(name: str) -> ModuleType:
    """A benchmark as a module; the folder is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("benchmarks") / "run"
    train(config(ADDITION, train={"steps": 60}), path)
    return path


@pytest.mark.long
def test_the_benchmark_prints_its_ratios(tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "benchmarks" / "throughput.py"), "--seconds", "0.01", "--repeats", "1"]
    printed = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^(training|scoring): .+? +(\d+\.\d\d) ", printed, re.MULTILINE)
    assert [name for name, _ in rows] == ["training", "scoring", "scoring"]
    assert list(tmp_path.iterdir()) == []


def test_the_sweep_finds_what_a_hook_and_decoding_find(run: Path) -> None:
    program = [sys.executable, str(ROOT / "benchmarks" / "heads.py"), str(run), "--examples", "6", "--json"]
    found = json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    assert found["identical_accuracies"]
    assert all(row["median"] > 0 for row in found["ratios"].values())


def test_the_sweep_is_refused_when_accuracies_differ(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = script("heads")
    trained = load(run)
    monkeypatch.setattr(heads, "by_decoding", lambda trained, examples: 0.123)
    with pytest.raises(SystemExit, match="other accuracies"):
        heads.compare(trained, trained.examples("test"), 1)


def test_the_population_is_the_whole_domain_under_every_ablation(run: Path) -> None:
    population = script("population")
    trained = load(run)
    names, right = population.ablate_population(trained)
    assert right.shape == (1 + 4 * 6, 100)
    assert names[:1] == ["enc0.self.h0 zero"]
    assert names[-1:] == ["dec0.cross.h1 resample"]
    assert (~right[0]).sum() == evaluate(trained, "all").wrong


def made_up_population() -> np.ndarray:
    """Drops from none to most, some with gains as well, of a model that is not perfect."""
    random = np.random.default_rng(5)
    before = random.random(40_000) < 0.995
    rows = [before]
    for lost, gained in ((0.002, 0.0), (0.005, 0.1), (0.02, 0.2), (0.03, 0.0), (0.06, 0.2), (0.15, 0.1), (0.5, 0.0)):
        change = random.random(len(before))
        rows.append(np.where(before, change >= lost, change < gained))
    return np.stack(rows)


@pytest.fixture(scope="module")
def checked() -> dict[str, Any]:
    found: dict[str, Any] = script("population").check_statistics(
        made_up_population(), samples=250, size=2_000, random=np.random.default_rng(1)
    )
    return found


def test_intervals_cover_the_true_drop(checked: dict[str, Any]) -> None:
    # 250 samples of 7 tests: the standard error of the mean coverage is about half a point.
    assert 0.93 <= checked["mean_coverage"] <= 0.97
    assert min(checked["coverage"]) >= 0.90


def test_decided_verdicts_are_hardly_ever_contradicted(checked: dict[str, Any]) -> None:
    assert checked["decided"] > 0.3
    assert checked["contradicted_of_decided"] <= 0.05


def test_a_drop_of_one_point_is_found(checked: dict[str, Any]) -> None:
    assert checked["power_at_1_point"]["tests"] >= 4
    assert checked["power_at_1_point"]["mean"] >= 0.80


def test_sweeps_without_an_effect_hardly_ever_show_one(checked: dict[str, Any]) -> None:
    # 5 % and two standard errors of a share of 250.
    assert checked["null_sweeps_with_a_false_positive"] <= 0.078


def test_an_interval_that_is_too_narrow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    population = script("population")
    honest = ablation.paired_interval
    monkeypatch.setattr(ablation, "paired_interval", lambda *counts, confidence=0.95: honest(*counts, confidence=0.80))
    random = np.random.default_rng(1)
    found = population.check_statistics(made_up_population(), samples=100, size=2_000, random=random)
    assert found["mean_coverage"] < 0.9
