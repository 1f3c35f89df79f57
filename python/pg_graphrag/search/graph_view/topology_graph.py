"""The graph of a query with its topology in the session's memory; texts and titles are read from the tables."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from pg_graphrag.ground.numeric import (
    Ids,
    Lists,
    Places,
    Scores,
    distinct,
    int64s,
    np,
    numbered,
    packed,
    places_of,
    within,
)
from pg_graphrag.search.graph_view.graph_tables import MAX_TF, Among, Edges, TableGraph, pairs_of
from pg_graphrag.search.graph_view.topology import Topology
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.session_values import cache_of_rows, cached_of_rows
from pg_graphrag.server import Row
from pg_graphrag.text.words.names import title_keys

# Titles for which the named entities are cached.
MAX_TITLES = 5000
# Rows of attached tables whose documents' names a session caches, and about how many bytes one takes.
MAX_CACHED_ROWS = 2000
_ROW_BYTES = 500
_NO_IDS = np.empty(0, np.int64)

_DOCUMENTS = f"""
SELECT {packed(ids="d.id")}, pg_catalog.array_agg(d.source_key) AS source_keys, pg_catalog.array_agg(d.title) AS titles,
       pg_catalog.array_agg(d.attached_id = ANY (ARRAY(
           SELECT t.id FROM graphrag._attached_tables t WHERE t.corpus_id = $2 AND t.kind = 'entities'))) AS are_rows
  FROM graphrag.documents d
 WHERE d.id = ANY ($1) AND d.indexed_hash IS NOT NULL
"""
_EXISTING = f"""
SELECT {packed('d.source_key COLLATE "C", c.ordinal', ids="c.id")}
  FROM graphrag.chunks c
  JOIN graphrag.documents d ON d.id = c.document_id
 WHERE c.id = ANY ($1)
"""
_MEMBERS = f"""
SELECT {packed(members="m.entity_id", communities="m.community_id")}
  FROM graphrag.community_members m
 WHERE m.entity_id = ANY ($1)
