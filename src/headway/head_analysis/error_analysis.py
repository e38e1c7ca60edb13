"""Error analysis: accuracy by difficulty, by token and by symbol, and the worst examples.

It uses the features and names of the task, and also works on a model with ablated heads.
"""

from collections.abc import Sequence

import numpy as np
import torch

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained, decode
from headway.head_analysis.ablation import as_row
from headway.head_analysis.handles import Edit, edits_of, intervene
from headway.head_analysis.head_runs import make_replacements
from headway.head_analysis.instrument import OneStep, Subject
from headway.head_analysis.variants import Outcomes, heads_of, run_variants
from headway.model.sites import Head
from headway.results.error_analysis import Answered, BySymbol, ByToken, ByValue, Confusion, ErrorAnalysis, Share
from headway.statistics import wilson_interval
from headway.tasks import Examples

WORST = 20
MOST_GROUPS = 12
"""A feature with more values than this is cut into ranges that hold about equally many examples."""
MOST_SYMBOLS = 16


class Errors(OneStep[ErrorAnalysis]):
    """The errors of the full model."""

    name, result = "anatomy", ErrorAnalysis

    def make(self, subject: Subject, progress: OnProgress) -> ErrorAnalysis:
        return analyse_errors(subject.trained, subject.examples)


def analyse_errors(trained: Trained, examples: Examples, without: Sequence[Head] = ()) -> ErrorAnalysis:
    """The error analysis of a model, or of the model with some heads zeroed."""
    heads = heads_of(trained)
    plan = as_row(heads, without)[None]
    outcomes = run_variants(
        trained, examples, plan, make_replacements(trained, examples, ["zero"])[0], keep_predicted=True
    )
    right = outcomes.right[0]
    features = trained.task.features(examples.source)
    return ErrorAnalysis(
        n=len(right),
        wrong=int((~right).sum()),
        ablated=tuple(map(str, without)),
        by_feature={name: by_value(value, right) for name, value in features.items()},
        by_token=_by_token(trained, outcomes),
        by_symbol=_by_symbol(trained, examples, right),
        confusion=_confusion(trained, examples, outcomes),
        worst=_worst(trained, examples, outcomes, without),
    )


def by_value(value: np.ndarray, right: np.ndarray) -> tuple[ByValue, ...]:
    """Accuracy for each value of a feature, or for ranges of it."""
    edges = values = np.unique(value)
    if len(values) > MOST_GROUPS:
        cuts = np.quantile(value, np.linspace(0, 1, MOST_GROUPS + 1)[:-1], method="lower")
        edges, times = np.unique(cuts, return_counts=True)
        # A value that fills more than one range stands alone: the next one begins another.
        following = np.searchsorted(values, edges[times > 1], side="right")
        edges = np.union1d(edges, values[following[following < len(values)]])
    group = np.searchsorted(edges, value, side="right") - 1
    rows = []
    for index in range(len(edges)):
        inside = group == index
        low, high = int(value[inside].min()), int(value[inside].max())
        rows.append(ByValue(value=low if low == high else f"{low} to {high}", **vars(share(right[inside]))))
    return tuple(rows)


def share(right: np.ndarray) -> Share:
    n, good = len(right), int(right.sum())
    return Share(n=n, wrong=n - good, accuracy=good / n if n else None, interval=wilson_interval(good, n))


def _by_token(trained: Trained, outcomes: Outcomes) -> tuple[ByToken, ...]:
    names = trained.task.answer_names(outcomes.counted.shape[1])
    return tuple(
        ByToken(token=name, **vars(share(outcomes.token_right[0, outcomes.counted[:, place], place])))
        for place, name in enumerate(names)
        if outcomes.counted[:, place].any()
    )


def _by_symbol(trained: Trained, examples: Examples, right: np.ndarray) -> dict[str, tuple[BySymbol, ...]]:
    """Accuracy for each symbol at each source position, if there are few of both."""
    vocabulary, width = trained.task.vocabulary, examples.source.shape[1]
    symbols = np.unique(examples.source[examples.source != vocabulary.pad])
    if width > MOST_SYMBOLS or len(symbols) > MOST_SYMBOLS:
        return {}
    names = trained.task.token_names(width)
    return {
        name: tuple(
            BySymbol(symbol=vocabulary.tokens[symbol], **vars(share(right[examples.source[:, place] == symbol])))
            for symbol in symbols
            if (examples.source[:, place] == symbol).any()
        )
        for place, name in enumerate(names)
    }


def _confusion(trained: Trained, examples: Examples, outcomes: Outcomes) -> dict[str, Confusion]:
    """The answered tokens (columns) for each right token (rows), at each position of the answer."""
    assert outcomes.predicted is not None
    is_class = trained.task.kind == "class"
    tokens = [str(k) for k in range(trained.task.n_classes)] if is_class else list(trained.task.vocabulary.tokens)
    target = examples.target.reshape(len(examples), -1)
    tables = {}
    for place, name in enumerate(trained.task.answer_names(target.shape[1])):
        there = outcomes.counted[:, place]
        if not there.any():
            continue
        wanted, answered = target[there, place], outcomes.predicted[0, there, place]
        labels = np.unique(np.concatenate([wanted, answered]))
        counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
        np.add.at(counts, (np.searchsorted(labels, wanted), np.searchsorted(labels, answered)), 1)
        tables[name] = Confusion(
            labels=tuple(tokens[label] for label in labels), counts=tuple(map(tuple, counts.tolist()))
        )
    return tables


def _worst(trained: Trained, examples: Examples, outcomes: Outcomes, without: Sequence[Head]) -> tuple[Answered, ...]:
    """The examples with the largest loss, wrong ones first, with the model's decoded answers."""
    order = np.lexsort((-outcomes.loss[0], outcomes.right[0]))[:WORST]
    chosen = examples.take(order)
    answers = answer_without(trained, chosen, without)
    rows = []
    for row, source, target, answer in zip(order, chosen.source, chosen.target, answers, strict=True):
        shown = trained.task.show(source, target), trained.task.show(source, answer)
        rows.append(
            Answered(
                example=shown[0],
                answered=shown[1].rpartition("-> ")[2],
                right=bool(outcomes.right[0, row]),
                loss=float(outcomes.loss[0, row]),
            )
        )
    return tuple(rows)


def answer_without(trained: Trained, examples: Examples, without: Sequence[Head]) -> np.ndarray:
    """The greedily decoded answers, with some heads zeroed by hooks."""
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    with intervene(trained.model, zeroing(trained, without)), torch.inference_mode():
        if trained.task.kind == "class":
            found = trained.model(batch.inputs).argmax(-1)
        else:
            found = decode(trained.model, trained.task, batch)
    return found.cpu().numpy()


def zeroing(trained: Trained, heads: Sequence[Head]) -> dict[str, Edit]:
    """Edits that zero heads, for each site."""
    nothing = {site.name: torch.zeros((), device=trained.device) for site in trained.model.sites}
    return edits_of(trained.model, as_row(heads_of(trained), heads), [nothing])
