"""Pictures of documents: each with its place, the text as it is without them, and bounds for hostile ones."""

import struct
import zlib
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import pytest

pytest.importorskip("lxml")
pytest.importorskip("PIL")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import Picture, ReadError, ReadOptions, ReadProgress, ReadWarning, pictures, read
from pg_graphrag.beside.readers.isolated import IsolatedReader
from PIL import Image

from tests.unit.files import write, zipped
from tests.unit.scans import label, page, png, scan, with_text

ASKED = ReadOptions(pictures=True)


def gallery(path: Path) -> tuple[str, list[Picture]]:
    """Return the text of a file and its pictures; the text is the same where nobody asks for them."""
    items = list(read(path, path.name, ASKED))
    (document,) = (item for item in items if isinstance(item, Document))
    plain = [item.content for item in read(path, path.name) if isinstance(item, Document)]
    assert plain in ([document.content], [])
    return document.content, [item for item in items if isinstance(item, Picture)]


def test_pictures_of_a_page_of_html_have_places_captions_and_descriptions(tmp_path: Path) -> None:
    url = f"data:image/png;base64,{b64encode(label('a')).decode()}"
    other = f"data:image/png;base64,{b64encode(label('b')).decode()}"
    html = f"<p>Before.<p><img src='{url}' alt='a valve'><p>Figure 1: The valve.<p>Middle.<figure><img src='{other}'>"
    text, (first, second) = gallery(write(tmp_path / "a.html", html + "<figcaption>The pump.</figcaption></figure>"))
    assert text == "Before.\n\nFigure 1: The valve.\n\nMiddle.\n\nThe pump."
    assert (first.index, first.media_type, first.width, first.height) == (1, "image/png", 420, 120)
    assert (first.place, first.alternative_text, first.caption) == (len("Before."), "a valve", "Figure 1: The valve.")
    assert (text[: second.place].rpartition("\n")[2], second.caption) == ("Middle.", "The pump.")


def test_a_picture_larger_than_what_is_kept_is_made_smaller_and_said(tmp_path: Path) -> None:
    noise = Image.effect_noise((5000, 2200), 90)
    noise.save(tmp_path / "a.png", compress_level=0)
    assert (tmp_path / "a.png").stat().st_size > pictures.MAX_STORED
    (document, picture) = read(tmp_path / "a.png", "a.png", ASKED)
    assert isinstance(document, Document)
    assert isinstance(picture, Picture)
    assert len(picture.data) <= pictures.MAX_STORED
    assert (picture.media_type, picture.width, picture.height) == ("image/jpeg", 4096, 1802)
    assert document.metadata["scaled_pictures"] == {"1": [5000, 2200]}


def test_pictures_of_a_book_are_those_beside_its_chapters(tmp_path: Path) -> None:
    parts: dict[str, str | bytes] = {
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="O/c.opf"/></rootfiles></container>',
        "O/c.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="t/a.xhtml" '
        'media-type="application/xhtml+xml"/><item id="b" href="t/b.xhtml" media-type="application/xhtml+xml"/>'
        '</manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>',
        "O/t/a.xhtml": "<html><body><p>Text.</p></body></html>",
        "O/t/b.xhtml": "<html><body><img src='../i/b%20c.png'/></body></html>",
        "O/i/b c.png": label("b"),
    }
    text, (picture,) = gallery(write(tmp_path / "a.epub", zipped(parts)))
    assert text == "Text.\n"
    assert picture.place == len("Text.")


def test_pictures_of_slides_have_their_pages(tmp_path: Path) -> None:
    pptx = pytest.importorskip("pptx")
    presentation = pptx.Presentation()
    for number in range(2):
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        slide.shapes.title.text = f"Slide {number}"
        slide.shapes.add_picture(BytesIO(label(str(number))), 0, 0)
        slide.shapes.add_picture(BytesIO(label("logo")), 0, 0)
    presentation.save(tmp_path / "a.pptx")
    _, pictures = gallery(tmp_path / "a.pptx")
    # The logo comes once.
    assert [picture.page for picture in pictures] == [1, 1, 2]


