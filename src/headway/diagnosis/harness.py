"""Checks of loss, scoring, masks, padding, decoding and checkpoints, independent of what the model has learned."""

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from headway.diagnosis.examination import Examination, apart
from headway.diagnosis.findings import Check, Verdict, error, fine
from headway.diagnosis.metrics import checkpoint_mismatch, measured_on_training
from headway.diagnosis.subject import Answers, widened
from headway.diagnosis.vocabulary import tokens_exchanged
from headway.evaluation import NEAR_TIE, disagreeing
from headway.narration.numbers import percent
from headway.randomness import generator
from headway.tasks import Examples

SAME_NUMBERS = 1e-4
"""Tolerance for the same operations in the same shapes: far above fp32 rounding, far below the effect of a leak."""
OTHER_SHAPES = 1e-3
"""Tolerance for the same numbers in other shapes; visible padding changes logits by tenths."""
ROWS_ALONE = 24
"""Rows that are run one by one and compared with the same rows in a batch."""
SHIFTED = 0.5
"""Share of answer tokens equal to a neighbour's target from which answers count as shifted; chance gives a tenth."""


def _columns(seen: Examination, width: int) -> list[str]:
    return seen.task.answer_names(width)


def position_never_trained(seen: Examination) -> Verdict | None:
    """The loss includes every token of every target."""
    look = seen.subject.loss_positions
    if look is None or seen.is_class:
        return None
    target, pad = seen.sample.target, seen.task.vocabulary.pad
    there = target != pad
    missed = there & ~look(target)
    names = _columns(seen, target.shape[1])
    whole = [names[column] for column in np.flatnonzero((missed.sum(0) == there.sum(0)) & there.any(0))]
    tokens = sorted({int(token) for token in np.unique(target[missed])})
    numbers = {"positions": whole, "missed": int(missed.sum()), "tokens": int(there.sum()), "n": len(target)}
    if whole:
        at = names.index(whole[0])
        values, counts = np.unique(target[there[:, at], at], return_counts=True)
        share = 1 - counts.max() / counts.sum()
        return error(
            f"The loss ignores {', '.join(whole)} of the answer, so the model does not learn it; one fixed token "
            f"there ({seen.task.vocabulary.tokens[int(values[counts.argmax()])]}) is wrong in {percent(share)} of "
            f"{len(target):,} {seen.measured} examples.",
            "Put a start token before the target, and include every target token in the loss.",
            share_wrong=float(share),
            **numbers,
        )
    if missed.any():
        names = [seen.task.vocabulary.tokens[token] for token in tokens]
        return error(
            f"The loss skips {missed.sum():,} of {there.sum():,} target tokens, all of them {', '.join(names[:6])}.",
            "Mask padding by its own id or by length, never by a token that answers can contain.",
            symbols=names,
            **numbers,
        )
    return fine(f"The loss includes all {there.sum():,} tokens of {len(target):,} targets.", **numbers)


def position_never_scored(seen: Examination) -> Verdict | None:
    """An answer with one wrong token is scored as wrong, for every position and every token."""
    target, score = seen.sample.target, seen.subject.score
    if seen.is_class:
        accepted = int(score((target + 1) % seen.task.n_classes, target).sum())
        return _scored(accepted, len(target), [], [])
    there = target != seen.task.vocabulary.pad
    symbols = np.unique(target[there])
    names, positions, tokens, accepted = _columns(seen, target.shape[1]), [], set(), 0
    for column in np.flatnonzero(there.any(0)):
        wrong = _with_another(target, int(column), symbols)
        missed = score(wrong, target) & there[:, column]
        accepted += int(missed.sum())
        tokens |= set(np.unique(target[missed, column]).tolist())
        if missed.sum() == there[:, column].sum():
            positions.append(names[column])
    shown = [seen.task.vocabulary.tokens[token] for token in sorted(tokens)]
    return _scored(accepted, int(there.sum()), positions, shown)


