"""Attacks on what a database is while it is updated, and afterwards: hidden documents, and names taken before the update."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import refused, rows, value
from tests.upgrade.released import RELEASED, create_released, restore_released

# Versions whose dump has a protected corpus.
PROTECTING = [version for version in RELEASED if version != "0.1.0"]
MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
READER = "team_nemo"
# What only the document says that the reader may not see.
HIDDEN = "harpooned"
QUESTION = "Who harpooned the Kraken?"
STORED = (
    "SELECT d::text FROM graphrag.documents d",
    "SELECT string_agg(d.content, '') FROM graphrag.documents d",
    "SELECT c::text FROM graphrag.chunks c",
    "SELECT r::text FROM graphrag.relationships r",
    "SELECT r::text FROM graphrag.community_reports r",
    "SELECT e::text FROM graphrag.graph_edges e",
    "SELECT o::text FROM graphrag.community_overview o",
)
ASKED = (
    *(f"SELECT s::text FROM graphrag.search('{QUESTION}', 'guarded', '{mode}') s" for mode in MODES),
    "SELECT graphrag.context('Ned Land', 'guarded')::text",
    "SELECT r::text FROM graphrag.search_relationships('Ned Land', 'guarded') r",
    "SELECT r::text FROM graphrag.search_reports('Ned Land', 'guarded') r",
    "SELECT n::text FROM graphrag.neighbors('kraken', 'guarded') n",
)
# Names that a role with CREATE on the schema takes before the update makes them: from 0.1.0, all of them are new.
NAMES = {
    "function": "CREATE FUNCTION graphrag.protect(text, text) RETURNS void LANGUAGE sql AS 'SELECT'",
    "trigger function": "CREATE FUNCTION graphrag._corpus_restored() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
    "function of another kind": "CREATE PROCEDURE graphrag.protect(corpus text, condition text) LANGUAGE sql AS 'SELECT'",
    "table": "CREATE TABLE graphrag.curations (id bigint)",
    "view with the same columns": "CREATE VIEW graphrag.entity_timeline AS SELECT ''::text AS corpus, 1::bigint AS entity_id,"
    " ''::text AS name, ''::text AS type, now()::date AS day, now()::date AS month, 1::bigint AS documents,"
    " 1::bigint AS mentions",
    "sequence": "CREATE SEQUENCE graphrag.curations_id_seq",
    "index": "CREATE TABLE graphrag.mine (id int); CREATE INDEX curations_pkey ON graphrag.mine (id)",
    "type": "CREATE TYPE graphrag.curations AS (id bigint)",
}


def shown(connection: psycopg.Connection, sql: str) -> str:
    """All rows as one text, without the question; what is closed shows nothing."""
    try:
        return repr(rows(connection, sql)).replace(QUESTION, "")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState):
        return ""


@pytest.fixture(params=PROTECTING)
def restored(request: pytest.FixtureRequest, shared_cluster: Cluster) -> Iterator[Database]:
    """The dump of a released version, restored, not yet updated; a role that may see one document of its protected corpus."""
    name = f"attacked_{request.param}"
    db = Database.open(restore_released(shared_cluster, name, request.param))
    try:
        db.execute(f"CREATE ROLE {READER} IN ROLE graphrag_reader".encode())
        yield db
    finally:
        db.close()
        shared_cluster.drop_database(name)
        with shared_cluster.connect() as other:
            other.execute(f"DROP ROLE {READER}".encode())


@pytest.fixture(params=RELEASED)
def released(request: pytest.FixtureRequest, empty_db: Database) -> Database:
    """A database with the extension as it was released."""
    empty_db.execute("CREATE EXTENSION plpython3u")
    empty_db.execute(create_released(request.param).encode())
    return empty_db


def as_reader(db: Database) -> Database:
    reader = Database.open(db.url)
    reader.execute(f"SET ROLE {READER}".encode())
    return reader


def test_a_restored_corpus_is_closed_until_it_is_repaired_and_then_shows_what_is_allowed(restored: Database) -> None:
    with as_reader(restored) as reader:
        for sql in STORED:
            assert HIDDEN not in shown(reader, sql), sql
    restored.execute("ALTER EXTENSION pg_graphrag UPDATE")
    with as_reader(restored) as reader:
        for sql in (*STORED, *ASKED):
            assert HIDDEN not in shown(reader, sql), sql
        closed = refused(reader, "SELECT content FROM graphrag.documents WHERE corpus = 'guarded'")
        assert closed.sqlstate == "55000"
    restored.execute("SELECT graphrag.repair()")
    with Database.open(restored.url) as owner:
        for sql in (*STORED, *ASKED):
            assert HIDDEN in shown(owner, sql), sql
    with as_reader(restored) as reader:
        for sql in (*STORED, *ASKED):
            assert HIDDEN not in shown(reader, sql), sql
        assert rows(reader, "SELECT source_key FROM graphrag.documents WHERE corpus = 'guarded'") == [("nemo",)]
        assert rows(reader, "SELECT source_key FROM graphrag.search('Kraken', 'guarded')") == [("nemo",)]


def test_a_protection_in_force_outlasts_the_update(restored: Database) -> None:
    condition = value(restored, "SELECT protection FROM graphrag.corpora WHERE name = 'guarded'")
    restored.execute("SELECT graphrag.protect('guarded', %s)", [condition])
    restored.execute("ALTER EXTENSION pg_graphrag UPDATE")
    with as_reader(restored) as reader:
        for sql in (*STORED, *ASKED):
            assert HIDDEN not in shown(reader, sql), sql
        assert rows(reader, "SELECT source_key FROM graphrag.search('Kraken', 'guarded')") == [("nemo",)]


def test_unprotect_ends_a_protection_that_an_earlier_version_began(restored: Database) -> None:
    restored.execute("ALTER EXTENSION pg_graphrag UPDATE")
    restored.execute("SELECT graphrag.unprotect('guarded')")
    # From 0.3.0 on the dump has a grant, attached rows and a history, whose policies stay.
    others = (
        "SELECT polname::text FROM pg_policy WHERE polname NOT IN (SELECT name FROM graphrag._document_policies())"
        " AND polname NOT IN (SELECT 'graphrag_protection_' || id FROM graphrag.corpora WHERE name = 'guarded history')"
    )
    assert rows(restored, others) == [("pictures_of_documents",)]
    if not value(restored, "SELECT EXISTS (SELECT FROM graphrag.corpus_grants)"):
        secured = "SELECT relname::text FROM pg_class WHERE relrowsecurity AND relnamespace = 'graphrag'::regnamespace"
        assert rows(restored, secured) == [("pictures",)]
    with as_reader(restored) as reader:
        sql = "SELECT source_key FROM graphrag.documents WHERE corpus = 'guarded' ORDER BY 1"
        assert rows(reader, sql) == [("land",), ("nemo",)]


def test_after_the_update_a_corpus_restored_with_triggers_off_is_closed(released: Database) -> None:
    released.execute("ALTER EXTENSION pg_graphrag UPDATE")
    # A session keeps the package that it has loaded.
    with Database.open(released.url) as db, db.transaction():
        db.execute("SELECT graphrag.create_corpus('source')")
        db.execute("SET LOCAL session_replication_role = replica")
        db.execute(
            "INSERT INTO graphrag.corpora (name, tokenizer, tokenizer_fingerprint, protection)"
            " SELECT 'restored', tokenizer, tokenizer_fingerprint, 'true' FROM graphrag.corpora WHERE name = 'source'"
        )
        db.execute(
            "INSERT INTO graphrag.documents (corpus, corpus_id, source_key, content, content_hash)"
            " SELECT 'restored', id, 'x', 'Secret.', 'x' FROM graphrag.corpora WHERE name = 'restored'"
        )
    with Database.open(released.url) as reader:
        reader.execute("SET ROLE graphrag_reader")
        assert refused(reader, "SELECT content FROM graphrag.documents WHERE corpus = 'restored'").sqlstate == "55000"


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", NAMES)
def test_a_name_taken_before_the_update_is_not_taken_over(empty_db: Database, kind: str) -> None:
    db, version = empty_db, RELEASED[0]
    db.execute("CREATE EXTENSION plpython3u")
    db.execute(create_released(version).encode())
    db.execute("CREATE ROLE squatter")
    try:
        db.execute("GRANT USAGE, CREATE ON SCHEMA graphrag TO squatter")
        with Database.open(db.url) as squatter:
            squatter.execute("SET ROLE squatter")
            squatter.execute(NAMES[kind].encode())
        diag = refused(db, "ALTER EXTENSION pg_graphrag UPDATE")
        assert diag.sqlstate in {"42P07", "42710", "42809", "55000"}, (diag.sqlstate, diag.message_primary)
        assert value(db, "SELECT extversion FROM pg_extension WHERE extname = 'pg_graphrag'") == version
    finally:
        db.execute("DROP OWNED BY squatter")
        db.execute("DROP ROLE squatter")


# Whoever may create in a schema of the path offers operators and functions that fit better than pg_catalog's: each makes its
# owner a superuser when a superuser calls it.
OFFER = """
CREATE FUNCTION public.taken() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN ALTER ROLE squatter SUPERUSER; END IF;
END $$;
DO $block$
DECLARE
    types text[] := '{text,name,varchar,int4,int8,jsonb,regclass,oid}';
    l text; r text; o record; f text; n int := 0;
