"""Checks of a model of another program on given data: `hw.doctor(model, data=..., metric=...)`."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from headway.attached_analysis.checking import BESIDE, MIXED, by_other_examples
from headway.attached_analysis.examples import IGNORED, ModelExamples, read_data
from headway.attached_analysis.metrics import Metric, check_classes, find_metric, last_token
from headway.attachment.attached import Attached, attach
from headway.attachment.masks import call
from headway.diagnosis.attached_hooks import evaluation_mode, never_called, not_after_attention, without_effect
from headway.diagnosis.examination import FEW, ONE_BY_ONE, apart
from headway.diagnosis.findings import Check, Verdict, error, fine, run_checks, warning
from headway.errors import InputError, InstrumentError
from headway.results.doctor import Diagnosis

SAME = 1e-3
"""Tolerance relative to the size of the logits: other shapes round a thousand times less, faults change tenths."""
VERIFIED = 4
"""Examples on which hooks are verified."""
FEWEST_TO_MIX = 1 + max(map(max, BESIDE))
FEWEST = 20
"""Scored tokens that a statement about shares needs."""
NEARLY_ALL = 0.95
VISIBLE = 0.8
"""Share of labels that stand in the input at their own position: a masked language model that hides 15 % shows 85 %."""
CERTAIN = 0.9
"""Mean probability of a repeated token above which the repetition was learned."""


class AttachedExamination:
    """A model, a few examples and a metric; all passes but those of `as_given` are in evaluation mode."""

    def __init__(self, attached: Attached, examples: ModelExamples, metric: Metric):
        self.attached, self.metric = attached, metric
        self.examples = examples.take(slice(0, FEW)).to(attached.device)
        self.inputs, self.real = self.examples.inputs, self.examples.real()
        self.is_decoder = all(site.kind == "decoder" for site in attached.sites)
        self.has_tokens = self.inputs.ndim == 2 and not self.inputs.is_floating_point()
        config = getattr(attached.module, "config", None)
        self.pad = getattr(config, "pad_token_id", None)
        self.end = getattr(config, "eos_token_id", None)

    @torch.no_grad()
    def as_given(self) -> Tensor:
        """The logits with every module in the mode in which it was given."""
        with self.attached.plain_pass():
            return self.attached.read(call(self.attached.model, self.examples.arguments()))

    @torch.no_grad()
    def logits_of(self, examples: ModelExamples) -> Tensor:
        with evaluation_mode(self.attached.module):
            return self.attached.run(examples.arguments())

    @cached_property
    def logits(self) -> Tensor:
        return self.logits_of(self.examples)

    def changed(self, name: str, column: Tensor) -> Tensor:
        """The logits with another column of the data."""
        columns = {**self.examples.columns, name: column}
        return self.logits_of(ModelExamples(columns, self.examples.positional))

    @cached_property
    def targets(self) -> Tensor | None:
        """The token that is right at each position of the logits, -100 where none is scored; None for classes."""
        if self.logits.ndim != 3:
            return None
        if self.metric.name.startswith("next_token"):
            if not self.has_tokens or self.logits.shape[:2] != self.inputs.shape:
                return None
            target = torch.full_like(self.inputs, IGNORED)
            both = self.real[:, 1:] & self.real[:, :-1]
            target[:, :-1] = self.inputs[:, 1:].masked_fill(~both, IGNORED)
            return target
        labels = self.examples.columns.get("labels") if self.metric.name == "accuracy" else None
        return labels if labels is not None and labels.shape == self.logits.shape[:2] else None

    @cached_property
    def answer(self) -> Tensor | None:
        """The first token of the answer that follows each prompt; None if the metric has no prompt."""
        if self.logits.shape[:2] != self.inputs.shape or not self.has_tokens:
            return None
        if self.metric.name == "logit_difference":
            self.examples.column("other", self.metric.name)
            return self.examples.column("answer", self.metric.name)
        labels = self.examples.columns.get("labels")
        if self.metric.name != "generated" or labels is None or labels.ndim != 2:
            return None
        first = (labels != IGNORED).int().argmax(1, keepdim=True)
        return labels.gather(1, first)[:, 0]

    @cached_property
    def column_read(self) -> str | None:
        """The column whose tokens stand at the positions of the logits: the decoder's, or the only one."""
        names = self.examples.positional or tuple(self.examples.columns)
        crossed = any(site.kind == "cross" for site in self.attached.sites)
        wanted = ("decoder_input_ids", "argument 1") if crossed else ("input_ids", "tokens", "x", "argument 0")
        return next((name for name in wanted if name in names), None)


