"""Rich Text: headings, lists, tables, code, notes, comments and text boxes, as Word writes them.

Microsoft, Rich Text Format (RTF) Specification 1.9.1.
"""

import re
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime

from pg_graphrag.beside.readers.decode import meant_encoding
from pg_graphrag.beside.readers.markdown import CHECKED, UNCHECKED, heading_of
from pg_graphrag.beside.readers.markup.rtf_fonts import DEFAULT_ENCODING, FontTable
from pg_graphrag.beside.readers.markup.rtf_story import Story, StyleTable
from pg_graphrag.beside.readers.read_errors import ReadWarning
from pg_graphrag.beside.readers.source import Damage, Facts, Source
from pg_graphrag.ground.document import Document

_MIME = "application/rtf"
_TOKEN = re.compile(
    rb"\\(?:([A-Za-z]{1,32})(-?[0-9]{1,9})? ?|'([0-9A-Fa-f]{2})|([^A-Za-z']))|([{}])|([^\\{}\r\n]+)", re.DOTALL
)
_NO_TEXT, _HEX = re.compile(rb"\\[A-Za-z]+-?[0-9]* ?|[{}\r\n]"), re.compile(rb"\\'([0-9A-Fa-f]{2})")
_SAMPLE = 1 << 17
_MAX_DEPTH = 10_000
# Groups without text of the document; page heads and feet are left out, as for Word.
_LEFT_OUT = frozenset(
    "colortbl filetbl listtable revtbl rsidtbl generator header headerl headerr headerf footer footerl footerr footerf"
    " xe tc rxe objdata objclass objname objalias nonshppict shprslt themedata colorschememapping latentstyles datastore"
    " bkmkstart bkmkend fldinst ftnsep ftnsepc ftncn aftnsep aftnsepc aftncn nonesttables mmathPict falt panose template"
    " private operator company category hlinkbase".split()
)
# Optional groups (\*) that hold text all the same; of the others none does.
_OPTIONAL = frozenset("shppict shpinst do annotation atnauthor ud moMath moMathPara picprop".split())
_STORIES = {"footnote": "Note", "annotation": "Comment", "shptxt": "", "dptxbxtext": ""}
_INFO = frozenset("title author subject keywords doccomm".split())
_SIGNS = {
    "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "bullet": "•",
    "emspace": " ", "enspace": " ", "qmspace": " ", "tab": "\t", "line": "\n", "softline": "\n", "zwj": "\u200d",
    "zwnj": "\u200c", "ltrmark": "", "rtlmark": "", "nestcell": ", ", "nestrow": "; ",
}  # fmt: skip
_SYMBOLS = {b"~": "\u00a0", b"_": "-", b"\t": "\t"}
_MOMENT = {"yr": 0, "mo": 1, "dy": 2, "hr": 3, "min": 4}


@dataclass(slots=True)
class _State:
    """What holds to the end of a group.

    `sink` takes its text, none where it is left out; `at_end` is called with its text where that is taken apart.
    """

    sink: list[str] | None
    at_end: Callable[[str], None] | None = None
    table: str = ""
    font: int = -1
    fallback: int = 1
    is_hidden: bool = False
    is_deleted: bool = False
    is_optional: bool = False
    style: int = 0
    outline: int | None = None
    level: int = 0
    in_table: bool = False


def read_rtf(source: Source) -> Iterator[Document | ReadWarning]:
    r"""Read a document, titled by its own metadata, else its first heading, else its name.

    Raises ReadError for a file that does not begin with ``{\rtf``, is nested too deeply, or has no text.
    """
    data = source.read()
    if not data.startswith(b"{\\rtf"):
        raise source.error("does not begin as Rich Text does ({\\rtf); is it of another kind?")
    parser = _Parser(data, source.damage)
    if not parser.run():
        raise source.error(f"has more than {_MAX_DEPTH:,} groups within each other; is it damaged?")
    content = parser.story.text()
    if not content.strip():
        raise source.error("holds no text; are its pages pictures?")
    title = " ".join(parser.facts.others.pop("title", "").split())
    yield source.document(content + "\n", _MIME, title or heading_of(content), parser.facts)
    source.left_out["hidden character"] += parser.hidden
    source.left_out["picture without a description"] += parser.pictures
    source.left_out["object of another program"] += parser.objects
    if parser.is_cut:
        yield source.warning("ends amid the text; is it damaged?")


# The result of a field of a form that nobody has filled.
_BY_DEFAULT = 25


