"""Which languages the documents of a corpus are in, as far as an embedder has to know."""

from collections.abc import Iterable

from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.server import Database

# Chunks that are checked at either end of a corpus: no index tells that all are in one language.
SAMPLE = 1000
# By corpus: (revision, result).
_cache: dict[int, tuple[str, bool]] = {}

_FOUND = """
SELECT NOT EXISTS (SELECT FROM graphrag.chunks c WHERE c.corpus_id = $1)
    OR $2 && ARRAY(SELECT c.language FROM graphrag.chunks c WHERE c.corpus_id = $1 ORDER BY c.id LIMIT $3)
    OR $2 && ARRAY(SELECT c.language FROM graphrag.chunks c WHERE c.corpus_id = $1 ORDER BY c.id DESC LIMIT $3) AS found
"""
_FOUND_AMONG = """
SELECT pg_catalog.cardinality($1) = 0 OR EXISTS (
       SELECT FROM graphrag.chunks c WHERE c.document_id = ANY ($1) AND c.language = ANY ($2)) AS found
"""


def any_in(db: Database, corpus: Corpus, languages: Iterable[str], documents: list[int] | None) -> bool:
    """Return whether a chunk is in one of `languages`: of some documents; None: of the first and the last of a corpus.

    True where there is no chunk.
    """
    if documents is not None:
        return bool(db.query(_FOUND_AMONG, ["int8[]", "text[]"], [documents, sorted(languages)])[0]["found"])
    revision, is_present = _cache.get(corpus.id, (None, True))
    if revision is None or revision != corpus.revision:
        rows = db.query(_FOUND, ["int4", "text[]", "int4"], [corpus.id, sorted(languages), SAMPLE])
        is_present = bool(rows[0]["found"])
        if corpus.revision is not None:
            _cache[corpus.id] = corpus.revision, is_present
    return is_present
