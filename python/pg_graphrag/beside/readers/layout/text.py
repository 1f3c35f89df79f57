"""Turns the blocks of pages into text: removes running heads and page numbers, joins lines and hyphenated words,
marks headings.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from pg_graphrag.beside.readers.layout.page import DOTS, LEADERS, TERMINAL, Block, Line, Page
from pg_graphrag.beside.readers.layout.tables import with_tables
from pg_graphrag.beside.readers.markdown import fenced
from pg_graphrag.beside.readers.tables import table_text


class Entry(NamedTuple):
    """A heading of an outline; `level` from 1."""

    level: int
    title: str


# Pages to each side on which a running head must come again: one of a chapter does so within a few pages.
_NEAR = 4
_NUMBER = re.compile(
    r"(?:page |p\. ?|seite |- ?|– ?|第)?\d{1,5}(?: ?-| ?–| ?(?:/|of|von) ?\d{1,5}|页|頁|ページ)?|[ivxlc]{1,8}",
    re.IGNORECASE,
)
_OUTER_NUMBERS = re.compile(r"\A\d{1,4}(?= +\D)|(?<=\D )\d{1,4}\Z")
# Lines of a page with little text, fewer than these.
_FEW = 3
# Pages that must have such a line, at least.
_MIN_NUMBERED = 3
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_BULLET = re.compile(rf"(?:[{DOTS}–—*-]|\(?\d{{1,3}}[.)]|\(?[a-z][.)]|\[\d{{1,3}}\])[ ]")
_DOT = re.compile(rf"[{DOTS}][ ]*")
_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "ft", "ﬆ": "st"})
_MAX_HEADING = 150
# A heading is larger than the text by this factor.
_LARGER = 1.12
# Lines of one size, within rounding.
_ABOUT = 1.02
_LETTERS_OF_A_TITLE = 3
_FOOTNOTE_MARKS = " ∗*†‡"
# What a book that begins with its contents has in large type.
_CONTENTS = frozenset(
    "contents|table of contents|inhalt|inhaltsverzeichnis|sommaire|table des matières|índice|indice|sumário|inhoud|spis treści"
    "|содержание|оглавление|目次|目录|目錄".split("|")
)


@dataclass(slots=True)
class _Paragraph:
    text: str
    level: int = 0
    # Whether the next page may go on with it.
    is_open: bool = False
    hyphenated: bool = False


def text_of(pages: Sequence[Page], outline: Mapping[int, Sequence[Entry]]) -> str:
    """Return the text of pages, each ended by a form feed; a sentence that goes on over the page is one."""
    body = _body_size(pages)
    pages = _with_heads(_without_furniture(pages, body))
    words = _words(pages)
    sizes = {} if any(outline.values()) else _heading_sizes(pages, body)
    texts: list[str] = []
    carried: _Paragraph | None = None
    for number, page in enumerate(pages):
        paragraphs = _paragraphs(page, body, sizes, outline.get(number, ()), words)
        if not paragraphs:
            texts.append("\f")
            continue
        start = ""
        if texts and carried is not None and not paragraphs[0].level and _goes_on(carried, paragraphs[0]):
            joint = "" if carried.hyphenated or _WIDE.match(carried.text[-1:]) else " "
            if carried.hyphenated:
                # The word is one, and of the page that it begins on.
                word, _, rest = paragraphs[0].text.partition(" ")
                last = texts.pop().rstrip("\f\n")
                texts.append(f"{_undone(last, word, words)} \f" if rest else f"{_undone(last, word, words)}\n\n\f")
                paragraphs[0] = replace(paragraphs[0], text=rest)
            else:
                # Empty pages between have their form feeds already.
                last = texts.pop()
                texts.append(last.rstrip("\f\n") + (joint or "") + "\f" * last.count("\f"))
        texts.append(start + "\n\n".join(_marked(paragraph) for paragraph in paragraphs if paragraph.text) + "\n\n\f")
        carried = paragraphs[-1]
    return "".join(texts)


def title_of(pages: Sequence[Page]) -> str | None:
    """Return what the first page with text has in its largest type, where that is larger than the text."""
    body = _body_size(pages)
    lines = next(([line for block in page for line in block.lines] for page in pages if page), [])
    largest = max((line.size for line in lines), default=0.0)
    if largest < body * _LARGER:
        return None
    text = _flowed([line for line in lines if line.size > largest / _ABOUT], Counter()).rstrip(_FOOTNOTE_MARKS)
    is_title = sum(map(str.isalpha, text)) > _LETTERS_OF_A_TITLE and len(text) <= _MAX_HEADING
    return text if is_title and text.lower() not in _CONTENTS else None


def _marked(paragraph: _Paragraph) -> str:
    return f"{'#' * paragraph.level} {paragraph.text}" if paragraph.level else paragraph.text


def _goes_on(last: _Paragraph, first: _Paragraph) -> bool:
    return (
        last.is_open
        and bool(first.text)
        and not _BULLET.match(first.text)
        and not first.text.startswith("|")
        and (last.hyphenated or first.text[0].islower() or bool(_WIDE.match(first.text[0])))
    )


def _without_furniture(pages: Sequence[Page], body: float) -> list[Page]:
    """Remove running heads and feet (outermost lines that recur nearby except for their numbers) and page numbers."""
    edges = [_edges(page) for page in pages]
    shapes = [{(place, _shape(line, body), _height(line)) for place, line in edge} for edge in edges]
    # On a page with little text, the outermost lines may be all of it: they are furniture if they are so elsewhere.
    full = [sum(len(block.lines) for block in page) >= _FEW for page in pages]
    on_full_pages = {item[:2] for shape, is_full in zip(shapes, full, strict=True) if is_full for item in shape}
    shapes = [
        shape if is_full else {item for item in shape if item[:2] in on_full_pages}
        for shape, is_full in zip(shapes, full, strict=True)
    ]
    numbers = [any(_NUMBER.fullmatch(line.text.strip()) for _, line in edge) for edge in edges]
    # A page number alone is one where other pages have theirs.
    numbered = sum(numbers) >= max(2, len(pages) // 4)
    numbered_heads = _numbered_heads(edges, body)
    cleaned: list[Page] = []
    for index, page in enumerate(pages):
        near = [
            shapes[other]
            for other in range(max(0, index - _NEAR), min(len(pages), index + _NEAR + 1))
            if other != index
        ]
        dropped = set()
        for place, line in edges[index]:
            text = line.text.strip()
            times = sum(_recurs(place, line, body, shape) for shape in near) if len(text) <= _MAX_HEADING else 0
            is_number = numbered and _NUMBER.fullmatch(text)
            is_known = full[index] or (place, _shape(line, body)) in on_full_pages
            if is_number or id(line) in numbered_heads or (is_known and times >= max(1, min(2, len(pages) - 1))):
                dropped.add(id(line))
        if not dropped:
            cleaned.append(page)
            continue
        kept = []
        for block in page:
            lines = [line for line in block.lines if id(line) not in dropped]
            is_headed = block.has_heads or block.lines[0].segments[0].row
            if block.rows and lines and is_headed and any(rest.rows for rest in with_tables(lines)):
                # Rows repeated on the next page are the table's heads; a running head can turn text into a table.
                lines = [line for line in block.lines if id(line) not in dropped or line is block.lines[0]]
            if len(lines) == len(block.lines):
                kept.append(block)
            elif lines:
                kept += [Block(lines)] if block.rows is None else with_tables(lines)
        cleaned.append(kept)
    return cleaned


def _with_heads(pages: Sequence[Page]) -> list[Page]:
    """Give a table that goes on over the page or the column the heads that it has before, and a row that does its first cell."""
    done: list[Page] = []
    before: Block | None = None
    for page in pages:
        blocks: Page = []
        for block in page:
            if before and before.rows and block.rows and (not blocks or block.lines[0].y1 > before.lines[-1].y1):
                block = _going_on(before, block, before.rows, block.rows)
            blocks.append(block)
            before = block
        done.append(blocks)
        before = before if blocks else None
    return done


def _going_on(before: Block, block: Block, above: list[list[str]], rows: list[list[str]]) -> Block:
    """Return a table that may go on with one before: with its heads, and in a row that goes on with the first cell of that."""
    if len(rows[0]) != len(above[0]) or (block.has_heads and rows[0] != above[0]):
        return block
    heads, rest = (rows[:1], rows[1:]) if rows[0] == above[0] else (above[:1] if before.has_heads else [], rows)
    if rest and not rest[0][0] and any(cell[:1].islower() for cell in rest[0]):
        # A sentence of the row above.
        rest = [[above[-1][0], *rest[0][1:]], *rest[1:]]
    return Block(block.lines, [*heads, *rest], block.has_heads or before.has_heads)


def _numbered_heads(edges: Sequence[list[tuple[str, Line]]], body: float) -> set[int]:
    """Return the ids of outermost lines that begin or end with the page's number: "3.4 Spaces 43", where heads name sections.

    Type that is larger than the text is a heading's: "Part 1" on the first page.
    """
    lines: defaultdict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for index, edge in enumerate(edges):
        for place, line in edge:
            if len(line.text) <= _MAX_HEADING and line.size < body * _LARGER:
                for number in _OUTER_NUMBERS.findall(line.text.strip()):
                    lines[place, int(number) - index].setdefault(index, id(line))
    least = max(_MIN_NUMBERED, len(edges) // 4)
    return {line for by_page in lines.values() if len(by_page) >= least for line in by_page.values()}


def _edges(page: Page) -> list[tuple[str, Line]]:
    """Return the two highest and the two lowest lines of a page, each with its place."""
    lines = sorted((line for block in page for line in block.lines), key=lambda line: -line.y1)
    if len(lines) < _FEW:
        return [(place, line) for line in lines for place in ("head", "foot")]
    return [("head", line) for line in lines[:2]] + [("foot", line) for line in lines[-2:]]


def _shape(line: Line, body: float) -> str:
    """Return a line without its numbers; but "Part 1" and "Part 2" in larger type are headings."""
    is_heading = line.size >= body * _LARGER
    return " ".join((line.text if is_heading else _DIGITS.sub("#", line.text)).split())


def _height(line: Line) -> int:
    return round(line.y0)


def _recurs(place: str, line: Line, body: float, shapes: set[tuple[str, str, int]]) -> bool:
    shape, height = _shape(line, body), _height(line)
    return len(shape) > 1 and any((place, shape, height + step) in shapes for step in (0, -1, 1, -2, 2))


def _words(pages: Sequence[Page]) -> Counter[str]:
    """Return the words within lines, which say whether a hyphen at the end of a line belongs to a word."""
    counts: Counter[str] = Counter()
    for page in pages:
        for block in page:
            for line in block.lines:
                counts.update(word.strip(".,;:()[]\"'“”").lower() for word in line.text.split()[:-1])
    return counts


def _body_size(pages: Sequence[Page]) -> float:
    sizes: Counter[float] = Counter()
    for page in pages:
        for block in page:
            for line in block.lines:
                sizes[round(line.size, 1)] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _heading_sizes(pages: Sequence[Page], body: float) -> dict[float, int]:
    """Return {size: level from 1} of type that is larger than the text; at most four levels."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for block in page:
            if block.rows is None:
                for line in block.lines:
                    if (
                        line.size >= body * _LARGER
                        and any(map(str.isalpha, line.text))
                        and len(line.text) <= _MAX_HEADING
                    ):
                        sizes[round(line.size, 1)] += 1
    levels: dict[float, int] = {}
    level, last = 0, 0.0
    for size in sorted(sizes, reverse=True):
        if not last or size < last * 0.95:
            level, last = min(level + 1, 4), size
        levels[size] = level
    return levels


