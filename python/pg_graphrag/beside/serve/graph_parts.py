"""Parts of the graph for the pages, as {nodes, edges} that the caller sees."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from pg_graphrag.beside.client import GraphRAG
from pg_graphrag.beside.client.results import EntityResult, Neighbor
from pg_graphrag.beside.serve.caller_database import Connection
from pg_graphrag.beside.serve.reading import rows
from pg_graphrag.ground.errors import GraphRAGError

# What software draws in a browser at all.
MAX_NODES = 20_000
MAX_EDGES = 60_000
# With more nodes, nobody reads the descriptions, which take megabytes.
MAX_DESCRIBED = 2_000
MAX_HOPS = 6
# Groups of a map that a person can tell apart, and how many items are counted for them.
MAX_COMMUNITIES = 60
MAX_TYPES = 12
MAX_COUNTED = 200_000

Graph = dict[str, Any]

_NODE = "n.entity_id AS id, n.name, n.type, n.degree"
_DESCRIBED = f"{_NODE}, n.description"


def overview(connection: Connection, corpus: str, limit: int, community: int | None, type: str | None = None) -> Graph:
    """Return the most connected entities with their community of the coarsest level, or those of a community with the one
    within it. `type`: only those of a type that are in no such community, as `map_of` groups them; `total` counts them.

    Without descriptions where more than `MAX_DESCRIBED` are asked for.
    """
    is_described = limit <= MAX_DESCRIBED
    # Which entities are in a community is known only afterwards.
    read = limit if type is None else MAX_COUNTED
    nodes = _nodes(connection, corpus, community, read, _DESCRIBED if is_described and type is None else _NODE, type)
    total = None
    if type is not None:
        home = _communities(connection, corpus, None, community)
        members = [node for node in nodes if node["id"] not in home]
        nodes, total = members[:limit], len(members)
        if is_described:
            _describe(connection, corpus, nodes)
    return {"total": total} | _with_edges(connection, corpus, nodes, parent=community, is_described=is_described)


def _nodes(
    connection: Connection, corpus: str, community: int | None, limit: int, columns: str, type: str | None = None
) -> list[dict[str, Any]]:
    """Return the most connected entities, of the corpus or of a community."""
    return rows(
        connection,
        f"SELECT {columns} FROM graphrag.graph_nodes n WHERE n.corpus = %(corpus)s"
        " AND (%(type)s::text IS NULL OR n.type = %(type)s)"
        " AND (%(community)s::bigint IS NULL OR n.entity_id = ANY (ARRAY("
        "     SELECT e.entity_id FROM graphrag.community_entities e"
        "      WHERE e.corpus = %(corpus)s AND e.community_id = %(community)s)))"
        " ORDER BY n.degree DESC, n.entity_id LIMIT %(limit)s",
        corpus=corpus,
        community=community,
        type=type,
        limit=limit,
    )


def _describe(connection: Connection, corpus: str, nodes: list[dict[str, Any]]) -> None:
    """Add their descriptions to nodes."""
    described = rows(
        connection,
        "SELECT n.entity_id AS id, n.description FROM graphrag.graph_nodes n"
        " WHERE n.corpus = %(corpus)s AND n.entity_id = ANY (%(ids)s)",
        corpus=corpus,
        ids=[node["id"] for node in nodes],
    )
    by_id = {row["id"]: row["description"] for row in described}
    for node in nodes:
        node["description"] = by_id.get(node["id"])


def map_of(connection: Connection, corpus: str, parent: int | None) -> Graph:
    """Return {entities, relationships, smaller, nodes, edges}: the graph, or a community, as groups with their size.

    A node is a community ({id, community, title, summary, names, size}), or the entities of a type that are in none ({id, type,
    names, size}); an edge has in `count` the relationships between two groups. `names` has the three most connected members.
    The largest groups alone; `smaller` counts {groups, entities} of the others. Who sees a part of the corpus has types alone.
    At most `MAX_COUNTED` entities, the most connected, and as many relationships are counted.
    """
    members = _nodes(connection, corpus, parent, MAX_COUNTED, _NODE)
    headings = {row["id"]: row for row in _headings(connection, corpus, parent)}
    home = _communities(connection, corpus, None, parent) if headings else {}
    group_of = {row["id"]: home.get(row["id"], row["type"]) for row in members}
    sizes = Counter(group_of.values())
    listed = sizes.most_common()
    communities = [group for group, _ in listed if isinstance(group, int)][:MAX_COMMUNITIES]
    types = [group for group, _ in listed if isinstance(group, str)][:MAX_TYPES]
    shown: list[int | str] = [*communities, *types]
    leading: dict[int | str, list[str]] = {}
    for row in members:
        first = leading.setdefault(group_of[row["id"]], [])
        if len(first) < 3:
            first.append(row["name"])
    between: Counter[tuple[str, str]] = Counter()
    ids = {group: f"{'community' if isinstance(group, int) else 'type'} {group}" for group in shown}
    within = "true" if parent is None else "g.source_id = ANY (%(ids)s) AND g.target_id = ANY (%(ids)s)"
    edges = rows(
        connection,
        "SELECT g.source_id AS source, g.target_id AS target FROM graphrag.graph_edges g"
        f" WHERE g.corpus = %(corpus)s AND {within} ORDER BY g.relationship_id LIMIT %(limit)s",
        corpus=corpus,
        ids=None if parent is None else list(group_of),
        limit=MAX_COUNTED,
    )
    for edge in edges:
        ends = {ids.get(group_of.get(edge["source"], "")), ids.get(group_of.get(edge["target"], ""))} - {None}
        if len(ends) == 2:
            low, high = sorted(filter(None, ends))
            between[low, high] += 1
    hidden = [size for group, size in listed if group not in ids]
    return {
        "entities": len(members),
        "relationships": len(edges),
        "smaller": {"groups": len(hidden), "entities": sum(hidden)},
        "nodes": [
            {"id": ids[group], "size": sizes[group], "names": leading[group]}
            | ({"type": group} if isinstance(group, str) else headings[group] | {"id": ids[group], "community": group})
            for group in shown
        ],
        "edges": [{"source": low, "target": high, "count": count} for (low, high), count in between.most_common()],
    }


def _headings(connection: Connection, corpus: str, parent: int | None) -> list[dict[str, Any]]:
    """Return what reports call the communities of the coarsest level, or those inside another."""
    return rows(
        connection,
        "SELECT v.community_id AS id, v.title, v.summary FROM graphrag.community_overview v WHERE v.corpus = %(corpus)s"
        " AND CASE WHEN %(parent)s::bigint IS NULL THEN v.level = 0 ELSE v.parent_id = %(parent)s END",
        corpus=corpus,
        parent=parent,
    )


def community(connection: Connection, corpus: str, number: int) -> dict[str, Any]:
    """Return a community's {id, level, parent_id, size, title, summary, names}, as `communities` does.

    Raises GraphRAGError: 02000 when the caller sees no such community.
    """
    records = rows(
        connection,
        "SELECT v.community_id AS id, v.level, v.parent_id, v.size, v.title, v.summary FROM graphrag.community_overview v"
        " WHERE v.corpus = %(corpus)s AND v.community_id = %(number)s",
        corpus=corpus,
        number=number,
    )
    if not records:
        raise GraphRAGError(f"there is no community {number}", sqlstate="02000")
    return records[0] | {"names": _names(connection, corpus, [number]).get(number, [])}


def names(connection: Connection, corpus: str, text: str, limit: int) -> list[dict[str, Any]]:
    """Return entities {id, name, type, degree} by a part of their name, in this order: equal names, names that begin with
    it, names with a word that begins with it, names that contain it. In each group the most connected come first. Use
    search_entities() for rough names.
    """
    return rows(
        connection,
        f"SELECT {_NODE} FROM graphrag.graph_nodes n WHERE n.corpus = %(corpus)s"
        " AND pg_catalog.strpos(pg_catalog.lower(n.name), pg_catalog.lower(%(text)s)) > 0"
        " ORDER BY pg_catalog.lower(n.name) <> pg_catalog.lower(%(text)s),"
        "          NOT pg_catalog.starts_with(pg_catalog.lower(n.name), pg_catalog.lower(%(text)s)),"
        "          pg_catalog.strpos(' ' || pg_catalog.lower(n.name), ' ' || pg_catalog.lower(%(text)s)) = 0,"
        "          n.degree DESC, n.entity_id"
        " LIMIT %(limit)s",
        corpus=corpus,
        text=" ".join(text.split()),
        limit=limit,
    )


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


def entity(rag: GraphRAG, connection: Connection, entity_id: int, limit: int, depth: int = 1) -> Graph:
    """Return an entity and the entities within `depth` relationships, nearest and strongest first, with the edges among
    them.

    `hop` of a node is its distance. `total` counts all entities within that distance; `limit` of them are returned, some of
    each distance.

    Raises GraphRAGError: 02000 when the caller sees no such entity.
    """
    records = rows(
        connection,
        f"SELECT {_DESCRIBED}, n.mention_count FROM graphrag.graph_nodes n WHERE n.corpus = %(corpus)s AND n.entity_id = %(id)s",
        corpus=rag.corpus,
        id=entity_id,
    )
    if not records:
        raise GraphRAGError(f"there is no entity {entity_id}", sqlstate="02000")
    near = rag.neighbors(records[0]["name"], depth)
    nodes = [_node_of(row) | {"hop": row.hop} for row in _of_each_distance(near, limit)]
    return {"entity": records[0], "total": len(near)} | _with_edges(
        connection, rag.corpus, [records[0] | {"hop": 0}, *nodes]
    )


def _of_each_distance(near: list[Neighbor], limit: int) -> list[Neighbor]:
    """Return `limit` neighbors in their order: half of the room for the nearest, half of the rest for those behind, and so on;
    each with the one that led to it. Else a hub's own neighbors would leave no room for any other.
    """
    by_path: dict[tuple[str, ...], Neighbor] = {}
    last = max((row.hop for row in near), default=0)
    for hop in range(1, last + 1):
        level = [row for row in near if row.hop == hop and (hop == 1 or tuple(row.path[:-1]) in by_path)]
        room = limit - len(by_path)
        by_path |= {tuple(row.path): row for row in level[: room if hop == last else (room + 1) // 2]}
    for row in near:
        if len(by_path) >= limit:
            break
        if row.hop == 1 or tuple(row.path[:-1]) in by_path:
            by_path[tuple(row.path)] = row
    return [row for row in near if tuple(row.path) in by_path]


def path(rag: GraphRAG, connection: Connection, source: str, target: str) -> Graph:
    """Return a shortest path between two entities, by their names: {path, nodes, edges}; path is empty where there is none.

    Raises GraphRAGError: 02000 when there is no such entity.
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
            nodes[row.entity_id] = _node_of(row)
        arrival = next((row for row in near if row.entity_id == end["id"]), None)
        if arrival is not None:
            steps = [ids[tuple(arrival.path[: count + 1])] for count in range(len(arrival.path))]
            return {"path": steps} | _with_edges(connection, rag.corpus, [nodes[step] for step in steps])
        if not near or max(row.hop for row in near) < hops:
            break
    return {"path": [], "nodes": [start, end], "edges": []}


