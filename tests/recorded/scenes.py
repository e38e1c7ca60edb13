"""Command lines that are recorded, in scenes: each starts in a new folder with copies of committed runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults.laboratory import write_sweep

from tests.cli.course_models import write_course
from tests.cli.hf_checkpoints import write_checkpoints
from tests.diagnosis.foreign_work import LAYOUTS, make_cases

HERE = Path(__file__).parent
RUNS, RECIPES = HERE / "runs", HERE / "recipes"


@dataclass(frozen=True)
class Scene:
    """Command lines that follow each other; `prepare` writes further files first and may give further lines."""

    name: str
    runs: tuple[str, ...]
    lines: tuple[str, ...]
    prepare: Callable[[Path], Sequence[str] | None] = lambda folder: None


def _sweep(folder: Path) -> None:
    (folder / "tiny.toml").write_text((RECIPES / "kept.toml").read_text())
    write_sweep(folder / "sweep")


def _students(folder: Path) -> list[str]:
    """Work of students with and without mistakes, and the doctor's question for each."""
    cases = make_cases(folder, seed=11, defects=24, healthy=6, layouts=tuple(LAYOUTS)[:2])
    options = [f"--{case.kind} {case.file.relative_to(folder)} " if case.file else "" for case in cases]
    return [f"doctor {one}--data {case.data.relative_to(folder)}" for one, case in zip(options, cases, strict=True)]


CLASSIFIER = "classifier.py:build --weights classifier.safetensors --data orders"
ADDER = "adder.py:build --weights adder.safetensors --data sums"
BERT, GPT = "hf:bert --data texts.jsonl --text text --label label", "hf:gpt --data texts.txt"

SIZES = "--set data.train=20 --set data.validation=4 --set data.test=8"

SCENES = (
    Scene(
        "addition",
        ("add-seed0",),
        (
            "evaluate add-seed0 --split validation",
            "heads add-seed0 --n 60 --examples 1",
            "attack add-seed0 --tries 600",
            "doctor add-seed0 --all",
            "report add-seed0 --course course --methods paper.tex",
            "prune add-seed0 --max-drop 5 --out pruned",
            "prune add-seed0 --keep enc0.self.h1,dec0.cross.h0,dec0.cross.h2 --out kept-three --json",
            "doctor pruned",
            "explore add-seed0 --out page.html",
            "verify add-seed0",
            "runs .",
            "evaluate add-seed0 --split all --checkpoint 600 --json",
        ),
    ),
    Scene(
        "two-seeds",
        ("add-seed0", "add-seed1"),
        (
            "heads add-seed0 add-seed1 --n 30 --examples 1 --no-figures",
            "doctor add-seed0 add-seed1",
            "report add-seed0 add-seed1 --out both",
        ),
    ),
    Scene(
        "order",
        ("order-seed0", "order-seed1"),
        (
            "evaluate order-seed0",
            "heads order-seed0 --n 40 --examples 1 --scores",
            "lengths order-seed0 --n 24 --at 6,8 --mechanism",
            "lengths order-seed0 order-seed1 --n 400 --whole 500 --at 4,6,12 --no-figures --out both-lengths",
            "attack order-seed0 --at 4,8 --tries 800",
            "doctor order-seed0",
            "explore order-seed0 order-seed1 --out page.html",
            "report order-seed0 --course course",
        ),
    ),
    Scene(
        "text",
        ("text-seed0",),
        (
            "evaluate text-seed0",
            "heads text-seed0 --n 40 --examples 1",
            "lengths text-seed0 --n 20 --mechanism",
            "attack text-seed0 --tries 400",
            "explore text-seed0 --out page.html",
            "report text-seed0",
        ),
    ),
    Scene("kept", ("kept-seed0",), ("heads kept-seed0 --n 60 --split all --over-training", "report kept-seed0")),
    Scene(
        "proofs",
        ("guided-seed0", "order-seed0", "local-seed0"),
        (
            "prove guided-seed0",
            "prove --check guided-seed0/analysis/proof.json",
            "prove order-seed0",
            "prove local-seed0",
            "prove --check local-seed0/analysis/proof.json",
            "doctor guided-seed0",
            "report guided-seed0",
        ),
    ),
    Scene(
        "course-models",
        (),
        (
            f"heads {CLASSIFIER} --n 30 --examples 1 --out own",
            f"lengths {CLASSIFIER} --n 20 --at 6,9 --out own",
            f"doctor {CLASSIFIER} --all",
            f"attack {CLASSIFIER} --tries 300",
            "report own",
            "explore own --out own.html",
            f"heads {ADDER} --n 30 --no-figures",
            f"lengths {ADDER} --n 20 --no-figures",
            f"doctor {ADDER}",
            f"attack {ADDER} --tries 200",
        ),
        write_course,
    ),
    Scene(
        "hugging-face",
        (),
        (
            f"heads {BERT} --examples 1 --out own --no-figures",
            f"doctor {BERT} --all",
            f"heads {GPT} --no-figures",
            f"heads {GPT} --metric next_token_accuracy --json --no-figures",
            f"doctor {GPT}",
            "report own",
        ),
        write_checkpoints,
    ),
    Scene(
        "sweep",
        (),
        (
            "sweep tiny.toml --vary train.lr=0.01,0.02 --seeds 0-2 --dry-run",
            "sweep tiny.toml --vary train.lr=1e-3..1e-1:log --trials 4 --search random --dry-run",
            "compare sweep",
            "compare sweep --by train.lr --sort train.lr --success 0.4",
            "compare sweep --metric validation_loss --format markdown",
            "compare sweep --format csv --figure",
            "compare sweep --json",
        ),
        _sweep,
    ),
    Scene(
        "files",
        ("kept-seed0",),
        (
            f"data addition --out sums --set task.digits=2 {SIZES}",
            f"data sortedness --out orders {SIZES}",
            "doctor --data sums",
            "exercise exercise --seed 3",
            "new task package",
            "explore kept-seed0 --out kept.html",
            "train kept.toml --seed 2 --set train.steps=10 --set train.validate_every=5 --out again --json",
            "train order.toml --set train.steps=6 --set train.validate_every=3 --set data.train=200 --out ordered",
        ),
    ),
    Scene("students", (), (), _students),
)
