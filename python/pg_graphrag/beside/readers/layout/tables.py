"""Tables of a PDF page without rules: lines whose cells stand in columns. Parallel columns of text are no tables."""

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from pg_graphrag.beside.readers.layout.page import DOTS, LEADERS, Block, Line, Page, goes_on
from pg_graphrag.beside.readers.tables import is_number, is_of_numbers

_LEAST_ROWS, _LEAST_ACROSS = 3, 3
# What items of lists begin with, and the share of rows that must, to be items.
_ITEM = re.compile(rf"\(?[\da-zA-Z]{{1,4}}[.)]|[–—*{DOTS}-]")
_SHARE_OF_ITEMS = 0.7
# Least width of prose in ems.
_LEAST_PROSE = 12.0


def with_tables(lines: list[Line]) -> Page:
    """Return lines as blocks, runs of rows with aligned cells as tables."""
    page: Page = []
    plain: list[Line] = []
    index = 0
    while index < len(lines):
        if (end := end_of_ruled(lines, index)) > index:
            run = lines[index:end]
            rows = [line.segments[0].row.cells for line in run if line.segments[0].row]
            page += [*([Block(plain)] if plain else ()), Block(run, rows, _has_heads(run, rows))]
            plain, index = [], end
            continue
        end = _table_end(lines, index)
        table = _table(lines[index:end]) if end - index >= _LEAST_ROWS else None
        if table is None:
            plain.append(lines[index])
            index += 1
            continue
        if plain:
            page.append(Block(plain))
            plain = []
        rows, spans = table
        texts_beside = _side_by_side(lines[index:end], spans)
        page += texts_beside or [Block(lines[index:end], rows, _has_heads(lines[index:end], rows))]
        if texts_beside:
            # The text below may continue it.
            plain = page.pop().lines
        index = end
    if plain:
        page.append(Block(plain))
    return page


def end_of_ruled(lines: Sequence[Line], start: int) -> int:
    """Return where a ruled table ends that begins at a line; the start where none does."""
    first = lines[start].segments[0].row
    end = start
    while first and end < len(lines) and len(lines[end].segments) == 1:
        row = lines[end].segments[0].row
        if row is None or row.table != first.table:
            break
        end += 1
    return end


def end_of_narrow_cells(lines: list[Line], start: int, most: float) -> int:
    """Return where a table of numbers ends that begins at a line and has three columns or more, none so wide; else the start."""
    if len(lines[start].segments) < 2:
        return start
    end = _table_end(lines, start)
    table = _table(lines[start:end]) if end - start >= _LEAST_ROWS else None
    if table is None:
        return start
    rows, spans = table
    is_narrow = len(spans) >= _LEAST_ACROSS and all(right - left <= most for left, right in spans)
    return end if is_narrow and is_of_numbers(rows) else start


def _has_heads(lines: Sequence[Line], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has heads: it alone is bold, or has words above columns of numbers."""

    def is_bold(line: Line) -> bool:
        return all(segment.is_bold for segment in line.segments)

    if is_bold(lines[0]):
        return not all(map(is_bold, lines[1:]))
    return not any(map(is_number, rows[0])) and is_of_numbers(rows[1:])


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


def _table(lines: list[Line]) -> tuple[list[list[str]], list[list[float]]] | None:
    """Return the cells of lines that stand in columns, and where these are; None when they do not."""
    if any(LEADERS.search(line.text) for line in lines) or all(line.is_code for line in lines):
        return None
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
    if len(spans) == 2:
        labels = [cells[0] for cells in rows if cells[0]]
        if sum(_ITEM.fullmatch(label) is not None for label in labels) > _SHARE_OF_ITEMS * len(labels):
            return None
    return (rows, spans) if len(rows) >= _LEAST_ROWS else None


def _side_by_side(lines: list[Line], spans: list[list[float]]) -> list[Block] | None:
    """Return texts that stand beside each other, or labels beside a text, one after the other; None for a table.

    A sentence goes on from row to row.
    """
    if len(spans) != 2:
        return None
    left, right = (
        [
            Line(segments) if (segments := [s for s in line.segments if span[0] <= s.x0 < span[1]]) else None
            for line in lines
        ]
        for span in spans
    )
    pairs = [
        index
        for index, (first, second) in enumerate(pairwise(left))
        if first and second and right[index] and right[index + 1]
    ]
    if not _runs_on(right, pairs):
        return None
    labels, text = [line for line in left if line], [line for line in right if line]
    if not _runs_on(left, pairs):
        labels = [Line([segment for line in labels for segment in line.segments])]
    return [Block(labels), Block(text)]


def _runs_on(column: Sequence[Line | None], pairs: Sequence[int]) -> bool:
    """Whether lines fill their column and sentences run on from line to line, among lines that have something beside them."""
    lines = [line for line in column if line]
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    joints = [(first, second) for index in pairs if (first := column[index]) and (second := column[index + 1])]
    if not joints or x1 - x0 < _LEAST_PROSE * (median(line.size for line in lines) or 10.0):
        return False
    joined = [(first, second) for first, second in joints if goes_on(first.text, second.text)]
    return 2 * len(joined) >= len(joints) and all(first.x1 + second.first_word_width > x1 for first, second in joined)
