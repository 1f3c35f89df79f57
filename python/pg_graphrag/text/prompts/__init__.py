"""Prompts: text files in this folder, which the corpus option ``prompts`` can replace.

A prompt is plain text with places ``{name}``; a replacement must have the same places.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError

_FOLDER = Path(__file__).parent
_PLACE = re.compile(r"\{([a-z_]+)\}")


@cache
def names() -> tuple[str, ...]:
    """Names of the prompts there are."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))


@cache
def default(name: str) -> str:
    """Return the package's own text of a prompt."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def check(name: str, text: Any) -> None:
    """Raise 22023 when `text` cannot take the place of prompt `name`."""
    if name not in names():
        raise GraphRAGError(f'unknown prompt "{name}"', hint=f"Known: {', '.join(names())}.")
    if not isinstance(text, str):
        raise GraphRAGError(f'prompt "{name}" must be text', hint="Give a string.")
    expected, places = set(_PLACE.findall(default(name))), set(_PLACE.findall(text))
    if expected != places:
        different = ", ".join("{" + place + "}" for place in sorted(expected ^ places))
        raise GraphRAGError(
            f'prompt "{name}" differs in its places: {different}',
            hint=f"It has: {', '.join('{' + place + '}' for place in sorted(expected)) or 'none'}.",
        )


def render(replacements: Mapping[str, str], name: str, **values: str) -> str:
    """Return prompt `name`, or its replacement, with `values` in its places, verbatim: braces in values mean nothing."""
    text = replacements.get(name) or default(name)
    return _PLACE.sub(lambda match: values[match.group(1)], text)


@cache
def sentences(name: str) -> Mapping[str, str]:
    """Return what takes the place of a model's answer, such as "not_found", by language (ISO 639-1, or zh-Hant)."""
    by_name: dict[str, dict[str, str]] = json.loads((_FOLDER / "sentences.json").read_text(encoding="utf-8"))
    return by_name[name]


def sentence(name: str, language: str) -> str:
    """Return one of `sentences` in a language, or in English if it has no translation."""
    by_language = sentences(name)
    return by_language.get(language, by_language["en"])
