"""graphrag.forget: a document goes with everything made of it, and the report says so."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.server import Answer, Request, error
from tests.runtime.cluster import Database
from tests.sql.batching import batched, found_in, hurry, settle
from tests.sql.ingest import STORIES, corpus_id, delete, index_all, new_corpus, put, put_all, refused, rows, value, work
from tests.sql.llm import provider
from tests.sql.themes import SEA

REPLY = found_in
# What nothing may hold any more: names and words of this document alone.
SECRET = (
    "Zephyrine Quillfeather keeps the ledger of Vaultmere in a tin box. Charles Babbage visited Zephyrine Quillfeather."
)
QUOTE = "Zephyrine Quillfeather keeps the ledger of Vaultmere [1]."
WORDS = ("zephyrin", "quillfeather", "vaultmer", "zk-secret")


@pytest.fixture
def db(fresh_db: Database) -> Database:
    """A new database, of which no statistics were gathered: they keep words."""
    return fresh_db


def forget(db: Database, corpus: str, key: str) -> dict[str, dict[str, Any]]:
    """The report, by place."""
    sql = "SELECT to_jsonb(f) FROM graphrag.forget(%s, %s) f"
    return {line["place"]: line for (line,) in rows(db, sql, corpus, key)}


def remaining(report: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {place: line["detail"] for place, line in report.items() if line["state"] == "remains"}


def places_with(db: Database, words: tuple[str, ...] = WORDS) -> list[str]:
    """Every table of the database that has one of the words anywhere: not by the catalogs' types, as forget() looks."""
    tables = rows(
        db,
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)"
        "  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'm') AND n.nspname !~ '^(pg_(catalog|toast)|information_schema)'",
    )
    pattern = "|".join(words)
    places = [name for (name,) in tables if value(db, f"SELECT count(*) FROM {name} t WHERE t::text ~* %s", pattern)]
    sampled = (
        "SELECT DISTINCT 'statistics of ' || a.attrelid::regclass || '.' || a.attname FROM pg_statistic s"
        "  JOIN pg_attribute a ON a.attrelid = s.starelid AND a.attnum = s.staattnum WHERE s::text ~* %s"
    )
    return sorted(places + [name for (name,) in rows(db, sampled, pattern)])


def with_secret(db: Database, **options: Any) -> str:
    corpus = new_corpus(db, **options)
    put_all(db, corpus, STORIES)
    put(db, corpus, "zk-secret", SECRET, "The Vaultmere ledger", {"owner": "Quillfeather"})
    work(db)
    return corpus


def test_no_table_holds_a_word_of_a_forgotten_document(db: Database) -> None:
    corpus = with_secret(db, communities=True, query_log=True)
    db.execute("SELECT graphrag.log_query('Where is Vaultmere?', %s, 'search', 'hybrid', 1.0)", [corpus])
    db.execute("SELECT graphrag.feedback('Whose ledger?', 'good', %s, ARRAY['zk-secret'], 'Hers.')", [corpus])
    db.execute("ANALYZE")
    assert {"graphrag.documents", "graphrag.bm25_tail", "graphrag.query_log"} <= set(places_with(db))
    report = forget(db, corpus, "zk-secret")
    assert places_with(db) == []
    assert remaining(report) == {}
    assert report["graphrag.documents"]["removed"] == 1
    assert report["graphrag.chunks"]["removed"] == 1
    assert report["graphrag.query_log"]["removed"] == 1
    assert report["graphrag.answer_feedback"]["removed"] == 1


