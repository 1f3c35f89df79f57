"""The graph as some documents state it: what a query reads where a filter or row-level security leaves a part of a corpus.

Nothing of it depends on the other documents: not the degrees, weights and counts that decide an order, and no text.
"""

import hashlib
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Any

from pg_graphrag.numeric import Ids, int64s, np
from pg_graphrag.retrieval.graph_tables import Edges, TableGraph, in_one_line
from pg_graphrag.retrieval.ids import within
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.session_cache import cache
from pg_graphrag.retrieval.topology import Topology, TopologyGraph
from pg_graphrag.retrieval.visible_chunks import VisibleChunks
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


# Of so many chunks the graph is read at once: that takes no longer than the statements of a walk.
FEW_CHUNKS = 200
# About what a chunk brings: rows that are read, and bytes. A larger graph is read where the same documents are asked often, as
# the graph of a whole corpus is, and where the session may keep it.
_CHUNK_LINKS = 60
_CHUNK_BYTES = 4000
LINKS_PER_QUERY = 20_000


def visible_graph(query: Query) -> "VisibleGraph":
    """Return the graph of the query's visible documents; kept in the session for equal ones."""
    corpus = query.corpus
    assert query.visible is not None
    documents = hashlib.sha256(query.visible.tobytes()).hexdigest()
    chunks_key = "visible chunks", corpus.id, documents
    chunks: VisibleChunks | None = cache.get(corpus, chunks_key)
    if chunks is None:
        chunks = VisibleChunks(query.bm25_index("chunk").items_of(query.visible))
    graph = VisibleGraph(query, chunks, ("visible graph", corpus.id, documents))
    graph.read_what_pays()
    chunks.queries += 1
    # Counts that were added since the last query count now.
    if corpus.revision is not None and chunks.nbytes <= cache.room(corpus, chunks_key):
        cache.put(corpus, chunks_key, chunks, chunks.nbytes)
    return graph


class VisibleGraph(TopologyGraph):
    """A graph of some documents: texts put together from these documents as they are asked for.

    A walk over mentions reads what it touches, as of a whole corpus. What needs degrees and weights reads the topology.
    """

    def __init__(self, query: Query, chunks: VisibleChunks, key: tuple[str, int, str]):
        TableGraph.__init__(self, query)
        self._chunks = chunks
        self._key = key
        self._is_read = False
        self._requested_ids: set[int] = set()
        self._document_rows: dict[int, Row] = {}

    @cached_property
    def texts(self) -> VisibleTexts:
        """The topology and the texts that were asked for: from the session's cache, or read."""
        texts: VisibleTexts = cache.get(self.query.corpus, self._key) or VisibleTexts(read_visible(self.query))
        self._is_read, self.is_curated = True, texts.topology.is_curated
        self._cache(texts)
        return texts

    @property
    def topology(self) -> Topology:
        """The topology, read when it is needed."""
        return self.texts.topology

    def read_what_pays(self) -> None:
        """Read the topology where it is small, or is asked often and fits into the session's memory."""
        count, corpus = len(self._chunks.ids), self.query.corpus
        if count > FEW_CHUNKS and cache.get(corpus, self._key) is None:
            size = max(count * _CHUNK_BYTES, cache.latest(corpus, (*self._key, "size")) or 0)
            pays = self._chunks.queries * LINKS_PER_QUERY >= _CHUNK_LINKS * count
            if not pays or size > cache.room(corpus, self._key):
                return
        _ = self.texts

    def cache(self) -> None:
        """Cache what has been read, as far as there is room: the topology first."""
        self._cache(self.texts)

    def _cache(self, texts: VisibleTexts) -> None:
        corpus, revision = self.query.corpus, texts.topology.revision
        room = cache.room(corpus, self._key)
        if texts.nbytes > room:
            texts.forget()
        if revision is not None and revision == corpus.revision:
            if texts.nbytes <= room:
                cache.put(corpus, self._key, texts, texts.nbytes)
            else:
                cache.put(corpus, (*self._key, "size"), texts.nbytes, 0)

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        if self._is_read:
            return super().edges_of_chunks(ids, hub)
        return self._chunks.edges_of_chunks(self.query.db, np.asarray(ids, np.int64), hub)

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        if self._is_read:
            return super().edges_of_entities(ids, hub)
        return self._chunks.edges_of_entities(self.query.db, np.asarray(ids, np.int64), hub)

    def namesakes(self, keys: list[str], limit: int) -> list[Row]:
        if self._is_read:
            return super().namesakes(keys, limit)
        rows: list[Row] = []
        most = 4 * limit
        while keys:
            of_all: dict[str, list[Row]] = {key: [] for key in keys}
            for row in TableGraph.namesakes(self, keys, most):
                of_all[row["asked"]].append(row)
            visible_rows = {
                row["id"]: row for row in self._chunks.visible_rows(self.query.db, [*chain(*of_all.values())])
            }
            incomplete = []
            for key, namesakes in of_all.items():
                longer = sorted(
                    (row for row in namesakes if row["key"].startswith(f"{key} ")), key=lambda row: row["key"].encode()
                )
                visible_longer = [row for row in longer if row["id"] in visible_rows]
                if len(longer) >= most and len(visible_longer) < limit:
                    incomplete.append(key)
                    continue
                others = [row for row in namesakes if row not in longer and row["id"] in visible_rows]
                rows += [
                    row | {"mention_count": visible_rows[row["id"]]["mention_count"]}
                    for row in (*others, *visible_longer[:limit])
                ]
            keys, most = incomplete, 8 * most
        return rows

    def called(self, titles: Iterable[str]) -> dict[str, list[int]]:
        return super().called(titles) if self._is_read else self._visible_called(TableGraph.called(self, titles))

    def _visible_called(self, called: dict[str, list[int]]) -> dict[str, list[int]]:
        ids = np.array(sorted(set(chain(*called.values()))), np.int64)
        visible_ids = set(ids[self._chunks.has(self.query.db, ids)].tolist())
        return {title: [entity for entity in entities if entity in visible_ids] for title, entities in called.items()}

    def keys(self, ids: Iterable[int]) -> dict[int, str]:
        if self._is_read:
            return super().keys(ids)
        asked = np.fromiter(ids, np.int64)
        return TableGraph.keys(self, asked[self._chunks.has(self.query.db, asked)].tolist())

    def mention_counts(self, entities: list[int]) -> dict[int, int]:
        if self._is_read:
            return super().mention_counts(entities)
        ids = np.array(entities, np.int64)
        ids = ids[self._chunks.has(self.query.db, ids)]
        return dict(zip(ids.tolist(), self._chunks.counts(self.query.db, ids).tolist(), strict=True))

    def mentioned(self, kind: str, ids: Ids) -> tuple[Ids, Ids, Ids]:
        if self._is_read:
            return super().mentioned(kind, ids)
        mentions, items, chunks = TableGraph.mentioned(self, kind, ids)
        is_visible = within(chunks, self._chunks.ids)
        return mentions[is_visible], items[is_visible], chunks[is_visible]

    def titles(self, chunks: Ids) -> dict[str, list[int]]:
        if self._is_read:
            return super().titles(chunks)
        return TableGraph.titles(self, chunks[within(chunks, self._chunks.ids)])

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
        return len(self._chunks.ids)

    def chunks(self, ids: list[int]) -> list[Row]:
        asked = np.array(ids, np.int64)
        return super().chunks(asked[within(asked, self._chunks.ids)].tolist())

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
