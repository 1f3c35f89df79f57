"""The graph as some documents state it: what a query reads where a filter or row-level security leaves a part of a corpus.

Nothing of it depends on the other documents: not the degrees, weights and counts that decide an order, and no text.
"""

import hashlib
from typing import Any

from pg_graphrag.numeric import int64s, np
from pg_graphrag.retrieval import held, topology
from pg_graphrag.retrieval.graph_tables import Among, in_one_line
from pg_graphrag.retrieval.ids import within
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.topology import Topology, TopologyGraph
from pg_graphrag.server import Row

_ENTITIES = """
SELECT e.entity_id AS id, e.key, e.name, e.type, e.description, e.degree, e.mention_count
  FROM graphrag._entities_as_visible($1, $2, NULL) e
"""
_RELATIONSHIPS = """
SELECT r.relationship_id AS id, r.source_id, r.target_id, r.keywords, r.description, r.weight::float8 AS weight
  FROM graphrag._relationships_as_visible($1, NULL) r
"""
# The chunks that an item with many mentions has most of.
_HEAVIEST = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(b.chunk_id), ''::bytea) AS chunks,
       pg_catalog.string_agg(pg_catalog.int8send(u.id), ''::bytea) AS items
  FROM pg_catalog.unnest($1) AS u (id)
 CROSS JOIN LATERAL (
       SELECT m.chunk_id
         FROM graphrag.{kind}_mentions m
         JOIN graphrag.chunks c ON c.id = m.chunk_id
         JOIN graphrag.documents d ON d.id = c.document_id
        WHERE m.{kind}_id = u.id AND m.document_id IN (SELECT pg_catalog.unnest($2))
        ORDER BY m.{order} DESC, d.source_key COLLATE "C", c.ordinal
        LIMIT $3) b
"""
# What a topology of so many rows takes, each.
_LINK_BYTES = 100


def visible_graph(query: Query) -> "VisibleGraph":
    """Return the graph of the query's visible documents; kept in the session for equal ones."""
    corpus, documents = query.corpus, query.visible
    key = "visible graph", corpus.id, hashlib.sha256(documents.tobytes()).hexdigest()
    cached: Topology | None = held.recall(key)
    if cached is None or corpus.revision is None or cached.revision != corpus.revision:
        cached = topology.read_visible(query)
        size = _LINK_BYTES * cached.size
        if cached.revision is not None and cached.revision == corpus.revision and size <= held.room(corpus, key):
            held.keep(corpus, key, cached, size)
    return VisibleGraph(query, cached)


class VisibleGraph(TopologyGraph):
    """A graph of some documents: its topology in memory, texts put together from these documents as they are asked for."""

    def named(self, keys: list[str]) -> list[Row]:
        return self.entities(self.topology.entities.ids[self.topology.named(keys)].tolist())

    def entity_ids(self) -> Any:
        return np.sort(self.topology.entities.ids)

    def entities(self, ids: list[int]) -> list[Row]:
        if not ids:
            return []
        graph = self.topology
        _, edges = graph.incident.at(graph.entities.places(ids))
        given = [self._mention_ids("entity", ids), graph.relationships.ids[np.unique(edges)].tolist()]
        return in_one_line(self.query.db.query(_ENTITIES, ["int8[]", "int8[]"], given))

    def relationships(self, ids: list[int]) -> list[Row]:
        if not ids:
            return []
        rows = in_one_line(self.query.db.query(_RELATIONSHIPS, ["int8[]"], [self._mention_ids("relationship", ids)]))
        ends = {row["id"]: row for row in self.entities(list({row[end] for row in rows for end in _ENDS}))}
        return [
            row
            | {
                "source": ends[row["source_id"]]["name"],
                "target": ends[row["target_id"]]["name"],
                "source_key": ends[row["source_id"]]["key"],
                "target_key": ends[row["target_id"]]["key"],
            }
            for row in rows
        ]

    def nodes(self, entities: Any) -> list[Row]:
        return sorted(self.entities(entities.tolist()), key=lambda row: row["key"].encode())

    def mentions(self, entities: list[int], relationships: list[int], most: int) -> dict[str, tuple[Any, Any]]:
        graph = self.topology
        found = {}
        for kind, ids, counts, lists in (
            ("entity", graph.entities, graph.mention_counts, graph.chunks_of),
            ("relationship", graph.relationships, graph.stating_counts, graph.stated_in),
        ):
            places = ids.places(entities if kind == "entity" else relationships)
            many = counts[places] > most
            owners, chunks, *_ = lists.at(places[~many])
            heavy_chunks, heavy_items = self._heaviest(kind, ids.ids[places[many]].tolist(), most)
            found[kind] = np.append(chunks, heavy_chunks), np.append(ids.ids[owners], heavy_items)
        return found

    def strongest(self, entities: Any, limit: int) -> list[Any]:
        graph = self.topology
        owners, edges = graph.incident.at(graph.entities.places(entities))
        # Places of entities are in the order of keys.
        other = graph.low[edges] + graph.high[edges] - owners
        order = np.lexsort((other, -graph.weights[edges], owners))
        owners, edges = owners[order], edges[order]
        first = np.arange(len(owners)) - np.searchsorted(owners, owners) < limit
        edges = np.unique(edges[first])
        ends = graph.low[edges], graph.high[edges], graph.sources[edges]
        return [graph.relationships.ids[edges], *(graph.entities.ids[places] for places in ends)]

    def among(self, entities: Any) -> Among:
        graph = self.topology
        inside = np.zeros(len(graph.keys), np.bool_)
        inside[graph.entities.places(entities)] = True
        edges = np.flatnonzero(inside[graph.low] & inside[graph.high])
        ends = graph.entities.ids[graph.low[edges]], graph.entities.ids[graph.high[edges]]
        counts = graph.stating_counts[edges].astype(np.float64)
        # By id, as SQL has the lower one first.
        return Among(graph.relationships.ids[edges], np.minimum(*ends), np.maximum(*ends), graph.weights[edges], counts)

    def mention_counts(self, entities: list[int]) -> dict[int, int]:
        places = self.topology.entities.places(entities)
        ids, counts = self.topology.entities.ids[places], self.topology.mention_counts[places]
        return dict(zip(ids.tolist(), counts.tolist(), strict=True))

    def chunk_count(self) -> int:
        return len(self.topology.chunks.ids)

    def chunks(self, ids: list[int]) -> list[Row]:
        return super().chunks(self.topology.chunks.ids[self.topology.chunks.places(ids)].tolist())

    def _mention_ids(self, kind: str, ids: list[int]) -> list[int]:
        """Return the ids of the visible mentions of entities or relationships."""
        mentioned = self.topology.mentioned[kind]
        found: list[int] = mentioned.ids[within(mentioned.items, np.unique(np.asarray(ids, np.int64)))].tolist()
        return found

    def _heaviest(self, kind: str, ids: list[int], most: int) -> tuple[Any, Any]:
        """Return (chunk ids, item ids) of the `most` weightiest visible mentions of each item."""
        if not ids:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        sql = _HEAVIEST.format(kind=kind, order="tf" if kind == "entity" else "weight")
        row = self.query.db.query(sql, ["int8[]", "int8[]", "int4"], [ids, self.query.visible_ids, most])[0]
        return int64s(row["chunks"]), int64s(row["items"])


_ENDS = ("source_id", "target_id")
