"""Checksums inside the JSON files that headway writes, so that a changed digit is noticed when a file is read.

A document ends with the SHA-256 of its content, a line of a log with the first 16 digits of it. The content is what
JSON says, not its bytes: a file that was indented anew still has its checksum. In metrics.jsonl the checksum of a line
covers that of the line before, so that a missing line is noticed, too. Files of earlier versions have none.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from headway.errors import InputError
from headway.json_values import JsonObject

KEY = "sha256"
DIGITS_OF_A_LINE = 16
"""Hexadecimal digits in a line of a log: a random change is missed once in 2^64."""


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sealed(document: Mapping[str, object]) -> JsonObject:
    """A document with its checksum as the last field; `ValueError` for a number that is not finite."""
    content = json.loads(json.dumps(document, allow_nan=False))  # lists for tuples, as a reader will see it
    content.pop(KEY, None)
    return {**content, KEY: digest(content)}


def unsealed(document: Any, where: str) -> Any:
    """A document without its checksum; raises if they do not match. A document without one is returned as it is."""
    if not isinstance(document, dict) or KEY not in document:
        return document
    content = {key: value for key, value in document.items() if key != KEY}
    if digest(content) != document[KEY]:
        raise InputError(
            f"{where} is damaged or was edited: its content does not match its {KEY}; to accept an edit, remove the "
            f'entry "{KEY}" from it'
        )
    return content


def sealed_line(record: JsonObject, previous: str = "") -> str:
    """A record as one line of JSON with a short checksum, which covers `previous`, that of the line before it."""
    content = json.loads(json.dumps(record, allow_nan=False))
    return json.dumps({**content, KEY: _of_line(content, previous)}) + "\n"


def unsealed_line(record: Any, where: str, previous: str = "") -> Any:
    """A record without its checksum; raises if it does not match the content and the line before."""
    if not isinstance(record, dict) or KEY not in record:
        return record
    content = {key: value for key, value in record.items() if key != KEY}
    if _of_line(content, previous) != record[KEY]:
        before = ", or lines before it are missing" if previous else ""
        raise InputError(f"{where} is damaged or was edited: its content does not match its {KEY}{before}")
    return content


def seal_of(record: Any) -> str:
    """A record's checksum; empty if it has none."""
    return str(record.get(KEY, "")) if isinstance(record, dict) else ""


def _of_line(content: Any, previous: str) -> str:
    return digest([previous, content])[:DIGITS_OF_A_LINE]
