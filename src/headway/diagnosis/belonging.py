"""Checks that the files of a run directory belong to this run: weights, seed, steps and analyses."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error, fine, warning
from headway.length_analysis.measure import ON_VALIDATION
from headway.narration.numbers import percent
from headway.results.heads import FORM as HEADS_FORM
from headway.results.heads import HeadAnalysis
from headway.results.lengths import Lengths

OTHER_SEEDS = range(32)
"""Seeds that are tried if the initial weights do not match the run's own seed."""
SAME_WEIGHTS = 1e-6
"""Tolerance for equal initial weights, which are the same numbers on every device."""
GREW_OUT = 0.1
"""Smallest correlation of weights with their initial values: measured runs of up to 4,000 steps have at least 0.55,
and 0.00 with the weights of another seed."""
ELSEWHERE = 0.15
"""Difference of test and validation accuracy that is allowed beyond chance, since they may be drawn differently."""


def another_seed(seen: Examination) -> Verdict | None:
    """The weights of step 0 are those that the run's seed gives, and its provenance names the same seed."""
    subject = seen.subject
    if subject.seed is None:
        return None
    if subject.provenance_seed not in (None, subject.seed):
        return error(
            f"config.json has seed {subject.seed}, provenance.json seed {subject.provenance_seed}: files of two runs.",
            "Find the run that each file belongs to; nothing measured here has one origin.",
            seed=subject.seed,
            provenance=subject.provenance_seed,
        )
    if subject.initial is None or subject.initialised is None:
        return None
    if _same(subject.initial, subject.initialised(subject.seed)):
        return fine(f"The weights of step 0 are those of seed {subject.seed}.", seed=subject.seed)
    others = (seed for seed in OTHER_SEEDS if seed != subject.seed)
    other = next((seed for seed in others if _same(subject.initial, subject.initialised(seed))), None)
    if other is None:
        return warning(
            f"The weights of step 0 are not those that this version gives for seed {subject.seed}.",
            "If an earlier version trained this run, ignore this; otherwise find out where the weights come from.",
            seed=subject.seed,
        )
    return error(
        f"The weights of step 0 are those of seed {other}; this run has seed {subject.seed}.",
        "Put the checkpoints back into the run that they belong to.",
        seed=subject.seed,
        weights_of=other,
    )


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return set(one) == set(other) and all(
        one[name].shape == other[name].shape and torch.allclose(one[name].cpu(), other[name], atol=SAME_WEIGHTS)
        for name in one
    )


def another_step(seen: Examination) -> Verdict | None:
    """The step recorded in a checkpoint is the step in its directory's name."""
    step, recorded = seen.subject.step, seen.subject.recorded_step
    if step is None or recorded is None:
        return None
    if step == recorded:
        return fine(f"The checkpoint's own record names step {step:,}.", step=step)
    return error(
        f"The checkpoint in the directory of step {step:,} records step {recorded:,}.",
        "Move each checkpoint to the directory of its own step.",
        step=step,
        recorded=recorded,
    )


def weights_of_another_run(seen: Examination) -> Verdict | None:
    """The weights correlate with the run's initial weights."""
    now, before = seen.subject.weights, seen.subject.initial
    if now is None or before is None or not seen.subject.step:
        return None
    pairs = [(now[name].float(), before[name].float().cpu()) for name in now if name in before]
    pairs = [(one, other) for one, other in pairs if one.ndim > 1 and one.shape == other.shape and other.std() > 0]
    if sum(one.numel() for one, _ in pairs) < 1_000:
        return None
    # Each tensor is scaled by its own size, so that one large table does not dominate.
    one, other = (
        torch.cat([(table / table.std().clamp(min=1e-9)).flatten() for table in side])
        for side in zip(*pairs, strict=True)
    )
    alike = float(np.corrcoef(one.numpy(), other.numpy())[0, 1])
    if not math.isfinite(alike):  # weights that are not finite have a check of their own
        return None
    numbers = {"correlation": alike, "numbers": len(one)}
    if alike > GREW_OUT:
        return fine(f"{len(one):,} weights have a correlation of {alike:.2f} with those of step 0.", **numbers)
    return error(
        f"{len(one):,} weights have a correlation of only {alike:.2f} with step 0: they were not trained from it.",
        "The checkpoint belongs to another run; find this run's own.",
        **numbers,
    )


