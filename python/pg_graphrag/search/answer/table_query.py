"""Option "sql" of ask: a model writes one SELECT over attached tables and graph views, which is run as the caller.

For what needs counting, and what no text says. Whatever the model is told to write, it gets past neither the fence
(`pg_graphrag.search.answer.sql_fence`) nor the caller's rights; nor is a table read whose owner could have something run as the
caller: a read plans its indexes and asks its policies.
"""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pg_graphrag.ground.errors import OutOfTimeError, is_interrupt
from pg_graphrag.search.answer.sql_fence import Refused, check_is_installed, fenced
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Database, Row
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.text.letters import one_line
from pg_graphrag.text.marks import neutral, neutral_line

# How often a model may write a statement, and limits of one.
ATTEMPTS = 2
SECONDS, LEAST_SECONDS = 5.0, 0.5
MAX_ROWS = 50
MAX_VALUE = 200
MAX_RESULT = 8000
MAX_ERROR = 500
# What a model is told of.
MAX_RELATIONS, MAX_COLUMNS, MAX_COMMENT = 60, 100, 300

# Views of the graph, which show the caller what he may see of it.
_VIEWS = ("graph_nodes", "graph_edges")
_ATTACHED = "SELECT x.relation::text AS relation FROM graphrag._attachments x WHERE x.corpus = $1"
# Run as the caller: what he may read, without relations of owners who could run something with his rights.
_READABLE = """
SELECT n.nspname AS schema_name, c.relname AS name, pg_catalog.format('%I.%I', n.nspname, c.relname) AS written_name,
       pg_catalog.obj_description(c.oid, 'pg_class') AS comment,
       pg_catalog.json_agg(pg_catalog.json_build_array(
           pg_catalog.quote_ident(a.attname), pg_catalog.format_type(a.atttypid, a.atttypmod),
           pg_catalog.col_description(c.oid, a.attnum)) ORDER BY a.attnum)::text AS columns
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
   AND CASE WHEN n.nspname = 'graphrag' AND c.relname = ANY ($2) THEN true
            WHEN c.oid::text = ANY ($1) AND c.relkind IN ('r', 'p') THEN graphrag_attached._code_of_others(c.oid) IS NULL END
 GROUP BY n.nspname, c.oid, c.relname
 ORDER BY n.nspname, c.relname
"""
# Relations that are still what `_READABLE` found. Before a change was in the snapshot, currtid2() tells, which looks with a new
# one: of a relation, its schema, its partitions, and the functions of its policies, constraints and indexes. Afterwards their
# owners tell.
_UNCHANGED = """
SELECT pg_catalog.count(*) AS count
  FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) u (schema_name, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = u.schema_name
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = u.name
 WHERE pg_catalog.currtid2('pg_catalog.pg_namespace', n.ctid) = n.ctid
   AND pg_catalog.currtid2('pg_catalog.pg_class', c.ctid) = c.ctid
   AND CASE WHEN n.nspname = 'graphrag' AND c.relname = ANY ($3) THEN true
            ELSE c.relkind IN ('r', 'p') AND graphrag_attached._code_of_others(c.oid) IS NULL END
   AND NOT EXISTS (SELECT
                     FROM pg_catalog.pg_partition_tree(c.oid) t
                     LEFT JOIN pg_catalog.pg_class p ON p.oid = t.relid
                    WHERE (pg_catalog.currtid2('pg_catalog.pg_class', p.ctid) = p.ctid) IS NOT TRUE)
   AND NOT EXISTS (SELECT
                     FROM (SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass AS class, y.oid AS id
                             FROM pg_catalog.pg_policy y WHERE y.polrelid = c.oid
                            UNION ALL
                           SELECT 'pg_catalog.pg_constraint', k.oid FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid
                            UNION ALL
                           SELECT 'pg_catalog.pg_class', i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid) o
                     JOIN pg_catalog.pg_depend d ON d.classid = o.class AND d.objid = o.id
                      AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
                     JOIN pg_catalog.pg_proc f ON f.oid = d.refobjid
                    WHERE pg_catalog.currtid2('pg_catalog.pg_proc', f.ctid) <> f.ctid)
"""
_PARTITIONS = """
SELECT DISTINCT pg_catalog.format('%I.%I', m.nspname, p.relname) AS name
  FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) u (schema_name, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = u.schema_name
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = u.name AND c.relkind = 'p'
 CROSS JOIN LATERAL pg_catalog.unnest(graphrag_attached._under(c.oid)) t (id)
  JOIN pg_catalog.pg_class p ON p.oid = t.id
  JOIN pg_catalog.pg_namespace m ON m.oid = p.relnamespace
"""
_READ = "SELECT r.row FROM graphrag._reading($1) r (row)"
_READS_BACKSLASHES = "SELECT pg_catalog.current_setting('standard_conforming_strings')::bool AS as_they_are"


