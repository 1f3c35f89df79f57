"""Tables that are ruled: what stands between the lines that are drawn on a page is a cell."""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TypeAlias

from pg_graphrag.beside.readers.layout.page import Row, Segment, goes_on, lines_of
from pg_graphrag.beside.readers.tables import is_of_numbers, joined_heads

# A stretch of a line: where it runs, from, to.
_Stretch: TypeAlias = tuple[float, float, float]
# Points that lines which meet may lie apart; lines of a page beyond which they are a drawing; columns and rows of a table.
_APART, _MAX_RULES, _MAX_CELLS = 3.0, 4_000, 5_000
# Of a table: columns and rows with text, share of cells with text. Letters: of boxes of prose; of a label of several rows.
_LEAST, _FILLED, _PROSE, _LABEL = 2, 0.2, 300, 80
# Share of a table's area that may be in cells that are no rectangles.
_CROOKED = 0.5
# Rows between the lines of a table that has lines only about its heads, lines of text that are then rows.
_FEW_BANDS, _LEAST_ROWS, _MOSTLY = 3, 3, 0.7


@dataclass(frozen=True, slots=True)
class Rule:
    """A line that is drawn, as a thin box in points from the bottom left of the page."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Grid:
    """Lines that cross: where columns begin and end, from the left; rows, from the top; and what lines there are between."""

    xs: list[float]
    ys: list[float]
    across: list[_Stretch]
    upright: list[_Stretch]

    def parts(self, x0: float, x1: float, y: float) -> bool:
        """Whether a line stands between two characters, of which the first ends at `x0` and the second begins at `x1`."""
        return self.ys[-1] < y < self.ys[0] and any(
            x0 <= x <= x1 and below <= y <= above for x, below, above in self.upright
        )

    def mirrored(self) -> "Grid":
        """Return it as on a page that is read from the right."""
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
        """Return for each row the number of the cell in each column: those that no line parts are one."""
        width = len(self.xs) - 1
        numbers = list(range(width * (len(self.ys) - 1)))

        def root(number: int) -> int:
            while numbers[number] != number:
                number = numbers[number]
            return number

        upright, across = _at(self.upright, self.xs), _at(self.across, self.ys)
        for row, (top, bottom) in enumerate(pairwise(self.ys)):
            for column, (left, right) in enumerate(pairwise(self.xs)):
                number, (x, y) = row * width + column, ((left + right) / 2, (top + bottom) / 2)
                if column + 1 < width and not any(start <= y <= end for start, end in upright[column + 1]):
                    numbers[root(number + 1)] = root(number)
                if row + 2 < len(self.ys) and not any(start <= x <= end for start, end in across[row + 1]):
                    numbers[root(number + width)] = root(number)
        return [[root(row * width + column) for column in range(width)] for row in range(len(self.ys) - 1)]


def grids_of(rules: Sequence[Rule]) -> list[Grid]:
    """Return where lines cross so that there are columns and rows; none of a page that is drawn all over."""
    across = _joined(
        ((rule.y0 + rule.y1) / 2, rule.x0, rule.x1) for rule in rules if rule.x1 - rule.x0 > rule.y1 - rule.y0
    )
    upright = _joined(
        ((rule.x0 + rule.x1) / 2, rule.y0, rule.y1) for rule in rules if rule.x1 - rule.x0 <= rule.y1 - rule.y0
    )
    if len(across) + len(upright) > _MAX_RULES:
        return []
    grids = []
    for flat, tall in _crossing(across, upright):
        xs = _edges([x for x, _, _ in tall], [x for _, *ends in flat for x in ends])
        ys = _edges([y for y, _, _ in flat], [y for _, *ends in tall for y in ends])[::-1]
        if min(len(xs), len(ys)) > _LEAST and len(xs) * len(ys) <= _MAX_CELLS:
            grids.append(Grid(xs, ys, flat, tall))
    return grids


def with_rows(segments: list[Segment], grids: Sequence[Grid]) -> tuple[list[Segment], list[Grid]]:
    """Return the segments of a page, those within a table as one for each of its rows; and which grids are tables."""
    tables = []
    for number, grid in enumerate(grids):
        within = [segment for segment in segments if segment.row is None and grid.place(segment)]
        rows = list(_rows(_completed(grid, within), number, within))
        filled = [sum(map(bool, row.row.cells)) for row in rows if row.row]
        # Of a drawing most rows have a label alone.
        if len(filled) >= _LEAST and 2 * sum(count > 1 for count in filled) >= len(filled):
            ids = set(map(id, within))
            segments = [segment for segment in segments if id(segment) not in ids] + rows
            tables.append(grid)
    return segments, tables


def _completed(grid: Grid, segments: Sequence[Segment]) -> Grid:
    """Return a grid with the lines that its text shows: between columns of which only some have a line, or only the heads."""
    xs, upright = list(grid.xs), list(grid.upright)
    rows = grid.by_row(segments)
    for left, right in pairwise(grid.xs):
        lines = [
            line for row in rows for line in _text_lines([segment for segment in row if left <= segment.middle < right])
        ]
        spans: list[list[float]] = []
        for segment in sorted((segment for line in lines for segment in line), key=lambda segment: segment.x0):
            if spans and segment.x0 < spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], segment.x1)
            else:
                spans.append([segment.x0, segment.x1])
        if len(spans) > 1 and 2 * sum(len(line) > 1 for line in lines) >= max(2 * _LEAST, len(lines)):
            between = [(first[1] + second[0]) / 2 for first, second in pairwise(spans)]
            xs += between
            upright += [(x, grid.ys[-1], grid.ys[0]) for x in between]
    xs.sort()
    grid = Grid(xs, grid.ys, grid.across, upright)
    for (top, bottom), row, cells in zip(pairwise(grid.ys), grid.by_row(segments), grid.cells(), strict=True):
        for cell in set(cells):
            first, last = cells.index(cell), len(cells) - cells[::-1].index(cell)
            inner = xs[first + 1 : last]
            columns = [
                place for segment in row if (place := grid.column(segment)) is not None and first <= place < last
            ]
            is_crossed = any(segment.x0 < x - 1 and x + 1 < segment.x1 for segment in row for x in inner)
            if len(set(columns)) > 1 and not is_crossed:
                upright += [(x, bottom, top) for x in inner]
    return grid


def _text_lines(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Return the lines of text that segments make, from the top."""
    lines: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda segment: -segment.y1):
        if not lines or segment.y1 < (lines[-1][0].y0 + lines[-1][0].y1) / 2:
            lines.append([])
        lines[-1].append(segment)
    return lines


