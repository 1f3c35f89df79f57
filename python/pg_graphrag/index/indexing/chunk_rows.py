"""Rows of chunks, windows and claims: writes them, reads them as drafts, and compares them with a text that is cut
again.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from pg_graphrag.index.graph.change import Change
from pg_graphrag.index.graph.drafts import ChunkDraft, DocumentDraft, Statement
from pg_graphrag.index.indexing.item_vectors import Item
from pg_graphrag.server import Database, columns, reserve, slices, to_json
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.text.concept import key
from pg_graphrag.text.languages import REGCONFIG

# Chunks per statement: parsing the text of one takes some milliseconds.
CHUNK_SLICE = 100
# A tsvector keeps at most this many positions of a lexeme; a larger count is stored apart.
MAX_POSITIONS = 255
# Separates cells of a table without spaces; never part of a number, name, path or compound.
_PARTS = re.compile(r"[^\w.:/@+-]+")
# Chunks that are compared by one statement, which makes their lexemes: some 100 ms.
_COMPARED = 100
# The last ordinal, for a whole document.
LAST_ORDINAL = 2**31 - 1

_CHUNKS = """
SELECT c.document_id, c.id, c.ordinal, c.start_offset, c.own_offset, c.end_offset, c.language, c.content, c.token_count,
       c.section, c.page, c.picture_id,
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
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
       AS u (ordinal, start_offset, own_offset, end_offset, language, content, token_count, section, page, picture_id, config,
             lexical, windows)
  JOIN graphrag.chunks c ON c.document_id = $1 AND c.ordinal = u.ordinal
   AND (c.start_offset, c.own_offset, c.end_offset) = (u.start_offset, u.own_offset, u.end_offset)
   AND (c.language, c.token_count, c.section, c.page, c.picture_id)
       IS NOT DISTINCT FROM (u.language, u.token_count, u.section, u.page, u.picture_id)
   AND c.content = u.content COLLATE "C"
   AND c.tsv = pg_catalog.to_tsvector(u.config::regconfig, u.lexical)
   AND u.windows = coalesce((SELECT pg_catalog.string_agg(pg_catalog.concat(w.start_offset, '-', w.end_offset), ' '
                                                          ORDER BY w.ordinal)
                               FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id), '')
"""
_SAME_TYPES = ["int8", *["int4[]"] * 4, *["text[]"] * 2, "int4[]", "text[]", "int4[]", "int8[]", *["text[]"] * 3]


def stored_drafts(
    db: Database, documents: Iterable[tuple[int, str, str | None]], first: int = 0, last: int = LAST_ORDINAL
) -> list[DocumentDraft]:
    """Return drafts of documents (id, content_hash, title) with the chunks of these ordinals, without mentions."""
    drafts = {document[0]: DocumentDraft(*document, [], [], []) for document in documents}
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
                picture_id=row["picture_id"],
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
            [chunk.picture_id for chunk in part],
            [config(chunk) for chunk in part],
            [chunk.lexical for chunk in part],
            [" ".join(f"{start}-{end}" for start, end in chunk.windows) for chunk in part],
        ]
        if db.value(_SAME, _SAME_TYPES, [draft.id, *chunk_columns]) != len(part):
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


def remove_chunks(db: Database, corpus: Corpus, document_ids: list[int], change: Change) -> list[int]:
    """Remove the chunks of documents, not yet their vectors; return the ids of the chunks."""
    rows = db.query("SELECT c.id FROM graphrag.chunks c WHERE c.document_id = ANY ($1)", ["int8[]"], [document_ids])
    old = [row["id"] for row in rows]
    if not old:
        return []
    for part in slices(old, CHUNK_SLICE):
        change.remove_chunks(db, part)
    db.query("SELECT graphrag._bm25_remove($1, 'chunk', $2)", ["int4", "int8[]"], [corpus.id, old])
    db.query("DELETE FROM graphrag.chunks WHERE id = ANY ($1)", ["int8[]"], [old])
    return old


_INSERT_CHUNKS = """
INSERT INTO graphrag.chunks (id, corpus_id, document_id, ordinal, start_offset, own_offset, end_offset, language,
                             content, token_count, tsv, extraction, section, page, unfit, concepts, is_row, picture_id)
