"""`hw.heads`: the heads of a run, or of any model on given data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from headway.attached_analysis.attached_runs import AttachedRuns
from headway.attached_analysis.checking import check_examples_apart, check_instruments
from headway.attached_analysis.examples import read_data
from headway.attached_analysis.metrics import Metric, find_metric
from headway.attached_analysis.pair_patching import NOTHING, patch_pairs
from headway.attached_analysis.token_scores import PARTS, Names, capture, score_heads
from headway.attachment.attached import Attached, attach
from headway.callbacks import OnStepProgress
from headway.errors import InputError
from headway.evaluation import Trained
from headway.head_analysis import analysis
from headway.head_analysis.ablation import Ablation, ablate
from headway.head_analysis.analysis import row_of
from headway.head_analysis.head_runs import KINDS
from headway.head_analysis.instrument import Clock
from headway.head_analysis.joint import ablate_jointly
from headway.head_analysis.scores import definitions_of_parts
from headway.results.error_analysis import ErrorAnalysis
from headway.results.heads import HeadAnalysis, Sizes
from headway.results.heads import Metric as MeasuredMetric
from headway.statistics import moments_of, values_interval

FEWEST = analysis.FEWEST
CHECKED = 8
"""Examples on which the instruments are checked."""
STEPS = (
    "capture",
    "scores",
    "ablation",
    "elimination",
    "shapley",
    "shapley of all",
    "pairs",
    "interventions",
    "checks",
)
GENERATED_KINDS = ("zero", "mean")
SPLIT = "given"
"""What the split is called where data was given."""


def heads(
    model: Trained | str | Path | nn.Module | Attached,
    data: Any = None,
    metric: str | Metric = "accuracy",
    *,
    split: str = "test",
    examples: int = analysis.EXAMPLES,
    source: Any = None,
    kinds: Sequence[str] | None = None,
    tokenizer: Any = None,
    separators: Sequence[int] | None = None,
    seed: int = 0,
    thorough: bool = False,
    maps: int = analysis.MAPS,
    progress: OnStepProgress = lambda part, done, total: None,
) -> HeadAnalysis:
    """Which heads a run needs, or any model on given data, alone and together; nothing is written.

    A run has `split` and `examples`. Any model needs `data`, a batch or a list of them, and a `metric` per example, and
    takes the options of `heads_of_model`.

    >>> hw.heads("addition-seed0").top(3)                          # doctest: +SKIP
    >>> hw.heads(model, batches, "next_token_loss").top(3)         # doctest: +SKIP
    """
    if not isinstance(model, nn.Module | Attached):
        if data is not None:
            raise InputError("hw.heads of a run takes no data; choose a split of the run with split=")
        return analysis.analyse(model, split=split, examples=examples, thorough=thorough, maps=maps, progress=progress)
    if data is None:
        raise InputError("hw.heads of a model needs data: a batch, or a list of batches")
    return heads_of_model(
        model,
        data,
        metric,
        source=source,
        kinds=kinds,
        tokenizer=tokenizer,
        separators=separators,
        seed=seed,
        thorough=thorough,
        maps=maps,
        progress=progress,
    )


def heads_of_model(
    model: nn.Module | Attached,
    data: Any,
    metric: str | Metric = "accuracy",
    *,
    source: Any = None,
    kinds: Sequence[str] | None = None,
    tokenizer: Any = None,
    separators: Sequence[int] | None = None,
    seed: int = 0,
    thorough: bool = False,
    maps: int = analysis.MAPS,
    name: str | None = None,
    progress: OnStepProgress = lambda part, done, total: None,
) -> HeadAnalysis:
    """The heads of any model on given data.

    `source` are examples paired with those of `data`, from which activations are patched. `tokenizer` names tokens in
    attention maps, and its special tokens are separators unless `separators` are given. All random choices come from
    `seed`.
    """
    attached = model if isinstance(model, Attached) else attach(model)
    examples, chosen = read_data(data), find_metric(metric)
    if len(examples) < FEWEST:
        raise InputError(f"{len(examples)} examples; at least {FEWEST} needed")
    attached.logits(examples.take(slice(0, 2)).to(attached.device).arguments())
    check_examples_apart(attached, examples)
    runs = AttachedRuns(attached, examples, chosen, seed)
    chosen_kinds = _kinds(chosen, kinds, source)
    sizes = _sizes(attached, runs, thorough=thorough)
    clock, names = Clock(progress), names_of(tokenizer)
    with clock("capture"):
        captured = capture(attached, examples, maps, names)
    with clock("scores"):
        marks = list(getattr(tokenizer, "all_special_ids", ())) if separators is None else list(separators)
        scores = score_heads(attached, examples.take(slice(0, sizes["examples"])), marks)
    with clock("ablation") as told:
        ablation = ablate(runs, kinds=chosen_kinds, progress=told)
    joint = ablate_jointly(runs, sizes, clock)
    with clock("interventions") as told:
        patching = NOTHING if source is None else patch_pairs(runs, read_data(source), told)
    with clock("checks"):
        checks = check_instruments(runs, CHECKED)
    return HeadAnalysis(
        run=name or type(attached.module).__name__,
        step=0,
        task=chosen.name,
        seed=seed,
        split=SPLIT,
        device=attached.device.type,
        n=len(runs),
        sizes=Sizes(**{step: size for step, size in sizes.items() if step in Sizes.__dataclass_fields__}),
        seconds=clock.seconds,
        warnings=tuple(ablation.warnings()) if chosen.value is None else (),
        metric=_measured(runs),
        unit_of_drops=unit_of(runs),
        baseline=ablation.baseline,
        definitions=definitions_of_parts({part: PARTS[part] for part in PARTS if part != "separator" or marks}),
        family=ablation.family,
        without_source=ablation.without_source,
        heads=tuple(
            row_of(head, site.path, site.causal, ablation, scores, chosen_kinds)
            for site in attached.sites
            for head in site.heads
        ),
        prunable=ablation.prunable(),
        joint=joint,
        interventions=patching,
        error_analysis=_errors(ablation),
        capture=captured,
        checks=checks,
    )


def _kinds(metric: Metric, kinds: Sequence[str] | None, source: Any) -> tuple[str, ...]:
    """The kinds of ablation; in generated text only those that need no position of an example."""
    if metric.scored is not None:
        return tuple(kinds or KINDS)
    unfit = [kind for kind in kinds or () if kind not in GENERATED_KINDS]
    if unfit or source is not None:
        what = f"ablation {unfit[0]!r}" if unfit else "source="
        raise InputError(f"metric 'generated' with {what}; ablate by {' or '.join(GENERATED_KINDS)}, without source=")
    return tuple(kinds or GENERATED_KINDS)


def _sizes(attached: Attached, runs: AttachedRuns, *, thorough: bool) -> dict[str, int]:
    cost = sum(parameter.numel() for parameter in attached.module.parameters()) * runs.examples.tokens
    sizes = analysis.sizes_by_cost(runs.sites, len(runs), cost, attached.device.type, thorough=thorough)
    return {**sizes, "decoded": min(CHECKED, len(runs)), "interventions": 0}


def names_of(tokenizer: Any) -> Names:
    convert = getattr(tokenizer, "convert_ids_to_tokens", None)
    return (
        (lambda ids: [str(one) for one in convert(list(ids))])
        if callable(convert)
        else (lambda ids: list(map(str, ids)))
    )


def unit_of(runs: AttachedRuns) -> str:
    """What a point of a drop is."""
    metric = runs.metric
    if metric.value is None:
        return "points of accuracy (100 = everything)"
    if metric.scale is None:
        return f"% of the whole model's mean {metric.name.replace('_', ' ')}"
    return f"points of {metric.name.replace('_', ' ')} (100 = {metric.scale:g} {metric.unit})"


def _measured(runs: AttachedRuns) -> MeasuredMetric | None:
    metric = runs.metric
    if metric.value is None:
        return None
    moments = moments_of(runs.whole_values())
    low, high = values_interval(moments)
    return MeasuredMetric(
        name=metric.name,
        definition=metric.definition,
        unit=metric.unit,
        higher_is_better=metric.higher_is_better,
        mean=float(moments.mean),
        interval=(float(low), float(high)),
        scale=runs.scale,
        scale_of="the size of the whole model's mean" if metric.scale is None else "fixed",
    )


def _errors(ablation: Ablation) -> ErrorAnalysis:
    found = ablation.baseline
    return ErrorAnalysis(n=found.n, wrong=found.wrong, by_feature={}, by_token=(), by_symbol={}, confusion={}, worst=())
