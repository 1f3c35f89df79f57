"""PDF whose text is not what it shows, or not all of it: said, and what is in the file besides is read."""

import io
from pathlib import Path

import pytest

pytest.importorskip("pypdfium2")

import pypdfium2
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import read

from tests.unit.files import lines, pdf, the_error, write

PROSE = "The loom wove the finest linen of the province until the river took the mill and its wheels"


def test_text_whose_fonts_do_not_say_which_letters_they_have_is_left_out_and_said(tmp_path: Path) -> None:
    moved = {chr(code): chr(code - 29) for code in range(ord("a"), ord("z") + 1)}
    private = {sign: chr(0xF000 + ord(sign)) for sign in "abcdefghijklmnopqrstuvwxyz "}
    for signs in (moved, private):
        garbled = [(72.0, 700.0 - 14 * n, "F4", 11.0, PROSE.lower()) for n in range(6)]
        both = pdf([lines([PROSE]), garbled], signs=signs)
        document, warning = read(write(tmp_path / "a.pdf", both), "a.pdf")
        assert isinstance(document, Document)
        assert document.content == f"{PROSE}\n\n\f\f"
        assert "garbled text left out of page 2: their fonts" in str(warning)
        assert "so that its text is garbled; run OCR" in the_error(
            write(tmp_path / "b.pdf", pdf([garbled], signs=signs))
        )


def test_files_in_a_pdf_are_documents(tmp_path: Path) -> None:
    document = pypdfium2.PdfDocument(pdf([lines([PROSE])]))
    for name, data in (("plan.md", b"# Plan\n\nTurn left."), ("more.txt", b"Turn right."), ("plan.cad", b"x")):
        document.new_attachment(name).set_data(data)
    file = io.BytesIO()
    document.save(file)
    report, first, second, warning = read(write(tmp_path / "a.pdf", file.getvalue()), "a.pdf")
    assert isinstance(report, Document) and isinstance(first, Document) and isinstance(second, Document)
    assert sorted(report.metadata["attachments"]) == ["more.txt", "plan.cad", "plan.md"]
    assert {first.source_key, second.source_key} == {"a.pdf/plan.md", "a.pdf/more.txt"}
    assert first.metadata["attachment_of"] == "a.pdf"
    assert "attachments of kinds that are not read: plan.cad" in str(warning)


def test_a_page_with_too_much_text_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pg_graphrag.beside.readers.pdf.pdf.MAX_CHARACTERS", 20)
    _, warning = read(write(tmp_path / "a.pdf", pdf([lines([PROSE])])), "a.pdf")
    assert "more than 20 characters on page 1: the rest is left out" in str(warning)


@pytest.mark.parametrize("accent_first", [True, False])
def test_accents_that_are_drawn_above_letters_are_of_them(tmp_path: Path, accent_first: bool) -> None:
    """As old fonts of TeX do, which have no letters with accents."""
    accent, letter = (78.7, 700.0, "F1", 11.0, "¨"), (77.5, 700.0, "F1", 11.0, "o")
    middle = [accent, letter] if accent_first else [letter, accent]
    page = [(72.0, 700.0, "F1", 11.0, "J"), *middle, (83.6, 700.0, "F1", 11.0, "rg said ´a and `b`")]
    document, *_ = read(write(tmp_path / "a.pdf", pdf([page])), "a.pdf")
    assert isinstance(document, Document)
    assert document.content == "Jörg said ´a and `b`\n\n\f"


def test_fields_of_a_page_that_was_taken_out_of_a_form_are_read(tmp_path: Path) -> None:
    data = pdf([lines(["Agency"])], fields={"agency": "Fish and Wildlife Service"}).replace(b"/AcroForm", b"/WasOfForm")
    document, *_ = read(write(tmp_path / "a.pdf", data), "a.pdf")
    assert isinstance(document, Document)
    assert document.content == "Agency\n\nagency: Fish and Wildlife Service\n\n\f"
