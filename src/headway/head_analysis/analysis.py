"""Everything about a run's heads in one document: what `headway heads` does, and `hw.heads` from Python."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from headway.errors import InputError, suggestion
from headway.evaluation import EVALUATED, Trained, load
from headway.head_analysis.ablation import KINDS, Ablation, ablate
from headway.head_analysis.anatomy import dissect
from headway.head_analysis.attribution import attribute
from headway.head_analysis.capture import DECIMALS, LONGEST_SHOWN, capture, commonest_layout, mean_weights
from headway.head_analysis.checks import check_instruments
from headway.head_analysis.interventions import groups_of, intervene_on_contrasts
from headway.head_analysis.scores import HeadScores, definitions, score_heads
from headway.head_analysis.together import (
    EXACT_HEADS,
    Ground,
    eliminate,
    measure_pairs,
    shapley,
    single_drops,
    which_pairs,
)
from headway.head_analysis.variants import heads_of
from headway.model.transformer import count_parameters
from headway.randomness import generator
from headway.results.attention import Capture, ExampleAttention
from headway.results.heads import Head, HeadAnalysis, Settings, Sizes
from headway.results.joint_ablation import JointAblation
from headway.tasks import Examples
from headway.tasks.splits import SPLITS, Split

RULES = 2
"""By which rules verdicts and tests are made. Documents of other rules can be read, but do not count as analysed."""
EXAMPLES = 2_000
"""Examples of the split that are used, unless told otherwise."""
FEWEST = 20
MAPS, MOST_MAPS = 3, 16
"""Examples whose attention is kept with the analysis, unless told otherwise, and the most that may be asked for."""
CHECKED = 32
"""Examples on which the instruments are checked by real decoding."""
PERMUTATIONS = 20
ENOUGH_RIGHT = 0.9
"""Below this accuracy a warning says that little can be lost."""
JOINT = ("elimination", "shapley", "shapley of all", "pairs")
PARTS = ("capture", "scores", "ablation", *JOINT, "interventions", "anatomy", "attribution", "checks")
"""The parts of an analysis, in their order."""

ADDITION_COST = 930_000 * 12
"""Multiplications of one example of three-digit addition: parameters x tokens. Budgets are in such examples."""
BUDGET = {"elimination": 300_000, "shapley": 130_000, "all_heads": 160_000, "pairs": 240_000, "interventions": 225_000}
"""Passes over one addition example that each part may take on a CPU; larger models get fewer examples."""
FASTER = {"cpu": 1, "cuda": 30}
THOROUGH = 10

Progress = Callable[[str, int, int], None]
"""Told of each part: its name, how much is done, out of how much."""


def analyse(
    run: Trained | str | Path,
    *,
    split: str = "test",
    examples: int = EXAMPLES,
    thorough: bool = False,
    maps: int = MAPS,
    progress: Progress = lambda part, done, total: None,
) -> HeadAnalysis:
    """Scores, ablation, heads together, interventions and error anatomy of a run; nothing is written.

    `maps` examples are captured with the attention of every head while they were decoded.

    >>> found = hw.heads("addition-seed0")   # doctest: +SKIP
    >>> found.top(3)                         # doctest: +SKIP
    """
    trained = run if isinstance(run, Trained) else load(run)
    if not heads_of(trained):
        raise InputError(f"{trained.directory.path} has no heads left; there is nothing to analyse")
    chosen = choose_examples(trained, split, examples)
    sizes = choose_sizes(trained, chosen, thorough=thorough)
    clock = _Clock(progress)
    with clock("capture"):
        captured = _capture(trained, chosen, split, maps)
    with clock("scores"):
        scores = score_heads(trained, chosen)
    with clock("ablation") as report:
        ablation = ablate(trained, chosen, report=report)
    joint = _joint(trained, chosen, sizes, clock)
    with clock("interventions") as report:
        interventions = intervene_on_contrasts(trained, sizes.interventions, report=report)
    with clock("anatomy"):
        errors = dissect(trained, chosen)
    with clock("attribution"):
        attribution = attribute(trained, chosen)
    with clock("checks"):
        checks = check_instruments(trained, chosen.take(slice(0, CHECKED)))
    return HeadAnalysis(
        run=str(trained.directory.path),
        step=trained.step,
        task=trained.task.name,
        seed=trained.config.seed,
        split=split,
        device=trained.device.type,
        n=len(chosen),
        sizes=sizes,
        seconds=clock.seconds,
        warnings=tuple(warnings_of(ablation)),
        baseline=ablation.baseline,
        definitions=definitions(trained.task),
        family=ablation.family,
        without_source=ablation.without_source,
        heads=tuple(_rows(trained, ablation, scores)),
        prunable=ablation.prunable(),
        joint=joint,
        interventions=interventions,
        error_analysis=errors,
        attribution=attribution,
        capture=captured,
        checks=checks,
    )


def settings_of(trained: Trained, *, split: str, examples: int, thorough: bool, maps: int = MAPS) -> Settings:
    """What an analysis depends on beside the run: how it was asked for, which checkpoint, which device, which rules."""
    return Settings(
        split=split,
        examples=examples,
        thorough=thorough,
        maps=None if maps == MAPS else maps,
        step=trained.step,
        device=trained.device.type,
        rules=RULES,
    )


def analyse_and_keep(
    trained: Trained, settings: Settings, progress: Progress = lambda part, done, total: None
) -> HeadAnalysis:
    """Analyse a run and write what was found, with its settings, in place of what the run's heads.json held."""
    found = analyse(
        trained,
        split=settings.split,
        examples=settings.examples,
        thorough=settings.thorough,
        maps=settings.maps or MAPS,
        progress=progress,
    )
    return keep(trained, replace(found, settings=settings))


