"""Summaries of a study's heads and health, from the runs' documents alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from headway.diagnosis.claims import over_seeds
from headway.head_analysis.seeds import VERDICTS, summarise_seeds
from headway.results.doctor import Diagnosis, RunHealth, StudyHealth
from headway.results.heads import HeadAnalysis
from headway.results.heads_study import HeadsStudy, MovedCarry, Mover, Removed, RunHeads
from headway.results.patching import Contrast

FORM = 1
MOVERS = 2
"""Heads that are named for each contrast."""
CARRY = "carry"


# Heads


def heads_record(cells: Sequence[Sequence[HeadAnalysis]]) -> HeadsStudy:
    """The head analyses by cell: every run in short, and for a single cell a summary over its seeds."""
    there = [cell for cell in cells if cell]
    several = len(there) == 1 and len(there[0]) > 1
    runs = tuple(heads_in_short(one) for cell in there for one in cell)
    return HeadsStudy(runs=runs, together=summarise_seeds(there[0]) if several else None)


def heads_in_short(found: HeadAnalysis) -> RunHeads:
    """The number of heads of each verdict, how many can be removed together, and which heads move the carry."""
    first, counts = found.joint.removable[0], Counter(found.verdicts.values())
    return RunHeads(
        run=PurePath(found.run).name,
        n=found.n,
        accuracy=found.baseline.accuracy,
        heads=len(found.heads),
        verdicts={verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        removable=Removed(
            limit=first.limit,
            n=found.joint.elimination.n_reported_on,
            heads=first.heads,
            drop=first.drop,
            drop_interval=first.drop_interval,
            alone=len(first.alone_under_limit.heads),
            alone_drop=first.alone_under_limit.drop,
        ),
        sufficient=found.joint.sufficient.heads,
        carry=tuple(moved_by(one) for one in found.interventions.contrasts if one.about == CARRY and one.usable),
        real_disagreements=found.checks.real_disagreements,
        failed_checks=tuple(found.doubts()),
    )


def moved_by(contrast: Contrast) -> MovedCarry:
    """The single heads whose patching from a sum with the other carry most often flips the answer.

    Each is the strongest of its kind of attention, chosen on one half of the pairs; its rate is that on the other half.
    Without such halves (few pairs, or a document of an earlier version) they are the best of all heads on all pairs.
    """
    ranked = contrast.ranked()[:MOVERS]
    if not ranked:
        best = contrast.best_single(MOVERS)
        movers = tuple(Mover(head=row.who, rate=row.rate, interval=row.interval) for row in best)
        return MovedCarry(name=contrast.name, n=contrast.usable, heads=movers)
    return MovedCarry(
        name=contrast.name,
        n=ranked[0].n,
        chosen_on_n=ranked[0].chosen_on_n,
        heads=tuple(Mover(head=one.head, rate=one.rate, interval=one.interval, control=one.control) for one in ranked),
    )


# The doctor


def doctor_record(cells: Mapping[str, Sequence[tuple[Diagnosis, HeadAnalysis | None]]]) -> StudyHealth:
    """The findings of every run that are not fine, and the claims over the seeds of each cell.

    A cell's runs are pairs: the diagnosis, and the head analysis if there is one.
    """
    together = []
    for name, pairs in cells.items():
        for one in over_seeds([heads for _, heads in pairs], len(pairs)) if pairs else ():
            together.append(replace(one, evidence=f"{name}: {one.evidence}") if len(cells) > 1 else one)
    runs = tuple(RunHealth.of(found) for pairs in cells.values() for found, _ in pairs)
    return StudyHealth(runs=runs, together=tuple(together))


def is_unsound(health: StudyHealth, *, comparing: bool) -> bool:
    """Whether the doctor found an error that invalidates the study.

    In a study of a single setting, a fault of the model is such an error. In a comparison, a setting whose model gives
    a constant answer is a result; faults of data, harness or instruments are always errors.
    """
    return any(not comparing or one.about != "model" for _, one in health.at("error"))
