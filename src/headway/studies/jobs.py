"""The analyses of a trained run. An existing result is reused; otherwise the analysis is made and stored.

A result is reused if its file has the settings of the study and is of the chosen checkpoint.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from headway.callbacks import OnShare
from headway.errors import InputError
from headway.results.attack import Attack as AttackResult
from headway.results.doctor import Diagnosis as DiagnosisResult
from headway.results.doctor import Seen
from headway.results.evaluation import Evaluations, SplitEvaluation
from headway.results.heads import HeadAnalysis, read_heads
from headway.results.lengths import Lengths as LengthsResult
from headway.runs import RunDirectory
from headway.studies.plan import Study

if TYPE_CHECKING:
    from headway.tasks import Task

Found = TypeVar("Found")
TOKENS_A_SECOND = 100_000
"""Tokens per second through a small model on one core, approximately."""


@dataclass(frozen=True)
class RunAnalysis(ABC, Generic[Found]):
    """One analysis of one run of a study; `what` is its name, `file` the name of its file in the run."""

    run: RunDirectory
    study: Study
    what: ClassVar[str]
    file: ClassVar[str]

    def known(self) -> Found | None:
        """The stored result with these settings, or None; a damaged file is ignored."""
        try:
            found = self.read() if self.run.exists() else None
            return None if found is None else self.fitting(found)
        except (InputError, AttributeError, KeyError, TypeError):  # JSON, but not of this form
            return None

    @abstractmethod
    def read(self) -> Found | None:
        """The content of the run's file, or None."""

    def task(self) -> "Task":
        from headway.tasks import make_task

        return make_task(self.run.config().task)

    @abstractmethod
    def fitting(self, found: Found) -> Found | None:
        """The result, if its settings and checkpoint are those of this analysis."""

    @abstractmethod
    def do(self, *, device: str, tell: OnShare) -> Found:
        """Make the result and store it in the run."""

    @abstractmethod
    def passes(self) -> int:
        """About how many tokens pass through the model; decides the order and whether processes pay off."""


@dataclass(frozen=True)
class Accuracy(RunAnalysis[SplitEvaluation]):
    """Accuracy on the whole domain, or on the test split if the domain cannot be listed."""

    what: ClassVar[str] = "evaluation"
    file: ClassVar[str] = "evaluation"

    def split(self) -> str:
        return "all" if self.task().domain_size() else "test"

    def read(self) -> SplitEvaluation | None:
        found = self.run.read_result(Evaluations, self.file)
        return None if found is None else found.of(self.split())

    def fitting(self, found: SplitEvaluation) -> SplitEvaluation | None:
        return found if found.step == self.run.best_step else None

    def do(self, *, device: str, tell: OnShare) -> SplitEvaluation:
        from headway.evaluation import evaluate, load

        split = self.split()
        trained = load(self.run, device=device)
        found = evaluate(trained, split, progress=lambda done, total: tell(done / total))
        self.run.add_to_analysis(self.file, {split: found}, trained.step)
        return found

    def passes(self) -> int:
        return (self.task().domain_size() or self.run.config().data.test) * 12


@dataclass(frozen=True)
class Lengths(RunAnalysis[LengthsResult]):
    """Accuracy against length."""

    what: ClassVar[str] = "lengths"
    file: ClassVar[str] = "lengths"

    def read(self) -> LengthsResult | None:
        return self.run.read_result(LengthsResult, self.file)

    def fitting(self, found: LengthsResult) -> LengthsResult | None:
        wanted = (self.run.best_step, self.study.n, self.study.whole, tuple(sorted(set(self.study.at))))
        have = (found.checkpoint.step, found.n, found.whole, found.asked)
        return found if have == wanted and found.positions is not None else None

    def do(self, *, device: str, tell: OnShare) -> LengthsResult:
        from headway.evaluation import load
        from headway.length_analysis.measure import measure_lengths

        trained = load(self.run, device=device)
        found = measure_lengths(
            trained,
            at=self.study.at,
            n=self.study.n,
            whole=self.study.whole,
            progress=lambda done, total: tell(done / total),
        )
        self.run.replace_analysis(self.file, found, trained.step)
        return found

    def passes(self) -> int:
        return self.study.n * sum(self.study.at)


@dataclass(frozen=True)
class Why(Lengths):
    """Mechanism of the failure beyond training: which head changes first with length; stored in lengths.json."""

    what: ClassVar[str] = "why it fails"

    def fitting(self, found: LengthsResult) -> LengthsResult | None:
        measured = super().fitting(found)
        return measured if measured is not None and measured.mechanism is not None else None

    def do(self, *, device: str, tell: OnShare) -> LengthsResult:
        from headway.evaluation import load
        from headway.length_analysis.mechanism import mechanism
        from headway.studies.runner import main_set

        measured = self.run.read_result(LengthsResult, self.file)
        if measured is None:
            raise InputError(f"{self.run.path} was not measured against length")
        chosen = main_set(measured)
        lengths = [length for length in sorted(measured.of_set(chosen)) if length >= measured.training.longest]
        trained = load(self.run, device=device)
        found = mechanism(trained, lengths, sets=chosen, progress=lambda done, total: tell(done / total))
        self.run.add_to_analysis(self.file, {"mechanism": found}, trained.step)
        return replace(measured, mechanism=found)


