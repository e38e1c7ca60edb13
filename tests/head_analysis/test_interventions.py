"""Outputs carried over from patch_sources: flips against plain passes with hooks, one pair at a time."""

import doctest
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.batches import make_batch
from headway.evaluation import Trained
from headway.head_analysis import interventions
from headway.head_analysis.handles import intervene
from headway.head_analysis.interventions import Groups, groups_of, intervene_on_contrasts, patching_flip_rates, reading
from headway.head_analysis.variants import heads_of
from headway.model.sites import Head
from headway.statistics import paired_interval, wilson_interval
from headway.tasks import Examples
from headway.tasks.examples import Contrast
from tests.head_analysis.small import ADDITION, SORTEDNESS, TEXT, half_trained, untrained


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
    """The rows of usable pairs, and for each group of those whose answer token becomes the patch_source's."""
    usable: list[int] = []
    flips: dict[str, list[int]] = {who: [] for who in groups}
    for row in range(len(contrast.base)):
        base, patch_source = contrast.base.take([row]), contrast.patch_source.take([row])
        if not (answer_of(trained, base)[1] and answer_of(trained, patch_source)[1]):
            continue
        usable.append(row)
        wanted, brought = int(patch_source.target.reshape(-1)[contrast.token]), outputs_of(trained, patch_source)
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
    groups = groups_of(trained.model.sites)
    contrasts = trained.task.contrasts(np.random.default_rng(4), 16)
    rates = set()
    for contrast in (contrasts[index] for index in which):
        found = patching_flip_rates(trained, contrast, groups)
        usable, flips = count_flips(trained, contrast, groups)
        assert 0 < len(usable) < 16  # pairs of both sorts are there, and the wrong ones do not count
        assert (found.name, found.about) == (contrast.name, contrast.about)
        assert (found.n, found.usable) == (16, len(usable))
        assert {row.who: row.flips for row in found.rows} == {who: len(rows) for who, rows in flips.items()}
        for row in found.rows:
            assert row.heads == tuple(str(head) for head in groups[row.who])
            assert row.rate == row.flips / len(usable)
            assert row.interval == wilson_interval(row.flips, len(usable))
            assert row.rate_each_way == tuple(share(flips[row.who], usable, way) for way in (0, 1))
            rates.add(row.rate)
    assert len(rates) > 3


def test_the_token_of_a_contrast_is_named_as_in_the_answer() -> None:
    trained = untrained(ADDITION)
    found = intervene_on_contrasts(trained, 4, {"one": heads_of(trained)[:1]})
    assert [(row.name, row.token) for row in found.contrasts] == [
        ("carry into column 1 from column 0", "column 1"),
        ("carry into column 2 from column 1", "column 2"),
        ("carry into column 2 from column 0", "column 2"),
        ("digits of column 0", "column 0"),
        ("digits of column 1", "column 1"),
    ]
    assert found.n == 4
    (only,) = intervene_on_contrasts(untrained(SORTEDNESS), 6).contrasts
    assert (only.token, only.about, only.n) == ("class", "inversion", 6)


def test_all_heads_of_every_site_at_once_leave_nothing_of_the_base_but_its_own_tokens() -> None:
    trained = half_trained("addition")
    heads = heads_of(trained)
    contrasts = trained.task.contrasts(np.random.default_rng(7), 60)
    (carry,) = [one for one in contrasts if one.name == "carry into column 2 from column 1"]
    found = patching_flip_rates(trained, carry, {"all": heads, "none": []})
    everything, nothing = found.rows
    assert everything.heads == tuple(map(str, heads))
    assert len(heads) == 3 * 3
    # The answer starts with this token: in both passes the decoder has read BOS alone, so the patch_source decides.
    assert everything.flips == found.usable > 0
    assert everything.rate == 1
    assert (nothing.heads, nothing.flips, nothing.rate) == ((), 0, 0.0)


def test_a_donor_that_is_the_base_changes_nothing_and_flips_nothing() -> None:
    trained = half_trained("addition")
    contrast = trained.task.contrasts(np.random.default_rng(1), 30)[0]
    same = Contrast(contrast.name, contrast.about, contrast.token, contrast.base, contrast.base)
    found = patching_flip_rates(trained, same, groups_of(trained.model.sites))
    # The answers do not differ, so there is nothing that could turn into the patch_source's.
    assert found.usable == 0
    assert all((row.flips, row.rate) == (0, 0.0) for row in found.rows)


