"""What a head brings, by putting its output from one example into another.

A task names contrasts: pairs of examples that differ in one thing, such as whether a carry arrives in a column.
The output of a head on the one (the donor) goes into the pass over the other (the base). If the answer token in
question turns into the donor's, the head brought what made the difference. Only pairs count that the model gets
right on both sides, and whose answers differ there.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.evaluation import Trained
from headway.heads.ablation import as_row
from headway.heads.variants import Report, donor, heads_of, run_variants, zero
from headway.model.sites import Head
from headway.randomness import generator
from headway.statistics import wilson_interval
from headway.tasks.base import Contrast

Groups = dict[str, list[Head]]


def groups_of(trained: Trained) -> Groups:
    """Each head alone, then the heads of each site and of each kind together."""
    heads = heads_of(trained)
    groups: Groups = {str(head): [head] for head in heads}
    sites = [site for site in trained.model.sites if site.heads]
    groups |= {site.name: site.heads for site in sites}
    for kind in dict.fromkeys(site.kind for site in sites):
        groups[f"all {kind}"] = [head for site in sites if site.kind == kind for head in site.heads]
    return groups


def intervene_on_contrasts(
    trained: Trained, n: int, groups: Groups | None = None, report: Report = lambda done, total: None
) -> dict[str, Any]:
    """How often each group of heads carries the difference over, for every contrast of the task."""
    contrasts = trained.task.contrasts(generator(trained.config.data.seed, "contrasts"), n)
    found = []
    for index, contrast in enumerate(contrasts):
        found.append(carry_over(trained, contrast, groups or groups_of(trained)))
        report(index + 1, len(contrasts))
    return {"n": n, "contrasts": found}


def carry_over(trained: Trained, contrast: Contrast, groups: Groups) -> dict[str, Any]:
    """How often the answer token turns into the donor's when a group's outputs are the donor's."""
    heads = heads_of(trained)
    plan = np.stack([np.zeros(len(heads), dtype=np.int64), *(as_row(heads, chosen) for chosen in groups.values())])
    filling = donor(trained, contrast.donor)
    outcomes = run_variants(trained, contrast.base, plan, [filling], keep_predicted=True)
    own = run_variants(trained, contrast.donor, plan[:1], [zero])
    assert outcomes.predicted is not None
    here, wanted = (one.target.reshape(len(one), -1)[:, contrast.token] for one in (contrast.base, contrast.donor))
    usable = outcomes.right[0] & own.right[0] & (here != wanted)
    flipped = (outcomes.predicted[1:, :, contrast.token] == wanted) & usable
    return {
        "name": contrast.name,
        "about": contrast.about,
        "token": trained.task.answer_names(outcomes.counted.shape[1])[contrast.token],
        "n": len(usable),
        "usable": int(usable.sum()),
        "rows": [_row(who, groups[who], flips, usable) for who, flips in zip(groups, flipped, strict=True)],
    }


def _row(who: str, heads: Sequence[Head], flipped: np.ndarray, usable: np.ndarray) -> dict[str, Any]:
    """`rate_each_way`: where the donor has what the contrast is about (rows 0, 2, ...), and where the base has it.

    A head that another backs up can take a carry away without being able to bring one.
    """
    flips, n = int(flipped.sum()), int(usable.sum())
    ways = [(int(flipped[way::2].sum()), int(usable[way::2].sum())) for way in (0, 1)]
    return {
        "who": who,
        "heads": [str(head) for head in heads],
        "flips": flips,
        "rate": flips / n if n else 0.0,
        "interval": wilson_interval(flips, n),
        "rate_each_way": [count / of if of else 0.0 for count, of in ways],
    }
