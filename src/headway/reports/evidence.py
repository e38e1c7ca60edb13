"""What a report may say: every number and quotation of its text is taken from the documents here, and keeps its place.

A place is a path into the documents (`runs/0/heads/baseline/wrong`) or a small sum over such paths
(`count(runs/0/heads/heads, verdict=critical)`). In the page each number carries its place, so that a reader can look it
up and a test can look up all of them. What is not in the documents raises `Missing`, and the sentence is not written.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from markupsafe import Markup

from headway.results.evaluation import Evaluations
from headway.results.heads import HeadAnalysis
from headway.results.lengths import Lengths
from headway.results.schema import member
from headway.results.study import AccuracyStudy, LengthStudy
from headway.statistics import wilson_interval

Form = Callable[[float], str]
"""How a number is written."""

METHOD = {"confidence": 0.95, "critical_above": 10, "important_above": 1, "enough_seeds": 6, "moves_above": 0.05}
"""Fixed numbers of the methods, which the text may also name."""


class Missing(Exception):
    """The documents do not hold what a sentence needs; the message is the path."""


def whole(value: float) -> str:
    """A count, or a number that may have a fraction.

    >>> whole(810000), whole(64.0), whole(2.5)
    ('810,000', '64', '2.5')
    """
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,g}"


def percent(share: float) -> str:
    """Per cent, with as many decimals (at most six) as tell it from all or nothing; a number may reach past both.

    >>> percent(1), percent(0.998083), percent(0.9999952), percent(0.5), percent(0.0004), percent(-0.02)
    ('100 %', '99.81 %', '99.99952 %', '50.0 %', '0.040 %', '−2.0 %')
    """
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    if not 0 < share < 1:
        return f"{100 * share:.1f} %".replace("-", "−")
    decimals = max(1, min(6, math.ceil(-math.log10(max(min(share, 1 - share), 1e-9)) - 1e-6) - 1))
    return f"{100 * share:.{decimals}f} %"


def points(value: float) -> str:
    """Percentage points: two decimals below 1, one from there on, with a true minus sign.

    >>> points(12.34), points(0.021), points(-0.5), points(-0.001)
    ('12.3', '0.02', '−0.50', '0.00')
    """
    decimals = 1 if abs(value) >= 1 else 2
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")  # adding 0 makes -0 a plain 0


def decimal(value: float) -> str:
    """Three significant digits.

    >>> decimal(0.96914), decimal(5.388e-09), decimal(3.478)
    ('0.969', '5.39e−09', '3.48')
    """
    return f"{value:.3g}".replace("-", "−")


def thousandths(value: float) -> str:
    """Three decimals.

    >>> thousandths(0.96914), thousandths(-0.0001)
    ('0.969', '0.000')
    """
    return f"{round(value, 3) + 0.0:.3f}".replace("-", "−")  # adding 0 makes -0 a plain 0


def minutes(seconds: float) -> str:
    """Seconds up to two minutes, then minutes.

    >>> minutes(79.2), minutes(348.7)
    ('79 s', '5.8 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def switch(value: object) -> str:
    """A setting as a recipe has it.

    >>> switch(True), switch("pre"), switch(1e-07), switch(10000)
    ('true', 'pre', '1e-07', '10,000')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return whole(value) if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Evidence:
    """Documents by name, and the ways to put what they hold into a sentence."""

    documents: Mapping[str, Any]

    def get(self, path: str) -> Any:
        """What lies at the path; `Missing` where nothing does, or null."""
        found: Any = self.documents
        for key in path.split("/"):
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, Sequence) and not isinstance(found, str) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            elif is_dataclass(found):
                found = member(found, key)
            else:
                raise Missing(path)
        if found is None:
            raise Missing(path)
        return found

    def find(self, path: str, otherwise: Any = None) -> Any:
        """The same, with something in place of what is not there."""
        try:
            return self.get(path)
        except Missing:
            return otherwise

    def has(self, path: str) -> bool:
        return self.find(path) is not None

    @property
    def runs(self) -> list[str]:
        """The path of every run."""
        return [f"runs/{index}" for index in range(len(self.find("runs", [])))]

    def those_with(self, name: str) -> list[str]:
        """The runs that have some document."""
        return [run for run in self.runs if self.has(f"{run}/{name}")]

    def evaluations(self, run: str) -> Evaluations:
        """What was measured of a run, by split; nothing where it was not evaluated."""
        found: Evaluations = self.find(f"{run}/evaluation", Evaluations())
        return found

    def heads(self, run: str) -> HeadAnalysis:
        """The analysis of heads of a run that has one."""
        found: HeadAnalysis = self.get(f"{run}/heads")
        return found

    def lengths(self, run: str) -> Lengths:
        """What was measured of a run against length."""
        found: Lengths = self.get(f"{run}/lengths")
        return found

    @property
    def length_study(self) -> LengthStudy | None:
        """What a study of lengths says."""
        found: LengthStudy | None = self.find("study/lengths")
        return found

    @property
    def accuracy_study(self) -> AccuracyStudy | None:
        """What a study of accuracy says."""
        found: AccuracyStudy | None = self.find("study/summary")
        return found

    def number(self, path: str, form: Form = whole) -> Markup:
        """One number, with its place."""
        return placed(self.get(path), path, form)

    def interval(self, path: str, form: Form = percent) -> Markup:
        """Both ends of an interval: `14.5 to 17.7`."""
        return Markup("{} to {}").format(self.number(f"{path}/0", form), self.number(f"{path}/1", form))

    def text(self, path: str, tag: str = "q") -> Markup:
        """A quotation, word for word; `code` for names."""
        return Markup('<{} data-at="{}">{}</{}>').format(Markup(tag), path, self.get(path), Markup(tag))

    def setting(self, path: str) -> Markup:
        """A setting of a recipe, whatever its type."""
        value = self.get(path)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return placed(value, path, switch)
        return Markup('<code data-at="{}">{}</code>').format(path, switch(value))

    # Sums over paths, written as they are computed

    def size(self, path: str) -> Markup:
        """How many entries a list has."""
        return placed(len(self.get(path)), f"size({path})", whole)

    def count(self, path: str, key: str, value: str) -> Markup:
        """How many entries of a list have a value under a key."""
        return placed(self.how_many(path, key, value), f"count({path}, {key}={value})", whole)

    def how_many(self, path: str, key: str, value: str) -> int:
        return sum(self.find(f"{path}/{index}/{key}") == value for index in range(len(self.get(path))))

    def having(self, name: str) -> Markup:
        """How many runs have some document."""
        return placed(len(self.those_with(name)), f"having(runs, {name})", whole)

    def allowed(self, n: str, threshold: str) -> int:
        """How many of n examples may be wrong with the interval of accuracy still above; -1 where n is too few."""
        size, least = self.get(n), self.get(threshold)
        wrong = 0
        while wrong <= size and wilson_interval(size - wrong, size)[0] >= least:
            wrong += 1
        return wrong - 1

    def errors_allowed(self, n: str, threshold: str) -> Markup:
        return placed(self.allowed(n, threshold), f"allowed({n}, {threshold})", whole)

    def ratio(self, above: str, below: str) -> Markup:
        return placed(self.get(above) / self.get(below), f"ratio({above}, {below})", whole)

    def lowest(self, paths: Iterable[str], form: Form = whole) -> Markup:
        return self._extreme("lowest", min, list(paths), form)

    def highest(self, paths: Iterable[str], form: Form = whole) -> Markup:
        return self._extreme("highest", max, list(paths), form)

    def _extreme(self, name: str, choose: Callable[..., Any], paths: list[str], form: Form) -> Markup:
        return placed(choose(self.get(path) for path in paths), f"{name}({', '.join(paths)})", form)


def placed(value: float, place: str, form: Form) -> Markup:
    """A number in the text, which carries its exact value and its place."""
    exact = repr(value) if isinstance(value, int) else repr(float(value))
    return Markup('<data value="{}" data-at="{}">{}</data>').format(exact, place, form(value))


def written(*sentences: Callable[[], Markup | str | None]) -> list[Markup]:
    """The sentences whose evidence is there, in order."""
    found = []
    for sentence in sentences:
        try:
            text = sentence()
        except (Missing, LookupError):  # of an older or half-written document
            continue
        if text:
            found.append(Markup(text) if isinstance(text, Markup) else Markup.escape(text))
    return found


def listed(items: Sequence[Markup | str]) -> Markup:
    """Words with commas and an `and`: a, b and c."""
    parts = [Markup.escape(item) for item in items]
    if len(parts) < 2:
        return parts[0] if parts else Markup("")
    return Markup("{} and {}").format(Markup(", ").join(parts[:-1]), parts[-1])
