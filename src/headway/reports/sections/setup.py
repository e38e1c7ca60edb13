"""What was trained: task, model and data, and where runs differ."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Section, Table, paragraph
from headway.reports.evidence import Evidence, minutes, written

TABLES = ("task", "data", "model", "train")
MOST_COLUMNS = 8
"""Settings that still fit side by side."""


def section(evidence: Evidence) -> Section:
    run = evidence.runs[0]
    apart = differing(evidence)
    blocks = paragraph(sentences(evidence, run)) if not apart else []
    blocks += differences(evidence, apart)
    parts = [
        Section(f"settings-{name}", f"Settings: {name}", [settings(evidence, run, name, apart)], folded=True)
        for name in TABLES
        if leaves(evidence.find(f"{run}/config/{name}", {}))
    ]
    return Section("setup", "Setup", blocks, parts)


def sentences(evidence: Evidence, run: str) -> list[Markup]:
    """Task, model, data and cost of a run, in words."""
    model, data = f"{run}/config/model", f"{run}/config/data"
    layers = [
        Markup("{} {} layers").format(evidence.number(f"{model}/{key}"), word)
        for key, word in (("encoder_layers", "encoder"), ("decoder_layers", "decoder"))
        if evidence.find(f"{model}/{key}") and word in str(evidence.find(f"{model}/shape"))
    ]
    return written(
        lambda: Markup("The task is {}.").format(evidence.text(f"{run}/config/task/name", "code")),
        lambda: Markup("Its numbers have {} digits.").format(evidence.number(f"{run}/config/task/digits")),
        lambda: Markup(
            "The model, of shape {}, has {} of {} heads each, d_model {}, d_ff {}, dropout {}, and {} positions."
        ).format(
            evidence.text(f"{model}/shape", "code"),
            Markup(" and ").join(layers),
            evidence.number(f"{model}/n_heads"),
            evidence.number(f"{model}/d_model"),
            evidence.number(f"{model}/d_ff"),
            evidence.setting(f"{model}/dropout"),
            evidence.text(f"{model}/encoding/name", "code"),
        ),
        lambda: Markup("Its pooling is {}.").format(evidence.text(f"{model}/pooling/name", "code")),
        lambda: Markup("It was trained on {}, validated on {} and tested on {} examples.").format(
            "fresh examples at every step" if evidence.get(f"{data}/fresh") else evidence.number(f"{data}/train"),
            evidence.number(f"{data}/validation"),
            evidence.number(f"{data}/test"),
        ),
        lambda: Markup("Training cost {} steps and {} on {}.").format(
            evidence.number(f"{run}/training/step"),
            evidence.number(f"{run}/training/seconds", minutes),
            evidence.text(f"{run}/provenance/device", "code"),
        ),
    )


def leaves(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The settings of a table, with the names of tables in it before them; those that are null are left out."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= leaves(value, f"{before}{key}/")
        elif value is not None:
            found[f"{before}{key}"] = value
    return found


def differing(evidence: Evidence) -> list[str]:
    """Settings that not all runs share, as paths below a run's config; the seed is not one."""
    tables = [
        {
            f"{name}/{key}": value
            for name in TABLES
            for key, value in leaves(evidence.get(f"{run}/config/{name}")).items()
        }
        for run in evidence.runs
    ]
    keys = dict.fromkeys(key for table in tables for key in table)
    return [key for key in keys if any(table.get(key) != tables[0].get(key) for table in tables)]


def differences(evidence: Evidence, apart: list[str]) -> list[Block]:
    """Where runs differ: one column a setting."""
    if not apart:
        return []
    shown = sorted(apart, key=lambda key: key not in varied(evidence))[:MOST_COLUMNS]
    columns = [Column("run", numeric=False), *(Column(key.replace("/", "."), numeric=False) for key in shown)]
    rows = [
        [Cell(evidence.text(f"{run}/name", "code")), *(value(evidence, f"{run}/config/{key}") for key in shown)]
        for run in evidence.runs
    ]
    more = "" if len(shown) == len(apart) else "; the first of more"
    return [Table(f"Settings in which the runs differ{more}", columns, rows)]


def varied(evidence: Evidence) -> set[str]:
    """The settings that a study varies on purpose, as paths below a run's config."""
    arms = evidence.find("study/plan/arms", [])
    return {key.replace(".", "/") for arm in arms for key in arm.get("vary", {})}


def value(evidence: Evidence, path: str) -> Cell:
    found = evidence.find(path)
    return Cell(Markup("–") if found is None else evidence.setting(path))


def settings(evidence: Evidence, run: str, name: str, apart: list[str]) -> Table:
    keys = [key for key in leaves(evidence.get(f"{run}/config/{name}")) if f"{name}/{key}" not in apart]
    rows = [
        [Cell(Markup("<code>{}</code>").format(key.replace("/", "."))), value(evidence, f"{run}/config/{name}/{key}")]
        for key in keys
    ]
    shared = "" if len(evidence.runs) == 1 else ", as all runs have them"
    return Table(f"[{name}]{shared}", [Column("setting", numeric=False), Column("value", numeric=False)], rows)
