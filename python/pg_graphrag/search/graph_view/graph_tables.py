"""The graph of a corpus, read from the tables.

`topology.TopologyGraph` and `cached_graph.CachedGraph` answer the same from the session's cache.
`visible_tables.VisibleTables` and `visible_graph.VisibleGraph` do so for a part of the documents.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from pg_graphrag.ground.numeric import Flags, Ids, Scores, float64s, int64s, np, packed, within
from pg_graphrag.search.query.query import LED, Query
from pg_graphrag.server import Row
from pg_graphrag.text.words.names import title_keys

_NAMED = (
    "SELECT e.id, e.key, e.name, e.mention_count FROM graphrag.entities e"
    f" WHERE e.corpus_id = $1 AND e.key = ANY ({LED.format(keys='$2')})"
)
# Each entity brings its strongest relationships, so that one hub does not crowd out the others.
_INCIDENT = """
SELECT DISTINCT ON (s.degrees, s.weight, s.low_key, s.high_key) s.id, s.low_id, s.high_id
  FROM pg_catalog.unnest($1) AS u (entity_id)
  JOIN graphrag.entities e ON e.id = u.entity_id
 CROSS JOIN LATERAL (
       SELECT r.id, r.low_id, r.high_id, r.weight, e.degree + o.degree AS degrees,
              least(e.key, o.key) AS low_key, greatest(e.key, o.key) AS high_key
         FROM (SELECT x.id, x.low_id, x.high_id, x.weight, x.high_id AS other FROM graphrag.relationships x WHERE x.low_id = e.id
               UNION ALL
               SELECT x.id, x.low_id, x.high_id, x.weight, x.low_id FROM graphrag.relationships x WHERE x.high_id = e.id) r
        CROSS JOIN LATERAL (SELECT y.degree, y.key FROM graphrag.entities y WHERE y.id = r.other OFFSET 0) o
        ORDER BY degrees DESC, r.weight DESC, low_key, high_key
        LIMIT $2) s
 ORDER BY s.degrees DESC, s.weight DESC, s.low_key, s.high_key
 LIMIT $2
"""
_ENDS = """
SELECT r.id, r.weight::float8 AS weight, r.source_id, r.target_id, s.key AS source_key, t.key AS target_key
  FROM graphrag.relationships r
  JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id
 WHERE r.id = ANY ($1)
"""
_ENTITIES = """
SELECT e.id, e.key, e.name, e.type, e.description, e.degree
  FROM graphrag.entities e
 WHERE e.id = ANY ($1)
"""
_RELATIONSHIPS = """
SELECT r.id, s.name AS source, t.name AS target, r.keywords, r.description, r.weight::float8 AS weight,
       s.key AS source_key, t.key AS target_key
  FROM graphrag.relationships r
  JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id
 WHERE r.id = ANY ($1)
"""
_DESCRIPTIONS = f"""
SELECT {packed(ids="r.id")}, pg_catalog.array_agg(r.description) AS descriptions
  FROM graphrag.relationships r WHERE r.id = ANY ($1)"""
# Only items with more mentions than are followed need their best ones.
_MENTIONS = """
(SELECT pg_catalog.string_agg(pg_catalog.int8send(f.chunk_id), ''::bytea) AS {kind}_chunks,
        pg_catalog.string_agg(pg_catalog.int8send(f.id), ''::bytea) AS {kind}_items
   FROM (SELECT m.chunk_id, i.id
           FROM pg_catalog.unnest({items}) AS u (id)
           JOIN graphrag.{table} i ON i.id = u.id AND i.mention_count <= {most}
           JOIN graphrag.{kind}_mentions m ON m.{kind}_id = i.id
          UNION ALL
         SELECT b.chunk_id, i.id
           FROM pg_catalog.unnest({items}) AS u (id)
           JOIN graphrag.{table} i ON i.id = u.id AND i.mention_count > {most}
          CROSS JOIN LATERAL (
                SELECT m.chunk_id
                  FROM graphrag.{kind}_mentions m
                  JOIN graphrag.chunks c ON c.id = m.chunk_id
                  JOIN graphrag.documents d ON d.id = c.document_id
                 WHERE m.{kind}_id = i.id
                 ORDER BY m.{order} DESC, d.source_key COLLATE "C", c.ordinal
                 LIMIT {most}) b) f) AS {kind}
