"""The specimens: healthy runs with exactly one planted fault each."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.attacks.attack import attack
from headway.batches import Batch
from headway.diagnosis.faults import (
    Healthy,
    altered,
    batch_of,
    changed,
    measured_again,
    pass_with_future,
    pass_with_padding,
    plain_loss,
    specimen,
    taught,
    without_instruments,
    without_start,
)
from headway.diagnosis.subject import Answers, Subject, score_of, subject_of
from headway.evaluation import load
from headway.length_analysis.measure import ON_VALIDATION
from headway.model.encodings.learned import Learned
from headway.model.transformer import Transformer
from headway.results.lengths import Checkpoint, LengthRow, Lengths, TrainingRange
from headway.statistics import wilson_interval
from headway.tasks import Examples
from headway.tasks.columns import operands
from headway.tasks.splits import problem_keys

Decode = Callable[[Examples, bool], Answers]
MEMORISED_EXAMPLES = 30
"""Training examples of the memorised specimen."""


@specimen("position-never-trained")
def no_start_token(healthy: Healthy) -> Subject:
    """Trained on target[:-1] -> target[1:] and decoded from token 0: the first digit is never predicted."""

    def loss(model: Transformer, batch: Batch) -> Tensor:
        return F.cross_entropy(model(without_start(batch.inputs)).flatten(0, -2), batch.target[:, 1:].flatten())

    trained = taught(healthy.sums, loss, steps=16)

    @torch.inference_mode()
    def forward(examples: Examples) -> Tensor:
        given = torch.zeros(len(examples), 1, dtype=torch.long)
        first = F.one_hot(given, len(trained.task.vocabulary)).float()
        return torch.cat([first, trained.model(without_start(batch_of(trained, examples).inputs))], dim=1)

    def decode(examples: Examples, cache: bool) -> Answers:
        written = np.zeros_like(examples.target)
        for column in range(1, written.shape[1]):
            written[:, column] = forward(Examples(examples.source, written))[:, column].argmax(-1).numpy()
        return written

    def looked_at(target: Answers) -> np.ndarray:
        return np.broadcast_to(np.arange(target.shape[1]) > 0, target.shape)

    wrong = replace(subject_of(trained), forward=forward, decode=decode, loss_positions=looked_at)
    return measured_again(without_instruments(wrong))


@specimen("special-token-is-symbol", "position-never-trained", "position-never-scored", "never-emits", "greedy-differs")
def padding_is_a_digit(healthy: Healthy) -> Subject:
    """The padding id is 0, which is also the digit 0: the loss and the score ignore every 0."""

    def loss(model: Transformer, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.inputs).flatten(0, -2), batch.target.flatten(), ignore_index=0)

    def score(predicted: Answers, target: Answers) -> np.ndarray:
        return np.asarray(((predicted == target) | (target == 0)).all(1))

    subject = subject_of(taught(healthy.sums, loss, steps=16))
    vocabulary = replace(subject.vocabulary, pad=0)
    return measured_again(
        replace(subject, vocabulary=vocabulary, score=score, loss_positions=lambda target: target != 0)
    )


@specimen("constant-answer")
def constant_answer(healthy: Healthy) -> Subject:
    """The classifier gives one class for every input; its accuracy is that class's share."""

    def always_first(model: Transformer) -> None:
        model.readout.weight.mul_(1e-3)
        model.readout.bias.copy_(torch.tensor([2.0, -2.0]))

    return altered(healthy.sequences, always_first)


@specimen("split-overlap")
def overlapping_splits(healthy: Healthy) -> Subject:
    """25 test problems are also in the training split, some of them written as b + a."""
    subject, digits = subject_of(healthy.sums), healthy.sums.task.options.digits
    test = subject.splits["test"]
    keys = problem_keys(subject.task, test.source)
    shared = test.take([row for row, key in enumerate(keys) if keys.count(key) == 1][:25])
    first, plus, second = np.split(shared.source, [digits, digits + 1], axis=1)
    swapped = Examples(np.concatenate([second, plus, first], axis=1), shared.target)
    parts = [subject.splits["train"], swapped.take(slice(0, 12)), shared.take(slice(12, None))]
    return replace(subject, splits={**subject.splits, "train": Examples.join(parts, subject.vocabulary.pad)})


@specimen("positions-unmoved")
def untrained_positions(healthy: Healthy) -> Subject:
    """The table of positions was never given to the optimiser: it is as at step 0."""
    initial = subject_of(healthy.sequences).initial
    assert initial is not None
    name = "encoding.table.weight"
    return altered(healthy.sequences, lambda model: model.get_parameter(name).copy_(initial[name]))


