"""Nothing that others plant in AGE's schemas, or under the name of a graph, runs with the extension owner's rights."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.security.graph_traps import (
    CALLS,
    MALLORY,
    call_everything,
    plant_names,
    planting,
    ran_as_others,
    spring_traps,
)
from tests.sql.graph_rows import corpus, cypher, entity, project_all
from tests.sql.ingest import STORIES, corpus_id, index_all, new_corpus, put_all, refused, rows, value, work
from tests.sql.test_projection import small_graph
from tests.upgrade.released import create_released

LABELS = ("Entity", "Chunk", "Document", "RELATED", "MENTIONED_IN", "PART_OF", "Community", "IN_COMMUNITY", "PARENT")
VERTICES = ("Entity", "Chunk", "Document", "Community")


@pytest.fixture
def mallory(db: Database) -> Iterator[Database]:
    """Mallory's session."""
    with planting(db) as connection:
        yield connection


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


@pytest.mark.sample(2)
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
    index_all(db, name, {"ada": STORIES["ada"]})
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


@pytest.mark.sample(2)
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
    index_all(db, name, {"ada": STORIES["ada"]})
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


@pytest.mark.sample(6)
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


def test_a_new_installation_shows_nothing_of_the_old_one(db: Database) -> None:
    index_all(db, "default", {"secret": "The Old Tenant keeps the Secret Ledger in Geneva."})
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

    index_all(db, "default", {"new": "Ada Lovelace wrote notes."})
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


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "foreign",
    [
        None,
        "CREATE TABLE {}.orders (id ag_catalog.graphid)",
        "CREATE TABLE {}.parent (id ag_catalog.graphid); CREATE TABLE {}.orders () INHERITS ({}.parent)",
        "CREATE DOMAIN {}.amount AS int",
        "CREATE TYPE {}.state AS ENUM ('open')",
        "CREATE TYPE {}.pair AS (a int, b int)",
        'CREATE COLLATION {}.mine FROM "C"',
        "CREATE OPERATOR {}.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = pg_catalog.int4eq)",
        "CREATE FUNCTION {}.one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE VIEW {}.shown AS SELECT 1 AS a",
    ],
    ids=lambda foreign: foreign and foreign.split(" {}")[0],
)
def test_a_restored_graph_is_made_again_and_what_others_keep_in_its_schema_stays(
    db: Database, foreign: str | None
) -> None:
    number, _ = small_graph(db)
    # A restore of schemas alone brings the tables, and not what AGE knows of them.
    db.execute("DELETE FROM ag_catalog.ag_label; DELETE FROM ag_catalog.ag_graph; DELETE FROM graphrag._graphs")
    if foreign is None:
        db.execute("SELECT graphrag.rebuild_graph('c')")
        assert cypher(db, "MATCH (e:Entity) RETURN count(*) AS n") == [{"n": 2}]
        return
    db.execute(foreign.replace("{}", f"graphrag_{number}").encode())
    for call in (
        "SELECT graphrag.rebuild_graph('c')",
        "SELECT graphrag.repair()",
        f"SELECT graphrag._ensure_graph({number})",
    ):
        assert refused(db, call).sqlstate == "42P06"


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
    index_all(db, "default", {"ada": STORIES["ada"]})
    entities = cypher(db, "MATCH (e:Entity) RETURN e.name AS name ORDER BY e.name", corpus_name="default")
    url = shared_cluster.create_database("restored_graph", "template0")
    try:
        shared_cluster.restore("restored_graph", shared_cluster.dump(db.info.dbname))
        with Database.open(url) as restored:
            query = "SELECT graphrag.cypher('default', 'MATCH (e) RETURN e')"
            diag = refused(restored, query)
            assert diag.sqlstate == "55000" and "graphrag.repair()" in str(diag.message_hint)
            # A worker that comes first makes the whole graph, not what is new alone.
            index_all(restored, "default", {"turing": STORIES["turing"]})
            again = cypher(restored, "MATCH (e:Entity) RETURN e.name AS name ORDER BY e.name", corpus_name="default")
            assert [entity for entity in entities if entity not in again] == []
            assert len(again) > len(entities)
            assert rows(restored, "SELECT * FROM graphrag.check('default')") == []
            load = "FROM pg_proc WHERE proname = 'load_edges_from_file'"
            closed = f"SELECT bool_or(has_function_privilege('public', oid, 'EXECUTE')) {load}"
            assert value(restored, closed) is False
    finally:
        shared_cluster.drop_database("restored_graph")
