"""Every wrong input gets one line on stderr and exit code 2, and changes nothing on disk."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.checked_options import check_number
from headway.cli.main import one_line, run
from headway.errors import InputError
from headway.storage import write_json
from tests.tiny_recipes import RECIPES, write_recipe

TRAIN = "train tiny.toml --out new --set"
SORT = "train sort.toml --out new --set"
TEXT = "train text.toml --out new --set"

CASES = {
    # Settings
    "unknown key": (f"{TRAIN} model.wings=2", "model.wings"),
    "typo in a key": (f"{TRAIN} model.n_head=2", "did you mean n_heads?"),
    "typo in a table": (f"{TRAIN} modle.n_heads=2", "did you mean model?"),
    "typo in an option of the task": (f"{TRAIN} task.digit=2", "did you mean digits?"),
    "typo in an option of the encoding": (
        f"{TRAIN} model.encoding.name=learned --set model.encoding.tabel_size=9",
        "did you mean table_size?",
    ),
    "text for a number": (f"{TRAIN} model.d_model=wide", "model.d_model = 'wide'; a whole number needed"),
    "fraction for a whole number": (f"{TRAIN} model.n_heads=2.5", "a whole number needed"),
    "truth for a number": (f"{TRAIN} train.lr=true", "train.lr = True; a number needed"),
    "text for a truth": (f"{TRAIN} model.causal_encoder=perhaps", "true or false needed"),
    "number for a table": (f"{TRAIN} model=3", "model: expected a table"),
    "number for a task": (f"{TRAIN} task=3", "expected a table with a name"),
    "130 heads of 128": (f"{TRAIN} model.d_model=128 --set model.n_heads=130", "n_heads = 130"),
    "no heads": (f"{TRAIN} model.n_heads=0", "at least 1"),
    "no layers": (f"{TRAIN} model.encoder_layers=0", "encoder_layers = 0"),
    "negative layers": (f"{TRAIN} model.decoder_layers=-1", "at least 0"),
    "decoder layers in an encoder": (f"{SORT} model.decoder_layers=1", "has no decoder"),
    "pooling in an encoder-decoder": (f"{TRAIN} model.pooling.name=mean", "model.pooling needs"),
    "causal encoder in a decoder": (f"{TEXT} model.causal_encoder=true", "needs an encoder"),
    "encoder for addition": (
        f"{TRAIN} model.shape=encoder --set model.decoder_layers=0",
        "'encoder-decoder' or 'decoder' needed",
    ),
    "encoder-decoder for sortedness": (f"{SORT} model.shape=encoder-decoder", "'encoder' needed"),
    "unknown shape": (f"{TRAIN} model.shape=decoder-encoder", "model.shape = 'decoder-encoder'"),
    "coupled positions for sortedness": (f"{SORT} model.encoding.name=coupled", "no coupled positions"),
    "coupled positions for text read from the top": (f"{TEXT} model.encoding.name=coupled", "most-significant-first"),
    "rotary heads of odd width": (f"{TRAIN} model.encoding.name=rotary --set model.d_head=3", "d_head = 3"),
    "unknown task": (f"{TRAIN} task.name=additoin", "did you mean addition?"),
    "unknown encoding": (f"{TRAIN} model.encoding.name=rotry", "did you mean rotary?"),
    "unknown pooling": (f"{SORT} model.pooling.name=maen", "did you mean mean?"),
    "epochs and steps": ("train both.toml --out new", "both given"),
    "neither epochs nor steps": ("train neither.toml --out new", "neither given"),
    "negative learning rate": (f"{TRAIN} train.lr=-0.1", "train.lr = -0.1; more than 0"),
    "learning rate that is no number": (f"{TRAIN} train.lr=nan", "a finite number needed"),
    "infinite learning rate": (f"{TRAIN} train.lr=inf", "a finite number needed"),
    "dropout of everything": (f"{TRAIN} model.dropout=1.0", "model.dropout"),
    "huge width": (f"{TRAIN} model.d_model=1000000", "at most 16,384"),
    "huge model": (f"{TRAIN} model.d_model=16384 --set model.encoder_layers=200", "parameters"),
    "huge offset": (
        f"{TRAIN} model.encoding.name=abacus --set model.encoding.max_offset=1{'0' * 30}",
        "model.encoding.max_offset",
    ),
    "more examples than there are": (f"{TRAIN} task.digits=1 --set data.train=1000", "ask for fewer"),
    "no examples": (f"{TRAIN} data.train=0", "data.train = 0"),
    "no digits": (f"{TRAIN} task.digits=0", "task.digits = 0"),
    "shortest longer than longest": (f"{SORT} task.min_length=9", "task.min_length = 9"),
    "fresh examples with epochs": (f"{TRAIN} data.fresh=true --set train.epochs=2", "set train.steps"),
    "files without --data": (f"{TRAIN} data.files=true", "data"),
    "--set without =": (f"{TRAIN} train.lr", "key.key=value"),
    "--set without a key": (f"{TRAIN} =3", "key.key=value"),
    "--set with a hole in the key": (f"{TRAIN} model..d_model=3", "key.key=value"),
    "guided training without open contexts": (f"{TRAIN} train.guided=0.5", "train.guided: no open contexts"),
    "heads that the model has not": (
        f"{TRAIN} 'model.kept_heads=[\"dec9.cross.h0\"]'",
        "model.kept_heads: the model has no",
    ),
    "date for a number": (f"{TRAIN} task.digits=1979-05-27", "task.digits = '1979-05-27'; a whole number needed"),
    # Recipes
    "missing recipe": ("train nowhere.toml", "no recipe at nowhere.toml"),
    "typo in a recipe's name": ("train additon", "did you mean addition?"),
    "recipe that is a directory": ("train empty", "directory"),
    "recipe that is not TOML": ("train broken.toml", "broken.toml is not TOML"),
    "recipe that is not text": ("train bytes.toml", "bytes.toml cannot be read"),
    "recipe without a task": ("train no-task.toml", "missing task"),
    "recipe without training": ("train no-train.toml", "missing train"),
    # Options of train
    "negative seed": ("train tiny.toml --seed -1", "--seed -1; a whole number of at least 0 needed"),
    "seed that is no number": ("train tiny.toml --seed x", "--seed 'x'; a whole number of at least 0 needed"),
    "seed in digits of another script": ("train tiny.toml --seed ١٢", "--seed '١٢'; a whole number of at least 0"),
    "number that is not finite": ("attack run --seconds nan", "--seconds nan; above 0"),
    "option given twice": ("train tiny.toml --seed 1 --seed 2", "--seed is given twice; once needed"),
    "date in the recipe of a sweep": ("sweep date.toml --dry-run", "task.digits = '1979-05-27'; a whole number needed"),
    "seed beyond 63 bits": ("train tiny.toml --seed 9223372036854775808", "at most 9,223,372,036,854,775,807 needed"),
    "seed of 5,000 digits": (f"train tiny.toml --seed {'9' * 5000}", "--seed"),
    "seed that no error could print": (f"{TRAIN} seed=0x{'9' * 5000}", "a whole number needed"),
    "one of the seeds beyond 63 bits": (
        "train tiny.toml --seeds 3,9223372036854775808",
        "--seeds '3,9223372036854775808': a seed is at most 9,223,372,036,854,775,807",
    ),
    "seeds of 5,000 digits": (f"train tiny.toml --seeds {'9' * 5000}", ": a seed is at most 9,223,372,036,854,775,807"),
    "seeds up to 5,000 digits": (f"train tiny.toml --seeds 0-{'9' * 5000}", ": a seed is at most 9,223,372,036,854"),
    "seeds backwards": ("train tiny.toml --seeds 4-0", "4-0"),
    "seeds that are no numbers": ("train tiny.toml --seeds a", "0-4 or 0,3,7"),
    "the same seed twice": ("train tiny.toml --seeds 0-2,1", "a seed is repeated"),
    "seed and seeds": ("train tiny.toml --seed 1 --seeds 0-1", "use one"),
    "unknown device": ("train tiny.toml --device tpu", "auto, cpu, cuda"),
    "unknown device in a dry run": ("train tiny.toml --device tpu --dry-run", "auto, cpu, cuda"),
    "impossible model in a dry run": ("train tiny.toml --dry-run --set model.n_heads=3", "n_heads = 3"),
    "--out that is a file": ("train tiny.toml --out a-file", "a-file is a file"),
    "--out inside a file": ("train tiny.toml --out a-file/run", "a-file"),
    "--out with other files": ("train tiny.toml --out other", "holds other files"),
    "run that is there already": ("train tiny.toml --out run", "--resume continues it"),
    "resume with other settings": ("train tiny.toml --out run --resume --set train.lr=0.5", "train.lr: 0.01 and 0.5"),
    "resume with another seed": ("train tiny.toml --out run --resume --seed 9", "seed: 0 and 9"),
    "resume with files after none": ("train tiny.toml --out run --resume --data data", "data.files"),
    "resume of an unreadable run": ("train tiny.toml --out unreadable --resume", "config.json cannot be read"),
    "resume of no run": ("train tiny.toml --out new --resume", "--resume: no run at new"),
    "setting with a line break": (f"{TRAIN} 'train.lr=0.1\ntrain.steps=2'", "a line break"),
    "missing data directory": ("train tiny.toml --out new --data nowhere", "no data directory at nowhere"),
    "data directory without files": ("train tiny.toml --out new --data empty", "train.json: no such file"),
    "data that is not JSON": ("train tiny.toml --out new --data broken-data", "val.json cannot be read as JSON"),
    "data with a wrong sum": ("train tiny.toml --out new --data wrong-data", "test.json[3]: target"),
    "data of another task": ("train sort.toml --out new --data data", "train.json[0]: key 'sequence' is missing"),
    "data with an overlap": ("train tiny.toml --out new --data overlapping-data", "--allow-overlap accepts it"),
    "data for fresh examples": ("train fresh.toml --out new --data data", "use one"),
    # evaluate
    "missing run": ("evaluate nowhere", "no run at nowhere or runs/nowhere"),
    "file for a run": ("evaluate a-file", "a-file is a file, not a run directory"),
    "empty directory for a run": ("evaluate empty", "it has no config.json"),
    "unreadable run": ("evaluate unreadable", "config.json cannot be read"),
    "run of another form": ("evaluate other-form", "form 99"),
    "run without a checkpoint": ("evaluate no-checkpoint", "it has none"),
    "run with an empty name": ("evaluate ''", "RUN '' is empty; a run directory or the name of a run"),
    "sweep with an empty name": ("compare ''", "SWEEP '' is empty; a sweep directory or the name of one"),
    "run whose checkpoints are all damaged": ("evaluate damaged", "step-000004 is damaged"),
    "run whose weights are of another size": ("evaluate other-size", "other-size"),
    "unknown split": ("evaluate run --split tset", "did you mean test?"),
    "whole domain that cannot be listed": ("evaluate sort-run --split all", "too large to list"),
    "training set of fresh examples": ("evaluate fresh-run --split train", "no training set"),
    "unknown checkpoint": ("evaluate run --checkpoint nonsense", "no checkpoint 'nonsense'"),
    "checkpoint of 5,000 digits": (f"evaluate run --checkpoint {'9' * 5000}", "no checkpoint '999"),
    "step without a checkpoint": ("evaluate run --checkpoint 3", "no checkpoint '3'"),
    "damaged checkpoint by its step": ("evaluate damaged --checkpoint step-4", "step-000004 is damaged"),
    "unknown device to evaluate on": ("evaluate run --device tpu", "auto, cpu, cuda"),
    # data
    "files of an unknown task": ("data adition --out new", "did you mean addition?"),
    "files into a full directory": ("data addition --out other", "not an empty directory"),
    "files into a file": ("data addition --out a-file", "not an empty directory"),
    "files with a model": ("data addition --out new --set model.n_heads=2", "not model"),
    "files of two tasks": ("data addition --out new --set task.name=sortedness", "not task.name"),
    "files of a task that is a number": ("data addition --out new --set task=3", "task"),
    "files of fresh examples": ("data addition --out new --set data.fresh=true", "no files to write"),
    "files with too many examples": (
        "data addition --out new --set task.digits=1 --set data.train=1000",
        "ask for fewer",
    ),
    "files with an impossible length": ("data addition-text --out new --set task.test_lengths=[9]", "exactly 9"),
    "files without --out": ("data addition", "--out"),
    # study
    "unknown study": ("study additon", "did you mean addition?"),
    "unknown preset": ("study addition --preset quik", "did you mean quick?"),
    "study of wrong seeds": ("study addition --seeds 1-", "0-4 or 0,3,7"),
    "study on an unknown device": ("study addition --preset quick --device tpu", "auto, cpu, cuda"),
    "study into a file": ("study addition --out a-file", "a-file"),
    "study into another study": ("study addition --out study", "another study"),
    # The rest
    "unknown command": ("trian tiny.toml", "trian"),
    "unknown option": ("train tiny.toml --sede 1", "--sede"),
    "missing argument": ("train", "RECIPE"),
    "dry run of missing data": ("train tiny.toml --dry-run --data nowhere", "no data directory at nowhere"),
    "offset past the table": (
        "train tiny.toml --set model.encoding.name=coupled --set model.encoding.max_offset=300",
        "model.encoding.max_offset = 300",
    ),
    "one argument too many": ("evaluate run run", "run"),
    "missing folder of runs": ("runs nowhere", "no folder at nowhere"),
    "file for a folder of runs": ("runs a-file", "a-file is not a directory"),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good and bad recipes, data and runs."""
    folder = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        lay_out_recipes(folder)
        lay_out_runs(folder)
        lay_out_data(folder)
    return folder


