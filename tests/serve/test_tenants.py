"""Two tenants of one server and one set of connections, at once: nothing crosses.

``GRAPHRAG_TENANT_CALLS=10000`` makes as many calls.
"""

import asyncio
import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from pg_graphrag.beside.serve.callers import Caller
from pg_graphrag.beside.serve.settings import RIGHTS, Limits

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.serve.serving import Serving, callers, serving
from tests.sql import asking
from tests.sql.ingest import put, wait_for

CALLS = int(os.environ.get("GRAPHRAG_TENANT_CALLS", "200"))
TENANTS = ("north", "south")
TOKENS = {name: f"token-of-the-tenant-{name}" for name in TENANTS}
MANY = Limits(rate=100_000, burst=100_000, calls=100)


@pytest.fixture(scope="module")
def tenants(module_db: Database) -> Iterator[Serving]:
    """Documents of two tenants in one corpus: one told by its role, both by a claim; and a corpus of each."""
    db = module_db
    for name in TENANTS:
        db.execute(f"CREATE ROLE serve_{name}".encode())
        db.execute(f"GRANT graphrag_reader TO serve_{name}".encode())
    db.execute("CREATE ROLE serve_shared")
    db.execute("GRANT graphrag_reader TO serve_shared")
    for corpus in ("by role", "by claim"):
        db.execute("SELECT graphrag.create_corpus(%s, '{\"communities\": false}')", [corpus])
        for name in TENANTS:
            for number in range(10):
                text = (
                    f"The {name} harbour has crane {number}. Captain {name.title()} Smith sails to the {name} island."
                )
                put(db, corpus, f"{name}/{number}", text, f"{name} {number}", {"tenant": name})
    db.execute("CALL graphrag.process_jobs()")
    db.execute("SELECT graphrag.protect('by role', $$'serve_' || (metadata ->> 'tenant') = current_user::text$$)")
    db.execute("SELECT graphrag.protect('by claim', $$metadata ->> 'tenant' = current_setting('app.tenant', true)$$)")
    who = {TOKENS[name]: Caller(name, f"serve_{name}", (("app.tenant", name),)) for name in TENANTS}
    who |= {
        f"shared-{TOKENS[name]}": Caller(f"shared {name}", "serve_shared", (("app.tenant", name),)) for name in TENANTS
    }
    who["token-without-a-claim"] = Caller("nobody", "serve_shared")
    with serving(db.url, callers(who), corpus="by role", connections=4, limits=MANY) as server:
        yield server
    for role in (*(f"serve_{name}" for name in TENANTS), "serve_shared"):
        db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def requests(corpus: str, ids: list[int]) -> list[tuple[str, str, dict[str, Any]]]:
    """One of each kind of call; `ids` are those of all documents."""
    text = {"query": "harbour crane captain island north south", "corpus": corpus}
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    search = {"name": "search", "arguments": {"query": text["query"], "corpus": corpus, "mode": "bm25"}}
    document = {"name": "read_document", "arguments": {"document_id": random.choice(ids), "corpus": corpus}}
    return [
        ("POST", "/api/search", {"json": text | {"mode": "bm25", "top_k": 20}}),
        ("POST", "/api/search", {"json": text | {"mode": "local", "top_k": 20}}),
        ("POST", "/api/search", {"json": text | {"mode": "hybrid", "top_k": 20}}),
        ("POST", "/api/context", {"json": text | {"max_tokens": 2000}}),
        ("GET", "/api/documents", {"params": {"corpus": corpus}}),
        ("GET", f"/api/documents/{random.choice(ids)}", {"params": {"corpus": corpus}}),
        ("GET", "/api/start", {"params": {"corpus": corpus}}),
        ("GET", "/api/graph", {"params": {"corpus": corpus}}),
        ("GET", "/api/graph/map", {"params": {"corpus": corpus}}),
        ("GET", "/api/graph/names", {"params": {"corpus": corpus, "text": "nrth isl"}}),
        ("GET", "/api/graph/entities", {"params": {"corpus": corpus, "query": "Captain"}}),
        ("GET", "/api/graph/path", {"params": {"corpus": corpus, "source": "north island", "target": "south island"}}),
        ("GET", "/api/status", {"params": {"corpus": corpus}}),
        ("POST", "/mcp", {"json": mcp | {"params": search}, "headers": MCP}),
        ("POST", "/mcp", {"json": mcp | {"params": document}, "headers": MCP}),
    ]


MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