@dataclass(frozen=True, slots=True)
class Tables:
    """The relations that the caller may read, and how a model is told of them."""

    names: tuple[tuple[str, str], ...]
    description: str


@dataclass(slots=True)
class TableRows:
    """What a statement returned: texts of values, null as None; or why it was not run."""

    statement: str
    columns: list[str] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)
    is_cut: bool = False
    error: str | None = None


def tables_of(db: Database, caller: Caller) -> Tables:
    """Return the attached tables and graph views that the caller may read. It must run with the caller's rights.

    Raises GraphRAGError: 0A000 where statements cannot be parsed.
    """
    check_is_installed()
    attached = as_owner(db, lambda: [row["relation"] for row in db.query(_ATTACHED, ["text"], [caller.corpus])])
    readable = db.query(_READABLE, ["text[]", "text[]"], [attached, list(_VIEWS)])[:MAX_RELATIONS]
    names = tuple((str(row["schema_name"]), str(row["name"])) for row in readable)
    return Tables(names, "\n\n".join(map(_relation_line, readable)))


def _relation_line(relation: Row) -> str:
    """Return a relation's description for a model: its name and comment, then a line for each column; names as in SQL."""
    lines = [f"{relation['written_name']}{_comment(relation['comment'])}"]
    columns = json.loads(relation["columns"])
    lines += [f"  {name} {type_}{_comment(comment)}" for name, type_, comment in columns[:MAX_COLUMNS]]
    return "\n".join(lines)


def _comment(comment: str | None) -> str:
    return f"  -- {' '.join(comment.split())[:MAX_COMMENT]}" if comment else ""


def arguments_of(query: Query, tables: Tables, former: TableRows | None = None) -> dict[str, Any]:
    """Return the arguments of the task "sql"; `former`: a statement that was not run."""
    written = None if former is None else {"statement": former.statement, "error": (former.error or "")[:MAX_ERROR]}
    return {"question": query.text, "corpus": query.corpus.name, "tables": tables.description, "former": written}


def table_rows(query: Query, tables: Tables) -> tuple[TableRows | None, list[dict[str, Any]]]:
    """Make a model write a statement for a question, and run it. It must run with the caller's rights.

    Returns (its rows, or the last error, None if no statement helps; the usage of each request)

    Raises GraphRAGError: the fault of the model, except for a reply without a statement.
    """
    usages: list[dict[str, Any]] = []
    outcome: TableRows | None = None
    for _ in range(ATTEMPTS):
        arguments = arguments_of(query, tables, outcome)
        reply = as_owner(query.db, partial(query.models.ask, "sql", arguments))
        usages.append(reply.usage)
        if reply.fault is not None:
            if reply.fault.kind != "item" and reply.fault.reason is None:
                raise reply.fault
            return TableRows("", error=reply.fault.message), usages
        if not reply.value:
            return None, usages
        outcome = _run(query.db, reply.value, tables, max(LEAST_SECONDS, min(SECONDS, query.models.seconds_left)))
        if outcome.error is None:
            break
    return outcome, usages