def test_packed_postings_are_written_anew_without_it(db: Database) -> None:
    corpus = with_secret(db)
    db.execute("SELECT graphrag.optimize(%s)", [corpus])
    assert "graphrag.bm25_postings" in places_with(db)
    assert remaining(forget(db, corpus, "zk-secret")) == {}
    assert places_with(db) == []
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_what_stays_is_what_the_other_documents_make(db: Database) -> None:
    corpus, other = with_secret(db, communities=True), new_corpus(db, communities=True)
    index_all(db, other, STORIES)
    forget(db, corpus, "zk-secret")
    sections = "SELECT section, hash FROM graphrag.fingerprint_sections(%s)"
    assert rows(db, sections, corpus) == rows(db, sections, other)
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []
    work(db)
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_only_reports_that_would_read_otherwise_go(db: Database) -> None:
    corpus = index_all(db, new_corpus(db, communities={"max_cluster_size": 5}), STORIES | SEA | {"zk-secret": SECRET})
    reports = "SELECT r.content FROM graphrag.community_reports r WHERE r.corpus_id = %s"
    before = {content for (content,) in rows(db, reports, corpus_id(db, corpus))}
    report = forget(db, corpus, "zk-secret")
    after = {content for (content,) in rows(db, reports, corpus_id(db, corpus))}
    assert after < before
    assert any("Nemo" in content for content in after)
    assert not any("Quillfeather" in content for content in after)
    assert report["graphrag.community_reports"]["removed"] == len(before) - len(after)
    work(db)
    assert value(db, "SELECT count(*) FROM graphrag.communities WHERE report_due") == 0


def test_names_that_people_gave_are_shown_and_left(db: Database) -> None:
    corpus = with_secret(db)
    db.execute("SELECT graphrag.rename_entity('Zephyrine Quillfeather', 'Zephyrine of Vaultmere', %s)", [corpus])
    report = forget(db, corpus, "zk-secret")
    assert report["graphrag.curations"]["state"] == "remains"
    assert "undo_curation" in report["graphrag.curations"]["hint"]
    # What is left comes first.
    assert next(iter(report.values()))["state"] == "remains"


def test_replies_of_models_go_and_batches_are_cancelled_at_their_endpoint(db: Database, endpoint: Endpoint) -> None:
    corpus = batched(db, endpoint)
    put_all(db, corpus, {"ada": STORIES["ada"]})
    settle(db, corpus)
    assert value(db, "SELECT count(*) FROM graphrag.llm_cache") > 0
    index_all(db, corpus, {"zk-secret": "Alan Turing met Zephyrine Quillfeather at Vaultmere in London."})
    hurry(db)
    assert "graphrag.llm_batch_requests" in places_with(db)
    report = forget(db, corpus, "zk-secret")
    assert set(remaining(report)) == {"batches at endpoints"}
    assert places_with(db) == []
    assert value(db, "SELECT count(*) FROM graphrag.llm_cache") == 0
    for _ in range(10):
        hurry(db)
    assert endpoint.batches.files == {}
    report = forget(db, corpus, "zk-secret")
    assert remaining(report) == {}


@contextmanager
def under_way(db: Database, endpoint: Endpoint, statement: str, *values: Any) -> Iterator[Database]:
    """A session that runs a statement, and waits for what a model says of the document until the end of the block."""
    asked, answers = threading.Event(), threading.Event()

    def reply(messages: Sequence[dict[str, Any]]) -> str:
        if "Quillfeather" not in str(messages):
            return "{}"
        asked.set()
        answers.wait(30)
        return QUOTE

    endpoint.reply(reply)
    with Database.open(db.url) as session:
        thread = threading.Thread(target=session.execute, args=[statement, list(values)])
        thread.start()
        try:
            assert asked.wait(30)
            yield session
        finally:
            answers.set()
            thread.join()
            endpoint.behave()


def asked_of_a_model(db: Database, endpoint: Endpoint, **options: Any) -> str:
    llm = {"provider": provider(db, endpoint), "model": "m"}
    return with_secret(db, llm=llm, query_log=True, **options)


def test_a_reply_that_comes_later_is_not_kept(db: Database, endpoint: Endpoint) -> None:
    corpus = asked_of_a_model(db, endpoint)
    question = "Where does Zephyrine Quillfeather keep the ledger of Vaultmere?"
    ask = "SELECT * FROM graphrag.ask(%s, %s, 'naive')"
    with under_way(db, endpoint, ask, question, corpus):
        assert remaining(forget(db, corpus, "zk-secret")) == {}
    assert places_with(db) == []
    assert remaining(forget(db, corpus, "zk-secret")) == {}
    # What is asked afterwards is kept.
    endpoint.reply("It is not known [1].")
    db.execute(ask, ["Who was Ada Lovelace?", corpus])
    assert value(db, "SELECT count(*) FROM graphrag.llm_cache") == 1


