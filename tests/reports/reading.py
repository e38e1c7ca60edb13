"""An independent reader of a report: it looks up every number and quotation of the page in the run's files.

It shares no code with the report. A place is a path, or count, size, ratio, sum, lowest or highest of paths; or how
many runs have a document, or how many errors an interval allows.
"""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

NUMBER = re.compile(r"−?\d[\d,]*(?:\.\d+)?(?:e[−-]?\d+)?")
SILENT = {"script", "style", "title", "svg"}
"""Not read: a drawing is a picture, whose numbers have no place of their own."""
METHOD = {"confidence": 0.95, "critical_above": 10, "important_above": 1, "enough_seeds": 6, "moves_above": 0.05}


class Page(HTMLParser):
    """The visible text of a page in pieces: (tag that holds it, place, exact value, text)."""

    def __init__(self, text: str):
        super().__init__()
        self.stack: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[tuple[str, str | None, str | None, str]] = []
        self.attributes: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.attributes += [str(found[name]) for name in ("alt", "aria-label") if name in found]
        if tag not in ("meta", "link", "img"):
            self.stack.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop()[0] == tag, f"{tag} is closed where it was not opened"

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self.stack]
        if SILENT & set(tags) or not data.strip():
            return
        held = next(
            ((tag, found) for tag, found in reversed(self.stack) if "data-at" in found),
            self.stack[-1],
        )
        in_command = any("command" in str(found.get("class")) for _, found in self.stack)
        tag = "command" if in_command else held[0]
        self.pieces.append((tag, held[1].get("data-at"), held[1].get("value"), data))

    @property
    def text(self) -> str:
        return " ".join(text for *_, text in self.pieces)


class Files:
    """What the files of some runs hold, read anew from disk."""

    def __init__(self, *runs: Path, study: Path | None = None):
        self.documents: dict[str, Any] = {"method": METHOD, "runs": [self.of_run(run) for run in runs]}
        if study is not None:
            analyses = {path.stem: json.loads(path.read_text()) for path in (study / "analysis").glob("*.json")}
            plan = json.loads((study / "study.json").read_text())
            self.documents["study"] = {"name": study.name, "path": str(study), "plan": plan, **analyses}

    @staticmethod
    def of_run(run: Path) -> dict[str, Any]:
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        states = sorted((run / "checkpoints").glob("*/state.json"))
        return {
            "name": run.name,
            "path": str(run),
            "config": json.loads((run / "config.json").read_text()),
            "provenance": json.loads((run / "provenance.json").read_text()),
            "training": json.loads(states[-1].read_text()),
            "metrics": {
                "validation": [{"step": one["step"], **one["validation"]} for one in lines if "validation" in one]
            },
            **{path.stem: json.loads(path.read_text()) for path in (run / "analysis").glob("*.json")},
        }

    def at(self, path: str) -> Any:
        found = self.documents
        for key in path.split("/"):
            found = found[int(key)] if isinstance(found, list) else found[key]
        return found

    def value(self, place: str) -> Any:
        """What stands at a place, computed from the files."""
        match = re.fullmatch(r"(\w+)\((.*)\)", place)
        if match is None:
            return self.at(place)
        paths = match[2].split(", ")
        if match[1] == "count":
            key, wanted = paths[1].split("=")
            return sum(entry[key] == wanted for entry in self.at(paths[0]))
        if match[1] == "having":
            return sum(self.has(run, paths[1].split("/")) for run in self.at(paths[0]))
        values = [self.at(path) for path in paths]
        return {
            "size": lambda: len(values[0]),
            "allowed": lambda: sum(lower_end(wrong, values[0]) >= values[1] for wrong in range(values[0])) - 1,
            "ratio": lambda: values[0] / values[1],
            "sum": lambda: sum(values),
            "lowest": lambda: min(values),
            "highest": lambda: max(values),
        }[match[1]]()

    @staticmethod
    def has(found: Any, keys: list[str]) -> bool:
        for key in keys:
            found = (found or {}).get(key)
        return found is not None

    def words(self) -> set[str]:
        """Words that a command or the name of a setting may be made of: how runs were made, and where they are."""
        made = [[run[key] for key in ("name", "path", "config", "provenance")] for run in self.documents["runs"]]
        made += [[run.get("heads", {}).get("settings")] for run in self.documents["runs"]]
        made += [[run.get("lengths", {}).get(key) for key in ("at", "n")] for run in self.documents["runs"]]
        made += [[run.get("attack", {}).get(key) for key in ("lengths", "seconds")] for run in self.documents["runs"]]
        study = self.documents.get("study", {})
        return set(re.findall(r"\w+", json.dumps([made, study.get("path"), study.get("plan")])))


def lower_end(wrong: int, n: int) -> float:
    """Of Wilson's 95 % interval: the share p below the observed one at which it is 1.959964 standard errors away."""
    share, square = 1 - wrong / n, 1.9599639845**2 / n
    return (share + square / 2 - (square * (share * (1 - share) + square / 4)) ** 0.5) / (1 + square)


def as_shown(text: str) -> tuple[float, float]:
    """A written number and how far rounding may have moved it, back in the unit of the files."""
    (digits,) = NUMBER.findall(text)
    plain = digits.replace("−", "-").replace(",", "")
    mantissa, _, exponent = plain.partition("e")
    decimals = len(mantissa.partition(".")[2])
    scale = 100 if "%" in text else 1 / 60 if "min" in text else 1
    return float(plain) / scale, 0.5000001 * 10 ** (int(exponent or 0) - decimals) / scale


def in_words(value: Any) -> str:
    """A quotation or a setting, as a page writes it: a command line is joined, a switch is true or false."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def complaints(page: str, files: Files) -> list[str]:
    """Every number or quotation of a page that does not stand in the files as it says."""
    found = []
    words = files.words()
    read = Page(page)
    for tag, place, exact, text in read.pieces:
        if tag == "data":
            try:
                value = files.value(str(place))
            except (KeyError, IndexError, TypeError):
                found.append(f"{place} is not in the files")
                continue
            shown, slack = as_shown(text)
            if float(str(exact)) != value or abs(shown - value) > slack:
                found.append(f"{text!r} stands for {place}, which is {value}")
        elif place is not None:
            value = files.at(place)
            spoken = in_words(value)
            if " ".join(text.split()) != " ".join(spoken.split()):
                found.append(f"{text!r} is quoted from {place}, which says {spoken!r}")
        elif tag == "command":
            found += [
                f"{word!r} of the command is in no file" for word in re.findall(r"\w*\d\w*", text) if word not in words
            ]
        elif tag == "code":
            found += [f"{word!r} is in no file" for word in re.findall(r"\w*\d\w*", text) if word not in words]
        elif re.search(r"\d", text):
            found.append(f"{text!r} has a number without a place")
    return found + [f"{text!r} has a number without a place" for text in read.attributes if re.search(r"\d", text)]
