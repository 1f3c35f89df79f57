"""Cypher over the Apache AGE projection of a corpus."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.index.graph.cypher_text import REFERENCE, Query, json_of, parse_cypher, with_types
from pg_graphrag.server import OWNER, Database, Row
from pg_graphrag.server.corpus import corpora
from pg_graphrag.server.corpus.corpora import Corpus

# From the catalogs alone: nothing is read of a schema before it is known whose it is.
_FLAW = """
SELECT CASE WHEN n.oid IS NOT NULL OR g.namespace IS NOT NULL
            THEN coalesce(graphrag._graph_flaw(c.graph_name),
                          CASE WHEN g.namespace IS DISTINCT FROM n.oid
                               THEN 'was not made for this corpus: it is from a restore or from an earlier installation' END)
       END AS flaw,
       n.oid IS NOT NULL OR g.namespace IS NOT NULL AS exists
  FROM graphrag.corpora c
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = c.graph_name
  LEFT JOIN graphrag._graphs g ON g.corpus_id = c.id
 WHERE c.id = $1
"""


def flaw_of_graph(db: Database, corpus: Corpus) -> tuple[bool, str | None]:
    """Return (whether there is a graph, anything of its name, or a record of one; what is wrong with it, or None).

    55000 if others than superusers may create in AGE's schema.
    """
    db.query("SELECT graphrag._check_age()")
    rows = db.query(_FLAW, ["int4"], [corpus.id])
    return (bool(rows[0]["exists"]), rows[0]["flaw"]) if rows else (False, None)


def has_graph(db: Database, corpus: Corpus) -> bool:
    """Return whether the corpus should have a graph, and has it; 55000 for a graph that is not its own or was changed."""
    if not corpus.options.cypher:
        return False
    exists, flaw = flaw_of_graph(db, corpus)
    if flaw is not None:
        name = corpus.name.replace("'", "''")
        raise GraphRAGError(
            f"graph {corpus.graph_name} {flaw}",
            sqlstate="55000",
            hint=f"SELECT graphrag.rebuild_graph('{name}') makes it from the tables; after a restore, SELECT graphrag.repair().",
        )
    return exists


# With the caller's rights: readers may read no more of a corpus than its name and number.
_STATE = f"""
SELECT c.graph_name, pg_catalog.pg_has_role({OWNER}, 'USAGE') AS is_owner,
       pg_catalog.pg_get_userbyid({OWNER})::text AS owner, pg_catalog.pg_is_in_recovery() AS standby,
       NOT graphrag._sees_all() AS row_security
  FROM graphrag.corpora c
 WHERE c.name = $1
"""

# Labels of the graphs' vertices (100_ensure_graph.sql).
_LABELS = frozenset({"Entity", "Chunk", "Document", "Community"})
# The labels of the graph, to which its owner may have added some, and the types of the corpus' rows.
_NAMES = """
SELECT ARRAY(SELECT l.name::text FROM ag_catalog.ag_label l JOIN ag_catalog.ag_graph g ON g.graphid = l.graph
              WHERE g.name = $2::name AND l.kind = 'v') AS labels,
       ARRAY(SELECT DISTINCT t.entity_type FROM graphrag._attached_tables t
              WHERE t.corpus_id = $1 AND t.entity_type IS NOT NULL ORDER BY 1) AS types
