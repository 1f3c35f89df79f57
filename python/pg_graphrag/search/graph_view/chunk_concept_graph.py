"""The graph of chunks and NLP concepts, which no view shows (docs/decisions/text.md), and which windows state which
relationships.

If a model made the graph of a corpus, this graph has all concepts, and a second walk over it finds what the model left
out, as the first walk finds what NLP does not see. In other corpora it has the concepts that are too weak for entities,
and one walk goes over both graphs. `local` and `global` count the concepts beside the graph's evidence
(graph_evidence.py). Concepts have only numbers, which hold for one graph. For a part of the documents, it is the graph
of their chunks.

Which relationships a window states is read from memory in sessions that ask often, else from the tables.
"""

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from pg_graphrag.ground.numeric import (
    Arrays,
    Flags,
    IdIndex,
    Ids,
    Lists,
    Scores,
    are_new,
    distinct,
    float64s,
    int64s,
    np,
    numbered,
    packed,
    part,
    prefixed,
    values_of,
    within,
)
from pg_graphrag.search.graph_view.cached_graph import ROWS_PER_QUERY, graph_of
from pg_graphrag.search.graph_view.graph_tables import Edges, TableGraph, pairs_of
from pg_graphrag.search.graph_view.seeds import weight
from pg_graphrag.search.graph_view.topology_graph import TopologyGraph
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.search.query.session_values import cache_shared, cached_value
from pg_graphrag.server import Row
from pg_graphrag.server.caches.session_cache import cache, read_at_revision
from pg_graphrag.text.concept import digest
from pg_graphrag.text.words.names import title_keys

# It is not read for more chunks: a session that caches nothing would read some 10 MB for a question.
MAX_CHUNKS = 50_000
# Entities whose nodes are cached with the graph, 16 bytes each.
MAX_NODES = 50_000
_SIZE = 8
_NONE = bytes(_SIZE)
_NO_IDS = np.empty(0, np.int64)
# No node of an entity.
_UNKNOWN = np.iinfo(np.int64).min


