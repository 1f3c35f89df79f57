"""Gaps within lines: a gap at the same place in the lines above and below separates cells; others come from
justified text.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pg_graphrag.beside.readers.layout.page import Line, Segment
from pg_graphrag.beside.readers.tables import is_number

# Lines that have a gap at one place: at least, and those that are looked at.
_LEAST_GAPS, _MOST_GAPS = 3, 40
# The least width of such a gap, in ems; points by which aligned edges of cells may differ.
_LEAST_WIDTH, _SAME_EDGE = 0.5, 2.0
# Lines whose distance is larger, in sizes of type, are not of one table.
_NEXT_LINE = 2.5


@dataclass(frozen=True, slots=True)
class _Gaps:
    """The gaps of a line, each between two segments; where they end; the line's bottom and size of type, in points."""

    between: list[tuple[Segment, Segment]]
    ends: list[float]
    y0: float
    size: float


def with_cells(lines: Sequence[Line]) -> list[Line]:
    """Return lines with segments joined if the narrow gap between them separates no cells."""
    lines = list(lines)
    gaps: list[_Gaps] = []
    if any(segment.follows for line in lines for segment in line.segments):
        for line in lines:
            between = list(pairwise(line.segments))
            gaps.append(_Gaps(between, [second.x0 for _, second in between], line.y0, line.size))
    for index, line in enumerate(lines):
        joined = [line.segments[0]]
        for first, second in pairwise(line.segments):
            if second.follows and not _is_aligned(gaps, index, first, second):
                joined[-1] = _joined(joined[-1], second)
            else:
                joined.append(second)
        if len(joined) < len(line.segments):
            lines[index] = Line(joined)
    return lines


def _is_aligned(gaps: Sequence[_Gaps], index: int, first: Segment, second: Segment) -> bool:
    """Whether lines above and below have a gap at the same place, and cells there that begin or end alike.

    Cells have different widths, or are numbers: so one of the gaps is wide, or most texts beside them are numbers.
    """
    x0, x1, em = first.x1, second.x0, second.size or 10.0
    cells, is_wide = [second], False
    for step in (-1, 1):
        place, left, right = index + step, x0, x1
        while 0 <= place < len(gaps) and len(cells) < _MOST_GAPS:
            line = gaps[place]
            if abs(line.y0 - gaps[place - step].y0) > _NEXT_LINE * max(line.size, 1.0):
                break
            for before, after in line.between[bisect_left(line.ends, left + _LEAST_WIDTH * em) :]:
                is_beside = min(right, after.x0) - max(left, before.x1) >= _LEAST_WIDTH * em
                if before.x0 >= right or (is_beside and _is_alike(after, second)):
                    break
            else:
                break
            if before.x0 >= right:
                break
            left, right = max(left, before.x1), min(right, after.x0)
            cells.append(after)
            is_wide = is_wide or not after.follows
            place += step
        x0, x1 = left, right
    return len(cells) >= _LEAST_GAPS and (is_wide or 2 * sum(is_number(cell.text) for cell in cells) > len(cells))


def _is_alike(one: Segment, other: Segment) -> bool:
    return min(abs(one.x0 - other.x0), abs(one.x1 - other.x1), abs(one.middle - other.middle)) <= _SAME_EDGE


def _joined(first: Segment, second: Segment) -> Segment:
    return Segment(
        first.x0,
        min(first.y0, second.y0),
        max(first.x1, second.x1),
        max(first.y1, second.y1),
        first.size,
        f"{first.text} {second.text}",
        second.hyphenated,
        first.is_code and second.is_code,
        first.is_bold,
        first.turns,
        second.is_formula or (first.is_formula and not second.is_code),
        first.follows,
    )
