"""The graph of a small corpus in the session's memory: what the modes otherwise read by a dozen statements a query."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import held
from pg_graphrag.retrieval.graph_tables import TableGraph
from pg_graphrag.retrieval.query import Query, int64s
from pg_graphrag.server import Row

# Larger graphs are read where they are: entities, relationships and chunks of each so many, and mentions of both kinds.
MAX_ITEMS = 20_000
MAX_MENTIONS = 100_000
# What a query costs more without it, in rows read into it: where a corpus changes often, reading it again must pay.
ROWS_PER_QUERY = 2000
# About what a row costs as Python objects, beside its texts.
_ROW_BYTES = 1000


def graph_of(query: Query) -> TableGraph:
    """Return the graph as the query sees it, from memory where that holds it, the same for the whole query."""
    if "graph" not in query.memo:
        contents = _contents(query)
        query.memo["graph"] = TableGraph(query) if contents is None else HeldGraph(query, contents)
    graph: TableGraph = query.memo["graph"]
    return graph


class Lists:
    """Lists of numbers by place: list p is ``values[starts[p]:starts[p + 1]]`` (and the same of every other column)."""

    def __init__(self, owners: Any, count: int, *columns: Any):
        """Group rows by their owner's place, (n,), keeping their order."""
        order = np.argsort(owners, kind="stable")
        self.starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=count), out=self.starts[1:])
        self.columns = tuple(column[order] for column in columns)

    def at(self, places: Any) -> tuple[Any, ...]:
        """Return the lists at `places`, one after the other: the place of each row's owner, and its columns."""
        starts = self.starts[places]
        counts = self.starts[places + 1] - starts
        ends = np.cumsum(counts)
        rows = np.repeat(starts - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)
        return np.repeat(places, counts), *(column[rows] for column in self.columns)


class Items:
    """Rows with an ``id``, by place: `ids` (n,) int64."""

    def __init__(self, rows: list[Row]):
        self.rows = rows
        self.ids = np.array([row["id"] for row in rows], np.int64)
        self.place = {row["id"]: place for place, row in enumerate(rows)}

    def places(self, ids: Iterable[int]) -> Any:
        """Return the places, (n,) int64, of those of `ids` that are there: a volatile function may know of newer ones."""
        return np.array([self.place[item] for item in ids if item in self.place], np.int64)

    def of(self, ids: Iterable[int]) -> list[Row]:
        """Return the rows, not to be changed, of those of `ids` that are there."""
        return [self.rows[self.place[item]] for item in ids if item in self.place]


@dataclass(frozen=True)
class Contents:
    """A graph at one revision: entities by key; relationships by degrees, weight and keys; chunks by id.

    `mention_counts` (entities,) and `stating_counts` (relationships,): in how many chunks each is. By entity, `chunks_of`: chunk
    ids, tf at most 3; `incident`: places of relationships. By chunk, `entities_of`: places of entities, tf at most 3. By
    relationship, `stated_in`: chunk ids. `owners` (chunks,): their documents. `aliases`: entity keys by theirs.
    """

    revision: str | None
    entities: Items
    relationships: Items
    chunks: Items
    by_key: dict[str, Row]
    owners: Any
    aliases: dict[str, str]
    is_curated: bool
    mention_counts: Any
    stating_counts: Any
    chunks_of: Lists
    entities_of: Lists
    stated_in: Lists
    incident: Lists

    @property
    def rows(self) -> int:
        """How many rows it was read from, of those that become objects."""
        return len(self.entities.rows) + len(self.relationships.rows) + len(self.chunks.rows)


