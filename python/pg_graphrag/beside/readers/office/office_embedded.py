"""Files embedded in Office files (a sheet in a report), and comments on slides."""

import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from pg_graphrag.beside.readers.archive import parse_xml, related_parts

_EMBEDDED = re.compile(r"(?:\A|/)embeddings/[^/]+\Z")
_CHART = re.compile(r"(?:\A|/)charts/[^/]+\.xml\Z")
_INSERTED = re.compile(r"/aFChunk\Z")
_COMMENTS, _AUTHORS = re.compile(r"/comments\Z"), re.compile(r"/(?:commentAuthors|authors)\Z")


def embedded_files(archive: zipfile.ZipFile) -> list[tuple[str, bytes]]:
    """Return (name, bytes) of embedded files, also of those shown within the text.

    Without the values of charts, which are read as tables.
    """
    names = archive.namelist()
    inserted = set(related_parts(archive, "word/document.xml", _INSERTED).values())
    of_charts = {part for name in names if _CHART.search(name) for part in related_parts(archive, name).values()}
    return [
        (posixpath.basename(name), archive.read(name))
        for name in names
        if (_EMBEDDED.search(name) and name not in of_charts) or name in inserted
    ]


def slide_comments(slide: Any) -> Iterator[str]:
    """Yield the comments on a slide and the replies to them, with who wrote them."""
    comments = list(_related_roots(slide.part, _COMMENTS))
    authors: dict[str, str] = {}
    for root in _related_roots(slide.part.package.presentation_part, _AUTHORS) if comments else ():
        for author in root.iter("{*}cmAuthor", "{*}author"):
            authors[author.get("id", "")] = " ".join(author.get("name", "").split())
    for root in comments:
        for comment in root.iter("{*}cm", "{*}reply"):
            texts = (part for child in comment if _is_own(child) for part in child.itertext())
            if text := " ".join("".join(texts).split()):
                author = authors.get(comment.get("authorId", ""))
                yield f"Comment ({author}): {text}" if author else f"Comment: {text}"


def _is_own(element: Any) -> bool:
    """Whether an element of a comment has its text: replies have theirs."""
    return isinstance(element.tag, str) and element.tag.rpartition("}")[2] in ("text", "txBody")


def _related_roots(part: Any, kind: re.Pattern[str]) -> Iterator[Any]:
    for relation in part.rels.values():
        if not relation.is_external and kind.search(relation.reltype):
            yield parse_xml(relation.target_part.blob)
