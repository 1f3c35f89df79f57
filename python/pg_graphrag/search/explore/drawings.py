"""Drawings of a part of the graph as text: DOT for Graphviz, Mermaid for Markdown."""

import math
import re
from dataclasses import dataclass

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.search.explore.neighbors import check_hops, graph_query, ids_around
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.edge_strength import strengths
from pg_graphrag.search.graph_view.row_names import row_names
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Database, Row
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.text.concept import key

MAX_NODES = 1000
# Mermaid refuses a flowchart with more by default.
MERMAID_EDGES = 500
# Characters of a tooltip, and of the keywords beside an edge.
MAX_TOOLTIP = 300
MAX_LABEL = 60
# Attributes of an entity that a picture shows.
MAX_ATTRIBUTES = 5


@dataclass(frozen=True, slots=True)
class Node:
    """An entity of the picture; `is_marked`: the one it was asked for; `attributes`: (name, value) of some."""

    id: int
    name: str
    type: str
    description: str
    is_marked: bool = False
    attributes: tuple[tuple[str, str], ...] = ()

    def facts(self) -> list[str]:
        """Return its type and attributes, a line each."""
        return [self.type, *(f"{name}: {value}" for name, value in self.attributes)]


@dataclass(frozen=True, slots=True)
class Edge:
    """A relationship between two entities of the picture."""

    source: int
    target: int
    keywords: str
    description: str
    weight: float


Picture = tuple[list[Node], list[Edge]]


def to_dot(db: Database, entity: str | None, corpus: str | None, hops: int | None, max_nodes: int | None) -> str:
    """Return an entity's neighbourhood as a DOT graph; the parameters are those of `neighborhood`."""
    return dot(*neighborhood(db, entity, corpus, hops, max_nodes))


def to_mermaid(db: Database, entity: str | None, corpus: str | None, hops: int | None, max_nodes: int | None) -> str:
    """Return an entity's neighbourhood as a Mermaid flowchart; the parameters are those of `neighborhood`."""
    return mermaid(*neighborhood(db, entity, corpus, hops, max_nodes))


def community_to_dot(db: Database, community_id: int | None, max_nodes: int | None) -> str:
    """Return a community as a DOT graph; the parameters are those of `community`."""
    return dot(*community(db, community_id, max_nodes))


def community_to_mermaid(db: Database, community_id: int | None, max_nodes: int | None) -> str:
    """Return a community as a Mermaid flowchart; the parameters are those of `community`."""
    return mermaid(*community(db, community_id, max_nodes))


def community(db: Database, community_id: int | None, max_nodes: int | None) -> Picture:
    """Return the members of a community with the strongest relationships within it, and all relationships among them.

    Raises GraphRAGError: 42704 for a community that does not exist, or that the caller may not read; 22023 for `max_nodes`
      out of range.
    """
    limit = _check(max_nodes)
    # As the caller: the view shows communities only of corpora that he may read completely.
    corpora = db.query(
        "SELECT o.corpus FROM graphrag.community_overview o WHERE o.community_id = $1", ["int8"], [community_id]
    )
    if not corpora:
        raise GraphRAGError(
            f"there is no community {'null' if community_id is None else community_id}",
            sqlstate="42704",
            hint="SELECT community_id, level, title FROM graphrag.community_overview lists the communities.",
        )
    caller = caller_of(db, corpora[0]["corpus"])

    def run() -> Picture:
        query = graph_query(db, caller)
        arguments = [community_id, limit, float(graph_of(query).chunk_count())]
        members = db.query(_MEMBERS, ["int8", "int4", "float8"], arguments)
        return _subgraph(query, [row["entity_id"] for row in members])

    return as_owner(db, run)


_MEMBERS = """
SELECT m.entity_id
  FROM graphrag.community_members m
  JOIN graphrag.entities e ON e.id = m.entity_id
  LEFT JOIN (SELECT u.id, pg_catalog.max(s.strength) AS strength, pg_catalog.sum(r.weight) AS weight
               FROM graphrag.community_members l
               JOIN graphrag.relationships r ON r.low_id = l.entity_id
               JOIN graphrag.community_members h ON h.entity_id = r.high_id AND h.community_id = l.community_id
               JOIN graphrag.entities a ON a.id = r.low_id
               JOIN graphrag.entities b ON b.id = r.high_id
              CROSS JOIN LATERAL (SELECT graphrag._strength(r.weight::double precision, r.mention_count, a.mention_count,
                                                            b.mention_count, $3) AS strength) s
              CROSS JOIN LATERAL (VALUES (r.low_id), (r.high_id)) AS u (id)
              WHERE l.community_id = $1 GROUP BY u.id) w ON w.id = m.entity_id
 WHERE m.community_id = $1
 ORDER BY w.strength DESC NULLS LAST, w.weight DESC NULLS LAST, e.key
 LIMIT $2
"""


