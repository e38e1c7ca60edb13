"""Commands other than `heads` on models of a course: a hand-written encoder and encoder-decoder."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.cli.main import run
from tests.cli.course_models import write_course

CLASSIFIER = "classifier.py:build --weights classifier.safetensors --data orders"
ADDER = "adder.py:build --weights adder.safetensors --data sums"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("course_models")
    write_course(made)
    return made


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def document(arguments: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    assert run([*arguments.split(), "--json", "--quiet", "--device", "cpu"]) == code
    return json.loads(capsys.readouterr().out)


def refused(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*arguments.split(), "--quiet", "--device", "cpu"]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1, told
    return told[0].removeprefix("headway: ")


def levels(found: Any) -> dict[str, str]:
    return {one["check"]: one["level"] for one in found["findings"]}


@pytest.mark.parametrize("model", [CLASSIFIER, ADDER, ADDER + " --split validation --metric kl"])
def test_the_doctor_finds_no_error_in_models_of_a_course(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(f"doctor {model}", capsys)
    assert found["run"] == model.split()[0]
    assert "error" not in levels(found).values() and levels(found)["hook-misplaced"] == "fine"


@pytest.mark.parametrize(
    ("model", "right", "wrong", "check"),
    [
        (CLASSIFIER, "(x * real).sum(1)", "(x * real).sum(1) + torch.randn(12)", "dropout-on"),
        (CLASSIFIER, "(x * real).sum(1) / real.sum(1)", "x.mean(1)", "padding-changes-output"),
        (ADDER, "return self.output(", "return self.output(float('nan') * ", "not-finite"),
    ],
)
def test_the_doctor_names_faults_of_a_course_model_with_exit_1(
    model: str, right: str, wrong: str, check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = f"{model.split('.')[0]}.py"
    code = Path(own).read_text()
    assert right in code
    Path("faulty.py").write_text(code.replace(right, wrong))
    found = document(f"doctor {model.replace(own, 'faulty.py', 1)}", capsys, code=1)
    assert levels(found)[check] == "error"


def test_the_doctor_warns_of_a_constant_answer(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(f"doctor {CLASSIFIER.replace(':build', ':constant')}", capsys, code=1)
    assert levels(found)["constant-answer"] == "warning"


def test_the_doctor_refuses_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        ("classifier.py:build --data orders", "--weights FILE.safetensors needed"),
        ("classifier.py:build --weights classifier.safetensors", "--data DIR with the course's JSON files needed"),
        (f"{CLASSIFIER} --specimens", "RUN and --specimens exclude each other"),
        ("some-run --weights classifier.safetensors", "--weights is for another model, FILE.py:FUNCTION or hf:PATH"),
        (CLASSIFIER.replace(":build", ":returns_a_dictionary"), "returned"),
    ):
        assert message in refused(f"doctor {arguments}", capsys), arguments
