"""Word documents (Office Open XML), by mammoth."""

import re
import zipfile
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any
from xml.parsers import expat

from lxml import etree

from pg_graphrag.beside.readers.archive import RELATIONSHIPS, opened, parse_xml, read_part, read_xml, related_parts
from pg_graphrag.beside.readers.attached import read_attachments
from pg_graphrag.beside.readers.elements import become
from pg_graphrag.beside.readers.markdown import heading_of
from pg_graphrag.beside.readers.office.charts import chart_rows
from pg_graphrag.beside.readers.office.office_common import (
    DAMAGE,
    DIAGRAM,
    MATH,
    damaged,
    diagram_lines,
    files_within,
    properties,
)
from pg_graphrag.beside.readers.office.office_controls import control_text
from pg_graphrag.beside.readers.office.office_fields import with_headings, write_fields
from pg_graphrag.beside.readers.office.office_unread import LOST_PICTURE, take_out_lost_pictures, unread_of
from pg_graphrag.beside.readers.pictures import MAX_PICTURE_BYTES
from pg_graphrag.beside.readers.source import Item, Source
from pg_graphrag.beside.readers.web.formulas import formula_text
from pg_graphrag.beside.readers.web.html import main_text, marks_of, parse_html

_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_BACK_LINKS = re.compile(r" ?↑(?=\n|\Z)")
_TEXT_PART = re.compile(r"word/(?:document\d?|footnotes|endnotes)\.xml")
_STYLES_PART = re.compile(r"word/styles\d?\.xml")
# Elements that hold or separate text, with the equivalents that mammoth knows.
_KNOWN_AS = {**dict.fromkeys(("fldSimple", "dir", "bdo", "ruby", "rubyBase"), "smartTag"), "cr": "br", "ptab": "tab"}
_UNKNOWN = re.compile(
    rb"oMath|drawingml/2006/(?:chart|diagram)|<w:(?:fldSimple|dir|bdo|ruby|cr|ptab|sdt|sym|ffData|outlineLvl|control)[ />]"
    rb"|<(?:\w{1,9}:)?(?:blip|imagedata)[ />]"
)
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"


def read_docx(source: Source) -> Iterator[Item]:
    """Read a document: headings, lists, tables, charts, notes, comments at its end; pictures by their descriptions."""
    import mammoth

    with opened(source, "a document of Word") as archive:
        title, facts = properties(archive)
        embedded = files_within(archive, facts)
        source.left_out.update(unread_of(archive))
        images: list[bytes] | None = [] if source.gallery.is_open else None
        try:
            comments = list(_comments(archive))
            result = mammoth.convert_to_html(
                _as_mammoth_reads(archive, source),
                convert_image=mammoth.images.img_element(partial(_image, images, source)),
                external_file_access=False,
            )
        except (*DAMAGE, RecursionError, OSError, expat.ExpatError) as error:
            raise damaged(source, "a document of Word", error) from error
    try:
        marks = marks_of(source, lambda url: (images or [])[int(url)])
        content = main_text(parse_html(f"<body>{result.value}</body>"), marks)
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
    except (*DAMAGE, OSError):
        source.left_out[LOST_PICTURE] += 1
        return {"src": ""}
    return {"src": str(len(images) - 1)}


def _as_mammoth_reads(archive: zipfile.ZipFile, source: Source) -> BytesIO:
    """Return a document with formulas, charts, fields (numbers of captions, check boxes) and the like turned into text and
    tables.

    mammoth drops elements that it does not know.
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
            # A word with its reading above it (ruby) keeps only the word.
            reading.clear()
        for element in root.iter(*(f"{_WORD}{name}" for name in _KNOWN_AS)):
            element.tag = _WORD + _KNOWN_AS[etree.QName(element).localname]
        for formula in list(root.iter(f"{MATH}oMath")):
            following = formula.getnext()
            is_followed = following is not None and following.tag == formula.tag
            text = formula_text(formula) + (" " if is_followed else "")
            become(formula, f"{_WORD}r")
            etree.SubElement(formula, f"{_WORD}t").text = text
        for paragraph in list(root.iter(f"{MATH}oMathPara")):
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
    references = list(root.iter(_CHART, f"{DIAGRAM}relIds"))
    parts = related_parts(archive, name) if references else {}
    for reference in references:
        key = "id" if reference.tag == _CHART else "dm"
        part = read_xml(archive, parts.get(reference.get(f"{RELATIONSHIPS}{key}", ""), ""))
        paragraph = next(reference.iterancestors(f"{_WORD}p"), None)
        if part is None or paragraph is None:
            continue
        if reference.tag != _CHART:
            for line in reversed(list(diagram_lines(part))):
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
