"""The graph that some documents state: for queries whose filter or row-level security leaves a part of a corpus.

Nothing of it depends on the other documents: neither the degrees, weights and counts that decide an order, nor any
text.
"""

from typing import Any

from pg_graphrag.ground.numeric import Flags, Ids, distinct, np, within
from pg_graphrag.search.graph_view.graph_tables import in_one_line
from pg_graphrag.search.graph_view.topology_graph import TopologyGraph
from pg_graphrag.search.graph_view.visible_chunks import VisibleChunks, key_of, visible_chunks
from pg_graphrag.search.graph_view.visible_tables import VisibleTables, heaviest
from pg_graphrag.search.graph_view.visible_texts import Text, VisibleTexts
from pg_graphrag.search.graph_view.visible_topology import read_visible
from pg_graphrag.search.query.query import Query, once
from pg_graphrag.server import Row
from pg_graphrag.server.caches.session_cache import cache

# For so few chunks the graph is read at once: that takes no longer than the statements of a walk.
FEW_CHUNKS = 200
# About what a chunk brings: rows that are read, and bytes. A larger graph is read where the same documents are asked often, as
# the graph of a whole corpus is, and where the session may keep it.
_CHUNK_LINKS = 60
_CHUNK_BYTES = 4000
LINKS_PER_QUERY = 20_000


def visible_graph(query: Query) -> "VisibleTables | VisibleGraph":
    """Return the graph of the query's visible documents; what is read of it is cached in the session for equal sets."""
    corpus, chunks = query.corpus, visible_chunks(query)
    graph: VisibleTables | VisibleGraph
    graph = whole_visible_graph(query) if _pays(query, chunks) else VisibleTables(query, chunks)
    chunks.queries += 1
    # Counts that were added since the last query count now.
    key = key_of(query, "visible chunks")
    if corpus.revision is not None and chunks.nbytes <= cache.room(corpus, key):
        cache.put(corpus, key, chunks, chunks.nbytes)
    return graph


@once
def whole_visible_graph(query: Query) -> "VisibleGraph":
    """Return the graph of the query's visible documents, read as a whole; kept in the session for equal ones."""
    key = key_of(query, "visible graph")
    texts: VisibleTexts = cache.get(query.corpus, key) or VisibleTexts(read_visible(query))
    graph = VisibleGraph(query, visible_chunks(query), texts, key)
    graph.cache()
    return graph


def _pays(query: Query, chunks: VisibleChunks) -> bool:
    """Return whether the graph is small or cached, or is asked often and fits into the session's memory."""
    count, corpus, key = len(chunks.ids), query.corpus, key_of(query, "visible graph")
    if count <= FEW_CHUNKS or cache.get(corpus, key) is not None:
        return True
    size = max(count * _CHUNK_BYTES, cache.latest(corpus, (*key, "size")) or 0)
    return chunks.queries * LINKS_PER_QUERY >= _CHUNK_LINKS * count and size <= cache.room(corpus, key)


class VisibleGraph(TopologyGraph):
    """A graph of some documents, its topology in memory; texts are put together from these documents on request."""

    def __init__(self, query: Query, chunks: VisibleChunks, texts: VisibleTexts, key: tuple[str, int, str]):
        super().__init__(query, texts.topology)
        self._chunks = chunks
        self._texts = texts
        self._key = key

    def cache(self) -> None:
        """Cache what has been read, if there is room: the topology first."""
        corpus, texts = self.query.corpus, self._texts
        revision, room = texts.topology.revision, cache.room(corpus, self._key)
        if texts.nbytes > room:
            texts.forget()
        if revision is not None and revision == corpus.revision:
            if texts.nbytes <= room:
                cache.put(corpus, self._key, texts, texts.nbytes)
            else:
                cache.put(corpus, (*self._key, "size"), texts.nbytes, 0)

    def has(self, entities: Ids) -> Flags:
        return within(entities, self.entity_ids())

    def entity_ids(self) -> Ids:
        return np.sort(self.topology.entities.ids)

    def named(self, keys: list[str]) -> list[Row]:
        return self.entities(self.topology.entities.ids[self.topology.named(keys)].tolist())

    def entities(self, ids: list[int]) -> list[Row]:
        return in_one_line(self.stated_entities(ids))

    def relationships(self, ids: list[int]) -> list[Row]:
        return in_one_line(self.stated_relationships(ids))

    def texts_of(self, kind: str, ids: Any) -> dict[int, Text]:
        """Return what the documents say of entities or relationships, by id: of `ids`, and of others."""
        texts = self._texts.of(self.query.db, kind, ids.tolist())
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
            texts[item].entity(item, topology.keys[place], degree, count)
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
        names = self.texts_of("entity", topology.entities.ids[distinct(np.append(sources, targets))])
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
        return len(self._chunks.ids)

    def chunks(self, ids: list[int]) -> list[Row]:
        asked = np.array(ids, np.int64)
        return super().chunks(asked[within(asked, self._chunks.ids)].tolist())

    def descriptions(self, relationships: Ids) -> dict[int, str]:
        texts = self.texts_of("relationship", relationships)
        return {item: texts[item].description for item in relationships.tolist() if item in texts}

    def _heaviest(self, entities: list[int], relationships: list[int], most: int) -> dict[str, tuple[Ids, Ids]]:
        topology = self.topology
        result = {}
        for kind, ids, index in (
            ("entity", entities, topology.entities),
            ("relationship", relationships, topology.relationships),
        ):
            mentions = topology.evidence[kind].at(index.places(ids))[1]
            result[kind] = heaviest(self.query.db, kind, mentions, most) if ids else 2 * (np.empty(0, np.int64),)
        return result
