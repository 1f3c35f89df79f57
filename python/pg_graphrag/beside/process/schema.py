"""Makes and updates the plain schema: ``sql/`` without PL/Python and Apache AGE, for any database with pgvector.

The scripts in ``plain/`` make it, or update the schema of an earlier version. extension/plain_schema.py writes the
scripts.
"""

from typing import Any

import psycopg

from pg_graphrag import __version__
from pg_graphrag.beside.process.routines import PLAIN, made_by_build
from pg_graphrag.beside.process.statement_errors import cannot_act
from pg_graphrag.beside.process.updates import changed_tables, changes_between, update_statements
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server.corpus.options import Options

OLDEST_VECTOR = (0, 8)
OLDEST_SERVER = 16


def _script(vector_schema: str) -> str:
    """Return the script that makes the schema; `vector_schema` is where the type vector is, quoted."""
    return _completed(made_by_build(PLAIN / "schema.sql"), vector_schema)


def _completed(script: str, vector_schema: str) -> str:
    return script.replace("@extschema:vector@", vector_schema).replace("@extversion@", __version__)


def install(connection: psycopg.Connection[Any]) -> str | None:
    """Make the schema in a database, or bring that of an earlier version up to this one, with the rights of the session.

    Whoever makes it owns it. An update waits two minutes for calls of processes that are under way; those that come
    later, of processes of the earlier version, are refused.

    Returns the version that it has now; None where it had this version before.

    Raises GraphRAGError: 0A000 for a version from which no update leads here, a server or a vector extension that is too old;
      42710 for a database with the extension, or with something else called graphrag; 42501 where the extension vector or the
      roles cannot be made, or somebody else owns the schema.
    Raises psycopg.Error: others of the server. Nothing is changed then.
    """
    with connection.transaction(), connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        cursor.execute(
            "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),"
            " pg_catalog.set_config('client_min_messages', 'warning', true)"
        )
        is_installed = _is_installed(cursor)
        cursor.execute("SHOW server_version_num")
        major = int(_value(cursor)) // 10000
        if major < OLDEST_SERVER:
            raise GraphRAGError(
                f"PostgreSQL {major} is too old",
                sqlstate="0A000",
                hint=f"pg_graphrag needs PostgreSQL {OLDEST_SERVER} or newer.",
            )
        vector_schema = _vector_schema(cursor)
        if is_installed:
            return __version__ if _update(cursor, vector_schema) else None
        # Imported here because who only looks whether it is installed needs no tokenizer.
        from pg_graphrag.text.tokenizers import tokenizer

        ranks = tokenizer(Options().tokenizer)
        cursor.execute("CREATE SCHEMA graphrag")
        text = _script(vector_schema)
        cursor.execute(text.encode())
        cursor.execute(
            "INSERT INTO graphrag._installed VALUES (%s, %s, %s, %s)",
            [__version__, ranks.name, ranks.fingerprint, text],
        )
    return __version__


def _update(cursor: psycopg.Cursor[Any], vector_schema: str) -> bool:
    """Bring the schema to this version; returns False if it has this version."""
    cursor.execute(
        "SELECT pg_catalog.pg_get_userbyid(c.relowner), pg_catalog.pg_has_role(c.relowner, 'USAGE')"
        "  FROM pg_catalog.pg_class c WHERE c.oid = 'graphrag._installed'::pg_catalog.regclass"
    )
    owner, is_owner = cursor.fetchone() or ("", False)
    if not is_owner:
        raise GraphRAGError(
            f'the schema graphrag belongs to role "{owner}"',
            sqlstate="42501",
            hint="Connect as that role, or as a member of it.",
        )
    # New objects get the same owner as the existing ones.
    cursor.execute("SELECT pg_catalog.set_config('role', %s, true)", [owner])
    # One update at a time.
    cursor.execute("LOCK TABLE graphrag._installed IN SHARE UPDATE EXCLUSIVE MODE")
    cursor.execute("SELECT version, script FROM graphrag._installed")
    installed_version, installed_script = cursor.fetchone() or ("", "")
    text = _script(vector_schema)
    if (installed_version, installed_script) == (__version__, text):
        return False
    if installed_version == __version__ and (changed := changed_tables(installed_script, text)):
        raise GraphRAGError(
            f"the schema graphrag is of an unreleased state of version {__version__}, with other tables: {changed[0]}",
            sqlstate="0A000",
            hint="Copy what it holds into a new database: pg-graphrag install and pg-graphrag copy there.",
        )
    # Each call of a process reads that table first: no call is under way from here on.
    cursor.execute(made_by_build(PLAIN / "lock_relations.sql").encode())
    for changes in changes_between(installed_version, __version__):
        cursor.execute(_completed(changes, vector_schema).encode())
    for statement in update_statements(installed_script, text):
        cursor.execute(statement.encode())
    cursor.execute("UPDATE graphrag._installed SET version = %s, script = %s", [__version__, text])
    return True


