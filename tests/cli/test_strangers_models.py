"""Models as people bring them: right uses have plain PyTorch's answers, wrong ones one line and exit code 2."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headway.cli.main import run

FUSED = '''
import math

import torch
from torch import nn


class Attention(nn.Module):
    """One projection for queries, keys and values; heads x d_k is wider than d_model."""

    def __init__(self, d_model=10, n_head=3, d_k=4):
        super().__init__()
        self.qkv, self.proj = nn.Linear(d_model, 3 * n_head * d_k), nn.Linear(n_head * d_k, d_model)
        self.n_head = n_head

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.attention, self.readout = nn.Embedding(9, 10), Attention(), nn.Linear(10, 2)

    def forward(self, source):
        x = self.embedding(source)
        return self.readout((x + self.attention(x)).mean(1))


class Returns(Net):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, source):
        return self.how(super().forward(source))


def build():
    return Net()


def in_a_dictionary():
    return Returns(lambda logits: {"loss": None, "logits": logits})


def under_another_name():
    return Returns(lambda logits: {"scores": logits})


def behind_a_loss():
    return Returns(lambda logits: (logits.sum(), logits))


def nothing():
    return Returns(lambda logits: None)


def for_each_token():
    return Returns(lambda logits: logits[:, None].expand(-1, 4, -1))


def parallel():
    return nn.DataParallel(Net())


def indivisible():
    return nn.TransformerEncoderLayer(10, 3)
'''
POST_NORM = """
from torch import nn


class PostNorm(nn.Module):
    def __init__(self, turned):
        super().__init__()
        self.embedding, self.turned = nn.Embedding(9, 10), turned
        self.encoder = nn.TransformerEncoderLayer(10, 2, 12)
        self.readout = nn.Linear(10, 2)

    def forward(self, source):
        x = self.embedding(source)
        x = self.encoder(x.transpose(0, 1)).transpose(0, 1) if self.turned else self.encoder(x)
        return self.readout(x.mean(1))


def build():
    return PostNorm(True)


def not_turned():
    return PostNorm(False)
"""
OWN_BATCH = """

def batch(examples):
    source = torch.tensor([one["sequence"] for one in examples])
    labels = torch.tensor([one["is_sorted"] for one in examples])
    return LABELS
