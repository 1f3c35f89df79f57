"""graphrag.ask and ask_stream with an endpoint that misbehaves: errors that say what happened, cancel, closed cursors."""

from pathlib import Path

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database
from tests.sql.asking import ANSWER, as_reader, ask, calls, is_keywords, lines, stories, stream, understand, warnings
from tests.sql.ingest import put_all, refused, rows, search, value, wait_for, work
from tests.sql.llm import places_held

REPLY = lines
QUESTION = "What did Ada Lovelace write on the Analytical Engine?"
# misbehaviour: (SQLSTATE, what the message says)
FAULTS = {
    "timeout": ("08006", "did not answer within"),
    "hang_mid_body": ("08006", "s"),
    "reset": ("08006", "the connection to provider"),
    "unauthorized": ("08006", "it does not accept the key"),
    "model_not_found": ("08006", "no such model"),
    "rate_limited": ("08006", "answered 429"),
    "server_error": ("08006", "answered 500"),
    "html_502": ("08006", "answered 502"),
    "context_too_long": ("22000", "the prompt is too long"),
    "bad_request": ("22000", "refused the request"),
}


@pytest.fixture
def corpus(module_db: Database, endpoint: Endpoint) -> str:
    name = stories(module_db, endpoint)
    understand(module_db, QUESTION, name)
    endpoint.forget()
    return name


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("function", ["ask", "ask_stream"])
def test_a_fault_is_an_error_that_names_it_and_heals(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str, function: str
) -> None:
    endpoint.misbehave(kind, times=None)
    diag = refused(module_db, f"SELECT graphrag.{function}(%s, %s)", QUESTION, corpus)
    sqlstate, words = FAULTS[kind]
    assert diag.sqlstate == sqlstate
    # Between two pieces PL/Python gives the message as the DETAIL.
    assert words in f"{diag.message_primary} {diag.message_detail}"
    if kind != "hang_mid_body":
        assert (diag.message_primary or "").startswith("graphrag: ")
    endpoint.behave()
    assert ask(module_db, QUESTION, corpus)[0] == ANSWER


@pytest.mark.parametrize("function", ["ask", "ask_stream"])
def test_a_model_that_reads_little_is_given_a_shorter_context(
    module_db: Database, endpoint: Endpoint, function: str
) -> None:
    corpus = stories(module_db, endpoint)
    put_all(
        module_db,
        corpus,
        {f"note {n}": f"Note {n} of Ada Lovelace. " + f"It is on engine {n}. " * 60 for n in range(20)},
    )
    work(module_db)
    limit = 8000
    endpoint.misbehave("context_exceeded", None, when=lambda r: len(str(r.messages)) > limit)
    with warnings(module_db) as warned:
        if function == "ask":
            answer, citations, _, context = ask(module_db, QUESTION, corpus)
            assert len(citations) == 1
            # No shorter than need be: the one before was twice as long.
            assert limit < 2 * 8 * context["tokens"]
        else:
            answer = "".join(stream(module_db, QUESTION, corpus))
    assert answer == ANSWER
    assert len(str(endpoint.requests[-1].messages)) <= limit
    assert any("reads no longer context" in message for message in warned), warned


@pytest.mark.parametrize("kind", ["rate_limited", "server_error", "reset", "html_502"])
@pytest.mark.parametrize("function", [ask, stream])
def test_one_fault_that_passes_is_not_seen(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str, function: object
) -> None:
    # A kept connection that breaks is replaced first.
    broken = 2 if kind == "reset" else 1
    endpoint.misbehave(kind, broken)
    results = ask(module_db, QUESTION, corpus)[0] if function is ask else "".join(stream(module_db, QUESTION, corpus))
    assert results == ANSWER
    assert endpoint.count() == 1 + broken
    assert calls(module_db, corpus)[-2:] == [("answer", True), ("answer", False)]