def test_outputs_of_the_base_itself_under_the_donors_answer_flip_nothing() -> None:
    """The patch_source's source is the base's: its right answer is another, so the pair is wrong on one side."""
    trained = half_trained("addition")
    contrast = trained.task.contrasts(np.random.default_rng(1), 30)[3]
    patch_source = Examples(contrast.base.source, contrast.patch_source.target)
    found = patching_flip_rates(
        trained,
        Contrast(contrast.name, contrast.about, contrast.token, contrast.base, patch_source),
        groups_of(trained.model.sites),
    )
    assert found.usable == 0
    assert all(row.flips == 0 for row in found.rows)


@pytest.mark.parametrize("side", ["base", "patch_source"])
def test_a_pair_that_is_wrong_on_either_side_does_not_count(side: str) -> None:
    trained = half_trained("addition")
    contrast = trained.task.contrasts(np.random.default_rng(2), 30)[0]
    groups = {"all": heads_of(trained)}
    sides = {"base": contrast.base, "patch_source": contrast.patch_source}
    right = [all(answer_of(trained, one.take([row]))[1] for one in sides.values()) for row in range(30)]
    assert patching_flip_rates(trained, contrast, groups).usable == sum(right)
    target = sides[side].target.copy()
    target[np.flatnonzero(right)[:3], -1] = 0  # an end that no model writes
    sides[side] = Examples(sides[side].source, target)
    found = patching_flip_rates(trained, Contrast("", "", contrast.token, **sides), groups)
    assert found.usable == sum(right) - 3


def test_groups_are_heads_then_sites_then_kinds() -> None:
    trained = untrained(ADDITION, model={"kept_heads": ["enc0.self.h1", "dec0.cross.h0", "dec1.cross.h2"]})
    groups = {who: [str(head) for head in heads] for who, heads in groups_of(trained.model.sites).items()}
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
    whole = groups_of(untrained(ADDITION).model.sites)
    assert len(whole) == 15 + 5 + 3
    assert len(whole["all decoder"]) == len(whole["all cross"]) == 6


def test_a_decoder_only_model_is_patched_too() -> None:
    trained = untrained(TEXT)
    found = intervene_on_contrasts(trained, 6)
    assert len(found.contrasts) == 6
    for contrast in found.contrasts:
        assert [row.who for row in contrast.rows][-3:] == ["decoder.0.self", "decoder.1.self", "all decoder"]


def test_the_same_pairs_are_drawn_every_time() -> None:
    trained = half_trained("sortedness")
    told: list[tuple[int, int]] = []
    first = intervene_on_contrasts(trained, 20, progress=lambda done, total: told.append((done, total)))
    assert intervene_on_contrasts(trained, 20) == first
    assert told == [(1, 1)]


# Controls


def test_the_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(interventions).failed == 0


def test_undecided_digits_are_no_carry_alone() -> None:
    moved, still, unknown = (0.9, 1.0), (0.0, 0.02), (0.01, 0.3)
    assert reading(moved, still, unknown) == "undecided"
    assert reading(moved, unknown, still) == "undecided"
    assert reading(unknown, still, still) == "undecided"


def count_controls(trained: Trained, contrast: Contrast, groups: Groups) -> dict[str, dict[int, tuple[bool, bool]]]:
    """For each group and each usable row: whether the contrast's token changes, and whether the digit becomes the
    control source's."""
    control = contrast.control
    assert control is not None
    found: dict[str, dict[int, tuple[bool, bool]]] = {who: {} for who in groups}
    for row in np.flatnonzero(control.there):
        base, source = contrast.base.take([row]), control.source.take([row])
        if not (answer_of(trained, base)[1] and answer_of(trained, source)[1]):
            continue
        brought = outputs_of(trained, source)
        for who, heads in groups.items():
            answer = patched_answer(trained, base, brought, heads)
            changed = int(answer[contrast.token]) != int(base.target[0, contrast.token])
            found[who][int(row)] = changed, int(answer[control.token]) == int(source.target[0, control.token])
    return found


