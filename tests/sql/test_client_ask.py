"""The client's and the command's understand, ask and ask_stream."""

import asyncio
import json

import psycopg
import pytest
from pg_graphrag import AsyncGraphRAG, GraphRAG
from pg_graphrag.beside.cli import main

from tests.endpoint import Endpoint
from tests.runtime import beside
from tests.runtime.cluster import Database
from tests.sql.asking import ANSWER, KEYWORDS, calls, lines, stories
from tests.sql.ingest import rows, wait_for

REPLY = lines
QUESTION = "What did Ada Lovelace write on the Analytical Engine?"
HISTORY = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello."}]


@pytest.fixture
def corpus(module_db: Database, endpoint: Endpoint) -> str:
    return stories(module_db, endpoint, corpus={"query_log": True})


def test_the_client_asks(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    with GraphRAG(module_db.url, corpus) as rag:
        assert rag.understand(QUESTION) == {**KEYWORDS, "by": "model"}
        answer = rag.ask(QUESTION, history=HISTORY, response_type="one line", filter={}, chunk_top_k=2, max_tokens=2000)
        assert answer.answer == ANSWER
        assert [citation.number for citation in answer.citations] == [1]
        assert answer.usage["invalid_citations"] == 0
        assert len(answer.context["chunks"]) == 2
        assert endpoint.requests[-1].messages[1:3] == HISTORY
        pieces = list(rag.ask_stream(QUESTION))
        assert len(pieces) > 3
        assert "".join(pieces) == ANSWER
        assert rag.ask(QUESTION).usage["calls"] == 0


def test_the_client_awaits(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    async def talk() -> None:
        async with AsyncGraphRAG(module_db.url, corpus) as rag:
            assert (await rag.understand(QUESTION))["by"] == "model"
            pieces = [piece async for piece in rag.ask_stream(QUESTION)]
            assert len(pieces) > 3
            assert "".join(pieces) == ANSWER
            answer = await rag.ask(QUESTION)
            assert (answer.answer, answer.usage["calls"]) == (ANSWER, 0)

    asyncio.run(talk())


def test_pieces_come_while_the_model_speaks_and_leaving_ends_it(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    endpoint.misbehave("hanging_stream", when=lambda request: "<documents-" in str(request.messages))
    with GraphRAG(module_db.url, corpus) as rag:
        pieces = rag.ask_stream(QUESTION)
        assert next(pieces) == "Ada"
        assert endpoint.in_flight == 1
        pieces.close()
        wait_for(lambda: endpoint.in_flight == 0, "the end of the request")
        assert rag.ask(QUESTION).answer == ANSWER


def test_a_connection_of_the_callers_stays_in_its_transaction(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    with psycopg.connect(module_db.url) as connection:
        assert "".join(GraphRAG(connection, corpus).ask_stream(QUESTION)) == ANSWER
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        connection.rollback()
    assert calls(module_db, corpus) == []


def test_searches_are_logged_where_client_and_corpus_want_it(module_db: Database, corpus: str) -> None:
    sql = (
        "SELECT kind, mode, question, chunks, entities IS NULL FROM graphrag.query_log q"
        " JOIN graphrag.corpora c ON c.id = q.corpus_id AND c.name = %s ORDER BY q.id"
    )
    with GraphRAG(module_db.url, corpus) as silent:
        silent.search("Ada", mode="bm25")
    assert rows(module_db, sql, corpus) == []
    with GraphRAG(module_db.url, corpus, log_queries=True) as rag:
        results = len(rag.search("Ada", mode="bm25"))
        chunks = len(rag.context("Ada", mode="local")["chunks"])
    assert rows(module_db, sql, corpus) == [
        ("search", "bm25", "Ada", results, True),
        ("context", "local", "Ada", chunks, False),
    ]

    async def search() -> None:
        async with AsyncGraphRAG(module_db.url, corpus, log_queries=True) as rag:
            await rag.search("Turing", mode="bm25", top_k=1)

    asyncio.run(search())
    assert rows(module_db, sql, corpus)[2:] == [("search", "bm25", "Turing", 1, True)]
    assert main(["search", "--url", module_db.url, "--corpus", corpus, "--mode", "bm25", "Enigma"]) == 0
    assert rows(module_db, sql, corpus)[3][:3] == ("search", "bm25", "Enigma")


def test_the_command_prints_answer_and_citations_at_one_answers_cost(
    module_db: Database, corpus: str, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", "--url", module_db.url, "--corpus", corpus, QUESTION]) == 0
    assert capsys.readouterr().out == f"{ANSWER}\n\n[1] [ada]\n"
    assert endpoint.count() == 2
    assert main(["ask", "--url", module_db.url, "--corpus", corpus, "--json", QUESTION]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["answer"], printed["usage"]["calls"], printed["citations"][0]["source_key"]) == (ANSWER, 0, "ada")
    history = json.dumps(HISTORY)
    arguments = [
        "--mode",
        "bm25",
        "--history",
        history,
        "--response-type",
        "a haiku",
        "--options",
        '{"chunk_top_k": 1}',
    ]
    assert main(["ask", "--url", module_db.url, "--corpus", corpus, *arguments, QUESTION]) == 0
    assert endpoint.requests[-1].messages[1:3] == HISTORY
    assert endpoint.requests[-1].messages[-1]["content"].endswith("a haiku")
    assert capsys.readouterr().err == ""
    endpoint.forget()
    whole = f"{ANSWER} {ANSWER.replace('wrote', 'read')}"
    endpoint.reply(whole)
    endpoint.misbehave("cut_off")
    assert main(["ask", "--url", module_db.url, "--corpus", corpus, "--mode", "bm25", "Is Ada cut off?"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("warning: the model's answer was cut off") == 1
    printed = captured.out.partition("\n")[0]
    assert "[1]" in printed and whole.startswith(printed) and printed != whole
    assert endpoint.count() == 1
    endpoint.reply(lines)
    if beside.IS_BESIDE:
        return  # where the command does not stream
    endpoint.misbehave("broken_stream")
    assert main(["ask", "--url", module_db.url, "--corpus", corpus, "--mode", "bm25", "Does Ada break off?"]) == 1
    assert "pg-graphrag: graphrag: the connection to provider" in capsys.readouterr().err


def test_the_command_says_what_is_wrong(
    module_db: Database, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", "--url", module_db.url, "--corpus", "nowhere", QUESTION]) == 1
    assert 'corpus "nowhere" does not exist' in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["ask", "--history", "{}", QUESTION])
