"""The graph that some documents state, read from the tables step by step as a query walks.

`visible_graph.VisibleGraph` answers the same, but reads what all these documents state at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pg_graphrag.ground.numeric import (
    Flags,
    Ids,
    Lists,
    Scores,
    distinct,
    float64s,
    int64s,
    np,
    packed,
    places_of,
    within,
)
from pg_graphrag.search.graph_view.graph_tables import Among, Edges, TableGraph, in_one_line
from pg_graphrag.search.graph_view.topology import PACKED_RELATIONSHIPS
from pg_graphrag.search.graph_view.visible_chunks import Mentions, VisibleChunks
from pg_graphrag.search.graph_view.visible_texts import Stated, Text, read_texts
from pg_graphrag.search.graph_view.visible_topology import are_as_merged, read_entities
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Database, Row, cached_property

# If the part has so many times fewer chunks than the corpus, all its entities are read for a comparison of names.
_SMALL_PART = 20
# Relationships of entities are read in parts, possibly highest degrees first: so many times the requested number.
_PART = 4
_NO_IDS = np.empty(0, np.int64)

_IS_CURATED = "SELECT EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = $1) AS is_curated"
# bounds: how many relationships the ends have by all documents, which some do not exceed.
_INCIDENT = f"""
SELECT {packed(ids="f.id", low="f.low_id", high="f.high_id", bounds="f.degrees")}
  FROM (SELECT DISTINCT r.id, r.low_id, r.high_id, e.degree + o.degree AS degrees
          FROM pg_catalog.unnest($1) AS u (id)
          JOIN graphrag.entities e ON e.id = u.id
         CROSS JOIN LATERAL (
               SELECT x.id, x.low_id, x.high_id, x.high_id AS other FROM graphrag.relationships x WHERE x.low_id = e.id
                UNION ALL
               SELECT x.id, x.low_id, x.high_id, x.low_id FROM graphrag.relationships x WHERE x.high_id = e.id) r
          JOIN graphrag.entities o ON o.id = r.other) f
"""
_AMONG = f"""
SELECT {packed(ids="r.id")}
  FROM graphrag.relationships r
 WHERE r.low_id = ANY ($1) AND r.high_id = ANY ($1)
"""
_STATED_BY = f"""
SELECT {packed(ids="m.relationship_id", chunks="m.chunk_id")}
  FROM graphrag.relationship_mentions m
 WHERE m.chunk_id = ANY ($1) AND m.relationship_id IS NOT NULL
"""
_RELATIONSHIPS = f"""
SELECT {PACKED_RELATIONSHIPS}, {packed(summaries="(r.summary_of IS NOT NULL)::int")}
  FROM graphrag.relationships r
 WHERE r.id = ANY ($1)
"""
# $1: relationships, $2: their mentions.
_COUNTED = f"""
SELECT {
    packed(
        ids="m.relationship_id",
        forward="m.forward::int",
        weights="m.weight::float8",
        by_people="(m.fragments > 0 OR m.is_edited)::int",
    )
}
  FROM graphrag._counted_relationships($1, $2, NULL) m
"""
# $1: mentions; of each item the first ones.
_HEAVIEST = f"""
SELECT {packed(chunks="b.chunk_id", items="b.item")}
  FROM (SELECT m.chunk_id, m.{{kind}}_id AS item,
               pg_catalog.row_number() OVER (PARTITION BY m.{{kind}}_id
                                             ORDER BY m.{{order}} DESC, d.source_key COLLATE "C", c.ordinal) AS place
          FROM graphrag.{{kind}}_mentions m
          JOIN graphrag.chunks c ON c.id = m.chunk_id
          JOIN graphrag.documents d ON d.id = c.document_id
         WHERE m.id = ANY ($1)) b
 WHERE b.place <= $2
