"""A small BERT that names the language of a short text: which of its heads does it need, and does it read order at all?

    python -m benchmarks.text_classifier [--seeds 0-2] [--steps 800] [--wheel FILE] [--report DIR] [--out FILE]

Trains a BertForSequenceClassification from a config (2 layers, 4 heads, d_model 64, word pieces made from the training
texts) on the texts of benchmarks.interface_texts, saves it, and runs `headway heads hf:PATH`, which asks the doctor
too, and `headway report` on texts that are translations of other messages. Beside the accuracy stands what would be
found if the model had learned nothing (one answer; labels shuffled in training) and what word pieces give without their
order: logistic regression on their counts, and the same model on texts whose pieces are shuffled.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import headway as hw
from benchmarks.interface_texts import FAMILIES, LANGUAGES, LETTERS, WHEEL, Text, Texts, cut, read_texts
from benchmarks.machine import circumstances
from headway.cli.main import run
from headway.cli.options import parse_seeds
from headway.results.doctor import Diagnosis
from headway.results.heads import HeadAnalysis

LAYERS, HEADS, WIDTH, PIECES = 2, 4, 64, 1_000
BATCH, RATE, DECAY, DROPOUT = 128, 2e-3, 0.1, 0.1
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
CUTS = 10
"""Cuts of each training text that the logistic regression reads."""


class Classifier:
    """A BERT over word pieces with its tokenizer, as transformers saves and loads them."""

    def __init__(self, texts: list[Text], seed: int):
        import transformers

        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=word_pieces([text.text for text in texts]),
            **{f"{token[1:-1].lower()}_token": token for token in SPECIAL},
            model_max_length=LETTERS + 2,
        )
        config = transformers.BertConfig(
            vocab_size=len(self.tokenizer),
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=2 * WIDTH,
            max_position_embeddings=LETTERS + 2,
            hidden_dropout_prob=DROPOUT,
            attention_probs_dropout_prob=DROPOUT,
            num_labels=len(LANGUAGES),
            id2label=dict(enumerate(LANGUAGES)),
            label2id={language: label for label, language in enumerate(LANGUAGES)},
            pad_token_id=0,
        )
        torch.manual_seed(seed)
        self.model: Any = transformers.BertForSequenceClassification(config).eval()

    def batch(self, texts: list[str]) -> dict[str, Tensor]:
        found = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        return {name: found[name] for name in ("input_ids", "attention_mask")}

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Word pieces without [CLS] and [SEP]."""
        found: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return found

    @torch.no_grad()
    def answers(self, batch: dict[str, Tensor]) -> Tensor:
        found: Tensor = self.model(**batch).logits.argmax(-1)
        return found

    def right(self, batch: dict[str, Tensor], labels: Tensor) -> float:
        """The share of texts that it names right."""
        return float((self.answers(batch) == labels).float().mean())


def word_pieces(texts: list[str]) -> Any:
    """A WordPiece tokenizer with a vocabulary from these texts."""
    import tokenizers

    found: Any = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    found.normalizer = tokenizers.normalizers.BertNormalizer(strip_accents=False, lowercase=True)
    found.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=PIECES, special_tokens=list(SPECIAL), show_progress=False)
    found.train_from_iterator(texts, trainer)
    found.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return found


