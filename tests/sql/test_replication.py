"""Documents that come past the triggers (logical replication) are indexed after graphrag.repair()."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import (
    STORIES,
    canonical,
    delete,
    expected,
    jobs,
    new_corpus,
    put,
    put_all,
    rows,
    value,
    wait_for,
    work,
)

PUBLISHED = "id, corpus, corpus_id, source_key, title, content, metadata, content_hash"


def test_repair_indexes_what_a_subscription_brought(cluster: Callable[..., Cluster]) -> None:
    own_cluster = cluster({"wal_level": "logical"})
    urls = [own_cluster.create_database(name) for name in ("publisher", "subscriber")]
    with (
        psycopg.connect(urls[0], autocommit=True) as publisher,
        psycopg.connect(urls[1], autocommit=True) as subscriber,
    ):
        for db in (publisher, subscriber):
            db.execute("CREATE EXTENSION pg_graphrag CASCADE")
            db.execute("SELECT graphrag.create_corpus('shared')")
        put_all(publisher, "shared", STORIES)
        publisher.execute(f"CREATE PUBLICATION documents FOR TABLE graphrag.documents ({PUBLISHED})".encode())
        # Within one cluster the slot must be there before.
        publisher.execute("SELECT pg_create_logical_replication_slot('documents', 'pgoutput')")
        subscriber.execute(
            f"CREATE SUBSCRIPTION documents CONNECTION '{urls[0]}' PUBLICATION documents WITH (create_slot = false)".encode()
        )
        contents = "SELECT source_key, content FROM graphrag.documents ORDER BY 1"

        def same() -> bool:
            return rows(subscriber, contents) == rows(publisher, contents)

        wait_for(same, "the first copy")
        for step in range(2):
            if step:
                put(publisher, "shared", "ada", "Ada Lovelace moved to Vienna.")
                put(publisher, "shared", "new", "Konrad Zuse built the Z3 in Berlin.")
                delete(publisher, "shared", "hopper")
                wait_for(same, "the changes")
            work(publisher)
            assert jobs(subscriber, "shared") == []
            repaired = value(subscriber, "SELECT graphrag.repair()")
            work(subscriber)
            assert canonical(subscriber, "shared") == canonical(publisher, "shared")
            assert repaired["graphs_rebuilt"] == 1
        # What is right costs nothing.
        assert value(subscriber, "SELECT graphrag.repair()")["jobs_queued"] == 0
        assert jobs(subscriber, "shared") == []
        subscriber.execute("DROP SUBSCRIPTION documents")


def test_repair_finds_content_that_was_changed_without_its_hash(db: Database) -> None:
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    work(db)
    changed = STORIES | {"ada": "Ada Lovelace moved to Vienna."}
    with psycopg.connect(db.url, autocommit=True) as silent:
        silent.execute("SET session_replication_role = replica")
        silent.execute(
            "UPDATE graphrag.documents SET content = %s WHERE corpus = %s AND source_key = 'ada'",
            [changed["ada"], corpus],
        )
    work(db)
    assert canonical(db, corpus) != expected(db, changed)
    db.execute("SELECT graphrag.repair()")
    assert [job[:3] for job in jobs(db, corpus)] == [("ada", "index", "pending")]
    work(db)
    assert canonical(db, corpus) == expected(db, changed)
    assert value(db, "SELECT graphrag.repair()")["jobs_queued"] == 0
    assert jobs(db, corpus) == []


def test_repair_finds_rows_that_came_to_or_left_an_attached_table_past_its_triggers(db: Database) -> None:
    corpus = new_corpus(db)
    db.execute("CREATE TABLE public.notes (id int PRIMARY KEY, body text)")
    db.execute("INSERT INTO public.notes VALUES (1, 'Ada wrote.'), (2, 'Alan read.'), (3, 'Grace met Ada.')")
    db.execute("SELECT graphrag.attach_table('public.notes', %s, 'id', ARRAY['body']::name[])", [corpus])
    work(db)
    with psycopg.connect(db.url, autocommit=True) as silent:
        silent.execute("SET session_replication_role = replica")
        silent.execute("INSERT INTO public.notes VALUES (4, 'Konrad built.')")
        silent.execute("DELETE FROM public.notes WHERE id = 3")
        silent.execute("UPDATE public.notes SET body = 'Alan wrote.' WHERE id = 2")
    db.execute("SELECT graphrag.repair()")
    work(db)
    documents = rows(db, "SELECT content, status FROM graphrag.documents WHERE corpus = %s ORDER BY 1", corpus)
    assert documents == [("Ada wrote.", "indexed"), ("Alan wrote.", "indexed"), ("Konrad built.", "indexed")]


def test_repair_tries_again_what_had_failed_and_lost_its_dead_letter(db: Database) -> None:
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    work(db)
    put(db, corpus, "bad", "Ada Lovelace failed.")
    db.execute("DELETE FROM graphrag.jobs")
    db.execute("UPDATE graphrag.documents SET status = 'failed', error = 'x' WHERE source_key = 'bad'")
    assert value(db, "SELECT graphrag.repair()")["jobs_queued"] == 1
    work(db)
    assert canonical(db, corpus) == expected(db, STORIES | {"bad": "Ada Lovelace failed."})