BEGIN
    FOREACH l IN ARRAY types LOOP FOREACH r IN ARRAY types LOOP
        FOR o IN SELECT * FROM (VALUES ('||', 'text'), ('=', 'bool'), ('<>', 'bool'), ('~', 'bool'), ('->>', 'text'),
                                       ('->', 'jsonb'), ('@>', 'bool'), ('<', 'bool'), ('>', 'bool')) v (name, result) LOOP
            IF l <> r AND NOT EXISTS (SELECT FROM pg_catalog.pg_operator p WHERE p.oprname = o.name AND p.oprleft = l::regtype
                              AND p.oprright = r::regtype) THEN
                n := n + 1;
                EXECUTE format('CREATE FUNCTION public.offer_%s(a %s, b %s) RETURNS %s LANGUAGE plpgsql IMMUTABLE AS %L',
                               n, l, r, o.result, replace(
                    'BEGIN PERFORM public.taken(); RETURN value; END', 'value',
                    CASE o.name WHEN '||' THEN 'pg_catalog.concat(a, b)' ELSE 'NULL' END));
                EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.offer_%s)',
                               o.name, l, r, n);
            END IF;
        END LOOP;
        FOREACH f IN ARRAY '{format,concat,to_jsonb,jsonb_build_object,array_to_string,string_agg,count,coalesce}'::text[] LOOP
            EXECUTE format('CREATE FUNCTION public.%I(a %s, b %s) RETURNS text LANGUAGE plpgsql IMMUTABLE AS %L',
                           f, l, r, 'BEGIN PERFORM public.taken(); RETURN NULL; END');
        END LOOP;
    END LOOP; END LOOP;
