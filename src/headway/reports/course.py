"""`headway report --course DIR`: the JSON files and figures that the course asks for, from a run's documents."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from headway.errors import InputError
from headway.narration.heads import ranked_heads
from headway.reports.documents import Documents, RunDocuments, gather
from headway.reports.elimination import elimination
from headway.reports.importance import importance
from headway.reports.length_bars import bars as length_bars
from headway.reports.length_bars import plan_sets
from headway.reports.length_curves import curves, plan_panels
from headway.reports.positions import learned_table
from headway.reports.sections.accuracy import folder_name
from headway.reports.sections.lengths import groups
from headway.reports.style import METADATA, save
from headway.reports.training_curves import training_curves
from headway.reports.weights import head_sheet
from headway.results.course import (
    AblationResults,
    CourseAblation,
    CourseAblationRun,
    CourseEpoch,
    CourseHead,
    CourseHeadsRun,
    CourseJoint,
    CourseLengths,
    CourseTrainingRun,
    ExtrapolationResults,
    HeadSpecialization,
    TrainingLog,
)
from headway.results.heads import HeadAnalysis
from headway.results.joint_ablation import Removable
from headway.results.lengths import Lengths
from headway.results.schema import Document
from headway.runs import ReportDirectory, RunDirectory, check_outputs

MADE_BY = {
    "ablation_results.json": "headway heads",
    "head_specialization.json": "headway heads",
    "extrapolation_results.json": "headway lengths",
}
"""The command whose findings a file needs."""


@dataclass(frozen=True)
class CourseFiles:
    """The files that were written, and for each that was not the command that is missing."""

    files: list[str]
    missing: dict[str, str]


def course(*runs: str | Path | RunDirectory, out: str | Path, force: bool = False) -> CourseFiles:
    """Write training_log.json, ablation_results.json, head_specialization.json, extrapolation_results.json and figures.

    A file whose findings are not there is left out.
    """
    documents = gather(runs).documents
    place = ReportDirectory(out)
    if place.path.exists() and not place.path.is_dir():
        raise InputError(f"--course {place.path} is a file; a directory needed")
    made, drawn = dict(course_documents(documents)), dict(course_figures(documents))
    paths = [place.path / name for name in made]
    paths += [place.figures / f"{name}.{kind}" for name in drawn for kind in METADATA]
    check_outputs(paths, force=force)
    for name, document in made.items():
        place.write_document(name, document)
    written = [place.path / name for name in made]
    for name, draw in drawn.items():
        (place.figures / name).parent.mkdir(parents=True, exist_ok=True)
        written += save(draw(), place.figures, name)
    return CourseFiles([str(path) for path in written], {k: v for k, v in MADE_BY.items() if k not in made})


# Documents


def course_documents(documents: Documents) -> Iterator[tuple[str, Document]]:
    yield "training_log.json", TrainingLog(runs=tuple(map(training_of, documents.runs)))
    analysed = [(run, found) for run, found in documents.with_heads if all(head.ablation for head in found.heads)]
    if analysed:
        yield "ablation_results.json", AblationResults(runs=tuple(ablations_of(run, found) for run, found in analysed))
        runs = tuple(
            CourseHeadsRun(
                run=str(run.name),
                seed=found.seed,
                heads=tuple(CourseHead(head=one.name, role=one.role, scores=one.scores) for one in found.heads),
            )
            for run, found in analysed
        )
        yield "head_specialization.json", HeadSpecialization(definitions=analysed[0][1].definitions, runs=runs)
    if measured := documents.with_lengths:
        results = tuple(one for run, found in measured for one in extrapolation_of(run, found))
        yield "extrapolation_results.json", ExtrapolationResults(unit=measured[0][1].unit, results=results)


def training_of(run: RunDocuments) -> CourseTrainingRun:
    """The validations of a run, each with the mean training loss since the one before."""
    validations, losses = run.metrics.validation, run.metrics.training
    data, batch = run.config.get("data", {}), run.config.get("train", {}).get("batch_size")
    epoch_steps = None if data.get("fresh") or not batch else ceil(data["train"] / batch)
    rows, before = [], 0
    for one in validations:
        step = int(one["step"])
        own = [float(row["loss"]) for row in losses if before < row["step"] <= step]
        rows.append(
            CourseEpoch(
                step=step,
                epoch=None if epoch_steps is None else round(step / epoch_steps, 3),
                train_loss=fmean(own) if own else None,
                val_loss=float(one["loss"]),
                val_accuracy=float(one.get("accuracy") or 0.0),
            )
        )
        before = step
    return CourseTrainingRun(
        run=str(run.name), seed=int(run.config.get("seed", 0)), log=tuple(rows), jump_between=jump(rows)
    )


def jump(rows: Sequence[CourseEpoch]) -> tuple[int, int] | None:
    """Between which validations accuracy rose most."""
    rises = [(after.val_accuracy - before.val_accuracy, before.step, after.step) for before, after in pairwise(rows)]
    best = max(rises, default=(0.0, 0, 0))
    return (best[1], best[2]) if best[0] > 0 else None


def ablations_of(run: RunDocuments, found: HeadAnalysis) -> CourseAblationRun:
    heads, kind = ranked_heads(found)
    shares = found.prunable.get(kind)
    return CourseAblationRun(
        run=str(run.name),
        seed=found.seed,
        n=found.n,
        ablation=kind,
        baseline_accuracy=found.baseline.accuracy,
        heads=tuple(
            CourseAblation(
                head=head.name,
                attention=head.kind,
                layer=head.layer,
                index=head.index,
                accuracy=head.ablation[kind].accuracy,
                accuracy_drop=head.ablation[kind].drop,
                interval=head.ablation[kind].interval,
                loss_change_percent=head.ablation[kind].loss_change,
                verdict=head.verdict,
            )
            for head in heads
        ),
        prunable_under_1_point=None if shares is None else shares.under_1_point,
        prunable_under_5_points=None if shares is None else shares.under_5_points,
        prunable_under_1_percent_of_loss=None if shares is None else shares.under_1_percent_of_loss,
        together=tuple(map(joint_of, found.joint.removable)),
    )


def joint_of(row: Removable) -> CourseJoint:
    return CourseJoint(
        limit=row.limit,
        heads=tuple(row.heads),
        accuracy_drop=row.drop,
        interval=row.drop_interval,
        alone_under_limit=len(row.alone_under_limit.heads),
        alone_together_drop=row.alone_under_limit.drop,
    )


def extrapolation_of(run: RunDocuments, found: Lengths) -> Iterator[CourseLengths]:
    for name in found.sets:
        rows = found.of_set(name)
        yield CourseLengths(
            run=str(run.name),
            seed=found.seed,
            encoding=found.encoding,
            pooling=found.pooling,
            set_name=name,
            trained_on=(found.training.shortest, found.training.longest),
            accuracy={str(length): row.accuracy for length, row in rows.items()},
            interval={str(length): row.interval for length, row in rows.items()},
            constant_from=None if found.constant is None else found.constant.start,
        )


# Figures


def course_figures(documents: Documents) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """The figures under the names that the reports use; those of one run in its folder where there are several."""
    trained = [run for run in documents.runs if run.metrics.validation]
    if trained:
        metrics = [run.metrics for run in trained]
        yield "training_curves", partial(training_curves, [run.name for run in trained], metrics)
    for run, found in documents.with_heads:
        folder = "" if len(documents.runs) == 1 else f"{folder_name(run.name)}/"
        yield from heads_figures(folder, found)
    if documents.with_lengths:
        measured = groups(documents)
        for name, panels in plan_panels(measured):
            yield "_".join(filter(None, ["extrapolation_curves", name])), partial(curves, panels)
        for name, sets in plan_sets(measured):
            yield "_".join(filter(None, ["extrapolation_bars", name])), partial(length_bars, measured, sets)
    for run, lengths in documents.with_lengths:
        if lengths.positions is not None and lengths.positions.table is not None:
            draw = partial(learned_table, lengths.positions, lengths.positions.table)
            yield f"position_embeddings_{folder_name(run.name)}", draw


def heads_figures(folder: str, found: HeadAnalysis) -> Iterator[tuple[str, Callable[[], Figure]]]:
    if any(head.ablation for head in found.heads):
        yield f"{folder}head_importance", partial(importance, found, ranked_heads(found)[1])
    if found.joint.elimination.steps:
        yield f"{folder}head_pruning", partial(elimination, found)
    if found.capture.mean:
        yield f"{folder}attention_mean", partial(head_sheet, found, None)
    for example in range(len(found.capture.examples)):
        yield f"{folder}attention_example_{example}", partial(head_sheet, found, example)
