"""The entry to the owner's rights: nobody makes a token, and nothing that a session does changes what is read with them."""

import re
from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.security.portrait import Reader
from tests.sql.ingest import index_all, put, rows, searched_corpus, work

ALICES = "Ada Lovelace met Charles Babbage. Ada Lovelace praised the Analytical Engine."
BOBS = "Alan Turing met Grace Hopper. Alan Turing praised the Bombe."
NOBODYS = "Mata Hari met Ada Lovelace. Mata Hari paid Alan Turing. Mata Hari praised Project Zephyr."
ENTRIES = ("_enter", "_enter_writing", "_at_one_snapshot")
SEARCH = "SELECT string_agg(x.source_key, ',' ORDER BY x.source_key) FROM graphrag.search('Who met whom?', 'tenants', '{}') x"
SEEN = {
    "naive": SEARCH.format("naive"),
    "hybrid": SEARCH.format("hybrid"),
    "path": SEARCH.format("path"),
    "neighbors": "SELECT string_agg(x.name, ',' ORDER BY x.name) FROM graphrag.neighbors('Alan Turing', 'tenants', 3) x",
    "nodes": "SELECT string_agg(x.key, ',' ORDER BY x.key) FROM graphrag.graph_nodes x",
    "edges": "SELECT string_agg(x.source || x.target, ',' ORDER BY x.source, x.target) FROM graphrag.graph_edges x",
    "coverage": "SELECT string_agg(x.source_key || x.entities, ',' ORDER BY 1) FROM graphrag.document_coverage x",
    "timeline": "SELECT string_agg(x.name || x.mentions, ',' ORDER BY x.name) FROM graphrag.entity_timeline x",
    "growth": "SELECT string_agg(x.documents || ' ' || x.entities, ',') FROM graphrag.graph_growth x",
}
# Of each view a column that would tell.
COLUMNS = {
    "graph_nodes": "name",
    "graph_edges": "source",
    "document_coverage": "source_key",
    "entity_timeline": "name",
    "graph_growth": "entities",
    "graph_claims": "subject",
    "community_overview": "title",
}
SETTINGS = (
    "SET plan_cache_mode = force_generic_plan",
    "SET plan_cache_mode = force_custom_plan",
    "SET debug_parallel_query = on",
    "SET jit = on; SET jit_above_cost = 0",
    "SET DateStyle = 'German, DMY'",
    "SET IntervalStyle = sql_standard",
    "SET bytea_output = 'escape'",
    "SET default_text_search_config = 'pg_catalog.german'",
    "SET extra_float_digits = -15",
    "SET standard_conforming_strings = off",
    "SET backslash_quote = off",
    "SET transform_null_equals = on",
    "SET array_nulls = off",
    "SET quote_all_identifiers = on",
    "SET lc_numeric = 'C'",
    "SET xmloption = document",
    "SET enable_seqscan = off",
    "SET enable_indexscan = off",
    "SET enable_hashjoin = off",
    "SET work_mem = '64kB'",
    "SET default_transaction_read_only = on",
    "SET default_transaction_isolation = serializable",
    "SET check_function_bodies = off",
    "SET hnsw.ef_search = 1",
    "SET search_path = planted, pg_temp, pg_catalog",
)


@pytest.fixture(scope="module")
def tenants(module_db: Database) -> Iterator[Database]:
    """A corpus of three documents: alice's, bob's and nobody's."""
    db = module_db
    db.execute("SELECT graphrag.create_corpus('tenants', '{\"communities\": false}')")
    for key, text in {"alices": ALICES, "bobs": BOBS, "nobodys": NOBODYS}.items():
        put(db, "tenants", key, text, metadata={"reader": key.removesuffix("s")})
    work(db)
    for role in ("alice", "bob"):
        # Roles are the cluster's, and other tests have an alice too.
        db.execute(f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role} IN ROLE graphrag_reader".encode())
    db.execute("SELECT graphrag.protect('tenants', 'metadata ->> ''reader'' = current_user')")
    yield db
    db.execute("RESET ROLE; DROP OWNED BY alice, bob CASCADE; DROP ROLE alice, bob")


@pytest.fixture
def bob(tenants: Database) -> Iterator[Reader]:
    reader = Reader(tenants.url, "bob")
    yield reader
    reader.connection.close()


def seen(reader: Reader) -> dict[str, str]:
    return {name: reader.gives(sql) for name, sql in SEEN.items()}


