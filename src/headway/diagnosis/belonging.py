"""Checks that what lies in a run directory is this run's: weights, seed, steps and analyses."""

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
"""Seeds that are tried where the initial weights are not those of the run's own."""
SAME_WEIGHTS = 1e-6
"""Initial weights are the same numbers on every device; this leaves room for their size alone."""
GREW_OUT = 0.1
"""Correlation of weights with their initial values: 0.55 or more in the runs that were measured, the longest of 4,000
steps; 0.00 with those of another seed."""
ELSEWHERE = 0.15
"""Points (of 1) that accuracy may differ between test and validation beyond chance, as they may be drawn otherwise."""


def another_seed(seen: Examination) -> Verdict | None:
    """The weights of step 0 are those of the run's seed, and its provenance names that seed."""
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
        return fine(f"The weights of step 0 are those that seed {subject.seed} gives.", seed=subject.seed)
    others = (seed for seed in OTHER_SEEDS if seed != subject.seed)
    other = next((seed for seed in others if _same(subject.initial, subject.initialised(seed))), None)
    if other is None:
        return warning(
            f"The weights of step 0 are not those that seed {subject.seed} gives today.",
            "If an earlier version trained this run, all is well; else find out where they come from.",
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
    """A checkpoint's own record names the step of its folder."""
    step, recorded = seen.subject.step, seen.subject.recorded_step
    if step is None or recorded is None:
        return None
    if step == recorded:
        return fine(f"The checkpoint says itself that it is of step {step:,}.", step=step)
    return error(
        f"The checkpoint under the name of step {step:,} says itself that it is of step {recorded:,}.",
        "Put each checkpoint back under its own step.",
        step=step,
        recorded=recorded,
    )


def weights_of_another_run(seen: Examination) -> Verdict | None:
    """The weights still correlate with the initial weights they were trained from."""
    now, before = seen.subject.weights, seen.subject.initial
    if now is None or before is None or not seen.subject.step:
        return None
    pairs = [(now[name].float(), before[name].float().cpu()) for name in now if name in before]
    pairs = [(one, other) for one, other in pairs if one.ndim > 1 and one.shape == other.shape and other.std() > 0]
    if sum(one.numel() for one, _ in pairs) < 1_000:
        return None
    # Each tensor in units of its own size: one large table must not speak for all.
    one, other = (
        torch.cat([(table / table.std().clamp(min=1e-9)).flatten() for table in side])
        for side in zip(*pairs, strict=True)
    )
    alike = float(np.corrcoef(one.numpy(), other.numpy())[0, 1])
    numbers = {"correlation": alike, "numbers": len(one)}
    if alike > GREW_OUT:
        return fine(
            f"{len(one):,} weights correlate with those of step 0 by {alike:.2f}: they grew out of them.", **numbers
        )
    return error(
        f"{len(one):,} weights correlate with those of step 0 by {alike:.2f} only: they did not grow out of them.",
        "The checkpoint is another run's; find the one that belongs here.",
        **numbers,
    )


def analysis_of_another_run(seen: Examination) -> Verdict | None:
    """heads.json, lengths.json and attack.json belong to this run and to a step that it validated."""
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
            "Run the command again on this run, in place of the file.",
            wrong=wrong,
        )
    if heads is not None and best not in (None, heads.step):
        return warning(
            f"heads.json is of step {heads.step:,}; validation's best is step {best:,}.",
            "Say which step is meant, or run headway heads again.",
            step=heads.step,
            best=best,
        )
    return fine(f"{' and '.join(files)} speak of this run.", files=[name.removesuffix(".json") for name in files])


def _foreign_heads(seen: Examination, heads: HeadAnalysis) -> Iterator[str]:
    """Why heads.json is not this run's, or not one that this version can read."""
    if heads.form != HEADS_FORM:
        yield f"heads.json has form {heads.form!r}, and this version reads {HEADS_FORM}"
        return
    if heads.n < 1:
        yield f"heads.json has n = {heads.n} examples"
    yield from _foreign(seen, "heads", heads.seed, heads.task, heads.step)
    yield from _other_heads(seen, heads)
    yield from _other_baseline(heads, _validated(seen).get(heads.step))


def _foreign_lengths(seen: Examination, found: Lengths) -> Iterator[str]:
    """Why lengths.json is not this run's, or not of the checkpoint that counts."""
    step, best, validated = found.checkpoint.step, seen.subject.best, _validated(seen)
    yield from _foreign(seen, "lengths", found.seed, found.task, step)
    known = not validated or step in validated
    if known and found.checkpoint.chosen_on == ON_VALIDATION and best not in (None, step):
        yield f"lengths.json is of step {step:,}, and validation chose step {best:,}"


def _foreign(seen: Examination, name: str, seed: int | None, task: str | None, step: int | None) -> Iterator[str]:
    """What an analysis says of itself that this run is not."""
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
        yield f"heads.json and the model have other heads ({', '.join(strange[:3])})"


def _other_baseline(heads: HeadAnalysis, validated: float | None) -> Iterator[str]:
    """Accuracy before any ablation against validation's at the same step, on the same kind of examples."""
    if heads.n < 1 or validated is None or heads.split not in ("test", "validation"):
        return
    room = ELSEWHERE + 5 * (0.25 / heads.n) ** 0.5
    if abs(heads.baseline.accuracy - validated) > room:
        share = heads.baseline.accuracy
        yield f"heads.json begins with {percent(share)} right, and validation at its step had {percent(validated)}"


BELONGING = (
    Check("another-seed", "harness", another_seed),
    Check("another-step", "harness", another_step, ("another-seed",)),
    Check("weights-of-another-run", "harness", weights_of_another_run, ("another-seed", "another-step", "not-finite")),
    Check("analysis-of-another-run", "claims", analysis_of_another_run, ("another-seed",)),
)
