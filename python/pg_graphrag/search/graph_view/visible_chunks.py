"""The chunks of some documents by number, and their mentions as a query asks for them."""

from typing import NamedTuple

from pg_graphrag.ground.numeric import Flags, Ids, int64s, np, numbered, packed, within
from pg_graphrag.search.graph_view.graph_tables import MAX_TF, Edges
from pg_graphrag.search.query.query import Query, once, visible_digest
from pg_graphrag.server import Database, Row
from pg_graphrag.server.caches.session_cache import cache

# After every rank of a sentence.
NO_EVIDENCE = 2**63 - 1
RANK = f"coalesce(m.evidence_rank, {NO_EVIDENCE})"
# What a dictionary takes for a count, about.
_COUNT_BYTES = 100
# By the index alone.
_OF_ITEMS = {
    "entity": f"""
SELECT {packed(items="m.entity_id", chunks="m.chunk_id", ranks=RANK, tf="m.tf")}
  FROM graphrag.entity_mentions m
 WHERE m.entity_id = ANY ($1)
""",
    "relationship": f"""
SELECT {packed(items="m.relationship_id", chunks="m.chunk_id", ranks=RANK)}
  FROM graphrag.relationship_mentions m
 WHERE m.relationship_id = ANY ($1)
""",
}
_WITH_IDS = {
    kind: f"""
SELECT {packed(items=f"m.{kind}_id", chunks="m.chunk_id", ranks=RANK, ids="m.id")}
  FROM graphrag.{kind}_mentions m
 WHERE m.{kind}_id = ANY ($1)
"""
    for kind in ("entity", "relationship")
}
_OF_CHUNKS = f"""
SELECT {packed(entities="m.entity_id", chunks="m.chunk_id", tf="m.tf")}
  FROM graphrag.entity_mentions m
 WHERE m.chunk_id = ANY ($1) AND m.entity_id IS NOT NULL
"""
# Relationships of entities, whoever mentions these: of a model's extraction they may be mentioned nowhere.
_LINKS = f"""
SELECT {packed(items="u.id", chunks="m.chunk_id", relationships="r.id")}
  FROM pg_catalog.unnest($1) AS u (id)
  JOIN LATERAL (SELECT r.id FROM graphrag.relationships r WHERE r.low_id = u.id
                 UNION ALL
                SELECT r.id FROM graphrag.relationships r WHERE r.high_id = u.id) r ON true
  JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id
"""
_ENTITIES_IN = f"""
SELECT {packed(ids="f.id")}
  FROM (SELECT m.entity_id AS id
          FROM graphrag.entity_mentions m
         WHERE m.chunk_id = ANY ($1) AND m.entity_id IS NOT NULL
         UNION
        SELECT e.id
          FROM graphrag.relationship_mentions m
          JOIN graphrag.relationships r ON r.id = m.relationship_id
         CROSS JOIN LATERAL (VALUES (r.low_id), (r.high_id)) AS e (id)
         WHERE m.chunk_id = ANY ($1)) f
"""


@once
def visible_chunks(query: Query) -> "VisibleChunks":
    """Return the chunks of the query's visible documents."""
    assert query.visible is not None
    chunks: VisibleChunks | None = cache.get(query.corpus, key_of(query, "visible chunks"))
    return chunks or VisibleChunks(query.bm25_index("chunk").items_of(query.visible))


def key_of(query: Query, what: str) -> tuple[str, int, str]:
    """Return under which key a session keeps something of the visible documents."""
    return what, query.corpus.id, visible_digest(query)


class Mentions(NamedTuple):
    """Mentions in chunks, (n,) int64 each: their `items`, `chunks`, `ranks` of their sentences, and further values on
    request.
    """

    items: Ids
    chunks: Ids
    ranks: Ids
    besides: Ids

    def counts(self, items: Ids) -> Ids:
        """Return in how many chunks each of `items` is mentioned, (m,) int64: several mentions in a chunk count as one."""
        distinct, place = numbered(_firsts(self.items, self.chunks)[0])
        counts = np.bincount(place, minlength=len(distinct))
        return _at(items, distinct, counts, 0)

    def best_ranks(self, items: Ids) -> Ids:
        """Return the rank of the best sentence of each of `items`, (m,) int64."""
        distinct, place = numbered(self.items)
        best = np.full(len(distinct), NO_EVIDENCE)
        np.minimum.at(best, place, self.ranks)
        return _at(items, distinct, best, NO_EVIDENCE)


def _firsts(left: Ids, right: Ids) -> tuple[Ids, Ids]:
    """Return distinct pairs, in order."""
    order = np.lexsort((right, left))
    left, right = left[order], right[order]
    is_first = (np.diff(left, prepend=-1) != 0) | (np.diff(right, prepend=-1) != 0)
    return left[is_first], right[is_first]


