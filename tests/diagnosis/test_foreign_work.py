"""The doctor on work as students leave it: no defect is called fine, nearly all are named, sound work has no error."""

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headway.cli.main import run as headway
from headway.diagnosis import explanations, material, predictions, published
from headway.diagnosis.foreign import ForeignData, read_data
from headway.diagnosis.published_results import read_results
from headway.errors import InputError
from headway.results.doctor import Diagnosis
from headway.statistics import wilson_interval
from tests.diagnosis import foreign_work
from tests.diagnosis.foreign_work import Case, Student, draw_random_table, make_cases


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that many cases share is read once."""
    known: dict[Path, ForeignData] = {}

    def read(directory: Path) -> ForeignData:
        if directory not in known:
            known[directory] = read_data(directory)
        return known[directory]

    for module in (material, predictions, published):
        monkeypatch.setattr(module, "read_data", read)


def diagnose(case: Case) -> Diagnosis:
    if case.file is None:
        return material.examine_data(case.data)
    if case.kind == "predictions":
        return predictions.examine_predictions(case.file, case.data)
    return published.examine_results(case.file, case.data)


def judge(case: Case) -> str:
    """`named`, `misnamed` or `fine` for work with a defect; `sound`, `alarmed` or `not read` for healthy work.

    Named: the first error is the planted one, or where there is no error a warning is. Fine: nothing was said, but
    that the numbers are not explained.
    """
    found = diagnose(case)
    errors, said = [one.check for one in found.errors], [one.check for one in found.warnings]
    if not case.named:
        return "alarmed" if errors else "not read" if set(said) & set(material.UNEXAMINED) else "sound"
    if not errors and not set(said) - {"not-explained"}:
        return "fine"
    return "named" if (errors[0] in case.named if errors else case.named & set(said)) else "misnamed"


def measured(cases: list[Case]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in cases:
        verdict = judge(case)
        counts[verdict] += 1
        counts[f"{case.truth}: {verdict}"] += 1
        if verdict in ("fine", "misnamed", "alarmed", "not read"):
            print(verdict, case)
    return counts


def check_bars(counts: Counter[str]) -> None:
    assert counts["fine"] == 0
    assert counts["named"] >= 0.95 * (counts["named"] + counts["misnamed"])
    healthy = counts["sound"] + counts["alarmed"] + counts["not read"]
    assert counts["alarmed"] <= 0.01 * healthy
    assert counts["not read"] <= 0.01 * healthy


def explained_by_chance(folder: Path, tables: int, seed: int) -> tuple[int, int]:
    """Of so many tables that no defect produced, how many a defect explains: as an error, and as a warning."""
    student = Student(folder, seed)
    worlds = [student.world("sums", "flat"), student.world("sequences", "flat")]
    data = [read_data(world.folder) for world in worlds]
    rng = random.Random(seed)
    defects = {candidate.check for candidate in (*explanations.SUMS, *explanations.CLASS)}
    found = Counter[str]()
    for index in range(tables):
        suffix, text = draw_random_table(rng, worlds[index % 2])
        path = folder / f"random.{suffix}"
        path.write_text(text, encoding="utf-8", newline="")
        findings = published.explain(read_results(path, data[index % 2].set_lengths), data[index % 2])
        found[min((one.level for one in findings if one.check in defects), default="none")] += 1
    return found["error"], found["warning"]


def test_there_are_enough_styles() -> None:
    assert len(foreign_work.RESULT_STYLES) >= 12
    assert min(len(foreign_work.LAYOUTS), len(foreign_work.PREDICTIONS)) >= 6


def test_a_few_of_every_kind_are_named_and_healthy_ones_are_not(tmp_path: Path, read_once: None) -> None:
    counts = measured(make_cases(tmp_path, 3, 24, 10, layouts=("extrapolation",)))
    check_bars(counts)
    assert counts["misnamed"] == counts["alarmed"] == 0


def test_few_random_tables_are_explained_by_a_defect(tmp_path: Path) -> None:
    assert (
        explained_by_chance(tmp_path, 200, 1)[0] <= 6
    )  # 1 % is the bar; 6 of 200 is more than that by chance in 0.4 %


@pytest.mark.long
def test_hundreds_of_cases_are_named_and_healthy_ones_are_not(tmp_path: Path, read_once: None) -> None:
    counts = measured(make_cases(tmp_path, 11, 800, 500, worlds=2))
    print(dict(sorted(counts.items())))
    print("false errors, 95 % interval:", wilson_interval(counts["alarmed"], 500))
    check_bars(counts)


@pytest.mark.long
def test_at_most_one_in_a_hundred_random_tables_is_explained(tmp_path: Path) -> None:
    errors, warnings = explained_by_chance(tmp_path, 10_000, 5)
    print(f"explained: {errors} of 10,000, interval {wilson_interval(errors, 10_000)}; warnings {warnings}")
    assert errors <= 100


FLAGSHIP = {"baseline_accuracy": 0.412, "ablation": {f"encoder_{n // 4}_{n % 4}": 0.412 - n / 2_000 for n in range(24)}}


def test_a_baseline_is_a_claim_of_its_own_and_its_heads_do_not_dilute_it(tmp_path: Path) -> None:
    rng = random.Random(643)
    sums = {(rng.randint(100, 999), rng.randint(100, 999)) for _ in range(12_000)}
    below, above = ([pair for pair in sums if (sum(pair) < 1_000) == low] for low in (True, False))
    rows = [foreign_work.sum_row(pair, sum(pair)) for pair in [*below[:824], *above[:1_176]]]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.json").write_text(json.dumps(rows))
    (tmp_path / "results.json").write_text(json.dumps(FLAGSHIP))
    first = published.examine_results(tmp_path / "results.json", tmp_path / "data").findings[0]
    assert (first.check, first.level) == ("first-digit-never-predicted", "error")
    assert "0.412 is the share of sums below 1000 in your test file (824 of 2,000)" in first.evidence
    assert "over 1 claim and 6 explanations" in first.evidence


@pytest.fixture(scope="module")
def sequence_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of sequences, written once for all tests that only read them."""
    return sequences(tmp_path_factory.mktemp("sequences") / "data")


