"""`headway heads` on models of other programs, written by the test, and every message about wrong ones."""

import json
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headway.cli.main import run
from headway.narration import heads as narrated
from headway.narration.numbers import decimal
from headway.reports.notebook import display
from headway.results.heads import HeadAnalysis
from tests.cli.hf_checkpoints import WORDS, write_checkpoints

CLASSIFIER = '''
import torch
from torch import nn


class Sorted(nn.Module):
    """An encoder over 12 values and padding, with mean pooling."""

    def __init__(self, width=12, classes=2):
        super().__init__()
        self.embedding = nn.Embedding(13, width)
        layer = nn.TransformerEncoderLayer(width, 3, 10, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.readout = nn.Linear(width, classes)

    def forward(self, source):
        hidden = source == 12
        x = self.encoder(self.embedding(source), src_key_padding_mask=hidden)
        return self.readout((x * ~hidden[..., None]).sum(1) / (~hidden).sum(1, keepdim=True))


PAD = 12


def build():
    return Sorted()


def one_logit():
    return Sorted(classes=1)


def wider():
    return Sorted(width=15)


def with_argument(size):
    return Sorted(size)


def no_module():
    return [1, 2]
'''
ADDER = """
import torch
from torch import nn


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.transformer = nn.Transformer(8, 2, 1, 1, 12, dropout=0.1, batch_first=True)
        self.readout = nn.Linear(8, 11)

    def forward(self, source, target_in):
        size = target_in.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(size)
        return self.readout(self.transformer(self.embedding(source), self.embedding(target_in), tgt_mask=mask))


def build():
    return Adder()
"""
OWN_BATCH = (
    ADDER.replace("source, target_in):", "pair, *, size):").replace(
        "size = target_in.shape[1]", "source, target_in = pair.split((7, 4), dim=1)"
    )
    + """

def batch(examples):
    rows = [one["input"] + [11] + one["target"][:-1] for one in examples]
    return {"pair": torch.tensor(rows), "labels": torch.tensor([one["target"] for one in examples])}


def logits(model, batch):
    return model(batch["pair"], size=4)
"""
)


def write_rows(path: Path, rows: list[Any]) -> None:
    path.write_text(json.dumps(rows))


