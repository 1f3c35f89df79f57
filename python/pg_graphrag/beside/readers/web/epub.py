"""EPUB: the chapters in reading order, by the standard library and the reader of HTML."""

import posixpath
import zipfile
from collections.abc import Iterator
from functools import partial
from urllib.parse import unquote

from lxml import etree
from lxml.html import HtmlElement

from pg_graphrag.beside.readers.archive import opened, parse_xml, read_part
from pg_graphrag.beside.readers.decode import declared_by_xml, decode_part
from pg_graphrag.beside.readers.elements import become
from pg_graphrag.beside.readers.pictures import without_marks
from pg_graphrag.beside.readers.read_errors import ReadWarning
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.beside.readers.web.furniture import without_gutenberg
from pg_graphrag.beside.readers.web.html import is_navigation, main_part, main_text, marks_of, parse_html
from pg_graphrag.beside.readers.web.unread import unread_of
from pg_graphrag.ground.document import Document

_DC = "{http://purl.org/dc/elements/1.1/}"
_OPF = "{http://www.idpf.org/2007/opf}"
_HTML = frozenset(("application/xhtml+xml", "text/html", "application/xml"))
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
# What Calibre writes where it knows no date: the first day of this year.
_NO_YEAR = 101


def read_epub(source: Source) -> Iterator[Document | ReadWarning]:
    """Read a book as one document; its cover and table of contents, where they are pages of their own, are left out."""
    with opened(source, "EPUB") as archive:
        # Some are zipped with the folder that they were made in.
        container = next((name for name in archive.namelist() if f"/{name}".endswith(f"/{_CONTAINER}")), _CONTAINER)
        package_path = container.removesuffix(_CONTAINER) + _package_path(read_part(archive, container), source)
        package = _xml(read_part(archive, package_path), package_path, source)
        folder = posixpath.dirname(package_path)
        _check_readable(archive, container.removesuffix(_CONTAINER), package, folder, source)
        chapters: list[str] = []
        missing: list[str] = []
        for name, may_navigate in _chapters(package).items():
            path = posixpath.normpath(posixpath.join(folder, unquote(name)))
            data = read_part(archive, path)
            if data is None:
                missing.append(path)
                continue
            marks = marks_of(source, partial(_picture, archive, posixpath.dirname(path)))
            try:
                page = parse_html(decode_part(data, source, declared_by_xml(data) or "utf-8"))
                source.left_out.update(unread_of(main_part(page)))
                # In many books the contents are in the file of the first chapter.
                chapter = (
                    ""
                    if may_navigate and is_navigation(page)
                    else main_text(_with_images(page) if marks else page, marks)
                )
            except (LookupError, ValueError) as error:
                missing.append(f"{path} ({error})")
                continue
            if chapters and not without_marks(chapter).strip():
                chapters[-1] += chapter  # pictures alone
            elif chapter.strip():
                chapters.append(chapter)
    if not chapters:
        raise source.error("holds no text; are its pages pictures?")
    title, facts = _facts(package)
    content, stated = without_gutenberg("\n\n".join(chapters) + "\n")
    facts.others |= {name: value for name, value in stated.others.items() if name != "title"}
    yield source.document(content, "application/epub+zip", title, facts)
    if missing:
        yield ReadWarning(source.path, f"parts of the book cannot be read: {', '.join(missing)}")


def _check_readable(archive: zipfile.ZipFile, root: str, package: etree._Element, folder: str, source: Source) -> None:
    """Raise for a book whose chapters are encrypted; of many the fonts alone are."""
    data = read_part(archive, f"{root}{_ENCRYPTION}")
    if data is None:
        return
    chapters = {posixpath.normpath(posixpath.join(folder, unquote(name))) for name in _chapters(package)}
    for reference in _xml(data, _ENCRYPTION, source).iter("{*}CipherReference"):
        if posixpath.normpath(f"{root}{unquote(reference.get('URI', ''))}") in chapters:
            raise source.error("is encrypted, so that only its shop's programs can read it (DRM)")


def _picture(archive: zipfile.ZipFile, folder: str, url: str) -> bytes | None:
    return read_part(archive, posixpath.normpath(posixpath.join(folder, unquote(url.partition("#")[0]))))


def _with_images(page: HtmlElement | None) -> HtmlElement | None:
    """Return a page whose pictures in a drawing, as covers are, are pictures like others."""
    for drawing in [] if page is None else list(page.iter("svg")):
        for image in drawing.iter("image"):
            become(drawing, "img")
            drawing.set("src", image.get("href") or image.get("xlink:href") or "")
            break
    return page


def _package_path(container: bytes | None, source: Source) -> str:
    root = _xml(container, _CONTAINER, source)
    for element in root.iter("{*}rootfile"):
        if path := element.get("full-path"):
            return str(path)
    raise source.error("cannot be read as EPUB: its container names no package; is it damaged?")


def _xml(data: bytes | None, name: str, source: Source) -> etree._Element:
    if data is None:
        raise source.error(f"cannot be read as EPUB: it lacks {name}; is it damaged?")
    try:
        return parse_xml(data)
    except etree.XMLSyntaxError as error:
        raise source.error(f"cannot be read as EPUB: {name}: {error}; is it damaged?") from None


def _chapters(package: etree._Element) -> dict[str, bool]:
    """Return {file of the spine: whether the book says that its contents or cover are there}."""
    items = {item.get("id"): item for item in package.iter(f"{_OPF}item") if item.get("media-type") in _HTML}
    # Some writers name places within a file.
    named = {
        reference.get("href", "").partition("#")[0]
        for reference in package.iter(f"{_OPF}reference")
        if reference.get("type") in ("toc", "cover")
    }
    chapters: dict[str, bool] = {}
    order = [items[name] for reference in package.iter(f"{_OPF}itemref") if (name := reference.get("idref")) in items]
    # If a book's order names none of its files, the order of its file list is used.
    for item in order or items.values():
        if name := item.get("href", "").partition("#")[0]:
            chapters[name] = name in named or "nav" in item.get("properties", "").split()
    return chapters


def _facts(package: etree._Element) -> tuple[str | None, Facts]:
    def texts(name: str) -> list[str]:
        return [" ".join(element.text.split()) for element in package.iter(f"{_DC}{name}") if element.text]

    modified = next(
        (element.text for element in package.iter(f"{_OPF}meta") if element.get("property") == "dcterms:modified"), None
    )
    facts = Facts(
        author=", ".join(texts("creator")) or None,
        published=next((date for text in texts("date") if (date := as_time(text)) and date.year != _NO_YEAR), None),
        modified=as_time(modified),
        language=next(iter(texts("language")), None),
    )
    for name in ("publisher", "rights", "subject", "identifier", "description"):
        if values := texts(name):
            facts.others[name] = values[0] if len(values) == 1 else values
    return next(iter(texts("title")), None), facts
