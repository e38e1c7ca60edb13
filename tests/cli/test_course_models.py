"""Commands other than `heads` on models of a course: a hand-written encoder and encoder-decoder."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from headway.attached_analysis.course_lengths import _smallest
from headway.cli.main import run
from tests.cli import course_models
from tests.cli.course_models import built, orders, write_course

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


def right_sums(path: str) -> list[bool]:
    """Whole answers of the adder by greedy decoding in plain PyTorch."""
    model = built(course_models.ADDER)
    model.load_state_dict(load_file("adder.safetensors"))
    found = []
    for row in json.loads(Path(path).read_text()):
        answer = [11]
        for _ in row["target"]:
            answer.append(int(model(torch.tensor([row["input"]]), torch.tensor([answer]))[0, -1].argmax()))
        found.append(answer[1:] == row["target"])
    return found


def right_orders(rows: list[dict[str, Any]]) -> list[bool]:
    model = built(course_models.CLASSIFIER)
    model.load_state_dict(load_file("classifier.safetensors"))
    return [int(model(torch.tensor([row["sequence"]])).argmax()) == row["is_sorted"] for row in rows]


def test_lengths_of_an_adder_are_those_of_its_test_files(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(f"lengths {ADDER}", capsys)
    assert (found["task"], found["unit"], found["run"]) == ("addition", "digits", "adder.py:build")
    assert found["training"] == {"shortest": 3, "longest": 3} and found["held"] == {"files": 0}
    for row, path in zip(found["lengths"], ("sums/test.json", "sums/test_4.json"), strict=True):
        right = right_sums(path)
        assert (row["n"], row["wrong"], row["trained"]) == (40, right.count(False), row["length"] == 3)
        assert row["decoded"]["disagreements"] == 0 and row["decoded"]["n"] == 40


def test_the_loss_of_an_adder_is_over_its_digits_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(f"lengths {ADDER}", capsys)
    model = built(course_models.ADDER)
    model.load_state_dict(load_file("adder.safetensors"))
    for row, path in zip(found["lengths"], ("sums/test.json", "sums/test_4.json"), strict=True):
        rows = json.loads(Path(path).read_text())
        source, target = (torch.tensor([one[key] for one in rows]) for key in ("input", "target"))
        begun = torch.cat([torch.full((len(rows), 1), 11), target[:, :-1]], dim=1)
        lost = torch.nn.functional.cross_entropy(model(source, begun).flatten(0, 1), target.flatten())
        assert row["loss"] == pytest.approx(float(lost.detach()), rel=1e-4)


def test_numbers_may_begin_with_0_where_those_of_training_do(capsys: pytest.CaptureFixture[str]) -> None:
    """In these files only second numbers have leading zeros."""
    Path("zeros").mkdir()
    rows = []
    for a, b in ((100 + 7 * place, place) for place in range(40)):
        digits = [[int(digit) for digit in f"{number:0{width}d}"] for number, width in ((a, 3), (b, 3), (a + b, 4))]
        rows.append({"input": [*digits[0], 10, *digits[1]], "target": digits[2]})
    for name in ("train", "val", "test"):
        Path(f"zeros/{name}.json").write_text(json.dumps(rows))
    found = document(f"lengths {ADDER.replace('--data sums', '--data zeros')}", capsys)
    assert [row["n"] for row in found["lengths"]] == [40]


def test_few_examples_of_the_files_do_not_lower_the_length_held() -> None:
    assert _smallest({"swaps": 9, "adjacent": 12, "files": 4}) == 9
    assert _smallest({"files": 4}) == 4


def test_an_adder_that_sees_the_next_token_disagrees_with_its_decoding(capsys: pytest.CaptureFixture[str]) -> None:
    code = course_models.ADDER.replace("torch.tril(torch.ones(tgt.size(1)", "(torch.ones(tgt.size(1)")
    code = code.replace("return self.output(", "return 9 * nn.functional.one_hot(tgt.roll(-1, 1), 12) + self.output(")
    Path("leaking.py").write_text(code)
    found = document(f"lengths {ADDER.replace('adder.py', 'leaking.py')}", capsys, code=1)
    assert found["lengths"][0]["decoded"]["real_disagreements"] > 0


def test_lengths_of_a_classifier_are_on_its_files_and_on_the_sets_of_the_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("many").mkdir()
    for name in ("train", "val", "test"):
        Path(f"many/{name}.json").write_text(Path(f"orders/{name}.json").read_text())
    rows = orders(random.Random(3), 400, range(9, 10))
    Path("many/test_9.json").write_text(json.dumps(rows))
    found = document(f"lengths {CLASSIFIER.replace('orders', 'many')} --n 400 --whole 0 --at 9,80", capsys)
    assert found["training"] == {"shortest": 4, "longest": 7} and found["unreadable"] == [80]
    assert list(found["held"]) == ["swaps", "adjacent", "matched", "plateaus", "descents", "files"]
    own = next(row for row in found["lengths"] if row["negatives"] == "files")
    assert (own["length"], own["n"], own["wrong"]) == (9, 400, right_orders(rows).count(False))
    assert own["target_shares"] == {"0": 0.5, "1": 0.5} and not own["trained"]
    for row in found["lengths"]:
        for wrong in row["wrong_examples"]:
            text, _, label = wrong["example"].partition(" -> ")
            sequence = [int(value) for value in text.split()]
            assert min(sequence) >= 1 and max(sequence) <= 19, "elements of the files"
            assert right_orders([{"sequence": sequence, "is_sorted": int(label)}]) == [False]
            assert int(label) == int(sequence == sorted(sequence))


def test_the_lines_of_lengths_name_what_the_model_cannot_read(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "lengths short.py:build --weights short.safetensors --data orders --n 20 --whole 0"
    assert run([*arguments.split(), "--quiet", "--device", "cpu"]) == 0
    told = capsys.readouterr().out
    assert "short.py:build was trained on 4 to 7 elements, the lengths in train.json" in told
    assert "It cannot read inputs of length 14, 28, 56, 112, 224 and 448 and fails with an error there" in told


def test_a_constant_model_holds_no_length(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(f"lengths {CLASSIFIER.replace(':build', ':constant')} --n 400 --whole 0 --at 9", capsys)
    assert found["constant"] == {"answer": "1", "from": 4} and found["length_held"] == 0


@pytest.mark.parametrize(("model", "answers"), [(CLASSIFIER, "is_sorted"), (ADDER, "target")])
def test_failing_inputs_of_an_attack_fail_in_plain_pytorch(
    model: str, answers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(f"attack {model} --tries 600 --seconds 60", capsys, code=1)
    assert found["run"] == model.split()[0] and found["counterexamples"]
    records = [one["record"] for one in found["counterexamples"]]
    assert all(answers in record for record in records)
    Path("records.json").write_text(json.dumps(records))
    right = right_orders(records) if answers == "is_sorted" else right_sums("records.json")
    assert not any(right) and not any(one["link"] for one in found["counterexamples"])


def test_lengths_and_attack_refuse_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    Path("untrained").mkdir()
    Path("untrained/test.json").write_text(Path("orders/test.json").read_text())
    Path("wrong").mkdir()
    rows = json.loads(Path("sums/train.json").read_text())
    rows[3]["target"][-1] = (rows[3]["target"][-1] + 1) % 10
    for name in ("train", "val", "test"):
        Path(f"wrong/{name}.json").write_text(json.dumps(rows))
    short = "short.py:build --weights short.safetensors --data orders"
    for arguments, message in (
        ("lengths classifier.py:build --data orders", "--weights FILE.safetensors needed"),
        ("attack classifier.py:build --weights classifier.safetensors", "--data DIR with the course's JSON files"),
        (f"lengths {CLASSIFIER.replace('--data orders', '--data untrained')}", "train.json: no such file in untrained"),
        (f"lengths {CLASSIFIER.replace('--data orders', '--data orders/test.json')}", "a directory with train.json"),
        (f"attack {ADDER.replace('--data sums', '--data wrong')}", "is not the sum"),
        (f"attack {ADDER.replace('--data sums', '--data orders')}", "adder.py:build fails on a batch"),
        (f"attack {short} --at 14", "short.py:build fails on inputs of 14 tokens: RuntimeError"),
        (f"lengths {ADDER} --at 9", "--at 9: the test files have no sums of 9 digits; they have 3, 4"),
        (f"lengths {CLASSIFIER} --mechanism", "--mechanism is for runs"),
        ("lengths hf:nowhere --data orders", "only FILE.py:FUNCTION on the course's tasks"),
        ("lengths some-run --data orders", "--data is for another model, FILE.py:FUNCTION; some-run is a run"),
        ("attack some-run --weights w", "--weights is for another model, FILE.py:FUNCTION; some-run is a run"),
        (f"attack {CLASSIFIER.replace(':build', ':returns_a_dictionary')}", "returned"),
    ):
        assert message in refused(arguments, capsys), arguments


def test_a_model_that_returns_a_tuple_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(f"lengths {CLASSIFIER.replace(':build', ':returns_a_tuple')} --n 20 --whole 0 --at 9", capsys)
    plain = document(f"lengths {CLASSIFIER} --n 20 --whole 0 --at 9", capsys)
    assert [row["wrong"] for row in found["lengths"]] == [row["wrong"] for row in plain["lengths"]]


@pytest.fixture(scope="module")
def analysed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("analysed") / "adder"
    given = [f"adder.py:build --weights {folder}/adder.safetensors --data {folder}/sums --quiet --device cpu"]
    arguments = [str(folder / word) if word.startswith("adder.py") else word for word in given[0].split()]
    assert run(["heads", *arguments, "--out", str(out), "--json"]) == 0
    return out


def test_a_directory_of_an_analysed_model_has_answers_without_each_head(analysed: Path) -> None:
    record = json.loads((analysed / "model.json").read_text())
    heads = json.loads((analysed / "analysis" / "heads.json").read_text())
    assert record["sites"] == ["enc0.self", "dec0.self", "dec1.cross"] and record["split"] == "test"
    rows = json.loads(Path("sums/test.json").read_text())[: len(record["examples"])]
    assert len(rows) == len(heads["capture"]["examples"]) == 3
    model = built(course_models.ADDER)
    model.load_state_dict(load_file("adder.safetensors"))
    source, target = (torch.tensor([row[key] for row in rows]) for key in ("input", "target"))
    shifted = torch.cat([torch.full((3, 1), 11), target[:, :3]], dim=1)
    for example, answer in zip(record["examples"], model(source, shifted).argmax(-1).tolist(), strict=True):
        assert example["answer"] == [str(token) for token in answer]
    with torch.no_grad():
        model.decoder.cross_attn.W_o.weight[:, 8:] = 0
    for example, answer in zip(record["examples"], model(source, shifted).argmax(-1).tolist(), strict=True):
        assert example["without"]["dec1.cross.h1"] == [str(token) for token in answer]


def test_the_report_and_the_explorer_open_an_analysed_model(
    analysed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document_of(["report", str(analysed)], capsys)
    assert found["problems"] == [] and found["sections"][0] == "heads" and "doctor" in found["sections"]
    page = Path(found["page"]).read_text()
    assert "is a model of another program" in page and "Shapley" in page and "enc0.self.h1" in page
    made = document_of(["explore", str(analysed), "--out", str(tmp_path / "page.html")], capsys)
    text = (tmp_path / "page.html").read_text()
    assert made["page"] == str(tmp_path / "page.html") and "it cannot run in this page" in text
    assert "report/index.html" in text and "default-src" in text


def document_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert run([*arguments, "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def test_lengths_of_the_same_model_join_its_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*f"heads {CLASSIFIER} --quiet --json --out {tmp_path}/made".split()]) == 0
    assert run([*f"lengths {CLASSIFIER} --n 20 --whole 0 --at 9 --quiet --json --out {tmp_path}/made".split()]) == 0
    capsys.readouterr()
    assert "lengths" in document_of(["report", f"{tmp_path}/made"], capsys)["sections"]
    other = f"lengths {CLASSIFIER.replace(':build', ':constant')} --out {tmp_path}/made"
    assert "holds the analysis of classifier.py:build" in refused(other, capsys)


def test_directories_that_do_not_fit_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for arguments, message in (
        (f"heads {CLASSIFIER} --out {tmp_path}", "holds other files; an empty or new directory needed"),
        (f"heads {CLASSIFIER} --out {tmp_path}/notes.txt", "is a file; a directory needed"),
        (f"heads some-run --out {tmp_path}/new", "--out is for another model"),
    ):
        assert message in refused(arguments, capsys), arguments
