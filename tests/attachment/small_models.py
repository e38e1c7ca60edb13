"""Small models of many architectures, from configurations alone; sizes are unequal so that swapped axes show."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY, BATCH, LENGTH, ANSWER = 29, 3, 7, 5
PADDED = 2
"""Tokens of padding in the second row of a batch."""

Made = tuple[nn.Module, dict[str, Tensor]]
"""A model and a batch with padding."""


def tokens(length: int = LENGTH, seed: int = 0) -> Tensor:
    drawn = torch.randint(3, VOCABULARY, (BATCH, length), generator=torch.Generator().manual_seed(seed))
    return drawn


def padded_batch(length: int = LENGTH, left: bool = False) -> dict[str, Tensor]:
    mask = torch.ones(BATCH, length, dtype=torch.long)
    mask[1, slice(0, PADDED) if left else slice(length - PADDED, length)] = 0
    return {"input_ids": tokens(length), "attention_mask": mask}


def decoder_only(name: str, **settings: Any) -> Made:
    """A causal language model; padding stands on the left, as `generate` needs it."""
    return _made(name, "CausalLM", settings), padded_batch(left=True)


def encoder_only(name: str, **settings: Any) -> Made:
    return _made(name, "SequenceClassification", settings), padded_batch()


def encoder_decoder(name: str, **settings: Any) -> Made:
    batch = {**padded_batch(), "decoder_input_ids": tokens(ANSWER, seed=1)}
    return _made(name, "Seq2SeqLM", settings), batch


def _made(name: str, head: str, settings: dict[str, Any]) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    ids = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.AutoConfig.for_model(name, **ids, **settings)
    model: nn.Module = getattr(transformers, f"AutoModelFor{head}").from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # larger than the usual start, so that every head shows in the logits
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


LLAMA = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 31,
    "max_position_embeddings": 32,
}
BERT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 31,
    "max_position_embeddings": 32,
}

ARCHITECTURES: dict[str, Callable[[], Made]] = {
    "bert": lambda: encoder_only("bert", **BERT),
    "roberta": lambda: encoder_only("roberta", **BERT),
    "distilbert": lambda: encoder_only(
        "distilbert", dim=24, n_layers=2, n_heads=3, hidden_dim=31, max_position_embeddings=32
    ),
    "gpt2": lambda: decoder_only("gpt2", n_embd=24, n_layer=2, n_head=3, n_positions=32),
    "gpt_neox": lambda: decoder_only("gpt_neox", **BERT),
    "llama": lambda: decoder_only("llama", **LLAMA),
    "mistral": lambda: decoder_only("mistral", **LLAMA, head_dim=8, sliding_window=4),
    "qwen2": lambda: decoder_only("qwen2", **LLAMA),
    "qwen3": lambda: decoder_only("qwen3", **LLAMA, head_dim=10),
    "gemma": lambda: decoder_only("gemma", **{**LLAMA, "num_key_value_heads": 1}, head_dim=10),
    "gemma2": lambda: decoder_only("gemma2", **LLAMA, head_dim=10, query_pre_attn_scalar=10, sliding_window=4),
    "t5": lambda: encoder_decoder(
        "t5", d_model=24, d_kv=10, d_ff=31, num_layers=2, num_heads=3, decoder_start_token_id=0
    ),
    "bart": lambda: encoder_decoder(
        "bart",
        d_model=24,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=3,
        decoder_attention_heads=4,
        encoder_ffn_dim=31,
        decoder_ffn_dim=33,
        max_position_embeddings=32,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    ),
}


@cache
def made(name: str) -> Made:
    """The model of an architecture, made once in a process; whoever changes one copies it."""
    return ARCHITECTURES[name]()
