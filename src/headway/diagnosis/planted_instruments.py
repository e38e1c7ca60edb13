"""Specimens of the instruments: hooks, sweeps, maps and pruning that affect another head than they name, or none."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headway.diagnosis.faults import Healthy, analysed, specimen
from headway.diagnosis.subject import ByHead, Subject, subject_of
from headway.evaluation import Trained
from headway.results.checks import Checks
from headway.results.schema import blank
from headway.tasks import Examples


@specimen("hook-silent")
def silent_hook(healthy: Healthy) -> Subject:
    """The hook at one site is attached to a module that the forward pass does not call."""
    subject = subject_of(healthy.sums)
    fired = subject.fired
    assert fired is not None
    return replace(subject, fired=lambda examples: {**fired(examples), "decoder.0.cross": 0})


@specimen("weights-off-one")
def weights_after_dropout(healthy: Healthy) -> Subject:
    """Attention weights are read after dropout, so they do not sum to one."""
    subject = subject_of(healthy.sums)
    attention = subject.attention
    assert attention is not None

    def dropped(examples: Examples) -> dict[str, Tensor]:
        random = torch.Generator().manual_seed(0)
        return {
            site: weights * (torch.rand(weights.shape, generator=random) > 0.1) / 0.9
            for site, weights in attention(examples).items()
        }

    return replace(subject, attention=dropped)


@specimen("partial-forward-differs")
def ablation_by_default(healthy: Healthy) -> Subject:
    """The partial forward pass ablates a head even if all heads are to be kept."""
    subject = subject_of(healthy.sums)
    masked = subject.masked
    assert masked is not None
    return replace(subject, partial_forward=lambda examples: masked(examples)["enc0.self.h1"])


@specimen("pruned-differs")
def nothing_pruned(healthy: Healthy) -> Subject:
    """The pruned model still has all of its heads."""
    subject = subject_of(healthy.sums)
    forward, masked = subject.forward, subject.masked
    assert forward is not None and masked is not None
    return replace(subject, pruned=lambda examples: dict.fromkeys(masked(examples), forward(examples)))


def exchanged(trained: Trained, part: str, one: str, other: str) -> Subject:
    """The run with the results of two heads exchanged in one instrument."""
    subject = subject_of(trained)
    read: ByHead = getattr(subject, part)

    def wrong(examples: Examples) -> dict[str, Tensor]:
        tables = read(examples)
        return {**tables, one: tables[other], other: tables[one]}

    parts: dict[str, Any] = {part: wrong}
    return replace(subject, **parts)


@specimen("hook-misplaced")
def hook_on_another_layer(healthy: Healthy) -> Subject:
    """The hooks of two layers are exchanged, so that another head is ablated than the one requested."""
    return exchanged(healthy.deep, "hooked", "enc0.self.h1", "enc1.self.h1")


@specimen("sweep-misplaced")
def sweep_on_another_layer(healthy: Healthy) -> Subject:
    """The sweep reports each layer's drops under the other layer's name."""
    return exchanged(healthy.deep, "masked", "enc0.self.h0", "enc1.self.h0")


@specimen("sweep-misplaced")
def sweep_on_another_head(healthy: Healthy) -> Subject:
    """The sweep ablates the head next to the one that it names."""
    return exchanged(healthy.sums, "masked", "dec0.cross.h0", "dec0.cross.h1")


@specimen("map-misplaced")
def map_of_another_layer(healthy: Healthy) -> Subject:
    """The attention maps of two layers are exchanged."""
    return exchanged(healthy.deep, "attention", "enc0.self.h1", "enc1.self.h1")


@specimen("map-misplaced")
def map_of_another_head(healthy: Healthy) -> Subject:
    """The attention maps of two heads of one site are exchanged."""
    return exchanged(healthy.sums, "attention", "enc0.self.h0", "enc0.self.h1")


@specimen("pruned-differs")
def cut_beside(healthy: Healthy) -> Subject:
    """Pruning removes the head next to the one that it names."""
    return exchanged(healthy.sequences, "pruned", "enc0.self.h0", "enc0.self.h1")


@specimen("checks-failed")
def failed_instruments(healthy: Healthy) -> Subject:
    """heads.json was kept although 198 of its ablated answers disagree with greedy decoding."""
    subject = subject_of(healthy.sums)
    checks = blank(Checks, decoded=3_200, disagreements=198, real_disagreements=198, weights_off_one=1e-7)
    return replace(subject, heads=replace(analysed(healthy.sums), checks=checks))