def check_owner(cursor: psycopg.Cursor[Any]) -> None:
    """Check that the session may serve the schema graphrag, before anything in it is read.

    Its owner's triggers, policies and views run in the session, and can take back SET ROLE: he must not get more rights by it.
    A role that he may act for already can use the schema, too: the owner of an attached table.

    Raises GraphRAGError: 42501 where neither of the session's user and the owner is a member of the other, or the user alone
      is a superuser.
    """
    row = cursor.execute(_OWNER_OF_SCHEMA).fetchone()
    if row is None:
        return
    owner, user, is_member, is_more = row
    if not is_member:
        raise cannot_act(user, owner)
    if is_more:
        raise GraphRAGError(
            f'"{user}" is a superuser, and "{owner}", who owns the schema graphrag, is none: his code would run as "{user}"',
            sqlstate="42501",
            hint=f'Connect as "{owner}".',
        )


_OWNER_OF_SCHEMA = """
SELECT o.rolname, s.rolname, pg_catalog.pg_has_role(s.oid, o.oid, 'MEMBER') OR pg_catalog.pg_has_role(o.oid, s.oid, 'MEMBER'),
       s.rolsuper AND NOT o.rolsuper
  FROM pg_catalog.pg_namespace n
  JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner
  JOIN pg_catalog.pg_roles s ON s.rolname = session_user
 WHERE n.nspname = 'graphrag'
"""


def _is_installed(cursor: psycopg.Cursor[Any]) -> bool:
    """Whether the schema is there, of whichever version; an error for anything else of its name."""
    cursor.execute(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pg_graphrag'),"
        " pg_catalog.to_regclass('graphrag._installed') IS NOT NULL,"
        " EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname IN ('graphrag', 'graphrag_attached'))"
    )
    has_extension, is_installed, has_schema = cursor.fetchone() or (False, False, False)
    if has_extension:
        raise GraphRAGError(
            "this database has the extension pg_graphrag",
            sqlstate="42710",
            hint="It needs nothing else. Its updates are ALTER EXTENSION pg_graphrag UPDATE.",
        )
    if is_installed:
        check_owner(cursor)
    if has_schema and not is_installed:
        raise GraphRAGError(
            "there is a schema graphrag or graphrag_attached that pg_graphrag did not make",
            sqlstate="42710",
            hint="Rename or drop it.",
        )
    return bool(is_installed)


def _vector_schema(cursor: psycopg.Cursor[Any]) -> str:
    """Return the schema of the extension vector, quoted; make the extension where it is not there."""
    installed_vector = (
        "SELECT pg_catalog.quote_ident(n.nspname), e.extversion"
        "  FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
    )
    row = cursor.execute(f"{installed_vector} WHERE e.extname = 'vector'").fetchone()
    if row is None:
        try:
            cursor.execute("CREATE EXTENSION vector SCHEMA public")
        except psycopg.Error as error:
            raise GraphRAGError(
                f"the extension vector is not there and cannot be made: {error.diag.message_primary}",
                sqlstate=error.sqlstate or "42501",
                hint="Have it made in this database by who may: CREATE EXTENSION vector.",
            ) from None
        row = cursor.execute(f"{installed_vector} WHERE e.extname = 'vector'").fetchone()
    assert row is not None
    schema, version = row
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VECTOR:
        raise GraphRAGError(
            f"the extension vector is of version {version}",
            sqlstate="0A000",
            hint="ALTER EXTENSION vector UPDATE to 0.8.",
        )
    return str(schema)


def _value(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row[0]
