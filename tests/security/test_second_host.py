"""Attacks on the process beside a database: prepared schemas, code that takes its rights, what it shares between callers."""

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client.hosts import transaction
from pg_graphrag.beside.process import schema
from pg_graphrag.beside.process.copying import copy
from pg_graphrag.ground.errors import GraphRAGError
from psycopg.conninfo import make_conninfo

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database, Server
from tests.security.acting import new_role
from tests.sql.two_hosts import OWNER, Host, outcome, plain_database, reply

REPLY = reply
# What Mallory prepares for who installs, or asks, after her.
PREPARED = """
CREATE SCHEMA graphrag; GRANT USAGE ON SCHEMA graphrag TO PUBLIC; CREATE SEQUENCE graphrag.ran;
GRANT ALL ON SEQUENCE graphrag.ran TO PUBLIC;
CREATE FUNCTION graphrag.trap() RETURNS text LANGUAGE plpgsql AS $$
BEGIN IF current_user <> '{mallory}' THEN PERFORM nextval('graphrag.ran'); END IF; RETURN '{version}'; END $$;
CREATE VIEW graphrag._installed WITH (security_invoker) AS
 SELECT graphrag.trap() AS version, 'x'::text AS tokenizer, 'x'::text AS tokenizer_fingerprint;
CREATE VIEW graphrag.corpora WITH (security_invoker) AS
 SELECT 1 AS id, graphrag.trap() AS name, '{{}}'::jsonb AS options, 'x'::text AS tokenizer, 'x'::text AS tokenizer_fingerprint;
CREATE VIEW graphrag.documents AS SELECT 1::bigint AS id, graphrag.trap() AS content;
CREATE FUNCTION graphrag.search(query text, corpus text, mode text, top_k int, filter jsonb, low_level_keywords text[],
 high_level_keywords text[], options jsonb) RETURNS void LANGUAGE sql AS 'SELECT graphrag.trap()';
GRANT SELECT ON ALL TABLES IN SCHEMA graphrag TO PUBLIC;
"""
# What is there besides: of the host itself, and for graph_nodes and graph_edges, which say what a reader may see.
NEW = {
    *("graphrag._installed", "graphrag._refuse_cypher()", "graphrag._ensure_roles()"),
    *(
        "graphrag._as_description(text)",
        "graphrag._partial_corpora",
        "graphrag._stated_names",
        "graphrag._stated_nodes",
        "graphrag._stated_edges",
    ),
}
PLANTED = """
CREATE SCHEMA {role} AUTHORIZATION {role}; GRANT USAGE ON SCHEMA {role} TO PUBLIC; SET ROLE {role};
CREATE TABLE {role}.taken (who name); GRANT INSERT ON {role}.taken TO PUBLIC;
CREATE FUNCTION {role}.take() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('role', 'none', true);
    BEGIN INSERT INTO {role}.taken VALUES (current_user); EXCEPTION WHEN OTHERS THEN NULL; END;
    DELETE FROM graphrag.corpora;
    RETURN 'ada';
END $$;
CREATE VIEW {role}.taking AS SELECT {role}.take() AS source_key;
CREATE TABLE {role}.plain_keys (source_key text);
CREATE TABLE {role}.policy (source_key text); ALTER TABLE {role}.policy ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON {role}.policy USING ({role}.take() IS NOT NULL); INSERT INTO {role}.plain_keys VALUES ('ada');
RESET ROLE;
"""


@pytest.fixture(scope="module")
def host(shared_cluster: Cluster | Server, module_endpoint: Endpoint) -> Iterator[Host]:
    with plain_database(shared_cluster) as url, GraphRAG(url, "stories") as rag:
        rag.call("set_provider", name="stand-in", kind="openai", base_url=module_endpoint.url)
        rag.create_corpus(communities=False, llm={"provider": "stand-in", "model": "m"})
        rag.insert({"source_key": "ada", "content": "Ada Lovelace wrote notes on the Analytical Engine."})
        rag.process_jobs()
        yield Host("process", url, rag)


@pytest.fixture(scope="module")
def superuser(shared_cluster: Cluster | Server, host: Host) -> Iterator[Database]:
    name = psycopg.conninfo.conninfo_to_dict(host.url)["dbname"]
    with shared_cluster.connect(str(name)) as connection:
        yield connection


def install_refused(connection: psycopg.Connection[Any]) -> str:
    """The error of an installation, which must have a HINT."""
    with pytest.raises(GraphRAGError) as raised:
        schema.install(connection)
    assert (raised.value.sqlstate, bool(raised.value.hint)) == ("42501", True)
    return f"{raised.value.message} {raised.value.hint}"


