"""What an attention of a foreign model is to headway: a name, a kind, heads, and the path of its output projection."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from headway.errors import InputError, suggestion
from headway.model.sites import SIDES, Head


@dataclass(frozen=True)
class AttachedSite:
    """One attention module; its handle is the input of the module at `path`, `batch query (head d_head)`.

    `kept` are the original indices of its heads. `n_kv_heads` is smaller than the number of heads in grouped-query
    attention. `attention` is the path of the module that computes the weights, None if it is unknown.
    """

    name: str
    path: str
    attention: str | None
    kept: tuple[int, ...]
    d_head: int
    n_kv_heads: int
    position_first: bool = False

    @property
    def n_heads(self) -> int:
        return len(self.kept)

    @property
    def side(self) -> str:
        return SIDES[self.name[:3]]

    @property
    def layer(self) -> int:
        return int(self.name[3:].split(".")[0])

    @property
    def kind(self) -> str:
        """encoder, decoder or cross."""
        return "cross" if self.name.endswith(".cross") else self.side

    @property
    def causal(self) -> bool:
        return self.kind == "decoder"

    @property
    def heads(self) -> list[Head]:
        return [Head.parse(f"{self.name}.h{index}") for index in self.kept]

    def split(self, x: Tensor) -> Tensor:
        """The input of the output projection as `batch query head d_head`."""
        heads = x.unflatten(-1, (self.n_heads, self.d_head))
        return heads.transpose(0, 1) if self.position_first else heads

    def join(self, heads: Tensor) -> Tensor:
        """The inverse of `split`."""
        return (heads.transpose(0, 1) if self.position_first else heads).flatten(-2).contiguous()


@dataclass(frozen=True)
class Block:
    """One layer of the model: hidden states in, hidden states out; `sites` are the names of its attentions."""

    path: str
    module: nn.Module = field(repr=False)
    sites: tuple[str, ...]


def parse_site(name: str, sites: list[AttachedSite]) -> AttachedSite:
    """The site with a name; another name raises `InputError`."""
    known = {site.name: site for site in sites}
    if name not in known:
        raise InputError(f"the model has no site {name!r}; {suggestion(name, known)}")
    return known[name]
