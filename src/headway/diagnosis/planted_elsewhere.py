"""More specimens: weights, steps and analyses of another run, and faults that are hard to see."""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.batches import Batch
from headway.callbacks import MetricsRow
from headway.diagnosis.faults import Healthy, altered, analysed, changed, measured_again, plain_loss, specimen, taught
from headway.diagnosis.planted import answers_alone, measured_at
from headway.diagnosis.subject import Answers, Subject, subject_of
from headway.length_analysis.measure import ON_VALIDATION
from headway.model.transformer import Transformer
from headway.results.heads import Baseline
from headway.results.schema import blank
from headway.tasks import Examples

NOISE = 0.2
"""Share of labels that the noisy loss replaces."""


@specimen("heads-alike")
def twin_heads(healthy: Healthy) -> Subject:
    """Two heads of a site have the same weights: one was copied over the other."""

    def copy(model: Transformer) -> None:
        own = model.get_submodule("encoder.0.own")
        for part in ("query", "key", "value"):
            weight = own.get_parameter(f"{part}.weight")
            half = len(weight) // 2
            weight[half:] = weight[:half]

    return altered(healthy.sums, copy)


@specimen("loss-not-explained")
def label_noise(healthy: Healthy) -> Subject:
    """A fifth of the labels were replaced in the loss; the data and all measurements have the right labels."""
    random, losses = torch.Generator().manual_seed(0), []

    def loss(model: Transformer, batch: Batch) -> Tensor:
        replaced = torch.rand(batch.target.shape, generator=random) < NOISE
        found = F.cross_entropy(model(batch.inputs), torch.where(replaced, 1 - batch.target, batch.target))
        losses.append(float(found.detach()))
        return found

    # At a higher learning rate single batches change the model so much that the loss depends on the number of threads.
    subject = subject_of(taught(healthy.short, loss, steps=150, lr=0.005))
    rows = [row for row in subject.metrics if "loss" in row]
    told = {row["step"]: value for row, value in zip(rows, losses[-len(rows) :], strict=True)}
    metrics: list[MetricsRow] = [
        {**row, "loss": told[row["step"]]} if "loss" in row else row for row in subject.metrics
    ]
    return measured_again(replace(subject, metrics=metrics))


@specimen("tokens-exchanged", "loss-not-explained")
def values_exchanged(healthy: Healthy) -> Subject:
    """At evaluation the embeddings of 2 and 17 are exchanged."""

    def exchange(model: Transformer) -> None:
        weight = model.embedding.weight
        weight[[2, 17]] = weight[[17, 2]].clone()

    subject = measured_again(subject_of(changed(healthy.short, exchange)))
    return replace(subject, weights=subject_of(healthy.short).weights)


@specimen("sorted-sample")
def sorted_prefix(healthy: Healthy) -> Subject:
    """The test split is the first 120 examples in sorted order."""
    subject = subject_of(healthy.sequences)
    both = Examples.join([subject.splits["train"], subject.splits["test"]], subject.vocabulary.pad)
    order = sorted(range(len(both)), key=lambda row: both.source[row].tolist())
    test = both.take(order[:120])
    return replace(subject, splits={**subject.splits, "train": both.take(order[120:]), "test": test})


@specimen("another-seed")
def checkpoints_of_another_seed(healthy: Healthy) -> Subject:
    """The checkpoints in the run directory are those of seed 5."""
    subject = subject_of(healthy.sums)
    assert subject.initialised is not None
    return replace(subject, initial=subject.initialised(5))


@specimen("another-seed")
def provenance_of_another_run(healthy: Healthy) -> Subject:
    """provenance.json belongs to a run with another seed."""
    return replace(subject_of(healthy.sums), provenance_seed=3)


@specimen("another-step")
def misfiled_checkpoint(healthy: Healthy) -> Subject:
    """The checkpoint of step 30 is in the directory of another step."""
    return replace(subject_of(healthy.sequences), recorded_step=30)


@specimen("weights-of-another-run")
def weights_of_another_run(healthy: Healthy) -> Subject:
    """The weights were trained from another seed and have exactly the loss in the metrics.

    They are trained and have the numbers of the metrics, but did not start from these initial weights.
    """
    subject = subject_of(healthy.sums)
    assert subject.initialised is not None
    other = dict(subject.initialised(9))
    learned = changed(healthy.sums, lambda model: model.load_state_dict(other))
    return measured_again(subject_of(taught(learned, plain_loss, steps=48)))


@specimen("analysis-of-another-run")
def heads_of_another_seed(healthy: Healthy) -> Subject:
    """heads.json was copied from another seed."""
    return replace(subject_of(healthy.sums), heads=replace(analysed(healthy.sums), seed=4))


