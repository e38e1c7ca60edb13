"""Activation patching: a head's output on one example (the base) is replaced by its output on another (the source).

A task defines contrasts: pairs of examples that differ in one property, such as a carry into a column. If the answer
token becomes the source's, the head carries that property; the share of such pairs is the interchange intervention
accuracy. Only pairs count that the model answers correctly on both sides, with different tokens there.

A patch that changes the token is not yet evidence for the carry: any source might change it. So a carry has a control:
a source that differs from the same base at the same position by another digit, with the same carry. With it the token
must not change. The token that differs between base and control source shows whether the same heads also carry digits.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.head_analysis.ablation import as_row
from headway.head_analysis.head_runs import heads_in
from headway.head_analysis.instrument import Cost, OneStep, Subject
from headway.head_analysis.variants import heads_of, patch_source, run_variants, zero
from headway.model.sites import Head, HeadSite
from headway.randomness import generator
from headway.results import patching as results
from headway.results.patching import ControlRow, Controls, Difference, Patched, Patching, Rate, Strongest
from headway.results.schema import Interval
from headway.statistics import paired_interval, wilson_interval
from headway.tasks.examples import Contrast, Control, Examples

Groups = dict[str, list[Head]]
Pairs = Bool[np.ndarray, " pair"]
MOVES = 0.05
"""A patch has an effect if the interval of its rate lies above this share, and none if the interval lies below it."""


def groups_of(every: Sequence[HeadSite]) -> Groups:
    """Each head alone, then the heads of each site and of each kind together."""
    groups: Groups = {str(head): [head] for head in heads_in(every)}
    sites = [site for site in every if site.heads]
    groups |= {site.name: site.heads for site in sites}
    for kind in dict.fromkeys(site.kind for site in sites):
        groups[f"all {kind}"] = [head for site in sites if site.kind == kind for head in site.heads]
    return groups


class ActivationPatching(OneStep[Patching]):
    """Activation patching: what heads carry from one example to another."""

    name, result = "interventions", Patching

    def costs(self) -> dict[str, Cost]:
        return {"interventions": Cost(225_000, lambda sites, _: len(groups_of(sites)) * 15, most=lambda n: 5 * n)}

    def make(self, subject: Subject, progress: OnProgress) -> Patching:
        return intervene_on_contrasts(subject.trained, subject.sizes["interventions"], progress=progress)


def intervene_on_contrasts(
    trained: Trained, n: int, groups: Groups | None = None, progress: OnProgress = lambda done, total: None
) -> Patching:
    """How often patching each group of heads flips the answer, for every contrast of the task."""
    contrasts = trained.task.contrasts(generator(trained.config.data.seed, "contrasts"), n)
    found = []
    for index, contrast in enumerate(contrasts):
        found.append(patching_flip_rates(trained, contrast, groups or groups_of(trained.model.sites)))
        progress(index + 1, len(contrasts))
    return Patching(n=n, contrasts=tuple(found))


def patching_flip_rates(trained: Trained, contrast: Contrast, groups: Groups) -> results.Contrast:
    """How often the answer token becomes the source's when the outputs of a group of heads are patched.

    With a control, also how often the token changes when the source has the same carry; and for each kind of attention
    the strongest head, chosen on one half of the pairs and measured on the other.
    """
    sources = [contrast.patch_source] + ([contrast.control.source] if contrast.control else [])
    patched, base_right = _patch(trained, contrast.base, sources, list(groups.values()))
    here, wanted = (_tokens(one, contrast.token) for one in (contrast.base, contrast.patch_source))
    usable = base_right & _right(trained, contrast.patch_source) & (here != wanted)
    flipped = (patched[0, :, :, contrast.token] == wanted) & usable
    names = trained.task.answer_names(patched.shape[-1])
    controlled = controls = None
    if contrast.control is not None:
        controlled = _Controlled.of(trained, contrast, contrast.control, patched[1], base_right)
        controls = controlled.controls(list(groups), flipped, usable, contrast.control, names)
    return results.Contrast(
        name=contrast.name,
        about=contrast.about,
        token=names[contrast.token],
        n=len(usable),
        usable=int(usable.sum()),
        rows=tuple(_row(who, groups[who], flips, usable) for who, flips in zip(groups, flipped, strict=True)),
        control=controls,
        strongest=_strongest(trained, groups, flipped, usable, controlled),
    )


def _patch(
    trained: Trained, base: Examples, sources: Sequence[Examples], groups: Sequence[Sequence[Head]]
) -> tuple[Int[np.ndarray, "source group pair answer"], Pairs]:
    """The model's answer to each base with each group patched from its source, and which bases it gets right
    unpatched.
    """
    heads = heads_of(trained)
    rows = np.stack([as_row(heads, chosen) for chosen in groups])
    plan = np.concatenate([np.zeros((1, len(heads)), dtype=np.int64), *(rows * (k + 1) for k in range(len(sources)))])
    outcomes = run_variants(trained, base, plan, [patch_source(trained, one) for one in sources], keep_predicted=True)
    assert outcomes.predicted is not None
    patched = outcomes.predicted[1:].reshape(len(sources), len(groups), *outcomes.predicted.shape[1:])
    return patched, outcomes.right[0]


def _right(trained: Trained, examples: Examples) -> Pairs:
    untouched = np.zeros((1, len(heads_of(trained))), dtype=np.int64)
    return run_variants(trained, examples, untouched, [zero]).right[0]


def _tokens(examples: Examples, token: int) -> Int[np.ndarray, " pair"]:
    return examples.target.reshape(len(examples), -1)[:, token]


def _row(who: str, heads: Sequence[Head], flipped: Pairs, usable: Pairs) -> Patched:
    """`rate_each_way`: first the rows in which the source has the feature (rows 0, 2, ...), then those in which the
    base has it.

    A head with a redundant partner may remove a carry without being able to cause one.
    """
    to, back = (rate(int(flipped[way::2].sum()), int(usable[way::2].sum())).rate for way in (0, 1))
    found = rate(int(flipped.sum()), int(usable.sum()))
    return Patched(who=who, heads=tuple(map(str, heads)), rate_each_way=(to, back), **vars(found))


def rate(count: int, n: int) -> Rate:
    return Rate(flips=count, rate=count / n if n else 0.0, interval=wilson_interval(count, n))


# Controls


class _Controlled:
    """The same groups patched from control sources: whether the token changes, and whether the digits are carried."""

    def __init__(self, usable: Pairs, changed: Bool[np.ndarray, "group pair"], brought: Bool[np.ndarray, "group pair"]):
        self.usable, self.changed, self.brought = usable, changed, brought

    @classmethod
    def of(
        cls,
        trained: Trained,
        contrast: Contrast,
        control: Control,
        patched: Int[np.ndarray, "group pair answer"],
        base_right: Pairs,
    ) -> "_Controlled":
        """Base and control source have the same token here, so `usable` only requires that both are answered
        correctly.
        """
        usable = base_right & _right(trained, control.source) & control.there
        changed = (patched[:, :, contrast.token] != _tokens(contrast.base, contrast.token)) & usable
        brought = (patched[:, :, control.token] == _tokens(control.source, control.token)) & usable
        return cls(usable, changed, brought)

    def controls(
        self,
        groups: Sequence[str],
        flipped: Bool[np.ndarray, "group pair"],
        usable: Pairs,
        control: Control,
        names: Sequence[str],
    ) -> Controls:
        """The control of every group."""
        rows = [self.row(index, flipped[index], usable) for index in range(len(groups))]
        return Controls(
            n=int(control.there.sum()),
            usable=int(self.usable.sum()),
            digits_token=names[control.token],
            rows=tuple(ControlRow(who=who, **vars(row)) for who, row in zip(groups, rows, strict=True)),
        )

    def row(self, group: int, flipped: Pairs, usable: Pairs, among: Pairs | None = None) -> results.Control:
        """The control of one group over all pairs, or over some; `difference` compares patch and control on the same
        bases.
        """
        inside = np.ones(len(usable), dtype=bool) if among is None else among
        n = int((self.usable & inside).sum())
        carried = rate(int((flipped & inside).sum()), int((usable & inside).sum()))
        changed, digits = (rate(int((flags[group] & inside).sum()), n) for flags in (self.changed, self.brought))
        return results.Control(
            changed=changed.flips,
            rate=changed.rate,
            interval=changed.interval,
            digits=digits,
            difference=self.difference(group, flipped, usable & self.usable & inside),
            reading=reading(carried.interval, changed.interval, digits.interval),
        )

    def difference(self, group: int, flipped: Pairs, both: Pairs) -> Difference:
        """The patch minus its control, on the pairs that are usable in both."""
        lost = int((flipped & ~self.changed[group] & both).sum())
        gained = int((~flipped & self.changed[group] & both).sum())
        n = int(both.sum())
        low, high = paired_interval(lost, gained, n)
        return Difference(n=n, value=(lost - gained) / max(1, n), interval=(float(low), float(high)))


def reading(carry: Interval, changed: Interval, digits: Interval) -> str:
    """What a group of heads is shown to carry, from three intervals: the carry, any change under the control, the
    digits.

    >>> reading((0.9, 1.0), (0.0, 0.02), (0.0, 0.02)), reading((0.9, 1.0), (0.0, 0.02), (0.8, 0.9))
    ('carry alone', 'carry and digits')
    >>> reading((0.5, 0.6), (0.2, 0.3), (0.5, 0.6)), reading((0.5, 0.6), (0.0, 0.3), (0.5, 0.6))
    ('unspecific', 'undecided')
    >>> reading((0.0, 0.02), (0.0, 0.02), (0.0, 0.02))
    'not moved'
    """
    if carry[1] < MOVES:
        return "not moved"
    if carry[0] > MOVES and changed[0] > MOVES:
        return "unspecific"
    if carry[0] > MOVES and changed[1] < MOVES and digits[1] < MOVES:
        return "carry alone"
    if carry[0] > MOVES and changed[1] < MOVES and digits[0] > MOVES:
        return "carry and digits"
    return "undecided"


# The strongest head, chosen on other pairs than it is reported on


def _strongest(
    trained: Trained,
    groups: Groups,
    flipped: Bool[np.ndarray, "group pair"],
    usable: Pairs,
    controlled: _Controlled | None,
) -> dict[str, Strongest]:
    """For each kind of attention, the head with the most flips on one half of the pairs, measured on the other half.

    On the pairs used for the choice, the rate of the best head would be biased upwards. Both halves have both
    directions.
    """
    kinds = {site.name: site.kind for site in trained.model.sites}
    single = [
        (index, heads[0]) for index, (who, heads) in enumerate(groups.items()) if [who] == [str(head) for head in heads]
    ]
    chooses = np.arange(len(usable)) // 2 % 2 == 0
    chosen_on, n = int((usable & chooses).sum()), int((usable & ~chooses).sum())
    found = {}
    for kind in dict.fromkeys(kinds[head.site] for _, head in single) if chosen_on and n else ():
        own = [(index, head) for index, head in single if kinds[head.site] == kind]
        index, head = max(own, key=lambda one: int((flipped[one[0]] & chooses).sum()))
        found[kind] = Strongest(
            head=str(head),
            n=n,
            chosen_on_n=chosen_on,
            chosen_on_rate=int((flipped[index] & chooses).sum()) / chosen_on,
            control=None if controlled is None else controlled.row(index, flipped[index], usable, ~chooses),
            **vars(rate(int((flipped[index] & ~chooses).sum()), n)),
        )
    return found
