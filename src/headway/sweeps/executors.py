"""Makes the executor of a sweep from the options of `headway sweep`."""

from collections.abc import Mapping, Sequence

from headway.errors import InputError, suggestion
from headway.processes import available_cores
from headway.sweeps.driver import Executor
from headway.sweeps.local import LocalExecutor
from headway.sweeps.trial import JobOptions

LARGEST_STACK = 128
"""Largest number of seeds of one setting in a GPU stack. A CPU is faster with one process per seed (docs/speed.md)."""
MEASURED = ("test", "validation", "train", "all")


def make_executor(
    *,
    on: str = "local",
    workers: int | None = None,
    device: str = "auto",
    split: str | None = "test",
    log: str | None = None,
    address: str | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
    command: Sequence[str] = ("hw.sweep",),
) -> tuple[Executor, JobOptions, int]:
    """The executor of a sweep's jobs, their common options, and how many run at once (0: the cluster decides)."""
    from headway.batches import pick_device

    _check(on, workers, split, log, {"--address": address, "--cpus": cpus, "--gpus": gpus})
    if on == "ray":
        from headway.sweeps.ray import RayExecutor

        stack = LARGEST_STACK if gpus else 1
        how = JobOptions(device, split=split, log=log, command=tuple(command), stack=stack)
        cluster = RayExecutor(how, cpus=1 if cpus is None else cpus, gpus=gpus or 0, address=address)
        return cluster, cluster.how, 0
    where = pick_device(device).type
    workers = workers or (1 if where == "cuda" else available_cores())
    threads = max(1, available_cores() // workers)
    stack = LARGEST_STACK if where == "cuda" else 1
    how = JobOptions(where, threads, split, log=log, command=tuple(command), stack=stack)
    return LocalExecutor(workers, how), how, workers


def _check(
    on: str, workers: int | None, split: str | None, log: str | None, only_ray: Mapping[str, str | float | None]
) -> None:
    from headway.training.mirror import check_log

    if on not in ("local", "ray"):
        raise InputError(f"--on {on!r}; {suggestion(on, ('local', 'ray'))}")
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}; at least 1 needed")
    if workers is not None and on == "ray":
        raise InputError("--workers is for --on local; with --on ray, --cpus decides how many trials run at once")
    for option, value in only_ray.items():
        if value is not None and on != "ray":
            raise InputError(f"{option} is for --on ray")
    if split is not None and split not in MEASURED:
        raise InputError(f"--split {split!r}; {suggestion(split, (*MEASURED, 'none'))}")
    check_log(log)
