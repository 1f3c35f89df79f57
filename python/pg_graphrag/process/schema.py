"""The plain schema: ``sql/`` without the server's Python and Apache AGE, for any database with pgvector.

Functions whose body is Python become ones that say where they are to be called. What ``plain.sql`` makes takes the place of
what ``sql/`` makes of the same name. Everything else is ``sql/`` as it is.
"""

import re
from importlib import resources
from typing import Any

import psycopg

from pg_graphrag import __version__
from pg_graphrag.corpus.options import Options
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.process.routines import name_of, split, statements

OLDEST_VECTOR = (0, 8)
OLDEST_SERVER = 17

_BODY = re.compile(r"\nLANGUAGE plpython3u(.*?)\nAS \$\$.*\$\$;", re.DOTALL)
_SETTINGS = re.compile(r"\s+\bSET hnsw\.[a-z_]+ = (?:\d+|'\w+')")
_OWNER = re.compile(r"(?:pg_catalog\.)?pg_extension (?:AS )?e\b")
_OWNED = (
    "(SELECT 'pg_graphrag'::name AS extname, c.relowner AS extowner FROM pg_catalog.pg_class c"
    " WHERE c.oid = 'graphrag.corpora'::pg_catalog.regclass) e"
)


def script(vector_schema: str) -> str:
    """Return the script that makes the schema; `vector_schema` is where the type vector is, quoted.

    Raises
    ------
    GraphRAGError
        58P01 where the package came without ``sql/``.
    """
    plain_text = resources.files("pg_graphrag.process").joinpath("plain.sql").read_text(encoding="utf-8")
    plain = {name_of(statement) or statement: statement for statement in split(plain_text)}
    parts = []
    for statement in statements():
        name = name_of(statement)
        if name is not None and name in plain:
            parts.append(plain.pop(name))
        elif not _is_of_the_extension(statement):
            parts.append(_plain(statement, name))
    # Grants to everybody end with the last file; what is new in plain.sql comes after it.
    text = "\n".join([*parts, *plain.values()])
    return text.replace("@extschema:vector@", vector_schema).replace("@extversion@", __version__)


def _is_of_the_extension(statement: str) -> bool:
    return (
        "pg_catalog.pg_extension_config_dump(" in statement
        or statement.startswith("DO LANGUAGE plpython3u")
        or (re.match("DO|COMMENT ON SCHEMA", statement) is not None and "@extschema@" in statement)
    )


def _plain(statement: str, name: str | None) -> str:
    if name is None or _BODY.search(statement) is None:
        # Who owns the extension owns the schema; what else is asked of the extension has no rows.
        return _OWNER.sub(_OWNED, statement) if "extowner" in statement else statement
    message = f"{name}() is done by a process beside this database, which has no PL/Python"
    hint = "Use the Python package: GraphRAG(url).call(…), or the command pg-graphrag call (docs/hosts.md)."

    def body(match: re.Match[str]) -> str:
        # Who is no superuser may not set what no library has defined yet; the process sets it for itself.
        attributes = _SETTINGS.sub("", match[1]).replace(" SECURITY DEFINER", "")
        return (
            f"\nLANGUAGE plpgsql{attributes}\nAS $$\nBEGIN\n    RAISE EXCEPTION '{message}'"
            f" USING ERRCODE = 'feature_not_supported', HINT = '{hint}';\nEND\n$$;"
        )

    return _BODY.sub(body, statement)


def install(connection: psycopg.Connection[Any]) -> bool:
    """Make the schema in a database, with the rights of the connection's role; it then owns the schema.

    Returns
    -------
    bool
        False where this version is there already.

    Raises
    ------
    GraphRAGError
        0A000 for another version, a server or a vector extension that is too old; 42710 for a database with the extension, or
        with something else called graphrag; 42501 where the extension vector or the roles cannot be made, and for a schema that
        somebody else owns.
    psycopg.Error
        Others of the server. Nothing is changed then.
    """
    with connection.transaction(), connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        cursor.execute(
            "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),"
            " pg_catalog.set_config('client_min_messages', 'warning', true)"
        )
        if _installed_version(cursor) is not None:
            return False
        cursor.execute("SHOW server_version_num")
        if int(_value(cursor)) // 10000 < OLDEST_SERVER:
            raise GraphRAGError(
                f"PostgreSQL {int(_value(cursor)) // 10000} is too old",
                sqlstate="0A000",
                hint=f"pg_graphrag needs PostgreSQL {OLDEST_SERVER} or newer.",
            )
        vector_schema = _vector_schema(cursor)
        # Imported here because who only looks whether it is installed needs no tokenizer.
        from pg_graphrag.text.tokenizers import tokenizer

        ranks = tokenizer(Options().tokenizer)
        cursor.execute("CREATE SCHEMA graphrag")
        cursor.execute(script(vector_schema).encode())
        cursor.execute(
            "INSERT INTO graphrag._installed VALUES (%s, %s, %s)", [__version__, ranks.name, ranks.fingerprint]
        )
    return True


def check_owner(cursor: psycopg.Cursor[Any]) -> None:
    """Check that the session may serve the schema graphrag, before anything in it is read.

    Its owner's triggers, policies and views run in the session, and can take back SET ROLE: he must not get more rights by it.

    Raises
    ------
    GraphRAGError
        42501 where the session's user is not the owner nor a member of it, or is a superuser and the owner is none.
    """
    row = cursor.execute(_OWNER_OF_SCHEMA).fetchone()
    if row is None:
        return
    owner, user, is_member, is_more = row
    if not is_member:
        raise GraphRAGError(
            f'role "{user}" cannot act for "{owner}", who owns the schema graphrag',
            sqlstate="42501",
            hint="Let the process connect as the owner, or as a member of it; SET ROLE, or the URL's "
            "options=-c role=…, says who asks.",
        )
    if is_more:
        raise GraphRAGError(
            f'"{user}" is a superuser, and "{owner}", who owns the schema graphrag, is none: his code would run as "{user}"',
            sqlstate="42501",
            hint=f'Connect as "{owner}".',
        )


_OWNER_OF_SCHEMA = """
SELECT o.rolname, s.rolname, pg_catalog.pg_has_role(s.oid, o.oid, 'MEMBER'), s.rolsuper AND NOT o.rolsuper
  FROM pg_catalog.pg_namespace n
  JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner
  JOIN pg_catalog.pg_roles s ON s.rolname = session_user
 WHERE n.nspname = 'graphrag'
"""


def _installed_version(cursor: psycopg.Cursor[Any]) -> str | None:
    """Return the version that is there, which is this one, or None; an error for anything else."""
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
    if not is_installed:
        if has_schema:
            raise GraphRAGError(
                "there is a schema graphrag or graphrag_attached that pg_graphrag did not make",
                sqlstate="42710",
                hint="Rename or drop it.",
            )
        return None
    check_owner(cursor)
    cursor.execute("SELECT version FROM graphrag._installed")
    version = str(_value(cursor))
    if version != __version__:
        raise GraphRAGError(
            f"the schema graphrag is of version {version}, this package of {__version__}",
            sqlstate="0A000",
            hint=f"Schemas cannot be updated yet: use the package of version {version}, or install into a new database"
            " and insert the documents there.",
        )
    return version


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