def _rows(grid: Grid, number: int, within: Sequence[Segment]) -> Iterator[Segment]:
    """Yield the rows of a table, each as a segment over its width; none where the lines are those of a drawing."""
    by_place: dict[tuple[int, int], list[Segment]] = {}
    for segment in within:
        if place := grid.place(segment):
            by_place.setdefault(place, []).append(segment)
    cells = grid.cells()
    by_row: dict[int, dict[int, list[Segment]]] = {}
    for (level, column), segments in by_place.items():
        by_row.setdefault(cells[level][column], {}).setdefault(level, []).extend(segments)
    _part(cells, by_row)
    texts = {cell: [segment for segments in rows.values() for segment in segments] for cell, rows in by_row.items()}
    lengths = [sum(len(segment.text) for segment in segments) for segments in texts.values()]
    if (
        min(len({column for _, column in by_place}), len({row for row, _ in by_place})) < _LEAST
        or len(texts) < max(_LEAST + 1, _FILLED * len({cell for row in cells for cell in row}))
        or 2 * sum(length > _PROSE for length in lengths) > len(lengths)
        or _is_drawing(grid, cells)
    ):
        return
    joined = {cell: _text(segments) for cell, segments in texts.items()}
    labels = {cell for cell, text in joined.items() if len(text) <= _LABEL and _is_one(by_row[cell])}
    upper: tuple[list[Segment], list[str]] | None = None
    bands = [row for row in cells if any(cell in texts for cell in row)]
    inner = [index for index, row in enumerate(bands) if len(set(row)) > 1]
    seen: set[int] = set()
    for index, row in enumerate(bands):
        segments = [segment for cell in dict.fromkeys(row) for segment in texts.get(cell, ())]
        values = [joined.get(cell, "") for cell in row]
        if len(set(row)) == 1:
            # A title over all columns; amid the table it is a row, so that those below have their heads.
            is_row = inner[:1] < [index] < inner[-1:] and len(values[0]) <= _PROSE
            yield _segment(segments, values[0], Row(number, [values[0], *[""] * (len(row) - 1)]) if is_row else None)
            continue
        if upper is not None:
            segments, values = upper[0] + segments, joined_heads(upper[1], values)
        elif index == inner[0] and index + _LEAST < len(bands) and _is_above(row, bands[index + 1], texts):
            upper = segments, values
            continue
        elif lines := _lines(grid, segments, len(bands)):
            for line, values in lines:
                yield _segment(line, " ".join(filter(None, values)), Row(number, values))
            continue
        else:
            # A cell over several columns is in the first; one over several rows in each, where it is a short label.
            values = [
                value if row.index(cell) == place and (cell not in seen or cell in labels) else ""
                for place, (cell, value) in enumerate(zip(row, values, strict=True))
            ]
        upper = None
        seen.update(row)
        yield _segment(segments, " ".join(filter(None, values)), Row(number, values))