class ConceptGraph:
    """Edges of concepts, 0 … n - 1, and chunks.

    `digests` (n,) ascending; `df` (n,): how many chunks have a concept; `analyzed` ascending: ids of the chunks whose concepts
    were looked for. By concept, `chunks_of`: places of chunks, tf; by place of a chunk, `concepts_of`: concepts, tf.
    """

    def __init__(self, row: Row, revision: str | None = None):
        """Make the graph of a row of `_CONCEPTS`, of a corpus' revision."""
        self.revision = revision
        chunks, sizes = int64s(row["ids"]), int64s(row["sizes"])
        self.digests, mentioned = np.unique(int64s(row["concepts"]), return_inverse=True)
        order = np.argsort(chunks, kind="stable")
        self.analyzed = chunks[order]
        place = np.empty(len(chunks), np.int64)
        place[order] = np.arange(len(chunks))
        count = max(len(self.digests), 1)
        edges, tf = np.unique(np.repeat(place, sizes // _SIZE) * count + mentioned, return_counts=True)
        places, concepts = edges // count, edges % count
        self.chunks_of = Lists(concepts, len(self.digests), places.astype(np.int32), tf.astype(np.int8))
        self.concepts_of = Lists(places, len(chunks), concepts.astype(np.int32), tf.astype(np.int8))
        self.df = np.diff(self.chunks_of.starts)
        # Entities that were asked for, ascending, and the node of each in `WeakConcepts`. Their keys hold as long as the graph.
        self.nodes: tuple[Ids, Ids] = _NO_IDS, _NO_IDS

    @classmethod
    def of_arrays(cls, revision: str, arrays: Arrays) -> "ConceptGraph":
        """Make the graph of a revision from its `arrays`."""
        graph = cls.__new__(cls)
        graph.revision, graph.nodes = revision, (_NO_IDS, _NO_IDS)
        graph.digests, graph.df, graph.analyzed = (arrays[name] for name in ("digests", "df", "analyzed"))
        graph.chunks_of, graph.concepts_of = (
            Lists.of_arrays(part(arrays, name)) for name in ("chunks_of", "concepts_of")
        )
        return graph

    def arrays(self) -> Arrays:
        """Return its arrays by name."""
        lists = prefixed("chunks_of", self.chunks_of.arrays()) | prefixed("concepts_of", self.concepts_of.arrays())
        return {"digests": self.digests, "df": self.df, "analyzed": self.analyzed, **lists}

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        arrays = self.digests, self.df, self.analyzed, self.chunks_of, self.concepts_of
        return sum(int(array.nbytes) for array in arrays)

    def named(self, keys: Iterable[str]) -> dict[int, int]:
        """Return {concept: how many chunks have it} of keys."""
        return {concept: int(self.df[concept]) for concept in self.of_keys(list(keys)).values()}

    def of_keys(self, keys: list[str]) -> dict[str, int]:
        """Return {key: its concept} of the keys that exist."""
        digests = int64s(b"".join(map(digest, keys)))
        places = np.searchsorted(self.digests, digests)
        return {
            key: place
            for key, place, is_there in zip(keys, places.tolist(), within(digests, self.digests).tolist(), strict=True)
            if is_there
        }

    def called(self, titles: Sequence[str]) -> tuple[Ids, Ids]:
        """Return (places of titles, the concepts that these name), (n,) each."""
        keys = {title: title_keys(title) for title in titles}
        concepts = self.of_keys(sorted(set().union(*keys.values())))
        return pairs_of([concepts[key] for key in keys[title] if key in concepts] for title in titles)

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return (concepts, chunks, tf, chunks that have the concept) of chunks, without concepts of more than `hub` chunks."""
        ids = distinct(np.asarray(ids, np.int64))
        places = np.searchsorted(self.analyzed, ids[within(ids, self.analyzed)])
        owners, concepts, tf = self.concepts_of.at(places)
        below_hub = self.df[concepts] <= hub
        owners, concepts, tf = owners[below_hub], concepts[below_hub].astype(np.int64), tf[below_hub].astype(np.int64)
        return concepts, self.analyzed[owners], tf, self.df[concepts]

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return the same of concepts."""
        concepts = distinct(np.asarray(ids, np.int64))
        concepts, places, tf = self.chunks_of.at(concepts[self.df[concepts] <= hub])
        return concepts, self.analyzed[places], tf.astype(np.int64), self.df[concepts]


class WeakConcepts:
    """The graph of a query's entities and of the concepts that are too weak for entities.

    A node is an entity's id, or ``~concept``, below 0. An entity that is a weak concept in other chunks is that node: its
    edges are those of both.
    """

    def __init__(self, graph: TableGraph, concepts: ConceptGraph):
        self._graph, self.concepts = graph, concepts
        # By concept the entity of the same name, plus 1, if it was met; 0: none. Zeros take memory only when they are
        # touched.
        self._entities = np.zeros(len(concepts.digests), np.int64)

    def nodes(self, entities: Ids) -> Ids:
        """Return the nodes of entities, (n,)."""
        if not len(entities):
            return entities
        nodes = values_of(entities, *self.concepts.nodes, _UNKNOWN)
        is_new = nodes == _UNKNOWN
        if is_new.any():
            self._number(distinct(entities[is_new]), distinct(entities))
            nodes = values_of(entities, *self.concepts.nodes, _UNKNOWN)
        self.meet(nodes, entities)
        return nodes

    def meet(self, nodes: Ids, entities: Ids) -> None:
        """Remember of nodes, (n,), that they are these entities."""
        is_weak = nodes < 0
        self._entities[~nodes[is_weak]] = entities[is_weak] + 1

    def _number(self, new: Ids, asked: Ids) -> None:
        """Find the nodes of `new` entities among those `asked`, both ascending."""
        known, nodes = self.concepts.nodes
        if len(known) + len(new) > MAX_NODES:
            known, nodes, new = _NO_IDS, _NO_IDS, asked
        keys = self._graph.keys(new.tolist())
        digests = int64s(b"".join(digest(keys[entity]) if entity in keys else _NONE for entity in new.tolist()))
        is_weak = within(digests, self.concepts.digests)
        new_nodes = np.where(is_weak, ~self.concepts.digests.searchsorted(digests), new)
        known, nodes = np.append(known, new), np.append(nodes, new_nodes)
        order = known.argsort()
        # Replaced as a whole: an error leaves the former values.
        self.concepts.nodes = known[order], nodes[order]

    def are_entities(self, concepts: Ids) -> Flags:
        """Return which concepts, (n,), are entities that were met."""
        return self._entities[concepts] > 0

    def entities(self, nodes: Ids) -> Ids:
        """Return the entities of nodes, (n,); −1 for a node that is none."""
        entities = nodes.copy()
        is_weak = nodes < 0
        entities[is_weak] = self._entities[~nodes[is_weak]] - 1
        return entities

    def seeds(self, weights: dict[int, float], keys: Iterable[str], hub: float) -> dict[int, float]:
        """Return {node: weight} of entities and their `weights`, and of the weak concepts of keys, in at most `hub` chunks.

        What is an entity in some chunks and a weak concept in others is in all of these.
        """
        nodes = self.nodes(np.array(list(weights), np.int64)).tolist()
        by_node = dict(zip(nodes, weights.values(), strict=True))
        concepts = self.concepts.of_keys(list(keys))
        named = np.array([row["id"] for row in self._graph.named(list(concepts))], np.int64)
        counts = self._graph.mention_counts(named.tolist())
        count_of = {
            node: counts.get(entity, 0) for node, entity in zip(self.nodes(named).tolist(), named.tolist(), strict=True)
        }
        few = [
            ~concept
            for concept in concepts.values()
            if max(int(self.concepts.df[concept]), count_of.get(~concept, 0)) <= hub
        ]
        nodes_of_edges, *_ = self.edges_of_entities(few, hub)
        for node, df in zip(*np.unique(nodes_of_edges, return_counts=True), strict=True):
            by_node[int(node)] = weight(int(df))
        return by_node

    def called(self, titles: Sequence[str]) -> tuple[Ids, Ids]:
        """Return (places of titles, nodes of the entities that these name), (n,) each: a title is no weak concept."""
        places, entities = self._graph.called(titles)
        return places, self.nodes(entities)

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return (nodes, chunks, tf, chunks that have them) of chunks, without nodes of more than `hub` chunks; by node."""
        return self._joined(self._graph.edges_of_chunks(ids, hub), self.concepts.edges_of_chunks(ids, hub))

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return the same of nodes."""
        nodes = distinct(np.asarray(ids, np.int64))
        entities = self.entities(nodes)
        of_entities = self._graph.edges_of_entities(entities[entities >= 0], hub)
        return self._joined(of_entities, self.concepts.edges_of_entities(~nodes[nodes < 0], hub))

    def _joined(self, of_entities: Edges, of_concepts: Edges) -> Edges:
        entities, *columns = of_entities
        concepts, *concept_columns = of_concepts
        chunks, tf, df = map(np.concatenate, zip(columns, concept_columns, strict=True))
        # If both graphs have an edge, the entity's counts.
        nodes, is_concept = np.concatenate([self.nodes(entities), ~concepts]), np.arange(len(chunks)) >= len(entities)
        return merged(nodes, chunks, tf, df, is_concept)


def merged(nodes: Ids, chunks: Ids, tf: Ids, df: Ids, is_concept: Flags | None = None) -> Edges:
    """Return edges once each, by node and chunk, with the greatest count of each node.

    Ties: that of an entity, then the greatest tf, because aliases mention an entity several times in a chunk, and rows of a
    table come in any order.
    """
    kinds = np.zeros(len(nodes), np.bool_) if is_concept is None else is_concept
    order = np.lexsort((-tf, kinds, chunks, nodes))
    nodes, chunks = nodes[order], chunks[order]
    is_new_node = are_new(nodes)
    first = np.flatnonzero(is_new_node | are_new(chunks))
    most = np.maximum.reduceat(df[order], np.flatnonzero(is_new_node)) if len(nodes) else df
    return nodes[first], chunks[first], tf[order[first]], most[np.cumsum(is_new_node)[first] - 1]


_CONCEPTS = f"""
SELECT {packed(ids="c.id", sizes="pg_catalog.length(c.concepts)")},
       pg_catalog.string_agg(c.concepts, ''::bytea) AS concepts
  FROM graphrag.chunks c
 WHERE c.corpus_id = $1 AND c.concepts IS NOT NULL
"""


@once
@timed("concepts")
def concept_graph(query: Query) -> ConceptGraph | None:
    """Return the graph that the query may see; None if concepts were not looked for, or none is too weak for an entity."""
    if graph_of(query).chunk_count() > MAX_CHUNKS:
        query.notes["concepts"] = f"left out: more than {MAX_CHUNKS} chunks"
        return None
    graph = _read(query)
    return graph if len(graph.analyzed) else None


def _read(query: Query) -> ConceptGraph:
    """Return the graph of the documents that the query may see; kept for equal ones."""
    corpus = query.corpus
    key: tuple[Hashable, ...] = "concepts", corpus.id
    sql, documents = _CONCEPTS, None
    if query.visible is not None:
        key = *key, hashlib.sha256(query.visible.tobytes()).hexdigest()
        sql, documents = f"{_CONCEPTS} AND c.document_id = ANY ($2)", query.visible_ids
        cached: ConceptGraph | None = cache.get(corpus, key)
    else:
        cached = cached_value(query, key, "concepts", ConceptGraph.of_arrays)
    if cached is not None:
        return cached
    # At another revision than the query's, the rows are right for this query alone.
    rows = read_at_revision(query.db, corpus, sql, documents) if corpus.revision is not None else None
    if rows is None:
        types, values = (["int4"], [corpus.id]) if documents is None else (["int4", "int8[]"], [corpus.id, documents])
        return ConceptGraph(query.db.query(sql, types, values)[0])
    graph = ConceptGraph(rows[0], corpus.revision)
    if graph.nbytes > cache.room(corpus, key):
        return graph
    if query.visible is None:
        return cache_shared(query, key, "concepts", graph, ConceptGraph.of_arrays)
    cache.put(corpus, key, graph, graph.nbytes)
    return graph


# About what a statement takes.
_BYTES = 24
_OF_WINDOWS = f"""
SELECT {packed(ids="s.id", scores="s.score::float8")}
  FROM (SELECT m.relationship_id AS id, pg_catalog.max(u.score) AS score
          FROM unnest($1, $2) AS u (window_id, score)
          JOIN graphrag.chunk_windows w ON w.id = u.window_id
          JOIN graphrag.relationship_mentions m ON m.chunk_id = w.chunk_id AND w.ordinal = ANY (m.windows)
         WHERE m.relationship_id IS NOT NULL
         GROUP BY m.relationship_id) s
"""
_ALL = f"""
SELECT {packed(windows="w.id", relationships="m.relationship_id")}
  FROM graphrag.relationships r
  JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id
 CROSS JOIN LATERAL pg_catalog.unnest(m.windows) AS u (ordinal)
  JOIN graphrag.chunk_windows w ON w.chunk_id = m.chunk_id AND w.ordinal = u.ordinal
 WHERE r.corpus_id = $1
"""


def stated_by_windows(query: Query, windows: list[int], scores: Scores) -> tuple[Ids, Scores]:
    """Return (ids, scores), (n,) each, of the relationships that windows state; each scores as the best of these."""
    statements = cached_statements(query)
    if statements is not None:
        return statements.best(windows, scores)
    row = query.db.query(_OF_WINDOWS, ["int8[]", "float8[]"], [windows, scores.tolist()])[0]
    return int64s(row["ids"]), float64s(row["scores"])


@dataclass(frozen=True)
class WindowStatements:
    """The windows of a corpus that state relationships, ascending, and by window the ids of these."""

    revision: str | None
    windows: IdIndex
    relationships: Lists

    @classmethod
    def of(cls, revision: str | None, windows: Ids, relationships: Ids) -> "WindowStatements":
        """Make them of pairs, (n,) each."""
        index = IdIndex(distinct(windows))
        return cls(revision, index, Lists(index.places(windows), len(index.ids), relationships))

    @classmethod
    def of_arrays(cls, revision: str, arrays: Arrays) -> "WindowStatements":
        """Make those of a revision of their `arrays`."""
        windows, relationships = (part(arrays, name) for name in ("windows", "relationships"))
        return cls(revision, IdIndex.of_arrays(windows), Lists.of_arrays(relationships))

    def arrays(self) -> Arrays:
        """Return its arrays by name."""
        return prefixed("windows", self.windows.arrays()) | prefixed("relationships", self.relationships.arrays())

    def best(self, windows: list[int], scores: Scores) -> tuple[Ids, Scores]:
        """Return what `stated_by_windows` does."""
        ids = np.asarray(windows, np.int64)
        places = self.windows.places(ids)
        _, stated = self.relationships.at(places)
        stating = np.repeat(scores[within(ids, self.windows.ids)], self.relationships.counts(places))
        relationships, place = numbered(stated)
        best = np.full(len(relationships), -np.inf)
        np.maximum.at(best, place, stating)
        return relationships, best

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return self.windows.nbytes + self.relationships.nbytes


@once
def cached_statements(query: Query) -> WindowStatements | None:
    """Return the statements of the whole corpus; None where they are not cached, and reading them would not pay yet."""
    corpus, key = query.corpus, ("statements of windows", query.corpus.id)
    if query.visible is not None:
        return None
    statements = cached_value(query, key, "statements", WindowStatements.of_arrays)
    graph = graph_of(query)
    if statements is not None or not isinstance(graph, TopologyGraph):
        return statements
    count = len(graph.topology.stated_in.columns[0])
    has_room = _BYTES * count <= min(cache.room(corpus, key), cache.spare(corpus, key))
    if not has_room or cache.earlier_queries(corpus) * ROWS_PER_QUERY < count:
        return None
    rows = read_at_revision(query.db, corpus, _ALL)
    if rows is None:
        return None
    pairs = int64s(rows[0]["windows"]), int64s(rows[0]["relationships"])
    return cache_shared(
        query, key, "statements", WindowStatements.of(corpus.revision, *pairs), WindowStatements.of_arrays
    )
