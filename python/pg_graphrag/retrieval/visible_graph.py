"""The graph as some documents state it: what a query reads where a filter or row-level security leaves a part of a corpus.

Nothing of it depends on the other documents: not the degrees, weights and counts that decide an order, and no text.
"""

import hashlib
from typing import Any

from pg_graphrag.numeric import int64s, np
from pg_graphrag.retrieval.graph_tables import in_one_line
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.session_cache import cache
from pg_graphrag.retrieval.topology import TopologyGraph
from pg_graphrag.retrieval.visible_texts import Text, VisibleTexts
from pg_graphrag.retrieval.visible_topology import read_visible
from pg_graphrag.server import Row

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


def visible_graph(query: Query) -> "VisibleGraph":
    """Return the graph of the query's visible documents; kept in the session for equal ones."""
    corpus = query.corpus
    assert query.visible is not None
    key = "visible graph", corpus.id, hashlib.sha256(query.visible.tobytes()).hexdigest()
    texts: VisibleTexts | None = cache.get(corpus, key)
    graph = VisibleGraph(query, texts or VisibleTexts(read_visible(query)), key)
    graph.cache()
    return graph


class VisibleGraph(TopologyGraph):
    """A graph of some documents: its topology in memory, texts put together from these documents as they are asked for."""

    def __init__(self, query: Query, texts: VisibleTexts, key: tuple[str, int, str]):
        super().__init__(query, texts.topology)
        self.texts = texts
        self._key = key

    def cache(self) -> None:
        """Cache what has been read, as far as there is room: the topology first."""
        corpus, revision = self.query.corpus, self.topology.revision
        room = cache.room(corpus, self._key)
        if self.texts.nbytes > room:
            self.texts.forget()
        if revision is not None and revision == corpus.revision and self.texts.nbytes <= room:
            cache.put(corpus, self._key, self.texts, self.texts.nbytes)

    def named(self, keys: list[str]) -> list[Row]:
        return self.entities(self.topology.entities.ids[self.topology.named(keys)].tolist())

    def entity_ids(self) -> Any:
        """Return the ids of all entities, (n,) int64 ascending."""
        return np.sort(self.topology.entities.ids)

    def entities(self, ids: list[int]) -> list[Row]:
        return in_one_line(self.stated_entities(ids))

    def relationships(self, ids: list[int]) -> list[Row]:
        return in_one_line(self.stated_relationships(ids))

    def texts_of(self, kind: str, ids: Any) -> dict[int, Text]:
        """Return what the documents say of entities or relationships, by id: of `ids`, and of others."""
        texts = self.texts.of(self.query.db, kind, ids.tolist())
        self.cache()
        return texts

    def stated_entities(self, ids: list[int]) -> list[Row]:
        """Return entities (id, key, name, type, description, degree, mention_count) in the order of `ids`, texts as merged."""
        topology = self.topology
        places = topology.entities.places(ids)
        here = topology.entities.ids[places]
        texts = self.texts_of("entity", here)
        columns = here, places, topology.incident.counts(places), topology.mention_counts[places]
        return [
            {
                "id": item,
                "key": topology.keys[place],
                "name": texts[item].name,
                "type": texts[item].type,
                "description": texts[item].description,
                "degree": degree,
                "mention_count": count,
            }
            for item, place, degree, count in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def stated_relationships(self, ids: list[int]) -> list[Row]:
        """Return relationships in the order of `ids`, texts as merged.

        Columns: id, source_id, source, source_key, target_id, target, target_key, keywords, description, weight, mention_count.
        """
        topology = self.topology
        places = topology.relationships.places(ids)
        here = topology.relationships.ids[places]
        sources = topology.sources[places]
        targets = topology.low[places] + topology.high[places] - sources
        texts = self.texts_of("relationship", here)
        names = self.texts_of("entity", topology.entities.ids[np.unique(np.append(sources, targets))])
        columns = (
            *(here, topology.entities.ids[sources], sources, topology.entities.ids[targets], targets),
            *(topology.weights[places], topology.stating_counts[places]),
        )
        return [
            {
                "id": item,
                "source_id": source_id,
                "source": names[source_id].name,
                "source_key": topology.keys[source],
                "target_id": target_id,
                "target": names[target_id].name,
                "target_key": topology.keys[target],
                "keywords": list(texts[item].keywords),
                "description": texts[item].description,
                "weight": weight,
                "mention_count": count,
            }
            for item, source_id, source, target_id, target, weight, count in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]

    def nodes(self, entities: Any) -> list[Row]:
        return sorted(self.entities(entities.tolist()), key=lambda row: row["key"].encode())

    def chunk_count(self) -> int:
        return len(self.topology.chunks.ids)

    def chunks(self, ids: list[int]) -> list[Row]:
        return super().chunks(self.topology.chunks.ids[self.topology.chunks.places(ids)].tolist())

    def _heaviest(self, entities: list[int], relationships: list[int], most: int) -> dict[str, tuple[Any, Any]]:
        heaviest = {}
        for kind, ids, order in (("entity", entities, "tf"), ("relationship", relationships, "weight")):
            if not ids:
                heaviest[kind] = np.empty(0, np.int64), np.empty(0, np.int64)
                continue
            sql = _HEAVIEST.format(kind=kind, order=order)
            row = self.query.db.query(sql, ["int8[]", "int8[]", "int4"], [ids, self.query.visible_ids, most])[0]
            heaviest[kind] = int64s(row["chunks"]), int64s(row["items"])
        return heaviest
