"""The sections of a report, one a file: each writes itself from the evidence, or is left out where there is none."""

from collections.abc import Callable

from markupsafe import Markup

from headway.report.blocks import Paragraph, Section
from headway.report.evidence import Evidence
from headway.report.sections import accuracy, doctor, heads, lengths, methods, provenance, seeds, setup, training

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


def sections(evidence: Evidence) -> list[Section]:
    """Every section that has something to say; one that cannot be written costs no other."""
    found = [attempt(write, evidence) for write in SECTIONS]
    return [section for section in found if section is not None and (section.blocks or section.parts)]


def attempt(write: Write, evidence: Evidence) -> Section | None:
    """What a section writes; in place of one that fails, its name and why."""
    try:
        return write(evidence)
    except Exception as problem:
        name = write.__module__.rpartition(".")[2]
        why = f"{type(problem).__name__}: {problem}"
        words = Markup("This section could not be written from the files that are there. <q>{}</q>").format(why)
        return Section(name, name.capitalize(), [Paragraph([words])], problem=why)
