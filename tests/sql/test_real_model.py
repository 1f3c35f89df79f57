"""What must hold whatever a model says, with a real one that loops, invents and mistakes the form: SmolLM2-135M.

Its words differ from machine to machine. Exact cases are those of the scripted endpoint.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from openai import OpenAI
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.runtime.real_model import RealModel, is_supported, repeats, stands
from tests.serve.serving import TOKEN, serving
from tests.sql.asking import ask, stream, understand, warnings
from tests.sql.extracting import hurry
from tests.sql.ingest import ROCKETS, Background, Connection, new_corpus, put, rows, statuses, work, worker

pytestmark = pytest.mark.skipif(not is_supported(), reason="no wheel of llama.cpp for this machine")

QUESTION = "Who designed the Kestrel engine?"
# Tokens that a reply has at most, in the corpora of `modelled`.
LIMIT = 80
# Where it does not matter what they say.
SHORT = {"max_output_tokens": 40}
# Seconds until the first token of an answer there; the double is all that an `ask` may take.
PATIENCE = 20
NOT_ANSWERED = "The documents do not answer this question."


@pytest.fixture(scope="module")
def model() -> Iterator[RealModel]:
    with RealModel(slots=2) as server:
        yield server


@pytest.fixture(scope="module")
def provider(module_db: Database, model: RealModel) -> str:
    return provided(module_db, model)


@pytest.fixture(scope="module")
def extracted(module_db: Database, provider: str) -> str:
    """The documents, whose graph two workers had the model make."""
    corpus = modelled(module_db, provider, extractor="llm")
    put_documents(module_db, corpus)
    sessions = [worker(module_db.url) for _ in range(2)]
    for session in sessions:
        # On a busy machine.
        session.join(300)
    assert [session.finish() for session in sessions] == [None, None]
    finish(module_db, corpus)
    return corpus


@pytest.fixture(scope="module")
def asked(module_db: Database, provider: str) -> str:
    """The documents, with communities, whose graph and reports were made without the model; it answers."""
    corpus = modelled(module_db, provider, communities=True)
    put_documents(module_db, corpus)
    finish(module_db, corpus)
    return corpus


def provided(db: Connection, model: RealModel, **options: Any) -> str:
    """Set the model's server as a provider; return its name."""
    name = model.url.rpartition(":")[2]
    db.execute("SELECT graphrag.set_provider(%s, 'openai', %s, options => %s)", [name, model.url, Jsonb(options)])
    return name


def modelled(db: Connection, provider: str, llm: dict[str, Any] | None = None, **options: Any) -> str:
    """Make a corpus that has the model for all roles, with short replies."""
    models = {"provider": provider, "model": "smollm2", "max_output_tokens": LIMIT, **(llm or {})}
    return new_corpus(db, **{"llm": models, "answer_timeout": PATIENCE, **options})


def put_documents(db: Connection, corpus: str) -> None:
    for key, (title, content) in ROCKETS.items():
        put(db, corpus, key, content, title)


def finish(db: Connection, corpus: str, seconds: float = 120) -> None:
    """Work until nothing is left to do, as if back-offs had passed."""
    end = time.monotonic() + seconds
    work(db)
    while left(db, corpus):
        assert time.monotonic() < end, f"work that does not end: {left(db, corpus)}"
        time.sleep(0.1)
        db.execute("SELECT graphrag.retry_failed()")
        hurry(db, corpus)


