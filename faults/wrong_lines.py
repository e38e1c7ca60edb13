"""A grammar of wrong command lines over every command, option and setting that headway has.

Commands and options are read from the command-line parser, settings from the dataclasses of recipes. A new command is
therefore covered without a word here, as long as its arguments have names that `ARGUMENTS` knows; another name raises.
"""

import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

from headway.cli.main import app
from headway.config import RunConfig
from headway.config.building import Choice
from headway.model.encodings import ENCODINGS
from headway.model.poolings import POOLINGS
from headway.tasks import TASKS

ARGUMENTS = {
    "RUN": "run",
    "RECIPE": "tiny.toml",
    "EXPERIMENT": "addition",
    "SWEEP": "sweep",
    "TASK": "addition",
    "KIND": "task",
    "DIR": "new",
    "FILE": "weights.pth",
    "FOLDER": "runs",
}
"""A valid value for each kind of argument, in the folder of `laboratory`."""
REQUIRED = {"--out": "new"}
FREE = ("--text", "--label", "--address")
"""Options whose value may be any text; another option is at fault before they are read."""
OUTPUTS = ("--out", "--course", "--methods")
"""Options that name a file or folder to write: most texts are right."""


@dataclass(frozen=True)
class Line:
    """A command line, what is wrong with it, and the words that the message must contain."""

    arguments: tuple[str, ...]
    kind: str
    wrong: bool = True
    """False if the line may be right: then it may be accepted, but must not raise."""
    names: tuple[str | tuple[str, ...], ...] = ()
    """Each must stand in the message: the key, and the beginning of the value; of a tuple, one of its texts."""


@dataclass(frozen=True)
class Setting:
    """A setting that `--set` changes, its type, and its limits."""

    path: str
    kind: Any
    limits: tuple[float | None, float | None, float | None]
    before: tuple[str, ...] = ()
    """Other settings that make it exist, such as the name of its encoding."""
    recipe: str = "tiny.toml"


def parser() -> Any:
    return typer.main.get_command(app)


def argument_value(parameter: Any) -> str:
    """A valid value of a required argument; an unknown kind raises, so that a new one is added here."""
    return ARGUMENTS[(parameter.metavar or parameter.name.upper()).strip("[].")]


def base_of(command: Any) -> list[str]:
    """The shortest line of a command that could be right."""
    words = [command.name]
    for parameter in command.params:
        if parameter.opts[0].startswith("--"):
            words += [parameter.opts[0], REQUIRED[parameter.opts[0]]] if parameter.required else []
        elif parameter.required or parameter.name == "run":
            words.append(argument_value(parameter))
    return words


def options_of(command: Any) -> list[Any]:
    return [one for one in command.params if one.opts[0].startswith("--") and one.name != "help"]


# Values


def typo(chance: random.Random, word: str) -> str:
    """A word with one letter exchanged, left out or doubled."""
    place = chance.randrange(2, len(word)) if len(word) > 2 else 0
    return chance.choice(
        [
            word[:place] + word[place + 1 :] + "q",
            word[:place] + chance.choice("qxz") + word[place:],
            word[:place] + word[place] + word[place:] + "z",
        ]
    )


def garbage(chance: random.Random) -> str:
    """A word that names nothing."""
    return "zq" + "".join(chance.choices(string.ascii_lowercase, k=chance.randrange(3, 12)))


HOSTILE = (
    "",
    " ",
    "\n",
    "a\nb",
    "a\r\nb",
    "\x1b[31mred\x1b[0m",
    "\x07\x08\x0b",
    "\u2028",
    "\u202egnp.exe",
    "\udcff\udc80",
    "a" * 5_000,
    "9" * 5_000,
    "/" * 5_000,
    "../" * 1_500,
    "-",
    "--",
    "-1",
    "'\"`$(id)",
    "<script>alert(1)</script>",
    "%s%n{0}",
    "{}",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "١٢",
    "½",
    "\ufeffrun",
    "null",
    "none",
    "true",
    "0x10",
    "1_000",
    "con:",
    "~",
    "*",
    "run/config.json",
    "a-file",
    "other",
    "a-file/under",
)
"""Texts that break careless programs; a null byte cannot be passed to a program."""


def wrong_of_type(kind: Any, chance: random.Random) -> str:
    """A text that is no value of an option's type."""
    numbers = ["x", "", "1.5.5", "--", "ten", "[1]", "9" * 20 + "x", garbage(chance), "1,000"]
    if kind is int:
        return chance.choice([*numbers, "1.5", "nan", "inf", "1e3", "0x10", "9" * 5_000 + "x"])
    return chance.choice(numbers)