@specimen("analysis-of-another-run")
def heads_of_another_step(healthy: Healthy) -> Subject:
    """heads.json is of a step that this run did not validate."""
    return replace(subject_of(healthy.sums), heads=replace(analysed(healthy.sums), step=1_200))


@specimen("analysis-of-another-run")
def heads_of_a_newer_form(healthy: Healthy) -> Subject:
    """heads.json was written by a newer version, in a form that this version cannot read."""
    return replace(subject_of(healthy.sums), heads=replace(analysed(healthy.sums), form=9))


@specimen("analysis-of-another-run")
def heads_of_another_model(healthy: Healthy) -> Subject:
    """heads.json has other heads than the model."""
    found = analysed(healthy.sums)
    return replace(subject_of(healthy.sums), heads=replace(found, heads=found.heads[:-1]))


@specimen("analysis-of-another-run")
def heads_of_a_better_model(healthy: Healthy) -> Subject:
    """heads.json reports 99 % accuracy before ablation, but validation at its step was far lower."""
    found = replace(analysed(healthy.sums), split="test", baseline=blank(Baseline, accuracy=0.99))
    return replace(subject_of(healthy.sums), heads=found)


@specimen("analysis-of-another-run")
def lengths_of_another_step(healthy: Healthy) -> Subject:
    """lengths.json is of another step than the one with the best validation loss."""
    subject = subject_of(healthy.sequences)
    return replace(subject, best=60, lengths=measured_at(subject, 32, ON_VALIDATION, step=30))


# Harness


@specimen("not-finite", "checkpoint-mismatch")
def not_a_number(healthy: Healthy) -> Subject:
    """In every seventh example the logits are not a number."""
    subject = subject_of(healthy.sums)
    forward = subject.forward
    assert forward is not None

    def broken(examples: Examples) -> Tensor:
        logits = forward(examples).clone()
        logits[::7] = torch.nan
        return logits

    return replace(subject, forward=broken)


@specimen("dropout-on")
def noise_in_the_pass(healthy: Healthy) -> Subject:
    """Noise is added to every forward pass, with the model in evaluation mode."""
    subject = subject_of(healthy.sequences)
    forward = subject.forward
    assert forward is not None
    random = torch.Generator().manual_seed(0)

    def noisy(examples: Examples) -> Tensor:
        logits = forward(examples)
        return logits + 0.1 * torch.randn(logits.shape, generator=random)

    return measured_again(replace(subject, forward=noisy))


@specimen("position-never-trained")
def end_not_trained(healthy: Healthy) -> Subject:
    """The loss ignores the end token."""
    subject = subject_of(healthy.sums)
    return replace(subject, loss_positions=lambda target: target != healthy.sums.task.vocabulary.eos)


@specimen("position-never-scored")
def any_class_scored(healthy: Healthy) -> Subject:
    """Every sequence whose class is 0 is scored as right."""
    subject = subject_of(healthy.sequences)
    return measured_again(replace(subject, score=lambda predicted, target: (predicted == target) | (target == 0)))


@specimen("greedy-differs", "never-ends")
def another_start(healthy: Healthy) -> Subject:
    """Decoding starts with another token than training.

    Decoding starts with the end token instead of the start token.
    """
    trained = taught(healthy.sums, plain_loss, steps=60)
    vocabulary = replace(trained.task.vocabulary, bos=trained.task.vocabulary.eos)

    def fooled(model: Transformer) -> None:
        weight = model.embedding.weight
        weight[trained.task.vocabulary.bos] = weight[vocabulary.bos]

    subject, wrong = subject_of(trained), subject_of(changed(trained, fooled))
    return measured_again(replace(subject, decode=wrong.decode))


@specimen("weights-unmoved")
def one_layer_frozen(healthy: Healthy) -> Subject:
    """The optimiser was not given the second layer."""
    initial = subject_of(healthy.deep).initial
    assert initial is not None
    names = [name for name in initial if name.startswith("encoder.1.")]

    def freeze(model: Transformer) -> None:
        for name in names:
            model.get_parameter(name).copy_(initial[name])

    return altered(healthy.deep, freeze)


@specimen("split-overlap")
def validation_in_training(healthy: Healthy) -> Subject:
    """20 validation examples are also in the training split."""
    subject = subject_of(healthy.sequences)
    parts = [subject.splits["train"], subject.splits["validation"].take(slice(0, 20))]
    return replace(subject, splits={**subject.splits, "train": Examples.join(parts, subject.vocabulary.pad)})


@specimen("never-emits")
def digit_never_written(healthy: Healthy) -> Subject:
    """Every 1 is written as a 2; all other tokens are right."""
    task = healthy.sums.task

    def decode(examples: Examples, cache: bool) -> Answers:
        answers = task.answer(examples.source)
        return np.where(answers == 1, 2, answers)

    return answers_alone(healthy, decode)