"""
_MENTIONED = f"""
SELECT {packed(ids="m.id", items="m.{kind}_id", chunks="m.chunk_id")}
  FROM graphrag.{{kind}}_mentions m
 WHERE m.id = ANY ($1) AND m.{{kind}}_id IS NOT NULL
"""
# More occurrences in a chunk do not count in a walk.
MAX_TF = 3
# Packed, because thousands of rows take longer to become Python objects than to read. Entities are read by id: a join would
# read all of a corpus of tens of thousands.
_EDGES = f"""
WITH mentions AS MATERIALIZED (
     SELECT m.entity_id, m.chunk_id, least(m.tf, {MAX_TF}) AS tf
       FROM graphrag.entity_mentions m
      WHERE m.{{column}} = ANY ($1) AND m.entity_id IS NOT NULL)
SELECT *
  FROM (SELECT {packed(entities="m.entity_id", chunks="m.chunk_id", tf="m.tf")}
          FROM mentions m) m
 CROSS JOIN (
        SELECT {packed(ids="e.id", counts="e.mention_count")}
          FROM graphrag.entities e
         WHERE e.id = ANY (ARRAY(SELECT m.entity_id FROM mentions m)) AND e.mention_count <= $2) e
"""

# A document `d` is a row that is an entity: relationships of other rows lead to its key, which it is about as much as its name.
IS_ROW = "EXISTS (SELECT FROM graphrag._attached_tables t WHERE t.id = d.attached_id AND t.kind = 'entities')"
_TITLES = f"""
SELECT {packed(chunks="c.id")}, pg_catalog.array_agg(n.name) AS titles
  FROM graphrag.chunks c
  JOIN graphrag.documents d ON d.id = c.document_id
 CROSS JOIN LATERAL (VALUES (d.title), (CASE WHEN {IS_ROW} THEN d.source_key END)) AS n (name)
 WHERE c.id = ANY ($1) AND n.name <> '' AND d.indexed_hash IS NOT NULL
"""
# Entities of a key: the one with this key, the one of its alias, and the first whose keys begin with it.
_NAMESAKES = """
SELECT u.key AS asked, e.id, e.key, e.mention_count
  FROM pg_catalog.unnest($2) AS u (key)
 CROSS JOIN LATERAL (
       SELECT x.id, x.key, x.mention_count
         FROM graphrag.entities x
        WHERE x.corpus_id = $1 AND x.key = u.key COLLATE "C"
        UNION ALL
       SELECT x.id, x.key, x.mention_count
         FROM graphrag.aliases a
         JOIN graphrag.entities x ON x.corpus_id = $1 AND x.key = a.entity_key
        WHERE a.corpus_id = $1 AND a.key = u.key COLLATE "C"
        UNION ALL
       (SELECT x.id, x.key, x.mention_count
          FROM graphrag.entities x
         WHERE x.corpus_id = $1 AND x.key > (u.key || ' ') COLLATE "C" AND x.key < (u.key || '!') COLLATE "C"
         ORDER BY x.key
         LIMIT $3)) e
"""
_STRONGEST = f"""
SELECT {packed(ids="f.id", low="f.low_id", high="f.high_id", source="f.source_id")}
  FROM (SELECT DISTINCT s.id, s.low_id, s.high_id, s.source_id
          FROM pg_catalog.unnest($1) AS u (entity_id)
         CROSS JOIN LATERAL (
               SELECT r.id, r.low_id, r.high_id, r.source_id
                 FROM (SELECT x.id, x.low_id, x.high_id, x.source_id, x.weight, x.high_id AS other
                         FROM graphrag.relationships x WHERE x.low_id = u.entity_id
                       UNION ALL
                       SELECT x.id, x.low_id, x.high_id, x.source_id, x.weight, x.low_id
                         FROM graphrag.relationships x WHERE x.high_id = u.entity_id) r
                 JOIN graphrag.entities o ON o.id = r.other
                ORDER BY r.weight DESC, o.key
                LIMIT $2) s) f