def _with_another(target: Answers, column: int, symbols: np.ndarray) -> Answers:
    """The targets with another token in one column."""
    found = target.copy()
    place = np.searchsorted(symbols, target[:, column]) % len(symbols)
    found[:, column] = symbols[(place + 1) % len(symbols)]
    return found


def _scored(accepted: int, planted: int, positions: list[str], tokens: list[str]) -> Verdict:
    if not accepted:
        return fine(f"All {planted:,} answers with one planted error are scored as wrong.", accepted=0, planted=planted)
    where = (
        f"any answer is right at {', '.join(positions)}"
        if positions
        else f"where the right token is {', '.join(tokens[:6])}"
    )
    return error(
        f"Scoring accepts {accepted:,} of {planted:,} answers with one planted error: {where}.",
        "Compare every token of the answer, including the end token; ignore only tokens after the end.",
        accepted=accepted,
        planted=planted,
        positions=positions,
        tokens=tokens,
    )


def not_finite(seen: Examination) -> Verdict | None:
    """Every logit is a finite number."""
    if seen.logits is None:
        return None
    bad, n = int((~seen.logits.isfinite()).flatten(1).any(1).sum()), len(seen.sample)
    if not bad:
        return fine(f"All logits of {n} examples are finite.", rows=0, n=n)
    return error(
        f"{bad} of {n} examples have logits that are infinite or not a number: their answers are meaningless.",
        "Find the weight or mask that is not finite: a row with every key masked, a rate too high, a log of 0.",
        rows=bad,
        n=n,
    )


def dropout_on(seen: Examination) -> Verdict | None:
    """The same examples give the same logits, twice and in another order."""
    forward = seen.subject.forward
    if forward is None:
        return None
    few = seen.few
    first, again = forward(few), forward(few)
    turned = forward(few.take(np.arange(len(few))[::-1])).flip(0)
    moved = max(apart(first, again), apart(first, turned))
    numbers = {"moved": moved, "training": seen.subject.training, "n": len(few)}
    if moved > OTHER_SHAPES:
        mode = "The model is in training mode while it is measured; the" if seen.subject.training else "The"
        return error(
            f"{mode} same {len(few)} examples passed again, or in another order, change their logits by {moved:.2g} of "
            f"their size.",
            "Switch dropout and every other noise off before measuring (model.eval() in PyTorch).",
            **numbers,
        )
    return fine(f"{len(few)} examples passed twice and in reverse give the same logits.", **numbers)


def sees_the_future(seen: Examination) -> Verdict | None:
    """The prediction of a token does not depend on that token or a later one."""
    forward = seen.subject.forward
    if forward is None or seen.is_class:
        return None
    few, names = seen.few, _columns(seen, seen.few.target.shape[1])
    before, leaks = forward(few), {}
    for column in _some_columns(few.target.shape[1]):
        after = forward(_other_future(seen, few, column))
        counts = torch.from_numpy(few.target[:, : column + 1] != seen.task.vocabulary.pad)
        moved = apart(before[:, : column + 1][counts], after[:, : column + 1][counts])
        if moved > SAME_NUMBERS:
            leaks[names[column]] = moved
    if not leaks:
        return fine(f"Changing answer tokens never changes earlier predictions ({len(few)} examples).")
    first, moved = next(iter(leaks.items()))
    return error(
        f"Changing {first} and what follows changes the predictions up to there, by {moved:.2g} of the logits' size: "
        "the decoder reads the answer that it should write.",
        "Check the causal mask (off by one?), and that the decoder reads start + target[:-1].",
        positions=list(leaks),
        moved=moved,
        n=len(few),
    )


def _some_columns(width: int, most: int = 8) -> list[int]:
    return sorted({int(column) for column in np.linspace(0, width - 1, min(width, most))})


def _other_future(seen: Examination, examples: Examples, column: int) -> Examples:
    """The same examples with other symbols from a column of the target on; padding is unchanged."""
    own = seen.task.vocabulary
    ends = (own.pad, own.bos, own.eos)
    symbols = np.setdiff1d(np.unique(examples.target), [token for token in ends if token is not None])
    target = examples.target.copy()
    later = (np.arange(target.shape[1]) >= column) & (target != own.pad)
    step = generator(0, "future").integers(1, max(2, len(symbols)), size=target.shape)
    place = (np.searchsorted(symbols, target) + step) % len(symbols)
    return Examples(examples.source, np.where(later, symbols[place], target))


