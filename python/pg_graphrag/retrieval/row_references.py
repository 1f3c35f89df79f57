"""To which rows rows of attached tables lead, as the query's caller sees both: read once for a query, of what it meets."""

from dataclasses import dataclass

from pg_graphrag.numeric import Ids, int64s, np
from pg_graphrag.retrieval.ids import within
from pg_graphrag.retrieval.query import Query, once, timed
from pg_graphrag.retrieval.row_tables import has_rows

# Steps over relationships of rows that a walk takes besides its own.
MAX_STEPS = 2
# By first chunk of a row, and by the name that rows among the chunks $1 have for it: these chunks. OFFSET 0: each row is looked up
# by its key; joined, a generic plan would read all rows (230 ms in place of 2, of a corpus with 388), and so would an index on
# attached_id, of which statistics from before the rows came say that nothing has one.
_REFERENCES = """
WITH led AS MATERIALIZED (
    SELECT c.id AS chunk_id, d.metadata ->> r.field AS source_key,
           CASE WHEN r.by_name THEN pg_catalog.substr(d.metadata ->> r.field, pg_catalog.length(r.prefix) + 1)
                ELSE d.metadata ->> r.field END AS name
      FROM graphrag.chunks c
     CROSS JOIN LATERAL (
            SELECT d.metadata, d.attached_id FROM graphrag.documents d WHERE d.id = c.document_id OFFSET 0) d
      JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.kind <> 'documents'
     CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(a.reference_types), pg_catalog.unnest(a.reference_prefixes),
                                   pg_catalog.unnest(a.reference_by_name)) AS r (field, prefix, by_name)
     WHERE c.id = ANY ($1)
), named AS MATERIALIZED (
    SELECT l.source_key, l.name, pg_catalog.string_agg(pg_catalog.int8send(l.chunk_id), ''::bytea) AS chunks
      FROM led l WHERE l.source_key IS NOT NULL GROUP BY l.source_key, l.name
)
SELECT t.id AS target_id, n.source_key, n.name, n.chunks
  FROM named n
 CROSS JOIN LATERAL (
        SELECT o.id, o.attached_id, o.indexed_hash FROM graphrag.documents o
         WHERE o.corpus = $2 AND o.source_key = n.source_key
        OFFSET 0) o
 CROSS JOIN LATERAL (SELECT t.id FROM graphrag.chunks t WHERE t.document_id = o.id AND t.ordinal = 0 OFFSET 0) t
 WHERE o.attached_id IS NOT NULL AND o.indexed_hash IS NOT NULL AND ($3 IS NULL OR o.id = ANY ($3))
"""


@dataclass(frozen=True)
class References:
    """Chunks of rows, (n,), and the place of the row to which each leads: by place its first chunk, source key and name there.

    The name is that by which the row is led to: its key with the prefix of its table, or its own name.
    """

    chunks: Ids
    places: Ids
    targets: Ids
    source_keys: list[str]
    names: list[str]


class RowReferences:
    """What a query knows of where rows lead: of the chunks `_asked`, ascending."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._asked = np.empty(0, np.int64)
        self._known = References(*(np.empty(0, np.int64) for _ in range(3)), [], [])

    def of(self, chunks: Ids) -> References:
        """Return where the rows of chunks lead."""
        known = self._reading(chunks)
        is_asked = within(known.chunks, np.sort(chunks))
        return References(
            known.chunks[is_asked], known.places[is_asked], known.targets, known.source_keys, known.names
        )

    def near(self, chunks: Ids) -> Ids:
        """Return the first chunks of the rows to which rows of chunks lead within MAX_STEPS, (n,) ascending."""
        # What is known of the first step leads to a part of the second.
        self._reading(np.append(chunks, self._targets(chunks)))
        near, step = np.empty(0, np.int64), chunks
        for _ in range(MAX_STEPS):
            self._reading(step)
            step = self._targets(step)
            near = np.union1d(near, step)
        return near

    def _targets(self, chunks: Ids) -> Ids:
        known = self._known
        return np.unique(known.targets[known.places[within(known.chunks, np.sort(chunks))]])

    def _reading(self, chunks: Ids) -> References:
        """Return what is known, once that of chunks is."""
        new = np.unique(chunks[~within(chunks, self._asked)])
        if len(new):
            self._asked = np.sort(np.append(self._asked, new))
            self._read(new)
        return self._known

    def _read(self, chunks: Ids) -> None:
        query, known = self._query, self._known
        rows = query.db.query(
            _REFERENCES, ["int8[]", "text", "int8[]"], [chunks.tolist(), query.corpus.name, query.visible_ids]
        )
        if not rows:
            return
        led = [int64s(row["chunks"]) for row in rows]
        places = np.repeat(np.arange(len(rows)) + len(known.targets), [len(part) for part in led])
        self._known = References(
            np.concatenate([known.chunks, *led]),
            np.append(known.places, places),
            np.append(known.targets, np.array([row["target_id"] for row in rows], np.int64)),
            known.source_keys + [row["source_key"] for row in rows],
            known.names + [row["name"] for row in rows],
        )


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
    return row_references(query).near(chunks)
