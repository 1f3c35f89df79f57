"""Collects the pictures of a document where they are wanted, each with its place in the text."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from PIL import Image

# Limits of one document: pictures, and their bytes; of one picture: bytes, and pixels.
MAX_PICTURES, MAX_BYTES = 1000, 1 << 28
MAX_PICTURE_BYTES, MAX_PIXELS = 1 << 26, 120_000_000
# Smaller ones are bullets, lines and icons.
MIN_SIDE = 32
# Fewer pixels have no text worth a second of recognition: logos, badges.
_LEAST_READ_PIXELS = 10_000
# Bytes of a picture that graphrag.pictures keeps; the longer side of one that becomes PNG or JPEG.
MAX_STORED, _LONGEST_SIDE = 10 << 20, 4096
# What browsers show and models take; others become PNG or JPEG.
MEDIA_TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    # A photo with a smaller one behind it.
    "MPO": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
}
# No others are opened: those of PostScript would run a program.
_FORMATS = (*MEDIA_TYPES, "TIFF", "BMP", "HEIF")
# The mark of picture number n in a text until its place is known: characters that no text has.
_MARK = re.compile("\ufdd0([\ufdd1-\ufdda]{1,6})\ufddb")
_CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|photo(?:graph)?|plate|chart|diagram|screenshot|image|picture|illustration|exhibit|abb(?:ildung|\.)?|bild|foto"
    r"|図|圖|图|写真|照片|표|그림)\s?(?:\d|[ivx]+\b|:)",
    re.IGNORECASE,
)
_LONGEST_CAPTION = 500


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a document; readers yield it behind its document.

    `source_key`: the key of the document.
    `index`: its number in the document, from 1, in reading order.
    `media_type`: one of ``image/png``, ``image/jpeg``, ``image/gif`` and ``image/webp``, by its bytes.
    `data`: the file, at most 10 MiB.
    `width`, `height`: pixels.
    `page`: the page or slide that it is on, from 1.
    `is_page`: whether it shows that whole page, as of a scan.
    `place`: the offset in characters in the document's text: the end of the block of text that it stands in or behind. None
      where the text does not say, as in sheets and PDF; of a page, see ``page``.
    `alternative_text`: how its author describes it.
    `caption`: what is written below or above it.
    `recognised_text`: what is written in it, where text was recognised.
    """

    source_key: str
    index: int
    media_type: str
    data: bytes = field(repr=False)
    width: int
    height: int
    page: int | None = None
    place: int | None = None
    alternative_text: str | None = None
    caption: str | None = None
    recognised_text: str | None = None
    is_page: bool = False


@dataclass(slots=True)
class Gallery:
    """The pictures that a reader meets. A closed gallery takes none, so readers do not look for any.

    `is_open`: whether pictures are wanted.
    `unread`: {kind: number} of pictures that were left out.
    `is_full`: whether a picture was left out for lack of room; no others are taken then.
    `scaled`: {index: (width, height)} of pictures that were scaled down.
    """

    is_open: bool = False
    pictures: list[Picture] = field(default_factory=list)
    unread: dict[str, int] = field(default_factory=dict)
    is_full: bool = False
    scaled: dict[int, tuple[int, int]] = field(default_factory=dict)
    _seen: dict[bytes, str] = field(default_factory=dict)
    _bytes: int = 0

    def add(
        self,
        key: str,
        data: bytes | None,
        *,
        page: int | None = None,
        is_page: bool = False,
        alternative_text: str | None = None,
        caption: str | None = None,
    ) -> str:
        """Take a picture; return the mark to put behind the text that it stands in or follows.

        The mark is empty for pictures that are left out: unread kinds, tiny ones, repeated ones.
        """
        if not self.is_open or not data:
            return ""
        digest = sha256(data).digest()
        if digest in self._seen:
            return ""
        self._seen[digest] = ""
        if self.is_full or len(data) > MAX_PICTURE_BYTES:
            return self.leave_out("too many or too large")
        file = as_stored(data)
        if isinstance(file, str):
            return self.leave_out(file) if file else ""
        media_type, data, width, height, original = file
        self.is_full = len(self.pictures) >= MAX_PICTURES or self._bytes + len(data) > MAX_BYTES
        if self.is_full:
            return self.leave_out("too many or too large")
        self._bytes += len(data)
        index = len(self.pictures) + 1
        if original:
            self.scaled[index] = original
        self.pictures.append(
            Picture(
                key,
                index,
                media_type,
                data,
                width,
                height,
                page,
                None,
                " ".join((alternative_text or "").split()) or None,
                " ".join((caption or "").split())[:_LONGEST_CAPTION] or None,
                is_page=is_page,
            )
        )
        return f"\ufdd0{''.join(chr(0xFDD1 + int(digit)) for digit in str(index))}\ufddb"

    def placed(self, content: str, texts: Mapping[int, str], keeps_pictures: bool) -> tuple[str, list[Picture]]:
        """Return a text without marks, and the pictures with their places and captions.

        `texts` ({int: str}): recognised texts by index. The text of a picture that is not kept becomes a paragraph behind
        the block that the picture stands in or follows.
        """
        parts: list[str] = []
        length = last = 0
        places: dict[int, int] = {}
        for match in _MARK.finditer(content):
            index = int("".join(str(ord(digit) - 0xFDD1) for digit in match[1]))
            if not 0 < index <= len(self.pictures) or index in places:
                continue
            added = content[last : match.start()]
            last = match.end()
            if content.endswith("\n\n", 0, match.start()) and content.startswith("\n\n", last):
                last += 2  # a block of its own
            places[index] = length + len(added)
            if index in texts and not keeps_pictures:
                text = f"Text in a picture: {texts[index]}"
                begins = not length and not added
                added += f"{text}\n\n" if begins or added.endswith("\f") else f"\n\n{text}"
            parts.append(added)
            length += len(added)
        text = "".join([*parts, content[last:]]) if places else content
        pages = text.split("\f")
        captions = {number: iter(_captions_of(page)) for number, page in enumerate(pages, 1)} if len(pages) > 1 else {}
        placed: list[Picture] = []
        for picture in self.pictures:
            place = places.get(picture.index)
            caption = picture.caption
            if caption is None:
                # On a PDF page the first caption is taken as that of the first picture.
                of_page = captions.get(picture.page or 0, iter(()))
                caption = next(of_page, None) if place is None else _caption_near(text, place)
            placed.append(replace(picture, place=place, caption=caption, recognised_text=texts.get(picture.index)))
        return text, placed

    def leave_out(self, kind: str) -> str:
        """Count a picture that is not read, by a kind in words; return its mark, which is nothing."""
        self.unread[kind] = self.unread.get(kind, 0) + 1
        return ""


