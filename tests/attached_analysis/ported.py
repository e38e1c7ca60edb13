"""headway's addition model with the same weights elsewhere.

As `nn.Transformer`, as a module written by hand for a course, and its decoder-only form as a GPT-2 in TransformerLens'
TransformerBridge.
"""

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from headway.batches import make_batch
from headway.evaluation import Trained
from headway.model.transformer import Transformer


def added(model: Transformer, trained: Trained) -> tuple[Tensor, Tensor]:
    """What headway adds to the embeddings of source and prefix: positions, the same in every row."""
    examples = trained.examples("test").take(slice(0, 2))
    inputs = model.placed(make_batch(trained.task, model, examples, trained.device).inputs)
    assert inputs.prefix is not None
    with torch.no_grad():
        source = model.embed_source(inputs) - model.embedding(inputs.source)
        prefix = model.decoder_start(inputs)[0] - model.embedding(inputs.prefix)
    return source[:1], prefix[:1]


class Ported(nn.Module):
    """`nn.Transformer` between headway's embedding and readout."""

    def __init__(self, trained: Trained):
        super().__init__()
        model, config = trained.model, trained.config.model
        self.embedding, self.readout = model.embedding, model.readout
        source, prefix = added(model, trained)
        self.register_buffer("source_positions", source)
        self.register_buffer("prefix_positions", prefix)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="enable_nested_tensor")
            self.transformer = nn.Transformer(
                config.d_model,
                config.n_heads,
                config.encoder_layers or 0,
                config.decoder_layers or 0,
                config.d_ff,
                dropout=0.0,
                activation=config.activation,
                batch_first=True,
                norm_first=True,
            )
        copy_stacks(model, self.transformer)

    def forward(self, source: Tensor, prefix: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(prefix.shape[1]) < 0
        hidden = self.transformer(
            self.embedding(source) + self.source_positions,
            self.embedding(prefix) + self.prefix_positions,
            tgt_mask=mask,
        )
        logits: Tensor = self.readout(hidden)
        return logits


def copy_stacks(model: Transformer, into: Any) -> None:
    with torch.no_grad():
        for side in ("encoder", "decoder"):
            for block, layer in zip(getattr(model, side), getattr(into, side).layers, strict=True):
                copy_attention(block.own, layer.self_attn)
                norms = [layer.norm1, layer.norm2]
                ours = [block.own_norm]
                if side == "decoder":
                    copy_attention(block.cross, layer.multihead_attn)
                    norms.append(layer.norm3)
                    ours.append(block.cross_norm)
                for norm, own in zip(norms, [*ours, block.feed_forward_norm], strict=True):
                    norm.load_state_dict(own.state_dict())
                layer.linear1.load_state_dict(block.feed_forward.expand.state_dict())
                layer.linear2.load_state_dict(block.feed_forward.contract.state_dict())
            getattr(into, side).norm.load_state_dict(getattr(model, f"{side}_norm").state_dict())


def copy_attention(ours: Any, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


class CourseAttention(nn.Module):
    """Multi-head attention as a course's solution writes it."""

    def __init__(self, ours: Any, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = ours.query, ours.key, ours.value, ours.output

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        def split(tensor: Tensor) -> Tensor:
            return tensor.view(*tensor.shape[:2], self.n_heads, -1).transpose(1, 2)

        query, key, value = split(self.W_q(x)), split(self.W_k(memory)), split(self.W_v(memory))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        mixed = scores.softmax(-1) @ value
        out: Tensor = self.W_o(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))
        return out


class CourseLayer(nn.Module):
    def __init__(self, block: Any, n_heads: int):
        super().__init__()
        self.self_attn = CourseAttention(block.own, n_heads)
        self.cross_attn = None if block.cross is None else CourseAttention(block.cross, n_heads)
        self.norm_self, self.norm_cross = block.own_norm, getattr(block, "cross_norm", None)
        self.norm_ff, self.ff = block.feed_forward_norm, block.feed_forward

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        y = self.norm_self(x)
        x = x + self.self_attn(y, y, mask)
        if self.cross_attn is not None and memory is not None:
            x = x + self.cross_attn(self.norm_cross(x), memory)
        out: Tensor = x + self.ff(self.norm_ff(x))
        return out


class Course(nn.Module):
    """The whole model, by hand."""

    def __init__(self, trained: Trained):
        super().__init__()
        model, heads = trained.model, trained.config.model.n_heads
        self.embedding, self.readout = model.embedding, model.readout
        source, prefix = added(model, trained)
        self.register_buffer("source_positions", source)
        self.register_buffer("prefix_positions", prefix)
        self.encoder_layers = nn.ModuleList(CourseLayer(block, heads) for block in model.encoder)
        self.decoder_layers = nn.ModuleList(CourseLayer(block, heads) for block in model.decoder)
        self.encoder_norm, self.decoder_norm = model.encoder_norm, model.decoder_norm

    def forward(self, source: Tensor, prefix: Tensor) -> Tensor:
        memory = self.embedding(source) + self.source_positions
        for layer in self.encoder_layers:
            memory = layer(memory)
        memory = self.encoder_norm(memory)
        x = self.embedding(prefix) + self.prefix_positions
        mask = torch.ones(prefix.shape[1], prefix.shape[1], dtype=torch.bool).tril()
        for layer in self.decoder_layers:
            x = layer(x, memory, mask)
        logits: Tensor = self.readout(self.decoder_norm(x))
        return logits


def bridged(trained: Trained) -> nn.Module:
    """A decoder-only model as a GPT-2 inside TransformerBridge; GPT-2's readout gets the bias that headway's has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports uses names that other packages retired
        from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

        wrapped = gpt2_of(trained)
        bridge: nn.Module = build_bridge_from_module(wrapped, "GPT2LMHeadModel", hf_config=wrapped.config)
    return bridge.eval()


def gpt2_of(trained: Trained) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    model, sizes = trained.model, trained.config.model
    positions = positions_of(trained)
    config = GPT2Config(
        vocab_size=model.embedding.num_embeddings,
        n_positions=len(positions),
        n_embd=sizes.d_model,
        n_layer=sizes.decoder_layers,
        n_head=sizes.n_heads,
        n_inner=sizes.d_ff,
        activation_function=sizes.activation,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    made = GPT2LMHeadModel(config)
    made.lm_head = nn.Linear(*reversed(model.readout.weight.shape))
    body = made.transformer
    with torch.no_grad():
        body.wte.weight.copy_(model.embedding.weight)
        body.wpe.weight.copy_(positions)
        for block, layer in zip(model.decoder, body.h, strict=True):
            copy_gpt2_layer(block, layer)
    body.ln_f.load_state_dict(model.decoder_norm.state_dict())
    made.lm_head.load_state_dict(model.readout.state_dict())
    return made.eval()


def positions_of(trained: Trained) -> Tensor:
    """What headway adds to the embeddings of a decoder-only model, `position d_model`."""
    model = trained.model
    examples = trained.examples("test").take(slice(0, 2))
    inputs = model.placed(make_batch(trained.task, model, examples, trained.device).inputs)
    assert inputs.prefix is not None
    with torch.no_grad():
        tokens = torch.cat([inputs.source, inputs.prefix], dim=1)
        return (model.decoder_start(inputs)[0] - model.embedding(tokens))[0]


def copy_gpt2_layer(block: Any, layer: Any) -> None:
    """GPT-2's projections store weights transposed, and those of queries, keys and values side by side."""
    own, feed = block.own, block.feed_forward
    layer.attn.c_attn.weight.copy_(torch.cat([own.query.weight, own.key.weight, own.value.weight]).T)
    layer.attn.c_attn.bias.copy_(torch.cat([own.query.bias, own.key.bias, own.value.bias]))
    pairs = ((layer.attn.c_proj, own.output), (layer.mlp.c_fc, feed.expand), (layer.mlp.c_proj, feed.contract))
    for theirs, ours in pairs:
        theirs.weight.copy_(ours.weight.T)
        theirs.bias.copy_(ours.bias)
    layer.ln_1.load_state_dict(block.own_norm.state_dict())
    layer.ln_2.load_state_dict(block.feed_forward_norm.state_dict())
