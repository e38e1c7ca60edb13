"""Trains seeds of a recipe with kept weights, analyses every kept step and writes all of it to one JSON file.

    PYTHONPATH=src python docs/tools/heads_over_training.py addition --seeds 0-7 --runs /tmp/runs --out FILE.json

On a GPU the seeds train as one stack and are analysed side by side, one process each. The command can be repeated:
finished runs and analyses are read again, not made again.
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import headway.api
import headway.batches
from headway.cli.options import parse_seeds
from headway.errors import InputError
from headway.evaluation import load
from headway.head_analysis.over_training import heads_over_training, keep_over_training
from headway.results.over_training import OverTraining
from headway.storage import replace_file
from headway.training import train, train_stack


def main() -> None:
    options = read_options()
    started = time.perf_counter()
    places = train_seeds(options)
    trained_in = time.perf_counter() - started
    work = [(str(place), options.n, options.pairs, options.device) for place in places]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(analyse, work))
    took = {"training": round(trained_in, 1), "analysis": round(time.perf_counter() - started - trained_in, 1)}
    config = json.loads((places[0] / "config.json").read_text())
    document = {"recipe": options.recipe, "seconds": took, "config": config, "runs": found}
    replace_file(options.out, json.dumps(document, separators=(",", ":"), allow_nan=False).encode())
    print(f"{options.out}: {len(found)} seeds, {len(found[0]['steps'])} steps, {took}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("recipe")
    parser.add_argument("--seeds", default="0-7")
    parser.add_argument("--keep-every", type=int, default=150)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--runs", type=Path, default=Path("runs/over-training"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--n", type=int, default=1_000, help="examples of the ablations")
    parser.add_argument("--pairs", type=int, default=400, help="pairs of each contrast")
    return parser.parse_args()


def train_seeds(options: argparse.Namespace) -> list[Path]:
    """Train what is missing, as a stack on a GPU; returns the run directories."""
    configs, places = [], []
    for seed in parse_seeds(options.seeds):
        settings = [*options.set, f"train.keep_every={options.keep_every}"]
        path, config = headway.api.read_recipe(options.recipe, set=settings, seed=seed)
        configs.append(config)
        places.append(options.runs / f"{path.stem}-seed{seed}")
    if headway.batches.pick_device(options.device).type == "cuda":
        train_stack(configs, places, device=options.device, resume=True)
    else:
        for config, place in zip(configs, places, strict=True):
            train(config, place, device=options.device, resume=True)
    return places


def analyse(work: tuple[str, int, int, str]) -> dict[str, object]:
    """The heads of one run over training; an earlier result with the same amounts is read."""
    place, n, pairs, device = work
    last = load(place, checkpoint="last", device=device)
    try:
        earlier = last.directory.read_result(OverTraining, "over_training")
    except InputError:
        earlier = None
    if earlier is None or (earlier.n, earlier.pairs) != (min(n, last.config.data.test), pairs):
        earlier = keep_over_training(last, heads_over_training(last, examples=n, pairs=pairs))
    return {**earlier.to_json(), "run": Path(place).name}


if __name__ == "__main__":
    main()
