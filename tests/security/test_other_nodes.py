"""Attacks between nodes: of who asks another one, of who owns a server or a role here, and of who runs the node that is asked."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from itertools import count, repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.runtime import beside
from tests.runtime.cluster import Cluster, Database, Server
from tests.security.acting import acting_as, denied, new_role
from tests.security.intercepting import between, columns, greet, hang, listening, message, row
from tests.security.interrupting import PROMISED, stopped
from tests.sql.ingest import ROCKETS, STORIES, put, put_all, refused, rows, search, value, work
from tests.sql.linked_nodes import add_server, link, login, map_role, unlink
from tests.sql.test_several_corpora import merged, places

pytestmark = pytest.mark.skipif(beside.IS_BESIDE, reason="the other node answers SQL, which a database beside does not")

HERE, THERE = "computers", "rockets"
ENGINE = "Which engine burns methane?"


@pytest.fixture(scope="module")
def there(shared_cluster: Cluster | Server, module_db: Database) -> Iterator[Database]:
    """A node b with the corpus THERE, of which readers see one document."""
    with Database.open(shared_cluster.create_database("node_b", "template")) as node:
        # `stopped` asks "default", which is empty.
        for db, name in ((module_db, HERE), (module_db, "default"), (node, THERE)):
            db.execute("SELECT graphrag.create_corpus(%s, '{\"cypher\": false}')", [name])
        put_all(module_db, HERE, STORIES)
        for key, (title, content) in ROCKETS.items():
            put(node, THERE, key, content, title)
        work(module_db)
        work(node)
        node.execute("SELECT graphrag.protect(%s, $$source_key = 'kes'$$)", [THERE])
        node.url = shared_cluster.url("node_b")
        link(module_db, "b", node.url)
        module_db.execute("SELECT graphrag.place_corpus(%s, 'b')", [THERE])
        yield node
    shared_cluster.drop_database("node_b")


# Who asks


def test_rights_are_those_of_the_node(module_db: Database, there: Database) -> None:
    with login(module_db, there) as (reader, password):
        map_role(module_db, "b", reader, reader, password)
        with acting_as(module_db, reader) as session:
            for found in (search(session, ENGINE, THERE), merged(session, [THERE], ENGINE)):
                assert [row["source_key"] for row in found] == ["kes"]
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
            found = merged(session, ["*"])
            assert {row["corpus"] for row in found} == {HERE}
            assert "unanswered" not in found[0]["explain"]
            found = merged(session, [HERE, THERE])
            assert list(found[0]["explain"]["unanswered"]) == [THERE]


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
        put(there, name, name, f"Ada {name} Lovelace.")
        work(there)
        for arguments in ({}, {"filter": {"$source_key": name}}, {"low_level_keywords": [name]}):
            found = search(module_db, f"Ada {name}", name, **arguments)
            assert [row["source_key"] for row in found] == [name]
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


# Who runs the node


def test_a_node_that_asks_for_no_password_gets_no_question(module_db: Database, there: Database) -> None:
    """Else a role here could act as the server's own user: trust, peer."""

    def trust(client: socket.socket) -> None:
        greet(client)
        client.sendall(message(b"R", struct.pack("!i", 0)) + message(b"Z", b"I"))
        asked.append(client.recv(4096))

    asked: list[bytes] = []
    with listening(trust) as port, linked(module_db, port):
        diag = refused(module_db, "SELECT * FROM graphrag.search('my question', 'bait')")
        assert diag.sqlstate == "08001"
        assert not any(asked)
        # Nor where its administrator lets all in: what was sent is what counts.
        module_db.execute("ALTER SERVER trap OPTIONS (ADD require_auth 'none,scram-sha-256')")
        diag = refused(module_db, "SELECT * FROM graphrag.search('my question', 'bait')")
        assert (diag.sqlstate, diag.message_detail) == ("08001", "it lets the role in without its password")
        assert not any(b"my question" in part for part in asked)


def test_a_node_is_not_told_the_password(module_db: Database, there: Database) -> None:
    told: list[bytes] = []
    # In plain text, and by MD5.
    for kind in (struct.pack("!i", 3), struct.pack("!i", 5) + b"salt"):

        def ask(client: socket.socket, kind: bytes = kind) -> None:
            greet(client)
            client.sendall(message(b"R", kind))
            told.append(client.recv(4096))

        with listening(ask) as port, linked(module_db, port):
            assert refused(module_db, "SELECT * FROM graphrag.search('x', 'bait')").sqlstate == "08001"
    assert not any(told)


class linked:
    """What is asked of the node `trap`, which has the corpus `bait`, goes to a port; it has the password of the test."""

    def __init__(self, db: Database, port: int) -> None:
        self._db, self._port = db, port

    def __enter__(self) -> None:
        link(self._db, "trap", urlsplit(self._db.url)._replace(netloc=self._netloc(), path="/node_b").geturl())
        self._db.execute("SELECT graphrag.place_corpus('bait', 'trap')")

    def _netloc(self) -> str:
        parts = urlsplit(self._db.url)
        return f"{parts.username}:{parts.password}@127.0.0.1:{self._port}"

    def __exit__(self, *_: object) -> None:
        unlink(self._db, "trap")


