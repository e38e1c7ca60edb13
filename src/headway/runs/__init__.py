"""The directories of runs, studies and sweeps: the only code that names files inside them.

    runs/<name>/
      config.json       the resolved recipe
      provenance.json   commit, versions, device, threads, command line
      metrics.jsonl     one object per line, append only
      data/             the training files, if the run was trained on files
      checkpoints/      step-000400/{model.safetensors, trainer.safetensors, state.json, MANIFEST}
      analysis/         results of later commands
      report/           index.html, report.md, and figures/ drawn from it
      tensorboard/      a mirror of metrics.jsonl, if requested
    studies/<name>/
      study.json        the plan: arms, seeds, how runs are measured
      runs/<name>/      ordinary runs
      analysis/         results over all runs
      report/           index.html, report.md, and figures/ drawn from it
    <out of headway heads FILE.py:FUNCTION>/
      model.json        what was analysed, and its answers without each head on stored examples
      analysis/         heads.json, doctor.json
      report/           index.html, report.md, and figures/ drawn from it
    sweeps/<name>/
      sweep.json        the plan: recipe, varied settings, seeds, every trial's name
      trials/<name>/    ordinary runs
      results.jsonl     one line per finished trial
      report/figures/   figures drawn from them

A checkpoint is written to a temporary directory, synced, its SHA-256 manifest last, and then renamed. So a killed
process never leaves a partial checkpoint. Only safetensors and JSON are read.
"""

from headway.runs.checkpoints import Checkpoint, DamagedCheckpoint, panics_as_memory_errors
from headway.runs.directory import check_links
from headway.runs.model import ModelDirectory, find_model
from headway.runs.outputs import check_outputs, owner_of
from headway.runs.report import ReportDirectory
from headway.runs.run import RunDirectory, list_runs
from headway.runs.study import StudyDirectory
from headway.runs.sweep import SweepDirectory
