"""The compiled bound of rounding is the plain one, and a proof uses it for many contexts."""

import json
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest

from headway.errors import InstrumentError
from headway.evaluation import load
from headway.proofs import sums
from headway.proofs.sum_allowance import check_agreement
from headway.proofs.sum_contexts import groups, places
from tests.proofs.compiled_bounds import CERTIFIED, SIZES


def test_the_compiled_bound_is_the_plain_one_in_batches_of_every_size() -> None:
    program = [
        sys.executable,
        "-W",
        "error",
        "-W",
        "ignore:Guards may run slower",
        "-m",
        "tests.proofs.compiled_bounds",
    ]
    ended = subprocess.run(program, cwd=CERTIFIED.parents[3], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    for size, plain, compiled in found["bounds"]:
        assert size in SIZES and 0.1 < plain < 1
        assert compiled == pytest.approx(plain, rel=1e-12)  # float64 sums
    plain = [bound for _, bound, _ in found["bounds"]]
    assert plain[: len(SIZES)] == sorted(plain[: len(SIZES)]) and len(set(plain)) > 3
    assert found["graphs"] == 1  # one shape is compiled, once, whatever was written before
    assert "the compiled bound of rounding is" in found["planted"] and "not proved" in found["planted"]


def test_groups_of_many_contexts_are_bounded_by_the_compiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = load(CERTIFIED, device="cpu")
    margins = sums.Margins(trained, *sums.reach_of(trained))
    first = groups(places(margins.tables.reach)[0])[0]
    asked: list[int] = []

    def bound(write: object, contexts: SimpleNamespace, eos: int) -> float:
        asked.append(len(contexts.carry))
        return 7.0

    monkeypatch.setattr(margins, "compiled", bound, raising=False)
    for limit, done in ((first.size, first.size), (first.size + 1, 0)):
        monkeypatch.setitem(sums.COMPILED_FROM, "cpu", limit)
        asked.clear()
        margins.allowance = 0.0
        margins.bound(first, lambda done: None)
        assert sum(asked) == done
        assert (margins.allowance == 7.0) == bool(done)


def test_a_compiled_bound_that_differs_from_the_plain_one_stops_the_proof() -> None:
    check_agreement(math.inf, math.inf)
    check_agreement(1.0, 1.0 + 1e-10)
    for wrong in (1.0 - 1e-8, 0.0, math.inf, math.nan):
        with pytest.raises(InstrumentError, match=r"the compiled bound of rounding is .*not proved"):
            check_agreement(wrong, 1.0)
