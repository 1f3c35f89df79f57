"""What a walk reads of the graph of some documents: their chunks by number, and mentions as they are asked for."""

from pg_graphrag.numeric import Flags, Ids, int64s, np, packed
from pg_graphrag.retrieval.graph_tables import MAX_TF, Edges
from pg_graphrag.retrieval.ids import numbered, within
from pg_graphrag.server import Database, Row

# What a dictionary takes for a count, about.
_COUNT_BYTES = 100
# By the index alone.
_OF_ENTITIES = f"""
SELECT {packed(entities="m.entity_id", chunks="m.chunk_id", tf="m.tf")}
  FROM graphrag.entity_mentions m
 WHERE m.entity_id = ANY ($1)
"""
_OF_CHUNKS = f"""
SELECT {packed(entities="m.entity_id", chunks="m.chunk_id", tf="m.tf")}
  FROM graphrag.entity_mentions m
 WHERE m.chunk_id = ANY ($1) AND m.entity_id IS NOT NULL
"""
# Entities that a relationship in one of the chunks names, whoever mentions them: of a model's extraction they may be mentioned
# nowhere.
_ENDS_IN = f"""
SELECT {packed(entities="u.id", chunks="m.chunk_id")}
  FROM pg_catalog.unnest($1) AS u (id)
  JOIN LATERAL (SELECT r.id FROM graphrag.relationships r WHERE r.low_id = u.id
                 UNION ALL
                SELECT r.id FROM graphrag.relationships r WHERE r.high_id = u.id) r ON true
  JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id
"""


class VisibleChunks:
    """The chunks of some documents, `ids` (n,) int64 ascending, and in how many of them entities are that were asked for.

    `queries`: how many queries of the session had these documents.
    """

    def __init__(self, ids: Ids):
        self.ids = ids
        self.queries = 0
        self._counts: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.ids.nbytes) + _COUNT_BYTES * len(self._counts)

    def counts(self, db: Database, entities: Ids) -> Ids:
        """Return in how many of the chunks entities are mentioned, (n,) int64."""
        missing = [entity for entity in dict.fromkeys(entities.tolist()) if entity not in self._counts]
        if missing:
            self._mentions(db, missing)
        return np.fromiter((self._counts[entity] for entity in entities.tolist()), np.int64, len(entities))

    def edges_of_entities(self, db: Database, entities: Ids, hub: float) -> Edges:
        """Return what `TableGraph.edges_of_entities` does."""
        counts = self._counts
        below = [entity for entity in dict.fromkeys(entities.tolist()) if counts.get(entity, 0) <= hub]
        return self._without_hubs(db, *self._mentions(db, below), hub)

    def edges_of_chunks(self, db: Database, chunks: Ids, hub: float) -> Edges:
        """Return what `TableGraph.edges_of_chunks` does."""
        visible = chunks[within(chunks, self.ids)]
        row = db.query(_OF_CHUNKS, ["int8[]"], [visible.tolist()])[0]
        entities, in_chunks, tf = (int64s(row[name]) for name in ("entities", "chunks", "tf"))
        return self._without_hubs(db, entities, in_chunks, tf, hub)

    def has(self, db: Database, entities: Ids) -> Flags:
        """Return which entities the chunks know of: they mention them, or name them in a relationship; (n,) bool."""
        is_known = self.counts(db, entities) > 0
        if not is_known.all():
            row = db.query(_ENDS_IN, ["int8[]"], [entities[~is_known].tolist()])[0]
            named = int64s(row["entities"])[within(int64s(row["chunks"]), self.ids)]
            is_known |= np.isin(entities, named)
        return is_known

    def visible_rows(self, db: Database, rows: list[Row]) -> list[Row]:
        """Return those rows (id, mention_count) whose entities the chunks know of, counted in them."""
        ids = np.array([row["id"] for row in rows], np.int64)
        columns = rows, self.has(db, ids).tolist(), self.counts(db, ids).tolist()
        return [row | {"mention_count": count} for row, is_known, count in zip(*columns, strict=True) if is_known]

    def _mentions(self, db: Database, entities: list[int]) -> tuple[Ids, Ids, Ids]:
        """Return (entities, chunks, tf), (n,) each, of the mentions of entities, and remember in how many chunks each is."""
        row = db.query(_OF_ENTITIES, ["int8[]"], [entities])[0]
        columns = [int64s(row[name]) for name in ("entities", "chunks", "tf")]
        is_visible = within(columns[1], self.ids)
        owners, chunks, tf = (column[is_visible] for column in columns)
        # Aliases may mention an entity several times in a chunk, which counts as one.
        order = np.lexsort((chunks, owners))
        is_first = (np.diff(owners[order], prepend=-1) != 0) | (np.diff(chunks[order], prepend=-1) != 0)
        distinct, place = numbered(owners[order][is_first])
        counted = zip(distinct.tolist(), np.bincount(place, minlength=len(distinct)).tolist(), strict=True)
        self._counts |= dict.fromkeys(entities, 0) | dict(counted)
        return owners, chunks, tf

    def _without_hubs(self, db: Database, entities: Ids, chunks: Ids, tf: Ids, hub: float) -> Edges:
        distinct, place = numbered(entities)
        df = self.counts(db, distinct)[place]
        below_hub = df <= hub
        return entities[below_hub], chunks[below_hub], np.minimum(tf[below_hub], MAX_TF), df[below_hub]
