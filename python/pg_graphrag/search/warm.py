"""graphrag.warm: what the first searches of a session would load, loaded before them."""

import json
from time import perf_counter

from pg_graphrag import modes
from pg_graphrag.access.caller import caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.retrieval import vectors
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.options import SearchOptions
from pg_graphrag.retrieval.query import query_of
from pg_graphrag.retrieval.rows import best_rows
from pg_graphrag.retrieval.session_cache import cache
from pg_graphrag.server import Database

# A question of no corpus in particular, and the modes that between them use every retriever that asks no model.
_QUESTION = "How does this work, and what is it for?"
_MODES = ("bm25", "hybrid", "mix", "path")
_KINDS = ("window", "entity")
_DESCRIBED_KINDS = ("entity_mention", "relationship_mention")


def warm(db: Database, corpus: str | None) -> str:
    """Load models, modules and as much of a corpus as the session may keep; return {ms, cached} as JSON.

    `cached`: bytes by kind, for those who see the whole corpus: they tell its size. No endpoint is asked.
    """
    start = perf_counter()
    caller = caller_of(db, corpus)

    def run() -> dict[str, int]:
        query = query_of(db, caller, _QUESTION, SearchOptions()).with_text(_QUESTION)
        cache.expect_many(query.corpus)
        graph_of(query)
        for kind in (*_KINDS, *(_DESCRIBED_KINDS if query.is_described else ())):
            vectors.cached(query, kind)
        is_local = query.corpus.options.embedding.local
        for mode in modes.all_modes():
            if mode.name in _MODES and (is_local or mode.name == "bm25"):
                best_rows(query, mode, 1)
        return {kind: size for kind, size in cache.sizes(query.corpus).items() if size}

    sizes = as_owner(db, run)
    visible_sizes = {"cached": sizes} if caller.documents is None else {}
    return json.dumps({"ms": round(1000 * (perf_counter() - start), 1)} | visible_sizes)
