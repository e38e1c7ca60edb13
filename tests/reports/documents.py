"""Findings as heads.json holds them, made up: shapes, tokens and numbers are chosen so that a swapped axis shows."""

import math
from typing import Any

import numpy as np

SHORT = {"encoder": "enc", "decoder": "dec", "cross": "dec"}
EXAMPLES = [
    ("3 7 4 + 8 1 4", "1 1 8 8 EOS", "1 1 8 8 EOS"),
    ("9 0 5 + 2 6 7", "1 1 7 2 EOS", "1 1 7 2 EOS"),
    ("4 9 6 + 5 0 3", "0 9 9 9 EOS", "1 0 9 9 EOS"),
]
COLUMNS = ["column 3", "column 2", "column 1", "column 0", "end"]
ALL_KINDS = ("encoder", "decoder", "cross")


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def weights(random: np.random.Generator, n_queries: int, n_keys: int, causal: bool) -> list[list[float]]:
    """Weights of one head: it looks mostly at one key that moves with the query."""
    scores = random.normal(size=(n_queries, n_keys))
    favoured = (np.arange(n_queries) + random.integers(n_keys)) % n_keys
    scores[np.arange(n_queries), favoured] += random.uniform(0, 6)
    if causal:
        scores[np.triu_indices(n_queries, 1, n_keys)] = -math.inf
    return softmax(scores).round(4).tolist()


def interval(rate: float, n: int) -> list[float]:
    half = 1.96 * math.sqrt(max(rate * (1 - rate), 1 / n) / n)
    return [max(0.0, rate - half), min(1.0, rate + half)]


def ablation(drop: float, n: int = 2000) -> dict[str, Any]:
    low, high = interval(min(max(drop, 0.0), 100.0) / 100, n)
    ends = [drop - (max(drop, 0.0) - 100 * low) - 0.05, drop + (100 * high - max(drop, 0.0))]
    verdict = (
        "critical" if ends[0] > 10 else "important" if ends[0] > 1 else "redundant" if ends[1] < 1 else "undecided"
    )
    change = 40 * drop**2 - 0.5
    losses = {"loss_change": change, "loss_change_interval": [0.7 * change - 0.4, 1.4 * change + 0.4]}
    shift = -0.15 * drop
    margin = {"margin": 12 + shift, "margin_change": shift, "margin_change_interval": [shift - 0.25, shift + 0.25]}
    more = {**losses, **margin}
    return {"n": n, "drop": drop, "interval": ends, "verdict": verdict, "exact_match": min(1.0, 1 - drop / 100), **more}


def make_head(random: np.random.Generator, kind: str, layer: int, index: int) -> dict[str, Any]:
    attention = "cross" if kind == "cross" else "self"
    drop = float(random.choice([0.02, -0.3, 0.2, 0.8, 3.1, 12.3, 47.0, 98.7])) * float(random.uniform(0.8, 1.0))
    ablations = {name: ablation(drop * scale) for name, scale in (("zero", 1), ("mean", 0.6), ("position-mean", 0.4))}
    verdicts = {entry["verdict"] for entry in ablations.values()}
    return {
        "head": f"{SHORT[kind]}{layer}.{attention}.h{index}",
        "site": f"{'encoder' if kind == 'encoder' else 'decoder'}.{layer}.{attention}",
        "kind": kind,
        "layer": layer,
        "causal": kind == "decoder",
        "index": index,
        "verdict": verdicts.pop() if len(verdicts) == 1 else "depends on the ablation",
        "role": "looks at the digit of its own column",
        "ablation": ablations,
    }


def token_counts(kinds: tuple[str, ...], kind: str, n_source: int, n_prefix: int) -> tuple[int, int]:
    """How many queries and keys a head of this kind has."""
    if kind == "encoder":
        return n_source, n_source
    if "cross" not in kinds:
        return n_source + n_prefix, n_source + n_prefix
    return n_prefix, n_source if kind == "cross" else n_prefix


def all_weights(random: np.random.Generator, heads: list[dict[str, Any]], n_source: int, n_prefix: int) -> dict:
    kinds = tuple({head["kind"] for head in heads})
    return {
        head["head"]: weights(
            random, *token_counts(kinds, head["kind"], n_source, n_prefix), causal=head["kind"] == "decoder"
        )
        for head in heads
    }


def make_capture(random: np.random.Generator, heads: list[dict[str, Any]], examples: list[tuple]) -> dict[str, Any]:
    captured = []
    for source, target, written in ([text.split() for text in texts] for texts in examples):
        prefix = ["BOS", *written[:-1]]
        made = all_weights(random, heads, len(source), len(prefix))
        captured.append({"source": source, "target": target, "written": written, "prefix": prefix, "weights": made})
    names = ["a2", "a1", "a0", "+", "b2", "b1", "b0"]
    mean = {
        "n": 2000,
        "source": names,
        "prefix": ["BOS", *COLUMNS[:-1]],
        "written": COLUMNS,
        "weights": all_weights(random, heads, 7, 5),
    }
    return {"decimals": 4, "examples": captured, "mean": mean}


def make_elimination(heads: list[dict[str, Any]]) -> dict[str, Any]:
    order = sorted(heads, key=lambda head: head["ablation"]["zero"]["drop"])
    steps, promised = [], 0.0
    for count in range(len(heads) + 1):
        removed = order[count - 1] if count else None
        promised += removed["ablation"]["zero"]["drop"] if removed else 0.0
        exact = float(1 / (1 + math.exp((count - 0.55 * len(heads)) * 12 / len(heads))))
        steps.append(
            {
                "left": len(heads) - count,
                "removed": removed["head"] if removed else None,
                "chosen_on": min(1.0, exact + 0.004),
                "exact_match": exact,
                "interval": interval(exact, 1000),
                "drop": 100 * (1 - exact),
                "promised": promised,
            }
        )
    return {"kind": "zero", "n_chosen_on": 1000, "n_reported_on": 1000, "steps": steps}