"""


class TopologyGraph(TableGraph):
    """A graph whose topology is held; texts, and what documents are called, are read."""

    def __init__(self, query: Query, topology: Topology):
        super().__init__(query)
        self._topology = topology
        self.is_curated = topology.is_curated
        self._requested_ids: set[int] = set()
        self._document_rows: dict[int, Row] = {}
        # By document, its subject: its title, and for a row its key; none if these say nothing.
        self._titles: dict[int, tuple[str, ...]] = {}

    @property
    def topology(self) -> Topology:
        """The topology."""
        return self._topology

    def namesakes(self, keys: list[str], limit: int) -> list[Row]:
        topology, rows = self.topology, []
        for key_ in keys:
            first, end = (bisect_right(topology.keys, key_ + edge) for edge in (" ", "!"))
            for place in (*topology.named([key_]), *range(first, min(end, first + limit))):
                fields = {"id": int(topology.entities.ids[place]), "mention_count": int(topology.mention_counts[place])}
                rows.append({"asked": key_, "key": topology.keys[place], **fields})
        return rows

    def called(self, titles: Sequence[str]) -> tuple[Ids, Ids]:
        topology, known = self.topology, self.topology.called
        for title in set(titles).difference(known):
            places = (topology.keys.place(key) for key in title_keys(title))
            known[title] = [int(topology.entities.ids[place]) for place in places if place is not None]
        called = pairs_of(map(known.__getitem__, titles))
        if len(known) > MAX_TITLES:
            known.clear()
        return called

    def keys(self, ids: Iterable[int]) -> dict[int, str]:
        places = self.topology.entities.places(np.fromiter(ids, np.int64))
        return dict(zip(self.topology.entities.ids[places].tolist(), self.topology.keys.at(places), strict=True))

    def incident(self, entities: list[int], limit: int) -> list[Row]:
        topology = self.topology
        _, places = topology.incident.at(topology.entities.places(entities))
        places = self._distinct(places)[:limit]
        ends = (topology.entities.ids[end[places]] for end in (topology.low, topology.high))
        return _rows(("id", "low_id", "high_id"), (topology.relationships.ids[places], *ends))

    def ends(self, ids: list[int]) -> list[Row]:
        topology = self.topology
        places = topology.relationships.places(ids)
        sources = topology.sources[places]
        targets = topology.low[places] + topology.high[places] - sources
        rows = _rows(
            ("id", "weight", "source_id", "target_id", "source_key", "target_key"),
            (
                topology.relationships.ids[places],
                topology.weights[places],
                topology.entities.ids[sources],
                topology.entities.ids[targets],
                sources,
                targets,
            ),
        )
        for row in rows:
            row["source_key"], row["target_key"] = topology.keys[row["source_key"]], topology.keys[row["target_key"]]
        return rows

    def weights(self, relationships: Ids) -> Scores:
        places = self.topology.relationships.places(relationships)
        # A volatile function may know of newer ones.
        return self.topology.weights[places] if len(places) == len(relationships) else super().weights(relationships)

    def mentions(self, entities: list[int], relationships: list[int], most: int) -> dict[str, tuple[Ids, Ids]]:
        graph, found, heavy = self.topology, {}, {}
        for kind, ids, counts, lists in (
            ("entity", graph.entities, graph.mention_counts, graph.chunks_of),
            ("relationship", graph.relationships, graph.stating_counts, graph.stated_in),
        ):
            places = ids.places(entities if kind == "entity" else relationships)
            is_heavy = counts[places] > most
            owners, chunks, *_ = lists.at(places[~is_heavy])
            found[kind] = chunks, ids.ids[owners]
            heavy[kind] = ids.ids[places[is_heavy]].tolist()
        if not any(heavy.values()):
            return found
        for kind, (chunks, items) in self._heaviest(heavy["entity"], heavy["relationship"], most).items():
            found[kind] = np.append(found[kind][0], chunks), np.append(found[kind][1], items)
        return found

    def _heaviest(self, entities: list[int], relationships: list[int], most: int) -> dict[str, tuple[Ids, Ids]]:
        """Return what `mentions` does of items that have more mentions than are followed."""
        heaviest = super().mentions([], relationships, most) if relationships else {"relationship": 2 * (_NO_IDS,)}
        graph = self.topology
        owners, chunks, tf = graph.chunks_of.at(graph.entities.places(entities))
        order = np.lexsort((-tf, owners))
        owners, chunks, tf = owners[order], chunks[order], tf[order]
        starts = np.searchsorted(owners, owners)
        # With these `most` chunks, and all that mention the entity as often as the last of them, it is decided.
        last = np.minimum(starts + most, np.searchsorted(owners, owners, side="right")) - 1
        may_be = tf >= tf[last]
        first = self._first(owners[may_be], chunks[may_be], tf[may_be], most)
        if len(first[0]) < most * len(entities):
            # Documents that were deleted have left places to others.
            first = self._first(owners, chunks, tf, most)
        return heaviest | {"entity": (first[1], graph.entities.ids[first[0]])}

    def _first(self, owners: Places, chunks: Ids, tf: Places, most: int) -> tuple[Places, Ids]:
        """Return (owners, chunks) of mentions, those of the `most` chunks of each owner that mention it most."""
        # Chunks of documents that exist, in the order of ties.
        ordered = int64s(self.query.db.value(_EXISTING, ["int8[]"], [numbered(chunks)[0].tolist()]))
        exists = within(chunks, distinct(ordered))
        owners, chunks, tf = owners[exists], chunks[exists], tf[exists]
        order = np.lexsort((places_of(chunks, ordered), -tf, owners))
        owners, chunks = owners[order], chunks[order]
        is_first = np.arange(len(owners)) - np.searchsorted(owners, owners) < most
        return owners[is_first], chunks[is_first]

    def mentioned(self, kind: str, ids: Ids) -> tuple[Ids, Ids, Ids]:
        mentioned = self.topology.mentioned
        return mentioned[kind].within(ids) if kind in mentioned else super().mentioned(kind, ids)

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        chunks, entities, tf = self.topology.entities_of.at(self.topology.chunks.places(ids))
        return self._without_hubs(entities, self.topology.chunks.ids[chunks], tf, hub)

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        entities, chunks, tf = self.topology.chunks_of.at(self.topology.entities.places(ids))
        return self._without_hubs(entities, chunks, tf, hub)

    def strongest(self, entities: Ids, limit: int) -> list[Ids]:
        graph = self.topology
        places = graph.entities.places(entities)
        is_hub = graph.incident.counts(places) > limit
        _, edges = graph.incident.at(places[~is_hub])
        owners, of_hubs = graph.incident.at(places[is_hub])
        # Places of entities are in the order of keys.
        other = graph.low[of_hubs] + graph.high[of_hubs] - owners
        order = np.lexsort((other, -graph.weights[of_hubs], owners))
        owners, of_hubs = owners[order], of_hubs[order]
        first = np.arange(len(owners)) - np.searchsorted(owners, owners) < limit
        edges = self._distinct(np.append(edges, of_hubs[first]))
        ends = graph.low[edges], graph.high[edges], graph.sources[edges]
        return [graph.relationships.ids[edges], *(graph.entities.ids[places] for places in ends)]

    def among(self, entities: Ids | list[int]) -> Among:
        graph = self.topology
        places = graph.entities.places(entities)
        inside = np.zeros(len(graph.keys), np.bool_)
        inside[places] = True
        _, edges = graph.incident.at(places)
        edges = self._distinct(edges[inside[graph.low[edges]] & inside[graph.high[edges]]])
        ends = graph.entities.ids[graph.low[edges]], graph.entities.ids[graph.high[edges]]
        counts = graph.stating_counts[edges].astype(np.float64)
        # By id, as SQL has the lower one first.
        return Among(graph.relationships.ids[edges], np.minimum(*ends), np.maximum(*ends), graph.weights[edges], counts)

    def in_order(self, entities: Ids) -> Ids:
        return self.topology.entities.ids[np.sort(self.topology.entities.places(entities))]

    def stated_by(self, chunks: list[int], scores: Scores) -> tuple[Ids, Scores, Scores]:
        graph = self.topology
        is_here = within(np.asarray(chunks, np.int64), graph.chunks.ids)
        places = graph.chunks.places(chunks)
        _, edges = graph.states.at(places)
        scores = np.repeat(np.asarray(scores)[is_here], graph.states.counts(places))
        edges, first = np.unique(edges, return_index=True)
        return graph.relationships.ids[edges], scores[first], graph.weights[edges]

    def community_mentions(self, chunks: list[int]) -> tuple[Ids, Ids, Ids]:
        graph = self.topology
        owners, entities, tf = graph.entities_of.at(graph.chunks.places(chunks))
        row = self.query.db.query(_MEMBERS, ["int8[]"], [graph.entities.ids[distinct(entities)].tolist()])[0]
        members, communities = int64s(row["members"]), int64s(row["communities"])
        is_here = within(members, np.sort(graph.entities.ids))
        places = graph.entities.places(members)
        communities_of = Lists(places, len(graph.keys), communities[is_here])
        counts = communities_of.counts(entities)
        (_, communities) = communities_of.at(entities)
        return np.repeat(graph.chunks.ids[owners], counts), communities, np.repeat(tf, counts)

    def mention_counts(self, entities: list[int]) -> dict[int, int]:
        places = self.topology.entities.places(entities)
        ids, counts = self.topology.entities.ids[places], self.topology.mention_counts[places]
        return dict(zip(ids.tolist(), counts.tolist(), strict=True))

    def titles(self, chunks: Ids) -> tuple[list[str], Ids]:
        places = self.topology.chunks.places(chunks)
        owners = self.topology.owners[places].tolist()
        self.documents(owners)
        titles = [self._titles.get(owner, ()) for owner in owners]
        counts = np.fromiter(map(len, titles), np.int64, len(titles))
        return list(chain.from_iterable(titles)), np.repeat(self.topology.chunks.ids[places], counts)

    def documents(self, ids: Iterable[int]) -> dict[int, Row]:
        """Return {id: title} of existing documents, read once for the query."""
        new_ids = {document for document in ids if document not in self._requested_ids}
        if not new_ids:
            return self._document_rows
        self._requested_ids |= new_ids
        key = "titles of rows", self.query.corpus.id
        cached: dict[int, Row] = (cached_of_rows(self.query, key) or {}) if self.query.corpus.has_rows else {}
        of_rows = {document: cached[document] for document in new_ids & cached.keys()}
        new_ids -= of_rows.keys()
        if new_ids:
            row = self.query.db.query(_DOCUMENTS, ["int8[]", "int4"], [list(new_ids), self.query.corpus.id])[0]
            columns = (row[name] or () for name in ("source_keys", "titles", "are_rows"))
            new_rows = {}
            for document, source_key, title, is_row in zip(int64s(row["ids"]).tolist(), *columns, strict=True):
                names = {"source_key": source_key, "title": title}
                if is_row:
                    new_rows[document] = names
                else:
                    self._document_rows[document] = names
                    self._titles[document] = (title,) if title else ()
            if new_rows:
                of_rows |= new_rows
                cached = cached | new_rows if len(cached) + len(new_rows) <= MAX_CACHED_ROWS else new_rows
                cache_of_rows(self.query, key, cached, _ROW_BYTES * len(cached))
        for document, names in of_rows.items():
            self._document_rows[document] = names
            self._titles[document] = (names["title"], names["source_key"]) if names["title"] else (names["source_key"],)
        return self._document_rows

    def _distinct(self, places: Places) -> Places:
        """Return distinct places of relationships, ascending."""
        flags = np.zeros(len(self.topology.low), np.bool_)
        flags[places] = True
        return np.flatnonzero(flags)

    def _without_hubs(self, entities: Places, chunks: Ids, tf: Ids, hub: float) -> Edges:
        df = self.topology.mention_counts[entities]
        below_hub = df <= hub
        tf = np.minimum(tf[below_hub], MAX_TF)
        return self.topology.entities.ids[entities[below_hub]], chunks[below_hub], tf, df[below_hub]


def _rows(names: tuple[str, ...], columns: Iterable[Any]) -> list[Row]:
    return [dict(zip(names, row, strict=True)) for row in zip(*(column.tolist() for column in columns), strict=True)]
