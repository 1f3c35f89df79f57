"""graph_nodes and graph_edges of corpora that the caller sees in part: the statements of his documents.

A row holds the columns of all items of a corpus, packed: as array literals, since a Python object for each number would take
longer than reading it. Whoever may read the views may ask for these rows by themselves: nothing of them, not the order of items
nor how a value is written, may tell what hidden documents state.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from math import log
from typing import Any

from pg_graphrag.access.caller import Caller, caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.numeric import Flags, Ids, NDArray, np
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.edge_strength import strengths_of
from pg_graphrag.retrieval.joined_graph import JoinedGraph
from pg_graphrag.retrieval.neighbors import graph_query
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.row_state import has_rows
from pg_graphrag.retrieval.visible_graph import VisibleGraph, whole_visible_graph
from pg_graphrag.retrieval.visible_texts import Text
from pg_graphrag.server import Database, Row

# As the caller. The views themselves show corpora that he sees completely; nothing shows those that he may not read.
_SEEN_IN_PART = """
SELECT c.name
  FROM graphrag.corpora c
 WHERE graphrag._may_use(c.id) AND (NOT graphrag._reads_whole(c.id) OR c.id = ANY ($1))
 ORDER BY c.id
"""
# As the owner. Merged rows of these corpora tell of documents that are gone.
_REMOVALS = "SELECT r.corpus_id FROM graphrag._removals r"


def nodes(db: Database) -> list[Row]:
    """Return a row for each corpus that the caller sees in part: corpus, chunks, and columns of entities."""
    return _of_corpora(db, _nodes)


def edges(db: Database) -> list[Row]:
    """Return the same with columns of relationships."""
    return _of_corpora(db, _edges)


def nodes_at(db: Database, corpus: str | None, moment: str | None) -> list[Row]:
    """Return rows as of graphrag.graph_nodes, of the graph that the documents make which are valid at a moment (ISO 8601)."""
    return _at(db, corpus, moment, "graph_nodes", "entity_id", lambda query, graph: _node_rows(query, graph))


def edges_at(db: Database, corpus: str | None, moment: str | None) -> list[Row]:
    """Return rows as of graphrag.graph_edges, of the same graph."""
    return _at(db, corpus, moment, "graph_edges", "relationship_id", lambda query, graph: _edge_rows(query, graph))


def _at(
    db: Database,
    corpus: str | None,
    moment: str | None,
    view: str,
    key: str,
    rows_of: Callable[[Query, JoinedGraph], list[Row]],
) -> list[Row]:
    caller = caller_of(db, corpus, json.dumps({"$as_of": moment}))

    def read() -> list[Row]:
        query = graph_query(db, caller)
        if query.visible is not None:
            return rows_of(query, JoinedGraph(query, whole_visible_graph(query)))
        # All documents are valid: the owner sees the corpus whole.
        sql = f"SELECT v.* FROM graphrag.{view} v WHERE v.corpus = $1 ORDER BY v.{key}"
        return db.query(sql, ["text"], [query.corpus.name])

    return as_owner(db, read)


def _node_rows(query: Query, graph: JoinedGraph) -> list[Row]:
    rows = graph.entities(graph.entity_ids().tolist())
    return [{"corpus": query.corpus.name, "entity_id": row.pop("id"), **row} for row in rows]


def _edge_rows(query: Query, graph: JoinedGraph) -> list[Row]:
    entities = {row["id"]: row for row in graph.entities(graph.entity_ids().tolist())}
    chunks = graph.graph.chunk_count()
    rows = []
    for row in graph.relationships(np.sort(graph.topology.relationships.ids).tolist()):
        source, target = entities[row["source_id"]], entities[row["target_id"]]
        counts = row["mention_count"], source["mention_count"], target["mention_count"]
        nats = _nats(*counts, chunks) if min(*counts, chunks) > 0 else None
        rows.append(
            {
                "corpus": query.corpus.name,
                "relationship_id": row["id"],
                **{name: row[name] for name in ("source_id", "source", "target_id", "target", "description", "weight")},
                "source_type": source["type"],
                "target_type": target["type"],
                "keywords": ", ".join(row["keywords"]),
                "keyword_list": row["keywords"],
                "mention_count": row["mention_count"],
                "pmi": None if nats is None else row["mention_count"] / chunks * nats / log(2),
                "strength": None if nats is None else float(strengths_of(row["weight"], *counts, chunks)),
            }
        )
    return rows


def _nats(pair: int, source: int, target: int, chunks: int) -> float:
    """Return the pointwise mutual information of two entities, in nats; as in graph_edges, to the last digit."""
    return log(pair * chunks / source / target)


def _of_corpora(db: Database, read_row: Callable[[Query], Row]) -> list[Row]:
    removals = [row["corpus_id"] for row in as_owner(db, lambda: db.query(_REMOVALS))]
    callers = [caller_of(db, row["name"]) for row in db.query(_SEEN_IN_PART, ["int4[]"], [removals])]
    return [
        as_owner(db, partial(_row_of, db, caller, read_row))
        for caller in callers
        if caller.documents is None or len(caller.documents)
    ]


def _row_of(db: Database, caller: Caller, read_row: Callable[[Query], Row]) -> Row:
    query = graph_query(db, caller)
    # The views have no merged rows of it.
    return read_row(query.existing() if query.corpus.awaits_removals else query)


def _packed(columns: dict[str, str], order: str) -> str:
    return ", ".join(
        f"coalesce(pg_catalog.array_agg({value} ORDER BY {order})::text, '{{}}') AS {name}"
        for name, value in columns.items()
    )


# As the owner, who sees the corpus whole, of a caller who sees all its documents.
_WHOLE_NODES = f"""
SELECT {
    _packed(
        {
            "entity_ids": "v.entity_id",
            "keys": "v.key",
            "names": "v.name",
            "types": "v.type",
            "entity_descriptions": "v.description",
            "degrees": "v.degree",
            "entity_mention_counts": "v.mention_count",
            "entity_origins": "v.origin",
        },
        "v.entity_id",
    )
}
  FROM graphrag.graph_nodes v WHERE v.corpus = $1
