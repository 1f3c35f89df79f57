"""The nodes of a walk with the names of rows as the rows' own entities, as the query's caller sees rows."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from pg_graphrag.numeric import Flags, Ids, np
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.chunk_concepts import WeakConcepts
from pg_graphrag.retrieval.graph_tables import Edges, TableGraph
from pg_graphrag.retrieval.ids import distinct, numbered, union, within
from pg_graphrag.retrieval.query import Query, visible_digest
from pg_graphrag.retrieval.row_names import MAX_CACHED, row_names
from pg_graphrag.retrieval.session_cache import cache, is_at_revision

# About what the number of chunks of a row takes that a session caches.
_COUNT_BYTES = 100


@dataclass(frozen=True)
class _Joined:
    """What a query knows of nodes: `asked`, ascending; the joined ones among them, `members` ascending, and the `own` of each.

    By the rows' own nodes, `rows` ascending: their `entities`, and how many chunks have one of their members, `counts`.
    """

    asked: Ids
    members: Ids
    own: Ids
    rows: Ids
    entities: Ids
    counts: Ids

    def places(self, nodes: Ids) -> tuple[Flags, Ids]:
        """Return (which nodes, (n,), are rows' own, the place in `rows` of those)."""
        is_row = within(nodes, self.rows)
        return is_row, np.searchsorted(self.rows, nodes[is_row])

    def with_more(self, asked: Ids, rows: "_Rows") -> "_Joined":
        """Return it with further nodes asked, and rows that are new."""
        asked = np.sort(np.concatenate([self.asked, asked, rows.nodes]), kind="stable")
        if not len(rows.sizes):
            return replace(self, asked=asked)
        members = np.append(self.members, rows.nodes)
        first = rows.nodes[np.cumsum(rows.sizes) - rows.sizes]
        own = np.append(self.own, np.repeat(first, rows.sizes))
        own_nodes = np.append(self.rows, first)
        entities, counts = np.append(self.entities, rows.entities), np.append(self.counts, rows.counts)
        order, row_order = np.argsort(members), np.argsort(own_nodes)
        return _Joined(
            asked,
            *(members[order], own[order]),
            *(own_nodes[row_order], entities[row_order], counts[row_order]),
        )


@dataclass(frozen=True)
class _Rows:
    """Rows one behind the other: `nodes`, of each its own and then its names, `sizes` of them; `entities`, `counts` of chunks."""

    nodes: Ids
    sizes: Ids
    entities: Ids
    counts: Ids

    def only(self, is_kept: Flags) -> "_Rows":
        """Return some of the rows."""
        columns = (column[is_kept] for column in (self.sizes, self.entities, self.counts))
        return _Rows(self.nodes[np.repeat(is_kept, self.sizes)], *columns)


_NONE = np.empty(0, np.int64)
_NOTHING = _Joined(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE)
_NO_ROWS = _Rows(_NONE, _NONE, _NONE, _NONE)


class JoinedNodes:
    """The nodes of a query's walk. What documents call a row by is one node with the row's own entity.

    `weak`: the nodes that they are made of, where concepts are walked over too; else entities. A row that would be a hub with its
    names stays apart from them.

    Which concept is an entity a query knows of those that it met. So what it joins is its own; the session caches, of rows, in
    how many chunks they are.
    """

    def __init__(self, query: Query, weak: WeakConcepts | None, hub: float):
        self._query, self._weak, self._hub = query, weak, hub
        digest = None if query.visible is None else visible_digest(query)
        self._cache_key: Hashable = "chunks of rows", query.corpus.id, digest, weak is None
        self._counts: dict[int, int] = cache.get(query.corpus, self._cache_key) or {}
        self._joined = _NOTHING

    @property
    def _nodes(self) -> WeakConcepts | TableGraph:
        return graph_of(self._query) if self._weak is None else self._weak

    def nodes(self, entities: Ids) -> Ids:
        """Return the nodes of entities, (n,)."""
        return self._own(entities if self._weak is None else self._weak.nodes(entities))

    def entities(self, nodes: Ids) -> Ids:
        """Return the entities of nodes that were returned, (n,), of a row its own; −1 where a node is none."""
        entities = nodes if self._weak is None else self._weak.entities(nodes)
        is_row, places = self._joined.places(nodes)
        if len(places):
            entities = entities.copy()
            entities[is_row] = self._joined.entities[places]
        return entities

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
        return {
            title: [next(own)] if len(nodes) == 1 else list(dict.fromkeys(islice(own, len(nodes))))
            for title, nodes in called.items()
        }

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return (nodes, chunks, tf, chunks that have them) of chunks, without nodes of more than `hub` chunks."""
        return self._as_one(self._nodes.edges_of_chunks(ids, hub))

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return the same of nodes that were returned."""
        nodes = distinct(np.asarray(ids, np.int64))
        members = self._joined.members[within(self._joined.own, nodes)]
        return self._as_one(self._nodes.edges_of_entities(union(nodes, members), hub))

    def _as_one(self, edges: Edges) -> Edges:
        """Return edges of nodes, those of one row and chunk as one: tf the most of these."""
        nodes, chunks, tf, counts = edges
        nodes = self._own(nodes)
        is_row, places = self._joined.places(nodes)
        if not len(places):
            return edges
        chunk_ids, chunk_place = numbered(chunks[is_row])
        pairs, first, place = np.unique(places * len(chunk_ids) + chunk_place, return_index=True, return_inverse=True)
        most = np.zeros(len(pairs), np.int64)
        np.maximum.at(most, place, tf[is_row])
        of_rows = nodes[is_row][first], chunks[is_row][first], most, self._joined.counts[places[first]]
        others = (column[~is_row] for column in (nodes, chunks, tf, counts))
        new_nodes, new_chunks, new_tf, new_counts = (
            np.append(*columns) for columns in zip(others, of_rows, strict=True)
        )
        return new_nodes, new_chunks, new_tf, new_counts

    def _own(self, nodes: Ids) -> Ids:
        """Return nodes, (n,), of names of rows the rows' own."""
        if not len(nodes):
            return nodes
        each_node, place = numbered(nodes)
        new = each_node[~within(each_node, self._joined.asked)]
        if len(new):
            self._read(new)
        joined = self._joined
        is_member = within(each_node, joined.members)
        if not is_member.any():
            return nodes
        own = each_node.copy()
        own[is_member] = joined.own[np.searchsorted(joined.members, each_node[is_member])]
        return own[place]

    def _read(self, nodes: Ids) -> None:
        """Join nodes that were not asked for before."""
        entities = self.entities(nodes)
        groups = row_names(self._query).groups(entities[entities >= 0])
        rows = list({group[0]: group for group in groups.values()}.values())
        self._joined = self._joined.with_more(nodes, self._rows(rows) if rows else _NO_ROWS)

    def _rows(self, groups: list[list[int]]) -> _Rows:
        """Return the rows, of each its own entity and its names, that are no hubs."""
        members = np.array([entity for group in groups for entity in group], np.int64)
        nodes = members if self._weak is None else self._weak.nodes(members)
        entities = [group[0] for group in groups]
        sizes = np.array([len(group) for group in groups], np.int64)
        rows = _Rows(nodes, sizes, np.array(entities, np.int64), np.zeros(len(groups), np.int64))
        is_new = np.array([entity not in self._counts for entity in entities], np.bool_)
        if is_new.any():
            self._count(rows.only(is_new))
        # Those of this query are there, whatever is kept.
        rows = replace(rows, counts=np.array([self._counts[entity] for entity in entities], np.int64))
        return rows.only(rows.counts <= self._hub)

    def _count(self, rows: _Rows) -> None:
        """Count in how many chunks rows are, for this query and later ones."""
        query, nodes = self._query, rows.nodes
        owners = np.repeat(np.arange(len(rows.sizes)), rows.sizes)
        edge_nodes, edge_chunks, *_ = self._nodes.edges_of_entities(nodes, np.inf)
        order = np.argsort(nodes, kind="stable")
        edge_owners = owners[order][np.searchsorted(nodes[order], edge_nodes)]
        chunk_ids, chunk_place = numbered(edge_chunks)
        pairs = distinct(edge_owners * max(len(chunk_ids), 1) + chunk_place)
        counts = np.bincount(pairs // max(len(chunk_ids), 1), minlength=len(rows.sizes)).tolist()
        self._counts = self._counts | dict(zip(rows.entities.tolist(), counts, strict=True))
        if len(self._counts) <= MAX_CACHED and is_at_revision(query.db, query.corpus):
            cache.put(query.corpus, self._cache_key, self._counts, _COUNT_BYTES * len(self._counts))
