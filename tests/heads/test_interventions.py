"""Outputs carried over from donors: flips against plain passes with hooks, one pair at a time."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.batches import make_batch
from headway.evaluation import Trained
from headway.heads.handles import intervene
from headway.heads.interventions import Groups, carry_over, groups_of, intervene_on_contrasts
from headway.heads.variants import heads_of
from headway.model.sites import Head
from headway.statistics import wilson_interval
from headway.tasks import Examples
from headway.tasks.base import Contrast
from tests.heads.small import ADDITION, SORTEDNESS, TEXT, half_trained, untrained


def answer_of(trained: Trained, example: Examples) -> tuple[Tensor, bool]:
    """The tokens (or the class) of a plain pass over one example, and whether they are right."""
    batch = make_batch(trained.task, trained.model, example, trained.device)
    with torch.inference_mode():
        answer = trained.model(batch.inputs).argmax(-1)
    return answer.reshape(-1), bool(trained.task.correct(answer, batch.target)[0])


def outputs_of(trained: Trained, example: Examples) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def edit(heads: Tensor) -> Tensor:
            found[name] = heads.clone()
            return heads

        return edit

    with intervene(trained.model, {site.name: keep(site.name) for site in trained.model.sites}):
        answer_of(trained, example)
    return found


def patched_answer(trained: Trained, base: Examples, brought: dict[str, Tensor], heads: list[Head]) -> Tensor:
    def replace(site: Any) -> Any:
        def edit(mine: Tensor) -> Tensor:
            mine = mine.clone()
            for place, head in enumerate(site.heads):
                if head in heads:
                    mine[:, :, place] = brought[site.name][:, :, place]
            return mine

        return edit

    sites = [site for site in trained.model.sites if any(head in heads for head in site.heads)]
    with intervene(trained.model, {site.name: replace(site) for site in sites}):
        return answer_of(trained, base)[0]


def count_flips(trained: Trained, contrast: Contrast, groups: Groups) -> tuple[list[int], dict[str, list[int]]]:
    """The rows of usable pairs, and for each group of those whose answer token becomes the donor's."""
    usable: list[int] = []
    flips: dict[str, list[int]] = {who: [] for who in groups}
    for row in range(len(contrast.base)):
        base, donor = contrast.base.take([row]), contrast.donor.take([row])
        if not (answer_of(trained, base)[1] and answer_of(trained, donor)[1]):
            continue
        usable.append(row)
        wanted, brought = int(donor.target.reshape(-1)[contrast.token]), outputs_of(trained, donor)
        for who, heads in groups.items():
            if int(patched_answer(trained, base, brought, heads)[contrast.token]) == wanted:
                flips[who].append(row)
    return usable, flips


def share(flipped: list[int], usable: list[int], way: int) -> float:
    """Of the usable rows 0, 2, 4, ... (or 1, 3, 5, ...), how many flipped."""
    some = [row for row in usable if row % 2 == way]
    return sum(row % 2 == way for row in flipped) / len(some) if some else 0.0


@pytest.mark.parametrize(("task", "which"), [("addition", [0, 4]), ("sortedness", [0])])
def test_flips_are_those_of_plain_passes_with_hooks(task: str, which: list[int]) -> None:
    trained = half_trained(task)
    groups = groups_of(trained)
    contrasts = trained.task.contrasts(np.random.default_rng(4), 16)
    rates = set()
    for contrast in (contrasts[index] for index in which):
        found = carry_over(trained, contrast, groups)
        usable, flips = count_flips(trained, contrast, groups)
        assert 0 < len(usable) < 16  # pairs of both sorts are there, and the wrong ones do not count
        assert (found["name"], found["about"]) == (contrast.name, contrast.about)
        assert (found["n"], found["usable"]) == (16, len(usable))
        assert {row["who"]: row["flips"] for row in found["rows"]} == {who: len(rows) for who, rows in flips.items()}
        for row in found["rows"]:
            assert row["heads"] == [str(head) for head in groups[row["who"]]]
            assert row["rate"] == row["flips"] / len(usable)
            assert row["interval"] == wilson_interval(row["flips"], len(usable))
            assert row["rate_each_way"] == [share(flips[row["who"]], usable, way) for way in (0, 1)]
            rates.add(row["rate"])
    assert len(rates) > 3


def test_the_token_of_a_contrast_is_named_as_in_the_answer() -> None:
    trained = untrained(ADDITION)
    found = intervene_on_contrasts(trained, 4, {"one": heads_of(trained)[:1]})
    assert [(row["name"], row["token"]) for row in found["contrasts"]] == [
        ("carry into column 1 from column 0", "column 1"),
        ("carry into column 2 from column 1", "column 2"),
        ("carry into column 2 from column 0", "column 2"),
        ("digits of column 0", "column 0"),
        ("digits of column 1", "column 1"),
    ]
    assert found["n"] == 4
    (only,) = intervene_on_contrasts(untrained(SORTEDNESS), 6)["contrasts"]
    assert (only["token"], only["about"], only["n"]) == ("class", "inversion", 6)


