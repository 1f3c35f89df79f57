"""A streaming hot standby reads everything as its primary does, writes nothing, and says so."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.runtime.cluster import Cluster
from tests.sql.ingest import STORIES, put_all, refused, rows, search, value, wait_for, work

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
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


def test_a_standby_answers_as_its_primary_and_refuses_what_writes(cluster: Callable[..., Cluster]) -> None:
    primary = cluster()
    url = primary.create_database("app")
    with psycopg.connect(url, autocommit=True) as source:
        source.execute("CREATE EXTENSION pg_graphrag CASCADE")
        put_all(source, "default", STORIES)
        work(source)
        source.execute("SELECT graphrag.optimize()")
        put_all(source, "default", {"late": "Grace Hopper met Charles Babbage in a dream."})
        standby = cluster(primary=primary)
        # What comes after the base backup arrives through the stream.
        work(source)
        with psycopg.connect(standby.url("app"), autocommit=True) as replica:
            last = value(source, "SELECT pg_current_wal_lsn()::text")
            caught_up = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            wait_for(lambda: value(replica, caught_up, last), "the standby to catch up")
            assert value(replica, "SELECT pg_is_in_recovery()")
            for mode in MODES:
                found = search(replica, QUESTION, "default", mode)
                assert found == search(source, QUESTION, "default", mode), mode
                assert found, mode
                # Again, from the session's caches.
                assert search(replica, QUESTION, "default", mode) == found
            for read in READS:
                assert rows(replica, read, QUESTION) == rows(source, read, QUESTION)
                assert rows(replica, read, QUESTION)
            for read in OTHER_READS:
                assert sorted(map(repr, rows(replica, read))) == sorted(map(repr, rows(source, read)))
            assert search(replica, "Charles Babbage dream", "default", "bm25")[0]["source_key"] == "late"

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
