"""Small files of each kind, and what the readers give for one."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from pathlib import Path

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadError, ReadOptions, read

# Text at a place of a page: x, y in points from the bottom left, font (F1 text, F2 bold, F3 code), size, text.
Run = tuple[float, float, str, float, str]

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_RELATIONSHIPS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
CORE = """<?xml version="1.0"?><cp:coreProperties
 xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><dc:title>{title}</dc:title><dc:creator>Ada Lovelace</dc:creator>
 <dcterms:created xsi:type="dcterms:W3CDTF">2024-05-06T07:08:09Z</dcterms:created></cp:coreProperties>"""
_ENTITIES = (("a", "ha" * 100), ("b", "&a;" * 1000), ("c", "&b;" * 1000))
BOMB = f"""<?xml version="1.0"?><!DOCTYPE x [{"".join(f"<!ENTITY {name} '{text}'>" for name, text in _ENTITIES)}]><x>&c;</x>"""


def lines(texts: Sequence[str], x: float = 72, top: float = 700, step: float = 14) -> list[Run]:
    """Return lines of text under each other."""
    return [(x, top - step * index, "F1", 11, text) for index, text in enumerate(texts)]


def pdf(
    pages: Sequence[Sequence[Run]],
    info: str = "",
    outline: Sequence[tuple[str, int]] = (),
    trailer: str = "",
    signs: dict[str, str] | None = None,
    drawn: str = "",
    fields: dict[str, str] | None = None,
    notes: Sequence[str] = (),
) -> bytes:
    """Return a PDF.

    `info`: entries of its information dictionary; `outline`: (title, page from 0); `signs`: what characters of the font F4
    mean; `drawn`: operators on each page; `fields`: of a form, and `notes`: that readers left, on each page.
    """
    objects: list[bytes] = []

    def add(text: bytes | str) -> int:
        objects.append(text.encode("latin-1") if isinstance(text, str) else text)
        return len(objects)

    catalog, tree, outlines = add(""), add(""), add("")
    fonts = " ".join(
        f"/{name} << /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>"
        for name, font in (("F1", "Helvetica"), ("F2", "Helvetica-Bold"), ("F3", "Courier"))
    )
    if signs:
        meanings = "\n".join(f"<{ord(sign):02x}> <{text.encode('utf-16-be').hex()}>" for sign, text in signs.items())
        cmap = (
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def 1 begincodespacerange <00> <ff> "
            f"endcodespacerange {len(signs)} beginbfchar\n{meanings}\nendbfchar endcmap end end"
        )
        number = add(f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream")
        fonts += f" /F4 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode {number} 0 R >>"
    page_numbers = []
    form: list[int] = []
    for runs in pages:
        stream = b"\n".join(
            f"BT /{font} {size} Tf {x} {y} Td ({_escaped(text)}) Tj ET".encode("cp1252")
            for x, y, font, size, text in runs
        )
        if not runs:
            stream = b"0 0 m 100 100 l S"
        stream += f"\n{drawn}".encode("cp1252")
        content = add(b"<< /Length %d >>\nstream\n" % len(stream) + stream + b"\nendstream")
        widgets = [
            add(
                f"<< /Type /Annot /Subtype /Widget /FT /Tx /T ({_escaped(name)}) /V ({_escaped(value)})"
                f" /Rect [72 {500 - 20 * n} 272 {515 - 20 * n}] /F 4 >>"
            )
            for n, (name, value) in enumerate((fields or {}).items())
        ]
        form += widgets
        note_objects = [
            add(
                f"<< /Type /Annot /Subtype /Text /Contents ({_escaped(note)}) /Rect [400 {400 - 20 * n} 420 {415 - 20 * n}] >>"
            )
            for n, note in enumerate(notes)
        ]
        annotations = " ".join(f"{number} 0 R" for number in widgets + note_objects)
        page_numbers.append(
            add(
                f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 612 792] /Contents {content} 0 R"
                f" /Resources << /Font << {fonts} >> >> /Annots [{annotations}] >>"
            )
        )
    entries = [add("") for _ in outline]
    for index, (title, page) in enumerate(outline):
        around = "".join(
            f" /{name} {entries[other]} 0 R"
            for name, other in (("Prev", index - 1), ("Next", index + 1))
            if 0 <= other < len(entries)
        )
        objects[entries[index] - 1] = (
            f"<< /Title ({_escaped(title)}) /Parent {outlines} 0 R /Dest [{page_numbers[page]} 0 R /Fit]{around} >>"
        ).encode("cp1252")
    numbers = " ".join(f"{number} 0 R" for number in form)
    fields_of = f" /AcroForm << /Fields [{numbers}] >>" if form else ""
    objects[catalog - 1] = f"<< /Type /Catalog /Pages {tree} 0 R /Outlines {outlines} 0 R{fields_of} >>".encode()
    kids = " ".join(f"{number} 0 R" for number in page_numbers)
    objects[tree - 1] = f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode()
    ends = f"/First {entries[0]} 0 R /Last {entries[-1]} 0 R" if entries else ""
    objects[outlines - 1] = f"<< /Type /Outlines /Count {len(entries)} {ends} >>".encode()
    information = add(f"<< {info} >>")
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    root = f"/Size {len(objects) + 1} /Root {catalog} 0 R /Info {information} 0 R {trailer}"
    out += f"trailer << {root} >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def zipped(parts: dict[str, str | bytes]) -> bytes:
    """Return an archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def paragraph(text: str, style: str = "") -> str:
    """Return a paragraph of WordprocessingML."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def docx(
    body: str,
    title: str = "",
    document: str | None = None,
    parts: Mapping[str, str | bytes] | None = None,
    more_styles: str = "",
) -> bytes:
    """Return a document of Word with the styles Heading1 and Heading2; `parts`: others, {name below word/: XML or bytes}."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2)
    )
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{_TYPES}"><Default Extension="rels" ContentType="application/'
            f'vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{main}.document.main+xml"/>'
            f'<Override PartName="/word/styles.xml" ContentType="{main}.styles+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{_RELATIONSHIPS}"><Relationship Id="r1" Type="{_OFFICE}/officeDocument"'
            ' Target="word/document.xml"/></Relationships>',
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{_RELATIONSHIPS}"><Relationship Id="r1"'
            f' Type="{_OFFICE}/styles" Target="styles.xml"/>'
            + "".join(
                f'<Relationship Id="{name}" Type="{_OFFICE}/{name.split("/")[0]}" Target="{name}"/>'
                for name in parts or {}
            )
            + "</Relationships>",
            **{f"word/{name}": part for name, part in (parts or {}).items()},
            "word/styles.xml": f'<w:styles xmlns:w="{_W}">{styles}{more_styles}</w:styles>',
            "word/document.xml": document or f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>',
            "docProps/core.xml": CORE.format(title=title),
        }
    )