def padding_changes_output(seen: Examination) -> Verdict | None:
    """A row gives the same logits alone and in a batch with longer rows."""
    forward = seen.subject.forward
    if forward is None:
        return None
    pad = seen.task.vocabulary.pad
    lengths = (seen.sample.source != pad).sum(1)
    if lengths.min() == lengths.max():
        return None
    longest = int(lengths.argmax())
    others = np.argsort(lengths, kind="stable")[: ROWS_ALONE - 1]
    rows = seen.sample.take([longest, *others[others != longest]])
    together = forward(rows)
    moved = 0.0
    for place, lone in enumerate(_alone(rows, pad)):
        width = (rows.target[place] != pad).sum() if rows.target.ndim == 2 else None
        moved = max(moved, apart(together[place][:width], forward(lone)[0][:width]))
    if moved <= OTHER_SHAPES:
        return fine(
            f"{len(rows)} sources of {lengths.min()} to {lengths.max()} tokens give the same logits alone.", n=len(rows)
        )
    return error(
        f"The logits of {len(rows)} sources change by {moved:.2g} of their size in a batch with longer ones: "
        "padding is visible to the model.",
        "Mask padding as a key in every attention and in the pooling.",
        moved=moved,
        n=len(rows),
    )


def _alone(rows: Examples, pad: int) -> Iterator[Examples]:
    """Each row by itself, without its padding."""
    for row in range(len(rows)):
        one = rows.take([row])
        source = one.source[:, : int((one.source != pad).sum())]
        target = one.target if one.target.ndim == 1 else one.target[:, : int((one.target != pad).sum())]
        yield Examples(source, target)


def cache_disagrees(seen: Examination) -> Verdict | None:
    """Decoding gives the same answers with the KV cache and without it."""
    decode = seen.subject.decode
    if decode is None:
        return None
    few = seen.few
    cached, plain = decode(few, True), decode(few, False)
    width = max(cached.shape[1], plain.shape[1])
    cached, plain = widened(cached, width, seen.pad), widened(plain, width, seen.pad)
    differ = (cached != plain).any(1)
    count, n = int(differ.sum()), len(few)
    if not count or not _is_real(seen, few, differ, (cached != plain).argmax(1), plain):
        return fine(f"{n} answers decoded with the cache and without agree.", disagreements=count, n=n)
    row = int(np.flatnonzero(differ)[0])
    return error(
        f"{count} of {n} answers differ with the cache and without, first "
        f"{seen.task.show(few.source[row], plain[row])} without and "
        f"{seen.task.show(few.source[row], cached[row]).rpartition('-> ')[2]} with it.",
        "Check positions and order of the cached keys, and that the cache is cleared between examples.",
        disagreements=count,
        n=n,
    )


def _is_real(seen: Examination, few: Examples, differ: np.ndarray, places: np.ndarray, plain: Answers) -> bool:
    """Whether some difference is larger than a near-tie in the teacher-forced pass over the written answer."""
    if seen.subject.forward is None:
        return True
    rows = np.arange(len(few))
    best = seen.subject.forward(Examples(few.source, plain))[rows, places].topk(2).values
    return bool(((best[:, 0] - best[:, 1]).numpy()[differ] > NEAR_TIE).any())