@pytest.fixture(scope="module")
def expected(tenants: Database) -> dict[str, str]:
    """What bob sees in a new session."""
    reader = Reader(tenants.url, "bob")
    shown = seen(reader)
    reader.connection.close()
    assert shown["naive"] == shown["hybrid"] == "bobs"
    assert "turing" in shown["nodes"] and not [
        text for text in shown.values() if "ada" in text.lower() or "Mata" in text
    ]
    return shown


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_token_is_guessed(bob: Reader, entry: str) -> None:
    for token in ("NULL", "''", "'0'", "repeat('0', 32)", "repeat('a', 100000)", "'None'", "md5('')"):
        assert bob.gives(f"SELECT graphrag.{entry}({token})").startswith("42501"), token


@pytest.mark.sample(6)
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_change_nothing_that_is_shown(
    bob: Reader, tenants: Database, expected: dict[str, str], setting: str
) -> None:
    bob.connection.execute(setting.encode())
    assert seen(bob) == expected


@pytest.mark.parametrize(
    "setting",
    [
        "log_statement = 'all'",
        "log_min_duration_statement = 0",
        "log_executor_stats = on",
        "log_parameter_max_length = -1",
        "log_error_verbosity = verbose",
        "track_functions = 'all'",
        "backtrace_functions = 'exec_stmt'",
        "session_preload_libraries = 'auto_explain'",
        "debug_discard_caches = 1",
        "session_replication_role = replica",
    ],
)
def test_a_reader_has_the_server_log_no_more(bob: Reader, setting: str) -> None:
    assert bob.gives(f"SET {setting}").startswith("42501")
    assert bob.gives("LOAD 'auto_explain'").startswith("42501")


def printed_by(reader: Reader, statements: list[str]) -> str:
    """All that the server sends of statements to who asked for it, with the bytes of constants as text."""
    printed: list[str] = []
    reader.connection.add_notice_handler(lambda diag: printed.append(f"{diag.message_primary} {diag.message_detail}"))
    for sql in statements:
        reader.gives(sql)
    sent = " ".join(" ".join(printed).split())
    constants = re.findall(r"\[ ((?:-?[0-9]+ )+)\]", sent)
    return sent + "\n".join(
        bytes(int(byte) & 255 for byte in constant.split()).decode("latin1") for constant in constants
    )


def test_parse_trees_and_plans_of_what_runs_with_the_owners_rights_hold_no_hidden_text(bob: Reader) -> None:
    for name in ("debug_print_parse", "debug_print_rewritten", "debug_print_plan", "trace_sort", "trace_notify"):
        bob.connection.execute(f"SET {name} = on".encode())
    bob.connection.execute("SET debug_pretty_print = off; SET client_min_messages = debug5")
    sent = printed_by(bob, ["SELECT 'This is shown.'", *SEEN.values(), *SEEN.values()])
    assert "This is shown." in sent
    assert not [secret for secret in ("Mata", "mata hari", "Zephyr", "Lovelace", "nobodys", "alices") if secret in sent]


def test_planted_functions_and_operators_are_not_run(tenants: Database, bob: Reader, expected: dict[str, str]) -> None:
    tenants.execute("CREATE SCHEMA planted AUTHORIZATION bob")
    trap = "RETURNS {} LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'trap as %', current_user; RETURN NULL; END $$"
    for signature, kind in {
        "eq(bigint, bigint)": "boolean", "eqt(text, text)": "boolean", "cont(jsonb, jsonb)": "boolean",
        "unnest(bigint[])": "SETOF bigint", "int8send(bigint)": "bytea", "least(int, int)": "int",
        "row_security_active(text)": "boolean", "has_table_privilege(text, text)": "boolean",
        "to_tsvector(regconfig, text)": "tsvector",
        "current_setting(text, boolean)": "text", "coalesce(int, int)": "int",
    }.items():  # fmt: skip
        body = trap.replace("RETURN NULL", "RETURN") if kind.startswith("SETOF") else trap
        bob.connection.execute(
            f'CREATE FUNCTION planted."{signature.replace("(", chr(34) + "(", 1)} {body.format(kind)}'.encode()
        )
    for operator, function, kind in (("=", "eq", "bigint"), ("=", "eqt", "text"), ("@>", "cont", "jsonb")):
        bob.connection.execute(
            f"CREATE OPERATOR planted.{operator} (FUNCTION = planted.{function}, LEFTARG = {kind}, RIGHTARG = {kind})".encode()
        )
    for table in ("documents", "entities", "pg_extension", "pg_policy", "corpora"):
        bob.connection.execute(f"CREATE TEMP TABLE {table} (id bigint, corpus text)".encode())
    bob.connection.execute("SET search_path = planted, pg_temp, pg_catalog")
    shown = seen(bob)
    # The statement itself finds what is planted; what it calls does not.
    assert not [text for text in shown.values() if "trap as postgres" in text]
    assert {name: shown[name].partition("WARNING")[0].strip() for name in shown if name != "growth"} == {
        name: expected[name].strip() for name in expected if name != "growth"
    }
    tenants.execute("DROP SCHEMA planted CASCADE")