# Lines that are wrong by construction


def wrong_type(chance: random.Random, command: Any) -> Line | None:
    chosen = [one for one in options_of(command) if one.type_descriptor.annotation in (int, float)]
    if not chosen:
        return None
    option = chance.choice(chosen)
    value = wrong_of_type(option.type_descriptor.annotation, chance)
    return Line((*base_of(command), option.opts[0], value), "option of a wrong type", names=(option.opts[0], value))


def out_of_range(chance: random.Random, command: Any) -> Line | None:
    chosen = [one for one in options_of(command) if one.min is not None]
    if not chosen:
        return None
    option = chance.choice(chosen)
    value = str(option.min - chance.choice([1, 2, 7, 10**6, 10**30]))
    return Line((*base_of(command), option.opts[0], value), "option out of range", names=(option.opts[0], value))


def not_finite(chance: random.Random, command: Any) -> Line | None:
    chosen = [one for one in options_of(command) if one.type_descriptor.annotation is float]
    if not chosen:
        return None
    option = chance.choice(chosen)
    value = chance.choice(["nan", "inf", "-inf", "NaN", "1e999", "-1e999"])
    return Line((*base_of(command), option.opts[0], value), "option not finite", names=(option.opts[0],))


def unknown_text(chance: random.Random, command: Any) -> Line | None:
    names = (*FREE, *OUTPUTS)
    chosen = [
        one
        for one in options_of(command)
        if one.type_descriptor.annotation in (str, Path, list[str]) and one.opts[0] not in names
    ]
    if not chosen:
        return None
    option, value = chance.choice(chosen), garbage(chance)
    name = option.opts[0]  # an option for other models is refused for its name, whatever its value
    return Line((*base_of(command), name, value), "option with an unknown name", names=((name, value),))


def unknown_option(chance: random.Random, command: Any) -> Line | None:
    known = [name for one in options_of(command) for name in one.opts]
    near = typo(chance, chance.choice(known))
    option = chance.choice([near, "--" + garbage(chance), "-" + chance.choice("qzxwy")])
    if option in known or any(name.startswith(option) for name in known):
        return None
    more = chance.choice([(), ("3",), ("x",)])
    return Line((*base_of(command), option, *more), "unknown option", names=(option,))


def unknown_command(chance: random.Random, command: Any) -> Line | None:
    name = chance.choice([typo(chance, command.name), garbage(chance), command.name.upper()])
    return Line((name, *base_of(command)[1:]), "unknown command", names=(name,))


def missing_argument(chance: random.Random, command: Any) -> Line | None:
    base = base_of(command)
    wanted = [one for one in command.params if one.required]
    if not wanted:
        return None
    gone = chance.choice(wanted)
    if gone.opts[0].startswith("--"):
        place = base.index(gone.opts[0])
        return Line((*base[:place], *base[place + 2 :]), "missing option", names=(gone.opts[0],))
    arguments = [one for one in command.params if not one.opts[0].startswith("--") and one.required]
    last = arguments[-1]  # whatever is left out, the last one is missing
    place = 1 + arguments.index(gone)
    name = (last.metavar or last.name.upper()).strip("[].")
    return Line((*base[:place], *base[place + 1 :]), "missing argument", names=(name,))


def unknown_argument(chance: random.Random, command: Any) -> Line | None:
    arguments = [one for one in command.params if not one.opts[0].startswith("--") and one.required]
    chosen = [place for place, one in enumerate(arguments) if (one.metavar or "") != "DIR"]
    if not chosen:
        return None
    base, place, value = base_of(command), 1 + chance.choice(chosen), garbage(chance)
    return Line((*base[:place], value, *base[place + 1 :]), "argument that names nothing", names=(value,))


def extra_argument(chance: random.Random, command: Any) -> Line | None:
    value = garbage(chance)
    return Line((*base_of(command), value), "one argument too many", names=(value,))


def option_without_value(chance: random.Random, command: Any) -> Line | None:
    chosen = [one for one in options_of(command) if not one.is_flag]
    if not chosen:
        return None
    option = chance.choice(chosen)
    return Line((*base_of(command), option.opts[0]), "option without its value", names=(option.opts[0],))


def flag_with_value(chance: random.Random, command: Any) -> Line | None:
    flag = chance.choice([one for one in options_of(command) if one.is_flag]).opts[0]
    return Line((*base_of(command), f"{flag}={garbage(chance)}"), "flag with a value", names=(flag,))