@pytest.mark.parametrize("who", ["the owner to be", "a superuser", "a reader"])
def test_a_schema_that_somebody_prepared_is_neither_installed_into_nor_asked(
    shared_cluster: Cluster | Server, who: str
) -> None:
    with (
        plain_database(shared_cluster, schema_too=False) as url,
        shared_cluster.connect(str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])) as superuser,
        new_role(superuser, "LOGIN PASSWORD 'm'") as mallory,
        new_role(superuser, "LOGIN PASSWORD 'm'") as reader,
    ):
        superuser.execute(f"GRANT CREATE ON DATABASE {superuser.info.dbname} TO {mallory}".encode())
        with psycopg.connect(make_conninfo(url, user=mallory, password="m"), autocommit=True) as session:
            session.execute(PREPARED.format(mallory=mallory, version=schema.__version__).encode())
        urls = {
            "the owner to be": url,
            "a superuser": superuser.info.dsn,
            "a reader": make_conninfo(url, user=reader, password="m"),
        }
        victim = superuser if who == "a superuser" else psycopg.connect(urls[who], autocommit=True)
        assert install_refused(victim)
        for call in (
            lambda: GraphRAG(victim, "stories").search("Ada"),
            lambda: GraphRAG(victim, "stories").process_jobs(),
            lambda: GraphRAG(victim, "stories").call("check"),
        ):
            assert outcome(call)[1] == "42501"
        with psycopg.connect(victim.info.dsn + " password=" + victim.info.password, autocommit=True) as other:
            with pytest.raises(GraphRAGError) as raised:
                copy(victim, other)
            assert raised.value.sqlstate == "42501"
        assert superuser.execute("SELECT is_called FROM graphrag.ran").fetchall() == [(False,)]
        if victim is not superuser:
            victim.close()


def test_a_superuser_does_not_serve_the_schema_of_somebody_who_is_none(superuser: Database, host: Host) -> None:
    for call in (
        lambda: GraphRAG(superuser, "stories").search("Ada"),
        lambda: GraphRAG(superuser, "stories").process_jobs(),
    ):
        _, sqlstate, message, _, hint = outcome(call)
        assert sqlstate == "42501" and "superuser" in message and OWNER in hint
    assert OWNER in install_refused(superuser)


@pytest.mark.parametrize("relation", ["taking", "plain_keys", "policy"])
def test_a_relation_of_the_callers_does_not_run_in_a_session_of_the_owner(
    superuser: Database, host: Host, relation: str
) -> None:
    with new_role(superuser, "IN ROLE graphrag_reader") as role:
        superuser.execute(f"GRANT {role} TO {OWNER}".encode())
        superuser.execute(PLANTED.format(role=role).encode())
        with host.as_role(role) as rag:
            filter_ = {"$relation": f"{role}.{relation}"}
            for call in (
                lambda: rag.search("Ada Lovelace", mode="bm25", filter=filter_),
                lambda: rag.context("Ada Lovelace", filter=filter_),
                lambda: rag.ask("Ada Lovelace", filter=filter_),
                lambda: rag.call("neighbors", entity="Ada Lovelace", filter=filter_),
                lambda: rag.search("Ada", filter={"$or": [{"$not": filter_}, {"a": 1}]}),
            ):
                assert outcome(call)[1] == "42501"
            assert rag.search("Ada Lovelace", mode="bm25")
        assert superuser.execute(f"SELECT who FROM {role}.taken".encode()).fetchall() == []
        host.rows("CREATE TABLE IF NOT EXISTS graphrag_attached.picked AS SELECT 'ada' AS source_key")
        host.rows(f"GRANT SELECT ON graphrag_attached.picked TO {role}")
        with host.as_role(role) as rag:
            assert rag.search("Ada Lovelace", mode="bm25", filter={"$relation": "graphrag_attached.picked"})
        superuser.execute(f"DROP SCHEMA {role} CASCADE; REVOKE {role} FROM {OWNER}".encode())


def test_the_extension_vector_of_somebody_else_is_refused(shared_cluster: Cluster | Server) -> None:
    with (
        plain_database(shared_cluster, schema_too=False) as url,
        shared_cluster.connect(str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])) as superuser,
        new_role(superuser) as mallory,
        psycopg.connect(url, autocommit=True) as owner,
    ):
        superuser.execute(
            f"CREATE SCHEMA hers AUTHORIZATION {mallory}; ALTER EXTENSION vector SET SCHEMA hers".encode()
        )
        _, sqlstate, message, _, hint = outcome(lambda: schema.install(owner))
        assert sqlstate == "42501" and mallory in message and hint
        assert owner.execute("SELECT to_regnamespace('graphrag')").fetchone() == (None,)
        superuser.execute(f"ALTER SCHEMA hers OWNER TO {OWNER}".encode())
        assert schema.install(owner)


