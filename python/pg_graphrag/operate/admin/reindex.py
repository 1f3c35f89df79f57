"""graphrag.reindex(): has workers make everything again from the documents, whatever the state of the tables.

One transaction removes the graph, because merged counts cannot be repaired piece by piece, and makes BM25 and vectors
fit the existing chunks. Searches use these until workers have indexed each document again.
"""

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index import bm25
from pg_graphrag.index.curation.aliases import resolve_aliases, store_aliases, stored_aliases
from pg_graphrag.index.curation.settle import Changes, settle
from pg_graphrag.index.curation.storage import Storage
from pg_graphrag.index.indexing.item_vectors import SOURCES
from pg_graphrag.operate.admin.corpus_changes import DELETE_BM25, DELETE_GRAPH
from pg_graphrag.operate.admin.preconditions import check_isolation, check_sees_all
from pg_graphrag.server import Database, slices
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus, revise
from pg_graphrag.server.corpus.spaces import of_state, spaces
from pg_graphrag.server.queue import queue, queue_refresh

# Mentions that name another corpus than their chunk.
_MISPLACED = (
    "DELETE FROM graphrag.relationship_mentions m USING graphrag.chunks c WHERE c.corpus_id = $1 AND m.chunk_id = c.id",
    "DELETE FROM graphrag.entity_mentions m USING graphrag.chunks c WHERE c.corpus_id = $1 AND m.chunk_id = c.id",
)
# Rows whose referenced rows were removed by TRUNCATE or a partial restore. In any corpus: they do not say which.
_ORPHANS = (
    "DELETE FROM graphrag.entity_values v WHERE NOT EXISTS (SELECT FROM graphrag.entities e WHERE e.id = v.entity_id)",
    "DELETE FROM graphrag.relationship_values v"
    " WHERE NOT EXISTS (SELECT FROM graphrag.relationships r WHERE r.id = v.relationship_id)",
    "DELETE FROM graphrag.bm25_postings p WHERE NOT EXISTS (SELECT FROM graphrag.bm25_segments s WHERE s.id = p.segment_id)",
)
# Chunks of deleted or retracted documents.
_DEAD_CHUNKS = """
DELETE FROM graphrag.chunks c
 WHERE c.corpus_id = $1
   AND NOT EXISTS (SELECT FROM graphrag.documents d
                    WHERE d.id = c.document_id AND d.corpus_id = c.corpus_id AND d.retracted_at IS NULL OFFSET 0)
"""
_DEAD_WINDOWS = """
DELETE FROM graphrag.chunk_windows w
 WHERE w.corpus_id = $1
   AND NOT EXISTS (SELECT FROM graphrag.chunks c WHERE c.id = w.chunk_id AND c.document_id = w.document_id)
"""
# Vectors without a window, and duplicates.
_DEAD_VECTORS = """
DELETE FROM ONLY {table} v
 USING (SELECT x.ctid AS place,
               pg_catalog.row_number() OVER (PARTITION BY x.window_id) > 1
               OR {vector}.vector_dims(x.embedding) <> $2
               OR NOT EXISTS (SELECT FROM graphrag.chunk_windows w
                               WHERE w.id = x.window_id AND w.chunk_id = x.chunk_id AND w.document_id = x.document_id) AS is_dead
          FROM ONLY {table} x WHERE x.space_id = $1) d
 WHERE v.ctid = d.place AND d.is_dead
"""
# Searchable text stays searchable. A version without chunks is not.
_DUE = """
UPDATE graphrag.documents d
   SET indexed_at = NULL, status = 'pending', error = NULL,
       indexed_hash = CASE WHEN EXISTS (SELECT FROM graphrag.chunks c WHERE c.document_id = d.id) THEN d.indexed_hash END
 WHERE d.corpus_id = $1 AND d.retracted_at IS NULL
"""
# The text is unchanged.
_AGAIN = """
UPDATE graphrag.documents d SET indexed_at = NULL, status = 'pending', error = NULL
 WHERE d.corpus_id = $1 AND d.retracted_at IS NULL
"""
_STOOD_IN = """
   AND d.id IN (SELECT c.document_id FROM graphrag.chunks c WHERE c.corpus_id = $1 AND c.extraction IN ('cut off', 'stood in'))
"""
# Also documents that the update did not queue: they wait, failed, are at work, or lost their job.
_QUEUE = """
SELECT graphrag._requeue_jobs('index', pg_catalog.array_agg(d.corpus_id), pg_catalog.array_agg(d.id)) AS queued
  FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.retracted_at IS NULL
"""
# Which tables are lost repair() asks, too.
_LOST_TABLES = f"""
SELECT graphrag._restore_vectors($1)
 WHERE EXISTS (SELECT FROM graphrag.embedding_spaces s, pg_catalog.unnest('{{{",".join(SOURCES)}}}'::text[]) AS kind
                WHERE s.corpus_id = $1 AND s.own_tables
                  AND pg_catalog.to_regclass(pg_catalog.format('graphrag.%s_vectors_%s', kind, s.id)) IS NULL)
"""
_CHUNKS = "SELECT c.id, c.document_id FROM graphrag.chunks c WHERE c.corpus_id = $1 ORDER BY c.id"
# Chunks whose terms one statement reads.
_CHUNK_SLICE = 1000