def sequences(folder: Path) -> Path:
    world = foreign_work.make_world(folder, "sequences", "extrapolation", 5)
    return world.folder


@pytest.mark.parametrize(
    ("name", "content", "check"),
    [
        ("a.json", '{"lengths": [8, 16, 32, 64], "a": [0.99, NaN, 0.98, 0.9]}', "not-examined"),
        ("a.json", '{"a": {"32": 0.9, "48": 0.9}}', "length-without-data"),
        ("a.json", '{"baseline": 0.51, "layer_0": {"head_0": 0.5, "head_1": 0.51}}', "nothing-to-lose"),
        ("a.csv", "length,a,b\n32,.03,.99\n64,.02,.99\n", "answers-permuted"),
        ("a.txt", "=== a ===\nLength 32: accuracy = 0.030\nLength 64: accuracy = 0.020", "answers-permuted"),
        ("a.csv", "length,accuracy\n32,nan\n64,0.9\n", "not-examined"),
        ("a.json", '{"32": Infinity, "64": 0.9, "128": 0.8}', "not-examined"),
        ("a.json", '{"32": 1.0000000000000002, "64": 0.99}', "not-explained"),
        ("a.json", '{"columns": ["length", "acc"], "index": [0, 1], "data": [[32, 0.97], [64, 0.9]]}', "not-explained"),
        (
            "a.json",
            '{"0": {"length": 32, "accuracy": 0.02}, "1": {"length": 64, "accuracy": 0.03}}',
            "answers-permuted",
        ),
        ("a.json", '{"best_metric": 0.97, "log_history": [{"epoch": 1.0, "eval_accuracy": 0.97}]}', "not-explained"),
        ("a-tag-val_acc.csv", "Wall time,Step,Value\n1710000000.1,1,0.5\n1710000001.1,2,0.02\n", "answers-permuted"),
        ("val_acc.json", "[[1710000000.1, 1, 0.5], [1710000001.1, 2, 0.02]]", "answers-permuted"),
        ("a.txt", "Epoch 1: loss 0.412 acc 93.2%\nEpoch 2: loss 0.312 acc 94.2%\n", "not-explained"),
        ("a.json", '{"length": [32, 64], "accuracy": [0.02, 0.03], "n": [500, 500]}', "answers-permuted"),
        ("a.json", '{"rope": {"32": 0.9, "64": 0.9}, "dropout_0.1": {"32": 0.02, "64": 0.03}}', "answers-permuted"),
        ("a.json", '{"hparams": {"betas": [0.9, 0.98], "warmup": 0.1}, "test": {"32": 0.97}}', "not-explained"),
        ("a.csv", "layer,head,acc_without,acc_full\n0,0,0.5,0.51\n0,1,0.51,0.51\n", "nothing-to-lose"),
        ("a.txt", "baseline acc = 0.51\nablate L0.H1 -> acc = 0.50\nablate L0.H2 -> acc = 0.51\n", "nothing-to-lose"),
        ("a.csv", "layer,head,accuracy\n0,0,0.5\n0,1,0.51\n", "not-examined"),
        ("a.csv", "# length,accuracy\n3.200000e+01,3.000000e-02\n6.400000e+01,2.000000e-02\n", "answers-permuted"),
        ("a.csv", "# on the second try\nlength,accuracy\n32,.03\n64,.02\n", "answers-permuted"),
        ("a.json", '{"a": {"32": 0.97, "64": 0.9, "128": 0.52, "256": 0.5}}', "no-better-than-majority"),
    ],
)
def test_what_tables_of_a_classifier_say_first(
    tmp_path: Path, sequence_data: Path, name: str, content: str, check: str
) -> None:
    (tmp_path / name).write_text(content)
    found = published.examine_results(tmp_path / name, sequence_data)
    assert found.findings[0].check == check


