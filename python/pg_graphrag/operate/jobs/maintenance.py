"""Upkeep of a corpus: builds vector indexes, prunes caches and logs, packs BM25 postings, cleans up after a
TRUNCATE.
"""

import json
from collections.abc import Callable
from typing import Any

from pg_graphrag.index import bm25
from pg_graphrag.operate.jobs.document_jobs import written_chunks
from pg_graphrag.search.answer.retention import prune
from pg_graphrag.server import Database, function_at
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus
from pg_graphrag.server.corpus.spaces import indexed_rows
from pg_graphrag.server.queue import Job

# Chunks that a session has written of a corpus, from which on it looks whether the corpus is so small that they are many.
LEAST_WRITTEN = 500


def optimize(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind optimize; True: nothing is left to do."""
    _optimize(db, corpus)
    if written_chunks[corpus.id] >= LEAST_WRITTEN:
        # Before the job is done: nobody waits for its locks any more, and what fails or is cancelled comes again.
        db.commit()
        prepare: Callable[[Database, str, int], bool] = function_at("search.graph_view.prepared_files:prepare")
        if prepare(db, corpus.name, written_chunks[corpus.id]):
            del written_chunks[corpus.id]
    return True


def pack(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind pack: pack BM25 postings, and leave what takes long for when the documents are done."""
    bm25.optimize(db, corpus.id)
    return True


def sweep(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind sweep: queue the removal of the index of documents that are gone."""
    db.query("SELECT graphrag._queue_removals($1)", ["int4"], [corpus.id])
    return True


def optimize_named(db: Database, name: str | None) -> str:
    """Serve graphrag.optimize(): do the upkeep of the corpus called `name`; return a summary as JSON."""
    return json.dumps(_optimize(db, find_corpus(db, name)))


def _optimize(db: Database, corpus: Corpus) -> dict[str, Any]:
    # A small corpus needs no index: pgvector scans it faster, and exactly.
    least_rows = indexed_rows(corpus.options.embedding.dimensions)
    db.query("SELECT graphrag._separate_vectors($1, $2)", ["int4", "int4"], [corpus.id, least_rows])
    # One at a time: two that build the same index would end in an error.
    db.query("SELECT graphrag._bm25_lock($1)", ["int4"], [corpus.id])
    rows = db.query("SELECT graphrag._index_vectors($1, $2) AS built", ["int4", "int4"], [corpus.id, least_rows])
    pruned = prune(db, corpus)
    # Packing last: it claims tail rows that a concurrent delete would wait for until the transaction ends.
    return bm25.optimize(db, corpus.id) | {"vector_indexes": rows[0]["built"], "pruned": pruned}
