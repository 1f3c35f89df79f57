"""To which rows rows of attached tables lead, as the query's caller sees both.

A session caches it, of all rows, for the state of index, documents and attachments that it was read at; who may see a row is
asked anew by each query.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from pg_graphrag.numeric import Ids, int64s, np
from pg_graphrag.retrieval.ids import distinct, union, within
from pg_graphrag.retrieval.query import Query, once, timed
from pg_graphrag.retrieval.row_tables import has_rows, is_at_state_of_rows, state_of_rows
from pg_graphrag.retrieval.session_cache import cache, is_at_revision
from pg_graphrag.server import Row

# Steps over relationships of rows that a walk takes besides its own.
MAX_STEPS = 2
# Chunks of which a session caches where their rows lead, and about what a row takes that is led to.
MAX_CACHED = 50_000
_TARGET_BYTES = 300
# By first chunk of a row, and by the name that rows among the chunks $1 have for it: these chunks. OFFSET 0: each row is looked
# up by its key; joined, a generic plan would read all rows (230 ms in place of 2, of a corpus with 388), and so would an index on
# attached_id, of which statistics from before the rows came say that nothing has one.
_REFERENCES = """
WITH fields AS MATERIALIZED (
    SELECT a.id AS attached_id, r.field, CASE WHEN r.by_name THEN pg_catalog.length(r.prefix) ELSE 0 END + 1 AS start
      FROM graphrag._attached_tables a
     CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(a.reference_types), pg_catalog.unnest(a.reference_prefixes),
                                   pg_catalog.unnest(a.reference_by_name)) AS r (field, prefix, by_name)
     WHERE a.corpus_id = $3 AND a.kind <> 'documents'
), rows_of_chunks AS MATERIALIZED (
    SELECT c.id AS chunk_id, d.metadata, d.attached_id
      FROM graphrag.chunks c
     CROSS JOIN LATERAL (
            SELECT d.metadata, d.attached_id FROM graphrag.documents d WHERE d.id = c.document_id OFFSET 0) d
     WHERE c.id = ANY ($1) AND d.attached_id IS NOT NULL
), keys AS MATERIALIZED (
    SELECT r.chunk_id, r.metadata ->> f.field AS source_key, f.start
      FROM rows_of_chunks r
      JOIN fields f ON f.attached_id = r.attached_id
), named AS MATERIALIZED (
    SELECT l.source_key, l.start, pg_catalog.string_agg(pg_catalog.int8send(l.chunk_id), ''::bytea) AS chunks
      FROM keys l WHERE l.source_key IS NOT NULL GROUP BY l.source_key, l.start
)
SELECT t.id AS target_id, o.id AS document_id, n.source_key, pg_catalog.substr(n.source_key, n.start) AS name, n.chunks
  FROM named n
 CROSS JOIN LATERAL (
        SELECT o.id, o.attached_id, o.indexed_hash FROM graphrag.documents o
         WHERE o.corpus = $2 AND o.source_key = n.source_key
        OFFSET 0) o
 CROSS JOIN LATERAL (SELECT t.id FROM graphrag.chunks t WHERE t.document_id = o.id AND t.ordinal = 0 OFFSET 0) t
 WHERE o.attached_id IS NOT NULL AND o.indexed_hash IS NOT NULL