@specimen("rows-untrained")
def rows_past_training(healthy: Healthy) -> Subject:
    """Accuracy is measured at four times the training length, where all rows of the position table are untrained."""
    initial = subject_of(healthy.sequences).initial
    assert initial is not None
    name, longer = "encoding.table.weight", 4 * healthy.sequences.task.options.max_length
    own = healthy.sequences.model.get_parameter(name)
    more = torch.randn(longer - len(own), own.shape[1], generator=torch.Generator().manual_seed(0))

    def widen(model: Transformer) -> None:
        wider = torch.cat([own.detach(), more])
        assert isinstance(model.encoding, Learned)
        model.encoding.table = torch.nn.Embedding.from_pretrained(wider, freeze=False)

    subject = without_instruments(subject_of(changed(healthy.sequences, widen)))
    return replace(
        subject,
        initial={**initial, name: torch.cat([initial[name], more])},
        lengths=measured_at(subject, longer, ON_VALIDATION),
    )


@specimen("sees-the-future", "greedy-differs", "cache-disagrees")
def future_visible(healthy: Healthy) -> Subject:
    """The decoder's causal mask is off by one: each query sees the token that it should predict."""
    subject = subject_of(healthy.sums)
    return measured_again(replace(subject, forward=lambda examples: pass_with_future(healthy.sums, examples)))


@specimen("dropout-on")
def dropout_left_on(healthy: Healthy) -> Subject:
    """The model is measured in training mode, with dropout on."""
    return subject_of(changed(healthy.sequences, lambda model: model.train()))


@specimen("answers-shifted", "never-ends", "constant-answer", "greedy-differs")
def labels_shifted(healthy: Healthy) -> Subject:
    """Each token is trained to be the decoder's current input, not the next token."""

    def loss(model: Transformer, batch: Batch) -> Tensor:
        assert batch.inputs.prefix is not None
        return F.cross_entropy(model(batch.inputs).flatten(0, -2), batch.inputs.prefix.flatten())

    return measured_again(subject_of(taught(healthy.sums, loss, steps=36)))


@specimen("oracle-contradicts-targets", "checkpoint-mismatch")
def rows_shifted(healthy: Healthy) -> Subject:
    """The rows of sources and targets are shifted by one against each other."""
    subject = subject_of(healthy.sums)
    splits = {name: Examples(some.source, np.roll(some.target, 1, axis=0)) for name, some in subject.splits.items()}
    return measured_again(replace(subject, splits=splits))


@specimen("padding-changes-output")
def length_leaks(healthy: Healthy) -> Subject:
    """Padding is not masked: the output for a short sequence depends on the longer ones in its batch."""
    subject = subject_of(healthy.sequences)
    return measured_again(replace(subject, forward=lambda examples: pass_with_padding(healthy.sequences, examples)))


@specimen("cache-disagrees", "greedy-differs")
def wrong_cache(healthy: Healthy) -> Subject:
    """The keys and values in the cache are those of the next example in the batch."""
    subject = subject_of(healthy.sums)
    right = subject.decode
    assert right is not None

    def decode(examples: Examples, cache: bool) -> Answers:
        source = np.roll(examples.source, 1, axis=0) if cache else examples.source
        return right(Examples(source, examples.target), cache)

    return replace(subject, decode=decode)


@specimen("position-never-scored")
def position_not_scored(healthy: Healthy) -> Subject:
    """The score ignores the last digit."""
    subject = subject_of(healthy.sums)
    last = healthy.sums.task.options.digits

    def score(predicted: Answers, target: Answers) -> np.ndarray:
        return np.asarray(((predicted == target) | (np.arange(target.shape[1]) == last)).all(1))

    return measured_again(replace(subject, score=score))


@specimen("measured-on-training")
def memorised(healthy: Healthy) -> Subject:
    """Trained for long on 30 memorised sums; the reported validation was measured on them."""
    few = healthy.sums.examples("train").take(slice(0, MEMORISED_EXAMPLES))
    subject = subject_of(taught(healthy.sums, plain_loss, steps=60, examples=few))
    known = replace(subject, splits={**subject.splits, "train": few})
    told = measured_again(replace(known, splits={**known.splits, "validation": few}))
    return replace(known, metrics=told.metrics)


@specimen("oracle-contradicts-targets")
def wrong_targets(healthy: Healthy) -> Subject:
    """In every fifth test example the last digit of the target is off by one."""
    subject = subject_of(healthy.sums)
    test, last = subject.splits["test"], healthy.sums.task.options.digits
    target = test.target.copy()
    target[::5, last] = (target[::5, last] + 1) % 10
    return replace(subject, splits={**subject.splits, "test": Examples(test.source, target)})


@specimen("checkpoint-mismatch")
def other_checkpoint(healthy: Healthy) -> Subject:
    """The weights are of an earlier step than the metrics."""
    best = healthy.sequences
    steps = [step for step in best.directory.checkpoint_steps() if 0 < step != best.step]
    earlier = load(best.directory, checkpoint=min(steps), device="cpu")
    return replace(subject_of(earlier), step=best.step, recorded_step=best.step)