"""


# Rows of a fetch: a vertex may have a whole chunk.
_SLICE = 500


def cypher(db: Database, corpus: str | None, query: str | None, params: str | None) -> Iterator[str]:
    """Run a Cypher query that only reads; return one JSON object for each row, keyed by RETURN's aliases.

    `corpus`: the corpus whose graph is queried. One without a graph yet has no rows.
    `query`: Cypher; ``$name`` is a parameter. A label that the graph does not have is a type of entities.
    `params`: JSON object of the parameters.

    Raises GraphRAGError: see `cypher_text.parse_cypher`; 42704 for an unknown corpus, 22023 for parameters that do not fit, 42501
      if the caller is not the extension's owner, 55000 for a graph that is not the corpus's or that it should not have,
      0A000 for queries refused on a standby or under row-level security; AGE's own errors with a hint to its reference.
    """
    rows = db.query(_STATE, ["text"], [corpus])
    if not rows:
        raise corpora.unknown_corpus(db, corpus)
    state = rows[0]
    graph = state["graph_name"]
    read_query = parse_cypher(query or "")
    values = _parameters(read_query, params)
    _refuse_unsafe(read_query, state)
    if not state["is_owner"]:
        raise GraphRAGError(
            f"permission denied for graph {graph}",
            sqlstate="42501",
            hint=f"AGE does not keep readers from writing, so graphs belong to {state['owner']} alone. "
            "Use graphrag.neighbors(), or the views graphrag.graph_nodes and graphrag.graph_edges.",
        )
    this_corpus = corpora.find_corpus(db, corpus)
    if not this_corpus.options.cypher:
        name = this_corpus.name.replace("'", "''")
        raise GraphRAGError(
            f'corpus "{this_corpus.name}" has no graph for Cypher: its option cypher is false',
            sqlstate="55000",
            hint=f"SELECT graphrag.alter_corpus('{name}', '{{\"cypher\": true}}') makes it from the tables; "
            "graphrag.neighbors() and the views need none.",
        )
    if not has_graph(db, this_corpus):
        return iter(())
    names = [json.dumps(name, ensure_ascii=False) for name in read_query.columns]
    answers = _run(db, graph, replace(read_query, text=_with_types(db, this_corpus, read_query)), values)
    return (
        "{" + ", ".join(f"{name}: {json_of(row[f'c{i}'])}" for i, name in enumerate(names)) + "}" for row in answers
    )


def _with_types(db: Database, corpus: Corpus, query: Query) -> str:
    """Return the query's text with types in place of the labels that the graph does not have.

    Types of rows are found in small letters and large ones alike.
    """
    labels = {label.name for label in query.labels} - _LABELS
    if not labels:
        return query.text
    names = db.query(_NAMES, ["int4", "text"], [corpus.id, corpus.graph_name])[0]
    of_rows = {type_.casefold(): type_ for type_ in names["types"]}
    type_labels = labels - set(names["labels"])
    return with_types(
        query,
        {label: label if label in names["types"] else of_rows.get(label.casefold(), label) for label in type_labels},
    )


def _parameters(query: Query, params: str | None) -> str | None:
    """Return the parameters as agtype's text (JSON is a part of it), or None when the query has none."""
    values = read_json(params or "{}")
    if not isinstance(values, dict):
        raise GraphRAGError(f"params cannot be {str(params)[:100]}", hint='Give a JSON object: {"name": "value"}.')
    missing_names = query.parameters - values.keys()
    if missing_names:
        raise GraphRAGError(
            f"there is no value for ${min(missing_names)}",
            hint=f"Give it in params: graphrag.cypher(…, params => '{{\"{min(missing_names)}\": …}}').",
        )
    return params if query.parameters else None


def _refuse_unsafe(query: Query, state: Row) -> None:
    if query.loads_graph and (state["standby"] or state["row_security"]):
        raise GraphRAGError(
            "variable-length patterns are refused "
            + ("on a standby" if state["standby"] else "to roles under row-level security, which AGE passes by"),
            sqlstate="0A000",
            hint="Use graphrag.neighbors(entity, corpus, hops), or spell the hops out: (a)-[]->()-[]->(b).",
        )
    if query.fetches_vertices and state["row_security"]:
        raise GraphRAGError(
            "startNode and endNode are refused to roles under row-level security, which AGE passes by",
            sqlstate="0A000",
            hint="Name the ends in the pattern: (a)-[r]->(b).",
        )


def _run(db: Database, graph: str, query: Query, values: str | None) -> Iterator[Row]:
    # AGE rewrites cypher() only once it is loaded: evaluating its type's input does that where LOAD is not allowed.
    db.query("SELECT '1'::ag_catalog.agtype")
    tag = "$cypher$"
    while tag in query.text:
        tag = f"{tag[:-1]}_$"
    columns = ", ".join(f"c{i} ag_catalog.agtype" for i in range(len(query.columns)))
    call = f"ag_catalog.cypher('{graph}', {tag}{query.text}\n{tag}{'' if values is None else ', $1'})"
    statement = f"SELECT * FROM {call} AS ({columns})"
    types, arguments = ([], []) if values is None else (["ag_catalog.agtype"], [values])
    try:
        # Not through Database.query, which would keep a plan for every text, and hold off a cancel while it makes all rows.
        yield from db.stream(statement, types, arguments, _SLICE)
    except db.statement_error as error:
        raise _with_reference(error) from None


def _with_reference(error: Any) -> Any:
    """Return AGE's error with a hint; other errors (cancel, memory, serialisation) unchanged."""
    if str(error.sqlstate)[:2] not in ("0A", "22", "42", "XX"):
        return error
    sqlstate = error.sqlstate
    if sqlstate == "XX000":
        # What AGE does not expect is no fault of the server: a list beyond a gigabyte, or Cypher that it does not know.
        sqlstate = "54000" if "invalid memory alloc request size" in str(error) else "0A000"
    return GraphRAGError(str(error), sqlstate=sqlstate, hint=REFERENCE)