"""


@dataclass(frozen=True)
class References:
    """Chunks of rows, (n,) ascending, and the place of the row to which each leads.

    By place: the row's first chunk (`targets`), its document and source key, and the name by which it is led to: the source key
    or, of a table that is keyed by names, what stands behind the prefix.
    """

    chunks: Ids
    places: Ids
    targets: Ids
    documents: Ids
    source_keys: list[str]
    names: list[str]

    def of(self, chunks: Ids) -> Ids:
        """Return which references, (n,) ascending, lead out of distinct ascending chunks."""
        starts, ends = (np.searchsorted(self.chunks, chunks, side) for side in ("left", "right"))
        counts = ends - starts
        return np.repeat(ends - np.cumsum(counts), counts) + np.arange(counts.sum())

    def with_more(self, rows: list[Row]) -> "References":
        """Return it with rows of `_REFERENCES`."""
        new_chunks = [int64s(row["chunks"]) for row in rows]
        chunks = np.concatenate([self.chunks, *new_chunks])
        new_places = np.repeat(np.arange(len(rows)) + len(self.targets), [len(part) for part in new_chunks])
        order = np.argsort(chunks, kind="stable")
        return References(
            chunks[order],
            np.append(self.places, new_places)[order],
            np.append(self.targets, np.array([row["target_id"] for row in rows], np.int64)),
            np.append(self.documents, np.array([row["document_id"] for row in rows], np.int64)),
            self.source_keys + [row["source_key"] for row in rows],
            self.names + [row["name"] for row in rows],
        )

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return 2 * self.chunks.nbytes + _TARGET_BYTES * len(self.targets)


_NONE = np.empty(0, np.int64)
_NO_REFERENCES = References(_NONE, _NONE, _NONE, _NONE, [], [])


@dataclass(frozen=True)
class _CachedReferences:
    """References of the chunks `asked`, ascending, at a state of documents and attachments."""

    state: str | None
    asked: Ids
    references: References


class RowReferences:
    """What a query knows of where rows lead, and what it may see of that."""

    def __init__(self, query: Query) -> None:
        self._query = query
        state = state_of_rows(query)
        cached: _CachedReferences | None = cache.get(query.corpus, self._cache_key)
        self._cached = (
            cached if cached is not None and cached.state == state else _CachedReferences(state, _NONE, _NO_REFERENCES)
        )

    @property
    def _cache_key(self) -> Hashable:
        return "references of rows", self._query.corpus.id

    def of(self, chunks: Ids) -> References:
        """Return where the rows of distinct ascending chunks lead."""
        self._read(chunks)
        references = self._cached.references
        visible = self._visible(chunks)
        return replace(references, chunks=references.chunks[visible], places=references.places[visible])

    def near(self, chunks: Ids) -> Ids:
        """Return the first chunks of the rows to which rows of distinct ascending chunks lead within MAX_STEPS, ascending."""
        # What is cached of the first step leads to a part of the second.
        self._read(union(chunks, self._targets(chunks)))
        near, step = _NONE, chunks
        for _ in range(MAX_STEPS):
            self._read(step)
            step = self._targets(step)
            near = union(near, step)
        return near

    def _targets(self, chunks: Ids) -> Ids:
        references = self._cached.references
        targets: Ids = distinct(references.targets[references.places[self._visible(chunks)]])
        return targets

    def _visible(self, chunks: Ids) -> Ids:
        """Return which of the cached references lead out of chunks to rows that the caller may see."""
        references, visible = self._cached.references, self._query.visible
        places = references.of(chunks)
        return places if visible is None else places[within(references.documents[references.places[places]], visible)]

    def _read(self, chunks: Ids) -> None:
        """Read of chunks what is not cached."""
        query = self._query
        new = chunks[~within(chunks, self._cached.asked)]
        if not len(new):
            return
        if len(self._cached.asked) + len(new) > MAX_CACHED:
            self._cached = _CachedReferences(self._cached.state, _NONE, _NO_REFERENCES)
            new = chunks
        rows = query.db.query(
            _REFERENCES, ["int8[]", "text", "int4"], [new.tolist(), query.corpus.name, query.corpus.id]
        )
        references = self._cached.references
        cached = _CachedReferences(
            self._cached.state,
            union(self._cached.asked, new),
            references.with_more(rows) if rows else references,
        )
        # What is cached changes for all queries, or not at all.
        self._cached = cached
        if cached.state is not None and is_at_state_of_rows(query) and is_at_revision(query.db, query.corpus):
            cache.put(query.corpus, self._cache_key, cached, cached.asked.nbytes + cached.references.nbytes)


@once
def row_references(query: Query) -> RowReferences:
    """Return where rows lead, as a query sees them."""
    return RowReferences(query)


@timed("rows")
def referenced_chunks(query: Query, chunks: Ids) -> Ids:
    """Return the chunks, (n,) int64, of rows to which rows among `chunks` lead within two steps, as the caller sees them.

    A relationship leads out of a row to few others, so this stays small where a row is a hub.
    """
    if not len(chunks) or not has_rows(query):
        return np.empty(0, np.int64)
    return row_references(query).near(distinct(chunks))