def train(classifier: Classifier, texts: list[Text], labels: Tensor, seed: int, steps: int) -> Classifier:
    """Train on new cuts in every step; AdamW with a rate that rises and falls once."""
    random, model = np.random.default_rng(seed), classifier.model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(steps):
        rows = random.choice(len(texts), BATCH, replace=False)
        batch = classifier.batch(cut([texts[row] for row in rows], random))
        loss = F.cross_entropy(model(**batch).logits, labels[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    model.eval()
    return classifier


def with_pieces_shuffled(batch: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """The pieces between [CLS] and [SEP] in random order."""
    random, changed = np.random.default_rng(seed), batch["input_ids"].clone()
    for row, length in zip(changed, batch["attention_mask"].sum(1).tolist(), strict=True):
        row[1 : length - 1] = row[1 : length - 1][torch.from_numpy(random.permutation(length - 2))]
    return {**batch, "input_ids": changed}


def by_counts(classifier: Classifier, texts: Texts, held_out: list[str]) -> float:
    """Accuracy of logistic regression on how often each word piece occurs."""
    random = np.random.default_rng(0)
    labels = torch.tensor([text.label for text in texts.training] * CUTS)
    given = counts(classifier, [piece for _ in range(CUTS) for piece in cut(texts.training, random)])
    weights = torch.zeros(PIECES + 1, len(LANGUAGES), requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(given @ weights, labels) + 1e-4 * weights.square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)  # type: ignore[arg-type]
    answers = (counts(classifier, held_out) @ weights).argmax(-1)
    return float((answers == torch.tensor([text.label for text in texts.held_out])).float().mean())


def counts(classifier: Classifier, texts: list[str]) -> Tensor:
    """How often each piece occurs, and a constant."""
    found = torch.zeros(len(texts), PIECES + 1)
    for row, ids in zip(found, classifier.ids(texts), strict=True):
        row += torch.bincount(torch.tensor(ids, dtype=torch.long), minlength=PIECES + 1)
    found[:, PIECES] = 1
    return found


def analyse(
    classifier: Classifier, texts: list[str], truth: list[int], report: Path | None
) -> tuple[HeadAnalysis, Diagnosis]:
    """What `headway heads hf:PATH` and the doctor say; `headway report` writes its page to a directory."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        classifier.model.save_pretrained("language-bert")
        classifier.tokenizer.save_pretrained("language-bert")
        rows = [{"text": text, "label": LANGUAGES[label]} for text, label in zip(texts, truth, strict=True)]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        Path("held-out.jsonl").write_text("".join(lines))
        given = ["--data", "held-out.jsonl", "--label", "label", "--n", str(len(rows)), "--out", "analysed"]
        with contextlib.redirect_stdout(io.StringIO()):
            assert run(["heads", "hf:language-bert", *given, "--device", "cpu", "--quiet"]) == 0
            if report is not None:
                assert run(["report", "analysed", "--out", str(report), "--quiet", "--force"]) == 0
        heads, doctor = (json.loads(Path(f"analysed/analysis/{name}.json").read_text()) for name in ("heads", "doctor"))
        return HeadAnalysis.from_json(heads), Diagnosis.from_json(doctor)


def one_seed(texts: Texts, seed: int, steps: int, report: Path | None) -> dict[str, Any]:
    """A trained classifier, its controls and the analysis of its heads."""
    start = time.process_time()
    labels = torch.tensor([text.label for text in texts.training])
    classifier = train(Classifier(texts.training, seed), texts.training, labels, seed, steps)
    trained = time.process_time()
    told = controls(classifier, texts, seed)
    before = time.process_time()
    found, doctor = analyse(classifier, *held_out_of(texts), report)
    seconds = {"train": trained - start, "heads_and_doctor": time.process_time() - before}
    return {"seed": seed, **told, "cpu_seconds": seconds, **judged(found), "doctor": levels(doctor)}


def labels_shuffled(texts: Texts, seed: int, steps: int) -> float:
    """Accuracy on held-out texts after training on labels in random order."""
    labels = np.random.default_rng(seed).permutation([text.label for text in texts.training])
    classifier = train(Classifier(texts.training, seed), texts.training, torch.from_numpy(labels), seed, steps)
    held_out, truth = held_out_of(texts)
    return classifier.right(classifier.batch(held_out), torch.tensor(truth))


def held_out_of(texts: Texts) -> tuple[list[str], list[int]]:
    return cut(texts.held_out, np.random.default_rng(0)), [text.label for text in texts.held_out]


def controls(classifier: Classifier, texts: Texts, seed: int) -> dict[str, float]:
    """Accuracy on held-out texts, and what it is without order, without attention, and on training texts."""
    held_out, truth = held_out_of(texts)
    batch, labels = classifier.batch(held_out), torch.tensor(truth)
    answers = classifier.answers(batch)
    family = torch.tensor([place for place, some in enumerate(FAMILIES) for _ in some.split()])
    random = np.random.default_rng(seed)
    training = classifier.batch(cut(texts.training, random))
    every = [f"enc{layer}.self.h{head}" for layer in range(LAYERS) for head in range(HEADS)]
    with hw.ablated(classifier.model, every):
        without = classifier.right(batch, labels)
    return {
        "accuracy": float((answers == labels).float().mean()),
        "family_accuracy": float((family[answers] == family[labels]).float().mean()),
        "accuracy_on_training_texts": classifier.right(training, torch.tensor([t.label for t in texts.training])),
        "pieces_shuffled": classifier.right(with_pieces_shuffled(batch, seed), labels),
        "without_attention": without,
    }


def judged(found: HeadAnalysis) -> dict[str, Any]:
    """The heads in numbers: alone, together, and by Shapley value."""
    elimination, credit = found.joint.elimination, found.joint.shapley["all"]
    return {
        "n": found.n,
        "baseline": found.baseline.accuracy,
        "verdicts": {head.name: head.verdict for head in found.heads},
        "drops": {head.name: head.ablation["zero"].drop for head in found.heads},
        "intervals": {head.name: head.ablation["zero"].interval for head in found.heads},
        "separator": {head.name: head.scores["separator"] for head in found.heads},
        "removable": [
            {
                "limit": one.limit,
                "heads": one.heads,
                "drop": one.drop,
                "interval": one.drop_interval,
                "alone_under_limit": one.alone_under_limit.heads,
                "those_together": one.alone_under_limit.drop,
            }
            for one in found.joint.removable
        ],
        "elimination": [step.drop for step in elimination.steps],
        "shapley": {one.head: one.value for one in credit.values},
        "doubts": found.doubts(),
    }


def levels(found: Diagnosis) -> dict[str, str]:
    return {one.check: one.level for one in found.findings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-2")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--wheel", type=Path, help=f"{WHEEL}; without it, pip downloads it")
    parser.add_argument("--report", type=Path, default=Path("docs/results/language-bert"), help="of the first seed")
    parser.add_argument("--out", type=Path, default=Path("docs/results/language-bert.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = read_texts(options.wheel)
    held_out, truth = held_out_of(texts)
    told = {
        "data": {"wheel": WHEEL, "languages": LANGUAGES, "letters": LETTERS, **texts.counts},
        "one_answer": max(np.bincount(truth)) / len(truth),
        "counts_of_pieces": by_counts(Classifier(texts.training, 0), texts, held_out),
    }
    seeds = parse_seeds(options.seeds)
    command = ["python", "-m", "benchmarks.text_classifier", "--seeds", options.seeds, "--steps", str(options.steps)]
    about = circumstances(torch.device("cpu"), command, None)
    sys.argv = command  # what the report says, without the places of this machine
    rows = []
    for seed in seeds:
        rows.append(one_seed(texts, seed, options.steps, None if rows else options.report.absolute()))
        print({key: value for key, value in rows[-1].items() if isinstance(value, float | int)}, flush=True)
        options.out.write_text(json.dumps({**about, **told, "rows": rows}, indent=1) + "\n")
    told["labels_shuffled_in_training"] = labels_shuffled(texts, seeds[0], options.steps)
    options.out.write_text(json.dumps({**about, **told, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