def test_an_open_stream_keeps_nobody_else_waiting_and_lends_nobody_its_caller(host: Host) -> None:
    with psycopg.connect(host.url, autocommit=True) as connection:
        rag = GraphRAG(connection, "stories")
        pieces = rag.ask_stream("What did Ada Lovelace write?")
        assert next(iter(pieces))
        # On its connection nothing else is done meanwhile.
        for call in (lambda: rag.search("Ada"), lambda: rag.call("check"), lambda: rag.call("_enter", token="x")):
            assert outcome(call)[1] == "55000"
        # Others, in this thread and in another, do not wait for it.
        assert host.rag.search("Ada Lovelace", mode="bm25")
        results: list[Any] = []
        thread = threading.Thread(
            target=lambda: results.append(host.rag.search("Ada Lovelace", mode="bm25")), daemon=True
        )
        thread.start()
        thread.join(20)
        assert results and results[0]
        assert "".join(pieces)
        assert rag.search("Ada Lovelace", mode="bm25")


def test_a_stream_that_is_dropped_ends_its_transaction(host: Host) -> None:
    with psycopg.connect(host.url, autocommit=True) as connection:
        rag = GraphRAG(connection, "stories")
        pieces = rag.ask_stream("What did Ada Lovelace write?")
        assert next(iter(pieces))
        pieces.close()  # type: ignore[attr-defined]
        assert rag.search("Ada Lovelace", mode="bm25")


def test_a_connection_that_is_closed_is_forgotten(host: Host) -> None:
    connection = psycopg.connect(host.url, autocommit=True)
    assert GraphRAG(connection, "stories").search("Ada Lovelace", mode="bm25")
    reference = weakref.ref(connection)
    connection.close()
    del connection
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize(
    "privilege", ["", "GRANT USAGE ON SCHEMA graphrag TO {0}; GRANT SELECT ON graphrag._installed TO {0}"]
)
def test_who_may_not_call_is_told_so_whatever_he_asks(host: Host, superuser: Database, privilege: str) -> None:
    """A search begins its transaction with its first statement, which a bad argument does not reach."""
    with new_role(superuser) as outsider, psycopg.connect(host.url, autocommit=True) as connection:
        superuser.execute(f"GRANT {outsider} TO {OWNER}; {privilege.format(outsider)}".encode())
        rag = GraphRAG(connection, "stories")
        assert rag.search("Ada Lovelace", mode="bm25")
        connection.execute(f"SET ROLE {outsider}".encode())
        outcomes = [
            outcome(lambda: rag.search("Ada Lovelace", mode="bm25")),
            outcome(lambda: rag.search("Ada Lovelace", top_k=-1)),
            outcome(lambda: GraphRAG(connection, "nobody").search("Ada Lovelace")),
        ]
        assert outcomes[0][:2] == ("InsufficientPrivilege", "42501") and outcomes[0] == outcomes[1] == outcomes[2]
        assert ("function search" in outcomes[0][2]) == bool(privilege)
        connection.execute("RESET ROLE")
        assert rag.search("Ada Lovelace", mode="bm25")
        superuser.execute(f"DROP OWNED BY {outsider}".encode())


def test_calls_of_one_transaction_are_each_their_callers(host: Host, superuser: Database) -> None:
    """Between them a call has had the owner's rights."""
    with (
        new_role(superuser, "IN ROLE graphrag_reader") as reader,
        psycopg.connect(host.url, autocommit=True) as connection,
    ):
        superuser.execute(f"GRANT {reader} TO {OWNER}".encode())
        connection.execute(f"SET ROLE {reader}".encode())
        rag = GraphRAG(connection, "stories")

        def search_and_drop() -> None:
            with transaction(connection):
                assert rag.search("Ada Lovelace", mode="bm25")
                assert rag.search("Ada Lovelace", mode="bm25")
                rag.drop_corpus()

        error, sqlstate, message, _, _ = outcome(search_and_drop)
        assert (error, sqlstate) == ("InsufficientPrivilege", "42501") and "drop_corpus" in message
        assert connection.execute("SELECT current_user").fetchone() == (reader,)
        assert rag.search("Ada Lovelace", mode="bm25")
        superuser.execute(f"REVOKE {reader} FROM {OWNER}".encode())


