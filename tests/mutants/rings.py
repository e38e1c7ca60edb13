"""Which tests are asked when those that mirror a file notice nothing."""

from tests.mutants.catalogue import Mutant

WHOLE = ("tests",)


def ring_of(mutant: Mutant) -> tuple[str, ...]:
    return ()
