"""reStructuredText to Markdown: headings, code and tables, without directives, roles and targets."""

import re
from collections.abc import Iterator

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.markup.lines import (
    MarkdownLines,
    head_fields,
    note_included,
    replaced,
    take_fields,
    without_indent,
)
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.beside.readers.tables import table_text
from pg_graphrag.ground.document import Document

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*")
_FIELD = re.compile(r":(?P<name>[A-Za-z][\w -]{0,40}):[ \t]*(?P<value>[^\n]*)")
_DIRECTIVE = re.compile(
    r"(?P<indent>[ \t]*)\.\. (?:\|[^|\n]{1,100}\| )?(?P<name>[A-Za-z][\w:.+-]{0,60})::(?P<argument>[^\n]*)"
)
_MARKUP = re.compile(r"[ \t]*(?:\.\.|__)(?:[ \t]|$)")
# A footnote; a label that is for the processor alone is left out: [#name].
_NOTE = re.compile(r"[ \t]*\.\. (?:\[(?:#[\w.+:-]{0,60}|\*)\] (?=\S)|(?=\[[^\]\n]{1,60}\] ))([^\n]*)")
_CODE = {"code", "code-block", "sourcecode", "parsed-literal", "highlight", "literalinclude", "productionlist"}
# Directives with nothing for a reader.
_SILENT = {"contents", "toctree", "include", "image", "index", "raw", "highlight", "meta", "only", "literalinclude"}
_GRID = re.compile(r"\+[-=+]*[-=]\+")
# Maximum depth of nested directives that are read; deeper ones stay unchanged.
_MAX_DEPTH = 10
# A link or a role, which may go over the end of a line: `words <address>`_, :role:`words <target>`, `Heading`_.
_LINK = re.compile(
    r"(?<![`\w])(?P<role>:[A-Za-z][\w:.+-]{0,40}:)?`(?P<words>[^`<\s][^`<]{0,300}?)(?P<target>\s{0,20}<[^`<>]{1,500}>)?`"
    r"(?(role)|_{1,2}(?!\w))"
)
# What ends a paragraph, or a line of a cell: no link goes over it.
_APART = re.compile(r"\n[ \t]*[\n|]")
# Markup within a line; quantifiers are bounded, so that each is linear.
_INLINE = (
    # A reference is its label; its text is the heading it leads to, which is not known here.
    (re.compile(r"(?<![`\w]):(?:std:)?(?:ref|numref|eq|cite(?:[:.]\w{1,20})?):`([\w.:-]{1,100})`"), "\x01\\1\x01"),
    (re.compile(r"(?<![`\w]):[A-Za-z][\w:.+-]{0,40}:`[~!]?"), "`"),
    (re.compile(r"``([^`\n]{1,500})``"), "\x01\\1\x01"),
    # A reference to a footnote, which in a literal is what the text is about.
    (re.compile(r"(\x01[^\x01\n]{1,500}\x01|`[^`\n]{1,500}`)|(?<=\S) ?\[(?:#[\w.+:-]{0,60}|\*)\]_(?!\w)"), "\\1"),
    (re.compile(r"`([^`\n]{1,500})`_{0,2}"), "\\1"),
    (re.compile("\x01"), "`"),
)


def read_rst(source: Source) -> Iterator[Document]:
    """Read a reStructuredText file as one document, titled by a field before it, else its first heading, else its name."""
    facts = Facts()
    lines = _LINK.sub(_on_one_line, decode(source.read(), source)).expandtabs(8).split("\n")
    # As of Python's proposals.
    fields, count = head_fields(lines)
    stated = take_fields(facts, fields)
    text = _Text(lines[count:], facts)
    content = text.markdown()
    note_included(source, text.included)
    yield source.document(content, "text/x-rst", stated or text.title, facts)


def _on_one_line(link: re.Match[str]) -> str:
    """Return a link that spans two lines on one line; others, which may be code, stay as they are."""
    return link[0] if "\n" not in link[0] or _APART.search(link[0]) else " ".join(link[0].split())


def _words(link: re.Match[str]) -> str:
    """Return a link's words; of a role that has no target of its own the role, too."""
    return link[0] if link["role"] and not link["target"] else link["words"]


def _inline(line: str) -> str:
    return replaced(_LINK.sub(_words, line), _INLINE)


