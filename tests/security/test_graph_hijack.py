"""Nothing that others plant in AGE's schemas, or under the name of a graph, runs with the extension owner's rights."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.sql.graph_rows import corpus, cypher, entity, project_all
from tests.sql.ingest import STORIES, corpus_id, new_corpus, put, put_all, refused, rows, value, work
from tests.sql.test_projection import small_graph
from tests.upgrade.released import create_released

LABELS = ("Entity", "Chunk", "Document", "RELATED", "MENTIONED_IN", "PART_OF", "Community", "IN_COMMUNITY", "PARENT")
VERTICES = ("Entity", "Chunk", "Document", "Community")
MALLORY = "mallory"

# What reads or writes the graph of corpus number :c, called :n, with the owner's rights.
CALLS = (
    "SELECT graphrag._ensure_graph(:c)",
    "SELECT graphrag._project(:c, '{1}', '{1}', '{1}')",
    "SELECT graphrag._project_mentions(:c, '{1}')",
    "SELECT graphrag._project_communities(:c, '{1}')",
    "SELECT graphrag.cypher(:n, 'MATCH (e:Entity) RETURN e.name AS name')",
    "SELECT graphrag.cypher(:n, 'MATCH (e)-[r]->(f) WHERE e.degree = 1 RETURN e, r, f')",
    "SELECT * FROM graphrag.check(:n)",
    "SELECT * FROM graphrag.fingerprint_sections(:n)",
    "SELECT graphrag.refresh_communities(:n)",
    "SELECT graphrag.create_entity('Somebody', :n)",
    "SELECT graphrag.rebuild_graph(:n)",
    "SELECT graphrag.repair()",
    "CALL graphrag.process_jobs()",
    "SELECT graphrag.drop_corpus(:n)",
    "SELECT graphrag.uninstall()",
)


@pytest.fixture
def mallory(db: Database) -> Iterator[Database]:
    """A role with every right in the database short of superuser, and a function that notes with whose rights it runs."""
    db.execute(
        f"DO $$ BEGIN CREATE ROLE {MALLORY}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
        f"GRANT ALL ON DATABASE {db.info.dbname} TO {MALLORY};"
        f"GRANT ALL ON SCHEMA public TO {MALLORY};"
        f"GRANT USAGE ON SCHEMA ag_catalog TO {MALLORY};"
        "CREATE TABLE public.ran (what text, by_role name DEFAULT current_user);"
        "GRANT ALL ON public.ran TO public".encode()
    )
    # What is hers goes with the database.
    with Database.open(db.url) as connection:
        connection.execute(f"SET ROLE {MALLORY}".encode())
        connection.execute(
            """
            CREATE FUNCTION public.spring() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO public.ran (what) VALUES (TG_TABLE_NAME); RETURN coalesce(NEW, OLD); END $$;
            CREATE FUNCTION public.note() RETURNS int LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO public.ran (what) VALUES ('note'); RETURN 1; END $$;
            CREATE FUNCTION public.note_pure() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
            $$ BEGIN PERFORM public.note(); RETURN true; END $$;
            """
        )
        connection.execute("SELECT '1'::ag_catalog.agtype")
        # AGE 1.8 makes graphs for those alone who have its schema in their path.
        connection.execute("SET search_path = public, ag_catalog")
        yield connection


def ran_as_others(db: Database) -> list[tuple[Any, ...]]:
    return rows(db, "SELECT DISTINCT what, by_role FROM public.ran WHERE by_role <> %s", MALLORY)


def call_everything(db: Database, name: str, number: int) -> dict[str, psycopg.errors.Diagnostic | None]:
    """Make every call of CALLS, in a transaction that is undone; return the errors, None where there was none."""
    outcomes: dict[str, psycopg.errors.Diagnostic | None] = {}
    for call in CALLS:
        outcomes[call] = None
        try:
            sql = call.replace(":c", str(number)).replace(":n", f"'{name}'")
            if call.startswith("CALL"):
                db.execute(sql.encode())
                continue
            with db.transaction():
                db.execute(sql.encode())
                assert ran_as_others(db) == [], call
                raise psycopg.Rollback
        except psycopg.Error as error:
            outcomes[call] = error.diag
    return outcomes


def spring_traps(owner: Database, schema: str, tables: tuple[str, ...]) -> None:
    """Plant in a schema whatever can run code when its tables are used, or when it is in a search_path."""
    for table in tables:
        target = f'{schema}."{table}"'
        for statement in (
            f"CREATE TRIGGER spring BEFORE INSERT OR UPDATE OR DELETE ON {target} FOR EACH ROW EXECUTE FUNCTION public.spring()",
            f"CREATE TRIGGER after AFTER INSERT OR UPDATE OR DELETE ON {target} EXECUTE FUNCTION public.spring()",
            f"ALTER TABLE {target} ADD COLUMN extra int DEFAULT public.note()",
            f"ALTER TABLE {target} ADD CHECK (public.note() = 1) NOT VALID",
            f"CREATE INDEX ON {target} ((public.note_pure()))",
            f"CREATE INDEX ON {target} (id) WHERE public.note_pure()",
            f"CREATE RULE spring AS ON INSERT TO {target} DO ALSO SELECT public.note()",
        ):
            with suppress(psycopg.errors.WrongObjectType, psycopg.errors.FeatureNotSupported):
                owner.execute(statement.encode())
    plant_names(owner, schema)


def plant_names(owner: Database, schema: str) -> None:
    """Plant operators and functions that a statement would take if the schema came before pg_catalog, or fitted better."""
    types = ("ag_catalog.graphid", "bigint", "int", "text", "name", "oid", "ag_catalog.agtype", '"char"', "bigint[]")
    for number, type_ in enumerate(types):
        owner.execute(
            f"CREATE FUNCTION {schema}.compare{number} (a {type_}, b {type_}) RETURNS boolean LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM public.note(); RETURN true; END $$".encode()
        )
        for operator in ("=", "<>", "<", "||"):
            owner.execute(
                f"CREATE OPERATOR {schema}.{operator} (LEFTARG = {type_}, RIGHTARG = {type_},"
                f" FUNCTION = {schema}.compare{number})".encode()
            )
    body = "LANGUAGE plpgsql AS $$ BEGIN PERFORM public.note(); RETURN NULL; END $$"
    for signature in (
        "unnest(bigint[]) RETURNS bigint",
        "array_agg(bigint) RETURNS bigint[]",
        "record_image_ne(record, record) RETURNS boolean",
        "format(text, int) RETURNS text",
        "format(text, name) RETURNS text",
        "set_config(text, text, boolean) RETURNS text",
        "nextval(regclass) RETURNS bigint",
        "_graphid(int, bigint) RETURNS ag_catalog.graphid",
        "agtype_build_map() RETURNS ag_catalog.agtype",
        "agtype_build_map(text, bigint, text, int) RETURNS ag_catalog.agtype",
        "coalesce(text, text) RETURNS text",
        "count() RETURNS bigint",
    ):
        with suppress(psycopg.errors.SyntaxError, psycopg.errors.InvalidFunctionDefinition):
            owner.execute(f"CREATE FUNCTION {schema}.{signature} {body}".encode())


def squat_by_tables(owner: Database, graph: str) -> None:
    """A schema with tables named as labels."""
    owner.execute(f"CREATE SCHEMA {graph}".encode())
    for label in LABELS:
        ends = "" if label in VERTICES else "start_id ag_catalog.graphid, end_id ag_catalog.graphid, "
        owner.execute(
            f'CREATE TABLE {graph}."{label}" (id ag_catalog.graphid, {ends}properties ag_catalog.agtype)'.encode()
        )
    spring_traps(owner, graph, LABELS)


def squat_by_views(owner: Database, graph: str) -> None:
    """A schema with views that run a function when they are read, and when they are written."""
    owner.execute(f"CREATE SCHEMA {graph}".encode())
    for label in LABELS:
        ends = "" if label in VERTICES else "NULL::ag_catalog.graphid AS start_id, NULL::ag_catalog.graphid AS end_id,"
        owner.execute(
            f'CREATE VIEW {graph}."{label}" AS SELECT NULL::ag_catalog.graphid AS id, {ends}'
            " NULL::ag_catalog.agtype AS properties, public.note() AS extra".encode()
        )
        owner.execute(
            f'CREATE TRIGGER spring INSTEAD OF INSERT OR UPDATE OR DELETE ON {graph}."{label}"'
            " FOR EACH ROW EXECUTE FUNCTION public.spring()".encode()
        )
    plant_names(owner, graph)


def squat_by_graph(owner: Database, graph: str) -> None:
    """A real graph of AGE with every label, as pg_graphrag would make it."""
    owner.execute("SELECT ag_catalog.create_graph(%s)", [graph])
    label_and_trap(owner, graph)


def squat_by_renamed_graph(owner: Database, graph: str) -> None:
    owner.execute("SELECT ag_catalog.create_graph('innocent')")
    owner.execute("SELECT ag_catalog.alter_graph('innocent', 'RENAME', %s)", [graph])
    label_and_trap(owner, graph)


def label_and_trap(owner: Database, graph: str) -> None:
    for label in LABELS:
        kind = "v" if label in VERTICES else "e"
        owner.execute(f"SELECT ag_catalog.create_{kind}label(%s, %s)".encode(), [graph, label])
    spring_traps(owner, graph, LABELS)


def squat_by_nothing(owner: Database, graph: str) -> None:
    owner.execute(f"CREATE SCHEMA {graph}".encode())


SQUATS = (squat_by_tables, squat_by_views, squat_by_graph, squat_by_renamed_graph, squat_by_nothing)


@pytest.mark.parametrize("squat", SQUATS)
def test_a_squatted_schema_is_refused_whatever_it_contains(db: Database, mallory: Database, squat: Any) -> None:
    name = new_corpus(db)
    number = corpus_id(db, name)
    graph = f"graphrag_{number}"
    put_all(db, name, STORIES)
    squat(mallory, graph)
    before = value(db, "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace", graph)

    outcomes = call_everything(db, name, number)
    assert ran_as_others(db) == []
    for call in (*CALLS[:4], "SELECT graphrag.rebuild_graph(:n)", "SELECT graphrag.repair()"):
        diag = outcomes[call]
        assert diag is not None and diag.sqlstate == "42P06", call
        assert graph in str(diag.message_primary) and MALLORY in str(diag.message_detail)
        assert "Rename or drop" in str(diag.message_hint)
    for call in (*CALLS[4:6], "SELECT * FROM graphrag.fingerprint_sections(:n)"):
        diag = outcomes[call]
        assert diag is not None and diag.sqlstate == "55000", call
        assert MALLORY in str(diag.message_primary) and diag.message_hint
    assert {
        (invariant, MALLORY in detail)
        for invariant, subject, detail in rows(db, "SELECT * FROM graphrag.check(%s)", name)
        if graph in subject
    } == {("the corpus has its graph", True)}
    # What is hers stays hers.
    assert outcomes["SELECT graphrag.drop_corpus(:n)"] is None
    assert outcomes["SELECT graphrag.uninstall()"] is None
    assert value(db, "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace", graph) == before


def test_documents_are_indexed_once_the_squatted_schema_is_gone(db: Database, mallory: Database) -> None:
    name = new_corpus(db)
    squat_by_graph(mallory, f"graphrag_{corpus_id(db, name)}")
    put(db, name, "ada", STORIES["ada"])
    work(db)
    reason = value(db, "SELECT error FROM graphrag.documents WHERE corpus = %s", name) or value(
        db, "SELECT last_error FROM graphrag.jobs WHERE document_id IS NOT NULL"
    )
    assert "stands where the graph" in reason
    mallory.execute("SELECT ag_catalog.drop_graph(%s, true)", [f"graphrag_{corpus_id(db, name)}"])
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now()")
    work(db)
    assert value(db, "SELECT status FROM graphrag.documents WHERE corpus = %s", name) == "indexed"
    assert rows(db, "SELECT * FROM graphrag.check(%s)", name) == []
    assert ran_as_others(db) == []


@pytest.mark.parametrize("squat", SQUATS)
def test_a_squatted_schema_that_became_the_owners_runs_nothing(db: Database, mallory: Database, squat: Any) -> None:
    """REASSIGN OWNED is what an administrator does before DROP ROLE."""
    name = new_corpus(db)
    number = corpus_id(db, name)
    put_all(db, name, STORIES)
    squat(mallory, f"graphrag_{number}")
    mallory.execute(
        "RESET ROLE; REASSIGN OWNED BY mallory TO postgres; SET ROLE mallory".replace("mallory", MALLORY).encode()
    )
    outcomes = call_everything(db, name, number)
    assert ran_as_others(db) == []
    is_graph = squat in (squat_by_graph, squat_by_renamed_graph)
    ensured = outcomes["SELECT graphrag._ensure_graph(:c)"]
    # Such a graph is made again from the tables; anything else is not ours to drop.
    assert ensured is None if is_graph else ensured is not None and ensured.sqlstate == "42P06"
    for call in CALLS[4:6]:
        diag = outcomes[call]
        assert diag is not None and diag.sqlstate == "55000", call


def test_a_transaction_that_holds_the_name_stalls_nobody(db: Database, mallory: Database) -> None:
    name = new_corpus(db)
    number = corpus_id(db, name)
    with mallory.transaction():
        mallory.execute(f"CREATE SCHEMA graphrag_{number}".encode())
        begin = time.monotonic()
        diag = refused(db, "SELECT graphrag._ensure_graph(%s)", number)
        assert time.monotonic() - begin < 8
        assert diag.sqlstate == "55P03" and "pg_blocking_pids" in str(diag.message_hint)


def test_a_schema_made_at_the_same_moment_is_refused(db: Database, mallory: Database) -> None:
    name = new_corpus(db)
    number = corpus_id(db, name)
    errors: list[psycopg.Error] = []

    def ensure() -> None:
        try:
            with psycopg.connect(db.url, autocommit=True) as connection:
                connection.execute("SELECT graphrag._ensure_graph(%s)", [number])
        except psycopg.Error as error:
            errors.append(error)

    with mallory.transaction():
        mallory.execute(f"CREATE SCHEMA graphrag_{number}".encode())
        thread = threading.Thread(target=ensure)
        thread.start()
        while not value(db, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            assert thread.is_alive()
            time.sleep(0.05)
    thread.join()
    assert [error.sqlstate for error in errors] == ["42P06"]
    assert "Rename or drop" in str(errors[0].diag.message_hint)


def test_the_name_of_a_graph_that_was_dropped_past_age_can_be_used(db: Database, mallory: Database) -> None:
    name = new_corpus(db)
    number = corpus_id(db, name)
    mallory.execute("SELECT ag_catalog.create_graph(%s)", [f"graphrag_{number}"])
    # A session that has not loaded AGE: ag_graph keeps its row.
    db.execute(f"DROP OWNED BY {MALLORY} CASCADE".encode())
    assert value(db, "SELECT count(*) FROM ag_catalog.ag_graph WHERE name = %s", f"graphrag_{number}") == 1
    put(db, name, "ada", STORIES["ada"])
    work(db)
    assert rows(db, "SELECT * FROM graphrag.check(%s)", name) == []
    assert cypher(db, "MATCH (e:Entity {key: 'ada lovelace'}) RETURN e.name AS name", corpus_name=name)


# What may be done to a graph of ours by its owner, or by who was given a right by him; the label is Entity.
CHANGES = {
    "trigger": "CREATE TRIGGER t BEFORE INSERT ON :g EXECUTE FUNCTION public.spring()",
    "rule": "CREATE RULE r AS ON INSERT TO :g DO ALSO SELECT public.note()",
    "policy": "CREATE POLICY p ON :g USING (public.note() = 1)",
    "row security": "ALTER TABLE :g ENABLE ROW LEVEL SECURITY",
    "default": "ALTER TABLE :g ALTER properties SET DEFAULT jsonb_build_object('x', public.note())::text::ag_catalog.agtype",
    "default of an id": "ALTER TABLE :g ALTER id SET DEFAULT ag_catalog._graphid(3, public.note())",
    "constraint": "ALTER TABLE :g ADD CHECK (public.note() = 1) NOT VALID",
    "column": "ALTER TABLE :g ADD COLUMN extra int DEFAULT public.note()",
    "generated column": "ALTER TABLE :g ADD COLUMN extra boolean GENERATED ALWAYS AS (public.note_pure()) STORED",
    "index on an expression": "CREATE INDEX ON :g ((public.note_pure()))",
    "partial index": "CREATE INDEX ON :g (id) WHERE public.note_pure()",
    "statistics on an expression": "CREATE STATISTICS public.st ON (public.note_pure()), id FROM :g",
    "child table": "CREATE TABLE public.child () INHERITS (:g)",
    "owner of a table": f"ALTER TABLE :g OWNER TO {MALLORY}",
    "owner of a view instead": "ALTER TABLE :g RENAME TO other; CREATE VIEW :g AS SELECT * FROM :s.other",
    "owner of the schema": f"ALTER SCHEMA :s OWNER TO {MALLORY}",
    "CREATE in the schema": f"GRANT CREATE ON SCHEMA :s TO {MALLORY}",
    "CREATE for everybody": "GRANT ALL ON SCHEMA :s TO public",
    "TRIGGER": f"GRANT TRIGGER ON :g TO {MALLORY}",
    "label renamed": "UPDATE ag_catalog.ag_label SET name = 'Other' WHERE name = 'Entity'",
    "label of another number": "UPDATE ag_catalog.ag_label SET id = 99 WHERE name = 'Entity'",
    "graph of another schema": "UPDATE ag_catalog.ag_graph SET namespace = 'public'::regnamespace WHERE name = ':s'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_graph_that_was_changed_is_neither_read_nor_written(db: Database, mallory: Database, change: str) -> None:
    c, _ = small_graph(db)
    graph = f"graphrag_{c}"
    db.execute(CHANGES[change].replace(":g", f'{graph}."Entity"').replace(":s", graph).encode())
    db.execute("TRUNCATE public.ran")
    outcomes = call_everything(db, "c", c)
    assert ran_as_others(db) == []
    for call in (*CALLS[1:6], "SELECT * FROM graphrag.fingerprint_sections(:n)"):
        diag = outcomes[call]
        assert diag is not None and diag.sqlstate in ("55000", "42P06"), call
        assert graph in str(diag.message_primary) and diag.message_hint, call
    assert "the corpus has its graph" in {row[0] for row in rows(db, "SELECT * FROM graphrag.check('c')")}
    if change != "owner of the schema":
        db.execute("SELECT graphrag.rebuild_graph('c')")
        assert [row for row in rows(db, "SELECT * FROM graphrag.check('c')") if "graph" in row[0]] == []
        assert cypher(db, "MATCH (e:Entity) RETURN count(*) AS n") == [{"n": 2}]
    assert ran_as_others(db) == []


def test_what_was_planted_in_the_schema_of_a_graph_never_runs(db: Database, mallory: Database) -> None:
    """Operators and functions that stayed behind when the right to create was taken back."""
    c, _ = small_graph(db)
    db.execute(f"GRANT CREATE, USAGE ON SCHEMA graphrag_{c} TO {MALLORY}".encode())
    plant_names(mallory, f"graphrag_{c}")
    db.execute(f"REVOKE CREATE, USAGE ON SCHEMA graphrag_{c} FROM {MALLORY}".encode())
    db.execute("UPDATE graphrag.entities SET description = 'new'")
    project_all(db, c)
    assert cypher(db, "MATCH (e:Entity) WHERE e.description = 'new' RETURN count(*) AS n") == [{"n": 2}]
    assert all(
        diag is None for call, diag in call_everything(db, "c", c).items() if "_project" in call or "cypher" in call
    )
    assert rows(db, "SELECT * FROM public.ran") == []


def test_temporary_objects_and_the_callers_search_path_change_nothing(db: Database, mallory: Database) -> None:
    c, _ = small_graph(db)
    mallory.execute("CREATE SCHEMA trap")
    plant_names(mallory, "trap")
    for label in LABELS:
        db.execute(f'CREATE TEMP TABLE "{label}" (LIKE graphrag_{c}."{label}")'.encode())
        db.execute(
            f'CREATE TRIGGER spring BEFORE INSERT OR UPDATE OR DELETE ON pg_temp."{label}"'
            " FOR EACH ROW EXECUTE FUNCTION public.spring()".encode()
        )
    db.execute(
        "CREATE TEMP TABLE corpora (id int); CREATE TEMP TABLE pg_namespace (oid oid); CREATE TEMP TABLE ag_graph (name name)"
    )
    plant_names(db, "pg_temp")
    db.execute("UPDATE graphrag.entities SET description = 'new'")
    for path in ("pg_temp, trap, pg_catalog", "trap, ag_catalog, pg_catalog", "pg_temp"):
        db.execute(f"SET search_path = {path}".encode())
        ids = "(ARRAY(SELECT e.id FROM graphrag.entities e))"
        db.execute(f"SELECT graphrag._project({c}, '{{}}', {ids}, '{{}}')".encode())
        db.execute(f"SELECT graphrag._project_mentions({c}, '{{1}}')".encode())
        db.execute(f"SELECT graphrag._project_communities({c}, '{{1}}')".encode())
        counts = db.execute(
            "SELECT x::pg_catalog.text"
            " FROM graphrag.cypher('c', 'MATCH (e:Entity {description: \"new\"}) RETURN count(*) AS n') AS x"
        ).fetchall()
        assert counts == [('{"n": 2}',)]
    db.execute("RESET search_path")
    assert rows(db, 'SELECT * FROM pg_temp."Entity"') == []
    assert rows(db, "SELECT * FROM public.ran") == []


@pytest.mark.parametrize("grantee", [MALLORY, "public"])
def test_who_may_create_in_ag_catalog_stops_everything(db: Database, mallory: Database, grantee: str) -> None:
    c, _ = small_graph(db)
    db.execute(f"GRANT CREATE ON SCHEMA ag_catalog TO {grantee}".encode())
    plant_names_of_age(mallory)
    for call, diag in call_everything(db, "c", c).items():
        if "_project" in call or "cypher" in call or "check" in call:
            assert diag is not None and diag.sqlstate == "55000" and grantee in str(diag.message_primary), call
            assert "REVOKE" in str(diag.message_hint)
    # What was made there stays a danger.
    db.execute(f"REVOKE CREATE ON SCHEMA ag_catalog FROM {grantee}".encode())
    for call, diag in call_everything(db, "c", c).items():
        if "_project" in call or "cypher" in call or "check" in call:
            assert diag is not None and diag.sqlstate == "55000" and MALLORY in str(diag.message_primary), call
    assert ran_as_others(db) == []
    db.execute(f"DROP OWNED BY {MALLORY} CASCADE".encode())
    project_all(db, c)
    assert cypher(db, "MATCH (e:Entity) RETURN count(*) AS n") == [{"n": 2}]


def plant_names_of_age(owner: Database) -> None:
    body = "LANGUAGE plpgsql AS $$ BEGIN PERFORM public.note(); RETURN NULL; END $$"
    owner.execute(
        f"CREATE FUNCTION ag_catalog.agtype_build_map(text, bigint, text, bigint, text, int) RETURNS ag_catalog.agtype {body};"
        f"CREATE FUNCTION ag_catalog.age_count(ag_catalog.agtype, ag_catalog.agtype) RETURNS ag_catalog.agtype {body}".encode()
    )


def test_an_operator_planted_in_ag_catalog_stops_everything(db: Database, mallory: Database) -> None:
    c, _ = small_graph(db)
    db.execute(f"GRANT CREATE ON SCHEMA ag_catalog TO {MALLORY}".encode())
    mallory.execute(
        "CREATE FUNCTION public.compare(ag_catalog.graphid, bigint) RETURNS boolean LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM public.note(); RETURN true; END $$;"
        "CREATE OPERATOR ag_catalog.= (LEFTARG = ag_catalog.graphid, RIGHTARG = bigint, FUNCTION = public.compare)"
    )
    db.execute(f"REVOKE CREATE ON SCHEMA ag_catalog FROM {MALLORY}".encode())
    diag = refused(db, "SELECT graphrag._project(%s, '{1}', '{1}', '{1}')", c)
    assert diag.sqlstate == "55000" and f'of role "{MALLORY}"' in str(diag.message_primary)


@pytest.mark.parametrize(
    "grant",
    [
        "ALL ON ALL TABLES IN SCHEMA ag_catalog",
        "TRIGGER ON ag_catalog.ag_label",
        "INSERT ON ag_catalog.ag_graph",
        "UPDATE (relation) ON ag_catalog.ag_label",
    ],
)
def test_who_may_write_what_age_registers_stops_everything(db: Database, mallory: Database, grant: str) -> None:
    c, _ = small_graph(db)
    db.execute(f"GRANT {grant} TO {MALLORY}".encode())
    if "ALL" in grant or "TRIGGER" in grant:
        for table in ("ag_label", "ag_graph") if "ALL" in grant else ("ag_label",):
            mallory.execute(
                f"CREATE TRIGGER spring BEFORE INSERT OR UPDATE OR DELETE ON ag_catalog.{table}"
                " FOR EACH ROW EXECUTE FUNCTION public.spring()".encode()
            )
    stopped = [call for call in CALLS if "_" in call and "refresh" not in call and "create_" not in call]
    for undo in (f"REVOKE {grant} FROM {MALLORY}", "DROP FUNCTION IF EXISTS public.spring() CASCADE"):
        outcomes = call_everything(db, "c", c)
        assert ran_as_others(db) == []
        for call in stopped:
            if "process_jobs" not in call:
                diag = outcomes[call]
                assert diag is not None and diag.sqlstate == "55000" and MALLORY in str(diag.message_primary), call
                assert "REVOKE" in str(diag.message_hint)
        db.execute(undo.encode())
        if not rows(db, "SELECT FROM pg_trigger WHERE tgname = 'spring'"):
            break
    assert value(db, "SELECT count(*) FROM graphrag.check('c') WHERE invariant ~ 'graph'") == 0
    project_all(db, c)
    db.execute("SELECT graphrag.rebuild_graph('c')")
    assert ran_as_others(db) == []


def test_an_ag_catalog_of_somebody_else_stops_everything(db: Database, mallory: Database) -> None:
    c, _ = small_graph(db)
    db.execute(f"ALTER SCHEMA ag_catalog OWNER TO {MALLORY}".encode())
    for call in CALLS[1:7]:
        diag = refused(db, call.replace(":c", str(c)).replace(":n", "'c'"))
        assert diag.sqlstate == "55000" and MALLORY in str(diag.message_primary), call
    db.execute("ALTER SCHEMA ag_catalog OWNER TO postgres")


# Triggers that look like the one that AGE 1.8 has on its labels: the name, or its function with something of somebody's own.
_EVENTS = "AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE"
_OF_AGE = "EXECUTE FUNCTION ag_catalog.age_invalidate_graph_cache"
LIKE_THE_TRIGGER_OF_AGE = {
    "a function of another schema": (
        "CREATE FUNCTION public.age_invalidate_graph_cache() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM public.note(); RETURN NULL; END $$;"
        f"CREATE TRIGGER _age_cache_invalidate {_EVENTS} ON :t EXECUTE FUNCTION public.age_invalidate_graph_cache()"
    ),
    "a condition": f"CREATE TRIGGER _age_cache_invalidate {_EVENTS} ON :t WHEN (public.note_pure()) {_OF_AGE}()",
    "each row": f"CREATE TRIGGER _age_cache_invalidate AFTER INSERT OR UPDATE OR DELETE ON :t FOR EACH ROW {_OF_AGE}()",
    "before": f"CREATE TRIGGER _age_cache_invalidate {_EVENTS.replace('AFTER', 'BEFORE')} ON :t {_OF_AGE}()",
    "other events": f"CREATE TRIGGER _age_cache_invalidate AFTER INSERT ON :t {_OF_AGE}()",
    "arguments": f"CREATE TRIGGER _age_cache_invalidate {_EVENTS} ON :t {_OF_AGE}('x')",
    "rows handed over": f"CREATE TRIGGER _age_cache_invalidate AFTER INSERT ON :t REFERENCING NEW TABLE AS n {_OF_AGE}()",
    "always": (
        f"CREATE TRIGGER _age_cache_invalidate {_EVENTS} ON :t {_OF_AGE}();"
        " ALTER TABLE :t ENABLE ALWAYS TRIGGER _age_cache_invalidate"
    ),
    "a second trigger": "CREATE TRIGGER spring BEFORE INSERT ON :t EXECUTE FUNCTION public.spring()",
}


@pytest.mark.parametrize("shape", LIKE_THE_TRIGGER_OF_AGE)
def test_a_trigger_that_is_like_that_of_age_makes_no_graph_of_ours(db: Database, mallory: Database, shape: str) -> None:
    c, _ = small_graph(db)
    statements = LIKE_THE_TRIGGER_OF_AGE[shape]
    if _OF_AGE in statements and value(db, "SELECT to_regproc('ag_catalog.age_invalidate_graph_cache')") is None:
        pytest.skip("this AGE has no trigger of its own")
    table = f'graphrag_{c}."Entity"'
    if shape != "a second trigger":
        db.execute(f"DROP TRIGGER IF EXISTS _age_cache_invalidate ON {table}".encode())
    assert value(db, "SELECT graphrag._graph_flaw(%s)", f"graphrag_{c}") is None
    # The owner's own mistake, or what a role with TRIGGER did before it lost the right.
    db.execute(f"GRANT USAGE ON SCHEMA graphrag_{c} TO {MALLORY}; GRANT ALL ON {table} TO {MALLORY}".encode())
    executor = db if "ALTER TABLE" in statements else mallory
    executor.execute(statements.replace(":t", table).encode())
    db.execute(f"REVOKE ALL ON {table} FROM {MALLORY}; REVOKE USAGE ON SCHEMA graphrag_{c} FROM {MALLORY}".encode())
    assert value(db, "SELECT graphrag._graph_flaw(%s)", f"graphrag_{c}") == 'has, on label "Entity", a trigger'
    for call, diag in call_everything(db, "c", c).items():
        if "_project(" in call or "cypher" in call:
            assert diag is not None and diag.sqlstate == "55000", call
    assert ran_as_others(db) == []


def test_a_function_that_a_superuser_puts_in_place_of_that_of_age_is_not_ages(db: Database) -> None:
    c, _ = small_graph(db)
    body = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
    db.execute(f"CREATE OR REPLACE FUNCTION ag_catalog.age_invalidate_graph_cache() {body}".encode())
    db.execute(
        f'CREATE OR REPLACE TRIGGER _age_cache_invalidate {_EVENTS} ON graphrag_{c}."Chunk" {_OF_AGE}()'.encode()
    )
    assert "a trigger" in value(db, "SELECT graphrag._graph_flaw(%s)", f"graphrag_{c}")
    member = "SELECT count(*) FROM pg_depend WHERE objid = %s::regproc AND deptype = 'e'"
    if not value(db, member, "ag_catalog.age_invalidate_graph_cache"):
        db.execute("ALTER EXTENSION age ADD FUNCTION ag_catalog.age_invalidate_graph_cache()")
    assert "a trigger" in value(db, "SELECT graphrag._graph_flaw(%s)", f"graphrag_{c}")


# What a role with USAGE on ag_catalog can ask of AGE.
AGE_CALLS = {
    "drop_graph": "ag_catalog.drop_graph(:g, true)",
    "drop_graph, not cascading": "ag_catalog.drop_graph(:g, false)",
    "alter_graph": "ag_catalog.alter_graph(:g, 'RENAME', 'graphrag_77')",
    "create_vlabel": "ag_catalog.create_vlabel(:g, 'Other')",
    "create_elabel": "ag_catalog.create_elabel(:g, 'Other')",
    "drop_label": "ag_catalog.drop_label(:g, 'Chunk')",
    "create_complete_graph": "ag_catalog.create_complete_graph(:g, 3, 'RELATED', 'Entity')",
    "create_barbell_graph": "ag_catalog.age_create_barbell_graph(:g, 3, 3, 'Entity', NULL, 'RELATED', NULL)",
    "load_labels_from_file": "ag_catalog.load_labels_from_file(:g, 'Entity', '/etc/passwd', false)",
    "load_labels_from_file, with ids": "ag_catalog.load_labels_from_file(:g, 'Entity', '/etc/passwd', true)",
    "load_edges_from_file": "ag_catalog.load_edges_from_file(:g, 'RELATED', '/etc/passwd')",
    "startNode": "ag_catalog.age_startnode(('\"' || :g || '\"')::ag_catalog.agtype, EDGE)",
    "endNode": "ag_catalog.age_endnode(('\"' || :g || '\"')::ag_catalog.agtype, EDGE)",
    "vertex_stats": "ag_catalog.age_vertex_stats(('\"' || :g || '\"')::ag_catalog.agtype, VERTEX)",
    "vle": "ag_catalog.age_materialize_vle_path(edges) FROM ag_catalog.age_vle(('\"' || :g || '\"')::ag_catalog.agtype, VERTEX,"
    ' NULL::ag_catalog.agtype, \'{"id": 0, "label": "", "end_id": 0, "start_id": 0, "properties": {}}::edge\'::ag_catalog.agtype,'
    " '1'::ag_catalog.agtype, '1'::ag_catalog.agtype, '1'::ag_catalog.agtype, '1'::ag_catalog.agtype)",
    "cypher that reads": "* FROM ag_catalog.cypher(:g, $$ MATCH (e) RETURN e $$) AS (x ag_catalog.agtype)",
    "cypher that creates": "* FROM ag_catalog.cypher(:g, $$ CREATE (e:Entity) RETURN e $$) AS (x ag_catalog.agtype)",
    "cypher that makes a label": "* FROM ag_catalog.cypher(:g, $$ CREATE (e:Other) RETURN e $$) AS (x ag_catalog.agtype)",
    "cypher that merges": "* FROM ag_catalog.cypher(:g, $$ MERGE (e:Entity {a: 1}) RETURN e $$) AS (x ag_catalog.agtype)",
    "variable-length cypher": "* FROM ag_catalog.cypher(:g, $$ MATCH p = ()-[*1..2]->() RETURN p $$) AS (x ag_catalog.agtype)",
    "shortest_path": "* FROM ag_catalog.age_shortest_path(('\"' || :g || '\"')::ag_catalog.agtype, VERTEX, VERTEX)",
    "all_shortest_paths": "* FROM ag_catalog.age_all_shortest_paths(('\"' || :g || '\"')::ag_catalog.agtype, VERTEX, VERTEX)",
    "graph_stats": "ag_catalog.age_graph_stats(('\"' || :g || '\"')::ag_catalog.agtype)",
    "create_subgraph": "* FROM ag_catalog.create_subgraph('copied', :g)",
    "ag_graph": "* FROM ag_catalog.ag_graph",
}


@pytest.mark.parametrize("call", AGE_CALLS)
def test_age_lets_nobody_else_at_a_graph(db: Database, mallory: Database, call: str) -> None:
    function = re.search(r"ag_catalog\.(age_\w*(?:path|paths|graph_stats)|create_subgraph)\(", AGE_CALLS[call])
    if function and not value(db, "SELECT count(*) FROM pg_proc WHERE proname = %s", function[1]):
        pytest.skip(f"this AGE has no function {function[1]}")
    c, ids = small_graph(db)
    before = rows(db, "SELECT * FROM ag_catalog.ag_graph g JOIN ag_catalog.ag_label l ON l.graph = g.graphid")
    alice = 3 << 48 | ids["a"]
    edge = (
        f'{{"id": {6 << 48 | 2}, "label": "RELATED", "end_id": {alice}, "start_id": {alice}, "properties": {{}}}}::edge'
    )
    vertex = f'{{"id": {alice}, "label": "Entity", "properties": {{}}}}::vertex'
    sql = AGE_CALLS[call].replace(":g", f"'graphrag_{c}'")
    sql = sql.replace("EDGE", f"'{edge}'::ag_catalog.agtype").replace("VERTEX", f"'{vertex}'::ag_catalog.agtype")
    # Twice: the first call of a session may load what the second goes by.
    for _ in range(2):
        diag = refused(mallory, f"SELECT {sql}")
        assert diag.sqlstate == "42501", diag.message_primary
    assert rows(db, "SELECT * FROM ag_catalog.ag_graph g JOIN ag_catalog.ag_label l ON l.graph = g.graphid") == before
    assert [row for row in rows(db, "SELECT * FROM graphrag.check('c')") if "graph" in row[0]] == []


def test_age_serves_other_graphs_of_who_is_granted_its_functions(db: Database, mallory: Database) -> None:
    small_graph(db)
    db.execute(f"GRANT EXECUTE ON FUNCTION ag_catalog.age_startnode TO {MALLORY}".encode())
    mallory.execute("SET search_path = ag_catalog")
    mallory.execute("SELECT ag_catalog.create_graph('own')")
    query = "SELECT * FROM ag_catalog.cypher('own', $$ CREATE (:A)-[r:B]->(:C) RETURN r $$) AS (r ag_catalog.agtype)"
    assert len(rows(mallory, query)) == 1
    query = (
        "SELECT * FROM ag_catalog.cypher('own', $$ MATCH ()-[r]->() RETURN startNode(r) $$) AS (r ag_catalog.agtype)"
    )
    assert len(rows(mallory, query)) == 1


def test_a_new_installation_shows_nothing_of_the_old_one(db: Database) -> None:
    put(db, "default", "secret", "The Old Tenant keeps the Secret Ledger in Geneva.")
    work(db)
    number = corpus_id(db, "default")
    db.execute("DROP EXTENSION pg_graphrag CASCADE; CREATE EXTENSION pg_graphrag")
    db.execute("SELECT graphrag.create_corpus('default', '{\"communities\": false}')")
    assert corpus_id(db, "default") == number
    for query in ("MATCH (e:Entity) RETURN e.name AS name", "MATCH p = ()-[*1..2]->() RETURN p", "RETURN 1 AS x"):
        diag = refused(db, "SELECT graphrag.cypher('default', %s)", query)
        assert diag.sqlstate == "55000" and "earlier installation" in str(diag.message_primary)
        assert "graphrag.rebuild_graph('default')" in str(diag.message_hint)
    assert refused(db, "SELECT graphrag.fingerprint('default')").sqlstate == "55000"
    assert [row[0] for row in rows(db, "SELECT * FROM graphrag.check('default')")] == ["the corpus has its graph"]

    put(db, "default", "new", "Ada Lovelace wrote notes.")
    work(db)
    assert cypher(db, "MATCH (e:Entity) RETURN e.name AS name", corpus_name="default") == [{"name": "Ada Lovelace"}]
    assert cypher(db, "MATCH (d:Document) RETURN d.source_key AS key", corpus_name="default") == [{"key": "new"}]
    assert rows(db, "SELECT * FROM graphrag.check('default')") == []


def test_the_update_takes_in_the_owners_graphs_and_no_others(empty_db: Database) -> None:
    db = empty_db
    db.execute("CREATE EXTENSION vector; CREATE EXTENSION age; CREATE EXTENSION plpython3u")
    db.execute(create_released("0.2.0"))
    names = ("own", "trapped", "squatted")
    numbers = [corpus(db, name) for name in names]
    for number in numbers[:2]:
        db.execute("SELECT graphrag._ensure_graph(%s)", [number])
    db.execute(
        "CREATE FUNCTION public.spring() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'sprung'; END $$;"
        f'CREATE TRIGGER spring BEFORE INSERT ON graphrag_{numbers[1]}."Entity" EXECUTE FUNCTION public.spring();'
        f"DO $$ BEGIN CREATE ROLE {MALLORY}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
        f"CREATE SCHEMA graphrag_{numbers[2]} AUTHORIZATION {MALLORY}".encode()
    )
    db.execute("ALTER EXTENSION pg_graphrag UPDATE")
    with Database.open(db.url) as session:
        assert cypher(session, "MATCH (e) RETURN e", corpus_name="own") == []
        for name in names[1:]:
            assert refused(session, "SELECT graphrag.cypher(%s, 'MATCH (e) RETURN e')", name).sqlstate == "55000"
        # Ours, but not as it was made: made again.
        entity(session, numbers[1], "Alice")
        project_all(session, numbers[1])
        assert cypher(session, "MATCH (e) RETURN e.name AS name", corpus_name="trapped") == [{"name": "Alice"}]
        assert refused(session, "SELECT graphrag._ensure_graph(%s)", numbers[2]).sqlstate == "42P06"


def test_a_graph_of_the_owner_that_is_none_of_ours_stays(db: Database) -> None:
    number = corpus(db)
    db.execute("SELECT '1'::ag_catalog.agtype")
    db.execute("SET search_path = public, ag_catalog")
    db.execute("SELECT ag_catalog.create_graph(%s)", [f"graphrag_{number}"])
    db.execute("SELECT ag_catalog.create_vlabel(%s, 'Customer')", [f"graphrag_{number}"])
    for call in (f"SELECT graphrag._ensure_graph({number})", "SELECT graphrag.rebuild_graph('c')"):
        diag = refused(db, call)
        assert diag.sqlstate == "42P06" and "has not the labels" in str(diag.message_detail)
    db.execute("SELECT graphrag.drop_corpus('c')")
    assert value(db, f'SELECT count(*) FROM graphrag_{number}."Customer"') == 0


def test_default_privileges_give_nothing_of_a_graph_away(db: Database, mallory: Database) -> None:
    for kind in ("TABLES", "SEQUENCES", "SCHEMAS"):
        db.execute(f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO {MALLORY}, public".encode())
    c, _ = small_graph(db)
    assert cypher(db, "MATCH (e:Entity) RETURN count(*) AS n") == [{"n": 2}]
    granted = (
        "SELECT relname FROM pg_class c, aclexplode(relacl) a WHERE relnamespace = %s::regnamespace AND a.grantee <> relowner"
        " UNION ALL SELECT nspname FROM pg_namespace, aclexplode(nspacl) a WHERE nspname = %s AND a.grantee <> nspowner"
    )
    assert rows(db, granted, f"graphrag_{c}", f"graphrag_{c}") == []


def test_only_the_owner_asks_cypher_whatever_else_is_granted(db: Database, mallory: Database) -> None:
    c, _ = small_graph(db)
    db.execute(
        f"GRANT graphrag_reader TO {MALLORY}; GRANT USAGE ON SCHEMA graphrag_{c} TO {MALLORY};"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA graphrag_{c} TO {MALLORY}".encode()
    )
    assert refused(mallory, "SELECT graphrag.cypher('c', 'MATCH (e) RETURN e')").sqlstate == "42501"
    db.execute(f"REVOKE graphrag_reader FROM {MALLORY}".encode())


def test_pg_catalog_stands_first_in_every_search_path(db: Database) -> None:
    settings = rows(
        db,
        "SELECT p.oid::regprocedure::text, s FROM pg_proc p, unnest(p.proconfig) s"
        " WHERE p.pronamespace = 'graphrag'::regnamespace AND s LIKE 'search_path=%%'",
    )
    assert len(settings) > 100
    assert [row for row in settings if not row[1].startswith("search_path=pg_catalog,")] == []
    at_run_time = rows(
        db,
        "SELECT p.oid::regprocedure::text, m[1] FROM pg_proc p,"
        " regexp_matches(p.prosrc, 'set_config\\(''search_path'', *([^;]*)', 'g') m"
        " WHERE p.pronamespace = 'graphrag'::regnamespace",
    )
    assert len(at_run_time) == 3
    assert [row for row in at_run_time if "'pg_catalog, graphrag_%s, pg_temp'" not in row[1]] == []


def test_a_restored_graph_is_made_again_before_it_is_read(db: Database, shared_cluster: Cluster) -> None:
    put(db, "default", "ada", STORIES["ada"])
    work(db)
    entities = cypher(db, "MATCH (e:Entity) RETURN e.name AS name ORDER BY e.name", corpus_name="default")
    url = shared_cluster.create_database("restored_graph", "template0")
    try:
        shared_cluster.restore("restored_graph", shared_cluster.dump(db.info.dbname))
        with Database.open(url) as restored:
            query = "SELECT graphrag.cypher('default', 'MATCH (e) RETURN e')"
            diag = refused(restored, query)
            assert diag.sqlstate == "55000" and "graphrag.repair()" in str(diag.message_hint)
            # A worker that comes first makes the whole graph, not what is new alone.
            put(restored, "default", "turing", STORIES["turing"])
            work(restored)
            again = cypher(restored, "MATCH (e:Entity) RETURN e.name AS name ORDER BY e.name", corpus_name="default")
            assert [entity for entity in entities if entity not in again] == []
            assert len(again) > len(entities)
            assert rows(restored, "SELECT * FROM graphrag.check('default')") == []
            load = "FROM pg_proc WHERE proname = 'load_edges_from_file'"
            closed = f"SELECT bool_or(has_function_privilege('public', oid, 'EXECUTE')) {load}"
            assert value(restored, closed) is False
    finally:
        shared_cluster.drop_database("restored_graph")
