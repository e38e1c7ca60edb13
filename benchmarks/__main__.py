"""All benchmarks: one table of ratios, and a file with everything behind it.

    python -m benchmarks [--parts heads,domain] [--device cuda] [--toy]
    python -m benchmarks --parts time-to-accuracy --whole --seeds 0-4        (an hour on two cores)

Nothing is changed but benchmarks/results/<machine>.json (or --out). Parts that were not asked for keep what that file
says of them, and so does what --whole found. A toy has a file of its own, `<machine>-toy.json`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks.domain import whole_domain
from benchmarks.growth import growths
from benchmarks.heads import subsets, zero_sweep
from benchmarks.machine import circumstances, machine_name
from benchmarks.measuring import Row, Settings, peak
from benchmarks.memory import memory
from benchmarks.peers import hugging_face_is_here
from benchmarks.stacks import stacks
from benchmarks.training import throughput, time_to_accuracy
from headway.batches import pick_device
from headway.cli.options import parse_seeds
from headway.errors import InputError

Part = Callable[[Settings], Iterator[Row]]
PARTS: dict[str, Part] = {
    "throughput": throughput,
    "time-to-accuracy": time_to_accuracy,
    "stack": stacks,
    "heads": zero_sweep,
    "subsets": subsets,
    "domain": whole_domain,
    "memory": memory,
    "growth": growths,
}
RESULTS = Path(__file__).parent / "results"


def main(words: list[str] | None = None) -> None:
    options = read_options(sys.argv[1:] if words is None else words)
    device = options.device
    settings = Settings(device, options.toy, 1 if options.toy else options.repeats, options.seeds, options.whole)
    place = options.out or RESULTS / f"{machine_name(device)}{'-toy' if options.toy else ''}.json"
    command = ["python", "-m", "benchmarks", *(sys.argv[1:] if words is None else words)]
    document = json.loads(place.read_text()) if place.exists() else {"parts": {}}
    print(line("what", "against", "value", "spread", "by op.", "floor"), flush=True)
    for name in options.parts:
        began = time.perf_counter()
        rows = []
        for row in PARTS[name](settings):
            rows.append(row)
            print(shown(row), flush=True)
        document["parts"][f"{name} --whole" if options.whole and name == "time-to-accuracy" else name] = {
            "rows": [row.to_json() for row in rows],
            "seconds": round(time.perf_counter() - began, 1),
            "skipped": skipped(name),
            **circumstances(device, command, options.commit),
        }
        document |= {"machine": machine_name(device), "peak_operations_a_second": peak(device)}
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(document, indent=1) + "\n")
        for reason in skipped(name):
            print(reason)
    print(f"written to {place}")


def read_options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS), type=known_parts, help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--device", default="cpu", type=known_device, help="cpu, cuda or auto")
    parser.add_argument("--repeats", type=several, default=3, help="alternating runs of each side")
    parser.add_argument("--seeds", default="0", type=known_seeds, help="seeds of time-to-accuracy: 0-4 or 0,3,7")
    parser.add_argument("--whole", action="store_true", help="time-to-accuracy checks all sums, not a tenth of them")
    parser.add_argument("--toy", action="store_true", help="everything at a size that takes seconds; says nothing")
    parser.add_argument("--commit", help="the commit that is measured, where git is not there or knows only a copy")
    parser.add_argument("--out", type=no_folder, help="the file to write")
    return parser.parse_args(words)


def known_parts(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"no part {name!r}; known: {', '.join(PARTS)}")
    return names


def known_device(text: str) -> torch.device:
    try:
        return pick_device(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def several(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; a whole number of at least 1 needed")
    return int(text)


def no_folder(text: str) -> Path:
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; a file needed")
    return Path(text)


def known_seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(parse_seeds(text))
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def skipped(part: str) -> list[str]:
    """What could not be measured here, and why."""
    if part == "throughput" and not hugging_face_is_here():
        return ["skipped: the peer of Hugging Face's transformers, which is not installed; headway[bench] brings it"]
    return []


def shown(row: Row) -> str:
    unit = "x" if row.unit == "times" else " "
    value, spread = f"{row.value:.2f}{unit}", f"{row.low:.2f} to {row.high:.2f}"
    by = "" if row.by_operations is None else f"{row.by_operations:.2f}x"
    floor = "" if row.floor is None else f"{row.floor:.1f}"
    text = line(f"{row.part}: {row.what}", row.against, value, spread, by, floor)
    return f"{text}\n    ({row.note})" if row.note else text


def line(*cells: str) -> str:
    what, against, value, spread, by, floor = cells
    return f"{what:66} {against:58} {value:>9} {spread:>16} {by:>8} {floor:>6}".rstrip()


if __name__ == "__main__":
    main()