def endless_rows(client: socket.socket) -> None:
    client.sendall(columns(8))
    for data in repeat(row(b"1", b"1", b"1", b"k", b"t", b"c", b"0", b"{}") * 1000):
        client.sendall(data)


def endless_row(client: socket.socket) -> None:
    """A row that is said to have a gigabyte, and has it."""
    client.sendall(columns(8) + b"D" + struct.pack("!ihi", 2**30, 8, 2**30 - 60))
    for data in repeat(b"x" * 2**20):
        client.sendall(data)


def endless_notices(client: socket.socket) -> None:
    notice = message(b"N", b"SWARNING\0VWARNING\0C01000\0M" + b"x" * 900 + b"\0\0")
    for data in repeat(notice * 100):
        client.sendall(data)


def endless_results(client: socket.socket) -> None:
    for data in repeat((message(b"C", b"SELECT 0\0")) * 1000):
        client.sendall(data)


def endless_notifications(client: socket.socket) -> None:
    client.sendall(columns(8))
    for data in repeat(message(b"A", b"\0\0\0\1c\0\0") * 1000):
        client.sendall(data)


def endless_settings(client: socket.socket) -> None:
    """Each has a name of its own, which the client's library looks for among those before."""
    client.sendall(columns(8))
    for start in count(0, 1000):
        client.sendall(b"".join(message(b"S", b"s%d\0\0" % number) for number in range(start, start + 1000)))


def odd(*values: bytes) -> Any:
    def answer(client: socket.socket) -> None:
        client.sendall(columns(len(values)) + row(*values) + message(b"C", b"SELECT 1\0") + message(b"Z", b"I"))
        time.sleep(5)

    return answer


def nothing(client: socket.socket) -> None:
    """The connection ends."""