"""
_WHOLE_EDGES = f"""
SELECT {
    _packed(
        {
            "relationship_ids": "v.relationship_id",
            "source_ids": "v.source_id",
            "target_ids": "v.target_id",
            "weights": "v.weight",
            "relationship_mention_counts": "v.mention_count",
            "keywords": "v.keyword_list::text",
            "relationship_descriptions": "v.description",
            "relationship_origins": "v.origin",
        },
        "v.relationship_id",
    )
}
  FROM graphrag.graph_edges v WHERE v.corpus = $1
"""
# Texts of items, $1, in their order: those given, and of the others those of the merged rows.
_NODE_TEXTS = f"""
SELECT ($5::text[])::text AS entity_origins, {
    _packed(
        {
            "keys": "e.key",
            "names": "coalesce(u.name, e.name)",
            "types": "coalesce(u.type, e.type)",
            "entity_descriptions": "coalesce(u.description, e.description)",
        },
        "u.place",
    )
}
  FROM ROWS FROM (pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2), pg_catalog.unnest($3), pg_catalog.unnest($4))
       WITH ORDINALITY AS u (id, name, type, description, place)
  JOIN graphrag.entities e ON e.id = u.id
"""
_EDGE_TEXTS = f"""
SELECT ($4::float8[])::text AS weights, ($5::text[])::text AS relationship_origins, {
    _packed(
        {
            "keywords": "coalesce(u.keywords::text[], r.keywords)::text",
            "relationship_descriptions": "coalesce(u.description, r.description)",
        },
        "u.place",
    )
}
  FROM ROWS FROM (pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2), pg_catalog.unnest($3))
       WITH ORDINALITY AS u (id, keywords, description, place)
  JOIN graphrag.relationships r ON r.id = u.id
"""
# Of what visible documents mention and state, whether documents do, and whether rows do.
_ORIGINS = """
SELECT m.{kind}_id AS id, pg_catalog.bool_or(NOT c.is_row) AS by_documents, pg_catalog.bool_or(c.is_row) AS by_rows
  FROM graphrag.chunks c
  JOIN graphrag.{kind}_mentions m ON m.chunk_id = c.id AND m.{kind}_id IS NOT NULL
 WHERE c.document_id = ANY ($1)
 GROUP BY m.{kind}_id
