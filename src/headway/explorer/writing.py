"""Writes the explorer's page: a single file that opens from disk and makes no network requests."""

import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.explorer.packing import PRECISIONS
from headway.json_values import JsonObject
from headway.results.schema import Document
from headway.runs import ReportDirectory, RunDirectory, check_outputs, find_model
from headway.self_contained_html import policy, script_json
from headway.storage import is_written_by_headway, replace_file

if TYPE_CHECKING:
    from headway.evaluation import Trained
    from headway.explorer.document import RunDocument

FORM = 1
ENGINE = ("arithmetic", "kernel", "model", "attention", "passes", "attribution", "pool")
"""The parts of the engine, in order of dependency."""
ALLOWED = {"script_src": "'wasm-unsafe-eval'", "worker_src": "blob:", "img_src": "data: blob:"}
"""Exceptions in the page's content security policy: WebAssembly, and workers made of the page's own text."""
DEFAULT = Path("explorer.html")
FRAME_HEIGHT = 900
"""Height of the page in a notebook, in pixels."""


@dataclass(frozen=True)
class Exploration(Document):
    """A page, with its file if it was written; a notebook displays it."""

    runs: tuple[str, ...]
    page: str | None
    bytes: int
    warnings: tuple[str, ...]
    text: str = field(repr=False)

    def to_json(self) -> JsonObject:
        """The fields without the page's text."""
        return {key: value for key, value in super().to_json().items() if key != "text"}

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page atomically. A file that headway did not write is replaced only with `force`."""
        place = checked_place(path, force=force)
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place, self.text.encode())
        return place

    def _repr_html_(self) -> str:
        """The page in a sandboxed frame."""
        return (
            f'<iframe srcdoc="{escape(self.text)}" sandbox="allow-scripts" title="headway explorer" '
            f'style="width:100%;height:{FRAME_HEIGHT}px;border:0"></iframe>'
        )


def explore(
    *runs: "Trained | str | Path",
    out: str | Path | None = None,
    precision: str = "fp16",
    force: bool = False,
    report: str | None = None,
    progress: OnProgress = lambda done, total: None,
) -> Exploration:
    """One page in which the models of these runs compute; without a run, the models that come with headway.

    With `out` it is written there; a file that headway did not write is replaced only with `force`. The page links to
    `report`, the address of a report; without it, to the report beside the page or to that of the only run. In a
    notebook the result shows itself.

    >>> hw.explore("addition-seed0", out="addition.html")   # doctest: +SKIP
    """
    if precision not in PRECISIONS:
        raise InputError(f"--precision {precision!r}; known: {', '.join(PRECISIONS)}")
    if out is not None:
        checked_place(out, force=force)  # before the work, which may take a while
    if any(find_model(run) is not None for run in runs):
        return _explore_model(runs, out, force=force, report=report)
    exported, warnings = _export(runs, precision, progress) if runs else ([], [])
    documents = [one.to_json() for one in exported] if runs else shipped()
    text = render(documents, report or (None if out is None else _report_of(runs, Path(out))))
    names = tuple(str(document["name"]) for document in documents)
    made = Exploration(names, None, len(text.encode()), tuple(warnings), text)
    return made if out is None else replace(made, page=str(made.save(out, force=force)))


def _explore_model(
    runs: "Sequence[Trained | str | Path]", out: str | Path | None, *, force: bool, report: str | None
) -> Exploration:
    """The page of a model of another program, which shows stored examples."""
    from headway.explorer.stored import render_stored, stored_document

    model = find_model(runs[0])
    if model is None or len(runs) > 1:
        raise InputError("a model of another program has a page of its own; name it alone")
    own = model.report.page
    if report is None and out is not None and own.is_file() and is_written_by_headway(own):
        report = quote(os.path.relpath(own, Path(out).parent).replace(os.sep, "/"))
    document = stored_document(model)
    text = render_stored(document, report)
    made = Exploration((str(document["name"]),), None, len(text.encode()), (), text)
    return made if out is None else replace(made, page=str(made.save(out, force=force)))


def checked_place(path: str | Path, *, force: bool = False) -> Path:
    """The path for a page; raises if no file can be written there, or if headway did not write the existing one."""
    place = Path(path)
    if place.is_dir():
        raise InputError(f"--out {place} is a directory; a file needed, such as {place / DEFAULT}")
    nearest = next(parent for parent in place.parents if parent.exists())
    if not nearest.is_dir():
        raise InputError(f"--out {place}: {nearest} is not a directory; a file inside a directory needed")
    check_outputs([place], force=force)
    return place


def default_place(names: Sequence[str]) -> Path:
    """The default file of a page: named after its run, if there is exactly one."""
    return Path(f"{names[0]}-{DEFAULT}") if len(names) == 1 else DEFAULT


def _export(
    runs: "Sequence[Trained | str | Path]", precision: str, progress: OnProgress
) -> "tuple[list[RunDocument], list[str]]":
    """The documents of the runs, and warnings."""
    from headway.evaluation import Trained, load
    from headway.explorer.export import export_run

    empty = [run for run in runs if isinstance(run, str) and not run.strip()]
    if empty:
        raise InputError(f"RUN {empty[0]!r} is empty; a run directory or the name of a run under ./runs needed")
    documents: list[RunDocument] = []
    warnings: list[str] = []
    for index, run in enumerate(runs):
        trained = run if isinstance(run, Trained) else load(run, device="cpu")
        warnings += trained.warnings
        documents.append(export_run(trained, precision=precision, warn=warnings.append))
        progress(index + 1, len(runs))
    return documents, warnings


def _report_of(runs: "Sequence[Trained | str | Path]", out: Path) -> str | None:
    """The address of the report beside the page, or of the only run's own, relative to the page; None without one."""
    paths = [run if isinstance(run, str | Path) else run.directory.path for run in runs]
    own = [RunDirectory.find(str(path)).report for path in paths] if len(paths) == 1 else []
    pages = [one.page for one in (ReportDirectory(out.parent), *own) if one.page != out]
    found = next((page for page in pages if page.is_file() and is_written_by_headway(page)), None)
    return None if found is None else quote(os.path.relpath(found, out.parent).replace(os.sep, "/"))