"""
_KEYED = 'SELECT e.id, e.key FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = ANY ($2 COLLATE "C")'
_KEYS = "SELECT e.id, e.key FROM graphrag.entities e WHERE e.id = ANY ($1)"
_CHUNKS = """
SELECT c.id AS chunk_id, c.document_id, c.ordinal, c.content, c.token_count, c.section, c.page, c.picture_id,
       d.source_key, d.title
  FROM graphrag.chunks c
  JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_hash IS NOT NULL
 WHERE c.id = ANY ($1)
"""


_AMONG = f"""
SELECT {packed(ids="r.id", low="r.low_id", high="r.high_id", weights="r.weight::float8", counts="r.mention_count::float8")}
  FROM graphrag.relationships r
 WHERE r.low_id = ANY ($1) AND r.high_id = ANY ($1)
"""
_COUNTS = "SELECT e.id, e.mention_count AS n FROM graphrag.entities e WHERE e.id = ANY ($1)"
_STATED_BY = f"""
SELECT {packed(ids="s.id", scores="s.score::float8", weights="r.weight::float8")}
  FROM (SELECT m.relationship_id AS id, pg_catalog.max(u.score) AS score
          FROM unnest($1, $2) AS u (chunk_id, score)
          JOIN graphrag.relationship_mentions m ON m.chunk_id = u.chunk_id
         GROUP BY m.relationship_id) s
  JOIN graphrag.relationships r ON r.id = s.id
"""
_WEIGHTS = "SELECT r.id, r.weight::float8 AS weight FROM graphrag.relationships r WHERE r.id = ANY ($1)"
_IN_ORDER = f"""
SELECT {packed("e.key", ids="e.id")}
  FROM graphrag.entities e
 WHERE e.id = ANY ($1)
"""
_COMMUNITY_MENTIONS = f"""
SELECT {packed(chunks="f.chunk_id", communities="f.community_id", tf="f.tf")}
  FROM (SELECT x.chunk_id, m.community_id, pg_catalog.sum(x.tf) AS tf
          FROM graphrag.entity_mentions x
          JOIN graphrag.community_members m ON m.entity_id = x.entity_id
         WHERE x.chunk_id = ANY ($1)
         GROUP BY x.chunk_id, m.community_id) f
