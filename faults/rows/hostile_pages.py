"""Pages with hostile names and contents stay inert: nothing runs, nothing is requested, nothing complains.

Texts that break careless pages are put into the names of runs, the words of a task, and a random part of the texts in
every document; then the report of a run or a study, the explorer, the page of a model of another program, or the
figures of a sweep are written and opened in Chromium, where every part is unfolded and every button pressed. Each
text tries to set `window.sprung` or to fetch something.
"""

import json
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults import laboratory
from faults.campaign import Attempt, Row, chance, must
from faults.laboratory import Answer, answer_to, inside
from headway.storage import read_json, write_json

CHROMIUM = Path("/usr/bin/chromium")
EVIL = "http://evil.invalid"
TEXTS = (
    "<script>window.sprung=1</script>",
    "</script><script>window.sprung=1</script>",
    "</title></style></textarea><script>window.sprung=1</script>",
    '"><img src=x onerror="window.sprung=1">',
    "'><svg onload='window.sprung=1'>",
    "<!--<script>window.sprung=1</script>-->",
    "]]><script>window.sprung=1</script>",
    "javascript:window.sprung=1",
    "`${window.sprung=1}`",
    "{{window.sprung=1}}{% raw %}{{7*7}}",
    "\\u003cscript\\u003ewindow.sprung=1",
    "\u2028window.sprung=1\u2029",
    "\u202egnp.<b>bold</b>\u202c",
    "\\';window.sprung=1;//",
    '\\";window.sprung=1;//',
    "&lt;script&gt;window.sprung=1&lt;/script&gt;",
    f"<style>*{{background:url({EVIL}/x)}}</style>",
    f"<link rel=stylesheet href={EVIL}/a.css>",
    f"<iframe src={EVIL}></iframe>",
    f'<meta http-equiv=refresh content="0;url={EVIL}">',
    f"<base href={EVIL}/>",
    f"<img src={EVIL}/x.png>",
    f"<a href={EVIL} ping={EVIL}>a</a>",
    f"![x]({EVIL}/x.png) [y](javascript:window.sprung=1)",
    "<math><mtext><script>window.sprung=1</script></mtext></math>",
    "<svg><script>window.sprung=1</script></svg>",
    "$\\frac{$ \\input{/etc/passwd} $x^",
    "$&$1$`$'",
    "%3Cscript%3Ewindow.sprung=1%3C/script%3E",
    "__proto__",
    "constructor",
    "a" * 5_000,
    "\x00\x01\x1b[31m\x7f",
    "\ud800 a lone surrogate",
    "😀👩‍👩‍👧 １２ ٣ \u200b",
    "",
)
MODEL = """from torch import nn

PAD = 12


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(14, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.out = nn.Linear(8, 2)

    def forward(self, tokens):
        return self.out(self.layer(self.embed(tokens)).mean(1))


def build():
    return Model()
"""
PREPARE = (
    "evaluate run",
    "heads run --n 20 --examples 2 --no-figures --split all",
    "attack run --seconds 0.2 --tries 20",
    "doctor run",
    "lengths sort-run --n 20 --no-figures --mechanism",
    "evaluate sort-run",
    "data sortedness --out sorted --set task.values=12 --set data.train=40 --set data.validation=24 --set data.test=24"
    " --set task.min_length=3 --set task.max_length=5 --set task.test_lengths=[7]",
    "heads model.py:build --weights w.safetensors --data sorted --n 20 --out model",
)
RECIPE = """[task]
name = "faults.hostile_task:HostileCopy"
max_length = 5
values = 5
test_lengths = [7]
words = %s
[data]
train = 40
validation = 24
test = 24
[model]
d_model = 8
n_heads = 2
d_ff = 8
encoder_layers = 1
decoder_layers = 1
[train]
steps = 2
batch_size = 8
"""
OPEN = """() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  const visible = one => one.offsetParent !== null && !one.disabled;
  for (const one of [...document.querySelectorAll("button, [role=tab]")].slice(0, 80)) if (visible(one)) one.click();
}"""
KEEP = frozenset({"made_from", "weights", "config", "data", "sha256", "form"})
"""Keys below which nothing is changed: the origin of a document, which would refuse it."""


