"""Files that are pictures: what is written in them, each frame of a TIFF file a page."""

from collections.abc import Iterator
from io import BytesIO

from PIL import Image

from pg_graphrag.beside.readers.pictures import MAX_PICTURE_BYTES, open_image
from pg_graphrag.beside.readers.source import Facts, Item, Source

_MAX_FRAMES = 2000


def read_picture(source: Source) -> Iterator[Item]:
    """Read a picture as one document; a file of several pages has a page for each.

    Raises
    ------
    ReadError
        For what is no picture, or is too large; for one in which no text is recognised, where pictures are not kept.
    """
    if source.size() > MAX_PICTURE_BYTES:
        raise source.error(
            f"has {source.size():,} bytes; of a picture at most {MAX_PICTURE_BYTES:,} are read: make it smaller"
        )
    data = source.read()
    try:
        with open_image(data) as image:
            mime = Image.MIME.get(image.format or "", "image/unknown")
            frames = min(getattr(image, "n_frames", 1), _MAX_FRAMES) if image.format == "TIFF" else 1
            marks = [source.gallery.add(source.key, data, page=1)] if frames == 1 else []
            for number in range(frames if frames > 1 else 0):
                image.seek(number)
                buffer = BytesIO()
                image.convert("RGB").save(buffer, "PNG")
                marks.append(source.gallery.add(source.key, buffer.getvalue(), page=number + 1))
    except ValueError as error:
        raise source.error(f"cannot be read as a picture: {error}; open and save it again as PNG or JPEG") from None
    if not source.gallery.pictures:
        raise source.error("is a picture, and no text of pictures is read")
    yield source.document("".join(f"{mark}\n\n\f" for mark in marks), mime, facts=Facts(others={"pages": frames}))
