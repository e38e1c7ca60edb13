"""Evaluating a whole domain against plain greedy decoding of it."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from benchmarks.heads import batches, best_batch, by_decoding
from benchmarks.measuring import Row, Settings, measure_ratio
from benchmarks.subject import half_trained
from headway.evaluation import DECODED, SequenceEvaluation, Trained, decode, evaluate_examples
from headway.tasks import Examples


@torch.inference_mode()
def with_kept_keys(trained: Trained, examples: Examples, size: int) -> float:
    """Greedy decoding that keeps the keys and values of what was written."""
    right = 0
    for batch in batches(trained, examples, size):
        written = decode(trained.model, trained.task, batch)  # ends as soon as every answer has ended
        missing = max(0, batch.target.shape[1] - written.shape[1])
        written = F.pad(written, (0, missing), value=trained.task.vocabulary.pad)[:, : batch.target.shape[1]]
        right += int(trained.task.correct(written, batch.target).sum())
    return right / len(examples)


def whole_domain(settings: Settings) -> Iterator[Row]:
    """headway's evaluation, with its share of answers decoded greedily, against decoding all of them."""
    trained = half_trained(settings)
    everything = Examples.join(list(trained.task.domain()), trained.task.vocabulary.pad)
    total = len(everything)
    count = settings.pick(total // 40, total // 40, total)
    sums = everything.take(slice(0, total, total // count))
    decoded = min(DECODED, total // 40) * len(sums) // total

    def ours() -> float:
        found = evaluate_examples(trained, "all", iter([sums]), len(sums), decoded=decoded)
        assert isinstance(found, SequenceEvaluation)
        if found.real_disagreements:
            raise SystemExit(
                f"{found.real_disagreements} decoded answers are not what the teacher-forced pass predicted"
            )
        return found.accuracy

    ways = {"greedy decoding": by_decoding, "greedy decoding with a KV cache": with_kept_keys}
    few = sums.take(slice(0, settings.pick(20, 2_048, 65_536)))
    for name, way in ways.items():
        size = best_batch(settings, lambda size, way=way: way(trained, few, size), len(few))  # type: ignore[misc]
        theirs = way(trained, sums, size)
        # Rounding may decide a near-tie differently; more than that is a fault.
        if abs(ours() - theirs) > 1e-4:
            raise SystemExit(f"{name} finds another accuracy than evaluation: {theirs} and {ours()}")
        yield measure_ratio(
            settings,
            "domain",
            f"evaluation of {len(sums):,} of {total:,} sums, {decoded:,} of them decoded too",
            f"{name}, batches of {size} (its best)",
            ours,
            lambda way=way, size=size: way(trained, sums, size),  # type: ignore[misc]
        )