def test_an_extraction_that_comes_later_is_not_kept(db: Database, endpoint: Endpoint) -> None:
    corpus = asked_of_a_model(db, endpoint)
    put(db, corpus, "zk-later", "Zephyrine Quillfeather of Vaultmere.")
    db.execute('SELECT graphrag.alter_corpus(%s, \'{"extractor": "llm", "max_gleaning": 0}\')', [corpus])
    with under_way(db, endpoint, "CALL graphrag.process_jobs()"):
        for key in ("zk-secret", "zk-later"):
            forget(db, corpus, key)
    for key in ("zk-secret", "zk-later"):
        assert remaining(forget(db, corpus, key)) == {}
    assert places_with(db) == []


def test_a_report_of_before_is_not_stored(db: Database, endpoint: Endpoint) -> None:
    corpus = asked_of_a_model(db, endpoint, communities=True)
    llm = {"provider": provider(db, endpoint), "model": "m"}
    db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": {"roles": {"report": llm}}})])
    db.execute("UPDATE graphrag.communities SET report_due = true")
    db.execute("SELECT graphrag._queue_jobs('reports', ARRAY[%s])", [corpus_id(db, corpus)])
    with under_way(db, endpoint, "CALL graphrag.process_jobs()"):
        forget(db, corpus, "zk-secret")
        assert places_with(db) == []
    assert places_with(db) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("status", [400, 401, 500])
def test_of_an_error_that_comes_later_only_the_kind_is_kept(db: Database, endpoint: Endpoint, status: int) -> None:
    """An endpoint's error may quote the request: it would stand in the job, the provider's state and the account."""
    corpus = asked_of_a_model(db, endpoint, communities=True)
    llm = {"provider": provider(db, endpoint), "model": "m"}
    db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": {"roles": {"report": llm}}})])
    db.execute("UPDATE graphrag.communities SET report_due = true")
    db.execute("SELECT graphrag._queue_jobs('reports', ARRAY[%s])", [corpus_id(db, corpus)])
    asked, answers = threading.Event(), threading.Event()

    def quoting(request: Request) -> Answer:
        if b"Quillfeather" not in request.data:
            return error(status, "Cannot answer this.", "invalid_value")
        asked.set()
        answers.wait(30)
        return error(status, f"Cannot answer this: {QUOTE}", "invalid_value")

    endpoint.respond(quoting)
    with Database.open(db.url) as session:
        thread = threading.Thread(target=session.execute, args=["CALL graphrag.process_jobs()"])
        thread.start()
        try:
            assert asked.wait(30)
            forget(db, corpus, "zk-secret")
        finally:
            answers.set()
            thread.join()
            endpoint.behave()
    assert places_with(db) == []
    assert value(db, "SELECT count(*) FROM graphrag.llm_calls WHERE error IS NOT NULL") > 0


def test_who_asked_and_keeps_his_transaction_open_is_waited_for_and_named(db: Database, endpoint: Endpoint) -> None:
    corpus = asked_of_a_model(db, endpoint)
    endpoint.reply(QUOTE)
    with Database.open(db.url) as session:
        session.execute("BEGIN")
        session.execute("SELECT * FROM graphrag.ask('Where is Vaultmere?', %s, 'naive')", [corpus])
        diag = refused(db, "SELECT graphrag.forget(%s, 'zk-secret')", corpus)
        assert (diag.sqlstate, "pg_stat_activity" in str(diag.message_hint)) == ("55P03", True)
        assert value(db, "SELECT count(*) FROM graphrag.documents WHERE source_key = 'zk-secret'") == 1
        session.execute("COMMIT")
    assert remaining(forget(db, corpus, "zk-secret")) == {}
    assert places_with(db) == []


