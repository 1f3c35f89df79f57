"""Which vectors are all compared with a query, and which of them a session caches: one matrix product instead of a
scan.

The rows of a vector table never change, so for a new revision only new rows are read (`session_cache` says when cached
rows are right).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pg_graphrag.ground.numeric import Arrays, Flags, Ids, Places, Scores, Vectors, int64s, np, packed, within
from pg_graphrag.search.query.query import Query, once, visible_digest
from pg_graphrag.search.query.rankings import NOISE
from pg_graphrag.search.query.session_values import cache_shared, mapped, shared_value
from pg_graphrag.server import cached_property
from pg_graphrag.server.backend import release_freed
from pg_graphrag.server.caches.session_cache import cache
from pg_graphrag.server.corpus import spaces
from pg_graphrag.server.corpus.corpora import REVISION
from pg_graphrag.server.corpus.spaces import rows_of

# So many rows a session caches at its first query. For more it must have asked so often that reading them pays: this is what a
# query costs more without, in rows read.
FIRST_ROWS = 5000
ROWS_PER_QUERY = 2000
# Rows that are read at a time.
_PART = 256
# A product computes so many columns alike, and the remainder in another way: the last bits of a row's cosine would
# reveal how many other rows there are. A multiple of any processor's block.
_COLUMNS_AT_ONCE = 32

# From ids, (n,) int64, to which of them count, (n,) bool.
Allowed = Callable[[Ids], Flags]

# SQL conditions on rows `v` of windows and mentions. By chunks, which these have an index on: of a few documents the vectors are
# looked up, where by `document_id` all were read.
OF_DOCUMENTS = "WHERE v.chunk_id IN (SELECT c.id FROM graphrag.chunks c WHERE c.document_id = ANY ({documents}))"
# For all but a few documents.
OF_OTHERS = "WHERE v.document_id <> ALL ({documents})"
_OF_THEIR_CHUNKS = "AND v.chunk_id IN (SELECT w.chunk_id FROM graphrag.chunk_windows w WHERE w.id = ANY ($1))"

# (row, chunk, document, its item: a chunk or an entity or a relationship).
_COLUMNS = {
    "window": "v.window_id, v.chunk_id, v.document_id, v.chunk_id FROM {rows} v",
    "entity": "v.entity_id, 0::int8, 0::int8, v.entity_id FROM {rows} v",
}
for _item in ("entity", "relationship"):
    _COLUMNS[f"{_item}_mention"] = (
        f"v.mention_id, v.chunk_id, v.document_id, m.{_item}_id FROM {{rows}} v"
        f" JOIN graphrag.{_item}_mentions m ON m.id = v.mention_id AND m.{_item}_id IS NOT NULL"
    )


@dataclass(frozen=True, eq=False)
class VectorRows:
    """Rows in ascending order of `ids`, with `chunks`, `documents`, `items`, all (n,) int64; `matrix` (dimensions, columns)
    float32, whose first n columns are the rows'.

    `matrix` is None if there are more rows than could be cached (`most`).
    """

    revision: str | None
    ids: Ids
    chunks: Ids
    documents: Ids
    items: Ids
    matrix: Vectors | None
    most: int

    @classmethod
    def of_arrays(cls, revision: str, arrays: Arrays) -> "VectorRows":
        """Make those of a revision of their `arrays`."""
        return cls(revision, **arrays, most=spaces.MAX_ROWS)

    def arrays(self) -> Arrays:
        """Return its arrays by name."""
        assert self.matrix is not None
        columns = {"ids": self.ids, "chunks": self.chunks, "documents": self.documents, "items": self.items}
        return columns | {"matrix": self.matrix}

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return 4 * int(self.ids.nbytes) + (0 if self.matrix is None else int(self.matrix.nbytes))

    @cached_property
    def by_chunk(self) -> tuple[Places, Ids]:
        """Return the places of the rows by chunk, in a chunk by id, (n,) int32, and where in it each chunk begins."""
        order = np.argsort(self.chunks, kind="stable").astype(np.int32)
        return order, np.flatnonzero(np.diff(self.chunks[order], prepend=-1))

    def cosines(self, vector: Vectors) -> Scores:
        """Return the cosines of (dimensions,) to every row, (n,) float64, at most 1.

        One vector at a time: the last bits of a product of matrices depend on how many there are. This way around, because
        it reads memory in order, twice as fast as rows' dot products.
        """
        assert self.matrix is not None
        return _cosines(vector, self.matrix)[: len(self.ids)]

    def nearest(self, vector: Vectors, limit: int, are_allowed: Allowed | None = None) -> tuple[Ids, Scores]:
        """Return (ids, cosines > 0), (n,) each, of the `limit` rows nearest to a vector, and of all that tie with the last.

        `are_allowed`: which rows count; None: all.
        """
        cosines = self.cosines(vector)
        places = np.flatnonzero(cosines > 0)
        if are_allowed is None:
            best = places[nearest(cosines[places], limit)]
        else:
            best = np.sort(places[nearest_allowed(self.ids[places], cosines[places], limit, are_allowed)])
        return self.ids[best], cosines[best]

    def vector(self, item: int) -> Vectors | None:
        """Return the vector of the row that has the id, (dimensions,), or None."""
        assert self.matrix is not None
        row = int(np.searchsorted(self.ids, item))
        return self.matrix[:, row].copy() if row < len(self.ids) and self.ids[row] == item else None


def _cosines(vector: Vectors, matrix: Vectors) -> Scores:
    cosines: Scores = (vector @ matrix).astype(np.float64)
    return np.minimum(cosines, 1.0, out=cosines)


def nearest(cosines: Scores, limit: int) -> Ids:
    """Return the places of the `limit` highest cosines, and of all that tie with the last."""
    if len(cosines) <= limit:
        return np.arange(len(cosines))
    return np.flatnonzero(cosines >= np.partition(cosines, -limit)[-limit] - NOISE)


def nearest_allowed(ids: Ids, cosines: Scores, limit: int, are_allowed: Allowed) -> Ids:
    """Return the places of the `limit` highest cosines whose ids are allowed, and of all that tie with the last.

    Whether ids are allowed is checked from the nearest on, for as few as possible.
    """
    order = np.argsort(-cosines, kind="stable")
    best = np.empty(0, np.intp)
    start, size, least = 0, 2 * limit, -np.inf
    while start < len(order) and cosines[order[start]] >= least:
        part = order[start : start + size]
        best = np.append(best, part[are_allowed(ids[part])])
        if limit <= len(best):
            least = cosines[best[limit - 1]] - NOISE
        start, size = start + size, 2 * size
    return best[cosines[best] >= least]


def table(query: Query, kind: str) -> str:
    """SQL of the vectors of a kind, to stand in FROM."""
    return rows_of(kind, query.corpus.space, own_tables=query.corpus.own_tables)


@once
def are_all_compared(query: Query, kind: str) -> bool:
    """Return whether a query is compared with all vectors of a kind that it may see.

    It always is with the windows and entities of a part of a corpus: the result of an index depends on all its rows.
    Documents that wait to be removed do not make a part: the index has them after the removal too, until it is vacuumed.

    `kind`: window, entity, entity_mention or relationship_mention.
    """
    if query.visible is not None and (kind == "entity" or (kind == "window" and query.removed is None)):
        return query.corpus.space is not None
    return are_few(query, kind)


@once
def are_few(query: Query, kind: str) -> bool:
    """Return whether a query may see only few vectors of a kind, however many others there are.

    For few, cosines are computed here, bit for bit the same from the cache and from the table; for many, pgvector computes
    them.
    """
    corpus = query.corpus
    if corpus.space is None:
        return False
    if _is_small(query, kind):
        return True
    if query.visible is None:
        return False
    key = "are few", corpus.space, kind, visible_digest(query)
    condition, documents = OF_DOCUMENTS, query.visible_ids
    if query.removed is not None:
        condition, documents = OF_OTHERS, query.removed.tolist()
    return cache.get_or_compute(
        corpus, key, lambda: not _are_more(query, kind, _most(query, kind), condition.format(documents="$2"), documents)
    )


def _is_small(query: Query, kind: str) -> bool:
    """Return whether a vector table has few rows."""
    corpus = query.corpus
    assert corpus.space is not None
    key = "is small", corpus.space, kind
    return cache.get_or_compute(corpus, key, lambda: not _are_more(query, kind, _most(query, kind)))


def _most(query: Query, kind: str) -> int:
    return spaces.compared_rows(query.corpus.options.embedding.dimensions, kind)


@once
def all_rows(query: Query, kind: str) -> VectorRows | None:
    """Return all rows of a small vector table, cached or read for this query; None of a larger one."""
    if query.corpus.space is None or not _is_small(query, kind):
        return None
    rows = cached(query, kind)
    if rows is None:
        rows = _read(query, kind, None, _most(query, kind))
    return rows if rows is not None and rows.matrix is not None else None


def cached(query: Query, kind: str) -> VectorRows | None:
    """Return all rows of a vector table as this snapshot sees them, from the session's memory.

    None where they are not all compared, do not fit, or reading them would not pay yet.
    """
    corpus = query.corpus
    if corpus.space is None or corpus.revision is None:
        return None
    key = "vectors", corpus.space, kind
    name = f"vectors-{corpus.space}-{kind.replace('_', '-')}"
    # All mentions are read for every query; and cached rows are only added to.
    first = kind.endswith("_mention")
    rows: VectorRows | None = cache.latest(corpus, key)
    if rows is not None and rows.revision == corpus.revision and rows.matrix is not None:
        return shared_value(query, key, name, rows, VectorRows.of_arrays, first=first)
    rows = mapped(query, key, name, VectorRows.of_arrays, first=first) or rows
    if rows is None or rows.revision != corpus.revision or rows.matrix is None:
        dimensions = corpus.options.embedding.dimensions
        has_some = rows is not None and rows.matrix is not None
        pays = spaces.MAX_ROWS if first or has_some else max(FIRST_ROWS, ROWS_PER_QUERY * cache.earlier_queries(corpus))
        room = cache.room(corpus, key, first=first)
        if not first:
            room = min(room, cache.spare(corpus, key))
        fitting = room // (4 * dimensions * _COLUMNS_AT_ONCE) * _COLUMNS_AT_ONCE
        most = min(spaces.compared_rows(dimensions, kind), pays, fitting)
        if rows is None or rows.revision != corpus.revision or most > rows.most:
            are_too_many = not has_some and _are_more(query, kind, most)
            rows = _none(corpus.revision, most) if are_too_many else _read(query, kind, rows, most)
            if rows.matrix is None:
                cache.put(corpus, key, rows, 0, revision=rows.revision, first=first)
            else:
                rows = cache_shared(query, key, name, rows, VectorRows.of_arrays, first=first)
                release_freed()
    return rows if rows.matrix is not None else None


def read_cosines(query: Query, kind: str, ids: Ids, vectors: list[Vectors]) -> list[Scores]:
    """Return for each of some vectors its cosines to rows, (n,) float64 in the order of `ids`, bit for bit as from the
    cache.

    pgvector's results differ in the last bits.
    """
    order = np.argsort(ids)
    cosines = [np.zeros(len(ids)) for _ in vectors]
    for part, values in read_vectors(query, kind, ids.tolist()) if len(ids) else ():
        places = order[np.searchsorted(ids, part, sorter=order)]
        # Part by part: memory that a session has not touched yet costs as much as the product.
        rows = np.zeros((-(-len(part) // _COLUMNS_AT_ONCE) * _COLUMNS_AT_ONCE, values.shape[1]), np.float32)
        rows[: len(part)] = values
        matrix = _transposed(rows)
        for of_vector, vector in zip(cosines, vectors, strict=True):
            of_vector[places] = _cosines(vector, matrix)[: len(part)]
    return cosines


def _are_more(query: Query, kind: str, most: int, condition: str = "", documents: list[int] | None = None) -> bool:
    """Return whether there are more than `most` vectors, under a condition on documents ($2): sooner known than which."""
    are_more: bool = query.db.value(
        f"SELECT EXISTS (SELECT FROM {table(query, kind)} v {condition} OFFSET $1)",
        ["int8"] if documents is None else ["int8", "int8[]"],
        [most] if documents is None else [most, documents],
    )
    return are_more


def _none(revision: str | None, most: int) -> VectorRows:
    none = np.empty(0, np.int64)
    return VectorRows(revision, none, none, none, none, None, most)


def _read(query: Query, kind: str, cached_rows: VectorRows | None, most: int) -> VectorRows:
    """Read which rows exist, up to a limit, and the vectors that are not cached yet."""
    dimensions = query.corpus.options.embedding.dimensions
    columns = ("ids", "chunks", "documents", "items")
    aggregates = packed(**{name: f"v.{name}" for name in columns})
    # The revision is read by the statement that reads the rows: outside a transaction block it may be newer than the corpus'.
    row = query.db.query(
        f"SELECT {REVISION.format(corpus='$1')} AS revision, {aggregates}"
        f" FROM (SELECT {_COLUMNS[kind].format(rows=table(query, kind))} LIMIT {most + 1}) v ({', '.join(columns)})",
        ["int4"],
        [query.corpus.id],
    )[0]
    ids, chunks, documents, items = (int64s(row[name]) for name in columns)
    if len(ids) > most:
        return _none(row["revision"], most)
    order = np.argsort(ids)
    ids = ids[order]
    cached_matrix = None if cached_rows is None else cached_rows.matrix
    cached_ids = np.empty(0, np.int64) if cached_rows is None or cached_matrix is None else cached_rows.ids
    rows = np.zeros((-(-len(ids) // _COLUMNS_AT_ONCE) * _COLUMNS_AT_ONCE, dimensions), np.float32)
    is_cached = within(ids, cached_ids)
    if is_cached.any() and cached_matrix is not None:
        rows[np.flatnonzero(is_cached)] = cached_matrix.T[np.searchsorted(cached_ids, ids[is_cached])]
    is_filled = is_cached.copy()
    missing_ids = ids[~is_cached].tolist() if is_cached.any() else None
    for new, vectors in () if is_cached.all() else read_vectors(query, kind, missing_ids):
        is_wanted = within(new, ids)
        places = np.searchsorted(ids, new[is_wanted])
        rows[places] = vectors[is_wanted]
        is_filled[places] = True
    if not is_filled.all():  # removed between two statements: the next query reads anew
        return _none(None, most)
    return VectorRows(row["revision"], ids, chunks[order], documents[order], items[order], _transposed(rows), most)


def _transposed(rows: Vectors) -> Vectors:
    """Return (n, dimensions) as (dimensions, n), in parts that the processor's caches hold."""
    matrix = np.empty(rows.shape[::-1], np.float32)
    for start in range(0, len(rows), _PART):
        matrix[:, start : start + _PART] = rows[start : start + _PART].T
    return matrix


def read_vectors(query: Query, kind: str, ids: list[int] | None) -> Iterator[tuple[Ids, Vectors]]:
    """Yield (ids, their vectors) in parts, of all rows where `ids` is None.

    In one piece the server would copy it four times, each time into memory that the session has not touched yet.
    """
    dimensions = query.corpus.options.embedding.dimensions
    column = "mention_id" if kind.endswith("mention") else f"{kind}_id"
    cursor = query.db.cursor(
        f"SELECT v.{column} AS id, {query.db.vector_type}_send(v.embedding) AS vector FROM {table(query, kind)} v"
        f" {'' if ids is None else f'WHERE v.{column} = ANY ($1)'}"
        # Vectors of windows have an index on chunks alone.
        f" {_OF_THEIR_CHUNKS if ids is not None and kind == 'window' else ''}",
        [] if ids is None else ["int8[]"],
        [] if ids is None else [ids],
    )
    while part := cursor.fetch(_PART):
        # In network order; before the numbers of each there are, in two bytes each, how many they are and 0.
        rows = np.frombuffer(b"".join([row["vector"] for row in part]), ">f4").reshape(len(part), 1 + dimensions)
        yield np.array([row["id"] for row in part], np.int64), rows[:, 1:]
