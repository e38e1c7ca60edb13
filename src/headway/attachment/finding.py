"""Attentions in a module that headway did not make, by the names that their projections have.

An attention is a module with projections for queries, keys and values, separate or fused, and an output projection, in
it or, as in BERT, beside it. Its number of heads is the width of that projection's input over the size of a head.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from headway.attachment.sites import AttachedSite, Block
from headway.errors import InputError
from headway.model.transformer import Transformer

SEPARATE = tuple(
    tuple(names.split())
    for names in (
        "q_proj k_proj v_proj",
        "query key value",
        "q_lin k_lin v_lin",
        "q k v",
        "W_q W_k W_v",
        "W_Q W_K W_V",
        "w_q w_k w_v",
        "wq wk wv",
        "to_q to_k to_v",
        "linear_q linear_k linear_v",
        "query_proj key_proj value_proj",
    )
)
"""Names of the projections of queries, keys and values."""

FUSED = ("c_attn", "query_key_value", "qkv_proj", "Wqkv", "qkv", "to_qkv", "W_qkv", "W_pack")
"""Names of one projection that gives all three."""

OUTPUTS = (
    *("o_proj", "out_proj", "dense", "out_lin", "o", "c_proj", "Wo", "W_o", "W_O", "w_o", "wo", "to_out", "to_out.0"),
    *("proj", "out", "output", "linear_out", "output_proj", "../output.dense"),
)
"""Names of the output projection; `..` is the attention's parent."""

HEAD_SIZES = ("head_dim", "attention_head_size", "head_size", "key_value_proj_dim", "d_head", "d_k", "dim_head")
HEAD_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nheads", "nhead", "h")
ACROSS = ("cross", "encoder_attn", "encdec", "src_attn", "multihead_attn", "memory_attn")
"""Parts of the name of an attention that looks at the encoder's output."""


@dataclass(frozen=True)
class Found:
    """An attention before it has a name: where it is, its kind, and its heads."""

    path: str
    attention: str | None
    kind: str
    kept: tuple[int, ...]
    d_head: int
    n_kv_heads: int
    position_first: bool = False


def find_attentions(model: nn.Module, n_heads: int | None = None, kind: str | None = None) -> list[Found]:
    """The attentions of a module in the order in which it defines them."""
    if isinstance(model, Transformer):
        return _own(model)
    modules = dict(model.named_modules())
    found = []
    for path, module in modules.items():
        if isinstance(module, nn.MultiheadAttention):
            found.append(_multihead(path, module, modules, kind))
        elif (output := output_projection(path, module, modules)) is not None:
            found.append(describe(output, path, modules, n_heads, kind))
    return found


def _own(model: Transformer) -> list[Found]:
    found = []
    for site in model.sites:
        attention = f"{site.side}.{site.layer}.{'cross' if site.across else 'own'}"
        d_head = int(model.get_submodule(attention).d_head)  # type: ignore[arg-type]
        found.append(Found(f"{attention}.output", attention, site.kind, site.kept, d_head, len(site.kept)))
    return [one for one in found if one.kept]


def _multihead(path: str, module: nn.MultiheadAttention, modules: dict[str, nn.Module], kind: str | None) -> Found:
    if module.bias_k is not None or module.add_zero_attn:
        raise InputError(
            f"{path or 'the model'} has add_bias_kv or add_zero_attn, whose extra keys headway cannot follow"
        )
    output = f"{path}.out_proj".lstrip(".")
    kept, d_head = kept_of(module, module.num_heads), int(module.head_dim)
    return Found(output, path, kind or kind_of(path, modules), kept, d_head, len(kept), position_first=True)


def kept_of(attention: nn.Module | None, n_heads: int) -> tuple[int, ...]:
    """The original indices of a module's heads, which `hw.prune` writes down."""
    return tuple(getattr(attention, "headway_kept", range(n_heads)))


def output_projection(path: str, module: nn.Module, modules: dict[str, nn.Module]) -> str | None:
    """The path of the output projection of a module, None if the module is no attention."""
    inputs = input_projections(module)
    if inputs is None:
        return None
    for name in OUTPUTS:
        parent, relative = (path.rpartition(".")[0], name[3:]) if name.startswith("../") else (path, name)
        output = f"{parent}.{relative}".lstrip(".")
        if output in modules and width_of(modules[output]) is not None:
            return output
    return None


def input_projections(module: nn.Module) -> tuple[str, ...] | None:
    """The names of the projections of queries, keys and values, or of the fused one; None if there are none."""
    children = dict(module.named_children())
    for names in (*SEPARATE, *((name,) for name in FUSED)):
        if all(name in children and width_of(children[name]) is not None for name in names):
            return names
    return None


def width_of(module: nn.Module) -> int | None:
    """The width of a projection's input; None if the module is no projection. transformers' Conv1D counts."""
    weight = getattr(module, "weight", None)
    if getattr(weight, "ndim", 0) != 2 or isinstance(module, nn.Embedding):
        return None
    width = weight.shape[0] if is_transposed(module) else getattr(module, "in_features", weight.shape[1])  # type: ignore[union-attr]
    return int(width)  # type: ignore[arg-type]


def is_transposed(module: nn.Module) -> bool:
    """Whether a projection keeps its weight as `input output`, as transformers' Conv1D does."""
    return type(inner_module(module)[1]).__name__ == "Conv1D"


