"""Sentences whose names are marked (sentences/, by CONVENTIONS.md): a tenth of each kind, a block of lines, is held out."""

import re
from pathlib import Path
from typing import NamedTuple

from pg_graphrag.llm.embedding.name_tagger import TYPES
from pg_graphrag.text.letters import without_stray_invisible

SENTENCES = Path(__file__).with_name("sentences")
_MARK = re.compile(r"\[([^\[\]]+)\]\(([a-z]+)\)")
# Of each kind in each file so many blocks of lines, of which the middle one is held out.
_BLOCKS = 10

Place = tuple[int, int, int]  # start, end, number of the type


class Marked(NamedTuple):
    """A text and its names."""

    text: str
    names: list[Place]
    language: str
    kind: str


def parsed(line: str) -> tuple[str, list[Place]]:
    """Return the text of a marked line, and its names."""
    parts: list[str] = []
    names: list[Place] = []
    length = position = 0
    for match in _MARK.finditer(line):
        parts += line[position : match.start()], match[1]
        length += match.start() - position
        names.append((length, length + len(match[1]), TYPES.index(match[2])))
        length += len(match[1])
        position = match.end()
    return "".join((*parts, line[position:])), names


def read(language: str) -> tuple[list[Marked], list[Marked]]:
    """Return (lines to train with, lines held out) of a language, in their order."""
    by_kind: dict[str, list[Marked]] = {}
    kind = ""
    for line in (SENTENCES / f"{language}.txt").read_text(encoding="utf-8").splitlines():
        line = without_stray_invisible(line.strip())
        if line.startswith("#"):
            kind = line[1:].strip().split(" ")[0]
        elif line:
            by_kind.setdefault(kind, []).append(Marked(*parsed(line), language, kind))
    train: list[Marked] = []
    held_out: list[Marked] = []
    for lines in by_kind.values():
        first, end = len(lines) * 4 // _BLOCKS, len(lines) * 5 // _BLOCKS
        held_out += lines[first:end]
        train += lines[:first] + lines[end:]
    return train, held_out