def test_nothing_crosses(tenants: Serving, module_db: Database) -> None:
    ids = [row[0] for row in module_db.execute("SELECT id FROM graphrag.documents").fetchall()]
    answered = dict.fromkeys(TENANTS, 0)

    async def one(client: httpx2.AsyncClient, number: int) -> None:
        name, other = TENANTS if number % 2 else TENANTS[::-1]
        corpus, token = ("by role", TOKENS[name]) if number % 4 < 2 else ("by claim", f"shared-{TOKENS[name]}")
        method, path, options = random.choice(requests(corpus, ids))
        headers = {"authorization": f"Bearer {token}"} | options.pop("headers", {})
        reply = await client.request(method, path, headers=headers, **options)
        assert reply.status_code in (200, 404), reply.text
        # The question names both: what comes back does not repeat it, but for an entity that is not there.
        text = reply.text.lower().replace("'south island'", "").replace("'north island'", "")
        assert other not in text.replace("harbour crane captain island north south", ""), (path, name, reply.text[:500])
        answered[name] += name in text

    async def main() -> None:
        async with httpx2.AsyncClient(base_url=tenants.url, timeout=120) as client:
            waiting = iter(range(CALLS))

            async def work() -> None:
                for number in waiting:
                    await one(client, number)

            await asyncio.gather(*(work() for _ in range(16)))

    asyncio.run(main())
    # They saw their own, in most kinds of call.
    assert min(answered.values()) > CALLS / 6


def test_who_has_no_claim_sees_nothing_after_those_who_have(tenants: Serving) -> None:
    search = {"query": "harbour", "mode": "bm25", "corpus": "by claim"}
    for _ in range(20):
        with tenants.client(f"shared-{TOKENS['north']}") as north, tenants.client("token-without-a-claim") as nobody:
            assert north.post("/api/search", json=search).json()["results"]
            assert nobody.post("/api/search", json=search).json()["results"] == []
            assert nobody.get("/api/documents", params={"corpus": "by claim"}).json()["documents"] == []


def test_corpora_of_others_are_not_named(tenants: Serving, module_db: Database) -> None:
    with tenants.client(f"shared-{TOKENS['north']}") as client:
        assert [row["name"] for row in client.get("/api/corpora").json()] == ["by claim"]
        models = [model["id"] for model in client.get("/v1/models").json()["data"]]
        assert all(model.startswith("by claim") for model in models)


GIVEN = "token-of-who-was-given-one-corpus"


@pytest.fixture(scope="module")
def given(tenants: Serving, module_db: Database) -> Iterator[Serving]:
    """A server for one who was given one corpus, and may insert, curate and ask in Cypher."""
    module_db.execute("CREATE ROLE serve_given; SELECT graphrag.create_corpus('given')")
    module_db.execute("SELECT graphrag.grant_corpus('given', 'serve_given', 'write')")
    put(module_db, "given", "a", "Captain Smith sails.")
    who = callers({GIVEN: Caller("given", "serve_given", rights=RIGHTS)})
    with serving(module_db.url, who, corpus="given", mcp_rights=RIGHTS) as server:
        yield server
    module_db.execute("DROP OWNED BY serve_given; DROP ROLE serve_given")


def test_readers_change_no_document_and_writers_no_index(tenants: Serving, module_db: Database) -> None:
    (number,) = module_db.execute("SELECT min(id) FROM graphrag.documents").fetchone() or (0,)
    calls = {"delete": {"documents": [number]}, "retry": {}, "reindex": {}}
    with tenants.client(TOKENS[TENANTS[0]]) as client:
        assert {client.post(f"/api/documents/{path}", json=body).status_code for path, body in calls.items()} == {403}
        status = client.get("/api/status").json()
    assert (status["may_retry"], status["may_reindex"]) == (False, False)
    writer = {"the-token-of-a-writer": Caller("writer", f"serve_{TENANTS[0]}", rights=frozenset(("insert",)))}
    with (
        serving(module_db.url, callers(writer), corpus="by role") as server,
        server.client("the-token-of-a-writer") as client,
    ):
        replies = {path: client.post(f"/api/documents/{path}", json=body) for path, body in calls.items()}
    assert {path: reply.status_code for path, reply in replies.items()} == {"delete": 403, "retry": 403, "reindex": 403}


