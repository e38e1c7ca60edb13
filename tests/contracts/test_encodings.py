"""What every registered encoding must do, in every shape of model."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from headway.config import Choice, ModelConfig
from headway.model import dot_products
from headway.model.encodings import ENCODINGS
from headway.model.transformer import Inputs, Transformer

SHAPES = ["encoder-decoder", "encoder", "decoder"]


def model_of(encoding: str, shape: str) -> Transformer:
    torch.manual_seed(0)
    config = ModelConfig(
        shape=shape,
        d_model=12,
        n_heads=2,
        d_ff=10,
        encoder_layers=1 if "encoder" in shape else None,
        decoder_layers=1 if "decoder" in shape else None,
        encoding=Choice(name=encoding),
    )
    return Transformer(config, n_tokens=9, n_classes=2 if shape == "encoder" else 0)


def inputs_of(shape: str, source: int, prefix: int, batch: int = 3) -> Inputs:
    tokens = torch.randint(0, 9, (batch, source))
    if shape == "encoder":
        return Inputs(tokens, torch.arange(source)[None])
    return Inputs(
        tokens, torch.arange(source)[None], None, torch.randint(0, 9, (batch, prefix)), torch.arange(prefix)[None]
    )


@pytest.mark.parametrize("encoding", ENCODINGS.names())
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [1, 300])
def test_it_works_at_any_length(encoding: str, shape: str, length: int) -> None:
    model = model_of(encoding, shape).eval()
    with torch.inference_mode():
        logits = model(inputs_of(shape, length, length + 2))
    assert logits.shape == ((3, 2) if shape == "encoder" else (3, length + 2, 9))
    assert logits.isfinite().all()


@pytest.mark.parametrize("encoding", ENCODINGS.names())
@pytest.mark.parametrize("shape", SHAPES)
def test_training_reaches_every_parameter(encoding: str, shape: str) -> None:
    model = model_of(encoding, shape).train()
    inputs = inputs_of(shape, 6, 5)
    logits = model(inputs)
    torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), torch.randint(0, 2, logits.shape[:-1]).flatten()
    ).backward()
    # The biases of keys shift all scores of a query alike, so their gradient is 0 up to rounding.
    untouched = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert untouched == []


@pytest.mark.parametrize("encoding", ENCODINGS.names())
def test_the_same_seed_gives_the_same_noise(encoding: str) -> None:
    model = model_of(encoding, "encoder-decoder").train()
    inputs = inputs_of("encoder-decoder", 6, 5)
    outputs = []
    for seed in (1, 1):
        torch.manual_seed(seed)
        outputs.append(model(inputs))
    assert torch.equal(*outputs)


class LargestShapes(TorchDispatchMode):
    """Notes every tensor that has two axes of the forbidden length."""

    def __init__(self, length: int):
        super().__init__()
        self.length, self.found = length, []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        result = function(*arguments, **(options or {}))
        for value in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(value, torch.Tensor) and list(value.shape).count(self.length) > 1:
                self.found.append((str(function), tuple(value.shape)))
        return result


def forbidden_shapes(encoding: str, length: int, record: dict[str, torch.Tensor] | None = None) -> list[object]:
    model = model_of(encoding, "encoder-decoder").eval()
    inputs = inputs_of("encoder-decoder", length, length, batch=1)
    with torch.inference_mode(), LargestShapes(length) as shapes:
        model(inputs, record)
    return shapes.found


@pytest.mark.parametrize("encoding", ENCODINGS.names())
def test_no_length_by_length_tensor_is_ever_held(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dot_products.CHUNK_ELEMENTS, "cpu", 40_000)
    assert forbidden_shapes(encoding, 307) == []
    # The detector does see one when the weights are asked for.
    assert forbidden_shapes(encoding, 307, {}) != []


@pytest.mark.long
@pytest.mark.parametrize("encoding", ENCODINGS.names())
def test_no_length_by_length_tensor_is_ever_held_at_4096(encoding: str) -> None:
    assert forbidden_shapes(encoding, 4_096) == []
