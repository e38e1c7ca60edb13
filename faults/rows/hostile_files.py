"""Files made to harm: each is refused in one line, nothing in it is executed, and memory stays bounded.

Each case replaces one file by a hostile one and runs a command that reads it, in a forked process whose memory is
measured: at most 500 MB more than before, or five times the file. A pickle's code and a link's target are watched: the
trap must not spring, and the file that a link leads to must stay as it was.
"""

import json
import os
import pickle
import random
import resource
import shutil
import signal
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from faults import laboratory
from faults.campaign import Attempt, Row, chance, must
from faults.laboratory import Answer, answer_to, inside

MOST_MEMORY = 500_000_000
SECONDS = 60
LONGEST = 300
TRAP = "sprung"
SECRET = b"do not change"

Place = tuple[str, tuple[str, ...]]
PLACES: tuple[Place, ...] = (
    ("run/config.json", ("evaluate", "run")),
    ("run/config.json", ("train", "tiny.toml", "--out", "run", "--resume")),
    ("run/provenance.json", ("report", "run")),
    ("run/metrics.jsonl", ("report", "run")),
    ("run/metrics.jsonl", ("verify", "run")),
    ("run/analysis/evaluation.json", ("verify", "run")),
    ("run/analysis/heads.json", ("heads", "run")),
    ("run/checkpoints/step-000004/state.json", ("evaluate", "run", "--checkpoint", "4")),
    ("run/checkpoints/step-000004/MANIFEST", ("evaluate", "run", "--checkpoint", "4")),
    ("run/checkpoints/step-000004/model.safetensors", ("evaluate", "run", "--checkpoint", "4")),
    ("sweep/sweep.json", ("compare", "sweep")),
    ("sweep/results.jsonl", ("compare", "sweep")),
    ("data/train.json", ("train", "tiny.toml", "--out", "new", "--data", "data")),
    ("data/test.json", ("doctor", "--data", "data")),
    ("predictions.json", ("doctor", "--predictions", "predictions.json", "--data", "data")),
    ("predictions.csv", ("doctor", "--predictions", "predictions.csv", "--data", "data")),
    ("predictions.npz", ("doctor", "--predictions", "predictions.npz", "--data", "data")),
    ("results.json", ("doctor", "--results", "results.json", "--data", "data")),
    ("results.csv", ("doctor", "--results", "results.csv", "--data", "data")),
    ("hostile.toml", ("train", "hostile.toml", "--out", "new")),
    ("weights.pth", ("convert", "weights.pth", "--out", "new.safetensors")),
    ("weights.safetensors", ("evaluate", "model.py:build", "--weights", "weights.safetensors", "--data", "data")),
)
"""A file, and a command that reads it."""


class Trap:
    """A pickle of this makes a file when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.open, (TRAP, os.O_CREAT)


Make = Callable[[Path, random.Random], None]


def pickle_in_disguise(path: Path, draw: random.Random) -> None:
    path.write_bytes(pickle.dumps({"weight": Trap()}, protocol=draw.choice([0, 2, 4])))


def torch_pickle_with_code(path: Path, draw: random.Random) -> None:
    import torch

    torch.save({"weight": torch.zeros(2), "more": Trap()}, path)


def zip_bomb(path: Path, draw: random.Random) -> None:
    """An archive of 2 MB in the form of torch and numpy that unpacks to 2 GB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("archive/data.pkl", "archive/data/0", "prediction.npy"):
            with archive.open(name, "w", force_zip64=True) as member:
                for _ in range(40):
                    member.write(bytes(16_000_000))


def tensor_bomb(path: Path, draw: random.Random) -> None:
    """A view of one number with the shape of 40 GB, or a pickle whose storage claims 2^40 numbers."""
    import torch

    torch.save({"weight": torch.zeros(1).expand(10_000_000_000)}, path)


def false_header(path: Path, draw: random.Random) -> None:
    """Safetensors whose header lies about lengths, offsets, types or shapes."""
    claims: dict[str, object] = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    lie = draw.choice(["length", "offsets", "shape", "dtype", "overlap", "deep", "text"])
    lies: dict[str, dict[str, object]] = {
        "offsets": {"data_offsets": [0, 2**40]},
        "shape": {"shape": [2**40]},
        "dtype": {"dtype": "X9"},
    }
    more: dict[str, object] = {"b": claims} if lie == "overlap" else {}
    header = json.dumps({"weight": {**claims, **lies.get(lie, {})}, **more})
    if lie == "deep":
        header = '{"weight":' * 1_000 + "1" + "}" * 1_000
    content = header.encode() if lie != "text" else b"\xff" * 64
    length = 2**62 if lie == "length" else len(content)
    write_checkpointed(path, struct.pack("<Q", length) + content + bytes(8))


