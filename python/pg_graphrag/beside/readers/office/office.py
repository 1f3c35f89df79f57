"""Office Open XML: documents by mammoth, presentations by python-pptx, workbooks by openpyxl."""

import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, time, timedelta
from functools import partial
from io import BytesIO
from typing import Any, TypeAlias
from xml.parsers import expat

from lxml import etree

from pg_graphrag.beside.readers.archive import RELATIONSHIPS, opened, parse_xml, read_part, read_xml, related_parts
from pg_graphrag.beside.readers.attached import own_names, read_attachments
from pg_graphrag.beside.readers.elements import become
from pg_graphrag.beside.readers.markdown import heading_of
from pg_graphrag.beside.readers.office.charts import chart_rows
from pg_graphrag.beside.readers.office.number_formats import duration, moment, number_text
from pg_graphrag.beside.readers.office.office_controls import control_text, controls_of
from pg_graphrag.beside.readers.office.office_embedded import embedded_files, slide_comments
from pg_graphrag.beside.readers.office.office_fields import with_headings, write_fields
from pg_graphrag.beside.readers.office.office_sheets import (
    as_openpyxl_reads,
    beside_cells,
    chart_sheets,
    sheet_pictures,
)
from pg_graphrag.beside.readers.office.office_unread import LOST_PICTURE, take_out_lost_pictures, unread_of
from pg_graphrag.beside.readers.pictures import MAX_PICTURE_BYTES
from pg_graphrag.beside.readers.plain.row_documents import row_documents, row_lines
from pg_graphrag.beside.readers.read_errors import ReadError, ReadWarning
from pg_graphrag.beside.readers.source import Facts, Item, Source, as_time, numbers_text
from pg_graphrag.beside.readers.tables import joined_heads, table_text
from pg_graphrag.beside.readers.web.formulas import formula_text
from pg_graphrag.beside.readers.web.html import main_text, marks_of, parse

_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# Exceptions of the libraries for a damaged file.
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, etree.LxmlError)
_BACK_LINKS = re.compile(r" ?↑(?=\n|\Z)")
_TEXT_PART = re.compile(r"word/(?:document\d?|footnotes|endnotes)\.xml")
_STYLES_PART = re.compile(r"word/styles\d?\.xml")
# What holds text, and what parts it, by what mammoth knows that does the same.
_KNOWN_AS = {**dict.fromkeys(("fldSimple", "dir", "bdo", "ruby", "rubyBase"), "smartTag"), "cr": "br", "ptab": "tab"}
_UNKNOWN = re.compile(
    rb"oMath|drawingml/2006/(?:chart|diagram)|<w:(?:fldSimple|dir|bdo|ruby|cr|ptab|sdt|sym|ffData|outlineLvl|control)[ />]"
    rb"|<(?:\w{1,9}:)?(?:blip|imagedata)[ />]"
)
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_CORE = {
    "title": "{http://purl.org/dc/elements/1.1/}title",
    "author": "{http://purl.org/dc/elements/1.1/}creator",
    "subject": "{http://purl.org/dc/elements/1.1/}subject",
    "description": "{http://purl.org/dc/elements/1.1/}description",
    "language": "{http://purl.org/dc/elements/1.1/}language",
    "keywords": "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}keywords",
    "created": "{http://purl.org/dc/terms/}created",
    "modified": "{http://purl.org/dc/terms/}modified",
}
_MERGED = re.compile(rb"""<mergeCell\s[^>]{0,100}?ref=["']([A-Z0-9:$]{1,40})["']""")
# Not one whose value is no text, which Excel writes as such.
_UNCALCULATED = re.compile(
    rb"""<c(?![^>]{0,200}\bt=["']str["'])[^>]{0,200}><f[ >][^<]{0,8192}</f>\s{0,100}(?:<v\s?/>|<v></v>)?\s{0,100}</c>"""
)
# Columns that a head is looked for in.
_MAX_COLUMNS = 1000
_Merged: TypeAlias = dict[int, list[tuple[int, int]]]
# Titles that writers put when nobody gave one.
_NO_TITLES = frozenset(("powerpoint presentation", "slide 1", "untitled", "document", "word document", "presentation"))


