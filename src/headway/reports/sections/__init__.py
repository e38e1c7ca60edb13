"""The sections of a report, one a file: each writes itself from the documents, or is left out where there are none."""

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
    provenance,
    seeds,
    setup,
    training,
)

Write = Callable[[Documents], Section | None]
SECTIONS: tuple[Write, ...] = (
    doctor.section,
    setup.section,
    training.section,
    accuracy.section,
    heads.section,
    lengths.section,
    evidence.section,
    seeds.section,
    methods.section,
    provenance.section,
)
"""In the order of the page."""
SECTION_OF = {"evaluation": "accuracy", "summary": "accuracy", "attack": "evidence", "proof": "evidence"}
"""The section that tells a document, where it has another name."""


def sections(documents: Documents) -> list[Section]:
    """Every section that has something to say; one that cannot be written costs no other."""
    found = [attempt(write, documents) for write in SECTIONS]
    return [section for section in found if section is not None and (section.blocks or section.parts)]


def attempt(write: Write, documents: Documents) -> Section | None:
    """What a section writes; in place of one that fails, its name and why."""
    name = write.__module__.rpartition(".")[2]
    try:
        return with_damages(write(documents), name, documents)
    except Exception as problem:
        why = f"{type(problem).__name__}: {problem}"
        words = text("This section could not be written from the files that are there. {}", quote(why))
        return Section(name, name.capitalize(), [Paragraph([words])], problem=why)


def with_damages(section: Section | None, name: str, documents: Documents) -> Section | None:
    """The section, and first in it the files that it needs and that cannot be read."""
    study = {} if documents.study is None else documents.study.damaged
    files = [item for one in (study, *(run.damaged for run in documents.runs)) for item in one.items()]
    damages = [str(why) for file, why in files if SECTION_OF.get(file, file) == name]
    if not damages:
        return section
    words = [text("A file cannot be read, and what it says is missing here: {}.", quote(one)) for one in damages]
    whole = section or Section(name, name.capitalize(), [])
    return replace(whole, blocks=[Paragraph(words), *whole.blocks], problem="; ".join(damages))