def poisoned(value: Any, text: str, draw: random.Random, share: float) -> Any:
    """A JSON value with a share of its texts, and of the keys of its texts, replaced."""
    if isinstance(value, dict):
        return {key: one if key in KEEP else poisoned(one, text, draw, share) for key, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one, text, draw, share) for one in value]
    if isinstance(value, str) and draw.random() < share:
        return text if draw.random() < 0.5 else f"{value}{text}"
    return value


def poison_files(folder: Path, text: str, draw: random.Random) -> None:
    """Poison provenance, model.json, study.json and the analyses of a run."""
    share = draw.choice([0.02, 0.1, 0.5])
    for path in (*folder.glob("provenance.json"), *folder.glob("model.json"), *folder.glob("analysis/*.json")):
        write_json(path, poisoned(read_json(path), text, draw, share))


def folder_name(text: str) -> str:
    """The text as the name of a folder, as far as a file system allows."""
    name = "".join(one for one in text if one not in "/\x00" and not 0xD800 <= ord(one) < 0xE000)
    return name.encode()[:120].decode(errors="ignore").strip(". ") or "x"


# Pages


def report_of_a_run(text: str, draw: random.Random) -> list[Path]:
    source = draw.choice(["run", "sort-run"])
    place = Path(shutil.copytree(source, folder_name(text)))
    poison_files(place, text, draw)
    return written(["report", f"./{place}"], place / "report")


def report_of_a_study(text: str, draw: random.Random) -> list[Path]:
    study = Path("study " + folder_name(text))
    for number, source in enumerate(("run", "sort-run")):
        place = Path(shutil.copytree(source, study / "runs" / f"{folder_name(text)}-seed{number}"))
        poison_files(place, text, draw)
    plan = {"experiment": "addition", "preset": "quick", "arms": [text], "seeds": [0, 1]}
    write_json(study / "study.json", plan if draw.random() < 0.5 else poisoned(plan, text, draw, 0.5))
    return written(["report", f"./{study}"], study / "report")


def explorer_of_a_task(text: str, draw: random.Random) -> list[Path]:
    """The explorer of a task whose words are hostile, in a run with a hostile name."""
    place = Path(folder_name(text))
    Path("hostile.toml").write_text(RECIPE % json.dumps(text.encode(errors="replace").decode(), ensure_ascii=True))
    trained = answer_to(["train", "hostile.toml", "--out", f"./{place}", "--quiet"])
    if trained.code == 2:
        check_line(trained)
        place = Path(shutil.copytree("run", place))
        poison_files(place, text, draw)
    return written(["explore", f"./{place}", "--out", "page.html"], Path("page.html"))


def explorer_of_a_run(text: str, draw: random.Random) -> list[Path]:
    place = Path(shutil.copytree("run", folder_name(text)))
    poison_files(place, text, draw)
    return written(["explore", f"./{place}", "--out", "page.html"], Path("page.html"))


def page_of_another_model(text: str, draw: random.Random) -> list[Path]:
    place = Path(shutil.copytree("model", folder_name(text)))
    poison_files(place, text, draw)
    if draw.random() < 0.5:
        return written(["report", f"./{place}"], place / "report")
    return written(["explore", f"./{place}", "--out", "page.html"], Path("page.html"))


def figures_of_a_sweep(text: str, draw: random.Random) -> list[Path]:
    """The drawings of a sweep whose settings have hostile values."""
    place = Path(shutil.copytree("sweep", folder_name(text)))
    plan = read_json(place / "sweep.json")
    renamed = json.loads(json.dumps(plan).replace('"train.lr": 0.01', f'"train.lr": {json.dumps(text)}'))
    write_json(place / "sweep.json", renamed)
    return written(["compare", f"./{place}", "--figure"], place / "report")


