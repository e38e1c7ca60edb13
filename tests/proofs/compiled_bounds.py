"""Prints bounds of rounding, plain and compiled, as JSON. A process of its own: a compiler cannot trace the checks of
types and shapes that tests run with. Nothing is translated for a device here.
"""

import json
from pathlib import Path

import torch

from headway.errors import InstrumentError
from headway.evaluation import load
from headway.proofs import sum_allowance, sums
from headway.proofs.sum_allowance import Compiled, largest
from headway.proofs.sum_contexts import groups, places

CERTIFIED = Path(__file__).parents[2] / "docs/results/proofs/local-addition-seed0"
AT_ONCE = 50
SIZES = (1, 49, 50, 51, 130)


@torch.inference_mode()
def main() -> None:
    torch.set_num_threads(1)
    trained = load(CERTIFIED, device="cpu")
    margins, compiled = sums.Margins(trained, *sums.reach_of(trained)), Compiled(AT_ONCE, backend="eager")
    found = []
    for group in groups(places(margins.tables.reach)[-1])[:3]:  # other digits written before, so other tables
        write = margins.tables.writer(group.place, group.written)
        every = next(group.contexts(margins.device, max(SIZES)))
        for size in SIZES:
            contexts = next(every.split(size))
            found.append([size, largest(write, contexts, margins.eos), compiled(write, contexts, margins.eos)])
    plain, message = sum_allowance.largest, ""
    sum_allowance.largest = lambda *words: 1.001 * plain(*words)
    try:
        compiled(write, contexts, margins.eos)
    except InstrumentError as problem:
        message = str(problem)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    print(json.dumps({"bounds": found, "graphs": graphs, "planted": message}))


if __name__ == "__main__":
    main()
