"""Hostile requests to ``pg-graphrag serve``: other origins, other hosts, floods, forged identities, paths, bodies."""

import http.client
import ipaddress
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from pg_graphrag.beside.client import GraphRAG
from pg_graphrag.beside.readers import ReadOptions
from pg_graphrag.beside.serve import uploads
from pg_graphrag.beside.serve.caller_database import Database
from pg_graphrag.beside.serve.callers import Caller, Proxy, _hash, read_callers, token_hash
from pg_graphrag.beside.serve.settings import Limits
from pg_graphrag.ground.errors import GraphRAGError

from tests.runtime.cluster import Database as Running
from tests.serve.serving import OWNER, TOKEN, Serving, callers, logged, serving
from tests.sql.ingest import wait_for

SEARCH: dict[str, Any] = {"query": "Ada", "mode": "bm25"}
READER = Caller("reader")


def raw(server: Serving, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, str]:
    """Status and text of a request whose every header is the caller's."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body:
        connection.putheader("content-length", str(len(body)))
    connection.endheaders(body or None)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def host(server: Serving) -> str:
    return urlsplit(server.url).netloc


@pytest.mark.parametrize(
    "path",
    [
        "/api/session",
        "/api/corpora",
        "/api/documents",
        "/api/graph",
        "/api/openapi.json",
        "/v1/models",
        "/mcp",
        "/static/../api/corpora",
        "//api/corpora",
        "/API/corpora",
    ],
)
def test_nothing_is_told_without_a_token(server: Serving, path: str, corpus: str) -> None:
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": f"{server.cookie}=x"},
    ):
        status, text = raw(server, "GET", path, {"host": host(server), **headers})
        assert status in (401, 404, 429), path
        assert corpus not in text


def test_other_host_names_are_refused(server: Serving) -> None:
    for name in ("evil.example", f"evil.example:{host(server).split(':')[1]}", "127.0.0.1", "", "127.0.0.1:1"):
        status, _ = raw(server, "GET", "/", {"host": name})
        assert status in (400, 421), name
    assert raw(server, "GET", "/", {"host": host(server).replace("127.0.0.1", "localhost")})[0] == 200


def test_other_origins_are_refused_and_there_is_no_cors(server: Serving) -> None:
    body = json.dumps(SEARCH).encode()
    own = {"host": host(server), "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    for foreign in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": f"https://{host(server)}"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ):
        assert raw(server, "POST", "/api/search", own | foreign, body)[0] == 403, foreign
    assert raw(server, "POST", "/api/search", own | {"origin": server.url}, body)[0] == 200
    with server.client() as client:
        asked = {"origin": server.url, "access-control-request-method": "POST"}
        reply = client.options("/api/search", headers=asked)
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_a_cookie_alone_changes_nothing(server: Serving, corpus: str) -> None:
    with server.client() as client:
        reply = client.post("/api/session")
        csrf = reply.json()["csrf"]
        cookie = reply.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        value = client.cookies[server.cookie]
    with server.client(None, cookies={server.cookie: value}) as browser:
        assert browser.get("/api/session").json()["csrf"] == csrf
        for headers in ({}, {"x-csrf-token": "wrong"}, {"x-csrf-token": ""}):
            assert browser.post("/api/search", json=SEARCH, headers=headers).status_code == 403
            assert browser.request("DELETE", "/api/documents/1", headers=headers).status_code == 403
        assert browser.post("/api/search", json=SEARCH, headers={"x-csrf-token": csrf}).status_code == 200
        assert browser.delete("/api/session", headers={"x-csrf-token": csrf}).status_code == 200
    with server.client(None, cookies={server.cookie: value}) as browser:
        assert browser.get("/api/session").status_code == 401


def test_nobody_is_signed_out_by_who_signs_in_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pg_graphrag.beside.serve.callers.MAX_SESSIONS", 10)
    who = callers({"of-another": READER})
    quiet, _ = who.begin_session(READER)
    cookies = [who.begin_session(OWNER)[0] for _ in range(30)]
    assert who.session(quiet) is not None
    assert who.session(cookies[-1]) is not None
    assert who.session(cookies[0]) is None


def test_every_reply_keeps_other_pages_out(server: Serving) -> None:
    with server.client() as client:
        for path in ("/", "/static/app.js", "/api/session", "/api/none", "/static/none"):
            headers = client.get(path).headers
            assert "default-src 'none'" in headers["content-security-policy"], path
            assert "unsafe" not in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/static/%00"]
)
def test_no_file_but_the_pages_own_is_served(server: Serving, path: str) -> None:
    status, text = raw(server, "GET", path, {"host": host(server), "authorization": f"Bearer {TOKEN}"})
    assert status in (400, 404)
    assert "import" not in text
    assert "root:" not in text


def test_an_upload_ends_with_its_request(module_db: Running, corpus: str) -> None:
    # Nobody waits any more, and a connection that others need would be taken for a minute a file.
    slow = uploads.Upload("slow.html", b"<p>" + b"<b>x</b>" * 1_000_000)
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        rag = GraphRAG(connection, corpus)
        with pytest.raises(GraphRAGError) as raised:
            uploads.insert(rag, [slow, uploads.Upload("after.txt", b"After.")], seconds=0.5, options=ReadOptions())
    assert raised.value.sqlstate == "57014"
    assert "after.txt" in raised.value.message
    assert module_db.execute("SELECT count(*) FROM graphrag.documents WHERE source_key = 'after.txt'").fetchone() == (
        0,
    )


def test_large_bodies_are_refused_whatever_they_say_of_themselves(module_db: Running, corpus: str) -> None:
    with serving(module_db.url, corpus=corpus, limits=Limits(body=1000, upload=2000)) as server:
        large = json.dumps({"query": "x" * 2000}).encode()

        def pieces() -> Iterator[bytes]:
            yield from (large[start : start + 100] for start in range(0, len(large), 100))

        with server.client() as client:
            json_header = {"content-type": "application/json"}
            assert client.post("/api/search", content=large, headers=json_header).status_code == 413
            assert client.post("/api/search", content=pieces(), headers=json_header).status_code == 413
            assert client.post("/mcp", content=pieces(), headers=json_header).status_code == 413
            files = [("files", ("a.txt", b"x" * 3000))]
            assert client.post("/api/upload", files=files).status_code == 413
            assert client.post("/api/search", json=SEARCH | {"corpus": corpus}).status_code == 200
        own = {"host": host(server), "authorization": f"Bearer {TOKEN}", "content-length": "-1"}
        assert raw(server, "POST", "/api/search", own)[0] in (400, 413)


def test_floods_are_slowed_for_their_caller_alone(module_db: Running, corpus: str) -> None:
    who = callers({"token-of-a-reader-of-documents": READER})
    with serving(module_db.url, who, corpus=corpus, limits=Limits(rate=0.01, burst=5, failures=3)) as server:
        with server.client() as client, server.client("token-of-a-reader-of-documents") as other:
            statuses = [client.get("/api/session").status_code for _ in range(8)]
            assert statuses == [200] * 5 + [429] * 3
            assert int(client.get("/api/session").headers["retry-after"]) >= 1
            assert other.get("/api/session").status_code == 200
        with server.client("wrong") as stranger:
            assert [stranger.get("/api/session").status_code for _ in range(5)] == [401] * 3 + [429] * 2


def test_a_caller_has_so_many_requests_at_a_time(module_db: Running, corpus: str) -> None:
    with serving(module_db.url, corpus=corpus, limits=Limits(calls=1)) as server, server.client() as client:
        with module_db.transaction():
            module_db.execute("LOCK TABLE graphrag.documents")
            # Looking whether it is at work is a request, too, and may be in its way.
            first = threading.Thread(target=lambda: wait_for(lambda: post(server) != 429, "a place"))
            first.start()
            wait_for(lambda: client.get("/api/session").status_code == 429, "a request at work")
        first.join(60)
        assert client.get("/api/session").status_code == 200


def post(server: Serving) -> int:
    with server.client() as client:
        return client.post("/api/search", json=SEARCH).status_code


def test_a_long_request_is_ended_and_its_connection_serves_the_next(module_db: Running, corpus: str) -> None:
    limits = Limits(seconds=1.0)
    with serving(module_db.url, corpus=corpus, connections=1, limits=limits) as server, server.client() as client:
        with module_db.transaction():
            module_db.execute("LOCK TABLE graphrag.documents")
            reply = client.post("/api/search", json=SEARCH)
            assert (reply.status_code, reply.json()["code"]) == (504, "57014")
        wait_for(lambda: client.post("/api/search", json=SEARCH).status_code == 200, "an answer")


@contextmanager
def proxied(url: str, corpus: str) -> Iterator[Serving]:
    proxy = Proxy(
        "x-forwarded-user",
        "x-proxy-secret",
        _hash("secret of the proxy"),
        (ipaddress.ip_network("127.0.0.1/32"),),
        {"ann@example.com": OWNER},
    )
    origins = ("https://rag.example.com",)
    with serving(url, callers(proxy=proxy), corpus=corpus, origins=origins) as server:
        yield server


def test_a_proxy_vouches_for_its_users_and_nobody_else_does(module_db: Running, corpus: str) -> None:
    ann, secret = {"x-forwarded-user": "ann@example.com"}, {"x-proxy-secret": "secret of the proxy"}
    with proxied(module_db.url, corpus) as server, server.client(None) as client:
        assert client.get("/api/session", headers=ann | secret).json()["name"] == "owner"
        assert client.get("/api/session", headers=ann | secret | {"host": "rag.example.com"}).status_code == 200
        for forged in (
            ann,
            ann | {"x-proxy-secret": "wrong"},
            secret,
            secret | {"x-forwarded-user": "bob@example.com"},
        ):
            assert client.get("/api/session", headers=forged).status_code == 401
        foreign = ann | secret | {"origin": "https://evil.example"}
        assert client.post("/api/search", json=SEARCH, headers=foreign).status_code == 403
        own = ann | secret | {"origin": "https://rag.example.com"}
        assert client.post("/api/search", json=SEARCH, headers=own).status_code == 200
        # MCP passes the same gate, a proxy's own Authorization says nothing, and no cookie stands in for the proxy's word.
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        there = ann | secret | {"host": "rag.example.com", "accept": "application/json, text/event-stream"}
        assert client.post("/mcp", json=call, headers=there).status_code == 200
        basic = ann | secret | {"authorization": "Basic YW5uOng="}
        assert client.get("/api/session", headers=basic).status_code == 200
        assert client.post("/api/session", headers=ann | secret).status_code == 400


def test_rights_are_asked_for(module_db: Running, corpus: str) -> None:
    who = callers({"token-of-a-reader-of-documents": READER})
    with (
        serving(module_db.url, who, corpus=corpus) as server,
        server.client("token-of-a-reader-of-documents") as client,
    ):
        assert client.post("/api/documents", json={"documents": [{"content": "x"}]}).status_code == 403
        assert client.post("/api/upload", files=[("files", ("a.txt", b"x"))]).status_code == 403
        assert client.delete("/api/documents/1").status_code == 403
        new = {"kind": "create_entity", "arguments": {"name": "x"}}
        assert client.post("/api/curations", json=new).status_code == 403
        assert client.delete("/api/curations/1").status_code == 403


def test_no_secret_and_no_question_is_logged(module_db: Running, corpus: str) -> None:
    password = "secret-of-the-database"
    question = "What-does-nobody-know"
    module_db.execute(f"CREATE ROLE serve_logged LOGIN SUPERUSER PASSWORD '{password}'".encode())
    url = f"postgresql://serve_logged:{password}@{module_db.info.host}:{module_db.info.port}/{module_db.info.dbname}"
    with (
        logged() as lines,
        serving(url, corpus=corpus) as server,
        server.client() as client,
        server.client("a-wrong-token-of-somebody") as stranger,
    ):
        client.get("/api/graph/entities", params={"query": question})
        client.post("/api/search", json={"query": question, "mode": "bm25"})
        client.post("/api/search", json={"query": question, "corpus": "none"})
        client.post("/api/ask", json={"question": question})
        client.get(f"/api/%0a2026 INFO forged {question}")
        stranger.get("/api/session")
        cookie = client.post("/api/session").cookies[server.cookie]
    module_db.execute("DROP ROLE serve_logged")
    text = "\n".join(lines)
    assert "POST /api/search 200" in text
    for secret in (TOKEN, password, "a-wrong-token-of-somebody", cookie):
        assert secret not in text
    own = [line for line in lines if "owner" in line]
    assert not [line for line in own if question in line and "forged" not in line]
    assert not [line for line in text.splitlines() if line.startswith("2026 INFO forged")]


def test_a_role_that_may_not_be_taken_on_stops_the_start(module_db: Running, corpus: str) -> None:
    who = callers({"token-of-a-role-that-is-not": Caller("ghost", "no_such_role")})
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="no_such_role"):
        Database(module_db.url, 1, 8, who.all, 10).check(who.all)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no callers"),
        ("callers = 1", "not an array"),
        ('[[callers]]\nname = "a"\ntoken_sha256 = "short"\nrole = "r"', "64 hexadecimal"),
        (f'[[callers]]\ntoken_sha256 = "{"0" * 64}"', "no role"),
        ('[[callers]]\nrole = "r"', "one of token_sha256, password_argon2, identity"),
        ('[[callers]]\nidentity = "a"\nrole = "r"', "neither proxy nor provider"),
        (f'[[callers]]\ntoken = "{TOKEN}"\nrole = "r"', "has no 'token'"),
        (f'[[callers]]\ntoken_sha256 = "{"0" * 64}"\nrole = "r"\nmay = ["drop"]', "no right 'drop'"),
        (f'[[callers]]\ntoken_sha256 = "{"0" * 64}"\nrole = "r"\nsettings = {{ role = "x" }}', "setting 'role'"),
        (
            f'[[callers]]\ntoken_sha256 = "{"0" * 64}"\nrole = "r"\nsettings = {{ "graphrag.x" = "1" }}',
            "setting 'graphrag.x'",
        ),
        (f'[[callers]]\ntoken_sha256 = "{"0" * 64}"\nrole = "r"\n' * 2, "token or identity"),
    ],
)
def test_a_wrong_file_of_callers_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "callers.toml"
    file.write_text(text)
    with pytest.raises(GraphRAGError, match=message) as caught:
        read_callers(file)
    assert TOKEN not in str(caught.value)


def test_the_file_of_callers_names_roles_claims_and_rights(tmp_path: Path) -> None:
    file = tmp_path / "callers.toml"
    file.write_text(f"""
        [[callers]]
        name = "Ann"
        token_sha256 = "{token_hash(TOKEN)}"
        role = "ann"
        settings = {{ "app.tenant" = "a" }}
        may = ["insert"]

        [[callers]]
        identity = "bob@example.com"
        role = "bob"

        [proxy]
        secret_sha256 = "{token_hash("secret")}"
    """)
    callers = read_callers(file)
    assert callers.by_token(TOKEN) == Caller("Ann", "ann", (("app.tenant", "a"),), frozenset(("insert",)))
    assert callers.by_token(token_hash(TOKEN)) is None
    assert callers.proxy is not None
    headers = {"x-forwarded-user": "bob@example.com", "x-proxy-secret": "secret"}
    assert callers.proxy.caller("127.0.0.1", headers) == Caller("bob@example.com", "bob")
    assert callers.proxy.caller("10.0.0.1", headers) is None


@pytest.mark.parametrize("sent", ["", "GET / HTTP/1.1\r\nHost: "])
def test_connections_that_ask_nothing_keep_nobody_out(module_db: Running, sent: str) -> None:
    with serving(module_db.url, limit=5) as server, ExitStack() as open_ones:
        address = urlsplit(server.url)
        for _ in range(8):
            idle = open_ones.enter_context(socket.create_connection((address.hostname, address.port)))
            idle.sendall(sent.encode())
        with server.client() as client:
            assert client.get("/api/session").status_code == 200