PAGES = (
    report_of_a_run,
    explorer_of_a_task,
    report_of_a_study,
    explorer_of_a_run,
    page_of_another_model,
    figures_of_a_sweep,
)


def written(words: list[str], place: Path) -> list[Path]:
    """The HTML and SVG files that a command wrote; none if it refused in one line."""
    answer = answer_to([*words, "--json", "--quiet"])
    check_line(answer)
    if answer.code == 2:
        return []
    must(answer.code in (0, 1), f"{' '.join(words)}: {answer.code} {answer.err}")
    found = [place] if place.is_file() else [*place.rglob("*.html"), *place.rglob("*.svg")]
    must(bool(found), f"{' '.join(words)}: nothing was written")
    return found


def check_line(answer: Answer) -> None:
    must(answer.raised is None, f"{type(answer.raised).__name__}: {str(answer.raised)[:200]}")
    lines = [line for line in answer.err.split("\n") if line]
    must(all(line.isprintable() for line in lines), f"unprintable: {answer.err[:200]!r}")


def look(tab: Any, path: Path) -> list[str]:
    """What a page complains about, asks for, or runs."""
    problems: list[str] = []

    def asked(dialog: Any) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def requested(request: Any) -> None:
        if not re.match("file:|data:|blob:|about:", request.url):
            problems.append(f"request: {request.url[:100]}")

    events = {
        "console": lambda message: problems.append(f"console: {message.text}"),
        "pageerror": lambda error: problems.append(f"error: {error}"),
        "dialog": asked,
        "request": requested,
    }
    for name, listener in events.items():
        tab.on(name, listener)
    try:
        address = path.resolve().as_uri()
        tab.goto(address)
        if path.suffix == ".html":
            tab.evaluate(OPEN)
            tab.wait_for_timeout(300)
        if tab.evaluate("typeof window.sprung") != "undefined":
            problems.append("a text was run as code")
        if tab.url.partition("#")[0] != address:
            problems.append(f"the page went to {tab.url[:100]}")
    finally:
        for name, listener in events.items():
            tab.remove_listener(name, listener)
    return problems


@contextmanager
def chromium() -> Iterator[Any]:
    """A tab of a real browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started.new_page()
        started.close()


def prepare(folder: Path, lines: Sequence[str] = PREPARE) -> None:
    """The laboratory with the analyses that `lines` make, and the code and weights of another program's model."""
    import torch
    from safetensors.torch import save_file
    from torch import nn

    laboratory.build(folder)
    with inside(folder):
        Path("model.py").write_text(MODEL)
        names: dict[str, Any] = {}
        exec(compile(MODEL, "model.py", "exec"), names)
        torch.manual_seed(0)
        made: nn.Module = names["build"]()
        save_file(made.state_dict(), "w.safetensors")
        for line in lines:
            answer = answer_to([*line.split(), "--quiet"])
            must(answer.code in (0, 1), f"{line}: {answer.err} {answer.raised!r}")


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    whole, place = folder / "whole", folder / "lab"
    prepare(whole)
    with chromium() as tab:

        def attempt(number: int) -> str:
            draw = chance(seed, ROW.name, number)
            make, text = PAGES[number % len(PAGES)], TEXTS[(number + number // len(PAGES)) % len(TEXTS)]
            shutil.copytree(whole, place)
            try:
                with inside(place):
                    pages = make(text, draw)
                    for path in pages:
                        problems = look(tab, path)
                        must(not problems, f"{make.__name__} with {text[:60]!r}: {path.name}: {problems[:3]}")
            finally:
                shutil.rmtree(place)
            return f"{make.__name__.replace('_', ' ')}: {'inert' if pages else 'refused in one line'}"

        yield attempt


ROW = Row(
    name="hostile-pages",
    position=12,
    attack="The report of a run and of a study, the explorer, the page of another program's model and the figures of a "
    "sweep with hostile names, words and contents, opened in Chromium, unfolded, every button pressed",
    bar="inert, no request, no console error",
    count=60,
    attempts=attempts,
    limits=("A sweep has no page; its drawings are opened as SVG files.",),
)
