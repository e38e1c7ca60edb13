"""The plan of a study: arms (a recipe, its changed settings, its varied settings), and their cells of seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, Literal

from headway.errors import InputError, suggestion
from headway.json_values import JsonObject, JsonValue
from headway.results.schema import write
from headway.results.study import ArmRecord
from headway.studies.gate import GATE

if TYPE_CHECKING:
    from headway.config import RunConfig
    from headway.sweeps.plan import Trial

FORM = 2
"""Version of the form of study.json."""
ENCODING, POOLING = "model.encoding.name", "model.pooling.name"
ALLOWED = "allowed"
"""In place of a list of encodings: every registered one for which the task has positions."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A recipe with changed settings and varied settings; every combination of varied values is a cell.

    `vary` maps a setting to its values, or any other name to named groups of settings:

        vary={"encoding": {"rotary": {"model.encoding.name": "rotary", "train.lr": 3e-4},
                           "none, causal": {"model.encoding.name": "none", "model.causal_encoder": True}}}

    `seeds` replaces the study's seeds.
    """

    name: str
    recipe: str
    set: Mapping[str, Any] = field(default_factory=dict)
    vary: Mapping[str, "Sequence[Any] | Mapping[str, Mapping[str, Any]] | str"] = field(default_factory=dict)
    seeds: Sequence[int] | None = None


@dataclass(frozen=True, kw_only=True)
class HeadsOf:
    """The runs whose heads are analysed: of some arms (or all), the first `seeds` seeds of every cell (or all).

    `examples` of the test split are used, as by `headway heads`.
    """

    arms: tuple[str, ...] | None = None
    seeds: int | None = None
    examples: int = 2_000

    def chosen(self, cells: "Sequence[Cell]") -> list[str]:
        """The names of the runs, in the plan's order."""
        there = [cell for cell in cells if self.arms is None or cell.arm in self.arms]
        return [trial.name for cell in there for trial in cell.trials[: self.seeds]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """Arms and seeds, and how every run is measured: by accuracy, or by accuracy against length.

    `at` are the lengths beyond training, with `n` examples of each set at each length; sets of at most `whole` examples
    are measured completely at the shortest length. `mechanism` selects the runs whose failure is analysed: the one that
    loses most, one of every failing cell, or every failing run. Every run that holds a length beyond training is
    attacked for `attack` seconds. `heads` selects the runs whose heads are analysed. The doctor examines all runs.
    Every run is judged by the same gate; with `stop_at_gate`, training stops when the run masters its training lengths.
    """

    arms: tuple[Arm, ...]
    seeds: Sequence[int]
    measured: Literal["accuracy", "lengths"] = "lengths"
    at: tuple[int, ...] = ()
    n: int = 2_000
    whole: int = 200_000
    mechanism: Literal["none", "worst", "failing", "every"] = "none"
    attack: float = 0.0
    heads: HeadsOf = HeadsOf()
    stop_at_gate: bool = False


@dataclass(frozen=True)
class Cell:
    """The runs of one setting of an arm, one per seed."""

    arm: str
    settings: Mapping[str, Any]
    trials: "tuple[Trial, ...]"

    @property
    def label(self) -> str:
        """The varied values, or the arm's name if it varies none: `rotary, mean`."""
        return ", ".join(map(str, self.settings.values())) or self.arm

    @property
    def name(self) -> str:
        """The arm and the varied values: `course: rotary, mean`."""
        return f"{self.arm}: {self.label}" if self.settings else self.arm

    @property
    def config(self) -> "RunConfig":
        return self.trials[0].config


@dataclass(frozen=True)
class StudyPlan:
    """A planned study: its cells, and for every arm the encodings that its task rejects, with the reason."""

    study: Study
    cells: tuple[Cell, ...]
    refused: Mapping[str, Mapping[str, str]]

    def part(self, names: Sequence[str]) -> "StudyPlan":
        """The same plan with the cells of some arms."""
        known = [arm.name for arm in self.study.arms]
        for name in names:
            if name not in known:
                raise InputError(f"--arms {name!r}; {suggestion(name, known)}")
        return replace(self, cells=tuple(cell for cell in self.cells if cell.arm in names))

    def arms(self) -> tuple[ArmRecord, ...]:
        """Every arm: its changed and varied settings, its seeds, and the rejected encodings."""
        seeds = {cell.arm: tuple(trial.seed for trial in cell.trials) for cell in reversed(self.cells)}
        return tuple(
            ArmRecord(
                name=arm.name,
                recipe=arm.recipe,
                set=arm.set,
                vary=arm.vary,
                seeds=seeds[arm.name],
                refused=self.refused[arm.name],
            )
            for arm in self.study.arms
        )

    def to_json(self, experiment: str, preset: str) -> JsonObject:
        """Everything that determines what is trained and measured."""
        measured: dict[str, JsonValue] = {"measured": self.study.measured, "at": list(self.study.at), "n": self.study.n}
        measured["whole"] = self.study.whole
        return {"form": FORM, "experiment": experiment, "preset": preset, **measured, "arms": write(self.arms())}


def plan_study(study: Study, seeds: Sequence[int] | None = None) -> StudyPlan:
    """The cells of every arm; `seeds` replaces the seeds of the study and of its arms."""
    arms, cells, refused = [], [], {}
    gate = {"train.stop_accuracy": GATE} if study.stop_at_gate else {}
    for arm in (replace(arm, set={**gate, **arm.set}) for arm in study.arms):
        chosen, refused[arm.name] = spelled_out(arm)
        arms.append(chosen)
        cells += cells_of(chosen, seeds or arm.seeds or study.seeds)
    return StudyPlan(replace(study, arms=tuple(arms)), tuple(cells), refused)


def cells_of(arm: Arm, seeds: Sequence[int]) -> list[Cell]:
    """Every combination of the arm's varied values with every seed; runs are named after arm, values and seed."""
    from headway.api import find_recipe
    from headway.sweeps.plan import plan_grid

    named = {key: values for key, values in arm.vary.items() if isinstance(values, Mapping)}
    plain: dict[str, Any] = {key: values for key, values in arm.vary.items() if key not in named}
    found = []
    for names in product(*named.values()):
        own = dict(zip(named, names, strict=True))
        more = [item for key, name in own.items() for item in named[key][name].items()]
        grid = plan_grid(find_recipe(arm.recipe), [*arm.set.items(), *more], plain, seeds)
        for _, alike in groupby(grid.trials, key=lambda trial: trial.settings):
            trials = tuple(alike)
            settings = {**own, **trials[0].settings}
            words = [arm.name, *map(str, settings.values())]
            renamed = tuple(replace(trial, name="-".join([*words, f"seed{trial.seed}"])) for trial in trials)
            found.append(Cell(arm.name, settings, renamed))
    return found


def spelled_out(arm: Arm) -> tuple[Arm, dict[str, str]]:
    """The arm with `ALLOWED` replaced by the list of encodings, and why the others are rejected."""
    if arm.vary.get(ENCODING) != ALLOWED:
        return arm, {}
    from headway.api import find_recipe, read_recipe
    from headway.model.encodings import ENCODINGS
    from headway.tasks import make_task
    from headway.training.preparation import resolve

    refused = {}
    for name in ENCODINGS.names():
        try:
            _, config = read_recipe(arm.recipe, set=[*arm.set.items(), (ENCODING, name)])
            resolve(config, make_task(config.task))
        except InputError as error:
            refused[name] = str(error).removeprefix(f"{find_recipe(arm.recipe)}: ")
    allowed = [name for name in ENCODINGS.names() if name not in refused]
    return replace(arm, vary={**arm.vary, ENCODING: allowed}), refused