def _paragraphs(
    page: Page, body: float, sizes: Mapping[float, int], entries: Sequence[Entry], words: Counter[str]
) -> list[_Paragraph]:
    left = list(entries)
    paragraphs: list[_Paragraph] = []
    for block in page:
        if block.rows is not None:
            if text := table_text(
                [[cell.translate(_LIGATURES) for cell in row] for row in block.rows], block.has_heads
            ):
                paragraphs.append(_Paragraph(text))
            continue
        for lines in _groups(block.lines):
            if _is_code(lines):
                paragraphs.append(_Paragraph(fenced(_code(lines))))
                continue
            text = _flowed(lines, words)
            level = _level(text, lines, body, sizes, left)
            # A line of a column's width, without a mark at its end: the sentence is not over.
            hyphenated = lines[-1].hyphenated or (text[-1:] == "-" and text[-2:-1].isalpha())
            is_open = not text.endswith(TERMINAL) or hyphenated
            if text:
                paragraphs.append(_Paragraph(text, level, is_open and not level, hyphenated))
    return paragraphs


def _level(text: str, lines: list[Line], body: float, sizes: Mapping[float, int], entries: list[Entry]) -> int:
    """Return the level of a heading, 0 for other text."""
    if len(text) > _MAX_HEADING or len(lines) > 3 or "\n" in text:
        return 0
    for entry in entries:
        if _same_heading(text, entry.title):
            entries.remove(entry)
            return min(entry.level, 6)
    if lines[0].size < body * _LARGER or not any(map(str.isalpha, text)):
        return 0
    return sizes.get(round(lines[0].size, 1), 0)