def test_data_alone_is_examined_and_what_cannot_be_read_comes_first(tmp_path: Path) -> None:
    directory = sequences(tmp_path / "data")
    assert headway(["doctor", "--data", str(directory)]) == 0
    (directory / "test_more.json").write_text("{broken")
    assert headway(["doctor", "--data", str(directory)]) == 1
    assert material.examine_data(directory).findings[0].check == "not-examined"


def test_an_accuracy_of_0_below_a_heads_name_is_no_head(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"baseline": 0.0005, "ablation": {"layer0_head0": 0.0, "layer0_head1": 1}}')
    assert [(one.kind, len(one.points)) for one in read_results(tmp_path / "a.json").series] == [
        ("baseline", 1),
        ("head", 2),
    ]


@pytest.mark.parametrize(
    "name", ["low_rank", "token_shift", "dropout=0.1", "lr=0.001", "max_pool", "8 heads", "enc", "h4"]
)
@pytest.mark.parametrize("by_rows", [True, False])
def test_a_model_is_read_whatever_its_name(tmp_path: Path, sequence_data: Path, name: str, by_rows: bool) -> None:
    directory = sequence_data
    data = read_data(directory)
    shares = {n: float((some[0].target == 0).mean()) for n, some in data.by_length.items() if n in foreign_work.LENGTHS}
    if by_rows and name not in ("8 heads", "enc", "h4"):
        rows = [f"{n},0.97,{share}" for n, share in shares.items()]
        path, text = tmp_path / "a.csv", "\n".join([f"length,rope,{name}", *rows])
    else:
        path, text = tmp_path / "a.json", json.dumps({"rope": dict.fromkeys(shares, 0.97), name: shares})
    path.write_text(text)
    found = published.examine_results(path, directory)
    assert [one.check for one in found.errors] == ["constant-answer"]
    assert name in found.errors[0].evidence


