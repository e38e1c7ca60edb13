"""Specimens: each known fault in a small run, with the diagnosis that it must get.

The first five are the faults of the earlier reports. `headway doctor --specimens` shows them all and tests the doctor.
"""

from dataclasses import replace

from headway.callbacks import OnProgress
from headway.diagnosis import planted, planted_elsewhere, planted_instruments
from headway.diagnosis.examine import examine
from headway.diagnosis.faults import RECIPES, Specimen, healthy_runs
from headway.diagnosis.subject import subject_of
from headway.results.doctor import Exhibit

SPECIMENS = tuple(
    one
    for module in (planted, planted_instruments, planted_elsewhere)
    for one in vars(module).values()
    if isinstance(one, Specimen)
)
"""The first error of each is its own diagnosis (`tests/diagnosis/test_specimens.py`)."""


def exhibit(progress: OnProgress = lambda done, total: None) -> Exhibit:
    """Build every specimen and examine it."""
    shown = []
    with healthy_runs() as healthy:
        runs = {f"healthy-{name}": getattr(healthy, name) for name in RECIPES}
        controls = [examine(replace(subject_of(trained), name=name)) for name, trained in runs.items()]
        for done, specimen in enumerate(SPECIMENS, 1):
            found = examine(replace(specimen.build(healthy), name=specimen.name))
            shown.append(specimen.diagnosed(found.findings))
            progress(done, len(SPECIMENS))
    return Exhibit(controls=tuple(controls), specimens=tuple(shown))
