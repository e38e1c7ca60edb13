"""Positional encodings: each is three hooks that default to nothing; see `base.Encoding`."""

from headway.config import Choice, options_of
from headway.model.encodings.base import Encoding, PositionKind, Sizes
from headway.registry import Registry

ENCODINGS: Registry[Encoding] = Registry(
    "encoding",
    "headway.model.encodings.base:Encoding",
    {
        "sinusoidal": "headway.model.encodings.sinusoidal:Sinusoidal",
        "learned": "headway.model.encodings.learned:Learned",
        "none": "headway.model.encodings.base:NoEncoding",
        "one-hot": "headway.model.encodings.one_hot:OneHot",
        "rotary": "headway.model.encodings.rotary:Rotary",
        "alibi": "headway.model.encodings.alibi:Alibi",
        "t5": "headway.model.encodings.t5:T5",
        "clipped": "headway.model.encodings.clipped:Clipped",
        "fire": "headway.model.encodings.fire:Fire",
        "randomized": "headway.model.encodings.randomized:Randomized",
        "abacus": "headway.model.encodings.offset:Abacus",
        "coupled": "headway.model.encodings.offset:Coupled",
    },
)


def make_encoding(choice: Choice, sizes: Sizes) -> Encoding:
    """The encoding of a recipe's [model.encoding] table."""
    cls = ENCODINGS.get(choice.name)
    return cls(options_of(cls.Options, choice, "model.encoding"), sizes)


def position_kind_of(choice: Choice) -> PositionKind:
    """The kind of positions that a recipe's encoding needs, without building the encoding."""
    cls = ENCODINGS.get(choice.name)
    return getattr(options_of(cls.Options, choice, "model.encoding"), "positions", cls.position_kind)


__all__ = ["ENCODINGS", "Encoding", "Sizes", "make_encoding", "position_kind_of"]
