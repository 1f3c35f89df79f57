"""The nodes and edges of a corpus that the caller may see, one by one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

from pg_graphrag.ground.errors import GraphRAGError, missing_package

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, slots=True)
class Node:
    """An entity, as ``graphrag.graph_nodes`` shows it, its community at each level that reaches it, and its attributes.

    `origin`: documents, rows, both or people. `values`: {attribute: value}, the one that most chunks give.
    """

    entity_id: int
    key: str
    name: str
    type: str
    description: str
    degree: int
    mention_count: int
    communities: Mapping[int, int] = field(default_factory=dict)
    origin: str = "documents"
    values: Mapping[str, Any] = field(default_factory=dict)

    def attributes(self) -> dict[str, Any]:
        """Return all columns, a community by ``community_<level>``, 0 the coarsest, an attribute by ``attribute_<name>``."""
        columns = asdict(self)
        del columns["communities"], columns["values"]
        columns |= {f"community_{level}": number for level, number in sorted(self.communities.items())}
        return columns | {f"attribute_{name}": value for name, value in sorted(self.values.items())}


@dataclass(frozen=True, slots=True)
class Edge:
    """A relationship, as ``graphrag.graph_edges`` shows it; `source` and `target` are keys of nodes."""

    relationship_id: int
    source_id: int
    target_id: int
    source: str
    target: str
    keywords: list[str]
    description: str
    weight: float
    mention_count: int
    pmi: float | None
    origin: str = "documents"
    strength: float | None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """How many levels of communities the nodes that follow are in, and {attribute: JSON type of all its values} of these."""

    count: int
    attributes: Mapping[str, str] = field(default_factory=dict)


Item: TypeAlias = Levels | Node | Edge

# One statement, so one snapshot: no edge without its nodes. The first row says that the corpus exists, how many levels of
# communities and which attributes it has; nodes come before edges, since a cursor's query is not run in parallel and Append goes
# through its parts in order. A FULL JOIN never loops, however few rows are expected; with IS NOT NULL it would become another.
GRAPH = """
WITH shown AS MATERIALIZED (
    SELECT m.entity_id, m.community_id, m.level FROM graphrag.community_entities m WHERE m.corpus = %(corpus)s
), home AS MATERIALIZED (
    SELECT s.entity_id, pg_catalog.jsonb_object_agg(s.level, s.community_id) AS communities
      FROM shown s
     GROUP BY s.entity_id
), given AS MATERIALIZED (
    SELECT DISTINCT ON (a.entity_id, a.attribute) a.entity_id, a.attribute, a.value
      FROM graphrag.entity_attributes a
     WHERE a.corpus = %(corpus)s AND pg_catalog.jsonb_typeof(a.value) <> 'null'
     ORDER BY a.entity_id, a.attribute, a.mention_count DESC, a.value::text COLLATE "C"
), attributes AS (
    SELECT g.entity_id, pg_catalog.jsonb_object_agg(g.attribute, g.value) AS values FROM given g GROUP BY g.entity_id
), types AS (
    SELECT g.attribute, CASE pg_catalog.count(DISTINCT pg_catalog.jsonb_typeof(g.value)) WHEN 1
                        THEN pg_catalog.min(pg_catalog.jsonb_typeof(g.value)) ELSE 'string' END AS type
      FROM given g GROUP BY g.attribute
)
SELECT 0 AS kind, (SELECT coalesce(pg_catalog.max(s.level) + 1, 0) FROM shown s)::bigint AS id,
       NULL::bigint AS source_id, NULL::bigint AS target_id, NULL AS key, NULL AS name,
       NULL AS type, NULL::text[] AS keywords, NULL AS description, NULL::int AS degree, NULL::double precision AS weight,
       NULL::int AS mention_count, NULL::double precision AS pmi, NULL::jsonb AS communities,
       NULL AS origin, (SELECT pg_catalog.jsonb_object_agg(t.attribute, t.type) FROM types t) AS attributes,
       NULL::double precision AS strength
  FROM graphrag.corpora c
 WHERE c.name = %(corpus)s
 UNION ALL
SELECT 1, n.entity_id, NULL, NULL, n.key, n.name, n.type, NULL, n.description, n.degree, NULL, n.mention_count, NULL,
       h.communities, n.origin, a.values, NULL
  FROM (SELECT x.* FROM graphrag.graph_nodes x WHERE x.corpus = %(corpus)s) n
  FULL JOIN home h ON h.entity_id = n.entity_id
  FULL JOIN attributes a ON a.entity_id = n.entity_id
 WHERE pg_catalog.num_nulls(n.entity_id) = 0
 UNION ALL
SELECT 2, e.relationship_id, e.source_id, e.target_id, NULL, NULL, NULL, e.keyword_list, e.description, NULL, e.weight,
       e.mention_count, e.pmi, NULL, e.origin, NULL, e.strength
  FROM graphrag.graph_edges e
 WHERE e.corpus = %(corpus)s
"""
# The plan of a cursor is one for its first rows: nested loops, which for all rows take many times as long.
FOR_ALL_ROWS = "SET LOCAL cursor_tuple_fraction = 1"


def items(corpus: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[Item]:
    """Make nodes and edges of the rows of `GRAPH`; the number of levels comes first.

    Raises GraphRAGError: 42704 when there is no such corpus.
    """
    keys: dict[int, str] = {}
    exists = False
    for (
        kind,
        number,
        source,
        target,
        key,
        name,
        type_,
        keywords,
        description,
        degree,
        weight,
        mentions,
        pmi,
        home,
        origin,
        attributes,
        strength,
    ) in rows:
        if kind == 0:
            yield Levels(number, attributes or {})
        elif kind == 1:
            keys[number] = key
            communities = {int(level): community for level, community in (home or {}).items()}
            yield Node(number, key, name, type_, description, degree, mentions, communities, origin, attributes or {})
        elif kind == 2:
            ends = source, target, keys[source], keys[target]
            yield Edge(number, *ends, keywords, description, weight, mentions, pmi, origin, strength)
        exists = True
    if not exists:
        raise GraphRAGError(
            f'corpus "{corpus}" does not exist',
            sqlstate="42704",
            hint="SELECT name FROM graphrag.corpora lists the corpora.",
        )


def stream(connection: psycopg.Connection[Any], corpus: str) -> Iterator[Item]:
    """Read the graph through a cursor of the server: memory holds the keys of the nodes, not their texts."""
    with connection.transaction(), connection.cursor("graphrag_graph", row_factory=psycopg.rows.tuple_row) as cursor:
        connection.execute(FOR_ALL_ROWS)
        cursor.itersize = 1000
        cursor.execute(GRAPH, {"corpus": corpus})
        yield from items(corpus, cursor)


def to_networkx(graph_items: Iterable[Item]) -> "networkx.Graph[str]":
    """Return an undirected graph whose nodes are keys of entities; every column is an attribute, also the community at each
    level, as `community_0` (the coarsest), `community_1`, …, and what documents or rows give, as `attribute_<name>`.

    Relationships are pairs: the direction in which most mentions state one is in its attributes `source` and `target`.
    """
    try:
        import networkx
    except ModuleNotFoundError as error:
        raise missing_package("to_networkx needs", "networkx", "networkx") from error
    graph: networkx.Graph[str] = networkx.Graph()
    for item in graph_items:
        if isinstance(item, Node):
            graph.add_node(item.key, **item.attributes())
        elif isinstance(item, Edge):
            graph.add_edge(item.source, item.target, **asdict(item))
    return graph
