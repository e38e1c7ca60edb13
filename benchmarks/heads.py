"""Zero ablation of every head, and of every set of some heads: one shared pass against a hook and a pass for each.

The plain way is what a careful script does: a forward hook that zeroes heads, one after another, and then either a full
greedy decode (without a KV cache, the source read once) or one teacher-forced pass. All must find the same accuracies.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch

from benchmarks.measuring import Row, Settings, fastest, measure_ratio
from benchmarks.subject import half_trained
from headway.batches import Batch, make_batch
from headway.evaluation import Trained
from headway.head_analysis.joint_ablation import all_subsets
from headway.head_analysis.variants import heads_of, run_variants, zero
from headway.model.sites import Head
from headway.model.transformer import Inputs
from headway.tasks import Examples

COURSE_BATCH = 64
SIZES = (64, 128, 256, 512, 1_024, 4_096)
"""Batch sizes among which a peer's best one is sought."""


def sweep(trained: Trained, examples: Examples, plan: np.ndarray) -> list[float]:
    """headway's way: one shared pass that branches where variants part."""
    return run_variants(trained, examples, plan, [zero]).accuracy.tolist()


Accuracy = Callable[[Trained, Examples, int], float]


def plain(trained: Trained, examples: Examples, plan: np.ndarray, accuracy: Accuracy, batch: int) -> list[float]:
    """One set of heads at a time, by hooks on the inputs of their output projections."""
    heads, found = heads_of(trained), []
    for row in plan:
        with switched_off(trained, [heads[column] for column in np.flatnonzero(row)]):
            found.append(accuracy(trained, examples, batch))
    return found


@contextmanager
def switched_off(trained: Trained, heads: Sequence[Head]) -> Iterator[None]:
    handles = [hook(trained, head) for head in heads]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def hook(trained: Trained, head: Head) -> torch.utils.hooks.RemovableHandle:
    stack, layer, looks = head.site.split(".")
    attention = getattr(getattr(trained.model, stack)[int(layer)], "cross" if looks == "cross" else "own")
    start = head.index * attention.d_head

    def switch_off(module: torch.nn.Module, arguments: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        mixed = arguments[0].clone()
        mixed[:, :, start : start + attention.d_head] = 0
        return (mixed,)

    return attention.output.register_forward_pre_hook(switch_off)


def batches(trained: Trained, examples: Examples, size: int) -> Iterator[Batch]:
    for start in range(0, len(examples), size):
        yield make_batch(trained.task, trained.model, examples.take(slice(start, start + size)), trained.device)


@torch.inference_mode()
def by_decoding(trained: Trained, examples: Examples, size: int) -> float:
    """Whole answers written token by token; the source is read once, the prefix again at every step."""
    right = torch.zeros((), dtype=torch.long, device=trained.device)
    for batch in batches(trained, examples, size):
        model, task, inputs = trained.model, trained.task, batch.inputs
        prefix = inputs.source.new_full((len(inputs.source), 1), task.vocabulary.bos)
        memory = None
        for _ in range(batch.target.shape[1]):
            source_positions, prefix_positions = task.positions(model.encoding.position_kind, inputs.source, prefix)
            now = model.placed(Inputs(inputs.source, source_positions, inputs.source_visible, prefix, prefix_positions))
            memory = model.begin(now) if memory is None else memory
            token = model.decode(memory, now)[:, -1].argmax(-1)
            prefix = torch.cat([prefix, token[:, None]], dim=1)
        right += task.correct(prefix[:, 1:], batch.target).sum()
    return int(right) / len(examples)


@torch.inference_mode()
def by_one_pass(trained: Trained, examples: Examples, size: int) -> float:
    right = torch.zeros((), dtype=torch.long, device=trained.device)
    for batch in batches(trained, examples, size):
        right += trained.task.correct(trained.model(batch.inputs).argmax(-1), batch.target).sum()
    return int(right) / len(examples)


def check_equal(name: str, ours: list[float], theirs: list[float]) -> None:
    """Speed counts only when both sides find the same accuracies."""
    if ours != theirs:
        raise SystemExit(f"{name} finds other accuracies than the sweep: {theirs} and {ours}")


def best_batch(settings: Settings, work: Callable[[int], object], most: int) -> int:
    """The peer's own best batch size up to some number of examples."""
    return fastest([size for size in SIZES if size < most] + [most], work, settings.device)


def zero_sweep(settings: Settings) -> Iterator[Row]:
    """Every head alone, against a hook with decoding in the course's batches, and with one pass in the best ones."""
    trained = half_trained(settings)
    examples = trained.examples("test").take(slice(0, settings.pick(6, 500, 500)))
    plan = np.eye(len(heads_of(trained)), dtype=np.int64)
    size = best_batch(settings, lambda size: by_one_pass(trained, examples, size), len(examples))
    ours = partial(sweep, trained, examples, plan)
    ways = {
        f"hook and greedy decoding, batches of {COURSE_BATCH}": partial(
            plain, batch=COURSE_BATCH, accuracy=by_decoding
        ),
        f"hook and one teacher-forced pass, batches of {size} (its best)": partial(
            plain, batch=size, accuracy=by_one_pass
        ),
    }
    for name, way in ways.items():
        theirs = partial(way, trained, examples, plan)
        check_equal(name, ours(), theirs())
        what = f"zero ablation of {len(plan)} heads, {len(examples)} examples"
        yield measure_ratio(settings, "heads", what, name, ours, theirs, note="identical accuracies")


def subsets(settings: Settings) -> Iterator[Row]:
    """All sets of some heads against a plain loop over some of them."""
    trained = half_trained(settings)
    examples = trained.examples("test").take(slice(0, settings.pick(6, 250, 500)))
    count, sample = settings.pick((3, 8), (8, 16), (12, 32))
    plan = plan_without(len(heads_of(trained)), count)
    some = plan[:: len(plan) // sample]
    size = best_batch(settings, lambda size: by_one_pass(trained, examples, size), len(examples))
    ours = partial(sweep, trained, examples, plan)
    theirs = partial(plain, trained, examples, some, by_one_pass, size)
    name = f"hook and one teacher-forced pass, batches of {size} (its best)"
    check_equal(name, ours()[:: len(plan) // sample], theirs())
    yield measure_ratio(
        settings,
        "subsets",
        f"all {len(plan):,} sets of {count} heads, {len(examples)} examples",
        name,
        ours,
        theirs,
        note=f"the loop was given every {len(plan) // sample}th set, and its time multiplied; identical accuracies",
        rescale=len(plan) / len(some),
    )


def plan_without(n_heads: int, count: int) -> np.ndarray:
    """A plan that takes away every set of `count` heads, which are spread over all sites."""
    chosen = np.linspace(0, n_heads - 1, count).round().astype(np.int64)
    plan = np.zeros((2**count, n_heads), dtype=np.int64)
    plan[:, chosen] = all_subsets(count)
    return plan