def _at(items: Ids, distinct: Ids, values: Ids, otherwise: int) -> Ids:
    """Return the values of `items`; `values` are those of `distinct`, ascending."""
    at_items = np.full(len(items), otherwise, np.int64)
    is_known = within(items, distinct)
    at_items[is_known] = values[np.searchsorted(distinct, items[is_known])]
    return at_items


class VisibleChunks:
    """The chunks of some documents, `ids` (n,) int64 ascending, and in how many of them entities are that were asked for.

    `queries`: how many queries of the session had these documents.
    """

    def __init__(self, ids: Ids):
        self.ids = ids
        self.queries = 0
        self._counts: dict[int, int] = {}
        self._degrees: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.ids.nbytes) + _COUNT_BYTES * (len(self._counts) + len(self._degrees))

    def counts(self, db: Database, entities: Ids) -> Ids:
        """Return in how many of the chunks entities are mentioned, (n,) int64."""
        missing = [entity for entity in dict.fromkeys(entities.tolist()) if entity not in self._counts]
        if missing:
            self.mentions(db, "entity", missing)
        return np.fromiter((self._counts[entity] for entity in entities.tolist()), np.int64, len(entities))

    def degrees(self, db: Database, entities: Ids) -> Ids:
        """Return how many relationships of entities the chunks state, (n,) int64."""
        missing = [entity for entity in dict.fromkeys(entities.tolist()) if entity not in self._degrees]
        if missing:
            self.links(db, missing)
        return np.fromiter((self._degrees[entity] for entity in entities.tolist()), np.int64, len(entities))

    def edges_of_entities(self, db: Database, entities: Ids, hub: float) -> Edges:
        """Return what `TableGraph.edges_of_entities` does."""
        counts = self._counts
        below = [entity for entity in dict.fromkeys(entities.tolist()) if counts.get(entity, 0) <= hub]
        mentions = self.mentions(db, "entity", below)
        return self._without_hubs(db, mentions.items, mentions.chunks, mentions.besides, hub)

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
            is_known[~is_known] = self.degrees(db, entities[~is_known]) > 0
        return is_known

    def visible_rows(self, db: Database, rows: list[Row]) -> list[Row]:
        """Return those rows (id, mention_count) whose entities the chunks know of, counted in them."""
        ids = np.array([row["id"] for row in rows], np.int64)
        columns = rows, self.has(db, ids).tolist(), self.counts(db, ids).tolist()
        return [row | {"mention_count": count} for row, is_known, count in zip(*columns, strict=True) if is_known]

    def mentions(self, db: Database, kind: str, items: list[int]) -> Mentions:
        """Return the mentions of distinct entities or relationships (`kind`), of entities with their frequencies.

        The number of chunks of each entity is remembered.
        """
        mentions = self._read(db, _OF_ITEMS[kind], items, "tf" if kind == "entity" else "ranks")
        if kind == "entity":
            self._counts |= zip(items, mentions.counts(np.array(items, np.int64)).tolist(), strict=True)
        return mentions

    def numbered_mentions(self, db: Database, kind: str, items: list[int]) -> Mentions:
        """Return the mentions of entities or relationships (`kind`), with their ids."""
        return self._read(db, _WITH_IDS[kind], items, "ids")

    def links(self, db: Database, entities: list[int]) -> tuple[Ids, Ids]:
        """Return (entities, relationships), (n,) each, that the chunks state for distinct entities; their number is
        remembered.
        """
        row = db.query(_LINKS, ["int8[]"], [entities])[0]
        items, chunks, relationships = (int64s(row[name]) for name in ("items", "chunks", "relationships"))
        is_visible = within(chunks, self.ids)
        owners, links = _firsts(items[is_visible], relationships[is_visible])
        distinct, place = numbered(owners)
        counts = zip(distinct.tolist(), np.bincount(place, minlength=len(distinct)).tolist(), strict=True)
        self._degrees |= dict.fromkeys(entities, 0) | dict(counts)
        return owners, links

    def entity_ids(self, db: Database) -> Ids:
        """Return the ids of all entities that the chunks know of, (n,) int64 ascending."""
        return np.sort(int64s(db.value(_ENTITIES_IN, ["int8[]"], [self.ids.tolist()])))

    def _read(self, db: Database, sql: str, items: list[int], besides: str) -> Mentions:
        row = db.query(sql, ["int8[]"], [items])[0]
        columns = [int64s(row[name]) for name in ("items", "chunks", "ranks", besides)]
        is_visible = within(columns[1], self.ids)
        return Mentions(*(column[is_visible] for column in columns))

    def _without_hubs(self, db: Database, entities: Ids, chunks: Ids, tf: Ids, hub: float) -> Edges:
        distinct, place = numbered(entities)
        df = self.counts(db, distinct)[place]
        below_hub = df <= hub
        return entities[below_hub], chunks[below_hub], np.minimum(tf[below_hub], MAX_TF), df[below_hub]
