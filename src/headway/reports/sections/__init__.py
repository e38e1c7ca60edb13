"""The sections of a report, one per file; each is made from the documents, or left out if there are none."""

from collections.abc import Callable
from dataclasses import replace

from headway.narration.text import quote, text
from headway.reports.blocks import Paragraph, Section
from headway.reports.documents import Documents
from headway.reports.sections import (
    accuracy,
    doctor,
    evidence,
    heads,
    lengths,
    methods,
    over_training,
    provenance,
    seeds,
    setup,
    training,
)

Write = Callable[[Documents], Section | None]
SECTIONS: tuple[Write, ...] = (
    heads.section,
    lengths.section,
    accuracy.section,
    evidence.section,
    seeds.section,
    doctor.section,
    setup.section,
    training.section,
    over_training.section,
    methods.section,
    provenance.section,
)
"""All sections, in the order of the page."""
SECTION_OF = {"evaluation": "accuracy", "summary": "accuracy", "attack": "evidence", "proof": "evidence"}
"""The section of a document, if it has another name."""


def sections(documents: Documents) -> list[Section]:
    """All non-empty sections; an error in one does not affect the others."""
    found = [attempt(write, documents) for write in SECTIONS]
    return [section for section in found if section is not None and (section.blocks or section.parts)]


def attempt(write: Write, documents: Documents) -> Section | None:
    """A section; if it fails, a section with its name and error."""
    name = write.__module__.rpartition(".")[2]
    try:
        return with_damages(write(documents), name, documents)
    except Exception as problem:
        why = f"{type(problem).__name__}: {problem}"
        words = text("This section could not be written from the files. {}", quote(why))
        return Section(name, name.capitalize(), [Paragraph([words])], problem=why)


def with_damages(section: Section | None, name: str, documents: Documents) -> Section | None:
    """The section, starting with its unreadable files."""
    study = {} if documents.study is None else documents.study.damaged
    files = [item for one in (study, *(run.damaged for run in documents.runs)) for item in one.items()]
    damages = [str(why) for file, why in files if SECTION_OF.get(file, file) == name]
    if not damages:
        return section
    words = [text("A file cannot be read, so its content is missing here: {}.", quote(one)) for one in damages]
    whole = section or Section(name, name.capitalize(), [])
    return replace(whole, blocks=[Paragraph(words), *whole.blocks], problem="; ".join(damages))
