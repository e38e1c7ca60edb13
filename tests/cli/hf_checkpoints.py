"""Checkpoints as `save_pretrained` writes them, so small that nothing is fetched, and texts for them."""

import json
import random
from pathlib import Path

import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "very", "not", "plot"]


def write_checkpoints(folder: Path) -> None:
    """A tiny BERT classifier, its body alone, and a tiny GPT-2, each with a tokenizer of ten words; and texts."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 10}
    names = {0: "dull", 1: "fine", 2: "great"}
    torch.manual_seed(1)
    bert = transformers.BertConfig(vocab_size=10, max_position_embeddings=8, id2label=names, num_labels=3, **sizes)
    gpt = transformers.GPT2Config(
        vocab_size=10, n_positions=8, n_embd=8, n_layer=1, n_head=2, pad_token_id=None, id2label=names, num_labels=3
    )
    narrow = transformers.BertConfig(vocab_size=5, max_position_embeddings=8, num_labels=3, **sizes)
    for name, model in (
        ("bert", transformers.BertForSequenceClassification(bert)),
        ("narrow", transformers.BertForSequenceClassification(narrow)),
        ("untokenized", transformers.BertForSequenceClassification(bert)),
        ("body", transformers.BertModel(bert)),
        ("masked", transformers.BertLMHeadModel(bert)),
        ("gpt", transformers.GPT2LMHeadModel(gpt)),
        ("gpt_classes", transformers.GPT2ForSequenceClassification(gpt)),
    ):
        model.save_pretrained(folder / name)
        if name != "untokenized":
            tokenizer.save_pretrained(folder / name)
    rng = random.Random(2)
    rows = [
        {"text": " ".join(rng.choices(WORDS[4:], k=rng.randrange(2, 12))), "label": rng.choice([0, 1, "great"])}
        for _ in range(25)
    ]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "texts.txt").write_text("\n\n".join(row["text"] for row in rows))