def _is_drawing(grid: Grid, cells: Sequence[Sequence[int]]) -> bool:
    """Whether what no lines part is, by its area, no rectangle for the most part: boxes and arrows between them."""
    places: dict[int, list[tuple[int, int]]] = {}
    for row, numbers in enumerate(cells):
        for column, cell in enumerate(numbers):
            places.setdefault(cell, []).append((row, column))
    crooked = 0.0
    for within in places.values():
        rows, columns = ({place[axis] for place in within} for axis in (0, 1))
        if len(rows) * len(columns) > len(within):
            crooked += sum(
                (grid.ys[row] - grid.ys[row + 1]) * (grid.xs[column + 1] - grid.xs[column]) for row, column in within
            )
    return crooked > _CROOKED * (grid.ys[0] - grid.ys[-1]) * (grid.xs[-1] - grid.xs[0])


def _is_above(heads: Sequence[int], below: Sequence[int], texts: Container[int]) -> bool:
    """Whether a row of cells stands above one of heads: some go over columns, and below the others is nothing else."""
    alone = [place for place, cell in enumerate(heads) if heads.count(cell) == 1]
    return (
        len(alone) < len(heads)
        and len(set(below)) > 1
        and all(below[place] == heads[place] or below[place] not in texts for place in alone)
    )


def _part(cells: list[list[int]], by_row: dict[int, dict[int, list[Segment]]]) -> None:
    """Part cells that have a text of its own in most of their rows: the lines between these lack."""
    width = len(cells[0])
    for cell, texts in list(by_row.items()):
        if _is_one(texts):
            continue
        rows = [row for row, numbers in enumerate(cells) if cell in numbers]
        if 2 * len(texts) <= len(rows):
            continue
        del by_row[cell]
        for row in rows:
            # The number of its first place there, which no other cell has.
            number = row * width + cells[row].index(cell)
            cells[row] = [number if other == cell else other for other in cells[row]]
            if row in texts:
                by_row[number] = {row: texts[row]}


def _is_one(by_row: Mapping[int, Sequence[Segment]]) -> bool:
    """Whether the text of a cell over several rows is one: it stands in one or two of them, or goes on from row to row."""
    joints = list(pairwise(_text(by_row[row]) for row in sorted(by_row)))
    return len(joints) < _LEAST or 2 * sum(goes_on(first, second) for first, second in joints) >= len(joints)


