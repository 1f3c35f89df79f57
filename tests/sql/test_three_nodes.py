"""search() over corpora of three servers: one is stopped, comes back, is killed while it answers; and a standby that asks."""

import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.runtime import beside
from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import ROCKETS, STORIES, put_all, refused, search, work
from tests.sql.linked_nodes import link
from tests.sql.test_several_corpora import merged, places
from tests.sql.themes import SEA

pytestmark = pytest.mark.skipif(beside.IS_BESIDE, reason="the other nodes answer SQL, which a database beside does not")

CORPORA = {
    "a": ("stories", STORIES),
    "b": ("rockets", {key: text for key, (_, text) in ROCKETS.items()}),
    "c": ("sea", SEA),
}
NAMES = [name for name, _ in CORPORA.values()]
QUERY = "Who admired Ada Lovelace at Harvard?"


@pytest.fixture
def three(cluster: Callable[..., Cluster]) -> Iterator[dict[str, tuple[Cluster, Database]]]:
    """Three servers with a corpus each, which know of each other."""
    servers = {node: cluster() for node in CORPORA}
    opened: dict[str, tuple[Cluster, Database]] = {}
    for node, server in servers.items():
        db = server.connect()
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        name, documents = CORPORA[node]
        db.execute("SELECT graphrag.create_corpus(%s, '{\"cypher\": false}')", [name])
        put_all(db, name, documents)
        work(db)
        for other in CORPORA:
            if other != node:
                link(db, other, servers[other].url())
                db.execute("SELECT graphrag.place_corpus(%s, %s)", [CORPORA[other][0], other])
        opened[node] = server, db
    yield opened
    for _, db in opened.values():
        db.close()


def test_one_of_three_is_stopped_and_comes_back(three: dict[str, tuple[Cluster, Database]]) -> None:
    (_, here), (server, _), _ = three.values()
    whole = merged(here, NAMES)
    assert {row["corpus"] for row in whole} == set(NAMES)
    for _, db in three.values():
        # Whoever is asked: numbers of rows are each database's own, and the same from everywhere.
        assert merged(db, ["*"]) == merged(db, NAMES) == whole
    server.stop("fast")
    for corpora, named in ((NAMES, "rockets"), (["*"], '* at node "b"')):
        hits = merged(here, corpora)
        assert places(hits) == [place for place in places(whole) if place[0] != "rockets"]
        assert hits[0]["explain"]["unanswered"] == {named: 'node "b": it cannot be reached'}
    diag = refused(here, "SELECT * FROM graphrag.search('x', 'rockets')")
    assert (diag.sqlstate, bool(diag.message_hint)) == ("08001", True)
    server.start()
    assert merged(here, NAMES) == whole


@pytest.mark.slow
def test_a_node_that_is_killed_while_it_answers_is_the_fault_of_its_corpus(
    three: dict[str, tuple[Cluster, Database]],
) -> None:
    (_, here), (server, there), _ = three.values()
    there.execute(
        "CREATE FUNCTION public.waits() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(30); RETURN true; END$$"
    )
    there.execute("CREATE ROLE reader LOGIN PASSWORD 'of reader' IN ROLE graphrag_reader")
    there.execute("SELECT graphrag.protect('rockets', 'public.waits()')")
    here.execute("ALTER USER MAPPING FOR CURRENT_USER SERVER b OPTIONS (SET user 'reader', SET password 'of reader')")
    for call in ("'rockets'", "corpora => '{stories,rockets,sea}'"):
        errors: list[str | None] = []
        answers: list[set[str]] = []

        def ask(call: str = call, errors: list[str | None] = errors, answers: list[set[str]] = answers) -> None:
            with Database.open(here.url) as session:
                try:
                    rows = session.execute(
                        f"SELECT explain -> 'unanswered' FROM graphrag.search('Ada', {call})".encode()
                    )
                    answers.append({str(row) for row in rows})
                except psycopg.Error as error:
                    errors.append(error.sqlstate)

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(3)
        begin = time.monotonic()
        server.kill()
        thread.join(20)
        assert not thread.is_alive() and time.monotonic() - begin < 10
        server.start()
        if call == "'rockets'":
            assert (errors, answers) == (["08001"], []) or (errors, answers) == (["08006"], [])
        else:
            assert not errors
            assert all('node "b"' in text for text in answers[0])


@pytest.mark.slow
def test_a_standby_asks_other_nodes_too(
    three: dict[str, tuple[Cluster, Database]], cluster: Callable[..., Cluster]
) -> None:
    (server, here), *_ = three.values()
    standby = cluster(primary=server)
    with standby.connect() as db:
        assert search(db, QUERY, "rockets") == search(here, QUERY, "rockets")
        assert merged(db, ["*"]) == merged(here, ["*"])
