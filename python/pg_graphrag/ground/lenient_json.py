"""Reads JSON as models write it, and the complete part of JSON that was cut off.

Accepts trailing commas, comments, raw line ends in strings, Python's literals and quotes, unquoted names and values,
backslashes of LaTeX and of paths, and quotes that are not escaped.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

# Comments may stand wherever blanks may; one of more than 500 characters does not count.
_COMMENT = r"//[^\n]*+|/\*(?=[\s\S]{0,500}?\*/)(?:[^*]++|\*(?!/))*\*/"
_GAP = rf"(?:[\s,]++|{_COMMENT})"
_SPACE = re.compile(rf"{_GAP}*")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])")
# A value without quotes: words up to the end of the member.
_BARE_VALUE = re.compile(r"[^\W\d_][^\n\r,:;\"“”\[\]{}<>|\\]{0,200}+(?=[ \t]*(?:[,\n\r}]|\Z))")
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
# Beginnings of JSON that are tried in a text, and how often its length is read at most over all of them: containers within each
# other that never end would be read once for each.
_MAX_STARTS, _MAX_READINGS = 200, 4
_STRINGS = json.JSONDecoder(strict=False)  # raw line ends and tabs are taken

# A backslash and the escaped character; or the control character that such a pair became.
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)|[\b\f](?=[A-Za-z])", re.DOTALL)
# LaTeX's commands that begin as the escape of a line end or tab does. What follows is no word that begins a line.
_COMMAND = re.compile(
    r"(?:n(?:abla|atural|earrow|eq|ewcommand|geqq?|leqq?|leftarrow|rightarrow|Rightarrow|otag|otin|oindent|olimits|onumber"
    r"|subseteq|supseteq|warrow)|t(?:anh|binom|extstyle|ext(?:bf|it|rm|sc|sf|tt)?(?=\s?\{)|frac|herefore|heta|hickapprox|hinspace|ilde"
    r"|imes|iny|itle|riangle[a-z]*)|r(?:ho|ight(?:arrow)?|angle|ceil|floor|times|brace|[vV]ert|m(?=\s?\{)))(?![A-Za-z])"
)
# Commands that a word may follow: "e", "u" and "au" among them. They are commands within a formula alone.
_SHORT_COMMAND = re.compile(
    r"(?:n(?:cong|eg?|exists|i|less|mid|ot|parallel|prec|sim|subset|succ|u)|t(?:ag|an|au|op?))(?![A-Za-z])"
)
# $… or $$…, which goes on to its end, \(…, \[… or an index; a tab after an operator.
_DOLLARS, _DOLLAR_END = re.compile(r"\$(?![\d\s])[^$]{0,80}\Z"), re.compile(r"[^$\"\n]{0,80}\$")
_AFTER_OPERATOR = re.compile(r"[=+*/^(] ?\Z")
# A path whose backslashes are not escaped, up to the next. One of them escapes nothing, or a folder or file is behind the drive.
_UNESCAPED = r"\\(?!\\|u[0-9a-fA-F]{4})"
_PATH = re.compile(
    rf"(?<![^\s\"'(\[])(?:[C-HX-Zc-hx-z]:(?:{_UNESCAPED}(?:[^\"\\\n]{{1,60}}{_UNESCAPED})*"
    r"(?:Program Files(?: \(x86\))?|[^\s\"\\]*[^\s\"\\.,;:!?)]))?"
    rf"|\\\\\w[\w.-]*(?:{_UNESCAPED}[\w.$-]+)+)\Z"
)
_CERTAIN = re.compile(r"\\[^nrt\\]")
_FOLDER = re.compile(r"t(?:e?mp|ools?)\b|[\w.-]{2,60}\\(?![nrt\\\"])|[\w-]{2,60}\.\w{2,4}\b(?!\.)")
# Folders and files of a relative path that begin like an escape and a fragment; and the signs of a path. This is a
# list, because form cannot tell src\new from fin\nest, nor can a lexicon of one language.
_ENTRY = re.compile(
    r"(?:n(?:ew(?:s|er|est)?|otes?|otebooks?|ode_modules|etworks?|ames?|ative|ginx|pm|uget)"
    r"|r(?:eadme|eports?|esources?|eleases?|epos?|epository|equirements|esults?|oot|outes?|outers?|un(?:time)?|aw|oaming|ecent"
    r"|egistry|ules?|obots|emote|eact|uby|ust|eferences?)"
    r"|t(?:e?mp|ests?|exts?|ools?|oolkit|emplates?|hemes?|argets?|okens?|ypes?|utorials?|raining|hird_party))(?![A-Za-z])"
)
_IN_PATH = re.compile(r"(?<![^\s\"'(])[\w.~%-]{2,60}(?:\\[\w.%-]+)*\\[A-Zac-eg-mo-qsv-z_\d][\w.%-]*(?:\\[\w.%-]+)*\Z")
_PATH_AHEAD = re.compile(r"[\w.-]{2,60}\\[A-Z_]")
# What precedes an account, DOMAIN\\robert, and the beginning of \\\\server\\share with unescaped backslashes, unless it
# is a command of LaTeX, \\\\alpha.
_DOMAIN = re.compile(r"(?<![^\s\"'(\[])[A-Z][A-Z0-9-]{1,14}\Z")
_ACCOUNT = re.compile(r"(?<![\w\\])([A-Z][A-Z0-9-]{1,14})\\(?![\\\"/nrtu])\w")
# A host has no _ and more than two characters: \\d\t belongs to a regular expression, \\x_1\n and \\x41\n to a formula
# or code.
_SHARE = re.compile(r"\\\\(?!x[0-9A-Fa-f]{2}\\)(?P<host>[^\W_](?:[^\W_]|[.-](?=[^\W_])){2,60})\\(?![\\\"/u])(?=\w)")
# Characters before an escape that are looked at.
_BEFORE = 300


def mended(text: str) -> str:
    """Return JSON of a model with each backslash escaped that escapes nothing.

    What JSON does not know is a backslash: C:\\Users, \\alpha. So is what would become a control character before letters
    and is a command of LaTeX or a part of a path: \\frac, \\beta, \\theta, C:\\temp. Line ends and tabs stay.
    """
    if "\\" not in text and "\b" not in text and "\f" not in text:
        return text
    return _ESCAPE.sub(partial(_mended_escape, domains=frozenset(_ACCOUNT.findall(text))), text)


def _mended_escape(match: re.Match[str], domains: frozenset[str]) -> str:
    whole, escaped = match[0], match[1]
    if escaped is None:
        return "\\\\" + {"\b": "b", "\f": "f"}[whole]
    if escaped == "\\" and _begins_share(match.string, match.start()):
        return whole * 2
    if escaped in ('"', "\\", "/") or len(escaped) > 1:
        return whole
    if escaped == "'":
        return "'"
    if escaped not in "bfnrt" or _is_backslash(match.string, match.start(), domains):
        return "\\" + whole
    return whole


def _begins_share(text: str, start: int, end: int | None = None) -> bool:
    """Whether \\\\server\\share begins here, not escaped; `end`: where its second backslash must be."""
    match = _SHARE.match(text, start)
    if match is None or end not in (None, match.end() - 1) or text[max(0, start - 1) : start].strip(" \n\t\"'(["):
        return False
    is_word, letter = match["host"].isalpha(), text[match.end()]
    if letter == "n":
        return bool(_ENTRY.match(text, match.end()))
    if letter in "rt" and not text[match.end() + 1 : match.end() + 2].islower():
        return False
    return not is_word or (letter not in "bf" and "$" not in text[max(0, start - _BEFORE) : start])


def _is_backslash(text: str, position: int, domains: frozenset[str]) -> bool:
    """Whether the escape of a control character is a backslash and a letter; `domains`: those of certain accounts."""
    letter, following = text[position + 1], text[position + 2 : position + 3]
    if letter == "b":
        return True
    if letter == "f":
        return following.islower()
    if _COMMAND.match(text, position + 1):
        return True
    if not following.islower():
        return False
    before = text[max(0, position - _BEFORE) : position]
    before = before[before.rfind('"') + 1 :]
    if (domain := _DOMAIN.search(before)) and (
        # No line ends in \r alone; n and t begin names where others of the domain are.
        letter == "r" or domain[0] in domains
    ):
        return True
    if (share := text.rfind("\\\\", max(0, position - _BEFORE), position)) >= 0 and _begins_share(
        text, share, position
    ):
        return True
    if path := _PATH.search(before):
        return _begins_share(text, position - len(path[0])) or bool(
            _CERTAIN.search(path[0], 2) or _FOLDER.match(text, position - len(path[0]) + 3)
        )
    if re.search(r"[\w.~%]\Z", before) and (
        _ENTRY.match(text, position + 1) or _IN_PATH.search(before) or _PATH_AHEAD.match(text, position + 1)
    ):
        return True
    if (command := _SHORT_COMMAND.match(text, position + 1)) is None:
        return False
    end = command.end()
    is_within = (
        (before.count("$") % 2 and _DOLLARS.search(before) and _DOLLAR_END.match(text, end))
        or (before.count("$$") % 2 and _ends_in_line(text, end, "$$"))
        or before.count("\\(") > before.count("\\)")
        or (before.count("\\[") > before.count("\\]") and _ends_in_line(text, end, "\\]"))
    )
    is_operand = _AFTER_OPERATOR.search(before) and (letter == "t" or text.startswith(")", end))
    return bool(is_within or is_operand or text.startswith("^", end))


def _ends_in_line(text: str, start: int, mark: str) -> bool:
    """Whether a display formula ends in a line with a part of it: where its end has a line of its own, it has line ends."""
    end = text.find(mark, start, start + _BEFORE)
    return end >= 0 and not text[start:end].rstrip(" \\").endswith(("\\n", "\n"))


# Quotes around a string.
_CLOSING = {'"': '"', "'": "'", "“": "”"}
_OPENING = "".join(_CLOSING)
# What follows the end of a name, of a member's value, and of an item of a list; else a quote stands within its string, as those
# of "the operator "//" divides".
_COMMENT_AFTER = rf"//(?![\"'”])[^\n]*+\n|{_COMMENT.partition('|')[2]}"
_GAP_AFTER = rf"(?:[\s,]++|{_COMMENT_AFTER})"
_AFTER = {
    "name": re.compile(r"\s*+:"),
    "member": re.compile(
        rf"{_GAP_AFTER}*(?:\}}|\]|\Z)|{_GAP_AFTER}+[{_OPENING}](?:[^\"'”\n]{{0,200}}+[\"'”]\s*+(?::|\Z)|[^\"'”\n{{}}]{{0,200}}+\Z)"
    ),
    "item": re.compile(
        rf"(?:\s++|{_COMMENT_AFTER})*(?:,{_GAP_AFTER}*(?:[{_OPENING}\[{{\]\-\d]|true|false|null|None|True|False|\Z)|\Z)|{_GAP_AFTER}*[\]}}]"
    ),
}
# A name without quotes; where there was one, others may follow a value.
_BARE_NAME = r"[^\W\d][\w-]{0,60}+"
_NAME = re.compile(_BARE_NAME + r"(?=\s*+(?::|\Z))")
_AFTER["bare member"] = re.compile(rf"{_AFTER['member'].pattern}|{_GAP_AFTER}+{_BARE_NAME}\s*+(?::|\Z)")
# What can only be the name of another member: the string has ended before.
_NEXT_NAME = re.compile(r"\s*+:\s*+[\"'“\[{]")
# An escape as a whole; a quote; a backslash at the end.
_PAIR = re.compile(r'\\.|"|\\', re.DOTALL)
# Characters of a string with quotes within, which is read to where it may end.
_LONGEST_QUOTED = 5000
# Characters of all that are read so in one value.
_MOST_QUOTED = 40_000


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
    """One JSON value within a text, whose backslashes are `mended`.

    `value`: an object or array; if the text is torn, with its complete elements.
    `start`, `end`: its first character; the one after it, or after the part that was read.
    `torn`, `at_end`: whether the value is incomplete, and whether the text ended within it.
    """

    def __init__(self, text: str, start: int):
        self._text = text
        self.start = self._at = start
        self._quoted_left = _MOST_QUOTED
        self._member = "member"
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
                name = self._string("name")
                if self._peek() != ":":
                    raise _Torn(at_end=False)
                self._at += 1
                opening = self._peek()
                if opening in "{[":
                    # Added before it is read: its complete part stays if it is torn.
                    child: Any = {} if opening == "{" else []
                    if opening == "[" and isinstance(into.get(name), list):
                        child = into[name]
                    into[name] = child
                    self._container(child, depth + 1)
                else:
                    into[name] = self._scalar(self._member)
            else:
                opening = self._peek()
                if opening in "{[":
                    child = {} if opening == "{" else []
                    self._container(child, depth + 1)
                    into.append(child)
                else:
                    into.append(self._scalar("item"))
        self._at += 1

    def _string(self, place: str) -> str:
        """Read the string of a name, a member or an item."""
        quote = self._text[self._at]
        if place == "name" and (bare := _NAME.match(self._text, self._at)):
            self._at, self._member = bare.end(), "bare member"
            return bare[0]
        if quote not in _CLOSING:
            raise _Torn(at_end=False)
        fault: json.JSONDecodeError | None = None
        value, end = "", self._at
        if quote == '"':
            try:
                value, end = _STRINGS.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                fault = error
            else:
                if _AFTER[place].match(self._text, end):
                    self._at = end
                    return str(value)
        if (quoted := self._quoted(_CLOSING[quote], place)) is not None:
            return quoted
        if end == self._at:
            raise _Torn(at_end=fault is None or "Unterminated" in fault.msg or fault.pos + 7 >= len(self._text))
        self._at = end
        return str(value)

    def _quoted(self, closing: str, place: str) -> str | None:
        """Read a string that contains quotes up to the first one that may end it; None if there is none."""
        start = self._at + 1
        end = self._text.find(closing, start)
        while 0 <= end < start + min(_LONGEST_QUOTED, self._quoted_left):
            if _AFTER[place].match(self._text, end + 1):
                break
            if place != "name" and _NEXT_NAME.match(self._text, end + 1):
                return None
            end = self._text.find(closing, end + 1)
        else:
            self._quoted_left -= _LONGEST_QUOTED
            return None
        self._quoted_left -= end - start
        inner = _PAIR.sub(lambda pair: {'"': '\\"', "\\": "\\\\"}.get(pair[0], pair[0]), self._text[start:end])
        try:
            value = _STRINGS.decode(f'"{inner}"')
        except json.JSONDecodeError:
            return None
        self._at = end + 1
        return str(value)

    def _scalar(self, place: str) -> Any:
        if self._text[self._at] in _CLOSING:
            return self._string(place)
        match = _WORD.match(self._text, self._at) or _NUMBER.match(self._text, self._at)
        if match is None:
            bare = _BARE_VALUE.match(self._text, self._at) if place != "item" else None
            if bare is not None and bare.end() < len(self._text):
                self._at, self._member = bare.end(), "bare member"
                return bare[0].strip()
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
        return float(number) if len(number) > 300 or not number.lstrip("+-").isdigit() else int(number)


def readings(text: str) -> Iterator[Reader]:
    """Yield the JSON values within a text, complete or torn; values within a complete one are part of it."""
    position, characters_left = 0, _MAX_READINGS * len(text)
    for _ in range(_MAX_STARTS):
        match = re.compile(r"[\[{]").search(text, position)
        if match is None or characters_left <= 0:
            return
        reader = Reader(text, match.start())
        yield reader
        characters_left -= reader.end - reader.start
        position = reader.start + 1 if reader.torn else reader.end


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the whole JSON objects within a text, from the first brace on, each before those within it."""
    text = mended(text)
    characters_left = _MAX_READINGS * len(text)
    for brace in islice(re.finditer(r"\{", text), _MAX_STARTS):
        reader = Reader(text, brace.start())
        characters_left -= reader.end - reader.start
        if not reader.torn:
            yield reader.value
        if characters_left <= 0:
            return
