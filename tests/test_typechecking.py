"""A wrong type or shape in a call of headway fails the test that makes it."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, Int, TypeCheckError
from torch import Tensor

import headway
from headway import statistics
from headway.config import DataConfig
from headway.model.transformer import Transformer
from headway.tasks.columns import written_columns
from tests.typechecking import checked

MATRIX = torch.zeros(2, 3)


@checked
def multiply(left: Float[Tensor, "row inner"], right: Float[Tensor, "inner column"]) -> Float[Tensor, "row column"]:
    return left @ right


@checked
def turn(matrix: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    return matrix.T


@checked
def halve(numbers: list[float], name: str = "x", parent: "Unknown | None" = None) -> float:
    return "none" if not numbers else numbers[0] / 2  # type: ignore[return-value]


def multiply_by(right: Float[Tensor, "inner column"]) -> Callable[..., Tensor]:
    @checked
    def product(left: Float[Tensor, "row inner"], times: int = 1) -> Float[Tensor, "row column"]:
        return left @ right * times

    return product


@dataclass(frozen=True)
class Plain:
    weights: Float[Tensor, "row column"]
    sizes: Int[Tensor, " row"]


Pair = checked(Plain)


def test_right_calls_pass() -> None:
    assert multiply(MATRIX, torch.zeros(3, 5)).shape == (2, 5)
    assert multiply(torch.zeros(4, 1), right=torch.zeros(1, 2)).shape == (4, 2)  # sizes are those of one call
    assert turn(torch.zeros(3, 3)).shape == (3, 3)
    assert halve([3]) == 1.5
    assert halve([3.0], parent=object()) == 1.5
    assert Pair(MATRIX, torch.zeros(2, dtype=torch.int64)).sizes.shape == (2,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: multiply(MATRIX, MATRIX),
        lambda: multiply(MATRIX, right=torch.zeros(3)),
        lambda: multiply(MATRIX.long(), torch.zeros(3, 5)),
        lambda: multiply(MATRIX, np.zeros((3, 5))),
        lambda: turn(MATRIX),
        lambda: halve(["x"]),
        lambda: halve([1.0], name=3),
        lambda: halve([]),
        lambda: Pair(MATRIX, torch.zeros(3, dtype=torch.int64)),
        lambda: Pair(weights=MATRIX, sizes=torch.zeros(2)),
    ],
)
def test_wrong_calls_fail(call: Callable[[], object]) -> None:
    with pytest.raises(BeartypeCallHintViolation):
        call()


def test_functions_methods_and_dataclasses_of_headway_are_checked() -> None:
    with pytest.raises(BeartypeCallHintViolation):
        statistics.wilson_interval("3", 10)  # type: ignore[arg-type]
    with pytest.raises(BeartypeCallHintViolation):
        DataConfig(train="64")  # type: ignore[arg-type]
    with pytest.raises(BeartypeCallHintViolation):
        Transformer.forward(None, torch.zeros(2, 3))  # type: ignore[arg-type]


def test_a_function_inside_another_is_checked_each_time_it_is_made() -> None:
    for factor in (2.0, 3.0):
        product = multiply_by(torch.full((3, 5), factor))
        assert product(MATRIX + 1).tolist() == [[3 * factor] * 5] * 2
        assert product(MATRIX + 1, times=2).tolist() == [[6 * factor] * 5] * 2
        with pytest.raises(BeartypeCallHintViolation):
            product(MATRIX, times="2")
        with pytest.raises(BeartypeCallHintViolation):
            product(MATRIX[0])
        with pytest.raises(BeartypeCallHintViolation):
            product(MATRIX.long())


def test_a_size_that_is_the_value_of_an_argument_is_checked() -> None:
    assert written_columns(np.array([1, 2]), 4, False).shape == (2, 4)
    with pytest.raises(TypeCheckError):
        written_columns(np.array([[1, 2]]), 4, False)


UNTYPED = re.compile(r"(Mapping|dict|Dict|MutableMapping)\[str, (Any|object)\]")
BOUNDARIES = {
    "storage.py": {"write_json"},  # the JSON writer
    "seals.py": {"sealed"},  # what the JSON writer is given
    "config/building.py": {"to_table"},  # tables of a recipe
    "config/recipes.py": {"assign", "read_toml"},
    "diagnosis/learning.py": {"_nothing_moved"},  # the numbers of a finding, by names of the check's own
    "reports/documents.py": {"readable"},  # keyword arguments of a dataclass, by its fields
    "reports/length_curves.py": {"draw_line"},  # keyword arguments of matplotlib
    "reports/panels.py": {"patch"},
    "reports/style.py": {"set_style"},
    "sweeps/trial.py": {"training"},  # keyword arguments of training
    "model/transformer.py": {"__torch_function__"},  # keyword arguments of torch
    "attachment/weights.py": {"__torch_function__"},
    "attachment/contexts.py": {"hook"},  # keyword arguments of a foreign model's forward pass
    "attachment/cutting.py": {"cut", "first"},
    "attachment/masks.py": {"arguments_of"},
    "attachment/verification.py": {"_zeroed"},
    "attachment/pruned_files.py": {"_config", "_architecture"},  # the config.json of a foreign model
}
"""Functions that may take or return a dictionary of anything, by file."""
MOST_BOUNDARIES = 20


def untyped_functions(source: str) -> Iterator[str]:
    """Functions whose arguments or result are a dictionary of anything."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            hints = [*(one.annotation for one in arguments), node.returns]
            if any(hint is not None and UNTYPED.search(ast.unparse(hint).replace("'", "")) for hint in hints):
                yield node.name


def test_only_boundaries_take_or_return_a_dictionary_of_anything() -> None:
    root = Path(headway.__file__).parent
    found = {
        str(path.relative_to(root)): names
        for path in root.rglob("*.py")
        if (names := set(untyped_functions(path.read_text(encoding="utf-8"))))
    }
    assert found == BOUNDARIES
    assert sum(map(len, BOUNDARIES.values())) <= MOST_BOUNDARIES


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x: dict[str, Any]): ...", ["f"]),
        ("def f() -> list[dict[str, Any]]: ...", ["f"]),
        ("def f(*, x: 'Mapping[str, object] | None' = None): ...", ["f"]),
        ("class C:\n    async def g(self, x: int, /) -> Mapping[str, Any]: ...", ["g"]),
        ("def f(x: dict[str, int]) -> Result: ...", []),
    ],
)
def test_a_dictionary_of_anything_is_seen(source: str, names: list[str]) -> None:
    assert list(untyped_functions(source)) == names
