"""The name of a head: its attention module and its index.

    decoder.1.cross    the site: cross-attention of the decoder's second layer
    dec1.cross.h2      its third head, as it is printed everywhere

A pruned model keeps the names its heads had before.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headway.config import ModelConfig
from headway.errors import InputError, suggestion

HEAD = re.compile(r"(enc|dec)(\d+)\.(self|cross)\.h(\d+)")
SIDES = {"enc": "encoder", "dec": "decoder"}


@dataclass(frozen=True)
class Head:
    """One head of one site."""

    site: str
    index: int

    def __str__(self) -> str:
        return f"{self.site_name}.h{self.index}"

    @property
    def site_name(self) -> str:
        """The site as it is printed: dec1.cross."""
        stack, layer, looks = self.site.split(".")
        return f"{stack[:3]}{layer}.{looks}"

    @classmethod
    def parse(cls, text: str) -> "Head":
        """The head with a printed name; another text raises `InputError`.

        >>> Head.parse("dec1.cross.h2")
        Head(site='decoder.1.cross', index=2)
        """
        match = HEAD.fullmatch(text.strip())
        if match is None:
            raise InputError(f"{text!r} is not a head; write it like enc0.self.h1 or dec1.cross.h2")
        return cls(f"{SIDES[match[1]]}.{int(match[2])}.{match[3]}", int(match[4]))


@dataclass(frozen=True)
class HeadSite:
    """One attention module and its heads; `kept` are the original indices of the heads that were not pruned."""

    name: str
    kept: tuple[int, ...]

    @property
    def side(self) -> str:
        return self.name.split(".")[0]

    @property
    def layer(self) -> int:
        return int(self.name.split(".")[1])

    @property
    def across(self) -> bool:
        return self.name.endswith(".cross")

    @property
    def kind(self) -> str:
        """encoder, decoder or cross."""
        return "cross" if self.across else self.side

    @property
    def heads(self) -> list[Head]:
        return [Head(self.name, index) for index in self.kept]


def sites_of(config: ModelConfig) -> list[HeadSite]:
    """Every attention of a model in the order of computation, with the heads it has."""
    names = [f"encoder.{layer}.self" for layer in range(config.encoder_layers or 0)]
    for layer in range(config.decoder_layers or 0):
        names.append(f"decoder.{layer}.self")
        if config.shape == "encoder-decoder":
            names.append(f"decoder.{layer}.cross")
    kept: dict[str, list[int]] = {name: [] for name in names}
    if config.kept_heads is None:
        return [HeadSite(name, tuple(range(config.n_heads))) for name in names]
    try:
        heads = parse_heads(config.kept_heads, [HeadSite(name, tuple(range(config.n_heads))) for name in names])
    except InputError as error:
        raise InputError(f"model.kept_heads: {error}") from None
    for head in heads:
        kept[head.site].append(head.index)
    return [HeadSite(name, tuple(sorted(indices))) for name, indices in kept.items()]


def parse_heads(names: Iterable[str], sites: Iterable[HeadSite]) -> list[Head]:
    """The heads with these names; each must exist and be named once."""
    return find_heads(names, [head for site in sites for head in site.heads])


def find_heads(names: Iterable[str], heads: Iterable[Head]) -> list[Head]:
    """Those of some heads that have these names; each must exist and be named once."""
    known = {str(head): head for head in heads}
    found: list[Head] = []
    for name in names:
        head = Head.parse(name)
        if str(head) not in known:
            raise InputError(f"the model has no head {name.strip()}; {suggestion(str(head), known)}")
        if head in found:
            raise InputError(f"head {name.strip()} is named twice")
        found.append(head)
    return found
