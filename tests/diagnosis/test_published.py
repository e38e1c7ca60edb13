"""Published tables: what the data alone explains is said in the data's own numbers, and nothing else is."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.diagnosis.explanations import sets_of
from headway.diagnosis.findings import Finding
from headway.diagnosis.foreign import read_data
from headway.diagnosis.printed import as_number, content_of
from headway.diagnosis.published import examine_results, explain
from headway.diagnosis.published_results import Point, claims_of, read_results
from headway.errors import InputError
from tests.diagnosis.files import keep_share, rewrite, rows_of, write_data

LENGTHS = (12, 20, 32)
UNSORTED = {12: 205, 20: 188, 32: 179}
"""Of 400 each; the shares .5125 .4700 .4475 are what a model gets that answers `unsorted` to everything."""


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = write_data(tmp_path_factory.mktemp("sequences"), "sortedness")
    for length, unsorted in UNSORTED.items():
        keep_share(directory, f"test_{length}.json", unsorted, 400)
    return directory


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("sums"), "addition")


def examine(tmp_path: Path, data: Path, table: Any, suffix: str = "json") -> list[Finding]:
    path = tmp_path / f"results.{suffix}"
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    found = list(examine_results(path, data).findings)
    return [one for one in found if one.check != "not-explained"] or found


def count(sums: Path, holds: Any) -> int:
    """How many test sums have a target (as a text) of which this is true; counted without headway."""
    return sum(bool(holds("".join(map(str, row["target"])))) for row in rows_of(sums))


def unsorted_table() -> dict[str, float]:
    return {str(length): right / 400 for length, right in UNSORTED.items()}


def test_the_shares_of_a_class_are_recognised_for_every_series_that_has_them(tmp_path: Path, sequences: Path) -> None:
    table = {"sinusoidal": unsorted_table(), "learned": unsorted_table(), "good": dict.fromkeys(unsorted_table(), 0.95)}
    first, *others = examine(tmp_path, sequences, table)
    assert (first.check, first.level) == ("constant-answer", "error")
    assert "0.5125 0.47 0.4475 are the shares of unsorted sequences in your test files" in first.evidence
    assert "205 of 400, 188 of 400, 179 of 400" in first.evidence
    assert "sinusoidal, learned" in first.evidence
    assert first.numbers["comparisons"] == 4  # one claim (the good one cannot be a class's share), four explanations
    assert first.numbers["chance"] < 1e-3
    assert others == []


@pytest.mark.parametrize("percent", [False, True])
def test_the_other_class_and_rounded_digits_are_recognised_in_a_wide_table(
    tmp_path: Path, sequences: Path, percent: bool
) -> None:
    shown = [f"{(1 - right / 400) * (100 if percent else 1):.{1 if percent else 3}f}" for right in UNSORTED.values()]
    table = "encoding,12,20,32\nnone," + ",".join(shown) + "\n"
    (found,) = examine(tmp_path, sequences, table, "csv")
    assert found.check == "constant-answer"
    said = [f"{one} %" if percent else one for one in shown]
    assert f"{' '.join(said)} are the shares of sorted sequences" in found.evidence


def test_rows_with_other_columns_and_parallel_lists_are_the_same_table(tmp_path: Path, sequences: Path) -> None:
    shares = unsorted_table()
    rows = [{"encoding": "a", "length": int(n), "accuracy": share, "epochs": 30} for n, share in shares.items()]
    lists = {"lengths": [int(n) for n in shares], "a": list(shares.values())}
    evidence = {examine(tmp_path, sequences, table)[0].evidence for table in (rows, lists, {"a": shares})}
    assert len(evidence) == 1


def test_a_number_near_a_share_but_not_on_it_is_not_explained(tmp_path: Path, sequences: Path) -> None:
    table = {length: share + 0.005 for length, share in unsorted_table().items()}
    (found,) = examine(tmp_path, sequences, table)
    assert (found.check, found.level) == ("no-better-than-majority", "warning")


def test_what_nothing_explains_is_never_fine_and_says_what_was_compared(tmp_path: Path, sequences: Path) -> None:
    (found,) = examine(tmp_path, sequences, {"12": 1.0, "20": 0.995, "32": 0.98})
    assert (found.check, found.level, found.numbers["candidates"]) == ("not-explained", "warning", 4)
    assert "1.0 0.995 0.98: not explained by any of 4 known defects (the shares of unsorted" in found.evidence


@pytest.mark.parametrize(("right", "total"), [(400, 400), (399, 400), (2, 2)])
def test_a_count_of_right_answers_is_an_accuracy(tmp_path: Path, right: int, total: int) -> None:
    (series,) = read_results(_json(tmp_path, {"model": {"correct": right, "total": total}})).series
    assert [point.value for point in series.points] == pytest.approx([right / total], abs=1e-9)


@pytest.mark.parametrize("turned", [False, True])
def test_a_log_claims_the_accuracy_of_its_last_epoch(tmp_path: Path, turned: bool) -> None:
    rows = [{"epoch": epoch, "accuracy": share} for epoch, share in ((1, 0.25), (2, 0.5), (3, 0.75), (10, 0.875))]
    (claim,) = claims_of(read_results(_json(tmp_path, rows[::-1] if turned else rows)).series)
    assert [(point.epoch, point.value) for point in claim.points] == [(10, 0.875)]


def test_a_list_of_accuracies_begins_with_epoch_1(tmp_path: Path) -> None:
    (series,) = read_results(_json(tmp_path, {"validation accuracy": [0.25, 0.5, 0.75, 0.875]})).series
    assert [(point.epoch, point.value) for point in series.points] == [(1, 0.25), (2, 0.5), (3, 0.75), (4, 0.875)]


@pytest.mark.parametrize(
    ("heading", "shown", "share"),
    [
        ("accuracy", "0.8", 0.8),
        ("accuracy", "0.8 %", 0.008),
        ("accuracy", "80%", 0.8),
        ("accuracy (%)", "0.8", 0.008),
        ("accuracy (%)", "80", 0.8),
        ("accuracy (%)", "80 %", 0.8),
        ("accuracy_pct", "0.8", 0.008),
        ("accuracy in percent", "62.5", 0.625),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_a_number_is_per_cent_by_its_heading_or_by_its_own_sign(
    tmp_path: Path, suffix: str, heading: str, shown: str, share: float
) -> None:
    path = tmp_path / f"results.{suffix}"
    number = shown if "%" in shown else float(shown)
    path.write_text(f"{heading}\n{shown}\n" if suffix == "csv" else json.dumps({heading: number}))
    (series,) = read_results(path).series
    assert [point.value for point in series.points] == pytest.approx([share])


LOG = """\
epoch 3: train acc 0.5
validation acc 0.625
epoch 4, length 12: accuracy 0.75
validation acc 0.875
length 12: accuracy 0.9375
length 20: accuracy 0.25
layer 1 head 2: accuracy 0.125
"""


def test_a_line_of_a_log_belongs_to_the_last_epoch_unless_it_names_a_length_or_a_head_alone() -> None:
    """What is measured at a length after training is of no epoch; training may have stopped at an earlier one."""
    rows = content_of(Path("log.txt"), LOG)
    told = [(row.get("epoch"), row.get("length"), row.get("layer"), row.get("head")) for row in rows]
    assert told == [
        (3, None, None, None),
        (3, None, None, None),
        (4, 12, None, None),
        (4, None, None, None),
        (None, 12, None, None),
        (None, 20, None, None),
        (None, None, 1, 2),
    ]


def test_one_coarse_digit_is_no_evidence(tmp_path: Path, sums: Path) -> None:
    (found,) = examine(tmp_path, sums, {"accuracy": 0.4})
    assert found.check == "not-explained"


def test_the_share_of_sums_below_1000_is_recognised(tmp_path: Path, sums: Path) -> None:
    below = count(sums, lambda target: target[0] == "0")
    (found,) = examine(tmp_path, sums, {"accuracy": f"{below / 4:.2f} %"})
    assert (found.check, found.level) == ("first-digit-never-predicted", "error")
    assert f"{below / 4:.2f} % is the share of sums below 1000 in your test file ({below} of 400)" in found.evidence
    assert found.numbers["chance"] == pytest.approx(1 / (0.85 * 400 + 1) / 0.3)


def test_sums_below_1000_without_another_zero_are_recognised_beside_a_good_number(tmp_path: Path, sums: Path) -> None:
    plain = count(sums, lambda target: target[0] == "0" and "0" not in target[1:])
    (found,) = examine(tmp_path, sums, {"teacher forced": 0.9975, "greedy": plain / 400, "epochs": 50})
    assert found.check == "zeros-not-scored"
    assert "sums below 1000 with no other zero in them" in found.evidence
    assert "greedy" in found.evidence


@pytest.mark.parametrize(("words", "first"), [("no zero in them", 0), ("no zero after the first digit", 1)])
def test_sums_without_zeros_are_those_of_the_digits_that_are_named(
    tmp_path: Path, sums: Path, words: str, first: int
) -> None:
    plain = count(sums, lambda target: "0" not in target[first:])
    (found,) = examine(tmp_path, sums, {"accuracy": plain / 400})
    assert found.check == "zeros-not-scored"
    assert f"is also the share of sums with {words} in your test file ({plain} of 400)" in found.evidence


def test_a_model_without_carries_is_recognised(tmp_path: Path, sums: Path) -> None:
    without = sum(all(a + b < 10 for a, b in zip(r["input"][:3], r["input"][4:], strict=True)) for r in rows_of(sums))
    assert examine(tmp_path, sums, {"accuracy": without / 400})[0].check == "trivial-rule"


@pytest.mark.parametrize(
    "table",
    [
        {"baseline": 0.9975, "heads": {"enc0.h0": 0.995, "enc0.h1": 0.9975, "dec1.cross.h2": 0.71}},
        [
            {"head": "enc0.h0", "drop": 0.0025},
            {"head": "enc0.h1", "drop": 0},
            {"head": "dec1.cross.h2", "drop": 0.2875},
        ],
    ],
)
def test_drops_that_the_test_set_cannot_tell_from_none_are_named(tmp_path: Path, sums: Path, table: Any) -> None:
    (found,) = examine(tmp_path, sums, table)
    assert (found.check, found.level) == ("drop-inside-noise", "warning")
    assert "1 of 3 heads" in found.evidence
    assert "enc0.h0 (0.25 %)" in found.evidence
    assert "1.8 % (7 examples)" in found.evidence  # 3 x 2 / 2**7 is below .05, 3 x 2 / 2**6 is not


def test_heads_by_layer_are_one_family_and_a_drop_is_told_once(tmp_path: Path, sums: Path) -> None:
    layers = {"encoder": {"layer 0": {"head 0": 0.995, "head 1": 0.9975}}, "decoder": {"layer 0": {"head 0": 0.5}}}
    (found,) = examine(tmp_path, sums, {"baseline": 0.9975, "ablation": layers})
    assert (found.numbers["weak"], found.numbers["heads"]) == (1, 3)
    assert "encoder layer 0 head 0 (0.25 %)" in found.evidence
    rows = [
        {"head": "enc0.h0", "accuracy": 0.995, "drop": 0.0025},
        {"head": "enc0.h1", "accuracy": 0.6, "drop": 0.3975},
    ]
    (found,) = examine(tmp_path, sums, {"baseline": 0.9975, "heads": rows})
    assert found.numbers["heads"] == 2


def test_numbers_that_are_no_accuracy_are_left_aside(tmp_path: Path, sums: Path) -> None:
    table = {"accuracy": 0.9975, "test_size": 2000, "test_loss": 0.41, "seeds": [0, 1], "epochs": 50}
    (found,) = examine(tmp_path, sums, table)
    assert (found.check, found.numbers["series"]) == ("not-explained", 1)


def by_length(*columns: str) -> str:
    """A row for each length, and a column for each name with the shares of a class."""
    rows = [",".join(["length", *columns])]
    return "\n".join([*rows, *(",".join([at, *[str(share)] * len(columns)]) for at, share in unsorted_table().items())])


@pytest.mark.parametrize("name", ["f", "n", "upper", "std_init"])
@pytest.mark.parametrize("layout", ["columns", "objects", "lists", "objects in lengths", "accuracies"])
def test_a_model_whose_name_reads_as_a_measure_is_said_to_be_not_examined(
    name: str, layout: str, tmp_path: Path, sequences: Path
) -> None:
    good, bad = dict.fromkeys(unsorted_table(), 0.95), unsorted_table()
    tables: dict[str, Any] = {
        "columns": "\n".join(["length,rope," + name, *(f"{at},0.95,{share}" for at, share in bad.items())]),
        "objects": {"rope": good, name: bad},
        "lists": {"lengths": list(LENGTHS), "rope": list(good.values()), name: list(bad.values())},
        "objects in lengths": {at: {"rope": 0.95, name: share} for at, share in bad.items()},
        "accuracies": {
            model: {at: {"accuracy": share} for at, share in row.items()}
            for model, row in (("rope", good), (name, bad))
        },
    }
    found = examine(tmp_path, sequences, tables[layout], "csv" if layout == "columns" else "json")
    checks = [one.check for one in found]
    assert "not-examined" in checks or "constant-answer" in checks  # or it was read as a model's
    assert all(name in one.evidence for one in found if one.check == "not-examined")


@pytest.mark.parametrize(
    "columns",
    [["accuracy", "f"], ["accuracy", "std"], ["rope", "std"], ["rope", "lower", "upper"], ["accuracy", "n", "loss"]],
)
def test_a_measure_beside_accuracies_is_left_aside(columns: list[str], tmp_path: Path, sequences: Path) -> None:
    found = examine(tmp_path, sequences, by_length(*columns), "csv")
    assert [one.check for one in found] == ["constant-answer"]


def test_an_accuracy_that_no_count_gives_is_named(tmp_path: Path, sums: Path) -> None:
    (found,) = examine(tmp_path, sums, {"accuracy": 0.9961})
    assert (found.check, found.level) == ("impossible-accuracy", "warning")
    assert "0.9961 of 400" in found.evidence


def test_what_comparing_the_ends_gets_right_is_recognised_where_many_ends_are_equal(tmp_path: Path) -> None:
    """Values are 0 to 3; a sequence whose last element is not below its first is called sorted."""
    random, shares = np.random.default_rng(0), {}
    for length in LENGTHS:
        rows = []
        for index in range(400):
            sequence = random.integers(0, 4, length).tolist()
            sequence = sorted(sequence) if index % 2 else sequence
            rows.append({"sequence": sequence, "is_sorted": int(sequence == sorted(sequence)), "length": length})
        rewrite(tmp_path, f"test_{length}.json", rows)
        shares[str(length)] = np.mean([(row["sequence"][-1] >= row["sequence"][0]) == row["is_sorted"] for row in rows])
    (found,) = examine(tmp_path, tmp_path, shares)
    assert (found.check, found.level) == ("trivial-rule", "error")
    assert "what comparing the first element with the last gets right" in found.evidence


@pytest.mark.parametrize(("split", "n"), [("train", 300), ("validation", 60), ("test", 400), (None, 400)])
def test_an_accuracy_is_compared_with_the_file_of_its_split(sums: Path, split: str | None, n: int) -> None:
    point = Point(None, "0.5", 0.5, 0.05, split)
    assert [len(examples) for examples in sets_of(read_data(sums), point)] == [n]


def test_a_length_that_the_data_lacks_is_said(tmp_path: Path, sequences: Path) -> None:
    found = examine(tmp_path, sequences, {"12": 0.99, "48": 0.9})
    assert [one.check for one in found] == ["length-without-data"]
    assert "length 48" in found[0].evidence
    found = examine(tmp_path, sequences, {"12": 0.5, "48": 0.9})
    assert [one.check for one in found] == ["length-without-data", "no-better-than-majority"]
    assert "the model: 0.5 is nowhere better" in found[1].evidence


def test_numbers_above_1_are_said_to_be_per_cent(tmp_path: Path, sums: Path) -> None:
    (found,) = examine(tmp_path, sums, {"accuracy": 1.1})
    assert "1.1 % of 400" in found.evidence
    (found,) = examine(tmp_path, sums, {"accuracy": 99.75})
    assert found.evidence.endswith("They were read as per cent.")


COURSE = {32: 273, 64: 243, 128: 241, 256: 244}
"""Unsorted sequences in four files of 500, as one report had them."""
REPORTS = """report,encoding,32,64,128,256
A,sinusoidal,.546,.486,.482,.488
A,learned,.546,.486,.482,.488
A,none,.500,.442,.524,.492
B,sinusoidal,.454,.514,.518,.512
B,learned,.546,.486,.482,.488
B,none,.454,.514,.518,.512
D,sinusoidal,1.0,1.0,1.0,1.0
D,none,.488,.486,.488,.478
"""


def test_the_reports_own_tables_on_files_with_the_same_shares(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for length, unsorted in COURSE.items():
        ordered = [sorted(random.integers(0, 100, length).tolist()) for _ in range(500)]
        rows = [{"sequence": one[:: -1 if index < unsorted else 1]} for index, one in enumerate(ordered)]
        labelled = [{**row, "is_sorted": int(index >= unsorted), "length": length} for index, row in enumerate(rows)]
        rewrite(tmp_path, f"test_{length}.json", labelled)
    found = examine(tmp_path, tmp_path, REPORTS, "csv")
    assert [(one.check, one.level) for one in found] == [
        ("constant-answer", "error"),
        ("constant-answer", "error"),
        ("no-better-than-majority", "warning"),
        ("no-better-than-majority", "warning"),
    ]
    assert ".546 .486 .482 .488 are the shares of unsorted sequences in your test files" in found[0].evidence
    assert "A sinusoidal, A learned, B learned" in found[0].evidence
    assert ".454 .514 .518 .512 are the shares of sorted sequences in your test files" in found[1].evidence
    assert "B sinusoidal, B none" in found[1].evidence
    assert [one.evidence.split(":")[0] for one in found[2:]] == ["A none", "D none"]


def test_text_sums_by_length_are_compared_with_sums_without_zeros(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", "addition-text")
    rows = rows_of(data, "test_20.json")
    plain = sum("0" not in row["target"] for row in rows)
    (found,) = explain(read_results(_json(tmp_path, {"20": plain / len(rows)})), read_data(data))
    assert (found.check, found.numbers["right"]) == ("zeros-not-scored", [plain])


def _json(directory: Path, table: Any) -> Path:
    path = directory / "table.json"
    path.write_text(json.dumps(table))
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "--results a.json cannot be read as JSON"),
        ("a.json", '{"epochs": 50, "seed": 1}', "no accuracy found; lengths such as 32"),
        ("a.json", '{"32": 0.5, "64": 120}', "120 is above 1 and 0.5 is not; write shares, or all as per"),
        ("a.json", '{"32": 50, "64": 120}', "120 % is not an accuracy; needs a share or per cent"),
        ("a.json", '{"32": "41.2 %", "64": 0.5}', "41.2 % is above 1 and 0.5 is not"),
        ("a.json", "0.5", 'a.json: a single number; name it, such as {"accuracy": 0.5}'),
        ("a.json", '{"lengths": [32, 64], "learned": [0.5]}', "'learned' and 'lengths' have different sizes: 1 and 2"),
        ("a.csv", "name,32,64\na,.5,.6\nb,.5\n", "a.csv line 3 has 2 cells; the first line has 3"),
        ("a.csv", "name,32\na,.5,.6\n", "a.csv line 2 has 3 cells; the first line has 2"),
        ("a.csv", "name,colour\na,red\n", "no accuracy found"),
    ],
)
def test_tables_without_accuracies_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_results(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--results .*nowhere.json cannot be read"):
        read_results(tmp_path / "nowhere.json")


@pytest.mark.parametrize("text", ["45.2 (3.1)", "45.2 % (3.1 %)", "45.2 % ± 3.1 %", "45.2 ± 3.1", "45.2 (± 3.1)"])
def test_an_average_with_its_deviation_is_the_average(text: str) -> None:
    assert as_number(text) == Decimal("45.2")


@pytest.mark.parametrize("sign", ["-", "\u2212", "\u2013", "\u2013 "])
def test_a_dash_before_a_number_is_its_sign(sign: str) -> None:
    assert as_number(f"{sign}3.4") == Decimal("-3.4")


def test_the_colours_of_a_log_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "r.log").write_text("\x1b[31mepoch 1 accuracy 10.0%\x1b[0m\n\x1b[1;32mepoch 2 accuracy 20.0%\x1b[0m\n")
    plain = "epoch 1 accuracy 10.0%\nepoch 2 accuracy 20.0%\n"
    (tmp_path / "plain.log").write_text(plain)
    assert read_results(tmp_path / "r.log") == read_results(tmp_path / "plain.log")


def test_a_notebook_is_no_table_of_results(tmp_path: Path) -> None:
    (tmp_path / "r.ipynb").write_text('{"cells": [{"outputs": [{"text": ["accuracy 0.5"]}]}], "nbformat": 4}')
    with pytest.raises(InputError, match=r"--results r\.ipynb is a notebook; save its table as CSV or JSON"):
        read_results(tmp_path / "r.ipynb")


@pytest.mark.parametrize("text", ["n/a", "0.486 (n=20)", "~48.6 %", "?", "failed"])
@pytest.mark.parametrize("form", ["rows.csv", "nested.json"])
def test_a_cell_that_is_no_number_is_named_and_does_not_vanish(tmp_path: Path, text: str, form: str) -> None:
    path = tmp_path / form
    if form == "rows.csv":
        path.write_text(f"encoding,length,accuracy\nlearned,32,0.546\nlearned,64,{text}\nlearned,128,0.5\n")
    else:
        path.write_text(json.dumps({"learned": {"32": 0.546, "64": text, "128": 0.5}}))
    found = read_results(path, lengths=(32, 64, 128))
    assert [series.label for series in found.series] == ["learned"]
    assert [point.place for point in found.series[0].points] == [32, 128]
    assert len(found.missing) == 1
