"""A recipe (TOML) and `--set a.b=c` make one frozen `RunConfig`; unknown keys are rejected."""

from headway.config.building import (
    LARGEST_WHOLE,
    Choice,
    build,
    describe_range,
    options_of,
    setting,
    to_table,
    with_options,
)
from headway.config.recipes import Assignment, assign, load_recipe, parse_assignments, printable, read_toml
from headway.config.settings import DataConfig, ModelConfig, RunConfig, TrainConfig, differences, stackable
