"""Causal test of attention at a failing length: selected heads are made to attend as at the training length.

    reach      the head sees no further than it could at the training length: 15 tokens in each direction for
               length 16. At the training length this changes nothing.
    profile    every query attends to each offset d with the head's mean weight at that offset. Attention no longer
               depends on the content, so this may cost accuracy at the training length too; that is measured as a
               control.

If accuracy rises, the attention of those heads may be the cause of the failure. Two more conditions are needed for
"why": the repaired accuracy equals that of the training length, and a sham repair does not reach it. A sham repair
disturbs the same heads as much, without restoring their attention:

    reach      equally many keys are hidden from every query, drawn at random instead of the furthest; the nearest
               stay visible
    profile    the same mean weights at other offsets

If accuracy does not rise, the model may fail for other reasons, or the repair may be the wrong one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headway.batches import make_batch
from headway.evaluation import Trained, parts_of
from headway.head_analysis.partial_forward import PartialForward, State
from headway.length_analysis.behaviour import captured_at, recorded
from headway.length_analysis.changes import ALPHA
from headway.model.attention import HeadOutputs, Place
from headway.model.noise import Noise
from headway.model.sites import Head, HeadSite
from headway.results.mechanism import (
    NOT_SHOWN,
    PART,
    WHY,
    Check,
    Claim,
    Counted,
    Equivalence,
    Repair,
    RepairKind,
    Rise,
    Sham,
)
from headway.statistics import newcombe_interval, paired_interval, wilson_interval
from headway.tasks import Examples

Profile = Float[Tensor, " offset"]
"""Attention by offset, from -(n - 1) to n - 1; it sums to 1."""
HELPS = 1.0
"""Points of accuracy that a repair must gain with confidence, and by which it must beat its sham."""
EQUIVALENT = 2.0
"""Points of accuracy within which a repaired model counts as equal to its accuracy at the training length."""
NEAREST = 4
"""The sham of `reach` keeps the keys within 1 / NEAREST of the reach, so that a head on neighbours keeps its key."""
SHAM_KEYS = (0x51A3, 0x7E4B)
"""Keys of the sham's counter-based random numbers; query and key position are the counters."""
MOST_REPAIRED = 6
"""Largest number of heads that are repaired one by one, in the order in which they changed."""
RepairedOutputs = Callable[[PartialForward, State, HeadSite], HeadOutputs]
"""The outputs of all heads of a site with their attention repaired."""


def repairs_for(trained: Trained, examples: Examples) -> dict[RepairKind, RepairedOutputs]:
    """Both repairs, fitted on examples of the training length."""
    return {name: repair for name, (repair, _) in repairs_and_shams(trained, examples).items()}


def repairs_and_shams(
    trained: Trained, examples: Examples
) -> dict[RepairKind, tuple[RepairedOutputs, RepairedOutputs]]:
    """Each repair and its sham, fitted on examples of the training length."""
    tokens = examples.source.shape[1] + (examples.target.shape[1] if trained.model.config.shape == "decoder" else 0)
    profiles = profiles_of(trained, examples)
    return {
        "reach": (partial(within_reach, tokens - 1), partial(at_random, tokens - 1)),
        "profile": (partial(by_offset, profiles), partial(by_offset, shifted(trained, profiles))),
    }


@torch.inference_mode()
def repaired(
    trained: Trained, examples: Examples, heads: Sequence[Head], repair: RepairedOutputs
) -> Bool[np.ndarray, " _"]:
    """Which examples are right with the given self-attention heads repaired."""
    found = []
    for part in parts_of(examples, trained):
        batch = make_batch(trained.task, trained.model, part, trained.device)
        forward = PartialForward(trained.model, batch.inputs)
        state = forward.start()
        for site in forward.sites:
            outputs = forward.head_outputs_at(state, site)
            chosen = torch.tensor([head in heads for head in site.heads], device=trained.device)
            if chosen.any():
                outputs = torch.where(chosen[:, None], repair(forward, state, site), outputs)
            state = forward.continue_from(state, site, outputs)
        found.append(trained.task.correct(forward.logits(state).argmax(-1), batch.target).cpu().numpy())
    return np.concatenate(found)


@dataclass(frozen=True)
class Nearby(Place):
    """Positions whose queries see at most `reach` tokens away."""

    reach: int = 0

    def near(self, queries: range) -> Bool[Tensor, "#batch 1 query key"]:
        device = self.key_positions.device
        query = torch.arange(queries.start, queries.stop, device=device)[:, None]
        inside = (query - torch.arange(self.key_positions.shape[1], device=device)).abs() <= self.reach
        before = super().near(queries)
        return inside[None, None] if before is None else before & inside


def within_reach(reach: int, forward: PartialForward, state: State, site: HeadSite) -> HeadOutputs:
    """Head outputs with attention limited to `reach` tokens."""
    view = forward.encoder_view if site.side == "encoder" else forward.own_view
    assert view is not None
    place = Nearby(**vars(view.place), reach=reach)
    return forward.block(site).self_attention_outputs(state.hidden, replace(view, place=place))