def shipped() -> list[JsonObject]:
    """The documents of the trained models that come with headway."""
    folder = files("headway.explorer") / "model"
    packed = sorted((path for path in folder.iterdir() if path.name.endswith(".json.gz")), key=lambda path: path.name)
    return [json.loads(gzip.decompress(path.read_bytes())) for path in packed]


def ship(run: str | Path, path: Path) -> int:
    """Write the document of a run that ships with headway; returns its size in bytes."""
    documents, _ = _export([run], "fp16", lambda done, total: None)
    text = json.dumps(documents[0].to_json(), separators=(",", ":"), allow_nan=False)
    content = gzip.compress(text.encode(), 9, mtime=0)
    replace_file(path, content)
    return len(content)


# The file


def render(documents: Sequence[JsonObject], report: str | None = None) -> str:
    """The page's text. Its content security policy allows only its own scripts and styles, by hash."""
    from headway import __version__

    folder = files("headway.explorer") / "page"
    text = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()}
    engine = engine_text()
    scripts = [text[name] for name in sorted(text) if name.startswith("app") and name.endswith(".js")]
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    content = {"form": FORM, "made_by": f"headway {__version__}", "runs": list(documents)}
    page = environment.from_string(text["index.html"]).render(
        title=", ".join(str(document["name"]) for document in documents),
        report=report,
        style=Markup(text["style.css"]),
        engine=Markup(engine),
        scripts=[Markup(script) for script in scripts],
        data=Markup(script_json(content)),
        policy=policy(text["style.css"], [engine, *scripts], **ALLOWED),
    )
    return page.lstrip() + "\n"


def engine_text() -> str:
    """The engine as one script."""
    folder = files("headway.explorer") / "page"
    return "".join((folder / f"engine-{part}.js").read_text(encoding="utf-8") for part in ENGINE)
