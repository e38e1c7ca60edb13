"""One picture of each registered encoding's effect on positions, at the same size."""

import torch
from torch import Tensor, nn

from headway.config import Choice
from headway.length_analysis.identities import short
from headway.model.encodings import ENCODINGS, Encoding, Sizes, make_encoding
from headway.model.transformer import initialise
from headway.results.positions import Pattern, Patterns
from headway.results.positions import Sizes as PatternSizes

PLACES = 64
SIZES = Sizes(d_model=64, n_heads=4, d_head=16, kinds={"encoder": False})
"""The pictured model: 64 positions, d_model 64, four heads of size 16, bidirectional attention."""


def encoding_patterns() -> Patterns:
    """A picture of every encoding before training; the same at every call."""
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        patterns = tuple(pattern_of(name) for name in ENCODINGS.names())
    sizes = PatternSizes(positions=PLACES, d_model=SIZES.d_model, n_heads=SIZES.n_heads, d_head=SIZES.d_head)
    return Patterns(sizes=sizes, patterns=patterns)


def pattern_of(name: str) -> Pattern:
    """A picture of the first of the three hooks that has an effect."""
    encoding = make_encoding(Choice(name=name), SIZES).eval()
    initialise(nn.ModuleDict({"encoding": encoding}))
    place, _ = encoding.place(torch.arange(PLACES)[None], None, torch.tensor([[PLACES]]))
    start = "; random at first" if any(True for _ in encoding.parameters()) else ""
    if (added := encoding.embed(place)) is not None:
        return _pattern(name, "embed", "coordinate", f"added to the token{start}", added[0])
    ones = torch.tensor([1.0, 0.0]).repeat(SIZES.d_head // 2).expand(1, 1, PLACES, -1)
    if not torch.equal(turned := encoding.rotate(ones, place), ones):
        return _pattern(name, "rotate", "coordinate of a head", "queries and keys are turned", turned[0, 0])
    if number_rows(encoding):
        return _pattern(name, "bias", "key", "row of trained numbers; all 0 at first", _bias(encoding, place))
    if encoding.bias(place, place, "encoder") is not None:
        return _pattern(name, "bias", "key", f"added to the scores of head 0{start}", _bias(encoding, place))
    return _pattern(name, "none", "", "no positions at all", torch.empty(0, 0))


def number_rows(encoding: Encoding) -> bool:
    """Set each row of a relative-bias table to its index, so that the picture shows which pairs share a row.

    The tables start at 0, so their picture would be blank.
    """
    tables = [part for name, part in encoding.named_modules() if ".tables." in f".{name}" and hasattr(part, "weight")]
    for table in tables:
        table.weight.copy_(torch.arange(len(table.weight))[:, None].expand_as(table.weight))
    return bool(tables)


def _bias(encoding: Encoding, place: Tensor) -> Tensor:
    bias = encoding.bias(place, place, "encoder")
    assert bias is not None
    return bias[0, 0]


def _pattern(encoding: str, hook: str, columns: str, words: str, picture: Tensor) -> Pattern:
    values = tuple(tuple(map(short, row)) for row in picture.double().tolist())
    return Pattern(encoding=encoding, hook=hook, columns=columns, words=words, values=values)
