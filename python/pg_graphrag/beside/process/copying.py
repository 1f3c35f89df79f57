"""Copies everything that a database holds for pg_graphrag into another, on either host.

Documents, what was made of them and curations keep their numbers; nothing is indexed again. After the copy, as after a
restore, ``repair()`` makes what tables do not hold: the queue, the AGE graphs, protection, and vector indexes.
"""

from typing import Any

import psycopg
from psycopg import sql

from pg_graphrag import __version__
from pg_graphrag.beside.process.routines import dumped
from pg_graphrag.beside.process.schema import check_owner
from pg_graphrag.ground.errors import GraphRAGError

# Triggers on the application's tables do not come along: attach_table() makes them, where the table is. Which nodes there are the
# target's own catalogue says.
_LEFT_OUT = ("graphrag._attached_tables", "graphrag.nodes", "graphrag.placements")
_VALUES = {("graphrag.documents", "attached_id"): "NULL::int"}
_HAS_ROWS = """
SELECT EXISTS (SELECT FROM graphrag._attached_tables a
                WHERE a.kind <> 'documents' AND (%(corpora)s::int[] IS NULL OR a.corpus_id = ANY (%(corpora)s)))
"""
_HOST = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_graphrag'),
       pg_catalog.to_regclass('graphrag._installed') IS NOT NULL
"""
RELATIONS = """
SELECT t.name, c.relkind::text,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum)
  FROM pg_catalog.unnest(%s::text[]) WITH ORDINALITY t (name, place)
  JOIN pg_catalog.pg_class c ON c.oid = t.name::pg_catalog.regclass
 ORDER BY t.place
"""
# In force, and of neither protect() nor grants; and whether what no policy shows is hidden.
_OWN_POLICIES = """
SELECT pg_catalog.format('%I on graphrag.%I', p.polname, c.relname) AS name
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid
 WHERE c.oid IN ('graphrag.documents'::pg_catalog.regclass, 'graphrag.pictures'::pg_catalog.regclass) AND c.relrowsecurity
   AND p.polname !~ '^(graphrag_protection_[0-9]+|pictures_of_documents)$'
   AND p.polname NOT IN (SELECT d.name FROM graphrag._document_policies() d)
 UNION ALL
SELECT 'row-level security on graphrag.documents'
  FROM pg_catalog.pg_class c
 WHERE c.oid = 'graphrag.documents'::pg_catalog.regclass AND c.relrowsecurity
   AND (NOT EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'graphrag_grants')
        OR EXISTS (SELECT FROM pg_catalog.pg_policy p
                    WHERE p.polrelid = c.oid AND p.polpermissive AND p.polname <> 'graphrag_grants'))
 ORDER BY 1
"""
_TRIGGERS = """
SELECT t.tgname, t.tgenabled::text FROM pg_catalog.pg_trigger t
 WHERE t.tgrelid = %s::pg_catalog.regclass AND NOT t.tgisinternal AND t.tgenabled <> 'D'
"""
_ENABLED = {"O": "", "A": "ALWAYS ", "R": "REPLICA "}

Cursor = psycopg.Cursor[Any]


def copy(source: psycopg.Connection[Any], target: psycopg.Connection[Any]) -> int:
    """Copy the contents of one database into another, which holds nothing yet; return the number of documents.

    One snapshot of the source, one transaction of the target. Both are read and written as the owner.

    Raises GraphRAGError: 58P01 if a database does not have this version; 55000 if the target has corpora, or lacks policies
      that the source's operator made; 42501 as `check_owner`.
    Raises psycopg.Error: other errors of the servers, 42501 among them. The target stays unchanged then.
    """
    rows = psycopg.rows.tuple_row
    with (
        source.transaction(),
        source.cursor(row_factory=rows) as reader,
        target.transaction(),
        target.cursor(row_factory=rows) as writer,
    ):
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for cursor in (reader, writer):
            prepare(cursor)
        check_version(reader)
        has_cypher = check_version(writer)
        # Rows that a policy would hide are an error.
        reader.execute("SET LOCAL row_security = off")
        _check_empty(writer)
        check_policies(reader, writer)
        check_rows(reader, "the source")
        names = dict(dumped())
        writer.execute(RELATIONS, [list(names)])
        relations = writer.fetchall()
        triggers = {name: _disable_triggers(writer, name) for name, kind, _ in relations if kind == "r"}
        for name, kind, columns in relations:
            if kind == "S":
                _copy_sequence(reader, writer, name)
            elif name not in _LEFT_OUT:
                _copy_table(reader, writer, name, columns, names[name], has_cypher)
        for name, before in triggers.items():
            for trigger, state in before:
                statement = sql.SQL("ALTER TABLE {table} ENABLE {when}TRIGGER {trigger}")
                writer.execute(
                    statement.format(
                        table=qualified(name), when=sql.SQL(_ENABLED[state]), trigger=sql.Identifier(trigger)
                    )
                )
        # The shared tables have all vectors now. Spaces get tables of their own when they are indexed.
        writer.execute("UPDATE graphrag.embedding_spaces SET own_tables = false WHERE own_tables")
        writer.execute("SELECT graphrag.repair()")
        writer.execute("SELECT pg_catalog.count(*) FROM graphrag.documents")
        return int((writer.fetchone() or (0,))[0])


def prepare(cursor: Cursor) -> None:
    """Pin the search path of a transaction: nothing of others is run by a name. 42501 as `check_owner`."""
    cursor.execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)")
    check_owner(cursor)


def check_version(cursor: Cursor) -> bool:
    """Return whether the database has the extension, and so Apache AGE; 58P01 where it is not of this version."""
    has_extension, is_plain = cursor.execute(_HOST).fetchone() or (False, False)
    if has_extension:
        cursor.execute("SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_graphrag'")
    elif is_plain:
        cursor.execute("SELECT i.version FROM graphrag._installed i")
    version = (cursor.fetchone() or (None,))[0] if has_extension or is_plain else None
    if version != __version__:
        database = cursor.connection.info.dbname
        raise GraphRAGError(
            f'database "{database}" has '
            + (
                f"version {version}, the package is {__version__}"
                if version
                else "neither extension nor schema graphrag"
            ),
            sqlstate="58P01",
            hint="CREATE EXTENSION pg_graphrag CASCADE, or pg-graphrag install, makes them, and ALTER EXTENSION pg_graphrag "
            "UPDATE, or pg-graphrag install, updates them.",
        )
    return bool(has_extension)


def check_rows(reader: Cursor, whose: str, corpora: list[int] | None = None) -> None:
    """Raise 55000 if the source, or these corpora of it, has attached rows.

    Only readers of their tables may see them; without the tables nobody's rights could be checked.
    """
    if value(reader, _HAS_ROWS, {"corpora": corpora}):
        raise GraphRAGError(
            f"{whose} has attached rows, which are for who may read their tables",
            sqlstate="55000",
            hint="End these attachments with graphrag.detach_table(), copy, and attach the tables of the target.",
        )


def check_policies(reader: Cursor, writer: Cursor) -> None:
    """Raise 55000 if policies of the source's operator hide documents, and the target has no policy with that name."""
    required, present = ([row[0] for row in cursor.execute(_OWN_POLICIES).fetchall()] for cursor in (reader, writer))
    if missing := [name for name in required if name not in present]:
        source, target = (cursor.connection.info.dbname for cursor in (reader, writer))
        raise GraphRAGError(
            f'database "{source}" has policies of its own that are not in force in "{target}": {", ".join(missing)}',
            sqlstate="55000",
            hint="Who may read is to be said there first: CREATE POLICY, of these names, and ALTER TABLE graphrag.documents"
            " ENABLE ROW LEVEL SECURITY.",
        )