def _lines(grid: Grid, segments: Sequence[Segment], bands: int) -> list[tuple[list[Segment], list[str]]]:
    """Return the rows between two lines of a table that has none between them; none where they are lines of cells."""
    lines: list[tuple[list[Segment], list[str]]] = []
    for line in _text_lines(segments):
        values = [""] * (len(grid.xs) - 1)
        for segment in line:
            if (column := grid.column(segment)) is not None:
                values[column] = f"{values[column]} {segment.text}".strip()
        lines.append((line, values))
    filled = [sum(map(bool, values)) for _, values in lines]
    is_of_rows = sum(count >= max(_LEAST, max(filled) - 1) for count in filled) >= _MOSTLY * len(lines)
    is_parted = bands > _FEW_BANDS and not is_of_numbers([values for _, values in lines])
    joints = [
        joint for first, second in pairwise(lines) for joint in zip(first[1], second[1], strict=True) if all(joint)
    ]
    is_prose = 2 * sum(goes_on(*joint) for joint in joints) > len(joints)
    if len(lines) < _LEAST_ROWS or not is_of_rows or is_parted or is_prose:
        return []
    rows = lines[:1]
    for line, values in lines[1:]:
        if values[0] or sum(map(bool, values)) > 1:
            rows.append((line, values))
        else:
            # The rest of a cell that goes over several lines.
            above, texts = rows[-1]
            rows[-1] = above + line, [f"{text} {rest}".strip() for text, rest in zip(texts, values, strict=True)]
    return rows


def _segment(segments: Sequence[Segment], text: str, row: Row | None) -> Segment:
    return Segment(
        min(segment.x0 for segment in segments),
        min(segment.y0 for segment in segments),
        max(segment.x1 for segment in segments),
        max(segment.y1 for segment in segments),
        median(segment.size for segment in segments),
        text,
        is_bold=all(segment.is_bold for segment in segments),
        row=row,
    )


def _text(segments: Sequence[Segment]) -> str:
    """Return the lines of a cell as one."""
    text, hyphenated = "", False
    for line in lines_of(segments):
        piece = line.text
        if not text or (hyphenated and piece[:1].islower()):
            text += piece
        else:
            text += f"-{piece}" if hyphenated else f" {piece}"
        hyphenated = line.hyphenated
    return text


def _joined(stretches: Iterable[_Stretch]) -> list[_Stretch]:
    """Return stretches of one line that touch as one."""
    joined: list[_Stretch] = []
    for level in _levels(sorted(stretches)):
        position = median(place for place, _, _ in level)
        level.sort(key=lambda stretch: stretch[1])
        _, start, end = level[0]
        for _, first, last in level:
            if first > end + _APART:
                joined.append((position, start, end))
                start, end = first, last
            else:
                start, end = min(start, first), max(end, last)
        joined.append((position, start, end))
    return joined


def _levels(stretches: Sequence[_Stretch]) -> Iterator[list[_Stretch]]:
    level: list[_Stretch] = []
    for stretch in stretches:
        if level and stretch[0] - level[0][0] > _APART / 2:
            yield level
            level = []
        level.append(stretch)
    if level:
        yield level


def _crossing(
    across: Sequence[_Stretch], upright: Sequence[_Stretch]
) -> Iterator[tuple[list[_Stretch], list[_Stretch]]]:
    """Yield the lines of each table: those that touch each other."""
    roots = list(range(len(across) + len(upright)))

    def root(number: int) -> int:
        while roots[number] != number:
            roots[number] = roots[roots[number]]
            number = roots[number]
        return number

    places = [x for x, _, _ in upright]
    for index, (y, x0, x1) in enumerate(across):
        for other in range(bisect_left(places, x0 - _APART), bisect_right(places, x1 + _APART)):
            _, y0, y1 = upright[other]
            if y0 - _APART <= y <= y1 + _APART:
                roots[root(len(across) + other)] = root(index)
    tables: dict[int, tuple[list[_Stretch], list[_Stretch]]] = {}
    for number, stretch in enumerate([*across, *upright]):
        tables.setdefault(root(number), ([], []))[number >= len(across)].append(stretch)
    yield from sorted(
        ((flat, tall) for flat, tall in tables.values() if flat and tall),
        key=lambda lines: -max(y for y, _, _ in lines[0]),
    )


def _edges(places: Iterable[float], ends: Iterable[float]) -> list[float]:
    """Return where columns or rows begin and end: at lines, and where those that cross them end beyond."""
    edges: list[float] = []
    ends = list(ends)
    for place in sorted([*places, min(ends), max(ends)]):
        if not edges or place - edges[-1] > _APART:
            edges.append(place)
    return edges


def _at(stretches: Sequence[_Stretch], edges: Sequence[float]) -> list[list[tuple[float, float]]]:
    """Return from where to where a line is drawn at each edge."""
    return [[(start, end) for place, start, end in stretches if abs(place - edge) <= _APART] for edge in edges]
