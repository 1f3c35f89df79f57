"""Ruled tables: text between the lines that are drawn on a page is a cell."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from pg_graphrag.beside.readers.layout.grids import LEAST_BOTH_WAYS, Grid
from pg_graphrag.beside.readers.layout.page import Row, Segment, goes_on, lines_of
from pg_graphrag.beside.readers.tables import is_of_numbers, joined_heads

# Share of a table's cells that have a text, at least.
_FILLED_CELLS = 0.2
# Letters: a cell with more is a box of prose; a label that stands over several rows has no more.
_LETTERS_OF_PROSE, _LETTERS_OF_A_LABEL = 300, 80
# Lines of text that show columns which no line parts, at least; rows over which the text of a cell is one, whatever it is.
_LINES_OF_COLUMNS, _ROWS_OF_A_TEXT = 2, 2
# Share of a table's area that may be in cells that are no rectangles.
_CROOKED = 0.5
# For a table with rules only around its heads: maximum of rows between its rules; minimum of text lines that are then
# its rows; and the share of these that fill most columns.
_FEW_BANDS, _LEAST_UNRULED, _FULL_LINES = 3, 3, 0.7


def with_rows(segments: list[Segment], grids: Sequence[Grid]) -> tuple[list[Segment], list[int]]:
    """Return the segments of a page, those of a table as one for each of its rows; and the numbers of grids that are tables."""
    tables = []
    for number, grid in enumerate(grids):
        within = [segment for segment in segments if segment.row is None and grid.place(segment)]
        rows = list(_table_rows(_completed(grid, within), number, within))
        filled = [sum(map(bool, row.row.cells)) for row in rows if row.row]
        # In a drawing most rows have only a label.
        if len(filled) >= LEAST_BOTH_WAYS and 2 * sum(count > 1 for count in filled) >= len(filled):
            ids = set(map(id, within))
            segments = [segment for segment in segments if id(segment) not in ids] + rows
            tables.append(number)
    return segments, tables


def _completed(grid: Grid, segments: Sequence[Segment]) -> Grid:
    """Return a grid with lines added where its text shows columns that no line parts, or that lines part in some rows alone."""
    xs, upright = list(grid.xs), list(grid.upright)
    rows = grid.by_row(segments)
    for left, right in pairwise(grid.xs):
        lines = [
            line for row in rows for line in _by_line([segment for segment in row if left <= segment.middle < right])
        ]
        spans: list[list[float]] = []
        for segment in sorted((segment for line in lines for segment in line), key=lambda segment: segment.x0):
            if spans and segment.x0 < spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], segment.x1)
            else:
                spans.append([segment.x0, segment.x1])
        if len(spans) > 1 and 2 * sum(len(line) > 1 for line in lines) >= max(2 * _LINES_OF_COLUMNS, len(lines)):
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


def _by_line(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Return the lines of text that segments make, from the top."""
    lines: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda segment: -segment.y1):
        if not lines or segment.y1 < (lines[-1][0].y0 + lines[-1][0].y1) / 2:
            lines.append([])
        lines[-1].append(segment)
    return lines


def _table_rows(grid: Grid, number: int, within: Sequence[Segment]) -> Iterator[Segment]:
    """Yield the rows of a table, each as a segment over its width; none where the lines are those of a drawing."""
    by_place: dict[tuple[int, int], list[Segment]] = {}
    for segment in within:
        if place := grid.place(segment):
            by_place.setdefault(place, []).append(segment)
    cells = grid.cells()
    by_cell: dict[int, dict[int, list[Segment]]] = {}
    for (level, column), segments in by_place.items():
        by_cell.setdefault(cells[level][column], {}).setdefault(level, []).extend(segments)
    _part_cells(cells, by_cell)
    texts = {cell: [segment for segments in rows.values() for segment in segments] for cell, rows in by_cell.items()}
    if not _is_table(grid, cells, texts, by_place):
        return
    values_of = {cell: _cell_text(segments) for cell, segments in texts.items()}
    labels = {cell for cell, text in values_of.items() if len(text) <= _LETTERS_OF_A_LABEL and _is_one(by_cell[cell])}
    upper: tuple[list[Segment], list[str]] | None = None
    bands = [row for row in cells if any(cell in texts for cell in row)]
    inner = [index for index, row in enumerate(bands) if len(set(row)) > 1]
    seen: set[int] = set()
    for index, row in enumerate(bands):
        segments = [segment for cell in dict.fromkeys(row) for segment in texts.get(cell, ())]
        values = [values_of.get(cell, "") for cell in row]
        if len(set(row)) == 1:
            # A title over all columns; amid the table it is a row, so that those below have their heads.
            is_row = inner[:1] < [index] < inner[-1:] and len(values[0]) <= _LETTERS_OF_PROSE
            yield _row_segment(
                segments, values[0], Row(number, [values[0], *[""] * (len(row) - 1)]) if is_row else None
            )
            continue
        if upper is not None:
            segments, values = upper[0] + segments, joined_heads(upper[1], values)
        elif index == inner[0] and index + LEAST_BOTH_WAYS < len(bands) and _is_above(row, bands[index + 1], texts):
            upper = segments, values
            continue
        elif lines := _unruled_rows(grid, segments, len(bands)):
            for line, values in lines:
                yield _row_segment(line, " ".join(filter(None, values)), Row(number, values))
            continue
        else:
            # A cell over several columns is in the first; one over several rows in each, where it is a short label.
            values = [
                value if row.index(cell) == place and (cell not in seen or cell in labels) else ""
                for place, (cell, value) in enumerate(zip(row, values, strict=True))
            ]
        upper = None
        seen.update(row)
        yield _row_segment(segments, " ".join(filter(None, values)), Row(number, values))


