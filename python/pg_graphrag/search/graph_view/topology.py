"""A graph without its texts, as arrays in the session's memory, for corpora whose texts would take too much."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from pg_graphrag.ground.numeric import (
    Arrays,
    Flags,
    IdIndex,
    Ids,
    Lists,
    NDArray,
    Places,
    Scores,
    Texts,
    float64s,
    int64s,
    np,
    packed,
    part,
    prefixed,
)
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Row
from pg_graphrag.server.caches.session_cache import read_at_revision


@dataclass(frozen=True)
class Mentioned:
    """Mentions of one kind: `ids` ascending, their `items` and their `chunks`, all (n,) int64."""

    ids: Ids
    items: Ids
    chunks: Ids

    def within(self, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Return (ids, items, chunks) of those of `ids`, ascending, that exist."""
        positions = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        positions = positions[self.ids[positions] == ids] if len(self.ids) else np.empty(0, np.int64)
        return self.ids[positions], self.items[positions], self.chunks[positions]

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> "Mentioned":
        """Make them of their `arrays`."""
        return cls(arrays["ids"], arrays["items"], arrays["chunks"])

    def arrays(self) -> Arrays:
        """Return its arrays by name."""
        return {"ids": self.ids, "items": self.items, "chunks": self.chunks}

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return 3 * int(self.ids.nbytes)


@dataclass(frozen=True)
class Aliases:
    """Where `keys`, ascending, lead: to the `entity_keys` beside them."""

    keys: Texts
    entity_keys: Texts

    @classmethod
    def of(cls, leads: dict[str, str]) -> "Aliases":
        """Make them of {key: entity's key}."""
        keys = sorted(leads)
        return cls(Texts(keys), Texts(map(leads.__getitem__, keys)))

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> "Aliases":
        """Make them of their `arrays`."""
        return cls(Texts.of_arrays(part(arrays, "keys")), Texts.of_arrays(part(arrays, "entity_keys")))

    def arrays(self) -> Arrays:
        """Return its arrays by name."""
        return {**prefixed("keys", self.keys.arrays()), **prefixed("entity_keys", self.entity_keys.arrays())}

    def entity_key(self, key: str) -> str | None:
        """Return the key of the entity that a key leads to, or None."""
        place = self.keys.place(key)
        return None if place is None else self.entity_keys[place]


@dataclass(frozen=True)
class Topology:
    """A graph at one revision: entities by key; relationships by degrees, weight and keys; chunks by id.

    `keys` (entities,). `low`, `high`, `sources` (relationships,): places of entities; `weights`. `mention_counts`
    (entities,) and `stating_counts` (relationships,): in how many chunks each is. By entity, `chunks_of`: chunk ids, tf;
    `incident`: places of relationships. By chunk, `entities_of`: places of entities, tf; `states`: places of relationships.
    By relationship, `stated_in`: chunk ids. `mentioned`: the mentions by kind, entity and relationship, if a model
    described them. `owners` (chunks,): their documents.

    For a part of the documents also, by kind: `evidence`: the ids of each item's mentions, best sentence first.
    `as_merged`, bool: whether the item's merged texts are exactly what these documents state; for a relationship also its
    weight, direction and count.
    """

    revision: str | None
    entities: IdIndex
    keys: Texts
    aliases: Aliases
    is_curated: bool
    relationships: IdIndex
    low: Places
    high: Places
    sources: Places
    weights: Scores
    chunks: IdIndex
    owners: Ids
    mention_counts: Ids
    stating_counts: Ids
    chunks_of: Lists
    entities_of: Lists
    stated_in: Lists
    states: Lists
    incident: Lists
    mentioned: dict[str, Mentioned]
    evidence: dict[str, Lists] = field(default_factory=dict)
    as_merged: dict[str, Flags] = field(default_factory=dict)
    # {title: ids of the entities that it names}, of titles that were asked for.
    called: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of_arrays(cls, revision: str | None, arrays: Arrays) -> "Topology":
        """Make the topology of a whole corpus from its `arrays`."""
        values: dict[str, Any] = {name: arrays[name] for name in arrays if "." not in name}
        values |= {name: kind.of_arrays(part(arrays, name)) for name, kind in _PARTS.items()}
        kinds = ("entity", "relationship") if "entity.ids" in arrays else ()
        mentioned = {kind: Mentioned.of_arrays(part(arrays, kind)) for kind in kinds}
        return cls(**values | {"revision": revision, "is_curated": bool(values["is_curated"]), "mentioned": mentioned})

    def arrays(self) -> Arrays:
        """Return the arrays of a whole corpus' topology, by name."""
        arrays: dict[str, NDArray[Any]] = {"is_curated": np.array(self.is_curated)}
        for name, value in ((field_.name, getattr(self, field_.name)) for field_ in fields(self)):
            if isinstance(value, np.ndarray):
                arrays[name] = value
            elif name in _PARTS:
                arrays |= prefixed(name, value.arrays())
        for kind, mentioned in self.mentioned.items():
            arrays |= prefixed(kind, mentioned.arrays())
        return arrays

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        arrays = (*self.arrays().values(), *self.as_merged.values())
        return sum(int(array.nbytes) for array in arrays) + sum(lists.nbytes for lists in self.evidence.values())

    def named(self, keys: Iterable[str]) -> list[int]:
        """Return the places of entities with one of `keys`, or an alias among them."""
        names = {name: None for key in keys for name in (key, self.aliases.entity_key(key))}
        places = (self.keys.place(name) for name in names if name is not None)
        return [place for place in places if place is not None]