def test_what_a_session_remembers_of_before_is_not_kept(db: Database, endpoint: Endpoint) -> None:
    """An answer in a transaction that only reads is written down by the next that writes."""
    corpus = asked_of_a_model(db, endpoint)
    endpoint.reply(QUOTE)
    with Database.open(db.url) as session:
        session.execute("BEGIN READ ONLY")
        session.execute("SELECT * FROM graphrag.ask('Where is Vaultmere?', %s, 'naive')", [corpus])
        session.execute("COMMIT")
        assert remaining(forget(db, corpus, "zk-secret")) == {}
        endpoint.reply("It is not known [1].")
        session.execute("SELECT * FROM graphrag.ask('Who was Ada Lovelace?', %s, 'naive')", [corpus])
    assert places_with(db) == []
    assert value(db, "SELECT count(*) FROM graphrag.llm_calls") == 2


def test_a_transaction_that_does_not_see_what_others_write_is_refused(db: Database) -> None:
    corpus = new_corpus(db)
    with pytest.raises(psycopg.errors.ActiveSqlTransaction, match="REPEATABLE READ"), db.transaction():
        db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        db.execute("SELECT graphrag.forget(%s, 'x')", [corpus])


def test_a_document_that_was_deleted_before_leaves_nothing_either(db: Database) -> None:
    corpus = with_secret(db)
    delete(db, corpus, "zk-secret")
    assert "graphrag.chunks" in places_with(db)
    report = forget(db, corpus, "zk-secret")
    assert "by key alone" in report["document"]["detail"]
    assert places_with(db) == []


def test_a_rollback_takes_all_of_it_back(db: Database) -> None:
    corpus = with_secret(db)
    before = value(db, "SELECT graphrag.fingerprint(%s)", corpus)
    with db.transaction(force_rollback=True):
        forget(db, corpus, "zk-secret")
    assert value(db, "SELECT graphrag.fingerprint(%s)", corpus) == before
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_a_table_that_comes_later_is_looked_through_too(db: Database) -> None:
    corpus = with_secret(db)
    number = corpus_id(db, corpus)
    db.execute("CREATE TABLE graphrag.later (corpus_id int, source_key text, document_id bigint, content text)")
    db.execute("CREATE TABLE graphrag.notes (note jsonb)")
    owner = value(db, "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'graphrag.corpora'::regclass")
    db.execute(f"ALTER TABLE graphrag.later OWNER TO {owner}; ALTER TABLE graphrag.notes OWNER TO {owner}".encode())
    old = [number, "zk-secret", 4711, "An older text of Vaultmere."]
    db.execute("INSERT INTO graphrag.later VALUES (%s, %s, %s, %s)", old)
    db.execute("INSERT INTO graphrag.notes VALUES (%s)", [Jsonb({"a": ["Zephyrine Quillfeather"]})])
    report = forget(db, corpus, "zk-secret")
    assert report["graphrag.later"]["removed"] == 1
    assert set(remaining(report)) == {"graphrag.notes"}


def test_other_corpora_with_the_key_are_named(db: Database) -> None:
    corpus, other = with_secret(db), with_secret(db)
    # The other corpus has the same words: ANALYZE may have sampled them there.
    assert set(remaining(forget(db, corpus, "zk-secret"))) - {"statistics"} == {f'corpus "{other}"'}
    assert value(db, "SELECT count(*) FROM graphrag.documents WHERE corpus = %s", other) == len(STORIES) + 1


def test_a_document_whose_text_others_have_is_told_apart_by_number(db: Database) -> None:
    corpus = with_secret(db)
    put(db, corpus, "copy", SECRET, "The Vaultmere ledger", {"owner": "Quillfeather", "key": "zk-secret"})
    work(db)
    report = forget(db, corpus, "zk-secret")
    assert remaining(report) == {}
    assert "by number and key" in report["document"]["detail"]
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_no_promise_is_made_of_what_no_database_can_say(db: Database) -> None:
    report = forget(db, with_secret(db), "zk-secret")
    unprovable = {place for place, line in report.items() if line["state"] == "unprovable"}
    assert {"WAL", "backups", "replicas", "dead rows", "endpoints"} <= unprovable


