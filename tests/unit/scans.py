"""Pages that tests draw: what a scanner makes of a text."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 1240, 1754


def page(lines: Sequence[str], font: Path | None = None, size: int = 26) -> Image.Image:
    """Return a page of A4 at 150 dots per inch with lines of text; PIL brings a font of Latin letters."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    letters = ImageFont.truetype(font, size) if font else ImageFont.load_default(size)
    for number, line in enumerate(lines):
        draw.text((120, 150 + number * round(1.7 * size)), line, font=letters, fill="black")
    return image


def label(text: str, color: str = "white", size: tuple[int, int] = (420, 120)) -> bytes:
    """Return a small PNG with a text on it."""
    image = Image.new("RGB", size, color)
    ImageDraw.Draw(image).text((20, 35), text, font=ImageFont.load_default(36), fill="black")
    return png(image)


def png(image: Image.Image) -> bytes:
    """Return a picture as a PNG file."""
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def with_text(path: Path, texts: Sequence[str], *, is_visible: bool) -> Path:
    """Write a PDF anew with a text upon each page, as programs do that recognise the text of scans."""
    import pypdfium2 as pdfium

    raw = pdfium.raw
    pdf = pdfium.PdfDocument(path)
    for page_of_pdf, text in zip(pdf, texts, strict=True):
        item = raw.FPDFPageObj_NewTextObj(pdf, b"Helvetica", 4.0)
        raw.FPDFText_SetText(item, (raw.FPDF_WCHAR * (len(text) + 1))(*map(ord, text)))
        if not is_visible:
            raw.FPDFTextObj_SetTextRenderMode(item, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
        raw.FPDFPageObj_Transform(item, 1, 0, 0, 1, 60, 700)
        raw.FPDFPage_InsertObject(page_of_pdf, item)
        page_of_pdf.gen_content()
    copy = path.with_stem(f"{path.stem} with text")
    pdf.save(copy)
    pdf.close()
    return copy


def scan(path: Path, pages: Sequence[Image.Image]) -> Path:
    """Write a PDF whose pages are pictures."""
    pages[0].save(path, "PDF", resolution=150, save_all=True, append_images=list(pages[1:]))
    return path