def left(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    return rows(
        db,
        "SELECT j.kind, j.state, j.last_error FROM graphrag.jobs j JOIN graphrag.corpora c ON c.id = j.corpus_id"
        " WHERE c.name = %s AND j.kind NOT IN ('optimize', 'upkeep')",
        corpus,
    )


def calls(db: Connection, corpus: str) -> list[tuple[str, int, int, float, str | None]]:
    """(purpose, tokens in, tokens out, seconds, error) of the requests written down."""
    return rows(
        db,
        "SELECT l.purpose, l.tokens_in, l.tokens_out, l.seconds, l.error FROM graphrag.llm_calls l"
        "  JOIN graphrag.corpora c ON c.id = l.corpus_id WHERE c.name = %s ORDER BY l.id",
        corpus,
    )


def check_graph(db: Connection, corpus: str) -> None:
    """Every document is indexed and has a graph, all names of which stand in its text."""
    assert set(statuses(db, corpus).values()) == {"indexed"}
    mentions = rows(
        db,
        "SELECT d.source_key, m.name, concat_ws(' ', d.title, c.content) FROM graphrag.entity_mentions m"
        "  JOIN graphrag.chunks c ON c.id = m.chunk_id JOIN graphrag.documents d ON d.id = c.document_id"
        " WHERE d.corpus = %s",
        corpus,
    )
    assert {key for key, _, _ in mentions} == set(statuses(db, corpus))
    assert [name for _, name, text in mentions if not stands(name, text)] == []
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def check_answer(db: Connection, corpus: str, answer: str, citations: list[dict[str, Any]]) -> None:
    """An answer, the model's or extracts, is grounded in documents and does not repeat itself."""
    assert answer.strip()
    assert not repeats(answer), answer
    if answer != NOT_ANSWERED:
        assert citations, answer
    assert {citation["number"] for citation in citations} == set(map(int, re.findall(r"\[(\d+)\]", answer)))
    assert {citation["source_key"] for citation in citations} <= set(statuses(db, corpus))


@contextmanager
def bounded(db: Connection, seconds: float = 2 * PATIENCE) -> Iterator[None]:
    """An `ask` that ends in its time, with WARNINGs that show at most a line of what a model said."""
    start = time.monotonic()
    with warnings(db) as warned:
        yield
    # The rest is for what is no waiting: retrieval, writing, and a busy machine.
    assert time.monotonic() - start < seconds + 10
    assert [text for text in warned if text.count("\n") or len(text) > 500] == []


@contextmanager
def stopped(model: RealModel) -> Iterator[None]:
    """A request that is ended meanwhile by who asked: its slot is free a second later, on a busy machine twenty."""
    before = model.cancelled()
    yield
    model.until(lambda: model.busy() == 0, "the slots to be free", seconds=20)
    assert model.cancelled() > before


# Extraction.


@pytest.mark.slow
def test_every_document_has_a_grounded_graph(module_db: Database, extracted: str) -> None:
    check_graph(module_db, extracted)


@pytest.mark.slow
def test_extraction_makes_few_calls_of_bounded_length(module_db: Database, extracted: str) -> None:
    made = [call for call in calls(module_db, extracted) if call[0] == "extract"]
    # A chunk each: asked, gleaned, and tried again, each a few times at most.
    assert 3 <= len(made) <= 24
    assert max(tokens_out for _, _, tokens_out, _, _ in made) <= LIMIT
    assert max(seconds for _, _, _, seconds, _ in made) < 120


@pytest.mark.slow
def test_a_schema_holds_whatever_the_model_says(module_db: Database, provider: str) -> None:
    schema = {"entities": {"person": {}, "machine": {"attributes": {"year": "integer"}}}}
    corpus = modelled(module_db, provider, extractor="llm", max_gleaning=0, entity_types=schema)
    put(module_db, corpus, "kes", ROCKETS["kes"][1], "Kestrel")
    finish(module_db, corpus)
    assert statuses(module_db, corpus) == {"kes": "indexed"}
    made = (
        "SELECT m.type FROM graphrag.graph_mentions m WHERE m.corpus = %s AND m.type IS NOT NULL"
        " AND m.type NOT IN ('person', 'machine', 'concept')"
    )
    assert rows(module_db, made, corpus) == []
    assert max(call[2] for call in calls(module_db, corpus)) <= LIMIT


@pytest.mark.slow
def test_a_restart_of_the_models_server_loses_no_document(module_db: Database, provider: str, model: RealModel) -> None:
    corpus = modelled(module_db, provider, SHORT, extractor="llm", max_gleaning=0)
    put(module_db, corpus, "bob", ROCKETS["bob"][1], "Bob Stone")
    session = worker(module_db.url)
    model.until(lambda: model.busy() > 0, "the worker to ask")
    model.stop()
    try:
        assert session.finish() is None
    finally:
        model.start()
    finish(module_db, corpus)
    check_graph(module_db, corpus)


def test_a_model_that_still_loads_is_waited_for_and_what_it_writes_is_counted(module_db: Database) -> None:
    server = RealModel(context=1024)
    corpus = modelled(module_db, provided(module_db, server), SHORT, extractor="llm", max_gleaning=0)
    put(module_db, corpus, "kes", ROCKETS["kes"][1], "Kestrel")
    server.start(wait=False)
    try:
        finish(module_db, corpus)
        written = server.counts()[2]
    finally:
        server.stop()
    check_graph(module_db, corpus)
    counted = sum(call[2] for call in calls(module_db, corpus))
    # Of what was stopped early, some tokens were on their way.
    assert 0.8 * written <= counted <= 1.05 * written


@pytest.mark.slow
def test_a_context_that_is_too_small_leaves_no_document_without_a_graph(module_db: Database) -> None:
    with RealModel(context=256) as server:
        name = provided(module_db, server)
        corpus = modelled(module_db, name, extractor="llm", max_gleaning=0)
        put_documents(module_db, corpus)
        finish(module_db, corpus)
        check_graph(module_db, corpus)
        with bounded(module_db):
            try:
                answer, citations, _, _ = ask(module_db, QUESTION, corpus)
            except psycopg.Error as error:
                # The prompt is longer than all that the model reads.
                assert error.diag.sqlstate == "22000"
                assert error.diag.message_hint
            else:
                check_answer(module_db, corpus, answer, citations)


# Questions.


@pytest.mark.slow
def test_keywords_are_read_or_noun_phrases_serve(module_db: Database, asked: str) -> None:
    with bounded(module_db, 10):
        understood = understand(module_db, QUESTION, asked)
    assert understood["low_level_keywords"] or understood["high_level_keywords"]


# Streams and conversations ask in hybrid, sessions at once and OpenAI's clients in bm25.
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy"])
def test_every_mode_answers_or_extracts_in_its_time(module_db: Database, asked: str, mode: str) -> None:
    with bounded(module_db):
        answer, citations, usage, _ = ask(module_db, QUESTION, asked, mode=mode)
    check_answer(module_db, asked, answer, citations)
    assert max(call[2] for call in calls(module_db, asked)) <= LIMIT
    assert usage["calls"] >= 1


@pytest.mark.slow
def test_reports_are_bounded_and_there_is_one_whatever_the_model_says(module_db: Database, provider: str) -> None:
    # The model writes none that is whole, in 80 tokens neither: each takes it 20 ms.
    reports = {"roles": {"report": {"provider": provider, "model": "smollm2", **SHORT}}}
    corpus = modelled(module_db, provider, reports, communities=True)
    put(module_db, corpus, "kes", ROCKETS["kes"][1], "Kestrel")
    finish(module_db, corpus)
    written = [call for call in calls(module_db, corpus) if call[0] == "report"]
    assert written
    assert max(call[2] for call in written) <= SHORT["max_output_tokens"]
    titles = rows(module_db, "SELECT title FROM graphrag.community_overview WHERE corpus = %s", corpus)
    assert titles and all(title for (title,) in titles)


@pytest.mark.slow
def test_a_conversation_is_answered(module_db: Database, asked: str) -> None:
    history = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Bob Stone designed it."}]
    with bounded(module_db):
        answer, citations, _, _ = ask(module_db, "Where does he work?", asked, history=history)
    check_answer(module_db, asked, answer, citations)


@pytest.mark.slow
def test_a_stream_ends_in_its_time(module_db: Database, asked: str) -> None:
    with bounded(module_db):
        pieces = stream(module_db, "What does the Kestrel engine burn?", asked)
        answer, citations, usage, _ = ask(module_db, "What does the Kestrel engine burn?", asked)
    assert "".join(pieces).strip()
    check_answer(module_db, asked, answer, citations)
    assert max(call[2] for call in calls(module_db, asked)) <= LIMIT
    assert usage["calls"] >= 1


@pytest.mark.slow
def test_a_question_has_its_deadline_when_the_model_is_slow(module_db: Database, model: RealModel) -> None:
    name = provided(module_db, model)
    corpus = modelled(module_db, name, {"timeout": 1}, answer_timeout=2)
    put_documents(module_db, corpus)
    finish(module_db, corpus)
    with stopped(model), bounded(module_db, 4):
        try:
            answer, citations, _, _ = ask(module_db, QUESTION, corpus)
        except psycopg.Error as error:
            assert error.diag.sqlstate in ("08006", "57014")
            assert error.diag.message_hint
        else:
            check_answer(module_db, corpus, answer, citations)


# Sessions.


@pytest.mark.slow
@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_cancelled_question_frees_the_slot(module_db: Database, asked: str, model: RealModel, how: str) -> None:
    question = f"Write down all that you know of Acme Rockets, with every year ({how})."
    sql = psycopg.sql.SQL("SELECT graphrag.ask({}, {}, 'bm25')").format(question, asked).as_string(None)
    session = Background(module_db.url, sql)
    model.until(lambda: model.busy() > 0, "the model to be asked")
    with stopped(model):
        module_db.execute(f"SELECT {how}(%s)".encode(), [session.pid])
    assert session.finish() is not None


@pytest.mark.slow
def test_a_slot_is_free_while_the_prompt_is_read_without_settings_of_the_server(module_db: Database) -> None:
    """Whoever has learned that it is llama.cpp's asks for its progress, which tells it that nobody waits."""
    with RealModel(context=8192, ping=3600) as server:
        corpus = modelled(module_db, provided(module_db, server))
        put(module_db, corpus, "long", "The Kestrel engine burns methane. " * 600, "Kestrel")
        finish(module_db, corpus)
        asked = f"SELECT graphrag.understand('?', '{corpus}'); SELECT graphrag.ask('{QUESTION}', '{corpus}', 'bm25')"
        session = Background(module_db.url, asked)
        server.until(lambda: server.counts()[0] == 2 and server.busy() > 0, "the question to be asked")
        with stopped(server):
            module_db.execute("SELECT pg_cancel_backend(%s)", [session.pid])
        # It was not read to its end.
        assert server.counts()[1] < 2000
        assert session.finish() is not None


@pytest.mark.slow
def test_a_closed_stream_frees_the_slot(module_db: Database, asked: str, model: RealModel) -> None:
    with psycopg.connect(module_db.url) as session, session.cursor() as cursor:
        sql = (
            "DECLARE c CURSOR FOR SELECT graphrag.ask_stream('Who is the chief engineer of Acme Rockets?', %s, 'bm25')"
        )
        cursor.execute(psycopg.sql.SQL(sql.replace("%s", "{}")).format(asked))
        cursor.execute("FETCH 1 FROM c")
        with stopped(model):
            cursor.execute("CLOSE c")


@pytest.mark.slow
def test_a_cancelled_worker_frees_the_slots(module_db: Database, provider: str, model: RealModel) -> None:
    corpus = modelled(module_db, provider, extractor="llm")
    put_documents(module_db, corpus)
    session = worker(module_db.url)
    model.until(lambda: model.busy() > 0, "the model to be asked")
    with stopped(model):
        module_db.execute("SELECT pg_cancel_backend(%s)", [session.pid])
    assert session.finish() is not None
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])