def analysis_of_another_run(seen: Examination) -> Verdict | None:
    """heads.json, lengths.json and attack.json are about this run and a step that it validated."""
    heads, lengths, attack, best = seen.subject.heads, seen.subject.lengths, seen.subject.attack, seen.subject.best
    there = {"heads.json": heads, "lengths.json": lengths, "attack.json": attack}
    files = [name for name, found in there.items() if found is not None]
    wrong = list(seen.subject.of_others)
    if not files and not wrong:
        return None
    wrong += [] if heads is None else list(_foreign_heads(seen, heads))
    wrong += [] if lengths is None else list(_foreign_lengths(seen, lengths))
    wrong += [] if attack is None else list(_foreign(seen, "attack", attack.seed, attack.task, attack.step))
    if wrong:
        return error(
            f"{'; '.join(wrong)}.",
            "Run the command again on this run to replace the file.",
            wrong=wrong,
        )
    if heads is not None and best not in (None, heads.step):
        return warning(
            f"heads.json is of step {heads.step:,}; validation's best is step {best:,}.",
            "Name the step in your report, or run headway heads again.",
            step=heads.step,
            best=best,
        )
    return fine(f"{' and '.join(files)} are about this run.", files=[name.removesuffix(".json") for name in files])


def _foreign_heads(seen: Examination, heads: HeadAnalysis) -> Iterator[str]:
    """Reasons why heads.json is not about this run or cannot be read by this version."""
    if heads.form != HEADS_FORM:
        yield f"heads.json has form {heads.form!r}, and this version reads {HEADS_FORM}"
        return
    if heads.n < 1:
        yield f"heads.json has n = {heads.n} examples"
    yield from _foreign(seen, "heads", heads.seed, heads.task, heads.step)
    yield from _other_heads(seen, heads)
    yield from _other_baseline(heads, _validated(seen).get(heads.step))


def _foreign_lengths(seen: Examination, found: Lengths) -> Iterator[str]:
    """Reasons why lengths.json is not about this run or its chosen checkpoint."""
    step, best, validated = found.checkpoint.step, seen.subject.best, _validated(seen)
    yield from _foreign(seen, "lengths", found.seed, found.task, step)
    known = not validated or step in validated
    if known and found.checkpoint.chosen_on == ON_VALIDATION and best not in (None, step):
        yield f"lengths.json is of step {step:,}, and validation chose step {best:,}"


def _foreign(seen: Examination, name: str, seed: int | None, task: str | None, step: int | None) -> Iterator[str]:
    """The seed, task or step of an analysis that differs from this run's."""
    for key, said, own in (("seed", seed, seen.subject.seed), ("task", task, seen.subject.task.name)):
        if said is not None and own is not None and said != own:
            yield f"{name}.json is of {key} {said!r}, the run has {own!r}"
    validated = _validated(seen)
    if step is not None and validated and step not in validated:
        yield f"{name}.json is of step {step:,}, which this run never validated"


def _validated(seen: Examination) -> dict[int, float]:
    """Validation accuracy by step."""
    return {row["step"]: float(row["validation"]["accuracy"]) for row in seen.subject.metrics if "validation" in row}


def _other_heads(seen: Examination, heads: HeadAnalysis) -> Iterator[str]:
    own = {str(head) for site in seen.subject.sites for head in site.heads}
    strange = sorted({head.name for head in heads.heads} ^ own)
    if own and strange:
        yield f"heads.json and the model have different heads ({', '.join(strange[:3])})"


def _other_baseline(heads: HeadAnalysis, validated: float | None) -> Iterator[str]:
    """Compare the accuracy before ablation with the validation accuracy at the same step."""
    if heads.n < 1 or validated is None or heads.split not in ("test", "validation"):
        return
    room = ELSEWHERE + 5 * (0.25 / heads.n) ** 0.5
    if abs(heads.baseline.accuracy - validated) > room:
        share = heads.baseline.accuracy
        yield f"heads.json has a baseline accuracy of {percent(share)}; validation at its step had {percent(validated)}"


BELONGING = (
    Check("another-seed", "harness", another_seed),
    Check("another-step", "harness", another_step, ("another-seed",)),
    Check("weights-of-another-run", "harness", weights_of_another_run, ("another-seed", "another-step", "not-finite")),
    Check("analysis-of-another-run", "claims", analysis_of_another_run, ("another-seed",)),
)
