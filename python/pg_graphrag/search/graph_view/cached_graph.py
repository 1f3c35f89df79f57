"""The graph of a corpus in the session's memory, which the modes would otherwise read by a dozen statements a query.

A small corpus is cached whole; of a larger one only the topology is.
"""

from dataclasses import dataclass

from pg_graphrag.ground.numeric import Arrays, Ids
from pg_graphrag.search.graph_view import topology
from pg_graphrag.search.graph_view.graph_tables import TableGraph
from pg_graphrag.search.graph_view.topology import Topology
from pg_graphrag.search.graph_view.topology_graph import TopologyGraph
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.search.query.session_values import cache_shared, cached_value
from pg_graphrag.server import Row
from pg_graphrag.server.caches.session_cache import cache, read_at_revision

# Texts of graphs with more entities, relationships or chunks, or mentions of either kind, are not cached.
MAX_ITEMS = 20_000
MAX_MENTIONS = 100_000
# Nor is the topology of those with more entities, relationships, chunks and mentions together.
MAX_LINKS = 1_000_000
# What a query costs more without it, in rows read into it, with texts or without: where a corpus changes often, reading it
# again must pay, and of a large one reading it at all.
ROWS_PER_QUERY = 2000
LINKS_PER_QUERY = 20_000
# About what a row costs as Python objects, beside its texts, and a mention.
_ROW_BYTES = 1000
_MENTION_BYTES = 70
# About what an entity, a relationship, a chunk and a mention cost in a topology; a mention that a model described costs as much
# as beside texts.
_TOPOLOGY_BYTES = (80, 70, 50)
_LINK_BYTES = 18


@once
@timed("graph")
def graph_of(query: Query) -> TableGraph:
    """Return the graph as the query sees it, from the cache where it is there, the same for the whole query."""
    if query.visible is not None:
        # Most searches see a whole corpus, and a session's first one waits for its imports.
        from pg_graphrag.search.graph_view.visible_graph import visible_graph

        return visible_graph(query)
    contents = _contents(query)
    if contents is None:
        return TableGraph(query)
    if contents.texts is None:
        return TopologyGraph(query, contents.topology)
    return CachedGraph(query, contents.topology, contents.texts)


@dataclass(frozen=True)
class Texts:
    """The texts of a graph: read-only rows, by their place in the topology."""

    entities: list[Row]
    relationships: list[Row]
    chunks: list[Row]

    @property
    def rows(self) -> int:
        """How many rows became objects."""
        return len(self.entities) + len(self.relationships) + len(self.chunks)


@dataclass(frozen=True)
class Contents:
    """A graph at one revision; `texts` where it is small."""

    topology: Topology
    texts: Texts | None

    @classmethod
    def of_arrays(cls, revision: str, arrays: Arrays) -> "Contents":
        """Make those of a large one of the arrays of its topology."""
        return cls(Topology.of_arrays(revision, arrays), None)

    def arrays(self) -> Arrays:
        """Return the arrays of its topology."""
        return self.topology.arrays()

    @property
    def nbytes(self) -> int:
        """How much memory a topology takes."""
        return self.topology.nbytes

    @property
    def revision(self) -> str | None:
        """Its revision."""
        return self.topology.revision


class CachedGraph(TopologyGraph):
    """A graph that is cached with its texts."""

    def __init__(self, query: Query, cached_topology: Topology, texts: Texts):
        super().__init__(query, cached_topology)
        self.texts = texts

    def named(self, keys: list[str]) -> list[Row]:
        return [self.texts.entities[place] for place in self.topology.named(keys)]

    def ends(self, ids: list[int]) -> list[Row]:
        return self.relationships(ids)

    def entities(self, ids: list[int]) -> list[Row]:
        return [self.texts.entities[place] for place in self.topology.entities.places(ids).tolist()]

    def relationships(self, ids: list[int]) -> list[Row]:
        return [self.texts.relationships[place] for place in self.topology.relationships.places(ids).tolist()]

    def descriptions(self, relationships: Ids) -> dict[int, str]:
        return {row["id"]: row["description"] for row in self.relationships(relationships.tolist())}

    def chunks(self, ids: list[int]) -> list[Row]:
        places = self.topology.chunks.places(ids).tolist()
        if len(places) < len(ids):
            return super().chunks(ids)
        rows = [self.texts.chunks[place] for place in places]
        documents = self.documents(row["document_id"] for row in rows)
        return [row | documents[row["document_id"]] for row in rows if row["document_id"] in documents]


