"""What both checks ask of a certificate: its subject, its number of contexts, and numbers that fit together."""

from collections.abc import Iterator, Mapping

from headway.evaluation import Trained
from headway.results.proof import Proof, Rounding


def other_subject(proof: Proof, trained: Trained, scope: str) -> Iterator[str]:
    """The reasons why a certificate is not a proof about this scope."""
    if proof.task != trained.task.name:
        yield f"it is about task {proof.task!r}, not {trained.task.name!r}"
    if proof.seed != trained.config.seed:
        yield f"it is about seed {proof.seed}, not {trained.config.seed}"
    if proof.scope != scope:
        yield f"it claims {proof.scope!r}; this method proves {scope!r}"
    if proof.open_contexts or proof.counterexamples:
        yield "it lists open contexts or counterexamples"


def other_count(proof: Proof, found: Mapping[str, int]) -> Iterator[str]:
    """The reason why a certificate does not count the contexts that the check found, by kind."""
    contexts = sum(found.values())
    if proof.contexts != contexts:
        yield f"it counts {proof.contexts:,} contexts; there are {contexts:,}"
    for kind in {**found, **proof.contexts_by_kind}:
        if kind not in found:
            yield f"it counts contexts of the kind {kind!r}, which there is not"
            return
        claimed, real = (counts.get(kind, 0) for counts in (proof.contexts_by_kind, found))
        if claimed != real:
            yield f"it counts {claimed:,} contexts of the kind {kind!r}; there are {real:,}"
            return


def unfounded(proof: Proof) -> Iterator[str]:
    """The reasons why the margin of a certificate does not prove anything, by its own numbers."""
    if proof.margin is None or proof.rounding is None:
        yield "it names no margin, or no allowance for rounding"
        return
    if not proof.rounding.allowance < proof.margin:
        yield f"its margin of {proof.margin:.6g} is not above its rounding allowance of {proof.rounding.allowance:.6g}"
    if not 0 <= proof.rounding.measured <= proof.rounding.allowance:
        yield f"it measured a difference of {proof.rounding.measured:.6g}, which its rounding allowance excludes"


def differs(rounding: Rounding) -> str | None:
    """Why numbers that a proof computed are not those of the model; None if rounding can be the difference."""
    if rounding.measured <= rounding.allowance:
        return None
    return (
        f"The model's own margins are up to {rounding.measured:.3g} logits from those of the proof, and rounding makes "
        f"{rounding.allowance:.3g} at most."
    )