def test_all_heads_of_every_site_at_once_leave_nothing_of_the_base_but_its_own_tokens() -> None:
    trained = half_trained("addition")
    heads = heads_of(trained)
    contrasts = trained.task.contrasts(np.random.default_rng(7), 60)
    (carry,) = [one for one in contrasts if one.name == "carry into column 2 from column 1"]
    found = carry_over(trained, carry, {"all": heads, "none": []})
    everything, nothing = found["rows"]
    assert everything["heads"] == [str(head) for head in heads]
    assert len(heads) == 3 * 3
    # The answer starts with this token: in both passes the decoder has read BOS alone, so the donor decides.
    assert everything["flips"] == found["usable"] > 0
    assert everything["rate"] == 1
    assert (nothing["heads"], nothing["flips"], nothing["rate"]) == ([], 0, 0.0)


def test_a_donor_that_is_the_base_changes_nothing_and_flips_nothing() -> None:
    trained = half_trained("addition")
    contrast = trained.task.contrasts(np.random.default_rng(1), 30)[0]
    same = Contrast(contrast.name, contrast.about, contrast.token, contrast.base, contrast.base)
    found = carry_over(trained, same, groups_of(trained))
    # The answers do not differ, so there is nothing that could turn into the donor's.
    assert found["usable"] == 0
    assert all((row["flips"], row["rate"]) == (0, 0.0) for row in found["rows"])


def test_outputs_of_the_base_itself_under_the_donors_answer_flip_nothing() -> None:
    """The donor's source is the base's: its right answer is another, so the pair is wrong on one side."""
    trained = half_trained("addition")
    contrast = trained.task.contrasts(np.random.default_rng(1), 30)[3]
    donor = Examples(contrast.base.source, contrast.donor.target)
    found = carry_over(
        trained, Contrast(contrast.name, contrast.about, contrast.token, contrast.base, donor), groups_of(trained)
    )
    assert found["usable"] == 0
    assert all(row["flips"] == 0 for row in found["rows"])


@pytest.mark.parametrize("side", ["base", "donor"])
def test_a_pair_that_is_wrong_on_either_side_does_not_count(side: str) -> None:
    trained = half_trained("addition")
    contrast = trained.task.contrasts(np.random.default_rng(2), 30)[0]
    groups = {"all": heads_of(trained)}
    sides = {"base": contrast.base, "donor": contrast.donor}
    right = [all(answer_of(trained, one.take([row]))[1] for one in sides.values()) for row in range(30)]
    assert carry_over(trained, contrast, groups)["usable"] == sum(right)
    target = sides[side].target.copy()
    target[np.flatnonzero(right)[:3], -1] = 0  # an end that no model writes
    sides[side] = Examples(sides[side].source, target)
    found = carry_over(trained, Contrast("", "", contrast.token, **sides), groups)
    assert found["usable"] == sum(right) - 3


def test_groups_are_heads_then_sites_then_kinds() -> None:
    trained = untrained(ADDITION, model={"kept_heads": ["enc0.self.h1", "dec0.cross.h0", "dec1.cross.h2"]})
    groups = {who: [str(head) for head in heads] for who, heads in groups_of(trained).items()}
    assert groups == {
        "enc0.self.h1": ["enc0.self.h1"],
        "dec0.cross.h0": ["dec0.cross.h0"],
        "dec1.cross.h2": ["dec1.cross.h2"],
        "encoder.0.self": ["enc0.self.h1"],
        "decoder.0.cross": ["dec0.cross.h0"],
        "decoder.1.cross": ["dec1.cross.h2"],
        "all encoder": ["enc0.self.h1"],
        "all cross": ["dec0.cross.h0", "dec1.cross.h2"],
    }
    whole = groups_of(untrained(ADDITION))
    assert len(whole) == 15 + 5 + 3
    assert len(whole["all decoder"]) == len(whole["all cross"]) == 6


def test_a_decoder_only_model_is_patched_too() -> None:
    trained = untrained(TEXT)
    found = intervene_on_contrasts(trained, 6)
    assert len(found["contrasts"]) == 6
    for contrast in found["contrasts"]:
        assert [row["who"] for row in contrast["rows"]][-3:] == ["decoder.0.self", "decoder.1.self", "all decoder"]


def test_the_same_pairs_are_drawn_every_time() -> None:
    trained = half_trained("sortedness")
    told: list[tuple[int, int]] = []
    first = intervene_on_contrasts(trained, 20, report=lambda done, total: told.append((done, total)))
    assert intervene_on_contrasts(trained, 20) == first
    assert told == [(1, 1)]