def _contents(query: Query) -> Contents | None:
    """Return the graph as this snapshot sees it; None where it is large, or not known yet."""
    corpus = query.corpus
    query_count = cache.earlier_queries(corpus)
    if corpus.revision is None:
        return None
    key = "graph", corpus.id
    contents: Contents | None = cache.get(corpus, key)
    if contents is None or contents.texts is None:
        contents = cached_value(query, key, "topology", Contents.of_arrays)
    if contents is not None:
        return contents
    # How many entities, relationships and chunks a graph had, each, that was too large to be cached whole when the session
    # first looked (most only grow); none where the topology was too large too.
    large_key = "size of a large graph", corpus.id, corpus.memory
    # How many bytes one takes for which there was no room beside other corpora.
    refused_key = "size of a refused graph", corpus.id
    if (cache.get(corpus, refused_key) or 0) > cache.spare(corpus, key):
        return None
    room = cache.room(corpus, key)
    items: list[int] | None = cache.latest(corpus, large_key)
    if items is None:
        outdated: Contents | None = cache.latest(corpus, key)
        texts = None if outdated is None else outdated.texts
        if not query_count or (texts is not None and query_count * ROWS_PER_QUERY < texts.rows):
            return None
        counts = item_counts(query)
        # A session's second query waits for no large one.
        if query_count == 1 and max(counts) >= ROWS_PER_QUERY:
            return None
        if max(counts) <= MAX_ITEMS and _ROW_BYTES * sum(counts) <= room:
            size, mentions = _text_sizes(query, _TEXT_SIZES)
            size += _ROW_BYTES * sum(counts) + _MENTION_BYTES * mentions
            if size <= room and mentions <= MAX_MENTIONS:
                if size > cache.spare(corpus, key):
                    cache.put(corpus, refused_key, size, 0)
                    return None
                return _read_and_cache(query, size, with_texts=True)
        # Nearly each entity and relationship is mentioned: where they are too many, mentions need not be counted.
        items = counts if sum(counts) + counts[0] + counts[1] <= MAX_LINKS else []
        cache.put(corpus, large_key, items, 0)
    # None is without a mention.
    if not items or query_count * LINKS_PER_QUERY < 2 * sum(items):
        return None
    _, mentions = _text_sizes(query, _MENTION_COUNTS)
    size = (_MENTION_BYTES if query.is_described else _LINK_BYTES) * mentions
    size += sum(number * each for number, each in zip(items, _TOPOLOGY_BYTES, strict=True))
    if sum(items) + mentions > MAX_LINKS or size > room:
        cache.put(corpus, large_key, [], 0)
        return None
    if size > cache.spare(corpus, key):
        cache.put(corpus, refused_key, size, 0)
        return None
    return _read_and_cache(query, size, with_texts=False)


def _read_and_cache(query: Query, size: int, *, with_texts: bool) -> Contents | None:
    """Read a graph and cache it; None where a statement saw another revision than the corpus has."""
    key = "graph", query.corpus.id
    topology_read = topology.read(query)
    if topology_read is None:
        return None
    if not with_texts:
        return cache_shared(query, key, "topology", Contents(topology_read, None), Contents.of_arrays)
    texts = _read_texts(query, topology_read)
    if texts is None:
        return None
    contents = Contents(topology_read, texts)
    cache.put(query.corpus, key, contents, size)
    return contents


def item_counts(query: Query) -> list[int]:
    """Return how many entities, relationships and chunks the whole corpus has."""
    row = query.db.query(_COUNTS, ["int4"], [query.corpus.id])[0]
    return [row["entities"], row["relationships"], row["chunks"]]


_COUNTS = """
SELECT coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'entities'), 0)::int8      AS entities,
       coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'relationships'), 0)::int8 AS relationships,
       coalesce(pg_catalog.sum(x.count) FILTER (WHERE x.relation = 'chunks'), 0)::int8        AS chunks
  FROM graphrag._index_counts x
 WHERE x.corpus_id = $1
"""
_TEXT_SIZES = """
SELECT 2 * pg_catalog.pg_column_size(e.description) AS size, e.mention_count AS mentions
  FROM graphrag.entities e
 WHERE e.corpus_id = $1
UNION ALL
SELECT 2 * pg_catalog.pg_column_size(r.description) + pg_catalog.pg_column_size(r.keywords), r.mention_count
  FROM graphrag.relationships r
 WHERE r.corpus_id = $1
UNION ALL
SELECT 2 * pg_catalog.pg_column_size(c.content), 0
  FROM graphrag.chunks c
 WHERE c.corpus_id = $1
"""
_MENTION_COUNTS = """
SELECT 0 AS size, e.mention_count AS mentions FROM graphrag.entities e WHERE e.corpus_id = $1
UNION ALL
SELECT 0, r.mention_count FROM graphrag.relationships r WHERE r.corpus_id = $1
"""


def _text_sizes(query: Query, rows: str) -> tuple[int, int]:
    """Return about how many bytes texts have, and how many mentions there are."""
    sums = (
        "coalesce(pg_catalog.sum(f.size), 0)::int8 AS size, coalesce(pg_catalog.sum(f.mentions), 0)::int8 AS mentions"
    )
    row = query.db.query(f"SELECT {sums} FROM ({rows}) f", ["int4"], [query.corpus.id])[0]
    return row["size"], row["mentions"]


_ENTITIES = """
SELECT e.id, e.key, e.name, e.type, e.description, e.degree, e.mention_count
  FROM graphrag.entities e
 WHERE e.corpus_id = $1
"""
_RELATIONSHIPS = """
SELECT r.id, r.low_id, r.high_id, r.source_id, r.target_id, s.name AS source, t.name AS target, r.keywords, r.description,
       r.weight::float8 AS weight, s.key AS source_key, t.key AS target_key, r.mention_count
  FROM graphrag.relationships r
  JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id
 WHERE r.corpus_id = $1
"""
_CHUNKS = """
SELECT c.id, c.id AS chunk_id, c.document_id, c.ordinal, c.content, c.token_count, c.section, c.page, c.picture_id
  FROM graphrag.chunks c
 WHERE c.corpus_id = $1
"""


def _read_texts(query: Query, graph: Topology) -> Texts | None:
    """Read what a graph says; None where a statement saw another revision than the corpus has."""
    parts = []
    for sql, ids in ((_ENTITIES, graph.entities), (_RELATIONSHIPS, graph.relationships), (_CHUNKS, graph.chunks)):
        rows = read_at_revision(query.db, query.corpus, sql)
        if rows is None:
            return None
        by_id = {row["id"]: row for row in rows}
        parts.append([by_id[item] for item in ids.ids.tolist()])
    for row in (*parts[0], *parts[1]):
        row["description"] = " ".join(row["description"].split())
    return Texts(*parts)
