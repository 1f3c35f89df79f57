"""Spans of requests, through search and context to the models: what they have, and what they must not have."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import tracing

from tests.runtime.cluster import PROJECT, Database
from tests.serve.serving import OWNER, TOKEN, Serving, mcp_client
from tests.serve.test_mcp import call
from tests.sql.asking import ANSWER

QUESTION = "What did Ada Lovelace write on the Analytical Engine?"
PARENT = "0af7651916cd43dd8448eb211c80319c"


class Spans:
    """The spans that have ended."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter

    def all(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[Any]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> Any:
        """The span of a name; that of a request ends behind its reply."""
        deadline = time.monotonic() + 10
        while not (named := self.named(name)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(named) == 1, [
            (span.kind, span.instrumentation_scope, span.parent, dict(span.attributes)) for span in named
        ]
        return named[0]

    def children(self, span: Any) -> list[Any]:
        return [
            child for child in self.all() if child.parent is not None and child.parent.span_id == span.context.span_id
        ]

    def text(self) -> str:
        """Everything that is exported."""
        return "\n".join(span.to_json() for span in self.all())


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """A provider that keeps its spans, for this test alone."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield Spans(exporter)
    provider.shutdown()


def test_a_search_has_its_request_above_and_its_steps_below(server: Serving, corpus: str, spans: Spans) -> None:
    with server.client(headers={"traceparent": f"00-{PARENT}-b7ad6b7169203331-01"}) as client:
        reply = client.post("/api/search", json={"query": QUESTION, "mode": "bm25", "top_k": 2})
    assert all("profile_time" not in row["explain"] for row in reply.json()["results"])
    request = spans.one("POST /api/search")
    assert (request.attributes["http.response.status_code"], request.attributes["user.id"]) == (200, OWNER.name)
    assert f"{request.context.trace_id:032x}" == PARENT
    (retrieval,) = spans.children(request)
    assert retrieval.name == "retrieval"
    assert retrieval.attributes["gen_ai.data_source.id"] == corpus
    assert (retrieval.attributes["pg_graphrag.mode"], retrieval.attributes["pg_graphrag.results"]) == ("bm25", 2)
    steps = spans.children(retrieval)
    assert "bm25" in {span.name for span in steps}
    assert retrieval.start_time <= min(span.start_time for span in steps)
    assert max(span.end_time for span in steps) <= retrieval.end_time


@pytest.mark.parametrize("path", ["/api/ask", "/v1/chat/completions"])
def test_an_answer_has_each_request_to_a_model_with_tokens_and_cost(
    server: Serving, corpus: str, module_db: Database, spans: Spans, path: str
) -> None:
    module_db.execute("DELETE FROM graphrag.llm_cache")
    question = f"{QUESTION} By {path}?"
    body: dict[str, Any] = {"question": question}
    if path.startswith("/v1"):
        body = {"model": corpus, "messages": [{"role": "user", "content": question}]}
    with server.client() as client:
        assert ANSWER.split(" [")[0] in client.post(path, json=body).text
    request = spans.one(f"POST {path}")
    assert [span.name for span in spans.all() if span.parent is None] == [request.name]
    chats = spans.named("chat model-1")
    assert [span.attributes["pg_graphrag.purpose"] for span in chats] == ["keywords", "answer"]
    for span in chats:
        assert span.attributes["gen_ai.operation.name"] == "chat"
        assert span.attributes["gen_ai.request.model"] == "model-1"
        assert span.attributes["gen_ai.usage.input_tokens"] > 0
        assert span.attributes["gen_ai.usage.output_tokens"] > 0
        assert span.attributes["gen_ai.usage.cost"] > 0
        assert span.end_time > span.start_time
        assert span.context.trace_id == request.context.trace_id
        assert request.start_time <= span.start_time < span.end_time <= request.end_time
    assert {span.name for span in spans.all()} >= {"invoke_workflow ask"}


def test_an_agents_call_is_one_trace(server: Serving, spans: Spans) -> None:
    async def main() -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http, mcp_client(server.url, http) as client:
            await call(client, "context", query=QUESTION)

    asyncio.run(main())
    # The client of the SDK has one of this name, too.
    tool = next(span for span in spans.named("tools/call context") if spans.children(span))
    retrieval = spans.one("retrieval")
    assert retrieval.context.trace_id == tool.context.trace_id


def test_no_text_is_in_spans_unless_it_is_asked_for(
    server: Serving, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use() -> None:
        with server.client() as client:
            client.post("/api/search", json={"query": QUESTION})
            client.post("/api/search", json={"query": QUESTION, "mode": "Lovelace"})
            client.get("/api/graph/entities", params={"query": "Ada Lovelace"})
            client.get("/api/graph/path", params={"source": "Ada Lovelace", "target": "Lovelace of no corpus"})
            client.post("/api/ask", json={"question": QUESTION})

    use()
    assert len(spans.all()) > 10
    # The corpus' name is none of its texts.
    for text in ("Lovelace", "Analytical", "enigma", "babbage"):
        assert text.lower() not in spans.text().lower().replace("http://", "")
    monkeypatch.setenv(tracing.CONTENT_VARIABLE, "true")
    use()
    asked = [span for span in spans.named("retrieval") if "gen_ai.retrieval.query.text" in span.attributes]
    assert asked[0].attributes["gen_ai.retrieval.query.text"] == QUESTION
    assert '"id": ' in asked[0].attributes["gen_ai.retrieval.documents"]
    answered = [span for span in spans.named("invoke_workflow ask") if "gen_ai.output.messages" in span.attributes]
    assert "Ada Lovelace wrote" in answered[-1].attributes["gen_ai.output.messages"]


def test_a_request_of_which_a_reader_is_not_told_when_is_a_span_without_length(spans: Spans) -> None:
    request = {"purpose": "keywords", "provider": "p", "model": "model-1", "tokens_in": 1, "tokens_out": 1, "cost": 0.0}
    request |= {"started": None, "milliseconds": None}
    with tracing.call("context", "notes", "hybrid", QUESTION, {}) as traced:
        traced.returns({"references": [], "profile_time": {"total": 1.0}, "requests": [request]})
    span = spans.one("chat model-1")
    assert spans.one("retrieval").start_time == span.start_time == span.end_time


def test_an_error_says_its_code_and_no_word(server: Serving, spans: Spans) -> None:
    with server.client() as client:
        client.post("/api/search", json={"query": QUESTION, "mode": "best"})
    retrieval = spans.one("retrieval")
    assert (retrieval.status.is_ok, retrieval.attributes["error.type"]) == (False, "22023")
    assert retrieval.events == ()
    assert "best" not in spans.text()


def test_the_client_makes_spans_and_leaves_a_callers_own_profile(
    module_db: Database, corpus: str, spans: Spans
) -> None:
    with GraphRAG(module_db.url, corpus) as rag:
        assert "profile_time" not in rag.context(QUESTION)
        assert "profile_time" not in rag.ask(QUESTION).context
        assert [span.name for span in spans.all() if span.parent is None] == ["retrieval", "invoke_workflow ask"]
        assert "profile_time" in rag.search(QUESTION, profile_time=True)[0].explain
        assert list(rag.ask_stream(QUESTION))
    assert [span.name for span in spans.all() if span.parent is None][2:] == ["invoke_workflow ask"]


def test_without_a_provider_nothing_is_asked_for_or_imported(module_db: Database, corpus: str) -> None:
    script = (
        "import sys; from pg_graphrag import GraphRAG\n"
        "with GraphRAG(sys.argv[1], sys.argv[2]) as rag:\n"
        "    assert 'profile_time' not in rag.search('Who broke Enigma?')[0].explain\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script, module_db.url, corpus], check=True, env={"PYTHONPATH": str(PROJECT / "python")}
    )
