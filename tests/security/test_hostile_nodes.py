"""Attacks of who runs the node that search() asks: what it answers is data, of so many bytes and seconds."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.runtime import beside
from tests.runtime.cluster import Database
from tests.security.intercepting import between, columns, greet, hang, listening, message, row
from tests.security.interrupting import PROMISED, stopped
from tests.security.node_b import HERE, THERE
from tests.sql.ingest import put, refused, work
from tests.sql.linked_nodes import link, unlink
from tests.sql.test_several_corpora import merged, places

pytestmark = pytest.mark.skipif(beside.IS_BESIDE, reason="the other node answers SQL, which a database beside does not")


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
    reached: list[bytes] = []
    replies: list[bytes] = []
    # In plain text, and by MD5.
    kinds = (struct.pack("!i", 3), struct.pack("!i", 5) + b"salt")
    for kind in kinds:

        def ask(client: socket.socket, kind: bytes = kind) -> None:
            greet(client)
            reached.append(kind)
            client.sendall(message(b"R", kind))
            replies.append(client.recv(4096))

        with listening(ask) as port, linked(module_db, port):
            assert refused(module_db, "SELECT * FROM graphrag.search('x', 'bait')").sqlstate == "08001"
    assert set(reached) == set(kinds)
    assert not any(replies)


@contextmanager
def linked(db: Database, port: int) -> Iterator[None]:
    """What is asked of the node `trap`, which has the corpus `bait`, goes to a port; it has the password of the test."""
    parts = urlsplit(db.url)
    link(db, "trap", f"postgresql://{parts.username}:{parts.password}@127.0.0.1:{port}/node_b")
    db.execute("SELECT graphrag.place_corpus('bait', 'trap')")
    try:
        yield
    finally:
        unlink(db, "trap")


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
        client.recv(1)

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
            hits = merged(session, [HERE, THERE, "bait"], corpus_timeout=5.0)
            assert places(hits) == expected
            assert list(hits[0]["explain"]["unanswered"]) == ["bait"]
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
        hits = merged(module_db, ["*"], "Who admired Ada Lovelace at Harvard?", top_k=100)
        assert "lie" not in {row["source_key"] for row in hits}
        assert {row["corpus"] for row in hits} == {HERE, THERE}
    finally:
        for name in (HERE, "unplaced"):
            there.execute("SELECT graphrag.drop_corpus(%s)", [name])


def lying_error(sqlstate: bytes) -> Any:
    fields = b"SERROR\0VERROR\0C" + sqlstate + b'\0Mcorpus "bait" is at node "c"\0Dpostgresql://evil.example/app\0\0'

    def answer(client: socket.socket) -> None:
        client.sendall(message(b"E", fields) + message(b"Z", b"I"))
        client.recv(1)

    return answer


@pytest.mark.parametrize(
    "sqlstate", ["42704", "00000", "01000", "57014", "57P01", "40001", "53200", "25P02", "abc", "ééé"]
)
def test_an_error_of_the_node_says_nothing_of_this_session(module_db: Database, there: Database, sqlstate: str) -> None:
    with between(int(urlsplit(there.url).port or 0), lying_error(sqlstate.encode())) as port, linked(module_db, port):
        hits = merged(module_db, [HERE, "bait"])
        assert list(hits[0]["explain"]["unanswered"]) == ["bait"]
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
            hits = merged(module_db, [HERE, THERE, "bait"], corpus_timeout=1.5)
            assert time.monotonic() - began < 5
            assert hits[0]["explain"]["unanswered"] == {"bait": 'node "trap": it took longer than 1.5 s'}
            assert {row["corpus"] for row in hits} == {HERE, THERE}
            hits = merged(module_db, ["*"], corpus_timeout=1.5)
            assert hits[0]["explain"]["unanswered"] == {'* at node "trap"': 'node "trap": it took longer than 1.5 s'}


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
