"""An `ask` takes no longer than its deadline, whatever its endpoint does, and reads what can be read until then."""

import time

import psycopg
import pytest

from tests.endpoint import Endpoint, Request
from tests.runtime.cluster import Database
from tests.sql.asking import ANSWER, ask, calls, is_keywords, lines, stories, stream, warnings
from tests.sql.ingest import Background, put_all, wait_for, work

REPLY = lines
QUESTION = "What did Ada Lovelace write about the Analytical Engine?"
SECONDS = 1.0
# For what is no waiting, on a busy machine.
SPARE = 10.0


@pytest.fixture(scope="module")
def corpus(module_db: Database, module_endpoint: Endpoint) -> str:
    return stories(module_db, module_endpoint, timeout=60)


@pytest.fixture
def endpoint(module_endpoint: Endpoint) -> Endpoint:
    module_endpoint.behave()
    module_endpoint.forget()
    return module_endpoint


def is_answer(request: Request) -> bool:
    return request.kind == "chat" and not is_keywords(request.messages)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("kind", "details"),
    [
        ("timeout", {}),
        ("hang_mid_body", {}),
        ("hanging_stream", {}),
        ("slow_stream", {"pause": 0.9}),
        ("stammers", {"pause": 0.05}),
        ("rambles", {"pause": 0.05}),
        ("loops", {"pause": 0.3}),
        ("reads_slowly", {"tokens": 100}),
        ("rate_limited", {"retry_after": 30}),
    ],
)
@pytest.mark.parametrize("function", [ask, stream])
def test_an_ask_ends_at_its_deadline(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str, details: dict[str, float], function: object
) -> None:
    endpoint.misbehave(kind, None, **details)
    assert callable(function)
    start = time.monotonic()
    try:
        function(module_db, f"{QUESTION} ({kind})", corpus, options={"answer_timeout": SECONDS})
    except psycopg.Error as error:
        assert error.diag.message_hint
    assert time.monotonic() - start < 2 * SECONDS + SPARE
    wait_for(lambda: endpoint.in_flight == 0, "the closed connection")


@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy"])
def test_modes_that_ask_much_end_at_the_deadline(
    module_db: Database, corpus: str, endpoint: Endpoint, mode: str
) -> None:
    endpoint.misbehave("slow_stream", None, pause=0.9)
    start = time.monotonic()
    ask(module_db, QUESTION, corpus, mode=mode, options={"answer_timeout": SECONDS})
    assert time.monotonic() - start < 2 * SECONDS + SPARE


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_who_is_cancelled_while_the_prompt_is_read_closes_the_connection(
    module_db: Database, corpus: str, endpoint: Endpoint, how: str
) -> None:
    endpoint.misbehave("timeout", None)
    session = Background(module_db.url, f"SELECT graphrag.ask('{QUESTION} ({how})', '{corpus}', 'bm25')")
    wait_for(lambda: endpoint.in_flight == 1, "the request")
    module_db.execute(f"SELECT {how}(%s)".encode(), [session.pid])
    wait_for(lambda: endpoint.in_flight == 0, "the closed connection")
    assert session.finish() is not None


def test_what_a_cancelled_ask_sent_is_in_the_accounts(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    endpoint.misbehave("timeout")
    question = f"{QUESTION} (cancelled)"
    session = Background(module_db.url, f"SELECT graphrag.ask('{question}', '{corpus}', 'bm25')")
    wait_for(lambda: endpoint.in_flight == 1, "the request")
    module_db.execute("SELECT pg_cancel_backend(%s)", [session.pid])
    session.join(60)
    before = calls(module_db, corpus)
    ask(session.connection, question, corpus, mode="bm25")
    session.connection.close()
    assert len(calls(module_db, corpus)) == len(before) + len(endpoint.requests) == len(before) + 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("function", [ask, stream])
def test_the_context_is_what_a_slow_model_reads_in_time(
    module_db: Database, endpoint: Endpoint, function: object
) -> None:
    corpus = stories(module_db, endpoint, timeout=60)
    notes = {f"note {n}": f"Note {n} of Ada Lovelace. " + f"It is on engine {n}. " * 120 for n in range(20)}
    put_all(module_db, corpus, notes)
    work(module_db)
    endpoint.misbehave("reads_slowly", None, when=is_answer, tokens=1200)
    # Longer than what is read in that time.
    options = {"answer_timeout": 6}
    assert callable(function)
    with warnings(module_db) as first:
        function(module_db, QUESTION, corpus, options=options)
    with warnings(module_db) as second:
        answer = function(module_db, f"And {QUESTION}", corpus, options=options)
    assert ["no answer within answer_timeout" in message for message in first] == [True], first
    assert ["tokens a second: its context has" in message for message in second] == [True], second
    assert (answer[0] if function is ask else "".join(answer)) == ANSWER
    sizes = [len(str(request.messages)) for request in endpoint.requests if is_answer(request)]
    assert sizes[1] < 0.7 * sizes[0]
    # So many tokens leave nothing of a deadline that is far.
    with warnings(module_db) as third:
        function(module_db, f"Well, {QUESTION}", corpus, options={"answer_timeout": 600})
    assert third == []
    whole = [len(str(request.messages)) for request in endpoint.requests if is_answer(request)][-1]
    assert whole > 0.9 * sizes[0]
