"""The figures of heads, drawn from made-up documents of which only some parts are given."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from headway.reports import figures, weights
from tests.results.made_up_values import typed

R = TypeVar("R")


def from_document(draw: Callable[..., R]) -> Callable[..., R]:
    @wraps(draw)
    def drawn(document: Mapping[str, Any], *rest: Any) -> R:
        return draw(typed(document), *rest)

    return drawn


anatomy = from_document(figures.anatomy)
draw_all = from_document(figures.draw_all)
elimination = from_document(figures.elimination)
head_over_examples = from_document(figures.head_over_examples)
head_sheet = from_document(figures.head_sheet)
importance = from_document(figures.importance)
interventions = from_document(figures.interventions)
loss_changes = from_document(figures.loss_changes)
head_figures = from_document(figures.head_figures)
shapley = from_document(figures.shapley)
as_answer = from_document(weights.as_answer)
