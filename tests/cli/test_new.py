"""`headway new task`: what it writes works at once, from the folder it was written to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.main import run
from headway.errors import InputError
from headway.testing.scaffold import write_task


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_printed_commands_work_and_so_does_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "write-back"
    assert run(["new", "task", str(place)]) == 0
    printed = capsys.readouterr().out
    assert "python -m headway.testing write_back_task:WriteBack" in printed
    contract = command(place, "-m", "headway.testing", "write_back_task:WriteBack")
    assert (contract.returncode, contract.stdout.split(":")[0]) == (0, "write-back"), contract.stdout
    quick = ["--set", "train.steps=4", "--set", "train.validate_every=2", "--set", "data.train=64"]
    trained = command(place, "-P", "-m", "headway", "train", "write-back.toml", *quick, "--device", "cpu")
    assert trained.returncode == 0, trained.stderr
    sweep = ["sweep", "write-back.toml", *quick, "--seeds", "0,1", "--workers", "1", "--device", "cpu"]
    swept = command(place, "-P", "-m", "headway", *sweep)
    assert swept.returncode == 0, swept.stderr
    assert "2 of 2 trials finished" in swept.stdout


@pytest.mark.long  # starting a cluster takes half a minute
def test_a_sweep_on_ray_finds_the_new_package(tmp_path: Path) -> None:
    write_task(tmp_path / "reverse")
    quick = ["--set", "train.steps=4", "--set", "train.validate_every=2", "--set", "data.train=64"]
    swept = command(tmp_path / "reverse", "-P", "-m", "headway", "sweep", "reverse.toml", *quick, "--on", "ray")
    assert swept.returncode == 0, swept.stderr
    assert "1 of 1 trials finished" in swept.stdout


def test_its_test_passes(tmp_path: Path) -> None:
    write_task(tmp_path / "reverse")
    found = command(tmp_path / "reverse", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert found.returncode == 0, found.stdout


def test_a_broken_task_fails_its_contract(tmp_path: Path) -> None:
    made = write_task(tmp_path / "reverse")
    made.files[0].write_text(made.files[0].read_text().replace("last - np.arange", "last - 1 - np.arange"))
    test = command(tmp_path / "reverse", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert test.returncode == 1
    made.files[0].write_text(made.files[0].read_text().replace('kind = "sequence"', 'kind = "class"'))
    contract = command(tmp_path / "reverse", "-m", "headway.testing", made.reference)
    assert contract.returncode == 1
    assert "fails: a target is symbols then one eos then padding or else a class" in contract.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["new", "tusk", "there"], "headway: KIND 'tusk'; did you mean task? known: task"),
        (["new", "task", "full"], "headway: DIR full exists and is not an empty directory"),
        (
            ["new", "task", "3 words"],
            "headway: DIR 3 words: the task is named after it; it needs letters, digits and -",
        ),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith(words)


def test_a_name_that_is_no_package_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the task is named after it"):
        write_task(tmp_path / "ÿ.?")
    assert list(tmp_path.iterdir()) == []


def test_the_contract_of_what_is_no_task_is_refused(tmp_path: Path) -> None:
    found = command(tmp_path, "-m", "headway.testing", "nowhere:Nothing")
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert "no module named 'nowhere'" in found.stderr
    assert command(tmp_path, "-m", "headway.testing").returncode == 2