def not_finite(seen: AttachedExamination) -> Verdict:
    """No logit is NaN."""
    rows = int(seen.logits.isnan().flatten(1).any(1).sum())
    if rows:
        fix = "Look for a division by zero, or for an overflow in half precision."
        return error(f"in {rows} of {len(seen.examples)} examples a logit is NaN", fix, rows=rows)
    return fine(f"no logit of {len(seen.examples)} examples is NaN")


def dropout_on(seen: AttachedExamination) -> Verdict:
    """Two passes on the same examples give the same logits."""
    by = apart(seen.as_given(), seen.as_given())
    if by <= SAME:
        return fine("two passes on the same examples give the same logits", apart=by)
    modules = seen.attached.module.named_modules()
    training = [path or "the model" for path, one in modules if one.training and not list(one.children())]
    mode = "no module is in training mode: noise is added by the model's own code"
    if training:
        mode = f"{len(training)} modules are in training mode, {training[0]} among them"
    fix = "Call model.eval() before measuring." if training else "Remove the random numbers from the forward pass."
    return error(f"two passes on the same examples differ by {by:.2g} of the logits' size; {mode}", fix, apart=by)


def examples_mixed(seen: AttachedExamination) -> Verdict | None:
    """The logits of an example do not depend on the examples beside it."""
    if len(seen.examples) < FEWEST_TO_MIX:
        return None
    with evaluation_mode(seen.attached.module):
        by = by_other_examples(seen.attached, seen.examples)
    if by <= SAME:
        return fine("other examples in a batch change no logit of the first", apart=by)
    what = f"other examples in a batch change the logits of the first by {by:.2g} of their size"
    return error(what, f"Give the model its examples as it reads them: {MIXED}.", apart=by)


def hook_silent(seen: AttachedExamination) -> Verdict:
    """The model calls the output projection of every site."""
    silent = never_called(seen.attached, seen.examples.take(slice(0, VERIFIED)).arguments())
    if silent:
        fix = "Name modules that the forward pass calls, with sites= of hw.attach."
        return error(f"the model never calls {', '.join(silent)}: a hook there measures nothing", fix, sites=silent)
    return fine(f"the model calls all {len(seen.attached.sites)} output projections")


def hook_misplaced(seen: AttachedExamination) -> Verdict:
    """The handle of every site is the head outputs of its attention."""
    part = seen.examples.take(slice(0, VERIFIED)).arguments()
    fix = "Name the output projections of the attention with sites= of hw.attach."
    if wrong := not_after_attention(seen.attached, part):
        what = f"the input of {', '.join(wrong)} is not the output of attention"
        return error(f"{what}: nothing leads from one to the other but other linear layers", fix, sites=wrong)
    try:
        with evaluation_mode(seen.attached.module):
            found = seen.attached.verify(part)
    except InstrumentError as problem:
        return error(str(problem), fix)
    if idle := without_effect(seen.attached, part):
        return error(f"no logit changes when all heads of {', '.join(idle)} are set to zero", fix, sites=idle)
    return fine(
        "zero at the handle of a head equals zero in its weights, at every site", weights_apart=found.weights_apart
    )


def padding_side(seen: AttachedExamination) -> Verdict | None:
    """A decoder is padded on a side that does not change its answers, and no padding token is scored."""
    if not seen.is_decoder or not seen.has_tokens:
        return None
    unmasked = _padding_taken_for_text(seen)
    if unmasked:
        what = f"{unmasked} of {len(seen.examples)} examples end with padding that the attention mask calls real"
        return error(f"{what}: the last position is padding", "Give the tokenizer's attention_mask.", rows=unmasked)
    right = int((~seen.real[:, -1]).sum())
    if seen.metric.name == "generated":
        if not right:
            return fine("no prompt is padded on the right, where generation continues")
        what = f"{right} of {len(seen.examples)} prompts are padded on the right, and generation continues there"
        return error(what, 'Pad on the left: tokenizer.padding_side = "left".', rows=right)
    target = seen.targets
    scored = 0 if target is None else int(((target != IGNORED) & ~seen.real).sum())
    if scored:
        return error(f"{scored} scored positions are padding", "Set labels to -100 at padding.", positions=scored)
    return _padding_effect(seen, "Pad on the other side, or give position_ids that begin at the first real token.")


def padding_changes_output(seen: AttachedExamination) -> Verdict | None:
    """Padding in an encoder's input changes no logit of real tokens."""
    if seen.is_decoder or not seen.has_tokens:
        return None
    return _padding_effect(seen, "Mask padding in every attention and in the pooling.")


