"""OpenDocument (LibreOffice): texts, sheets and presentations, by the standard library and lxml.

OASIS, Open Document Format for Office Applications 1.3, part 3. Deleted text of tracked changes is left out.
"""

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as field_of

from lxml import etree

from pg_graphrag.beside.readers.archive import opened, parse_xml, read_part
from pg_graphrag.beside.readers.elements import become, inherited, line_of
from pg_graphrag.beside.readers.markdown import CHECKED, UNCHECKED, heading_of, is_for_code, joined_blocks
from pg_graphrag.beside.readers.office.charts import chart_summary
from pg_graphrag.beside.readers.plain.row_documents import row_documents, row_lines
from pg_graphrag.beside.readers.read_errors import ReadWarning
from pg_graphrag.beside.readers.source import Facts, Source, as_time, numbers_text
from pg_graphrag.beside.readers.tables import table_text
from pg_graphrag.beside.readers.web.formulas import formula_text
from pg_graphrag.ground.document import Document

_MIME = "application/vnd.oasis.opendocument."
_NAMES = {
    name: f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}"
    for name in ("office", "text", "table", "style", "drawing", "presentation", "manifest", "meta", "chart", "form")
}
_OFFICE, _TEXT, _TABLE, _STYLE, _DRAW, _PRESENTATION, _MANIFEST, _META, _CHART, _FORM = _NAMES.values()
_HREF = "{http://www.w3.org/1999/xlink}href"
_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"
_DC = "{http://purl.org/dc/elements/1.1/}"
_DESCRIPTIONS = ("{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}desc",)
# Elements that are no text at their place: deleted text, comments, tables of contents, indexes, forms.
_LEFT_OUT = frozenset(
    (
        *(f"{_TEXT}{name}" for name in ("tracked-changes", "table-of-content", "illustration-index", "table-index")),
        *(f"{_TEXT}{name}" for name in ("alphabetical-index", "sequence-decls", "variable-decls", "note-citation")),
        *(f"{_OFFICE}{name}" for name in ("annotation", "forms", "scripts", "event-listeners")),
        f"{_TEXT}ruby-text",
    )
)
_LISTS, _ITEMS = f"{_TEXT}list", frozenset((f"{_TEXT}list-item", f"{_TEXT}list-header"))
_ROW, _CELLS = f"{_TABLE}table-row", frozenset((f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"))
# Cells of one sheet, those that a file only repeats among them.
_MAX_CELLS = 5_000_000
_MAX_SPACES = 100
_DEEPEST_HEADING = 6


def read_odt(source: Source) -> Iterator[Document]:
    """Read a text: headings, lists, tables, code, notes; pictures by their descriptions."""
    with opened(source, "an OpenDocument text") as archive:
        root, text, title, facts = _parts(archive, source)
    body = root.find(f"{_OFFICE}body/{_OFFICE}text")
    content = "" if body is None else text.of(body) + text.take_marks()
    text.show_rest()
    if not content:
        raise source.error("holds no text; are its pages pictures?")
    yield source.document(content + "\n", f"{_MIME}text", title or heading_of(content), facts)


def read_odp(source: Source) -> Iterator[Document | ReadWarning]:
    """Read a presentation: each slide is a page with its title as heading, its text, tables and notes."""
    with opened(source, "an OpenDocument presentation") as archive:
        root, text, title, facts = _parts(archive, source)
    slides = [_slide(page, text, number) for number, page in enumerate(root.iter(f"{_DRAW}page"), 1)]
    if not any(slides):
        raise source.error(f"holds no text in its {len(slides)} slides; are they pictures?")
    facts.others["pages"] = len(slides)
    content = "".join(f"{slide}\n\n\f" for slide in slides)
    yield source.document(content, f"{_MIME}presentation", title or heading_of(slides[0]), facts)
    if empty := [number for number, slide in enumerate(slides, 1) if not slide]:
        yield ReadWarning(source.path, f"no text on {numbers_text('slide', empty)}")


def read_ods(source: Source) -> Iterator[Document | ReadWarning]:
    """Read a workbook: each sheet is a heading with its rows, which say their heads; or, by row, many documents."""
    mime = f"{_MIME}spreadsheet"
    with opened(source, "an OpenDocument spreadsheet") as archive:
        root, text, title, facts = _parts(archive, source)
    sheets = root.findall(f"{_OFFICE}body/{_OFFICE}spreadsheet/{_TABLE}table")
    names = [sheet.get(f"{_TABLE}name") or f"Sheet{number}" for number, sheet in enumerate(sheets, 1)]
    facts.others["sheets"] = names
    blocks: list[str] = []
    empty: list[str] = []
    for name, sheet in zip(names, sheets, strict=True):
        rows = _rows(sheet, text, source)
        if source.options.by_row:
            yield from row_documents(source, rows, mime, f"{source.stem} › {name}", f"{name}!", facts)
        elif texts := list(filter(None, (row_lines(rows), *_beside_cells(sheet, text)))):
            blocks += [f"# {name}{text.take_marks()}", *texts]
        elif marks := text.take_marks():
            blocks.append(f"# {name}{marks}")
        else:
            empty.append(name)
    if source.options.by_row:
        return
    text.show_rest()
    if not blocks:
        raise source.error("holds no cells with text or numbers")
    yield source.document("\n\n".join(blocks) + "\n", mime, title, facts)
    if empty:
        yield ReadWarning(source.path, f"no cells in {', '.join(map(repr, empty))}")


def _parts(archive: zipfile.ZipFile, source: Source) -> tuple[etree._Element, "_Text", str | None, Facts]:
    """Return the content, how its text is read, and title and facts of the file."""
    manifest = read_part(archive, "META-INF/manifest.xml")
    try:
        if manifest is not None and _is_encrypted(manifest):
            raise source.error("is encrypted; save it without a password")
        content = read_part(archive, "content.xml")
        if content is None:
            raise source.error("lacks content.xml, so it is no OpenDocument file; is it damaged?")
        root = parse_xml(content)
        _write_objects(root, archive)
        _write_controls(root)
        styles = read_part(archive, "styles.xml")
        text = _Text(_styles(root, None if styles is None else parse_xml(styles)), source)
        if source.gallery.is_open:
            text.images = {
                image.get(_HREF, ""): data
                for image in root.iter(f"{_DRAW}image")
                if (data := read_part(archive, posixpath.normpath(image.get(_HREF, ""))))
            }
    except etree.XMLSyntaxError as error:
        raise source.error(f"cannot be read as OpenDocument: {error}; is it damaged?") from None
    return root, text, *_properties(read_part(archive, "meta.xml"))


def _is_encrypted(manifest: bytes) -> bool:
    try:
        return parse_xml(manifest).find(f".//{_MANIFEST}encryption-data") is not None
    except etree.XMLSyntaxError:
        # Old programs leave its namespace out, and its further contents do not matter here.
        return b"encryption-data" in manifest


def _write_objects(root: etree._Element, archive: zipfile.ZipFile) -> None:
    """Put formulas and charts, which are objects with a file of their own, in their places, as text and tables."""
    is_sheet = root.find(f"{_OFFICE}body/{_OFFICE}spreadsheet") is not None
    for reference in list(root.iter(f"{_DRAW}object")):
        frame = reference.getparent()
        name = posixpath.normpath(f"{reference.get(_HREF, '')}/content.xml")
        part = read_part(archive, name) if frame is not None and frame.tag == f"{_DRAW}frame" else None
        if part is None:
            continue
        inner = parse_xml(part)
        body = inner.find(f"{_OFFICE}body")
        if etree.QName(inner).localname == "math":
            become(frame, f"{_TEXT}span", formula_text(inner))
        elif (chart := inner.find(f"{_OFFICE}body/{_OFFICE}chart/{_CHART}chart")) is not None:
            # Its values are a table, which is not shown; in a sheet they stand in cells, too.
            title, table = chart.find(f"{_CHART}title"), chart.find(f"{_TABLE}table")
            summary = etree.Element(f"{_TEXT}p")
            rows = [] if table is None else [list(map(line_of, row.iter(*_CELLS))) for row in table.iter(_ROW)]
            summary.text = chart_summary(line_of(title), rows or [[]])
            become(frame, frame.tag)
            frame.extend(
                [summary]
                if is_sheet
                else [*chart.iterfind(f"{_CHART}title/{_TEXT}p"), *chart.iterfind(f"{_TABLE}table")]
            )
        elif body is not None and len(body):
            # A sheet or text that is put into another one.
            become(frame, frame.tag)
            frame.extend(list(body[0]))


def _write_controls(root: etree._Element) -> None:
    """Put what fields of forms say in their places: check boxes, lists, texts."""
    values: dict[str, str] = {}
    for field in root.iter(f"{_FORM}*"):
        name = etree.QName(field).localname
        value = field.get(f"{_FORM}current-value") or field.get(f"{_FORM}value", "")
        if name in ("checkbox", "radio"):
            states = filter(
                None, (field.get(f"{_FORM}{key}") for key in ("current-state", "state", "current-selected"))
            )
            box = CHECKED if next(states, "") in ("checked", "true") else UNCHECKED
            value = f"{box} {field.get(f'{_FORM}label', '')}".strip()
        elif name == "listbox":
            chosen = [item for item in field.iter(f"{_FORM}option") if item.get(f"{_FORM}current-selected") == "true"]
            value = ", ".join(item.get(f"{_FORM}label", "") for item in chosen)
        elif name not in ("text", "textarea", "combobox", "date", "time", "number", "formatted-text"):
            continue
        for attribute in (f"{_FORM}id", _XML_ID):
            values[field.get(attribute, "")] = value
    for control in list(root.iter(f"{_DRAW}control")):
        if text := values.get(control.get(f"{_DRAW}control", "")):
            is_inline = next(control.iterancestors(f"{_TEXT}p", f"{_TEXT}h"), None) is not None
            become(control, f"{_TEXT}{'span' if is_inline else 'p'}", text)


def _properties(data: bytes | None) -> tuple[str | None, Facts]:
    try:
        meta = parse_xml(data or b"")
    except etree.XMLSyntaxError:
        return None, Facts()

    def texts(name: str) -> list[str]:
        return [" ".join(element.text.split()) for element in meta.iter(name) if element.text and element.text.strip()]

    def first(name: str) -> str | None:
        return next(iter(texts(name)), None)

    names = {"subject": f"{_DC}subject", "description": f"{_DC}description"}
    others: dict[str, object] = {name: value for name, element in names.items() if (value := first(element))}
    if keywords := texts(f"{_META}keyword"):
        others["keywords"] = ", ".join(keywords)
    return first(f"{_DC}title"), Facts(
        author=first(f"{_META}initial-creator") or first(f"{_DC}creator"),
        created=as_time(first(f"{_META}creation-date")),
        modified=as_time(first(f"{_DC}date")),
        language=first(f"{_DC}language"),
        others=others,
    )


def _styles(*roots: etree._Element | None) -> dict[str, str]:
    """Return {paragraph style: its purpose}: "title", "code", or nothing."""
    kinds: dict[str, str] = {}
    parents: dict[str, str] = {}
    for style in (style for root in roots if root is not None for style in root.iter(f"{_STYLE}style")):
        name, font = style.get(f"{_STYLE}name", ""), style.find(f"{_STYLE}text-properties")
        parents[name] = style.get(f"{_STYLE}parent-style-name", "")
        if name == "Title":
            kinds[name] = "title"
        elif name.startswith("Preformatted") or (font is not None and is_for_code(font.get(f"{_STYLE}font-name", ""))):
            kinds[name] = "code"
    return inherited(kinds, parents, "")


@dataclass
class _Text:
    """Blocks of text as Markdown."""

    styles: dict[str, str]
    source: Source
    # {reference: bytes} of pictures, if they are wanted; the slide; marks of pictures that no text follows yet.
    images: dict[str, bytes] = field_of(default_factory=dict)
    page: int | None = None
    _pending: str = ""

    def show_rest(self) -> None:
        """Take in the pictures that stand where no text is read, such as cells: without a place."""
        for data in self.images.values():
            self.source.gallery.add(self.source.key, data, page=self.page)

    def take_marks(self) -> str:
        """Return the marks of pictures that stand in no text yet."""
        marks, self._pending = self._pending, ""
        return marks

    def of(self, parent: etree._Element) -> str:
        """Return the blocks below an element, with blank lines between them."""
        return "\n\n".join(joined_blocks(self._blocks(parent)))

    def line(self, element: etree._Element) -> str:
        """Return all text below an element in one line."""
        return " ".join(" ".join(self._inline(element)).split()) if len(element) else _one_line(element.text)

    def _blocks(self, parent: etree._Element) -> Iterator[tuple[str, str]]:
        """Yield (kind, text) of blocks: adjacent code paragraphs as one, others by themselves."""
        for element in parent:
            tag = element.tag
            if tag in _LEFT_OUT or not isinstance(tag, str):
                continue
            if tag == f"{_TEXT}h":
                level = element.get(f"{_TEXT}outline-level", "1")
                depth = min(int(level) if level.isdecimal() else 1, _DEEPEST_HEADING)
                yield from self._paragraph(element, "heading", f"{'#' * depth} ")
            elif tag == f"{_TEXT}p":
                kind = self.styles.get(element.get(f"{_TEXT}style-name", ""), "")
                if kind == "code":
                    yield kind, self._run(element).rstrip()
                else:
                    yield from self._paragraph(element, kind)
            elif tag == _LISTS:
                yield "text", "\n".join(self._list(element, 0))
            elif tag == f"{_TABLE}table":
                yield "table", table_text([self._row(row) for row in element.iter(_ROW) if _table_of(row) is element])
            elif tag in (f"{_DRAW}frame", f"{_DRAW}custom-shape", f"{_DRAW}image"):
                yield from self.frame(element)
            else:
                yield from self._blocks(element)

    def _paragraph(self, element: etree._Element, kind: str = "", mark: str = "") -> Iterator[tuple[str, str]]:
        if text := _one_line(self._run(element)):
            yield kind, f"{mark}{text}{self.take_marks()}"
        yield from self._attached(element)

    def _attached(self, element: etree._Element) -> Iterator[tuple[str, str]]:
        """Yield the objects anchored in a paragraph: text boxes, pictures, notes, comments."""
        for inner in element.iter(f"{_DRAW}frame", f"{_DRAW}custom-shape", f"{_TEXT}note-body", f"{_OFFICE}annotation"):
            if inner.tag == f"{_OFFICE}annotation":
                yield "text", self.comment(inner)
            elif inner.tag == f"{_TEXT}note-body":
                yield from (("text", f"Note: {text}") for _, text in self._blocks(inner) if text)
            elif _is_outermost(inner, element):
                yield from self.frame(inner)

    def comment(self, annotation: etree._Element) -> str:
        """Return a comment, with who wrote it."""
        author = _one_line(annotation.findtext(f"{_DC}creator"))
        comment = " ".join(self._run(part) for part in annotation.iter(f"{_TEXT}p"))
        return f"{f'Comment ({author})' if author else 'Comment'}: {_one_line(comment)}"

    def frame(self, frame: etree._Element) -> Iterator[tuple[str, str]]:
        """Yield the blocks of a text box or table; of a picture its description."""
        self._show(frame)
        blocks = [block for block in self._blocks(frame) if block[1]]
        yield from blocks
        if not blocks:
            for description in frame.iter(*_DESCRIPTIONS):
                yield "text", _one_line(description.text)

    def _show(self, frame: etree._Element) -> None:
        """Take in the picture of a frame; its mark stands behind the next text."""
        for image in frame.iterfind(f"{_DRAW}image"):
            if data := self.images.get(image.get(_HREF, "")):
                description = next((_one_line(part.text) for part in frame.iter(*_DESCRIPTIONS)), "")
                self._pending += self.source.gallery.add(
                    self.source.key, data, page=self.page, alternative_text=description
                )
                break

    def _list(self, element: etree._Element, depth: int) -> Iterator[str]:
        for item in element:
            if item.tag not in _ITEMS:
                continue
            is_first = True
            for child in item:
                if child.tag == _LISTS:
                    yield from self._list(child, depth + 1)
                elif child.tag in (f"{_TEXT}p", f"{_TEXT}h"):
                    for _, text in self._paragraph(child):
                        yield f"{'  ' * depth}{'- ' if is_first else '  '}{text}"
                        is_first = False

    def _row(self, row: etree._Element) -> list[str]:
        return [
            text
            for cell in row
            if cell.tag in _CELLS
            for text in [self.line(cell)] * _count(cell, "number-columns-repeated")
        ]

    def _run(self, element: etree._Element) -> str:
        """Return the text of a paragraph, without anchored objects."""
        return "".join(self._inline(element))

    def _inline(self, element: etree._Element) -> Iterator[str]:
        yield element.text or ""
        for child in element:
            tag = child.tag
            if tag == f"{_TEXT}s":
                count = child.get(f"{_TEXT}c", "1")
                yield " " * min(int(count) if count.isdecimal() and len(count) < 9 else 1, _MAX_SPACES)
            elif tag == f"{_TEXT}tab":
                yield "\t"
            elif tag == f"{_TEXT}line-break":
                yield "\n"
            elif isinstance(tag, str) and not tag.startswith(_DRAW) and tag not in _LEFT_OUT and tag != f"{_TEXT}note":
                yield from self._inline(child)
                if tag in (f"{_TEXT}p", f"{_TEXT}h"):
                    yield "\n"
            yield child.tail or ""


def _slide(page: etree._Element, text: _Text, number: int) -> str:
    text.page = number
    blocks: list[str] = []
    notes = ""
    comments: list[str] = []
    for element in page:
        if element.tag == f"{_PRESENTATION}notes":
            notes = text.of(element)
        elif element.tag == f"{_OFFICE}annotation":
            comments.append(text.comment(element))
        elif element.get(f"{_PRESENTATION}class") == "title":
            if heading := _one_line(text.of(element)):
                blocks.insert(0, f"# {heading}")
        else:
            blocks.append("\n\n".join(joined_blocks(text.frame(element))))
    slide = "\n\n".join(block for block in (*blocks, f"Notes: {notes}" if notes else "", *comments) if block)
    return slide + text.take_marks()


def _rows(sheet: etree._Element, text: _Text, source: Source) -> Iterator[list[str]]:
    """Yield the rows of a sheet as text."""
    size = 0
    for row in sheet.iter(_ROW):
        if _table_of(row) is not sheet:
            continue
        cells: list[str] = []
        pending = 0
        for cell in row:
            if cell.tag not in _CELLS:
                continue
            count = _count(cell, "number-columns-repeated")
            value = text.line(cell)
            if not value:
                pending += count
                continue
            size += pending + count
            _check_size(size, source)
            cells += [""] * pending + [value] * count
            pending = 0
        count = _count(row, "number-rows-repeated") if cells else 1
        size += len(cells) * (count - 1)
        _check_size(size, source)
        yield from (cells for _ in range(count))


def _beside_cells(sheet: etree._Element, text: _Text) -> Iterator[str]:
    """Yield the notes at cells of a sheet, and its drawings: charts, text boxes, descriptions of pictures."""
    number = 1
    for row in sheet.iter(_ROW):
        if _table_of(row) is not sheet:
            continue
        column = 1
        for cell in row:
            if cell.tag not in _CELLS:
                continue
            for note in cell.iterfind(f"{_OFFICE}annotation"):
                yield f"Note at {_letters(column)}{number}: {text.comment(note).partition(': ')[2]}"
            for frame in cell:
                if str(frame.tag).startswith(_DRAW):
                    yield "\n".join(joined_blocks(text.frame(frame)))
            column += _count(cell, "number-columns-repeated")
        number += _count(row, "number-rows-repeated")
    for frame in sheet.iterfind(f"{_TABLE}shapes/*"):
        yield "\n".join(joined_blocks(text.frame(frame)))


def _letters(column: int) -> str:
    """Return the letters of a column from 1: A, …, Z, AA."""
    letters = ""
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def _check_size(size: int, source: Source) -> None:
    if size > _MAX_CELLS:
        raise source.error(f"has more than {_MAX_CELLS:,} cells in a sheet; split it, or save it as CSV")


def _count(element: etree._Element, name: str) -> int:
    value = element.get(f"{_TABLE}{name}", "1")
    return int(value) if value.isdecimal() and len(value) < 9 else 1


def _table_of(row: etree._Element) -> etree._Element | None:
    return next(row.iterancestors(f"{_TABLE}table"), None)


def _is_outermost(frame: etree._Element, paragraph: etree._Element) -> bool:
    """Whether no other frame lies between a frame and the paragraph that it is anchored in."""
    for above in frame.iterancestors():
        if above is paragraph:
            return True
        if str(above.tag).startswith(_DRAW) or above.tag == f"{_TEXT}note-body":
            return False
    return False


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
