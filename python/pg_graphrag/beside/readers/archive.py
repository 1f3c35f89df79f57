"""Zipped formats (Office Open XML, EPUB), opened with bounds on memory and time against hostile files."""

import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from xml.parsers import expat

from lxml import etree

from pg_graphrag.beside.readers.source import Source

# Unpacked bytes of an archive, and of one XML part, which takes some ten times as much memory when parsed.
MAX_BYTES, MAX_XML_BYTES = 1 << 30, 1 << 27
MAX_MEMBERS = 20_000
# Namespace of references to other parts.
RELATIONSHIPS = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_XML = (".xml", ".rels", ".opf", ".ncx")
_STEP = 1 << 16
# How files of Microsoft's older container begin, in which the new formats stand when they are encrypted.
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@contextmanager
def opened(source: Source, what: str) -> Iterator[zipfile.ZipFile]:
    """Open an archive with bounds on its unpacked size, and without XML entity declarations.

    `what`: the format, for errors.

    Raises ReadError if it is no archive, damaged, encrypted, larger than the bounds or declares entities; and, from within
      the context, for errors of Python's zipfile.
    """
    try:
        with source.open() as file, zipfile.ZipFile(file) as archive:
            _check(archive, source)
            yield archive
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        zlib.error,
        UnicodeDecodeError,
        EOFError,
        NotImplementedError,
    ) as error:
        with source.open() as file:
            begin = file.read(len(COMPOUND))
        if begin == COMPOUND:
            raise source.error(
                f"is {what} with a password or in the format of before 2007; save it without a password, in the new format"
            ) from None
        raise source.error(f"cannot be read as {what}: {error}; is it damaged?") from None


def parse_xml(data: bytes) -> etree._Element:
    """Return the root of an XML part; etree.XMLSyntaxError if it is no XML. Entities are not resolved."""
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False))


def _check(archive: zipfile.ZipFile, source: Source) -> None:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise source.error(f"has {len(members):,} parts; at most {MAX_MEMBERS:,} are read")
    total = 0
    for member in members:
        total += member.file_size
        is_xml = member.filename.lower().endswith(_XML)
        if member.flag_bits & 1:
            raise source.error("is encrypted; save it without a password")
        if total > MAX_BYTES or (is_xml and member.file_size > MAX_XML_BYTES):
            raise source.error(
                f"unpacks to more than {(MAX_XML_BYTES if is_xml else MAX_BYTES) >> 20:,} MB at {member.filename!r}; "
                "split it, or convert it to text"
            )
        if is_xml and _declares_entities(archive, member):
            raise source.error(f"declares entities in {member.filename!r}, which no writer of this format does")


class _Root(Exception):
    """The document type can no longer come: the root is there."""


def _declares_entities(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    """Whether an XML part declares entities before its root."""
    found = False

    def declare(*_: object) -> None:
        nonlocal found
        found = True
        raise _Root

    def root(*_: object) -> None:
        raise _Root

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = declare
    parser.StartElementHandler = root
    with archive.open(member) as part:
        try:
            while data := part.read(_STEP):
                parser.Parse(data, False)
        except (_Root, expat.ExpatError):
            pass  # what is no XML is found by who reads it
    return found


def read_part(archive: zipfile.ZipFile, name: str) -> bytes | None:
    """Return a part of an archive; None when it is not there."""
    try:
        with archive.open(name) as part:
            file: IO[bytes] = part
            return file.read()
    except KeyError:
        return None


def read_xml(archive: zipfile.ZipFile, name: str) -> etree._Element | None:
    """Return the root of a part of an archive; None if it is missing, or no XML."""
    data = read_part(archive, name)
    try:
        return parse_xml(data) if data else None
    except etree.XMLSyntaxError:
        return None


def related_parts(archive: zipfile.ZipFile, name: str, kind: re.Pattern[str] | None = None) -> dict[str, str]:
    """Return {id: name} of the parts that a part of an archive names; of one kind of relationship."""
    folder, _, file = name.rpartition("/")
    root = read_xml(archive, f"{folder}/_rels/{file}.rels")
    parts = (
        (item.get("Id", ""), item.get("Target", ""))
        for item in (() if root is None else root)
        if kind is None or kind.search(item.get("Type", ""))
    )
    return {key: posixpath.normpath(posixpath.join("/" + folder, target)).lstrip("/") for key, target in parts}
