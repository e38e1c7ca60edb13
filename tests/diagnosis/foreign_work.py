"""Work as students leave it: data folders, tables of results, files of predictions, each with a planted truth.

Nothing of headway is used here: sums are added and sequences compared by Python itself, and files are written as
scripts of the assignment write them. A case says what was planted and which check has to name it.
"""

import csv
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
LENGTHS = (32, 64, 128, 256)
ENCODINGS = ("sinusoidal", "learned", "none")


@dataclass(frozen=True)
class Case:
    """One piece of work: the option it is given with, what was planted, and the checks that may name it."""

    kind: str  # results, predictions, data
    style: str
    truth: str
    data: Path
    file: Path | None
    named: frozenset[str] = frozenset()
    """Empty for healthy work."""


@dataclass
class World:
    """The data of one student: splits by name, as (source, target) pairs, and where they lie on disk."""

    task: str
    layout: str
    folder: Path
    splits: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)

    def test(self) -> list[tuple[Any, Any]]:
        return self.splits["test"]

    def at(self, length: int) -> list[tuple[Any, Any]]:
        return self.splits[f"test_{length}"]


# ---------------------------------------------------------------- data


def draw_sums(rng: random.Random, sizes: dict[str, int]) -> dict[str, list[tuple[Any, Any]]]:
    """Three splits of 3-digit sums that share no problem, whichever way round it is written."""
    taken: set[tuple[int, int]] = set()
    splits: dict[str, list[tuple[Any, Any]]] = {}
    for name, n in sizes.items():
        rows: list[tuple[Any, Any]] = []
        while len(rows) < n:
            a, b = rng.randint(100, 999), rng.randint(100, 999)
            if (min(a, b), max(a, b)) not in taken:
                taken.add((min(a, b), max(a, b)))
                rows.append(((a, b), a + b))
        splits[name] = rows
    return splits


