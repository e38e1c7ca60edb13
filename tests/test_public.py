"""The public names are plain functions that an editor and a type checker see."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import headway as hw

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
