"""No false alarm: healthy runs have no error at all; and the page on the doctor says what the code says."""

from pathlib import Path
from typing import Any

import pytest

import headway as hw
from headway.config import RunConfig
from headway.doctor.visit import CHECKS
from headway.evaluation import load
from headway.model.encodings import ENCODINGS
from headway.training import train
from tests.heads.small import ADDITION, SORTEDNESS, TEXT, TEXT_ACROSS
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


SAMPLED = ("addition coupled", "sortedness learned", "sortedness alibi", "text rotary")


def errors_of(settings: RunConfig, place: Path) -> list[str]:
    train(settings, place, device="cpu")
    return [finding.evidence for finding in hw.doctor(load(place, device="cpu")).errors]


@pytest.mark.parametrize("name", SAMPLED)
def test_a_healthy_run_has_no_error(name: str, tmp_path: Path) -> None:
    assert errors_of(healthy(steps=30, width=16)[name], tmp_path / "run") == []


@pytest.mark.long
@pytest.mark.parametrize("name", healthy(steps=450, width=48))
def test_thirty_healthy_runs_have_no_error(name: str, tmp_path: Path) -> None:
    assert errors_of(healthy(steps=450, width=48)[name], tmp_path / "run") == []


def test_the_page_on_the_doctor_describes_every_check_in_the_words_of_its_code() -> None:
    page = (Path(hw.__file__).parents[2] / "docs" / "doctor.md").read_text()
    for check in CHECKS:
        assert f"| `{check.name}` | {check.meaning} |" in page, check.name