def test_pictures_of_sheets_stand_behind_their_heading(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    from openpyxl.drawing.image import Image as SheetImage

    book = openpyxl.Workbook()
    book.active["A1"] = "x"
    book.active.add_image(SheetImage(BytesIO(label("a"))), "B4")
    book.save(tmp_path / "a.xlsx")
    text, (picture,) = gallery(tmp_path / "a.xlsx")
    assert text[: picture.place] == "# Sheet"


def test_a_page_of_pdf_without_text_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    _, (first, second) = gallery(scan(tmp_path / "a.pdf", [page(["One"]), page(["Two"])]))
    assert (first.page, second.page, first.place) == (1, 2, None)


@pytest.mark.parametrize("is_searchable", [False, True])
def test_a_scanned_page_is_shown_whole(tmp_path: Path, is_searchable: bool) -> None:
    pytest.importorskip("pypdfium2")
    path = scan(tmp_path / "a.pdf", [page(["One"]), page(["Two"])])
    if is_searchable:
        path = with_text(path, ["One, as it was recognised before. " * 10, "Two."], is_visible=False)
    _, pictures = gallery(path)
    assert [(each.page, each.is_page) for each in pictures] == [(1, True), (2, True)]


def test_a_picture_behind_the_text_of_a_page_is_no_page(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    slide = with_text(scan(tmp_path / "b.pdf", [page([])]), ["What the slide says. " * 10], is_visible=True)
    _, pictures = gallery(slide)
    assert [each.is_page for each in pictures] == [False]


def test_files_that_are_pictures_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", label("a"))
    text, (picture,) = gallery(path)
    assert (text, picture.data, picture.is_page) == ("", path.read_bytes(), True)
    (error,) = read(path, "a.png")
    assert isinstance(error, ReadError)
    assert "extra ocr" in str(error)


def bomb(width: int, height: int) -> bytes:
    """Return a PNG that says that it is so large and holds nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


HOSTILE = {
    "bomb": (bomb(60_000, 60_000), "pixels"),
    "wrong type": (b"<html><script>alert(1)</script>", "svg"),
    "truncated": (label("a")[:200], ""),
    "noise": (b"\x89PNG" + bytes(range(256)) * 10, "damaged"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n(x) run\n", "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("ocr", ["never", "auto"])
def test_hostile_picture_files_are_errors_with_their_name(tmp_path: Path, name: str, ocr: str) -> None:
    if ocr == "auto":
        pytest.importorskip("rapidocr")
    data, reason = HOSTILE[name]
    path = write(tmp_path / "a.png", data)
    items = list(read(path, "a.png", ReadOptions(pictures=ocr == "never", ocr=ocr)))
    said = [str(item) for item in items if isinstance(item, ReadError | ReadWarning)]
    assert said
    assert all(str(path) in text for text in said)
    assert name == "truncated" or any(reason in text for text in said)


def test_a_page_with_hostile_pictures_is_read_and_says_what_is_left_out(tmp_path: Path) -> None:
    urls = [f"data:image/png;base64,{b64encode(data).decode()}" for data, _ in HOSTILE.values()]
    html = "<p>Text.</p>" + "".join(f"<img src='{url}'>" for url in [*urls, "data:image/png;base64,%%%", "data:,x"])
    items = list(read(write(tmp_path / "a.html", html), "a.html", ASKED))
    assert [item.content for item in items if isinstance(item, Document)] == ["Text."]
    assert any("pictures that are not read" in str(item) for item in items if isinstance(item, ReadWarning))


def test_a_picture_with_megabytes_of_exif_is_read(tmp_path: Path) -> None:
    image = Image.new("RGB", (200, 100), "white")
    exif = Image.Exif()
    exif[0x010E] = "x" * 60_000
    buffer = BytesIO()
    image.save(buffer, "JPEG", exif=exif, comment=b"y" * 60_000)
    data = buffer.getvalue()
    segment = b"\xff\xe1" + struct.pack(">H", 65_000) + b"Exif\0\0" + b"\xff" * (65_000 - 8)
    path = write(tmp_path / "a.jpg", data[:2] + segment * 100 + data[2:])
    (picture,) = (item for item in read(path, "a.jpg", ASKED) if isinstance(item, Picture))
    assert (picture.width, picture.height) == (200, 100)


def test_other_kinds_become_png(tmp_path: Path) -> None:
    frames = [page(["One"]), page(["Two"])]
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    _, pictures = gallery(tmp_path / "a.tiff")
    assert [(picture.media_type, picture.page) for picture in pictures] == [("image/png", 1), ("image/png", 2)]
    assert pictures[0].data.startswith(png(frames[0])[:8])


def test_what_is_converted_looks_as_it_did(tmp_path: Path) -> None:
    deep = Image.new("I;16", (200, 100), 4000)
    deep.paste(60_000, (0, 0, 100, 100))
    deep.save(tmp_path / "deep.tiff")
    clear = Image.new("RGBA", (200, 100), (0, 0, 0, 0))
    clear.paste((200, 0, 0, 255), (0, 0, 100, 100))
    clear.save(tmp_path / "clear.tiff")
    for name, colors in {"deep": [(255, 255, 255), (0, 0, 0)], "clear": [(200, 0, 0), (255, 255, 255)]}.items():
        _, (picture,) = gallery(tmp_path / f"{name}.tiff")
        image = Image.open(BytesIO(picture.data))
        assert [image.getpixel((x, 50)) for x in (50, 150)] == colors


@pytest.mark.parametrize("kind", ["png", "jpg", "tiff", "webp", "gif", "bmp", "heic"])
def test_each_kind_is_read_by_a_process_that_read_nothing_before(tmp_path: Path, kind: str) -> None:
    if kind == "heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    page(["One"]).save(tmp_path / f"a.{kind}")
    with IsolatedReader(ASKED) as reader:
        _, picture = reader.read(tmp_path / f"a.{kind}", "a")
    assert isinstance(picture, Picture)
    assert (picture.width, picture.height) == (1240, 1754)


def test_converted_photographs_are_small(tmp_path: Path) -> None:
    Image.merge("RGB", [Image.effect_noise((5000, 2500), 80) for _ in "RGB"]).save(tmp_path / "a.tiff")
    _, (picture,) = gallery(tmp_path / "a.tiff")
    assert (picture.media_type, picture.width, picture.height) == ("image/jpeg", 4096, 2048)


def test_pages_of_pdf_are_drawn_as_long_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pypdfium2")
    monkeypatch.setattr(pictures, "MAX_PICTURES", 1)
    path = scan(tmp_path / "a.pdf", [page([str(number)]) for number in range(5)])
    items = list(read(path, "a.pdf", ASKED))
    assert [(item.done, item.count) for item in items if isinstance(item, ReadProgress)] == [(1, 5), (2, 5)]
    assert [item.page for item in items if isinstance(item, Picture)] == [1]
    (warning,) = (str(item) for item in items if isinstance(item, ReadWarning) and "not read" in str(item))
    assert warning == f"{path}: pictures that are not read: 3 × page behind these, 1 × too many or too large"
