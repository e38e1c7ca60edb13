"""`headway attack` and `hw.attack`: a search for failing inputs of one run, within a budget."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from headway.attacks.scoring import NO_MARGIN, ask, margins
from headway.attacks.search import Budget, Failure, Search
from headway.attacks.shrinking import shrink, simplicity
from headway.errors import InputError, RunStopped
from headway.evaluation import Trained, load
from headway.length_analysis.sets import plan_lengths
from headway.results.attack import Attack, FailingInput, FamilyRow, MarginFall
from headway.results.lengths import Lengths
from headway.tasks.examples import LengthPlan
from headway.tasks.links import explorer_link

SECONDS = 120.0
MOST_SECONDS = 1_000_000
OF_A_LENGTH = 3
"""Failing inputs of each length that are confirmed and simplified, from different families where possible."""
ASKED = 20
"""Failing inputs of each length that are asked alone, at most: more than `OF_A_LENGTH` if some are right then."""
SHOWN = 10
"""Failing inputs in the result: the shortest of all lengths."""

OnSearch = Callable[[float, float, str], None]
"""Called with the elapsed seconds, the budget in seconds, and the current state in words."""


def attack(
    run: Trained | str | Path,
    *,
    at: Sequence[int] | None = None,
    seconds: float = SECONDS,
    tries: int | None = None,
    seed: int = 0,
    report: OnSearch = lambda passed, seconds, note: None,
) -> Attack:
    """Search for inputs that a run gets wrong, for `seconds` seconds; writes nothing.

    `at` are the lengths to attack; the default is the trained lengths and the lengths that the run's lengths.json lists
    as held. The same seed and number of `tries` give the same result. Ctrl-C ends the search and returns what was
    found.

    >>> hw.attack("sortedness-seed0", at=[16, 64], seconds=30).counterexamples   # doctest: +SKIP
    """
    _check(seconds, tries, seed)
    trained = run if isinstance(run, Trained) else load(run)
    plan = _plan(trained)
    lengths = chosen_lengths(trained, plan, at)
    budget = Budget(seconds, math.inf if tries is None else tries)
    search = Search(trained, lengths, seed, budget, lambda passed, search: report(passed, seconds, note(search)))
    try:
        search.run()
    except KeyboardInterrupt:
        search.ended = "interrupted"
    _stop_unless_finite(trained, search)
    found, unconfirmed = confirmed(trained, search, plan, lambda: budget.elapsed >= seconds)
    return Attack(
        task=trained.task.name,
        run=str(trained.directory.path),
        seed=trained.config.seed,
        step=trained.step,
        unit=plan.unit if plan else None,
        lengths=tuple(length for length in lengths if length is not None),
        attack_seed=seed,
        seconds=seconds,
        most_tries=tries,
        took=round(budget.elapsed, 3),
        ended=search.ended,
        tried=search.tried,
        found=len(search.failures),
        unconfirmed=unconfirmed,
        smallest_margin=search.smallest if search.falls else None,
        counterexamples=found,
        families=family_rows(search),
        trace=tuple(MarginFall(**vars(fall)) for fall in search.falls),
    )


def _stop_unless_finite(trained: Trained, search: Search) -> None:
    """Raise if an input has logits that are not finite: its margin is no number."""
    if any(island.smallest <= NO_MARGIN for island in search.islands):
        raise RunStopped(
            f"the logits of {trained.directory.path} are not finite, so its answers are meaningless; headway doctor "
            "says where"
        )


def _check(seconds: float, tries: int | None, seed: int) -> None:
    if not 0 < seconds <= MOST_SECONDS:
        raise InputError(f"--seconds {seconds:g}; above 0, at most {MOST_SECONDS:,}")
    if tries is not None and tries < 1:
        raise InputError(f"--tries {tries}; at least 1 needed")
    if seed < 0:
        raise InputError(f"--seed {seed}; at least 0 needed")


def note(search: Search) -> str:
    """The state of a search: inputs tried, failures, smallest margin."""
    return f"{search.tried:,} tried, {len(search.failures):,} fail, smallest margin {search.smallest:.2f}"


# Which lengths


def _plan(trained: Trained) -> LengthPlan | None:
    """The lengths of a run; None if its task has a single length."""
    try:
        return plan_lengths(trained)
    except InputError:
        return None


def chosen_lengths(trained: Trained, plan: LengthPlan | None, at: Sequence[int] | None) -> list[int | None]:
    """The requested lengths; by default the trained lengths and the longer ones that lengths.json lists as held."""
    if at is not None:
        for length in at:
            trained.task.at_length(length)
        if plan is not None:
            plan_lengths(trained, at)
        return [*sorted(set(at))]
    if plan is None:
        return [None]
    return [*plan.trained, *(length for length in held_lengths(trained) if length > plan.longest)]


def held_lengths(trained: Trained) -> list[int]:
    """The tested lengths up to the length held; empty without a lengths.json for this checkpoint."""
    try:
        found = trained.directory.read_result(Lengths, "lengths", trained.step)
    except InputError:
        return []
    return [] if found is None else sorted(found.held_lengths)


# What was found


@dataclass(frozen=True)
class Kept:
    """A failing input and its simplified form."""

    failure: Failure
    row: Int[np.ndarray, " width"]
    found_as: str | None


def confirmed(
    trained: Trained, search: Search, plan: LengthPlan | None, stop: Callable[[], bool]
) -> tuple[tuple[FailingInput, ...], int]:
    """Failing inputs of each length, confirmed alone and simplified; and the number that could not be confirmed."""
    kept: dict[str, FailingInput] = {}
    refuted, held = 0, Counter[int | None]()
    for failure in _some_of_each_length(search.failures, trained.task.vocabulary.pad):
        if held[failure.length] == OF_A_LENGTH:
            continue
        row = failure.source[failure.source != trained.task.vocabulary.pad]
        if ask(trained, row).right:
            refuted += 1
            continue
        held[failure.length] += 1
        simple = row if stop() or search.ended == "interrupted" else _simplified(trained, failure, row, plan, stop)
        found = _failing_input(trained, failure, row, simple)
        kept.setdefault(found.input, found)
    ordered = sorted(kept.values(), key=lambda one: (one.size, one.input))
    return tuple(ordered[:SHOWN]), refuted


def _some_of_each_length(failures: Sequence[Failure], pad: int) -> list[Failure]:
    """Up to `ASKED` failures of each length: the simplest of `OF_A_LENGTH` families, then those of smallest margin.

    The simplest ones may all be ties that only a batch breaks; the smallest margin is the last one to be a tie.
    """
    ordered = sorted(failures, key=lambda one: simplicity(one.source[one.source != pad]))
    taken: list[Failure] = []
    for length in dict.fromkeys(one.length for one in failures):
        own = [one for one in ordered if one.length == length]
        firsts = [next(one for one in own if one.family == name) for name in dict.fromkeys(one.family for one in own)]
        rest = [one for one in own if all(one is not first for first in firsts)]
        simplest, others = [*firsts, *rest][:OF_A_LENGTH], [*firsts, *rest][OF_A_LENGTH:]
        taken += [*simplest, *sorted(others, key=lambda one: one.margin)][:ASKED]
    return taken


def _simplified(
    trained: Trained, failure: Failure, row: np.ndarray, plan: LengthPlan | None, stop: Callable[[], bool]
) -> np.ndarray:
    """The simplified input; the original if the model answers the simplified one correctly when it is asked alone."""
    task = trained.task if failure.length is None else trained.task.at_length(failure.length)
    shortest, feature = (plan.shortest, plan.feature) if plan else (0, None)
    found = shrink(trained, task, row, min(shortest, failure.length or shortest), feature, stop)
    return row if ask(trained, found).right else found


def _failing_input(trained: Trained, failure: Failure, row: np.ndarray, simple: np.ndarray) -> FailingInput:
    task = trained.task
    said = ask(trained, simple)
    return FailingInput(
        input=said.shown,
        expected=said.expected,
        answered=said.answered,
        size=len(simple),
        margin=float(margins(trained, simple[None])[0]),
        length=failure.length,
        family=failure.family,
        climbed=failure.climbed,
        tried=failure.after,
        found_as=None if np.array_equal(row, simple) else task.show(row),
        record=task.to_record(simple, task.answer(simple[None])[0]),
        link=explorer_link(task, simple),
    )


def family_rows(search: Search) -> tuple[FamilyRow, ...]:
    return tuple(
        FamilyRow(
            length=island.length,
            family=island.name,
            about=island.family.about,
            drawn=island.drawn,
            whole=island.exhausted,
            climbed=island.climbed,
            found=island.found,
            smallest_margin=island.smallest if math.isfinite(island.smallest) else None,
        )
        for island in search.islands
    )
