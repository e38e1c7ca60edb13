"""No false alarm: healthy runs have no error, and only warnings that are true; the page says what the code says."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headway as hw
from headway.api import read_recipe, recipe_folder
from headway.config import DataConfig, RunConfig
from headway.diagnosis.examine import CHECKS
from headway.evaluation import Trained, load
from headway.model.encodings import ENCODINGS
from headway.results.doctor import Diagnosis
from headway.tasks import make_task
from headway.tasks.files import write_files
from headway.training import train
from tests.head_analysis.small import ADDITION, SORTEDNESS, TEXT, TEXT_ACROSS
from tests.tiny import config

POOLINGS = ("mean", "max", "multi-feature", "attention", "detector")
DATA = {"validation": 60, "test": 80}
NEEDS_DIGITS = ("abacus", "coupled")


def healthy(steps: int, width: int) -> dict[str, RunConfig]:
    """Thirty-one small experiments: every encoding on every task, with seeds, sizes, shapes and poolings that vary."""
    found: dict[str, RunConfig] = {}
    for seed, encoding in enumerate(ENCODINGS.names()):
        sizes = {
            "d_model": width + 4 * (seed % 3),
            "n_heads": 2 + seed % 2,
            "d_head": 2 * (width // 6),
            "d_ff": 24 + seed,
        }
        options = {"table_size": 16, "max_offset": 3} if encoding in NEEDS_DIGITS else {}
        model: dict[str, Any] = {**sizes, "encoding": {"name": encoding, **options}, "dropout": 0.1 * (seed % 2)}
        train_table = {"steps": steps, "batch_size": 64, "validate_every": steps // 3, "lr": 0.006}
        tables = {"data": {**DATA, "train": 40 * width}, "train": train_table}
        digits = {"order": ("most", "least")[seed % 2] + "-significant-first"}
        found[f"addition {encoding}"] = config(
            ADDITION, seed=seed, task=digits, model={**model, "decoder_layers": 1 + seed % 2}, **tables
        )
        if encoding in NEEDS_DIGITS:
            continue
        pooling = {"pooling": {"name": POOLINGS[seed % 5]}, "causal_encoder": seed % 2 == 1}
        found[f"sortedness {encoding}"] = config(
            SORTEDNESS,
            seed=seed,
            task={"negatives": ("mixed", "swaps")[seed % 2], "values": 20},
            model={**model, **pooling, "encoder_layers": 1 + seed % 2},
            **tables,
        )
        if seed % 10 < 9:
            text = (TEXT, TEXT_ACROSS)[seed % 2]
            found[f"text {encoding}"] = config(text, seed=seed, model={**model, "decoder_layers": 1}, **tables)
    return found


Make = Callable[[Path], Trained]


def trained(settings: RunConfig, checkpoint: str | int = "best") -> Make:
    def make(place: Path) -> Trained:
        train(settings, place, device="cpu")
        return load(place, checkpoint=checkpoint, device="cpu")

    return make


def recipes(steps: int) -> dict[str, Make]:
    """Every recipe as it is, only trained for a moment and measured on few examples."""
    found = {}
    for path in sorted(recipe_folder().glob("*.toml")):
        recipe = read_recipe(str(path))[1]
        data = replace(recipe.data, train=min(recipe.data.train, 1_000), validation=60, test=80)
        short = {"steps": steps, "epochs": None, "batch_size": 16, "validate_every": max(1, steps // 2)}
        found[f"recipe {path.stem}"] = trained(replace(recipe, data=data, train=replace(recipe.train, **short)))
    return found


def pruned(base: RunConfig, finetune: int) -> Make:
    def make(place: Path) -> Trained:
        whole = trained(base)(place / "whole")
        kept = [str(head) for site in whole.model.sites for head in site.heads][1::2]
        hw.prune(place / "whole", keep=kept, finetune=finetune, out=place / "pruned", device="cpu")
        return load(place / "pruned", device="cpu")

    return make


def resumed(base: RunConfig) -> Make:
    def make(place: Path) -> Trained:
        train(base, place, device="cpu", until=base.train.validate_every)
        train(base, place, device="cpu", resume=True)
        return load(place, checkpoint="last", device="cpu")

    return make


def stopped(base: RunConfig) -> Make:
    def make(place: Path) -> Trained:
        train(base, place, device="cpu", until=base.train.validate_every)
        return load(place, device="cpu")

    return make


def from_files(base: RunConfig) -> Make:
    """A run that was given files, as the course's are."""

    def make(place: Path) -> Trained:
        write_files(make_task(base.task), DataConfig(train=400, validation=60, test=80), place / "files")
        train(base, place / "run", device="cpu", data=place / "files")
        return load(place / "run", device="cpu")

    return make