def _is_table(
    grid: Grid,
    cells: Sequence[Sequence[int]],
    texts: Mapping[int, Sequence[Segment]],
    places: Iterable[tuple[int, int]],
) -> bool:
    """Whether enough cells have a text, at enough places (row, column), and they are neither boxes of prose nor a drawing."""
    rows, columns = (len(set(numbers)) for numbers in zip(*places, strict=True)) if texts else (0, 0)
    lengths = [sum(len(segment.text) for segment in segments) for segments in texts.values()]
    return (
        min(rows, columns) >= LEAST_BOTH_WAYS
        and len(texts) >= max(LEAST_BOTH_WAYS + 1, _FILLED_CELLS * len({cell for row in cells for cell in row}))
        and 2 * sum(length > _LETTERS_OF_PROSE for length in lengths) <= len(lengths)
        and not _is_drawing(grid, cells)
    )


def _is_drawing(grid: Grid, cells: Sequence[Sequence[int]]) -> bool:
    """Whether most of the area is in cells that are no rectangles: around boxes, and the arrows between them."""
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
    """Whether a row is the upper of two with heads: some cells go over several columns, and no text is below the others."""
    alone = [place for place, cell in enumerate(heads) if heads.count(cell) == 1]
    return (
        len(alone) < len(heads)
        and len(set(below)) > 1
        and all(below[place] == heads[place] or below[place] not in texts for place in alone)
    )


def _part_cells(cells: list[list[int]], by_row: dict[int, dict[int, list[Segment]]]) -> None:
    """Part cells over several rows that have a text of its own in most of them: no lines are drawn between these."""
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
    joints = list(pairwise(_cell_text(by_row[row]) for row in sorted(by_row)))
    return len(by_row) <= _ROWS_OF_A_TEXT or 2 * sum(goes_on(first, second) for first, second in joints) >= len(joints)


def _unruled_rows(grid: Grid, segments: Sequence[Segment], bands: int) -> list[tuple[list[Segment], list[str]]]:
    """Return the lines of text in a row of cells as rows, where nothing is drawn between; none where they are lines of cells."""
    lines: list[tuple[list[Segment], list[str]]] = []
    for line in _by_line(segments):
        values = [""] * (len(grid.xs) - 1)
        for segment in line:
            if (column := grid.column(segment)) is not None:
                values[column] = f"{values[column]} {segment.text}".strip()
        lines.append((line, values))
    filled = [sum(map(bool, values)) for _, values in lines]
    is_of_rows = sum(count >= max(LEAST_BOTH_WAYS, max(filled) - 1) for count in filled) >= _FULL_LINES * len(lines)
    is_parted = bands > _FEW_BANDS and not is_of_numbers([values for _, values in lines])
    joints = [
        joint for first, second in pairwise(lines) for joint in zip(first[1], second[1], strict=True) if all(joint)
    ]
    is_prose = 2 * sum(goes_on(*joint) for joint in joints) > len(joints)
    if len(lines) < _LEAST_UNRULED or not is_of_rows or is_parted or is_prose:
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


def _row_segment(segments: Sequence[Segment], text: str, row: Row | None) -> Segment:
    """Return the segments of a row as one."""
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


def _cell_text(segments: Sequence[Segment]) -> str:
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
