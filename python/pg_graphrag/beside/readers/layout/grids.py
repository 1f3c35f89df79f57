"""Grids of crossing lines on a page: their columns, rows and cells."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TypeAlias

from pg_graphrag.beside.readers.layout.page import Segment

# A line that is drawn, as a thin box: left, right, bottom and top, in points from the bottom left of the page.
Box: TypeAlias = tuple[float, float, float, float]
# A stretch of a line: where the line is, and from where to where it is drawn.
_Stretch: TypeAlias = tuple[float, float, float]
# Points: how far lines that touch may be apart; pieces of one line, beside each other; and edges that are one.
_TOUCHING, _ONE_LINE, _ONE_EDGE = 3.0, 1.5, 3.0
# Lines of a page, with their pieces joined, beyond which it is a drawing; cells of a table, at most.
_MAX_JOINED, _MAX_CELLS = 4_000, 5_000
# Columns, and rows, of a table, at least.
LEAST_BOTH_WAYS = 2


@dataclass(frozen=True, slots=True)
class Grid:
    """Lines that cross: edges of columns from the left, and of rows from the top; and from where to where lines are drawn."""

    xs: list[float]
    ys: list[float]
    across: list[_Stretch]
    upright: list[_Stretch]

    def parts(self, x0: float, x1: float, y: float) -> bool:
        """Whether a drawn line separates two characters: the first ends at `x0`, the second begins at `x1`."""
        return self.ys[-1] < y < self.ys[0] and any(
            x0 <= x <= x1 and below <= y <= above for x, below, above in self.upright
        )

    def mirrored(self) -> "Grid":
        """Return it with left and right exchanged."""
        return Grid(
            [-x for x in reversed(self.xs)],
            self.ys,
            [(y, -x1, -x0) for y, x0, x1 in self.across],
            [(-x, y0, y1) for x, y0, y1 in self.upright],
        )

    def column(self, segment: Segment) -> int | None:
        """Return the column of a segment's middle; None outside."""
        column = bisect_right(self.xs, segment.middle) - 1
        return column if 0 <= column < len(self.xs) - 1 else None

    def place(self, segment: Segment) -> tuple[int, int] | None:
        """Return row and column of a segment's middle; None outside."""
        column = self.column(segment)
        row = bisect_right([-y for y in self.ys], -(segment.y0 + segment.y1) / 2) - 1
        return (row, column) if column is not None and 0 <= row < len(self.ys) - 1 else None

    def by_row(self, segments: Iterable[Segment]) -> list[list[Segment]]:
        """Return the segments of each row."""
        rows: list[list[Segment]] = [[] for _ in self.ys[1:]]
        for segment in segments:
            if place := self.place(segment):
                rows[place[0]].append(segment)
        return rows

    def cells(self) -> list[list[int]]:
        """Return for each row the number of the cell in each column; places that no line parts are one cell."""
        width = len(self.xs) - 1
        groups = _Groups(width * (len(self.ys) - 1))
        upright, across = _drawn_at(self.upright, self.xs), _drawn_at(self.across, self.ys)
        for row, (top, bottom) in enumerate(pairwise(self.ys)):
            for column, (left, right) in enumerate(pairwise(self.xs)):
                number, (x, y) = row * width + column, ((left + right) / 2, (top + bottom) / 2)
                if column + 1 < width and not any(start <= y <= end for start, end in upright[column + 1]):
                    groups.join(number, number + 1)
                if row + 2 < len(self.ys) and not any(start <= x <= end for start, end in across[row + 1]):
                    groups.join(number, number + width)
        return [[groups.root(row * width + column) for column in range(width)] for row in range(len(self.ys) - 1)]


