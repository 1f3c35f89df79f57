"""pg-graphrag serve follows the catalogue: each call at the node that has its corpus, with the caller's rights there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest
from pg_graphrag.beside.serve.callers import Caller

from tests.runtime.cluster import Cluster, Server
from tests.runtime.nodes import Node, fill, nodes_of, place
from tests.security.acting import new_role
from tests.serve.serving import Serving, callers, serving
from tests.serve.test_mcp import call, error_of, over_http
from tests.sql.ingest import STORIES
from tests.sql.themes import SEA

if TYPE_CHECKING:
    from mcp.client.client import Client

ASKED = {"query": "Who admired Ada Lovelace?", "corpus": "stories"}
BOTH = "Who admired Ada Lovelace, and who is Nemo?"


@pytest.fixture(scope="module")
def two(shared_cluster: Cluster | Server) -> Iterator[dict[str, Node]]:
    with nodes_of(dict.fromkeys("ab", shared_cluster)) as two:
        fill(two["a"], "sea", SEA)
        fill(two["b"], "stories", STORIES)
        place(two, "stories", "b", "a")
        yield two


@pytest.fixture(scope="module")
def tenant(two: dict[str, Node]) -> Iterator[str]:
    """A member of both databases, who was given stories where it is; and one who was given nothing."""
    with (
        psycopg.connect(two["b"].url, autocommit=True) as owner,
        new_role(owner) as reader,
        new_role(owner) as stranger,
    ):
        for node in two.values():
            node.execute(f"GRANT graphrag_member TO {reader}, {stranger}")
        owner.execute("SELECT graphrag.grant_corpus('stories', %s)", [reader])
        yield f"{reader} {stranger}"
        owner.execute("SELECT graphrag.revoke_corpus('stories', %s)", [reader])


@pytest.fixture(scope="module")
def server(two: dict[str, Node], tenant: str) -> Iterator[Serving]:
    reader, stranger = tenant.split()
    who = callers({"of-tenant": Caller("tenant", reader), "of-stranger": Caller("stranger", stranger)})
    with serving(two["a"].url, who, corpus="sea") as server:
        yield server


def test_a_call_is_made_where_its_corpus_is(server: Serving) -> None:
    with server.client() as http:
        reply = http.post("/api/search", json=ASKED)
        assert reply.status_code == 200, reply.text
        assert {hit["corpus"] for hit in reply.json()["results"]} == {"stories"}
        assert http.get("/api/documents", params={"corpus": "stories"}).json()["total"] == len(STORIES)
        assert http.get("/api/status", params={"corpus": "stories"}).json()["documents"] == len(STORIES)
        assert http.get("/api/status").json()["documents"] == len(SEA)
        answer = http.post("/api/ask", json={"question": ASKED["query"], "corpus": "stories"})
        assert answer.status_code == 200 and "Lovelace" in answer.text
        assert {row["name"] for row in http.get("/api/corpora").json()} == {"sea", "stories"}


def test_several_corpora_are_asked_where_they_are(server: Serving) -> None:
    asked = {"query": BOTH, "mode": "bm25"}
    with server.client() as http:
        for corpora in (["sea", "stories"], ["*"]):
            reply = http.post("/api/search", json=asked | {"corpora": corpora, "top_k": 5, "offset": 1})
            assert reply.status_code == 200, reply.text
            rows = reply.json()["results"]
            assert {hit["corpus"] for hit in rows} == {"sea", "stories"}
            assert [hit["rank"] for hit in rows] == list(range(2, 2 + len(rows)))
        assert http.post("/api/search", json=asked | {"corpora": ["sea", "nowhere"]}).status_code == 404
        assert http.post("/api/search", json=asked | {"corpora": ["stories"], "options": {"no": 1}}).status_code == 400
        assert http.post("/api/search", json=asked | {"corpora": ["sea"]}).status_code == 200
    with server.client("of-tenant") as http:
        rows = http.post("/api/search", json=asked | {"corpora": ["*"]}).json()["results"]
        assert {hit["corpus"] for hit in rows} == {"stories"}
        refused = http.post("/api/search", json=asked | {"corpora": ["sea", "stories"]})
        assert refused.status_code == 404 and "sea" in refused.text
    with server.client("of-stranger") as http:
        assert http.post("/api/search", json=asked | {"corpora": ["stories"]}).status_code == 404


def test_tools_search_several_nodes_too(server: Serving) -> None:
    async def talk(client: Client) -> None:
        for corpora in (["sea", "stories"], ["*"]):
            hits = await call(client, "search", corpora=corpora, query=BOTH, mode="bm25", limit=8)
            assert {row["corpus"] for row in hits["results"]} == {"sea", "stories"}
            for row in hits["results"]:
                part = await call(client, "read_document", corpus=row["corpus"], document_id=row["document_id"])
                assert part["content"][row["offset"] :].startswith(row["excerpt"].removesuffix(" …"))
        assert "nowhere" in await error_of(client, "search", corpora=["stories", "nowhere"], query=BOTH)

    over_http(server.url, talk)


def test_rights_are_those_at_the_node_and_a_stranger_is_told_nothing(server: Serving) -> None:
    with server.client("of-tenant") as http:
        assert http.post("/api/search", json=ASKED).status_code == 200
        assert [row["name"] for row in http.get("/api/corpora").json()] == ["stories"]
    with server.client("of-stranger") as http:
        unknown = http.post("/api/search", json=ASKED | {"corpus": "nowhere"})
        for path, body in (("/api/search", ASKED), ("/api/ask", {"question": "who", "corpus": "stories"})):
            refused = http.post(path, json=body)
            assert refused.status_code == unknown.status_code == 404
            assert refused.text.replace("stories", "nowhere") == unknown.text
        assert http.get("/api/corpora").json() == []
    # He has lost nobody the way.
    with server.client("of-tenant") as http:
        assert http.post("/api/search", json=ASKED).status_code == 200


def test_a_corpus_that_moves_is_found_again(server: Serving, two: dict[str, Node]) -> None:
    fill(two["b"], "moving", SEA)
    place(two, "moving", "b", "a")
    with server.client() as http:
        asked = {"query": "Captain Nemo", "corpus": "moving"}
        assert http.post("/api/search", json=asked).json()["results"]
        two["b"].execute("SELECT graphrag.drop_corpus('moving')")
        place(two, "moving", None, "a")
        fill(two["a"], "moving", SEA)
        reply = http.post("/api/search", json=asked)
        assert reply.status_code == 200, reply.text
        two["a"].execute("SELECT graphrag.drop_corpus('moving')")
        assert http.post("/api/search", json=asked).status_code == 404


def test_a_name_of_the_first_database_is_asked_there_whoever_lists_another(
    server: Serving, two: dict[str, Node], tenant: str
) -> None:
    reader = tenant.split()[0]
    fill(two["a"], "twice", SEA)
    fill(two["b"], "twice", STORIES)
    two["b"].execute("SELECT graphrag.grant_corpus('twice', %s)", reader)
    try:
        # He sees that of b alone.
        with server.client("of-tenant") as http:
            assert "twice" not in {row["name"] for row in http.get("/api/corpora").json()}
        with server.client() as http:
            reply = http.get("/api/documents", params={"corpus": "twice"})
            assert reply.json()["total"] == len(SEA)
    finally:
        two["b"].execute("SELECT graphrag.revoke_corpus('twice', %s)", reader)
        for node in two.values():
            node.execute("SELECT graphrag.drop_corpus('twice')")
