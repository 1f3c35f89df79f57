"""A streaming hot standby reads and answers as its primary does, writes nothing, and says so; a base backup goes on by itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import pytest
from pg_graphrag.ground.mode_names import MODES
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database, Runtime
from tests.sql.asking import ANSWER, ask, asked_for, lines, stream
from tests.sql.ingest import STORIES, delete, index_all, keys, put, refused, rows, search, value, wait_for, work
from tests.sql.llm import provider

QUESTION = "Who admired Ada Lovelace at Harvard?"
READS = (
    "SELECT graphrag.context(%s)",
    "SELECT to_jsonb(e) FROM graphrag.search_entities(%s) e",
    "SELECT to_jsonb(r) FROM graphrag.search_relationships(%s) r",
    "SELECT graphrag.embed(%s)::text",
)
OTHER_READS = (
    "SELECT to_jsonb(n) FROM graphrag.neighbors('Ada Lovelace', hops => 2) n",
    "SELECT graphrag.cypher('default', 'MATCH (a:Entity)-[r:RELATED]->(b:Entity) RETURN a.key AS a, b.key AS b')",
    "SELECT to_jsonb(n) FROM graphrag.graph_nodes n",
    "SELECT corpus, documents, indexed FROM graphrag.progress",
)


@dataclass
class Pair:
    source: Database
    replica: Database
    primary: Cluster
    endpoint: Endpoint

    def catch_up(self) -> None:
        last = value(self.source, "SELECT pg_current_wal_lsn()::text")
        caught_up = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_for(lambda: value(self.replica, caught_up, last), "the standby to catch up")


@pytest.fixture(scope="module")
def pair(runtime: Runtime) -> Iterator[Pair]:
    """A primary with documents and a model, and its standby."""
    primary = Cluster(runtime)
    try:
        with Endpoint() as endpoint, Database.open(primary.create_database("app")) as source:
            endpoint.reply(lines)
            source.execute("CREATE EXTENSION pg_graphrag CASCADE")
            index_all(source, "default", STORIES)
            source.execute("SELECT graphrag.optimize()")
            standby = Cluster(runtime, primary=primary)
            try:
                # What comes after the base backup arrives through the stream.
                index_all(source, "default", {"late": "Grace Hopper met Charles Babbage in a dream."})
                model = {"provider": provider(source, endpoint, timeout=20), "model": "model-1"}
                source.execute("SELECT graphrag.create_corpus('asked', %s)", [Jsonb({"llm": model, "query_log": True})])
                index_all(source, "asked", STORIES)
                with Database.open(standby.url("app")) as replica:
                    pair = Pair(source, replica, primary, endpoint)
                    pair.catch_up()
                    yield pair
            finally:
                standby.close()
    finally:
        primary.close()


def test_every_read_on_a_standby_is_as_on_its_primary(pair: Pair) -> None:
    source, replica = pair.source, pair.replica
    assert value(replica, "SELECT pg_is_in_recovery()")
    for mode in MODES:
        results = search(replica, QUESTION, "default", mode)
        assert results == search(source, QUESTION, "default", mode), mode
        assert results, mode
        # Again, from the session's caches.
        assert search(replica, QUESTION, "default", mode) == results
    for read in READS:
        assert rows(replica, read, QUESTION) == rows(source, read, QUESTION)
        assert rows(replica, read, QUESTION)
    for read in OTHER_READS:
        assert sorted(map(repr, rows(replica, read))) == sorted(map(repr, rows(source, read)))
    for corpus in ("default", "asked"):
        fingerprint = "SELECT graphrag.fingerprint(%s)"
        assert value(replica, fingerprint, corpus) == value(source, fingerprint, corpus)
        assert rows(replica, "SELECT * FROM graphrag.check(%s)", corpus) == []
    assert search(replica, "Charles Babbage dream", "default", "bm25")[0]["source_key"] == "late"


def test_ask_answers_on_a_standby_and_writes_nothing(pair: Pair) -> None:
    question = "What did Ada Lovelace write notes on?"
    pair.endpoint.requests.clear()
    answer, citations, usage, _ = ask(pair.replica, question, "asked")
    assert answer == ANSWER
    assert [citation["number"] for citation in citations] == [1]
    assert usage["calls"] == 2
    assert asked_for(pair.endpoint) == ["keywords", "answer"]
    # Without the tables, the session remembers.
    assert ask(pair.replica, question, "asked")[0] == answer
    assert "".join(stream(pair.replica, question, "asked")) == answer
    assert asked_for(pair.endpoint) == ["keywords", "answer"]
    assert value(pair.replica, "SELECT graphrag.understand(%s, 'asked') ->> 'by'", question) in ("cache", "model")
    pair.catch_up()
    for table in ("llm_calls", "llm_cache", "query_log"):
        assert value(pair.source, f"SELECT count(*) FROM graphrag.{table}") == 0, table


def test_what_writes_is_refused_on_a_standby(pair: Pair) -> None:
    replica = pair.replica
    diag = refused(replica, "SELECT graphrag.cypher('default', 'MATCH (a)-[*1..2]->(b) RETURN b.key AS k')")
    assert diag.sqlstate == "0A000"
    assert "standby" in str(diag.message_primary)
    assert diag.message_hint
    diag = refused(replica, "CALL graphrag.process_jobs()")
    assert diag.sqlstate == "25006"
    assert "standby" in str(diag.message_primary)
    assert "primary" in str(diag.message_hint)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        replica.execute("INSERT INTO graphrag.documents (content) VALUES ('x')")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        replica.execute("SELECT graphrag.create_corpus('x')")
    assert refused(replica, "SELECT graphrag.optimize()").sqlstate == "25006"


def test_progress_shows_how_far_a_standby_lags(pair: Pair) -> None:
    lag = "SELECT replication_lag FROM graphrag.progress WHERE corpus = 'default'"
    assert value(pair.source, lag) is None
    assert value(pair.replica, lag) >= timedelta(0)
    pair.replica.execute("SELECT pg_wal_replay_pause()")
    pair.source.execute("CREATE TABLE public.later ()")
    paused = value(pair.replica, lag)
    wait_for(lambda: value(pair.replica, lag) > paused, "the lag to grow")
    pair.replica.execute("SELECT pg_wal_replay_resume()")
    pair.catch_up()


def test_a_standby_knows_that_it_does_not_see_the_workers(pair: Pair) -> None:
    put(pair.source, "default", "waits", "Grace Hopper waits.")
    with psycopg.connect(pair.source.url) as worker:
        worker.execute(
            "UPDATE graphrag.jobs SET next_attempt_at = now() - interval '1 hour', state = 'leased',"
            " lease = graphrag._begin_work()"
        )
        worker.commit()
        assert rows(pair.source, "SELECT subject FROM graphrag.health()") == []
        pair.catch_up()
        assert rows(pair.replica, "SELECT subject FROM graphrag.health()") == []
    pair.source.execute("UPDATE graphrag.jobs SET state = 'pending', lease = NULL")
    pair.catch_up()
    ((subject, detail, hint),) = rows(pair.replica, "SELECT subject, detail, hint FROM graphrag.health()")
    assert (subject, "see the primary" in detail, "health() of the primary" in hint) == ("queue", True, True)
    delete(pair.source, "default", "waits")
    work(pair.source)
    pair.catch_up()


def test_a_removal_that_waits_is_left_out_on_a_standby_too(pair: Pair) -> None:
    index_all(pair.source, "default", {"gone": "Zuse built the Z3 in Berlin."})
    delete(pair.source, "default", "gone")
    pair.catch_up()
    for mode in ("bm25", "hybrid", "local", "ppr"):
        ranked = search(pair.replica, "Zuse Z3 Berlin", "default", mode)
        assert ranked == search(pair.source, "Zuse Z3 Berlin", "default", mode)
        assert "gone" not in keys(ranked)
    nodes = "SELECT name FROM graphrag.graph_nodes WHERE corpus = 'default' ORDER BY 1"
    assert rows(pair.replica, nodes) == rows(pair.source, nodes)
    work(pair.source)
    pair.catch_up()


# Last: the documents are changed.
@pytest.mark.slow
def test_a_base_backup_goes_on_by_itself(pair: Pair, cluster: Callable[..., Cluster]) -> None:
    put(pair.source, "default", "waits", "Mary Somerville taught Ada Lovelace.")
    backup = cluster(backup_of=pair.primary)
    with Database.open(backup.url("app")) as copy:
        assert not value(copy, "SELECT pg_is_in_recovery()")
        fingerprint = "SELECT graphrag.fingerprint('default')"
        before = value(pair.source, fingerprint)
        assert value(copy, fingerprint) == before
        for mode in MODES:
            assert search(copy, QUESTION, "default", mode) == search(pair.source, QUESTION, "default", mode)
        # Nothing needs repair: the queue, the graph and the indexes are there.
        for server in (pair.source, copy):
            work(server)
        assert value(copy, fingerprint) == value(pair.source, fingerprint) != before
        assert rows(copy, "SELECT * FROM graphrag.check('default')") == []
        assert keys(search(copy, "Mary Somerville", "default", "bm25")) == ["waits"]
