"""Made-up documents: what a test does not care about is filled in with zeros, and the whole is read as any other."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin

from headway.results.heads import HeadAnalysis
from headway.results.schema import blank, key_of, types_of, write


def typed(document: Mapping[str, Any]) -> HeadAnalysis:
    """A heads.json of which only some parts are given."""
    return HeadAnalysis.from_json(filled(HeadAnalysis, document))


def filled(kind: Any, value: Any) -> Any:
    """The JSON of a type, with zeros for whatever is missing from it."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, Mapping):
        kinds = {key_of(f): (f, types_of(kind)[f.name]) for f in fields(kind)}
        needed = {key for key, (f, _) in kinds.items() if f.default is MISSING and f.default_factory is MISSING}
        nothing = {key: one for key, one in write(blank(kind)).items() if key in needed or key == "form"}
        given = {key: filled(kinds[key][1], one) for key, one in value.items() if key in kinds}
        return {**nothing, **given}
    if origin is tuple and isinstance(value, list | tuple):
        kinds_inside = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return [filled(one, item) for one, item in zip(kinds_inside, value, strict=True)]
    if origin is Mapping and isinstance(value, Mapping):
        return {key: filled(inner[1], item) for key, item in value.items()}
    if NoneType in inner and value is not None:
        return filled(next(one for one in inner if one is not NoneType), value)
    return value
