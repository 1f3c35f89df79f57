"""Emacs Org files to Markdown: headings, code and tables, without drawers, TODO keywords and settings."""

import re
from bisect import bisect_right
from collections.abc import Iterator

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.markup.lines import MarkdownLines, note_included, replaced
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.ground.document import Document

_INCLUDED = re.compile(r"\"(?P<quoted>[^\"\n]{1,1000})\"|(?P<bare>\S{1,1000})")
_HEADING = re.compile(r"(?P<marks>\*{1,30})[ \t]+(?P<text>\S[^\n]*)")
_TODO = re.compile(
    r"(?:(?:TODO|DONE|NEXT|WAITING|HOLD|CANCELL?ED|STARTED|COMMENT)[ \t]+)?(?:\[#[A-Z0-9]\][ \t]+)?(?=\S)"
)
_TAGS = re.compile(r"(?<![ \t])[ \t]+:(?:[\w@#%]{1,40}:){1,20}[ \t]*$")
_KEYWORD = re.compile(r"[ \t]*#\+(?P<name>[A-Za-z_]{1,40})(?:\[[^\[\]\n]{0,100}\])?:(?P<value>[^\n]*)")
_BEGIN = re.compile(r"[ \t]*#\+begin_(?P<name>\w{1,40})(?P<arguments>[^\n]*)", re.IGNORECASE)
_END = re.compile(r"[ \t]*#\+end_(?P<name>\w{1,40})[ \t]*", re.IGNORECASE)
_ESCAPED = re.compile(r"^([ \t]*),(?=[*#,])")
_DRAWER = re.compile(r"[ \t]*:[A-Za-z_][\w-]{0,40}:[ \t]*")
_END_OF_DRAWER = re.compile(r"[ \t]*:end:[ \t]*", re.IGNORECASE)
_LONGEST_DRAWER = 200
_FIXED = re.compile(r"[ \t]*:(?: (?P<text>[^\n]*))?")
_RULE_OF_TABLE = re.compile(r"[ \t]*\|[-+|]*[ \t]*")
_DATE = re.compile(r"[<\[]?(\d{4}-\d{2}-\d{2})")
# [[address][words]], which may go over the end of a line.
_LINK = re.compile(r"\[\[[^\[\]\n]{1,1000}\]\[([^\[\]]{1,500})\]\]")
# Within them text is text.
_TEXT_BLOCKS = frozenset(("quote", "verse", "center", "abstract", "note", "tip", "warning"))
_UNREAD_BLOCKS = frozenset(("comment", "export", "html", "latex"))
# Markup within a line; quantifiers are bounded, so that each is linear.
_INLINE = (
    (re.compile(r"\[\[(?:file:)?([^\[\]\n]{1,1000})\]\]"), "\\1"),
    (re.compile(r"<<<?([^<>\n]{1,200})>>>?"), ""),
    (re.compile(r"\[fn:[\w-]{0,60}\]"), ""),
    (re.compile(r"(?<![\w=~])[=~](?=[^\s=~])([^\n=~]{1,300})(?<=\S)[=~](?![\w=~])"), "`\\1`"),
    (re.compile(r"(?<![\w/:.~<])/(?=[^\s/])([^\n/]{1,300})(?<=\S)/(?![\w/])"), "\\1"),
    (re.compile(r" :: "), ": "),
    # Commands of LaTeX that lay out a page.
    (
        re.compile(
            r"\\(?:newpage|clearpage|pagebreak|columnbreak|[hv]fill|(?:big|med|small)skip|noindent|[hv]space\{[^{}\n]{0,40}\})"
        ),
        "",
    ),
    (re.compile(r"\{\{\{[^{}\n]{1,200}\}\}\}|\\\\[ \t]*$"), ""),
)


