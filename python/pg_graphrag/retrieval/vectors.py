"""Vectors of small tables in a session's memory: one matrix product instead of a scan that computes every distance.

The rows of a vector table never change, so that of a new revision only the new ones are read (`held` says when what is kept
is right).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pg_graphrag.corpus.corpora import REVISION
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import int64s, np
from pg_graphrag.retrieval import held
from pg_graphrag.retrieval.ids import within
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import NOISE

# Larger tables are searched where they are.
MAX_ROWS = 20_000
# From as many on there is an index: a session searches by it until it has asked so often that reading them all pays. What a
# query costs more by the index, in rows read. Of fewer the scores would differ in their last digits from query to query.
INDEXED_ROWS = 5000
ROWS_PER_QUERY = 2000
# Rows that are read at a time.
_PART = 256
# A product computes so many columns alike, and what is left over otherwise: the last bits of a row's cosine would tell how many
# other rows there are. A multiple of what any processor takes at once.
_COLUMNS_AT_ONCE = 32

# (row, chunk, document, what the row is of: a chunk or an entity or a relationship).
_COLUMNS = {
    "window": "v.window_id, v.chunk_id, v.document_id, v.chunk_id FROM graphrag.window_vectors_{space} v",
    "entity": "v.entity_id, 0::int8, 0::int8, v.entity_id FROM graphrag.entity_vectors_{space} v",
}
for _what in ("entity", "relationship"):
    _COLUMNS[f"{_what}_mention"] = (
        f"v.mention_id, v.chunk_id, v.document_id, m.{_what}_id FROM graphrag.{_what}_mention_vectors_{{space}} v"
        f" JOIN graphrag.{_what}_mentions m ON m.id = v.mention_id AND m.{_what}_id IS NOT NULL"
    )


@dataclass(frozen=True, eq=False)
class Vectors:
    """Rows in ascending order of `ids`, with `chunks`, `documents`, `items`, all (n,) int64; `matrix` (dimensions, columns)
    float32, of which the first n are the rows'.

    `matrix` is None where the rows are more than the `most` that could be kept.
    """

    revision: str | None
    ids: Any
    chunks: Any
    documents: Any
    items: Any
    matrix: Any
    most: int

    def cosines(self, vector: Any) -> Any:
        """Return the cosines of (dimensions,) to every row, (n,) float64, at most 1.

        One vector at a time: the last bits of a product of matrices depend on how many there are. This way around, because
        it reads memory in order, twice as fast as rows' dot products.
        """
        cosines = self._products(vector).astype(np.float64)
        return np.minimum(cosines, 1.0, out=cosines)

    def nearest(self, vector: Any, limit: int, among: Any = None) -> dict[int, float]:
        """Return {id: cosine > 0} of the `limit` rows nearest to a vector, and of all that tie with the last.

        `among`: of the rows with these ids, (m,) int64 ascending; None: of all.
        """
        cosines = self._products(vector)
        near = np.flatnonzero(cosines > 0)
        if among is not None:
            near = near[within(self.ids[near], among)]
        cosines = np.minimum(cosines[near].astype(np.float64), 1.0)
        if limit < len(near):
            best = cosines >= np.partition(cosines, -limit)[-limit] - NOISE
            near, cosines = near[best], cosines[best]
        return dict(zip(self.ids[near].tolist(), cosines.tolist(), strict=True))

    def _products(self, vector: Any) -> Any:
        products: Any = vector @ self.matrix
        return products[: len(self.ids)]

    def vector(self, item: int) -> Any:
        """Return the vector of the row that has the id, (dimensions,), or None."""
        row = int(np.searchsorted(self.ids, item))
        return self.matrix[:, row].copy() if row < len(self.ids) and self.ids[row] == item else None


def small(query: Query, kind: str) -> Vectors | None:
    """Return all rows of a vector table as this snapshot sees them; None where they are too many, or reading would not pay yet.

    Parameters
    ----------
    kind : window, entity, entity_mention or relationship_mention.
    """
    corpus = query.corpus
    if corpus.space is None or corpus.revision is None:
        return None
    key = "vectors", corpus.space, kind
    kept: Vectors | None = held.recall(key)
    if kept is None or kept.revision != corpus.revision or kept.matrix is None:
        # Of mentions all are scored that are held, else the best by an index.
        first = kind.endswith("_mention")
        # What is held already is only added to.
        known = kept is not None and kept.matrix is not None
        pays = MAX_ROWS if first or known else max(INDEXED_ROWS, ROWS_PER_QUERY * held.repeats(corpus))
        row_bytes = 4 * corpus.options.embedding.dimensions
        fitting = held.room(corpus, key, first=first) // (row_bytes * _COLUMNS_AT_ONCE) * _COLUMNS_AT_ONCE
        most = min(MAX_ROWS, pays, fitting)
        if kept is None or kept.revision != corpus.revision or most > kept.most:
            many = not known and _are_more(query, corpus.space, kind, most)
            kept = _none(corpus.revision, most) if many else _read(query, corpus.space, kind, kept, most)
            held.keep(corpus, key, kept, kept.matrix.nbytes if kept.matrix is not None else 0, first=first)
    return kept if kept.matrix is not None else None


def _are_more(query: Query, space: int, kind: str, most: int) -> bool:
    """Return whether there are more than `most` vectors: sooner known than which."""
    rows = query.db.query(
        f"SELECT EXISTS (SELECT FROM graphrag.{kind}_vectors_{space} v OFFSET $1) AS more", ["int8"], [most]
    )
    return bool(rows[0]["more"])


def _none(revision: str | None, most: int) -> Vectors:
    none = np.empty(0, np.int64)
    return Vectors(revision, none, none, none, none, None, most)


def _read(query: Query, space: int, kind: str, kept: Vectors | None, most: int) -> Vectors:
    """Read which rows there are, at most so many, and the vectors of those not held yet."""
    dimensions = query.corpus.options.embedding.dimensions
    columns = ("ids", "chunks", "documents", "items")
    packed = ", ".join(f"pg_catalog.string_agg(pg_catalog.int8send(v.{name}), ''::bytea) AS {name}" for name in columns)
    # The revision is read by the statement that reads the rows: outside a transaction block it may be newer than the corpus'.
    row = query.db.query(
        f"SELECT {REVISION.format(corpus='$1')} AS revision, {packed}"
        f" FROM (SELECT {_COLUMNS[kind].format(space=space)} LIMIT {most + 1}) v ({', '.join(columns)})",
        ["int4"],
        [query.corpus.id],
    )[0]
    ids, chunks, documents, items = (int64s(row[name]) for name in columns)
    if len(ids) > most:
        return _none(row["revision"], most)
    order = np.argsort(ids)
    ids = ids[order]
    known = np.empty(0, np.int64) if kept is None or kept.matrix is None else kept.ids
    matrix = np.zeros((dimensions, -(-len(ids) // _COLUMNS_AT_ONCE) * _COLUMNS_AT_ONCE), np.float32)
    old = np.isin(ids, known)
    if old.any() and kept is not None:
        matrix[:, np.flatnonzero(old)] = kept.matrix[:, np.searchsorted(known, ids[old])]
    filled = old.copy()
    missing = ids[~old].tolist() if old.any() else None
    for new, vectors in () if old.all() else _read_vectors(query, space, kind, missing):
        here = within(new, ids)
        places = np.searchsorted(ids, new[here])
        matrix[:, places] = vectors[here].T
        filled[places] = True
    if not filled.all():  # removed between two statements: the next query reads anew
        return _none(None, most)
    return Vectors(row["revision"], ids, chunks[order], documents[order], items[order], matrix, most)


def _read_vectors(query: Query, space: int, kind: str, ids: list[int] | None) -> Iterator[tuple[Any, Any]]:
    """Yield (ids, their vectors) in parts, of all rows where `ids` is None.

    In one piece the server would copy it four times, each time into memory that the session has not touched yet.
    """
    dimensions = query.corpus.options.embedding.dimensions
    row = "mention_id" if kind.endswith("mention") else f"{kind}_id"
    cursor = query.db.cursor(
        f"SELECT v.{row} AS id, graphrag._vector_bytes(v.embedding) AS vector FROM graphrag.{kind}_vectors_{space} v"
        f" {'' if ids is None else f'WHERE v.{row} = ANY ($1)'}",
        [] if ids is None else ["int8[]"],
        [] if ids is None else [ids],
    )
    while found := cursor.fetch(_PART):
        rows = np.frombuffer(b"".join([one["vector"] for one in found]), np.float32).reshape(len(found), 1 + dimensions)
        # Before the numbers of each there are, in two bytes each, how many they are and 0.
        if (rows.view(np.int16)[:, :2] != (dimensions, 0)).any():
            raise GraphRAGError(
                "pgvector lays vectors out in memory otherwise than pg_graphrag knows",
                sqlstate="XX000",
                hint="SET graphrag.session_memory = '0' has them searched in their tables; a newer pg_graphrag may know more.",
            )
        yield np.array([one["id"] for one in found], np.int64), rows[:, 1:]
