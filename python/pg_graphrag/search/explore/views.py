"""Rows of graph_nodes and graph_edges in corpora that the caller sees in part: what the visible documents state.

One row holds the columns of all items of a corpus, packed as array literals: a Python object for each number would take
longer than reading it. Where a value is null, or a column ends before the item, the view takes the merged row's value.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from hmac import compare_digest
from math import log
from sys import getsizeof
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Flags, Ids, NDArray, Places, np
from pg_graphrag.search.explore.neighbors import graph_query
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.edge_strength import strengths_of
from pg_graphrag.search.graph_view.joined_nodes import JoinedGraph
from pg_graphrag.search.graph_view.visible_chunks import key_of
from pg_graphrag.search.graph_view.visible_graph import whole_visible_graph
from pg_graphrag.search.graph_view.visible_texts import Text
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Database, Row
from pg_graphrag.server.access.caller import Caller, caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.caches.session_cache import cache

# As the caller. The views themselves show corpora that he sees completely; nothing shows those that he may not read.
_SEEN_IN_PART = """
SELECT c.name
  FROM graphrag.corpora c
 WHERE graphrag._may_use(c.id) AND (NOT graphrag._reads_whole(c.id) OR c.id = ANY ($1))
 ORDER BY c.id
"""
# As the owner. Merged rows of these corpora tell of documents that are gone; and what the views ask with (120_visible_rows.sql).
_STATE = """
SELECT ARRAY(SELECT r.corpus_id FROM graphrag._removals r) AS removals, (SELECT s.secret FROM graphrag._view_secret s) AS secret
"""
_ALL = "SELECT pg_catalog.array_agg(x.id)::text AS ids FROM graphrag.{table} x WHERE x.corpus_id = $1"


def nodes(db: Database, secret: str | None) -> list[Row]:
    """Return a row for each corpus that the caller sees in part: corpus, chunks, and columns of entities; to the view alone."""
    return _of_corpora(db, secret, _nodes)


def edges(db: Database, secret: str | None) -> list[Row]:
    """Return the same with columns of relationships."""
    return _of_corpora(db, secret, _edges)


def all_valid_at(db: Database, corpus: str | None, moment: str | None) -> str | None:
    """Return the corpus, or its history, if views can show its graph at a moment and need no other graph for it; else None."""
    (state,) = as_owner(db, lambda: db.query(_STATE))
    # First: which documents somebody sees in part takes long to say, and _at asks it.
    if _seen_in_part(db, state["removals"]):
        return None
    caller = _caller_at(db, corpus, moment)
    is_whole = as_owner(db, lambda: graph_query(db, caller).visible is None)
    return caller.corpus if is_whole else None


def nodes_at(db: Database, corpus: str | None, moment: str | None) -> list[Row]:
    """Return rows like graphrag.graph_nodes, of the graph made by the documents that are valid at a moment (ISO 8601)."""
    return _at(db, corpus, moment, "graph_nodes", "entity_id", lambda query, graph: _node_rows(query, graph))


def edges_at(db: Database, corpus: str | None, moment: str | None) -> list[Row]:
    """Return rows like graphrag.graph_edges, of the same graph."""
    return _at(db, corpus, moment, "graph_edges", "relationship_id", lambda query, graph: _edge_rows(query, graph))


def _at(
    db: Database,
    corpus: str | None,
    moment: str | None,
    view: str,
    key: str,
    rows_of: Callable[[Query, JoinedGraph], list[Row]],
) -> list[Row]:
    caller = _caller_at(db, corpus, moment)

    def read() -> list[Row]:
        query = graph_query(db, caller)
        if query.visible is not None:
            return rows_of(query, JoinedGraph(query, whole_visible_graph(query)))
        # All documents are valid: the owner sees the corpus whole.
        sql = f"SELECT v.* FROM graphrag.{view} v WHERE v.corpus = $1 ORDER BY v.{key}"
        return db.query(sql, ["text"], [query.corpus.name])

    return as_owner(db, read)


def _caller_at(db: Database, corpus: str | None, moment: str | None) -> Caller:
    return caller_of(db, corpus, json.dumps({"$as_of": moment}))


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


def _of_corpora(db: Database, secret: str | None, read_row: Callable[[Query], Row]) -> list[Row]:
    (state,) = as_owner(db, lambda: db.query(_STATE))
    if not secret or not state["secret"] or not compare_digest(secret.encode(), state["secret"].encode()):
        raise GraphRAGError(
            "this function cannot be called directly",
            sqlstate="42501",
            hint="Read graphrag.graph_nodes and graphrag.graph_edges.",
        )
    callers = [caller_of(db, name) for name in _seen_in_part(db, state["removals"])]
    return [
        as_owner(db, partial(_row_of, db, caller, read_row))
        for caller in callers
        if caller.documents is None or len(caller.documents)
    ]


def _seen_in_part(db: Database, removals: list[int]) -> list[str]:
    return [row["name"] for row in db.query(_SEEN_IN_PART, ["int4[]"], [removals])]


def _row_of(db: Database, caller: Caller, read_row: Callable[[Query], Row]) -> Row:
    query = graph_query(db, caller)
    # The views have no merged rows of it.
    query = query.existing() if query.corpus.awaits_removals else query
    if query.visible is None or query.corpus.has_rows:
        return read_row(query)
    # Packed, it takes a twentieth of the graph from which it would otherwise be made each time.
    corpus, key = query.corpus, key_of(query, read_row.__name__)
    row: Row | None = cache.get(corpus, key)
    if row is None:
        row = read_row(query)
        size = sum(getsizeof(column) for column in row.values())
        size += sum(getsizeof(text) for column in row.values() if isinstance(column, list) for text in column)
        if corpus.revision is not None and size <= cache.room(corpus, key):
            cache.put(corpus, key, row, size)
    return row


# Columns that are null where the merged rows are the caller's.
_OF_NODES = ("names", "types", "entity_descriptions", "degrees", "entity_mention_counts", "entity_origins")
_OF_EDGES = (
    *("relationship_ids", "source_ids", "target_ids", "weights", "relationship_mention_counts", "keywords"),
    *("relationship_descriptions", "relationship_origins"),
)
# Items that visible documents mention and state, whether documents do, and whether rows do.
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
        return row | (
            _joined_nodes(query)
            if query.corpus.has_rows
            else dict.fromkeys(_OF_NODES) | _all_items(query, "entity", "entities")
        )
    graph = JoinedGraph(query, whole_visible_graph(query))
    places, texts = _entities(graph)
    of_origins = (graph.topology.entities.ids[graph.with_names(places[[index]])] for index in range(len(places)))
    return (
        row
        | _entity_columns(graph, places, texts)
        | {
            "entity_descriptions": [text.description for text in texts],
            "degrees": _literal(graph.degrees(places)),
            "entity_origins": _origins(query, "entity", of_origins),
        }
    )


def _edges(query: Query) -> Row:
    if query.visible is None:
        return _nodes(query) | (
            _joined_edges(query)
            if query.corpus.has_rows
            else dict.fromkeys(_OF_EDGES) | _all_items(query, "relationship", "relationships")
        )
    graph = JoinedGraph(query, whole_visible_graph(query))
    topology, own = graph.topology, graph.own
    places: Places = np.flatnonzero(own[topology.low] != own[topology.high])
    low, high = topology.low[places], topology.high[places]
    is_of_name = (own[low] != low) | (own[high] != high)
    places, own_count = _own_first(places, topology.as_merged["relationship"][places] & ~is_of_name)
    ids = topology.relationships.ids[places]
    own_places, own_ids = places[:own_count], ids[:own_count]
    sources = topology.sources[own_places]
    targets = own[topology.low[own_places] + topology.high[own_places] - sources]
    sources = own[sources]
    texts = graph.graph.texts_of("relationship", own_ids)
    return {
        "corpus": query.corpus.name,
        "chunks": graph.graph.chunk_count(),
        **_entity_columns(graph, *_entities(graph)),
        "relationship_ids": _literal(ids),
        "source_ids": _literal(topology.entities.ids[sources]),
        "target_ids": _literal(topology.entities.ids[targets]),
        "weights": _literal(topology.weights[own_places]),
        "relationship_mention_counts": _literal(topology.stating_counts[own_places]),
        "keywords": [_array_literal(texts[item].keywords) for item in own_ids.tolist()],
        "relationship_descriptions": [texts[item].description for item in own_ids.tolist()],
        "relationship_origins": _origins(query, "relationship", ids[:, None]),
    }


def _entities(graph: JoinedGraph) -> tuple[Places, list[Text]]:
    """Return the places of entities, (n,), and the texts of the first: the others' are as merged."""
    places = graph.topology.entities.places(graph.entity_ids())
    places, own_count = _own_first(places, graph.topology.as_merged["entity"][places])
    own_ids = graph.topology.entities.ids[places[:own_count]]
    texts = graph.graph.texts_of("entity", own_ids)
    return places, [texts[item] for item in own_ids.tolist()]