def neighborhood(
    db: Database, entity: str | None, corpus: str | None, hops: int | None, max_nodes: int | None
) -> Picture:
    """Return an entity, its nearest and strongest neighbours, and all relationships among these.

    Only those that documents visible to the caller state.

    Raises GraphRAGError: 42704 for an unknown entity or corpus, 22023 for `max_nodes` or `hops` out of range.
    """
    limit = _check(max_nodes)
    depth = check_hops(hops)
    caller = caller_of(db, corpus)

    def run() -> Picture:
        query = graph_query(db, caller)
        start = graph_of(query).named([key(bounds.name(entity))])
        if not start:
            raise GraphRAGError(
                f'corpus "{corpus}" has no entity "{entity}"',
                sqlstate="42704",
                hint="SELECT name FROM graphrag.search_entities(…) finds entities by what they are about.",
            )
        neighbor_ids = ids_around(query, start[-1]["key"], depth, limit - 1)
        own_id = row_names(query).own(start[-1]["id"])
        return _subgraph(query, [own_id, *neighbor_ids], own_id)

    return as_owner(db, run)


def _check(max_nodes: int | None) -> int:
    if max_nodes is None or not 1 <= max_nodes <= MAX_NODES:
        raise GraphRAGError(
            f"max_nodes cannot be {'null' if max_nodes is None else max_nodes}",
            hint=f"Give 1 to {MAX_NODES}; pg-graphrag plot draws larger graphs.",
        )
    return max_nodes


def _subgraph(query: Query, entity_ids: list[int], marked_id: int | None = None) -> Picture:
    """Return entities in the given order, and the relationships among them, strongest first; names of a row are its entity."""
    graph, names = graph_of(query), row_names(query)
    names.rows(entity_ids)
    entity_ids = list(dict.fromkeys(map(names.own, entity_ids)))
    place = {entity: number for number, entity in enumerate(entity_ids)}
    nodes = sorted(graph.entities(entity_ids), key=lambda row: place[row["id"]])
    also = [name for of_row in names.names(entity_ids).values() for name in of_row]
    edges = graph.among([*entity_ids, *also])
    strength = dict(zip(edges.ids.tolist(), strengths(query, edges).tolist(), strict=True))
    related = names.relationships(graph.relationships(edges.ids.tolist()))
    rows = {row["id"]: row for row in related}
    ends = {row["id"]: (names.own(row["source_id"]), names.own(row["target_id"])) for row in graph.ends(list(rows))}
    order = sorted(
        rows, key=lambda number: (-strength[number], -rows[number]["weight"], *(place[end] for end in ends[number]))
    )
    attributes = _attributes(query, entity_ids)
    return [
        Node(
            row["id"],
            row["name"],
            row["type"],
            row["description"],
            row["id"] == marked_id,
            tuple(attributes.get(row["id"], [])[:MAX_ATTRIBUTES]),
        )
        for row in nodes
    ], [_edge(rows[number], *ends[number]) for number in order]


# The value of each attribute that most visible chunks give.
_ATTRIBUTES = """
SELECT DISTINCT ON (m.entity_id, x.key) m.entity_id, x.key AS name, x.value #>> '{}' AS value
  FROM graphrag.entity_mentions m
 CROSS JOIN LATERAL pg_catalog.jsonb_each(m.attributes) x
 WHERE m.entity_id = ANY ($1) AND m.attributes IS NOT NULL AND ($2 IS NULL OR m.document_id = ANY ($2))
 GROUP BY m.entity_id, x.key, x.value
 ORDER BY m.entity_id, x.key, pg_catalog.count(*) DESC, x.value::text COLLATE "C"
"""


def _attributes(query: Query, entities: list[int]) -> dict[int, list[tuple[str, str]]]:
    """Return {entity: (name, value) of its attributes, in the order of names}."""
    attributes: dict[int, list[tuple[str, str]]] = {}
    for row in query.db.query(_ATTRIBUTES, ["int8[]", "int8[]"], [entities, query.visible_ids]):
        if row["value"] is not None:
            attributes.setdefault(row["entity_id"], []).append((row["name"], row["value"]))
    return attributes


def _edge(row: Row, source: int, target: int) -> Edge:
    return Edge(source, target, ", ".join(row["keywords"]), row["description"], row["weight"])