def test_prepared_statements_and_cursors_ask_for_who_runs_them(tenants: Database, expected: dict[str, str]) -> None:
    session = Reader(tenants.url, "NONE", "SET plan_cache_mode = force_generic_plan")
    for name, sql in SEEN.items():
        session.connection.execute(f"PREPARE {name} AS {sql}".encode())
        for role in ("postgres", "alice", "bob", "alice", "bob"):
            session.connection.execute(f"SET ROLE {role}".encode())
            given = session.gives(f"EXECUTE {name}")
            assert (given == expected[name]) == (role == "bob") or name == "growth", (name, role, given)
        for role in ("postgres", "alice"):
            for hold in ("", "WITH HOLD"):
                session.connection.execute(f"SET ROLE {role}".encode())
                with session.connection.transaction():
                    session.connection.execute(f"DECLARE c CURSOR {hold} FOR {sql}".encode())
                    session.connection.execute("SET ROLE bob")
                    assert session.gives("FETCH ALL FROM c") == expected[name], (name, role, hold)
                    session.connection.execute("CLOSE c")
    session.connection.close()


def test_a_view_or_function_of_somebody_else_shows_what_its_caller_sees(
    tenants: Database, bob: Reader, expected: dict[str, str]
) -> None:
    tenants.execute("CREATE SCHEMA shared; GRANT ALL ON SCHEMA shared TO alice, bob")
    alice = Reader(tenants.url, "alice")
    for name, sql in SEEN.items():
        alice.connection.execute(f"CREATE VIEW shared.{name} AS {sql}".encode())
        alice.connection.execute(f"CREATE FUNCTION shared.f_{name}() RETURNS text LANGUAGE sql AS $${sql}$$".encode())
    alice.connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA shared TO bob")
    for name in SEEN:
        assert bob.gives(f"SELECT * FROM shared.{name}") == expected[name], name
        assert bob.gives(f"SELECT shared.f_{name}()") == expected[name], name
        # DEFINER lends alice's eyes, not the owner's.
        alice.connection.execute(f"ALTER FUNCTION shared.f_{name}() SECURITY DEFINER".encode())
        assert bob.gives(f"SELECT shared.f_{name}()") == alice.gives(SEEN[name]), name
    alice.connection.close()
    tenants.execute("DROP SCHEMA shared CASCADE")


def test_errors_rollbacks_and_cancels_leave_no_token(tenants: Database, expected: dict[str, str]) -> None:
    tenants.execute(
        "CREATE OR REPLACE FUNCTION public.waiting_tokens() RETURNS int LANGUAGE plpython3u SECURITY DEFINER"
        " AS 'from pg_graphrag.server.access import entry; return len(entry._pending)'"
    )
    reader = Reader(tenants.url, "bob")
    for wrong in (
        "SELECT graphrag.search('x', 'tenants', 'hybrid', options => '{\"no\": 1}')",
        "SELECT graphrag.to_dot('Mata Hari', 'tenants')",
    ):
        with reader.connection.transaction():
            reader.connection.execute("SAVEPOINT before")
            assert reader.gives(wrong)[:5] in ("22023", "42704")
            reader.connection.execute("ROLLBACK TO SAVEPOINT before")
            assert seen(reader) == expected
        caught = f"DO $do$ BEGIN PERFORM * FROM ({wrong}) x; EXCEPTION WHEN OTHERS THEN PERFORM graphrag._enter(''); END $do$"
        assert reader.gives(caught).startswith("42501")
        assert reader.gives("SELECT public.waiting_tokens()") == "0"
    for limit in range(1, 40, 3):
        reader.connection.execute(f"SET statement_timeout = {limit}".encode())
        for sql in SEEN.values():
            reader.gives(sql)
        # On a busy machine a limit of 1 ms stops this as well.
        while reader.gives("SELECT set_config('statement_timeout', '0', false)") != "0":
            pass
        assert reader.gives("SELECT public.waiting_tokens()") == "0"
    assert seen(reader) == expected
    reader.connection.close()


def test_row_security_off_and_replication_role_open_nothing(bob: Reader, expected: dict[str, str]) -> None:
    assert bob.gives("SET session_replication_role = replica").startswith("42501")
    bob.connection.execute("SET row_security = off")
    for name, given in seen(bob).items():
        assert (
            given.startswith("42501") or given == expected[name] or ("Mata" not in given and "ada" not in given.lower())
        ), (name, given)


