"""`headway exercise`: a student's project with planted mistakes, an assignment sheet, and the answer key apart."""

import json
import runpy
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from headway.diagnosis.mistakes import MISTAKES, RIGHT_LINES, Digits, Mistake, exact
from headway.errors import InputError
from headway.narration.numbers import percent
from headway.randomness import generator
from headway.results.schema import Document
from headway.storage import naming, new_folder

ERRORS = 0.03
"""Share of answers that are wrong although nothing is planted: a trained model is not perfect."""
LARGEST_SEED = 2**31 - 1
POINTS = {"finds it": 2, "shows the evidence": 2, "explains the effect": 2, "repairs it": 2, "measures again": 2}
"""The rubric for each mistake."""
COMMAND = "headway doctor --predictions project/predictions.json --data project/data"


@dataclass(frozen=True)
class ExerciseKey(Document):
    """The answer key: which mistakes were planted, and the doctor's checks that find them."""

    seed: int
    mistakes: list[str]
    checks: list[str]
    follows: list[str]
    reported_accuracy: float
    honest_accuracy: float
    command: str = COMMAND


def exercise(directory: str | Path, *, seed: int = 0) -> ExerciseKey:
    """Write an exercise into a new or empty directory and return its key.

    `project/` is what students get, with `assignment.md`; `answer-key/` is for the teacher. The seed chooses one or two
    mistakes.

    >>> hw.exercise("week-3", seed=4).checks   # doctest: +SKIP
    """
    place = Path(directory)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{place} exists and is not an empty directory")
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"--seed {seed}; a seed from 0 to {LARGEST_SEED:,} needed")
    planted = chosen(seed)
    with new_folder(place) as folder, naming(place):
        return write_exercise(folder, planted, seed)


def write_exercise(folder: Path, planted: Sequence[Mistake], seed: int) -> ExerciseKey:
    """Write every file of an exercise with these mistakes."""
    project = folder / "project"
    project.mkdir()
    lines = RIGHT_LINES | {name: text for one in planted for name, text in one.lines.items()}
    for name in ("generate_data.py", "train.py"):
        template = (files("headway.diagnosis") / "student" / f"{name}.txt").read_text(encoding="utf-8")
        (project / name).write_text(Template(template).substitute(lines, seed=seed), encoding="utf-8")
    runpy.run_path(str(project / "generate_data.py"))["main"](str(project / "data"), seed)
    key = write_answers(project, planted, seed)
    (project / "report.md").write_text(REPORT.format(accuracy=percent(key.reported_accuracy)), encoding="utf-8")
    (folder / "assignment.md").write_text(assignment(len(planted)), encoding="utf-8")
    (folder / "answer-key").mkdir()
    (folder / "answer-key" / "key.json").write_text(json.dumps(key.to_json(), indent=1) + "\n", encoding="utf-8")
    (folder / "answer-key" / "answer-key.md").write_text(answer_key(planted, key, lines), encoding="utf-8")
    return key


def chosen(seed: int) -> list[Mistake]:
    """One mistake, or one of the data and one of training; wrong targets stand alone, because they hide the others."""
    random = generator(seed, "exercise")
    first = MISTAKES[int(random.integers(len(MISTAKES)))]
    others = [one for one in MISTAKES if one.about != first.about and "carry-forgotten" not in (one.name, first.name)]
    if not others or random.random() < 0.5:
        return [first]
    return [first, others[int(random.integers(len(others)))]]


def write_answers(project: Path, planted: Sequence[Mistake], seed: int) -> ExerciseKey:
    """Write the answers of a model that learned all but what the mistakes prevent; the key with its accuracies."""
    random = generator(seed, "exercise answers")
    rows = json.loads((project / "data" / "test.json").read_text(encoding="utf-8"))
    score = next((one.score for one in planted if one.score is not exact), exact)
    reported = honest = 0
    for row in rows:
        answer = with_error(row["target"], random)
        for one in planted:
            answer = one.answer(answer, random)
        row["prediction"] = answer
        reported += score(answer, row["target"])
        honest += exact(answer, row["target"])
    (project / "predictions.json").write_text(json.dumps(rows), encoding="utf-8")
    return ExerciseKey(
        seed=seed,
        mistakes=[one.name for one in planted],
        checks=[one.check for one in planted],
        follows=[check for one in planted for check in one.follows],
        reported_accuracy=reported / len(rows),
        honest_accuracy=honest / len(rows),
    )


def with_error(target: Digits, random: np.random.Generator) -> Digits:
    """The target, now and then with one wrong digit."""
    if random.random() >= ERRORS:
        return list(target)
    place = int(random.integers(len(target)))
    return [(digit + 1) % 10 if index == place else digit for index, digit in enumerate(target)]


# Words

REPORT = """# Addition with a transformer

The data are made by `generate_data.py`, the model is trained by `train.py` (60 epochs).

Test accuracy: {accuracy}.
"""


def assignment(count: int) -> str:
    """The sheet for students."""
    number = "one mistake" if count == 1 else f"{count} mistakes"
    return f"""# Assignment: what is wrong with this experiment?

A fellow student trained a transformer on sums of two numbers of two digits. The project holds the programs
(`generate_data.py`, `train.py`), the data, the answers of the trained model (`predictions.json`) and a short report.
It has at least {number}.

For each mistake:

1. Name the file and the line.
2. Show it with evidence from the data or the answers: a count, or an example.
3. Explain what it does to the reported accuracy.
4. Repair it.
5. Measure again, and compare with the report.

You may use any tool, for example `{COMMAND}`.
"""


def answer_key(planted: Sequence[Mistake], key: ExerciseKey, lines: dict[str, str]) -> str:
    """The key with the rubric; the lines are those of the programs."""
    parts = [
        f"# Answer key (seed {key.seed})\n",
        f"Reported accuracy {percent(key.reported_accuracy)}; answers that are exactly right "
        f"{percent(key.honest_accuracy)}. The answers in predictions.json were not made by training: they are those of "
        "a model that adds with a few errors, changed as the mistake of training changes them. The data were made by "
        "running the student's program.\n",
        f"`{key.command}` reports: {', '.join(f'`{check}`' for check in key.checks)}.\n",
    ]
    for number, one in enumerate(planted, 1):
        code = "\n".join(lines[name] for name in one.lines)
        parts.append(
            f"## {number}. {one.name}\n\n{one.what} {one.why}\n\nIn `{one.file}`:\n\n```python\n{code}\n```\n\n"
            f"Repair: {one.fix}\n\nThe doctor's check: `{one.check}`.\n"
        )
    rubric = "\n".join(f"| {what} | {points} |" for what, points in POINTS.items())
    total = sum(POINTS.values())
    parts.append(
        f"## Rubric, for each mistake\n\n| what the student does | points |\n|---|---|\n{rubric}\n| total | {total} |\n"
    )
    return "\n".join(parts)
