"""Parts of the graph as pages draw them: {nodes, edges}, as the caller sees it."""

from collections.abc import Collection
from typing import Any

from pg_graphrag.beside.client import GraphRAG
from pg_graphrag.beside.serve.caller_database import Connection
from pg_graphrag.beside.serve.reading import rows
from pg_graphrag.ground.errors import GraphRAGError

# What software draws in a browser at all.
MAX_NODES = 20_000
MAX_EDGES = 60_000
# Of more nodes, nobody reads the descriptions: megabytes.
MAX_DESCRIBED = 2_000
MAX_HOPS = 6

Graph = dict[str, Any]

_NODE = "n.entity_id AS id, n.name, n.type, n.degree"
_DESCRIBED = f"{_NODE}, n.description"


def overview(connection: Connection, corpus: str, limit: int, community: int | None) -> Graph:
    """Return the most connected entities with their community of the coarsest level, or those of a community with the one
    within it.

    Without descriptions where more than `MAX_DESCRIBED` are asked for.
    """
    columns = _DESCRIBED if limit <= MAX_DESCRIBED else _NODE
    nodes = rows(
        connection,
        f"SELECT {columns} FROM graphrag.graph_nodes n WHERE n.corpus = %(corpus)s"
        " AND (%(community)s::bigint IS NULL OR n.entity_id = ANY (ARRAY("
        "     SELECT e.entity_id FROM graphrag.community_entities e"
        "      WHERE e.corpus = %(corpus)s AND e.community_id = %(community)s)))"
        " ORDER BY n.degree DESC, n.entity_id LIMIT %(limit)s",
        corpus=corpus,
        community=community,
        limit=limit,
    )
    return _with_edges(connection, corpus, nodes, parent=community, is_described=limit <= MAX_DESCRIBED)


def communities(connection: Connection, corpus: str, parent: int | None, limit: int) -> list[dict[str, Any]]:
    """Return communities of the coarsest level, or those inside another, largest first. None where the caller sees a part.

    `names`: of the three most connected members, where no report has given the community a title yet; else empty.
    """
    listed = rows(
        connection,
        """
        SELECT v.community_id AS id, v.level, v.parent_id, v.size, v.title, v.summary
          FROM graphrag.community_overview v
         WHERE v.corpus = %(corpus)s
           AND CASE WHEN %(parent)s::bigint IS NULL THEN v.level = 0 ELSE v.parent_id = %(parent)s END
         ORDER BY v.size DESC, v.community_id
         LIMIT %(limit)s
        """,
        corpus=corpus,
        parent=parent,
        limit=limit,
    )
    untitled = [row["id"] for row in listed if row["title"] is None]
    names = _names(connection, corpus, untitled) if untitled else {}
    return [row | {"names": names.get(row["id"], [])} for row in listed]


def _names(connection: Connection, corpus: str, communities: list[int]) -> dict[int, list[str]]:
    """Return the names of the three most connected members of each community."""
    members = rows(
        connection,
        "SELECT e.entity_id, e.community_id FROM graphrag.community_entities e"
        " WHERE e.corpus = %(corpus)s AND e.community_id = ANY (%(communities)s)",
        corpus=corpus,
        communities=communities,
    )
    # Communities of different levels share entities; those of a list do not.
    home = {row["entity_id"]: row["community_id"] for row in members}
    # Joined here: a planner that expects one row would look through the view for each member.
    nodes = rows(
        connection,
        "SELECT n.entity_id, n.name FROM graphrag.graph_nodes n WHERE n.corpus = %(corpus)s AND n.entity_id = ANY (%(ids)s)"
        " ORDER BY n.degree DESC, n.entity_id",
        corpus=corpus,
        ids=list(home),
    )
    names: dict[int, list[str]] = {}
    for node in nodes:
        first = names.setdefault(home[node["entity_id"]], [])
        if len(first) < 3:
            first.append(node["name"])
    return names


def entity(rag: GraphRAG, connection: Connection, entity_id: int, limit: int) -> Graph:
    """Return an entity, and the strongest relationships that it has, with their other ends.

    Raises
    ------
    GraphRAGError
        02000 when the caller sees no such entity.
    """
    records = rows(
        connection,
        f"SELECT {_DESCRIBED}, n.mention_count FROM graphrag.graph_nodes n WHERE n.corpus = %(corpus)s AND n.entity_id = %(id)s",
        corpus=rag.corpus,
        id=entity_id,
    )
    if not records:
        raise GraphRAGError(f"there is no entity {entity_id}", sqlstate="02000")
    near = rag.neighbors(records[0]["name"])[:limit]
    nodes = [
        {"id": n.entity_id, "name": n.name, "type": n.type, "degree": n.degree, "description": n.description}
        for n in near
    ]
    return {"entity": records[0]} | _with_edges(connection, rag.corpus, [records[0], *nodes])


