"""Pictures of a PDF: those on its pages, and pages that are pictures."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import sqrt
from typing import TYPE_CHECKING

import pypdfium2 as pdfium

from pg_graphrag.beside.readers.layout.page import Page
from pg_graphrag.beside.readers.pictures import MAX_PIXELS, MIN_SIDE, file_of
from pg_graphrag.beside.readers.read_errors import ReadProgress
from pg_graphrag.beside.readers.source import Source

if TYPE_CHECKING:
    from PIL import Image

# Pixels of a page that is drawn, and of one that is shown: a page of A4 at 300 and 150 dots per inch has 8.7 and 2.2 million.
_MAX_PAGE_PIXELS = 25_000_000
_SHOWN_DPI, _READ_DPI = 150, 300
# For a scan: maximum letters of a stamp upon it, and the share of the page that its picture covers.
_LETTERS_OF_A_STAMP, _COVERED = 100, 0.7
_POINTS_PER_INCH = 72
_UTF16_BYTES = 2
# Drawings within drawings; pictures of a page.
_MAX_DEPTH, _MAX_OF_PAGE = 5, 100


def add_pictures(source: Source, pdf: pdfium.PdfDocument, without_text: Sequence[int]) -> Iterator[ReadProgress]:
    """Take the pictures of a PDF into the gallery, as far as there is room; a page of these numbers from 1 is one picture."""
    if not source.options.pictures:
        return
    bare = frozenset(without_text)
    for number in range(1, len(pdf) + 1):
        with suppress(pdfium.PdfiumError):
            page = pdf[number - 1]
            try:
                is_page = number in bare or _is_scan(page)
                images = [_drawn_page(page, _SHOWN_DPI)] if is_page else _images(page)
                for image in images:
                    source.gallery.add(source.key, file_of(image.convert("RGB"))[1], page=number, is_page=is_page)
                    yield ReadProgress(source.path, number, len(pdf))
                    if source.gallery.is_full:
                        if number < len(pdf):
                            source.gallery.unread["page behind these"] = len(pdf) - number
                        return
            finally:
                page.close()


def drawn_pages(pdf: pdfium.PdfDocument, numbers: Sequence[int]) -> Iterator[tuple[int, "Image.Image"]]:
    """Yield (number from 1, the page as it looks) to recognise its text."""
    for number in numbers:
        page = pdf[number - 1]
        try:
            image = _drawn_page(page, _READ_DPI)
        finally:
            page.close()
        yield number, image


def stamped_scans(pdf: pdfium.PdfDocument, pages: Sequence[Page]) -> Iterator[int]:
    """Yield the numbers from 1 of pages that a picture covers, and that have but a few letters: a stamp, a number."""
    for number, page in enumerate(pages, 1):
        if not page or sum(len(line.text) for block in page for line in block.lines) > _LETTERS_OF_A_STAMP:
            continue
        with suppress(pdfium.PdfiumError):
            opened = pdf[number - 1]
            try:
                images = opened.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE], max_depth=_MAX_DEPTH)
                if any(_covers(item, opened) for item in images):
                    yield number
            finally:
                opened.close()


def _is_scan(page: pdfium.PdfPage) -> bool:
    """Whether a picture covers a page with only a few visible letters above it: its text was recognised earlier."""
    raw = pdfium.raw
    is_covered, letters = False, 0
    text_page = page.get_textpage()
    try:
        for item in page.get_objects([raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_TEXT], _MAX_DEPTH):
            if not isinstance(item, pdfium.PdfTextObj):
                if _covers(item, page):
                    is_covered, letters = True, 0
            elif raw.FPDFTextObj_GetTextRenderMode(item) != raw.FPDF_TEXTRENDERMODE_INVISIBLE:
                letters += raw.FPDFTextObj_GetText(item, text_page, None, 0) // _UTF16_BYTES
                if is_covered and letters > _LETTERS_OF_A_STAMP:
                    return False
    finally:
        text_page.close()
    return is_covered


def _covers(item: pdfium.PdfObject, page: pdfium.PdfPage) -> bool:
    """Whether an object covers most of its page."""
    left, bottom, right, top = item.get_bounds()
    width, height = page.get_size()
    return bool((right - left) * (top - bottom) > _COVERED * width * height)


def _drawn_page(page: pdfium.PdfPage, dpi: float) -> "Image.Image":
    """Return a page as it looks, at most `_MAX_PAGE_PIXELS` large."""
    scale = dpi / _POINTS_PER_INCH
    width, height = page.get_size()
    scale = min(scale, sqrt(_MAX_PAGE_PIXELS / max(1.0, width * height)))
    image: Image.Image = page.render(scale=scale, may_draw_forms=False).to_pil()
    return image


def _images(page: pdfium.PdfPage) -> Iterator["Image.Image"]:
    for number, item in enumerate(page.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE], max_depth=_MAX_DEPTH)):
        if number >= _MAX_OF_PAGE:
            return
        with suppress(pdfium.PdfiumError):
            width, height = item.get_px_size()
            if min(width, height) >= MIN_SIDE and width * height <= MAX_PIXELS:
                yield item.get_bitmap(render=False).to_pil()