def test_a_document_of_an_attached_table_is_refused(db: Database) -> None:
    db.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    db.execute("SELECT graphrag.attach_table('articles', 'default', 'id', '{body}')")
    db.execute("INSERT INTO articles VALUES (1, 'Zephyrine Quillfeather.')")
    key = value(db, "SELECT source_key FROM graphrag.documents")
    diag = refused(db, "SELECT graphrag.forget('default', %s)", key)
    assert diag.sqlstate == "55000"
    assert "public.articles" in (diag.message_primary or "")
    db.execute("DELETE FROM articles")
    assert remaining(forget(db, "default", key)) == {}


def test_bad_arguments_are_named(db: Database) -> None:
    assert refused(db, "SELECT graphrag.forget('nowhere', 'x')").sqlstate == "42704"
    assert refused(db, "SELECT graphrag.forget('nowhere', NULL)").sqlstate == "42704"
    assert refused(db, "SELECT graphrag.forget(%s, NULL)", new_corpus(db)).sqlstate == "22004"


def test_what_is_written_while_it_deletes_is_found(db: Database) -> None:
    corpus = with_secret(db)
    number = corpus_id(db, corpus)
    db.execute("CREATE TABLE graphrag.test_notes (corpus_id int, note text)")
    owner = value(db, "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'graphrag.corpora'::regclass")
    db.execute(f"ALTER TABLE graphrag.test_notes OWNER TO {owner}".encode())
    db.execute("INSERT INTO graphrag.test_notes SELECT %s, 'Nothing of it.' FROM generate_series(1, 50)", [number])
    db.execute(
        "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO graphrag.test_notes SELECT d.corpus_id, d.content FROM deleted d; RETURN NULL; END $$"
    )
    db.execute(
        "CREATE TRIGGER note AFTER DELETE ON graphrag.documents REFERENCING OLD TABLE AS deleted"
        " FOR EACH STATEMENT EXECUTE FUNCTION public.note()"
    )
    report = forget(db, corpus, "zk-secret")
    assert remaining(report) == {"graphrag.test_notes": "0 rows by number or key, 1 by stretches of its text"}
    assert forget(db, corpus, "zk-secret")["graphrag.test_notes"]["state"] == "clear", "by key alone"


def test_texts_are_compared_before_the_corpus_is_locked(db: Database) -> None:
    corpus = with_secret(db)
    # How many rows of locks this session has locked, each time the texts of a table are compared.
    db.execute(
        """
        DO LANGUAGE plpython3u $$
        from pg_graphrag.operate.admin import traces
        compare = traces.places_with_text
        def watched(db, *rest):
            locks = "SELECT count(*) AS n FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'RowShareLock'"
            locks += " AND relation = 'graphrag._locks'::regclass"
            locked.add(db.query(locks)[0]["n"])
            return compare(db, *rest)
        locked = GD["locked"] = set()
        traces.places_with_text = watched
        $$
        """
    )
    assert remaining(forget(db, corpus, "zk-secret")) == {}
    db.execute(
        "DO LANGUAGE plpython3u $$ plpy.execute(\"SELECT set_config('test.locked', '%s', false)\" % sorted(GD['locked'])) $$"
    )
    assert value(db, "SELECT current_setting('test.locked')") == "[0]"


def test_names_that_rows_bring_are_no_trace_of_their_namesake(db: Database) -> None:
    corpus = new_corpus(db)
    db.execute("CREATE TABLE public.engines (id int PRIMARY KEY, code text UNIQUE)")
    db.execute("INSERT INTO public.engines VALUES (18, 'QX-900')")
    db.execute("SELECT graphrag.attach_entities('public.engines', %s, ARRAY['id'], name => 'code')", [corpus])
    index_all(db, corpus, {"note": "The QX900 broke."})
    assert remaining(forget(db, corpus, "note")) == {}
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_a_former_text_of_another_document_is_said_to_wait_for_a_worker(db: Database) -> None:
    corpus = index_all(db, with_secret(db), {"other": "It says zk-secret here."})
    put(db, corpus, "other", "It says nothing.")
    report = forget(db, corpus, "zk-secret")
    assert "process_jobs" in report["graphrag.chunks"]["hint"]
    work(db)
    assert remaining(forget(db, corpus, "zk-secret")) == {}