def reindex(db: Database, name: str | None, extraction: str | None) -> int:
    """Serve graphrag.reindex(); return how many documents workers will index again.

    `extraction`: "stood in", for documents that a model should be asked about once more, or None: all.

    Raises GraphRAGError: 22023 for another value of `extraction`, 42704 for an unknown corpus, 42501 under row-level
      security, 25001 in a transaction that does not see what others commit meanwhile, 55P03 while transactions write to it
      for half a minute.
    """
    corpus = find_corpus(db, name)
    check_sees_all(db, "reindex()")
    check_isolation(db, "reindex()")
    if extraction is not None:
        return _ask_again(db, corpus, extraction)
    keys, pairs = _stated(db, corpus)
    storage = Storage(db, corpus)
    storage.embed(sorted(keys | {key for pair in pairs for key in pair}))
    # Dropped meanwhile: there is another of that name, or an error.
    if not _lock(db, corpus):
        return reindex(db, name, extraction)
    db.query("SELECT graphrag._advance_sequences()")
    for statement in (_LOST_TABLES, *_MISPLACED, *DELETE_GRAPH, *DELETE_BM25, _DEAD_CHUNKS, _DEAD_WINDOWS):
        db.query(statement, ["int4"], [corpus.id])
    for statement in _ORPHANS:
        db.query(statement)
    _delete_vectors(db, corpus)
    _add_to_bm25(db, corpus)
    db.query(_DUE, ["int4"], [corpus.id])
    queued = db.value(_QUEUE, ["int4"], [corpus.id])
    db.query(
        "SELECT graphrag.rebuild_graph($1) WHERE EXISTS (SELECT FROM pg_catalog.pg_extension x WHERE x.extname = 'pg_graphrag')",
        ["text"],
        [corpus.name],
    )
    _curate(db, storage)
    db.query(
        "UPDATE graphrag.corpora c SET needs_reindex = false WHERE c.id = $1 AND c.needs_reindex", ["int4"], [corpus.id]
    )
    revise(db, corpus.id)
    db.query("SELECT graphrag._recount($1)", ["int4"], [corpus.id])
    _queue_upkeep(db, corpus)
    return int(queued)


def _ask_again(db: Database, corpus: Corpus, extraction: str) -> int:
    """Queue the documents with chunks for which NLP stood in; they stay unchanged until workers have indexed them again."""
    if extraction != "stood in":
        raise GraphRAGError(f"extraction cannot be {extraction!r}", hint="Give 'stood in', or null: all documents.")
    db.query(
        "DELETE FROM graphrag.llm_batch_requests r WHERE r.corpus_id = $1 AND r.state = 'spoiled'",
        ["int4"],
        [corpus.id],
    )
    queued = db.value(_QUEUE + _STOOD_IN, ["int4"], [corpus.id])
    db.query(_AGAIN + _STOOD_IN, ["int4"], [corpus.id])
    return int(queued or 0)


def _stated(db: Database, corpus: Corpus) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the keys of entities, and the pairs of relationships, that people made or described."""
    rows = db.query(
        "SELECT c.key, c.other_key FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment'",
        ["int4"],
        [corpus.id],
    )
    return (
        {row["key"] for row in rows if row["other_key"] is None},
        {(row["key"], row["other_key"]) for row in rows if row["other_key"] is not None},
    )


def _lock(db: Database, corpus: Corpus) -> bool:
    """Wait for writers of the corpus, and keep others out until the transaction ends; False: it is gone.

    In the order of lock_tables.sql.
    """
    if not db.query("SELECT FROM graphrag.corpora c WHERE c.id = $1 FOR NO KEY UPDATE", ["int4"], [corpus.id]):
        return False
    db.query("SELECT graphrag._lock_writers_out($1, false)", ["int4"], [corpus.id])
    return True


def _delete_vectors(db: Database, corpus: Corpus) -> None:
    """Delete all vectors but those of windows that are there."""
    vector = db.vector_type.rsplit(".", 1)[0]
    for space in spaces(db, corpus.id):
        if space.state == "retired":
            continue
        for kind in SOURCES:
            if space.own_tables:
                db.query(f"DELETE FROM ONLY graphrag.{kind}_vectors v WHERE v.space_id = $1", ["int4"], [space.id])
            if kind != "window":
                db.query(f"DELETE FROM ONLY {space.target(kind)} v WHERE v.space_id = $1", ["int4"], [space.id])
        sql = _DEAD_VECTORS.format(table=space.target("window"), vector=vector)
        db.query(sql, ["int4", "int4"], [space.id, space.embedding.dimensions])


def _add_to_bm25(db: Database, corpus: Corpus) -> None:
    chunks = [(row["id"], row["document_id"]) for row in db.query(_CHUNKS, ["int4"], [corpus.id])]
    for part in slices(chunks, _CHUNK_SLICE):
        db.query(
            "SELECT graphrag._bm25_add($1, 'chunk', $2, $3)",
            ["int4", "int8[]", "int8[]"],
            [corpus.id, [chunk for chunk, _ in part], [document for _, document in part]],
        )
    if len(chunks) >= bm25.LONG_TAIL:
        bm25.optimize(db, corpus.id)


def _curate(db: Database, storage: Storage) -> None:
    """Make the entities and relationships again that no document states; workers meet the other curations."""
    corpus = storage.corpus
    old_aliases, new_aliases = stored_aliases(db, corpus.id), resolve_aliases(db, corpus.id)
    store_aliases(db, corpus.id, old_aliases, new_aliases)
    # Under the lock: there may be others by now.
    keys, pairs = _stated(db, corpus)
    if keys or pairs:
        storage.lock()
        settle(db, storage, Changes(new_aliases, new_aliases, changed_keys=keys, changed_pairs=pairs))


def _queue_upkeep(db: Database, corpus: Corpus) -> None:
    queue(db, "optimize", corpus.id)
    if of_state(spaces(db, corpus.id), "building") is not None:
        queue(db, "reembed", corpus.id)
    if corpus.options.communities.automatic:
        queue_refresh(db, corpus.id)
