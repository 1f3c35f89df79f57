"""Recognises the text in the pictures of a document."""

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pg_graphrag.beside.readers.layout.text import text_of
from pg_graphrag.beside.readers.ocr.recognise import (
    LEAST_LETTERS,
    Recognised,
    metadata_of,
    recognised_pages,
    unsure_text,
)
from pg_graphrag.beside.readers.pictures import Picture, is_worth_reading, open_image, pixels_of
from pg_graphrag.beside.readers.read_errors import ReadProgress, ReadWarning
from pg_graphrag.beside.readers.source import Source

if TYPE_CHECKING:
    from PIL import Image

# Maximum of pictures of one document that are examined.
_MAX_PICTURES = 300


def recognised_texts(
    source: Source, pictures: Sequence[Picture], metadata: dict[str, Any]
) -> Generator[ReadProgress | ReadWarning, None, dict[int, str]]:
    """Return {index: text} of pictures with text; record the confidence in the metadata, and warn of uncertain text."""
    looked_at = [item for item in pictures if is_worth_reading(item.width, item.height)][:_MAX_PICTURES]
    by_number: dict[int, Recognised] = {}
    yield from recognised_pages(source, _images(source, looked_at), len(looked_at), by_number)
    texts: dict[int, str] = {}
    if unsure := unsure_text(source, "picture", by_number):
        yield source.warning(unsure)
    for index, item in by_number.items():
        # Uniform size: headings are the document's own.
        for segment in (segment for block in item.page for line in block.lines for segment in line.segments):
            segment.size = 10.0
        text = text_of([item.page], {}).strip("\f\n ") if item.is_sure else ""
        if sum(map(str.isalnum, text)) >= LEAST_LETTERS:
            texts[index] = text
    metadata |= metadata_of(source, "pictures", {index: by_number[index] for index in texts})
    return texts


def _images(source: Source, pictures: Sequence[Picture]) -> Iterator[tuple[int, "Image.Image"]]:
    """Yield (index, image) of pictures; a picture with damaged pixels is counted as not read."""
    for picture in pictures:
        try:
            with open_image(picture.data) as image:
                pixels = pixels_of(image)
        except ValueError as error:
            source.gallery.leave_out(str(error))
            continue
        yield picture.index, pixels