class HeldGraph(TableGraph):
    """A graph that is held. What documents are called is read: they come, go and are renamed without a merge."""

    def __init__(self, query: Query, contents: Contents):
        super().__init__(query)
        self.contents = contents
        self.is_curated = contents.is_curated
        self._asked: set[int] = set()
        self._named: dict[int, Row] = {}

    def named(self, keys: list[str]) -> list[Row]:
        aliases, by_key = self.contents.aliases, self.contents.by_key
        names = {name: None for key in keys for name in (key, aliases.get(key))}
        return [by_key[name] for name in names if name is not None and name in by_key]

    def namesakes(self, keys: list[str], limit: int) -> list[Row]:
        rows, found = self.contents.entities.rows, []
        for asked in keys:
            first, end = (bisect_right(rows, asked + edge, key=itemgetter("key")) for edge in (" ", "!"))
            found += [row | {"asked": asked} for row in self.named([asked]) + rows[first : min(end, first + limit)]]
        return found

    def keyed(self, keys: Iterable[str]) -> dict[str, int]:
        by_key = self.contents.by_key
        return {key: by_key[key]["id"] for key in keys if key in by_key}

    def keys(self, ids: Iterable[int]) -> dict[int, str]:
        place, rows = self.contents.entities.place, self.contents.entities.rows
        return {item: rows[place[item]]["key"] for item in ids if item in place}

    def incident(self, entities: list[int], limit: int) -> list[Row]:
        _, places = self.contents.incident.at(self.contents.entities.places(entities))
        return [self.contents.relationships.rows[place] for place in np.unique(places)[:limit].tolist()]

    def ends(self, ids: list[int]) -> list[Row]:
        return self.contents.relationships.of(ids)

    def entities(self, ids: list[int]) -> list[Row]:
        return self.contents.entities.of(ids)

    def relationships(self, ids: list[int]) -> list[Row]:
        return self.contents.relationships.of(ids)

    def mentions(self, entities: list[int], relationships: list[int], most: int) -> dict[str, tuple[Any, Any]]:
        held = self.contents
        places = {"entity": held.entities.places(entities), "relationship": held.relationships.places(relationships)}
        if (held.mention_counts[places["entity"]] > most).any() or (
            held.stating_counts[places["relationship"]] > most
        ).any():
            return super().mentions(entities, relationships, most)
        owners, chunks, _ = held.chunks_of.at(places["entity"])
        stating, stated_in = held.stated_in.at(places["relationship"])
        return {
            "entity": (chunks, held.entities.ids[owners]),
            "relationship": (stated_in, held.relationships.ids[stating]),
        }

    def edges_of_chunks(self, ids: Any, hub: float) -> tuple[Any, Any, Any, Any]:
        chunks, entities, tf = self.contents.entities_of.at(self.contents.chunks.places(np.asarray(ids).tolist()))
        return self._without_hubs(entities, self.contents.chunks.ids[chunks], tf, hub)

    def edges_of_entities(self, ids: Any, hub: float) -> tuple[Any, Any, Any, Any]:
        entities, chunks, tf = self.contents.chunks_of.at(self.contents.entities.places(np.asarray(ids).tolist()))
        return self._without_hubs(entities, chunks, tf, hub)

    def titles(self, chunks: Any) -> dict[str, list[int]]:
        owners = self.contents.owners[self.contents.chunks.places(chunks.tolist())].tolist()
        documents = self._documents(owners)
        found: dict[str, list[int]] = {}
        for chunk, owner in zip(chunks.tolist(), owners, strict=True):
            if owner in documents and documents[owner]["title"]:
                found.setdefault(documents[owner]["title"], []).append(chunk)
        return found

    def chunks(self, ids: list[int]) -> list[Row]:
        if not all(chunk in self.contents.chunks.place for chunk in ids):
            return super().chunks(ids)
        found = self.contents.chunks.of(ids)
        documents = self._documents(row["document_id"] for row in found)
        return [row | documents[row["document_id"]] for row in found if row["document_id"] in documents]

    def _documents(self, ids: Iterable[int]) -> dict[int, Row]:
        """Return {id: what it is called} of documents that exist, read once for the query."""
        missing = {document for document in ids if document not in self._asked}
        if missing:
            self._asked |= missing
            rows = self.query.db.query(_DOCUMENTS, ["int8[]"], [list(missing)])
            self._named |= {row.pop("id"): row for row in rows}
        return self._named

    def _without_hubs(self, entities: Any, chunks: Any, tf: Any, hub: float) -> tuple[Any, Any, Any, Any]:
        df = self.contents.mention_counts[entities]
        small = df <= hub
        return self.contents.entities.ids[entities[small]], chunks[small], tf[small], df[small]


# Corpora whose graph was too large, alone or beside what else was held of them, when this session first looked; by the table
# they are in and for what memory: most only grow.
_large: set[tuple[str, int, int]] = set()


def _contents(query: Query) -> Contents | None:
    """Return the graph as this snapshot sees it; None where it is large, not known yet, or not all to be seen."""
    corpus = query.corpus
    repeats = held.repeats(corpus)
    if corpus.revision is None or query.visible is not None:
        return None
    kept: Contents | None = held.recall(("graph", corpus.id))
    if kept is not None and kept.revision == corpus.revision:
        return kept
    if not repeats or (kept is not None and repeats * ROWS_PER_QUERY < kept.rows):
        return None
    mark = corpus.revision.split("/")[0], corpus.id, corpus.memory
    if mark in _large:
        return None
    size = _size(query)
    if size > held.room(corpus, ("graph", corpus.id)):
        _large.add(mark)
        return None
    made = _read(query)
    if made is not None:
        held.keep(corpus, ("graph", corpus.id), made, size)
    return made


_DOCUMENTS = "SELECT d.id, d.source_key, d.title FROM graphrag.documents d WHERE d.id = ANY ($1)"
_SIZES = f"""
SELECT pg_catalog.count(*) AS n, coalesce(pg_catalog.sum(x.size), 0)::int8 AS size,
       coalesce(pg_catalog.sum(x.mentions), 0)::int8 AS mentions
  FROM (SELECT 2 * pg_catalog.pg_column_size(e.description) AS size, e.mention_count AS mentions
          FROM graphrag.entities e WHERE e.corpus_id = $1 LIMIT {MAX_ITEMS + 1}) x
UNION ALL
SELECT pg_catalog.count(*), coalesce(pg_catalog.sum(x.size), 0)::int8, coalesce(pg_catalog.sum(x.mentions), 0)::int8
  FROM (SELECT 2 * pg_catalog.pg_column_size(r.description) + pg_catalog.pg_column_size(r.keywords) AS size,
               r.mention_count AS mentions
          FROM graphrag.relationships r WHERE r.corpus_id = $1 LIMIT {MAX_ITEMS + 1}) x
UNION ALL
SELECT pg_catalog.count(*), coalesce(pg_catalog.sum(x.size), 0)::int8, 0
  FROM (SELECT 2 * pg_catalog.pg_column_size(c.content) AS size
          FROM graphrag.chunks c WHERE c.corpus_id = $1 LIMIT {MAX_ITEMS + 1}) x
"""