@dataclass(frozen=True)
class Scattered(Nearby):
    """Positions whose queries see as many keys as within `reach`: the nearest, and others drawn at random.

    The random keys depend on a hash of query and key position, the same for every head, layer and example.
    """

    causal: bool = False

    def near(self, queries: range) -> Bool[Tensor, "#batch 1 query key"]:
        device, n_keys = self.key_positions.device, self.key_positions.shape[1]
        query = torch.arange(queries.start, queries.stop, device=device)[:, None]
        key = torch.arange(n_keys, device=device)
        visible = (key <= query) if self.causal else torch.ones_like(key <= query)
        window = Place.near(self, queries)
        visible = visible[None, None] if window is None else visible & window
        distance = (query - key).abs()
        count = (visible & (distance <= self.reach)).sum(-1, keepdim=True)
        noise = Noise()
        noise.begin(torch.tensor([SHAM_KEYS], dtype=torch.int32))
        order = noise.uniform((queries.stop, n_keys), device)[queries.start :]
        order = order.masked_fill(distance <= self.reach // NEAREST, -1.0)
        order = torch.where(visible, order, 2.0)
        return visible & (order.argsort(-1).argsort(-1) < count)


def at_random(reach: int, forward: PartialForward, state: State, site: HeadSite) -> HeadOutputs:
    """Head outputs if every query sees as many keys as within `reach`, drawn at random."""
    view = forward.encoder_view if site.side == "encoder" else forward.own_view
    assert view is not None
    place = Scattered(**vars(view.place), reach=reach, causal=view.visibility.causal)
    return forward.block(site).self_attention_outputs(state.hidden, replace(view, place=place))


def shifted(trained: Trained, profiles: Mapping[Head, Profile]) -> dict[Head, Profile]:
    """The profiles rolled by half of their offsets; causal profiles stay causal."""
    causal = {site.name: trained.model.kinds[site.kind] for site in trained.model.sites}
    found = {}
    for head, profile in profiles.items():
        moved, there = profile.clone(), len(profile) // 2 + 1 if causal[head.site] else len(profile)
        moved[:there] = profile[:there].roll(there // 2)
        found[head] = moved
    return found


@torch.inference_mode()
def profiles_of(trained: Trained, examples: Examples) -> dict[Head, Profile]:
    """The mean attention by offset of every self-attention head, on examples of one length."""
    sums: dict[Head, Tensor] = {}
    for _, record in recorded(trained, examples):
        for site in trained.model.sites:
            if site.across:
                continue
            for head, band in zip(site.heads, _by_offset(record[site.name]), strict=True):
                before = sums.get(head, torch.zeros_like(band))
                longer = (len(band) - len(before)) // 2  # answers may differ by a token
                sums[head] = F.pad(before, (max(0, longer),) * 2) + F.pad(band, (max(0, -longer),) * 2)
    return {head: (total / total.sum()).float() for head, total in sums.items()}


def _by_offset(weights: Float[Tensor, "batch head query key"]) -> Float[Tensor, "head offset"]:
    """The mean weight at each offset, summed over the batch."""
    n = weights.shape[-1]
    means = [weights.diagonal(offset, dim1=-2, dim2=-1).double().mean(-1).sum(0) for offset in range(1 - n, n)]
    return torch.stack(means, dim=-1)


def by_offset(profiles: Mapping[Head, Profile], forward: PartialForward, state: State, site: HeadSite) -> HeadOutputs:
    """Head outputs if every query attends by the profile, renormalised over the existing keys."""
    block = forward.block(site)
    read = block.own_norm(state.hidden) if block.pre_norm else state.hidden
    values = block.own.split(block.own.value(read)).transpose(2, 3)  # batch head d_head key
    found = []
    for place, head in enumerate(site.heads):
        value, kernel = values[:, place], profiles[head].to(values)[None, None]
        mixed = F.conv1d(value.flatten(0, 1)[:, None], kernel, padding="same").view_as(value)
        there = F.conv1d(torch.ones_like(value[:1, :1]), kernel, padding="same")
        found.append(mixed / there.clamp(min=torch.finfo(value.dtype).tiny))
    return torch.stack(found, dim=1).permute(0, 3, 1, 2)


# Which repair helps


@dataclass(frozen=True)
class Judged:
    """Examples of one length, and which of them the unchanged model gets right."""

    examples: Examples
    right: Bool[np.ndarray, " example"]


def check_repairs(trained: Trained, failing: Judged, working: Judged, changed: Sequence[str], length: int) -> Check:
    """Both repairs on several groups of heads, at the failing length, and at the training length as a control.

    A repair that helps is compared with its sham and with the accuracy at the training length. Intervals have 95 %
    confidence for all repairs together (Bonferroni), because the best one is reported.
    """
    repairs = repairs_and_shams(trained, working.examples.take(slice(0, captured_at(working.examples.source.shape[1]))))
    groups = _to_repair(trained, changed)
    family = max(1, len(repairs) * len(groups))
    confidence = 1 - ALPHA / family

    def check(kind: RepairKind, who: str, heads: list[Head]) -> Repair:
        repair, sham = repairs[kind]
        after = repaired(trained, failing.examples, heads, repair)
        at = rise_row(failing.right, after, confidence)
        found = Repair(
            repair=kind,
            who=who,
            heads=tuple(map(str, heads)),
            at=at,
            control=rise_row(working.right, repaired(trained, working.examples, heads, repair), confidence),
            equivalence=equivalence_row(after, working.right, family),
        )
        if at.rise_interval[0] > HELPS:
            spoiled = repaired(trained, failing.examples, heads, sham)
            found = replace(found, sham=sham_row(failing.right, spoiled, after, confidence))
        return replace(found, claim=claim_of(found))

    return Check(
        length=length,
        looking_elsewhere=tuple(changed),
        confidence=confidence,
        helps=HELPS,
        equivalent_within=EQUIVALENT,
        repairs=tuple(check(kind, who, heads) for kind in repairs for who, heads in groups.items()),
    )


def equivalence_row(
    after: Bool[np.ndarray, " example"], reference: Bool[np.ndarray, " other"], family: int = 1
) -> Equivalence:
    """Whether the repaired accuracy equals that of the training length: two one-sided tests with both sampling errors.

    The difference is in points, repaired less reference. The confidence of its interval is chosen so that "inside the
    margin" is a test at 5 % over the whole family.
    """
    counts = int(after.sum()), len(after), int(reference.sum()), len(reference)
    low, high = (100 * end for end in newcombe_interval(*counts, confidence=1 - 2 * ALPHA / family))
    return Equivalence(
        difference=100 * (float(after.mean()) - float(reference.mean())),
        interval=(low, high),
        n=(len(after), len(reference)),
        equivalent=low > -EQUIVALENT and high < EQUIVALENT,
    )


def sham_row(
    before: Bool[np.ndarray, " example"],
    spoiled: Bool[np.ndarray, " example"],
    after: Bool[np.ndarray, " example"],
    confidence: float,
) -> Sham:
    """The accuracy with the sham, and by how many points the repair is better on the same examples (`repair_above`)."""
    above = rise_row(spoiled, after, confidence)
    own = vars(rise_row(before, spoiled, confidence))
    return Sham(**own, repair_above=above.rise, repair_above_interval=above.rise_interval)


def claim_of(row: Repair) -> Claim:
    """The claim that a repair supports: why the model fails, a part of why, or neither.

    `a part of why`: it gains more than a point, and more than a point over its sham, with confidence. `why`: in
    addition, the accuracy is equivalent to that of the training length, and the sham alone does not gain a point with
    confidence.
    """
    sham, same = row.sham, row.equivalence
    if row.at.rise_interval[0] <= HELPS or sham is None or sham.repair_above_interval[0] <= HELPS:
        return NOT_SHOWN
    return WHY if same is not None and same.equivalent and sham.rise_interval[0] <= HELPS else PART


def _to_repair(trained: Trained, changed: Sequence[str]) -> dict[str, list[Head]]:
    """Named groups of self-attention heads: the changed heads one by one and together, each layer, and all."""
    sites = [site for site in trained.model.sites if not site.across and site.kept]
    known = {str(head): head for site in sites for head in site.heads}
    names = [name for name in changed if name in known]
    groups = {name: [known[name]] for name in names[:MOST_REPAIRED]}
    groups["the heads that look elsewhere"] = [known[name] for name in names]
    groups |= {f"all heads of {site.name}": site.heads for site in sites} | {"all heads": list(known.values())}
    once = {frozenset(heads): name for name, heads in reversed(groups.items()) if heads}
    return {name: heads for name, heads in groups.items() if once.get(frozenset(heads)) == name}


def rise_row(
    before: Bool[np.ndarray, " example"], after: Bool[np.ndarray, " example"], confidence: float = 0.95
) -> Rise:
    """Accuracy after, the rise in points over before, and the share of failures that became right.

    All on the same examples. The share of failures has Wilson's interval, and is None if nothing failed.
    """
    lost, gained = int((before & ~after).sum()), int((~before & after).sum())
    low, high = paired_interval(gained, lost, len(before), confidence)
    failures = int((~before).sum())
    return Rise(
        **vars(accuracy_row(after)),
        rise=100 * (gained - lost) / len(before),
        rise_interval=(100 * float(low), 100 * float(high)),
        failures=failures,
        failures_repaired=gained,
        share_repaired=gained / failures if failures else None,
        share_repaired_interval=wilson_interval(gained, failures, confidence) if failures else None,
    )


def accuracy_row(right: Bool[np.ndarray, " example"]) -> Counted:
    """Accuracy with Wilson's interval."""
    count, n = int(right.sum()), len(right)
    return Counted(n=n, wrong=n - count, accuracy=count / n, interval=wilson_interval(count, n))
