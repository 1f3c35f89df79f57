"""graphrag.estimate_ask: what an answer costs is known before it is asked for, exactly or as a bound."""

import asyncio
import itertools
import json
import re
from typing import Any

import psycopg
import pytest
from pg_graphrag import AsyncGraphRAG, GraphRAG
from pg_graphrag.beside.cli import main
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import KEYWORDS, as_reader, ask
from tests.sql.ingest import index_all, rows, searched_corpus, value
from tests.sql.themes import SEA, points, task

_numbers = itertools.count(1)
_words = ("".join(letters) for letters in itertools.cycle(itertools.permutations("turing enigma", 6)))


def lengthy(beginning: str, size: int) -> str:
    """Text of so many characters that does not repeat itself: a model that does is stopped."""
    text = beginning
    while len(text) < size:
        text += f" {next(_words)}"
    return text[:size]


def reply(messages: Messages) -> str:
    """Whoever is asked, as much as may be: five parts, follow-ups without end, everything relevant."""
    what = task(messages)
    follow_ups = [{"question": lengthy(f"What of Enigma {next(_numbers)}?", 380), "score": 50} for _ in range(9)]
    replies: dict[str, Any] = {
        "keywords": KEYWORDS,
        "hyde": "A passage.",
        "decompose": {"queries": ["Who?", "What?", "Where?", "When?"]},
        "grades": {"grades": [{"number": 1, "grade": "incorrect"}]},
        "rewrite": {"query": "Who else?"},
        "refine": {
            "queries": [lengthy(f"What of Enigma {n}?", 200) for n in range(7)],
            "expanded": lengthy("What of it?", 1000),
        },
        "relevant": {"relevant": True},
        "relevant_passages": {"relevant": list(range(1, 51)), "irrelevant": []},
        "rate": {"rating": 5},
        "map": json.loads(points((lengthy(f"Enigma {next(_numbers)} [1].", 600), 90))),
        "expand": "A report.",
        "primer": {"answer": lengthy("It was broken [1].", 1100), "score": 50, "follow_ups": follow_ups},
        "follow_up": {"answer": lengthy("It was broken [1].", 1100), "score": 50, "follow_ups": follow_ups},
    }
    result = replies.get(what, "It was broken [1].")
    return result if isinstance(result, str) else json.dumps(result)


REPLY = reply
COLUMNS = "calls, tokens_in, tokens_out, cost, basis"


def estimated(db: Database, question: str, corpus: str, mode: str, **options: Any) -> tuple[int, int, int, float, Any]:
    sql = f"SELECT {COLUMNS} FROM graphrag.estimate_ask(%s, %s, %s, options => %s)"
    (records,) = rows(db, sql, question, corpus, mode, Jsonb(options))
    return records


def question() -> str:
    return f"What became of the Enigma machine in the year {next(_numbers)}?"


def paid(db: Database, asked: str, corpus: str, mode: str, **options: Any) -> tuple[int, int]:
    usage = ask(db, asked, corpus, mode=mode, options=options)[2]
    return usage["calls"], usage["tokens_in"]


@pytest.mark.parametrize("mode", ["naive", "bm25", "hybrid", "path", "graph_local"])
def test_it_is_exact_where_no_model_decides_what_is_asked(
    module_db: Database, themed: str, module_endpoint: Endpoint, mode: str
) -> None:
    asked = question()
    module_endpoint.forget()
    calls, tokens_in, tokens_out, cost, basis = estimated(module_db, asked, themed, mode)
    assert module_endpoint.requests == []
    assert (calls, tokens_in) == paid(module_db, asked, themed, mode)
    assert calls == 1 and tokens_out > 0 and cost > 0
    assert basis["calls"] == "exact" and basis["parts"] == {
        "answer": {"calls": 1, "tokens_in": tokens_in, "exact": True}
    }


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("graph_global", {}),
        ("graph_global", {"level": 0}),
        ("graph_global", {"dynamic": True}),
        ("drift", {}),
        ("drift", {"primer_folds": 2, "drift_k_followups": 3, "n_depth": 2}),
        ("drift", {"drift_k_followups": 0}),
        ("lazy", {}),
        ("lazy", {"relevance_test_budget": 3}),
        ("hybrid", {"transform": "hyde"}),
        ("naive", {"transform": "decompose"}),
        ("bm25", {"transform": "corrective"}),
        ("graph_local", {}),
    ],
)
def test_otherwise_it_is_never_below_what_is_paid(
    module_db: Database, keyed: str, module_endpoint: Endpoint, mode: str, options: dict[str, Any]
) -> None:
    asked = question()
    module_endpoint.forget()
    calls, tokens_in, _, _, basis = estimated(module_db, asked, keyed, mode, **options)
    assert module_endpoint.requests == [] and basis["calls"] == "at most"
    used, tokens_used = paid(module_db, asked, keyed, mode, **options)
    assert used <= calls and tokens_used <= tokens_in
    assert used == len(module_endpoint.requests)
    if mode in ("graph_global", "drift") and "dynamic" not in options:
        # Nothing was cached, nothing failed, and every round was full.
        assert used == calls
    if mode == "graph_global" and not options.get("dynamic"):
        assert basis["parts"]["map"]["exact"]


