"""Where a citation leads: section, pages and picture of the cited paragraph."""

import re
from collections.abc import Sequence
from typing import Any

from pg_graphrag.search.contexts.citations import pieces
from pg_graphrag.server import Database, Row
from pg_graphrag.text.outline import PAGE_END, PATH_JOINT, Outline, pages_text

# Paragraphs, and the parts of those that span pages.
_PARAGRAPH = re.compile(r"[^\s\f](?:[^\n\f]++|\n(?![ \t]*\n))*")
_CHUNKS = "SELECT c.id, c.section, c.page, c.picture_id, c.content FROM graphrag.chunks c WHERE c.id = ANY ($1)"
_PAGE_PICTURES = """
SELECT u.document_id, u.page, pg_catalog.min(p.id) AS id
  FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) AS u (document_id, page)
  JOIN graphrag.pictures p ON p.document_id = u.document_id AND p.page = u.page AND p.is_page
 GROUP BY u.document_id, u.page
"""


def with_places(
    db: Database, citations: Sequence[dict[str, Any]], cited_sentences: Sequence[tuple[int, str]]
) -> list[dict[str, Any]]:
    """Return citations with `section` and `pages` of the paragraph that shares most with a citing sentence, or null.

    A citation of a picture's text has `picture`, its number; so has text on a page that a picture shows whole.
    """
    ids = [citation["chunk_id"] for citation in citations if citation["chunk_id"] is not None]
    chunks = {row["id"]: row for row in db.query(_CHUNKS, ["int8[]"], [ids])} if ids else {}
    sentences: dict[int, list[str]] = {}
    for number, sentence in cited_sentences:
        sentences.setdefault(number, []).append(sentence)
    rows = []
    on_pages: list[tuple[dict[str, Any], int]] = []
    for citation in citations:
        section = pages = picture = None
        if (chunk := chunks.get(citation["chunk_id"])) is not None:
            start, end = _paragraph(chunk["content"], sentences[citation["number"]])
            section = _section(chunk, start, citation["title"])
            picture = chunk["picture_id"]
            # A text without pages is one.
            page = (chunk["page"] or 1) + chunk["content"].count(PAGE_END, 0, start)
            if chunk["page"] is not None:
                pages = pages_text(page, chunk["content"][start:end])
        rows.append(citation | {"section": section, "pages": pages, "picture": picture})
        if chunk is not None and picture is None:
            on_pages.append((rows[-1], page))
    pictures = _page_pictures(db, [(row["document_id"], page) for row, page in on_pages])
    for row, page in on_pages:
        row["picture"] = pictures.get((row["document_id"], page))
    return rows


def _page_pictures(db: Database, pages: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return the picture of each (document, page) that one shows whole."""
    if not pages:
        return {}
    rows = db.query(_PAGE_PICTURES, ["int8[]", "int4[]"], [list(column) for column in zip(*pages, strict=True)])
    return {(row["document_id"], row["page"]): row["id"] for row in rows}


def _paragraph(content: str, sentences: Sequence[str]) -> tuple[int, int]:
    """Return from where to where the paragraph goes that has most of one of the sentences; ties: the first."""
    paragraphs = [(match.span(), pieces(match[0])) for match in _PARAGRAPH.finditer(content)]
    best, most = (0, len(content)), -1.0
    for sentence_pieces in map(pieces, sentences):
        for span, paragraph_pieces in paragraphs:
            share = len(sentence_pieces & paragraph_pieces) / max(1, len(sentence_pieces))
            if share > most:
                best, most = span, share
    return best


def _section(chunk: Row, position: int, title: str | None) -> str | None:
    """Return the path of headings above a place of a chunk: those above the chunk, then those in it."""
    section = chunk["section"] or ""
    inner = Outline(chunk["content"], title).section(position, position + 1)
    above = section.split(PATH_JOINT) if section else []
    within = [title for title in inner.split(PATH_JOINT) if title not in above] if inner else []
    return PATH_JOINT.join(above + within) or None