def repeated(chance: random.Random, command: Any) -> Line | None:
    chosen = [one for one in options_of(command) if not one.is_flag and not one.multiple]
    if not chosen:
        return None
    option = chance.choice(chosen)
    right = {int: "3", float: "0.5"}.get(option.type_descriptor.annotation, "new")
    other = {int: "4", float: "0.6"}.get(option.type_descriptor.annotation, "new2")
    words = (*base_of(command), option.opts[0], right, option.opts[0], other)
    return Line(words, "option given twice", names=(option.opts[0],))


BY_COMMAND: tuple[Callable[[random.Random, Any], Line | None], ...] = (
    wrong_type,
    out_of_range,
    not_finite,
    unknown_text,
    unknown_option,
    unknown_command,
    missing_argument,
    unknown_argument,
    extra_argument,
    option_without_value,
    flag_with_value,
    repeated,
)


# Settings


def settings() -> list[Setting]:
    """Every setting of a recipe, with the options of every task, encoding and pooling."""
    found = list(_settings_of(RunConfig, ""))
    for registry, place, recipe in ((TASKS, "task", "tiny.toml"), (ENCODINGS, "model.encoding", "tiny.toml")):
        for name in registry.names():
            cls: Any = registry.get(name)
            found += _settings_of(cls.Options, place, (f"{place}.name={name}",), recipe)
    for name in POOLINGS.names():
        found += _settings_of(POOLINGS.get(name).Options, "model.pooling", (f"model.pooling.name={name}",), "sort.toml")
    return found


def _settings_of(cls: type, place: str, before: tuple[str, ...] = (), recipe: str = "tiny.toml") -> Iterator[Setting]:
    types = get_type_hints(cls)
    for f in fields(cls):
        path = f"{place}.{f.name}" if place else f.name
        kind = types[f.name]
        if isinstance(kind, type) and is_dataclass(kind) and kind is not Choice:
            yield from _settings_of(kind, path, before, recipe)
            continue
        limits = tuple(f.metadata.get(key) for key in ("low", "high", "above"))
        where = "sort.toml" if path == "model.pooling" else recipe
        yield Setting(path, kind, limits, before, where)  # type: ignore[arg-type]


def wrong_setting(chance: random.Random) -> Line:
    """A setting with a value of another type, or out of range."""
    setting = chance.choice(settings_once())
    value = wrong_value(setting, chance)
    words = [word for one in setting.before for word in ("--set", one)]
    line = ("train", setting.recipe, "--out", "new", *words, "--set", f"{setting.path}={value}")
    shown = value.strip("\"'")
    key = setting.path.rpartition(".")[2]
    return Line(line, "setting with a wrong value", names=(key, *([shown] if _is_shown(shown) else [])))


def _is_shown(value: str) -> bool:
    """Whether a value is printed as it was written; TOML values of other types are printed in Python's form."""
    return value.isalpha() and value not in ("true", "false")


_once: list[Setting] = []


def settings_once() -> list[Setting]:
    if not _once:
        _once.extend(settings())
    return _once


def wrong_value(setting: Setting, chance: random.Random) -> str:
    """A value that the setting's type and limits exclude, as TOML."""
    kind, (low, high, above) = setting.kind, setting.limits
    parts = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    kind = next(part for part in parts if part is not NoneType)
    any_type = ["[1, [2]]", "{a = 1}", "1979-05-27", "07:32:00"]
    if get_origin(kind) is Literal:
        near = typo(chance, str(get_args(kind)[0]))
        return chance.choice([garbage(chance), near, "3", "true", *any_type])
    if kind is Choice:
        return chance.choice(["3", "true", "[1]", "{}", "{name = 3}", garbage(chance), "1.5"])
    if get_origin(kind) is tuple:
        return chance.choice(["3", "true", garbage(chance), "[true]", "[1.5]", "[[1]]", "{a = 1}"])
    if kind is bool:
        return chance.choice(["1", "0", "perhaps", "1.5", '"true"', "yes", *any_type])
    if kind is str:
        return chance.choice(["3", "true", "1.5", "[1]", "{a = 1}"])
    numbers = ["true", "wide", '"3"', "nan", "inf", "-inf", garbage(chance), "1e400", *any_type]
    if kind is int:
        numbers += ["2.5", "1" + "0" * 30, "0x" + "f" * 40, "9" * 5_000, str(2**63)]
    if low is not None:
        numbers += [str(low - 1)] * 4
    if high is not None:
        numbers += [str(high * 2 + 1)] * 4
    if above is not None:
        numbers += [str(above), str(above - 1)] * 2
    return chance.choice(numbers)