@specimen("weights-unmoved", "never-ends", "constant-answer")
def frozen_weights(healthy: Healthy) -> Subject:
    """The optimiser was given no parameters: all weights are those of step 0."""
    initial = subject_of(healthy.sums).initial
    assert initial is not None
    return altered(healthy.sums, lambda model: model.load_state_dict(dict(initial)))


@specimen("special-token-is-symbol")
def start_is_a_digit(healthy: Healthy) -> Subject:
    """The start token has the id of the digit 0."""
    subject = subject_of(healthy.sums)
    return replace(subject, vocabulary=replace(subject.vocabulary, bos=0))


@specimen("duplicate-examples")
def duplicate_examples(healthy: Healthy) -> Subject:
    """Every second training example is a copy of another."""
    subject = subject_of(healthy.sums)
    train = subject.splits["train"]
    return replace(subject, splits={**subject.splits, "train": train.take(np.arange(len(train)) // 2)})


@specimen("label-imbalance")
def label_by_length(healthy: Healthy) -> Subject:
    """Most short sequences are sorted and most long ones are not: the length predicts the class."""
    subject = subject_of(healthy.sequences)
    train = subject.splits["train"]
    lengths = (train.source != subject.vocabulary.pad).sum(1)
    kept = (lengths <= np.median(lengths)) == (train.target == 1)
    kept |= np.arange(len(train)) % 10 == 0
    return replace(subject, splits={**subject.splits, "train": train.take(kept)})


def answers_alone(healthy: Healthy, decode: Decode) -> Subject:
    """A subject with answers only: no model, no training."""
    whole = subject_of(healthy.sums)
    return Subject(
        name=whole.name,
        task=whole.task,
        vocabulary=whole.vocabulary,
        splits=whole.splits,
        score=score_of(whole.task),
        oracle=whole.oracle,
        decode=decode,
    )


@specimen("trivial-rule")
def no_carries(healthy: Healthy) -> Subject:
    """Answers are sums without carries, so only sums that have no carry are right."""
    task = healthy.sums.task

    def decode(examples: Examples, cache: bool) -> Answers:
        first, second = operands(examples.source, task.options.base)
        answers = task.answer(examples.source)
        answers[:, :-1] = np.pad((first + second) % task.options.base, ((0, 0), (0, 1)))[:, ::-1]
        return answers

    return answers_alone(healthy, decode)


@specimen("never-ends")
def endless_answers(healthy: Healthy) -> Subject:
    """Every sum is right, but the answer continues: the end token is never written."""
    task = healthy.sums.task

    def decode(examples: Examples, cache: bool) -> Answers:
        answers = task.answer(examples.source)
        return np.concatenate([answers[:, :-1], answers[:, :2]], axis=1)

    return answers_alone(healthy, decode)


@specimen("ignores-an-operand")
def operand_not_read(healthy: Healthy) -> Subject:
    """The source is cut after the first operand: the second never reaches the model."""
    task = healthy.sums.task

    def decode(examples: Examples, cache: bool) -> Answers:
        source = examples.source.copy()
        source[:, task.options.digits + 1 :] = 1
        return task.answer(source)

    return answers_alone(healthy, decode)


@specimen("curve-chosen-on-test")
def curve_chosen_on_test(healthy: Healthy) -> Subject:
    """The checkpoint with the best accuracy at the test lengths is reported."""
    subject = subject_of(healthy.sequences)
    longest = healthy.sequences.task.options.max_length
    return replace(subject, lengths=measured_at(subject, longest, "the test lengths"))


@specimen("held-but-broken")
def held_but_broken(healthy: Healthy) -> Subject:
    """lengths.json lists length 7 as held, but an attack found sequences of 7 elements that fail."""
    trained = healthy.sequences
    subject = subject_of(trained)
    longest = trained.task.options.max_length
    found = replace(measured_at(subject, longest, ON_VALIDATION), held={"swaps": longest}, length_held=longest)
    return replace(subject, lengths=found, attack=attack(trained, at=[longest], seconds=600, tries=400))


def measured_at(subject: Subject, length: int, chosen_on: str, step: int | None = None) -> Lengths:
    """A lengths.json of a run measured at one length."""
    row = LengthRow(
        length=length,
        set_name="swaps",
        trained=False,
        n=1_000,
        wrong=100,
        accuracy=0.9,
        interval=wilson_interval(900, 1_000),
        answer_shares={"0": 0.5, "1": 0.5},
    )
    return Lengths(
        task=subject.task.name,
        run=subject.name,
        seed=subject.seed or 0,
        encoding="learned",
        checkpoint=Checkpoint(step=subject.step or 0 if step is None else step, chosen_on=chosen_on),
        unit="elements",
        training=TrainingRange(shortest=8, longest=16),
        n=row.n,
        threshold=0.99,
        rows=(row,),
        held={row.set_name: 0},
        length_held=0,
    )
