"""headway's addition model with the same weights as `nn.Transformer`, and as a module written by hand for a course."""

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
