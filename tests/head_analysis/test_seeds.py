"""Several seeds together: heads are matched by rank or by role, never by index, and the seed is the unit."""

import doctest
import json
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headway.head_analysis import seeds
from headway.head_analysis.head_runs import KINDS
from headway.head_analysis.seeds import VERDICTS, rates_over_seeds
from headway.results.heads_study import HeadsTogether
from headway.results.schema import read, write
from headway.statistics import ENOUGH_SEEDS
from tests.results.made_up_values import typed

SITES = {"encoder.0.self": 3, "decoder.0.self": 2, "decoder.0.cross": 4}
KIND = {"encoder.0.self": "encoder", "decoder.0.self": "decoder", "decoder.0.cross": "cross"}
SCORES = ("diagonal", "carry", "entropy", "self_token")
ROLES = ("diagonal", "carry", "spread")
CONTRASTS = (("carry into column 1 from column 0", "carry"), ("digits of column 0", "digits"))


def summarise_seeds(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """As JSON has it; read again it is the same."""
    together = seeds.summarise_seeds([typed(document) for document in documents])
    found: dict[str, Any] = json.loads(json.dumps(write(together), allow_nan=False))
    assert read(HeadsTogether, found, "heads.json") == together
    return found


def over_seeds(*values: Any) -> dict[str, Any]:
    found: dict[str, Any] = write(seeds.over_seeds(*values))
    return found


def name_of(site: str, index: int) -> str:
    stack, layer, looks = site.split(".")
    return f"{stack[:3]}{layer}.{looks}.h{index}"


def make_head(random: np.random.Generator, site: str, index: int) -> dict[str, Any]:
    kinds = {
        kind: {"drop": round(float(random.normal(5, 9)), 2), "verdict": str(random.choice(VERDICTS[:5]))}
        for kind in KINDS
    }
    scores: dict[str, float | None] = {score: float(random.random()) for score in SCORES}
    if site.endswith("cross"):
        scores["self_token"] = None
    return {
        "head": name_of(site, index),
        "site": site,
        "kind": KIND[site],
        "index": index,
        "verdict": str(random.choice(VERDICTS)),
        "role": f"{KIND[site]}: {random.choice(ROLES)}",
        "scores": scores,
        "ablation": kinds,
    }


def make_set(random: np.random.Generator, heads: list[str]) -> dict[str, Any]:
    chosen = [head for head in heads if random.random() < 0.5]
    return {"heads": chosen, "drop": float(random.normal(1, 3))}


def make_control(random: np.random.Generator, groups: list[str]) -> dict[str, Any]:
    rows = [
        {
            "who": who,
            "rate": float(random.random()),
            "digits": {"rate": float(random.random())},
            "reading": str(random.choice(["unspecific", "carry alone"])),
        }
        for who in groups
    ]
    return {"n": 180, "usable": 150, "rows": rows}


def make_document(seed: int) -> dict[str, Any]:
    """What summarise_seeds reads of a heads.json, made up."""
    random = np.random.default_rng([7, seed])
    rows = [make_head(random, site, index) for site, count in SITES.items() for index in range(count)]
    heads = [row["head"] for row in rows]
    groups = {head: [head] for head in heads}
    groups |= {site: [row["head"] for row in rows if row["site"] == site] for site in SITES}
    groups |= {f"all {kind}": [row["head"] for row in rows if row["kind"] == kind] for kind in KIND.values()}
    return {
        "run": f"runs/made-up-seed{seed}",
        "baseline": {"exact_match": (share := float(random.uniform(0.9, 1))), "interval": [share - 0.02, 1.0]},
        "heads": rows,
        "prunable": {kind: {"under_1_point": float(random.random())} for kind in KINDS},
        "joint": {
            "removable": [
                {
                    "limit": limit,
                    **make_set(random, heads),
                    "sum_of_single_drops": float(random.normal()),
                    "alone_under_limit": make_set(random, heads),
                    "adding_up": make_set(random, heads),
                }
                for limit in (1.0, 5.0)
            ],
            "sufficient": make_set(random, heads),
        },
        "interventions": {
            "contrasts": [
                {
                    "name": name,
                    "about": about,
                    "usable": 200,
                    "rows": [
                        {"who": who, "heads": members, "rate": float(random.random())}
                        for who, members in groups.items()
                    ],
                    "strongest": {
                        kind: {
                            "head": str(random.choice([row["head"] for row in rows if row["kind"] == kind])),
                            "rate": float(random.random()),
                        }
                        for kind in KIND.values()
                    },
                }
                | ({"control": make_control(random, list(groups))} if about == "carry" else {})
                for name, about in CONTRASTS
            ]
        },
    }


def shuffled(document: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same model with the heads of each site in another order, under their new names."""
    random = np.random.default_rng(seed)
    new = {}
    for site, count in SITES.items():
        for index, other in enumerate(random.permutation(count)):
            new[name_of(site, index)] = name_of(site, int(other))

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: renamed(one) for key, one in value.items()}
        if isinstance(value, list):
            return [renamed(one) for one in value]
        return new.get(value, value) if isinstance(value, str) else value

    found = renamed(deepcopy(document))
    for row in found["heads"]:
        row["index"] = int(row["head"].rpartition("h")[2])
    order = {site: place for place, site in enumerate(SITES)}
    found["heads"].sort(key=lambda row: (order[row["site"]], row["index"]))
    for contrast in found["interventions"]["contrasts"]:
        contrast["rows"].sort(key=lambda row: (len(row["heads"]) > 1, row["who"]))
        if "control" in contrast:
            contrast["control"]["rows"].sort(key=lambda row: row["who"])
    return found


def assert_same(one: Any, other: Any, turn: Any = lambda values: values, where: str = "") -> None:
    """Equal up to rounding; lists of one value a seed are compared after `turn`."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            inner = turn(other[key]) if key in ("values", "runs") else other[key]
            assert_same(one[key], inner, turn, f"{where}.{key}")
    elif isinstance(one, list | tuple) and one and isinstance(one[0], dict):
        assert len(one) == len(other), where
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, turn, f"{where}[{index}]")
    else:
        numbers = isinstance(one, float | list) and not (isinstance(one, list) and one and isinstance(one[0], str))
        assert one == (pytest.approx(other) if numbers else other), where


@settings(max_examples=20)
@given(st.integers(1, 7), st.integers(0, 1_000), st.integers(0, 6))
def test_the_index_of_a_head_says_nothing(count: int, seed: int, which: int) -> None:
    documents = [make_document(index) for index in range(count)]
    changed = list(documents)
    changed[which % count] = shuffled(documents[which % count], seed)
    assert_same(summarise_seeds(documents), summarise_seeds(changed))


@settings(max_examples=20)
@given(st.integers(2, 7), st.randoms(use_true_random=False))
def test_the_order_of_the_seeds_only_orders_the_values(count: int, random: Any) -> None:
    documents = [make_document(index) for index in range(count)]
    order = list(range(count))
    random.shuffle(order)
    here, there = summarise_seeds(documents), summarise_seeds([documents[index] for index in order])
    back = [order.index(index) for index in range(count)]
    # Values of a role come only from the seeds that have it, so they are compared as they stand in either order.
    roles, other_roles = here.pop("by_role"), there.pop("by_role")
    assert_same(here, there, lambda values: [values[place] for place in back])
    assert roles.keys() == other_roles.keys()
    for role, row in roles.items():
        assert sorted(row["drop"]["values"]) == pytest.approx(sorted(other_roles[role]["drop"]["values"]))
        assert [row["heads"]["values"][place] for place in order] == other_roles[role]["heads"]["values"]


@pytest.mark.parametrize("count", range(1, 9))
def test_fewer_than_six_seeds_are_descriptive(count: int) -> None:
    found = summarise_seeds([make_document(seed) for seed in range(count)])
    assert found["descriptive"] == (count < 6)
    assert ENOUGH_SEEDS == 6
    assert found["seeds"] == count == len(found["runs"]) == len(found["exact_match"]["values"])
    assert (found["exact_match"]["interval"] is None) == (count < 6)
    json.dumps(found, allow_nan=False)


def test_over_seeds_the_interval_is_that_of_the_median_and_keeps_both_errors() -> None:
    values = [0.9, 0.92, 0.97, 0.95, 0.93, 0.99]
    found = over_seeds(values)
    assert found["values"] == values
    assert (found["mean"], found["median"]) == pytest.approx((np.mean(values), np.median(values)))
    assert (found["interval"], found["errors"]) == ([0.9, 0.99], ["seeds"])
    own = [(value - 0.01, value + 0.005) for value in values]
    widened = over_seeds(values, own)
    assert (widened["interval"], widened["errors"]) == (pytest.approx([0.89, 0.995]), ["seeds", "examples"])
    assert over_seeds(values, [None, *own[1:]]) == found, "what one run does not say cannot be kept"
    assert over_seeds(values[:5], own[:5])["interval"] is None
    assert over_seeds([3]) == {"values": [3.0], "mean": 3.0, "median": 3.0, "interval": None, "errors": None}


def test_rates_of_seeds_are_counted_and_never_averaged() -> None:
    found = write(rates_over_seeds([1, 1, 0.89, 0.99, 0.02, 1, 0, 1]))
    assert found["values"] == [1, 1, 0.89, 0.99, 0.02, 1, 0, 1]
    assert (found["above"], found["between"], found["below"]) == (5, 1, 2)
    assert found.keys() == {"values", "above", "between", "below", "limits"}


def test_intervals_of_examples_reach_the_seeds_of_a_study() -> None:
    documents = [make_document(seed) for seed in range(6)]
    for document in documents:
        for row in document["heads"]:
            row["ablation"]["zero"]["interval"] = [
                row["ablation"]["zero"]["drop"] - 2,
                row["ablation"]["zero"]["drop"] + 3,
            ]
        document["prunable"]["zero"]["under_1_point_interval"] = [0.0, 1.0]
        for row in document["joint"]["removable"]:
            row["interval"], row["drop_interval"] = [0.5, 0.6], [row["drop"] - 1, row["drop"] + 1]
    found = summarise_seeds(documents)
    assert found["exact_match"]["errors"] == ["seeds", "examples"]
    assert found["prunable"]["zero"]["under_1_point"]["interval"] == [0.0, 1.0]
    assert found["prunable"]["zero"]["under_1_percent_of_loss"]["errors"] == ["seeds"]
    rank = found["by_rank"]["cross"][0]
    assert rank["interval"] == pytest.approx([min(rank["values"]) - 2, max(rank["values"]) + 3])
    site = found["by_layer"]["encoder.0.self"]
    assert site["interval"] == pytest.approx([min(site["values"]) - 2, max(site["values"]) + 3])
    drop = found["removable"][0]["drop"]
    assert drop["interval"] == pytest.approx([min(drop["values"]) - 1, max(drop["values"]) + 1])
    assert found["removable"][0]["heads"]["errors"] == ["seeds"]


# By hand

TWO = [make_document(0), make_document(1)]


def zero_drops(document: dict[str, Any], **wanted: str) -> list[float]:
    rows = [row for row in document["heads"] if all(row[key] == value for key, value in wanted.items())]
    return [row["ablation"]["zero"]["drop"] for row in rows]


def test_ranks_are_the_sorted_drops_within_a_kind_of_attention() -> None:
    found = summarise_seeds(TWO)["by_rank"]
    assert {kind: len(rows) for kind, rows in found.items()} == {"encoder": 3, "decoder": 2, "cross": 4}
    for kind, rows in found.items():
        for seed, document in enumerate(TWO):
            ranked = [row["values"][seed] for row in rows]
            assert ranked == sorted(zero_drops(document, kind=kind), reverse=True)


def test_verdicts_are_counted_in_each_seed() -> None:
    found = summarise_seeds(TWO)["verdicts"]
    assert found.keys() == {"overall", *KINDS}
    for name, counts in found.items():
        for seed, document in enumerate(TWO):
            given_verdicts = [
                row["verdict"] if name == "overall" else row["ablation"][name]["verdict"] for row in document["heads"]
            ]
            assert sum(count["values"][seed] for count in counts.values()) == 9
            for verdict, count in counts.items():
                assert count["values"][seed] == given_verdicts.count(verdict)


def test_roles_count_heads_and_average_their_drops_in_the_seeds_that_have_them() -> None:
    found = summarise_seeds(TWO)["by_role"]
    assert set(found) == {row["role"] for document in TWO for row in document["heads"]}
    for role, row in found.items():
        drops = [zero_drops(document, role=role) for document in TWO]
        assert row["heads"]["values"] == [len(one) for one in drops]
        assert row["drop"]["values"] == pytest.approx([float(np.mean(one)) for one in drops if one])


def test_sites_have_the_largest_drop_of_their_heads() -> None:
    for site, row in summarise_seeds(TWO)["by_layer"].items():
        assert row["values"] == [max(zero_drops(document, site=site)) for document in TWO]


def test_sets_are_counted_by_size_and_by_what_they_cost() -> None:
    found = summarise_seeds(TWO)
    sets = [document["joint"]["removable"] for document in TWO]
    for index, row in enumerate(found["removable"]):
        assert row["limit"] == (1.0, 5.0)[index]
        assert row["heads"]["values"] == [len(one[index]["heads"]) for one in sets]
        assert row["drop"]["values"] == [one[index]["drop"] for one in sets]
        assert row["sum_of_single_drops"]["values"] == [one[index]["sum_of_single_drops"] for one in sets]
        for name in ("alone_under_limit", "adding_up"):
            assert row[name]["heads"]["values"] == [len(one[index][name]["heads"]) for one in sets]
            assert row[name]["drop_together"]["values"] == [one[index][name]["drop"] for one in sets]
    assert found["sufficient"]["values"] == [len(document["joint"]["sufficient"]["heads"]) for document in TWO]
    for kind in KINDS:
        assert found["prunable"][kind]["under_1_point"]["values"] == [
            document["prunable"][kind]["under_1_point"] for document in TWO
        ]


def test_the_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(seeds).failed == 0


def test_interventions_have_the_strongest_head_of_a_kind_and_the_groups() -> None:
    found = summarise_seeds(TWO)["interventions"]
    assert [(row["name"], row["about"]) for row in found] == list(CONTRASTS)
    for index, contrast in enumerate(found):
        assert contrast["seeds"] == 2
        for seed, document in enumerate(TWO):
            one = document["interventions"]["contrasts"][index]
            rates = {row["who"]: row["rate"] for row in one["rows"]}
            for kind, row in contrast["strongest"].items():
                assert row["values"][seed] == one["strongest"][kind]["rate"]
            assert contrast["together"].keys() == {*SITES, "all encoder", "all decoder", "all cross"}
            for who, row in contrast["together"].items():
                assert row["values"][seed] == rates[who]


def test_rates_of_seeds_are_counted_and_not_averaged() -> None:
    documents = [make_document(seed) for seed in range(4)]
    for document, rate in zip(documents, (0.02, 0.1, 0.9, 0.97), strict=True):
        document["interventions"]["contrasts"][0]["strongest"]["cross"]["rate"] = rate
    found = summarise_seeds(documents)["interventions"][0]["strongest"]["cross"]
    assert found == {"values": [0.02, 0.1, 0.9, 0.97], "above": 1, "between": 2, "below": 1, "limits": [0.1, 0.9]}


def test_controls_are_put_together_where_there_are_some() -> None:
    first, second = summarise_seeds(TWO)["interventions"]
    assert "control" not in second
    assert first["control"]["seeds"] == 2
    for who, found in first["control"]["together"].items():
        rows = [
            next(row for row in document["interventions"]["contrasts"][0]["control"]["rows"] if row["who"] == who)
            for document in TWO
        ]
        assert found["changed"]["values"] == [row["rate"] for row in rows]
        assert found["digits"]["values"] == [row["digits"]["rate"] for row in rows]
        assert found["readings"] == Counter(row["reading"] for row in rows)


def test_documents_of_earlier_versions_are_read() -> None:
    documents = [make_document(seed) for seed in range(2)]
    for document in documents:
        for contrast in document["interventions"]["contrasts"]:
            contrast.pop("strongest")
            contrast.pop("control", None)
    found = summarise_seeds(documents)["interventions"]
    for index, contrast in enumerate(found):
        assert "control" not in contrast
        for kind, row in contrast["strongest"].items():
            for seed, document in enumerate(documents):
                heads = [head["head"] for head in document["heads"] if head["kind"] == kind]
                rates = {one["who"]: one["rate"] for one in document["interventions"]["contrasts"][index]["rows"]}
                assert row["values"][seed] == max(rates[head] for head in heads)


def test_a_seed_that_gets_no_pair_right_has_no_rate() -> None:
    documents = [make_document(seed) for seed in range(3)]
    for document in documents:
        document["interventions"]["contrasts"][1]["usable"] = 0
    documents[1]["interventions"]["contrasts"][0]["usable"] = 0
    first, second = summarise_seeds(documents)["interventions"]
    whole = summarise_seeds([documents[0], documents[2]])["interventions"][0]
    assert (first["seeds"], second["seeds"]) == (2, 0)
    assert first == whole
    assert second["strongest"] == second["together"] == {}


def test_correlations_are_those_of_the_ranks_within_a_seed() -> None:
    found = summarise_seeds(TWO)["correlations"]
    assert found.keys() == {*SCORES, "within"}
    found.pop("within")
    for score, row in found.items():
        for seed, document in enumerate(TWO):
            rows = [one for one in document["heads"] if one["scores"][score] is not None]
            assert len(rows) == (5 if score == "self_token" else 9)
            ranks = [
                stats.rankdata([one["scores"][score] for one in rows]),
                stats.rankdata([one["ablation"]["zero"]["drop"] for one in rows]),
            ]
            assert row["values"][seed] == pytest.approx(np.corrcoef(ranks)[0, 1])


def test_a_score_that_is_the_same_everywhere_correlates_with_nothing() -> None:
    documents = deepcopy(TWO)
    for document in documents:
        for row in document["heads"]:
            row["scores"]["entropy"] = 0.5
            row["scores"]["carry"] = None
    for row in documents[1]["heads"]:
        row["scores"]["diagonal"] = 1.0
    found = summarise_seeds(documents)["correlations"]
    assert "entropy" not in found
    assert "carry" not in found
    assert len(found["diagonal"]["values"]) == 1  # only the seed where it varies
    json.dumps(found, allow_nan=False)


def test_correlations_within_a_kind_of_attention_are_scipys() -> None:
    within = summarise_seeds(TWO)["correlations"]["within"]
    assert within.keys() == {"encoder", "decoder", "cross"}
    assert within["decoder"] == {}, "two heads correlate with 1 or -1, whatever they do"
    assert within["encoder"].keys() == set(SCORES)
    assert within["cross"].keys() == set(SCORES) - {"self_token"}
    for kind in ("encoder", "cross"):
        for score, row in within[kind].items():
            for seed, document in enumerate(TWO):
                rows = [one for one in document["heads"] if one["kind"] == kind]
                expected = stats.spearmanr(
                    [one["scores"][score] for one in rows], [one["ablation"]["zero"]["drop"] for one in rows]
                )
                assert row["values"][seed] == pytest.approx(float(expected.statistic))
    json.dumps(within, allow_nan=False)


def test_a_score_can_rank_kinds_and_no_head_within_one() -> None:
    """Cross heads look and cost more than encoder heads; within each kind the order is the reverse."""
    document = make_document(0)
    for row in document["heads"]:
        above = 10 * (row["kind"] == "cross")
        row["scores"]["carry"] = above + row["index"]
        row["ablation"]["zero"]["drop"] = float(above - row["index"])
    found = summarise_seeds([document])["correlations"]
    assert found["carry"]["values"][0] > 0.3
    assert found["within"]["cross"]["carry"]["values"] == found["within"]["encoder"]["carry"]["values"] == [-1.0]
