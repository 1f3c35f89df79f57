"""Attacks on search() of other nodes, of who asks and of who owns a server here. Of who runs a node: test_hostile_nodes.py."""

import re
import time
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.runtime import beside
from tests.runtime.cluster import Cluster, Database, Server
from tests.security.acting import acting_as, denied, new_role
from tests.security.intercepting import hang, listening
from tests.security.node_b import ENGINE, HERE, THERE
from tests.sql.ingest import ROCKETS, index_all, refused, rows, search, value
from tests.sql.linked_nodes import add_server, link, login, map_role, unlink
from tests.sql.test_several_corpora import merged

pytestmark = pytest.mark.skipif(beside.IS_BESIDE, reason="the other node answers SQL, which a database beside does not")


# Who asks


def test_rights_are_those_of_the_node(module_db: Database, there: Database) -> None:
    with login(module_db, there) as (reader, password):
        map_role(module_db, "b", reader, reader, password)
        with acting_as(module_db, reader) as session:
            for hits in (search(session, ENGINE, THERE), merged(session, [THERE], ENGINE)):
                assert [row["source_key"] for row in hits] == ["kes"]
        assert len(search(module_db, ENGINE, THERE)) == len(ROCKETS)
    # Who reads nothing here may be somebody there, and who reads all here nobody.
    with (
        login(module_db, there, rights="graphrag_member") as (nobody, own),
        login(module_db, there) as (reader, password),
    ):
        map_role(module_db, "b", nobody, reader, password)
        map_role(module_db, "b", reader, nobody, own)
        with acting_as(module_db, nobody) as session:
            assert [row["source_key"] for row in search(session, ENGINE, THERE)] == ["kes"]
            assert {row["corpus"] for row in merged(session, ["*"])} == {THERE}
        with acting_as(module_db, reader) as session:
            diag = refused(session, "SELECT * FROM graphrag.search('x', %s)", THERE)
            assert (diag.sqlstate, 'node "b": permission denied' in str(diag.message_primary)) == ("42501", True)
            hits = merged(session, ["*"])
            assert {row["corpus"] for row in hits} == {HERE}
            assert "unanswered" not in hits[0]["explain"]
            hits = merged(session, [HERE, THERE])
            assert list(hits[0]["explain"]["unanswered"]) == [THERE]


def test_nobody_asks_by_the_mapping_of_another(module_db: Database, there: Database) -> None:
    """The owner has one, and so has the owner of a SECURITY DEFINER function, whose connection is not the caller's."""
    with login(module_db, there) as (ann, password), login(module_db, there) as (bob, _):
        map_role(module_db, "b", ann, ann, password)
        module_db.execute(f"GRANT USAGE ON FOREIGN SERVER b TO {bob}".encode())
        module_db.execute(
            "CREATE FUNCTION public.of_ann() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER"
            f" BEGIN ATOMIC SELECT source_key FROM graphrag.search('{ENGINE}', '{THERE}'); END;"
            f" ALTER FUNCTION public.of_ann() OWNER TO {ann}".encode()
        )
        try:
            with acting_as(module_db, bob) as session:
                denied(session, f"SELECT * FROM graphrag.search('x', '{THERE}')", sqlstate="42704")
                assert rows(session, "SELECT public.of_ann()") == [("kes",)]
                for call in (f"'{THERE}'", f"corpora => '{{{THERE}}}'"):
                    denied(session, f"SELECT * FROM graphrag.search('x', {call})", sqlstate="42704")
                assert {row["corpus"] for row in merged(session, ["*"])} == {HERE}
                assert rows(session, "SELECT umoptions FROM pg_user_mappings WHERE umuser <> 0") == [(None,), (None,)]
        finally:
            module_db.execute("DROP FUNCTION public.of_ann()")


def test_who_may_not_read_the_nodes_asks_none(module_db: Database, there: Database) -> None:
    """Somebody who was given functions and tables one by one, and is no member."""
    functions = rows(
        module_db, "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'graphrag'::regnamespace"
    )
    tables = ("corpora", "documents", "granted_corpora", "_histories")
    with new_role(module_db) as role:
        module_db.execute(f"GRANT USAGE ON SCHEMA graphrag TO {role}".encode())
        module_db.execute(f"GRANT SELECT ON {', '.join(f'graphrag.{name}' for name in tables)} TO {role}".encode())
        module_db.execute(f"GRANT EXECUTE ON ROUTINE {', '.join(name for (name,) in functions)} TO {role}".encode())
        map_role(module_db, "b", role, "postgres", "x")
        with acting_as(module_db, role) as session:
            assert rows(session, "SELECT has_table_privilege('graphrag.nodes', 'SELECT')") == [(False,)]
            assert {row["corpus"] for row in merged(session, ["*"])} == {HERE}


