"""graphrag.warm: loads beforehand what the first searches of a session would load."""

import json
from contextlib import suppress
from time import perf_counter

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.search import modes
from pg_graphrag.search.contexts.best_rows import best_rows
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query import cached_vectors
from pg_graphrag.search.query.mode_options import SearchOptions
from pg_graphrag.search.query.query import Query, query_of
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.caches.session_cache import cache
from pg_graphrag.text.words.keywords import keywords
from pg_graphrag.text.words.search_terms import lexical

# A question of no corpus in particular, and the modes that between them use every retriever that asks no model.
_QUESTION = "How does this work, and what is it for?"
_MODES = ("bm25", "hybrid", "mix", "path")
# For each language with a dictionary or a word model: a question with a word that no dictionary has.
_QUESTIONS = {
    "de": "Wozu dient eine Blumfrase?",
    "en": "What is a zyzzogeton for?",
    "ja": "これは何のためのものですか？",
    "zh": "这个是做什么用的？",
}
# Chunks whose languages are sampled, the first and the last ones; if the caller sees a part, those of so many documents.
_SAMPLE = 1000
_FEW = 100
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
        _load_languages(query)
        graph_of(query)
        for kind in (*_KINDS, *(_DESCRIBED_KINDS if query.is_described else ())):
            cached_vectors.cached(query, kind)
        is_local = query.corpus.options.embedding.local
        for mode in modes.all_modes():
            if mode.name in _MODES and (is_local or mode.name == "bm25"):
                best_rows(query, mode, 1)
        return {kind: size for kind, size in cache.sizes(query.corpus).items() if size}

    sizes = as_owner(db, run)
    visible_sizes = {"cached": sizes} if caller.documents is None else {}
    return json.dumps({"ms": round(1000 * (perf_counter() - start), 1)} | visible_sizes)


_LANGUAGES = """
SELECT c.language FROM (SELECT x.language FROM graphrag.chunks x WHERE x.corpus_id = $1 ORDER BY x.id LIMIT $2) c
 UNION
SELECT c.language FROM (SELECT x.language FROM graphrag.chunks x WHERE x.corpus_id = $1 ORDER BY x.id DESC LIMIT $2) c
"""
_LANGUAGES_AMONG = "SELECT DISTINCT c.language FROM graphrag.chunks c WHERE c.document_id = ANY ($1)"


def _load_languages(query: Query) -> None:
    """Load what questions in the languages of the corpus need: jieba's, Sudachi's and HanTa's words."""
    if query.visible is None:
        rows = query.db.query(_LANGUAGES, ["int4", "int4"], [query.corpus.id, _SAMPLE])
    else:
        rows = query.db.query(_LANGUAGES_AMONG, ["int8[]"], [query.visible[:_FEW].tolist()])
    for language in sorted({row["language"] for row in rows} & _QUESTIONS.keys()):
        # A search in this language will say what is not installed.
        with suppress(GraphRAGError):
            lexical(_QUESTIONS[language], language)
            keywords(_QUESTIONS[language], language)
