"""The command that runs everything again repeats what was asked for and is not the default, once."""

from pathlib import Path
from typing import Any

import pytest

from headway.reports.blocks import Command
from headway.reports.documents import Documents, RunDocuments, StudyDocuments, documents_of, gather
from headway.reports.sections import provenance
from headway.results.doctor import Diagnosis
from headway.results.evaluation import Evaluations, SequenceEvaluation
from headway.results.schema import blank
from headway.storage import write_json
from tests.reports.made_up_runs import make_run
from tests.results.made_up import length_row, lengths_of, mechanism_of
from tests.results.made_up_values import typed


def commands(documents: Documents) -> list[str]:
    (block,) = provenance.reproduce(documents)
    assert isinstance(block, Command)
    return block.line.split(" && ")


def told(run: Path, **documents: Any) -> Documents:
    """A run that was trained by a command, and what its documents say."""
    record = {"command": ["headway", "train", "addition"]}
    return documents_of([RunDocuments(run.name, str(run), provenance=record, **documents)])


def test_options_that_are_not_the_default_are_repeated() -> None:
    heads = typed({"settings": {"split": "validation", "examples": 500, "thorough": True, "maps": 5}})
    lengths = lengths_of([length_row(32)], asked=(32, 64), n=300, mechanism=mechanism_of())
    one = blank(SequenceEvaluation)
    evaluations = Evaluations(test=one, whole=one)
    found = told(Path("a"), evaluation=evaluations, heads=heads, lengths=lengths, doctor=blank(Diagnosis))
    assert commands(found) == [
        "headway train addition",
        "headway evaluate a",
        "headway evaluate a --split all",
        "headway heads a --split validation --n 500 --examples 5 --thorough",
        "headway lengths a --at 32,64 --n 300 --mechanism",
        "headway doctor a",
        "headway report a",
    ]


def test_defaults_are_left_out() -> None:
    heads = typed({"settings": {"split": "test", "examples": 2_000, "thorough": False}})
    found = told(Path("a"), heads=heads, lengths=lengths_of([length_row(32)], n=2_000))
    assert commands(found)[1:-1] == ["headway heads a", "headway lengths a"]


def test_a_command_that_trained_several_runs_stands_once(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"seed{seed}", seed=seed, analyses=("doctor",)) for seed in range(3)]
    for run in runs:
        record = {"command": ["/lib/headway/__main__.py", "train", "addition", "--seeds", "0-2"]}
        write_json(run.path / "provenance.json", record)
    trained, *rest = commands(gather(runs).documents)
    assert trained == "headway train addition --seeds 0-2"
    assert [line.split()[1] for line in rest] == ["doctor", "doctor", "doctor", "report"]


def study(names: list[str], arms: list[dict[str, Any]], command: list[str]) -> str:
    plan = {"experiment": "sortedness", "preset": "full", "arms": arms}
    runs = [RunDocuments(name, name, provenance={"command": command}) for name in names]
    (line,) = commands(documents_of(runs, StudyDocuments("s", "s", plan=plan)))
    return line.removeprefix("headway study sortedness --preset full").removesuffix(" --out s")


ALIKE = [{"name": "long", "seeds": [0, 1]}, {"name": "long-without-bands", "seeds": [0, 1]}]
BOTH = ["long-seed0", "long-without-bands-seed0"]


@pytest.mark.parametrize(
    ("names", "arms", "command", "options"),
    [
        (BOTH, ALIKE, ["headway", "study", "sortedness"], ""),
        (BOTH, ALIKE, ["headway", "study", "sortedness", "--seeds", "0,1"], " --seeds 0-1"),
        (BOTH, ALIKE, ["headway", "study", "sortedness", "--seeds=0-1"], " --seeds 0-1"),
        (BOTH, ALIKE, ["hw.study"], " --seeds 0-1"),
        (BOTH, [{**ALIKE[0], "seeds": [0]}, ALIKE[1]], ["hw.study"], ""),
        (BOTH[1:], ALIKE, ["headway", "study", "sortedness"], " --arms long-without-bands"),
        (BOTH[:1], ALIKE, ["headway", "study", "sortedness"], " --arms long"),
    ],
)
def test_a_study_keeps_its_seeds_and_the_arms_that_were_done(
    names: list[str], arms: list[dict[str, Any]], command: list[str], options: str
) -> None:
    assert study(names, arms, command) == options
