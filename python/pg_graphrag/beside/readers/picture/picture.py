"""Picture files: their recognised text, with each frame of a TIFF file as a page."""

from collections.abc import Iterator

from PIL import Image

from pg_graphrag.beside.readers.layout.text import text_of
from pg_graphrag.beside.readers.ocr.recognise import MAX_PAGES, Recognised, metadata_of, recognised_pages, unsure_text
from pg_graphrag.beside.readers.pictures import (
    MAX_PICTURE_BYTES,
    MAX_PIXELS,
    file_of,
    is_worth_reading,
    open_image,
    pixels_of,
)
from pg_graphrag.beside.readers.read_errors import Skipped
from pg_graphrag.beside.readers.source import Facts, Item, Source


def read_picture(source: Source) -> Iterator[Item]:
    """Read a picture as one document; each page of a file becomes a page.

    Raises ReadError if it is no picture, or too large.
    """
    if not source.options.reads_pictures:
        raise source.error(
            "is a picture; its text is recognised where the extra ocr is installed, unless --ocr never is given"
        )
    if source.size() > MAX_PICTURE_BYTES:
        raise source.error(
            f"has {source.size():,} bytes; of a picture at most {MAX_PICTURE_BYTES:,} are read: make it smaller"
        )
    data = source.read()
    by_number: dict[int, Recognised] = {}
    try:
        with open_image(data) as image:
            mime = Image.MIME.get(image.format or "", "image/unknown")
            frames = min(getattr(image, "n_frames", 1), MAX_PAGES) if image.format == "TIFF" else 1
            numbers = range(1, frames + 1)
            if not is_worth_reading(*image.size):
                yield Skipped(source.key, "small pictures")
                return
            if source.options.recognises:
                images = ((number, _frame(image, number)) for number in numbers)
                yield from recognised_pages(source, images, frames, by_number)
            if source.options.pictures:
                for number in numbers:
                    drawn = _frame(image, number)  # also of one page: it may be damaged
                    file = data if frames == 1 else file_of(drawn)[1]
                    source.gallery.add(source.key, file, page=number, is_page=True)
    except ValueError as error:
        if str(error) == "heic":
            raise ModuleNotFoundError(name="pillow_heif") from None
        raise source.error(f"cannot be read as a picture: {error}; open and save it again as PNG or JPEG") from None
    if not any(item.is_named for item in by_number.values()):
        by_number = {}
    if unsure := unsure_text(source, "page", by_number):
        yield source.warning(unsure)
    pages = [by_number[number].page if number in by_number and by_number[number].is_sure else [] for number in numbers]
    text = text_of(pages, {}) if any(pages) else ""
    if not text and not source.gallery.pictures:
        if source.gallery.unread:
            reasons = ", ".join(source.gallery.unread)
            raise source.error(f"cannot be read as a picture: {reasons}; save it again as PNG or JPEG, or smaller")
        if not unsure:
            yield Skipped(source.key, "pictures without text")
        return
    facts = Facts(others={"pages": frames} | metadata_of(source, "pages", by_number))
    yield source.document(text, mime, facts=facts)


def _frame(image: Image.Image, number: int) -> Image.Image:
    """Return a page of a file, from 1, upright."""
    if image.format == "TIFF":
        image.seek(number - 1)
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ValueError(f"has {width:,} × {height:,} pixels, at most {MAX_PIXELS:,} are read")
    return pixels_of(image)
