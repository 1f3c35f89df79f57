"""The nodes of a walk with the names of rows as the rows' own entities, as the query's caller sees rows."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from pg_graphrag.numeric import Ids, np
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.chunk_concepts import WeakConcepts
from pg_graphrag.retrieval.graph_tables import Edges, TableGraph
from pg_graphrag.retrieval.ids import numbered
from pg_graphrag.retrieval.query import Query, visible_digest
from pg_graphrag.retrieval.row_names import MAX_CACHED, row_names
from pg_graphrag.retrieval.session_cache import cache, is_at_revision

# About what a node takes that a session caches.
_NODE_BYTES = 250


@dataclass
class _Joined:
    """By node the row's own, of those that were asked for; by that its entity, all that are one with it, and their chunks."""

    own: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    members: dict[int, list[int]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


class JoinedNodes:
    """The nodes of a query's walk. What documents call a row by is one node with the row's own entity.

    `weak`: the nodes that they are made of, where concepts are walked over too; else entities. A row that would be a hub with its
    names stays apart from them.
    """

    def __init__(self, query: Query, weak: WeakConcepts | None, hub: float):
        self._query, self._weak, self._hub = query, weak, hub
        # Numbers of concepts are equal where revision and visible documents are.
        digest = None if query.visible is None else visible_digest(query)
        self._cache_key: Hashable = "joined nodes", query.corpus.id, digest, weak is None, hub
        self._joined: _Joined = cache.get(query.corpus, self._cache_key) or _Joined()

    @property
    def _nodes(self) -> WeakConcepts | TableGraph:
        return graph_of(self._query) if self._weak is None else self._weak

    def nodes(self, entities: Ids) -> Ids:
        """Return the nodes of entities, (n,)."""
        return self._own(entities if self._weak is None else self._weak.nodes(entities))

    def entities(self, nodes: Ids) -> Ids:
        """Return the entities of nodes, (n,), of a row its own; −1 where a node is none."""
        entities = nodes if self._weak is None else self._weak.entities(nodes)
        rows = self._joined.rows
        return np.array(
            [rows.get(node, entity) for node, entity in zip(nodes.tolist(), entities.tolist(), strict=True)]
        )

    def seeds(self, weights: dict[int, float], keys: Iterable[str], hub: float) -> dict[int, float]:
        """Return {node: weight} of entities and their `weights`, and of weak concepts of keys: a row weighs as its best name."""
        by_node = weights if self._weak is None else self._weak.seeds(weights, keys, hub)
        own = self._own(np.array(list(by_node), np.int64)).tolist()
        joined: dict[int, float] = {}
        for node, weight in zip(own, by_node.values(), strict=True):
            joined[node] = max(weight, joined.get(node, 0.0))
        return joined

    def called(self, titles: Iterable[str]) -> dict[str, list[int]]:
        """Return {title: nodes that it names}, of titles that name any."""
        # Most titles name nothing.
        called = {title: nodes for title, nodes in self._nodes.called(titles).items() if nodes}
        own = iter(self._own(np.array([node for nodes in called.values() for node in nodes], np.int64)).tolist())
        return {title: list(dict.fromkeys(next(own) for _ in nodes)) for title, nodes in called.items()}

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return (nodes, chunks, tf, chunks that have them) of chunks, without nodes of more than `hub` chunks."""
        return self._as_one(self._nodes.edges_of_chunks(ids, hub))

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return the same of nodes."""
        nodes = np.unique(self._own(np.asarray(ids, np.int64))).tolist()
        members = [member for node in nodes for member in self._joined.members.get(node, (node,))]
        return self._as_one(self._nodes.edges_of_entities(members, hub))

    def _as_one(self, edges: Edges) -> Edges:
        """Return edges of nodes, those of one row and chunk as one: tf the most of these."""
        nodes, chunks, tf, counts = edges
        own = self._own(nodes)
        node_ids, node_place = numbered(own)
        joined_counts = np.array([self._joined.counts.get(node, 0) for node in node_ids.tolist()], np.int64)
        if not joined_counts.any():
            return edges
        chunk_ids, chunk_place = numbered(chunks)
        _, first, place = np.unique(node_place * len(chunk_ids) + chunk_place, return_index=True, return_inverse=True)
        most = np.zeros(len(first), np.int64)
        np.maximum.at(most, place, tf)
        own_counts = joined_counts[node_place[first]]
        return own[first], chunks[first], most, np.where(own_counts > 0, own_counts, counts[first])

    def _own(self, nodes: Ids) -> Ids:
        """Return nodes, (n,), of names of rows the rows' own."""
        distinct, place = numbered(nodes)
        new = [node for node in distinct.tolist() if node not in self._joined.own]
        if new:
            self._read(np.array(new, np.int64))
        own = self._joined.own
        return np.array([own[node] for node in distinct.tolist()], np.int64)[place]

    def _read(self, nodes: Ids) -> None:
        """Join nodes that were not asked for before."""
        corpus, before = self._query.corpus, self._joined
        # What is cached changes for all queries, or not at all.
        joined = _Joined(dict(before.own), dict(before.rows), dict(before.members), dict(before.counts))
        self._joined = joined
        joined.own |= zip(nodes.tolist(), nodes.tolist(), strict=True)
        entities = self.entities(nodes)
        groups = row_names(self._query).groups(entities[entities >= 0].tolist())
        rows = list({group[0]: group for group in groups.values()}.values())
        if rows:
            self._join(rows)
        if len(joined.own) <= MAX_CACHED and is_at_revision(self._query.db, corpus):
            cache.put(corpus, self._cache_key, joined, _NODE_BYTES * len(joined.own))

    def _join(self, rows: list[list[int]]) -> None:
        """Join the entities of rows, each its own entity and then its names."""
        joined = self._joined
        members = np.array([entity for group in rows for entity in group], np.int64)
        nodes = members if self._weak is None else self._weak.nodes(members)
        owners = np.repeat(np.arange(len(rows)), [len(group) for group in rows])
        edge_nodes, edge_chunks, *_ = self._nodes.edges_of_entities(nodes, np.inf)
        order = np.argsort(nodes, kind="stable")
        edge_owners = owners[order][np.searchsorted(nodes[order], edge_nodes)]
        chunk_ids, chunk_place = numbered(edge_chunks)
        pairs = np.unique(edge_owners * max(len(chunk_ids), 1) + chunk_place)
        counts = np.bincount(pairs // max(len(chunk_ids), 1), minlength=len(rows)).tolist()
        for number, (group, count) in enumerate(zip(rows, counts, strict=True)):
            if count <= self._hub:
                group_nodes = nodes[owners == number].tolist()
                own = group_nodes[0]
                joined.own |= dict.fromkeys(group_nodes, own)
                joined.rows[own], joined.members[own], joined.counts[own] = group[0], group_nodes, count
