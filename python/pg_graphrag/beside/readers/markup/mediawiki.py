"""MediaWiki pages to Markdown: headings, lists, code and tables, without templates, files and references."""

import html
import re
from collections.abc import Callable, Iterator

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.markup.lines import MarkdownLines, head_fields, replaced, take_fields
from pg_graphrag.beside.readers.source import Facts, Source
from pg_graphrag.beside.readers.tables import table_text
from pg_graphrag.ground.document import Document

_COMMENT = re.compile(r"<!--")
_REFERENCE = re.compile(r"<ref\b[^<>]{0,300}>", re.IGNORECASE)
_CODE = re.compile(r"<(?P<tag>pre|source|syntaxhighlight)\b(?P<attributes>[^<>]{0,300})>", re.IGNORECASE)
_LANGUAGE = re.compile(r"\blang=\"?([\w+#-]{1,20})")
_BRACES = re.compile(r"\{\{|\}\}")
_HEADING = re.compile(r"(?P<marks>={1,6})(?P<text>[^\n]*[^\n=])(?P=marks)[ \t]*")
_ITEM = re.compile(r"(?P<marks>[*#:;]{1,10})[ \t]*(?P<text>[^\n]*)")
# [[File:x.png|thumb|A caption]], in the languages of the largest wikis.
_FILE = re.compile(
    r"\[\[(?:File|Image|Media|Category|Datei|Bild|Kategorie|Fichier|Catégorie|Archivo|Categoría|Файл|Категория|ファイル|画像"
    r"|Category|カテゴリ|文件|分类|파일|분류|(?-i:[a-z]{2,3}(?:-[a-z]{2,8})?)):(?:[^\[\]\n]|\[\[[^\[\]\n]{1,300}\]\]){1,1000}\]\]",
    re.IGNORECASE,
)
_BREAK = re.compile(r"<br\s{0,3}/?>", re.IGNORECASE)
# Markup within a line; quantifiers are bounded, so that each is linear.
_INLINE = (
    (re.compile(r"\[\[[^\[\]\n|]{1,300}\|([^\[\]\n]{1,300})\]\]"), "\\1"),
    (re.compile(r"\[\[:?([^\[\]\n|]{1,300})\|?\]\]"), "\\1"),
    (re.compile(r"\[(?:https?|ftp|mailto)://?[^\s\[\]]{1,1000}[ \t]+([^\[\]\n]{1,500})\]"), "\\1"),
    (re.compile(r"\[((?:https?|ftp)://[^\s\[\]]{1,1000})\]"), "\\1"),
    (re.compile(r"'{2,5}"), ""),
    (re.compile(r"</?(?:code|tt|kbd|samp|var)>", re.IGNORECASE), "`"),
    (re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,15}(?:\s[^<>\n]{0,300})?/?>"), ""),
    (re.compile(r"__[A-Z]{2,20}__"), ""),
)
# What a cell says of its look, before its text.
_LOOK = re.compile(r"(?:[ \t]*[\w-]{1,30}[ \t]*=[ \t]*(?:\"[^\"\n]{0,300}\"|[^\s|\"]{1,100})){1,10}[ \t]*\|(?!\|)")


def read_mediawiki(source: Source) -> Iterator[Document]:
    """Read a page as one document, titled by fields before its text, else the file's name: its headings are those of parts."""
    facts = Facts()
    read = MarkdownLines()
    text = _without(_COMMENT, lambda _: "-->", decode(source.read(), source))
    title: str | None = None
    position = 0
    for code, end in _spans(_CODE, lambda match: f"</{match['tag']}>", text):
        before = text[position : code.start()]
        _take(before, read)
        lines = html.unescape(text[code.end() : end]).strip("\n").split("\n")
        fields, count = head_fields(lines) if not position and not before.strip() else ({}, 0)
        if fields and count == len(lines):
            title = take_fields(facts, fields)
        else:
            language = _LANGUAGE.search(code["attributes"])
            read.code(lines, language[1] if language else "")
        position = end + len(f"</{code['tag']}>")
    _take(text[position:], read)
    yield source.document(read.text(), "text/x-wiki", title, facts)


Closing = Callable[[re.Match[str]], str]


def _spans(opening: re.Pattern[str], closing: Closing, text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield each opening mark with the place of its closing one; unclosed marks are ignored."""
    # What closes nothing from here on is not looked for again.
    absent: set[str] = set()
    position = 0
    while match := opening.search(text, position):
        mark = closing(match)
        end = -1 if mark in absent else text.find(mark, match.end())
        if match[0].endswith("/>"):
            end = match.end() - len(mark)
        elif end < 0:
            absent.add(mark)
            position = match.end()
            continue
        yield match, end
        position = max(end + len(mark), match.end())


def _without(opening: re.Pattern[str], closing: Closing, text: str) -> str:
    parts: list[str] = []
    position = 0
    for match, end in _spans(opening, closing, text):
        parts.append(text[position : match.start()])
        position = end + len(closing(match))
    return "".join(parts) + text[position:]


def _take(text: str, read: MarkdownLines) -> None:
    """Read text without blocks of code."""
    text = _without_templates(_FILE.sub("", _without(_REFERENCE, lambda _: "</ref>", text)))
    lines = _BREAK.sub("\n", text).split("\n")
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.lstrip(" :").startswith("{|"):
            start = place
            while place < len(lines) and not lines[place].lstrip().startswith("|}"):
                place += 1
            _table(lines[start:place], read)
            place += 1
        elif match := _HEADING.fullmatch(line.rstrip()):
            read.heading(len(match["marks"]), _inline(match["text"].strip(" \t")))
        elif (match := _ITEM.fullmatch(line)) and match["text"].strip():
            marks = match["marks"]
            sign = {"*": "- ", "#": "1. "}.get(marks[-1], "")
            read.add(f"{'  ' * (len(marks) - 1) if sign else ''}{sign}{_inline(match['text'])}")
        elif line.startswith(" ") and line.strip():
            start = place - 1
            while place < len(lines) and lines[place].startswith(" ") and lines[place].strip():
                place += 1
            read.code(html.unescape(line) for line in lines[start:place])
        else:
            read.add(_inline(line))


def _table(lines: list[str], read: MarkdownLines) -> None:
    rows: list[list[str]] = [[]]
    caption = ""
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("|-"):
            rows.append([])
        elif stripped.startswith("|+"):
            caption = _LOOK.sub("", stripped[2:])
        elif stripped.startswith(("|", "!")):
            cells = re.split(r"\|\||!!", stripped[1:]) if stripped[0] == "!" else stripped[1:].split("||")
            rows[-1] += [_LOOK.sub("", cell, count=1).strip() for cell in cells]
        elif rows[-1]:
            rows[-1][-1] += f" {stripped}"
    table = table_text([[_inline(cell) for cell in row] for row in rows])
    read.add("", *([_inline(caption), ""] if caption.strip() else []), *table.split("\n"), "")


def _without_templates(text: str) -> str:
    """Return a text without what stands between double braces, which may stand within each other."""
    parts: list[str] = []
    depth = position = 0
    opened = 0
    for brace in _BRACES.finditer(text):
        if brace[0] == "{{":
            if not depth:
                opened = brace.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                parts.append(text[position:opened])
                position = brace.end()
    # One that is not closed stays.
    return "".join(parts) + text[position:]


def _inline(line: str) -> str:
    return html.unescape(replaced(line, _INLINE)).replace("\xa0", " ").strip()