def dot(nodes: list[Node], edges: list[Edge]) -> str:
    """Return a graph in the DOT language (graphviz.org/doc/info/lang.html)."""
    lines = [
        "graph {",
        "  graph [overlap=false, splines=true];",
        '  node [shape=box, style="rounded,filled", fillcolor="#f4f6f8", color="#7a8794", fontname="sans-serif"];',
        '  edge [color="#9aa5b1", fontname="sans-serif", fontsize=9];',
    ]
    for node in nodes:
        facts = ", ".join(node.facts())
        tooltip = _shortened(f"{facts}: {node.description}" if node.description else facts, MAX_TOOLTIP)
        more = ', fillcolor="#ffe8a3", penwidth=2' if node.is_marked else ""
        lines.append(f"  n{node.id} [label={_dot_string(node.name)}, tooltip={_dot_string(tooltip)}{more}];")
    for edge in edges:
        label = f"label={_dot_string(_shortened(edge.keywords, MAX_LABEL))}, " if edge.keywords else ""
        lines.append(
            f"  n{edge.source} -- n{edge.target} [{label}tooltip={_dot_string(_shortened(edge.description, MAX_TOOLTIP))},"
            f" weight={max(1, round(edge.weight))}, penwidth={_width(edge.weight)}];"
        )
    return "\n".join([*lines, "}", ""])


def mermaid(nodes: list[Node], edges: list[Edge]) -> str:
    """Return a Mermaid flowchart (mermaid.js.org/syntax/flowchart.html) with at most `MERMAID_EDGES` edges, the strongest."""
    lines = ["graph LR"]
    if len(edges) > MERMAID_EDGES:
        lines.append(f"  %% the strongest {MERMAID_EDGES} of {len(edges)} relationships")
    lines += [f'  n{node.id}["{_encoded(_mermaid_label(node))}"]' for node in nodes]
    names = {node.id: node.name for node in nodes}
    for edge in edges[:MERMAID_EDGES]:
        text = edge.keywords or words_between(edge.description, names[edge.source], names[edge.target])
        label = f'|"{_encoded(_shortened(text, MAX_LABEL))}"|' if text else ""
        lines.append(f"  n{edge.source} ---{label} n{edge.target}")
    lines += [f"  style n{node.id} stroke-width:3px" for node in nodes if node.is_marked]
    return "\n".join([*lines, ""])


def _mermaid_label(node: Node) -> str:
    """Return its name, with type and attributes below where it has attributes: a tooltip takes a script there."""
    facts = node.facts() if node.attributes else []
    return "\n".join([node.name, *(_shortened(fact, MAX_LABEL) for fact in facts)])


def words_between(sentence: str, source: str, target: str) -> str:
    """Return what a sentence says between two names, in either order; the sentence, where it has not both of them."""
    text = sentence.casefold()
    for first, second in ((source, target), (target, source)):
        start = text.find(first.casefold())
        end = text.find(second.casefold(), start + len(first))
        # Folding changes the length of few texts; places in these are not those of the sentence.
        if 0 <= start < end and len(text) == len(sentence):
            return sentence[start + len(first) : end].strip(" ,;:")
    return sentence


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def _width(weight: float) -> str:
    """Return a line's width in points: by the logarithm, since weights of a hub and of a single mention are far apart."""
    return f"{min(1 + math.log2(max(weight, 1)) / 2, 6):.3g}"


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
# Text that Graphviz reads as an HTML entity.
_ENTITY = re.compile(r"&(?=#?\w+;)")


def _dot_string(text: str) -> str:
    r"""Return a DOT string that shows `text`; ``\N``, ``\l`` and similar sequences and HTML entities are shown literally."""
    text = _ENTITY.sub("&amp;", _CONTROL.sub("", text))
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


# Quotes end a Mermaid label; the others are, in some places and versions, markup, Markdown, mathematics or directives.
_MARKUP = re.compile(r"[!-&*/:-@\[-`{-~]")
# A label that begins like a list is refused.
_LIST = re.compile(r"^\s*(?:\d+(\.)|([-+]))", re.M)


def _encoded(text: str) -> str:
    """Return a Mermaid label that shows `text`, punctuation as ``#code;``."""
    text = _CONTROL.sub("", text)
    lists = {match.start(1) if match[1] else match.start(2) for match in _LIST.finditer(text)}
    text = "".join(
        f"#{ord(character)};" if position in lists or _MARKUP.match(character) else character
        for position, character in enumerate(text)
    )
    return text.replace("\n", "<br/>")