@pytest.mark.slow
def test_two_sessions_are_answered_at_once(module_db: Database, asked: str) -> None:
    answers: list[tuple[str, Any]] = []

    def one(question: str) -> None:
        with psycopg.connect(module_db.url, autocommit=True) as session, bounded(session):
            answers.append(ask(session, question, asked, mode="bm25")[:2])

    threads = [
        threading.Thread(target=one, args=[question])
        for question in ("Where was Acme Rockets founded?", "When did the Kestrel engine first fly?")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 2
    for answer, citations in answers:
        check_answer(module_db, asked, answer, citations)


@pytest.mark.slow
def test_openai_s_clients_are_served(module_db: Database, asked: str) -> None:
    with (
        serving(module_db.url, corpus=asked) as server,
        OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0, timeout=2 * PATIENCE + 2) as client,
    ):
        messages: Any = [{"role": "user", "content": "Who founded Acme Rockets?"}]
        completion = client.chat.completions.create(model=f"{asked}:bm25", messages=messages)
        assert completion.choices[0].message.content
        pieces = client.chat.completions.create(model=f"{asked}:bm25", messages=messages, stream=True)
        reasons = [choice.finish_reason for chunk in pieces for choice in chunk.choices]
        assert [reason for reason in reasons if reason] == ["stop"]
