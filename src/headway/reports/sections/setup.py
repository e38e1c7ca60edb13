"""The section on the setup: task, model and data, and the differences between runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.json_values import JsonObject, JsonValue
from headway.narration.numbers import NONE, duration, number, setting, size
from headway.narration.places import place_of
from headway.narration.tables import Table, words
from headway.narration.text import Code, Text, Words, code, join, quote, text, told
from headway.reports.blocks import Block, Section, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.results.analysed_model import AnalysedModel

TABLES = ("task", "data", "model", "train")
MOST_COLUMNS = 8
"""Settings that fit side by side."""


def section(documents: Documents) -> Section:
    apart = differing(documents)
    blocks = differences(documents, apart) if apart else paragraph(sentences(documents.runs[0]))
    parts = [
        Section(f"settings-{name}", f"Settings: {name}", [settings(documents, name, apart)], folded=True)
        for name in TABLES
        if leaves(documents.runs[0].config.get(name, {}))
    ]
    return Section("setup", "Setup", blocks, parts)


def sentences(run: RunDocuments) -> list[Text]:
    """Task, model, data and cost of a run, in words."""
    if run.model is not None:
        return of_another_program(run.model)
    task, model, data = (run.config[name] for name in ("task", "model", "data"))
    layers = [
        text("{} {} layers", number(model[f"{part}_layers"]), part)
        for part in ("encoder", "decoder")
        if model.get(f"{part}_layers") and part in model["shape"]
    ]
    return told(
        lambda: text("The task is {}.", code(task["name"])),
        lambda: text("Its numbers have {} digits.", number(task["digits"])),
        lambda: text(
            "The model, of shape {}, has {} of {} heads each, d_model {}, d_ff {}, dropout {}, and {} positions.",
            code(model["shape"]),
            join(" and ", layers),
            *(number(model[key]) for key in ("n_heads", "d_model", "d_ff")),
            value(model["dropout"]),
            code(model["encoding"]["name"]),
        ),
        lambda: text("Its pooling is {}.", code(model["pooling"]["name"])) if model.get("pooling") else None,
        lambda: text(
            "It was trained on {}, validated on {} and tested on {} examples.",
            "fresh examples at every step" if data["fresh"] else number(data["train"]),
            number(data["validation"]),
            number(data["test"]),
        ),
        lambda: text(
            "Training cost {} steps and {} on {}.",
            number(run.training["step"]),
            number(run.training["seconds"], duration),
            code(run.provenance["device"]),
        ),
    )


def of_another_program(model: AnalysedModel) -> list[Text]:
    """What is known of a model that headway did not train."""
    return [
        text(
            "{} is a model of another program; headway did not train it and does not know its task.", code(model.model)
        ),
        text("It has {} parameters and {} attention modules.", number(model.parameters), size(model.sites)),
        text("It was measured on {} ({}) by {}.", code(model.data), quote(model.split), code(model.metric)),
    ]


def leaves(table: JsonObject, before: str = "") -> dict[str, JsonValue]:
    """The settings of nested tables under dotted names, without null values."""
    found: dict[str, JsonValue] = {}
    for key, inner in table.items():
        if isinstance(inner, Mapping):
            found |= leaves(inner, f"{before}{key}.")
        elif inner is not None:
            found[f"{before}{key}"] = inner
    return found


def settings_of(run: RunDocuments) -> dict[str, JsonValue]:
    """All settings of a run except its seed, under names such as `model.d_ff`."""
    return leaves({name: run.config.get(name, {}) for name in TABLES})


def differing(documents: Documents) -> list[str]:
    """Settings that differ between runs."""
    tables = [settings_of(run) for run in documents.runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    return [key for key in keys if any(table.get(key) != tables[0].get(key) for table in tables)]


def differences(documents: Documents, apart: Sequence[str]) -> list[Block]:
    """The differences between runs: one column per setting, those that a study varies first."""
    arms = [] if documents.study is None else documents.study.plan.get("arms", [])
    varied = {key for arm in arms for key in arm.get("vary", {})}
    shown = sorted(apart, key=lambda key: key not in varied)[:MOST_COLUMNS]
    rows = [[code(run.name), *(value(settings_of(run).get(key)) for key in shown)] for run in documents.runs]
    more = "" if len(shown) == len(apart) else "; the first of more"
    return [Table(f"Settings in which the runs differ{more}", words("run", *shown), rows)]


def value(found: Any) -> Words:
    if found is None:
        return NONE
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return number(found, setting)
    return Code(setting(found), place_of(found))


def settings(documents: Documents, name: str, apart: Sequence[str]) -> Table:
    found = leaves(documents.runs[0].config[name])
    rows = [[Code(key), value(found[key])] for key in found if f"{name}.{key}" not in apart]
    shared = "" if len(documents.runs) == 1 else ", as all runs have them"
    return Table(f"[{name}]{shared}", words("setting", "value"), rows)
