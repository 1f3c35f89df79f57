"""JSON as models write it: trailing commas, raw line ends in strings, Python's literals; and what is whole of a torn one."""

import json
import re
from typing import Any

_SPACE = re.compile(r"[\s,]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORDS = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_WORD = re.compile("|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True)))
_MAX_DEPTH = 40
# How often the length of a text is read at most, over all beginnings that are tried in it: containers within each other that
# never end would be read once for each.
MAX_READINGS = 4
_STRINGS = json.JSONDecoder(strict=False)  # raw line ends and tabs are taken


def joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs; lists of one name, which models write when they go on, are one list."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        before = made.get(name)
        if isinstance(before, list) and isinstance(value, list):
            before.extend(value)
        else:
            made[name] = value
    return made


class _Torn(Exception):
    """The text stops being JSON here; `at_end`: because it ends."""

    def __init__(self, at_end: bool):
        self.at_end = at_end


class Reader:
    """One JSON value within a text.

    Attributes
    ----------
    value : Any
        An object or array; where the text is torn, with the elements that are whole.
    end : int
        The character after it, or after what was read of it.
    torn, at_end : bool
        Whether the value is not whole, and whether that is because the text ends.
    """

    def __init__(self, text: str, start: int):
        self._text = text
        self._at = start
        self.torn = self.at_end = False
        self.value: Any = {} if text[start] == "{" else []
        try:
            self._container(self.value, 0)
        except _Torn as torn:
            self.torn, self.at_end = True, torn.at_end
        self.end = self._at

    def _peek(self) -> str:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        if self._at >= len(self._text):
            raise _Torn(at_end=True)
        return self._text[self._at]

    def _container(self, into: Any, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise _Torn(at_end=False)
        self._at += 1
        closing = "}" if isinstance(into, dict) else "]"
        while self._peek() != closing:
            if isinstance(into, dict):
                name = self._string()
                if self._peek() != ":":
                    raise _Torn(at_end=False)
                self._at += 1
                opening = self._peek()
                if opening in "{[":
                    # Entered before it is read: what is whole of it stays when it is torn.
                    child: Any = {} if opening == "{" else []
                    if opening == "[" and isinstance(into.get(name), list):
                        child = into[name]
                    into[name] = child
                    self._container(child, depth + 1)
                else:
                    into[name] = self._scalar()
            else:
                opening = self._peek()
                if opening in "{[":
                    child = {} if opening == "{" else []
                    self._container(child, depth + 1)
                    into.append(child)
                else:
                    into.append(self._scalar())
        self._at += 1

    def _string(self) -> str:
        if self._text[self._at] != '"':
            raise _Torn(at_end=False)
        try:
            value, self._at = _STRINGS.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            raise _Torn(at_end="Unterminated" in error.msg or error.pos + 7 >= len(self._text)) from None
        return str(value)

    def _scalar(self) -> Any:
        if self._text[self._at] == '"':
            return self._string()
        match = _WORD.match(self._text, self._at) or _NUMBER.match(self._text, self._at)
        if match is None:
            # The beginning of a word at the end of the text is a torn word.
            rest = self._text[self._at : self._at + 9]
            raise _Torn(at_end=self._at + len(rest) >= len(self._text))
        self._at = match.end()
        if self._at >= len(self._text):
            raise _Torn(at_end=True)
        if match.group() in _WORDS:
            return _WORDS[match.group()]
        number = match.group()
        # Python refuses to read numbers of thousands of digits.
        return float(number) if len(number) > 300 or not number.lstrip("-").isdigit() else int(number)
