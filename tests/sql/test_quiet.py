"""Errors are what users read: no traceback of Python, no class of PL/Python, and of a refusal which grant is missing."""

import psycopg
import pytest
from pg_graphrag import __version__

from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import STORIES, index_all, refused, rows, searched_corpus

# A value that no function of the schema takes: of every type that they have.
_BAD = {
    "text": "E'\\001nobody'",
    "jsonb": "'[\"x\"]'::jsonb",
    "integer": "-1",
    "bigint": "-1",
    "boolean": "NULL",
    "double precision": "'NaN'",
    "regclass": "'pg_catalog.pg_class'::regclass",
    "timestamp with time zone": "'infinity'",
    "interval": "'-1 s'::interval",
}


def is_quiet(diag: psycopg.errors.Diagnostic) -> bool:
    texts = (diag.message_primary or "", diag.message_detail or "", diag.context or "")
    return not any(word in text for text in texts for word in ("Traceback", "spiexceptions", "plpy.", ", line "))


def test_no_function_shows_its_python_in_an_error(db: Database) -> None:
    errors, loud = 0, []
    for name, types, kind in rows(
        db,
        "SELECT p.proname, array_to_json(ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) t)), p.prokind::text"
        "  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang"
        " WHERE p.pronamespace = 'graphrag'::regnamespace AND l.lanname = 'plpython3u' AND p.prokind IN ('f', 'p')"
        "   AND p.prorettype <> 'trigger'::regtype ORDER BY 1",
    ):
        for bad in (True, False):
            values = ", ".join(_BAD.get(item, f"NULL::{item}") if bad else f"NULL::{item}" for item in types)
            verb = "CALL" if kind == "p" else "SELECT"
            try:
                with db.transaction(force_rollback=True):
                    db.execute(f"{verb} graphrag.{name}({values})".encode())
            except psycopg.Error as error:
                errors += 1
                if not is_quiet(error.diag):
                    loud.append((name, error.diag.message_primary, error.diag.context))
    assert loud == []
    assert errors > 60


def test_an_error_of_a_statement_keeps_its_code_and_texts(db: Database) -> None:
    corpus = searched_corpus(db)
    diag = refused(db, "SELECT graphrag.protect(%s, 'nothing = 1')", corpus)
    assert diag.sqlstate == "42703"
    assert is_quiet(diag)
    db.execute("SET statement_timeout = '100 ms'")
    diag = refused(db, "SELECT graphrag._enter(pg_sleep(9)::text)")
    assert diag.sqlstate == "57014"
    assert is_quiet(diag)


def test_a_row_that_fails_later_is_quiet_too(db: Database) -> None:
    db.execute(
        "CREATE FUNCTION later() RETURNS SETOF int LANGUAGE plpython3u AS $$\n"
        "from pg_graphrag.ground.errors import GraphRAGError\nfrom pg_graphrag.server import Rows, database\n"
        "def rest():\n    yield 2\n    raise GraphRAGError('the third is missing', hint='Count.')\n"
        "return Rows(database(plpy), [1], rest())\n$$"
    )
    diag = refused(db, "SELECT later()")
    assert diag.message_hint == "Count."
    assert is_quiet(diag)


def test_a_defect_shows_where_it_is(db: Database) -> None:
    db.execute(
        "CREATE FUNCTION broken() RETURNS void LANGUAGE plpython3u AS $$ from pg_graphrag.server import call;"
        f" call(plpy, '{__version__}', 'operate.admin.check:NAMED') $$".encode()
    )
    refused(db, "SELECT graphrag.search(NULL)")
    diag = refused(db, "SELECT broken()")
    assert diag.sqlstate == "XX000"
    assert "server/__init__.py:" in (diag.message_detail or "")
    assert "graphrag.check(" in (diag.message_hint or "")


def test_a_refusal_names_the_missing_grant(db: Database) -> None:
    corpus = index_all(db, searched_corpus(db), STORIES)
    db.execute("CREATE SCHEMA app; CREATE TABLE app.my_docs (id bigint)")
    with readers(db, 1) as (reader,), acting_as(db, reader):
        sql = "SELECT graphrag.search('x', %s, filter => '{\"$relation\": \"app.my_docs\"}')"
        diag = refused(db, sql, corpus)
        assert diag.sqlstate == "42501"
        assert is_quiet(diag)
        assert diag.message_hint is not None
        assert "GRANT USAGE ON SCHEMA app TO " + reader in diag.message_hint
    role = "quiet_nobody"
    db.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA graphrag TO {role}".encode())
    db.execute(f"GRANT EXECUTE ON FUNCTION graphrag.warm(text) TO {role}".encode())
    with acting_as(db, role):
        diag = refused(db, "SELECT graphrag.warm(%s)", corpus)
        assert diag.sqlstate == "42501"
        assert f"GRANT graphrag_reader TO {role}" in (diag.message_hint or "")
    db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


@pytest.mark.parametrize("sql", ["SELECT graphrag.search(NULL)", "CALL graphrag.process_jobs(-1)"])
def test_the_context_is_the_function_alone(db: Database, sql: str) -> None:
    context = refused(db, sql).context or ""
    assert context.startswith("PL/Python ")
    assert "\n" not in context
