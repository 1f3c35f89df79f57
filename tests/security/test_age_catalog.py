"""Nothing that others plant in AGE's own schema, or ask of its functions, reaches a graph of ours."""

import re
from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.security.graph_traps import CALLS, MALLORY, call_everything, planting, ran_as_others
from tests.sql.graph_rows import cypher, project_all
from tests.sql.ingest import refused, rows, value
from tests.sql.test_projection import small_graph


@pytest.fixture
def mallory(db: Database) -> Iterator[Database]:
    """Mallory's session."""
    with planting(db) as connection:
        yield connection


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


@pytest.mark.sample(2)
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


@pytest.mark.sample(3)
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


@pytest.mark.sample(10)
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
