"""The public names are plain functions that an editor and a type checker see."""

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway as hw
from headway.arguments import checked
from headway.errors import InputError

NAMES = [name for name in hw.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_a_function_whose_signature_is_annotated(name: str) -> None:
    function = getattr(hw, name)
    assert inspect.isfunction(function)
    assert function.__doc__
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert parameter.kind is not parameter.VAR_KEYWORD, "an editor could not complete it"


def test_a_type_checker_knows_what_every_public_name_returns(tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    script.write_text("import headway as hw\n" + "".join(f"reveal_type(hw.{name})\n" for name in NAMES))
    # From the project's root and with its settings, so that `make lint` finds the cache that this leaves.
    command = [sys.executable, "-m", "mypy", str(script)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=Path(hw.__file__).parents[2]).stdout
    revealed = [line for line in told.splitlines() if "Revealed type" in line]
    assert len(revealed) == len(NAMES), told
    for name, line in zip(NAMES, revealed, strict=True):
        returned = line.rpartition("->")[2]
        assert 'is "def (' in line and "Any" not in returned, (name, line)


def test_a_name_that_is_not_there_is_told_what_is() -> None:
    with pytest.raises(
        AttributeError, match=r"no attribute 'head'; it has: .*attach, attack, .*compare, .*doctor, evaluate"
    ):
        hw.head  # noqa: B018


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hw.train("quick-addition", set=["train.epochs=1"]), "hw.train: set is .*; a dictionary with texts as"),
        (lambda: hw.train("quick-addition", set={3: 1}), "hw.train: set is {3: 1}; a dictionary with texts as keys or"),
        (lambda: hw.train("quick-addition", out=3), "hw.train: out is 3; a text or a path or None needed"),
        (lambda: hw.train(None), "hw.train: recipe is None; a text needed"),
        (lambda: hw.train("quick-addition", resume="no"), "hw.train: resume is 'no'; True or False needed"),
        (lambda: hw.attack("run", tries=5.5), "hw.attack: tries is 5.5; a whole number or None needed"),
        (lambda: hw.attack("run", tries=True), "hw.attack: tries is True; a whole number or None needed"),
        (lambda: hw.attack("run", at=9), "hw.attack: at is 9; a list of whole numbers or None needed"),
        (lambda: hw.attack("run", seconds="3"), "hw.attack: seconds is '3'; a number needed"),
        (lambda: hw.lengths("run", at="9,10"), "hw.lengths: at is '9,10'; a list of whole numbers or None needed"),
        (lambda: hw.lengths("run", at=[9.5]), "hw.lengths: at is .9.5.; a list of whole numbers or None needed"),
        (lambda: hw.lengths("run", n=2.0), "hw.lengths: n is 2.0; a whole number needed"),
        (lambda: hw.heads("run", split=None), "hw.heads: split is None; a text needed"),
        (lambda: hw.evaluate("run", split=3), "hw.evaluate: split is 3; a text needed"),
        (lambda: hw.prune("run", max_drop="3"), "hw.prune: max_drop is '3'; a number or None needed"),
        (lambda: hw.prune("run", max_drop=True), "hw.prune: max_drop is True; a number or None needed"),
        (lambda: hw.prune("run", keep="enc0.self.h0"), "hw.prune: keep is 'enc0.self.h0'; a list of texts or None"),
        (lambda: hw.compare("sweep", where=3), "hw.compare: where is 3; a list of texts needed"),
        (lambda: hw.compare("sweep", success="x"), "hw.compare: success is 'x'; a number or None needed"),
        (lambda: hw.study("addition", preset=3), "hw.study: preset is 3; a text needed"),
        (lambda: hw.study("addition", seeds="12"), "hw.study: seeds is '12'; a list of whole numbers or None needed"),
        (lambda: hw.report("run", out=3), "hw.report: out is 3; a text or a path or None needed"),
    ],
)
def test_an_argument_of_another_type_is_named_before_any_work(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        call()


def measured(at: Sequence[int] | None, share: float = 0.5, *, name: str = "") -> tuple[Any, ...]:
    """A function with arguments as the public ones have."""
    return (at, share, name)


@pytest.mark.parametrize("at", [None, [np.int64(7)], (7,), range(7, 9), np.arange(7, 9), {7, 9}])
@pytest.mark.parametrize("share", [1, 0.5, np.float32(0.5), np.int64(1)])
def test_numbers_of_numpy_and_lists_of_any_kind_are_taken(at: Any, share: Any) -> None:
    assert checked(measured, "measured")(at, share, name=Path("run")) == (at, share, Path("run"))


@pytest.mark.parametrize("name", NAMES)
def test_a_public_function_can_be_sent_to_another_process(name: str) -> None:
    assert pickle.loads(pickle.dumps(getattr(hw, name))) is getattr(hw, name)


def test_an_unknown_argument_is_told_by_python() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'tri'"):
        hw.attack("nowhere", tri=3)  # type: ignore[call-arg]


def test_a_negative_seed_of_an_attack_is_refused() -> None:
    with pytest.raises(InputError, match="--seed -1; at least 0 needed"):
        hw.attack("nowhere", seed=-1)
