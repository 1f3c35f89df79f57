"""Chunks that are stored already: as drafts to which the graph is added, and compared with a text that is cut anew."""

from collections.abc import Sequence

from pg_graphrag.index.graph.drafts import ChunkDraft, DocumentDraft
from pg_graphrag.server import Database, Row, columns, slices, to_json
from pg_graphrag.text.languages import REGCONFIG

# Chunks that are compared by one statement, which makes their lexemes: some 100 ms.
_COMPARED = 100
# Of a whole document.
LAST_ORDINAL = 2**31 - 1

_CHUNKS = """
SELECT c.document_id, c.id, c.ordinal, c.start_offset, c.own_offset, c.end_offset, c.language, c.content, c.token_count,
       c.section, c.page,
       ARRAY(SELECT w.start_offset FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id ORDER BY w.ordinal) AS starts,
       ARRAY(SELECT w.end_offset FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id ORDER BY w.ordinal) AS ends
  FROM graphrag.chunks c
 WHERE c.document_id = ANY ($1) AND c.ordinal BETWEEN $2 AND $3
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
_SAME = """
SELECT pg_catalog.count(*) AS chunks
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
       AS u (ordinal, start_offset, own_offset, end_offset, language, content, token_count, section, page, config, lexical,
             windows)
  JOIN graphrag.chunks c ON c.document_id = $1 AND c.ordinal = u.ordinal
   AND (c.start_offset, c.own_offset, c.end_offset) = (u.start_offset, u.own_offset, u.end_offset)
   AND (c.language, c.token_count, c.section, c.page) IS NOT DISTINCT FROM (u.language, u.token_count, u.section, u.page)
   AND c.content = u.content COLLATE "C"
   AND c.tsv = pg_catalog.to_tsvector(u.config::regconfig, u.lexical)
   AND u.windows = coalesce((SELECT pg_catalog.string_agg(pg_catalog.concat(w.start_offset, '-', w.end_offset), ' '
                                                          ORDER BY w.ordinal)
                               FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id), '')
"""
_SAME_TYPES = ["int8", *["int4[]"] * 4, *["text[]"] * 2, "int4[]", "text[]", "int4[]", *["text[]"] * 3]


def stored_drafts(
    db: Database, documents: Sequence[Row], first: int = 0, last: int = LAST_ORDINAL
) -> list[DocumentDraft]:
    """Return drafts of documents (id, content_hash) with the chunks of these ordinals, without mentions."""
    drafts = {row["id"]: DocumentDraft(row["id"], row["content_hash"], [], [], []) for row in documents}
    for row in db.query(_CHUNKS, ["int8[]", "int4", "int4"], [list(drafts), first, last]) if drafts else ():
        draft = drafts[row["document_id"]]
        assert draft.chunk_ids is not None
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
                section=row["section"],
                page=row["page"],
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


def is_stored(db: Database, draft: DocumentDraft) -> bool:
    """Whether the index holds just these chunks and windows of this version of a document, which is locked."""
    rows = db.query(
        "SELECT (SELECT pg_catalog.count(*) FROM graphrag.chunks c WHERE c.document_id = d.id) AS chunks"
        "  FROM graphrag.documents d WHERE d.id = $1 AND d.indexed_hash = $2",
        ["int8", "text"],
        [draft.id, draft.content_hash],
    )
    if not rows or rows[0]["chunks"] != len(draft.chunks):
        return False
    for part in slices(draft.chunks, _COMPARED):
        chunk_columns = [
            [chunk.ordinal for chunk in part],
            [chunk.start for chunk in part],
            [chunk.own_start for chunk in part],
            [chunk.end for chunk in part],
            [chunk.language for chunk in part],
            [chunk.content for chunk in part],
            [chunk.token_count for chunk in part],
            [chunk.section for chunk in part],
            [chunk.page for chunk in part],
            [config(chunk) for chunk in part],
            [chunk.lexical for chunk in part],
            [" ".join(f"{start}-{end}" for start, end in chunk.windows) for chunk in part],
        ]
        if db.query(_SAME, _SAME_TYPES, [draft.id, *chunk_columns])[0]["chunks"] != len(part):
            return False
    return True


def config(chunk: ChunkDraft) -> str:
    """Return the text search configuration of a chunk's language."""
    return "pg_catalog." + REGCONFIG[chunk.language]


def unfit_json(chunk: ChunkDraft) -> str | None:
    """Return what the corpus' schema had no place for, as JSON; None: nothing."""
    return to_json(chunk.unfit) if chunk.unfit else None


def note_extractions(db: Database, drafts: Sequence[DocumentDraft]) -> None:
    """Store of chunks that were there what their extraction came to."""
    rows = [
        (number, chunk.extraction, unfit_json(chunk), chunk.concepts)
        for draft in drafts
        for number, chunk in zip(draft.chunk_ids or (), draft.chunks, strict=True)
    ]
    if rows:
        db.query(
            "UPDATE graphrag.chunks c SET extraction = u.extraction, unfit = u.unfit::jsonb, concepts = u.concepts"
            "  FROM unnest($1, $2, $3, $4) AS u (id, extraction, unfit, concepts)"
            " WHERE c.id = u.id"
            "   AND (c.extraction, c.unfit, c.concepts) IS DISTINCT FROM (u.extraction, u.unfit::jsonb, u.concepts)",
            ["int8[]", "text[]", "text[]", "bytea[]"],
            columns(rows),
        )
