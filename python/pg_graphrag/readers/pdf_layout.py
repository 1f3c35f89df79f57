"""The layout of a PDF page: runs of characters into lines, columns in reading order, and tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TypeAlias


@dataclass(slots=True)
class Segment:
    """A run of characters on one line without a wide gap: box in points from the bottom left of the page, size of type."""

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    text: str
    hyphenated: bool = False
    is_code: bool = False
    is_bold: bool = False
    # Quarters of a turn against the page.
    turns: int = 0


@dataclass(slots=True)
class Line:
    """Segments beside each other, left to right."""

    segments: list[Segment]

    @property
    def x0(self) -> float:
        return self.segments[0].x0

    @property
    def x1(self) -> float:
        return max(segment.x1 for segment in self.segments)

    @property
    def y0(self) -> float:
        return min(segment.y0 for segment in self.segments)

    @property
    def y1(self) -> float:
        return max(segment.y1 for segment in self.segments)

    @property
    def size(self) -> float:
        return max(self.segments, key=lambda segment: len(segment.text)).size

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)

    @property
    def hyphenated(self) -> bool:
        return self.segments[-1].hyphenated

    @property
    def is_code(self) -> bool:
        return all(segment.is_code for segment in self.segments)


@dataclass(slots=True)
class Block:
    """Lines of one column, top to bottom; or rows of a table, of which the first may have the heads."""

    lines: list[Line] = field(default_factory=list)
    rows: list[list[str]] | None = None
    has_heads: bool = False


Page: TypeAlias = list[Block]
# Columns of prose: lines at each side, share of a side's width that its lines fill, least width in ems.
_LEAST_LINES, _LEAST_SHARE, _FILLED, _LEAST_EMS = 6, 0.25, 0.55, 12.0
# Lines that may run across a gutter: headings and pictures' captions above columns.
_ACROSS = 0.4
_LEAST_ROWS = 3
_DEPTH = 4


def lines_of(segments: Sequence[Segment]) -> list[Line]:
    """Return segments as lines, top to bottom."""
    lines: list[Line] = []
    for segment in sorted(segments, key=lambda segment: (-segment.y1, segment.x0)):
        height = max(segment.y1 - segment.y0, 1.0)
        for line in lines[-6:][::-1]:
            overlap = min(line.y1, segment.y1) - max(line.y0, segment.y0)
            if overlap > 0.5 * min(height, max(line.y1 - line.y0, 1.0)) and not any(
                segment.x0 < other.x1 - 1 and other.x0 < segment.x1 - 1 for other in line.segments
            ):
                line.segments.append(segment)
                break
        else:
            lines.append(Line([segment]))
    for line in lines:
        line.segments.sort(key=lambda segment: segment.x0)
    return lines


def blocks(lines: list[Line], depth: int = 0) -> Page:
    """Return the blocks of lines in reading order: columns one after the other, tables as rows."""
    gutter = _gutter(lines) if depth < _DEPTH else None
    if gutter is None:
        return _with_tables(lines)
    page: Page = []
    left: list[Line] = []
    right: list[Line] = []
    for line in lines:
        halves = _halves(line, gutter)
        if halves is None:
            page += blocks(left, depth + 1) + blocks(right, depth + 1) + _with_tables([line])
            left, right = [], []
        else:
            for half, side in zip(halves, (left, right), strict=True):
                if half:
                    side.append(Line(half))
    return _merged(page + blocks(left, depth + 1) + blocks(right, depth + 1))


def _merged(page: Page) -> Page:
    """Join lines across columns that follow each other without a table between them."""
    merged: Page = []
    for block in page:
        if merged and block.rows is None and merged[-1].rows is None and len(merged[-1].lines) == len(block.lines) == 1:
            merged[-1].lines += block.lines
        elif block.lines or block.rows:
            merged.append(block)
    return merged


def _halves(line: Line, gutter: float) -> tuple[list[Segment], list[Segment]] | None:
    """Return the segments left and right of a gutter; None when one runs across."""
    left = [segment for segment in line.segments if segment.x1 <= gutter]
    right = [segment for segment in line.segments if segment.x0 >= gutter]
    return (left, right) if len(left) + len(right) == len(line.segments) else None


def _gutter(lines: list[Line]) -> float | None:
    """Return the middle of the white space between two columns of prose; None where there is one column or a table."""
    if len(lines) < _LEAST_LINES:
        return None
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    segments = [segment for line in lines for segment in line.segments]
    em = median(segment.size or (segment.y1 - segment.y0) for segment in segments) or 10.0
    if x1 - x0 < 2 * _LEAST_EMS * em:
        return None
    # Beginnings of segments right of others are where a column can begin.
    starts = sorted({round(segment.x0, 0) for segment in segments if segment.x0 > x0 + _LEAST_EMS * em})
    best: tuple[float, float] | None = None
    for start in starts:
        gutter = start - 1.0
        parts = [_halves(line, gutter) for line in lines]
        across = sum(part is None for part in parts)
        left = [half for part in parts if part for half in [part[0]] if half]
        right = [half for part in parts if part for half in [part[1]] if half]
        if across > _ACROSS * len(lines) or min(len(left), len(right)) < max(_LEAST_LINES, _LEAST_SHARE * len(lines)):
            continue
        if _is_prose(left, x0, gutter, em) and _is_prose(right, start, x1, em):
            score = across - 0.1 * min(len(left), len(right))
            if best is None or score < best[0]:
                best = score, gutter
    return None if best is None else best[1]


def _is_prose(sides: list[list[Segment]], x0: float, x1: float, em: float) -> bool:
    """Whether lines fill a column, as prose does and cells of a table do not."""
    width = max(segments[-1].x1 for segments in sides) - min(segments[0].x0 for segments in sides)
    if width < _LEAST_EMS * em or x1 - x0 < _LEAST_EMS * em:
        return False
    filled = [sum(segment.x1 - segment.x0 for segment in segments) / width for segments in sides]
    return median(filled) >= _FILLED


def _with_tables(lines: list[Line]) -> Page:
    """Return lines as blocks, runs of rows with aligned cells as tables."""
    page: Page = []
    plain: list[Line] = []
    index = 0
    while index < len(lines):
        end = _table_end(lines, index)
        rows = _table_rows(lines[index:end]) if end - index >= _LEAST_ROWS else None
        if rows is None:
            plain.append(lines[index])
            index += 1
            continue
        if plain:
            page.append(Block(plain))
            plain = []
        page.append(Block(lines[index:end], rows, _has_heads(lines[index:end], rows)))
        index = end
    if plain:
        page.append(Block(plain))
    return page


def _has_heads(lines: Sequence[Line], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has heads: it alone is bold, or has words above columns of numbers."""

    def is_bold(line: Line) -> bool:
        return all(segment.is_bold for segment in line.segments)

    if is_bold(lines[0]):
        return not all(map(is_bold, lines[1:]))
    body = [cell for row in rows[1:] for cell in row if cell]
    return not any(map(_is_number, rows[0])) and 3 * sum(map(_is_number, body)) > len(body)