def draw_sequence(rng: random.Random, length: int) -> tuple[list[int], int]:
    values = sorted(rng.randint(0, 99) for _ in range(length))
    if rng.random() < 0.5:
        return values, 1
    before = list(values)
    while values == before:
        for _ in range(max(2, length // 3)):
            i, j = rng.sample(range(length), 2)
            values[i], values[j] = values[j], values[i]
    return values, 0


def draw_sequences(rng: random.Random, sizes: dict[str, int], at_length: int) -> dict[str, list[tuple[Any, Any]]]:
    splits: dict[str, list[tuple[Any, Any]]] = {
        name: [draw_sequence(rng, rng.randint(8, 16)) for _ in range(n)] for name, n in sizes.items()
    }
    for length in LENGTHS:
        splits[f"test_{length}"] = [draw_sequence(rng, length) for _ in range(at_length)]
    return splits


def sum_row(source: tuple[int, int], target: int) -> Row:
    a, b = source
    return {"input": [*map(int, str(a)), 10, *map(int, str(b))], "target": [int(one) for one in f"{target:04d}"]}


def sequence_row(source: list[int], target: int) -> Row:
    return {"sequence": source, "is_sorted": target, "length": len(source)}


def rows_of(world: World, name: str) -> list[Row]:
    make: Callable[..., Row] = sum_row if world.task == "sums" else sequence_row
    return [make(*pair) for pair in world.splits[name]]


def put(path: Path, text: str, **how: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", **how)
    return path


def layout_flat(world: World) -> None:
    for name in world.splits:
        put(world.folder / f"{name}.json", json.dumps(rows_of(world, name)))


def layout_extrapolation(world: World) -> None:
    """The course's own folders: splits at the top, lengths below, and notes of the generator beside them."""
    for name in world.splits:
        if name.startswith("test_"):
            put(world.folder / f"extrapolation/test_len_{name[5:]}.json", json.dumps(rows_of(world, name), indent=1))
        else:
            put(world.folder / f"{name}.json", json.dumps(rows_of(world, name), indent=2))
    put(world.folder / "metadata.json", json.dumps({"seed": 641, "train_size": len(world.splits["train"])}))


def layout_one_file(world: World) -> None:
    put(world.folder / "dataset.json", json.dumps({name: rows_of(world, name) for name in world.splits}))


def layout_lines(world: World) -> None:
    for name in world.splits:
        named = name.replace("test_", "test_len")
        put(world.folder / f"{named}.jsonl", "".join(json.dumps(row) + "\n" for row in rows_of(world, name)))


def layout_folders(world: World) -> None:
    for name in world.splits:
        inside = f"test/length_{name[5:]}/data.json" if name.startswith("test_") else f"{name}/data.json"
        put(world.folder / inside, json.dumps({"examples": rows_of(world, name)}))


def layout_other_keys(world: World) -> None:
    """x and y: sums as text, sequences with a label that is true or false."""
    for name, pairs in world.splits.items():
        if world.task == "sums":
            rows = [{"x": f"{a}+{b}=", "y": str(total)} for (a, b), total in pairs]
        else:
            rows = [{"seq": source, "label": bool(target)} for source, target in pairs]
        put(world.folder / f"{name.replace('val', 'valid')}.json", json.dumps(rows))


def layout_sheet(world: World) -> None:
    for name, pairs in world.splits.items():
        sheet = io.StringIO()
        writer = csv.writer(sheet)
        if world.task == "sums":
            writer.writerow(["input", "target"])
            writer.writerows([f"{a} + {b} = ", total] for (a, b), total in pairs)
        else:
            writer.writerow(["sequence", "label"])
            writer.writerows([" ".join(map(str, source)), target] for source, target in pairs)
        put(world.folder / f"{name}.csv", sheet.getvalue(), newline="")


def layout_columns(world: World) -> None:
    """Operands in columns of their own; sequences with a column for each element, empty where there is none."""
    for name, pairs in world.splits.items():
        sheet = io.StringIO()
        writer = csv.writer(sheet)
        if world.task == "sums":
            writer.writerow(["a", "b", "sum"])
            writer.writerows([a, b, total] for (a, b), total in pairs)
        else:
            width = max(len(source) for source, _ in pairs)
            writer.writerow(["label", *(f"s{place}" for place in range(width))])
            writer.writerows([target, *source, *[""] * (width - len(source))] for source, target in pairs)
        put(world.folder / f"{name}.csv", sheet.getvalue(), newline="")


def layout_pairs(world: World) -> None:
    for name in world.splits:
        put(world.folder / f"{name}.json", json.dumps([list(row.values())[:2] for row in rows_of(world, name)]))


def layout_frames(world: World) -> None:
    """Data frames as pandas writes them: by columns for training, else by rows with an index."""
    for name in world.splits:
        rows = rows_of(world, name)
        if name == "train":
            text = json.dumps({key: {str(index): row[key] for index, row in enumerate(rows)} for key in rows[0]})
        else:
            text = json.dumps({str(index): row for index, row in enumerate(rows)})
        put(world.folder / f"{name}.json", text)


def layout_arrays(world: World) -> None:
    """Arrays of one width: sequences are padded with zeros, with their lengths beside them."""
    for name in world.splits:
        rows = rows_of(world, name)
        width = max(len(next(iter(row.values()))) for row in rows)
        (world.folder).mkdir(parents=True, exist_ok=True)
        if world.task == "sums":
            arrays = {"x": [row["input"] for row in rows], "y": [row["target"] for row in rows]}
        else:
            filled = [row["sequence"] + [0] * (width - row["length"]) for row in rows]
            arrays = {"x": filled, "y": [r["is_sorted"] for r in rows], "lengths": [r["length"] for r in rows]}
        np.savez(world.folder / f"{name}.npz", **{key: np.array(value) for key, value in arrays.items()})


LAYOUTS = {
    "columns": layout_columns,
    "pairs": layout_pairs,
    "frames": layout_frames,
    "arrays": layout_arrays,
    "flat": layout_flat,
    "extrapolation": layout_extrapolation,
    "one-file": layout_one_file,
    "lines": layout_lines,
    "folders": layout_folders,
    "other-keys": layout_other_keys,
    "sheet": layout_sheet,
}


def make_world(
    folder: Path, task: str, layout: str, seed: int, harm: Callable[[random.Random, World], None] | None = None
) -> World:
    """Data of one student; `harm` changes the splits before they are written."""
    rng = random.Random(seed)
    world = World(task, layout, folder)
    if task == "sums":
        world.splits = draw_sums(rng, {"train": 3_000, "val": 1_000, "test": 2_000})
    else:
        world.splits = draw_sequences(rng, {"train": 1_200, "val": 800, "test": 800}, 500)
    if harm is not None:
        harm(rng, world)
    LAYOUTS[layout](world)
    return world


def harm_overlap(rng: random.Random, world: World) -> None:
    """A third of the test examples are training examples as well."""
    test = world.splits["test"]
    world.splits["train"] += rng.sample(test, len(test) // 3)
    rng.shuffle(world.splits["train"])


def harm_commuted(rng: random.Random, world: World) -> None:
    """A fifth of the test sums stand in training the other way round."""
    test = [((b, a), total) for (a, b), total in world.splits["test"] if a != b]
    world.splits["train"] += rng.sample(test, len(test) // 5)


def harm_duplicates(rng: random.Random, world: World) -> None:
    train = world.splits["train"]
    world.splits["train"] = train + rng.sample(train, len(train) // 4)


def harm_labels(rng: random.Random, world: World) -> None:
    """A tenth of the targets are wrong."""
    for name in ("train", "test"):
        for row in rng.sample(range(len(world.splits[name])), len(world.splits[name]) // 10):
            source, target = world.splits[name][row]
            wrong = 1 - target if world.task == "sequences" else target + rng.choice((-100, -10, 10, 100))
            world.splits[name][row] = (source, wrong)


def harm_rows(rng: random.Random, world: World) -> None:
    """The targets stand one row too late."""
    pairs = world.splits["test"]
    targets = [target for _, target in pairs]
    world.splits["test"] = [(pair[0], target) for pair, target in zip(pairs, targets[-1:] + targets[:-1], strict=True)]


def harm_by_length(rng: random.Random, world: World) -> None:
    """Short sequences are mostly sorted and long ones mostly not."""
    world.splits["train"] = [
        (source, target)
        for source, target in world.splits["train"]
        if (len(source) <= 12) == bool(target) or rng.random() < 0.1
    ]


HARMS: dict[str, tuple[str, Callable[[random.Random, World], None], frozenset[str]]] = {
    "overlap": ("both", harm_overlap, frozenset({"split-overlap"})),
    "overlap turned round": ("sums", harm_commuted, frozenset({"split-overlap"})),
    "duplicates": ("both", harm_duplicates, frozenset({"duplicate-examples"})),
    "wrong labels": ("both", harm_labels, frozenset({"oracle-contradicts-targets"})),
    "rows shifted": ("both", harm_rows, frozenset({"oracle-contradicts-targets"})),
    "class by length": ("sequences", harm_by_length, frozenset({"label-imbalance"})),
}

# ---------------------------------------------------------------- what a model would measure


def share(pairs: list[tuple[Any, Any]], holds: Callable[[Any], bool]) -> float:
    return sum(holds(target) for _, target in pairs) / len(pairs)


def below_1000(total: int) -> bool:
    return total < 1000


def below_1000_without_zero(total: int) -> bool:
    return total < 1000 and "0" not in str(total)


def count_at(rng: random.Random, n: int, accuracy: float) -> float:
    """An accuracy that n examples can have, about so high."""
    return sum(rng.random() < accuracy for _ in range(n)) / n


def good(rng: random.Random, n: int) -> float:
    return count_at(rng, n, rng.choice((1.0, 0.999, 0.99, 0.97, 0.93)))


Curve = dict[int, float]


def curve(rng: random.Random, world: World, how: str) -> Curve:
    """Accuracy at each length of one model: constant, constant past training, good, or falling."""
    label = rng.randrange(2)
    shares = {length: share(world.at(length), lambda target: target == label) for length in LENGTHS}
    if how in ("constant", "constant past"):
        return shares
    if how == "good":
        return {length: good(rng, 500) for length in LENGTHS}
    low = rng.uniform(0.56, 0.7)
    return {length: count_at(rng, 500, 0.97 - (0.97 - low) * step / 3) for step, length in enumerate(LENGTHS)}


# ---------------------------------------------------------------- styles of results: accuracy by length

Table = dict[str, Curve]


def curves_nested(rng: random.Random, table: Table) -> tuple[str, str]:
    return "json", json.dumps({name: {str(n): acc for n, acc in row.items()} for name, row in table.items()})


def curves_rows(rng: random.Random, table: Table) -> tuple[str, str]:
    rows = [
        {"pos_encoding": name, "seq_len": n, "accuracy": acc, "loss": round(rng.random(), 4), "n_samples": 500}
        for name, row in table.items()
        for n, acc in row.items()
    ]
    return "json", json.dumps(rows, indent=2)


def curves_lists(rng: random.Random, table: Table) -> tuple[str, str]:
    lists = {name: {"lengths": list(row), "accuracies": list(row.values())} for name, row in table.items()}
    return "json", json.dumps(lists)


def curves_lists_alone(rng: random.Random, table: Table) -> tuple[str, str]:
    return "json", json.dumps({name: {"extrapolation_acc": list(row.values())} for name, row in table.items()})


def curves_german_sheet(rng: random.Random, table: Table) -> tuple[str, str]:
    """A spreadsheet's export: byte-order mark, semicolons, decimal commas."""
    lengths = list(next(iter(table.values())))
    lines = [";".join(["Encoding", *map(str, lengths)])]
    lines += [
        ";".join([name, *(f"{acc:.3f}".replace(".", ",") for acc in row.values())]) for name, row in table.items()
    ]
    return "csv", "\ufeff" + "\r\n".join(lines) + "\r\n"


def curves_sheet(rng: random.Random, table: Table) -> tuple[str, str]:
    lines = ["encoding,test_length,test_acc,epochs"]
    lines += [f"{name},{n},{acc:.4f},30" for name, row in table.items() for n, acc in row.items()]
    return "csv", "\n".join(lines) + "\n"


def curves_markdown(rng: random.Random, table: Table) -> tuple[str, str]:
    lengths = list(next(iter(table.values())))
    head = ["| Encoding | " + " | ".join(f"L={n}" for n in lengths) + " |", "|---" * (len(lengths) + 1) + "|"]
    rows = [
        f"| **{name}** | " + " | ".join(f"{100 * acc:.1f}%" for acc in row.values()) + " |"
        for name, row in table.items()
    ]
    return "md", "# Results\n\nTrained for 30 epochs on lengths 8-16.\n\n" + "\n".join(head + rows) + "\n\nDone.\n"


def curves_course(rng: random.Random, table: Table) -> tuple[str, str]:
    inside = {
        name: {
            "config": {"d_model": 128, "n_heads": 4, "max_len": 512},
            "extrapolation": {
                f"test_len_{n}": {"accuracy": acc, "loss": rng.random(), "total": 500} for n, acc in row.items()
            },
        }
        for name, row in table.items()
    }
    return "json", json.dumps(inside, indent=1)


def curves_percent(rng: random.Random, table: Table) -> tuple[str, str]:
    return "json", json.dumps(
        {f"{name}_pe": {f"len_{n}": round(100 * acc, 1) for n, acc in row.items()} for name, row in table.items()}
    )


def records(table: Table) -> list[Row]:
    return [{"encoding": name, "length": n, "accuracy": acc} for name, row in table.items() for n, acc in row.items()]


def curves_frame_columns(rng: random.Random, table: Table) -> tuple[str, str]:
    rows = records(table)
    return "json", json.dumps({key: {str(index): row[key] for index, row in enumerate(rows)} for key in rows[0]})


def curves_frame_index(rng: random.Random, table: Table) -> tuple[str, str]:
    return "json", json.dumps({str(index): row for index, row in enumerate(records(table))})


def curves_frame_split(rng: random.Random, table: Table) -> tuple[str, str]:
    rows = records(table)
    data = {"columns": list(rows[0]), "index": list(range(len(rows))), "data": [list(row.values()) for row in rows]}
    return "json", json.dumps(data)


def curves_pairs(rng: random.Random, table: Table) -> tuple[str, str]:
    return "json", json.dumps({name: [[n, acc] for n, acc in row.items()] for name, row in table.items()})


def curves_numpy_text(rng: random.Random, table: Table) -> tuple[str, str]:
    """np.savetxt: a column for each model."""
    lengths = list(next(iter(table.values())))
    lines = ["# length " + " ".join(table)]
    lines += [" ".join(f"{value:.18e}" for value in (n, *(row[n] for row in table.values()))) for n in lengths]
    return "txt", "\n".join(lines) + "\n"


def curves_frame_printed(rng: random.Random, table: Table) -> tuple[str, str]:
    """A printed data frame: a column for each model, and a number before each row."""
    lengths = list(next(iter(table.values())))
    lines = ["   length  " + "  ".join(table)]
    for index, n in enumerate(lengths):
        lines.append(f"{index}  {n:5d}  " + "  ".join(f"{row[n]:.4f}" for row in table.values()))
    return "txt", "\n".join(["Evaluating...", "", *lines, "", "Done."])


def curves_latex(rng: random.Random, table: Table) -> tuple[str, str]:
    lengths = list(next(iter(table.values())))
    rows = [f"{name} & " + " & ".join(f"{acc:.3f}" for acc in row.values()) + r" \\" for name, row in table.items()]
    head = r"\textbf{Encoding} & " + " & ".join(map(str, lengths)) + r" \\"
    inside = [r"\begin{tabular}{l" + "r" * len(lengths) + "}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule"]
    return "tex", "\n".join([*inside, r"\end{tabular}"]) + "\n"


def curves_grid(rng: random.Random, table: Table) -> tuple[str, str]:
    lengths = list(next(iter(table.values())))
    rule = "+------------" * (len(lengths) + 1) + "+"
    lines = [rule, "|".join(["", f" {'model':<11}", *(f" {n:<11}" for n in lengths), ""]), rule.replace("-", "=")]
    for name, row in table.items():
        lines += ["|".join(["", f" {name:<11}", *(f" {acc:<11.4f}" for acc in row.values()), ""]), rule]
    return "txt", "\n".join(lines) + "\n"


def curves_yaml(rng: random.Random, table: Table) -> tuple[str, str]:
    lines = ["config:", "  d_model: 64", "  lr: 0.001", "results:"]
    for name, row in table.items():
        lines += [f"  {name}:", *(f"    {n}: {acc}" for n, acc in row.items())]
    return "yaml", "\n".join(lines) + "\n"


def curves_single_precision(rng: random.Random, table: Table) -> tuple[str, str]:
    """Means of float32 tensors, as `.item()` gives them."""
    return "json", json.dumps(
        {name: {f"acc_{n}": float(np.float32(acc)) for n, acc in row.items()} for name, row in table.items()}
    )


def curves_summary(rng: random.Random, table: Table) -> tuple[str, str]:
    """A tracker's summary: lengths beside the last epoch, and what it measures of itself."""
    beside = {"_runtime": 812.3, "_step": 3000, "train/loss": 0.02, "epoch": 30}
    found = {f"{name}/test_len_{n}/acc": acc for name, row in table.items() for n, acc in row.items()}
    return "json", json.dumps({**beside, **found})


def curves_spread(rng: random.Random, table: Table) -> tuple[str, str]:
    lengths = list(next(iter(table.values())))
    lines = ["| Encoding | " + " | ".join(map(str, lengths)) + " |", "|---" * (len(lengths) + 1) + "|"]
    lines += [
        f"| {name} | " + " | ".join(f"{a:.3f} ± 0.000" for a in row.values()) + " |" for name, row in table.items()
    ]
    return "md", "\n".join(lines) + "\n"


def curves_every_epoch(rng: random.Random, table: Table) -> tuple[str, str]:
    """Each length after each epoch; the last is what is claimed."""
    rows = []
    for epoch in (1, 2, 3):
        for name, row in table.items():
            now = {f"len_{n}": acc if epoch == 3 else round(rng.uniform(0.4, 0.9), 3) for n, acc in row.items()}
            rows.append({"model": name, "epoch": epoch, "train_acc": 0.98, **now})
    return "jsonl", "".join(json.dumps(row) + "\n" for row in rows)


CURVES: dict[str, Callable[[random.Random, Table], tuple[str, str]]] = {
    "by length, data frame by columns": curves_frame_columns,
    "by length, data frame by index": curves_frame_index,
    "by length, data frame split": curves_frame_split,
    "by length, pairs": curves_pairs,
    "by length, numpy text": curves_numpy_text,
    "by length, printed data frame": curves_frame_printed,
    "by length, LaTeX": curves_latex,
    "by length, grid": curves_grid,
    "by length, YAML": curves_yaml,
    "by length, single precision": curves_single_precision,
    "by length, a tracker's summary": curves_summary,
    "by length, average and spread": curves_spread,
    "by length, every epoch": curves_every_epoch,
    "by length, nested": curves_nested,
    "by length, rows": curves_rows,
    "by length, lists with lengths": curves_lists,
    "by length, lists alone": curves_lists_alone,
    "by length, spreadsheet with commas": curves_german_sheet,
    "by length, CSV rows": curves_sheet,
    "by length, Markdown": curves_markdown,
    "by length, the course's script": curves_course,
    "by length, per cent": curves_percent,
}

# ---------------------------------------------------------------- styles of results: one accuracy, logs, heads

Single = dict[str, float]
"""What a student says of one model on one test file: `test`, and perhaps `teacher_forced`, `train`, `val`."""


def single_json(rng: random.Random, said: Single) -> tuple[str, str]:
    keys = {
        "test": "test_accuracy",
        "teacher_forced": "teacher_forced_acc",
        "train": "train_accuracy",
        "val": "best_val_acc",
    }
    found: Row = {keys[name]: value for name, value in said.items()}
    return "json", json.dumps(
        {"model": "seq2seq", "epochs": 50, "lr": 0.001, **found, "test_loss": round(rng.random(), 4)}
    )


def single_notes(rng: random.Random, said: Single) -> tuple[str, str]:
    keys = {
        "test": "Test accuracy (greedy)",
        "teacher_forced": "Teacher-forced accuracy",
        "train": "Train accuracy",
        "val": "Val accuracy",
    }
    lines = [f"{keys[name]}: {100 * value:.2f}%" for name, value in said.items()]
    return "txt", "\n".join(["Loading model...", "Parameters: 932,491", *lines, "Saved to results/"]) + "\n"


def single_sheet(rng: random.Random, said: Single) -> tuple[str, str]:
    return "csv", "metric,value\n" + "".join(f"{name}_accuracy,{value:.4f}\n" for name, value in said.items())


def single_counts(rng: random.Random, said: Single) -> tuple[str, str]:
    keys = {"test": "Exact match on test", "teacher_forced": "Teacher-forced accuracy"}
    lines = [f"{keys[name]}: {round(2_000 * value)}/2000 ({100 * value:.2f}%)" for name, value in said.items()]
    return "txt", "\n".join(lines) + "\n"


SINGLES: dict[str, Callable[[random.Random, Single], tuple[str, str]]] = {
    "single, JSON": single_json,
    "single, printed text": single_notes,
    "single, CSV of metrics": single_sheet,
    "single, counts": single_counts,
}

History = list[Single]


def log_lists(rng: random.Random, epochs: History) -> tuple[str, str]:
    lists = {f"{name}_acc": [one[name] for one in epochs] for name in epochs[0]}
    losses = {"train_loss": [round(0.7 - 0.001 * step, 4) for step in range(len(epochs))]}
    return "json", json.dumps({**losses, **lists, "epochs": len(epochs)})


def log_lines(rng: random.Random, epochs: History) -> tuple[str, str]:
    rows = [
        {"epoch": step + 1, "train_loss": 0.69, **{f"{name}_accuracy": v for name, v in one.items()}}
        for step, one in enumerate(epochs)
    ]
    return "jsonl", "".join(json.dumps(row) + "\n" for row in rows)


def log_rows(rng: random.Random, epochs: History) -> tuple[str, str]:
    rows = [
        {"epoch": step, "loss": 0.69, **{f"{name}_acc": v for name, v in one.items()}}
        for step, one in enumerate(epochs)
    ]
    return "json", json.dumps({"config": {"lr": 0.0003}, "history": rows})


def log_printed(rng: random.Random, epochs: History) -> tuple[str, str]:
    lines = []
    for step, one in enumerate(epochs):
        parts = [f"{name.capitalize()} Acc: {value:.4f}" for name, value in one.items()]
        lines.append(f"Epoch {step + 1}/{len(epochs)} | Train Loss: 0.69{step % 10} | " + " | ".join(parts))
    return "log", "\n".join(lines) + "\n"


def log_keras(rng: random.Random, epochs: History) -> tuple[str, str]:
    """The history of Keras: what has no prefix is of training."""
    lists = {"accuracy": [one["train"] for one in epochs], "val_accuracy": [one["val"] for one in epochs]}
    return "json", json.dumps({"loss": [0.69] * len(epochs), **lists, "val_loss": [0.69] * len(epochs)})


def log_words(rng: random.Random, epochs: History) -> tuple[str, str]:
    """Names and numbers with nothing between them."""
    lines = []
    for step, one in enumerate(epochs):
        lines.append(f"Epoch {step + 1}: loss 0.69{step % 10} train acc {one['train']:.4f} val acc {one['val']:.4f}")
    return "log", "device: cuda\n" + "\n".join(lines) + "\n"


def log_bars(rng: random.Random, epochs: History) -> tuple[str, str]:
    """A progress bar for each epoch, and the accuracies below it."""
    lines = []
    for step, one in enumerate(epochs):
        lines.append(f"Epoch {step + 1}: 100%|#####| 313/313 [00:12<00:00, 25.9it/s, loss=0.69]")
        lines += [f"train accuracy = {one['train']:.4f}", f"val accuracy = {one['val']:.4f}"]
    return "txt", "\n".join(lines) + "\n"


def log_blanks(rng: random.Random, epochs: History) -> tuple[str, str]:
    """A logger's CSV: training and validation have a row each, with blanks for the other."""
    lines = ["epoch,step,train_acc,train_loss,val_acc,val_loss"]
    for step, one in enumerate(epochs):
        lines += [f"{step},{313 * step},{one['train']},0.69,,", f"{step},{313 * step},,,{one['val']},0.69"]
    return "csv", "\n".join(lines) + "\n"


LOGS: dict[str, Callable[[random.Random, History], tuple[str, str]]] = {
    "log, lists": log_lists,
    "log, JSON lines": log_lines,
    "log, rows": log_rows,
    "log, printed": log_printed,
    "log, Keras": log_keras,
    "log, words alone": log_words,
    "log, progress bars": log_bars,
    "log, CSV with blanks": log_blanks,
}

Heads = dict[tuple[str, int, int], float]
"""Accuracy without each head: (encoder_self, layer, head)."""
KINDS = ("encoder_self", "decoder_self", "decoder_cross")


def heads_flat(rng: random.Random, base: float, heads: Heads) -> tuple[str, str]:
    found = {f"{kind}_layer{layer}_head{head}": value for (kind, layer, head), value in heads.items()}
    return "json", json.dumps({"baseline_accuracy": base, "head_ablation": found}, indent=2)


def heads_nested(rng: random.Random, base: float, heads: Heads) -> tuple[str, str]:
    tree: Row = {}
    for (kind, layer, head), value in heads.items():
        inside = tree.setdefault(kind, {}).setdefault(f"layer_{layer}", {})
        inside[f"head_{head}"] = {"accuracy": value, "drop": round(base - value, 6)}
    return "json", json.dumps({"baseline": base, "ablation": tree})


def heads_rows(rng: random.Random, base: float, heads: Heads) -> tuple[str, str]:
    rows = [
        {"type": kind, "layer": layer, "head": head, "ablated_acc": value, "acc_drop": base - value}
        for (kind, layer, head), value in heads.items()
    ]
    return "json", json.dumps({"original_accuracy": base, "results": rows})


def heads_numbered(rng: random.Random, base: float, heads: Heads) -> tuple[str, str]:
    """Layers and heads named by numbers alone."""
    tree: Row = {}
    for (kind, layer, head), value in heads.items():
        tree.setdefault(kind, {}).setdefault(str(layer), {})[str(head)] = value
    return "json", json.dumps({"baseline_acc": base, "ablated_acc": tree})


def heads_matrix(rng: random.Random, base: float, heads: Heads) -> tuple[str, str]:
    found: Row = {"baseline": base}
    for kind in dict.fromkeys(kind for kind, _, _ in heads):
        layers = sorted({layer for one, layer, _ in heads if one == kind})
        found[f"{kind}_drop"] = [
            [base - v for (one, at, _), v in heads.items() if one == kind and at == n] for n in layers
        ]
    return "json", json.dumps(found)


def heads_sheet(rng: random.Random, base: float, heads: Heads) -> tuple[str, str]:
    lines = [f"none,-,-,{base:.4f},0.0"]
    lines += [f"{kind},{layer},{head},{value:.4f},{base - value:.4f}" for (kind, layer, head), value in heads.items()]
    return "csv", "attention,layer,head,accuracy,drop\n" + "\n".join(lines) + "\n"


def heads_markdown(rng: random.Random, base: float, heads: Heads) -> tuple[str, str]:
    lines = ["| Head | Accuracy | Drop |", "|------|---------:|-----:|", f"| Baseline | {100 * base:.2f}% | - |"]
    for (kind, layer, head), value in heads.items():
        lines.append(f"| {kind} L{layer}H{head} | {100 * value:.2f}% | {100 * (base - value):+.2f}% |")
    return "md", "\n".join(lines) + "\n"


def heads_pairs(rng: random.Random, base: float, heads: Heads) -> tuple[str, str]:
    """Layer and head as str() writes a tuple."""
    tree: Row = {}
    for (kind, layer, head), value in heads.items():
        tree.setdefault(kind, {})[f"({layer}, {head})"] = {"accuracy": value, "drop": round(base - value, 6)}
    return "json", json.dumps({"baseline_accuracy": base, "ablation": tree})


HEADS: dict[str, Callable[[random.Random, float, Heads], tuple[str, str]]] = {
    "heads, flat": heads_flat,
    "heads, nested": heads_nested,
    "heads, rows": heads_rows,
    "heads, numbered": heads_numbered,
    "heads, matrices": heads_matrix,
    "heads, CSV": heads_sheet,
    "heads, Markdown": heads_markdown,
    "heads, pairs of numbers": heads_pairs,
}
RESULT_STYLES = (*CURVES, *SINGLES, *LOGS, *HEADS)


def ablated(rng: random.Random, base: float, n: int, how: str) -> Heads:
    """Accuracy without each of 24 heads: a few matter, or none does and all differ by one or two examples."""
    found: Heads = {}
    for kind in KINDS:
        for layer in range(2):
            for head in range(4):
                lost = rng.choice((0, 1, 2, -1)) if how == "noise" or rng.random() < 0.8 else rng.randint(60, n // 3)
                found[kind, layer, head] = min(1.0, max(0.0, (round(base * n) - lost) / n))
    return found


# ---------------------------------------------------------------- cases of results


class Student:
    """Makes cases, one after the other, in a folder; worlds are made once and used by many cases."""

    def __init__(self, folder: Path, seed: int, worlds: int = 1, layouts: tuple[str, ...] = tuple(LAYOUTS)):
        self.folder, self.rng, self.worlds, self.layouts = folder, random.Random(seed), worlds, layouts
        self.made: dict[tuple[str, str, str, int], World] = {}
        self.count = 0

    def world(self, task: str, layout: str, harm: str = "") -> World:
        key = (task, layout, harm, self.rng.randrange(self.worlds))
        if key not in self.made:
            how = HARMS[harm][1] if harm else None
            name = "-".join(map(str, key)).replace(" ", "_")
            self.made[key] = make_world(self.folder / "worlds" / name / "data", task, layout, hash_of(name), how)
        return self.made[key]

    def any_world(self, task: str, harm: str = "") -> World:
        return self.world(task, self.rng.choice(self.layouts), harm)

    def save(self, suffix: str, text: str, name: str = "results") -> Path:
        self.count += 1
        return put(self.folder / "work" / f"{name}_{self.count}.{suffix}", text, newline="")

    def curves(self, style: str, how: str) -> Case:
        rng, world = self.rng, self.any_world("sequences")
        names = rng.sample(ENCODINGS, rng.randint(1, 3))
        table = {name: curve(rng, world, "good") for name in names}
        if how == "healthy":
            table = {name: curve(rng, world, rng.choice(("good", "falling"))) for name in names}
        else:
            table[rng.choice(names)] = curve(rng, world, how)
        if how == "constant past":
            # Lengths that training saw, measured on sequences of that length from the test file.
            inside = {n: [p for p in world.test() if len(p[0]) == n] for n in (8, 12, 16)}
            table = {
                name: {**{n: good(rng, len(pairs)) for n, pairs in inside.items()}, **row}
                for name, row in table.items()
            }
            if style == "by length, lists alone":
                style = "by length, nested"
        suffix, text = CURVES[style](rng, table)
        named = frozenset() if how == "healthy" else frozenset({"constant-answer"})
        return Case("results", style, how, world.folder, self.save(suffix, text), named)

    def sums_said(self, world: World, how: str) -> tuple[Single, frozenset[str]]:
        rng = self.rng
        if how == "no start token":
            found = {"test": share(world.test(), below_1000)}
            if rng.random() < 0.5:
                found["teacher_forced"] = count_at(rng, 2_000, 0.999)
            return found, frozenset({"first-digit-never-predicted"})
        if how == "padding is a digit":
            found = {
                "test": share(world.test(), below_1000_without_zero),
                "teacher_forced": count_at(rng, 2_000, 0.998),
            }
            return found, frozenset({"zeros-not-scored"})
        return {"test": good(rng, 2_000)}, frozenset()

    def single(self, style: str, how: str) -> Case:
        world = self.any_world("sums", "overlap" if how == "overlap" else "")
        said, named = self.sums_said(world, how)
        suffix, text = SINGLES[style](self.rng, said)
        named = frozenset({"split-overlap"}) if how == "overlap" else named
        return Case("results", style, how, world.folder, self.save(suffix, text), named)

    def log(self, style: str, how: str) -> Case:
        """Epochs of a classifier that answers one class, now the one, now the other; or of one that learns."""
        rng, world = self.rng, self.any_world("sequences")
        epochs = []
        for step in range(rng.randint(6, 30)):
            label = rng.randrange(2) if step < 3 else 1
            if how == "class shares":
                one = {
                    name: share(world.splits[name], lambda target, label=label: target == label)
                    for name in ("train", "val")
                }
            else:
                level = min(0.99, 0.55 + 0.05 * step)
                one = {"train": count_at(rng, 1_200, level), "val": count_at(rng, 800, level)}
            epochs.append({name: round(value, 4) for name, value in one.items()})
        suffix, text = LOGS[style](rng, epochs)
        named = frozenset({"constant-answer"}) if how == "class shares" else frozenset()
        return Case("results", style, how, world.folder, self.save(suffix, text, "training_log"), named)

    def heads(self, style: str, how: str) -> Case:
        rng = self.rng
        named: frozenset[str] = frozenset()
        if how == "baseline cannot fall" and rng.random() < 0.5:
            world = self.any_world("sequences")
            # A classifier that answers one class, or tosses coins: its test accuracy, and 24 that are no better.
            base = share(world.test(), lambda target: target == 1)
            heads = {key: rng.choice((base, 1 - base, base)) for key in ablated(rng, base, 800, "noise")}
            named = frozenset({"nothing-to-lose", "constant-answer"})
        elif how == "baseline cannot fall":
            world = self.any_world("sums")
            base = rng.choice((0, 1, 5, 13)) / 2_000
            heads = ablated(rng, base, 2_000, "noise")
            named = frozenset({"nothing-to-lose"})
        else:
            world = self.any_world("sums")
            base = self.sums_said(world, how)[0]["test"] if how == "no start token" else count_at(rng, 2_000, 0.995)
            heads = ablated(rng, base, 2_000, "noise" if how == "noise claims" else "some")
            named = {
                "no start token": frozenset({"first-digit-never-predicted"}),
                "noise claims": frozenset({"drop-inside-noise"}),
            }.get(how, named)
        suffix, text = HEADS[style](rng, base, heads)
        return Case("results", style, how, world.folder, self.save(suffix, text, "ablation"), named)

    # ------------------------------------------------------------ predictions

    def predictions(self, style: str, how: str) -> Case:
        rng, task = self.rng, PREDICTED[how][0]
        task = rng.choice(("sums", "sequences")) if task == "both" else task
        world = self.any_world(task, "overlap" if how == "overlap" else "")
        if how == "constant past" or (task == "sequences" and rng.random() < 0.3):
            pairs = [pair for name in ("test", *(f"test_{n}" for n in LENGTHS)) for pair in world.splits[name]]
        else:
            pairs = world.test()
        answers = [PREDICTED[how][1](rng, world.task, pair) for pair in pairs]
        if how == "permuted" and task == "sums":
            a, b = map(str, rng.sample(range(1, 10), 2))
            answers = [answer.translate(str.maketrans(a + b, b + a)) for answer in answers]
        suffix, text = PREDICTIONS[style](rng, world.task, pairs, answers)
        return Case("predictions", style, how, world.folder, self.save(suffix, text, "predictions"), PREDICTED[how][2])

    def data(self, layout: str, how: str) -> Case:
        task = self.rng.choice(("sums", "sequences"))
        if how != "healthy":
            task = {"both": task}.get(HARMS[how][0], HARMS[how][0])
        world = self.world(task, layout, "" if how == "healthy" else how)
        named = frozenset() if how == "healthy" else HARMS[how][2]
        return Case("data", layout, how, world.folder, None, named)


def hash_of(name: str) -> int:
    return sum(ord(letter) * 31**place for place, letter in enumerate(name)) % 2**31


# ---------------------------------------------------------------- styles of predictions

Answer = Any
"""A text of digits, most significant first, or a class."""


def answer_healthy(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    """Right, with a few slips."""
    target = pair[1]
    if task == "sequences":
        return target if rng.random() < 0.96 else 1 - target
    digits = list(f"{target:04d}")
    if rng.random() < 0.04:
        digits[rng.randrange(4)] = str(rng.randrange(10))
    return "".join(digits)


def answer_first_zero(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    return "0" + answer_healthy(rng, task, pair)[1:]


def answer_short(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    """The teacher-forced output of a decoder that was trained on target[:-1] -> target[1:]."""
    return answer_healthy(rng, task, pair)[1:]


def answer_no_zero(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    right = f"{pair[1]:04d}"
    return "0" + "".join(digit if digit != "0" else str(rng.randint(1, 9)) for digit in right[1:])


def answer_zeros_removed(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    """Padding is removed from a right answer, and its id is that of the digit 0."""
    return f"{pair[1]:04d}".replace("0", "")


def answer_reversed(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    return answer_healthy(rng, task, pair)[::-1]


def answer_right(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    return 1 - pair[1] if task == "sequences" else f"{pair[1]:04d}"


def answer_constant(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    return 1


def answer_constant_past(rng: random.Random, task: str, pair: tuple[Any, Any]) -> Answer:
    return answer_healthy(rng, task, pair) if len(pair[0]) <= 16 else 0


PREDICTED: dict[str, tuple[str, Callable[[random.Random, str, tuple[Any, Any]], Answer], frozenset[str]]] = {
    "healthy": ("both", answer_healthy, frozenset()),
    "no start token": ("sums", answer_first_zero, frozenset({"first-digit-never-predicted"})),
    "shifted targets": ("sums", answer_short, frozenset({"answers-shifted"})),
    "padding is a digit": ("sums", answer_no_zero, frozenset({"zeros-not-scored"})),
    "zeros removed": ("sums", answer_zeros_removed, frozenset({"zeros-not-scored"})),
    "reversed": ("sums", answer_reversed, frozenset({"answers-reversed"})),
    "permuted": ("both", answer_right, frozenset({"answers-permuted"})),
    "constant": ("sequences", answer_constant, frozenset({"constant-answer"})),
    "constant past": ("sequences", answer_constant_past, frozenset({"constant-answer"})),
    "overlap": ("both", answer_healthy, frozenset({"split-overlap"})),
}

Written = tuple[str, str]
Pairs = list[tuple[Any, Any]]


def tokens(text: str) -> list[int]:
    return [int(digit) for digit in text]


def written_tokens(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    lines = []
    for (source, target), answer in zip(pairs, answers, strict=True):
        row = sum_row(source, target) if task == "sums" else {"sequence": source, "target": target}
        lines.append(json.dumps({**row, "prediction": tokens(answer) if task == "sums" else answer}))
    return "jsonl", "\n".join(lines) + "\n"


def written_records(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    """A list of records with a field that says whether the answer was right, as the course's script saves."""
    rows = []
    for (source, target), answer in zip(pairs, answers, strict=True):
        if task == "sums":
            row = {"input": sum_row(source, target)["input"], "target": tokens(f"{target:04d}"), "pred": tokens(answer)}
        else:
            row = {"sequence": source, "label": target, "pred": answer}
        rows.append({**row, "correct": row["pred"] == row.get("target", row.get("label"))})
    return "json", json.dumps({"accuracy": 0.0, "predictions": rows})


def written_lists(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    if task == "sums":
        sources: list[Any] = [sum_row(*pair)["input"] for pair in pairs]
        return "json", json.dumps(
            {
                "inputs": sources,
                "targets": [tokens(f"{t:04d}") for _, t in pairs],
                "predictions": [tokens(a) for a in answers],
            }
        )
    return "json", json.dumps({"sequences": [s for s, _ in pairs], "y_true": [t for _, t in pairs], "y_pred": answers})


def written_sheet(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(["input", "expected", "predicted"])
    for (source, target), answer in zip(pairs, answers, strict=True):
        if task == "sums":
            writer.writerow([f"{source[0]} + {source[1]} = ", f"{target:04d}", answer])
        else:
            writer.writerow([" ".join(map(str, source)), target, answer])
    return "csv", sheet.getvalue()


def written_ended(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    """Whole decoder outputs, with start, end and padding; classes as true and false."""
    rows = []
    for (source, target), answer in zip(pairs, answers, strict=True):
        if task == "sums":
            said = [11, *tokens(answer), 12, 13][: 6 + rng.randrange(2)]
            rows.append(
                {"src": sum_row(source, target)["input"], "tgt": [11, *tokens(f"{target:04d}"), 12], "output": said}
            )
        else:
            rows.append({"seq": source, "gold": bool(target), "output": bool(answer)})
    return "json", json.dumps(rows)


def written_text(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    lines = []
    for (source, target), answer in zip(pairs, answers, strict=True):
        if task == "sums":
            row = {"question": f"{source[0]}+{source[1]}", "answer": f"{target:04d}", "model_answer": answer}
        else:
            names = ("unsorted", "sorted")
            row = {"sequence": " ".join(map(str, source)), "answer": names[target], "model_answer": names[answer]}
        lines.append(json.dumps(row))
    return "jsonl", "\n".join(lines)


def written_lines(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    """A line for each example, with the name of everything in it."""
    lines = []
    for (source, target), answer in zip(pairs, answers, strict=True):
        if task == "sums":
            lines.append(f"Input: {source[0]}+{source[1]} | Target: {target:04d} | Pred: {answer}")
        else:
            lines.append(f"sequence: {source} | label: {target} | pred: {answer}")
    return "txt", "\n".join(lines) + "\n"


def written_frame(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    """A data frame by columns."""
    sources = [sum_row(*pair)["input"] if task == "sums" else pair[0] for pair in pairs]
    targets = [tokens(f"{pair[1]:04d}") if task == "sums" else pair[1] for pair in pairs]
    said = [tokens(answer) if task == "sums" else answer for answer in answers]
    columns = {"input": sources, "target": targets, "prediction": said}
    return "json", json.dumps({key: {str(n): one for n, one in enumerate(some)} for key, some in columns.items()})


def written_alone(rng: random.Random, task: str, pairs: Pairs, answers: list[Answer]) -> Written:
    """Answers without their examples, in the order of the files: a list, or one for each file."""
    said = [tokens(answer) if task == "sums" else answer for answer in answers]
    if task == "sums" or max(len(source) for source, _ in pairs) <= 16:
        return "json", json.dumps(said)
    lengths = [len(source) if len(source) > 16 else "test" for source, _ in pairs]
    return "json", json.dumps(
        {str(one): [a for a, n in zip(said, lengths, strict=True) if n == one] for one in dict.fromkeys(lengths)}
    )


PREDICTIONS: dict[str, Callable[[random.Random, str, Pairs, list[Answer]], Written]] = {
    "lines of tokens": written_tokens,
    "records": written_records,
    "parallel lists": written_lists,
    "CSV": written_sheet,
    "whole decoder outputs": written_ended,
    "lines of text": written_text,
    "lines of names": written_lines,
    "data frame": written_frame,
    "answers alone": written_alone,
}

# ---------------------------------------------------------------- all of it


def plans() -> list[tuple[str, str, str]]:
    """Every style with every truth that it can hold: (maker, style, truth)."""
    found = [("curves", style, how) for style in CURVES for how in ("constant", "constant past", "healthy")]
    found += [
        ("single", style, how)
        for style in SINGLES
        for how in ("no start token", "padding is a digit", "overlap", "healthy")
    ]
    found += [("log", style, how) for style in LOGS for how in ("class shares", "healthy")]
    found += [
        ("heads", style, how)
        for style in HEADS
        for how in ("no start token", "noise claims", "baseline cannot fall", "healthy")
    ]
    found += [("predictions", style, how) for style in PREDICTIONS for how in PREDICTED]
    found += [("data", layout, how) for layout in LAYOUTS for how in (*HARMS, "healthy")]
    return found


def make_cases(
    folder: Path, seed: int, defects: int, healthy: int, worlds: int = 1, layouts: tuple[str, ...] = tuple(LAYOUTS)
) -> list[Case]:
    """So many cases with a defect and without, spread over all styles and truths; data lies in these layouts."""
    student = Student(folder, seed, worlds, layouts)
    cases: list[Case] = []
    for wanted, chosen in (
        (defects, [plan for plan in plans() if plan[2] != "healthy"]),
        (healthy, [plan for plan in plans() if plan[2] == "healthy"]),
    ):
        student.rng.shuffle(chosen)
        for index in range(wanted):
            maker, style, how = chosen[index % len(chosen)]
            cases.append(getattr(student, maker)(style, how))
    return cases


def draw_random_table(rng: random.Random, world: World) -> tuple[str, str]:
    """Numbers that no defect produced: any accuracy for sums, anything between guessing and right for sequences."""
    if world.task == "sums":
        said = {"test": rng.randint(0, 2_000) / 2_000}
        if rng.random() < 0.5:
            said["teacher_forced"] = rng.randint(0, 2_000) / 2_000
        if rng.random() < 0.5:
            return SINGLES[rng.choice(list(SINGLES))](rng, said)
        return HEADS[rng.choice(list(HEADS))](rng, said["test"], ablated(rng, said["test"], 2_000, "some"))
    table = {}
    for name in rng.sample(ENCODINGS, rng.randint(1, 3)):
        levels = [rng.choice((0.5, rng.uniform(0.4, 1.0))) for _ in LENGTHS]
        table[name] = {n: count_at(rng, 500, level) for n, level in zip(LENGTHS, levels, strict=True)}
    return CURVES[rng.choice(list(CURVES))](rng, table)
