"""Creation, change and removal of corpora."""

import json
from collections.abc import Mapping
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_options
from pg_graphrag.index.graph.merged import queue_summaries
from pg_graphrag.server import Database
from pg_graphrag.server.caches import shared_arrays
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus, placed
from pg_graphrag.server.corpus.options import PINNED, Options, changed_options, check_used, parse_options, reindexes
from pg_graphrag.server.queue import queue, queue_refresh, requeue_documents

# As the table has it.
_NAME_BYTES = 200


def create(db: Database, name: str | None, options: str | None) -> int:
    """Make a corpus and pin its tokenizer; return its number."""
    name = check_name(name)
    if (place := placed(db, name)) is not None:
        raise GraphRAGError(
            f'corpus "{name}" exists already, at node "{place.node}"',
            sqlstate="23505",
            hint="Choose another name. Where it is gone from there, forget it: SELECT graphrag.place_corpus(name, NULL). If this"
            f" database is the node, say so: ALTER DATABASE … SET graphrag.node = '{place.node}'.",
        )
    parsed = parse_options(_read(options))
    check_used(parsed.llm)
    _check_providers(db, parsed)
    from pg_graphrag.text.tokenizers import tokenizer  # half a second that look-ups need not wait for

    ranks = tokenizer(parsed.tokenizer)
    row = db.query(
        "INSERT INTO graphrag.corpora (name, options, tokenizer, tokenizer_fingerprint)"
        " VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING RETURNING id",
        ["text", "jsonb", "text", "text"],
        [name, options, ranks.name, ranks.fingerprint],
    )
    if not row:
        raise GraphRAGError(
            f'corpus "{name}" exists already',
            sqlstate="23505",
            hint="Choose another name, or change its options: graphrag.alter_corpus(name, options).",
        )
    return int(row[0]["id"])


def check_name(name: str | None) -> str:
    """Return what a corpus may be called; 22023 for none, and for one that is too long."""
    hint = f"Give a non-empty name of at most {_NAME_BYTES} bytes."
    if not name:
        raise GraphRAGError("a corpus needs a name", hint=hint)
    if (length := len(name.encode("utf-8", "surrogateescape"))) > _NAME_BYTES:
        raise GraphRAGError(f'the name of a corpus, "{name[:40]}…", has {length} bytes', hint=hint)
    return name


def clone(db: Database, name: str | None, new_name: str | None, options: str | None) -> int:
    """Make a corpus with the documents of another and its options, changed by `options`; return its number."""
    corpus = find_corpus(db, name)
    number = create(db, new_name, json.dumps(options_like(db, corpus, {}, options)))
    # Closed before it has documents: grants and policies of the other corpus do not apply to it.
    db.query("SELECT graphrag.protect($1, 'false')", ["text"], [new_name])
    db.query(
        "INSERT INTO graphrag.documents (corpus, source_key, title, content, metadata, valid_from, valid_to,"
        " retracted_at, retraction_reason)"
        " SELECT $2, d.source_key, d.title, d.content, d.metadata, d.valid_from, d.valid_to, d.retracted_at, d.retraction_reason"
        "   FROM graphrag.documents d WHERE d.corpus_id = $1 ORDER BY d.id",
        ["int4", "text"],
        [corpus.id, new_name],
    )
    db.query(
        "INSERT INTO graphrag.pictures (document_id, place, page, is_page, content, width, height, alternative_text,"
        " caption, recognised_text, description)"
        " SELECT n.id, p.place, p.page, p.is_page, p.content, p.width, p.height, p.alternative_text, p.caption,"
        "        p.recognised_text, p.description"
        "   FROM graphrag.documents d"
        "   JOIN graphrag.pictures p ON p.document_id = d.id"
        "   JOIN graphrag.documents n ON n.corpus = $2 AND n.source_key = d.source_key"
        "  WHERE d.corpus_id = $1 ORDER BY p.id",
        ["int4", "text"],
        [corpus.id, new_name],
    )
    tables = db.value(
        "SELECT pg_catalog.string_agg(pg_catalog.format('%I.%I', a.schema_name, a.table_name), ', ' ORDER BY a.id)"
        "  FROM graphrag._attached_tables a WHERE a.corpus_id = $1 AND a.kind <> 'documents'",
        ["int4"],
        [corpus.id],
    )
    if tables is not None:
        db.warning(
            f"rows of attached tables are plain texts in corpus {new_name}: {tables}",
            hint="Attach these tables to it as to the first: then it has the same entities and relationships.",
        )
    return number


