"""graphrag.neighbors: a breadth-first walk over the relationships."""

from typing import Any, NamedTuple

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import np
from pg_graphrag.search.graph_view.edge_strength import strengths_of
from pg_graphrag.search.graph_view.joined_nodes import JoinedGraph
from pg_graphrag.search.graph_view.visible_graph import whole_visible_graph
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import Caller, caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.corpus.corpora import find_corpus
from pg_graphrag.text.concept import key

MAX_HOPS = 10
_WHOLE = """
SELECT n.hop, n.entity_id, n.name, n.type, n.description, n.degree, n.relationship_id, n.relationship, n.keywords,
       n.weight::text AS weight, n.path
  FROM graphrag._neighbors($1, $2, $3) n
"""
_WHOLE_IDS = """
SELECT n.entity_id
  FROM graphrag._neighbors($1, $2, $3) WITH ORDINALITY
       AS n (hop, entity_id, name, type, description, degree, relationship_id, relationship, keywords, weight, path, place)
 ORDER BY n.place
 LIMIT $4
"""

# (hop, entity_id, name, type, description, degree, relationship_id, relationship, keywords, weight, path)
Neighbor = tuple[Any, ...]


def neighbors(
    db: Database, entity: str | None, corpus: str | None, hops: int | None, filter_: str | None = None
) -> list[Neighbor]:
    """Return the rows of graphrag.neighbors: nearest first, then the strongest relationship first."""
    depth = check_hops(hops)
    caller = caller_of(db, corpus, filter_)
    return as_owner(db, lambda: neighbors_of(graph_query(db, caller), key(bounds.name(entity)), depth))


def check_hops(hops: int | None) -> int:
    """Return the number of hops; 22023 outside 1 … 10."""
    if hops is None or not 1 <= hops <= MAX_HOPS:
        raise GraphRAGError(f"hops cannot be {'null' if hops is None else hops}", hint=f"Give 1 to {MAX_HOPS}.")
    return hops


def graph_query(db: Database, caller: Caller) -> Query:
    """Return a query that asks the graph alone."""
    return Query.of(db, find_corpus(db, caller.corpus), caller)


def neighbors_of(query: Query, start: str, hops: int) -> list[Neighbor]:
    """Return the neighbours of the entity with a key, or with an alias."""
    if query.visible is not None:
        graph = JoinedGraph(query, whole_visible_graph(query))
        return _rows(graph, *_walked(graph, start, hops))
    rows = query.db.query(_WHOLE, ["int4", "text", "int4"], [query.corpus.id, start, hops])
    return [tuple(row.values()) for row in rows]


def ids_around(query: Query, start: str, hops: int, most: int) -> list[int]:
    """Return the ids of the first `most` neighbours."""
    if query.visible is not None:
        graph = JoinedGraph(query, whole_visible_graph(query))
        steps, _ = _walked(graph, start, hops)
        return [int(graph.topology.entities.ids[step.place]) for step in steps[:most]]
    types, parameters = ["int4", "text", "int4", "int4"], [query.corpus.id, start, hops, most]
    return [row["entity_id"] for row in query.db.query(_WHOLE_IDS, types, parameters)]


class Step(NamedTuple):
    """A step of the walk: `hop` from the start, to `place`, over the relationship `edge`, from the place `parent`."""

    hop: int
    place: int
    edge: int
    parent: int


def _walked(graph: JoinedGraph, start: str, hops: int) -> tuple[list[Step], int]:
    """Walk the visible relationships; return the steps, in the order of neighbors(), and the place of the start.

    Of several paths of one length the one with the strongest last relationship is shown, then the strongest before. Of a
    row's equal relationships, the one of the first name is shown.
    """
    topology = graph.topology
    first = graph.own[topology.named([start])[-1:]].tolist()
    visited = np.zeros(len(topology.keys), np.bool_)
    visited[first] = True
    frontier = np.array(first, np.int64)
    steps: list[Step] = []
    for hop in range(1, hops + 1):
        if not len(frontier):
            break
        rank = np.empty(len(topology.keys), np.int64)
        rank[frontier] = np.arange(len(frontier))
        members, edges = topology.incident.at(graph.with_names(frontier))
        others = topology.low[edges] + topology.high[edges] - members
        new = ~visited[graph.own[others]]
        members, edges, others = members[new], edges[new], others[new]
        owners, far_ends = graph.own[members], graph.own[others]
        weights = topology.weights[edges]
        counts = topology.mention_counts[members], topology.mention_counts[others]
        strength = strengths_of(weights, topology.stating_counts[edges], *counts, graph.graph.chunk_count())
        # The strongest path to each entity, then all by strength. Places are in the order of keys.
        order = np.lexsort((others, members, rank[owners], -weights, -strength, far_ends))
        order = order[np.flatnonzero(np.diff(far_ends[order], prepend=-1))]
        order = order[np.lexsort((far_ends[order], -weights[order], -strength[order]))]
        frontier = far_ends[order]
        visited[frontier] = True
        columns = frontier.tolist(), edges[order].tolist(), owners[order].tolist()
        steps += [Step(hop, *step) for step in zip(*columns, strict=True)]
    return steps, first[0] if first else -1


def _rows(graph: JoinedGraph, steps: list[Step], start: int) -> list[Neighbor]:
    if not steps:
        return []
    ids = graph.topology.entities.ids
    places = [start, *(step.place for step in steps)]
    entities = dict(zip(places, graph.entities(ids[places].tolist()), strict=True))
    relationships = graph.graph.stated_relationships(
        graph.topology.relationships.ids[[step.edge for step in steps]].tolist()
    )
    paths = {start: [entities[start]["name"]]}
    rows: list[Neighbor] = []
    for step, statement in zip(steps, relationships, strict=True):
        entity = entities[step.place]
        paths[step.place] = [*paths[step.parent], entity["name"]]
        entity_fields = (entity["id"], entity["name"], entity["type"], entity["description"], entity["degree"])
        relationship = (statement["id"], statement["description"], statement["keywords"], f"{statement['weight']:.15g}")
        rows.append((step.hop, *entity_fields, *relationship, paths[step.place]))
    return rows
