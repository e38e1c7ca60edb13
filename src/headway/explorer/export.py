"""Exports a run as one JSON document for the page: the model, its tables, examples and findings."""

from copy import deepcopy
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch

from headway.batches import make_batch
from headway.errors import InputError
from headway.evaluation import Trained, evaluate_examples
from headway.explorer.document import (
    Counted,
    ExampleOfPage,
    ModelOfPage,
    PairOfPage,
    RunDocument,
    SiteOfPage,
    Tables,
    TaskOfPage,
)
from headway.explorer.encoding_tables import Span, TooLarge, add_tables
from headway.explorer.findings import (
    Warn,
    failing_inputs,
    head_findings,
    ignore,
    length_findings,
    training_findings,
)
from headway.explorer.packing import PRECISIONS, Pack
from headway.head_analysis.analysis import EXAMPLES as ANALYSED
from headway.head_analysis.partial_forward import PartialForward
from headway.head_analysis.variants import means
from headway.model.poolings.base import PoolingPage
from headway.model.transformer import Transformer, count_parameters
from headway.randomness import generator
from headway.tasks import Contrast, Examples, Task
from headway.tasks.pages import checked_page

EXAMPLES = 200
"""Test examples on which the page computes accuracy."""
LONGEST = 256
"""Smallest limit of source tokens on the page, for tasks without a length of their own."""
LARGEST_LONGEST = 1_024
SHORTEST_SEQUENCE = 2
MOST_PARAMETERS = 20_000_000
PAIRS = 4
MOST_CONTRASTS = 24
WIDEST_CONTRASTED = 64
"""Largest width of answers for which pairs are made, since sums have pairs for every two columns."""

FEATURES = ("mean", "max", "min", "first", "last", "smallest step", "mean step", "weighted")
"""Features that `Pooling.PAGE` may name; page/engine-passes.js has a function for each."""


def export_run(trained: Trained, *, precision: str = "fp16", warn: Warn = ignore) -> RunDocument:
    """The document of one run. Raises for parts that the page cannot compute, and warns of omitted parts."""
    if precision not in PRECISIONS:
        raise InputError(f"--precision {precision!r}; known: {', '.join(PRECISIONS)}")
    if trained.device.type != "cpu":
        trained = replace(trained, model=deepcopy(trained.model).to("cpu"))
    _check_size(trained.model)
    pooling = _pooling(trained.model)
    packed, span, tables = _pack_what_fits(trained, precision)
    test = trained.examples("test")
    examples = choose_examples(trained, test, span)
    _add_means(packed, trained, test.take(slice(0, ANALYSED)))
    heads = [str(head) for site in trained.model.sites for head in site.heads]
    return RunDocument(
        name=trained.directory.path.resolve().name,  # a path such as . has no name of its own
        seed=trained.config.seed,
        step=trained.step,
        task=_task(trained.task, span),
        vocabulary=trained.task.vocabulary,
        settings=_settings(trained),
        model=_model(trained.model, pooling, tables),
        sites=_sites(trained.model),
        examples=[_example(trained.task, examples, row) for row in range(len(examples))],
        accuracy=_accuracy(trained, examples),
        contrasts=_contrasts(trained),
        analysis=head_findings(trained.directory, trained.step, heads, warn),
        lengths=length_findings(trained.directory, trained.step, warn),
        over_training=training_findings(trained.directory, trained.step, heads, warn),
        failing=failing_inputs(trained.directory, trained.step, warn),
        weights=packed.packed(),
    )


def _check_size(model: Transformer) -> None:
    parameters = count_parameters(model)
    if parameters > MOST_PARAMETERS:
        raise InputError(
            f"the model has {parameters:,} parameters; a page can compute with at most {MOST_PARAMETERS:,}"
        )


def _pooling(model: Transformer) -> PoolingPage | None:
    if model.config.pooling is None:
        return None
    cls = type(model.pooling)
    # Of the class itself: one that derives from it may compute something else.
    found: PoolingPage | None = vars(cls).get("PAGE")
    if found is None:
        name = model.config.pooling.name
        raise InputError(f"the page cannot compute pooling {name!r}: class {cls.__name__} defines no PAGE")
    assert model.pooling is not None
    if option := model.pooling.not_on_a_page():
        raise InputError(f"the page cannot compute pooling {model.config.pooling.name!r} with {option}")
    strange = [name for name in found["features"] if name not in FEATURES]
    if strange:
        raise InputError(
            f"PAGE of {cls.__name__} has the feature {strange[0]!r}; known features: {', '.join(FEATURES)}"
        )
    return found


# Limits of the page