def _size(query: Query) -> int:
    """Return about how many bytes the graph takes; more than there may be where it has too many rows."""
    rows = query.db.query(_SIZES, ["int4"], [query.corpus.id])
    mentions = sum(row["mentions"] for row in rows)
    if any(row["n"] > MAX_ITEMS for row in rows) or mentions > MAX_MENTIONS:
        return query.corpus.memory
    return int(sum(row["size"] + _ROW_BYTES * row["n"] for row in rows) + 40 * mentions)


_ENTITIES = """
SELECT e.id, e.key, e.name, e.type, e.description, e.degree, e.mention_count
  FROM graphrag.entities e
 WHERE e.corpus_id = $1
 ORDER BY e.key
"""
_RELATIONSHIPS = """
SELECT r.id, r.low_id, r.high_id, r.source_id, r.target_id, s.name AS source, t.name AS target, r.keywords, r.description,
       r.weight::float8 AS weight, s.key AS source_key, t.key AS target_key, r.mention_count
  FROM graphrag.relationships r
  JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id
 WHERE r.corpus_id = $1
 ORDER BY s.degree + t.degree DESC, r.weight DESC, least(s.key, t.key), greatest(s.key, t.key)
"""
_CHUNKS = """
SELECT c.id, c.id AS chunk_id, c.document_id, c.ordinal, c.content, c.token_count
  FROM graphrag.chunks c
 WHERE c.corpus_id = $1
 ORDER BY c.id
"""
_MENTIONED = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(e.id), ''::bytea) AS entities,
       pg_catalog.string_agg(pg_catalog.int8send(m.chunk_id), ''::bytea) AS chunks,
       pg_catalog.string_agg(pg_catalog.int8send(least(m.tf, 3)), ''::bytea) AS frequencies
  FROM graphrag.entities e
  JOIN graphrag.entity_mentions m ON m.entity_id = e.id
 WHERE e.corpus_id = $1
"""
_STATED = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(r.id), ''::bytea) AS relationships,
       pg_catalog.string_agg(pg_catalog.int8send(m.chunk_id), ''::bytea) AS chunks
  FROM graphrag.relationships r
  JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id
 WHERE r.corpus_id = $1
"""
_CURATED = """
SELECT coalesce(pg_catalog.array_agg(a.key), '{}') AS keys, coalesce(pg_catalog.array_agg(a.entity_key), '{}') AS entity_keys,
       EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = $1) AS is_curated
  FROM graphrag.aliases a
 WHERE a.corpus_id = $1
"""


def _read(query: Query) -> Contents | None:
    """Read a graph; None where a statement saw another revision than the corpus has, or the graph is empty."""
    statements = (_ENTITIES, _RELATIONSHIPS, _CHUNKS, _MENTIONED, _STATED, _CURATED)
    parts = [held.read(query.db, query.corpus, sql) for sql in statements]
    if None in parts:
        return None
    entities, relationships, chunks = (Items(part or []) for part in parts[:3])
    mentioned, stated, curated = (part[0] for part in parts[3:] if part)
    for row in (*entities.rows, *relationships.rows):
        row["description"] = " ".join(row["description"].split())
    owners = entities.places(int64s(mentioned["entities"]).tolist())
    mentioning, tf = int64s(mentioned["chunks"]), int64s(mentioned["frequencies"])
    ends = [entities.places(row[end] for row in relationships.rows) for end in ("low_id", "high_id")]
    every = np.arange(len(relationships.rows))
    return Contents(
        revision=query.corpus.revision,
        entities=entities,
        relationships=relationships,
        chunks=chunks,
        by_key={row["key"]: row for row in entities.rows},
        owners=np.array([row["document_id"] for row in chunks.rows], np.int64),
        aliases=dict(zip(curated["keys"], curated["entity_keys"], strict=True)),
        is_curated=curated["is_curated"],
        mention_counts=np.array([row["mention_count"] for row in entities.rows], np.int64),
        stating_counts=np.array([row["mention_count"] for row in relationships.rows], np.int64),
        chunks_of=Lists(owners, len(entities.rows), mentioning, tf),
        entities_of=Lists(chunks.places(mentioning.tolist()), len(chunks.rows), owners, tf),
        stated_in=Lists(
            relationships.places(int64s(stated["relationships"]).tolist()),
            len(relationships.rows),
            int64s(stated["chunks"]),
        ),
        incident=Lists(np.concatenate(ends), len(entities.rows), np.append(every, every)),
    )