@dataclass(frozen=True)
class Attack(RunAnalysis[AttackResult]):
    """A search for failing inputs, at the training lengths and the lengths held in lengths.json."""

    what: ClassVar[str] = "attack"
    file: ClassVar[str] = "attack"

    def read(self) -> AttackResult | None:
        return self.run.read_result(AttackResult, self.file)

    def fitting(self, found: AttackResult) -> AttackResult | None:
        measured = self.run.read_result(LengthsResult, "lengths")
        held = set() if measured is None else measured.held_lengths
        whole = found.ended != "interrupted" and found.seconds >= self.study.attack
        return found if whole and found.step == self.run.best_step and held <= set(found.lengths) else None

    def do(self, *, device: str, tell: OnShare) -> AttackResult:
        from headway.attacks.attack import attack
        from headway.evaluation import load

        trained = load(self.run, device=device)
        found = attack(
            trained, seconds=self.study.attack, report=lambda passed, seconds, _: tell(min(1.0, passed / seconds))
        )
        self.run.replace_analysis(self.file, found, trained.step)
        if found.ended == "interrupted":
            raise KeyboardInterrupt
        return found

    def passes(self) -> int:
        return int(self.study.attack * TOKENS_A_SECOND)


@dataclass(frozen=True)
class Heads(RunAnalysis[HeadAnalysis]):
    """The head analysis, as `headway heads RUN` makes it."""

    what: ClassVar[str] = "heads"
    file: ClassVar[str] = "heads"

    def read(self) -> HeadAnalysis | None:
        return read_heads(self.run)

    def fitting(self, found: HeadAnalysis) -> HeadAnalysis | None:
        from headway.head_analysis.analysis import RULES

        have = found.settings
        if have is None or (have.step, have.rules, have.maps) != (self.run.best_step, RULES, None):
            return None
        wanted = ("test", self.study.heads.examples, False)
        return found if (have.split, have.examples, have.thorough) == wanted else None

    def do(self, *, device: str, tell: OnShare) -> HeadAnalysis:
        from headway.evaluation import load
        from headway.head_analysis.analysis import analyse_and_keep, settings_of, steps

        every = steps()

        def note(step: str, done: int, total: int) -> None:
            tell((every.index(step) + done / total) / len(every))

        trained = load(self.run, device=device)
        settings = settings_of(trained, split="test", examples=self.study.heads.examples, thorough=False)
        return analyse_and_keep(trained, settings, note)

    def passes(self) -> int:
        # An analysis takes about a dozen passes per head over its examples, most of them partial.
        config = self.run.config()
        heads = config.model.n_heads * ((config.model.encoder_layers or 0) + 2 * (config.model.decoder_layers or 0))
        return 12 * heads * 12 * min(self.study.heads.examples, config.data.test)


@dataclass(frozen=True)
class Diagnosis(RunAnalysis[DiagnosisResult]):
    """The doctor's findings on one run; made again when the run's other results change."""

    what: ClassVar[str] = "doctor"
    file: ClassVar[str] = "doctor"

    def read(self) -> DiagnosisResult | None:
        return self.run.read_result(DiagnosisResult, self.file)

    def seen(self) -> Seen:
        """Digests of the results that the doctor reads, and the names of its checks."""
        from headway.diagnosis.examine import CHECKS
        from headway.diagnosis.run_documents import head_findings, read_finding, read_lengths

        return Seen(
            checks=tuple(check.name for check in CHECKS),
            heads=digest(head_findings(self.run)[0]),
            lengths=digest(read_lengths(self.run)[0]),
            attack=digest(read_finding(self.run, AttackResult, "attack")[0]),
        )

    def fitting(self, found: DiagnosisResult) -> DiagnosisResult | None:
        return found if (found.step, found.seen) == (self.run.best_step, self.seen()) else None

    def do(self, *, device: str, tell: OnShare) -> DiagnosisResult:
        from headway.diagnosis.examine import CHECKS, examine
        from headway.diagnosis.subject import subject_of
        from headway.evaluation import load

        checks = [check for check in CHECKS if check.name != "too-few-seeds"]  # reported for the whole study
        tell(0.0)
        trained = load(self.run, device=device)
        found = replace(examine(subject_of(trained), checks), seen=self.seen())
        self.run.replace_analysis(self.file, found, trained.step)
        return found

    def passes(self) -> int:
        return 20_000


def digest(found: HeadAnalysis | LengthsResult | AttackResult | None) -> str | None:
    """A digest of a document; None without one."""
    if found is None:
        return None
    return hashlib.sha256(json.dumps(found.to_json(), sort_keys=True).encode()).hexdigest()[:16]
