"""Short texts of a user interface in 16 languages, from the translation catalogues in Django's wheel.

Django's package of PyPI (BSD-3-Clause) carries the messages of its interface as translators wrote them. The label of a
text is the language of its catalogue; English is the language of the messages themselves. The languages are four
families of four, so that letters alone do not tell them apart. Where a text is cut is drawn again in every step of
training, and once for the held-out texts.
"""

import hashlib
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WHEEL = "django-5.2.19-py3-none-any.whl"
FAMILIES = ("da nb sv is", "de nl en af", "es gl pt ca", "cs sk pl sl")
LANGUAGES = tuple(" ".join(FAMILIES).split())
FEWEST_LETTERS, LETTERS = 12, 24
"""Shorter texts are left out; of longer ones a piece of this many characters is read."""
TENTHS_HELD_OUT = 3
ALIKE = 0.5
"""Share of common 5-character pieces at which two texts count as one."""
NOT_TEXT = re.compile(r"%\(\w+\)[a-z]|%[a-z%]|\{\w*\}|<[^>]*>|&\w+;|\d+")
"""Placeholders, tags, entities and numbers."""


@dataclass(frozen=True)
class Text:
    """A message in one language."""

    message: str
    text: str
    label: int


@dataclass(frozen=True)
class Texts:
    """Texts for training and held-out ones, which are translations of other messages; and what was left out."""

    training: list[Text]
    held_out: list[Text]
    counts: dict[str, int]


def download(folder: Path) -> Path:
    """Django's wheel, by pip."""
    version = WHEEL.split("-")[1]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*command, f"django=={version}"], check=True)
    return folder / WHEEL


def read_texts(wheel: Path | None) -> Texts:
    """The texts of the wheel; without one, it is downloaded from PyPI."""
    if wheel is None:
        with tempfile.TemporaryDirectory() as folder:
            return read_texts(download(Path(folder)))
    every = [text for label, language in enumerate(LANGUAGES) for text in messages_of(wheel, label, language)]
    languages_of = Counter(text.text for text in every)
    own = [text for text in every if languages_of[text.text] == 1]
    held_out = [text for text in own if is_held_out(text.message)]
    candidates = [text for text in own if not is_held_out(text.message)]
    training = list(unlike(candidates, held_out))
    counts = {
        "texts": len(every),
        "in_several_languages": len(every) - len(own),
        "training_like_held_out": len(candidates) - len(training),
        "training": len(training),
        "held_out": len(held_out),
    }
    return Texts(training, held_out, counts)


def messages_of(wheel: Path, label: int, language: str) -> Iterator[Text]:
    """The different texts of one language, cleaned."""
    found: dict[str, Text] = {}
    for message, translation in catalogue(wheel, "de" if language == "en" else language):
        text = clean(message if language == "en" else translation)
        if len(text) >= FEWEST_LETTERS and (language == "en" or text != clean(message)):
            found.setdefault(text, Text(message, text, label))
    yield from found.values()


def catalogue(wheel: Path, language: str) -> Iterator[tuple[str, str]]:
    """Every message of Django's interface with its translation."""
    from babel.messages.mofile import read_mo

    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(f"/locale/{language}/LC_MESSAGES/django.mo"):
                for one in read_mo(io.BytesIO(archive.read(name))):
                    message, translation = (x if isinstance(x, str) else x[0] for x in (one.id, one.string))
                    if message and translation:
                        yield message, translation


def clean(text: str) -> str:
    return " ".join(NOT_TEXT.sub(" ", text).lower().split())


def is_held_out(message: str) -> bool:
    """A hash of the English message decides, so that all its translations are on one side."""
    return hashlib.sha256(message.encode()).digest()[0] % 10 < TENTHS_HELD_OUT


def pieces(text: str) -> set[str]:
    return {text[start : start + 5] for start in range(len(text) - 4)}


def unlike(training: list[Text], held_out: list[Text]) -> Iterator[Text]:
    """Training texts without those that have half of their pieces in common with a held-out text of the language."""
    others: dict[int, list[set[str]]] = {}
    for text in held_out:
        others.setdefault(text.label, []).append(pieces(text.text))
    for text in training:
        own = pieces(text.text)
        if all(len(own & other) < ALIKE * len(own | other) for other in others[text.label]):
            yield text


def cut(texts: list[Text], random: np.random.Generator) -> list[str]:
    """A piece of each text, from a random place on."""
    room = [max(0, len(text.text) - LETTERS) for text in texts]
    starts = (random.random(len(texts)) * (np.array(room) + 1)).astype(int)
    return [text.text[start : start + LETTERS].strip() for text, start in zip(texts, starts, strict=True)]