def unknown_setting(chance: random.Random) -> Line:
    """A key that no setting has, near to one or far from all."""
    setting = chance.choice(settings_once())
    table, _, key = setting.path.rpartition(".")
    near = typo(chance, key)
    path = chance.choice([f"{table}.{near}" if table else near, garbage(chance), f"{garbage(chance)}.{key}"])
    words = [word for one in setting.before for word in ("--set", one)]
    line = ("train", setting.recipe, "--out", "new", *words, "--set", f"{path}=3")
    return Line(line, "unknown setting", names=(path.partition(".")[0],))


def broken_assignment(chance: random.Random) -> Line:
    """A `--set` that is no KEY=VALUE."""
    path = chance.choice(settings_once()).path
    text = chance.choice(
        [path, f"={path}", f".{path}=3", f"{path}.=3", f"{path.replace('.', '..', 1)}..=3", "=", "", f"{path}=1\n2"]
    )
    command = chance.choice(["train", "sweep"])
    return Line((command, "tiny.toml", "--out", "new", "--set", text), "--set without key or value", names=("--set",))


def inconsistent(chance: random.Random) -> Line:
    """Settings that are right alone and wrong together."""
    n = chance.randrange(2, 60)
    cases: list[tuple[str, list[str], str]] = [
        ("tiny.toml", [f"model.d_model={7 * n + 1}", "model.n_heads=7"], "model.n_heads"),
        ("tiny.toml", ["model.encoding.name=rotary", f"model.d_head={2 * n + 1}"], "d_head"),
        ("tiny.toml", ["model.pooling.name=max"], "model.pooling"),
        ("tiny.toml", [f"model.encoder_layers={n}", "model.shape=decoder"], "model"),
        ("tiny.toml", ["model.shape=encoder", "model.decoder_layers=0"], "shape"),
        ("tiny.toml", ["data.fresh=true", f"train.epochs={n}"], "data.fresh"),
        ("tiny.toml", [f"train.guided=0.{n}"], "train.guided"),
        ("tiny.toml", [f"model.window={n}", "model.log_length_scale=true"], "model.window"),
        ("tiny.toml", [f"model.kept_heads=['dec{n}.cross.h0']"], "kept_heads"),
        ("tiny.toml", ["task.digits=1", f"data.train={n * 1_000}"], "data.train"),
        ("tiny.toml", ["model.encoding.name=coupled", f"model.encoding.max_offset={300 + n}"], "max_offset"),
        ("sort.toml", [f"task.min_length={n + 10}", f"task.max_length={n}"], "min_length"),
        ("sort.toml", [f"model.decoder_layers={n}"], "model.decoder_layers"),
        ("sort.toml", [f"model.cross_window={n}"], "model.cross_window"),
        ("sort.toml", ["model.encoding.name=coupled"], "coupled"),
        ("sort.toml", ["model.shape=encoder-decoder"], "shape"),
        ("sort.toml", ["task.values=3", f"data.train={10**6 + n}"], "data.train"),
        ("tiny.toml", ["model.d_model=16384", "model.encoder_layers=200"], "parameters"),
        ("tiny.toml", ["data.files=true"], "data"),
    ]
    recipe, assignments, name = chance.choice(cases)
    words = [word for one in assignments for word in ("--set", one)]
    return Line(("train", recipe, "--out", "new", *words), "settings that exclude each other", names=(name,))


# Lines that may be right


def hostile_text(chance: random.Random, command: Any) -> Line:
    """A text that breaks careless programs, in an option or an argument."""
    base, value = base_of(command), chance.choice(HOSTILE)
    options = [one for one in options_of(command) if not one.is_flag]
    arguments = len(base) - 1
    if options and (chance.random() < 0.7 or not arguments):
        option = chance.choice(options)
        text = f"{chance.choice(settings_once()).path}={value}" if option.opts[0] == "--set" else value
        return Line((*base, option.opts[0], text), "hostile text", wrong=False)
    place = chance.randrange(1, len(base)) if arguments else 1
    return Line((*base[:place], value, *base[place + 1 :]), "hostile text", wrong=False)


def several_options(chance: random.Random, command: Any) -> Line:
    """Several options with values of their type, right or wrong together."""
    words = base_of(command)
    for option in chance.sample(options_of(command), k=min(len(options_of(command)), chance.randrange(1, 5))):
        words.append(option.opts[0])
        if not option.is_flag:
            numbers = ["0", "1", "2", "7", "-3", "100000000000000000000"]
            texts = ["test", "all", "best", "cpu", "0-1", "0", "run", "data", "new", "train.lr=0.1", "16", "accuracy"]
            kind = option.type_descriptor.annotation
            words.append(chance.choice(numbers if kind in (int, float) else texts))
    return Line(tuple(words), "several options", wrong=False)
