"""The nodes of a walk with the names of rows as the rows' own entities, as the query's caller sees rows."""

from collections.abc import Iterable

from pg_graphrag.numeric import Ids, np
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.chunk_concepts import WeakConcepts
from pg_graphrag.retrieval.graph_tables import Edges
from pg_graphrag.retrieval.ids import numbered
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.row_names import row_names


class JoinedNodes:
    """The nodes of a query's walk. What documents call a row by is one node with the row's own entity.

    `weak`: the nodes that they are made of, where concepts are walked over too; else entities. A row that would be a hub with its
    names stays apart from them.
    """

    def __init__(self, query: Query, weak: WeakConcepts | None, hub: float):
        self._query, self._weak, self._hub = query, weak, hub
        # By node the row's own, of those that were asked for; by the row's own all that are one with it, and their chunks.
        self._own: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._counts: dict[int, int] = {}

    def nodes(self, entities: Ids) -> Ids:
        """Return the nodes of entities, (n,)."""
        return self._joined(entities if self._weak is None else self._weak.nodes(entities))

    def entities(self, nodes: Ids) -> Ids:
        """Return the entities of nodes, (n,), of a row its own; −1 where a node is none."""
        return nodes if self._weak is None else self._weak.entities(nodes)

    def seeds(self, weights: dict[int, float], keys: Iterable[str], hub: float) -> dict[int, float]:
        """Return {node: weight} of entities and their `weights`, and of the weak concepts of keys: a row weighs as its best name."""
        by_node = weights if self._weak is None else self._weak.seeds(weights, keys, hub)
        joined: dict[int, float] = {}
        for node, weight in zip(self._joined(np.array(list(by_node), np.int64)).tolist(), by_node.values(), strict=True):
            joined[node] = max(weight, joined.get(node, 0.0))
        return joined

    def called(self, titles: Iterable[str]) -> dict[str, list[int]]:
        """Return {title: nodes that it names}."""
        called = (self._weak or graph_of(self._query)).called(titles)
        own = iter(self._joined(np.array([node for nodes in called.values() for node in nodes], np.int64)).tolist())
        return {title: list(dict.fromkeys(next(own) for _ in nodes)) for title, nodes in called.items()}

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return (nodes, chunks, tf, chunks that have them) of chunks, without nodes of more than `hub` chunks."""
        return self._as_one((self._weak or graph_of(self._query)).edges_of_chunks(ids, hub))

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return the same of nodes."""
        nodes = np.unique(self._joined(np.asarray(ids, np.int64)))
        members = np.array([one for node in nodes.tolist() for one in self._members.get(node, (node,))], np.int64)
        return self._as_one((self._weak or graph_of(self._query)).edges_of_entities(members, hub))

    def _as_one(self, edges: Edges) -> Edges:
        """Return edges of nodes, those of one row and chunk as one: tf the most of these."""
        nodes, chunks, tf, counts = edges
        own = self._joined(nodes)
        if not self._members:
            return edges
        node_ids, node_place = numbered(own)
        chunk_ids, chunk_place = numbered(chunks)
        _, first, place = np.unique(
            node_place * max(len(chunk_ids), 1) + chunk_place, return_index=True, return_inverse=True
        )
        most = np.zeros(len(first), np.int64)
        np.maximum.at(most, place, tf)
        own_counts = np.array([self._counts.get(node, 0) for node in node_ids.tolist()], np.int64)[node_place[first]]
        return own[first], chunks[first], most, np.where(own_counts > 0, own_counts, counts[first])

    def _joined(self, nodes: Ids) -> Ids:
        """Return nodes, (n,), of names of rows the rows' own."""
        distinct, place = numbered(nodes)
        new = np.array([node for node in distinct.tolist() if node not in self._own], np.int64)
        if len(new):
            self._join(new)
        return np.array([self._own[node] for node in distinct.tolist()], np.int64)[place]

    def _join(self, nodes: Ids) -> None:
        self._own |= zip(nodes.tolist(), nodes.tolist(), strict=True)
        entities = self.entities(nodes)
        groups = row_names(self._query).few_names(entities[entities >= 0].tolist())
        rows = [[row, *names] for row, names in groups.items() if names]
        if not rows:
            return
        members = np.array([entity for group in rows for entity in group], np.int64)
        member_nodes = members if self._weak is None else self._weak.nodes(members)
        owners = np.repeat(np.arange(len(rows)), [len(group) for group in rows])
        edge_nodes, edge_chunks, *_ = (self._weak or graph_of(self._query)).edges_of_entities(member_nodes, np.inf)
        order = np.argsort(member_nodes, kind="stable")
        edge_owners = owners[order][np.searchsorted(member_nodes[order], edge_nodes)]
        chunk_ids, chunk_place = numbered(edge_chunks)
        pairs = np.unique(edge_owners * max(len(chunk_ids), 1) + chunk_place)
        counts = np.bincount(pairs // max(len(chunk_ids), 1), minlength=len(rows)).tolist()
        for number, count in enumerate(counts):
            group = member_nodes[owners == number].tolist()
            if count <= self._hub:
                own = group[0]
                self._own |= dict.fromkeys(group, own)
                self._members[own], self._counts[own] = group, count