def states(steps: int, width: int) -> dict[str, Make]:
    """What a run can be besides freshly trained: untrained, stopped, resumed, pruned, fine-tuned, tiny, large."""
    few = {"data": {**DATA, "train": 40 * width}}
    how = {"steps": steps, "batch_size": 64, "validate_every": steps // 3, "lr": 0.006}
    size = {"d_model": width, "d_head": 8, "d_ff": 2 * width}

    def sums(**model: Any) -> RunConfig:
        return config(ADDITION, model={**size, **model}, train=how, **few)

    def sequences(**model: Any) -> RunConfig:
        return config(SORTEDNESS, model={**size, **model}, train=how, task={"values": 20}, **few)

    large = {"d_model": 8 * width, "n_heads": 4, "d_head": 2 * width, "d_ff": 8 * width, "encoder_layers": 3}
    return {
        "untrained sums": trained(sums(), 0),
        "untrained sequences": trained(sequences(), 0),
        "half-trained sums": stopped(sums()),
        "half-trained sequences": stopped(sequences()),
        "resumed": resumed(sums(dropout=0.1)),
        "pruned sums": pruned(sums(), 0),
        "pruned sequences": pruned(sequences(), 0),
        "fine-tuned": pruned(sums(), steps),
        "strong dropout": trained(sums(dropout=0.4)),
        "no dropout": trained(sequences(dropout=0.0)),
        "tiny": trained(sums(d_model=4, n_heads=1, d_head=2, d_ff=4, encoder_layers=1, decoder_layers=1)),
        "large": trained(replace(sequences(**large), train=replace(sequences().train, lr=0.0005))),
        "smoothed labels": trained(replace(sums(), train=replace(sums().train, label_smoothing=0.2))),
        "decayed": trained(replace(sums(), train=replace(sums().train, weight_decay=1.0))),
        "norms after": trained(sums(norm="post")),
        "by heart": trained(replace(sums(), data=replace(sums().data, train=40))),
        "from files": from_files(sequences()),
    }


def all_healthy(steps: int, width: int) -> dict[str, Make]:
    """At least sixty: every encoding on every task, every recipe, every state."""
    encodings = {name: trained(settings) for name, settings in healthy(steps, width).items()}
    return {**encodings, **recipes(min(steps, 60)), **states(steps, width)}


SAMPLED = ("addition coupled", "sortedness learned", "text rotary", "untrained sums", "fine-tuned", "strong dropout")
SAMPLED += ("by heart", "from files", "recipe quick-sortedness")
TRUE_WARNINGS = {
    "duplicate-examples",
    "unseen-in-training",
    "label-imbalance",
    "weights-unmoved",
    "rows-untrained",
    "loss-exploded",
    "not-converged",
    "idle-heads",
    "constant-answer",
    "never-ends",
    "never-emits",
    "trivial-rule",
    "memorised",
    "no-better-than-guessing",
}
"""What may be said of a healthy run that is small or little trained; docs/doctor.md says which were."""


def judge(one: Trained) -> None:
    """No error; no warning but those that can be true, and those that can be looked up are."""
    found = hw.doctor(one)
    assert isinstance(found, Diagnosis)
    assert [f"{finding.check}: {finding.evidence}" for finding in found.errors] == []
    told = {finding.check: finding.numbers for finding in found.warnings}
    assert set(told) <= TRUE_WARNINGS
    if "weights-unmoved" in told:
        assert one.step == 0
    if "memorised" in told:
        assert told["memorised"]["train"] > told["memorised"]["validation"] + 0.05
    if "no-better-than-guessing" in told:
        assert told["no-better-than-guessing"]["interval"][0] <= told["no-better-than-guessing"]["majority"]
    if "not-converged" in told:
        losses = [row["validation"]["loss"] for row in one.directory.metrics() if "validation" in row]
        assert min(losses) == pytest.approx(told["not-converged"]["after"])


@pytest.mark.parametrize("name", SAMPLED)
def test_a_healthy_run_has_no_error(name: str, tmp_path: Path) -> None:
    judge(all_healthy(steps=30, width=16)[name](tmp_path / "run"))


def test_there_are_sixty_healthy_runs_and_more() -> None:
    assert len(all_healthy(steps=30, width=16)) >= 60


@pytest.mark.long
@pytest.mark.parametrize("name", all_healthy(steps=450, width=48))
def test_sixty_healthy_runs_have_no_error(name: str, tmp_path: Path) -> None:
    judge(all_healthy(steps=450, width=48)[name](tmp_path / "run"))


def test_the_page_on_the_doctor_describes_every_check_in_the_words_of_its_code() -> None:
    page = (Path(hw.__file__).parents[2] / "docs" / "doctor.md").read_text()
    for check in CHECKS:
        assert f"| `{check.name}` | {check.meaning} |" in page, check.name