@pytest.mark.parametrize("options", ["user 'postgres', password ''", "user '', password 'x'"])
def test_an_empty_password_is_not_that_of_the_servers_user(module_db: Database, there: Database, options: str) -> None:
    """Else the client's library takes what the password file of the server's own user has, or his name."""
    with login(module_db, there) as (reader, password):
        map_role(module_db, "b", reader, reader, password)
        with acting_as(module_db, reader) as session:
            session.execute(f"DROP USER MAPPING FOR {reader} SERVER b".encode())
            session.execute(f"CREATE USER MAPPING FOR {reader} SERVER b OPTIONS ({options})".encode())
            diag = refused(session, "SELECT * FROM graphrag.search('x', %s)", THERE)
            assert (diag.sqlstate, "USER MAPPING" in str(diag.message_hint)) == ("42704", True)


def test_a_host_that_hangs_leaves_time_for_the_next(module_db: Database, there: Database) -> None:
    port = int(urlsplit(there.url).port or 0)
    with listening(hang) as own:
        own_url = urlsplit(there.url)
        link(module_db, "two", own_url.geturl(), host=f"127.0.0.1,{own_url.hostname}", port=f"{own},{port}")
        module_db.execute("SELECT graphrag.place_corpus('bait', 'two')")
        try:
            diag = refused(module_db, "SELECT * FROM graphrag.search('x', 'bait')")
            assert str(diag.message_primary) == 'graphrag: node "two": corpus "bait" does not exist'
        finally:
            unlink(module_db, "two")


