"""The tables of docs/results.md have the numbers of the committed files."""

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "results.md").read_text()
COLUMNS = {"0": "units", "1": "tens", "2": "hundreds", "3": "thousands"}


def committed(name: str) -> Any:
    return json.loads((DOCS / "results" / f"{name}.json").read_text())


def row_with(start: str, *contents: str) -> bool:
    """Whether a row of a table starts so and has the contents as cells, or parts of cells, in this order."""
    for line in PAGE.splitlines():
        place = 0 if line.startswith(f"| {start}") else -1
        for content in contents:
            place = line.find(content, place) if place >= 0 else -1
        if place >= 0:
            return True
    return False


def whole(values: Sequence[float]) -> str:
    return " ".join(f"{value:.0f}" for value in values)


def share(value: float) -> str:
    """A rate as the page writes it: .02, 1.00; halves are rounded up."""
    return f"{math.floor(100 * value + 0.5 + 1e-9) / 100:.2f}".removeprefix("0")


@pytest.mark.parametrize("name", ["heads-addition", "heads-addition-course"])
def test_heads(name: str) -> None:
    found = committed(name)["together"]
    for verdict, over_seeds in found["verdicts"]["overall"].items():
        assert row_with(verdict, f"{over_seeds['median']:g} (", whole(over_seeds["values"])), verdict
    first, second = found["removable"]
    sizes = [f"{whole(one['alone_under_limit']['heads']['values'])} |" for one in (first, second)]
    assert row_with("heads that cost less one at a time", *sizes)
    assert row_with("**heads that elimination", *(f"{whole(one['heads']['values'])} |" for one in (first, second)))
    together = [f"{one['alone_under_limit']['drop_together']['median']:.3g} (" for one in (first, second)]
    assert row_with("all of those together cost", *together)


@pytest.mark.parametrize("name", ["heads-addition", "heads-addition-course"])
def test_carries(name: str) -> None:
    carries = [one for one in committed(name)["together"]["interventions"] if one["about"] == "carry"]
    assert len(carries) == 6
    for found in carries:
        into, start = (COLUMNS[part] for part in found["name"].replace("carry into column ", "").split(" from column "))
        groups = [found["strongest"]["cross"], found["together"]["all decoder"], found["together"]["all encoder"]]
        rates = [" ".join(map(share, group["values"])) for group in groups]
        assert row_with(f"into the {into} from the {start}", *rates), found["name"]


def test_sortedness_that_holds_on_samples() -> None:
    found = committed("sortedness-long")
    shortest = found["lengths"].index(8)
    for at, seed in enumerate(found["seeds"]):
        sampled = sum(sum(found["wrong"][name][at]) for name in ("swaps", "adjacent", "matched"))
        families = [f"{found['wrong'][name][at][shortest]:,}" for name in ("plateaus", "descents")]
        assert row_with(" | ".join([str(seed), str(sampled), *families, ""])), seed


def text_runs() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    runs = [run for run in committed("text-encodings")["runs"] if run["arm"] == "least-significant-first"]
    for encoding in dict.fromkeys(run["encoding"] for run in runs):
        yield encoding, [run for run in runs if run["encoding"] == encoding]