def test_a_policy_that_searches_ends_in_an_error_and_the_session_lives(db: Database) -> None:
    corpus = index_all(db, searched_corpus(db), {"a": ALICES})
    db.execute(
        "CREATE FUNCTION public.recurse(text) RETURNS boolean LANGUAGE sql STABLE"
        " AS $$SELECT count(*) >= 0 FROM graphrag.search('x', $1, 'naive')$$"
    )
    db.execute("SELECT graphrag.protect(%s, 'public.recurse(corpus)')", [corpus])
    reader = Reader(db.url, "graphrag_reader")
    given = reader.gives("SELECT source_key FROM graphrag.search('Ada', %s, 'naive')", corpus)
    assert given[:5] in ("54001", "38000", "42P17"), given
    db.execute("SELECT graphrag.protect(%s, 'true')", [corpus])
    assert reader.gives("SELECT source_key FROM graphrag.search('Ada', %s, 'naive')", corpus) == "a"
    reader.connection.close()


def test_a_condition_of_the_callers_sees_no_hidden_row_of_a_view(bob: Reader, tenants: Database) -> None:
    tenants.execute("GRANT CREATE ON SCHEMA public TO bob")
    bob.connection.execute(
        "CREATE FUNCTION public.leak(anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0000001"
        " AS $$BEGIN RAISE NOTICE 'leak %', $1; RETURN true; END$$"
    )
    for view, column in COLUMNS.items():
        bad = f"x.{column}::text ~ 'Mata|nobody|Zephyr'"
        for sql in (
            f"SELECT count(*) FROM graphrag.{view} x WHERE public.leak(x.{column})",
            f"SELECT count(*) FROM graphrag.{view} x WHERE public.leak(x)",
            f"SELECT x.{column} FROM graphrag.{view} x ORDER BY public.leak(x.{column}) LIMIT 1",
            f"SELECT count(*) FROM graphrag.{view} x WHERE x.{column}::text = 'Mata Hari' AND public.leak(x.{column})",
            f"SELECT count(*) FROM graphrag.{view} x WHERE 1 / CASE WHEN {bad} THEN 0 ELSE 1 END = 1",
            f"SELECT count(*) FROM graphrag.{view} x WHERE (CASE WHEN {bad} THEN 'x' ELSE '1' END)::int = 1",
        ):
            given = bob.gives(sql)
            assert not [
                secret for secret in ("Mata", "nobodys", "Zephyr", "Lovelace", "22012", "22P02") if secret in given
            ], (sql, given)
    bob.connection.execute("DROP FUNCTION public.leak(anyelement)")
    tenants.execute("REVOKE CREATE ON SCHEMA public FROM bob")


def estimate(reader: Reader, sql: str) -> str:
    """The plan of a statement without what it says of the condition itself."""
    reader.connection.execute("SET plan_cache_mode = force_custom_plan")
    plan = rows(reader.connection, f"EXPLAIN (FORMAT JSON) {sql}")[0][0]
    return str([(n, p) for n, p in numbers(plan)])


def numbers(node: object) -> Iterator[tuple[str, object]]:
    if isinstance(node, dict):
        for key, part in node.items():
            if key in ("Plan Rows", "Total Cost", "Index Name", "Node Type"):
                yield key, part
            yield from numbers(part)
    elif isinstance(node, list):
        for part in node:
            yield from numbers(part)


def test_explain_of_a_view_tells_no_hidden_value(tenants: Database, bob: Reader) -> None:
    tenants.execute("ANALYZE")
    for view, columns in {
        "graph_nodes": ("name", "key", "description"),
        "graph_edges": ("source", "target", "description"),
    }.items():
        for column in columns:
            for operator in ("=", "<", ">"):
                plans = {
                    estimate(bob, f"SELECT FROM graphrag.{view} WHERE {column} {operator} '{text}'")
                    for text in ("Mata Hari", "mata hari", "Maxx Hari", "Mata Hari met Ada Lovelace.", "Z", "zz", "A")
                }
                assert len(plans) == 1, (view, column, operator, plans)


def test_no_statistics_of_derived_tables_are_readable(tenants: Database, bob: Reader) -> None:
    tenants.execute("ANALYZE")
    assert (
        bob.gives("SELECT count(*) FROM pg_stats WHERE schemaname = 'graphrag' AND tablename NOT IN ('corpora')") == "0"
    )
    assert bob.gives("SELECT count(*) FROM pg_stats_ext WHERE schemaname = 'graphrag'") == "0"
    for sequence in ("documents_id_seq", "chunks_id_seq", "entities_id_seq"):
        for call in ("last_value FROM graphrag.", "currval('graphrag.", "nextval('graphrag."):
            end = "')" if "(" in call else ""
            assert bob.gives(f"SELECT {call}{sequence}{end}")[:5] in ("42501", "42P01", "55000"), (sequence, call)