def greedy_differs(seen: Examination) -> Verdict | None:
    """Greedy decoding writes the predictions of the teacher-forced pass, up to the first wrong token."""
    if seen.logits is None or seen.predicted is None or seen.answers is None or seen.is_class:
        return None
    width = seen.target.shape[1]
    written, target = torch.from_numpy(seen.answers), torch.from_numpy(seen.target)
    predicted = torch.from_numpy(widened(seen.predicted, width, seen.pad))
    differ = disagreeing(written, predicted, target, seen.task.vocabulary.pad)
    rows = differ.any(1).nonzero().flatten()
    places = differ.int().argmax(1)[rows]
    best = F.pad(seen.logits, (0, 0, 0, width - seen.logits.shape[1]))[rows, places].topk(2).values
    real = best[:, 0] - best[:, 1] > NEAR_TIE
    parallel = float(seen.subject.score(predicted.numpy(), seen.target).mean())
    assert seen.right is not None
    greedy, n = float(seen.right.mean()), len(seen.sample)
    numbers = {"greedy": greedy, "parallel": parallel, "disagreements": len(rows), "n": n}
    if not real.any():
        return fine(
            f"{n} greedily decoded answers equal those of the teacher-forced pass ({percent(greedy)} right).",
            **numbers,
        )
    places = places[real]
    names = _columns(seen, width)
    common = int(places.mode().values)
    return error(
        f"Greedy decoding is right in {percent(greedy)}, the teacher-forced pass in {percent(parallel)} of {n} "
        "examples; "
        f"{int(real.sum())} answers differ although the prefix is right, mostly at {names[common]}, the earliest at "
        f"{names[int(places.min())]}. The two are equal for whole answers; a gap is a bug.",
        "Give decoding the start token and positions of training, and score both in the same way.",
        position=names[common],
        first_position=names[int(places.min())],
        real_disagreements=int(real.sum()),
        **numbers,
    )


def answers_shifted(seen: Examination) -> Verdict | None:
    """Each predicted token is that of its own position, not of a neighbouring one."""
    if seen.predicted is None or seen.is_class or seen.sample.target.shape[1] < 3:
        return None
    target, pad = seen.sample.target, seen.task.vocabulary.pad
    own = _share_alike(seen.predicted, target, pad)
    beside = {
        "before": _share_alike(seen.predicted[:, 1:], target[:, :-1], pad),
        "after": _share_alike(seen.predicted[:, :-1], target[:, 1:], pad),
    }
    which = max(beside, key=lambda name: beside[name])
    numbers = {"own": own, "neighbour": beside[which], "which": which, "n": len(target)}
    if beside[which] > SHIFTED and beside[which] > 2 * own:
        return error(
            f"{percent(beside[which])} of the predicted tokens are those of the position {which}, {percent(own)} those "
            "of their own: "
            f"labels are shifted by one ({len(target)} examples).",
            "Train on start + target[:-1] -> target: token t of the target is predicted from the tokens before it.",
            **numbers,
        )
    return fine(
        f"{percent(own)} of the predicted tokens are those of their own position, {percent(beside[which])} a "
        "neighbour's.",
        **numbers,
    )


def _share_alike(predicted: Answers, target: Answers, pad: int) -> float:
    there = target != pad
    return float((predicted == target)[there].mean()) if there.any() else 0.0


NOISY = ("not-finite", "dropout-on")
"""With noise or non-finite numbers in every pass, no two passes can be compared."""

ELSEWHERE = ("another-seed", "another-step", "weights-of-another-run")
"""Weights of another run give other numbers."""

HARNESS = (
    Check("not-finite", "harness", not_finite),
    Check("dropout-on", "harness", dropout_on, ("not-finite",)),
    Check("position-never-trained", "harness", position_never_trained),
    Check("position-never-scored", "harness", position_never_scored),
    Check("sees-the-future", "harness", sees_the_future, NOISY),
    Check("padding-changes-output", "harness", padding_changes_output, NOISY),
    Check("answers-shifted", "harness", answers_shifted, ("not-finite",)),
    Check("cache-disagrees", "harness", cache_disagrees, NOISY),
    Check("tokens-exchanged", "harness", tokens_exchanged, (*NOISY, "sees-the-future", "answers-shifted")),
    Check("measured-on-training", "harness", measured_on_training, NOISY),
    Check(
        "checkpoint-mismatch",
        "harness",
        checkpoint_mismatch,
        (*NOISY, "tokens-exchanged", "measured-on-training", *ELSEWHERE),
    ),
    Check("greedy-differs", "harness", greedy_differs, (*NOISY, "cache-disagrees")),
)