"""


def _nodes(query: Query) -> Row:
    row: Row = {"corpus": query.corpus.name, "chunks": graph_of(query).chunk_count()}
    if query.visible is None:
        whole = query.db.query(_WHOLE_NODES, ["text"], [query.corpus.name])[0]
        return row | whole | ({} if has_rows(query) else {"entity_origins": None})
    graph = JoinedGraph(query, whole_visible_graph(query))
    topology = graph.topology
    ids = graph.entity_ids()
    places = topology.entities.places(ids)
    texts = _texts(graph.graph, "entity", ids, ~topology.as_merged["entity"][places])
    literal = _literal(ids)
    own = [[text and getattr(text, name) for text in texts] for name in ("name", "type", "description")]
    members = (topology.entities.ids[graph.with_names(places[[index]])] for index in range(len(places)))
    arguments = [literal, *own, _origins(query, "entity", members)]
    return (
        row
        | query.db.query(_NODE_TEXTS, ["text", *4 * ["text[]"]], arguments)[0]
        | {
            "entity_ids": literal,
            "degrees": _literal(graph.degrees(places)),
            "entity_mention_counts": _literal(graph.mention_counts(places)),
        }
    )


def _edges(query: Query) -> Row:
    row = _nodes(query)
    if query.visible is None:
        whole = query.db.query(_WHOLE_EDGES, ["text"], [query.corpus.name])[0]
        return row | whole | ({} if has_rows(query) else {"relationship_origins": None})
    graph = JoinedGraph(query, whole_visible_graph(query))
    topology, own = graph.topology, graph.own
    places = np.argsort(topology.relationships.ids)
    places = places[own[topology.low[places]] != own[topology.high[places]]]
    ids = topology.relationships.ids[places]
    sources = topology.sources[places]
    targets = own[topology.low[places] + topology.high[places] - sources]
    texts = _texts(graph.graph, "relationship", ids, ~topology.as_merged["relationship"][places])
    literal = _literal(ids)
    arguments = [
        literal,
        [text and _array_literal(text.keywords) for text in texts],
        [text and text.description for text in texts],
        _literal(topology.weights[places]),
        _origins(query, "relationship", ids[:, None]),
    ]
    return (
        row
        | query.db.query(_EDGE_TEXTS, ["text", "text[]", "text[]", "text", "text[]"], arguments)[0]
        | {
            "relationship_ids": literal,
            "source_ids": _literal(topology.entities.ids[own[sources]]),
            "target_ids": _literal(topology.entities.ids[targets]),
            "relationship_mention_counts": _literal(topology.stating_counts[places]),
        }
    )


def _origins(query: Query, kind: str, items: Iterable[Ids]) -> list[str] | None:
    """Return what mentions or states each of `items`, ids of one thing each; None where documents alone do."""
    if not has_rows(query):
        return None
    source_rows = query.db.query(_ORIGINS.format(kind=kind), ["int8[]"], [query.visible_ids])
    sources = {row["id"]: (row["by_documents"], row["by_rows"]) for row in source_rows}
    origins = []
    for ids in items:
        flags = [sources[item] for item in ids.tolist() if item in sources]
        names = [name for name, place in (("documents", 0), ("rows", 1)) if any(pair[place] for pair in flags)]
        origins.append(", ".join(names) or "people")
    return origins


def _texts(graph: VisibleGraph, kind: str, ids: Ids, own_flags: Flags) -> list[Text | None]:
    """Return the texts of each item; None where `own_flags`, (n,) bool, is false: the merged row has them there."""
    texts = graph.texts_of(kind, ids[own_flags])
    return [texts[item] if is_own else None for item, is_own in zip(ids.tolist(), own_flags.tolist(), strict=True)]


def _literal(values: NDArray[Any]) -> str:
    """Return numbers, (n,), as an array literal."""
    return "{" + ",".join(map(str, values.tolist())) + "}"


def _array_literal(words: tuple[str, ...]) -> str:
    """Return texts as an array literal."""
    escaped = (word.replace("\\", "\\\\").replace('"', '\\"') for word in words)
    return "{" + ",".join(f'"{word}"' for word in escaped) + "}"
