"""Gaps within lines: those that lines above and below have at the same place part cells, others are of justified text."""

from collections.abc import Sequence
from itertools import pairwise

from pg_graphrag.beside.readers.layout.page import Line, Segment
from pg_graphrag.beside.readers.tables import is_number

# Lines that must have a gap at one place, and that are looked at; its least width in ems; points by which edges may differ.
_LEAST, _MOST, _LEAST_GAP, _ALIKE = 3, 40, 0.5, 2.0
# Lines whose distance is larger, in heights, are not of one table.
_NEAR = 2.5


def with_cells(lines: Sequence[Line]) -> list[Line]:
    """Return lines without the narrow gaps of their segments that are none of a table."""
    lines = list(lines)
    gaps = [[(first, second) for first, second in pairwise(line.segments)] for line in lines]
    for index, line in enumerate(lines):
        joined = [line.segments[0]]
        for first, second in pairwise(line.segments):
            if second.follows and not _is_aligned(lines, gaps, index, first, second):
                joined[-1] = _joined(joined[-1], second)
            else:
                joined.append(second)
        if len(joined) < len(line.segments):
            lines[index] = Line(joined)
    return lines


def _is_aligned(
    lines: Sequence[Line], gaps: Sequence[list[tuple[Segment, Segment]]], index: int, first: Segment, second: Segment
) -> bool:
    """Whether lines above and below have a gap at the same place, and cells there that begin or end alike.

    Cells are of several widths, or numbers: one of the gaps is wide, or most of what stands beside them is a number.
    """
    x0, x1, em = first.x1, second.x0, second.size or 10.0
    cells, is_wide = [second], False
    for step in (-1, 1):
        place, left, right = index + step, x0, x1
        while 0 <= place < len(lines) and len(cells) < _MOST:
            if abs(lines[place].y0 - lines[place - step].y0) > _NEAR * max(lines[place].size, 1.0):
                break
            beside = next(
                (
                    (before, after)
                    for before, after in gaps[place]
                    if min(right, after.x0) - max(left, before.x1) >= _LEAST_GAP * em and _is_alike(after, second)
                ),
                None,
            )
            if beside is None:
                break
            before, after = beside
            left, right = max(left, before.x1), min(right, after.x0)
            cells.append(after)
            is_wide = is_wide or not after.follows
            place += step
        x0, x1 = left, right
    return len(cells) >= _LEAST and (is_wide or 2 * sum(is_number(cell.text) for cell in cells) > len(cells))


def _is_alike(one: Segment, other: Segment) -> bool:
    return min(abs(one.x0 - other.x0), abs(one.x1 - other.x1), abs(one.middle - other.middle)) <= _ALIKE


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
        first.is_formula or second.is_formula,
        first.follows,
    )