class _Text(MarkdownLines):
    """The lines of a file, read once from the first to the last."""

    def __init__(self, lines: list[str], facts: Facts, depth: int = 0) -> None:
        super().__init__()
        self._lines, self._facts, self._depth = lines, facts, depth
        # Fields before it say what the document is.
        self._has_text = False
        self._place = 0
        # A kind of adornment is a level, in the order in which they come.
        self._levels: list[tuple[str, bool]] = []

    def markdown(self) -> str:
        """Return the text as Markdown."""
        while self._place < len(self._lines):
            self._take()
        return self.text().lstrip()

    def _line(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._lines[place] if place < len(self._lines) else ""

    def _take(self) -> None:
        line = self._line()
        if _ADORNMENT.fullmatch(line) and _is_title(self._line(1)) and self._line(2).rstrip() == line.rstrip():
            self._heading(self._line(1), line[0], is_over=True, size=3)
        elif (
            _is_title(line) and not line.startswith(" ") and _underlines(self._line(1), line) and not self._is_in_text()
        ):
            self._heading(line, self._line(1)[0], is_over=False, size=2)
        elif match := _DIRECTIVE.match(line):
            self._directive(match)
        elif note := _NOTE.match(line):
            self.add(_inline(note[1]))
            self._place += 1
        elif _MARKUP.match(line):
            self._place += 1
            self._block(_indent(line))
        elif not self._has_text and (field := _FIELD.fullmatch(line)):
            self._fact(field["name"].lower(), field["value"].strip())
            self._place += 1
        elif _GRID.fullmatch(line.strip()):
            self._table()
        else:
            self._place += 1
            is_literal = line.rstrip().endswith("::")
            self._has_text = self._has_text or bool(line.strip())
            # Deeper indentation is a quotation here, and code in Markdown.
            text = line[max(_indent(line) - 2, 0) :].rstrip()
            text = text[:-1] if is_literal else text
            self.add(_inline(text) if text.strip() != ":" else "")
            if is_literal:
                self.code(self._block(_indent(line)))

    def _is_in_text(self) -> bool:
        return bool(self._place and self._lines[self._place - 1].strip())

    def _heading(self, text: str, adornment: str, *, is_over: bool, size: int) -> None:
        kind = (adornment, is_over)
        if kind not in self._levels:
            self._levels.append(kind)
        self.heading(self._levels.index(kind) + 1, _inline(text.strip()))
        self._place += size

    def _directive(self, match: re.Match[str]) -> None:
        self._place += 1
        name, argument = match["name"].rpartition(":")[2], match["argument"].strip()
        block = self._block(len(match["indent"]))
        while block and _FIELD.match(block[0].lstrip()):
            del block[0]
        while block and not block[0].strip():
            del block[0]
        # In <> is a file of the processor's own: characters by name.
        if name == "include" and not argument.startswith("<"):
            self.included.append(argument)
        if name in _SILENT:
            return
        if name in _CODE or self._depth == _MAX_DEPTH:
            self.code(block, argument.split(" ")[0])
            return
        inner = _Text([argument, "", *block] if argument else block, Facts(), self._depth + 1)
        self.add("", *inner.markdown().split("\n"))
        self.included += inner.included

    def _block(self, indent: int) -> list[str]:
        """Take the lines with deeper indentation, without the indentation that they share."""
        start = self._place
        while self._place < len(self._lines) and (not self._line().strip() or _indent(self._line()) > indent):
            self._place += 1
        lines = self._lines[start : self._place]
        while lines and not lines[-1].strip():
            del lines[-1]
        while lines and not lines[0].strip():
            del lines[0]
        self.add("")
        return without_indent(lines)

    def _fact(self, name: str, value: str) -> None:
        if name in ("author", "authors"):
            self._facts.author = value
        elif name == "date":
            self._facts.published = as_time(value.strip("$"))
        elif value:
            self._facts.others[name] = value

    def _table(self) -> None:
        """Take a drawn table whose rows have one shape as rows of Markdown; other tables stay as they are."""
        start = self._place
        while self._line().strip().startswith(("+", "|")):
            self._place += 1
        drawn = [line.strip() for line in self._lines[start : self._place]]
        rows: list[list[str]] = [[]]
        for line in drawn:
            if line.startswith("+"):
                rows.append([])
                continue
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[-1] = [f"{a} {b}".strip() for a, b in zip(rows[-1], cells, strict=False)] if rows[-1] else cells
        rows = [row for row in rows if row]
        if not rows or len({len(line.split("|")) for line in drawn if line.startswith("|")}) != 1:
            self.add(*drawn)
            return
        table = table_text([[_inline(cell) for cell in row] for row in rows])
        self.add("", *table.split("\n"), "")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_title(line: str) -> bool:
    return bool(line.strip()) and not _ADORNMENT.fullmatch(line) and not _MARKUP.match(line)


def _underlines(line: str, title: str) -> bool:
    """Whether a line underlines a title; wide characters take two places."""
    return bool(_ADORNMENT.fullmatch(line)) and len(line.rstrip()) >= min(len(title.rstrip()), 4)