def _pack_what_fits(trained: Trained, precision: str) -> tuple[Pack, Span, Tables]:
    """Weights and tables for the longest sources whose tables fit into a page."""
    task, model = trained.task, trained.model
    within = reach(task)
    longer = [within.longest * eighths // 8 for eighths in (8, 6, 4, 3, 2)]
    for length in [*(one for one in longer if one > within.trained[1]), within.trained[1]]:
        span = Span(within.shortest, length, task.longest_answer(length))
        packed = Pack(precision)
        try:
            tables = add_tables(packed, task, model, span)
        except TooLarge:
            continue
        for name, values in model.state_dict().items():
            if not name.startswith("encoding."):
                packed.add(name, values.float().numpy())
        return packed, span, tables
    raise InputError(
        f"encoding {model.config.encoding.name!r} needs tables over the {within.trained[1]:,} tokens of its training "
        "that are too large for a page"
    )


@dataclass(frozen=True)
class Reach:
    """Numbers of source tokens: the smallest and largest on the page, and those of training."""

    shortest: int
    longest: int
    trained: tuple[int, int]


def reach(task: Task) -> Reach:
    """The lengths that the page supports; a task with one length has only that one."""
    try:
        plan = task.length_plan()
    except InputError:
        width = task.widths()[0]
        return Reach(width, width, (width, width))
    if plan.longest > LARGEST_LONGEST:
        raise InputError(
            f"the run was trained on {plan.longest:,} {plan.unit}; a page shows at most {LARGEST_LONGEST:,}"
        )
    shortest = min(plan.shortest, SHORTEST_SEQUENCE) if task.kind == "class" else plan.shortest
    longest = min(LARGEST_LONGEST, max(LONGEST, 2 * plan.longest))
    return Reach(shortest, longest, (plan.shortest, plan.longest))


def choose_examples(trained: Trained, found: Examples, span: Span) -> Examples:
    """Random examples, the same for every run of the same data."""
    order = generator(trained.config.data.seed, "explored").permutation(len(found))
    lengths = (found.source != trained.task.vocabulary.pad).sum(1)
    fits = [row for row in order if span.shortest <= lengths[row] <= span.longest]
    return found.take(np.array(fits[:EXAMPLES], dtype=np.int64))


# Parts of the document


def _add_means(packed: Pack, trained: Trained, found: Examples) -> None:
    """Each head's mean output over test examples, which mean ablation uses, as in `headway heads`."""
    batch = make_batch(trained.task, trained.model, found.take(slice(0, 1)), trained.device)
    mean, _ = means(trained, found)
    for site, values in mean(PartialForward(trained.model, batch.inputs), slice(0, 1)).items():
        packed.add(f"mean.{site}", values.float().numpy(), "fp32")


def _task(task: Task, span: Span) -> TaskOfPage:
    return TaskOfPage(
        name=task.name,
        kind=task.kind,
        page=checked_page(task),
        options=asdict(task.options),
        classes=task.n_classes,
        parts=list(task.PARTS),
        class_names=list(task.class_names()),
        answer_names=task.answer_names(span.answer),
        token_names=task.token_names(span.longest),
        shortest=span.shortest,
        longest=span.longest,
        trained=reach(task).trained,
        longest_answer=span.answer,
        longest_answers=[task.longest_answer(length) for length in range(span.shortest, span.longest + 1)],
    )


def _settings(trained: Trained) -> list[tuple[str, str | int]]:
    """The settings of the model, in the order of the page."""
    model = trained.model.config
    rows: list[tuple[str, str | int | None]] = [
        ("task", trained.task.name),
        ("shape", model.shape),
        ("encoding", model.encoding.name),
        ("pooling", model.pooling.name if model.pooling else None),
        ("width", model.d_model),
        ("heads", sum(len(site.kept) for site in trained.model.sites)),
        ("encoder layers", model.encoder_layers or None),
        ("decoder layers", model.decoder_layers or None),
        ("parameters", count_parameters(trained.model)),
        ("steps of training", trained.step),
        ("seed", trained.config.seed),
    ]
    return [(name, value) for name, value in rows if value is not None]


def _model(model: Transformer, pooling: PoolingPage | None, tables: Tables) -> ModelOfPage:
    config = model.config
    names = ("shape", "d_model", "n_heads", "d_head", "d_ff", "encoder_layers", "decoder_layers", "norm", "activation")
    return ModelOfPage(
        **{name: getattr(config, name) for name in (*names, "log_length_scale")},
        epsilon=torch.nn.LayerNorm(1).eps,
        position_kind=model.encoding.position_kind,
        pooling=pooling,
        tables=tables,
    )


def _sites(model: Transformer) -> list[SiteOfPage]:
    return [
        SiteOfPage(
            name=site.name,
            side=site.side,
            layer=site.layer,
            kind=site.kind,
            causal=model.kinds[site.kind],
            window=model.config.window_of(site.kind),
            kept=list(site.kept),
            heads=[str(head) for head in site.heads],
        )
        for site in model.sites
    ]


def _example(task: Task, examples: Examples, row: int) -> ExampleOfPage:
    pad, target = task.vocabulary.pad, examples.target[row]
    answer = int(target) if task.kind == "class" else target[target != pad].tolist()
    return ExampleOfPage(source=_without(examples.source[row], pad), target=answer)


def _without(tokens: np.ndarray, pad: int) -> list[int]:
    found: list[int] = tokens[tokens != pad].tolist()
    return found


def _accuracy(trained: Trained, examples: Examples) -> Counted:
    """The accuracy of the full model on the page's examples."""
    if not len(examples):
        return Counted(n=0, right=0)
    found = evaluate_examples(trained, "explored", iter([examples]), len(examples), decoded=0, shown=0)
    return Counted(n=found.n, right=found.n - found.wrong)


def _contrasts(trained: Trained) -> list[PairOfPage]:
    """Pairs that differ in one property, for activation patching."""
    task = trained.task
    if max(task.widths()[1:], default=0) > WIDEST_CONTRASTED:
        return []
    found = task.contrasts(generator(trained.config.data.seed, "explored pairs"), PAIRS)[:MOST_CONTRASTS]
    return [_pair(task, contrast, row) for contrast in found for row in range(len(contrast.base))]


def _pair(task: Task, contrast: Contrast, row: int) -> PairOfPage:
    base, patch_source = (
        _without(one.source[row], task.vocabulary.pad) for one in (contrast.base, contrast.patch_source)
    )
    return PairOfPage(
        name=contrast.name, about=contrast.about, token=contrast.token, base=base, patch_source=patch_source
    )
