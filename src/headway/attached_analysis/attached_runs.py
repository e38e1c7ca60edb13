"""A foreign model on given examples, as ablations ask for it (`HeadRuns`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.attached_analysis.examples import IGNORED, ModelExamples
from headway.attached_analysis.metrics import Metric, check_classes
from headway.attached_analysis.shared_prefix import SharedPrefix, mean_outputs
from headway.attachment.attached import Attached
from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.head_analysis.head_runs import RANDOM_PURPOSE, Rows, check_kinds
from headway.head_analysis.partial_forward import HeadMasks, Named, Replacement, patch_heads
from headway.head_analysis.variants import Outcomes, Scoreboard, ValueOf, others_of_equal_lengths
from headway.model.sites import HeadSite
from headway.randomness import generator

ReplacementOf = Callable[[ModelExamples, slice], Replacement]


@dataclass(frozen=True)
class Scale:
    """What the value of an example is divided by, and the sign that makes more better."""

    size: float
    sign: int


class AttachedRuns:
    """A foreign model, its examples and a metric."""

    def __init__(
        self,
        attached: Attached,
        examples: ModelExamples,
        metric: Metric,
        seed: int = 0,
        *,
        scale: float | None = None,
        patch_sources: ModelExamples | None = None,
    ):
        self.attached, self.examples, self.metric, self.seed = attached, examples, metric, seed
        self.sites = [HeadSite(site.heads[0].site, site.kept) for site in attached.sites if site.kept]
        self.patch_sources = patch_sources
        self._replacements: dict[str, ReplacementOf] = {}
        self._scale = metric.scale if scale is None else scale

    @property
    def largest_change(self) -> float | None:
        return None if self.metric.largest is None else self.metric.largest / self.scale

    @property
    def scale(self) -> float:
        """100 points of a drop in the metric's unit; where the metric has none, the size of the whole model's mean."""
        if self._scale is None:
            mean = float(np.abs(self.whole_values().mean()))
            if not mean > 0:
                raise InputError(f"the whole model's mean {self.metric.name} is 0; drops cannot be shares of it")
            self._scale = mean
        return self._scale

    def whole_values(self) -> np.ndarray:
        """The metric of each example with every head kept, in its own unit."""
        untouched = np.zeros((1, len(self.attached.heads)), dtype=np.int64)
        found = self._outcomes(untouched, [], lambda done, total: None, Scale(1.0, 1), keep_margin=False)
        return found.values[0].astype(np.float64)

    def __len__(self) -> int:
        return len(self.examples)

    def take(self, rows: Rows) -> "AttachedRuns":
        return AttachedRuns(self.attached, self.examples.take(rows), self.metric, self.seed, scale=self.scale)

    def answer_names(self, width: int) -> list[str]:
        return ["answer"] if width == 1 else [f"token {place}" for place in range(width)]

    def without_source(self) -> int:
        return int((self._partners() == np.arange(len(self))).sum())

    def run(
        self,
        masks: HeadMasks,
        kinds: Sequence[str] = ("zero",),
        progress: OnProgress = lambda done, total: None,
        *,
        keep_margin: bool = False,
    ) -> Outcomes:
        """The outcomes of each row of the masks; `patch` replaces a head's output by that on its paired example."""
        check_kinds([kind for kind in kinds if kind != "patch"])
        scale = Scale(self.scale if self.metric.value is not None else 1.0, self.metric.sign)
        replacements = [self._replacement(kind) for kind in kinds]
        if self.metric.scored is None:
            return self._generated(masks, replacements)
        return self._outcomes(masks, replacements, progress, scale, keep_margin=keep_margin)

    def _outcomes(
        self,
        masks: HeadMasks,
        replacements: Sequence[ReplacementOf],
        progress: OnProgress,
        scale: Scale,
        *,
        keep_margin: bool,
    ) -> Outcomes:
        boards: list[Scoreboard] = []
        for rows, part in self.examples.parts(self.attached.device):
            board = self._board(masks, [one(part, rows) for one in replacements], part, scale, keep_margin=keep_margin)
            boards.append(board)
            progress(rows.stop, len(self))
        width = max((board.tokens.shape[1] for board in boards), default=1)
        target = torch.cat([F.pad(board.tokens, (0, width - board.tokens.shape[1]), value=IGNORED) for board in boards])
        right = torch.cat([F.pad(b.token_right(), (0, width - b.tokens.shape[1]), value=True) for b in boards], 1)
        token_right = right.cpu().numpy()
        values = [board.value for board in boards if board.value is not None]
        margins = [board.margin for board in boards if board.margin is not None]
        return Outcomes(
            np.asarray(token_right.all(2)),
            token_right,
            torch.cat([board.loss for board in boards], 1).cpu().numpy(),
            (target != IGNORED).cpu().numpy(),
            margin=torch.cat(margins, 1).cpu().numpy() if margins else None,
            value=torch.cat(values, 1).double().cpu().numpy() if values else None,
        )

    @torch.no_grad()
    def _board(
        self, masks: HeadMasks, replacements: list[Replacement], part: ModelExamples, scale: Scale, *, keep_margin: bool
    ) -> Scoreboard:
        """One batch under every mask."""
        metric = self.metric
        assert metric.scored is not None
        positions = None if metric.positions is None else metric.positions(part)
        passes = SharedPrefix(self.attached, part, positions)
        whole = passes.whole()
        check_classes(metric, part, whole)
        scored, target = metric.scored(whole, part, whole)
        together = masks_together(part, whole)
        board = Scoreboard(
            len(masks), target, IGNORED, together, keep_margin=keep_margin, value_of=_value_of(metric, scored, scale)
        )

        def note(alike: np.ndarray, logits: Tensor) -> None:
            board.note(alike, metric.scored(logits, part, whole)[0])  # type: ignore[misc]

        passes.run(masks, replacements, note, together)
        board.score()
        return board

    # Replacements

    def _replacement(self, kind: str) -> ReplacementOf:
        if kind not in self._replacements:
            if kind in ("mean", "position-mean"):
                self._replacements.update(self._means())
            elif kind == "zero":
                nothing = {site.name: torch.zeros((), device=self.attached.device) for site in self.attached.sites}
                self._replacements[kind] = lambda part, rows: nothing
            elif kind == "patch":
                if self.patch_sources is None:
                    raise InputError("activation patching needs paired examples; give source=")
                self._replacements[kind] = self._outputs_of(self.patch_sources)
            else:
                self._replacements[kind] = self._outputs_of(self.examples.take(self._partners()))
        return self._replacements[kind]

    def _partners(self) -> np.ndarray:
        return others_of_equal_lengths(self.examples.lengths(), generator(self.seed, RANDOM_PURPOSE))

    def _outputs_of(self, others: ModelExamples) -> ReplacementOf:
        def replacement(part: ModelExamples, rows: slice) -> Replacement:
            return self.attached.head_outputs(others.take(rows).to(self.attached.device).arguments())

        return replacement

    @torch.no_grad()
    def _means(self) -> dict[str, ReplacementOf]:
        """The mean output of every head over all examples, and at each position; padding is left out."""
        sums: dict[str, Tensor] = {}
        counts: dict[str, Tensor] = {}
        for _, part in self.examples.parts(self.attached.device):
            arguments = part.arguments()
            real = self.attached.query_mask(arguments)
            for name, heads in self.attached.head_outputs(arguments).items():
                inside = real[name][:, :, None, None]
                for total, value in ((sums, (heads.double() * inside).sum(0)), (counts, inside.double().sum(0))):
                    total[name] = value + total[name] if name in total else value
        everywhere = mean_outputs(sums, counts)
        by_position = {name: (sums[name] / counts[name].clamp(min=1)).float() for name in sums}
        return {"mean": lambda part, rows: everywhere, "position-mean": lambda part, rows: by_position}

    # Generation

    def _generated(self, masks: HeadMasks, replacements: Sequence[ReplacementOf]) -> Outcomes:
        """Whether the text that the model generates is the label, mask by mask."""
        labels = self.examples.column("labels", self.metric.name)
        token_right = np.ones((len(masks), *labels.shape), dtype=bool)
        for rows, part in self.examples.parts(self.attached.device):
            filled = [one(part, rows) for one in replacements]
            for index, mask in enumerate(masks):
                token_right[index, rows] = self._generate(part, mask, filled)
        counted = (labels != IGNORED).cpu().numpy()
        right = np.asarray(token_right.all(2))
        return Outcomes(right, token_right, np.asarray(~right, dtype=np.float32), counted)

    @torch.no_grad()
    def _generate(self, part: ModelExamples, mask: np.ndarray, replacements: Sequence[Replacement]) -> np.ndarray:
        generate = getattr(self.attached.model, "generate", None)
        arguments = part.arguments()
        if not callable(generate) or not isinstance(arguments, dict):
            raise InputError("metric 'generated' needs a model with generate() and data with names, such as input_ids")
        labels = part.columns["labels"]
        edits, column = {}, 0
        for site in self.attached.sites:
            own = mask[column : column + site.n_heads]
            column += site.n_heads
            if own.any():
                edits[site.name] = _generation_edit(site, own, replacements)
        with self.attached.intervene(edits):
            written = generate(**arguments, max_new_tokens=labels.shape[1], do_sample=False)
        start = 1 if any(site.kind == "cross" for site in self.attached.sites) else part.inputs.shape[1]
        written = written[:, start : start + labels.shape[1]]
        written = F.pad(written, (0, labels.shape[1] - written.shape[1]), value=IGNORED)
        return ((written == labels) | (labels == IGNORED)).cpu().numpy()


def _generation_edit(site: Named, mask: np.ndarray, replacements: Sequence[Replacement]) -> Callable[[Tensor], Tensor]:
    return lambda heads: patch_heads(heads, site, mask, replacements)


def _value_of(metric: Metric, whole: Tensor, scale: Scale) -> ValueOf | None:
    value = metric.value
    if value is None:
        return None
    before = whole.float()

    def of(logits: Tensor, target: Tensor) -> Tensor:
        copies = len(logits) // len(before)
        return scale.sign * value(logits, target, before.repeat(copies, 1, 1)) / scale.size

    return of


TOKENS_AT_ONCE, LOGITS_AT_ONCE = 1 << 17, 1 << 30
"""Tokens and logits of all masks that run together on a GPU."""


def masks_together(part: ModelExamples, logits: Tensor) -> int:
    """How many masks fill a GPU; a CPU runs them one by one, which suits its cache."""
    if part.inputs.device.type == "cpu":
        return 1
    return max(1, min(TOKENS_AT_ONCE // (len(part) * part.tokens), LOGITS_AT_ONCE // max(1, logits.numel())))
