"""Whether documents have vectors, as far as an embedder that was made for some languages gave them any."""

from collections.abc import Iterable

from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.spaces import rows_of

# Chunks that are checked at either end of a corpus: no index tells that all are in one language.
SAMPLE = 1000
# Of some documents, so many are looked at first.
FEW = 100
# By corpus: (revision, result).
_cache: dict[int, tuple[str, bool]] = {}

_HAS_VECTOR = "c.language = ANY ($2) AND EXISTS (SELECT FROM {vectors} v WHERE v.chunk_id = c.id)"
_FOUND = f"""
SELECT NOT EXISTS (SELECT FROM graphrag.chunks c WHERE c.corpus_id = $1)
    OR EXISTS (SELECT FROM (SELECT * FROM graphrag.chunks c WHERE c.corpus_id = $1 ORDER BY c.id LIMIT $3) c
                WHERE {_HAS_VECTOR})
    OR EXISTS (SELECT FROM (SELECT * FROM graphrag.chunks c WHERE c.corpus_id = $1 ORDER BY c.id DESC LIMIT $3) c
                WHERE {_HAS_VECTOR}) AS found
"""
_FOUND_AMONG = f"""
SELECT pg_catalog.cardinality($1) = 0 OR EXISTS (
       SELECT FROM graphrag.chunks c WHERE c.document_id = ANY ($1) AND {_HAS_VECTOR}) AS found
"""


def any_embedded(db: Database, corpus: Corpus, languages: Iterable[str], documents: list[int] | None) -> bool:
    """Return whether a chunk in one of `languages` has a vector: of some documents; None: of the first and last of a corpus.

    True where there is no chunk. The corpus has a space.
    """
    vectors = rows_of("window", corpus.space, own_tables=corpus.own_tables)
    if documents is not None:
        sql = _FOUND_AMONG.format(vectors=vectors)
        # Mostly the first few tell.
        return any(
            db.query(sql, ["int8[]", "text[]"], [some, sorted(languages)])[0]["found"]
            for some in (documents[:FEW], documents[FEW:])
            if some or not documents
        )
    revision, is_present = _cache.get(corpus.id, (None, True))
    if revision is None or revision != corpus.revision:
        sql = _FOUND.format(vectors=vectors)
        rows = db.query(sql, ["int4", "text[]", "int4"], [corpus.id, sorted(languages), SAMPLE])
        is_present = bool(rows[0]["found"])
        if corpus.revision is not None:
            _cache[corpus.id] = corpus.revision, is_present
    return is_present
