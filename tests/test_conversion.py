"""`headway convert`: tensors of a pickle become safetensors; anything else is refused in one line."""

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import headway as hw
from headway.cli.main import run
from headway.errors import InputError


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))


def test_a_checkpoint_s_weights_are_written_and_the_rest_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = model()
    weights = {f"module.{name}": value for name, value in source.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": weights, "optimizer": {"lr": 0.1}}, tmp_path / "a.pth")
    assert run(["convert", str(tmp_path / "a.pth")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("a.pth['state_dict']: 4 tensors, 32 numbers (float32)")
    assert told[1:3] == ["prefix 'module.' removed from every name", "left out, no weights: epoch, optimizer"]
    again = model()
    again.load_state_dict(load_file(tmp_path / "a.safetensors"))
    x = torch.randn(4, 3)
    assert torch.equal(again(x), source(x))


def test_tensors_that_share_memory_are_written_each(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    torch.save({"a": shared, "b": shared, "half": shared[::2]}, tmp_path / "a.pt")
    result = hw.convert(tmp_path / "a.pt", out=tmp_path / "b.safetensors")
    assert result.tensors == {"a": (6,), "b": (6,), "half": (3,)} and result.entry is None
    assert load_file(tmp_path / "b.safetensors")["half"].tolist() == [0, 2, 4]


@pytest.mark.parametrize("entry", ["state_dict", None])
def test_numbers_beside_tensors_are_left_out_and_named(tmp_path: Path, entry: str | None) -> None:
    """Batch norm of other programs counts its batches in a plain number, which may come first or last."""
    for content in ({"seen": 7, "weight": torch.ones(2, 3)}, {"weight": torch.ones(2, 3), "seen": 7}):
        torch.save(content if entry is None else {entry: content, "epoch": 3}, tmp_path / "a.pth")
        found = hw.convert(tmp_path / "a.pth", out=tmp_path / "a.safetensors")
        assert (found.entry, found.tensors) == (entry, {"weight": (2, 3)})
        assert found.left_out == (("seen",) if entry is None else ("seen", "epoch"))
        (tmp_path / "a.safetensors").unlink()


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.module."])
def test_a_prefix_is_removed_from_all_names_or_from_none(tmp_path: Path, prefix: str) -> None:
    """A model may have a submodule called `module` of its own, beside others."""
    wrapped = {f"{prefix}{name}": value for name, value in model().state_dict().items()}
    torch.save(wrapped, tmp_path / "all.pth")
    found = hw.convert(tmp_path / "all.pth")
    assert (found.prefix, set(found.tensors)) == (prefix, {"0.weight", "0.bias", "1.weight", "1.bias"})
    some = {**wrapped, "readout.weight": torch.ones(2)}
    torch.save(some, tmp_path / "some.pth")
    found = hw.convert(tmp_path / "some.pth")
    assert (found.prefix, set(found.tensors)) == (None, set(some))


def test_what_is_no_file_of_weights_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(model(), tmp_path / "whole.pth")
    torch.save({"epoch": 3}, tmp_path / "none.pth")
    torch.save(model().state_dict(), tmp_path / "there.pth")
    (tmp_path / "there.safetensors").write_text("mine")
    (tmp_path / "text.pth").write_text("not a pickle\n")
    (tmp_path / "empty.pth").write_bytes(b"")
    (tmp_path / "code.pth").write_bytes(pickle.dumps(Harm(), protocol=2))
    for name, message in {
        "whole.pth": r"whole.pth holds a torch.nn.modules.\S+, whose code is not run; save model.state_dict\(\)",
        "code.pth": r"code.pth holds .*, whose code is not run",
        "none.pth": "holds entries epoch, and no weights by name",
        "there.pth": "there.safetensors exists already",
        "text.pth": "text.pth holds objects other than tensors, whose code is not run",
        "empty.pth": "empty.pth is no file that torch.save wrote",
        "missing.pth": "no file at",
    }.items():
        with pytest.raises(InputError, match=message) as problem:
            hw.convert(tmp_path / name)
        assert "\n" not in str(problem.value)
    assert not (tmp_path / "harm").exists()
    with pytest.raises(InputError, match="no directory"):
        hw.convert(tmp_path / "there.pth", out=tmp_path / "nowhere" / "a.safetensors")


class Harm:
    """A pickle that would write a file where it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (open, ("harm", "w"))