def make_shapley(random: np.random.Generator, heads: list[dict[str, Any]]) -> dict[str, Any]:
    def values(chosen: list[dict[str, Any]], error: float) -> list[dict[str, Any]]:
        return [
            {
                "head": head["head"],
                "value": float(random.exponential(8) - 1),
                "error": error * float(random.uniform(0.5, 1.5)),
            }
            for head in chosen
        ]

    kinds = dict.fromkeys(head["kind"] for head in heads)
    games: dict[str, Any] = {
        kind: {"exact": True, "subsets": 256, "n": 300, "values": values([h for h in heads if h["kind"] == kind], 0.4)}
        for kind in kinds
    }
    return {**games, "all": {"exact": False, "permutations": 20, "n": 200, "values": values(heads, 1.5)}}


def make_contrast(random: np.random.Generator, heads: list[dict[str, Any]], name: str, about: str) -> dict[str, Any]:
    sites = dict.fromkeys(head["site"] for head in heads)
    who = [
        *(head["head"] for head in heads),
        *sites,
        *(f"all {kind}" for kind in dict.fromkeys(h["kind"] for h in heads)),
    ]
    rates = [float(random.choice([0.0, 0.01, 0.05, 0.4, 0.93, 1.0], p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])) for _ in who]
    rows = [
        {"who": one, "heads": [one], "flips": round(200 * rate), "rate": rate, "interval": interval(rate, 200)}
        for one, rate in zip(who, rates, strict=True)
    ]
    found = {"name": name, "about": about, "token": "column 2", "n": 200, "usable": 198, "rows": rows}
    return found | ({"control": make_control(who, rates)} if about == "carry" else {})


def make_control(who: list[str], rates: list[float]) -> dict[str, Any]:
    """What never moves has that reading; the others have each of the readings in turn."""
    readings = ["unspecific", "carry and digits", "carry alone", "undecided"]
    return {
        "n": 180,
        "usable": 170,
        "digits_token": "column 1",
        "rows": [
            {
                "who": one,
                "changed": 17,
                "rate": 0.1,
                "interval": interval(0.1, 170),
                "digits": {"flips": 85, "rate": 0.5, "interval": interval(0.5, 170)},
                "difference": {"n": 160, "value": rate - 0.1, "interval": [rate - 0.2, rate]},
                "reading": readings[index % 4] if rate > 0.05 else "not moved",
            }
            for index, (one, rate) in enumerate(zip(who, rates, strict=True))
        ],
    }


def make_interventions(random: np.random.Generator, heads: list[dict[str, Any]]) -> dict[str, Any]:
    carries = [(2, 1), (3, 2), (1, 0), (3, 1), (2, 0), (3, 0)]
    names = [(f"carry into column {into} from column {start}", "carry") for into, start in carries]
    names += [(f"digit {letter}{column} into column {column}", "digits") for column in range(3) for letter in "ab"]
    return {"n": 200, "contrasts": [make_contrast(random, heads, *name) for name in names]}


def make_anatomy(wrong: int) -> dict[str, Any]:
    def group(name: str, value: Any, n: int, wrong: int) -> dict[str, Any]:
        return {name: value, "n": n, "wrong": wrong, "accuracy": 1 - wrong / n, "interval": interval(1 - wrong / n, n)}

    return {
        "n": 2000,
        "wrong": wrong,
        "by": {
            "carries": [group("value", v, n, wrong if v == 3 else 0) for v, n in enumerate((300, 700, 720, 280))],
            "longest_chain": [
                group("value", v, n, wrong if v == 2 else 0) for v, n in enumerate((300, 1100, 400, 200))
            ],
            "carry_out": [group("value", v, n, wrong if v else 0) for v, n in enumerate((1010, 990))],
        },
        "by_token": [group("token", name, 2000, wrong if name == "column 2" else 0) for name in COLUMNS],
    }


def make_document(
    kinds: tuple[str, ...] = ALL_KINDS,
    n_layers: int = 2,
    n_heads: int = 4,
    examples: list[tuple] | None = None,
    wrong: int = 3,
    seed: int = 0,
) -> dict[str, Any]:
    """A whole document, of an encoder-decoder on three-digit addition unless told otherwise."""
    random = np.random.default_rng(seed)
    heads = [
        make_head(random, kind, layer, index) for kind in kinds for layer in range(n_layers) for index in range(n_heads)
    ]
    return {
        "form": 1,
        "split": "test",
        "n": 2000,
        "baseline": {
            "n": 2000,
            "wrong": wrong,
            "exact_match": 1 - wrong / 2000,
            "interval": [0.996, 0.9995],
            "loss": 0.0125,
            "margin": 12.0,
            "margin_interval": [11.5, 12.5],
        },
        "heads": heads,
        "joint": {
            "elimination": make_elimination(heads),
            "removable": [{"limit": 1.0, "heads": ["x"] * 7}, {"limit": 5.0, "heads": ["x"] * 9}],
            "shapley": make_shapley(random, heads),
        },
        "interventions": make_interventions(random, heads),
        "anatomy": make_anatomy(wrong),
        "capture": make_capture(random, heads, EXAMPLES if examples is None else examples),
    }
