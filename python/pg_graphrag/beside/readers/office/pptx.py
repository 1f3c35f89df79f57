"""Presentations (Office Open XML), by python-pptx."""

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

from pg_graphrag.beside.readers.archive import RELATIONSHIPS, opened, parse_xml
from pg_graphrag.beside.readers.attached import read_attachments
from pg_graphrag.beside.readers.markdown import heading_of
from pg_graphrag.beside.readers.office.charts import chart_rows
from pg_graphrag.beside.readers.office.office_common import (
    DAMAGE,
    DIAGRAM,
    DRAWING,
    damaged,
    diagram_lines,
    files_within,
    paragraph_text,
    properties,
)
from pg_graphrag.beside.readers.office.office_controls import controls_of
from pg_graphrag.beside.readers.office.office_embedded import slide_comments
from pg_graphrag.beside.readers.office.office_unread import unread_of
from pg_graphrag.beside.readers.read_errors import ReadWarning
from pg_graphrag.beside.readers.source import Item, Source, numbers_text
from pg_graphrag.beside.readers.tables import table_text

_PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"


def read_pptx(source: Source) -> Iterator[Item]:
    """Read a presentation: each slide is a page with its title as heading, its text, tables and notes."""
    import pptx
    from pptx.exc import PythonPptxError

    with opened(source, "a presentation") as archive:
        title, facts = properties(archive)
        embedded = files_within(archive, facts)
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
        except (PythonPptxError, *DAMAGE, RecursionError, OSError) as error:
            raise damaged(source, "a presentation", error) from error
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
                _lines([(paragraph.level, paragraph_text(paragraph._p)) for paragraph in shape.text_frame.paragraphs])
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
    for reference in shape._element.iter(f"{DRAWING}blip"):
        with suppress(*DAMAGE, KeyError):
            return bytes(slide.part.related_part(reference.get(f"{RELATIONSHIPS}embed")).blob)
    return None


def _lines(lines: list[tuple[int, str]]) -> str:
    """Return lines with levels as a list; a single line unchanged."""
    lines = [(level, line) for level, line in lines if line]
    return "\n".join(f"{'  ' * level}- {line}" if len(lines) > 1 else line for level, line in lines)


def _description(shape: Any) -> str:
    """Return how a picture is described."""
    return " ".join(next((part.get("descr", "") for part in shape._element.iter("{*}cNvPr")), "").split())


def _diagram(slide: Any, shape: Any) -> list[str]:
    """Return the texts of a diagram (SmartArt), in their order."""
    lines: list[str] = []
    for reference in shape._element.iter(f"{DIAGRAM}relIds"):
        try:
            root = parse_xml(slide.part.related_part(reference.get(f"{RELATIONSHIPS}dm")).blob)
        except (*DAMAGE, KeyError):
            continue
        lines += diagram_lines(root)
    return lines


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
