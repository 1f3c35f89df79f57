"""AsciiDoc to Markdown: headings, lists, code and tables, without attributes, anchors and index terms."""

import re
from collections.abc import Iterator

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.markup.lines import MarkdownLines, note_included, replaced
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.beside.readers.tables import table_text
from pg_graphrag.ground.document import Document

_INCLUDED = re.compile(r"include::([^\[\n]{1,1000})\[")
_HEADING = re.compile(r"(?P<marks>={1,6}|#{1,6})[ \t]+(?P<text>\S[^\n]*)")
_UNDERLINES = "=-~^+"
# By so many characters may an underline be shorter or longer than its title.
_UNDERLINE_SLACK = 2
_ATTRIBUTE = re.compile(r":(?P<name>!?[\w][\w-]{0,60}!?):(?:[ \t]+(?P<value>[^\n]*))?")
_AUTHOR = re.compile(r"(?P<name>[^\W\d][\w.'-]*(?: [\w.'-]+){0,3})(?: <[^<>\n]{1,200}>)?")
_REVISION = re.compile(r"(?:v?[\d.]{1,20},? ?)?(?P<date>\d{4}-\d{2}-\d{2})(?::[^\n]*)?")
_BLOCK_ATTRIBUTES = re.compile(r"\[(?P<text>[^\[\]\n]{0,300}|\[[^\[\]\n]{0,200}\])\][ \t]*")
_DIRECTIVE = re.compile(r"(?:include|ifdef|ifndef|ifeval|endif|toc|image|video|audio)::[^\n]{0,500}")
_BLOCK_TITLE = re.compile(r"\.(?=[^\s.])(?P<text>[^\n]*)")
_DELIMITER = re.compile(r"-{4,}|\.{4,}|\+{4,}|/{4,}|={4,}|\*{4,}|_{4,}|--|`{3,}[\w-]*|[|,:!]={3,}")
_ITEM = re.compile(r"[ \t]*(?P<mark>\*{1,6}|-|\.{1,6}|<(?:\d{1,3}|\.)>|\d{1,3}\.)[ \t]+(?P<text>\S[^\n]*)")
_TERM = re.compile(r"[ \t]*(?P<term>\S[^\n]{0,200}?)(?:::{1,3}|;;)(?:[ \t]+(?P<text>\S[^\n]*))?")
# From the first blank of a run: from each it would be read to its end.
_CALLOUT = re.compile(r"(?<![ \t])[ \t]*(?://|#|--|;;)?[ \t]?(?:<!--)?<?<(?:\d{1,3}|\.)>(?:-->)?[ \t]*$", re.MULTILINE)
_CELL = re.compile(r"(?:^|(?<=\s))(?:\d{0,2}(?:\.\d{1,2})?[+*])?[<^>.]{0,4}[adehlmsv]?\|")
_COLUMN = re.compile(r"(?:(?P<times>\d{1,2})\*)?[^,]*")
_ANCHORED = re.compile(
    r"^\[(?:\[(?P<id>[^\[\]\n,]{1,200})[^\[\]\n]{0,200}\]|#(?P<id2>[^\[\]\n,.%]{1,200})[^\[\]\n]{0,200})\]"
    r"\n={1,6} (?P<text>[^\n]{1,300})$",
    re.MULTILINE,
)
_CODE_STYLES = frozenset(("source", "listing", "literal"))
# Markup within a line; quantifiers are bounded, so that each is linear.
_INLINE = (
    (re.compile(r"\(\(\([^()\n]{1,200}\)\)\)"), ""),
    (re.compile(r"\(\(([^()\n]{1,200})\)\)"), "\\1"),
    (re.compile(r"\[\[[^\[\]\n]{1,200}\]\]"), ""),
    (re.compile(r"<<[^<>\n,]{1,200}, ?([^<>\n]{1,300})>>"), "\\1"),
    (re.compile(r"\b(?:image|icon|anchor|indexterm|pass):[^\s\[\]]{0,500}\[[^\[\]\n]{0,300}\]"), ""),
    (re.compile(r"\bindexterm2:\[([^\[\]\n]{1,300})\]"), "\\1"),
    (re.compile(r"\bfootnote:[\w-]{0,60}\[([^\[\]\n]{1,1000})\]"), " (\\1)"),
    (re.compile(r"\bmenu:([^\s\[\]]{1,200})\[([^\[\]\n]{1,300})\]"), "\\1 > \\2"),
    # link:page.html[text], https://x.org[text]; an address stays if it has no text, as does the target of
    # linkgit:git-log[1].
    (re.compile(r"\b(?:link|xref|mailto|kbd|btn):[^\s\[\]]{0,500}\[([^\[\]\n,^]{1,300})[^\[\]\n]{0,300}\]"), "\\1"),
    (re.compile(r"\b(?:https?|ftp|irc)://[^\s\[\]<>]{1,1000}\[([^\[\]\n,^]{1,300})[^\[\]\n]{0,300}\]"), "\\1"),
    (re.compile(r"\b((?:https?|ftp|irc)://[^\s\[\]<>]{1,1000})\[\]"), "\\1"),
    (re.compile(r"\b[a-z]{3,20}:(?!//)([^\s\[\]:]{1,200})\[[^\[\]\n]{0,100}\]"), "\\1"),
    (re.compile(r"(?<![\w`])`\+([^`\n]{1,300}?)\+`(?!\w)"), "`\\1`"),
    (re.compile(r"\"`([^`\n]{1,500})`\""), "“\\1”"),
    (re.compile(r"(?<!\w)'`([^`\n]{1,500})`'"), "‘\\1’"),
    (re.compile(r"(?<![\w+])\+{1,2}(?=\S)([^+\n]{1,300}?)(?<=\S)\+{1,2}(?![\w+])"), "`\\1`"),
    (re.compile(r"(?:\[[\w .#%-]{1,60}\])?(?<![\w#])##?(?=[^\s#])([^#\n]{1,300})##?(?![\w#])"), "\\1"),
    (re.compile(r"[ \t]\+$"), ""),
)
_REFERENCE = re.compile(r"<<#?([^<>\n,]{1,200})>>")
_VALUE = re.compile(r"\{([a-z][\w-]{0,60})\}")
_VALUES = {
    "nbsp": " ", "sp": " ", "amp": "&", "lt": "<", "gt": ">", "empty": "", "blank": "", "apos": "'", "quot": '"',
    "plus": "+", "startsb": "[", "endsb": "]", "vbar": "|", "asterisk": "*", "tilde": "~", "litdd": "--",
    "caret": "^", "backtick": "`", "cpp": "C++",
}  # fmt: skip