def _padding_taken_for_text(seen: AttachedExamination) -> int:
    """Rows whose last real token is the padding token; a single end token at the end may be text."""
    if not isinstance(seen.pad, int) or seen.inputs.shape[1] < 2:
        return 0
    last = last_token(seen.examples)
    is_pad = seen.inputs.gather(1, last)[:, 0] == seen.pad
    if seen.pad == seen.end:
        is_pad = is_pad & (seen.inputs.gather(1, (last - 1).clamp(min=0))[:, 0] == seen.pad)
    return int(is_pad.sum())


def _padding_effect(seen: AttachedExamination, fix: str) -> Verdict:
    """Padded rows against the same rows alone, without their padding."""
    padded = [row for row in range(len(seen.examples)) if 0 < int(seen.real[row].sum()) < seen.real.shape[1]]
    if not padded:
        return fine("no example is padded", rows=0)
    side = "left" if bool((~seen.real[:, 0]).any()) else "right"
    by = max(_apart_alone(seen, row) for row in padded[:ONE_BY_ONE])
    if by > SAME:
        what = f"padding on the {side} changes the logits of real tokens by {by:.2g} of their size"
        return error(what, fix, apart=by, rows=len(padded))
    return fine(f"padding on the {side} changes no logit of a real token", apart=by, rows=len(padded))


def _apart_alone(seen: AttachedExamination, row: int) -> float:
    real, width = seen.real[row], seen.real.shape[1]
    columns = {}
    for name, column in seen.examples.take(slice(row, row + 1)).columns.items():
        follows = column.ndim == 2 and column.shape[1] == width and not name.startswith("decoder_")
        columns[name] = column[:, real] if follows else column
    alone = seen.logits_of(ModelExamples(columns, seen.examples.positional))[0]
    whole = seen.logits[row]
    return apart(whole if whole.shape == alone.shape else whole[real], alone)


def answers_shifted(seen: AttachedExamination) -> Verdict | None:
    """Each prediction is scored against its own token, not against a neighbouring one."""
    target = seen.targets
    if target is None or int((target != IGNORED).sum()) < FEWEST:
        return None
    shares = {shift: _right_at(seen.logits, target, shift) for shift in (-1, 0, 1)}
    best = max((-1, 1), key=lambda shift: shares[shift])
    numbers = {"before": shares[-1], "in_place": shares[0], "after": shares[1]}
    if shares[best] < 0.5 or shares[best] < 2 * shares[0]:
        return fine(
            f"{shares[0]:.0%} of the tokens are right in place, at most {shares[best]:.0%} a token beside", **numbers
        )
    where = "before" if best == -1 else "after"
    beside = f"the logits one position {where} the scored one are right in {shares[best]:.0%}"
    what = f"{beside}, those scored in {shares[0]:.0%}"
    if best == 1 and _repeats_by_construction(seen):
        return warning(f"{what}: the model repeats the token that it reads", "Train the model first.", **numbers)
    fix = "Score logits[:, t] against the token that the model predicts there: labels[:, t] = input_ids[:, t + 1]."
    return error(what, fix, **numbers)


def _right_at(logits: Tensor, target: Tensor, shift: int) -> float:
    """The share of targets that the logits `shift` positions away give."""
    moved = logits.argmax(-1).roll(-shift, 1)
    counted = target != IGNORED
    if shift:
        counted = counted.clone()
        counted[:, -1 if shift > 0 else 0] = False
    return _share((moved == target)[counted])


def _share(flags: Tensor) -> float:
    return float(flags.float().mean()) if flags.numel() else 0.0


def _repeats_by_construction(seen: AttachedExamination) -> bool:
    """Whether input and output embedding are one matrix and no repetition is certain, as before training."""
    config = getattr(seen.attached.module, "config", None)
    if not getattr(config, "tie_word_embeddings", False):
        return False
    repeated = seen.logits.softmax(-1).gather(2, seen.inputs[..., None])[..., 0]
    return float(repeated[seen.real].mean()) < CERTAIN


def labels_in_prompt(seen: AttachedExamination) -> Verdict | None:
    """The model cannot read the answer in its input."""
    if seen.answer is not None:
        return _answer_in_prompt(seen, seen.answer)
    if seen.targets is None or seen.metric.name != "accuracy" or seen.column_read is None:
        return None
    read = seen.examples.columns[seen.column_read]
    scored = seen.targets != IGNORED
    if read.shape != seen.targets.shape or int(scored.sum()) < FEWEST:
        return None
    share = _share((read == seen.targets)[scored])
    if share < VISIBLE:
        return fine(f"{share:.0%} of the scored tokens are in the input at their own position", share=share)
    other = torch.where(scored, read[torch.randperm(len(read), generator=torch.Generator().manual_seed(0))], read)
    before, after = seen.logits.argmax(-1), seen.changed(seen.column_read, other).argmax(-1)
    moved = _share((before != after)[scored & (other != read)])
    return _leak(f"{share:.0%} of the scored tokens are in the input at their own position", share, moved)