def half_and_half(folder: Path) -> Path:
    """Test files in which both classes are equally frequent, as `headway data` writes them."""
    for length in foreign_work.LENGTHS:
        rng = random.Random(length)
        sorted_ones = [sorted(rng.randint(0, 99) for _ in range(length)) for _ in range(500)]
        rows = [foreign_work.sequence_row(one, 1) for one in sorted_ones[:250]]
        rows += [foreign_work.sequence_row([*one[1:], one[0]], 0) for one in sorted_ones[250:]]
        foreign_work.put(folder / f"test_{length}.json", json.dumps(rows))
    return folder


@pytest.mark.parametrize(
    ("name", "content", "level"),
    [
        ("a.json", '{"32": 0.5, "64": 0.5, "128": 0.5, "256": 0.5}', "error"),
        ("a.csv", "model,test_32,test_64,test_128,test_256\na,0.5,0.5,0.5,0.5\nb,0.99,0.952,0.9,0.85\n", "error"),
        ("a.md", "| 32 | 64 | 128 | 256 |\n|---|---|---|---|\n| 0.5 | 0.5 | 0.5 | 0.5 |\n", "warning"),
    ],
)
def test_a_half_that_a_program_wrote_is_a_half_and_one_that_a_person_wrote_may_be_rounded(
    tmp_path: Path, name: str, content: str, level: str
) -> None:
    (tmp_path / name).write_text(content)
    first = published.examine_results(tmp_path / name, half_and_half(tmp_path / "data")).findings[0]
    assert (first.check, first.level) == ("constant-answer" if level == "error" else "no-better-than-majority", level)


def test_an_accuracy_in_single_precision_is_the_share_that_it_was(tmp_path: Path) -> None:
    directory = sequences(tmp_path / "data")
    data = read_data(directory)
    shares = {n: float((some[0].target == 0).mean()) for n, some in data.by_length.items() if n in foreign_work.LENGTHS}
    (tmp_path / "a.json").write_text(json.dumps({str(n): float(np.float32(share)) for n, share in shares.items()}))
    found = published.examine_results(tmp_path / "a.json", directory)
    assert found.errors[0].check == "constant-answer"
    assert "impossible-accuracy" not in [one.check for one in found.findings]


def test_files_of_a_split_that_are_not_read_are_listed(tmp_path: Path) -> None:
    directory = sequences(tmp_path / "data")
    (directory / "best_val.pt").write_bytes(b"weights")
    (directory / "notes_on_test.txt").write_text("all good")
    assert headway(["doctor", "--data", str(directory)]) == 0
    for name in ("test.pkl", "test.json.gz", "test_512.npy"):
        (directory / name).write_bytes(b"\0\0")
        assert headway(["doctor", "--data", str(directory)]) == 1
        assert name in material.examine_data(directory).findings[0].evidence
        (directory / name).unlink()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"length,accuracy\n<<<<<<< HEAD\n32,0.5\n=======\n", "a.csv line 2 is a merge mark"),
        ("a.json", b"", "a.json is empty"),
        ("a.xlsx", b"PK\3\4\0\0", "a.xlsx is not a text file; save it as CSV or JSON"),
        ("a.csv", b"length,accuracy\n32,nan\n", "accuracies without a number"),
    ],
)
def test_results_that_cannot_be_read_say_why(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_results(tmp_path / name)


def test_merge_marks_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n<<<<<<< HEAD\n"accuracy": 0.4\n=======\n"accuracy": 0.5\n>>>>>>> b\n}')
    with pytest.raises(InputError, match=r"a.json is not JSON: line 2 is a merge mark"):
        read_results(tmp_path / "a.json")