SELECT u.id, $1, u.document_id, u.ordinal, u.start_offset, u.own_offset, u.end_offset, u.language, u.content,
       u.token_count, pg_catalog.to_tsvector(u.config::regconfig, u.lexical), u.extraction, u.section, u.page, u.unfit::jsonb,
       u.concepts, u.is_row, u.picture_id
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
       AS u (id, document_id, ordinal, start_offset, own_offset, end_offset, language, content, token_count, config,
             lexical, extraction, section, page, unfit, concepts, is_row, picture_id)
"""
_CHUNK_TYPES = ["int4", *["int8[]"] * 2, *["int4[]"] * 4, *["text[]"] * 2, "int4[]", *["text[]"] * 4, "int4[]"]
_CHUNK_TYPES += ["text[]", "bytea[]", "bool[]", "int8[]"]


def insert_chunks(db: Database, corpus: Corpus, drafts: Sequence[DocumentDraft]) -> list[list[int]]:
    """Insert the chunks of documents, and their words in BM25; return their ids by document."""
    flat = [(draft, piece) for draft in drafts for piece in draft.chunks]
    ids = reserve(db, "chunks_id_seq", len(flat))
    for part in slices(zip(ids, flat, strict=True), CHUNK_SLICE):
        rows = []
        for chunk_id, (draft, p) in part:
            place = (chunk_id, draft.id, p.ordinal, p.start, p.own_start, p.end)
            text = (p.language, p.content, p.token_count, config(p), p.lexical, p.extraction)
            rows.append((*place, *text, p.section, p.page, unfit_json(p), p.concepts, draft.is_row, p.picture_id))
        db.query(_INSERT_CHUNKS, _CHUNK_TYPES, [corpus.id, *columns(rows)])
        _store_overflow(db, {chunk_id: piece for chunk_id, (_, piece) in part})
        db.query(
            "SELECT graphrag._bm25_add($1, 'chunk', $2, $3)",
            ["int4", "int8[]", "int8[]"],
            [corpus.id, [row[0] for row in rows], [row[1] for row in rows]],
        )
    remaining_ids = iter(ids)
    return [[next(remaining_ids) for _ in draft.chunks] for draft in drafts]


def _store_overflow(db: Database, pieces: dict[int, ChunkDraft]) -> None:
    """Record the exact counts of lexemes too frequent for a tsvector, by counting in stretches that cannot overflow."""
    rows = db.query(
        "SELECT c.id FROM graphrag.chunks c WHERE c.id = ANY ($1) AND pg_catalog.length(c.tsv) > 0"
        " AND c.token_count >= $2 AND EXISTS"
        " (SELECT FROM pg_catalog.unnest(c.tsv) t WHERE pg_catalog.cardinality(t.positions) >= $2)",
        ["int8[]", "int4"],
        [list(pieces), MAX_POSITIONS],
    )
    for row in rows:
        piece = pieces[row["id"]]
        db.query(
            "WITH counted AS (SELECT t.lexeme, pg_catalog.sum(pg_catalog.cardinality(t.positions)) AS tf"
            "                   FROM pg_catalog.unnest($3) s (stretch),"
            "                        pg_catalog.unnest(pg_catalog.to_tsvector($2::regconfig, s.stretch)) t GROUP BY 1)"
            " UPDATE graphrag.chunks SET tf_overflow ="
            " (SELECT pg_catalog.jsonb_object_agg(x.lexeme, x.tf) FROM counted x WHERE x.tf >= $4) WHERE id = $1",
            ["int8", "text", "text[]", "int4"],
            [row["id"], config(piece), list(_stretches(piece.lexical)), MAX_POSITIONS],
        )


def _stretches(text: str) -> Iterator[str]:
    """Cut between lexemes, into stretches too short for MAX_POSITIONS of one, which takes at least two characters."""
    length = 0
    words: list[str] = []
    for word in text.split():
        for part in [word] if len(word) < MAX_POSITIONS else _PARTS.split(word):
            if length + len(part) > MAX_POSITIONS:
                yield " ".join(words)
                length, words = 0, []
            words.append(part)
            length += len(part) + 1
    yield " ".join(words)


def insert_windows(
    db: Database, corpus: Corpus, drafts: Sequence[DocumentDraft], chunk_ids: list[list[int]]
) -> list[Item]:
    """Write the windows of new chunks; return the items to embed, which are none for long documents."""
    rows = [
        (draft.id, chunk_id, ordinal, start, end)
        for draft, ids in zip(drafts, chunk_ids, strict=True)
        for piece, chunk_id in zip(draft.chunks, ids, strict=True)
        for ordinal, (start, end) in enumerate(piece.windows)
    ]
    ids = reserve(db, "chunk_windows_id_seq", len(rows))
    for part in slices(zip(ids, rows, strict=True)):
        db.query(
            "INSERT INTO graphrag.chunk_windows"
            " (corpus_id, id, document_id, chunk_id, ordinal, start_offset, end_offset)"
            " SELECT $1, u.* FROM unnest($2, $3, $4, $5, $6, $7) u",
            ["int4", "int8[]", "int8[]", "int8[]", "int4[]", "int4[]", "int4[]"],
            [corpus.id, *columns([(number, *row) for number, row in part])],
        )
    long_ids = {draft.id for draft in drafts if draft.is_long}
    embedded = [(number, row) for number, row in zip(ids, rows, strict=True) if row[0] not in long_ids]
    texts = [text for draft in drafts for text in draft.window_texts]
    return [(number, row[1], row[0], text) for (number, row), text in zip(embedded, texts, strict=True)]


def write_statements(
    db: Database, corpus_id: int, drafts: Sequence[DocumentDraft], chunk_ids: list[list[int]]
) -> dict[str, list[Item]]:
    """Number the statements of new chunks, and store claims; return by kind the items to embed.

    `chunk_ids`: those of each draft's chunks, in order.
    """
    statements: dict[str, list[tuple[Statement, int, int]]] = {"entity": [], "relationship": []}
    claims = []
    for draft, ids in zip(drafts, chunk_ids, strict=True):
        for piece, chunk_id in zip(draft.chunks, ids, strict=True):
            for kind, mentions in (("entity", piece.entities.values()), ("relationship", piece.relationships.values())):
                statements[kind] += [
                    (mention.statement, chunk_id, draft.id) for mention in mentions if mention.statement is not None
                ]
            for c in piece.claims:
                texts = (c.subject, c.object, c.type, c.status, c.start, c.end, c.description, c.source_text)
                claims.append((draft.id, chunk_id, key(c.subject), c.object and key(c.object), *texts))
    items: dict[str, list[Item]] = {}
    for kind, kind_statements in statements.items():
        numbers = reserve(db, f"{kind}_mentions_id_seq", len(kind_statements))
        items[f"{kind}_mention"] = []
        for number, (statement, chunk_id, document_id) in zip(numbers, kind_statements, strict=True):
            statement.mention_id = number
            items[f"{kind}_mention"].append((number, chunk_id, document_id, statement.text))
    if claims:
        db.query(
            "INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, object_key, subject, object,"
            " type, status, start_date, end_date, description, source_text)"
            " SELECT $1, u.* FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) u",
            ["int4", "int8[]", "int8[]", *["text[]"] * 10],
            [corpus_id, *columns(claims)],
        )
    return items
