"""Links from a report into the explorer's page of the same runs: a name of a head opens the model without that head."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from headway.reports.documents import Documents, RunDocuments
from headway.runs import ReportDirectory

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
"""Where the explorer's page has its runs."""


@dataclass(frozen=True)
class ExplorerLinks:
    """The address of the explorer's page, and the index that it has for each run of the report that is in it."""

    address: str
    runs: Mapping[str, int]
    documents: Documents

    def __call__(self, name: str, place: str) -> str | None:
        """Where a head's name leads: to the model with the head removed, or all heads of the set that it stands in.

        Where outputs are patched nothing is removed, and the page only shows the head.
        """
        match = re.match(r"(runs/(\d+))/(?:heads/)?(.*)", place)
        if match is None or match[1] not in self.runs:
            return None
        run = self.documents.runs[int(match[2])]
        if run.heads is None or name not in run.heads.verdicts:
            return None
        removed = [] if "interventions" in match[3] else removed_with(run, name, match[3])
        words = {"run": str(self.runs[match[1]]), **({"off": ",".join(removed)} if removed else {}), "head": name}
        return f"{self.address}#{urlencode(words, safe=',')}"


def removed_with(run: RunDocuments, name: str, place: str) -> Sequence[str]:
    """The heads that are removed where a name stands: those chosen together, else the head alone."""
    match = re.match(r"joint/removable/(\d+)/(?:alone_under_limit/)?heads/", place)
    if match is None or run.heads is None:
        return [name]
    row = run.heads.joint.removable[int(match[1])]
    return row.alone_under_limit.heads if "alone_under_limit" in place else row.heads


def find_links(documents: Documents, place: ReportDirectory) -> ExplorerLinks | None:
    """The explorer's page beside the report, or where `headway explore RUN` puts it; None where there is none."""
    folders = [place.path, *(Path(run.path) / "report" for run in documents.runs[:1])]
    paths = [folder / "explorer.html" for folder in folders]
    if len(documents.runs) == 1:
        paths.append(Path(f"{documents.runs[0].name}-explorer.html"))
    for path in paths:
        if runs := runs_in(path, documents):
            address = quote(os.path.relpath(path, place.path).replace(os.sep, "/"))
            return ExplorerLinks(address, runs, documents)
    return None


def runs_in(path: Path, documents: Documents) -> dict[str, int]:
    """The place of each run that a page holds at this checkpoint, with the page's index."""
    if not path.is_file():
        return {}
    found = DATA.search(path.read_text(encoding="utf-8", errors="replace"))
    try:
        held: list[Mapping[str, Any]] = json.loads(found[1])["runs"] if found else []
        indices = {(one["name"], one["step"]): index for index, one in enumerate(held)}
    except (ValueError, LookupError, TypeError):
        return {}
    known = {run.place: (str(run.name), run.training.get("best", {}).get("step")) for run in documents.runs}
    return {run: indices[key] for run, key in known.items() if key in indices}
