"""A study's cells are what its arms say, and every preset that comes with headway can be planned."""

from pathlib import Path

import pytest

from headway.config import RunConfig
from headway.errors import InputError
from headway.model.encodings import ENCODINGS
from headway.studies.gate import GATE
from headway.studies.plan import ALLOWED, ENCODING, POOLING, Arm, HeadsOf, Study, plan_study
from headway.studies.presets import PRESETS, RATES
from headway.sweeps.driver import make_jobs
from headway.sweeps.plan import Trial
from headway.tasks import make_task
from headway.training.preparation import resolve


@pytest.mark.parametrize("experiment", PRESETS)
def test_every_preset_is_made_of_configs_that_can_be_trained(experiment: str) -> None:
    for study in PRESETS[experiment].values():
        cells = plan_study(study).cells
        names = [trial.name for cell in cells for trial in cell.trials]
        assert len(set(names)) == len(names)
        for cell in cells:
            resolve(cell.config, make_task(cell.config.task))


def test_the_full_grid_of_sortedness_has_every_encoding_that_the_task_allows() -> None:
    plan = plan_study(PRESETS["sortedness"]["full"])
    course = [cell for cell in plan.cells if cell.arm == "course"]
    allowed = [name for name in ENCODINGS.names() if name not in ("abacus", "coupled")]
    assert list(dict.fromkeys(cell.settings[ENCODING] for cell in course)) == allowed
    assert {cell.settings[POOLING] for cell in course} == {"mean", "max", "multi-feature"}
    assert all(len(cell.trials) >= 5 for cell in course)
    assert plan.refused["course"].keys() == {"abacus", "coupled"}
    assert "has no abacus positions" in plan.refused["course"]["abacus"]


def test_the_full_grid_of_sortedness_has_the_table_of_16_rows_that_clamps() -> None:
    cells = [cell for cell in plan_study(PRESETS["sortedness"]["full"]).cells if cell.arm == "course-learned-16"]
    assert [cell.label for cell in cells] == ["mean", "max", "multi-feature"]
    encodings = [cell.config.model.encoding for cell in cells]
    assert {encoding.name for encoding in encodings} == {"learned"}
    assert all(encoding.options == {"table_size": 16, "past": "clamp"} for encoding in encodings)
    assert cells[0].config.task.options["max_length"] == 16, "training reaches every row"


def test_an_arm_changes_its_recipe_and_has_its_own_seeds_unless_told_otherwise() -> None:
    arm = Arm(name="a", recipe="quick-sortedness", set={"train.epochs": 1}, vary={POOLING: ("max",)}, seeds=(7,))
    study = Study(
        arms=(arm, Arm(name="b", recipe="sortedness-course", set={"model.encoding.name": "none"})), seeds=(0, 1)
    )
    first, second = plan_study(study).cells
    assert [trial.name for trial in first.trials] == ["a-max-seed7"]
    assert (first.name, first.label, second.name, second.label) == ("a: max", "max", "b", "b")
    assert (first.config.train.epochs, first.config.model.pooling.name) == (1, "max")  # type: ignore[union-attr]
    assert [trial.config.seed for trial in second.trials] == [0, 1]
    assert [len(cell.trials) for cell in plan_study(study, (4, 5, 6)).cells] == [3, 3]


def test_an_encoding_that_the_recipe_cannot_have_is_refused_with_the_reason() -> None:
    arm = Arm(name="a", recipe="sortedness-course", vary={ENCODING: ALLOWED}, set={"model.window": 1})
    plan = plan_study(Study(arms=(arm,), seeds=(0,)))
    assert plan.refused["a"]["randomized"].startswith("model.window")
    assert "randomized" not in [cell.label for cell in plan.cells]
    assert plan.to_json("sortedness", "mine")["arms"][0]["refused"] == plan.refused["a"]


def test_named_settings_are_varied_together_and_beside_plain_values() -> None:
    named = {"slow": {ENCODING: "rotary", "train.lr": 1e-4}, "causal": {ENCODING: "none", "model.causal_encoder": True}}
    arm = Arm(name="a", recipe="quick-sortedness", vary={"encoding": named, POOLING: ("mean", "max")}, seeds=(3,))
    plan = plan_study(Study(arms=(arm,), seeds=(0,), stop_at_gate=True))
    assert [cell.label for cell in plan.cells] == ["slow, mean", "slow, max", "causal, mean", "causal, max"]
    assert plan.cells[0].trials[0].name == "a-slow-mean-seed3"
    first, last = plan.cells[0].config, plan.cells[-1].config
    assert (first.model.encoding.name, first.train.lr, first.model.causal_encoder) == ("rotary", 1e-4, False)
    assert (last.model.encoding.name, last.model.causal_encoder, last.train.lr != 1e-4) == ("none", True, True)
    assert {cell.config.train.stop_accuracy for cell in plan.cells} == {GATE}
    written = plan.to_json("sortedness", "mine")["arms"][0]
    assert written["vary"] == {"encoding": named, POOLING: ["mean", "max"]}
    assert written["set"] == {"train.stop_accuracy": GATE}


