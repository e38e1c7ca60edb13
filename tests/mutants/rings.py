"""Which tests are asked when those that mirror a file notice nothing: the room's own, and those of its neighbours."""

from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant

TESTS = ROOT / "tests"
EVERY_ROOM = ("contracts", "test_documentation.py")
"""The registries' contracts, and the examples of docstrings and documentation."""
NEIGHBOURS: dict[str, tuple[str, ...]] = {
    "attached_analysis": ("attached_analysis", "cli/test_any_model.py", "cli/test_course_models.py"),
    "attachment": ("attachment", "attached_analysis", "cli/test_any_model.py"),
    "attacks": ("attacks", "cli/test_attack.py", "diagnosis/test_attacked.py"),
    "batches": ("test_evaluation.py", "model", "training", "head_analysis"),
    "bounded_files": ("test_bounded_files.py", "cli/test_wrong_inputs.py", "diagnosis/test_predictions.py"),
    "cli": ("cli", "proofs", "test_runs.py"),
    "config": (
        "test_config.py",
        "sweeps/test_plan.py",
        "sweeps/test_stacks.py",
        "training",
        "cli/test_wrong_inputs.py",
    ),
    "conversion": ("test_conversion.py", "attachment"),
    "diagnosis": ("diagnosis", "cli/test_doctor.py", "results/test_doctor.py"),
    "evaluation": ("test_evaluation.py", "training/test_loop.py", "cli/test_commands.py", "head_analysis", "diagnosis"),
    "explorer": ("explorer", "cli/test_explore.py", "cli/test_any_model.py"),
    "head_analysis": ("head_analysis", "cli/test_heads.py", "cli/test_over_training.py", "studies/test_summaries.py"),
    "length_analysis": ("length_analysis", "cli/test_lengths.py", "reports/test_mechanism_figure.py"),
    "model": (
        "model",
        "proofs",
        "head_analysis",
        "training/test_stack.py",
        "test_evaluation.py",
        "explorer/test_engine.py",
    ),
    "narration": ("narration", "reports", "cli", "studies"),
    "origin": ("test_origin.py", "test_runs.py", "test_verify.py", "diagnosis/test_belonging.py"),
    "page": ("explorer", "cli/test_explore.py", "cli/test_any_model.py"),
    "proofs": ("proofs", "test_results_page.py"),
    "randomness": ("test_randomness.py", "training", "tasks/test_splits.py"),
    "reports": ("reports", "cli/test_report.py"),
    "results": ("results", "reports", "test_previous_form.py", "test_runs.py", "test_verify.py"),
    "runs": ("test_runs.py", "test_verify.py", "test_origin.py", "training", "sweeps", "cli/test_outputs.py"),
    "statistics": ("test_statistics.py", "test_paired_values.py", "head_analysis", "length_analysis", "studies"),
    "storage": ("test_runs.py", "training", "sweeps", "cli/test_outputs.py", "cli/test_wrong_inputs.py"),
    "studies": ("studies", "cli/test_study.py", "reports"),
    "seals": ("test_runs.py", "test_verify.py", "test_origin.py"),
    "self_contained_html": ("explorer", "reports"),
    "sweeps": ("sweeps", "cli/test_sweep.py", "cli/test_compare.py", "cli/test_seeds.py"),
    "tasks": ("tasks", "length_analysis/test_sets.py", "attacks", "training/test_loop.py", "diagnosis"),
    "training": ("training", "proofs/test_guided.py", "test_runs.py", "cli/test_commands.py", "sweeps/test_stacks.py"),
}


def ring_of(mutant: Mutant) -> tuple[str, ...]:
    """The test files of the room and its neighbours."""
    return files_of((*EVERY_ROOM, *NEIGHBOURS[mutant.room]))


def whole_suite(mutant: Mutant) -> tuple[str, ...]:
    """Every test file, those of the ring first; without the test that every bug fits the sources as they are."""
    every = dict.fromkeys((*ring_of(mutant), *files_of((".",))))
    return tuple(name for name in every if name != "tests/test_mutants.py")


def files_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Test files, and those in folders, as paths from the root."""
    found = [path for name in names for path in _tests_in(TESTS / name)]
    return tuple(dict.fromkeys(str(path.relative_to(ROOT)) for path in found))


def _tests_in(place: Path) -> list[Path]:
    return sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