@pytest.fixture(scope="module")
def keyed(module_db: Database, themed: str) -> str:
    """The same corpus, with a model for keywords besides; what no model decides is tested before."""
    llm = value(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", themed)
    llm["roles"]["keywords"] = llm["roles"]["answer"]
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [themed, Jsonb({"llm": llm})])
    return themed


@pytest.mark.slow
def test_vectors_from_an_endpoint_are_counted_too(module_db: Database, keyed: str, module_endpoint: Endpoint) -> None:
    llm = value(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", keyed)
    vectors = {"provider": llm["roles"]["answer"]["provider"], "model": "hash", "dimensions": 8}
    corpus = index_all(module_db, searched_corpus(module_db, llm=llm, embedding=vectors, communities=True), SEA)
    for mode in ("mix", "graph_global", "drift", "lazy"):
        asked = question()
        calls, tokens_in, _, _, basis = estimated(module_db, asked, corpus, mode)
        used, tokens_used = paid(module_db, asked, corpus, mode)
        assert used <= calls and tokens_used <= tokens_in and basis["parts"]["embedding"]["calls"] > 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy", "hybrid"])
def test_a_conversation_and_long_questions_are_counted(module_db: Database, keyed: str, mode: str) -> None:
    asked = question() + " And what else became of it, and of all who worked with it?" * 30
    history = [{"role": "user", "content": "Was it a machine? " * 100}, {"role": "assistant", "content": "It was."}]
    sql = f"SELECT {COLUMNS} FROM graphrag.estimate_ask(%s, %s, %s, history => %s, response_type => 'one sentence')"
    ((calls, tokens_in, *_),) = rows(module_db, sql, asked, keyed, mode, Jsonb(history))
    usage = ask(module_db, asked, keyed, mode=mode, history=history, response_type="one sentence")[2]
    assert usage["calls"] <= calls and usage["tokens_in"] <= tokens_in


def test_client_and_command_say_it_before_and_answer_after(
    module_db: Database, themed: str, module_endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = question()
    module_endpoint.forget()
    with GraphRAG(module_db.url, themed) as rag:
        estimate = rag.estimate_ask(asked, mode="drift", response_type="one line", n_depth=1)
    assert estimate["calls"] > 5 and estimate["basis"]["parts"]["follow_up"]["calls"] == 5

    async def awaited() -> dict[str, Any]:
        async with AsyncGraphRAG(module_db.url, themed) as rag:
            return await rag.estimate_ask(asked, mode="drift", response_type="one line", n_depth=1)

    assert asyncio.run(awaited()) == estimate
    arguments = ["ask", "--url", module_db.url, "--corpus", themed, "--mode", "drift", asked]
    assert main([*arguments, "--estimate"]) == 0
    assert re.fullmatch(r"at most [\d,]+ calls, [\d,]+ tokens .*; cost [\d.]+\n", capsys.readouterr().out)
    assert module_endpoint.requests == []
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("It was broken [1].\n\n[1] ")


def test_it_fails_as_ask_does_and_is_the_owners(module_db: Database, themed: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        estimated(module_db, "Who?", themed, "drift", n_depth=9)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="the question is empty"):
        estimated(module_db, " ", themed, "naive")
    with as_reader(module_db), pytest.raises(psycopg.errors.InsufficientPrivilege):
        estimated(module_db, "Who?", themed, "naive")
    # Nothing there, nothing to ask about.
    bare = searched_corpus(
        module_db, llm=value(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", themed)
    )
    assert estimated(module_db, "Who?", bare, "naive")[:2] == (0, 0)