def read_docx(source: Source) -> Iterator[Item]:
    """Read a document: headings, lists, tables, charts, notes, comments at its end; pictures by their descriptions."""
    import mammoth

    with opened(source, "a document of Word") as archive:
        title, facts = _properties(archive)
        embedded = _embedded(archive, facts)
        source.left_out.update(unread_of(archive))
        images: list[bytes] | None = [] if source.gallery.is_open else None
        try:
            comments = list(_comments(archive))
            result = mammoth.convert_to_html(
                _as_mammoth_reads(archive, source),
                convert_image=mammoth.images.img_element(partial(_image, images, source)),
                external_file_access=False,
            )
        except (*_DAMAGE, RecursionError, OSError, expat.ExpatError) as error:
            raise _damaged(source, "a document of Word", error) from error
    try:
        marks = marks_of(source, lambda url: (images or [])[int(url)])
        content = main_text(parse(f"<body>{result.value}</body>"), marks)
    except ValueError as error:
        raise source.error(str(error)) from None
    content = "\n\n".join(filter(None, (_BACK_LINKS.sub("", content), *comments)))
    if not content.strip() and not embedded:
        raise source.error("holds no text; are its pages pictures?")
    yield source.document(content, _DOCX, title or heading_of(content), facts)
    yield from read_attachments(source, embedded, facts.date_of_version)


def _image(images: list[bytes] | None, source: Source, image: Any) -> dict[str, str]:
    """Return the attributes of a picture's element, and put its bytes aside."""
    if images is None:
        return {"src": ""}
    try:
        with image.open() as file:
            images.append(file.read(MAX_PICTURE_BYTES + 1))
    except (*_DAMAGE, OSError):
        source.left_out[LOST_PICTURE] += 1
        return {"src": ""}
    return {"src": str(len(images) - 1)}


def _as_mammoth_reads(archive: zipfile.ZipFile, source: Source) -> BytesIO:
    """Return a document whose formulas, charts, fields (numbers of captions, check boxes) and the like are text and tables.

    mammoth drops what it does not know.
    """
    texts: dict[str, bytes] = {}
    for name in archive.namelist():
        if _STYLES_PART.fullmatch(name) and (part := read_part(archive, name)):
            root = parse_xml(part)
            if with_headings(root):
                texts[name] = etree.tostring(root)
        part = read_part(archive, name) if _TEXT_PART.fullmatch(name) else None
        if part is None or not _UNKNOWN.search(part):
            continue
        root = parse_xml(part)
        source.left_out[LOST_PICTURE] += take_out_lost_pictures(root, archive, name)
        for reading in list(root.iter(f"{_WORD}rt")):
            # Of a word with its reading above it (ruby) the word.
            reading.clear()
        for element in root.iter(*(f"{_WORD}{name}" for name in _KNOWN_AS)):
            element.tag = _WORD + _KNOWN_AS[etree.QName(element).localname]
        for formula in list(root.iter(f"{_MATH}oMath")):
            following = formula.getnext()
            is_followed = following is not None and following.tag == formula.tag
            text = formula_text(formula) + (" " if is_followed else "")
            become(formula, f"{_WORD}r")
            etree.SubElement(formula, f"{_WORD}t").text = text
        for paragraph in list(root.iter(f"{_MATH}oMathPara")):
            # Its children stand for themselves in a paragraph; where none is around it, it is one.
            paragraph.tag = f"{_WORD}smartTag" if _is_in_paragraph(paragraph) else f"{_WORD}p"
        write_fields(root)
        _write_controls(root, archive, name)
        _write_drawings(root, archive, name)
        texts[name] = etree.tostring(root)
    if not texts:
        return BytesIO(source.read())
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for member in archive.infolist():
            written.writestr(member.filename, texts.get(member.filename) or archive.read(member))
    file.seek(0)
    return file


def _write_controls(root: etree._Element, archive: zipfile.ZipFile, name: str) -> None:
    """Put what controls (ActiveX) say behind the objects that they stand in."""
    controls = list(root.iter(f"{_WORD}control"))
    parts = related_parts(archive, name) if controls else {}
    for control in controls:
        if text := control_text(archive, parts.get(control.get(f"{RELATIONSHIPS}id", ""), "")):
            element = etree.Element(f"{_WORD}t")
            element.text = text
            (control if control.getparent() is None else control.getparent()).addnext(element)


