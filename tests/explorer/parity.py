"""The page's numbers beside PyTorch's: small models with random weights, in a browser and here."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.batches import make_batch, make_model
from headway.config import RunConfig, build
from headway.evaluation import Trained
from headway.explorer.export import export_run
from headway.explorer.packing import TYPES
from headway.explorer.writing import engine_text
from headway.head_analysis.handles import edits_of, intervene
from headway.runs import RunDirectory
from headway.self_contained_html import script_json
from headway.tasks import Examples, make_task

TASKS: dict[str, dict[str, Any]] = {
    "addition": {"name": "addition", "digits": 2},
    "addition-text": {"name": "addition-text", "max_characters": 12, "order": "least-significant-first"},
    "addition-text-units-first": {
        "name": "addition-text",
        "max_characters": 12,
        "order": "least-significant-first",
        "operand_order": "least-significant-first",
    },
    "sortedness": {"name": "sortedness", "min_length": 3, "max_length": 6, "values": 12},
}
SMALL = {"d_model": 10, "n_heads": 3, "d_head": 6, "d_ff": 14}
"""Sizes that differ, and of which none is a multiple of 4: the fast products must fill up."""
TOLERANCE = 1e-4
"""What issue and users were promised; rounding alone differs by about 1e-5 on logits of size 10."""

COUNTED = 24
"""Test examples of each run."""

HARNESS = """<!doctype html><meta charset="utf-8"><title>engine</title>
<meta http-equiv="Content-Security-Policy" content="{policy}"><script id="engine">{engine}</script>
<script type="application/json" id="data">{data}</script>
<script>function runsOf() {{
  return (window.runs ??= JSON.parse(document.getElementById("data").textContent).runs);
}}</script>"""

LOGITS = """({ index, examples, options, plain }) => {
  const kernel = Headway.kernel;
  if (plain) Headway.kernel = null;
  const engine = Headway.open(runsOf()[index]);
  Headway.kernel = kernel;
  return options.map((option) => examples.map((example) =>
    Headway.passes.teach(engine, [example], option)[0].map((values) => Array.from(values))));
}"""


def untrained(task: str, seed: int = 0, name: str = "made", **model: Any) -> Trained:
    """A run that nobody trained, with every parameter random: tables that start at 0 would hide their faults."""
    shape = {"shape": "encoder"} if task == "sortedness" else {}
    layers = {"encoder_layers": 2} if task == "sortedness" else {"encoder_layers": 1, "decoder_layers": 2}
    if model.get("shape") == "decoder":
        layers = {"decoder_layers": 2}
    tables = {
        "task": TASKS[task],
        "data": {"train": 30, "validation": 10, "test": COUNTED},
        "model": {**SMALL, **shape, **layers, **model},
        "train": {"steps": 1},
        "seed": seed,
    }
    config = build(RunConfig, tables, "")
    made = make_task(config.task)
    torch.manual_seed(seed)
    transformer = make_model(made, config.model).eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=random)
    return Trained(RunDirectory(Path("/nowhere") / name), config, made, transformer, 0)


def write_harness(documents: list[dict[str, Any]], path: Path, policy: str = "") -> Path:
    """A page with the engine and these runs, and nothing else; a policy may forbid some of what browsers can do."""
    path.write_text(HARNESS.format(policy=policy, engine=engine_text(), data=script_json({"runs": documents})))
    return path


def random_off(trained: Trained, random: np.random.Generator) -> dict[str, str]:
    """Some heads, off in one of the two ways."""
    names = [str(head) for site in trained.model.sites for head in site.heads]
    chosen = random.permutation(len(names))[: random.integers(1, max(2, len(names)))]
    return {names[index]: str(random.choice(["zero", "mean"])) for index in sorted(chosen)}


def expected(trained: Trained, document: dict[str, Any], examples: Examples, off: dict[str, str]) -> np.ndarray:
    """PyTorch's logits with some heads off, by hooks: `example token vocab`."""
    model, heads = trained.model, [head for site in trained.model.sites for head in site.heads]
    row = np.array([{"zero": 1, "mean": 2}.get(off.get(str(head), ""), 0) for head in heads])
    zero = {site.name: torch.zeros(()) for site in model.sites}
    mean = {
        site.name: torch.from_numpy(unpack(document["weights"], f"mean.{site.name}").copy()) for site in model.sites
    }
    batch = make_batch(trained.task, model, examples, torch.device("cpu"))
    with torch.inference_mode(), intervene(model, edits_of(model, row, [zero, mean])):
        logits: np.ndarray = model(batch.inputs).float().numpy()
    return logits.reshape(len(examples), -1, logits.shape[-1])


def draw(trained: Trained, random: np.random.Generator, n: int, lengths: list[int] | None = None) -> Examples:
    """Examples of a task, or one or several of each length, shorter and longer than in training."""
    if lengths is None:
        return trained.task.draw(random, n)
    parts = [trained.task.at_length(length).draw(random, n) for length in lengths]
    return Examples.join(parts, trained.task.vocabulary.pad)


def as_json(trained: Trained, examples: Examples) -> list[dict[str, Any]]:
    """Examples as the engine takes them, without padding."""
    pad, found = trained.task.vocabulary.pad, []
    for source, target in zip(examples.source, examples.target, strict=True):
        answer = int(target) if target.ndim == 0 else target[target != pad].tolist()
        found.append({"source": source[source != pad].tolist(), "target": answer})
    return found


def largest_gap(
    page: Any,
    index: int,
    trained: Trained,
    document: dict[str, Any],
    examples: Examples,
    offs: list[dict[str, str]],
    plain: bool = False,
) -> float:
    """The largest difference of a logit between page and PyTorch, over all examples and sets of heads off."""
    options = [{"off": off} for off in offs]
    argument = {"index": index, "examples": as_json(trained, examples), "options": options, "plain": plain}
    gaps = [0.0]
    for off, rows in zip(offs, page.evaluate(LOGITS, argument), strict=True):
        wanted = expected(trained, document, examples, off)
        for logits, right in zip(rows, wanted, strict=True):
            gaps.append(float(np.abs(np.array(logits) - right[: len(logits)]).max()))
    return max(gaps)


def unpack(packed: dict[str, Any], name: str) -> np.ndarray:
    """A tensor of a document's weights, as the page reads it."""
    entry = packed["index"][name]
    kind, count = np.dtype(TYPES[entry["type"]]), int(np.prod(entry["shape"], dtype=np.int64))
    content = base64.b64decode(packed["data"])
    return np.frombuffer(content, kind, count, entry["at"]).reshape(entry["shape"])


def export(trained: Trained, precision: str = "fp32") -> dict[str, Any]:
    """The document as the page will read it: through JSON and back."""
    document: dict[str, Any] = json.loads(json.dumps(export_run(trained, precision=precision).to_json()))
    return document