def test_controls_are_those_of_plain_passes_with_hooks() -> None:
    trained = half_trained("addition")
    groups = {
        who: heads for who, heads in groups_of(trained.model.sites).items() if who.startswith(("all", "enc0.self.h0"))
    }
    contrast = trained.task.contrasts(np.random.default_rng(4), 80)[0]
    found = patching_flip_rates(trained, contrast, groups)
    usable, flips = count_flips(trained, contrast, groups)
    counted = count_controls(trained, contrast, groups)
    assert contrast.control is not None
    assert found.control.n == contrast.control.there.sum() < 80
    assert found.control.usable == len(counted["all cross"]) > 0
    assert found.control.digits_token == "column 0"
    for row in found.control.rows:
        rows = counted[row.who]
        changed, brought = ({at for at, flags in rows.items() if flags[which]} for which in (0, 1))
        assert (row.changed, row.digits.flips) == (len(changed), len(brought))
        assert row.interval == wilson_interval(len(changed), len(rows))
        assert row.digits.interval == wilson_interval(len(brought), len(rows))
        both = set(usable) & set(rows)
        moved = set(flips[row.who]) & both
        lost, gained = len(moved - changed), len((changed & both) - moved)
        assert row.difference.n == len(both)
        assert row.difference.value == (lost - gained) / len(both)
        assert row.difference.interval == pytest.approx(
            [float(end) for end in paired_interval(lost, gained, len(both))]
        )
    assert {row.changed > 0 for row in found.control.rows} == {True, False}


def test_a_control_counts_pairs_that_are_right_on_both_sides_though_their_token_is_the_same() -> None:
    trained = half_trained("addition")
    contrast = trained.task.contrasts(np.random.default_rng(1), 60)[0]
    groups = {"none": [], "all": heads_of(trained)}
    found = patching_flip_rates(trained, contrast, groups).control
    assert found.usable > 0
    nothing = found.rows[0]
    assert (nothing.changed, nothing.digits.flips) == (0, 0)


def test_contrasts_without_a_control_have_none() -> None:
    (only,) = intervene_on_contrasts(half_trained("sortedness"), 20).contrasts
    assert only.control is None
    names = {one.name: one.control is not None for one in intervene_on_contrasts(untrained(ADDITION), 8).contrasts}
    assert all(there == name.startswith("carry") for name, there in names.items())


# The strongest head


def test_the_strongest_head_is_chosen_on_one_half_and_measured_on_the_other() -> None:
    trained = half_trained("addition")
    groups = groups_of(trained.model.sites)
    contrast = trained.task.contrasts(np.random.default_rng(4), 40)[0]
    found = patching_flip_rates(trained, contrast, groups)
    usable, flips = count_flips(trained, contrast, groups)

    def chooses(row: int) -> bool:
        return row // 2 % 2 == 0

    choosing, reporting = ([row for row in usable if chooses(row) == which] for which in (True, False))
    assert {row % 2 for row in choosing} == {row % 2 for row in reporting} == {0, 1}, "both directions in each half"
    assert found.strongest.keys() == {"encoder", "decoder", "cross"}
    prefixes = {"encoder": "enc0.self", "decoder": "dec0.self", "cross": "dec0.cross"}
    for kind, row in found.strongest.items():
        own = [who for who in groups if who.startswith(f"{prefixes[kind]}.h")]
        counts = {who: sum(chooses(at) for at in flips[who]) for who in own}
        assert counts[row.head] == max(counts.values())
        assert (row.n, row.chosen_on_n) == (len(reporting), len(choosing))
        assert row.flips == sum(not chooses(at) for at in flips[row.head])
        assert row.interval == wilson_interval(row.flips, row.n)
        assert row.chosen_on_rate == counts[row.head] / len(choosing)
        assert row.control.difference.n <= row.n


def test_the_best_of_heads_that_flip_at_random_is_not_flattered() -> None:
    """Heads of equal strength: on its own half the best is above it, on the other half it is not."""
    trained = untrained(ADDITION)
    groups = {str(head): [head] for head in heads_of(trained) if head.site == "encoder.0.self"}
    random = np.random.default_rng(0)
    chosen, reported = [], []
    for _ in range(400):
        flipped = random.random((len(groups), 80)) < 0.3
        row = interventions._strongest(trained, groups, flipped, np.ones(80, dtype=bool), None)["encoder"]
        chosen.append(row.chosen_on_rate)
        reported.append(row.rate)
    # 400 rates of 40 pairs: their mean has a standard error of 0.0036.
    assert np.mean(chosen) > 0.34
    assert abs(np.mean(reported) - 0.3) < 0.015


def test_too_few_pairs_have_no_strongest_head() -> None:
    trained = untrained(ADDITION)
    flipped = np.zeros((1, 4), dtype=bool)
    groups = {str(head): [head] for head in heads_of(trained)[:1]}
    for usable in ([True, True, False, False], [False, False, True, True], [False] * 4):
        assert interventions._strongest(trained, groups, flipped, np.array(usable), None) == {}