"""


def made(source: str, function: str = "build") -> Any:
    scope: dict[str, Any] = {"__name__": "made"}
    exec(source, scope)
    torch.manual_seed(3)
    return scope[function]().eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, rng = tmp_path_factory.mktemp("strangers"), random.Random(1)
    for name, code in (("net", FUSED), ("post", POST_NORM)):
        (place / f"{name}.py").write_text(code)
        save_file(made(code).state_dict(), place / f"{name}.safetensors")
    weights = load_file(place / "net.safetensors")
    for prefix in ("module", "_orig_mod", "model.net"):
        save_file({f"{prefix}.{name}": value for name, value in weights.items()}, place / f"{prefix}.safetensors")
    save_file(
        {**{f"module.{name}": value for name, value in weights.items()}, "step": torch.ones(1)},
        place / "more.safetensors",
    )
    torch.save(weights, place / "net.pth")
    rows = []
    for index in range(24):
        sequence = [rng.randrange(9) for _ in range(4)]
        rows.append({"sequence": sorted(sequence) if index % 2 else sequence, "is_sorted": index % 2})
    (place / "orders").mkdir()
    for name in ("train", "val", "test"):
        (place / f"orders/{name}.json").write_text(json.dumps(rows))
    (place / "none.json").write_text("[]")
    (place / "nothing.json").write_text("")
    late = [*rows, {"sequence": [1, 2, 3, 9], "is_sorted": 1}]
    (place / "late.json").write_text(json.dumps(late))
    return place


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def right(model: Callable[[Tensor], Tensor]) -> Tensor:
    rows = json.loads(Path("orders/test.json").read_text())
    with torch.no_grad():
        answers = model(torch.tensor([row["sequence"] for row in rows])).argmax(-1)
    return answers == torch.tensor([row["is_sorted"] for row in rows])


@pytest.mark.parametrize(
    ("function", "weights"),
    [
        ("build", "net"),
        ("build", "module"),
        ("build", "_orig_mod"),
        ("build", "model.net"),
        ("parallel", "net"),
        ("in_a_dictionary", "net"),
    ],
)
def test_wrapped_weights_models_and_logits_have_the_answers_of_the_plain_model(
    function: str, weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = analysed(f"net.py:{function} --weights {weights}.safetensors", capsys)
    model = made(FUSED)
    check_against(found, model, model.attention.proj, 4)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_post_norm_encoder_that_reads_tokens_first_is_analysed(capsys: pytest.CaptureFixture[str]) -> None:
    found = analysed("post.py:build --weights post.safetensors", capsys)
    model = made(POST_NORM)
    check_against(found, model, model.encoder.self_attn.out_proj, 5)


def analysed(model: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert run(["heads", *model.split(), "--data", "orders", "--json", "--quiet", "--device", "cpu"]) == 0
    return json.loads(capsys.readouterr().out)


def check_against(found: Any, model: Any, projection: Any, d_head: int) -> None:
    """The wrong answers of the model, and those that it loses without its second head."""
    whole = right(model)
    with torch.no_grad():
        projection.weight[:, d_head : 2 * d_head] = 0
    cut, drop = right(model), found["heads"][1]["ablation"]["zero"]
    assert found["baseline"]["wrong"] == int((~whole).sum())
    assert (drop["lost"], drop["gained"]) == (int((whole & ~cut).sum()), int((~whole & cut).sum()))


def test_wrong_uses_have_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for name, labels in (
        ("range", "{'source': source, 'labels': labels + 1}"),
        ("float", "(source, labels.float())"),
        ("one_hot", "(source, nn.functional.one_hot(labels, 2))"),
        ("few", "{'source': source, 'labels': labels[:3]}"),
        ("unlabelled", "{'source': source}"),
    ):
        Path(f"{name}.py").write_text(FUSED + OWN_BATCH.replace("LABELS", labels))
    for name, line in (("pad", "PAD = '0'"), ("heads", "N_HEADS = 3.0"), ("sites", "SITES = 4")):
        Path(f"{name}.py").write_text(f"{FUSED}\n\n{line}\n")
    for model, message in (
        ("net.py:indivisible", "fails, called without arguments: AssertionError: embed_dim must be divisible"),
        (
            "net.py:under_another_name",
            "returned dict, in which no logits were found; give logits_of=, or define logits(",
        ),
        ("net.py:behind_a_loss", "the model returned a single number first, in which no logits were found"),
        ("net.py:nothing", "the model returned NoneType, in which no logits were found"),
        ("net.py:for_each_token", "logits of shape (24, 4, 2) do not fit labels of shape (24,)"),
        ("range.py:build", "labels holds 2; the model has the classes 0 to 1"),
        ("float.py:build", "labels of type torch.float32; whole numbers needed"),
        ("one_hot.py:build", "logits of shape (24, 2) do not fit labels of shape (24, 2)"),
        ("few.py:build", "the columns of a batch have different numbers of rows"),
        ("unlabelled.py:build", "metric 'accuracy' needs 'labels' in the data, which has source"),
        ("pad.py:build", "PAD = '0' in the model's file; a whole number needed"),
        ("heads.py:build", "N_HEADS = 3.0 in the model's file; a whole number needed"),
        ("sites.py:build", "SITES = 4 in the model's file; patterns of output projections needed"),
    ):
        assert message in refused(f"heads {model} --weights net.safetensors --data orders", capsys), model
    for arguments, message in (
        (
            "--weights more.safetensors --data orders",
            "more.safetensors does not fit the model: missing embedding.weight",
        ),
        ("--weights net.pth --data orders", "net.pth: a .safetensors file needed; headway convert net.pth writes one"),
        ("--weights net.safetensors --data none.json", "none.json: the list is empty"),
        ("--weights net.safetensors --data nothing.json", "nothing.json cannot be read as JSON"),
        ("--weights net.safetensors --data late.json", "may be too short for tokens 0 to 9 in rows of up to 4"),
    ):
        assert message in refused(f"heads net.py:build {arguments}", capsys), arguments
    for name in ("range", "one_hot"):
        assert refused(f"doctor {name}.py:build --weights net.safetensors --data orders", capsys), name


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_model_that_mixes_the_examples_of_a_batch_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Planted: attention runs over the batch, where batch_first=True is missing."""
    wrong = "post.py:not_turned --weights post.safetensors --data orders"
    for command in ("heads", "lengths", "attack"):
        message = refused(f"{command} {wrong}", capsys)
        assert "other examples in the batch change the logits of the first by" in message and "batch_first" in message
    assert run([*f"doctor {wrong} --json --quiet --device cpu".split()]) == 1
    found = {one["check"]: one["level"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["examples-mixed"] == "error"
    assert run([*f"doctor {wrong.replace('not_turned', 'build')} --json --quiet --device cpu".split()]) == 0
    found = {one["check"]: one["level"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["examples-mixed"] == "fine"


def refused(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*arguments.split(), "--quiet", "--device", "cpu"]) == 2, arguments
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1, told
    return told[0].removeprefix("headway: ")