def _is_number(cell: str) -> bool:
    return sum(map(str.isdigit, cell)) * 2 > len(cell)


def _table_end(lines: list[Line], start: int) -> int:
    """Return where a run of lines ends that can be rows: two cells or more, or the rest of a cell."""
    if len(lines[start].segments) < 2:
        return start
    end = last = start
    while end < len(lines):
        line = lines[end]
        if end > start:
            gap = lines[end - 1].y0 - line.y1
            if gap > 2.0 * max(line.size, line.y1 - line.y0) or abs(line.size - lines[start].size) > 2:
                break
        if len(line.segments) > 1:
            last = end + 1
        elif end - last >= 2:
            break
        end += 1
    return last


def _table_rows(lines: list[Line]) -> list[list[str]] | None:
    """Return the cells of lines that stand in columns; None when they do not."""
    spans: list[list[float]] = []
    for line in lines:
        if len(line.segments) < 2:
            continue
        for segment in line.segments:
            touching = [span for span in spans if segment.x0 < span[1] and span[0] < segment.x1]
            if len(touching) > 1:
                return None
            if touching:
                touching[0][0], touching[0][1] = min(touching[0][0], segment.x0), max(touching[0][1], segment.x1)
            else:
                spans.append([segment.x0, segment.x1])
    spans.sort()
    if len(spans) < 2 or any(first[1] > second[0] for first, second in pairwise(spans)):
        return None
    full = sum(len(line.segments) > 1 for line in lines)
    if full < _LEAST_ROWS or sum(len(line.segments) for line in lines) < 0.5 * full * len(spans):
        return None
    rows: list[list[str]] = []
    for line in lines:
        cells = [""] * len(spans)
        for segment in line.segments:
            places = [place for place, span in enumerate(spans) if segment.x0 < span[1] and span[0] < segment.x1]
            if len(places) != 1:
                return None
            cells[places[0]] = f"{cells[places[0]]} {segment.text}".strip()
        if rows and sum(map(bool, cells)) == 1 and not cells[0]:
            # The rest of a cell that goes over several lines.
            rows[-1] = [f"{above} {below}".strip() for above, below in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    return rows if len(rows) >= _LEAST_ROWS else None
