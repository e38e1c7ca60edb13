"""Creating a run from given weights, such as those of a pruned model."""

from pathlib import Path
from typing import cast

from headway.errors import InputError
from headway.evaluation import Trained, evaluate_examples
from headway.runs import Checkpoint, RunDirectory
from headway.runs.records import Best, Provenance
from headway.training.preparation import check_place, describe_environment
from headway.training.seed_run import TrainingState


def check_new(place: Path) -> None:
    """Raise unless a new run can be created here."""
    if RunDirectory(place).exists():
        raise InputError(f"{place} holds a run already; another --out is needed")
    check_place(RunDirectory(place), resume=False)


def write_start(place: Path, origin: Trained, start: Trained, *, command: list[str], finished: bool) -> None:
    """Create a run whose step 0 has the weights of `start`; `origin` is the run it was made from, with its data."""
    directory = RunDirectory(place)
    examples = origin.examples("validation")
    found = evaluate_examples(start, "validation", iter([examples]), len(examples), decoded=0, shown=0)
    best: Best = {"step": 0, "loss": found.loss, "accuracy": found.accuracy}
    state = TrainingState(best=best, validated=0, finished=finished)
    model = {name: tensor.detach().cpu().contiguous() for name, tensor in start.model.state_dict().items()}
    circumstances = cast(Provenance, describe_environment(start.device, start.config.seed, command))
    circumstances |= {"made_from": str(origin.directory.path), "made_from_step": origin.step}
    files = sorted(origin.directory.data.glob("*.json")) if origin.config.data.files else []
    check_place(directory, resume=False)
    with directory.appearing() as new, new.lock():
        new.create(start.config, circumstances, files)
        new.append_metrics({"step": 0, "validation": {"loss": found.loss, "accuracy": found.accuracy}})
        new.sync_metrics()
        new.write_checkpoint(Checkpoint(0, model, {}, state.record()))