def _write_drawings(root: etree._Element, archive: zipfile.ZipFile, name: str) -> None:
    """Put charts as tables, and the texts of diagrams (SmartArt), behind the paragraphs that they stand in."""
    references = list(root.iter(_CHART, f"{_DIAGRAM}relIds"))
    parts = related_parts(archive, name) if references else {}
    for reference in references:
        key = "id" if reference.tag == _CHART else "dm"
        part = read_xml(archive, parts.get(reference.get(f"{RELATIONSHIPS}{key}", ""), ""))
        paragraph = next(reference.iterancestors(f"{_WORD}p"), None)
        if part is None or paragraph is None:
            continue
        if reference.tag != _CHART:
            for line in reversed(list(_diagram_lines(part))):
                paragraph.addnext(_word_paragraph(line))
            continue
        title, rows = chart_rows(part)
        if rows:
            table = etree.Element(f"{_WORD}tbl")
            for row in rows:
                table_row = etree.SubElement(table, f"{_WORD}tr")
                for cell in row:
                    etree.SubElement(table_row, f"{_WORD}tc").append(_word_paragraph(cell))
            paragraph.addnext(table)
        if title:
            paragraph.addnext(_word_paragraph(title))


def _word_paragraph(text: str) -> etree._Element:
    paragraph = etree.Element(f"{_WORD}p")
    etree.SubElement(etree.SubElement(paragraph, f"{_WORD}r"), f"{_WORD}t").text = text
    return paragraph


