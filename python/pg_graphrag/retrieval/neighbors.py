"""graphrag.neighbors: breadth first over the relationships."""

from typing import Any

from pg_graphrag import bounds
from pg_graphrag.access.caller import Caller, caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.corpus.corpora import find
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import np
from pg_graphrag.retrieval.held_graph import graph_of
from pg_graphrag.retrieval.options import SearchOptions
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.visible_graph import VisibleGraph
from pg_graphrag.server import Database
from pg_graphrag.text.concepts import key

MAX_HOPS = 10
_WHOLE = """
SELECT n.hop, n.entity_id, n.name, n.type, n.description, n.degree, n.relationship_id, n.relationship, n.keywords,
       n.weight::text AS weight, n.path
  FROM graphrag._neighbors($1, $2, $3) n
"""

# (hop, entity_id, name, type, description, degree, relationship_id, relationship, keywords, weight, path)
Neighbor = tuple[Any, ...]


def neighbors(db: Database, entity: str | None, corpus: str | None, hops: int | None) -> list[Neighbor]:
    """Return the rows of graphrag.neighbors: nearest first, then the strongest relationship first."""
    depth = check_hops(hops)
    caller = caller_of(db, corpus)
    return as_owner(db, lambda: around(graph_query(db, caller), key(bounds.name(entity)), depth))


def check_hops(hops: int | None) -> int:
    """Return the number of hops; 22023 outside 1 … 10."""
    if hops is None or not 1 <= hops <= MAX_HOPS:
        raise GraphRAGError(f"hops cannot be {'null' if hops is None else hops}", hint=f"Give 1 to {MAX_HOPS}.")
    return hops


def graph_query(db: Database, caller: Caller) -> Query:
    """Return a query that asks the graph alone."""
    return Query(db, find(db, caller.corpus), caller, "", SearchOptions())


def around(query: Query, start: str, hops: int) -> list[Neighbor]:
    """Return the neighbours of the entity with a key, or with an alias of it."""
    graph = graph_of(query)
    if isinstance(graph, VisibleGraph):
        return _around_visible(graph, start, hops)
    rows = query.db.query(_WHOLE, ["int4", "text", "int4"], [query.corpus.id, start, hops])
    return [tuple(row.values()) for row in rows]


def _around_visible(graph: VisibleGraph, start: str, hops: int) -> list[Neighbor]:
    """Walk the visible relationships.

    Where several ways of one length lead to an entity, the strongest last relationship is shown, then the strongest before.
    """
    topology = graph.topology
    frontier = topology.named([start])[-1:]
    parents: dict[int, tuple[int, int]] = dict.fromkeys(frontier, (-1, -1))
    steps: list[tuple[int, int, int]] = []
    for hop in range(1, hops + 1):
        if not frontier:
            break
        rank = {place: number for number, place in enumerate(frontier)}
        owners, edges = topology.incident.at(np.array(frontier, np.int64))
        others = topology.low[edges] + topology.high[edges] - owners
        strongest: dict[int, tuple[float, int, int, int]] = {}
        for owner, edge, other in zip(owners.tolist(), edges.tolist(), others.tolist(), strict=True):
            way = (-float(topology.weights[edge]), rank[owner], owner, edge)
            if other not in parents and (other not in strongest or way < strongest[other]):
                strongest[other] = way
        # Places are in the order of keys.
        frontier = sorted(strongest, key=lambda place: (strongest[place][0], place))
        for place in frontier:
            parents[place] = strongest[place][2:]
            steps.append((hop, place, strongest[place][3]))
    return _rows(graph, steps, parents)


def _rows(
    graph: VisibleGraph, steps: list[tuple[int, int, int]], parents: dict[int, tuple[int, int]]
) -> list[Neighbor]:
    ids = graph.topology.entities.ids
    entities = {row["id"]: row for row in graph.entities(ids[list(parents)].tolist())}
    numbers = graph.topology.relationships.ids[[edge for _, _, edge in steps]].tolist()
    relationships = {row["id"]: row for row in graph.relationships(numbers)}
    found = []
    for (hop, place, _), number in zip(steps, numbers, strict=True):
        path, at = [], place
        while at >= 0:
            path.append(entities[int(ids[at])]["name"])
            at = parents[at][0]
        entity, relationship = entities[int(ids[place])], relationships[number]
        shown = (entity["id"], entity["name"], entity["type"], entity["description"], entity["degree"])
        stated = (number, relationship["description"], relationship["keywords"])
        found.append((hop, *shown, *stated, f"{relationship['weight']:.15g}", path[::-1]))
    return found
