"""Types of JSON that is not a document of headway's own: files from elsewhere, records of a data file, settings."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | Decimal | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
else:  # a type checker at run time looks at one level
    JsonValue = bool | int | float | Decimal | str | Sequence | Mapping | None
"""A value of JSON; a number may be a Decimal, where a reader keeps the digits as they were written."""
JsonObject: TypeAlias = Mapping[str, JsonValue]
"""An object whose keys headway does not prescribe; what headway prescribes is a dataclass of `results/`."""