"""
_NODES = """
SELECT e.id, e.name, e.type FROM graphrag.entities e WHERE e.id = ANY ($1) ORDER BY e.key
"""


# Mentions: (entities, chunks, how often the chunk mentions the entity, how many chunks do), (n,) each.
Edges = tuple[Ids, Ids, Ids, Ids]


@dataclass(frozen=True)
class Among:
    """Relationships among some entities: `ids`, ends `low` and `high`: int64; `weights`, `counts` of chunks: float64; (n,)."""

    ids: Ids
    low: Ids
    high: Ids
    weights: Scores
    counts: Scores


class TableGraph:
    """The graph of a whole corpus, as a query sees it. Ids are int64 arrays or lists; rows come in no order where none is named.

    Where some documents only may be searched, `visible_tables.VisibleTables` and `visible_graph.VisibleGraph` answer the same of
    what these state.
    """

    is_curated = True

    def __init__(self, query: Query):
        self.query = query

    def has(self, entities: Ids) -> Flags:
        """Return which entities there are, (n,) bool; of a whole corpus all that are asked for."""
        return np.ones(len(entities), np.bool_)

    def entity_ids(self) -> Ids | None:
        """Return the ids of all entities, (n,) int64 ascending; None where they are not read as a whole."""
        return None

    def named(self, keys: list[str]) -> list[Row]:
        """Return the entities (id, key, name, mention_count) that have one of `keys`, or an alias among them."""
        return self.query.db.query(_NAMED, ["int4", "text[]"], [self.query.corpus.id, keys])

    def namesakes(self, keys: list[str], limit: int) -> list[Row]:
        """Return the entities (asked, id, key, mention_count) of a key or its alias, and `limit` whose key goes on after it."""
        return self.query.db.query(_NAMESAKES, ["int4", "text[]", "int4"], [self.query.corpus.id, keys, limit])

    def called(self, titles: Sequence[str]) -> tuple[Ids, Ids]:
        """Return (places of titles, ids of the entities that these name), (n,) each."""
        keys = {title: title_keys(title) for title in titles}
        all_keys = sorted(set().union(*keys.values()))
        rows = self.query.db.query(_KEYED, ["int4", "text[]"], [self.query.corpus.id, all_keys])
        ids = {row["key"]: row["id"] for row in rows}
        return pairs_of([ids[key] for key in keys[title] if key in ids] for title in titles)

    def keys(self, ids: Iterable[int]) -> dict[int, str]:
        """Return {entity id: key}."""
        return {row["id"]: row["key"] for row in self.query.db.query(_KEYS, ["int8[]"], [list(ids)])}

    def incident(self, entities: list[int], limit: int) -> list[Row]:
        """Return relationships (id, low_id, high_id) of entities, at most `limit`, by degrees, weight and keys."""
        return self.query.db.query(_INCIDENT, ["int8[]", "int4"], [entities, limit])

    def strongest(self, entities: Ids, limit: int) -> list[Ids]:
        """Return [ids, low ids, high ids, source ids] of relationships of entities, of each the `limit` with most weight."""
        row = self.query.db.query(_STRONGEST, ["int8[]", "int4"], [entities.tolist(), limit])[0]
        return [int64s(row[name]) for name in ("ids", "low", "high", "source")]

    def among(self, entities: Ids | list[int]) -> Among:
        """Return the relationships with both ends among `entities`."""
        row = self.query.db.query(_AMONG, ["int8[]"], [np.asarray(entities, np.int64).tolist()])[0]
        ids, low, high = (int64s(row[name]) for name in ("ids", "low", "high"))
        return Among(ids, low, high, float64s(row["weights"]), float64s(row["counts"]))

    def mention_counts(self, entities: list[int]) -> dict[int, int]:
        """Return {entity id: in how many chunks it is mentioned}."""
        return {row["id"]: row["n"] for row in self.query.db.query(_COUNTS, ["int8[]"], [entities])}

    def chunk_count(self) -> int:
        """Return how many chunks there are."""
        return self.query.bm25_index("chunk").statistics()[0]

    def in_order(self, entities: Ids) -> Ids:
        """Return the ids of entities, (n,) int64, in the order of their keys."""
        return int64s(self.query.db.value(_IN_ORDER, ["int8[]"], [entities.tolist()]))

    def stated_by(self, chunks: list[int], scores: Scores) -> tuple[Ids, Scores, Scores]:
        """Return (ids, scores, weights), (n,) each, of the relationships that chunks state; each scores as the best of these.

        Chunks come best first.
        """
        row = self.query.db.query(_STATED_BY, ["int8[]", "float8[]"], [chunks, scores.tolist()])[0]
        return int64s(row["ids"]), float64s(row["scores"]), float64s(row["weights"])

    def community_mentions(self, chunks: list[int]) -> tuple[Ids, Ids, Ids]:
        """Return (chunks, communities, tf), (n,) int64 each: which communities' members chunks mention, in one row or several."""
        row = self.query.db.query(_COMMUNITY_MENTIONS, ["int8[]"], [chunks])[0]
        chunk_ids, communities, tf = (int64s(row[name]) for name in ("chunks", "communities", "tf"))
        return chunk_ids, communities, tf

    def nodes(self, entities: Ids) -> list[Row]:
        """Return entities (id, name, type) in the order of their keys."""
        return self.query.db.query(_NODES, ["int8[]"], [entities.tolist()])

    def ends(self, ids: list[int]) -> list[Row]:
        """Return relationships (id, weight, source_id, target_id, source_key, target_key)."""
        return self.query.db.query(_ENDS, ["int8[]"], [ids])

    def weights(self, relationships: Ids) -> Scores:
        """Return the weights of relationships, (n,)."""
        rows = self.query.db.query(_WEIGHTS, ["int8[]"], [relationships.tolist()])
        weights = {row["id"]: row["weight"] for row in rows}
        return np.array([weights.get(item, 0.0) for item in relationships.tolist()])

    def entities(self, ids: list[int]) -> list[Row]:
        """Return entities (id, key, name, type, description, degree)."""
        return in_one_line(self.query.db.query(_ENTITIES, ["int8[]"], [ids])) if ids else []

    def relationships(self, ids: list[int]) -> list[Row]:
        """Return relationships (id, source, target, keywords, description, weight, source_key, target_key)."""
        return in_one_line(self.query.db.query(_RELATIONSHIPS, ["int8[]"], [ids])) if ids else []

    def descriptions(self, relationships: Ids) -> dict[int, str]:
        """Return {relationship id: description}, with its white space unchanged."""
        row = self.query.db.query(_DESCRIPTIONS, ["int8[]"], [relationships.tolist()])[0]
        return dict(zip(int64s(row["ids"]).tolist(), row["descriptions"] or (), strict=True))

    def mentions(self, entities: list[int], relationships: list[int], most: int) -> dict[str, tuple[Ids, Ids]]:
        """Return per kind, entity and relationship, (chunk ids, item ids) of mentions, of an item the `most` weightiest."""
        of_entities = _MENTIONS.format(kind="entity", table="entities", items="$1", order="tf", most=most)
        of_relationships = _MENTIONS.format(
            kind="relationship", table="relationships", items="$2", order="weight", most=most
        )
        sql = f"SELECT * FROM {of_entities} CROSS JOIN {of_relationships}"
        row = self.query.db.query(sql, ["int8[]", "int8[]"], [entities, relationships])[0]
        item_kinds = ("entity", "relationship")
        return {kind: (int64s(row[f"{kind}_chunks"]), int64s(row[f"{kind}_items"])) for kind in item_kinds}

    def mentioned(self, kind: str, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Return (ids ascending, items, chunks) of mentions by id, int64, for mentions with an entity or relationship."""
        row = self.query.db.query(_MENTIONED.format(kind=kind), ["int8[]"], [ids.tolist()])[0]
        mention_ids = int64s(row["ids"])
        order = np.argsort(mention_ids)
        return mention_ids[order], int64s(row["items"])[order], int64s(row["chunks"])[order]

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return (entities, chunks, tf at most 3, chunks that mention the entity) of mentions in chunks, without hubs."""
        return self._edges("chunk_id", ids, hub)

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return the same of mentions of entities; `hub`: in more chunks than this an entity is left out."""
        return self._edges("entity_id", ids, hub)

    def titles(self, chunks: Ids) -> tuple[list[str], Ids]:
        """Return (titles of documents or keys of rows, the one of `chunks` for each), (n,) each; without empty ones."""
        row = self.query.db.query(_TITLES, ["int8[]"], [chunks.tolist()])[0]
        return row["titles"] or [], int64s(row["chunks"])

    def chunks(self, ids: list[int]) -> list[Row]:
        """Return chunks of visible existing documents, with the documents' titles.

        A document that was inserted under the number of a deleted one has no chunks until it is indexed.
        """
        return self.query.db.query(_CHUNKS, ["int8[]"], [ids])

    def _edges(self, column: str, ids: Ids | list[int], hub: float) -> Edges:
        sql = _EDGES.format(column=column)
        row = self.query.db.query(sql, ["int8[]", "float8"], [np.asarray(ids).tolist(), hub])[0]
        entities, chunks, tf, kept_ids, counts = (
            int64s(row[name]) for name in ("entities", "chunks", "tf", "ids", "counts")
        )
        order = np.argsort(kept_ids)
        kept_ids, counts = kept_ids[order], counts[order]
        is_kept = within(entities, kept_ids)
        entities, chunks, tf = entities[is_kept], chunks[is_kept], tf[is_kept]
        return entities, chunks, tf, counts[np.searchsorted(kept_ids, entities)]


def pairs_of(lists: Iterable[list[int]]) -> tuple[Ids, Ids]:
    """Return (place of the list, number), (n,) each, of all numbers in lists."""
    lists = list(lists)
    numbers = np.array(list(chain.from_iterable(lists)), np.int64)
    return np.arange(len(lists)).repeat(np.fromiter(map(len, lists), np.int64, len(lists))), numbers


def in_one_line(rows: list[Row]) -> list[Row]:
    """Return rows, their descriptions without line ends and other repeated white space."""
    for row in rows:
        row["description"] = " ".join(row["description"].split())
    return rows
