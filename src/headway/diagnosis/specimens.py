"""Specimens: each known defect, built small, with the diagnosis that it must get.

The first five are those of the earlier reports. `headway doctor --specimens` shows them all: an exhibit, and a test of
the doctor.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from headway.diagnosis import planted, planted_elsewhere
from headway.diagnosis.faults import RECIPES, Healthy, healthy_runs
from headway.diagnosis.subject import Subject, subject_of
from headway.diagnosis.visit import examine
from headway.results.doctor import Exhibit, Finding, SpecimenDiagnosis

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Specimen:
    """A defect: what is wrong, the check that must be its first error, and errors that may follow from it."""

    name: str
    wrong: str
    expected: str
    build: Callable[[Healthy], Subject]
    follows: tuple[str, ...] = ()

    def diagnosed(self, findings: tuple[Finding, ...]) -> SpecimenDiagnosis:
        """The specimen with what the doctor says of it."""
        return SpecimenDiagnosis(
            name=self.name, wrong=self.wrong, expected=self.expected, follows=self.follows, findings=findings
        )


def exhibit(tell: Progress = lambda done, total: None) -> Exhibit:
    """Build every specimen and examine it."""
    shown = []
    with healthy_runs() as healthy:
        runs = {f"healthy-{name}": getattr(healthy, name) for name in RECIPES}
        controls = [examine(replace(subject_of(trained), name=name)) for name, trained in runs.items()]
        for done, specimen in enumerate(SPECIMENS, 1):
            found = examine(replace(specimen.build(healthy), name=specimen.name))
            shown.append(specimen.diagnosed(found.findings))
            tell(done, len(SPECIMENS))
    return Exhibit(controls=tuple(controls), specimens=tuple(shown))


SPECIMENS = (
    Specimen(
        "no-start-token",
        "Trained on target[:-1] -> target[1:] and decoded from token 0: the first digit is never predicted.",
        "position-never-trained",
        planted.no_start_token,
    ),
    Specimen(
        "padding-is-a-digit",
        "The padding id is 0, which is also the digit 0: the loss and the score leave out every 0.",
        "special-token-is-symbol",
        planted.padding_is_a_digit,
        follows=("position-never-trained", "position-never-scored", "never-emits", "greedy-differs"),
    ),
    Specimen(
        "constant-answer",
        "The classifier answers one class whatever it sees; its accuracy is that class's share.",
        "constant-answer",
        planted.constant_answer,
    ),
    Specimen(
        "overlapping-splits",
        "25 test problems are also in the training split, some of them written as b + a.",
        "split-overlap",
        planted.overlapping_splits,
    ),
    Specimen(
        "untrained-positions",
        "The table of positions was never given to the optimiser: it is that of step 0.",
        "positions-unmoved",
        planted.untrained_positions,
    ),
    Specimen(
        "rows-past-training",
        "Accuracy is measured at four times the training length, where the position table has rows of step 0 alone.",
        "rows-untrained",
        planted.rows_past_training,
    ),
    Specimen(
        "future-visible",
        "The decoder's mask is off by one: each query sees the token that it should write.",
        "sees-the-future",
        planted.future_visible,
        follows=("greedy-differs", "cache-disagrees"),
    ),
    Specimen(
        "dropout-left-on",
        "The model is measured in training mode, with dropout on.",
        "dropout-on",
        planted.dropout_left_on,
    ),
    Specimen(
        "labels-shifted",
        "Each token is trained to be the one that the decoder was just given, not the next.",
        "answers-shifted",
        planted.labels_shifted,
        follows=("never-ends", "constant-answer", "greedy-differs"),
    ),
    Specimen(
        "rows-shifted",
        "Each target stands beside the next example: the rows of sources and targets are shifted by one.",
        "oracle-contradicts-targets",
        planted.rows_shifted,
        follows=("checkpoint-mismatch",),
    ),
    Specimen(
        "length-leaks",
        "Padding is not masked: a short sequence reads how many longer ones stand beside it.",
        "padding-changes-output",
        planted.length_leaks,
    ),
    Specimen(
        "wrong-cache",
        "The keys and values in the cache are those of the neighbour in the batch.",
        "cache-disagrees",
        planted.wrong_cache,
        follows=("greedy-differs",),
    ),
    Specimen(
        "position-not-scored",
        "The score leaves out the last digit: any answer is right there.",
        "position-never-scored",
        planted.position_not_scored,
    ),
    Specimen(
        "memorised",
        "Trained for long on 30 sums, known by heart; what is called validation was measured on them.",
        "measured-on-training",
        planted.memorised,
    ),
    Specimen(
        "wrong-targets",
        "In every fifth test example the target is off by one in the last digit.",
        "oracle-contradicts-targets",
        planted.wrong_targets,
    ),
    Specimen(
        "silent-hook",
        "The hook at one site is attached to a module that the pass does not call.",
        "hook-silent",
        planted.silent_hook,
    ),
    Specimen(
        "weights-after-dropout",
        "Attention weights are read after dropout: they do not add up to one.",
        "weights-off-one",
        planted.weights_after_dropout,
    ),
    Specimen(
        "other-checkpoint",
        "The weights are those of an earlier step than the one that the metrics speak of.",
        "checkpoint-mismatch",
        planted.other_checkpoint,
    ),
    Specimen(
        "frozen-weights",
        "The optimiser was given no parameters: all weights are those of step 0.",
        "weights-unmoved",
        planted.frozen_weights,
        follows=("never-ends", "constant-answer"),
    ),
    Specimen(
        "endless-answers",
        "Every sum is right, and then the answer goes on: the end token is never written.",
        "never-ends",
        planted.endless_answers,
    ),
    Specimen(
        "start-is-a-digit",
        "The start token has the id of the digit 0.",
        "special-token-is-symbol",
        planted.start_is_a_digit,
    ),
    Specimen(
        "duplicate-examples",
        "Every second training example is a copy of another.",
        "duplicate-examples",
        planted.duplicate_examples,
    ),
    Specimen(
        "label-by-length",
        "Most short sequences are sorted and most long ones are not: the length tells the class.",
        "label-imbalance",
        planted.label_by_length,
    ),
    Specimen(
        "ablation-by-default",
        "The instrument's pass silences a head even when it is asked to keep all.",
        "walk-differs",
        planted.ablation_by_default,
    ),
    Specimen(
        "nothing-pruned",
        "A pruned model that still has all of its heads.",
        "pruned-differs",
        planted.nothing_pruned,
    ),
    Specimen(
        "hook-on-another-layer",
        "The hooks of two layers are exchanged: one head is asked for, another is silenced.",
        "hook-misplaced",
        planted.hook_on_another_layer,
    ),
    Specimen(
        "sweep-on-another-layer",
        "The sweep reports each layer's drops under the other layer's name.",
        "sweep-misplaced",
        planted.sweep_on_another_layer,
    ),
    Specimen(
        "sweep-on-another-head",
        "The sweep silences the head beside the one that it names.",
        "sweep-misplaced",
        planted.sweep_on_another_head,
    ),
    Specimen(
        "map-of-another-layer",
        "The attention maps of two layers are exchanged.",
        "map-misplaced",
        planted.map_of_another_layer,
    ),
    Specimen(
        "map-of-another-head",
        "The attention maps of two heads of one site are exchanged.",
        "map-misplaced",
        planted.map_of_another_head,
    ),
    Specimen(
        "cut-beside",
        "Pruning cuts out the head beside the one that it names.",
        "pruned-differs",
        planted.cut_beside,
    ),
    Specimen(
        "failed-instruments",
        "heads.json was kept although 198 of its ablated answers disagree with real decoding.",
        "checks-failed",
        planted.failed_instruments,
    ),
    Specimen(
        "no-carries",
        "Answers are sums without carries, right in every sum that has none.",
        "trivial-rule",
        planted.no_carries,
    ),
    Specimen(
        "operand-not-read",
        "The source is cut after the first operand: the second never reaches the model.",
        "ignores-an-operand",
        planted.operand_not_read,
    ),
    Specimen(
        "curve-chosen-on-test",
        "Of all checkpoints, the one with the best accuracy at the test lengths is reported.",
        "curve-chosen-on-test",
        planted.curve_chosen_on_test,
    ),
    Specimen(
        "twin-heads",
        "Two heads of a site have the same weights: one was copied over the other.",
        "heads-alike",
        planted_elsewhere.twin_heads,
    ),
    Specimen(
        "label-noise",
        "The loss saw a fifth of the labels replaced; the data, and every measurement, have the right ones.",
        "loss-not-explained",
        planted_elsewhere.label_noise,
    ),
    Specimen(
        "values-exchanged",
        "At evaluation the embeddings of 2 and 17 are exchanged.",
        "tokens-exchanged",
        planted_elsewhere.values_exchanged,
        follows=("loss-not-explained",),
    ),
    Specimen(
        "sorted-prefix",
        "The test split is the first 120 sums in sorted order.",
        "sorted-sample",
        planted_elsewhere.sorted_prefix,
    ),
    Specimen(
        "checkpoints-of-another-seed",
        "The checkpoints in the run directory are those of seed 5.",
        "another-seed",
        planted_elsewhere.checkpoints_of_another_seed,
    ),
    Specimen(
        "provenance-of-another-run",
        "provenance.json is that of a run with another seed.",
        "another-seed",
        planted_elsewhere.provenance_of_another_run,
    ),
    Specimen(
        "misfiled-checkpoint",
        "The checkpoint of step 30 lies under the name of another step.",
        "another-step",
        planted_elsewhere.misfiled_checkpoint,
    ),
    Specimen(
        "weights-of-another-run",
        "The weights were trained from another seed, and have the very loss that the metrics give.",
        "weights-of-another-run",
        planted_elsewhere.weights_of_another_run,
    ),
    Specimen(
        "heads-of-another-seed",
        "heads.json was copied from another seed.",
        "analysis-of-another-run",
        planted_elsewhere.heads_of_another_seed,
    ),
    Specimen(
        "heads-of-another-step",
        "heads.json is of a step that this run never had.",
        "analysis-of-another-run",
        planted_elsewhere.heads_of_another_step,
    ),
    Specimen(
        "heads-of-a-newer-form",
        "heads.json was written by a newer version, in a form that is not read here.",
        "analysis-of-another-run",
        planted_elsewhere.heads_of_a_newer_form,
    ),
    Specimen(
        "heads-of-another-model",
        "heads.json names other heads than the model has.",
        "analysis-of-another-run",
        planted_elsewhere.heads_of_another_model,
    ),
    Specimen(
        "heads-of-a-better-model",
        "heads.json begins with 99 % right, where validation of its step had a few.",
        "analysis-of-another-run",
        planted_elsewhere.heads_of_a_better_model,
    ),
    Specimen(
        "lengths-of-another-step",
        "lengths.json is of another step than the one that validation chose.",
        "analysis-of-another-run",
        planted_elsewhere.lengths_of_another_step,
    ),
    Specimen(
        "not-a-number",
        "In every seventh example the logits are not a number.",
        "not-finite",
        planted_elsewhere.not_a_number,
        follows=("checkpoint-mismatch",),
    ),
    Specimen(
        "noise-in-the-pass",
        "Noise is added to every pass, with the model in evaluation mode.",
        "dropout-on",
        planted_elsewhere.noise_in_the_pass,
    ),
    Specimen(
        "end-not-trained",
        "The loss leaves out the end token.",
        "position-never-trained",
        planted_elsewhere.end_not_trained,
    ),
    Specimen(
        "any-class-scored",
        "Every sequence whose class is 0 is scored as right.",
        "position-never-scored",
        planted_elsewhere.any_class_scored,
    ),
    Specimen(
        "another-start",
        "Decoding begins with another token than training.",
        "greedy-differs",
        planted_elsewhere.another_start,
        follows=("never-ends",),
    ),
    Specimen(
        "one-layer-frozen",
        "The optimiser was not given the second layer.",
        "weights-unmoved",
        planted_elsewhere.one_layer_frozen,
    ),
    Specimen(
        "validation-in-training",
        "20 validation examples are also in the training split.",
        "split-overlap",
        planted_elsewhere.validation_in_training,
    ),
    Specimen(
        "digit-never-written",
        "Every 1 is written as a 2, and all else is right.",
        "never-emits",
        planted_elsewhere.digit_never_written,
    ),
)
"""Every one has its own diagnosis as the first error; `tests/diagnosis/test_specimens.py` holds it."""