class _Parser:
    """Goes through a file once, group by group."""

    def __init__(self, data: bytes, damage: Damage) -> None:
        self._data = data
        self._fonts, self._styles = FontTable(damage), StyleTable()
        self.story = Story()
        self._state = _State(self.story.pieces)
        self._stack: list[_State] = []
        self._bytes: list[bytes] = []
        self._skip = 0
        self._unicode_sink: list[str] | None = None
        self._author = ""
        self._property = ""
        self._field = ""
        # A form field: its numbers by name, its list entries, and its text without a result.
        self._form: dict[str, int] = {}
        self._entries: list[str] = []
        self._choice = ""
        self._moment = [0, 1, 1, 0, 0]
        self.facts = Facts()
        self.hidden = self.pictures = self.objects = 0
        self.is_cut = False

    def run(self) -> bool:
        """Read all; False where groups are too many within each other."""
        data, position = self._data, 0
        while match := _TOKEN.search(data, position):
            position = match.end()
            word, number, code, symbol, brace, text = match.groups()
            if text is not None or code is not None:
                self._take(text if code is None else bytes.fromhex(code.decode()))
                continue
            if symbol in (b"\\", b"{", b"}"):
                # These bytes may be the second byte of a character.
                self._take(symbol)
                continue
            self._flush()
            if brace == b"{":
                self._skip = 0
                if len(self._stack) >= _MAX_DEPTH:
                    return False
                self._stack.append(self._state)
                self._state = copy(self._state)
                self._state.at_end, self._state.is_optional = None, False
            elif brace == b"}":
                self._skip = 0
                self._end_group()
                if not self._stack:
                    break
            elif word == b"bin":
                position += max(0, int(number or 0))
            elif self._skip:
                self._skip -= 1
            elif word is not None:
                self._word(word.decode(), None if number is None else int(number))
            else:
                self._symbol(symbol)
        self._flush()
        self.is_cut = bool(self._stack)
        while self._stack:
            self._end_group()
        self.story.end_paragraph()
        return True

    def _take(self, data: bytes) -> None:
        """Take bytes of text, less those that stand for a character beside its number."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if data:
            self._bytes.append(data)

    def _flush(self) -> None:
        if self._bytes:
            data = b"".join(self._bytes)
            self._bytes.clear()
            if self._state.sink is not None:
                self._put(self._fonts.decode(data, self._state.font))

    def _put(self, text: str) -> None:
        state = self._state
        if state.table == "fonts":
            self._fonts.name(state.font, text)
        elif state.table == "styles":
            self._styles.name(state.style, text)
        elif state.sink is None or state.is_deleted:
            return
        elif state.is_hidden:
            self.hidden += len(text.strip())
        else:
            state.sink.append(text)
            if state.sink is self.story.pieces:
                self.story.count(text, self._fonts.is_code(state.font))

    def _end_group(self) -> None:
        state = self._state
        self._state = self._stack.pop()
        if state.at_end is not None:
            state.at_end("".join(state.sink or ()))

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._state.is_optional = True
        elif symbol in (b"\n", b"\r"):
            self._end_paragraph()
        elif text := _SYMBOLS.get(symbol):
            self._put(text)

    def _word(self, word: str, number: int | None) -> None:
        state = self._state
        is_optional, state.is_optional = state.is_optional, False
        if self._property_of_text(state, word, number) or state.sink is None:
            return
        if word == "u":
            self._put(self._fonts.sign((number or 0) % 65536, state.font))
            self._skip = state.fallback
        elif word in _SIGNS:
            self._put(_SIGNS[word])
        elif word in ("par", "sect", "page", "column"):
            self._end_paragraph()
        elif word in ("cell", "row") and state.sink is self.story.pieces:
            self.story.end_cell() if word == "cell" else self.story.end_row()
        elif word == "fldrslt" and self._field.split()[:1] == ["TOC"]:
            # A table of contents says what the headings say.
            state.sink = None
        elif word == "fldrslt" and self._choice:
            sink, choice = state.sink, self._choice
            state.sink, self._choice = [], ""
            state.at_end = lambda text: sink.append(text if text.strip() else choice)
        elif word in ("fftype", "ffres", "ffdefres"):
            self._form[word] = number or 0
        elif not self._destination(state, word) and (word in _LEFT_OUT or (is_optional and word not in _OPTIONAL)):
            state.sink = None

    def _property_of_text(self, state: _State, word: str, number: int | None) -> bool:
        """Whether a word says how text is set, or what the tables of the file hold."""
        is_on = number != 0
        if word == "f":
            state.font = number or 0
        elif word == "plain":
            state.is_hidden = state.is_deleted = False
            state.font = self._fonts.default
        elif word == "pard":
            state.style, state.outline, state.level, state.in_table = 0, None, 0, False
        elif word == "v":
            state.is_hidden = is_on
        elif word == "deleted":
            state.is_deleted = is_on
        elif word == "intbl":
            state.in_table = is_on
        elif word == "uc":
            state.fallback = max(0, number or 0)
        elif word in ("s", "sbasedon", "outlinelevel", "ilvl"):
            self._paragraph_property(state, word, number or 0)
        elif word in _MOMENT:
            self._moment[_MOMENT[word]] = number or 0
        elif not self._fonts.property(state.font, word, number, state.table == "fonts"):
            return False
        if word == "ansicpg" and (encoding := self._likely_encoding()):
            self._fonts.encoding = encoding
        return True

    def _paragraph_property(self, state: _State, word: str, number: int) -> None:
        if word == "s":
            state.style = number
        elif word == "ilvl":
            state.level = number
        elif word == "outlinelevel":
            state.outline = number
            if state.table == "styles":
                self._styles.outlines[state.style] = number
        else:
            self._styles.bases[state.style] = number

    def _likely_encoding(self) -> str | None:
        """Return the likely encoding of text that is declared as Western, as many programs declare all texts."""
        if self._fonts.encoding != DEFAULT_ENCODING or b"\\u" in re.sub(rb"\\u[a-z]", b"", self._data):
            return None
        sample = _NO_TEXT.sub(b"", self._data[: 4 * _SAMPLE])
        sample = _HEX.sub(lambda match: bytes.fromhex(match[1].decode()), sample)[:_SAMPLE]
        return meant_encoding(DEFAULT_ENCODING, sample)

    def _destination(self, state: _State, word: str) -> bool:
        """Whether a word begins a group whose text goes elsewhere."""
        if word in ("fonttbl", "stylesheet"):
            state.table = "fonts" if word == "fonttbl" else "styles"
        elif word in _INFO or word in ("atnauthor", "fldinst", "sn", "sv", "listtext", "pntext"):
            state.sink, state.is_hidden = [], False
            state.at_end = lambda text: self._said(word, text)
        elif word in ("creatim", "revtim"):
            self._moment = [0, 1, 1, 0, 0]
            state.at_end = lambda _: self._dated(word)
        elif word == "formfield":
            self._form, self._entries = {}, []
            state.sink = []
        elif word == "ffl":
            state.sink = []
            state.at_end = self._entries.append
        elif word == "info":
            state.sink = []
        elif word == "objdata":
            self.objects += 1
            state.sink = None
        elif word == "pict":
            self.pictures += 1
            state.sink = []
        elif word in _STORIES:
            outer, self.story = self.story, Story()
            state.sink, state.style, state.outline, state.in_table = self.story.pieces, 0, None, False
            state.at_end = lambda _: self._end_story(word, outer)
        elif word == "upr":
            # The same text follows in Unicode.
            state.sink, sink = None, state.sink
            state.at_end, self._unicode_sink = None, sink
        elif word == "ud":
            state.sink = self._unicode_sink
        else:
            return False
        return True

    def _end_story(self, word: str, outer: Story) -> None:
        self.story.end_paragraph()
        text, self.story = self.story.text(), outer
        if word == "annotation":
            text = " ".join(text.split())
        label = f"Comment ({self._author})" if word == "annotation" and self._author else _STORIES[word]
        if text.strip():
            outer.attached.append(f"{label}: {text.strip()}" if label else text.strip())

    def _said(self, word: str, text: str) -> None:
        """Take what a group says."""
        line = " ".join(text.split())
        if word == "author":
            self.facts.author = line or None
        elif word in _INFO:
            if line:
                self.facts.others["description" if word == "doccomm" else word] = line
        elif word == "atnauthor":
            self._author = line
        elif word == "fldinst":
            self._field = line
            self._end_form(line.split()[:1])
        elif word == "sn":
            self._property = line
        elif word == "sv":
            if self._property == "wzDescription" and line and self.pictures:
                self.pictures -= 1
                self.story.attached.append(line)
        else:
            self.story.marker = line or "•"

    def _end_form(self, kind: list[str]) -> None:
        """Add the state of a check box or a list of a form; 25 means its default."""
        chosen = self._form.get("ffres", _BY_DEFAULT)
        if chosen == _BY_DEFAULT:
            chosen = self._form.get("ffdefres", 0)
        if kind == ["FORMCHECKBOX"]:
            self._put(CHECKED if chosen else UNCHECKED)
        elif kind == ["FORMDROPDOWN"] and 0 <= chosen < len(self._entries):
            self._choice = self._entries[chosen].strip()
        self._form = {}

    def _dated(self, word: str) -> None:
        try:
            year, month, day, hour, minute = self._moment
            moment = datetime(year, month, day, hour, minute, tzinfo=UTC)
        except (ValueError, TypeError):
            return
        if word == "creatim":
            self.facts.created = moment
        else:
            self.facts.modified = moment

    def _end_paragraph(self) -> None:
        state = self._state
        if state.sink is not self.story.pieces:
            if state.sink is not None:
                state.sink.append(" ")
        elif state.in_table:
            state.sink.append("\n")
        else:
            level = self._styles.level(state.style, state.outline)
            self.story.end_paragraph(level, state.level)
