"""The directories of runs, studies and sweeps: the only code that names files inside them.

    runs/<name>/
      config.json       the resolved recipe
      provenance.json   commit, versions, device, threads, command line
      metrics.jsonl     one object a line, append only
      data/             the files a run was trained on, if it was given any
      checkpoints/      step-000400/{model.safetensors, trainer.safetensors, state.json, MANIFEST}
      analysis/         what later commands found
      report/           index.html, report.md, and figures/ drawn from it
      tensorboard/      a mirror of metrics.jsonl, if one was asked for
    studies/<name>/
      study.json        the plan: arms, seeds, how runs are measured
      runs/<name>/      ordinary runs
      analysis/         what they say together
      report/           index.html, report.md, and figures/ drawn from it
    sweeps/<name>/
      sweep.json        the plan: recipe, varied settings, seeds, every trial's name
      trials/<name>/    ordinary runs
      results.jsonl     one line a trial that ended
      report/figures/   figures drawn from them

A checkpoint is written beside its place, synced, its SHA-256 manifest last, then renamed into place. So it is
written atomically, whatever kills the process. Only safetensors and JSON are ever read.
"""

from headway.runs.checkpoints import Checkpoint, DamagedCheckpoint, panics_as_memory_errors
from headway.runs.outputs import check_outputs, owner_of
from headway.runs.report import ReportDirectory
from headway.runs.run import RunDirectory, list_runs
from headway.runs.study import StudyDirectory
from headway.runs.sweep import SweepDirectory
