"""Which rows of attached tables refer to which, as far as the query's caller sees both.

A session caches the references of all rows for one state of index, documents and attachments. Each query asks anew who
may see a row.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from pg_graphrag.ground.numeric import Flags, Ids, distinct, int64s, np, packed, union, within
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.search.query.session_values import cache_of_rows, cached_of_rows
from pg_graphrag.server import Row
from pg_graphrag.text.concept import key

# Steps over relationships of rows that a walk takes besides its own.
MAX_STEPS = 2
# Chunks whose rows' references a session caches, and about how many bytes a referenced row takes.
MAX_CACHED = 50_000
_TARGET_BYTES = 300
# By first chunk of a row, and by the name that rows among the chunks $1 have for it: these chunks. OFFSET 0: each row
# is looked up by its key. Joined, a generic plan would read all rows (230 ms in place of 2, in a corpus with 388), and
# so would an index on attached_id, of which statistics from before the rows say that nothing has one.
_REFERENCES = f"""
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
    SELECT l.source_key, l.start, {packed(chunks="l.chunk_id")}
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
    """Chunks of rows, (n,) ascending, and the place of the row that each refers to.

    By place: the row's first chunk (`targets`), its document and source key, and the key of the entity that leads to it:
    the key of the source key or, for a table that is keyed by names, of the part behind the prefix.
    """

    chunks: Ids
    places: Ids
    targets: Ids
    documents: Ids
    source_keys: list[str]
    keys: list[str]

    def at(self, numbers: Ids) -> "References":
        """Return some of them, (n,)."""
        return References(
            self.chunks[numbers], self.places[numbers], self.targets, self.documents, self.source_keys, self.keys
        )


@dataclass(frozen=True)
class _Known:
    """References of the chunks `asked`, ascending: of the n-th those from `starts[n]` to `starts[n + 1]`."""

    asked: Ids
    starts: Ids
    references: References

    def has(self, chunks: Ids) -> Flags:
        """Return for which chunks, (n,), the references of their rows are known."""
        return within(chunks, self.asked)

    def of(self, chunks: Ids) -> Ids:
        """Return which references, (n,) ascending, lead out of distinct ascending chunks."""
        places = np.searchsorted(self.asked, chunks)
        starts = self.starts[places]
        counts = self.starts[places + 1] - starts
        ends = counts.cumsum()
        return np.repeat(starts - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)

    def with_more(self, asked: Ids, rows: list[Row]) -> "_Known":
        """Return it with further chunks, and rows of `_REFERENCES`."""
        known, new_chunks = self.references, [int64s(row["chunks"]) for row in rows]
        chunks = np.concatenate([known.chunks, *new_chunks])
        new_places = np.repeat(np.arange(len(rows)) + len(known.targets), [len(part) for part in new_chunks])
        order = np.argsort(chunks, kind="stable")
        all_asked = union(self.asked, asked)
        return _Known(
            all_asked,
            np.append(np.searchsorted(chunks[order], all_asked), len(chunks)),
            References(
                chunks[order],
                np.append(known.places, new_places)[order].astype(np.int64),
                np.append(known.targets, np.array([row["target_id"] for row in rows], np.int64)),
                np.append(known.documents, np.array([row["document_id"] for row in rows], np.int64)),
                known.source_keys + [row["source_key"] for row in rows],
                known.keys + [key(row["name"]) for row in rows],
            ),
        )

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        references = self.references
        return 2 * (self.asked.nbytes + references.chunks.nbytes) + _TARGET_BYTES * len(references.targets)


_NONE = np.empty(0, np.int64)
_NOTHING = _Known(_NONE, np.zeros(1, np.int64), References(_NONE, _NONE, _NONE, _NONE, [], []))


class RowReferences:
    """What a query knows of references between rows, and which of them it may see."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._cache_key: Hashable = "references of rows", query.corpus.id
        self._known: _Known = cached_of_rows(query, self._cache_key) or _NOTHING

    def of(self, chunks: Ids) -> References:
        """Return where the rows of distinct ascending chunks lead."""
        self._read(chunks)
        return self._known.references.at(self._visible(chunks))

    def near(self, chunks: Ids) -> Ids:
        """Return the first chunks of the rows to which rows of distinct ascending chunks lead within MAX_STEPS, ascending."""
        known = chunks[self._known.has(chunks)]
        if len(known) < len(chunks):
            # The known references of the first step lead to a part of the second.
            self._read(union(chunks, self._targets(known)))
        near = step = self._targets(chunks)
        for _ in range(1, MAX_STEPS):
            self._read(step)
            step = self._targets(step)
            near = union(near, step)
        return near

    def _targets(self, chunks: Ids) -> Ids:
        references = self._known.references
        targets: Ids = distinct(references.targets[references.places[self._visible(chunks)]])
        return targets

    def _visible(self, chunks: Ids) -> Ids:
        """Return which of the known references lead out of chunks to rows that the caller may see."""
        places, references, visible = self._known.of(chunks), self._known.references, self._query.visible
        return places if visible is None else places[within(references.documents[references.places[places]], visible)]

    def _read(self, chunks: Ids) -> None:
        """Read the unknown references of chunks."""
        query, known = self._query, self._known
        new = chunks[~known.has(chunks)]
        if not len(new):
            return
        if len(known.asked) + len(new) > MAX_CACHED:
            known, new = _NOTHING, chunks
        rows = query.db.query(
            _REFERENCES, ["int8[]", "text", "int4"], [new.tolist(), query.corpus.name, query.corpus.id]
        )
        self._known = known.with_more(new, rows)
        cache_of_rows(query, self._cache_key, self._known, self._known.nbytes)


@once
def row_references(query: Query) -> RowReferences:
    """Return where rows lead, as a query sees them."""
    return RowReferences(query)


@timed("rows")
def referenced_chunks(query: Query, chunks: Ids) -> Ids:
    """Return the chunks, (n,) int64, of rows to which rows among `chunks` lead within two steps, as the caller sees them.

    A relationship leads out of a row to few others, so this stays small where a row is a hub.
    """
    if not len(chunks) or not query.corpus.has_rows:
        return np.empty(0, np.int64)
    return row_references(query).near(distinct(chunks))
