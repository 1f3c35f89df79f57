"""Embedding spaces of a corpus: the active one, which is searched; one that graphrag.reembed() builds; and which
items have vectors.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.options import Embedding

# A query is compared with all vectors of a kind if there are at most so many, in at most so much memory. Beyond that an
# index finds the nearest, and only the best mentions are scored. The tables decide this, never a session's cache. One
# vector is compared with windows, that of each keyword with names.
MAX_ROWS = 20_000
MAX_WINDOW_BYTES = 32 * 2**20
MAX_NAME_BYTES = 16 * 2**20
MAX_MENTION_BYTES = 16 * 2**20


def compared_rows(dimensions: int, kind: str) -> int:
    """Return with up to how many vectors of a kind a query is compared one by one."""
    most_bytes = {"window": MAX_WINDOW_BYTES, "entity": MAX_NAME_BYTES}.get(kind, MAX_MENTION_BYTES)
    return min(MAX_ROWS, most_bytes // (4 * dimensions))


def indexed_rows(dimensions: int) -> int:
    """Return from how many vectors on a table gets an HNSW index."""
    return 1 + min(compared_rows(dimensions, kind) for kind in ("window", "entity", "mention"))


@dataclass(frozen=True, slots=True)
class Space:
    """A model whose vectors a corpus holds. `state`: active, building or retired."""

    id: int
    embedding: Embedding
    state: str
    own_tables: bool

    def rows(self, kind: str) -> str:
        """SQL of the vectors of a kind: see `rows_of`."""
        return rows_of(kind, self.id, own_tables=self.own_tables)

    def target(self, kind: str) -> str:
        """SQL of the table to which vectors of a kind are written."""
        return f"graphrag.{kind}_vectors{f'_{self.id}' if self.own_tables else ''}"


def rows_of(kind: str, space: int | None, *, own_tables: bool) -> str:
    """SQL of the vectors of a kind in a space, to stand in FROM: a table of its own, or its part of the shared one."""
    if own_tables:
        return f"graphrag.{kind}_vectors_{space}"
    return f"(SELECT * FROM ONLY graphrag.{kind}_vectors WHERE space_id = {space})"


def spaces(db: Database, corpus_id: int) -> list[Space]:
    """Return the spaces of a corpus, oldest first."""
    rows = db.query(
        "SELECT s.id, s.provider, s.model, s.dimensions, s.state, s.own_tables FROM graphrag.embedding_spaces s"
        " WHERE s.corpus_id = $1 ORDER BY s.id",
        ["int4"],
        [corpus_id],
    )
    return [
        Space(row["id"], Embedding(row["provider"], row["model"], row["dimensions"]), row["state"], row["own_tables"])
        for row in rows
    ]


def of_state(candidates: list[Space], state: str) -> Space | None:
    """Return the space that is active or building; None if there is none."""
    return next((space for space in candidates if space.state == state), None)


def building_space(db: Database, corpus_id: int) -> Space | None:
    """Return the space that is being built; None where its model fails, as indexing must not wait for it."""
    works = db.query(
        # By the index of jobs that a corpus has one of: each batch of documents asks.
        "SELECT FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.kind = 'reembed' AND j.document_id IS NULL"
        " AND j.state <> 'failed' AND j.last_error IS NULL",
        ["int4"],
        [corpus_id],
    )
    return of_state(spaces(db, corpus_id), "building") if works else None


def add_space(db: Database, corpus_id: int, embedding: Embedding, state: str) -> Space:
    """Make a space, with tables of its own where another of the corpus has them."""
    number = db.value(
        "SELECT graphrag._add_space($1, $2, $3, $4, $5)",
        ["int4", "text", "text", "int4", "text"],
        [corpus_id, embedding.provider, embedding.model, embedding.dimensions, state],
    )
    return next(space for space in spaces(db, corpus_id) if space.id == number)


def lock_spaces(db: Database, corpus_id: int, *, is_shared: bool) -> None:
    """Keep the active space until the transaction ends (shared), or wait for all who keep it (not shared).

    Writers of vectors share the lock, a swap of spaces takes it alone. It is taken before the lock of the corpus.
    """
    db.query("SELECT graphrag._lock_spaces($1, $2)", ["int4", "bool"], [corpus_id, is_shared])


def set_state(db: Database, space: Space, state: str) -> None:
    """Set the state of a space: "building", "active" or "retired"."""
    db.query("UPDATE graphrag.embedding_spaces SET state = $2 WHERE id = $1", ["int4", "text"], [space.id, state])


def set_option(db: Database, corpus_id: int, embedding: Embedding) -> None:
    """Make `embedding` the corpus' option of that name."""
    values = {"provider": embedding.provider, "model": embedding.model, "dimensions": embedding.dimensions}
    db.query(
        "UPDATE graphrag.corpora SET options = options || $2 WHERE id = $1",
        ["int4", "jsonb"],
        [corpus_id, json.dumps({"embedding": values})],
    )


# Chunks that are checked at either end of a corpus: no index tells that all are in one language.
SAMPLE = 1000
# For a part of the documents, so many are examined first.
FEW = 100

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
    """Return whether a chunk in one of `languages` has a vector: of some documents; None: of the first and last of a
    corpus.

    True if there is no chunk. The corpus has a space.
    """
    vectors = rows_of("window", corpus.space, own_tables=corpus.own_tables)
    if documents is not None:
        sql = _FOUND_AMONG.format(vectors=vectors)
        # Mostly the first few tell.
        return any(
            db.value(sql, ["int8[]", "text[]"], [some, sorted(languages)])
            for some in (documents[:FEW], documents[FEW:])
            if some or not documents
        )
    is_there: bool = db.value(
        _FOUND.format(vectors=vectors), ["int4", "text[]", "int4"], [corpus.id, sorted(languages), SAMPLE]
    )
    return is_there