def path(rag: GraphRAG, connection: Connection, source: str, target: str) -> Graph:
    """Return a shortest path between two entities, by their names: {path, nodes, edges}; path is empty where there is none.

    Raises
    ------
    GraphRAGError
        02000 when there is no such entity.
    """
    start, end = (entity_named(rag, name) for name in (source, target))
    if start["id"] == end["id"]:
        return {"path": [start["id"]], "nodes": [start], "edges": []}
    ids: dict[tuple[str, ...], int] = {(start["name"],): start["id"]}
    nodes = {start["id"]: start}
    for hops in range(1, MAX_HOPS + 1):
        near = rag.neighbors(start["name"], hops)
        for row in near:
            ids[tuple(row.path)] = row.entity_id
            nodes[row.entity_id] = {
                "id": row.entity_id,
                "name": row.name,
                "type": row.type,
                "degree": row.degree,
                "description": row.description,
            }
        arrival = next((row for row in near if row.entity_id == end["id"]), None)
        if arrival is not None:
            steps = [ids[tuple(arrival.path[: count + 1])] for count in range(len(arrival.path))]
            return {"path": steps} | _with_edges(connection, rag.corpus, [nodes[step] for step in steps])
        if not near or max(row.hop for row in near) < hops:
            break
    return {"path": [], "nodes": [start, end], "edges": []}


def entity_named(rag: GraphRAG, name: str) -> dict[str, Any]:
    """Return the entity {id, name, type, degree, description} of a name, or of an alias.

    Raises
    ------
    GraphRAGError
        02000 when there is none; the hint has names that are like it.
    """
    hits = rag.search_entities(name, top_k=10, low_level_keywords=[name])
    best = next((entity for entity in hits if entity.name.casefold() == name.strip().casefold()), None)
    if best is None and (related := rag.neighbors(name)):
        # An alias, or another spelling of the key.
        best = next((entity for entity in hits if entity.name == related[0].path[0]), None)
    if best is None:
        near = ", ".join(entity.name for entity in hits[:3])
        raise GraphRAGError(
            f"there is no entity {name!r}", sqlstate="02000", hint=f"There are {near}." if near else "Search for it."
        )
    return {
        "id": best.entity_id,
        "name": best.name,
        "type": best.type,
        "degree": best.degree,
        "description": best.description,
    }


def _with_edges(
    connection: Connection,
    corpus: str,
    nodes: list[dict[str, Any]],
    *,
    parent: int | None = None,
    is_described: bool = True,
) -> Graph:
    ids = [node["id"] for node in nodes]
    communities = _communities(connection, corpus, ids, parent)
    for node in nodes:
        node["community"] = communities.get(node["id"])
    return {"nodes": nodes, "edges": _edges(connection, corpus, ids, ", g.description" if is_described else "")}


def _edges(connection: Connection, corpus: str, ids: Collection[int], description: str) -> list[dict[str, Any]]:
    """Return the strongest relationships among entities; `description` is the column for it, or nothing."""
    return rows(
        connection,
        f"""
        SELECT g.relationship_id AS id, g.source_id AS source, g.target_id AS target, g.weight{description}
          FROM graphrag.graph_edges g
         WHERE g.corpus = %(corpus)s AND g.source_id = ANY (%(ids)s) AND g.target_id = ANY (%(ids)s)
         ORDER BY g.strength DESC NULLS LAST, g.weight DESC, g.relationship_id
         LIMIT %(limit)s
        """,
        corpus=corpus,
        ids=list(ids),
        limit=MAX_EDGES,
    )


def _communities(connection: Connection, corpus: str, ids: Collection[int], parent: int | None) -> dict[int, int]:
    """Return the community of the coarsest level of each entity, or the one within `parent`."""
    within = (
        "e.level = 0"
        if parent is None
        else "e.community_id = ANY (ARRAY(SELECT v.community_id FROM graphrag.community_overview v"
        " WHERE v.corpus = %(corpus)s AND v.parent_id = %(parent)s))"
    )
    records = rows(
        connection,
        "SELECT e.entity_id, e.community_id FROM graphrag.community_entities e"
        f" WHERE e.corpus = %(corpus)s AND {within} AND e.entity_id = ANY (%(ids)s)",
        corpus=corpus,
        ids=list(ids),
        parent=parent,
    )
    return {row["entity_id"]: row["community_id"] for row in records}