def _run(db: Database, statement: str, tables: Tables, seconds: float) -> TableRows:
    try:
        checked = fenced(statement, tables.names)
        if "\\" in checked.text and not db.value(_READS_BACKSLASHES):
            # Texts would end elsewhere than the fence saw.
            raise Refused("a backslash is not allowed in it where standard_conforming_strings is off")
    except Refused as refusal:
        return TableRows(statement, error=str(refusal))
    result = TableRows(checked.text)
    try:
        with db.bounded(seconds):
            # As JSON every type has a text, and columns of one name are kept apart. Not "(r)": a column may be called so.
            sql = f"SELECT pg_catalog.row_to_json(r.*)::text AS row FROM ({checked.text}) r"
            db.hold(sql)
            # Planning would lock them after that look.
            partitions = _partitions(db, sorted(checked.relations))
            if partitions:
                db.hold(f"SELECT FROM {', '.join(partitions)}")
            if not _are_unchanged(db, sorted(checked.relations)):
                # The model took seconds. A new owner's code would run as the caller.
                result.error = "the relations have changed since they were looked at"
                return result
            rows = db.query(_READ, ["text"], [f"{sql} LIMIT {MAX_ROWS + 1}"])
    except OutOfTimeError as error:
        result.error = error.message
        return result
    except db.statement_error as error:
        if is_interrupt(error):
            raise
        result.error = str(error)
        return result
    size = 0
    for row in rows[:MAX_ROWS]:
        try:
            pairs = json.loads(row["row"], object_pairs_hook=list, parse_float=str, parse_int=str)
            values = [_text(value) for _, value in pairs]
        except RecursionError:
            result.error = "it returns JSON that is nested too deep"
            return result
        result.columns = [name for name, _ in pairs]
        size += sum(len(value or "") + 3 for value in values)
        if size > MAX_RESULT:
            break
        result.rows.append(values)
    result.is_cut = len(result.rows) < len(rows)
    return result


def _partitions(db: Database, relations: list[tuple[str, str]]) -> list[str]:
    """Return the names of the partitions of relations, of every level, for a statement."""
    schemas, names = [schema for schema, _ in relations], [name for _, name in relations]
    return [str(row["name"]) for row in db.query(_PARTITIONS, ["text[]", "text[]"], [schemas, names])]


def _are_unchanged(db: Database, relations: list[tuple[str, str]]) -> bool:
    schemas, names = [schema for schema, _ in relations], [name for _, name in relations]
    count = db.value(_UNCHANGED, ["text[]", "text[]", "text[]"], [schemas, names, list(_VIEWS)])
    return bool(count == len(relations))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        text = str(value).lower()
    else:
        text = json.dumps(_plain(value), ensure_ascii=False)
    return text if text is None or len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def _plain(value: Any) -> Any:
    """Return JSON that was read as pairs as objects."""
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return {name: _plain(item) for name, item in value}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def add_rows(context: dict[str, Any], outcome: TableRows) -> None:
    """Put rows into a context, with a reference of their own by which an answer cites the statement."""
    if outcome.error is not None:
        context["sql"] = {"statement": outcome.statement, "error": outcome.error}
        return
    number = max((reference["number"] for reference in context["references"]), default=0) + 1
    context["sql"] = {
        "reference": number,
        "statement": outcome.statement,
        "columns": outcome.columns,
        "rows": outcome.rows,
        "is_cut": outcome.is_cut,
    }
    context["references"] = [
        *context["references"],
        {"number": number, "document_id": None, "source_key": None, "title": outcome.statement},
    ]
    lines = [" | ".join(map(_cell, outcome.columns)), *(" | ".join(map(_cell, row)) for row in outcome.rows)]
    lines += ["(There are more rows.)"] if outcome.is_cut else []
    lines = lines if outcome.rows else ["(It has no rows.)"]
    rows = "\n".join(lines)
    before = f"{context['prompt']}\n\n" if context["prompt"] else ""
    context["prompt"] = f"{before}Rows of a statement over tables:\n[{number}] {neutral(outcome.statement)}\n{rows}"


def _cell(value: str | None) -> str:
    return "null" if value is None else neutral_line(value.replace("|", "/"))


def check_outcome(db: Database, outcome: TableRows) -> None:
    """Say where a statement was not run: the answer is then of documents alone."""
    if outcome.error is not None:
        db.warning(
            f"the statement that the model wrote was not run: {one_line(outcome.error)}",
            hint='The answer is made of documents alone. The statement stands in "sql" of its context.',
        )