def read_asciidoc(source: Source) -> Iterator[Document]:
    """Read an AsciiDoc file as one document, titled by its first heading, else its name."""
    facts = Facts()
    text = _Text(decode(source.read(), source).expandtabs(4), facts)
    content = text.markdown()
    note_included(source, text.included)
    yield source.document(content, "text/asciidoc", text.title, facts)


class _Text(MarkdownLines):
    """The lines of a file, read once from the first to the last."""

    def __init__(self, content: str, facts: Facts) -> None:
        super().__init__()
        self._lines, self._facts = content.split("\n"), facts
        self._place = 0
        self._values = dict(_VALUES)
        self._headings = {match["id"] or match["id2"]: match["text"].strip() for match in _ANCHORED.finditer(content)}
        # The attributes of the next block.
        self._style: list[str] = []
        self._columns = 0
        # An indented paragraph is code, except in an item.
        self._is_in_item = False

    def markdown(self) -> str:
        """Return the text as Markdown."""
        while self._place < len(self._lines):
            self._take()
        return self.text()

    def _line(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._lines[place] if 0 <= place < len(self._lines) else ""

    def _take(self) -> None:
        line = self._line().rstrip()
        if _DELIMITER.fullmatch(line):
            self._block(line)
        elif match := _HEADING.fullmatch(line):
            self._heading(len(match["marks"]), match["text"])
        elif self._is_underlined(line):
            self._heading(_UNDERLINES.index(self._line(1)[0]) + 1, line)
            self._place += 1
        elif attribute := _ATTRIBUTE.fullmatch(line):
            self._attribute(attribute["name"], (attribute["value"] or "").strip())
        elif (match := _BLOCK_ATTRIBUTES.fullmatch(line)) and not self._is_in_text():
            self._block_attributes(match["text"])
        elif line.startswith("//") or _DIRECTIVE.fullmatch(line):
            self._include([line])
            self._place += 1
        elif line == "+":
            self.add("")
            self._place += 1
        elif (match := _BLOCK_TITLE.fullmatch(line)) and not self._is_in_text():
            self.add("", self._inline(match["text"]), "")
            self._place += 1
        elif match := _ITEM.fullmatch(line):
            self._item(match["mark"], match["text"])
        elif (match := _TERM.fullmatch(line)) and not self._is_in_text():
            self.add("", f"{self._inline(match['term'])}: {self._inline(match['text'] or '')}".rstrip())
            self._is_in_item = True
            self._place += 1
        elif line.startswith(" ") and not self._is_in_text() and not self._is_in_item:
            self._indented()
        else:
            self._paragraph_line(line)

    def _paragraph_line(self, line: str) -> None:
        if line and not line.startswith(" ") and not self._is_in_text():
            self._is_in_item = False
        if self._style and self._style[0] in _CODE_STYLES and line:
            start = self._place
            while self._line().strip():
                self._place += 1
            self._code(self._lines[start : self._place])
            return
        if not line:
            self._style = self._style if not self._is_in_text() else []
        self.add(self._inline(line.strip()))
        self._place += 1

    def _is_in_text(self) -> bool:
        """Whether the line before belongs to the same paragraph."""
        before = self._line(-1).strip()
        return bool(self._place and before) and not (
            _BLOCK_ATTRIBUTES.fullmatch(before)
            or _DELIMITER.fullmatch(before)
            or before == "+"
            or before.startswith(("//", "."))
            or _HEADING.fullmatch(before)
            or _ATTRIBUTE.fullmatch(before)
        )

    def _is_underlined(self, line: str) -> bool:
        return (
            bool(line) and line[0] not in " |[.:" and not self._is_in_text() and self._underlines(self._line(1), line)
        )

    @staticmethod
    def _underlines(line: str, title: str) -> bool:
        line, title = line.rstrip(), title.rstrip()
        is_line = len(line) > 2 and line[0] in _UNDERLINES and line == line[0] * len(line)
        return is_line and any(map(str.isalpha, title)) and abs(len(line) - len(title)) <= _UNDERLINE_SLACK

    def _heading(self, level: int, text: str) -> None:
        is_first = self.title is None
        self.heading(level, self._inline(text))
        self._style, self._is_in_item = [], False
        self._place += 1
        if is_first and level == 1:
            self._head()

    def _head(self) -> None:
        """Take the lines of author and revision below the title."""
        if self._line(-1).rstrip() == "" or self._underlines(self._line(), self._line(-1)):
            return
        if (author := _AUTHOR.fullmatch(self._line().strip())) and not _ATTRIBUTE.fullmatch(self._line()):
            self._facts.author = author["name"]
            self._place += 1
            if revision := _REVISION.fullmatch(self._line().strip()):
                self._facts.published = as_time(revision["date"])
                self._place += 1

    def _attribute(self, name: str, value: str) -> None:
        self._place += 1
        while value.endswith(" \\") and self._place < len(self._lines):
            value = f"{value[:-2]} {self._line().strip()}"
            self._place += 1
        if name.startswith("!") or name.endswith("!"):
            self._values.pop(name.strip("!"), None)
            return
        self._values[name] = value
        if name in ("author", "authors"):
            self._facts.author = value
        elif name in ("revdate", "date"):
            self._facts.published = as_time(value)
        elif name == "lang":
            self._facts.language = value

    def _block_attributes(self, text: str) -> None:
        self._place += 1
        if text.startswith("["):
            return
        self._style = [part.strip().strip('"') for part in text.split(",")]
        self._style[0] = self._style[0].split("%")[0].split("#")[0]
        self._style[0] = self._style[0] or ("source" if len(self._style) > 1 and self._style[1].isalpha() else "")
        columns = re.search(r"cols ?= ?(?:\"([^\"\n]{1,200})\"|([^\s,]{1,20}))", text)
        if columns:
            parts = _COLUMN.finditer(columns[1] or columns[2])
            self._columns = sum(int(part["times"] or 1) for part in parts if part[0])

    def _item(self, mark: str, text: str) -> None:
        depth = len(mark) - 1 if mark[0] in "*." else 0
        sign = "-" if mark[0] in "*-" else "1."
        self.add(f"{'  ' * depth}{sign} {self._inline(text)}")
        self._is_in_item = True
        self._place += 1

    def _block(self, delimiter: str) -> None:
        """Take a block between two equal lines; text blocks are read as text."""
        sign = delimiter[0]
        style = self._style[0] if self._style else ""
        is_code = sign in "`" or delimiter[:4] in ("----", "....") or (delimiter == "--" and style in _CODE_STYLES)
        if not is_code and sign not in "/+|,:!":
            self._style = []
            self.add("")
            self._place += 1
            return
        start = self._place + 1
        closing = "```" if sign == "`" else delimiter
        end = next((place for place in range(start, len(self._lines)) if self._lines[place].rstrip() == closing), None)
        if end is None and sign in "/+":
            # A comment that never closes leaves out nothing but its mark.
            self._style = []
            self._place += 1
            return
        lines = self._lines[start:end]
        self._place = len(self._lines) if end is None else end + 1
        if sign != "/":
            self._include(lines)
        if is_code:
            self._code(lines, delimiter.strip("`") if sign == "`" else "")
        elif sign == "|":
            self._table(lines)
        elif sign in ",:!":
            self.add("", *lines, "")
        elif style in ("stem", "latexmath", "asciimath"):
            self.add("", "$$", *lines, "$$", "")
        self._style, self._columns = [], 0

    def _include(self, lines: list[str]) -> None:
        """Note what lines include; in a block of code they do, too."""
        self.included += [match[1] for match in map(_INCLUDED.match, lines) if match]

    def _indented(self) -> None:
        start = self._place
        while self._line().strip():
            self._place += 1
        self._code(self._lines[start : self._place])

    def _code(self, lines: list[str], language: str = "") -> None:
        if not language and len(self._style) > 1 and self._style[0] == "source":
            language = self._style[1]
        self.code(_CALLOUT.sub("", "\n".join(lines)).split("\n"), language)
        self._style = []

    def _table(self, lines: list[str]) -> None:
        cells: list[str] = []
        columns = self._columns
        for line in lines:
            starts = list(_CELL.finditer(line))
            before = line[: starts[0].start()] if starts else line
            if cells:
                cells[-1] += f" {before.strip()}"
            ends = [*(start.start() for start in starts[1:]), len(line)]
            cells += [line[start.end() : end].strip() for start, end in zip(starts, ends, strict=False)]
            columns = columns or len(starts)
        cells = [self._inline(cell) for cell in cells]
        rows = [cells[place : place + columns] for place in range(0, len(cells), columns)] if columns else []
        self.add("", *table_text(rows).split("\n"), "")

    def _inline(self, line: str) -> str:
        if "{" in line:
            line = _VALUE.sub(lambda match: self._values.get(match[1], match[0]), line)
        line = _REFERENCE.sub(lambda match: self._headings.get(match[1], ""), line)
        return replaced(line, _INLINE)
