"""The studies that come with headway, as data: experiment -> preset -> arms, seeds, lengths and sizes."""

from dataclasses import replace
from typing import Any

from headway.studies.plan import ALLOWED, ENCODING, POOLING, Arm, HeadsOf, Study

LONG = (32, 64, 128, 256, 512, 1_024)
"""Lengths beyond the 16 of training: up to 64 times as long."""
CHARACTERS = (64, 128, 256)
"""Inputs beyond the 32 characters of training: 29, 61 and 125 digits."""
JUST_PAST = (34, 36, 40, 48)
"""14, 15, 17 and 21 digits, where the encodings differ; at 64 characters nearly all are wrong."""
BY_KIND = {"model.window": None, "model.encoder_window": 0, "model.decoder_window": 0, "model.cross_window": 1}
"""Separate windows: only cross-attention reaches a neighbouring column."""
POOLINGS = ("mean", "max", "multi-feature")
FRESH = {
    "data.fresh": True,
    "task.negatives": "mixed",
    "model.dropout": 0.0,
    "train.epochs": None,
    "train.steps": 3_000,
    "train.validate_every": 1_000,
}
"""Online data; half of the unsorted sequences have a single adjacent inversion."""

ADDITION = {
    "quick": Study(arms=(Arm(name="quick-addition", recipe="quick-addition"),), seeds=(0,), measured="accuracy"),
    "standard": Study(arms=(Arm(name="addition", recipe="addition"),), seeds=(0,), measured="accuracy"),
    "full": Study(arms=(Arm(name="addition", recipe="addition"),), seeds=range(5), measured="accuracy"),
}

SORTEDNESS = {
    "quick": Study(
        arms=(
            # First, because it takes longest: the recipe that generalizes in length.
            Arm(name="long", recipe="sortedness-long", seeds=(0,)),
            Arm(
                name="small",
                recipe="quick-sortedness",
                set={"data.fresh": True, "train.steps": 750},
                vary={ENCODING: ("sinusoidal", "learned", "none"), POOLING: ("mean", "multi-feature")},
            ),
        ),
        seeds=(0, 1),
        at=(32, 64, 128, 256),
        n=500,
        whole=0,  # 171,700 sequences would take longer than everything else
        mechanism="worst",
        attack=10,
        heads=HeadsOf(arms=("long",)),
    ),
    "standard": Study(
        arms=(
            Arm(
                name="course",
                recipe="sortedness-grid",
                vary={ENCODING: ("sinusoidal", "learned", "none", "one-hot"), POOLING: ("mean", "multi-feature")},
            ),
            Arm(name="long", recipe="sortedness-long"),
        ),
        seeds=(0,),
        at=LONG,
        n=1_000,
        mechanism="failing",
        attack=60,
    ),
    "full": Study(
        arms=(
            Arm(name="course", recipe="sortedness-grid", vary={ENCODING: ALLOWED, POOLING: POOLINGS}),
            # As in one report: as many rows as the longest training sequence; longer positions use the last row.
            Arm(
                name="course-learned-16",
                recipe="sortedness-grid",
                set={ENCODING: "learned", "model.encoding.table_size": 16, "model.encoding.past": "clamp"},
                vary={POOLING: POOLINGS},
            ),
            Arm(
                name="fresh",
                recipe="sortedness-grid",
                set=FRESH,
                vary={ENCODING: ALLOWED, POOLING: POOLINGS},
                seeds=range(3),
            ),
            # Without a window this one masters the training lengths and fails at 32.
            Arm(
                name="fresh-window",
                recipe="sortedness-grid",
                set={**FRESH, ENCODING: "rotary", POOLING: "max"},
                vary={"model.window": (1, 4)},
                seeds=range(3),
            ),
            Arm(name="long", recipe="sortedness-long"),
            # Ablations of the recipe: one component removed in each.
            Arm(name="long-without-window", recipe="sortedness-long", set={"model.window": None}),
            Arm(name="long-without-bands", recipe="sortedness-long", set={"task.spread": "whole"}),
            Arm(name="long-max-pooling", recipe="sortedness-long", set={POOLING: "max"}),
        ),
        seeds=range(5),
        at=LONG,
        n=1_000,
        mechanism="failing",
        attack=60,
        # Only the small models that generalize, and their ablations.
        heads=HeadsOf(arms=("long", "long-without-window", "long-without-bands", "long-max-pooling")),
    ),
}

