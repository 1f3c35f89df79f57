"""Where in a document a chunk is: its section and pages."""

import re
from collections.abc import Sequence
from typing import Any

from pg_graphrag.server import Database, Row
from pg_graphrag.text.letters import without_invisible
from pg_graphrag.text.outline import PAGE_END, PATH_JOINT, Outline, pages_text

# Paragraphs, and the parts of those that go over a page.
_PARAGRAPH = re.compile(r"[^\s\f](?:[^\n\f]|\n(?![ \t]*\n))*+")
_CHUNKS = "SELECT c.id, c.section, c.page, c.content FROM graphrag.chunks c WHERE c.id = ANY ($1)"


def place_of(row: Row) -> dict[str, str]:
    """Return {section, pages} of a chunk (section, page, content), those that it has."""
    places = {"section": row["section"], "pages": pages_text(row["page"], row["content"])}
    return {name: value for name, value in places.items() if value}


def with_places(
    db: Database, citations: Sequence[dict[str, Any]], cited_sentences: Sequence[tuple[int, str]]
) -> list[dict[str, Any]]:
    """Return citations with `section` and `pages` of the paragraph that shares most with the sentences that cite it, or null."""
    ids = [citation["chunk_id"] for citation in citations if citation["chunk_id"] is not None]
    chunks = {row["id"]: row for row in db.query(_CHUNKS, ["int8[]"], [ids])} if ids else {}
    sentences: dict[int, str] = {}
    for number, sentence in cited_sentences:
        sentences[number] = f"{sentences.get(number, '')} {sentence}"
    rows = []
    for citation in citations:
        section = pages = None
        if (chunk := chunks.get(citation["chunk_id"])) is not None:
            start, end = _paragraph(chunk["content"], sentences[citation["number"]])
            section = _section(chunk, start, citation["title"])
            if chunk["page"] is not None:
                pages = pages_text(
                    chunk["page"] + chunk["content"].count(PAGE_END, 0, start), chunk["content"][start:end]
                )
        rows.append(citation | {"section": section, "pages": pages})
    return rows


def pieces(text: str) -> set[str]:
    """Return the runs of four characters, which stand for words in any script."""
    lowered = " ".join(without_invisible(text).casefold().split())
    return {lowered[start : start + 4] for start in range(len(lowered) - 3)}


def _paragraph(content: str, sentence: str) -> tuple[int, int]:
    """Return from where to where the paragraph goes that shares most with a sentence; ties: the first."""
    sentence_pieces = pieces(sentence)
    best, most = (0, len(content)), -1
    for match in _PARAGRAPH.finditer(content):
        shared = len(sentence_pieces & pieces(match[0]))
        if shared > most:
            best, most = match.span(), shared
    return best


def _section(chunk: Row, position: int, title: str | None) -> str | None:
    """Return the path of headings above a place of a chunk: those above the chunk, then those in it."""
    section = chunk["section"] or ""
    inner = Outline(chunk["content"], title).section(position, position + 1)
    above = section.split(PATH_JOINT) if section else []
    within = [title for title in inner.split(PATH_JOINT) if title not in above] if inner else []
    return PATH_JOINT.join(above + within) or None
