"""Reads a caller's JSON in steps, each a short call of the library, so that a cancel takes effect soon.

One call for a whole text cannot be cancelled: 16 MB of small lists take a second. One pass over a long text finds the
long containers. This module reads their members one by one; the library reads everything else.
"""

import json
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError

# Characters that one call of the library reads.
SLICE = 500_000
# Maximum depth of lists and objects whose numbers keep their text; deeper ones become floats.
_MAX_EXACT_DEPTH = 100

# Strings are skipped: a bracket within one is text. No group is repeated, which would take memory for each of its turns.
_MARK = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_BLANK = re.compile(r"[ \t\n\r]*+")


def read_json(text: str, parse_float: Callable[[str], Any] = float) -> Any:
    """Return the value of a JSON text that is well-formed, as jsonb shows it.

    Raises GraphRAGError: 54001 where lists and objects are nested too deep, 22003 for a whole number of more digits than
      Python reads.
    """
    decoder = json.JSONDecoder(parse_float=parse_float)
    try:
        return _Reader(text, decoder).read() if len(text) > SLICE else decoder.decode(text)
    except RecursionError:
        raise GraphRAGError(
            f"the JSON is nested too deep: {text[:60]}…",
            sqlstate="54001",
            hint="Give at most some hundred lists and objects within each other.",
        ) from None
    except ValueError:
        # The text is well-formed: nothing else is refused.
        raise GraphRAGError(
            f"the JSON has a number of more than {sys.get_int_max_str_digits():,} digits: {text[:60]}…",
            sqlstate="22003",
            hint="Give it as a text.",
        ) from None


def read_exact_json(text: str) -> Any:
    """Return the value of a JSON text, numbers with a fraction as decimals."""
    return read_json(text, Decimal)


class ShownNumber(float):
    """A number with a fraction that keeps its text: 55.00."""

    text: str

    @classmethod
    def of(cls, text: str) -> "ShownNumber | str":
        """Make it of its text; of one that no float holds the text is the value."""
        number = cls(text)
        number.text = text
        return number if isfinite(number) else text


def read_shown_json(text: str) -> Any:
    """Return the value of a JSON text, numbers with a fraction as `json_text` shows them."""
    return read_json(text, ShownNumber.of)


def json_text(value: Any, depth: int = 0) -> str:
    """Return a value as jsonb shows it; numbers of `read_shown_json` as they were written."""
    if isinstance(value, ShownNumber):
        return value.text
    if depth < _MAX_EXACT_DEPTH and isinstance(value, list):
        return f"[{', '.join([json_text(item, depth + 1) for item in value])}]"
    if depth < _MAX_EXACT_DEPTH and isinstance(value, dict):
        pairs = [f"{json_text(name)}: {json_text(item, depth + 1)}" for name, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    return json.dumps(value, ensure_ascii=False)


def read_options(options: str | None, example: str) -> dict[str, Any]:
    """Return options, empty for none; 22023 with an example if they are no object."""
    values = read_json(options) if options else {}
    if not isinstance(values, dict):
        raise GraphRAGError(f"options must be a JSON object, not {str(options)[:100]}", hint=f"For example {example}.")
    return values


class _Reader:
    """One reading of a long text."""

    def __init__(self, text: str, decoder: json.JSONDecoder) -> None:
        self._text = text
        self._decoder = decoder
        self._long_starts = self._long_containers()

    def read(self) -> Any:
        """Return the value of the whole text."""
        return self._value(self._after_blanks(0))[0]

    def _long_containers(self) -> set[int]:
        """Return the positions of lists and objects that are longer than a slice."""
        starts: set[int] = set()
        open_starts: list[int] = []
        is_in_string = False
        for mark in _MARK.finditer(self._text):
            sign = mark[0]
            if sign == '"':
                is_in_string = not is_in_string
            elif is_in_string or sign.startswith("\\"):
                continue
            elif sign in ("[", "{"):
                open_starts.append(mark.start())
            elif sign in ("]", "}"):
                start = open_starts.pop()
                if mark.end() - start > SLICE:
                    starts.add(start)
        return starts

    def _after_blanks(self, position: int) -> int:
        match = _BLANK.match(self._text, position)
        assert match is not None
        return match.end()

    def _value(self, position: int) -> tuple[Any, int]:
        """Return the value that begins at a position, and the position where it ends."""
        if position not in self._long_starts:
            return self._decoder.raw_decode(self._text, position)
        return self._object(position) if self._text[position] == "{" else self._list(position)

    def _list(self, position: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        sign = ","
        while sign == ",":
            value, position = self._value(self._after_blanks(position + 1))
            items.append(value)
            position = self._after_blanks(position)
            sign = self._text[position]
        return items, position + 1

    def _object(self, position: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        sign = ","
        while sign == ",":
            name, position = self._decoder.raw_decode(self._text, self._after_blanks(position + 1))
            value, position = self._value(self._after_blanks(self._after_blanks(position) + 1))
            members[name] = value
            position = self._after_blanks(position)
            sign = self._text[position]
        return members, position + 1
