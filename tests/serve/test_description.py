"""The description of the HTTP API: replies are as it says, errors have one form, and clients are made from it."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pg_graphrag.beside.serve.callers import Caller

from tests.runtime.cluster import Database
from tests.serve.pages import CHROMIUM
from tests.serve.serving import TOKEN, Serving, callers, serving

QUESTION = "What did Ada Lovelace write on the Analytical Engine?"


@pytest.fixture(scope="module")
def description(server: Serving) -> dict[str, Any]:
    with server.client() as client:
        described: dict[str, Any] = client.get("/api/openapi.json").json()
    return described


def test_replies_are_as_described(server: Serving, description: dict[str, Any]) -> None:
    with server.client() as client:
        (ada,) = client.get("/api/documents", params={"text": "ada"}).json()["documents"]
        (entity, *_) = client.get("/api/graph", params={"limit": 5}).json()["nodes"]
        verdict = {"question": QUESTION, "verdict": "good"}
        asked: list[tuple[str, str, dict[str, Any]]] = [
            ("get", "/api/session", {}),
            ("get", "/api/corpora", {}),
            ("get", "/api/status", {}),
            ("get", "/api/documents", {}),
            ("get", "/api/documents/{document_id}", {"id": ada["document_id"]}),
            ("post", "/api/documents/{document_id}/place", {"id": ada["document_id"], "json": {"text": "Ada"}}),
            ("post", "/api/documents", {"json": {"documents": [{"content": "Ada rests.", "source_key": "rest"}]}}),
            ("post", "/api/upload", {"files": {"files": ("a.txt", b"Ada sleeps.")}}),
            ("post", "/api/search", {"json": {"query": QUESTION}}),
            ("post", "/api/context", {"json": {"query": QUESTION}}),
            ("post", "/api/feedback", {"json": verdict}),
            ("get", "/api/feedback", {}),
            ("get", "/api/graph", {}),
            ("get", "/api/graph/communities", {}),
            ("get", "/api/graph/entities", {"params": {"query": "Ada"}}),
            ("get", "/api/graph/entities/{entity_id}", {"id": entity["id"]}),
            ("get", "/api/graph/path", {"params": {"source": "Ada Lovelace", "target": "Analytical Engine"}}),
            ("post", "/api/curations", {"json": {"kind": "create_entity", "arguments": {"name": "Zed", "type": "x"}}}),
            ("get", "/api/curations", {}),
            ("get", "/api/curations/suggestions", {}),
        ]
        for method, path, options in asked:
            number = options.pop("id", None)
            reply = client.request(method, re.sub(r"\{\w+\}", str(number), path), **options)
            assert reply.status_code == 200, (path, reply.text)
            schema = description["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
            closed = {"components": closed_schemas(description, path)}
            jsonschema.validate(reply.json(), schema | closed)


def closed_schemas(description: dict[str, Any], path: str) -> dict[str, Any]:
    """The schemas, which allow nothing that they do not name; the status says that there may be more."""
    schemas = {
        name: schema | {"additionalProperties": False} for name, schema in description["components"]["schemas"].items()
    }
    if path == "/api/status":
        del schemas["Status"]["additionalProperties"]
    if path == "/api/context":
        del schemas["Context"]["additionalProperties"]
    return {"schemas": schemas}


def test_every_route_wants_a_token_and_says_so_in_its_form(server: Serving, description: dict[str, Any]) -> None:
    routes = [
        (path, method)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
        if operation.get("security") != []
    ]
    assert {"/api/tags", "/api/chat", "/api/generate", "/api/show", "/api/ps", "/api/feedback"} <= {
        path for path, _ in routes
    }
    with server.client(None) as client:
        for (path, method), headers in product(routes, ({}, {"cookie": "pg_graphrag_session=x"})):
            reply = client.request(method, re.sub(r"\{\w+\}", "1", path), headers=headers)
            assert reply.status_code == 401, (method, path)
            if path.startswith("/v1/"):
                assert reply.json()["error"]["type"] == "authentication_error"
            elif "Ollama" in description["paths"].get(path, {}).get(method, {}).get("tags", ()):
                assert isinstance(reply.json()["error"], str)
            else:
                assert reply.headers["content-type"] == "application/problem+json"
                jsonschema.validate(reply.json(), description["components"]["schemas"]["Problem"])


def test_a_cookie_alone_asks_no_model_by_the_new_routes(server: Serving, corpus: str) -> None:
    with server.client() as client:
        client.post("/api/session")
        cookies = dict(client.cookies)
    with server.client(None, cookies=cookies) as browser:
        for path in ("/api/chat", "/api/generate", "/api/show", "/v1/chat/completions"):
            assert browser.post(path, json={"model": corpus}).status_code == 403
        assert browser.get("/docs").status_code == 200


def test_an_unknown_corpus_is_the_same_everywhere(server: Serving, description: dict[str, Any]) -> None:
    gets = [path for path, methods in description["paths"].items() if "get" in methods and has_corpus(methods["get"])]
    assert len(gets) > 10
    with server.client() as client:
        for path in gets:
            params = {"corpus": "none", "query": "Ada", "source": "Ada", "target": "Ada", "text": "Ada"}
            reply = client.get(re.sub(r"\{\w+\}", "1", path), params=params)
            assert (reply.status_code, reply.json()["code"]) == (404, "42704"), path
        for path, body in (
            ("/api/search", {"query": "Ada"}),
            ("/api/context", {"query": "Ada"}),
            ("/api/ask", {"question": "Ada"}),
            ("/api/documents", {"documents": [{"content": "a"}]}),
            ("/api/feedback", {"question": "a", "verdict": "good"}),
            ("/api/documents/1/place", {"text": "a"}),
            ("/api/curations", {"kind": "delete_entity", "arguments": {"entity": "Ada"}}),
        ):
            reply = client.post(path, json=body | {"corpus": "none"})
            assert (reply.status_code, reply.json()["code"]) == (404, "42704"), path
        for path in ("/api/documents/1", "/api/curations/1"):
            assert client.delete(path, params={"corpus": "none"}).status_code == 404


def has_corpus(operation: dict[str, Any]) -> bool:
    return any(parameter["name"] == "corpus" for parameter in operation.get("parameters", ()))


def test_head_is_get_without_a_body(server: Serving) -> None:
    with server.client() as client:
        for path in ("/", "/healthz", "/readyz", "/docs", "/api/session", "/api/documents", "/v1/models", "/api/tags"):
            got, head = client.get(path), client.head(path)
            assert (head.status_code, head.content) == (200, b""), path
            assert head.headers["content-type"] == got.headers["content-type"]
        assert client.head("/api/documents/999999").status_code == 404
    with server.client(None) as client:
        assert client.head("/api/documents").status_code == 401


def test_what_is_no_route_is_said_with_what_there_is(server: Serving, corpus: str) -> None:
    with server.client() as client:
        for method, path, allowed in (("PUT", "/api/search", "POST"), ("GET", "/v1/chat/completions", "POST")):
            reply = client.request(method, path)
            assert (reply.status_code, reply.headers["allow"]) == (405, allowed)
        problem = client.get("/api/none").json()
        assert (problem["status"], problem["detail"]) == (404, "there is no such path")
        asked = json.dumps({"model": corpus, "messages": []})
        reply = client.post("/v1/chat/completions", content=asked, headers={"content-type": "text/plain"})
        assert (reply.status_code, "Content-Type: application/json" in reply.text) == (400, True)


def test_verdicts_are_for_who_may_read_them(module_db: Database, server: Serving, corpus: str) -> None:
    module_db.execute("DROP ROLE IF EXISTS judged")
    module_db.execute("CREATE ROLE judged IN ROLE graphrag_reader")
    with server.client() as client:
        client.post("/api/feedback", json={"question": "Who?", "verdict": "bad", "comment": "too short"})
        (latest, *_) = client.get("/api/feedback", params={"limit": 1}).json()
        assert (latest["question"], latest["verdict"], latest["comment"]) == ("Who?", "bad", "too short")
        assert client.get("/api/feedback", params={"before": latest["id"]}).json() == [
            row for row in client.get("/api/feedback").json() if row["id"] < latest["id"]
        ]
    who = callers({"reads": Caller("reader", "judged")})
    with serving(module_db.url, who, corpus=corpus) as address, address.client("reads") as client:
        assert client.get("/api/feedback").status_code == 403
    module_db.execute("DROP ROLE judged")


def test_readiness_asks_the_database(server: Serving, module_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with server.client(None) as client:
        assert client.get("/readyz").json() == {"status": "ready"}
    from pg_graphrag.beside.serve.caller_database import Database as Served

    with serving(module_db.url) as address, address.client(None) as client:
        asked = []

        def gone(self: Served) -> bool:
            asked.append(self)
            return False

        monkeypatch.setattr(Served, "_pinged", gone)
        for _ in range(20):
            reply = client.get("/readyz")
            assert (reply.status_code, reply.json()["code"]) == (503, "08006")
        assert client.get("/healthz").status_code == 200
        # Whoever asks how often, the database is asked once.
        assert len(asked) == 1


CLIENT = """
import createClient from "openapi-fetch";
import type { paths } from "./api.d.ts";
const client = createClient<paths>({ baseUrl: process.argv[2], headers: { authorization: `Bearer ${process.argv[3]}` } });
const { data, error } = await client.POST("/api/search", { body: { query: "Ada Lovelace", top_k: 1 } });
const first: string | undefined = data?.results[0]?.source_key;
const refused = await client.GET("/api/documents/{document_id}", { params: { path: { document_id: 999999 } } });
const code: string | undefined = refused.error && "code" in refused.error ? String(refused.error.code) : undefined;
// @ts-expect-error: the number of results is no text
const wrong: string = data?.results[0]?.rank;
console.log(JSON.stringify({ first, code, error: error ?? null }));
"""


@pytest.mark.slow
def test_a_typescript_client_is_made_from_it(
    server: Serving, description: dict[str, Any], node: Path, tmp_path: Path
) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(description))
    (tmp_path / "client.ts").write_text(CLIENT)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(node)
    programs = node / ".bin"

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    linted = run(programs / "redocly", "lint", "openapi.json", "--format=json")
    assert json.loads(linted[linted.index("{") :])["totals"]["errors"] == 0
    run(programs / "openapi-typescript", "openapi.json", "--default-non-nullable=false", "--output", "api.d.ts")
    options = "--strict --module esnext --moduleResolution bundler --target es2022 --skipLibCheck".split()
    (tmp_path / "process.d.ts").write_text("declare const process: { argv: string[] };")
    run(programs / "tsc", *options, "client.ts", "process.d.ts")
    said = json.loads(run("node", "client.js", server.url, TOKEN))
    assert (said["first"], said["code"], said["error"]) == ("ada", "02000", None)


@pytest.mark.slow
@pytest.mark.chromium
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_the_page_of_the_api_sends_a_search(server: Serving, description: dict[str, Any]) -> None:
    driver = pytest.importorskip("playwright.sync_api")
    with (
        driver.sync_playwright() as run,
        run.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as chromium,
    ):
        page = chromium.new_context(viewport={"width": 375, "height": 700}).new_page()
        failed: list[str] = []
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
        page.goto(f"{server.url}/#token={TOKEN}")
        page.wait_for_selector("#question, textarea")
        page.goto(f"{server.url}/docs")
        page.wait_for_selector("details")
        assert page.locator("details").count() == sum(map(len, description["paths"].values()))
        route = page.locator("details", has_text="POST /api/search").first
        route.locator("summary").click()
        route.locator("textarea").fill('{"query": "Ada Lovelace", "top_k": 1}')
        route.get_by_text("Send", exact=True).click()
        route.locator("pre", has_text='"source_key":"ada"').wait_for()
        route.locator("textarea").fill('{"query": ""}')
        route.get_by_text("Send", exact=True).click()
        route.locator("[role=alert]", has_text="body.query").wait_for()
        # Nothing of it breaks the policy, or is wider than a phone. Refusals are failed requests.
        assert [text for text in failed if "400" not in text and "401" not in text] == []
        assert page.evaluate("document.documentElement.scrollWidth <= 375")
