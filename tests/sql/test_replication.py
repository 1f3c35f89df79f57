"""Documents that replication applies are indexed by workers; what comes past all triggers, after graphrag.repair()."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import (
    STORIES,
    canonical,
    corpus_id,
    delete,
    expected,
    index_all,
    jobs,
    new_corpus,
    put,
    put_all,
    refused,
    rows,
    statuses,
    value,
    wait_for,
    work,
)

PUBLISHED = (
    "id, corpus, corpus_id, source_key, title, content, metadata, content_hash, valid_from, valid_to, retracted_at,"
    " retraction_reason"
)


@pytest.mark.slow
def test_workers_index_what_a_subscription_brings(cluster: Callable[..., Cluster]) -> None:
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
        contents = "SELECT source_key, content, retracted_at FROM graphrag.documents ORDER BY 1"

        # Numbers come with the rows, and sequences do not: repair() moves them.
        wrong = "SELECT * FROM graphrag.check('shared') c WHERE c.invariant NOT LIKE 'sequences%%'"

        def same() -> bool:
            return rows(subscriber, contents) == rows(publisher, contents)

        wait_for(same, "the first copy")
        for step in range(2):
            if step:
                put(publisher, "shared", "ada", "Ada Lovelace moved to Vienna.")
                put(publisher, "shared", "new", "Konrad Zuse built the Z3 in Berlin.")
                delete(publisher, "shared", "hopper")
                publisher.execute("SELECT graphrag.retract('shared', 'turing', 'Wrong.')")
                wait_for(same, "the changes")
            work(publisher)
            work(subscriber)
            assert canonical(subscriber, "shared") == canonical(publisher, "shared")
            progress = "SELECT documents, indexed, pending, failed FROM graphrag.progress WHERE corpus = 'shared'"
            assert rows(subscriber, progress) == rows(publisher, progress)
            assert rows(subscriber, wrong) == []
        # What is right costs nothing.
        assert value(subscriber, "SELECT graphrag.repair()")["jobs_queued"] == 0
        assert jobs(subscriber, "shared") == []
        publisher.execute("TRUNCATE graphrag.documents CASCADE")
        wait_for(same, "the TRUNCATE")
        work(subscriber)
        assert value(subscriber, "SELECT count(*) FROM graphrag.chunks") == 0
        assert rows(subscriber, wrong) == []
        subscriber.execute("DROP SUBSCRIPTION documents")


def test_a_replicated_document_belongs_to_the_corpus_it_names_whatever_its_number_was_at_the_publisher(
    fresh_db: Database,
) -> None:
    db = fresh_db
    open_corpus, guarded = new_corpus(db), new_corpus(db)
    db.execute("SELECT graphrag.protect(%s, 'false')", [guarded])
    db.execute(
        "DO $$ BEGIN CREATE ROLE reading_replicas IN ROLE graphrag_reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    applied = (
        "INSERT INTO graphrag.documents (id, corpus, corpus_id, source_key, content, metadata, content_hash)"
        " VALUES (%s, %s, %s, 'ada', %s, '{}', graphrag._content_hash(NULL, %s))"
    )
    # Subscriptions apply rows so.
    with psycopg.connect(db.url, autocommit=True) as silent:
        silent.execute("SET session_replication_role = replica")
        silent.execute(applied, [1000, guarded, corpus_id(db, open_corpus), STORIES["ada"], STORIES["ada"]])
        diag = refused(silent, applied, 1001, "nowhere", 1, "Ada.", "Ada.")
        assert diag.sqlstate == "42704"
        assert "create_corpus" in str(diag.message_hint)
        diag = refused(silent, "UPDATE graphrag.documents SET corpus = %s WHERE id = 1000", open_corpus)
        assert diag.sqlstate == "0A000"
        silent.execute(
            "UPDATE graphrag.documents SET corpus_id = %s, title = 'Ada' WHERE id = 1000", [corpus_id(db, open_corpus)]
        )
    for repaired in (False, True):
        if repaired:
            db.execute("SELECT graphrag.repair()")
            work(db)
        assert value(db, "SELECT corpus_id FROM graphrag.documents") == corpus_id(db, guarded)
        db.execute("SET ROLE reading_replicas")
        assert rows(db, "SELECT source_key FROM graphrag.documents") == []
        db.execute("RESET ROLE")
    assert statuses(db, guarded) == {"ada": "indexed"}
    assert rows(db, "SELECT * FROM graphrag.check(%s)", guarded) == []
    put(db, open_corpus, "new", "Konrad Zuse built the Z3.")
    assert value(db, "SELECT max(id) FROM graphrag.documents") == 1001


def test_what_a_publisher_has_indexed_shows_no_former_text_here(fresh_db: Database) -> None:
    db = fresh_db
    corpus = new_corpus(db)
    db.execute("SELECT graphrag.protect(%s, %s)", [corpus, "metadata ->> 'team' = 'open'"])
    put(db, corpus, "ada", "Ada Lovelace hid in Lisbon.", metadata={"team": "closed"})
    put(db, corpus, "alan", "Alan Turing hid in Lisbon.", metadata={"team": "closed"})
    work(db)
    db.execute(
        "DO $$ BEGIN CREATE ROLE reading_replicas IN ROLE graphrag_reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    # As a publication of all columns brings it, whose worker has indexed the new text already.
    there = "content_hash = graphrag._content_hash(NULL, %s), indexed_hash = graphrag._content_hash(NULL, %s)"
    with psycopg.connect(db.url, autocommit=True) as silent:
        silent.execute("SET session_replication_role = replica")
        silent.execute(
            f"UPDATE graphrag.documents SET content = %s, metadata = %s, {there} WHERE source_key = 'ada'".encode(),
            ["Ada lives.", Jsonb({"team": "open"}), "Ada lives.", "Ada lives."],
        )
        # Deleted there, and another under its number.
        ((number,),) = rows(silent, "DELETE FROM graphrag.documents WHERE source_key = 'alan' RETURNING id")
        silent.execute(
            "INSERT INTO graphrag.documents (id, corpus, corpus_id, source_key, content, metadata, content_hash, indexed_hash,"
            " indexed_at, status) SELECT %s, %s, %s, 'new', 'New lives.', %s, h, h, now(), 'indexed'"
            " FROM graphrag._content_hash(NULL, 'New lives.') h",
            [number, corpus, corpus_id(db, corpus), Jsonb({"team": "open"})],
        )
    search = "SELECT content FROM graphrag.search('Who hid in Lisbon?', %s) ORDER BY 1"
    for visible_texts in ([], [("Ada lives.",), ("New lives.",)]):
        if visible_texts:
            db.execute("SELECT graphrag.repair()")
            work(db)
        db.execute("SET ROLE reading_replicas")
        assert rows(db, "SELECT content FROM graphrag.documents ORDER BY 1") == [("Ada lives.",), ("New lives.",)]
        assert rows(db, search, corpus) == visible_texts
        db.execute("RESET ROLE")
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_repair_has_the_trigger_of_replicated_documents_fire_there_alone(fresh_db: Database) -> None:
    firing = "SELECT tgenabled::text FROM pg_trigger WHERE tgname = 'documents_replicated'"
    assert value(fresh_db, firing) == "R"
    # As pg_restore --disable-triggers leaves it.
    fresh_db.execute("ALTER TABLE graphrag.documents ENABLE TRIGGER documents_replicated")
    fresh_db.execute("SELECT graphrag.repair()")
    assert value(fresh_db, firing) == "R"


def test_repair_finds_content_that_was_changed_without_its_hash(db: Database) -> None:
    corpus = index_all(db, new_corpus(db), STORIES)
    changed = STORIES | {"ada": "Ada Lovelace moved to Vienna."}
    with psycopg.connect(db.url, autocommit=True) as silent:
        silent.execute("BEGIN; ALTER TABLE graphrag.documents DISABLE TRIGGER documents_applied")
        silent.execute("ALTER TABLE graphrag.documents DISABLE TRIGGER documents_replicated")
        silent.execute("SET session_replication_role = replica")
        silent.execute(
            "UPDATE graphrag.documents SET content = %s WHERE corpus = %s AND source_key = 'ada'",
            [changed["ada"], corpus],
        )
        silent.execute("ALTER TABLE graphrag.documents ENABLE REPLICA TRIGGER documents_applied")
        silent.execute("ALTER TABLE graphrag.documents ENABLE REPLICA TRIGGER documents_replicated; COMMIT")
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
    corpus = index_all(db, new_corpus(db), STORIES)
    put(db, corpus, "bad", "Ada Lovelace failed.")
    db.execute("DELETE FROM graphrag.jobs")
    db.execute("UPDATE graphrag.documents SET status = 'failed', error = 'x' WHERE source_key = 'bad'")
    assert value(db, "SELECT graphrag.repair()")["jobs_queued"] == 1
    work(db)
    assert canonical(db, corpus) == expected(db, STORIES | {"bad": "Ada Lovelace failed."})
