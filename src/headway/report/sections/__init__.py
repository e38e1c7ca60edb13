"""The sections of a report, one a file: each writes itself from the evidence, or is left out where there is none."""

from collections.abc import Callable

from headway.report.blocks import Section
from headway.report.evidence import Evidence
from headway.report.sections import accuracy, doctor, heads, lengths, methods, provenance, seeds, setup, training

SECTIONS: tuple[Callable[[Evidence], Section | None], ...] = (
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
    """Every section that has something to say."""
    found = [write(evidence) for write in SECTIONS]
    return [section for section in found if section is not None and (section.blocks or section.parts)]