def course(folder: Path, n: int = 24) -> None:
    """Files of both tasks, and weights of every model that is written here."""
    rng = random.Random(5)
    for name in ("sums", "orders"):
        (folder / name).mkdir()
    sums, orders = [], []
    for _ in range(n):
        a, b = rng.randrange(100, 1000), rng.randrange(100, 1000)
        digits = [[int(x) for x in text] for text in (str(a), str(b), f"{a + b:04d}")]
        sums.append({"input": [*digits[0], 10, *digits[1]], "target": digits[2]})
        sequence = [rng.randrange(12) for _ in range(rng.randrange(3, 6))]
        orders.append({"sequence": sequence, "is_sorted": int(sequence == sorted(sequence)), "length": len(sequence)})
    for split in ("test", "val"):
        write_rows(folder / "sums" / f"{split}.json", sums)
        write_rows(folder / "orders" / f"{split}.json", orders[: n - 1])
    for name, code in (("sorted", CLASSIFIER), ("adder", ADDER), ("own", OWN_BATCH)):
        (folder / f"{name}_model.py").write_text(code)
    torch.manual_seed(0)
    for name, source in (("sorted", CLASSIFIER), ("adder", ADDER)):
        scope: dict[str, Any] = {"__name__": name}
        exec(source, scope)
        save_file(scope["build"]().state_dict(), folder / f"{name}.safetensors")
        if name == "sorted":
            save_file(scope["one_logit"]().state_dict(), folder / "one.safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("any_model")
    course(made)
    return made


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def heads(arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert run(["heads", *arguments.split(), "--json", "--quiet", "--device", "cpu"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["heads", *arguments.split(), "--quiet", "--device", "cpu"]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1, told
    return told[0].removeprefix("headway: ")


def built(source: str, weights: str, function: str = "build") -> Any:
    """The model with its weights, without headway."""
    scope: dict[str, Any] = {"__name__": "built"}
    exec(Path(source).read_text(), scope)
    model = scope[function]().eval()
    model.load_state_dict(load_file(weights))
    return model


def without_head(model: Any, projection: Any, head: int, width: int) -> None:
    """Zeros in the columns of one head of an output projection."""
    with torch.no_grad():
        projection.weight[:, head * width : (head + 1) * width] = 0


@torch.no_grad()
def right_orders(model: Any, *, one_logit: bool = False) -> Tensor:
    """Right answers of the classifier, example by example, without padding."""
    found = []
    for row in json.loads(Path("orders/test.json").read_text()):
        logits = model(torch.tensor([row["sequence"]]))[0]
        answer = int(logits[0] > 0) if one_logit else int(logits.argmax())
        found.append(answer == row["is_sorted"])
    return torch.tensor(found)


@pytest.mark.parametrize(("function", "weights"), [("build", "sorted"), ("one_logit", "one")])
def test_a_classifier_is_analysed_from_its_file(
    function: str, weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = f"sorted_model.py:{function} --weights {weights}.safetensors --data orders"
    found = heads(arguments, capsys)
    assert (found["run"], found["split"], found["n"]) == (f"sorted_model.py:{function}", "test", 23)
    assert [head["head"] for head in found["heads"]] == [f"enc0.self.h{index}" for index in range(3)]
    model = built("sorted_model.py", f"{weights}.safetensors", function)
    whole = right_orders(model, one_logit=function == "one_logit")
    assert found["baseline"]["wrong"] == int((~whole).sum())
    without_head(model, model.encoder.layers[0].self_attn.out_proj, 1, 4)
    cut = right_orders(model, one_logit=function == "one_logit")
    drop = found["heads"][1]["ablation"]["zero"]
    assert (drop["lost"], drop["gained"]) == (int((whole & ~cut).sum()), int((~whole & cut).sum()))


@pytest.mark.parametrize("name", ["adder_model.py", "own_model.py", "adder_model"])
def test_an_encoder_decoder_is_analysed_by_default_batches_own_batches_and_as_a_module(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = heads(f"{name}:build --weights adder.safetensors --data sums --split validation", capsys)
    assert found["split"] == "validation" and len(found["heads"]) == 6
    rows = json.loads(Path("sums/val.json").read_text())
    source, target = (torch.tensor([row[key] for row in rows]) for key in ("input", "target"))
    model = built("adder_model.py", "adder.safetensors")
    shifted = torch.cat([torch.full((len(rows), 1), 11), target[:, :3]], dim=1)
    with torch.no_grad():
        right = model(source, shifted).argmax(-1) == target
    assert found["baseline"]["token_accuracy"] == pytest.approx(float(right.float().mean()))
    assert found["baseline"]["wrong"] == int((~right.all(1)).sum())


UNUSUAL = """
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.mix_in = nn.Embedding(13, 12), nn.Linear(12, 36)
        self.mix_out, self.readout = nn.Linear(12, 12), nn.Linear(12, 2)

    def forward(self, source, hidden):
        parts = self.mix_in(self.embedding(source)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (3, 4)).transpose(1, 2) for part in parts)
        x = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~hidden[:, None, None])
        return self.readout(self.mix_out(x.transpose(1, 2).flatten(2))[:, 0])


N_HEADS, PAD = 3, 12


def build():
    torch.manual_seed(4)
    return Mixer()


def logits(model, batch):
    return model(batch[0], batch[0] == PAD)
"""


@pytest.mark.parametrize("sites", ["'mix_out'", "['mix_out']", "{'mix_*t': 'encoder'}"])
def test_unusual_names_and_calls_are_named_in_the_file(sites: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mixer_model.py").write_text(f"{UNUSUAL}\n\nSITES = {sites}\n")
    scope: dict[str, Any] = {"__name__": "mixer"}
    exec(UNUSUAL, scope)
    model = scope["build"]().eval()
    save_file(model.state_dict(), "mixer.safetensors")
    found = heads("mixer_model.py:build --weights mixer.safetensors --data orders", capsys)
    without = right_orders(lambda source: scope["logits"](model, (source,)))
    assert found["baseline"]["wrong"] == int((~without).sum())
    assert [head["site"] for head in found["heads"]] == ["model.mix_out"] * 3


def test_a_file_of_the_data_and_the_divergence_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "sorted_model.py:build --weights sorted.safetensors --data orders/val.json --metric kl --n 21"
    found = heads(arguments, capsys)
    assert (found["split"], found["n"], found["metric"]["name"]) == ("given", 21, "kl")


def test_the_table_is_that_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "sorted_model.py:build --weights sorted.safetensors --data orders --quiet --scores"
    assert run(["heads", *arguments.split()]) == 0
    told = capsys.readouterr().out
    assert "enc0.self.h2" in told and "drop, zero" in told and "first token" in told


def test_files_and_functions_that_do_not_fit_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken_model.py").write_text("import torch\nmissing_name\n")
    Path("stops_model.py").write_text("raise SystemExit(3)\n")
    given = "--weights sorted.safetensors --data orders"
    for arguments, message in (
        ("sorted_model.py:build --data orders", "--weights FILE.safetensors needed"),
        ("sorted_model.py:build --weights sorted.safetensors", "--data DIR with the course's JSON files needed"),
        (f"nowhere.py:build {given}", "no file at nowhere.py"),
        (f"nowhere.deep:build {given}", "no module nowhere.deep; a file is written with its ending, nowhere.deep.py:"),
        (f"broken_model:build {given}", "broken_model cannot be imported: NameError: name 'missing_name' is not"),
        (f"broken_model.py:build {given}", "broken_model.py cannot be imported: NameError: name 'missing_name' is not"),
        (f"stops_model.py:build {given}", "stops_model.py cannot be imported: SystemExit: 3"),
        (f"sorted_model.py:bild {given}", "no function 'bild' there; did you mean build?"),
        (f"sorted_model.py:with_argument {given}", "fails, called without arguments: TypeError"),
        (f"sorted_model.py:no_module {given}", "sorted_model.py:no_module returned list; a torch.nn.Module needed"),
        (f"sorted_model.py:build {given} --text x", "--text is for hf:PATH"),
        (f"sorted_model.py:build {given} --metric lk", "--metric 'lk' does not fit the data; did you mean kl?"),
        (f"sorted_model.py:build other {given}", "2 arguments with a model of another program among them"),
        (f"some-run {given}", "--weights is for another model, FILE.py:FUNCTION or hf:PATH; some-run is a run"),
    ):
        assert message in refused(arguments, capsys), arguments
    assert not [name for name in sys.modules if "stops_model" in name]


def test_weights_that_do_not_fit_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("no.safetensors").write_text("nothing")
    weights = load_file("sorted.safetensors")
    bias = weights.pop("readout.bias")
    save_file({**weights, "head.bias": bias}, "renamed.safetensors")
    for function, file, message in (
        ("build", "gone.safetensors", "--weights: no file at gone.safetensors"),
        ("build", "sorted_model.py", "a .safetensors file needed; headway convert sorted_model.py writes one"),
        ("build", "no.safetensors", "no.safetensors is no safetensors file: SafetensorError"),
        ("build", "renamed.safetensors", "missing readout.bias; not in the model head.bias"),
        ("wider", "sorted.safetensors", "embedding.weight has shape (13, 12); the model needs (13, 15)"),
        ("build", "adder.safetensors", "does not fit the model: missing encoder.layers.0.self_attn.in_proj_weight"),
    ):
        arguments = f"sorted_model.py:{function} --weights {file} --data orders"
        assert message in refused(arguments, capsys), arguments


def test_tied_weights_may_be_stored_once(capsys: pytest.CaptureFixture[str]) -> None:
    code = CLASSIFIER.replace("return Sorted()", "m = Sorted(); m.again = m.embedding; return m", 1)
    Path("tied_model.py").write_text(code)
    found = heads("tied_model.py:build --weights sorted.safetensors --data orders", capsys)
    assert found["baseline"]["wrong"] == int((~right_orders(built("sorted_model.py", "sorted.safetensors"))).sum())


def test_examples_that_do_not_fit_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("unpadded_model.py").write_text(CLASSIFIER.replace("PAD = 12", ""))
    Path("zero_model.py").write_text(CLASSIFIER.replace("PAD = 12", "PAD = 3"))
    Path("failing_model.py").write_text(CLASSIFIER + "\n\ndef batch(examples):\n    return examples[0]['x']\n")
    write_rows(Path("few.json"), [{"sequence": [1, 2, 3], "is_sorted": 1}] * 5)
    write_rows(Path("mixed.json"), [{"sequence": [1], "is_sorted": 1}, {"input": [1], "target": [1]}])
    write_rows(Path("label.json"), [{"sequence": [1], "is_sorted": 2}])
    write_rows(Path("empty.json"), [{"sequence": [], "is_sorted": 1}])
    write_rows(Path("no_target.json"), [{"input": [1], "target": []}])
    write_rows(Path("other.json"), [{"question": [1], "answer": 1}])
    write_rows(Path("list.json"), [3])
    write_rows(Path("large.json"), [{"sequence": [50, 2, 3], "is_sorted": 0}] * 20)
    for model, data, message in (
        ("sorted", "nowhere", "--data: no directory at nowhere"),
        ("sorted", "orders --split train", "train.json: no such file in orders"),
        ("sorted", "orders --split all", "--split 'all'; known: test, train, validation"),
        ("unpadded", "orders", "test.json has rows of 3 to 5 tokens; define PAD = TOKEN or batch(examples)"),
        ("zero", "orders", "PAD = 3 is also a token of test.json["),
        ("failing", "orders", "batch(examples) of failing_model.py:build fails: KeyError: 'x'"),
        ("sorted", "few.json", "5 examples; at least 20 needed"),
        ("sorted", "mixed.json", "mixed.json holds both forms, input and target, or sequence and is_sorted"),
        ("sorted", "label.json", "label.json[0]: is_sorted is 2; 0 or 1 needed"),
        ("sorted", "empty.json", "empty.json[0]: sequence is empty"),
        ("sorted", "no_target.json", "no_target.json[0]: input or target is empty"),
        ("sorted", "other.json", "other.json[0] has keys answer, question; input and target, or sequence"),
        ("sorted", "list.json", "list.json[0] has 3; input and target"),
        ("sorted", "large.json", "a table of the model may be too short for tokens 2 to 50 in rows of up to 3; define"),
    ):
        arguments = f"{model}_model.py:build --weights sorted.safetensors --data {data}"
        assert message in refused(arguments, capsys), arguments


# Checkpoints of Hugging Face


@pytest.fixture(scope="module")
def checkpoints(folder: Path) -> Path:
    write_checkpoints(folder)
    return folder


def rows_of_texts() -> list[tuple[list[int], int]]:
    """Token ids, cut at the 8 positions of the models, and the class of each row."""
    rows = map(json.loads, Path("texts.jsonl").read_text().splitlines())
    return [
        ([WORDS.index(w) for w in row["text"].split()][:8], 2 if row["label"] == "great" else row["label"])
        for row in rows
    ]


def test_a_sequence_classifier_is_analysed(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import transformers

    found = heads("hf:bert --data texts.jsonl --text text --label label", capsys)
    model = transformers.BertForSequenceClassification.from_pretrained(checkpoints / "bert").eval()
    with torch.no_grad():
        right = [int(model(torch.tensor([ids])).logits.argmax()) == label for ids, label in rows_of_texts()]
    assert found["run"] == "hf:bert" and found["n"] == 25
    assert found["baseline"]["wrong"] == right.count(False)
    assert [head["head"] for head in found["heads"]] == [f"enc0.self.h{index}" for index in range(3)]
    assert set(found["capture"]["examples"][0]["source"]) <= set(WORDS), "the tokenizer names the tokens"


@pytest.mark.parametrize("data", ["texts.jsonl", "texts.txt"])
def test_the_next_token_loss_of_text_is_measured(
    data: str, checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import transformers

    found = heads(f"hf:gpt --data {data}", capsys)
    model = transformers.GPT2LMHeadModel.from_pretrained(checkpoints / "gpt").eval()
    losses = []
    with torch.no_grad():
        for ids, _ in rows_of_texts():
            tokens = torch.tensor([ids])
            losses.append(float(model(tokens, labels=tokens).loss))
    assert found["metric"]["name"] == "next_token_loss"
    assert found["metric"]["mean"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_words_about_a_loss_speak_of_the_loss(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["heads", "hf:gpt", "--data", "texts.txt", "--quiet", "--device", "cpu"]) == 0
    told = capsys.readouterr().out
    found = HeadAnalysis.from_json(heads("hf:gpt --data texts.txt", capsys))
    assert found.metric is not None and "accuracy" not in told
    assert told.startswith("hf:gpt: Its mean next token loss on 25 examples of the given data is ")
    assert f"100 points are {decimal(found.metric.scale)} nats, the size of the whole model's mean" in told
    drop = replace(found.heads[0].ablation["zero"], drop=7.0, interval=(5.0, 9.0))
    costly = replace(found, heads=(replace(found.heads[0], verdict="important", ablation={"zero": drop}),))
    assert str(narrated.costliest(costly)).startswith("Without dec0.self.h0 next token loss rises most, by 7.0 points")
    divergence = replace(costly, metric=replace(found.metric, name="kl", higher_is_better=True))
    assert "KL divergence falls most" in str(narrated.costliest(divergence))
    assert "accuracy falls most" in str(narrated.costliest(replace(costly, metric=None)))
    unit = "drop in % of the whole model's mean next token loss without"
    for words in (narrated.short_table(costly).caption, narrated.ablation_table(costly).caption):
        assert unit in words and "accuracy" not in words
    page = display(found)
    assert page is not None and "accuracy" not in page.lower() and "Heads removed together" not in page


def test_a_decoder_that_classifies_reads_its_last_token(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import transformers

    found = heads("hf:gpt_classes --data texts.jsonl --label label --metric accuracy --n 21", capsys)
    model = transformers.GPT2ForSequenceClassification.from_pretrained(checkpoints / "gpt_classes").eval()
    with torch.no_grad():
        wrong = [int(model(torch.tensor([ids])).logits.argmax()) != label for ids, label in rows_of_texts()[:21]]
    assert found["baseline"]["wrong"] == sum(wrong)


def test_checkpoints_and_texts_that_do_not_fit_are_named(
    checkpoints: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cut", "misshapen"):
        shutil.copytree("bert", name)
    Path("cut/model.safetensors").write_bytes(Path("bert/model.safetensors").read_bytes()[:500])
    Path("misshapen/config.json").write_text(Path("bert/config.json").read_text().replace(": 12", ": 15"))
    for name, line in (
        ("broken", "{"),
        ("null", '{"text": "good", "label": null}'),
        ("number", "3"),
        ("untexted", '{"text": 3, "label": 1}'),
        ("halves", '{"text": "good", "label": 0.5}'),
        ("unknown", '{"text": "good", "label": "grand"}'),
        ("beyond", '{"text": "good", "label": 3}'),
        ("short", '{"text": "good", "label": 1}'),
    ):
        Path(f"{name}.jsonl").write_text(f"{line}\n")
    Path("binary.txt").write_bytes(b"\xff\xfe\n")
    Path("blank.txt").write_text("\n \n")
    Path("unweighted").mkdir()
    Path("unweighted/config.json").write_text(Path("bert/config.json").read_text())
    for model, data, message in (
        ("hf:nowhere", "texts.jsonl", "hf:nowhere: no config.json there; a directory that save_pretrained wrote"),
        (
            "hf:unweighted",
            "texts.jsonl --label label",
            "hf:unweighted cannot be read as a sequence classifier: OSError",
        ),
        ("hf:body", "texts.jsonl --label label", "hf:body is not a sequence classifier: it has no weights for classif"),
        (
            "hf:masked",
            "texts.jsonl",
            "hf:masked is no causal language model: its logits depend on later tokens; --label",
        ),
        (
            "hf:untokenized",
            "texts.jsonl --label label",
            "hf:untokenized: no tokenizer there (tokenizer.json, vocab.txt",
        ),
        ("hf:narrow", "texts.jsonl --label label", "and the model embeds 5: the tokenizer is of another model"),
        ("hf:cut", "texts.jsonl --label label", "hf:cut cannot be read as a sequence classifier: SafetensorError"),
        ("hf:misshapen", "texts.jsonl --label label", "weights have other shapes than config.json says"),
        ("hf:bert", "null.jsonl --label label", "null.jsonl, line 1: label is null; a whole number or a name"),
        ("hf:bert", "texts.txt --text plot", "--text plot: texts.txt is plain text; a .jsonl file has columns"),
        ("hf:bert", "gone.jsonl", "--data: no file at gone.jsonl"),
        ("hf:bert", "texts.txt --label label", "--label label: texts.txt is plain text; a .jsonl file has labels"),
        ("hf:bert", "blank.txt", "blank.txt has no text"),
        ("hf:bert", "binary.txt", "binary.txt is not UTF-8 text"),
        ("hf:bert", "texts.jsonl --text txt", "line 1: --text txt: no such column; did you mean text?"),
        ("hf:bert", "texts.jsonl --label lable", "line 1: --label lable: no such column; did you mean label?"),
        ("hf:bert", "broken.jsonl", "broken.jsonl, line 1 is not JSON"),
        ("hf:bert", "number.jsonl", "number.jsonl, line 1: an object needed, got 3"),
        ("hf:bert", "untexted.jsonl", "untexted.jsonl, line 1: text is 3; a text needed"),
        ("hf:bert", "halves.jsonl --label label", "line 1: label is 0.5; a whole number or a name in config.json"),
        ("hf:bert", "unknown.jsonl --label label", "line 1: label 'grand' is not in config.json; did you mean great?"),
        ("hf:bert", "beyond.jsonl --label label", "line 1: label 3; the model has the classes 0 to 2"),
        ("hf:gpt", "short.jsonl", "line 1 has 1 tokens; at least 2 needed"),
        (
            "hf:gpt",
            "texts.txt --metric accuracy",
            "--metric 'accuracy' does not fit the data; did you mean next_token_",
        ),
        ("hf:gpt", "texts.txt --weights w", "--weights is for FILE.py:FUNCTION"),
    ):
        assert message in refused(f"{model} --data {data}", capsys), (model, data)
    assert "--data FILE.jsonl or FILE.txt needed" in refused("hf:gpt", capsys)
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "hf: needs transformers; pip install 'headway[hf]'" in refused("hf:gpt --data texts.txt", capsys)