def entity_named(rag: GraphRAG, name: str) -> dict[str, Any]:
    """Return the entity {id, name, type, degree, description} of a name, or of an alias.

    Raises GraphRAGError: 02000 when there is none; the hint has names that are like it.
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
    return _node_of(best)


def _node_of(row: EntityResult | Neighbor) -> dict[str, Any]:
    return {"id": row.entity_id} | {name: getattr(row, name) for name in ("name", "type", "degree", "description")}


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
    return {
        "nodes": nodes,
        "edges": _edges(connection, corpus, ids, ", g.description, g.keyword_list AS keywords" if is_described else ""),
    }


def _edges(connection: Connection, corpus: str, ids: Collection[int], description: str) -> list[dict[str, Any]]:
    """Return the strongest relationships among entities; `description` has the columns for it, or nothing."""
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


def _communities(
    connection: Connection, corpus: str, ids: Collection[int] | None, parent: int | None
) -> dict[int, int]:
    """Return the community of the coarsest level of each entity, or the one within `parent`; of all entities for None."""
    within = (
        "e.level = 0"
        if parent is None
        else "e.community_id = ANY (ARRAY(SELECT v.community_id FROM graphrag.community_overview v"
        " WHERE v.corpus = %(corpus)s AND v.parent_id = %(parent)s))"
    )
    chosen = "true" if ids is None else "e.entity_id = ANY (%(ids)s)"
    records = rows(
        connection,
        "SELECT e.entity_id, e.community_id FROM graphrag.community_entities e"
        f" WHERE e.corpus = %(corpus)s AND {within} AND {chosen}",
        corpus=corpus,
        ids=None if ids is None else list(ids),
        parent=parent,
    )
    return {row["entity_id"]: row["community_id"] for row in records}