END
$block$;
"""
DEPENDENT = """
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_depend d
 WHERE d.classid <> 'pg_operator'::regclass
   AND (d.refclassid = 'pg_proc'::regclass
        AND d.refobjid IN (SELECT p.oid FROM pg_proc p WHERE p.proowner = 'squatter'::regrole)
        OR d.refclassid = 'pg_operator'::regclass
        AND d.refobjid IN (SELECT o.oid FROM pg_operator o WHERE o.oprowner = 'squatter'::regrole))
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("version", [*RELEASED, None])
def test_operators_and_functions_of_others_take_no_part_in_installation_and_update(
    empty_db: Database, version: str | None
) -> None:
    db = empty_db
    for extension in ("plpython3u", "vector", "age"):
        db.execute(f"CREATE EXTENSION {extension}".encode())
    if version:
        db.execute(create_released(version).encode())
    db.execute("CREATE ROLE squatter")
    try:
        db.execute("GRANT CREATE ON SCHEMA public TO squatter")
        with Database.open(db.url) as squatter:
            squatter.execute("SET ROLE squatter")
            squatter.execute("SET search_path = pg_catalog")
            squatter.execute(OFFER.encode())
        db.execute("ALTER EXTENSION pg_graphrag UPDATE" if version else "CREATE EXTENSION pg_graphrag")
        # These questions are not to be answered by what was offered either.
        db.execute("SET search_path = pg_catalog")
        assert value(db, "SELECT rolsuper FROM pg_roles WHERE rolname = 'squatter'") is False
        assert rows(db, DEPENDENT) == []
    finally:
        db.execute("DROP OWNED BY squatter CASCADE")
        db.execute("DROP ROLE squatter")