def _check_empty(writer: Cursor) -> None:
    # Nobody else makes one meanwhile.
    writer.execute("LOCK TABLE graphrag.corpora IN ACCESS EXCLUSIVE MODE")
    writer.execute("SELECT c.name FROM graphrag.corpora c ORDER BY c.id LIMIT 1")
    if (row := writer.fetchone()) is not None:
        raise GraphRAGError(
            f'database "{writer.connection.info.dbname}" has corpora already, such as "{row[0]}"',
            sqlstate="55000",
            hint="Copy into a database whose schema graphrag is new.",
        )


def _disable_triggers(writer: Cursor, name: str) -> list[tuple[str, str]]:
    """Disable the triggers of a table; return them with when they fired."""
    before: list[tuple[str, str]] = writer.execute(_TRIGGERS, [name]).fetchall()
    writer.execute(sql.SQL("ALTER TABLE {table} DISABLE TRIGGER USER").format(table=qualified(name)))
    return before


def _copy_sequence(reader: Cursor, writer: Cursor, name: str) -> None:
    row = reader.execute(
        sql.SQL("SELECT s.last_value, s.is_called FROM {table} s").format(table=qualified(name))
    ).fetchone()
    assert row is not None
    writer.execute("SELECT pg_catalog.setval(%s::pg_catalog.regclass, %s, %s)", [name, *row])


def _copy_table(
    reader: Cursor, writer: Cursor, name: str, columns: list[str], condition: str, has_cypher: bool
) -> None:
    values = [sql.SQL(_value(name, column, has_cypher)) for column in columns]
    selected = sql.SQL("SELECT {values} FROM {table} {condition}").format(
        values=sql.SQL(", ").join(values), table=qualified(name), condition=sql.SQL(condition)
    )
    copy_rows(reader, writer, selected, qualified(name), columns)


def copy_rows(reader: Cursor, writer: Cursor, query: sql.Composable, table: sql.Identifier, columns: list[str]) -> int:
    """Copy the rows of a query into these columns of a table; return how many."""
    inserted = sql.SQL(", ").join(sql.Identifier(column) for column in columns)
    with (
        reader.copy(sql.SQL("COPY ({query}) TO STDOUT (FORMAT binary)").format(query=query)) as blocks,
        writer.copy(
            sql.SQL("COPY {table} ({columns}) FROM STDIN (FORMAT binary)").format(table=table, columns=inserted)
        ) as rows,
    ):
        for block in blocks:
            rows.write(block)
    return writer.rowcount


def _value(table: str, column: str, has_cypher: bool) -> Any:
    """Return the SQL of a column's value in the copy."""
    if (table, column) == ("graphrag.corpora", "options") and not has_cypher:
        return "CASE WHEN options @> '{\"cypher\": true}' THEN options - 'cypher' ELSE options END"
    return _VALUES.get((table, column), f'"{column}"')


def qualified(name: str) -> sql.Identifier:
    """Return the name of a relation, its schema before it."""
    return sql.Identifier(*name.split("."))


def value(cursor: Cursor, statement: str, values: Any = None) -> Any:
    """Return the one value of a statement's one row."""
    row = cursor.execute(statement.encode(), values).fetchone()
    assert row is not None
    return row[0]
