"""headway: a laboratory for small transformers.

import headway as hw

hw.train("addition", seed=0)                 # a recipe's name or path -> runs/addition-seed0
run = hw.load("addition-seed0")
hw.evaluate(run, "all").accuracy
hw.heads(run).top(3)                         # the heads it needs most
hw.attach(model).heads                       # the heads of a model that headway did not make
hw.lengths("sortedness-seed0").held          # how far past its training it holds
hw.attack("sortedness-seed0").counterexamples   # inputs that it gets wrong
hw.prove("local-addition-seed0").answer      # is it right at every length?
hw.report("addition-seed0").page             # all of it on one page
hw.study("addition", preset="quick")         # train, measure, analyse and report in one call
run.explore()                                # the model itself on a page, in a notebook
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.api import prune, sweep, train
    from headway.attached_analysis.analyse import heads
    from headway.attachment.attached import attach
    from headway.attachment.contexts import ablated, captured, patched
    from headway.attachment.pruned_files import load_pruned
    from headway.attacks.attack import attack
    from headway.conversion import convert
    from headway.diagnosis.examine import doctor
    from headway.diagnosis.exercise import exercise
    from headway.evaluation import evaluate, load
    from headway.explorer.writing import explore
    from headway.head_analysis.over_training import heads_over_training
    from headway.length_analysis.measure import measure_lengths as lengths
    from headway.proofs.prove import prove
    from headway.reports.writing import report
    from headway.runs.verify import verify
    from headway.studies.study import study
    from headway.sweeps.compare import compare

__version__ = "0.1.0"

_PUBLIC = {
    "train": "headway.api:train",
    "load": "headway.evaluation:load",
    "evaluate": "headway.evaluation:evaluate",
    "heads": "headway.attached_analysis.analyse:heads",
    "heads_over_training": "headway.head_analysis.over_training:heads_over_training",
    "prune": "headway.api:prune",
    "attach": "headway.attachment.attached:attach",
    "ablated": "headway.attachment.contexts:ablated",
    "patched": "headway.attachment.contexts:patched",
    "captured": "headway.attachment.contexts:captured",
    "load_pruned": "headway.attachment.pruned_files:load_pruned",
    "lengths": "headway.length_analysis.measure:measure_lengths",
    "attack": "headway.attacks.attack:attack",
    "prove": "headway.proofs.prove:prove",
    "doctor": "headway.diagnosis.examine:doctor",
    "exercise": "headway.diagnosis.exercise:exercise",
    "report": "headway.reports.writing:report",
    "explore": "headway.explorer.writing:explore",
    "sweep": "headway.api:sweep",
    "convert": "headway.conversion:convert",
    "compare": "headway.sweeps.compare:compare",
    "study": "headway.studies.study:study",
    "verify": "headway.runs.verify:verify",
}
"""Each public function, imported when it is first asked for: torch takes seconds."""

__all__ = [
    "__version__",
    "ablated",
    "attach",
    "attack",
    "captured",
    "compare",
    "convert",
    "doctor",
    "evaluate",
    "exercise",
    "explore",
    "heads",
    "heads_over_training",
    "lengths",
    "load",
    "load_pruned",
    "patched",
    "prove",
    "prune",
    "report",
    "study",
    "sweep",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'headway' has no attribute {name!r}; it has: {', '.join(sorted(_PUBLIC))}")
    module, function = _PUBLIC[name].split(":")
    found = import_module("headway.arguments").checked(getattr(import_module(module), function), name)
    if "ipykernel" not in sys.modules:
        return found
    return import_module("headway.notebook_progress").with_bars(found)  # in a notebook, with a progress bar


def __dir__() -> list[str]:
    return sorted(__all__)