def _answer_in_prompt(seen: AttachedExamination, answer: Tensor) -> Verdict:
    """The answer in the prompt; with few different answers it is a label, with many the task may be to copy."""
    there = (seen.inputs == answer[:, None]) & seen.real
    share = _share(there.any(1))
    at_end = _share(seen.inputs.gather(1, last_token(seen.examples))[:, 0] == answer)
    rival = seen.examples.columns["other"] if seen.metric.name == "logit_difference" else answer.roll(1)
    control = _share(((seen.inputs == rival[:, None]) & seen.real).any(1)[rival != answer])
    if share < NEARLY_ALL or (at_end < NEARLY_ALL and control >= 0.5):
        return fine(f"the answer is in {share:.0%} of the prompts", share=share, other_answers=control)
    swapped = torch.where(there, rival[:, None], seen.inputs)
    name = next(name for name, column in seen.examples.columns.items() if column is seen.inputs)
    before, after = (_prefers(seen, logits, answer, rival) for logits in (seen.logits, seen.changed(name, swapped)))
    moved = _share((before & ~after)[rival != answer])
    where = f"as their last token in {at_end:.0%}"
    what = f"the answer is in {share:.0%} of the prompts ({where}), another one in {control:.0%}"
    few = len(answer.unique()) <= max(2, len(answer) // 4)
    if at_end >= NEARLY_ALL or few:
        return _leak(what, share, moved)
    return warning(f"{what}; this is right only if the task is to copy", "Remove the answers from the prompts.")


def _prefers(seen: AttachedExamination, logits: Tensor, answer: Tensor, rival: Tensor) -> Tensor:
    last = last_token(seen.examples)[..., None].expand(-1, -1, logits.shape[-1])
    final = logits.gather(1, last)[:, 0]
    return (final.gather(1, answer[:, None]) > final.gather(1, rival[:, None]))[:, 0]


def constant_answer(seen: AttachedExamination) -> Verdict | None:
    """A classifier gives more than one class where more than one is right."""
    labels = seen.examples.columns.get("labels")
    if seen.logits.ndim != 2 or labels is None or labels.ndim != 1 or len(labels) < FEWEST:
        return None
    given, right = seen.logits.argmax(-1).unique(), labels.unique()
    if len(given) == 1 and len(right) > 1:
        what = f"the model answers class {int(given[0])} in all {len(labels)} examples, where {len(right)} are right"
        return warning(f"{what}: no head can lower its accuracy", "Train the model, or look at its pooling.")
    return fine(f"the model gives {len(given)} classes in {len(labels)} examples")


def _leak(what: str, share: float, moved: float) -> Verdict:
    numbers = {"share": share, "moved": moved}
    fix = "Remove the answers from what the model reads."
    if moved < 0.5:
        return warning(f"{what}, but other tokens in their place change {moved:.0%} of the predictions", fix, **numbers)
    return error(f"{what}, and other tokens in their place change {moved:.0%} of the predictions", fix, **numbers)


RANDOM = ("dropout-on", "not-finite")
ATTACHED: tuple[Check, ...] = (
    Check("not-finite", "harness", not_finite),
    Check("dropout-on", "harness", dropout_on, unless=("not-finite",)),
    Check("examples-mixed", "harness", examples_mixed, unless=RANDOM),
    Check("hook-silent", "instruments", hook_silent, unless=RANDOM),
    Check("hook-misplaced", "instruments", hook_misplaced, unless=(*RANDOM, "hook-silent")),
    Check("padding-side", "harness", padding_side, unless=RANDOM),
    Check("padding-changes-output", "harness", padding_changes_output, unless=RANDOM),
    Check("answers-shifted", "harness", answers_shifted, unless=(*RANDOM, "padding-side")),
    Check("labels-in-prompt", "data", labels_in_prompt, unless=(*RANDOM, "padding-side", "answers-shifted")),
    Check("constant-answer", "model", constant_answer, unless=RANDOM),
)


def examine_model(model: nn.Module | Attached, data: Any, metric: str | Metric) -> Diagnosis:
    """The findings on a model of another program, errors first."""
    if data is None:
        raise InputError("hw.doctor of a model needs data: a batch, or a list of batches")
    attached = model if isinstance(model, Attached) else attach(model)
    chosen = find_metric(metric)
    seen = AttachedExamination(attached, read_data(data), chosen)
    if "labels" in chosen.reads and "labels" in seen.examples.columns:
        check_classes(chosen, seen.examples, seen.logits)
    findings = run_checks(ATTACHED, seen)
    return Diagnosis(run=type(attached.module).__name__, task=chosen.name, step=None, findings=findings)