@pytest.mark.parametrize(
    ("encoding", "runs"), list(text_runs()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_encodings_on_text(encoding: str, runs: list[dict[str, Any]]) -> None:
    shown = {"alibi": "ALiBi", "t5": "T5", "fire": "FIRE", "abacus": "Abacus", "none-causal": "none, causal encoder"}
    mastered = [run for run in runs if run["mastered"]]
    steps = " ".join(f"{run['mastered_at']:,}" if run["mastered"] else "–" for run in runs) if mastered else ""
    wrong = [run["wrong"]["sums"][run["lengths"].index(64)] for run in runs]
    last = "all" if set(wrong) == {1000} else " ".join(f"{count:,}" for count in wrong)
    start = f"{shown.get(encoding, encoding)} | {runs[0]['lr']:g} | {len(mastered)} of {len(runs)} |"
    assert row_with(start, steps, f"{last} |")


@pytest.mark.parametrize(("task", "length"), [("copy", 16), ("sorting", 16), ("parity", 12)])
def test_copy_sorting_and_parity(task: str, length: int) -> None:
    runs = [run for run in committed("copy-sorting-parity")["runs"] if run["task"] == task]
    random = [{row[0]: row[2] for row in run["lengths"]["uniform"]} for run in runs]
    tested = " ".join(str(run["test"]["wrong"]) for run in runs)
    longest = " ".join(str(rows[length]) for rows in random)
    twice = " ".join(f"{rows[2 * length]:,}" for rows in random)
    assert row_with(f"{task} (", f"{tested} of ", f"| {length} |", longest, twice)


def test_proofs() -> None:
    folders = sorted((DOCS / "results/proofs").glob("local-addition-seed*/analysis/proof.json"))
    proofs = [json.loads(path.read_text()) for path in folders]
    assert row_with("smallest margin", " | ".join(f"{proof['smallest_margin']:.1f}" for proof in proofs))
    assert row_with("allowed for rounding", " | ".join(f"{proof['rounding']['allowance']:.2f}" for proof in proofs))
    assert {proof["contexts"] for proof in proofs} == {619_391}
    assert {(proof["answer"], proof["rounding"]["strength"]) for proof in proofs} == {("proved", "rigorous")}


def test_the_proof_with_a_window_of_1_everywhere() -> None:
    runs = committed("proof-window1-h200")["runs"]
    certificates = [json.loads((DOCS / "results" / run["certificate"]).read_text()) for run in runs]
    assert [(c["seed"], c["answer"], c["contexts"]) for c in certificates] == [
        (seed, "proved", 1_256_573_541) for seed in range(3)
    ]
    for run, certificate in zip(runs, certificates, strict=True):
        assert certificate["rounding"]["allowance"] == run["allowance"] < certificate["smallest_margin"]
        assert certificate["rounding"]["strength"] == run["strength"] == "rigorous"
    for name, found in (
        ("smallest margin", [f"{c['smallest_margin']:.2f}" for c in certificates]),
        ("allowed for rounding", [f"{c['rounding']['allowance']:.2f}" for c in certificates]),
        ("seconds of an H200", [f"{c['seconds']:.0f}" for c in certificates]),
    ):
        assert row_with(name, " | ".join(found))


def test_the_seeds_on_which_proved_sortedness_was_tuned() -> None:
    runs = committed("proved-sortedness-tuning")["runs"]
    assert [(run["seed"], run["answer"]) for run in runs] == [(seed, "proved") for seed in range(104, 110)]
    assert all(run["allowance"] < run["smallest_margin"] for run in runs)


def test_the_steps_of_the_carry_head_are_those_of_the_committed_file() -> None:
    docs = Path(__file__).parents[1] / "docs"
    text = (docs / "results.md").read_text()
    addition, course = json.loads((docs / "results" / "heads-over-training.json").read_text())
    formed = ", ".join(f"{row['formed']['effect']:,}" for row in addition["seeds"])
    assert {row["jump"] for row in addition["seeds"]} == {225}
    assert f"| head formed, step | {formed} |" in text
    jumps = sorted(row["jump"] for row in course["seeds"] if row["jump"] is not None)
    assert ", ".join(f"{step:,}" for step in jumps) in text
    late, (low, high) = addition["late"], addition["interval"]
    assert f"| 0, {late.count(0)}, {sum(one > 0 for one in late)} | 0, 0, {len(course['late'])} |" in text
    assert f"{statistics.median(late)} (95 % interval {low:.0f} to {high:.0f})" in text


def test_the_induction_heads_of_ten_seeds() -> None:
    rows = [row for name in ("induction", "induction-seed9") for row in committed(name)["rows"]]
    assert [row["seed"] for row in rows] == list(range(10)) and all(row["found"] for row in rows)
    for start, key in (("highest previous-token score", "previous_token"), ("highest induction score", "induction")):
        assert row_with(start, " | ".join(share(row[key]["score"]) for row in rows))
    for start, key in (("drop without that prev", "previous_token"), ("drop without that induction", "induction")):
        assert row_with(start, " | ".join(f"{row['drops'][row[key]['head']]:.1f}" for row in rows))
    assert row_with("share that the best single patch", " | ".join(share(row["patched"]["effect"]) for row in rows))
    cost = (f"{row['train_seconds']:.0f}, {row['heads_seconds']:.0f}" for row in rows)
    assert row_with("training, analysis, seconds", " | ".join(cost))


def test_the_speed_of_attached_models_on_a_cpu() -> None:
    page = (DOCS / "any-model.md").read_text()
    rows = json.loads((DOCS.parent / "benchmarks/results/any-model-amd-epyc-2-cores.json").read_text())["rows"]
    for row in rows:
        sides = (row[key] for key in ("seconds", "hook_seconds", "bridge_seconds"))
        seconds = " | ".join(f"{statistics.median(side):.2f} s" for side in sides)
        one, other = (
            f"{row[f'{name}ratio']:.2f} ({row[f'{name}ratios'][0]:.2f} to {row[f'{name}ratios'][-1]:.2f})"
            for name in ("", "bridge_")
        )
        size = f"{row['n_layer']} x {row['n_head']}, {row['n_embd']}"
        assert f"| {size} | {seconds} | {one} | {row['by_operations']:.2f} | {other} |" in page, size
        assert max(row["apart"], row["bridge_apart"]) <= 1.75e-8
    wide = json.loads((DOCS.parent / "benchmarks/results/any-model-amd-epyc-2-cores-wide.json").read_text())["rows"][0]
    seconds = " | ".join(f"{statistics.median(wide[key]):.2f} s" for key in ("seconds", "hook_seconds"))
    ratio = f"{wide['ratio']:.2f} ({wide['ratios'][0]:.2f} to {wide['ratios'][-1]:.2f})"
    assert f"| 12 x 4, 128 | {seconds} | | {ratio} | {wide['by_operations']:.2f} |" in page and wide["ratio"] > 1.65


def test_the_classifier_of_languages() -> None:
    found = committed("language-bert")
    rows, data = found["rows"], found["data"]

    def percent(value: float) -> str:
        return f"{100 * value:.1f}"

    assert row_with(f"right of {data['held_out']:,} held-out texts")
    assert row_with("one answer to everything", f"| {percent(found['one_answer'])} |")
    assert row_with("logistic regression on counts of word", f"| {percent(found['counts_of_pieces'])} |")
    if (nothing := found.get("labels_shuffled_in_training")) is not None:
        assert row_with("the model, labels shuffled", f"| {percent(nothing)} |")
    for start, key in (
        ("**the model**", "accuracy"),
        ("the same, right family", "family_accuracy"),
        ("the same, word pieces", "pieces_shuffled"),
        ("the same, all eight heads", "without_attention"),
        ("the same, on the texts", "accuracy_on_training_texts"),
    ):
        assert row_with(start, f"| {', '.join(percent(row[key]) for row in rows)} |"), start
    largest = [max(row["drops"].values()) for row in rows]
    together = [row["removable"][0]["those_together"] for row in rows]
    assert row_with("largest drop of a single head", ", ".join(f"{drop:.1f}" for drop in largest))
    assert row_with("those together cost, points", ", ".join(f"{drop:.1f}" for drop in together))
    assert f"No head costs more than {max(largest):.1f} points" in PAGE
    removed = [row["removable"][1] for row in rows]
    assert row_with("heads that elimination removed", *(f"{len(one['heads'])}: {one['drop']:.1f} (" for one in removed))
    values = [row["shapley"].values() for row in rows]
    assert row_with("Shapley values, sm", ", ".join(f"{min(some):.1f} to {max(some):.1f}" for some in values))
    seconds = [row["cpu_seconds"] for row in rows]
    assert row_with("seconds of one", ", ".join(f"{s['train']:.0f} + {s['heads_and_doctor']:.0f}" for s in seconds))
    assert all(not row["doubts"] and set(row["doctor"].values()) == {"fine"} for row in rows)