def lay_out_recipes(folder: Path) -> None:
    write_recipe(folder)
    write_recipe(folder, "sortedness", "sort")
    write_recipe(folder, "addition-text", "text")
    good = RECIPES["addition"]
    texts = {
        "fresh": good.replace("[data]", "[data]\nfresh = true"),
        "both": good.replace("steps = 4", "steps = 4\nepochs = 1"),
        "neither": good.replace("steps = 4", ""),
        "date": good.replace("digits = 2", "digits = 1979-05-27"),
        "broken": "[task\nname =",
        "no-task": good.partition("[data]")[1] + good.partition("[data]")[2],
        "no-train": good.partition("[train]")[0],
    }
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)
    (folder / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    (folder / "a-file").write_text("text")
    (folder / "empty").mkdir()
    (folder / "other").mkdir()
    (folder / "other" / "notes.txt").write_text("mine")


def lay_out_runs(folder: Path) -> None:
    for recipe, name in (("tiny", "run"), ("sort", "sort-run"), ("fresh", "fresh-run")):
        assert run(["train", f"{recipe}.toml", "--out", name, "--quiet"]) == 0
    for name in ("no-checkpoint", "damaged", "unreadable", "other-form", "other-size"):
        shutil.copytree("run", name)
    shutil.rmtree("no-checkpoint/checkpoints")
    for path in (folder / "damaged").glob("checkpoints/*/model.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    (folder / "unreadable" / "config.json").write_text('{"form": 1,')
    config = json.loads((folder / "run" / "config.json").read_text())
    write_json(folder / "other-form" / "config.json", {**config, "form": 99})
    wider = {**config, "model": {**config["model"], "d_ff": 24}}
    write_json(folder / "other-size" / "config.json", wider)
    (folder / "study").mkdir()
    (folder / "study" / "study.json").write_text('{"form": 1, "experiment": "sortedness"}')


def lay_out_data(folder: Path) -> None:
    sizes = ["--set", "data.train=40", "--set", "data.validation=8", "--set", "data.test=8"]
    assert run(["data", "addition", "--out", "data", "--set", "task.digits=2", *sizes, "--quiet"]) == 0
    for name in ("broken-data", "wrong-data", "overlapping-data"):
        shutil.copytree("data", name)
    (folder / "broken-data" / "val.json").write_text('[{"input": ')
    examples = json.loads((folder / "data" / "test.json").read_text())
    examples[3]["target"] = [0, 0, 1]
    (folder / "wrong-data" / "test.json").write_text(json.dumps(examples))
    shutil.copyfile("data/train.json", "overlapping-data/test.json")


@pytest.fixture
def here(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the template, as the current directory."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: bytes of files, None for directories."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def assert_one_line(code: int, stdout: str, stderr: str, word: str) -> None:
    assert stderr.startswith("headway: ")
    assert stderr.count("\n") == 1
    assert "Traceback" not in stderr
    assert word in stderr
    assert (code, stdout) == (2, "")


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_input_gets_one_line_and_changes_nothing(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, word = CASES[name]
    before = contents(here)
    code = run(shlex.split(command))
    written = capsys.readouterr()
    assert_one_line(code, written.out, written.err, word)
    assert contents(here) == before


@pytest.mark.parametrize("word", ["\x1b[31mred\x1b[0m", "\u202egnp", "\udcff", "x" * 5_000, "a b " * 500])
def test_a_message_is_one_printable_line_of_at_most_300_characters(word: str) -> None:
    said = one_line(f"headway: no run at {word}")
    assert said.startswith("headway: no run at ")
    assert said.isprintable()
    assert len(said) <= 300


@pytest.mark.parametrize(("kind", "minimum", "least", "below"), [(int, 1, "1", "0"), (float, 0.5, "0.5", "0.49")])
def test_the_smallest_allowed_number_is_allowed(
    kind: type[int] | type[float], minimum: float, least: str, below: str
) -> None:
    check_number("--n", least, kind, minimum)
    with pytest.raises(InputError, match=f"--n {below}; .* number of at least {minimum} needed"):
        check_number("--n", below, kind, minimum)


def test_there_are_at_least_forty_wrong_inputs() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize(
    ("command", "word"),
    [
        CASES["unknown command"],
        CASES["typo in a key"],
        CASES["seeds backwards"],
        ("train tiny.toml --device cuda", "--device cuda: this machine has no GPU"),
    ],
    ids=["unknown command", "typo in a key", "seeds backwards", "no GPU"],
)
def test_a_wrong_input_to_a_real_process_gets_one_line(command: str, word: str, here: Path) -> None:
    before = contents(here)
    without_gpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    line = [sys.executable, "-m", "headway", *shlex.split(command)]
    process = subprocess.run(line, capture_output=True, text=True, env=without_gpu, check=False)
    assert_one_line(process.returncode, process.stdout, process.stderr, word)
    assert contents(here) == before
