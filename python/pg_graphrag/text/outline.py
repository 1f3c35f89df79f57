"""The structure of Markdown-like text: headings, code blocks, tables, pages."""

import re
from bisect import bisect_left
from dataclasses import dataclass

# Ends a page, as in plain text since line printers.
PAGE_END = "\f"
# Joins the headings of a section's path.
PATH_JOINT = " › "
MAX_HEADING = 200
# Characters of a path; the innermost headings are kept.
MAX_PATH = 200

_MARK = re.compile(
    r"^\f*+(?:(?P<fence>`{3,500}|~{3,500})(?P<info>[^`\n]{0,200})$"
    rf"|(?P<marks>\#{{1,6}})[ \t]++(?P<title>[^\s#][^\n]{{0,{MAX_HEADING - 1}}})$)",
    re.MULTILINE,
)
_CLOSING_MARKS = re.compile(r"(?<![ \t])[ \t]++#++[ \t]*\Z")
# "## Template Syntax {#template-syntax}", of Pandoc, kramdown and VitePress.
HEADING_ATTRIBUTES = re.compile(r"(?<=[^\s{])[ \t]{0,20}\{[#.][^{}\n]{1,200}\}[ \t]*$", re.MULTILINE)
# So much of the line before a heading is examined.
_BLANK_LINE = 200


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: place of its line, level from 1, text without marks."""

    start: int
    end: int
    level: int
    title: str


class Outline:
    """Headings and code blocks of a text, found on demand: each character is read once.

    A heading that repeats the document's `title` is left out of paths.
    """

    def __init__(self, text: str, title: str | None = None):
        self._text = text
        self._title = " ".join((title or "").split()).casefold()
        self._position = 0
        self._headings: list[Heading] = []
        self._heading_starts: list[int] = []
        # Blocks of code, with their fences; the last may be open yet.
        self._code: list[tuple[int, int]] = []
        self._code_starts: list[int] = []
        self._open: tuple[int, str] | None = None
        # The headings above the section asked for last, and how many headings there are up to it.
        self._path: list[Heading] = []
        self._passed = 0
        # Pages that end before a position that only grows.
        self._counted, self._page_ends = 0, 0
        self.has_pages = PAGE_END in text

    def _read(self, end: int) -> None:
        """Read to the end of the line at `end`."""
        if end < self._position:
            return
        line_end = self._text.find("\n", end)
        stop = len(self._text) if line_end < 0 else line_end
        for match in _MARK.finditer(self._text, self._position, stop):
            fence = match["fence"]
            start = match.start("fence" if fence else "marks")
            if fence:
                if self._open is None:
                    self._open = start, fence
                elif fence.startswith(self._open[1]) and not match["info"].strip():
                    self._code.append((self._open[0], match.end()))
                    self._code_starts.append(self._open[0])
                    self._open = None
            elif self._open is None and self._begins_paragraph(start):
                title = " ".join(HEADING_ATTRIBUTES.sub("", _CLOSING_MARKS.sub("", match["title"])).split())
                self._headings.append(Heading(start, match.end(), len(match["marks"]), title))
                self._heading_starts.append(start)
        self._position = stop + 1

    def _begins_paragraph(self, start: int) -> bool:
        """Whether a heading stands after an empty line, another heading or a page: a comment of a script does not, as a rule."""
        if self._headings and not self._text[self._headings[-1].end : start].strip():
            return True
        line_end = self._text.rfind("\n", 0, start)
        line_start = self._text.rfind("\n", max(0, line_end - _BLANK_LINE), max(line_end, 0)) + 1
        return line_end < 0 or not self._text[max(line_start, line_end - _BLANK_LINE) : line_end].strip()

    def code_around(self, position: int, reach: int) -> tuple[int, int] | None:
        """Return the block of code that a cut at `position` would divide; None when there is none or it is longer than
        `reach`.
        """
        self._read(position)
        while self._open is not None and self._open[0] < position and self._position <= self._open[0] + reach:
            if self._position > len(self._text):
                break
            self._read(min(self._position + reach // 4 + 1, self._open[0] + reach))
        index = bisect_left(self._code_starts, position) - 1
        if index < 0:
            return None
        start, end = self._code[index]
        return (start, end) if start < position < end and end - start <= reach else None

    def is_code(self, position: int) -> bool:
        """Whether a position is within a block of code, however long."""
        self._read(position)
        if self._open is not None and self._open[0] < position:
            return True
        index = bisect_left(self._code_starts, position) - 1
        return index >= 0 and position < self._code[index][1]

    def headings(self, start: int, end: int) -> list[Heading]:
        """Return the headings whose lines begin within ``[start, end)``."""
        self._read(end)
        return self._headings[bisect_left(self._heading_starts, start) : bisect_left(self._heading_starts, end)]

    def section(self, start: int, end: int) -> str | None:
        """Return the path of headings above all of ``[start, end)``; None if there is none.

        Headings at the beginning of the stretch are the last ones of its path.
        """
        self._read(end)
        stretch = self._text[start:end]
        first = start + len(stretch) - len(stretch.lstrip())
        if self._passed and self._headings[self._passed - 1].start > first:
            self._passed, self._path = 0, []
        while self._passed < len(self._headings):
            heading = self._headings[self._passed]
            is_first = heading.start <= first
            if not is_first and not (
                heading.start < end and self._passed and self._follows(self._headings[self._passed - 1], heading, first)
            ):
                break
            self._path = [*_below(self._path, heading.level), heading]
            self._passed += 1
        path = self._path
        for heading in self._headings[self._passed : bisect_left(self._heading_starts, end)]:
            path = _below(path, heading.level)
        return joined([heading.title for heading in path if heading.title.casefold() != self._title]) or None

    def _follows(self, above: Heading, heading: Heading, first: int) -> bool:
        """Whether a heading stands right below one that a stretch begins with, and deeper."""
        is_deeper = above.start >= first and heading.level > above.level
        return is_deeper and not self._text[above.end : heading.start].strip()

    def page_start(self, page: int | None) -> int:
        """Return the first character of a page, from 1; for a page beyond the end, that of the last page."""
        start = 0
        for _ in range((page or 1) - 1):
            if (end := self._text.find(PAGE_END, start)) < 0:
                break
            start = end + 1
        return start

    def page(self, start: int) -> int | None:
        """Return the page, from 1, on which a character is; None for a text without pages. `start` must not fall."""
        if not self.has_pages:
            return None
        if start < self._counted:
            self._counted, self._page_ends = 0, 0
        self._page_ends += self._text.count(PAGE_END, self._counted, start)
        self._counted = start
        return self._page_ends + 1


def _below(path: list[Heading], level: int) -> list[Heading]:
    """Return the headings of a path that one of a level stands under."""
    return [above for above in path if above.level < level]


def joined(titles: list[str]) -> str:
    """Return the path of headings, the outermost left out where it is too long."""
    while len(titles) > 1 and sum(len(title) + len(PATH_JOINT) for title in titles) > MAX_PATH:
        titles = titles[1:]
    return PATH_JOINT.join(titles)


def pages_text(page: int | None, content: str) -> str | None:
    """Return the pages of a chunk in words ("12", "12–13"), given the page of its first character; None without pages."""
    if page is None:
        return None
    body = content.strip()
    start = page + content[: content.find(body)].count(PAGE_END) if body else page
    end = start + body.count(PAGE_END)
    return str(start) if start == end else f"{start}–{end}"
