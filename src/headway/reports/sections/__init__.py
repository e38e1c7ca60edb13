"""The sections of a report, one a file: each writes itself from the evidence, or is left out where there is none."""

from collections.abc import Callable
from dataclasses import replace

from markupsafe import Markup

from headway.reports.blocks import Paragraph, Section
from headway.reports.evidence import Evidence
from headway.reports.sections import accuracy, doctor, heads, lengths, methods, provenance, seeds, setup, training

Write = Callable[[Evidence], Section | None]
SECTIONS: tuple[Write, ...] = (
    doctor.section,
    setup.section,
    training.section,
    accuracy.section,
    heads.section,
    lengths.section,
    seeds.section,
    methods.section,
    provenance.section,
)
"""In the order of the page."""
SECTION_OF = {"evaluation": "accuracy", "summary": "accuracy"}
"""The section that tells a document, where it has another name."""


def sections(evidence: Evidence) -> list[Section]:
    """Every section that has something to say; one that cannot be written costs no other."""
    found = [attempt(write, evidence) for write in SECTIONS]
    return [section for section in found if section is not None and (section.blocks or section.parts)]


def attempt(write: Write, evidence: Evidence) -> Section | None:
    """What a section writes; in place of one that fails, its name and why."""
    name = write.__module__.rpartition(".")[2]
    try:
        return with_damages(write(evidence), name, evidence)
    except Exception as problem:
        why = f"{type(problem).__name__}: {problem}"
        words = Markup("This section could not be written from the files that are there. <q>{}</q>").format(why)
        return Section(name, name.capitalize(), [Paragraph([words])], problem=why)


def with_damages(section: Section | None, name: str, evidence: Evidence) -> Section | None:
    """The section, and first in it the files that it needs and that cannot be read."""
    places = [evidence.find(f"{place}/damaged", {}) for place in ("study", *evidence.runs)]
    damages = [why for found in places for file, why in found.items() if SECTION_OF.get(file, file) == name]
    if not damages:
        return section
    words = [
        Markup("A file cannot be read, and what it says is missing here: <q>{}</q>.").format(one) for one in damages
    ]
    whole = section or Section(name, name.capitalize(), [])
    return replace(whole, blocks=[Paragraph(words), *whole.blocks], problem="; ".join(damages))