def _entity_columns(graph: JoinedGraph, places: Places, texts: list[Text]) -> Row:
    return {
        "entity_ids": _literal(graph.topology.entities.ids[places]),
        "names": [text.name for text in texts],
        "types": [text.type for text in texts],
        "entity_mention_counts": _literal(graph.mention_counts(places)),
    }


def _own_first(places: Places, as_merged: Flags) -> tuple[Places, int]:
    """Return places, (n,), those first that are not as merged, and how many these are."""
    return places[np.argsort(as_merged, kind="stable")], int((~as_merged).sum())


def _origins(query: Query, kind: str, items: Iterable[Ids]) -> list[str] | None:
    """Return what mentions or states each of `items`, ids of one thing each; None where documents alone do."""
    if not query.corpus.has_rows:
        return None
    source_rows = query.db.query(_ORIGINS.format(kind=kind), ["int8[]"], [query.visible_ids])
    sources = {row["id"]: (row["by_documents"], row["by_rows"]) for row in source_rows}
    origins = []
    for ids in items:
        flags = [sources[item] for item in ids.tolist() if item in sources]
        names = [name for name, place in (("documents", 0), ("rows", 1)) if any(pair[place] for pair in flags)]
        origins.append(", ".join(names) or "people")
    return origins


# As the owner, who sees the whole corpus, for a caller who sees all its documents: with the names of rows joined.
_JOINED_NODES = """
SELECT v.entity_id, v.name, v.type, v.description, v.degree, v.mention_count, v.origin
  FROM graphrag.graph_nodes v WHERE v.corpus = $1 ORDER BY v.entity_id
"""
_JOINED_EDGES = """
SELECT v.relationship_id, v.source_id, v.target_id, v.weight, v.mention_count, v.keyword_list, v.description, v.origin
  FROM graphrag.graph_edges v WHERE v.corpus = $1 ORDER BY v.relationship_id
"""


