"""Workbooks (Office Open XML), by openpyxl."""

import re
import zipfile
from collections.abc import Iterator
from datetime import date, time, timedelta
from typing import Any, TypeAlias

from pg_graphrag.beside.readers.archive import opened, read_part
from pg_graphrag.beside.readers.attached import read_attachments
from pg_graphrag.beside.readers.office.number_formats import duration, moment, number_text
from pg_graphrag.beside.readers.office.office_common import DAMAGE, damaged, files_within, properties
from pg_graphrag.beside.readers.office.office_sheets import (
    as_openpyxl_reads,
    beside_cells,
    chart_sheets,
    sheet_pictures,
)
from pg_graphrag.beside.readers.plain.row_documents import row_documents, row_lines
from pg_graphrag.beside.readers.read_errors import ReadWarning
from pg_graphrag.beside.readers.source import Item, Source
from pg_graphrag.beside.readers.tables import joined_heads

_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_MERGED = re.compile(rb"""<mergeCell\s[^>]{0,100}?ref=["']([A-Z0-9:$]{1,40})["']""")
# Not one whose value is no text, which Excel writes as such.
_UNCALCULATED = re.compile(
    rb"""<c(?![^>]{0,200}\bt=["']str["'])[^>]{0,200}><f[ >][^<]{0,8192}</f>\s{0,100}(?:<v\s?/>|<v></v>)?\s{0,100}</c>"""
)
# Columns that a head is looked for in.
_MAX_COLUMNS = 1000
_Merged: TypeAlias = dict[int, list[tuple[int, int]]]


def read_xlsx(source: Source) -> Iterator[Item]:
    """Read a workbook: each sheet is a heading with its rows, which say their heads; or, by row, many documents."""
    import openpyxl

    with opened(source, "a workbook") as archive:
        title, facts = properties(archive)
        embedded = files_within(archive, facts)
        blocks: list[str] = []
        warnings: list[str] = []
        unknown: list[str] = []
        try:
            book = openpyxl.load_workbook(
                as_openpyxl_reads(archive, source.read()), read_only=True, data_only=True, keep_links=False
            )
            facts.others["sheets"] = [sheet.title for sheet in book.worksheets]
            for sheet in book.worksheets:
                merged, across, uncalculated = _merged_cells(archive, sheet)
                if uncalculated:
                    unknown.append(sheet.title)
                rows = _with_heads_in_two_rows(_rows(sheet, merged), across)
                if source.options.by_row:
                    yield from row_documents(
                        source, rows, _XLSX, f"{source.stem} › {sheet.title}", f"{sheet.title}!", facts
                    )
                elif texts := list(filter(None, (row_lines(rows), *beside_cells(archive, sheet._worksheet_path)))):
                    blocks += [f"# {sheet.title}{_sheet_pictures(archive, sheet, source)}", *texts]
                elif marks := _sheet_pictures(archive, sheet, source):
                    blocks.append(f"# {sheet.title}{marks}")
                else:
                    warnings.append(sheet.title)
            for name, texts in chart_sheets(archive):
                blocks += [f"# {name}", *texts]
        except (*DAMAGE, KeyError, OSError, SyntaxError) as error:
            raise damaged(source, "a workbook", error) from error
    if unknown:
        names = ", ".join(map(repr, unknown))
        reason = f"formulas without their values in {names}: open and save it in a spreadsheet program"
        yield ReadWarning(source.path, reason)
    if source.options.by_row:
        yield from read_attachments(source, embedded, facts.date_of_version)
        return
    if not blocks and not embedded:
        raise source.error("holds no cells with text or numbers")
    yield source.document("\n\n".join(blocks) + "\n", _XLSX, title, facts)
    yield from read_attachments(source, embedded, facts.date_of_version)
    if warnings:
        yield ReadWarning(source.path, f"no cells in {', '.join(map(repr, warnings))}")


def _sheet_pictures(archive: zipfile.ZipFile, sheet: Any, source: Source) -> str:
    """Return the marks of the pictures on a sheet, to be put behind its heading."""
    if not source.gallery.is_open:
        return ""
    return "".join(
        source.gallery.add(source.key, data, alternative_text=text)
        for data, text in sheet_pictures(archive, sheet._worksheet_path)
    )


def _merged_cells(archive: zipfile.ZipFile, sheet: Any) -> tuple[_Merged, _Merged, bool]:
    """Return cells that go over several rows, and over several columns of one row; and whether formulas lack values.

    They are {row from 1: (column from 0, last row)} and {row: (column, last column)}. openpyxl reads none of these row by row.
    """
    from openpyxl.utils.cell import range_boundaries

    part = read_part(archive, sheet._worksheet_path) or b""
    merged: _Merged = {}
    across: _Merged = {}
    for reference in _MERGED.findall(part):
        try:
            first_column, first_row, last_column, last_row = range_boundaries(reference.decode())
        except (ValueError, TypeError):
            continue
        if last_row > first_row:
            merged.setdefault(first_row, []).append((first_column - 1, last_row))
        elif last_column > first_column:
            across.setdefault(first_row, []).append((first_column - 1, last_column - 1))
    return merged, across, _UNCALCULATED.search(part) is not None


def _with_heads_in_two_rows(rows: Iterator[list[str]], across: _Merged) -> Iterator[list[str]]:
    """Yield rows, two of heads as one: cells over several columns, and words in each of these in the row below."""
    upper: list[str] | None = None
    spanned: set[int] = set()
    for number, row in enumerate(rows, 1):
        if upper is not None:
            if all(column < len(row) and any(map(str.isalpha, row[column])) for column in spanned):
                for first, last in across[number - 1]:
                    upper[first : last + 1] = [upper[first]] * (last + 1 - first)
                row = joined_heads(upper, row)
            else:
                yield upper
            upper = None
        places = across.get(number, ())
        if len(places) > 1 and all(last < _MAX_COLUMNS for _, last in places):
            spanned = {column for first, last in places for column in range(first, last + 1)}
            upper = row + [""] * (max(spanned) + 1 - len(row))
        else:
            yield row
    if upper is not None:
        yield upper


def _rows(sheet: Any, merged: _Merged) -> Iterator[list[str]]:
    """Yield the rows of a sheet as text; a sheet that says that it has a million rows ends with its last cell.

    A cell that goes over several rows is in each of them.
    """
    sheet.reset_dimensions()
    down: dict[int, tuple[int, str]] = {}
    for number, row in enumerate(sheet.iter_rows(), 1):
        cells = list(map(_cell, row))
        is_row = any(cells)
        for column, (last_row, text) in list(down.items()):
            if number > last_row:
                del down[column]
            elif is_row:
                cells += [""] * (column + 1 - len(cells))
                cells[column] = cells[column] or text
        for column, last_row in merged.get(number, ()):
            if column < len(cells) and cells[column]:
                down[column] = last_row, cells[column]
        while cells and not cells[-1]:
            cells.pop()
        yield cells


def _cell(cell: Any) -> str:
    """Return a cell as text; dates and times in ISO 8601."""
    value = cell.value
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, date | time):
        return moment(value, cell.number_format)
    if isinstance(value, timedelta):
        return duration(value)
    if isinstance(value, int | float):
        return number_text(value, cell.number_format)
    return "" if value is None else " ".join(str(value).split())
