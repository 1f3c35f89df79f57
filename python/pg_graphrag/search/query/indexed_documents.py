"""Which documents the index of a corpus holds something of."""

from typing import Any

from pg_graphrag.ground.id_sets import within
from pg_graphrag.ground.numeric import int64s
from pg_graphrag.server import Database
from pg_graphrag.server.caches.session_cache import cache, read_at_revision
from pg_graphrag.server.corpus.corpora import Corpus

_INDEXED = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(s.id), ''::bytea) AS ids
  FROM (SELECT DISTINCT c.document_id AS id FROM graphrag.chunks c WHERE c.corpus_id = $1) s
"""
# Counted by triggers. Documents whose content changed since it was indexed are not among these.
_MORE_SEARCHABLE = """
SELECT coalesce(pg_catalog.sum(x.count), 0) > $2 AS more
  FROM graphrag._document_counts x
 WHERE x.corpus_id = $1 AND x.is_searchable
"""
_MORE = """
SELECT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.indexed_hash IS NOT NULL OFFSET $2) AS more
"""


def covers(db: Database, corpus: Corpus, documents: Any) -> bool:
    """Return whether `documents`, ascending, are all that anything in the index of a corpus was made of."""
    # Sooner known than which.
    for more in (_MORE_SEARCHABLE, _MORE):
        if db.query(more, ["int4", "int8"], [corpus.id, len(documents)])[0]["more"]:
            return False
    return bool(within(_indexed(db, corpus), documents).all())


def _indexed(db: Database, corpus: Corpus) -> Any:
    """Return the ids of the documents that have chunks, (n,) int64, also of those that are deleted and not yet removed."""
    key = "indexed documents", corpus.id
    cached = cache.get(corpus, key)
    if cached is not None:
        return cached
    rows = read_at_revision(db, corpus, _INDEXED) if corpus.revision is not None else None
    if rows is None:
        return int64s(db.query(_INDEXED, ["int4"], [corpus.id])[0]["ids"])
    ids = int64s(rows[0]["ids"])
    cache.put(corpus, key, ids, ids.nbytes)
    return ids