def keep(trained: Trained, found: HeadAnalysis) -> HeadAnalysis:
    trained.directory.replace_analysis("heads", found.to_json(), trained.step)
    return found


def keep_maps(trained: Trained, found: HeadAnalysis, settings: Settings) -> HeadAnalysis:
    """An analysis with the attention of another number of examples; everything else stays as it was found."""
    examples = choose_examples(trained, settings.split, settings.examples)
    captured = replace(found.capture, examples=capture_examples(trained, examples, settings.maps or MAPS))
    return keep(trained, replace(found, settings=settings, capture=captured))


def warnings_of(ablation: Ablation) -> list[str]:
    """What a reader must know before believing a verdict."""
    share, found = ablation.baseline.accuracy, []
    if share < ENOUGH_RIGHT:
        found.append(
            f"the model gets {share:.1%} right as it is: no head can cost more than that, "
            "and small drops hide among answers that are wrong anyway"
        )
    if ablation.without_source:
        found.append(
            f"{ablation.without_source:,} examples have no other of their lengths: resample leaves them as they are"
        )
    return found


class _Clock:
    """Times each part and passes its progress on."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[Callable[[int, int], None]]:
        start = time.perf_counter()
        self.progress(part, 0, 1)
        yield lambda done, total: self.progress(part, done, total)
        self.seconds[part] = round(time.perf_counter() - start, 3)


def choose_examples(trained: Trained, split: str, n: int) -> Examples:
    """Examples of a split, in its order, or at random out of a split that has more; `all` is the whole domain."""
    if split not in EVALUATED:
        raise InputError(f"--split {split!r}; {suggestion(split, EVALUATED)}")
    if split == "all":
        return draw_from_domain(trained, n)
    if split == "train" and trained.config.data.fresh:
        raise InputError("--split train: this run drew fresh examples at every step and has no training set")
    found = trained.examples(cast(Split, split))
    if min(n, len(found)) < FEWEST:
        raise InputError(f"{min(n, len(found))} examples of the {split} split; at least {FEWEST} needed")
    if n >= len(found):
        return found
    return found.take(np.sort(generator(trained.config.data.seed, "analysed").permutation(len(found))[:n]))


def draw_from_domain(trained: Trained, n: int) -> Examples:
    """Examples drawn at random out of all that there are, each as likely as any other."""
    task, size = trained.task, trained.task.domain_size()
    if size is None:
        raise InputError(f"--split all: the domain of {task.name} is too large to list; use {', '.join(SPLITS)}")
    if min(n, size) < FEWEST:
        raise InputError(f"{min(n, size)} examples of the whole domain; at least {FEWEST} needed")
    wanted = np.zeros(size, dtype=bool)
    wanted[generator(trained.config.data.seed, "analysed").permutation(size)[:n]] = True
    found, start = [], 0
    for chunk in task.domain():
        found.append(chunk.take(wanted[start : start + len(chunk)]))
        start += len(chunk)
    together = Examples.join([part for part in found if len(part)], task.vocabulary.pad)
    # In a random order: parts that use fewer examples take the first ones.
    return together.take(generator(trained.config.data.seed, "analysed order").permutation(len(together)))


def choose_sizes(trained: Trained, examples: Examples, *, thorough: bool) -> Sizes:
    """How many examples each part uses: fixed by the model's size, the device and `thorough`, never by the clock."""
    heads, n = heads_of(trained), len(examples)
    tokens = examples.source.shape[1] + (examples.target.shape[1] if examples.target.ndim == 2 else 0)
    scale = ADDITION_COST / (count_parameters(trained.model) * tokens)
    scale *= FASTER[trained.device.type] * (THOROUGH if thorough else 1)
    largest_kind = min(EXACT_HEADS, max((len(group) for group in _by_kind(trained).values()), default=1))
    permutations = PERMUTATIONS * (5 if thorough else 1)
    variants = {
        "elimination": len(heads) * (len(heads) + 1) // 2,
        "shapley": 2**largest_kind,
        "all_heads": 2 ** len(heads) if len(heads) <= EXACT_HEADS else permutations * (len(heads) + 1),
        "pairs": len(which_pairs(heads)) + len(heads) + 1,
        "interventions": len(groups_of(trained)) * 15,
    }
    most = {"elimination": n // 2, "interventions": 5 * n}
    chosen = {
        part: int(np.clip(BUDGET[part] * scale / max(count, 1), min(100, n // 2), most.get(part, n)))
        for part, count in variants.items()
    }
    return Sizes(examples=n, permutations=permutations, decoded=min(CHECKED, n), **chosen)


def _by_kind(trained: Trained) -> dict[str, list[Any]]:
    kinds = dict.fromkeys(site.kind for site in trained.model.sites if site.kept)
    return {kind: [h for s in trained.model.sites if s.kind == kind for h in s.heads] for kind in kinds}


def _capture(trained: Trained, examples: Examples, split: str, maps: int) -> Capture:
    """Some examples, and the mean over those of one layout: of the whole split, where layouts differ."""
    captured = capture_examples(trained, examples, maps)
    if len(commonest_layout(trained, examples)) < len(examples) and split != "all":
        everything = trained.examples(cast(Split, split))
    else:
        everything = examples
    return Capture(decimals=DECIMALS, examples=captured, mean=mean_weights(trained, everything))


def capture_examples(trained: Trained, examples: Examples, maps: int) -> tuple[ExampleAttention, ...]:
    """The first so many examples while they are decoded; those too long to show are left out."""
    if not 1 <= maps <= MOST_MAPS:
        raise InputError(f"attention maps of {maps} examples; 1 to {MOST_MAPS} can be kept")
    shown = [found.result() for found in capture(trained, examples.take(slice(0, maps)))]
    return tuple(one for one in shown if max(len(one.source), len(one.prefix)) <= LONGEST_SHOWN)


def _joint(trained: Trained, examples: Examples, sizes: Sizes, clock: "_Clock") -> JointAblation:
    """Heads together: elimination, Shapley values by kind and over all heads, pairs."""
    random = generator(trained.config.data.seed, "together")
    order = random.permutation(len(examples))
    half = sizes.elimination
    with clock("elimination") as report:
        chosen_on, reported_on = (
            Ground(trained, examples.take(order[rows])) for rows in (slice(half), slice(-half, None))
        )
        found = eliminate(chosen_on, reported_on, single_drops(chosen_on), report)
    values = {}
    with clock("shapley") as report:
        ground = Ground(trained, examples.take(order[: sizes.shapley]))
        for kind, players in _by_kind(trained).items():
            values[kind] = shapley(ground, players, sizes.permutations, random, report)
    with clock("shapley of all") as report:
        ground = Ground(trained, examples.take(order[: sizes.all_heads]))
        values["all"] = shapley(ground, heads_of(trained), sizes.permutations, random, report)
    with clock("pairs") as report:
        pairs = measure_pairs(Ground(trained, examples.take(order[: sizes.pairs])), report)
    return JointAblation(**found._asdict(), shapley=values, pairs=pairs)


def _rows(trained: Trained, ablation: Ablation, scores: HeadScores) -> Iterator[Head]:
    for site in trained.model.sites:
        for head in site.heads:
            name = str(head)
            yield Head(
                name=name,
                site=site.name,
                kind=site.kind,
                layer=site.layer,
                causal=trained.model.kinds[site.kind],
                index=head.index,
                verdict=ablation.verdicts[name],
                role=role_of(site.kind, scores.means[name], scores.uniform[name]),
                scores=scores.means[name],
                deviations=scores.deviations[name],
                uniform=scores.uniform[name],
                ablation={kind: ablation.drops[kind][name] for kind in KINDS},
            )


LEAST_LIFT = 0.1


def role_of(kind: str, means: Mapping[str, float | None], even: Mapping[str, float | None]) -> str:
    """The kind of attention and the part a head favours most over spreading its attention evenly.

    `cross: carry` for a cross-attention head that puts 0.7 on the carry's columns where even attention would put
    0.3; `spread` where no part gets at least 0.1 more than its even share.
    """
    lifts = {part: mean - even[part] for part, mean in means.items() if mean is not None and even.get(part) is not None}  # type: ignore[operator]
    best = max(lifts, key=lambda part: lifts[part], default=None)
    return f"{kind}: {best}" if best is not None and lifts[best] >= LEAST_LIFT else f"{kind}: spread"
