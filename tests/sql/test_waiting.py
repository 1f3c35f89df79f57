"""wait_indexed sees what workers commit, ends in time, and shows no more than its caller may see; listeners hear of documents."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Cluster, Database
from tests.security.readers import readers, session_of
from tests.sql.asking import warnings
from tests.sql.ingest import Connection, index_all, put, refused, rows, search, searched_corpus, value, work

WAIT = "SELECT * FROM graphrag.wait_indexed(%s, %s, %s)"


@pytest.fixture
def other(module_db: Database) -> Iterator[Connection]:
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        yield connection


def test_it_sees_what_a_worker_commits_meanwhile(module_db: Database, other: Connection) -> None:
    corpus = searched_corpus(module_db)
    for key in "abc":
        put(module_db, corpus, key, "Ada Lovelace wrote notes.")
    worker = threading.Thread(target=work, args=(other,))
    worker.start()
    assert rows(module_db, WAIT, corpus, ["a", "b"], "60 s") == [(2, 0, 0)]
    worker.join()
    assert rows(module_db, WAIT, corpus, None, "0 s") == [(3, 0, 0)]


def test_after_the_timeout_the_rest_is_pending(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    put(module_db, corpus, "a", "Ada Lovelace wrote notes.")
    assert rows(module_db, WAIT, corpus, ["a"], "0.2 s") == [(0, 0, 1)]


def test_waiting_ends_with_its_cancel(module_db: Database, other: Connection) -> None:
    corpus = searched_corpus(module_db)
    put(module_db, corpus, "a", "Ada Lovelace wrote notes.")
    with pytest.raises(psycopg.errors.QueryCanceled):
        other.execute("SET statement_timeout = '200ms'; SELECT * FROM graphrag.wait_indexed('" + corpus + "')")


@pytest.mark.parametrize(
    ("corpus", "keys", "timeout", "sqlstate"),
    [
        ("nowhere", None, "1 s", "42704"),
        ("default", ["none"], "1 s", "P0002"),
        ("default", None, "-1 s", "22023"),
        ("default", None, None, "22023"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(
    module_db: Database, corpus: str, keys: list[str] | None, timeout: str | None, sqlstate: str
) -> None:
    put(module_db, "default", "here", "Ada Lovelace wrote notes.")
    error = refused(module_db, WAIT, corpus, keys, timeout)
    assert (error.sqlstate, bool(error.message_hint)) == (sqlstate, True)


def test_who_would_wait_for_himself_is_told(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    put(module_db, corpus, "a", "Ada Lovelace wrote notes.")
    with psycopg.connect(module_db.url) as own:
        put(own, corpus, "b", "Alan Turing read them.")
        assert refused(own, WAIT, corpus, ["b"], "1 s").sqlstate == "25001"
    with psycopg.connect(module_db.url) as own:
        own.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert refused(own, WAIT, corpus, ["a"], "1 s").sqlstate == "25001"


def test_a_hidden_document_is_as_one_that_is_not_there(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    for key in ("open", "hidden"):
        put(module_db, corpus, key, "Ada Lovelace wrote notes.")
    module_db.execute("SELECT graphrag.protect(%s, %s)", [corpus, "source_key = 'open'"])
    try:
        with readers(module_db, 1) as (role,), session_of(module_db, role) as reader:
            assert rows(reader, WAIT, corpus, None, "0 s") == [(0, 0, 1)]
            hidden = refused(reader, WAIT, corpus, ["hidden"], "0 s")
            absent = refused(reader, WAIT, corpus, ["absent"], "0 s")
            assert hidden.sqlstate == absent.sqlstate == "P0002"
    finally:
        module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])


def test_listeners_hear_of_documents_of_a_corpus_that_notifies(module_db: Database, other: Connection) -> None:
    silent, corpus = searched_corpus(module_db), searched_corpus(module_db, notify=True)
    long_key = "\x01" * 1900
    for name, key in ((silent, "a"), (corpus, "b"), (corpus, long_key)):
        put(module_db, name, key, f"Ada Lovelace wrote notes for {name}.")
    other.execute("LISTEN graphrag_indexed")
    work(module_db)
    ids = dict(rows(module_db, "SELECT source_key, id FROM graphrag.documents WHERE corpus = %s", corpus))
    payloads = [json.loads(notify.payload) for notify in other.notifies(timeout=2, stop_after=2)]
    assert sorted(payloads, key=lambda payload: payload["document_id"]) == [
        {"corpus": corpus, "source_key": "b", "document_id": ids["b"], "status": "indexed"},
        {"document_id": ids[long_key], "status": "indexed"},
    ]
    assert not list(other.notifies(timeout=0.1))


@pytest.mark.slow
def test_a_full_queue_of_notifications_costs_the_notifications_alone(cluster: Callable[..., Cluster]) -> None:
    own = cluster({"max_notify_queue_pages": "64"})
    own.create_database("notifying", "template0")
    with psycopg.connect(own.url("notifying"), autocommit=True) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE; SET graphrag.notify = on")
        db.execute(f"CREATE ROLE deaf LOGIN PASSWORD '{own.runtime.password}'".encode())
        corpus = searched_corpus(db, notify=True)
        with ExitStack() as sessions:
            # Older transactions that hold nothing up.
            for _ in range(4):
                sessions.enter_context(psycopg.connect(own.url("notifying"))).execute("SELECT 1")
            messages = sessions.enter_context(warnings(db))
            deaf = sessions.enter_context(psycopg.connect(make_conninfo(own.url(), user="deaf"), autocommit=True))
            deaf.execute("LISTEN x")
            deaf.execute("BEGIN; SELECT 1")
            # Where there is room yet, a batch may not fill it: long keys take 8 kB each.
            for n in range(60):
                put(db, corpus, f"{n:02}" + "\x01" * 1200, f"Ada Lovelace wrote note {n}.")
            work(db)
            assert value(db, "SELECT pg_notification_queue_usage()") < 0.5
            with suppress(psycopg.errors.ProgramLimitExceeded):
                while True:
                    db.execute("SELECT pg_notify('x', repeat('x', 7900) || n) FROM generate_series(1, 8) n")
            for n in range(2):
                index_all(db, corpus, {f"after {n}": f"Ada Lovelace wrote after note {n}."})
            assert rows(db, "SELECT status, count(*) FROM graphrag.documents GROUP BY 1") == [("indexed", 62)]
            assert [message for message in messages if "notifications of indexed" in message] == [
                "notifications of indexed documents are left out: the server's queue of them is filling"
            ]
            (detail,) = rows(db, "SELECT detail FROM graphrag.health() WHERE subject = 'queue of notifications'")
            assert f'pid {deaf.info.backend_pid} of role "deaf"' in detail[0]
        assert rows(db, "SELECT subject FROM graphrag.health()") == []
        db.execute("LISTEN graphrag_indexed")
        index_all(db, corpus, {"again": "Ada Lovelace wrote again."})
        assert len(list(db.notifies(timeout=2, stop_after=1))) == 1


def test_a_search_before_any_worker_says_so_once(module_db: Database, other: Connection) -> None:
    corpus = searched_corpus(module_db)
    notices: list[str] = []
    other.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    assert search(other, "Ada", corpus, "bm25") == []
    assert notices == []
    put(module_db, corpus, "a", "Ada Lovelace wrote notes.")
    for _ in range(2):
        assert search(other, "Ada", corpus, "bm25") == []
    assert notices == [f'no document of corpus "{corpus}" is indexed yet']


def issues(db: Connection) -> dict[str, str]:
    records = rows(db, "SELECT subject, severity, detail, hint FROM graphrag.health()")
    assert all(detail and hint for _, _, detail, hint in records)
    return {subject: severity for subject, severity, _, _ in records}


def test_health_names_what_needs_somebody(module_db: Database, other: Connection) -> None:
    work(module_db)
    assert issues(module_db) == {}
    corpus = searched_corpus(module_db)
    for key in "abc":
        put(module_db, corpus, key, "Ada Lovelace wrote notes.")
    assert issues(module_db) == {}
    due = "UPDATE graphrag.jobs SET next_attempt_at = now() - interval %s"
    module_db.execute(due.replace("%s", "'5 minutes'").encode())
    assert issues(module_db) == {"queue": "warning"}
    module_db.execute(due.replace("%s", "'1 hour'").encode())
    assert issues(module_db) == {"queue": "error"}
    module_db.execute("UPDATE graphrag.jobs SET state = 'leased', lease = 7")
    assert issues(module_db) == {"leases": "warning"}
    other.execute("SELECT pg_advisory_lock(1735549294, 7)")
    assert issues(module_db) == {}
    module_db.execute("UPDATE graphrag.jobs SET state = 'failed', lease = NULL, last_error = 'Secret: of a document'")
    module_db.execute(
        "INSERT INTO graphrag.providers (name, kind, base_url) VALUES ('spared', 'openai', 'http://127.0.0.1:1');"
        "INSERT INTO graphrag.provider_state (provider, failures, openings, last_error, open_until)"
        " VALUES ('spared', 5, 1, 'TimeoutError: secret', now() + interval '1 hour')"
    )
    assert issues(module_db) == {f'corpus "{corpus}"': "warning", 'provider "spared"': "warning"}
    with session_of(module_db, "pg_monitor") as monitor:
        details = rows(monitor, "SELECT detail FROM graphrag.health()")
        assert len(details) == 2
        assert "secret" not in str(details)
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": {"monthly_budget": 0}})])
    assert issues(module_db)[f'budget of corpus "{corpus}"'] == "error"


def test_health_names_attached_tables_that_are_gone_or_lack_a_column(db: Database) -> None:
    db.execute(
        "CREATE TABLE public.articles (id int PRIMARY KEY, headline text, body text);"
        "SELECT graphrag.attach_table('public.articles', 'default', 'id', '{body}', 'headline')"
    )
    db.execute("INSERT INTO public.articles VALUES (1, 'Notes', 'Ada Lovelace wrote notes.')")
    work(db)
    assert issues(db) == {}
    db.execute("ALTER TABLE public.articles DROP body")
    with session_of(db, "pg_monitor") as monitor:
        ((_, detail),) = rows(monitor, "SELECT subject, detail FROM graphrag.health()")
    assert 'columns it no longer has: "body"' in detail
    db.execute("DROP TABLE public.articles")
    assert issues(db) == {"attached table public.articles": "warning"}
    work(db)
    assert issues(db) == {}
    assert rows(db, "SELECT count(*) FROM graphrag.documents") == [(0,)]


def test_health_names_an_attached_table_as_soon_as_a_pass_failed(db: Database) -> None:
    db.execute(
        "CREATE TABLE public.articles (id int PRIMARY KEY, headline text, body text);"
        "INSERT INTO public.articles VALUES (1, 'Notes', 'Ada Lovelace wrote notes.');"
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'secret rule for %', NEW.source_key; END $$;"
        "CREATE TRIGGER refused BEFORE INSERT ON graphrag.documents FOR EACH ROW EXECUTE FUNCTION public.refuse();"
        "SELECT graphrag.attach_table('public.articles', 'default', 'id', '{body}', 'headline')"
    )
    states = "SELECT state, behind_since, detail, hint FROM graphrag.attached_tables"
    job = "SELECT id, errors, next_attempt_at FROM graphrag.jobs"
    ((_, behind_since, _, _),) = rows(db, states)
    assert issues(db) == {}
    work(db)
    assert issues(db) == {"attached table public.articles": "warning"}
    with session_of(db, "pg_monitor") as monitor:
        ((detail, hint),) = rows(monitor, "SELECT detail, hint FROM graphrag.health()")
    assert "failing: RaiseException" in detail
    assert "secret" not in detail + hint
    assert "graphrag.retry_failed()" in hint
    ((state, since, reason, todo),) = rows(db, states)
    assert (state, since) == ("failing", behind_since)
    assert reason == "RaiseException: secret rule for 1"
    assert "graphrag.retry_failed()" in todo
    # The next worker leaves it to its back-off, and forgets no errors.
    ((number, errors, due),) = rows(db, job)
    assert errors == 1
    work(db)
    assert rows(db, job) == [(number, errors, due)]
    for _ in range(2):
        db.execute("UPDATE graphrag.jobs SET next_attempt_at = now()")
        work(db)
    assert issues(db) == {"attached table public.articles": "warning", 'corpus "default"': "warning"}
    db.execute("DROP TRIGGER refused ON graphrag.documents; SELECT graphrag.retry_failed()")
    work(db)
    assert issues(db) == {}
    assert rows(db, "SELECT source_key FROM graphrag.documents") == [("1",)]


def test_documents_of_a_dropped_table_go_though_a_pass_failed_for_good(db: Database) -> None:
    db.execute(
        "CREATE TABLE public.articles (id int PRIMARY KEY, body text);"
        "SELECT graphrag.attach_table('public.articles', 'default', 'id', '{body}');"
        "INSERT INTO public.articles VALUES (1, 'Ada Lovelace wrote notes.')"
    )
    work(db)
    db.execute(
        "ALTER TABLE public.articles DISABLE TRIGGER USER; INSERT INTO public.articles VALUES (2, 'She read.');"
        "ALTER TABLE public.articles ENABLE TRIGGER USER;"
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;"
        "CREATE TRIGGER refused BEFORE INSERT ON graphrag.documents FOR EACH ROW EXECUTE FUNCTION public.refuse()"
    )
    for _ in range(3):
        work(db)
        db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE kind = 'attach'")
    assert rows(db, "SELECT state, errors FROM graphrag.jobs WHERE kind = 'attach'") == [("failed", 3)]
    # As where event triggers are not allowed.
    db.execute("SET event_triggers = off; DROP TABLE public.articles; RESET event_triggers")
    assert issues(db)["attached table public.articles"] == "warning"
    work(db)
    work(db)
    assert rows(db, "SELECT count(*) FROM graphrag.documents") == [(0,)]
    assert issues(db) == {}


def test_the_procedure_holds_back_no_vacuum(module_db: Database, other: Connection) -> None:
    corpus = searched_corpus(module_db)
    put(module_db, corpus, "a", "Ada Lovelace wrote notes.")
    call = "CALL graphrag.wait_until_indexed(%s, %s, %s)"
    waited: list[tuple[int, ...]] = []
    waiting = threading.Thread(target=lambda: waited.extend(rows(other, call, corpus, ["a"], "60 s")))
    waiting.start()
    horizons = set()
    for _ in range(100):
        module_db.execute("SELECT pg_current_xact_id()")
        ((horizon,),) = rows(
            module_db, "SELECT backend_xmin::text FROM pg_stat_activity WHERE pid = %s", other.info.backend_pid
        )
        horizons.add(horizon)
        if len(horizons - {None}) > 2:
            break
        module_db.execute("SELECT pg_sleep(0.1)")
    work(module_db)
    waiting.join()
    assert waited == [(1, 0, 0)]
    assert len(horizons - {None}) > 2
    assert refused(module_db, call, corpus, ["a"], "-1 s").sqlstate == "22023"
    assert refused(module_db, call, "nowhere", None, "1 s").sqlstate == "42704"
    put(module_db, corpus, "b", "Ada Lovelace wrote notes.")
    with pytest.raises(psycopg.errors.InvalidTransactionTermination), module_db.transaction():
        module_db.execute(call.encode(), [corpus, None, "5 s"])


def test_health_samples_whether_chunks_are_what_their_documents_say(db: Database) -> None:
    index_all(db, searched_corpus(db), {"ada": "Ada Lovelace admired Charles Babbage."})
    health = "SELECT detail FROM graphrag.health() WHERE severity = 'error'"
    assert rows(db, health) == []
    with db.transaction(force_rollback=True):
        db.execute("UPDATE graphrag.chunks SET content = 'Nothing of the kind.'")
        assert rows(db, health) == [("of 1 sampled chunks, 1 have other text than their documents, 0 no windows",)]
    with db.transaction(force_rollback=True):
        db.execute("DELETE FROM graphrag.window_vectors; DELETE FROM graphrag.chunk_windows")
        assert rows(db, health) == [("of 1 sampled chunks, 0 have other text than their documents, 1 no windows",)]
