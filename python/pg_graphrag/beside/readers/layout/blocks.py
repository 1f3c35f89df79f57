"""The layout of a PDF page: columns in reading order, and tables."""

import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pg_graphrag.beside.readers.layout.gaps import with_cells
from pg_graphrag.beside.readers.layout.grids import Grid
from pg_graphrag.beside.readers.layout.page import Block, Line, Page, Segment, lines_of
from pg_graphrag.beside.readers.layout.ruled import with_rows
from pg_graphrag.beside.readers.layout.tables import end_of_narrow_cells, end_of_ruled, with_tables
from pg_graphrag.beside.readers.tables import is_number

# Letters that are written from right to left: Hebrew, Arabic, Syriac and their forms.
LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
# Columns of prose: lines at each side, share of a side's width that its lines fill, least width in ems.
_LEAST_LINES, _LEAST_SHARE, _FULL_WIDTH, _LEAST_EMS = 6, 0.25, 0.55, 12.0
# For columns with one of prose: lines that may cross the gap, lines at each side, and the share of the page by which
# widths may differ.
_FEW_ACROSS, _MANY_LINES, _OF_ONE_WIDTH = 0.1, 20, 0.1
# Lines that may run across a gutter: headings and pictures' captions above columns.
_ACROSS = 0.4
# For a table over both columns: maximum share of the page's width of a cell, and share of rows with cells at both sides.
_NARROW, _AT_BOTH_SIDES = 0.3, 0.8
_DEPTH = 4
# Share of lines with numbers alone that are no prose.
_OF_NUMBERS = 0.8
# Lines before and behind one that say how much room it has.
_LINES_AROUND = 2


def page_of(segments: list[Segment], grids: Sequence[Grid] = ()) -> tuple[Page, list[Grid]]:
    """Return the blocks of a page's runs of characters, which are upright; and which grids are tables."""
    from_left = grids
    if _is_leftward(segments):
        # Like a line that is read from the left: text unchanged, places mirrored.
        segments = [replace(segment, x0=-segment.x1, x1=-segment.x0) for segment in segments]
        from_left = [grid.mirrored() for grid in grids]
    segments, tables = with_rows(segments, from_left)
    return blocks(with_cells(lines_of(segments))), [grids[number] for number in tables]


def _is_leftward(segments: Sequence[Segment]) -> bool:
    letters = [character for segment in segments for character in segment.text if character.isalpha()]
    return 2 * sum(LEFTWARD.match(character) is not None for character in letters) > len(letters)


def blocks(lines: list[Line], depth: int = 0) -> Page:
    """Return the blocks of lines in reading order: columns one after the other, tables as rows."""
    gutter = _gutter(lines) if depth < _DEPTH else None
    if gutter is None:
        return with_tables(lines)
    page: Page = []
    left: list[Line] = []
    right: list[Line] = []
    lines, between = _without_captions(lines, gutter)
    index, width = 0, max(line.x1 for line in lines) - min(line.x0 for line in lines)
    while index < len(lines):
        # A table over both columns parts them as a line does that runs across.
        end = end_of_narrow_cells(lines, index, _NARROW * width)
        if not _is_at_both_sides(lines[index:end], gutter):
            end = index
        halves = _halves(lines[index], gutter) if end == index else None
        if halves is None:
            end = max(end, index + 1, end_of_ruled(lines, index))
            page += blocks(left, depth + 1) + blocks(right, depth + 1) + with_tables(lines[index:end])
            left, right = [], []
        else:
            end = index + 1
            for half, side in zip(halves, (left, right), strict=True):
                if half:
                    side.append(Line(half))
        index = end
    return _merged(page + blocks(left, depth + 1) + blocks(right, depth + 1)) + ([Block(between)] if between else [])


def _without_captions(lines: list[Line], gutter: float) -> tuple[list[Line], list[Line]]:
    """Return lines without what stands between the columns, and that: captions of a picture around which both run."""
    remaining: list[Line] = []
    between: list[Line] = []
    for index, line in enumerate(lines):
        across = [segment for segment in line.segments if segment.x0 < gutter < segment.x1]
        near = [segment for other in lines[_around(index)] for segment in other.segments]
        beside = [segment for segment in near if not segment.x0 < gutter < segment.x1]
        sides = {segment.x1 <= item.x0 for item in across for segment in beside}
        if len(sides) < 2 or any(
            segment.x0 < item.x1 and item.x0 < segment.x1 for item in across for segment in beside
        ):
            remaining.append(line)
            continue
        between.append(Line(across))
        if rest := [segment for segment in line.segments if segment not in across]:
            remaining.append(Line(rest))
    return remaining, between


def _around(index: int) -> slice:
    """Return where the lines stand around one."""
    return slice(max(0, index - _LINES_AROUND), index + _LINES_AROUND + 1)


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


def _is_at_both_sides(lines: list[Line], gutter: float) -> bool:
    """Whether lines beside each other are one thing: the rows of two separate tables stand at other heights."""
    both = [line for line in lines if (halves := _halves(line, gutter)) is None or all(halves)]
    return len(both) >= _AT_BOTH_SIDES * len(lines)


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
        sides = (_is_prose(left, x0, gutter, em), _is_prose(right, start, x1, em))
        # A column of code, formulas or tables beside one of prose has few full lines.
        is_halved = (
            any(sides)
            and across <= _FEW_ACROSS * len(lines)
            and min(len(left), len(right)) >= _MANY_LINES
            and abs((gutter - x0) - (x1 - start)) <= _OF_ONE_WIDTH * (x1 - x0)
        )
        if all(sides) or is_halved:
            score = across - 0.1 * min(len(left), len(right))
            if best is None or score < best[0]:
                best = score, gutter
    return None if best is None else best[1]


def _is_prose(sides: list[list[Segment]], x0: float, x1: float, em: float) -> bool:
    """Whether lines fill a column, as prose does and cells of a table do not."""
    width = max(segments[-1].x1 for segments in sides) - min(segments[0].x0 for segments in sides)
    if width < _LEAST_EMS * em or x1 - x0 < _LEAST_EMS * em:
        return False
    of_numbers = [2 * sum(is_number(segment.text) for segment in segments) > len(segments) for segments in sides]
    if sum(of_numbers) >= _OF_NUMBERS * len(sides):
        return False
    widths = [sum(segment.x1 - segment.x0 for segment in segments) for segments in sides]
    # Beside a picture lines are shorter, one as the other. Gaps count: rows of a table have them at one place.
    extents = [segments[-1].x1 - segments[0].x0 for segments in sides]
    room = [max(_LEAST_EMS * em, *extents[_around(index)]) for index in range(len(extents))]
    return median(width / most for width, most in zip(widths, room, strict=True)) >= _FULL_WIDTH