def grids_of(lines: Sequence[Box]) -> list[Grid]:
    """Return where lines cross so that there are columns and rows; none of a page that is drawn all over."""
    across = _joined(((y0 + y1) / 2, x0, x1) for x0, x1, y0, y1 in lines if x1 - x0 > y1 - y0)
    upright = _joined(((x0 + x1) / 2, y0, y1) for x0, x1, y0, y1 in lines if x1 - x0 <= y1 - y0)
    if len(across) + len(upright) > _MAX_JOINED:
        return []
    grids = []
    for flat, tall in _crossing(across, upright):
        xs = _edges([x for x, _, _ in tall], [x for _, *ends in flat for x in ends])
        ys = _edges([y for y, _, _ in flat], [y for _, *ends in tall for y in ends])[::-1]
        if min(len(xs), len(ys)) > LEAST_BOTH_WAYS and len(xs) * len(ys) <= _MAX_CELLS:
            grids.append(Grid(xs, ys, flat, tall))
    return grids


def _joined(stretches: Iterable[_Stretch]) -> list[_Stretch]:
    """Return stretches of one line that touch as one."""
    joined: list[_Stretch] = []
    for level in _levels(sorted(stretches)):
        position = median(place for place, _, _ in level)
        level.sort(key=lambda stretch: stretch[1])
        _, start, end = level[0]
        for _, first, last in level:
            if first > end + _TOUCHING:
                joined.append((position, start, end))
                start, end = first, last
            else:
                start, end = min(start, first), max(end, last)
        joined.append((position, start, end))
    return joined


def _levels(stretches: Sequence[_Stretch]) -> Iterator[list[_Stretch]]:
    """Yield the stretches of each line, of all in the order of their lines."""
    level: list[_Stretch] = []
    for stretch in stretches:
        if level and stretch[0] - level[0][0] > _ONE_LINE:
            yield level
            level = []
        level.append(stretch)
    if level:
        yield level


def _crossing(
    across: Sequence[_Stretch], upright: Sequence[_Stretch]
) -> Iterator[tuple[list[_Stretch], list[_Stretch]]]:
    """Yield the lines of each table: those that touch each other."""
    groups = _Groups(len(across) + len(upright))
    places = [x for x, _, _ in upright]
    for index, (y, x0, x1) in enumerate(across):
        for other in range(bisect_left(places, x0 - _TOUCHING), bisect_right(places, x1 + _TOUCHING)):
            _, y0, y1 = upright[other]
            if y0 - _TOUCHING <= y <= y1 + _TOUCHING:
                groups.join(index, len(across) + other)
    tables: dict[int, tuple[list[_Stretch], list[_Stretch]]] = {}
    for number, stretch in enumerate([*across, *upright]):
        tables.setdefault(groups.root(number), ([], []))[number >= len(across)].append(stretch)
    yield from sorted(
        ((flat, tall) for flat, tall in tables.values() if flat and tall),
        key=lambda lines: -max(y for y, _, _ in lines[0]),
    )


def _edges(places: Iterable[float], ends: Iterable[float]) -> list[float]:
    """Return where columns or rows begin and end: at lines, and where those that cross them end beyond."""
    edges: list[float] = []
    ends = list(ends)
    for place in sorted([*places, min(ends), max(ends)]):
        if not edges or place - edges[-1] > _ONE_EDGE:
            edges.append(place)
    return edges


def _drawn_at(stretches: Sequence[_Stretch], edges: Sequence[float]) -> list[list[tuple[float, float]]]:
    """Return from where to where a line is drawn at each edge."""
    return [[(start, end) for place, start, end in stretches if abs(place - edge) <= _ONE_EDGE] for edge in edges]


class _Groups:
    """Numbers from 0 that are joined step by step to groups."""

    def __init__(self, count: int):
        self._above = list(range(count))

    def root(self, number: int) -> int:
        """Return the representative of a number's group."""
        while self._above[number] != number:
            self._above[number] = self._above[self._above[number]]
            number = self._above[number]
        return number

    def join(self, first: int, second: int) -> None:
        """Join the groups of two numbers; the first one's representative stands for both."""
        self._above[self.root(second)] = self.root(first)