def read_org(source: Source) -> Iterator[Document]:
    """Read an Org file as one document, titled by ``#+TITLE``, else its first heading, else its name."""
    facts = Facts()
    decoded = decode(source.read(), source)
    text = _Text(_LINK.sub(r"\1", decoded).expandtabs(8).split("\n"), facts)
    content = text.markdown()
    note_included(source, text.included)
    title = facts.others.pop("title", None)
    yield source.document(content, "text/org", title or text.title, facts)


class _Text(MarkdownLines):
    """The lines of a file, read once from the first to the last."""

    def __init__(self, lines: list[str], facts: Facts) -> None:
        super().__init__()
        self._lines, self._facts = lines, facts
        self._block_ends: dict[str, list[int]] = {}
        for place, line in enumerate(lines):
            if match := _END.fullmatch(line):
                self._block_ends.setdefault(match["name"].lower(), []).append(place)

    def markdown(self) -> str:
        """Return the text as Markdown."""
        place = 0
        while place < len(self._lines):
            place = self._take(place)
        return self.text()

    def _take(self, place: int) -> int:
        """Read the line at a place, or the block that begins there; return the place behind it."""
        line = self._lines[place]
        if match := _HEADING.fullmatch(line):
            text = _TODO.sub("", match["text"], count=1)
            self.heading(len(match["marks"]), replaced(_TAGS.sub("", text), _INLINE))
        elif match := _BEGIN.fullmatch(line):
            return self._block(place, match["name"].lower(), match["arguments"].split())
        elif match := _KEYWORD.fullmatch(line):
            self._fact(match["name"].lower(), match["value"].strip())
        elif line.lstrip().startswith(("#+", "# ")) or line.strip() == "#":
            pass
        elif _DRAWER.fullmatch(line) and (end := self._end_of_drawer(place)):
            return end + 1
        elif _FIXED.fullmatch(line) and not _DRAWER.fullmatch(line):
            return self._fixed(place)
        elif _RULE_OF_TABLE.fullmatch(line):
            above = self._lines[place - 1].strip() if place else ""
            if above.startswith("|"):
                self.add(f"|{' --- |' * (above.count('|') - 1)}")
        else:
            # Deeper indentation is the text's own here, and code in Markdown.
            text = line.strip()
            depth = (len(line) - len(line.lstrip(" "))) // 2 if text.startswith(("- ", "+ ")) else 0
            self.add("  " * depth + replaced(text, _INLINE))
        return place + 1

    def _end_of_drawer(self, place: int) -> int | None:
        for end in range(place + 1, min(place + _LONGEST_DRAWER, len(self._lines))):
            if _END_OF_DRAWER.fullmatch(self._lines[end]):
                return end
            if _HEADING.fullmatch(self._lines[end]):
                return None
        return None

    def _fixed(self, place: int) -> int:
        code: list[str] = []
        while place < len(self._lines) and (match := _FIXED.fullmatch(self._lines[place])):
            code.append(match["text"] or "")
            place += 1
        self.code(code)
        return place

    def _block(self, place: int, name: str, arguments: list[str]) -> int:
        ends = self._block_ends.get(name, [])
        index = bisect_right(ends, place)
        if name in _TEXT_BLOCKS or index == len(ends):
            self.add("")
            return place + 1
        if name not in _UNREAD_BLOCKS:
            # "," keeps a line of code from being one of the file.
            code = (_ESCAPED.sub("\\1", line) for line in self._lines[place + 1 : ends[index]])
            self.code(code, arguments[0] if name == "src" and arguments else "")
        return ends[index] + 1

    def _fact(self, name: str, value: str) -> None:
        if name == "author":
            self._facts.author = value
        elif name == "date":
            date = _DATE.match(value)
            self._facts.published = as_time(date[1]) if date else None
        elif name == "language":
            self._facts.language = value
        elif name == "include":
            self.included += [match["quoted"] or match["bare"] for match in [_INCLUDED.match(value)] if match]
        elif name == "caption":
            self.add("", replaced(value, _INLINE), "")
        elif name in ("title", "subtitle", "description", "keywords") and value:
            self._facts.others[name] = value
