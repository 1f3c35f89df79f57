"""What a workbook of Excel holds besides cells: notes, charts, text boxes and descriptions of pictures."""

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO

from lxml import etree

from pg_graphrag.beside.readers.archive import RELATIONSHIPS, read_part, read_xml, related_parts
from pg_graphrag.beside.readers.office.charts import chart_rows, chart_summary
from pg_graphrag.beside.readers.office.office_controls import controls_of
from pg_graphrag.beside.readers.tables import table_text

_NOTES = re.compile(r"(?:\A|/)(?:threadedC|c)omments?\d{0,5}\.xml\Z|/(?:threadedC|c)omments/")
_DRAWING = re.compile(r"/drawings/drawing\d{0,5}\.xml\Z")
_CHART = re.compile(r"/charts/chart(?:Ex)?\d{0,5}\.xml\Z")
_RELATIONSHIP, _EMBED = f"{RELATIONSHIPS}id", f"{RELATIONSHIPS}embed"
_TEXTS = "xl/sharedStrings.xml"
_NO_TEXTS = '<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"/>'
_WORKBOOK = "xl/workbook.xml"
# What Excel writes for programs that know no conversations.
_PLACEHOLDER = "[Threaded comment]"


def as_openpyxl_reads(archive: zipfile.ZipFile, content: bytes) -> BytesIO:
    """Return a workbook with the table of texts that it names: some programs leave it out where cells have theirs."""
    types = read_part(archive, "[Content_Types].xml") or b""
    if _TEXTS.encode() not in types or _TEXTS in archive.namelist():
        return BytesIO(content)
    file = BytesIO(content)
    with zipfile.ZipFile(file, "a") as written:
        written.writestr(_TEXTS, _NO_TEXTS)
    file.seek(0)
    return file


def beside_cells(archive: zipfile.ZipFile, path: str) -> list[str]:
    """Return notes at cells, charts, text boxes, descriptions of pictures and controls of the sheet whose part has a path."""
    blocks: list[str] = []
    for part in related_parts(archive, path).values():
        root = read_xml(archive, part) if _NOTES.search(part) or _DRAWING.search(part) else None
        if root is None:
            continue
        blocks += _notes(root) if _NOTES.search(part) else _drawn(archive, part, root)
    return blocks + controls_of(archive, path)


def sheet_pictures(archive: zipfile.ZipFile, path: str) -> Iterator[tuple[bytes, str]]:
    """Yield (bytes, description) of the pictures on the sheet whose part has a path."""
    for part in related_parts(archive, path).values():
        root = read_xml(archive, part) if _DRAWING.search(part) else None
        if root is None:
            continue
        parts = related_parts(archive, part)
        for picture in root.iter("{*}pic"):
            for reference in picture.iter("{*}blip"):
                if data := read_part(archive, parts.get(reference.get(_EMBED, ""), "")):
                    yield data, next((item.get("descr", "") for item in picture.iter("{*}cNvPr")), "")


def chart_sheets(archive: zipfile.ZipFile) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, blocks) of sheets that are a chart, which openpyxl does not count as sheets."""
    workbook = read_xml(archive, _WORKBOOK)
    parts = related_parts(archive, _WORKBOOK)
    for sheet in workbook.iter("{*}sheet") if workbook is not None else ():
        path = parts.get(sheet.get(_RELATIONSHIP, ""), "")
        if "/chartsheets/" in path:
            yield sheet.get("name", ""), beside_cells(archive, path)


def _notes(root: etree._Element) -> Iterator[str]:
    """Yield notes and the messages of conversations at cells, which openpyxl does not read row by row."""
    for note in root.iter("{*}comment", "{*}threadedComment"):
        text = " ".join("".join(note.itertext("{*}t", "{*}text")).split())
        if text and not text.startswith(_PLACEHOLDER):
            yield f"Note at {note.get('ref', '')}: {text}"


def _drawn(archive: zipfile.ZipFile, path: str, root: etree._Element) -> Iterator[str]:
    """Yield the drawings of a sheet, in order."""
    charts = {key: part for key, part in related_parts(archive, path).items() if _CHART.search(part)}
    for element in root.iter("{*}sp", "{*}pic", "{*}chart"):
        kind = etree.QName(element).localname
        if kind == "chart":
            chart = read_xml(archive, charts.get(element.get(_RELATIONSHIP, ""), ""))
            if chart is not None:
                yield from filter(None, (_chart(chart),))
        elif kind == "sp":
            lines = (" ".join("".join(line.itertext("{*}t")).split()) for line in element.iter("{*}p"))
            if text := "\n".join(filter(None, lines)):
                yield text
        elif text := " ".join(next((part.get("descr", "") for part in element.iter("{*}cNvPr")), "").split()):
            yield text


def _chart(space: etree._Element) -> str:
    """Return the contents of a chart: titles, series and categories if it shows cells of the workbook; else a table, as in
    Word.
    """
    title, rows = chart_rows(space)
    if not rows:
        # Kinds of charts from 2016 on.
        return " ".join(" ".join(space.itertext("{*}t", "{*}v")).split())
    if any("[" not in (reference.text or "[") for reference in space.iter("{*}f")):
        return chart_summary(title, rows)
    return "\n\n".join(filter(None, (title, table_text(rows))))
