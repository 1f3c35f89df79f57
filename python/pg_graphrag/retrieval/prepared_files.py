"""The files that sessions share of a corpus, made by the worker that changed much of it (retrieval/shared_arrays.py)."""

from pg_graphrag.access.caller import Caller
from pg_graphrag.corpus.corpora import find
from pg_graphrag.retrieval import vectors
from pg_graphrag.retrieval.cached_graph import MAX_ITEMS, graph_of, item_counts
from pg_graphrag.retrieval.chunk_concepts import concept_graph
from pg_graphrag.retrieval.options import SearchOptions
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.request import Request
from pg_graphrag.retrieval.session_cache import cache
from pg_graphrag.retrieval.window_statements import cached_statements
from pg_graphrag.server import Database

# Which part of a corpus must be new: to index that takes a worker twenty times as long as to make the files of all.
LEAST_SHARE = 1 / 4


def prepare(db: Database, corpus: str, new_chunks: int) -> bool:
    """Make the files of a large corpus of which so many chunks are new; False where that does not pay.

    As its owner. A corpus whose graph a session reads with its texts is searched as fast without. No other host has files.
    """
    if not db.is_server:
        return False
    query = Query.of(db, Request(find(db, corpus), Caller("", True, corpus), "", SearchOptions()))
    counts = item_counts(query)
    if max(counts) <= MAX_ITEMS or new_chunks < LEAST_SHARE * counts[2]:
        return False
    cache.expect_many(query.corpus)
    graph_of(query)
    concept_graph(query)
    cached_statements(query)
    for kind in ("window", "entity"):
        vectors.cached(query, kind)
    return True