def without_marks(text: str) -> str:
    """Return a text without marks of pictures: a title."""
    return _MARK.sub("", text)


def as_stored(data: bytes) -> tuple[str, bytes, int, int, tuple[int, int] | None] | str:
    """Return (media type, bytes, width, height, size before it was scaled down) of a picture, at most `MAX_STORED` bytes.

    For a picture that is left out, the reason in words; nothing for a tiny one.
    """
    try:
        with open_image(data) as image:
            kind, original = image.format or "", image.size
            width, height = original
            if min(original) < MIN_SIDE:
                return ""
            if width * height > MAX_PIXELS:
                return f"more than {MAX_PIXELS:,} pixels"
            if kind in MEDIA_TYPES and len(data) <= MAX_STORED:
                return MEDIA_TYPES[kind], data, width, height, None
            image = pixels_of(image)
            original = image.size
            image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
            media_type, file = file_of(image)
            while len(file) > MAX_STORED:
                image.thumbnail((image.width // 2, image.height // 2))
                media_type, file = file_of(image)
            return media_type, file, *image.size, original if image.size != original else None
    except ValueError as error:
        return str(error)


def is_worth_reading(width: int, height: int) -> bool:
    """Whether a picture of this size may hold text that is worth recognising."""
    return width * height >= _LEAST_READ_PIXELS


def file_of(image: "Image.Image") -> tuple[str, bytes]:
    """Return a colour picture as (media type, bytes): as PNG if it has few colours and stays small; else as JPEG."""
    if image.resize((256, 256)).getcolors(4096) is not None:
        image.save(buffer := BytesIO(), "PNG")
        if buffer.tell() <= MAX_STORED:
            return "image/png", buffer.getvalue()
    image.save(buffer := BytesIO(), "JPEG", quality=88)
    return "image/jpeg", buffer.getvalue()


def pixels_of(image: "Image.Image") -> "Image.Image":
    """Return an opened picture ready for viewing: upright, on white, in colour."""
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        # More than eight bits: scaled from the darkest to the brightest.
        image = image.convert("I").convert("F") if image.mode.startswith("I;") else image.convert("F")
        darkest, brightest = cast(tuple[float, float], image.getextrema())
        scale = 255 / ((brightest - darkest) or 1.0)
        image = image.point(lambda value: value * scale - darkest * scale).convert("L")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        from PIL import Image

        background = Image.new("RGBA", image.size, "white")
        background.alpha_composite(image.convert("RGBA"))
        image = background
    return image.convert("RGB")


@contextmanager
def open_image(data: bytes) -> Iterator["Image.Image"]:
    """Open a picture: reads its head now, its pixels on demand.

    Raises ValueError if it is no picture of a known kind, or damaged, also from within the context; the text names its
      kind.
    """
    from PIL import Image

    with suppress(ImportError):
        from pillow_heif import register_heif_opener

        register_heif_opener()
    try:
        Image.init()
        with Image.open(BytesIO(data), formats=[kind for kind in _FORMATS if kind in Image.OPEN]) as image:
            yield image
    except Image.DecompressionBombError as error:
        raise ValueError(f"more than {MAX_PIXELS:,} pixels") from error
    except (OSError, SyntaxError, ArithmeticError, LookupError) as error:
        begin = data[:512].lstrip()
        if begin[:1] == b"<":
            raise ValueError("svg") from error
        if begin[:4] in (b"\xd7\xcd\xc6\x9a", b"\x01\0\0\0", b"\x01\0\x09\0"):
            raise ValueError("wmf or emf") from error
        is_heic = begin[4:8] == b"ftyp" and "HEIF" not in Image.OPEN
        raise ValueError("heic" if is_heic else "damaged or unknown") from error


def _caption_near(text: str, place: int) -> str | None:
    """Return the block below a place, around it or above it that says that it is a caption."""
    return next(filter(None, map(_as_caption, _blocks_near(text, place))), None)


def _captions_of(page: str) -> Iterator[str]:
    return filter(None, map(_as_caption, page.split("\n\n")))


def _as_caption(block: str) -> str:
    """Return a block as a caption; nothing where it does not say that it is one."""
    block = " ".join(block.strip(" *_>#-\n").split())
    return block[:_LONGEST_CAPTION] if _CAPTION.match(block) else ""


def _blocks_near(text: str, place: int) -> Iterator[str]:
    """Yield the block behind a place, the one that ends there, and the one before that."""
    yield text[place : place + 2 * _LONGEST_CAPTION].lstrip().partition("\n\n")[0]
    before = text[max(0, place - 4 * _LONGEST_CAPTION) : place].rstrip().split("\n\n")
    yield before[-1]
    if len(before) > 1:
        yield before[-2]