LONG_ADDITION = {
    "quick": Study(
        arms=(
            Arm(
                name="small",
                recipe="long-addition",
                set={
                    "model.d_model": 64,
                    "model.d_ff": 256,
                    "train.steps": 1_500,
                    "train.batch_size": 64,
                    "train.lr": 2e-3,
                    "data.validation": 300,
                },
            ),
        ),
        seeds=(0, 1),
        at=CHARACTERS,
        n=500,
        attack=10,
        heads=HeadsOf(arms=()),  # which take minutes here
    ),
    "standard": Study(
        arms=(Arm(name="encoder-decoder", recipe="long-addition"),), seeds=(0,), at=CHARACTERS, attack=60
    ),
    "full": Study(
        arms=(
            Arm(name="encoder-decoder", recipe="long-addition"),
            Arm(
                name="decoder",
                recipe="long-addition",
                set={
                    "model.shape": "decoder",
                    "model.encoder_layers": 0,
                    "model.decoder_layers": 4,
                    "train.steps": 2_500,
                },
                seeds=range(3),
            ),
            # Variations of the recipe: one component changed in each.
            Arm(name="without-window", recipe="long-addition", set={"model.window": None}),
            Arm(name="window", recipe="long-addition", vary={"model.window": (2, 4, 8)}, seeds=range(3)),
            Arm(name="windows-by-kind", recipe="long-addition", set=BY_KIND),
            Arm(
                name="windows-by-kind-one-layer",
                recipe="long-addition",
                set={**BY_KIND, "model.encoder_layers": 1, "model.decoder_layers": 1},
            ),
            Arm(
                name="without-clipping",
                recipe="long-addition",
                set={"model.encoding.clip": 1_024},
                seeds=range(3),
            ),
            Arm(
                name="coupled-table",
                recipe="long-addition",
                set={ENCODING: "coupled", "model.encoding.table_size": 1_024, "model.encoding.max_offset": 600},
                seeds=range(3),
            ),
            Arm(
                name="without-coupling",
                recipe="long-addition",
                set={"model.encoding.positions": "index"},
                seeds=range(3),
            ),
            # Cross-attention has no window, because text positions do not align digits of the same column.
            Arm(
                name="without-coupling-self-windows",
                recipe="long-addition",
                set={
                    "model.window": None,
                    "model.encoder_window": 1,
                    "model.decoder_window": 1,
                    "model.encoding.positions": "index",
                    "model.encoding.clip": 16,
                },
                seeds=range(3),
            ),
            Arm(name="most-significant-first", recipe="addition-text", seeds=(0,)),
            # Without a window, which would count text positions for encodings without columns.
            Arm(
                name="encodings",
                recipe="long-addition",
                set={"model.window": None, "train.steps": 2_000},
                vary={ENCODING: ALLOWED},
                seeds=(0,),
            ),
        ),
        seeds=range(5),
        at=CHARACTERS,
        attack=60,
        heads=HeadsOf(arms=("encoder-decoder", "decoder"), seeds=1),
    ),
}

