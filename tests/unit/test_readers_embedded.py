"""Files that are put into Office files are documents of their own; comments and pictures of slides are read."""

import io
from pathlib import Path

import pytest

pytest.importorskip("lxml")
pytest.importorskip("mammoth")
pytest.importorskip("pptx")

import openpyxl
import pptx
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import read
from pptx.enum.shapes import PROG_ID
from pptx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI

from tests.unit import files
from tests.unit.files import the_document, write


def workbook() -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["Terra Nova", "Evans"])
    book.save(file)
    return file.getvalue()


def test_files_within_a_document_of_word_are_documents(tmp_path: Path) -> None:
    parts = {"embeddings/Sheet1.xlsx": workbook(), "embeddings/oleObject1.bin": b"\xd0\xcf"}
    data = files.docx(files.paragraph("Our ships:"), parts=parts)
    report, sheet, warning = read(write(tmp_path / "a.docx", data), "a.docx")
    assert isinstance(report, Document) and isinstance(sheet, Document)
    assert (report.content, report.metadata["attachments"]) == ("Our ships:", ["Sheet1.xlsx", "oleObject1.bin"])
    assert (sheet.source_key, sheet.metadata["attachment_of"]) == ("a.docx/Sheet1.xlsx", "a.docx")
    assert "Terra Nova" in sheet.content
    assert "attachments of kinds that are not read: oleObject1.bin" in str(warning)


def deck() -> tuple[pptx.presentation.Presentation, pptx.slide.Slide]:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Ships"
    return presentation, slide


def saved(presentation: pptx.presentation.Presentation, path: Path) -> Path:
    file = io.BytesIO()
    presentation.save(file)
    return write(path, file.getvalue())


def test_files_within_a_presentation_are_documents(tmp_path: Path) -> None:
    presentation, slide = deck()
    slide.shapes.add_ole_object(io.BytesIO(workbook()), PROG_ID.XLSX, 0, 0)
    talk, sheet = read(saved(presentation, tmp_path / "a.pptx"), "a.pptx")
    assert isinstance(talk, Document) and isinstance(sheet, Document)
    assert talk.content == "# Ships\n\n\f"
    assert "Terra Nova" in sheet.content


def test_comments_on_slides_and_descriptions_of_pictures_are_read(tmp_path: Path) -> None:
    presentation, slide = deck()
    main = "http://schemas.openxmlformats.org/presentationml/2006/main"
    for owner, kind, name, text in (
        (presentation.part, RELATIONSHIP_TYPE.COMMENT_AUTHORS, "commentAuthors", '<p:cmAuthor id="0" name="Grace"/>'),
        (
            slide.part,
            RELATIONSHIP_TYPE.COMMENTS,
            "comments/comment1",
            '<p:cm authorId="0"><p:text>Which?</p:text></p:cm>',
        ),
    ):
        blob = f'<p:list xmlns:p="{main}">{text}</p:list>'.encode()
        part = Part(PackURI(f"/ppt/{name}.xml"), CONTENT_TYPE.XML, presentation.part.package, blob)
        owner.relate_to(part, kind)
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\0\0\0\0:~\x9bU"
    picture = head + b"\0\0\0\nIDATx\x9cc`\0\0\0\2\0\1H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82"
    shape = slide.shapes.add_picture(io.BytesIO(picture), 0, 0)
    shape._element.nvPicPr.cNvPr.set("descr", "A ship in ice")
    document = the_document(saved(presentation, tmp_path / "a.pptx"))
    assert document.content == "# Ships\n\nA ship in ice\n\nComment (Grace): Which?\n\n\f"
