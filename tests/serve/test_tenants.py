"""Two tenants of one server and one set of connections, at once: nothing crosses.

``GRAPHRAG_TENANT_CALLS=10000`` makes as many calls.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from pg_graphrag.serve.callers import Caller
from pg_graphrag.serve.settings import Limits

from tests.runtime.cluster import Database
from tests.serve.serving import Serving, callers, serving
from tests.sql.ingest import put

CALLS = int(os.environ.get("GRAPHRAG_TENANT_CALLS", "400"))
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
        ("GET", "/api/graph", {"params": {"corpus": corpus}}),
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