HOSTILE_NAMES = (
    "x'); DROP TABLE graphrag.documents; --",
    "x\\'); SELECT 1; --",
    "$1",
    "%s",
    "{*}",
    '"',
    "*; *",
    "host=127.0.0.1 dbname=postgres",
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_and_texts_are_data(module_db: Database, there: Database, name: str) -> None:
    module_db.execute("SELECT graphrag.place_corpus(%s, 'b')", [name])
    try:
        diag = refused(module_db, "SELECT * FROM graphrag.search(%s, corpus => %s, mode => 'bm25')", name, name)
        assert str(diag.message_primary) == f'graphrag: node "b": corpus "{name}" does not exist'
        there.execute("SELECT graphrag.create_corpus(%s, '{\"cypher\": false}')", [name])
        index_all(there, name, {name: f"Ada {name} Lovelace."})
        for arguments in ({}, {"filter": {"$source_key": name}}, {"low_level_keywords": [name]}):
            hits = search(module_db, f"Ada {name}", name, **arguments)
            assert [row["source_key"] for row in hits] == [name]
        refused(
            module_db,
            "SELECT * FROM graphrag.search(%s, %s, options => jsonb_build_object(%s::text, 1))",
            "x",
            name,
            name,
        )
    finally:
        module_db.execute("SELECT graphrag.place_corpus(%s, NULL)", [name])
        there.execute("SELECT graphrag.drop_corpus(name) FROM graphrag.corpora WHERE name = %s", [name])
    assert len(search(there, ENGINE, THERE)) == len(ROCKETS)


@pytest.mark.parametrize("name", ['attacker "; DROP SERVER b; --', "Attacker", "select"])
def test_what_a_hint_says_to_run_is_of_that_role_alone(module_db: Database, there: Database, name: str) -> None:
    """Whoever made a role has chosen its name, and another one runs the statement."""
    role = sql.Identifier(name)
    module_db.execute(sql.SQL("CREATE ROLE {} IN ROLE graphrag_reader").format(role))
    try:
        with Database.open(module_db.url) as session:
            session.execute(sql.SQL("SET ROLE {}").format(role))
            diag = refused(session, "SELECT * FROM graphrag.search('x', %s)", THERE)
            statement = re.search(r"GRANT USAGE .*(?=\.$)", str(diag.message_hint))
            assert statement
            module_db.execute(statement[0].encode())
            assert rows(session, "SELECT has_server_privilege('b', 'USAGE')") == [(True,)]
    finally:
        module_db.execute(sql.SQL("DROP OWNED BY {}").format(role))
        module_db.execute(sql.SQL("DROP ROLE {}").format(role))


def test_what_was_given_up_ends_at_the_node(module_db: Database, there: Database) -> None:
    there.execute(
        "CREATE FUNCTION public.waits() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(20); RETURN true; END$$"
    )
    there.execute("SELECT graphrag.create_corpus('slow', '{\"cypher\": false}')")
    index_all(there, "slow", {"a": "Ada Lovelace."})
    there.execute("SELECT graphrag.protect('slow', 'public.waits()')")
    module_db.execute("SELECT graphrag.place_corpus('slow', 'b')")
    busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_graphrag' AND state = 'active'"
    try:
        with login(module_db, there) as (reader, password):
            map_role(module_db, "b", reader, reader, password)
            with acting_as(module_db, reader) as session:
                hits = merged(session, [HERE, "slow"], corpus_timeout=1.0)
                # It is the node that has counted.
                assert hits[0]["explain"]["unanswered"] == {"slow": 'node "b": it took longer than 1 s'}
                session.execute("SET statement_timeout = '1s'")
                with pytest.raises(psycopg.errors.QueryCanceled):
                    search(session, "Ada", "slow")
            deadline = time.monotonic() + 3
            while value(there, busy):
                assert time.monotonic() < deadline, "the node goes on with what nobody waits for"
                time.sleep(0.1)
    finally:
        there.execute("SELECT graphrag.drop_corpus('slow')")
        there.execute("DROP FUNCTION public.waits()")
        module_db.execute("SELECT graphrag.place_corpus('slow', NULL)")


# Who owns something here


def test_a_server_of_another_owner_is_not_used(module_db: Database, there: Database) -> None:
    """His would say where passwords go, and answer what he likes; a superuser asks there as he asks anywhere."""
    asked: list[bytes] = []
    with (
        listening(lambda client: asked.append(client.recv(64))) as port,
        new_role(module_db, "IN ROLE graphrag_reader") as mallory,
    ):
        module_db.execute("SELECT graphrag.add_node('trap', 'postgresql://c.example/app')")
        module_db.execute("SELECT graphrag.place_corpus('bait', 'trap')")
        module_db.execute(f"GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO {mallory}".encode())
        owner = value(module_db, "SELECT current_user")
        with acting_as(module_db, mallory) as session:
            session.execute(
                f"CREATE SERVER trap FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}');"
                f" CREATE USER MAPPING FOR {owner} SERVER trap OPTIONS (user 'postgres', password 'x')".encode()
            )
        try:
            for call in ("'bait'", "corpora => '{bait}'"):
                diag = refused(module_db, f"SELECT * FROM graphrag.search('x', {call})")
                assert (diag.sqlstate, "OWNER TO" in str(diag.message_hint)) == ("42704", True)
            assert merged(module_db, ["*"])
            assert not asked
        finally:
            unlink(module_db, "trap")
            module_db.execute(f"REVOKE ALL ON FOREIGN DATA WRAPPER postgres_fdw FROM {mallory}".encode())


def test_a_server_that_is_no_node_is_not_reached(module_db: Database, there: Database) -> None:
    asked: list[bytes] = []
    with listening(lambda client: asked.append(client.recv(64))) as port:
        add_server(module_db, "other", f"postgresql://127.0.0.1:{port}/app")
        module_db.execute("SELECT graphrag.drop_node('other')")
        map_role(module_db, "other", value(module_db, "SELECT current_user"), "postgres", "x")
        try:
            merged(module_db, ["*"])
            for name in ("other", "bait", f"host=127.0.0.1 port={port}", f"postgresql://127.0.0.1:{port}/app"):
                denied(module_db, "SELECT * FROM graphrag.search('x', corpus => %s)", name, sqlstate="42704")
            assert not asked
        finally:
            module_db.execute("DROP SERVER other CASCADE")


def test_a_password_shows_nowhere(module_db: Database, there: Database, shared_cluster: Cluster | Server) -> None:
    with login(module_db, there) as (reader, password):
        map_role(module_db, "b", reader, reader, password)
        with acting_as(module_db, reader) as session:
            search(session, ENGINE, THERE)
            assert password not in str(
                rows(there, "SELECT * FROM pg_stat_activity WHERE application_name = 'pg_graphrag'")
            )
            there.execute("SELECT graphrag.drop_corpus(%s)", [THERE])
            diag = refused(session, "SELECT * FROM graphrag.search('x', %s)", THERE)
            assert password not in f"{diag.message_primary} {diag.message_detail} {diag.context}"
    if isinstance(shared_cluster, Cluster):
        assert password not in shared_cluster.log
