"""Files of a corpus' arrays that sessions share, made by workers (server/caches/shared_arrays.py)."""

from pg_graphrag.search.graph_view.cached_graph import MAX_ITEMS, graph_of, item_counts
from pg_graphrag.search.graph_view.chunk_concept_graph import cached_statements, concept_graph
from pg_graphrag.search.query import cached_vectors
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.caches.session_cache import cache
from pg_graphrag.server.corpus.corpora import Corpus, corpus_by_id, find_corpus

# Which part of a corpus must be new: to index that takes a worker twenty times as long as to make the files of all.
LEAST_SHARE = 1 / 4


def prepare(db: Database, corpus: str, new_chunks: int) -> bool:
    """Prepare the files of a large corpus with so many new chunks; False if that does not pay.

    A corpus whose graph a session reads with its texts is searched as fast without. Only the server host has files.
    """
    if not db.is_server:
        return False
    query = _query(db, find_corpus(db, corpus))
    counts = item_counts(query)
    if max(counts) <= MAX_ITEMS or new_chunks < LEAST_SHARE * counts[2]:
        return False
    _make(query)
    return True


def renew(db: Database, corpus_id: int) -> None:
    """Make the files of a corpus whose last ones were asked for."""
    corpus = corpus_by_id(db, corpus_id)
    if corpus is not None:
        _make(_query(db, corpus))


def _query(db: Database, corpus: Corpus) -> Query:
    """Return a query of its owner's."""
    return Query.of(db, corpus, Caller("", True, corpus.name))


def _make(query: Query) -> None:
    cache.expect_many(query.corpus)
    graph_of(query)
    concept_graph(query)
    cached_statements(query)
    for kind in ("window", "entity"):
        cached_vectors.cached(query, kind)