UNITS_FIRST = "least-significant-first"
TEXT_ENCODINGS: dict[str, dict[str, Any]] = {
    "sinusoidal": {ENCODING: "sinusoidal"},
    "learned": {ENCODING: "learned", "model.encoding.table_size": 256},
    "none": {ENCODING: "none"},
    "none-causal": {ENCODING: "none", "model.causal_encoder": True},
    "one-hot": {ENCODING: "one-hot"},
    "rotary": {ENCODING: "rotary"},
    "alibi": {ENCODING: "alibi"},
    "t5": {ENCODING: "t5"},
    # The recipe's encoding has the same name, so its options would stay.
    "clipped": {ENCODING: "clipped", "model.encoding.clip": 16, "model.encoding.positions": "index"},
    "fire": {ENCODING: "fire"},
    "randomized": {ENCODING: "randomized"},
    "coupled": {ENCODING: "coupled"},
    # As in its paper: positions count from the units in operands and answer.
    "abacus": {ENCODING: "abacus", "task.operand_order": UNITS_FIRST},
}
"""The encodings compared on addition as text, each with the settings that it needs."""
DECODER = {"model.shape": "decoder", "model.encoder_layers": 0, "model.decoder_layers": 4}
PUBLISHED: dict[str, dict[str, Any]] = {
    # One layer, 4 heads, as in the paper's smallest model.
    "position-coupling": {
        **DECODER,
        "model.decoder_layers": 1,
        "model.d_model": 512,
        "model.d_ff": 2_048,
        **TEXT_ENCODINGS["coupled"],
    },
    "abacus-decoder": {**DECODER, **TEXT_ENCODINGS["abacus"]},
    "fire-randomized": {**DECODER, ENCODING: "randomized", "model.encoding.over": "fire"},
    "none-decoder": {**DECODER, ENCODING: "none"},
}
"""Recipes of papers that report length generalization of addition, as far as this size allows; all are decoders."""
RATES: dict[str, float] = {
    **dict.fromkeys([*TEXT_ENCODINGS, *PUBLISHED], 3e-3),
    **dict.fromkeys(["sinusoidal", "learned", "rotary", "fire", "coupled"], 1e-3),
}
"""The learning rate of each, chosen by the preset `tune` (seed 100): the first to master, otherwise the most accurate.

Not tuned: `abacus-decoder`, `fire-randomized` and `none-decoder`, which have the most frequent one.

docs/results/text-encodings-tuning.json has all results.
"""
TUNED = {name: {**settings, "train.lr": RATES[name]} for name, settings in TEXT_ENCODINGS.items()}
MOST_FIRST = {
    # Coupled positions would reveal the length of the answer; operands are written in the order of the answer.
    name: {key: value for key, value in settings.items() if key != "task.operand_order"}
    for name, settings in TUNED.items()
    if name != "coupled"
}
TOY_ENCODINGS = {
    "sinusoidal": TEXT_ENCODINGS["sinusoidal"],
    "none": TEXT_ENCODINGS["none"],
    # 21 digits use 23 rows; more rows would only take longer to learn.
    "coupled": {**TEXT_ENCODINGS["coupled"], "model.encoding.max_offset": 24},
    "abacus": {**TEXT_ENCODINGS["abacus"], "model.encoding.max_offset": 24},
}
LONG_TEXT = {
    "model.window": None,
    "train.steps": 10_000,
    "train.validate_every": 250,
    "train.stack_precision": "bf16",
}
"""Up to 32 characters, online data, two layers each of encoder and decoder; until mastery or the last step."""

ENCODINGS_OF_TEXT = {
    # A toy with numbers of up to 3 digits and a small model. It shows how the study works, not its result.
    "quick": Study(
        arms=(
            Arm(
                name="toy",
                recipe="long-addition",
                set={
                    **LONG_TEXT,
                    "task.max_characters": 12,
                    "task.test_lengths": [24, 48],
                    "data.validation": 500,
                    "data.test": 500,
                    "model.d_model": 64,
                    "model.d_ff": 128,
                    "model.encoder_layers": 1,
                    "model.decoder_layers": 1,
                    "train.steps": 2_000,
                    "train.batch_size": 128,
                    "train.lr": 3e-3,
                    "train.validate_every": 100,
                },
                vary={"encoding": TOY_ENCODINGS},
            ),
        ),
        seeds=(0,),
        at=(24, 48),
        n=300,
        attack=10,
        heads=HeadsOf(arms=()),
        stop_at_gate=True,
    ),
    "tune": Study(
        arms=(
            Arm(
                name="tune",
                recipe="long-addition",
                set=LONG_TEXT,
                vary={"encoding": {**TEXT_ENCODINGS, **PUBLISHED}, "train.lr": (3e-4, 1e-3, 3e-3)},
            ),
        ),
        seeds=(100,),
        at=(64,),
        n=200,
        heads=HeadsOf(arms=()),
        stop_at_gate=True,
    ),
    "full": Study(
        arms=(
            Arm(name=UNITS_FIRST, recipe="long-addition", set=LONG_TEXT, vary={"encoding": TUNED}),
            Arm(
                name="most-significant-first",
                recipe="long-addition",
                set={**LONG_TEXT, "task.order": "most-significant-first"},
                vary={"encoding": MOST_FIRST},
                seeds=(0,),
            ),
            Arm(
                name="published",
                recipe="long-addition",
                set=LONG_TEXT,
                vary={
                    "encoding": {name: {**settings, "train.lr": RATES[name]} for name, settings in PUBLISHED.items()}
                },
                seeds=range(3),
            ),
        ),
        seeds=range(5),
        at=(*JUST_PAST, *CHARACTERS),
        n=1_000,
        mechanism="every",
        attack=60,
        heads=HeadsOf(arms=()),
        stop_at_gate=True,
    ),
}
ENCODINGS_OF_TEXT["standard"] = replace(ENCODINGS_OF_TEXT["full"], seeds=(0,), mechanism="none")

PRESETS: dict[str, dict[str, Study]] = {
    "addition": ADDITION,
    "sortedness": SORTEDNESS,
    "long-addition": LONG_ADDITION,
    "text-encodings": ENCODINGS_OF_TEXT,
}
