"""The vertical and horizontal lines that are drawn on a PDF page."""

from collections.abc import Iterator
from ctypes import c_float, c_int
from itertools import pairwise
from typing import Any

import pypdfium2 as pdfium

from pg_graphrag.beside.readers.layout.grids import Box

# Objects of a page that are looked at, corners of a shape and of all, and how thick a line may be.
_MAX_OBJECTS, _MAX_CORNERS, _MAX_CORNERS_OF_PAGE, _THICK = 50_000, 2_000, 50_000, 3.0
# Lines of a page beyond which it is a drawing.
_MAX_LINES = 20_000


def drawn_lines(page: pdfium.PdfPage) -> list[Box]:
    """Return the lines of a page: thin shapes, and the straight strokes of others; none of one that is drawn all over."""
    raw = pdfium.raw
    left, bottom, right, top = (c_float() for _ in range(4))
    fill, stroke = c_int(), c_int()
    lines: list[Box] = []
    corners = 0
    for index in range(min(raw.FPDFPage_CountObjects(page), _MAX_OBJECTS)):
        item = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(item) != raw.FPDF_PAGEOBJ_PATH:
            continue
        if not raw.FPDFPageObj_GetBounds(item, left, bottom, right, top):
            continue
        raw.FPDFPath_GetDrawMode(item, fill, stroke)
        if not (fill.value or stroke.value):
            continue
        if min(right.value - left.value, top.value - bottom.value) <= _THICK:
            lines.append((left.value, right.value, bottom.value, top.value))
        elif stroke.value and (count := raw.FPDFPath_CountSegments(item)) <= _MAX_CORNERS:
            corners += count
            if corners <= _MAX_CORNERS_OF_PAGE:
                lines += _strokes(item)
        if corners > _MAX_CORNERS_OF_PAGE or len(lines) > _MAX_LINES:
            return []
    return lines


def _strokes(path: Any) -> Iterator[Box]:
    """Yield the strokes of a shape that run upright or across."""
    raw = pdfium.raw
    x, y, matrix = c_float(), c_float(), raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, matrix)
    corners: list[tuple[float, float, int]] = []
    start = (0.0, 0.0)
    for index in range(raw.FPDFPath_CountSegments(path)):
        part = raw.FPDFPath_GetPathSegment(path, index)
        raw.FPDFPathSegment_GetPoint(part, x, y)
        point = (matrix.a * x.value + matrix.c * y.value + matrix.e, matrix.b * x.value + matrix.d * y.value + matrix.f)
        kind = raw.FPDFPathSegment_GetType(part)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        corners.append((*point, kind))
        if raw.FPDFPathSegment_GetClose(part):
            corners.append((*start, raw.FPDF_SEGMENT_LINETO))
    for (x0, y0, _), (x1, y1, kind) in pairwise(corners):
        if kind == raw.FPDF_SEGMENT_LINETO and min(abs(x1 - x0), abs(y1 - y0)) <= 1:
            yield min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