def test_who_watches_is_told_how_far_every_corpus_is(tenants: Serving, module_db: Database) -> None:
    module_db.execute("CREATE ROLE serve_watch; GRANT graphrag_member, pg_monitor TO serve_watch")
    with (
        serving(module_db.url, callers({GIVEN: Caller("watch", "serve_watch")})) as server,
        server.client(GIVEN) as client,
    ):
        names = [row["name"] for row in client.get("/api/corpora").json()]
        assert {"by role", "by claim"} <= set(names)
        replies = [client.get("/api/status", params={"corpus": name}) for name in names]
        assert [(reply.status_code, reply.json()["corpus"]) for reply in replies] == [(200, name) for name in names]
        assert client.get("/api/status", params={"corpus": "nowhere"}).status_code == 404
    module_db.execute("DROP OWNED BY serve_watch; DROP ROLE serve_watch")


def every_call(corpus: str) -> list[tuple[str, str, dict[str, Any]]]:
    """One call of each route and tool that takes a corpus."""
    query, in_corpus = {"query": "captain", "corpus": corpus}, {"params": {"corpus": corpus}}
    question, document = {"question": "Who sails?", "corpus": corpus}, {"content": "Text.", "source_key": "k"}
    chat = {"model": corpus, "messages": [{"role": "user", "content": "Who sails?"}]}
    tools: dict[str, dict[str, Any]] = {
        "search": query,
        "context": query,
        "ask": question,
        "neighbors": {"entity": "Smith", "corpus": corpus},
        "read_document": {"document_id": 1, "corpus": corpus},
        "find_entity": {"name": "Smith", "corpus": corpus},
        "path": {"source": "x", "target": "y", "corpus": corpus},
        "list_documents": {"corpus": corpus},
        "status": {"corpus": corpus},
        "insert": document | {"corpus": corpus},
        "curate": {"kind": "create_entity", "arguments": {"name": "x"}, "corpus": corpus},
        "undo_curation": {"curation": 1, "corpus": corpus},
        "cypher": {"query": "MATCH (n) RETURN n", "corpus": corpus},
    }
    mcp = [("tools/call", {"name": name, "arguments": arguments}) for name, arguments in tools.items()]
    mcp += [("resources/read", {"uri": f"graphrag://{corpus}/documents{rest}"}) for rest in ("", "/1")]
    return [
        ("GET", "/api/status", in_corpus),
        ("GET", "/api/status/events", in_corpus),
        ("GET", "/api/documents", in_corpus),
        ("GET", "/api/documents/{document_id}", in_corpus),
        ("POST", "/api/documents/{document_id}/place", {"json": {"text": "a", "corpus": corpus}}),
        ("POST", "/api/documents", {"json": {"documents": [document], "corpus": corpus}}),
        ("DELETE", "/api/documents/{document_id}", in_corpus),
        ("POST", "/api/documents/delete", {"json": {"documents": [1], "corpus": corpus}}),
        ("POST", "/api/documents/retry", {"json": {"corpus": corpus}}),
        ("POST", "/api/documents/reindex", {"json": {"corpus": corpus}}),
        ("POST", "/api/upload", in_corpus | {"files": {"files": ("a.txt", b"Text.")}}),
        ("POST", "/api/search", {"json": query}),
        ("POST", "/api/context", {"json": query}),
        ("POST", "/api/ask", {"json": question}),
        ("POST", "/api/feedback", {"json": question | {"verdict": "good"}}),
        ("GET", "/api/feedback", in_corpus),
        ("GET", "/api/start", in_corpus),
        ("GET", "/api/graph", in_corpus),
        ("GET", "/api/graph/map", in_corpus),
        ("GET", "/api/graph/names", {"params": {"corpus": corpus, "text": "x"}}),
        ("GET", "/api/graph/communities", in_corpus),
        ("GET", "/api/graph/communities/{number}", in_corpus),
        ("GET", "/api/graph/entities", {"params": {"corpus": corpus, "query": "x"}}),
        ("GET", "/api/graph/entities/{entity_id}", in_corpus),
        ("GET", "/api/graph/path", {"params": {"corpus": corpus, "source": "x", "target": "y"}}),
        ("GET", "/api/pictures/{picture_id}", in_corpus),
        ("GET", "/api/curations", in_corpus),
        ("GET", "/api/curations/suggestions", in_corpus),
        ("POST", "/api/curations", {"json": {"kind": "create_entity", "arguments": {"name": "x"}, "corpus": corpus}}),
        ("DELETE", "/api/curations/{number}", in_corpus),
        ("GET", f"/v1/models/{corpus}", {}),
        ("POST", "/v1/chat/completions", {"json": chat}),
        ("POST", "/v1/chat/completions", {"json": chat | {"stream": True}}),
        ("POST", "/api/chat", {"json": chat}),
        ("POST", "/api/generate", {"json": {"model": corpus, "prompt": "Who sails?"}}),
        ("POST", "/api/show", {"json": {"model": corpus}}),
        *(
            ("POST", "/mcp", {"json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, "headers": MCP})
            for method, params in mcp
        ),
    ]


def test_a_corpus_of_others_is_as_one_that_is_not_there(given: Serving) -> None:
    with given.client(GIVEN) as client:

        def replies(corpus: str) -> list[str]:
            texts = []
            for method, path, options in every_call(corpus):
                path = path.format(document_id=1, entity_id=1, picture_id=1, number=1)
                texts.append(client.request(method, path, **options).text.replace(corpus, "CORPUS"))
            return [re.sub('"(id|created)": ?("chatcmpl-|[0-9])[^,]*,', "", text) for text in texts]

        with_corpus = {
            path
            for path, methods in client.get("/api/openapi.json").json()["paths"].items()
            for method in methods.values()
            if method.get("security") != []
            if "requestBody" in method or any(item["name"] == "corpus" for item in method.get("parameters", ()))
        }
        assert with_corpus <= {path for _, path, _ in every_call("x")}
        absent = replies("nowhere")
        assert not [text for text in absent if "by role" in text or "by claim" in text or "CORPUS" not in text]
        assert replies("by role") == absent


@pytest.mark.sample(1)
@pytest.mark.parametrize("route", ["/api/ask", "/v1/chat/completions", "/mcp"])
def test_who_waits_for_a_model_leaves_others_connections(
    tenants: Serving, module_db: Database, module_endpoint: Endpoint, route: str
) -> None:
    corpus = asking.stories(module_db, module_endpoint, timeout=30)
    who = {TOKENS[name]: Caller(name, f"serve_{name}") for name in TENANTS}
    with (
        serving(module_db.url, callers(who), corpus=corpus, connections=1, waiting=4, limits=Limits(wait=60)) as server,
        ThreadPoolExecutor(8) as threads,
        server.client(TOKENS["south"]) as other,
    ):
        module_endpoint.pause()
        try:

            def wait(number: int) -> int:
                question = f"Who wrote letter {number}?"
                tool = {"name": "ask", "arguments": {"question": question, "corpus": corpus}}
                bodies: dict[str, dict[str, Any]] = {
                    "/api/ask": {"question": question},
                    "/v1/chat/completions": {"model": corpus, "messages": [{"role": "user", "content": question}]},
                    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool},
                }
                with server.client(TOKENS["north"]) as client:
                    return client.post(route, json=bodies[route], headers=MCP if route == "/mcp" else {}).status_code

            waiting = [threads.submit(wait, number) for number in range(8)]
            wait_for(lambda: module_endpoint.in_flight == 2, "two requests of the model")
            assert other.post("/api/search", json={"query": "Ada", "mode": "bm25"}).status_code == 200
            assert module_endpoint.in_flight == 2
            assert not any(future.done() for future in waiting)
        finally:
            module_endpoint.resume()
        assert [future.result() for future in waiting] == [200] * 8


@pytest.mark.sample(1)
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/mcp"])
def test_who_finds_no_connection_is_told_when_to_come_again(
    tenants: Serving, module_db: Database, module_endpoint: Endpoint, route: str
) -> None:
    corpus = asking.stories(module_db, module_endpoint, timeout=30)
    who = callers({TOKENS[name]: Caller(name, f"serve_{name}") for name in TENANTS})
    ask = {"name": "ask", "arguments": {"question": "Ada?", "corpus": corpus}}
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"model": corpus, "messages": [{"role": "user", "content": "Ada?"}]},
        "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ask},
    }
    with (
        serving(module_db.url, who, corpus=corpus, waiting=1, limits=Limits(wait=1)) as server,
        ThreadPoolExecutor(1) as threads,
        server.client(TOKENS["north"]) as north,
        server.client(TOKENS["south"]) as south,
    ):
        module_endpoint.pause()
        try:
            asked = threads.submit(north.post, "/api/ask", json={"question": "Who wrote letters?"})
            wait_for(lambda: module_endpoint.in_flight == 1, "the request of the model")
            refused = south.post(route, json=bodies[route], headers=MCP if route == "/mcp" else {})
            assert "for 1 s all connections" in refused.text
            if route != "/mcp":
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
            assert not asked.done()
        finally:
            module_endpoint.resume()
        assert asked.result().status_code == 200
        assert south.post("/api/search", json={"query": "Ada"}).status_code == 200