def _same_heading(text: str, title: str) -> bool:
    """Whether a line is a heading of the outline, which may lack its number."""
    line, heading = (re.sub(r"[\W_]+", "", item).lower() for item in (text, title))
    return bool(heading) and (line == heading or (line.endswith(heading) and len(line) - len(heading) <= 12))


def _groups(lines: list[Line]) -> list[list[Line]]:
    """Return the lines of each paragraph: larger gaps, indents, short last lines, bullets and other sizes part them."""
    if not lines:
        return []
    gaps = sorted(first.y0 - second.y0 for first, second in pairwise(lines) if first.y0 > second.y0)
    pitch = gaps[len(gaps) // 3] if gaps else 0.0
    right = max(line.x1 for line in lines)
    groups = [[lines[0]]]
    for previous, line in pairwise(lines):
        if previous.is_code or line.is_code:
            if (
                previous.is_code
                and line.is_code
                and 0 < previous.y0 - line.y0 <= 2.5 * max(pitch, 0.9 * (line.size or 10.0))
            ):
                groups[-1].append(line)
            else:
                groups.append([line])
            continue
        em = line.size or 10.0
        step = previous.y0 - line.y0
        is_indented = line.x0 > previous.x0 + 0.9 * em
        begins = (
            step > 1.35 * max(pitch, 0.9 * em)
            or step < 0
            or abs(line.size - previous.size) > 0.1 * max(line.size, previous.size)
            or _BULLET.match(line.text) is not None
            or (is_indented and not _BULLET.match(groups[-1][0].text) and len(groups[-1]) > 1)
            or (previous.x1 < right - 6 * em and previous.text.endswith(TERMINAL) and not line.text[:1].islower())
            or (
                not previous.hyphenated
                and previous.x1 + (line.first_word_width if line.text[:1].islower() else 0)
                < right - 0.4 * (right - line.x0)
            )
        )
        if begins:
            groups.append([line])
        else:
            groups[-1].append(line)
    return groups


def _flowed(lines: list[Line], words: Counter[str]) -> str:
    """Return lines as one, without the hyphens at their ends."""
    text, hyphenated, is_parted = "", False, False
    for line in lines:
        piece = LEADERS.sub(" … ", line.text).translate(_LIGATURES).strip()
        if not piece:
            continue
        if not text:
            text = piece
        elif LEADERS.search(line.text) or (is_parted and len(line.segments) > 1):
            text += f"\n{piece}"
        elif hyphenated or (text.endswith("-") and len(text) > 1 and text[-2].isalpha() and piece[0].islower()):
            text = _undone(text, piece, words)
        elif _WIDE.match(text[-1]) and _WIDE.match(piece[0]):
            text += piece
        else:
            text += f" {piece}"
        hyphenated, is_parted = line.hyphenated, len(line.segments) > 1 or LEADERS.search(line.text) is not None
    return _DOT.sub("- ", text, count=1) if _DOT.match(text) else text


def _is_code(lines: list[Line]) -> bool:
    """Whether lines are code: more than a word of a code font within text."""
    return all(line.is_code for line in lines) and (len(lines) > 1 or len(lines[0].text.split()) > 1)


def _code(lines: list[Line]) -> str:
    """Return lines of code with their indents, by the width of their characters."""
    left = min(line.x0 for line in lines)
    longest = max(lines, key=lambda line: len(line.text))
    width = (longest.x1 - longest.x0) / max(len(longest.text), 1) or 1.0
    return "\n".join(" " * min(round((line.x0 - left) / width), 40) + line.text.translate(_LIGATURES) for line in lines)


def _undone(text: str, following: str, words: Counter[str]) -> str:
    """Join a word that a hyphen at the end of a line parts; the hyphen stays where the document has the word with it."""
    text = text.removesuffix("-")
    head = re.split(r"[\s(\[\"'“]", text)[-1].lower()
    tail = re.split(r"[\s.,;:)\]\"'”!?]", following)[0].lower()
    is_word = head[-1:].isalpha() and (following[:1].islower() or text[-1:].isupper())
    is_compound = words[f"{head}-{tail}"] > words[head + tail] or not is_word
    return f"{text}-{following}" if is_compound else text + following
