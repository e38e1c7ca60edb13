"""What both checks ask of a certificate before its margin: its subject, and its number of contexts."""

from collections.abc import Iterator

from headway.results.proof import Proof


def other_subject(proof: Proof, task: str, scope: str) -> Iterator[str]:
    """The reasons why a certificate is not a proof about this scope."""
    if proof.task != task:
        yield f"it is about task {proof.task!r}, not {task!r}"
    if proof.scope != scope:
        yield f"it claims {proof.scope!r}; this method proves {scope!r}"
    if proof.open_contexts or proof.counterexamples:
        yield "it lists open contexts or counterexamples"


def other_count(proof: Proof, contexts: int) -> Iterator[str]:
    """The reason why a certificate does not count the contexts that the check found."""
    kinds = proof.contexts_by_kind.values()
    if proof.contexts != contexts or sum(kinds) != contexts or min(kinds) < 0:
        yield f"it counts {proof.contexts:,} contexts, by kind {sum(kinds):,}; there are {contexts:,}"