def _joined_nodes(query: Query) -> Row:
    rows = query.db.query(_JOINED_NODES, ["text"], [query.corpus.name])
    return {
        "entity_ids": _literal(_column(rows, "entity_id")),
        "names": [row["name"] for row in rows],
        "types": [row["type"] for row in rows],
        "entity_descriptions": [row["description"] for row in rows],
        "degrees": _literal(_column(rows, "degree")),
        "entity_mention_counts": _literal(_column(rows, "mention_count")),
        "entity_origins": [row["origin"] for row in rows],
    }


def _joined_edges(query: Query) -> Row:
    rows = query.db.query(_JOINED_EDGES, ["text"], [query.corpus.name])
    return {
        "relationship_ids": _literal(_column(rows, "relationship_id")),
        "source_ids": _literal(_column(rows, "source_id")),
        "target_ids": _literal(_column(rows, "target_id")),
        "weights": _literal(np.array([row["weight"] for row in rows], float)),
        "relationship_mention_counts": _literal(_column(rows, "mention_count")),
        "keywords": [_array_literal(tuple(row["keyword_list"])) for row in rows],
        "relationship_descriptions": [row["description"] for row in rows],
        "relationship_origins": [row["origin"] for row in rows],
    }


def _column(rows: list[Row], name: str) -> Ids:
    return np.array([row[name] for row in rows], np.int64)


def _all_items(query: Query, kind: str, table: str) -> Row:
    """Return a row with the ids of all items, for a caller who sees all documents."""
    return {f"{kind}_ids": query.db.value(_ALL.format(table=table), ["int4"], [query.corpus.id])}


def _literal(values: NDArray[Any]) -> str:
    """Return numbers, (n,), as an array literal."""
    return f"{{{str(values.tolist())[1:-1]}}}"


def _array_literal(words: tuple[str, ...]) -> str:
    """Return texts as an array literal."""
    escaped = (word.replace("\\", "\\\\").replace('"', '\\"') for word in words)
    return "{" + ",".join(f'"{word}"' for word in escaped) + "}"