def test_the_comparison_of_encodings_on_text_has_every_arm_with_its_own_rate_and_one_gate() -> None:
    plan = plan_study(PRESETS["text-encodings"]["full"])
    cells = {cell.name: cell for cell in plan.cells}
    own = [cell for cell in plan.cells if cell.arm == "least-significant-first"]
    assert {cell.config.model.encoding.name for cell in own} == set(ENCODINGS.names())
    assert len(own) == len(ENCODINGS.names()) + 1 == 13, "and none with a causal mask"
    assert cells["least-significant-first: none-causal"].config.model.causal_encoder
    abacus = cells["least-significant-first: abacus"].config.task.options
    assert (abacus["order"], abacus["operand_order"]) == ("least-significant-first",) * 2
    assert {len(cell.trials) for cell in own} == {5}
    most = [cell for cell in plan.cells if cell.arm == "most-significant-first"]
    assert ({len(cell.trials) for cell in most}, len(most)) == ({1}, 12)
    assert {cell.config.task.options["order"] for cell in most} == {"most-significant-first"}
    for cell in plan.cells:
        train = cell.config.train
        assert (train.stop_accuracy, train.steps, train.lr) == (0.999, 10_000, RATES[cell.label])
        assert cell.config.model.window is None
    assert cells["least-significant-first: clipped"].config.model.encoding.options == {"clip": 16, "positions": "index"}
    tuning = plan_study(PRESETS["text-encodings"]["tune"])
    assert {trial.seed for cell in tuning.cells for trial in cell.trials} == {100}
    assert len(tuning.cells) == (13 + 4) * 3
    published = [cell for cell in plan.cells if cell.arm == "published"]
    assert {cell.config.model.shape for cell in published} == {"decoder"}
    assert ({len(cell.trials) for cell in published}, len(published)) == ({3}, 4)


@pytest.mark.parametrize(
    ("arms", "seeds", "expected"),
    [
        (None, 1, ["a-mean-seed4", "a-max-seed4", "b-seed7"]),
        (None, 2, ["a-mean-seed4", "a-mean-seed2", "a-max-seed4", "a-max-seed2", "b-seed7"]),
        (("a",), 1, ["a-mean-seed4", "a-max-seed4"]),
        (("b",), 3, ["b-seed7"]),
        (("a",), None, ["a-mean-seed4", "a-mean-seed2", "a-mean-seed9", "a-max-seed4", "a-max-seed2", "a-max-seed9"]),
        ((), 1, []),
    ],
)
def test_heads_are_analysed_in_the_first_seeds_of_every_cell(
    arms: tuple[str, ...] | None, seeds: int | None, expected: list[str]
) -> None:
    both = (
        Arm(name="a", recipe="quick-sortedness", vary={POOLING: ("mean", "max")}, seeds=(4, 2, 9)),
        Arm(name="b", recipe="quick-sortedness", seeds=(7,)),
    )
    plan = plan_study(Study(arms=both, seeds=(0,)))
    assert HeadsOf(arms=arms, seeds=seeds).chosen(plan.cells) == expected


def test_an_unknown_recipe_is_refused() -> None:
    with pytest.raises(InputError, match="no recipe 'sortednes'"):
        plan_study(Study(arms=(Arm(name="a", recipe="sortednes"),), seeds=(0,)))


def test_neighbours_that_differ_in_their_seeds_alone_are_one_stack() -> None:
    def trial(seed: int, steps: int) -> Trial:
        table = {"task": {"name": "addition"}, "train": {"steps": steps}, "seed": seed}
        return Trial(f"{steps}-{seed}", {}, RunConfig.from_json({"form": 1, **table}))

    trials = [trial(0, 5), trial(1, 5), trial(0, 6), trial(2, 5)]
    jobs = make_jobs(trials, [Path(trial.name) for trial in trials], 128)
    assert [job.trials for job in jobs] == [tuple(trials[:2]), (trials[2],), (trials[3],)]