def write_checkpointed(path: Path, content: bytes) -> None:
    """Write a file; the manifest beside it, if there is one, vouches for it."""
    path.write_bytes(content)
    manifest = path.with_name("MANIFEST")
    if manifest.exists() and path != manifest:
        names = [line.split("  ")[1] for line in manifest.read_text().splitlines()]
        sums = {name: sha256((path.parent / name).read_bytes()).hexdigest() for name in names}
        manifest.write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def deep_json(path: Path, draw: random.Random) -> None:
    levels = draw.choice([1_000, 100_000, 5_000_000])
    one, other = draw.choice([("[", "]"), ('{"a":', "}")])
    write_checkpointed(path, (one * levels + "1" + other * levels).encode())


def one_line(path: Path, draw: random.Random) -> None:
    """1 GB without a line break, most of it a hole in the file."""
    with path.open("wb") as handle:
        handle.write(draw.choice([b"[0,", b'{"step": 1, "loss": "', b"accuracy,", b"0" * 100]))
        handle.truncate(1_000_000_000)


def many_values(path: Path, draw: random.Random) -> None:
    """200 or 39 MB of small values, each of which takes many times its text in memory."""
    part = draw.choice([b"[],", b"{},", b"0.5,", b'"ab",', b'{"a":1},', b"9,", b"a,b,c\n"])
    size = draw.choice([200_000_000, 39_000_000])
    write_checkpointed(path, b"[" + part * (size // len(part)) + b"0]")


def not_finite(path: Path, draw: random.Random) -> None:
    """The file with a NaN, an Infinity or a huge number in place of its numbers."""
    value = draw.choice(["NaN", "Infinity", "-Infinity", "1e999", "9" * 5_000, "1e999999999", "-1e-999999999"])
    content = path.read_bytes().decode("utf-8", "replace") if path.exists() else "[0.5, 0.25]"
    words = [value if word.strip(",]}").replace(".", "").isdigit() else word for word in content.split(" ")]
    text = " ".join(words)
    write_checkpointed(path, (text if text != content else f'{{"form": 1, "32": {value}, "loss": {value}}}').encode())


def link_out(path: Path, draw: random.Random) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(draw.choice([path.parents[len(path.parts) - 2] / "/etc/hostname", Path("/dev/zero")]))


def link_to_secret(path: Path, draw: random.Random) -> None:
    """A link to a file outside, which a careless append would change."""
    path.unlink(missing_ok=True)
    path.symlink_to(Path.cwd().parent / "secret")


def pipe(path: Path, draw: random.Random) -> None:
    """A named pipe, on which a careless reader waits forever."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def foreign_encoding(path: Path, draw: random.Random) -> None:
    content = path.read_bytes().decode("utf-8", "replace") if path.exists() else '{"größe": 1}'
    write_checkpointed(path, ("größe " + content).encode(draw.choice(["utf-16", "utf-32", "latin-1", "utf-16-be"])))


def noise(path: Path, draw: random.Random) -> None:
    write_checkpointed(path, draw.randbytes(draw.choice([1, 100, 100_000])))


KINDS: tuple[tuple[str, Make, tuple[str, ...]], ...] = (
    ("pickle in disguise", pickle_in_disguise, ("",)),
    ("torch pickle with code", torch_pickle_with_code, (".pth", ".safetensors", ".npz")),
    ("zip bomb", zip_bomb, (".pth", ".npz", ".safetensors")),
    ("tensor bomb", tensor_bomb, (".pth",)),
    ("false header", false_header, (".safetensors",)),
    ("deep JSON", deep_json, (".json", ".jsonl", ".toml")),
    ("one line of 1 GB", one_line, (".json", ".jsonl", ".csv", ".toml", "MANIFEST")),
    ("many values", many_values, (".json", ".jsonl", ".csv", ".toml")),
    ("not finite or huge", not_finite, (".json", ".jsonl")),
    ("link out of the run", link_out, ("",)),
    ("link to a file outside", link_to_secret, ("",)),
    ("pipe", pipe, ("",)),
    ("foreign encoding", foreign_encoding, (".json", ".jsonl", ".csv", ".toml", "MANIFEST")),
    ("noise", noise, ("",)),
)
"""Name, maker and endings of the files that it suits."""


def in_child(words: list[str]) -> tuple[Answer, int]:
    """The answer of a command in a forked process, and by how many bytes its memory grew."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        signal.alarm(SECONDS)  # ends a command that hangs
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answer = answer_to(words)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        raised = None if answer.raised is None else repr(answer.raised)
        with os.fdopen(sender, "w") as handle:
            json.dump([answer.code, answer.out[-2_000:], answer.err[-2_000:], raised, grown * 1_024], handle)
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as handle:
        text = handle.read()
    _, status = os.waitpid(child, 0)
    must(bool(text), f"{' '.join(words)}: ended by signal {os.WTERMSIG(status)} after at most {SECONDS} s")
    code, out, err, raised, grown = json.loads(text)
    return Answer(code, out, err, None if raised is None else RuntimeError(raised)), grown


def judge(what: str, answer: Answer, grown: int, size: int) -> str:
    """How a hostile file was answered."""
    shown = f"{what}: {answer.code} {answer.err[:200]!r}"
    must(answer.raised is None, f"{what}: {answer.raised!r}")
    must(grown <= max(MOST_MEMORY, 5 * size), f"{shown}: {grown / 1e6:,.0f} MB for a file of {size / 1e6:,.1f} MB")
    lines = [line for line in answer.err.split("\n") if line]
    must(all(line.isprintable() and len(line) <= LONGEST for line in lines), f"lines too long or unprintable: {shown}")
    if answer.code == 0:
        return "read as data"
    must(answer.code in (1, 2), f"exit code: {shown}")
    must(
        bool(lines) or '"damaged"' in answer.out or '"error"' in answer.out or "damaged:" in answer.out,
        f"without a word: {shown}",
    )
    return "refused" if answer.code == 2 else "reported, exit code 1"


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    place = folder / "lab"
    laboratory.build(place)
    (folder / "secret").write_bytes(SECRET)
    with inside(place):
        for line in ("evaluate run", "heads run --n 20 --examples 1 --no-figures --split all"):
            must(answer_to([*line.split(), "--quiet"]).code == 0, line)
        Path("predictions.json").write_text(json.dumps(json.loads(Path("data/test.json").read_text())))
        Path("model.py").write_text(MODEL)
    shutil.copytree(place, folder / "whole")
    pairs = [(kind, at) for kind in KINDS for at in PLACES if at[0].endswith(kind[2])]

    def attempt(number: int) -> str:
        draw = chance(seed, ROW.name, number)
        kind, make, endings = KINDS[number % len(KINDS)]
        name, command = draw.choice([at for at in PLACES if at[0].endswith(endings)])
        with inside(place):
            make(Path(name), draw)
            size = 0 if Path(name).is_symlink() or not Path(name).is_file() else Path(name).stat().st_size
            what = f"{kind} as {name}, {' '.join(command)}"
            try:
                answer, grown = in_child([*command, "--json", "--quiet"])
                ended = judge(what, answer, grown, size)
                must(not Path(TRAP).exists(), f"{what}: the pickle's code ran")
                must((folder / "secret").read_bytes() == SECRET, f"{what}: the file outside was changed")
            finally:
                os.chdir("/")
                shutil.rmtree(place)
                shutil.copytree(folder / "whole", place)
                (folder / "secret").write_bytes(SECRET)
        return f"{kind}: {ended}"

    must(len(pairs) > 100, "fewer pairs of a kind and a place than cases")
    yield attempt


MODEL = """from torch import nn


def build():
    return nn.Linear(2, 2)
"""
ROW = Row(
    name="hostile-files",
    position=6,
    attack="Pickles in disguise, zip and tensor bombs, safetensors with false headers, JSON of up to 5 million levels, "
    "1 GB of one line, millions of small values, NaN, Infinity, huge numbers, links out of the run, pipes, foreign "
    "encodings, noise",
    bar="refused, nothing executed, memory bounded (at most 5 times the file, or 500 MB)",
    count=112,
    attempts=attempts,
    limits=("A recipe, and a model named FILE.py:FUNCTION, can run code by design: see SECURITY.md.",),
)
