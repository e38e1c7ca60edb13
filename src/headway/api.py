"""The Python names that mirror commands and need more than one room."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.config import Assignment, RunConfig, load_recipe
from headway.errors import InputError, suggestion

if TYPE_CHECKING:
    from headway.training import TrainResult


def recipe_folder() -> Path:
    """Where the recipes are: inside an installed package, or beside the source tree."""
    inside = Path(__file__).parent / "recipes"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "recipes"


def find_recipe(text: str) -> Path:
    """A recipe's path, from a path or from the name of one that comes with headway."""
    known = {found.stem: found for found in recipe_folder().glob("*.toml")}
    if text in known:
        return known[text]
    path = Path(text)
    if path.is_dir():
        raise InputError(f"{text} is a directory; a recipe (TOML file) needed")
    if path.suffix != ".toml" and not path.exists():
        raise InputError(f"no recipe {text!r}; {suggestion(text, known)}, or a path to a TOML file")
    return path


def default_run(recipe: Path, seed: int) -> Path:
    return Path("runs") / f"{recipe.stem}-seed{seed}"


def read_recipe(
    text: str, *, set: Sequence[Assignment] | None = None, seed: int | None = None, allow_overlap: bool = False
) -> tuple[Path, RunConfig]:
    """The recipe's path and its config, with `--set` applied."""
    path = find_recipe(text)
    assignments = [*(set or []), *(["data.allow_overlap=true"] if allow_overlap else [])]
    return path, load_recipe(path, assignments, seed)


def train(
    recipe: str,
    *,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
    data: str | Path | None = None,
    allow_overlap: bool = False,
) -> "TrainResult":
    """Train a recipe (name or path) into a run directory.

    >>> hw.train("quick-addition", seed=1, set={"train.epochs": 2})   # doctest: +SKIP
    """
    from headway.training import train as run_training

    path, config = read_recipe(recipe, set=list((set or {}).items()), seed=seed, allow_overlap=allow_overlap)
    return run_training(
        config,
        out or default_run(path, config.seed),
        device=device,
        resume=resume,
        data=None if data is None else Path(data),
        command=["hw.train"],
    )