def epub(chapters: dict[str, str], title: str = "A Book", guide: dict[str, str] | None = None) -> bytes:
    """Return a book of chapters {file name: body}; `guide`: {kind of a place: file}."""
    references = "".join(f'<reference type="{kind}" href="text/{name}"/>' for kind, name in (guide or {}).items())
    items = "".join(f'<item id="{name}" href="text/{name}" media-type="application/xhtml+xml"/>' for name in chapters)
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    parts: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata><dc:title>{title}</dc:title><dc:creator>Mary Shelley</dc:creator><dc:date>1818-01-01</dc:date>"
        f"<dc:language>en</dc:language></metadata><manifest>{items}</manifest><spine>{spine}</spine>"
        f"<guide>{references}</guide></package>",
    }
    for name, body in chapters.items():
        parts[f"OEBPS/text/{name}"] = f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>'
    return zipped(parts)


def message(text: str, subject: str = "A subject", attachments: dict[str, bytes] | None = None) -> bytes:
    """Return an e-mail."""
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "Ada <ada@example.org>", "charles@example.org"
    mail["Date"] = "Mon, 06 May 2024 09:10:11 +0200"
    mail.set_content(text)
    for name, data in (attachments or {}).items():
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return bytes(mail)


def notebook(cells: Sequence[dict[str, object]]) -> str:
    """Return a Jupyter notebook in Python."""
    return json.dumps({"nbformat": 4, "metadata": {"kernelspec": {"language": "python"}}, "cells": list(cells)})


def write(path: Path, content: bytes | str) -> Path:
    """Write a file; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def the_document(path: Path, options: ReadOptions | None = None) -> Document:
    """Read a file that is one document."""
    (document,) = read(path, path.name, options)
    assert isinstance(document, Document), document
    return document


def the_error(path: Path) -> str:
    """Return why a file cannot be read."""
    (error,) = read(path, path.name)
    assert isinstance(error, ReadError), error
    assert str(path) in str(error)
    return error.reason


def drawing(color: int = 0, side: int = 64) -> bytes:
    """A PNG of one colour."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (side, side), (color, 40, 90)).save(file, "PNG")
    return file.getvalue()


def picture_deck(color: int = 1) -> bytes:
    """A slide deck with a picture on its second slide."""
    import pptx

    deck, file = pptx.Presentation(), io.BytesIO()
    for title in ("Agenda", "Launches"):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
    slide.shapes.add_picture(io.BytesIO(drawing(color)), 0, 0)
    deck.save(file)
    return file.getvalue()


def picture_manual(color: int = 2) -> bytes:
    """A PDF with a page of text and a page that is a picture."""
    import pypdfium2 as pdfium
    from PIL import Image

    scan, file = io.BytesIO(), io.BytesIO()
    page = Image.new("RGB", (400, 500), "white")
    page.paste(Image.open(io.BytesIO(drawing(color, 300))), (50, 50))
    page.save(scan, "PDF")
    manual = pdfium.PdfDocument(pdf([lines(["The pump is serviced each spring.", "Wear gloves."])]))
    manual.import_pages(pdfium.PdfDocument(scan.getvalue()))
    manual.save(file)
    return file.getvalue()


def picture_page(color: int = 3) -> bytes:
    """A web page with a picture in it."""
    import base64

    data = base64.b64encode(drawing(color)).decode()
    return f"""<html><head><title>Harbours</title></head><body><h1>Harbours</h1><p>Ships lie here, as the picture shows.</p>
<figure><img src="data:image/png;base64,{data}" alt="A map"><figcaption>Figure 1: the port</figcaption></figure>
<p>They leave in the morning.</p></body></html>""".encode()