def test_between_calls_of_one_transaction_role_and_settings_are_the_callers(host: Host, superuser: Database) -> None:
    in_force = "SELECT current_user, current_setting('search_path'), current_setting('jit')"
    with (
        new_role(superuser, "IN ROLE graphrag_reader") as reader,
        psycopg.connect(host.url, autocommit=True) as connection,
    ):
        superuser.execute(f"GRANT {reader} TO {OWNER}".encode())
        connection.execute(f"SET ROLE {reader}; SET search_path = public; SET jit = on".encode())
        rag = GraphRAG(connection, "stories")
        with transaction(connection):
            rag.feedback("Who wrote notes?", "good", evidence=["ada"])
            assert connection.execute(in_force.encode()).fetchone() == (reader, "public", "on")
            assert rag.search("Ada Lovelace")
            assert connection.execute(in_force.encode()).fetchone() == (reader, "public", "on")
        assert connection.execute(in_force.encode()).fetchone() == (reader, "public", "on")
        superuser.execute(f"REVOKE {reader} FROM {OWNER}".encode())


def test_a_transaction_whose_call_failed_does_nothing_more(host: Host) -> None:
    with psycopg.connect(host.url, autocommit=True) as connection:
        made, other = GraphRAG(connection, "made"), GraphRAG(connection, "other")
        with transaction(connection):
            made.create_corpus()
            assert outcome(made.create_corpus)[1] == "23505"
            assert outcome(other.create_corpus)[1] == "25P02"
        with pytest.raises(ZeroDivisionError), transaction(connection):
            made.create_corpus()
            raise ZeroDivisionError
        with transaction(connection):
            assert outcome(lambda: other.call("process_jobs"))[1] == "2D000"
        assert connection.execute("SELECT name FROM graphrag.corpora ORDER BY 1").fetchall() == [("stories",)]


@pytest.mark.parametrize("encoding", ["LATIN1", "SJIS", "GBK", "BIG5"])
def test_a_connection_of_another_encoding_is_refused(host: Host, encoding: str) -> None:
    with psycopg.connect(make_conninfo(host.url, client_encoding=encoding), autocommit=True) as connection:
        _, sqlstate, _, _, hint = outcome(lambda: GraphRAG(connection, "stories").search("Ada"))
        assert sqlstate == "22021" and hint


def test_nothing_is_open_beside_a_database_that_is_closed_in_a_server(host: Host, module_db: Database) -> None:
    """Privileges of functions, tables and views. Of the plain schema's own, PUBLIC reads what is installed."""
    grants = """
    ARRAY(SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END || ' ' || a.privilege_type
            FROM aclexplode(coalesce({acl}, acldefault('{kind}', {owner}))) a WHERE a.grantee <> {owner} ORDER BY 1)"""
    routines = (
        f"SELECT p.oid::regprocedure::text, p.prosecdef, {grants.format(acl='p.proacl', kind='f', owner='p.proowner')}"
        "  FROM pg_proc p WHERE p.pronamespace = 'graphrag'::regnamespace"
    )
    relations = (
        f"SELECT c.oid::regclass::text, c.reloptions::text, {grants.format(acl='c.relacl', kind='r', owner='c.relowner')}"
        "  FROM pg_class c WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind IN ('r', 'v', 'S')"
    )
    for statement in (routines, relations):
        in_server = {row[0]: row[1:] for row in module_db.execute(statement.encode()).fetchall()}
        beside = {row[0]: row[1:] for row in host.rows(statement)}
        other = {name: row for name, row in beside.items() if name in in_server and row[1] != in_server[name][1]}
        assert other == {}
        # Nobody has the owner's rights there, but where he has them in the server.
        if statement is routines:
            assert [
                name for name, row in beside.items() if row[0] and name in in_server and not in_server[name][0]
            ] == []
        new = {name: row[1] for name, row in beside.items() if name not in in_server}
        assert [name for name, grants in new.items() if any(grant.startswith("PUBLIC") for grant in grants)] == []
        assert set(new) <= NEW
    columns = (
        "SELECT c.relname, a.attname, x.privilege_type FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid,"
        " aclexplode(a.attacl) x WHERE c.relnamespace = 'graphrag'::regnamespace AND x.grantee = 0"
    )
    assert set(host.rows(columns)) - set(module_db.execute(columns.encode()).fetchall()) == {
        ("_installed", column, "SELECT") for column in ("tokenizer", "tokenizer_fingerprint", "version")
    }
