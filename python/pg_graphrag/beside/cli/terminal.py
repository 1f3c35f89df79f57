"""Output of commands: texts of others made safe for a terminal, tables, and JSON for programs."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

_REPLACEMENT = "\ufffd"
_CONTROLS = {code: _REPLACEMENT for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_CONTROLS[ord("\r")] = "\n"


def printable(text: str) -> str:
    """Return a text without the characters that control a terminal (its clipboard, title and other lines).

    Anybody may write documents, their keys and the output of models. JSON, which programs read, escapes these characters.
    """
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def aligned(rows: Iterable[Sequence[str]], side: str = ">") -> list[str]:
    """Return rows as aligned lines: the first column is text, the others are numbers, or texts with `side` "<"."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = ("<", *(side for _ in widths[1:]))
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in table
    ]


def print_json(value: Any) -> None:
    """Print a dataclass, or an object of JSON, on one line."""
    fields = dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    print(json.dumps(fields, ensure_ascii=False, default=str), flush=True)
