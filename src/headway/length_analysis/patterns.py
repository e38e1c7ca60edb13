"""What every encoding of the registry does with a position, as pictures that can be laid side by side."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.config import Choice
from headway.length_analysis.identities import short
from headway.model.encodings import ENCODINGS, Encoding, Sizes, make_encoding
from headway.model.transformer import initialise

PLACES = 64
SIZES = Sizes(d_model=64, n_heads=4, d_head=16, kinds={"encoder": False})
"""The model that is pictured: 64 positions, d_model 64, four heads of 16, attention that looks both ways."""


@dataclass(frozen=True)
class Pattern:
    """One encoding: its hook, and a picture with a row for each position; empty if it does nothing."""

    encoding: str
    hook: str
    columns: str
    words: str
    values: list[list[float]]


def encoding_patterns() -> dict[str, Any]:
    """A picture of every encoding, before any training, at one size; the same at every call."""
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        patterns = [pattern_of(name) for name in ENCODINGS.names()]
    sizes = {"positions": PLACES, "d_model": SIZES.d_model, "n_heads": SIZES.n_heads, "d_head": SIZES.d_head}
    return {"sizes": sizes, "patterns": [asdict(pattern) for pattern in patterns]}


def pattern_of(name: str) -> Pattern:
    """The first of the three hooks that does something."""
    encoding = make_encoding(Choice(name=name), SIZES).eval()
    initialise(nn.ModuleDict({"encoding": encoding}))
    place, _ = encoding.place(torch.arange(PLACES)[None], None, torch.tensor([[PLACES]]))
    start = "; random at first" if any(True for _ in encoding.parameters()) else ""
    if (added := encoding.embed(place)) is not None:
        return Pattern(name, "embed", "coordinate", f"added to the token{start}", _numbers(added[0]))
    ones = torch.tensor([1.0, 0.0]).repeat(SIZES.d_head // 2).expand(1, 1, PLACES, -1)
    if not torch.equal(turned := encoding.rotate(ones, place), ones):
        return Pattern(name, "rotate", "coordinate of a head", "queries and keys are turned", _numbers(turned[0, 0]))
    if number_rows(encoding):
        words = "row of trained numbers; all 0 at first"
        return Pattern(name, "bias", "key", words, _bias(encoding, place))
    if encoding.bias(place, place, "encoder") is not None:
        return Pattern(name, "bias", "key", f"added to the scores of head 0{start}", _bias(encoding, place))
    return Pattern(name, "none", "", "no positions at all", [])


def number_rows(encoding: Encoding) -> bool:
    """Put each row's number into tables of relative bias, so that its picture shows which pairs share a number.

    They start at 0, and a picture of that would be blank.
    """
    tables = [part for name, part in encoding.named_modules() if ".tables." in f".{name}" and hasattr(part, "weight")]
    for table in tables:
        table.weight.copy_(torch.arange(len(table.weight))[:, None].expand_as(table.weight))
    return bool(tables)


def _bias(encoding: Encoding, place: Tensor) -> list[list[float]]:
    bias = encoding.bias(place, place, "encoder")
    assert bias is not None
    return _numbers(bias[0, 0])


def _numbers(values: Tensor) -> list[list[float]]:
    return [[short(value) for value in row] for row in values.double().tolist()]