def test_retry_after_is_waited_for(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    endpoint.misbehave("rate_limited", retry_after=2)
    assert ask(module_db, QUESTION, corpus)[0] == ANSWER
    first, second = endpoint.requests
    assert second.at - first.at >= 2
    endpoint.misbehave("rate_limited", retry_after=300)
    diag = refused(module_db, "SELECT * FROM graphrag.ask('Another one of Ada?', %s, mode => 'bm25')", corpus)
    assert "answered 429" in (diag.message_primary or "")
    assert endpoint.count() == 3


@pytest.mark.parametrize("kind", ["broken_stream", "garbled_stream", "hanging_stream"])
def test_a_stream_that_breaks_off_is_an_error_and_nothing_is_kept(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str
) -> None:
    endpoint.misbehave(kind, times=None)
    with module_db.transaction(force_rollback=True):
        cursor = module_db.cursor("answer")
        cursor.execute("SELECT graphrag.ask_stream(%s, %s)", [QUESTION, corpus])
        with pytest.raises(psycopg.OperationalError) as error:
            pieces = [piece for (piece,) in iter(cursor.fetchone, None) if piece]
            raise AssertionError(f"no error after {pieces}")
        assert error.value.diag.sqlstate == "08006"
        assert "graphrag: " in (error.value.diag.message_detail or "")
    endpoint.behave()
    assert "".join(stream(module_db, QUESTION, corpus)) == ANSWER


def test_an_answer_that_is_cut_off_is_given_and_not_kept(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    whole = f"{ANSWER} {ANSWER.replace('wrote', 'read')}"
    endpoint.reply(lambda messages: lines(messages) if is_keywords(messages) else whole)
    endpoint.misbehave("cut_off")
    cut, _, _, _ = ask(module_db, QUESTION, corpus)
    assert cut != whole
    assert whole.startswith(cut)
    assert ask(module_db, QUESTION, corpus)[0] == whole
    assert endpoint.count() == 2


@pytest.mark.parametrize("function", ["ask", "ask_stream"])
def test_statement_timeout_ends_a_question(module_db: Database, corpus: str, endpoint: Endpoint, function: str) -> None:
    endpoint.pause()
    module_db.execute("SET statement_timeout = '500ms'")
    try:
        diag = refused(module_db, f"SELECT graphrag.{function}(%s, %s)", QUESTION, corpus)
    finally:
        module_db.execute("RESET statement_timeout")
        endpoint.resume()
    assert diag.sqlstate == "57014"
    wait_for(lambda: endpoint.in_flight == 0, "the closed connection")
    assert ask(module_db, QUESTION, corpus)[0] == ANSWER


def test_pieces_arrive_before_the_answer_is_complete(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    endpoint.misbehave("hanging_stream")
    with module_db.transaction(force_rollback=True):
        cursor = module_db.cursor("answer")
        cursor.execute("SELECT graphrag.ask_stream(%s, %s)", [QUESTION, corpus])
        assert cursor.fetchone() == ("Ada",)
        assert cursor.fetchone() == (" Lovelace",)
        assert endpoint.in_flight == 1
        cursor.close()


def test_closing_the_cursor_closes_the_connection_and_gives_the_place_back(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = stories(module_db, endpoint, concurrency=1, timeout=60)
    endpoint.misbehave("slow_stream", pause=30, when=lambda request: "<documents-" in str(request.messages))
    with module_db.transaction():
        cursor = module_db.cursor("answer")
        cursor.execute("SELECT graphrag.ask_stream(%s, %s)", [QUESTION, corpus])
        assert cursor.fetchone() == ("Ada",)
        assert endpoint.in_flight == 1
        cursor.close()
        wait_for(lambda: endpoint.in_flight == 0, "the closed connection")
    assert places_held(module_db) == 0
    assert ask(module_db, QUESTION, corpus)[0] == ANSWER
    assert calls(module_db, corpus).count(("answer", False)) == 2, "what was left is not accounted for"


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_the_end_of_the_transaction_ends_a_stream(module_db: Database, endpoint: Endpoint, end: str) -> None:
    corpus = stories(module_db, endpoint, concurrency=1, timeout=60)
    endpoint.misbehave("slow_stream", pause=0.2)
    module_db.execute("BEGIN")
    module_db.execute(f"DECLARE answer CURSOR FOR SELECT graphrag.ask_stream('{QUESTION}', '{corpus}')".encode())
    assert rows(module_db, "FETCH 1 FROM answer") == [("Ada",)]
    module_db.execute(end.encode())
    # The one place at the provider is free again.
    assert ask(module_db, QUESTION, corpus)[0] == ANSWER
    assert search(module_db, QUESTION, corpus)


def test_a_budget_that_is_reached_is_an_error(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, llm={"monthly_budget": 1e-9}, price_input=1000)
    assert ask(module_db, QUESTION, corpus, mode="bm25")[0] == ANSWER
    assert ask(module_db, QUESTION, corpus, mode="bm25")[2]["cache_hits"] == 1
    for function in ("ask", "ask_stream"):
        diag = refused(module_db, f"SELECT graphrag.{function}('Another Ada?', %s, mode => 'bm25')", corpus)
        assert diag.sqlstate == "53400"
        assert diag.message_hint
    assert endpoint.count() == 1
    records = rows(module_db, "SELECT budget, spent > budget, state FROM graphrag.budgets WHERE corpus = %s", corpus)
    assert [(float(budget), over, state) for budget, over, state in records] == [(1e-9, True, "reached")]


@pytest.mark.parametrize("kind", ["unauthorized", "server_error", "model_not_found", "context_too_long"])
@pytest.mark.parametrize("function", ["ask", "ask_stream"])
def test_a_reader_is_told_that_it_failed_and_no_more(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str, function: str
) -> None:
    endpoint.misbehave(kind, times=None)
    with as_reader(module_db):
        diag = refused(module_db, f"SELECT graphrag.{function}(%s, %s, mode => 'bm25')", QUESTION, corpus)
    message = f"{diag.message_primary} {diag.message_detail} {diag.message_hint}"
    assert 'the model of the role "answer"' in message or "the prompt is too long" in message
    for secret in ('provider "', "model-1", "500", "401", "404", endpoint.url, "key"):
        assert secret not in message


def test_a_key_that_is_missing_is_the_owners_to_know(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, api_key_env="NO_SUCH_VARIABLE_HERE")
    sql = "SELECT * FROM graphrag.ask(%s, %s, mode => 'bm25')"
    assert "NO_SUCH_VARIABLE_HERE" in (refused(module_db, sql, QUESTION, corpus).message_primary or "")
    with as_reader(module_db):
        diag = refused(module_db, sql, QUESTION, corpus)
    assert diag.message_primary == 'graphrag: the model of the role "answer" is not set up'
    assert "NO_SUCH_VARIABLE_HERE" not in f"{diag.message_detail} {diag.message_hint}"
    assert endpoint.count() == 0


@pytest.mark.slow
def test_a_hot_standby_understands_searches_and_answers(cluster, endpoint: Endpoint) -> None:
    primary: Cluster = cluster({"wal_level": "replica", "max_wal_senders": "4"})
    db = Database.open(primary.create_database("docs"))
    db.execute("CREATE EXTENSION pg_graphrag CASCADE")
    corpus = stories(db, endpoint, corpus={"query_log": True})
    standby: Cluster = cluster({"max_wal_senders": "4", "hot_standby": "on"})
    standby.stop()
    data = Path("/srv/pg_graphrag/clusters") / standby.folder.name / "data"
    standby.runtime.run("rm", "-rf", str(data))
    standby.runtime.run("pg_basebackup", "-R", "-c", "fast", "-D", str(data), "-d", primary.url())
    standby.start()
    replica = Database.open(standby.url("docs"))
    assert value(replica, "SELECT pg_is_in_recovery()") is True
    assert understand(replica, QUESTION, corpus)["by"] == "model"
    results = search(replica, QUESTION, corpus)
    assert results[0]["explain"]["understanding"] == {"by": "cache"}
    answer, citations, usage, _ = ask(replica, QUESTION, corpus)
    assert (answer, usage["calls"], usage["cache_hits"]) == (ANSWER, 1, 1)
    assert citations
    assert "".join(stream(replica, "What did Ada do?", corpus)) == ANSWER
    assert endpoint.count() == 4
    endpoint.misbehave("prose", when=lambda request: is_keywords(request.messages))
    assert search(replica, "Who is the one who failed?", corpus)[0]["explain"]["understanding"]["by"] == "noun phrases"
    replica.close()
    db.close()