def _comments(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield the comments of a document, with who wrote them."""
    data = read_part(archive, "word/comments.xml")
    for comment in parse_xml(data).iter(f"{_WORD}comment") if data else ():
        paragraphs = ("".join(text.text or "" for text in item.iter(f"{_WORD}t")) for item in comment.iter(f"{_WORD}p"))
        if text := " ".join(" ".join(paragraphs).split()):
            author = " ".join(comment.get(f"{_WORD}author", "").split())
            yield f"Comment ({author}): {text}" if author else f"Comment: {text}"


def _is_in_paragraph(element: etree._Element) -> bool:
    return next(element.iterancestors(f"{_WORD}p"), None) is not None


def read_pptx(source: Source) -> Iterator[Item]:
    """Read a presentation: each slide is a page with its title as heading, its text, tables and notes."""
    import pptx
    from pptx.exc import PythonPptxError

    with opened(source, "a presentation") as archive:
        title, facts = _properties(archive)
        embedded = _embedded(archive, facts)
        source.left_out.update(unread_of(archive))
        try:
            slides = [
                "\n\n".join(
                    filter(
                        None, (_slide(slide, source, number), *controls_of(archive, slide.part.partname.lstrip("/")))
                    )
                )
                for number, slide in enumerate(pptx.Presentation(BytesIO(source.read())).slides, 1)
            ]
        except (PythonPptxError, *_DAMAGE, RecursionError, OSError) as error:
            raise _damaged(source, "a presentation", error) from error
    if not any(slides) and not embedded:
        raise source.error(f"holds no text in its {len(slides)} slides; are they pictures?")
    facts.others["pages"] = len(slides)
    content = "".join(f"{slide}\n\n\f" for slide in slides)
    yield source.document(content, _PPTX, title or heading_of(content.partition("\f")[0]), facts)
    yield from read_attachments(source, embedded, facts.date_of_version)
    if empty := [number for number, slide in enumerate(slides, 1) if not slide]:
        yield ReadWarning(source.path, f"no text on {numbers_text('slide', empty)}")


def _slide(slide: Any, source: Source, number: int) -> str:
    """Return the text of a slide; marks of its pictures at its end."""
    title = slide.shapes.title
    heading = " ".join(title.text_frame.text.split()) if title is not None else ""
    blocks = [f"# {heading}"] if heading else []
    marks = ""
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if source.gallery.is_open and (data := _blob(slide, shape)):
            marks += source.gallery.add(source.key, data, page=number, alternative_text=_description(shape))
        if getattr(shape, "has_table", False) and shape.has_table:
            blocks.append(table_text([[cell.text for cell in row.cells] for row in shape.table.rows]))
        elif getattr(shape, "has_chart", False) and shape.has_chart:
            blocks.append(_chart(shape.chart._chartSpace))
        elif shape.has_text_frame:
            blocks.append(
                _lines([(paragraph.level, _paragraph(paragraph._p)) for paragraph in shape.text_frame.paragraphs])
            )
        else:
            blocks.append(_lines([(0, line) for line in _diagram(slide, shape)]) or _description(shape))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        blocks.append(f"Notes: {notes}" if notes else "")
    blocks += slide_comments(slide)
    return "\n\n".join(block for block in blocks if block) + marks


def _blob(slide: Any, shape: Any) -> bytes | None:
    """Return the bytes of the picture that a shape is, or is filled with."""
    for reference in shape._element.iter(f"{_DRAWING}blip"):
        with suppress(*_DAMAGE, KeyError):
            return bytes(slide.part.related_part(reference.get(f"{RELATIONSHIPS}embed")).blob)
    return None


def _lines(lines: list[tuple[int, str]]) -> str:
    """Return lines with their levels as a list; a single one as it is."""
    lines = [(level, line) for level, line in lines if line]
    return "\n".join(f"{'  ' * level}- {line}" if len(lines) > 1 else line for level, line in lines)


def _paragraph(paragraph: Any) -> str:
    """Return the text of a paragraph with its formulas, which python-pptx does not know."""
    parts: list[str] = []
    walk = etree.iterwalk(paragraph, events=("start",))
    for _, element in walk:
        if element.tag == f"{_MATH}oMath":
            parts.append(formula_text(element))
        elif element.tag == f"{_DRAWING}t":
            parts.append(element.text or "")
        elif element.tag == f"{_DRAWING}br":
            parts.append(" ")
        elif not str(element.tag).endswith("}Fallback"):
            continue
        walk.skip_subtree()
    return " ".join("".join(parts).split())


def _description(shape: Any) -> str:
    """Return how a picture is described."""
    return " ".join(next((part.get("descr", "") for part in shape._element.iter("{*}cNvPr")), "").split())


def _embedded(archive: zipfile.ZipFile, facts: Facts) -> list[tuple[str, bytes]]:
    """Return the files within, and note their names."""
    embedded = list(own_names(embedded_files(archive)))
    if embedded:
        facts.others["attachments"] = [name for name, _ in embedded]
    return embedded


def _diagram(slide: Any, shape: Any) -> list[str]:
    """Return the texts of a diagram (SmartArt), in their order."""
    lines: list[str] = []
    for reference in shape._element.iter(f"{_DIAGRAM}relIds"):
        try:
            root = parse_xml(slide.part.related_part(reference.get(f"{RELATIONSHIPS}dm")).blob)
        except (*_DAMAGE, KeyError):
            continue
        lines += _diagram_lines(root)
    return lines


def _diagram_lines(root: etree._Element) -> Iterator[str]:
    for point in root.iter(f"{_DIAGRAM}pt"):
        if point.get("type", "node") in ("node", "asst"):
            yield from filter(None, (_paragraph(paragraph) for paragraph in point.iter(f"{_DRAWING}p")))


def _shapes(shapes: Any) -> Iterator[Any]:
    """Yield shapes and those of their groups."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _chart(space: Any) -> str:
    """Return a chart as its title and a table, by the values in its XML: python-pptx knows some kinds alone."""
    title, rows = chart_rows(space)
    return "\n\n".join(filter(None, (title, table_text(rows))))


def read_xlsx(source: Source) -> Iterator[Item]:
    """Read a workbook: each sheet is a heading with its rows, which say their heads; or, by row, many documents."""
    import openpyxl

    with opened(source, "a workbook") as archive:
        title, facts = _properties(archive)
        embedded = _embedded(archive, facts)
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
        except (*_DAMAGE, KeyError, OSError, SyntaxError) as error:
            raise _damaged(source, "a workbook", error) from error
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
    """Return a cell as it is shown; dates and times as ISO 8601 has them."""
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


def _properties(archive: zipfile.ZipFile) -> tuple[str | None, Facts]:
    """Return title and facts of docProps/core.xml."""
    root = read_xml(archive, "docProps/core.xml")
    texts = {} if root is None else {name: (root.findtext(tag) or "").strip() for name, tag in _CORE.items()}
    values = {name: text for name, text in texts.items() if text}
    title = values.get("title")
    facts = Facts(
        author=values.get("author"),
        created=as_time(values.get("created")),
        modified=as_time(values.get("modified")),
        language=values.get("language"),
        others={name: values[name] for name in ("subject", "description", "keywords") if name in values},
    )
    return None if title is None or title.lower() in _NO_TITLES else title, facts


def _damaged(source: Source, what: str, error: Exception) -> ReadError:
    detail = " ".join(str(error).split())[:200] or type(error).__name__
    return source.error(f"cannot be read as {what}: {detail}; is it damaged? Open and save it again")