"""
_ORDERS = {"entity": "tf", "relationship": "weight"}


def heaviest(db: Database, kind: str, mentions: Ids, most: int) -> tuple[Ids, Ids]:
    """Return (chunks, items) of the `most` weightiest mentions of each item; ties as in chunks."""
    sql = _HEAVIEST.format(kind=kind, order=_ORDERS[kind])
    row = db.query(sql, ["int8[]", "int4"], [mentions.tolist(), most])[0]
    return int64s(row["chunks"]), int64s(row["items"])


@dataclass(frozen=True)
class _Relationships:
    """Relationships as the documents state them, `ids` ascending, (n,) each; `as_merged`: whether their merged texts are, too."""

    ids: Ids
    low: Ids
    high: Ids
    sources: Ids
    weights: Scores
    counts: Ids
    as_merged: Flags

    @property
    def targets(self) -> Ids:
        """The ends that are not the sources."""
        return self.low + self.high - self.sources

    def of(self, ids: Ids) -> "_Relationships":
        """Return those of `ids` that are there, in their order."""
        ids = ids[within(ids, self.ids)]
        places = np.searchsorted(self.ids, ids)
        return _Relationships(*(column[places] for column in self.columns))

    @property
    def columns(self) -> tuple[Any, ...]:
        """All fields."""
        return self.ids, self.low, self.high, self.sources, self.weights, self.counts, self.as_merged


class VisibleTables(TableGraph):
    """A graph of some documents, read as far as a query touches it."""

    def __init__(self, query: Query, chunks: VisibleChunks):
        super().__init__(query)
        self._chunks = chunks
        self._texts: dict[str, dict[int, Text]] = {"entity": {}, "relationship": {}}
        self._keys: dict[int, str] = {}
        self._relationships = _Relationships(*4 * (_NO_IDS,), np.empty(0), _NO_IDS, np.empty(0, np.bool_))

    @cached_property
    def is_curated(self) -> bool:
        """Whether people said anything of the corpus."""
        return bool(self._db.value(_IS_CURATED, ["int4"], [self.query.corpus.id]))

    @property
    def _db(self) -> Database:
        return self.query.db

    def has(self, entities: Ids) -> Flags:
        return self._chunks.has(self._db, entities)

    def entity_ids(self) -> Ids | None:
        count, _ = self.query.bm25_index("chunk").statistics()
        return self._chunks.entity_ids(self._db) if _SMALL_PART * len(self._chunks.ids) < count else None

    def named(self, keys: list[str]) -> list[Row]:
        rows = self._chunks.visible_rows(self._db, super().named(keys))
        texts = self._texts_of("entity", np.array([row["id"] for row in rows], np.int64))
        return [row | {"name": texts[row["id"]].name} for row in rows]

    def namesakes(self, keys: list[str], limit: int) -> list[Row]:
        rows: list[Row] = []
        most = 4 * limit
        while keys:
            of_all: dict[str, list[Row]] = {key: [] for key in keys}
            for row in super().namesakes(keys, most):
                of_all[row["asked"]].append(row)
            visible_rows = {row["id"]: row for row in self._chunks.visible_rows(self._db, [*chain(*of_all.values())])}
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

    def called(self, titles: Sequence[str]) -> tuple[Ids, Ids]:
        places, entities = super().called(titles)
        ids = distinct(entities)
        is_visible = within(entities, ids[self.has(ids)])
        return places[is_visible], entities[is_visible]

    def keys(self, ids: Iterable[int]) -> dict[int, str]:
        asked = np.fromiter(ids, np.int64)
        return super().keys(asked[self.has(asked)].tolist())

    def mention_counts(self, entities: list[int]) -> dict[int, int]:
        ids = np.array(entities, np.int64)
        ids = ids[self.has(ids)]
        return dict(zip(ids.tolist(), self._chunks.counts(self._db, ids).tolist(), strict=True))

    def chunk_count(self) -> int:
        return len(self._chunks.ids)

    def chunks(self, ids: list[int]) -> list[Row]:
        return super().chunks(self._visible(np.array(ids, np.int64)).tolist())

    def titles(self, chunks: Ids) -> tuple[list[str], Ids]:
        return super().titles(self._visible(chunks))

    def community_mentions(self, chunks: list[int]) -> tuple[Ids, Ids, Ids]:
        return super().community_mentions(self._visible(np.array(chunks, np.int64)).tolist())

    def _visible(self, chunks: Ids) -> Ids:
        return chunks[within(chunks, self._chunks.ids)]

    def mentioned(self, kind: str, ids: Ids) -> tuple[Ids, Ids, Ids]:
        mentions, items, chunks = super().mentioned(kind, ids)
        is_visible = within(chunks, self._chunks.ids)
        return mentions[is_visible], items[is_visible], chunks[is_visible]

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        return self._chunks.edges_of_chunks(self._db, np.asarray(ids, np.int64), hub)

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        return self._chunks.edges_of_entities(self._db, np.asarray(ids, np.int64), hub)

    def mentions(self, entities: list[int], relationships: list[int], most: int) -> dict[str, tuple[Ids, Ids]]:
        pairs = {}
        for kind, ids in (("entity", entities), ("relationship", relationships)):
            item_ids = distinct(np.array(ids, np.int64))
            mentions = self._chunks.mentions(self._db, kind, item_ids.tolist())
            heavy = item_ids[mentions.counts(item_ids) > most]
            is_light = ~within(mentions.items, heavy)
            pairs[kind] = mentions.chunks[is_light], mentions.items[is_light]
            if len(heavy):
                all_ids = self._chunks.numbered_mentions(self._db, kind, heavy.tolist()).besides
                chunks, items = heaviest(self._db, kind, all_ids, most)
                pairs[kind] = np.append(pairs[kind][0], chunks), np.append(pairs[kind][1], items)
        return pairs

    def incident(self, entities: list[int], limit: int) -> list[Row]:
        row = self._db.query(_INCIDENT, ["int8[]"], [entities])[0]
        ids, low, high, bounds = (int64s(row[name]) for name in ("ids", "low", "high", "bounds"))
        order = np.argsort(-bounds, kind="stable")
        parts: list[Ids] = [np.empty(0, np.intp)]
        sums: list[Ids] = [_NO_IDS]
        start, size = 0, _PART * limit
        while start < len(order):
            part = order[start : start + size]
            mentions = self._chunks.mentions(self._db, "relationship", ids[part].tolist())
            part = part[within(ids[part], distinct(mentions.items))]
            ends = np.append(low[part], high[part])
            parts.append(part)
            sums.append(self._chunks.degrees(self._db, ends).reshape(2, -1).sum(axis=0))
            start, size = start + size, _PART * size
            degrees = np.concatenate(sums)
            if start < len(order) and limit <= len(degrees) and _last(degrees, limit) > bounds[order[start]]:
                break
        places, degrees = np.concatenate(parts), np.concatenate(sums)
        if limit < len(degrees):
            is_among = degrees >= _last(degrees, limit)
            places, degrees = places[is_among], degrees[is_among]
        degree = dict(zip(ids[places].tolist(), degrees.tolist(), strict=True))
        rows = self.ends(list(degree))
        rows.sort(key=lambda row: (-degree[row["id"]], -row["weight"], *_pair(row)))
        return [
            {"id": row["id"], "low_id": min(ends), "high_id": max(ends)}
            for row in rows[:limit]
            for ends in [(row["source_id"], row["target_id"])]
        ]

    def strongest(self, entities: Ids, limit: int) -> list[Ids]:
        owners, links = self._chunks.links(self._db, distinct(entities).tolist())
        ends, counts = np.unique(owners, return_counts=True)
        is_hub = within(owners, ends[counts > limit])
        of_hubs = self._read_relationships(distinct(links[is_hub])).of(links[is_hub])
        light = links[~is_hub]
        order = np.lexsort((-of_hubs.weights, owners[is_hub]))
        owners, ids, weights = owners[is_hub][order], of_hubs.ids[order], of_hubs.weights[order]
        others = of_hubs.low[order] + of_hubs.high[order] - owners
        # The order of names decides among those that weigh as much as the last.
        first = np.searchsorted(owners, owners)
        last_weights = weights[np.minimum(first + limit - 1, len(weights) - 1)]
        is_tied = weights == last_weights
        names = self.in_order(distinct(others[is_tied]))
        places = np.full(len(ids), -1)
        places[is_tied] = places_of(others[is_tied], names)
        order = np.lexsort((places, -weights, owners))
        is_first = np.arange(len(order)) - first < limit
        chosen = self._read_relationships(distinct(np.append(light, ids[order][is_first])))
        return [chosen.ids, chosen.low, chosen.high, chosen.sources]

    def among(self, entities: Ids | list[int]) -> Among:
        row = self._db.query(_AMONG, ["int8[]"], [np.asarray(entities, np.int64).tolist()])[0]
        edges = self._read_relationships(int64s(row["ids"]))
        return Among(edges.ids, edges.low, edges.high, edges.weights, edges.counts.astype(np.float64))

    def stated_by(self, chunks: list[int], scores: Scores) -> tuple[Ids, Scores, Scores]:
        row = self._db.query(_STATED_BY, ["int8[]"], [self._visible(np.array(chunks, np.int64)).tolist()])[0]
        ids, owners = int64s(row["ids"]), int64s(row["chunks"])
        place = {chunk: number for number, chunk in reversed([*enumerate(chunks)])}
        best = np.array([place[chunk] for chunk in owners.tolist()], np.int64)
        order = np.lexsort((best, ids))
        is_first = np.diff(ids[order], prepend=-1) != 0
        first = order[is_first]
        return ids[first], np.asarray(scores)[best[first]], self._known_relationships(ids[first]).weights

    def ends(self, ids: list[int]) -> list[Row]:
        edges = self._known_relationships(np.array(ids, np.int64))
        keys = self._keys_of(np.append(edges.low, edges.high))
        columns = edges.ids, edges.weights, edges.sources, edges.targets
        return [
            {
                "id": item,
                "weight": weight,
                "source_id": source,
                "target_id": target,
                "source_key": keys[source],
                "target_key": keys[target],
            }
            for item, weight, source, target in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def weights(self, relationships: Ids) -> Scores:
        edges = self._known_relationships(relationships)
        return edges.weights[places_of(relationships, edges.ids)]

    def nodes(self, entities: Ids) -> list[Row]:
        texts = self._texts_of("entity", entities)
        rows = [{"id": item, "name": texts[item].name, "type": texts[item].type} for item in entities.tolist()]
        return sorted(rows, key=lambda row: self._keys[row["id"]].encode())

    def entities(self, ids: list[int]) -> list[Row]:
        asked = np.array(ids, np.int64)
        asked = asked[self.has(asked)]
        texts = self._texts_of("entity", asked)
        counts, degrees = self._chunks.counts(self._db, asked), self._chunks.degrees(self._db, asked)
        columns = asked.tolist(), degrees.tolist(), counts.tolist()
        return in_one_line(
            [texts[item].entity(item, self._keys[item], *numbers) for item, *numbers in zip(*columns, strict=True)]
        )

    def relationships(self, ids: list[int]) -> list[Row]:
        rows = self.ends(ids)
        edges = self._known_relationships(np.array(ids, np.int64))
        texts = self._texts_of("relationship", edges.ids)
        names = self._texts_of("entity", distinct(np.append(edges.low, edges.high)))
        for row, count in zip(rows, edges.counts.tolist(), strict=True):
            text = texts[row["id"]]
            row |= {"source": names[row["source_id"]].name, "target": names[row["target_id"]].name}
            row |= {"keywords": list(text.keywords), "description": text.description, "mention_count": count}
        return in_one_line(rows)

    def descriptions(self, relationships: Ids) -> dict[int, str]:
        texts = self._texts_of("relationship", relationships)
        return {item: texts[item].description for item in relationships.tolist() if item in texts}

    def _keys_of(self, entities: Ids) -> dict[int, str]:
        new = [entity for entity in distinct(entities).tolist() if entity not in self._keys]
        if new:
            self._keys |= super().keys(new)
        return self._keys

    def _texts_of(self, kind: str, ids: Ids) -> dict[int, Text]:
        """Return what the documents say of entities or relationships, by id: of `ids`, and of others."""
        texts = self._texts[kind]
        new = np.array([item for item in distinct(ids).tolist() if item not in texts], np.int64)
        if len(new):
            stated = self._stated_entities(new) if kind == "entity" else self._stated_relationships(new)
            texts |= read_texts(self._db, kind, stated, self._incident if self.is_curated else None)
        return texts

    def _incident(self, entities: Ids) -> Ids:
        return distinct(self._chunks.links(self._db, entities.tolist())[1])

    def _stated_entities(self, asked: Ids) -> Stated:
        row = read_entities(self._db, asked, is_curated=self.is_curated)
        ids = int64s(row["ids"])
        self._keys |= zip(ids.tolist(), row["keys"] or (), strict=True)
        mentions = self._chunks.mentions(self._db, "entity", ids.tolist())
        return self._stated("entity", ids, are_as_merged(row, mentions.counts(ids), mentions.best_ranks(ids)))

    def _stated_relationships(self, asked: Ids) -> Stated:
        edges = self._known_relationships(asked)
        return self._stated("relationship", edges.ids, edges.as_merged)

    def _stated(self, kind: str, ids: Ids, as_merged: Flags) -> Stated:
        mentions = Mentions(*4 * (_NO_IDS,))
        if not as_merged.all():
            mentions = self._chunks.numbered_mentions(self._db, kind, ids[~as_merged].tolist())
        best_first = np.lexsort((mentions.besides, mentions.ranks))
        places = places_of(mentions.items[best_first], ids)
        return Stated(ids, as_merged, Lists(places, len(ids), mentions.besides[best_first]))

    def _known_relationships(self, ids: Ids) -> _Relationships:
        """Return relationships in the order of `ids`, read once for the query."""
        relationships = self._relationships
        if len(new := distinct(ids[~within(ids, relationships.ids)])):
            read = self._read_relationships(new)
            columns = [np.concatenate(pair) for pair in zip(relationships.columns, read.columns, strict=True)]
            order = np.argsort(columns[0])
            self._relationships = relationships = _Relationships(*(column[order] for column in columns))
        return relationships.of(ids)

    def _read_relationships(self, ids: Ids) -> _Relationships:
        """Return those of distinct relationships that the documents state."""
        mentions = self._chunks.mentions(self._db, "relationship", ids.tolist())
        row = self._db.query(_RELATIONSHIPS, ["int8[]"], [distinct(mentions.items).tolist()])[0]
        ids, low, high, sources, merged_counts, summaries = (
            int64s(row[name]) for name in ("ids", "low", "high", "sources", "counts", "summaries")
        )
        order = np.argsort(ids)
        ids, low, high, sources, merged_counts, summaries = (
            column[order] for column in (ids, low, high, sources, merged_counts, summaries)
        )
        weights, counts = float64s(row["weights"])[order], mentions.counts(ids)
        is_by_people = np.zeros(len(ids), np.bool_)
        # What people said belongs to no document.
        is_other = np.ones(len(ids), np.bool_) if self.is_curated else counts != merged_counts
        if is_other.any():
            stating = self._chunks.numbered_mentions(self._db, "relationship", ids[is_other].tolist()).besides
            row = self._db.query(_COUNTED, ["int8[]", "int8[]"], [ids[is_other].tolist(), stating.tolist()])[0]
            places = np.searchsorted(ids, int64s(row["ids"]))
            weights[places] = float64s(row["weights"])
            sources[places] = np.where(int64s(row["forward"]) == 1, low[places], high[places])
            is_by_people[places] = int64s(row["by_people"]) == 1
        as_merged = (counts == merged_counts) & (summaries == 0) & ~is_by_people
        return _Relationships(ids, low, high, sources, weights, counts, as_merged)


def _last(degrees: Ids, limit: int) -> int:
    """Return the `limit`-th greatest degree."""
    return int(np.partition(degrees, -limit)[-limit])


def _pair(row: Row) -> list[bytes]:
    return sorted((row["source_key"].encode(), row["target_key"].encode()))
