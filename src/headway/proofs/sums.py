"""Proof of addition of two numbers of any length: the next token is right in every context, so the answer is right.

The proof is by induction over columns. At the units nothing is written yet. If every digit up to a column is right, the
query of the next digit is in one of the enumerated contexts. If the model is right in all of them, it writes the right
token there too, until the end.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.config import ModelConfig
from headway.errors import InputError
from headway.evaluation import Trained, decode
from headway.proofs import sum_check
from headway.proofs.claims import differs, other_subject
from headway.proofs.rounding import out_of_range
from headway.proofs.sum_allowance import Compiled, largest
from headway.proofs.sum_contexts import Context, Contexts, Group, Reach, contexts_of, groups, places
from headway.proofs.sum_tables import Tables
from headway.results.proof import Check, Counterexample, Proof, Rounding
from headway.tasks import Examples
from headway.tasks.addition_text import AdditionText
from headway.tasks.links import explorer_link

AT_ONCE = {"cpu": 1 << 14, "cuda": 1 << 21}
"""Contexts per batch."""
COMPILED_FROM = {"cpu": math.inf, "cuda": 1_000_000}
"""From this many contexts after the same digits on, the bound of rounding is compiled (half a minute): a proof has
hundreds of such groups."""
MOST_CONTEXTS = {"cpu": 20_000_000, "cuda": 20_000_000_000}
"""Largest number of contexts in one proof: more would take hours."""
LOW = 4.0
"""Margins below this are kept; for a larger rounding allowance they are computed again where they must be counted."""
KEPT, KEPT_AT_ONCE = 2_000, 20
"""Failing contexts that are turned into sums and run through the model: in all, and per batch."""
MEASURED, LONGEST_MEASURED = 60, 40
"""Random sums whose margins are computed both ways, and the digits of the longest number among them."""
ROWS = 200
"""Sums per batch."""
SHOWN = 5
REPEATED = 1e-6
"""Share by which the bound of rounding, in float64, may differ when it is computed again on another device."""
LOST = "Rounding errors could change a layer norm's deviation by half, so they have no bound."
SCOPE = "every sum of two numbers, of any lengths"


def prove(trained: Trained, progress: OnProgress) -> Proof:
    """Compute the margin of every context by tables, and run the sums of failing contexts through the model."""
    began = time.perf_counter()
    task, reach = reach_of(trained)
    total = sum(place.size for place in places(reach))
    _check_size(total, reach, trained.device)
    every = [group for place in places(reach) for group in groups(place)]
    margins = Margins(trained, task, reach)
    for group in every:
        margins.add(group, lambda done: progress(done, total))
    proof = Proof(
        task=task.name,
        run=str(trained.directory.path),
        seed=trained.config.seed,
        answer="undecided",
        scope=SCOPE,
        method=f"tables over every context of {reach.below + reach.above + 1} columns and the digits written before",
        contexts=total,
        contexts_by_kind=margins.counts,
        margin=margins.smallest if math.isfinite(margins.smallest) else None,
        worst_context=None if margins.worst is None else margins.worst.describe(),
        arithmetic=f"float64 on {trained.device.type}",
        seconds=time.perf_counter() - began,
    )
    return _judged(trained, margins, proof, every, lambda done: progress(done, 2 * total))


def check(trained: Trained, proof: Proof, progress: OnProgress) -> Check:
    """Verify a proof by real sums; a certificate with more than `MOST` contexts is rejected."""
    _, reach = reach_of(trained)
    reasons = list(other_subject(proof, trained, SCOPE))
    if proof.contexts > (most := sum_check.MOST[trained.device.type]):
        reasons.append(
            f"{proof.contexts:,} contexts are too many to check on this device (at most {most:,}; a GPU checks more)"
        )
    if reasons:
        method = sum_check.method(proof.contexts)
        return Check(certificate="", holds=False, reasons=tuple(reasons), contexts=0, method=method, seconds=0.0)
    found = sum_check.check(trained, proof, reach, lambda done, total: progress(done, 2 * total))
    if not found.holds:
        return found
    began = time.perf_counter()
    reason = allowance_too_small(trained, proof, lambda done: progress(proof.contexts + done, 2 * proof.contexts))
    seconds = found.seconds + time.perf_counter() - began
    return replace(found, seconds=seconds, holds=reason is None, reasons=() if reason is None else (reason,))


def allowance_too_small(trained: Trained, proof: Proof, report: Callable[[int], None]) -> str | None:
    """The reason to reject a certificate that allows less for rounding than the bound in some context needs."""
    task, reach = reach_of(trained)
    margins, claimed = Margins(trained, task, reach), 0.0 if proof.rounding is None else proof.rounding.allowance
    for group in (group for place in places(reach) for group in groups(place)):
        margins.bound(group, report)
        if not margins.allowance <= claimed * (1 + REPEATED):
            return f"it allows {claimed:.6g} logits for rounding; at least {margins.allowance:.6g} are needed"
    return None


def reach_of(trained: Trained) -> tuple[AdditionText, Reach]:
    """The task and the reach of its attention; raises for a model that cannot be proved."""
    task, config = trained.task, trained.config.model
    assert isinstance(task, AdditionText)
    for wrong, name, needed in (
        (config.shape != "encoder-decoder", f"model.shape = {config.shape!r}", "'encoder-decoder'"),
        (task.falling, f"task.order = {task.options.order!r}", "'least-significant-first'"),
        (config.encoding.name != "clipped", f"model.encoding = {config.encoding.name!r}", "'clipped'"),
        (trained.model.encoding.position_kind != "coupled", "model.encoding.positions", "'coupled'"),
        (config.causal_encoder, "model.causal_encoder = true", "false"),
        (config.norm != "pre", f"model.norm = {config.norm!r}", "'pre'"),
        (config.activation != "relu", f"model.activation = {config.activation!r}", "'relu'"),
        (config.log_length_scale, "model.log_length_scale = true", "false"),
    ):
        if wrong:
            raise InputError(f"{name}: a proof needs {needed}, so that the number of contexts is finite")
    if not any(site.kept for site in trained.model.sites if site.kind == "cross"):
        raise InputError("model.kept_heads: a proof of sums needs at least one head of cross-attention")
    layers = (config.encoder_layers, config.decoder_layers)
    if layers != (1, 1):
        raise InputError(
            f"{layers[0]} + {layers[1]} layers: a proof needs 1 + 1; another layer multiplies the contexts by thousands"
        )
    encoder, decoder, cross = (_window(config, kind) for kind in ("encoder", "decoder", "cross"))
    return task, Reach(encoder, decoder, cross, config.encoding.options["clip"])


def _window(config: ModelConfig, kind: str) -> int:
    window = config.window_of(kind)
    if window is None:
        raise InputError(f"model.{kind}_window is not set: a proof needs a window for each kind of attention")
    return window


def _check_size(total: int, reach: Reach, device: torch.device) -> None:
    if total > MOST_CONTEXTS[device.type]:
        raise InputError(
            f"{total:,} contexts of {reach.below + reach.above + 1} columns are too many for this device "
            f"(at most {MOST_CONTEXTS[device.type]:,}); use smaller windows or a GPU"
        )


class Margins:
    """Margins over contexts: the smallest, its context, and the margins below `LOW`."""

    def __init__(self, trained: Trained, task: AdditionText, reach: Reach):
        bos, eos = task.vocabulary.bos, task.vocabulary.eos
        assert bos is not None and eos is not None
        self.eos, self.device = eos, trained.device
        self.tables = Tables(trained.model, reach, bos)
        self.smallest = math.inf
        self.worst: Context | None = None
        self.done, self.allowance = 0, 0.0
        self.counts: dict[str, int] = {}
        self.low: list[Tensor] = []
        self.failing: list[tuple[float, Context]] = []

    @torch.inference_mode()
    def add(self, group: Group, report: Callable[[int], None]) -> None:
        """Compute the margins of all contexts of a group."""
        for contexts, margin in self._of(group):
            self._note(margin, contexts)
            self.done += len(margin)
            report(self.done)
        kind = group.place.describe()
        self.counts[kind] = self.counts.get(kind, 0) + group.size

    def _of(self, group: Group) -> Iterator[tuple[Contexts, Float[Tensor, " context"]]]:
        """The contexts of a group with their margins, in batches; a margin that is no number is below all others."""
        write = self.tables.writer(group.place, group.written)
        for contexts in group.contexts(self.device, AT_ONCE[self.device.type]):
            yield contexts, margins_of(write.logits(contexts), contexts.right(self.eos)).nan_to_num(-math.inf)

    @torch.inference_mode()
    def bound(self, group: Group, report: Callable[[int], None]) -> None:
        """Bound how far rounding can move the margins of a group."""
        write = self.tables.writer(group.place, group.written)
        bound = self.compiled if group.size >= COMPILED_FROM[self.device.type] else largest
        for contexts in group.contexts(self.device, AT_ONCE[self.device.type]):
            self.allowance = max(self.allowance, bound(write, contexts, self.eos))
            self.done += len(contexts.carry)
            report(self.done)

    @cached_property
    def compiled(self) -> Compiled:
        return Compiled()

    def _note(self, margin: Float[Tensor, " context"], contexts: Contexts) -> None:
        least = margin.min(0)
        if float(least.values) < self.smallest:
            self.smallest, self.worst = float(least.values), contexts.one(int(least.indices))
        if float(least.values) < LOW:
            self.low.append(margin[margin < LOW].float().cpu())
            worst = margin.topk(min(KEPT_AT_ONCE, len(margin)), largest=False)
            kept = [(float(margin[i]), contexts.one(i)) for i in worst.indices.tolist() if margin[i] <= 0]
            self.failing += kept

    @torch.inference_mode()
    def at_most(self, level: float, every: Sequence[Group] = ()) -> int:
        """The number of contexts of all groups with a margin of at most `level`."""
        if level < LOW:
            return sum(int((margins <= level).sum()) for margins in self.low)
        return sum(int((margin <= level).sum()) for group in every for _, margin in self._of(group))


def margins_of(logits: Float[Tensor, "row token"], right: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
    """The logit of the right token less the largest of the others."""
    own = logits.gather(1, right[:, None])
    others = logits.scatter(1, right[:, None], -math.inf).amax(1)
    return own[:, 0] - others


def _judged(
    trained: Trained, margins: Margins, proof: Proof, every: Sequence[Group], report: Callable[[int], None]
) -> Proof:
    """The answer: counterexample if the model answers sums wrongly, proved if all margins exceed the allowance."""
    found, searched = wrong_sums(trained, [context for _, context in sorted(margins.failing, key=_shortest)[:KEPT]])
    if found:
        first, *further = found
        return replace(
            proof,
            answer="counterexample",
            counterexample=first,
            further_counterexamples=tuple(further),
            searched=searched,
        )
    lost = out_of_range(trained.model)
    if lost is None:
        for group in every:
            margins.bound(group, report)
        lost = None if math.isfinite(margins.allowance) else LOST
    if lost is not None:
        return replace(proof, open_contexts=proof.contexts, searched=searched, missing=lost)
    measured, inputs = measured_difference(trained, margins.tables)
    rounding = Rounding(allowance=margins.allowance, measured=measured, inputs=inputs, strength="rigorous")
    if other := differs(rounding):
        return replace(proof, open_contexts=proof.contexts, searched=searched, rounding=rounding, missing=other)
    if rounding.allowance < margins.smallest:
        return replace(proof, answer="proved", rounding=rounding)
    return replace(
        proof,
        open_contexts=margins.at_most(rounding.allowance, every),
        searched=searched,
        rounding=rounding,
        missing=f"The smallest margin is not above the {rounding.allowance:.3g} logits allowed for rounding.",
    )


def _shortest(failing: tuple[float, Context]) -> tuple[int, float]:
    margin, context = failing
    return len(context.numbers()[0]), margin


def wrong_sums(trained: Trained, contexts: Sequence[Context]) -> tuple[list[Counterexample], int]:
    """The shortest sums of contexts that the model itself answers wrongly, and the number of sums run."""
    numbers = sorted({(len(a), tuple(a), tuple(b)) for a, b in (context.numbers() for context in contexts)})
    found: list[Counterexample] = []
    searched = 0
    for start in range(0, len(numbers), ROWS):
        rows = numbers[start : start + ROWS]
        searched += len(rows)
        examples = sums_of(trained, [(a, b) for _, a, b in rows])
        logits, target = teacher_forced(trained, examples)
        margin = (
            margins_of(logits.flatten(0, 1), target.flatten().clamp(min=0)).view(target.shape).nan_to_num(-math.inf)
        )
        margin = margin.masked_fill(target == trained.task.vocabulary.pad, math.inf)
        for row in torch.nonzero(margin.amin(1) <= 0)[:, 0].tolist():
            length, first, second = rows[row]
            found += _counterexamples(trained, sums_of(trained, [(first, second)]), length, margin[row])
            if len(found) == SHOWN:
                return found, searched
    return found, searched


def _counterexamples(
    trained: Trained, example: Examples, length: int, margin: Float[Tensor, " place"]
) -> Iterator[Counterexample]:
    """The sum, if greedy decoding answers it wrongly too; a tie of logits need not."""
    task, source = trained.task, example.source[0]
    expected = "".join(task.written(example.target[0]))
    batch = make_batch(task, trained.model, example, trained.device)
    answered = "".join(task.written(decode(trained.model, task, batch)[0].cpu().numpy()))
    if answered != expected:
        yield Counterexample(
            input=task.show(source).strip(),
            expected=expected,
            answered=answered,
            tokens=tuple(map(int, source)),
            length=length,
            margin=float(margin[torch.nonzero(margin <= 0)[0, 0]].clamp(min=torch.finfo(torch.float32).min)),
            link=explorer_link(task, source),
        )


def sums_of(trained: Trained, numbers: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Examples:
    """Sums as the task writes them, from numbers with their units first."""
    assert isinstance(trained.task, AdditionText)
    lengths = np.array([[len(a), len(b)] for a, b in numbers]).T
    rows = np.zeros((2, len(numbers), int(lengths.max())), dtype=np.int64)
    for row, pair in enumerate(numbers):
        for which, number in enumerate(pair):
            rows[which, row, : len(number)] = number
    return trained.task.encode(rows[0], rows[1], lengths[0], lengths[1])


@torch.inference_mode()
def teacher_forced(trained: Trained, examples: Examples) -> tuple[Float[Tensor, "row place token"], Tensor]:
    """The model's logits after each right prefix, and the right tokens."""
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    return trained.model(batch.inputs), batch.target


