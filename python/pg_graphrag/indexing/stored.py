"""Chunks that are stored already, as drafts to which the graph is added, of a long document in parts."""

from collections.abc import Sequence

from pg_graphrag.graph.drafts import ChunkDraft, DocumentDraft
from pg_graphrag.server import Database, Row

# Chunks of a document whose graph is written at once: a long one takes as much memory, and shows how far it is.
PART_CHUNKS = 64

_CHUNKS = """
SELECT c.document_id, c.id, c.ordinal, c.start_offset, c.own_offset, c.end_offset, c.language, c.content, c.token_count,
       ARRAY(SELECT w.start_offset FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id ORDER BY w.ordinal) AS starts,
       ARRAY(SELECT w.end_offset FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id ORDER BY w.ordinal) AS ends
  FROM unnest($1, $2) AS u (id, first)
  JOIN graphrag.chunks c ON c.document_id = u.id AND c.ordinal BETWEEN u.first AND u.first + $3
 ORDER BY c.document_id, c.ordinal
"""
_CURRENT = """
SELECT u.id
  FROM unnest($1, $2, $3, $4) AS u (id, chunks, first, last)
  JOIN graphrag.documents d ON d.id = u.id AND d.indexed_hash = d.content_hash AND d.indexed_at IS NULL
 WHERE u.chunks = coalesce((SELECT pg_catalog.string_agg(c.id::text, ' ' ORDER BY c.ordinal)
                              FROM graphrag.chunks c
                             WHERE c.document_id = u.id AND c.ordinal BETWEEN u.first AND u.last), '')
"""


def stored_drafts(db: Database, documents: Sequence[Row], firsts: dict[int, int]) -> list[DocumentDraft]:
    """Return drafts of documents (id, content_hash) with the next chunks that they have, without mentions.

    `firsts`: {document: ordinal of the first of these chunks}.
    """
    drafts = {row["id"]: DocumentDraft(row["id"], row["content_hash"], [], [], []) for row in documents}
    values = [list(drafts), [firsts[document] for document in drafts], PART_CHUNKS]
    for row in db.query(_CHUNKS, ["int8[]", "int4[]", "int4"], values) if drafts else ():
        draft = drafts[row["document_id"]]
        assert draft.chunk_ids is not None
        if len(draft.chunks) == PART_CHUNKS:
            draft.lacks_graph, draft.next_ordinal = True, row["ordinal"]
            continue
        draft.chunk_ids.append(row["id"])
        draft.chunks.append(
            ChunkDraft(
                ordinal=row["ordinal"],
                start=row["start_offset"],
                own_start=row["own_offset"],
                end=row["end_offset"],
                language=row["language"],
                content=row["content"],
                lexical="",
                token_count=row["token_count"],
                windows=list(zip(row["starts"], row["ends"], strict=True)),
            )
        )
    return list(drafts.values())


def still_stored(db: Database, drafts: Sequence[DocumentDraft]) -> set[int]:
    """Return the documents that still wait for the graph of just these chunks; they are locked."""
    if not drafts:
        return set()
    ids = [draft.id for draft in drafts]
    chunks = [" ".join(map(str, draft.chunk_ids or ())) for draft in drafts]
    firsts = [draft.chunks[0].ordinal if draft.chunks else 0 for draft in drafts]
    lasts = [draft.chunks[-1].ordinal if draft.chunks else 0 for draft in drafts]
    rows = db.query(_CURRENT, ["int8[]", "text[]", "int4[]", "int4[]"], [ids, chunks, firsts, lasts])
    return {row["id"] for row in rows}


def note_extractions(db: Database, drafts: Sequence[DocumentDraft]) -> None:
    """Store of chunks that were there what their extraction came to."""
    rows = [
        (number, chunk.extraction)
        for draft in drafts
        for number, chunk in zip(draft.chunk_ids or (), draft.chunks, strict=True)
    ]
    if rows:
        db.query(
            "UPDATE graphrag.chunks c SET extraction = u.extraction FROM unnest($1, $2) AS u (id, extraction)"
            " WHERE c.id = u.id",
            ["int8[]", "text[]"],
            [[row[0] for row in rows], [row[1] for row in rows]],
        )