# What a topology has beside plain arrays.
_PARTS: dict[str, Any] = {
    "keys": Texts,
    "aliases": Aliases,
    "entities": IdIndex,
    "relationships": IdIndex,
    "chunks": IdIndex,
    **dict.fromkeys(("chunks_of", "entities_of", "stated_in", "states", "incident"), Lists),
}


_ENTITIES = f"""
SELECT pg_catalog.array_agg(e.key) AS keys,
       {packed(ids="e.id", degrees="e.degree", counts="e.mention_count")}
  FROM (SELECT x.id, x.key, x.degree, x.mention_count FROM graphrag.entities x WHERE x.corpus_id = $1 ORDER BY x.key) e
"""
# Columns of relationships `r`.
PACKED_RELATIONSHIPS = packed(
    ids="r.id",
    low="r.low_id",
    high="r.high_id",
    sources="r.source_id",
    weights="r.weight::float8",
    counts="r.mention_count",
)
_RELATIONSHIPS = f"""
SELECT {PACKED_RELATIONSHIPS}
  FROM graphrag.relationships r
 WHERE r.corpus_id = $1
"""
_CHUNKS = f"""
SELECT {packed(ids="c.id", owners="c.document_id")}
  FROM graphrag.chunks c
 WHERE c.corpus_id = $1
"""
_MENTIONED = f"""
SELECT {packed(ids="m.id", items="m.entity_id", chunks="m.chunk_id", frequencies="m.tf")}
  FROM graphrag.entities e
  JOIN graphrag.entity_mentions m ON m.entity_id = e.id
 WHERE e.corpus_id = $1
"""
_STATED = f"""
SELECT {packed(ids="m.id", items="m.relationship_id", chunks="m.chunk_id")}
  FROM graphrag.relationships r
  JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id
 WHERE r.corpus_id = $1
"""
CURATED = """
SELECT coalesce(pg_catalog.array_agg(a.key), '{}') AS keys, coalesce(pg_catalog.array_agg(a.entity_key), '{}') AS entity_keys,
       EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = $1) AS is_curated
  FROM graphrag.aliases a
 WHERE a.corpus_id = $1
"""


def read(query: Query) -> Topology | None:
    """Read the topology of a corpus; None where a statement saw another revision than the corpus has."""
    statements = (_ENTITIES, _RELATIONSHIPS, _CHUNKS, _MENTIONED, _STATED, CURATED)
    parts = [read_at_revision(query.db, query.corpus, sql) for sql in statements]
    if any(part is None for part in parts):
        return None
    return built(query, *(part[0] for part in parts if part))


def built(
    query: Query, entity: Row, relationship: Row, chunk: Row, mentioned: Row, stated: Row, curated: Row
) -> Topology:
    """Return the topology of packed rows."""
    keys = Texts(entity["keys"] or ())
    entities, degrees = IdIndex(int64s(entity["ids"])), int64s(entity["degrees"])
    ids, counts, weights = (
        int64s(relationship["ids"]),
        int64s(relationship["counts"]),
        float64s(relationship["weights"]),
    )
    low, high, sources = (
        entities.places(int64s(relationship[end])).astype(np.int32) for end in ("low", "high", "sources")
    )
    order = np.lexsort((np.maximum(low, high), np.minimum(low, high), -weights, -(degrees[low] + degrees[high])))
    low, high, sources = low[order], high[order], sources[order]
    relationships = IdIndex(ids[order])
    owned = np.argsort(int64s(chunk["ids"]))
    chunks = IdIndex(int64s(chunk["ids"])[owned])
    in_chunks, frequencies = int64s(mentioned["chunks"]), int64s(mentioned["frequencies"]).astype(np.int32)
    owners = entities.places(int64s(mentioned["items"]))
    stating, stated_in = relationships.places(int64s(stated["items"])), int64s(stated["chunks"])
    edge_places = np.arange(len(ids), dtype=np.int32)
    return Topology(
        revision=query.corpus.revision,
        entities=entities,
        keys=keys,
        aliases=Aliases.of(dict(zip(curated["keys"], curated["entity_keys"], strict=True))),
        is_curated=curated["is_curated"],
        relationships=relationships,
        low=low,
        high=high,
        sources=sources,
        weights=weights[order],
        chunks=chunks,
        owners=int64s(chunk["owners"])[owned],
        mention_counts=int64s(entity["counts"]),
        stating_counts=counts[order],
        chunks_of=Lists(owners, len(keys), in_chunks, frequencies),
        entities_of=Lists(chunks.places(in_chunks), len(chunks.ids), owners, frequencies),
        stated_in=Lists(stating, len(ids), stated_in),
        states=Lists(chunks.places(stated_in), len(chunks.ids), stating),
        incident=Lists(np.append(low, high), len(keys), np.append(edge_places, edge_places)),
        mentioned={"entity": _mentioned_from(mentioned), "relationship": _mentioned_from(stated)}
        if query.is_described
        else {},
    )


def _mentioned_from(row: Row) -> Mentioned:
    columns = [int64s(row[name]) for name in ("ids", "items", "chunks")]
    order = np.argsort(columns[0])
    return Mentioned(*(column[order] for column in columns))
