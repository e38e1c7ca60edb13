"""Writes docs/result-files.md from the result types: `python -m headway.results.page`."""

from collections.abc import Iterator
from inspect import getdoc

from headway.results.analysed_model import AnalysedModel
from headway.results.attack import Attack
from headway.results.comparison import Comparison, Outcome
from headway.results.conversion import Conversion
from headway.results.doctor import Diagnoses, Diagnosis, Exhibit, StudyHealth
from headway.results.evaluation import Evaluations
from headway.results.heads import HeadAnalysis
from headway.results.heads_study import HeadsStudy
from headway.results.integrity import Integrity
from headway.results.lengths import Lengths
from headway.results.over_training import OverTraining
from headway.results.proof import Check, Proof
from headway.results.schema import described
from headway.results.study import AccuracyStudy, LengthStudy

FILES: dict[str, type] = {
    "runs/NAME/analysis/evaluation.json": Evaluations,
    "runs/NAME/analysis/heads.json": HeadAnalysis,
    "runs/NAME/analysis/over_training.json": OverTraining,
    "runs/NAME/analysis/lengths.json": Lengths,
    "runs/NAME/analysis/attack.json": Attack,
    "runs/NAME/analysis/proof.json": Proof,
    "headway prove --check FILE --json": Check,
    "runs/NAME/analysis/doctor.json": Diagnosis,
    "headway doctor RUN RUN --json": Diagnoses,
    "headway verify RUN --json": Integrity,
    "headway convert FILE --json": Conversion,
    "headway doctor --specimens --json": Exhibit,
    "DIR/model.json of headway heads FILE.py:FUNCTION --out DIR": AnalysedModel,
    "studies/NAME/analysis/heads.json": HeadsStudy,
    "studies/NAME/analysis/lengths.json": LengthStudy,
    "studies/NAME/analysis/summary.json": AccuracyStudy,
    "sweeps/NAME/results.jsonl": Outcome,
    "headway compare --json": Comparison,
    "studies/NAME/analysis/doctor.json": StudyHealth,
}
SPLIT = "the fields are those of `train` in a run's evaluation.json"
DIAGNOSIS = "the fields are those of a run's doctor.json"
SAME = {
    Evaluations: {"validation": SPLIT, "test": SPLIT, "all": SPLIT},
    LengthStudy: {"cells[].runs[]": "it has the fields of the run's own lengths.json, and:"},
    AccuracyStudy: {"runs[].evaluation": SPLIT},
    Diagnoses: {"runs[]": DIAGNOSIS},
    Exhibit: {"controls[]": DIAGNOSIS},
}
"""Parts whose fields are described elsewhere on the page."""
LEAD = """# Result files

The meaning of every field of a result file. This page is generated from the types in `src/headway/results/` by
`python -m headway.results.page > docs/result-files.md`, and a test compares the two. In Python the same fields are
attributes: `hw.heads(run).heads[0].ablation["zero"].drop`. If an attribute has another name, the table says so.
Commands write the files; `hw.heads(run)`, `hw.lengths(run)`, `hw.attack(run)` and `hw.doctor(run)` return the same
documents and write nothing.

`[]` is an item of a list, `.NAME` a key that depends on the run: a head, a set, a kind of ablation. Every file in a run
directory also has `made_from`: the step, and the SHA-256 of weights, config and data. A reader refuses a file that was
made from others.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([LEAD, *(line for file, kind in FILES.items() for line in section(file, kind))])


def section(file: str, kind: type) -> Iterator[str]:
    """One file: its fields as a table."""
    about = (getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
    yield from (f"## {file}", "", about, "", "| field | holds | unit | meaning |", "|---|---|---|---|")
    same = SAME.get(kind, {})
    hidden = {f"{place}.{path}" for place in same for path in told_elsewhere()}
    for path, holds, unit, meaning in described(kind):
        if path not in hidden:
            more = f"; {same[path]}" if path in same else ""
            yield f"| `{path}` | {escaped(holds)} | {unit} | {escaped(meaning)}{more} |"
    yield ""


def told_elsewhere() -> set[str]:
    """The fields of a split's evaluation and of a run's lengths.json and doctor.json, which other files contain too."""
    split = {path.removeprefix("train.") for path, *_ in described(Evaluations) if path.startswith("train.")}
    return split | {path for kind in (Lengths, Diagnosis) for path, *_ in described(kind)}


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