def measured_difference(trained: Trained, tables: Tables) -> tuple[float, int]:
    """The largest difference between margins of the model and of the tables, at one token of each random sum."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, LONGEST_MEASURED + 1, size=(MEASURED, 2))
    numbers = [(_random_number(random, a), _random_number(random, b)) for a, b in lengths.tolist()]
    logits, target = teacher_forced(trained, sums_of(trained, numbers))
    largest = 0.0
    for row, (a, b) in enumerate(numbers):
        found = contexts_of(tables.reach, a, b)
        at = int(random.integers(len(found)))
        own = margins_of(logits[row, at][None].double(), target[row, at][None])
        largest = max(largest, abs(float(own) - margin_at(tables, *found[at], target[row, at])))
    return largest, len(numbers)


def _random_number(random: np.random.Generator, length: int) -> list[int]:
    """Random digits, units first, without a leading 0 unless the number has one digit."""
    digits = random.integers(0, 10, size=length)
    digits[-1] = digits[-1] if length == 1 else random.integers(1, 10)
    return [int(digit) for digit in digits]


@torch.inference_mode()
def margin_at(tables: Tables, context: Context, written: tuple[int, ...], right: Tensor) -> float:
    """The margin of one context in the tables."""
    states = torch.tensor([context.states], device=tables.device)
    one = Contexts(context.place, states, torch.tensor([context.carry], device=tables.device), written)
    return float(margins_of(tables.writer(context.place, written).logits(one), right[None]))
