"""Recipe files with something wrong in them."""

import random
import re
from collections.abc import Callable

from faults.laboratory import RECIPE

GOOD = RECIPE.encode()


def duplicate_key(chance: random.Random) -> bytes:
    line = chance.choice([line for line in RECIPE.splitlines() if "=" in line])
    return RECIPE.replace(line, f"{line}\n{line}").encode()


def duplicate_table(chance: random.Random) -> bytes:
    table = chance.choice(re.findall(r"\[\w+\]", RECIPE))
    return f"{RECIPE}\n{table}\n".encode()


def unknown_table(chance: random.Random) -> bytes:
    name = "".join(chance.choices("abcdefgh", k=6))
    return f"{RECIPE}\n[{name}]\nx = 1\n".encode()


def unknown_key(chance: random.Random) -> bytes:
    table = chance.choice(re.findall(r"\[\w+\]", RECIPE))
    return RECIPE.replace(table, f"{table}\nzq{chance.randrange(99)} = 1").encode()


def wrong_type(chance: random.Random) -> bytes:
    line = chance.choice([line for line in RECIPE.splitlines() if "=" in line])
    key = line.partition(" = ")[0]
    value = chance.choice(["true", "[1, 2]", "{a = 1}", "1979-05-27", "nan", "inf", '"\\u0000"', '"\\u001b[31m"', "[]"])
    return RECIPE.replace(line, f"{key} = {value}").encode()


def array_for_table(chance: random.Random) -> bytes:
    table = chance.choice(["task", "data", "model", "train"])
    return RECIPE.replace(f"[{table}]", f"[[{table}]]").encode()


def deep(chance: random.Random) -> bytes:
    depth = chance.choice([100, 1_000, 20_000])
    if chance.random() < 0.5:
        return b"a = " + b"[" * depth + b"]" * depth + b"\n" + GOOD
    return b"[" + b".".join([b"a"] * depth) + b"]\nx = 1\n"


def huge_number(chance: random.Random) -> bytes:
    return GOOD.replace(b"d_model = 8", b"d_model = " + b"9" * chance.choice([30, 400, 4_300, 5_000, 100_000]))


def long_key(chance: random.Random) -> bytes:
    return GOOD + b"k" * chance.choice([301, 5_000, 100_000]) + b" = 1\n"


def long_text(chance: random.Random) -> bytes:
    return GOOD.replace(b'"addition"', b'"' + b"a" * chance.choice([301, 5_000, 100_000]) + b'"')


def binary(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(1, 3_000)) + b"\xff\x00"


def foreign_encoding(chance: random.Random) -> bytes:
    encoding = chance.choice(["utf-16", "utf-32", "utf-16-le"])
    return RECIPE.replace("seed", "# größe\nseed").encode(encoding)


def null_byte(chance: random.Random) -> bytes:
    place = chance.randrange(len(GOOD))
    return GOOD[:place] + b"\x00" + GOOD[place:]


def without_table(chance: random.Random) -> bytes:
    table = chance.choice(["task", "train"])
    return re.sub(rf"\[{table}\][^\[]*", "", RECIPE).encode()


WRONG: tuple[Callable[[random.Random], bytes], ...] = (
    duplicate_key,
    duplicate_table,
    unknown_table,
    unknown_key,
    wrong_type,
    array_for_table,
    deep,
    huge_number,
    long_key,
    long_text,
    binary,
    foreign_encoding,
    null_byte,
    without_table,
)


def cut_off(chance: random.Random) -> bytes:
    """The beginning of a recipe, which may be a recipe."""
    return GOOD[: chance.randrange(len(GOOD))]


def flipped(chance: random.Random) -> bytes:
    """A recipe with some bytes exchanged, which may be a recipe."""
    content = bytearray(GOOD)
    for _ in range(chance.randrange(1, 4)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


PERHAPS_WRONG = (cut_off, flipped)
