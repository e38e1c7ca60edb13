"""All analyses of a run's heads in one document: `headway heads` and `hw.heads`."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from headway.callbacks import OnStepProgress
from headway.errors import InputError, suggestion
from headway.evaluation import EVALUATED, Trained, load
from headway.head_analysis.ablation import Ablation, SingleAblation
from headway.head_analysis.capture import capture_examples
from headway.head_analysis.head_runs import KINDS
from headway.head_analysis.instrument import Analysis, Clock, Subject
from headway.head_analysis.scores import HeadScores, Scoring, definitions, role_of
from headway.head_analysis.variants import heads_of
from headway.model.sites import Head as HeadName
from headway.model.sites import HeadSite
from headway.model.transformer import count_parameters
from headway.randomness import generator
from headway.results.analyses import ANALYSES, MAIN
from headway.results.heads import Head, HeadAnalysis, Settings, Sizes
from headway.tasks import Examples
from headway.tasks.splits import SPLITS, Split

RULES = 2
"""Version of the rules for verdicts and tests. Documents of other versions can be read, but are not reused."""
EXAMPLES = 2_000
"""Default number of examples."""
FEWEST = 20
MAPS = 3
"""Default number of examples whose attention is stored."""
CHECKED = 32
"""Examples on which the instruments are checked by greedy decoding."""
PERMUTATIONS = 20

ADDITION_COST = 930_000 * 12
"""Multiplications for one example of three-digit addition (parameters x tokens).

Budgets are counted in such examples.
"""
FASTER = {"cpu": 1, "cuda": 30}
THOROUGH = 10


def analyses() -> list[Analysis[Any]]:
    """All analyses, in the order in which they run."""
    return [cast(type[Analysis[Any]], ANALYSES.get(name))() for name in ANALYSES.names()]


def steps() -> list[str]:
    """The steps of all analyses, as named in progress and timings."""
    return [step for analysis in analyses() for step in analysis.steps or (analysis.name,)]


def analyse(
    run: Trained | str | Path,
    *,
    split: str = "test",
    examples: int = EXAMPLES,
    thorough: bool = False,
    maps: int = MAPS,
    progress: OnStepProgress = lambda part, done, total: None,
) -> HeadAnalysis:
    """Scores, ablation, joint ablation, activation patching and error analysis of a run; writes nothing.

    `maps` examples are captured with the attention of every head while they were decoded.

    >>> found = hw.heads("addition-seed0")   # doctest: +SKIP
    >>> found.top(3)                         # doctest: +SKIP
    """
    trained = run if isinstance(run, Trained) else load(run)
    if not heads_of(trained):
        raise InputError(f"{trained.directory.path} has no heads left; there is nothing to analyse")
    chosen = choose_examples(trained, split, examples)
    subject = Subject(trained, chosen, split, maps, choose_sizes(trained, chosen, thorough=thorough))
    clock = Clock(progress)
    for analysis in analyses():
        subject.found[analysis.name] = analysis.run(subject, clock)
    return document_of(subject, clock.seconds)


def document_of(subject: Subject, seconds: dict[str, float]) -> HeadAnalysis:
    """The results as one document."""
    trained, found, ablation = subject.trained, subject.found, SingleAblation.of(subject)
    known = {one.name for one in fields(Sizes)}
    return HeadAnalysis(
        run=str(trained.directory.path),
        step=trained.step,
        task=trained.task.name,
        seed=trained.config.seed,
        split=subject.split,
        device=trained.device.type,
        n=len(subject.examples),
        sizes=Sizes(**{step: size for step, size in subject.sizes.items() if step in known}),
        seconds=seconds,
        warnings=tuple(ablation.warnings()),
        baseline=ablation.baseline,
        definitions=definitions(trained.task),
        family=ablation.family,
        without_source=ablation.without_source,
        heads=tuple(_rows(subject)),
        prunable=ablation.prunable(),
        joint=found["joint"],
        interventions=found["interventions"],
        error_analysis=found["anatomy"],
        parts={name: one for name, one in found.items() if name not in MAIN and one is not None},
        capture=found["capture"],
        checks=found["checks"],
    )


def settings_of(trained: Trained, *, split: str, examples: int, thorough: bool, maps: int = MAPS) -> Settings:
    """What an analysis depends on besides the run: its settings, the checkpoint, the device and the rules."""
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
    trained: Trained, settings: Settings, progress: OnStepProgress = lambda part, done, total: None
) -> HeadAnalysis:
    """Analyse a run and write the result with its settings to heads.json, replacing an older one."""
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
    trained.directory.replace_analysis("heads", found, trained.step)
    return found


def keep_maps(trained: Trained, found: HeadAnalysis, settings: Settings) -> HeadAnalysis:
    """The same analysis with attention captured on another number of examples."""
    examples = choose_examples(trained, settings.split, settings.examples)
    captured = replace(found.capture, examples=capture_examples(trained, examples, settings.maps or MAPS))
    return keep(trained, replace(found, settings=settings, capture=captured))


def choose_examples(trained: Trained, split: str, n: int) -> Examples:
    """The examples of a split in their order, or a random sample if the split has more; `all` is the whole domain."""
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
    """A uniform random sample of the whole domain."""
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


def choose_sizes(trained: Trained, examples: Examples, *, thorough: bool) -> dict[str, int]:
    """How many examples each step uses.

    It depends on the model's size, the device and `thorough`, never on elapsed time.
    """
    tokens = examples.source.shape[1] + (examples.target.shape[1] if examples.target.ndim == 2 else 0)
    cost = count_parameters(trained.model) * tokens
    return sizes_by_cost(trained.model.sites, len(examples), cost, trained.device.type, thorough=thorough)


def sizes_by_cost(
    sites: Sequence[HeadSite], n: int, cost_of_one: int, device: str, *, thorough: bool
) -> dict[str, int]:
    """The same from what one example costs in multiplications."""
    permutations = PERMUTATIONS * (5 if thorough else 1)
    scale = ADDITION_COST / cost_of_one * FASTER.get(device, 1) * (THOROUGH if thorough else 1)
    sizes = {"examples": n, "permutations": permutations, "decoded": min(CHECKED, n)}
    for analysis in analyses():
        for step, cost in analysis.costs().items():
            passes = max(cost.passes(sites, permutations), 1)
            sizes[step] = int(np.clip(cost.budget * scale / passes, min(100, n // 2), cost.most(n)))
    return sizes


def _rows(subject: Subject) -> Iterator[Head]:
    model, ablation, scores = subject.trained.model, SingleAblation.of(subject), Scoring.of(subject)
    for site in model.sites:
        for head in site.heads:
            yield row_of(head, site.name, model.kinds[site.kind], ablation, scores, KINDS)


def row_of(
    head: HeadName, module: str, causal: bool, ablation: Ablation, scores: HeadScores, kinds: Sequence[str]
) -> Head:
    """What was measured of one head; `module` is its attention module."""
    name, (stack, layer, looks) = str(head), head.site.split(".")
    kind = "cross" if looks == "cross" else stack
    return Head(
        name=name,
        site=module,
        kind=kind,
        layer=int(layer),
        causal=causal,
        index=head.index,
        verdict=ablation.verdicts[name],
        role=role_of(kind, scores.means[name], scores.uniform[name]),
        scores=scores.means[name],
        deviations=scores.deviations[name],
        uniform=scores.uniform[name],
        ablation={kind: ablation.drops[kind][name] for kind in kinds},
    )
