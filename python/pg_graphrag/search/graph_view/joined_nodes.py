"""Joins names of rows with the rows' own entities in walks, as far as the query's caller sees the rows.

It does the same for the graph of a part that is shown: neighbors, views, drawings.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from pg_graphrag.ground.numeric import Flags, Ids, Lists, Places, are_new, distinct, np, values_of
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.chunk_concept_graph import ConceptGraph, WeakConcepts, merged
from pg_graphrag.search.graph_view.graph_tables import Edges, TableGraph
from pg_graphrag.search.graph_view.row_names import row_names
from pg_graphrag.search.graph_view.visible_graph import VisibleGraph
from pg_graphrag.search.query.query import Query, visible_digest
from pg_graphrag.server import Row
from pg_graphrag.server.caches.session_cache import cache, is_at_revision

# Nodes for which a session caches the rows that they name.
MAX_CACHED = 50_000
# Places of rows: of a node that is no name of one, and of one that was not looked up.
_NO_ROW, _UNKNOWN = -1, -2


@dataclass(frozen=True)
class _Rows:
    """What is known of nodes: `nodes`, ascending, and for each the place of its row, `places`, or _NO_ROW.

    By place: the row's `own` node, its entity; `weak`: nodes and entities of its names that are weak concepts elsewhere;
    `chunks`: those that have one of its names, ascending, and the greatest tf. `concepts`: the graph to which the nodes'
    numbers belong.
    """

    concepts: ConceptGraph | None
    nodes: Ids
    places: Ids
    own: Ids
    entities: Ids
    weak: Lists
    chunks: Lists

    @classmethod
    def none(cls, concepts: ConceptGraph | None) -> "_Rows":
        """Make it of nothing."""
        lists = Lists(_NONE, 0, _NONE, _NONE)
        return cls(concepts, _NONE, _NONE, _NONE, _NONE, lists, lists)

    def places_of(self, nodes: Ids) -> Ids:
        """Return the places of the rows whose names nodes, (n,), are; else _NO_ROW or _UNKNOWN."""
        return values_of(nodes, self.nodes, self.places, _UNKNOWN)

    def with_more(self, asked: Ids, new: "_Rows") -> "_Rows":
        """Return it with new rows, and with further nodes that were looked up, of these rows or of none."""
        of_none = asked[new.places_of(asked) < 0]
        all_nodes = np.concatenate([self.nodes, of_none, new.nodes])
        places = np.concatenate([self.places, np.full(len(of_none), _NO_ROW), new.places + len(self.own)])
        order = np.argsort(all_nodes)
        return _Rows(
            self.concepts,
            *(all_nodes[order], places[order]),
            np.append(self.own, new.own),
            np.append(self.entities, new.entities),
            self.weak.followed_by(new.weak),
            self.chunks.followed_by(new.chunks),
        )

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        arrays = self.nodes, self.places, self.own, self.entities
        return sum(int(array.nbytes) for array in arrays) + self.weak.nbytes + self.chunks.nbytes


_NONE = np.empty(0, np.int64)


class JoinedNodes:
    """The nodes of a query's walk, where a row's names and its own entity are one node.

    `weak`: the nodes to join, if concepts are walked over too; else entities. A row that would be a hub with its names
    stays apart from them.

    A query knows only for the concepts that it met which of them are entities. So the joined rows belong to the query; the
    session caches the names of each row, and in how many chunks it is.
    """

    def __init__(self, query: Query, weak: WeakConcepts | None, hub: float):
        self._query, self._weak, self._hub = query, weak, hub
        concepts = None if weak is None else weak.concepts
        digest = None if query.visible is None else visible_digest(query)
        self._cache_key: Hashable = "nodes of rows", query.corpus.id, digest, weak is None
        cached: _Rows | None = cache.get(query.corpus, self._cache_key)
        # Numbers of concepts hold for one graph. Beyond the limit, nodes are looked up again.
        is_usable = cached is not None and cached.concepts is concepts and len(cached.nodes) <= MAX_CACHED
        self._rows = cached if cached is not None and is_usable else _Rows.none(concepts)
        # By the places of rows: whether the query met one of their names, and joins them; at the end _UNKNOWN and _NO_ROW.
        self._is_met = np.zeros(len(self._rows.own) + 2, np.bool_)
        self._is_joined = self._is_met.copy()
        self._is_met[-2:] = True
        # By concept, whether it was asked for: one that was no entity then joins no row later.
        self._is_asked = np.zeros(0 if concepts is None else len(concepts.digests), np.bool_)

    @property
    def _nodes(self) -> WeakConcepts | TableGraph:
        return graph_of(self._query) if self._weak is None else self._weak

    def nodes(self, entities: Ids) -> Ids:
        """Return the nodes of entities, (n,)."""
        return self._own(entities if self._weak is None else self._weak.nodes(entities))

    def entities(self, nodes: Ids) -> Ids:
        """Return the entities of returned nodes, (n,), for a row its own; −1 for a node that is none."""
        entities = nodes if self._weak is None else self._weak.entities(nodes)
        places = self._rows.places_of(nodes)
        is_row = self._is_joined[places]
        places, of_rows = places[is_row], nodes[is_row]
        is_own = self._rows.own[places] == of_rows
        if is_own.any():
            entities = entities.copy()
            entities[is_row] = np.where(is_own, self._rows.entities[places], entities[is_row])
        return entities

    def seeds(self, weights: dict[int, float], keys: Iterable[str], hub: float) -> dict[int, float]:
        """Return {node: weight} of entities and their `weights`, and of weak concepts of keys: a row weighs as its best name."""
        by_node = weights if self._weak is None else self._weak.seeds(weights, keys, hub)
        own = self._own(np.array(list(by_node), np.int64)).tolist()
        joined: dict[int, float] = {}
        for node, weight in zip(own, by_node.values(), strict=True):
            joined[node] = max(weight, joined.get(node, 0.0))
        return joined

    def called(self, titles: Sequence[str]) -> tuple[Ids, Ids]:
        """Return (places of titles, nodes that these name), (n,) each."""
        places, nodes = self._nodes.called(titles)
        return places, self._own(nodes)

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return (nodes, chunks, tf, chunks that have them) of chunks, without nodes of more than `hub` chunks."""
        return self._as_one(self._nodes.edges_of_chunks(ids, hub))

    def nodes_of_chunks(self, ids: Ids | list[int], hub: float) -> Ids:
        """Return the nodes of the same edges, (m,); a row as often as one of its names is on such an edge."""
        nodes, *_ = self._nodes.edges_of_chunks(ids, hub)
        return self._own(nodes)

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return the same of distinct nodes that were returned."""
        nodes = np.asarray(ids, np.int64)
        places = self._rows.places_of(nodes)
        is_row = self._is_joined[places]
        others = self._merged(self._nodes.edges_of_entities(nodes[~is_row], hub))
        return _with_rows(others, self._of_rows(places[is_row]))

    def _of_rows(self, places: Ids) -> Edges:
        """Return the edges of joined rows: all are in at most `hub` chunks."""
        # A node that was none of a row when it was returned may be one now.
        places = distinct(places)
        places = places[self._rows.own[places].argsort()]
        owners, chunks, tf = self._rows.chunks.at(places)
        return self._rows.own[owners], chunks, tf, self._rows.chunks.counts(owners)

    def _merged(self, edges: Edges) -> Edges:
        """Return edges once each, by node and chunk."""
        return edges if self._weak is not None else merged(*edges)

    def _as_one(self, edges: Edges) -> Edges:
        """Return edges of nodes, those of one row and chunk as one: tf the most of these."""
        nodes, chunks, tf, counts = self._merged(edges)
        is_first = are_new(nodes)
        places = self._joined_to(nodes[is_first])
        is_row = places >= 0
        if not is_row.any():
            return nodes, chunks, tf, counts
        of_nodes = is_first.cumsum() - 1
        is_row = is_row[of_nodes]
        places, row_chunks, row_tf = places[of_nodes[is_row]], chunks[is_row], tf[is_row]
        own = self._rows.own[places]
        order = np.lexsort((row_chunks, own))
        own, row_chunks = own[order], row_chunks[order]
        first = (are_new(own) | are_new(row_chunks)).nonzero()[0]
        row_counts = self._rows.chunks.counts(places[order[first]])
        of_rows = own[first], row_chunks[first], np.maximum.reduceat(row_tf[order], first), row_counts
        is_other = ~is_row
        return _with_rows((nodes[is_other], chunks[is_other], tf[is_other], counts[is_other]), of_rows)

    def _own(self, nodes: Ids) -> Ids:
        """Return nodes, (n,), of names of rows the rows' own."""
        places = self._joined_to(nodes)
        is_row = places >= 0
        return np.where(is_row, self._rows.own[places], nodes) if is_row.any() else nodes

    def _joined_to(self, nodes: Ids) -> Ids:
        """Return the places of the rows that nodes, (n,), are one with; _NO_ROW of others. It joins rows that are met."""
        if not len(nodes):
            return nodes
        can_join = self._can_join(nodes)
        places = self._rows.places_of(nodes)
        is_new = (places == _UNKNOWN) & can_join
        if is_new.any():
            self._look_up(distinct(nodes[is_new]))
            places = self._rows.places_of(nodes)
        is_met_now = can_join & ~self._is_met[places]
        if is_met_now.any():
            self._meet(places[is_met_now])
        return np.where(self._is_joined[places], places, _NO_ROW)

    def _can_join(self, nodes: Ids) -> Flags:
        """Return which nodes, (n,), are entities, and were when they were asked for first."""
        can_join = nodes >= 0
        if self._weak is not None:
            is_weak = ~can_join
            concepts = ~nodes[is_weak]
            can_join[is_weak] = self._weak.are_entities(concepts) & ~self._is_asked[concepts]
            self._is_asked[concepts] = True
        return can_join

    def _meet(self, places: Ids) -> None:
        """Join rows that a query has met, unless they are hubs."""
        self._is_met[places] = True
        self._is_joined[places] = self._rows.chunks.counts(places) <= self._hub
        if self._weak is not None and len(self._rows.weak.columns[0]):
            _, nodes, entities = self._rows.weak.at(places)
            self._weak.meet(nodes, entities)

    def _look_up(self, nodes: Ids) -> None:
        """Find the rows that nodes of entities name, for this query and later ones."""
        query = self._query
        entities = nodes if self._weak is None else self._weak.entities(nodes)
        groups = list({group[0]: group for group in row_names(query).groups(entities).values()}.values())
        self._rows = self._rows.with_more(nodes, self._new_rows(groups))
        more = np.zeros(len(groups), np.bool_)
        self._is_met, self._is_joined = (
            np.concatenate([flags[:-2], more, flags[-2:]]) for flags in (self._is_met, self._is_joined)
        )
        if is_at_revision(query.db, query.corpus):
            cache.put(query.corpus, self._cache_key, self._rows, self._rows.nbytes)

    def _new_rows(self, groups: list[list[int]]) -> _Rows:
        """Return the rows of groups, each of its own entity and its names, with the number of chunks."""
        none = _Rows.none(self._rows.concepts)
        if not groups:
            return none
        members = np.array([entity for group in groups for entity in group], np.int64)
        nodes = members if self._weak is None else self._weak.nodes(members)
        sizes = np.array([len(group) for group in groups], np.int64)
        places = np.repeat(np.arange(len(groups)), sizes)
        order, is_weak = np.argsort(nodes), nodes < 0
        rows = replace(
            none,
            nodes=nodes[order],
            places=places[order],
            own=nodes[np.cumsum(sizes) - sizes],
            entities=np.array([group[0] for group in groups], np.int64),
            weak=Lists(places[is_weak], len(groups), nodes[is_weak], members[is_weak]),
        )
        edge_nodes, chunks, tf, _ = self._merged(self._nodes.edges_of_entities(nodes, np.inf))
        of_rows = rows.places_of(edge_nodes)
        order = np.lexsort((chunks, of_rows))
        of_rows, chunks = of_rows[order], chunks[order]
        first = (are_new(of_rows) | are_new(chunks)).nonzero()[0]
        most = np.maximum.reduceat(tf[order], first) if len(first) else tf
        return replace(rows, chunks=Lists(of_rows[first], len(groups), chunks[first], most))