def inner_module(module: nn.Module, path: str = "") -> tuple[str, nn.Module]:
    """The module that holds the weights, and its path: TransformerBridge wraps it."""
    while isinstance(inside := module._modules.get("_original_component"), nn.Module):
        path, module = f"{path}._original_component", inside
    return path, module


def describe(
    output: str, attention: str | None, modules: dict[str, nn.Module], n_heads: int | None, kind: str | None
) -> Found:
    """The attention with this output projection: how many heads of what size."""
    width = width_of(modules[output])
    if width is None:
        raise InputError(f"{output} is a {type(modules[output]).__name__}, not a linear output projection")
    module = None if attention is None else modules[attention]
    count = n_heads or _heads_in(module, width)
    if count is None:
        raise InputError(f"the number of heads of {attention or output} is not known; give n_heads=")
    if width % count:
        raise InputError(f"the input of {output} has {width} numbers, which {count} heads cannot share; check n_heads=")
    d_head = width // count
    groups = key_value_heads(module, count, d_head)
    return Found(
        output, attention, kind or kind_of(attention or output, modules), kept_of(module, count), d_head, groups
    )


def key_value_heads(attention: nn.Module | None, n_heads: int, d_head: int) -> int:
    """The number of key-value heads by the width of their projection; as many as heads if there is none."""
    names = None if attention is None else input_projections(attention)
    if attention is None or names is None:
        return n_heads
    if len(names) == 3:
        return max(1, rows_of(attention.get_submodule(names[1])) // d_head)
    if "q_attn" in attention._modules:  # GPT-2's cross-attention: keys and values alone
        return n_heads
    return max(1, (rows_of(attention.get_submodule(names[0])) // d_head - n_heads) // 2)


def rows_of(module: nn.Module) -> int:
    """The width of a projection's output."""
    weight: Any = module.weight
    return int(weight.shape[1 if is_transposed(module) else 0])


def _heads_in(module: nn.Module | None, width: int) -> int | None:
    """The number of heads by the size of one, or by what the module or its configuration say."""
    config = getattr(module, "config", None)
    for owner in (module, config):
        size = _first_int(owner, HEAD_SIZES)
        if size and width % size == 0:
            return width // size
        count = _first_int(owner, HEAD_COUNTS)
        if count:
            return count
    return None


def _first_int(owner: Any, names: Iterable[str]) -> int | None:
    found = (getattr(owner, name, None) for name in names)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool)), None)


def kind_of(path: str, modules: dict[str, nn.Module]) -> str:
    """encoder, decoder or cross, by what the module says of itself, then by the names on its path."""
    module, parts = modules[path], [part.lower() for part in path.split(".")]
    own = ".".join(part for part in parts[-3:] if not part.isdigit())
    if getattr(module, "is_cross_attention", False) or any(word in own for word in ACROSS):
        return "cross"
    says_causal = getattr(module, "is_causal", False) is True or "causal" in type(module).__name__.lower()
    if says_causal or any(part.startswith("dec") for part in parts):
        return "decoder"
    if any(isinstance(above, nn.TransformerDecoderLayer) for above in _ancestors(path, modules)):
        return "decoder"
    root = modules[""]
    bridge = getattr(root, "cfg", None)  # TransformerBridge says so for the whole model, transformers by its class
    causal = getattr(bridge, "attention_dir", None) == "causal"
    return "decoder" if causal or type(root).__name__.endswith(("ForCausalLM", "LMHeadModel")) else "encoder"


def _ancestors(path: str, modules: dict[str, nn.Module]) -> Iterator[nn.Module]:
    while path:
        path = path.rpartition(".")[0]
        yield modules[path]


def name_sites(found: list[Found], modules: dict[str, nn.Module]) -> tuple[list[AttachedSite], list[Block] | None]:
    """Give every attention its name, by the layer it stands in; the layers too, None if they are not in lists."""
    layers = [_layer_path(one, found, modules) for one in found]
    sites, numbers = [], {}  # type: ignore[var-annotated]
    for one, layer in zip(found, layers, strict=True):
        side = "enc" if one.kind == "encoder" else "dec"
        looks = "cross" if one.kind == "cross" else "self"
        number = numbers.setdefault((side, layer), sum(key[0] == side for key in numbers))
        sites.append(
            AttachedSite(
                name=f"{side}{number}.{looks}",
                path=one.path,
                attention=one.attention,
                kept=one.kept,
                d_head=one.d_head,
                n_kv_heads=one.n_kv_heads,
                position_first=one.position_first,
            )
        )
    blocks = [
        Block(path, modules[path], tuple(s.name for s, at in zip(sites, layers, strict=True) if at == path))
        for path in dict.fromkeys(layers)
    ]
    listed = all(path.rpartition(".")[2].isdigit() for path in dict.fromkeys(layers))
    return sites, blocks if listed else None


def _layer_path(one: Found, found: list[Found], modules: dict[str, nn.Module]) -> str:
    """The outermost element of a list around an attention that holds no second attention of its kind."""
    parts = one.path.split(".")
    for end in range(1, len(parts)):
        path = ".".join(parts[:end])
        inside = [other for other in found if other.path.startswith(f"{path}.") and other.kind == one.kind]
        listed = isinstance(modules[".".join(parts[: end - 1])], nn.ModuleList | nn.Sequential)
        if listed and len(inside) == 1:
            return path
    return one.path
