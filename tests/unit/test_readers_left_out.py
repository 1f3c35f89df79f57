"""Each format says what it could not read."""

import io
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pypdfium2")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadWarning, read

from tests.unit.files import docx, epub, lines, message, pdf, the_document, the_error, write, zipped

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def warning(path: Path, content: bytes | str) -> str:
    """Return the one warning of a file, of which a document is read."""
    document, *others = read(write(path, content), path.name)
    assert isinstance(document, Document), document
    (item,) = (other for other in others if isinstance(other, ReadWarning))
    return item.reason


def reasons(path: Path, content: bytes | str) -> list[str]:
    """Return all warnings of a file."""
    return [item.reason for item in read(write(path, content), path.name) if isinstance(item, ReadWarning)]


def word(body: str) -> str:
    text = "<w:p><w:r><w:t>The text.</w:t></w:r></w:p>"
    return f'<w:document xmlns:w="{_W}" xmlns:r="{_R}" xmlns:a="{_A}"><w:body>{text}{body}</w:body></w:document>'


def with_parts(archive: bytes, parts: dict[str, str | bytes]) -> bytes:
    """Return an archive with parts put in place of its own."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return zipped({**{name: file.read(name) for name in file.namelist()}, **parts})


def test_a_document_of_word_that_lacks_a_picture_is_read(tmp_path: Path) -> None:
    body = '<w:p><w:r><w:drawing><a:blip r:embed="media/gone.png"/></w:drawing></w:r></w:p>'
    assert warning(tmp_path / "a.docx", docx("", document=word(body))) == (
        "left out: 1 × picture that is not in the file"
    )
    assert the_text(tmp_path / "a.docx") == "The text."


def the_text(path: Path) -> str:
    document = next(iter(read(path, path.name)))
    assert isinstance(document, Document)
    return document.content


def test_a_file_that_word_shows_as_a_part_of_the_text_is_read(tmp_path: Path) -> None:
    data = docx("", document=word('<w:altChunk r:id="aFChunk/a.html"/>'), parts={"aFChunk/a.html": "<p>Inserted.</p>"})
    outer, inner = read(write(tmp_path / "a.docx", data), "a.docx")
    assert isinstance(outer, Document)
    assert isinstance(inner, Document)
    assert (inner.source_key, inner.content) == ("a.docx/a.html", "Inserted.")


def test_formulas_of_the_old_editor_of_word_are_counted(tmp_path: Path) -> None:
    body = '<w:p><w:r><w:object><o:OLEObject xmlns:o="urn:o" ProgID="Equation.3"/></w:object></w:r></w:p>'
    assert warning(tmp_path / "a.docx", docx("", document=word(body))) == (
        "left out: 1 × formula of the old equation editor"
    )


def test_films_and_sounds_of_slides_are_counted(tmp_path: Path) -> None:
    pptx = pytest.importorskip("pptx")
    deck, file = pptx.Presentation(), io.BytesIO()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Launches"
    slide.shapes.add_movie(str(write(tmp_path / "talk.mp4", b"0" * 99)), 0, 0, 9, 9)
    deck.save(file)
    assert warning(tmp_path / "a.pptx", file.getvalue()) == "left out: 1 × video"


@pytest.mark.parametrize(
    ("html", "left_out"),
    [
        ("<video src=a.mp4></video><audio><source src=b.mp3></audio>", "1 × sound, 1 × video"),
        ("<iframe src=b.html></iframe><iframe src=c.html width=1></iframe>", "1 × page in a frame"),
        ("<object data=a.pdf></object>", "1 × embedded file"),
        ("<object data=a.svg><embed src=a.svg></object><object><embed src=b.swf></object>", "2 × embedded file"),
        ("<iframe src=b.html></iframe><iframe src=c.html style='display: none'></iframe>", "1 × page in a frame"),
        ("<video src=a.mp4></video><div style='display:none'><iframe src=b.html></iframe></div>", "1 × video"),
        ("<body style='visibility: hidden'><video src=a.mp4></video>", "1 × video"),
        ("<video src=a.mp4></video><p hidden><iframe src=b.html></iframe></p>", "1 × video"),
        ("<video src=a.mp4></video><noscript><iframe src=b.html height=0></iframe></noscript>", "1 × video"),
        ("<svg><text>Pump of hall 7</text></svg><svg><path/></svg>", "1 × drawing with text (svg)"),
        ("<img class=latex src=a.png>", "1 × formula that is a picture without a text"),
    ],
)
def test_what_a_page_shows_and_is_no_text_is_counted(tmp_path: Path, html: str, left_out: str) -> None:
    assert warning(tmp_path / "a.html", f"<p>The text.</p>{html}") == f"left out: {left_out}"


def test_what_belongs_to_the_site_and_icons_are_not_counted(tmp_path: Path) -> None:
    page = "<main><p>The text.</p><svg><path/></svg><img src=a.png></main><iframe src=ad.html></iframe>"
    assert the_document(write(tmp_path / "a.html", page)).content == "The text."


def test_a_formula_that_is_a_picture_is_its_text(tmp_path: Path) -> None:
    page = (
        '<p>So <img class="math" src="1.png" alt="x^2+1"> is <img alt="$y$" src="2.png">, <img alt=me src=3.png>no.</p>'
    )
    assert the_document(write(tmp_path / "a.html", page)).content == "So x^2+1 is $y$, no."


def test_a_book_whose_chapters_are_encrypted_is_an_error(tmp_path: Path) -> None:
    encryption = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:e="http://www.w3.org/2001/04/xmlenc#">'
        '<e:EncryptedData><e:CipherData><e:CipherReference URI="{}"/></e:CipherData></e:EncryptedData></encryption>'
    )
    book = epub({"a.html": "<p>Chapter one.</p>"})
    fonts = with_parts(book, {"META-INF/encryption.xml": encryption.format("OEBPS/a.otf")})
    assert the_document(write(tmp_path / "fonts.epub", fonts)).content == "Chapter one.\n"
    locked = with_parts(
        book, {"META-INF/encryption.xml": encryption.format("OEBPS/text/a.html"), "OEBPS/text/a.html": b"\x93\x1f" * 50}
    )
    assert "DRM" in the_error(write(tmp_path / "locked.epub", locked))


def test_encrypted_mail_says_so(tmp_path: Path) -> None:
    mail = message("-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n")
    assert warning(tmp_path / "a.eml", mail) == "left out: 1 × encrypted text: save the message decrypted"
    sealed = b"From: a@example.org\nSubject: Plan\nContent-Type: application/pkcs7-mime; name=smime.p7m\n\nMIIB\n"
    assert "left out: 1 × encrypted text: save the message decrypted" in reasons(tmp_path / "b.eml", sealed)


@pytest.mark.parametrize(
    ("kind", "left_out"),
    [
        ("enveloped-data", "left out: 1 × encrypted text: save the message decrypted"),
        ("authEnveloped-data", "left out: 1 × encrypted text: save the message decrypted"),
        ("signed-data", "left out: 1 × text packed by S/MIME, signed or compressed: save the message without it"),
        ("certs-only", None),
    ],
)
def test_signed_mail_is_not_called_encrypted(tmp_path: Path, kind: str, left_out: str | None) -> None:
    sealed = f"From: a@example.org\nContent-Type: application/pkcs7-mime; smime-type={kind}; name=smime.p7m\n\nMIIB\n"
    warnings = [reason for reason in reasons(tmp_path / "a.eml", sealed) if reason.startswith("left out")]
    assert warnings == ([left_out] if left_out else [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tex", "\\begin{document}Text.\n%\\input{old}\n\\input{macros}\\input{two}\\end{document}"),
        ("a.adoc", "= Book\n\nText.\n\ninclude::_attributes.adoc[]\n\ninclude::two[]\n"),
        ("a.rst", "Text.\n\n.. include:: two\n"),
        ("a.org", '* Text\n\n#+INCLUDE: "two"\n'),
    ],
)
def test_files_that_a_text_includes_are_named(tmp_path: Path, name: str, text: str) -> None:
    assert warning(tmp_path / name, text) == "left out: 1 × file that it includes (two): ingest it, too"


@pytest.mark.parametrize(
    ("name", "text", "included"),
    [
        (
            "a.tex",
            "\\begin{document}Text.\\begin{verbatim}\\input{one}\\end{verbatim}\\verb|\\input{two}|\\end{document}",
            None,
        ),
        ("b.tex", "\\begin{document}\\newcommand{\\part}[1]{\\input{#1}}Text.\\input{one}\\end{document}", "one"),
        ("a.rst", "Text.\n\n.. include:: <isonum.txt>\n\n.. code-block:: rst\n\n   .. include:: one\n", None),
        ("b.rst", ".. note::\n\n   Text.\n\n   .. include:: one two.rst\n", "one two.rst"),
        ("a.adoc", "= Book\n\nText.\n\n////\ninclude::one[]\n////\n\n----\n\\include::two[]\n----\n", None),
        # It is read within code, too.
        ("b.adoc", "= Book\n\nText.\n\n----\ninclude::Pump.java[]\n----\n", "Pump.java"),
        ("a.org", "* Text\n\n#+begin_example\n#+include: one\n#+end_example\n", None),
        ("b.org", '* Text\n\n#+INCLUDE: "one two.org" :lines "1-9"\n', "one two.org"),
        ("c.rst", f"Text.\n\n.. include:: {'a' * 90}\n", f"{'a' * 59}…"),
    ],
)
def test_only_files_that_are_included_are_named(tmp_path: Path, name: str, text: str, included: str | None) -> None:
    expected = [f"left out: 1 × file that it includes ({included}): ingest it, too"] if included else []
    assert reasons(tmp_path / name, text) == expected


def test_objects_in_rich_text_are_counted(tmp_path: Path) -> None:
    text = rb"{\rtf1 Text {\object\objemb{\*\objclass Equation.3}{\*\objdata 0105}{\result }}.}"
    assert warning(tmp_path / "a.rtf", text) == "left out: 1 × object of another program"


def test_a_form_that_adobe_alone_shows_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = pdf([lines(["Please wait …"])]).replace(
        b"/Type /Catalog", b"/Type /Catalog /NeedsRendering true /AcroForm << /XFA (x) /Fields [] >>"
    )
    assert "form in XFA" in warning(tmp_path / "a.pdf", data)
    assert capfd.readouterr().err == ""


def test_pages_of_pdf_with_formulas_are_named(tmp_path: Path) -> None:
    text = (72.0, 700.0, "F1", 11.0, "The area x = 2 of the mill.")
    formula = (72.0, 660.0, "F2", 11.0, "a2 + 8 = 12")
    bullet = (72.0, 640.0, "F2", 11.0, "a mark")
    data = pdf([[text, bullet], [text, formula]]).replace(b"/Helvetica-Bold", b"/ABCDEF+CMMI10X")
    assert warning(tmp_path / "a.pdf", data) == (
        "formulas on page 2 are their signs alone, without scripts, fractions and roots"
    )


@pytest.mark.parametrize("x", [90.0, 96.0, 101.0, 140.0])
def test_arrows_of_wrapped_code_are_no_formula(tmp_path: Path, x: float) -> None:
    arrow, wrapped = (82.0, 700.0, "F2", 11.0, ">"), (x, 700.0, "F3", 11.0, "limit=20, rest > 3")
    data = pdf([[(72.0, 720.0, "F3", 11.0, "total = take("), arrow, wrapped]])
    data = data.replace(b"/Helvetica-Bold", b"/ABCDEF+CMSY10X")
    assert reasons(tmp_path / "a.pdf", data) == []