def _with_rows(others: Edges, of_rows: Edges) -> Edges:
    """Return the edges of other nodes, and behind them those of rows."""
    nodes, chunks, tf, counts = map(np.concatenate, zip(others, of_rows, strict=True))
    return nodes, chunks, tf, counts


class JoinedGraph:
    """Places of entities as one: `own` (entities,): of a name the place of its row's entity, of all others their own.

    `members`: {place of a row's entity: it and its names}. `is_joined` (entities,): whether a place is one of several.
    """

    def __init__(self, query: Query, graph: VisibleGraph):
        """Join the names that the query's caller may see."""
        self.graph, self.topology = graph, graph.topology
        ids = self.topology.entities.ids
        self.own = np.arange(len(ids))
        of_names = row_names(query).rows(ids)
        names, rows = (
            self.topology.entities.places(np.array(list(part), np.int64)) for part in (of_names, of_names.values())
        )
        self.own[names] = rows
        self.members: dict[int, list[int]] = {}
        for name, row in sorted(zip(names.tolist(), rows.tolist(), strict=True)):
            self.members.setdefault(row, [row]).append(name)
        self.is_joined = np.zeros(len(ids), np.bool_)
        self.is_joined[names] = self.is_joined[rows] = True

    def with_names(self, places: Places) -> Places:
        """Return places of rows' and other entities, and the names of these behind each."""
        if not self.members:
            return places
        return np.array([one for place in places.tolist() for one in self.members.get(place, (place,))], np.int64)

    def entity_ids(self) -> Ids:
        """Return the ids of entities that are no names of rows, (n,) ascending."""
        ids: Ids = np.sort(self.topology.entities.ids[self.own == np.arange(len(self.own))])
        return ids

    def degrees(self, places: Places) -> Ids:
        """Return how many relationships with others entities have, (n,): a row's and its names' together."""
        topology = self.topology
        degrees = topology.incident.counts(places)
        for index, place in enumerate(places.tolist()):
            if place in self.members:
                members = np.array(self.members[place], np.int64)
                owners, edges = topology.incident.at(members)
                others = topology.low[edges] + topology.high[edges] - owners
                degrees[index] = int((self.own[others] != place).sum())
        return degrees

    def mention_counts(self, places: Places) -> Ids:
        """Return how many chunks mention entities, (n,), by a row's own entity or its names."""
        counts = self.topology.mention_counts[places].copy()
        for index, place in enumerate(places.tolist()):
            if place in self.members:
                _, chunks, *_ = self.topology.chunks_of.at(np.array(self.members[place], np.int64))
                counts[index] = len(distinct(chunks))
        return counts

    def entities(self, ids: Iterable[int]) -> list[Row]:
        """Return `VisibleGraph.stated_entities` with the numbers of all members."""
        rows = self.graph.stated_entities(list(ids))
        places = self.topology.entities.places([row["id"] for row in rows])
        numbers = zip(self.degrees(places).tolist(), self.mention_counts(places).tolist(), strict=True)
        return [
            row | {"degree": degree, "mention_count": count} for row, (degree, count) in zip(rows, numbers, strict=True)
        ]

    def relationships(self, ids: Iterable[int]) -> list[Row]:
        """Return `VisibleGraph.stated_relationships` with rows in place of their names, and none of a row itself."""
        rows = self.graph.stated_relationships(list(ids))
        if not self.members:
            return rows
        own_ids = self.topology.entities.ids[list(self.members)].tolist()
        own = {row["id"]: row for row in self.graph.stated_entities(own_ids)}
        joined = []
        for row in rows:
            for end in ("source", "target"):
                (place,) = self.topology.entities.places([row[f"{end}_id"]])
                if self.own[place] != place:
                    entity = own[int(self.topology.entities.ids[self.own[place]])]
                    row |= {f"{end}_id": entity["id"], end: entity["name"], f"{end}_key": entity["key"]}
            if row["source_id"] != row["target_id"]:
                joined.append(row)
        return joined