ODD_ANSWERS = {
    "endless rows": endless_rows,
    "an endless row": endless_row,
    "endless notices": endless_notices,
    "endless results": endless_results,
    "endless notifications": endless_notifications,
    "endless settings": endless_settings,
    "too few columns": odd(b"1", b"2"),
    "a rank that is none": odd(b"x", b"1", b"1", b"k", b"t", b"c", b"0", b"{}"),
    "a number too large": odd(b"1", b"9" * 19, b"1", b"k", b"t", b"c", b"0", b"{}"),
    "a number of another alphabet": odd(b"1", "٣".encode(), b"1", b"k", b"t", b"c", b"0", b"{}"),
    "no number": odd(b"1", b"1", b"1", b"k", b"t", b"c", b"nan", b'{"relevance": 1}'),
    "no object": odd(b"1", b"1", b"1", b"k", b"t", b"c", b"0", b"[]"),
    "no JSON": odd(b"1", b"1", b"1", b"k", b"t", b"c", b"0", b'{"relevance": 1'),
    "what jsonb has not": odd(b"1", b"1", b"1", b"k", b"t", b"c", b"0", b'{"relevance": 1, "a": "\\u0000"}'),
    "deep JSON": odd(
        b"1", b"1", b"1", b"k", b"t", b"c", b"0", b'{"relevance": 1, "a": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    ),
    "no UTF-8": odd(b"1", b"1", b"1", b"k", b"t", b"\xff", b"0", b'{"relevance": 1}'),
    "the end": nothing,
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("what", ODD_ANSWERS)
def test_an_odd_answer_hurts_its_own_part_alone(module_db: Database, there: Database, what: str) -> None:
    with between(int(urlsplit(there.url).port or 0), ODD_ANSWERS[what]) as port, linked(module_db, port):
        expected = places(merged(module_db, [HERE, THERE]))
        with Database.open(module_db.url) as session:
            merged(session, [HERE, THERE])
            before = memory(session)
            found = merged(session, [HERE, THERE, "bait"], corpus_timeout=5.0)
            assert places(found) == expected
            assert list(found[0]["explain"]["unanswered"]) == ["bait"]
            diag = refused(session, "SELECT * FROM graphrag.search('x', 'bait')")
            assert diag.sqlstate in ("08P01", "08006", "54001"), diag.message_primary
            assert 'node "trap"' in str(diag.message_primary)
            # What was read was bounded: an answer of ten rows has 16 MB, but where a node sends as fast as it is read, the whole
            # of one message may come at once, 1 GB.
            assert memory(session) - before < 2**30 + 150 * 2**20
            assert places(merged(session, [HERE, THERE])) == expected


def memory(session: Database) -> int:
    """The most memory that a session's process has had."""
    status = Path(f"/proc/{session.info.backend_pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


@pytest.mark.parametrize("relevance", [b"2", b"-1", b"null", b'"x"', b"1e999", b""])
def test_no_row_is_more_relevant_than_can_be(module_db: Database, there: Database, relevance: bytes) -> None:
    explain = b'{"relevance": ' + relevance + b"}" if relevance else b"{}"
    answer = odd(b"1", b"1", b"1", b"k", b"t", b"c", b"0", explain)
    with between(int(urlsplit(there.url).port or 0), answer) as port, linked(module_db, port):
        assert list(merged(module_db, [HERE, "bait"])[0]["explain"]["unanswered"]) == ["bait"]


def test_a_node_has_no_corpora_but_those_of_the_catalogue(module_db: Database, there: Database) -> None:
    """Of all that it says may be read there, in place of another's or of this database's."""
    there.execute("SELECT graphrag.create_corpus(%s, '{\"cypher\": false}')", [HERE])
    there.execute("SELECT graphrag.create_corpus('unplaced', '{\"cypher\": false}')")
    for name in (HERE, "unplaced"):
        put(there, name, "lie", "Grace Hopper admired Ada Lovelace at Harvard.")
    work(there)
    try:
        found = merged(module_db, ["*"], "Who admired Ada Lovelace at Harvard?", top_k=100)
        assert "lie" not in {row["source_key"] for row in found}
        assert {row["corpus"] for row in found} == {HERE, THERE}
    finally:
        for name in (HERE, "unplaced"):
            there.execute("SELECT graphrag.drop_corpus(%s)", [name])


def lying_error(sqlstate: bytes) -> Any:
    fields = b"SERROR\0VERROR\0C" + sqlstate + b'\0Mcorpus "bait" is at node "c"\0Dpostgresql://evil.example/app\0\0'

    def answer(client: socket.socket) -> None:
        client.sendall(message(b"E", fields) + message(b"Z", b"I"))
        time.sleep(5)

    return answer


@pytest.mark.parametrize(
    "sqlstate", ["42704", "00000", "01000", "57014", "57P01", "40001", "53200", "25P02", "abc", "ééé"]
)
def test_an_error_of_the_node_says_nothing_of_this_session(module_db: Database, there: Database, sqlstate: str) -> None:
    with between(int(urlsplit(there.url).port or 0), lying_error(sqlstate.encode())) as port, linked(module_db, port):
        found = merged(module_db, [HERE, "bait"])
        assert list(found[0]["explain"]["unanswered"]) == ["bait"]
        diag = refused(module_db, "SELECT * FROM graphrag.search('x', 'bait')")
        assert str(diag.message_primary).startswith('graphrag: node "trap": ')
        # A program that follows urls gets none of a node's.
        assert not str(diag.message_detail).startswith("postgresql:")
        assert diag.sqlstate in (sqlstate, "08P01", "08006")
        assert diag.sqlstate not in ("00000", "01000", "57P01")


def test_a_node_that_never_answers_takes_its_time_alone(module_db: Database, there: Database) -> None:
    port = int(urlsplit(there.url).port or 0)
    # After the password, and before.
    for way in (between(port, hang), listening(hang)):
        with way as own, linked(module_db, own):
            began = time.monotonic()
            found = merged(module_db, [HERE, THERE, "bait"], corpus_timeout=1.5)
            assert time.monotonic() - began < 5
            assert found[0]["explain"]["unanswered"] == {"bait": 'node "trap": it took longer than 1.5 s'}
            assert {row["corpus"] for row in found} == {HERE, THERE}
            found = merged(module_db, ["*"], corpus_timeout=1.5)
            assert found[0]["explain"]["unanswered"] == {'* at node "trap"': 'node "trap": it took longer than 1.5 s'}


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", ["pg_cancel_backend", "statement_timeout", "pg_terminate_backend"])
@pytest.mark.parametrize("call", ["'bait'", "corpora => '{computers,bait}'", "corpora => '{*}'"])
@pytest.mark.parametrize("when", ["before the password", "after it", "rows"])
def test_a_call_at_a_node_is_stopped(module_db: Database, there: Database, how: str, call: str, when: str) -> None:
    port = int(urlsplit(there.url).port or 0)

    def trickle(client: socket.socket) -> None:
        client.sendall(columns(8))
        while True:
            client.sendall(message(b"N", b"SNOTICE\0VNOTICE\0C01000\0Mx\0\0"))
            time.sleep(0.01)

    ways = {"before the password": listening(hang), "after it": between(port, hang), "rows": between(port, trickle)}
    with ways[when] as own, linked(module_db, own):
        sql = f"SELECT count(*) FROM graphrag.search('x', {call})"
        assert stopped(module_db, sql, after=1.0, how=how) <= PROMISED


def test_what_was_given_up_ends_at_the_node(module_db: Database, there: Database) -> None:
    there.execute(
        "CREATE FUNCTION public.waits() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(20); RETURN true; END$$"
    )
    there.execute("SELECT graphrag.create_corpus('slow', '{\"cypher\": false}')")
    put(there, "slow", "a", "Ada Lovelace.")
    work(there)
    there.execute("SELECT graphrag.protect('slow', 'public.waits()')")
    module_db.execute("SELECT graphrag.place_corpus('slow', 'b')")
    busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_graphrag' AND state = 'active'"
    try:
        with login(module_db, there) as (reader, password):
            map_role(module_db, "b", reader, reader, password)
            with acting_as(module_db, reader) as session:
                found = merged(session, [HERE, "slow"], corpus_timeout=1.0)
                # It is the node that has counted.
                assert found[0]["explain"]["unanswered"] == {"slow": 'node "b": it took longer than 1 s'}
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
