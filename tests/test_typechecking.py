"""A wrong type or shape in a call of headway fails the test that makes it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, Int, TypeCheckError
from torch import Tensor

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