def options_like(
    db: Database, corpus: Corpus, defaults: Mapping[str, object], options: str | None
) -> dict[str, object]:
    """Return the options of a corpus with these `defaults` in place of its own, changed by `options` (null: left out)."""
    changes: dict[str, object] = _read(options)
    stored = db.value("SELECT options FROM graphrag.corpora WHERE id = $1", ["int4"], [corpus.id])
    merged = {**json.loads(str(stored)), **defaults, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def alter(db: Database, name: str | None, options: str | None) -> None:
    """Change options; if chunks or mentions depend on them, queue every document again."""
    corpus = find_corpus(db, name)
    changes: dict[str, object] = _read(options)
    # Lock and read again: a model that reembed() has swapped meanwhile must not come back.
    select = "SELECT options FROM graphrag.corpora WHERE id = $1 FOR NO KEY UPDATE"
    stored = db.query(select, ["int4"], [corpus.id])
    # Dropped meanwhile: there is another of that name, or an error.
    if not stored:
        alter(db, name, options)
        return
    corpus = find_corpus(db, name)
    stored_options = json.loads(str(stored[0]["options"]))
    new_options = {key: value for key, value in {**stored_options, **changes}.items() if value is not None}
    new = parse_options(new_options)
    if "llm" in changes:
        check_used(new.llm)
    _check_providers(db, new)
    # Without the option, the embedding is that of the vectors, or not chosen yet.
    pinned = changed_options(
        corpus.options, new, tuple(name for name in PINNED if name != "embedding" or name in new_options)
    )
    filled = "SELECT FROM graphrag.documents WHERE corpus_id = $1 LIMIT 1"
    # Vectors outlive the documents.
    spaced = "embedding" in pinned and corpus.space is not None
    if pinned and (spaced or db.query(filled, ["int4"], [corpus.id])):
        raise GraphRAGError(
            f'option "{pinned[0]}" of corpus "{name}" cannot change: the corpus has documents',
            sqlstate="55000",
            hint="Call graphrag.reembed(corpus, embedding)."
            if pinned[0] == "embedding"
            else "Create a new corpus with that option and insert the documents there.",
        )
    from pg_graphrag.text.tokenizers import tokenizer  # half a second that look-ups need not wait for

    ranks = tokenizer(new.tokenizer)
    if reindexes(corpus.options, new):
        # Before the graph's locks. Its writers may have changed some of the documents, and want others.
        db.query("SELECT graphrag._lock_writers_out($1, false)", ["int4"], [corpus.id])
    # The database knows whether the corpus has a graph: without Apache AGE it has none, whatever the options.
    has_cypher = db.value(
        "UPDATE graphrag.corpora SET options = $2, tokenizer = $3, tokenizer_fingerprint = $4 WHERE id = $1"
        " RETURNING graphrag._has_cypher(options)",
        ["int4", "jsonb", "text", "text"],
        [corpus.id, json.dumps(new_options), ranks.name, ranks.fingerprint],
    )
    if has_cypher != corpus.options.cypher:
        db.query("SELECT graphrag.rebuild_graph($1)", ["text"], [corpus.name])
    if changed_options(corpus.options, new, ("communities",)) and new.communities.automatic:
        queue_refresh(db, corpus.id)
    if new.llm.has("summary") and not corpus.options.llm.has("summary"):
        queue_summaries(db, corpus.id)
    if new.llm.has("vision"):
        queue(db, "describe", corpus.id)
    if reindexes(corpus.options, new):
        db.query(
            "UPDATE graphrag.documents SET indexed_at = NULL, status = 'pending', error = NULL"
            " WHERE corpus_id = $1 AND retracted_at IS NULL",
            ["int4"],
            [corpus.id],
        )
        # Also what the update did not queue: it waits, failed, or is at work with the old options.
        requeue_documents(db, corpus.id)


def _check_providers(db: Database, options: Options) -> None:
    """Refuse a provider that does not exist or is of another kind now, rather than at the first document."""
    names_by_option = options.providers()
    names = sorted(set(names_by_option.values()))
    rows = db.query("SELECT p.name, p.kind FROM graphrag.providers p WHERE p.name = ANY ($1)", ["text[]"], [names])
    kinds_by_name = {str(row["name"]): row["kind"] for row in rows}
    for option, name in names_by_option.items():
        if name not in kinds_by_name:
            raise GraphRAGError(
                f'option "{option}": provider "{name}" does not exist',
                hint="Make it first, with graphrag.set_provider(…).",
            )
        kind = "rerank" if option == "rerank.provider" else "openai"
        if kinds_by_name[name] != kind:
            raise GraphRAGError(
                f'option "{option}": provider "{name}" is of kind {kinds_by_name[name]}, not {kind}',
                hint=f"Make one for it: SELECT graphrag.set_provider(…, '{kind}', …).",
            )


def drop(db: Database, name: str | None) -> None:
    """Remove a corpus with everything derived from it."""
    corpus = find_corpus(db, name, also_moved=True)
    # In the order of lock_tables.sql: documents as a whole first.
    db.query("SELECT FROM graphrag.corpora c WHERE c.id = $1 FOR NO KEY UPDATE", ["int4"], [corpus.id])
    for statement in _LET_GO:
        db.query(statement, ["int4"], [corpus.id])
    if db.query(_GUARDED, ["int4"], [corpus.id]):
        for statement in _OPEN:
            db.query(statement, ["int4"], [corpus.id])
    db.query("SELECT graphrag._lock_writers_out($1, true)", ["int4"], [corpus.id])
    db.query("SELECT graphrag._drop_graph($1)", ["int4"], [corpus.id])
    db.query(
        "SELECT graphrag._drop_space(s.id) FROM graphrag.embedding_spaces s WHERE s.corpus_id = $1",
        ["int4"],
        [corpus.id],
    )
    for statement in _DROP:
        db.query(statement, ["int4"], [corpus.id])
    shared_arrays.forget(db, corpus.id)


def remove_files(db: Database) -> None:
    """Remove the files that sessions map, of all corpora."""
    shared_arrays.forget(db)


# Remains of a corpus that has moved, or that has arrived. While it is moving, the other database may not be complete.
_LET_GO = (
    "DELETE FROM graphrag._histories h USING graphrag.corpora c WHERE $1 IN (h.corpus_id, h.history_id) AND c.id = $1"
    " AND c.move ->> 'state' <> 'moving'",
    "UPDATE graphrag.corpora SET move = NULL WHERE id = $1 AND move ->> 'state' <> 'moving'",
)
_GUARDED = """
SELECT FROM graphrag.corpora WHERE id = $1 AND protection IS NOT NULL
 UNION ALL
SELECT FROM graphrag.corpus_grants WHERE corpus_id = $1
"""
# Ends what protect() and grant_corpus() did.
_OPEN = (
    "SELECT graphrag._lock_grants() FROM graphrag.corpora WHERE id = $1",
    "DELETE FROM graphrag.corpus_grants WHERE corpus_id = $1",
    "UPDATE graphrag.corpora SET protection = NULL WHERE id = $1 AND protection IS NOT NULL",
    "SELECT graphrag._enforce($1, NULL)",
)
# In the order of references among them; values, windows, members, reports and postings go with their rows.
DELETE_GRAPH = (
    "DELETE FROM graphrag.relationship_mentions WHERE corpus_id = $1",
    "DELETE FROM graphrag.entity_mentions WHERE corpus_id = $1",
    "DELETE FROM graphrag.claims WHERE corpus_id = $1",
    "DELETE FROM graphrag.communities WHERE corpus_id = $1",
    "DELETE FROM graphrag.community_states WHERE corpus_id = $1",
    "DELETE FROM graphrag.relationships WHERE corpus_id = $1",
    "DELETE FROM graphrag.entities WHERE corpus_id = $1",
    "DELETE FROM graphrag._row_names WHERE corpus_id = $1",
    "DELETE FROM graphrag._named_rows WHERE corpus_id = $1",
)
DELETE_BM25 = (
    "DELETE FROM graphrag.bm25_segments WHERE corpus_id = $1",
    "DELETE FROM graphrag.bm25_tail WHERE corpus_id = $1",
    "DELETE FROM graphrag.bm25_tombstones WHERE corpus_id = $1",
)
_DROP = (
    "SELECT graphrag._detach_all($1)",
    *DELETE_GRAPH,
    "DELETE FROM graphrag.chunks WHERE corpus_id = $1",
    # After its chunks: of a document that has some, the trigger queues the removal.
    "DELETE FROM graphrag.documents WHERE corpus_id = $1",
    "DELETE FROM graphrag.pictures WHERE corpus_id = $1",
    "DELETE FROM graphrag.jobs WHERE corpus_id = $1",
    "DELETE FROM graphrag.imported_extractions WHERE corpus_id = $1",
    *DELETE_BM25,
    "DELETE FROM graphrag._document_counts WHERE corpus_id = $1",
    "DELETE FROM graphrag._index_counts WHERE corpus_id = $1",
    "DELETE FROM graphrag.corpora WHERE id = $1",
    "DELETE FROM graphrag._locks WHERE corpus_id = $1",
    # A worker cancels the batches that an endpoint still works on.
    "DELETE FROM graphrag.llm_batches WHERE corpus_id = $1 AND state IN ('done', 'failed')",
    "SELECT graphrag._queue_jobs('batch', ARRAY[$1])"
    " WHERE EXISTS (SELECT FROM graphrag.llm_batches b WHERE b.corpus_id = $1)",
)


def _read(options: str | None) -> dict[str, Any]:
    return read_options("null" if options is None else options, '{"language": "ja"}')
